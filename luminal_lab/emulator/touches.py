"""Who touches what: the accesses of one block of a launch, with what each one costs.

An access has its phase (how many barriers the block has met at before), its line, its thread, its
place in an array, and what it is part of: in global memory the transaction (the sector of 32 bytes
that it moves), in shared memory the bank, and for how many turns it waits for that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from luminal_lab.emulator.reading import SHARED
from luminal_lab.emulator.traffic import (
    ACCESS,
    BANKS,
    SECTOR,
    WORD,
    Numbers,
    Records,
    part_of,
    requests_of,
    waits_of,
)
from luminal_lab.errors import ArgumentError, whole_number

if TYPE_CHECKING:
    from luminal_lab.emulator.trace import Trace, TracedArray, TracedLaunch

Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Touches:
    """Accesses of one block; each column has a number for each of them, in the order they came."""

    number: int
    """Of the launch."""
    launch: TracedLaunch
    block: int
    records: Records
    turn: Numbers
    """How often its thread has reached this instruction since the last barrier."""
    request: Numbers
    """What the lanes of a warp do together has one number."""
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
        """The sector of its array that each begins in."""
        return self.records["offset"] // SECTOR

    @property
    def bank(self) -> Numbers:
        """The bank that each begins in, if it is in shared memory."""
        return self.records["offset"] // WORD % BANKS

    @property
    def costs(self) -> tuple[Numbers, Numbers]:
        """What each adds to the cost of its request, and 1 for the first of each request.

        In global memory that is a transaction that nothing before it has moved, in shared memory a
        turn of waiting; so the sums over whole requests are those of the lines.
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
        """Where in the grid the block is."""
        return unflat(self.block, self.launch.blocks)

    def where(self, mask: Mask) -> Touches:
        """Return some of them."""
        columns = ("records", "turn", "request", "wait")
        return replace(self, **{name: getattr(self, name)[mask] for name in columns})

    def array_of(self, region: int) -> TracedArray:
        """Return the array that a region is."""
        return self.launch.arrays[region]


def touches(trace: Trace, launch: int = 0, block: int | None = None) -> Touches:
    """Return the accesses of one block of a launch: the one that is named, or the first one.

    If something was found wrong, that is the first block that did it.
    """
    count = len(trace.launches)
    index = whole_number(launch)
    if index is None or not 0 <= index < count:
        raise ArgumentError(
            f"trace: there is no launch {launch!r}; there are {count}", hint="they count from 0"
        )
    known = trace.launches[index]
    x, y, z = known.blocks
    number = whole_number(block)
    if block is None:
        number = next(
            (
                flat(finding.block, known.blocks)
                for finding in trace.findings
                if finding.kernel == known.kernel
            ),
            0,
        )
    if number is None or not 0 <= number < x * y * z:
        raise ArgumentError(
            f"trace: {known.kernel} has no block {block!r}; it has {x * y * z:,}",
            hint="they count from 0, along x first",
        )
    records = trace.records
    mine = records[(records["launch"] == index) & (records["block"] == number)]
    request, turn = requests_of(mine) if len(mine) else (np.zeros(0, np.int64),) * 2
    shared = mine["region"] >= SHARED
    wait = np.zeros(len(mine), np.int64)
    # Requests of different arrays have different numbers, since they stand at different places.
    wait[shared] = waits_of(mine[shared], request[shared])
    return Touches(index, known, number, mine, turn, request, wait)


def unflat(number: int, sizes: tuple[int, int, int]) -> tuple[int, ...]:
    """Return the place of a block or a thread by its number.

    >>> unflat(5, (4, 2, 1))
    (1, 1, 0)
    """
    x, y, _ = sizes
    return number % x, number // x % y, number // x // y


def flat(position: tuple[int, ...], sizes: tuple[int, int, int]) -> int:
    """Return the number of a block or a thread by its place."""
    x, y, z = (*position, 0, 0, 0)[:3]
    return x + sizes[0] * (y + sizes[1] * z)


def does(kind: int) -> str:
    """Return what an access of a kind does, in a word."""
    return ACCESS[kind]
