"""Ops on the bits of integers, and values whose bits are read as another dtype."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.op import Binary, Elementwise, Slope, TensorType
from luminal_lab.errors import DTypeError


@dataclass(frozen=True, slots=True)
class Bitwise(Binary):
    """An op on the bits of two integers."""

    ulps: ClassVar[int] = 0
    slope: ClassVar[Slope] = "jumps"

    @override
    def infer(self, x: TensorType, y: TensorType) -> TensorType:
        if x.dtype.kind != "int":
            raise DTypeError(
                f"{self.name}: needs integers, but the source is {x.dtype}",
                hint='convert it first, as in x.cast("int64")',
            )
        return Binary.infer(self, x, y)


@dataclass(frozen=True, slots=True)
class BitAnd(Bitwise):
    """The bits that both x and y have."""

    name: ClassVar[str] = "bit_and"
    commutative: ClassVar[bool] = True
    c_form: ClassVar[str] = "({0} & {1})"

    @override
    def eval(self, x: Array, y: Array) -> Array:
        return np.bitwise_and(x, y)


@dataclass(frozen=True, slots=True)
class BitOr(Bitwise):
    """The bits that x or y has."""

    name: ClassVar[str] = "bit_or"
    commutative: ClassVar[bool] = True
    c_form: ClassVar[str] = "({0} | {1})"

    @override
    def eval(self, x: Array, y: Array) -> Array:
        return np.bitwise_or(x, y)


@dataclass(frozen=True, slots=True)
class BitXor(Bitwise):
    """The bits that only one of x and y has."""

    name: ClassVar[str] = "bit_xor"
    commutative: ClassVar[bool] = True
    c_form: ClassVar[str] = "({0} ^ {1})"

    @override
    def eval(self, x: Array, y: Array) -> Array:
        return np.bitwise_xor(x, y)


@dataclass(frozen=True, slots=True)
class ShiftLeft(Bitwise):
    """x with its bits moved up by y places; 0 if y is negative, or not below the width."""

    name: ClassVar[str] = "shift_left"
    c_form: ClassVar[str] = "shift_left({0}, {1})"

    @override
    def eval(self, x: Array, y: Array) -> Array:
        return np.left_shift(x, y)


@dataclass(frozen=True, slots=True)
class ShiftRight(Bitwise):
    """x with its bits moved down by y places, and its sign kept.

    If y is negative, or not below the width, the sign alone is left: -1 or 0.
    """

    name: ClassVar[str] = "shift_right"
    c_form: ClassVar[str] = "shift_right({0}, {1})"

    @override
    def eval(self, x: Array, y: Array) -> Array:
        return np.right_shift(x, y)


@dataclass(frozen=True, slots=True)
class Bitcast(Elementwise):
    """The same bits, read as another dtype of the same size."""

    name: ClassVar[str] = "bitcast"
    cost: ClassVar[int] = 0
    ulps: ClassVar[int] = 0
    slope: ClassVar[Slope] = "jumps"
    c_form: ClassVar[str] = "bitcast({0})"
    dtype: DType

    @override
    def infer(self, x: TensorType) -> TensorType:
        if self.dtype.itemsize != x.dtype.itemsize:
            raise DTypeError(
                f"bitcast: {x.dtype} has {8 * x.dtype.itemsize} bits, and {self.dtype} has "
                f"{8 * self.dtype.itemsize}",
                hint="x.bitcast(dtype) changes the last axis, too",
            )
        if self.dtype is DType.bool_ is not x.dtype:
            raise DTypeError(
                f"bitcast: not every {x.dtype} has the bits of a bool", hint="compare it, as x != 0"
            )
        return x.with_dtype(self.dtype)

    @override
    def eval(self, x: Array) -> Array:
        return x.view(self.dtype.numpy)
