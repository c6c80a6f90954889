"""The state of the package's files, which whatever they made is kept under."""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from luminal_lab.devices.build import cache

PACKAGE: Final = Path(__file__).parents[2]


def stamp_of(rooms: Iterable[str]) -> str:
    """Return the state of the files of some rooms, and of Python."""
    found = [str(sys.version_info)]
    for room in rooms:
        for folder, _, names in os.walk(PACKAGE / room):
            if not folder.endswith("__pycache__"):
                found += _states(folder, names)
    return cache.key_of(*sorted(found))


def _states(folder: str, names: list[str]) -> Iterator[str]:
    for name in names:
        status = Path(folder, name).stat()
        yield f"{folder}/{name} {status.st_size} {status.st_mtime_ns}"
