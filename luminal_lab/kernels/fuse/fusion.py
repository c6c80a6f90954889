"""Fusion: regions of the graph become kernels, calls whose bodies are the regions.

    %a = add %x, %b              : f32[8, 8]        %y = call{body = add_mul_sum} %x, %b : f32[8, 1]
    %m = mul %a, %a              : f32[8, 8]   →
    %y = sum_reduce{axis = 1} %m : f32[8, 1]        graph add_mul_sum(%a: …, %b: …) -> (…) { … }

Views, constants and counting cost nothing and go wherever they are read. The first pass that has a
kernel for a computing node takes it:

    forget-gradients    nodes that only say how gradients are derived go
    fuse-whole          what a pass has made to be one kernel, with elementwise nodes after it
    fuse-contractions   sums of products, with cheap nodes before and elementwise nodes after them
    fuse-rows           other reductions, with all nodes that make a row from the same row
    fuse-elementwise    the rest
    fuse-chains         kernels, one after another, that are one pass together (chains.py)

A value that several kernels read is stored, or computed in each of them if that costs less: at most
4 additions per element while reading about as many bytes as the value has; or, for everything that
a kernel would read together, less time than storing and reading it, with a byte worth 2 additions.
The passes go from the outputs up, so that the readers of a value are known when this is decided.

Why nodes are one kernel, and why one stays apart, is in the firings and refusals of the passes:
`compilation.why(node)`, `compilation.why_not("contraction", node)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dims import Dim
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Reduce, size_of
from luminal_lab.core.ops import CustomGradient
from luminal_lab.kernels.definition.cost import amount, typical
from luminal_lab.kernels.fuse.apart import told_apart
from luminal_lab.kernels.fuse.body import PlannedKernel, plan, write
from luminal_lab.kernels.fuse.contraction import contraction, product_of
from luminal_lab.kernels.fuse.reading import GraphReading
from luminal_lab.kernels.fuse.region import FusedRegion, Inner
from luminal_lab.kernels.fuse.whole import FuseWhole
from luminal_lab.passes.asking import Inquiry, kind_of
from luminal_lab.passes.base import Pass

LONGEST_ROW = 1 << 18
"""The most bytes of a row that is read more than once: about the size of a core's cache."""
FEW_ROWS = 16
"""Fewer rows than this do not keep all cores busy."""


@dataclass(frozen=True)
class ForgetGradients(Pass):
    """Remove the nodes that only say how gradients are derived, as the gradients already exist."""

    name: ClassVar[str] = "forget-gradients"

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        for node in ir.nodes:
            if isinstance(node.op, CustomGradient):
                edit.replace(node, node.sources[0], rule="no-gradient-is-asked")


class Fuse(Pass):
    """Make kernels of some nodes, each with others around it."""

    search: ClassVar[str]
    """What its kernels are called in reasons."""

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        reading = GraphReading(ir)
        write(edit, reading, self.plans(reading))

    def plans(self, reading: GraphReading) -> list[PlannedKernel]:
        """Return the kernels of a graph."""
        nodes = (node for node in self.first(reading) if reading.is_open(node))
        plans = [self.planned(reading, node) for node in nodes]
        return [planned for planned in plans if planned is not None]

    @override
    def searches(self) -> tuple[str, ...]:
        return (self.search,)

    @override
    def why_not(self, ir: IR, search: str, node: Node) -> str:
        reading = GraphReading(ir)
        plans = self.plans(reading)
        return told_apart(reading, plans, search, node) or self.no_root(ir, node)

    def no_root(self, ir: IR, node: Node) -> str:
        """Say why no kernel begins at a node that no kernel came near."""
        raise NotImplementedError

    def first(self, reading: GraphReading) -> Sequence[Node]:
        """Return the nodes to begin with, those read later first."""
        return reading.open()[::-1]

    def planned(self, reading: GraphReading, node: Node) -> PlannedKernel | None:
        """Return the kernel around a node, if there is one."""
        raise NotImplementedError


