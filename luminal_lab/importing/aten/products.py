"""Sums of products: matrices, einsum, attention."""

from __future__ import annotations

from collections.abc import Sequence

from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Scalar
from luminal_lab.importing.aten.table import aten, methods
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.product import einsum as einsum_of

methods("mm bmm mv dot vdot=dot matmul linear outer inner kron addmm bilinear")


@aten("baddbmm")
def baddbmm(x: Tensor, left: Tensor, right: Tensor, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """Return beta · x plus alpha times the products of two batches of matrices."""
    product = left.bmm(right) * alpha if alpha != 1 else left.bmm(right)
    return product if beta == 0 else x * beta + product


@aten("addmv")
def addmv(x: Tensor, mat: Tensor, vec: Tensor, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """Return beta · x plus alpha times a matrix times a vector."""
    return x * beta + mat.mv(vec) * alpha


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


@aten("_grouped_mm", "_grouped_mm_plain")
def grouped_mm(
    x: Tensor,
    weights: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: DType | None = None,
) -> Tensor:
    """Return the product of each row of x with the matrix of its group; offs are their ends."""
    if offs is None:
        return x.bmm(weights)
    rows = x.graph.arange(x.shape[0])  # pyright: ignore[reportAttributeAccessIssue]  # a graph of sources
    group = (rows.unsqueeze(1) >= offs.unsqueeze(0)).cast(DType.int64).sum(1)
    group = group.clip(0, weights.shape[0] - 1)
    return (x.unsqueeze(1) @ weights.index_select(0, group)).squeeze(1)
