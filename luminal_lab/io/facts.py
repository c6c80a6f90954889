"""What is known of a compile beside its graphs: kernels, launches, memory, rules, times, cells.

Plain values that a file can hold and a page can show; gather.py collects them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, cast

from luminal_lab.core.origin import Origin
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.plain import Json, plain, read

Dialect: TypeAlias = Literal["c", "cuda", "metal"]


@dataclass(frozen=True)
class Line:
    """A line of the user's: a file's, or a cell's such as "cell 3"."""

    file: str
    line: int
    code: str = ""


@dataclass(frozen=True)
class Step:
    """A step of a schedule, and the nest after it."""

    text: str
    nest: str


@dataclass(frozen=True)
class SourceFacts:
    """The source of a kernel in one dialect."""

    dialect: Dialect
    title: str
    text: str
    lines: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """For lines, counted from 1, the nodes of the graphs that they compute."""
    resources: Mapping[str, int] | None = None
    """What it takes of a GPU; None where nobody has compiled it."""
    ptx: str | None = None


@dataclass(frozen=True)
class KernelFacts:
    """A kernel: what it computes, how, and why so."""

    name: str
    definition: str = ""
    nest: str = ""
    schedule: str = ""
    flops: int | None = None
    """None where a dim has no size."""
    bytes: int | None = None
    reason: str = ""
    """Why it was fused so."""
    first: str = ""
    """The nest before the first step."""
    steps: tuple[Step, ...] = ()
    sources: tuple[SourceFacts, ...] = ()


@dataclass(frozen=True)
class LaunchFacts:
    """A use of a kernel."""

    kernel: int
    name: str
    node: int
    """The node of the last graph that it computes."""
    makes: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()
    covers: tuple[int, ...] = ()
    """The nodes of the graph as written that it computes."""
    origins: tuple[Line, ...] = ()
    buffers: tuple[int, ...] = ()


@dataclass(frozen=True)
class BufferFacts:
    """Where values live, and from which launch to which."""

    name: str
    kind: Literal["arena", "input", "output", "constant", "alias"]
    offset: int | None
    """Where it begins in the arena; None where a dim has no size, and outside the arena."""
    bytes: int | None
    first: int
    last: int
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True)
class MemoryFacts:
    """The bytes of temporaries: each with bytes of its own, and planned."""

    before: int
    after: int


@dataclass(frozen=True)
class SketchNode:
    """A node of one side of a rule, and the places of what it reads."""

    label: str
    reads: tuple[int, ...] = ()


@dataclass(frozen=True)
class Sketch:
    """One side of a rule as a small graph."""

    nodes: tuple[SketchNode, ...]
    root: int


@dataclass(frozen=True)
class RuleFacts:
    """A rule: as algebra, as Python, and as two small graphs."""

    text: str
    source: str = ""
    file: str = ""
    line: int = 0
    because: str = ""
    needs: tuple[str, ...] = ()
    left: Sketch | None = None
    right: Sketch | None = None


@dataclass(frozen=True)
class TimeRow:
    """The seconds of one launch on one device."""

    launch: int
    median: float
    low: float
    """The lower quartile of the samples."""
    high: float
    bytes: int | None = None
    flops: int | None = None
    share: float | None = None
    """The share of what the device could do; 1 is all of it."""
    bound: Literal["memory", "compute"] | None = None
    samples: tuple[float, ...] = ()
    """Some of what the figures are of, evenly spread and in four digits; of a model none."""


@dataclass(frozen=True)
class TimeFacts:
    """The times of all launches on one device."""

    device: str
    how: Literal["measured", "recorded", "modelled"]
    note: str = ""
    clock: str = ""
    rows: tuple[TimeRow, ...] = ()

    def recorded(self) -> TimeFacts:
        """Return the same times as what they are elsewhere: recorded, and no longer measured."""
        return replace(self, how="recorded") if self.how == "measured" else self


@dataclass(frozen=True)
class Roof:
    """The most that a device can do."""

    device: str
    flops: float
    """Operations on numbers in a second."""
    bytes: float
    """Bytes of memory in a second."""
    how: str = ""


@dataclass(frozen=True)
class Cell:
    """A notebook's cell, or a file, that wrote the graph."""

    title: str
    text: str


@dataclass(frozen=True)
class Facts:
    """All that is known of a compile beside its graphs; what nobody knows is empty."""

    kernels: tuple[KernelFacts, ...] = ()
    launches: tuple[LaunchFacts, ...] = ()
    buffers: tuple[BufferFacts, ...] = ()
    memory: MemoryFacts | None = None
    rules: Mapping[str, RuleFacts] = field(default_factory=dict[str, RuleFacts])
    times: tuple[TimeFacts, ...] = ()
    roofline: tuple[Roof, ...] = ()
    cells: tuple[Cell, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    python: str = ""
    """The Python that does the compile again."""
    besides: tuple[str, ...] = ()
    """The Python of what the compile was given beside passes: the device alone, a licence."""

    def to_json(self, origins: dict[Origin, int] | None = None) -> dict[str, Json]:
        """Return the facts as JSON has them.

        With `origins`, lines of the user's are their numbers there, and new ones are added to it.
        """
        made = cast("dict[str, Json]", plain(self))
        if origins is not None:
            for one, row in zip(
                self.launches, cast("list[dict[str, Json]]", made["launches"]), strict=True
            ):
                lines = [Origin(line.file, line.line, line.code) for line in one.origins]
                row["origins"] = [origins.setdefault(line, len(origins)) for line in lines]
        return made

    @classmethod
    def from_json(cls, given: object) -> Facts:
        """Return what `to_json()` has made; what is of a wrong type raises a ValueError."""
        found = read(cls, given, "facts")
        _check(found)
        return found


def _check(facts: Facts) -> None:
    """Raise a ValueError where something refers to what is not there."""
    for at, launch in enumerate(facts.launches):
        _within(f"facts.launches[{at}].kernel", (launch.kernel,), len(facts.kernels))
        _within(f"facts.launches[{at}].buffers", launch.buffers, len(facts.buffers))
    for at, time in enumerate(facts.times):
        places = [row.launch for row in time.rows]
        _within(f"facts.times[{at}].rows", places, len(facts.launches))
    for name, rule in facts.rules.items():
        for sketch in (rule.left, rule.right):
            if sketch is not None:
                _within(f"facts.rules.{name}", (sketch.root,), len(sketch.nodes))
                for at, node in enumerate(sketch.nodes):  # each reads those before it: no cycle
                    _within(f"facts.rules.{name}", node.reads, at)


def _within(place: str, numbers: Iterable[int], count: int) -> None:
    for number in numbers:
        if not 0 <= number < count:
            raise ValueError(f"{place} has {number}, and there are {count}")


@dataclass(frozen=True)
class Subject:
    """One graph, or one compile of it, as pictures, pages and files have it."""

    title: str
    snapshots: tuple[Snapshot, ...]
    """One alone for a graph that was not compiled."""
    facts: Facts = field(default_factory=Facts)
    pipeline: str = ""
    """The passes as text; nothing for a bare graph."""
    parameters: frozenset[int] = frozenset()
    """The inputs that are parameters of modules."""
    kept: frozenset[int] = frozenset()
    """The nodes of the graph as written whose values were kept."""
