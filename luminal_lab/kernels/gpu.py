"""What a GPU offers to kernels: threads, shared memory, registers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from luminal_lab.kernels.dialect import CUDA, HOPPER, METAL, WEBGPU, Dialect
from luminal_lab.machines.cards import capability_of


@dataclass(frozen=True)
class GPU:
    """What a schedule asks of a GPU; sizes are in bytes.

    >>> gpu_of("sm_90").shared
    232448
    """

    dialect: Dialect = CUDA
    arch: str | None = None
    """The architecture for which its code is compiled, as in "sm_90"; None if none is needed."""
    threads: int = 1024
    """The most threads in a block."""
    shared: int = 48 << 10
    """The most memory that the threads of a block can share."""
    cores: int = 80
    """How many blocks run at once, at least: one on each of its cores."""
    tf32: bool = False
    """Whether products of float32 may be rounded to 10 bits, for the tensor units."""

    @property
    def place(self) -> str:
        """Where its blocks run, in words.

        >>> gpu_of("sm_90").place, webgpu().place
        ('on sm_90', 'in WebGPU')
        """
        return f"on {self.arch}" if self.arch else PLACES[self.dialect.name]


PLACES = {"cuda": "on NVIDIA's GPUs", "metal": "on Apple's GPUs", "webgpu": "in WebGPU"}

DECLARED = 48 << 10
"""The most shared memory that a block can have declared in its source; more must be requested."""


def gpu_of(arch: str = "sm_80", *, tf32: bool = False, cores: int | None = None) -> GPU:
    """Return what an NVIDIA GPU of an architecture has; `cores` are those of the GPU that is here.

    >>> gpu_of("sm_80").cores, gpu_of("sm_90a").cores, gpu_of("sm_90", cores=114).cores
    (108, 132, 114)
    """
    dialect = HOPPER if arch == "sm_90a" else CUDA
    has = capability_of(arch)
    if has is None:
        return GPU(dialect, arch, shared=DECLARED, tf32=tf32, cores=cores or GPU.cores)
    return GPU(dialect, arch, shared=has.block_shared, tf32=tf32, cores=cores or has.cores)


def apple() -> GPU:
    """Return what Apple's GPUs have."""
    return GPU(METAL, shared=32 << 10, cores=10)


def webgpu(*, has_float16: bool = False) -> GPU:
    """Return what every adapter of WebGPU has, by the limits that the standard promises."""
    dialect = replace(WEBGPU, has_float16=has_float16)
    return GPU(dialect, threads=256, shared=16 << 10, cores=10)
