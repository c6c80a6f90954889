"""Reading and writing at positions that are data."""

from __future__ import annotations

import numpy as np

from luminal_lab.core.dims import Dim
from luminal_lab.importing.onnx_ops.movement import size_of
from luminal_lab.importing.onnx_ops.table import (
    DAMAGED,
    Call,
    Known,
    Refusal,
    Sizes,
    Value,
    axis_of,
    op,
    whole,
)
from luminal_lab.tensor import Tensor

REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def places(call: Call, value: Value) -> Tensor | Known:
    """Return positions as an array if they are known, and else as a tensor."""
    return value if isinstance(value, np.ndarray) and value.dtype != object else call.tensor(value)


def resolved(index: Tensor, size: Dim) -> Tensor:
    """Return positions counted from the front."""
    return index.index("positions", index, size).cast("int64")


@op("Gather")
def gather(call: Call, x: Tensor, index: Value, *, axis: int = 0) -> Tensor:
    """Return slices along an axis."""
    along = axis_of(axis, x.ndim)
    if isinstance(index, np.ndarray) and index.dtype != object and index.size == 1:
        at = int(index.reshape(-1)[0])
        one = x.select(along, at if at >= 0 else x.shape[along] + at)
        return (
            one
            if index.ndim == 0
            else one.reshape((*x.shape[:along], *index.shape, *x.shape[along + 1 :]))
        )
    return x.take(places(call, index), along)


@op("GatherElements")
def gather_elements(_: Call, x: Tensor, index: Tensor, *, axis: int = 0) -> Tensor:
    """Return elements, whose positions along one axis are given."""
    along = axis_of(axis, x.ndim)
    return x.gather(along, resolved(index, x.shape[along]))


def _linear(x: Tensor, index: Tensor, first: int) -> tuple[Tensor, int]:
    """Return positions among all elements of some axes, and behind which axis these end."""
    depth = whole(index.shape[-1:], "the last axis of the positions")[0]
    if not 0 < depth <= x.ndim - first:
        raise Refusal(f"positions of {depth} numbers do not fit a tensor of {x.ndim} axes")
    flat: Tensor | None = None
    for at in range(depth):
        size = x.shape[first + at]
        part = resolved(index.select(-1, at), size)
        flat = part if flat is None else flat * size + part
    assert flat is not None
    return flat, first + depth


