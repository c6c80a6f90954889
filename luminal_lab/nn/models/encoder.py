"""Encoders like BERT: a vector for each token, which has seen all tokens of its text.

    tokens [batch, seq] -> words + positions + kind, norm -> layers -> [batch, seq, width]

How the published families differ is data: `EncoderConfig` here, and in `encoders` the words that
each family's `config.json` has for it, and the names of its weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from typing_extensions import override

from luminal_lab.core.dims import known
from luminal_lab.core.dtypes import DType, DTypeLike
from luminal_lab.errors import DTypeError, ShapeError
from luminal_lab.nn.arguments import at_user, divides, sizes
from luminal_lab.nn.dropout import Dropout
from luminal_lab.nn.embedding import Embedding
from luminal_lab.nn.models.language import draw_as_published
from luminal_lab.nn.module import Module
from luminal_lab.nn.norm import LayerNorm
from luminal_lab.nn.transformer import TransformerEncoder, TransformerEncoderLayer
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Callable

ACTIVATIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "gelu": lambda x: x.gelu(),
    "gelu_new": lambda x: x.gelu("tanh"),
    "gelu_pytorch_tanh": lambda x: x.gelu("tanh"),
    "relu": lambda x: x.relu(),
    "silu": lambda x: x.silu(),
    "swish": lambda x: x.silu(),
    "tanh": lambda x: x.tanh(),
}
"""Activations by the names that configurations have for them."""
FARTHEST: Final = 128
"""The distance from which on all positions share a bucket."""


@dataclass(frozen=True)
class EncoderConfig:
    """The sizes of an encoder, and how its family differs from BERT."""

    layers: int = 12
    heads: int = 12
    width: int = 768
    hidden: int = 3072
    vocab: int = 30522
    positions: int = 512
    """The rows of the table of positions."""
    kinds: int = 2
    """The rows of the table of kinds of tokens, as in BERT's pairs of texts; 0 for no table."""
    activation: str = "gelu"
    eps: float = 1e-12
    offset: int = 0
    """The row of the first position."""
    buckets: int = 0
    """The buckets of distances that have a bias of their own in each head; 0 for none."""
    dropout: float = 0.0

    @property
    def context(self) -> int:
        """The most tokens of a text."""
        return self.positions - self.offset


