"""Statistics: quantiles, the most frequent value, covariances, histograms, distances."""

from __future__ import annotations

# The functions of this file use private members of its class.
# pyright: reportPrivateUsage=false
import math
from collections.abc import Sequence
from typing import Self

import numpy as np

from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import never
from luminal_lab.errors import ArgumentError, RangeError, ShapeError
from luminal_lab.tensor.arithmetic import Operand
from luminal_lab.tensor.functions import number, widened
from luminal_lab.tensor.lazy import Lazy
from luminal_lab.tensor.movement import whole
from luminal_lab.tensor.operation import on_axis, operation
from luminal_lab.tensor.product import MatrixProducts

WAYS = ("linear", "lower", "higher", "midpoint", "nearest")
"""How `quantile` takes a value between two positions."""


class Statistics(MatrixProducts):
    """Statistics of values along an axis, and distances between rows."""

    __slots__ = ()

    # -- order statistics --------------------------------------------------------------------------

    @operation
    def quantile(
        self,
        q: float | Sequence[float] | Operand,
        axis: int | None = None,
        keepdim: bool = False,
        *,
        interpolation: str = "linear",
    ) -> Self:
        """Return the value below which a share q of the values lies; NaN wins.

        Several shares stand along a new first axis. Between two values the interpolation is
        "linear", or takes the "lower", the "higher", the "nearest" one or the "midpoint".

        >>> x = cx.tensor((5,)).set([1, 5, 2, 4, 3])
        >>> y = x.quantile([0.0, 0.5, 0.9]).retrieve()
        >>> cx.execute()
        >>> y.numpy().round(4)
        array([1. , 3. , 4.6], dtype=float32)
        """
        return self._quantile("quantile", q, axis, keepdim, interpolation)

    @operation
    def nanquantile(
        self,
        q: float | Sequence[float] | Operand,
        axis: int | None = None,
        keepdim: bool = False,
        *,
        interpolation: str = "linear",
    ) -> Self:
        """Return the result of `quantile` for all values but NaNs.

        >>> x = cx.tensor((4,)).set([1, float("nan"), 2, 3])
        >>> y = x.nanquantile(0.5).retrieve()
        >>> cx.execute()
        >>> y.item()
        2.0
        """
        return self._quantile("nanquantile", q, axis, keepdim, interpolation)

    def _quantile(self, what: str, q: object, axis: int | None, keepdim: bool, way: str) -> Self:
        if way not in WAYS:
            raise ArgumentError(
                f"{what}: there is no interpolation {way!r}", hint=f"one of {', '.join(WAYS)}"
            )
        if not isinstance(q, Lazy):
            shares = np.asarray(q, np.float64)
            if shares.ndim > 1 or not ((shares >= 0) & (shares <= 1)).all():
                raise RangeError(f"{what}: q is {q}", hint="give shares from 0 to 1")
            q = float(shares) if not shares.ndim else shares.astype(self.dtype.numpy)
        share = self._tensor_of(q).cast(self.dtype)
        x = self.atleast_1d() if axis is not None else self.flatten()
        x = x.movedim(0 if axis is None else axis, -1)
        if x.shape[-1] == 0:
            raise ShapeError(
                f"{what}: {self.label} has no values along the axis", hint="use another axis"
            )
        ordered = x.sort(-1)[0]
        absent = ordered.isnan()
        if what == "quantile":
            last = ordered.constant(x.shape[-1], ordered.dtype, (1,)) - 1.0
            rank = last * share.flatten()
            rank = absent.any(-1, True).where(last, rank)
        else:
            there = absent.logical_not().cast(ordered.dtype).sum(-1, True)
            rank = (there - 1.0).clip(0.0) * share.flatten()
        if way in ("lower", "higher", "nearest"):
            rank = {"lower": rank.floor, "higher": rank.ceil, "nearest": rank.round}[way]()
        rank = rank._stretch((*ordered.shape[:-1], rank.shape[-1]))
        low, high = rank.floor(), rank.ceil()
        values = ordered.gather(-1, low.cast(DType.int64))
        if way in ("linear", "midpoint"):
            part = rank - low
            part = part if way == "linear" else part.full_like(0.5)
            values = values.lerp(ordered.gather(-1, high.cast(DType.int64)), part)
        result = values.movedim(-1, 0)  # [shares, the other axes]
        if keepdim and axis is None:
            result = result._viewed((result.shape[0], *[1] * self.ndim))
        elif keepdim and self.ndim:
            result = result.unsqueeze(1 + self._axis_of(what, axis or 0))
        return result if share.ndim else result.squeeze(0)

    @operation
    def nanmedian(self, axis: int | None = None, keepdim: bool = False) -> Self | tuple[Self, Self]:
        """Return the lower median of all values but NaNs, with its position if an axis is given.

        >>> x = cx.tensor((4,)).set([6, float("nan"), 4, 7])
        >>> y = x.nanmedian().retrieve()
        >>> cx.execute()
        >>> y.item()
        6.0
        """
        if axis is None:
            return self.flatten()._nanmedian(0, False)[0]
        return self._nanmedian(axis, keepdim)

    @on_axis
    def _nanmedian(self, axis: int, keepdim: bool) -> tuple[Self, Self]:
        along = self._axis_of("nanmedian", axis)
        if self.shape[along] == 0:
            raise ShapeError(
                f"nanmedian: axis {axis} of {self.label} is empty", hint="use another axis"
            )
        order = self.argsort(along)
        there = self.isnan().logical_not().cast(DType.int64).sum(along, True)
        indices = order.gather(along, (there - 1).clip(0) // 2)
        values = self.gather(along, indices)
        return (values, indices) if keepdim else (values.squeeze(along), indices.squeeze(along))

    @on_axis
    def mode(self, axis: int = -1, keepdim: bool = False) -> tuple[Self, Self]:
        """Return the most frequent value along an axis, of several the least, and its last place.

        >>> values, places = cx.tensor((5,)).set([3, 1, 3, 2, 1]).mode()
        >>> cx.retrieve([values, places])
        >>> cx.execute()
        >>> values.item(), places.item()
        (1.0, 4)
        """
        along = self._axis_of("mode", axis)
        x = self.movedim(along, -1)
        alike = x.unsqueeze(-1).eq(x.unsqueeze(-2))
        count = alike.cast(DType.int64).sum(-1)
        often = count.eq(count.amax(-1, True))
        largest = math.inf if x.dtype.is_float else x.dtype.limits[1]
        value = often.where(x, largest).amin(-1, True)
        at = x.eq(value).where(self._iota(x.shape[-1], DType.int64), 0).amax(-1, True)
        found = x.gather(-1, at).movedim(-1, along), at.movedim(-1, along)
        return found if keepdim else (found[0].squeeze(along), found[1].squeeze(along))

    # -- together ----------------------------------------------------------------------------------

    @operation
    def cov(
        self,
        *,
        correction: float = 1,
        fweights: Operand | None = None,
        aweights: Operand | None = None,
    ) -> Self:
        """Return the covariances of variables, one a row, from observations, one a column.

        Observations count as often as `fweights` says, and as much as `aweights` does.

        >>> x = cx.tensor((2, 3)).set([[0, 1, 2], [2, 1, 0]])
        >>> y = x.cov().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
        """
        if self.ndim > 2:
            raise ShapeError(
                f"cov: {self.label} has {self.ndim} axes, and two at most are needed",
                hint="variables are rows, and observations columns",
            )
        x = widened(self._as_float())
        x = x._viewed((1, 1)) if not x.ndim else x.unsqueeze(0) if x.ndim == 1 else x
        weights: Self | None = None
        for given in (fweights, aweights):
            if given is not None:
                part = self._tensor_of(given)._viewed((x.shape[1],)).cast(x.dtype)
                weights = part if weights is None else weights * part
        less = number("cov", "correction", correction)
        if weights is None:
            product = x - x.mean(1, True)
            norm = x.constant(x.shape[1], x.dtype, ()) - less
        else:
            total = weights.sum()
            mean = (x * weights).sum(1, True) / total
            product = x - mean
            norm = total - less
            if aweights is not None and less:
                squares = (weights * self._tensor_of(aweights).cast(x.dtype)).sum()
                norm = total - squares / total * less
        right = product if weights is None else product * weights
        result = product.matmul(right.mT) / norm.clip(0.0)
        return result.squeeze().cast(self._as_float().dtype)

    @operation
    def corrcoef(self) -> Self:
        """Return the correlations of variables, one a row, from observations, one a column.

        >>> x = cx.tensor((2, 3)).set([[0, 1, 2], [4, 2, 0]])
        >>> y = x.corrcoef().retrieve()
        >>> cx.execute()
        >>> y.numpy().round(4)
        array([[ 1., -1.],
               [-1.,  1.]], dtype=float32)
        """
        c = self.cov()
        if not c.ndim:
            return c / c
        scale = c.diagonal().sqrt()
        return (c / scale.unsqueeze(1) / scale.unsqueeze(0)).clip(-1.0, 1.0)

    @operation
    def histc(self, bins: int = 100, min: float = 0, max: float = 0) -> Self:  # PyTorch's names
        """Return how many values lie in each of equal parts of a range, the last end included.

        Without a range it goes from the smallest value to the largest.

        >>> x = cx.tensor((4,)).set([0, 1, 1.5, 4])
        >>> y = x.histc(4, 0, 4).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [1.0, 2.0, 0.0, 1.0]
        """
        count = whole("histc: bins", bins, 1)
        x = self.flatten()
        low, high = (x.constant(number("histc", "a bound", v), x.dtype, ()) for v in (min, max))
        if min > max:
            raise RangeError(f"histc: the range is {min} to {max}", hint="the smaller end is first")
        if min == max and x.shape[0] != 0:
            low, high = x.amin(), x.amax()
        alone = low.eq(high)
        low, high = alone.where(low - 1.0, low), alone.where(high + 1.0, high)
        place = ((x - low) / (high - low) * float(count)).floor().clip(0.0, count - 1.0)
        inside = x.ge(low) & x.le(high)
        slot = inside.where(place, float(count)).cast(DType.int64)
        zeros = x.constant(0, x.dtype, (count + 1,))
        return zeros._scatter("histc", "add", 0, slot, 1)._cut({0: (0, count, 1)})

    @operation
    def isin(self, test_elements: Operand, *, invert: bool = False) -> Self:
        """Return where the value is one of the test elements, or with `invert` none of them.

        >>> y = cx.arange(4).isin([1, 3]).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [False, True, False, True]
        """
        found = self.unsqueeze(-1).eq(self._tensor_of(test_elements).flatten()).any(-1)
        return ~found if invert else found

    # -- distances ---------------------------------------------------------------------------------

    @operation
    def dist(self, other: Operand, p: float = 2) -> Self:
        """Return the norm of x - y.

        >>> x = cx.tensor((2,)).set([3, 4])
        >>> y = x.dist([0.0, 0.0]).retrieve()
        >>> cx.execute()
        >>> y.item()
        5.0
        """
        return (self - self._tensor_of(other)).norm(p)

    @operation
    def cdist(self, other: Operand, p: float = 2.0) -> Self:
        """Return the distances between rows: from each of these to each of the other's.

        >>> x = cx.tensor((1, 2)).set([[0, 0]])
        >>> y = x.cdist([[3.0, 4.0], [0.0, 1.0]]).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[5.0, 1.0]]
        """
        y = self.other("cdist", other)
        for side in (self, y):
            if side.ndim < 2:
                raise ShapeError(f"cdist: {side.label} has no rows", hint="unsqueeze it first")
        if self.shape[-1] != y.shape[-1]:
            raise ShapeError(
                f"cdist: the rows differ: {self.label} and {y.label}, "
                f"so {self.shape[-1]} meets {y.shape[-1]}",
                hint="both need as many columns",
            )
        return self._apart(self.unsqueeze(-2) - y.unsqueeze(-3), p)

    @operation
    def pdist(self, p: float = 2.0) -> Self:
        """Return the distances between rows: from each to each that comes later.

        >>> x = cx.tensor((3, 1)).set([[0], [1], [3]])
        >>> y = x.pdist().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [1.0, 3.0, 2.0]
        """
        if self.ndim != 2:
            raise ShapeError(
                f"pdist: {self.label} has {self.ndim} axes, and must have two",
                hint="they are rows and features",
            )
        count = whole(f"pdist: the rows of {self.label}", self.shape[0])
        first, second = np.triu_indices(count, 1)
        return self._apart(self.index_select(0, first) - self.index_select(0, second), p)

    def _apart(self, difference: Self, p: float) -> Self:
        if difference.shape[-1] == 0:
            return difference.sum(-1)
        return difference.norm(p, -1)

    @operation
    def renorm(self, p: float, axis: int, maxnorm: float) -> Self:
        """Return a copy whose slices along an axis have norms of at most `maxnorm`.

        >>> x = cx.tensor((2, 2)).set([[3, 4], [0, 1]])
        >>> y = x.renorm(2, 0, 1.0).retrieve()
        >>> cx.execute()
        >>> y.numpy().round(4)
        array([[0.6, 0.8],
               [0. , 1. ]], dtype=float32)
        """
        along, most = self._axis_of("renorm", axis), number("renorm", "maxnorm", maxnorm)
        others = tuple(k for k in range(self.ndim) if k != along)
        if not others or never(self.ndim > 1):
            raise ShapeError(
                f"renorm: {self.label} has {self.ndim} axes, and needs two or more",
                hint="unsqueeze it first",
            )
        size = self.norm(p, others, True)
        scale = (size > most).where((size + 1e-7).recip() * most, 1.0)
        return self * scale.cast(self.dtype)
