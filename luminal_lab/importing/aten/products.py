"""Sums of products: matrices, einsum, attention."""

from __future__ import annotations

from collections.abc import Sequence

from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Scalar
from luminal_lab.importing.aten.table import aten, methods, source
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.product import einsum as einsum_of
from luminal_lab.tensor.sources import Sources

methods("mm bmm mv dot vdot=dot matmul linear outer inner kron bilinear")


@aten("baddbmm")
def baddbmm(x: Tensor, left: Tensor, right: Tensor, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """Return beta · x plus alpha times the products of two batches of matrices."""
    return _plus(x, left.bmm(right), beta, alpha)


@aten("addmm")
def addmm(x: Tensor, left: Tensor, right: Tensor, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """Return beta · x plus alpha times the product of two matrices."""
    return _plus(x, left.mm(right), beta, alpha)


@aten("addmv")
def addmv(x: Tensor, mat: Tensor, vec: Tensor, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """Return beta · x plus alpha times a matrix times a vector."""
    return _plus(x, mat.mv(vec), beta, alpha)


def _plus(x: Tensor, product: Tensor, beta: Scalar, alpha: Scalar) -> Tensor:
    """Return beta · x + alpha · product, in the dtype of the product."""
    b, a = ((n if product.dtype.is_float else int(n)) for n in (beta, alpha))  # pyright: ignore[reportArgumentType]  # numbers
    product = product if a == 1 else product * a
    return product if b == 0 else (x if b == 1 else x * b) + product


@aten("einsum")
def einsum(equation: str, tensors: Sequence[Tensor], path: object = None) -> Tensor:
    """Return sums of products by their indices."""
    return einsum_of(equation, *tensors)


@aten("scaled_dot_product_attention")
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return softmax(query · keyᵀ · scale) · value."""
    return query.scaled_dot_product_attention(
        key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
    )


@source("_grouped_mm", "transformers.grouped_mm_fallback.default:")
def grouped_mm(
    graph: Sources,
    x: Tensor,
    weights: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: DType | None = None,
) -> Tensor:
    """Return the product of each row of x with the matrix of its group; offs are their ends."""
    if offs is None or x.ndim != 2 or weights.ndim != 3:
        return x.bmm(weights)
    count, rows = weights.shape[0], x.shape[0]
    group = (graph.arange(rows).unsqueeze(1) >= offs.unsqueeze(0)).cast(DType.int64).sum(1)
    if isinstance(rows, int) and isinstance(count, int) and rows <= count:
        chosen = weights.index_select(0, group.clip(0, count - 1))
        product = (x.unsqueeze(1) @ chosen).squeeze(1)
        return (group < count).unsqueeze(1).where(product, 0)
    # More rows than matrices: a copy of a matrix for each row would be larger than all of them.
    own = graph.arange(count).unsqueeze(1).eq(group).unsqueeze(-1)
    return own.where(x, 0).bmm(weights).sum(0)
