"""Views and copies: other shapes and orders, parts, joined tensors, margins."""

from __future__ import annotations

from collections.abc import Sequence

from luminal_lab.core.dims import Dim, Expr, known, minimum
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Scalar
from luminal_lab.errors import ModelError
from luminal_lab.importing.aten.table import along, aten, methods, source
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.joining import concat, stack
from luminal_lab.tensor.sources import Sources

FAR = 1 << 62
"""What exporters write for "to the end": no size is as large."""

methods("""
    permute movedim.intlist=movedim movedim.int=movedim
    view=reshape _unsafe_view=reshape reshape view_copy=reshape
    unsqueeze squeeze expand_as view_as reshape_as
    tile unfold diag_embed pixel_shuffle pixel_unshuffle
    channel_shuffle tril triu diagonal unbind.int chunk rot90 atleast_1d atleast_2d atleast_3d
""")


methods("squeeze.dim squeeze.dims flip transpose.int", along)


@aten("expand", "expand_copy")
def expand(x: Tensor, size: Sequence[Dim], implicit: bool = False) -> Tensor:
    """Return x with axes repeated."""
    return x.expand(*size)


@aten("flatten.using_ints")
def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Return axes as one."""
    return x.flatten(start_dim, end_dim)


@aten("unflatten.int")
def unflatten(x: Tensor, dim: int, sizes: Sequence[Dim]) -> Tensor:
    """Return one axis as several."""
    return x.unflatten(dim, sizes)


@aten("t", "numpy_T")
def transposed(x: Tensor) -> Tensor:
    """Return the axes in reverse order."""
    return x.T


@aten("repeat")
def repeat(x: Tensor, repeats: Sequence[Dim]) -> Tensor:
    """Return copies beside each other."""
    return x.repeat(*repeats)


@aten("repeat_interleave.self_int")
def repeat_interleave(
    x: Tensor, repeats: int, dim: int | None = None, output_size: Dim | None = None
) -> Tensor:
    """Return each position several times."""
    return x.repeat_interleave(repeats, dim)


@aten("roll")
def roll(x: Tensor, shifts: Sequence[Dim], dims: Sequence[int] = ()) -> Tensor:
    """Return positions moved on, those beyond the end at the beginning."""
    return x.roll(list(shifts), list(dims)) if dims else x.roll(list(shifts)[0])  # noqa: RUF015  # a sequence


# -- parts -----------------------------------------------------------------------------------------


def _within(x: Tensor, dim: int, start: Dim | None, end: Dim | None) -> tuple[Dim, Dim]:
    """Return the bounds of a slice counted from the front, within the axis."""
    size = x.shape[dim]
    first = 0 if start is None else start
    last = size if end is None or (isinstance(end, int) and end >= FAR) else end
    first = first + size if known(first < 0) else first
    last = last + size if known(last < 0) else last
    if isinstance(first, int) and isinstance(size, int):
        first = min(max(first, 0), size)
    if isinstance(last, int) and isinstance(size, int):
        last = min(max(last, 0), size)
    elif isinstance(last, int) and not known(last < size + 1):
        last = minimum(last, size)
    if isinstance(first, int) and isinstance(last, int):
        last = max(first, last)
    return first, last


@aten("slice.Tensor", "slice_copy.Tensor")
def slice_(
    x: Tensor, dim: int = 0, start: Dim | None = None, end: Dim | None = None, step: int = 1
) -> Tensor:
    """Return a range of an axis; bounds beyond the end stand for the end."""
    first, last = _within(x, dim, start, end)
    if first == 0 and last == x.shape[dim] and step == 1:
        return x
    return x.slice_along(dim, first, last, step)


@aten("select.int", "select_copy.int")
def select(x: Tensor, dim: int, index: Dim) -> Tensor:
    """Return one position of an axis."""
    return x.select(dim, index)


@aten("narrow")
def narrow(x: Tensor, dim: int, start: Dim, length: Dim) -> Tensor:
    """Return so many positions of an axis."""
    return x.narrow(dim, start, length)


@aten("split.Tensor", "split_with_sizes", "split.sizes", "split_with_sizes_copy")
def split(x: Tensor, size: Dim | Sequence[Dim], dim: int = 0) -> tuple[Tensor, ...]:
    """Return pieces of an axis."""
    return x.split(size, dim)


@aten("select_scatter")
def select_scatter(x: Tensor, src: Tensor, dim: int, index: Dim) -> Tensor:
    """Return x with one position of an axis replaced."""
    at = index + x.shape[dim] if known(index < 0) else index
    return x.update(src.unsqueeze(dim).cast(x.dtype), at, dim)


@source("slice_scatter")
def slice_scatter(
    graph: Sources,
    x: Tensor,
    src: Tensor,
    dim: int = 0,
    start: Dim | None = None,
    end: Dim | None = None,
    step: int = 1,
) -> Tensor:
    """Return x with a range of an axis replaced."""
    first, last = _within(x, dim, start, end)
    count = (last - first + step - 1) // step
    axis = dim % x.ndim
    rows = src.cast(x.dtype).expand(*x.shape[:axis], count, *x.shape[axis + 1 :])
    if count == x.shape[axis]:
        return rows
    if step == 1:
        return x.update(rows, first, axis)
    at = graph.arange(x.shape[axis])
    inside = (at >= first) & (at < last) & ((at - first) % step == 0)
    taken = rows.index_select(axis, ((at - first) // step).clip(0, count - 1))
    shape = [-1 if k == axis else 1 for k in range(x.ndim)]
    return inside.reshape(*shape).where(taken, x)


@source("as_strided", "as_strided_copy")
def as_strided(
    graph: Sources,
    x: Tensor,
    size: Sequence[Dim],
    stride: Sequence[Dim],
    storage_offset: Dim | None = None,
) -> Tensor:
    """Return elements of a tensor in row-major order by their distances in memory."""
    return x.flatten().take(_places(graph, size, stride, storage_offset))


@source("as_strided_scatter")
def as_strided_scatter(
    graph: Sources,
    x: Tensor,
    values: Tensor,
    size: Sequence[Dim],
    stride: Sequence[Dim],
    storage_offset: Dim | None = None,
) -> Tensor:
    """Return a tensor with some elements replaced, by their distances in memory."""
    at = _places(graph, size, stride, storage_offset)
    return x.flatten().scatter(0, at.flatten(), values.flatten()).reshape(*x.shape)


def _places(
    graph: Sources, size: Sequence[Dim], stride: Sequence[Dim], storage_offset: Dim | None
) -> Tensor:
    if any(isinstance(step, Expr) for step in stride):
        raise ModelError("its strides depend on sizes", hint="write it with views")
    at = graph.full((), storage_offset or 0, DType.int64)
    for length, step in zip(size, stride, strict=True):
        at = at.unsqueeze(-1) + graph.arange(length) * step
    return at


# -- joined ----------------------------------------------------------------------------------------


@aten("cat", "concat")
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Return tensors one after the other; an empty vector fits anywhere."""
    given = [x for x in tensors if x.shape != (0,)] or list(tensors[:1])
    return concat(given, dim)


