"""Rows: the distinct records of nodes in all graphs of a compile, each with its line of text.

A rewired node gets another row, and so does one whose line changed because a source or a called
body has a new name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set as AbstractSet
from dataclasses import dataclass
from typing import get_args

from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Op, TensorType, View
from luminal_lab.core.ops import Constant
from luminal_lab.core.origin import Origin
from luminal_lab.core.printer import line_text, name_bodies, op_text, types_text
from luminal_lab.errors import DimError
from luminal_lab.io.facts import Subject
from luminal_lab.timing.work import is_work, work_of
from luminal_lab.viz.egraph_elements import Element
from luminal_lab.viz.labels import kind_of, node_label
from luminal_lab.viz.live.columns import Columns
from luminal_lab.viz.payload import Kind
from luminal_lab.viz.scalars import number_text

KINDS: tuple[Kind, ...] = get_args(Kind)
"""The kinds of nodes, in the header's order."""


@dataclass(frozen=True)
class LineNames:
    """The names that lines use: of nodes by id, and of bodies."""

    nodes: Mapping[int, str]
    bodies: Mapping[IR, str]
    given: AbstractSet[int]

    @classmethod
    def of(cls, ir: IR) -> LineNames:
        """Return the names in the text of a graph."""
        nodes = {node.id: f"%{node.meta.name or node.id}" for node in ir.table}
        return cls(nodes, name_bodies(ir), frozenset(ir.input_ids))

    def beside(self, before: LineNames, born: Iterable[Node]) -> LineNames:
        """Return these names with those from before and those born in between."""
        passing = {node.id: f"%{node.meta.name or node.id}" for node in born}
        return LineNames(
            {**before.nodes, **passing, **self.nodes},
            {**before.bodies, **self.bodies},
            self.given | before.given,
        )


