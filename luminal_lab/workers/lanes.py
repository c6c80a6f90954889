"""When each worker of a pipeline did what: one lane a worker, and what was sent between them.

    0  |F0|F1|F2|F3|░░░░|B0|B1|B2|B3|
    1  ░░|F0 |F1 |F2 |F3 |░░░░░░░░░░

Where a lane has nothing, its worker waits: a bubble. With p stages that take equally long and m
microbatches, (p - 1) / (m + p - 1) of the time of all workers is bubbles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from typing_extensions import override

from luminal_lab.display import Displayed
from luminal_lab.errors import counted
from luminal_lab.tensor.arguments import told_object

WIDE = 72
"""The characters of a lane."""


class Work(NamedTuple):
    """One turn of a worker at one of its graphs, without the time in which it waits within it."""

    worker: int
    phase: str
    micro: int
    """The microbatch; -1 at the end, when all of them are done."""
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


@told_object("lanes")
@dataclass(frozen=True, repr=False)
class Lanes(Displayed):
    """The last run of a pipeline; a notebook shows it as a picture."""

    workers: int
    microbatches: int
    work: tuple[Work, ...]
    sent: tuple[Sent, ...]
    kept: tuple[int, ...] = ()
    """The most microbatches whose values each worker kept at once."""

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
        """The same, if all stages took equally long: (p - 1) / (m + p - 1)."""
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
        told = f"{self.bubbles:.0%} bubbles; {self.formula:.0%} if stages took equally long"
        counts = (
            counted(self.workers, "worker"),
            counted(self.microbatches, "microbatch", "microbatches"),
        )
        return "\n".join([*lines, f"{' and '.join(counts)}: {1e3 * self.seconds:.2f} ms, {told}"])

    @override
    def __repr__(self) -> str:
        return f"<Lanes of {counted(self.workers, 'worker')}: {self.bubbles:.0%} bubbles; print(…)>"
