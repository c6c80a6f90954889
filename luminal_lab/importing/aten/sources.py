"""Tensors out of nothing: constants, ranges, random numbers."""

from __future__ import annotations

from collections.abc import Sequence

from luminal_lab.core.dims import Dim
from luminal_lab.core.dtypes import DType, DTypeLike
from luminal_lab.core.op import Scalar
from luminal_lab.importing.aten.table import aten, source
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.sources import Sources

F32 = DType.float32


def _number(value: Scalar, dtype: DTypeLike) -> Scalar:
    """Return a number as a value of a dtype."""
    is_float = DType(dtype).is_float
    return value if is_float or not isinstance(value, float) else int(value)


@source("full")
def full(graph: Sources, size: Sequence[Dim], value: Scalar, dtype: DType | None = None) -> Tensor:
    """Return one number everywhere."""
    return graph.full(tuple(size), value if dtype is None else _number(value, dtype), dtype)


@source("zeros", "empty.memory_format")
def zeros(graph: Sources, size: Sequence[Dim], dtype: DType | None = None) -> Tensor:
    """Return zeros."""
    return graph.zeros(tuple(size), dtype or F32)


@source("empty_strided", "empty_permuted")
def empty(
    graph: Sources, size: Sequence[Dim], stride: object, dtype: DType | None = None
) -> Tensor:
    """Return zeros."""
    return graph.zeros(tuple(size), dtype or F32)


@source("ones")
def ones(graph: Sources, size: Sequence[Dim], dtype: DType | None = None) -> Tensor:
    """Return ones."""
    return graph.ones(tuple(size), dtype or F32)


@aten("full_like")
def full_like(x: Tensor, value: Scalar, dtype: DType | None = None) -> Tensor:
    """Return one number in the shape of x."""
    return x.full_like(_number(value, dtype or x.dtype), dtype)


@aten("zeros_like", "empty_like")
def zeros_like(x: Tensor, dtype: DType | None = None) -> Tensor:
    """Return zeros in the shape of x."""
    return x.full_like(0, dtype)


@aten("ones_like")
def ones_like(x: Tensor, dtype: DType | None = None) -> Tensor:
    """Return ones in the shape of x."""
    return x.full_like(1, dtype)


@source("new_zeros", "new_empty")
def new_zeros(graph: Sources, x: Tensor, size: Sequence[Dim], dtype: DType | None = None) -> Tensor:
    """Return zeros in the dtype of x."""
    return graph.zeros(tuple(size), dtype or x.dtype)


@source("new_ones")
def new_ones(graph: Sources, x: Tensor, size: Sequence[Dim], dtype: DType | None = None) -> Tensor:
    """Return ones in the dtype of x."""
    return graph.ones(tuple(size), dtype or x.dtype)


@source("new_full")
def new_full(
    graph: Sources, x: Tensor, size: Sequence[Dim], value: Scalar, dtype: DType | None = None
) -> Tensor:
    """Return one number in the dtype of x."""
    kind = dtype or x.dtype
    return graph.full(tuple(size), _number(value, kind), kind)


@source("arange")
def arange(graph: Sources, end: Scalar, dtype: DType | None = None) -> Tensor:
    """Return the whole numbers from 0 on."""
    return graph.arange(0, end, 1, dtype)


@source("arange.start", "arange.start_step")
def arange_from(
    graph: Sources, start: Scalar, end: Scalar, step: float = 1, dtype: DType | None = None
) -> Tensor:
    """Return numbers from a start on, at equal steps."""
    if dtype is not None and not dtype.is_float:
        start, end = (int(n) if isinstance(n, float) else n for n in (start, end))
    return graph.arange(start, end, step, dtype)


@source("linspace")
def linspace(
    graph: Sources, start: float, end: float, steps: int, dtype: DType | None = None
) -> Tensor:
    """Return numbers at equal distances."""
    return graph.linspace(start, end, steps, dtype or F32)


@source("eye", "eye.m")
def eye(graph: Sources, n: Dim, m: Dim | None = None, dtype: DType | None = None) -> Tensor:
    """Return ones on a diagonal."""
    return graph.eye(n, m, dtype or F32)


@source("tril_indices")
def tril_indices(
    graph: Sources, row: int, col: int, offset: int = 0, dtype: DType | None = None
) -> Tensor:
    """Return the positions of the lower triangle."""
    pairs = [(i, j) for i in range(row) for j in range(max(0, min(col, i + offset + 1)))]
    return _pairs(graph, pairs, dtype)


@source("triu_indices")
def triu_indices(
    graph: Sources, row: int, col: int, offset: int = 0, dtype: DType | None = None
) -> Tensor:
    """Return the positions of the upper triangle."""
    pairs = [(i, j) for i in range(row) for j in range(max(0, i + offset), col)]
    return _pairs(graph, pairs, dtype)


def _pairs(graph: Sources, pairs: Sequence[tuple[int, int]], dtype: DType | None) -> Tensor:
    import numpy as np  # noqa: PLC0415  # it is the only use

    data = np.array(pairs, "int64").reshape(-1, 2).T.copy()
    return graph.tensor(data.shape, "int64").set(data).cast(dtype or DType.int64)


# -- random numbers, of our own stream -------------------------------------------------------------


@source("rand")
def rand(graph: Sources, size: Sequence[Dim], dtype: DType | None = None) -> Tensor:
    """Return uniform random numbers."""
    return graph.rand(tuple(size)).cast(dtype or F32)


@source("randn")
def randn(graph: Sources, size: Sequence[Dim], dtype: DType | None = None) -> Tensor:
    """Return normal random numbers."""
    return graph.randn(tuple(size)).cast(dtype or F32)


@source("rand_like")
def rand_like(graph: Sources, x: Tensor, dtype: DType | None = None) -> Tensor:
    """Return uniform random numbers in the shape of x."""
    return graph.rand(x.shape).cast(dtype or x.dtype)


@source("randn_like")
def randn_like(graph: Sources, x: Tensor, dtype: DType | None = None) -> Tensor:
    """Return normal random numbers in the shape of x."""
    return graph.randn(x.shape).cast(dtype or x.dtype)


@source("randint")
def randint(graph: Sources, high: int, size: Sequence[Dim], dtype: DType | None = None) -> Tensor:
    """Return random integers."""
    return graph.randint(0, high, tuple(size)).cast(dtype or DType.int64)


@source("randint.low")
def randint_from(
    graph: Sources, low: int, high: int, size: Sequence[Dim], dtype: DType | None = None
) -> Tensor:
    """Return random integers."""
    return graph.randint(low, high, tuple(size)).cast(dtype or DType.int64)


@source("randperm")
def randperm(graph: Sources, n: Dim, dtype: DType | None = None) -> Tensor:
    """Return the numbers below n in random order."""
    return graph.rand((n,)).argsort().cast(dtype or DType.int64)


@source("bernoulli")
def bernoulli(graph: Sources, x: Tensor) -> Tensor:
    """Return 1 with the probability x, else 0."""
    return (graph.rand(x.shape) < x).cast(x.dtype)


@source("bernoulli.p")
def bernoulli_of(graph: Sources, x: Tensor, p: float = 0.5) -> Tensor:
    """Return 1 with a probability, else 0."""
    return (graph.rand(x.shape) < p).cast(x.dtype)
