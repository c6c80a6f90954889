"""A device of several: each runs a stage of a graph, one microbatch after the other.

    ll.Pipelined(stages={"layers.0*": 0, "layers.1*": 1}, batch=["x", "t"], microbatches=8)

`microbatch` and `stage` are passes over whole shapes, whose `reshard` and `move` are identities.
What a worker runs is cut out of the last graph (`segments`), and compiled for the device. Sums over
the batch are added up over the microbatches, so gradients are those of the whole batch.
"""

from __future__ import annotations

import queue
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import BrokenBarrierError, Event
from time import perf_counter
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, NodeStep
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.ops import Input
from luminal_lab.core.origin import here
from luminal_lab.errors import ArgumentError, NotComputedError, PassError, expect
from luminal_lab.passes.base import spec_text
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.dead_code import DeadCode
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.passes.inlining import Inlining
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.workers.compiler import DEEPEST, THREADS
from luminal_lab.workers.flow import Flow
from luminal_lab.workers.lanes import Lanes, Sent, Work
from luminal_lab.workers.mesh import Mesh
from luminal_lab.workers.ops import WORKER, AllReduce, Worker
from luminal_lab.workers.partition import Part, partition
from luminal_lab.workers.pipe_ops import POST
from luminal_lab.workers.segments import PHASES, Place, Segments
from luminal_lab.workers.stage import MICRO, Microbatch, Stage, microbatches

Schedule: TypeAlias = Literal["gpipe", "1f1b"]
GLANCE = 0.05
"""The seconds between two looks at whether another worker has failed."""


@dataclass(frozen=True, init=False, repr=False)
class Pipelined(Pipeline):
    """Run a graph in stages, each on a worker of its own, one microbatch after the other.

    `stages` says by patterns of scopes which worker computes what; `batch` names the inputs that
    are cut into microbatches along their first axis. With "gpipe" all microbatches go forward
    before the first goes back, with "1f1b" each goes back as soon as it can, and fewer are kept.

    >>> x = cx.tensor((8, 4), name="x").set(np.ones((8, 4)))
    >>> with cx.scope("first"):
    ...     y = x.exp()
    >>> with cx.scope("second"):
    ...     z = y.sin().sum().retrieve()
    >>> compiled = cx.compile(ll.Pipelined({"first": 0, "second": 1}, batch="x", microbatches=4))
    >>> cx.execute()
    >>> compiled.program.lanes.formula
    0.2
    """

    name: ClassVar[str] = "pipelined"
    stages: Mapping[str, int]
    batch: tuple[str, ...]
    microbatches: int
    schedule: Schedule = "gpipe"
    device: Pipeline | None = None

    def __init__(
        self,
        stages: Mapping[str, int],
        device: Pipeline | None = None,
        *,
        batch: str | Sequence[str],
        microbatches: int = 4,
        schedule: Schedule = "gpipe",
    ) -> None:
        hint = 'as in {"layers.0*": 0, "layers.1*": 1}'
        expect(stages, Mapping, "Pipelined: the stages are {}", hint)
        numbers = [*stages.values()]
        if not numbers or {*numbers} != {*range(1 + max(numbers))}:
            raise ArgumentError(
                f"Pipelined: the stages are {numbers}",
                hint="they count from 0, and none is left out",
            )
        fault = f"Pipelined: {microbatches!r} microbatches"
        ArgumentError.unless_number(microbatches, fault, "give a whole number, 1 or more", low=1)
        if schedule not in ("gpipe", "1f1b"):
            raise ArgumentError(
                f"Pipelined: the schedule is {schedule!r}", hint='"gpipe" or "1f1b"'
            )
        hint = "as in ll.Pipelined(stages, ll.CPUCompiler(threads=1), batch=…)"
        expect(device, Pipeline | None, "Pipelined: the device is {}", hint)
        names = (batch,) if isinstance(batch, str) else tuple(batch)
        origin, calls = here(), Pipeline([Inlining()], rounds=DEEPEST)
        micro = Microbatch(int(microbatches), names, origin)
        super().__init__([calls, DeadCode(), micro, Stage(dict(stages), origin), DeadCode()])
        given = {"stages": dict(stages), "batch": names, "microbatches": int(microbatches)}
        for name, value in {**given, "schedule": schedule, "device": device}.items():
            object.__setattr__(self, name, value)
        THREADS.unless_enough(Mesh(stage=self.workers))

    @property
    def workers(self) -> int:
        """The number of stages."""
        return 1 + max(self.stages.values())

    @classmethod
    def of_text(cls) -> Pipelined:
        """Raise, as patterns of scopes have no text.

        >>> ll.Pipelined.of_text()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        luminal_lab.errors.PassError: pipelined: a text has no stages...
        """
        raise PassError("pipelined: a text has no stages", hint="ll.Pipelined({…}, batch=…)")

    @override
    def runner(self, ir: IR, specialise: Mapping[str, int] | None = None) -> PipelinedProgram:
        del specialise  # sizes that are cut are numbers
        return PipelinedProgram(ir, self)

    @override
    def unless_here(self) -> None:
        if self.device is not None:
            self.device.unless_here()

    @override
    def devices(self) -> tuple[Pipeline, ...]:
        return (self,)

    @override
    def __str__(self) -> str:
        device = {} if self.device is None else {"device": str(self.device)}
        sizes = {"stages": self.workers, "microbatches": self.microbatches}
        return spec_text(self.name, {**sizes, **device})


