"""Transformers: encoder and decoder layers, their stacks, and both together, as in PyTorch.

The axes are [batch, seq, features]; a mask of bools is True where a key is seen. Names of weights
are PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias

from typing_extensions import override

from luminal_lab.core.dtypes import DTypeLike
from luminal_lab.core.op import ints
from luminal_lab.errors import ArgumentError, nearest
from luminal_lab.nn.arguments import at_user
from luminal_lab.nn.attention import MultiheadAttention
from luminal_lab.nn.cache import KVCache
from luminal_lab.nn.dropout import Dropout
from luminal_lab.nn.init import xavier_uniform
from luminal_lab.nn.linear import Linear
from luminal_lab.nn.module import Module
from luminal_lab.nn.norm import LayerNorm
from luminal_lab.nn.rope import RotaryEmbedding
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import is_function
from luminal_lab.tensor.movement import limited, whole
from luminal_lab.tensor.parameter import Parameter

Activation: TypeAlias = str | Callable[[Tensor], Tensor]
"""The name of an operation without arguments, such as "gelu", or a function."""


def activation_of(given: Activation) -> Callable[[Tensor], Tensor]:
    """Return an activation as a function."""
    if is_function(given):
        return given
    if not hasattr(Tensor, given):
        raise at_user(
            ArgumentError(
                f"activation: tensors have no {given!r}",
                hint=nearest(given, dir(Tensor)) or 'use "relu", "gelu", or a function of a tensor',
            )
        )
    return lambda x: getattr(x, given)()


class TransformerLayer(Module):
    """The base of encoder and decoder layers: residuals, norms and the feed-forward part."""

    crosses: ClassVar[bool] = False
    """Whether there is an attention to an encoder's result."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        norm_first: bool = False,
        bias: bool = True,
        *,
        num_kv_heads: int | None = None,
        rope: RotaryEmbedding | None = None,
        dtype: DTypeLike = "float32",
    ) -> None:
        self.activation = activation_of(activation)
        self.norm_first = norm_first
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, num_kv_heads=num_kv_heads, rope=rope, dtype=dtype
        )
        if self.crosses:
            self.multihead_attn = MultiheadAttention(
                d_model, nhead, dropout, bias, num_kv_heads=num_kv_heads, dtype=dtype
            )
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, dtype=dtype)
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
        if self.crosses:
            self.norm3 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)

    def around(self, x: Tensor, norm: LayerNorm, part: Callable[[Tensor], Tensor]) -> Tensor:
        """Return x plus a part's result, with the norm before the part or after the sum.

        >>> layer = ll.nn.TransformerEncoderLayer(8, 2)
        >>> layer.around(cx.tensor((5, 8)), layer.norm1, ll.nn.ReLU()).shape
        (5, 8)
        """
        if self.norm_first:
            return x + self.dropout(part(norm(x)))
        return norm(x + self.dropout(part(x)))

    def feed(self, x: Tensor) -> Tensor:
        """Return the feed-forward part's result for each position.

        >>> layer = ll.nn.TransformerEncoderLayer(8, 2, dim_feedforward=32)
        >>> layer.feed(cx.tensor((5, 8))).shape
        (5, 8)
        """
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    @override
    def options(self) -> str:
        return "norm_first" if self.norm_first else ""


class TransformerEncoderLayer(TransformerLayer):
    """Self-attention and a feed-forward part, each with a residual and a norm.

    With `is_causal` and a cache it is also the block of a decoder-only model.

    >>> from luminal_lab.session import Graph
    >>> x = Graph().tensor(("batch", "seq", 64))
    >>> TransformerEncoderLayer(64, 4, activation="gelu", norm_first=True)(x).shape
    (batch, seq, 64)
    """

    @override
    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        is_causal: bool = False,
        cache: KVCache | None = None,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self.self_attn(x, mask=mask, is_causal=is_causal, cache=cache)

        return self.around(self.around(x, self.norm1, attend), self.norm2, self.feed)


class TransformerDecoderLayer(TransformerLayer):
    """Self-attention, attention to the encoder's result, and a feed-forward part.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> layer = nn.TransformerDecoderLayer(8, 2, dim_feedforward=16)
    >>> layer(cx.tensor((1, 5, 8)), cx.tensor((1, 7, 8))).shape
    (1, 5, 8)
    """

    crosses: ClassVar[bool] = True

    @override
    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        is_causal: bool = False,
        cache: KVCache | None = None,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self.self_attn(x, mask=mask, is_causal=is_causal, cache=cache)

        def look(x: Tensor) -> Tensor:
            return self.multihead_attn(x, memory, mask=memory_mask)

        x = self.around(x, self.norm1, attend)
        x = self.around(x, self.norm2, look)
        return self.around(x, self.norm3, self.feed)


class TransformerEncoder(Module):
    """Encoder layers one after the other, and perhaps a last norm.

    >>> from luminal_lab.session import Graph
    >>> encoder = TransformerEncoder([TransformerEncoderLayer(32, 4) for _ in range(3)])
    >>> encoder(Graph().tensor((1, 5, 32))).shape
    (1, 5, 32)
    """

    def __init__(
        self, layers: Sequence[TransformerEncoderLayer], norm: Module | None = None
    ) -> None:
        self.layers = list(layers)
        self.norm = norm

    @override
    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        is_causal: bool = False,
        cache: KVCache | None = None,
    ) -> Tensor:
        for layer in self.layers:
            x = layer(x, mask, is_causal, cache)
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """Decoder layers one after the other, and perhaps a last norm.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> layers = [nn.TransformerDecoderLayer(8, 2, dim_feedforward=16) for _ in range(2)]
    >>> nn.TransformerDecoder(layers)(cx.tensor((1, 5, 8)), cx.tensor((1, 7, 8))).shape
    (1, 5, 8)
    """

    def __init__(
        self, layers: Sequence[TransformerDecoderLayer], norm: Module | None = None
    ) -> None:
        self.layers = list(layers)
        self.norm = norm

    @override
    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        is_causal: bool = False,
        cache: KVCache | None = None,
    ) -> Tensor:
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask, is_causal, cache)
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """An encoder, and a decoder that attends to the encoder's result.

    >>> from luminal_lab.session import Graph
    >>> cx = Graph()
    >>> source, target = cx.tensor((1, "source", 32)), cx.tensor((1, "target", 32))
    >>> Transformer(32, 4, 2, 2, 64)(source, target, tgt_is_causal=True).shape
    (1, target, 32)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        norm_first: bool = False,
        bias: bool = True,
        *,
        dtype: DTypeLike = "float32",
    ) -> None:
        for count in (num_encoder_layers, num_decoder_layers):
            limited("Transformer", whole("Transformer: the number of layers", count, 0))
        sizes = d_model, nhead, dim_feedforward, dropout
        options = activation, layer_norm_eps, norm_first, bias

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)

        self.encoder = TransformerEncoder(
            [
                TransformerEncoderLayer(*sizes, *options, dtype=dtype)
                for _ in range(num_encoder_layers)
            ],
            norm(),
        )
        self.decoder = TransformerDecoder(
            [
                TransformerDecoderLayer(*sizes, *options, dtype=dtype)
                for _ in range(num_decoder_layers)
            ],
            norm(),
        )
        for module in self.named_modules().values():
            if isinstance(module, Linear):
                shape = ints(module.weight.shape)
                module.weight = Parameter(shape, dtype, init=xavier_uniform)

    @override
    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
    ) -> Tensor:
        memory = self.encoder(src, src_mask)
        return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_is_causal)
