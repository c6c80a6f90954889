"""The seven views: they map each element to its source position and move no data."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.lib.stride_tricks import as_strided
from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape
from luminal_lab.core.dtypes import Array
from luminal_lab.core.op import (
    TensorType,
    View,
    check_axis,
    check_rank,
    ints,
    never,
    size_of,
    tuple_text,
)
from luminal_lab.errors import AxisError, ShapeError


@dataclass(frozen=True, slots=True)
class Permute(View):
    """The axes in another order: axis k of the result is axis `axes[k]` of the source."""

    name: ClassVar[str] = "permute"
    axes: tuple[int, ...]

    @override
    def infer(self, x: TensorType) -> TensorType:
        if sorted(self.axes) != list(range(len(x.shape))):
            raise AxisError(
                f"permute: {tuple_text(self.axes)} does not name each axis of "
                f"{tuple_text(x.shape)} once",
                hint=f"use each of {tuple_text(range(len(x.shape)))} once, in any order",
            )
        return x.with_shape(tuple(x.shape[axis] for axis in self.axes))

    @override
    def eval(self, x: Array) -> Array:
        return np.transpose(x, self.axes)


@dataclass(frozen=True, slots=True)
class Reshape(View):
    """The same elements in row-major order, in another shape."""

    name: ClassVar[str] = "reshape"
    shape: Shape

    @override
    def infer(self, x: TensorType) -> TensorType:
        old, new = size_of(x.shape), size_of(self.shape)
        if old != new:
            raise ShapeError(
                f"reshape: {tuple_text(x.shape)} has {old} elements and "
                f"{tuple_text(self.shape)} has {new}",
                hint="the element counts must be equal; one dim may be -1 to be worked out",
            )
        return x.with_shape(self.shape)

    @override
    def eval(self, x: Array) -> Array:
        return x.reshape(ints(self.shape))


@dataclass(frozen=True, slots=True)
class Expand(View):
    """Axes of size 1 repeated to the sizes of `shape`; the rank stays."""

    name: ClassVar[str] = "expand"
    shape: Shape

    @override
    def infer(self, x: TensorType) -> TensorType:
        check_rank("expand", "shape", len(self.shape), x.shape)
        for axis, (old, new) in enumerate(zip(x.shape, self.shape, strict=True)):
            if old not in (1, new):
                raise ShapeError(
                    f"expand: axis {axis} of {tuple_text(x.shape)} has size {old} and cannot "
                    f"become {new}",
                    hint="only an axis of size 1 can be expanded",
                )
        return x.with_shape(self.shape)

    @override
    def eval(self, x: Array) -> Array:
        return np.broadcast_to(x, ints(self.shape))


@dataclass(frozen=True, slots=True)
class Slice(View):
    """Every `step`-th position from `start` up to but not including `stop`, on every axis."""

    name: ClassVar[str] = "slice"
    start: Shape
    stop: Shape
    step: tuple[int, ...]

    @override
    def infer(self, x: TensorType) -> TensorType:
        for what, values in (("start", self.start), ("stop", self.stop), ("step", self.step)):
            check_rank("slice", what, len(values), x.shape)
        shape: list[Dim] = []
        for axis, (start, stop, step) in enumerate(
            zip(self.start, self.stop, self.step, strict=True)
        ):
            size = x.shape[axis]
            if step < 1 or never(start >= 0) or never(start <= stop) or never(stop <= size):
                raise ShapeError(
                    f"slice: {start}:{stop}:{step} is not within axis {axis} of "
                    f"{tuple_text(x.shape)}",
                    hint=f"0 <= start <= stop <= {size} and step >= 1 must hold",
                )
            shape.append((stop - start + (step - 1)) // step)
        return x.with_shape(tuple(shape))

    @override
    def eval(self, x: Array) -> Array:
        where = zip(ints(self.start), ints(self.stop), self.step, strict=True)
        return x[tuple(slice(start, stop, step) for start, stop, step in where)]


@dataclass(frozen=True, slots=True)
class Pad(View):
    """Positions `before` and `after` each axis that read as zero (as False in bools)."""

    name: ClassVar[str] = "pad"
    before: Shape
    after: Shape

    @override
    def infer(self, x: TensorType) -> TensorType:
        check_rank("pad", "before", len(self.before), x.shape)
        check_rank("pad", "after", len(self.after), x.shape)
        for axis, (before, after) in enumerate(zip(self.before, self.after, strict=True)):
            if never(before >= 0) or never(after >= 0):
                raise ShapeError(
                    f"pad: ({before}, {after}) on axis {axis} of {tuple_text(x.shape)} is negative",
                    hint="use slice to take positions away",
                )
        padded = zip(self.before, x.shape, self.after, strict=True)
        return x.with_shape(tuple(before + size + after for before, size, after in padded))

    @override
    def eval(self, x: Array) -> Array:
        widths = list(zip(ints(self.before), ints(self.after), strict=True))
        return np.pad(x, widths) if widths else x


@dataclass(frozen=True, slots=True)
class Flip(View):
    """The given axes read from back to front."""

    name: ClassVar[str] = "flip"
    axes: tuple[int, ...]

    @override
    def infer(self, x: TensorType) -> TensorType:
        for axis in self.axes:
            check_axis("flip", axis, x.shape)
        if len(set(self.axes)) != len(self.axes):
            raise AxisError(
                f"flip: {tuple_text(self.axes)} names an axis twice", hint="name each axis once"
            )
        return x

    @override
    def eval(self, x: Array) -> Array:
        return np.flip(x, self.axes)


@dataclass(frozen=True, slots=True)
class Window(View):
    """Sliding windows along one axis, which counts them; a new last axis runs within each."""

    name: ClassVar[str] = "window"
    axis: int
    size: Dim
    stride: int
    dilation: int

    @override
    def infer(self, x: TensorType) -> TensorType:
        check_axis("window", self.axis, x.shape)
        length = x.shape[self.axis]
        span = self.dilation * (self.size - 1) + 1
        if never(self.size >= 1) or self.stride < 1 or self.dilation < 1 or never(span <= length):
            raise ShapeError(
                f"window: size {self.size}, stride {self.stride}, dilation {self.dilation} spans "
                f"{span}, and axis {self.axis} of {tuple_text(x.shape)} has {length}",
                hint="pad the axis, or use a smaller window; all three must be at least 1",
            )
        count = (length - span) // self.stride + 1
        return x.with_shape((*x.with_axis(self.axis, count).shape, self.size))

    @override
    def eval(self, x: Array) -> Array:
        (size,) = ints((self.size,))
        count = (x.shape[self.axis] - self.dilation * (size - 1) - 1) // self.stride + 1
        shape = (*x.shape[: self.axis], count, *x.shape[self.axis + 1 :], size)
        strides = list(x.strides)
        strides[self.axis] *= self.stride
        strides.append(x.strides[self.axis] * self.dilation)
        return as_strided(x, shape, strides, writeable=False)
