"""What sharding adds to graphs: a change of layout, and what workers send to each other.

`reshard` stands in the graph of everybody, where shapes are global: there it is the identity. A
worker's graph has collectives in its place. Each of them has its meaning, so that any device runs
them; what they ask for is the communicator of the worker whose thread evaluates them.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter
from typing import ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.op import Op, TensorType, ints
from luminal_lab.errors import DeviceError


class Communicator(Protocol):
    """What an engine must have: all workers that differ along one axis of the mesh call it.

    The arrays given may be a device's own memory: they must have been read when a call returns.

    >>> sorted(name for name in vars(ll.engines.Communicator) if name.startswith("all"))
    ['all_gather', 'all_reduce', 'all_to_all']
    """

    def all_reduce(self, x: Array, axis: str, kind: Literal["sum", "max"]) -> Array:
        """Return the sum, or the largest, of what all of them give; to all the same bits."""
        ...

    def all_gather(self, x: Array, axis: str) -> list[Array]:
        """Return what all of them give, in their order."""
        ...

    def all_to_all(self, parts: list[Array], axis: str) -> list[Array]:
        """Return what each of them gives for this one, in their order."""
        ...


@runtime_checkable
class Letters(Protocol):
    """What an engine must have for pipelines: bytes from one worker to another, in order.

    An array that is sent may be a device's own memory: it must have been read when `send` returns.
    """

    def send(self, x: Array, to: int, tag: int) -> None:
        """Send bytes under a tag, without waiting for the other worker."""
        ...

    def receive(self, into: Array, source: int, tag: int) -> None:
        """Wait for the next bytes that another worker sends under a tag: as many as there are."""
        ...


class Visit(NamedTuple):
    """A collective as one worker saw it: what it gave, when it came, and when it left."""

    op: str
    axis: str
    bytes: int
    came: float
    left: float


class Reading(NamedTuple):
    """When a worker came to an exchange that compares clocks, and when it left; see `clocks`."""

    axis: str
    came: float
    left: float


@dataclass
class Worker:
    """A worker at work: its place in the mesh, whom it talks to, and how far it has come."""

    rank: int
    place: dict[str, int]
    communicator: Communicator
    met: int | None = None
    """What tells where it met others last: the id of a collective's op, or a number of letters."""
    waits: bool = False
    """Whether it waits there for the others."""
    visits: list[Visit] | None = None
    """The collectives of this run, if somebody wants to know when they were."""
    clock: tuple[Reading, ...] = ()
    """What compares its clock with those of others, if they have others."""


WORKER: ContextVar[Worker | None] = ContextVar("worker", default=None)
"""The worker whose graph this thread runs."""


def _worker(op: Op) -> Worker:
    worker = WORKER.get()
    if worker is None:
        raise DeviceError(
            f"{op.name}: no worker of a mesh runs here",
            hint="ll.Sharded(plan) runs the graph of a worker, on all of them",
        )
    return worker


@contextmanager
def _meeting(op: Collective, x: Array) -> Generator[Communicator]:
    """Yield whom this worker talks to, now that it has come to a collective."""
    worker = _worker(op)
    worker.met, came = id(op), perf_counter()
    yield worker.communicator
    if worker.visits is not None:
        worker.visits.append(Visit(op.name, op.axis, x.nbytes, came, perf_counter()))


def letters_of(worker: Worker) -> Letters:
    """Return what a worker sends by, or raise if its engine has nothing for that."""
    talk: object = worker.communicator
    if not isinstance(talk, Letters):
        raise DeviceError(
            f"pipelines need letters, and {type(talk).__name__} has no send and receive",
            hint="docs/sharding.md says what they must do",
        )
    return talk


@dataclass(frozen=True, slots=True)
class Reshard(Op):
    """The same value in another layout: what each worker has of it changes."""

    name: ClassVar[str] = "reshard"
    ulps: ClassVar[int] = 0
    old: str
    new: str

    @override
    def infer(self, x: TensorType) -> TensorType:
        return x

    @override
    def eval(self, x: Array) -> Array:
        return x


