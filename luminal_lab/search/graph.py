"""The search for a graph: its regions, each searched once, with one budget for all.

    search = cx.search(ll.CPUCompiler(), budget=60)
    cx.compile(ll.GenericCompiler(), search.best)

A region is a kernel, or a few that may be one; what it computes may have other forms, by rules. Its
share of the budget is its share of the program's time, by the machine's limits; what one leaves
over, the others get.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from time import monotonic
from typing import ClassVar, NamedTuple, NoReturn

from typing_extensions import override

from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR
from luminal_lab.core.printer import unique
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.devices.cpu.program import CPUSource
from luminal_lab.devices.gpu.program import GPUProgram
from luminal_lab.devices.runtime.compiler import DeviceCompiler
from luminal_lab.display import Displayed, Explored, Recorded, shown_meanwhile
from luminal_lab.errors import DeviceError, DimError, GraphError, expect, nearest
from luminal_lab.interrupts import held, opened
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.programs import nameless
from luminal_lab.kernels.definition.specialise import specialised
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.fuse.chains import Chain, FuseChains
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.steps.schedule import Schedule
from luminal_lab.machines.rates import PeakRates
from luminal_lab.passes.base import Pass
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.dead_code import DeadCode
from luminal_lab.passes.pipeline import Pipeline, Runner
from luminal_lab.progress import progress
from luminal_lab.search.candidates import (
    NONE_FASTER,
    SHOWN,
    Candidate,
    Candidates,
    seconds_text,
    table_of,
)
from luminal_lab.search.derived import JoinedDerivation
from luminal_lab.search.draws import replay
from luminal_lab.search.executors import Clock
from luminal_lab.search.forms import Form
from luminal_lab.search.limits import rates_of, work_of
from luminal_lab.search.loops import (
    Budget,
    KernelSearch,
    Sizes,
    begun,
    budget_of,
    each_size,
    go_on,
    question_of,
)
from luminal_lab.search.program import Program
from luminal_lab.search.regions import SearchRegion, SearchRegions, reads_back
from luminal_lab.search.space import Space
from luminal_lab.search.target import DEVICES, Target, program_of, replaced, target_of
from luminal_lab.search.winners import Winners
from luminal_lab.search.worker import Worker

LATE, INTERRUPTED = "the budget was spent before its turn", "Ctrl-C"
BEGINNING = 0.5
"""The share of a budget in which rules may find what there is to measure; the rest is for that."""


@dataclass(frozen=True, repr=False)
class ProgramCandidate(Displayed):
    """All kernels of a graph, each by some schedule; a pipeline takes it as its device."""

    given: DeviceCompiler
    """The compiler that was searched for."""
    regions: Mapping[str, Candidate]
    counts: Mapping[str, int]
    """How often each region is in the graph."""
    ir: IR
    """The graph, whose kernels are all apart."""
    searched: Recorded | None = field(default=None, compare=False)
    """The search that it is of."""

    def __iter__(self) -> Iterator[DeviceCompiler]:
        """Yield the device: so a pipeline takes the candidate as a list of passes."""
        yield self.device

    @property
    def programs(self) -> Mapping[str, Definition | None]:
        """What kernels compute in place of what is written, by its text; None keeps them apart."""
        programs = dict(self.given.programs)
        for candidate in self.regions.values():
            programs |= programs_of(candidate.form)
        return programs

    @cached_property
    def made(self) -> CPUSource | GPUProgram:
        """Its kernels and launches."""
        device = replaced(self.given, dict(self.given.schedules), self.programs)
        target = target_of(self.given)
        recall = target.recalling(schedules_of(self.regions.values()))
        return program_of(device, chained(self.ir, self.programs), recall)

    @cached_property
    def device(self) -> DeviceCompiler:
        """The compiler, with the programs and the schedules."""
        return replaced(self.given, self.schedules, self.programs)

    @property
    def definitions(self) -> Mapping[str, Definition]:
        """What its kernels compute, by their names."""
        kernels = self.made.kernels
        return {kernel.name: kernel.definition for kernel in kernels if kernel.definition}

    @property
    def schedules(self) -> Mapping[str, Schedule]:
        """How its kernels run, by their names."""
        kernels = self.made.kernels
        return {
            kernel.name: kernel.schedule
            for kernel in kernels
            if kernel.schedule is not None and kernel.make is not None
        }

    @property
    def seconds(self) -> float | None:
        """The time of all launches of what was searched; None if a region has none."""
        return self._sum({name: region.seconds for name, region in self.regions.items()})

    @property
    def modelled(self) -> float | None:
        """The seconds that a model gives all launches, where nothing was measured."""
        return self._sum({name: region.modelled for name, region in self.regions.items()})

    def _sum(self, times: Mapping[str, float | None]) -> float | None:
        known = [seconds * self.counts[name] for name, seconds in times.items() if seconds]
        return sum(known) if len(known) == len(times) else None

    @property
    def told(self) -> str:
        """Its time in words."""
        if self.modelled is not None:
            return f"~{seconds_text(self.modelled)} by a model, nothing was measured"
        return "not measured" if self.seconds is None else seconds_text(self.seconds)

    @property
    def error(self) -> str | None:
        """What is wrong with it; None if it computes what it should."""
        return next((region.error for region in self.regions.values() if region.error), None)

    @property
    def source(self) -> str:
        """Its source: kernels, and in C launches and threads."""
        return self.made.source

    @override
    def __str__(self) -> str:
        regions = self.regions.values()
        alone = [f"# {name}\n" * (len(one.form.stages) == 1) for name, one in self.regions.items()]
        lines = [title + one.headed for title, one in zip(alone, regions, strict=True)]
        return "\n\n".join([repr(self)[1:].partition(";")[0], *lines])

    @override
    def __repr__(self) -> str:
        kernels = sum(len(region.form.stages) for region in self.regions.values())
        count = f"{kernels} kernel{'s' * (kernels != 1)}"
        return f"<Program of {count}: {self.told}; print(…) shows their schedules>"


class Waiting(NamedTuple):
    """A region that nobody has searched yet."""

    work: float
    """Its operations, and what its bytes take as operations."""
    begin: Callable[[], KernelSearch]
    """Finds its forms."""


@dataclass
class ProgramSearch(Displayed, Explored, Recorded):
    """The searches for all regions of a graph."""

    device: DeviceCompiler
    kernels: dict[str, KernelSearch]
    """The search for each region, by the name of its kernel."""
    counts: Mapping[str, int]
    ir: IR
    """The graph, whose kernels are all apart."""
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    """Kernels that are not searched, with the reason."""
    waiting: dict[str, Waiting] = field(default_factory=dict[str, Waiting])
    """The regions whose turn has not come."""
    clock: Clock = field(default=monotonic, repr=False, compare=False)
    """What budgets are measured by."""

    @property
    def best(self) -> ProgramCandidate:
        """Each region by its fastest candidate."""
        return self._candidate({name: region.best for name, region in self.kernels.items()})

    @property
    def default(self) -> ProgramCandidate:
        """Each region by the kernels and schedules that it gets without a search."""
        return self._candidate({name: region.default for name, region in self.kernels.items()})

    @property
    def unfused(self) -> ProgramCandidate:
        """Each region by the fastest of the candidates that keep its kernels apart."""
        return self._candidate({name: region.unfused for name, region in self.kernels.items()})

    @property
    def derivation(self) -> JoinedDerivation:
        """How the kernels of the best came of what was written: rules, then steps."""
        regions = self.kernels.values()
        return JoinedDerivation(tuple(part for one in regions for part in one.derivation.parts))

    @property
    def candidates(self) -> Candidates:
        """All that was tried, kernel by kernel; number 0 of each is its default."""
        return Candidates([one for search in self.kernels.values() for one in search.candidates])

    @property
    def space(self) -> Space:
        """The programs for what is searched, if that is one region; else each has a space."""
        if len(self.kernels) == 1:
            return next(iter(self.kernels.values())).space
        names = ", ".join(map(repr, self.kernels))
        raise GraphError(
            f"search: each of {len(self.kernels)} regions has a space of its own: {names}",
            hint=f"say which: search.kernels[{next(iter(self.kernels))!r}].space",
        )

    @property
    def ended(self) -> Mapping[str, str]:
        """Why the search for each kernel ended, in words."""
        return {name: search.ended for name, search in self.kernels.items()}

    def resume(
        self,
        budget: float | Budget = 60,
        executor: Executor | None = None,
        winners: Winners | None = None,
    ) -> ProgramSearch:
        """Go on with the searches for all regions, and return them."""
        return self.go_on(budget_of(budget, executor), executor, winners, self.kernels)

    def go_on(
        self,
        budget: Budget,
        executor: Executor | None,
        winners: Winners | None,
        known: Collection[str] = (),
    ) -> ProgramSearch:
        """Begin with the regions that wait, and go on with them and with some that have begun."""
        begin, regions = self.clock(), {*known}
        why = self._begin(begin + budget.seconds * BEGINNING)
        self.kernels = {name: self.kernels[name] for name in self.counts if name in self.kernels}
        self.skipped |= dict.fromkeys(self.waiting, why)
        budget = replace(budget, seconds=budget.seconds - (self.clock() - begin))
        asked = {
            name: search
            for name, search in self.kernels.items()
            if name in regions or not search.answers
        }
        if why == INTERRUPTED:
            for search in asked.values():
                search.ended = why
        elif asked:
            self._measure(asked, budget, executor, winners)
        return self

    def _begin(self, end: float) -> str:
        """Begin with regions, the largest first and one at least; return why others must wait."""
        with progress("search", len(self.waiting), "region") as bar, held():
            order = sorted(
                self.waiting, key=lambda name: -self.counts[name] * self.waiting[name].work
            )
            for name in order:
                if self.kernels and self.clock() >= end:
                    return LATE
                bar.now(name)
                try:
                    self.kernels[name] = opened(self.waiting[name].begin)
                except KeyboardInterrupt:
                    if not self.kernels:
                        raise
                    return INTERRUPTED
                del self.waiting[name]
                self.skipped.pop(name, None)
                bar.step()
        return ""

    @shown_meanwhile
    def _measure(
        self,
        searches: Mapping[str, KernelSearch],
        budget: Budget,
        executor: Executor | None,
        winners: Winners | None,
    ) -> None:
        def keep(name: str) -> None:
            if winners is not None:
                searches[name].keep(winners)

        go_on(searches, self.counts, budget, executor, self.clock, keep)

    def _candidate(self, regions: Mapping[str, Candidate]) -> ProgramCandidate:
        return ProgramCandidate(self.device, regions, self.counts, self.ir, self)

    @override
    def __str__(self) -> str:
        best, default = self.best, self.default
        lines = [f"search of {self.ir.name}: {len(self.candidates)} candidates"]
        if not any(region.number for region in best.regions.values()):
            lines.append(f"{NONE_FASTER}: {best.told}")
        elif best.seconds is not None and default.seconds is not None:
            share = best.seconds / default.seconds
            lines.append(f"the best takes {best.told}, {share:.3f} of the default's time")
        elif best.modelled is not None and default.modelled is not None:
            share = best.modelled / default.modelled
            lines.append(f"the best: {best.told}; {share:.3f} of the default's by the same model")
        for name, search in self.kernels.items():
            lines += [f"  {name} ×{self.counts[name]}: {search.best.told}; {search.ended}"]
            lines += [f"    {line}" for line in refused_lines(search.refused)]
        lines += [f"  {name}: not searched: {why}" for name, why in self.skipped.items()]
        return "\n".join([*lines, "", *table_of(self.candidates.ranked[:SHOWN])])

    @override
    def __repr__(self) -> str:
        return f"<Search of {self.ir.name}: {len(self.candidates)} candidates; print(…) shows it>"


def search_program(
    ir: IR,
    device: DeviceCompiler,
    *,
    budget: float | Budget = 60,
    seed: int = 0,
    executor: Executor | None = None,
    dims: Sizes | None = None,
    winners: Winners | None = None,
    worker: Worker | None = None,
    clock: Clock = monotonic,
) -> ProgramSearch:
    """Search for the forms and schedules of all regions of a graph whose kernels are apart."""
    begin, budget = clock(), budget_of(budget, executor, seed)
    seconds = budget.seconds
    target = target_of(device)
    machine = target.signature()
    sizes = _sizes(ir, dims or {})
    kernels = program_of(device, chained(ir, dict(device.programs))).kernels
    given = dict(device.schedules)
    definitions = [kernel.definition for kernel in kernels if kernel.name in given]
    kept = {nameless(definition) for definition in definitions if definition is not None}
    unplanned = [kernel.name for kernel in kernels if kernel.definition is None]
    named: dict[str, str] = {}
    skipped = dict.fromkeys(unplanned, "no schedule makes it")
    counts = Counter[str]()
    waiting: dict[str, Waiting] = {}
    regions = regions_of(ir, device, kept)

    @cache
    def rates() -> PeakRates | None:
        return rates_of(device, seconds) if worker is None and target.forms else None

    def begin_region(chain: Chain, definition: Definition, own: Sizes) -> KernelSearch:
        question = question_of(definition, own, machine)
        winner = winners.find(question) if winners else None
        region = SearchRegion(definition, winner.forms) if winner else regions.region(chain)
        known = None if winner else rates()
        search = begun(region, device, seed=seed, dims=own, worker=worker, rates=known)
        search.clock = clock
        if winner:
            search.take(winner)
        return search

    for chain, definition in regions:
        text = nameless(definition)
        name = named.setdefault(text, unique(definition.name, counts))
        counts[name] += 1
        if name in waiting or name in skipped:
            continue
        if nameless(target.defined(definition)) in kept:
            skipped[name] = "a schedule is given for it"
        elif not reads_back(definition):
            skipped[name] = "its text cannot be read back, and workers are sent texts"
        else:
            own = {dim: size for dim, size in sizes.items() if dim in definition.dims}
            work = work_of(definition, each_size(definition, own)[-1])
            waiting[name] = Waiting(work, partial(begin_region, chain, definition, own))
    if not waiting:
        told = "".join(f"\n  {name}: {why}" for name, why in skipped.items())
        raise GraphError(
            f"search: {ir.name} has no kernel whose schedule could be another{told}",
            hint="kernels come of what is computed element by element, summed or multiplied",
        )
    search = ProgramSearch(device, {}, counts, ir, skipped, waiting, clock)
    budget = replace(budget, seconds=seconds - (clock() - begin))
    return search.go_on(budget, executor, winners)


def measures_nothing(job: str) -> NoReturn:
    """Refuse a job: all of it should have been found before."""
    raise DeviceError(
        "what was found before is there no more", hint="search again: cx.search(…), or compile"
    )


def regions_of(ir: IR, device: DeviceCompiler, kept: Collection[str] = ()) -> SearchRegions:
    """Return the regions of a graph whose kernels are apart, as a device's worker takes them."""
    target = target_of(device)
    if not target.forms:
        ir = chained(ir, dict(device.programs))
    return SearchRegions(ir, kept, target.defined, singly=not target.forms)


