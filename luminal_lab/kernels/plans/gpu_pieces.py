"""Attention of few rows: the keys are cut into pieces, each a block's, and put together at the end.

    O[h, d] = the mean of v[j, d], weighted by 2 ** (factor * s[h, j]), over j < n
    →
    t[h, p, j < 256] = s[h, 256*p + j], or -inf beyond the last          one launch: a block has
    m[h, p] = max j: t[h, p, j]                                          one piece of one row
    w[h, p, j] = 2 ** ((t[h, p, j] - m[h, p]) * factor)
    l[h, p] = sum j: w[h, p, j];   a[h, p, d] = sum j: w[h, p, j] * v[256*p + j, d]

    top[h] = max p: m[h, p];   c[h, p] = 2 ** ((m[h, p] - top[h]) * factor)      another: a block
    O[h, d] = (sum p: a[h, p, d] * c[h, p]) * recip(sum p: l[h, p] * c[h, p])    has one row

A step of decoding has a row of queries for each head, and there are more cores than heads. Sums are
regrouped, as by an online softmax; pieces are as long whatever the GPU, so that bits do not differ.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from luminal_lab.core.dims import Dim, Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType, size_of
from luminal_lab.core.ops import LessThan, Recip, Where
from luminal_lab.core.ops.intrinsic import Maximum
from luminal_lab.core.printer import unique
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.canonical import canonical
from luminal_lab.kernels.definition.definition import Definition, Output
from luminal_lab.kernels.definition.online import scores_inlined
from luminal_lab.kernels.definition.substitution import exchanged, guarded, replaced
from luminal_lab.kernels.definition.terms import (
    LOWEST,
    Apply,
    Count,
    Fold,
    Number,
    Read,
    Term,
    axis_of,
    free,
    power,
    product,
    softmaxes,
)
from luminal_lab.kernels.gpu import GPU
from luminal_lab.kernels.nest.nest import Local, accesses
from luminal_lab.kernels.nest.sizes import about, at_most
from luminal_lab.kernels.plans.gpu_rows import row_plan
from luminal_lab.kernels.steps.arrays import Place, Shrink, around_local
from luminal_lab.kernels.steps.loops import Fuse
from luminal_lab.kernels.steps.schedule import Handle, Scheduling

PIECE = 256
"""How many keys a piece has."""
FEW = 16
"""With fewer rows than this that see the same keys, keys are not worth sharing among rows."""


def in_pieces(definition: Definition, gpu: GPU) -> Definition:
    """Return an attention of few rows as pieces that are put together; others as they are."""
    if len(definition.outputs) != 1:
        return definition
    whole, definition = definition, scores_inlined(definition)
    if definition.locals:
        return whole
    (line,) = definition.outputs
    found = softmaxes(line.term)
    if len(found) != 1 or at_most(found[0].size) < 2 * PIECE:
        return whole
    (fold,) = found
    assert fold.score is not None
    seen = free(fold.score)
    rows = tuple(axis for axis in line.axes if axis.name in seen)
    sizes = dict(zip((axis.name for axis in line.axes), line.type.shape, strict=True))
    alike = [axis for axis in rows if axis.name not in _keys(fold)]
    if prod(about(sizes[axis.name]) for axis in rows) > gpu.cores:
        return whole
    if prod(about(sizes[axis.name]) for axis in alike) >= FEW or len(rows) in (0, len(line.axes)):
        return whole
    return canonical(_Pieces(definition, line, fold, rows, sizes).made())


def _keys(fold: Fold) -> set[str]:
    """Return the axes that say which values are weighed."""
    return set(free(fold.body))


class _Pieces:
    """The lines of an attention whose keys are cut into pieces."""

    def __init__(
        self,
        definition: Definition,
        line: Output,
        fold: Fold,
        rows: tuple[Symbol, ...],
        sizes: dict[str, Dim],
    ) -> None:
        self.definition, self.line, self.fold = definition, line, fold
        self.rows, self.sizes = rows, sizes
        self.taken = {
            *definition.types,
            *definition.dims,
            *(axis.name for one in definition.lines for axis in one.axes),
            fold.axis.name,
        }
        count = (fold.size + PIECE - 1) // PIECE
        self.piece, self.key = self.axis("p", count), self.axis("j", PIECE)
        self.columns = tuple(axis for axis in line.axes if axis not in rows)
        self.lines: list[Output] = []

    def axis(self, name: str, size: Dim) -> Symbol:
        """Return a new axis."""
        name = unique(name, self.taken)
        self.taken.add(name)
        self.sizes[name] = size
        return axis_of(name, size)

    def line_of(self, name: str, axes: tuple[Symbol, ...], term: Term) -> Read:
        """Add a line, and return what reads it."""
        name = unique(name, self.taken)
        self.taken.add(name)
        shape = tuple(self.sizes[axis.name] for axis in axes)
        new = [self.axis(axis.name, size) for axis, size in zip(axes, shape, strict=True)]
        own: dict[str, Dim] = {old.name: one for old, one in zip(axes, new, strict=True)}
        type = TensorType(term.dtype, shape)
        self.lines.append(Output(name, type, tuple(new), replaced(term, own)))
        return Read(name, axes, term.dtype)

    def over(self, kind: str, axis: Symbol, term: Term) -> Fold:
        """Return the sum or the maximum of a term along an axis, which gets a name of its own."""
        own = self.axis(axis.name, self.sizes[axis.name])
        body = replaced(term, {axis.name: own})
        size = self.sizes[axis.name]
        return Fold("sum" if kind == "sum" else "max", own, size, body, term.dtype)

    def made(self) -> Definition:
        """Return the definition."""
        fold, dtype, rows = self.fold, self.fold.dtype, self.rows
        assert fold.score is not None
        place = self.piece * PIECE + self.key
        there: dict[str, Dim] = {fold.axis.name: place}
        exists = place < fold.size
        score, value = (guarded(exists, replaced(one, there)) for one in (fold.score, fold.body))
        if exists != 1:
            seen = Apply(
                LessThan(), (Count(place, DType.int64), Count(fold.size, DType.int64)), DType.bool_
            )
            score = Apply(Where(), (seen, score, Number(float("-inf"), dtype)), dtype)
        lowest = Number(LOWEST[dtype], dtype)
        at, each = (*rows, self.piece), (*rows, self.piece, self.key)
        t = self.line_of("t", each, score)
        highest = self.over("max", self.key, t)
        m = self.line_of("m", at, Apply(Maximum(), (highest, lowest), dtype))
        w = self.line_of("w", each, power(t, m, fold.factor))
        total = self.line_of("l", at, self.over("sum", self.key, w))
        mixed = self.over("sum", self.key, product(w, value, fused=fold.fused))
        a = self.line_of("a", (*at, *self.columns), mixed)
        top = self.line_of("top", rows, self.over("max", self.piece, m))
        c = self.line_of("c", at, power(m, top, fold.factor))
        whole: Term = self.line_of(
            "whole", rows, self.over("sum", self.piece, product(total, c, fused=fold.fused))
        )
        if fold.empty:
            some = Apply(LessThan(), (Number(0, dtype), whole), DType.bool_)
            whole = Apply(Where(), (some, whole, Number(1, dtype)), dtype)
        added = self.over("sum", self.piece, product(a, c, fused=fold.fused))
        mean = product(added, Apply(Recip(), (whole,), dtype))
        term = exchanged(self.line.term, lambda one: mean if one == fold else None)
        return replace(
            self.definition,
            locals=(*self.definition.locals, *self.lines),
            outputs=(replace(self.line, term=term),),
        )


def pieces_plan(made: Scheduling, gpu: GPU) -> bool:
    """Schedule an attention in pieces; return whether the nest is one."""
    tops = made.tops
    pieces, ends = tops[:5], tops[5:]
    if len(tops) != 9 or not all(_has_maximum(one) for one in (pieces[1], ends[0])):
        return False
    for first, *others in (pieces, ends):
        for later in others:
            _together(made, first, later)
    for local in list(made.nest.locals):
        with made.attempt():
            _shrunk(made, local)
    for local in list(made.nest.locals.values()):
        if local.space == "scratch" and not around_local(made.nest, local.name):
            made.do(Place((local.name,), "memory"))
    return all(row_plan(made, top, gpu) for top in (pieces[0], ends[0]))


def _has_maximum(loop: Handle) -> bool:
    return any(one.how == "max=" for one in accesses(loop.loop.body))


def _shrunk(made: Scheduling, name: str) -> None:
    """Keep of an array what a block needs of it, if it is known how much that is."""
    made.do(Shrink((name,)))
    size = size_of(made.nest.locals[name].type.shape)
    if not isinstance(size, int):
        raise ScheduleError(f"{name}: it is not known before it runs how much a block needs of it")


def _together(made: Scheduling, first: Handle, second: Handle) -> None:
    """Make one of two loops, and of those right in them, as far as both are over the same."""
    while True:
        made.do(Fuse(second, first))
        body = [one for one in first.loop.body if not isinstance(one, Local)]
        if len(body) != 2 or len(first.parts) != len(body):
            return
        first, second = first.parts
        if first.size != second.size:
            return
