"""A file that was dropped onto a live picture: it comes in pieces, and opens when it is whole."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path, PurePath
from typing import Final

from luminal_lab.display import DISPLAYS
from luminal_lab.errors import ArgumentError, InputError, LabError, TrustError
from luminal_lab.viz.live.backed import Backed

MOST: Final = 1 << 32
"""The most bytes of a file."""


class Dropped:
    """A file of which some pieces have come; it is deleted with the last reference to this."""

    def __init__(self, name: str, size: int) -> None:
        # Of a path only the end: the name is the browser's word.
        self.name = PurePath(name.replace("\\", "/").replace("\0", "")).name or "file"
        if not 0 < size <= MOST:
            raise ArgumentError(
                f"open: {self.name} has {size:,} bytes",
                hint=f"files of 1 to {MOST:,} bytes can be dropped; luminal-lab open takes others",
            )
        self.size, self._received = size, 0
        folder = tempfile.mkdtemp(prefix="luminal_lab-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._path = Path(folder, self.name)

    def add(self, at: int, data: bytes) -> bool:
        """Take the next piece; return whether the file is whole."""
        if at != self._received or not data or at + len(data) > self.size:
            raise ArgumentError(f"open: a piece of {self.name} was lost", hint="drop it again")
        with self._path.open("ab") as file:
            file.write(data)
        self._received += len(data)
        return self._received == self.size

    def opened(self) -> tuple[Backed, ...]:
        """Return what it holds."""
        try:
            backed: tuple[Backed, ...] = DISPLAYS["file.look_at"](self._path).backed
        except TrustError as error:
            raise InputError(
                f"open: {self.name}: {error.message}",
                hint=f"if you know who wrote it: luminal-lab open {self.name} --trust",
            ) from error
        except LabError as error:
            # Whoever dropped it knows its name, and not where it lies now; and has written no line.
            error.message = error.message.replace(str(self._path), self.name)
            error.where = None
            raise
        return backed
