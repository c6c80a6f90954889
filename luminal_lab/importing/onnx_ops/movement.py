"""Shapes and places: what is moved, cut, joined and repeated."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from luminal_lab.core.dims import Dim, Expr, bounds, known as decided, maximum, minimum
from luminal_lab.importing.onnx_ops.arithmetic import number_or
from luminal_lab.importing.onnx_ops.table import (
    DAMAGED,
    Call,
    Known,
    Refusal,
    Sizes,
    Value,
    axis_of,
    has_dims,
    op,
    whole,
)
from luminal_lab.tensor import Tensor

FAR = 10**9
"""Ends of slices from here on mean the end of an axis whose size is no number."""


def size_of(dims: Sequence[Dim]) -> Dim:
    """Return the product of dims."""
    return reduce(lambda a, b: a * b, dims, 1)


@op("Identity")
def identity(_: Call, x: Value) -> Value:
    """Return a value unchanged."""
    return x


@op("Shape")
def shape_of(call: Call, x: Value, *, start: int = 0, end: int | None = None) -> Value:
    """Return a shape, or a part of it, as dims."""
    shape = x.shape if isinstance(x, np.ndarray) else call.tensor(x).shape
    return dims_array(list(shape[start:end]))


@op("Size")
def element_count(call: Call, x: Value) -> Value:
    """Return the number of elements."""
    shape = x.shape if isinstance(x, np.ndarray) else call.tensor(x).shape
    return dims_array([size_of(shape)]).reshape(())


def dims_array(dims: Sequence[object]) -> np.ndarray:
    """Return dims as an array, of int64 if all of them are numbers."""
    if all(isinstance(dim, int) and not isinstance(dim, bool) for dim in dims):
        try:
            return np.array(dims, np.int64)
        except OverflowError:
            raise Refusal("a size is larger than int64 holds") from None
    array = np.empty(len(dims), object)
    array[:] = dims
    return array


@op("Reshape")
def reshape(
    call: Call,
    x: Tensor,
    sizes: Sizes | None = None,
    *,
    shape: Sequence[int] | None = None,
    allowzero: int = 0,
    consumed_inputs: object = None,
) -> Tensor:
    """Return x in another shape: 0 keeps a size, and -1 is what is left."""
    wanted: list[Dim] = list(shape or ()) if sizes is None else list(sizes)
    if not allowzero:
        for axis, size in enumerate(wanted):
            if isinstance(size, int) and size == 0:
                if axis >= x.ndim:
                    raise Refusal(f"the shape keeps the size of axis {axis}, and there is none")
                wanted[axis] = x.shape[axis]
    if size_of(x.shape) == 0:
        wanted = [0 if isinstance(size, int) and size == -1 else size for size in wanted]
    return x.reshape(tuple(wanted))


@op("Flatten")
def flatten(_: Call, x: Tensor, *, axis: int = 1) -> Tensor:
    """Return a matrix, whose rows are what is behind an axis."""
    at = axis if axis >= 0 else axis + x.ndim
    return x.reshape((size_of(x.shape[:at]), size_of(x.shape[at:])))


@op("Transpose")
def transpose(_: Call, x: Tensor, *, perm: Sequence[int] | None = None) -> Tensor:
    """Return x with its axes in another order."""
    return x.permute(*(range(x.ndim - 1, -1, -1) if perm is None else perm)) if x.ndim else x


def _axes(given: Sizes | None, attribute: Sequence[int] | None) -> list[int] | None:
    if given is not None:
        return whole(given, "an axis")
    return None if attribute is None else list(attribute)


@op("Squeeze")
def squeeze(
    _: Call, x: Tensor, places: Sizes | None = None, *, axes: Sequence[int] | None = None
) -> Tensor:
    """Return x without axes of size 1."""
    chosen = _axes(places, axes)
    if chosen is None:
        chosen = [axis for axis, size in enumerate(x.shape) if size == 1]
    gone = {axis_of(axis, x.ndim) for axis in chosen}
    for axis in gone:
        if x.shape[axis] != 1:
            raise Refusal(f"axis {axis} has the size {x.shape[axis]}, and cannot be left out")
    return x.reshape(tuple(size for axis, size in enumerate(x.shape) if axis not in gone))


@op("Unsqueeze")
def unsqueeze(
    _: Call, x: Tensor, places: Sizes | None = None, *, axes: Sequence[int] | None = None
) -> Tensor:
    """Return x with more axes of size 1."""
    chosen = _axes(places, axes) or []
    rank = x.ndim + len(chosen)
    new = {axis_of(axis, rank) for axis in chosen}
    sizes = iter(x.shape)
    return x.reshape(tuple(1 if axis in new else next(sizes) for axis in range(rank)))


@op("Expand")
def expand(_: Call, x: Tensor, shape: Sizes) -> Tensor:
    """Return x broadcast together with a shape."""
    rank = max(x.ndim, len(shape))
    own = [*[1] * (rank - x.ndim), *x.shape]
    wanted = [*[1] * (rank - len(shape)), *shape]
    return x.reshape(tuple(own)).expand(
        tuple(a if isinstance(b, int) and b == 1 else b for a, b in zip(own, wanted, strict=True))
    )


@op("Concat")
def concat(call: Call, *xs: Tensor, axis: int | None = None) -> Tensor:
    """Return tensors one after another."""
    if not xs or (axis is None and call.opset >= 4):
        raise Refusal("it has no inputs or no axis", DAMAGED)
    first = xs[0]
    return first.concat(list(xs[1:]), 1 if axis is None else axis) if len(xs) > 1 else first


@op("Split")
def split(
    call: Call,
    x: Tensor,
    parts: Sizes | None = None,
    *,
    axis: int = 0,
    split: Sequence[int] | None = None,
    num_outputs: int | None = None,
) -> tuple[Tensor, ...]:
    """Return the parts of a tensor along an axis."""
    along = axis_of(axis, x.ndim)
    sizes: list[Dim] | None = list(split) if split is not None else parts
    if sizes is None:
        count, size = call.outputs, x.shape[along]
        if num_outputs not in (None, count):
            raise Refusal(f"it has {count} outputs, and num_outputs is {num_outputs}", DAMAGED)
        each = (size + count - 1) // count
        sizes = [each] * (count - 1) + [size - each * (count - 1)]
    return x.split(sizes, along)


@op("Slice")
def cut(
    _: Call,
    x: Tensor,
    begin: Sizes | None = None,
    stop: Sizes | None = None,
    places: Sizes | None = None,
    steps: Sizes | None = None,
    *,
    axes: Sequence[int] | None = None,
    starts: Sequence[int] | None = None,
    ends: Sequence[int] | None = None,
) -> Tensor:
    """Return ranges of some axes."""
    first: Sequence[Dim] = (starts or ()) if begin is None else begin
    last: Sequence[Dim] = (ends or ()) if stop is None else stop
    chosen = _axes(places, axes) or list(range(len(first)))
    strides = whole(steps, "the step") if steps is not None else [1] * len(first)
    for axis, start, end, step in zip(chosen, first, last, strides, strict=True):
        along = axis_of(axis, x.ndim)
        x = sliced(x, along, start, end, step)
    return x


def sliced(x: Tensor, axis: int, start: Dim, end: Dim, step: int) -> Tensor:
    """Return a range of an axis by ONNX's rules: ends beyond the axis are its ends."""
    if step == 0:
        raise Refusal("a step is 0")
    size = x.shape[axis]
    if step < 0:
        last = size - 1
        begin = last - _bounded(start, size, 0, last)
        until = last - _bounded(end, size, -1, last)
        x, step = x.flip(axis), -step
    else:
        begin = _bounded(start, size, 0, size)
        until = end if _is_within(end, size) else _bounded(end, size, 0, size)
    if begin != 0 and not decided(begin <= until):
        begin = minimum(begin, until)
    return x.slice_along(axis, begin, until, step)


