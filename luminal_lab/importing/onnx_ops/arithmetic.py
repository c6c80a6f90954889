"""Arithmetic, comparisons, bits and conversions of elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from luminal_lab.core.dtypes import DType
from luminal_lab.importing.onnx_ops.table import (
    DAMAGED,
    Call,
    Known,
    Refusal,
    Stored,
    Value,
    axis_of,
    dtype_of,
    is_known,
    method,
    op,
)
from luminal_lab.tensor import Tensor

method(
    Abs="abs", Neg="neg", Exp="exp", Log="log", Sqrt="sqrt", Reciprocal="recip", Erf="erf",
    Sin="sin", Cos="cos", Tan="tan", Asin="asin", Acos="acos", Atan="atan", Sinh="sinh",
    Cosh="cosh", Tanh="tanh", Asinh="asinh", Acosh="acosh", Atanh="atanh", Sign="sign",
    Floor="floor", Ceil="ceil", Round="round", IsNaN="isnan", Not="logical_not",
)  # fmt: skip


def beside(call: Call, x: Tensor, y: Tensor, broadcast: int | None, axis: int | None) -> Tensor:
    """Return the second operand as it is broadcast: before version 7 from a given axis on."""
    if call.opset >= 7 or not broadcast:
        return y
    first = x.ndim - y.ndim if axis is None else axis_of(axis, x.ndim)
    return y.reshape(*y.shape, *[1] * (x.ndim - first - y.ndim))


def _truncated(x: Tensor, y: Tensor) -> Tensor:
    """Return a quotient of integers, rounded toward zero."""
    down = x.floor_divide(y)
    if x.dtype.is_unsigned:
        return down
    inexact = (x - down * y).ne(0)
    return (inexact & (x < 0).ne(y < 0)).where(down + 1, down)


def divided(x: Tensor, y: Tensor) -> Tensor:
    """Return a quotient; of integers it is rounded toward zero."""
    if x.dtype.is_half:  # rounded once
        return (x.cast("float32") / y.cast("float32")).cast(x.dtype)
    return x / y if x.dtype.is_float else _truncated(x, y)


PAIRS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Add": lambda x, y: x + y,
    "Sub": lambda x, y: x - y,
    "Mul": lambda x, y: x * y,
    "Div": divided,
    "And": lambda x, y: x.logical_and(y),
    "Or": lambda x, y: x.logical_or(y),
    "Xor": lambda x, y: x.logical_xor(y),
    "Equal": lambda x, y: x.eq(y),
    "Less": lambda x, y: x < y,
    "Greater": lambda x, y: x > y,
    "LessOrEqual": lambda x, y: x <= y,
    "GreaterOrEqual": lambda x, y: x >= y,
}


@op(*PAIRS)
def pair(
    call: Call,
    x: Tensor,
    y: Tensor,
    *,
    broadcast: int | None = None,
    axis: int | None = None,
    consumed_inputs: object = None,
) -> Tensor:
    """Return two operands combined."""
    return PAIRS[call.op](x, beside(call, x, y, broadcast, axis))


@op("Mod")
def mod(_: Call, x: Tensor, y: Tensor, *, fmod: int = 0) -> Tensor:
    """Return the remainder, with the sign of the divisor or with that of x."""
    return x.fmod(y) if fmod else x.remainder(y)


@op("Pow")
def power(
    call: Call, x: Tensor, exponent: Value, *, broadcast: int | None = None, axis: int | None = None
) -> Tensor:
    """Return a power, in the dtype of the base; a whole number that is known becomes products."""
    if is_known(exponent) and exponent.size == 1:
        number = float(exponent.astype("float64").reshape(-1)[0])
        if (
            number.is_integer()
            and abs(number) < MOST_PRODUCTS
            and (x.dtype.is_float or number >= 0)
        ):
            rank = max(x.ndim, exponent.ndim)
            result = x.pow(int(number)).cast(x.dtype)
            return result.reshape((*[1] * (rank - x.ndim), *x.shape))
    y = beside(call, x, call.tensor(exponent), broadcast, axis)
    if x.dtype.is_float:
        return x.pow(y.cast(x.dtype))
    if not y.dtype.is_float:
        return x.pow(y.cast(x.dtype))
    wide = y.cast("float64")
    result = x.cast("float64").pow(wide)
    return wide.eq(wide.floor()).where(result.round(), result).cast(x.dtype)


MOST_PRODUCTS = 1 << 10
"""Below this an exponent becomes products."""


COMBINED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Max": lambda x, y: x.maximum(y),
    "Min": lambda x, y: x.minimum(y),
}


@op("Max", "Min", "Sum", "Mean")
def several(call: Call, *xs: Tensor, consumed_inputs: object = None) -> Tensor:
    """Return any number of operands combined."""
    if not xs:
        raise Refusal("it has no inputs", DAMAGED)
    total = reduce(COMBINED.get(call.op, PAIRS["Add"]), xs)
    return total * (1 / len(xs)) if call.op == "Mean" else total


@op("Clip")
def clip(
    call: Call,
    x: Tensor,
    low: Value = None,
    high: Value = None,
    *,
    min: float | None = None,  # ONNX's name
    max: float | None = None,  # likewise
    consumed_inputs: object = None,
) -> Tensor:
    """Return values within limits."""
    least = min if low is None else number_or(call, low)
    most = max if high is None else number_or(call, high)
    if least is not None:
        x = x.maximum(least).cast(x.dtype)
    return x if most is None else x.minimum(most).cast(x.dtype)


def number_or(call: Call, value: Value) -> Tensor | float:
    """Return a value as a number if it is known and finite, or else as a tensor."""
    if is_known(value) and value.size == 1:
        kind = "float64" if value.dtype.kind not in "iub" else value.dtype
        number: Any = value.astype(kind).item()
        if not isinstance(number, float) or math.isfinite(number):
            return number
    return call.tensor(value)


@op("IsInf")
def is_inf(_: Call, x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    """Return where values are infinite, with one of the signs or both."""
    if detect_negative and detect_positive:
        return x.isinf()
    if detect_positive:
        return x.isinf() & (x > 0)
    return x.isinf() & (x < 0) if detect_negative else x.isinf() & False


@op("Where")
def where(_: Call, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return the values of x where a condition holds, and of y elsewhere."""
    return condition.where(x, y)


