"""The search on a GPU that is here: its measuring against a stand-in for CuPy, and its children."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.devices.cuda import driver as cuda_driver
from luminal_lab.devices.cuda.driver import Present
from luminal_lab.errors import DeviceError
from luminal_lab.plain import plain
from luminal_lab.search import on_gpu, target
from luminal_lab.search.deadline import Deadline
from luminal_lab.search.driver import Answer, Outcome
from luminal_lab.search.loops import KernelSearch, begun
from luminal_lab.search.on_gpu import ChildReport, Errand, SourceTrials, answered
from luminal_lab.search.run import is_cut
from luminal_lab.search.worker import Job, Make
from tests.devices.cuda.test_engine import standing
from tests.devices.stand_ins.cupy_stand_in import CUDARuntimeError, CuPy
from tests.expect import error_of
from tests.needs import need
from tests.search.planted import faulty, job_of, matmul

HERE = Present("sm_80", 108)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[CuPy]:
    """A GPU as CuPy shows it, whose programs are all of a search."""
    need("c++")
    gpu, placed = CuPy(capability="80"), SourceTrials._placed

    def known(session: Any, at: int, kernel: Any) -> Any:
        launches = placed(session, at, kernel)
        for launch in launches:
            for argument in launch.arguments:
                if isinstance(argument, on_gpu.Location):
                    # As on a GPU, what is written behind an array is there.
                    gpu.sizes[argument.address] = argument.bytes + on_gpu.GUARD
        return launches

    monkeypatch.setattr(SourceTrials, "_placed", known)
    monkeypatch.setattr(on_gpu, "present", lambda: HERE)
    monkeypatch.setattr(target, "present", lambda: HERE)
    monkeypatch.setattr(on_gpu, "ROUNDS", 4)
    yield from standing(monkeypatch, gpu)


def begun_here() -> KernelSearch:
    return begun(matmul(20, 18, 24), ll.CUDACompiler())


def job(count: int, **more: Any) -> Job:
    search = begun_here()
    batch = search.driver.ask(count)
    assert batch is not None
    return replace(job_of(search.job(batch)), **more)


def errand(count: int, **more: Any) -> Errand:
    return Errand(job(count, **more), *HERE)


def uncompiled(errand: Errand, faults: dict[int, str]) -> Make:
    """Return what makes kernels that only the stand-in compiles."""
    make = faulty(faults, errand.make)
    return lambda *given: replace(make(*given), compile=None)


def test_kernels_are_checked_and_timed_in_turns(gpu: CuPy):
    told: list[str] = []
    known = errand(3)
    outcomes = SourceTrials(known, told.append, uncompiled(known, {})).outcomes
    assert {outcome.state for outcome in outcomes.values()} == {"measured"}
    assert all(len(outcome.samples) >= 3 for outcome in outcomes.values())
    assert told[:4] == ["run 0", "run 1", "run 2", "run 3"]


def test_what_is_wrong_or_writes_elsewhere_has_no_time(gpu: CuPy):
    known = errand(3)
    faults = {1: "    c[0] = 7; return;", 2: f"    c[{20 * 24}] = 7;"}
    outcomes = SourceTrials(known, lambda line: None, uncompiled(known, faults)).outcomes
    assert outcomes[1].is_wrong
    assert outcomes[2].why == "it writes behind c"
    assert {outcomes[1].state, outcomes[2].state} == {"failed"}
    assert not outcomes[1].samples
    assert outcomes[3].state == "measured"


def test_what_is_known_is_not_run_again(gpu: CuPy):
    told: list[str] = []
    known = replace(errand(2), known={"1": Outcome("failed", why="it was ended after 20 s")})
    outcomes = SourceTrials(known, told.append, uncompiled(known, {})).outcomes
    assert "run 1" not in told
    assert outcomes[1].why == "it was ended after 20 s"


def test_a_lost_context_ends_the_child(gpu: CuPy, monkeypatch: pytest.MonkeyPatch):
    known = errand(1)
    session = SourceTrials(known, lambda line: None, uncompiled(known, {}))

    def lose(*_: Any) -> None:
        raise CUDARuntimeError(700, "cudaErrorIllegalAddress")

    monkeypatch.setattr(gpu, "_run", lose)
    error = error_of(lambda: session.outcomes, DeviceError)
    assert "cudaErrorIllegalAddress" in error.message


def test_when_the_time_is_over_a_child_says_what_it_knows(
    gpu: CuPy, monkeypatch: pytest.MonkeyPatch
):
    known = errand(3, seconds=1.0)
    session = SourceTrials(known, lambda line: None, uncompiled(known, {}))
    now = iter(range(1_000))
    session.deadline = Deadline(9.5, lambda: next(now))  # the check of all kernels looks 8 times
    samples = {at: len(outcome.samples) for at, outcome in session.outcomes.items()}
    assert {*samples} == {0, 1, 2, 3}
    assert set(samples.values()) == {1}
    late = SourceTrials(known, lambda line: None, uncompiled(known, {}))
    late.deadline = Deadline(0.0)
    assert late.outcomes == {}


def test_a_search_here_is_measured(gpu: CuPy, monkeypatch: pytest.MonkeyPatch):
    def inline(job: Job, command: object = ()) -> Answer:
        known = Errand(job, *HERE)
        outcomes = SourceTrials(known, lambda line: None, uncompiled(known, {})).outcomes
        reference, *others = (outcomes[at] for at in range(1 + len(job.schedules)))
        return Answer(reference, tuple(others), "here")

    monkeypatch.setattr(on_gpu, "answered", inline)
    search = begun_here().resume(ll.Budget(candidates=2))
    assert search.ended == "the budget is spent"
    assert search.best.seconds is not None
    assert search.best.modelled is None
    assert "measured" not in search.best.state
    assert "modelled" not in str(search)


# -- children --------------------------------------------------------------------------------------


def child(*lines: str, then: str = "") -> list[str]:
    """Return the command of a child that says some lines, and then does something."""
    said = "".join(f"print({line!r}, flush=True)\n" for line in lines)
    return [
        sys.executable,
        "-c",
        f"import sys, json, os, time\nsent = sys.stdin.read()\n{said}{then}",
    ]


RIGHT = Outcome("measured", (1e-3,))
REST = f"""
known = json.loads(sent)["known"]
if "2" in known:
    rest = {{str(at): known.get(str(at), {plain(RIGHT)!r}) for at in range(4)}}
    print("done " + json.dumps({{"outcomes": rest}}), flush=True)
    sys.exit()
