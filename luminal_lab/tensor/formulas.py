"""The formulas behind the functions: accurate in float32, with finite derivatives."""

from __future__ import annotations

# The formulas use private members of the class.
# pyright: reportPrivateUsage=false
import math
from typing import TYPE_CHECKING, Literal, TypeVar

from luminal_lab.core.dtypes import DType

if TYPE_CHECKING:
    from luminal_lab.tensor.functions import Functions

F = TypeVar("F", bound="Functions")

LN2 = math.log(2)
LOG2E = math.log2(math.e)
LAST = 1e-30  # keeps log2 finite where its argument may be 0


def exp_parts(x: F) -> tuple[F, F]:
    """Return two factors of exp(x), to multiply a value in between."""
    return x.exp2(), (x * 0.25).exp2() * ((x * 0.125).exp2() * (x * (LOG2E - 1.375)).exp2())


def exp(x: F) -> F:
    """Return e to the power of x."""
    whole, rest = exp_parts(x)
    return (whole * rest)._spells("exp", x)


def tiny(x: Functions) -> float:
    """Return the smallest positive number of a dtype for computation."""
    return 5e-324 if x.dtype is DType.float64 else 2.0**-149


def is_zero(x: F) -> F:
    """Return where x is 0 or -0."""
    least = tiny(x)
    return (x < least) & (x > -least)


def sides(y: F, x: F) -> tuple[F, F, F]:
    """Return whether |y| > |x|, and the larger and the smaller of the two."""
    high, wide = magnitude(y), magnitude(x)
    steep = wide < high
    return steep, steep.where(high, wide), steep.where(wide, high)


def fraction(small: F, large: F) -> tuple[F, F]:
    """Return small / large (0 for two zeros), and the factor that scales both for it.

    The factor is a power of two that gives subnormal numbers a finite reciprocal.
    """
    most = 2.0**1000 if large.dtype is DType.float64 else 2.0**100
    scale = (large < 1).where(most, large.full_like(1.0))
    divisor = (large < tiny(large)).where(1.0, large) * scale
    return small * scale * divisor.recip(), scale


def half_exp(x: F) -> F:
    """Return exp(|x|) / 2, which is in range wherever cosh(x) is."""
    whole, rest = exp_parts(magnitude(x))
    return whole * (rest * 0.5)


def exp2m1(x: F) -> F:
    """Return 2**x - 1 for x up to 0, accurate for small x."""
    power = x.exp2()
    lost = (x - (power + LAST).log2()) * LN2
    return (power - 1.0) + (x > -1).where(lost, 0.0)


def lost(x: F, total: F) -> F:
    """Return the error of rounding x + 1 to `total`."""
    return x + (-total + 1.0)


def log1p(x: F) -> F:
    """Return log(1 + x) for x from 0 to 1."""
    total = x + 1.0
    return total.log() + lost(x, total)


def magnitude(x: F) -> F:
    """Return |x| with the derivative 1 at 0, for even functions and restored odd ones."""
    return (x < 0).where(-x, x)


def falling(x: F) -> tuple[F, F]:
    """Return whether x is negative, and exp(-|x|)."""
    negative = x < 0
    return negative, exp(negative.where(x, -x))


def falling_product(x: F) -> tuple[F, F, F]:
    """Return the result of `falling`, and x times the power if x is negative, else x."""
    negative = x < 0
    whole, rest = exp_parts(negative.where(x, -x))
    # x exp(x) is still a normal number where exp(x) no longer is.
    return negative, whole * rest, negative.where(whole * (rest * x), x)


def tanh_of_softplus(negative: F, power: F) -> F:
    """Return tanh(log(1 + exp(x))) as a fraction of powers of exp, from the result of `falling`."""
    square = power * power
    above = negative.where(square + power * 2.0, power * 2.0 + 1.0)
    return above * (above + negative.where(2.0, square * 2.0)).recip()


def bent(x: F, width: float, alpha: float) -> F:
    """Return x above 0, and alpha (exp(x / width) - 1) below."""
    below = x < tiny(x)
    return below.where(exp2m1(below.where(x, 0.0) * (LOG2E / width)) * alpha, x)


def finite(x: F) -> F:
    """Return a remainder, with 0 for infinities and NaN."""
    return (x < 2).where(x, 0.0)


def polynomial(x: F, coefficients: Coefficients, scale: float = 1.0) -> F:
    """Return a polynomial, with the coefficients for the dtype of x, times a scale."""
    *rest, last = coefficients["f64" if x.dtype is DType.float64 else "f32"]
    result = x.full_like(last * scale)
    for coefficient in reversed(rest):
        result = result * x + coefficient * scale
    return result


def atan(x: F, times: float = 1.0) -> F:
    """Return atan(x) for x from -1 to 1, by a polynomial for half the angle."""
    half = x * ((x * x + 1.0).sqrt() + 1.0).recip()
    return half * polynomial(half * half, ATAN, times)


def asinh(x: F) -> F:
    """Return asinh(x) for x from 0 on, infinity included."""
    small = x < 1
    low, high = small.where(x, 0.0), small.where(1.0, x)
    root = (low * low + 1.0).sqrt() + 1.0
    near = (low + low * low * root.recip()).log1p()
    inverse = high.recip()
    far = (high.log2() + ((inverse * inverse + 1.0).sqrt() + 1.0).log2()) * LN2
    return small.where(near, far)


def erfc(x: F) -> F:
    """Return erfc(x) for x from 0 to 28: exp(-x²) times a polynomial in 1 / (1 + p x)."""
    # A multiple of 1/16 has an exact square; the error of x² would be an error of the power.
    high = (x * 16.0).floor() * 0.0625
    low = x - high
    power = exp(-(high * high)) * (low * (x + high) * -LOG2E).exp2()
    part = (x * ERFC_SLOPE + 1.0).recip()
    return power * (part * polynomial(part, ERFC))


