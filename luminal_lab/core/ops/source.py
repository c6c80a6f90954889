"""Ops without sources: inputs, constants, counting, random numbers."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from typing_extensions import override

from luminal_lab.core.dims import Shape
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.op import Scalar, Source, TensorType, ints, tuple_text
from luminal_lab.core.random import uniform
from luminal_lab.errors import DTypeError, ShapeError

@dataclass(frozen=True, slots=True)
class Input(Source):
    """A value that comes from outside: data, a parameter, carried state."""

    name: ClassVar[str] = "input"
    in_type: ClassVar[tuple[str, ...]] = ("dtype", "shape")
    dtype: DType
    shape: Shape

    @override
    def infer(self) -> TensorType:
        return TensorType(self.dtype, self.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Source):
    """One number everywhere; the number may be a symbolic expression, known when dims are bound."""

    name: ClassVar[str] = "constant"
    in_type: ClassVar[tuple[str, ...]] = ("dtype", "shape")
    value: Scalar
    dtype: DType
    shape: Shape

    @override
    def infer(self) -> TensorType:
        if isinstance(self.value, float) and not self.dtype.is_float:
            raise DTypeError(f"constant: {self.value!r} is not a value of {self.dtype}")
        return TensorType(self.dtype, self.shape)

    @override
    def eval(self) -> Array:
        return np.broadcast_to(np.asarray(self.value).astype(self.dtype.numpy), ints(self.shape))

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._key() == other._key()

    @override
    def __hash__(self) -> int:
        return hash((self.value, self.dtype, self.shape))

    def _key(self) -> tuple[object, ...]:
        # 0.0 and -0.0 are equal to Python and NaN is unequal to itself; as constants it is
        # the other way round.
        value = self.value
        if isinstance(value, float):
            value = ("nan",) if math.isnan(value) else (value, math.copysign(1.0, value))
        return type(self.value), value, self.dtype, self.shape


@dataclass(frozen=True, slots=True)
class Iota(Source):
    """0, 1, 2, … along its only axis."""

    name: ClassVar[str] = "iota"
    in_type: ClassVar[tuple[str, ...]] = ("dtype", "shape")
    dtype: DType
    shape: Shape

    @override
    def infer(self) -> TensorType:
        if self.dtype is DType.bool_:
            raise DTypeError("iota: needs a number dtype, but got bool")
        if len(self.shape) != 1:
            raise ShapeError(f"iota: has one axis, but the shape is {tuple_text(self.shape)}")
        return TensorType(self.dtype, self.shape)

    @override
    def eval(self) -> Array:
        return np.arange(*ints(self.shape)).astype(self.dtype.numpy)


@dataclass(frozen=True, slots=True)
class Random(Source):
    """Uniform float32 in [0, 1), a pure function of seed, stream, step and position.

    Each call site has its own stream; the step is the session's count of runs.
    """

    name: ClassVar[str] = "random"
    in_type: ClassVar[tuple[str, ...]] = ("shape",)
    seed: int
    stream: int
    shape: Shape

    @override
    def infer(self) -> TensorType:
        return TensorType(DType.float32, self.shape)

    @override
    def eval(self, step: int = 0) -> Array:
        shape = ints(self.shape)
        return uniform(self.seed, self.stream, step, math.prod(shape)).reshape(shape)
