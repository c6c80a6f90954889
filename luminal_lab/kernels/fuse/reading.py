"""A graph as fusion sees it: the nodes that compute, and their readers, with the views between.

Views, constants and counting cost nothing: they go wherever they are read. This leaves nodes that
compute, nodes that belong to no kernel, and the edges between them, with views on them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, TypeAlias

from luminal_lab.core.dims import Dim, Shape
from luminal_lab.core.dtypes import DType
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Elementwise, Op, Reduce, View, size_of
from luminal_lab.core.ops import (
    BitAnd,
    Bitcast,
    Constant,
    Contiguous,
    Expand,
    Gather,
    Input,
    Iota,
    Permute,
    Random,
    Reshape,
    ShiftLeft,
    ShiftRight,
    StopGradient,
    Window,
)
from luminal_lab.kernels.definition.cost import amount, typical
from luminal_lab.passes.asking import Asking

FREE = (Constant, Iota, View, Contiguous, StopGradient)
"""Ops that cost nothing to compute again wherever they are read."""
COMPUTING = (Elementwise, Reduce, Gather, Random)
"""The ops that kernels consist of; no other op can be part of a kernel."""
CHEAP = 4
"""The most operations that are recomputed instead of stored."""

FEWER = 0.5
"""The bytes that packed bits take at most, for each byte of the values that they stand for."""
UNPACKING = (BitAnd, ShiftLeft, ShiftRight, Bitcast)
SLACK = 1.1
"""How many bytes may be read to save storing one."""


def computes(op: Op) -> bool:
    """Return whether kernels may contain an op, which needs a form in C."""
    return isinstance(op, COMPUTING) and (not isinstance(op, Elementwise) or hasattr(op, "c_form"))


class Edge(NamedTuple):
    """One node that reads another, through views."""

    source: Node
    via: tuple[Node, ...]
    user: Node
    operand: int = 0
    """Its position among the user's sources."""

    @property
    def shape(self) -> Shape:
        """The shape that the user sees."""
        return self.via[-1].shape if self.via else self.source.shape

    @property
    def steps(self) -> list[tuple[Node, Shape, Shape]]:
        """The views, each with the shape before and after it."""
        shapes = [self.source.shape, *(view.shape for view in self.via)]
        return list(zip(self.via, shapes, shapes[1:], strict=False))

    @property
    def repeats(self) -> Dim:
        """How often the views on the way repeat an element."""
        times: Dim = 1
        for view, before, _ in self.steps:
            if isinstance(view.op, (Expand, Window)):
                pairs = zip(before, view.shape, strict=False)
                for old, new in pairs if isinstance(view.op, Expand) else ():
                    times = times * (1 if old == new else new)
                if isinstance(view.op, Window):
                    again = view.op.size if view.op.stride < typical(view.op.size) else 1
                    times = times * again
        return times


class Again(NamedTuple):
    """The cost of computing an element anew wherever it is read."""

    inside: frozenset[int]
    """The nodes that are computed; their other sources are stored."""
    flops: int
    reads: frozenset[int]
    ratio: float
    """How many bytes that is, for each byte of the result."""
    unpacks: bool = False
    """Whether it makes values of packed bits: of fewer bytes, however many operations it takes."""


Bases: TypeAlias = dict[int, tuple[Node, tuple[Node, ...]] | None]


