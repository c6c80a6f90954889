"""One suite for all executors: threads, processes, Dask's and ipyparallel's."""

import os
import re
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from time import monotonic, sleep

import pytest

import luminal_lab as ll
from luminal_lab.core.origin import LabWarning
from luminal_lab.errors import DeviceError
from luminal_lab.search import executors, loops
from luminal_lab.search.graph import search_program
from luminal_lab.search.loops import Budget, KernelSearch, begun, search_kernel
from luminal_lab.search.worker import Worker
from tests.expect import error_of
from tests.needs import need
from tests.search.planted import (
    die,
    die_once,
    guess,
    interrupt,
    matmul,
    refuse,
    stumble,
    tiles,
    wait_for,
)

DEVICE = ll.CPUCompiler(threads=2)
BATCH = Budget(candidates=16)
PATIENCE = 30.0
"""The seconds that a library may take to start a worker in place of one that died."""


@dataclass(frozen=True)
class Engine:
    """A library's executor, and others of its kind that may be broken."""

    executor: Executor
    another: Callable[[], Executor]


@contextmanager
def threads(_: Path) -> Generator[Engine]:
    another = partial(ThreadPoolExecutor, 2)
    with another() as executor:
        yield Engine(executor, another)


@contextmanager
def processes(_: Path) -> Generator[Engine]:
    another = partial(ProcessPoolExecutor, 1, mp_context=get_context("spawn"))
    with another() as executor:
        yield Engine(executor, another)


@contextmanager
def dask(folder: Path) -> Generator[Engine]:
    distributed = need("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(folder)
    )
    with cluster, distributed.Client(cluster) as client:
        cluster.scheduler.allowed_failures = 0  # it sends nothing again by itself
        another = partial(client.get_executor, pure=False)
        yield Engine(another(), another)


@contextmanager
def ipyparallel(folder: Path) -> Generator[Engine]:
    library = need("ipyparallel")
    with library.Cluster(n=2, profile_dir=str(folder), log_level=40) as client:
        yield Engine(client.executor(), client.executor)


MISSING = "{} is not installed: pip install 'luminal-lab[search]'"
ENGINES = {engine.__name__: engine for engine in (threads, processes, dask, ipyparallel)}


def of(*names: str) -> pytest.MarkDecorator:
    """Run a test with some engines only."""
    return pytest.mark.parametrize("engine", names, indirect=True)


