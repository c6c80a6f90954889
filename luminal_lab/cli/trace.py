"""`luminal-lab trace`: run a script, and record every compile in it."""

from __future__ import annotations

import argparse
import runpy
import sys
import tempfile
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import TracebackType

import luminal_lab
from luminal_lab.cli.command import Command, OptionReader
from luminal_lab.cli.files import check_place, read_bytes, refused
from luminal_lab.cli.passes import load_all
from luminal_lab.cli.run import parts_of
from luminal_lab.cli.saying import say
from luminal_lab.devices.runtime.compiler import trusted_pipeline
from luminal_lab.errors import ArgumentError, LabError, TrustError
from luminal_lab.io.facts import Subject
from luminal_lab.io.recording import MAGIC, save_recording
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.pipeline import parse_pipeline
from luminal_lab.progress import progress
from luminal_lab.reading import GRAPH_TEXT, is_graph_text
from luminal_lab.tracing import Traced, trace
from luminal_lab.viz.live.backed import backed_compile

ABOUT = """\
Run a script as python would, and record every graph and every compile that it makes, or compile the
graphs of a recording anew. If the script fails or is stopped, what it made until then is saved.
What a thread of the script compiles is not seen: put `with ll.trace()` into that."""
EXAMPLES = """\
luminal-lab trace train.py                           to train.lab
luminal-lab trace train.py -o run.lab -- --epochs 3  what is behind -- is the script's
luminal-lab trace model.lab -o run.lab               its graphs, compiled anew
luminal-lab trace model.lab --passes "generic, cpu" -o cpu.lab
                                                     by other passes than when it was saved
luminal-lab open run.lab                             look at it"""
STATUS = """\
exit status: 0 if all went well, 1 if the script failed or made nothing, 2 if it cannot be done as
asked, 130 if Ctrl-C stopped it"""


def options(reader: OptionReader) -> None:
    """Declare the options."""
    reader.add_argument("file", metavar="FILE", type=Path, help="a script, or a recording")
    reader.add_argument("-o", dest="out", metavar="OUT", type=Path, help="default: FILE.lab, here")
    reader.add_argument("--passes", metavar="TEXT", help="of a recording; default: those it had")
    reader.add_argument("--trust", action="store_true", help="run the kernels of a recording, too")


def run(given: argparse.Namespace) -> int:
    """Record a script, or recompile a recording."""
    file: Path = given.file.expanduser()
    data = read_bytes("trace", file)
    out: Path = given.out or Path(f"{file.stem}.lab")
    if out.expanduser().resolve() == file.resolve():
        raise ArgumentError(f"trace: {out} is what is read", hint="name another file behind -o")
    check_place("trace", out)
    if data.startswith(MAGIC) or file.suffix == ".lab":
        try:
            save_recording(out, again(file, given.passes, trust=given.trust))
        except TrustError as error:
            raise refused("trace", file, error) from error
        return reported(out, 0)
    if file.suffix == ".ipynb":
        raise ArgumentError(
            f"trace: {file} is a notebook, which is run in Jupyter",
            hint="there, %%lab records a cell, and cx.save(...) a compile",
        )
    if is_graph_text(BytesIO(data)):  # which is no Python
        why, hint = GRAPH_TEXT
        raise ArgumentError(f"trace: {file} is a graph as text: {why}", hint=hint)
    if b"\0" in data:
        raise ArgumentError(
            f"trace: {file} is neither a recording nor a script: it is no text",
            hint="give a script of Python's, or what cx.save has written",
        )
    if given.passes is not None:
        raise ArgumentError(
            "trace: --passes is for recordings: a script says itself what it compiles with",
            hint="leave it out",
        )
    if given.trust:
        raise ArgumentError(
            "trace: --trust is for recordings: a script is run, whatever it brings along",
            hint="leave it out",
        )
    return traced(file, out, given.rest)


def traced(script: Path, out: Path, arguments: Sequence[str]) -> int:
    """Run a script, save its record, and return the exit status."""
    with trace() as record:
        status = status_of(script, arguments)
    if not len(record):
        say(f"trace: {script} has made no graph: nothing is saved", error=True)
        return status or 1
    try:
        record.save(out)
    except LabError as error:
        say(error, error=True)
        # The script may have run for hours, so save its record elsewhere.
        out = Path(tempfile.mkdtemp(prefix="luminal_lab-"), out.name)
        status = status or 2
        try:
            record.save(out)
        except LabError as again:
            say(again, error=True)
            return status
    say(summary(record), error=True)
    return reported(out, status)


def reported(out: Path, status: int) -> int:
    """Print the path, on stderr since the script may use standard output."""
    say(f"saved to {out}: luminal-lab open {out} shows it", error=True)
    return status


def summary(record: Traced) -> str:
    """Return a summary of a record."""
    compiles, failed, shown = len(record.compilations), len(record.errors), len(record)
    parts = [f"{compiles} compile{'s' * (compiles != 1)}"]
    if failed:
        parts.append(f"{failed} that failed")
    graphs = shown - compiles - failed
    if graphs:
        parts.append(f"{graphs} graph{'s' * (graphs != 1)} not compiled")
    return f"recorded {', '.join(parts)}"


def status_of(script: Path, arguments: Sequence[str]) -> int:
    """Run a script, report errors, and return the exit status."""
    try:
        with as_main(script, arguments):
            runpy.run_path(str(script), run_name="__main__")
    except SystemExit as ended:
        if ended.code in (None, 0):
            return 0
        is_text = not isinstance(ended.code, int)
        said = ended.code if is_text else f"{script} ended with status {ended.code}"
        say(said, error=True)
        return 1
    except KeyboardInterrupt:
        say("stopped", error=True)
        return 130
    except LabError as error:
        say(f"{type(error).__name__}: {error}", error=True)
        return 1
    except Exception as error:  # whatever a script may raise
        frames = within(script, error.__traceback__)
        say(*traceback.format_exception(error.with_traceback(frames)), sep="", end="", error=True)
        return 1
    return 0


@contextmanager
def as_main(script: Path, arguments: Sequence[str]) -> Generator[None]:
    """Give a script its arguments, and the modules beside it."""
    argv, path = sys.argv, list(sys.path)
    sys.argv, sys.path[:0] = [str(script), *arguments], [str(script.resolve().parent)]
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path


def within(script: Path, frames: TracebackType | None) -> TracebackType | None:
    """Return the frames from the script's on, without our own."""
    frame = frames
    while frame is not None and frame.tb_frame.f_code.co_filename != str(script):
        frame = frame.tb_next
    return frame


def again(file: Path, passes: str | None, *, trust: bool = False) -> list[Subject]:
    """Return the graphs of a recording, recompiled.

    With `trust`, the kernels in it may run, and so may the compiler that its passes name.
    """
    recording = luminal_lab.open(file, trust=trust)
    load_all()
    subjects: list[Subject] = []
    with progress(f"compile {file.name}", len(recording), "graph") as bar:
        for part in bar.each(list(recording), lambda part: part.title):
            read = trusted_pipeline if trust or passes is not None else parse_pipeline
            pipeline = read(passes or part.pipeline or "generic")
            compilation = compile_ir(part.written, *parts_of(pipeline))
            subject = backed_compile(compilation, title=part.title).subject
            kept = part.subject
            subjects.append(replace(subject, parameters=kept.parameters, kept=kept.kept))
    return subjects


COMMAND = Command("trace", ABOUT, EXAMPLES, options, run, STATUS, rest="the script")