@aten("stack")
def stacked(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Return tensors along a new axis."""
    return stack(tensors, dim)


# -- margins ---------------------------------------------------------------------------------------


def _padded(x: Tensor, pad: Sequence[Dim], value: Scalar = 0, mode: str = "constant") -> Tensor:
    """Return x with margins, given from the last axis on; negative ones cut."""
    margins: list[tuple[Dim, Dim]] = [(0, 0)] * x.ndim
    for k in range(len(pad) // 2):
        margins[x.ndim - 1 - k] = pad[2 * k], pad[2 * k + 1]
    if not x.dtype.is_float and isinstance(value, float):
        value = int(value)
    added = [[0 if known(side < 0) else side for side in sides] for sides in margins]
    cut = [[-side if known(side < 0) else 0 for side in sides] for sides in margins]
    x = x.pad(added, value, "constant" if 0 in x.shape else mode)
    for axis, (before, after) in enumerate(cut):
        if before != 0 or after != 0:
            x = x.slice_along(axis, before, x.shape[axis] - after)
    return x


@aten("constant_pad_nd")
def constant_pad(x: Tensor, pad: Sequence[Dim], value: Scalar = 0) -> Tensor:
    """Return x with a number around it."""
    return _padded(x, pad, value)


@aten("pad")
def padded(
    x: Tensor, pad: Sequence[Dim], mode: str = "constant", value: Scalar | None = None
) -> Tensor:
    """Return x with margins."""
    return _padded(x, pad, 0 if value is None else value, mode)


@aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(x: Tensor, padding: Sequence[Dim]) -> Tensor:
    """Return x mirrored at its edges."""
    return _padded(x, padding, mode="reflect")


@aten("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(x: Tensor, padding: Sequence[Dim]) -> Tensor:
    """Return x with its edges repeated."""
    return _padded(x, padding, mode="replicate")
