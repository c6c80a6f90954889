"""Linear algebra of small matrices: factors, solutions, determinants, norms.

Each algorithm is written out step by step, one for each column, in ops that graphs have; so its
gradient is that of these ops. A matrix has at most 64 rows and columns. What is no number, as the
inverse of a singular matrix, is infinite or NaN: a graph cannot raise when it runs.

>>> import luminal_lab as ll
>>> cx = ll.Graph()
>>> a = cx.tensor((2, 2)).set([[2, 1], [1, 3]])
>>> y = ll.linalg.solve(a, cx.tensor((2,)).set([3, 5])).retrieve()
>>> cx.execute()
>>> y.numpy().round(4)
array([0.8, 1.4], dtype=float32)
"""

from __future__ import annotations

# The functions of this file use private members of tensors.
# pyright: reportPrivateUsage=false
import math
from collections.abc import Callable, Sequence
from functools import reduce, wraps
from typing import Concatenate, ParamSpec, TypeVar

from luminal_lab.core.dtypes import DType, DTypeLike
from luminal_lab.errors import ArgumentError, DTypeError, GraphError, ShapeError
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import told
from luminal_lab.tensor.arithmetic import Operand
from luminal_lab.tensor.functions import widened
from luminal_lab.tensor.lazy import Axis
from luminal_lab.tensor.movement import whole
from luminal_lab.tensor.product import multi_dot

P = ParamSpec("P")
R = TypeVar("R")
LARGEST = 64
"""The most rows or columns of a matrix whose factors are written out."""

__all__ = [
    "cholesky", "cholesky_ex", "cholesky_inverse", "cholesky_solve", "det", "geqrf",
    "householder_product", "inv", "inv_ex", "logdet", "lu", "lu_factor", "lu_factor_ex", "lu_solve",
    "lu_unpack", "matrix_exp", "matrix_norm", "matrix_power", "multi_dot", "norm", "ormqr", "qr",
    "slogdet", "solve", "solve_ex", "solve_triangular", "tensorinv", "tensorsolve", "vander",
    "vecdot", "vector_norm",
]  # fmt: skip