def _sizes(ir: IR, dims: Sizes) -> Sizes:
    for name in dims:
        if name not in ir.symbols:
            known = ", ".join(sorted(ir.symbols))
            raise DimError(
                f"search: {ir.name} has no dim {name!r}",
                hint=nearest(name, ir.symbols)
                or (f"it has {known}" if known else "all its sizes are numbers"),
            )
    return dims


def refused_lines(programs: Sequence[Program]) -> list[str]:
    """Return what is said of programs that are less exact than what is written."""
    if not programs:
        return []
    worst = max(programs, key=lambda program: program.verdict.error)
    count = f"{len(programs)} program{'s' * (len(programs) != 1)}"
    return [f"{count} by rules refused; the worst: {worst.verdict.refusal}"]


# -- programs and schedules ------------------------------------------------------------------------


def programs_of(form: Form) -> dict[str, Definition | None]:
    """Return what a device is given so that it makes the kernels of a form."""
    return {
        written: None if text is None else parse_definition(text) for written, text in form.programs
    }


def schedules_of(candidates: Iterable[Candidate]) -> dict[str, Schedule]:
    """Return the schedules of kernels by what they compute."""
    return {
        nameless(definition): candidate.schedules[name]
        for candidate in candidates
        for name, definition in candidate.definitions.items()
    }


