"""Reductions over axes, and scans along one: sums, extremes, products, moments, positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, Self, overload

from luminal_lab.core.builder import DimLike
from luminal_lab.core.dims import Dim, Expr, bounds, known, maximum
from luminal_lab.core.dtypes import DType, DTypeLike, promote_all
from luminal_lab.core.op import Reduce, Scalar, size_of, tuple_text
from luminal_lab.core.ops import MaxReduce, SumReduce, Window
from luminal_lab.errors import DTypeError, ShapeError
from luminal_lab.tensor import formulas
from luminal_lab.tensor.arithmetic import Operand
from luminal_lab.tensor.functions import beside, in_float, number, widened
from luminal_lab.tensor.lazy import Axis
from luminal_lab.tensor.movement import limited, listed, whole
from luminal_lab.tensor.operation import on_axis, operation
from luminal_lab.tensor.special import Special

RADIX = 8
"""The number of positions that one step of a scan combines."""


class Reduction(Special):
    """Reductions over one axis, several, or all (None); with `keepdim` they stay with size 1.

    An empty tuple also means all axes, except in `any` and `all`, as in PyTorch.
    """

    __slots__ = ()

    # -- what they share ---------------------------------------------------------------------------

    def _mirrored(self) -> Self:
        """Return values in the opposite order: -x, or for integers a mirror without overflow."""
        if self.dtype.is_float:
            return self.neg()
        return ~self if self.dtype is DType.bool_ else self.neg() + sum(self.dtype.limits)

    @property
    def _least(self) -> Scalar:
        """The smallest value of the dtype."""
        return -math.inf if self.dtype.is_float else self.dtype.limits[0]

    def _reducing(self, what: str, axis: Axis) -> tuple[int, ...]:
        """Return the axes of a reduction: all for None and, as in PyTorch, for ()."""
        return self._axes_of(what, axis) or tuple(range(self.ndim))

    def _reduced(self, op: type[Reduce], axes: tuple[int, ...], keepdim: bool = True) -> Self:
        """Return this tensor reduced over axes, which stay with size 1 if `keepdim` is set."""
        result = self
        for axis in reversed(axes):
            result = result._through(op, axis)
        if keepdim:
            return result
        return result._viewed(tuple(dim for k, dim in enumerate(self.shape) if k not in axes))

    def _filled(self, what: str, axes: tuple[int, ...]) -> Self:
        """Return this tensor, or raise if an axis is empty; runs check symbolic axes."""
        spans: dict[int, tuple[Dim, Dim, int]] = {}
        for axis in axes:
            size = self.shape[axis]
            if size == 0:
                raise ShapeError(
                    f"{what}: axis {axis} of {self.label} is empty, and has no {what}",
                    hint="reduce another axis, or pad this one first",
                )
            if not known(size >= 1):  # the run checks that this slice fits
                spans[axis] = (0, maximum(size, 1), 1)
        return self._cut(spans)

    def _size(self, axes: tuple[int, ...]) -> Dim:
        return size_of([self.shape[axis] for axis in axes])

    def _over(self, count: Dim, less: float = 0) -> Self:
        """Return the values divided by a count minus a correction, or by 0 if that is negative."""
        if isinstance(count, Expr):
            given = self.full_like(count)
            return self * ((given + -less).clip(0) if less else given).recip()
        return self * (1 / (count - less) if count > less else math.inf)

    def _root(self) -> Self:
        """Return the square root, with the gradient 0 at 0."""
        positive = self > 0
        return positive.where(positive.where(self, 1.0).sqrt(), self)

    # -- sums and means ----------------------------------------------------------------------------

    @operation
    def sum(self, axis: Axis = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Self:
        """Return the sum; integers and bools give int64.

        >>> print(cx.tensor((2, 3), name="x").sum(1).lowering())
        %1 = sum_reduce{axis = 1} %x : f32[2, 1]
        %2 = reshape{shape = [2]} %1 : f32[2]
        """
        axes, x = self._reducing("sum", axis), self._summed_as(dtype)
        # A single reduction of 16-bit floats sums in float32 anyway.
        wide = widened(x) if len(axes) > 1 else x
        total = wide._reduced(SumReduce, axes, keepdim)
        return total if wide is x else total.cast(x.dtype)

    def _summed_as(self, dtype: DTypeLike | None) -> Self:
        if dtype is None and self.type.dtype.kind == "float":
            return self
        return self.cast(DType.int64 if dtype is None else dtype)

    @operation
    def sum_to_size(self, *size: DimLike | Sequence[DimLike]) -> Self:
        """Return the sum that has a shape which broadcasts to this tensor's.

        >>> cx.tensor((4, 2, 3)).sum_to_size(2, 1).shape
        (2, 1)
        """
        shape = self.graph.as_shape(tuple(listed(size)))
        new = self.ndim - len(shape)
        pairs = list(zip(self.shape[max(new, 0) :], shape, strict=False))
        if new < 0 or any(b not in (1, a) for a, b in pairs):
            raise ShapeError(
                f"sum_to_size: {self.label} has no sum of the shape {tuple_text(shape)}",
                hint="a size is that of the tensor, or 1; axes at the front may be missing",
            )
        axes = [k + new for k, (a, b) in enumerate(pairs) if a != b] + list(range(new))
        return self.sum(sorted(axes), True)._viewed(shape) if axes else self

    @operation
    def nansum(
        self, axis: Axis = None, keepdim: bool = False, dtype: DTypeLike | None = None
    ) -> Self:
        """Return the sum of all but NaNs.

        >>> x = cx.tensor((3,)).set([1, float("nan"), 4])
        >>> y = x.nansum().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        5.0
        """
        x = self.isnan().where(0, self) if self.dtype.is_float else self
        return x.sum(axis, keepdim, dtype)

    @operation
    def count_nonzero(self, axis: Axis = None, *, keepdim: bool = False) -> Self:
        """Return the number of elements that are not 0.

        >>> x = cx.tensor((2, 3)).set([[0, 5, 6], [0, 0, -1]])
        >>> y = x.count_nonzero(1).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [2, 1]
        """
        return self._truth().sum(axis, keepdim)

    @operation
    def mean(
        self, axis: Axis = None, keepdim: bool = False, dtype: DTypeLike | None = None
    ) -> Self:
        """Return the mean; integers and bools give float32, and an empty axis gives NaN.

        >>> print(cx.tensor((2, 4), name="x").mean(1, keepdim=True).lowering())
        %1 = sum_reduce{axis = 1} %x : f32[2, 1]
        %2 = constant{value = 0.25} : f32[2, 1]
        %3 = mul %1, %2 : f32[2, 1]
        """
        axes = self._reducing("mean", axis)
        x = self if dtype is None else self.cast(dtype)
        if dtype is not None and not x.dtype.is_float:
            raise DTypeError(
                f"mean: dtype is {x.dtype}, and a mean is a float",
                hint=f'cast the mean, as in x.mean().cast("{x.dtype}")',
            )
        return x._mean(axes, keepdim)

    @in_float
    def _mean(self, axes: tuple[int, ...], keepdim: bool) -> Self:
        return self._reduced(SumReduce, axes, keepdim)._over(self._size(axes))

    @operation
    def nanmean(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """Return the mean of all but NaNs.

        >>> x = cx.tensor((3,)).set([1, float("nan"), 4])
        >>> y = x.nanmean().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        2.5
        """
        axes, x = self._reducing("nanmean", axis), widened(self._as_float())
        there = self.isnan().logical_not().cast(x.dtype)
        total = x.nansum(axes, keepdim) * there.sum(axes, keepdim).recip()
        return total.cast(self._as_float().dtype)

    @operation
    def var(
        self,
        axis: Axis = None,
        correction: float | None = 1,
        keepdim: bool = False,
        *,
        unbiased: bool | None = None,
    ) -> Self:
        """Return the mean squared distance from the mean, over n - correction elements.

        >>> cx.tensor((2, 5)).var(1).op_counts()
        {'add': 1, 'constant': 3, 'expand': 1, 'mul': 4, 'reshape': 1, 'sum_reduce': 2}
        """
        return self._moments("var", axis, correction, keepdim, unbiased)[0]

    @operation
    def std(
        self,
        axis: Axis = None,
        correction: float | None = 1,
        keepdim: bool = False,
        *,
        unbiased: bool | None = None,
    ) -> Self:
        """Return the square root of `var`.

        >>> x = cx.tensor((4,)).set([2, 2, 4, 4])
        >>> y = x.std(correction=0).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        1.0
        """
        return self._moments("std", axis, correction, keepdim, unbiased)[0]

    @operation
    def var_mean(
        self,
        axis: Axis = None,
        correction: float | None = 1,
        keepdim: bool = False,
        *,
        unbiased: bool | None = None,
    ) -> tuple[Self, Self]:
        """Return `var` and `mean`.

        >>> spread, mean = cx.tensor((4,)).set([2, 2, 4, 4]).var_mean(correction=0)
        >>> cx.retrieve([spread, mean])
        >>> cx.execute()
        >>> spread.item(), mean.item()
        (1.0, 3.0)
        """
        return self._moments("var_mean", axis, correction, keepdim, unbiased)

    @operation
    def std_mean(
        self,
        axis: Axis = None,
        correction: float | None = 1,
        keepdim: bool = False,
        *,
        unbiased: bool | None = None,
    ) -> tuple[Self, Self]:
        """Return `std` and `mean`.

        >>> spread, mean = cx.tensor((2, 2)).set([[1, 3], [0, 8]]).std_mean(1, correction=0)
        >>> cx.retrieve([spread, mean])
        >>> cx.execute()
        >>> spread.tolist(), mean.tolist()
        ([1.0, 4.0], [2.0, 4.0])
        """
        return self._moments("std_mean", axis, correction, keepdim, unbiased)

    def _moments(
        self,
        what: str,
        axis: Axis,
        correction: float | None,
        keepdim: bool,
        unbiased: bool | None = None,
    ) -> tuple[Self, Self]:
        if isinstance(axis, bool):  # PyTorch's var(False)
            axis, unbiased = None, axis
        axes, x = self._reducing(what, axis), self._as_float()
        less = 1.0 if correction is None else number(what, "correction", correction)
        less = less if unbiased is None else float(unbiased)
        wide = widened(x)
        mean = wide._mean(axes, True)
        away = wide + -mean
        spread = (away * away)._reduced(SumReduce, axes)._over(self._size(axes), less)
        spread = spread._spells("var", wide, settings=(axes, less))
        if "std" in what:
            spread = spread._root()._spells("std", wide, settings=(axes, less))
        both = (moment if keepdim else moment.squeeze(axes) for moment in (spread, mean))
        first, second = (moment.cast(x.dtype) for moment in both)
        return first, second

    @operation
    def norm(self, p: float | str = 2, axis: Axis = None, keepdim: bool = False) -> Self:
        """Return the norm (sum |x|^p)^(1/p); p may be inf (the largest), -inf, or 0 (a count).

        >>> cx.tensor((2, 3)).norm(2, 1, keepdim=True).op_counts()
        {'constant': 2, 'less_than': 1, 'mul': 1, 'sqrt': 1, 'sum_reduce': 1, 'where': 2}
        """
        axes = self._reducing("norm", axis)
        power = 2.0 if p == "fro" else number("norm", "p", p)  # pyright: ignore[reportArgumentType]
        x = self._filled("norm", axes) if power < 0 or power == math.inf else self
        return x._norm(power, axes, keepdim)

    @in_float
    def _norm(self, p: float, axes: tuple[int, ...], keepdim: bool) -> Self:
        if p == 0:
            return self._truth().cast(self.dtype)._reduced(SumReduce, axes, keepdim)
        total = self._norm_kept(p, axes)._spells("norm", self, settings=(p, axes))
        return total if keepdim else total.squeeze(axes)

    def _norm_kept(self, p: float, axes: tuple[int, ...]) -> Self:
        if p == 2 and self._size(axes) != 1:  # a single square might overflow
            return (self * self)._reduced(SumReduce, axes)._root()
        size = self.abs()
        if p == math.inf or self._size(axes) == 1:
            return size._reduced(MaxReduce, axes)
        if p == -math.inf:
            return size.min(axes, True)
        if p == 1:
            return size._reduced(SumReduce, axes)
        if p < 0:  # a power of -0 is -inf
            size = formulas.is_zero(self).where(0.0, size)
        return size.pow(p)._reduced(SumReduce, axes).pow(1 / p)

    @operation
    def logsumexp(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """Return log(sum(exp(x))) without overflow.

        >>> x = cx.tensor((2,)).set([1000, 0])
        >>> y = x.logsumexp().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        1000.0
        """
        return self._log_sum_exp(self._reducing("logsumexp", axis), keepdim)

    @in_float
    def _log_sum_exp(self, axes: tuple[int, ...], keepdim: bool) -> Self:
        top = self._reduced(MaxReduce, axes)
        top = top.isfinite().where(top, 0.0)
        total = (self + -top).exp()._reduced(SumReduce, axes).log() + top
        total = total._spells("logsumexp", self)
        return total if keepdim else total.squeeze(axes)

    @operation
    def trace(self) -> Self:
        """Return the sum of a matrix's diagonal.

        >>> y = cx.arange(9).reshape(3, 3).trace().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        12
        """
        if self.ndim != 2:
            raise ShapeError(
                f"trace: {self.label} is not a matrix",
                hint="take diagonal() over two axes and sum it",
            )
        return self.diagonal().sum()

    # -- extremes ----------------------------------------------------------------------------------

    @operation
    def max(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """Return the largest value, and only that (`argmax` gives its position); NaN wins.

        >>> print(cx.tensor((2, 3), name="x").max(1, keepdim=True).lowering())
        %1 = max_reduce{axis = 1} %x : f32[2, 1]
        """
        axes = self._reducing("max", axis)
        x = self._filled("max", axes)
        return x._extreme(x._reduced(MaxReduce, axes), axes, axis is None, keepdim)

    @operation
    def min(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """Return the smallest value, and only that (`argmin` gives its position); NaN wins.

        >>> print(cx.tensor((3,), name="x").min(keepdim=True).lowering())
        %1 = constant{value = -1.0} : f32[3]
        %2 = mul %x, %1 : f32[3]
        %3 = max_reduce{axis = 0} %2 : f32[1]
        %4 = constant{value = -1.0} : f32[1]
        %5 = mul %3, %4 : f32[1]
        """
        axes = self._reducing("min", axis)
        x = self._filled("min", axes)
        least = x._mirrored()._reduced(MaxReduce, axes)._mirrored()
        return x._extreme(least, axes, axis is None, keepdim)

    @operation
    def amax(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """Return the result of `max`; where it is NaN, so is the gradient of all its elements.

        >>> y = cx.arange(6).reshape(2, 3).amax((0, 1)).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        5
        """
        return self.max(self._reducing("amax", axis), keepdim)

    @operation
    def amin(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """Return the result of `min`; where it is NaN, so is the gradient of all its elements.

        >>> y = cx.arange(6).reshape(2, 3).amin(1).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0, 3]
        """
        return self.min(self._reducing("amin", axis), keepdim)

    def _extreme(self, value: Self, axes: tuple[int, ...], whole: bool, keepdim: bool) -> Self:
        """Return an extreme over axes, whose gradient all equal elements share."""
        if self.dtype.is_float and (whole or len(axes) > 1):
            value = value._spells("extreme", self, settings=(axes, whole))
        return value if keepdim else value.squeeze(axes)

    @operation
    def aminmax(self, axis: Axis = None, keepdim: bool = False) -> tuple[Self, Self]:
        """Return the smallest value and the largest.

        >>> low, high = cx.tensor((3,)).set([4, -1, 2]).aminmax()
        >>> cx.retrieve([low, high])
        >>> cx.execute()
        >>> low.item(), high.item()
        (-1.0, 4.0)
        """
        return self.min(axis, keepdim), self.max(axis, keepdim)

    @operation
    def any(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """Return whether any element is not 0; False for empty axes.

        >>> y = cx.arange(4).reshape(2, 2).eq(3).any(1).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [False, True]
        """
        return self._truth()._reduced(MaxReduce, self._axes_of("any", axis), keepdim)

    @operation
    def all(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """Return whether all elements are not 0; True for empty axes.

        >>> y = cx.arange(4).reshape(2, 2).all(1).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [False, True]
        """
        return ~self.logical_not().any(axis, keepdim)

    @on_axis
    def argmax(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """Return the first position of the largest value (NaN, if there is one) as int64.

        None counts the elements in row-major order.

        >>> cx.tensor((2, 3), "int32").argmax(1).op_counts()  # doctest: +NORMALIZE_WHITESPACE
        {'add': 1, 'constant': 3, 'expand': 2, 'flip': 1, 'iota': 1, 'less_than': 1,
         'max_reduce': 2, 'mul': 1, 'reshape': 2, 'where': 1}
        """
        return self._first_position("argmax", axis, keepdim)

    @on_axis
    def argmin(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """Return the first position of the smallest value (NaN, if there is one) as int64.

        >>> x = cx.tensor((2, 3)).set([[5, 2, 7], [1, 8, 1]])
        >>> y = x.argmin(1).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [1, 0]
        """
        return self._first_position("argmin", axis, keepdim)

    def _first_position(self, what: str, axis: int | None, keepdim: bool) -> Self:
        along = 0 if axis is None else self._axis_of(what, axis)
        x = self._filled(what, tuple(range(self.ndim)) if axis is None else (along,))
        x = x._mirrored() if what == "argmin" else x
        if axis is None:
            x = x._viewed((size_of(x.shape),))
        top = x._apply(MaxReduce(along))
        less = x < top
        if x.dtype.is_float:  # a square is above -1 unless it is NaN
            less = less | ((top * top > -1) < (x * x > -1))
        # Counted from the back, the first of equals has the largest number.
        size = x.shape[along]
        back = self._iota(size, DType.int64).flip().reshape(size, *[1] * (x.ndim - 1 - along))
        position = -less.where(0, back)._apply(MaxReduce(along)) + (size - 1)
        if axis is None:
            return position._viewed((1,) * self.ndim if keepdim else ())
        return position if keepdim else position.squeeze(along)

    # -- products ----------------------------------------------------------------------------------

    @operation
    def prod(
        self, axis: Axis = None, keepdim: bool = False, dtype: DTypeLike | None = None
    ) -> Self:
        """Return the product, by halves of the axis; integers and bools give int64.

        A symbolic axis is padded with ones to its upper bound. Without a bound, the product is
        2 to the sum of logarithms, which for integers is exact only up to 2**45 or so.

        >>> cx.tensor((5,)).prod().op_counts()
        {'mul': 3, 'reshape': 1, 'slice': 5}
        """
        axes, x = self._reducing("prod", axis), self._summed_as(dtype)
        result = widened(x)
        for along in reversed(axes):
            result = result._product(along)
        return (result if keepdim else result.squeeze(axes)).cast(x.dtype)

    def _product(self, axis: int) -> Self:
        x, size = self, self.shape[axis]
        if isinstance(size, Expr):
            high = bounds(size)[1]
            if high is None:
                return x._unbounded_product(axis)
            x, size = x.pad_along(axis, 0, high - size, 1), high
        if size == 0:
            shape = tuple(1 if k == axis else dim for k, dim in enumerate(x.shape))
            return x.constant(1, x.dtype, shape)
        odd: list[Self] = []
        while size > 1:
            if size % 2:
                odd.append(x._cut({axis: (size - 1, size, 1)}))
            size //= 2
            x = x._cut({axis: (0, size, 1)}) * x._cut({axis: (size, 2 * size, 1)})
        for left in odd:
            x = x * left
        return x

    def _unbounded_product(self, axis: int) -> Self:
        x = self if self.dtype.is_float else self.cast(DType.float64)
        size, negative = x.abs(), x < 0
        zero = size < beside(x.dtype, 0, 1)
        power = zero.where(1.0, size).log2().sum(axis, True).exp2()
        power = (negative.sum(axis, True) % 2 > 0).where(-power, power)
        power = power * zero.any(axis, True).where(0.0, power.full_like(1))
        return power if self.dtype.is_float else power.round_to_even().cast(self.dtype)

    # -- scans -------------------------------------------------------------------------------------

    @on_axis
    def cumsum(self, axis: int, dtype: DTypeLike | None = None) -> Self:
        """Return the sums up to each position, in steps over windows that grow eightfold.

        >>> print(cx.tensor((6,), name="x").cumsum(0).lowering())
        %1 = pad{before = [5], after = [0]} %x : f32[11]
        %2 = window{axis = 0, size = 6, stride = 1, dilation = 1} %1 : f32[6, 6]
        %3 = sum_reduce{axis = 1} %2 : f32[6, 1]
        %4 = reshape{shape = [6]} %3 : f32[6]
        """
        along, x = self._axis_of("cumsum", axis), self._summed_as(dtype)
        return widened(x)._scan(along, 0, lambda part: part.sum(-1)).cast(x.dtype)

    @on_axis
    def cumprod(self, axis: int, dtype: DTypeLike | None = None) -> Self:
        """Return the products up to each position.

        >>> y = cx.arange(1, 6).cumprod(0).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [1, 2, 6, 24, 120]
        """
        along, x = self._axis_of("cumprod", axis), self._summed_as(dtype)
        return widened(x)._scan(along, 1, lambda part: part.prod(-1)).cast(x.dtype)

    @overload
    def cummax(self, axis: int, *, return_indices: Literal[False] = False) -> Self: ...
    @overload
    def cummax(self, axis: int, *, return_indices: Literal[True]) -> tuple[Self, Self]: ...
    @on_axis
    def cummax(self, axis: int, *, return_indices: bool = False) -> Self | tuple[Self, Self]:
        """Return the largest value up to each position, on request with the last position of it.

        NaN wins.

        >>> x = cx.tensor((5,)).set([3, 1, 4, 1, 5])
        >>> y = x.cummax(0).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [3.0, 3.0, 4.0, 4.0, 5.0]
        """
        along = self._axis_of("cummax", axis)
        top = self._scan(along, self._least, lambda part: part.max(-1))
        top = top._spells("cummax", self, settings=(along,))
        return (top, self._latest(top, along)) if return_indices else top

    @overload
    def cummin(self, axis: int, *, return_indices: Literal[False] = False) -> Self: ...
    @overload
    def cummin(self, axis: int, *, return_indices: Literal[True]) -> tuple[Self, Self]: ...
    @on_axis
    def cummin(self, axis: int, *, return_indices: bool = False) -> Self | tuple[Self, Self]:
        """Return the smallest value up to each position, on request with the last position of it.

        NaN wins.

        >>> x = cx.tensor((5,)).set([3, 1, 4, 1, 5])
        >>> y = x.cummin(0).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [3.0, 1.0, 1.0, 1.0, 1.0]
        """
        along, x = self._axis_of("cummin", axis), self._mirrored()
        top = x._scan(along, x._least, lambda part: part.max(-1))
        least = top._mirrored()._spells("cummax", self, settings=(along,))
        return (least, self._latest(least, along)) if return_indices else least

    def _latest(self, extreme: Self, axis: int) -> Self:
        """Return the last position up to each one where the value is the extreme so far."""
        alike = self.eq(extreme) | self.isnan()  # where NaN is the extreme, the rest is no NaN
        at = self._iota(self.shape[axis], DType.int64)._along(axis, self.shape)
        return alike.where(at, 0)._scan(axis, 0, lambda part: part.max(-1))

    @on_axis
    def logcumsumexp(self, axis: int) -> Self:
        """Return the `logsumexp` up to each position.

        >>> y = cx.zeros((4,)).logcumsumexp(0).exp().round(4).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        along, x = self._axis_of("logcumsumexp", axis), self._as_float()
        return widened(x)._scan(along, x._least, lambda part: part.logsumexp(-1)).cast(x.dtype)

    def _scan(self, axis: int, neutral: Scalar, combine: Callable[[Self], Self]) -> Self:
        """Return the result of `combine`, which reduces the last axis, up to each position.

        Each step combines windows of the previous step's results, at positions as far
        apart as that step's windows reached. A size without a bound takes a single step.
        """
        size = self.shape[axis]
        high = bounds(size)[1]
        longest = maximum(size, 1)
        steps: list[tuple[Dim, int]] = [] if high is not None else [(longest, 1)]
        reach = 0 if high is not None else longest - 1  # how far back all steps so far reach
        dilation = 1
        while high is not None and reach < high - 1:
            window = min(RADIX, -((reach + 1 - high) // dilation) + 1)
            steps.append((window, dilation))
            reach += dilation * (window - 1)
            dilation *= RADIX
        # An empty axis has no window; an extra position gives one, which is cut off again.
        x = self.pad_along(axis, reach, longest - size, neutral) if steps else self
        for window, dilation in steps:
            x = combine(x._apply(Window(axis, window, 1, dilation)))
        return x._cut({axis: (0, size, 1)}) if longest != size else x

    # -- neighbours --------------------------------------------------------------------------------

    @operation
    def differences(
        self,
        n: int = 1,
        axis: int = -1,
        prepend: Operand | None = None,
        append: Operand | None = None,
    ) -> Self:
        """Return each position minus the previous one, n times over; PyTorch's `diff`.

        What is prepended and appended stands before the first position and after the last one.

        >>> x = cx.tensor((4,)).set([1, 4, 9, 16])
        >>> y = x.differences().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [3.0, 5.0, 7.0]
        """
        along, x = self._axis_of("differences", axis), self
        if n != 0 and (prepend is not None or append is not None):
            ends = [x if part is None else self._tensor_of(part) for part in (prepend, append)]
            whole_axis = [
                *([] if prepend is None else ends[:1]),
                x,
                *([] if append is None else ends[1:]),
            ]
            return x.join("differences", whole_axis, along).differences(n, along)
        high = bounds(self.shape[along])[1]
        times = whole("differences: n", n, 0)
        times = times if high is None else min(times, high)  # then nothing is left
        limited("differences", 5 * times)
        for _ in range(times):
            later, earlier = x._neighbours(along)
            x = later ^ earlier if x.dtype is DType.bool_ else later - earlier
        return x

    @operation
    def trapezoid(self, x: Operand | None = None, dx: Operand = 1.0, axis: int = -1) -> Self:
        """Return the integral along an axis by trapezoids, at positions x or at a distance dx.

        >>> x = cx.tensor((3,)).set([0, 1, 4])
        >>> y = (x * 2).trapezoid(x).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        16.0
        """
        along = self._axis_of("trapezoid", axis)
        later, earlier = widened(self._as_float())._neighbours(along)
        wanted = self._as_float().dtype
        if x is not None:
            at = self._tensor_of(x)
            wanted = promote_all([(wanted, self.ndim), (at.dtype, at.ndim)])
            dx = at.differences(1, -1 if at.ndim == 1 else along)
            if at.ndim == 1:
                dx = dx._viewed((dx.shape[0],) + (1,) * (self.ndim - 1 - along))
        return ((later + earlier) * 0.5 * dx).sum(along).cast(wanted)

    def _neighbours(self, axis: int) -> tuple[Self, Self]:
        size = self.shape[axis]
        count = maximum(size - 1, 0)
        return self._cut({axis: (size - count, size, 1)}), self._cut({axis: (0, count, 1)})
