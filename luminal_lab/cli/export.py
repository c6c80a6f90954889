"""`luminal-lab export`: a recording as a page that needs no server, no network and no Python."""

from __future__ import annotations

import argparse
from pathlib import Path

import luminal_lab
from luminal_lab.cli.command import Command, OptionReader
from luminal_lab.cli.files import check_place
from luminal_lab.cli.saying import say

ABOUT = """\
Write all of a recording as one page of HTML: graphs, passes and firings, kernels with their
sources, times. It opens anywhere, and asks nobody for anything. Nothing in the recording is run."""
EXAMPLES = """\
luminal-lab export run.lab                     to run.html
luminal-lab export run.lab -o page.html        to a file of another name
luminal-lab export run.lab --theme dark        dark, whatever its reader prefers"""


def options(reader: OptionReader) -> None:
    """Declare the options."""
    reader.add_argument("file", metavar="FILE", type=Path, help="a recording, as in run.lab")
    reader.add_argument(
        "-o", dest="page", metavar="PAGE", type=Path, help="default: FILE.html, here"
    )
    reader.add_argument(
        "--theme", choices=("auto", "light", "dark"), default="auto", help="default: its reader's"
    )


def run(given: argparse.Namespace) -> int:
    """Write the page."""
    page: Path = given.page or Path(f"{given.file.stem}.html")
    check_place("export", page)
    luminal_lab.open(given.file).workbench().export(page, theme=given.theme)
    say(f"written to {page}")
    return 0


COMMAND = Command("export", ABOUT, EXAMPLES, options, run)
