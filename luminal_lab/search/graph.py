"""The search for a graph: its kernels' schedules, each searched once, with one budget for all.

    search = cx.search(ll.CPUCompiler(), budget=60)
    cx.compile(ll.GenericCompiler(), search.best)

What compiles of the graph would fuse is taken as it is. A kernel's share of the budget is its share
of the program's time, by the machine's limits; what one kernel leaves over, the others get.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from math import inf
from time import monotonic

from typing_extensions import override

from luminal_lab.core.ir import IR
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.devices.cpu.program import CPUSource
from luminal_lab.display import Displayed, Explored, Recorded, shown_meanwhile
from luminal_lab.errors import DimError, GraphError, ParseError, ScheduleError, expect, nearest
from luminal_lab.kernels.definition.cost import bytes_moved, flops
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.online import online_softmax
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.steps.schedule import Schedule
from luminal_lab.passes.pipeline import Pipeline, Runner
from luminal_lab.search.candidates import SHOWN, Candidate, Candidates, seconds_text, table_of
from luminal_lab.search.loops import Budget, KernelSearch, begun, budget_of, signature_of, sizes_of
from luminal_lab.search.winners import Question, Winners
from luminal_lab.search.worker import Worker, work

FLOPS_OF_BYTE = 8
"""How many operations take about as long as to move a byte."""


@dataclass(frozen=True, repr=False)
class ProgramCandidate(Displayed):
    """All kernels of a graph, each by some schedule; a pipeline takes it as its device."""

    device: CPUCompiler
    """The compiler, with the schedules."""
    kernels: Mapping[str, Candidate]
    counts: Mapping[str, int]
    """How often each kernel is launched in a run."""
    ir: IR

    def __iter__(self) -> Iterator[CPUCompiler]:
        """Yield the device: so a pipeline takes the candidate as a list of passes."""
        yield self.device

    @property
    def definitions(self) -> Mapping[str, Definition]:
        """What its kernels compute, by their names."""
        return {name: kernel.definition for name, kernel in self.kernels.items()}

    @property
    def schedules(self) -> Mapping[str, Schedule]:
        """How its kernels run, by their names."""
        return {name: kernel.schedules[name] for name, kernel in self.kernels.items()}

    @property
    def seconds(self) -> float | None:
        """The time of all launches of these kernels; None if a kernel has none."""
        times = [(kernel.seconds, self.counts[name]) for name, kernel in self.kernels.items()]
        known = [seconds * count for seconds, count in times if seconds is not None]
        return sum(known) if len(known) == len(times) else None

    @property
    def error(self) -> str | None:
        """What is wrong with it; None if it computes what it should."""
        return next((kernel.error for kernel in self.kernels.values() if kernel.error), None)

    @property
    def source(self) -> str:
        """Its C: kernels, launches, threads."""
        return CPUSource(self.ir, schedules=self.schedules).source

    @override
    def __str__(self) -> str:
        lines = [f"# {name}\n{kernel.text}" for name, kernel in self.kernels.items()]
        return "\n\n".join([repr(self)[1:].partition(";")[0], *lines])

    @override
    def __repr__(self) -> str:
        seconds = "not measured" if self.seconds is None else seconds_text(self.seconds)
        count = f"{len(self.kernels)} kernel{'s' * (len(self.kernels) != 1)}"
        return f"<Program of {count}: {seconds}; print(…) shows their schedules>"


@dataclass
class ProgramSearch(Displayed, Explored, Recorded):
    """The searches for all kernels of a graph."""

    device: CPUCompiler
    kernels: Mapping[str, KernelSearch]
    """The search for each kernel, by its name."""
    counts: Mapping[str, int]
    ir: IR
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])
    """Kernels that are not searched, with the reason."""

    @property
    def best(self) -> ProgramCandidate:
        """Each kernel by its fastest schedule."""
        return self._candidate({name: one.best for name, one in self.kernels.items()})

    @property
    def default(self) -> ProgramCandidate:
        """Each kernel by the schedule that it gets without a search."""
        return self._candidate({name: one.default for name, one in self.kernels.items()})

    @property
    def candidates(self) -> Candidates:
        """All that was tried, kernel by kernel; number 0 of each is its default."""
        return Candidates([one for search in self.kernels.values() for one in search.candidates])

    @property
    def ended(self) -> Mapping[str, str]:
        """Why the search for each kernel ended, in words."""
        return {name: search.ended for name, search in self.kernels.items()}

    @shown_meanwhile
    def resume(
        self,
        budget: float | Budget = 60,
        executor: Executor | None = None,
        winners: Winners | None = None,
    ) -> ProgramSearch:
        """Go on with the searches for all kernels, and return them."""
        budget = budget_of(budget, executor)
        # Those that need the least go first, and leave to the others what they do not spend.
        order = sorted(self.kernels, key=self._weight)
        end, left = monotonic() + budget.seconds, budget.candidates
        for at, name in enumerate(order):
            search = self.kernels[name]
            weights = [self._weight(other) for other in order[at:]]
            share = weights[0] / sum(weights)
            seconds, before = max(0.1, (end - monotonic()) * share), len(search.candidates)
            most = max(1, left * share)
            search.resume(Budget(seconds, most), executor)
            left -= len(search.candidates) - before
            if search.ended == "Ctrl-C":
                for other in order[at + 1 :]:
                    self.kernels[other].ended = "Ctrl-C"
                break
            if winners is not None and search.is_whole:
                winners.keep(search.question, search.driver)
        return self

    def _weight(self, name: str) -> float:
        search = self.kernels[name]
        moved = bytes_moved(search.definition, search.dims) * FLOPS_OF_BYTE
        return self.counts[name] * max(1, flops(search.definition, search.dims), moved)

    def _candidate(self, kernels: Mapping[str, Candidate]) -> ProgramCandidate:
        given = dict(self.device.schedules)
        chosen = {name: kernel.schedules[name] for name, kernel in kernels.items()}
        return ProgramCandidate(
            scheduled(self.device, given | chosen), kernels, self.counts, self.ir
        )

    @override
    def __str__(self) -> str:
        best, default = self.best.seconds, self.default.seconds
        lines = [f"search of {self.ir.name}: {len(self.candidates)} candidates"]
        if best is not None and default is not None:
            lines.append(
                f"the best takes {seconds_text(best)}, {best / default:.3f} of the default's time"
            )
        for name, search in self.kernels.items():
            lines += [f"  {name} ×{self.counts[name]}: {search.best.told}; {search.ended}"]
        lines += [f"  {name}: not searched: {why}" for name, why in self.skipped.items()]
        ordered = sorted(self.candidates, key=lambda one: inf if one.ratio is None else one.ratio)
        return "\n".join([*lines, "", *table_of(ordered[:SHOWN])])

    @override
    def __repr__(self) -> str:
        return f"<Search of {self.ir.name}: {len(self.candidates)} candidates; print(…) shows it>"


def search_program(
    ir: IR,
    device: CPUCompiler,
    *,
    budget: float | Budget = 60,
    seed: int = 0,
    executor: Executor | None = None,
    dims: Mapping[str, int] | None = None,
    specialise: Mapping[str, int] | None = None,
    winners: Winners | None = None,
    worker: Worker = work,
) -> ProgramSearch:
    """Search for the schedules of all kernels of a graph that is fused already."""
    budget = budget_of(budget, executor, seed)
    sizes = _sizes(ir, dims or {})
    program = CPUSource(ir, schedules=dict(device.schedules), specialise=specialise)
    searches: dict[str, KernelSearch] = {}
    skipped: dict[str, str] = {}
    for kernel in program.kernels:
        name, definition = kernel.name, kernel.definition
        if definition is None or kernel.schedule is None:
            skipped[name] = "no schedule makes it"
        elif name in dict(device.schedules):
            skipped[name] = "a schedule is given for it"
        elif not _reads_back(definition):
            skipped[name] = "its text cannot be read back, and workers are sent texts"
        else:
            own = {dim: size for dim, size in sizes.items() if dim in definition.dims}
            searches[name] = begun(definition, device, seed=seed, dims=own, worker=worker)
    if not searches:
        told = "".join(f"\n  {name}: {why}" for name, why in skipped.items())
        raise GraphError(
            f"search: {ir.name} has no kernel whose schedule could be another{told}",
            hint="kernels come of what is computed element by element, summed or multiplied",
        )
    counts = Counter(launch.kernel.name for launch in program.launches)
    search = ProgramSearch(device, searches, counts, ir, skipped)
    known = winners is not None and [one.known(winners) for one in searches.values()]
    if known and all(known):
        return search
    left = {name: one for name, one in searches.items() if not (winners and one.driver.reference)}
    replace(search, kernels=left).resume(budget, executor, winners)
    return search


def _reads_back(definition: Definition) -> bool:
    try:
        return str(parse_definition(str(definition))) == str(definition)
    except ParseError:
        return False


def _sizes(ir: IR, dims: Mapping[str, int]) -> Mapping[str, int]:
    for name in dims:
        if name not in ir.symbols:
            known = ", ".join(sorted(ir.symbols))
            raise DimError(
                f"search: {ir.name} has no dim {name!r}",
                hint=nearest(name, ir.symbols) or (f"it has {known}" if known else None),
            )
    return dims


def scheduled(device: CPUCompiler, schedules: Mapping[str, Schedule]) -> CPUCompiler:
    """Return a device whose kernels have these schedules."""
    return CPUCompiler(
        compiler=device.compiler,
        threads=device.threads,
        reuse_outputs=device.reuse_outputs,
        schedules=schedules,
    )


@dataclass(frozen=True, init=False, repr=False)
class Search(Pipeline):
    """A device whose kernels get the fastest schedules that a search finds.

    What was found on this machine before is not searched for again.

    >>> from luminal_lab.devices.cpu.compiler import CPUCompiler
    >>> Search(CPUCompiler(threads=2), budget=30)
    <Search cpu{threads = 2}>
    """

    device: CPUCompiler = field(default_factory=CPUCompiler)
    budget: Budget = field(default_factory=lambda: Budget(60))
    seed: int = 0
    executor: Executor | None = None
    dims: tuple[tuple[str, int], ...] = ()

    def __init__(
        self,
        device: CPUCompiler | None = None,
        *,
        budget: float | Budget = 60,
        seed: int = 0,
        executor: Executor | None = None,
        dims: Mapping[str, int] | None = None,
    ) -> None:
        device = CPUCompiler() if device is None else device
        hint = "schedules are searched for a CPU so far, as in Search(ll.CPUCompiler())"
        expect(device, CPUCompiler, "search: the device is {}", hint)
        super().__init__(device.passes, rounds=device.rounds, licence=device.licence)
        object.__setattr__(self, "device", device)
        object.__setattr__(self, "budget", Budget.of(budget))
        object.__setattr__(self, "seed", seed)
        object.__setattr__(self, "executor", executor)
        object.__setattr__(self, "dims", tuple((dims or {}).items()))

    @override
    def runner(self, ir: IR, specialise: Mapping[str, int] | None = None) -> Runner | None:
        try:
            return self._recalled(ir, specialise)
        except ScheduleError:  # nothing was found before, or it does not apply
            search = search_program(
                ir,
                self.device,
                budget=self.budget,
                seed=self.seed,
                executor=self.executor,
                dims=dict(self.dims),
                specialise=specialise,
                winners=Winners(),
            )
            return search.best.device.runner(ir, specialise)

    def _recalled(self, ir: IR, specialise: Mapping[str, int] | None) -> Runner:
        """Return the runner by what was found before, or raise if something was not."""
        winners, dims = Winners(), dict(self.dims)
        with_kernels = any(node.op.body_of() is not None for node in ir)
        machine = signature_of(self.device) if with_kernels else ""

        def recall(definition: Definition) -> Schedule | None:
            definition = online_softmax(definition)
            own = {name: size for name, size in dims.items() if name in definition.dims}
            question = Question(definition, sizes_of(definition, own), machine)
            winner = winners.find(question, applies=True)
            if winner is None and _reads_back(definition):
                raise ScheduleError(f"search: nothing was found before for {definition.name}")
            return None if winner is None else winner.schedule

        return self.device.runner(ir, specialise, recall)

    @override
    def __str__(self) -> str:
        return str(self.device)

    @override
    def __repr__(self) -> str:
        return f"<Search {self.device}>"
