"""A device of several: each runs a stage of a graph, one microbatch after the other.

    ll.Pipelined(stages={"layers.0*": 0, "layers.1*": 1}, batch=["x", "t"], microbatches=8)

`microbatch` and `stage` are passes over whole shapes, whose `reshard` and `move` are identities.
What a worker runs is cut out of the last graph (`segments`), and compiled for the device. Sums over
the batch are added up over the microbatches, so gradients are those of the whole batch.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter
from typing import ClassVar, NamedTuple, cast

import numpy as np
from typing_extensions import override

from luminal_lab.core.binding import bound_shape
from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, NodeStep
from luminal_lab.core.ir import IR
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
from luminal_lab.plain import plain, read
from luminal_lab.tensor.versions import there
from luminal_lab.workers.clocks import clocks_of
from luminal_lab.workers.compiler import DEEPEST, THREADS, Engine, engine_of, unless_device
from luminal_lab.workers.flow import Flow
from luminal_lab.workers.job import Job, Meeting, input_of, stays, told, trusted
from luminal_lab.workers.lanes import Lanes, Sent, Work
from luminal_lab.workers.mesh import Mesh
from luminal_lab.workers.ops import WORKER, AllReduce, Communicator, letters_of
from luminal_lab.workers.partition import Part, partition
from luminal_lab.workers.pipe_ops import as_bytes
from luminal_lab.workers.segments import PHASES, Place, Segments
from luminal_lab.workers.stage import MICRO, Microbatch, Stage, microbatches
from luminal_lab.workers.turns import Act, Done, Given, Schedule, Script, Turns, gone_through


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
    engine: Engine = THREADS

    def __init__(
        self,
        stages: Mapping[str, int],
        device: Pipeline | None = None,
        *,
        batch: str | Sequence[str],
        microbatches: int = 4,
        schedule: Schedule = "gpipe",
        engine: Engine | None = None,
    ) -> None:
        hint = 'as in {"layers.0*": 0, "layers.1*": 1}'
        expect(stages, Mapping, "Pipelined: the stages are {}", hint)
        numbers = [*stages.values()]
        hint = "give a whole number for each pattern, from 0"
        for number in numbers:
            fault = f"Pipelined: the stages are {numbers}"
            ArgumentError.unless_number(number, fault, hint, low=0)
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
        unless_device("Pipelined", device, hint)
        hint = 'give names of inputs, as in batch="x" or batch=("x", "targets")'
        expect(batch, str | list | tuple, "Pipelined: the batch is {}", hint)
        names = (batch,) if isinstance(batch, str) else tuple(batch)
        for name in names:
            expect(name, str, "Pipelined: the batch has {}", hint)
        origin, calls = here(), Pipeline([Inlining()], rounds=DEEPEST)
        micro = Microbatch(int(microbatches), names, origin)
        super().__init__([calls, DeadCode(), micro, Stage(dict(stages), origin), DeadCode()])
        given = {"stages": dict(stages), "batch": names, "microbatches": int(microbatches)}
        how = {"schedule": schedule, "device": device, "engine": engine_of("Pipelined", engine)}
        for name, value in {**given, **how}.items():
            object.__setattr__(self, name, value)
        try:
            self.engine.unless_enough(Mesh(stage=self.workers))
        except ArgumentError as error:
            error.where = str(origin or "") or None
            raise

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


class Compiled(NamedTuple):
    """A segment, compiled."""

    act: Act
    compilation: Compilation


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
        return {
            place: Compiled(act_of(self.segments, place), compile_ir(segment.ir, *passes))
            for place, segment in self.segments.all.items()
            if segment.ir.output_ids
        }

    def of(self, stage: int) -> list[Compilation]:
        """Return the compiles of a stage, by its phases in order."""
        return [one.compilation for place, one in self.compiled.items() if place.stage == stage]

    @cached_property
    def homes(self) -> dict[int, int]:
        """The stage that makes each output, by the ids of a microbatch's graph."""
        ir, segments = self.segments.ir, self.segments
        return {part.local: segments.home(ir[part.local]).stage for part in self.outputs}

    @cached_property
    def scripts(self) -> list[Script]:
        """What each stage goes through."""
        segments, how = self.segments, self.how
        return [
            Script(
                stage,
                how.workers,
                how.microbatches,
                how.schedule,
                tuple(one.act for place, one in self.compiled.items() if place.stage == stage),
                tuple((id, op.kind) for id, op in segments.sums.items()),
                tuple(p.local for p in segments.partitioned.inputs if p.local in segments.varying),
                tuple(
                    (part.local, part.layout.at(MICRO))
                    for part in self.outputs
                    if self.homes[part.local] == stage
                ),
            )
            for stage in range(how.workers)
        ]

    @cached_property
    def specs(self) -> list[str]:
        """What each stage compiles elsewhere, as JSON."""
        found: list[str] = []
        for stage, script in enumerate(self.scripts):
            compiled = self.of(stage)
            passes = [str(entry) for entry in compiled[0].pipeline] if compiled else []
            graphs = [str(compilation.written) for compilation in compiled]
            words = {"script": plain(script), "graphs": graphs, "passes": passes}
            found.append(json.dumps(words))
        return found

    @cached_property
    def key(self) -> str:
        """A digest of what all stages run."""
        return hashlib.sha256("\n".join(self.specs).encode()).hexdigest()


def act_of(segments: Segments, place: Place) -> Act:
    """Return what a segment computes, by numbers alone."""
    segment, ir = segments.all[place], segments.ir
    at = {id: k for k, id in enumerate(segment.ir.output_ids)}

    def given(id: int) -> Given:
        match ir[id].op:
            case AllReduce():
                return Given("sum", ir[id].sources[0])
            case Input():
                return Given("input", id)
            case _:
                return Given("kept", id)

    inputs = tuple(given(id) for id in segment.given.values())
    return Act(place.phase, inputs, tuple((id, at[local]) for id, local in segment.made.items()))


