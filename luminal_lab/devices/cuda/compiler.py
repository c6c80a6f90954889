"""NVIDIA's GPUs: kernels in CUDA C++, compiled by NVRTC, run through CuPy or the driver alone.

    cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90a"))

makes the source on any machine, along with `cx.kernels[…].ptx` and `.resources`. `cx.execute()`
needs a GPU; with `emulate=True` the emulator runs the same source on the CPU, for small sizes.

gpu/compiler.py has what all GPUs share; gpu/program.py compiles, gpu/run.py runs. engine.py does
what a program needs of the GPU that driver.py finds; library.py has cuBLAS beside our own kernels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.ir import IR
from luminal_lab.devices.cuda.driver import (
    CALLS,
    Calls,
    Image,
    compiled_image,
    present,
    unless_present,
)
from luminal_lab.devices.cuda.engine import CUDAEngine
from luminal_lab.devices.gpu.compiler import GPUCompiler
from luminal_lab.devices.gpu.engine import Engine, FindEngine
from luminal_lab.errors import ArgumentError, nearest
from luminal_lab.kernels.definition.programs import ProgramsLike
from luminal_lab.kernels.gpu import GPU, gpu_of
from luminal_lab.kernels.kernel import Kernels
from luminal_lab.kernels.plans.gpu_contraction import OLD
from luminal_lab.kernels.steps.applied import ScheduleLike

__all__ = ["CUDACompiler"]
DEFAULT = "sm_80"
"""The architecture to compile for if there is no GPU to ask."""


@dataclass(frozen=True, init=False, repr=False)
class CUDACompiler(GPUCompiler):
    """Fuse into kernels, and run them on an NVIDIA GPU.

    `arch` is the architecture, as in "sm_90a"; by default that of the GPU that is here, or sm_80.
    With `tf32`, products of float32 may be rounded to 10 bits for the tensor units. With `cublas`,
    plain products use NVIDIA's library if a first run finds it faster. `emulate` runs the kernels
    in the emulator, `schedules` replaces the default schedules of some kernels, and `programs` says
    what is computed instead of a kernel's definition. With `reuse_outputs` a run may overwrite what
    earlier ones returned. `engine` says who calls NVIDIA's driver: "cupy", which has cuBLAS, or
    "driver", which needs nothing else; by default CuPy if it is installed. `image` returns what the
    GPU loads of a source, for an architecture and the GPU's capability; by default NVRTC makes it.

    >>> print(CUDACompiler(arch="sm_90", tf32=True))
    cuda{arch = sm_90, tf32 = true}
    """

    name: ClassVar[str] = "cuda"
    shown: ClassVar[tuple[str, ...]] = (
        *("arch", "tf32", "cublas", "engine", "emulate", "reuse_outputs"),
    )
    arch: str | None = None
    """The architecture to compile for; None: that of the GPU that is here."""
    tf32: bool = False
    """Whether products of float32 may be rounded to 10 bits."""
    cublas: bool = True
    """Whether cuBLAS may compute plain products, if it is faster."""
    engine: Calls | None = None
    """Who calls the driver; None: CuPy if it is installed."""
    image: Image | None = None
    """Makes what the GPU loads of a source; None: NVRTC."""

    def __init__(
        self,
        arch: str | None = None,
        *,
        tf32: bool = False,
        cublas: bool = True,
        engine: Calls | None = None,
        image: Image | None = None,
        emulate: bool = False,
        reuse_outputs: bool = False,
        schedules: Mapping[str, ScheduleLike] | None = None,
        programs: ProgramsLike | None = None,
    ) -> None:
        if arch is not None and not re.fullmatch(r"sm_\d+[af]?", str(arch)):
            raise ArgumentError(
                f"cuda: the architecture is {arch!r}",
                hint='give one such as "sm_90", or leave it out for the GPU of this machine',
            )
        if engine is not None and engine not in CALLS:
            raise ArgumentError(
                f"cuda: the engine is {engine!r}",
                hint=nearest(str(engine), CALLS) or 'give "cupy" or "driver", or leave it out',
            )
        flags = {"tf32": tf32, "cublas": cublas, "emulate": emulate, "reuse_outputs": reuse_outputs}
        units = "float16", *(() if arch in OLD else ("bfloat16",)), *(("float32",) if tf32 else ())
        given = {"arch": arch, "engine": engine, "image": image, **flags}
        super().__init__(schedules, programs, units=units, **given)

    @override
    def target(self, ir: IR) -> tuple[GPU, FindEngine]:
        gpu_present = None if self.arch or self.emulate else present(self.engine)
        arch, cores = (self.arch or DEFAULT, None) if gpu_present is None else gpu_present
        gpu = gpu_of(arch, tf32=self.tf32, cores=cores)

        def find(source: str, kernels: Kernels) -> Engine:
            return CUDAEngine(
                source,
                arch,
                kernels,
                tf32=self.tf32,
                cublas=self.cublas,
                calls=self.engine,
                image=self.image or compiled_image,
            )

        return gpu, find

    @override
    def unless_here(self) -> None:
        if not self.emulate:
            unless_present(self.engine)
