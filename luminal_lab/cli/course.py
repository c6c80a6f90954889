"""`luminal-lab course`: the teacher's side of the course."""

from __future__ import annotations

import argparse
from pathlib import Path

from luminal_lab.cli.command import Command, OptionReader
from luminal_lab.cli.files import check_place
from luminal_lab.cli.saying import say
from luminal_lab.course import commands
from luminal_lab.writing import write_bytes

ABOUT = """\
For teachers: write the notebooks without answers, as students get them, or with an answer to each
exercise; and grade a class. Cells carry nbgrader's metadata."""
EXAMPLES = """\
luminal-lab course list                              chapters and exercises
luminal-lab course solved notebooks teacher          with an answer to each exercise
luminal-lab course student teacher release           without answers, as students get them
luminal-lab course grade submitted                   a class: students and exercises
luminal-lab course grade submitted --csv class.csv   and as a file for a spreadsheet"""
STATUS = """\
exit status: 0 if all went well, whoever is right; 1 if a notebook could not be read; 2 if it
could not do what you asked; 130 if Ctrl-C stopped it"""


def options(reader: OptionReader) -> None:
    """Declare the options."""
    subcommands = reader.subcommands()
    form = subcommands.add_parser("student", help="notebooks without answers", about=ABOUT_STUDENT)
    folders(form)
    form = subcommands.add_parser("solved", help="notebooks with answers", about=ABOUT_SOLVED)
    folders(form)
    graded = subcommands.add_parser(
        "grade", help="a class's results", about=ABOUT_GRADE, epilog=STATUS
    )
    graded.add_argument("folder", metavar="FOLDER", type=Path, help="with submitted notebooks")
    graded.add_argument("--json", action="store_true", help="with what was said, for a program")
    graded.add_argument("--csv", metavar="FILE", type=Path, help="the table, for a spreadsheet")
    graded.add_argument(
        "--seconds", metavar="N", type=float, default=60.0, help="for each answer; default: 60"
    )
    graded.add_argument(
        "--megabytes", metavar="N", type=int, default=2048, help="for each answer; default: 2048"
    )
    graded.add_argument("--jobs", metavar="N", type=int, default=0, help="how many at a time")
    listed = subcommands.add_parser(
        "list", help="chapters and exercises", about="Chapters, exercises."
    )
    listed.add_argument("--json", action="store_true", help="for a program")


ABOUT_STUDENT = """\
Write the notebooks of a folder into another one, without solutions (what stands between
### BEGIN SOLUTION and ### END SOLUTION), hidden tests, and the outputs of changed cells. Existing
files are never overwritten."""
ABOUT_SOLVED = """\
Write the notebooks of a folder into another one, with an answer to each exercise. Existing files
are never overwritten."""
ABOUT_GRADE = """\
Run the exercises of submitted notebooks, FOLDER/STUDENT/….ipynb or FOLDER/STUDENT.ipynb, each in
its own process with limits, and show the results. This runs the code that students wrote: the
limits stop accidents and curiosity, not malice. Stored outputs do not count."""


def folders(reader: argparse.ArgumentParser) -> None:
    """Declare an input and an output folder."""
    reader.add_argument("folder", metavar="FOLDER", type=Path, help="with notebooks")
    reader.add_argument("out", metavar="OUT", type=Path, help="the new folder")


def run(given: argparse.Namespace) -> int:
    """Run the subcommand."""
    if given.what == "list":
        text = commands.listed_json() if given.json else f"{commands.listed_text()}\n"
        say(text, end="")
        return 0
    if given.what == "grade":
        return grade(given)
    write = commands.student if given.what == "student" else commands.solved
    for path in write(given.folder, given.out):
        say(path)
    return 0


def grade(given: argparse.Namespace) -> int:
    """Show a class's results."""
    if given.csv is not None:
        check_place("course grade", given.csv)
    results = commands.grade(
        given.folder, seconds=given.seconds, megabytes=given.megabytes, jobs=given.jobs
    )
    say(results.json if given.json else f"{results}\n", end="")
    if given.csv is not None:
        write_bytes("course grade", given.csv, results.csv.encode())
    return 1 if results.notes else 0


COMMAND = Command("course", ABOUT, EXAMPLES, options, run, STATUS)
