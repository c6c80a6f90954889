"""The elements of a nest's arrays, as one thread of a GPU holds or sees them."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape, Symbol, known, substitute
from luminal_lab.core.op import size_of
from luminal_lab.core.views import row_major
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.terms import Guarded, Read, Term
from luminal_lab.kernels.nest.nest import Local
from luminal_lab.kernels.nest.sizes import slope
from luminal_lab.kernels.render.arrays import Arrays
from luminal_lab.kernels.render.code import Code
from luminal_lab.kernels.render.gpu.nest import NestLaunch, misplaced
from luminal_lab.kernels.render.names import c_name

WIDTHS = 2, 4, 8, 16
"""The bytes that can be loaded and stored in one access."""


class ThreadArrays(Arrays):
    """The arrays of a phase: each thread has a part of those in registers."""

    def __init__(self, phase: NestLaunch, code: Code) -> None:
        super().__init__(phase.nest, code)
        self.phase = phase
        self.lanes: dict[tuple[str, Shape], str] = {}
        """Inside a vector loop: what is loaded and stored as a whole, by its position."""
        self.zeroed: dict[tuple[str, Shape], Dim] = {}
        """The condition on which that was loaded; otherwise it is 0."""
        self.tile: Dim | None = None
        """Inside tensor loops: the element of a warp's tile that a lane is at."""

    @override
    def is_scalar(self, name: str) -> bool:
        return self.is_wide(name) and not self.own_shape(name)

    @override
    def is_wide(self, name: str) -> bool:
        return self.nest.space_of(name) == "registers"

    def own_shape(self, name: str) -> Shape:
        """Return the shape of each thread's part of an array in registers."""
        shape = self.phase.own(name, self.types[name].shape)
        if name in self.phase.tiles:
            rows, columns = self.types[name].shape[-2:]
            assert isinstance(rows, int)
            assert isinstance(columns, int)
            return (*shape[:-2], self.code.dialect.tile.own(rows, columns))
        return shape

    def own_size(self, local: Local) -> int:
        """Return how many elements of an array each thread has."""
        size = size_of(self.own_shape(local.name))
        if not isinstance(size, int):
            why = f"has {size} elements in registers, which is not known before it runs"
            raise misplaced(self.nest, local.name, why, "memory")
        return size

    @override
    def place(self, name: str, index: Iterable[Dim]) -> str:
        index = tuple(index)
        vector = self.lanes.get((name, index))
        if vector is not None:
            return vector
        self.check_place(name)
        shape = self.types[name].shape
        if self.is_wide(name):
            shape, index = self.own_shape(name), self.phase.own(name, index)
            if name in self.phase.tiles:
                if self.tile is None:
                    raise ScheduleError(
                        f"nest {self.nest.name}: {name} is in registers as tiles of a tensor loop, "
                        "and a loop that is none uses it",
                        hint=f"bind all loops over the last two axes of {name} to tensor, or none",
                    )
                index = (*index[:-2], self.tile)
            if not shape:
                return c_name(name)
        return f"{c_name(name)}[{self.code.index(row_major(shape, index))}]"

    def tile_at(self, name: str, index: Shape) -> str:
        """Return the first element of a tile that a lane has."""
        self.tile = 0
        first = self.place(name, index)
        self.tile = None
        return first

    def check_place(self, name: str) -> None:
        """Refuse an array that does not lie row by row."""
        if self.nest.space_of(name) == "tiles":
            why = "is in tiles, which bulk copies write and four warps multiply, and here a thread"
            raise misplaced(self.nest, name, f"{why} uses it")

    @override
    def bits(self, term: Term) -> str | None:
        if not isinstance(term, Guarded):
            return super().bits(term)
        bits = super().bits(term.term)
        if bits is None or self.is_zero_elsewhere(term):
            return bits
        return f"{self.code.condition(term.holds)} ? {bits} : lab_{term.dtype.short}(0)"

    @override
    def is_zero_elsewhere(self, term: Guarded) -> bool:
        read = term.term
        return isinstance(read, Read) and self.zeroed.get((read.buffer, read.index)) == term.holds

    def space(self, array: str) -> str:
        """Return the suffix of the words for loads and stores, by an array's memory."""
        return "_SHARED" if self.nest.space_of(array) == "shared" else ""

    def start(self, name: str, index: Shape, axis: Symbol, width: int) -> Dim | None:
        """Return where the neighbours along an axis begin in memory, if they are one vector."""
        if not self.code.dialect.has_vectors or self.is_wide(name):
            return None
        if width * self.types[name].dtype.itemsize not in WIDTHS:
            return None
        flat = self.nest.flat(name, index)
        start = substitute(flat, {axis.name: 0})
        if slope(flat, axis) != 1:
            return None
        return start if known((start % width) < 1) is True else None
