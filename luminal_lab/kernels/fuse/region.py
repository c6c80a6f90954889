"""A region that grows: the nodes that one kernel computes row by row, and those computed anew.

A region has rows: the positions along all axes that it does not reduce. Each member makes row r
from row r of the other members, so that a kernel can go over the rows one by one, or all at once,
and keep values of a row at hand. For each member the region knows which axes are inner, which means
that they run within a row; a region without reductions has none.

    %m = max_reduce{axis = 1} %x : f32[n, 64 → 1]      rows: n; inner: axis 1
    %e = expand{shape = [n, 64]} %m                    within a row: its axis is inner
    %t = permute{axes = [1, 0]} %x                     other rows: no part of the region
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from luminal_lab.core.dims import Dim, Shape
from luminal_lab.core.ir import Node
from luminal_lab.core.op import Elementwise, Reduce, View, size_of
from luminal_lab.core.ops import Expand, Flip, Gather, Pad, Permute, Random, Reshape, Slice, Window
from luminal_lab.core.views import axis_groups
from luminal_lab.kernels.definition.cost import typical
from luminal_lab.kernels.fuse.reading import Again, Edge, GraphReading

FLOPS_A_BYTE = 2
"""How many additions take as long as a byte from memory."""
MOST_ANEW = 64
"""The most nodes that one kernel computes anew."""
MOST_OPS, MOST_INPUTS = 256, 64
"""The most ops and inputs of one kernel: more are slow to compile and overflow caches."""
Stamp: TypeAlias = tuple[int, int, int, int]
Inner: TypeAlias = tuple[bool, ...]
"""For each axis, whether it runs within a row; it means nothing for an axis of size 1."""


def seen(op: object, old: Shape, new: Shape, inner: Inner) -> Inner | None:
    """Return which axes of a view's result are inner; None if its rows are not those it reads."""
    match op:
        case Permute(axes=axes):
            rows = [axis for axis in axes if not inner[axis] and old[axis] != 1]
            return tuple(inner[axis] for axis in axes) if rows == sorted(rows) else None
        case Reshape():
            return regrouped(old, new, inner)
        case Expand():
            return tuple(i or a != b for i, a, b in zip(inner, old, new, strict=True))
        case Slice() | Pad() | Flip() | Window():
            if not _keeps_rows(op, old, new, inner):
                return None
            return (*inner, True) if isinstance(op, Window) else inner
        case _:
            return inner


def read(op: object, old: Shape, new: Shape, inner: Inner) -> Inner | None:
    """Return which axes of a view's source are inner, given those of its result."""
    match op:
        case Permute(axes=axes):
            rows = [axis for axis, i in zip(axes, inner, strict=True) if not i and old[axis] != 1]
            back = dict(zip(axes, inner, strict=True))
            return tuple(back[axis] for axis in range(len(axes))) if rows == sorted(rows) else None
        case Reshape():
            return regrouped(new, old, inner)
        case Expand():
            fits = all(i or a == b for i, a, b in zip(inner, old, new, strict=True))
            return inner if fits else None
        case Slice() | Pad() | Flip() | Window():
            known = inner[: len(old)]
            fits = inner[-1] if isinstance(op, Window) and new[-1] != 1 else True
            return known if fits and _keeps_rows(op, old, new, known) else None
        case _:
            return inner


def regrouped(old: Shape, new: Shape, inner: Inner) -> Inner | None:
    """Return which axes of a reshaped value are inner; None if one is inner only in part."""
    if 0 in old or 0 in new:
        return None
    new_inner = [False] * len(new)
    for olds, news in axis_groups(old, new):
        kinds = {inner[axis] for axis in olds}
        if len(kinds) > 1:
            return None
        for axis in news:
            new_inner[axis] = True in kinds
    return tuple(new_inner)


def _keeps_rows(op: View, old: Shape, new: Shape, inner: Inner) -> bool:
    """Return whether a view leaves the axes of rows unchanged."""
    rows = [axis for axis, i in enumerate(inner) if not i and (old[axis], new[axis]) != (1, 1)]
    match op:
        case Slice(start=start, step=step):
            return all(old[a] == new[a] and start[a] == 0 and step[a] == 1 for a in rows)
        case Pad():
            return all(old[axis] == new[axis] for axis in rows)
        case Flip(axes=axes):
            return not {*axes} & {*rows}
        case Window(axis=axis):
            return axis not in rows
        case _:
            return False


