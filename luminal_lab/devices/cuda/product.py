"""Which kernels are plain products of matrices, and how cuBLAS is asked for one.

    O[i < m, j < n] = sum k < 512: fused(a[i, k] * b[k, j])     →  gemm(n, m, 512, b, n, a, 512, n)

cuBLAS has matrices column by column, so it computes the transpose: b's columns times a's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from luminal_lab.core.dims import Dim, Symbol, evaluate, substitute
from luminal_lab.core.dtypes import DType
from luminal_lab.core.ops import Cast, Mul
from luminal_lab.core.ops.intrinsic import FusedMul
from luminal_lab.core.views import row_major
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.terms import Apply, Fold, Read, Term

TYPES: Final[Mapping[DType, int]] = {
    DType.float32: 0,
    DType.float64: 1,
    DType.float16: 2,
    DType.bfloat16: 14,
}
"""The numbers of cudaDataType_t."""
COMPUTE_32F, COMPUTE_32F_TF32, COMPUTE_64F = 68, 77, 70
"""Of cublasComputeType_t: how products are added up."""


class GemmOperand(NamedTuple):
    """An operand: which argument of its kernel it is, and how it lies in memory."""

    argument: int
    op: Literal[0, 1]
    """1 if it is transposed, as cuBLAS sees it."""
    step: int
    """The elements from one column to the next, as cuBLAS sees it."""
    stride: int
    """The elements from one product of a batch to the next."""


class GemmCall(NamedTuple):
    """A product of matrices, or a batch of them, as cuBLAS takes it."""

    m: int
    n: int
    k: int
    batch: int
    left: GemmOperand
    right: GemmOperand
    result: GemmOperand
    factor_dtype: DType
    result_dtype: DType


class _Factors(NamedTuple):
    """What a product is made of, for any sizes."""

    reads: tuple[Read, Read]
    fold: Fold


def terms_of(definition: Definition | None) -> _Factors | None:
    """Return the factors of a plain product, if that is all that a kernel computes."""
    if definition is None or len(definition.lines) != 1:
        return None
    (line,) = definition.lines
    fold = _uncast(line.term, line.type.dtype) if line.type.dtype.is_half else line.term
    if not isinstance(fold, Fold) or fold.kind != "sum" or fold.dtype not in TYPES:
        return None
    body = fold.body
    if not isinstance(body, Apply) or not isinstance(body.op, Mul):
        return None
    a, b = (_uncast(factor, fold.dtype) for factor in body.args)
    if not isinstance(a, Read) or not isinstance(b, Read) or a.dtype is not b.dtype:
        return None
    if not a.dtype.is_half and not isinstance(body.op, FusedMul):
        return None  # the library's products are; those of 16-bit floats are exact anyway
    return _Factors((a, b), fold) if a.dtype in TYPES else None


def _uncast(term: Term, to: DType) -> Term:
    """Return what is cast to a dtype."""
    cast = isinstance(term, Apply) and term.op == Cast(to)
    return term.args[0] if cast and isinstance(term, Apply) else term


def product_of(definition: Definition | None, dims: Mapping[str, int]) -> GemmCall | None:
    """Return the product that a kernel is for some sizes of dims, if cuBLAS has that.

    >>> from luminal_lab.kernels.definition.text import parse_definition
    >>> product_of(parse_definition('''kernel matmul(a: f32[n, 8], b: f32[8, 4]) -> (O: f32[n, 4])
    ...   O[i < n, j < 4] = sum k < 8: fused(a[i, k] * b[k, j])'''), {"n": 3})[:4]
    (4, 3, 8, 1)
    """
    terms = terms_of(definition)
    if terms is None or definition is None:
        return None
    (line,) = definition.lines
    fold, reads = terms.fold, terms.reads
    sizes = {
        axis.name: evaluate(size, dims)
        for axis, size in zip(line.axes, line.type.shape, strict=True)
    } | {fold.axis.name: evaluate(fold.size, dims)}
    if not all(sizes.values()):
        return None
    axes = [*line.axes, fold.axis]
    shapes = [(definition.types[read.buffer].shape, read.index) for read in reads]
    shapes.append((line.type.shape, line.axes))
    lies: list[dict[str, int]] = []
    for shape, index in shapes:
        steps = _steps(row_major(shape, index), axes, dims, sizes)
        if steps is None:
            return None
        lies.append(steps)
    names = [buffer.name for buffer in definition.inputs]
    order = names.index(reads[0].buffer), names.index(reads[1].buffer)
    for (left, right), (first, second) in (((0, 1), order), ((1, 0), order[::-1])):
        product = _product(
            lies[left], lies[right], lies[2], sizes, fold.axis.name, (first, second, len(names))
        )
        if product is not None:
            return product._replace(factor_dtype=reads[0].dtype, result_dtype=line.type.dtype)
    return None


def _steps(
    position: Dim, axes: list[Symbol], dims: Mapping[str, int], sizes: Mapping[str, int]
) -> dict[str, int] | None:
    """Return by how many elements a place grows along each axis; None if it is not straight."""
    zero: dict[str, Dim] = {axis.name: 0 for axis in axes}
    start = evaluate(substitute(position, zero), dims)
    steps: dict[str, int] = {}
    far = start
    for axis in axes:
        last = sizes[axis.name] - 1
        step = evaluate(substitute(position, {**zero, axis.name: min(1, last)}), dims) - start
        end = evaluate(substitute(position, {**zero, axis.name: last}), dims) - start
        if end != step * last:
            return None
        steps[axis.name] = step
        far += end
    last_one: dict[str, Dim] = {axis.name: sizes[axis.name] - 1 for axis in axes}
    straight = start == 0 and evaluate(substitute(position, last_one), dims) == far
    return steps if straight else None


def _product(
    a: dict[str, int],
    b: dict[str, int],
    c: dict[str, int],
    sizes: Mapping[str, int],
    k: str,
    places: tuple[int, int, int],
) -> GemmCall | None:
    """Return the product with `a` on the left, if all lies as cuBLAS can have it."""
    inner = [name for name in sizes if sizes[name] > 1 and name != k]
    if any(a[name] < 0 or b[name] < 0 for name in inner):
        return None
    rows = _merged([n for n in inner if b[n] == 0], (a, c), sizes)
    columns = _merged([n for n in inner if a[n] == 0], (b, c), sizes)
    batch = _merged([n for n in inner if a[n] and b[n]], (a, b, c), sizes)
    if rows is None or columns is None or batch is None:
        return None
    (m, (a_m, c_m)), (n, (b_n, c_n)), (many, (a_s, b_s, c_s)) = rows, columns, batch
    depth = sizes[k]
    if depth > 1 and (a[k] <= 0 or b[k] <= 0):
        return None
    if n > 1 and c_n != 1:
        return None
    # As cuBLAS sees it, b's columns come first, and then a's rows.
    left = _matrix(places[1], (n, b_n), (depth, b[k]), b_s)
    right = _matrix(places[0], (depth, a[k]), (m, a_m), a_s)
    result = _matrix(places[2], (n, 1), (m, c_m), c_s)
    if left is None or right is None or result is None:
        return None
    return GemmCall(n, m, depth, many, left, right, result, DType.float32, DType.float32)


def _merged(
    names: list[str], lies: tuple[dict[str, int], ...], sizes: Mapping[str, int]
) -> tuple[int, tuple[int, ...]] | None:
    """Return axes as one: its size and its steps; None if they are not one after the other."""
    size, steps = 1, tuple(0 for _ in lies)
    for name in reversed(names):
        mine = tuple(steps_of[name] for steps_of in lies)
        if size == 1:
            size, steps = sizes[name], mine
        elif all(a == size * b for a, b in zip(mine, steps, strict=True)):
            size *= sizes[name]
        else:
            return None
    return size, steps


def _matrix(
    argument: int, down: tuple[int, int], across: tuple[int, int], stride: int
) -> GemmOperand | None:
    """Return an operand of `down` rows and `across` columns, each with its step."""
    (rows, down_step), (columns, across_step) = down, across
    if rows == 1 or down_step == 1:
        step = across_step if columns > 1 else rows
        return GemmOperand(argument, 0, step, stride) if step >= rows else None
    if columns == 1 or across_step == 1:
        return GemmOperand(argument, 1, down_step, stride) if down_step >= columns else None
    return None
