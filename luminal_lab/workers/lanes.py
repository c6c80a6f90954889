"""When each worker did what in a run: one lane a worker, and what was sent between them.

    0  |F0|F1|F2|F3|░░░░|B0|B1|B2|B3|
    1  ░░|F0 |F1 |F2 |F3 |░░░░░░░░░░

Where a lane has nothing, its worker waits: a bubble. In a pipeline with p stages that take equally
long and m microbatches, (p - 1) / (m + p - 1) of the time of all workers is bubbles. Workers that
have parts of all values compute until the next collective, wait there until all of them have come,
and send:

    0  |C0······|S0|C1···|
    1  |C0···|░░|S0|C1···|
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from typing_extensions import override

from luminal_lab.display import Displayed
from luminal_lab.errors import counted
from luminal_lab.tensor.arguments import told_object
from luminal_lab.workers.clocks import clocks_of
from luminal_lab.workers.layout import around_a_ring
from luminal_lab.workers.mesh import Mesh
from luminal_lab.workers.ops import Reading, Visit

WIDE = 72
"""The characters of a lane."""


class Work(NamedTuple):
    """One turn of a worker, without the time in which it waits within it."""

    worker: int
    phase: str
    """Of a pipeline "forward", "backward" or "end"; else "compute" or "send"."""
    micro: int
    """The microbatch, -1 at the end, when all of them are done; else the number of the turn."""
    start: float
    """Seconds after the run began."""
    end: float

    @property
    def label(self) -> str:
        """What it is, as in "F0" for the first microbatch on its way forward."""
        return self.phase[0].upper() + ("" if self.micro < 0 else str(self.micro))


class Sent(NamedTuple):
    """A value on its way from one worker to another."""

    source: int
    to: int
    value: str
    bytes: int
    start: float
    """When it was sent."""
    end: float
    """When the other one had it."""


class Met(NamedTuple):
    """A collective, at which workers met."""

    op: str
    axis: str
    workers: tuple[int, ...]
    bytes: int
    """What each of them sent, around a ring."""
    start: float
    """When all of them had come."""
    end: float


class Track(NamedTuple):
    """What one worker noted of a run, in seconds of the processor's clock."""

    start: float
    end: float
    visits: tuple[Visit, ...]
    clock: tuple[Reading, ...] = ()
    """What compares the clock with those of others, which are elsewhere."""

    def by(self, ahead: float) -> Track:
        """Return the same by another clock, which this one is ahead of."""
        visits = [v._replace(came=v.came - ahead, left=v.left - ahead) for v in self.visits]
        return Track(self.start - ahead, self.end - ahead, tuple(visits), self.clock)


@told_object("lanes")
@dataclass(frozen=True, repr=False)
class Lanes(Displayed):
    """The last run; a notebook shows it as a picture."""

    workers: int
    microbatches: int
    """0 where workers have no stages, but parts of all values."""
    work: tuple[Work, ...]
    sent: tuple[Sent, ...]
    kept: tuple[int, ...] = ()
    """The most microbatches whose values each worker kept at once."""
    met: tuple[Met, ...] = ()
    within: float | None = None
    """By how many seconds the clock of a worker may be off; None if all have the same one."""

    @property
    def turns(self) -> tuple[Work, ...]:
        """The work on microbatches."""
        return tuple(work for work in self.work if work.micro >= 0)

    @property
    def seconds(self) -> float:
        """From the first to the last moment of work on a microbatch."""
        ends = [work.end for work in self.turns]
        return max(ends, default=0.0) - min((work.start for work in self.turns), default=0.0)

    @property
    def bubbles(self) -> float:
        """The part of the time of all workers in which they wait for each other."""
        busy = sum(work.end - work.start for work in self.turns)
        return 1 - busy / (self.workers * self.seconds) if self.seconds else 0.0

    @property
    def formula(self) -> float:
        """The same, if all stages took equally long: (p - 1) / (m + p - 1); else none."""
        if not self.microbatches:
            return 0.0
        return (self.workers - 1) / (self.microbatches + self.workers - 1)

    @override
    def __str__(self) -> str:
        first = min((work.start for work in self.turns), default=0.0)
        scale = WIDE / (self.seconds or 1.0)
        lines = list[str]()
        for worker in range(self.workers):
            lane = ["░"] * WIDE
            for work in (work for work in self.turns if work.worker == worker):
                start, end = (round((at - first) * scale) for at in (work.start, work.end))
                text = f"|{work.label}".ljust(end - start, "·")[: max(0, end - start)]
                lane[start:end] = text
            lines.append(f"{worker:>2}  {''.join(lane[:WIDE])}")
        counts = counted(self.workers, "worker")
        if self.microbatches:
            counts += f" and {counted(self.microbatches, 'microbatch', 'microbatches')}"
        return "\n".join([*lines, f"{counts}: {1e3 * self.seconds:.2f} ms, {self.told}"])

    @property
    def told(self) -> str:
        """How much of it is bubbles, and how exact the clocks are, in words."""
        clocks = "" if self.within is None else f"; clocks ± {1e3 * self.within:.3f} ms"
        if not self.microbatches:
            met = counted(len(self.met), "collective")
            return f"{self.bubbles:.0%} of it waiting at {met}{clocks}"
        formula = f"{self.formula:.0%} if stages took equally long"
        return f"{self.bubbles:.0%} bubbles, {formula}{clocks}"

    @override
    def __repr__(self) -> str:
        return f"<Lanes of {counted(self.workers, 'worker')}: {self.bubbles:.0%} bubbles; print(…)>"


def lanes_of(mesh: Mesh, tracks: Sequence[Track]) -> Lanes:
    """Return the lanes of workers that run the same graph: the k-th collective is one for all."""
    clocks = clocks_of(mesh, [track.clock for track in tracks])
    tracks = [track.by(ahead) for track, ahead in zip(tracks, clocks.ahead, strict=True)]
    first, count = min(track.start for track in tracks), mesh.workers
    work, met = list[Work](), list[Met]()
    free = [track.start for track in tracks]

    def turn(worker: int, phase: str, number: int, start: float, end: float) -> None:
        if end > start:
            work.append(Work(worker, phase, number, start - first, end - first))

    for number, seen in enumerate(zip(*(track.visits for track in tracks), strict=True)):
        op, axis = seen[0].op, seen[0].axis
        for group in dict.fromkeys(mesh.group(rank, axis) for rank in range(count)):
            there = max(seen[rank].came for rank in group)
            size = around_a_ring(op, seen[group[0]].bytes, len(group))
            assert isinstance(size, int), "the bytes are those of an array"
            end = max(seen[rank].left for rank in group)
            met.append(Met(op, axis, group, size, there - first, end - first))
            for rank in group:
                turn(rank, "compute", number, free[rank], seen[rank].came)
                turn(rank, "send", number, there, seen[rank].left)
                free[rank] = seen[rank].left
    for rank, track in enumerate(tracks):
        turn(rank, "compute", len(track.visits), free[rank], track.end)
    return Lanes(count, 0, tuple(work), (), (), tuple(met), clocks.within)
