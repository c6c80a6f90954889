"""Workers on threads: who fails is named, nobody waits for ever, all get the same bits."""

from __future__ import annotations

import _thread
import threading
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.dtypes import Array
from luminal_lab.workers import patience
from luminal_lab.workers.ops import WORKER, AllReduce, Worker
from luminal_lab.workers.threads import Threads

MESH = ll.Mesh(a=2, b=3)


def me() -> Worker:
    worker = WORKER.get()
    assert worker is not None
    return worker


def test_each_collective_meets_along_its_axis() -> None:
    def work(rank: int) -> tuple[float, list[float], list[float], float]:
        talk = me().communicator
        x = np.full(5, float(rank), np.float32)
        total = talk.all_reduce(x, "a", "sum")
        gathered = [float(value[0]) for value in talk.all_gather(x, "b")]
        parts: list[Array] = [np.full(1, 10.0 * rank + k, np.float32) for k in range(3)]
        swapped = [float(value[0]) for value in talk.all_to_all(parts, "b")]
        most = talk.all_reduce(x, "b", "max")
        return float(total[4]), gathered, swapped, float(most[0])

    results = Threads().run(MESH, work)
    assert [total for total, *_ in results] == [3, 5, 7, 3, 5, 7]
    assert results[4][1:] == ([3, 4, 5], [31, 41, 51], 5)


def test_all_workers_get_the_same_bits() -> None:
    given = np.random.default_rng(0).standard_normal((8, 1001)).astype("float32")

    def work(rank: int) -> bytes:
        return me().communicator.all_reduce(given[rank], "data", "sum").tobytes()

    assert len({*Threads().run(ll.Mesh(data=8), work)}) == 1


def test_a_worker_that_fails_is_named_and_the_others_end() -> None:
    def work(rank: int) -> None:
        if rank == 4:
            raise ValueError("four")
        me().communicator.all_gather(np.zeros(1), "a")

    before = threading.active_count()
    with pytest.raises(ValueError, match="four") as caught:
        Threads().run(MESH, work)
    assert caught.value.__notes__ == ["in worker 4 (a 1, b 1)"]
    assert threading.active_count() == before


def test_workers_at_different_collectives_are_told() -> None:
    def work(rank: int) -> None:
        me().communicator.all_gather(np.zeros(1), "a") if rank else me().communicator.all_reduce(
            np.zeros(1), "a", "sum"
        )

    with pytest.raises(ll.DeviceError, match=r"are at different collectives: .*all_gather"):
        Threads().run(ll.Mesh(a=2), work)


def test_a_worker_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PATIENCE", 0.3)

    def work(rank: int) -> None:
        if rank:
            me().communicator.all_gather(np.zeros(1), "a")

    with pytest.raises(ll.DeviceError, match=r"^worker 0 \(a 0\) did not come where others wait"):
        Threads().run(ll.Mesh(a=2), work)


def test_one_that_stands_still_has_hung_and_one_that_computes_has_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patience, "PATIENCE", 0.6)
    free = threading.Event()

    def sleeps(rank: int) -> None:
        if rank:
            free.wait(20)
        me().communicator.all_gather(np.zeros(1), "a")

    with pytest.raises(ll.DeviceError, match=r"^worker 1 \(a 1\) has hung"):
        Threads().run(ll.Mesh(a=2), sleeps)
    free.set()

    # Here others may take most of the processor's time.
    monkeypatch.setattr(patience, "STILL", 0.01)

    def computes(rank: int) -> int:
        until = time.process_time() + 1.2
        while rank and time.process_time() < until:
            pass
        return len(me().communicator.all_gather(np.zeros(1), "a"))

    assert Threads().run(ll.Mesh(a=2), computes) == [2, 2]


def test_ctrl_c_ends_all_workers() -> None:
    def work(rank: int) -> None:
        if rank == 0:
            _thread.interrupt_main()
        me().communicator.all_gather(np.zeros(1), "b" if rank else "a")

    before = {*threading.enumerate()}
    with pytest.raises(KeyboardInterrupt):
        Threads().run(MESH, work)
    for thread in {*threading.enumerate()} - before:
        thread.join(5)
        assert not thread.is_alive()


@dataclass(frozen=True, slots=True)
class Fails(ll.Unary):
    """The same value, but not on the second worker."""

    name: ClassVar[str] = "fails_on_a_worker"

    def eval(self, x: Array) -> Array:
        worker = WORKER.get()
        if worker is not None and worker.rank == 1:
            raise RuntimeError("no more memory")
        return x


def test_the_line_of_what_failed_is_told() -> None:
    cx = ll.Graph("g")
    x = cx.tensor((4,), name="x").set([1, 2, 3, 4])
    y = (x.apply(Fails()) * 2).sum().named("y").retrieve()
    cx.compile(ll.Sharded(ll.sharding(ll.Mesh(data=2), {"x": "data"})))
    with pytest.raises(RuntimeError, match="no more memory") as caught:
        cx.execute()
    told = "\n".join(caught.value.__notes__)
    assert "fails_on_a_worker" in told
    assert "y = (x.apply(Fails()) * 2)" in told
    assert "in worker 1 (data 1)" in told
    cx.compile()
    cx.execute()  # the session is as it was
    assert y.tolist() == 20


def test_a_collective_has_no_meaning_elsewhere() -> None:
    cx = ll.Graph("g")
    cx.tensor((2,), name="x").set([1, 2]).apply(AllReduce("a", "sum")).retrieve()
    with pytest.raises(ll.DeviceError, match="all_reduce: no worker of a mesh runs here"):
        cx.execute()
