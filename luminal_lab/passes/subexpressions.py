"""`cse`: merge nodes that have the same op, with the same fields, on the same sources.

    graph g(%x: f32[2], %y: f32[2]) -> (%c) {        graph g(%x: f32[2], %y: f32[2]) -> (%c) {
      %a = add %x, %y : f32[2]                         %a = add %x, %y : f32[2]
      %b = add %y, %x : f32[2]                  →      %c = mul %a, %a : f32[2]
      %c = mul %a, %b : f32[2]                       }
    }

One walk is enough, since the sources of a node are merged before it is visited. Three kinds
are never merged: inputs; calls to the host, since a function may count its calls or print; and
random numbers of two streams, which are different ops. Recomputations through `after` stay apart
too, since their sources differ on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from typing_extensions import override

from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Op
from luminal_lab.core.ops import HostCall, Input
from luminal_lab.passes.asking import kind_of
from luminal_lab.passes.base import Pass

Key: TypeAlias = tuple[Op, tuple[int, ...]]


@dataclass(frozen=True)
class CommonSubexpressions(Pass):
    """Merge nodes that compute the same value."""

    name: ClassVar[str] = "cse"

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        first: dict[Key, Node] = {}
        only_once, records = _OnlyOnce(), edit.table.flat
        for old in ir.nodes:
            if only_once(old.op):
                continue
            node = records[old.id] or edit[old]
            kept = first.setdefault(_key(node), node)
            if kept is not node:
                with edit.firing("duplicate"):
                    edit.replace(node, kept)
                    edit.erase(node)

    @override
    def searches(self) -> tuple[str, ...]:
        return ("duplicate",)

    @override
    def why_not(self, ir: IR, search: str, node: Node) -> str:
        if _OnlyOnce()(node.op):
            return f"{search} leaves {node}: {node.op.name} is never merged."
        others = [other for other in ir if type(other.op) is type(node.op) and other.id != node.id]
        if not others:
            return f"{search} finds no node that is {kind_of(node)}, but {node}."
        # The nearest one shares the most sources, and then the same fields.
        near = max(
            others, key=lambda other: (len({*other.sources} & {*node.sources}), other.op == node.op)
        )
        if _key(near) == _key(node):
            return f"{search} keeps {node}, and merges others into it, such as {near}."
        differ = f"{near.op} is not {node.op}"
        if near.op == node.op:
            own, read = ([str(ir[id]) for id in each.sources] for each in (node, near))
            differ = f"it reads {' and '.join(read)}, and {node} reads {' and '.join(own)}"
        return f"{search} finds nothing equal to {node}. {near} comes nearest, but {differ}."


def _key(node: Node) -> Key:
    """Return the key that two nodes share if they compute the same value."""
    sources = node.sources
    return node.op, tuple(sorted(sources)) if node.op.commutative else sources


class _OnlyOnce:
    """Keys that tell ops apart; each body is examined once."""

    def __init__(self) -> None:
        self.known: dict[int, bool] = {}

    def __call__(self, op: Op) -> bool:
        body = op.body_of()
        if body is None:
            return isinstance(op, (Input, HostCall))
        if id(body) not in self.known:
            own = (node.op for node in body if not isinstance(node.op, Input))
            self.known[id(body)] = any(self(inner) for inner in own)
        return self.known[id(body)]
