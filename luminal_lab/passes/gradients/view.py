"""Gradients of the seven views, which move data only where elements are added up.

forwards                            backwards
permute, reshape, flip              the same, undone
pad / slice                         slice / pad (with zeros between, for a step)
expand                              a sum
window                              what overlaps is added up: rows shifted by a reshape
"""

from __future__ import annotations

from luminal_lab.core.dims import Dim, known, maximum
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import size_of
from luminal_lab.core.ops import Expand, Flip, Pad, Permute, Reshape, Slice, SumReduce, Window
from luminal_lab.passes.gradients.rule import Forward, Given, emit, gradient, narrowed
from luminal_lab.tensor import Tensor

MOST_AXES = 64
"""The most axes of a NumPy array."""


@gradient(Permute)
def permute(node: Forward[Permute], g: Tensor) -> Given:
    """Return g with its axes in the source's order."""
    axes = node.op.axes
    return emit(Permute(tuple(axes.index(k) for k in range(len(axes)))), g)


@gradient(Reshape)
def reshape(node: Forward[Reshape], g: Tensor) -> Given:
    """Return g in the source's shape."""
    return emit(Reshape(node.types[0].shape), g)


@gradient(Flip)
def flip(node: Forward[Flip], g: Tensor) -> Given:
    """Return g flipped again."""
    return emit(node.op, g)


@gradient(Pad)
def pad(node: Forward[Pad], g: Tensor) -> Given:
    """Return g without the margins."""
    return cut(g, node.op.before, node.types[0].shape)


@gradient(Expand)
def expand(node: Forward[Expand], g: Tensor) -> Given:
    """Return the sum of g over all copies of each element."""
    x = node.types[0]
    axes = [k for k, (a, b) in enumerate(zip(x.shape, g.shape, strict=True)) if a != b]
    # A single sum of 16-bit floats is computed in float32 anyway.
    total = g.cast(DType.float32) if len(axes) > 1 and g.dtype.is_half else g
    for axis in reversed(axes):
        total = emit(SumReduce(axis), total)
    return narrowed(total, x.dtype)


@gradient(Slice)
def slice_(node: Forward[Slice], g: Tensor) -> Given:
    """Return g with zeros at positions that the slice skipped."""
    op, shape = node.op, node.types[0].shape
    for axis, step in enumerate(op.step):
        if step > 1:
            g = spaced(g, axis, step, shape[axis] - op.start[axis])
    after = tuple(
        size - start - left for size, start, left in zip(shape, op.start, g.shape, strict=True)
    )
    return g if g.shape == shape else emit(Pad(op.start, after), g)


@gradient(Window)
def window(node: Forward[Window], g: Tensor) -> Given:
    """Return for each position the sum over all windows that contain it."""
    op, length = node.op, node.types[0].shape[node.op.axis]
    axis, last = op.axis, g.ndim - 1
    count, size = g.shape[axis], g.shape[last]
    order = list(range(last))
    if op.dilation == 1 and known(size <= op.stride):  # no two windows overlap
        order.insert(axis + 1, last)
        g = margin(moved(g, order), axis + 1, op.stride - size)
        g = merged(g, axis)
        return fitted(g, axis, length)
    order.insert(axis, last)
    g = moved(g, order)  # [..., size, count, ...]
    if op.stride > 1:
        g = spaced(g, axis + 1, op.stride, count * op.stride)
    # Rows written with one length and read with a shorter one become shifted.
    row = maximum(g.shape[axis + 1] + (size - 1) * op.dilation, length)
    g = merged(margin(g, axis + 1, row + op.dilation - g.shape[axis + 1]), axis)
    g = fitted(g, axis, size * row)
    g = emit(Reshape((*g.shape[:axis], size, row, *g.shape[axis + 1 :])), g)
    g = emit(SumReduce(axis), g)
    return fitted(merged(g, axis), axis, length)


# -- what these are made of ------------------------------------------------------------------------


def moved(g: Tensor, order: list[int]) -> Tensor:
    """Return g with its axes in another order."""
    return g if order == sorted(order) else emit(Permute(tuple(order)), g)


def merged(g: Tensor, axis: int) -> Tensor:
    """Return g with an axis and the next one merged."""
    both = g.shape[axis] * g.shape[axis + 1]
    return emit(Reshape((*g.shape[:axis], both, *g.shape[axis + 2 :])), g)


def margin(g: Tensor, axis: int, after: Dim) -> Tensor:
    """Return g with zeros at the end of an axis."""
    if after == 0:
        return g
    none: tuple[Dim, ...] = (0,) * g.ndim
    return emit(Pad(none, (*none[:axis], after, *none[axis + 1 :])), g)


def cut(g: Tensor, start: tuple[Dim, ...], shape: tuple[Dim, ...]) -> Tensor:
    """Return a part of g with a shape, from a position on."""
    if g.shape == shape:
        return g
    stop = tuple(a + size for a, size in zip(start, shape, strict=True))
    return emit(Slice(start, stop, (1,) * g.ndim), g)


def fitted(g: Tensor, axis: int, length: Dim) -> Tensor:
    """Return g with an axis cut, or filled with zeros, to a length."""
    more = length - g.shape[axis]
    if not known(more <= 0):
        g = margin(g, axis, more if known(more >= 0) else maximum(more, 0))
    return cut(g, (0,) * g.ndim, (*g.shape[:axis], length, *g.shape[axis + 1 :]))


def spaced(g: Tensor, axis: int, step: int, length: Dim) -> Tensor:
    """Return g with zeros between the positions of an axis, `step` apart, up to a length."""
    shape = g.shape
    if len(shape) == MOST_AXES:  # none is left for the zeros: merge the others into two
        g = emit(Reshape((size_of(shape[:axis]), shape[axis], size_of(shape[axis + 1 :]))), g)
        return emit(
            Reshape((*shape[:axis], length, *shape[axis + 1 :])), spaced(g, 1, step, length)
        )
    g = emit(Reshape((*g.shape[: axis + 1], 1, *g.shape[axis + 1 :])), g)
    return fitted(merged(margin(g, axis + 1, step - 1), axis), axis, length)