@dataclass(frozen=True, slots=True)
class Collective(Op):
    """An op for which the workers along an axis of the mesh meet."""

    ulps: ClassVar[int] = 0
    axis: str


@dataclass(frozen=True, slots=True)
class AllReduce(Collective):
    """The sum, or the largest, of the values of all workers along an axis of the mesh."""

    name: ClassVar[str] = "all_reduce"
    kind: Literal["sum", "max"]

    @override
    def infer(self, x: TensorType) -> TensorType:
        return x

    @override
    def eval(self, x: Array) -> Array:
        with _meeting(self, x) as others:
            return others.all_reduce(x, self.axis, self.kind)


@dataclass(frozen=True, slots=True)
class AllGather(Collective):
    """The parts of all workers along an axis of the mesh, side by side."""

    name: ClassVar[str] = "all_gather"
    dim: int
    parts: int

    @override
    def infer(self, x: TensorType) -> TensorType:
        return x.with_axis(self.dim, x.shape[self.dim] * self.parts)

    @override
    def eval(self, x: Array) -> Array:
        with _meeting(self, x) as others:
            parts = others.all_gather(x, self.axis)
        return np.concatenate(parts, self.dim)


@dataclass(frozen=True, slots=True)
class ReduceScatter(Collective):
    """This worker's part of the sum, or of the largest, of the values of all of them."""

    name: ClassVar[str] = "reduce_scatter"
    kind: Literal["sum", "max"]
    dim: int
    parts: int

    @override
    def infer(self, x: TensorType) -> TensorType:
        return x.with_axis(self.dim, x.shape[self.dim] // self.parts)

    @override
    def eval(self, x: Array) -> Array:
        given = np.split(x, self.parts, self.dim)
        with _meeting(self, x) as others:
            first, *rest = others.all_to_all(given, self.axis)
        joined = np.array(first)
        for other in rest:
            joined = np.add(joined, other) if self.kind == "sum" else np.maximum(joined, other)
        return joined


@dataclass(frozen=True, slots=True)
class AllToAll(Collective):
    """A value cut along one axis becomes cut along another one."""

    name: ClassVar[str] = "all_to_all"
    dim: int
    other: int
    parts: int

    @override
    def infer(self, x: TensorType) -> TensorType:
        narrow = x.with_axis(self.dim, x.shape[self.dim] // self.parts)
        return narrow.with_axis(self.other, x.shape[self.other] * self.parts)

    @override
    def eval(self, x: Array) -> Array:
        given = np.split(x, self.parts, self.dim)
        with _meeting(self, x) as others:
            parts = others.all_to_all(given, self.axis)
        return np.concatenate(parts, self.other)


@dataclass(frozen=True, slots=True)
class OwnPart(Collective):
    """This worker's part of a value that all of them have."""

    name: ClassVar[str] = "own_part"
    dim: int
    parts: int

    @override
    def infer(self, x: TensorType) -> TensorType:
        return x.with_axis(self.dim, x.shape[self.dim] // self.parts)

    @override
    def eval(self, x: Array) -> Array:
        at, size = _worker(self).place[self.axis], ints((x.shape[self.dim],))[0] // self.parts
        where = [slice(None)] * x.ndim
        where[self.dim] = slice(at * size, (at + 1) * size)
        return x[tuple(where)]


@dataclass(frozen=True, slots=True)
class OwnPlace(Op):
    """This worker's position along an axis of the mesh: it says which part of numbers to make."""

    name: ClassVar[str] = "place"
    ulps: ClassVar[int] = 0
    axis: str

    @override
    def infer(self) -> TensorType:
        return TensorType(DType.int64, ())

    @override
    def eval(self) -> Array:
        return np.array(_worker(self).place[self.axis], np.int64)