def algebra(
    function: Callable[Concatenate[Tensor, P], R],
) -> Callable[Concatenate[Tensor, P], R]:
    """Mark a function of a matrix: all or nothing, in words of its own."""

    @wraps(function)
    def call(first: Tensor, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if not isinstance(first, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
            raise GraphError(
                f"{function.__name__}: {first!r} is not a tensor", hint="give a tensor of a graph"
            )
        with first.graph.whole():
            return function(first, *args, **kwargs)

    return told(call)


# -- what the algorithms share ---------------------------------------------------------------------


def _matrix(what: str, a: Tensor, *, square: bool = True) -> Tensor:
    """Return a matrix of floats for computation, or raise if it is none, or too large."""
    if a.ndim < 2:
        raise ShapeError(
            f"{what}: {a.label} has {a.ndim} axes, and a matrix has two",
            hint="axes before the last two count matrices",
        )
    if not a.dtype.is_float:
        raise DTypeError(
            f"{what}: {a.label} is {a.dtype}, and must be a float",
            hint='convert it first, as in a.cast("float32")',
        )
    rows, columns = (whole(f"{what}: a size of {a.label}", n) for n in a.shape[-2:])
    if square and rows != columns:
        raise ShapeError(
            f"{what}: {a.label} is not square: it has {rows} rows and {columns} columns",
            hint="qr is for any matrix",
        )
    if min(rows, columns) > LARGEST:
        raise ShapeError(
            f"{what}: {a.label} has {rows} rows and {columns} columns, and {LARGEST} are the most",
            hint="each column is a step of its own; compute it in NumPy, and set the result",
        )
    return widened(a)


def _places(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return the numbers of the rows [rows, 1] and of the columns [columns]."""
    return a._iota(_size(a, -2)).unsqueeze(1), a._iota(_size(a, -1))


def _size(a: Tensor, axis: int) -> int:
    return whole("linalg: a size", a.shape[axis])


def _identity(a: Tensor) -> Tensor:
    """Return identity matrices of the shape of a square matrix."""
    rows, columns = _places(a)
    return rows.eq(columns).cast(a.dtype)._stretch(a.shape)


def _diagonal(a: Tensor) -> Tensor:
    return a.diagonal(0, -2, -1)


def _columns(what: str, a: Tensor, b: Operand) -> tuple[Tensor, Tensor, bool]:
    """Return a matrix and right sides with its batches, and whether these are vectors."""
    right = widened(a._tensor_of(b))
    vector = right.ndim == 1 or (right.ndim == a.ndim - 1 and right.shape == a.shape[:-1])
    right = right.unsqueeze(-1) if vector else right
    if right.ndim < 2 or right.shape[-2] != a.shape[-1]:
        raise ShapeError(
            f"{what}: the right side {right.label} has no {a.shape[-1]} rows, as {a.label} needs",
            hint="it is a vector, or a matrix with a column for each right side",
        )
    batch = _batch(what, a, right)
    return a._stretch((*batch, *a.shape[-2:])), right._stretch((*batch, *right.shape[-2:])), vector


def _batch(what: str, *matrices: Tensor) -> tuple[int, ...]:
    """Return the common batch axes of matrices."""
    sizes: list[int] = []
    rank = max(a.ndim for a in matrices) - 2
    for axis in range(rank):
        found = {
            whole(f"{what}: a size", a.shape[axis - rank - 2])
            for a in matrices
            if a.ndim - 2 >= rank - axis
        } - {1}
        if len(found) > 1:
            said = " and ".join(a.label for a in matrices)
            raise ShapeError(
                f"{what}: the batches of {said} cannot be broadcast together",
                hint="axes before the last two must be equal, or 1",
            )
        sizes.append(found.pop() if found else 1)
    return tuple(sizes)


def _swapped(a: Tensor, k: int, other: Tensor) -> Tensor:
    """Return a matrix with row k and another one, whose number is [..., 1, 1], swapped."""
    rows, _ = _places(a)
    order = rows.eq(k).where(other, rows.eq(other).where(k, rows))  # [..., rows, 1]
    return a.gather(-2, order.cast(DType.int64)._stretch(a.shape))


def _eliminated(a: Tensor, *, pivot: bool = True) -> tuple[Tensor, list[Tensor]]:
    """Return L and U in one matrix, and for each step the row that came to its place."""
    rows, columns = _places(a)
    pivots: list[Tensor] = []
    for k in range(min(_size(a, -2), _size(a, -1))):
        if pivot:
            column = a.narrow(-1, k, 1)
            size = (rows < k).where(-1.0, column.abs())
            best = size.argmax(-2, True).cast(DType.int32)  # [..., 1, 1]
            a = _swapped(a, k, best)
            pivots.append(best)
        else:
            pivots.append(a.constant(k, DType.int32, (*a.shape[:-2], 1, 1)))
        head = a.narrow(-2, k, 1)  # [..., 1, columns]
        first = head.narrow(-1, k, 1)
        column = a.narrow(-1, k, 1)
        share = column * first.eq(0).where(1.0, first).recip()
        share = share if pivot else column * first.recip()
        below = rows > k
        a = (below & (columns > k)).where(a - share * head, a)
        a = (below & columns.eq(k)).where(share, a)
    return a, pivots


def _lower(lu: Tensor) -> Tensor:
    """Return L of the two in one matrix: [rows, the smaller size]."""
    part = lu.narrow(-1, 0, min(_size(lu, -2), _size(lu, -1)))
    rows, columns = _places(part)
    return (columns < rows).where(part, rows.eq(columns).cast(lu.dtype))


def _upper(lu: Tensor) -> Tensor:
    """Return U of the two in one matrix: [the smaller size, columns]."""
    return lu.narrow(-2, 0, min(_size(lu, -2), _size(lu, -1))).triu()


def _substituted(a: Tensor, b: Tensor, *, upper: bool, unit: bool) -> Tensor:
    """Return the solution of a triangular system, one row after another."""
    rows, _ = _places(b)
    n = _size(a, -1)
    scale = None if unit else _diagonal(a).unsqueeze(-1).recip()
    for k in reversed(range(n)) if upper else range(n):
        solved = b.narrow(-2, k, 1)
        solved = solved if scale is None else solved * scale.narrow(-2, k, 1)
        left = rows < k if upper else rows > k
        b = left.where(b - a.narrow(-1, k, 1) * solved, b)
    return b if scale is None else b * scale


def _solved(a: Tensor, b: Tensor) -> Tensor:
    """Return the solution of square systems, by elimination with the largest pivots."""
    lu, pivots = _eliminated(a)
    for k, row in enumerate(pivots):
        b = _swapped(b, k, row)
    b = _substituted(lu, b, upper=False, unit=True)
    return _substituted(lu, b, upper=True, unit=False)


def _pivot_rows(lu: Tensor, pivots: Sequence[Tensor]) -> Tensor:
    """Return the rows that came to each place, counted from 1, as int32."""
    if not pivots:
        return lu.constant(0, DType.int32, (*lu.shape[:-2], 0))
    return lu.join("concat", [row.squeeze(-1) for row in pivots], -1) + 1


def _permutation(rows: int, pivots: Tensor, dtype: DType) -> Tensor:
    """Return the matrix P of P L U, from the rows that came to each place."""
    shape = (*pivots.shape[:-1], rows, rows)
    p = _identity(pivots.constant(0.0, dtype, shape))
    for k in range(_size(pivots, -1)):
        p = _swapped(p, k, pivots.narrow(-1, k, 1).unsqueeze(-1) - 1)
    return p.mT


# -- elimination -----------------------------------------------------------------------------------


@algebra
def solve(A: Tensor, B: Operand, *, left: bool = True) -> Tensor:
    """Return the solution X of A X = B, or with `left=False` of X A = B.

    >>> a = cx.tensor((2, 2)).set([[2, 0], [0, 4]])
    >>> y = ll.linalg.solve(a, [2.0, 2.0]).retrieve()
    >>> cx.execute()
    >>> y.tolist()
    [1.0, 0.5]
    """
    a = _matrix("solve", A)
    if not left:
        right = widened(a._tensor_of(B))
        return solve(a.mT, right if right.ndim == 1 else right.mT).mT.cast(A.dtype)
    a, b, vector = _columns("solve", a, B)
    x = _solved(a, b)
    return (x.squeeze(-1) if vector else x).cast(A.dtype)


@algebra
def solve_ex(
    A: Tensor, B: Operand, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the solution, and for each matrix 0, or the first step without a pivot from 1 on.

    >>> a = cx.tensor((2, 2)).set([[1, 1], [1, 1]])
    >>> x, info = ll.linalg.solve_ex(a, [2.0, 2.0])
    >>> y = info.retrieve()
    >>> cx.execute()
    >>> y.tolist()
    2
    """
    return solve(A, B, left=left), _info("solve_ex", A, check_errors)


@algebra
def inv(A: Tensor) -> Tensor:
    """Return the inverse.

    >>> y = ll.linalg.inv(cx.tensor((2, 2)).set([[2, 0], [0, 4]])).retrieve()
    >>> cx.execute()
    >>> y.tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    a = _matrix("inv", A)
    return _solved(a, _identity(a)).cast(A.dtype)


@algebra
def inv_ex(A: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """Return the inverse, and for each matrix 0, or the first step without a pivot from 1 on.

    >>> x, info = ll.linalg.inv_ex(cx.tensor((3, 2, 2)))
    >>> info.shape
    (3,)
    """
    return inv(A), _info("inv_ex", A, check_errors)


def _info(what: str, A: Tensor, check: bool) -> Tensor:
    if check:
        raise ArgumentError(
            f"{what}: a graph cannot raise when it runs",
            hint="read what comes as the second result",
        )
    return _first_zero(_eliminated(_matrix(what, A))[0])


def _first_zero(lu: Tensor) -> Tensor:
    zero = _diagonal(lu).eq(0)
    size = min(_size(lu, -2), _size(lu, -1))
    if size == 0:
        return lu.constant(0, DType.int32, lu.shape[:-2])
    first = zero.argmax(-1) + 1
    return zero.any(-1).where(first, 0).cast(DType.int32)


@algebra
def det(A: Tensor) -> Tensor:
    """Return the determinant.

    >>> y = ll.linalg.det(cx.tensor((2, 2)).set([[2, 1], [1, 3]])).retrieve()
    >>> cx.execute()
    >>> y.item()
    5.0
    """
    return _determinant(_matrix("det", A)).cast(A.dtype)


def _determinant(a: Tensor) -> Tensor:
    lu, pivots = _eliminated(a)
    return _diagonal(lu).prod(-1) * _turns(lu, pivots)


def _turns(lu: Tensor, pivots: Sequence[Tensor]) -> Tensor:
    """Return -1 for an odd number of swaps, else 1."""
    sign = lu.constant(1.0, lu.dtype, lu.shape[:-2])
    for k, row in enumerate(pivots):
        sign = row.squeeze((-2, -1)).eq(k).where(sign, -sign)
    return sign


@algebra
def slogdet(A: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sign of the determinant and the logarithm of its size, which cannot overflow.

    >>> sign, log = ll.linalg.slogdet(cx.tensor((1, 1)).set([[-1]]))
    >>> cx.retrieve([sign, log])
    >>> cx.execute()
    >>> sign.item(), log.item()
    (-1.0, 0.0)
    """
    lu, pivots = _eliminated(_matrix("slogdet", A))
    values = _diagonal(lu)
    sign = values.sign().detach().prod(-1) * _turns(lu, pivots)
    return sign.cast(A.dtype), values.abs().log().sum(-1).cast(A.dtype)


@algebra
def logdet(A: Tensor) -> Tensor:
    """Return the logarithm of the determinant: NaN where that is negative.

    >>> y = ll.linalg.logdet(cx.tensor((1, 1)).set([[1]])).retrieve()
    >>> cx.execute()
    >>> y.item()
    0.0
    """
    sign, log = slogdet(A)
    return (sign < 0).where(math.nan, log)


@algebra
def lu_factor(A: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor]:
    """Return L and U in one matrix, and the rows that came to each place, counted from 1.

    >>> both, rows = ll.linalg.lu_factor(cx.tensor((2, 2)).set([[0, 1], [2, 3]]))
    >>> cx.retrieve([both, rows])
    >>> cx.execute()
    >>> both.tolist(), rows.tolist()
    ([[2.0, 3.0], [0.0, 1.0]], [2, 2])
    """
    lu, pivots = _eliminated(_matrix("lu_factor", A, square=False), pivot=pivot)
    return lu.cast(A.dtype), _pivot_rows(lu, pivots)


@algebra
def lu_factor_ex(
    A: Tensor, *, pivot: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return `lu_factor`, and for each matrix 0, or the first step without a pivot from 1 on.

    >>> both, rows, info = ll.linalg.lu_factor_ex(cx.tensor((3, 2, 2)))
    >>> info.shape
    (3,)
    """
    if check_errors:
        _info("lu_factor_ex", A, check_errors)
    both, rows = lu_factor(A, pivot=pivot)
    return both, rows, _first_zero(both)


@algebra
def lu(A: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Return P, L and U, whose product is A.

    >>> p, l, u = ll.linalg.lu(cx.tensor((2, 2)).set([[0, 1], [2, 3]]))
    >>> y = (p @ l @ u).retrieve()
    >>> cx.execute()
    >>> y.tolist()
    [[0.0, 1.0], [2.0, 3.0]]
    """
    both, rows = lu_factor(A, pivot=pivot)
    p = _permutation(_size(A, -2), rows, A.dtype)
    return p if pivot else p._cut({p.ndim - 1: (0, 0, 1)}), _lower(both), _upper(both)


@algebra
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return P, L and U of what `lu_factor` returned.

    >>> p, l, u = ll.linalg.lu_unpack(*ll.linalg.lu_factor(cx.tensor((3, 2))))
    >>> p.shape, l.shape, u.shape
    ((3, 3), (3, 2), (2, 2))
    """
    a = _matrix("lu_unpack", LU_data, square=False)
    p = _permutation(_size(a, -2), LU_pivots, LU_data.dtype) if unpack_pivots else None
    return p, _lower(a) if unpack_data else None, _upper(a) if unpack_data else None


@algebra
def lu_solve(
    LU: Tensor, pivots: Tensor, B: Operand, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """Return the solution X of A X = B from what `lu_factor` returned for A.

    With `left=False` it is that of X A = B, and with `adjoint` that of the transpose of A.

    >>> a = cx.tensor((2, 2)).set([[0, 1], [2, 0]])
    >>> y = ll.linalg.lu_solve(*ll.linalg.lu_factor(a), [[1.0], [2.0]]).retrieve()
    >>> cx.execute()
    >>> y.tolist()
    [[1.0], [1.0]]
    """
    a, right = _matrix("lu_solve", LU), widened(LU._tensor_of(B))
    right = right if left else right.mT
    batch = _batch("lu_solve", a, right)
    a, b = (x._stretch((*batch, *x.shape[-2:])) for x in (a, right))
    rows = pivots.unsqueeze(-1).unsqueeze(-1) - 1  # [..., steps, 1, 1]
    n = _size(a, -1)
    steps = [rows.select(-3, k) for k in range(n)]
    if adjoint == left:  # the transpose: Uᵀ, then Lᵀ, then the swaps the other way round
        b = _substituted(a.mT, b, upper=False, unit=False)
        b = _substituted(a.mT, b, upper=True, unit=True)
        for k in reversed(range(n)):
            b = _swapped(b, k, steps[k])
    else:
        for k, row in enumerate(steps):
            b = _swapped(b, k, row)
        b = _substituted(a, b, upper=False, unit=True)
        b = _substituted(a, b, upper=True, unit=False)
    return (b if left else b.mT).cast(LU.dtype)


@algebra
def solve_triangular(
    A: Tensor, B: Operand, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """Return the solution X of A X = B for a triangular A, of which only that part is read.

    With `left=False` it is that of X A = B; with `unitriangular` the diagonal counts as ones.

    >>> a = cx.tensor((2, 2)).set([[2, 7], [2, 1]])
    >>> y = ll.linalg.solve_triangular(a, [[2.0], [3.0]], upper=False).retrieve()
    >>> cx.execute()
    >>> y.tolist()
    [[1.0], [1.0]]
    """
    a, right = _matrix("solve_triangular", A), widened(A._tensor_of(B))
    if not left:
        a, right, upper = a.mT, right.mT, not upper
    batch = _batch("solve_triangular", a, right)
    if right.ndim < 2 or right.shape[-2] != a.shape[-1]:
        raise ShapeError(
            f"solve_triangular: {A.label} and the right side {right.label} do not fit together",
            hint="the right side is a matrix with a column for each system",
        )
    a, b = (x._stretch((*batch, *x.shape[-2:])) for x in (a, right))
    x = _substituted(a, b, upper=upper, unit=unitriangular)
    return (x if left else x.mT).cast(A.dtype)


# -- positive definite matrices --------------------------------------------------------------------


@algebra
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """Return the lower triangle L with A = L Lᵀ, or with `upper` its transpose.

    >>> y = ll.linalg.cholesky(cx.tensor((2, 2)).set([[4, 2], [2, 5]])).retrieve()
    >>> cx.execute()
    >>> y.tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    a = _matrix("cholesky", A)
    rows, columns = _places(a)
    # Both triangles hold the same values, and share the gradient.
    a, factor = (a + a.mT) * 0.5, a.full_like(0.0)
    for k in range(_size(a, -1)):
        root = a.narrow(-2, k, 1).narrow(-1, k, 1).sqrt()
        column = (rows < k).where(0.0, a.narrow(-1, k, 1) * root.recip())  # [..., n, 1]
        factor = columns.eq(k).where(column, factor)
        inner = (rows > k) & (columns > k)
        a = inner.where(a - column * column.mT, a)
    return (factor.mT if upper else factor).cast(A.dtype)


@algebra
def cholesky_ex(
    A: Tensor, *, upper: bool = False, check_errors: bool = False
) -> tuple[Tensor, Tensor]:
    """Return `cholesky`, and for each matrix 0, or the first step that has no root from 1 on.

    >>> factor, info = ll.linalg.cholesky_ex(cx.tensor((1, 1)).set([[-1]]))
    >>> y = info.retrieve()
    >>> cx.execute()
    >>> y.item()
    1
    """
    if check_errors:
        _info("cholesky_ex", A, check_errors)
    factor = cholesky(A, upper=upper)
    wrong = (_diagonal(factor) > 0).logical_not()
    if A.shape[-1] == 0:
        return factor, factor.constant(0, DType.int32, A.shape[:-2])
    info = wrong.any(-1).where(wrong.argmax(-1) + 1, 0)
    return factor, info.cast(DType.int32)


@algebra
def cholesky_solve(B: Tensor, L: Operand, upper: bool = False) -> Tensor:
    """Return the solution X of L Lᵀ X = B, or with `upper` of Lᵀ L X = B.

    >>> y = ll.linalg.cholesky_solve(cx.ones((1, 1)), [[2.0]]).retrieve()
    >>> cx.execute()
    >>> y.tolist()
    [[0.25]]
    """
    factor = B._tensor_of(L)
    low = factor.mT if upper else factor
    half = solve_triangular(low, B, upper=False)
    return solve_triangular(low.mT, half, upper=True)


@algebra
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """Return the inverse of L Lᵀ, or with `upper` of Lᵀ L.

    >>> y = ll.linalg.cholesky_inverse(cx.full((1, 1), 2.0)).retrieve()
    >>> cx.execute()
    >>> y.tolist()
    [[0.25]]
    """
    return cholesky_solve(_identity(_matrix("cholesky_inverse", L)).cast(L.dtype), L, upper)


# -- reflections -----------------------------------------------------------------------------------


@algebra
def geqrf(A: Tensor) -> tuple[Tensor, Tensor]:
    """Return R above the diagonal and the vectors of reflections below it, and their factors.

    >>> a, tau = ll.linalg.geqrf(cx.tensor((3, 2)))
    >>> a.shape, tau.shape
    ((3, 2), (2,))
    """
    a = _matrix("geqrf", A, square=False)
    rows, columns = _places(a)
    factors: list[Tensor] = []
    for k in range(min(_size(a, -2), _size(a, -1))):
        column = a.narrow(-1, k, 1)  # [..., rows, 1]
        below = rows > k
        rest = below.where(column, 0.0)
        left = (rest * rest).sum(-2, True)
        first = column.narrow(-2, k, 1)
        none = left.eq(0)  # then nothing is reflected
        length = none.where(1.0, first * first + left).sqrt()
        end = (first < 0).where(length, -length)
        vector = below.where(rest * none.where(1.0, first - end).recip(), rows.eq(k).cast(a.dtype))
        tau = none.where(0.0, (end - first) * end.recip())
        factors.append(tau.squeeze(-1))
        turned = a - vector * (tau * (vector.mT.matmul(a)))
        a = ((columns > k) & (rows > k - 1)).where(turned, a)
        a = (columns.eq(k) & below).where(vector, a)
        a = (columns.eq(k) & rows.eq(k)).where(none.where(first, end), a)
    if not factors:
        return a.cast(A.dtype), a.constant(0.0, A.dtype, (*a.shape[:-2], 0))
    return a.cast(A.dtype), a.join("concat", factors, -1).cast(A.dtype)


@algebra
def householder_product(A: Tensor, tau: Operand) -> Tensor:
    """Return the first columns of the product of the reflections that `geqrf` returned.

    >>> a, tau = ll.linalg.geqrf(cx.tensor((3, 2)))
    >>> ll.linalg.householder_product(a, tau).shape
    (3, 2)
    """
    a = _matrix("householder_product", A, square=False)
    rows, columns = _places(a)
    start = rows.eq(columns).cast(a.dtype)._stretch(a.shape)
    return _reflected(a, widened(A._tensor_of(tau)), start, backwards=True).cast(A.dtype)


def _reflected(a: Tensor, tau: Tensor, c: Tensor, *, backwards: bool) -> Tensor:
    """Return reflections applied to a matrix from the left, the last one first if `backwards`."""
    rows, _ = _places(a)
    steps = range(_size(tau, -1))
    for k in reversed(steps) if backwards else steps:
        vector = (rows > k).where(a.narrow(-1, k, 1), rows.eq(k).cast(a.dtype))
        c = c - vector * (tau.narrow(-1, k, 1).unsqueeze(-1) * vector.mT.matmul(c))
    return c


@algebra
def ormqr(
    A: Tensor, tau: Operand, other: Operand, left: bool = True, transpose: bool = False
) -> Tensor:
    """Return Q · other, or other · Q, where Q is the product of the reflections of `geqrf`.

    >>> a, tau = ll.linalg.geqrf(cx.tensor((3, 2)))
    >>> ll.linalg.ormqr(a, tau, cx.ones((3, 4))).shape
    (3, 4)
    """
    a, c = _matrix("ormqr", A, square=False), widened(A._tensor_of(other))
    backwards = left != transpose
    if not left:
        c = c.mT
    result = _reflected(a, widened(A._tensor_of(tau)), c, backwards=backwards)
    return (result if left else result.mT).cast(A.dtype)


@algebra
def qr(A: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """Return Q with orthonormal columns and the upper triangle R, whose product is A.

    The mode is "reduced", "complete" (Q is square) or "r" (Q is empty).

    >>> q, r = ll.linalg.qr(cx.tensor((3, 2)).set([[3, 1], [4, 2], [0, 2]]))
    >>> y = (q @ r).round(4).retrieve()
    >>> cx.execute()
    >>> y.tolist()
    [[3.0, 1.0], [4.0, 2.0], [0.0, 2.0]]
    """
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentError(f"qr: there is no mode {mode!r}", hint="reduced, complete or r")
    a, tau = geqrf(A)
    rows, columns = _size(A, -2), _size(A, -1)
    least = min(rows, columns)
    if mode == "r":
        return a.constant(0.0, A.dtype, (0,)), a.narrow(-2, 0, least).triu()
    wide = rows if mode == "complete" else least
    shape = (*A.shape[:-1], wide)
    unit = a._iota(rows).unsqueeze(1).eq(a._iota(wide)).cast(a.dtype)._stretch(shape)
    q = _reflected(a, tau, unit, backwards=True)
    return q, a.narrow(-2, 0, wide).triu()


# -- powers and products ---------------------------------------------------------------------------


@algebra
def matrix_power(A: Tensor, n: int) -> Tensor:
    """Return a matrix multiplied n times with itself; the power -1 is the inverse.

    >>> y = ll.linalg.matrix_power(cx.tensor((2, 2)).set([[1, 1], [0, 1]]), 3).retrieve()
    >>> cx.execute()
    >>> y.tolist()
    [[1.0, 3.0], [0.0, 1.0]]
    """
    count = whole("matrix_power: n", n)
    a = _matrix("matrix_power", A) if A.dtype.is_float or A.ndim < 2 else A
    if count < 0:
        return matrix_power(inv(A), -count)
    result: Tensor | None = None
    while count:
        if count % 2:
            result = a if result is None else result.matmul(a)
        count //= 2
        a = a.matmul(a) if count else a
    return (_identity(a) if result is None else result).cast(A.dtype)


@algebra
def matrix_exp(A: Tensor) -> Tensor:
    """Return the exponential of a matrix: the sum of all powers Aᵏ / k!.

    >>> y = ll.linalg.matrix_exp(cx.zeros((2, 2))).retrieve()
    >>> cx.execute()
    >>> y.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    a = _matrix("matrix_exp", A)
    if a.shape[-1] == 0:
        return A
    # A is halved until its norm is below 1/2, and the result squared as often.
    size = a.detach().abs().sum(-2, True).amax(-1, True)
    most = 20
    halvings = ((size * 2.0).clip(1.0).log2().ceil()).clip(0.0, most)
    a = a * (-halvings).exp2()
    terms = 18 if a.dtype is DType.float64 else 10
    one = _identity(a)
    result = one + a * (1 / terms)
    for k in reversed(range(1, terms)):
        result = one + a.matmul(result) * (1 / k)
    for k in range(most):
        result = (halvings > k).where(result.matmul(result), result)
    return result.cast(A.dtype)


@algebra
def vecdot(x: Tensor, y: Operand, *, dim: int = -1) -> Tensor:
    """Return the inner products along an axis.

    >>> y = ll.linalg.vecdot(cx.arange(4).reshape(2, 2), [1, 1]).retrieve()
    >>> cx.execute()
    >>> y.tolist()
    [1, 5]
    """
    product = x * x._tensor_of(y)
    return product.sum(dim, dtype=product.dtype)


@algebra
def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Return the powers 0 to N - 1 of each value along a new last axis.

    >>> y = ll.linalg.vander(cx.arange(1, 4), N=3).retrieve()
    >>> cx.execute()
    >>> y.tolist()
    [[1, 1, 1], [1, 2, 4], [1, 3, 9]]
    """
    x = x.atleast_1d()
    count = _size(x, -1) if N is None else whole("vander: N", N, 1)
    wide = x if x.dtype.is_float else x.cast(DType.int64)
    powers = [wide.full_like(1)]
    for _ in range(1, count):
        powers.append(powers[-1] * wide)
    return wide.join("stack", powers, -1)


@algebra
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """Return the inverse of a tensor whose first `ind` axes are the rows of a matrix.

    >>> ll.linalg.tensorinv(cx.tensor((4, 2, 2)), ind=1).shape
    (2, 2, 4)
    """
    count = whole("tensorinv: ind", ind, 1)
    rows, columns = A.shape[:count], A.shape[count:]
    size = reduce(lambda a, b: a * b, rows, 1)
    flat = A.reshape(size, -1)
    return inv(flat).reshape(*columns, *rows)


@algebra
def tensorsolve(A: Tensor, B: Operand, dims: Sequence[int] | None = None) -> Tensor:
    """Return the solution X of tensordot(A, X) = B; the axes `dims` of A are moved to its end.

    >>> ll.linalg.tensorsolve(cx.tensor((2, 3, 6)), cx.tensor((2, 3))).shape
    (6,)
    """
    a, right = A, A._tensor_of(B)
    if dims is not None:
        moved = [a._axis_of("tensorsolve", axis) for axis in dims]
        a = a.permute([k for k in range(a.ndim) if k not in moved] + moved)
    shape = a.shape[right.ndim :]
    size = reduce(lambda a, b: a * b, shape, 1)
    return solve(a.reshape(-1, size), right.flatten()).reshape(*shape)


# -- norms -----------------------------------------------------------------------------------------


@algebra
def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: Axis = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Return the norm of vectors along axes, by default of all elements.

    >>> y = ll.linalg.vector_norm(cx.tensor((2,)).set([3, 4])).retrieve()
    >>> cx.execute()
    >>> y.item()
    5.0
    """
    return (x if dtype is None else x.cast(dtype)).norm(ord, dim, keepdim)


@algebra
def matrix_norm(
    A: Tensor,
    ord: float | str = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Return the norm of matrices: "fro", or the largest or least sum of columns or rows.

    The sums are of columns for 1 and -1, and of rows for infinity and minus infinity. The norms
    2, -2 and "nuc" are of singular values, and refused.

    >>> y = ll.linalg.matrix_norm(cx.tensor((2, 2)).set([[1, -2], [3, 4]]), 1).retrieve()
    >>> cx.execute()
    >>> y.item()
    6.0
    """
    x = A if dtype is None else A.cast(dtype)
    first, second = (x._axis_of("matrix_norm", axis) for axis in dim)
    if ord == "fro":
        return x.norm(2, (first, second), keepdim)
    if ord not in (1, -1, math.inf, -math.inf):
        raise ArgumentError(
            f"matrix_norm: the norm {ord!r} takes singular values, which need an iteration",
            hint='it is "fro", 1, -1, inf or -inf',
        )
    assert isinstance(ord, (int, float))
    along, over = (first, second) if abs(ord) == 1 else (second, first)
    sums = x.abs().sum(along, True)
    result = sums.amax(over, True) if ord > 0 else sums.amin(over, True)
    return result if keepdim else result.squeeze((first, second))


@algebra
def norm(
    A: Tensor,
    ord: float | str | None = None,
    dim: Axis = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Return the norm of vectors, or of matrices for two axes, or a matrix and an order.

    >>> y = ll.linalg.norm(cx.tensor((2, 2)).set([[1, 1], [1, 1]])).retrieve()
    >>> cx.execute()
    >>> y.item()
    2.0
    """
    axes = dim if dim is None or isinstance(dim, int) else tuple(dim)
    if axes is None and ord is not None and A.ndim == 2:
        axes = (0, 1)
    if ord is None:
        return vector_norm(A, 2, axes, keepdim, dtype=dtype)
    if isinstance(axes, tuple) and len(axes) == 2:
        return matrix_norm(A, ord, axes, keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise ArgumentError(
            f"norm: {ord!r} is a norm of matrices", hint="name two axes, as in dim=(-2, -1)"
        )
    return vector_norm(A, ord, axes, keepdim, dtype=dtype)
