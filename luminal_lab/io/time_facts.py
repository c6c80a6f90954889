"""Times as facts: a row for each launch, its origin, and the limits behind the shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median, quantiles
from typing import Final, Literal, cast, get_args

from luminal_lab.devices.webgpu.engine import SOFTWARE
from luminal_lab.io.facts import DeviceRoof, Dialect, RunFacts, TimeFacts, TimeRow
from luminal_lab.io.launch_facts import LaunchedCompile
from luminal_lab.timing.column import Column
from luminal_lab.timing.compare import SideBySide, whole_run
from luminal_lab.timing.recording import kept
from luminal_lab.timing.timings import Timings

WIDER: Final = "a launch there does the work of {} here: its time stands with one of them"


def times_of(launched: LaunchedCompile, timings: Timings) -> TimeFacts:
    """Return the times of a graph's launches."""
    ir = launched.compilation.ir
    rows: list[TimeRow] = []
    launches: dict[int, int] = {}
    for number, timing in enumerate(timings):
        launch_index = launched.at.get(ir[timing.node].id) if timing.node in ir else None
        if launch_index is not None:
            launches[number] = launch_index
            low, high = _quartiles(timing.samples)
            limit = None if timing.limit is None else timing.limit.bound
            bound = None if limit is None else _bound(limit)
            row = TimeRow(
                launch_index,
                timing.seconds,
                low,
                high,
                timing.bytes,
                timing.flops,
                timing.share,
                bound,
                () if timing.how == "modelled" else kept(timing.samples),
            )
            rows.append(row)
    notes = [f"{timings.date[:16].replace('T', ' ')}"] if timings.date else []
    notes += timings.note.splitlines()
    gone = len(timings) - len(rows)
    if gone and launched.launches:
        notes.append(f"{gone} rows that are not a launch are left out")
    device = timings.device
    note = "; ".join(notes)
    dialects = {kernel.dialect for kernel in launched.kernels}
    return TimeFacts(
        device,
        timings.how,
        note,
        timings.clock,
        tuple(rows),
        timings.doubts,
        _dialect(dialects.pop() if len(dialects) == 1 else ""),
        _run(timings, launches),
    )


def _run(timings: Timings, launches: Mapping[int, int]) -> RunFacts | None:
    """Return a run whose kernels are launches, by the rows of the timings."""
    line = timings.timeline
    if line is None:
        return None
    calls = tuple([(call.start, call.seconds) for call in line.calls])
    kernels = tuple(
        [
            (launches[span.row], span.start, span.seconds)
            for span in line.kernels
            if span.row in launches
        ]
    )
    return RunFacts(line.seconds, calls, kernels, line.note) if kernels else None


def times_beside(launched: LaunchedCompile, compared: SideBySide) -> tuple[TimeFacts, ...]:
    """Return the times of all devices of a comparison, launch by launch.

    Another device may fuse differently: each of its launches counts towards the launch here that
    shares the most written nodes with it.
    """
    return tuple(
        _column(launched, column, tuple(compared.doubts(column))) for column in compared.columns
    )


def _column(launched: LaunchedCompile, column: Column, doubts: tuple[str, ...]) -> TimeFacts:
    covers = [launched.covering.written(launch.node) for launch in launched.launches]
    rows: dict[int, TimeRow] = {}
    most_here = max((sum(own <= part.covers for own in covers) for part in column.parts), default=0)
    if most_here > 1:
        doubts = (*doubts, WIDER.format(most_here))
    if column.device.endswith(SOFTWARE) and column.device != column.label:
        doubts = (column.device, *doubts)
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
    notes += filter(None, [whole_run(column)])
    notes += [f"{gone} launches have no time or no place here"] if gone else []
    notes += column.notes
    ordered = tuple(rows[launch_index] for launch_index in sorted(rows))
    figures = column.specification
    dialect = column.dialect or ("" if figures is None else figures.dialect)
    note = "; ".join(notes)
    return TimeFacts(column.label, column.how, note, "", ordered, doubts, _dialect(dialect))


def _dialect(name: str) -> Dialect | Literal[""]:
    return cast("Dialect", name) if name in get_args(Dialect) else ""


def _together(first: TimeRow, other: TimeRow) -> TimeRow:
    """Return the sum of two of another device's launches that belong to one launch here."""
    least = [(row.share or 0) * row.median for row in (first, other)]
    seconds = first.median + other.median
    known = first.share is not None and other.share is not None
    longer = first if first.median >= other.median else other
    return replace(
        first,
        median=seconds,
        low=first.low + other.low,
        high=first.high + other.high,
        bytes=_sum(first.bytes, other.bytes),
        flops=_sum(first.flops, other.flops),
        share=sum(least) / seconds if known and seconds else None,
        bound=longer.bound,
        samples=tuple(map(sum, zip(first.samples, other.samples, strict=False))),
    )


def _sum(first: int | None, other: int | None) -> int | None:
    return None if first is None or other is None else first + other


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


def roofs_of(timings: Timings | None, compared: SideBySide | None) -> tuple[DeviceRoof, ...]:
    """Return the float32 limits of each device, if they are known."""
    roofs: dict[str, DeviceRoof] = {}
    rates = None if timings is None else timings.rates
    if timings is not None and rates is not None:
        flops = 1e9 * rates.gflops(threads=timings.threads)
        moved = 1e9 * rates.gbytes(threads=timings.threads)
        roofs[timings.device] = DeviceRoof(timings.device, flops, moved, rates.how)
    for column in () if compared is None else compared.columns:
        specification = column.specification
        peak = None if specification is None else specification.peak("float32")
        if specification is not None and peak is not None:
            roof = DeviceRoof(
                column.label, peak.flops.value, specification.bandwidth.value, specification.how
            )
            roofs.setdefault(column.label, roof)
    return tuple(roofs.values())