def turns(how: Pipelined, stage: int) -> Iterator[tuple[int, int]]:
    """Yield the phases and microbatches that a worker goes through, in order."""
    count = how.microbatches
    ahead = count if how.schedule == "gpipe" else min(count, how.workers - 1 - stage)
    yield from ((0, micro) for micro in range(ahead))
    for micro in range(ahead, count):
        yield 0, micro
        yield 1, micro - ahead
    yield from ((1, micro) for micro in range(count - ahead, count))


class Mailboxes:
    """What workers that are threads of this process send to each other."""

    def __init__(self) -> None:
        self.boxes: dict[tuple[int, int, int], queue.SimpleQueue[tuple[float, Array]]]
        self.boxes = defaultdict(queue.SimpleQueue)
        self.failed = Event()


class Letters(NamedTuple):
    """The post of one worker; see `Post`."""

    worker: Worker
    boxes: Mailboxes
    sent: list[Sent]
    waited: list[float]

    @property
    def rank(self) -> int:
        """The worker's number."""
        return self.worker.rank

    def send(self, x: Array, to: int, tag: int) -> None:
        """Put a copy into the box of another worker."""
        self.boxes.boxes[self.rank, to, tag].put((perf_counter(), np.array(x)))

    def receive(self, source: int, tag: int) -> Array:
        """Take the next value out of a box; the engine sees who waits in vain."""
        start, box = perf_counter(), self.boxes.boxes[source, self.rank, tag]
        self.worker.waits = True
        while True:
            try:
                at, value = box.get(timeout=GLANCE)
                break
            except queue.Empty:
                if self.boxes.failed.is_set():
                    raise BrokenBarrierError from None  # another one's error is told
        self.worker.waits = False
        now = perf_counter()
        self.waited.append(now - start)
        self.sent.append(Sent(source, self.rank, f"%{tag}", value.nbytes, at, now))
        return value


class Done(NamedTuple):
    """What a worker has to show after a run."""

    outputs: dict[int, list[Array]]
    work: list[Work]
    sent: list[Sent]
    kept: int


class Compiled(NamedTuple):
    """A segment, compiled."""

    compilation: Compilation
    inputs: Mapping[int, int]
    """The nodes of a microbatch's graph, by the inputs that they are."""
    outputs: Mapping[int, int]
    """The outputs, by the nodes that they are."""
    ends: tuple[int, ...]
    """All outputs, with what is sent."""


@dataclass
class Program:
    """The graphs of all workers for some outputs."""

    how: Pipelined
    segments: Segments
    outputs: tuple[Part, ...]

    @cached_property
    def compiled(self) -> dict[Place, Compiled]:
        """The segments in which anything is computed."""
        device = self.how.device
        passes = [DeadCode(), *([] if device is None else [GenericCompiler(), device])]
        found: dict[Place, Compiled] = {}
        for place, segment in self.segments.all.items():
            ir = segment.ir
            if not ir.output_ids:
                continue
            compilation = compile_ir(ir, *passes)
            ends = dict(zip(ir.output_ids, compilation.ir.output_ids, strict=True))
            made = {id: ends[local] for id, local in segment.made.items()}
            found[place] = Compiled(compilation, segment.given, made, (*ends.values(),))
        return found


