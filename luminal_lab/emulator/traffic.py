"""How the lines of a kernel use memory: sectors of 32 bytes, lines of 128, conflicts of banks.

The lanes of a warp that do the same access together are one request: those with the same place in
the code, the same number of meetings before, the same turn since the last of them. Of a request in
global memory the different sectors count; of one in shared memory the turns that it needs, since a
bank gives one word of 4 bytes a turn: 8-byte accesses go by halves of a warp, 16-byte ones by
quarters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from luminal_lab.emulator.reading import SHARED

Numbers: TypeAlias = npt.NDArray[np.int64]
Records: TypeAlias = npt.NDArray[np.void]
SECTOR, LINE, BANKS, WORD = 32, 128, 32, 4
ACCESS: Final[tuple[Literal["read", "write", "atomic"], ...]] = ("read", "write", "atomic")


@dataclass(frozen=True)
class Traffic:
    """What one line does with one array."""

    kernel: str
    line: int
    text: str
    array: str
    space: Literal["shared", "global"]
    access: Literal["read", "write", "atomic"]
    count: int
    """Accesses of single threads."""
    bytes: int
    requests: int
    """Accesses of warps."""
    sectors: int
    """Sectors of 32 bytes that are moved; 0 in shared memory."""
    lines_128: int
    best_sectors: int
    """The fewest sectors that could hold the different bytes of each request."""
    conflicts: int
    """Turns beyond the first that requests to shared memory take."""


def traffic_of(
    events: Records, kernel: str, lines: Sequence[str], names: Mapping[int, str]
) -> Iterator[Traffic]:
    """Yield the sums of each line and array, in the order of the source."""
    if not len(events):
        return
    request, _ = requests_of(events)
    region_, kind_ = events["region"].astype(np.int64), events["kind"].astype(np.int64)
    keys = (events["line"].astype(np.int64) << 24) + (region_ << 8) + kind_
    kinds, which = np.unique(keys, return_inverse=True)
    for index, key in enumerate(map(int, kinds)):
        line, region, kind = key >> 24, key >> 8 & 0xFFFF, key & 0xFF
        here = which == index
        own, group = events[here], request[here]
        is_shared = region >= SHARED
        start, size = own["offset"], own["bytes"].astype(np.int64)
        yield Traffic(
            kernel,
            line,
            lines[line - 1].strip() if 0 < line <= len(lines) else "",
            names.get(region, "?"),
            "shared" if is_shared else "global",
            ACCESS[kind],
            len(own),
            int(size.sum()),
            len(np.unique(group)),
            0 if is_shared else len(_units(group, start, size, SECTOR)[0]),
            0 if is_shared else len(_units(group, start, size, LINE)[0]),
            0 if is_shared else _best(group, start, size),
            _conflicts(group, own["thread"] % 32, start, size) if is_shared else 0,
        )


def requests_of(events: Records) -> tuple[Numbers, Numbers]:
    """Return two numbers for each access: of its request, and which turn of its thread's it is.

    What the lanes of a warp do together at one time is a request; the turns of a thread at one
    place in the code count from 0 after each meeting.
    """
    thread = events["block"].astype(np.int64) * 1024 + events["thread"]
    code = events["pc"].astype(np.int64)
    sync = events["sync"].astype(np.int64)
    kind = events["kind"].astype(np.int64)
    order = np.lexsort((kind, code, sync, thread))
    columns = [column[order] for column in (thread, sync, code, kind)]
    turn = np.empty(len(events), np.int64)
    turn[order] = _place_in_run(columns)
    warp = thread // 32
    order = np.lexsort((turn, kind, code, sync, warp))
    new = _starts([column[order] for column in (warp, sync, code, kind, turn)])
    request = np.empty(len(events), np.int64)
    request[order] = np.cumsum(new) - 1
    return request, turn


def waits_of(events: Records, request: Numbers) -> Numbers:
    """Return, of accesses to shared memory, the turns that each waits for its bank.

    The first word of a bank that a request asks for is given at once; another one waits.
    """
    lane, start = events["thread"].astype(np.int64) % 32, events["offset"].astype(np.int64)
    size = events["bytes"].astype(np.int64)
    owner = request * 4 + part_of(lane, size)
    waits = np.zeros(len(events), np.int64)
    for more in range(int((np.maximum(size, WORD) // WORD).max(initial=0))):
        here = np.flatnonzero(more * WORD < size)
        word = start[here] // WORD + more
        bank = owner[here] * BANKS + word % BANKS
        order = np.lexsort((word, bank))
        new_bank = _starts([bank[order]])
        new_word = _starts([bank[order], word[order]])
        count = np.cumsum(new_word) - 1
        first = np.maximum.accumulate(np.where(new_bank, count, 0))
        waits[here[order]] = np.maximum(waits[here[order]], count - first)
    return waits


def _starts(columns: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.bool_]:
    """Return where sorted rows begin to be others."""
    new = np.ones(len(columns[0]), bool)
    new[1:] = False
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return new


def _place_in_run(columns: Sequence[npt.NDArray[Any]]) -> Numbers:
    """Return, of sorted rows, how many equal ones stand before each."""
    new = _starts(columns)
    first = np.flatnonzero(new)
    return np.arange(len(new)) - np.repeat(first, np.diff(first, append=len(new)))


def _units(group: Numbers, start: Numbers, size: Numbers, unit: int) -> tuple[Numbers, Numbers]:
    """Return the different pairs of a request and a unit that accesses lie in."""
    first, last = start // unit, (start + size - 1) // unit
    room = int(last.max()) + 1  # a pair is one number, which sorts faster than two
    pairs: list[Numbers] = []
    for more in range(int((last - first).max()) + 1):
        here = first + more <= last
        pairs.append(group[here] * room + first[here] + more)
    known = np.unique(np.concatenate(pairs))
    return known // room, known % room


def _best(group: Numbers, start: Numbers, size: Numbers) -> int:
    """Return the fewest sectors that hold the different bytes of each request, summed."""
    step = int(np.gcd.reduce(np.gcd(start, size)))
    owner, _ = _units(group, start, size, step)
    _, counts = np.unique(owner, return_counts=True)
    return int(np.ceil(counts * step / SECTOR).sum())


def _conflicts(group: Numbers, lane: Numbers, start: Numbers, size: Numbers) -> int:
    """Return the turns that requests take beyond one for each part of a warp."""
    owner, word = _units(group * 4 + part_of(lane, size), start, size, WORD)
    banks, counts = np.unique(owner * BANKS + word % BANKS, return_counts=True)
    order = np.flatnonzero(_starts([banks // BANKS]))
    turns = np.maximum.reduceat(counts, order)
    return int((turns - 1).sum())


def part_of(lane: Numbers, size: Numbers) -> Numbers:
    """Return which part of its warp an access goes with: 1, 2 or 4 parts by its width."""
    width = np.maximum(size, WORD) // WORD
    return lane.astype(np.int64) // (32 // np.minimum(width, 4))
