"""The search over the loops of one kernel: draw schedules, measure them, go on from the best.

    search = search_kernel(definition, ll.CPUCompiler(), budget=10)
    search.best         the fastest schedule that computes what it should
    search.candidates   all that were tried, those that failed too

It is never worse than the default schedule, which is measured beside the others. Ctrl-C or a lost
worker ends a search early, and what was found so far is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from math import inf, prod
from numbers import Real
from time import monotonic
from typing import TypeAlias, cast

from typing_extensions import override

from luminal_lab.algebra.rules import RULES
from luminal_lab.algebra.rules.rule import Rules
from luminal_lab.core.dims import check_bounds
from luminal_lab.core.origin import warn
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.devices.runtime.compiler import DeviceCompiler
from luminal_lab.display import Displayed, Explored, Recorded
from luminal_lab.errors import (
    ArgumentError,
    DeviceError,
    DimError,
    expect,
    nearest,
    whole_number,
)
from luminal_lab.interrupts import held
from luminal_lab.kernels.definition.cost import typical
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.machines.rates import PeakRates
from luminal_lab.search.candidates import (
    NONE_FASTER,
    SHOWN,
    Candidate,
    Candidates,
    candidates_of,
    table_of,
)
from luminal_lab.search.derived import JoinedDerivation, derivation_of
from luminal_lab.search.draws import Draws, Loops, Plan, check_plan
from luminal_lab.search.driver import Answer, Batch, Driver, limits_asked
from luminal_lab.search.executors import Clock
from luminal_lab.search.forms import Form, alone
from luminal_lab.search.limits import limits_of, rates_of, seconds_of, work_of
from luminal_lab.search.program import Program
from luminal_lab.search.regions import SearchRegion
from luminal_lab.search.run import SearchRun
from luminal_lab.search.space import Space, space_of
from luminal_lab.search.target import DEVICES, Target, target_of
from luminal_lab.search.winners import Question, Winner, Winners
from luminal_lab.search.worker import Job, Worker
from luminal_lab.tensor.arguments import told_object

MOST_SIZES = 8
"""The sizes that a search measures at, at most."""
Sizes: TypeAlias = Mapping[str, int | Sequence[int]]
"""A size for each dim to measure at, or several."""


@dataclass(frozen=True)
class Budget:
    """How much a search may spend: seconds, candidates, or whichever ends first.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> y = cx.tensor((64, 64), name="x").softmax(-1).retrieve()
    >>> budget = ll.Budget(seconds=30, candidates=200)
    >>> budget.seconds, budget.candidates
    (30, 200)
    """

    seconds: float = inf
    candidates: float = inf

    @classmethod
    def of(cls, given: object) -> Budget:
        """Return an argument as a budget: a number is seconds.

        >>> ll.Budget.of(30)
        Budget(seconds=30.0, candidates=inf)
        """
        budget = given if isinstance(given, Budget) else None
        if not isinstance(given, bool) and isinstance(given, Real):
            budget = cls(seconds=float(given))
        if budget is None or not (budget.seconds > 0 and budget.candidates >= 1):
            raise ArgumentError(
                f"search: with a budget of {given!r} nothing can be measured",
                hint="give seconds, as in budget=60, or Budget(candidates=100)",
            )
        if budget.seconds == budget.candidates == inf:
            raise ArgumentError(
                "search: the budget has no limit", hint="give seconds, candidates, or both"
            )
        return budget


@told_object("search")
@dataclass
class KernelSearch(Displayed, Explored, Recorded):
    """The search for one kernel's schedule: what was tried, and what was found."""

    definition: Definition
    device: DeviceCompiler
    dims: Mapping[str, int]
    """The sizes at which it is measured."""
    driver: Driver
    forms: tuple[Form, ...]
    """The ways to compute it; the first has the default schedule."""
    programs: Mapping[str, Program]
    """What rules made of its kernels, by the texts of their definitions."""
    refused: tuple[Program, ...]
    """What they made that is less exact than what is written, with the verdict."""
    target: Target
    worker: Worker
    seconds: float = 0.0
    """How long it took, over all its runs."""
    ended: str = ""
    """Why it ended, in words."""
    is_whole: bool = False
    """Whether it came to its end, with the best measured again."""
    others: tuple[Mapping[str, int], ...] = ()
    """The other sizes at which it is measured, if there are several."""
    rules: Rules = field(default=RULES, repr=False, compare=False)
    """The rules that were tried."""
    clock: Clock = field(default=monotonic, repr=False, compare=False)
    """The clock by which its budgets are measured."""
    answers: list[tuple[Batch, Answer]] = field(default_factory=list[tuple[Batch, Answer]])
    """What was asked for and the answers, in order; `replayed` makes the search again from them."""
    watchers: list[Callable[[], object]] = field(
        default_factory=list[Callable[[], object]], repr=False, compare=False
    )
    """Called after each answer."""
    told_limits: Sequence[float | None] = ()
    """The least seconds of each form where it was measured, if that was elsewhere."""

    # -- what was found ----------------------------------------------------------------------------

    @property
    def best(self) -> Candidate:
        """The fastest candidate; the default if none is at least two hundredths faster."""
        return next(candidate for candidate in self.candidates if candidate.is_best)

    @property
    def default(self) -> Candidate:
        """The schedule that the kernel gets without a search."""
        return self.candidates[0]

    @property
    def candidates(self) -> Candidates:
        """All candidates, in order; the first is the default."""
        known = self.driver, self.definition, self.forms, self.target
        return candidates_of(*known, self.limits)

    @property
    def limits(self) -> Sequence[float | None]:
        """The least seconds of each form, by the rates of where it was measured, if known."""
        if self.driver.limits:
            return [limit.seconds for limit in self.driver.limits]
        if self.told_limits:
            return self.told_limits
        rates = None if self.others else rates_of(self.device)
        return seconds_of(self.forms, self.dims, rates)

    @property
    def refusals(self) -> Mapping[str, int]:
        """How often a plan or a step refused a schedule before it was a candidate, by reason."""
        return dict(self.driver.draws.refusals)

    @property
    def question(self) -> Question:
        """The question under which winners keep it."""
        return Question(self.definition, self.dims, self.target.signature(), self.others)

    @property
    def unfused(self) -> Candidate:
        """The fastest candidate that keeps the kernels apart; longer measurements count first."""
        apart = max(self.forms, key=lambda form: len(form.stages))
        if self.best.form is apart:
            return self.best
        trials = self.driver.trials
        tried = [c for c in self.candidates if c.form is apart and c.ratio is not None]
        final = [c for c in tried if c.number and trials[c.number - 1].final is not None]
        return min(final or tried, key=lambda one: one.ratio or inf, default=self.default)

    @property
    def derivation(self) -> JoinedDerivation:
        """How the kernels of the best came from what was written: rules, then steps."""
        return derivation_of(self.best, self.definition, self.rules)

    @cached_property
    def space(self) -> Space:
        """The programs that rules give for it, as a graph of classes to walk through."""
        return space_of(self.definition, self.rules)

    def take(self, winner: Winner) -> bool:
        """Begin with what was found before; return whether it could be read."""
        try:
            answers = winner.answers
            self.driver.restore(answers)
        except ValueError as error:
            warn(f"search: what was found before is refused, and searched again: {error}")
            return False
        self.answers = answers
        self.ended = f"found before ({winner.created}); nothing was measured"
        return True

    def keep(self, winners: Winners) -> None:
        """Keep what was found for later searches."""
        winners.keep(self.question, self.forms, self.driver, self.answers)

    # -- going on ----------------------------------------------------------------------------------

    def resume(self, budget: float | Budget = 60, executor: Executor | None = None) -> KernelSearch:
        """Go on with the search, and return it."""
        name = self.definition.name
        go_on({name: self}, {name: 1}, budget_of(budget, executor), executor, self.clock)
        return self

    def job(self, batch: Batch, seconds: float | None = None) -> str:
        """Return the text of the job that measures a batch within `seconds`."""
        drafts = tuple(draft.schedule for draft in batch.drafts)
        return str(
            Job(
                str(self.definition),
                self.driver.draws.default.schedule,
                drafts,
                self.forms,
                tuple(draft.form for draft in batch.drafts),
                self.dims,
                *self.target.job,
                self.driver.seed,
                batch.best,
                batch.is_last,
                self.target.device,
                seconds,
                self.others,
            )
        )

    def tell(self, batch: Batch, answer: Answer) -> None:
        """Take in the answer to a batch."""
        self.driver.tell(batch, answer)
        self.answers.append((batch, answer))
        for watcher in [*self.watchers]:
            watcher()

    def replay(self, answers: Sequence[tuple[Batch, Answer]]) -> None:
        """Take in another search's answers, if this one asks for the same batches."""
        told, limits = 0, limits_asked(answers)
        # Limits are known for each form, or, with a single form, for none.
        assert not answers or len(limits) == len(self.driver.limits), "its forms are different"
        self.driver.limits = limits
        for at, (batch, _) in enumerate(answers):
            assert batch.after <= at, "a batch comes before the answers that it needs"
            while told < batch.after:
                self.tell(*answers[told])
                told += 1
            asked = self.driver.last() if batch.is_last else self.driver.ask(batch.most)
            if asked != batch:
                others = set(() if asked is None else asked.drafts) - set(batch.drafts)
                raise ArgumentError(
                    f"search: batch {batch.number} asks for {len(others) or 'other'} schedules "
                    "that nobody has measured",
                    hint="the same plan, seed and version ask for the same schedules",
                )
        for answer in answers[told:]:
            self.tell(*answer)

    @property
    def work(self) -> float:
        """The work of what is computed, in operations."""
        return work_of(self.definition, self.dims)

    @property
    def exhausted(self) -> str:
        """Why there is nothing new to measure, in words."""
        if self.driver.trials or not self.refusals:
            return "there are no other schedules"
        why = max(self.refusals, key=lambda reason: self.refusals[reason])
        return f"the plan refuses all {sum(self.refusals.values())} draws: {why}"

    @property
    def standing(self) -> str:
        """How the best compares with the default, in words."""
        best = self.driver.best
        return f"{best[0].rank:.3f} of the default" if best else "none is right so far"

    # -- shown -------------------------------------------------------------------------------------

    @override
    def __str__(self) -> str:
        candidates, best = self.candidates, self.best
        lines = [f"search of {self.definition.name}: {len(candidates)} candidates, {self.ended}"]
        if self.target.model:
            lines.append(
                f"nothing was measured: times are those of a model of {self.target.model}, and "
                "values were checked in the emulator"
            )
        if best.ratio is not None and best.number:
            lines.append(f"the best takes {best.ratio:.3f} of the default's time")
        elif best.ratio is not None:
            lines.append(NONE_FASTER)
        errors = sum(candidate.error is not None for candidate in candidates)
        refused = sum(self.refusals.values())
        lines.append(f"{errors} failed or were refused; steps refused {refused} more")
        return "\n".join([*lines, "", *table_of(candidates.ranked[:SHOWN])])

    @override
    def __repr__(self) -> str:
        return f"<KernelSearch {self.definition.name}: {self.best.told}; print(…) shows it>"


