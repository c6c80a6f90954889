"""Special functions: gamma, error function and their inverses, Bessel functions.

Large arguments take asymptotic series, small ones are shifted upwards first, and negative ones
are reflected. The coefficients are computed here, but for three fitted polynomials in `formulas`.
"""

from __future__ import annotations

# The functions of this file use private members of its class.
# pyright: reportPrivateUsage=false
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Self, TypeVar

from luminal_lab.core.dtypes import DType
from luminal_lab.errors import RangeError
from luminal_lab.tensor import formulas
from luminal_lab.tensor.activation import Activations
from luminal_lab.tensor.functions import in_float
from luminal_lab.tensor.movement import whole

S = TypeVar("S", bound="Special")
BERNOULLI = (
    Fraction(1, 6), Fraction(-1, 30), Fraction(1, 42), Fraction(-1, 30), Fraction(5, 66),
    Fraction(-691, 2730), Fraction(7, 6), Fraction(-3617, 510),
)  # fmt: skip
"""The Bernoulli numbers B2, B4, …, of asymptotic series."""
SHIFT = 8
"""The number of steps by which small arguments are moved to where those series hold."""
MOST_DIMENSIONS = 1000
"""The greatest dimension of a multivariate gamma function, which is a sum of as many logarithms."""


class Special(Activations):
    """Special functions of one value."""

    __slots__ = ()

    # -- gamma -------------------------------------------------------------------------------------

    @in_float
    def lgamma(self) -> Self:
        """Return log |Γ(x)|, which is infinite at 0 and at whole numbers below.

        >>> x = cx.tensor((3,)).set([1, 5, -1])
        >>> y = x.lgamma().retrieve()
        >>> cx.execute()
        >>> y.numpy().round(4)
        array([0.    , 3.1781,    inf], dtype=float32)
        """
        negative, size = self < 0.5, formulas.magnitude(self)
        # log |Γ(x)| = log |π / sin(πx)| - log Γ(1 - x), with 1 - x at least 1/2
        y = negative.where(-self + 1.0, self)
        usual = y < 3.5
        low, high = usual.where(y, 2.0), usual.where(4.0, y)
        below = low < 1.5
        z = below.where(low - 1.0, low - 2.0)
        near = z * formulas.polynomial(z - 0.5, formulas.LGAMMA) - below.where(low, 1.0).log()
        small = high < SHIFT
        product = small.where(high, 1.0)
        for k in range(1, 4):
            product = product * small.where(high + float(k), 1.0)
        x = small.where(high + 4.0, high)
        log = x.log()
        far = (x - 0.5) * log - x + (0.5 * math.log(2 * math.pi) + _stirling(x))
        far = (x < math.inf).where(far, x) - product.log()
        value = usual.where(near, far)
        # size · sin(πx) / size keeps tiny arguments apart from 0.
        part = (self - self.round_to_even()) * math.pi
        ratio = negative.where(formulas.magnitude(part.sin()), 1.0)
        mirrored = -(ratio * (1 / math.pi)).log() - value
        mirrored = (size < math.inf).where(mirrored, math.inf)
        return negative.where(mirrored, value)._spells("lgamma", self)

    @in_float
    def mvlgamma(self, p: int) -> Self:
        """Return the logarithm of the multivariate gamma function with dimension p.

        >>> x = cx.tensor((2,)).set([3, 5])
        >>> y = x.mvlgamma(2).retrieve()
        >>> cx.execute()
        >>> y.numpy().round(4)
        array([1.5502, 6.2042], dtype=float32)
        """
        count = whole("mvlgamma: p", p, 1)
        if count > MOST_DIMENSIONS:
            hint = f"dimensions go up to {MOST_DIMENSIONS}"
            raise RangeError(f"mvlgamma: p is {count}", hint=hint)
        total = self.lgamma() + count * (count - 1) / 4 * math.log(math.pi)
        for k in range(1, count):
            total = total + (self - k / 2).lgamma()
        return total

    @in_float
    def digamma(self) -> Self:
        """Return the derivative of log Γ(x): -inf at 0, NaN at whole numbers below.

        >>> x = cx.tensor((2,)).set([1, 10])
        >>> y = x.digamma().retrieve()
        >>> cx.execute()
        >>> y.numpy().round(4)
        array([-0.5772,  2.2518], dtype=float32)
        """
        negative = self < 0
        y = negative.where(-self + 1.0, self)
        small = y < SHIFT
        less = y.full_like(0.0)
        for k in range(SHIFT):
            less = less + small.where(y + float(k), math.inf).recip()
        x = small.where(y + float(SHIFT), y)
        inverse = x.recip()
        square = inverse * inverse
        rest = _powers(square, [float(-b / (2 * k + 2)) for k, b in enumerate(BERNOULLI)])
        value = x.log() - inverse * 0.5 + square * rest - less
        part = (self - self.round_to_even()) * math.pi
        tangent = part.tan()
        mirrored = value - tangent.eq(0).where(math.nan, tangent.recip() * math.pi)
        zero = self.eq(0)
        value = zero.where(-zero.where(self, 1.0).recip(), negative.where(mirrored, value))
        return value._spells("digamma", self)

    def polygamma(self, n: int) -> Self:
        """Return the n-th derivative of `digamma`.

        >>> x = cx.tensor((2,)).set([1, 2])
        >>> y = x.polygamma(1).retrieve()
        >>> cx.execute()
        >>> y.numpy().round(4)
        array([1.6449, 0.6449], dtype=float32)
        """
        order = whole("polygamma: n", n, 0)
        if order > 20:
            raise RangeError(f"polygamma: n is {order}", hint="the derivatives go up to n = 20")
        return self.digamma() if order == 0 else self._polygamma(order)

    @in_float
    def _polygamma(self, n: int) -> Self:
        negative = self < 0
        y = negative.where(-self + 1.0, self)
        value = _zeta(y, n + 1) * (math.factorial(n) * (1.0 if n % 2 else -1.0))
        # ψₙ(x) = (-1)ⁿ ψₙ(1 - x) - π dⁿ/dxⁿ cot(πx), which is a polynomial of the cotangent.
        cotangent = ((self - self.round_to_even()) * math.pi).tan().recip()
        slope = [0.0, 1.0]
        for _ in range(n):
            slope = _cotangent_slope(slope)
        turn = _powers(cotangent, slope) * math.pi ** (n + 1)
        mirrored = (value if n % 2 == 0 else -value) - turn
        return negative.where(mirrored, value)._spells("polygamma", self, settings=(n,))

    # -- the normal distribution -------------------------------------------------------------------

    @in_float
    def erfinv(self) -> Self:
        """Return the inverse of `erf`: infinite at -1 and 1, NaN beyond.

        >>> x = cx.tensor((3,)).set([0, 0.5, 1])
        >>> y = x.erfinv().retrieve()
        >>> cx.execute()
        >>> y.numpy().round(4)
        array([0.    , 0.4769,    inf], dtype=float32)
        """
        return self._erfinv((-self + 1.0) * (self + 1.0))._spells("erfinv", self)

    def _erfinv(self, rest: Self) -> Self:
        """Return erfinv(x), given 1 - x²."""
        width = -rest.log()
        near, far = width < 5, width > 16
        root = (near | width.eq(math.inf)).where(4.0, width).sqrt()
        shares = [
            formulas.polynomial(near.where(width - 2.5, 0.0), formulas.ERFINV),
            formulas.polynomial(root - 3.0, formulas.ERFINV_TAIL),
            root * formulas.polynomial(root.recip() - 31 / 216, formulas.ERFINV_FAR),
        ]
        value = self * near.where(shares[0], far.where(shares[2], shares[1]))
        if self.dtype is DType.float64:  # Halley's steps; towards 1 with erfc, which is exact there
            inside = rest > 0
            for _ in range(2):
                x = inside.where(value, 0.0)
                size = formulas.magnitude(x)
                over = size.erfc() - (rest * (formulas.magnitude(self) + 1.0).recip())
                error = (size < 0.5).where(x.erf() - self, (self < 0).where(over, -over))
                step = error * (x * x).exp() * (math.sqrt(math.pi) / 2)
                value = inside.where(x - step * (x * step + 1.0).recip(), value)
        edge = rest.eq(0)
        return edge.where((self < 0).where(-math.inf, self.full_like(math.inf)), value)

    @in_float
    def ndtr(self) -> Self:
        """Return the share of a normal distribution below x.

        >>> x = cx.tensor((2,)).set([0, 1.96])
        >>> y = x.ndtr().retrieve()
        >>> cx.execute()
        >>> y.numpy().round(3)
        array([0.5  , 0.975], dtype=float32)
        """
        return (self * -math.sqrt(0.5)).erfc() * 0.5

    @in_float
    def ndtri(self) -> Self:
        """Return the inverse of `ndtr`.

        >>> x = cx.tensor((2,)).set([0.5, 0.975])
        >>> y = x.ndtri().retrieve()
        >>> cx.execute()
        >>> y.numpy().round(2)
        array([0.  , 1.96], dtype=float32)
        """
        double = self * 2.0 - 1.0
        value = double._erfinv(self * (-self + 1.0) * 4.0) * math.sqrt(2)
        return value._spells("ndtri", self)

    @in_float
    def log_ndtr(self) -> Self:
        """Return log(ndtr(x)), accurate far below 0.

        >>> x = cx.tensor((2,)).set([0, -20])
        >>> y = x.log_ndtr().retrieve()
        >>> cx.execute()
        >>> y.numpy().round(2)
        array([  -0.69, -203.92], dtype=float32)
        """
        low = self < -1
        below, above = low.where(self, -1.0), low.where(0.0, self)
        tail = (below * -math.sqrt(0.5)).erfcx().log() - math.log(2) - below * below * 0.5
        usual = -((above * math.sqrt(0.5)).erfc() * 0.5)
        return low.where(tail, usual.log1p())

    @in_float
    def erfcx(self) -> Self:
        """Return exp(x²) · erfc(x), which neither overflows nor vanishes above 0.

        >>> x = cx.tensor((2,)).set([0, 100])
        >>> y = x.erfcx().retrieve()
        >>> cx.execute()
        >>> y.numpy().round(5)
        array([1.     , 0.00564], dtype=float32)
        """
        size = formulas.magnitude(self)
        part = (size * formulas.ERFC_SLOPE + 1.0).recip()
        value = part * formulas.polynomial(part, formulas.ERFC)
        edge = 28.0 if self.dtype is DType.float64 else 12.0
        far = (size > edge).where(size, edge).recip()
        terms = [math.sqrt(1 / math.pi) * c for c in (1, -1 / 2, 3 / 4, -15 / 8, 105 / 16)]
        value = (size > edge).where(far * _powers(far * far, terms), value)
        below = (self * self).exp() * 2.0 - value
        return (self < 0).where(below, value)._spells("erfcx", self)

    @in_float
    def entr(self) -> Self:
        """Return -x · log(x): 0 at 0, and -inf below.

        >>> x = cx.tensor((2,)).set([0.5, -1])
        >>> y = x.entr().retrieve()
        >>> cx.execute()
        >>> y.numpy().round(4)
        array([0.3466,   -inf], dtype=float32)
        """
        positive = self > 0
        value = -(positive.where(self, 1.0).log() * self)
        return (self < 0).where(-math.inf, value)._spells("entr", self)

    # -- Bessel functions --------------------------------------------------------------------------

    @in_float
    def i0(self) -> Self:
        """Return the modified Bessel function of the first kind and order 0.

        >>> x = cx.tensor((2,)).set([0, 1])
        >>> y = x.i0().retrieve()
        >>> cx.execute()
        >>> y.numpy().round(4)
        array([1.    , 1.2661], dtype=float32)
        """
        return _modified_bessel(self, 0, scaled=False)._spells("i0", self)

    @in_float
    def i0e(self) -> Self:
        """Return exp(-|x|) · i0(x).

        >>> x = cx.tensor((2,)).set([0, 1000])
        >>> y = x.i0e().retrieve()
        >>> cx.execute()
        >>> y.numpy().round(4)
        array([1.    , 0.0126], dtype=float32)
        """
        return _modified_bessel(self, 0, scaled=True)._spells("i0e", self)

    @in_float
    def i1(self) -> Self:
        """Return the modified Bessel function of the first kind and order 1.

        >>> x = cx.tensor((2,)).set([0, 1])
        >>> y = x.i1().retrieve()
        >>> cx.execute()
        >>> y.numpy().round(4)
        array([0.    , 0.5652], dtype=float32)
        """
        return _modified_bessel(self, 1, scaled=False)._spells("i1", self)

    @in_float
    def i1e(self) -> Self:
        """Return exp(-|x|) · i1(x).

        >>> x = cx.tensor((2,)).set([0, 1000])
        >>> y = x.i1e().retrieve()
        >>> cx.execute()
        >>> y.numpy().round(4)
        array([0.    , 0.0126], dtype=float32)
        """
        return _modified_bessel(self, 1, scaled=True)._spells("i1e", self)


