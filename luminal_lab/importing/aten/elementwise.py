"""Functions of elements: arithmetic, comparisons, logic, activations, casts."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from luminal_lab.core.dims import Expr
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Scalar
from luminal_lab.importing.aten.table import aten, methods
from luminal_lab.passes.gradients import stop_gradient
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.lazy import Lazy

Number: TypeAlias = Tensor | Scalar

methods("""
    abs acos acosh asin asinh atan atan2 atanh cos cosh deg2rad erf erfc exp exp2 expm1 frac
    hardsigmoid hardswish isfinite isinf isnan log log10 log1p log2 logical_not
    log_sigmoid logaddexp logit mish neg rad2deg reciprocal=recip relu relu6 rsqrt selu
    sigmoid sign sgn=sign signbit silu sin sinc sinh sqrt square tan tanh
    xlogy.Tensor xlogy.Scalar_Other=xlogy copysign.Tensor copysign.Scalar nan_to_num
    celu gelu hardshrink hardtanh leaky_relu softshrink threshold prelu
    bitwise_not logical_and logical_or logical_xor maximum minimum
    remainder.Tensor remainder.Scalar fmod.Tensor fmod.Scalar
    eq.Tensor eq.Scalar ne.Tensor ne.Scalar le.Tensor le.Scalar ge.Tensor ge.Scalar
    lerp.Scalar lerp.Tensor addcmul addcdiv isclose
    bitwise_and.Tensor bitwise_and.Scalar bitwise_or.Tensor bitwise_or.Scalar
    bitwise_xor.Tensor bitwise_xor.Scalar clamp_min clamp_max clamp_min.Tensor clamp_max.Tensor
    pow.Tensor_Tensor pow.Tensor_Scalar
