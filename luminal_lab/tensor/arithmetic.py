"""Arithmetic, comparison, logic and choice: Python's operators, and their building blocks."""

from __future__ import annotations

import math
from typing import Self, TypeAlias, TypeVar

import numpy.typing as npt
from typing_extensions import override

from luminal_lab.core.dims import Expr
from luminal_lab.core.dtypes import DType, promote_all, scalar_dtype
from luminal_lab.core.op import Op, Scalar
from luminal_lab.core.ops import (
    Add,
    BitAnd,
    BitOr,
    BitXor,
    Exp2,
    LessThan,
    Log2,
    Mod,
    Mul,
    Recip,
    ShiftLeft,
    ShiftRight,
    Sqrt,
    Where,
)
from luminal_lab.core.origin import here
from luminal_lab.errors import ArgumentError, DTypeError, GraphError
from luminal_lab.tensor.arguments import told
from luminal_lab.tensor.lazy import Lazy, broadcast
from luminal_lab.tensor.operation import operation
from luminal_lab.tensor.parameter import Parameter

Operand: TypeAlias = Lazy | Parameter | npt.ArrayLike | Expr
T = TypeVar("T", bound="Arithmetic")

ADD, MUL, MOD, LESS, RECIP, WHERE = Add(), Mul(), Mod(), LessThan(), Recip(), Where()
EXP2, LOG2, SQRT = Exp2(), Log2(), Sqrt()
AND, OR, XOR, LEFT, RIGHT = BitAnd(), BitOr(), BitXor(), ShiftLeft(), ShiftRight()


