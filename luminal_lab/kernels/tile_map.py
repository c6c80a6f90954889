"""How a bulk copy finds tiles of a matrix: what the driver turns into a tensor map at a launch."""

from __future__ import annotations

from dataclasses import dataclass

from luminal_lab.core.dtypes import DType

SWIZZLED = 128
"""The bytes of a row of a tile in shared memory, whose pieces of 16 bytes are permuted."""
BYTES = 128
"""The bytes of a tensor map."""


@dataclass(frozen=True)
class TileMap:
    """A matrix in memory, row by row, and the tile that one copy fetches.

    >>> TileMap("a", 0, DType.float16, 4096, 512, 128).pitch
    8192
    """

    buffer: str
    number: int
    """Its position among the buffers that a kernel gets."""
    dtype: DType
    width: int
    """The elements of a row of the matrix."""
    height: int
    rows: int
    """The rows of a tile, 256 at most."""

    @property
    def pitch(self) -> int:
        """The bytes from one row of the matrix to the next."""
        return self.width * self.dtype.itemsize

    @property
    def columns(self) -> int:
        """The elements of a row of a tile."""
        return SWIZZLED // self.dtype.itemsize
