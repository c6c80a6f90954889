"""XLA through JAX: a graph as StableHLO, compiled by XLA for a CPU, a GPU or a TPU.

    compiled = cx.compile(ll.GenericCompiler(), ll.XLACompiler())
    print(compiled.program.stablehlo)
    compiled.program.export("model.jax")

XLA fuses by itself, so it gets graphs that are as large as possible: everything between calls to
the host, ops without a form in JAX, and graph breaks becomes one call.

    %a = sin %x                                  %a = call{body = xla} %x
    %b = host_call{function = "f"} %a      →     %b = host_call{function = "f"} %a
    %c = add %b, %x                              %c = call{body = xla_2} %b, %x
    %d = sqrt %c                                 (add and sqrt)

forms.py has each op in JAX; program.py lowers, runs and exports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Meta, Node, Table
from luminal_lab.core.op import View
from luminal_lab.core.ops import Call, Constant, GraphBreak, Input, Iota, Pick, Stored
from luminal_lab.devices.runtime.compiler import DEEPEST
from luminal_lab.devices.xla.forms import has_form
from luminal_lab.devices.xla.program import XLAProgram
from luminal_lab.errors import expect
from luminal_lab.kernels.fuse.intrinsics import Intrinsics
from luminal_lab.passes.base import Pass, spec_text
from luminal_lab.passes.dead_code import DeadCode
from luminal_lab.passes.inlining import Inlining
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.passes.subexpressions import CommonSubexpressions

__all__ = ["XLACompiler"]
LICENCE = ("contract", "no_signed_zero", "no_subnormal")
"""What XLA does to numbers, whatever a licence says: subnormal ones may become 0."""


@dataclass(frozen=True)
class XLAPrograms(Pass):
    """Make one call of everything that XLA can compute at once."""

    name: ClassVar[str] = "xla-programs"

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        free: set[int] = set()  # what each program makes for itself
        apart: set[int] = set()
        turns: dict[int, int] = {}
        programs: dict[int, list[Node]] = {}
        for node in ir:
            if isinstance(node.op, Constant | Iota) or (
                isinstance(node.op, View) and free.issuperset(node.sources)
            ):
                free.add(node.id)
            is_break = isinstance(node.op, GraphBreak)
            turn = max([turns[id] + (is_break or id in apart) for id in node.sources], default=0)
            turns[node.id] = turn
            follows = isinstance(node.op, Pick) and node.sources[0] in apart
            if follows or isinstance(node.op, Stored) or not has_form(node.op):
                apart.add(node.id)
            elif not isinstance(node.op, Input):
                programs.setdefault(turn, []).append(node)
        for turn in sorted(programs):
            own = {node.id for node in programs[turn]}
            exits = [
                node
                for node in programs[turn]
                if edit.is_output(node)
                or any(
                    user.id in apart or (user.id not in own and node.id not in free)
                    for user in ir.users(node)
                )
            ]
            if exits:
                with edit.firing("program"):
                    _write(edit, exits, own | free)


def _write(edit: Edit, exits: Sequence[Node], own: set[int]) -> None:
    """Replace the exits of a program by the results of one call."""
    inside: dict[int, Node] = {}
    sources: dict[int, Node] = {}
    todo = [(edit[node.id], False) for node in reversed(exits)]
    while todo:
        node, is_done = todo.pop()
        if is_done:
            inside.setdefault(node.id, node)
        elif node.id not in own:
            sources.setdefault(node.id, node)
        elif node.id not in inside:
            todo += [(node, True), *((edit[id], False) for id in reversed(node.sources))]
    table, number = Table(), dict[int, int]()
    for index, node in enumerate((*sources.values(), *inside.values())):
        number[node.id] = index
        is_given = node.id in sources
        op = Input(node.dtype, node.shape) if is_given else node.op
        read = () if is_given else tuple(number[id] for id in node.sources)
        table.set(index, Node(index, op, read, node.type, node.extra, Meta(node.meta.name)))
    outputs = [number[node.id] for node in exits]
    body = IR(table, range(len(sources)), outputs, name="xla")
    call = edit.insert(Call(body), *sources.values(), like=[*reversed(inside.values())])
    for index, node in enumerate(exits):
        new = edit.insert(Pick(index), call, like=node) if len(exits) > 1 else call
        edit.replace(node, new, renames=True)


@dataclass(frozen=True, init=False, repr=False)
class XLACompiler(Pipeline):
    """Let XLA compile the graph, and run it where JAX runs.

    `platform` is JAX's name of it, as in "cpu", "tpu", "cuda" or "rocm"; by default the best one
    that is here. Its licence grants `no_subnormal`, as XLA may write 0 for such numbers.

    >>> print(XLACompiler("cpu"))
    xla{platform = cpu}
    """

    name: ClassVar[str] = "xla"
    platform: str | None = None
    """Where it runs; None: where JAX runs by default."""

    def __init__(self, platform: str | None = None) -> None:
        hint = 'give its name, as in "tpu", or leave it out'
        expect(platform, str | None, "xla: the platform is {}", hint)
        calls = Pipeline([Inlining()], rounds=DEEPEST)
        cleaned = (CommonSubexpressions(), DeadCode())
        programs = (Intrinsics(), DeadCode(), XLAPrograms(), DeadCode())
        super().__init__([calls, *cleaned, *programs], licence=LICENCE)
        object.__setattr__(self, "platform", platform)

    @override
    def runner(self, ir: IR, specialise: Mapping[str, int] | None = None) -> XLAProgram:
        return XLAProgram(ir, self.platform, specialise or {})

    @override
    def __str__(self) -> str:
        return spec_text(self.name, {} if self.platform is None else {"platform": self.platform})
