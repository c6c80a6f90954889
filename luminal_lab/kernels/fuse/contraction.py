"""Contractions: sums of products that read an operand again and again: matmul, convolution.

    y[i, j] = f(sum k < 64: g(a[i, k]) * b[k, j], bias[j])

The sources of an operand (g) come in if they cost next to nothing, since they are computed each
time an element is read; the users of the result (f) come in as long as they have the same elements.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import heappop, heappush
from typing import NamedTuple

from luminal_lab.core.dims import Dim, Shape
from luminal_lab.core.ir import Node
from luminal_lab.core.op import Elementwise, size_of
from luminal_lab.core.ops import (
    Cast,
    Contiguous,
    Expand,
    Gather,
    Mul,
    Permute,
    Random,
    Reshape,
    StopGradient,
    SumReduce,
    Window,
)
from luminal_lab.core.views import axis_groups
from luminal_lab.kernels.definition.cost import amount, typical
from luminal_lab.kernels.fuse.reading import Again, Edge, GraphReading
from luminal_lab.kernels.fuse.region import FusedRegion, regrouped

LEAST = 16
"""From this many rows and columns on, tensor units multiply."""
PROLOGUE = 2
"""The most operations that are repeated whenever an operand's element is read."""
MOST_AFTER = 200
"""How many followers are searched to find the end of the region."""
IN_PLACE = (Reshape, Permute, Contiguous, StopGradient)
"""Views of all elements, each once."""


class ContractionRegion(NamedTuple):
    """A region around a sum of products, and the reason for it."""

    region: FusedRegion
    because: str


def contraction(
    reading: GraphReading, node: Node, units: Collection[str] = ()
) -> ContractionRegion | None:
    """Return the region around a sum of products, or None if the node is not such a sum.

    Tensor units multiply what is in memory, in the dtypes that `units` names.
    """
    product_members = product_of(reading, node)
    if product_members is None:
        return None
    members, times = product_members
    region = FusedRegion(reading)
    for member in members:
        region.add(member, (False,) * len(member.shape))
    product = members[-1]
    last = follow(region, node)
    _side_inputs(region, product)
    edges, aside = reading.sources[product.id], {*region.anew}
    is_tiled = all(typical(edge.repeats) >= LEAST for edge in edges)
    for edge in edges:
        _prologue(region, edge, units if is_tiled else ())
    region.compute_together({product.id, *region.anew - aside})
    because = f"{size_of(node.shape)} sums of {times} products"
    after = len(region.members.keys() - reading.free) - len(members)
    if after:
        size = size_of(node.shape) * node.dtype.itemsize
        ops = f"{after} op{'s' * (after > 1)}"
        because += f", and {ops} up to {last} that would read them again, {amount(size)}"
    return ContractionRegion(region, because)


# -- the sum ---------------------------------------------------------------------------------------


def product_of(reading: GraphReading, node: Node) -> tuple[list[Node], Dim] | None:
    """Return the sums and the product below them if this is a contraction, and its length."""
    if not isinstance(node.op, SumReduce):
        reading.missed(node, "{} is {kind}, not sum_reduce", node)
        return None
    if node.id not in reading.products:
        reading.products[node.id] = _product_of(reading, node)
    return reading.products[node.id]


def _product_of(reading: GraphReading, node: Node) -> tuple[list[Node], Dim] | None:
    members = [node]
    axes: set[int] = set()
    times: Dim = 1
    while not isinstance(node.op, Mul):
        if not isinstance(node.op, (SumReduce, Cast)):
            reading.missed(node, "{} is {kind}, and a sum of products is wanted", node)
            return None
        reading.reached("{} is {}", node, node.op.name)
        (edge,) = reading.sources[node.id] or (None,)
        if edge is None:
            reading.missed(node, "{} sums what is the same for all", node)
            return None
        why = "others read {}, too, or it must be in memory"
        if not reading.holds(_is_alone(reading, edge.source), edge.source, why, edge.source):
            return None
        if isinstance(node.op, SumReduce):
            axes = axes | {node.op.axis}
            times = times * edge.shape[node.op.axis]
        below = _summed_below(edge, axes)
        if below is None:
            reading.missed(node, "{} sums a part of {}, or repeats it", node, edge.source)
            return None
        axes, node = below, edge.source
        members.append(node)
    reading.reached("{} is mul", node)
    if len(reading.sources[node.id]) != 2:
        reading.missed(node, "a factor of {} is the same for all", node)
        return None
    kinds = [_operand(reading, edge, axes) for edge in reading.sources[node.id]]
    for edge, (_, varies) in zip(reading.sources[node.id], kinds, strict=True):
        why = "{} is the same for all terms of the sum"
        if not reading.holds(varies, edge.source, why, edge.source):
            return None
    is_repeated = any(repeated for repeated, _ in kinds)
    why = "neither factor of {} is read for more than one sum, so it is not a contraction"
    return (members, times) if reading.holds(is_repeated, node, why, node) else None


