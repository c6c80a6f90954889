"""A run of all workers of a mesh: what an engine is given.

An engine in this process calls `job(rank)`. One that sends its workers elsewhere sends each of them
what it runs as text (`spec`), and the inputs that it reads.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter
from typing import NamedTuple

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.ops import user_kernels
from luminal_lab.core.printer import print_node
from luminal_lab.errors import DeviceError
from luminal_lab.passes.compilation import Compilation
from luminal_lab.tensor.versions import Later, Versions, deferred, there
from luminal_lab.trust import admit_kernels, foreign_of
from luminal_lab.workers.lanes import Track
from luminal_lab.workers.layout import Layout
from luminal_lab.workers.mesh import Mesh
from luminal_lab.workers.ops import WORKER, Collective, Communicator, OwnPart, Worker
from luminal_lab.workers.partition import Part

MOST_LINES = 3
"""The most lines of the user's that are shown of a stretch of nodes."""
ANEW = "the others have ended, and the next run begins anew"


class Meeting(NamedTuple):
    """A node at which a worker meets others, in the graph that it runs."""

    ir: IR
    node: Node


def input_of(environment: Environment, known: Mapping[int, Array], node: Node) -> Array | Later:
    """Return the value of an input; it stays where it is, if that is elsewhere."""
    if node.id in known:
        return known[node.id]
    return deferred(environment.versions, node.id) or environment.data(node)


def stays(environment: Environment, engine: object, carried: Set[int]) -> Set[int]:
    """Return what may stay with the workers of an engine: what is carried, in a session's run."""
    versions = environment.versions
    takes = isinstance(versions, Versions) and versions.takes_later
    return carried if takes and getattr(engine, "keeps", False) else frozenset()


@dataclass(frozen=True)
class Job(ABC):
    """What all workers run."""

    mesh: Mesh
    environment: Environment
    parts: Sequence[Part]
    """The inputs that are needed."""
    given: Mapping[int, Array | Later]
    """Their whole values, by the workers' ids."""
    wanted: Mapping[int, Part]
    """The values that are wanted, by the workers' ids."""
    carried: Set[int]
    """Those that become inputs of the next run."""
    kept: Set[int] = frozenset()
    """Those that may stay with the workers until somebody asks for them."""
    returned: dict[int, Array | Later] = field(
        default_factory=dict[int, "Array | Later"], kw_only=True
    )
    """The whole values, once they are put together."""
    tracks: dict[int, Track | str] = field(default_factory=dict[int, "Track | str"], kw_only=True)
    """When each worker did what; as JSON, what one elsewhere has told."""

    @abstractmethod
    def __call__(self, rank: int) -> dict[int, Array]:
        """Return what a worker of this process computes of what is wanted."""

    @abstractmethod
    def shared(self, talk: Communicator, rank: int) -> list[dict[int, Array]]:
        """Run the worker of this process; return what all of them compute, as they all do."""

    @abstractmethod
    def inputs(self, rank: int, parts: Sequence[Part] | None = None) -> Iterator[Array]:
        """Yield what a worker has of each input, or of some."""

    @abstractmethod
    def needs(self, rank: int, part: Part) -> bool:
        """Return whether a worker reads an input."""

    @abstractmethod
    def makes(self, rank: int, local: int) -> bool:
        """Return whether a worker has a part of a wanted value."""

    @abstractmethod
    def gives(self, rank: int, local: int) -> bool:
        """Return whether a whole value is put together from a worker's part, among others."""

    @abstractmethod
    def places(self) -> tuple[Mapping[int, int], Mapping[int, int]]:
        """The numbers of inputs and of outputs, by the workers' ids, for workers elsewhere."""

    @property
    @abstractmethod
    def key(self) -> str:
        """A digest of what is run, whatever the data are."""

    @abstractmethod
    def spec(self, rank: int) -> tuple[str, str, list[str]]:
        """Return what a worker elsewhere compiles: a kind, a text, and the kernels trusted here."""

    @abstractmethod
    def graphs(self, rank: int) -> Sequence[IR]:
        """Return the graphs that a worker runs, in order."""

    @abstractmethod
    def heard(self, rank: int, text: str) -> None:
        """Take what a worker elsewhere tells about its run."""

    @cached_property
    def versions(self) -> dict[int, int]:
        """How often each input has changed, by the workers' ids."""
        versions = self.environment.versions
        ids = {part.local: part.whole.id for part in self.parts}
        return {local: versions[id] for local, id in ids.items() if id in versions}

    def meetings(self, rank: int) -> list[Meeting]:
        """Return where a worker meets others, in order."""
        return [Meeting(ir, node) for ir in self.graphs(rank) for node in meetings(ir)]

    def order(self, rank: int) -> dict[int, int]:
        """Return the meetings in order, by what a worker notes when it comes to one."""
        return {id(node.op): k for k, (_, node) in enumerate(self.meetings(rank))}

    def stretch(self, done: int, rank: int) -> str | None:
        """Return where a worker is that has come to so many meetings: before which node.

        The lines are those of the nodes on its way there.
        """
        ends, graphs = self.meetings(rank), self.graphs(rank)
        if not graphs or not graphs[-1].output_ids:
            return None
        last = Meeting(graphs[-1], graphs[-1].outputs[-1])
        before, (ir, node) = ends[done - 1] if done else None, [*ends, last][min(done, len(ends))]
        behind = f"after {before.node} {before.node.op.name}, " if before else ""
        order = [other.id for other in ir]
        way = [ir[id] for id in order[: order.index(node.id) + 1]]
        if before is not None:
            order = [other.id for other in before.ir]
            tail = [before.ir[id] for id in order[order.index(before.node.id) + 1 :]]
            if before.ir is ir and done == len(ends):
                way = tail
            elif before.ir is ir and node.id in [other.id for other in tail]:
                way = way[len(order) - len(tail) :]
            else:  # it is in another graph by then, or has begun this one again
                way = [*tail, *way]
        way.reverse()
        lines = dict.fromkeys(str(n.meta.origin) for n in way if n.meta.origin is not None)
        return "\n".join([f"{behind}before {print_node(ir, node)}", *[*lines][:MOST_LINES]])

    def line(self, text: str, rank: int) -> str | None:
        """Return the text of a node with the user's line, which engines elsewhere do not have."""
        for ir in self.graphs(rank):
            node = next((node for node in ir if print_node(ir, node) == text), None)
            if node is not None and node.meta.origin is not None:
                return f"{text}\n{node.meta.origin}"
        return text or None


