"""Workers as MPI processes, in the engines of a cluster and under mpiexec."""

from __future__ import annotations

import _thread
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.plain import read
from luminal_lab.workers import seat
from luminal_lab.workers.lanes import Lanes
from tests.needs import need
from tests.workers.faulty import FAR, ROWS, faulty, held, layers, staged, stages, training

pytestmark = pytest.mark.needs("mpi4py", "ipyparallel", "mpiexec")
ROOT = Path(__file__).resolve().parents[2]
MESH = ll.Mesh(data=2)
ONE = ll.CPUCompiler(threads=1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A cluster of two engines, which know the op that fails."""
    home, mpiexec = tmp_path_factory.mktemp("home"), need("mpiexec")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(mpiexec.parent), prepend=os.pathsep)
        patch.setenv("HOME", str(home))
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        library = need("ipyparallel")
        cluster = library.Cluster(engines="mpi", n=2, profile_dir=str(home), log_level=40)
        cluster.start_cluster_sync()
        try:
            # Where no engine starts that is waited for once, and not by each test.
            cluster.connect_client_sync().wait_for_engines(2, timeout=60)
            yield cluster
        finally:
            cluster.stop_cluster_sync()


@pytest.fixture(scope="module")
def engine(cluster: Any) -> ll.engines.MPI:
    return ll.engines.MPI(cluster)


def on_engines(engine: ll.engines.MPI, text: str) -> None:
    """Run a line in all engines."""
    engine.unless_enough(MESH)
    engine._engines.client[:].execute(text, block=True)  # pyright: ignore


def losses(steps: int, engine: Any = None, mesh: ll.Mesh | None = MESH) -> list[float]:
    """Return the losses of some steps, by workers or by one."""
    cx, loss = training()
    given = [] if mesh is None else [ll.Sharded(ll.sharding(mesh, ROWS), ONE, engine=engine)]
    cx.compile(ll.GenericCompiler(), *(given or [ONE]))
    found: list[float] = []
    for _ in range(steps):
        cx.execute()
        found.append(float(loss.item()))
    return found


# -- engines of a cluster --------------------------------------------------------------------------


def test_engines_compute_what_one_worker_does(engine: ll.engines.MPI) -> None:
    np.testing.assert_allclose(losses(5, engine), losses(5, mesh=None), rtol=1e-5)


def test_what_engines_have_is_not_sent_again(
    engine: ll.engines.MPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    cx, _ = training()
    cx.compile(ll.GenericCompiler(), ll.Sharded(ll.sharding(MESH, ROWS), ONE, engine=engine))
    sent: list[int] = []
    engines: Any = engine._engines
    send = engines._send

    def noting(rank: int, *call: Any) -> Any:
        if call[0] is seat.run:
            sent.append(len(call[-1]))
        return send(rank, *call)

    monkeypatch.setattr(engines, "_send", noting)
    for _ in range(2):
        cx.execute()
    cx["x"].set(np.zeros((8, 16), "float32"))
    cx.execute()
    assert sent == [4, 4, 0, 0, 1, 1]


@pytest.mark.parametrize("is_piped", [False, True], ids=["sharded", "pipelined"])
def test_weights_stay_with_engines_until_they_are_read(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, is_piped: bool
) -> None:
    engine: Any = ll.engines.MPI(cluster, keeps=True)
    how: Any
    if is_piped:
        made, alone = layers(4), layers(4)
        how = ll.Pipelined(stages(4, 2), ONE, batch=("x", "t"), engine=engine)
    else:
        made, alone = ((cx, [loss]) for cx, loss in (training(), training()))
        how = ll.Sharded(ll.sharding(MESH, ROWS | {"w1": ("data", None)}), ONE, engine=engine)
    engines, fetched, sent = engine._engines, list[int](), list[int]()
    fetch, send = engines._fetched, engines._send

    def fetching(*where: Any) -> Any:
        fetched.append(where[-1])
        return fetch(*where)

    def sending(rank: int, *call: Any) -> Any:
        sent.append(len(call[-1]))
        return send(rank, *call)

    monkeypatch.setattr(engines, "_fetched", fetching)
    monkeypatch.setattr(engines, "_send", sending)
    held(made, alone, how) if is_piped else made[0].compile(how)
    (cx, _), (cy, _) = made, alone
    for number in range(4):
        sent.clear()
        cx.execute()
        assert number == 0 or sent == [0, 0]
    assert fetched == []
    for _ in range(4):
        cy.execute()
    np.testing.assert_allclose(cx["w1"].numpy(), cy["w1"].numpy(), rtol=1e-5, atol=1e-6)
    assert len(fetched) == (1 if is_piped else 2)
    cx.execute()
    cy.execute()
    np.testing.assert_allclose(cx["w1"].numpy(), cy["w1"].numpy(), rtol=1e-5, atol=1e-6)
    cx.compile(ONE)  # takes them all from there
    cx.execute()
    cy.execute()
    np.testing.assert_allclose(cx["w1"].numpy(), cy["w1"].numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (1, r"^worker 1 \(data 1\) on \S+ has failed: ValueError: no such luck\n"),
        (3, r"^worker 1 \(data 1\) on \S+ has hung: it has computed nothing for 2 s"),
        (5, r"^worker 1 \(data 1\) on \S+ has died, or was stopped: no answer for 2 s"),
        (2, r"^worker 1 \(data 1\) on \S+ has died\n"),
    ],
    ids=["raises", "hangs", "is stopped", "dies"],
)
def test_a_fault_is_named_within_ten_seconds_and_the_cluster_goes_on(
    engine: ll.engines.MPI, kind: int, message: str
) -> None:
    on_engines(engine, "import tests.workers.faulty")
    on_engines(engine, "import luminal_lab.workers.patience as p; p.PATIENCE = 2.0")
    cx, x, y = faulty()
    cx.compile(ll.Sharded(ll.sharding(MESH, {"x": ("data", None)}), engine=engine))
    x.set(np.zeros((4, 2)))
    cx.execute()
    assert y.item() == 0
    x.set(np.full((4, 2), kind))
    begin = time.monotonic()
    with pytest.raises(ll.DeviceError, match=message) as caught:
        cx.execute()
    assert time.monotonic() - begin < 10
    assert "y = (x.apply(Fault())" in str(caught.value)  # the user's line
    np.testing.assert_allclose(losses(2, engine), losses(2, mesh=None), rtol=1e-5)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_engines_run_pipelines(engine: ll.engines.MPI, schedule: Any) -> None:
    how = ll.Pipelined(
        stages(4, 2), ONE, batch=("x", "t"), microbatches=4, schedule=schedule, engine=engine
    )
    lanes = held(layers(4), layers(4), how).lanes
    sent = [(one.source, one.to, one.bytes) for one in lanes.sent]
    assert sorted(sent) == [(0, 1, 64)] * 4 + [(1, 0, 64)] * 4
    assert all(one.start <= one.end for one in lanes.sent)
    assert lanes.kept == ((4, 1) if schedule == "gpipe" else (2, 1))
    assert {work.label for work in lanes.work} >= {"F0", "B3", "E"}


@pytest.mark.parametrize("is_piped", [False, True], ids=["sharded", "pipelined"])
def test_engines_have_lanes_whatever_their_clocks_say(
    engine: ll.engines.MPI, is_piped: bool
) -> None:
    late = "from mpi4py import MPI; import tests.workers.faulty as f; f.other_clock({} * f.FAR)"
    on_engines(engine, late.format("MPI.COMM_WORLD.rank"))
    if is_piped:
        how = ll.Pipelined(stages(4, 2), ONE, batch=("x", "t"), microbatches=4, engine=engine)
        lanes = held(layers(4), layers(4), how).lanes
    else:
        cx, _ = training()
        program: Any = cx.compile(ll.Sharded(ll.sharding(MESH, ROWS), engine=engine)).program
        cx.execute()
        lanes = program.lanes
        (met,) = lanes.met  # all sums in one bucket
        assert (met.op, met.axis, met.workers) == ("all_reduce", "data", (0, 1))
        assert met.bytes == program.communication.bytes
    on_engines(engine, late.format(0))
    together(lanes)


def together(lanes: Lanes) -> None:
    """Assert that workers whose clocks are far from each other work at the same time."""
    assert {work.worker for work in lanes.work} == {0, 1}
    assert lanes.within is not None
    assert 0 < lanes.within < FAR / 100
    spans = [
        [at for work in lanes.work if work.worker == worker for at in (work.start, work.end)]
        for worker in range(2)
    ]
    assert max(map(min, spans)) < min(map(max, spans))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (1, r"^worker 1 \(stage 1\) on \S+ has failed: ValueError: no such luck\n"),
        (3, r"^worker 1 \(stage 1\) on \S+ has hung: it has computed nothing for 2 s"),
        (2, r"^worker 1 \(stage 1\) on \S+ has died\n"),
    ],
    ids=["raises", "hangs", "dies"],
)
def test_a_fault_in_a_stage_is_named(engine: ll.engines.MPI, kind: int, message: str) -> None:
    on_engines(engine, "import tests.workers.faulty")
    on_engines(engine, "import luminal_lab.workers.patience as p; p.PATIENCE = 2.0")
    cx, x, y, how = staged(engine)
    cx.compile(how)
    x.set(np.zeros((4, 2)))
    cx.execute()
    assert y.item() == 4
    x.set(np.full((4, 2), kind))
    begin = time.monotonic()
    with pytest.raises(ll.DeviceError, match=message) as caught:
        cx.execute()
    assert time.monotonic() - begin < 10
    assert "y = (h.apply(Fault())" in str(caught.value)  # the user's line
    x.set(np.full((4, 2), 0.5))
    on_engines(engine, "import tests.workers.faulty")
    cx.execute()
    assert y.item() == 12


def test_ctrl_c_ends_all_workers_and_the_cluster_goes_on(engine: ll.engines.MPI) -> None:
    on_engines(engine, "import tests.workers.faulty")
    cx, x, _ = faulty()
    cx.compile(ll.Sharded(ll.sharding(MESH, {"x": ("data", None)}), engine=engine))
    x.set(np.full((4, 2), 3))
    threading.Timer(1.0, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        cx.execute()
    np.testing.assert_allclose(losses(2, engine), losses(2, mesh=None), rtol=1e-5)


def test_one_that_computes_for_long_is_waited_for(engine: ll.engines.MPI) -> None:
    on_engines(engine, "import tests.workers.faulty")
    on_engines(engine, "import luminal_lab.workers.patience as p; p.PATIENCE = 2.0")
    cx, x, y = faulty()
    cx.compile(ll.Sharded(ll.sharding(MESH, {"x": ("data", None)}), engine=engine))
    x.set(np.full((4, 2), 4))
    cx.execute()
    assert y.item() == 32


def test_a_mesh_larger_than_the_cluster_is_refused_at_the_line(engine: ll.engines.MPI) -> None:
    plan = ll.sharding(ll.Mesh(data=4), ROWS)
    message = r"^Mesh\(data=4\) has 4 workers, and the cluster 2 engines\n.*plan = ll\.sharding"
    with pytest.raises(ll.errors.ArgumentError, match=message):
        ll.Sharded(plan, engine=engine)


def test_engines_of_another_version_are_refused_at_the_line(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def versions() -> dict[str, str]:
        return {"luminal_lab": "9.9", "Python": "3.11"}

    monkeypatch.setattr(seat, "versions", versions)
    plan = ll.sharding(MESH, ROWS)
    message = r"(?s)^mpi: the engine with rank 0 on \S+ has luminal_lab \S+, and this process 9\.9"
    with pytest.raises(ll.errors.ArgumentError, match=message) as caught:
        ll.Sharded(plan, engine=ll.engines.MPI(cluster))
    assert "plan = ll.sharding(MESH, ROWS)" in str(caught.value)


def test_a_cluster_that_does_not_run_is_told() -> None:
    cluster = need("ipyparallel").Cluster(engines="mpi", n=2)
    with pytest.raises(ll.errors.DeviceError, match=r"^mpi: the cluster does not run"):
        ll.Sharded(ll.sharding(MESH, ROWS), engine=ll.engines.MPI(cluster))


def test_a_cluster_may_be_closed_in_the_middle_and_started_again(
    cluster: Any, engine: ll.engines.MPI
) -> None:
    on_engines(engine, "import tests.workers.faulty")
    cx, x, _ = faulty()
    cx.compile(ll.Sharded(ll.sharding(MESH, {"x": ("data", None)}), engine=engine))
    x.set(np.full((4, 2), 3))
    closing = threading.Timer(1.0, cluster.stop_cluster_sync)
    closing.start()
    with pytest.raises(ll.errors.DeviceError, match=r"does not run|has died"):
        cx.execute()
    closing.join()
    with pytest.raises(ll.errors.DeviceError, match=r"^mpi: the cluster does not run"):
        cx.execute()
    cluster.start_cluster_sync()
    np.testing.assert_allclose(losses(2, engine), losses(2, mesh=None), rtol=1e-5)


def test_engines_that_do_not_start_are_told(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect() -> None:
        raise RuntimeError("Engine set stopped: exit code 1\nmore")

    monkeypatch.setattr(cluster, "connect_client_sync", connect)
    message = "^mpi: the engines of the cluster did not start: Engine set stopped: exit code 1\n"
    with pytest.raises(ll.errors.DeviceError, match=message):
        ll.Sharded(ll.sharding(MESH, ROWS), engine=ll.engines.MPI(cluster))


def test_what_is_no_cluster_is_told() -> None:
    with pytest.raises(ll.errors.ArgumentError, match=r"^MPI: the cluster is 2"):
        ll.engines.MPI(2)


# -- under mpiexec ---------------------------------------------------------------------------------


def under_mpiexec(call: str, count: int = 2) -> subprocess.CompletedProcess[str]:
    """Run a function of tests/workers/ranks.py in several processes."""
    path = os.pathsep.join([str(need("mpiexec").parent), os.environ["PATH"]])
    surroundings = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
    command = [str(need("mpiexec")), "-n", str(count), sys.executable, "-m", "tests.workers.ranks"]
    return subprocess.run(
        [*command, call], cwd=ROOT, env=surroundings, capture_output=True, text=True,
        timeout=240, check=False,
    )  # fmt: skip


def test_weights_are_equal_to_the_bit_after_a_hundred_steps() -> None:
    done = under_mpiexec("trained")
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == 2
    assert told[0] == told[1]  # the digests of weights and losses
    np.testing.assert_allclose(told[0]["losses"], losses(100, mesh=None), rtol=1e-5)


def test_processes_have_lanes_whatever_their_clocks_say() -> None:
    done = under_mpiexec("clocked")
    assert done.returncode == 0, done.stderr
    first, second = [json.loads(line) for line in done.stdout.splitlines()]
    assert first == second  # who asks makes no difference
    for lanes in first:
        together(read(Lanes, lanes))
    assert first[0]["met"]
    assert first[1]["sent"]


def test_a_pipeline_has_the_same_values_in_all_processes() -> None:
    done = under_mpiexec("piped")
    assert done.returncode == 0, done.stderr
    first, second = [json.loads(line) for line in done.stdout.splitlines()]
    assert first == second  # a digest of all values, and the lanes of both


def test_whole_values_are_put_together_in_all_processes() -> None:
    done = under_mpiexec("gathered", 3)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[0.0, 1.0, 2.0, 3.0, 4.0, 5.0] 55.0 5.0"] * 3


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("raises", "worker 1 (data 1) has failed: ValueError: no such luck"),
        ("stage_raises", "worker 1 (stage 1) has failed: ValueError: no such luck"),
        ("hangs", "worker 1 (data 1) has hung: it has computed nothing for 2 s, and others wait"),
        ("differs", "the workers were given different graphs, passes or meshes"),
        ("too_many", "Mesh(data=4) has 4 workers, and there are 2 processes"),
    ],
)
def test_what_goes_wrong_is_told_by_the_others(call: str, told: str) -> None:
    done = under_mpiexec(call)
    assert told in done.stdout, done.stderr
    if call.endswith("raises"):
        assert done.stdout.splitlines().count("and then 0.0") == 2
