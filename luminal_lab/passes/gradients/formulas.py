"""Functions written as formulas, with derivatives of their own.

exp(x) is a product of four powers of 2, for accuracy; its gradient is g · exp(x) all the same,
not the product rule's result. At the ends of its range a formula is right although its
parts are infinite, but the chain rule multiplies these: each function here has the derivative that
PyTorch gives it, also at zeros, infinities and NaN.
"""

from __future__ import annotations

# The derivatives in a file share these helper steps.
# pyright: reportPrivateUsage=false
import math
from collections.abc import Callable
from typing import Any, TypeAlias

from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import size_of
from luminal_lab.passes.gradients.rule import Forward, Given
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.formulas import (
    falling,
    fraction,
    is_zero,
    magnitude,
    sides,
    tanh_of_softplus,
    tiny,
)
from luminal_lab.tensor.functions import beside, widened

Derivative: TypeAlias = Callable[..., Given]
DERIVATIVES: dict[str, Derivative] = {}
"""The gradients for a function's sources, by its name; settings follow as further arguments."""


def derivative(function: Derivative) -> Derivative:
    """Put a derivative into the table."""
    DERIVATIVES[function.__name__.strip("_")] = function
    return function


# -- exponentials and logarithms -------------------------------------------------------------------


@derivative
def exp(node: Forward[Any], g: Tensor) -> Given:
    """Return g · exp(x)."""
    return g * node.result


@derivative
def expm1(node: Forward[Any], g: Tensor) -> Given:
    """Return g · exp(x)."""
    return g * node[0].exp()


@derivative
def log1p(node: Forward[Any], g: Tensor) -> Given:
    """Return g / (1 + x)."""
    return g * (node[0] + 1.0).recip()


@derivative
def sigmoid(node: Forward[Any], g: Tensor) -> Given:
    """Return g · y (1 - y)."""
    return g * (node.result * (-node.result + 1.0))


@derivative
def logit(node: Forward[Any], g: Tensor, low: float, high: float) -> Given:
    """Return g / (x (1 - x)), and out of bounds 0, or NaN if there is no eps."""
    x = node[0]
    outside = math.nan if (low, high) == (0, 1) else 0.0
    return ((x < low) | (x > high)).where(outside, g * ((-x + 1.0) * x).recip())


@derivative
def logaddexp(node: Forward[Any], g: Tensor) -> Given:
    """Return g times each power's share of their sum."""
    x, y = node[0], node[1]
    return lambda: g * (x - y).sigmoid(), lambda: g * (y - x).sigmoid()


@derivative
def xlogy(node: Forward[Any], g: Tensor) -> Given:
    """Return g · log(y), which is 0 at (0, 0), and g · x / y."""
    x, y = node[0], node[1]

    def factor() -> Tensor:
        nothing = is_zero(x) & (y < tiny(y))
        return nothing.where(0.0, g * nothing.where(1.0, y).log())

    return factor, lambda: g * (x * y.recip())


@derivative
def xlog1py(node: Forward[Any], g: Tensor) -> Given:
    """Return g · log(1 + y), which is 0 at (0, -1), and g · x / (1 + y)."""
    x, y = node[0], node[1]

    def factor() -> Tensor:
        nothing = is_zero(x) & (y <= -1)
        return nothing.where(0.0, g * nothing.where(0.0, y).log1p())

    return factor, lambda: g * (x * (y + 1.0).recip())


@derivative
def hypot(node: Forward[Any], g: Tensor) -> Given:
    """Return g · x / √(x² + y²), and the same for y."""
    return tuple(lambda k=k: g * (node[k] * node.result.recip()) for k in (0, 1))


# -- powers ----------------------------------------------------------------------------------------


@derivative
def power(node: Forward[Any], g: Tensor, exponent: float) -> Given:
    """Return g · p · x to the power of p - 1."""
    return g * (node[0].pow(exponent - 1) * exponent)


@derivative
def pow_(node: Forward[Any], g: Tensor) -> Given:
    """Return g · y · x**(y - 1), 0 where y is 0, and g · x**y · log(x), 0 of 0**y."""
    x, y = node[0], node[1]

    def base() -> Tensor:
        constant = is_zero(y)
        return constant.where(0.0, g * (x.pow(constant.where(1.0, y) - 1) * y))

    def exponent() -> Tensor:
        nothing = is_zero(x) & (y > -tiny(y))
        return nothing.where(0.0, g * (node.result * nothing.where(1.0, x).log()))

    return base, exponent


