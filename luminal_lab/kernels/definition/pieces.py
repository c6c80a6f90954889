"""Attention with few rows: the keys are cut into pieces, one for each block, and joined at the end.

    O[h, d] = the mean of v[j, d], weighted by 2 ** (factor * s[h, j]), over j < n
    →
    t[h, p, j < 256] = s[h, 256*p + j], or -inf beyond the last          one launch: a block has
    m[h, p] = max j: t[h, p, j]                                          one piece of one row
    w[h, p, j] = 2 ** ((t[h, p, j] - m[h, p]) * factor)
    l[h, p] = sum j: w[h, p, j];   a[h, p, d] = sum j: w[h, p, j] * v[256*p + j, d]

    top[h] = max p: m[h, p];   c[h, p] = 2 ** ((m[h, p] - top[h]) * factor)      another: a block
    O[h, d] = (sum p: a[h, p, d] * c[h, p]) * recip(sum p: l[h, p] * c[h, p])    has one row

A step of decoding has one row of queries for each head, and there are more cores than heads. Sums
are regrouped, as in any pass that rescales; pieces have the same length on every GPU, so that
results are the same to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from luminal_lab.core.dims import Dim, Symbol, bounds
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops.intrinsic import FusedMul, Maximum
from luminal_lab.core.printer import unique
from luminal_lab.kernels.definition.canonical import canonical
from luminal_lab.kernels.definition.cost import typical
from luminal_lab.kernels.definition.definition import Definition, Output
from luminal_lab.kernels.definition.running import Running, after, factors, running, scores_inlined
from luminal_lab.kernels.definition.substitution import exchanged, guarded, replaced, stated
from luminal_lab.kernels.definition.terms import (
    Apply,
    Count,
    Fold,
    FoldState,
    Number,
    Read,
    Term,
    axis_of,
    choice,
    free,
    passes,
    product,
)

PIECE = 256
"""How many keys a piece has."""
FEW = 16
"""If fewer rows than this see the same keys, sharing the keys among rows does not pay."""


def in_pieces(definition: Definition, most: int) -> Definition:
    """Return an attention of at most `most` rows as pieces that are joined at the end."""
    if len(definition.outputs) != 1:
        return definition
    whole, definition = definition, scores_inlined(definition)
    if definition.locals:
        return whole
    (line,) = definition.outputs
    folds = passes(line.term)
    if len(folds) != 1 or _is_short(folds[0]):
        return whole
    (fold,) = folds
    values = running(fold)
    if not any(value.ratio for value in values) or any(
        value.start != Number(0, value.start.dtype) for value in values if value.is_sum
    ):
        return whole
    seen = _free([value.term for value in values if not value.is_sum])
    rows = tuple(axis for axis in line.axes if axis.name in seen)
    sizes = dict(zip((axis.name for axis in line.axes), line.type.shape, strict=True))
    mixed = _free([factor for value in values for factor in value.others if value.is_sum])
    alike = [axis for axis in rows if axis.name not in mixed]
    if prod(typical(sizes[axis.name]) for axis in rows) > most:
        return whole
    if prod(typical(sizes[axis.name]) for axis in alike) >= FEW or len(rows) in (0, len(line.axes)):
        return whole
    return canonical(_Pieces(definition, line, fold, values, rows, sizes).definition_in_pieces())


def _is_short(fold: Fold) -> bool:
    """Return whether a fold has too few keys for pieces, however large its dims become."""
    _, most = bounds(fold.size)
    return most is not None and most < 2 * PIECE


def _free(terms: Iterable[Term]) -> set[str]:
    """Return the names of the axes and dims that some terms mention."""
    return {name for term in terms for name in free(term)}


class _Pieces:
    """The lines of an attention whose keys are cut into pieces."""

    def __init__(
        self,
        definition: Definition,
        line: Output,
        fold: Fold,
        values: tuple[Running, ...],
        rows: tuple[Symbol, ...],
        sizes: dict[str, Dim],
    ) -> None:
        self.definition, self.line, self.fold, self.values = definition, line, fold, values
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
        position, rows = self.piece * PIECE + self.key, self.rows
        at, each = (*rows, self.piece), (*rows, self.piece, self.key)
        exists, values = position < self.fold.size, {self.fold.axis.name: position}
        sums = [value for value in self.values if value.is_sum]
        in_piece: dict[Term, Term] = {}
        tops: dict[Term, Term] = {}
        for value in self.values:
            if not value.is_sum:
                score = self.line_of("t", each, self.score(exists, replaced(value.term, values)))
                most = (self.over("max", self.key, score), value.start)
                top = self.line_of("m", at, Apply(Maximum(), most, score.dtype))
                in_piece |= {value.term: score, after(value.state): top}
                tops[value.state] = top
        weights = {
            weight: self.line_of("w", each, replaced(exchanged(weight, in_piece.get), values))
            for weight in dict.fromkeys(weight for value in sums for weight in value.weights)
        }

        def added(term: Term) -> Term:
            if term in weights:
                return weights[term]
            if isinstance(term, Apply) and any(factor in weights for factor in factors(term)):
                return Apply(term.op, tuple(map(added, term.args)), term.dtype)
            return guarded(exists, replaced(term, values))

        totals: list[Read] = []
        for value in sums:
            seen = _free(value.others)
            columns = [axis for axis in self.columns if axis.name in seen]
            total = self.over("sum", self.key, added(value.term))
            totals.append(self.line_of(value.state.name[0], (*at, *columns), total))
        ends: dict[str, Term] = {}
        for state, top in list(tops.items()):
            assert isinstance(state, FoldState)
            ends[state.name] = self.line_of("top", rows, self.over("max", self.piece, top))
            tops[after(state)] = ends[state.name]
        scales = {
            ratio: self.line_of("c", at, exchanged(ratio, tops.get))
            for ratio in dict.fromkeys(value.ratio for value in sums)
            if ratio is not None
        }
        terms = [value.term for value in sums]
        fused = any(isinstance(term, Apply) and term.op == FusedMul() for term in terms)
        for value, total in zip(sums, totals, strict=True):
            scaled = product(total, scales[value.ratio], fused=fused) if value.ratio else total
            whole = self.over("sum", self.piece, scaled)
            is_scalar = len(total.index) == len(at)
            ends[value.state.name] = self.line_of("whole", rows, whole) if is_scalar else whole
        result = stated(self.fold.body, ends)
        term = exchanged(self.line.term, lambda part: result if part == self.fold else None)
        return replace(
            self.definition,
            locals=(*self.definition.locals, *self.lines),
            outputs=(replace(self.line, term=term),),
        )

    def score(self, exists: Dim, term: Term) -> Term:
        """Return a score that is -inf beyond the last position."""
        score = guarded(exists, term)
        if exists == 1:
            return score
        position = Count(self.piece * PIECE + self.key, DType.int64)
        size = Count(self.fold.size, DType.int64)
        return choice(position, size, score, Number(float("-inf"), term.dtype))