""")


# -- arithmetic ------------------------------------------------------------------------------------


def _times(x: Number, alpha: Scalar) -> Any:  # noqa: ANN401  # of the kind of x
    own: Any = x
    return own if isinstance(alpha, (int, float)) and alpha == 1 else own * alpha


@aten("add.Tensor", "add.Scalar")
def add(x: Tensor, y: Number, alpha: Scalar = 1) -> Tensor:
    """Return x + alpha · y."""
    return x + _times(y, alpha)


@aten("sub.Tensor", "sub.Scalar")
def sub(x: Tensor, y: Number, alpha: Scalar = 1) -> Tensor:
    """Return x - alpha · y."""
    return x - _times(y, alpha)


@aten("rsub.Tensor", "rsub.Scalar")
def rsub(x: Tensor, y: Number, alpha: Scalar = 1) -> Tensor:
    """Return y - alpha · x."""
    other: Any = y
    return other - _times(x, alpha)


@aten("mul.Tensor", "mul.Scalar")
def mul(x: Tensor, y: Number) -> Tensor:
    """Return x · y."""
    return x * y


@aten("div.Tensor", "div.Scalar", "true_divide.Tensor")
def div(x: Tensor, y: Number) -> Tensor:
    """Return x / y."""
    return x / y


@aten("div.Tensor_mode", "div.Scalar_mode")
def div_rounded(x: Tensor, y: Number, rounding_mode: str | None = None) -> Tensor:
    """Return x / y, rounded down or towards 0 if a mode says so."""
    if rounding_mode is None:
        return x / y
    if rounding_mode == "floor":
        return x // y
    both = x + y
    if both.dtype.is_float:
        return (x / y).trunc()
    return (x - x.fmod(y)) // y


@aten("floor_divide", "floor_divide.Scalar")
def floor_divide(x: Tensor, y: Number) -> Tensor:
    """Return x / y rounded down."""
    return x // y


@aten("pow.Scalar")
def power_of(base: Scalar, x: Tensor) -> Tensor:
    """Return base to the power of x."""
    return base**x


@aten("lt.Tensor", "lt.Scalar")
def less(x: Tensor, y: Number) -> Tensor:
    """Return whether x < y."""
    return x < y


@aten("gt.Tensor", "gt.Scalar")
def more(x: Tensor, y: Number) -> Tensor:
    """Return whether x > y."""
    return x > y


@aten("clamp", "clamp.Tensor", "clip", "clip.Tensor")
def clamp(x: Tensor, min: Number | None = None, max: Number | None = None) -> Tensor:
    """Return x, at least min and at most max."""
    for bound in (min, max):  # which decide the dtype, too
        if bound is not None:
            x = x + (bound * 0) if isinstance(bound, float) and not x.dtype.is_float else x
    return x.clip(min, max)


# -- rounding, which leaves integers alone ---------------------------------------------------------


@aten("floor")
def floor(x: Tensor) -> Tensor:
    """Return x rounded down."""
    return x.floor() if x.dtype.is_float else x


@aten("ceil")
def ceil(x: Tensor) -> Tensor:
    """Return x rounded up."""
    return x.ceil() if x.dtype.is_float else x


@aten("trunc", "fix")
def trunc(x: Tensor) -> Tensor:
    """Return x rounded towards 0."""
    return x.trunc() if x.dtype.is_float else x


@aten("round", "round.decimals")
def rounded(x: Tensor, decimals: int = 0) -> Tensor:
    """Return x rounded, halves to even."""
    return x.round(decimals) if x.dtype.is_float else x


# -- choices ---------------------------------------------------------------------------------------


@aten("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(condition: Tensor, x: Number, y: Number) -> Tensor:
    """Return x where a condition holds, and y elsewhere."""
    return condition.cast(DType.bool_).where(x, y)


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(x: Tensor, mask: Tensor, value: Number) -> Tensor:
    """Return x with a value where a mask is true; the dtype stays."""
    if isinstance(value, Lazy):
        value = value.cast(x.dtype)
    elif not x.dtype.is_float and isinstance(value, float):
        value = int(value)
    return mask.where(value, x).cast(x.dtype)


@aten("isneginf")
def is_minus_infinity(x: Tensor) -> Tensor:
    """Return whether x is -∞."""
    return x == -math.inf if x.dtype.is_float else x.full_like(False, DType.bool_)


@aten("isposinf")
def is_infinity(x: Tensor) -> Tensor:
    """Return whether x is +∞."""
    return x == math.inf if x.dtype.is_float else x.full_like(False, DType.bool_)


# -- activations -----------------------------------------------------------------------------------


@aten("elu")
def elu(x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    """Return x where it is positive, and else alpha · (exp(x) - 1), both times a scale."""
    negative = (x * input_scale).expm1() * (alpha * scale)
    if (alpha, scale, input_scale) == (1, 1, 1):
        return x.elu()
    return (x > 0).where(x * scale, negative)


@aten("softplus")
def softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """Return log(1 + exp(beta · x)) / beta."""
    return x.softplus(beta, threshold)


@aten("glu")
def glu(x: Tensor, dim: int = -1) -> Tensor:
    """Return the first half of an axis times the sigmoid of the second."""
    return x.glu(dim)


# -- casts and copies ------------------------------------------------------------------------------


@aten(
    "_to_copy",
    "prims.convert_element_type.default:",
)  # fmt: skip
def to_copy(x: Tensor, dtype: DType | None = None, *_: object, **__: object) -> Tensor:
    """Return x in a dtype."""
    return x if dtype is None else x.cast(dtype)


@aten("type_as")
def type_as(x: Tensor, other: Tensor) -> Tensor:
    """Return x in another tensor's dtype."""
    return x.cast(other.dtype)


@aten("copy")
def copy(x: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Return another tensor's values in the dtype and shape of x."""
    return src.cast(x.dtype).expand(*x.shape)


@aten("clone", "alias", "contiguous", "lift_fresh_copy", "lift_fresh", "positive")
def same(x: Tensor, **_: object) -> Tensor:
    """Return x."""
    return x


@aten("detach", "detach_copy")
def detach(x: Tensor) -> Tensor:
    """Return x, which gradients take for a constant."""
    return stop_gradient(x) if x.dtype.is_float else x


@aten("fill.Scalar", "fill.Tensor")
def fill(x: Tensor, value: Number) -> Tensor:
    """Return a number in the dtype and shape of x."""
    if isinstance(value, Lazy):
        return value.cast(x.dtype).expand(*x.shape)
    return x.full_like(value if isinstance(value, Expr) or x.dtype.is_float else int(value))
