"""The engine that is always there: each worker is a thread of this process.

Workers that meet for a collective put what they give into slots, and wait for each other twice:
once until all slots are full, once until all have read them. A worker that fails opens the
barriers of all others, which then end as well; its error is the one that is raised.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import process_time
from typing import Any, Literal, TypeVar

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.errors import ArgumentError, DeviceError
from luminal_lab.workers.job import lost
from luminal_lab.workers.mesh import Mesh
from luminal_lab.workers.ops import WORKER, Worker
from luminal_lab.workers.patience import Patience, Seen

T = TypeVar("T")
MOST = 64
"""The most workers as threads."""
POLL, GLANCE = 0.2, 0.05
"""The seconds between two looks at the workers, and at whether one has failed."""


class Group:
    """The workers that meet along one axis of the mesh."""

    def __init__(self, members: Sequence[int]) -> None:
        self.members = tuple(members)
        self.barrier = threading.Barrier(len(members))
        self.given: list[tuple[object, Any]] = [((), None)] * len(members)
        self.parts: list[Any] = [None] * len(members)

    def wait(self) -> None:
        """Wait for the others."""
        worker = WORKER.get()
        assert worker is not None, "workers wait"
        worker.waits = True
        self.barrier.wait()
        worker.waits = False

    def meet(self, at: int, what: tuple[object, ...], value: object) -> list[Any]:
        """Return what all members give; it may be read until the next `wait`."""
        self.given[at] = what, value
        self.wait()
        others = {given for given, _ in self.given}
        if len(others) > 1:
            shown = " and ".join(sorted(map(str, others)))
            raise DeviceError(f"workers {self.members} are at different collectives: {shown}")
        return [value for _, value in self.given]


class Boxes:
    """What workers send to each other, apart from collectives."""

    def __init__(self) -> None:
        self.boxes: dict[tuple[int, int, int], SimpleQueue[Array]] = defaultdict(SimpleQueue)
        self.failed = threading.Event()


@dataclass(frozen=True)
class ThreadCommunicator:
    """What one worker calls; see `Communicator` and `Letters`."""

    rank: int
    groups: dict[str, Group]
    boxes: Boxes

    def _at(self, axis: str) -> tuple[Group, int]:
        group = self.groups[axis]
        return group, group.members.index(self.rank)

    def all_reduce(self, x: Array, axis: str, kind: Literal["sum", "max"]) -> Array:
        """Join what all give: each worker does so for a stretch of it, in the order of workers."""
        group, at = self._at(axis)
        given = group.meet(at, ("all_reduce", kind, x.shape, str(x.dtype)), x)
        ends = [x.size * k // len(given) for k in range(len(given) + 1)]
        stretches = [value.reshape(-1)[ends[at] : ends[at + 1]] for value in given]
        joined = np.array(stretches[0])
        for stretch in stretches[1:]:
            (np.add if kind == "sum" else np.maximum)(joined, stretch, out=joined)
        group.parts[at] = joined
        group.wait()
        return np.concatenate(group.parts).reshape(x.shape)

    def all_gather(self, x: Array, axis: str) -> list[Array]:
        """Return copies of what all give."""
        group, at = self._at(axis)
        copies = [np.array(value) for value in group.meet(at, ("all_gather", str(x.dtype)), x)]
        group.wait()
        return copies

    def all_to_all(self, parts: list[Array], axis: str) -> list[Array]:
        """Return copies of what all give for this worker."""
        group, at = self._at(axis)
        given = group.meet(at, ("all_to_all", len(parts)), parts)
        copies = [np.array(value[at]) for value in given]
        group.wait()
        return copies

    def send(self, x: Array, to: int, tag: int) -> None:
        """Put a copy into the box of another worker."""
        self.boxes.boxes[self.rank, to, tag].put(np.array(x))

    def receive(self, into: Array, source: int, tag: int) -> None:
        """Take the next value out of a box."""
        box = self.boxes.boxes[source, self.rank, tag]
        while True:
            try:
                into[...] = box.get(timeout=GLANCE)
                return
            except Empty:
                if self.boxes.failed.is_set():
                    raise threading.BrokenBarrierError from None  # another one's error is told


class Threads:
    """Run all workers of a mesh as threads of this process.

    >>> from luminal_lab.workers.mesh import Mesh
    >>> Threads().run(Mesh(data=2), lambda rank: 10 * rank)
    [0, 10]
    """

    name = "threads"

    def unless_enough(self, mesh: Mesh) -> None:
        """Raise if a mesh has more workers than there can be."""
        if mesh.workers > MOST:
            raise ArgumentError(
                f"{mesh} has {mesh.workers:,} workers, and threads are at most {MOST}",
                hint="a smaller mesh shows the same collectives",
            )

    def run(self, mesh: Mesh, work: Callable[[int], T]) -> list[T]:
        """Return what `work` returns for each worker."""
        groups = {
            (axis, members): Group(members)
            for axis in mesh.sizes
            for members in {mesh.group(rank, axis) for rank in range(mesh.workers)}
        }
        results: dict[int, T] = {}
        errors: dict[int, BaseException] = {}
        workers: dict[int, Worker] = {}

        boxes = Boxes()

        def end() -> None:
            boxes.failed.set()
            for group in groups.values():
                group.barrier.abort()

        def one(rank: int) -> None:
            WORKER.set(workers[rank])
            try:
                results[rank] = work(rank)
            except BaseException as error:  # it is raised below
                errors[rank] = error
                end()

        for rank in range(mesh.workers):
            mine = {axis: groups[axis, mesh.group(rank, axis)] for axis in mesh.sizes}
            talk = ThreadCommunicator(rank, mine, boxes)
            workers[rank] = Worker(rank, mesh.coordinates(rank), talk)
        threads = [
            threading.Thread(target=one, args=(rank,), name=f"worker {rank}", daemon=True)
            for rank in workers
        ]
        try:
            for thread in threads:
                thread.start()
            self._join(threads, work, workers, errors)
        except BaseException:
            end()
            raise
        if errors:
            raise self._told(mesh, errors)
        return [results[rank] for rank in range(mesh.workers)]

    def _join(
        self,
        threads: Sequence[threading.Thread],
        work: object,
        workers: Mapping[int, Worker],
        errors: Mapping[int, BaseException],
    ) -> None:
        """Wait until all workers have ended, or raise if some wait for one that stands still."""
        patience = Patience()
        for thread in threads:
            while thread.is_alive():
                thread.join(POLL)
                if not errors:
                    alive = {rank for rank in workers if threads[rank].is_alive()}
                    _look(patience, work, workers, alive)

    def _told(self, mesh: Mesh, errors: dict[int, BaseException]) -> BaseException:
        """Return the error of the worker that failed first, with its place."""
        failed = {
            rank: error
            for rank, error in errors.items()
            if not isinstance(error, threading.BrokenBarrierError)
        }
        rank, error = min(failed.items())
        place = ", ".join(f"{axis} {at}" for axis, at in mesh.coordinates(rank).items())
        error.add_note(f"in worker {rank} ({place})")
        return error


def _look(patience: Patience, work: object, workers: Mapping[int, Worker], alive: set[int]) -> None:
    """Raise if workers wait for one that stands still.

    Who waits takes none of the processor's time, so that all of it is of those who compute.
    """
    patience.tick()
    seconds = process_time()
    for rank in alive:
        worker = workers[rank]
        doing = "waits" if worker.waits else "computes"
        patience.saw(rank, Seen(doing, seconds, hash(worker.met)))
    waiting = [rank for rank in alive if workers[rank].waits]
    hung = [rank for rank in alive if patience.still(rank, "computes")]
    if waiting and hung:
        why = f"has hung: it has computed nothing for {patience.limit:g} s, and others wait"
        raise lost(work, workers[hung[0]], why)
    if waiting and all(patience.still(rank, "waits") for rank in alive):
        ended = [rank for rank in workers if rank not in alive]
        raise lost(work, workers[(ended or waiting)[0]], "did not come where others wait")
