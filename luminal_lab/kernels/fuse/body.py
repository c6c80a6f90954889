"""From a region to a kernel: a call whose body is the region; equal regions have one body.

    %6 = mul %a, %b              : f32[4, 8]          %6 = fused_mul %a, %b        : f32[4, 8]
    %7 = sum_reduce{axis = 1} %6 : f32[4, 1]    →     %7 = sum_reduce{axis = 1} %6 : f32[4, 1]

A product that only one sum reads need not be rounded before it is added, since its rounded value
is never seen. It becomes a fused multiply-add, if the licence grants `contract`. No other product
does, as a value subtracted from it or compared with it may come from the rounded product. One of
bfloat16 numbers may take subnormal ones as 0, if the licence also grants `no_subnormal`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple, TypeAlias

from luminal_lab.core.dtypes import DType
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Meta, Node, Table
from luminal_lab.core.op import Op, TensorType, View
from luminal_lab.core.ops import Call, Cast, Input, Mul, Pick, SumReduce
from luminal_lab.core.ops.intrinsic import FlushedMul, FusedMul
from luminal_lab.kernels.fuse.names import kernel_name
from luminal_lab.kernels.fuse.reading import FREE, GraphReading
from luminal_lab.kernels.fuse.region import FusedRegion
from luminal_lab.passes.rule import FACTS

Bodies: TypeAlias = dict[tuple[object, ...], IR]
"""The bodies so far, by their contents."""
NO_PRODUCTS: Mapping[int, FusedMul] = {}


class PlannedKernel(NamedTuple):
    """A region that will become a kernel."""

    region: FusedRegion
    exits: tuple[int, ...]
    """Its nodes that are stored, in order."""
    rule: str
    because: str
    name: str = ""
    """What the kernel is called; empty if its nodes say it."""


def plan(region: FusedRegion, rule: str, because: str) -> PlannedKernel:
    """Settle a region: no other region may have its members."""
    exits = region.exits
    region.reading.settle(region.members, exits, [edge.source.id for edge in region.outside()])
    reading, only = region.reading, len(exits) == 1
    forms = [reading.as_read(reading.node_of[id], permuted=only) for id in exits]
    return PlannedKernel(region, tuple(node.id for node in forms), rule, because)


def write(edit: Edit, reading: GraphReading, plans: Sequence[PlannedKernel]) -> None:
    """Replace the results of regions by calls, and record which nodes are kept apart."""
    bodies: Bodies = {}
    stored = reading.forms.union(id for planned in plans for id in planned.exits)
    for region, exits, rule, because, given in reversed(plans):
        inside, sources = _split(edit, region, exits, stored)
        for id, reason in region.apart.items():
            if reason and not region.has(reading.node_of[id]):
                edit.refuse(rule, id, because=f"kept apart: {reason}")
        with edit.firing(rule, because):
            name = given or kernel_name(rule, inside)
            fused = _fused(edit, inside, exits)
            body = body_of(inside, sources, exits, bodies, name, fused)
            call = edit.insert(Call(body), *sources, like=list(reversed(inside)))
            for index, id in enumerate(exits):
                new = edit.insert(Pick(index), call, like=id) if len(exits) > 1 else call
                edit.replace(id, new, renames=True)
    _sweep(edit, reading.live)


def _sweep(edit: Edit, live: Iterable[int]) -> None:
    """Erase the nodes without readers, which kernels compute now."""
    read, returned, flat = edit.readers, edit.returned, edit.table.flat
    for id in sorted(live, reverse=True):
        node = flat[id]
        if node is None or read.get(id) or id in returned or isinstance(node.op, Input):
            continue
        edit.erase(node, rule="inside-kernels")
        read = edit.readers


def _split(
    edit: Edit, region: FusedRegion, exits: Sequence[int], stored: Set[int]
) -> tuple[list[Node], list[Node]]:
    """Return the nodes of a kernel, sources first, and the stored values that it reads."""
    inside: dict[int, Node] = {}
    sources: dict[int, Node] = {}
    stack = [(edit[id], False) for id in reversed(exits)]
    reading = region.reading
    before, now = reading.ir.table, edit.table.flat
    own = {reading.as_read(reading.node_of[id]).id for id in region.computed}

    def is_read(node: Node) -> bool:
        """Return whether a node is read from memory."""
        is_stored = node.id in stored and node.id not in exits
        if isinstance(node.op, FREE):
            # Its source may also be in memory, and still be computed by this kernel.
            return is_stored and not reading.depends(node, region.bits)
        return is_stored or not region.has(node)

    def read_by(node: Node) -> Node:
        """Return a node that reads kernels' results, but for those that depend on this kernel."""
        was = before.get(node.id)
        if was is None or was.sources == node.sources:
            return node
        pairs = zip(was.sources, node.sources, strict=True)
        read = [
            old if old != new and old in own and edit.made_of(new, exits) is not None else new
            for old, new in pairs
        ]
        return node._replace(sources=tuple(read))

    while stack:
        node, is_done = stack.pop()
        if is_done:
            inside.setdefault(node.id, node)
        elif node.id not in own and is_read(node):
            sources.setdefault(node.id, node)
        elif node.id not in inside:
            node = read_by(node)
            stack.append((node, True))
            stack += [(now[id] or edit[id], False) for id in reversed(node.sources)]
    return list(inside.values()), list(sources.values())