@dataclass
class FusedRegion:
    """Nodes that become one kernel."""

    reading: GraphReading
    may: Callable[[Node, Inner], str] = lambda node, inner: ""
    """Says why a node may not be a member, or nothing."""
    members: dict[int, Inner] = field(default_factory=dict[int, Inner])
    anew: set[int] = field(default_factory=set[int])
    """Nodes computed where they are read, which other kernels may compute, too."""
    once: set[int] = field(default_factory=set[int])
    """Those of them without other readers: they are computed once, whatever their cost."""
    apart: dict[int, str] = field(default_factory=dict[int, str])
    """For each node that could have been a member and is not, the reason."""
    bits: int = 0
    _changes: int = 0
    """How often a member came or went."""
    _stamp: Stamp = (-1, -1, -1, -1)
    """When the edges from outside were listed."""
    _exits: tuple[Stamp, list[int]] | None = None
    """The exits, and when they were listed."""
    _outside: Sequence[Edge] = ()
    _read: Mapping[int, Node] = field(default_factory=dict[int, Node])

    def add(self, node: Node, inner: Inner) -> None:
        """Make a node a member."""
        self._changes += 1
        self.members[node.id] = inner
        self.bits |= 1 << self.reading.order_of[node.id]
        self.apart.pop(node.id, None)

    def remove(self, node: Node) -> None:
        """Take a member out again."""
        self._changes += 1
        del self.members[node.id]
        self.bits &= ~(1 << self.reading.order_of[node.id])

    def has(self, node: Node) -> bool:
        """Return whether a node is computed in the region."""
        return node.id in self.members or node.id in self.anew

    @property
    def computed(self) -> set[int]:
        """All nodes computed in the region."""
        return {*self.members, *self.anew}

    def outside(self) -> Sequence[Edge]:
        """Return the edges from what the region reads from memory."""
        stamp = self._now
        if stamp != self._stamp:
            members, anew, sources = self.members, self.anew, self.reading.sources
            edges = [edge for id in (*members, *anew) for edge in sources[id]]
            inside = members.keys() | anew
            self._outside = [edge for edge in edges if edge.source.id not in inside]
            self._read = {edge.source.id: edge.source for edge in self._outside}
            self._stamp = stamp
        return self._outside

    def read(self) -> Mapping[int, Node]:
        """Return what the region reads from memory."""
        self.outside()
        return self._read

    @property
    def exits(self) -> list[int]:
        """The members that have to be in memory, in order."""
        if self._exits is None or self._exits[0] != self._now:
            exits = [id for id in self.members if id in self.reading.needed or self._is_read(id)]
            self._exits = self._now, sorted(exits, key=self.reading.order_of.__getitem__)
        return self._exits[1]

    @property
    def _now(self) -> Stamp:
        """What changes whenever a node comes or goes, or another region is settled."""
        return self._changes, len(self.members), len(self.anew), len(self.reading.taken)

    def _is_read(self, id: int) -> bool:
        """Return whether another kernel, now or later, reads a member."""
        users = [edge.user for edge in self.reading.readers.get(id, ())]
        others = [user for user in users if user.id not in self.members]
        return id in self.reading.stored or any(
            self.reading.is_awaited(user, self.members) for user in others
        )

    def leave_cheap(self) -> None:
        """Do not store members that others can compute anew from values in memory anyway."""
        for id in reversed(self.exits):
            again = self.reading.again(self.reading.node_of[id])
            if id in self.reading.stored or not isinstance(again, Again):
                continue
            exits = {*self.exits} - {id}
            if (again.reads | again.inside) & self.members.keys() - {id} <= exits and exits:
                del self.members[id]
                self.anew.add(id)

    @property
    def saved(self) -> Dim:
        """The bytes to and from memory that separate kernels would need and this one does not."""
        total: Dim = 0
        exits, computed, readers = set(self.exits), self.computed, self.reading.readers
        for id in computed - self.reading.free:
            node = self.reading.node_of[id]
            size = size_of(node.shape) * node.dtype.itemsize
            users = computed.intersection([edge.user.id for edge in readers.get(id, ())])
            total = total + size * (len(users) + (id not in exits))
        return total

    # -- growing -----------------------------------------------------------------------------------

    def grow_from(self, node: Node, inner: Inner) -> None:
        """Take in a node, and everything that is better computed with it."""
        self.add(node, inner)
        self.grow()
        self.compute_together()
        self.leave_cheap()

    def grow(self) -> None:
        """Take in the sources and users of members, as far as possible."""
        self._take_sources(list(self.members))
        heap: list[tuple[int, int]] = []
        queued: set[int] = set()

        def queue(ids: Sequence[int]) -> None:
            for id in ids:
                for edge in self.reading.readers.get(id, ()):
                    user = edge.user
                    if self.reading.is_open(user) and not self.has(user) and user.id not in queued:
                        queued.add(user.id)
                        heappush(heap, (self.reading.order_of[user.id], user.id))

        queue(list(self.members))
        while heap:
            user = self.reading.node_of[heappop(heap)[1]]
            if self.has(user):
                continue
            before = len(self.members)
            inner = self._as_user(user)
            if isinstance(inner, str):
                self.apart[user.id] = inner
                continue
            self.add(user, inner)
            self._take_sources([user.id])
            queue(list(self.members)[before:])

    def _as_user(self, user: Node) -> Inner | str:
        """Return the inner axes of a node that reads members, or why it cannot be a member."""
        seen_inner: Inner | None = None
        for edge in self.reading.sources[user.id]:
            if edge.source.id in self.members:
                inner = self.along(edge)
                if inner is None:
                    return f"{user} reads {edge.source} across its rows"
                seen_inner = inner if seen_inner is None else seen_inner
            elif self.reading.depends(edge.source, self.bits):
                return f"{edge.source}, which it reads, needs the kernel's results"
        assert seen_inner is not None, "it reads a member"
        return (
            self._fits(user, seen_inner)
            or self.may(user, seen_inner)
            or self.full(user)
            or seen_inner
        )

    def _fits(self, node: Node, inner: Inner) -> str:
        """Return why a node's rows are not those of the members that it reads, or nothing."""
        for edge in self.reading.sources[node.id]:
            if edge.source.id not in self.members:
                continue
            known = self.along(edge)
            shape = edge.shape
            wanted = inner
            if isinstance(node.op, Reduce) or (isinstance(node.op, Gather) and not edge.operand):
                axis = node.op.axis
                wanted = (*inner[:axis], True, *inner[axis + 1 :])
            if known is None or not self.same(known, wanted, shape):
                how = "looks up" if isinstance(node.op, Gather) else "reads"
                return f"{node} {how} {edge.source} across its rows"
        return ""

    def along(self, edge: Edge) -> Inner | None:
        """Return which axes are inner in a user's view of a member."""
        inner: Inner | None = self.members[edge.source.id]
        if not edge.via:
            return inner
        for view, old, new in edge.steps:
            if inner is not None:
                inner = seen(view.op, old, new, inner)
        return inner

    def back(self, edge: Edge, inner: Inner) -> Inner | None:
        """Return which axes of a source are inner, given those that its user reads."""
        inner_below: Inner | None = inner
        if not edge.via:
            return inner
        for view, old, new in reversed(edge.steps):
            if inner_below is not None:
                inner_below = read(view.op, old, new, inner_below)
        return inner_below

    @staticmethod
    def same(first: Inner, second: Inner, shape: Shape) -> bool:
        """Return whether two agree about all axes longer than 1."""
        return all(a == b or dim == 1 for a, b, dim in zip(first, second, shape, strict=True))

    def _take_sources(self, ids: list[int]) -> None:
        """Take in the sources of members, as members or as nodes computed where they are read.

        Sources later in the order come first, so that a full region has few sources.
        """
        todo = [(-self.reading.order_of[id], id) for id in ids]
        heapify(todo)
        while todo:
            user = self.reading.node_of[heappop(todo)[1]]
            for edge in self.reading.sources[user.id]:
                source = edge.source
                if self.has(source) or not self.reading.is_open(source):
                    continue
                inner = self._as_source(source)
                if not isinstance(inner, str):
                    self.add(source, inner)
                    heappush(todo, (-self.reading.order_of[source.id], source.id))
                elif not self.compute_anew(source) and source.id not in self.apart:
                    self.apart[source.id] = self._reason(edge, inner)

    def _as_source(self, source: Node) -> Inner | str:
        """Return the inner axes of a node that members read, or why it cannot be a member."""
        read_inner: Inner | None = None
        for edge in self.reading.readers[source.id]:
            user = edge.user
            inner = self.members.get(user.id)
            if inner is None:
                if user.id in self.anew:
                    return f"{user}, which is computed wherever it is read, reads it"
                continue
            if isinstance(user.op, Gather) and not edge.operand:
                return f"{user} looks it up, in any order"
            if isinstance(user.op, Reduce):
                inner = (*inner[: user.op.axis], True, *inner[user.op.axis + 1 :])
            back = self.back(edge, inner)
            if back is None or (
                read_inner is not None and not self.same(back, read_inner, source.shape)
            ):
                return f"{user} reads {source} across its rows"
            read_inner = back
        assert read_inner is not None, "a member reads it"
        if isinstance(source.op, Reduce):
            read_inner = (*read_inner[: source.op.axis], True, *read_inner[source.op.axis + 1 :])
        bit, behind = 1 << self.reading.order_of[source.id], self.reading.behind
        for id, known in self.read().items():
            if behind[id] & bit and id != source.id:
                return f"{known}, which is needed as well, is made of {source}"
        return (
            self._fits(source, read_inner)
            or self.may(source, read_inner)
            or self.full(source)
            or read_inner
        )

    def full(self, node: Node) -> str:
        """Return why a node does not fit, or an empty text."""
        count = len(self.members) + len(self.anew)
        if count >= MOST_OPS:
            return f"{node} would be op {count + 1} of a kernel, and {MOST_OPS} are the most"
        read, sources = self.read().keys(), self.reading.sources[node.id]
        if len(read) + len(sources) <= MOST_INPUTS:
            return ""
        added = {edge.source.id for edge in sources if not self.has(edge.source)}
        count = len((read | added) - {node.id})
        if count > max(MOST_INPUTS, len(read)):
            return f"with {node} a kernel would read {count} arrays, and {MOST_INPUTS} are the most"
        return ""

    def compute_anew(self, source: Node) -> bool:
        """Compute a node wherever the region reads it, if that costs little or happens once."""
        reading = self.reading
        todo = [source]
        while todo:
            node = todo.pop()
            if self.has(node) or not reading.is_open(node):
                continue
            if reading.depends(node, self.bits) or self.full(node):
                continue
            if self._is_private(node):
                self.anew.add(node.id)
                self.once.add(node.id)
                todo += [edge.source for edge in reversed(reading.sources[node.id])]
            elif isinstance(again := reading.again(node), Again):
                self.anew |= {id for id in again.inside if id not in self.members}
        return self.has(source)

    def _is_private(self, node: Node) -> bool:
        """Return whether only the region reads a node, and each element once."""
        edges = self.reading.readers.get(node.id, [])
        is_computed = isinstance(node.op, (Elementwise, Gather, Random))
        return (is_computed and node.id not in self.reading.stored) and all(
            (edge.user.id in self.members or edge.user.id in self.once)
            and typical(edge.repeats) <= 1
            for edge in edges
        )

    def compute_together(self, but: Set[int] = frozenset()) -> None:
        """Compute anew the values that the region would read, if that is cheaper than storing them.

        No other kernel may need them in memory. The sources of `but` stay as they are: those of a
        product, and of what makes its operands, are read again and again.
        """
        reading = self.reading
        edges = [edge for edge in self.outside() if edge.user.id not in but]
        wanted: dict[int, Node] = {}
        for edge in edges:
            source = edge.source
            if reading.is_light(source) and typical(edge.repeats) <= 1:
                wanted[source.id] = source
        given = {edge.source.id for edge in edges} - wanted.keys()
        inside: dict[int, Node] = {}
        new_sources: dict[int, Node] = {}
        todo = list(wanted.values())
        while todo and len(inside) <= MOST_ANEW:
            node = todo.pop()
            if node.id in inside or self.has(node):
                continue
            inside[node.id] = node
            for edge in reading.sources[node.id]:
                if reading.is_light(edge.source):
                    todo.append(edge.source)
                elif edge.source.id not in given:
                    new_sources[edge.source.id] = edge.source
        spared = 2 * sum(size_in_memory(node) for node in wanted.values())
        flops = sum(node.op.cost * typical(size_of(node.shape)) for node in inside.values())
        costs = flops / FLOPS_A_BYTE + sum(size_in_memory(node) for node in new_sources.values())
        fits = len(self.computed) + len(inside) <= MOST_OPS
        fits = fits and len(given | new_sources.keys()) <= max(
            MOST_INPUTS, len(given) + len(wanted)
        )
        if not todo and fits and costs < spared:
            self.anew |= inside.keys()

    def _reason(self, edge: Edge, inner: Inner | str) -> str:
        again = self.reading.again(edge.source)
        cost = again if isinstance(again, str) else ""
        times = edge.repeats
        if times != 1 and cost:
            cost += f", and it would be {times}× as often"
        why = inner if isinstance(inner, str) else ""
        return "; ".join(part for part in (why, cost) if part)


def size_in_memory(node: Node) -> int:
    """Return the bytes of a node's value."""
    return typical(size_of(node.shape)) * node.dtype.itemsize
