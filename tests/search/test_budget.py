"""A budget is a promise: searches end within it, however many regions there are."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field

import pytest

import luminal_lab as ll
from luminal_lab.core.ir import IR
from luminal_lab.plain import plain
from luminal_lab.search.assembled import apart
from luminal_lab.search.deadline import SKIPPED
from luminal_lab.search.driver import Answer, Outcome
from luminal_lab.search.graph import LATE, ProgramSearch, search_program
from luminal_lab.search.loops import Budget, KernelSearch, begun, search_kernel
from luminal_lab.search.modelled import answered
from luminal_lab.search.regions import SearchRegions
from luminal_lab.search.run import NEVER, SPENT
from luminal_lab.search.winners import Winners
from tests.search.planted import job_of, matmul, seconds_of, tiles

DEVICE = ll.CPUCompiler(threads=2)


@dataclass
class Clock:
    """A clock that goes on only while somebody works."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Slow:
    """A worker that takes so many seconds for each schedule, and heeds the time that it has."""

    clock: Clock
    each: float
    allowed: list[float | None] = field(default_factory=list[float | None])

    def __call__(self, job: str) -> str:
        asked = job_of(job)
        self.allowed.append(asked.seconds)
        end = float("inf") if asked.seconds is None else self.clock.now + asked.seconds
        outcomes: list[Outcome] = []
        for seconds in (2e-4, *map(seconds_of, asked.schedules)):
            self.clock.now = min(end, self.clock.now + self.each)
            is_late = self.clock.now >= end
            outcomes.append(SKIPPED if is_late else Outcome("measured", (seconds,)))
        return json.dumps(plain(Answer(outcomes[0], tuple(outcomes[1:]), "here")))


def searched(budget: float, each: float) -> tuple[KernelSearch, Slow]:
    worker = Slow(Clock(), each)
    search = search_kernel(
        matmul(70, 60, 50), plan=tiles, worker=worker, clock=worker.clock, budget=budget
    )
    return search, worker


@pytest.mark.parametrize("each", [0.3, 1.0, 2.5])
def test_a_search_ends_in_time(each: float):
    search, worker = searched(60, each)
    assert worker.clock.now <= 60
    assert search.ended == SPENT
    assert search.is_whole
    assert search.driver.winner is not None
    assert search.driver.winner.final is not None
    assert 0 < search.seconds <= 60


def test_a_job_says_how_long_it_may_take():
    _, worker = searched(60, 1.0)
    assert worker.allowed[0] == 42  # the rest is kept for the last round
    assert all(seconds is not None and 0 < seconds <= 60 for seconds in worker.allowed)


def test_what_is_not_measured_in_time_is_no_candidate_and_asked_for_again():
    search, worker = searched(10, 0.7)
    count = len(search.candidates)
    assert 2 < count < 16
    assert all(candidate.seconds for candidate in search.candidates)
    worker.each = 0.0
    search.resume(Budget(candidates=48))
    assert len(search.candidates) == count + 48
    assert len({candidate.text for candidate in search.candidates}) == count + 48


def test_a_budget_in_which_nothing_fits_says_so():
    search, worker = searched(0.5, 1.0)
    assert worker.clock.now <= 0.5
    assert search.ended == NEVER
    assert search.best == search.default
    assert search.default.seconds is None
    assert not search.is_whole


@pytest.fixture(scope="module")
def fused() -> IR:
    """A graph of eight different products."""
    cx = ll.Graph()
    for size in range(8, 16):
        (cx.tensor((size, 24)) @ cx.tensor((24, size))).retrieve()
    return ll.compile_ir(cx.ir, ll.GenericCompiler(), apart(DEVICE)).ir


def of_eight(ir: IR, budget: float, each: float, winners: Winners | None = None) -> ProgramSearch:
    worker = Slow(Clock(), each)
    search = search_program(
        ir, DEVICE, budget=budget, worker=worker, clock=worker.clock, winners=winners
    )
    assert worker.clock.now <= budget
    return search


@pytest.mark.parametrize(("budget", "each"), [(60, 1.2), (20, 0.4)])
def test_however_many_regions(fused: IR, budget: float, each: float):
    search = of_eight(fused, budget, each)
    assert len(search.kernels) == 8
    assert all(region.driver.reference for region in search.kernels.values())
    assert {*search.ended.values()} == {SPENT}


def test_regions_for_which_there_is_no_time_keep_their_default(fused: IR):
    search = of_eight(fused, 12, 1.0)
    reached = [region for region in search.kernels.values() if region.driver.reference]
    assert 0 < len(reached) < 8
    assert {region.ended for region in search.kernels.values()} == {SPENT, NEVER}
    assert search.best.seconds is None
    assert len(search.best.schedules) == 8
    assert f"not measured; {NEVER}" in str(search)


def test_only_what_came_to_its_end_is_kept(fused: IR, tmp_path_factory: pytest.TempPathFactory):
    winners = Winners(tmp_path_factory.mktemp("winners") / "winners")
    search = of_eight(fused, 12, 1.0, winners)
    whole = [region for region in search.kernels.values() if region.is_whole]
    kept = [*winners.folder.iterdir()] if winners.folder.is_dir() else []
    assert len(kept) == len(whole) < 8


def test_rules_may_take_half_of_it(fused: IR, monkeypatch: pytest.MonkeyPatch):
    clock, whole = Clock(), SearchRegions.region

    def slow(regions: SearchRegions, chain: object) -> object:
        clock.now += 4
        return whole(regions, chain)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(SearchRegions, "region", slow)
    worker = Slow(clock, 1.0)
    search = search_program(fused, DEVICE, budget=20, worker=worker, clock=clock)
    assert clock.now <= 20
    assert len(search.kernels) == 3
    assert len(search.waiting) == 5
    assert {*search.skipped.values()} == {LATE}
    assert f": not searched: {LATE}" in str(search)
    search.resume(100)
    assert clock.now <= 120
    assert len(search.kernels) == 8
    assert not search.waiting
    assert not search.skipped
    assert search.best.seconds is not None


def test_a_modelled_search_ends_in_time_too():
    """By a clock that goes on by a second whenever somebody looks at it."""
    search = begun(matmul(70, 60, 50), ll.MetalCompiler(chip="m3-max"))
    batch = search.driver.ask(2)
    assert batch is not None
    states: list[str] = []
    for seconds in (0, 5, 10_000):
        looks = itertools.count()
        came = answered(job_of(search.job(batch, seconds)), clock=lambda: float(next(looks)))  # noqa: B023
        states += [outcome.state for outcome in (came.reference, *came.outcomes)]
    assert states[:3] == ["skipped"] * 3
    assert states[-3:] == ["modelled"] * 3
    assert {*states} == {"skipped", "modelled"}
