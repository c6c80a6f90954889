"""The search over the loops of one kernel: draw schedules, measure them, go on from the best.

    search = search_kernel(definition, ll.CPUCompiler(), budget=10)
    search.best         the fastest schedule that computes what it should
    search.candidates   all that were tried, those that failed too

It is never worse than the default schedule, which is measured beside the others. Ctrl-C, or a
worker that is lost, ends a search early; what was found so far is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, field
from math import inf
from time import monotonic

from typing_extensions import override

from luminal_lab.core.dims import check_bounds
from luminal_lab.core.origin import warn
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.devices.runtime.compiler import DeviceCompiler
from luminal_lab.display import Displayed, Explored
from luminal_lab.errors import (
    ArgumentError,
    DeviceError,
    DimError,
    LabError,
    expect,
    nearest,
    whole_number,
)
from luminal_lab.interrupts import held, look
from luminal_lab.kernels.definition.cost import typical
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.programs import nameless
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.progress import progress
from luminal_lab.search.candidates import SHOWN, Candidate, Candidates, candidates_of, table_of
from luminal_lab.search.derivation import JoinedDerivation
from luminal_lab.search.draws import Draws, Loops, Plan
from luminal_lab.search.driver import Answer, Batch, Driver
from luminal_lab.search.forms import Form, alone
from luminal_lab.search.program import Program
from luminal_lab.search.regions import Region
from luminal_lab.search.target import DEVICES, Target, target_of
from luminal_lab.search.winners import Question, Winner, Winners
from luminal_lab.search.worker import Job, Worker, answer_of

AHEAD = 2
"""The batches that an executor has at once: while one is measured, the next is compiled."""
SILENT = 300.0
"""The seconds after which an executor that has not answered is given up."""
SENT = 2
"""How often a batch is sent whose worker dies."""
POLL = 0.1


@dataclass(frozen=True)
class Budget:
    """How much a search may spend: seconds, candidates, or whichever ends first."""

    seconds: float = inf
    candidates: float = inf

    @classmethod
    def of(cls, given: object) -> Budget:
        """Return an argument as a budget: a number is seconds."""
        budget = given if isinstance(given, Budget) else None
        if isinstance(given, (int, float)) and not isinstance(given, bool):
            budget = cls(seconds=float(given))
        if budget is None or not (budget.seconds > 0 and budget.candidates >= 1):
            raise ArgumentError(
                f"search: with a budget of {given!r} nothing can be measured",
                hint="give seconds, as in budget=60, or Budget(candidates=100)",
            )
        if budget.seconds == budget.candidates == inf:
            raise ArgumentError(
                "search: a budget without an end", hint="give seconds, candidates, or both"
            )
        return budget


@dataclass
class KernelSearch(Displayed, Explored):
    """The search for one kernel's schedule: what was tried, and what was found."""

    definition: Definition
    device: DeviceCompiler
    dims: Mapping[str, int]
    driver: Driver
    forms: tuple[Form, ...]
    """The ways to compute it; the first has the default schedule."""
    programs: Mapping[str, Program]
    """What rules have made of its kernels, by the texts of their definitions."""
    refused: tuple[Program, ...]
    """What they have made that is less exact than what is written, with the verdict."""
    target: Target
    worker: Worker
    seconds: float = 0.0
    """How long it took, all runs of it together."""
    ended: str = ""
    """Why it ended, in words."""
    is_whole: bool = False
    """Whether it came to its end, with the best measured again."""
    answers: list[tuple[Batch, Answer]] = field(default_factory=list[tuple[Batch, Answer]])
    """What was asked for and what came of it, in order; `replayed` makes the search of it again."""
    watchers: list[Callable[[], object]] = field(
        default_factory=list[Callable[[], object]], repr=False, compare=False
    )
    """Called after each answer."""

    # -- what was found ----------------------------------------------------------------------------

    @property
    def best(self) -> Candidate:
        """The fastest candidate; the default one if none is faster by two hundredths."""
        return next(one for one in self.candidates if one.is_best)

    @property
    def default(self) -> Candidate:
        """The schedule that the kernel gets without a search."""
        return self.candidates[0]

    @property
    def candidates(self) -> Candidates:
        """All that were tried, in order; the default is the first."""
        return candidates_of(self.driver, self.definition, self.forms, self.target)

    @property
    def refusals(self) -> Mapping[str, int]:
        """How often a plan or a step refused a schedule before it was a candidate, by reason."""
        return dict(self.driver.draws.refusals)

    @property
    def question(self) -> Question:
        """What is searched for, as winners are kept by."""
        return Question(self.definition, self.dims, self.target.signature())

    @property
    def unfused(self) -> Candidate:
        """The fastest of those that keep the kernels apart."""
        apart = max(self.forms, key=lambda form: len(form.stages))
        tried = [one for one in self.candidates if one.form is apart and one.ratio is not None]
        return min(tried, key=lambda one: one.ratio or inf, default=self.default)

    @property
    def derivation(self) -> JoinedDerivation:
        """The firings of rules that lead to what the best computes; none if it is as written."""
        programs = [self.programs.get(nameless(one)) for one in self.best.form.definitions]
        return JoinedDerivation(tuple(program.derivation for program in programs if program))

    def take(self, winner: Winner) -> bool:
        """Begin with what was found before; return whether it can be read."""
        try:
            self.driver.restore(winner.trials, winner.reference, winner.noise)
        except ValueError as error:
            warn(f"search: what was found before is refused, and searched again: {error}")
            return False
        self.ended = f"found before ({winner.created}); nothing was measured"
        return True

    # -- going on ----------------------------------------------------------------------------------

    def resume(self, budget: float | Budget = 60, executor: Executor | None = None) -> KernelSearch:
        """Go on with the search, and return it."""
        budget = budget_of(budget, executor)
        try:
            with held():
                self._run(budget, executor)
        except KeyboardInterrupt:
            self.ended = "Ctrl-C"
        return self

    def _run(self, budget: Budget, executor: Executor | None) -> None:
        begin, self.is_whole = monotonic(), False
        try:
            if executor is None:
                _Inline(self, budget, begin).run()
            else:
                _Spread(self, budget, begin, executor).run()
            self.is_whole = True
        except DeviceError as error:
            if not self.answers:
                raise
            self.ended = error.message
            warn(f"search: it ended early, and what was found is kept: {error.message}")
        finally:
            self.driver.drop()
            self.seconds += monotonic() - begin

    def job(self, batch: Batch) -> str:
        """Return the text of the job that measures a batch."""
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
            )
        )

    def tell(self, batch: Batch, answer: Answer) -> None:
        """Take in what came of a batch."""
        self.driver.tell(batch, answer)
        self.answers.append((batch, answer))
        for watcher in [*self.watchers]:
            watcher()

    @property
    def standing(self) -> str:
        """How the best stands against the default, in words."""
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
            lines.append("none is faster than the default")
        errors = sum(one.error is not None for one in candidates)
        refused = sum(self.refusals.values())
        lines.append(f"{errors} failed or were refused; steps refused {refused} more")
        ordered = sorted(candidates, key=lambda one: inf if one.ratio is None else one.ratio)
        return "\n".join([*lines, "", *table_of(ordered[:SHOWN])])

    @override
    def __repr__(self) -> str:
        return f"<KernelSearch {self.definition.name}: {self.best.told}; print(…) shows it>"