def go_on(
    searches: Mapping[str, KernelSearch],
    counts: Mapping[str, int],
    budget: Budget,
    executor: Executor | None,
    clock: Clock,
    kept: Callable[[str], object] = lambda _: None,
) -> None:
    """Go on with several searches within one budget, and call `kept` for each that is finished.

    Nothing is lost when they end early; the error is raised if nothing was measured at all.
    """
    for search in searches.values():
        search.is_whole = False
    weights = {name: counts[name] * search.work for name, search in searches.items()}
    limits = budget.seconds, budget.candidates
    run = SearchRun(searches, weights, counts, *limits, executor, clock, kept)
    try:
        with held():
            run.run()
    except KeyboardInterrupt:
        for name in searches.keys() - run.errors.keys():
            searches[name].ended = "Ctrl-C"
    except DeviceError as error:
        run.errors |= dict.fromkeys(searches.keys() - run.errors.keys(), error)
    if run.errors and not any(search.answers for search in searches.values()):
        raise next(iter(run.errors.values()))
    for name, error in run.errors.items():
        searches[name].ended = error.message
    for message in dict.fromkeys(error.message for error in run.errors.values()):
        warn(f"search: it ended early, and what was found is kept: {message}")


def budget_of(budget: object, executor: object, seed: object = 0) -> Budget:
    """Return the budget of a search after checking it and its other arguments."""
    expect(executor, Executor | None, "search: the executor is {}", "give one of any library")
    if whole_number(seed) is None:
        raise ArgumentError(f"search: the seed is {seed!r}", hint="give a whole number")
    return Budget.of(budget)


