"""Views: other orders and shapes, repetition, and parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from operator import index
from typing import Self, TypeAlias, TypeVar, cast

import numpy as np

from luminal_lab.core.builder import DimLike
from luminal_lab.core.dims import Dim, Expr, Shape, known, maximum, minimum
from luminal_lab.core.dtypes import DType, DTypeLike, as_dtype, scalar_dtype
from luminal_lab.core.op import TensorType, never, size_of, tuple_text
from luminal_lab.core.ops import (
    Bitcast,
    Contiguous,
    Flip,
    Gather,
    Iota,
    Permute,
    Reshape,
    Slice,
    SumReduce,
    Window,
)
from luminal_lab.errors import AxisError, DTypeError, RangeError, ShapeError
from luminal_lab.tensor.arithmetic import Arithmetic, Operand
from luminal_lab.tensor.lazy import Axis, Lazy
from luminal_lab.tensor.operation import on_axis, operation

T = TypeVar("T", bound="Movement")
V = TypeVar("V")
End: TypeAlias = DimLike | None
Part: TypeAlias = "slice[End, End, int | None] | Span"
Span: TypeAlias = tuple[Dim, Dim, int]
Pairs: TypeAlias = Sequence[Sequence[DimLike]]
MOST_NODES = 1_000_000
"""The most nodes that one operation may add."""


class Movement(Arithmetic):
    """Views and operations built from them.

    Negative bounds, bounds beyond the end and negative steps work as in NumPy. A
    symbolic bound is checked against the axis when dims are bound.
    """

    __slots__ = ()

    # -- the order of the axes ---------------------------------------------------------------------

    @operation
    def permute(self, *axes: int | Sequence[int]) -> Self:
        """Return the axes in another order.

        >>> print(cx.tensor((2, 3, 4), name="x").permute(2, 0, 1).lowering())
        %1 = permute{axes = [2, 0, 1]} %x : f32[4, 2, 3]
        """
        order = tuple([self._axis_of("permute", axis) for axis in listed(axes)])
        return self if order == tuple(range(self.ndim)) else self._through(Permute, order)

    @on_axis
    def transpose(self, axis0: int, axis1: int) -> Self:
        """Return two axes swapped.

        >>> print(cx.tensor((2, 3, 4), name="x").transpose(0, -1).lowering())
        %1 = permute{axes = [2, 1, 0]} %x : f32[4, 3, 2]
        """
        order = list(range(self.ndim))
        a, b = self._axis_of("transpose", axis0), self._axis_of("transpose", axis1)
        order[a], order[b] = b, a
        return self if a == b else self._through(Permute, tuple(order))

    swapaxes = swapdims = transpose

    @operation
    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """Return some axes moved to other positions; the others keep their order.

        >>> print(cx.tensor((2, 3, 4), name="x").movedim(0, -1).lowering())
        %1 = permute{axes = [1, 2, 0]} %x : f32[3, 4, 2]
        """
        before = [self._axis_of("movedim", axis) for axis in listed((source,))]
        after = [self._axis_of("movedim", axis) for axis in listed((destination,))]
        if not len(set(before)) == len(before) == len(after) == len(set(after)):
            raise AxisError(
                f"movedim: {source} to {destination} does not give each moved axis of "
                f"{self.label} one place",
                hint="name as many places as axes, and each once",
            )
        order = [axis for axis in range(self.ndim) if axis not in before]
        for position, axis in sorted(zip(after, before, strict=True)):
            order.insert(position, axis)
        return self.permute(order)

    moveaxis = movedim

    @property
    def T(self) -> Self:  # noqa: N802  # its name in NumPy and PyTorch
        """The axes in reverse order.

        >>> cx.tensor((2, 3, 4)).T.shape
        (4, 3, 2)
        """
        order = tuple(range(self.ndim))
        return self._through(Permute, order[::-1]) if self.ndim > 1 else self

    @property
    @operation
    def mT(self) -> Self:  # noqa: N802  # its name in NumPy and PyTorch
        """The last two axes swapped.

        >>> cx.tensor((2, 3, 4)).mT.shape
        (2, 4, 3)
        """
        return self.transpose(-2, -1)

    def t(self) -> Self:
        """Return the axes in reverse order.

        >>> y = cx.arange(6).reshape(2, 3).t().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[0, 3], [1, 4], [2, 5]]
        """
        return self.T

    # -- other shapes ------------------------------------------------------------------------------

    @operation
    def reshape(self, *shape: DimLike | Sequence[DimLike]) -> Self:
        """Return the elements, in row-major order, in another shape; one dim may be -1.

        >>> print(cx.tensor(("n", 4), name="x").reshape(2, -1).lowering())
        %1 = reshape{shape = [2, 2*n]} %x : f32[2, 2*n]
        """
        return self._viewed(self._sizes("reshape", listed(shape)))

    @operation
    def view(self, *shape: DimLike | Sequence[DimLike] | DTypeLike) -> Self:
        """Return the elements in another shape, or for a dtype the bits read as that dtype.

        >>> x = cx.tensor((2, 3))
        >>> x.view(6).shape, str(x.view("int32").dtype)
        ((6,), 'int32')
        """
        first, alone = shape[0] if shape else (), len(shape) == 1
        if alone and (isinstance(first, type) or f"{first}".removeprefix("torch.") in [*DType]):
            return self.bitcast(cast(DTypeLike, first))
        return self.reshape(*cast("tuple[DimLike, ...]", shape))

    @operation
    def bitcast(self, dtype: DTypeLike) -> Self:
        """Return the bits of the elements, read as another dtype.

        As with PyTorch's `view(dtype)`, elements of a smaller dtype stand side by side along the
        last axis, the lowest bits first. There is no gradient. Which of the many NaNs an operation
        gives is up to the device.

        >>> x = cx.tensor((2,)).set([1.0, -2.0])
        >>> bits, bytes = x.bitcast("int32").retrieve(), x.bitcast("uint8").retrieve()
        >>> cx.execute()
        >>> bits.tolist(), bytes.tolist()
        ([1065353216, -1073741824], [0, 0, 128, 63, 0, 0, 0, 192])
        """
        old, new = self.dtype, as_dtype(dtype)
        if new is DType.bool_ is not old:
            raise DTypeError(
                f"bitcast: not every {old} has the bits of a bool", hint="compare it, as in x != 0"
            )
        if old.itemsize == new.itemsize:
            are_whole = not old.is_float and not new.is_float
            return self.cast(new) if are_whole or old is new else self._through(Bitcast, new)
        if not self.ndim:
            raise ShapeError(
                f"bitcast: {self.label} is {old} and has no axis along which {new} could be",
                hint="give it one with unsqueeze(0)",
            )
        small, large = sorted((old.itemsize, new.itemsize))
        words, count = DType(f"uint{8 * large}"), large // small
        *outer, last = self.shape
        places = self._iota(count, words) * (8 * small)
        if old.itemsize == large:
            parts = self.bitcast(words).unsqueeze(-1) >> places
            return parts.cast(f"uint{8 * small}")._viewed((*outer, last * count)).bitcast(new)
        if never(last % count <= 0):
            raise ShapeError(
                f"bitcast: the last axis of {self.label} is no multiple of {count}, the number of "
                f"{old} in a {new}"
            )
        parts = self.bitcast(f"uint{8 * small}").cast(words)
        parts = parts._viewed((*outer, last // count, count)) << places
        return parts._through(SumReduce, self.ndim)._viewed((*outer, last // count)).bitcast(new)

    @operation
    def reshape_as(self, other: Operand) -> Self:
        """Return the elements in the shape of another tensor.

        >>> y = cx.arange(4).reshape_as(cx.zeros((2, 2))).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[0, 1], [2, 3]]
        """
        return self.reshape(self._tensor_of(other).shape)

    view_as = reshape_as

    @operation
    def flatten(self, start_axis: int = 0, end_axis: int = -1) -> Self:
        """Return the axes from the first to the last, both included, as one axis.

        >>> cx.tensor((2, 3, 4, 5)).flatten(1, 2).shape
        (2, 12, 5)
        """
        x = self if self.ndim else self._viewed((1,))
        start, end = x._axis_of("flatten", start_axis), x._axis_of("flatten", end_axis)
        if start > end:
            raise AxisError(
                f"flatten: axis {start_axis} of {self.label} comes after axis {end_axis}",
                hint="the first axis comes first",
            )
        merged = size_of(x.shape[start : end + 1])
        return x._viewed((*x.shape[:start], merged, *x.shape[end + 1 :]))

    ravel = flatten

    @operation
    def unflatten(self, axis: int, sizes: Sequence[DimLike]) -> Self:
        """Return one axis as several of the given sizes; one size may be -1.

        >>> cx.tensor((2, 12)).unflatten(1, (3, -1)).shape
        (2, 3, 4)
        """
        axis = self._axis_of("unflatten", axis)
        dims = self._sizes("unflatten", listed((sizes,)), axis)
        return self._viewed((*self.shape[:axis], *dims, *self.shape[axis + 1 :]))

    @operation
    def squeeze(self, axis: Axis = None) -> Self:
        """Return a view without those of the given axes, or of all, that have size 1.

        >>> x = cx.tensor((1, 3, 1))
        >>> x.squeeze().shape, x.squeeze(0).shape
        ((3,), (3, 1))
        """
        axes = self._axes_of("squeeze", axis)
        return self._viewed(tuple(d for k, d in enumerate(self.shape) if k not in axes or d != 1))

    @operation
    def unsqueeze(self, axis: int) -> Self:
        """Return a view with a new axis of size 1 before the given one.

        >>> x = cx.tensor((3,))
        >>> x.unsqueeze(0).shape, x.unsqueeze(-1).shape
        ((1, 3), (3, 1))
        """
        axis = self._axis_of("unsqueeze", axis, extra=1)
        return self._viewed((*self.shape[:axis], 1, *self.shape[axis:]))

    @operation
    def atleast(self, rank: int) -> Self:
        """Return a view with axes of size 1 added up to a rank, placed as in NumPy.

        >>> [cx.tensor((5,)).atleast(rank).shape for rank in (1, 2, 3)]
        [(5,), (1, 5), (1, 5, 1)]
        """
        first = int(self.ndim < min(rank, 2))
        return self._viewed((1,) * first + self.shape + (1,) * (rank - self.ndim - first))

    @operation
    def atleast_1d(self) -> Self:
        """Return a view with at least one axis.

        >>> cx.tensor(()).atleast_1d().shape
        (1,)
        """
        return self.atleast(1)

    @operation
    def atleast_2d(self) -> Self:
        """Return a view with at least two axes.

        >>> cx.tensor((5,)).atleast_2d().shape
        (1, 5)
        """
        return self.atleast(2)

    @operation
    def atleast_3d(self) -> Self:
        """Return a view with at least three axes.

        >>> cx.tensor((4, 5)).atleast_3d().shape
        (4, 5, 1)
        """
        return self.atleast(3)

    @operation
    def contiguous(self) -> Self:
        """Return the same value, written out in row-major order.

        >>> print(cx.tensor((2, 3), name="x").T.contiguous().lowering())
        %1 = permute{axes = [1, 0]} %x : f32[3, 2]
        %2 = contiguous %1 : f32[3, 2]
        """
        return self._apply(Contiguous())

    clone = contiguous

    # -- repetition --------------------------------------------------------------------------------

    @operation
    def expand(self, *shape: DimLike | Sequence[DimLike]) -> Self:
        """Return a view with axes of size 1 repeated; -1 keeps a size, new axes come first.

        >>> print(cx.tensor((3, 1), name="x").expand(2, -1, 4).lowering())
        %1 = reshape{shape = [1, 3, 1]} %x : f32[1, 3, 1]
        %2 = expand{shape = [2, 3, 4]} %1 : f32[2, 3, 4]
        """
        dims = self._dims(listed(shape))
        own = self.type.shape
        new = len(dims) - len(own)
        pairs = list(zip(own, dims[max(new, 0) :], strict=False))
        wrong = [b for a, b in pairs if b not in (a, -1) and a != 1]
        if new < 0 or wrong or -1 in dims[:new]:
            raise ShapeError(
                f"expand: {self.label} cannot become {tuple_text(dims)}",
                hint="only size 1 can be repeated; -1 keeps a size, and new axes come first",
            )
        return self._stretch((*dims[:new], *[a if b == -1 else b for a, b in pairs]))

    broadcast_to = expand

    @operation
    def expand_as(self, other: Operand) -> Self:
        """Return a view expanded to the shape of another tensor.

        >>> x = cx.tensor((2, 1)).set([[1], [2]])
        >>> y = x.expand_as(cx.zeros((2, 3))).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]
        """
        return self.expand(self._tensor_of(other).shape)

    @operation
    def expand_dim(self, axis: int, size: DimLike) -> Self:
        """Return a view repeated along a new axis.

        >>> y = cx.arange(2).expand_dim(1, 3).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[0, 0, 0], [1, 1, 1]]
        """
        axis = self._axis_of("expand_dim", axis, extra=1)
        wide = (*self.shape[:axis], self.graph.as_dim(size), *self.shape[axis:])
        return self.unsqueeze(axis)._stretch(wide)

    @operation
    def repeat(self, *sizes: DimLike | Sequence[DimLike]) -> Self:
        """Return copies side by side, with a count for each axis; new axes come first.

        >>> print(cx.tensor((2, 3), name="x").repeat(2, 1).lowering())
        %1 = reshape{shape = [1, 2, 1, 3]} %x : f32[1, 2, 1, 3]
        %2 = expand{shape = [2, 2, 1, 3]} %1 : f32[2, 2, 1, 3]
        %3 = reshape{shape = [4, 3]} %2 : f32[4, 3]
        """
        counts = self.graph.as_shape(tuple(listed(sizes)))
        new = len(counts) - self.ndim
        if new < 0:
            raise ShapeError(
                f"repeat: {tuple_text(counts)} has {len(counts)} counts, and {self.label} "
                f"{self.ndim} axes",
                hint="give a count for each axis, or use tile",
            )
        pairs = list(zip(counts, (1,) * new + self.shape, strict=True))
        apart = self._viewed(tuple(dim for _, size in pairs for dim in (1, size)))
        wide = apart._stretch(tuple(dim for pair in pairs for dim in pair))
        return wide._viewed(tuple(count * size for count, size in pairs))

    @operation
    def tile(self, *sizes: DimLike | Sequence[DimLike]) -> Self:
        """Return the result of `repeat`; counts for the first axes may be left out.

        >>> y = cx.arange(2).tile(2, 3).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[0, 1, 0, 1, 0, 1], [0, 1, 0, 1, 0, 1]]
        """
        counts = listed(sizes)
        return self.repeat((1,) * (self.ndim - len(counts)) + tuple(counts))

    @operation
    def repeat_interleave(self, repeats: DimLike | Sequence[int], axis: int | None = None) -> Self:
        """Return each slice along an axis several times in a row; without an axis, each element.

        The times are one number, or a list with one for each slice.

        >>> y = cx.arange(3).repeat_interleave(2).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0, 0, 1, 1, 2, 2]
        """
        x = self.flatten() if axis is None else self
        axis = x._axis_of("repeat_interleave", 0 if axis is None else axis)
        if not isinstance(repeats, (tuple, list)):
            return x.expand_dim(axis + 1, cast("DimLike", repeats)).flatten(axis, axis + 1)
        times = [whole("repeat_interleave: a number of times", n, 0) for n in repeats]
        if len(times) != x.shape[axis]:
            raise ShapeError(
                f"repeat_interleave: {len(times)} numbers of times are given for the "
                f"{x.shape[axis]} slices of {self.label}",
                hint="give one number for all, or one for each",
            )
        index = x._tensor_of(np.repeat(np.arange(len(times)), times))
        shape = x.type.with_axis(axis, sum(times)).shape
        return x._apply(Gather(axis), index._along(axis, shape))

    # -- parts -------------------------------------------------------------------------------------

    @operation
    def slice(self, ranges: Sequence[Sequence[End]]) -> Self:
        """Return a part, by (start, stop) or (start, stop, step) for each of the first axes.

        >>> print(cx.tensor((3, 4), name="x").slice(((0, 2), (1, None))).lowering())
        %1 = slice{start = [0, 1], stop = [2, 4], step = [1, 1]} %x : f32[2, 3]
        """
        given = listed((ranges,))
        parts = [tuple(part) for part in given if isinstance(part, (tuple, list))]
        if len(parts) < len(given) or not all(2 <= len(part) <= 3 for part in parts):
            raise ShapeError(
                f"slice: {ranges!r} are not ranges of {self.label}",
                hint="give (start, stop) for each axis, as in x.slice(((0, 2), (1, None)))",
            )
        if len(parts) > self.ndim:
            raise AxisError(
                f"slice: {len(parts)} ranges are given for the {self.ndim} axes of {self.label}",
                hint="give at most one range for each axis",
            )
        return self._sliced({axis: slice(*part) for axis, part in enumerate(parts)})

    @operation
    def slice_along(self, axis: int, start: End = None, stop: End = None, step: int = 1) -> Self:
        """Return a range of one axis.

        >>> y = cx.arange(10).slice_along(0, 2, -1, step=3).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [2, 5, 8]
        """
        return self._sliced({self._axis_of("slice_along", axis): slice(start, stop, step)})

    @operation
    def narrow(self, axis: int, start: DimLike, length: DimLike) -> Self:
        """Return `length` positions of one axis, all of which must exist.

        >>> y = cx.arange(6).reshape(2, 3).narrow(1, 1, 2).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[1, 2], [4, 5]]
        """
        axis = self._axis_of("narrow", axis)
        first = self._from_front(axis, start)
        return self._cut({axis: (first, first + self.graph.as_dim(length), 1)})

    @operation
    def select(self, axis: int, index: DimLike) -> Self:
        """Return one position of an axis, without the axis.

        >>> print(cx.tensor((3, 4), name="x").select(0, -1).lowering())
        %1 = slice{start = [2, 0], stop = [3, 4], step = [1, 1]} %x : f32[1, 4]
        %2 = reshape{shape = [4]} %1 : f32[4]
        """
        axis = self._axis_of("select", axis)
        position = self._position("select", axis, index)
        return self._cut({axis: (position, position + 1, 1)}).squeeze(axis)

    def __iter__(self) -> Iterator[Self]:
        return map(partial(self.select, 0), range(len(self)))

    @operation
    def unbind(self, axis: int = 0) -> tuple[Self, ...]:
        """Return all positions of an axis, each without the axis.

        >>> rows = cx.arange(6).reshape(3, 2).unbind()
        >>> [row.shape for row in rows]
        [(2,), (2,), (2,)]
        """
        size = self.shape[self._axis_of("unbind", axis)]
        count = whole(f"unbind: the size of axis {axis} of {self.label}", size)
        limited("unbind", 2 * count)
        return tuple(self.select(axis, k) for k in range(count))

    @operation
    def split(self, size: DimLike | Sequence[DimLike], axis: int = 0) -> tuple[Self, ...]:
        """Return pieces of one size, the last perhaps smaller, or of the sizes in a list.

        >>> x = cx.tensor((7, 2))
        >>> [piece.shape for piece in x.split(3)], [piece.shape for piece in x.split([5, 2])]
        ([(3, 2), (3, 2), (1, 2)], [(5, 2), (2, 2)])
        """
        axis = self._axis_of("split", axis)
        total = self.shape[axis]
        if not isinstance(size, (int, str, Expr)):
            sizes = list(self.graph.as_shape(tuple(listed((size,)))))
        else:
            step = self.graph.as_dim(size)
            count = 1 if step == total else step if step == 0 else -(-total // step)
            if isinstance(count, Expr):
                raise ShapeError(
                    f"split: axis {axis} of {self.label} has an unknown number of pieces of {step}",
                    hint="give a list of sizes",
                )
            limited("split", count)
            sizes = [step] * (count - 1) + [total - step * (count - 1)] if count else [0]
        if sum(sizes) != total:
            raise ShapeError(
                f"split: the sizes {tuple_text(sizes)} make {sum(sizes)}, and axis {axis} of "
                f"{self.label} has {total}",
                hint="the sizes must add up to that of the axis",
            )
        starts = accumulate(sizes, initial=0)
        return tuple(self.narrow(axis, a, n) for a, n in zip(starts, sizes, strict=False))

    @operation
    def chunk(self, chunks: int, axis: int = 0) -> tuple[Self, ...]:
        """Return at most `chunks` pieces of equal size, the last perhaps smaller.

        >>> [piece.shape for piece in cx.tensor((7,)).chunk(3)]
        [(3,), (3,), (1,)]
        """
        axis, count = self._axis_of("chunk", axis), whole("chunk: the number of pieces", chunks, 1)
        total = self.shape[axis]
        count = min(count, total) if isinstance(total, int) and total else count
        limited("chunk", count)
        part = total // count
        if total % count != 0:
            return self.split(-(-total // count), axis)
        if total - part * (count - 1) == part:
            return self.split([part] * count, axis)
        # The size of a slice is a difference; that of an unflattened axis is simple.
        return self.unflatten(axis, (count, part)).unbind(axis)

    @operation
    def tensor_split(self, sections: int | Sequence[End], axis: int = 0) -> tuple[Self, ...]:
        """Return `sections` pieces, the first ones larger by one if needed, or cut at positions.

        >>> x = cx.tensor((7,))
        >>> [piece.shape for piece in x.tensor_split(3)]
        [(3,), (2,), (2,)]
        >>> [piece.shape for piece in x.tensor_split([1, 6])]
        [(1,), (5,), (1,)]
        """
        if isinstance(sections, (tuple, list)):
            ends = pairwise([0, *sections, None])
            return tuple(self.slice_along(axis, start, stop) for start, stop in ends)
        count = whole("tensor_split: the number of pieces", sections, 1)
        limited("tensor_split", count)
        total = self.shape[self._axis_of("tensor_split", axis)]
        if total % count == 0:
            return self.chunk(count, axis)
        return self.split([(total + count - 1 - k) // count for k in range(count)], axis)

    @operation
    def hsplit(self, sections: int | Sequence[End]) -> tuple[Self, ...]:
        """Return pieces of equal size, or cut at positions: along the second axis, or the only one.

        >>> [piece.shape for piece in cx.tensor((2, 6)).hsplit(3)]
        [(2, 2), (2, 2), (2, 2)]
        """
        return self._even("hsplit", sections, 1, min(1, self.ndim - 1))

    @operation
    def vsplit(self, sections: int | Sequence[End]) -> tuple[Self, ...]:
        """Return pieces of equal size, or cut at positions, along the first axis.

        >>> [piece.shape for piece in cx.tensor((6, 2)).vsplit([1, 3])]
        [(1, 2), (2, 2), (3, 2)]
        """
        return self._even("vsplit", sections, 2, 0)

    @operation
    def dsplit(self, sections: int | Sequence[End]) -> tuple[Self, ...]:
        """Return pieces of equal size, or cut at positions, along the third axis.

        >>> [piece.shape for piece in cx.tensor((2, 2, 4)).dsplit(2)]
        [(2, 2, 2), (2, 2, 2)]
        """
        return self._even("dsplit", sections, 3, 2)

    def _even(
        self, what: str, sections: int | Sequence[End], least: int, axis: int
    ) -> tuple[Self, ...]:
        if self.ndim < least:
            raise ShapeError(
                f"{what}: {self.label} has {self.ndim} axes, and needs {least} or more",
                hint="name the axis with tensor_split",
            )
        if not isinstance(sections, (tuple, list)):
            count = whole(f"{what}: the number of pieces", sections, 1)
            if never(self.shape[axis] % count < 1):
                raise ShapeError(
                    f"{what}: axis {axis} of {self.label} has size {self.shape[axis]}, which is "
                    f"no multiple of {count}",
                    hint="tensor_split makes pieces of nearly equal size",
                )
        return self.tensor_split(sections, axis)

    @operation
    def unfold(self, axis: int, size: DimLike, step: int = 1, dilation: int = 1) -> Self:
        """Return windows along an axis, which counts them; a new last axis runs within each.

        >>> print(cx.tensor((2, 9), name="x").unfold(1, 3, 2).lowering())
        %1 = window{axis = 1, size = 3, stride = 2, dilation = 1} %x : f32[2, 4, 3]
        """
        if not self.ndim:  # a number is a vector of one
            return self._viewed((1,)).unfold(axis, size, step, dilation)._viewed((1,))
        axis, span = self._axis_of("unfold", axis), self.graph.as_dim(size)
        step, dilation = whole("unfold: the step", step, 1), whole("unfold: dilation", dilation, 1)
        return self._apply(Window(axis, span, step, dilation))

    @operation
    def pool_last_dim(self, kernel: DimLike, stride: int = 1, dilation: int = 1) -> Self:
        """Return windows along the last axis, for pooling and convolution.

        >>> y = cx.arange(7).pool_last_dim(3, stride=2).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[0, 1, 2], [2, 3, 4], [4, 5, 6]]
        """
        return self.unfold(-1, kernel, stride, dilation)

    # -- turning -----------------------------------------------------------------------------------

    @operation
    def flip(self, axis: Axis = None, *more: int) -> Self:
        """Return a view with some axes, or all, reversed.

        >>> x = cx.arange(4).reshape(2, 2)
        >>> y = x.flip().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[3, 2], [1, 0]]
        """
        axes = self._axes_of("flip", axis if axis is None else (*listed((axis,)), *more))
        return self._apply(Flip(axes)) if axes else self

    @operation
    def flipud(self) -> Self:
        """Return a view with the first axis reversed.

        >>> y = cx.arange(6).reshape(3, 2).flipud().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[4, 5], [2, 3], [0, 1]]
        """
        return self.flip(0)

    @operation
    def fliplr(self) -> Self:
        """Return a view with the second axis reversed.

        >>> y = cx.arange(6).reshape(3, 2).fliplr().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[1, 0], [3, 2], [5, 4]]
        """
        return self.flip(1)

    @operation
    def rot90(self, k: int = 1, axis: Sequence[int] = (0, 1)) -> Self:
        """Return a view turned by k right angles, from the first given axis towards the second.

        >>> y = cx.arange(6).reshape(2, 3).rot90().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[2, 5], [1, 4], [0, 3]]
        """
        if len(pair := listed((axis,))) != 2 or len(self._axes_of("rot90", axis)) != 2:
            raise AxisError(f"rot90: {axis!r} are not two axes of {self.label}", hint="try (0, 1)")
        a, b = (self._axis_of("rot90", axis) for axis in pair)
        quarter = whole("rot90: k", k) % 4
        turned = self.flip([(), (b,), (a, b), (a,)][quarter])
        return turned.transpose(a, b) if quarter % 2 else turned

    @operation
    def roll(self, shift: DimLike | Sequence[DimLike], axis: Axis = None) -> Self:
        """Return a copy shifted along axes; elements that leave at the end enter at the front.

        >>> print(cx.tensor((4,), name="x").roll(1, 0).lowering())
        %1 = reshape{shape = [1, 4]} %x : f32[1, 4]
        %2 = expand{shape = [2, 4]} %1 : f32[2, 4]
        %3 = reshape{shape = [8]} %2 : f32[8]
        %4 = slice{start = [3], stop = [7], step = [1]} %3 : f32[4]
        """
        if axis is None:
            return self.flatten().roll(shift, 0)._viewed(self.shape)
        shifts, axes = listed((shift,)), listed((axis,))
        if len(shifts) != len(axes):
            raise ShapeError(
                f"roll: {len(shifts)} shifts are given for {len(axes)} axes of {self.label}",
                hint="give one shift for each axis",
            )
        result = self
        for by, at in zip(shifts, axes, strict=True):
            at, by = self._axis_of("roll", at), self.graph.as_integer(by)
            size = self.shape[at]
            start = -by % maximum(size, 1)
            if start != 0:
                twice = result.expand_dim(at, 2).flatten(at, at + 1)
                result = twice._cut({at: (start, start + size, 1)})
        return result

    # -- what these are made of --------------------------------------------------------------------

    def _tensor_of(self, value: object) -> Self:
        """Return an operand as a tensor of this graph: data becomes an input."""
        x = self._operand(value)
        if isinstance(x, Lazy):
            return x
        return self.constant(x, DType.int64 if isinstance(x, Expr) else scalar_dtype(x), ())

    def _iota(self, size: Dim, dtype: DType = DType.int32) -> Self:
        """Return 0, 1, 2, … up to but not including a size."""
        return self._appended(Iota(dtype, (size,)), (), TensorType(dtype, (size,)))

    def _viewed(self, shape: Shape) -> Self:
        """Return a reshape to a shape that is known to fit, or this tensor if it has that shape."""
        if shape == self.shape:
            return self
        return self._through(Reshape, shape)

    def _along(self, axis: int, shape: Shape) -> Self:
        """Return a vector along one axis of a shape, and repeated along the others."""
        return self._viewed((1,) * axis + self.shape + (1,) * (len(shape) - axis - 1))._stretch(
            shape
        )

    def _cut(self, spans: Mapping[int, Span]) -> Self:
        """Return (start, stop, step) of some axes, all within the axis."""
        full = [spans.get(axis, (0, size, 1)) for axis, size in enumerate(self.shape)]
        shape = list(self.shape)
        for axis, (start, stop, step) in spans.items():
            if never(start >= 0) or never(start <= stop) or never(stop <= shape[axis]):
                raise ShapeError(
                    f"slice: {start} to {stop} is not within axis {axis} of {self.label}",
                    hint=f"0 <= start <= stop <= {shape[axis]} must hold",
                )
            shape[axis] = (stop - start + (step - 1)) // step
        type = self.type.with_shape(tuple(shape))
        if type.shape == self.shape:
            return self
        return self._appended(Slice(*zip(*full, strict=True)), (self.id,), type)

    def _sliced(self, parts: Mapping[int, Part]) -> Self:
        """Return a part, by Python's slices of some axes, or by ranges known to fit."""
        spans: dict[int, Span] = {}
        for axis, part in parts.items():
            if isinstance(part, tuple):
                spans[axis] = part
                continue
            size, step = self.shape[axis], 1
            if part.step is not None and (step := whole("slice: the step", part.step)) == 0:
                raise ShapeError("slice: the step is 0", hint="use a step of 1 or -1")
            ends: list[Dim] = [0, size]
            given = [(k, end) for k, end in enumerate((part.start, part.stop)) if end is not None]
            for k, end in given:
                bound = self._from_front(axis, end)
                bound = bound if step > 0 else size - 1 - bound
                symbolic = isinstance(end, (str, Expr))
                ends[k] = bound if symbolic else minimum(maximum(bound, 0), size)
            if len(given) == 2 and not any(isinstance(end, (str, Expr)) for _, end in given):
                ends[1] = maximum(*ends)
            if given or step != 1:
                spans[axis] = (ends[0], ends[1], step)
        # A negative step counts on the flipped axis.
        back = tuple(sorted(axis for axis, span in spans.items() if span[2] < 0))
        x = self.flip(back)
        return x._cut({axis: (a, b, abs(step)) for axis, (a, b, step) in spans.items()})

    def _position(self, what: str, axis: int, index: DimLike) -> Dim:
        """Return a position on an axis, counted from the front."""
        position, size = self._from_front(axis, index), self.shape[axis]
        if never(position >= 0) or never(position < size):
            raise RangeError(
                f"{what}: there is no position {index} on axis {axis} of {self.label}",
                hint=f"positions go from {-size} to {size - 1}" if size != 0 else "it is empty",
            )
        return position

    def _from_front(self, axis: int, at: DimLike) -> Dim:
        position = self.graph.as_integer(at)
        return self.shape[axis] + position if known(position < 0) else position

    def _dims(self, sizes: Sequence[DimLike]) -> list[Dim]:
        graph = self.graph
        dims = [graph.as_integer(size) for size in sizes]
        return [d if d.__class__ is int and d >= -1 else graph.as_dim(d) for d in dims]

    def _sizes(self, what: str, sizes: Sequence[DimLike], axis: int | None = None) -> Shape:
        """Return sizes with -1 resolved, so that they fit this tensor or one of its axes."""
        dims = self._dims(sizes)
        ours, theirs = list(self.shape) if axis is None else [self.shape[axis]], list(dims)
        for dim in dims:
            if isinstance(dim, Expr) and dim in ours:  # equal symbols need no multiplication
                ours.remove(dim)
                theirs.remove(dim)
        free, total, rest = dims.count(-1), size_of(ours), size_of([d for d in theirs if d != -1])
        part = total // rest if free and rest != 0 else 1
        if free > 1 or part * rest != total or (free and rest == 0):
            total, rest = size_of(self.shape) if axis is None else self.shape[axis], size_of(dims)
            has = f"no single size for -1 makes {tuple_text(dims)} have as many"
            raise ShapeError(
                f"{what}: {'' if axis is None else f'axis {axis} of '}{self.label} has {total} "
                f"elements, and {has if free else f'{tuple_text(dims)} has {rest}'}",
                hint="the element counts must be equal; one dim may be -1 to be worked out",
            )
        return tuple(part if dim == -1 else dim for dim in dims)


# -- arguments -------------------------------------------------------------------------------------


def listed(values: Sequence[V | Sequence[V]]) -> Sequence[V]:
    """Return several arguments, or the single list given instead."""
    is_nested = len(values) == 1 and isinstance(values[0], (tuple, list, range))
    return cast("Sequence[V]", values[0] if is_nested else values)


def limited(what: str, nodes: int) -> None:
    """Raise if an operation would add too many nodes."""
    if nodes > MOST_NODES:
        raise ShapeError(
            f"{what}: it would take {nodes:,} nodes, and {MOST_NODES:,} are the most",
            hint="work along the axis as a whole, with unflatten, a scan or a reduction",
        )


def whole(what: str, value: object, least: int | None = None) -> int:
    """Return a known whole number, or raise if it is not one or below `least`."""
    try:
        number = index(cast("int", value))
    except TypeError:
        hint = "a whole number is needed, and known now"
        raise ShapeError(f"{what} is {value!r}", hint=hint) from None
    if least is not None and number < least:
        raise ShapeError(f"{what} is {number}", hint=f"give a whole number, and at least {least}")
    return number
