"""When everything happened in one run, and the file that Perfetto and Chrome open.

    Python      |--------------------------------------------|
    launches        |-----------------------------|
    kernels         |matmul--|  |relu|  |softmax---|
    gaps        |---|        |--|    |--|           |--------|

The file is a JSON object in Chrome's trace-event format: complete events ("ph": "X") with
microseconds, and a name for each track ("ph": "M").
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from luminal_lab.errors import visible
from luminal_lab.tensor.arguments import told_object

if TYPE_CHECKING:
    from luminal_lab.core.interpret import NodeStep
    from luminal_lab.timing.timings import Timings

TRACKS: Final = ("Python", "launches", "kernels", "gaps")
LONGEST: Final = 1e9
"""Seconds; a run that is said to take longer is none."""
LEAST_GAP = 1e-7
"""The seconds below which a gap is only the resolution of a clock."""


class Span(NamedTuple):
    """Something with its start, in seconds after the run began, and its duration."""

    start: float
    seconds: float
    row: int = -1
    """The row of the timings that it belongs to; -1 if it is not a launch."""

    @property
    def end(self) -> float:
        """When it is over."""
        return self.start + self.seconds


@told_object("timeline")
@dataclass(frozen=True)
class Timeline:
    """One run: how long it took, the calls that launch kernels, and the kernels."""

    seconds: float
    calls: tuple[Span, ...]
    """From Python's call of the device to its return; host work is one call too."""
    kernels: tuple[Span, ...]
    note: str = ""
    """How the positions are known, if no clock gives them."""

    @property
    def gaps(self) -> tuple[Span, ...]:
        """When no kernel runs: before, between and after them."""
        return tuple(_gaps(self.kernels, self.seconds))

    @property
    def busy(self) -> float:
        """The seconds in which kernels run."""
        return self.seconds - sum(gap.seconds for gap in self.gaps)


def check_timeline(line: Timeline, rows: int) -> None:
    """Raise a ValueError unless a run can have happened, in launches of `rows` rows."""
    for span in (Span(0.0, line.seconds), *line.calls, *line.kernels):
        if not (0 <= span.start < LONGEST and 0 <= span.seconds < LONGEST):
            raise ValueError(f"something took {span.seconds} s from {span.start} s on")
        if not -1 <= span.row < rows:
            raise ValueError(f"row {span.row} is timed, and there are {rows}")
    if any(kernel.row < 0 for kernel in line.kernels):
        raise ValueError("a kernel belongs to no row")


def _gaps(spans: Iterable[Span], until: float) -> Iterator[Span]:
    now = 0.0
    for span in [*sorted(spans), Span(until, 0.0)]:
        if span.start - now > LEAST_GAP:
            yield Span(now, span.start - now)
        now = max(now, span.end)


def laid(seconds: Sequence[float]) -> Timeline:
    """Return rows one after the other, if nobody knows when each began."""
    spans: list[Span] = []
    now = 0.0
    for number, taken in enumerate(seconds):
        spans.append(Span(now, taken, number))
        now += taken
    note = "nobody knows when each began: medians, one after the other"
    return Timeline(now, (), tuple(spans), note)


class _Timed(NamedTuple):
    """What a track shows, in nanoseconds after the run began."""

    start: int
    end: int
    name: str
    args: Mapping[str, Any]


_Entry: TypeAlias = "tuple[Span, str, Mapping[str, Any]]"
_NOTHING: Final[Mapping[str, Any]] = {}


