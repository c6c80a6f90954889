"""The search for a graph: its regions, each searched once, with one budget for all.

    search = cx.search(ll.CPUCompiler(), budget=60)
    cx.compile(ll.GenericCompiler(), search.best)

A region is a kernel, or a few that may become one; rules may give its computation other forms. Its
share of the budget is its share of the program's time, by the machine's limits; what one region
leaves over, the others get.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cache, partial
from time import monotonic
from typing import NamedTuple

from typing_extensions import override

from luminal_lab.algebra.rules import RULES
from luminal_lab.algebra.rules.rule import Rule, Rules
from luminal_lab.core.ir import IR
from luminal_lab.core.printer import unique
from luminal_lab.devices.runtime.compiler import DeviceCompiler
from luminal_lab.display import Displayed, Explored, Recorded, shown_meanwhile
from luminal_lab.errors import (
    ArgumentError,
    DimError,
    GraphError,
    ScheduleError,
    nearest,
)
from luminal_lab.interrupts import held, opened
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.programs import nameless
from luminal_lab.kernels.fuse.chains import Chain
from luminal_lab.machines.rates import PeakRates
from luminal_lab.progress import progress
from luminal_lab.search.assembled import ProgramCandidate, chained
from luminal_lab.search.candidates import (
    NONE_FASTER,
    SHOWN,
    Candidate,
    Candidates,
    table_of,
)
from luminal_lab.search.derived import JoinedDerivation
from luminal_lab.search.draws import Plan, check_plan
from luminal_lab.search.executors import Clock
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
from luminal_lab.search.space import Space, admitted
from luminal_lab.search.target import Target, program_of, target_of
from luminal_lab.search.winners import Winners
from luminal_lab.search.worker import Worker
from luminal_lab.tensor.arguments import told_object

LATE, INTERRUPTED = "the budget was spent before its turn", "Ctrl-C"
BEGINNING = 0.5
"""The share of a budget in which rules may look for candidates; the rest is for measuring."""


class Waiting(NamedTuple):
    """A region that nobody has searched yet."""

    work: float
    """Its operations, with the time of its bytes expressed as operations."""
    begin: Callable[[], KernelSearch]
    """Finds its forms."""


@told_object("search")
@dataclass
class ProgramSearch(Displayed, Explored, Recorded):
    """The searches for all regions of a graph."""

    device: DeviceCompiler
    kernels: dict[str, KernelSearch]
    """The search for each region, by the name of its kernel."""
    counts: Mapping[str, int]
    ir: IR
    """The graph, in which every kernel stands by itself."""
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    """Kernels that are not searched, with the reason."""
    waiting: dict[str, Waiting] = field(default_factory=dict[str, Waiting])
    """The regions whose turn has not come yet."""
    clock: Clock = field(default=monotonic, repr=False, compare=False)
    """The clock by which budgets are measured."""

    @property
    def best(self) -> ProgramCandidate:
        """Each region by its fastest candidate."""
        return self._candidate({name: region.best for name, region in self.kernels.items()})

    @property
    def default(self) -> ProgramCandidate:
        """Each region with the kernels and schedules that it gets without a search."""
        return self._candidate({name: region.default for name, region in self.kernels.items()})

    @property
    def unfused(self) -> ProgramCandidate:
        """Each region by the fastest of the candidates that keep its kernels apart."""
        return self._candidate({name: region.unfused for name, region in self.kernels.items()})

    @property
    def derivation(self) -> JoinedDerivation:
        """How the kernels of the best came from what was written: rules, then steps."""
        regions = self.kernels.values()
        return JoinedDerivation(tuple(part for s in regions for part in s.derivation.parts))

    @property
    def candidates(self) -> Candidates:
        """All candidates, kernel by kernel; number 0 of each is its default."""
        return Candidates([c for search in self.kernels.values() for c in search.candidates])

    @property
    def space(self) -> Space:
        """The programs for the searched region; with several regions, each has its own space."""
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
        """Begin with regions, the largest first and at least one; return why others must wait."""
        refusal: ScheduleError | None = None
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
                except ScheduleError as error:
                    refusal = error
                    self.skipped[name] = error.message.removeprefix("search: ")
                except KeyboardInterrupt:
                    if not self.kernels:
                        raise
                    return INTERRUPTED
                else:
                    self.skipped.pop(name, None)
                del self.waiting[name]
                bar.step()
        if refusal is not None and not self.kernels:
            raise refusal
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
    rules: Iterable[Rule] | None = None,
    plan: Plan | None = None,
    winners: Winners | None = None,
    worker: Worker | None = None,
    clock: Clock = monotonic,
) -> ProgramSearch:
    """Search for the forms and schedules of all regions of a graph with its kernels apart.

    With `rules` or a `plan` of your own, nothing is taken from winners and nothing is kept there.
    """
    begin, budget = clock(), budget_of(budget, executor, seed)
    seconds = budget.seconds
    target = target_of(device)
    tried = own_rules(rules, plan, target)
    if rules is not None or plan is not None:
        winners = None
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
    regions = regions_of(ir, device, kept, tried)

    @cache
    def rates() -> PeakRates | None:
        return rates_of(device, seconds) if worker is None and target.forms else None

    def begin_region(chain: Chain, definition: Definition, own: Sizes) -> KernelSearch:
        question = question_of(definition, own, machine)
        winner = winners.find(question) if winners else None
        region = SearchRegion(definition, winner.forms) if winner else regions.region(chain)
        known = None if winner else rates()
        search = begun(region, device, seed=seed, dims=own, plan=plan, worker=worker, rates=known)
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
            hint="kernels come from what is computed element by element, summed or multiplied",
        )
    search = ProgramSearch(device, {}, counts, ir, skipped, waiting, clock)
    budget = replace(budget, seconds=seconds - (clock() - begin))
    return search.go_on(budget, executor, winners)


def own_rules(rules: Iterable[Rule] | None, plan: object, target: Target) -> Rules:
    """Return the rules of a search after checking them and its plan."""
    check_plan(plan)
    if rules is None:
        return RULES
    if not target.forms:
        raise ArgumentError(
            "search: on a GPU all programs are those of a compile, and no rules are tried",
            hint="leave rules out, or search for ll.CPUCompiler()",
        )
    return admitted(rules)


def regions_of(
    ir: IR, device: DeviceCompiler, kept: Collection[str] = (), rules: Rules = RULES
) -> SearchRegions:
    """Return the regions of a graph with its kernels apart, as a device's worker takes them."""
    target = target_of(device)
    if not target.forms:
        ir = chained(ir, dict(device.programs))
    return SearchRegions(ir, kept, target.defined, singly=not target.forms, rules=rules)


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
    """Return the lines about programs that are less exact than what is written."""
    if not programs:
        return []
    worst = max(programs, key=lambda program: program.verdict.error)
    count = f"{len(programs)} program{'s' * (len(programs) != 1)}"
    return [f"{count} by rules refused; the worst: {worst.verdict.refusal}"]
