"""`stage`: write into the graph where a value is handed from one stage of a pipeline to the next.

With `stages={"first*": 0, "second*": 1}`, whose keys are patterns of scopes:

    %y = exp %x : f32[8]     [scope first]         %y = exp %x : f32[8]
    %z = sin %y : f32[8]     [scope second]    →   %1 = move{old = 0, new = 1} %y : f32[8]
                                                   %z = sin %1 : f32[8]

A `move` is the identity, like `reshard`. A node that no pattern names is in the stage of what it
reads: the last of them, or on the way back, when gradients come from later stages, the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Source, View
from luminal_lab.core.ops import Add, Cast, Gather, HostCall, Input, Mul
from luminal_lab.core.origin import Origin
from luminal_lab.errors import GraphError, PassError, ShapeError, nearest
from luminal_lab.passes.base import Pass
from luminal_lab.workers.layout import WHOLE
from luminal_lab.workers.mesh import Mesh
from luminal_lab.workers.ops import OwnPart, OwnPlace, Reshard
from luminal_lab.workers.pipe_ops import Move
from luminal_lab.workers.plan import Annotation, Sharding
from luminal_lab.workers.shard import Resharding

MOST_OPS = 16
"""The most ops that `partition` writes for a part of numbers, along each axis."""
MICRO = "micro"
"""The axis of a mesh that the microbatches are: they are workers one after the other."""


def microbatches(ir: IR, batch: tuple[str, ...], count: int, origin: Origin | None) -> Sharding:
    """Return how inputs are cut into microbatches: those of some names, along their first axis."""
    found = [
        Annotation(node.meta.name, (MICRO, *[WHOLE] * (len(node.shape) - 1)), origin)
        for node in ir.inputs
        if node.meta.name and any(fnmatchcase(node.meta.name, name) for name in batch)
    ]
    named = [node.meta.name or "" for node in ir.inputs]
    for name in batch:
        if not any(fnmatchcase(known, name) for known in named):
            raise GraphError(
                f"the batch {name!r} names no input of {ir.name}",
                where=str(origin or "") or None,
                hint=nearest(name, named) or f"the inputs: {', '.join(named[:8])}",
            )
    for node in (node for node in ir.inputs if any(one.names(node) for one in found)):
        rows = node.shape[0] if node.shape else None
        if rows is not None and not isinstance(rows, int):
            raise ShapeError(
                f"the batch {node} has {rows} rows, and microbatches are cut from a known number",
                where=str(origin or "") or None,
                hint="write the graph with a number there",
            )
        if isinstance(rows, int) and rows % count:
            raise ShapeError(
                f"the batch {node} has {rows} rows, which {count} microbatches do not divide",
                where=str(origin or "") or None,
                hint=f"microbatches={max(n for n in range(1, count) if rows % n == 0)} divides it",
            )
    return Sharding(Mesh(**{MICRO: count}), tuple(found), origin)


def is_anywhere(ir: IR, node: Node) -> bool:
    """Return whether each stage can make a value by itself: it costs nothing, or next to it.

    What `partition` writes for a microbatch's part of random numbers is still such a value.
    """
    while isinstance(node.op, View | OwnPart | Reshard) and len(node.sources) == 1:
        node = ir.sources(node)[0]
    if isinstance(node.op, Gather | Add | Mul | Cast):
        return _is_by_place(ir, node)
    return isinstance(node.op, Source | OwnPlace)


def _is_by_place(ir: IR, node: Node) -> bool:
    """Return whether a value is a part of numbers, as `partition` writes it."""
    way = [node]
    while isinstance(way[-1].op, View | Gather | Add | Mul | Cast) and len(way) < MOST_OPS:
        way.append(ir.sources(way[-1])[-1])
    is_part = isinstance(way[-1].op, OwnPlace)
    return is_part and all(is_anywhere(ir, s) for n in way for s in ir.sources(n)[:-1])


def stages_of(ir: IR, stages: Mapping[str, int]) -> dict[int, int]:
    """Return the stage of each node that is not made anywhere."""
    found: dict[int, int] = {}
    back: set[int] = set()
    for node in ir:
        if is_anywhere(ir, node):
            continue
        sources = [id for id in node.sources if id in found]
        known = [found[id] for id in sources]
        if isinstance(node.op, Move):
            found[node.id] = node.op.new
        else:
            named = [n for pattern, n in stages.items() if fnmatchcase(node.meta.scope, pattern)]
            is_back = any(id in back for id in sources)
            default = (min if is_back else max)(known, default=0)
            found[node.id] = named[0] if named else default
        if any(id in back for id in sources) or any(n > found[node.id] for n in known):
            back.add(node.id)
    return found


@dataclass(frozen=True)
class Microbatch(Pass):
    """Insert a `reshard` where microbatches meet: where sums over the batch are taken."""

    name: ClassVar[str] = "microbatch"
    count: int
    batch: tuple[str, ...]
    origin: Origin | None = field(default=None, repr=False, compare=False)

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        for node in ir:
            if isinstance(node.op, HostCall):
                raise GraphError(
                    f"{node} calls a function of the host, which workers cannot",
                    where=str(node.meta.origin or "") or None,
                    hint="call it outside of the graph",
                )
        Resharding(ir, edit, microbatches(ir, self.batch, self.count, self.origin)).run()

    @classmethod
    def of_text(cls) -> Microbatch:
        """Raise: a text cannot say what is cut."""
        raise PassError("microbatch: a text cannot say what is cut", hint="ll.Pipelined(…)")

    @override
    def __str__(self) -> str:
        return f"{self.name}{{count = {self.count}}}"


@dataclass(frozen=True)
class Stage(Pass):
    """Insert a `move` where a value is needed in another stage than it is computed in."""

    name: ClassVar[str] = "stage"
    stages: Mapping[str, int] = field(repr=False)
    origin: Origin | None = field(default=None, repr=False, compare=False)

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        scopes = [node.meta.scope for node in ir if not isinstance(node.op, Input)]
        for pattern, stage in self.stages.items():
            if not any(fnmatchcase(scope, pattern) for scope in scopes):
                known = sorted({scope for scope in scopes if scope})
                raise GraphError(
                    f"stage {stage}: no scope of {ir.name} is {pattern!r}",
                    where=str(self.origin or "") or None,
                    hint=nearest(pattern, known) or f"the scopes: {', '.join(known[:8])}",
                )
        found, moved = stages_of(ir, self.stages), dict[tuple[int, int], Node]()
        now: dict[int, Node] = {}
        for node in ir:
            sources = list[Node]()
            for id in node.sources:
                source, old, new = now.get(id, ir[id]), found.get(id), found.get(node.id)
                if old is not None and new is not None and old != new:
                    if (id, new) not in moved:
                        with edit.firing("next-stage", f"{source} from stage {old} to {new}"):
                            moved[id, new] = edit.insert(Move(old, new), source, like=node)
                    source = moved[id, new]
                sources.append(source)
            if tuple(source.id for source in sources) != node.sources:
                new_node = edit.insert(node.op, *sources, like=node)
                edit.replace(node, new_node, renames=True)
                edit.erase(node)
                now[node.id] = new_node

    @classmethod
    def of_text(cls) -> Stage:
        """Raise: patterns of scopes have no text."""
        raise PassError("stage: a text has no stages", hint="ll.Pipelined(stages={…})")

    @override
    def __str__(self) -> str:
        return f"{self.name}{{stages = {1 + max(self.stages.values())}}}"
