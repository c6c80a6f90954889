"""The cells and files that wrote a graph, what it was compiled on, and the Python that does it."""

from __future__ import annotations

import inspect
import linecache
import platform
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path, PurePath
from typing import Any, cast

import numpy as np

from luminal_lab.core.ir import IR
from luminal_lab.core.origin import Origin
from luminal_lab.devices.build.toolchain import Compiler, find_compiler
from luminal_lab.devices.facts.probe import cpu_name
from luminal_lab.errors import DeviceError
from luminal_lab.io.facts import Cell
from luminal_lab.passes.pipeline import LICENCE, Pipeline

LONGEST = 2_000
"""Lines up to which a file is kept whole."""
WIDE = 88
"""Characters of a line of Python, at most."""
SPOKEN = frozenset(
    "GenericCompiler CPUCompiler CUDACompiler MetalCompiler HalfPrecision Quantised".split()  # noqa: SIM905  # a list of names reads better so
)
"""The passes that `ll` has by their own names."""


def cells_of(ir: IR) -> tuple[Cell, ...]:
    """Return the cells and files whose lines made the nodes of a graph, in order."""
    found: dict[str, set[Origin]] = {}
    for node in ir.table:
        if node.meta.origin is not None:
            found.setdefault(node.meta.origin.file, set()).add(node.meta.origin)
    titles = short_files(found)
    return tuple(
        Cell(titles[file], text)
        for file, origins in sorted(found.items(), key=_order)
        if (text := _text(file, origins))
    )


def short_files(files: Iterable[str]) -> Mapping[str, str]:
    """Return what to call each file: no more of its path than tells it from the others.

    >>> short_files(["cell 3", "/me/model.py", "/me/nn/block.py", "/me/old/block.py"])
    {'cell 3': 'cell 3', '/me/model.py': 'model.py', '/me/nn/block.py': 'nn/block.py', \
'/me/old/block.py': 'old/block.py'}
    """
    parts = {one: PurePath(one.replace("\\", "/")).parts for one in dict.fromkeys(files)}
    found: dict[str, str] = {}
    for one, own in parts.items():
        others = [other for file, other in parts.items() if file != one]
        count = 1
        while count < len(own) and any(other[-count:] == own[-count:] for other in others):
            count += 1
        found[one] = "/".join(own[-count:]) if own else one
    return found


def _order(item: tuple[str, set[Origin]]) -> tuple[int, int, str]:
    number = _cell_number(item[0])
    return (0, number, "") if number is not None else (1, 0, item[0])


def _cell_number(file: str) -> int | None:
    word, _, number = file.partition(" ")
    return int(number) if word == "cell" and number.isdigit() else None


def _text(file: str, origins: set[Origin]) -> str:
    """Return the text of a cell or file; where it is not to be had, the lines that are known."""
    if _cell_number(file) is not None:
        text = typed_cells().get(file)
        if text is not None and _agrees(text.splitlines(), origins):
            return text
        return _sparse(origins)
    lines = [line.rstrip("\n") for line in linecache.getlines(file)]
    if _is_installed(file) or len(lines) > LONGEST or not _agrees(lines, origins):
        return _sparse(origins)
    return "\n".join(lines).rstrip()


def typed_cells() -> Mapping[str, str]:
    """Return all cells that were run so far, as the user typed them; IPython is never imported."""
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    cells: object = None if shell is None else shell.user_ns.get("In")
    known = cast("list[object]", cells) if isinstance(cells, list) else []
    return {f"cell {at}": one for at, one in enumerate(known) if isinstance(one, str)}


def _agrees(lines: list[str], origins: Iterable[Origin]) -> bool:
    """Return whether a text has the lines that made nodes where they are said to be."""
    return all(
        0 < one.line <= len(lines) and one.text == lines[one.line - 1].strip() for one in origins
    )


