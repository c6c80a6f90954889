"""What workers send to each other: which value, why, at which line, how many bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from typing_extensions import override

from luminal_lab.core.dims import Dim
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import TensorType, View
from luminal_lab.core.origin import Origin
from luminal_lab.core.printer import as_text
from luminal_lab.tables import Table, aligned, frame, heads
from luminal_lab.tensor.arguments import told_object
from luminal_lab.workers.flow import Flow
from luminal_lab.workers.layout import (
    Layout,
    Step,
    bytes_sent,
    parse_layout,
    steps,
)
from luminal_lab.workers.ops import Reshard
from luminal_lab.workers.rules import rule_of

COLUMNS = ("node", "op", "axis", "of", "type", "bytes", "why", "line")


@dataclass(frozen=True)
class Sending:
    """One collective: the `reshard` that it is of, what is sent, and why."""

    node: Node
    op: str
    axis: str
    of: str
    """The value that is sent, by its name."""
    type: TensorType
    """The type of the whole value."""
    bytes: Dim
    """The bytes that each worker sends, if all of them send around a ring."""
    why: str

    @property
    def line(self) -> Origin | None:
        """The user's line."""
        return self.node.meta.origin

    @property
    def row(self) -> tuple[object, ...]:
        """The cells of its row."""
        line = "" if self.line is None else f"{self.line.file.rpartition('/')[2]}:{self.line.line}"
        given = (str(self.node), self.op, self.axis, self.of, str(self.type))
        return (*given, self.bytes, self.why, line)


@told_object("communication")
class Communication(Sequence[Sending]):
    """All collectives of a sharded graph, in order; a sequence, and a table when shown."""

    def __init__(self, flow: Flow) -> None:
        self.mesh = flow.mesh
        self.rows = tuple(sendings(flow))

    @property
    def bytes(self) -> Dim:
        """The bytes that each worker sends in a run."""
        total: Dim = 0
        for row in self.rows:
            total = total + row.bytes
        return total

    def to_pandas(self) -> Table:
        """Return a pandas table, a row for each collective."""
        return frame("communication", COLUMNS, [row.row for row in self.rows])

    @override
    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Sending: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Sending, ...]: ...

    @override
    def __getitem__(self, index: int | slice) -> Sending | tuple[Sending, ...]:
        return self.rows[index]

    @override
    def __str__(self) -> str:
        if not self.rows:
            return f"{self.mesh}: nothing is sent"
        header = heads("< node < op < axis < of < type > bytes < why < line")
        cells = [[_told(cell) for cell in row.row] for row in self.rows]
        count = f"{len(self.rows)} collectives" if len(self.rows) > 1 else "1 collective"
        last = f"{count}; each of {self.mesh.workers} workers sends {_told(self.bytes)} bytes"
        return "\n".join([*aligned(header, cells), last])

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Communication: {len(self.rows)} collectives, {_told(self.bytes)} bytes; print(…)>"


def _told(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def sendings(flow: Flow) -> Iterator[Sending]:
    """Yield the collectives of a sharded graph; parts that a worker takes of its own are none."""
    ir = flow.ir
    for node in ir:
        if not isinstance(node.op, Reshard):
            continue
        (source,) = ir.sources(node)
        old, new = parse_layout(node.op.old), parse_layout(node.op.new)
        for step, before in steps(old, new):
            if step.sent != "own_part":
                size = bytes_sent(step, node.type, before, flow.mesh)
                of = _name(ir, source)
                why = _why(flow, node, step, old)
                yield Sending(node, step.sent, step.axis, of, node.type, size, why)


def _name(ir: IR, node: Node) -> str:
    """Return what a value is called: by its own name, or that of what it is a view of."""
    while node.meta.name is None and isinstance(node.op, View):
        node = ir.sources(node)[0]
    return str(node)


def _why(flow: Flow, node: Node, step: Step, old: Layout) -> str:
    """Return the reason for a change of layout, in words."""
    ir = flow.ir
    (source,) = ir.sources(node)
    if step.axis in old.partial:
        return f"each has a term of {_sum_of(ir, source) or f'the {old.kind}'}"
    dim = old.at(step.axis)
    for user in ir.users(node):
        for links, id in zip(rule_of(ir, user).links, user.sources, strict=True):
            if id == node.id and dim is not None and links[dim] is None:
                return f"{user} {user.op.name} needs axis {dim} whole"
    reader = _reader(ir, node)
    if reader is node:
        return "it is returned so"
    cut = flow.raw[reader.id].at(step.axis)
    if cut is not None:
        return f"axis {cut} of {reader} {reader.op.name} is cut over {step.axis}"
    return f"{reader} {reader.op.name} reads it whole"


def _reader(ir: IR, node: Node) -> Node:
    """Return the first reader of a value that is no view; itself if nobody reads it."""
    reader = next(iter(ir.users(node)), node)
    while isinstance(reader.op, View) and ir.users(reader):
        reader = ir.users(reader)[0]
    return reader


def _sum_of(ir: IR, node: Node) -> str:
    """Return over what a sum is that workers have terms of, if that can be said shortly."""
    for _ in range(8):
        if node.op.name in ("sum_reduce", "max_reduce"):
            axis: int = getattr(node.op, "axis", 0)
            return f"{node} {node.op.name} along axis {axis}, which is cut"
        if not node.sources:
            break
        node = ir.sources(node)[0]
    return ""
