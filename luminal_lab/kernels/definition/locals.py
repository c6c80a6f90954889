"""Which parts of a kernel become locals: those that would cost more to compute again.

    e[i < n, j < 64] = exp2(x[i, j] - m[i])         13 additions an element, and two lines read it
    l[i < n] = sum j < 64: e[i, j]
    y[i < n, j < 64] = e[i, j] * recip(l[i])        recip(l[i]) would be computed 64 times a row

A value that is read at one site of one line is computed there once, however often it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from luminal_lab.core import ops
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Elementwise, Reduce, View, size_of
from luminal_lab.kernels.definition.cost import typical

PLAIN = (ops.Input, ops.Constant, ops.Iota)
"""Ops that are never locals."""
DEEPEST, LONGEST, MOST = 50, 200, 5000
"""How deep a term may be, how long if several lines have it, and how long with repeated parts."""
KEEPING = 4
"""The cost of storing and reading an element, in additions; cheaper elements are recomputed."""


def kept_nodes(
    ir: IR,
    reached: Sequence[Node],
    keep: set[int] | None,
    read_by: Callable[[IR, Node], tuple[Node, ...]],
) -> set[int]:
    """Return the nodes that become locals: as asked or by cost, and those too long or deep."""
    uses: dict[int, int] = {}
    for node in reached:
        for source in read_by(ir, node):
            uses[source.id] = uses.get(source.id, 0) + 1
    sites = _Sites(ir, reached, read_by)
    kept = sites.kept() if keep is None else set(keep)
    kept -= {node.id for node in reached if isinstance(node.op, ops.Input)}
    length: dict[int, int] = {}
    depth: dict[int, int] = {}
    for node in reached:
        parts = [source.id for source in read_by(ir, node)]
        length[node.id] = 1 + sum(length[id] for id in parts)
        depth[node.id] = 1 + max([0, *(depth[id] for id in parts)])
        many = uses.get(node.id, 0) + ir.output_ids.count(node.id) > 1
        lines = len(sites.of.get(node.id, ())) > 1 or keep is not None
        long = many and length[node.id] > (LONGEST if lines else MOST)
        deep = depth[node.id] > DEEPEST and node.id in uses
        if (long or deep) and not isinstance(node.op, (*PLAIN, ops.Random)):
            kept.add(node.id)
        if node.id in kept:
            length[node.id] = depth[node.id] = 1
    return kept


class _Sites:
    """Where each node is computed, and how often: a site is a line and the path to the node."""

    def __init__(
        self, ir: IR, reached: Sequence[Node], read_by: Callable[[IR, Node], tuple[Node, ...]]
    ) -> None:
        self.ir = ir
        self.reached = reached
        self.read_by = read_by
        self.known: dict[tuple[int, int], int] = {}
        self.of: dict[int, dict[int, int]] = {node.id: {} for node in reached}
        """The sites of each node, and how many elements are computed at each."""
        self.costs = self._costs()
        self.packed = self._packed()
        self.online = self._online()

    def at(self, site: int, node: Node) -> int:
        """Return a site further inside."""
        return self.known.setdefault((site, node.id), len(self.known) + 1)

    def kept(self) -> set[int]:
        """Return the nodes that cost more to compute again than to keep."""
        kept: set[int] = set()
        for node in reversed(self.reached):
            size = typical(size_of(node.shape))
            sites = self.of[node.id]
            if node.id in self.ir.output_ids:
                sites[self.at(0, node)] = size
            if isinstance(node.op, (*PLAIN, View)):
                keeps = False
            else:
                again = sum(sites.values()) - size
                cost = self.costs[node.id]
                keeps = cost > KEEPING and again * cost > KEEPING * size
                keeps |= isinstance(node.op, ops.Contiguous) and again > 0
            if keeps and not self._unpacks(node) and not self._is_skipped(node):
                kept.add(node.id)
                sites = {self.at(-1, node): size}
            self._pass_on(node, sites)
        return kept

    def _pass_on(self, node: Node, sites: dict[int, int]) -> None:
        """Note where the sources of a node are computed."""
        for operand, source in enumerate(self.read_by(self.ir, node)):
            into = self.of[source.id]
            for site, points in sites.items():
                if isinstance(node.op, Reduce):
                    size = typical(source.shape[node.op.axis])
                    into[self.at(site, node)] = points * size
                elif isinstance(node.op, View) or (isinstance(node.op, ops.Gather) and not operand):
                    into[self.at(site, node)] = points
                else:
                    into[site] = max(points, into.get(site, 0))

    def _costs(self) -> dict[int, float]:
        """Return the cost of an element of each node; a repeated value counts its share."""
        costs: dict[int, float] = {}
        for node in self.reached:
            cost = float(node.op.cost)
            for source in dict.fromkeys(self.read_by(self.ir, node)):
                if isinstance(node.op, Reduce):
                    size = typical(source.shape[node.op.axis])
                    cost += size * (1 + costs[source.id])
                elif isinstance(node.op, ops.Expand):
                    whole = typical(size_of(source.shape)), typical(size_of(node.shape))
                    cost += costs[source.id] * whole[0] / max(whole[1], 1)
                else:
                    cost += costs[source.id]
            costs[node.id] = cost
        return costs

    def _packed(self) -> dict[int, int]:
        """Return the bytes behind each node that is made of bytes in memory and numbers alone."""
        packed: dict[int, int] = {}
        for node in self.reached:
            sources = self.read_by(self.ir, node)
            if isinstance(node.op, ops.Input):
                if node.dtype.itemsize == 1:
                    packed[node.id] = typical(size_of(node.shape))
            elif not isinstance(node.op, Reduce) and all(s.id in packed for s in sources):
                packed[node.id] = max((packed[s.id] for s in sources), default=0)
        return packed

    def _unpacks(self, node: Node) -> bool:
        """Return whether a node makes more bytes, or floats, of packed bits that take fewer."""
        size = typical(size_of(node.shape)) * node.dtype.itemsize
        is_wide = node.dtype.is_float or node.dtype.itemsize == 1
        return is_wide and 0 < self.packed.get(node.id, 0) < size

    def _is_skipped(self, node: Node) -> bool:
        """Return whether a node is never a local of its own."""
        return node.id in self.online or self._is_negation(node)

    def _is_negation(self, node: Node) -> bool:
        """Return whether a node is another one times -1: it is written as a subtraction."""
        sources = self.read_by(self.ir, node)
        return isinstance(node.op, ops.Mul) and any(
            isinstance(source.op, ops.Constant) and source.op.value == -1 for source in sources
        )

    def _online(self) -> set[int]:
        """Return the nodes between a softmax and the sum of a product that uses it.

        The running maximum and sum of such a line make it one pass, in which nothing is kept.
        """
        online: set[int] = set()
        after_product: set[int] = set()
        after_maximum: set[int] = set()
        for node in self.reached:
            sources = {source.id for source in self.read_by(self.ir, node)}
            if sources & after_product or self._is_product(node):
                after_product.add(node.id)
            largest = isinstance(node.op, ops.MaxReduce) and node.id in after_product
            if largest or sources & after_maximum:
                after_maximum.add(node.id)
        if any(node.id in after_maximum and self._is_product(node) for node in self.reached):
            online = {n.id for n in self.reached if n.id in after_maximum}
            online -= {n.id for n in self.reached if isinstance(n.op, Reduce)}
        return online

    def _is_product(self, node: Node) -> bool:
        """Return whether a node sums products one factor of which is read again and again."""
        if not isinstance(node.op, ops.SumReduce):
            return False
        (product,) = self.ir.sources(node)
        return isinstance(product.op, ops.Mul) and any(
            self._is_repeated(source) for source in self.ir.sources(product)
        )

    def _is_repeated(self, node: Node) -> bool:
        while isinstance(node.op, View):
            if isinstance(node.op, (ops.Expand, ops.Window)):
                base = node
                while isinstance(base.op, View):
                    (base,) = self.ir.sources(base)
                return isinstance(base.op, (ops.Input, Elementwise, Reduce, ops.Gather)) and (
                    size_of(base.shape) != 1
                )
            (node,) = self.ir.sources(node)
        return False
