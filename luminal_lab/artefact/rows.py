"""Which rows of a model have nothing to do with one another, so that callers' can be joined.

    x [rows, 784] ─ … ─ y [rows, 10]      row i of y is a function of row i of x, the same for each

That is proved from the graph as it was written, node by node: along which axes an element depends
on the inputs at its own place alone, and neither on that place nor on how many there are. An op
that is not known here proves nothing.

    (axis, factor)    the axis has `factor` elements for each row, one row after another
    EVERYWHERE        the same number along all axes
    SIZED             a value on which the number of rows has an influence
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from luminal_lab.core import ops
from luminal_lab.core.dims import Dim, Expr, Symbol, symbols
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Elementwise, Op, Reduce, View, size_of

Places: TypeAlias = "frozenset[tuple[int, Dim]] | str"
EVERYWHERE: Final = "everywhere"
SIZED: Final = "sized"
NOWHERE: Final = frozenset[tuple[int, Dim]]()
SAME: Final = (ops.Contiguous, ops.GraphBreak, ops.After, ops.CustomGradient)


def rows_of(ir: IR, inputs: Sequence[Node]) -> Symbol | int | None:
    """Return the first dim of all inputs and outputs if its rows are independent, or None.

    `inputs` are those that callers give; the others are weights.

    >>> x = cx.tensor(("rows", 4), name="x")
    >>> y = x.softmax(-1).retrieve()
    >>> str(rows_of(cx.ir, cx.ir.inputs))
    'rows'
    >>> z = x.softmax(0).retrieve()
    >>> print(rows_of(cx.ir, cx.ir.inputs))
    None
    """
    shapes = [node.type.shape for node in (*inputs, *ir.outputs)]
    firsts = {shape[0] if shape else None for shape in shapes}
    rows = next(iter(firsts))
    if not inputs or ir.carries or len(firsts) > 1 or not isinstance(rows, (Symbol, int)):
        return None
    if rows == 1:
        return None
    proof = _Proof(rows, {node.id for node in inputs})
    places: dict[int, Places] = dict.fromkeys([node.id for node in ir.inputs], NOWHERE)
    for node in ir.nodes:
        places[node.id] = proof.places(node, [ir[id] for id in node.sources], places)
    found = [places[id] for id in ir.output_ids]
    proved = all(one == EVERYWHERE if isinstance(one, str) else (0, 1) in one for one in found)
    return rows if proved else None


class _Proof:
    """What is known about each node."""

    def __init__(self, rows: Symbol | int, given: set[int]) -> None:
        self._rows, self._given = rows, given
        self._depends = set[int](given)

    def places(self, node: Node, sources: Sequence[Node], places: Mapping[int, Places]) -> Places:
        """Return along which axes a node's rows are independent."""
        known = [places[source.id] for source in sources]
        if any(source.id in self._depends for source in sources):
            self._depends.add(node.id)
        if node.id in self._given:
            return frozenset({(0, 1)})
        if SIZED in known or node.extra:
            return SIZED
        op, shapes = node.op, [source.type.shape for source in sources]
        match op:
            case ops.Constant():
                is_sized = isinstance(op.value, Expr) and self._mentions(op.value)
                return SIZED if is_sized else EVERYWHERE
            case ops.Input() | ops.Iota():
                return NOWHERE
            case Elementwise():
                return _all(known)
            case Reduce(axis=axis):
                sized = self._mentions(shapes[0][axis])
                return SIZED if sized else _without(known[0], {axis})
            case View():
                return self._viewed(op, shapes[0], node.type.shape, sources[0], known[0])
            case _:
                return self._moved_by(op, sources, known)

    def _moved_by(self, op: Op, sources: Sequence[Node], known: Sequence[Places]) -> Places:
        """Return the same of what data move, and of what is the same value."""
        match op:
            case ops.Gather(axis=axis):
                return self._gathered(axis, sources, known)
            case ops.Update(axis=axis):
                return SIZED if self._mentions(op.at) else _without(_all(known), {axis})
            case ops.Scatter(axis=axis):
                return _without(_all(known), {axis})
            case _:
                return known[0] if isinstance(op, SAME) else SIZED

    def _viewed(
        self, op: View, old: Sequence[Dim], new: Sequence[Dim], source: Node, found: Places
    ) -> Places:
        """Return the same of a view."""
        if isinstance(op, ops.Expand):
            return self._expanded(old, new, source, found)
        if isinstance(op, ops.Permute | ops.Reshape):
            if isinstance(found, str):
                return found
            moved = (
                (op.axes.index(axis), factor)
                if isinstance(op, ops.Permute)
                else self._moved(axis, factor, old, new)
                for axis, factor in found
            )
            return frozenset(one for one in moved if one is not None)
        match op:
            case ops.Slice(start=start, stop=stop, step=step):
                parts = enumerate(zip(start, stop, step, old, strict=True))
                cut = {a for a, (x, y, s, n) in parts if x != 0 or y != n or s != 1}
                bounds = [dim for a in cut for dim in (start[a], stop[a], old[a])]
            case ops.Pad(before=before, after=after):
                pairs = enumerate(zip(before, after, strict=True))
                cut = {a for a, (x, y) in pairs if x != 0 or y != 0}
                bounds = [dim for a in cut for dim in (before[a], after[a], old[a])]
                found = NOWHERE if found == EVERYWHERE and cut else found
            case ops.Flip(axes=axes):
                cut, bounds = set(axes), [old[axis] for axis in axes]
            case ops.Window(axis=axis, size=size):
                cut, bounds = {axis}, [size, old[axis]]
            case _:
                return SIZED
        return SIZED if any(map(self._mentions, bounds)) else _without(found, cut)

    def _expanded(
        self, old: Sequence[Dim], new: Sequence[Dim], source: Node, found: Places
    ) -> Places:
        """Return the same of a value that is repeated; one that is no row's own is in each row."""
        if isinstance(found, str) or source.id in self._depends:
            return found
        more = set(found)
        for axis, (before, after) in enumerate(zip(old, new, strict=True)):
            if before != after and (factor := self._factor(after)) is not None:
                more.add((axis, factor))
        return frozenset(more)

    def _gathered(self, axis: int, sources: Sequence[Node], known: Sequence[Places]) -> Places:
        """Return the same of a gather, in which each row may look anywhere in a weight."""
        values, index = known
        if values == EVERYWHERE:
            return EVERYWHERE
        beside = _without(_all(known), {axis})
        if isinstance(index, str) or sources[0].id in self._depends or isinstance(beside, str):
            return beside
        return beside | {(at, factor) for at, factor in index if at == axis}

    def _moved(
        self, axis: int, factor: Dim, old: Sequence[Dim], new: Sequence[Dim]
    ) -> tuple[int, Dim] | None:
        """Return where an axis of rows is after a reshape, if it is still one."""
        before, behind = size_of(old[:axis]), factor * size_of(old[axis + 1 :])
        for at in range(len(new)):
            rest = size_of(new[at + 1 :])
            now = self._factor(new[at])
            if size_of(new[:at]) == before and now is not None and now * rest == behind:
                return at, now
        return None

    def _factor(self, size: Dim) -> Dim | None:
        """Return how many elements an axis has for each row, if it has equally many."""
        factor = size // self._rows
        return factor if factor * self._rows == size else None

    def _mentions(self, dim: Dim) -> bool:
        return isinstance(self._rows, Symbol) and self._rows in symbols(dim)


def _all(known: Sequence[Places]) -> Places:
    """Return what holds for an element made of several at the same place."""
    sets = [found for found in known if not isinstance(found, str)]
    return sets[0].intersection(*sets[1:]) if sets else EVERYWHERE


def _without(found: Places, axes: set[int]) -> Places:
    return (
        found if isinstance(found, str) else frozenset(one for one in found if one[0] not in axes)
    )