@dataclass(frozen=True)
class Texts:
    """The graph of a worker, and the passes of its compile, as texts."""

    mesh: Mesh
    graph: IR
    """The graph of a worker, before its passes."""
    passes: Sequence[str]
    specialise: Mapping[str, int]

    @cached_property
    def spec(self) -> str:
        """All of it, as JSON."""
        words = {"graph": str(self.graph), "passes": self.passes, "sizes": dict(self.specialise)}
        return json.dumps(words)

    @cached_property
    def key(self) -> str:
        """A digest of it."""
        return hashlib.sha256(f"{self.mesh}\n{self.spec}".encode()).hexdigest()


@dataclass(frozen=True)
class PartsJob(Job):
    """One graph, which all workers run, each on its own parts of some inputs."""

    texts: Texts = field(kw_only=True)
    compiled: Callable[[int], Compilation] = field(kw_only=True)
    """Returns the compile that a worker of this process runs: one program has one memory."""

    def __call__(self, rank: int) -> dict[int, Array]:
        """Return what a worker of this process computes, by the ids of its last graph."""
        own = dict(zip([part.local for part in self.parts], self.inputs(rank), strict=True))

        def data(node: Node) -> Array:
            return own[node.id]

        environment = self.environment._replace(data=data, probes={}, versions=self.versions)
        made, self.tracks[rank] = tracked(self.compiled(rank), environment, self.wanted.keys())
        return made

    def shared(self, talk: Communicator, rank: int) -> list[dict[int, Array]]:
        """Return what all workers compute of what is asked for, here this one does its parts."""
        own = self(rank)
        for other, text in enumerate(told(talk, self.mesh, json.dumps(self.tracks[rank]))):
            self.heard(other, text)
        made: list[dict[int, Array]] = [{} for _ in range(self.mesh.workers)]
        for local, part in self.wanted.items():
            whole = gathered(talk, self.mesh, part.layout, own[local])
            for other, found in enumerate(made):
                if self.gives(other, local):
                    place = self.mesh.coordinates(other)
                    found[local] = whole[where(self.mesh, part.layout, whole.shape, place)]
        return made

    def inputs(self, rank: int, parts: Sequence[Part] | None = None) -> Iterator[Array]:
        """Yield a worker's parts."""
        place = self.mesh.coordinates(rank)
        for part in self.parts if parts is None else parts:
            value = there(self.given[part.local])
            own = value[where(self.mesh, part.layout, value.shape, place)]
            yield np.ascontiguousarray(own).reshape(own.shape)

    def needs(self, rank: int, part: Part) -> bool:
        """All workers run the same graph."""
        return True

    def makes(self, rank: int, local: int) -> bool:
        """All workers run the same graph."""
        return True

    def gives(self, rank: int, local: int) -> bool:
        """Of workers that have the same part, the first one gives it."""
        place, dims = self.mesh.coordinates(rank), self.wanted[local].layout.dims
        return not any(at for axis, at in place.items() if axis not in dims)

    def places(self) -> tuple[Mapping[int, int], Mapping[int, int]]:
        """Their order in the graph."""
        ir = self.compiled(0).ir
        return _numbered(ir.input_ids), _numbered(ir.output_ids)

    @property
    def key(self) -> str:
        """That of the graph, of the passes and the mesh."""
        return self.texts.key

    def spec(self, rank: int) -> tuple[str, str, list[str]]:
        """Return the one graph and its passes."""
        return "parts", self.texts.spec, trusted([self.texts.graph])

    def graphs(self, rank: int) -> Sequence[IR]:
        """Return the one graph."""
        return [self.compiled(0).ir]

    def heard(self, rank: int, text: str) -> None:
        """It is read when somebody wants to see it."""
        self.tracks[rank] = text