def _is_alone(reading: GraphReading, node: Node) -> bool:
    """Return whether a node has exactly one reader and is not part of a kernel yet."""
    is_open = reading.is_open(node) and node.id not in reading.needed
    return is_open and len(reading.readers[node.id]) == 1


def _summed_below(edge: Edge, axes: set[int]) -> set[int] | None:
    """Return which axes of a source are summed, given the summed axes that its user sees."""
    summed: set[int] | None = axes
    for view, old, new in reversed(edge.steps):
        summed = None if summed is None else _axes_below(view.op, old, new, summed)
    return summed


def _axes_below(op: object, old: Shape, new: Shape, axes: set[int]) -> set[int] | None:
    """Return which axes of a view's source are summed, if each is summed as a whole."""
    match op:
        case Permute(axes=order):
            return {order[axis] for axis in axes}
        case Reshape():
            below = regrouped(new, old, tuple(axis in axes for axis in range(len(new))))
            return None if below is None else {axis for axis, is_in in enumerate(below) if is_in}
        case Contiguous() | StopGradient():
            return axes
        case _:
            return None


def _operand(reading: GraphReading, edge: Edge, axes: set[int]) -> tuple[bool, bool]:
    """Return whether an operand is read for many results, and whether it varies along the sum."""
    repeated = False
    while True:
        for view, old, new in reversed(edge.steps):
            is_again, axes = _seen_by_operand(view.op, old, new, axes)
            repeated |= is_again
        source = edge.source
        below = reading.sources.get(source.id, [])
        if not reading.is_open(source) or len(below) != 1 or not isinstance(source.op, Elementwise):
            break
        edge = below[0]
    return repeated, any(dim != 1 for k, dim in enumerate(edge.source.shape) if k in axes)


def _seen_by_operand(op: object, old: Shape, new: Shape, axes: set[int]) -> tuple[bool, set[int]]:
    """Return whether a view repeats for results, and which axes of its source are summed."""
    match op:
        case Expand():
            grown = {k for k, (a, b) in enumerate(zip(old, new, strict=True)) if a != b}
            return bool(grown - axes), axes - grown
        case Window(axis=axis):
            within = {axis} if len(new) - 1 in axes else set[int]()
            return True, {a for a in axes if a < len(old)} | within
        case Permute(axes=order):
            return False, {order[axis] for axis in axes}
        case Reshape():
            below: set[int] = set()
            for olds, news in axis_groups(old, new) if 0 not in new else ():
                below |= {*olds} if axes & {*news} else set()
            return False, below
        case _:
            return False, axes


# -- what follows ----------------------------------------------------------------------------------


def follow(region: FusedRegion, root: Node) -> Node:
    """Take in the users of the result, as long as they lead to one value; return that value."""
    reading = region.reading
    size = size_of(root.shape)
    added: list[Node] = []
    best, last = 0, root
    heap: list[tuple[int, int]] = []
    queued: set[int] = set()
    node = root
    while len(added) < MOST_AFTER and node.id not in reading.needed:
        for edge in reading.readers.get(node.id, ()):
            if edge.user.id not in queued:
                queued.add(edge.user.id)
                heappush(heap, (reading.order_of[edge.user.id], edge.user.id))
        if not heap:
            break
        node = reading.node_of[heappop(heap)[1]]
        reason = _no_follower(region, node, size)
        if reason:
            region.apart[node.id] = reason
            break
        region.add(node, (False,) * len(node.shape))
        added.append(node)
        if region.exits == [node.id]:
            best, last = len(added), node
    for extra in added[best:]:
        region.remove(extra)
    if added[best:]:
        readers = sorted({edge.user.id for edge in reading.readers[last.id]})
        listed = " and ".join(str(reading.node_of[id]) for id in readers[:3])
        reason = f"{listed} read {last}, and lead to different results"
        region.apart[added[best].id] = reason
    return last


