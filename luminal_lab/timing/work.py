"""The least work of each node of a graph: operations, bytes read, bytes written."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeVar, cast

from luminal_lab.core import ops
from luminal_lab.core.dims import evaluate
from luminal_lab.core.dtypes import DType
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Elementwise, Reduce, Source, TensorType, View, size_of
from luminal_lab.errors import DefinitionError, DimError
from luminal_lab.kernels.definition.cost import bytes_moved, flops
from luminal_lab.kernels.definition.define import define
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.workers.ops import Collective, OwnPlace, Reshard
from luminal_lab.workers.pipe_ops import Move, Receive, Send

NO_WORK = (
    *(Source, View, ops.After, ops.CustomGradient, ops.GraphBreak, ops.Pick, ops.StopGradient),
    *(Reshard, Move, OwnPlace),
)
"""Ops that only locate a value, or make it out of nothing."""


Number = TypeVar("Number", int, float)


def known_sum(numbers: Iterable[Number | None]) -> Number | None:
    """Return a sum; None if a number is unknown."""
    listed = [*numbers]
    return None if None in listed else cast("Number", sum(filter(None, listed)))


class Work(NamedTuple):
    """Operations and bytes; None if unknown."""

    flops: int | None
    read: int | None
    written: int | None
    dtype: DType
    floats: int | None = None
    """The operations that make floats, which a rate of multiplying and adding limits."""

    @property
    def bytes(self) -> int | None:
        """All bytes, in and out."""
        return None if self.read is None or self.written is None else self.read + self.written


def is_work(node: Node) -> bool:
    """Return whether a node computes or moves anything."""
    return not isinstance(node.op, NO_WORK)


def work_of(ir: IR, node: Node, dims: Mapping[str, int], *, inside: Container[int] = ()) -> Work:
    """Return the work of a node, for sizes of the dims; nodes `inside` are computed with it."""
    written = sum(_bytes(type, dims) for type in node.types)
    parts = _gathered(ir, node, inside)
    flops = known_sum(_flops(ir, part, dims) for part in parts)
    floats = known_sum(_flops(ir, part, dims) for part in parts if part.dtype.is_float)
    own = {part.id for part in parts}
    given = {id for part in parts for id in part.sources if id not in own}
    behind: dict[int, int] = {}
    for id in sorted(given):
        base = _behind(ir, ir[id])
        behind[base.id] = _read(ir[id], base, dims)
    work = Work(flops, sum(behind.values()), written, node.dtype, floats)
    match node.op:
        case ops.Region(body=body):
            return _of_body(body, dims, work)
        case ops.Gather():
            indices = ir[node.sources[1]]
            return work._replace(read=written + _read(indices, _behind(ir, indices), dims))
        case ops.Update():
            rows = _bytes(ir[node.sources[1]].type, dims)
            return work._replace(read=rows, written=rows)
        case _:
            return work if is_work(node) else Work(0, 0, 0, node.dtype, 0)


def _gathered(ir: IR, node: Node, inside: Container[int]) -> list[Node]:
    """Return a node and those that are computed together with it."""
    members = [node]
    for part in members if inside else ():
        members += [ir[id] for id in part.sources if id in inside and ir[id] not in members]
    return members


def _behind(ir: IR, node: Node) -> Node:
    """Return the node that a node is a view of."""
    while isinstance(node.op, (View, ops.StopGradient, ops.GraphBreak)):
        node = ir[node.sources[0]]
    return node


def _read(node: Node, base: Node, dims: Mapping[str, int]) -> int:
    """Return the bytes that are read: an element that a view repeats counts once."""
    if isinstance(base.op, ops.Constant):
        return 0
    size = _bytes(base.type, dims)
    return size if base is node else min(size, _bytes(node.type, dims))


def _flops(ir: IR, node: Node, dims: Mapping[str, int]) -> int | None:
    match node.op:
        case ops.Contiguous() | ops.Cast() | ops.Bitcast() | ops.Gather():
            return 0
        case ops.Update() | ops.Where() | Collective() | Send() | Receive():
            return 0
        case Reduce():
            return _size(ir[node.sources[0]].type, dims)
        case ops.Scatter():
            return _size(ir[node.sources[-1]].type, dims)
        case Elementwise() if is_work(node):
            return sum(_size(type, dims) for type in node.types)
        case _:
            return None if is_work(node) else 0


def effort_of(ir: IR, node: Node, dims: Mapping[str, int]) -> int:
    """Return the cost of a node in a kernel, in additions; moving an element counts as one.

    What only locates a value costs nothing.
    """
    try:
        match node.op:
            case ops.Region(body=body):
                return sum(effort_of(body, inner, dims) for inner in body.nodes)
            case Reduce():
                return _size(ir[node.sources[0]].type, dims)
            case _ if is_work(node):
                size = sum(_size(type, dims) for type in node.types)
                return size * max(1, node.op.cost)
            case _:
                return 0
    except DimError:  # a size that nobody has given
        return 0


def effort_for(dims: Mapping[str, int]) -> Callable[[IR, Node], float]:
    """Return the costs of nodes for sizes of dims."""
    return lambda ir, node: effort_of(ir, node, dims)


def work_of_definition(definition: Definition, dims: Mapping[str, int]) -> Work:
    """Return the work of a kernel, for sizes of its dims."""
    written = sum(_bytes(line.type, dims) for line in definition.outputs)
    read = bytes_moved(definition, dims) - written
    dtypes = [type.dtype for type in definition.types.values() if type.dtype.is_float]
    dtype = max(dtypes or [DType.float32], key=lambda dtype: dtype.itemsize)
    floats = flops(definition, dims, floats=True)
    return Work(flops(definition, dims), read, written, dtype, floats)


def _of_body(body: IR, dims: Mapping[str, int], outside: Work) -> Work:
    known = _defined(body, tuple(sorted(dims.items())))
    if known is not None:
        return known
    # It is not in index notation: add up the work of its nodes.
    each = [work_of(body, node, dims) for node in body.nodes]
    flops, floats = (known_sum(getattr(work, of) for work in each) for of in ("flops", "floats"))
    return outside._replace(flops=flops, floats=floats)


@lru_cache(maxsize=256)
def _defined(body: IR, dims: tuple[tuple[str, int], ...]) -> Work | None:
    """Return the work of a body that can be defined: equal layers of a model have equal bodies."""
    try:
        return work_of_definition(define(body), dict(dims))
    except DefinitionError:
        return None


def _size(type: TensorType, dims: Mapping[str, int]) -> int:
    size = size_of(type.shape)
    return size if isinstance(size, int) else evaluate(size, dims)


def _bytes(type: TensorType, dims: Mapping[str, int]) -> int:
    return _size(type, dims) * type.dtype.itemsize
