"""`luminal-lab export-model`: a model as a folder of C, weights and a runner."""

from __future__ import annotations

import argparse
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

from luminal_lab.artefact.folder import written_in
from luminal_lab.cli.command import Command, OptionReader
from luminal_lab.cli.saying import say
from luminal_lab.errors import ArgumentError
from luminal_lab.importing.detect import FileKind, supported
from luminal_lab.opening import VALUES_ALONE, session_of
from luminal_lab.serving.library import is_exported

ABOUT = """\
Write a model as a folder that runs without luminal_lab: C with a header and a library, its weights,
run.py, which needs NumPy alone, and main.c, which needs nothing. The model is a graph with its
weights: a file of ONNX's, or one of PyTorch's exporter."""
EXAMPLES = """\
luminal-lab export-model digits.onnx digits
luminal-lab export-model digits.onnx phone --target aarch64-linux     by zig: pip install ziglang
luminal-lab export-model digits.onnx digits --name reader             reader_run(...) in C
luminal-lab export-model digits.onnx digits --sizes batch=1,8,32      kernels for these, too
luminal-lab export-model digits.onnx digits --sizes batch=1..64       and no other is taken"""
SIZES = re.compile(r"(\w+)=(?:(-?\d+)\.\.(-?\d+)|(-?\d+(?:,-?\d+)*))", re.ASCII)
HERE = "native"
SILENT = 5.0
"""The seconds after which an export for another machine says what takes so long."""
GRAPH = "give an .onnx or a .pt2; in Python: cx.compile(...).export(folder)"


def options(reader: OptionReader) -> None:
    """Declare the options."""
    reader.add_argument("file", metavar="MODEL", type=Path, help="as in digits.onnx")
    reader.add_argument("folder", metavar="FOLDER", type=Path, help="made if it is not there")
    reader.add_argument(
        "--target", metavar="TARGET", default=HERE, help="the machine; default: this one"
    )
    reader.add_argument(
        "--name", metavar="NAME", help="what its functions in C begin with; default: the file's"
    )
    reader.add_argument(
        "--sizes",
        metavar="DIM=N,...",
        nargs="*",
        default=[],
        help="usual sizes of dims, which get kernels of their own; or bounds, as in batch=1..64",
    )
    reader.add_argument("--trust", action="store_true", help="let PyTorch unpickle what is in it")


def run(given: argparse.Namespace) -> int:
    """Write the folder, and say what is in it."""
    if is_exported(given.file):
        raise ArgumentError(
            f"export-model: {given.file} is a model that was exported already",
            hint=f"luminal-lab serve {given.file} serves it; {GRAPH}",
        )
    kind = supported(given.file, "export-model")
    if kind is FileKind.RECORDING or kind in VALUES_ALONE:
        what = "a recording" if kind is FileKind.RECORDING else "weights without a graph"
        raise ArgumentError(f"export-model: {given.file} is {what}", hint=GRAPH)
    cx = session_of(given.file, kind, trust=given.trust)
    with told_if_slow(given.target):
        folder = cx.compilation.export(
            given.folder, target=given.target, name=given.name, sizes=sizes_of(given.sizes)
        )
    say(f"written to {folder}: {', '.join(written_in(folder))}")
    return 0


@contextmanager
def told_if_slow(target: str) -> Generator[None, None, None]:
    """Say what zig may be at, if an export for another machine takes long."""
    words = (
        f"zig is compiling for {target}; the first time, it also builds the C library of that "
        "system, which may take minutes"
    )
    timer = Timer(SILENT, say, (words,), {"error": True, "flush": True})
    timer.daemon = True
    if target != HERE:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def sizes_of(words: Sequence[str]) -> dict[str, tuple[int, ...] | range] | None:
    """Return what words say about the sizes of dims.

    >>> sizes_of(["batch=1,8", "seq=1..64"])
    {'batch': (1, 8), 'seq': range(1, 65)}
    """
    sizes: dict[str, tuple[int, ...] | range] = {}
    for word in words:
        match = SIZES.fullmatch(word)
        if match is None:
            hint = "as in batch=1,8,32 for usual sizes, or seq=1..128 for bounds"
            raise ArgumentError(f"export-model: --sizes cannot be {word!r}", hint=hint)
        name, low, high, listed = match.groups()
        if name in sizes:
            raise ArgumentError(f"export-model: --sizes names {name} twice", hint="once is enough")
        if low and int(low) > int(high):
            raise ArgumentError(
                f"export-model: --sizes {word}: the bounds are the wrong way round",
                hint=f"the smaller one comes first, as in {name}={high}..{low}",
            )
        sizes[name] = range(int(low), int(high) + 1) if low else tuple(map(int, listed.split(",")))
    return sizes or None


COMMAND = Command("export-model", ABOUT, EXAMPLES, options, run)
