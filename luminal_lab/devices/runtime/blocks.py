"""Memory for a program's values: allocated once, and reused when no array uses it any more.

A new array costs page faults, which take longer than elementwise work itself. So the memory of
outputs is kept, and given to a later run's outputs once no array of an earlier run is alive:
whoever holds such an array keeps its memory, and sees it unchanged.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable
from typing import Final, cast

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.interrupts import held
from luminal_lab.machines.here import available_memory

ALIGNMENT = 64
CAREFUL = 64 << 20
"""From this many bytes on, the available memory is checked first."""
IDLE = 4
"""Idle memory is freed when it exceeds this many times the memory in use."""


def _address_of_array() -> Callable[[Array], int]:
    """Return what reads where the elements of an array begin.

    NumPy's records of arrays begin with it, and every library compiled for NumPy relies on that;
    to ask for it in Python takes ten times as long.
    """
    head = object.__basicsize__
    read = ctypes.c_size_t.from_address

    def recorded(array: Array) -> int:
        return read(id(array) + head).value

    def told(array: Array) -> int:
        return cast("int", array.__array_interface__["data"][0])

    samples = [np.empty(3), np.empty((2, 3), np.int8)[1:, 2:]]
    is_cpython = sys.implementation.name == "cpython"
    return recorded if is_cpython and all(recorded(a) == told(a) for a in samples) else told


address_of: Final = _address_of_array()
"""Returns where the elements of an array begin."""


class MemoryBlock:
    """Bytes that begin at a multiple of 64."""

    __slots__ = ("address", "bytes", "given", "offset", "raw")

    def __init__(self, size: int) -> None:
        if size > CAREFUL:
            available = available_memory()
            if available is not None and size > available:
                raise MemoryError(f"{size:,} bytes, and {available:,} are there")
        raw = np.empty(size + ALIGNMENT, np.uint8)
        self.lie_in(raw, size, -address_of(raw) % ALIGNMENT)

    def lie_in(self, raw: Array, size: int, offset: int = 0) -> None:
        """Use memory from an offset on for the bytes."""
        self.raw, self.offset, self.bytes = raw, offset, size
        self.address = address_of(raw) + offset
        self.given: weakref.ref[Array] | None = None
        """The array in it that a run has returned."""

    def array(self, shape: tuple[int, ...], dtype: np.dtype[np.generic], at: int = 0) -> Array:
        """Return an array in this block."""
        return np.ndarray(shape, dtype, self.raw, self.offset + at)

    @property
    def holders(self) -> int:
        """How many arrays are in this block."""
        return sys.getrefcount(self.raw) - UNHELD

    def is_kept_alone(self, array: int) -> bool:
        """Return whether only a session knows the array in this block, given by its id.

        The session has it twice: as an output's value, and as the value of the input that it
        becomes, which may have been passed to us as a view.
        """
        stored = None if self.given is None else self.given()
        if stored is None:
            return False
        is_same = id(stored) == array
        others = sys.getrefcount(stored) - UNHELD_LOCAL
        return others <= 2 + is_same and self.holders <= 2 - is_same


def _unheld() -> tuple[int, int]:
    """Return the reference counts of an array that nobody holds, and of a local one."""
    block = MemoryBlock(1)
    kept = [np.empty(1)]
    local = kept[0]
    return sys.getrefcount(block.raw), sys.getrefcount(local) - 1


UNHELD, UNHELD_LOCAL = _unheld()


def _references(array: Array) -> int:
    return sys.getrefcount(array)


def _held_once() -> int:
    """Return the references to an array that something has, as a function that gets it sees."""
    kept = [np.empty(1)]
    array = kept[0]
    return _references(array)


HELD_ONCE = _held_once()


class BlockPool:
    """The blocks of a program's outputs."""

    def __init__(self, make: Callable[[int], MemoryBlock] = MemoryBlock) -> None:
        self.make = make
        self._all: dict[int, list[MemoryBlock]] = {}
        self._by_raw: dict[int, MemoryBlock] = {}
        self.bytes = 0
        """The bytes of all blocks, including idle ones."""

    def take(self, size: int) -> MemoryBlock:
        """Return a block of a size without arrays in it."""
        blocks = self._all.get(size)
        if blocks is None:
            blocks = self._all[size] = []
        for block in blocks:
            if sys.getrefcount(block.raw) == UNHELD:
                return block
        try:
            block = self.make(size)
        except MemoryError:
            self.trim()
            block = self.make(size)
        with held():
            self.bytes += size
            blocks.append(block)
            self._by_raw[id(block.raw)] = block
        if sum(map(len, self._all.values())) % 16 == 0:
            idle = sum(b.bytes for bs in self._all.values() for b in bs if not b.holders)
            if idle > IDLE * (self.bytes - idle):
                self.trim(block)
        return block

    def owner(self, array: Array) -> MemoryBlock | None:
        """Return the block in which an array lies, if it begins there."""
        base = array.base
        return None if base is None else self._by_raw.get(id(base))

    def adopt(self, array: Array, size: int) -> MemoryBlock | None:
        """Return a block where an array lies; None if somebody beside a session has the array."""
        known = self._by_raw.get(id(array))  # from a run that ended before it returned anything
        if sys.getrefcount(array) > HELD_ONCE + (known is not None) or array.nbytes != size:
            return None
        if not (array.flags.owndata and array.flags.carray and size):
            return None
        if known is None:
            known = MemoryBlock(0)
            known.lie_in(array, size)
            with held():
                self.bytes += size
                self._all.setdefault(size, []).append(known)
                self._by_raw[id(array)] = known
        return known

    def trim(self, but: MemoryBlock | None = None) -> None:
        """Release the memory of idle blocks."""
        with held():
            for size, blocks in list(self._all.items()):
                kept = [block for block in blocks if block is but or block.holders]
                for block in blocks:
                    if block not in kept:
                        del self._by_raw[id(block.raw)]
                        self.bytes -= block.bytes
                if kept:
                    self._all[size] = kept
                else:
                    del self._all[size]