def search_kernel(
    definition: Definition | str,
    device: DeviceCompiler | None = None,
    *,
    budget: float | Budget = 60,
    seed: int = 0,
    executor: Executor | None = None,
    dims: Sizes | None = None,
    winners: Winners | None = None,
    plan: Plan | None = None,
    worker: Worker | None = None,
    clock: Clock = monotonic,
) -> KernelSearch:
    """Search for the fastest schedule of a definition, for sizes of its dims.

    What `winners` has found before is not measured again; what is found is kept there. `plan` says
    which schedules there are; `worker` answers jobs, both as text; a budget is measured by `clock`.
    """
    budget = budget_of(budget, executor, seed)
    begin = partial(begun, device=device, seed=seed, dims=dims, plan=plan, worker=worker)
    search = begin(definition)
    search.clock = clock
    if winners is not None and (winner := winners.find(search.question)):
        known = begin(SearchRegion(search.definition, winner.forms))
        if known.take(winner):
            known.clock = clock
            return known
    search.resume(budget, executor)
    if winners is not None and search.is_whole:
        search.keep(winners)
    return search


def begun(
    definition: Definition | SearchRegion | str,
    device: DeviceCompiler | None = None,
    *,
    seed: int = 0,
    dims: Sizes | None = None,
    plan: Plan | None = None,
    worker: Worker | None = None,
    rates: PeakRates | None = None,
) -> KernelSearch:
    """Return a search that has measured nothing yet; the machine's rates say what cannot win."""
    device = CPUCompiler() if device is None else device
    expect(device, DeviceCompiler, "search: the device is {}", DEVICES)
    check_plan(plan)
    target = target_of(device)
    region = definition if isinstance(definition, SearchRegion) else _region(definition, target)
    *others, sizes = each_size(region.definition, dims or {})
    if others and target.device:
        raise ArgumentError(
            "search: a GPU's kernels are measured at one size of each dim",
            hint="search for each size separately; a CPU's are measured at several",
        )
    machine = target.signature() if rates is not None else ""
    limits = limits_of(region.forms, sizes, None if others else rates, machine)
    driver = Driver(Draws(loops_of(region.forms, target, plan)), seed, limits)
    known = driver, region.forms, region.programs, region.refused, target
    search = KernelSearch(region.definition, device, sizes, *known, worker or target.worker)
    search.others, search.rules = tuple(others), region.rules
    return search


