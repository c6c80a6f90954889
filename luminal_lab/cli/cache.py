"""`luminal-lab cache`: what is kept on disk to save time, listed and removed."""

from __future__ import annotations

import argparse
import json
import re
from itertools import groupby

from luminal_lab.cli.command import Command, OptionReader
from luminal_lab.cli.saying import say
from luminal_lab.devices.build.cache import FRESH, bytes_text
from luminal_lab.devices.facts.cached import ABOUT, KINDS, CachedEntries, cached, folders
from luminal_lab.errors import ArgumentError
from luminal_lab.tables import aligned

ABOUT_COMMAND = """\
What is kept on disk to save time: compiled libraries, kernels as their plans made them, winners of
searches, rates of this machine. All of it is made again when it is needed. For signed kernels, see
luminal-lab trust --list."""
EXAMPLES = """\
luminal-lab cache list                        how much of each kind, and where
luminal-lab cache list winners                each of a kind
luminal-lab cache clear                       what would go; nothing does
luminal-lab cache clear --yes                 remove it
luminal-lab cache clear libraries --older 30d --yes"""
STATUS = """\
exit status: 0 if all went well; 1 if something could not be removed; 2 if it could not do what you
asked; 130 if Ctrl-C stopped it"""
FORMAT = 1
AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([mhdw]?)")
SECONDS = {"m": 60, "h": 3600, "": 86400, "d": 86400, "w": 7 * 86400}
MOST = 60
"""The most entries shown one by one."""


def options(reader: OptionReader) -> None:
    """Declare the options."""
    subcommands = reader.subcommands()
    listed = subcommands.add_parser("list", help="what is kept, how large and how old it is")
    cleared = subcommands.add_parser("clear", help="remove it, or say what would be removed")
    for form in (listed, cleared):
        form.add_argument("kind", metavar="KIND", nargs="?", choices=KINDS, help=", ".join(KINDS))
        form.add_argument(
            "--older",
            metavar="AGE",
            help="only what was not used for that long: 30d, 12h, 2w; a number alone is of days",
        )
    listed.add_argument("--json", action="store_true", help="for a program")
    cleared.add_argument("--yes", action="store_true", help="remove it")


def age(text: str) -> float:
    """Return an age in seconds.

    >>> age("12h"), age("30")
    (43200.0, 2592000.0)
    """
    match = AGE.fullmatch(text.strip().lower())
    if match is None:
        raise ArgumentError(
            f"cache: --older cannot be {text!r}", hint="give 30d, 12h or 2w; 30 is 30 days"
        )
    return float(match[1]) * SECONDS[match[2]]


def run(given: argparse.Namespace) -> int:
    """List or clear."""
    older = 0.0 if given.older is None else age(given.older)
    entries = cached(given.kind, older=older)
    if given.what == "clear":
        return clear(entries, keeps_fresh=given.older is None, is_sure=given.yes)
    if given.json:
        rows = [
            {
                "kind": entry.kind,
                "path": str(entry.path),
                "bytes": entry.size,
                "used": entry.used.isoformat(timespec="seconds"),
                "of": entry.about,
            }
            for entry in entries
        ]
        say(json.dumps({"format": FORMAT, "entries": rows}, indent=1, ensure_ascii=False))
    elif given.kind is None:
        say(*summary(entries), sep="\n")
    else:
        say(CachedEntries(entries[:MOST]) if entries else entries.total)
        if len(entries) > MOST:
            say(f"… and {len(entries) - MOST:,} that were used longer ago: --json has all of them")
    return 0


def clear(entries: CachedEntries, *, keeps_fresh: bool, is_sure: bool) -> int:
    """Remove entries, or say what would be removed."""
    going = entries.settled if keeps_fresh else entries
    fresh, left = len(entries) - len(going), 0
    if not going:
        say("nothing to remove")
    elif not is_sure:
        say(f"would remove {going.total}", "nothing is removed yet: --yes removes it", sep="\n")
    else:
        gone = going.clear()
        left = len(going) - len(gone)
        say(f"removed {gone.total}" if gone else "removed nothing")
    if fresh:
        say(
            f"{fresh:,} used within {FRESH // 60} minutes {'stays' if fresh == 1 else 'stay'}: a "
            "process may be about to load them; --older 0 takes them too"
        )
    if left:
        say(f"{left:,} could not be removed", error=True)
    return 1 if left else 0


def summary(entries: CachedEntries) -> list[str]:
    """Return a line for each kind, and the folders."""
    rows = [
        (
            kind,
            f"{len(own):,}",
            bytes_text(own.size),
            own[0].age if own else "",
            own[-1].age if own else "",
            ABOUT[kind],
        )
        for kind in KINDS
        for own in [entries.of(kind)]
    ]
    header = [
        ("<", "kind"), (">", "entries"), (">", "size"), ("<", "last used"), ("<", "oldest use"),
        ("<", "what it is"),
    ]  # fmt: skip
    used = [str(path) for path, _ in groupby(sorted(entry.path.parent for entry in entries))]
    places = used or [str(folders()[0])]
    return [*aligned(header, rows), "", *(f"in {place}" for place in places)]


COMMAND = Command("cache", ABOUT_COMMAND, EXAMPLES, options, run, STATUS)
