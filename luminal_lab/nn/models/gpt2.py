"""GPT-2: a decoder with learned positions, whose weights have the names of the published files.

`wte.weight`, `wpe.weight`, `h.0.ln_1.weight`, `h.0.attn.c_attn.weight`, …, `ln_f.bias`: what the
safetensors files of openai-community/gpt2 hold, in their layout [in, out]. Those files hold masks
too, and the state of a Hugging Face `GPT2LMHeadModel` has a prefix and a head; `published` leaves
such things out: `model.load_state_dict(published(safetensors.numpy.load_file(path)))`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from typing_extensions import override

from luminal_lab.core.dims import Dim, known
from luminal_lab.core.dtypes import DTypeLike
from luminal_lab.errors import ShapeError
from luminal_lab.nn.arguments import at_user, sizes
from luminal_lab.nn.attention import Attention
from luminal_lab.nn.cache import KVCache
from luminal_lab.nn.dropout import Dropout
from luminal_lab.nn.embedding import Embedding
from luminal_lab.nn.linear import Linear
from luminal_lab.nn.models.language import config_of, draw_as_published
from luminal_lab.nn.module import Module
from luminal_lab.nn.norm import LayerNorm
from luminal_lab.tensor import Tensor

V = TypeVar("V")


@dataclass(frozen=True)
class GPT2Config:
    """The sizes of a GPT-2."""

    layers: int = 12
    heads: int = 12
    width: int = 768
    vocab: int = 50257
    context: int = 1024


PUBLISHED = {
    "gpt2": GPT2Config(),
    "gpt2-medium": GPT2Config(24, 16, 1024),
    "gpt2-large": GPT2Config(36, 20, 1280),
    "gpt2-xl": GPT2Config(48, 25, 1600),
}


class GPT2(Module):
    """GPT-2: int64 tokens [batch, seq] become logits [batch, seq, vocab].

    Missing settings are those of the published model of that name.

    >>> from luminal_lab.session import Graph
    >>> tokens = Graph().tensor(("batch", "seq"), "int64")
    >>> GPT2("gpt2")(tokens).shape
    (batch, seq, 50257)
    >>> GPT2(layers=2, heads=2, width=64, vocab=100, context=64)(tokens).shape
    (batch, seq, 100)
    """

    def __init__(
        self,
        name: str = "gpt2",
        *,
        layers: int | None = None,
        heads: int | None = None,
        width: int | None = None,
        vocab: int | None = None,
        context: int | None = None,
        dropout: float = 0.0,
        dtype: DTypeLike = "float32",
    ) -> None:
        changes = {"layers": layers, "heads": heads, "width": width}
        changes |= {"vocab": vocab, "context": context}
        self.config = c = config_of("gpt2", name, PUBLISHED, changes)
        sizes("gpt2", layers=c.layers, width=c.width, vocab=c.vocab, context=c.context)
        self.wte = Embedding(c.vocab, c.width, dtype=dtype)
        self.wpe = Embedding(c.context, c.width, dtype=dtype)
        self.drop = Dropout(dropout)
        self.h = [GPT2Block(c.width, c.heads, dropout, dtype) for _ in range(c.layers)]
        self.ln_f = LayerNorm(c.width, dtype=dtype)
        draw_as_published(self, c.layers, residual="c_proj")

    @override
    def forward(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        past = 0 if cache is None else cache.past
        end = past + tokens.shape[-1]
        self._check_context(end, cache)
        positions = tokens.other("gpt2", self.wpe.weight).slice_along(0, past, end)
        x = self.drop(self.wte(tokens) + positions)
        for block in self.h:
            x = block(x, cache)
        return self.wte.head(self.ln_f(x))

    def _check_context(self, end: Dim, cache: KVCache | None) -> None:
        context = self.config.context
        too_many = end if cache is None else cache.capacity
        if known(too_many <= context) is False:
            what = "tokens are given" if cache is None else "positions are in the cache"
            raise at_user(
                ShapeError(
                    f"gpt2: {too_many} {what}, and the context is {context}",
                    hint="a learned position is needed for each; give the model a larger context",
                )
            )


class GPT2Block(Module):
    """Attention and a feed-forward part, each after a norm and with a residual."""

    def __init__(self, width: int, heads: int, dropout: float, dtype: DTypeLike) -> None:
        self.ln_1 = LayerNorm(width, dtype=dtype)
        self.attn = GPT2Attention(width, heads, dropout, dtype)
        self.ln_2 = LayerNorm(width, dtype=dtype)
        self.mlp = GPT2MLP(width, dtype)
        self.drop = Dropout(dropout)

    @override
    def forward(self, x: Tensor, cache: KVCache | None) -> Tensor:
        x = x + self.drop(self.attn(self.ln_1(x), cache))
        return x + self.drop(self.mlp(self.ln_2(x)))


class GPT2Attention(Attention):
    """Causal attention of a GPT-2."""

    def __init__(self, width: int, heads: int, dropout: float, dtype: DTypeLike) -> None:
        super().__init__(width, heads, None, dropout)
        self.c_attn = Linear(width, 3 * width, layout="in,out", dtype=dtype)
        self.c_proj = Linear(width, width, layout="in,out", dtype=dtype)

    @override
    def forward(self, x: Tensor, cache: KVCache | None) -> Tensor:
        query, keys, values = self.c_attn(x).chunk(3, -1)
        return self.c_proj(self.attend(query, keys, values, is_causal=True, cache=cache))


class GPT2MLP(Module):
    """The feed-forward part of a GPT-2."""

    def __init__(self, width: int, dtype: DTypeLike) -> None:
        self.c_fc = Linear(width, 4 * width, layout="in,out", dtype=dtype)
        self.c_proj = Linear(4 * width, width, layout="in,out", dtype=dtype)

    @override
    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(self.c_fc(x).gelu("tanh"))


def published(state: Mapping[str, V]) -> dict[str, V]:
    """Return the state of a Hugging Face GPT-2 by our names, for `load_state_dict`.

    The prefix, the constant masks, and the head, which is the embedding, are left out.

    >>> sorted(published({"transformer.wte.weight": 1, "lm_head.weight": 1, "h.0.attn.bias": 2}))
    ['wte.weight']
    """
    ours = {name.removeprefix("transformer."): value for name, value in state.items()}
    dropped = re.compile(r"lm_head\.weight|h\.\d+\.attn\.(masked_)?bias")
    return {name: value for name, value in ours.items() if not dropped.fullmatch(name)}
