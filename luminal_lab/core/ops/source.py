"""Ops without sources: inputs, constants, counting, random numbers."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from typing_extensions import override

from luminal_lab.core.dims import Expr, Shape
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.op import Scalar, Source, TensorType, ints, made_type, tuple_text
from luminal_lab.core.random import uniform
from luminal_lab.errors import DTypeError, ShapeError

FLOAT_LIMIT = 2**1023
"""About the largest whole number of a float64."""


@dataclass(frozen=True, slots=True)
class Input(Source):
    """A value from outside: data, a parameter, carried state."""

    name: ClassVar[str] = "input"
    in_type: ClassVar[tuple[str, ...]] = ("dtype", "shape")
    dtype: DType
    shape: Shape

    @override
    def infer(self) -> TensorType:
        return made_type(self.name, self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class Constant(Source):
    """The same number everywhere; it may be a symbolic expression, known once dims are bound."""

    name: ClassVar[str] = "constant"
    in_type: ClassVar[tuple[str, ...]] = ("dtype", "shape")
    value: Scalar
    dtype: DType
    shape: Shape

    @override
    def infer(self) -> TensorType:
        value, dtype = self.value, self.dtype
        if not isinstance(value, Expr):
            low, high = (-FLOAT_LIMIT, FLOAT_LIMIT) if dtype.is_float else dtype.limits
            whole = not isinstance(value, float)
            if not (low <= value <= high if whole else dtype.is_float):
                raise DTypeError(f"constant: {value!r} is not a value of {dtype}")
        return made_type(self.name, dtype, self.shape)

    @override
    def eval(self) -> Array:
        return np.broadcast_to(np.asarray(self.value).astype(self.dtype.numpy), ints(self.shape))


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
            raise DTypeError(
                "iota: needs a number dtype, but got bool", hint="count in int64, and compare then"
            )
        if len(self.shape) != 1:
            raise ShapeError(
                f"iota: has one axis, but the shape is {tuple_text(self.shape)}",
                hint="count along one axis, and reshape and expand the result",
            )
        return made_type(self.name, self.dtype, self.shape)

    @override
    def eval(self) -> Array:
        return np.arange(*ints(self.shape)).astype(self.dtype.numpy)


@dataclass(frozen=True, slots=True)
class Random(Source):
    """Uniform float32 in [0, 1), a pure function of seed, stream, step and position.

    Each call site has its own stream; the step is the session's count of runs.
    """

    name: ClassVar[str] = "random"
    cost: ClassVar[int] = 10
    in_type: ClassVar[tuple[str, ...]] = ("shape",)
    seed: int
    stream: int
    shape: Shape

    @override
    def infer(self) -> TensorType:
        return made_type(self.name, DType.float32, self.shape)

    @override
    def eval(self, step: int = 0) -> Array:
        shape = ints(self.shape)
        return uniform(self.seed, self.stream, step, np.arange(math.prod(shape))).reshape(shape)
