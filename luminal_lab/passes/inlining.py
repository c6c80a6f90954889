"""`inline`: replace a call by the nodes of its body, so that every pass can see them.

    graph g(%x: f32[4]) -> (%y) {                    graph g(%x: f32[4]) -> (%e) {
      %y = call{body = twice} %x : f32[4]              %s = sin %x : f32[4]
    }                                           →      %e = add %s, %s : f32[4]
    graph twice(%x: f32[4]) -> (%e) {                }
      %s = sin %x : f32[4]
      %e = add %s, %s : f32[4]
    }

Calls within bodies follow, one level per step, until none is left. The nodes keep the line
and the scope of the call. An unread call stays: `dce` removes it more cheaply. So does a call that
a pass has made to be one kernel, until kernels are made.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.ops import Call, Pick
from luminal_lab.errors import PassError
from luminal_lab.passes.base import Pass
from luminal_lab.tensor.blocks import FORMS

WHOLE = {"int8_activations", *(f"{name}_by_int8" for name in FORMS)}
"""The names of bodies that are to be one kernel."""
MOST_NODES = 1_000_000
"""The most nodes after inlining: a few lines of calls can stand for any number of nodes."""


@dataclass(frozen=True)
class Inlining(Pass):
    """Replace calls by the nodes of their bodies."""

    name: ClassVar[str] = "inline"
    only: tuple[str, ...] = ()
    """The names of the bodies that are inlined; if there are none, all but those of kernels."""

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        if (count := inlined(ir)) > MOST_NODES:
            raise PassError(
                f"inline: {ir.name} would have {count:,} nodes, and may have {MOST_NODES:,}",
                hint="calls of calls of calls double them each time; write fewer levels",
            )
        if edit.limit is not None:  # each call is one firing, and their number is finite
            edit.limit = max(edit.limit, count)
        todo = deque(node.id for node in ir.nodes)
        while todo:
            node = edit.table.get(todo.popleft())
            if node is None or not isinstance(node.op, Call) or not self.takes(node.op.body.name):
                continue
            if edit.users(node) or edit.is_output(node):
                with edit.firing(f"body-of-{node.op.body.name.replace('_', '-')}"):
                    todo += inline(node, node.op.body, edit)

    def takes(self, name: str) -> bool:
        """Return whether calls of a body are inlined; text numbers bodies with equal names."""
        plain = plain_name(name)
        if self.only:
            return not {name, plain}.isdisjoint(self.only)
        return plain not in WHOLE


def plain_name(name: str) -> str:
    """Return the name of a body without the number that text gives to equal ones.

    >>> plain_name("q4_0_by_int8_2"), plain_name("int8_activations")
    ('q4_0_by_int8', 'int8_activations')
    """
    return re.sub(r"_\d+$", "", name)


def inlined(ir: IR) -> int:
    """Return the number of nodes after inlining, counting a body once per call."""
    known: dict[int, int] = {}

    def count(ir: IR) -> int:
        if id(ir) not in known:
            bodies = [node.op.body_of() for node in ir.table]
            known[id(ir)] = len(bodies) + sum([count(body) for body in bodies if body is not None])
        return known[id(ir)]

    return count(ir)


def inline(call: Node, body: IR, edit: Edit) -> list[int]:
    """Replace a call by the nodes of its body, and return their ids."""
    into = dict(zip(body.input_ids, call.sources, strict=True))
    ids: list[int] = []
    for node in body.nodes:
        if node.id not in into:
            sources = [into[id] for id in node.sources]
            new = edit.insert(node.op, *sources, like=call, name=node.meta.name)
            into[node.id] = new.id
            ids.append(new.id)
    if not call.extra:
        edit.replace(call, into[body.output_ids[0]], renames=True)
    for pick in edit.users(call):
        assert isinstance(pick.op, Pick), "only a pick reads a node with several results"
        edit.replace(pick, into[body.output_ids[pick.op.index]], renames=True)
        edit.erase(pick)
    edit.erase(call)
    return ids
