"""Margins, joining, and uses of both: triangular matrices, diagonals, image blocks."""

from __future__ import annotations

# The functions of this file use private members of its class.
# pyright: reportPrivateUsage=false
from collections.abc import Sequence
from typing import Self, TypeVar

from luminal_lab.core.builder import DimLike
from luminal_lab.core.dims import Dim, maximum, minimum
from luminal_lab.core.dtypes import DType, promote_all
from luminal_lab.core.op import Scalar, never, tuple_text
from luminal_lab.core.ops import Pad
from luminal_lab.core.origin import here
from luminal_lab.errors import ArgumentError, DTypeError, GraphError, ShapeError
from luminal_lab.tensor.arguments import told
from luminal_lab.tensor.arithmetic import ADD, Operand
from luminal_lab.tensor.lazy import Lazy, broadcast
from luminal_lab.tensor.movement import Movement, Pairs, listed, whole
from luminal_lab.tensor.operation import operation

T = TypeVar("T", bound="Joining")
EDGES = ("reflect", "replicate", "circular")


class Joining(Movement):
    """Operations that place values beside others."""

    __slots__ = ()

    # -- margins -----------------------------------------------------------------------------------

    @operation
    def pad(self, pairs: Pairs, value: Scalar = 0, mode: str = "constant") -> Self:
        """Return a copy with margins, (before, after) for each axis.

        They hold a value, or in the mode "reflect" values mirrored at the edge, in "replicate"
        the edge itself, in "circular" values from the other end. A margin below 0 is cut off.

        >>> print(cx.tensor((3,), name="x").pad(((1, 2),), value=9).lowering())
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
        if any(isinstance(end, int) and end < 0 for row in margins for end in row):
            grown = [[maximum(end, 0) for end in row] for row in margins]
            if mode == "circular":  # what comes from the other end is what is left there
                return self._cropped(margins).pad(grown, value, mode)
            return self.pad(grown, value, mode)._cropped(margins)
        if mode != "constant":
            result = self
            for axis, (before, after) in enumerate(margins):
                if mode not in EDGES or (before, after) != (0, 0):
                    result = result._edged(mode, axis, before, after)
            return result
        if all(row == [0, 0] for row in margins):
            return self
        number = self._operand(value)
        if isinstance(number, Lazy):
            raise DTypeError(f"pad: {value!r} is not a number", hint="pad with 0 and use where")
        before, after = zip(*margins, strict=True)
        op = Pad(before, after)
        padded = self._apply(op)
        if number == 0 and (isinstance(number, int) or str(number) == "0.0"):
            return padded
        inside = self.full_like(True, DType.bool_)._apply(op)
        return inside.where(padded, padded.full_like(number))

    def _cropped(self, margins: Sequence[Sequence[Dim]]) -> Self:
        """Return this tensor without the margins that are below 0."""
        spans: dict[int, tuple[Dim, Dim, int]] = {}
        for axis, (before, after) in enumerate(margins):
            first, last = (
                -end if isinstance(end, int) and end < 0 else 0 for end in (before, after)
            )
            if never(first + last <= self.shape[axis]):
                raise ShapeError(
                    f"pad: ({before}, {after}) would cut more off axis {axis} of {self.label} than "
                    f"its {self.shape[axis]}",
                    hint="cut off less",
                )
            spans[axis] = (first, self.shape[axis] - last, 1)
        return self._cut(spans)

    @operation
    def pad_along(self, axis: int, before: DimLike, after: DimLike, value: Scalar = 0) -> Self:
        """Return a copy with margins on one axis.

        >>> y = cx.arange(1, 4).pad_along(0, 1, 2, value=9).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [9, 1, 2, 3, 9, 9]
        """
        pairs: list[tuple[DimLike, DimLike]] = [(0, 0)] * self.ndim
        pairs[self._axis_of("pad_along", axis)] = (before, after)
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
        head, tail = (self._cut({axis: (start, stop, 1)}) for start, stop in ends)
        if mode == "reflect":
            head, tail = head.flip(axis), tail.flip(axis)
        if mode == "replicate":
            head, tail = (
                part._stretch(self.type.with_axis(axis, n).shape)
                for part, n in ((head, before), (tail, after))
            )
        return self.join("pad", [head, self, tail], axis)

    @operation
    def excise(self, axis: int, spacing: int, size: int) -> Self:
        """Return a copy with `size` elements of an axis cut out after each `spacing` elements.

        >>> print(cx.tensor((6,), name="x").excise(0, 2, 1).lowering())
        %1 = reshape{shape = [2, 3]} %x : f32[2, 3]
        %2 = slice{start = [0, 0], stop = [2, 2], step = [1, 1]} %1 : f32[2, 2]
        %3 = reshape{shape = [4]} %2 : f32[4]
        """
        axis = self._axis_of("excise", axis)
        keep = whole("excise: the spacing", spacing, 1)
        period, total = keep + whole("excise: the size", size, 0), self.shape[axis]
        count = (total + period - 1) // period
        rows = self.pad_along(axis, 0, count * period - total).unflatten(axis, (count, period))
        kept = rows.narrow(axis + 1, 0, keep).flatten(axis, axis + 1)
        return kept.narrow(axis, 0, total // period * keep + minimum(total % period, keep))

    # -- joining -----------------------------------------------------------------------------------

    @operation
    def join(self, what: str, tensors: Sequence[Operand], axis: int) -> Self:
        """Return tensors one after another along an axis, or, to "stack" them, along a new one.

        Values stay unchanged: padded parts are added up where that is exact, and chosen by
        position in floats, where 0 + -0 would lose the sign.

        >>> x = cx.arange(2)
        >>> x.join("concat", [x, x], 0).shape, x.join("stack", [x, x], 0).shape
        ((4,), (2, 2))
        """
        parts = [self._tensor_of(tensor) for tensor in tensors]
        dtype = promote_all([(part.dtype, part.ndim) for part in parts])
        if what == "concat":  # as in PyTorch, (0,) is nothing beside what has more axes
            parts = [part for part in parts if part.shape != (0,)] or parts
        first, new = parts[0], what == "stack"
        axis = first._axis_of(what, axis, extra=new)
        for part in parts[1:]:
            sizes = enumerate(zip(part.shape, first.shape, strict=False))
            if part.ndim != first.ndim or any(a != b for k, (a, b) in sizes if new or k != axis):
                raise ShapeError(
                    f"{what}: the shapes must be equal{'' if new else f' apart from axis {axis}'}, "
                    f"but they are {first.label} and {part.label}",
                    hint="expand, pad or slice one of them first",
                )
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
                result = result._apply(ADD, padded)
            at = at + part.shape[axis]
        return result

    def concat(self, others: Operand | Sequence[Operand], axis: int = 0) -> Self:
        """Return this tensor and others one after another along an axis.

        >>> x = cx.arange(3)
        >>> y = x.concat([x * 10, [7, 8]]).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0, 1, 2, 0, 10, 20, 7, 8]
        """
        return self.join("concat", [self, *_several(others)], axis)

    cat = concat_along = concat

    def stack(self, others: Operand | Sequence[Operand], axis: int = 0) -> Self:
        """Return this tensor and others along a new axis.

        >>> x = cx.arange(3)
        >>> y = x.stack(x * 10, axis=1).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[0, 0], [1, 10], [2, 20]]
        """
        return self.join("stack", [self, *_several(others)], axis)

    @operation
    def _pile(self, what: str, tensors: Sequence[Operand], rank: int, axis: int) -> Self:
        """Return tensors of at least a given rank, one after another along an axis."""
        parts = [self._tensor_of(tensor).atleast(rank) for tensor in tensors]
        return self.join(what, parts, min(axis, parts[0].ndim - 1))

    @operation
    def _mesh(self, tensors: Sequence[Operand], indexing: str) -> tuple[Self, ...]:
        """Return each list of coordinates expanded over the grid that they span."""
        lines = [self._tensor_of(tensor).flatten() for tensor in tensors]
        shape = tuple(line.shape[0] for line in lines)
        meshes = [line._along(axis, shape) for axis, line in enumerate(lines)]
        swap = indexing == "xy" and len(shape) > 1
        return tuple(mesh.transpose(0, 1) if swap else mesh for mesh in meshes)

    # -- matrices ----------------------------------------------------------------------------------

    @operation
    def tril(self, diagonal: DimLike = 0) -> Self:
        """Return a copy with zeros above a diagonal of the last two axes.

        >>> cx.tensor((2, 3)).tril().op_counts()
        {'add': 1, 'constant': 2, 'expand': 2, 'iota': 2, 'less_than': 1, 'reshape': 2, 'where': 1}
        """
        rows, columns = self._grid("tril")
        return (columns < rows + (self.graph.as_integer(diagonal) + 1)).where(
            self, self.full_like(0)
        )

    @operation
    def triu(self, diagonal: DimLike = 0) -> Self:
        """Return a copy with zeros below a diagonal of the last two axes.

        >>> y = cx.ones((3, 3), "int32").triu(1).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
        """
        rows, columns = self._grid("triu")
        return (rows + (self.graph.as_integer(diagonal) - 1) < columns).where(
            self, self.full_like(0)
        )

    def _grid(self, what: str) -> tuple[Self, Self]:
        rows, columns = (self.shape[self._axis_of(what, axis)] for axis in (-2, -1))
        return self._iota(rows).unsqueeze(1), self._iota(columns)

    @operation
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """Return the diagonal of two axes, or one beside it, as the last axis.

        >>> print(cx.tensor((2, 2), name="x").diagonal().lowering())
        %1 = reshape{shape = [4]} %x : f32[4]
        %2 = pad{before = [0], after = [2]} %1 : f32[6]
        %3 = reshape{shape = [2, 3]} %2 : f32[2, 3]
        %4 = slice{start = [0, 0], stop = [2, 1], step = [1, 1]} %3 : f32[2, 1]
        %5 = reshape{shape = [2]} %4 : f32[2]
        """
        self._axes_of("diagonal", (axis1, axis2))
        x, k = self.movedim((axis1, axis2), (-2, -1)), whole("diagonal: the offset", offset)
        first = minimum(max(-k, 0), x.shape[-2]), minimum(max(k, 0), x.shape[-1])
        size = minimum(x.shape[-2] - first[0], x.shape[-1] - first[1])
        x = x.narrow(-2, first[0], size).narrow(-1, first[1], size).flatten(-2)
        # One more column turns the diagonal into the first column.
        return x.pad_along(-1, 0, size).unflatten(-1, (size, size + 1)).select(-1, 0)

    @operation
    def diag_embed(self, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Self:
        """Return matrices in two new axes, with the last axis on a diagonal.

        >>> y = cx.arange(4).reshape(2, 2).diag_embed().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[[0, 0], [0, 1]], [[2, 0], [0, 3]]]
        """
        size = self.shape[self._axis_of("diag_embed", -1)]
        k = whole("diag_embed: the offset", offset)
        flat = self.unsqueeze(-1).pad_along(-1, 0, size).flatten(-2).narrow(-1, 0, size * size)
        square = flat.unflatten(-1, (size, size))
        square = square.pad_along(-2, max(-k, 0), max(k, 0)).pad_along(-1, max(k, 0), max(-k, 0))
        square._axes_of("diag_embed", (axis1, axis2))
        return square.movedim((-2, -1), (axis1, axis2))

    @operation
    def diag(self, k: int = 0) -> Self:
        """Return the matrix with this diagonal, or the diagonal of this matrix.

        >>> x = cx.arange(9).reshape(3, 3)
        >>> y = x.diag().concat(x.diag(1)).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0, 4, 8, 1, 5]
        """
        if self.ndim not in (1, 2):
            raise ShapeError(
                f"diag: {self.label} has {self.ndim} axes, and must have one or two",
                hint="use diagonal or diag_embed",
            )
        return self.diag_embed(k) if self.ndim == 1 else self.diagonal(k)

    @operation
    def diagflat(self, offset: int = 0) -> Self:
        """Return the matrix with all elements on a diagonal.

        >>> y = cx.arange(1, 3).diagflat().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[1, 0], [0, 2]]
        """
        return self.flatten().diag_embed(offset)

    # -- writing where the place is known ----------------------------------------------------------

    def _written(self, part: Self, inside: Self) -> Self:
        """Return this tensor with another one of its shape where `inside` holds."""
        return inside.where(part.cast(self.dtype), self)

    @operation
    def select_scatter(self, src: Operand, axis: int, index: DimLike) -> Self:
        """Return a copy with one position of an axis replaced.

        >>> y = cx.zeros((2, 2), "int32").select_scatter([5, 6], 0, 1).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[0, 0], [5, 6]]
        """
        axis = self._axis_of("select_scatter", axis)
        at = self._position("select_scatter", axis, index)
        row = (
            self._tensor_of(src)
            .unsqueeze(axis)
            ._stretch_to("select_scatter", self.type.with_axis(axis, 1).shape)
        )
        here = (
            self._iota(self.shape[axis])
            ._along(axis, self.shape)
            .eq(self.constant(at, DType.int32, ()))
        )
        return self._written(row._stretch(self.shape), here)

    @operation
    def slice_scatter(
        self,
        src: Operand,
        axis: int = 0,
        start: DimLike | None = None,
        end: DimLike | None = None,
        step: int = 1,
    ) -> Self:
        """Return a copy with a range of an axis replaced.

        >>> y = cx.zeros((6,), "int32").slice_scatter([5, 6], start=1, step=3).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0, 5, 0, 0, 6, 0]
        """
        along, by = self._axis_of("slice_scatter", axis), whole("slice_scatter: step", step, 1)
        size = self.shape[along]
        ends = [
            minimum(maximum(self._from_front(along, at), 0), size)
            for at in (0 if start is None else start, size if end is None else end)
        ]
        first, count = ends[0], (maximum(ends[1] - ends[0], 0) + by - 1) // by
        rows = self._tensor_of(src)._stretch_to(
            "slice_scatter", self.type.with_axis(along, count).shape
        )
        inside = rows.full_like(True, DType.bool_)
        both = [rows.cast(self.dtype), inside]
        for k, part in enumerate(both):
            if by > 1:
                part = part.unsqueeze(along + 1).pad_along(along + 1, 0, by - 1)
                part = part.flatten(along, along + 1)
            part = part._cut({along: (0, minimum(count * by, size - first), 1)})
            both[k] = part.pad_along(along, first, size - first - part.shape[along])
        return both[1].where(both[0], self)

    @operation
    def diagonal_scatter(
        self, src: Operand, offset: int = 0, axis1: int = 0, axis2: int = 1
    ) -> Self:
        """Return a copy with a diagonal of two axes replaced.

        >>> y = cx.zeros((2, 2), "int32").diagonal_scatter([5, 6]).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[5, 0], [0, 6]]
        """
        self._axes_of("diagonal_scatter", (axis1, axis2))
        x, k = self.movedim((axis1, axis2), (-2, -1)), whole("diagonal_scatter: the offset", offset)
        wanted = self.diagonal(offset, axis1, axis2).shape
        values = self._tensor_of(src)._stretch_to("diagonal_scatter", wanted).cast(self.dtype)
        rows, columns = x._grid("diagonal_scatter")
        # Row i of the diagonal of a wide matrix is its element i, and that of a high one i + k.
        lines = values.pad_along(-1, max(-k, 0), x.shape[-2] - max(-k, 0) - wanted[-1])
        here = columns.eq(rows + k)
        return here.where(lines.unsqueeze(-1), x).movedim((-2, -1), (axis1, axis2))

    def _stretch_to(self, what: str, shape: Sequence[Dim]) -> Self:
        """Return this tensor expanded to a shape, or raise if it does not fit."""
        wanted = tuple(shape)
        if broadcast(what, [self, self.constant(0, self.dtype, wanted)]) != wanted:
            raise ShapeError(
                f"{what}: {self.label} is to be written to {tuple_text(wanted)}",
                hint="the shapes must be equal, or broadcast to what is written to",
            )
        return self._stretch(wanted)

    # -- images ------------------------------------------------------------------------------------

    @operation
    def pixel_shuffle(self, upscale_factor: int) -> Self:
        """Return (…, c·r², h, w) as (…, c, h·r, w·r): channels spread over the image.

        >>> y = cx.arange(4).reshape(1, 4, 1, 1).pixel_shuffle(2).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[[[0, 1], [2, 3]]]]
        """
        r = whole("pixel_shuffle: upscale_factor", upscale_factor, 1)
        x = self.unflatten(-3, (-1, r, r))
        b = x.ndim - 5
        x = x.permute(*range(b), b, b + 3, b + 1, b + 4, b + 2)
        return x._viewed((*x.shape[: b + 1], self.shape[-2] * r, self.shape[-1] * r))

    @operation
    def pixel_unshuffle(self, downscale_factor: int) -> Self:
        """Return (…, c, h·r, w·r) as (…, c·r², h, w): the image gathered into channels.

        >>> y = cx.arange(8).reshape(1, 1, 2, 4).pixel_unshuffle(2).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[[[0, 2]], [[1, 3]], [[4, 6]], [[5, 7]]]]
        """
        r = whole("pixel_unshuffle: downscale_factor", downscale_factor, 1)
        x = self.unflatten(-1, (-1, r)).unflatten(-3, (-1, r))
        b = x.ndim - 5
        return x.permute(*range(b), b, b + 2, b + 4, b + 1, b + 3).flatten(b, b + 2)

    @operation
    def channel_shuffle(self, groups: int) -> Self:
        """Return the channels of axis 1, taken from each group in turn.

        >>> y = cx.arange(6).reshape(1, 6, 1).channel_shuffle(2).flatten().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0, 3, 1, 4, 2, 5]
        """
        count = whole("channel_shuffle: the number of groups", groups, 1)
        return self.unflatten(1, (count, -1)).transpose(1, 2).flatten(1, 2)


def _several(others: Operand | Sequence[Operand]) -> Sequence[Operand]:
    return others if isinstance(others, (tuple, list)) else [others]  # pyright: ignore


def lead(what: str, tensors: Sequence[T]) -> T:
    """Return the first tensor of a list; the others must belong to its graph."""
    if isinstance(tensors, (tuple, list)):
        for tensor in tensors:
            if isinstance(tensor, Lazy):  # pyright: ignore[reportUnnecessaryIsInstance]  # or data
                return tensor
    raise GraphError(
        f"{what}: there is no tensor in {tensors!r}",
        where=str(here() or "") or None,
        hint="give a list of tensors",
    )


@told
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


@told
def stack(tensors: Sequence[T], axis: int = 0, *, dim: int | None = None) -> T:
    """Return tensors of one shape along a new axis.

    >>> from luminal_lab.session import Graph
    >>> cx = Graph()
    >>> stack([cx.tensor((2,)), cx.tensor((2,))]).op_counts()
    {'constant': 1, 'pad': 3, 'reshape': 2, 'where': 1}
    """
    return lead("stack", tensors).join("stack", tensors, axis if dim is None else dim)


@told
def hstack(tensors: Sequence[T]) -> T:
    """Return tensors side by side: along the second axis, or along the only one.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> ll.hstack([cx.ones((2, 3)), cx.ones((2, 1))]).shape
    (2, 4)
    """
    return lead("hstack", tensors)._pile("hstack", tensors, 1, 1)


@told
def vstack(tensors: Sequence[T]) -> T:
    """Return tensors as rows, one below another.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> ll.vstack([cx.arange(3), cx.arange(3)]).shape
    (2, 3)
    """
    return lead("vstack", tensors)._pile("vstack", tensors, 2, 0)


@told
def dstack(tensors: Sequence[T]) -> T:
    """Return tensors one behind another, along the third axis.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> ll.dstack([cx.ones((2, 3)), cx.ones((2, 3))]).shape
    (2, 3, 2)
    """
    return lead("dstack", tensors)._pile("dstack", tensors, 3, 2)


@told
def column_stack(tensors: Sequence[T]) -> T:
    """Return tensors side by side along the second axis, vectors as columns.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> ll.column_stack([cx.arange(3), cx.arange(3)]).shape
    (3, 2)
    """
    first = lead("column_stack", tensors)
    with first.graph.whole():
        parts = [first._tensor_of(tensor) for tensor in tensors]
        columns = [part.reshape(-1, 1) if part.ndim < 2 else part for part in parts]
        return first.join("column_stack", columns, 1)


@told
def meshgrid(*tensors: T | Sequence[T], indexing: str = "ij") -> tuple[T, ...]:
    """Return the coordinates of all points of the grid that lists of coordinates span.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> rows, columns = ll.meshgrid(cx.arange(2), cx.arange(3))
    >>> rows.shape, columns.shape
    ((2, 3), (2, 3))
    """
    if indexing not in ("ij", "xy"):
        raise ArgumentError(
            f"meshgrid: there is no indexing {indexing!r}",
            hint='"ij" has the first list along the first axis, "xy" along the second',
        )
    return lead("meshgrid", listed(tensors))._mesh(listed(tensors), indexing)


@told
def broadcast_tensors(*tensors: T | Sequence[T]) -> tuple[T, ...]:
    """Return tensors expanded to one shape.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> [x.shape for x in ll.broadcast_tensors(cx.ones((3,)), cx.ones((2, 1)))]
    [(2, 3), (2, 3)]
    """
    first = lead("broadcast_tensors", given := listed(tensors))
    with first.graph.whole():
        parts = [first._tensor_of(tensor) for tensor in given]
        shape = broadcast("broadcast_tensors", parts)
        return tuple(part._stretch(shape) for part in parts)


@told
def block_diag(*tensors: T | Sequence[T]) -> T:
    """Return a matrix with matrices along its diagonal, and zeros elsewhere.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> y = ll.block_diag(cx.arange(1, 3), cx.full((1, 1), 3)).retrieve()
    >>> cx.execute()
    >>> y.tolist()
    [[1, 2, 0], [0, 0, 3]]
    """
    first = lead("block_diag", given := listed(tensors))
    with first.graph.whole():
        blocks = [first._tensor_of(tensor).atleast(2) for tensor in given]
        for block in blocks:
            if block.ndim > 2:
                raise ShapeError(
                    f"block_diag: {block.label} has {block.ndim} axes, and a block has two at most",
                    hint="join batches of matrices one by one",
                )
        width, at, rows = sum(block.shape[1] for block in blocks), 0, list[T]()
        for block in blocks:
            rows.append(block.pad_along(1, at, width - at - block.shape[1]))
            at = at + block.shape[1]
        return first.join("block_diag", rows, 0)


@told
def cartesian_prod(*tensors: T | Sequence[T]) -> T:
    """Return all ways to take an element of each vector, one a row.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> y = ll.cartesian_prod(cx.arange(2), cx.arange(5, 7)).retrieve()
    >>> cx.execute()
    >>> y.tolist()
    [[0, 5], [0, 6], [1, 5], [1, 6]]
    """
    first = lead("cartesian_prod", given := listed(tensors))
    with first.graph.whole():
        if len(given) == 1:
            return first._tensor_of(given[0])
        grids = first._mesh(given, "ij")
        return first.join("stack", [grid.flatten() for grid in grids], 1)


cat = concat
