"""Attention of few rows: the keys are cut into pieces, one for each block, and joined at the end.

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

from luminal_lab.core.dims import Dim, Symbol, bounds
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Recip
from luminal_lab.core.ops.intrinsic import Maximum
from luminal_lab.core.printer import unique
from luminal_lab.kernels.definition.canonical import canonical
from luminal_lab.kernels.definition.cost import typical
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
    choice,
    free,
    positive,
    power,
    product,
    softmaxes,
)

PIECE = 256
"""How many keys a piece has."""
FEW = 16
"""With fewer rows than this that see the same keys, keys are not worth sharing among rows."""


def in_pieces(definition: Definition, most: int) -> Definition:
    """Return an attention of at most `most` rows as pieces that are joined at the end."""
    if len(definition.outputs) != 1:
        return definition
    whole, definition = definition, scores_inlined(definition)
    if definition.locals:
        return whole
    (line,) = definition.outputs
    folds = softmaxes(line.term)
    if len(folds) != 1 or _is_short(folds[0]):
        return whole
    (fold,) = folds
    assert fold.score is not None
    seen = free(fold.score)
    rows = tuple(axis for axis in line.axes if axis.name in seen)
    sizes = dict(zip((axis.name for axis in line.axes), line.type.shape, strict=True))
    alike = [axis for axis in rows if axis.name not in free(fold.body)]
    if prod(typical(sizes[axis.name]) for axis in rows) > most:
        return whole
    if prod(typical(sizes[axis.name]) for axis in alike) >= FEW or len(rows) in (0, len(line.axes)):
        return whole
    return canonical(_Pieces(definition, line, fold, rows, sizes).definition_in_pieces())


def _is_short(fold: Fold) -> bool:
    """Return whether a fold has too few keys for pieces, however large its dims become."""
    _, most = bounds(fold.size)
    return most is not None and most < 2 * PIECE


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
            *(axis.name for line in definition.lines for axis in line.axes),
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
        """Add a line, and return a read of it."""
        name = unique(name, self.taken)
        self.taken.add(name)
        shape = tuple(self.sizes[axis.name] for axis in axes)
        new = [self.axis(axis.name, size) for axis, size in zip(axes, shape, strict=True)]
        own: dict[str, Dim] = {old.name: new_axis for old, new_axis in zip(axes, new, strict=True)}
        type = TensorType(term.dtype, shape)
        self.lines.append(Output(name, type, tuple(new), replaced(term, own)))
        return Read(name, axes, term.dtype)

    def over(self, kind: str, axis: Symbol, term: Term) -> Fold:
        """Return the sum or the maximum of a term along an axis, which gets a new name."""
        own = self.axis(axis.name, self.sizes[axis.name])
        body = replaced(term, {axis.name: own})
        size = self.sizes[axis.name]
        return Fold("sum" if kind == "sum" else "max", own, size, body, term.dtype)

    def definition_in_pieces(self) -> Definition:
        """Return the definition."""
        fold, dtype, rows = self.fold, self.fold.dtype, self.rows
        assert fold.score is not None
        position = self.piece * PIECE + self.key
        values: dict[str, Dim] = {fold.axis.name: position}
        exists = position < fold.size
        score, value = (guarded(exists, replaced(term, values)) for term in (fold.score, fold.body))
        if exists != 1:
            at_key, keys = Count(position, DType.int64), Count(fold.size, DType.int64)
            score = choice(at_key, keys, score, Number(float("-inf"), dtype))
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
        whole = positive(whole) if fold.empty else whole
        added = self.over("sum", self.piece, product(a, c, fused=fold.fused))
        mean = product(added, Apply(Recip(), (whole,), dtype))
        term = exchanged(self.line.term, lambda part: mean if part == fold else None)
        return replace(
            self.definition,
            locals=(*self.definition.locals, *self.lines),
            outputs=(replace(self.line, term=term),),
        )
