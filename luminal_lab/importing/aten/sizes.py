"""Arithmetic on the sizes of axes, which become dims, and the checks that exporters write."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

from luminal_lab.core.dims import Dim, Expr, equal, known, maximum, minimum, negate
from luminal_lab.core.dtypes import DType
from luminal_lab.errors import ModelError
from luminal_lab.importing.aten.table import aten, source
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.movement import size_of
from luminal_lab.tensor.sources import Sources


@dataclass(frozen=True)
class Ratio:
    """A dim over a whole number, as in `seq / 2`: only its floor and ceiling are dims."""

    over: Dim
    by: int

    def __mul__(self, factor: object) -> Ratio:
        if isinstance(factor, (int, Expr)):
            return Ratio(self.over * factor, self.by)
        if isinstance(factor, float):
            top, bottom = factor.as_integer_ratio()
            return Ratio(self.over * top, self.by * bottom)
        return NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, by: object) -> Ratio:
        if isinstance(by, float):
            top, bottom = by.as_integer_ratio()
            return Ratio(self.over * bottom, self.by * top)
        return Ratio(self.over, self.by * by) if isinstance(by, int) else NotImplemented

    def __add__(self, other: object) -> Ratio:
        if isinstance(other, Ratio):
            return Ratio(self.over * other.by + other.over * self.by, self.by * other.by)
        if isinstance(other, float):
            return self + Ratio(*other.as_integer_ratio())
        return (
            Ratio(self.over + other * self.by, self.by)
            if isinstance(other, (int, Expr))
            else (NotImplemented)
        )

    __radd__ = __add__

    def __sub__(self, other: Any) -> Ratio:  # noqa: ANN401  # as of +
        return self + other * -1

    def __floor__(self) -> Dim:
        return self.over // self.by

    def __trunc__(self) -> Dim:
        return self.over // self.by  # sizes are not negative

    def __ceil__(self) -> Dim:
        return -(-self.over // self.by)

    def __neg__(self) -> Ratio:
        return Ratio(-self.over, self.by)


Size: TypeAlias = Any
"""A dim, a float, or a ratio."""


def _ratio(x: Size) -> Size:
    return Ratio(x, 1) if isinstance(x, Expr) else x


def _enter(name: str, function: Callable[..., object]) -> None:
    aten(f"_operator.{name}:")(function)


for _name in "sub neg floordiv mod le lt ge gt getitem and_ or_".split():  # noqa: SIM905  # names
    _enter(_name, getattr(operator, _name))


@aten("_operator.add:", "_operator.iadd:")
def plus(x: Size, y: Size) -> Size:
    """Return x + y."""
    return _ratio(x) + y if isinstance(y, (float, Ratio)) else x + y


@aten("_operator.mul:")
def times(x: Size, y: Size) -> Size:
    """Return x · y."""
    return _ratio(x) * _ratio(y) if isinstance(x, float) or isinstance(y, float) else x * y


@aten("_operator.truediv:", "torch.fx.experimental.symbolic_shapes.IntTrueDiv:")
def divided(x: Size, y: Size) -> Size:
    """Return x / y, which is not rounded."""
    if isinstance(y, Expr):
        raise ModelError(
            f"a number is divided by the size {y}, and the result is no dim",
            hint="export the module with this size fixed",
        )
    return _ratio(x) / y


@aten("_operator.pow:", "torch.sym_pow:")
def power(x: Dim, y: int) -> Dim:
    """Return x to a whole power."""
    return reduce(times, [x] * y, 1)


@aten("_operator.eq:")
def is_equal(x: Dim, y: Dim) -> Dim:
    """Return whether two sizes are equal."""
    return equal(x, y)


@aten("_operator.ne:")
def is_unequal(x: Dim, y: Dim) -> Dim:
    """Return whether two sizes differ."""
    return negate(equal(x, y))


@aten("torch.sym_not:")
def opposite(x: Dim) -> Dim:
    """Return whether something does not hold."""
    return negate(x) if isinstance(x, Expr) else not x


@aten("torch.sym_max:")
def largest(*sizes: Dim) -> Dim:
    """Return the largest of sizes."""
    return maximum(*sizes)


@aten("torch.sym_min:")
def smallest(*sizes: Dim) -> Dim:
    """Return the smallest of sizes."""
    return minimum(*sizes)


@aten("torch.sym_sum:")
def sum_of(sizes: list[Dim]) -> Dim:
    """Return the sum of sizes."""
    return reduce(plus, sizes, 0)


@aten("torch.sym_ite:")
def chosen(condition: Dim, x: Dim, y: Dim) -> Dim:
    """Return one of two sizes."""
    holds = known(condition)
    if holds is None:
        return condition * x + (1 - condition) * y
    return x if holds else y


@aten("torch.sym_float:")
def as_float(x: Size) -> Size:
    """Return a size, of which there may be fractions."""
    return _ratio(x) if isinstance(x, Expr) else float(x)


@aten("torch.sym_int:", "math.trunc:", "math.floor:")
def floor(x: Size) -> Dim:
    """Return a ratio rounded down."""
    whole: Any = math.floor
    return x if isinstance(x, Expr) else whole(x)


@aten("math.ceil:")
def ceil(x: Size) -> Dim:
    """Return a ratio rounded up."""
    whole: Any = math.ceil
    return x if isinstance(x, Expr) else whole(x)


@aten("sym_size.int")
def size(x: Tensor, dim: int) -> Dim:
    """Return the size of an axis."""
    return x.shape[dim]


@aten("sym_numel")
def count(x: Tensor) -> Dim:
    """Return the number of elements."""
    return size_of(x.shape)


@aten("sym_storage_offset")
def offset(x: Tensor) -> Dim:
    """Return 0: a value has a memory of its own."""
    return 0


@aten("sym_is_contiguous")
def is_contiguous(x: Tensor, memory_format: object = None) -> bool:
    """Return that elements are in row-major order."""
    return True


@aten("sym_stride.int")
def stride(x: Tensor, dim: int) -> Dim:
    """Return the distance of two neighbours along an axis, of elements in row-major order."""
    return size_of(x.shape[x._axis_of("stride", dim) + 1 :])  # pyright: ignore[reportPrivateUsage]  # our own axis


@source("scalar_tensor")
def scalar(graph: Sources, value: Size, dtype: DType | None = None) -> Tensor:
    """Return a number, or a size, as a tensor."""
    if isinstance(value, Ratio):
        return graph.constant(value.over, "float32") / value.by
    return graph.constant(value).cast(dtype or "float32")
