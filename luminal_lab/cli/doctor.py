"""`luminal-lab doctor`: what works on this machine, what does not, and what mends it."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import warnings
from collections.abc import Mapping
from dataclasses import replace

import luminal_lab
from luminal_lab.cli.checks import CHECKS, Check, Found, State
from luminal_lab.cli.command import Command, Reader
from luminal_lab.cli.installing import typed
from luminal_lab.cli.saying import say
from luminal_lab.errors import LabWarning
from luminal_lab.progress import progress

ABOUT = """\
Say what works on this machine and what does not, each with the one command that mends it. What can
be tried is tried: a graph is computed by the interpreter, by the C compiler, and on a GPU if there
is one."""
EXAMPLES = """\
luminal-lab doctor             a line for each thing
luminal-lab doctor --json      for a program"""
STATUS = """\
exit status: 0 if the basics work (Python, its packages, the interpreter), whatever else is missing;
1 if they do not"""
FORMAT = 1
WORDS: Mapping[State, str] = {
    "works": "works",
    "missing": "missing",
    "fails": "fails",
    "none": "not here",
}
COLOURS: Mapping[State, int] = {"works": 32, "missing": 33, "fails": 31, "none": 2}
"""How a terminal shows each: green, yellow, red, dim."""


def options(one: Reader) -> None:
    """Say what may be asked for."""
    one.add_argument("--json", action="store_true", help="for a program")


def run(given: argparse.Namespace) -> int:
    """Look at everything, and say what was found."""
    found: dict[Check, Found] = {}
    with progress("doctor", len(CHECKS), "check") as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore", LabWarning)  # what there is to say has a row
        for check in bar.each(CHECKS, lambda one: one.name):
            one = check.found()
            found[check] = replace(one, mend=typed(one.mend))
    is_well = all(one.state == "works" for check, one in found.items() if check.is_basic)
    if given.json:
        say(json.dumps(as_json(found, is_well=is_well), indent=1, ensure_ascii=False))
    else:
        is_coloured = sys.stdout.isatty() and sys.platform != "win32"
        say("\n".join(lines(found, is_coloured=is_coloured)), painted=is_coloured)
    return 0 if is_well else 1


def lines(found: Mapping[Check, Found], *, is_coloured: bool) -> list[str]:
    """Return what was found: a line each, and behind it what mends it."""
    system = f"{platform.system()} {platform.machine()}"
    rows = [f"luminal_lab {luminal_lab.__version__} on {system}", ""]
    wide = max(len(check.name) for check in found) + 2
    for check, one in found.items():
        word = f"{WORDS[one.state]:8}"
        if is_coloured:
            word = f"\033[{COLOURS[one.state]}m{word}\033[0m"
        rows.append(f"  {word}  {check.name:{wide}}{one.what}")
        if one.mend:
            rows.append(f"  {'':8}  {'':{wide}}to mend it: {one.mend}")
    return [*rows, "", conclusion(found)]


def conclusion(found: Mapping[Check, Found]) -> str:
    """Say in a sentence how it stands."""
    broken = [c.name for c, one in found.items() if one.state in ("missing", "fails")]
    basic = [check.name for check in found if check.is_basic and check.name in broken]
    if basic:
        return f"luminal_lab does not work here: {', '.join(basic)}"
    if broken:
        return f"The basics work; what could be better: {', '.join(broken)}."
    return "All works that this machine can have."


def as_json(found: Mapping[Check, Found], *, is_well: bool) -> dict[str, object]:
    """Return what was found, for a program."""
    return {
        "format": FORMAT,
        "luminal_lab": luminal_lab.__version__,
        "system": platform.system(),
        "machine": platform.machine(),
        "well": is_well,
        "checks": [
            {
                "name": check.name,
                "basic": check.is_basic,
                "state": one.state,
                "what": one.what,
                "mend": one.mend,
            }
            for check, one in found.items()
        ],
    }


COMMAND = Command("doctor", ABOUT, EXAMPLES, options, run, STATUS)
