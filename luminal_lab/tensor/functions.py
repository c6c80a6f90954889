"""Functions of one value: exponentials, logarithms, trigonometry, rounding.

Each meets three goals: in float32 it is within 1e-6 of the true value wherever that is a
normal number, its derivative is finite wherever it exists, and it takes few ops.
"""

from __future__ import annotations

# The functions of this file use private members of its class.
# pyright: reportPrivateUsage=false
import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, Self, TypeVar

import numpy as np

from luminal_lab.core.dims import Dim
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import tuple_text
from luminal_lab.core.ops import Reshape, Sin, Sqrt
from luminal_lab.errors import DTypeError, RangeError, ShapeError
from luminal_lab.tensor import formulas
from luminal_lab.tensor.arithmetic import Operand
from luminal_lab.tensor.formulas import LAST, LN2, LOG2E
from luminal_lab.tensor.joining import Joining
from luminal_lab.tensor.lazy import Lazy
from luminal_lab.tensor.operation import operation

HALVES = (DType.float16, DType.bfloat16)
T = TypeVar("T", bound=Joining)
P = ParamSpec("P")
F = TypeVar("F", bound="Functions")


def in_float(formula: Callable[Concatenate[T, P], T]) -> Callable[Concatenate[T, P], T]:
    """Mark an operation on floats: integers become float32, and halves are computed in float32."""

    @operation
    @wraps(formula)
    def call(self: T, /, *args: P.args, **kwargs: P.kwargs) -> T:
        x = self._as_float()
        dtype = x.type.dtype
        result = formula(widened(x), *args, **kwargs)
        return result if result.type.dtype is dtype else result.cast(dtype)

    return call


def widened(x: T) -> T:
    """Return a tensor for composite arithmetic: halves become float32."""
    return x.cast(DType.float32) if x.type.dtype in HALVES else x