def gelu(x: F) -> F:
    """Return x times the normal distribution's integral up to x."""
    size = magnitude(x)
    part = (size * (ERFC_SLOPE / math.sqrt(2)) + 1.0).recip()
    tail = (size * size * (-LOG2E / 2)).exp2() * (part * polynomial(part, ERFC, 0.5))
    return x * (x < 0).where(tail, -tail + 1.0)


def gelu_tanh(x: F) -> F:
    """Return x sigmoid(2 √(2/π) (x + 0.044715 x³)), close to `gelu`."""
    scale = 2 * LOG2E * math.sqrt(2 / math.pi)
    exponent = x * (x * x * (scale * 0.044715) + scale)
    power = (x < 0).where(exponent, -exponent).exp2()
    return x * ((x < 0).where(power, 1.0) * (power + 1.0).recip())


# Minimax polynomials, lowest power first.
Coefficients = dict[Literal["f32", "f64"], tuple[float, ...]]
ERFC_SLOPE = 0.43
# fmt: off
ATAN: Coefficients = {
    "f32": (
      1.99999996404, -0.66665598806, 0.399489494768, -0.2770424462, 0.159736496909),
    "f64": (
      1.9999999999999492, -0.6666666666178257, 0.39999999231050737, -0.28571381833264048,
      0.22220792576945858, -0.18157063028376591, 0.15129324467639008, -0.11755877553530437,
      0.061424794636091802),
}
SINH: Coefficients = {
    "f32": (
      0.166661339966, 0.00840245749715),
    "f64": (
      0.16666666666666666, 0.0083333333333333332, 0.00019841269841269841, 2.7557319223985893e-06,
      2.505210838544172e-08, 1.6059043836821613e-10),
}
ERF: Coefficients = {
    "f32": (
      -1.62790708671, -0.918443452007, -0.148329911114, 0.0278755386325, -0.000297049541207,
      -0.00180570422642, 0.000549604430244, -5.87207153634e-05),
    "f64": (
      1.1283791670955126, -0.37612638903182577, 0.1128379167085056, -0.026866170609287789,
      0.0052239770093458942, -0.0008548267448231329, 0.00012051940503020954,
      -1.4812507704696694e-05, 1.4402572143550133e-06),
}
ERFC: Coefficients = {
    "f32": (
      0.242519816182, 0.24429383091, 0.20547247468, 0.245080769091, -0.082304504853, 0.379887530387,
      -0.308095788239, 0.0731458593591),
    "f64": (
      0.24260152091984133, 0.24260152141379607, 0.22017299112329761, 0.17531644920313402,
      0.11424345340724334, 0.049509440449083245, -0.00421046006187859, -0.025068004423838552,
      -0.060406191001675227, 0.13466931088599965, -0.47982048640711983, 1.4386846723657349,
      -3.20824356469784, 5.7336395793547998, -7.9605814229192031, 8.027974328680596,
      -5.2962341592717008, 1.5025814747689838, 0.98292727101764066, -1.4587477453928206,
      0.88278661099104605, -0.3114885789985794, 0.062719081480192354, -0.0056270928867317846),
}
LGAMMA: Coefficients = {  # log Γ(z + 2) / z, in powers of z - 1/2
    "f32": (
      0.569365740946, 0.267581827314, -0.04480585302, 0.0108764470481, -0.00309497727796,
      0.000964148155498, -0.000316186839915, 0.000100373426679, -3.48677317905e-05,
      1.94975915884e-05, -7.0832344028e-06),
    "f64": (
      0.56936574094583832, 0.26758179939880993, -0.044805842697384683, 0.010877001514176138,
      -0.0030951822936091675, 0.00096109792923345864, -0.00031505925061347229,
      0.00010710019890310092, -3.7353365121421576e-05, 1.3275824159035962e-05,
      -4.7864230609927935e-06, 1.7449160753220739e-06, -6.4186589300746848e-07,
      2.3821394198901404e-07, -8.8803245390649273e-08, 3.2615752781659429e-08,
      -1.2267750513306079e-08, 5.3663091224240996e-09, -2.0374726783429949e-09,
      2.6023783338569588e-10, -9.7509475435139552e-11, 2.4284746134575989e-10,
      -9.3240882792677461e-11),
}
# M. Giles, Approximating the erfinv function; float64 begins with them, too.
ERFINV: Coefficients = {
    "f32": (
      1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06,
      -3.5233877e-06, 3.43273939e-07, 2.81022636e-08),
    "f64": (
      1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06,
      -3.5233877e-06, 3.43273939e-07, 2.81022636e-08),
}
ERFINV_TAIL: Coefficients = {
    "f32": (
      2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844,
      0.00134934322, 0.000100950558, -0.000200214257),
    "f64": (
      2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844,
      0.00134934322, 0.000100950558, -0.000200214257),
}
ERFINV_FAR: Coefficients = {  # erfinv(x) / s, in powers of 1/s - 31/216, where s² = -log(1 - x²)
    "f32": (
      0.9811620162, -0.1913807779, -0.1735823178, 1.119427023, -2.154579561, 5.454855908,
      -14.41277632, 52.74712118, -753.1367939, 3750.15573),
    "f64": (
      0.9811620162, -0.1913807779, -0.1735823178, 1.119427023, -2.154579561, 5.454855908,
      -14.41277632, 52.74712118, -753.1367939, 3750.15573),
}
# fmt: on
