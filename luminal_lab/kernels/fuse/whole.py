"""`fuse-whole`: a call that a pass has made to be one kernel becomes one, with what follows it.

    %y = call{body = q4_k_by_int8} %raw, %q, %s, %t : f32[64]
    %z = add %y, %r                                 : f32[64]     →     %z = call{body = …} …

The values within such a call would cost too much to compute again, or to store, for the other
passes to take them together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.ops import Call
from luminal_lab.kernels.definition.cost import COSTLY
from luminal_lab.kernels.fuse.body import PlannedKernel, plan, write
from luminal_lab.kernels.fuse.contraction import follow
from luminal_lab.kernels.fuse.names import words_after
from luminal_lab.kernels.fuse.reading import GraphReading
from luminal_lab.kernels.fuse.region import FusedRegion, Inner
from luminal_lab.passes.base import Pass
from luminal_lab.passes.inlining import Inlining, inline, plain_name


@dataclass(frozen=True)
class FuseWhole(Pass):
    """Make a kernel of each call that is to be one."""

    name: ClassVar[str] = "fuse-whole"

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        takes, whole = Inlining().takes, list[tuple[Node, IR, list[int]]]()
        for call in ir.nodes:
            if isinstance(call.op, Call) and not takes(call.op.body.name):
                body = call.op.body
                whole.append((call, body, inline(edit[call.id], body, edit)))
        if whole:
            reading = GraphReading(edit.ir())
            write(edit, reading, [self._planned(reading, *each) for each in reversed(whole)])

    def _planned(
        self, reading: GraphReading, call: Node, called: IR, members: list[int]
    ) -> PlannedKernel:
        region = FusedRegion(reading, _too_costly)
        for id in members:
            if id in reading.computing:
                region.add(reading.node_of[id], (False,) * len(reading.node_of[id].shape))
        own = {*region.members}
        if not call.extra:
            follow(region, reading.node_of[max(region.members)])
        after = [reading.node_of[id] for id in sorted(region.members) if id not in own]
        name = "_".join([plain_name(called.name), *words_after(after)])
        return plan(region, "whole", f"{call} is to be one kernel")._replace(name=name)


def _too_costly(node: Node, inner: Inner) -> str:
    """Say why a function stays apart: there it runs on neighbours, and here on one at a time."""
    return f"{node} costs less on many neighbours at once" if node.op.cost >= COSTLY else ""
