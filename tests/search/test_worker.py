"""A batch at work: what hangs, crashes, computes wrong or does not compile costs itself alone."""

import errno
import itertools
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from luminal_lab.errors import DeviceError
from luminal_lab.plain import plain
from luminal_lab.search import measure, worker
from luminal_lab.search.driver import WRONG, Answer
from luminal_lab.search.loops import Budget, begun, search_kernel
from luminal_lab.search.worker import answered, measuring
from tests.expect import error_of
from tests.needs import need
from tests.processes import children
from tests.search.planted import faulty, job_of, matmul, tiles


@pytest.fixture(scope="module", autouse=True)
def _measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Measure little."""
    need("cc")
    folder = tmp_path_factory.mktemp("spare")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "spare_folder", lambda: folder)
        patch.setattr(measure, "MEASURING", 0.0)
        yield


def answer(faults: dict[int, str], count: int = 5, **more: object) -> Answer:
    search = begun(matmul(13, 17, 40), plan=tiles)
    batch = search.driver.ask(count)
    assert batch is not None
    return answered(job_of(search.job(batch)), faulty(faults))


def test_faults_of_all_kinds_are_results_of_a_search_that_goes_on():
    faults = {
        1: "for (volatile int x = 1; x;) {}",
        2: "*(volatile int *)0 = 1;",
        3: "((float *)lab_buffers[2])[0] = 7; return;",
        4: "no C;",
    }
    answers: list[Answer] = []

    def measured(text: str) -> str:
        job = job_of(text)
        answers.append(answered(job, faulty({} if answers else faults)))
        return json.dumps(plain(answers[-1]))

    before = children()
    search = search_kernel(
        matmul(13, 17, 40), plan=tiles, worker=measured, budget=Budget(candidates=5)
    )
    assert search.ended == "the budget is spent"
    hang, crash, wrong, broken, right = search.candidates[1:]
    assert hang.why == "it was ended after 1 s"
    assert crash.why == "it writes memory by a null pointer"
    assert wrong.why.startswith(f"{WRONG}c[0, 0] is ")
    assert broken.why.startswith("it does not compile: program.c:")
    assert {c.state for c in (hang, crash, wrong, broken)} == {"failed"}
    assert right.error is None
    assert right.seconds
    assert search.best in (search.default, right)
    assert answers[0].reference.samples
    assert len(answers[0].machine) == 16
    assert children() == before


def test_what_reaches_beyond_its_arrays_is_found():
    told = answer(
        {
            1: "((float *)lab_buffers[2])[13 * 40] = 7;",
            2: "((float *)lab_buffers[2])[-1] = 7;",
            3: "((float *)lab_buffers[0])[0] = 7;",
        },
        3,
    )
    assert [outcome.why for outcome in told.outcomes] == [
        "it writes behind c",
        "it writes before c",
        "it changes its input a",
    ]


def test_what_is_faster_and_wrong_in_any_way_has_no_time():
    element = "((float *)lab_buffers[2])"
    told = answer(
        {
            1: "return;",
            2: f"for (int n = 0; n < 520; n++) {element}[n] = 0; return;",
            3: "lab_buffers = (void *const[]){lab_buffers[0], lab_buffers[0], lab_buffers[2]};",
            4: "static int calls; if (calls++) return;",
            5: f"if ({element}[519] != {element}[519]) {{}} else return;",
        }
    )
    assert [outcome.is_wrong for outcome in told.outcomes[:2]] == [True, True]
    assert [outcome.state for outcome in told.outcomes] == ["failed"] * 5
    assert all(not outcome.samples for outcome in told.outcomes)


def test_no_step_is_looked_for_once_the_time_for_that_is_over(monkeypatch: pytest.MonkeyPatch):
    """By a clock that goes on by four seconds whenever a step is looked for."""
    now, blamed = [0.0], list[str]()

    def wrong_step(definition: object, schedule: str) -> str:
        now[0] += 4
        blamed.append(schedule)
        return "a step"

    monkeypatch.setattr(worker, "wrong_step", wrong_step)
    search = begun(matmul(13, 17, 40), plan=tiles)
    batch = search.driver.ask(5)
    assert batch is not None
    faults = dict.fromkeys(range(1, 6), "return;")
    for seconds, count in ((None, 2), (1e9, 2), (2.0, 1)):
        now[0] = 0.0
        blamed.clear()
        told = answered(job_of(search.job(batch, seconds)), faulty(faults), lambda: now[0])
        assert len(blamed) == count
        assert [outcome.step for outcome in told.outcomes].count("a step") == count
        assert all(outcome.is_wrong for outcome in told.outcomes)


def test_what_goes_wrong_later_is_found_in_the_last_batch():
    search = begun(matmul(13, 17, 40), plan=tiles)
    batch = search.driver.ask(2)
    assert batch is not None
    job = replace(job_of(search.job(batch)), is_last=True)
    told = answered(job, faulty({1: "static int calls; if (calls++ > 30) return;"}))
    assert [outcome.state for outcome in told.outcomes] == ["failed", "measured"]
    assert told.outcomes[0].is_wrong


def test_a_default_that_fails_ends_the_search():
    def make(definition: object, name: str, schedule: str) -> object:
        raise DeviceError("compile: no")

    search = begun(matmul(3, 4, 5), plan=tiles)
    batch = search.driver.ask(1)
    assert batch is not None
    with pytest.raises(DeviceError, match="search: the default kernel fails"):
        answered(job_of(search.job(batch)), make)  # pyright: ignore[reportArgumentType]  # planted


def test_a_batch_that_takes_the_compiler_too_long_is_compiled_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
):
    compile_library, asked = worker.compile_library, list[float]()

    def slow(source: str, *given: object, timeout: float, **more: object) -> Path:
        asked.append(timeout)
        if "candidate_2" in source:
            raise DeviceError(f"compile: it was not ready within {timeout:g} s")
        return compile_library(source, *given, timeout=timeout, **more)  # pyright: ignore[reportArgumentType]  # passed on

    monkeypatch.setattr(worker, "compile_library", slow)
    told = answer({}, 3)
    assert [outcome.state == "failed" for outcome in told.outcomes] == [False, True, False]
    assert told.outcomes[1].why == "it does not compile: it was not ready within 4 s"
    assert asked == [12, 12, 4, 4, 4, 12]


def test_of_a_batch_that_takes_the_compiler_too_long_the_rest_may_be_drawn_again(
    monkeypatch: pytest.MonkeyPatch,
):
    """Each of these takes longer alone than all of them may together."""
    monkeypatch.setattr(worker, "SINGLY", 0.0)
    compile_library = worker.compile_library

    def slow(source: str, *given: object, timeout: float, **more: object) -> Path:
        if "candidate_" in source:
            raise DeviceError(f"compile: it was not ready within {timeout:g} s")
        return compile_library(source, *given, timeout=timeout, **more)  # pyright: ignore[reportArgumentType]  # passed on

    monkeypatch.setattr(worker, "compile_library", slow)
    told = answer({}, 3)
    assert told.reference.seconds is not None
    assert [outcome.state for outcome in told.outcomes] == ["skipped"] * 3


def test_a_full_disk_says_so(monkeypatch: pytest.MonkeyPatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(worker.tempfile, "TemporaryDirectory", full)
    error = error_of(lambda: answer({}), DeviceError)
    assert error.message == "search: a batch could not be measured: No space left on device"
    assert str(error.hint).startswith("make room in ")


def test_a_disk_that_has_no_room_for_a_child_says_so(monkeypatch: pytest.MonkeyPatch):
    def unbuilt(_: object) -> None:
        return None

    monkeypatch.setattr(worker, "builds", unbuilt)
    error = error_of(lambda: answer({}), DeviceError)
    assert "run in a child process, and there is none here" in error.message
    assert str(error.hint).startswith("it could not be built: check whether ")


def test_what_is_not_measured_in_time_is_skipped_and_never_fails():
    """By a clock that goes on by a second whenever somebody looks at it."""
    search = begun(matmul(13, 17, 40), plan=tiles)
    batch = search.driver.ask(3)
    assert batch is not None
    told: dict[int, list[str]] = {}
    for seconds in (0, 4, 9, 14, 40, 10_000):
        looks = itertools.count()
        job = job_of(search.job(batch, seconds))
        came = answered(job, faulty({}), lambda looks=looks: float(next(looks)))
        told[seconds] = [outcome.state for outcome in (came.reference, *came.outcomes)]
        timed = [o for o in (came.reference, *came.outcomes) if o.state == "measured"]
        assert all(outcome.samples for outcome in timed)
    assert told[0] == told[4] == ["skipped"] * 4
    assert told[10_000] == ["measured"] * 4
    assert {state for states in told.values() for state in states} == {"skipped", "measured"}


def test_one_at_a_time_measures():
    within: list[int] = []

    def measured() -> None:
        for _ in range(5):
            with measuring():
                within.append(1)
                assert len(within) == 1
                time.sleep(0.005)
                within.pop()

    with ThreadPoolExecutor(3) as pool:
        for future in [pool.submit(measured) for _ in range(3)]:
            future.result()
    with pytest.MonkeyPatch.context() as patch, measuring():
        patch.setattr(worker, "WAITING", 0.02)
        with ThreadPoolExecutor(1) as pool:
            error = error_of(pool.submit(measured).result, DeviceError)
    assert error.message == "search: another search has measured here for 0.02 s"
