"""A search that goes on until its budget is spent: batches of regions, and whose turn it is.

    ask ──→ [batch, batch] ──→ measured here, or by an executor ──→ told
     ↑                                                               │
     └─────────────── whose turn it is (allocation.py) ──────────────┘

Two batches are open at once: an executor compiles one while it measures the other. Measured here,
the second one waits, so the same batches are asked for wherever they are measured. Part of a budget
in seconds is kept for the last round, in which the best are measured again; each job says how long
it may take.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from math import inf
from statistics import mean
from typing import TYPE_CHECKING

from luminal_lab.errors import DeviceError, LabError
from luminal_lab.interrupts import look
from luminal_lab.progress import progress
from luminal_lab.search.allocation import Claim, next_turn
from luminal_lab.search.driver import AHEAD, Answer, Batch
from luminal_lab.search.executors import Clock, awaited, check_workers, sent, unmeasured
from luminal_lab.search.worker import answer_of

if TYPE_CHECKING:
    from luminal_lab.search.loops import KernelSearch

SENT = 2
"""How often a batch is sent if its worker dies."""
LAST, MOST_LAST = 1.2, 0.3
"""How long the last rounds of a region take, as a share of a batch's time; and the share of a
budget that they may take in all."""
LAST_TURNS = 3
"""How often the best are measured again: a lucky batch may hide a faster schedule."""
TRAVEL = 0.9
"""The share of a job's time that a worker elsewhere gets: the rest is for transport."""
SPENT = "the budget is spent"
NEVER = "the budget was spent before anything was measured"


@dataclass
class OpenBatch:
    """An open batch of a region."""

    name: str
    batch: Batch
    begin: float
    future: Future[str] | None = None


