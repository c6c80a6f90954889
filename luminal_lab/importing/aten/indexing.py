"""Reading and writing by positions in data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Scalar
from luminal_lab.errors import ModelError
from luminal_lab.importing.aten.table import aten, source
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.movement import size_of
from luminal_lab.tensor.sources import Sources


@aten("embedding")
def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return rows of a table."""
    return weight.embedding(indices)


@source("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    graph: Sources,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return sums (0) or means (1) of rows of a table, bag by bag, and what belongs to which."""
    if mode > 1:
        raise ModelError("the largest values of bags are not kept apart", hint="use sums or means")
    starts = offsets[:-1] if include_last_offset else offsets
    at = graph.arange(indices.shape[0]).unsqueeze(1)
    bag = (at >= starts.unsqueeze(0)).cast(DType.int64).sum(1) - 1
    kept = indices.eq(padding_idx).logical_not() if padding_idx >= 0 else indices.eq(indices)
    rows = kept.unsqueeze(1).where(weight.embedding(indices), 0)
    rows = rows if per_sample_weights is None else rows * per_sample_weights.unsqueeze(1)
    count = graph.zeros(starts.shape, DType.int64).index_add(0, bag, kept.cast(DType.int64))
    total = graph.zeros((*starts.shape, weight.shape[1]), weight.dtype).index_add(0, bag, rows)
    if mode:
        total = total / count.clip(1).unsqueeze(1)
    return total, bag, count, count


@aten("_cdist_forward")
def distances(x: Tensor, y: Tensor, p: float, compute_mode: int | None = None) -> Tensor:
    """Return the norm of the difference of each two rows."""
    return x.cdist(y, p)


@aten("_pdist_forward")
def own_distances(x: Tensor, p: float = 2) -> Tensor:
    """Return the norm of the difference of each two rows, each pair once."""
    return x.pdist(p)


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """Return elements by indices of some axes."""
    if any(at is not None and at.dtype is DType.bool_ for at in indices):
        raise ModelError(
            "a mask chooses elements, so the shape of its result depends on values",
            hint="keep the shape and use torch.where",
        )
    key: list[Any] = [slice(None) if at is None else at for at in indices]
    return x[tuple(key)]


@aten("index_put", "_unsafe_index_put")
def index_put(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor:
    """Return x with values at indices of some axes, or added there."""
    values = values.cast(x.dtype)
    masks = [at for at in indices if at is not None and at.dtype is DType.bool_]
    if masks:
        rest = x.ndim - masks[0].ndim
        if len(indices) > 1 or (size_of(values.shape) != 1 and values.ndim > rest):
            raise ModelError(
                "a mask chooses where values go, so their number depends on values",
                hint="use torch.where",
            )
        (mask,) = masks
        wide = mask.reshape(*mask.shape, *[1] * (x.ndim - mask.ndim))
        value = values.reshape(*[1] * x.ndim) if values.ndim > rest else values
        return wide.where(x + value if accumulate else value, x)
    axes = [axis for axis, at in enumerate(indices) if at is not None]
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    given = [at for at in indices if at is not None]
    positions = given[0].other("index_put", given[0])
    flat = None
    for axis, at in zip(axes, given, strict=True):
        size = x.shape[axis]
        at = (at < 0).where(at + size, at).cast(DType.int64)
        flat = at if flat is None else flat * size + at
    assert flat is not None
    positions = flat
    # As in x[indices]: the axes of the indices stand where they were, or first.
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    first = axes[0] if together else 0
    kept = [x.shape[axis] for axis in rest]
    shape = [*kept[:first], *positions.shape, *kept[first:]]
    values = (
        values.expand(*shape).flatten(first, first + positions.ndim - 1)
        if (positions.ndim)
        else values.expand(*shape).unsqueeze(first)
    )
    values = values.movedim(first, 0)
    moved = x.permute(*axes, *rest)
    table = moved.reshape(size_of([x.shape[axis] for axis in axes]), *kept)
    at = positions.flatten() if positions.ndim else positions.reshape(1)
    done = table.index_add(0, at, values) if accumulate else table.index_copy(0, at, values)
    order = [*axes, *rest]
    back = [order.index(axis) for axis in range(x.ndim)]
    return done.reshape(*moved.shape).permute(*back)


@aten("gather")
def gather(x: Tensor, dim: int, index: Tensor, sparse_grad: bool = False) -> Tensor:
    """Return elements by an index along one axis."""
    return x.gather(dim, index) if x.ndim else x.expand(*index.shape)


@aten("index_select")
def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """Return slices by a vector of positions."""
    return x.index_select(dim, index.reshape(-1)) if x.ndim else x


@aten("take")
def take(x: Tensor, index: Tensor) -> Tensor:
    """Return elements by their number in row-major order."""
    return x.take(index)


@aten("take_along_dim")
def take_along_dim(x: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """Return elements by an index that is broadcast."""
    return x.take_along_dim(indices, dim)


def _row(x: Tensor) -> Tensor:
    return x if x.ndim else x.reshape(1)


@aten("scatter.src", "scatter.value")
def scatter(x: Tensor, dim: int, index: Tensor, src: Tensor | Scalar) -> Tensor:
    """Return x with values at an index along one axis."""
    value = src.cast(x.dtype) if isinstance(src, Tensor) else src
    value = _row(value) if isinstance(value, Tensor) else value
    return _row(x).scatter(dim, _row(index), value).reshape(*x.shape)


@aten("scatter_add")
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Return x with values added at an index along one axis."""
    return _row(x).scatter_add(dim, _row(index), _row(src)).reshape(*x.shape)


@aten("scatter_reduce.two")
def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool = True
) -> Tensor:
    """Return x with values reduced into positions along one axis."""
    done = _row(x).scatter_reduce(dim, _row(index), _row(src), reduce, include_self)
    return done.reshape(*x.shape)


@aten("index_add")
def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, alpha: float = 1) -> Tensor:
    """Return x with slices added."""
    by = alpha if x.dtype.is_float else int(alpha)
    values = source if by == 1 else (source * by).cast(x.dtype)
    return _row(x).index_add(dim, _row(index), _row(values)).reshape(*x.shape)


@aten("index_copy")
def index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Return x with slices replaced."""
    return _row(x).index_copy(dim, _row(index), _row(source)).reshape(*x.shape)


@aten("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:  # noqa: ANN401  # a number
    """Return x with a number in slices."""
    axis, row = dim % max(x.ndim, 1), _row(x)
    if not isinstance(value, Tensor):
        number = value if x.dtype.is_float else int(value)
        return row.index_fill(axis, _row(index), number).reshape(*x.shape)
    shape = [*row.shape[:axis], _row(index).shape[0], *row.shape[axis + 1 :]]
    return row.index_copy(axis, _row(index), value.cast(x.dtype).expand(*shape)).reshape(*x.shape)


@aten("one_hot")
def one_hot(x: Tensor, num_classes: int = -1) -> Tensor:
    """Return 1 at each value's position of a new axis, else 0."""
    if num_classes < 0:
        raise ModelError("the number of classes depends on values", hint="give num_classes")
    return x.one_hot(num_classes)


@aten("bincount")
def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Refuse: the number of bins depends on values."""
    raise ModelError("the number of bins depends on values", hint="use scatter_add")


@aten("searchsorted.Tensor")
def searchsorted(
    sequence: Tensor, values: Tensor, out_int32: bool = False, right: bool = False, **_: object
) -> Tensor:
    """Return where values belong in sorted sequences."""
    return sequence.searchsorted(values, right=right, out_int32=out_int32)


@aten("bucketize.Tensor")
def bucketize(
    x: Tensor, boundaries: Tensor, out_int32: bool = False, right: bool = False
) -> Tensor:
    """Return the bucket of each value."""
    return x.bucketize(boundaries, right=right, out_int32=out_int32)


@source("histc")
def histc(graph: Sources, x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Return how many values are in each of equal intervals."""
    if min == max:
        raise ModelError("its interval depends on values", hint="give min and max")
    values = x.cast(DType.float32).flatten()
    inside = (values >= min) & (values <= max)
    at = ((values - min) * (bins / (max - min))).floor().clip(0, bins - 1).cast(DType.int64)
    counts = graph.zeros((bins,), "int64")
    return counts.scatter_add(0, at, inside.cast(DType.int64)).cast(x.dtype)
