"""What data choose, in a size that is given: `nonzero`, `masked_select`, `unique`; writing there.

A graph knows its shapes before it runs. As in JAX, `size=` says how many results there are: those
beyond it are left out, and a fill value stands for those that are missing.
"""

from __future__ import annotations

# The functions of this file use private members of its class.
# pyright: reportPrivateUsage=false
from collections.abc import Sequence
from typing import NoReturn, Self

from luminal_lab.core.builder import DimLike
from luminal_lab.core.dims import Dim, maximum
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Scalar, size_of
from luminal_lab.errors import DTypeError, ShapeError
from luminal_lab.tensor.arithmetic import Operand
from luminal_lab.tensor.indexing import Index, Indexing, precedes
from luminal_lab.tensor.operation import operation


class Sized(Indexing):
    """Operations whose results data choose."""

    __slots__ = ()

    # -- reading -----------------------------------------------------------------------------------

    def _sized(self, what: str, size: DimLike | None, instead: str) -> Dim:
        """Return the size that is given, or raise."""
        if size is None:
            self._refuse_size(what, instead)
        return self.graph.as_dim(size)

    def _refuse_size(self, what: str, instead: str) -> NoReturn:
        raise ShapeError(
            f"{what}: its shape would depend on the data of {self.label}",
            hint=f"say how many there are at most, as in x.{what}({instead}size=10)",
        )

    def _kept(self, size: Dim, fill: Scalar) -> Self:
        """Return the first positions where this vector holds, as int64, and a fill value."""
        mask = self._truth()
        place = mask.cast(DType.int64).cumsum(0) - 1
        # What is not kept goes to one more position, which is cut off.
        kept = mask & (place < size)
        target = kept.where(place, self.constant(size, DType.int64, ()))
        found = self.constant(fill, DType.int64, (size + 1,))
        at = self._iota(self.shape[0], DType.int64)
        return found._scatter("nonzero", "set", 0, target, at)._cut({0: (0, size, 1)})

    @operation
    def nonzero(
        self, as_tuple: bool = False, *, size: DimLike | None = None, fill_value: int = 0
    ) -> Self | tuple[Self, ...]:
        """Return the positions of `size` elements that are not 0, one a row, in row-major order.

        Positions that are missing are the fill value. As a tuple, the columns are apart.

        >>> x = cx.tensor((2, 2)).set([[0, 5], [7, 0]])
        >>> y = x.nonzero(size=3, fill_value=-1).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[0, 1], [1, 0], [-1, -1]]
        """
        count = self._sized("nonzero", size, "")
        x = self.atleast_1d() if as_tuple else self
        flat = x.flatten()._kept(count, -1)
        missing, columns = flat < 0, list[Self]()
        for axis, extent in enumerate(x.shape):
            stride = maximum(size_of(x.shape[axis + 1 :]), 1)
            place = (flat // stride) % maximum(extent, 1)
            columns.append(missing.where(fill_value, place))
        if as_tuple:
            return tuple(columns)
        if not columns:
            return self.constant(0, DType.int64, (count, 0))
        return self.join("stack", columns, 1)

    def nonzero_static(self, *, size: DimLike, fill_value: int = -1) -> Self:
        """Return the result of `nonzero`, filled up with -1.

        >>> x = cx.tensor((3,)).set([0, 5, 0])
        >>> y = x.nonzero_static(size=2).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[1], [-1]]
        """
        return self.nonzero(size=size, fill_value=fill_value)  # pyright: ignore[reportReturnType]  # no tuple

    @operation
    def argwhere(self, *, size: DimLike | None = None, fill_value: int = 0) -> Self:
        """Return the positions of `size` elements that are not 0, one a row.

        >>> y = cx.arange(4).gt(1).argwhere(size=2).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[2], [3]]
        """
        self._sized("argwhere", size, "")
        return self.nonzero(size=size, fill_value=fill_value)  # pyright: ignore[reportReturnType]  # no tuple

    @operation
    def masked_select(
        self, mask: Operand, *, size: DimLike | None = None, fill_value: Scalar = 0
    ) -> Self:
        """Return `size` elements where the mask holds, in row-major order.

        >>> x = cx.arange(5)
        >>> y = x.masked_select(x > 2, size=3, fill_value=-1).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [3, 4, -1]
        """
        count = self._sized("masked_select", size, "mask, ")
        given = self._mask("masked_select", mask)
        x, where = self._stretched_with(given)
        at = where.flatten()._kept(count, -1)
        flat = x.flatten()
        if flat.shape[0] == 0:
            return self.constant(fill_value, self.dtype, (count,))
        missing = at < 0
        return missing.where(fill_value, flat.gather(0, missing.where(0, at))).cast(self.dtype)

    def _mask(self, what: str, mask: Operand) -> Self:
        given = self._tensor_of(mask)
        if given.dtype is not DType.bool_:
            raise DTypeError(
                f"{what}: the mask {given.label} is {given.dtype} and not bool",
                hint="compare something, as in x > 0",
            )
        return given

    def _stretched_with(self, mask: Self) -> tuple[Self, Self]:
        """Return this tensor and a mask in one shape."""
        both = mask._together("mask", self.full_like(False, DType.bool_))
        return self._stretch(both[0].shape), both[0]

    # -- unique ------------------------------------------------------------------------------------

    @operation
    def unique(
        self,
        sorted: bool = True,  # noqa: A002  # PyTorch's name
        return_inverse: bool = False,
        return_counts: bool = False,
        axis: int | None = None,
        *,
        size: DimLike | None = None,
        fill_value: Scalar | None = None,
    ) -> Self | tuple[Self, ...]:
        """Return `size` different values in order, or the different slices along an axis.

        On request with the position of each element among them, and how often each occurs. Values
        that are missing are the fill value, by default the first value, and occur 0 times.

        >>> x = cx.tensor((5,)).set([3, 1, 3, 2, 1])
        >>> y, counts = x.unique(return_counts=True, size=4, fill_value=-1)
        >>> cx.retrieve([y, counts])
        >>> cx.execute()
        >>> y.tolist(), counts.tolist()
        ([1.0, 2.0, 3.0, -1.0], [2, 1, 2, 0])
        """
        count = self._sized("unique", size, "")
        x = self.flatten() if axis is None else self.movedim(axis, 0)
        order = x._row_order()
        found, inverse, counts = x._take(0, order)._runs("unique", count, fill_value)
        # The inverse is that of the rows in order: back to where they came from.
        home = order.full_like(0)._scatter("unique", "set", 0, order, inverse)
        return self._unique(found, home, counts, axis, return_inverse, return_counts)

    @operation
    def unique_consecutive(
        self,
        return_inverse: bool = False,
        return_counts: bool = False,
        axis: int | None = None,
        *,
        size: DimLike | None = None,
        fill_value: Scalar | None = None,
    ) -> Self | tuple[Self, ...]:
        """Return the first of each run of equal values, `size` of them, as `unique` does.

        >>> x = cx.tensor((5,)).set([3, 3, 1, 3, 3])
        >>> y = x.unique_consecutive(size=3).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [3.0, 1.0, 3.0]
        """
        count = self._sized("unique_consecutive", size, "")
        x = self.flatten() if axis is None else self.movedim(axis, 0)
        found, inverse, counts = x._runs("unique_consecutive", count, fill_value)
        return self._unique(found, inverse, counts, axis, return_inverse, return_counts)

    def _unique(
        self,
        found: Self,
        inverse: Self,
        counts: Self,
        axis: int | None,
        with_inverse: bool,
        with_counts: bool,
    ) -> Self | tuple[Self, ...]:
        values = found if axis is None else found.movedim(0, axis)
        result = [values]
        if with_inverse:
            result.append(inverse._viewed(self.shape) if axis is None else inverse)
        if with_counts:
            result.append(counts)
        return tuple(result) if len(result) > 1 else values

    def _row_order(self) -> Self:
        """Return the positions of the rows in lexicographic order; NaN is the greatest."""
        rows = self._viewed((self.shape[0], size_of(self.shape[1:])))
        mine, other = rows.unsqueeze(1), rows.unsqueeze(0)
        mine, other = mine._together("unique", other)
        less, more = precedes(other, mine), precedes(mine, other)
        differs = (less | more).cast(DType.int32)
        first = differs.cumsum(-1).eq(1) & differs._truth()
        n = self.shape[0]
        earlier = self._iota(n) < self._iota(n).unsqueeze(1)
        same = differs._truth().any(-1).logical_not()
        before = (first & less).any(-1) | (same & earlier)
        rank = before.cast(DType.int64).sum(1)
        return rank.full_like(0)._scatter("unique", "set", 0, rank, self._iota(n, DType.int64))

    def _runs(self, what: str, size: Dim, fill: Scalar | None) -> tuple[Self, Self, Self]:
        """Return the first of each run of equal rows, the run of each row, and their lengths."""
        n = self.shape[0]
        if n == 0:
            none = self.constant(0, DType.int64, (0,))
            shape = (size, *self.shape[1:])
            filled = self.constant(0 if fill is None else fill, self.dtype, shape)
            return filled, none, none.constant(0, DType.int64, (size,))
        rows = self._viewed((n, size_of(self.shape[1:])))
        later, earlier = rows._neighbours(0)
        new = later.ne(earlier).any(1)
        begins = (
            new.full_like(True)._cut({0: (0, 1, 1)})
            if n != 1
            else self.constant(True, DType.bool_, (1,))
        )
        begins = begins.concat(new, 0) if n != 1 else begins
        run = begins.cast(DType.int64).cumsum(0) - 1
        at = begins._kept(size, -1)
        missing = (at < 0).reshape(-1, *[1] * (self.ndim - 1))
        found = self._take(0, (at < 0).where(0, at))
        if fill is not None:
            found = missing.where(fill, found).cast(self.dtype)
        inside = run < size
        slots = inside.where(run, self.constant(size, DType.int64, ()))
        counts = self.constant(0, DType.int64, (size + 1,))._scatter(what, "add", 0, slots, 1)
        return found, run, counts._cut({0: (0, size, 1)})

    # -- writing -----------------------------------------------------------------------------------

    @operation
    def masked_scatter(self, mask: Operand, source: Operand) -> Self:
        """Return a copy with the elements where the mask holds replaced by values in turn.

        >>> x = cx.zeros((2, 2), "int32")
        >>> y = x.masked_scatter(cx.eye(2).bool(), cx.arange(5, 9).int()).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[5, 0], [0, 6]]
        """
        x, where = self._stretched_with(self._mask("masked_scatter", mask))
        values = self._tensor_of(source).flatten()
        if values.dtype is not self.dtype:
            raise DTypeError(
                f"masked_scatter: the values are {values.dtype}, and {self.label} is {self.dtype}",
                hint="convert one of them with cast",
            )
        flat = where.flatten()
        place = flat.cast(DType.int64).cumsum(0) - 1
        taken = values.gather(0, flat.where(place, 0)) if x.shape and values.shape != (0,) else x
        return where.where(taken._viewed(x.shape), x)

    @operation
    def index_put(
        self, indices: Sequence[Index], values: Operand, accumulate: bool = False
    ) -> Self:
        """Return a copy with x[indices] replaced by values, or with the values added.

        The indices are for the first axes, and are broadcast together; negative ones count from
        the end. Without `accumulate`, the last of several values for one place stays.

        >>> x = cx.zeros((2, 2))
        >>> y = x.index_put(([0, 1], [1, 1]), [5.0, 6.0]).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[0.0, 5.0], [0.0, 6.0]]
        """
        given = list(indices) if isinstance(indices, (tuple, list)) else [indices]
        if not 1 <= len(given) <= self.ndim:
            raise ShapeError(
                f"index_put: {len(given)} indices are given for the {self.ndim} axes of "
                f"{self.label}",
                hint="give a tuple with an index for each of the first axes",
            )
        sizes = self.shape[: len(given)]
        found = [self.index("index_put", at, size) for at, size in zip(given, sizes, strict=True)]
        found = found[0]._together("index_put", *found[1:]) if len(found) > 1 else found
        flat = found[0].cast(DType.int64)
        inside = (flat > -1) & (flat < sizes[0])
        for at, size in zip(found[1:], sizes[1:], strict=True):
            flat = flat * size + at.cast(DType.int64)
            inside = inside & (at > -1) & (at < size)
        flat = inside.where(flat, -1)
        rest = self.shape[len(given) :]
        source = self._tensor_of(values)._stretch_to("index_put", (*flat.shape, *rest))
        x = self._viewed((size_of(sizes), size_of(rest)))
        rows = source.cast(self.dtype)._viewed((size_of(flat.shape), size_of(rest)))
        at = flat.flatten()._along(0, rows.shape)
        mode = "add" if accumulate else "set"
        return x._scatter("index_put", mode, 0, at, rows)._viewed(self.shape)

    @operation
    def put(self, index: Index, source: Operand, accumulate: bool = False) -> Self:
        """Return a copy with elements, counted in row-major order, replaced, or added to.

        >>> y = cx.zeros((2, 2)).put([0, -1], [5.0, 6.0]).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[5.0, 0.0], [0.0, 6.0]]
        """
        flat = self.flatten()
        at = flat.index("put", index, flat.shape[0]).flatten()
        values = self._tensor_of(source).flatten()
        done = flat._scatter("put", "add" if accumulate else "set", 0, at, values)
        return done._viewed(self.shape)

    @operation
    def index_reduce(
        self,
        axis: int,
        index: Index,
        source: Operand,
        reduce: str,
        *,
        include_self: bool = True,
    ) -> Self:
        """Return a copy with slices scattered to positions reduced: prod, mean, amax, amin.

        >>> x = cx.ones((2,))
        >>> y = x.index_reduce(0, [0, 0], [3.0, 2.0], "prod").retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [6.0, 1.0]
        """
        x = self.atleast_1d()
        along, flat = x._axis_of("index_reduce", axis), x.index("index_reduce", index).flatten()
        values = self._tensor_of(source).atleast_1d()
        indices = flat._along(along, x.type.with_axis(along, flat.shape[0]).shape)
        done = x.scatter_reduce(along, indices, values, reduce, include_self)
        return done._viewed(self.shape)
