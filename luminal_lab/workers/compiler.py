"""A device that holds a device: the graph of one worker, compiled for it, on all workers of a mesh.

    plan = ll.sharding(ll.Mesh(data=2), {"x": ("data", None)})
    cx.compile(ll.GenericCompiler(), ll.Sharded(plan, ll.CPUCompiler()))

`shard` is a pass of the compile, over whole shapes. `partition` makes a worker's graph of the last
one; it has a compile of its own, `compiled.program.worker`, whose passes can be looked at likewise.
A run cuts the inputs, runs all workers, and puts their parts of the outputs together.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from time import perf_counter
from typing import ClassVar, Protocol, cast

import numpy as np
from typing_extensions import override

from luminal_lab.core.binding import bound_shape
from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, NodeStep
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import ints
from luminal_lab.errors import ArgumentError, NotComputedError, PassError, expect, flag
from luminal_lab.passes.base import spec_text
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.dead_code import DeadCode
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.passes.inlining import Inlining
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.plain import read
from luminal_lab.tensor.versions import Later, there
from luminal_lab.workers.bucket import Bucketing
from luminal_lab.workers.communication import Communication
from luminal_lab.workers.flow import Flow
from luminal_lab.workers.job import Job, PartsJob, Texts, input_of, stays, where
from luminal_lab.workers.lanes import Lanes, Track, lanes_of
from luminal_lab.workers.layout import Layout
from luminal_lab.workers.mesh import Mesh
from luminal_lab.workers.partition import Partitioned, partition
from luminal_lab.workers.plan import Sharding
from luminal_lab.workers.shard import Shard
from luminal_lab.workers.threads import Threads

THREADS = Threads()
DEEPEST = 50
"""How many levels of nested calls are inlined."""


class Engine(Protocol):
    """What runs the workers of a mesh, each with its communicator in `ops.WORKER`.

    >>> ll.engines.Threads().name
    'threads'
    """

    name: str

    def unless_enough(self, mesh: Mesh) -> None:
        """Raise if a mesh has more workers than there are."""
        ...

    def run(self, mesh: Mesh, job: Job, /) -> Sequence[Mapping[int, Array | Later]]:
        """Return what each worker makes of a job; its parts of whole values alone are read."""
        ...


def unless_device(caller: str, device: object, hint: str) -> None:
    """Raise if workers cannot run on a device: on none that has workers itself."""
    expect(device, Pipeline | None, f"{caller}: the device is {{}}", hint)
    if hasattr(getattr(device, "engine", None), "unless_enough"):
        raise ArgumentError(f"{caller}: the device {device} has workers of its own", hint=hint)


def engine_of(caller: str, engine: Engine | None) -> Engine:
    """Return an engine that was given, or threads."""
    if engine is None:
        return THREADS
    if isinstance(engine, type) or not hasattr(engine, "unless_enough"):
        hint = "as in engine=ll.engines.MPI(cluster); without one, workers are threads"
        raise ArgumentError(f"{caller}: the engine is {engine!r}", hint=hint)
    return engine


@dataclass(frozen=True, init=False, repr=False)
class Sharded(Pipeline):
    """Run a graph on all workers of a mesh, each of them on a device.

    Without a device the interpreter runs the graph of each worker. With `bucket=False` each sum is
    sent by itself, however small.

    >>> plan = ll.sharding(ll.Mesh(data=2), {"x": ("data", None)})
    >>> y = cx.tensor((4, 3), name="x").sum(0).retrieve()
    >>> compiled = cx.compile(ll.Sharded(plan))
    >>> [(row.op, row.bytes) for row in compiled.communication]
    [('all_reduce', 12)]
    """

    name: ClassVar[str] = "sharded"
    plan: Sharding
    device: Pipeline | None = None
    engine: Engine = THREADS
    bucket: bool = True

    def __init__(
        self,
        plan: Sharding,
        device: Pipeline | None = None,
        *,
        engine: Engine | None = None,
        bucket: bool = True,
    ) -> None:
        expect(plan, Sharding, "Sharded: the plan is {}", "as in ll.sharding(mesh, {…})")
        hint = "as in ll.Sharded(plan, ll.CPUCompiler())"
        unless_device("Sharded", device, hint)
        engine = engine_of("Sharded", engine)
        try:
            engine.unless_enough(plan.mesh)
        except ArgumentError as error:
            error.where = None if plan.origin is None else str(plan.origin)
            raise
        calls = Pipeline([Inlining()], rounds=DEEPEST)
        super().__init__([calls, DeadCode(), Shard(plan), DeadCode()])
        given = {"plan": plan, "device": device, "engine": engine}
        for name, value in {**given, "bucket": flag("Sharded: bucket", bucket)}.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of_text(cls) -> Sharded:
        """Raise, as what is annotated has no text.

        >>> ll.Sharded.of_text()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        luminal_lab.errors.PassError: sharded: a text cannot say what is cut...
        """
        raise PassError(
            "sharded: a text cannot say what is cut", hint="ll.Sharded(ll.sharding(mesh, {…}))"
        )

    @override
    def runner(self, ir: IR, specialise: Mapping[str, int] | None = None) -> ShardedProgram:
        return ShardedProgram(ir, self, specialise)

    @override
    def unless_here(self) -> None:
        if self.device is not None:
            self.device.unless_here()

    @override
    def devices(self) -> tuple[Pipeline, ...]:
        return (self,)

    @override
    def __str__(self) -> str:
        mesh = tuple(f"{name}.{size}" for name, size in self.plan.mesh.axes)
        device = {} if self.device is None else {"device": str(self.device)}
        return spec_text(self.name, {"mesh": mesh, **device})


class Workers:
    """The graph of a worker for some outputs, compiled once and run by all of them."""

    def __init__(
        self, program: ShardedProgram, outputs: Sequence[int], specialise: Mapping[str, int] | None
    ) -> None:
        self.partitioned: Partitioned = partition(program.ir, program.flow, outputs)
        how = program.how
        passes = [*([Bucketing()] if how.bucket else []), DeadCode()]
        device = [] if how.device is None else [GenericCompiler(), how.device]
        sizes = specialise if device else None
        self.first = compile_ir(self.partitioned.ir, *passes, *device, specialise=sizes)
        self.pipeline, self.specialise = self.first.pipeline, specialise or {}
        passes = [str(entry) for entry in self.pipeline]
        self.texts = Texts(program.mesh, self.partitioned.ir, passes, self.specialise)
        self._lock = Lock()

    @cached_property
    def positions(self) -> dict[int, int]:
        """The number of each output, by its id in the whole graph."""
        return {part.whole.id: k for k, part in enumerate(self.partitioned.outputs)}

    def each(self, count: int) -> list[Compilation]:
        """Return a compile for each worker: one program has one memory."""
        with self._lock:
            while len(self._each) < count:
                first = self.first
                runner = self.pipeline.runner(first.ir, self.specialise)
                given = self.pipeline, first.verify_seconds, runner, first.licence
                self._each.append(Compilation(first.snapshots, *given))
            return self._each[:count]

    @cached_property
    def _each(self) -> list[Compilation]:
        return [self.first]


class ShardedProgram:
    """The program of all workers."""

    looks = False

    def __init__(self, ir: IR, how: Sharded, specialise: Mapping[str, int] | None = None) -> None:
        self.ir, self.how, self.mesh = ir, how, how.plan.mesh
        self.flow = Flow(ir, self.mesh, how.plan.inputs(ir), wishes=False)
        self.specialise = specialise
        self._workers: dict[tuple[int, ...], Workers] = {}
        self._tracks: dict[int, Track | str] | None = None
        self.workers = self.for_outputs(ir.output_ids)

    @property
    def worker(self) -> Compilation:
        """The compile of a worker's graph."""
        return self.workers.first

    @property
    def communication(self) -> Communication:
        """What the workers send to each other."""
        return Communication(self.flow)

    @property
    def lanes(self) -> Lanes:
        """When each worker did what in the last run."""
        if self._tracks is None:
            raise NotComputedError("lanes: nothing has run yet", hint="run cx.execute()")
        tracks = [self._tracks[rank] for rank in range(self.mesh.workers)]
        read_ones = [read(Track, json.loads(t)) if isinstance(t, str) else t for t in tracks]
        return lanes_of(self.mesh, read_ones)

    def layout(self, node: Node | int | str) -> Layout:
        """Return the layout of a value; `*` marks axes of which a worker makes any part."""
        return self.flow.raw[self.ir[node].id]

    def for_outputs(self, outputs: Sequence[int]) -> Workers:
        """Return the workers' program for some values of the graph."""
        key = tuple(dict.fromkeys(outputs))
        if key not in self._workers:
            self._workers[key] = Workers(self, key, self.specialise)
        return self._workers[key]

    def run(
        self,
        environment: Environment,
        wanted: Iterable[int],
        known: Mapping[int, Array],
        trace: list[NodeStep] | None = None,
    ) -> dict[int, Array]:
        """Return the values of the wanted nodes, by their ids."""
        start = perf_counter()
        asked = {*wanted}
        left = [id for id in sorted({*asked, *environment.probes}) if id not in known]
        values = {id: known[id] for id in asked if id in known}
        if left:
            values |= self._computed(environment, left, known)
        for id, probes in environment.probes.items():
            for probe in probes:
                view = values[id].view()
                view.flags.writeable = False
                probe(view)
        if trace is not None and self.ir.output_ids:
            size = sum(value.nbytes for value in values.values())
            trace.append(NodeStep(self.ir.outputs[-1], perf_counter() - start, size, start))
        return {id: values[id] for id in asked}

    def _computed(
        self, environment: Environment, ids: Sequence[int], known: Mapping[int, Array]
    ) -> dict[int, Array]:
        """Return values that all workers compute their parts of."""
        workers = self.workers
        if not workers.positions.keys() >= {*ids}:
            workers = self.for_outputs(ids)
        made = {part.whole.id: part for part in workers.partitioned.outputs}
        local = {id: workers.first.ir.output_ids[workers.positions[id]] for id in ids}
        needed = workers.partitioned.ir.ancestors([made[id].local for id in ids])
        parts = [part for part in workers.partitioned.inputs if part.local in needed]
        carried = {local[new] for new, _ in self.ir.carries if new in local}
        job = PartsJob(
            self.mesh,
            environment,
            parts,
            {part.local: input_of(environment, known, part.whole) for part in parts},
            {local[id]: made[id] for id in ids},
            carried,
            stays(environment, self.how.engine, carried),
            texts=workers.texts,
            compiled=lambda rank: workers.each(rank + 1)[rank],
        )
        results = self.how.engine.run(self.mesh, job)
        self._tracks = job.tracks
        for id in ids:
            given = [result.get(local[id]) for result in results]
            job.returned[local[id]] = self._together(job, local[id], given)
        # What stays with workers is no array yet; a session has said that it takes that.
        return cast("dict[int, Array]", {id: job.returned[local[id]] for id in ids})

    def _together(
        self, job: Job, local: int, results: Sequence[Array | Later | None]
    ) -> Array | Later:
        """Return a whole value from the parts of all workers, or what does so when it is needed."""
        node, _, layout = job.wanted[local]
        shape = ints(bound_shape(f"execute: {node}", node.shape, job.environment.dims))
        dtype = node.dtype.numpy
        parts = [
            (where(self.mesh, layout, shape, self.mesh.coordinates(rank)), value)
            for rank, value in enumerate(results)
            if value is not None and job.gives(rank, local)
        ]

        def together() -> Array:
            whole = np.empty(shape, dtype)
            for place, value in parts:
                whole[place] = there(value)
            return whole

        if local in job.kept:
            return Later(together, math.prod(shape) * dtype.itemsize)
        return together()


__all__ = ["Engine", "Sharded", "ShardedProgram", "Workers"]