@dataclass(frozen=True)
class FuseContractions(Fuse):
    """Make kernels of sums of products, with cheap nodes before and elementwise nodes after.

    Of the dtypes that `units` names, tensor units multiply what is in memory: no nodes before.
    """

    name: ClassVar[str] = "fuse-contractions"
    search: ClassVar[str] = "contraction"
    units: tuple[str, ...] = ()

    @override
    def planned(self, reading: GraphReading, node: Node) -> PlannedKernel | None:
        region = contraction(reading, node, self.units)
        return region and plan(region.region, self.search, region.because)

    @override
    def no_root(self, ir: IR, node: Node) -> str:
        reading = GraphReading(ir)
        reading.inquiry = inquiry = Inquiry()
        product_of(reading, node)
        misfit = inquiry.furthest
        assert misfit is not None, "it is not a contraction"
        return misfit.told(self.search)


@dataclass(frozen=True)
class FuseRows(Fuse):
    """Make kernels of reductions, with all nodes that make a row from the same row."""

    name: ClassVar[str] = "fuse-rows"
    search: ClassVar[str] = "rows"

    @override
    def first(self, reading: GraphReading) -> Sequence[Node]:
        reductions = [node for node in super().first(reading) if isinstance(node.op, Reduce)]
        return sorted(reductions, key=lambda node: _is_late(reading, node))

    @override
    def planned(self, reading: GraphReading, node: Node) -> PlannedKernel:
        region = _rows(reading, node)
        return plan(region, self.search, _told(region, size_of(node.shape)))

    @override
    def no_root(self, ir: IR, node: Node) -> str:
        return (
            f"{self.search} begin at reductions: {node} is {kind_of(node)}, and none of the "
            "kernels around reductions comes near it."
        )


@dataclass(frozen=True)
class FuseElementwise(Fuse):
    """Make kernels of the rest: elementwise ops, lookups and views that must be in memory."""

    name: ClassVar[str] = "fuse-elementwise"
    search: ClassVar[str] = "elementwise"

    @override
    def planned(self, reading: GraphReading, node: Node) -> PlannedKernel | None:
        if node.id not in reading.stored:
            return None
        region = FusedRegion(reading, _no_reduction)
        region.grow_from(node, (False,) * len(node.shape))
        return plan(region, self.search, _told(region, None))

    @override
    def no_root(self, ir: IR, node: Node) -> str:
        return (
            f"{self.search} begin at values that must be in memory: {node} is not one, and no "
            "kernel that begins at one comes near it."
        )


def fusion(units: tuple[str, ...] = ()) -> tuple[Pass, ...]:
    """Return the passes that make kernels, in order; `units` has the dtypes of tensor units."""
    contractions = FuseContractions(units)
    return ForgetGradients(), FuseWhole(), contractions, FuseRows(), FuseElementwise()


def _no_reduction(node: Node, inner: Inner) -> str:
    return f"{node} is a reduction" if isinstance(node.op, Reduce) else ""


# -- rows ------------------------------------------------------------------------------------------


def _is_late(reading: GraphReading, node: Node) -> bool:
    """Return whether a reduction only takes what others leave, as it has few rows or one."""
    (edge,) = reading.sources[node.id] or (None,)
    is_nested = edge is not None and isinstance(edge.source.op, Reduce)
    return typical(size_of(node.shape)) < FEW_ROWS and not is_nested


def _rows(reading: GraphReading, node: Node) -> FusedRegion:
    """Return the region around a reduction."""
    assert isinstance(node.op, Reduce)
    limits = _Limits(reading)
    region = limits.region = FusedRegion(reading, limits.why_not)
    region.grow_from(node, tuple(axis == node.op.axis for axis in range(len(node.shape))))
    return region


