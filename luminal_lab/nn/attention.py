"""Attention with several heads: shared keys, masks, rotated positions, and a KV cache."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from luminal_lab.core.dims import Dim, known
from luminal_lab.core.dtypes import DType, DTypeLike
from luminal_lab.errors import ArgumentError, DTypeError, ShapeError
from luminal_lab.nn.arguments import at_user, divides, probability, same_size, sizes
from luminal_lab.nn.cache import KVCache
from luminal_lab.nn.init import xavier_uniform, zeros
from luminal_lab.nn.linear import Linear
from luminal_lab.nn.module import Module, snake
from luminal_lab.nn.rope import RotaryEmbedding, Rotation, fixed
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.tensor.sources import Sources

NAMES = "embed_dim", "kdim", "vdim"


class Attention(Module):
    """The base of attentions; a subclass computes the queries, keys and values.

    `width` features are `heads` heads of queries; `kv_heads` heads of keys and values serve
    `heads // kv_heads` heads of queries each.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int | None,
        dropout: float,
        size: int | None = None,
    ) -> None:
        self.heads = heads
        self.kv_heads = heads if kv_heads is None else kv_heads
        self.dropout = dropout
        name = snake(type(self))
        sizes(name, width=width, heads=heads, kv_heads=self.kv_heads)
        if size is None:
            divides(name, "heads", heads, width=width)
        divides(name, "kv_heads", self.kv_heads, heads=heads)
        probability(name, dropout)
        self.size = width // heads if size is None else size
        """The features of one head."""

    def attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        rotation: Rotation | None = None,
        cache: KVCache | None = None,
        window: int | None = None,
        slopes: Sequence[float] = (),
        scale: float | None = None,
        soft_cap: float | None = None,
    ) -> Tensor:
        """Return the values [..., seq, heads · size], mixed by the scores of queries and keys.

        `is_causal` hides the keys after each query. A mask (for padding, say) is True where a key
        may be seen, or is added to the scores [..., heads, seq, keys]. Queries that may see no key
        give 0. With a cache, the keys are those of all positions so far. A causal query sees the
        last `window` positions; a head's slope times their distance is taken from its scores.

        >>> attention = ll.nn.MultiheadAttention(8, 2)
        >>> x = cx.tensor((1, 5, 8))
        >>> attention.attend(x, x, x, is_causal=True).shape
        (1, 5, 8)
        """
        self._check_causal(is_causal, window, slopes)
        given = (query, keys, values)
        q, k, v = (x.unflatten(-1, (-1, self.size)).transpose(-3, -2) for x in given)
        if rotation is not None:
            q, k = rotation.turn(q), rotation.turn(k)
        past: Dim = 0
        if cache is not None:
            past = cache.past
            k, v = cache.extend(self, k, v)
        if mask is not None:
            mask = checked(q.other("attention", mask))
        end = past + q.shape[-2]
        if window is not None and known(end <= window):
            window = None  # it is as wide as the text
        if is_causal and (past != 0 or window is not None or slopes):
            # The last query sees every key within its window, and a single one is the last.
            if q.shape[-2] != 1 or window is not None or slopes:
                mask = seen_from(past, q, mask, window, slopes)
            is_causal = False
        mixed = q.scaled_dot_product_attention(
            k,
            v,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=is_causal,
            scale=scale,
            enable_gqa=self.heads != self.kv_heads,
            soft_cap=soft_cap,
        )
        return mixed.transpose(-3, -2).flatten(-2)

    def _check_causal(self, is_causal: bool, window: int | None, slopes: Sequence[float]) -> None:
        """Raise unless a window and slopes are of causal queries, and fit."""
        if window is not None:
            sizes("attention", window=window)
        if len(slopes) not in (0, self.heads):
            raise at_user(
                ShapeError(
                    f"attention: {len(slopes)} slopes are given for {self.heads} heads",
                    hint="give one for each head",
                )
            )
        if not is_causal and (window is not None or slopes):
            raise at_user(
                ArgumentError(
                    "attention: a window and slopes count positions before each query, and "
                    "is_causal is False",
                    hint="give is_causal=True, or say what is seen by a mask",
                )
            )


def seen_from(
    past: Dim,
    query: Tensor,
    mask: Tensor | None,
    window: int | None = None,
    slopes: Sequence[float] = (),
) -> Tensor:
    """Return a mask by which queries, from position `past` on, see earlier positions."""
    graph, count = query.graph, query.shape[-2]
    assert isinstance(graph, Sources)
    ends = graph.arange(past + 1, past + count + 1).unsqueeze(1)
    keys = graph.arange(past + count)
    seen = keys < ends  # [seq, past + seq]
    if window is not None:
        seen = seen & (keys >= ends - window)
    if slopes:  # [heads, seq, past + seq]
        far = (keys + 1 - ends).cast(query.dtype) * fixed(graph, slopes).reshape(-1, 1, 1)
        if mask is not None:
            far = mask.where(far, float("-inf")) if mask.dtype is DType.bool_ else far + mask
        mask = far
    if mask is None:
        return seen
    return mask & seen if mask.dtype is DType.bool_ else seen.where(mask, float("-inf"))


