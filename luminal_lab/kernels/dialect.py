"""How C, CUDA C++, Metal's language and WGSL spell what kernels say: one table each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

LIMIT = 100
"""The longest line."""
Space: TypeAlias = Literal["own", "aligned", "shared"]
"""The kind of an array that a function declares: a thread's own, also for vectors, or a block's."""


@dataclass(frozen=True)
class Tiles:
    """The tiles that the tensor units of a GPU multiply, a warp at a time."""

    sums: tuple[int, int]
    """The rows and columns of the tile to which products are added."""
    depth: Mapping[str, int]
    """How many products are added up, by the dtype of the factors: f16, bf16, tf32."""
    left: Mapping[str, int]
    """How many registers of a lane hold its part of the tile with the rows; likewise `right`."""
    right: Mapping[str, int]
    group: int = 0
    """The rows of a tile of 8 to 256 columns that four warps add to together; 0 if they cannot."""

    def own(self, rows: int, columns: int) -> int:
        """Return how many elements of a tile each of its threads has."""
        return rows * columns // self.threads(rows)

    def threads(self, rows: int) -> int:
        """Return how many threads share a tile with `rows` rows: those of a warp, or of four."""
        return 128 if rows == self.group else 32

    def is_group(self, rows: object, columns: object) -> bool:
        """Return whether four warps share a tile of this size."""
        if not self.group or not isinstance(columns, int):
            return False
        return rows == self.group and columns % 8 == 0 and 8 <= columns <= 256


@dataclass(frozen=True)
class Dialect:
    """The spellings of one language.

    >>> CUDA.arrays["shared"].format(type="float", name="tile", size=64)
    '__shared__ __align__(16) float tile[64];'
    """

    name: str
    """Its name in devices and recordings."""
    version: str
    """The version of its source; recordings name it."""
    head: str
    """The text before the name of a kernel's function."""
    pointer: str
    """A buffer as a parameter."""
    dim: str
    """A dim or a count as a parameter."""
    arrays: Mapping[Space, str]
    """The declarations of arrays, by their owner."""
    pragmas: Mapping[str, str]
    """The text before a loop that is unrolled, or that runs in lanes."""
    restrict: str = ""
    """Promises that no other pointer points to the same memory."""
    barrier: str = "lab_sync"
    """The function with which the threads of a block wait for each other."""
    positions: tuple[str, ...] = ()
    """Parameters that hold the numbers of the block and the thread."""
    block: str = ""
    """The number of the block."""
    thread: str = ""
    """The number of the thread in its block."""
    tile: Tiles = field(default_factory=lambda: Tiles((0, 0), {}, {}, {}))
    """What its tensor units multiply."""
    has_float64: bool = True
    has_float16: bool = True
    """Whether 16-bit floats are a type."""
    has_int64: bool = True
    """Whether positions may have 64 bits."""
    has_vectors: bool = True
    """Whether neighbours are loaded and stored as a whole."""
    has_shuffles: bool = True
    """Whether the threads of a warp hand each other values without memory."""
    has_pointers: bool = True
    """Whether buffers can be compared."""
    least: int = 1
    """The fewest bytes of an element in shared memory."""
    copies_ahead: bool = False
    """Whether copies into shared memory can go on while threads work."""

    def buffer(
        self, name: str, type: str, number: int, const: str = "", *, is_alone: bool = True
    ) -> str:
        """Return a buffer as a parameter; nothing else points to a buffer that is alone."""
        restrict = self.restrict if is_alone else ""
        return self.pointer.format(
            const=const, type=type, restrict=restrict, name=name, number=number
        )

    def numbers(self, number: int, given: Sequence[tuple[str, str]]) -> list[str]:
        """Return numbers as parameters, by types and names, numbered from one on."""
        return [
            self.dim.format(type=type, name=name, number=number + more)
            for more, (type, name) in enumerate(given)
        ]

    def function(self, name: str, threads: int, given: Sequence[str]) -> list[str]:
        """Return the first lines of a function with these parameters."""
        given = [*given, *self.positions]
        start = self.head.format(name=name, threads=threads)
        whole = f"{start}({', '.join(given)}) {{"
        if len(whole) <= LIMIT:
            return [whole]
        return [f"{start}(", *(f"    {text}," for text in given[:-1]), f"    {given[-1]}", ") {"]


C = Dialect(
    name="c",
    version="1",
    head="static void {name}(LAB_GIVEN)",
    pointer="{const}{type} *{restrict}{name} = lab_buffers[{number}];",
    dim="const {type} {name} = lab_dims[{number}];",
    block="lab_task",
    arrays={"own": "{type} {name}[{size}];", "aligned": "{type} {name}[{size}] LAB_ALIGNED;"},
    pragmas={"unroll": "{indent}LAB_UNROLL({0})", "simd": "#pragma omp simd{0}"},
    restrict="restrict ",
)
CUDA = Dialect(
    name="cuda",
    version="1",
    head='extern "C" __global__ void __launch_bounds__({threads}) {name}',
    pointer="{const}{type} *{restrict}{name}",
    dim="const {type} {name}",
    arrays={
        "own": "{type} {name}[{size}];",
        "shared": "__shared__ __align__(16) {type} {name}[{size}];",
    },
    pragmas={"unroll": "{indent}#pragma unroll"},
    restrict="__restrict__ ",
    block="blockIdx.x",
    thread="threadIdx.x",
    tile=Tiles(
        (16, 8),
        depth={"f16": 16, "bf16": 16, "tf32": 8},
        left={"f16": 4, "bf16": 4, "tf32": 4},
        right={"f16": 2, "bf16": 2, "tf32": 2},
    ),
    copies_ahead=True,
)
HOPPER = replace(CUDA, tile=replace(CUDA.tile, group=64))
"""CUDA for sm_90a, where four warps multiply what bulk copies have fetched."""
METAL = Dialect(
    name="metal",
    version="1",
    head="kernel void {name}",
    pointer="device {const}{type} *{name} [[buffer({number})]]",
    dim="constant {type} &{name} [[buffer({number})]]",
    arrays={
        "own": "{type} {name}[{size}];",
        "shared": "threadgroup __attribute__((aligned(16))) {type} {name}[{size}];",
    },
    pragmas={"unroll": "{indent}#pragma unroll"},
    positions=(
        "uint lab_block [[threadgroup_position_in_grid]]",
        "uint lab_thread [[thread_position_in_threadgroup]]",
    ),
    block="lab_block",
    thread="lab_thread",
    tile=Tiles(
        (8, 8),
        depth={"f16": 8, "bf16": 8},
        left={"f16": 1, "bf16": 1},
        right={"f16": 1, "bf16": 1},
    ),
    has_float64=False,
)
WEBGPU = Dialect(
    name="webgpu",
    version="1",
    head="kernel {threads} {name}",
    pointer="{const}{type} *{name}",
    dim="const {type} {name}",
    arrays={"own": "{type} {name}[{size}];", "shared": "shared {type} {name}[{size}];"},
    pragmas={"unroll": ""},
    block="lab_block",
    thread="lab_thread",
    has_float64=False,
    has_float16=False,
    has_int64=False,
    has_vectors=False,
    has_shuffles=False,
    has_pointers=False,
    least=4,
)
"""C that `render/gpu/webgpu.py` turns into WGSL, which has neither pointers nor conversions."""