class Turns:
    """One worker at work, microbatch by microbatch."""

    def __init__(
        self,
        program: Program,
        letters: Letters,
        data: Mapping[int, Array],
        environment: Environment,
    ) -> None:
        self.program, self.letters, self.data = program, letters, data
        self.segments, self.environment = program.segments, environment
        self.rank, self.began = letters.rank, 0.0
        self.asked = {part.local for part in program.outputs}
        self.sums: dict[int, Array] = {}
        self.outputs: dict[int, list[Array]] = {}
        self.work: list[Work] = []

    def run(self) -> Done:
        """Go through all turns, and the end."""
        worker = self.letters.worker
        phases = [place.phase for place in self.program.compiled if place.stage == self.rank]
        final, most = max((phase for phase in phases if phase < 2), default=0), 0
        kept, last = dict[int, dict[int, Array]](), dict[int, Array]()
        POST.set(self.letters)
        for phase, micro in turns(self.program.how, self.rank):
            WORKER.set(replace(worker, place={**worker.place, MICRO: micro}))
            values = kept.setdefault(micro, {}) if phase <= final else {}
            most = max(most, len(kept))
            for id, value in self.turn(phase, micro, values).items():
                values[id] = value
                if id in self.segments.sums:
                    self.add(id, value)
                if id in self.asked:
                    self.outputs.setdefault(id, []).append(value)
            if phase == final:
                last = kept.pop(micro)
        for id, value in self.turn(2, -1, last).items():
            self.outputs[id] = [value]
        return Done(self.outputs, self.work, self.letters.sent, most)

    def add(self, id: int, value: Array) -> None:
        """Add a microbatch's term to what is joined over all of them."""
        if id not in self.sums:
            self.sums[id] = np.array(value)
            return
        join = np.add if self.segments.sums[id].kind == "sum" else np.maximum
        self.sums[id] = np.asarray(join(self.sums[id], value))

    def turn(self, phase: int, micro: int, values: Mapping[int, Array]) -> dict[int, Array]:
        """Run one segment; return what it makes, by the nodes of a microbatch's graph."""
        compiled = self.program.compiled.get(Place(phase, self.rank))
        if compiled is None:
            return {}
        ir, given = self.segments.ir, dict[int, Array]()
        for local, id in compiled.inputs.items():
            op = ir[id].op
            if isinstance(op, AllReduce):
                given[local] = self.sums[ir[id].sources[0]]
            else:
                given[local] = self.part(id, micro) if isinstance(op, Input) else values[id]

        def data(node: Node) -> Array:
            return given[node.id]

        environment = self.environment._replace(data=data, probes={}, versions={})
        self.letters.waited.clear()
        start = perf_counter()
        made = compiled.compilation.values(environment, {*compiled.ends}, {}, None)
        waited, name = sum(self.letters.waited), PHASES[phase]
        self.work.append(Work(self.rank, name, micro, start + waited, perf_counter()))
        return {id: made[local] for id, local in compiled.outputs.items()}

    def part(self, id: int, micro: int) -> Array:
        """Return what a microbatch has of an input."""
        value = self.data[id]
        if id not in self.segments.varying:
            return value
        size = len(value) // self.program.how.microbatches
        return value[micro * size : (micro + 1) * size]


class PipelinedProgram:
    """The program of all workers."""

    looks = False

    def __init__(self, ir: IR, how: Pipelined) -> None:
        self.ir, self.how = ir, how
        plan = microbatches(ir, how.batch, how.microbatches, None)
        self.flow = Flow(ir, plan.mesh, plan.inputs(ir), wishes=False)
        self.mesh = Mesh(stage=how.workers)
        self._programs: dict[tuple[int, ...], Program] = {}
        self._lanes: Lanes | None = None
        self.program = self.for_outputs(ir.output_ids)

    @property
    def lanes(self) -> Lanes:
        """When each worker did what in the last run."""
        if self._lanes is None:
            raise NotComputedError("lanes: nothing has run yet", hint="run cx.execute()")
        return self._lanes

    def worker(self, stage: int) -> dict[str, Compilation]:
        """Return the compiles of what a worker runs, by its phases."""
        found = self.program.compiled
        return {PHASES[p.phase]: c.compilation for p, c in found.items() if p.stage == stage}

    def for_outputs(self, outputs: Sequence[int]) -> Program:
        """Return the workers' program for some values of the graph."""
        key = tuple(dict.fromkeys(outputs))
        if key not in self._programs:
            parts = partition(self.ir, self.flow, key)
            segments = Segments(parts, self.how.stages, self.how.workers)
            self._programs[key] = Program(self.how, segments, parts.outputs)
        return self._programs[key]

    def run(
        self,
        environment: Environment,
        wanted: Iterable[int],
        known: Mapping[int, Array],
        trace: list[NodeStep] | None = None,
    ) -> dict[int, Array]:
        """Return the values of the wanted nodes, by their ids."""
        start, asked = perf_counter(), {*wanted}
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
        own = {part.whole.id for part in self.program.outputs}
        program = self.program if own >= {*ids} else self.for_outputs(ids)
        assert program.compiled, "it computes something"
        data = {
            part.local: known[part.whole.id]
            if part.whole.id in known
            else environment.data(part.whole)
            for part in program.segments.partitioned.inputs
        }
        boxes, began = Mailboxes(), perf_counter()

        def work(_: int) -> Done:
            try:
                worker = WORKER.get()
                assert worker is not None, "the engine has set it"
                return Turns(program, Letters(worker, boxes, [], []), data, environment).run()
            except BaseException:
                boxes.failed.set()
                raise

        try:
            done = THREADS.run(self.mesh, work)
        except BaseException:
            boxes.failed.set()
            raise
        self._lanes = Lanes(
            self.how.workers,
            self.how.microbatches,
            tuple(
                w._replace(start=w.start - began, end=w.end - began) for d in done for w in d.work
            ),
            tuple(
                s._replace(start=s.start - began, end=s.end - began) for d in done for s in d.sent
            ),
            tuple(d.kept for d in done),
        )
        return {
            part.whole.id: _whole(part, done) for part in program.outputs if part.whole.id in ids
        }


def _whole(part: Part, done: Sequence[Done]) -> Array:
    """Return a whole value, of the worker that has made it."""
    values = next(each.outputs[part.local] for each in done if part.local in each.outputs)
    if MICRO not in part.layout.dims:
        return values[-1]
    return np.concatenate(values, part.layout.dims.index(MICRO))
