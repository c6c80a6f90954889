"""One worker of a pipeline at work: its graphs, one microbatch after the other.

A `Script` says what they are, by numbers alone: so it is the same here and in a process elsewhere,
which is sent it with the texts of the graphs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Literal, NamedTuple, TypeAlias, cast

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment
from luminal_lab.core.ir import IR, Node
from luminal_lab.passes.compilation import Compilation
from luminal_lab.workers.job import Meeting, values
from luminal_lab.workers.lanes import Work
from luminal_lab.workers.layout import Kind
from luminal_lab.workers.ops import WORKER, Communicator, Letters, Reading, Worker, letters_of
from luminal_lab.workers.pipe_ops import Receive, Send
from luminal_lab.workers.segments import PHASES
from luminal_lab.workers.stage import MICRO

Schedule: TypeAlias = Literal["gpipe", "1f1b"]
END = 2
"""The phase in which all microbatches are done."""


class Given(NamedTuple):
    """What an input of a graph is: an input of the whole, a value kept, or a sum of all kept."""

    kind: Literal["input", "kept", "sum"]
    node: int


@dataclass(frozen=True)
class Act:
    """What a stage computes in one phase."""

    phase: int
    inputs: tuple[Given, ...]
    outputs: tuple[tuple[int, int], ...]
    """Nodes of the graph of a microbatch, and the numbers of the outputs that they are."""


@dataclass(frozen=True)
class Script:
    """What one stage of a pipeline goes through."""

    stage: int
    stages: int
    microbatches: int
    schedule: Schedule
    acts: tuple[Act, ...]
    sums: tuple[tuple[int, Kind], ...]
    """What is joined over all microbatches."""
    varying: tuple[int, ...]
    """The inputs of which each microbatch has a part of its own."""
    asked: tuple[tuple[int, int | None], ...]
    """What is asked for; along an axis, the microbatches' parts are put together."""

    @property
    def turns(self) -> Iterator[tuple[int, int]]:
        """The phases and microbatches that the worker goes through, in order, and the end."""
        count = self.microbatches
        ahead = count if self.schedule == "gpipe" else min(count, self.stages - 1 - self.stage)
        yield from ((0, micro) for micro in range(ahead))
        for micro in range(ahead, count):
            yield 0, micro
            yield 1, micro - ahead
        yield from ((1, micro) for micro in range(count - ahead, count))
        yield END, -1

    @property
    def needed(self) -> set[int]:
        """The inputs of the whole graph that the stage reads."""
        given = [one for act in self.acts for one in act.inputs]
        return {one.node for one in given if one.kind == "input"}


def gone_through(script: Script, graphs: Sequence[IR]) -> list[Meeting]:
    """Return where the worker of a script sends and receives, in order, turn by turn."""
    by_phase = {act.phase: ir for act, ir in zip(script.acts, graphs, strict=True)}
    return [
        Meeting(by_phase[phase], node)
        for phase, _ in script.turns
        if phase in by_phase
        for node in by_phase[phase]
        if isinstance(node.op, Send | Receive)
    ]


class Moved(NamedTuple):
    """A value that a worker has sent or received: with whom, under which tag, and when."""

    other: int
    tag: int
    bytes: int
    at: float


@dataclass
class Done:
    """What a worker has to tell after a run; times are in seconds after it began."""

    began: float = field(default_factory=perf_counter)
    """By the clock of its machine."""
    clock: tuple[Reading, ...] = ()
    """What compares the clock with those of others."""
    work: list[Work] = field(default_factory=list[Work])
    sent: list[Moved] = field(default_factory=list[Moved])
    received: list[Moved] = field(default_factory=list[Moved])
    kept: int = 0
    """The most microbatches whose values it kept at once."""


class Noted:
    """The letters of one worker, with a note of each: how far it has come, and how long it took."""

    def __init__(self, worker: Worker, done: Done) -> None:
        self.worker, self.done, self.began = worker, done, done.began
        self.letters: Letters = letters_of(worker)
        self.waited = 0.0
        self.met = 0

    def send(self, x: Array, to: int, tag: int) -> None:
        """Send a value."""
        self.come()
        self.done.sent.append(Moved(to, tag, x.nbytes, perf_counter() - self.began))
        self.letters.send(x, to, tag)

    def receive(self, into: Array, source: int, tag: int) -> None:
        """Wait for a value."""
        self.come()
        start, self.worker.waits = perf_counter(), True
        try:
            self.letters.receive(into, source, tag)
        finally:
            self.worker.waits = False
        now = perf_counter()
        self.waited += now - start
        self.done.received.append(Moved(source, tag, into.nbytes, now - self.began))

    def come(self) -> None:
        """Note that the worker has come to where it sends or receives."""
        self.worker.met, self.met = self.met, self.met + 1