def _fused(edit: Edit, inside: list[Node], exits: Sequence[int]) -> Mapping[int, FusedMul]:
    """Return the products that only one sum reads, as the licence allows to compute them."""
    readers: dict[int, list[Node]] = {}
    for node in inside:
        for id in node.sources:
            readers.setdefault(id, []).append(node)
    products: set[int] = set()
    for node in inside:
        if not isinstance(node.op, Mul) or not node.dtype.is_float:
            continue
        last = node
        while last.id not in exits and len(readers[last.id]) == 1:
            (last,) = readers[last.id]
            if not isinstance(last.op, View):
                break
        if isinstance(last.op, SumReduce):
            products.add(node.id)
    if "contract" in edit.licence:
        flushes = "no_subnormal" in edit.licence
        short = {id for id in products if flushes and _is_short(edit, edit[id])}
        return {id: FlushedMul() if id in short else FusedMul() for id in products}
    for id in products:
        reason = f"the licence does not grant contract ({FACTS['contract']})"
        edit.refuse("fused-product", id, ["contract"], because=reason)
    return {}


def _is_short(edit: Edit, node: Node) -> bool:
    """Return whether all that a node reads are bfloat16 numbers, as float32."""
    sources = [edit[id] for id in node.sources]
    if isinstance(node.op, Cast):
        return sources[0].dtype is DType.bfloat16
    return isinstance(node.op, Mul | View) and all(_is_short(edit, each) for each in sources)


def body_of(
    inside: list[Node],
    sources: list[Node],
    exits: Sequence[int],
    bodies: Bodies,
    name: str,
    fused: Mapping[int, FusedMul] = NO_PRODUCTS,
) -> IR:
    """Return a region as a separate graph; equal regions share one."""
    index_of = {source.id: index for index, source in enumerate(sources)}
    lines: list[tuple[Op, tuple[int, ...], TensorType]] = []
    for node in inside:
        index_of[node.id] = len(index_of)
        read = tuple([index_of[id] for id in node.sources])
        lines.append((fused.get(node.id, node.op), read, node.type))
    outputs = tuple([index_of[id] for id in exits])
    key = (*[source.type for source in sources], *lines, outputs)
    body = bodies.get(key)
    if body is None:
        table = Table()
        for index, source in enumerate(sources):
            op = Input(source.dtype, source.shape)
            table.append(Node(index, op, (), source.type, (), Meta(letter(index))))
        for index, (op, read, of) in enumerate(lines, len(sources)):
            table.append(Node(index, op, read, of))
        body = bodies[key] = IR(table, range(len(sources)), outputs, name=name)
    return body


def letter(index: int) -> str:
    """Return the name of a kernel's input."""
    return chr(ord("a") + index) if index < 26 else f"in{index}"
