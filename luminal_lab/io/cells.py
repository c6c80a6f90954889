"""The cells and files that wrote a graph, its compile's machine, and the Python to redo it."""

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
from luminal_lab.core.origin import Origin, has_run
from luminal_lab.devices.build.toolchain import Compiler, find_compiler
from luminal_lab.devices.facts.probe import cpu_name
from luminal_lab.errors import DeviceError
from luminal_lab.io.facts import CellText
from luminal_lab.passes.pipeline import LICENCE, Pipeline
from luminal_lab.passes.rewrite import Rewrite
from luminal_lab.passes.rule import variable_of

LONGEST = 2_000
"""The most lines of a file that is kept whole."""
WIDE = 88
"""The most characters in a line of Python."""
SPOKEN = frozenset(
    "GenericCompiler CPUCompiler CUDACompiler MetalCompiler HalfPrecision Quantised".split()  # noqa: SIM905  # a list of names reads better so
)
"""The passes that `ll` exports by name."""


def cells_of(ir: IR) -> tuple[CellText, ...]:
    """Return the cells and files whose lines made the nodes of a graph, in order."""
    origins_by_file: dict[str, set[Origin]] = {}
    for node in ir.table:
        if node.meta.origin is not None:
            origins_by_file.setdefault(node.meta.origin.file, set()).add(node.meta.origin)
    titles = short_files(origins_by_file)
    return tuple(
        CellText(titles[file], text)
        for file, origins in sorted(origins_by_file.items(), key=_order)
        if (text := _text(file, origins))
    )


def short_files(files: Iterable[str]) -> Mapping[str, str]:
    """Return a name for each file: the shortest end of its path that distinguishes it.

    >>> short_files(["cell 3", "/me/model.py", "/me/nn/block.py", "/me/old/block.py"])
    {'cell 3': 'cell 3', '/me/model.py': 'model.py', '/me/nn/block.py': 'nn/block.py', \
'/me/old/block.py': 'old/block.py'}
    """
    parts = {file: PurePath(file.replace("\\", "/")).parts for file in dict.fromkeys(files)}
    titles: dict[str, str] = {}
    for file, own in parts.items():
        others = [rest for name, rest in parts.items() if name != file]
        count = 1
        while count < len(own) and any(rest[-count:] == own[-count:] for rest in others):
            count += 1
        titles[file] = "/".join(own[-count:]) if own else file
    return titles


def _order(item: tuple[str, set[Origin]]) -> tuple[int, int, str]:
    number = _cell_number(item[0])
    return (0, number, "") if number is not None else (1, 0, item[0])


def _cell_number(file: str) -> int | None:
    word, _, number = file.partition(" ")
    return int(number) if word == "cell" and number.isdigit() else None


def _text(file: str, origins: set[Origin]) -> str:
    """Return the text of a cell or file, or its known lines if it is missing or ran elsewhere."""
    if not has_run(file):
        return _sparse(origins)
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
    """Return all cells run so far, as typed; IPython is never imported."""
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    cells: object = None if shell is None else shell.user_ns.get("In")
    known = cast("list[object]", cells) if isinstance(cells, list) else []
    return {f"cell {at}": text for at, text in enumerate(known) if isinstance(text, str)}


def _agrees(lines: list[str], origins: Iterable[Origin]) -> bool:
    """Return whether a text has the lines that made nodes at the numbers recorded."""
    return all(
        0 < origin.line <= len(lines) and origin.text == lines[origin.line - 1].strip()
        for origin in origins
    )


def _sparse(origins: Iterable[Origin]) -> str:
    """Return the known lines, each in its place, with empty lines between."""
    known = {
        origin.line: origin.text for origin in origins if origin.text and 0 < origin.line <= 100_000
    }
    return "\n".join(known.get(line, "") for line in range(1, max(known, default=0) + 1))


def _is_installed(file: str) -> bool:
    paths = sysconfig.get_paths()
    folders = {Path(paths[name]) for name in ("stdlib", "purelib", "platlib")}
    return any(Path(file).is_relative_to(folder) for folder in folders)


# -- where and how ---------------------------------------------------------------------------------


def environment(pipeline: Pipeline | None = None, compiler: object = None) -> dict[str, str]:
    """Return versions and the processor that a compile used; no path, no user name."""
    facts = {
        "luminal_lab": package_version(),
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "processor": cpu_name(),
    }
    if pipeline is not None and any(device.name == "cpu" for device in pipeline.devices()):
        compiler_used = compiler if isinstance(compiler, Compiler) else _compiler(pipeline)
        if compiler_used is not None:
            facts["compiler"] = compiler_used.version
    shell = sys.modules.get("IPython")
    if shell is not None:
        facts["IPython"] = str(getattr(shell, "__version__", ""))
    return facts


def package_version() -> str:
    """Return the installed version of this package."""
    try:
        return version("luminal-lab")
    except PackageNotFoundError:
        return "unknown"


def _compiler(pipeline: Pipeline) -> Compiler | None:
    asked = next((getattr(device, "compiler", None) for device in pipeline.devices()), None)
    try:
        return find_compiler(asked)
    except DeviceError:
        return None


def python_of(pipeline: Pipeline, licence: Iterable[str] = LICENCE) -> str:
    """Return the Python that repeats a compile.

    >>> from luminal_lab.passes.generic import GenericCompiler
    >>> print(python_of(Pipeline([GenericCompiler()])))
    cx.compile(ll.GenericCompiler())
    """
    parts = [*map(_call, pipeline.passes), *_licence(licence)]
    line = f"cx.compile({', '.join(parts)})"
    if len(line) <= WIDE:
        return line
    return "cx.compile(\n" + "".join(f"    {line},\n" for line in _lines(parts)) + ")"


def _lines(parts: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a long call: names of passes side by side, others on their own lines."""
    for is_text, group in groupby(parts, lambda part: part[0] in "'\""):
        line = ""
        for part in group:
            fits = is_text and len(line) + len(part) < WIDE - 8
            if line and not fits:
                yield line
            line = f"{line}, {part}" if line and fits else part
        yield line


def besides(pipeline: Pipeline, licence: Iterable[str] = LICENCE) -> tuple[str, ...]:
    """Return the Python of a compile's other arguments: the device alone, a licence.

    >>> from luminal_lab.devices.cpu.compiler import CPUCompiler
    >>> besides(Pipeline(["simplify", CPUCompiler(threads=1)]), ["no_nan"])
    ('ll.CPUCompiler(threads=1).alone()', "licence=['no_nan']")
    """
    return *(_call(device.alone()) for device in pipeline.devices()), *_licence(licence)


def _licence(licence: Iterable[str]) -> list[str]:
    return [] if {*licence} == {*LICENCE} else [f"licence={sorted(licence)!r}"]


def _call(argument: object) -> str:
    if isinstance(argument, Rewrite):  # a user's rule, which no text names
        return variable_of(argument.of.name) or argument.of.name.replace("-", "_")
    name = type(argument).__name__
    if name not in SPOKEN or not type(argument).__module__.startswith("luminal_lab."):
        return repr(str(argument))
    given: list[str] = []
    for name_of, parameter in inspect.signature(type(argument)).parameters.items():
        value: object = getattr(argument, name_of, parameter.default)
        if name_of == "schedules" and value:
            pairs = cast("tuple[tuple[str, object], ...]", value)
            value = {key: str(schedule) for key, schedule in pairs}
        if value and value != parameter.default:
            given.append(f"{name_of}={value!r}")
    is_alone = isinstance(argument, Pipeline) and argument.is_device and not argument.passes
    return f"ll.{name}({', '.join(given)})" + (".alone()" if is_alone else "")
