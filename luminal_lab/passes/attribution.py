"""The user's lines for a node of the last graph: each with its share of the work, 1 in all.

A node that passes have merged from equal ones belongs in equal parts to all lines that wrote one of
them; a kernel belongs to the lines of everything that it computes, by cost. Views and constants
cost nothing, and count only if nothing else is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Op, Reduce, Source, View
from luminal_lab.core.origin import Origin
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.tensor.arguments import told_object

FREE = (Source, View)
"""Ops that cost nothing."""
TYPICAL = 512
"""The size assumed for a dim that has none yet."""
LEAST = 0.005
"""Lines with a smaller share are left out: a mask shared by all layers is not a line's work."""


Effort: TypeAlias = Callable[[IR, Node], float]
"""The cost of a node of a graph."""


class LineShare(NamedTuple):
    """A user's line, and its share of a node's cost."""

    line: Origin
    share: float


@told_object("attribution")
class Attribution:
    """For the nodes of a compiled graph, the user's lines that they come from."""

    def __init__(self, snapshots: Sequence[Snapshot]) -> None:
        self.shots = snapshots
        self._parts: dict[tuple[int, int], Mapping[int, float]] = {}

    def lines(self, id: int, effort: Effort | None = None) -> tuple[LineShare, ...]:
        """Return the lines of a node of the last graph, those with the largest shares first."""
        by_line: dict[Origin, float] = {}
        for node, share in self.work(id, effort).items():
            if node.meta.origin is not None:
                line = node.meta.origin
                by_line[line] = by_line.get(line, 0.0) + share
        whole = sum(by_line.values())
        shares = [LineShare(line, share / whole) for line, share in by_line.items()]
        return tuple(sorted(shares, key=lambda each: -round(each.share, 6)))

    def work(self, id: int, effort: Effort | None = None) -> Mapping[Node, float]:
        """Return the written nodes that a node of the last graph computes, with their shares.

        `effort` gives the cost of a written node; by default a dim without a size is 512.
        """
        written = self.shots[0].ir
        own = {written[part]: size for part, size in sorted(self.parts(id).items())}
        costs = {node: size * (effort or _cost)(written, node) for node, size in own.items()}
        if not any(costs.values()):
            costs = own
        by_line: dict[Origin | None, float] = {}
        for node, cost in costs.items():
            by_line[node.meta.origin] = by_line.get(node.meta.origin, 0.0) + cost
        least = LEAST * sum(by_line.values())
        kept = {n: c for n, c in costs.items() if c and by_line[n.meta.origin] >= least}
        whole = sum(kept.values())
        return {node: cost / whole for node, cost in kept.items()}

    def parts(self, id: int) -> Mapping[int, float]:
        """Return the written nodes that a node computes, each with its part; merged ones share."""
        return self._back(len(self.shots) - 1, id)

    def _back(self, index: int, id: int) -> Mapping[int, float]:
        while index and not self.shots[index].firings:
            index -= 1
        if not index:
            return {id: 1.0}
        if (index, id) not in self._parts:
            shot = self.shots[index]
            nodes = shot.back(id)
            is_merged = id in shot.before and shot.ir[id].op.body_of() is None
            if is_merged:  # a node that it replaced, but that computed otherwise, is not its work
                own = _computing(shot, shot.before[id])
                nodes = [node for node in nodes if _computing(shot, node) == own]
            else:
                nodes = [node for node in nodes if not isinstance(node.op, FREE)] or nodes
            part = 1 / len(nodes) if is_merged else 1.0
            shares: dict[int, float] = {}
            for node in nodes:
                for written, size in self._back(index - 1, node.id).items():
                    # If two ways lead back to one node, it still counts once.
                    shares[written] = min(1.0, max(shares.get(written, 0.0), size * part))
            self._parts[index, id] = shares
        return self._parts[index, id]


def _computing(shot: Snapshot, node: Node) -> tuple[Op, list[int]]:
    """Return a key that nodes share if they compute the same after a pass."""
    return node.op, sorted(map(shot.standing_for, node.sources))


def _cost(ir: IR, node: Node) -> float:
    """Return the cost of a node, in additions."""
    body = node.op.body_of()
    if body is not None:
        return _body_cost(body)
    if isinstance(node.op, FREE):
        return 0.0
    read = ir[node.sources[0]] if isinstance(node.op, Reduce) else node
    return max(node.op.cost, 1) * _points(read)


@lru_cache(1 << 10)
def _body_cost(body: IR) -> float:
    return sum(_cost(body, node) for node in body)


def _points(node: Node) -> float:
    points = 1.0
    for dim in node.shape:
        points *= dim if isinstance(dim, int) else TYPICAL
    return points
