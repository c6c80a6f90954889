"""A run of a worker's graph on all workers of a mesh: what an engine is given.

An engine in this process calls `job(rank)`. One that sends its workers elsewhere sends the graph
and the passes as text (`graph`, `passes`), and to each worker its parts of the inputs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.printer import print_node
from luminal_lab.errors import DeviceError
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.workers.lanes import Track
from luminal_lab.workers.layout import Layout
from luminal_lab.workers.mesh import Mesh
from luminal_lab.workers.ops import WORKER, Collective, OwnPart, Worker
from luminal_lab.workers.partition import Part

MOST_LINES = 3
"""The most lines of the user's that are shown of a stretch of nodes."""
ANEW = "the others have ended, and the next run begins anew"


@dataclass(frozen=True)
class Job:
    """What all workers run, each on its own parts of some inputs."""

    mesh: Mesh
    graph: IR
    """The graph of a worker, before its passes."""
    pipeline: Pipeline
    specialise: Mapping[str, int]
    compiled: Callable[[int], Compilation]
    """Returns the compile that a worker of this process runs: one program has one memory."""
    environment: Environment
    parts: Sequence[Part]
    """The inputs that are needed."""
    given: Mapping[int, Array]
    """Their whole values, by the worker's ids."""
    wanted: Mapping[int, Part]
    """The values that are wanted, by their ids in the worker's last graph."""
    carried: Set[int] = frozenset()
    """Those that become inputs of the next run."""
    returned: dict[int, Array] = field(default_factory=dict[int, Array])
    """The whole values, once they are put together."""
    tracks: dict[int, Track] = field(default_factory=dict[int, Track])
    """When each worker of this process did what."""

    def __call__(self, rank: int) -> dict[int, Array]:
        """Return what a worker of this process computes, by the ids of its last graph."""
        own = dict(zip([part.local for part in self.parts], self.inputs(rank), strict=True))

        def data(node: Node) -> Array:
            return own[node.id]

        environment = self.environment._replace(data=data, probes={}, versions=self.versions)
        worker = WORKER.get()
        assert worker is not None, "the engine has set it"
        compiled, worker.meetings, start = self.compiled(rank), [], perf_counter()
        made = values(compiled, environment, self.wanted.keys())
        self.tracks[rank] = Track(start, perf_counter(), tuple(worker.meetings))
        worker.meetings = None
        return made

    @cached_property
    def versions(self) -> dict[int, int]:
        """How often each input has changed, by the worker's ids."""
        versions = self.environment.versions
        ids = {part.local: part.whole.id for part in self.parts}
        return {local: versions[id] for local, id in ids.items() if id in versions}

    def inputs(self, rank: int, parts: Sequence[Part] | None = None) -> Iterator[Array]:
        """Yield what a worker has of each input, or of some."""
        place = self.mesh.coordinates(rank)
        for part in self.parts if parts is None else parts:
            value = self.given[part.local]
            own = value[where(self.mesh, part.layout, value.shape, place)]
            yield np.ascontiguousarray(own).reshape(own.shape)

    def gives(self, rank: int, layout: Layout) -> bool:
        """Return whether a whole value is put together from a worker's part, among others."""
        place = self.mesh.coordinates(rank)
        return not any(at for axis, at in place.items() if axis not in layout.dims)

    @cached_property
    def key(self) -> str:
        """A digest of what is run, whatever the data are."""
        text = "\n".join([str(self.mesh), str(self.graph), *self.passes, str(self.specialise)])
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def passes(self) -> list[str]:
        """The passes of the worker's compile, as texts."""
        return [str(entry) for entry in self.pipeline]

    @cached_property
    def meetings(self) -> list[Node]:
        """The collectives of the worker's last graph, in order."""
        return meetings(self.compiled(0).ir)

    def stretch(self, done: int) -> str | None:
        """Return where a worker is that has come to so many collectives: before which node.

        The lines are those of the nodes on its way there.
        """
        ir, ends = self.compiled(0).ir, self.meetings
        if not ir.output_ids:
            return None
        node = ends[done] if done < len(ends) else ir.outputs[-1]
        behind = f"after {ends[done - 1]} {ends[done - 1].op.name}, " if done else ""
        order = [other.id for other in ir]
        first = order.index(ends[done - 1].id) + 1 if done else 0
        last = order.index(node.id) + 1 if done < len(ends) else len(order)
        way = [ir[id] for id in reversed(order[first:last])]
        lines = dict.fromkeys(str(n.meta.origin) for n in way if n.meta.origin is not None)
        shown = [*lines][:MOST_LINES]
        return "\n".join([f"{behind}before {print_node(ir, node)}", *shown])

    def line(self, text: str) -> str | None:
        """Return the text of a node with the user's line, which engines elsewhere do not have."""
        ir = self.compiled(0).ir
        node = next((node for node in ir if print_node(ir, node) == text), None)
        if node is None or node.meta.origin is None:
            return text or None
        return f"{text}\n{node.meta.origin}"


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
        done = next((k + 1 for k, node in enumerate(work.meetings) if node.op is worker.met), 0)
        where = work.stretch(done)
    return DeviceError(
        f"worker {worker.rank} ({place_text(worker.place)}) {why}", where=where, hint=ANEW
    )


def values(compiled: Compilation, environment: Environment, wanted: Set[int]) -> dict[int, Array]:
    """Return the values of a worker's nodes; errors are told by the engine that started it."""
    stored = compiled.storage.values(environment, wanted)
    if compiled.runner is None:
        return interpret(compiled.ir, environment, wanted=wanted, known=stored)
    return compiled.runner.run(environment, wanted, stored)


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


__all__ = ["Job", "meetings", "values", "where"]