@pytest.fixture(scope="module", params=ENGINES)
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    """An engine, whose workers keep what they compile in a folder of this run's own."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        with ENGINES[request.param](home) as engine:
            yield engine


def searched(count: int, executor: Executor | None = None) -> KernelSearch:
    """Return a search of a product by times that depend on schedules alone."""
    budget = Budget(candidates=count)
    return search_kernel(
        matmul(70, 60, 50), plan=tiles, worker=guess, budget=budget, executor=executor
    )


def texts(search: KernelSearch) -> list[str]:
    return [candidate.text for candidate in search.candidates]


# -- what is found ---------------------------------------------------------------------------------


def test_the_same_candidates_are_found_everywhere(engine: Engine):
    search, alone = searched(64, engine.executor), searched(64)
    assert str(search.candidates) == str(alone.candidates)
    assert search.answers == alone.answers
    assert str(loops.replayed(search, tiles).candidates) == str(search.candidates)


@pytest.fixture(scope="module")
def product() -> ll.Graph:
    cx = ll.Graph()
    (cx.tensor((13, 17), name="a") @ cx.tensor((17, 40), name="b")).retrieve()
    return cx


def test_and_those_of_a_graph(engine: Engine, product: ll.Graph):
    fused = ll.compile_ir(product.ir, ll.GenericCompiler(), ll.Pipeline(DEVICE.passes)).ir
    search, alone = (
        search_program(fused, DEVICE, budget=BATCH, worker=guess, executor=executor)
        for executor in (engine.executor, None)
    )
    assert str(search.candidates) == str(alone.candidates)
    assert search.best.schedules == alone.best.schedules


def test_kernels_are_measured_there(engine: Engine, product: ll.Graph):
    need("cc")
    search = product.search(DEVICE, budget=Budget(candidates=2), executor=engine.executor)
    assert search.ended == {"matmul": "the budget is spent"}
    assert all(candidate.seconds for candidate in search.candidates)
    assert search.best.error is None


# -- what goes wrong -------------------------------------------------------------------------------


def resumed(executor: Executor, worker: Worker, why: str) -> None:
    """Go on with a search by an executor that fails, and then without."""
    search = searched(16)
    before, search.worker = str(search.candidates), worker
    kept = f"search: it ended early, and what was found is kept: {why}"
    with pytest.warns(LabWarning, match=re.escape(kept)):
        search.resume(BATCH, executor)
    assert search.ended.startswith(why)
    assert str(search.candidates) == before
    search.worker = guess
    assert texts(search.resume(BATCH)) == texts(searched(32))


def test_a_job_that_cannot_be_done_says_why(engine: Engine):
    resumed(engine.executor, refuse, "search: there is no compiler")
    search = begun(matmul(70, 60, 50), plan=tiles, worker=refuse)
    error = error_of(lambda: search.resume(BATCH, engine.executor), DeviceError)
    assert (error.message, error.hint) == ("search: there is no compiler", "install gcc")


def test_a_job_that_raises_ends_the_search(engine: Engine):
    resumed(engine.executor, stumble, "the executor could not measure a batch: ")


def test_an_executor_without_an_answer_is_given_up(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    try:
        with monkeypatch.context() as patch:
            patch.setattr(executors, "SILENT", 0.2)
            worker = partial(wait_for, tmp_path / "go on")
            resumed(engine.executor, worker, "the executor has not answered for 0.2 s")
    finally:
        (tmp_path / "go on").touch()
    assert texts(searched(16, engine.executor)) == texts(searched(16))


def test_ctrl_c_keeps_what_was_found(engine: Engine, tmp_path: Path):
    search = searched(16)
    search.worker = partial(interrupt, os.getpid(), tmp_path / "interrupted")
    search.resume(Budget(candidates=64), engine.executor)
    assert search.ended == "Ctrl-C"
    search.worker = guess
    search.resume(BATCH, engine.executor)
    assert search.ended == "the budget is spent"
    assert str(loops.replayed(search, tiles).candidates) == str(search.candidates)


@of("threads", "processes", "dask")
def test_an_executor_that_is_shut_down_says_so(engine: Engine):
    executor = engine.another()
    executor.shutdown()
    resumed(executor, guess, "the executor could not measure a batch: RuntimeError: cannot")


@of("ipyparallel")
def test_one_of_ipyparallel_is_never_shut_down(engine: Engine):
    executor = engine.another()
    executor.shutdown()
    assert texts(searched(16, executor)) == texts(searched(16))


@of("dask", "ipyparallel")
def test_a_batch_whose_worker_dies_is_sent_again(engine: Engine, tmp_path: Path):
    search = searched(16)
    search.worker = partial(die_once, tmp_path / "died")
    search.resume(BATCH, engine.executor)
    assert texts(search) == texts(searched(32))


@of("processes", "dask")
def test_workers_that_all_die_end_the_search(engine: Engine):
    with engine.another() as executor:
        resumed(executor, die, "the executor could not measure a batch: ")


@dataclass
class Empty(Executor):
    """An executor that takes jobs and has no workers, as far as is known."""

    workers: int = 0

    def submit(self, fn: Callable[..., str], /, *args: object, **how: object) -> Future[str]:
        del fn, args, how
        return Future()


def counted(executor: Empty) -> int:
    """Return how many workers there are: fewer and fewer."""
    executor.workers = max(0, executor.workers - 1)
    return executor.workers


def test_an_executor_without_workers_says_so_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(executors.COUNTS, ("tests", "Empty"), counted)
    search = begun(matmul(70, 60, 50), plan=tiles, worker=guess)
    error = error_of(lambda: search.resume(BATCH, Empty()), DeviceError)
    assert error.message == "search: the executor has no workers"
    assert error.hint == "start some, or leave the executor out: the search then runs here"


def test_and_soon_where_it_loses_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(executors.COUNTS, ("tests", "Empty"), counted)
    monkeypatch.setattr(executors, "ALONE", 0.2)
    monkeypatch.setattr(executors, "COUNTED", 0.0)
    resumed(Empty(3), guess, "the executor has had no workers for 0.2 s")


@of("threads", "dask", "ipyparallel")
def test_how_many_workers_there_are(engine: Engine):
    """Some may have died in a test before: others are being started in their place."""
    expected = (None,) if isinstance(engine.executor, ThreadPoolExecutor) else (1, 2)
    end = monotonic() + PATIENCE
    while (count := executors.workers_of(engine.executor)) not in expected:
        assert monotonic() < end, f"{count} workers after {PATIENCE} s"
        sleep(0.05)
    assert engine.executor.submit(int).result() == 0


def test_engines_of_ipyparallel_that_stop_end_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    library = need("ipyparallel")
    with library.Cluster(n=1, profile_dir=str(tmp_path), log_level=40) as client:
        executor = client.executor()
        assert texts(searched(16, executor)) == texts(searched(16))
        monkeypatch.setattr(executors, "ALONE", 0.2)
        client.shutdown(hub=False, block=True)
        search = begun(matmul(70, 60, 50), plan=tiles, worker=guess)
        error = error_of(lambda: search.resume(BATCH, executor), DeviceError)
        assert "the executor has" in error.message
        assert "workers" in error.message
