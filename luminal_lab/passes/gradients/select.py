"""Gradients of casts, of choice, and of indexing by data."""

from __future__ import annotations

from luminal_lab.core.dtypes import DType
from luminal_lab.core.ops import (
    Bitcast,
    Cast,
    Expand,
    Gather,
    Iota,
    LessThan,
    Reshape,
    Scatter,
    Slice,
    Update,
    Where,
)
from luminal_lab.errors import DTypeError
from luminal_lab.passes.gradients.rule import Forward, Given, emit, gradient
from luminal_lab.tensor import Tensor

LESS, WHERE = LessThan(), Where()


@gradient(Cast)
def cast(node: Forward[Cast], g: Tensor) -> Given:
    """Return g in the source's dtype."""
    return g.cast(node.types[0].dtype)


@gradient(Bitcast)
def bitcast(node: Forward[Bitcast], g: Tensor) -> Given:
    """Raise: a small change of a value may change all of its bits."""
    raise DTypeError(
        f"grad: {node.node} reads the bits of {node.types[0].dtype} as {node.op.dtype}, and has no "
        "gradient",
        hint="cast converts the values; detach() takes them for constants",
    )


@gradient(Where)
def where(node: Forward[Where], g: Tensor) -> Given:
    """Return g for the chosen branch, and 0 for the other."""
    return (
        None,
        lambda: emit(WHERE, node[0], g, g.full_like(0.0)),
        lambda: emit(WHERE, node[0], g.full_like(0.0), g),
    )


@gradient(Gather)
def gather(node: Forward[Gather], g: Tensor) -> Given:
    """Return the sum of g over all reads of each position."""
    x = node.types[0]
    zeros = g.constant(0.0, x.dtype, x.shape)
    return emit(Scatter(node.op.axis, "add"), zeros, node[1], g), None


@gradient(Scatter)
def scatter(node: Forward[Scatter], g: Tensor) -> Given:
    """Return g at the positions of the values that were not overwritten."""
    axis = node.op.axis
    if node.op.mode == "add":
        return g, None, lambda: emit(Gather(axis), g, node[1])

    def kept() -> Tensor:
        return emit(Scatter(axis, "set"), g, node[1], nothing(node, g))

    def put() -> Tensor:
        # For a repeated index, the last value remains.
        index, zeros = node[1], nothing(node, g)
        number = _numbered(index, axis)
        none = index.constant(0, DType.int32, node.types[0].shape)
        last = emit(Gather(axis), emit(Scatter(axis, "set"), none, index, number), index)
        overwritten = emit(LESS, number, last)
        return emit(WHERE, overwritten, zeros, emit(Gather(axis), g, index))

    return kept, None, put


def nothing(node: Forward[Scatter], g: Tensor) -> Tensor:
    """Return g with zeros at the positions of the values."""
    return g.constant(0.0, g.dtype, node.types[1].shape)


def _numbered(index: Tensor, axis: int) -> Tensor:
    """Return the position of each element along an axis."""
    size = index.shape[axis]
    op = Iota(DType.int32, (size,))
    numbers = Tensor(index.graph, index.graph.append(op, (), op.infer()), op.infer())
    line = emit(Reshape((1,) * axis + (size,) + (1,) * (index.ndim - axis - 1)), numbers)
    return line if line.shape == index.shape else emit(Expand(index.shape), line)


@gradient(Update)
def update(node: Forward[Update], g: Tensor) -> Given:
    """Return g with 0 at the rows for the buffer, and g at the rows for the rows."""
    op, rows = node.op, node.types[1]

    def kept() -> Tensor:
        return emit(op, g, g.constant(0.0, rows.dtype, rows.shape))

    def put() -> Tensor:
        start = tuple(op.at if k == op.axis else 0 for k in range(g.ndim))
        stop = tuple(a + size for a, size in zip(start, rows.shape, strict=True))
        return emit(Slice(start, stop, (1,) * g.ndim), g)

    return kept, put
