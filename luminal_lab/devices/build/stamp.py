"""The state of the package's files, which whatever they made is kept under."""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from luminal_lab.devices.build import cache

PACKAGE: Final = Path(__file__).parents[2]


def stamp_of(rooms: Iterable[str]) -> str:
    """Return the state of the files of some rooms, and of Python.

    Each compile asks for it, so that it goes by entries of folders and makes no path of any.
    """
    found = [str(sys.version_info)]
    for room in rooms:
        found += _states(f"{PACKAGE}/{room}")
    return cache.key_of(*sorted(found))


def _states(folder: str) -> Iterator[str]:
    for entry in os.scandir(folder):
        if not entry.is_dir():
            status = entry.stat()
            yield f"{entry.path} {status.st_size} {status.st_mtime_ns}"
        elif entry.name != "__pycache__":
            yield from _states(entry.path)
