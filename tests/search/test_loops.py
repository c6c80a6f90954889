"""A search as its user holds it: budgets, executors, Ctrl-C, words for what goes wrong."""

import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from luminal_lab.devices.build import cache
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.errors import ArgumentError, DimError, ScheduleError
from luminal_lab.interrupts import look
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.steps.choices import Choice
from luminal_lab.kernels.steps.schedule import Scheduling
from luminal_lab.machines.machine import Machine
from luminal_lab.plain import plain
from luminal_lab.search import loops, measure, worker
from luminal_lab.search.driver import WRONG
from luminal_lab.search.loops import Budget, KernelSearch, replayed, search_kernel
from luminal_lab.search.worker import answer_of
from tests.needs import need
from tests.processes import children
from tests.search.planted import guess, matmul, seconds_of, tiles


def searched(count: int = 40, **more: object) -> KernelSearch:
    """Return a search of a product by times that depend on schedules alone."""
    options = {"plan": tiles, "worker": guess, "budget": Budget(candidates=count), **more}
    return search_kernel(matmul(70, 60, 50), **options)


# -- what is found ---------------------------------------------------------------------------------


def test_the_best_is_the_fastest_of_all_candidates():
    search = searched()
    assert len(search.candidates) == 41
    assert search.ended == "the budget is spent"
    fastest = min(search.candidates[1:], key=lambda one: one.seconds or 1)
    assert search.best == fastest
    assert search.best.state == "fastest"
    assert search.best.ratio == seconds_of(fastest.text) / 2e-4
    assert search.default is search.candidates[0] or search.default == search.candidates[0]
    assert search.default.state == "default"
    assert search.default.ratio == 1.0
    assert search.best.error is None
    assert str(search.best.schedules["mm"]) == search.best.text
    assert search.best.definitions["mm"] == search.definition
    assert "kernel_mm" in search.best.source
    assert str(search).startswith(
        "search of mm: 41 candidates, the budget is spent\nthe best takes"
    )


def test_candidates_are_a_table():
    need("pandas")
    table = searched(8).candidates.to_pandas()
    assert [*table.columns][:5] == ["kernel", "number", "form", "state", "why"]
    assert len(table) == 9
    assert (table.state == "fastest").sum() == 1


def test_a_search_is_made_again_from_its_answers():
    search = searched()
    assert str(replayed(search, tiles).candidates) == str(search.candidates)


def test_a_search_goes_on():
    search = searched(16)
    first = [one.text for one in search.candidates]
    search.resume(Budget(candidates=16))
    assert [one.text for one in search.candidates][:17] == first
    assert len(search.candidates) == 33
    assert str(replayed(search, tiles).candidates) == str(search.candidates)


# -- Ctrl-C ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [1, 2, 3])
def test_ctrl_c_keeps_what_was_found(at: int):
    count = 0

    def interrupted(job: str) -> str:
        nonlocal count
        count += 1
        if count == at:
            os.kill(os.getpid(), signal.SIGINT)
            look()
        return guess(job)

    search = searched(worker=interrupted)
    assert search.ended == "Ctrl-C"
    known = 8 * (at - 1)
    assert len(search.candidates) == 1 + known
    search.resume(Budget(candidates=48 - known))
    whole = searched(48)
    assert [one.text for one in search.candidates] == [one.text for one in whole.candidates]


# -- words -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [0, -1, float("nan"), True, "60", Budget(candidates=0)])
def test_a_budget_in_which_nothing_can_be_measured(budget: object):
    with pytest.raises(ArgumentError, match="nothing can be measured\nhint: give seconds"):
        searched(budget=budget)


def test_a_budget_may_be_a_number_of_numpy():
    assert Budget.of(np.float32(2)) == Budget.of(np.int64(2)) == Budget(seconds=2.0)


def test_words_for_what_does_not_fit():
    with pytest.raises(ArgumentError, match="the budget has no limit"):
        searched(budget=float("inf"))
    with pytest.raises(ArgumentError, match="search: the executor is 2\nhint: give one"):
        searched(executor=2)
    with pytest.raises(ArgumentError, match="search: the seed is 'x'"):
        searched(seed="x")
    with pytest.raises(DimError, match="search: mm has no dim 'n'\nhint: its sizes are fixed"):
        searched(dims={"n": 3})
    with pytest.raises(ArgumentError, match="search: the device is 'cpu'"):
        searched(device="cpu")