def _is_within(end: Dim, size: Dim) -> bool:
    """Return whether an end is taken to be within the axis: a dim, on an axis of known size.

    Tables of positions are read so, and what they are added to has that dim. A run with a size
    beyond the table is an error.
    """
    if not isinstance(end, Expr) or not isinstance(size, int):
        return False
    least, most = bounds(end)
    return least is not None and 0 <= least <= size and (most is None or most > size)


def _bounded(at: Dim, size: Dim, low: Dim, high: Dim) -> Dim:
    """Return a position within limits; a negative one counts from the end."""
    if isinstance(at, int):
        if at >= FAR and not isinstance(high, int):
            return high
        if at <= -FAR and not isinstance(size, int):
            return low
    least, most = bounds(at)
    if most is not None and most < 0:
        at = at + size
        if isinstance(at, Expr):  # an axis of any size is taken to have that many positions
            return at
    elif least is None or least < 0:
        raise Refusal(f"it is not known whether {at} is negative")
    at = at if decided(at <= high) else minimum(at, high)
    return at if decided(low <= at) else maximum(low, at)


@op("Pad")
def pad(
    call: Call,
    x: Tensor,
    given: Sizes | None = None,
    fill: Value = None,
    places: Sizes | None = None,
    *,
    mode: str = "constant",
    pads: Sequence[int] | None = None,
    paddings: Sequence[int] | None = None,
    value: float = 0.0,
) -> Tensor:
    """Return x with margins, or with parts cut off where a margin is negative."""
    widths: Sequence[Dim] = (pads or paddings or ()) if given is None else given
    chosen = [axis_of(k, x.ndim) for k in _axes(places, None) or range(x.ndim)]
    if len(widths) != 2 * len(chosen):
        raise Refusal(f"{len(widths)} margins are given for {len(chosen)} axes")
    margins: list[tuple[Dim, Dim]] = [(0, 0)] * x.ndim
    for at, axis in enumerate(chosen):
        before, after = widths[at], widths[at + len(chosen)]
        size = x.shape[axis]
        lost = [-w if isinstance(w, int) and w < 0 else 0 for w in (before, after)]
        if any(lost):
            x = x.slice_along(axis, lost[0], size - lost[1])
        margins[axis] = (_positive(before), _positive(after))
    kinds = {"constant": "constant", "edge": "replicate", "reflect": "reflect", "wrap": "circular"}
    if mode not in kinds:
        raise Refusal(f"the mode {mode!r} is not known")
    if mode != "constant":
        return x.pad(margins, mode=kinds[mode])
    number = value if fill is None else number_or(call, fill)
    if isinstance(number, Tensor):
        inside = x.full_like(True, "bool").pad(margins)
        return inside.where(x.pad(margins), number.reshape(()))
    if x.dtype.kind == "bool":
        return x.pad(margins, bool(number))
    return x.pad(margins, float(number) if x.dtype.is_float else int(number))