MADE = 1 << 20
"""The tag from which on workers send each other what they have made; others are ids of nodes."""


@dataclass(frozen=True)
class StagesJob(Job):
    """A graph in stages, each on a worker of its own, one microbatch after the other."""

    program: Program = field(kw_only=True)
    done: dict[int, Done] = field(default_factory=dict[int, Done], kw_only=True)
    """What the workers have told about their run."""

    def __call__(self, rank: int) -> dict[int, Array]:
        """Return what a stage makes, as whole values."""
        compiled, script = self.program.of(rank), self.program.scripts[rank]
        data = {local: there(value) for local, value in self.given.items()}
        turns = Turns(script, compiled, data, self.environment)
        made, self.done[rank] = turns.run(), turns.done
        return {local: value for local, value in made.items() if local in self.wanted}

    def shared(self, talk: Communicator, rank: int) -> list[dict[int, Array]]:
        """Return what all workers make; who makes it sends it to the others."""
        worker = WORKER.get()
        assert worker is not None, "the engine has set it"
        letters, others = letters_of(worker), [k for k in range(self.mesh.workers) if k != rank]
        found: list[dict[int, Array]] = [{} for _ in range(self.mesh.workers)]
        found[rank] = self(rank)
        for other, text in enumerate(told(talk, self.mesh, json.dumps(plain(self.done[rank])))):
            self.heard(other, text)
        for number, (local, (whole, _, _)) in enumerate(self.wanted.items()):
            tag, home = MADE + number, self.program.homes[local]
            if home == rank:
                for other in others:
                    letters.send(as_bytes(np.ascontiguousarray(found[rank][local])), other, tag)
                continue
            shape = bound_shape(f"execute: {whole}", whole.shape, self.environment.dims)
            found[home][local] = np.empty(shape, whole.dtype.numpy)
            letters.receive(as_bytes(found[home][local]), home, tag)
        return found

    def inputs(self, rank: int, parts: Sequence[Part] | None = None) -> Iterator[Array]:
        """Yield whole inputs: a worker cuts microbatches out of them."""
        for part in self.parts if parts is None else parts:
            yield np.ascontiguousarray(value := there(self.given[part.local])).reshape(value.shape)

    def needs(self, rank: int, part: Part) -> bool:
        """A stage has inputs of its own."""
        return part.local in self.program.scripts[rank].needed

    def makes(self, rank: int, local: int) -> bool:
        """One stage makes a value."""
        return self.program.homes[local] == rank

    gives = makes

    def places(self) -> tuple[Mapping[int, int], Mapping[int, int]]:
        """Scripts have the ids of a microbatch's graph."""
        return {part.local: part.local for part in self.parts}, {id: id for id in self.wanted}

    @property
    def key(self) -> str:
        """That of all stages."""
        return self.program.key

    def spec(self, rank: int) -> tuple[str, str, list[str]]:
        """Return the script of a stage with its graphs and passes."""
        graphs = [compilation.written for compilation in self.program.of(rank)]
        return "stage", self.program.specs[rank], trusted(graphs)

    def graphs(self, rank: int) -> Sequence[IR]:
        """Return the graphs of a stage."""
        return [compilation.ir for compilation in self.program.of(rank)]

    def meetings(self, rank: int) -> list[Meeting]:
        """Return where a worker sends and receives, turn by turn."""
        return gone_through(self.program.scripts[rank], self.graphs(rank))

    def order(self, rank: int) -> dict[int, int]:
        """Letters are counted."""
        return {k: k for k in range(len(self.meetings(rank)))}

    def heard(self, rank: int, text: str) -> None:
        """Take what a worker elsewhere tells about its run."""
        self.done[rank] = read(Done, json.loads(text))

    def lanes(self) -> Lanes:
        """Return when each worker did what."""
        done = [self.done[rank] for rank in range(self.mesh.workers)]
        how, clocks = self.program.how, clocks_of(self.mesh, [one.clock for one in done])
        began = [one.began - ahead for one, ahead in zip(done, clocks.ahead, strict=True)]
        late = [one - min(began) for one in began]
        work, sent = list[Work](), list[Sent]()
        for rank, one in enumerate(done):
            begun = late[rank]
            work += [w._replace(start=w.start + begun, end=w.end + begun) for w in one.work]
            times = defaultdict[tuple[int, int], list[float]](list)
            for source, other in enumerate(done):
                for moved in other.sent:
                    if moved.other == rank:
                        times[source, moved.tag].append(moved.at + late[source])
            for source, tag, size, end in one.received:
                at = times[source, tag].pop(0)
                sent.append(Sent(source, rank, f"%{tag}", size, at, max(at, end + begun)))
        kept = tuple(one.kept for one in done)
        return Lanes(
            how.workers, how.microbatches, tuple(work), tuple(sent), kept, (), clocks.within
        )


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
        made = {part.whole.id: part for part in program.outputs}
        parts = program.segments.partitioned.inputs
        carried = {made[new].local for new, _ in self.ir.carries if new in {*ids}}
        job = StagesJob(
            self.mesh,
            environment,
            parts,
            {part.local: input_of(environment, known, part.whole) for part in parts},
            {made[id].local: made[id] for id in ids},
            carried,
            stays(environment, self.how.engine, carried),
            program=program,
        )
        found = self.how.engine.run(self.mesh, job)
        self._lanes = job.lanes()
        for local in job.wanted:
            job.returned[local] = found[program.homes[local]][local]
        # What stays with workers is no array yet; a session has said that it takes that.
        return cast("dict[int, Array]", {id: job.returned[made[id].local] for id in ids})
