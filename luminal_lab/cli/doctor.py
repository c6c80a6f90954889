"""`luminal-lab doctor`: what works on this machine, what does not, and how to fix it."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import warnings
from collections.abc import Mapping
from dataclasses import replace

import luminal_lab
from luminal_lab.cli.checks import CHECKS, CheckResult, DoctorCheck, State
from luminal_lab.cli.command import Command, OptionReader
from luminal_lab.cli.installing import typed
from luminal_lab.cli.saying import say
from luminal_lab.errors import LabWarning
from luminal_lab.progress import progress

ABOUT = """\
Say what works on this machine and what does not, with the one command that fixes each. Whatever
can be tried is tried: the interpreter, the C compiler, and a GPU if there is one each compute a
graph."""
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
"""Terminal colours: green, yellow, red, dim."""


def options(reader: OptionReader) -> None:
    """Declare the options."""
    reader.add_argument("--json", action="store_true", help="for a program")


def run(given: argparse.Namespace) -> int:
    """Run all checks, and print the results."""
    results: dict[DoctorCheck, CheckResult] = {}
    with progress("doctor", len(CHECKS), "check") as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore", LabWarning)  # the row says it
        for check in bar.each(CHECKS, lambda check_: check_.name):
            result = check.result()
            results[check] = replace(result, mend=typed(result.mend))
    is_well = all(result.state == "works" for check, result in results.items() if check.is_basic)
    if given.json:
        say(json.dumps(as_json(results, is_well=is_well), indent=1, ensure_ascii=False))
    else:
        is_coloured = sys.stdout.isatty() and sys.platform != "win32"
        say("\n".join(lines(results, is_coloured=is_coloured)), painted=is_coloured)
    return 0 if is_well else 1


def lines(results: Mapping[DoctorCheck, CheckResult], *, is_coloured: bool) -> list[str]:
    """Return the results: a line each, with the command that fixes it below."""
    system = f"{platform.system()} {platform.machine()}"
    rows = [f"luminal_lab {luminal_lab.__version__} on {system}", ""]
    wide = max(len(check.name) for check in results) + 2
    for check, result in results.items():
        word = f"{WORDS[result.state]:8}"
        if is_coloured:
            word = f"\033[{COLOURS[result.state]}m{word}\033[0m"
        rows.append(f"  {word}  {check.name:{wide}}{result.what}")
        if result.mend:
            rows.append(f"  {'':8}  {'':{wide}}to fix it: {result.mend}")
    return [*rows, "", conclusion(results)]


def conclusion(results: Mapping[DoctorCheck, CheckResult]) -> str:
    """Return the overall result in a sentence."""
    broken = [c.name for c, result in results.items() if result.state in ("missing", "fails")]
    basic = [check.name for check in results if check.is_basic and check.name in broken]
    if basic:
        return f"luminal_lab does not work here: {', '.join(basic)}"
    if broken:
        return f"The basics work. Could be better: {', '.join(broken)}."
    return "Everything works that this machine supports."


def as_json(results: Mapping[DoctorCheck, CheckResult], *, is_well: bool) -> dict[str, object]:
    """Return the results for a program."""
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
                "state": result.state,
                "what": result.what,
                "mend": result.mend,
            }
            for check, result in results.items()
        ],
    }


COMMAND = Command("doctor", ABOUT, EXAMPLES, options, run, STATUS)
