"""The processes that a test has started; none may be left. Without a /proc none is seen."""

import contextlib
import os
from pathlib import Path


def children() -> set[int]:
    """Return the numbers of this process's own children, of dead ones until they are waited for."""
    return {number for number, parent in _parents().items() if parent == os.getpid()}


def descendants() -> list[str]:
    """Return the words of each process that this one has started, or that those have."""
    parents = _parents()

    def is_ours(number: int) -> bool:
        while number in parents:
            number = parents[number]
            if number == os.getpid():
                return True
        return False

    found: list[str] = []
    for number in filter(is_ours, parents):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{number}/cmdline").read_bytes()
            found.append(words.replace(b"\0", b" ").decode())
    return found


def _parents() -> dict[int, int]:
    """Return the parent of each process."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
    return parents
