"""Llama: a decoder with rotary positions, whose weights have the names of the published files.

`model.embed_tokens.weight`, `model.layers.0.self_attn.q_proj.weight`, …, `lm_head.weight`: what
Hugging Face's files hold, in their layout [out, in] and their order of features within a head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from typing_extensions import override

from luminal_lab.core.dtypes import DTypeLike
from luminal_lab.nn.arguments import divides, sizes
from luminal_lab.nn.cache import KVCache
from luminal_lab.nn.linear import Linear
from luminal_lab.nn.models.decoder import (
    AttentionConfig,
    DecoderConfig,
    DecoderStack,
    FeedConfig,
    LayerConfig,
    NormConfig,
    RopeConfig,
)
from luminal_lab.nn.models.language import config_of, draw_as_published
from luminal_lab.nn.module import Module
from luminal_lab.nn.rope import Llama3Scaling
from luminal_lab.tensor import Tensor


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes of a Llama."""

    layers: int
    heads: int
    width: int
    kv_heads: int | None = None
    """Heads of keys and values; by default as many as of queries."""
    hidden: int | None = None
    """Features within the feed-forward part; by default 8/3 of the width, rounded up to 256s."""
    vocab: int = 32_000
    context: int = 4096
    base: float = 10_000.0
    eps: float = 1e-5
    tied: bool = False
    """Whether the head is the embedding."""
    scaling: Llama3Scaling | None = None

    @property
    def features(self) -> int:
        """The features within the feed-forward part."""
        return self.hidden or -(-8 * self.width // 3 // 256) * 256


LLAMA_3 = LlamaConfig(32, 32, 4096, 8, 14_336, 128_256, 8192, 500_000.0)
LLAMA_3_70B = replace(LLAMA_3, layers=80, heads=64, width=8192, hidden=28_672)
LLAMA_3_1 = replace(LLAMA_3, context=131_072, scaling=Llama3Scaling(8.0))
LLAMA_3_1_70B = replace(LLAMA_3_70B, context=131_072, scaling=Llama3Scaling(8.0))
LLAMA_3_2 = replace(LLAMA_3, hidden=8192, context=131_072, tied=True, scaling=Llama3Scaling(32.0))
SMOL = LlamaConfig(30, 9, 576, 3, 1536, 49_152, 8192, 100_000.0, tied=True)
PUBLISHED = {
    "llama-2-7b": LlamaConfig(32, 32, 4096),
    "llama-2-13b": LlamaConfig(40, 40, 5120),
    "llama-2-70b": LlamaConfig(80, 64, 8192, 8, 28_672),
    "llama-3-8b": LLAMA_3,
    "llama-3-70b": LLAMA_3_70B,
    "llama-3.1-8b": LLAMA_3_1,
    "llama-3.1-70b": LLAMA_3_1_70B,
    "llama-3.1-405b": replace(LLAMA_3_1, layers=126, heads=128, width=16_384, hidden=53_248),
    "llama-3.2-1b": replace(LLAMA_3_2, layers=16, width=2048),
    "llama-3.2-3b": replace(LLAMA_3_2, layers=28, heads=24, width=3072),
    "llama-3.3-70b": LLAMA_3_1_70B,
    "tinyllama": LlamaConfig(22, 32, 2048, 4, 5632, context=2048),
    "smollm2-135m": SMOL,
    "smollm2-360m": replace(SMOL, layers=32, heads=15, width=960, kv_heads=5, hidden=2560),
}


class Llama(Module):
    """Llama: int64 tokens [batch, seq] become logits [batch, seq, vocab].

    Missing settings are those of the published model of that name.

    >>> from luminal_lab.session import Graph
    >>> tokens = Graph().tensor(("batch", "seq"), "int64")
    >>> Llama("llama-3.2-1b")(tokens).shape
    (batch, seq, 128256)
    >>> Llama(layers=2, heads=4, kv_heads=2, width=64, hidden=128, vocab=100)(tokens).shape
    (batch, seq, 100)
    """

    def __init__(
        self,
        name: str = "llama-2-7b",
        *,
        layers: int | None = None,
        heads: int | None = None,
        width: int | None = None,
        kv_heads: int | None = None,
        hidden: int | None = None,
        vocab: int | None = None,
        context: int | None = None,
        base: float | None = None,
        eps: float | None = None,
        tied: bool | None = None,
        scaling: Llama3Scaling | None = None,
        dtype: DTypeLike = "float32",
    ) -> None:
        counts = {"layers": layers, "heads": heads, "width": width, "kv_heads": kv_heads}
        counts |= {"hidden": hidden, "vocab": vocab, "context": context}
        kinds = {"base": base, "eps": eps, "tied": tied, "scaling": scaling}
        self.config = c = config_of("llama", name, PUBLISHED, {**counts, **kinds})
        sizes("llama", layers=c.layers, width=c.width, vocab=c.vocab, context=c.context)
        self.model = DecoderStack(_decoder(c), dtype)
        self.lm_head = Linear(c.width, c.vocab, bias=False, dtype=dtype)
        draw_as_published(self, c.layers)
        if c.tied:
            self.lm_head.weight = self.model.embed_tokens.weight

    @override
    def forward(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        return self.lm_head(self.model(tokens, cache))


def _decoder(c: LlamaConfig) -> DecoderConfig:
    """Return a Llama among the decoders: norms before both parts, and all positions turned."""
    shared = c.heads if c.kv_heads is None else c.kv_heads
    sizes("llama", heads=c.heads, kv_heads=shared)
    divides("llama", "heads", c.heads, width=c.width)
    divides("llama", "kv_heads", shared, heads=c.heads)
    size, norm = c.width // c.heads, NormConfig(eps=c.eps)
    rope = RopeConfig(size, c.base, scaling=c.scaling)
    attention = AttentionConfig(c.heads, shared, size, rope=rope)
    feed = FeedConfig(c.features)
    layer = LayerConfig(attention, feed, before_attention=norm, before_feed=norm)
    return DecoderConfig(c.vocab, c.width, (layer,) * c.layers, norm, c.context, c.tied)