@op("GatherND")
def gather_nd(_: Call, x: Tensor, index: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Return slices, whose positions along several axes are given."""
    flat, behind = _linear(x, index, batch_dims)
    batch, rest = x.shape[:batch_dims], x.shape[behind:]
    count, places = size_of(batch), size_of(flat.shape[batch_dims:])
    rows = x.reshape((count, size_of(x.shape[batch_dims:behind]), size_of(rest)))
    at = flat.reshape((count, places, 1)).expand((count, places, size_of(rest)))
    return rows.gather(1, at).reshape((*batch, *flat.shape[batch_dims:], *rest))


@op("ScatterElements", "Scatter")
def scatter_elements(
    _: Call, x: Tensor, index: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """Return x with elements replaced, whose positions along one axis are given."""
    along = axis_of(axis, x.ndim)
    return _scattered(x, along, resolved(index, x.shape[along]), updates, reduction)


def _scattered(x: Tensor, axis: int, at: Tensor, updates: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return x.scatter(axis, at, updates)
    if reduction not in REDUCTIONS:
        raise Refusal(f"the reduction {reduction!r} is not known")
    return x.scatter_reduce(axis, at, updates, REDUCTIONS[reduction])


@op("ScatterND")
def scatter_nd(
    _: Call, x: Tensor, index: Tensor, updates: Tensor, *, reduction: str = "none"
) -> Tensor:
    """Return x with slices replaced, whose positions along several axes are given."""
    flat, behind = _linear(x, index, 0)
    rest, count = size_of(x.shape[behind:]), size_of(flat.shape)
    rows = x.reshape((size_of(x.shape[:behind]), rest))
    at = flat.reshape((count, 1)).expand((count, rest))
    return _scattered(rows, 0, at, updates.reshape((count, rest)), reduction).reshape(x.shape)


@op("TensorScatter")
def tensor_scatter(
    call: Call,
    cache: Tensor,
    update: Tensor,
    start: Tensor | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Tensor:
    """Return a cache with rows written from a position of each example on."""
    along = axis_of(axis, cache.ndim)
    rows = call.graph.arange(update.shape[along]).reshape(
        *[1] * along, update.shape[along], *[1] * (cache.ndim - along - 1)
    )
    if start is not None:
        rows = rows + start.cast("int64").reshape(-1, *[1] * (cache.ndim - 1))
    if mode == "circular":
        rows = rows.remainder(cache.shape[along])
    return cache.scatter(along, rows.expand(update.shape), update)


@op("OneHot")
def one_hot(call: Call, index: Tensor, depth: Value, values: Tensor, *, axis: int = -1) -> Tensor:
    """Return one of two values: where a position is the given one, and elsewhere."""
    if isinstance(depth, np.ndarray) and depth.dtype.kind == "f":
        depth = depth.astype(np.int64)
    size = call.sizes(depth, "depth")[0]
    at = axis_of(axis, index.ndim + 1)
    here = (index < 0).where(index + size, index).unsqueeze(at)
    steps = call.graph.arange(size).reshape(size, *[1] * (index.ndim - at))
    hit = (
        here.cast("int64").eq(steps)
        if not index.dtype.is_float
        else here.eq(steps.cast(index.dtype))
    )
    return hit.where(values.select(0, 1), values.select(0, 0))


@op("TopK")
def top_k(
    _: Call,
    x: Tensor,
    count: Sizes | None = None,
    *,
    axis: int = -1,
    largest: int = 1,
    sorted: int = 1,  # noqa: A002  # ONNX's name
    k: int | None = None,
) -> tuple[Tensor, ...]:
    """Return the largest values, or the smallest, and where they are."""
    if count is None and k is None:
        raise Refusal("the number of values is missing", DAMAGED)
    wanted = [k] if k is not None else (count or [])[:1]
    (chosen,) = whole(wanted, "the number of values")
    values, indices = x.topk(chosen, axis_of(axis, x.ndim), bool(largest))
    return values, indices.cast("int64")


@op("ArgMax", "ArgMin")
def arg_extreme(
    call: Call, x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
) -> Tensor:
    """Return where the largest or the smallest value is, the first or the last of equal ones."""
    along = axis_of(axis, x.ndim)
    y = x.flip(along) if select_last_index else x
    found = (
        y.argmax(along, bool(keepdims)) if call.op == "ArgMax" else y.argmin(along, bool(keepdims))
    )
    found = found.cast("int64")
    return -found + (x.shape[along] - 1) if select_last_index else found


@op("NonMaxSuppression")
def non_max_suppression(
    _: Call,
    boxes: Known,
    scores: Known,
    most: Known | None = None,
    overlap: Known | None = None,
    least: Known | None = None,
    *,
    center_point_box: int = 0,
) -> Known:
    """Return the boxes that are kept, of values that are known at import."""
    count = 0 if most is None else int(most.reshape(-1)[0])
    limit = 0.0 if overlap is None else float(overlap.reshape(-1)[0])
    marks = np.asarray(scores, np.float64)
    floor = -np.inf if least is None else float(least.reshape(-1)[0])
    edges = np.asarray(boxes, np.float32)
    if center_point_box:
        centre, half = edges[..., :2], edges[..., 2:] / 2
        low, high = centre - half, centre + half
    else:
        low = np.minimum(edges[..., :2], edges[..., 2:])
        high = np.maximum(edges[..., :2], edges[..., 2:])
    area = np.prod(high - low, -1)
    chosen: list[tuple[int, int, int]] = []
    for batch, kind in np.ndindex(marks.shape[:2]):
        kept: list[int] = []
        for at in np.argsort(-marks[batch, kind], kind="stable"):
            if len(kept) >= count or not marks[batch, kind, at] > floor:
                break
            near = np.array(kept, np.int64)
            shared = np.prod(
                np.maximum(
                    np.minimum(high[batch, at], high[batch, near])
                    - np.maximum(low[batch, at], low[batch, near]),
                    0,
                ),
                -1,
            )
            if not np.any(shared > limit * (area[batch, at] + area[batch, near] - shared)):
                kept.append(int(at))
        chosen += [(batch, kind, at) for at in kept]
    return np.array(chosen, np.int64).reshape(-1, 3)
