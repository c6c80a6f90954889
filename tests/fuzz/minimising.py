"""Makes a program that shows a fault as small as it can, by cutting and by simpler data.

A statement is cut by making its value an input: the graph before it goes. What is left of the
sizes, the symbols, the values of inputs and the statements' numbers is then made simpler for as
long as the fault stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.passes.minimise import Smallest
from tests.fuzz.programs import Given, Program, Statement, built, renamed, values_of

Shows = Callable[[Program], bool]
MOST = 400
"""How many programs are tried."""


def minimised(program: Program, shows: Shows) -> Program:
    """Return a small program that still shows what this one shows."""
    search = Smallest(shows, MOST)
    program = search.of(program, _candidates)
    last = renamed(program)
    return last if search.is_shown(last) else program


def _candidates(program: Program) -> Iterator[Program]:
    """Yield smaller programs, those that take most away first."""
    if len(program.outputs) > 1:
        for name in program.outputs:
            yield replace(program, outputs=(name,)).trimmed()
    yield from _earlier(program)
    yield from _cut(program)
    yield from _shorter(program)
    yield from _with_sizes(program)
    yield from _without_symbols(program)
    yield from _with_data(program)


def _earlier(program: Program) -> Iterator[Program]:
    """Ask for a value on the way rather than for the last."""
    for one in program.statements:
        if one.name not in program.outputs:
            yield replace(program, outputs=(one.name,)).trimmed()


def _cut(program: Program) -> Iterator[Program]:
    """Make the value of a statement an input: of the last first, before which most goes."""
    if len(program.statements) < 2:
        return
    names = [one.name for one in program.statements if one.name not in program.outputs]
    asked = replace(program, outputs=tuple(dict.fromkeys((*program.outputs, *names))))
    try:
        cx, tensors = built(asked)
        cx.execute()
        values = dict(zip(names, values_of(tensors, names), strict=True))
        symbols = {name: tuple(map(_symbol, tensors[name].shape)) for name in names}
    except Exception:
        return
    for name in reversed(names):
        for dims in dict.fromkeys([symbols[name], (None,) * values[name].ndim]):
            given = Given(name, values[name], dims)
            statements = tuple(one for one in program.statements if one.name != name)
            yield Program((*program.inputs, given), statements, program.outputs).trimmed()


def _named(dim: object) -> object:
    """Return a dim as the name of its symbol, if it is one."""
    text = str(dim)
    return text if not isinstance(dim, int) and text.isidentifier() else dim


def _symbol(dim: object) -> str | None:
    """Return the name of a dim that is a symbol."""
    return str(dim) if not isinstance(dim, int) and str(dim).isidentifier() else None


def _shorter(program: Program) -> Iterator[Program]:
    """Have what reads a value read what it is made of instead."""
    for one in program.statements:
        for source in one.reads:
            statements = tuple(
                Statement(other.name, re.sub(rf"\b{one.name}\b", source, other.text))
                for other in program.statements
                if other.name != one.name
            )
            outputs = tuple(source if name == one.name else name for name in program.outputs)
            if all(not name.startswith("x") for name in outputs):
                yield Program(program.inputs, statements, outputs).trimmed()


def _with_sizes(program: Program) -> Iterator[Program]:
    """Make each size smaller wherever an input has it."""
    sizes = {size for one in program.inputs for size in one.array.shape if size > 1}
    for size in sorted(sizes, reverse=True):
        for new in dict.fromkeys((1, 2, size // 2, size - 1)):
            for part in (slice(new), slice(size - new, None)) if 0 < new < size else ():
                inputs = tuple(
                    replace(one, array=_sliced(one.array, size, part)) for one in program.inputs
                )
                yield replace(program, inputs=inputs)


def _sliced(array: Array, size: int, part: slice) -> Array:
    """Return a part of each axis of a size."""
    return array[tuple(part if one == size else slice(None) for one in array.shape)].copy()


def _without_symbols(program: Program) -> Iterator[Program]:
    if any(name for one in program.inputs for name in one.dims):
        inputs = tuple(replace(one, dims=(None,) * len(one.dims)) for one in program.inputs)
        yield replace(program, inputs=inputs)


def _with_data(program: Program) -> Iterator[Program]:
    """Make the values of inputs simpler: all 0, all 1, rounded, or half of them 0."""
    for place, one in enumerate(program.inputs):
        flat = one.array.reshape(-1)
        options = [np.zeros_like(flat), np.ones_like(flat)]
        if one.array.dtype.kind in "fV":
            with np.errstate(all="ignore"):
                options.append(np.round(flat.astype(np.float64)).astype(flat.dtype))
        if flat.size > 1:
            half = flat.size // 2
            for cut in (slice(half), slice(half, None)):
                less = flat.copy()
                less[cut] = 0
                options.append(less)
        if 1 < flat.size <= 8:
            for at in range(flat.size):
                less = flat.copy()
                less[at] = 0
                options.append(less)
        for option in options:
            if option.tobytes() != flat.tobytes():
                new = replace(one, array=option.reshape(one.array.shape))
                inputs = (*program.inputs[:place], new, *program.inputs[place + 1 :])
                yield replace(program, inputs=inputs)
