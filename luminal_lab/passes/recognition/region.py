"""Regions as calls: their members, whether they may become one node, and their bodies.

A region lies between its root and its sources. It becomes a call only if it is closed:
no outside node reads its inner values, which would be computed twice. Constants, counting
and views cost nothing and are copied, so that they may have other readers.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, NO_META, Meta, Node, Table
from luminal_lab.core.op import Op, TensorType, View
from luminal_lab.core.ops import Call, Input
from luminal_lab.passes.recognition.reading import Reading, RecognisedRegion

Names: TypeAlias = tuple[str, ...]
Line: TypeAlias = tuple[Op, tuple[int, ...], tuple[TensorType, ...]]
Lines: TypeAlias = tuple[Line, ...]
"""A body: for each node its op, the numbers of the lines it reads, and its types."""


class Folding:
    """The conversion of regions to calls in one graph; equal regions share a body."""

    def __init__(self, ir: IR, edit: Edit, reading: Reading) -> None:
        self.edit = edit
        self.reading = reading
        self.bodies: dict[tuple[str, Names, Lines], IR] = {}
        # Reads by dead nodes do not count.
        self.dead = {node.id for node in ir.table} - ir.ancestors(ir.output_ids)

    def fold(self, region: RecognisedRegion) -> Node | None:
        """Turn a region into a call and return it, or None if the region is not closed."""
        members = self.members(region)
        kept = None if members is None else self.needed_outside(region.root, members)
        if members is None or kept is None:
            return None
        # A source with two names is one input under the first name.
        given = {source.id: (name, source) for name, source in reversed(region.sources.items())}
        sources = [given[id][1] for id in dict.fromkeys(s.id for s in region.sources.values())]
        names = tuple(given[source.id][0] for source in sources)
        body = self.body_of(region.kind, names, _lines(sources, members))
        inside = [node for node in reversed(members) if node is not region.root]
        with self.edit.firing(region.kind, region.because):
            call = self.edit.insert(Call(body), *sources, like=[region.root, *inside])
            self.edit.replace(region.root, call, renames=True)
            for node in reversed(members):
                if node.id not in kept and not self.edit.readers.get(node.id):
                    self.edit.erase(node)
        return call

    def body_of(self, kind: str, names: Names, lines: Lines) -> IR:
        """Return the graph of some lines; equal lines share one graph."""
        key = kind, names, lines
        body = self.bodies.get(key)
        if body is None:
            table = Table()
            for id, (op, sources, types) in enumerate(lines):
                meta = Meta(names[id]) if id < len(names) else NO_META
                table.set(id, Node(id, op, sources, types[0], types[1:], meta))
            body = self.bodies[key] = IR(table, range(len(names)), (len(lines) - 1,), name=kind)
        return body

    def members(self, region: RecognisedRegion) -> list[Node] | None:
        """Return the nodes of a region, sources first; None if it has other sources."""
        done = {source.id for source in region.sources.values()}
        members: list[Node] = []
        stack = [(region.root, False)]
        while stack:
            node, sources_done = stack.pop()
            if sources_done:
                members.append(node)
            elif node.id not in done:
                done.add(node.id)
                sources = self.reading.sources(node)
                if not sources and not self.reading.is_known(node):
                    self.reading.missed(node, "{} is computed inside it, from no source", node)
                    return None
                stack.append((node, True))
                stack += [(source, False) for source in reversed(sources)]
        return members

    def needed_outside(self, root: Node, members: list[Node]) -> Collection[int] | None:
        """Return the nodes of a region that outside readers need; None if any has a cost."""
        inside = {node.id for node in members}
        needed: set[int] = set()
        for node in reversed(members):
            if node is root:
                continue
            readers = self.edit.readers.get(node.id, {}).keys() - self.dead
            if self.edit.is_output(node) or not readers <= inside or not needed.isdisjoint(readers):
                if not isinstance(node.op, View) and not self.reading.is_known(node):
                    self._say_open(node, readers - inside)
                    return None
                needed.add(node.id)
        return needed

    def _say_open(self, node: Node, outside: Collection[int]) -> None:
        """Say what else needs an inner value of a region, which a call would compute again."""
        who = "what others read is made of"
        if self.edit.is_output(node):
            who = "the graph returns"
        elif outside:
            who = f"{self.edit[min(outside)]} reads"
        self.reading.missed(node, "{} {}, too, and a call would compute it twice", who, node)


def _lines(sources: list[Node], members: list[Node]) -> Lines:
    """Return a region with line numbers for ids, inputs first; equal regions have equal lines."""
    numbers: dict[int, int] = {}
    lines: list[Line] = []
    for node in (*sources, *members):
        numbers[node.id] = len(lines)
        inside = len(lines) >= len(sources)
        op = node.op if inside else Input(node.dtype, node.shape)
        lines.append((op, tuple(numbers[id] for id in node.sources if inside), node.types))
    return tuple(lines)
