"""`luminal-lab bundle`: kernels for a machine that has NVIDIA's driver alone."""

from __future__ import annotations

import argparse
from pathlib import Path

from luminal_lab.bench.bundled import make
from luminal_lab.bench.record import names
from luminal_lab.cli.bench import STATUS, wrapped
from luminal_lab.cli.command import Command, OptionReader
from luminal_lab.cli.saying import say
from luminal_lab.errors import ArgumentError

ABOUT = """\
Write what `luminal-lab record` runs into a folder, for NVIDIA's cards: the sources of all kernels
and, if NVRTC is here, their machine code. Where the folder is copied, a driver is enough:
luminal-lab record --device cuda --bundle FOLDER. No card is needed here, and nothing is sent."""
EXAMPLES = """\
luminal-lab bundle --arch sm_90a -o hopper             for an H100 or H200
luminal-lab bundle --arch sm_80,sm_90a -o both         for an A100 as well
luminal-lab bundle --arch sm_90a -o small --quick --only softmax"""


def options(reader: OptionReader) -> None:
    """Declare the options."""
    reader.add_argument(
        "--arch",
        metavar="ARCH",
        action="append",
        required=True,
        help="the cards to compile for, as sm_90a, or several with commas between",
    )
    reader.add_argument(
        "-o", dest="folder", metavar="FOLDER", type=Path, required=True, help="where it goes"
    )
    reader.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        default=[],
        help="only this, or several with commas between; may be given again",
    )
    reader.add_argument("--quick", action="store_true", help="small sizes: does everything work?")


def run(given: argparse.Namespace) -> int:
    """Write a bundle, say what is in it, and return the exit status."""
    archs = list(dict.fromkeys(word.strip() for word in ",".join(given.arch).split(",")))
    if "" in archs:
        raise ArgumentError("bundle: --arch has an empty name", hint="as in --arch sm_80,sm_90a")
    made = make(given.folder, archs, ",".join(given.only).split(","), is_quick=given.quick)
    what = "machine code" if made.bundle.manifest.cuda else "sources alone: NVRTC is not here"
    count = len(made.bundle.manifest.tasks)
    tasks = "1 program" if count == 1 else f"{count} programs"
    say(f"wrote {tasks} for {', '.join(archs)} to {given.folder}: {what}, {made.bytes:,} bytes")
    if not made.bundle.manifest.cuda:
        say('pip install "luminal-lab[cuda]" brings NVRTC along, here or on the other machine')
    say(f"there: luminal-lab record --device cuda --bundle {given.folder.name} --trust")
    for text in made.failed:
        say(f"left out: {text}", error=True)
    return 1 if made.failed else 0


COMMAND = Command(
    "bundle",
    ABOUT,
    EXAMPLES,
    options,
    run,
    STATUS,
    more=lambda: wrapped("what is recorded:", names()),
)