def _sparse(origins: Iterable[Origin]) -> str:
    """Return the lines that are known, each in its place, with nothing between."""
    known = {one.line: one.text for one in origins if one.text and 0 < one.line <= 100_000}
    return "\n".join(known.get(line, "") for line in range(1, max(known, default=0) + 1))


def _is_installed(file: str) -> bool:
    paths = sysconfig.get_paths()
    folders = {Path(paths[name]) for name in ("stdlib", "purelib", "platlib")}
    return any(Path(file).is_relative_to(folder) for folder in folders)


# -- where and how ---------------------------------------------------------------------------------


def environment(pipeline: Pipeline | None = None, compiler: object = None) -> dict[str, str]:
    """Return on what a compile was made: versions and the processor; no path, no name of yours."""
    found = {
        "luminal_lab": package_version(),
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "processor": cpu_name(),
    }
    if pipeline is not None and any(one.name == "cpu" for one in pipeline.devices()):
        made = compiler if isinstance(compiler, Compiler) else _compiler(pipeline)
        if made is not None:
            found["compiler"] = made.version
    shell = sys.modules.get("IPython")
    if shell is not None:
        found["IPython"] = str(getattr(shell, "__version__", ""))
    return found


def package_version() -> str:
    """Return this package's version, as it was installed."""
    try:
        return version("luminal-lab")
    except PackageNotFoundError:
        return "unknown"


def _compiler(pipeline: Pipeline) -> Compiler | None:
    asked = next((getattr(one, "compiler", None) for one in pipeline.devices()), None)
    try:
        return find_compiler(asked)
    except DeviceError:
        return None


def python_of(pipeline: Pipeline, licence: Iterable[str] = LICENCE) -> str:
    """Return the Python that does a compile again.

    >>> from luminal_lab.passes.generic import GenericCompiler
    >>> print(python_of(Pipeline([GenericCompiler()])))
    cx.compile(ll.GenericCompiler())
    """
    parts = [*map(_call, pipeline.passes), *_licence(licence)]
    line = f"cx.compile({', '.join(parts)})"
    if len(line) <= WIDE:
        return line
    return "cx.compile(\n" + "".join(f"    {one},\n" for one in _lines(parts)) + ")"


def _lines(parts: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a long call: passes by name side by side, all else in lines of its own."""
    for is_text, group in groupby(parts, lambda one: one[0] in "'\""):
        line = ""
        for one in group:
            fits = is_text and len(line) + len(one) < WIDE - 8
            if line and not fits:
                yield line
            line = f"{line}, {one}" if line and fits else one
        yield line


def besides(pipeline: Pipeline, licence: Iterable[str] = LICENCE) -> tuple[str, ...]:
    """Return the Python of what a compile is given beside passes: the device alone, a licence.

    >>> from luminal_lab.devices.cpu.compiler import CPUCompiler
    >>> besides(Pipeline(["simplify", CPUCompiler(threads=1)]), ["no_nan"])
    ('ll.CPUCompiler(threads=1).alone()', "licence=['no_nan']")
    """
    return *(_call(one.alone()) for one in pipeline.devices()), *_licence(licence)


def _licence(licence: Iterable[str]) -> list[str]:
    return [] if {*licence} == {*LICENCE} else [f"licence={sorted(licence)!r}"]


def _call(one: object) -> str:
    name = type(one).__name__
    if name not in SPOKEN or not type(one).__module__.startswith("luminal_lab."):
        return repr(str(one))
    given: list[str] = []
    for name_of, parameter in inspect.signature(type(one)).parameters.items():
        value: object = getattr(one, name_of, parameter.default)
        if name_of == "schedules" and value:
            pairs = cast("tuple[tuple[str, object], ...]", value)
            value = {key: str(schedule) for key, schedule in pairs}
        if value and value != parameter.default:
            given.append(f"{name_of}={value!r}")
    is_alone = isinstance(one, Pipeline) and one.is_device and not one.passes
    return f"ll.{name}({', '.join(given)})" + (".alone()" if is_alone else "")