def _no_follower(region: FusedRegion, user: Node, size: Dim) -> str:
    """Return why a node is not computed with the result that it reads, or nothing."""
    reading = region.reading
    is_elementwise = isinstance(user.op, Elementwise) or user.id in reading.free
    for edge in reading.sources[user.id]:
        if edge.source.id not in region.members:
            if reading.depends(edge.source, region.bits):
                return f"{edge.source}, which {user} reads as well, needs the result"
            continue
        if not is_elementwise:
            return f"{user} reads many elements of {edge.source} for each of its own"
        if not all(isinstance(view.op, IN_PLACE) for view in edge.via):
            times = edge.repeats
            if times != 1:
                return f"{user} reads each element of {edge.source} {times}×"
            return f"{user} reads a part of {edge.source}, or more"
    if not reading.is_open(user):
        return f"{user} is a kernel of its own"
    if size_of(user.shape) != size:
        return f"{user} has another size"
    return reading.is_update(user) or region.full(user)


def _side_inputs(region: FusedRegion, product: Node) -> None:
    """Compute other sources of the followers where they are read, if that costs little."""
    reading = region.reading
    for id in [*region.members]:
        for edge in reading.sources[id] if id != product.id else ():
            if region.has(edge.source) or not reading.is_open(edge.source):
                continue
            if not region.compute_anew(edge.source):
                cost = reading.again(edge.source)
                region.apart[edge.source.id] = cost if isinstance(cost, str) else ""


def _prologue(region: FusedRegion, edge: Edge, units: Collection[str]) -> None:
    reading, source = region.reading, edge.source
    if not reading.is_open(source) or region.has(source):
        return
    plain = _plain(reading, source, units)
    if plain is not None:
        if plain is not source:
            region.anew.add(source.id)
        if reading.is_open(plain):
            reading.stored.add(plain.id)
            region.apart[plain.id] = f"tensor units read {plain} from memory"
        return
    if _looks_up_once(reading, edge, source):
        region.anew.add(source.id)
        return
    again = reading.again(source)
    times = edge.repeats
    often = f", and each would be computed {times}×" if times != 1 else ""
    if not isinstance(again, Again):
        why = again
    elif any(isinstance(reading.node_of[id].op, Random) for id in again.inside):
        why = f"{source} is drawn"
    elif again.ratio > 1:
        why = f"recomputing {source} would read {again.ratio:.4g}× the bytes"
    elif again.flops > PROLOGUE and not again.unpacks:
        why = f"{source} costs {again.flops} operations an element"
    else:
        region.anew |= again.inside
        rows = (reading.node_of[id] for id in again.reads)
        region.anew.update(row.id for row in rows if _looks_up_once(reading, edge, row))
        return
    region.apart[source.id] = why + often


def _plain(reading: GraphReading, source: Node, units: Collection[str]) -> Node | None:
    """Return the value that tensor units multiply, if a factor is one: it may be cast for the sum.

    Values that few bits stand for are unpacked where they are read.
    """
    below = source
    if isinstance(source.op, Cast) and len(reading.sources[source.id]) == 1:
        (edge,) = reading.sources[source.id]
        if all(isinstance(view.op, IN_PLACE) for view in edge.via):
            below = edge.source
        elif edge.source.dtype.value in units:
            return None
    if below.dtype.value not in units:
        return None
    again = reading.again(source)
    return None if isinstance(again, Again) and again.unpacks else below


def _looks_up_once(reading: GraphReading, edge: Edge, rows: Node) -> bool:
    """Return whether rows of a table are looked up for one product that reads them once.

    Of a table of matrices, an index chooses a whole matrix, which would be copied first.
    """
    if not isinstance(rows.op, Gather) or not reading.is_open(rows) or edge.repeats != 1:
        return False
    is_alone = len(reading.readers[rows.id]) == 1 or rows.dtype.itemsize == 1
    table, _ = reading.sources[rows.id]
    return is_alone and size_of(table.shape[rows.op.axis + 1 :]) != 1