@dataclass
class _Run:
    """A search that goes on until its budget is spent."""

    search: KernelSearch
    budget: Budget
    begin: float

    def __post_init__(self) -> None:
        self.left = self.budget.candidates

    @property
    def is_spent(self) -> bool:
        return self.left < 1 or monotonic() - self.begin >= self.budget.seconds

    def asked(self) -> Batch | None:
        """Return the next batch; None if the budget is spent, or nothing is new."""
        if self.is_spent:
            self.search.ended = "the budget is spent"
            return None
        batch = self.search.driver.ask(None if self.left == inf else int(self.left))
        if batch is None:
            self.search.ended = self._exhausted()
        else:
            self.left -= len(batch.drafts)
        return batch

    def _exhausted(self) -> str:
        refusals = self.search.refusals
        if self.search.driver.trials or not refusals:
            return "there are no other schedules"
        why = max(refusals, key=lambda reason: refusals[reason])
        return f"the plan refuses all {sum(refusals.values())} draws: {why}"


class _Inline(_Run):
    """A search in this process, whose kernels run in children."""

    def run(self) -> None:
        """Measure batch after batch, and at the end the best again."""
        search = self.search
        with progress(f"search {search.definition.name}", None, "candidate") as bar:
            while (batch := self.asked()) is not None:
                self._measured(batch)
                bar.step(len(batch.drafts))
                bar.now(search.standing)
                look()
            self._measured(search.driver.last())

    def _measured(self, batch: Batch | None) -> None:
        if batch is not None:
            self.search.tell(batch, answer_of(self.search.worker(self.search.job(batch))))


