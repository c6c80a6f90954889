"""A file that was dropped onto a live picture: it comes in pieces, and opens when it is whole."""

from __future__ import annotations

import tempfile
from pathlib import Path, PurePath
from typing import Final

from luminal_lab.display import DISPLAYS
from luminal_lab.errors import ArgumentError
from luminal_lab.viz.live.backed import Backed

MOST: Final = 1 << 32
"""The most bytes of a file."""


class Dropped:
    """A file of which some pieces have come."""

    def __init__(self, name: str, size: int) -> None:
        # Of a path only the end: the name is the browser's word.
        self.name = PurePath(name.replace("\\", "/")).name or "file"
        if not 0 < size <= MOST:
            raise ArgumentError(
                f"open: {self.name} has {size:,} bytes",
                hint=f"files of 1 to {MOST:,} bytes can be dropped; luminal-lab open takes others",
            )
        self.size = size
        self._folder = tempfile.TemporaryDirectory(prefix="luminal_lab-")
        self._path = Path(self._folder.name, self.name)
        self._file = self._path.open("wb")

    def add(self, at: int, data: bytes) -> bool:
        """Take the next piece; return whether the file is whole."""
        if at != self._file.tell() or not data or at + len(data) > self.size:
            raise ArgumentError(f"open: a piece of {self.name} was lost", hint="drop it again")
        self._file.write(data)
        return self._file.tell() == self.size

    def opened(self) -> tuple[Backed, ...]:
        """Return what it holds."""
        self._file.close()
        backed: tuple[Backed, ...] = DISPLAYS["file.look_at"](self._path).backed
        return backed

    def close(self) -> None:
        """Forget it; values that were not read are gone."""
        self._file.close()
        self._folder.cleanup()
