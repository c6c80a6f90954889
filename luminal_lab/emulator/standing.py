"""Where the threads of a block wait when some cannot go on, in words."""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from luminal_lab.emulator.library import runtime
from luminal_lab.errors import DeviceError

FRESH, READY, AT_BARRIER, AT_WARP, DONE, AT_BYTES, ENDED = range(7)
OPERATIONS: Final = (
    *("a sync", "a shuffle", "a vote", "a sum", "a maximum", "a minimum", "an mma", "an mma"),
    *("an mma", "a matrix", "a product of four warps", "the beginning of products"),
    *("a group of products", "products that were begun"),
)
"""The collective operations of a warp, in the order of interface.h."""


@dataclass(frozen=True)
class ThreadPosition:
    """A thread: its block and its place in it."""

    block: tuple[int, ...]
    thread: tuple[int, ...]
    number: int

    @classmethod
    def now(cls) -> ThreadPosition:
        """Return the thread that ran last."""
        block, thread = (ctypes.c_uint * 3)(), (ctypes.c_uint * 3)()
        number = ctypes.c_uint()
        runtime().standing(block, thread, ctypes.byref(number))
        return cls(tuple(block), tuple(thread), number.value)

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
    state, line, kind = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    mask = ctypes.c_uint()
    runtime().lane(
        ctypes.c_uint(number), *(ctypes.byref(field) for field in (state, line, kind, mask))
    )
    return state.value, line.value, kind.value, mask.value


def divergence(
    subject: str, source: str, standing: ThreadPosition, threads: int, above: int = 0
) -> DeviceError:
    """Return the error about threads that wait in vain for others."""
    groups: defaultdict[tuple[int, int, int, int], list[int]] = defaultdict(list)
    for number in range(threads):
        state, line, kind, mask = _lane(number)
        waits = state in (AT_BARRIER, AT_WARP, AT_BYTES)
        is_warp = state == AT_WARP
        groups[state, line if waits else 0, kind if is_warp else 0, mask if is_warp else 0].append(
            number
        )
    lines = source.split("\n")
    states: list[str] = []
    for (state, counted, kind, mask), members in sorted(groups.items()):
        line = max(0, counted - above)
        many = f"{len(members)} threads" if len(members) > 1 else "1 thread"
        who = f"{many} ({ranges(members)})"
        text = lines[line - 1].strip()[:80] if 0 < line <= len(lines) else ""
        waits, has = ("waits", "has") if len(members) == 1 else ("wait", "have")
        match state:
            case _ if state == AT_BARRIER:
                state_text = f"{waits} at the barrier in line {line}: {text}"
            case _ if state == AT_WARP:
                lanes = "" if mask == 0xFFFFFFFF else f" of lanes {mask:#x}"
                state_text = f"{waits} for {OPERATIONS[kind]}{lanes} in line {line}: {text}"
            case _ if state == AT_BYTES:
                state_text = f"{waits} for the bytes that a barrier counts in line {line}: {text}"
            case _ if state == DONE:
                state_text = f"{has} returned"
            case _ if state == ENDED:
                state_text = f"{has} come to the end"
            case _:
                state_text = f"{has} not come yet"
        states.append(f"{who} {state_text}")
    if any(state == AT_BYTES for state, *_ in groups):
        return DeviceError(
            f"{subject}, block {place_text(standing.block)}: what a barrier counts does not come",
            where="\n".join(states),
            hint="threads arrive as often as it was made for, what they expect are the bytes of "
            "all copies to it, and phases are waited for as 0, 1, 0, …",
        )
    at_barrier = any(state == AT_BARRIER for state, *_ in groups)
    at_warp = any(state == AT_WARP for state, *_ in groups)
    is_warp = at_warp and not (at_barrier and not standing_in_warp(groups))
    state_text = (
        "not all lanes of a warp do the same together"
        if is_warp
        else ("not all threads of the block reach a barrier")
    )
    hint = (
        "the lanes that a mask names call it together, in one line, and stay until then"
        if is_warp
        else "a barrier stands where all threads come, outside of what differs between them"
    )
    return DeviceError(
        f"{subject}, block {place_text(standing.block)}: {state_text}",
        where="\n".join(states),
        hint=hint,
    )


def standing_in_warp(groups: Iterable[tuple[int, int, int, int]]) -> bool:
    """Return whether somebody waits for lanes of its warp."""
    return any(state == AT_WARP for state, *_ in groups)


def ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers, those that follow each other as `first to last`.

    >>> ranges([0, 1, 2, 5])
    '0 to 2, 5'
    """
    parts: list[str] = []
    start = last = numbers[0]
    for number in [*numbers[1:], -1]:
        if number == last + 1:
            last = number
            continue
        parts.append(str(start) if start == last else f"{start} to {last}")
        start = last = number
    shown = parts[:8]
    return ", ".join(shown) + (f" and {len(parts) - 8} more" if len(parts) > 8 else "")
