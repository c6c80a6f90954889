"""Indexing by data: `x[...]`, gather and scatter, embedding, and sorting by counting."""

from __future__ import annotations

import math
from types import EllipsisType
from typing import Any, Literal, NoReturn, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from luminal_lab.core.builder import DimLike
from luminal_lab.core.dims import Dim, Expr
from luminal_lab.core.dtypes import DType, promote_all
from luminal_lab.core.op import never, size_of
from luminal_lab.core.ops import Gather, Scatter, SumReduce, Update
from luminal_lab.errors import (
    ArgumentError,
    AxisError,
    DTypeError,
    GraphError,
    RangeError,
    ShapeError,
)
from luminal_lab.tensor.arithmetic import Operand
from luminal_lab.tensor.lazy import Lazy, as_array
from luminal_lab.tensor.movement import Movement, Part, whole
from luminal_lab.tensor.operation import on_axis, operation
from luminal_lab.tensor.reduction import Reduction

T = TypeVar("T", bound="Indexing")
Index: TypeAlias = Lazy | npt.ArrayLike
Item: TypeAlias = "Index | Expr | slice[Any, Any, Any] | EllipsisType | None"
Key: TypeAlias = "Item | tuple[Item, ...]"
BLOCK = 128
"""The largest block whose top values `topk` selects by counting."""


