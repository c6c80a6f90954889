"""Why a node is not part of a kernel: what fusing would cost, and what staying apart costs.

The regions are grown once more, as the pass grew them; the reason a region gives for leaving out a
node is reported, with the bytes and operations that were weighed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from luminal_lab.core.dims import Dim
from luminal_lab.core.ir import Node
from luminal_lab.core.op import Reduce, size_of
from luminal_lab.kernels.definition.cost import amount, typical
from luminal_lab.kernels.fuse.body import PlannedKernel
from luminal_lab.kernels.fuse.reading import Edge, GraphReading, computes
from luminal_lab.kernels.fuse.region import FLOPS_A_BYTE, FusedRegion, size_in_memory
from luminal_lab.passes.asking import kind_of

SOME = 4
"""The most neighbours that are mentioned."""


def told_apart(
    reading: GraphReading, plans: Sequence[PlannedKernel], search: str, node: Node
) -> str:
    """Say which kernel of a pass has a node, or why each kernel that came near leaves it out."""
    if node.id not in reading.order_of:
        return f"{search} leaves {node} to dce: no output needs it."
    if node.id in reading.free and node.id not in reading.needed:
        return (
            f"{search}: {node} is {kind_of(node)} and costs nothing: it goes wherever it is read."
        )
    if node.op.body_of() is not None:
        return f"{search}: {node} is a kernel by then, {kind_of(node)}."
    if node.id not in reading.free and not computes(node.op):
        return f"{search}: {node} is {kind_of(node)}, and no kernel is made of that."
    for planned in plans:
        if planned.region.has(node):
            return _member(reading, planned, search, node)
    told = [
        f"{search}: {node} is apart from the kernel of {_exits(reading, planned)}: {reason}. "
        f"{costs(planned.region, node)}"
        for planned in plans
        if (reason := planned.region.apart.get(node.id))
    ]
    return "\n".join(told)


def _exits(reading: GraphReading, planned: PlannedKernel) -> str:
    return " and ".join(str(reading.ir[id]) for id in planned.exits[:SOME])


def _member(reading: GraphReading, planned: PlannedKernel, search: str, node: Node) -> str:
    """Say which kernel has a node, and which of its neighbours that kernel leaves out."""
    region = planned.region
    told = [f"{search}: {node} is in the kernel of {_exits(reading, planned)}: {planned.because}."]
    for neighbour in _neighbours(reading, node):
        reason = region.apart.get(neighbour.id)
        if reason and not region.has(neighbour):
            told.append(f"{neighbour} is apart from it: {reason}. {costs(region, neighbour)}")
    return "\n".join(told[: SOME + 1])


def _neighbours(reading: GraphReading, node: Node) -> Iterator[Node]:
    for edge in reading.sources.get(node.id, ()):
        yield edge.source
    for edge in reading.readers.get(node.id, ()):
        yield edge.user


def costs(region: FusedRegion, node: Node) -> str:
    """Return what a node costs in a kernel and apart from it, in bytes and operations."""
    reading = region.reading
    into = [edge for edge in reading.readers.get(node.id, ()) if region.has(edge.user)]
    out_of = [edge for edge in reading.sources.get(node.id, ()) if region.has(edge.source)]
    between = {node.id: node} if into else {edge.source.id: edge.source for edge in out_of}
    size = sum(2 * size_in_memory(value) for value in between.values())
    listed = " and ".join(map(str, between.values()))
    goes = "goes" if len(between) == 1 else "go"
    told = f"Apart, {listed} {goes} to memory and back, {amount(size)}"
    return f"{told}{_together(node, into) if into else ''}."


def _together(node: Node, into: Sequence[Edge]) -> str:
    """Return the cost of computing a node wherever some edges read it."""
    points: Dim = size_of(node.shape)
    if isinstance(node.op, Reduce):
        points = points * into[0].source.shape[node.op.axis]
    flops = max(node.op.cost, 1) * typical(points)
    times = max(typical(edge.repeats) for edge in into)
    if times == 1:
        return f"; together it would take the same {flops:,} operations, and no memory"
    many = flops * times
    worth = amount(many // FLOPS_A_BYTE)
    return (
        f"; together it would be computed {times}×, {many:,} operations instead of {flops:,}, "
        f"which take as long as reading {worth} from memory"
    )
