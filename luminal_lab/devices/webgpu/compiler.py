"""WebGPU: kernels in WGSL, run by wgpu on any GPU, or on the processor by a software adapter.

    cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler())

makes the source on any machine; `cx.execute()` needs wgpu and a driver. There is no float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dtypes import DType
from luminal_lab.core.ir import IR
from luminal_lab.devices.gpu.compiler import GPUCompiler, check_float64
from luminal_lab.devices.gpu.engine import FindEngine
from luminal_lab.devices.webgpu.engine import WebGPUEngine, has_float16, webgpu_device
from luminal_lab.errors import expect
from luminal_lab.kernels.definition.programs import ProgramsLike
from luminal_lab.kernels.gpu import GPU, webgpu
from luminal_lab.kernels.steps.applied import ScheduleLike

LICENCE = ("contract", "no_inf", "no_nan", "no_signed_zero", "no_subnormal")
"""What a compiler of WGSL may do to numbers, whatever a licence says."""
__all__ = ["WebGPUCompiler"]


@dataclass(frozen=True, init=False, repr=False)
class WebGPUCompiler(GPUCompiler):
    """Fuse into kernels in WGSL, and run them on this machine's adapter of WebGPU.

    `schedules` replaces the default schedules of some kernels, and `programs` says what is computed
    instead of a kernel's definition. With `reuse_outputs` a run may overwrite what earlier ones
    returned. Its licence grants what WGSL takes for granted: no NaN, no infinity, no subnormal
    number. Mostly they come out right.

    With `float16`, kernels have 16-bit floats as a type; without, as bits in words. None asks the
    adapter, if there is one, for graphs that hold any.

    >>> print(WebGPUCompiler())
    webgpu
    """

    name: ClassVar[str] = "webgpu"
    shown: ClassVar[tuple[str, ...]] = ("float16", "reuse_outputs")
    float16: bool | None = None
    unsupported: ClassVar[Mapping[str, str]] = {"float64": "WGSL has none"}
    """What the conformance kit skips."""

    def __init__(
        self,
        *,
        float16: bool | None = None,
        reuse_outputs: bool = False,
        schedules: Mapping[str, ScheduleLike] | None = None,
        programs: ProgramsLike | None = None,
    ) -> None:
        fault = "webgpu: float16 is {}"
        expect(float16, bool | None, fault, "give True, False, or None, which asks the adapter")
        super().__init__(schedules, programs, reuse_outputs=reuse_outputs)
        object.__setattr__(self, "licence", LICENCE)
        object.__setattr__(self, "float16", float16)

    @override
    def target(self, ir: IR) -> tuple[GPU, FindEngine]:
        check_float64(ir, "webgpu", "WGSL has none")
        chosen = self.float16
        if chosen is None:
            chosen = DType.float16 in _dtypes(ir) and has_float16()
        return webgpu(has_float16=chosen), WebGPUEngine

    @override
    def unless_here(self) -> None:
        webgpu_device()


def _dtypes(ir: IR) -> set[DType]:
    """Return the dtypes of a graph and of its kernels' bodies."""
    bodies = [body for node in ir if (body := node.op.body_of()) is not None]
    own = {type.dtype for node in ir for type in node.types}
    return own.union(*map(_dtypes, bodies))