class Indexing(Reduction):
    """Indexing by data.

    In `x[...]` and `take` a negative index counts from the end; elsewhere it is refused when the
    graph runs, as in PyTorch and like every index beyond the end. Several index tensors in
    `x[...]` are broadcast together with numbers beside them, as in NumPy.
    """

    __slots__ = ()

    # -- x[...] ------------------------------------------------------------------------------------

    @operation
    def __getitem__(self, key: Key) -> Self:
        """Return a part as in NumPy: by ints, slices, None, ..., and integer tensors.

        >>> print(cx.tensor((4, 6), name="x")[1, ::-2].lowering())
        %1 = flip{axes = [1]} %x : f32[4, 6]
        %2 = slice{start = [1, 0], stop = [2, 6], step = [1, 2]} %1 : f32[1, 3]
        %3 = reshape{shape = [3]} %2 : f32[3]
        """
        items = self._items(key)
        parts: dict[int, Part] = {}
        kept: list[int | None] = []  # the axes of the result, None for a new one
        arrays: list[tuple[int, Index]] = []  # (axis of the result, index)
        runs: list[bool] = []  # whether an item is an index, of a run of equal ones
        axis = 0
        for item in items:
            fancy = not (item is None or item is Ellipsis or isinstance(item, slice))
            if not runs or runs[-1] != fancy:
                runs.append(fancy)
            if item is Ellipsis:
                continue
            if item is None:
                kept.append(None)
                continue
            if isinstance(item, slice):
                parts[axis] = item
                kept.append(axis)
            elif isinstance(item, (int, np.integer, Expr)):
                position = self._position("index", axis, item)  # pyright: ignore[reportArgumentType]
                parts[axis] = (position, position + 1, 1)
            else:
                arrays.append((len(kept), item))  # pyright: ignore[reportArgumentType]
                kept.append(axis)
            axis += 1
        part = self._sliced(parts)
        part = part._viewed(tuple(1 if axis is None else part.shape[axis] for axis in kept))
        return part._at(arrays, together=runs.count(True) == 1) if arrays else part

    @operation
    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise GraphError(
            f"{self.label}: a tensor is a value, and no part of it can be set",
            hint="write x = x.update(rows, at) for rows from a position on, x = mask.where(value, "
            "x) for a mask, or x = x.index_copy(axis, index, rows)",
        )

    def _items(self, key: Key) -> list[Item]:
        """Return one item for each axis, and Nones."""
        items = list(key) if isinstance(key, tuple) else [key]
        for item in items:
            if isinstance(item, (bool, np.bool_)):
                raise DTypeError(
                    f"index: {item} is a bool, and cannot stand in {self.label}[...]",
                    hint="use None for a new axis, or mask.where(x, 0) for a mask",
                )
        dots = [k for k, item in enumerate(items) if item is Ellipsis]
        missing = self.ndim - sum(item is not None and item is not Ellipsis for item in items)
        if missing < 0 or len(dots) > 1:
            raise AxisError(
                f"index: {self.ndim - missing} axes and {len(dots)} '...' are indexed in "
                f"{self.label}",
                hint="index each axis at most once, and use one '...'",
            )
        position = dots[0] if dots else len(items)
        # A "..." that stands for no axes still lies between indices, in NumPy.
        between = [slice(None)] * missing or items[position : position + 1]
        return [*items[:position], *between, *items[position + 1 :]]

    def _at(self, arrays: list[tuple[int, Index]], *, together: bool) -> Self:
        """Return this tensor indexed along several axes by tensors that are broadcast."""
        axes = [axis for axis, _ in arrays]
        x, sizes = self, [self.shape[axis] for axis in axes]
        if not together:  # then the axes of the indices come first
            x = self.permute(axes + [axis for axis in range(self.ndim) if axis not in axes])
        first = axes[0] if together else 0
        indices = [
            self.index("index", at, size) for (_, at), size in zip(arrays, sizes, strict=True)
        ]
        if len(indices) == 1:
            return x._take(first, indices[0])
        wide = [at.cast(DType.int64) for at in indices]
        indices = wide[0]._together("index", *wide[1:])
        flat, inside = indices[0], (indices[0] > -1) & (indices[0] < sizes[0])
        for at, size in zip(indices[1:], sizes[1:], strict=True):
            flat, inside = flat * size + at, inside & (at > -1) & (at < size)
        x = x._viewed((*x.shape[:first], size_of(sizes), *x.shape[first + len(sizes) :]))
        return x._take(first, inside.where(flat, -1))

    # -- reading -----------------------------------------------------------------------------------

    def index(self, what: str, given: object, size: Dim | None = None) -> Self:
        """Return an index as integers of this graph; with a size, negative ones are resolved.

        >>> cx.arange(4).index("rows", [0, 2]).shape
        (2,)
        """
        if not isinstance(given, Lazy):
            given = as_array(given)
            if given.dtype.kind in "iu" or not given.size:
                positions = given.astype(np.int64)
                if isinstance(size, int):
                    for wrong in positions[(positions < -size) | (positions >= size)][:1]:
                        raise RangeError(
                            f"{what}: there is no position {wrong} on an axis of size {size} of "
                            f"{self.label}",
                            hint=f"positions go from {-size} to {size - 1}" if size else "none is",
                        )
                    positions, size = np.where(positions < 0, positions + size, positions), None
                given = positions
        index = self._tensor_of(given)
        if index.dtype.kind != "int":
            raise DTypeError(
                f"{what}: the index {index.label} is {index.dtype}, and must hold integers",
                hint="use mask.where(x, 0) for a mask, or cast what counts positions",
            )
        if size is None or index.dtype.is_unsigned:
            return index
        index = index if index.dtype.itemsize >= 4 else index.cast(DType.int64)
        return (index < 0).where(index + size, index)

    def _take(self, axis: int, index: Self) -> Self:
        """Return slices along an axis, which the axes of the index replace."""
        if axis == 0 and self.ndim > 1:
            rows = self.graph.looked_up(self, lambda raw: raw._take(0, index))
            if rows is not None:
                return rows
        flat = index.flatten()
        shape = self.type.with_axis(axis, flat.shape[0]).shape
        taken = self._apply(Gather(axis), flat._along(axis, shape))
        return taken._viewed((*shape[:axis], *index.shape, *shape[axis + 1 :]))

    @operation
    def take(self, index: Index, axis: int | None = None) -> Self:
        """Return slices along an axis by an index of any shape; without an axis, elements.

        >>> print(cx.tensor((4,), name="x").take(cx.tensor((2,), "int64", "index")).lowering())
        %2 = constant{value = 0} : i64[2]
        %3 = less_than %index, %2 : bool[2]
        %4 = constant{value = 4} : i64[2]
        %5 = add %index, %4 : i64[2]
        %6 = where %3, %5, %index : i64[2]
        %7 = gather{axis = 0} %x, %6 : f32[2]
        """
        x = self.flatten() if axis is None else self
        axis = x._axis_of("take", 0 if axis is None else axis)
        return x._take(axis, x.index("take", index, x.shape[axis]))

    @on_axis
    def index_select(self, axis: int, index: Index) -> Self:
        """Return slices along an axis, by a vector of positions.

        >>> x = cx.arange(6).reshape(3, 2)
        >>> y = x.index_select(0, [2, 0]).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[4, 5], [0, 1]]
        """
        positions = self.index("index_select", index).atleast_1d()
        return self._take(self._axis_of("index_select", axis), positions)

    @operation
    def embedding(self, tokens: Index) -> Self:
        """Return rows of this weight, one for each token.

        >>> tokens = cx.tensor(("n",), "int32", "tokens")
        >>> print(cx.tensor((50, 8), name="weight").embedding(tokens).lowering())
        %2 = reshape{shape = [n, 1]} %tokens : i32[n, 1]
        %3 = expand{shape = [n, 8]} %2 : i32[n, 8]
        %4 = gather{axis = 0} %weight, %3 : f32[n, 8]
        """
        if self.ndim != 2:
            raise ShapeError(
                f"embedding: the weight {self.label} has {self.ndim} axes, and must have two",
                hint="the weight comes first, as in weight.embedding(tokens)",
            )
        return self._take(0, self.index("embedding", tokens))

    @operation
    def gather(self, axis: int, index: Index) -> Self:
        """Return x[index[i, j], j] for axis 0, and so for any axis; the index may be smaller.

        >>> index = cx.tensor((3, 1), "int64", "index")
        >>> print(cx.tensor((3, 4), name="x").gather(1, index).lowering())
        %2 = gather{axis = 1} %x, %index : f32[3, 1]
        """
        indices = self.index("gather", index)
        if 0 in indices.shape and self.ndim != indices.ndim:  # nothing is read
            return self.constant(0, self.dtype, indices.shape)
        if self.ndim and indices.ndim:
            axis, indices, part = self._region("gather", axis, indices)
            return part._apply(Gather(axis), indices)
        x = self.atleast_1d().gather(axis, indices.atleast_1d())
        return x._viewed(indices.shape)

    @operation
    def take_along_dim(self, index: Index, axis: int | None = None) -> Self:
        """Return the result of `gather` after broadcasting; without an axis, over all elements.

        >>> x = cx.tensor((2, 3)).set([[5, 9, 7], [8, 4, 6]])
        >>> y = x.take_along_dim(x.argmax(1, keepdim=True), 1).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[9.0], [8.0]]
        """
        if axis is None:
            flat = self.flatten()
            return flat.gather(0, flat.index("take_along_dim", index, flat.shape[0]).flatten())
        axis = self._axis_of("take_along_dim", axis)
        indices = self.index("take_along_dim", index, self.shape[axis])
        if indices.ndim != self.ndim:
            raise ShapeError(
                f"take_along_dim: the index {indices.label} and {self.label} differ in rank",
                hint="give them equally many axes, or use take for whole slices",
            )
        pairs = list(enumerate(zip(self.shape, indices.shape, strict=True)))
        x = self.expand([a if k == axis or a != 1 else b for k, (a, b) in pairs])
        indices = indices.expand([b if k == axis or b != 1 else a for k, (a, b) in pairs])
        return x.gather(axis, indices)

    def _region(self, what: str, axis: int, index: Index) -> tuple[int, Self, Self]:
        """Return the axis, the index as a tensor, and the part that the index covers."""
        axis, indices = self._axis_of(what, axis), self.index(what, index)
        sizes = list(enumerate(zip(indices.shape, self.shape, strict=False)))
        if indices.ndim != self.ndim or any(never(a <= b) for k, (a, b) in sizes if k != axis):
            raise ShapeError(
                f"{what}: the index {indices.label} must have the axes of {self.label}, and only "
                f"axis {axis} may be larger",
                hint="expand the index, or use take or index_select for whole slices",
            )
        return axis, indices, self._cut({k: (0, a, 1) for k, (a, _) in sizes if k != axis})

    # -- writing -----------------------------------------------------------------------------------

    @operation
    def scatter(
        self,
        axis: int,
        index: Index,
        src: Operand | None = None,
        *,
        value: Operand | None = None,
        reduce: str | None = None,
    ) -> Self:
        """Return a copy with result[index[i, j], j] = src[i, j] for axis 0; other axes likewise.

        With `reduce` "add" or "multiply" they are added to what is there, or multiplied with it.

        >>> index = cx.tensor((3, 1), "int64", "index")
        >>> print(cx.tensor((3, 4), name="x").scatter(1, index, 9).lowering())
        %2 = constant{value = 9.0} : f32[3, 1]
        %3 = scatter{axis = 1, mode = set} %x, %index, %2 : f32[3, 4]
        """
        values = src if value is None else value
        if reduce is None:
            return self._scatter("scatter", "set", axis, index, values)
        if reduce not in ("add", "multiply"):
            raise ArgumentError(
                f"scatter: there is no reduction {reduce!r}",
                hint='it is "add" or "multiply"; scatter_reduce has others',
            )
        if reduce == "add":
            return self._scatter("scatter", "add", axis, index, values)
        indices = self.index("scatter", index)
        given = self._operand(values)
        if not isinstance(given, Lazy):
            given = self.constant(given, self.dtype, indices.shape)
        return self.scatter_reduce(axis, indices, given, "prod")

    @operation
    def scatter_add(self, axis: int, index: Index, src: Operand) -> Self:
        """Return a copy with src[i, j] added to result[index[i, j], j] for axis 0, and so on.

        >>> x = cx.tensor((4,)).set([1, 2, 3, 4])
        >>> y = cx.zeros((3,)).scatter_add(0, [0, 2, 0, 2], x).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [4.0, 0.0, 6.0]
        """
        return self._scatter("scatter_add", "add", axis, index, src)

    def _scatter(
        self, what: str, mode: Literal["set", "add"], axis: int, index: Index, src: Operand | None
    ) -> Self:
        indices = self.index(what, index)
        if not self.ndim or not indices.ndim:
            src = src.atleast_1d() if isinstance(src, Movement) else src
            x = self.atleast_1d()._scatter(what, mode, axis, indices.atleast_1d(), src)
            return x._viewed(self.shape)
        axis, indices, part = self._region(what, axis, indices)
        done = part._apply(Scatter(axis, mode), indices, self._source(what, indices, src))
        return self._put_back(part, done)

    def _source(self, what: str, indices: Self, src: Operand | None) -> Self:
        """Return the values to scatter by an index."""
        value = self._operand(src)
        if not isinstance(value, Lazy):
            return self.constant(value, self.dtype, indices.shape)
        if not value.ndim:
            value = value._stretch(indices.shape)
        sizes = list(zip(indices.shape, value.shape, strict=False))
        if value.ndim != indices.ndim or any(never(a <= b) for a, b in sizes):
            raise ShapeError(
                f"{what}: the index {indices.label} is larger than the values {value.label}",
                hint="give a value for each index, or one number for all",
            )
        if value.dtype is not self.dtype:
            raise DTypeError(
                f"{what}: the values {value.label} are {value.dtype}, and {self.label} is "
                f"{self.dtype}",
                hint="convert one of them with cast",
            )
        return value._cut({k: (0, a, 1) for k, (a, _) in enumerate(sizes)})

    def _put_back(self, part: Self, done: Self) -> Self:
        """Return this tensor with a leading part replaced."""
        if part.shape == self.shape:
            return done
        margins = [(0, a - b) for a, b in zip(self.shape, part.shape, strict=True)]
        inside = part.full_like(True, DType.bool_).pad(margins)
        return inside.where(done.pad(margins), self)

    @operation
    def scatter_reduce(
        self, axis: int, index: Index, src: Operand, reduce: str, include_self: bool = True
    ) -> Self:
        """Return a copy with values scattered to one position reduced: sum, prod, mean, amax, amin.

        All but "sum" and "mean" compare each position with each index.

        >>> x = cx.tensor((4,)).set([5, 6, 7, 8])
        >>> y = cx.zeros((3,)).scatter_reduce(0, [0, 2, 0, 2], x, "amax").retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [7.0, 0.0, 8.0]
        """
        what = "scatter_reduce"
        if reduce in ("sum", "mean"):
            base = self if include_self else self._scatter(what, "set", axis, index, 0)
            total = base._scatter(what, "add", axis, index, src)
            if reduce == "sum":
                return total
            initial = self.full_like(int(include_self), DType.int64)
            count = initial._scatter(what, "add", axis, index, 1).clip(1)
            return total / count if self.dtype.is_float else total // count.cast(self.dtype)
        low = self._least
        high = math.inf if self.dtype.is_float else self.dtype.limits[1]
        neutral = {"prod": 1, "amax": low, "amin": high}.get(str(reduce))
        if neutral is None:
            raise ShapeError(
                f"scatter_reduce: there is no reduction {reduce!r}",
                hint="one of 'sum', 'prod', 'mean', 'amax', 'amin'",
            )
        if not self.ndim:
            index, src = self.index(what, index).atleast_1d(), self._tensor_of(src).atleast_1d()
            return (
                self._viewed((1,))
                .scatter_reduce(axis, index, src, reduce, include_self)
                ._viewed(())
            )
        axis, indices, part = self._region(what, axis, index)
        base = part if include_self else part._scatter(what, "set", axis, indices, neutral)
        values = self._source(what, indices, src).movedim(axis, -1).unsqueeze(-2)
        rows = self._iota(self.shape[axis], DType.int64).unsqueeze(-1)
        mine = indices.movedim(axis, -1).unsqueeze(-2).eq(rows)
        values = mine.where(values, base.full_like(neutral).movedim(axis, -1).unsqueeze(-1))
        if reduce == "prod":
            return self._put_back(part, base * values.prod(-1).movedim(-1, axis).cast(self.dtype))
        values = base.movedim(axis, -1).unsqueeze(-1).concat(values, -1)
        done = values.amax(-1, True) if reduce == "amax" else values.amin(-1, True)
        if self.dtype.is_float:
            own = mine.any(-1, True).logical_not()
            own = own.full_like(True) if include_self else own
            done = done._spells("scattered", values, own.concat(mine, -1))
        return self._put_back(part, done.squeeze(-1).movedim(-1, axis))

    @on_axis
    def index_add(self, axis: int, index: Index, source: Operand, alpha: float = 1) -> Self:
        """Return a copy with slices added to those at the positions of a vector.

        >>> x = cx.ones((3, 2))
        >>> y = x.index_add(0, [2, 2], cx.ones((2, 2)), alpha=10).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[1.0, 1.0], [1.0, 1.0], [21.0, 21.0]]
        """
        values = self._tensor_of(source) * alpha if alpha != 1 else self._tensor_of(source)
        return self._rows("index_add", "add", axis, index, values)

    @on_axis
    def index_copy(self, axis: int, index: Index, source: Operand) -> Self:
        """Return a copy with the slices at the positions of a vector replaced.

        >>> x = cx.zeros((2, 3))
        >>> y = x.index_copy(1, [2, 0], cx.arange(4.0).reshape(2, 2)).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[1.0, 0.0, 0.0], [3.0, 0.0, 2.0]]
        """
        return self._rows("index_copy", "set", axis, index, self._tensor_of(source))

    @on_axis
    def index_fill(self, axis: int, index: Index, value: float) -> Self:
        """Return a copy with a number in the slices at the positions of a vector.

        >>> y = cx.arange(6).reshape(2, 3).index_fill(1, [0, 2], -1).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[-1, 1, -1], [-1, 4, -1]]
        """
        return self._rows("index_fill", "set", axis, index, value)

    def _rows(
        self, what: str, mode: Literal["set", "add"], axis: int, index: Index, src: Operand
    ) -> Self:
        axis, flat = self._axis_of(what, axis), self.index(what, index).flatten()
        indices = flat._along(axis, self.type.with_axis(axis, flat.shape[0]).shape)
        return self._scatter(what, mode, axis, indices, src)

    @operation
    def update(self, rows: Operand, at: DimLike, axis: int = 0) -> Self:
        """Return this buffer with rows written from a position of an axis on, as in a KV cache.

        >>> rows = cx.tensor((1, 8), name="rows")
        >>> print(cx.tensor((64, 8), name="cache").update(rows, "p").lowering())
        %2 = update{axis = 0, at = p} %cache, %rows : f32[64, 8]

        The position is a number or a dim, 0 or more; `cx.set_dim` sets it for a run. With
        `cx.carry(new, cache)` the next run starts from this run's result.
        """
        axis = self._axis_of("update", axis)
        if isinstance(at, Lazy):
            raise ShapeError(
                f"update: the position is the tensor {at.label}, and must be a number or a dim",
                hint='name a dim, as in update(rows, "p"), or use scatter for positions in data',
            )
        if isinstance(at, (tuple, list)):
            raise ShapeError(
                f"update: the position is a {type(at).__name__} of {len(at)}, and rows go in along "
                "one axis",
                hint='give a number or a dim, as in update(rows, "p", axis=1)',
            )
        if isinstance(at, str) and at.isidentifier() and not self.graph.has_dim(at):
            self.graph.dim(at, 0)  # the first position is 0
        return self._apply(Update(axis, self.graph.as_dim(at)), self._tensor_of(rows))

    @operation
    def one_hot(self, num_classes: DimLike) -> Self:
        """Return 1 where the value is the position on a new last axis, else 0, as int64.

        >>> print(cx.tensor((2,), "int64", name="x").one_hot(3).lowering())
        %1 = constant{value = 0} : i64[2, 3]
        %2 = reshape{shape = [2, 1]} %x : i64[2, 1]
        %3 = constant{value = 1} : i64[2, 1]
        %4 = scatter{axis = 1, mode = set} %1, %2, %3 : i64[2, 3]
        """
        zeros = self.constant(0, DType.int64, (*self.shape, self.graph.as_dim(num_classes)))
        return zeros._scatter("one_hot", "set", -1, self.unsqueeze(-1), 1)

    @operation
    def bincount(self, weights: Operand | None = None, minlength: DimLike | None = None) -> Self:
        """Return the count, or the total weight, of each number below `minlength`.

        >>> words = cx.tensor((5,), "int64").set([1, 3, 1, 0, 1])
        >>> y = words.bincount(minlength=4).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [1, 3, 0, 1]
        """
        if minlength is None:
            raise ShapeError(
                f"bincount: its size would depend on the data of {self.label}",
                hint="give the number of bins, as in x.bincount(minlength=10)",
            )
        values = 1 if weights is None else self._tensor_of(weights).flatten()
        dtype = values.dtype if isinstance(values, Lazy) else DType.int64
        zeros = self.constant(0, dtype, (self.graph.as_dim(minlength),))
        return zeros._scatter("bincount", "add", 0, self.flatten(), values)

    # -- order -------------------------------------------------------------------------------------

    def _ranks(self, descending: bool) -> Self:
        """Return the rank of each value along the last axis: the number of values before it."""
        mine, other = self.unsqueeze(-1), self.unsqueeze(-2)
        position = self._iota(self.shape[-1])
        earlier = position < position.unsqueeze(-1)
        less, more = precedes(other, mine), precedes(mine, other)
        # Equal values keep their order.
        before = earlier.where(~less, more) if descending else earlier.where(~more, less)
        return before.cast(DType.int64)._apply(SumReduce(self.ndim))._viewed(self.shape)

    @on_axis
    def argsort(self, axis: int = -1, descending: bool = False, stable: bool = True) -> Self:
        """Return the positions of the values in stable order, with NaN as the greatest.

        >>> cx.tensor((4,), "int32").argsort().op_counts()["scatter"]
        1
        """
        axis = self._axis_of("argsort", axis)
        ranks = self.movedim(axis, -1)._ranks(descending)
        positions = self._iota(ranks.shape[-1], DType.int64)._stretch(ranks.shape)
        op = Scatter(ranks.ndim - 1, "set")
        return ranks.full_like(0)._apply(op, ranks, positions).movedim(-1, axis)

    @on_axis
    def sort(
        self, axis: int = -1, descending: bool = False, stable: bool = True
    ) -> tuple[Self, Self]:
        """Return the values in order along an axis, and their old positions.

        >>> values, order = cx.tensor((3,)).set([6, 9, 4]).sort(descending=True)
        >>> cx.retrieve([values, order])
        >>> cx.execute()
        >>> values.tolist(), order.tolist()
        ([9.0, 6.0, 4.0], [1, 0, 2])
        """
        indices = self.argsort(axis, descending)
        return self.gather(axis, indices), indices

    @operation
    def msort(self) -> Self:
        """Return the values in order along the first axis.

        >>> x = cx.tensor((3, 2)).set([[5, 1], [3, 2], [4, 0]])
        >>> y = x.msort().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[3.0, 0.0], [4.0, 1.0], [5.0, 2.0]]
        """
        return self.sort(0)[0]

    @on_axis
    def topk(
        self,
        k: int,
        axis: int = -1,
        largest: bool = True,
        sorted: bool = True,  # noqa: A002  # PyTorch's name
    ) -> tuple[Self, Self]:
        """Return the k largest (or smallest) values along an axis, in order, and their positions.

        Long axes are cut into blocks, whose own top k then compete; the first of equal values wins.

        >>> values, positions = cx.tensor((4,)).set([6, 9, 4, 7]).topk(2)
        >>> cx.retrieve([values, positions])
        >>> cx.execute()
        >>> values.tolist(), positions.tolist()
        ([9.0, 7.0], [1, 3])
        """
        axis, count = self._axis_of("topk", axis), whole("topk: k", k, 0)
        if never(count <= self.shape[axis]):
            raise RangeError(
                f"topk: k is {count}, and axis {axis} of {self.label} has {self.shape[axis]}",
                hint="k is at most the size of the axis",
            )
        indices = self.movedim(axis, -1)._best(count, largest).movedim(-1, axis)
        return self.gather(axis, indices), indices

    def _best(self, k: int, largest: bool) -> Self:
        size, block = self.shape[-1], max(BLOCK, 4 * k)
        if isinstance(size, Expr) or size <= 2 * block:
            return self.argsort(-1, largest).narrow(-1, 0, k)
        count = -(-size // block)
        worst = (
            self._least if largest else math.nan if self.dtype.is_float else self.dtype.limits[1]
        )
        blocks = self.pad_along(-1, 0, count * block - size, worst).unflatten(-1, (count, block))
        winners = blocks._best(k, largest)
        starts = self._iota(count, DType.int64).unsqueeze(-1) * block
        final = blocks.gather(-1, winners).flatten(-2)._best(k, largest)
        return (winners + starts).flatten(-2).gather(-1, final)

    @on_axis
    def kthvalue(self, k: int, axis: int = -1, keepdim: bool = False) -> tuple[Self, Self]:
        """Return the k-th smallest value along an axis, counted from 1, and its position.

        >>> second, position = cx.tensor((4,)).set([6, 9, 4, 7]).kthvalue(2)
        >>> cx.retrieve([second, position])
        >>> cx.execute()
        >>> second.item(), position.item()
        (6.0, 0)
        """
        last = whole("kthvalue: k", k, 1) - 1
        values, indices = (part.narrow(axis, last, 1) for part in self.topk(k, axis, largest=False))
        return (values, indices) if keepdim else (values.squeeze(axis), indices.squeeze(axis))

    @on_axis
    def median(self, axis: int | None = None, keepdim: bool = False) -> Self | tuple[Self, Self]:
        """Return the lower median, with its position if an axis is given; NaN wins.

        >>> x = cx.tensor((4,)).set([6, 9, 4, 7])
        >>> y = x.median().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        6.0
        """
        if axis is None:
            flat = self.flatten()
            value = flat.median(0, True)[0]
            if self.dtype.is_float:
                value = value._spells("extreme", flat, settings=((0,), True))
            return value.squeeze(0)
        axis = self._axis_of("median", axis)
        size = self.shape[axis]
        if size == 0:
            raise ShapeError(
                f"median: axis {axis} of {self.label} is empty", hint="use another axis"
            )
        order = self.argsort(axis, descending=True)
        indices, first = (order.narrow(axis, at, 1) for at in (size // 2, 0))
        if self.dtype.is_float:  # NaN comes first
            indices = self.gather(axis, first).isnan().where(first, indices)
        values = self.gather(axis, indices)
        return (values, indices) if keepdim else (values.squeeze(axis), indices.squeeze(axis))

    @operation
    def searchsorted(
        self,
        values: Operand,
        right: bool = False,
        *,
        side: str | None = None,
        sorter: Index | None = None,
        out_int32: bool = False,
    ) -> Self:
        """Return the number of these sorted numbers below each value, or equal with `right`.

        `side="right"` says the same as `right`; `sorter` has the order of numbers that are not
        sorted, as `argsort` makes it.

        >>> edges = cx.tensor((3,)).set([10, 20, 30])
        >>> y = edges.searchsorted([5, 20, 99]).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0, 1, 3]
        """
        if side not in (None, "left", "right") or (right and side == "left"):
            raise ArgumentError(
                f"searchsorted: side is {side!r} and right {right}",
                hint='side is "left" or "right", and right=True says the latter',
            )
        if sorter is not None:
            return self.gather(-1, sorter).searchsorted(
                values, right, side=side, out_int32=out_int32
            )
        right = right or side == "right"
        sought = self._tensor_of(values)
        dtype = promote_all([(t.dtype, t.ndim) for t in (self, sought)])
        if self.ndim == 0 or (self.ndim > 1 and self.shape[:-1] != sought.shape[:-1]):
            raise ShapeError(
                f"searchsorted: the numbers {self.label} and the values {sought.label} do not fit "
                "together",
                hint="the numbers have one axis, or all axes but the last as the values have them",
            )
        mine, edge = sought.cast(dtype).unsqueeze(-1), self.cast(dtype)
        edge = edge if self.ndim == 1 else edge.unsqueeze(-2)
        before = ~precedes(mine, edge) if right else precedes(edge, mine)
        counted = before.cast(DType.int32 if out_int32 else DType.int64)
        return counted._apply(SumReduce(before.ndim - 1))._viewed(sought.shape)

    @operation
    def bucketize(
        self, boundaries: Operand, *, right: bool = False, out_int32: bool = False
    ) -> Self:
        """Return for each value the number of sorted boundaries before it.

        >>> ages = cx.tensor((4,)).set([5, 18, 40, 70])
        >>> y = ages.bucketize([18, 65], right=True).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0, 1, 1, 2]
        """
        return self._tensor_of(boundaries).searchsorted(self, right, out_int32=out_int32)


def precedes(x: T, y: T) -> T:
    """Return where x is less than y, with NaN as the greatest."""
    less = x < y
    # A square is above -1 unless it is NaN.
    return less | ((y * y > -1) < (x * x > -1)) if x.dtype.is_float else less
