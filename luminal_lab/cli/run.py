"""`luminal-lab run`: passes on a graph, text in, text out."""

from __future__ import annotations

import argparse
import runpy
from pathlib import Path
from typing import Any

from luminal_lab.cli.command import Command, OptionReader
from luminal_lab.cli.files import STDIN, read_bytes, read_text, refused
from luminal_lab.cli.passes import load_all
from luminal_lab.cli.saying import say
from luminal_lab.core.parse import parse
from luminal_lab.devices.runtime.compiler import trusted_pipeline
from luminal_lab.errors import LabError, PassError, TrustError
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.pipeline import PassLike, Pipeline

ABOUT = """\
Read a graph as text, run passes on it, and print the graph that comes out, which reads back. Every
graph between is verified. What is wrong is said with its line, and nothing is printed."""
EXAMPLES = """\
luminal-lab run graph.ir                               what cx.compile() makes of it
luminal-lab run graph.ir --passes "simplify, dce"      these passes
luminal-lab run graph.ir --passes "generic, cpu"       with the CPU's kernels
luminal-lab run - --passes cse --each < graph.ir       the graph after each pass that changed it
luminal-lab run graph.ir --check --summary             values compared after each pass; a table
luminal-lab run graph.ir --load mine.py --passes my-pass
                                                       a pass of your own
luminal-lab run graph.ir --trust --passes "generic, cpu"
                                                       with the kernels in it, which are code"""
STATUS = """\
exit status: 0 if all went well, 1 if a pass failed or changed a value, 2 if the graph or the passes
cannot be read, 130 if Ctrl-C stopped it"""


def options(reader: OptionReader) -> None:
    """Declare the options."""
    reader.add_argument(
        "file", metavar="FILE", type=Path, help="a graph as text; - is standard input"
    )
    reader.add_argument(
        "--passes", metavar="TEXT", default="generic", help="as cx.compile has them; see passes"
    )
    reader.add_argument("--trust", action="store_true", help="run the kernels that it brings along")
    reader.add_argument("--each", action="store_true", help="print what each pass has changed, too")
    reader.add_argument("--check", action="store_true", help="compare values after each pass")
    reader.add_argument("--summary", action="store_true", help="say what each pass did, on stderr")
    reader.add_argument(
        "--load",
        metavar="FILE.py",
        type=Path,
        action="append",
        default=[],
        help="run this first: it defines passes or ops of your own",
    )


def run(given: argparse.Namespace) -> int:
    """Run the passes."""
    kept = load_own(given.load, "run")
    load_all()
    pipeline = trusted_pipeline(given.passes)  # the user has typed it
    text = read_text("run", given.file)
    try:
        ir = parse(text, trust=given.trust)
    except LabError as error:
        name = "standard input" if given.file == STDIN else given.file
        error.message = f"{name}, {error.message}"
        raise
    try:
        compilation = compile_ir(ir, *parts_of(pipeline), check="values" if given.check else None)
    except PassError as error:
        if error.inputs:  # which nobody can reach from here
            trust = ", trust=True" if given.trust else ""
            error.hint = (
                f"in Python, ll.compile_ir(ll.parse(text{trust}), {given.passes!r}, "
                'check="values") raises it with the inputs that show it, error.inputs'
            )
        say(error, error=True)
        return 1
    except TrustError as error:
        raise refused("run", given.file, error) from error
    del kept
    if given.summary:
        say(compilation, error=True)
    say(shown(compilation) if given.each else compilation.ir)
    return 0


def load_own(paths: list[Path], subject: str) -> list[dict[str, Any]]:
    """Run files that define passes or devices; these live as long as the returned list."""
    kept: list[dict[str, Any]] = []
    for path in paths:
        read_bytes(subject, path)  # raises if it cannot be read
        kept.append(runpy.run_path(str(path)))
    return kept


def parts_of(pipeline: Pipeline) -> tuple[PassLike, ...]:
    """Return a pipeline as arguments for a compile, as a user would type them."""
    return (pipeline,) if pipeline.name or pipeline.has_options else pipeline.passes


def shown(compilation: Compilation) -> str:
    """Return the graph as written, and after each pass that changed it."""
    parts: list[str] = []
    for snapshot in compilation.snapshots:
        if snapshot.index == 0 or snapshot.firings:
            title = f"{snapshot.index} {snapshot.title}" if snapshot.index else "as written"
            parts.append(f"# {title}\n{snapshot.ir}")
    return "\n\n".join(parts)


COMMAND = Command("run", ABOUT, EXAMPLES, options, run, STATUS)