class _Limits:
    """The reasons besides other rows that keep a node out of a region of rows."""

    def __init__(self, reading: GraphReading) -> None:
        self.reading = reading
        self.region = FusedRegion(reading)

    @property
    def is_column(self) -> bool:
        """Whether rows are not contiguous in memory: the last axis is not inner."""
        edges = [self.reading.sources[id][:1] for id in self._reductions()]
        shapes = [
            (edge.shape, self.region.members[edge.user.id], edge.user.op)
            for reads in edges
            for edge in reads
        ]
        if not shapes:
            return False
        shape, inner, op = max(shapes, key=lambda seen: typical(size_of(seen[0])))
        longer = [axis for axis, dim in enumerate(shape) if dim != 1]
        axis = op.axis if isinstance(op, Reduce) else -1
        return bool(longer) and not (inner[longer[-1]] or longer[-1] == axis)

    def _reductions(self) -> list[int]:
        members = self.region.members
        return [id for id in members if isinstance(self.reading.node_of[id].op, Reduce)]

    def why_not(self, node: Node, inner: Inner) -> str:
        """Return why a node is not a member: a row would be read again after leaving the cache."""
        long = _row_size(node, inner)
        if isinstance(node.op, Reduce):
            again = self._after(node)
            if again is None:
                return ""
            long = _row_size(again, self.region.members[again.id])
            node, after = again, node
        else:
            if typical(long) == 1:
                return self.reading.is_update(node)
            reductions = self._reductions()
            bits = self.reading.bits(reductions)
            if not self.reading.depends(node, bits):
                if self.is_column and self._is_read_apart(node):
                    return f"others read {node}, too, and go over its rows"
                return self._beside(node, bits)
            after = self.reading.node_of[reductions[0]]
        if self.is_column:
            return f"{node} would read its columns again after {after}, from memory"
        size = long * 4
        if typical(size) > LONGEST_ROW:
            return f"{node} would read rows of {amount(size)} again after {after}, from memory"
        return ""

    def _is_read_apart(self, node: Node) -> bool:
        """Return whether other kernels read a node, or will read it."""
        reading, region = self.reading, self.region
        users = [edge.user for edge in reading.readers.get(node.id, ())]
        return node.id in reading.stored or any(
            reading.is_awaited(user, region.computed) for user in users if not region.has(user)
        )

    def _beside(self, node: Node, reductions: int) -> str:
        """Return why a node without a reduction above or below is not a member, or nothing."""
        ends = [id for id in self.region.members if self.reading.bits([id]) & reductions]
        makes = any(
            self.reading.depends(self.reading.node_of[id], 1 << self.reading.order_of[node.id])
            for id in ends
        )
        rows = size_of(self.reading.node_of[ends[0]].shape)
        if makes or typical(rows) >= FEW_ROWS:
            return ""
        return f"there are {rows} rows, so that {node} would be computed by as many threads at most"

    def _after(self, node: Node) -> Node | None:
        """Return a member that reads whole rows and waits for a reduction."""
        bit = 1 << self.reading.order_of[node.id]
        for id, inner in self.region.members.items():
            member = self.reading.node_of[id]
            whole = not isinstance(member.op, Reduce) and typical(_row_size(member, inner)) > 1
            if whole and self.reading.depends(member, bit):
                return member
        return None


def _row_size(node: Node, inner: Inner) -> Dim:
    """Return the elements of a row: the product of the dims that are inner."""
    return size_of(tuple(dim for dim, is_in in zip(node.shape, inner, strict=True) if is_in))


def _told(region: FusedRegion, rows: Dim | None) -> str:
    """Return the savings of a kernel, in words."""
    reading = region.reading
    nodes = [reading.node_of[id] for id in region.computed if id not in reading.free]
    reductions = [node for node in nodes if isinstance(node.op, Reduce)]
    reduced = ""
    if rows is not None:
        many = (
            f"{len(reductions)} reductions over the same" if reductions[1:] else "1 reduction over"
        )
        reduced = f"{many} {rows} row{'s' * (rows != 1)}, "
    if len(nodes) == 1:
        return f"{reduced}one op alone"
    return f"{reduced}{len(nodes)} ops at once: {amount(region.saved)} need not go through memory"