# -- bits ------------------------------------------------------------------------------------------


@op("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bits(call: Call, x: Tensor, y: Tensor) -> Tensor:
    """Return two integers combined bit by bit."""
    if call.op == "BitwiseAnd":
        return x & y
    return x | y if call.op == "BitwiseOr" else x ^ y


@op("BitwiseNot")
def bitwise_not(_: Call, x: Tensor) -> Tensor:
    """Return all bits flipped."""
    return ~x


@op("BitShift")
def shift(_: Call, x: Tensor, y: Tensor, *, direction: str) -> Tensor:
    """Return integers shifted by a number of bits; beyond their width nothing is left."""
    if direction not in ("LEFT", "RIGHT"):
        raise Refusal(f"the direction {direction!r} is not known")
    return x.bitwise_left_shift(y) if direction == "LEFT" else x.bitwise_right_shift(y)


@op("BitCast")
def bitcast(_: Call, x: Tensor, *, to: int) -> Tensor:
    """Return the bits of values as values of another dtype."""
    return x.bitcast(dtype_of(to))


# -- conversions -----------------------------------------------------------------------------------


@op("Cast")
def cast(_: Call, x: Stored, *, to: int, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """Return values in another dtype."""
    return converted(x, dtype_of(to))


def converted(x: Tensor, dtype: DType) -> Tensor:
    """Return values in another dtype; from floats to integers, NaN is 0."""
    return x.cast(dtype)


@op("CastLike")
def cast_like(
    _: Call, x: Stored, like: Tensor, *, saturate: int = 1, round_mode: str = "up"
) -> Tensor:
    """Return values in the dtype of another tensor."""
    return converted(x, like.dtype)


# -- sums along an axis ----------------------------------------------------------------------------


@op("CumSum", "CumProd")
def cumulative(
    call: Call, x: Tensor, axis: Known, *, exclusive: int = 0, reverse: int = 0
) -> Tensor:
    """Return sums or products of all elements up to each one."""
    along = axis_of(int(axis.reshape(-1)[0]), x.ndim)
    y = x.flip(along) if reverse else x
    y = (y.cumsum(along) if call.op == "CumSum" else y.cumprod(along)).cast(x.dtype)
    if exclusive:
        y = y.pad_along(along, 1, 0, 0 if call.op == "CumSum" else 1)
        y = y.narrow(along, 0, x.shape[along])
    return y.flip(along) if reverse else y


@op("Det")
def det(_: Call, x: Tensor) -> Tensor:
    """Return determinants, by elimination without exchanges up to 3 rows and by sums of products.

    A matrix of n rows needs n! / 2 products, which is refused beyond 5 rows.
    """
    rows = x.shape[-1]
    if not isinstance(rows, int) or rows > 5 or x.shape[-2] != rows:
        raise Refusal(f"determinants of {rows} rows are not supported", "at most 5 rows are")
    return _determinant(x, rows)


def _determinant(x: Tensor, rows: int) -> Tensor:
    if rows == 0:
        return x.full_like(1).prod(-1).prod(-1)
    if rows == 1:
        return x.select(-1, 0).select(-1, 0)
    total: Tensor | None = None
    below = x.narrow(-2, 1, rows - 1)
    for column in range(rows):
        others = [below.narrow(-1, 0, column), below.narrow(-1, column + 1, rows - 1 - column)]
        parts = [part for part in others if part.shape[-1] != 0]
        minor = parts[0] if len(parts) == 1 else parts[0].concat(parts[1], -1)
        term = x.select(-2, 0).select(-1, column) * _determinant(minor, rows - 1)
        total = term if total is None else total - term if column % 2 else total + term
    assert total is not None
    return total


@op("EyeLike")
def eye_like(call: Call, x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    """Return ones on a diagonal, and zeros elsewhere."""
    wanted = x.dtype if dtype is None else dtype_of(dtype)
    ones = call.graph.ones(x.shape, "int32")
    return (ones.triu(k) * ones.tril(k)).cast(wanted)


@op("Bernoulli")
def bernoulli(
    call: Call, x: Tensor, *, dtype: int | None = None, seed: float | None = None
) -> Tensor:
    """Return 1 with the given probabilities, and 0 otherwise."""
    draws = call.graph.rand(x.shape, seed=None if seed is None else int(seed))
    return (draws < x).cast(x.dtype if dtype is None else dtype_of(dtype))


@op("RandomUniformLike", "RandomNormalLike")
def random_like(
    call: Call,
    x: Tensor,
    *,
    dtype: int | None = None,
    low: float = 0.0,
    high: float = 1.0,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Tensor:
    """Return random numbers in the shape of a tensor."""
    start = None if seed is None else int(seed)
    kind = x.dtype if dtype is None else dtype_of(dtype)
    if call.op == "RandomUniformLike":
        return (call.graph.rand(x.shape, seed=start) * (high - low) + low).cast(kind)
    return (call.graph.randn(x.shape, seed=start) * scale + mean).cast(kind)


@op("RandomUniform", "RandomNormal")
def random(
    call: Call,
    *,
    shape: list[int],
    dtype: int = 1,
    low: float = 0.0,
    high: float = 1.0,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Tensor:
    """Return random numbers."""
    start = None if seed is None else int(seed)
    if call.op == "RandomUniform":
        drawn = call.graph.rand(tuple(shape), seed=start) * (high - low) + low
    else:
        drawn = call.graph.randn(tuple(shape), seed=start) * scale + mean
    return drawn.cast(dtype_of(dtype))


@op("Constant")
def constant(
    _: Call,
    *,
    value: Known | None = None,
    value_float: float | None = None,
    value_floats: list[float] | None = None,
    value_int: int | None = None,
    value_ints: list[int] | None = None,
) -> Known:
    """Return an array that the file holds."""
    if value is not None:
        return value
    for number, kind in ((value_float, "float32"), (value_int, "int64")):
        if number is not None:
            return np.array(number, kind)
    for numbers, kind in ((value_floats, "float32"), (value_ints, "int64")):
        if numbers is not None:
            return np.array(numbers, kind)
    raise Refusal("it has no value", DAMAGED)
