"""A region as a call: what belongs to it, whether it may become one node, and its body.

A region is what lies between its root and its sources. It becomes a call only if it is closed:
what it computes inside nobody outside reads, or it would be computed twice. Constants, counting
and views cost nothing and are copied, so that they may have other readers.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, NO_META, Meta, Node, Table
from luminal_lab.core.op import Op, TensorType, View
from luminal_lab.core.ops import Call, Input
from luminal_lab.passes.recognition.reading import Found, Reading

Names: TypeAlias = tuple[str, ...]
Line: TypeAlias = tuple[Op, tuple[int, ...], tuple[TensorType, ...]]
Lines: TypeAlias = tuple[Line, ...]
"""A body: for each node its op, the lines that it reads, and its types."""


class Folding:
    """The making of calls in one graph; equal regions get one body."""

    def __init__(self, ir: IR, edit: Edit, reading: Reading) -> None:
        self.edit = edit
        self.reading = reading
        self.bodies: dict[tuple[str, Names, Lines], IR] = {}
        # What is dead already reads nothing that counts.
        self.dead = {node.id for node in ir.table} - ir.ancestors(ir.output_ids)

    def fold(self, found: Found) -> Node | None:
        """Make a region a call and return it, or None if the region is not closed."""
        members = self.members(found)
        kept = None if members is None else self.needed_outside(found.root, members)
        if members is None or kept is None:
            return None
        # What is read under two names is one input, with the first of them.
        given = {source.id: (name, source) for name, source in reversed(found.sources.items())}
        sources = [given[id][1] for id in dict.fromkeys(s.id for s in found.sources.values())]
        names = tuple(given[source.id][0] for source in sources)
        body = self.body_of(found.kind, names, _lines(sources, members))
        inside = [node for node in reversed(members) if node is not found.root]
        with self.edit.firing(found.kind, found.because):
            call = self.edit.insert(Call(body), *sources, like=[found.root, *inside])
            self.edit.replace(found.root, call, renames=True)
            for node in reversed(members):
                if node.id not in kept and not self.edit.readers.get(node.id):
                    self.edit.erase(node)
        return call

    def body_of(self, kind: str, names: Names, lines: Lines) -> IR:
        """Return lines as a graph of their own; of equal ones there is one graph."""
        key = kind, names, lines
        body = self.bodies.get(key)
        if body is None:
            table = Table()
            for id, (op, sources, types) in enumerate(lines):
                meta = Meta(names[id]) if id < len(names) else NO_META
                table.set(id, Node(id, op, sources, types[0], types[1:], meta))
            body = self.bodies[key] = IR(table, range(len(names)), (len(lines) - 1,), name=kind)
        return body

    def members(self, found: Found) -> list[Node] | None:
        """Return the nodes of a region, sources first; None if it reads something else too."""
        done = {source.id for source in found.sources.values()}
        members: list[Node] = []
        stack = [(found.root, False)]
        while stack:
            node, sources_done = stack.pop()
            if sources_done:
                members.append(node)
            elif node.id not in done:
                done.add(node.id)
                sources = self.reading.sources(node)
                if not sources and not self.reading.is_known(node):
                    return None
                stack.append((node, True))
                stack += [(source, False) for source in reversed(sources)]
        return members

    def needed_outside(self, root: Node, members: list[Node]) -> Collection[int] | None:
        """Return which nodes of a region stay for others; None if one of them costs something."""
        inside = {node.id for node in members}
        needed: set[int] = set()
        for node in reversed(members):
            if node is root:
                continue
            readers = self.edit.readers.get(node.id, {}).keys() - self.dead
            if self.edit.is_output(node) or not readers <= inside or not needed.isdisjoint(readers):
                if not isinstance(node.op, View) and not self.reading.is_known(node):
                    return None
                needed.add(node.id)
        return needed


def _lines(sources: list[Node], members: list[Node]) -> Lines:
    """Return a region with places for ids, inputs first; equal regions have equal lines."""
    places: dict[int, int] = {}
    lines: list[Line] = []
    for node in (*sources, *members):
        places[node.id] = len(lines)
        inside = len(lines) >= len(sources)
        op = node.op if inside else Input(node.dtype, node.shape)
        lines.append((op, tuple(places[id] for id in node.sources if inside), node.types))
    return tuple(lines)