def refuses(nest: Nest, machine: Machine, asked: Mapping[str, int]) -> Scheduling:
    scheduling = Scheduling(nest, asked=asked)
    if scheduling.choose(Choice("rows", 8, 16, 32)) != 8:
        raise ScheduleError("rows: more of them do not fit")
    return scheduling


def test_a_plan_that_refuses_all_draws_says_so():
    search = searched(plan=refuses)
    assert search.ended.startswith("the plan refuses all ")
    assert search.ended.endswith("draws: rows: more of them do not fit")
    assert search.best == search.default
    assert search.best.seconds == 2e-4


# -- measured --------------------------------------------------------------------------------------


@pytest.fixture
def _measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compile into a folder of this run's own, and measure little."""
    need("cc")
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "user_folder", lambda: folder)
        patch.setattr(worker, "spare_folder", lambda: folder)
        patch.setattr(measure, "MEASURING", 0.0)
        yield


@pytest.mark.usefixtures("_measured")
def test_a_product_in_three_loops_is_searched():
    search = search_kernel(matmul(13, 17, 40), CPUCompiler(threads=2), budget=Budget(candidates=6))
    states = {one.state for one in search.candidates}
    assert states <= {"fastest", "default", "slower", "stopped"}
    assert search.default.seconds is not None
    assert not any(WRONG in one.why for one in search.candidates)


def test_what_is_measured_for_longer_is_what_keeps_kernels_apart():
    search = search_kernel(matmul(70, 60, 50), budget=Budget(candidates=40), worker=guess)
    assert search.best.number
    assert search.unfused.number == search.best.number  # one kernel is apart from all others


def test_a_candidate_has_its_spread_and_the_limit_of_the_machine(monkeypatch: pytest.MonkeyPatch):
    def rounds(job: str) -> str:
        answer = answer_of(guess(job))
        told = [
            replace(one, samples=tuple(share * one.samples[0] for share in (1.0, 1.2, 1.4)))
            for one in (answer.reference, *answer.outcomes)
        ]
        return json.dumps(plain(replace(answer, reference=told[0], outcomes=tuple(told[1:]))))

    monkeypatch.setattr(loops, "rates_of", lambda *_: None)
    search = search_kernel(matmul(70, 60, 50), budget=Budget(candidates=4), worker=rounds)
    assert all(one.limit is None for one in search.candidates)
    monkeypatch.setattr(loops, "seconds_of", lambda forms, *_: [1e-6] * len(forms))
    assert [one.limit for one in search.candidates] == [1e-6] * len(search.candidates)
    timed = [one for one in search.candidates if one.seconds is not None]
    assert timed
    shares = [one.spread / one.seconds for one in timed if one.spread and one.seconds]
    np.testing.assert_allclose(shares, [0.2 / 1.2] * len(timed))
    heads, *rows = str(search).splitlines()[-1 - len(timed) :]
    assert [*heads.split()][2:5] == ["time", "spread", "limit"]
    assert all(" ± " in row and " 1 µs " in row for row in rows)
    need("pandas")
    assert [*search.candidates.to_pandas()["limit"]] == [1e-6] * len(search.candidates)


@pytest.mark.usefixtures("_measured")
def test_symbolic_dims_have_sizes():
    text = "kernel total(x: f32[n]) -> (y: f32[])\n  y[] = sum i < n: x[i]"
    search = search_kernel(text, budget=Budget(candidates=2), dims={"n": 100}, plan=refuses)
    assert search.dims == {"n": 100}
    assert search.best.seconds is not None


@pytest.mark.usefixtures("_measured")
@pytest.mark.parametrize("delay", [0.02, 0.1, 0.3, 0.6])
def test_ctrl_c_while_a_batch_is_measured_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, delay: float
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = children()
    timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))

    def soon(job: str) -> str:
        if timer.ident is None:  # one signal, not one for each batch
            timer.start()
        time.sleep(delay if delay < 0.1 else 0)
        return worker.work(job)

    search = search_kernel(
        matmul(13, 17, 40), worker=soon, budget=Budget(candidates=640), plan=tiles
    )
    timer.join()
    assert search.ended == "Ctrl-C"
    assert search.best is not None
    assert children() == before
    assert [path.name for path in tmp_path.iterdir()] == []
