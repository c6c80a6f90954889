"""The step `pad`: a copy of an array gets a border with the values that windows see outside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dims import Dim, Symbol, both, substitute, symbols
from luminal_lab.kernels.definition.substitution import guarded, replaced
from luminal_lab.kernels.definition.terms import Read, Term, free, read_by, walk as walk_terms
from luminal_lab.kernels.nest.nest import Loop, Nest, Set, accesses, arrays_written, axes_in, every
from luminal_lab.kernels.nest.sizes import slope
from luminal_lab.kernels.steps.arrays import copy_of, only, parts_of
from luminal_lab.kernels.steps.step import (
    Step,
    around,
    copied,
    extent,
    replaced_loop,
    with_copy,
    within,
)


@dataclass(frozen=True)
class _Span:
    """The span that a loop reads along one axis: its first position, and the axes that move it."""

    first: Dim
    added: Dim
    size: Dim
    """How many positions the span has, from the first to the last."""
    pivot: Symbol
    """An axis that moves the position by one."""


@dataclass(frozen=True)
class Pad(Step):
    """Before a loop, copy all elements of an array that it reads, and the border, each one once.

    for i: for p: … [0 < i + p: x[i + p - 1]] …
    →   for f_i < n + 2: f[f_i] = [0 < f_i: x[f_i - 1]];   for i: for p: … f[i + p] …

    Any work on an element before it is multiplied or stored happens during the copy.
    """

    form: ClassVar[str] = "pad {array} before {loop} as {into}"
    array: str
    loop: str
    into: str

    @override
    def apply(self, nest: Nest) -> Nest:
        loop = self.find(nest, self.loop)
        self.check_free(nest, self.into)
        read = only(self, loop, self.reads(loop))
        axes = {name: nest.loops[name] for name in (loop.name, *axes_in(loop.body))}
        spans = [self.span(nest, dim, axes) for dim in read.index]
        own = self.own(nest, spans)
        # Each pivot is the position in the span, less what the span's other axes add.
        values: dict[str, Dim] = {}
        for span, axis in own:
            step = slope(span.added, span.pivot)
            values[span.pivot.name] = step * (axis - span.added) + span.pivot

        inside = set(axes)
        changing = arrays_written(loop.body)
        sets = every(loop.body, Set)

        def fits(term: Term) -> bool:
            """Return whether a term depends on nothing inside but the index of the array."""
            left = free(replaced(term, values)).keys() & inside
            return not left and read_by(term).isdisjoint(changing)

        terms = {term for statement in sets for term in parts_of(statement.term, self.array, fits)}
        term = only(self, loop, terms)
        value = replaced(term, values)
        # The loop need not read every position between the first and the last.
        for at, size in zip(read.index, nest.types[self.array].shape, strict=True):
            position = substitute(at, values)
            if not within(position, size):
                value = guarded(both(position >= 0, position < size), value)
        top = not around(nest, loop.name)
        block = copy_of(self.into, [axis for _, axis in own], value, top=top)
        copy = Read(self.into, tuple(span.added for span, _ in own), term.dtype)
        return replaced_loop(nest, loop.name, (*block, *with_copy(loop, term, copy)))

    def reads(self, loop: Loop) -> set[Read]:
        """Return the elements of the array that a loop reads and does not write."""
        used = [access for access in accesses((loop,)) if access.name == self.array]
        if not used:
            raise self.refuse(f"{loop.name} does not read {self.array}")
        if any(access.how != "read" for access in used):
            raise self.refuse(f"{loop.name} writes {self.array} too")
        if any(access.index is None for access in used):
            raise self.refuse(f"{self.array} is looked up there")
        return {
            part
            for access in used
            for part in walk_terms(access.statement.term)
            if isinstance(part, Read) and part.buffer == self.array
        }

    def span(self, nest: Nest, at: Dim, axes: Mapping[str, Loop]) -> _Span | None:
        """Return the span of a position that axes move, or None if they do not."""
        first, pivot = at, None
        size: Dim = 1
        for axis in symbols(at):
            if axis.name not in axes:
                continue
            step, length = slope(at, axis), extent(axis)
            if not isinstance(step, int):
                raise self.refuse(f"{self.array} is not read along {axis} in equal steps: at {at}")
            if any(s.name in nest.loops for s in symbols(length)):
                raise self.refuse(f"the size of {axis}, {length}, depends on other loops")
            first = substitute(first, {axis.name: 0 if step > 0 else length - 1})
            size = size + abs(step) * (length - 1)
            if abs(step) == 1 and pivot is None:
                pivot = axis
        if first == at:
            return None
        if pivot is None:
            raise self.refuse(f"neighbours along no axis are neighbours in {self.array}")
        return _Span(first, at - first, size, pivot)

    def own(self, nest: Nest, spans: list[_Span | None]) -> list[tuple[_Span, Symbol]]:
        """Return the spans that the copy has, each with its new axis."""
        # An axis that moves two positions, as in x[i, i], is one axis of the copy.
        moved = [*{span.pivot: span for span in spans if span is not None}.values()]
        names = copied([span.pivot.name for span in moved], self.into)
        return [
            (span, self.named(nest, name, span.size))
            for span, name in zip(moved, names, strict=True)
        ]
