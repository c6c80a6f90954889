"""Six rules: which axis of a result is which axis of a source, for every primitive.

1. An elementwise op joins: axis k of each source is axis k of the result.
2. A permutation carries each axis to its new place.
3. A reshape carries the major axis of each group of axes that it splits or merges.
4. An expanded axis is free, and so are all of a constant, of iota and of random numbers: a worker
   makes any part by itself.
5. A reduction over a cut axis leaves a partial value: each worker has a term of it.
6. The rest needs axes whole that it moves along; the others carry.

Folded axes (of a reduction, of a scatter that adds to zeros) count as axes behind the result's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from luminal_lab.core.dims import Dim, Shape
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Elementwise, Reduce, View
from luminal_lab.core.ops import (
    Add,
    After,
    Constant,
    Contiguous,
    CustomGradient,
    Expand,
    Flip,
    Gather,
    GraphBreak,
    Iota,
    MaxReduce,
    Mul,
    Pad,
    Permute,
    Random,
    Reshape,
    Scatter,
    Slice,
    StopGradient,
    SumReduce,
    Update,
    Where,
    Window,
)
from luminal_lab.workers.layout import Kind
from luminal_lab.workers.pipe_ops import Move

Links: TypeAlias = tuple[int | None, ...]
"""For each axis of a source, the axis of the result that it is; None if it must be whole."""
PASSING = (Contiguous, GraphBreak, Move, StopGradient)
"""Ops with one source, whose result it is."""
LINEAR = (Permute, Reshape, Flip, Slice, *PASSING)
"""Ops of which a term of a sum, or of a maximum, makes a term again, no larger than it was."""


class Rule(NamedTuple):
    """What an op does to layouts."""

    links: tuple[Links, ...]
    """One for each source."""
    free: frozenset[int] = frozenset()
    """The axes of the result of which a worker can make any part."""
    fold: Kind | None = None
    """How the axes that are linked behind the result's own are joined."""


def rule_of(ir: IR, node: Node) -> Rule:
    """Return the rule for a node."""
    sources = ir.sources(node)
    same = tuple(range(len(node.shape)))
    whole: tuple[Links, ...] = tuple((None,) * len(source.shape) for source in sources)
    match node.op:
        case Constant() | Iota() | Random():
            return Rule((), frozenset(same))
        case Elementwise() if all(source.shape == node.shape for source in sources):
            return Rule((same,) * len(sources))
        case Contiguous() | GraphBreak() | Move() | After() | CustomGradient():
            return Rule((same, *whole[1:]))
        case View():
            return _view(sources[0].shape, node)
        case SumReduce() | MaxReduce() | Gather() | Scatter() | Update():
            return _along(ir, node)
        case _:
            return Rule(whole)


def _view(old: Shape, node: Node) -> Rule:
    """Return the rule of a view: what it moves along must be whole."""
    op, new = node.op, node.shape
    same = tuple(range(len(old)))
    match op:
        case Permute(axes=axes):
            return Rule((tuple(axes.index(axis) for axis in same),))
        case Reshape():
            return Rule((_reshaped(old, new),))
        case Expand():
            made = frozenset(axis for axis in same if old[axis] != new[axis])
            return Rule((_without(same, made),), made)
        case Slice(start=start, step=step):
            moved = {k for k in same if old[k] != new[k] or (start[k], step[k]) != (0, 1)}
        case Pad(before=before, after=after):
            moved = {k for k in same if (before[k], after[k]) != (0, 0)}
        case Flip(axes=axes):
            moved = {*axes}
        case Window(axis=axis):
            moved = {axis}
        case _:
            moved = {*same}
    return Rule((_without(same, moved),))


def _along(ir: IR, node: Node) -> Rule:
    """Return the rule of an op that works along one axis."""
    op, rank = node.op, len(node.shape)
    same = tuple(range(rank))
    assert isinstance(op, Reduce | Gather | Scatter | Update), "it has an axis"
    across = _without(same, {op.axis})
    folded = tuple(rank if k == op.axis else k for k in same)
    match op:
        case Gather():
            return Rule((across, same))
        case Update():
            return Rule((across, across))
        case Scatter(mode="add") if is_zero(ir, ir.sources(node)[0]):
            return Rule((across, folded, folded), fold="sum")
        case Scatter():
            return Rule((across,) * 3)
        case _:
            return Rule((folded,), fold="sum" if isinstance(op, SumReduce) else "max")


def _without(links: Links, axes: frozenset[int] | set[int]) -> Links:
    return tuple(None if k in axes else k for k in links)


def groups(old: Shape, new: Shape) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the axes that a reshape turns into each other, without those of size 1.

    >>> [*groups((2, 3, 4), (6, 1, 2, 2))]
    [([0, 1], [0]), ([2], [2, 3])]
    """
    left = [k for k, dim in enumerate(old) if dim != 1]
    right = [k for k, dim in enumerate(new) if dim != 1]
    mine, theirs = list[int](), list[int]()
    a: Dim = 1
    b: Dim = 1
    while left or right:
        if right and (not left or (theirs == [] and mine) or (mine and _is_less(b, a))):
            theirs.append(right.pop(0))
            b = b * new[theirs[-1]]
        else:
            mine.append(left.pop(0))
            a = a * old[mine[-1]]
        if mine and theirs and a == b:
            yield mine, theirs
            mine, theirs, a, b = [], [], 1, 1
    if mine or theirs:
        yield mine, theirs


def _is_less(a: Dim, b: Dim) -> bool:
    return isinstance(a, int) and isinstance(b, int) and a < b


def _reshaped(old: Shape, new: Shape) -> Links:
    links: list[int | None] = [None] * len(old)
    if 0 not in (*old, *new):
        for mine, theirs in groups(old, new):
            if mine and theirs:
                links[mine[0]] = theirs[0]
    return tuple(links)


def is_zero(ir: IR, node: Node) -> bool:
    """Return whether a value is 0 everywhere, and a constant."""
    while isinstance(node.op, View):
        node = ir.sources(node)[0]
    return isinstance(node.op, Constant) and node.op.value == 0


def terms(ir: IR, node: Node, partial: Sequence[bool], kind: Kind) -> bool:
    """Return whether a worker's terms of some sources make terms of the result."""
    if not any(partial):
        return False
    op = node.op
    if isinstance(op, LINEAR):
        return True
    if isinstance(op, MaxReduce):
        return kind == "max"
    if kind != "sum":
        return False
    match op:
        case SumReduce():
            return True
        case Add():
            return all(partial)
        case Mul():
            return sum(partial) == 1
        case Where():
            pairs = zip(partial[1:], ir.sources(node)[1:], strict=True)
            return not partial[0] and all(p or is_zero(ir, source) for p, source in pairs)
        case _:
            return False
