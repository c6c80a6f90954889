"""The graphs of a compile as one, in which every value is kept: what a page computes.

The kernels of the last graph are as they were compiled. A node of an earlier one, which they have
swallowed, is a kernel of its own. So a value can be shown wherever somebody looks, and costs
nothing where nobody does: only the launches that it needs are run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from luminal_lab.core import ops
from luminal_lab.core.binding import bound_shape
from luminal_lab.core.ir import IR, Node, Table
from luminal_lab.core.op import ints
from luminal_lab.devices.runtime.worklist import PASSING
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.fuse.body import Bodies, body_of
from luminal_lab.kernels.fuse.reading import FREE, computes
from luminal_lab.kernels.render.names import c_name

LARGEST = 1 << 22, 1 << 19, 1 << 16, 1 << 13
"""How many numbers a value may have that is kept, the first of these with which all fit."""
ROOM = 256 << 20
"""The most bytes of all values together."""


class Spread(NamedTuple):
    """One graph with the nodes of several, by their ids."""

    ir: IR
    """Its outputs are the values that are kept, but for those that another of them stands for."""
    shapes: Mapping[int, tuple[int, ...]]
    """The shapes of the values that can be seen; the others are too large."""


def spread(graphs: Sequence[IR], dims: Mapping[str, int]) -> Spread:
    """Return the nodes of all graphs of a compile as one graph, for some sizes of dims."""
    # A node has the same value in all graphs that have it, and reads what they have, too. So with
    # the last record of each there is no circle.
    nodes = {node.id: node for graph in graphs for node in graph.table}
    shapes = {
        node.id: ints(bound_shape(f"export: {node}", node.shape, dims)) for node in nodes.values()
    }
    for most in LARGEST:
        kept = _kept(nodes, shapes, most)
        if sum(math.prod(shapes[id]) * nodes[id].dtype.itemsize for id in kept) <= ROOM:
            break
    else:
        raise DeviceError(
            f"export: the values of all nodes take more than {ROOM >> 20} MB, which is too much "
            "for a page that runs",
            hint="give smaller inputs, or export the page without run=True",
        )
    bodies: Bodies = {}
    table, seen = Table(), set[int]()
    for graph in graphs:
        for node in graph:
            if node.id not in kept or node.id in seen:
                continue
            seen.add(node.id)
            node = nodes[node.id]
            if _is_plain(node):
                inside = [*_inside(nodes, kept, node)]
                own = {one.id for one in inside}
                reads = dict.fromkeys(i for one in inside for i in one.sources if i not in own)
                sources = [nodes[id] for id in reads]
                body = body_of(inside, sources, [node.id], bodies, c_name(node.op.name))
                node = node._replace(op=ops.Call(body), sources=tuple(reads))
            elif isinstance(node.op, ops.Stored):  # made here, once, of the weight
                node = node._replace(op=ops.Call(node.op.body))
            table.set(node.id, node)
    inputs = [id for id in graphs[0].input_ids if id in seen]
    outputs = [
        id
        for id in sorted(seen)
        if not isinstance(nodes[id].op, (ops.Input, *PASSING)) and not nodes[id].extra
    ]
    visible = {id: shapes[id] for id in sorted(seen) if not nodes[id].extra}
    return Spread(IR(table, inputs, outputs, name="page"), visible)


def _kept(nodes: Mapping[int, Node], shapes: Mapping[int, tuple[int, ...]], most: int) -> set[int]:
    """Return the nodes whose values are kept; the others are computed anew where they are read."""
    large = {id for id, n in nodes.items() if _is_plain(n) and math.prod(shapes[id]) > most}
    changed = True
    while changed:  # what passes on a large value has none of its own
        more = {
            id
            for id, node in nodes.items()
            if id not in large and isinstance(node.op, PASSING) and node.sources[0] in large
        }
        changed = bool(more)
        large |= more
    return {*nodes} - large


def _inside(nodes: Mapping[int, Node], kept: set[int], node: Node) -> Iterable[Node]:
    """Return a node after what is computed anew for it, sources before readers."""
    order: dict[int, Node] = {}
    todo = [(node, False)]
    while todo:
        one, is_ready = todo.pop()
        if is_ready:
            order[one.id] = one
        elif one.id not in order:
            todo.append((one, True))
            todo += [(nodes[id], False) for id in one.sources if id not in kept]
    return order.values()


def _is_plain(node: Node) -> bool:
    """Return whether a node can be part of a kernel, and is none yet."""
    return (computes(node.op) or isinstance(node.op, FREE)) and not isinstance(node.op, PASSING)