class GraphReading(Asking):
    """A graph as the nodes that compute, and the edges between them."""

    def __init__(self, ir: IR) -> None:
        self.ir = ir
        self.live = ir.ancestors(ir.output_ids)
        self.nodes = [node for node in ir.nodes if node.id in self.live]
        self.node_of = {node.id: node for node in self.nodes}
        self.order_of = {node.id: order for order, node in enumerate(self.nodes)}
        self.sources: dict[int, list[Edge]] = {}
        self.readers: dict[int, list[Edge]] = {}
        self.computing: dict[int, Node] = {}
        """The nodes that become part of a kernel, and views that must be in memory, in order."""
        self.free: set[int] = set()
        self.taken: set[int] = set()
        """The nodes that are already part of a kernel."""
        self.needed: set[int] = set()
        """The nodes that must be in memory as they are: outputs, and nodes that no kernel reads."""
        self.stored: set[int] = set()
        """The nodes that must be in memory: the needed ones, and the nodes that kernels read."""
        self.behind: dict[int, int] = {}
        """For each node, the nodes from which it is computed, as bits, itself included."""
        self._results: dict[int, tuple[int, ...]] = {}
        """For each node of a kernel with several results, these."""
        self._again: dict[int, Again | str] = {}
        self._packed: dict[int, frozenset[int]] = {}
        """For each node that only bytes in memory and numbers are behind, these and what is made
        of them."""
        self.products: dict[int, tuple[list[Node], Dim] | None] = {}
        """Cached results about sums of products, valid until more nodes are taken."""
        self._read()
        self._forms: dict[int, Node] = {}
        self.forms = {self.as_read(node).id for node in self.computing.values()}
        """The forms in which results of nodes are stored."""

    def _read(self) -> None:
        inside = {node.id for node in self.nodes if isinstance(node.op, FREE) or computes(node.op)}
        for node in self.nodes:
            if node.id not in inside:
                self.needed.update(node.sources)
        self.needed.update(self.ir.output_ids)
        self.stored.update(self.needed)
        bases: Bases = {}
        for node in self.nodes:
            behind = 1 << self.order_of[node.id]
            for id in node.sources:
                behind |= self.behind[id]
            self.behind[node.id] = behind
            if node.id in inside or isinstance(node.op, Input):
                self._note_packed(node)
            if isinstance(node.op, FREE):
                self.free.add(node.id)
                bases[node.id] = self._base(node, bases)
            if node.id in self.free and node.id not in self.needed:
                continue
            if node.id in inside:
                self.computing[node.id] = node
            edges = self.sources[node.id] = list(self._edges(node, bases))
            for edge in edges:
                self.readers.setdefault(edge.source.id, []).append(edge)

    @cached_property
    def updates(self) -> frozenset[int]:
        """The elementwise nodes from which nothing is made but what a run carries to the next.

        They write over what other kernels read, so they come last in a run. Whatever their kernel
        reads has to wait for that: with a large sum it would be much more than its result.
        """
        carried, outputs = {new for new, _ in self.ir.carries}, {*self.ir.output_ids}
        updates: set[int] = set()
        for node in reversed(self.nodes) if carried else ():
            users = {edge.user.id for edge in self.readers.get(node.id, ())}
            is_carried = node.id in carried if node.id in outputs else bool(users)
            if isinstance(node.op, Elementwise) and is_carried and users <= updates:
                updates.add(node.id)
        return frozenset(updates)

    def is_update(self, node: Node) -> str:
        """Return why a node is not computed with the sum that it needs if it is an update."""
        return f"{node} is an update, which comes last in a run" if node.id in self.updates else ""

    def _note_packed(self, node: Node) -> None:
        match node.op:
            case Input() | Gather() if node.dtype in (DType.uint8, DType.int8):
                self._packed[node.id] = frozenset({node.id})
            case Constant() | Iota():
                self._packed[node.id] = frozenset()
            case View() | Elementwise():
                parts = [self._packed.get(id) for id in node.sources]
                if None not in parts:
                    own = frozenset({node.id})
                    self._packed[node.id] = own.union(*(part for part in parts if part))
            case _:
                pass

    def _base(self, node: Node, bases: Bases) -> tuple[Node, tuple[Node, ...]] | None:
        """Return the node that a view shows, and the views in between, or None."""
        if not node.sources:
            return None
        (source,) = node.sources
        if source not in self.free:
            return self.node_of[source], (node,)
        base = bases[source]
        return None if base is None else (base[0], (*base[1], node))

    def _edges(self, node: Node, bases: Bases) -> Iterator[Edge]:
        if node.id in self.free:
            base = bases[node.id]
            if base is not None:
                yield Edge(base[0], base[1], node)
            return
        for operand, id in enumerate(node.sources):
            if id not in self.free or node.id not in self.computing:
                yield Edge(self.node_of[id], (), node, operand)
            elif (base := bases[id]) is not None:
                yield Edge(*base, node, operand)

    def as_read(self, node: Node, *, permuted: bool = False) -> Node:
        """Return the view through which all users read a node, if it has the same memory.

        This gives it one shape, whatever axes of size 1 the ops before it needed. With `permuted`
        its axes may be in another order, except the last.
        """
        if permuted:
            return self._as_read(node, permuted=True)
        form = self._forms.get(node.id)
        if form is None:
            form = self._forms[node.id] = self._as_read(node, permuted=False)
        return form

    def _as_read(self, node: Node, *, permuted: bool) -> Node:
        edges = self.readers.get(node.id, [])
        best, shape = node, node.shape
        if node.id in self.needed or not edges:
            return best
        for depth, views in enumerate(zip(*(edge.via for edge in edges), strict=False), 1):
            view = views[0]
            if len({*views}) > 1 or not _is_in_place(view, shape, permuted=permuted):
                break
            shape = view.shape
            if len(shape) <= len(best.shape) or any(len(edge.via) == depth for edge in edges):
                best = view
        return best

    # -- asking ------------------------------------------------------------------------------------

    def open(self) -> list[Node]:
        """Return the nodes that compute and belong to no kernel yet, in order."""
        return [node for id, node in self.computing.items() if id not in self.taken]

    def is_open(self, node: Node) -> bool:
        """Return whether a node computes and belongs to no kernel yet."""
        return node.id in self.computing and node.id not in self.taken

    def is_awaited(self, node: Node, inside: Collection[int]) -> bool:
        """Return whether a later kernel, made of other nodes than these, will compute a node."""
        todo, seen = [node], {node.id}
        while todo:
            awaited = todo.pop()
            if awaited.id in inside or awaited.id in self.taken:
                continue
            if awaited.id in self.stored or isinstance(awaited.op, Reduce):
                return True
            for edge in self.readers.get(awaited.id, ()):
                if edge.user.id not in seen:
                    seen.add(edge.user.id)
                    todo.append(edge.user)
        return False

    def is_light(self, node: Node) -> bool:
        """Return whether a node may be computed wherever it is read and is not stored."""
        if not self.is_open(node) or node.id in self.stored:
            return False
        return isinstance(node.op, (Elementwise, Random)) and not self._made_at(node)

    def _made_at(self, node: Node) -> Node | None:
        """Return the reduction or lookup behind a node, if it is not part of a kernel yet."""
        for edge in self.sources[node.id]:
            below = edge.source
            is_end = isinstance(below.op, (Reduce, Gather)) and edge.repeats == 1
            if is_end and self.is_open(below):
                return below
        return None

    def depends(self, node: Node, bits: int) -> bool:
        """Return whether a node is computed from any of some nodes."""
        return bool(self.behind[node.id] & bits)

    def bits(self, ids: Iterable[int]) -> int:
        """Return some nodes as a bit set."""
        bits = 0
        for id in ids:
            bits |= 1 << self.order_of[id]
        return bits

    def settle(self, members: Iterable[int], exits: Sequence[int], reads: Iterable[int]) -> None:
        """Record that nodes form one kernel: readers of any result wait for all of it."""
        members = [*members]
        self.taken.update(members)
        self.products.clear()
        self.stored.update(reads)
        if len(exits) > 1:
            self._join(members, exits)

    def _join(self, members: Iterable[int], exits: Sequence[int]) -> None:
        """Have whatever waits for a result of a kernel wait for all that the kernel reads."""
        behind, results, readers, whole = self.behind, self._results, self.ir.readers, 0
        for id in members:
            whole |= behind[id]
        todo = [*exits]
        for id in todo:  # it grows
            joined = behind[id] | whole
            if joined != behind[id]:  # otherwise whatever waits for it waits for them already
                behind[id] = joined
                todo += [user for user in readers.get(id, ()) if user in behind]  # no dead ones
                todo += results.get(id, ())
        results.update(dict.fromkeys(members, tuple(exits)))

    # -- computing anew ----------------------------------------------------------------------------

    def again(self, node: Node) -> Again | str:
        """Return the cost of computing a node where it is read, or why it is too much."""
        todo = [node]
        while todo:  # sources come first: a graph may be deeper than Python's stack
            current = todo.pop()
            below = [
                edge.source for edge in self.sources[current.id] if self._asks(current, edge.source)
            ]
            if below:
                todo += [current, *below]
            elif current.id not in self._again:
                self._again[current.id] = self._anew(current)
        return self._again[node.id]

    def _asks(self, node: Node, source: Node) -> bool:
        """Return whether the cost of a node depends on a source whose cost is still unknown."""
        if node.id in self._again or source.id in self._again or not self.is_open(source):
            return False
        return not isinstance(node.op, (Reduce, Gather)) and computes(node.op)

    def _anew(self, node: Node) -> Again | str:
        if isinstance(node.op, Reduce):
            return f"computing {node} again would be a whole reduction each time"
        if isinstance(node.op, Gather) or not computes(node.op):
            return f"{node} is looked up" if node.id in self.computing else f"{node} is in memory"
        if unpacked := self._unpacked(node):
            return unpacked
        below = self._made_at(node)
        if below is not None:
            return f"{node} is best made where {below} is"
        inside, flops, reads = {node.id}, node.op.cost, set[int]()
        for edge in self.sources[node.id]:
            source = self.again(edge.source) if self.is_open(edge.source) else ""
            if isinstance(source, Again) and flops + source.flops <= CHEAP:
                inside |= source.inside
                flops += source.flops
                reads |= source.reads
            else:
                reads.add(edge.source.id)
        if flops > CHEAP:
            return f"computing {node} again costs {flops} operations an element"
        own = size_of(node.shape) * node.dtype.itemsize
        anew: Dim = 0
        for id in reads - inside:
            source = self.node_of[id]
            fewer = min((source.shape, node.shape), key=lambda shape: typical(size_of(shape)))
            anew = anew + size_of(fewer) * source.dtype.itemsize
        ratio = typical(anew) / max(typical(own), 1)
        if ratio > SLACK:
            return f"recomputing {node} would read {ratio:.4g}× the bytes, {amount(anew)}"
        return Again(frozenset(inside), flops, frozenset(reads - inside), ratio)

    def _unpacked(self, node: Node) -> Again | None:
        """Return the cost of making a value of packed bits, if it is one."""
        if not node.dtype.is_float or not (behind := self._packed.get(node.id)):
            return None
        nodes = [self.node_of[id] for id in behind]
        if not any(isinstance(below.op, UNPACKING) for below in nodes):
            return None
        reads = [below for below in nodes if isinstance(below.op, (Input, Gather))]
        read = {below.id for below in reads}
        inside = frozenset(id for id in behind - read if id in self.computing)
        if any(not self.is_open(self.node_of[id]) or id in self.needed for id in inside):
            return None
        size = sum(typical(size_of(read.shape)) * read.dtype.itemsize for read in reads)
        ratio = size / max(typical(size_of(node.shape)) * node.dtype.itemsize, 1)
        if not reads or ratio > FEWER:
            return None
        flops = sum(self.node_of[id].op.cost for id in inside)
        return Again(inside, flops, frozenset(read), ratio, unpacks=True)


def _is_in_place(view: Node, old: Shape, *, permuted: bool) -> bool:
    match view.op:
        case Reshape():
            before, after = ([dim for dim in s if dim != 1] for s in (old, view.shape))
            return before == after
        case Permute(axes=axes):
            moved = [axis for axis in axes if old[axis] != 1]
            return moved == sorted(moved) or (permuted and moved[-1] == max(moved))
        case _:
            return False