class Turns:
    """One worker at work, microbatch by microbatch."""

    def __init__(
        self,
        script: Script,
        compiled: Sequence[Compilation],
        data: Mapping[int, Array],
        environment: Environment,
    ) -> None:
        worker = WORKER.get()
        assert worker is not None, "the engine has set it"
        self.script, self.data, self.environment = script, data, environment
        self.acts = {
            act.phase: (act, compilation)
            for act, compilation in zip(script.acts, compiled, strict=True)
        }
        self.worker, self.rank, self.done = worker, worker.rank, Done(clock=worker.clock)
        self.began = self.done.began
        self.noted = Noted(worker, self.done)
        self.joined = dict(script.sums)
        self.sums: dict[int, Array] = {}
        self.made: dict[int, list[Array]] = {id: [] for id, _ in script.asked}

    def run(self) -> dict[int, Array]:
        """Go through all turns, and the end; return what is asked for, as whole values."""
        script, done = self.script, self.done
        final = max((phase for phase in self.acts if phase < END), default=0)
        kept, last = dict[int, dict[int, Array]](), dict[int, Array]()
        for phase, micro in script.turns:
            place = {**self.worker.place, MICRO: micro}
            noted = cast("Communicator", self.noted)  # in stages there are letters alone
            token = WORKER.set(replace(self.worker, place=place, communicator=noted))
            try:
                keeps = phase <= final
                known = last if phase == END else kept.setdefault(micro, {}) if keeps else {}
                done.kept = max(done.kept, len(kept))
                for id, value in self.turn(phase, micro, known).items():
                    known[id] = value
                    if id in self.joined and phase < END:
                        self.add(id, value)
                    if id in self.made:
                        self.made[id].append(value)
                if phase == final:
                    last = kept.pop(micro)
            finally:
                WORKER.reset(token)
        return {
            id: self.made[id][-1] if axis is None else np.concatenate(self.made[id], axis)
            for id, axis in script.asked
        }

    def add(self, id: int, value: Array) -> None:
        """Add a microbatch's term to what is joined over all of them."""
        if id not in self.sums:
            self.sums[id] = np.array(value)
            return
        join = np.add if self.joined[id] == "sum" else np.maximum
        self.sums[id] = np.asarray(join(self.sums[id], value))

    def turn(self, phase: int, micro: int, known: Mapping[int, Array]) -> dict[int, Array]:
        """Run one graph; return what it makes, by the nodes of a microbatch's graph."""
        if phase not in self.acts:
            return {}
        act, compilation = self.acts[phase]
        ids = compilation.written.input_ids
        given = {id: self.given(one, micro, known) for id, one in zip(ids, act.inputs, strict=True)}

        def data(node: Node) -> Array:
            return given[node.id]

        environment = self.environment._replace(data=data, probes={}, versions={})
        self.noted.waited, start, ends = 0.0, perf_counter() - self.began, compilation.ir.output_ids
        made = values(compilation, environment, {*ends})
        turn = Work(self.rank, PHASES[phase], micro, start + self.noted.waited,
                    perf_counter() - self.began)  # fmt: skip
        self.done.work.append(turn)
        return {node: made[ends[at]] for node, at in act.outputs}

    def given(self, one: Given, micro: int, known: Mapping[int, Array]) -> Array:
        """Return what a graph's input is."""
        if one.kind == "sum":
            return self.sums[one.node]
        return self.part(one.node, micro) if one.kind == "input" else known[one.node]

    def part(self, id: int, micro: int) -> Array:
        """Return what a microbatch has of an input."""
        value = self.data[id]
        if id not in self.script.varying:
            return value
        size = len(value) // self.script.microbatches
        return value[micro * size : (micro + 1) * size]


__all__ = ["Act", "Done", "Given", "Schedule", "Script", "Turns", "gone_through"]
