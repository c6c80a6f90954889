"""Whole layers, which PyTorch's transformers call as single ops where nothing is trained."""

from __future__ import annotations

from luminal_lab.importing.aten.table import aten
from luminal_lab.tensor import Tensor

OF_KEYS = 1
"""The type of a mask that has a row for each sample; others have one for each query."""


@aten("_native_multi_head_attention")
def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return attention of several heads with its projections, and the weights of its sums."""
    weights, biases = qkv_weight.chunk(3, 0), qkv_bias.chunk(3, 0)
    q, k, v = (
        given.linear(weight, bias).unflatten(-1, (num_head, -1)).transpose(1, 2)
        for given, weight, bias in zip((query, key, value), weights, biases, strict=True)
    )
    kept = None
    if mask is not None:
        kept = mask.eq(0)
        kept = kept[:, None, None, :] if mask_type == OF_KEYS else kept
    out = q.scaled_dot_product_attention(k, v, kept)
    out = out.transpose(1, 2).flatten(2).linear(proj_weight, proj_bias)
    if not need_weights:
        return out, query.full_like(0.0).flatten()[:0]
    scores = q @ k.transpose(-1, -2) * (embed_dim // num_head) ** -0.5
    shares = (scores if kept is None else kept.where(scores, float("-inf"))).softmax(-1)
    return out, shares.mean(1) if average_attn_weights else shares


@aten("_transformer_encoder_layer_fwd")
def encoder_layer(
    x: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """Return attention and a feed-forward network, each with a norm and added to its input."""

    def attended(x: Tensor) -> Tensor:
        projections = qkv_weight, qkv_bias, proj_weight, proj_bias
        return multi_head_attention(
            x, x, x, embed_dim, num_heads, *projections, mask, False, True, mask_type
        )[0]

    def fed(x: Tensor) -> Tensor:
        inner = x.linear(ffn_weight_1, ffn_bias_1)
        return (inner.gelu() if use_gelu else inner.relu()).linear(ffn_weight_2, ffn_bias_2)

    def first(x: Tensor) -> Tensor:
        return x.layer_norm(-1, eps, norm_weight_1, norm_bias_1)

    def second(x: Tensor) -> Tensor:
        return x.layer_norm(-1, eps, norm_weight_2, norm_bias_2)

    if norm_first:
        x = x + attended(first(x))
        return x + fed(second(x))
    x = first(x + attended(x))
    return second(x + fed(x))
