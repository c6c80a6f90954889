"""Times as facts: a row for each launch, how it was got, and the roofs that shares are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median, quantiles
from typing import Literal

from luminal_lab.io.facts import Roof, TimeFacts, TimeRow
from luminal_lab.io.launch_facts import Launched
from luminal_lab.timing.column import Column
from luminal_lab.timing.compare import SideBySide
from luminal_lab.timing.recording import kept
from luminal_lab.timing.timings import Timings


def times_of(launched: Launched, timings: Timings) -> TimeFacts:
    """Return the times of a graph's launches."""
    ir = launched.compilation.ir
    rows: list[TimeRow] = []
    for one in timings:
        place = launched.at.get(ir[one.node].id) if one.node in ir else None
        if place is not None:
            low, high = _quartiles(one.samples)
            limit = None if one.limit is None else one.limit.bound
            bound = None if limit is None else _bound(limit)
            row = TimeRow(
                place,
                one.seconds,
                low,
                high,
                one.bytes,
                one.flops,
                one.share,
                bound,
                () if one.how == "modelled" else kept(one.samples),
            )
            rows.append(row)
    notes = [f"{timings.date[:16].replace('T', ' ')}"] if timings.date else []
    notes += timings.note.splitlines()
    gone = len(timings) - len(rows)
    if gone and launched.launches:
        notes.append(f"{gone} rows that are no launch are left out")
    device = timings.device
    note = "; ".join(notes)
    return TimeFacts(device, timings.how, note, timings.clock, tuple(rows))


def times_beside(launched: Launched, compared: SideBySide) -> tuple[TimeFacts, ...]:
    """Return the times of all devices of a comparison, each with the launch that it is about.

    Another device may fuse otherwise: what it launches counts for the launch here with which it
    has most of the written nodes in common.
    """
    return tuple(_column(launched, one) for one in compared.columns)


def _column(launched: Launched, column: Column) -> TimeFacts:
    covers = [launched.covering.written(one.node) for one in launched.launches]
    rows: dict[int, TimeRow] = {}
    gone = 0
    for part in column.parts:
        shared = [len(part.covers & own) for own in covers]
        most = max(shared, default=0)
        if not part.samples or not most:
            gone += 1
            continue
        low, high = _quartiles(part.samples)
        row = TimeRow(
            shared.index(most),
            median(part.samples),
            low,
            high,
            part.bytes,
            part.flops,
            None if column.how == "modelled" else _share(part.least, median(part.samples)),
            _bound(part.bound) if part.bound else None,
            () if column.how == "modelled" else kept(part.samples),
        )
        known = rows.get(row.launch)
        rows[row.launch] = row if known is None else _together(known, row)
    notes = [f"{column.date[:16].replace('T', ' ')}"] if column.date else []
    notes += [column.device] if column.device not in ("", column.label) else []
    notes += [f"{gone} launches have no time or no place here"] if gone else []
    notes += column.notes
    ordered = tuple(rows[place] for place in sorted(rows))
    return TimeFacts(column.label, column.how, "; ".join(notes), "", ordered)


def _together(one: TimeRow, other: TimeRow) -> TimeRow:
    """Return two launches of another device that stand for one launch here."""
    least = [(row.share or 0) * row.median for row in (one, other)]
    seconds = one.median + other.median
    known = one.share is not None and other.share is not None
    longer = one if one.median >= other.median else other
    return replace(
        one,
        median=seconds,
        low=one.low + other.low,
        high=one.high + other.high,
        bytes=_sum(one.bytes, other.bytes),
        flops=_sum(one.flops, other.flops),
        share=sum(least) / seconds if known and seconds else None,
        bound=longer.bound,
        samples=tuple(map(sum, zip(one.samples, other.samples, strict=False))),
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _share(least: float | None, seconds: float) -> float | None:
    return None if least is None or not seconds else least / seconds


def _bound(name: str) -> Literal["memory", "compute"] | None:
    if name in ("FMA", "compute"):
        return "compute"
    return "memory" if name in ("memory", "cache") else None


def _quartiles(samples: Sequence[float]) -> tuple[float, float]:
    if len(samples) < 2:
        return samples[0], samples[0]
    low, _, high = quantiles(samples, n=4, method="inclusive")
    return low, high


# -- roofs -----------------------------------------------------------------------------------------


def roofs_of(timings: Timings | None, compared: SideBySide | None) -> tuple[Roof, ...]:
    """Return what each device can do at most in float32, where that is known."""
    found: dict[str, Roof] = {}
    rates = None if timings is None else timings.rates
    if timings is not None and rates is not None:
        flops = 1e9 * rates.gflops(threads=timings.threads)
        moved = 1e9 * rates.gbytes(threads=timings.threads)
        found[timings.device] = Roof(timings.device, flops, moved, rates.how)
    for column in () if compared is None else compared.columns:
        made = column.specification
        peak = None if made is None else made.peak("float32")
        if made is not None and peak is not None:
            roof = Roof(column.label, peak.flops.value, made.bandwidth.value, made.how)
            found.setdefault(column.label, roof)
    return tuple(found.values())
