"""`partition`: the graph of one worker, with local shapes, and collectives for changes of layout.

    graph g(%x: f32[4, 8]) -> (%3) {               graph g(%x: f32[2, 8]) -> (%2) {
      %y = sum_reduce{axis = 0} %x : f32[1, 8]       %y = sum_reduce{axis = 0} %x : f32[1, 8]
      %3 = reshard{old = "-, - sum data",      →     %2 = all_reduce{axis = "data",
                   new = "-, -"} %y : f32[1, 8]                      kind = sum} %y : f32[1, 8]
    }                                              }

All workers run the same graph. What depends on the worker is which parts of the inputs it gets,
what `own_part` takes of a value that all of them have, and which random numbers `place` says that
it makes. A value with free axes is written once for each layout that it is read in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from luminal_lab.core.dtypes import DType
from luminal_lab.core.ir import IR, Meta, Node, Table
from luminal_lab.core.op import Op, ints, result_types
from luminal_lab.core.ops import (
    Add,
    Cast,
    Constant,
    Expand,
    Gather,
    Input,
    Iota,
    Mul,
    Random,
    Reshape,
    Slice,
    Stored,
)
from luminal_lab.workers.flow import Flow
from luminal_lab.workers.layout import FREE, WHOLE, Layout, Step, local_shape, steps
from luminal_lab.workers.mesh import Mesh
from luminal_lab.workers.ops import (
    AllGather,
    AllReduce,
    AllToAll,
    OwnPart,
    OwnPlace,
    ReduceScatter,
    Reshard,
)


class Part(NamedTuple):
    """A value of the whole graph, where a worker has it, and how much of it."""

    whole: Node
    local: int
    layout: Layout


class Partitioned(NamedTuple):
    """The graph of a worker, and what its inputs and outputs are parts of."""

    ir: IR
    inputs: tuple[Part, ...]
    outputs: tuple[Part, ...]


def partition(ir: IR, flow: Flow, outputs: Sequence[int]) -> Partitioned:
    """Return the graph of a worker that computes its parts of some values."""
    return _Partitioning(ir, flow).run(outputs)


class _Partitioning:
    def __init__(self, ir: IR, flow: Flow) -> None:
        self.ir, self.flow, self.mesh = ir, flow, flow.mesh
        self.table, self.inputs = Table(), list[Part]()
        self.known: dict[tuple[int, tuple[str, ...]], Node] = {}
        self.names: set[str] = set()

    def run(self, outputs: Sequence[int]) -> Partitioned:
        needed = self.ir.ancestors(outputs)
        for node in self.ir:  # sources first, so that no value asks for one far behind it
            if node.id in needed and FREE not in self.flow.raw[node.id].dims:
                self.local(node, self.flow.raw[node.id])
        made = list[Part]()
        for id in dict.fromkeys(outputs):
            layout = self.flow.raw[id].filled(self.flow.raw[id].dims)
            made.append(Part(self.ir[id], self.local(self.ir[id], layout).id, layout))
        by_id = {part.whole.id: part for part in made}
        given = [part.local for part in self.inputs]
        ir = IR(self.table, given, [by_id[id].local for id in outputs], name=self.ir.name)
        return Partitioned(ir, tuple(self.inputs), tuple(by_id[id] for id in outputs))

    def local(self, node: Node, need: Layout) -> Node:
        """Return a worker's part of a value; where that is free, as its reader needs it."""
        raw = self.flow.raw[node.id]
        assert raw.fits(need), f"{node} is ({raw}), and ({need}) is read"
        layout = raw.filled(need.dims)
        key = node.id, layout.dims
        if key not in self.known:
            self.known[key] = self.written(node, layout)
        return self.known[key]

    def written(self, node: Node, layout: Layout) -> Node:
        """Write the nodes of a worker that make its part of a value."""
        op = node.op
        if isinstance(op, Input | Stored):
            shape = local_shape(node.shape, layout, self.mesh)
            new = self.add(Input(node.dtype, shape), (), node)
            self.inputs.append(Part(node, new.id, layout))
            return new
        if isinstance(op, Iota | Random):
            return self.numbers(op, node, layout)
        rule, needs = self.flow.rules[node.id], self.flow.needs[node.id]
        sources: list[Node] = []
        for id, need, links in zip(node.sources, needs, rule.links if needs else (), strict=True):
            inner = [
                layout.dims[k] if word == FREE and k is not None and k < len(layout.dims) else word
                for word, k in zip(need.dims, links, strict=True)
            ]
            sources.append(self.local(self.ir[id], need._replace(dims=tuple(inner))))
        if isinstance(op, Reshard):
            return self.changed(sources[0], node)
        return self.add(localised(op, node, layout, self.mesh), sources, node)

    def numbers(self, op: Iota | Random, node: Node, layout: Layout) -> Node:
        """Write a worker's part of numbers that depend on where they stand in the whole."""
        cut = [(dim, word) for dim, word in enumerate(layout.dims) if word in self.mesh.sizes]
        if isinstance(op, Random):
            now = self.add(op, (), node)
            for dim, word in cut:
                now = self.picked(now, dim, word, node)
            return now
        if not cut:
            return self.add(op, (), node)
        shape = local_shape(node.shape, layout, self.mesh)
        within = self.add(Iota(DType.int64, shape), (), node)
        size = self.add(Constant(ints(shape)[0], DType.int64, ()), (), node)
        begin = self.add(Mul(), [size, self.add(OwnPlace(cut[0][1]), (), node)], node)
        begin = self.add(Reshape((1,)), [begin], node)
        begin = self.add(Expand(shape), [begin], node)
        now = self.add(Add(), [within, begin], node)
        return now if op.dtype is DType.int64 else self.add(Cast(op.dtype), [now], node)

    def picked(self, now: Node, dim: int, axis: str, node: Node) -> Node:
        """Pick a worker's part by its place; kernels make no others, as they fuse that."""
        parts = self.mesh.sizes[axis]
        before, (size, *after) = now.shape[:dim], now.shape[dim:]
        now = self.add(Reshape((*before, parts, size // parts, *after)), [now], node)
        at = self.add(Reshape((1,) * len(now.shape)), [self.add(OwnPlace(axis), (), node)], node)
        at = self.add(Expand((*before, 1, size // parts, *after)), [at], node)
        now = self.add(Gather(dim), [now, at], node)
        return self.add(Reshape((*before, size // parts, *after)), [now], node)

    def changed(self, now: Node, node: Node) -> Node:
        """Write the collectives of a change of layout."""
        (need,), raw = self.flow.needs[node.id], self.flow.raw[node.id]
        for step, before in steps(need, raw):
            now = self.add(collective(step, before, self.mesh), [now], node)
        return now

    def add(self, op: Op, sources: Sequence[Node], like: Node) -> Node:
        types, name = result_types(op, sources), like.meta.name
        if name is not None and name in self.names:
            name = None
        self.names.add(name or "")
        meta = Meta(name, like.meta.origin, like.meta.scope)
        ids = tuple(source.id for source in sources)
        node = Node(self.table.size, op, ids, types[0], types[1:], meta)
        self.table.append(node)
        return node


def collective(step: Step, before: Layout, mesh: Mesh) -> Op:
    """Return the op that sends something."""
    axis, dim, other = step.axis, step.dim, step.other
    parts = mesh.sizes[axis]
    match step.sent:
        case "all_reduce":
            return AllReduce(axis, before.kind)
        case "all_gather":
            return AllGather(axis, dim, parts)
        case "reduce_scatter":
            return ReduceScatter(axis, before.kind, dim, parts)
        case "all_to_all":
            return AllToAll(axis, dim, other, parts)
        case "own_part":
            return OwnPart(axis, dim, parts)


def localised(op: Op, node: Node, layout: Layout, mesh: Mesh) -> Op:
    """Return an op for a worker's part of its result."""
    shape = local_shape(node.shape, layout, mesh)
    match op:
        case Constant() | Expand() | Reshape():
            return replace(op, shape=shape)
        case Slice(stop=stop):
            cut = zip(stop, shape, layout.dims, strict=True)
            return replace(op, stop=tuple(n if word != WHOLE else end for end, n, word in cut))
        case _:
            return op