# -- trigonometry ----------------------------------------------------------------------------------


@derivative
def cos(node: Forward[Any], g: Tensor) -> Given:
    """Return -g · sin(x)."""
    return g * -node[0].sin()


@derivative
def cosh(node: Forward[Any], g: Tensor) -> Given:
    """Return g · sinh(x)."""
    return g * node[0].sinh()


@derivative
def asin(node: Forward[Any], g: Tensor) -> Given:
    """Return g / √(1 - x²)."""
    return g * away(node[0], -1.0).rsqrt()


@derivative
def acos(node: Forward[Any], g: Tensor) -> Given:
    """Return -g / √(1 - x²)."""
    return g * -away(node[0], -1.0).rsqrt()


@derivative
def acosh(node: Forward[Any], g: Tensor) -> Given:
    """Return g / √(x² - 1)."""
    return g * away(node[0], 1.0).rsqrt()


@derivative
def atanh(node: Forward[Any], g: Tensor) -> Given:
    """Return g / (1 - x²)."""
    return g * away(node[0], -1.0).recip()


def away(x: Tensor, sign: float) -> Tensor:
    """Return ±(x² - 1), accurate near -1 and 1."""
    size = magnitude(x)
    return (size * sign - sign) * (size + 1.0)


@derivative
def atan2(node: Forward[Any], g: Tensor) -> Given:
    """Return g · x / (x² + y²) and -g · y / (x² + y²), and 0 at the origin."""
    y, x = node[0], node[1]
    _, large, small = sides(y, x)
    ratio, scale = fraction(small, large)
    inverse = (large * scale).recip()
    rest = inverse * (ratio * ratio + 1.0).recip()
    origin = is_zero(x) & is_zero(y)

    def part(of: Tensor) -> Tensor:
        # Scaled once more only in the end, so that no infinity meets a 0.
        return origin.where(0.0, g * ((of * scale) * inverse * rest * scale))

    return lambda: part(x), lambda: part(-y)


# -- rounding, signs and bounds --------------------------------------------------------------------


@derivative
def rounded(node: Forward[Any], g: Tensor) -> Given:
    """Return None: rounding has no slope."""
    return (None,) * len(node.types)


@derivative
def fmod(node: Forward[Any], g: Tensor) -> Given:
    """Return g, and for the divisor -g times the quotient towards 0."""

    def divisor() -> Tensor:
        x, inverse, rest = node[0], node[1].recip(), node.result
        # For an infinite x, or a divisor of 0, the remainder is NaN, but the quotient is not.
        quotient = (rest * 0 < 1).where(((x - rest) * inverse).round(), x * inverse)
        return g * -quotient.trunc()

    return g, divisor


@derivative
def copysign(node: Forward[Any], g: Tensor) -> Given:
    """Return g or -g, and 0 at 0."""
    x, sign = node[0], node[1]
    same = sign.signbit().eq(x.signbit()).where(x.full_like(1.0), -1.0)
    # At an infinity it is NaN, as in PyTorch.
    return is_zero(x).where(0.0, g * (same + x * 0.0)), None


@derivative
def maximum(node: Forward[Any], g: Tensor) -> Given:
    """Return g for the larger one, and at a tie half of it for each."""
    return larger(node[0], node[1], g), larger(node[1], node[0], g)


@derivative
def minimum(node: Forward[Any], g: Tensor) -> Given:
    """Return g for the smaller one, and at a tie half of it for each."""
    return larger(node[1], node[0], g), larger(node[0], node[1], g)


def larger(x: Tensor, y: Tensor, g: Tensor) -> Callable[[], Tensor]:
    """Return a function that writes g where x > y, g / 2 where both are equal, else 0."""
    return lambda: (x < y).where(0.0, x.eq(y).where(g * 0.5, g))


@derivative
def clip(node: Forward[Any], g: Tensor, low: float | None, high: float | None) -> Given:
    """Return g within the bounds."""
    x = node[0]
    # No number lies beyond an infinity.
    if low is not None:
        above = x.ge(low) if low == -math.inf else x > beside(x.dtype, low, -math.inf)
        g = above.where(g, 0.0)
    if high is not None:
        below = x.le(high) if high == math.inf else x < beside(x.dtype, high, math.inf)
        g = below.where(g, 0.0)
    return g


