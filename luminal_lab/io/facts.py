"""The facts about a compile beside its graphs: kernels, launches, memory, rules, times, cells.

They are plain values for files and pages; gather.py collects them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, cast

from typing_extensions import override

from luminal_lab.advice.finding import Advice
from luminal_lab.core.origin import Origin
from luminal_lab.errors import visible
from luminal_lab.io.board_facts import BoardFacts
from luminal_lab.io.derivation_facts import DerivationFacts
from luminal_lab.io.search_facts import SearchFacts, check_search
from luminal_lab.io.worker_facts import WorkerFacts, check_workers
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.passes.stops import Stop
from luminal_lab.plain import Json, plain, read
from luminal_lab.timing.timeline import LONGEST

Dialect: TypeAlias = Literal["c", "cuda", "metal", "webgpu", "stablehlo"]
Asked: TypeAlias = Literal["c", "cuda", "metal", "webgpu", "assembly"]
"""The sources that can be requested."""


@dataclass(frozen=True)
class Line:
    """A line of a user's file, or of a cell such as "cell 3"."""

    file: str
    line: int
    code: str = ""


@dataclass(frozen=True)
class Remark:
    """What there is to say of a whole compile, and the user's line that it is about, if any."""

    text: str
    line: Line | None = None

    @override
    def __str__(self) -> str:
        line = self.line
        where = "" if line is None else f"\n  {Origin(line.file, line.line, line.code)}"
        return visible(f"{self.text}{where}")


@dataclass(frozen=True)
class SourceFacts:
    """The source of a kernel in one dialect."""

    dialect: Dialect
    title: str
    text: str
    lines: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """By line, counted from 1, the nodes that it computes."""
    resources: Mapping[str, int] | None = None
    """The GPU resources that it needs; None if it was not compiled."""
    ptx: str | None = None
    assembly: AssemblyFacts | None = None


@dataclass(frozen=True)
class AssemblyFacts:
    """What a machine runs for a source."""

    text: str
    lines: tuple[tuple[int, int], ...] = ()
    """Lines of the text, and the line of the source that each comes from."""
    by: str = ""


@dataclass(frozen=True)
class KernelFacts(DerivationFacts):
    """A kernel: its meaning, its form, and the reason for both."""

    definition: str = ""
    nest: str = ""
    schedule: str = ""
    flops: int | None = None
    """None if a dim has no size."""
    bytes: int | None = None
    reason: str = ""
    """The reason for its fusion."""
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
    shares: tuple[float, ...] = ()
    """The share of each line; they add up to 1. Empty in an old recording: all are then equal."""
    scopes: tuple[tuple[str, float], ...] = ()
    """How much of its work comes from each part of the model."""
    family: str = ""
    """The kind of work that it does."""


@dataclass(frozen=True)
class BufferFacts:
    """Where values live, and their first and last launch."""

    name: str
    kind: Literal["arena", "input", "output", "constant", "alias"]
    offset: int | None
    """The offset in the arena; None outside it, or if a dim has no size."""
    bytes: int | None
    first: int
    last: int
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True)
class MemoryFacts:
    """The bytes of temporaries, with and without a plan that shares them."""

    before: int
    after: int


@dataclass(frozen=True)
class SketchNode:
    """A node of one side of a rule, and the indices of its sources."""

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
    """The share of the device's limit."""
    bound: Literal["memory", "compute"] | None = None
    samples: tuple[float, ...] = ()
    """Some of the samples, evenly spread, in four digits; none for a model."""


@dataclass(frozen=True)
class RunFacts:
    """When everything happened in one run, in seconds after it began."""

    seconds: float
    calls: tuple[tuple[float, float], ...]
    """The calls that launch kernels: the start and the length of each."""
    kernels: tuple[tuple[int, float, float], ...]
    """The launch of each kernel, its start, and its length."""
    note: str = ""
    """How the positions are known, if no clock gives them."""


@dataclass(frozen=True)
class TimeFacts:
    """The times of all launches on one device."""

    device: str
    how: Literal["measured", "recorded", "modelled"]
    note: str = ""
    clock: str = ""
    rows: tuple[TimeRow, ...] = ()
    doubts: tuple[str, ...] = ()
    """Why times or shares may be wrong: load, or a roof that was exceeded."""
    dialect: Dialect | Literal[""] = ""
    """The language that the device runs; "" if unknown."""
    run: RunFacts | None = None
    """When everything happened in one run, if that was measured."""

    def recorded(self) -> TimeFacts:
        """Return the same times, marked as recorded where they were measured."""
        return replace(self, how="recorded") if self.how == "measured" else self


@dataclass(frozen=True)
class DeviceRoof:
    """The limits of a device."""

    device: str
    flops: float
    """Floating-point operations per second."""
    bytes: float
    """Bytes of memory traffic per second."""
    how: str = ""


@dataclass(frozen=True)
class StopFacts:
    """The firing at which a compile ended that was made `until` one."""

    snapshot: int
    firing: int
    """Its number in its pass, from 1."""
    asked: str = ""
    """What was waited for, as in "touches %y"."""

    @classmethod
    def of(cls, stop: Stop | None) -> StopFacts | None:
        """Return the facts of a stop, if there is one."""
        return None if stop is None else cls(stop.snapshot.index, stop.number, stop.asked)

    def among(self, snapshots: Sequence[Snapshot]) -> Stop:
        """Return the stop, or raise a ValueError if there is no such firing."""
        if not 0 < self.snapshot < len(snapshots):
            raise ValueError(f"it stopped in pass {self.snapshot}; there are {len(snapshots) - 1}")
        snapshot = snapshots[self.snapshot]
        if not 0 < self.firing <= len(snapshot.firings):
            many = len(snapshot.firings)
            raise ValueError(f"it stopped at firing {self.firing} of {snapshot.title}, of {many}")
        return Stop(snapshot, self.firing, self.asked)