def chrome_trace(timings: Timings) -> str:
    """Return a run as a text that Perfetto opens."""
    line = timings.timeline or laid([row.seconds for row in timings])
    calls = [
        (call, timings.labels[call.row] if call.row >= 0 else "launch kernels", _NOTHING)
        for call in line.calls
    ]
    tracks: dict[str, Sequence[_Entry]] = {
        "Python": [(Span(0.0, line.seconds), f"run {timings.graph}", _NOTHING)],
        "launches": calls,
        "kernels": [
            (span, timings.labels[span.row], _about(timings, span.row)) for span in line.kernels
        ],
        "gaps": [(gap, "no kernel runs", _NOTHING) for gap in line.gaps],
    }
    process = visible(f"{timings.graph}{timings.where}")
    events = [_named("process_name", 1, name=process)]
    number = 0
    for track, entries in tracks.items():
        for lane, apart in enumerate(_lanes(entries), 1):
            number += 1
            title = track if lane == 1 else f"{track} {lane}"
            events.append(_named("thread_name", number, name=title))
            events.append(_named("thread_sort_index", number, sort_index=number))
            events += [_complete(track, number, entry) for entry in apart]
    other = {"how": timings.how, "device": visible(timings.device), "note": line.note}
    other["doubts"] = "; ".join(timings.doubts)
    # Perfetto once took the unit to display for the unit of the times, so none is given; and it
    # could not read escapes as \u00b5.
    return json.dumps({"traceEvents": events, "otherData": other}, ensure_ascii=False)


def _lanes(entries: Iterable[_Entry]) -> list[list[_Timed]]:
    """Return what a track shows in whole nanoseconds, on enough lanes that nothing overlaps.

    Perfetto drops an event that begins within another and ends after it.
    """
    lanes: list[list[_Timed]] = [[]]
    for span, name, args in sorted(entries, key=lambda entry: entry[0]):
        start, end = max(0, round(1e9 * span.start)), max(0, round(1e9 * span.end))
        free = [lane for lane in lanes if not lane or lane[-1].end <= start]
        if not free:
            lanes.append([])
        lane = free[0] if free else lanes[-1]
        if lane and lane[-1].end == start:  # readers cut off digits, by which these would overlap
            lane[-1] = lane[-1]._replace(end=max(lane[-1].start, start - 1))
        lane.append(_Timed(start, end, name, args))
    return lanes


def _named(what: str, thread: int, **args: str | int) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": 1, "tid": thread, "args": args}


def _complete(track: str, thread: int, entry: _Timed) -> dict[str, Any]:
    about = {"ph": "X", "name": visible(entry.name), "cat": track, "pid": 1, "tid": thread}
    times = {"ts": entry.start / 1000, "dur": (entry.end - entry.start) / 1000}
    return {**about, **times, "args": entry.args}


def _about(timings: Timings, number: int) -> dict[str, Any]:
    row = timings.rows[number]
    about = {
        "value": visible(row.node),
        "from": visible("; ".join(row.origins)),
        "median of all runs, µs": round(1e6 * row.seconds, 3),
        "bytes": row.bytes,
        "operations": row.flops,
        "share of the roof": None if row.share is None else round(row.share, 3),
    }
    return {name: value for name, value in about.items() if value not in (None, "")}


def run_of(
    start: float, end: float, steps: Sequence[NodeStep], numbers: Mapping[int, int]
) -> Timeline:
    """Return a traced run; `numbers` are the rows of nodes."""
    known = [step for step in steps if step.node.id in numbers and step.seconds]
    calls = dict.fromkeys(step.call for step in known if step.call is not None)
    counts = Counter(step.call for step in known)
    spans: list[Span] = []
    note = ""
    for call in (*calls, None):
        mine = [step for step in known if step.call == call]
        if not mine:
            continue
        begin, until = (start, end) if call is None else call
        first = min((step.start for step in mine if step.start is not None), default=None)
        # If the clock is not Python's, or there is none, only the durations are known.
        moved = 0.0 if first is None or begin <= first <= until else begin - first
        now = begin
        for step in mine:
            if step.start is None:
                note = "the device does not say when each kernel began: one after the other"
            at = now if step.start is None else step.start + moved
            spans.append(Span(at - start, step.seconds, numbers[step.node.id]))
            now = at + step.seconds
    alone = {step.call: numbers[step.node.id] for step in known if counts[step.call] == 1}
    waited = [
        Span(call[0] - start, call[1] - call[0], alone.get(call, -1)) for call in calls if call
    ]
    return Timeline(end - start, tuple(waited), tuple(sorted(spans)), note)
