"""Chains of views as one index expression per axis of the base, and one for validity.

>>> from luminal_lab.core.ops import Pad, Permute, Reshape
>>> ops = Reshape((2, 2, 6)), Permute((2, 0, 1)), Reshape((12, 2))
>>> view = ComposedView.identity((4, 6)).then(*ops)
>>> view.index, view.flat
((2*(i0%2) + i1, i0//2), 12*(i0%2) + i0//2 + 6*i1)
>>> ComposedView.identity((8,)).then(Pad((1,), (1,))).valid
0 < i0 and i0 < 9
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np

from luminal_lab.core.dims import Dim, Shape, Symbol, both, evaluate, evaluate_array, substitute
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.ir import IR, Node, NodeLike
from luminal_lab.core.op import TensorType, View, size_of
from luminal_lab.core.ops import Expand, Flip, Pad, Permute, Reshape, Slice, Window


@dataclass(frozen=True, slots=True)
class ComposedView:
    """The position in `base` of each element of `shape`.

    For the output position (i0, i1, …), `index[k]` is the position along axis k of the base, and
    `valid` is 1 where the element comes from the base, 0 where it reads as zero; there the index
    meaningless, and may be out of range.
    """

    base: Shape
    shape: Shape
    index: Shape
    valid: Dim = 1

    @staticmethod
    def identity(shape: Shape) -> "ComposedView":
        """Return the view that changes nothing."""
        return ComposedView(shape, shape, positions(shape))

    def then(self, *ops: View) -> "ComposedView":
        """Return this view followed by further view ops."""
        return reduce(_then, ops, self)

    @property
    def flat(self) -> Dim:
        """The row-major offset into the base."""
        return row_major(self.base, self.index)

    @property
    def affine(self) -> tuple[Dim, Shape] | None:
        """The offset into the base and the strides of the output axes, or None if it has none."""
        names = [f"i{axis}" for axis in range(len(self.shape))]
        zeros: dict[str, Dim] = dict.fromkeys(names, 0)
        offset = substitute(self.flat, zeros)
        strides = tuple(substitute(self.flat, zeros | {name: 1}) - offset for name in names)
        rest = self.flat - offset
        for position, stride in zip(positions(self.shape), strides, strict=True):
            rest = rest - position * stride
        return (offset, strides) if rest == 0 else None

    @property
    def is_contiguous(self) -> bool:
        """True if the elements are a contiguous run of the base, in order."""
        affine = self.affine
        in_place = row_major(self.shape, positions(self.shape))
        return self.valid == 1 and affine is not None and self.flat - affine[0] == in_place


@lru_cache(1 << 12)
def _then(view: ComposedView, op: View) -> ComposedView:
    """Return a view followed by an op: equal layers, passes and kernels ask again and again."""
    shape = op.infer(TensorType(DType.float32, view.shape)).shape
    index = _sources(op, view.shape, shape)
    valid: Dim = 1
    for position, size in zip(index, view.shape, strict=True) if isinstance(op, Pad) else ():
        valid = both(valid, both(position >= 0, position < size))
    values = {f"i{axis}": position for axis, position in enumerate(index)}
    inner = tuple(substitute(dim, values) for dim in view.index)
    return ComposedView(view.base, shape, inner, substitute(view.valid, values) * valid)


def view_of(ir: IR, node: NodeLike) -> tuple[Node, ComposedView]:
    """Return the node that a chain of view nodes reads, and the chain as one view."""
    base = ir[node]
    ops: list[View] = []
    while isinstance(base.op, View):
        ops.append(base.op)
        (base,) = ir.sources(base)
    return base, ComposedView.identity(base.shape).then(*reversed(ops))


def apply(view: ComposedView, array: Array, dims: Mapping[str, int] | None = None) -> Array:
    """Return an array seen through a view, by slow and obvious indexing."""
    dims = dims or {}
    shape = tuple(evaluate(dim, dims) for dim in view.shape)
    grid = {f"i{axis}": positions for axis, positions in enumerate(np.indices(shape))}
    valid, *index = (
        np.broadcast_to(evaluate_array(dim, {**dims, **grid}), shape)
        for dim in (view.valid, *view.index)
    )
    result = np.zeros(shape, array.dtype)
    result[valid == 1] = array[tuple(positions[valid == 1] for positions in index)]
    return result


@lru_cache(1 << 12)
def positions(shape: Shape) -> Shape:
    """Return i0, i1, … with bounds from the shape; 0 along an axis of size 1."""
    return tuple(
        0 if dim == 1 else Symbol(f"i{axis}", 0, 0 if dim == 0 else dim - 1)
        for axis, dim in enumerate(shape)
    )


def row_major(shape: Sequence[Dim], index: Sequence[Dim]) -> Dim:
    """Return the number of elements of `shape` before the one at `index`."""
    offset: Dim = 0
    for dim, position in zip(shape, index, strict=True):
        offset = offset * dim + position
    return offset


def _sources(op: View, old: Shape, new: Shape) -> list[Dim]:
    """Return the position along each old axis that an op reads for an element of its result."""
    at = positions(new)
    index = list(at[: len(old)])
    match op:
        case Permute(axes=axes):
            for position, axis in zip(at, axes, strict=True):
                index[axis] = position
        case Expand():
            index = [0 if dim == 1 else i for dim, i in zip(old, at, strict=True)]
        case Slice(start=starts, step=steps):
            index = [i * step + start for i, step, start in zip(at, steps, starts, strict=True)]
        case Pad(before=before):
            index = [i - size for i, size in zip(at, before, strict=True)]
        case Flip(axes=axes):
            for axis in axes:
                index[axis] = old[axis] - 1 - at[axis]
        case Window(axis=axis, stride=stride, dilation=dilation):
            index[axis] = at[axis] * stride + at[-1] * dilation
        case Reshape():
            index = _reshaped(old, new, at)
        case _:
            raise NotImplementedError(op.name)
    return index


def _reshaped(old: Shape, new: Shape, at: Shape) -> list[Dim]:
    """Return the positions along the old axes, by groups of axes with equal products."""
    index: list[Dim] = [0] * len(old)
    for olds, news in axis_groups(old, new) if 0 not in new else ():
        flat = row_major([new[axis] for axis in news], [at[axis] for axis in news])
        for axis in reversed(olds[1:]):
            index[axis] = flat % old[axis]
            flat = flat // old[axis]
        index[olds[0]] = flat
    return index


def axis_groups(old: Shape, new: Shape) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the smallest groups of axes with equal element counts in both shapes."""
    olds, news = ([axis for axis, dim in enumerate(shape) if dim != 1] for shape in (old, new))
    products = [size_of([new[axis] for axis in news[:end]]) for end in range(len(news) + 1)]
    start = done = 0
    for stop in range(1, len(olds) + 1):
        product = size_of([old[axis] for axis in olds[:stop]])
        if product in products:
            end = products.index(product)
            yield olds[start:stop], news[done:end]
            start, done = stop, end
