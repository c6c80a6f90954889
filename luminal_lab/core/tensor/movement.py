"""Movement of data by views: other orders and shapes, parts, margins, and joining."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial, partialmethod
from itertools import pairwise
from operator import index
from typing import Self, TypeAlias, TypeVar, cast

from luminal_lab.core.builder import DimLike, operation
from luminal_lab.core.dims import Dim, Expr, Shape, known, maximum, minimum
from luminal_lab.core.dtypes import DType, promote_all, scalar_dtype
from luminal_lab.core.op import Scalar, TensorType, never, size_of, tuple_text
from luminal_lab.core.ops import Contiguous, Flip, Iota, Pad, Permute, Reshape, Slice, Window
from luminal_lab.core.tensor.arithmetic import ADD, Arithmetic, Operand
from luminal_lab.core.tensor.base import Axis, Lazy
from luminal_lab.errors import AxisError, DTypeError, GraphError, RangeError, ShapeError

T = TypeVar("T", bound="Movement")
V = TypeVar("V")
End: TypeAlias = DimLike | None
Part: TypeAlias = "slice[End, End, int | None] | Span"
Span: TypeAlias = tuple[Dim, Dim, int]
Pairs: TypeAlias = Sequence[Sequence[DimLike]]


class Movement(Arithmetic):
    """Views and what is made of them.

    A negative bound, a bound beyond the end and a negative step mean what they mean in NumPy. A
    symbolic bound is taken at its word: that it lies on the axis is checked when dims are bound.
    """

    __slots__ = ()

    # -- the order of the axes ---------------------------------------------------------------------

    @operation
    def permute(self, *axes: int | Sequence[int]) -> Self:
        """Return the axes in another order.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2, 3, 4), name="x").permute(2, 0, 1).lowering())
        %1 = permute{axes = [2, 0, 1]} %x : f32[4, 2, 3]
        """
        order = tuple(self.axis_of("permute", axis) for axis in listed(axes))
        return self if order == tuple(range(self.ndim)) else self.apply(Permute(order))

    @operation
    def transpose(self, axis0: int, axis1: int) -> Self:
        """Return two axes swapped.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2, 3, 4), name="x").transpose(0, -1).lowering())
        %1 = permute{axes = [2, 1, 0]} %x : f32[4, 3, 2]
        """
        order = list(range(self.ndim))
        a, b = self.axis_of("transpose", axis0), self.axis_of("transpose", axis1)
        order[a], order[b] = b, a
        return self if a == b else self.apply(Permute(tuple(order)))

    swapaxes = swapdims = transpose

    @operation
    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """Return some axes moved to other places; the others keep their order.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2, 3, 4), name="x").movedim(0, -1).lowering())
        %1 = permute{axes = [1, 2, 0]} %x : f32[3, 4, 2]
        """
        before = [self.axis_of("movedim", axis) for axis in listed((source,))]
        after = [self.axis_of("movedim", axis) for axis in listed((destination,))]
        if not len(set(before)) == len(before) == len(after) == len(set(after)):
            raise AxisError(
                f"movedim: {source} to {destination} does not give each moved axis of "
                f"{self.label} one place",
                hint="name as many places as axes, and each once",
            )
        order = [axis for axis in range(self.ndim) if axis not in before]
        for place, axis in sorted(zip(after, before, strict=True)):
            order.insert(place, axis)
        return self.permute(order)

    moveaxis = movedim

    @property
    def T(self) -> Self:  # noqa: N802  # its name in NumPy and PyTorch
        """The axes in reverse order."""
        return self.permute(range(self.ndim)[::-1])

    @property
    def mT(self) -> Self:  # noqa: N802  # its name in NumPy and PyTorch
        """The last two axes swapped."""
        return self.transpose(-2, -1)

    def t(self) -> Self:
        """Return the axes in reverse order."""
        return self.T

    # -- other shapes ------------------------------------------------------------------------------

    @operation
    def reshape(self, *shape: DimLike | Sequence[DimLike]) -> Self:
        """Return the elements, in row-major order, in another shape; one dim may be -1.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor(("n", 4), name="x").reshape(2, -1).lowering())
        %1 = reshape{shape = [2, 2*n]} %x : f32[2, 2*n]
        """
        return self.viewed(self._sizes("reshape", listed(shape)))

    view = reshape

    @operation
    def reshape_as(self, other: Operand) -> Self:
        """Return the elements in the shape of another tensor."""
        return self.reshape(self.tensor_of(other).shape)

    view_as = reshape_as

    @operation
    def flatten(self, start_axis: int = 0, end_axis: int = -1) -> Self:
        """Return the axes from one to another, both included, as one axis."""
        x = self if self.ndim else self.viewed((1,))
        start, end = x.axis_of("flatten", start_axis), x.axis_of("flatten", end_axis)
        if start > end:
            raise AxisError(
                f"flatten: axis {start_axis} of {self.label} comes after axis {end_axis}",
                hint="the first axis comes first",
            )
        merged = size_of(x.shape[start : end + 1])
        return x.viewed((*x.shape[:start], merged, *x.shape[end + 1 :]))

    ravel = flatten

    @operation
    def unflatten(self, axis: int, sizes: Sequence[DimLike]) -> Self:
        """Return one axis as several of the given sizes, of which one may be -1."""
        axis = self.axis_of("unflatten", axis)
        dims = self._sizes("unflatten", listed((sizes,)), axis)
        return self.viewed((*self.shape[:axis], *dims, *self.shape[axis + 1 :]))

    @operation
    def squeeze(self, axis: Axis = None) -> Self:
        """Return it without the given axes, or without all, as far as they have size 1."""
        axes = self.axes_of("squeeze", axis)
        return self.viewed(tuple(d for k, d in enumerate(self.shape) if k not in axes or d != 1))

    @operation
    def unsqueeze(self, axis: int) -> Self:
        """Return it with a new axis of size 1 before the given one."""
        axis = self.axis_of("unsqueeze", axis, extra=1)
        return self.viewed((*self.shape[:axis], 1, *self.shape[axis:]))

    @operation
    def atleast(self, rank: int) -> Self:
        """Return it with axes of size 1 so that it has at least `rank`, as NumPy places them."""
        first = int(self.ndim < min(rank, 2))
        return self.viewed((1,) * first + self.shape + (1,) * (rank - self.ndim - first))

    atleast_1d = partialmethod(atleast, 1)
    atleast_2d = partialmethod(atleast, 2)
    atleast_3d = partialmethod(atleast, 3)

    @operation
    def contiguous(self) -> Self:
        """Return the same value, written out in row-major order."""
        return self.apply(Contiguous())

    clone = contiguous

    # -- repetition --------------------------------------------------------------------------------

    @operation
    def expand(self, *shape: DimLike | Sequence[DimLike]) -> Self:
        """Return it with axes of size 1 repeated; -1 keeps a size, new axes come first.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((3, 1), name="x").expand(2, -1, 4).lowering())
        %1 = reshape{shape = [1, 3, 1]} %x : f32[1, 3, 1]
        %2 = expand{shape = [2, 3, 4]} %1 : f32[2, 3, 4]
        """
        dims = self._dims(listed(shape))
        new = len(dims) - self.ndim
        pairs = list(zip(self.shape, dims[max(new, 0) :], strict=False))
        if new < 0 or -1 in dims[:new] or any(b not in (a, -1) and a != 1 for a, b in pairs):
            raise ShapeError(
                f"expand: {self.label} cannot become {tuple_text(dims)}",
                hint="only size 1 can be repeated; -1 keeps a size, and new axes come first",
            )
        return self.stretch((*dims[:new], *[a if b == -1 else b for a, b in pairs]))

    broadcast_to = expand

    @operation
    def expand_as(self, other: Operand) -> Self:
        """Return it expanded to the shape of another tensor."""
        return self.expand(self.tensor_of(other).shape)

    @operation
    def expand_dim(self, axis: int, size: DimLike) -> Self:
        """Return it with a new axis along which it is repeated."""
        axis = self.axis_of("expand_dim", axis, extra=1)
        wide = (*self.shape[:axis], self.graph.as_dim(size), *self.shape[axis:])
        return self.unsqueeze(axis).stretch(wide)

    @operation
    def repeat(self, *sizes: DimLike | Sequence[DimLike]) -> Self:
        """Return copies of it side by side, so many along each axis; new axes come first.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2, 3), name="x").repeat(2, 1).lowering())
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
        apart = self.viewed(tuple(dim for _, size in pairs for dim in (1, size)))
        wide = apart.stretch(tuple(dim for pair in pairs for dim in pair))
        return wide.viewed(tuple(count * size for count, size in pairs))

    @operation
    def tile(self, *sizes: DimLike | Sequence[DimLike]) -> Self:
        """Return what `repeat` does; counts for the first axes may be left out."""
        counts = listed(sizes)
        return self.repeat((1,) * (self.ndim - len(counts)) + tuple(counts))

    @operation
    def repeat_interleave(self, repeats: DimLike, axis: int | None = None) -> Self:
        """Return each slice along an axis so many times in a row; without an axis each element."""
        x = self.flatten() if axis is None else self
        axis = x.axis_of("repeat_interleave", 0 if axis is None else axis)
        return x.expand_dim(axis + 1, repeats).flatten(axis, axis + 1)

    # -- parts -------------------------------------------------------------------------------------

    @operation
    def slice(self, ranges: Sequence[Sequence[End]]) -> Self:
        """Return a part, by (start, stop) or (start, stop, step) for each of the first axes.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((3, 4), name="x").slice(((0, 2), (1, None))).lowering())
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
        return self.sliced({axis: slice(*part) for axis, part in enumerate(parts)})

    @operation
    def slice_along(self, axis: int, start: End = None, stop: End = None, step: int = 1) -> Self:
        """Return a range of one axis."""
        return self.sliced({self.axis_of("slice_along", axis): slice(start, stop, step)})

    @operation
    def narrow(self, axis: int, start: DimLike, length: DimLike) -> Self:
        """Return so many positions of one axis, which must all be there."""
        axis = self.axis_of("narrow", axis)
        first = self._place(axis, start)
        return self.cut({axis: (first, first + self.graph.as_dim(length), 1)})

    @operation
    def select(self, axis: int, index: DimLike) -> Self:
        """Return one position of an axis, without the axis.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((3, 4), name="x").select(0, -1).lowering())
        %1 = slice{start = [2, 0], stop = [3, 4], step = [1, 1]} %x : f32[1, 4]
        %2 = reshape{shape = [4]} %1 : f32[4]
        """
        axis = self.axis_of("select", axis)
        place = self.position("select", axis, index)
        return self.cut({axis: (place, place + 1, 1)}).squeeze(axis)

    @operation
    def excise(self, axis: int, spacing: int, size: int) -> Self:
        """Return an axis from which, after each `spacing` elements, `size` are cut out.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((6,), name="x").excise(0, 2, 1).lowering())
        %1 = reshape{shape = [2, 3]} %x : f32[2, 3]
        %2 = slice{start = [0, 0], stop = [2, 2], step = [1, 1]} %1 : f32[2, 2]
        %3 = reshape{shape = [4]} %2 : f32[4]
        """
        axis = self.axis_of("excise", axis)
        keep = whole("excise: the spacing", spacing, 1)
        period, total = keep + whole("excise: the size", size, 0), self.shape[axis]
        count = (total + period - 1) // period
        rows = self.pad_along(axis, 0, count * period - total).unflatten(axis, (count, period))
        kept = rows.narrow(axis + 1, 0, keep).flatten(axis, axis + 1)
        return kept.narrow(axis, 0, total // period * keep + minimum(total % period, keep))

    def __iter__(self) -> Iterator[Self]:
        return map(partial(self.select, 0), range(len(self)))

    @operation
    def unbind(self, axis: int = 0) -> tuple[Self, ...]:
        """Return all positions of an axis, each without the axis."""
        size = self.shape[self.axis_of("unbind", axis)]
        count = whole(f"unbind: the size of axis {axis} of {self.label}", size)
        return tuple(self.select(axis, k) for k in range(count))

    @operation
    def split(self, size: DimLike | Sequence[DimLike], axis: int = 0) -> tuple[Self, ...]:
        """Return pieces of one size, the last perhaps smaller, or of the sizes in a list."""
        axis = self.axis_of("split", axis)
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
            sizes = [step] * (count - 1) + [total - step * (count - 1)] if count else [0]
        if sum(sizes) != total:
            raise ShapeError(
                f"split: the sizes {tuple_text(sizes)} make {sum(sizes)}, and axis {axis} of "
                f"{self.label} has {total}",
                hint="the sizes must add up to that of the axis",
            )
        starts = [sum(sizes[:k]) for k in range(len(sizes))]
        return tuple(self.narrow(axis, a, n) for a, n in zip(starts, sizes, strict=True))

    @operation
    def chunk(self, chunks: int, axis: int = 0) -> tuple[Self, ...]:
        """Return at most so many pieces of equal size, the last perhaps smaller."""
        axis, count = self.axis_of("chunk", axis), whole("chunk: the number of pieces", chunks, 1)
        total = self.shape[axis]
        part = total // count
        if total % count != 0:
            return self.split(-(-total // count), axis)
        if total - part * (count - 1) == part:
            return self.split([part] * count, axis)
        # The size of a slice is a difference; that of an unflattened axis is simple.
        return self.unflatten(axis, (count, part)).unbind(axis)

    @operation
    def tensor_split(self, sections: int | Sequence[End], axis: int = 0) -> tuple[Self, ...]:
        """Return so many pieces, the first larger by one if need be; or cut at places."""
        if isinstance(sections, (tuple, list)):
            ends = pairwise([0, *sections, None])
            return tuple(self.slice_along(axis, start, stop) for start, stop in ends)
        count = whole("tensor_split: the number of pieces", sections, 1)
        total = self.shape[self.axis_of("tensor_split", axis)]
        if total % count == 0:
            return self.chunk(count, axis)
        return self.split([(total + count - 1 - k) // count for k in range(count)], axis)

    @operation
    def unfold(self, axis: int, size: DimLike, step: int = 1, dilation: int = 1) -> Self:
        """Return windows along an axis, which counts them; a new last axis runs within each.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2, 9), name="x").unfold(1, 3, 2).lowering())
        %1 = window{axis = 1, size = 3, stride = 2, dilation = 1} %x : f32[2, 4, 3]
        """
        axis, span = self.axis_of("unfold", axis), self.graph.as_dim(size)
        step, dilation = whole("unfold: the step", step, 1), whole("unfold: dilation", dilation, 1)
        return self.apply(Window(axis, span, step, dilation))

    def pool_last_dim(self, kernel: DimLike, stride: int = 1, dilation: int = 1) -> Self:
        """Return windows along the last axis: what pooling reduces, and convolution multiplies."""
        return self.unfold(-1, kernel, stride, dilation)

    # -- turning -----------------------------------------------------------------------------------

    @operation
    def flip(self, axis: Axis = None, *more: int) -> Self:
        """Return it with some axes, or all, read from back to front."""
        axes = self.axes_of("flip", axis if axis is None else (*listed((axis,)), *more))
        return self.apply(Flip(axes)) if axes else self

    flipud, fliplr = partialmethod(flip, 0), partialmethod(flip, 1)

    @operation
    def rot90(self, k: int = 1, axis: Sequence[int] = (0, 1)) -> Self:
        """Return it turned by k right angles, from the first given axis towards the second."""
        if len(pair := listed((axis,))) != 2 or len(self.axes_of("rot90", axis)) != 2:
            raise AxisError(f"rot90: {axis!r} are not two axes of {self.label}", hint="try (0, 1)")
        a, b = (self.axis_of("rot90", one) for one in pair)
        quarter = whole("rot90: k", k) % 4
        turned = self.flip([(), (b,), (a, b), (a,)][quarter])
        return turned.transpose(a, b) if quarter % 2 else turned

    @operation
    def roll(self, shift: DimLike | Sequence[DimLike], axis: Axis = None) -> Self:
        """Return it shifted along axes, what falls out at the end coming in at the front.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((4,), name="x").roll(1, 0).lowering())
        %1 = reshape{shape = [1, 4]} %x : f32[1, 4]
        %2 = expand{shape = [2, 4]} %1 : f32[2, 4]
        %3 = reshape{shape = [8]} %2 : f32[8]
        %4 = slice{start = [3], stop = [7], step = [1]} %3 : f32[4]
        """
        if axis is None:
            return self.flatten().roll(shift, 0).viewed(self.shape)
        shifts, axes = listed((shift,)), listed((axis,))
        if len(shifts) != len(axes):
            raise ShapeError(
                f"roll: {len(shifts)} shifts are given for {len(axes)} axes of {self.label}",
                hint="give one shift for each axis",
            )
        result = self
        for by, at in zip(shifts, axes, strict=True):
            at, by = self.axis_of("roll", at), self.graph.as_integer(by)
            size = self.shape[at]
            start = 0 if size == 0 else -by % size
            if start != 0:
                twice = result.expand_dim(at, 2).flatten(at, at + 1)
                result = twice.cut({at: (start, start + size, 1)})
        return result

    # -- margins -----------------------------------------------------------------------------------

    @operation
    def pad(self, pairs: Pairs, value: Scalar = 0, mode: str = "constant") -> Self:
        """Return it with margins, (before, after) for each axis.

        They hold a value, or by the mode "reflect" what is mirrored at the edge, by "replicate"
        the edge itself, by "circular" what is at the other end.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((3,), name="x").pad(((1, 2),), value=9).lowering())
        %1 = pad{before = [1], after = [2]} %x : f32[6]
        %2 = constant{value = true} : bool[3]
        %3 = pad{before = [1], after = [2]} %2 : bool[6]
        %4 = constant{value = 9.0} : f32[6]
        %5 = where %3, %1, %4 : f32[6]
        """
        rows = [list(listed((row,))) for row in listed((pairs,))]
        if len(rows) != self.ndim or any(len(row) != 2 for row in rows):
            raise ShapeError(
                f"pad: {pairs!r} is not a pair (before, after) for each axis of {self.label}",
                hint="as in x.pad(((0, 0), (1, 1)))",
            )
        margins = [[self.graph.as_integer(end) for end in row] for row in rows]
        if mode != "constant":
            result = self
            for axis, (before, after) in enumerate(margins):
                result = result._edged(mode, axis, before, after)
            return result
        if all(row == [0, 0] for row in margins):
            return self
        number = self.operand(value)
        if isinstance(number, Lazy):
            raise DTypeError(f"pad: {value!r} is not a number", hint="pad with 0 and use where")
        before, after = zip(*margins, strict=True)
        op = Pad(before, after)
        padded = self.apply(op)
        if number == 0 and (isinstance(number, int) or str(number) == "0.0"):
            return padded
        inside = self.full_like(True, DType.bool_).apply(op)
        return inside.where(padded, padded.full_like(number))

    def pad_along(self, axis: int, before: DimLike, after: DimLike, value: Scalar = 0) -> Self:
        """Return it with margins on one axis."""
        pairs: list[tuple[DimLike, DimLike]] = [(0, 0)] * self.ndim
        pairs[self.axis_of("pad_along", axis)] = (before, after)
        return self.pad(pairs, value)

    def _edged(self, mode: str, axis: int, before: Dim, after: Dim) -> Self:
        size = self.shape[axis]
        parts: dict[str, tuple[Dim, tuple[Dim, Dim], tuple[Dim, Dim]]] = {
            "reflect": (size - 1, (1, before + 1), (size - 1 - after, size - 1)),
            "circular": (size, (size - before, size), (0, after)),
            "replicate": (maximum(before, after) if size != 0 else 0, (0, 1), (size - 1, size)),
        }
        if mode not in parts:
            raise ShapeError(
                f"pad: there is no mode {mode!r}",
                hint="one of 'constant', 'reflect', 'replicate', 'circular'",
            )
        limit, *ends = parts[mode]
        if any(never(n >= 0) or never(n <= limit) for n in (before, after)):
            raise ShapeError(
                f"pad: ({before}, {after}) on axis {axis} of {self.label} is not for the mode "
                f"{mode!r}",
                hint=f"each side can be 0 to {limit}" if mode != "replicate" else "0 or more, of 1",
            )
        if before == after == 0:
            return self
        head, tail = (self.cut({axis: (start, stop, 1)}) for start, stop in ends)
        if mode == "reflect":
            head, tail = head.flip(axis), tail.flip(axis)
        if mode == "replicate":
            head, tail = (
                part.stretch(self.type.with_axis(axis, n).shape)
                for part, n in ((head, before), (tail, after))
            )
        return self.join("pad", [head, self, tail], axis)

    # -- joining -----------------------------------------------------------------------------------

    @operation
    def join(self, what: str, tensors: Sequence[Operand], axis: int) -> Self:
        """Return tensors one after another along an axis, or, to "stack" them, along a new one.

        Every value stays as it is: padded parts are added up where that is exact, and chosen by
        position in floats, where 0 + -0 would lose the sign.
        """
        parts = [self.tensor_of(tensor) for tensor in tensors]
        first, new = parts[0], what == "stack"
        axis = first.axis_of(what, axis, extra=new)
        for part in parts[1:]:
            sizes = enumerate(zip(part.shape, first.shape, strict=False))
            if part.ndim != first.ndim or any(a != b for k, (a, b) in sizes if new or k != axis):
                raise ShapeError(
                    f"{what}: the shapes must be equal{'' if new else f' apart from axis {axis}'}, "
                    f"but they are {first.label} and {part.label}",
                    hint="expand, pad or slice one of them first",
                )
        dtype = promote_all([(part.dtype, part.ndim) for part in parts])
        parts = [(part.unsqueeze(axis) if new else part).cast(dtype) for part in parts]
        parts = [part for part in parts if part.shape[axis] != 0] or parts[:1]
        total, at = sum(part.shape[axis] for part in parts), parts[0].shape[axis]
        result = parts[0].pad_along(axis, 0, total - at)
        for part in parts[1:]:
            padded = part.pad_along(axis, at, total - at - part.shape[axis])
            if dtype.is_float:
                inside = self.constant(True, DType.bool_, part.type.with_axis(axis, at).shape)
                result = inside.pad_along(axis, 0, total - at).where(result, padded)
            else:
                result = result.apply(ADD, padded)
            at = at + part.shape[axis]
        return result

    def concat(self, others: Operand | Sequence[Operand], axis: int = 0) -> Self:
        """Return this tensor and others one after another along an axis."""
        return self.join("concat", [self, *_several(others)], axis)

    cat = concat_along = concat

    def stack(self, others: Operand | Sequence[Operand], axis: int = 0) -> Self:
        """Return this tensor and others along a new axis."""
        return self.join("stack", [self, *_several(others)], axis)

    @operation
    def pile(self, tensors: Sequence[Operand], rank: int, axis: int) -> Self:
        """Return tensors, made to have at least a rank, one after another along an axis."""
        parts = [self.tensor_of(tensor).atleast(rank) for tensor in tensors]
        return self.join("concat", parts, min(axis, parts[0].ndim - 1))

    @operation
    def mesh(self, tensors: Sequence[Operand], indexing: str) -> tuple[Self, ...]:
        """Return each list of coordinates spread over the grid that they all span."""
        lines = [self.tensor_of(tensor).flatten() for tensor in tensors]
        shape = tuple(line.shape[0] for line in lines)
        meshes = [line.along(axis, shape) for axis, line in enumerate(lines)]
        swap = indexing == "xy" and len(shape) > 1
        return tuple(mesh.transpose(0, 1) if swap else mesh for mesh in meshes)

    # -- matrices ----------------------------------------------------------------------------------

    @operation
    def tril(self, k: DimLike = 0) -> Self:
        """Return zeros above the k-th diagonal of the last two axes.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2, 3)).tril().op_counts()
        {'add': 1, 'constant': 2, 'expand': 2, 'iota': 2, 'less_than': 1, 'reshape': 2, 'where': 1}
        """
        rows, columns = self._grid("tril")
        return (columns < rows + (self.graph.as_integer(k) + 1)).where(self, self.full_like(0))

    @operation
    def triu(self, k: DimLike = 0) -> Self:
        """Return zeros below the k-th diagonal of the last two axes."""
        rows, columns = self._grid("triu")
        return (rows + (self.graph.as_integer(k) - 1) < columns).where(self, self.full_like(0))

    def _grid(self, what: str) -> tuple[Self, Self]:
        rows, columns = (self.shape[self.axis_of(what, axis)] for axis in (-2, -1))
        return self.iota(rows).unsqueeze(1), self.iota(columns)

    @operation
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """Return the diagonal of two axes, or one beside it, as the last axis.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2, 2), name="x").diagonal().lowering())
        %1 = reshape{shape = [4]} %x : f32[4]
        %2 = pad{before = [0], after = [2]} %1 : f32[6]
        %3 = reshape{shape = [2, 3]} %2 : f32[2, 3]
        %4 = slice{start = [0, 0], stop = [2, 1], step = [1, 1]} %3 : f32[2, 1]
        %5 = reshape{shape = [2]} %4 : f32[2]
        """
        self.axes_of("diagonal", (axis1, axis2))
        x, k = self.movedim((axis1, axis2), (-2, -1)), whole("diagonal: the offset", offset)
        first = minimum(max(-k, 0), x.shape[-2]), minimum(max(k, 0), x.shape[-1])
        size = minimum(x.shape[-2] - first[0], x.shape[-1] - first[1])
        x = x.narrow(-2, first[0], size).narrow(-1, first[1], size).flatten(-2)
        # One more column turns the diagonal into the first column.
        return x.pad_along(-1, 0, size).unflatten(-1, (size, size + 1)).select(-1, 0)

    @operation
    def diag_embed(self, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Self:
        """Return matrices, in two new axes, with the last axis on the diagonal or beside it."""
        size = self.shape[self.axis_of("diag_embed", -1)]
        k = whole("diag_embed: the offset", offset)
        flat = self.unsqueeze(-1).pad_along(-1, 0, size).flatten(-2).narrow(-1, 0, size * size)
        square = flat.unflatten(-1, (size, size))
        square = square.pad_along(-2, max(-k, 0), max(k, 0)).pad_along(-1, max(k, 0), max(-k, 0))
        square.axes_of("diag_embed", (axis1, axis2))
        return square.movedim((-2, -1), (axis1, axis2))

    @operation
    def diag(self, k: int = 0) -> Self:
        """Return the matrix with this diagonal, or the diagonal of this matrix."""
        if self.ndim not in (1, 2):
            raise ShapeError(
                f"diag: {self.label} has {self.ndim} axes, and must have one or two",
                hint="use diagonal or diag_embed",
            )
        return self.diag_embed(k) if self.ndim == 1 else self.diagonal(k)

    # -- images ------------------------------------------------------------------------------------

    @operation
    def pixel_shuffle(self, factor: int) -> Self:
        """Return (…, c·r², h, w) as (…, c, h·r, w·r): channels spread over the image."""
        r = whole("pixel_shuffle: the factor", factor, 1)
        x = self.unflatten(-3, (-1, r, r))
        b = x.ndim - 5
        x = x.permute(*range(b), b, b + 3, b + 1, b + 4, b + 2)
        return x.viewed((*x.shape[: b + 1], self.shape[-2] * r, self.shape[-1] * r))

    @operation
    def pixel_unshuffle(self, factor: int) -> Self:
        """Return (…, c, h·r, w·r) as (…, c·r², h, w): the image gathered into channels."""
        r = whole("pixel_unshuffle: the factor", factor, 1)
        x = self.unflatten(-1, (-1, r)).unflatten(-3, (-1, r))
        b = x.ndim - 5
        return x.permute(*range(b), b, b + 2, b + 4, b + 1, b + 3).flatten(b, b + 2)

    @operation
    def channel_shuffle(self, groups: int) -> Self:
        """Return the channels, on axis 1, in turn from each group."""
        count = whole("channel_shuffle: the number of groups", groups, 1)
        return self.unflatten(1, (count, -1)).transpose(1, 2).flatten(1, 2)

    # -- what these are made of --------------------------------------------------------------------

    def tensor_of(self, value: object) -> Self:
        """Return an operand as a tensor of this graph: data becomes an input."""
        x = self.operand(value)
        if isinstance(x, Lazy):
            return x
        return self.constant(x, DType.int64 if isinstance(x, Expr) else scalar_dtype(x), ())

    def iota(self, size: Dim, dtype: DType = DType.int32) -> Self:
        """Return 0, 1, 2, … up to but not including a size."""
        return self.made(Iota(dtype, (size,)), (), TensorType(dtype, (size,)))

    def viewed(self, shape: Shape) -> Self:
        """Return a reshape to a shape that is known to fit, or this tensor where it has it."""
        if shape == self.shape:
            return self
        return self.made(Reshape(shape), (self.id,), self.type.with_shape(shape))

    def along(self, axis: int, shape: Shape) -> Self:
        """Return a vector along one axis of a shape, and repeated along the others."""
        return self.viewed((1,) * axis + self.shape + (1,) * (len(shape) - axis - 1)).stretch(shape)

    def cut(self, spans: Mapping[int, Span]) -> Self:
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
        return self.made(Slice(*zip(*full, strict=True)), (self.id,), type)

    def sliced(self, parts: Mapping[int, Part]) -> Self:
        """Return a part, by Python's slices of some axes, or by what is known to lie on them."""
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
                place = self._place(axis, end)
                place = place if step > 0 else size - 1 - place
                symbolic = isinstance(end, (str, Expr))
                ends[k] = place if symbolic else minimum(maximum(place, 0), size)
            if len(given) == 2 and not any(isinstance(end, (str, Expr)) for _, end in given):
                ends[1] = maximum(*ends)
            if given or step != 1:
                spans[axis] = (ends[0], ends[1], step)
        # From the back, the same is counted on the flipped axis.
        back = tuple(sorted(axis for axis, span in spans.items() if span[2] < 0))
        x = self.flip(back)
        return x.cut({axis: (a, b, abs(step)) for axis, (a, b, step) in spans.items()})

    def position(self, what: str, axis: int, index: DimLike) -> Dim:
        """Return a position on an axis, counted from the front."""
        place, size = self._place(axis, index), self.shape[axis]
        if never(place >= 0) or never(place < size):
            raise RangeError(
                f"{what}: there is no position {index} on axis {axis} of {self.label}",
                hint=f"positions go from {-size} to {size - 1}" if size != 0 else "it is empty",
            )
        return place

    def _place(self, axis: int, at: DimLike) -> Dim:
        place = self.graph.as_integer(at)
        return self.shape[axis] + place if known(place < 0) else place

    def _dims(self, sizes: Sequence[DimLike]) -> list[Dim]:
        dims = [self.graph.as_integer(size) for size in sizes]
        return [dim if dim == -1 else self.graph.as_dim(dim) for dim in dims]

    def _sizes(self, what: str, sizes: Sequence[DimLike], axis: int | None = None) -> Shape:
        """Return sizes with -1 worked out, so that they make up this tensor or one axis of it."""
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


