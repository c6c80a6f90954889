"""Sums, extremes and moments along axes; running ones; sorted values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from luminal_lab.core.dtypes import DType
from luminal_lab.importing.aten.table import along, methods
from luminal_lab.tensor import Tensor

Axes: TypeAlias = Sequence[int] | None

methods(
    """
    any any.dim all all.dim argmax argmin cumsum cumprod logcumsumexp trace
    kthvalue median.dim=median
    """,
    along,
)


def _axes(dim: Axes | int) -> list[int] | int | None:
    """Return axes as ours are given; ATen's empty list stands for all."""
    return dim if isinstance(dim, int) else list(dim) if dim else None


@along("sum", "sum.dim_IntList")
def total(x: Tensor, dim: Axes = None, keepdim: bool = False, dtype: DType | None = None) -> Tensor:
    """Return the sum."""
    return x.sum(_axes(dim), keepdim, dtype)


@along("nansum")
def nansum(
    x: Tensor, dim: Axes = None, keepdim: bool = False, dtype: DType | None = None
) -> Tensor:
    """Return the sum of all but NaNs."""
    return x.nansum(_axes(dim), keepdim, dtype)


@along("mean", "mean.dim")
def mean(x: Tensor, dim: Axes = None, keepdim: bool = False, dtype: DType | None = None) -> Tensor:
    """Return the mean."""
    return x.mean(_axes(dim), keepdim, dtype)


@along("any.dims")
def any_of(x: Tensor, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """Return whether any element is not 0."""
    return x.any(_axes(dim), keepdim)


@along("all.dims")
def all_of(x: Tensor, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """Return whether all elements are not 0."""
    return x.all(_axes(dim), keepdim)


@along("amax")
def amax(x: Tensor, dim: Axes = (), keepdim: bool = False) -> Tensor:
    """Return the largest value."""
    return x.amax(_axes(dim), keepdim)


@along("amin")
def amin(x: Tensor, dim: Axes = (), keepdim: bool = False) -> Tensor:
    """Return the smallest value."""
    return x.amin(_axes(dim), keepdim)


@along("max")
def max_of(x: Tensor) -> Tensor:
    """Return the largest value of all."""
    return x.amax()


@along("min")
def min_of(x: Tensor) -> Tensor:
    """Return the smallest value of all."""
    return x.amin()


@along("max.dim")
def max_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the largest value along an axis, and its position."""
    return x.amax(dim, keepdim), x.argmax(dim, keepdim)


@along("min.dim")
def min_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the smallest value along an axis, and its position."""
    return x.amin(dim, keepdim), x.argmin(dim, keepdim)


@along("aminmax")
def aminmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the smallest and the largest value."""
    return x.aminmax(dim, keepdim)


@along("prod", "prod.dim_int")
def product(
    x: Tensor, dim: int | None = None, keepdim: bool = False, dtype: DType | None = None
) -> Tensor:
    """Return the product."""
    return x.prod(dim, keepdim, dtype=dtype)


@along("logsumexp")
def logsumexp(x: Tensor, dim: Axes, keepdim: bool = False) -> Tensor:
    """Return log(sum(exp(x)))."""
    return x.logsumexp(_axes(dim), keepdim)


@along("cummax")
def cummax(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return the largest value up to each position, and the last position of it."""
    return x.cummax(dim, return_indices=True)


@along("cummin")
def cummin(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return the smallest value up to each position, and the last position of it."""
    return x.cummin(dim, return_indices=True)


# -- moments ---------------------------------------------------------------------------------------


@along("var.dim", "var")
def var(x: Tensor, dim: Axes = None, unbiased: bool = True, keepdim: bool = False) -> Tensor:
    """Return the variance."""
    return x.var(_axes(dim), int(unbiased), keepdim)


@along("var.correction")
def var_corrected(
    x: Tensor, dim: Axes = None, correction: float | None = None, keepdim: bool = False
) -> Tensor:
    """Return the variance over n - correction elements."""
    return x.var(_axes(dim), 1 if correction is None else correction, keepdim)


@along("std.dim", "std")
def std(x: Tensor, dim: Axes = None, unbiased: bool = True, keepdim: bool = False) -> Tensor:
    """Return the standard deviation."""
    return x.std(_axes(dim), int(unbiased), keepdim)


@along("std.correction")
def std_corrected(
    x: Tensor, dim: Axes = None, correction: float | None = None, keepdim: bool = False
) -> Tensor:
    """Return the standard deviation over n - correction elements."""
    return x.std(_axes(dim), 1 if correction is None else correction, keepdim)


@along("var_mean.correction")
def var_mean(
    x: Tensor, dim: Axes = None, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the variance and the mean."""
    return x.var_mean(_axes(dim), 1 if correction is None else correction, keepdim)


@along("linalg_vector_norm")
def vector_norm(
    x: Tensor,
    ord: float = 2,  # noqa: A002  # PyTorch's name
    dim: Axes = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Tensor:
    """Return the norm of vectors."""
    x = x if dtype is None else x.cast(dtype)
    return x.norm(ord, _axes(dim), keepdim)


@along("norm.ScalarOpt_dim", "norm.Scalar")
def norm(x: Tensor, p: float | None = 2, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """Return the norm of vectors."""
    return x.norm(2 if p is None else p, _axes(dim), keepdim)


@along("count_nonzero.dim_IntList", "count_nonzero")
def count_nonzero(x: Tensor, dim: Axes | int = None) -> Tensor:
    """Return the number of elements that are not 0."""
    return x.count_nonzero(_axes(dim))


# -- order -----------------------------------------------------------------------------------------


@along("sort")
def sort(x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Return values in order, and where they were."""
    at = x.argsort(dim, descending)
    return x.gather(dim, at), at


@along("sort.stable")
def sort_stable(
    x: Tensor, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    """Return values in order, and where they were."""
    return sort(x, dim, descending)


@along("argsort", "argsort.stable")
def argsort(x: Tensor, *given: object, **named: object) -> Tensor:
    """Return where values in order are."""
    stable = [flag for flag in given if isinstance(flag, bool)] if len(given) > 2 else []
    rest = given[1:] if stable else given
    options = {name: value for name, value in named.items() if name != "stable"}
    return sort(x, *rest, **options)[1]  # pyright: ignore[reportArgumentType]  # as in the schema


@along("topk")
def topk(
    x: Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,  # noqa: A002  # PyTorch's name
) -> tuple[Tensor, Tensor]:
    """Return the k largest values along an axis, and their positions."""
    values, at = x.topk(k, dim, largest)
    return values, at


@along("dist")
def dist(x: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """Return the norm of a difference."""
    return (x - other).norm(p)


@along("renorm")
def renorm(x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Return x with each part along an axis shortened to a norm."""
    axes = [axis for axis in range(x.ndim) if axis != dim % x.ndim]
    norms = x.norm(p, axes, keepdim=True)
    return x * (norms > maxnorm).where(maxnorm / (norms + 1e-7), 1.0)
