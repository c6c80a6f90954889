"""Memory accesses as a picture: a row for each thread, a column for each element of an array.

Between two barriers each array has a map. In global memory, neighbours of one colour are one
transaction, a sector of 32 bytes; in shared memory the colour is the bank. A stroke marks a write,
a ring a thread that waited for its bank. This file computes plain data; `accesses_svg` draws it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from luminal_lab.emulator.trace import Trace
from luminal_lab.emulator.traffic import SECTOR, Touches, touches, traffic_of
from luminal_lab.errors import ArgumentError, RangeError, nearest, whole_number

By: TypeAlias = Literal["transaction", "bank", "access"]
Warp: TypeAlias = int | Literal["all"] | None
Map: TypeAlias = dict[str, Any]
BYS: tuple[By, ...] = ("transaction", "bank", "access")
MOST_PHASES = 6
ROWS, COLUMNS = 64, 128
"""The most rows and columns of a map; more are merged, with a note."""
WARP = 32


class AccessCell(NamedTuple):
    """What threads do with elements where a row and a column of the map cross."""

    row: int
    column: int
    colour: int
    """The transaction, the bank, the kind of access, or the number of accesses."""
    kinds: int
    """Bits: read, written, atomic."""
    wait: int
    """The most turns that any access waits for its bank."""


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
    """Return a trace's accesses as plain data for a picture."""
    everything = touches(trace, launch, block)
    chosen, warp = _chosen(everything, phase, line, array, warp)
    if by is not None and by not in BYS:
        raise ArgumentError(
            f"accesses: they cannot be coloured by {by!r}",
            hint=nearest(str(by), BYS) or f"give {', '.join(map(repr, BYS))}",
        )
    present = [int(value) for value in np.unique(chosen.records["phase"])]
    shown = present[:MOST_PHASES]
    phases = [{"phase": number, "maps": list(_maps(chosen, number, by))} for number in shown]
    return {
        "kernel": chosen.launch.kernel,
        "launch": chosen.number,
        "block": list(chosen.block_place),
        "blocks": list(chosen.launch.blocks),
        "threads": list(chosen.launch.threads),
        "warp": warp,
        "accesses": len(chosen),
        "phases": phases,
        "barriers": everything.phases - 1,
        "hidden": len(present) - len(shown),
        "findings": [str(value).partition("\n")[0] for value in trace.findings],
    }


def _chosen(
    chosen: Touches, phase: int | None, line: int | None, array: str | None, warp: Warp
) -> tuple[Touches, int | None]:
    """Return the selected accesses and their warp, or raise an error that names the choices."""
    records = chosen.records
    mask = np.ones(len(records), bool)
    if phase is not None:
        number_ = whole_number(phase)
        if number_ is None or not 0 <= number_ < chosen.phases:
            raise RangeError(
                f"accesses: there is no phase {phase!r}; there are {chosen.phases}",
                hint="phase 0 is before the first barrier",
            )
        mask &= records["phase"] == number_
    if line is not None:
        lines = sorted({int(value) for value in records["line"]})
        if line not in lines:
            raise RangeError(
                f"accesses: line {line!r} touches nothing",
                hint=f"the lines that do: {', '.join(map(str, lines)) or 'none'}",
            )
        mask &= records["line"] == line
    if array is not None:
        names = {array_info.name: region for region, array_info in chosen.launch.arrays.items()}
        if array not in names:
            raise ArgumentError(
                f"accesses: there is no array {array!r}",
                hint=nearest(str(array), names)
                or (f"choose from {', '.join(names)}" if names else "there are none"),
            )
        mask &= records["region"] == names[array]
    threads = math.prod(chosen.launch.threads)
    if warp == "all" or (warp is None and threads <= ROWS):
        return chosen.where(mask), None
    wanted = whole_number(warp or 0)
    if wanted is None or not 0 <= wanted < -(-threads // WARP):
        raise RangeError(
            f"accesses: there is no warp {warp!r}; a block has {-(-threads // WARP)}",
            hint='they count from 0, and warp="all" shows all threads',
        )
    return chosen.where(mask & (records["thread"] // WARP == wanted)), wanted


def _maps(chosen: Touches, phase: int, by: By | None) -> Iterator[Map]:
    """Yield the map of each array touched between two barriers."""
    here = chosen.where(chosen.records["phase"] == phase)
    for region in np.unique(here.records["region"]):
        mine = here.where(here.records["region"] == region)
        array = mine.array_of(int(region))
        colour: By = by or ("bank" if array.space == "shared" else "transaction")
        yield _map(mine, array.name, array.space, array.element, colour)


def _map(chosen: Touches, name: str, space: str, size: int, by: By) -> Map:
    records, element = chosen.records, chosen.element
    # A wide access touches several elements.
    wide = np.maximum(records["bytes"].astype(np.int64) // size, 1)
    owner = np.repeat(np.arange(len(records)), wide)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(wide) - wide, wide)
    element = element[owner] + within
    offset = records["offset"].astype(np.int64)[owner] + within * size
    columns_touched, column = np.unique(element, return_inverse=True)
    threads, row = np.unique(records["thread"][owner], return_inverse=True)
    wide_column, wide_row = -(-len(columns_touched) // COLUMNS), -(-len(threads) // ROWS)
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
    value_shown = counts if is_counted else highest
    bits = np.bitwise_or.reduceat(1 << kinds[order], first)
    waits = np.maximum.reduceat(chosen.wait[owner][order], first)
    cells = [
        AccessCell(int(k) // COLUMNS, int(k) % COLUMNS, int(c), int(b), int(w))
        for k, c, b, w in zip(key[order][first], value_shown, bits, waits, strict=True)
    ]
    lines = [
        {
            "line": traffic.line,
            "text": traffic.text,
            "access": traffic.access,
            "count": traffic.count,
            "requests": traffic.requests,
            "sectors": traffic.sectors,
            "best": traffic.best_sectors,
            "conflicts": traffic.conflicts,
        }
        for traffic in traffic_of(
            records,
            chosen.launch.kernel,
            chosen.launch.lines,
            {region: array_info.name for region, array_info in chosen.launch.arrays.items()},
        )
    ]
    starts = columns_touched[::wide_column]
    return {
        "array": name,
        "space": space,
        "element": size,
        "shape": list(chosen.array_of(int(records["region"][0])).shape),
        "by": "count" if is_counted else by,
        "columns": [int(label) for label in starts],
        "gaps": [
            at
            for at in range(1, len(starts))
            if starts[at] != columns_touched[min(at * wide_column, len(columns_touched)) - 1] + 1
        ],
        "wide": wide_column,
        "rows": [int(label) for label in threads[::wide_row]],
        "high": wide_row,
        "cells": [list(cell) for cell in cells],
        "lines": lines,
    }