@derivative
def clamp_min(node: Forward[Any], g: Tensor) -> Given:
    """Return g for x where it is at or above the bound, else g for the bound."""
    x, low = node[0], node[1]
    return lambda: x.ge(low).where(g, 0.0), lambda: (x < low).where(g, 0.0)


@derivative
def clamp_max(node: Forward[Any], g: Tensor) -> Given:
    """Return g for x where it is at or below the bound, else g for the bound."""
    x, high = node[0], node[1]
    return lambda: x.le(high).where(g, 0.0), lambda: (x > high).where(g, 0.0)


@derivative
def clamp(node: Forward[Any], g: Tensor) -> Given:
    """Return g for x within the bounds, else g for the bound that applies."""
    x, low, high = node[0], node[1], node[2]
    return (
        lambda: (x.ge(low) & x.le(high)).where(g, 0.0),
        lambda: ((low < high) & (x < low)).where(g, 0.0),
        lambda: ((x > high) | (high < low)).where(g, 0.0),
    )


# -- activations -----------------------------------------------------------------------------------


@derivative
def erf(node: Forward[Any], g: Tensor, sign: float) -> Given:
    """Return ±g · exp(-x²) · 2/√π."""
    x = node[0]
    return g * ((-(x * x)).exp() * (sign * 2 / math.sqrt(math.pi)))


@derivative
def lgamma(node: Forward[Any], g: Tensor) -> Given:
    """Return g · digamma(x)."""
    return g * node[0].digamma()


@derivative
def digamma(node: Forward[Any], g: Tensor) -> Given:
    """Return g times the next derivative."""
    return g * node[0].polygamma(1)


@derivative
def polygamma(node: Forward[Any], g: Tensor, n: int) -> Given:
    """Return g times the next derivative."""
    return g * node[0].polygamma(n + 1)


@derivative
def erfinv(node: Forward[Any], g: Tensor) -> Given:
    """Return g · √π/2 · exp(y²)."""
    return g * (node.result.square().exp() * (math.sqrt(math.pi) / 2))


@derivative
def ndtri(node: Forward[Any], g: Tensor) -> Given:
    """Return g · √(2π) · exp(y²/2)."""
    return g * ((node.result.square() * 0.5).exp() * math.sqrt(2 * math.pi))


@derivative
def erfcx(node: Forward[Any], g: Tensor) -> Given:
    """Return g · (2 x y - 2/√π)."""
    return g * (node[0] * node.result * 2.0 - 2 / math.sqrt(math.pi))


@derivative
def entr(node: Forward[Any], g: Tensor) -> Given:
    """Return -g · (1 + log(x))."""
    return g * -(node[0].log() + 1.0)


@derivative
def i0(node: Forward[Any], g: Tensor) -> Given:
    """Return g · i1(x)."""
    return g * node[0].i1()


@derivative
def i0e(node: Forward[Any], g: Tensor) -> Given:
    """Return g · (i1e(x) - sign(x) · y)."""
    return g * (node[0].i1e() - node[0].sign() * node.result)


@derivative
def i1(node: Forward[Any], g: Tensor) -> Given:
    """Return g · (i0(x) - y / x), which is 1/2 at 0."""
    x, zero = node[0], is_zero(node[0])
    return g * zero.where(0.5, x.i0() - node.result * zero.where(1.0, x).recip())


@derivative
def i1e(node: Forward[Any], g: Tensor) -> Given:
    """Return g · (i0e(x) - y (sign(x) + 1/x)), which is 1/2 at 0."""
    x, zero = node[0], is_zero(node[0])
    usual = x.i0e() - node.result * (x.sign() + zero.where(1.0, x).recip())
    return g * zero.where(0.5, usual)


@derivative
def tanhshrink(node: Forward[Any], g: Tensor) -> Given:
    """Return g · tanh²(x)."""
    tanh = node[0].tanh()
    return g * (tanh * tanh)


@derivative
def hardsigmoid(node: Forward[Any], g: Tensor) -> Given:
    """Return g / 6 where it rises."""
    x = node[0]
    return ((x > -3.0) & (x < 3.0)).where(g * (1 / 6), 0.0)