def number(what: str, name: str, value: float) -> float:
    """Return a numeric argument, or raise."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise DTypeError(
            f"{what}: {name} is {value!r} and not a number", hint=f"give {name} as a float"
        ) from None


def beside(dtype: DType, value: float, direction: float) -> float:
    """Return the next number of a dtype above or below `value`."""
    if not dtype.is_float:
        return value + math.copysign(1, direction)
    cell = dtype.numpy.type
    with np.errstate(all="ignore"):
        return float(np.nextafter(cell(value), cell(direction)))


class Functions(Joining):
    """Functions of one value."""

    __slots__ = ()

    def _floats(self, what: str, *others: Operand) -> tuple[DType, list[Self]]:
        """Return the float dtype of the result, and the operands in the dtype for computation."""
        values = self._floats_together(what, *others)
        return values[0].dtype, [widened(value) for value in values]

    def _aligned(self, what: str, name: str, value: Operand, axes: Sequence[int]) -> Self:
        """Return a parameter with the sizes of some axes, reshaped to this tensor's rank."""
        given = self._operand(value, what)
        wanted = tuple(self.shape[axis] for axis in axes)
        if not isinstance(given, Lazy) or given.shape != wanted:
            said = given.label if isinstance(given, Lazy) else repr(given)
            raise ShapeError(
                f"{what}: {name} is {said}, but there are {tuple_text(wanted)} values to give one "
                f"each: axes {tuple_text(axes)} of {self.label}",
                hint=f"give {name} the shape {tuple_text(wanted)}",
            )
        sizes: list[Dim] = [1] * self.ndim
        for axis in axes:
            sizes[axis] = self.shape[axis]
        return given._apply(Reshape(tuple(sizes)))

    # -- exponentials and logarithms ---------------------------------------------------------------

    @in_float
    def exp(self) -> Self:
        """Return e to the power of x.

        It is 2 to the power of x · log2(e); rounding this exponent would cost accuracy for
        large x. So the exponent is split: x, x/4 and x/8 are exact, and the rest is small.

        >>> cx.tensor((2,)).exp().op_counts()
        {'constant': 3, 'exp2': 4, 'mul': 6}
        """
        return formulas.exp(self)

    @in_float
    def log(self) -> Self:
        """Return the natural logarithm.

        >>> print(cx.tensor((2,), name="x").log().lowering())
        %1 = log2 %x : f32[2]
        %2 = constant{value = 0.6931471805599453} : f32[2]
        %3 = mul %1, %2 : f32[2]
        """
        return self.log2() * LN2

    @in_float
    def log10(self) -> Self:
        """Return the logarithm to base 10.

        >>> print(cx.tensor((2,), name="x").log10().lowering())
        %1 = log2 %x : f32[2]
        %2 = constant{value = 0.3010299956639812} : f32[2]
        %3 = mul %1, %2 : f32[2]
        """
        return self.log2() * math.log10(2)

    @in_float
    def log1p(self) -> Self:
        """Return log(1 + x), accurate for small x.

        >>> cx.tensor((2,)).log1p().op_counts()
        {'add': 4, 'constant': 6, 'less_than': 1, 'log2': 1, 'mul': 2, 'where': 1}
        """
        total = self + 1.0
        exact = total.log() + (self < 1).where(formulas.lost(self, total), 0.0)
        return exact._spells("log1p", self)

    @in_float
    def expm1(self) -> Self:
        """Return exp(x) - 1, accurate for small x.

        >>> cx.tensor((2,)).expm1().op_counts()
        {'add': 4, 'constant': 9, 'exp2': 4, 'less_than': 1, 'log2': 1, 'mul': 9, 'where': 1}
        """
        power = formulas.exp(self)
        lost = self - (power + LAST).log()  # in the rounding of the power
        exact = (power - 1.0) + (self * self < 1).where(lost, 0.0)
        return exact._spells("expm1", self)

    @in_float
    def sigmoid(self) -> Self:
        """Return 1 / (1 + exp(-x)), by an exponential that does not overflow.

        >>> cx.tensor((2,)).sigmoid().op_counts()
        {'add': 1, 'constant': 7, 'exp2': 4, 'less_than': 1, 'mul': 8, 'recip': 1, 'where': 2}
        """
        negative, power = formulas.falling(self)
        ratio = negative.where(power, 1.0) * (power + 1.0).recip()
        return ratio._spells("sigmoid", self)

    @in_float
    def logit(self, eps: float | None = None) -> Self:
        """Return log(x / (1 - x)), with x clamped to eps and 1 - eps if eps is given.

        >>> cx.tensor((2,)).logit().op_counts()
        {'add': 7, 'constant': 6, 'log2': 2, 'mul': 4}
        """
        low = 0.0 if eps is None else number("logit", "eps", eps)
        if not low <= 0.5:
            raise RangeError(f"logit: eps is {eps}, and must be up to 0.5", hint="try eps=1e-6")
        x = self if eps is None else self.clip(low, 1 - low)
        rest = -x + 1.0
        lost = (rest - 1.0) + x  # in the rounding of the rest; felt near 0.5
        odds = ((x + x).log2() - (rest + rest).log2()) * LN2 + lost * 2.0
        return odds._spells("logit", self, settings=(low, 1 - low))

    @operation
    def logaddexp(self, other: Operand) -> Self:
        """Return log(exp(x) + exp(y)), where neither power overflows.

        >>> cx.tensor((2,)).logaddexp(0.0).op_counts()
        {'add': 7, 'constant': 10, 'exp2': 1, 'less_than': 2, 'log2': 1, 'mul': 5, 'where': 4}
        """
        dtype, (x, y) = self._floats("logaddexp", other)
        difference, below = x - y, x < y
        gap = below.where(difference, -difference)  # NaN for equal infinities
        usual = gap < 1
        more = formulas.log1p(((usual.where(gap, 0.0)) * LOG2E).exp2())
        total = below.where(y, x) + usual.where(more, x + y)
        return total._spells("logaddexp", x, y).cast(dtype)

    @operation
    def logaddexp2(self, other: Operand) -> Self:
        """Return log2(2**x + 2**y), where neither power overflows.

        >>> x = cx.tensor((2,)).set([1, 1000])
        >>> y = x.logaddexp2(1.0).retrieve()
        >>> cx.execute()
        >>> y.numpy().round(3)
        array([   2., 1000.], dtype=float32)
        """
        dtype, (x, y) = self._floats("logaddexp2", other)
        return ((x * LN2).logaddexp(y * LN2) * LOG2E).cast(dtype)

    @operation
    def ldexp(self, other: Operand) -> Self:
        """Return x times 2 to the power of y.

        >>> y = cx.arange(3).ldexp([1, 2, 3]).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0.0, 4.0, 16.0]
        """
        return self * self._tensor_of(other).exp2()

    @operation
    def xlog1py(self, other: Operand) -> Self:
        """Return x · log(1 + y), with 0 where x is 0, unless y is NaN.

        >>> x = cx.tensor((2,)).set([0, 2])
        >>> y = x.xlog1py([-1, 0]).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0.0, 0.0]
        """
        dtype, (x, y) = self._floats("xlog1py", other)
        product = x * (x.eq(0) & y.isnan().logical_not()).where(0.0, y).log1p()
        return product._spells("xlog1py", x, y).cast(dtype)

    @operation
    def xlogy(self, other: Operand) -> Self:
        """Return x · log(y), with 0 where x is 0, unless y is NaN.

        >>> cx.tensor((2,)).xlogy(2.0).op_counts()
        {'add': 2, 'constant': 9, 'less_than': 7, 'log2': 1, 'mul': 6, 'where': 1}
        """
        dtype, (x, y) = self._floats("xlogy", other)
        product = x * (x.eq(0) & y.isnan().logical_not()).where(1.0, y).log()
        return product._spells("xlogy", x, y).cast(dtype)

    # -- roots and powers --------------------------------------------------------------------------

    @operation
    def sqrt(self) -> Self:
        """Return the square root.

        >>> print(cx.tensor((2,), name="x").sqrt().lowering())
        %1 = sqrt %x : f32[2]
        """
        return self._as_float()._apply(Sqrt())

    @operation
    def hypot(self, other: Operand) -> Self:
        """Return √(x² + y²), where neither square overflows.

        >>> x = cx.tensor((2,)).set([3, 3e30])
        >>> y = x.hypot([4, 4e30]).retrieve()
        >>> cx.execute()
        >>> y.numpy()
        array([5.e+00, 5.e+30], dtype=float32)
        """
        dtype, (x, y) = self._floats("hypot", other)
        _, large, small = formulas.sides(x, y)
        ratio, _ = formulas.fraction(small, large)
        length = large * (ratio * ratio + 1.0).sqrt()
        length = (x.isinf() | y.isinf()).where(math.inf, length)
        return length._spells("hypot", x, y).cast(dtype)

    @in_float
    def rsqrt(self) -> Self:
        """Return 1 / √x.

        >>> print(cx.tensor((2,), name="x").rsqrt().lowering())
        %1 = sqrt %x : f32[2]
        %2 = recip %1 : f32[2]
        """
        return self.sqrt().recip()

    @operation
    def square(self) -> Self:
        """Return x · x.

        >>> print(cx.tensor((2,), name="x").square().lowering())
        %1 = mul %x, %x : f32[2]
        """
        return self.pow(2)

    # -- trigonometry ------------------------------------------------------------------------------

    @operation
    def sin(self) -> Self:
        """Return the sine.

        >>> print(cx.tensor((2,), name="x").sin().lowering())
        %1 = sin %x : f32[2]
        """
        return self._as_float()._apply(Sin())

    @in_float
    def cos(self) -> Self:
        """Return the cosine: 1 - 2 sin²(x/2), and near its zeros sin(2x) / (2 sin x).

        >>> cx.tensor((2,)).cos().op_counts()
        {'add': 3, 'constant': 8, 'less_than': 2, 'mul': 8, 'recip': 1, 'sin': 3, 'where': 2}
        """
        half = (self * 0.5).sin()
        cosine = half * half * -2.0 + 1.0
        # Where x + x overflows, the first form is the best.
        near = (cosine * cosine < 0.25) & (self + self).isfinite()
        x = near.where(self, 1.0)
        exact = near.where((x + x).sin() * (x.sin() * 2.0).recip(), cosine)
        return exact._spells("cos", self)

    @in_float
    def tan(self) -> Self:
        """Return the tangent.

        >>> cx.tensor((2,)).tan().op_counts()
        {'add': 3, 'constant': 8, 'less_than': 2, 'mul': 9, 'recip': 2, 'sin': 4, 'where': 2}
        """
        return self.sin() * self.cos().recip()

    @in_float
    def asin(self) -> Self:
        """Return the angle whose sine is x.

        >>> cx.tensor((2,)).asin().op_counts()
        {'add': 9, 'constant': 11, 'mul': 11, 'recip': 2, 'sqrt': 2}
        """
        root = ((self + 1.0) * (-self + 1.0)).sqrt()
        angle = formulas.atan(self * (root + 1.0).recip(), 2.0)
        return angle._spells("asin", self)

    @in_float
    def acos(self) -> Self:
        """Return the angle whose cosine is x.

        >>> cx.tensor((2,)).acos().op_counts()
        {'add': 9, 'constant': 15, 'less_than': 2, 'mul': 12, 'recip': 2, 'sqrt': 2, 'where': 2}
        """
        size = formulas.magnitude(self)
        angle = formulas.atan(((-size + 1.0) * (size + 1.0).recip()).sqrt(), 2.0)
        return (self < 0).where(-angle + math.pi, angle)._spells("acos", self)

    @in_float
    def atan(self) -> Self:
        """Return the angle whose tangent is x.

        >>> cx.tensor((2,)).atan().op_counts()
        {'add': 7, 'constant': 14, 'less_than': 2, 'mul': 10, 'recip': 2, 'sqrt': 1, 'where': 4}
        """
        inner = self * self < 1
        angle = formulas.atan(inner.where(self, -inner.where(1.0, self).recip()))
        quarter = (self < 0).where(-math.pi / 2, self.full_like(math.pi / 2))
        return inner.where(0.0, quarter) + angle

    @operation
    def atan2(self, other: Operand) -> Self:
        """Return the angle of the point (x, y), with this tensor as y and the other as x.

        >>> cx.tensor((2,)).atan2(1.0).op_counts()
        {'add': 10, 'constant': 29, 'less_than': 11, 'mul': 17, 'recip': 4, 'sqrt': 1, 'where': 10}
        """
        dtype, (y, x) = self._floats("atan2", other)
        steep, large, small = formulas.sides(y, x)
        ratio, _ = formulas.fraction(small, large)
        most = beside(x.dtype, math.inf, 0)
        infinite = (small > most) & (large > most)
        angle = formulas.atan(infinite.where(1.0, ratio))
        angle = steep.where(-angle + math.pi / 2, angle)
        angle = x.signbit().where(-angle + math.pi, angle)
        return y.signbit().where(-angle, angle)._spells("atan2", y, x).cast(dtype)

    @in_float
    def sinh(self) -> Self:
        """Return the hyperbolic sine: (exp(x) - exp(-x)) / 2, and near 0 by a polynomial.

        >>> cx.tensor((2,)).sinh().op_counts()
        {'add': 3, 'constant': 13, 'exp2': 4, 'less_than': 3, 'mul': 15, 'recip': 1, 'where': 3}
        """
        power = formulas.half_exp(self)
        far = power - power.recip() * 0.25
        square = self * self
        near = self + self * (square * formulas.polynomial(square, formulas.SINH))
        return (square < 0.25).where(near, (self < 0).where(-far, far))

    @in_float
    def cosh(self) -> Self:
        """Return the hyperbolic cosine: (exp(x) + exp(-x)) / 2.

        >>> cx.tensor((2,)).cosh().op_counts()
        {'add': 1, 'constant': 7, 'exp2': 4, 'less_than': 1, 'mul': 9, 'recip': 1, 'where': 1}
        """
        power = formulas.half_exp(self)
        return (power + power.recip() * 0.25)._spells("cosh", self)

    @in_float
    def tanh(self) -> Self:
        """Return the hyperbolic tangent: m / (m + 2), where m = exp(2x) - 1 for x below 0.

        >>> sum(cx.tensor((2,)).tanh().op_counts().values())
        30
        """
        negative = self < 0
        less = formulas.exp2m1(negative.where(self, -self) * (2 * LOG2E))
        ratio = less * (less + 2.0).recip()
        return negative.where(ratio, -ratio)

    @in_float
    def asinh(self) -> Self:
        """Return the inverse of sinh.

        >>> sum(cx.tensor((2,)).asinh().op_counts().values())
        54
        """
        angle = formulas.asinh(formulas.magnitude(self))
        return (self < 0).where(-angle, angle)

    @in_float
    def acosh(self) -> Self:
        """Return the inverse of cosh; NaN below 1.

        >>> sum(cx.tensor((2,)).acosh().op_counts().values())
        51
        """
        half = formulas.asinh(((self - 1.0) * 0.5).sqrt())
        return (half * 2.0)._spells("acosh", self)

    @in_float
    def atanh(self) -> Self:
        """Return the inverse of tanh; NaN beyond -1 and 1.

        >>> cx.tensor((2,)).atanh().op_counts()
        {'add': 9, 'constant': 15, 'less_than': 2, 'log2': 2, 'mul': 7, 'where': 2}
        """
        return ((self.log1p() - (-self).log1p()) * 0.5)._spells("atanh", self)

    @in_float
    def sinc(self) -> Self:
        """Return sin(πx) / (πx), which is 1 at 0.

        >>> cx.tensor((2,)).sinc().op_counts()
        {'constant': 4, 'less_than': 1, 'mul': 3, 'recip': 1, 'sin': 1, 'where': 2}
        """
        angle = self * math.pi
        zero = angle * angle < 1e-17
        return zero.where(1.0, angle.sin() * zero.where(1.0, angle).recip())

    @in_float
    def deg2rad(self) -> Self:
        """Return degrees in radians.

        >>> print(cx.tensor((2,), name="x").deg2rad().lowering())
        %1 = constant{value = 0.017453292519943295} : f32[2]
        %2 = mul %x, %1 : f32[2]
        """
        return self * (math.pi / 180)

    @in_float
    def rad2deg(self) -> Self:
        """Return radians in degrees.

        >>> print(cx.tensor((2,), name="x").rad2deg().lowering())
        %1 = constant{value = 57.29577951308232} : f32[2]
        %2 = mul %x, %1 : f32[2]
        """
        return self * (180 / math.pi)

    arcsin, arccos, arctan, arctan2 = asin, acos, atan, atan2
    arcsinh, arccosh, arctanh = asinh, acosh, atanh

    # -- rounding and signs ------------------------------------------------------------------------

    @operation
    def floor(self) -> Self:
        """Return the next whole number at or below x.

        >>> cx.tensor((2,)).floor().op_counts()
        {'add': 1, 'constant': 4, 'less_than': 1, 'mod': 1, 'mul': 1, 'where': 1}
        """
        return self._without(self.remainder(1)) if self.dtype.is_float else self

    @operation
    def ceil(self) -> Self:
        """Return the next whole number at or above x.

        >>> cx.tensor((2,)).ceil().op_counts()
        {'add': 1, 'constant': 4, 'less_than': 1, 'mod': 1, 'mul': 1, 'where': 1}
        """
        return self._without(self.remainder(-1)) if self.dtype.is_float else self

    @operation
    def trunc(self) -> Self:
        """Return the next whole number at or towards 0.

        >>> cx.tensor((2,)).trunc().op_counts()
        {'add': 1, 'constant': 6, 'less_than': 2, 'mod': 1, 'mul': 1, 'where': 2}
        """
        return self._without(self.frac()) if self.dtype.is_float else self

    def _without(self, rest: Self) -> Self:
        """Return this minus the rounded-off part, which is NaN for an infinity."""
        return (self - formulas.finite(rest))._spells("rounded", self)

    @operation
    def frac(self) -> Self:
        """Return the fraction that `trunc` removes.

        >>> print(cx.tensor((2,), name="x").frac().lowering())
        %1 = constant{value = 0.0} : f32[2]
        %2 = less_than %x, %1 : bool[2]
        %3 = constant{value = 1.0} : f32[2]
        %4 = constant{value = -1.0} : f32[2]
        %5 = where %2, %4, %3 : f32[2]
        %6 = mod %x, %5 : f32[2]
        """
        x = self._as_float()
        return x.remainder((x < 0).where(-1.0, x.full_like(1.0)))

    @operation
    def round(self, decimals: int = 0) -> Self:
        """Return the nearest number with `decimals` decimals; ties go to the even one.

        >>> cx.tensor((2,)).round().op_counts()
        {'add': 2, 'constant': 9, 'less_than': 3, 'mod': 2, 'mul': 1, 'where': 3}
        """
        if not decimals or not self.dtype.is_float:
            return self.round_to_even()
        scale = 10.0 ** abs(number("round", "decimals", decimals))
        x = widened(self)
        if decimals > 0:
            rounded = (x * scale).round_to_even() / scale
        else:
            rounded = (x / scale).round_to_even() * scale
        return rounded._spells("rounded", x).cast(self.dtype)

    @operation
    def signbit(self) -> Self:
        """Return where the sign is minus, -0.0 included.

        >>> print(cx.tensor((2,), name="x").signbit().lowering())
        %1 = constant{value = 0.0} : f32[2]
        %2 = less_than %x, %1 : bool[2]
        %3 = recip %x : f32[2]
        %4 = constant{value = 0.0} : f32[2]
        %5 = less_than %3, %4 : bool[2]
        %6 = add %2, %5 : bool[2]
        """
        negative = self < 0
        return negative | (self.recip() < 0) if self.dtype.is_float else negative

    @operation
    def copysign(self, other: Operand) -> Self:
        """Return x with the sign of the other value.

        >>> cx.tensor((2,)).copysign(1.0).op_counts()
        {'add': 3, 'constant': 7, 'less_than': 7, 'mul': 1, 'recip': 2, 'where': 1}
        """
        x, sign = self._floats_together("copysign", other)
        return sign.signbit().eq(x.signbit()).where(x, -x)._spells("copysign", x, sign)

    @operation
    def nan_to_num(
        self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
    ) -> Self:
        """Return x with numbers for NaN and the infinities, by default 0 and the largest ones.

        >>> cx.tensor((2,)).nan_to_num().op_counts()
        {'constant': 7, 'less_than': 4, 'mul': 1, 'where': 3}
        """
        if not self.dtype.is_float:
            return self
        most = beside(self.dtype, math.inf, 0)
        x = self.isnan().where(nan, self)
        x = (x > most).where(most if posinf is None else posinf, x)
        return (x < -most).where(-most if neginf is None else neginf, x)

    fix = trunc
