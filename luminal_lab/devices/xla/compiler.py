"""XLA through JAX: a graph as StableHLO, compiled by XLA for a CPU, a GPU or a TPU.

    compiled = cx.compile(ll.GenericCompiler(), ll.XLACompiler())
    print(compiled.program.stablehlo)
    compiled.program.export("model.jax")

XLA fuses by itself, so it gets whole programs (devices/runtime/whole.py). forms.py has what ops
are in JAX; program.py lowers, runs and exports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR
from luminal_lab.devices.runtime.compiler import DEEPEST
from luminal_lab.devices.runtime.whole import divide
from luminal_lab.devices.xla.forms import has_form
from luminal_lab.devices.xla.program import XLAProgram, jax_device
from luminal_lab.errors import expect
from luminal_lab.kernels.fuse.intrinsics import Intrinsics
from luminal_lab.passes.base import Pass, spec_text
from luminal_lab.passes.dead_code import DeadCode
from luminal_lab.passes.inlining import Inlining
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.passes.subexpressions import CommonSubexpressions

LICENCE = ("contract", "no_signed_zero", "no_subnormal")
"""What XLA does to numbers, whatever a licence says: subnormal ones may become 0."""


@dataclass(frozen=True)
class XLAPrograms(Pass):
    """Make one call of everything that XLA can compute at once."""

    name: ClassVar[str] = "xla-programs"

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        divide(ir, edit, has_form, "xla")


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

    def __init__(self, platform: str | None = None) -> None:
        expect(platform, str | None, "xla: the platform is {}", 'give its name, as in "tpu"')
        calls = Pipeline([Inlining()], rounds=DEEPEST)
        cleaned = (calls, CommonSubexpressions(), DeadCode(), Intrinsics(), DeadCode())
        super().__init__([*cleaned, XLAPrograms(), DeadCode()], licence=LICENCE)
        object.__setattr__(self, "platform", platform)

    @override
    def runner(self, ir: IR, specialise: Mapping[str, int] | None = None) -> XLAProgram:
        return XLAProgram(ir, self.platform, specialise)

    @override
    def unless_here(self) -> None:
        jax_device(self.platform)

    @override
    def __str__(self) -> str:
        return spec_text(self.name, {} if self.platform is None else {"platform": self.platform})
