"""What is known of workers as facts: how each value is cut, what is sent and why; their lanes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from luminal_lab.core.ir import IR
from luminal_lab.core.op import size_of
from luminal_lab.errors import NotComputedError
from luminal_lab.passes.compilation import Compilation
from luminal_lab.timing.timeline import LONGEST
from luminal_lab.workers.communication import Sending
from luminal_lab.workers.compiler import ShardedProgram
from luminal_lab.workers.lanes import Lanes
from luminal_lab.workers.mesh import MOST_WORKERS
from luminal_lab.workers.pipe_ops import Move
from luminal_lab.workers.pipelined import PipelinedProgram
from luminal_lab.workers.shard import Shard
from luminal_lab.workers.stage import stages_of


class Sent(NamedTuple):
    """Something that is sent in each run, and why."""

    node: int
    """The change of layout, or of stage, in the last graph; -1 in a graph that is not here."""
    op: str
    axis: str
    """The axis of the mesh; of a pipeline its stages, as in "0 → 1"."""
    of: str
    """The value that is sent."""
    bytes: int | None
    """What each worker sends; None if a dim has no size."""
    why: str


class Placed(NamedTuple):
    """An input, or what else is annotated, and how it is cut."""

    node: int
    """Its id in the graph that `shard` was given."""
    name: str
    shape: str
    words: tuple[str, ...]
    """For each axis an axis of the mesh, or `-`."""
    annotated: bool


@dataclass(frozen=True)
class WorkerFacts:
    """The workers of a compile."""

    axes: tuple[tuple[str, int], ...]
    """The mesh; of a pipeline its stages."""
    cuts: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """The nodes of the last graph by their layout, as in "data, -"; of a pipeline by stage."""
    sent: tuple[Sent, ...] = ()
    placed: tuple[Placed, ...] = ()
    lanes: Lanes | None = None
    """The last run, if there was one."""

    @property
    def bytes(self) -> int:
        """What each worker sends in a run, as far as it is known."""
        return sum(sent.bytes or 0 for sent in self.sent)


def worker_facts(compilation: Compilation) -> WorkerFacts | None:
    """Return what is known of the workers of a compile; None if it has none."""
    program: object = compilation.runner
    if isinstance(program, ShardedProgram):
        cuts: dict[str, list[int]] = {}
        for node in program.ir:
            cuts.setdefault(str(program.layout(node)), []).append(node.id)
        sent = tuple(map(sent_of, program.communication))
        return WorkerFacts(
            program.mesh.axes, _frozen(cuts), sent, placed(compilation, program), _lanes(program)
        )
    if isinstance(program, PipelinedProgram):
        stages: dict[str, list[int]] = {}
        for id, stage in stages_of(program.ir, program.how.stages).items():
            stages.setdefault(f"stage {stage}", []).append(id)
        moved = tuple(_moved(program.ir))
        return WorkerFacts(program.mesh.axes, _frozen(stages), moved, (), _lanes(program))
    return None


def sent_of(row: Sending) -> Sent:
    """Return a row of a table of communication."""
    size = row.bytes if isinstance(row.bytes, int) else None
    return Sent(row.node.id, row.op, row.axis, row.of, size, row.why)


def placed(compilation: Compilation, program: ShardedProgram) -> tuple[Placed, ...]:
    """Return the inputs, and what else is annotated, as they were before `shard`."""
    ir = next(shot.before for shot in compilation.snapshots if shot.name == Shard.name)
    layouts, plan = program.how.plan.layouts(ir), program.how.plan
    nodes = [*ir.inputs, *(n for n in ir if n.id in layouts and n.id not in ir.input_ids)]
    named = {n.id for n in nodes if any(note.names(n) for note in plan.annotations)}
    return tuple(
        Placed(
            node.id,
            node.name,
            str(list(node.shape)),
            layouts[node.id].dims if node.id in layouts else ("-",) * len(node.shape),
            node.id in named,
        )
        for node in nodes
        if node.id in named or node.id in ir.input_ids
    )


def _moved(ir: IR) -> Iterator[Sent]:
    for node in ir:
        if isinstance(node.op, Move):
            (source,) = ir.sources(node)
            size = size_of(node.shape) * node.dtype.itemsize
            reader = next(iter(ir.users(node)), node)
            why = f"{reader} {reader.op.name} is in stage {node.op.new}"
            yield Sent(
                node.id,
                "send",
                f"{node.op.old} → {node.op.new}",
                str(source),
                size if isinstance(size, int) else None,
                why,
            )


def _frozen(cuts: Mapping[str, list[int]]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(ids) for name, ids in cuts.items()}


def _lanes(program: ShardedProgram | PipelinedProgram) -> Lanes | None:
    try:
        return program.lanes
    except NotComputedError:
        return None


def check_workers(facts: WorkerFacts) -> None:
    """Raise a ValueError if a lane is none, or time goes backwards."""
    lanes = facts.lanes
    if lanes is None:
        return
    if not 0 < lanes.workers <= MOST_WORKERS or lanes.microbatches < 0:
        raise ValueError(f"facts.workers.lanes has {lanes.workers} workers")
    spans = [(work.worker, work.start, work.end) for work in lanes.work]
    spans += [(worker, met.start, met.end) for met in lanes.met for worker in met.workers]
    for sent in lanes.sent:
        spans += [(sent.source, sent.start, sent.end), (sent.to, sent.start, sent.end)]
    for worker, start, end in spans:
        if not 0 <= worker < lanes.workers:
            raise ValueError(f"facts.workers.lanes has {worker}, and there are {lanes.workers}")
        if not 0 <= start <= end < LONGEST:
            raise ValueError(f"facts.workers.lanes has something from {start} s to {end} s")