class Arithmetic(Lazy):
    """Python's operators."""

    __slots__ = ()

    def _binary(self, op: Op, other: Operand) -> Self:
        """Return a binary op of this tensor and a compatible operand."""
        if isinstance(other, Lazy):
            graph, type = self.graph, self.type
            if (other.type is type or other.type == type) and other.graph is graph:
                result = op.infer(type, type)
                return self.__class__(graph, graph.append(op, (self.id, other.id), result), result)
        return self._fitted(op, other)

    @operation
    def _fitted(self, op: Op, other: Operand) -> Self:
        if op is MUL and isinstance(other, (int, float)) and self.type.dtype is DType.float16:
            # A factor such as -1e9 would be infinite in float16, and 0 times it NaN.
            outside = other and not 2**-24 <= abs(other) < 65520
            if outside and math.isfinite(other):
                return self.cast(DType.float32)._fitted(op, other).cast(self.dtype)
        x, y = self._together(op.name, other)
        return x._apply(op, y)

    # -- sums and products -------------------------------------------------------------------------

    def __add__(self, other: Operand) -> Self:
        return self._binary(ADD, other)

    def __mul__(self, other: Operand) -> Self:
        return self._binary(MUL, other)

    # Both ops are commutative, and a constant stands last either way.
    __radd__ = __add__
    __rmul__ = __mul__
    mul, multiply = __mul__, __mul__

    @operation
    def add(self, other: Operand, *, alpha: Scalar = 1) -> Self:
        """Return x + alpha · y.

        >>> y = cx.arange(3).add(cx.arange(3), alpha=10).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0, 11, 22]
        """
        return self._binary(ADD, other if alpha == 1 else self._times(other, alpha))

    def _times(self, other: Operand, alpha: Scalar) -> Self:
        given = self._operand(other)
        if not isinstance(given, Lazy):
            number = DType.int64 if isinstance(given, Expr) else scalar_dtype(given)
            given = self.constant(given, number, ())
        return given * alpha

    @operation
    def neg(self) -> Self:
        """Return -x, which is x times -1.

        >>> y = cx.arange(3).neg().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0, -1, -2]
        """
        dtype = self.type.dtype
        if dtype.kind == "bool":
            raise DTypeError(
                f"neg: {self.label} is bool and has no negative", hint="use ~x for not"
            )
        return self._apply(MUL, self._minus_one())

    @operation
    def sub(self, other: Operand, *, alpha: Scalar = 1) -> Self:
        """Return x - alpha · y, which is x + y times -1.

        >>> x = cx.tensor((2, 1)).set([[10], [20]])
        >>> y = x.sub(cx.arange(3)).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[10.0, 9.0, 8.0], [20.0, 19.0, 18.0]]
        """
        if alpha != 1:
            other = self._times(other, alpha)
        if (
            isinstance(other, (int, float))
            and not isinstance(other, bool)
            and not self.dtype.is_unsigned
        ):
            return self._binary(ADD, -other)
        x, y = self._numbers("sub", other)
        return x._apply(ADD, y.neg())

    @operation
    def __rsub__(self, other: Operand) -> Self:
        x, y = self._numbers("sub", other)
        return y._apply(ADD, x.neg())

    @operation
    def rsub(self, other: Operand, *, alpha: Scalar = 1) -> Self:
        """Return y - alpha · x.

        >>> y = cx.arange(3).rsub(10, alpha=2).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [10, 8, 6]
        """
        return (self if alpha == 1 else self * alpha).__rsub__(other)

    def _numbers(self, what: str, other: Operand) -> list[Self]:
        values = self._together(what, other)
        if values[0].dtype is DType.bool_:
            raise DTypeError(
                f"{what}: needs numbers, but {self.label} and the other side are bool",
                hint="use & | ^ ~ for bools, or convert one with cast",
            )
        return values

    __neg__, __sub__, subtract, negative = neg, sub, sub, neg

    def __pos__(self) -> Self:
        return self

    # -- quotients ---------------------------------------------------------------------------------

    @operation
    def div(self, other: Operand, *, rounding_mode: str | None = None) -> Self:
        """Return x / y as x times the reciprocal of y; integers become float32 first.

        The rounding mode "floor" is that of `floor_divide`; "trunc" rounds towards 0.

        >>> y = cx.arange(4).div(2).retrieve()
        >>> z = cx.arange(-3, 4).div(2, rounding_mode="trunc").retrieve()
        >>> cx.execute()
        >>> y.tolist(), z.tolist()
        ([0.0, 0.5, 1.0, 1.5], [-1, -1, 0, 0, 0, 1, 1])
        """
        if rounding_mode is not None:
            return self._rounded_quotient(other, rounding_mode)
        if isinstance(other, (int, float)) and other and math.isfinite(1 / other):
            return self._as_float() * (1 / other)
        x, y = self._floats_together("div", other)
        return x._apply(MUL, y._apply(RECIP))

    def _rounded_quotient(self, other: Operand, mode: str) -> Self:
        if mode not in ("floor", "trunc"):
            raise ArgumentError(
                f"div: there is no rounding mode {mode!r}", hint='it is None, "floor" or "trunc"'
            )
        x, y = self._numbers("div", other)
        if mode == "floor":
            return x.floor_divide(y)
        negative = (x < 0) ^ (y < 0)
        if not x.dtype.is_float:  # one more where the quotient is negative and not whole
            down = x.floor_divide(y)
            return negative.logical_and(x._apply(MOD, y)).where(down + 1, down)
        # PyTorch's quotient is rounded before it is cut off: 1 / 0.1 is 10.
        down, rounded = x.abs().floor_divide(y.abs()), (x * y.recip()).abs()
        whole = rounded - (rounded < math.inf).where(rounded.remainder(1), 0.0)
        down = rounded.eq(math.inf).where(rounded, down.maximum(whole))
        return negative.where(-down, down)._spells("rounded", x, y)

    @operation
    def __rtruediv__(self, other: Operand) -> Self:
        if isinstance(other, (int, float)) and other == 1:
            return self._as_float()._apply(RECIP)
        if isinstance(other, (int, float)):
            return self._as_float()._apply(RECIP) * other
        x, y = self._floats_together("div", other)
        return y._apply(MUL, x._apply(RECIP))

    @operation
    def remainder(self, other: Operand) -> Self:
        """Return x modulo y, with the sign of y.

        >>> y = cx.arange(-3, 4).remainder(3).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0, 1, 2, 0, 1, 2, 0]
        """
        x, y = self._numbers("mod", other)
        return x._apply(MOD, y)

    @operation
    def __rmod__(self, other: Operand) -> Self:
        x, y = self._numbers("mod", other)
        return y._apply(MOD, x)

    @operation
    def floor_divide(self, other: Operand) -> Self:
        """Return x / y rounded down.

        >>> y = cx.arange(-3, 4).floor_divide(2).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [-2, -1, -1, 0, 0, 1, 1]
        """
        x, y = self._numbers("floor_divide", other)
        return _float_quotient(x, y) if x.dtype.is_float else _int_quotient(x, y)

    @operation
    def __rfloordiv__(self, other: Operand) -> Self:
        x, y = self._numbers("floor_divide", other)
        return y.floor_divide(x)

    @operation
    def fmod(self, other: Operand) -> Self:
        """Return the remainder with the sign of x, as in C.

        >>> y = cx.arange(-3, 4).fmod(3).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0, -2, -1, 0, 1, 2, 0]
        """
        x, y = self._numbers("fmod", other)
        if x.dtype.is_float:
            size = y.abs()
            rest = (x < 0).where(-(-x)._apply(MOD, size), x._apply(MOD, size))
            return rest._spells("fmod", x, y)
        rest = x._apply(MOD, y)
        return (rest._truth() & ((rest < 0) ^ (x < 0))).where(rest - y, rest)

    __truediv__ = divide = true_divide = div
    __mod__ = remainder
    __floordiv__ = floor_divide

    @operation
    def recip(self) -> Self:
        """Return 1 / x.

        >>> x = cx.tensor((3,)).set([4, -0.5, 0])
        >>> y = x.recip().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0.25, -2.0, inf]
        """
        return self._as_float()._apply(RECIP)

    reciprocal = recip

    # -- powers ------------------------------------------------------------------------------------

    @operation
    def pow(self, exponent: Operand) -> Self:
        """Return x to a power, with C's rules for negative bases, zeros and infinities.

        >>> y = cx.arange(5).pow(3).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0, 1, 8, 27, 64]
        """
        if isinstance(exponent, bool) and self.dtype is DType.bool_:
            return self if exponent else self.full_like(True)
        if isinstance(exponent, (int, float)) and math.isfinite(exponent):
            x = self._as_float() if isinstance(exponent, float) else self
            if x.dtype.is_half and exponent != 2:
                return x.cast(DType.float32).pow(exponent).cast(x.dtype)
            if exponent != int(exponent):
                return x._fractional_power(exponent)
            if not x.dtype.is_float or abs(exponent) <= 64:
                wide = x.cast(DType.int64) if x.dtype is DType.bool_ else x
                return wide._whole_power(int(exponent))
        x, y = self._numbers("pow", exponent)
        return _float_power(x, y) if x.dtype.is_float else _int_power(x, y)

    @operation
    def __rpow__(self, base: Operand) -> Self:
        if isinstance(base, (int, float)) and base == 2 and self.dtype.is_float:
            return self.exp2()
        x, y = self._together("pow", base)
        return y.pow(x)

    __pow__ = pow  # noqa: A003  # the method itself

    @operation
    def exp2(self) -> Self:
        """Return 2 to the power of x.

        >>> y = cx.arange(-1, 4).exp2().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0.5, 1.0, 2.0, 4.0, 8.0]
        """
        return self._as_float()._apply(EXP2)

    def _whole_power(self, n: int) -> Self:
        if n < 0:
            if not self.dtype.is_float:
                raise DTypeError(
                    f"pow: {self.label} holds integers, and {n} is a negative power",
                    hint='convert it first, as in x.cast("float32")',
                )
            power = self._whole_power(-n)._apply(RECIP)
            return power if n == -1 else power._spells("power", self, settings=(n,))
        if n == 0:
            return self.full_like(1)
        half = self if n == 1 else self._whole_power(n // 2)
        square = self if n == 1 else half._apply(MUL, half)
        return square._apply(MUL, self) if n % 2 and n > 1 else square

    def _fractional_power(self, y: float) -> Self:
        if abs(y) == 0.5:
            root = self._apply(SQRT)
            return root if y > 0 else root._apply(RECIP)._spells("power", self, settings=(y,))
        # log2 of a negative number is NaN, as the power is, but for -inf; at 0 the derivative of
        # log2 is infinite, which that of the power need not be.
        double = self.dtype is DType.float64
        least = -1.7976931348623157e308 if double else -3.4028234663852886e38
        base = (self < least).where(math.inf, self)
        tiny = 5e-324 if double else 2.0**-149
        zero = (base < tiny) & (base > -tiny)
        power = (zero.where(1.0, base).log2() * y).exp2()
        power = zero.where(0.0 if y > 0 else math.inf, power)
        return power._spells("power", self, settings=(y,))

    @operation
    def log2(self) -> Self:
        """Return the logarithm to base 2.

        >>> x = cx.tensor((3,)).set([1, 8, 0])
        >>> y = x.log2().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0.0, 3.0, -inf]
        """
        return self._as_float()._apply(LOG2)

    # -- comparison --------------------------------------------------------------------------------

    def __lt__(self, other: Operand) -> Self:
        return self._binary(LESS, other)

    @operation
    def __gt__(self, other: Operand) -> Self:
        x, y = self._together("less_than", other)
        return y._apply(LESS, x)

    @operation
    def le(self, other: Operand) -> Self:
        """Return x <= y; False where either is NaN.

        >>> y = cx.arange(4).le(2).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [True, True, True, False]
        """
        x, y = self._together("less_than", other)
        below = y._apply(LESS, x).logical_not()
        if not x.dtype.is_float:
            return below
        # A sum of squares is NaN only where a square is.
        return below & (x * x + y * y > -1)

    @operation
    def ge(self, other: Operand) -> Self:
        """Return x >= y; False where either is NaN.

        >>> y = cx.arange(4).ge(cx.constant(2)).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [False, False, True, True]
        """
        x, y = self._together("less_than", other)
        return y.le(x)

    @operation
    def eq(self, other: Operand) -> Self:
        """Return whether x and y are equal; False where either is NaN.

        >>> x = cx.tensor((3,)).set([1, 2, float("nan")])
        >>> y = x.eq(x).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [True, True, False]
        """
        x, y = self._together("eq", other)
        same = (x._apply(LESS, y) | y._apply(LESS, x)).logical_not()
        if not x.dtype.is_float:
            return same
        total = x + y
        return same & (total * total > -1)

    @operation
    def ne(self, other: Operand) -> Self:
        """Return whether x and y differ; True where either is NaN.

        >>> y = cx.arange(2).ne(cx.arange(2).unsqueeze(1)).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[False, True], [True, False]]
        """
        return self.eq(other).logical_not()

    lt, gt, less, greater = __lt__, __gt__, __lt__, __gt__
    __le__, __ge__, less_equal, greater_equal, not_equal = le, ge, le, ge, ne

    @override
    def __eq__(self, other: object) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]  # as in NumPy
        return self.eq(other)  # pyright: ignore[reportArgumentType]  # invalid operands are refused

    @override
    def __ne__(self, other: object) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]  # as in NumPy
        return self.ne(other)  # pyright: ignore[reportArgumentType]  # invalid operands are refused

    __hash__ = Lazy.__hash__

    @operation
    def isnan(self) -> Self:
        """Return where the value is not a number.

        >>> x = cx.tensor((3,)).set([0, -1, 4])
        >>> y = x.sqrt().isnan().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [False, True, False]
        """
        return (
            (self * self > -1).logical_not()
            if self.dtype.is_float
            else self.full_like(False, DType.bool_)
        )

    @operation
    def isfinite(self) -> Self:
        """Return where the value is neither infinite nor NaN.

        >>> x = cx.tensor((3,)).set([0, 1, float("nan")])
        >>> y = x.recip().isfinite().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [False, True, False]
        """
        return self * 0 < 1 if self.dtype.is_float else self.full_like(True, DType.bool_)

    @operation
    def isposinf(self) -> Self:
        """Return where the value is infinite and above 0.

        >>> x = cx.tensor((3,)).set([0, float("inf"), -float("inf")])
        >>> y = x.isposinf().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [False, True, False]
        """
        return (self > 0) & self.isinf()

    @operation
    def isneginf(self) -> Self:
        """Return where the value is infinite and below 0.

        >>> x = cx.tensor((3,)).set([0, float("inf"), -float("inf")])
        >>> y = x.isneginf().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [False, False, True]
        """
        return (self < 0) & self.isinf()

    @operation
    def isinf(self) -> Self:
        """Return where the value is infinite.

        >>> x = cx.tensor((3,)).set([0, 1, float("nan")])
        >>> y = x.recip().isinf().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [True, False, False]
        """
        return (self.isfinite() | self.isnan()).logical_not()

    # -- bits, and logic ---------------------------------------------------------------------------

    def _bits(self, what: str, *others: Operand, bools: bool = True) -> list[Self]:
        values = self._together(what, *others)
        needed = "integers or bools" if bools else "integers"
        for value in (self, *(other for other in others if isinstance(other, Lazy))):
            if value.dtype.is_float:
                raise DTypeError(
                    f"{what}: needs {needed}, but {value.label} is {value.dtype}",
                    hint="compare it with something first, as in x != 0, or cast it",
                )
        dtype = values[0].dtype
        if dtype.is_float or (dtype is DType.bool_ and not bools):
            raise DTypeError(
                f"{what}: needs {needed}, but {self.label} and the other side are {dtype}",
                hint='convert one of them first, as in x.cast("int64")',
            )
        return values

    def _minus_one(self) -> Self:
        """Return -1 in this tensor's shape: all bits are set, and in unsigned dtypes it wraps."""
        dtype = self.type.dtype
        return self.full_like(dtype.limits[1] if dtype.is_unsigned else -1)

    @operation
    def __and__(self, other: Operand) -> Self:
        x, y = self._bits("and", other)
        return x._apply(MUL if x.dtype is DType.bool_ else AND, y)

    @operation
    def __or__(self, other: Operand) -> Self:
        x, y = self._bits("or", other)
        return x._apply(ADD if x.dtype is DType.bool_ else OR, y)

    @operation
    def __xor__(self, other: Operand) -> Self:
        x, y = self._bits("xor", other)
        if x.dtype is DType.bool_:
            return x._apply(LESS, y)._apply(ADD, y._apply(LESS, x))
        return x._apply(XOR, y)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__
    bitwise_and, bitwise_or, bitwise_xor = __and__, __or__, __xor__

    @operation
    def __invert__(self) -> Self:
        (x,) = self._bits("not")
        if x.dtype is DType.bool_:
            return x._apply(LESS, x.full_like(True))
        return x._apply(XOR, x._minus_one())

    bitwise_not = __invert__

    @operation
    def bitwise_left_shift(self, other: Operand) -> Self:
        """Return x with its bits moved up by y places: x << y.

        Bits that leave the dtype are lost. As in NumPy and PyTorch the result is 0 if y is
        negative, or not below the number of bits.

        >>> y = cx.arange(4).cast("int8").bitwise_left_shift(6).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0, 64, -128, -64]
        """
        x, y = self._bits("shift_left", other, bools=False)
        return x._apply(LEFT, y)

    @operation
    def bitwise_right_shift(self, other: Operand) -> Self:
        """Return x with its bits moved down by y places: x >> y, which is x / 2^y rounded down.

        As in NumPy and PyTorch, if y is negative, or not below the number of bits, the result is
        -1 where x is negative, else 0.

        >>> y = cx.arange(-3, 4).bitwise_right_shift(1).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [-2, -1, -1, 0, 0, 1, 1]
        """
        x, y = self._bits("shift_right", other, bools=False)
        return x._apply(RIGHT, y)

    @operation
    def __rlshift__(self, other: Operand) -> Self:
        x, y = self._bits("shift_left", other, bools=False)
        return y._apply(LEFT, x)

    @operation
    def __rrshift__(self, other: Operand) -> Self:
        x, y = self._bits("shift_right", other, bools=False)
        return y._apply(RIGHT, x)

    __lshift__, __rshift__ = bitwise_left_shift, bitwise_right_shift

    @operation
    def _truth(self) -> Self:
        """Return the value as a bool: whether it is not 0."""
        return self.cast(DType.bool_)

    @operation
    def logical_not(self) -> Self:
        """Return whether the value is 0 or False.

        >>> y = cx.arange(3).logical_not().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [True, False, False]
        """
        return ~self._truth()

    @operation
    def logical_and(self, other: Operand) -> Self:
        """Return whether both values are not 0.

        >>> x, z = cx.arange(4) % 2, cx.arange(4) // 2
        >>> y = x.logical_and(z).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [False, False, False, True]
        """
        x, y = self._together("logical_and", other)
        return x._truth() & y._truth()

    @operation
    def logical_or(self, other: Operand) -> Self:
        """Return whether at least one of two values is not 0.

        >>> x, z = cx.arange(4) % 2, cx.arange(4) // 2
        >>> y = x.logical_or(z).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [False, True, True, True]
        """
        x, y = self._together("logical_or", other)
        return x._truth() | y._truth()

    @operation
    def logical_xor(self, other: Operand) -> Self:
        """Return whether exactly one of two values is not 0.

        >>> x, z = cx.arange(4) % 2, cx.arange(4) // 2
        >>> y = x.logical_xor(z).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [False, True, True, False]
        """
        x, y = self._together("logical_xor", other)
        return x._truth() ^ y._truth()

    # -- choice ------------------------------------------------------------------------------------

    @operation
    def where(self, x: Operand, y: Operand) -> Self:
        """Return x where this condition holds, else y.

        Values that are not chosen do not matter, not even NaN.

        >>> x = cx.tensor((3,)).set([-1, 0, 4])
        >>> y = (x < 0).where(0, x.sqrt()).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0.0, 0.0, 2.0]
        """
        if self.type.dtype.kind != "bool":
            raise DTypeError(
                f"where: the condition {self.label} is {self.dtype} and not bool",
                hint="compare it with something, as in (c != 0).where(a, b)",
            )
        a, b = self._operand(x), self._operand(y)
        tensors = [t for t in (a, b) if isinstance(t, Lazy)]
        scalars = [0 if isinstance(s, Expr) else s for s in (a, b) if not isinstance(s, Lazy)]
        dtype = promote_all([(t.dtype, t.ndim) for t in tensors], scalars)
        shape = broadcast("where", [self, *tensors])
        p, q = (
            (value if value.type.dtype is dtype else value.cast(dtype))._stretch(shape)
            if isinstance(value, Lazy)
            else self.constant(value, dtype, shape)
            for value in (a, b)
        )
        return p._appended(WHERE, (self._stretch(shape).id, p.id, q.id), p.type)

    @operation
    def _chosen(self, condition: object, x: Operand, y: Operand) -> Self:
        mask = self._operand(condition, "where")
        if not isinstance(mask, Lazy):
            mask = self.constant(mask, scalar_dtype(mask), ())  # pyright: ignore[reportArgumentType]  # a dim is an int64
        return mask.where(x, y)

    @operation
    def masked_fill(self, mask: Lazy, value: Operand) -> Self:
        """Return x with the value where the mask holds.

        >>> scores = cx.tensor((3,)).set([5, 6, 7])
        >>> y = scores.masked_fill(cx.arange(3) > 1, -1e9).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [5.0, 6.0, -1000000000.0]
        """
        chosen = self._operand(mask)
        if not isinstance(chosen, Lazy):
            raise DTypeError(
                f"masked_fill: the mask is {mask!r} and not a tensor of bools",
                hint="compare something, as in x.masked_fill(x < 0, 0.0)",
            )
        if isinstance(value, (int, float)):
            value = self.constant(value, self.dtype, ())
        return chosen.where(value, self)

    @operation
    def maximum(self, other: Operand) -> Self:
        """Return the larger of x and y; NaN where either is, and at a tie half of each.

        >>> y = cx.arange(5).maximum(cx.full((5,), 2)).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [2, 2, 2, 3, 4]
        """
        x, y = self._together("maximum", other)
        if not x.dtype.is_float:
            return (x < y).where(y, x)
        # At a tie, and where one is NaN, neither is below the other.
        return ((x < y) < (y * y > -1)).where(x, y)._spells("maximum", x, y)

    @operation
    def minimum(self, other: Operand) -> Self:
        """Return the smaller of x and y; NaN where either is, and at a tie half of each.

        >>> y = cx.arange(5).minimum(2).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0, 1, 2, 2, 2]
        """
        x, y = self._together("minimum", other)
        if not x.dtype.is_float:
            return (x < y).where(x, y)
        return ((y < x) < (y * y > -1)).where(x, y)._spells("minimum", x, y)

    @operation
    def fmax(self, other: Operand) -> Self:
        """Return the larger of x and y; NaN only where both are, and x at a tie.

        >>> x = cx.tensor((3,)).set([1, float("nan"), 3])
        >>> y = x.fmax(2.0).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [2.0, 2.0, 3.0]
        """
        x, y = self._together("fmax", other)
        return (x.ge(y) | y.isnan()).where(x, y)

    @operation
    def fmin(self, other: Operand) -> Self:
        """Return the smaller of x and y; NaN only where both are, and x at a tie.

        >>> x = cx.tensor((3,)).set([1, float("nan"), 3])
        >>> y = x.fmin(2.0).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [1.0, 2.0, 2.0]
        """
        x, y = self._together("fmin", other)
        return (x.le(y) | y.isnan()).where(x, y)

    @operation
    def heaviside(self, values: Operand) -> Self:
        """Return 0 below 0 and for NaN, 1 above 0, and the values at 0.

        >>> x = cx.tensor((3,)).set([-2, 0, 2])
        >>> y = x.heaviside(0.5).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0.0, 0.5, 1.0]
        """
        x, y = self._together("heaviside", values)
        step = x.eq(0).where(y, (x > 0).cast(x.dtype))
        return step._spells("rounded", x, y) if x.dtype.is_float else step

    @operation
    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Self:
        """Return x clamped to bounds; NaN in x or in a bound gives NaN.

        >>> y = cx.arange(6).clip(1, 3).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [1, 1, 2, 3, 3, 3]
        """
        bounds = [bound for bound in (min, max) if bound is not None]
        if all(isinstance(bound, (int, float)) for bound in bounds):
            return self._clipped(min, max)  # pyright: ignore[reportArgumentType]  # both are numbers
        x, *fitted = self._together("clip", *bounds)
        kept = x if min is None else x.maximum(fitted[0])
        kept = kept if max is None else kept.minimum(fitted[-1])
        name = "clamp" if len(fitted) == 2 else "clamp_min" if max is None else "clamp_max"
        return kept._spells(name, x, *fitted)

    def _clipped(self, low: float | None, high: float | None) -> Self:
        if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
            return (self * math.nan)._spells("rounded", self)
        x = self
        if low is not None:
            x = (x < low).where(low, x)
        if high is not None:
            x = (x > high).where(high, x)
        fits = x.dtype is self.dtype and self.dtype.is_float
        return x._spells("clip", self, settings=(low, high)) if fits else x

    clamp = clip

    @operation
    def clamp_min(self, min: Operand) -> Self:
        """Return x, or the bound where x is below it.

        >>> y = cx.arange(-2, 3).clamp_min(0).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0, 0, 0, 1, 2]
        """
        return self.clip(min=min)

    @operation
    def clamp_max(self, max: Operand) -> Self:
        """Return x, or the bound where x is above it.

        >>> y = cx.arange(-2, 3).clamp_max(0).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [-2, -1, 0, 0, 0]
        """
        return self.clip(max=max)

    @operation
    def isclose(
        self, other: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
    ) -> Self:
        """Return where |x - y| <= atol + rtol · |y|, or both are the same infinity.

        >>> x = cx.tensor((2,)).set([1.000001, 1.1])
        >>> y = x.isclose(1.0).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [True, False]
        """
        x, y = self._together("isclose", other)
        near = x.eq(y) | ((x - y).abs() <= y.abs() * rtol + atol) & y.isfinite()
        return near | x.isnan() & y.isnan() if equal_nan else near

    @operation
    def sign(self) -> Self:
        """Return -1, 0 or 1.

        >>> y = cx.arange(-2, 3).sign().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [-1, -1, 0, 1, 1]
        """
        positive = (self > 0).cast(self.dtype)
        simple = self.dtype.is_unsigned or self.dtype is DType.bool_
        return positive if simple else (self < 0).where(-1, positive)

    @operation
    def abs(self) -> Self:
        """Return the absolute value, with the gradient 0 at 0.

        >>> y = cx.arange(-2, 3).abs().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [2, 1, 0, 1, 2]
        """
        if self.dtype is DType.bool_ or self.dtype.is_unsigned:
            return self
        return self * self.sign()

    absolute = __abs__ = abs  # noqa: A003  # the method itself
    sgn = sign

    @operation
    def round_to_even(self) -> Self:
        """Return the nearest whole number; ties go to the even one.

        >>> x = cx.tensor((4,)).set([0.5, 1.5, 2.5, 2.6])
        >>> y = x.round_to_even().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0.0, 2.0, 2.0, 3.0]
        """
        if not self.dtype.is_float:
            return self
        part = self.remainder(1)
        part = (part < 2).where(part, 0)  # the remainder of an infinity is NaN
        whole = self - part
        up = (part > 0.5).where(1.0, whole.remainder(2))
        return (whole + (part < 0.5).where(0.0, up))._spells("rounded", self)