class Rows:
    """All rows of one run, in order of appearance."""

    def __init__(self, columns: Columns, subject: Subject, origins: dict[Origin, int]) -> None:
        self.columns = columns
        self.subject = subject
        facts = subject.facts
        self.launches = {
            launch.node: facts.kernels[launch.kernel].name for launch in facts.launches
        }
        """The kernel names by node."""
        count = subject.snapshots[-1].ir.next_id
        self.origins = origins
        self.number = "0" * len(str(count))
        """As wide as any unnamed node's number, so that equal scopes have equal sizes."""
        self.nodes: list[Node] = []
        """The record of each row."""
        self.known: dict[Node, int] = {}
        """The row of each record under the current names."""
        self.met: dict[Node, int] = {}
        """The last row of each record."""
        self.longest: dict[int, str] = {}
        """The longest label that a node has had, by id."""
        self._labels: list[str] = []
        self._scalars: dict[int, str] = {}
        """The constants, and the views of constants, as text by id."""
        self._text = columns.text
        self._lines: list[int] = []
        self._kinds: list[Kind] = []
        self._flops: list[float] = []
        self._bytes: list[float] = []
        self._ops: dict[Op, tuple[str, Kind]] = {}
        self._types: dict[TensorType, str] = {}

    def row(self, node: Node, names: LineNames, ir: IR | None = None) -> int:
        """Return the row of a record; a new one is written with these names.

        A node's work is known only if its graph is given.
        """
        known_row = self.known.get(node)
        if known_row is not None:
            return known_row
        row = self.known[node] = self.met[node] = len(self.nodes)
        self.nodes.append(node)
        op, kind = self._op(node.op, names)
        types = self._types.get(node.type)
        if types is None:
            types = self._types[node.type] = str(node.type)
        if node.extra:
            types = types_text(node)
        if node.id in names.given:
            line = f"{names.nodes[node.id]}: {types}"
        else:
            sources = [names.nodes.get(id) or f"%{id}?" for id in node.sources]
            own = isinstance(node.op, Element)  # whose text names its parts
            line = line_text(node, op, [] if own else sources, types)
        self._lines.append(self._text(line))
        if kind == "call" and node.id in self.launches:
            kind = "launch"
        elif kind == "input" and node.id in self.subject.parameters:
            kind = "parameter"
        self._kinds.append(kind)
        self._label(node, kind)
        flops, moved = work(ir, node) if ir is not None else (math.nan, math.nan)
        self._flops.append(flops)
        self._bytes.append(moved)
        return row

    def _label(self, node: Node, kind: Kind) -> None:
        """Note what a node is called in pictures, with the scalars that it reads."""
        id = node.id
        self._scalars.pop(id, None)
        if isinstance(node.op, Constant):
            self._scalars[id] = number_text(node.op.value)
        elif isinstance(node.op, View) and node.sources[0] in self._scalars:
            self._scalars[id] = self._scalars[node.sources[0]]
        kernel = self.launches.get(id, "") if kind == "launch" else ""
        operands = [self._scalars.get(source) for source in node.sources]
        label = node_label(node, kind, kernel, operands)
        self._labels.append(label)
        self.longest[id] = max(self.longest.get(id, ""), label, key=len)

    def forget(self, nodes: Iterable[Node]) -> None:
        """Forget records whose lines changed, so that they get new rows."""
        for node in nodes:
            self.known.pop(node, None)

    def _op(self, op: Op, names: LineNames) -> tuple[str, Kind]:
        op_parts = self._ops.get(op)
        if op_parts is None:
            op_parts = op_text(op, names.bodies), kind_of(op)
            if op.body_of() is None:  # the names of bodies change
                self._ops[op] = op_parts
        return op_parts

    def kind_of(self, node: Node) -> Kind:
        """Return the kind of a node that has a row."""
        return self._kinds[self.met[node]]

    def type_text(self, node: Node) -> str:
        """Return the types of a node's results as shown in pictures."""
        if node.extra:
            return ", ".join(map(str, node.types))
        return self._types[node.type]

    def put(self, prefix: str) -> None:
        """Write the columns."""
        nodes, text, put = self.nodes, self._text, self.columns.put
        types: dict[TensorType, tuple[int, int, int]] = {}
        for type, shown in self._types.items():
            dtype = type.dtype.short
            types[type] = text(shown), text(dtype), text(shown.removeprefix(dtype))
        texts = [types[node.type] for node in nodes]
        shown = [
            text(types_text(n)) if n.extra else t[0] for n, t in zip(nodes, texts, strict=True)
        ]
        metas = [node.meta for node in nodes]
        origins = self.origins
        origin_numbers = [
            -1 if meta.origin is None else origins.setdefault(meta.origin, len(origins))
            for meta in metas
        ]
        at, sources = [0], list[int]()
        for node in nodes:
            sources += node.sources
            at.append(len(sources))
        put(f"{prefix}node.id", "i32", [node.id for node in nodes])
        put(f"{prefix}node.op", "u32", [text(node.op.name) for node in nodes])
        put(f"{prefix}node.text", "u32", self._lines)
        put(f"{prefix}node.label", "u32", [text(label) for label in self._labels])
        put(f"{prefix}node.type", "u32", shown)
        put(f"{prefix}node.dtype", "u32", [type_numbers[1] for type_numbers in texts])
        put(f"{prefix}node.shape", "u32", [type_numbers[2] for type_numbers in texts])
        put(f"{prefix}node.name", "u32", [text(node.name) for node in nodes])
        put(f"{prefix}node.scope", "u32", [text(meta.scope) for meta in metas])
        put(f"{prefix}node.origin", "i32", origin_numbers)
        rules = [text(meta.derivation.rule) if meta.derivation is not None else 0 for meta in metas]
        put(f"{prefix}node.rule", "u32", rules)
        number = {kind: index for index, kind in enumerate(KINDS)}
        put(f"{prefix}node.kind", "u8", [number[kind] for kind in self._kinds])
        put(f"{prefix}node.flops", "f64", self._flops)
        put(f"{prefix}node.bytes", "f64", self._bytes)
        put(f"{prefix}node.source_at", "u32", at)
        put(f"{prefix}source.id", "i32", sources)


def work(ir: IR, node: Node) -> tuple[float, float]:
    """Return the operations and bytes of a node; NaN where a symbol is open."""
    if isinstance(node.op, Element) or not is_work(node):
        return 0.0, 0.0
    try:
        cost = work_of(ir, node, {})
    except DimError:
        return math.nan, math.nan
    flops, moved = cost.flops, cost.bytes
    return math.nan if flops is None else flops, math.nan if moved is None else moved
