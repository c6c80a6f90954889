"""`views`: merge neighbouring views of one kind, and drop views that change nothing.

    %a = reshape{shape = [6]} %x : f32[6]
    %b = reshape{shape = [3, 2]} %a : f32[3, 2]    →    %b = reshape{shape = [3, 2]} %x : f32[3, 2]
    %c = slice{start = [1, 0], …} %b : f32[2, 2]        %y = slice{start = [2, 0], …} %b : f32[1, 2]
    %y = slice{start = [1, 0], …} %c : f32[1, 2]

A slice moves before a pad, so that the pad adds only kept elements. There is no way back: the
zeros of a pad hide elements that a slice of its source would show. `contiguous` copies a view for
speed alone, so a value already in row-major order is not copied.

A view that may fail once sizes are bound (a slice beyond a symbolic axis) stays separate, to keep
its error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from luminal_lab.core.dims import Dim, Shape, known
from luminal_lab.core.op import View
from luminal_lab.core.ops import Contiguous, Expand, Flip, Pad, Permute, Reshape, Slice
from luminal_lab.core.views import ComposedView
from luminal_lab.passes.pattern import Match, Pattern, fields, op, variables
from luminal_lab.passes.rewrite import Rewriting
from luminal_lab.passes.rule import Rule, RuleSet, rule

x = variables("x")
a, b = fields("a b")


def sure(*conditions: Dim) -> bool:
    """Return whether conditions on dims hold for all values of the dims."""
    return all(known(condition) is True for condition in conditions)


def _same_type(match: Match) -> bool:
    return match.type("x") == match.root.type


# -- views that change nothing ---------------------------------------------------------------------


def _in_order(a: tuple[int, ...]) -> bool:
    return a == tuple(range(len(a)))


def _takes_all(cut: Slice, match: Match) -> bool:
    axes = zip(_cuts(cut), match.type("x").shape, strict=True)
    return all(cut.takes_all(size) for cut, size in axes)


def _has_no_width(pad: Pad) -> bool:
    return all(width == 0 for width in (*pad.before, *pad.after))


@rule("flip-ones", op(Flip, x, axes=a))
def flip_ones(x: Pattern, a: tuple[int, ...], match: Match) -> Pattern | None:
    """Drop axes of size 1 from a flip."""
    shape = match.type("x").shape
    axes = tuple(axis for axis in a if shape[axis] != 1)
    if not axes:
        return x
    return op(Flip, x, axes=axes) if axes != a else None


@rule("permute-ones", op(Permute, x, axes=a))
def permute_ones(x: Pattern, a: tuple[int, ...], match: Match) -> Pattern | None:
    """Reshape where only axes of size 1 move past others."""
    shape = match.type("x").shape
    rest = [axis for axis in a if shape[axis] != 1]
    return op(Reshape, x, shape=match.root.shape) if rest == sorted(rest) else None


# -- neighbours ------------------------------------------------------------------------------------


@rule("permute-permute", op(Permute, op(Permute, x, axes=a), axes=b))
def permute_permute(x: Pattern, a: tuple[int, ...], b: tuple[int, ...]) -> Pattern:
    """Permute once."""
    return op(Permute, x, axes=tuple(a[axis] for axis in b))


@rule("flip-flip", op(Flip, op(Flip, x, axes=a), axes=b))
def flip_flip(x: Pattern, a: tuple[int, ...], b: tuple[int, ...]) -> Pattern:
    """Flip only the axes that are flipped exactly once."""
    return op(Flip, x, axes=tuple(sorted({*a} ^ {*b})))


@rule("pad-pad", op(Pad, op(Pad, x, name="inner"), name="outer"))
def pad_pad(x: Pattern, inner: Pad, outer: Pad) -> Pattern | None:
    """Pad once, by both widths."""
    widths = (*inner.before, *inner.after, *outer.before, *outer.after)
    if not sure(*[width >= 0 for width in widths]):
        return None
    before, after = _sums(inner.before, outer.before), _sums(inner.after, outer.after)
    return op(Pad, x, before=before, after=after)


def _sums(left: Shape, right: Shape) -> Shape:
    return tuple(p + q for p, q in zip(left, right, strict=True))


# -- slices ----------------------------------------------------------------------------------------


class AxisSlice(NamedTuple):
    """The part of one axis that a slice takes."""

    start: Dim
    stop: Dim
    step: int

    def takes_all(self, size: Dim) -> bool:
        """Return whether it covers an axis of this size."""
        return self == (0, size, 1)

    def is_sure(self, size: Dim) -> bool:
        """Return whether it lies within an axis of this size for all values of the dims."""
        return sure(self.start >= 0, self.start <= self.stop, self.stop <= size)


def _cuts(op: Slice) -> Iterator[AxisSlice]:
    return map(AxisSlice, op.start, op.stop, op.step)


def _slice_of(cuts: list[AxisSlice]) -> Slice:
    starts = tuple(cut.start for cut in cuts)
    stops = tuple(cut.stop for cut in cuts)
    return Slice(starts, stops, tuple(cut.step for cut in cuts))


@rule("slice-slice", op(Slice, op(Slice, x, name="inner"), name="outer"))
def slice_slice(x: Pattern, inner: Slice, outer: Slice, match: Match) -> Pattern | None:
    """Slice once, counting in positions of the source."""
    given, (between,) = match.type("x"), match.graph.sources(match.root)
    axes = zip(given.shape, _cuts(inner), between.shape, _cuts(outer), strict=True)
    cuts = [cut for axis in axes if (cut := _cut_of_cut(*axis)) is not None]
    if len(cuts) < len(given.shape):
        return None
    joined = _slice_of(cuts)
    return op(joined, x) if joined.infer(given) == match.root.type else None


def _cut_of_cut(size: Dim, inner: AxisSlice, between: Dim, outer: AxisSlice) -> AxisSlice | None:
    if inner.takes_all(size):
        return outer
    if outer.takes_all(between):
        return inner
    if not (inner.is_sure(size) and outer.is_sure(between)):
        return None
    start, step = inner.start + outer.start * inner.step, inner.step * outer.step
    stop = inner.start + outer.stop * inner.step
    if inner.step > 1 and not sure(stop <= size):
        # It stops after the last position that it takes, if it is known to take any.
        if not sure(outer.start < outer.stop):
            return None
        stop = start + (outer.stop - outer.start - 1) // outer.step * step + 1
    return AxisSlice(start, stop, step)


@rule("slice-pad", op(Slice, op(Pad, x, name="pad"), name="cut"))
def slice_pad(x: Pattern, pad: Pad, cut: Slice, match: Match) -> Pattern | None:
    """Slice first, and pad by the kept padding."""
    shape = match.type("x").shape
    axes = zip(shape, pad.before, pad.after, _cuts(cut), strict=True)
    parts = [part for axis in axes if (part := _kept(*axis)) is not None]
    if len(parts) < len(shape):
        return None
    cuts = [cut for cut, _, _ in parts]
    sliced = x
    if not all(cut.takes_all(size) for cut, size in zip(cuts, shape, strict=True)):
        sliced = op(_slice_of(cuts), x)
    padded = Pad(tuple(before for _, before, _ in parts), tuple(after for _, _, after in parts))
    return sliced if _has_no_width(padded) else op(padded, sliced)


def _kept(size: Dim, before: Dim, after: Dim, cut: AxisSlice) -> tuple[AxisSlice, Dim, Dim] | None:
    """Return the parts of the source and of the padding that a slice of a padded axis takes."""
    if before == 0 and after == 0:
        return cut, 0, 0
    end = before + size
    if not (sure(before >= 0, after >= 0) and cut.is_sure(end + after)):
        return None
    if sure(cut.start >= before, cut.stop <= end):
        return AxisSlice(cut.start - before, cut.stop - before, cut.step), 0, 0
    if cut.step > 1 or not sure(cut.start <= end, before <= cut.stop):
        return None
    low = _ends(before, cut.start)
    high = _ends(cut.stop, end)
    if low is None or high is None:
        return None
    return AxisSlice(low[1], size - high[1], 1), low[0], high[0]


def _ends(a: Dim, b: Dim) -> tuple[Dim, Dim] | None:
    """Return the excess of a over b, and of b over a; at least one of them is 0."""
    if sure(a >= b):
        return a - b, 0
    return (0, b - a) if sure(b >= a) else None


# -- contiguous ------------------------------------------------------------------------------------


def _is_in_place(match: Match) -> bool:
    """Return whether a value lies in row-major order without a copy."""
    base, ops = match.bindings["x"], list[View]()
    while isinstance(base.op, View):
        ops.insert(0, base.op)
        (base,) = match.graph.sources(base)
    return not ops or ComposedView.identity(base.shape).then(*ops).is_contiguous


VIEWS = RuleSet(
    "views",
    Rule("permute-in-order", op(Permute, x, axes=a), x, condition=_in_order),
    Rule("reshape-to-itself", op(Reshape, x), x, condition=_same_type),
    Rule("expand-to-itself", op(Expand, x), x, condition=_same_type),
    Rule("slice-all", op(Slice, x, name="cut"), x, condition=_takes_all),
    Rule("pad-nothing", op(Pad, x, name="pad"), x, condition=_has_no_width),
    flip_ones,
    permute_ones,
    permute_permute,
    Rule("reshape-reshape", op(Reshape, op(Reshape, x), shape=b), op(Reshape, x, shape=b)),
    Rule("expand-expand", op(Expand, op(Expand, x), shape=b), op(Expand, x, shape=b)),
    flip_flip,
    pad_pad,
    slice_slice,
    slice_pad,
    Rule("contiguous-in-place", op(Contiguous, x), x, condition=_is_in_place),
)


@dataclass(frozen=True)
class ViewComposition(Rewriting):
    """Compose neighbouring views, and drop those that change nothing."""

    name: ClassVar[str] = "views"
    rule_set: ClassVar[RuleSet] = VIEWS
