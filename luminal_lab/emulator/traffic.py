"""How the lines of a kernel use memory: sectors of 32 bytes, lines of 128, conflicts of banks.

Lanes of a warp that do the same access together form one request: same position in the code, same
number of meetings before, same turn since the last meeting. A request in global memory counts by
its distinct sectors; one in shared memory counts by the turns that it needs, since a bank gives one
word of 4 bytes a turn: 8-byte accesses go by halves of a warp, 16-byte ones by quarters.

The accesses of one block can be looked at one by one: each has its phase (the number of barriers
that the block has passed), line, thread and position in an array, and its place in a request: in
global memory the sector that it moves, in shared memory the bank, and for how many turns it waits
for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from luminal_lab.emulator.reading import SHARED
from luminal_lab.errors import ArgumentError

if TYPE_CHECKING:
    from luminal_lab.emulator.trace import Trace, TracedArray, TracedLaunch

Numbers: TypeAlias = npt.NDArray[np.int64]
Records: TypeAlias = npt.NDArray[np.void]
Mask: TypeAlias = npt.NDArray[np.bool_]
Space: TypeAlias = Literal["shared", "global"]
SECTOR, LINE, BANKS, WORD = 32, 128, 32, 4
ACCESS: Final[tuple[Literal["read", "write", "atomic"], ...]] = ("read", "write", "atomic")


@dataclass(frozen=True)
class Traffic:
    """What one line does with one array."""

    kernel: str
    line: int
    text: str
    array: str
    space: Space
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
        moved = (0, 0, 0)
        if not is_shared:
            sectors, lines_128 = (len(_units(group, start, size, u)[0]) for u in (SECTOR, LINE))
            moved = sectors, lines_128, _best(group, start, size)
        text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
        counts = len(own), int(size.sum()), len(np.unique(group))
        waits = _conflicts(group, own["thread"] % 32, start, size) if is_shared else 0
        whose = names.get(region, "?"), "shared" if is_shared else "global", ACCESS[kind]
        yield Traffic(kernel, line, text, *whose, *counts, *moved, waits)


def requests_of(events: Records) -> tuple[Numbers, Numbers]:
    """Return two numbers for each access: its request, and its turn within its thread.

    What the lanes of a warp do together is one request; the turns of a thread at one position in
    the code count from 0 after each meeting.
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
    """Return, for accesses to shared memory, the turns that each waits for its bank.

    The first word that a request asks of a bank comes at once; other words wait.
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
    """Return where sorted rows change."""
    new = np.ones(len(columns[0]), bool)
    new[1:] = False
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return new


def _place_in_run(columns: Sequence[npt.NDArray[Any]]) -> Numbers:
    """Return, for sorted rows, how many equal ones come before each."""
    new = _starts(columns)
    first = np.flatnonzero(new)
    return np.arange(len(new)) - np.repeat(first, np.diff(first, append=len(new)))


def _units(group: Numbers, start: Numbers, size: Numbers, unit: int) -> tuple[Numbers, Numbers]:
    """Return the distinct pairs of a request and a unit of memory that accesses lie in."""
    first, last = start // unit, (start + size - 1) // unit
    room = int(last.max()) + 1  # a pair is one number, which sorts faster than two
    pairs: list[Numbers] = []
    for more in range(int((last - first).max()) + 1):
        here = first + more <= last
        pairs.append(group[here] * room + first[here] + more)
    known = np.unique(np.concatenate(pairs))
    return known // room, known % room


def _best(group: Numbers, start: Numbers, size: Numbers) -> int:
    """Return the fewest sectors that could hold the distinct bytes of each request, summed."""
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
    """Return the part of its warp that an access goes with: 1, 2 or 4 parts by its width."""
    width = np.maximum(size, WORD) // WORD
    return lane.astype(np.int64) // (32 // np.minimum(width, 4))


# -- who touches what ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Touches:
    """Accesses of one block; each column has one number per access, in order of occurrence."""

    number: int
    """The number of its launch."""
    launch: TracedLaunch
    block: int
    records: Records
    turn: Numbers
    """How often its thread has reached this instruction since the last barrier."""
    request: Numbers
    """One number for what the lanes of a warp do together."""
    wait: Numbers
    """The turns that it waits for its bank; 0 in global memory."""

    def __len__(self) -> int:
        return len(self.records)

    @property
    def is_shared(self) -> Mask:
        """Whether each is in memory that the block shares."""
        return self.records["region"] >= SHARED

    @property
    def element(self) -> Numbers:
        """The first element that each touches, counted from the start of its array."""
        sizes = np.ones(1 + int(self.records["region"].max(initial=0)), np.int64)
        for region, array in self.launch.arrays.items():
            if region < len(sizes):
                sizes[region] = array.element
        return self.records["offset"] // sizes[self.records["region"]]

    @property
    def sector(self) -> Numbers:
        """The sector of its array in which each begins."""
        return self.records["offset"] // SECTOR

    @property
    def bank(self) -> Numbers:
        """The bank in which each begins, if it is in shared memory."""
        return self.records["offset"] // WORD % BANKS

    @property
    def costs(self) -> tuple[Numbers, Numbers]:
        """What each adds to the cost of its request, and 1 for the first of each request.

        In global memory that is a sector not moved before in the request, in shared memory a turn
        of waiting; so the sums over whole requests equal those of the lines.
        """
        cost, first = np.zeros(len(self), np.int64), np.zeros(len(self), np.int64)
        first[np.unique(self.request, return_index=True)[1]] = 1
        shared, size = self.is_shared, self.records["bytes"].astype(np.int64)
        last = (self.records["offset"] + size - 1) // SECTOR
        spans = np.where(shared, 0, last - self.sector + 1)
        owner = np.repeat(np.arange(len(self)), spans)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(spans) - spans, spans)
        pairs = self.request[owner] * (1 + int(last.max(initial=0))) + self.sector[owner] + within
        np.add.at(cost, owner[np.unique(pairs, return_index=True)[1]], 1)
        owner = np.flatnonzero(shared)
        parts = self.request[owner] * 4 + part_of(
            self.records["thread"][owner].astype(np.int64) % 32, size[owner]
        )
        order = np.lexsort((-self.wait[owner], parts))
        longest = owner[order[np.flatnonzero(np.diff(parts[order], prepend=-1))]]
        cost[longest] = self.wait[longest]
        return cost, first

    @property
    def phases(self) -> int:
        """How many phases there are: one more than barriers."""
        return 1 + int(self.records["phase"].max(initial=0))

    @property
    def block_place(self) -> tuple[int, ...]:
        """The position of the block in the grid."""
        return unflat(self.block, self.launch.blocks)

    def where(self, mask: Mask) -> Touches:
        """Return the accesses that a mask selects."""
        columns = ("records", "turn", "request", "wait")
        return replace(self, **{name: getattr(self, name)[mask] for name in columns})

    def array_of(self, region: int) -> TracedArray:
        """Return the array of a region."""
        return self.launch.arrays[region]


def touches(trace: Trace, launch: int = 0, block: int | None = None) -> Touches:
    """Return the accesses of one block of a launch: the named block, or the first one.

    If something was wrong, it is the first block with a finding.
    """
    count = len(trace.launches)
    fault = f"trace: there is no launch {launch!r}; there are {count}"
    index = ArgumentError.unless_number(launch, fault, "they count from 0", high=count - 1)
    known = trace.launches[index]
    x, y, z = known.blocks
    faulty = (flat(f.block, known.blocks) for f in trace.findings if f.kernel == known.kernel)
    asked, blocks = next(faulty, 0) if block is None else block, x * y * z
    fault = f"trace: {known.kernel} has no block {block!r}; it has {blocks:,}"
    hint = "they count from 0, along x first"
    number = ArgumentError.unless_number(asked, fault, hint, high=blocks - 1)
    records = trace.records
    mine = records[(records["launch"] == index) & (records["block"] == number)]
    request, turn = requests_of(mine) if len(mine) else (np.zeros(0, np.int64),) * 2
    shared = mine["region"] >= SHARED
    wait = np.zeros(len(mine), np.int64)
    # Requests of different arrays have different numbers, as they are at different positions.
    wait[shared] = waits_of(mine[shared], request[shared])
    return Touches(index, known, number, mine, turn, request, wait)


def unflat(number: int, sizes: tuple[int, int, int]) -> tuple[int, ...]:
    """Return the position of a block or a thread with a number.

    >>> unflat(5, (4, 2, 1))
    (1, 1, 0)
    """
    x, y, _ = sizes
    return number % x, number // x % y, number // x // y


def flat(position: tuple[int, ...], sizes: tuple[int, int, int]) -> int:
    """Return the number of a block or a thread at a position."""
    x, y, z = (*position, 0, 0, 0)[:3]
    return x + sizes[0] * (y + sizes[1] * z)


def does(kind: int) -> str:
    """Return what an access of a kind does, in a word."""
    return ACCESS[kind]