@dataclass
class _Spread(_Run):
    """A search by an executor: some compile while another measures."""

    executor: Executor

    def run(self) -> None:
        """Have batches measured, AHEAD at once, and at the end the best again."""
        search, self.pending = self.search, deque[tuple[Batch, Future[str]]]()
        try:
            with progress(f"search {search.definition.name}", None, "candidate") as bar:
                while True:
                    while len(self.pending) < AHEAD and (batch := self.asked()) is not None:
                        self.pending.append((batch, self._sent(batch)))
                    if not self.pending:
                        break
                    bar.step(len(self._told().drafts))
                    bar.now(search.standing)
                if (last := search.driver.last()) is not None:
                    self.pending.append((last, self._sent(last)))
                    self._told()
        finally:
            for _, future in self.pending:
                future.cancel()

    def _told(self) -> Batch:
        """Wait for the batch that was sent first, tell the search of it, and return it."""
        batch, _ = self.pending[0]
        self.search.tell(batch, self._answer(batch))
        self.pending.popleft()
        return batch

    def _answer(self, batch: Batch, times: int = 1) -> Answer:
        """Return the answer to the batch that was sent first, so many times by now."""
        try:
            return answer_of(_awaited(self.pending[0][1]))
        except LabError:
            raise
        except Exception as error:  # each library has its own for a worker that dies
            if times == SENT:
                raise _unmeasured(error) from error
        self.pending[0] = batch, self._sent(batch)
        return self._answer(batch, times + 1)

    def _sent(self, batch: Batch) -> Future[str]:
        job = self.search.job(batch)
        try:
            return self.executor.submit(self.search.worker, job)
        except Exception as error:  # it has been shut down, or its workers have died
            raise _unmeasured(error) from error


def _awaited(future: Future[str]) -> str:
    """Return the answer to a job; Ctrl-C may come meanwhile."""
    end = monotonic() + SILENT
    while not future.done():
        look()
        wait([future], timeout=POLL)
        if monotonic() > end:
            raise DeviceError(
                f"the executor has not answered for {SILENT:g} s",
                hint="look whether it has workers",
            )
    return future.result()


def _unmeasured(error: Exception) -> DeviceError:
    said = ": ".join(filter(None, (type(error).__name__, str(error).partition("\n")[0])))
    return DeviceError(
        f"the executor could not measure a batch: {said}",
        hint="search.resume(executor=…) goes on with another one, or without",
    )


def budget_of(budget: object, executor: object, seed: object = 0) -> Budget:
    """Return the budget of a search, if that and all else that it is asked for is in order."""
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
    dims: Mapping[str, int] | None = None,
    winners: Winners | None = None,
    plan: Plan | None = None,
    worker: Worker | None = None,
) -> KernelSearch:
    """Search for the fastest schedule of what a definition says, for sizes of its dims.

    What `winners` has found before is not measured again; what is found is kept there. `plan` says
    which schedules there are; `worker` answers jobs, both as text.
    """
    budget = budget_of(budget, executor, seed)
    search = begun(definition, device, seed=seed, dims=dims, plan=plan, worker=worker)
    if winners is not None and (winner := winners.find(search.question)):
        known = Region(search.definition, winner.forms)
        search = begun(known, device, seed=seed, dims=dims, plan=plan, worker=worker)
        if search.take(winner):
            return search
    search.resume(budget, executor)
    if winners is not None and search.is_whole:
        winners.keep(search.question, search.forms, search.driver)
    return search


def begun(
    definition: Definition | Region | str,
    device: DeviceCompiler | None = None,
    *,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    plan: Plan | None = None,
    worker: Worker | None = None,
) -> KernelSearch:
    """Return a search that has measured nothing yet."""
    device = CPUCompiler() if device is None else device
    expect(device, DeviceCompiler, "search: the device is {}", DEVICES)
    target = target_of(device)
    region = definition if isinstance(definition, Region) else _region(definition, target)
    driver = Driver(Draws(loops_of(region.forms, target, plan)), seed)
    sizes = sizes_of(region.definition, dims or {})
    known = driver, region.forms, region.programs, region.refused, target
    return KernelSearch(region.definition, device, sizes, *known, worker or target.worker)


def _region(definition: object, target: Target) -> Region:
    """Return a definition as a region that has one form."""
    written = parse_definition(definition) if isinstance(definition, str) else definition
    expect(written, Definition, "search: {} is no definition", "kernel.definition is one")
    assert isinstance(written, Definition)
    written = target.defined(written)
    return Region(written, (alone(written),))


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
    region = Region(search.definition, search.forms, search.programs, search.refused)
    again = begun(region, search.device, seed=search.driver.seed, plan=plan)
    again.dims, again.ended = search.dims, search.ended
    told = 0
    for batch in [batch for batch, _ in search.answers]:
        while told < batch.after:
            again.tell(*search.answers[told])
            told += 1
        asked = again.driver.last() if batch.is_last else again.driver.ask(batch.most)
        assert asked == batch, "the same answers give the same questions"
    for answer in search.answers[told:]:
        again.tell(*answer)
    return again


def sizes_of(definition: Definition, dims: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes to measure at: those given, and typical ones."""
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
