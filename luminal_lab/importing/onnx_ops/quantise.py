"""Integers that stand for numbers: value = (integer - zero point) · scale."""

from __future__ import annotations

from luminal_lab.core.dtypes import DType
from luminal_lab.importing.onnx_ops.table import Call, Refusal, Stored, axis_of, dtype_of, op
from luminal_lab.tensor import Tensor


def _spread(value: Tensor, x: Tensor, axis: int, block: int) -> Tensor:
    """Return a scale or zero point of the whole, of an axis, or of blocks, in the shape of x."""
    if value.ndim == 0 or (value.ndim == 1 and x.ndim != 1 and value.shape[0] == 1):
        return value.reshape(())
    along = axis_of(axis, x.ndim)
    if block:
        wide = value.repeat_interleave(block, along)
        return wide.narrow(along, 0, x.shape[along]) if wide.shape != x.shape else wide
    if value.ndim == 1 and (x.ndim > 1 or value.shape[0] == x.shape[0]):
        return value.reshape(-1, *[1] * (x.ndim - along - 1))
    if value.ndim == 1 and value.shape[0] == 1:
        return value.reshape(())
    if value.ndim == x.ndim:
        return value
    raise Refusal(f"a scale of {value.ndim} axes does not fit {x.ndim}")


def quotient(x: Tensor, y: Tensor) -> Tensor:
    """Return x / y rounded once, so that halves are met as the standard has them."""
    if x.dtype is DType.float64:
        return x / y
    return (x.cast("float64") / y.cast("float64")).cast(x.dtype)


@op("DequantizeLinear")
def dequantise(
    _: Call,
    x: Stored,
    scale: Tensor,
    zero: Stored | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:
    """Return the numbers that integers stand for."""
    kind = dtype_of(output_dtype) if output_dtype else scale.dtype
    wide = kind if kind is DType.float64 else DType.float32
    narrow = x.dtype.kind == "int" and x.dtype.itemsize < 4
    y = x.cast("int32") if narrow else x
    if zero is not None:
        less = _spread(zero, x, axis, block_size)
        y = y - (less.cast("int32") if narrow else less)
    factor = _spread(scale.cast(wide), x, axis, block_size)
    return (y.cast(wide) * factor).cast(kind)


@op("QuantizeLinear")
def quantise(
    _: Call,
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Tensor:
    """Return the integers that stand for numbers: rounded to even, and within limits."""
    kind = (
        zero.dtype if zero is not None else dtype_of(output_dtype) if output_dtype else DType.uint8
    )
    if kind.kind != "int":
        raise Refusal(f"numbers quantised to {kind} are not supported")
    wide = x.cast("float32") if x.dtype.kind != "float" or x.dtype.is_half else x
    factor = _spread(scale.cast(wide.dtype), x, axis, block_size)
    y = quotient(wide, factor).round()
    if zero is not None:
        y = y + _spread(zero, x, axis, block_size).cast(wide.dtype)
    low, high = kind.limits
    return y.clip(float(low), float(high)).cast(kind)


@op("DynamicQuantizeLinear")
def dynamic(_: Call, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return numbers as uint8, and the scale and zero point by which all of them fit."""
    low, high = x.amin().minimum(0.0), x.amax().maximum(0.0)
    scale = quotient(high - low, x.constant(255.0, x.dtype, ()))
    zero = quotient(-low, scale).round().clip(0.0, 255.0)
    y = (quotient(x, scale).round() + zero).clip(0.0, 255.0)
    return y.cast("uint8"), scale, zero.cast("uint8")