@derivative
def hardswish(node: Forward[Any], g: Tensor) -> Given:
    """Return g · (x/3 + 1/2) where it bends."""
    x = node[0]
    rising = (x < beside(x.dtype, -3, math.inf)).where(0.0, g * (x * (1 / 3) + 0.5))
    return (x < 3.0).where(rising, g)


@derivative
def mish(node: Forward[Any], g: Tensor) -> Given:
    """Return g · (t + x · sigmoid(x) · (1 - t²)), t = tanh(softplus(x))."""
    x = node[0]
    part = tanh_of_softplus(*falling(x))
    return g * (part + (x * x.sigmoid()) * (-(part * part) + 1.0))


# -- reductions, of which the axes stay, and scans -------------------------------------------------


@derivative
def logsumexp(node: Forward[Any], g: Tensor) -> Given:
    """Return g · exp(x - y)."""
    return g * (node[0] - node.result).exp()


@derivative
def var(node: Forward[Any], g: Tensor, axes: tuple[int, ...], less: float) -> Given:
    """Return g · 2 (x - mean) / (n - less)."""
    x = node[0]
    away = x - x.mean(axes, True)
    count = size_of([x.shape[axis] for axis in axes])
    return (g * 2.0)._over(count, less) * away


@derivative
def std(node: Forward[Any], g: Tensor, axes: tuple[int, ...], less: float) -> Given:
    """Return the gradient of `var` for g / 2y, and 0 where y is 0."""
    total = node.result
    return var(node, is_zero(total).where(0.0, g * (total * 2.0).recip()), axes, less)


@derivative
def extreme(node: Forward[Any], g: Tensor, axes: tuple[int, ...], whole: bool) -> Given:
    """Return g in equal parts where x is the result; NaN is only that of a whole tensor."""
    x, top = node[0], node.result
    share = shared(x, top, axes, g)
    return share if whole else top.isnan().where(math.nan, share)


def alike(x: Tensor, y: Tensor) -> Tensor:
    """Return where both are equal, or both NaN."""
    return x.eq(y) | (x.isnan() & y.isnan())


@derivative
def scattered(node: Forward[Any], g: Tensor) -> Given:
    """Return g in equal parts where x is the extreme of its row, and NaN where that is NaN."""
    x, belongs, top = node[0], node[1], node.result
    share = parts(x.eq(top) & belongs, x, (x.ndim - 1,), g)
    return (belongs & top.isnan()).where(math.nan, share), None


def shared(x: Tensor, total: Tensor, axes: tuple[int, ...], g: Tensor) -> Tensor:
    """Return g in equal parts where x is the total, and 0 elsewhere."""
    return parts(alike(x, total), x, axes, g)


def parts(there: Tensor, x: Tensor, axes: tuple[int, ...], g: Tensor) -> Tensor:
    """Return g in equal parts where a condition holds, and 0 elsewhere."""
    count = widened(there.cast(x.dtype)).sum(axes, True)
    return there.where((g * count.recip()).cast(g.dtype), 0.0)


@derivative
def cummax(node: Forward[Any], g: Tensor, axis: int) -> Given:
    """Return the sums of g at the positions of running extremes; of equal ones, the last."""
    x, top = node[0], node.result
    position = x._iota(x.shape[axis], DType.int32).reshape(-1, *[1] * (x.ndim - 1 - axis))
    last = alike(x, top).where(position, 0).cummax(axis)
    return x.full_like(0.0).scatter_add(axis, last, g)


@derivative
def norm(node: Forward[Any], g: Tensor, p: float, axes: tuple[int, ...]) -> Given:
    """Return g · (|x| / y)^(p - 1), with the sign of x, and 0 where y is 0."""
    x, total = node[0], node.result
    size, sign = x.abs(), x.sign()
    if p == 1:
        return g * sign
    if math.isinf(p):
        return shared(size, total, axes, g) * sign
    if p == 2:
        return is_zero(total).where(0.0, g * (x * total.recip()))
    if p < 1:
        powers = is_zero(x).where(0.0, size.pow(p - 1))
        return g * (total.pow(1 - p) * (sign * powers))
    powers = sign * size.pow(p - 1) if p < 2 else x * size.pow(p - 2)
    return is_zero(total).where(0.0, g * (powers * total.pow(1 - p)))


@derivative
def unpooled(node: Forward[Any], g: Tensor) -> Given:
    """Return g at the places, also where several values go to one, which are equal."""
    return g.gather(2, node[1]), None
