"""How long a step takes on meshes that are not here: measured kernels, and a table of links.

    seconds = a worker's program, alone on this machine + its collectives by the links' figures

A worker's program is compiled for each mesh with its local shapes, and run here by one worker whose
collectives send nothing. With a specification it isn't run: its kernels take the least time that
the figures of the device allow. Nothing overlaps. All of it is on paper, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import size_of
from luminal_lab.core.printer import as_text
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.devices.cpu.program import CPUProgram, CPUSource
from luminal_lab.devices.facts.specifications import specification
from luminal_lab.display import Charted
from luminal_lab.errors import ArgumentError, DeviceError, LabError, counted, expect
from luminal_lab.machines.figures import Specification
from luminal_lab.machines.here import usable_cores
from luminal_lab.machines.links import Link, link
from luminal_lab.machines.rates import size_text
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.draws import Given, drawn
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.progress import progress
from luminal_lab.tables import aligned, heads
from luminal_lab.tensor.arguments import told_object
from luminal_lab.timing.links import threads_link
from luminal_lab.timing.measure import measured
from luminal_lab.timing.roofline import modelled
from luminal_lab.timing.subject import TimedSession, subject_of
from luminal_lab.workers.compiler import Sharded, ShardedProgram
from luminal_lab.workers.mesh import Mesh
from luminal_lab.workers.ops import WORKER, AllGather, AllReduce, Collective, OwnPart, Worker
from luminal_lab.workers.plan import Sharding, Words, sharding

T = TypeVar("T")
ROUNDS, WARM_UP = 9, 2
"""The runs of a worker, of which the best counts: others may keep the machine busy."""
MOST_MESHES = 32
"""The most meshes that are tried beside the one that was asked for."""


class Silent:
    """A communicator of one worker alone: what the others would give is what it gives itself."""

    def __init__(self, mesh: Mesh) -> None:
        self.sizes = mesh.sizes

    def all_reduce(self, x: Array, axis: str, kind: Literal["sum", "max"]) -> Array:
        """Return a copy."""
        del axis, kind
        return np.array(x)

    def all_gather(self, x: Array, axis: str) -> list[Array]:
        """Return it as if each of them had given it."""
        return [x] * self.sizes[axis]

    def all_to_all(self, parts: list[Array], axis: str) -> list[Array]:
        """Return its own parts."""
        del axis
        return parts

    def send(self, x: Array, to: int, tag: int) -> None:
        """Send nothing."""

    def receive(self, into: Array, source: int, tag: int) -> None:
        """Take zeros."""
        del source, tag
        into[...] = 0


@contextmanager
def alone(mesh: Mesh) -> Generator[None]:
    """Let this thread run the program of a worker, without the others of its mesh."""
    token = WORKER.set(Worker(0, mesh.coordinates(0), Silent(mesh)))
    try:
        yield
    finally:
        WORKER.reset(token)


class OnPaper:
    """An engine whose workers are only counted."""

    name = "on paper"

    def unless_enough(self, mesh: Mesh) -> None:
        """Accept any mesh."""

    def run(self, mesh: Mesh, work: Callable[[int], T]) -> list[T]:
        """Raise: nothing runs."""
        raise DeviceError(f"{mesh} is on paper, and nothing runs there")


class Sent(NamedTuple):
    """What a worker sends along an axis of the mesh in a step."""

    messages: int
    bytes: int
    seconds: float


NOTHING = Sent(0, 0, 0.0)


@dataclass(frozen=True)
class Estimate:
    """A step on one mesh."""

    mesh: Mesh
    computing: float
    """The seconds of a worker's program, without waiting for others."""
    how: Literal["measured", "modelled"]
    """How the seconds of computing are known; those of sending are always modelled."""
    sent: Mapping[str, Sent]
    """What a worker sends, by the axes of the mesh."""
    memory: int
    """The bytes of a worker's inputs, results and temporaries."""
    kernels: Mapping[str, float]
    """The seconds of a worker's launches of each kernel."""

    @property
    def sending(self) -> float:
        """The seconds of all collectives."""
        return sum(sent.seconds for sent in self.sent.values())

    @property
    def seconds(self) -> float:
        """The seconds of a step."""
        return self.computing + self.sending