def _powers(x: S, coefficients: Sequence[float]) -> S:
    """Return a polynomial, lowest power first."""
    result = x.full_like(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + coefficient
    return result


def _stirling(x: S) -> S:
    """Return what Stirling's formula for log Γ(x) lacks, for x from 8 on."""
    inverse = x.recip()
    terms = [float(b / ((2 * k + 2) * (2 * k + 1))) for k, b in enumerate(BERNOULLI)]
    return inverse * _powers(inverse * inverse, terms)


def _zeta(y: S, s: int) -> S:
    """Return the sum of (y + k) ** -s over all k from 0 on, for y from 0 on, by Euler-Maclaurin."""
    total = y.full_like(0.0)
    for k in range(SHIFT):
        total = total + (y + float(k)).recip()._whole_power(s)
    x = (y + float(SHIFT)).recip()
    power = x._whole_power(s - 1)
    terms = [1 / (s - 1), 0.5]
    factor = Fraction(s)
    for k, b in enumerate(BERNOULLI):  # B2k / (2k)! · s (s + 1) … (s + 2k - 2)
        terms += [float(b / math.factorial(2 * k + 2) * factor), 0.0]
        factor *= (s + 2 * k + 1) * (s + 2 * k + 2)
    return total + power * _powers(x, terms)


def _cotangent_slope(powers: Sequence[float]) -> list[float]:
    """Return the derivative by x of a polynomial of cot(x), as a polynomial of cot(x)."""
    slope = [k * c for k, c in enumerate(powers)][1:]
    return [-a - b for a, b in zip([*slope, 0.0, 0.0], [0.0, 0.0, *slope], strict=True)]


def _modified_bessel(x: S, order: int, *, scaled: bool) -> S:
    """Return I0 or I1 of x, scaled by exp(-|x|): by its power series, from some x on by another."""
    double = x.dtype is DType.float64
    edge, terms, far_terms = (20, 45, 30) if double else (12, 26, 9)
    size = formulas.magnitude(x)
    near = size < edge
    low, high = near.where(size, 0.0), near.where(float(edge), size)
    series = [1 / (math.factorial(k) * math.factorial(k + order)) for k in range(terms)]
    inner = _powers(low * low * 0.25, series)
    inner = inner * (low * 0.5) if order else inner
    far, mu = [1.0], 4 * order * order
    for k in range(1, far_terms):
        far.append(-far[-1] * (mu - (2 * k - 1) ** 2) / (8 * k))
    outer = _powers(high.recip(), far) * (high * (2 * math.pi)).rsqrt()
    endless = high.eq(math.inf)
    outer = endless.where(0.0, outer)
    if scaled:
        value = near.where(inner * (-low).exp(), outer)
    else:
        # Half of the power at a time: the whole of it is infinite before the value is.
        half = (high * 0.5).exp()
        value = near.where(inner, endless.where(math.inf, half * (half * outer)))
    return (x < 0).where(-value, value) if order else value
