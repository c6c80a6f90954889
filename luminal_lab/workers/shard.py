"""`shard`: write into the graph where the layout of a value must change, and what follows.

With `x: (data, -)` and the mesh `data=2`:

    graph g(%x: f32[4, 8]) -> (%y) {               graph g(%x: f32[4, 8]) -> (%3) {
      %y = sum_reduce{axis = 0} %x : f32[1, 8]       %y = sum_reduce{axis = 0} %x : f32[1, 8]
    }                                          →     %3 = reshard{old = "-, - sum data",
                                                                 new = "-, -"} %y : f32[1, 8]
                                                   }

Shapes stay those of the whole values, and a `reshard` is the identity: so nothing else has to know
about workers. `partition` makes the graph of one worker of it. What must be gathered is gathered
before it is broadcast: a change of layout moves up through views, as far as they only enlarge.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import View, size_of
from luminal_lab.core.ops import HostCall
from luminal_lab.errors import GraphError, PassError
from luminal_lab.passes.base import Pass
from luminal_lab.workers.flow import Flow
from luminal_lab.workers.layout import FREE, WHOLE, Layout, bytes_sent, steps
from luminal_lab.workers.ops import Reshard
from luminal_lab.workers.plan import Sharding
from luminal_lab.workers.rules import rule_of

CHANGE = "change-of-layout"


@dataclass(frozen=True)
class Shard(Pass):
    """Insert a `reshard` where workers need a value in another layout than they have it in."""

    name: ClassVar[str] = "shard"
    plan: Sharding = field(repr=False)

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        for node in ir:
            if isinstance(node.op, HostCall):
                raise GraphError(
                    f"{node} calls a function of the host, which workers cannot",
                    where=str(node.meta.origin or "") or None,
                    hint="call it outside of the graph",
                )
        Resharding(ir, edit, self.plan).run()

    @classmethod
    def of_text(cls) -> Shard:
        """Raise: what is annotated has no text."""
        raise PassError(
            "shard: a text cannot say what is cut", hint="ll.Sharded(ll.sharding(mesh, {…}))"
        )

    @override
    def __str__(self) -> str:
        mesh = ", ".join(f"{name}.{size}" for name, size in self.plan.mesh.axes)
        return f"{self.name}{{mesh = [{mesh}]}}"


class Resharding:
    """The pass at work."""

    def __init__(self, ir: IR, edit: Edit, plan: Sharding) -> None:
        self.ir, self.edit, self.mesh = ir, edit, plan.mesh
        self.flow = Flow(ir, plan.mesh, plan.layouts(ir), weights=edit.weights)
        self.seen = dict(self.flow.seen)
        self.known: dict[tuple[int, Layout], Node] = {}

    def run(self) -> None:
        """Go through the graph, sources first."""
        for node in self.ir:
            with self.edit.firing(CHANGE, self.reason(node)):
                self.at(node)

    def reason(self, node: Node) -> str:
        """Return what has to be sent for a node, and how many bytes each worker sends."""
        changes = [(node, self.flow.raw[node.id], self.flow.seen[node.id])]
        for source, need in zip(node.sources, self.flow.needs[node.id], strict=True):
            changes.append((self.ir[source], self.flow.seen[source], need))
        mesh = self.mesh
        sent = {
            f"{step.sent} of {value} over {step.axis}, {bytes_sent(step, value.type, at, mesh)}"
            for value, have, need in changes
            if not have.fits(need)
            for step, at in steps(have.filled(need.dims), need.filled(have.dims))
        }
        return "; ".join(f"{text} bytes" for text in sorted(sent))

    def at(self, node: Node) -> None:
        """Give a node its sources as it needs them, and its readers the result as they find it."""
        edit, flow = self.edit, self.flow
        needs, raw, seen = flow.needs[node.id], flow.raw[node.id], flow.seen[node.id]
        old = edit[node.id]
        sources = [
            self.wanted(edit[id], need, node) for id, need in zip(old.sources, needs, strict=True)
        ]
        now = old
        if tuple(source.id for source in sources) != old.sources:
            now = edit.insert(old.op, *sources, like=old)
            edit.replace(old, now, renames=True)
            edit.erase(old)
        self.seen[now.id] = raw
        if raw != seen:  # a free value that is annotated is free no more
            changed = self.changed(now, seen, now)
            edit.replace(now, changed)

    def wanted(self, node: Node, need: Layout, reader: Node) -> Node:
        """Return a value in the layout that a reader needs it in."""
        have = self.seen[node.id]
        if have.fits(need):
            return node
        need = need._replace(
            dims=tuple(h if w == FREE else w for w, h in zip(need.dims, have.dims, strict=True))
        )
        key = node.id, need
        if key not in self.known:
            above = self.above(node, have, need, reader)
            self.known[key] = above or self.changed(node, need, reader)
        return self.known[key]

    def changed(self, node: Node, need: Layout, reader: Node) -> Node:
        """Insert the change of layout."""
        have = self.seen[node.id].filled(need.dims)
        op = Reshard(str(have), str(need.filled(have.dims)))
        new = self.edit.insert(op, node, like=(reader, node))
        self.seen[new.id] = need
        return new

    def above(self, node: Node, have: Layout, need: Layout, reader: Node) -> Node | None:
        """Return a view again, of its source in another layout, if that is sent more cheaply."""
        if not isinstance(node.op, View) or have.partial or need.partial:
            return None
        if all(
            step.sent == "own_part"
            for step, _ in steps(have.filled(need.dims), need.filled(have.dims))
        ):
            return None
        (source,) = self.edit.sources(node)
        small, large = size_of(source.shape), size_of(node.shape)
        if not (isinstance(small, int) and isinstance(large, int) and small <= large):
            return None
        rule = rule_of(self.edit.ir(), node)
        (links,) = rule.links
        found, made = self.seen[source.id], dict[int, str]()
        words: list[str] = []
        for link, word, dim in zip(links, found.dims, source.shape, strict=True):
            wish = WHOLE if link is None else need.dims[link]
            if wish in self.mesh.sizes and not (
                isinstance(dim, int) and dim % self.mesh.sizes[wish] == 0
            ):
                return None
            words.append(word if word == FREE and wish == FREE else wish)
            if link is not None:
                made[link] = words[-1]
        dims = [made.get(k, FREE if k in rule.free else WHOLE) for k in range(len(node.shape))]
        result = Layout(tuple(dims))
        if not result.fits(need):
            return None
        new = self.edit.insert(
            node.op, self.wanted(source, Layout(tuple(words)), reader), like=node
        )
        self.seen[new.id] = result
        return new
