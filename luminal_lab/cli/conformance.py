"""`luminal-lab conformance`: whether a device computes what the interpreter does."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from luminal_lab.cli.bench import wrapped
from luminal_lab.cli.command import Command, OptionReader
from luminal_lab.cli.passes import load_all
from luminal_lab.cli.run import load_own
from luminal_lab.cli.saying import say
from luminal_lab.devices.runtime.compiler import trusted_pipeline
from luminal_lab.testing.conformance import cases, conformance

ABOUT = """\
Run the cases of the conformance kit on a device, and compare each result with NumPy's interpreter:
every op with every dtype, special values, views, indices out of range, chains, drawn graphs, small
models. A device is a pipeline, as luminal-lab run --passes takes it, or a name from a file of your
own, given with --load. What a device declines is listed with its reasons, and failures are shown
with their data."""
EXAMPLES = """\
luminal-lab conformance cpu                           everything, on the processor
luminal-lab conformance webgpu --only model,product   two families of cases
luminal-lab conformance "generic, xla{platform = cpu}" --dtypes float32
luminal-lab conformance Counter --load mine.py        a device that mine.py defines, or its class"""
STATUS = """\
exit status: 0 if no case failed, 1 if some did, 2 if it could not do what you asked, as where the
device is not here; 130 if Ctrl-C stopped it"""


def options(reader: OptionReader) -> None:
    """Declare the options."""
    reader.add_argument("device", metavar="DEVICE", help="a pipeline, or a name from a file")
    for name, what in (("only", "families or names of cases"), ("dtypes", "cases of these dtypes")):
        reader.add_argument(f"--{name}", metavar="NAMES", default="", help=f"{what}, with commas")
    reader.add_argument(
        "--load",
        metavar="FILE.py",
        type=Path,
        action="append",
        default=[],
        help="run this first: it defines a device of your own",
    )


def run(given: argparse.Namespace) -> int:
    """Run the cases, and return the exit status."""
    kept = load_own(given.load, "conformance")
    load_all()
    names = {name: value for file in kept for name, value in file.items()}
    device = names.get(given.device)
    if isinstance(device, type):
        device = device()
    if device is None:
        device = trusted_pipeline(given.device)  # the user has typed it
    with np.errstate(all="ignore"):  # infinities are among the values
        found = conformance(device, only=_words(given.only), dtypes=_words(given.dtypes))
    say(found)
    return 0 if found.ok else 1


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


COMMAND = Command(
    "conformance",
    ABOUT,
    EXAMPLES,
    options,
    run,
    STATUS,
    more=lambda: wrapped("families of cases:", sorted({case.family for case in cases()})),
)
