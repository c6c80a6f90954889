"""The twelve primitive ops, to which all arithmetic lowers."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import BY_NUMPY, Array, DType
from luminal_lab.core.op import Binary, Domain, Op, Reduce, Slope, TensorType, Unary
from luminal_lab.errors import DTypeError


@dataclass(frozen=True, slots=True)
class Log2(Unary):
    """Logarithm to base 2: -inf at zero, NaN below."""

    name: ClassVar[str] = "log2"
    cost: ClassVar[int] = 10
    domain: ClassVar[Domain] = "non_negative"
    slope: ClassVar[Slope] = "steep"
    c_form: ClassVar[str] = "log2({0})"

    @override
    def eval(self, x: Array) -> Array:
        return np.log2(x)


@dataclass(frozen=True, slots=True)
class Exp2(Unary):
    """2 to the power of x."""

    name: ClassVar[str] = "exp2"
    cost: ClassVar[int] = 10
    slope: ClassVar[Slope] = "steep"
    c_form: ClassVar[str] = "exp2({0})"

    @override
    def eval(self, x: Array) -> Array:
        return np.exp2(x)


@dataclass(frozen=True, slots=True)
class Sin(Unary):
    """Sine of x in radians, for every finite x however large."""

    name: ClassVar[str] = "sin"
    cost: ClassVar[int] = 10
    slope: ClassVar[Slope] = "steep"
    c_form: ClassVar[str] = "sin({0})"

    @override
    def eval(self, x: Array) -> Array:
        return np.sin(x)


@dataclass(frozen=True, slots=True)
class Sqrt(Unary):
    """Square root: NaN below zero."""

    name: ClassVar[str] = "sqrt"
    cost: ClassVar[int] = 5
    ulps: ClassVar[int] = 1
    domain: ClassVar[Domain] = "non_negative"
    slope: ClassVar[Slope] = "steep"
    c_form: ClassVar[str] = "sqrt({0})"

    @override
    def eval(self, x: Array) -> Array:
        return np.sqrt(x)


@dataclass(frozen=True, slots=True)
class Recip(Unary):
    """1 / x, correctly rounded: ±inf at ±0."""

    name: ClassVar[str] = "recip"
    cost: ClassVar[int] = 5
    ulps: ClassVar[int] = 1
    domain: ClassVar[Domain] = "nonzero"
    slope: ClassVar[Slope] = "steep"
    c_form: ClassVar[str] = "(1 / {0})"

    @override
    def eval(self, x: Array) -> Array:
        return np.reciprocal(x)


@dataclass(frozen=True, slots=True)
class Add(Binary):
    """x + y; integers wrap around, bools are "or"."""

    name: ClassVar[str] = "add"
    ulps: ClassVar[int] = 1
    c_form: ClassVar[str] = "({0} + {1})"
    commutative: ClassVar[bool] = True

    @override
    def eval(self, x: Array, y: Array) -> Array:
        return np.add(x, y)


@dataclass(frozen=True, slots=True)
class Mul(Binary):
    """x · y; integers wrap around, bools are "and"."""

    name: ClassVar[str] = "mul"
    ulps: ClassVar[int] = 1
    c_form: ClassVar[str] = "({0} * {1})"
    commutative: ClassVar[bool] = True

    @override
    def eval(self, x: Array, y: Array) -> Array:
        return np.multiply(x, y)


@dataclass(frozen=True, slots=True)
class Mod(Binary):
    """Remainder with the sign of the divisor; an integer modulo 0 is 0."""

    name: ClassVar[str] = "mod"
    cost: ClassVar[int] = 5
    ulps: ClassVar[int] = 1
    domain: ClassVar[Domain] = "nonzero"
    slope: ClassVar[Slope] = "jumps"
    c_form: ClassVar[str] = "mod({0}, {1})"

    @override
    def infer(self, x: TensorType, y: TensorType) -> TensorType:
        if x.dtype is DType.bool_:
            raise DTypeError(
                "mod: needs numbers, but the sources are bool",
                hint='convert them first, as in x.cast("int64")',
            )
        return Binary.infer(self, x, y)

    @override
    def eval(self, x: Array, y: Array) -> Array:
        return np.mod(x, y)


@dataclass(frozen=True, slots=True)
class LessThan(Binary):
    """x < y as a bool; False where either is NaN."""

    name: ClassVar[str] = "less_than"
    ulps: ClassVar[int] = 0
    slope: ClassVar[Slope] = "jumps"
    c_form: ClassVar[str] = "({0} < {1})"

    @override
    def infer(self, x: TensorType, y: TensorType) -> TensorType:
        return Binary.infer(self, x, y).with_dtype(DType.bool_)

    @override
    def eval(self, x: Array, y: Array) -> Array:
        return np.less(x, y)


@dataclass(frozen=True, slots=True)
class SumReduce(Reduce):
    """Sum over one axis, which stays as size 1; 16-bit floats are summed in float32."""

    name: ClassVar[str] = "sum_reduce"
    ulps: ClassVar[int] = 1

    @override
    def infer(self, x: TensorType) -> TensorType:
        if x.dtype is DType.bool_:
            raise DTypeError(
                "sum_reduce: needs numbers, but the source is bool",
                hint='convert it first, as in x.cast("int64")',
            )
        return Reduce.infer(self, x)

    @override
    def eval(self, x: Array) -> Array:
        wide = np.dtype(np.float32) if BY_NUMPY[x.dtype].is_half else x.dtype
        total = np.sum(x, axis=self.axis, keepdims=True, dtype=wide)
        return total.astype(x.dtype, copy=False)  # pyright: ignore[reportReturnType]  # it has axes


@dataclass(frozen=True, slots=True)
class MaxReduce(Reduce):
    """Largest value along one axis, which stays as size 1; NaN wins, on bools it is "any".

    An empty axis gives the least value of the dtype: -inf, the least integer, or False.
    """

    name: ClassVar[str] = "max_reduce"
    ulps: ClassVar[int] = 0

    @override
    def eval(self, x: Array) -> Array:
        dtype = BY_NUMPY[x.dtype]
        least = -math.inf if dtype.is_float else dtype.limits[0]
        return np.max(x, axis=self.axis, keepdims=True, initial=least)


@dataclass(frozen=True, slots=True)
class Contiguous(Op):
    """The same value, written out in row-major order."""

    name: ClassVar[str] = "contiguous"
    ulps: ClassVar[int] = 0

    @override
    def infer(self, x: TensorType) -> TensorType:
        return x

    @override
    def eval(self, x: Array) -> Array:
        return np.ascontiguousarray(x).reshape(x.shape)