@told_object("plan")
@dataclass(frozen=True, repr=False)
class MeshPlan(Charted):
    """Steps on several meshes of as many workers, on paper; the fastest first."""

    graph: str
    asked: Mesh
    estimates: tuple[Estimate, ...]
    refused: Mapping[Mesh, str]
    """Meshes that cannot be, and why."""
    links: Mapping[str, Link]
    device: str
    limit: float | None
    """The bytes of memory that a worker has, if they are known."""

    @property
    def best(self) -> Estimate:
        """The fastest step whose workers have enough memory; the fastest, if none has."""
        return next(filter(self.fits, self.estimates), self.estimates[0])

    def fits(self, estimate: Estimate) -> bool:
        """Return whether a worker has the memory that it needs."""
        return self.limit is None or estimate.memory <= self.limit

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why each other mesh is worse than the best one."""
        best, told = self.best, list[str]()
        for other in self.estimates:
            if not self.fits(other):
                told.append(f"{other.mesh}: a worker needs {size_text(other.memory)}")
            elif other is not best:
                slower = _ms(other.seconds - best.seconds)
                parts = _ms(other.computing - best.computing), _ms(other.sending - best.sending)
                told.append(f"{other.mesh}: {slower} ms, {parts[0]} computing, {parts[1]} sending")
        return (*told, *(f"{mesh}: {why}" for mesh, why in self.refused.items()))

    @override
    def __str__(self) -> str:
        header = heads(f"< mesh > ms > computing > sending > memory {' '.join(self._heads)}")
        cells = [
            [
                str(row.mesh),
                f"~{1e3 * row.seconds:.3f}",
                f"{'~' if row.how == 'modelled' else ''}{1e3 * row.computing:.3f}",
                f"~{1e3 * row.sending:.3f}",
                size_text(row.memory),
                *(f"{row.sent[a].bytes:,}" if a in row.sent else "–" for a in self.links),
            ]
            for row in self.estimates
        ]
        figures = [f"  {axis} over {link}" for axis, link in self.links.items()]
        sources = {link.bandwidth.source: 1 for link in self.links.values()}
        workers = counted(self.asked.workers, "worker")
        best = str(self.best.mesh)
        if not self.fits(self.best):
            best = f"none, as a worker has {size_text(self.limit or 0)}"
        return "\n".join(
            [
                f"{self.graph} on {workers}, on paper: {self.device}",
                *figures,
                *(f"    from {source}" for source in sources),
                *aligned(header, cells),
                f"best: {best}",
                *(f"  {reason}" for reason in self.reasons),
            ]
        )

    @property
    def _heads(self) -> list[str]:
        return [f"> {axis}:bytes" for axis in self.links]

    @override
    def __repr__(self) -> str:
        best = f"best is {self.best.mesh}, ~{1e3 * self.best.seconds:.3f} ms"
        return f"<MeshPlan of {self.graph} on paper: {best}; print(…) shows it>"

    _repr_mimebundle_ = as_text


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:+.3f}"


def plan(
    graph: TimedSession | IR,
    mesh: Mesh | Sharding,
    annotations: Mapping[str, Words] | None = None,
    *,
    links: str | Link | Mapping[str, str | Link] = "threads",
    device: str | Specification | None = None,
    memory: int | None = None,
) -> MeshPlan:
    """Return how long a step would take on a mesh, and on the others of as many workers.

    A worker's program is measured here, on one thread; with a device, as in "h200", its kernels
    take the least time that the figures of that device allow. `links` is a name of the table in
    `machines/links.py`, or one for each axis of the mesh; "threads" measures those of this machine.
    `memory` is what a worker has, in bytes.

    >>> x, w = cx.tensor((2048, 2048), name="x"), cx.tensor((2048, 2048), name="w")
    >>> y = (x @ w).retrieve()
    >>> mesh, cut = ll.Mesh(data=2, model=2), {"x": ("data", None), "w": (None, "model")}
    >>> on_paper = ll.plan(cx, mesh, cut, links="nvlink-4", device="h200")
    >>> on_paper.best.mesh
    Mesh(data=2, model=2)
    """
    hint = 'as in ll.plan(cx, ll.Mesh(data=2), {"x": ("data", None)})'
    expect(mesh, Mesh | Sharding, "plan: the mesh is {}", hint)
    if memory is not None:
        fault, hint = f"plan: memory is {memory!r}", "give whole bytes, as in memory=80 * 2**30"
        ArgumentError.unless_number(memory, fault, hint, low=1)
    asked = sharding(mesh, annotations) if isinstance(mesh, Mesh) else mesh
    if isinstance(graph, IR):
        ir, given = graph, Given()
    else:
        subject = subject_of(graph, caller="plan")
        ir, given = subject.ir, subject.given
    figures = specification(device) if isinstance(device, str) else device
    by_axis = _links(asked.mesh, links)
    meshes = [*_meshes(asked.mesh)]
    estimates, refused = list[Estimate](), dict[Mesh, str]()
    with progress(f"plan {ir.name}", len(meshes), "mesh") as bar:
        for other in meshes:
            bar.now(str(other))
            try:
                how = replace(asked, mesh=other)
                estimates.append(_estimate(ir, given, how, by_axis, figures))
            except LabError as error:
                if other == asked.mesh:
                    raise
                refused[other] = error.message.partition(": ")[2] or error.message
            bar.step()
    known = figures.memory.value if figures is not None and figures.memory else None
    where = "kernels measured here, one thread a worker" if figures is None else figures.name
    ordered = tuple(sorted(estimates, key=lambda row: row.seconds))
    limit = known if memory is None else memory
    return MeshPlan(ir.name, asked.mesh, ordered, refused, by_axis, where, limit)


def _links(mesh: Mesh, links: str | Link | Mapping[str, str | Link]) -> dict[str, Link]:
    """Return the link along each axis of a mesh."""
    each = dict(links) if isinstance(links, Mapping) else dict.fromkeys(mesh.sizes, links)
    mesh.unless_axes("plan: links", each)
    missing = next((axis for axis in mesh.sizes if axis not in each), None)
    if missing is not None:
        raise ArgumentError(f"plan: {missing} has no link", hint=f'links={{"{missing}": "pcie-5"}}')
    here = threads_link() if "threads" in each.values() else None
    found = dict[str, Link]()
    for axis in mesh.sizes:
        given = here if here is not None and each[axis] == "threads" else each[axis]
        found[axis] = given if isinstance(given, Link) else link(given)
    return found


def _meshes(mesh: Mesh) -> Iterator[Mesh]:
    """Yield a mesh, and the others with its axes and as many workers."""
    names, most = [*mesh.sizes], mesh.workers
    yield mesh

    def rest(count: int, axes: int) -> Iterator[tuple[int, ...]]:
        if axes == 1:
            yield (count,)
            return
        for size in (n for n in range(1, count + 1) if count % n == 0):
            for others in rest(count // size, axes - 1):
                yield (size, *others)

    others = (Mesh(**dict(zip(names, sizes, strict=True))) for sizes in rest(most, len(names)))
    for number, other in enumerate(others):
        if other != mesh and number < MOST_MESHES:
            yield other


def _estimate(
    ir: IR, given: Given, how: Sharding, links: Mapping[str, Link], figures: Specification | None
) -> Estimate:
    device = CPUCompiler(threads=1) if figures is None else Pipeline(CPUCompiler().passes)
    sharded = Sharded(how, device, engine=OnPaper())
    program = compile_ir(ir, GenericCompiler(), sharded, given=given).runner
    assert isinstance(program, ShardedProgram), "it is what a Sharded makes"
    worker, mesh = program.worker, how.mesh
    kernels: dict[str, float] = {}
    known: Literal["measured", "modelled"] = "measured" if figures is None else "modelled"
    runner = worker.runner if isinstance(worker.runner, CPUProgram) else CPUSource(worker.ir)
    if figures is not None:
        for launch in runner.launches:
            name, least = launch.kernel.name, modelled(launch, figures).seconds
            kernels[name] = kernels.get(name, 0.0) + least
        computing = sum(kernels.values())
    else:
        computing, kernels = _alone(worker, mesh)
        if any(link.is_shared for link in links.values()):
            computing *= max(1.0, mesh.workers / usable_cores())
    bound = runner.memory_plan.bind()
    own = [place.values[0] for place in bound.plan.places if place.kind != "arena"]
    memory = bound.arena_bytes + sum(bound.bytes[id] for id in own)
    sent = _sent(worker.ir, mesh, links)
    return Estimate(mesh, computing, known, sent, memory, kernels)


def _alone(worker: Compilation, mesh: Mesh) -> tuple[float, dict[str, float]]:
    """Run a worker by itself; return the seconds of its best run, and those of its kernels."""
    data, dims = drawn(worker.ir, Given(), {node.id for node in worker.ir.inputs})

    def data_of(node: Node) -> Array:
        return data[node.id]

    environment = Environment(data_of, dims)
    with alone(mesh):
        timings = measured(worker, environment, rounds=ROUNDS, warm_up=WARM_UP)
    return min(timings.whole), timings.by_kernel()


def _sent(ir: IR, mesh: Mesh, links: Mapping[str, Link]) -> dict[str, Sent]:
    """Return what a worker sends along each axis of a mesh: all of them around a ring."""
    sent: dict[str, Sent] = {}
    for node in ir:
        op = node.op
        if not isinstance(op, Collective) or isinstance(op, OwnPart):
            continue
        (source,), parts = ir.sources(node), mesh.sizes[op.axis]
        size, turns = size_of(source.shape), parts - 1
        assert isinstance(size, int), "sizes that are cut are numbers"
        size *= source.dtype.itemsize * turns
        messages = 2 * turns if isinstance(op, AllReduce) else turns
        size = size if isinstance(op, AllGather) else size * messages // turns // parts
        old, seconds = sent.get(op.axis, NOTHING), links[op.axis].seconds(messages, size)
        sent[op.axis] = Sent(old.messages + messages, old.bytes + size, old.seconds + seconds)
    return sent
