"""The copies of arrays on which a kernel runs, between gaps that reveal accesses beyond them."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from luminal_lab.emulator.library import runtime
from luminal_lab.errors import DeviceError

PAGE: Final = 16384
GAP: Final = 1 << 16
"""The bytes around a traced array that count as out of its bounds."""
SPARE: Final = 0xA5


@dataclass
class ArrayCopy:
    """The copy of an array; the `spare` bytes after it must not change."""

    name: str
    array: npt.NDArray[Any]
    base: int
    whole: int
    at: int
    spare: int
    is_written: bool = False

    @property
    def type(self) -> str:
        """The dtype and the shape, as text."""
        return f"{self.array.dtype}{list(self.array.shape)}"

    @property
    def end(self) -> int:
        """The address of the copy's end."""
        return self.at + self.array.nbytes

    def inside(self) -> npt.NDArray[np.uint8]:
        """Return the copy's bytes."""
        return _bytes_at(self.at, self.array.nbytes)

    def is_overrun(self) -> bool:
        """Return whether something was written right after it."""
        return bool((_bytes_at(self.end, self.spare) != SPARE).any())


def _bytes_at(at: int, count: int) -> npt.NDArray[np.uint8]:
    raw = (ctypes.c_ubyte * count).from_address(at)
    return np.frombuffer(memoryview(raw), np.uint8, count)


def placed(subject: str, name: str, array: npt.NDArray[Any], *, wide: bool) -> ArrayCopy:
    """Return a copy of an array between pages that nobody may touch or, if `wide`, wide gaps."""
    bytes_ = array.nbytes
    around = max(GAP, bytes_) if wide else PAGE
    around += -around % PAGE
    whole = 2 * around + bytes_ + -bytes_ % PAGE
    library = runtime()
    base: int | None = library.memory(whole)
    if not base:
        fault = f"{subject}: there is no memory for {name}, {bytes_:,} bytes"
        raise DeviceError(fault, hint="the emulator is for small sizes")
    spare = 0 if wide else -bytes_ % 16
    # The array ends at the end of a page, so that accesses beyond it are noticed.
    at = base + around if wide else base + whole - around - bytes_ - spare
    block = ArrayCopy(name, array, base, whole, at, spare)
    block.inside()[:] = array.reshape(-1).view(np.uint8)
    _bytes_at(block.end, spare)[:] = SPARE
    if not wide:
        library.close(base, around)
        library.close(base + whole - around, around)
    return block
