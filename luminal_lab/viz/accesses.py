"""Who touches what, as a picture: a row for each thread, a column for each element of an array.

Between two barriers each array has a map. In global memory, neighbours of one colour are one
transaction, the sector of 32 bytes that is moved; in shared memory the colour is the bank. A
stroke says that it was written, a ring that a thread waited for its bank. Here that is plain data;
`accesses_svg` draws it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from luminal_lab.emulator.touches import Touches, touches
from luminal_lab.emulator.trace import Trace
from luminal_lab.emulator.traffic import SECTOR, traffic_of
from luminal_lab.errors import ArgumentError, RangeError, nearest, whole_number

By: TypeAlias = Literal["transaction", "bank", "access"]
Warp: TypeAlias = int | Literal["all"] | None
Map: TypeAlias = dict[str, Any]
BYS: tuple[By, ...] = ("transaction", "bank", "access")
MOST_PHASES = 6
ROWS, COLUMNS = 64, 128
"""What a map has at most; what is more is put together, and that is said."""
WARP = 32


class Cell(NamedTuple):
    """What threads do with elements, where a row of the map crosses a column."""

    row: int
    column: int
    colour: int
    """The transaction, the bank, or the kind of access; where accesses are counted, how many."""
    kinds: int
    """Bits: read, written, atomic."""
    wait: int
    """The most turns that one of them waits for its bank."""


def accesses(
    trace: Trace,
    *,
    launch: int = 0,
    block: int | None = None,
    phase: int | None = None,
    line: int | None = None,
    array: str | None = None,
    warp: Warp = None,
    by: By | None = None,
) -> Map:
    """Return what a picture of a trace shows, as plain data."""
    all_of_it = touches(trace, launch, block)
    found, warp = _chosen(all_of_it, phase, line, array, warp)
    if by is not None and by not in BYS:
        raise ArgumentError(
            f"accesses: they cannot be coloured by {by!r}",
            hint=nearest(str(by), BYS) or f"give {', '.join(map(repr, BYS))}",
        )
    there = [int(one) for one in np.unique(found.records["phase"])]
    shown = there[:MOST_PHASES]
    phases = [{"phase": one, "maps": list(_maps(found, one, by))} for one in shown]
    return {
        "kernel": found.launch.kernel,
        "launch": found.number,
        "block": list(found.block_place),
        "blocks": list(found.launch.blocks),
        "threads": list(found.launch.threads),
        "warp": warp,
        "accesses": len(found),
        "phases": phases,
        "barriers": all_of_it.phases - 1,
        "hidden": len(there) - len(shown),
        "findings": [str(one).partition("\n")[0] for one in trace.findings],
    }


def _chosen(
    found: Touches, phase: int | None, line: int | None, array: str | None, warp: Warp
) -> tuple[Touches, int | None]:
    """Return the accesses that are asked for, and of which warp, or raise what says what is."""
    records = found.records
    mask = np.ones(len(records), bool)
    if phase is not None:
        number_ = whole_number(phase)
        if number_ is None or not 0 <= number_ < found.phases:
            raise RangeError(
                f"accesses: there is no phase {phase!r}; there are {found.phases}",
                hint="phase 0 is before the first barrier",
            )
        mask &= records["phase"] == number_
    if line is not None:
        lines = sorted({int(one) for one in records["line"]})
        if line not in lines:
            raise RangeError(
                f"accesses: line {line!r} touches nothing",
                hint=f"the lines that do: {', '.join(map(str, lines)) or 'none'}",
            )
        mask &= records["line"] == line
    if array is not None:
        names = {one.name: region for region, one in found.launch.arrays.items()}
        if array not in names:
            raise ArgumentError(
                f"accesses: there is no array {array!r}",
                hint=nearest(str(array), names) or f"there are {', '.join(names) or 'none'}",
            )
        mask &= records["region"] == names[array]
    threads = math.prod(found.launch.threads)
    if warp == "all" or (warp is None and threads <= ROWS):
        return found.where(mask), None
    wanted = whole_number(warp or 0)
    if wanted is None or not 0 <= wanted < -(-threads // WARP):
        raise RangeError(
            f"accesses: there is no warp {warp!r}; a block has {-(-threads // WARP)}",
            hint='they count from 0, and warp="all" shows all threads',
        )
    return found.where(mask & (records["thread"] // WARP == wanted)), wanted


def _maps(found: Touches, phase: int, by: By | None) -> Iterator[Map]:
    """Yield the map of each array that is touched between two barriers."""
    here = found.where(found.records["phase"] == phase)
    for region in np.unique(here.records["region"]):
        mine = here.where(here.records["region"] == region)
        array = mine.array_of(int(region))
        colour: By = by or ("bank" if array.space == "shared" else "transaction")
        yield _map(mine, array.name, array.space, array.element, colour)


def _map(found: Touches, name: str, space: str, size: int, by: By) -> Map:
    records, element = found.records, found.element
    # A wide access touches several elements.
    wide = np.maximum(records["bytes"].astype(np.int64) // size, 1)
    owner = np.repeat(np.arange(len(records)), wide)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(wide) - wide, wide)
    element = element[owner] + within
    offset = records["offset"].astype(np.int64)[owner] + within * size
    places, column = np.unique(element, return_inverse=True)
    threads, row = np.unique(records["thread"][owner], return_inverse=True)
    wide_column, wide_row = -(-len(places) // COLUMNS), -(-len(threads) // ROWS)
    column, row = column // wide_column, row // wide_row
    kinds = records["kind"].astype(np.int64)[owner]
    colours = {
        "transaction": offset // SECTOR,
        "bank": offset // 4 % 32,
        "access": kinds,
    }[by]
    key = row * COLUMNS + column
    order = np.lexsort((colours, key))
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    lowest = np.minimum.reduceat(colours[order], first)
    highest = np.maximum.reduceat(colours[order], first)
    is_counted = bool((lowest != highest).any()) and by != "access"
    counts = np.diff(np.append(first, len(order)))
    told = counts if is_counted else highest
    bits = np.bitwise_or.reduceat(1 << kinds[order], first)
    waits = np.maximum.reduceat(found.wait[owner][order], first)
    cells = [
        Cell(int(k) // COLUMNS, int(k) % COLUMNS, int(c), int(b), int(w))
        for k, c, b, w in zip(key[order][first], told, bits, waits, strict=True)
    ]
    lines = [
        {
            "line": one.line,
            "text": one.text,
            "access": one.access,
            "count": one.count,
            "requests": one.requests,
            "sectors": one.sectors,
            "best": one.best_sectors,
            "conflicts": one.conflicts,
        }
        for one in traffic_of(
            records,
            found.launch.kernel,
            found.launch.lines,
            {region: one.name for region, one in found.launch.arrays.items()},
        )
    ]
    starts = places[::wide_column]
    return {
        "array": name,
        "space": space,
        "element": size,
        "shape": list(found.array_of(int(records["region"][0])).shape),
        "by": "count" if is_counted else by,
        "columns": [int(one) for one in starts],
        "gaps": [
            at
            for at in range(1, len(starts))
            if starts[at] != places[min(at * wide_column, len(places)) - 1] + 1
        ],
        "wide": wide_column,
        "rows": [int(one) for one in threads[::wide_row]],
        "high": wide_row,
        "cells": [list(one) for one in cells],
        "lines": lines,
    }