def _float_quotient(x: T, y: T) -> T:
    part = x.remainder(y)
    near = ((x - part) * y.recip()).round_to_even()
    near = y.eq(0).where(x * y.recip(), near)
    # Modulo an infinity, only a small number of the other sign gives an infinity.
    quotient = part.isinf().where(-1.0, near)
    return quotient._spells("rounded", x, y)  # pyright: ignore[reportPrivateUsage]  # a part of the class


def _int_quotient(x: T, y: T) -> T:
    """Divide integers exactly: a float quotient that is never too large, then the rest."""
    wide = DType.float64 if x.dtype.itemsize == 8 else DType.float32
    none = y.eq(0)
    x, y = none.where(0, x), none.where(1, y)  # division by 0 gives 0, and so does the remainder
    part, scale = x.remainder(y).cast(wide), y.cast(wide).recip()
    if x.dtype.itemsize <= 2:
        # Through int32, so that -128 / -1 wraps around like all results out of range.
        quotient = (x.cast(wide) - part) * scale * (1 + 2.0**-20)
        return quotient.cast(DType.int32).cast(x.dtype)
    short = 1 - (2.0**-50 if wide is DType.float64 else 2.0**-21)
    first = ((x.cast(wide) - part) * scale * short).cast(x.dtype)
    left = (x - first * y).cast(wide) - part
    return first + (left * scale * (1 + 2.0**-18)).cast(x.dtype)


