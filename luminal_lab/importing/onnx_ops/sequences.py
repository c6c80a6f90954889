"""Sequences and optionals, which exist at import alone; and what loops are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from luminal_lab.importing.onnx_ops.table import (
    KNOW_IT,
    Call,
    Known,
    Refusal,
    Sizes,
    Value,
    axis_of,
    op,
)
from luminal_lab.tensor import Tensor


def listed(value: Value) -> list[Any]:
    """Return a sequence, or raise a Refusal."""
    if not isinstance(value, list):
        raise Refusal("an input is no sequence")
    return value


def _place(position: Known | None, count: int) -> int:
    """Return a place in a sequence; the end where none is given."""
    if position is None:
        return count
    at = int(position.reshape(-1)[0])
    if not -count <= at <= count:
        raise Refusal(f"there is no place {at} in a sequence of {count}")
    return at + count if at < 0 else at


@op("SequenceEmpty")
def empty(_: Call, *, dtype: int = 1) -> Value:
    """Return a sequence of nothing."""
    return []


@op("SequenceConstruct")
def construct(_: Call, *xs: Value) -> Value:
    """Return a sequence."""
    return list(xs)


@op("SequenceInsert")
def insert(_: Call, xs: Value, x: Value, position: Known | None = None) -> Value:
    """Return a sequence with one more."""
    parts = listed(xs)
    at = _place(position, len(parts))
    return [*parts[:at], x, *parts[at:]]


@op("SequenceErase")
def erase(_: Call, xs: Value, position: Known | None = None) -> Value:
    """Return a sequence with one less."""
    parts = listed(xs)
    at = _place(position, len(parts)) if position is not None else len(parts) - 1
    return [*parts[:at], *parts[at + 1 :]]


@op("SequenceAt")
def at(_: Call, xs: Value, position: Known) -> Value:
    """Return one part of a sequence."""
    parts = listed(xs)
    place = _place(position, len(parts))
    if place >= len(parts):
        raise Refusal(f"there is no place {place} in a sequence of {len(parts)}")
    return parts[place]


@op("SequenceLength")
def length(_: Call, xs: Value) -> Known:
    """Return how many parts a sequence has."""
    return np.array(len(listed(xs)), np.int64)


@op("ConcatFromSequence")
def concat_from(call: Call, xs: Value, *, axis: int, new_axis: int = 0) -> Tensor:
    """Return the parts of a sequence one after another."""
    parts = [call.tensor(part) for part in listed(xs)]
    if not parts:
        raise Refusal("the sequence is empty")
    joined = [part.unsqueeze(axis_of(axis, part.ndim + 1)) for part in parts] if new_axis else parts
    return joined[0].concat(joined[1:], axis) if len(joined) > 1 else joined[0]


@op("SplitToSequence")
def split_to(
    _: Call, x: Tensor, sizes: Sizes | None = None, *, axis: int = 0, keepdims: int = 1
) -> Value:
    """Return the parts of a tensor along an axis as a sequence."""
    along = axis_of(axis, x.ndim)
    size = x.shape[along]
    if not isinstance(size, int):
        raise Refusal(f"an axis of {size} is split", KNOW_IT)
    if sizes is None:
        parts = x.split(1, along)
        return list(parts) if keepdims else [part.squeeze(along) for part in parts]
    if len(sizes) == 1 and sizes[0] != size:
        return list(x.split(sizes[0], along))
    return list(x.split(sizes, along))


@op("Optional")
def optional(_: Call, x: Value = None, *, type: object = None) -> Value:  # ONNX's name
    """Return a value that might be missing."""
    return x


@op("OptionalHasElement")
def has_element(_: Call, x: Value = None) -> Known:
    """Return whether there is a value."""
    return np.array(x is not None)


@op("OptionalGetElement")
def get_element(_: Call, x: Value) -> Value:
    """Return the value."""
    return x


@op("lab.select")
def select(_: Call, x: Tensor, *, axis: int, index: int) -> Tensor:
    """Return one slice."""
    return x.select(axis_of(axis, x.ndim), index)


@op("lab.stack")
def stack(_: Call, *xs: Tensor, axis: int) -> Tensor:
    """Return slices along a new axis."""
    along = axis_of(axis, xs[0].ndim + 1)
    parts = [x.unsqueeze(along) for x in xs]
    return parts[0].concat(parts[1:], along) if len(parts) > 1 else parts[0]


@op("lab.tensor")
def tensor(call: Call, x: Value) -> Value:
    """Return a value as a tensor, and a sequence as a list of tensors."""
    return [tensor(call, part) for part in x] if isinstance(x, list) else call.tensor(x)