class Encoder(Module):
    """An encoder like BERT: int64 tokens [batch, seq] become features [batch, seq, width].

    `seen` [batch, seq] is False for padding. `kinds` [batch, seq] are the kinds of tokens, all 0
    unless given. `luminal_lab.load` reads published ones.

    >>> from luminal_lab.nn.models.encoder import EncoderConfig
    >>> from luminal_lab.session import Graph
    >>> config = EncoderConfig(layers=2, heads=2, width=32, hidden=64, vocab=100)
    >>> Encoder(config)(Graph().tensor(("batch", "seq"), "int64")).shape
    (batch, seq, 32)
    """

    def __init__(self, config: EncoderConfig, *, dtype: DTypeLike = "float32") -> None:
        self.config = c = config
        sizes("encoder", layers=c.layers, heads=c.heads, width=c.width, hidden=c.hidden)
        sizes("encoder", vocab=c.vocab, context=c.context)
        divides("encoder", "heads", c.heads, width=c.width)
        self.embeddings = EncoderEmbeddings(c, dtype)
        self.encoder = TransformerEncoder(
            [
                TransformerEncoderLayer(
                    c.width,
                    c.heads,
                    c.hidden,
                    c.dropout,
                    ACTIVATIONS[c.activation],
                    c.eps,
                    dtype=dtype,
                )
                for _ in range(c.layers)
            ]
        )
        self.distances = Embedding(c.buckets, c.heads, dtype=dtype) if c.buckets else None
        draw_as_published(self, c.layers)

    @override
    def forward(
        self, tokens: Tensor, seen: Tensor | None = None, kinds: Tensor | None = None
    ) -> Tensor:
        x = self.embeddings(tokens, kinds)
        return self.encoder(x, self._mask(tokens, seen))

    def _mask(self, tokens: Tensor, seen: Tensor | None) -> Tensor | None:
        """Return what attention may see, or what it adds to its scores."""
        mask = None
        if seen is not None:
            if seen.dtype is not DType.bool_ or seen.shape != tokens.shape:
                raise at_user(
                    DTypeError(
                        f"encoder: seen is {seen.dtype} {seen.shape}, and must be bools of the "
                        f"tokens' shape {tokens.shape}",
                        hint="True where a token is part of the text, as in tokens != padding",
                    )
                )
            mask = seen.unsqueeze(1).unsqueeze(1)  # [batch, 1, 1, seq]
        if self.distances is None:
            return mask
        bias = self._bias(tokens)
        return bias if mask is None else mask.where(bias, float("-inf"))

    def _bias(self, tokens: Tensor) -> Tensor:
        """Return what each head adds for the distance of a query and a key: [1, heads, seq, seq].

        Half of the buckets are for keys behind the query; in each half, the nearest distances have
        one each.
        """
        assert self.distances is not None
        graph, seq = tokens.graph, tokens.shape[-1]
        assert isinstance(graph, Sources)
        steps = graph.arange(seq).unsqueeze(0) - graph.arange(seq).unsqueeze(1)  # key - query
        far, half = steps.abs(), self.config.buckets // 2
        bucket = far.minimum(half // 2)
        for edge in edges(self.config.buckets):
            bucket = bucket + (far >= edge).cast("int64")
        bucket = bucket + (steps > 0).cast("int64") * half
        return self.distances(bucket).permute(2, 0, 1).unsqueeze(0)


class EncoderEmbeddings(Module):
    """The sum of a word, a position and a kind for each token, with a norm."""

    def __init__(self, config: EncoderConfig, dtype: DTypeLike) -> None:
        self.words = Embedding(config.vocab, config.width, dtype=dtype)
        self.positions = Embedding(config.positions, config.width, dtype=dtype)
        self.kinds = Embedding(config.kinds, config.width, dtype=dtype) if config.kinds else None
        self.norm = LayerNorm(config.width, config.eps, dtype=dtype)
        self.drop = Dropout(config.dropout)
        self.offset = config.offset
        self.context = config.context

    @override
    def forward(self, tokens: Tensor, kinds: Tensor | None) -> Tensor:
        seq = tokens.shape[-1]
        if known(seq <= self.context) is False:
            raise at_user(
                ShapeError(
                    f"encoder: {seq} tokens are given, and the context is {self.context}",
                    hint="a learned position is needed for each; shorten the text",
                )
            )
        table = tokens.other("encoder", self.positions.weight)
        x = self.words(tokens) + table.slice_along(0, self.offset, self.offset + seq)
        if self.kinds is not None:
            rows = tokens.other("encoder", self.kinds.weight)
            x = x + (rows.slice_along(0, 0, 1) if kinds is None else self.kinds(kinds))
        return self.drop(self.norm(x))


def edges(buckets: int) -> list[int]:
    """Return the distances at which the buckets begin that hold several of them, but the first.

    Half of a direction's buckets are such; they grow by a factor, up to a distance of 128.

    >>> edges(32)
    [12, 16, 23, 32, 46, 64, 91]
    """
    single, half = buckets // 4, buckets // 2
    far = np.arange(single, FARTHEST + 1)
    # In float32, as where these models were trained: a distance at an edge stays in its bucket.
    share = np.log((far / single).astype(np.float32)) / np.float32(math.log(FARTHEST / single))
    grown = np.minimum((share * np.float32(half - single)).astype(np.int64), half - single - 1)
    return [int(far[0] + np.searchsorted(grown, bucket)) for bucket in range(1, half - single)]
