"""Functions of one value: exponentials, logarithms, trigonometry, rounding, activations.

Each is chosen by three things: in float32 it is within 1e-6 of the true value wherever that is a
normal number, its derivative is finite wherever it has one, and it takes few ops.
"""

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, Literal, ParamSpec, Self, TypeVar

import numpy as np

from luminal_lab.core.builder import operation
from luminal_lab.core.dims import Dim
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import never, tuple_text
from luminal_lab.core.ops import Reshape, Sin, Sqrt
from luminal_lab.core.tensor.arithmetic import Operand
from luminal_lab.core.tensor.base import Lazy
from luminal_lab.core.tensor.movement import Movement
from luminal_lab.errors import DTypeError, LabError, RangeError, ShapeError, nearest

T = TypeVar("T", bound=Movement)
P = ParamSpec("P")
F = TypeVar("F", bound="Functions")

LN2 = math.log(2)
LOG2E = math.log2(math.e)
LAST = 1e-30  # keeps log2 finite where what it is taken of may be 0


def in_float(formula: Callable[Concatenate[T, P], T]) -> Callable[Concatenate[T, P], T]:
    """Mark an operation on floats: integers become float32, and halves are computed in it."""

    @operation
    @wraps(formula)
    def call(self: T, /, *args: P.args, **kwargs: P.kwargs) -> T:
        x = self.as_float()
        return formula(widened(x), *args, **kwargs).cast(x.dtype)

    return call


def widened(x: T) -> T:
    """Return a tensor as composite arithmetic takes it: halves as float32."""
    return x.cast(DType.float32) if x.dtype.is_half else x


