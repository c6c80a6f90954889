"""A device that searches while it compiles, and reuses what was found before.

cx.compile(ll.GenericCompiler(), ll.Search(ll.CPUCompiler(), budget=60))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Final, Literal, NoReturn, TypeAlias

from typing_extensions import override

from luminal_lab.algebra.rules import RULES
from luminal_lab.algebra.rules.rule import Rule, Rules
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.devices.runtime.compiler import DeviceCompiler
from luminal_lab.errors import ArgumentError, DeviceError, expect
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.programs import nameless
from luminal_lab.kernels.definition.specialise import specialised
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.fuse.chains import FuseChains
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.steps.schedule import Schedule
from luminal_lab.passes.dead_code import DeadCode
from luminal_lab.passes.pipeline import Pipeline, Runner
from luminal_lab.passes.walking import Walk, Walking
from luminal_lab.search.assembled import apart, programs_of, schedules_of
from luminal_lab.search.candidates import Candidate
from luminal_lab.search.draws import Plan, replay
from luminal_lab.search.graph import ProgramSearch, own_rules, regions_of, search_program
from luminal_lab.search.loops import Budget, Sizes, budget_of, question_of
from luminal_lab.search.regions import reads_back
from luminal_lab.search.target import DEVICES, Target, replaced, target_of
from luminal_lab.search.winners import Winners
from luminal_lab.search.worker import Worker
from luminal_lab.tensor.sizes import size_lists

Cached: TypeAlias = Literal["cached"]
CACHED: Final = "cached"
"""The budget that reuses what was found before and measures nothing."""


@dataclass(frozen=True, eq=False)
class SearchChains(Walking):
    """Search a graph of kernels, or recall what was found, and make the fastest kernels."""

    name: ClassVar[str] = "search"
    search: Search

    @override
    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        self.search.found(ir)
        self._fusing.run(ir, edit)

    @override
    def walk(self, edit: Edit) -> Walk:
        return self._fusing.walk(edit)

    @override
    def searches(self) -> tuple[str, ...]:
        return self._fusing.searches()

    @property
    def _fusing(self) -> FuseChains:
        programs = self.search.findings.programs
        return FuseChains(tuple((text, one is not None) for text, one in programs.items()))


@dataclass
class Findings:
    """What searches have found, by what is written and by what is computed."""

    programs: dict[str, Definition | None] = field(default_factory=dict[str, "Definition | None"])
    schedules: dict[str, Schedule] = field(default_factory=dict[str, Schedule])
    searched: set[str] = field(default_factory=set[str])
    """What was searched for here but cannot be kept for others: it is not searched for again."""
    search: Callable[[], ProgramSearch] | None = None
    """Returns the last search; what was found before becomes a search when it is asked for."""

    def take(self, candidates: Iterable[Candidate]) -> None:
        """Take in the best of a search."""
        candidates = [*candidates]
        self.schedules |= schedules_of(candidates)
        for candidate in candidates:
            self.programs |= programs_of(candidate.form)


@dataclass(frozen=True, init=False, repr=False)
class Search(Pipeline):
    """A device whose kernels get the fastest programs and schedules that a search finds.

    What was found on this machine before is not searched for again; `Search("cached")`, or
    `budget="cached"` for another device, only reuses that and never searches. With `rules` or a
    `plan` of your own, it reuses only what this device has found itself.

    >>> from luminal_lab.devices.cpu.compiler import CPUCompiler
    >>> Search(CPUCompiler(threads=2), budget=30)
    <Search cpu{threads = 2}>
    """

    device: DeviceCompiler = field(default_factory=CPUCompiler)
    budget: Budget | None = field(default_factory=lambda: Budget(60))
    """What it may spend; None if it only reuses what was found before."""
    seed: int = 0
    executor: Executor | None = None
    dims: tuple[tuple[str, int | Sequence[int]], ...] = ()
    rules: Rules | None = None
    plan: Plan | None = None
    findings: Findings = field(default_factory=Findings, compare=False)

    @property
    def schedules(self) -> Mapping[str, Schedule]:
        """The schedules that were found, by what kernels compute."""
        return self.findings.schedules

    def __init__(
        self,
        device: DeviceCompiler | Cached | None = None,
        *,
        budget: float | Budget | Cached = 60,
        seed: int = 0,
        executor: Executor | None = None,
        dims: Sizes | None = None,
        rules: Iterable[Rule] | None = None,
        plan: Plan | None = None,
    ) -> None:
        if device == CACHED:
            device, budget = None, CACHED
        device = CPUCompiler() if device is None else device
        expect(device, DeviceCompiler, "search: the device is {}", DEVICES)
        assert isinstance(device, DeviceCompiler)
        tried = own_rules(rules, plan, target_of(device))
        sizes, is_cached = size_lists("search", dims), isinstance(budget, str) and budget == CACHED
        if is_cached and not rules is plan is None:
            raise ArgumentError(
                "search: nothing is kept of what one's own rules or plan find",
                hint="give a budget in seconds, or leave them out",
            )
        limit = budget_of(Budget(60) if is_cached else budget, executor, seed)
        passes = [*apart(device).passes, SearchChains(self), DeadCode()]
        super().__init__(passes, rounds=device.rounds, licence=device.licence)
        object.__setattr__(self, "device", device)
        object.__setattr__(self, "budget", None if is_cached else limit)
        object.__setattr__(self, "seed", seed)
        object.__setattr__(self, "executor", executor)
        each = {n: tuple(d) if isinstance(d, Sequence) else d for n, d in sizes.items()}
        object.__setattr__(self, "dims", tuple(each.items()))
        object.__setattr__(self, "rules", None if rules is None else tried)
        object.__setattr__(self, "plan", plan)
        object.__setattr__(self, "findings", Findings())

    def found(self, ir: IR) -> Findings:
        """Return what is known about a graph of kernels, from before or by a search."""
        winners, dims = Winners(), dict(self.dims)
        known = RULES if self.rules is None else self.rules
        made_of = (definition for _, definition in regions_of(ir, self.device, rules=known))
        regions = {nameless(definition): definition for definition in made_of}.values()
        machine = target_of(self.device).signature() if regions else ""

        def made(executor: Executor | None = None, worker: Worker | None = None) -> ProgramSearch:
            return search_program(
                ir,
                self.device,
                budget=self.budget or Budget(60),
                seed=self.seed,
                executor=executor,
                dims={name: dims[name] for name in dims if name in ir.symbols},
                rules=self.rules,
                plan=self.plan,
                winners=winners,
                worker=worker,
            )

        recalled = [self._recalled(d, machine, winners) or not reads_back(d) for d in regions]
        if self.budget is None and not all(recalled):
            return self.findings
        if all(recalled):
            if not any(nameless(d) in self.findings.searched for d in regions):
                self.findings.search = partial(made, worker=measures_nothing)
            return self.findings
        search = made(self.executor)
        self.findings.searched |= {nameless(d.definition) for d in search.kernels.values()}
        self.findings.search = lambda: search
        self.findings.take(search.best.regions.values())
        return self.findings

    @property
    def searched(self) -> ProgramSearch | None:
        """The last search, or what was found before as one; None before the first compile."""
        return None if self.findings.search is None else self.findings.search()

    def _recalled(self, definition: Definition, machine: str, winners: Winners) -> bool:
        """Take in what was found before; return whether there was anything."""
        if nameless(definition) in self.findings.searched:
            return True
        if self.rules is not None or self.plan is not None:
            return False
        own = {name: size for name, size in self.dims if name in definition.dims}
        winner = winners.find(question_of(definition, own, machine))
        if winner is None:
            return False
        definitions = winner.form.definitions
        pairs = zip(definitions, winner.schedules, strict=True)
        self.findings.schedules |= {nameless(kernel): schedule for kernel, schedule in pairs}
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


def measures_nothing(job: str) -> NoReturn:
    """Refuse a job: all of it should have been found before."""
    raise DeviceError(
        "what was found before is gone", hint="search again: cx.search(…), or compile"
    )


def _at(
    sizes: Mapping[str, int], schedules: Mapping[str, Schedule], target: Target
) -> dict[str, Schedule]:
    """Return schedules of kernels for sizes of their dims if all their steps apply there, too."""
    exact: dict[str, Schedule] = {}
    for text, schedule in schedules.items() if sizes else ():
        definition = parse_definition(text)
        own = {name: size for name, size in sizes.items() if name in definition.dims}
        if own:
            definition = target.defined(specialised(definition, own))
            replayed = replay(schedule, lower(definition))
            if not replayed.refused:
                exact[nameless(definition)] = replayed.scheduling.schedule
    return exact
