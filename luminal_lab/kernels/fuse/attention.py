"""Attention: values mixed by the softmax of products, in one kernel that stores no product.

    s[i < n, j < t] = (sum k < 64: q[i, k] * k[j, k]) * 0.125       scores, scaled and masked
    m[i < n] = max j < t: s[i, j]
    l[i < n] = sum j < t: exp2((s[i, j] - m[i]) * 1.442695)
    O[i < n, d < 64] = sum j < t: exp2((s[i, j] - m[i]) * 1.442695) * recip(l[i]) * v[j, d]

The search starts at its end: a sum of products with one operand whose rows are a region that holds
a maximum, a sum and powers of 2, and whose only large source is another sum of products. Scores,
scales, masks and all other work on a row belong to it, unless another node reads them.
"""

from __future__ import annotations

from luminal_lab.core.dims import Dim
from luminal_lab.core.ir import Node
from luminal_lab.core.op import Reduce, size_of
from luminal_lab.core.ops import Exp2, MaxReduce, SumReduce
from luminal_lab.core.ops.intrinsic import Exp
from luminal_lab.kernels.definition.cost import amount, typical
from luminal_lab.kernels.fuse.contraction import ContractionRegion, follow, product_of
from luminal_lab.kernels.fuse.reading import Edge, GraphReading
from luminal_lab.kernels.fuse.region import FusedRegion

MOST_INSIDE = 60
"""The most nodes between the two products."""


def attention(reading: GraphReading, node: Node) -> ContractionRegion | None:
    """Return the region of an attention that ends in a sum of products, or None."""
    mixed = product_of(reading, node)
    if mixed is None:
        return None
    members, _ = mixed
    for edge in reading.sources[members[-1].id]:
        inside = _weights(reading, edge)
        if inside is None:
            continue
        region = FusedRegion(reading)
        for member in (*members, *inside):
            region.add(member, (False,) * len(member.shape))
        scores = [node_inside for node_inside in inside if isinstance(node_inside.op, MaxReduce)]
        follow(region, node)
        for source in list(region.outside()):
            if reading.is_open(source.source) and not region.has(source.source):
                region.compute_anew(source.source)
        if len(region.exits) != 1:
            continue
        size = _scores(reading, scores[0])
        because = f"the softmax of {size[1]} is mixed at once: its {amount(size[0])} are not stored"
        return ContractionRegion(region, because)
    return None


def _scores(reading: GraphReading, maximum: Node) -> tuple[Dim, str]:
    (edge,) = reading.sources[maximum.id]
    return size_of(edge.source.shape) * edge.source.dtype.itemsize, str(edge.source)


def _weights(reading: GraphReading, edge: Edge) -> list[Node] | None:
    """Return the nodes of a softmax of scores, the product below it included, or None."""
    size = typical(size_of(edge.source.shape))
    inside: dict[int, Node] = {}
    todo = [edge.source]
    while todo:
        node = todo.pop()
        if node.id in inside or not reading.is_open(node):
            continue
        product = product_of(reading, node)
        if product is not None:
            inside.update((member.id, member) for member in product[0])
            continue
        if len(inside) > MOST_INSIDE:
            return None
        is_whole = typical(size_of(node.shape)) >= size
        if not is_whole and not isinstance(node.op, Reduce) and not _is_of(reading, node, inside):
            continue  # a mask, or another broadcast value: it is read, or computed anew
        inside[node.id] = node
        todo += [below.source for below in reading.sources[node.id]]
    kinds = {type(member.op) for member in inside.values()}
    products = [member for member in inside.values() if product_of(reading, member) is not None]
    alone = all(
        user.user.id in inside or user.user.id == edge.user.id
        for member in inside.values()
        for user in reading.readers.get(member.id, ())
    )
    fits = kinds >= {MaxReduce, SumReduce} and bool(kinds & {Exp2, Exp}) and len(products) == 1
    stored = any(member.id in reading.needed for member in inside.values())
    return list(inside.values()) if fits and alone and not stored else None


def _is_of(reading: GraphReading, node: Node, inside: dict[int, Node]) -> bool:
    """Return whether a reduction over a row leads to this value of the row."""
    todo, seen = [node], {node.id}
    while todo:
        below = todo.pop()
        if isinstance(below.op, Reduce):
            return True
        for edge in reading.sources.get(below.id, ()):
            if reading.is_open(edge.source) and edge.source.id not in seen and len(seen) < 8:
                seen.add(edge.source.id)
                todo.append(edge.source)
    return False