# -- arguments and functions of lists --------------------------------------------------------------


def listed(values: Sequence[V | Sequence[V]]) -> Sequence[V]:
    """Return several arguments, or the one list that stands for them."""
    one = len(values) == 1 and isinstance(values[0], (tuple, list, range))
    return cast("Sequence[V]", values[0] if one else values)


def whole(what: str, value: object, least: int | None = None) -> int:
    """Return a number that must be whole, known, and perhaps not below some other."""
    try:
        number = index(cast("int", value))
    except TypeError:
        hint = "a whole number is needed, and known now"
        raise ShapeError(f"{what} is {value!r}", hint=hint) from None
    if least is not None and number < least:
        raise ShapeError(f"{what} is {number}", hint=f"give a whole number, and at least {least}")
    return number


def _several(others: Operand | Sequence[Operand]) -> Sequence[Operand]:
    return others if isinstance(others, (tuple, list)) else [others]  # pyright: ignore


def lead(what: str, tensors: Sequence[T]) -> T:
    """Return the first tensor of a list, whose graph the others must belong to."""
    if isinstance(tensors, (tuple, list)):
        for tensor in tensors:
            if isinstance(tensor, Lazy):  # pyright: ignore[reportUnnecessaryIsInstance]  # or data
                return tensor
    raise GraphError(f"{what}: there is no tensor in {tensors!r}", hint="give a list of tensors")


