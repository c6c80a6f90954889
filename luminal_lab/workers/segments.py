"""What each worker of a pipeline runs: graphs of one stage, forward, backward, and at the end.

The graph of one microbatch is cut by stage and by phase. Forward is what depends on no later stage,
backward what does; the end is what depends on sums over all microbatches, as new weights do, and
runs once. Where a value goes to another stage stand `send` and `receive`; what a later phase of
the same stage reads is kept for it, microbatch by microbatch; a view of it is made again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from luminal_lab.core.ir import IR, Meta, Node, Table
from luminal_lab.core.op import Op, View, result_types
from luminal_lab.core.ops import Input
from luminal_lab.errors import GraphError
from luminal_lab.workers.ops import AllReduce, Collective, OwnPart, OwnPlace
from luminal_lab.workers.partition import Partitioned
from luminal_lab.workers.pipe_ops import Move, Receive, Send
from luminal_lab.workers.stage import MICRO, is_anywhere, stages_of

Phase: TypeAlias = Literal["forward", "backward", "end"]
PHASES: tuple[Phase, ...] = ("forward", "backward", "end")
WHOLE_BATCH = (
    "what is known from the whole batch alone cannot be: a batch norm, or a count of targets, "
    "which with ignore_index=None is that of all"
)


class Place(NamedTuple):
    """Where a node runs."""

    phase: int
    stage: int


@dataclass
class Segment:
    """One stage in one phase: its graph, and what its inputs and outputs are."""

    phase: Phase
    stage: int
    table: Table = field(default_factory=Table)
    known: dict[int, Node] = field(default_factory=dict[int, Node])
    given: dict[int, int] = field(default_factory=dict[int, int])
    """Nodes of the graph of a microbatch, by the inputs that they are here."""
    made: dict[int, int] = field(default_factory=dict[int, int])
    """Outputs, by the nodes that they are."""
    sent: list[int] = field(default_factory=list[int])

    @property
    def ir(self) -> IR:
        """Its graph."""
        outputs = dict.fromkeys([*self.made.values(), *self.sent])
        return IR(self.table, [*self.given], [*outputs], name=f"{self.phase}_{self.stage}")

    def add(self, op: Op, sources: Sequence[Node], like: Node) -> Node:
        """Append a node."""
        types = result_types(op, sources)
        meta = Meta(None, like.meta.origin, like.meta.scope)
        ids = tuple(source.id for source in sources)
        node = Node(self.table.size, op, ids, types[0], types[1:], meta)
        self.table.append(node)
        return node

    def input(self, node: Node) -> Node:
        """Return the input that a node of elsewhere is here."""
        if node.id not in self.known:
            new = self.add(Input(node.dtype, node.shape), (), node)
            self.known[node.id], self.given[new.id] = new, node.id
        return self.known[node.id]


class Segments:
    """The graph of a microbatch, cut."""

    def __init__(self, partitioned: Partitioned, stages: Mapping[str, int], count: int) -> None:
        self.partitioned, self.ir, self.count = partitioned, partitioned.ir, count
        self.stages = stages_of(self.ir, stages)
        self.varying = self._varying()
        self.sums: dict[int, AllReduce] = {}
        """What is joined over all microbatches, by the node whose value is joined."""
        self.place = self._places()
        self.all: dict[Place, Segment] = {}
        self._written()

    def _varying(self) -> set[int]:
        """Return what differs between microbatches."""
        cut = {p.local for p in self.partitioned.inputs if MICRO in p.layout.dims}
        varying: set[int] = set()
        for node in self.ir:
            inside = not isinstance(node.op, AllReduce) and any(i in varying for i in node.sources)
            if node.id in cut or inside or isinstance(node.op, OwnPart | OwnPlace):
                varying.add(node.id)
        return varying

    def _places(self) -> dict[int, Place]:
        places: dict[int, Place] = {}
        for node in self.ir:
            if isinstance(node.op, Collective) and not isinstance(node.op, AllReduce | OwnPart):
                raise self._mixed(node, f"{node.op.name} needs all microbatches at once")
            if isinstance(node.op, AllReduce):
                self.sums[node.sources[0]] = node.op
                places[node.id] = Place(2, self._stage(node.sources[0]))
                continue
            if node.id not in self.stages:
                continue
            before = [places[id] for id in node.sources if id in places]
            phase, stage = max((p.phase for p in before), default=0), self.stages[node.id]
            if isinstance(node.op, Move) and phase < 2:
                if node.op.new > node.op.old and phase == 1:
                    hint = "stages have numbers in the order in which values go through them"
                    raise self._mixed(node, "it goes back and forth between stages", hint)
                phase = 1 if node.op.new < node.op.old else phase
            if phase == 2 and any(id in self.varying for id in node.sources):
                raise self._mixed(node, "it reads a sum over all microbatches, and one of them")
            places[node.id] = Place(phase, stage)
        return places

    def _stage(self, id: int) -> int:
        return self.stages.get(id, 0)

    def _mixed(self, node: Node, why: str, hint: str = WHOLE_BATCH) -> GraphError:
        return GraphError(
            f"pipeline: {node} cannot be computed by microbatches: {why}",
            where=str(node.meta.origin or "") or None,
            hint=hint,
        )

    def _written(self) -> None:
        for stage in range(self.count):
            for number, phase in enumerate(PHASES):
                self.all[Place(number, stage)] = Segment(phase, stage)
        for node in self.ir:
            if node.id in self.place and not isinstance(node.op, AllReduce):
                self.here(node, self.all[self.place[node.id]])
        for id in dict.fromkeys([*self.sums, *self.ir.output_ids]):
            self.made(self.ir[id])

    def home(self, node: Node) -> Segment:
        """Return the segment that a value is made in."""
        return self.all[self.place.get(node.id, Place(0, self._stage(node.id)))]

    def made(self, node: Node) -> None:
        """Make a value an output of the segment that computes it."""
        home = self.home(node)
        home.made[node.id] = self.here(node, home).id

    def here(self, node: Node, segment: Segment) -> Node:
        """Return a value within a segment: computed there, given to it, or received."""
        if node.id in segment.known:
            return segment.known[node.id]
        if isinstance(node.op, Input | AllReduce):
            return segment.input(node)
        home = self.place.get(node.id)
        own = Place(PHASES.index(segment.phase), segment.stage)
        if home is not None and home != own and not isinstance(node.op, View):
            assert home.stage == own.stage, f"{node} is read in another stage"
            self.made(node)
            return segment.input(node)
        if isinstance(node.op, Move):
            segment.known[node.id] = self.received(node, node.op, segment)
        else:
            assert is_anywhere(self.ir, node) or home is not None, "it is computed somewhere"
            sources = [self.here(source, segment) for source in self.ir.sources(node)]
            segment.known[node.id] = segment.add(node.op, sources, node)
        return segment.known[node.id]

    def received(self, node: Node, move: Move, segment: Segment) -> Node:
        """Write a `send` where a value is, and a `receive` where it is needed."""
        (source,) = self.ir.sources(node)
        home = self.home(source)
        if home.phase == "end" and segment.phase != "end":
            raise self._mixed(node, "it reads a sum over all microbatches")
        if home.phase != "end" and segment.phase == "end":
            raise self._mixed(node, "it reads a microbatch where all of them are done")
        sent = home.add(Send(move.new, node.id), [self.here(source, home)], node)
        home.sent.append(sent.id)
        return segment.add(Receive(move.old, node.id, node.dtype, node.shape), [], node)
