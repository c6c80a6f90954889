"""The peak memory of a graph's values when its nodes run in order.

The model is simple. A value is allocated at its node, and freed after the last node that
reads it. Views and other ops that return their source unchanged are other names of that source. An
elementwise result with a single reduction as reader is never stored whole (the interpreter and
fused kernels compute it piece by piece). Inputs and constants are always in memory, and are counted
separately; a constant takes one number, whatever its shape.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from typing_extensions import override

from luminal_lab.core.binding import bound_shape
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Elementwise, Reduce, TensorType, View, ints
from luminal_lab.core.ops import (
    After,
    Constant,
    CustomGradient,
    GraphBreak,
    Input,
    Pick,
    StopGradient,
)

Value: TypeAlias = tuple[int, int]
"""A node's id, and the index of its result."""
ALIASES = (View, After, GraphBreak, StopGradient, CustomGradient)
"""Ops whose result is their first source in another form."""


class Peak(NamedTuple):
    """The most bytes in use at once, and the node where that happens."""

    bytes: int
    node: Node | None
    given: int
    """The bytes of inputs and constants, not included in `bytes`."""
    live: tuple[tuple[Node, int], ...]
    """The values in memory at that node, the largest first."""

    @override
    def __str__(self) -> str:
        if self.node is None:
            return f"0 bytes at once; inputs and constants: {self.given:,}"
        rows = [f"{size:>14,}  {node} = {node.op.name} : {node.type}" for node, size in self.live]
        rest = len(rows) - 8
        if rest > 1:
            rows[8:] = [f"{sum(size for _, size in self.live[8:]):>14,}  {rest} more"]
        head = f"{self.bytes:,} bytes at once, at {self.node} = {self.node.op.name}"
        return "\n".join([f"{head}; inputs and constants: {self.given:,}", *rows])


def peak_bytes(ir: IR, dims: Mapping[str, int] | None = None) -> Peak:
    """Return the peak memory of a graph's values.

    >>> from luminal_lab.core.parse import parse
    >>> ir = parse('''
    ... graph g(%x: f32[n]) -> (%z) {
    ...   %y = sin %x : f32[n]
    ...   %z = sqrt %y : f32[n]
    ... }
    ... ''')
    >>> print(peak_bytes(ir, {"n": 100}))
    800 bytes at once, at %z = sqrt; inputs and constants: 400
               400  %y = sin : f32[n]
               400  %z = sqrt : f32[n]
    """
    needed = ir.ancestors(ir.output_ids)
    nodes = [node for node in ir.nodes if node.id in needed]
    readers: dict[int, list[Node]] = {}
    for node in nodes:
        for id in dict.fromkeys(node.sources):
            readers.setdefault(id, []).append(node)
    for id in ir.output_ids:  # an output is stored whole
        readers.pop(id, None)
    held = {node.id: held_by(node, readers.get(node.id, [])) for node in nodes}
    behind: dict[int, frozenset[Value]] = {}  # the values that a read of each node needs
    born: dict[Value, int] = {}
    last: dict[Value, int] = {}
    for index, node in enumerate(nodes):
        for value in frozenset[Value]().union(*[behind[id] for id in node.sources]):
            last[value] = index
        own = held[node.id]
        born.update(dict.fromkeys(own or (), index))
        last.update(dict.fromkeys(own or (), index))
        behind[node.id] = frozenset(own) if own is not None else through(node, behind)
    for id in ir.output_ids:
        last.update(dict.fromkeys(behind[id], len(nodes)))
    sizes = {value: size(ir[value[0]].types[value[1]], dims or {}) for value in born}
    change = [0] * (len(nodes) + 2)
    for value, index in born.items():
        change[index] += sizes[value]
        change[last[value] + 1] -= sizes[value]
    taken = list(accumulate(change[: len(nodes)]))
    most = max(taken, default=0)
    at = taken.index(most) if most else 0
    live = [(ir[v[0]], sizes[v]) for v in born if born[v] <= at <= last[v] and most]
    given = sum(size(node.type, dims or {}) for node in nodes if isinstance(node.op, Input))
    given += sum(node.dtype.itemsize for node in nodes if isinstance(node.op, Constant))
    live.sort(key=lambda pair: -pair[1])
    return Peak(most, nodes[at] if most else None, given, tuple(live))


def held_by(node: Node, readers: Sequence[Node]) -> tuple[Value, ...] | None:
    """Return the values allocated at a node; None if it is its source in another form."""
    op = node.op
    if isinstance(op, (Input, Constant)):
        return ()
    if isinstance(op, (*ALIASES, Pick)):
        return None
    if isinstance(op, Elementwise) and len(readers) == 1 and isinstance(readers[0].op, Reduce):
        return None
    return tuple((node.id, k) for k in range(len(node.types)))


def through(node: Node, behind: Mapping[int, frozenset[Value]]) -> frozenset[Value]:
    """Return the values that a read of a node needs, if it is its source in another form."""
    first = behind[node.sources[0]]
    if isinstance(node.op, Pick):
        index = node.op.index
        return frozenset(value for value in first if value[1] == index)
    if isinstance(node.op, ALIASES):
        return first
    return first.union(*[behind[id] for id in node.sources])


def size(type: TensorType, dims: Mapping[str, int]) -> int:
    """Return the bytes of a value."""
    shape = bound_shape("peak_bytes", type.shape, dims)
    return math.prod(ints(shape)) * type.dtype.itemsize