def chained(ir: IR, programs: Mapping[str, Definition | None]) -> IR:
    """Return a graph of kernels with those as one that programs say, or that are one pass."""
    chosen = FuseChains(tuple((text, program is not None) for text, program in programs.items()))
    return compile_ir(ir, chosen, DeadCode()).ir


def apart(device: DeviceCompiler) -> Pipeline:
    """Return the passes of a device that make kernels, but none of several."""
    passes = [given for given in device.passes if not isinstance(given, FuseChains)]
    return Pipeline(passes, rounds=device.rounds)


def _at(
    sizes: Mapping[str, int], schedules: Mapping[str, Schedule], target: Target
) -> dict[str, Schedule]:
    """Return schedules of kernels for sizes of their dims, where all steps apply there, too."""
    exact: dict[str, Schedule] = {}
    for text, schedule in schedules.items():
        definition = parse_definition(text)
        own = {name: size for name, size in sizes.items() if name in definition.dims}
        if own:
            definition = target.defined(specialised(definition, own))
            replayed = replay(schedule, lower(definition))
            if not replayed.refused:
                exact[nameless(definition)] = replayed.scheduling.schedule
    return exact


# -- as a part of a pipeline -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SearchChains(Pass):
    """Search a graph of kernels, or recall what was found, and make the fastest kernels."""

    name: ClassVar[str] = "search"
    search: Search

    @override
    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        programs = self.search.found(ir).programs
        FuseChains(tuple((text, one is not None) for text, one in programs.items())).run(ir, edit)