def concat(tensors: Sequence[T], axis: int = 0, *, dim: int | None = None) -> T:
    """Return tensors one after another along an axis.

    >>> from luminal_lab.session import Graph
    >>> cx = Graph()
    >>> a, b = cx.tensor((2,), "int32", "a"), cx.tensor((3,), "int32", "b")
    >>> print(concat([a, b]).lowering())
    %2 = pad{before = [0], after = [3]} %a : i32[5]
    %3 = pad{before = [2], after = [0]} %b : i32[5]
    %4 = add %2, %3 : i32[5]
    """
    return lead("concat", tensors).join("concat", tensors, axis if dim is None else dim)


def stack(tensors: Sequence[T], axis: int = 0, *, dim: int | None = None) -> T:
    """Return tensors of one shape along a new axis.

    >>> from luminal_lab.session import Graph
    >>> cx = Graph()
    >>> stack([cx.tensor((2,)), cx.tensor((2,))]).op_counts()
    {'constant': 1, 'pad': 3, 'reshape': 2, 'where': 1}
    """
    return lead("stack", tensors).join("stack", tensors, axis if dim is None else dim)


def hstack(tensors: Sequence[T]) -> T:
    """Return tensors side by side: along the second axis, or the first if there is just one."""
    return lead("hstack", tensors).pile(tensors, 1, 1)


def vstack(tensors: Sequence[T]) -> T:
    """Return tensors as rows, one below another."""
    return lead("vstack", tensors).pile(tensors, 2, 0)


def dstack(tensors: Sequence[T]) -> T:
    """Return tensors one behind another, along the third axis."""
    return lead("dstack", tensors).pile(tensors, 3, 2)


def meshgrid(*tensors: T | Sequence[T], indexing: str = "ij") -> tuple[T, ...]:
    """Return the coordinates of all points of the grid that lists of coordinates span."""
    return lead("meshgrid", listed(tensors)).mesh(listed(tensors), indexing)


cat = concat