def _positive(width: Dim) -> Dim:
    return max(width, 0) if isinstance(width, int) else width


@op("Tile")
def tile(call: Call, x: Tensor, repeats: Sizes, axis: Known | None = None) -> Tensor:
    """Return x several times along each axis."""
    if call.opset < 6:
        if axis is None:
            raise Refusal("its third input is missing", DAMAGED)
        counts = [1] * x.ndim
        counts[axis_of(int(axis.item()), x.ndim)] = whole(repeats, "the number of tiles")[0]
        return x.repeat(tuple(counts))
    return x.repeat(tuple(repeats)) if x.ndim else x


@op("DepthToSpace")
def depth_to_space(_: Call, x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Return channels spread over squares of positions."""
    batch, channels, height, width = x.shape
    size, rest = blocksize, channels // (blocksize * blocksize)
    if mode == "DCR":
        x = x.reshape((batch, size, size, rest, height, width)).permute(0, 3, 4, 1, 5, 2)
    else:
        x = x.reshape((batch, rest, size, size, height, width)).permute(0, 1, 4, 2, 5, 3)
    return x.reshape((batch, rest, height * size, width * size))


@op("SpaceToDepth")
def space_to_depth(_: Call, x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Return squares of positions as channels."""
    batch, channels, height, width = x.shape
    size = blocksize
    y = x.reshape((batch, channels, height // size, size, width // size, size))
    y = y.permute(0, 3, 5, 1, 2, 4) if mode == "DCR" else y.permute(0, 1, 3, 5, 2, 4)
    return y.reshape((batch, channels * size * size, height // size, width // size))


@op("Trilu")
def triangle(_: Call, x: Tensor, k: Known | None = None, *, upper: int = 1) -> Tensor:
    """Return one of the triangles of matrices, and zeros elsewhere."""
    shift = 0 if k is None else int(k.reshape(-1)[0])
    if 0 in x.shape:
        return x
    rows, columns = x.shape[-2:]
    sizes = [size for size in (rows, columns) if isinstance(size, int)]
    if len(sizes) == 2:
        shift = max(-sizes[0] - 1, min(shift, sizes[1] + 1))
    return x.triu(shift) if upper else x.tril(shift)


@op("ConstantOfShape")
def constant_of_shape(call: Call, shape: Sizes, *, value: Known | None = None) -> Value:
    """Return a tensor filled with one number."""
    if value is None:
        return call.graph.zeros(tuple(shape), "float32")
    dtype = call.tensor(value).dtype
    number = value.reshape(-1)[0]
    scalar = float(number) if dtype.is_float else number.item()
    return call.graph.full(tuple(shape), scalar, dtype)


@op("Range")
def arange(call: Call, start: Value, limit: Value, delta: Value) -> Value:
    """Return numbers from start to limit; for whole numbers both may be dims."""
    ends = {"start": start, "limit": limit, "delta": delta}
    if any(has_dims(value) for value in ends.values()):
        first, last, step = (call.sizes(value, name)[0] for name, value in ends.items())
        (stride,) = whole([step], "the step")
        return call.graph.arange(first, last, stride)
    first, last, step = (call.known(value, name).reshape(-1)[0] for name, value in ends.items())
    if not step or not np.isfinite(float(last)) or not np.isfinite(float(first)):
        raise Refusal(f"from {first} to {last} by {step} is no range")
    count = (float(last) - float(first)) / float(step)
    if count > MOST_KNOWN:
        raise Refusal(f"a range of {count:.0f} numbers is too long")
    numbered: Any = np.arange
    return numbered(first, last, step, np.asarray(first).dtype)


MOST_KNOWN = 1 << 22
"""The most elements of a value that is calculated at import."""


@op("ReverseSequence")
def reverse_sequence(
    call: Call, x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    """Return the first steps of each example in reverse, by lengths, and the others as they are."""
    y = x.movedim((batch_axis, time_axis), (0, 1))
    steps = call.graph.arange(y.shape[1]).reshape(1, -1)
    count = lengths.cast("int64").reshape(-1, 1)
    places = (steps < count).where(count - 1 - steps, steps + count * 0)
    places = places.reshape(*places.shape, *[1] * (y.ndim - 2)).expand(y.shape)
    return y.gather(1, places).movedim((0, 1), (batch_axis, time_axis))


@op("CenterCropPad")
def center_crop_pad(
    _: Call, x: Tensor, shape: Sizes, *, axes: Sequence[int] | None = None
) -> Tensor:
    """Return the middle of x in a shape, with zeros around it where x is smaller."""
    chosen = range(x.ndim) if axes is None else [axis_of(axis, x.ndim) for axis in axes]
    wanted = whole(shape, "a size")
    for axis, new, old in zip(
        chosen, wanted, whole([x.shape[k] for k in chosen], "a size"), strict=True
    ):
        if new < old:
            x = x.narrow(axis, (old - new) // 2, new)
        elif new > old:
            x = x.pad_along(axis, (new - old) // 2, new - old - (new - old) // 2)
    return x


@op("NonZero")
def nonzero(_: Call, x: Known) -> Known:
    """Return the places of what is not 0."""
    return np.array(np.nonzero(x), np.int64).reshape(x.ndim, -1)


@op("Unique")
def unique(
    call: Call,
    x: Known,
    *,
    axis: int | None = None,
    sorted: int = 1,  # noqa: A002  # ONNX's name
) -> tuple[Known, ...]:
    """Return the different values, and where they are."""
    values, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        values = np.take(values, order, axis=axis or 0)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    parts = values, *(part.astype(np.int64) for part in (first, inverse, counts))
    return parts[: max(call.outputs, 1)]


@op("Compress")
def compress(_: Call, x: Tensor, condition: Known, *, axis: int | None = None) -> Tensor:
    """Return the slices that are chosen by a mask which is known at import."""
    chosen = np.flatnonzero(condition.reshape(-1))
    if axis is None:
        return x.flatten().take(chosen, 0) if x.ndim else x.reshape(1).take(chosen, 0)
    return x.take(chosen, axis_of(axis, x.ndim))