@dataclass
class Findings:
    """What searches have found, by what is written and by what is computed."""

    programs: dict[str, Definition | None] = field(default_factory=dict[str, "Definition | None"])
    schedules: dict[str, Schedule] = field(default_factory=dict[str, Schedule])
    search: Callable[[], ProgramSearch] | None = None
    """Returns the last search; what was found before is made one where it is asked for."""

    def take(self, candidates: Iterable[Candidate]) -> None:
        """Take in the best of a search."""
        candidates = [*candidates]
        self.schedules |= schedules_of(candidates)
        for candidate in candidates:
            self.programs |= programs_of(candidate.form)


@dataclass(frozen=True, init=False, repr=False)
class Search(Pipeline):
    """A device whose kernels get the fastest programs and schedules that a search finds.

    What was found on this machine before is not searched for again.

    >>> from luminal_lab.devices.cpu.compiler import CPUCompiler
    >>> Search(CPUCompiler(threads=2), budget=30)
    <Search cpu{threads = 2}>
    """

    device: DeviceCompiler = field(default_factory=CPUCompiler)
    budget: Budget = field(default_factory=lambda: Budget(60))
    seed: int = 0
    executor: Executor | None = None
    dims: tuple[tuple[str, int | Sequence[int]], ...] = ()
    findings: Findings = field(default_factory=Findings, compare=False)

    @property
    def schedules(self) -> Mapping[str, Schedule]:
        """The schedules that were found, by what kernels compute."""
        return self.findings.schedules

    def __init__(
        self,
        device: DeviceCompiler | None = None,
        *,
        budget: float | Budget = 60,
        seed: int = 0,
        executor: Executor | None = None,
        dims: Sizes | None = None,
    ) -> None:
        device = CPUCompiler() if device is None else device
        expect(device, DeviceCompiler, "search: the device is {}", DEVICES)
        passes = [*apart(device).passes, SearchChains(self), DeadCode()]
        super().__init__(passes, rounds=device.rounds, licence=device.licence)
        object.__setattr__(self, "device", device)
        object.__setattr__(self, "budget", Budget.of(budget))
        object.__setattr__(self, "seed", seed)
        object.__setattr__(self, "executor", executor)
        sizes = {n: d if isinstance(d, int) else tuple(d) for n, d in (dims or {}).items()}
        object.__setattr__(self, "dims", tuple(sizes.items()))
        object.__setattr__(self, "findings", Findings())

    def found(self, ir: IR) -> Findings:
        """Return what is known of a graph of kernels: from before, or by a search."""
        winners, dims = Winners(), dict(self.dims)
        made_of = (definition for _, definition in regions_of(ir, self.device))
        regions = {nameless(definition): definition for definition in made_of}.values()
        machine = target_of(self.device).signature() if regions else ""

        def made(executor: Executor | None = None, worker: Worker | None = None) -> ProgramSearch:
            return search_program(
                ir,
                self.device,
                budget=self.budget,
                seed=self.seed,
                executor=executor,
                dims={name: dims[name] for name in dims if name in ir.symbols},
                winners=winners,
                worker=worker,
            )

        if all(self._recalled(one, machine, winners) or not reads_back(one) for one in regions):
            self.findings.search = partial(made, worker=measures_nothing)
            return self.findings
        search = made(self.executor)
        self.findings.search = lambda: search
        self.findings.take(search.best.regions.values())
        return self.findings

    @property
    def searched(self) -> ProgramSearch | None:
        """The last search, or what was found before as one; None before the first compile."""
        return None if self.findings.search is None else self.findings.search()

    def _recalled(self, definition: Definition, machine: str, winners: Winners) -> bool:
        """Take in what was found before; return whether that was anything."""
        own = {name: size for name, size in self.dims if name in definition.dims}
        winner = winners.find(question_of(definition, own, machine))
        if winner is None:
            return False
        definitions = winner.form.definitions
        pairs = zip(definitions, winner.schedules, strict=True)
        self.findings.schedules |= {nameless(one): schedule for one, schedule in pairs}
        self.findings.programs |= programs_of(winner.form)
        return True

    @override
    def runner(self, ir: IR, specialise: Mapping[str, int] | None = None) -> Runner | None:
        programs = dict(self.device.programs) | self.findings.programs
        device = replaced(self.device, dict(self.device.schedules), programs)
        target, known = target_of(self.device), self.findings.schedules
        recall = target.recalling({**_at(specialise or {}, known, target), **known})
        return device.runner(ir, specialise, recall)

    @override
    def __str__(self) -> str:
        return str(self.device)

    @override
    def __repr__(self) -> str:
        return f"<Search {self.device}>"
