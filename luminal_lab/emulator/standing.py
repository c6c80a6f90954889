"""Where the threads of a block wait when some cannot go on, in words."""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from typing_extensions import override

from luminal_lab.emulator.library import EmulatedLaunch, runtime
from luminal_lab.errors import DeviceError

FRESH, READY, AT_BARRIER, AT_WARP, DONE, AT_BYTES, ENDED = range(7)
OPERATIONS: Final = (
    *("a sync", "a shuffle", "a vote", "a sum", "a maximum", "a minimum", "an mma", "an mma"),
    *("an mma", "a matrix", "a product of four warps", "the beginning of products"),
    *("a group of products", "products that were begun"),
)
"""The collective operations of a warp, in the order of interface.h."""
WAITING: Final = {
    AT_BARRIER: (
        "not all threads of the block reach a barrier",
        "a barrier stands where all threads come, outside of what differs between them",
    ),
    AT_WARP: (
        "not all lanes of a warp do the same together",
        "the lanes that a mask names call it together, in one line, and stay until then",
    ),
    AT_BYTES: (
        "what a barrier counts does not come",
        "threads arrive as often as it was made for, what they expect are the bytes of all copies "
        "to it, and phases are waited for as 0, 1, 0, …",
    ),
}
"""The states in which a thread waits for others: what is wrong if they do not come, and a hint."""


@dataclass(frozen=True)
class ThreadPosition:
    """A thread: its block and its place in it."""

    block: tuple[int, ...]
    thread: tuple[int, ...]
    number: int

    @classmethod
    def now(cls) -> ThreadPosition:
        """Return the thread that ran last."""
        seven = (ctypes.c_uint * 7)()
        runtime().standing(seven)
        return cls(tuple(seven[:3]), tuple(seven[3:6]), seven[6])

    @override
    def __str__(self) -> str:
        return f"block {place_text(self.block)}, thread {place_text(self.thread)}"

    def line(self) -> int:
        """Return the line that the thread has last said that it is in."""
        return _lane(self.number)[1]


def place_text(position: Sequence[int]) -> str:
    """Return a place without the axes that are 0 at its end: 3 or (0, 2).

    >>> place_text((3, 0, 0)), place_text((0, 2, 0))
    ('3', '(0, 2)')
    """
    coordinates = list(position)
    while len(coordinates) > 1 and not coordinates[-1]:
        coordinates.pop()
    return str(coordinates[0]) if len(coordinates) == 1 else f"({', '.join(map(str, coordinates))})"


def _lane(number: int) -> tuple[int, int, int, int]:
    """Return a thread's state, and the line, the operation and the mask of what it waits for."""
    four = (ctypes.c_int * 4)()
    runtime().lane(number, four)
    state, line, kind, mask = four
    return state, line, kind, mask & 0xFFFFFFFF


def divergence(launch: EmulatedLaunch) -> DeviceError:
    """Return the error about threads that wait in vain for others."""
    groups: defaultdict[tuple[int, int, int, int], list[int]] = defaultdict(list)
    for number in range(launch.block):
        state, line, kind, mask = _lane(number)
        line = launch.library.line(line) if state in WAITING else 0
        groups[state, line, *((kind, mask) if state == AT_WARP else (0, 0))].append(number)
    states = {state for state, *_ in groups}
    if AT_BYTES in states:
        text, hint = WAITING[AT_BYTES]
    else:
        text, hint = WAITING[AT_WARP if AT_WARP in states else AT_BARRIER]
    return launch.error(
        f", block {place_text(ThreadPosition.now().block)}",
        text,
        where="\n".join(_stand(launch, *group) for group in sorted(groups.items())),
        hint=hint,
    )


def _stand(
    launch: EmulatedLaunch, position: tuple[int, int, int, int], members: Sequence[int]
) -> str:
    """Return where some threads are, in words."""
    state, line, kind, mask = position
    is_one = len(members) == 1
    lanes = "" if mask == 0xFFFFFFFF else f" of lanes {mask:#x}"
    waited_for = {
        AT_BARRIER: "at the barrier",
        AT_WARP: f"for {OPERATIONS[kind]}{lanes}",
        AT_BYTES: "for the bytes that a barrier counts",
    }
    if state in waited_for:
        text = launch.library.text(line)[:80]
        does = f"wait{'s' * is_one} {waited_for[state]} in line {line}: {text}"
    else:
        came = {DONE: "returned", ENDED: "come to the end"}.get(state, "not come yet")
        does = f"{'has' if is_one else 'have'} {came}"
    many = "1 thread" if is_one else f"{len(members)} threads"
    return f"{many} ({ranges(members)}) {does}"


def ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers, those that follow each other as `first to last`.

    >>> ranges([0, 1, 2, 5])
    '0 to 2, 5'
    """
    runs = np.split(np.asarray(numbers), np.flatnonzero(np.diff(numbers) != 1) + 1)
    parts = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    shown = parts[:8]
    return ", ".join(shown) + (f" and {len(parts) - 8} more" if len(parts) > 8 else "")