def number(what: str, name: str, value: float) -> float:
    """Return an argument that must be a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise DTypeError(
            f"{what}: {name} is {value!r} and not a number", hint=f"give {name} as a float"
        ) from None


def beside(dtype: DType, value: float, direction: float) -> float:
    """Return the number of a dtype that is next to `value`, above or below it."""
    if not dtype.is_float:
        return value + math.copysign(1, direction)
    cell = dtype.numpy.type
    with np.errstate(all="ignore"):
        return float(np.nextafter(cell(value), cell(direction)))


class Functions(Movement):
    """Functions of one value."""

    __slots__ = ()

    def floats(self, what: str, *others: Operand) -> tuple[DType, list[Self]]:
        """Return the float dtype of what operands make, and them in the dtype to compute in."""
        values = [value.as_float() for value in self.together(what, *others)]
        return values[0].dtype, [widened(value) for value in values]

    def aligned(self, what: str, name: str, value: Operand, axes: Sequence[int]) -> Self:
        """Return a parameter that has the sizes of some axes, in this tensor's rank."""
        given = self.operand(value, what)
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
        return given.apply(Reshape(tuple(sizes)))

    # -- exponentials and logarithms ---------------------------------------------------------------

    @in_float
    def exp(self) -> Self:
        """Return e to the power of x.

        It is 2 to the power of x · log2(e), an exponent whose rounding would cost accuracy for
        large x. So it is split: x, x/4 and x/8 are exact, and little is left.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).exp().op_counts()
        {'constant': 3, 'exp2': 4, 'mul': 6}
        """
        return _exp(self)

    @in_float
    def log(self) -> Self:
        """Return the natural logarithm.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2,), name="x").log().lowering())
        %1 = log2 %x : f32[2]
        %2 = constant{value = 0.6931471805599453} : f32[2]
        %3 = mul %1, %2 : f32[2]
        """
        return self.log2() * LN2

    @in_float
    def log10(self) -> Self:
        """Return the logarithm to base 10.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2,), name="x").log10().lowering())
        %1 = log2 %x : f32[2]
        %2 = constant{value = 0.3010299956639812} : f32[2]
        %3 = mul %1, %2 : f32[2]
        """
        return self.log2() * math.log10(2)

    @in_float
    def log1p(self) -> Self:
        """Return log(1 + x), accurate for small x.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).log1p().op_counts()
        {'add': 4, 'constant': 6, 'less_than': 1, 'log2': 1, 'mul': 2, 'where': 1}
        """
        total = self + 1.0
        return total.log() + (self < 1).where(_lost(self, total), 0.0)

    @in_float
    def expm1(self) -> Self:
        """Return exp(x) - 1, accurate for small x.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).expm1().op_counts()
        {'add': 4, 'constant': 9, 'exp2': 4, 'less_than': 1, 'log2': 1, 'mul': 9, 'where': 1}
        """
        power = _exp(self)
        lost = self - (power + LAST).log()  # in the rounding of the power
        return (power - 1.0) + (self * self < 1).where(lost, 0.0)

    @in_float
    def sigmoid(self) -> Self:
        """Return 1 / (1 + exp(-x)), by an exponential that does not overflow.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).sigmoid().op_counts()
        {'add': 1, 'constant': 7, 'exp2': 4, 'less_than': 1, 'mul': 8, 'recip': 1, 'where': 2}
        """
        negative, power = _falling(self)
        return negative.where(power, 1.0) * (power + 1.0).recip()

    @in_float
    def logit(self, eps: float | None = None) -> Self:
        """Return log(x / (1 - x)), of x kept within eps and 1 - eps if eps is given.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).logit().op_counts()
        {'add': 7, 'constant': 6, 'log2': 2, 'mul': 4}
        """
        x = self if eps is None else self.clip(eps, 1 - number("logit", "eps", eps))
        rest = -x + 1.0
        lost = (rest - 1.0) + x  # in the rounding of the rest; felt near 0.5
        return ((x + x).log2() - (rest + rest).log2()) * LN2 + lost * 2.0

    @operation
    def logaddexp(self, other: Operand) -> Self:
        """Return log(exp(x) + exp(y)), where neither power overflows.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).logaddexp(0.0).op_counts()
        {'add': 7, 'constant': 10, 'exp2': 1, 'less_than': 2, 'log2': 1, 'mul': 5, 'where': 4}
        """
        dtype, (x, y) = self.floats("logaddexp", other)
        difference, below = x - y, x < y
        gap = below.where(difference, -difference)  # NaN for equal infinities
        usual = gap < 1
        more = _log1p(((usual.where(gap, 0.0)) * LOG2E).exp2())
        return (below.where(y, x) + usual.where(more, x + y)).cast(dtype)

    @operation
    def xlogy(self, other: Operand) -> Self:
        """Return x · log(y), which is 0 where x is 0, unless y is NaN.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).xlogy(2.0).op_counts()
        {'add': 2, 'constant': 9, 'less_than': 7, 'log2': 1, 'mul': 6, 'where': 1}
        """
        dtype, (x, y) = self.floats("xlogy", other)
        return (x * (x.eq(0) & y.isnan().logical_not()).where(1.0, y).log()).cast(dtype)

    # -- roots and powers --------------------------------------------------------------------------

    @operation
    def sqrt(self) -> Self:
        """Return the square root.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2,), name="x").sqrt().lowering())
        %1 = sqrt %x : f32[2]
        """
        return self.as_float().apply(Sqrt())

    @in_float
    def rsqrt(self) -> Self:
        """Return 1 / √x.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2,), name="x").rsqrt().lowering())
        %1 = sqrt %x : f32[2]
        %2 = recip %1 : f32[2]
        """
        return self.sqrt().recip()

    @operation
    def square(self) -> Self:
        """Return x · x.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2,), name="x").square().lowering())
        %1 = mul %x, %x : f32[2]
        """
        return self.pow(2)

    # -- trigonometry ------------------------------------------------------------------------------

    @operation
    def sin(self) -> Self:
        """Return the sine.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2,), name="x").sin().lowering())
        %1 = sin %x : f32[2]
        """
        return self.as_float().apply(Sin())

    @in_float
    def cos(self) -> Self:
        """Return the cosine: 1 - 2 sin²(x/2), and near its zeros sin(2x) / (2 sin x).

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).cos().op_counts()
        {'add': 3, 'constant': 8, 'less_than': 2, 'mul': 8, 'recip': 1, 'sin': 3, 'where': 2}
        """
        half = (self * 0.5).sin()
        cosine = half * half * -2.0 + 1.0
        # Where x + x overflows there is no better than the first form.
        near = (cosine * cosine < 0.25) & (self + self).isfinite()
        x = near.where(self, 1.0)
        return near.where((x + x).sin() * (x.sin() * 2.0).recip(), cosine)

    @in_float
    def tan(self) -> Self:
        """Return the tangent.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).tan().op_counts()
        {'add': 3, 'constant': 8, 'less_than': 2, 'mul': 9, 'recip': 2, 'sin': 4, 'where': 2}
        """
        return self.sin() * self.cos().recip()

    @in_float
    def asin(self) -> Self:
        """Return the angle whose sine is x.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).asin().op_counts()
        {'add': 9, 'constant': 11, 'mul': 11, 'recip': 2, 'sqrt': 2}
        """
        root = ((self + 1.0) * (-self + 1.0)).sqrt()
        return _atan(self * (root + 1.0).recip(), 2.0)

    @in_float
    def acos(self) -> Self:
        """Return the angle whose cosine is x.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).acos().op_counts()
        {'add': 9, 'constant': 15, 'less_than': 2, 'mul': 12, 'recip': 2, 'sqrt': 2, 'where': 2}
        """
        size = _size(self)
        angle = _atan(((-size + 1.0) * (size + 1.0).recip()).sqrt(), 2.0)
        return (self < 0).where(-angle + math.pi, angle)

    @in_float
    def atan(self) -> Self:
        """Return the angle whose tangent is x.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).atan().op_counts()
        {'add': 7, 'constant': 14, 'less_than': 2, 'mul': 10, 'recip': 2, 'sqrt': 1, 'where': 4}
        """
        inner = self * self < 1
        angle = _atan(inner.where(self, -inner.where(1.0, self).recip()))
        quarter = (self < 0).where(-math.pi / 2, self.full_like(math.pi / 2))
        return inner.where(0.0, quarter) + angle

    @operation
    def atan2(self, other: Operand) -> Self:
        """Return the angle of the point (x, y), of which this tensor is y and the other one x.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).atan2(1.0).op_counts()
        {'add': 10, 'constant': 26, 'less_than': 10, 'mul': 15, 'recip': 4, 'sqrt': 1, 'where': 9}
        """
        dtype, (y, x) = self.floats("atan2", other)
        high, wide = _size(y), _size(x)
        steep = wide < high
        large, small = steep.where(high, wide), steep.where(wide, high)
        ratio = small * (large < beside(x.dtype, 0, 1)).where(1.0, large).recip()
        most = beside(x.dtype, math.inf, 0)
        infinite = (small > most) & (large > most)
        angle = _atan(infinite.where(1.0, ratio))
        angle = steep.where(-angle + math.pi / 2, angle)
        angle = x.signbit().where(-angle + math.pi, angle)
        return y.signbit().where(-angle, angle).cast(dtype)

    @in_float
    def sinh(self) -> Self:
        """Return the hyperbolic sine: (exp(x) - exp(-x)) / 2, and near 0 by a polynomial.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).sinh().op_counts()
        {'add': 3, 'constant': 13, 'exp2': 4, 'less_than': 3, 'mul': 15, 'recip': 1, 'where': 3}
        """
        power = _half_exp(self)
        far = power - power.recip() * 0.25
        square = self * self
        near = self + self * (square * _polynomial(square, SINH))
        return (square < 0.25).where(near, (self < 0).where(-far, far))

    @in_float
    def cosh(self) -> Self:
        """Return the hyperbolic cosine: (exp(x) + exp(-x)) / 2.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).cosh().op_counts()
        {'add': 1, 'constant': 7, 'exp2': 4, 'less_than': 1, 'mul': 9, 'recip': 1, 'where': 1}
        """
        power = _half_exp(self)
        return power + power.recip() * 0.25

    @in_float
    def tanh(self) -> Self:
        """Return the hyperbolic tangent: m / (m + 2), where m = exp(2x) - 1 for x below 0.

        >>> from luminal_lab.session import Graph
        >>> sum(Graph().tensor((2,)).tanh().op_counts().values())
        30
        """
        negative = self < 0
        less = _exp2m1(negative.where(self, -self) * (2 * LOG2E))
        ratio = less * (less + 2.0).recip()
        return negative.where(ratio, -ratio)

    @in_float
    def asinh(self) -> Self:
        """Return the inverse of sinh.

        >>> from luminal_lab.session import Graph
        >>> sum(Graph().tensor((2,)).asinh().op_counts().values())
        54
        """
        angle = _asinh(_size(self))
        return (self < 0).where(-angle, angle)

    @in_float
    def acosh(self) -> Self:
        """Return the inverse of cosh; NaN below 1.

        >>> from luminal_lab.session import Graph
        >>> sum(Graph().tensor((2,)).acosh().op_counts().values())
        51
        """
        return _asinh(((self - 1.0) * 0.5).sqrt()) * 2.0

    @in_float
    def atanh(self) -> Self:
        """Return the inverse of tanh; NaN beyond -1 and 1.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).atanh().op_counts()
        {'add': 9, 'constant': 15, 'less_than': 2, 'log2': 2, 'mul': 7, 'where': 2}
        """
        return (self.log1p() - (-self).log1p()) * 0.5

    @in_float
    def sinc(self) -> Self:
        """Return sin(πx) / (πx), which is 1 at 0.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).sinc().op_counts()
        {'constant': 4, 'less_than': 1, 'mul': 3, 'recip': 1, 'sin': 1, 'where': 2}
        """
        angle = self * math.pi
        zero = angle * angle < 1e-17
        return zero.where(1.0, angle.sin() * zero.where(1.0, angle).recip())

    @in_float
    def deg2rad(self) -> Self:
        """Return degrees in radians.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2,), name="x").deg2rad().lowering())
        %1 = constant{value = 0.017453292519943295} : f32[2]
        %2 = mul %x, %1 : f32[2]
        """
        return self * (math.pi / 180)

    @in_float
    def rad2deg(self) -> Self:
        """Return radians in degrees.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2,), name="x").rad2deg().lowering())
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

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).floor().op_counts()
        {'add': 1, 'constant': 4, 'less_than': 1, 'mod': 1, 'mul': 1, 'where': 1}
        """
        return self - _finite(self.remainder(1)) if self.dtype.is_float else self

    @operation
    def ceil(self) -> Self:
        """Return the next whole number at or above x.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).ceil().op_counts()
        {'add': 1, 'constant': 4, 'less_than': 1, 'mod': 1, 'mul': 1, 'where': 1}
        """
        return self - _finite(self.remainder(-1)) if self.dtype.is_float else self

    @operation
    def trunc(self) -> Self:
        """Return the next whole number at or towards 0.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).trunc().op_counts()
        {'add': 1, 'constant': 6, 'less_than': 2, 'mod': 1, 'mul': 1, 'where': 2}
        """
        return self - _finite(self.frac()) if self.dtype.is_float else self

    @operation
    def frac(self) -> Self:
        """Return what `trunc` takes away.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2,), name="x").frac().lowering())
        %1 = constant{value = 0.0} : f32[2]
        %2 = less_than %x, %1 : bool[2]
        %3 = constant{value = 1.0} : f32[2]
        %4 = constant{value = -1.0} : f32[2]
        %5 = where %2, %4, %3 : f32[2]
        %6 = mod %x, %5 : f32[2]
        """
        x = self.as_float()
        return x.remainder((x < 0).where(-1.0, x.full_like(1.0)))

    @operation
    def round(self, decimals: int = 0) -> Self:
        """Return the nearest number with so many decimals, and of two the even one.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).round().op_counts()
        {'add': 2, 'constant': 9, 'less_than': 3, 'mod': 2, 'mul': 1, 'where': 3}
        """
        if not decimals or not self.dtype.is_float:
            return self.round_to_even()
        scale = 10.0 ** abs(number("round", "decimals", decimals))
        x = widened(self)
        if decimals > 0:
            return ((x * scale).round_to_even() / scale).cast(self.dtype)
        return ((x / scale).round_to_even() * scale).cast(self.dtype)

    @operation
    def signbit(self) -> Self:
        """Return where the sign is minus; of -0.0 it is.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2,), name="x").signbit().lowering())
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

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).copysign(1.0).op_counts()
        {'add': 3, 'constant': 7, 'less_than': 7, 'mul': 1, 'recip': 2, 'where': 1}
        """
        x, sign = (value.as_float() for value in self.together("copysign", other))
        return sign.signbit().eq(x.signbit()).where(x, -x)

    @operation
    def nan_to_num(
        self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
    ) -> Self:
        """Return x with numbers for NaN and for the infinities, by default the largest ones.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).nan_to_num().op_counts()
        {'constant': 7, 'less_than': 4, 'mul': 1, 'where': 3}
        """
        if not self.dtype.is_float:
            return self
        most = beside(self.dtype, math.inf, 0)
        x = self.isnan().where(nan, self)
        x = (x > most).where(most if posinf is None else posinf, x)
        return (x < -most).where(-most if neginf is None else neginf, x)

    fix = trunc

    # -- activations that are linear in parts ------------------------------------------------------

    @operation
    def relu(self) -> Self:
        """Return x where it is above 0, else 0; NaN stays.

        `x < tiny` for the smallest number above 0 is `x <= 0`, so that the gradient at 0 is 0.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2,), name="x").relu().lowering())
        %1 = constant{value = 1.401298464324817e-45} : f32[2]
        %2 = less_than %x, %1 : bool[2]
        %3 = constant{value = 0.0} : f32[2]
        %4 = where %2, %3, %x : f32[2]
        """
        if self.dtype is DType.bool_:
            return self
        return (self < beside(self.dtype, 0, 1)).where(0, self)

    @operation
    def hardtanh(self, min_val: float = -1.0, max_val: float = 1.0) -> Self:
        """Return x kept within bounds, with the gradient 0 at the bounds too.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2,), name="x").hardtanh().lowering())
        %1 = constant{value = -0.9999999403953552} : f32[2]
        %2 = less_than %x, %1 : bool[2]
        %3 = constant{value = -1.0} : f32[2]
        %4 = where %2, %3, %x : f32[2]
        %5 = constant{value = 0.9999999403953552} : f32[2]
        %6 = less_than %5, %4 : bool[2]
        %7 = constant{value = 1.0} : f32[2]
        %8 = where %6, %7, %4 : f32[2]
        """
        low, high = (number("hardtanh", "a bound", bound) for bound in (min_val, max_val))
        x = (self < beside(self.dtype, low, math.inf)).where(min_val, self)
        return (x > beside(self.dtype, high, -math.inf)).where(max_val, x)

    @operation
    def relu6(self) -> Self:
        """Return x kept within 0 and 6.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2,), name="x").relu6().lowering())
        %1 = constant{value = 1.401298464324817e-45} : f32[2]
        %2 = less_than %x, %1 : bool[2]
        %3 = constant{value = 0.0} : f32[2]
        %4 = where %2, %3, %x : f32[2]
        %5 = constant{value = 5.999999523162842} : f32[2]
        %6 = less_than %5, %4 : bool[2]
        %7 = constant{value = 6.0} : f32[2]
        %8 = where %6, %7, %4 : f32[2]
        """
        return self.hardtanh(0, 6)

    @in_float
    def leaky_relu(self, negative_slope: float = 0.01) -> Self:
        """Return x where it is above 0, else x times a small slope.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2,), name="x").leaky_relu().lowering())
        %1 = constant{value = 0.0} : f32[2]
        %2 = less_than %1, %x : bool[2]
        %3 = constant{value = 0.01} : f32[2]
        %4 = mul %x, %3 : f32[2]
        %5 = where %2, %x, %4 : f32[2]
        """
        return (self > 0).where(self, self * negative_slope)

    @operation
    def prelu(self, weight: Operand) -> Self:
        """Return `leaky_relu` with a slope that is one tensor element, or one for each channel.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2,), name="x").prelu(0.1).lowering())
        %1 = constant{value = 0.1} : f32[2]
        %2 = constant{value = 0.0} : f32[2]
        %3 = less_than %2, %x : bool[2]
        %4 = mul %x, %1 : f32[2]
        %5 = where %3, %x, %4 : f32[2]
        """
        slope = self.operand(weight, "prelu")
        if isinstance(slope, Lazy) and slope.ndim == 1 and slope.shape != (1,):
            slope = self.aligned("prelu", "weight", slope, range(1, self.ndim)[:1])
        dtype, (x, slope) = self.floats("prelu", slope)
        return (x > 0).where(x, x * slope).cast(dtype)

    @in_float
    def hardsigmoid(self) -> Self:
        """Return x/6 + 1/2 kept within 0 and 1.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).hardsigmoid().op_counts()
        {'add': 1, 'constant': 6, 'less_than': 2, 'mul': 1, 'where': 2}
        """
        return (self + 3.0).relu6() * (1 / 6)

    @in_float
    def hardswish(self) -> Self:
        """Return x times its hardsigmoid.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).hardswish().op_counts()
        {'add': 1, 'constant': 6, 'less_than': 2, 'mul': 2, 'where': 2}
        """
        return self * self.hardsigmoid()

    @operation
    def threshold(self, threshold: float, value: float) -> Self:
        """Return x where it is above the threshold, else the value.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2,), name="x").threshold(1.0, 0.0).lowering())
        %1 = constant{value = 1.0000001192092896} : f32[2]
        %2 = less_than %x, %1 : bool[2]
        %3 = constant{value = 0.0} : f32[2]
        %4 = where %2, %3, %x : f32[2]
        """
        last = beside(self.dtype, number("threshold", "threshold", threshold), math.inf)
        return (self < last).where(value, self)

    @in_float
    def hardshrink(self, lambd: float = 0.5) -> Self:
        """Return x, but 0 where it is from -lambd to lambd.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).hardshrink().op_counts()
        {'constant': 4, 'less_than': 2, 'mul': 1, 'where': 2}
        """
        limit = beside(self.dtype, number("hardshrink", "lambd", lambd), math.inf)
        return (_size(self) < limit).where(0.0, self)

    @in_float
    def softshrink(self, lambd: float = 0.5) -> Self:
        """Return x moved towards 0 by lambd, and 0 from -lambd to lambd.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).softshrink().op_counts()
        {'add': 1, 'constant': 5, 'less_than': 2, 'mul': 1, 'where': 2}
        """
        limit = number("softshrink", "lambd", lambd)
        return self - self.clip(-limit, limit)

    # -- smooth activations ------------------------------------------------------------------------

    @in_float
    def silu(self) -> Self:
        """Return x · sigmoid(x).

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).silu().op_counts()
        {'add': 1, 'constant': 6, 'exp2': 4, 'less_than': 1, 'mul': 10, 'recip': 1, 'where': 2}
        """
        _, power, product = _falling_product(self)
        return product * (power + 1.0).recip()

    @in_float
    def mish(self) -> Self:
        """Return x · tanh(softplus(x)), as a fraction of powers of exp(-|x|).

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).mish().op_counts()
        {'add': 4, 'constant': 11, 'exp2': 4, 'less_than': 1, 'mul': 15, 'recip': 1, 'where': 5}
        """
        negative, power, product = _falling_product(self)
        square = power * power
        above = negative.where(power + 2.0, power * 2.0 + 1.0)
        below = negative.where(square + power * 2.0, above)
        return product * above * (below + negative.where(2.0, square * 2.0)).recip()

    @in_float
    def softplus(self, beta: float = 1.0, threshold: float = 20.0) -> Self:
        """Return log(1 + exp(beta · x)) / beta, and x where beta · x is above the threshold.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).softplus().op_counts()
        {'add': 5, 'constant': 11, 'exp2': 4, 'less_than': 2, 'log2': 1, 'mul': 9, 'where': 3}
        """
        x = self if beta == 1 else self * beta
        negative, power = _falling(x)
        soft = negative.where(0.0, x) + _log1p(power)
        return (x > threshold).where(self, soft if beta == 1 else soft / beta)

    @in_float
    def log_sigmoid(self) -> Self:
        """Return log(sigmoid(x)).

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).log_sigmoid().op_counts()
        {'add': 5, 'constant': 11, 'exp2': 4, 'less_than': 1, 'log2': 1, 'mul': 10, 'where': 2}
        """
        negative, power = _falling(self)
        return negative.where(self, 0.0) - _log1p(power)

    @in_float
    def elu(self, alpha: float = 1.0) -> Self:
        """Return x where it is above 0, else alpha · (exp(x) - 1).

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).elu().op_counts()
        {'add': 4, 'constant': 11, 'exp2': 1, 'less_than': 3, 'log2': 1, 'mul': 4, 'where': 3}
        """
        return _bent(self, 1.0, alpha)

    @in_float
    def celu(self, alpha: float = 1.0) -> Self:
        """Return x where it is above 0, else alpha · (exp(x / alpha) - 1).

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).celu().op_counts()
        {'add': 4, 'constant': 11, 'exp2': 1, 'less_than': 3, 'log2': 1, 'mul': 4, 'where': 3}
        """
        width = number("celu", "alpha", alpha)
        if width <= 0:
            raise RangeError(f"celu: alpha is {alpha}, and must be above 0", hint="try alpha=1.0")
        return _bent(self, width, width)

    @in_float
    def selu(self) -> Self:
        """Return an elu whose two constants keep mean 0 and variance 1 from layer to layer.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).selu().op_counts()
        {'add': 4, 'constant': 12, 'exp2': 1, 'less_than': 3, 'log2': 1, 'mul': 5, 'where': 3}
        """
        return _bent(self, 1.0, 1.6732632423543772) * 1.0507009873554805

    @in_float
    def erf(self) -> Self:
        """Return the error function, as 1 - 2**p(|x|) with a polynomial p.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).erf().op_counts()
        {'add': 11, 'constant': 21, 'exp2': 1, 'less_than': 4, 'log2': 1, 'mul': 13, 'where': 4}
        """
        # Beyond 6 it is 1 in any dtype, and powers of |x| would overflow.
        size = _size(self)
        size = (size > 6).where(6.0, size)
        if self.dtype is DType.float64:
            square = size * size
            inner = size * _polynomial(square, ERF)
            value = (square < 0.3).where(inner, -_erfc(size) + 1.0)
        else:
            value = -_exp2m1(size * _polynomial(size, ERF))
        return (self < 0).where(-value, value)

    @in_float
    def erfc(self) -> Self:
        """Return 1 - erf(x), accurate where that is small.

        >>> from luminal_lab.session import Graph
        >>> sum(Graph().tensor((2,)).erfc().op_counts().values())
        72
        """
        size = _size(self)
        value = _erfc((size > 28).where(28.0, size))
        return (self < 0).where(-value + 2.0, value)

    @in_float
    def gelu(self, approximate: str = "none") -> Self:
        """Return x times the normal distribution function of x, or its approximation by tanh.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).gelu().op_counts()
        {'add': 9, 'constant': 16, 'exp2': 1, 'less_than': 2, 'mul': 15, 'recip': 1, 'where': 2}
        """
        forms = {"none": _gelu, "tanh": _gelu_tanh}
        if approximate not in forms:
            raise LabError(
                f"gelu: there is no approximation {approximate!r}",
                hint=nearest(str(approximate), forms) or 'it is "none" or "tanh"',
            )
        return forms[approximate](self)

    @in_float
    def softsign(self) -> Self:
        """Return x / (1 + |x|).

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).softsign().op_counts()
        {'add': 1, 'constant': 3, 'less_than': 1, 'mul': 2, 'recip': 1, 'where': 1}
        """
        return self * (_size(self) + 1.0).recip()

    @in_float
    def tanhshrink(self) -> Self:
        """Return x - tanh(x).

        >>> from luminal_lab.session import Graph
        >>> sum(Graph().tensor((2,)).tanhshrink().op_counts().values())
        33
        """
        return self - self.tanh()

    @operation
    def glu(self, axis: int = -1) -> Self:
        """Return the first half of an axis times the sigmoid of the second half.

        >>> from luminal_lab.session import Graph
        >>> sum(Graph().tensor((2, 4)).glu().op_counts().values())
        27
        """
        k = self.axis_of("glu", axis)
        size = self.shape[k]
        if never(size % 2 < 1):
            raise ShapeError(
                f"glu: axis {axis} of {self.label} has size {size}, which has no half",
                hint="the axis must be of even size",
            )
        first, second = self.cut({k: (0, size // 2, 1)}), self.cut({k: (size // 2, size, 1)})
        return first * second.sigmoid()

    swish = silu
    logsigmoid = log_sigmoid

    # -- mixtures ----------------------------------------------------------------------------------

    @operation
    def lerp(self, end: Operand, weight: Operand) -> Self:
        """Return x + weight · (end - x), from whichever end is nearer.

        >>> from luminal_lab.session import Graph
        >>> Graph().tensor((2,)).lerp(0.0, 0.5).op_counts()
        {'add': 4, 'constant': 9, 'less_than': 2, 'mul': 6, 'where': 2}
        """
        dtype, (x, y, part) = self.floats("lerp", end, weight)
        way = y - x
        near, far = x + part * way, y - way * (-part + 1.0)
        return (_size(part) < 0.5).where(near, far).cast(dtype)

    @operation
    def addcmul(self, tensor1: Operand, tensor2: Operand, value: float = 1) -> Self:
        """Return x + value · a · b.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2,), name="x").addcmul(2.0, 3.0).lowering())
        %1 = constant{value = 2.0} : f32[2]
        %2 = constant{value = 3.0} : f32[2]
        %3 = mul %1, %2 : f32[2]
        %4 = add %x, %3 : f32[2]
        """
        x, a, b = self.together("addcmul", tensor1, tensor2)
        product = widened(a) * widened(b)
        return (widened(x) + (product if value == 1 else product * value)).cast(x.dtype)

    @operation
    def addcdiv(self, tensor1: Operand, tensor2: Operand, value: float = 1) -> Self:
        """Return x + value · a / b.

        >>> from luminal_lab.session import Graph
        >>> print(Graph().tensor((2,), name="x").addcdiv(1.0, 2.0).lowering())
        %1 = constant{value = 1.0} : f32[2]
        %2 = constant{value = 2.0} : f32[2]
        %3 = recip %2 : f32[2]
        %4 = mul %1, %3 : f32[2]
        %5 = constant{value = 1.0} : f32[2]
        %6 = mul %4, %5 : f32[2]
        %7 = add %x, %6 : f32[2]
        """
        dtype, (x, a, b) = self.floats("addcdiv", tensor1, tensor2)
        return (x + a * b.recip() * value).cast(dtype)


# -- what they are made of -------------------------------------------------------------------------


def _exp_parts(x: F) -> tuple[F, F]:
    """Return two factors of exp(x), for what is to be multiplied in between."""
    return x.exp2(), (x * 0.25).exp2() * ((x * 0.125).exp2() * (x * (LOG2E - 1.375)).exp2())


def _exp(x: F) -> F:
    whole, rest = _exp_parts(x)
    return whole * rest


def _half_exp(x: F) -> F:
    """Return exp(|x|) / 2, which is in range for all x whose cosh is."""
    whole, rest = _exp_parts(_size(x))
    return whole * (rest * 0.5)


def _exp2m1(x: F) -> F:
    """Return 2**x - 1 for x up to 0, accurate for small x."""
    power = x.exp2()
    lost = (x - (power + LAST).log2()) * LN2
    return (power - 1.0) + (x > -1).where(lost, 0.0)


def _lost(x: F, total: F) -> F:
    """Return what rounding x + 1 to `total` took away."""
    return x + (-total + 1.0)


def _log1p(x: F) -> F:
    """Return log(1 + x) for x from 0 to 1."""
    total = x + 1.0
    return total.log() + _lost(x, total)


def _size(x: F) -> F:
    """Return |x| with the derivative 1 at 0, for what is even or made odd again."""
    return (x < 0).where(-x, x)


def _falling(x: F) -> tuple[F, F]:
    """Return whether x is negative, and exp(-|x|)."""
    negative = x < 0
    return negative, _exp(negative.where(x, -x))


def _falling_product(x: F) -> tuple[F, F, F]:
    """Return what `_falling` does, and x times the power if x is negative, else x."""
    negative = x < 0
    whole, rest = _exp_parts(negative.where(x, -x))
    # x exp(x) is still a normal number where exp(x) no longer is.
    return negative, whole * rest, negative.where(whole * (rest * x), x)


def _bent(x: F, width: float, alpha: float) -> F:
    negative = (x > 0).where(0.0, x)
    return (x > 0).where(x, _exp2m1(negative * (LOG2E / width)) * alpha)


def _finite(x: F) -> F:
    """Return a remainder, but 0 where it is that of an infinity, or of NaN."""
    return (x < 2).where(x, 0.0)


def _polynomial(x: F, coefficients: "Coefficients", scale: float = 1.0) -> F:
    *rest, last = coefficients["f64" if x.dtype is DType.float64 else "f32"]
    result = x.full_like(last * scale)
    for coefficient in reversed(rest):
        result = result * x + coefficient * scale
    return result


def _atan(x: F, times: float = 1.0) -> F:
    """Return atan(x) for x from -1 to 1, by a polynomial for half the angle."""
    half = x * ((x * x + 1.0).sqrt() + 1.0).recip()
    return half * _polynomial(half * half, ATAN, times)


def _asinh(x: F) -> F:
    """Return asinh(x) for x from 0 on, infinity included."""
    small = x < 1
    low, high = small.where(x, 0.0), small.where(1.0, x)
    root = (low * low + 1.0).sqrt() + 1.0
    near = (low + low * low * root.recip()).log1p()
    inverse = high.recip()
    far = (high.log2() + ((inverse * inverse + 1.0).sqrt() + 1.0).log2()) * LN2
    return small.where(near, far)


def _erfc(x: F) -> F:
    """Return erfc(x) for x from 0 to 28: exp(-x²) times a polynomial in 1 / (1 + p x)."""
    # A multiple of 1/16 has an exact square; the error of x² would be an error of the power.
    low = x.remainder(0.0625)
    high = x - low
    power = _exp(-(high * high)) * (low * (x + high) * -LOG2E).exp2()
    part = (x * ERFC_SLOPE + 1.0).recip()
    return power * (part * _polynomial(part, ERFC))


def _gelu(x: F) -> F:
    size = _size(x)
    part = (size * (ERFC_SLOPE / math.sqrt(2)) + 1.0).recip()
    tail = (size * size * (-LOG2E / 2)).exp2() * (part * _polynomial(part, ERFC, 0.5))
    return x * (x < 0).where(tail, -tail + 1.0)


def _gelu_tanh(x: F) -> F:
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
# fmt: on
