"""Ops that the twelve cannot express at a sane cost: casts, choice, indexing, update."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from luminal_lab.core.dims import Dim
from luminal_lab.core.dtypes import BY_NUMPY, Array, DType
from luminal_lab.core.op import (
    Elementwise,
    Op,
    TensorType,
    check_axis,
    ints,
    never,
    same_type,
    tuple_text,
)
from luminal_lab.errors import DTypeError, RangeError, ShapeError


@dataclass(frozen=True, slots=True)
class Cast(Elementwise):
    """Conversion to another dtype.

    Floats become integers by truncation, clamped to their range, with NaN as 0; integers wrap
    around; any number but 0 is True.
    """

    name: ClassVar[str] = "cast"
    cost: ClassVar[int] = 0
    ulps: ClassVar[int] = 1
    c_form: ClassVar[str] = "cast({0})"
    dtype: DType

    @override
    def infer(self, x: TensorType) -> TensorType:
        return x.with_dtype(self.dtype)

    @override
    def eval(self, x: Array) -> Array:
        if self.dtype is DType.bool_:
            return np.not_equal(x, 0)
        if self.dtype.kind == "int" and BY_NUMPY[x.dtype].is_float:
            low, high = map(float, self.dtype.limits)
            if self.dtype.itemsize <= 2:  # float32 holds its limits exactly
                known = x.astype(np.float32, copy=False) if x.dtype.itemsize < 4 else x
                kept = np.clip(np.where(np.isnan(known), known.dtype.type(0), known), low, high)
                return kept.astype(self.dtype.numpy)
            wide = x.astype(np.float64)
            inside = np.where((wide > low) & (wide < high), wide, 0.0).astype(self.dtype.numpy)
            ends = np.array(self.dtype.limits, self.dtype.numpy)
            return np.where(wide >= high, ends[1], np.where(wide <= low, ends[0], inside))
        return x.astype(self.dtype.numpy)


@dataclass(frozen=True, slots=True)
class Where(Elementwise):
    """The first value where the condition holds, else the second."""

    name: ClassVar[str] = "where"
    ulps: ClassVar[int] = 0
    c_form: ClassVar[str] = "({0} ? {1} : {2})"

    @override
    def infer(self, condition: TensorType, x: TensorType, y: TensorType) -> TensorType:
        if condition.dtype is not DType.bool_:
            raise DTypeError(
                f"where: the condition must be bool, but it is {condition.dtype}",
                hint="compare it with something, as in (c != 0).where(a, b)",
            )
        same_type("where", x, y)
        same_type("where", x, condition.with_dtype(x.dtype))
        return x

    @override
    def eval(self, condition: Array, x: Array, y: Array) -> Array:
        return np.where(condition, x, y)


@dataclass(frozen=True, slots=True)
class Gather(Op):
    """result[i, j] = x[index[i, j], j] for axis 0, and so for any axis and rank."""

    name: ClassVar[str] = "gather"
    cost: ClassVar[int] = 2
    ulps: ClassVar[int] = 0
    axis: int

    @override
    def infer(self, x: TensorType, index: TensorType) -> TensorType:
        check_index("gather", self.axis, x, index)
        return x.with_shape(index.shape)

    @override
    def eval(self, x: Array, index: Array) -> Array:
        check_range("gather", index, x.shape[self.axis], self.axis)
        return np.take_along_axis(x, index.astype(np.int64, copy=False), axis=self.axis)


@dataclass(frozen=True, slots=True)
class Scatter(Op):
    """A copy of x in which result[index[i, j], j] is set to (or gains) values[i, j], for axis 0.

    For a repeated index, "add" adds all values and "set" keeps the last in row-major order.
    """

    name: ClassVar[str] = "scatter"
    ulps: ClassVar[int] = 1
    axis: int
    mode: Literal["set", "add"]

    @override
    def infer(self, x: TensorType, index: TensorType, values: TensorType) -> TensorType:
        check_index("scatter", self.axis, x, index)
        same_type("scatter", values, x.with_shape(index.shape))
        return x

    @override
    def eval(self, x: Array, index: Array, values: Array) -> Array:
        check_range("scatter", index, x.shape[self.axis], self.axis)
        index = index.astype(np.int64, copy=False)
        if self.mode == "set":
            result = np.array(x)
            np.put_along_axis(result, index, values, self.axis)
            return result
        wide = np.float32 if BY_NUMPY[x.dtype].is_half else x.dtype
        total = np.array(x, dtype=wide)
        positions: list[npt.NDArray[np.int64]] = list(np.indices(index.shape, sparse=True))
        positions[self.axis] = index
        np.add.at(total, tuple(positions), values.astype(wide, copy=False))
        return total.astype(x.dtype, copy=False)


@dataclass(frozen=True, slots=True)
class Update(Op):
    """A copy of a buffer with `rows` written from position `at` of an axis on."""

    name: ClassVar[str] = "update"
    ulps: ClassVar[int] = 0
    axis: int
    at: Dim

    @override
    def infer(self, buffer: TensorType, rows: TensorType) -> TensorType:
        check_axis("update", self.axis, buffer.shape)
        if len(rows.shape) != len(buffer.shape):
            raise ShapeError(
                f"update: the buffer is {tuple_text(buffer.shape)} and the rows are "
                f"{tuple_text(rows.shape)}: they differ in rank",
                hint="rows have all axes of the buffer: unsqueeze(axis) makes a row of a vector",
            )
        count = rows.shape[self.axis]
        same_type("update", rows, buffer.with_axis(self.axis, count))
        if never(self.at >= 0) or never(self.at + count <= buffer.shape[self.axis]):
            raise ShapeError(
                f"update: {count} rows at {self.at} do not fit into axis {self.axis} of the "
                f"buffer {tuple_text(buffer.shape)}",
                hint="make the buffer larger, or start earlier",
            )
        return buffer

    @override
    def eval(self, buffer: Array, rows: Array) -> Array:
        (at,) = ints((self.at,))
        result = np.array(buffer)
        where = [slice(None)] * buffer.ndim
        where[self.axis] = slice(at, at + rows.shape[self.axis])
        result[tuple(where)] = rows
        return result


def check_index(name: str, axis: int, x: TensorType, index: TensorType) -> None:
    """Raise unless `index` is an integer tensor of a shape that fits `axis`."""
    check_axis(name, axis, x.shape)
    if index.dtype.kind != "int":
        raise DTypeError(
            f"{name}: the index must be of an integer dtype, but it is {index.dtype}",
            hint='convert it first, as in index.cast("int64")',
        )
    if len(index.shape) != len(x.shape) or any(
        a != b for k, (a, b) in enumerate(zip(x.shape, index.shape, strict=True)) if k != axis
    ):
        raise ShapeError(
            f"{name}: apart from axis {axis} the index {tuple_text(index.shape)} must have the "
            f"shape of the values {tuple_text(x.shape)}",
            hint="expand the index, or use take or embedding for whole rows",
        )


def check_range(name: str, index: Array, size: int, axis: int) -> None:
    """Raise unless every index is a position on an axis of the given size."""
    wrong = np.logical_or(np.less(index, 0), np.greater_equal(index, size))
    if wrong.any():
        first = np.argwhere(wrong)[0]
        position = tuple_text([int(k) for k in first])
        raise RangeError(
            f"{name}: the index at {position} is {int(index[tuple(first)])}, but axis {axis} has "
            f"size {size}",
            hint=f"indices go from 0 to {size - 1}" if size else "the axis is empty",
        )
