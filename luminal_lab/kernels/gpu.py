"""What a GPU has that kernels are made for: threads, shared memory, registers."""

from __future__ import annotations

from dataclasses import dataclass

from luminal_lab.kernels.dialect import CUDA, HOPPER, METAL, Dialect


@dataclass(frozen=True)
class GPU:
    """What a schedule asks of a GPU; sizes are in bytes.

    >>> gpu_of("sm_90").shared
    232448
    """

    dialect: Dialect = CUDA
    arch: str | None = None
    """What its code is compiled for, as "sm_90"; None where the language does without."""
    warp: int = 32
    """How many threads run in step."""
    threads: int = 1024
    """The most threads of a block."""
    shared: int = 48 << 10
    """The most memory that the threads of a block share."""
    registers: int = 65536
    """The 32-bit registers of a core, for all its threads."""
    cores: int = 80
    """How many blocks run at once, at least: one on each of its cores."""
    tf32: bool = False
    """Whether products of float32 may be rounded to 10 bits, for the tensor units."""


DECLARED = 48 << 10
"""The most shared memory of a block that its source declares; more would have to be asked for."""
SHARED = {
    "sm_75": 64 << 10,
    "sm_80": 163 << 10,
    "sm_86": 99 << 10,
    "sm_89": 99 << 10,
    "sm_90": 227 << 10,
    "sm_90a": 227 << 10,
    "sm_100": 227 << 10,
    "sm_120": 99 << 10,
}
"""The most shared memory of a block, by architecture; from the CUDA programming guide."""


def gpu_of(arch: str = "sm_80", *, tf32: bool = False) -> GPU:
    """Return what an NVIDIA GPU of an architecture has."""
    dialect = HOPPER if arch == "sm_90a" else CUDA
    return GPU(dialect, arch, shared=SHARED.get(arch, DECLARED), tf32=tf32)


def apple() -> GPU:
    """Return what GPUs of Apple's have."""
    return GPU(METAL, shared=32 << 10, cores=10)