def checked(mask: Tensor) -> Tensor:
    """Return a mask of bools or of numbers to add to scores, or raise."""
    if mask.dtype.kind == "int":
        raise at_user(
            DTypeError(
                f"attention: the mask {mask.label} is {mask.dtype}",
                hint="make it bools, True where a key is seen, as in mask != 0",
            )
        )
    return mask


class MultiheadAttention(Attention):
    """Attention of `embed_dim` features in `num_heads` heads, with the weights of PyTorch's.

    The axes are [batch, seq, features]. For a causal model give `is_causal=True`; for padding, a
    mask [batch, 1, 1, keys] that is True where a key may be seen: the opposite of PyTorch's
    `key_padding_mask`. Unlike PyTorch's, it returns no weights.

    >>> from luminal_lab.session import Graph
    >>> x = Graph().tensor(("batch", "seq", 64))
    >>> MultiheadAttention(64, 8, num_kv_heads=2)(x, is_causal=True).shape
    (batch, seq, 64)
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        *,
        num_kv_heads: int | None = None,
        rope: RotaryEmbedding | None = None,
        dtype: DTypeLike = "float32",
    ) -> None:
        super().__init__(embed_dim, num_heads, num_kv_heads, dropout)
        if rope is not None and rope.size != self.size:
            raise at_user(
                ShapeError(
                    f"multihead_attention: the rope turns {rope.size} features, and a head has "
                    f"{self.size}",
                    hint=f"use RotaryEmbedding({self.size})",
                )
            )
        self.rope = rope
        shared = self.kv_heads * self.size
        self.features = [embed_dim, kdim or embed_dim, vdim or embed_dim]
        """The features of the given query, key and value."""
        self.parts = [embed_dim, shared, shared]
        """The features of the projected queries, keys and values."""
        if self.features == [embed_dim] * 3:
            shape = (sum(self.parts), embed_dim)
            self.in_proj_weight = Parameter(shape, dtype, init=xavier_uniform)
        else:
            self.q_proj_weight, self.k_proj_weight, self.v_proj_weight = (
                Parameter((out, size), dtype, init=xavier_uniform)
                for out, size in zip(self.parts, self.features, strict=True)
            )
        self.in_proj_bias = Parameter((sum(self.parts),), dtype, init=zeros) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, dtype=dtype)
        if bias:
            self.out_proj.bias = Parameter((embed_dim,), dtype, init=zeros)

    @override
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        cache: KVCache | None = None,
    ) -> Tensor:
        key = query if key is None else key
        value = key if value is None else value
        for x, size, name in zip((query, key, value), self.features, NAMES, strict=True):
            same_size("multihead_attention", x, -1, size, name)
        q, k, v = self._projected([query, key, value])
        rotation = None
        if self.rope is not None:
            if key is not query:
                raise at_user(
                    ArgumentError(
                        "multihead_attention: it has a rope, but queries and keys are two tensors",
                        hint="positions are rotated in self-attention; use another for this",
                    )
                )
            past = 0 if cache is None else cache.past
            rotation = self.rope.rotation(query.graph, query.shape[-2], past)
        mixed = self.attend(q, k, v, mask=mask, is_causal=is_causal, rotation=rotation, cache=cache)
        return self.out_proj(mixed)

    def _projected(self, given: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return queries, keys and values: by a single product if they share a source."""
        x, packed = given[0], "in_proj_weight" in vars(self)
        if packed and all(y is x for y in given):
            return x.linear(self.in_proj_weight, self.in_proj_bias).split(self.parts, -1)
        if packed:
            weights = x.other("attention", self.in_proj_weight).split(self.parts)
        else:
            weights = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        bias = self.in_proj_bias
        biases = [None] * 3 if bias is None else x.other("attention", bias).split(self.parts)
        return [y.linear(w, b) for y, w, b in zip(given, weights, biases, strict=True)]

    @override
    def matrices(self) -> Sequence[Parameter]:
        if "in_proj_weight" in vars(self):
            return (self.in_proj_weight,)
        return self.q_proj_weight, self.k_proj_weight, self.v_proj_weight

    @override
    def options(self) -> str:
        heads = f"{self.heads} heads" + f" over {self.kv_heads}" * (self.kv_heads != self.heads)
        return f"{self.parts[0]}, {heads}"
