"""Choice and indexing as patterns of the twelve primitive ops: see `twelve.py`.

A gather is a sum of all rows, each times 1 or 0 from a table. The table has the axes of the index,
and beside the axis of indices, K, an axis for positions, S: […, K, S, …]. A scatter sums the values
along the other axis of the same table. For bools "and", "or" and `c < true` replace
products, sums and 1 - c.
"""

from __future__ import annotations

from luminal_lab.core.dims import Dim, Shape
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Constant, Expand, Iota, MaxReduce, Pad, Reshape, SumReduce
from luminal_lab.passes.pattern import Pattern, as_value, cast, op, variables

c, x, y, index, values, buffer, rows = variables("c x y index values buffer rows")


# -- what the spellings are made of ----------------------------------------------------------------


def weight(condition: Pattern, dtype: DType) -> Pattern:
    """Return 1 where a condition holds, else 0."""
    return condition if dtype is DType.bool_ else cast(condition, dtype=dtype)


def rest(of: Pattern, dtype: DType) -> Pattern:
    """Return 1 minus a weight."""
    if dtype is DType.bool_:
        return of < True
    return 1 + of * (dtype.limits[1] if dtype.is_unsigned else -1)  # 255 is -1 in a byte


def total(parts: Pattern, dtype: DType, axis: object) -> Pattern:
    """Return the sum along an axis; for bools, whether any is true."""
    return op(MaxReduce if dtype is DType.bool_ else SumReduce, parts, axis=axis)


def equal(left: Pattern, right: Pattern) -> Pattern:
    """Return whether two whole numbers are equal: neither is less."""
    return ((left < right) + (right < left)) < True


def spread(source: Pattern, old: Shape, axis: int, shape: Shape) -> Pattern:
    """Return a value with a new axis, along which it is repeated."""
    with_axis = op(Reshape, source, shape=(*old[:axis], 1, *old[axis:]))
    return op(Expand, with_axis, shape=shape)


def counted(dtype: DType, axis: int, shape: Shape) -> Pattern:
    """Return the position along an axis, repeated along the others."""
    size = shape[axis]
    alone = (*(1,) * axis, size, *(1,) * (len(shape) - axis - 1))
    return op(Expand, op(Reshape, op(Iota, dtype=dtype, shape=(size,)), shape=alone), shape=shape)


def is_narrow(dtype: DType, size: Dim) -> bool:
    """Return whether an integer dtype may not hold all positions along an axis."""
    return dtype is not DType.int64 and not (isinstance(size, int) and size <= dtype.limits[1])


def table_shape(of: TensorType, axis: int, size: Dim) -> Shape:
    """Return the shape of the table of indices and positions: […, K, S, …]."""
    return (*of.shape[: axis + 1], size, *of.shape[axis + 1 :])


def one_hot(of: TensorType, axis: int, size: Dim) -> Pattern:
    """Return the table that is true where the index is the position."""
    shape = table_shape(of, axis, size)
    narrow = is_narrow(of.dtype, size)
    wide = cast(index, dtype=DType.int64) if narrow else index
    positions = counted(DType.int64 if narrow else of.dtype, axis + 1, shape)
    return equal(spread(wide, of.shape, axis + 1, shape), positions)


# -- the spellings ---------------------------------------------------------------------------------


def as_choice(dtype: DType) -> Pattern:
    """Return `where` as c·x + (1 - c)·y."""
    chosen = weight(c, dtype)
    return chosen * x + rest(chosen, dtype) * y


def as_gather(of: TensorType, by: TensorType, axis: int) -> Pattern:
    """Return a gather as the sum of all rows, each times 1 if selected, else 0."""
    size = of.shape[axis]
    shape = table_shape(by, axis, size)
    meant = weight(one_hot(by, axis, size), of.dtype)
    picked = total(meant * spread(x, of.shape, axis, shape), of.dtype, axis + 1)
    return op(Reshape, picked, shape=by.shape)


def as_scatter(of: TensorType, by: TensorType, axis: int, mode: str) -> Pattern:
    """Return a scatter as the sum of all values, each times 1 at its position, else 0."""
    dtype = of.dtype
    shape = table_shape(by, axis, of.shape[axis])
    meant = one_hot(by, axis, of.shape[axis])
    given = spread(values, by.shape, axis + 1, shape)
    if mode == "add":
        return x + op(Reshape, total(weight(meant, dtype) * given, dtype, axis), shape=of.shape)
    number = counted(DType.int64, axis, shape) + 1
    last = op(MaxReduce, cast(meant, dtype=DType.int64) * number, axis=axis)  # […, 1, S, …]
    is_last = equal(number, op(Expand, last, shape=shape))
    hit = op(Reshape, last > 0, shape=of.shape)
    new = op(Reshape, total(weight(is_last, dtype) * given, dtype, axis), shape=of.shape)
    return new + rest(weight(hit, dtype), dtype) * x


def as_update(of: TensorType, by: TensorType, axis: int, at: Dim) -> Pattern:
    """Return an update as padded rows plus the rest of the buffer."""
    none = (0,) * len(of.shape)
    left = of.shape[axis] - at - by.shape[axis]
    before = (*none[:axis], at, *none[axis + 1 :])
    after = (*none[:axis], left, *none[axis + 1 :])
    ones = op(Constant, value=as_value(1, of.dtype), dtype=of.dtype, shape=by.shape)
    kept = rest(op(Pad, ones, before=before, after=after), of.dtype)
    return op(Pad, rows, before=before, after=after) + kept * buffer
