"""Python loops over slices: each round is a chain of kernels of its own.

    ll.stack([x[i].softmax(-1) @ w for i in range(16)])      16 times 2 launches
    x.softmax(-1) @ w                                        2 launches

The rounds are found by what they have in common: the same ops on consecutive slices, and results
that are joined or added up. The computation of one round then gets one more axis in front, and the
slices become the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from luminal_lab.advice.suspect import Case, Suspect, Variant, edited
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Elementwise, Reduce, Shape
from luminal_lab.core.ops import (
    Add,
    Constant,
    Contiguous,
    Expand,
    Flip,
    GraphBreak,
    Pad,
    Permute,
    Reshape,
    Slice,
    SumReduce,
    Where,
)

FEWEST = 4
"""How many rounds make a loop worth mentioning."""


class _UnlikeError(Exception):
    """The rounds differ, or an op has no form with one more axis."""


def loops(case: Case) -> Iterator[Suspect]:
    """Yield joined or added results of rounds that do the same on neighbouring slices."""
    ir = case.written
    inside: set[int] = set()
    for node in reversed(ir.nodes):
        if node.id in inside:
            continue
        for joined in (_concat(ir, node), _added(ir, node)):
            if joined is None or len(joined[1]) < FEWEST:
                continue
            axis, parts, behind = joined
            cut = _cut_of(ir, parts)
            if cut is None:
                continue
            inside |= behind
            yield Suspect(
                "loop",
                f"a Python loop of {len(parts)} rounds over slices of {ir[cut[0].sources[0]]}",
                "each round becomes kernels of its own, too small for all cores, and each launch "
                "costs some microseconds",
                "compute on the whole tensor at once, with the loop's axis as one more axis",
                (cut[0].id, *(part.id for part in parts)),
                partial(_whole, ir, node, axis, parts),
            )
            break


def _concat(ir: IR, node: Node) -> tuple[int | None, list[Node], set[int]] | None:
    """Return what `stack` and `concat` join: the axis and the parts in order."""
    chain: list[Node] = []
    behind: set[int] = set()
    now = node
    while isinstance(now.op, Where):
        mask, before, last = (ir[id] for id in now.sources)
        if not isinstance(last.op, Pad) or not isinstance(mask.op, Pad):
            return None
        behind |= {now.id, mask.id}
        chain.append(last)
        now = before
    if not chain or not isinstance(now.op, Pad):
        return None
    pads = [now, *reversed(chain)]
    size = ir[now.sources[0]].shape
    axes = [
        k for k, (part, whole) in enumerate(zip(size, node.shape, strict=True)) if part != whole
    ]
    if len(axes) != 1:
        return None
    (axis,) = axes
    for number, pad in enumerate(pads):
        assert isinstance(pad.op, Pad)
        part = ir[pad.sources[0]]
        step = size[axis]
        if part.shape != size or pad.op.before[axis] != number * step:
            return None
    return axis, [ir[pad.sources[0]] for pad in pads], behind


def _added(ir: IR, node: Node) -> tuple[int | None, list[Node], set[int]] | None:
    """Return what a chain of additions adds up, from the left."""
    parts: list[Node] = []
    behind: set[int] = set()
    now = node
    while isinstance(now.op, Add) and now.dtype.is_float:
        behind.add(now.id)
        before, last = (ir[id] for id in now.sources)
        if len(ir.users(now)) > 1 and now is not node:
            return None
        parts.append(last)
        now = before
    return (None, [now, *reversed(parts)], behind) if len(parts) > 1 else None


def _cut_of(ir: IR, parts: Sequence[Node]) -> list[Node] | None:
    """Return the slices at which the rounds begin; None unless they are alike."""
    cuts: list[list[Node]] = []
    try:
        _alike(ir, tuple(parts), cuts, {})
    except _UnlikeError:
        return None
    return cuts[0] if cuts else None


Group = tuple[Node, ...]


def _alike(ir: IR, nodes: Group, cuts: list[list[Node]], seen: dict[Group, None]) -> None:
    """Raise unless nodes of all rounds are alike; note the slices at which they begin."""
    if nodes in seen or all(node is nodes[0] for node in nodes):
        return
    seen[nodes] = None
    if _slices(ir, nodes) is not None:
        cuts.append([*nodes])
        return
    first = nodes[0]
    is_same = all(node.op == first.op and len(node.sources) == len(first.sources) for node in nodes)
    if not is_same or first.extra or not _can_lift(first):
        raise _UnlikeError
    for position in range(len(first.sources)):
        _alike(ir, tuple(ir[node.sources[position]] for node in nodes), cuts, seen)


def _can_lift(node: Node) -> bool:
    ops = (Elementwise, Reduce, Reshape, Expand, Permute, Slice, Pad, Flip)
    return isinstance(node.op, (*ops, Contiguous, GraphBreak, Constant))


def _slices(ir: IR, nodes: Group) -> tuple[int, int] | None:
    """Return the axis and the size of consecutive slices of one value."""
    first = nodes[0]
    if not all(isinstance(node.op, Slice) and node.sources == first.sources for node in nodes):
        return None
    whole = ir[first.sources[0]].shape
    axes = [k for k, size in enumerate(first.shape) if size != whole[k]]
    if len(axes) != 1 or not all(node.shape == first.shape for node in nodes):
        return None
    (axis,) = axes
    size = first.shape[axis]
    if not isinstance(size, int) or not isinstance(whole[axis], int):
        return None
    for number, node in enumerate(nodes):
        assert isinstance(node.op, Slice)
        if node.op.step[axis] != 1 or node.op.start[axis] != number * size:
            return None
        if any(start != 0 for k, start in enumerate(node.op.start) if k != axis):
            return None
    return axis, size


def _whole(ir: IR, root: Node, axis: int | None, parts: list[Node]) -> Variant | None:
    """Return a graph in which all rounds are computed at once."""

    def change(edit: Edit) -> None:
        lifted = _Lifted(ir, edit, len(parts), root)
        value = lifted.of(tuple(parts))
        if axis is None:
            new = edit.insert(SumReduce(0), value, like=root)
        else:
            rank = len(parts[0].shape)
            order = (*range(1, axis + 1), 0, *range(axis + 1, rank + 1))
            new = edit.insert(Permute(order), value, like=root)
        edit.replace(root.id, edit.insert(Reshape(root.shape), new, like=root))

    return Variant(edited(ir, change), is_exact=False)


class _Lifted:
    """Makes the values of all rounds at once, with the rounds as their first axis."""

    def __init__(self, ir: IR, edit: Edit, rounds: int, root: Node) -> None:
        self.ir, self.edit, self.rounds, self.root = ir, edit, rounds, root
        self.known: dict[tuple[int, ...], Node] = {}

    def of(self, nodes: Group) -> Node:
        """Return the joined value of some nodes, one from each round."""
        key = tuple(node.id for node in nodes)
        if key not in self.known:
            self.known[key] = self._made(nodes)
        return self.known[key]

    def _made(self, nodes: Group) -> Node:
        first, count = nodes[0], self.rounds
        if all(node is first for node in nodes) or not first.sources:
            added = self.edit.insert(Reshape((1, *first.shape)), first, like=first)
            return self.edit.insert(Expand((count, *first.shape)), added, like=first)
        cut = _slices(self.ir, nodes)
        if cut is not None:
            return self._cut(first, *cut)
        sources = [
            self.of(tuple(self.ir[node.sources[position]] for node in nodes))
            for position in range(len(first.sources))
        ]
        return self.edit.insert(_with_axis(first, count), *sources, like=first)

    def _cut(self, first: Node, axis: int, size: int) -> Node:
        """Return all slices of a value along an axis, with the slices as the first axis."""
        source = self.ir[first.sources[0]]
        whole, rank = source.shape, len(source.shape)
        used = (*whole[:axis], self.rounds * size, *whole[axis + 1 :])
        part = source
        if used != whole:
            part = self.edit.insert(Slice((0,) * rank, used, (1,) * rank), part, like=first)
        split: Shape = (*whole[:axis], self.rounds, size, *whole[axis + 1 :])
        part = self.edit.insert(Reshape(split), part, like=first)
        order = (axis, *(k for k in range(rank + 1) if k != axis))
        return self.edit.insert(Permute(order), part, like=first)


def _with_axis(node: Node, count: int):  # noqa: ANN202  # an op
    """Return an op for values with one more axis in front."""
    match node.op:
        case Reduce(axis=axis):
            return replace(node.op, axis=axis + 1)
        case Reshape(shape=shape):
            return Reshape((count, *shape))
        case Expand(shape=shape):
            return Expand((count, *shape))
        case Permute(axes=axes):
            return Permute((0, *(axis + 1 for axis in axes)))
        case Slice(start=start, stop=stop, step=step):
            return Slice((0, *start), (count, *stop), (1, *step))
        case Pad(before=before, after=after):
            return Pad((0, *before), (0, *after))
        case Flip(axes=axes):
            return Flip(tuple(axis + 1 for axis in axes))
        case _:
            return node.op