"""


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(
    ("end", "why"),
    [
        ("os._exit(9)", "its process has ended with status 9"),
        ("time.sleep(60)", "it was ended after 0.5 s"),
        ("print('lost the context is gone', flush=True)", "the context is gone"),
    ],
)
def test_a_kernel_that_ends_its_child_is_a_result(
    monkeypatch: pytest.MonkeyPatch, end: str, why: str
):
    monkeypatch.setattr(on_gpu, "RUNNING", 0.5)
    monkeypatch.setattr(on_gpu, "signature", lambda device: "here")
    said = "print('run 0\\nrun 1\\nrun 2', flush=True)\n"
    answer = answered(job(3), child(then=f"{REST}{said}{end}"))
    assert [outcome.state for outcome in answer.outcomes] == ["measured", "failed", "measured"]
    assert answer.outcomes[1].why == why


@pytest.mark.usefixtures("gpu")
def test_a_child_that_is_late_is_ended_and_nothing_is_held_against_its_kernels(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(on_gpu, "signature", lambda device: "here")
    monkeypatch.setattr(on_gpu, "GRACE", 0.2)
    answer = answered(job(2, seconds=0.3), child("run 0", "run 1", then="time.sleep(60)"))
    assert {one.state for one in (answer.reference, *answer.outcomes)} == {"skipped"}
    assert is_cut(answer)


@pytest.mark.usefixtures("gpu")
def test_a_child_that_never_begins_ends_the_search(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(on_gpu, "signature", lambda device: "here")
    told = "search: the default kernel fails, with which others are compared: "
    error = error_of(lambda: answered(job(1), child(then="os._exit(3)")), DeviceError)
    assert error.message == f"{told}its process has ended with status 3"
    error = error_of(lambda: answered(job(1), child("run 0", then="os._exit(3)")), DeviceError)
    assert error.message == f"{told}its process has ended with status 3"


def test_a_real_child_says_that_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch):
    if cuda_driver.present() is not None:
        pytest.skip("there is a GPU")
    monkeypatch.setattr(on_gpu, "present", lambda: HERE)
    search = begun(matmul(20, 18, 24), ll.CUDACompiler(arch="sm_80"))
    batch = search.driver.ask(1)
    assert batch is not None
    error = error_of(lambda: answered(job_of(search.job(batch))), DeviceError)
    assert error.message.startswith("search: the default kernel fails, with which others are")
    assert ": cuda: " in error.message


def test_an_errand_is_text():
    known = Errand(Job("kernel", "", ("a",)), "sm_80", 108, known={"1": RIGHT})
    text = json.dumps(plain(known))
    assert on_gpu.read(Errand, json.loads(text)) == known
    assert on_gpu.read(
        ChildReport, json.loads(json.dumps(plain(ChildReport({"1": RIGHT}))))
    ).outcomes


def test_without_a_gpu_nothing_is_measured(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(on_gpu, "present", lambda: None)
    error = error_of(lambda: answered(Job("kernel", "", ())), DeviceError)
    assert error.message == "search: there is no NVIDIA GPU on this machine"