def _region(definition: object, target: Target) -> SearchRegion:
    """Return a definition as a region with one form."""
    written = parse_definition(definition) if isinstance(definition, str) else definition
    expect(written, Definition, "search: {} is not a definition", "kernel.definition is one")
    assert isinstance(written, Definition)
    written = target.defined(written)
    return SearchRegion(written, (alone(written),))


def loops_of(forms: Sequence[Form], target: Target, plan: Plan | None = None) -> list[list[Loops]]:
    """Return what the schedules of forms are drawn from; forms share the kernels that are equal."""
    known: dict[str, Loops] = {}
    for definition in (definition for form in forms for definition in form.definitions):
        if str(definition) not in known:
            nest = lower(target.defined(definition))
            known[str(definition)] = Loops(nest, target.machine, plan or target.plan)
    return [[known[str(definition)] for definition in form.definitions] for form in forms]


def replayed(search: KernelSearch, plan: Plan | None = None) -> KernelSearch:
    """Return the same search made again from its answers, without measuring anything."""
    region = SearchRegion(search.definition, search.forms, search.programs, search.refused)
    again = begun(region, search.device, seed=search.driver.seed, dims=search.dims, plan=plan)
    again.others, again.rules = search.others, search.rules
    again.replay(search.answers)
    again.ended = search.ended
    return again


def each_size(definition: Definition, dims: Sizes) -> list[dict[str, int]]:
    """Return all sizes to measure at: for each dim one, or several in a list."""
    lists: dict[str, Sequence[int]] = {}
    for name, given in dims.items():
        is_list = isinstance(given, (list, tuple)) and given
        lists[name] = cast("Sequence[int]", given if is_list else (given,))
    count = prod(map(len, lists.values()))
    if count > MOST_SIZES:
        raise DimError(
            f"search: dims say {count} sizes, and {MOST_SIZES} are measured at most",
            hint="each candidate is measured at each: give a small one and a large one",
        )
    return [
        sizes_of(definition, dict(zip(lists, sizes, strict=True)))
        for sizes in product(*lists.values())
    ]


def question_of(definition: Definition, dims: Sizes, machine: str) -> Question:
    """Return the question under which winners keep a search."""
    *others, sizes = each_size(definition, dims)
    return Question(definition, sizes, machine, tuple(others))


def sizes_of(definition: Definition, dims: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes to measure at: the given ones, and typical ones for the rest."""
    for name, size in dims.items():
        if name not in definition.dims:
            hint = nearest(name, definition.dims) or (
                f"it has {', '.join(definition.dims)}" if definition.dims else "its sizes are fixed"
            )
            raise DimError(f"search: {definition.name} has no dim {name!r}", hint=hint)
        if whole_number(size) is None:
            raise DimError(f"search: {name} is {size!r}", hint="give a whole number")
        check_bounds(definition.dims[name], size)
    return {name: dims.get(name, typical(symbol)) for name, symbol in definition.dims.items()}
