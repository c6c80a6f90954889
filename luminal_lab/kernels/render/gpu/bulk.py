"""Bulk copies: one thread begins a tile's copy, and a barrier that counts bytes says it arrived.

    bulk r < 128:
      bulk c < 64:                        lab_barrier_expect(&lab_arrived[k % 3], 16384);
        s[k%3, r, c] = x[128*i + r,   →   lab_bulk_tile(&s[8192*(k % 3)], &lab_map_x,
                         64*k + c]            64*k, 128*i, &lab_arrived[k % 3]);

An array in tiles has a slot for each of some turns of a loop. Each slot holds rows of the last
axis, in pieces of 128 bytes: all rows of the first 128 bytes, then all of the next. Within a row of
a piece, groups of 16 bytes are permuted, as prelude/hopper.cu says. The map of a matrix is an
argument of the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from luminal_lab.core.dims import Dim, Shape, substitute
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import size_of
from luminal_lab.core.views import row_major
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.terms import Read
from luminal_lab.kernels.nest.nest import Loop, Nest, Set, alone
from luminal_lab.kernels.nest.sizes import perfect, slope
from luminal_lab.kernels.tile_map import SWIZZLED

ARRIVED, TILES = "lab_arrived", "lab_tiles"
"""A kernel's names for its barriers that count bytes, and for the memory of its tiles."""
MOST_ROWS = 256
"""How many rows one copy fetches at most."""
MOVED = DType.float16, DType.bfloat16
"""What four warps multiply, and what is therefore worth a bulk copy."""


@dataclass(frozen=True)
class Tiled:
    """The layout of an array in tiles: its slots, and the rows and columns of each."""

    places: int
    rows: int
    columns: int
    piece: int
    """The elements in 128 bytes."""

    @property
    def size(self) -> int:
        """The elements in one slot."""
        return self.rows * self.columns

    def start(self, index: Shape, shape: Shape) -> Dim:
        """Return the position of the element at an index, the first of a piece or of its row."""
        row, column = row_major(shape[1:-1], index[1:-1]), index[-1]
        if self.columns > self.piece:
            column = column * self.rows
        return index[0] * self.size + row * self.piece + column


@dataclass(frozen=True)
class BulkCopy:
    """A tile that is copied: into which slot of which array, and from where in which matrix."""

    into: str
    index: Shape
    """The first element that is written."""
    of: str
    width: int
    height: int
    x: Dim
    """The column at which the tile starts in the matrix."""
    y: Dim


def tiled(nest: Nest, name: str) -> Tiled:
    """Return the layout of an array in tiles."""
    type = nest.types[name]
    sizes = [size for size in type.shape if isinstance(size, int)]
    piece = SWIZZLED // type.dtype.itemsize
    if len(sizes) < 3 or len(sizes) < len(type.shape) or type.dtype not in MOVED:
        raise _refused(
            nest, name, f"is {type}, and tiles are of 16-bit floats: places, rows, columns"
        )
    rows = size_of(tuple(sizes[1:-1]))
    assert isinstance(rows, int)
    if sizes[-1] % piece or rows % 8 or rows > MOST_ROWS:
        raise _refused(
            nest,
            name,
            f"has {rows} rows of {sizes[-1]} at a place; rows are a multiple of 8, at most "
            f"{MOST_ROWS}, and columns one of {piece}",
        )
    return Tiled(sizes[0], rows, sizes[-1], piece)


def bulk_copy(nest: Nest, top: Loop) -> BulkCopy:
    """Return the tile that loops copy, or refuse loops that copy none."""
    loops = [*perfect(top)]
    copy = alone(loops[-1].body, Set)
    if copy is None or copy.how != "=" or not isinstance(copy.term, Read):
        raise nest.fault(f"bulk {top.name} does more than copying elements")
    shape, read = nest.types[copy.name].shape, copy.term
    lies = tiled(nest, copy.name)
    zero: dict[str, Dim] = {loop.name: 0 for loop in loops}
    *outer, inner = loops
    rows: Dim = 0
    for loop in outer:
        rows = rows * loop.size + loop.axis
    first = tuple(substitute(dim, zero) for dim in copy.index)
    is_whole = (
        all(loop.kind == "bulk" for loop in loops)
        and first[1:] == (0,) * (len(shape) - 1)
        and copy.index[0] == first[0]
        and copy.index[-1] == inner.axis
        and inner.size == lies.columns
        and row_major(shape[1:-1], copy.index[1:-1]) == rows
        and size_of(tuple(loop.size for loop in outer)) == lies.rows
    )
    if not is_whole:
        raise _refused(nest, copy.name, f"is not copied as a whole by {top.name}, row by row")
    given = nest.types[read.buffer]
    if given.dtype is not nest.types[copy.name].dtype:
        raise _refused(nest, copy.name, f"is {nest.types[copy.name].dtype}, and {read.buffer} not")
    flat, total = row_major(given.shape, read.index), size_of(given.shape)
    last = outer[-1]
    width = slope(flat, last.axis)
    # The axes of a row of the matrix, and those of its rows.
    cuts = [at for at in range(len(given.shape) + 1) if size_of(given.shape[at:]) == width]
    if not isinstance(width, int) or not isinstance(total, int) or not cuts or width % 8:
        why = f"is not a tile of rows of {read.buffer} that are multiples of 16 bytes"
        raise _refused(nest, copy.name, why)
    across = row_major(given.shape[cuts[0] :], read.index[cuts[0] :])
    down = row_major(given.shape[: cuts[0]], read.index[: cuts[0]])
    x, y = substitute(across, zero), substitute(down, zero)
    if across != x + inner.axis or down != y + rows:
        raise _refused(nest, copy.name, f"is not row by row of {read.buffer}")
    return BulkCopy(copy.name, first, read.buffer, width, total // width, x, y)


def _refused(nest: Nest, name: str, why: str) -> ScheduleError:
    return nest.fault(f"{name}, in tiles, {why}")
