"""The step `pad`: a copy of an array gets a border with the values that windows see outside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape, Symbol, both, substitute, symbols
from luminal_lab.core.op import TensorType
from luminal_lab.kernels.definition.substitution import exchanged, guarded, replaced
from luminal_lab.kernels.definition.terms import Read, Term, free, read_by, walk as walk_terms
from luminal_lab.kernels.nest.nest import (
    Block,
    Local,
    Loop,
    Nest,
    Set,
    Space,
    Statement,
    accesses,
    axes_in,
    mapped,
    walk,
)
from luminal_lab.kernels.steps.step import Step, around, copied, extent, replaced_loop, within


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
        if self.into in nest.names:
            raise self.refuse(f"there is a {self.into} already", "give another name behind as")
        read = self.only_read(loop)
        axes = {name: nest.loops[name] for name in (loop.name, *axes_in(loop.body))}
        spans = [self.span(nest, dim, axes) for dim in read.index]
        own = self.own(nest, spans)
        # Each pivot is the position in the span, less what the span's other axes add.
        values: dict[str, Dim] = {}
        for span, axis in own:
            step = substitute(span.added, {span.pivot.name: span.pivot + 1}) - span.added
            values[span.pivot.name] = step * (axis - span.added) + span.pivot

        inside = set(axes)
        changing = {statement.name for statement in walk(loop.body) if isinstance(statement, Set)}
        sets = [statement for statement in walk(loop.body) if isinstance(statement, Set)]
        terms = {
            term
            for statement in sets
            for term in self.parts(statement.term, values, inside, changing)
        }
        if len(terms) != 1:
            shown = " and ".join(sorted(map(str, terms))[:2])
            raise self.refuse(f"{loop.name} reads it as {shown}: one copy cannot be both")
        (term,) = terms
        value = replaced(term, values)
        # The loop need not read every position between the first and the last.
        for at, size in zip(read.index, nest.types[self.array].shape, strict=True):
            position = substitute(at, values)
            if not within(position, size):
                value = guarded(both(position >= 0, position < size), value)
        copy = self.copy(own, value, top=not around(nest, loop.name))
        added = tuple(span.added for span, _ in own)
        return replaced_loop(nest, loop.name, (*copy, self.reading(loop, term, added)))

    def only_read(self, loop: Loop) -> Read:
        """Return the one way in which a loop reads the array."""
        used = [access for access in accesses((loop,)) if access.name == self.array]
        if not used:
            raise self.refuse(f"{loop.name} does not read {self.array}")
        if any(access.how != "read" for access in used):
            raise self.refuse(f"{loop.name} writes {self.array} too")
        if any(access.index is None for access in used):
            raise self.refuse(f"{self.array} is looked up there")
        reads = {
            part
            for access in used
            for part in walk_terms(access.statement.term)
            if isinstance(part, Read) and part.buffer == self.array
        }
        if len(reads) > 1:
            shown = " and ".join(sorted(map(str, reads))[:2])
            raise self.refuse(f"{loop.name} reads it as {shown}: one copy cannot be both")
        (read,) = reads
        return read

    def span(self, nest: Nest, at: Dim, axes: Mapping[str, Loop]) -> _Span | None:
        """Return the span of a position that axes move, or None if they do not."""
        first, pivot = at, None
        size: Dim = 1
        for axis in symbols(at):
            if axis.name not in axes:
                continue
            step, length = substitute(at, {axis.name: axis + 1}) - at, extent(axis)
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

    def parts(
        self, term: Term, values: Mapping[str, Dim], inside: set[str], changing: set[str]
    ) -> Iterator[Term]:
        """Yield the largest parts of a term that read the array and depend on its index alone."""
        if self.array in read_by(term):
            left = free(replaced(term, values)).keys() & inside
            if not left and read_by(term).isdisjoint(changing):
                yield term
            else:
                for part in term.parts:
                    yield from self.parts(part, values, inside, changing)

    def copy(self, own: list[tuple[_Span, Symbol]], value: Term, *, top: bool) -> Block:
        """Return the local, and the loops that fill it."""
        shape = tuple(span.size for span, _ in own)
        space: Space = "memory" if top else "scratch"
        body: Statement = Set(self.into, tuple(axis for _, axis in own), value)
        for span, axis in reversed(own):
            body = Loop(axis, span.size, (body,))
        return Local(self.into, TensorType(value.dtype, shape), space), body

    def reading(self, loop: Loop, term: Term, index: Shape) -> Loop:
        """Return the loop with the copy read in place of the array."""
        copy = Read(self.into, index, term.dtype)

        def change(statement: Statement) -> Statement:
            if not isinstance(statement, Set):
                return statement
            return replace(
                statement, term=exchanged(statement.term, lambda x: copy if x == term else None)
            )

        (changed,) = mapped((loop,), change)
        assert isinstance(changed, Loop)
        return changed
