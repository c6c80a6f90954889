"""Reductions over axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from luminal_lab.importing.onnx_ops.table import Call, Sizes, axis_of, op, whole
from luminal_lab.tensor import Tensor

Axes = tuple[int, ...]


def _log_sum_exp(x: Tensor, axes: Axes) -> Tensor:
    return (
        x.logsumexp(axes, keepdim=True)
        if 0 not in [x.shape[k] for k in axes]
        else _empty(x, axes, -math.inf)
    )


def _empty(x: Tensor, axes: Axes, value: float) -> Tensor:
    """Return the result for axes without elements."""
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    low, high = x.dtype.limits if not x.dtype.is_float else (-math.inf, math.inf)
    number = value if x.dtype.is_float or math.isfinite(value) else low if value < 0 else high
    if not x.dtype.is_float:
        number = bool(number) if x.dtype.kind == "bool" else int(number)
    return x.constant(number, x.dtype, shape)


def _extreme(x: Tensor, axes: Axes, most: bool) -> Tensor:
    if 0 in [x.shape[k] for k in axes]:
        return _empty(x, axes, -math.inf if most else math.inf)
    if x.dtype.kind == "bool":
        return x.any(axes, keepdim=True) if most else x.all(axes, keepdim=True)
    return x.amax(axes, keepdim=True) if most else x.amin(axes, keepdim=True)


def _product(x: Tensor, axes: Axes) -> Tensor:
    for axis in axes:
        x = x.prod(axis, keepdim=True)
    return x


REDUCTIONS: dict[str, Callable[[Tensor, Axes], Tensor]] = {
    "ReduceSum": lambda x, axes: x.sum(axes, keepdim=True),
    "ReduceMean": lambda x, axes: x.mean(axes, keepdim=True),
    "ReduceMax": lambda x, axes: _extreme(x, axes, True),
    "ReduceMin": lambda x, axes: _extreme(x, axes, False),
    "ReduceProd": _product,
    "ReduceL1": lambda x, axes: x.abs().sum(axes, keepdim=True),
    "ReduceL2": lambda x, axes: x.square().sum(axes, keepdim=True).sqrt(),
    "ReduceSumSquare": lambda x, axes: (x * x).sum(axes, keepdim=True),
    "ReduceLogSum": lambda x, axes: x.sum(axes, keepdim=True).log(),
    "ReduceLogSumExp": _log_sum_exp,
}


@op(*REDUCTIONS)
def reduced(
    call: Call,
    x: Tensor,
    given: Sizes | None = None,
    *,
    axes: Sequence[int] | None = None,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
) -> Tensor:
    """Return one number for all elements of some axes, or of all."""
    chosen = whole(given, "an axis") if given is not None else list(axes or ())
    if not chosen and noop_with_empty_axes:
        over: Axes = ()
    else:
        over = tuple(sorted({axis_of(axis, x.ndim) for axis in chosen or range(x.ndim)}))
    if not over:
        return _OF_ELEMENTS[call.op](x) if call.op in _OF_ELEMENTS else x
    result = REDUCTIONS[call.op](x, over).cast(x.dtype)
    if keepdims:
        return result
    return result.reshape(tuple(size for axis, size in enumerate(x.shape) if axis not in over))


_OF_ELEMENTS: dict[str, Callable[[Tensor], Tensor]] = {
    "ReduceL1": lambda x: x.abs(),
    "ReduceL2": lambda x: x.abs(),
    "ReduceSumSquare": lambda x: x * x,
    "ReduceLogSum": lambda x: x.log(),
    "ReduceLogSumExp": lambda x: x,
}
"""What is left of a reduction over no axes."""


@op("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(call: Call, x: Tensor, *, p: float = 2) -> Tensor:
    """Return one number a channel."""
    axes = tuple(range(2, x.ndim))
    if call.op == "GlobalAveragePool":
        return x.mean(axes, keepdim=True)
    if call.op == "GlobalMaxPool":
        return x.amax(axes, keepdim=True)
    return x.abs().pow(p).sum(axes, keepdim=True).pow(1 / p)