@dataclass(frozen=True)
class CellText:
    """A notebook's cell, or a file, that wrote the graph."""

    title: str
    text: str


@dataclass(frozen=True)
class Facts:
    """Everything known about a compile beside its graphs; unknown facts are empty."""

    kernels: tuple[KernelFacts, ...] = ()
    launches: tuple[LaunchFacts, ...] = ()
    buffers: tuple[BufferFacts, ...] = ()
    memory: MemoryFacts | None = None
    rules: Mapping[str, RuleFacts] = field(default_factory=dict[str, RuleFacts])
    times: tuple[TimeFacts, ...] = ()
    roofline: tuple[DeviceRoof, ...] = ()
    cells: tuple[CellText, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    python: str = ""
    """The Python that repeats the compile."""
    besides: tuple[str, ...] = ()
    """The Python of the compile's other arguments: the device alone, a licence."""
    askable: tuple[str, ...] = ()
    """The passes that say why they found nothing at a node."""
    advice: Advice | None = None
    """What is slow, if somebody has asked."""
    boards: tuple[BoardFacts, ...] = ()
    """Other schedules of its kernels, with their times beside the first."""
    stop: StopFacts | None = None
    """Where the compile ended, if it was made to end at a firing."""
    search: SearchFacts | None = None
    """The search for the graph's kernels, if there was one."""
    remarks: tuple[Remark, ...] = ()
    """What there is to say of it as a whole: where it stopped, what it is a part of."""
    workers: WorkerFacts | None = None
    """How values are cut over the workers of a mesh, or the stages of a pipeline."""

    def to_json(self, origins: dict[Origin, int] | None = None) -> dict[str, Json]:
        """Return the facts as JSON values.

        With `origins`, user lines become their numbers there; new lines are added to it.
        """
        data = cast("dict[str, Json]", plain(self))
        if origins is not None:
            for launch, row in zip(
                self.launches, cast("list[dict[str, Json]]", data["launches"]), strict=True
            ):
                lines = [Origin(line.file, line.line, line.code) for line in launch.origins]
                row["origins"] = [origins.setdefault(line, len(origins)) for line in lines]
            for remark, row in zip(
                self.remarks, cast("list[dict[str, Json]]", data["remarks"]), strict=True
            ):
                at = remark.line
                if at is not None:
                    row["line"] = origins.setdefault(
                        Origin(at.file, at.line, at.code), len(origins)
                    )
        return data

    @classmethod
    def from_json(cls, given: object) -> Facts:
        """Return the facts that `to_json()` wrote; a wrong type raises a ValueError."""
        facts = read(cls, given, "facts")
        _check(facts)
        return facts


def _check(facts: Facts) -> None:
    """Raise a ValueError if a reference leads nowhere."""
    if facts.search is not None:
        check_search(facts.search, "facts.search")
    if facts.workers is not None:
        check_workers(facts.workers)
    for at, launch in enumerate(facts.launches):
        _within(f"facts.launches[{at}].kernel", (launch.kernel,), len(facts.kernels))
        _within(f"facts.launches[{at}].buffers", launch.buffers, len(facts.buffers))
    for at, time in enumerate(facts.times):
        launches = [row.launch for row in time.rows]
        _within(f"facts.times[{at}].rows", launches, len(facts.launches))
        if time.run is not None:
            _check_run(f"facts.times[{at}].run", time.run, len(facts.launches))
    _within("facts.boards", (board.kernel for board in facts.boards), len(facts.kernels))
    for name, rule in facts.rules.items():
        for sketch in (rule.left, rule.right):
            if sketch is not None:
                _within(f"facts.rules.{name}", (sketch.root,), len(sketch.nodes))
                for at, node in enumerate(sketch.nodes):  # each reads those before it: no cycle
                    _within(f"facts.rules.{name}", node.reads, at)


def _check_run(path: str, run: RunFacts, launches: int) -> None:
    _within(f"{path}.kernels", (launch for launch, _, _ in run.kernels), launches)
    spans = [(0.0, run.seconds), *run.calls, *(kernel[1:] for kernel in run.kernels)]
    for start, length in spans:
        if not (0 <= start < LONGEST and 0 <= length < LONGEST):
            raise ValueError(f"{path} has something that took {length} s from {start} s on")


def _within(path: str, numbers: Iterable[int], count: int) -> None:
    for number in numbers:
        if not 0 <= number < count:
            raise ValueError(f"{path} has {number}, and there are {count}")


@dataclass(frozen=True)
class Subject:
    """One graph, or one compile of it, as shown in pictures and pages and kept in files."""

    title: str
    snapshots: tuple[Snapshot, ...]
    """Only one, for a graph that was not compiled."""
    facts: Facts = field(default_factory=Facts)
    pipeline: str = ""
    """The passes as text; empty for a bare graph."""
    parameters: frozenset[int] = frozenset()
    """The inputs that are parameters of modules."""
    kept: frozenset[int] = frozenset()
    """The nodes of the graph as written whose values were kept."""

    @property
    def stop(self) -> Stop | None:
        """The firing at which the compile ended, if it was made `until` one."""
        stop = self.facts.stop
        return None if stop is None else stop.among(self.snapshots)
