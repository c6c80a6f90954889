"""How the languages of GPUs spell what kernels say: CUDA C++ and Metal's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dialect:
    """The spellings of one language.

    >>> CUDA.shared.format(type="float", name="tile", size=64)
    '__shared__ float tile[64];'
    """

    name: str
    """What devices and recordings call it."""
    version: str
    """The version of what is written; recordings name it."""
    head: str
    """What stands before the name of a kernel's function."""
    pointer: str
    """A buffer among its arguments."""
    dim: str
    """A dim or a count among its arguments."""
    positions: tuple[str, ...]
    """Arguments that say which block and thread it is."""
    block: str
    """The number of the block."""
    thread: str
    """The number of the thread in its block."""
    shared: str
    """An array that a block shares."""
    has_float64: bool = True


CUDA = Dialect(
    name="cuda",
    version="1",
    head='extern "C" __global__ void __launch_bounds__({threads}) {name}',
    pointer="{const}{type} *__restrict__ {name}",
    dim="const {type} {name}",
    positions=(),
    block="blockIdx.x",
    thread="threadIdx.x",
    shared="__shared__ {type} {name}[{size}];",
)
METAL = Dialect(
    name="metal",
    version="1",
    head="kernel void {name}",
    pointer="device {const}{type} *{name} [[buffer({place})]]",
    dim="constant {type} &{name} [[buffer({place})]]",
    positions=(
        "uint lab_block [[threadgroup_position_in_grid]]",
        "uint lab_thread [[thread_position_in_threadgroup]]",
    ),
    block="lab_block",
    thread="lab_thread",
    shared="threadgroup {type} {name}[{size}];",
    has_float64=False,
)