def _int_power(x: T, y: T) -> T:
    result, square = x.full_like(1), x
    last = 8 * x.dtype.itemsize - 1 - (not x.dtype.is_unsigned)
    for bit in range(last + 1):  # every bit counts, since results out of range wrap around
        low = y if bit == last else y.remainder(2 << bit)
        result = (low < (1 << bit)).where(result, result * square)
        square = square if bit == last else square * square
    if x.dtype.is_unsigned:
        return result
    return ((y < 0) & ~(x.eq(1) | x.eq(-1))).where(0, result)


def _float_power(x: T, y: T) -> T:
    if x.dtype.is_half:
        return _float_power(x.cast(DType.float32), y.cast(DType.float32)).cast(x.dtype)
    double = x.dtype is DType.float64
    negative = x < 0
    size = negative.where(-x, x)
    zero = size < (5e-324 if double else 2.0**-149)
    # Finite stand-ins for log2(0) keep 0 · inf out of values and gradients.
    big = 1e300 if double else 1e30
    log = zero.where(-big, zero.where(1.0, size).log2())
    large = y * big
    t = zero.where(large, y) * log
    # y · log2|x| is NaN for x**0, 1**y and (-1)**inf, whose value is 1.
    is_one = (large * large < 1 / big) | (log * log < negative.where(y * y, 1 / big))
    t = ((t < 1) | (t > 0)).where(t, is_one.where(0.0, t))
    power, part = t.exp2(), y.remainder(1) > 0
    odd = (y.remainder(2) > 0) & ~part
    signed = (odd & (negative | (x.recip() < 0))).where(-power, power)  # -0.0 is negative too
    power = (negative & part & (size < math.inf)).where(math.nan, signed)
    return power._spells("pow", x, y)  # pyright: ignore[reportPrivateUsage]  # a part of the class


@told
def where(condition: T | npt.ArrayLike, x: Operand, y: Operand) -> T:
    """Return x where the condition holds, else y; one of the three must be a tensor.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-1.0, 0.0, 2.0])
    >>> y = ll.where(x > 0, x, 0).retrieve()
    >>> cx.execute()
    >>> y.tolist()
    [0.0, 0.0, 2.0]
    """
    tensors = [value for value in (condition, x, y) if isinstance(value, Arithmetic)]
    if not tensors:
        raise GraphError(
            "where: none of the three arguments is a tensor",
            where=str(here() or "") or None,
            hint="use numpy.where for arrays",
        )
    return tensors[0]._chosen(condition, x, y)  # pyright: ignore[reportReturnType, reportPrivateUsage]  # handles of a graph are of one class
