"""The meaning of a nest: its statements in order, element by element, in Python.

Slow and obvious, for small sizes. It refuses what C would not notice: an index outside an array, or
an element that is read before anything has written it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from luminal_lab.core.binding import bound_shape
from luminal_lab.core.dims import Dim, evaluate
from luminal_lab.core.dtypes import Array
from luminal_lab.core.op import TensorType, ints, tuple_text
from luminal_lab.core.random import uniform
from luminal_lab.errors import RangeError
from luminal_lab.kernels.definition.cost import NO_DIMS
from luminal_lab.kernels.definition.terms import (
    Apply,
    Count,
    Draw,
    Guarded,
    Lookup,
    Number,
    Read,
    Term,
)
from luminal_lab.kernels.nest.nest import Block, Fetch, Local, Loop, Nest, Set, Statement, When


def evaluate_nest(
    nest: Nest, inputs: Mapping[str, Array], dims: Mapping[str, int] = NO_DIMS
) -> dict[str, Array]:
    """Return the outputs by their names.

    >>> from luminal_lab.kernels.definition.text import parse_definition
    >>> from luminal_lab.kernels.nest.lowering import lower
    >>> nest = lower(parse_definition('''kernel total(x: f32[n]) -> (y: f32[])
    ...   y[] = sum i < n: x[i]'''))
    >>> evaluate_nest(nest, {"x": np.array([1, 2, 4], np.float32)}, {"n": 3})["y"].item()
    7.0
    """
    run = _Run(nest, dict(dims))
    for name, type in nest.inputs:
        run.make(name, type, inputs[name])
    for name, type in nest.outputs:
        run.make(name, type)
    run.block(nest.body)
    return {name: run.arrays[name] for name, _ in nest.outputs}


class _Run:
    def __init__(self, nest: Nest, values: dict[str, int]) -> None:
        self.nest = nest
        self.values = values
        self.arrays: dict[str, Array] = {}
        self.written: dict[str, Array] = {}

    def make(self, name: str, type: TensorType, data: Array | None = None) -> None:
        shape = ints(bound_shape(name, type.shape, self.values))
        dtype = type.dtype.numpy
        self.arrays[name] = np.zeros(shape, dtype) if data is None else np.array(data, dtype)
        self.written[name] = np.full(shape, data is not None)

    def block(self, block: Block) -> None:
        for statement in block:
            self.statement(statement)

    def statement(self, statement: Statement) -> None:
        match statement:
            case Loop(axis=axis, body=body, position=position):
                positions = range(*(evaluate(end, self.values) for end in statement.ends))
                if position is not None:
                    positions = [self.checked(axis.name, int(self.term(position)), positions)]
                for at in positions:
                    self.values[axis.name] = at
                    self.block(body)
                self.values.pop(axis.name, None)
            case When(holds=holds, body=body):
                if evaluate(holds, self.values):
                    self.block(body)
            case Local(name=name, type=type):
                self.make(name, type)
            case Set():
                self.set(statement)
            case Fetch():
                pass  # it only affects timing

    def checked(self, name: str, at: int, positions: range) -> int:
        if at in positions:
            return at
        raise RangeError(f"nest {self.nest.name}: {name} is {at}, and not in {positions}")

    def set(self, statement: Set) -> None:
        at = self.position(statement.name, statement.index)
        is_copy = statement.how == "=" and statement.name in self.nest.locals
        if is_copy and self.is_unset(statement.term):
            self.written[statement.name][at] = False  # a copy may have elements that nobody reads
            return
        value = self.term(statement.term)
        array = self.arrays[statement.name]
        with np.errstate(all="ignore"):
            if statement.how != "=":
                old = self.element(statement.name, at)
                value = np.maximum(old, value) if statement.how == "max=" else np.add(old, value)
            array[at] = value
        self.written[statement.name][at] = True

    def position(self, name: str, index: tuple[Dim, ...]) -> tuple[int, ...]:
        at = tuple(evaluate(dim, self.values) for dim in index)
        shape = self.arrays[name].shape
        if any(not 0 <= position < size for position, size in zip(at, shape, strict=True)):
            raise RangeError(
                f"nest {self.nest.name}: {name}{list(at)} is outside of its shape, "
                f"{tuple_text(shape)}"
            )
        return at

    def is_unset(self, term: Term) -> bool:
        """Return whether a term is an element that was never written, and nothing else."""
        if not isinstance(term, Read):
            return False
        return not self.written[term.buffer][self.position(term.buffer, term.index)]

    def element(self, name: str, at: tuple[int, ...]) -> Array:
        if not self.written[name][at]:
            raise RangeError(f"nest {self.nest.name}: {name}{list(at)} is read and never written")
        return self.arrays[name][at]

    def term(self, term: Term) -> Array:
        match term:
            case Read(buffer=buffer, index=index):
                return self.element(buffer, self.position(buffer, index))
            case Lookup(buffer=buffer, index=index, axis=axis, position=position):
                at = (*index[:axis], int(self.term(position)), *index[axis + 1 :])
                return self.element(buffer, self.position(buffer, at))
            case Number(value=value, dtype=dtype):
                return np.asarray(value, dtype.numpy)
            case Count(at=at, dtype=dtype):
                return np.asarray(evaluate(at, self.values)).astype(dtype.numpy)
            case Draw(seed=seed, stream=stream, at=at):
                counter = np.asarray(evaluate(at, self.values))
                return np.asarray(uniform(seed, stream, 0, counter))
            case Guarded(holds=holds, term=inner, dtype=dtype):
                if evaluate(holds, self.values):
                    return self.term(inner)
                return np.zeros((), dtype.numpy)
            case Apply(op=op, args=args, dtype=dtype):
                with np.errstate(all="ignore"):
                    array = op.bind(self.values).eval(*map(self.term, args))
                return np.asarray(array).astype(dtype.numpy)
            case _:
                raise AssertionError(term)
