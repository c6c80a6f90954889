"""The data of a workload in a file that all processes map, so that it is in memory once."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import NamedTuple

import numpy as np

from luminal_lab.bench.workload import Arrays
from luminal_lab.core.dtypes import Array, DType

PAGE = 4096
"""The alignment of arrays, so that libraries can use them without copying."""


class ArrayPosition(NamedTuple):
    """The position of an array in the file."""

    dtype: str
    shape: tuple[int, ...]
    offset: int


class StoredArrays(NamedTuple):
    """A file of arrays."""

    path: str
    size: int
    arrays: dict[str, ArrayPosition]


def store(arrays: Arrays, path: Path) -> StoredArrays:
    """Write arrays into a file."""
    placed: dict[str, ArrayPosition] = {}
    size = 0
    for name, array in arrays.items():
        placed[name] = ArrayPosition(array.dtype.name, array.shape, size)
        size += -(-array.nbytes // PAGE) * PAGE
    with path.open("wb+") as file:
        file.truncate(max(size, PAGE))
        whole = _mapped(file.fileno(), max(size, PAGE))
        for name, array in arrays.items():
            _view(whole, placed[name])[...] = array
    return StoredArrays(str(path), max(size, PAGE), placed)


def opened(stored: StoredArrays) -> Arrays:
    """Return the arrays of a file, read-only."""
    with Path(stored.path).open("rb+") as file:
        whole = _mapped(file.fileno(), stored.size)
    arrays = {name: _view(whole, placed) for name, placed in stored.arrays.items()}
    for array in arrays.values():
        array.flags.writeable = False
    return arrays


def _mapped(file: int, size: int) -> mmap.mmap:
    whole = mmap.mmap(file, size)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # Pages of 2 MB, if the system has them for such files: large weights are read faster.
        whole.madvise(mmap.MADV_HUGEPAGE)
    return whole


def _view(whole: mmap.mmap, placed: ArrayPosition) -> Array:
    count = int(np.prod(placed.shape))
    flat = np.frombuffer(whole, DType(placed.dtype).numpy, count, placed.offset)
    return flat.reshape(placed.shape)
