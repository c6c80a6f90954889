"""The meaning of a nest: its statements in order, element by element, in Python.

Obvious, and slow, for small sizes. It refuses what C would not notice: an index outside an array,
or an element that is read before anything has written it. Each statement and each term becomes a
function once, which then runs in every iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from luminal_lab.core.binding import bound_shape
from luminal_lab.core.dims import Shape
from luminal_lab.core.dtypes import Array
from luminal_lab.core.op import TensorType, ints, tuple_text
from luminal_lab.core.random import uniform
from luminal_lab.errors import RangeError
from luminal_lab.kernels.definition.cost import NO_DIMS
from luminal_lab.kernels.definition.numbers import Numbers
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

Run: TypeAlias = Callable[[], None]
Value: TypeAlias = Callable[[], Array]
Place: TypeAlias = Callable[[], tuple[int, ...]]


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
    run = _Meaning(nest, dict(dims))
    for name, type in nest.inputs:
        run.make(name, type, inputs[name])
    for name, type in nest.outputs:
        run.make(name, type)
    with np.errstate(all="ignore"):
        run.block(nest.body)()
    return {name: run.arrays[name] for name, _ in nest.outputs}


class _Meaning:
    """Functions for statements and terms, on the values that axes and arrays have when they run."""

    def __init__(self, nest: Nest, values: dict[str, int]) -> None:
        self.nest = nest
        self.values = values
        self.arrays: dict[str, Array] = {}
        self.written: dict[str, Array] = {}
        self.known: dict[int, Value] = {}
        """The functions of terms, by the identities of these: several may share a part."""

    def make(self, name: str, type: TensorType, data: Array | None = None) -> None:
        shape = ints(bound_shape(name, type.shape, self.values))
        dtype = type.dtype.numpy
        self.arrays[name] = np.zeros(shape, dtype) if data is None else np.array(data, dtype)
        self.written[name] = np.full(shape, data is not None)

    # -- statements --------------------------------------------------------------------------------

    def block(self, block: Block) -> Run:
        steps = [self.statement(statement) for statement in block]

        def run() -> None:
            for step in steps:
                step()

        return run

    def statement(self, statement: Statement) -> Run:
        match statement:
            case Loop():
                return self.loop(statement)
            case When(holds=holds, body=body):
                asked, inner = self.numbers((holds,)), self.block(body)
                return lambda: inner() if asked()[0] else None
            case Local(name=name, type=type):
                return partial(self.make, name, type)
            case Set():
                return self.set(statement)
            case Fetch():
                return lambda: None  # it only affects timing

    def loop(self, loop: Loop) -> Run:
        ends, body = self.numbers(loop.ends), self.block(loop.body)
        name, values = loop.axis.name, self.values
        where = None if loop.position is None else self.term(loop.position)

        def run() -> None:
            every = range(*ends())
            for at in every if where is None else [self.checked(name, int(where()), every)]:
                values[name] = at
                body()
            values.pop(name, None)

        return run

    def checked(self, name: str, at: int, positions: range) -> int:
        if at in positions:
            return at
        raise RangeError(f"nest {self.nest.name}: {name} is {at}, and not in {positions}")

    def set(self, statement: Set) -> Run:
        name, term = statement.name, statement.term
        place, value = self.place(name, statement.index), self.term(term)
        is_sum = statement.how != "="
        joined = np.maximum if statement.how == "max=" else np.add
        copied = None
        if isinstance(term, Read) and not is_sum and name in self.nest.locals:
            copied = self.place(term.buffer, term.index), term.buffer

        def run() -> None:
            at = place()
            if copied is not None and not self.written[copied[1]][copied[0]()]:
                self.written[name][at] = False  # a copy may have elements that nobody reads
                return
            new = value()
            self.arrays[name][at] = joined(self.element(name, at), new) if is_sum else new
            self.written[name][at] = True

        return run

    # -- places ------------------------------------------------------------------------------------

    def numbers(self, dims: Shape) -> Callable[[], Sequence[int]]:
        numbers, values = Numbers(), self.values
        order = [*map(numbers.place, dims)]
        if len({*order}) == len(order):
            return lambda: numbers.of(values)
        return lambda: [numbers.of(values)[at] for at in order]

    def place(self, name: str, index: Shape) -> Place:
        numbers = self.numbers(index)
        return lambda: self.inside(name, tuple(numbers()))

    def inside(self, name: str, at: tuple[int, ...]) -> tuple[int, ...]:
        shape = self.arrays[name].shape
        for position, size in zip(at, shape, strict=True):
            if not 0 <= position < size:
                raise RangeError(
                    f"nest {self.nest.name}: {name}{list(at)} is outside of its shape, "
                    f"{tuple_text(shape)}"
                )
        return at

    def element(self, name: str, at: tuple[int, ...]) -> Array:
        if not self.written[name][at]:
            raise RangeError(f"nest {self.nest.name}: {name}{list(at)} is read and never written")
        return self.arrays[name][at]

    # -- terms -------------------------------------------------------------------------------------

    def term(self, term: Term) -> Value:
        if id(term) not in self.known:
            self.known[id(term)] = self.value(term)
        return self.known[id(term)]

    def value(self, term: Term) -> Value:
        match term:
            case Read(buffer=buffer, index=index):
                place = self.place(buffer, index)
                return lambda: self.element(buffer, place())
            case Lookup(buffer=buffer, index=index, axis=axis, position=position):
                before, behind = self.numbers(index[:axis]), self.numbers(index[axis + 1 :])
                where = self.term(position)

                def looked_up() -> Array:
                    at = (*before(), int(where()), *behind())
                    return self.element(buffer, self.inside(buffer, at))

                return looked_up
            case Number(value=value, dtype=dtype):
                array = np.asarray(value, dtype.numpy)
                return lambda: array
            case Count(at=at, dtype=dtype):
                count = self.numbers((at,))
                return lambda: np.asarray(count()[0]).astype(dtype.numpy)
            case Draw(seed=seed, stream=stream, at=at):
                counter = self.numbers((at,))
                return lambda: np.asarray(uniform(seed, stream, 0, np.asarray(counter()[0])))
            case Guarded(holds=holds, term=inner, dtype=dtype):
                asked, within, zero = (
                    self.numbers((holds,)),
                    self.term(inner),
                    np.zeros((), dtype.numpy),
                )
                return lambda: within() if asked()[0] else zero
            case Apply(op=op, args=args, dtype=dtype):
                takes = [*map(self.term, args)]
                bound = partial(op.bind, self.values) if op.symbols() else lambda: op
                return lambda: np.asarray(bound().eval(*[take() for take in takes])).astype(
                    dtype.numpy
                )
            case _:
                raise AssertionError(term)
