"""`dce`: drop every node that no output needs; inputs stay, since the signature is a promise.

    graph g(%x: f32[2], %z: f32[2]) -> (%y) {        graph g(%x: f32[2], %z: f32[2]) -> (%y) {
      %a = sin %z : f32[2]                             %y = sqrt %x : f32[2]
      %b = add %a, %a : f32[2]                  →    }
      %y = sqrt %x : f32[2]
    }

A call to the host counts by its result alone: an unread one is dropped. A run would not
have made it either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.ops import Input
from luminal_lab.passes.base import Pass


@dataclass(frozen=True)
class DeadCode(Pass):
    """Keep the ancestors of outputs, and the inputs."""

    name: ClassVar[str] = "dce"

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        outputs = set(ir.output_ids)
        for node in reversed(ir.nodes):
            needed = edit.readers.get(node.id) or node.id in outputs
            if not needed and not isinstance(node.op, Input):
                edit.erase(node, rule="unused")

    @override
    def searches(self) -> tuple[str, ...]:
        return ("unused",)

    @override
    def why_not(self, ir: IR, search: str, node: Node) -> str:
        live, readers = ir.ancestors(ir.output_ids), ir.users(node)
        if node.id not in live:
            return f"{search} leaves {node}: it is an input, which the signature promises."
        if ir.is_output(node):
            return f"{search} leaves {node}: it is an output."
        reader = next(reader for reader in readers if reader.id in live)
        return f"{search} leaves {node}: an output needs it, by way of {reader}."