@dataclass
class SearchRun:
    """The searches of several regions within one budget."""

    searches: Mapping[str, KernelSearch]
    weights: Mapping[str, float]
    """The work of each region in a run of the program."""
    counts: Mapping[str, int]
    """How often each is launched."""
    seconds: float
    candidates: float
    executor: Executor | None
    clock: Clock
    kept: Callable[[str], object] = lambda _: None
    """Called for each region that is finished."""
    errors: dict[str, DeviceError] = field(default_factory=dict[str, DeviceError])
    """Why regions ended early."""

    def __post_init__(self) -> None:
        self.end = self.clock() + self.seconds
        self.left = self.candidates
        self.line = deque[OpenBatch]()
        self.batch_seconds: dict[str, float] = {}
        """The longest time that a batch of each region has taken."""
        self.done: set[str] = set()
        """The regions that have no new schedules."""
        self.told = 0.0
        """When the last answer came."""

    def run(self) -> None:
        """Measure batch after batch, and at the end the best again."""
        if self.executor is not None:
            check_workers(self.executor)
        self.told = self.clock()
        try:
            with progress(f"search {self._title}", None, "candidate") as bar:
                while self._fill() or self.line:
                    turn = self._told(self.end - self._reserve)
                    if turn is not None:
                        bar.step(len(turn.batch.drafts))
                        bar.now(self.searches[turn.name].standing)
                self._finish()
        finally:
            self._drop()

    @property
    def _title(self) -> str:
        names = [search.definition.name for search in self.searches.values()]
        return names[0] if len(names) == 1 else f"{len(names)} regions"

    # -- batches -----------------------------------------------------------------------------------

    def _fill(self) -> bool:
        """Ask for batches until the line is full; return whether there are any."""
        while len(self.line) < AHEAD and (turn := self._asked()) is not None:
            self.line.append(turn)
        return bool(self.line)

    def _asked(self) -> OpenBatch | None:
        """Return the next batch; None if the budget is spent or nothing is new."""
        while waiting := {
            at: self._claim(name)
            for at, name in enumerate(self.searches)
            if name not in self.done and name not in self.errors
        }:
            if self.left < 1 or self.clock() >= self.end - self._reserve:
                return None
            name = [*self.searches][next_turn(waiting)]
            search = self.searches[name]
            batch = search.driver.ask(self._most(waiting.values()))
            if batch is not None:
                self.left -= len(batch.drafts)
                return self._opened(name, batch, self.end - self._reserve)
            self.done.add(name)
        return None

    def _most(self, claims: Collection[Claim]) -> int | None:
        """Return how many schedules the next batch may have: each region should get some."""
        first = sum(not claim.turns for claim in claims)
        return None if self.left == inf else max(1, int(self.left) // max(1, first))

    def _claim(self, name: str) -> Claim:
        driver = self.searches[name].driver
        if not driver.drawn:
            return Claim(self.weights[name], driver.gain, 0)
        return Claim(self.counts[name] * (driver.seconds or 0.0), driver.gain, driver.drawn)

    @property
    def _reserve(self) -> float:
        """The seconds that are kept for the last round."""
        if self.seconds == inf:
            return 0.0
        known = self.batch_seconds.values()
        expected = LAST * mean(known) * len(self.searches) if known else inf
        return min(MOST_LAST * self.seconds, expected)

    def _finish(self) -> None:
        """Measure the best of each region again, those with the most work first."""
        names = sorted(self.searches, key=lambda name: -self.weights[name])
        names = [name for name in names if name not in self.errors]
        for at, name in enumerate(names):
            search = self.searches[name]
            search.ended = search.exhausted if name in self.done else SPENT
            now = self.clock()
            until = now + (self.end - now) / (len(names) - at)
            is_over = now >= self.end
            for turn in range(LAST_TURNS):
                batch = None if is_over or self.clock() >= until else search.driver.last()
                if batch is None:
                    break
                self.line.append(self._opened(name, batch, until))
                is_cut_off = self._told(until) is None or is_cut(search.answers[-1][1])
                is_over = is_cut_off and not turn
            if name in self.errors:
                continue
            if not search.driver.reference:
                search.ended = NEVER
            search.is_whole = not is_over and bool(search.driver.trials or name in self.done)
            if search.is_whole:
                self.kept(name)

    # -- measured ----------------------------------------------------------------------------------

    def _opened(self, name: str, batch: Batch, until: float) -> OpenBatch:
        """Return a batch, already sent off if there is an executor."""
        turn = OpenBatch(name, batch, self.clock())
        if self.executor is not None:
            turn.future = self._sent(turn, until)
        return turn

    def _sent(self, turn: OpenBatch, until: float) -> Future[str]:
        assert self.executor is not None, "batches are sent to an executor"
        search = self.searches[turn.name]
        return sent(self.executor, search.worker, search.job(turn.batch, self._within(until)))

    def _within(self, until: float) -> float | None:
        if until == inf:
            return None
        share = 1.0 if self.executor is None else TRAVEL
        return max(0.0, until - self.clock()) * share

    def _told(self, until: float) -> OpenBatch | None:
        """Give a region the answer to the oldest open batch; None if there is no answer."""
        turn = self.line[0]
        search = self.searches[turn.name]
        begin = max(turn.begin, self.told) if turn.future else self.clock()
        if turn.name in self.errors:
            self.line.popleft()
            return None
        text = self._text(turn, until)
        if text is None:  # the budget is spent
            self._drop()
            return None
        try:
            search.tell(turn.batch, answer_of(text))
        except DeviceError as error:
            self.errors[turn.name] = error
            search.ended = error.message
            search.driver.drop()
            self.line.popleft()
            return None
        self.line.popleft()
        self.told = self.clock()
        spent = self.batch_seconds.get(turn.name, 0.0)
        self.batch_seconds[turn.name] = max(spent, self.told - begin)
        search.seconds += self.told - begin
        look()
        return turn

    def _text(self, turn: OpenBatch, until: float) -> str | None:
        """Return the answer to a batch as text; send a lost batch again."""
        search = self.searches[turn.name]
        if self.executor is None:
            if self.clock() >= until:
                return None
            return search.worker(search.job(turn.batch, self._within(until)))
        for attempt in range(SENT):
            assert turn.future is not None, "it was sent"
            try:
                return awaited(turn.future, self.executor, self.clock, until)
            except LabError:
                raise
            except Exception as error:  # each library raises its own error for a worker that dies
                if attempt == SENT - 1:
                    raise unmeasured(error) from error
            turn.future = self._sent(turn, until)
        return None

    def _drop(self) -> None:
        """Take back what is open."""
        for turn in self.line:
            if turn.future is not None:
                turn.future.cancel()
        self.line.clear()
        for search in self.searches.values():
            search.driver.drop()


def is_cut(answer: Answer) -> bool:
    """Return whether the budget ran out before all of a batch was measured."""
    return any(o.state == "skipped" for o in (answer.reference, *answer.outcomes))