def _numbered(ids: Sequence[int]) -> dict[int, int]:
    return {id: k for k, id in enumerate(ids)}


def trusted(graphs: Sequence[IR]) -> list[str]:
    """Return digests of the kernels of graphs, all of which are trusted here."""
    kernels = [kernel for graph in graphs for kernel in user_kernels(graph)]
    admit_kernels(kernels)
    return [foreign_of(kernel).digest for kernel in kernels]


def gathered(talk: Communicator, mesh: Mesh, layout: Layout, x: Array) -> Array:
    """Return a whole value: the parts of all workers along each axis of the mesh that cuts it."""
    for dim, word in enumerate(layout.dims):
        if word in mesh.sizes:
            x = np.concatenate(talk.all_gather(x, word), dim)
    return x


def told(talk: Communicator, mesh: Mesh, text: str) -> list[str]:
    """Return what each worker tells all of them."""
    own = np.frombuffer(text.encode(), np.uint8)
    sizes = _everybody(talk, mesh, np.array([own.size]))
    given = np.zeros(sizes.max(), np.uint8)
    given[: own.size] = own
    texts = _everybody(talk, mesh, given)
    return [row[: int(size[0])].tobytes().decode() for row, size in zip(texts, sizes, strict=True)]


def _everybody(talk: Communicator, mesh: Mesh, x: Array) -> Array:
    """Return what all workers of a mesh give, in a row for each."""
    own = x.shape
    for axis, size in reversed(mesh.axes):
        if size > 1:
            x = np.stack(talk.all_gather(x, axis))
    return x.reshape(mesh.workers, *own)


def meetings(ir: IR) -> list[Node]:
    """Return the nodes at which workers meet, in order."""
    return [node for node in ir if isinstance(node.op, Collective) and node.op.name != OwnPart.name]


def place_text(place: Mapping[str, int]) -> str:
    """Return a worker's place in words."""
    return ", ".join(f"{axis} {at}" for axis, at in place.items())


def lost(work: object, worker: Worker, why: str) -> DeviceError:
    """Return the error about a worker, with the node and the line that it did not come to."""
    where = None
    if isinstance(work, Job):
        done = -1 if worker.met is None else work.order(worker.rank).get(worker.met, -1)
        where = work.stretch(done + 1, worker.rank)
    return DeviceError(
        f"worker {worker.rank} ({place_text(worker.place)}) {why}", where=where, hint=ANEW
    )


def values(compiled: Compilation, environment: Environment, wanted: Set[int]) -> dict[int, Array]:
    """Return the values of a worker's nodes; errors are told by the engine that started it."""
    stored = compiled.storage.values(environment, wanted)
    if compiled.runner is None:
        return interpret(compiled.ir, environment, wanted=wanted, known=stored)
    return compiled.runner.run(environment, wanted, stored)


def tracked(
    compiled: Compilation, environment: Environment, wanted: Set[int]
) -> tuple[dict[int, Array], Track]:
    """Return the values of a worker's nodes, and when it did what."""
    worker = WORKER.get()
    assert worker is not None, "the engine has set it"
    worker.visits, start = [], perf_counter()
    made = values(compiled, environment, wanted)
    track = Track(start, perf_counter(), tuple(worker.visits), worker.clock)
    worker.visits = None
    return made, track


def where(
    mesh: Mesh, layout: Layout, shape: Sequence[int], place: Mapping[str, int]
) -> tuple[slice, ...]:
    """Return where in a whole value the part of a worker is."""
    sizes = mesh.sizes
    return tuple(
        slice(place[word] * (dim // sizes[word]), (place[word] + 1) * (dim // sizes[word]))
        if word in sizes
        else slice(None)
        for word, dim in zip(layout.dims, shape, strict=True)
    )


__all__ = ["Job", "PartsJob", "Texts", "meetings", "told", "tracked", "values", "where"]
