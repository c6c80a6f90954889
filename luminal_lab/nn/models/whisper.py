"""Whisper: speech becomes text, by an encoder of sound and a decoder of tokens.

    log-mel [batch, bins, frames] ─ conv ─ conv, stride 2 ─ + positions ─ layers ─ norm ─ features
    features ─ keys and values, once for each layer of the decoder ─ memory
    tokens ─ embedding + positions ─ layers, which attend to the memory ─ norm ─ logits

Names of weights are those of Hugging Face's files, so `load` takes these as they are.
`luminal_lab.language.mel` makes log-mel features of samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from typing_extensions import override

from luminal_lab.core.dims import Dim, known
from luminal_lab.core.dtypes import Array, DTypeLike
from luminal_lab.errors import ShapeError
from luminal_lab.nn.arguments import at_user, divides, has_rank, same_size, sizes
from luminal_lab.nn.attention import Attention
from luminal_lab.nn.cache import KVCache
from luminal_lab.nn.conv import Conv1d
from luminal_lab.nn.embedding import Embedding
from luminal_lab.nn.linear import Linear
from luminal_lab.nn.models.decoder import ACTIVATIONS
from luminal_lab.nn.models.decoders import HARMLESS
from luminal_lab.nn.models.keys import Keys
from luminal_lab.nn.models.language import draw_as_published
from luminal_lab.nn.module import Module
from luminal_lab.nn.norm import LayerNorm
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.parameter import Parameter

Memory: TypeAlias = Sequence[tuple[Tensor, Tensor]]
"""What each layer of the decoder keeps of a sound: keys and values [batch, frames / 2, width]."""
ONLY: Final = {
    "scale_embedding": False,
    "use_weighted_layer_sum": False,
    "tie_word_embeddings": True,
    "is_encoder_decoder": True,
    "quantization_config": None,
}
"""The keys that may have one value alone, as other ones mean something that is not here."""
_UNUSED = (
    "activation_dropout alignment_heads apply_spec_augment begin_suppress_tokens "
    "classifier_proj_size decoder_layerdrop encoder_layerdrop forced_decoder_ids "
    "mask_feature_length mask_feature_min_masks mask_feature_prob mask_time_length "
    "mask_time_min_masks mask_time_prob max_length median_filter_width num_hidden_layers "
    "suppress_tokens"
)
UNUSED: Final = frozenset(_UNUSED.split())
"""Keys of training, of other heads, and of how a text is generated."""


@dataclass(frozen=True)
class WhisperConfig:
    """The sizes of a Whisper; those of the smallest published one, unless others are given."""

    width: int = 384
    encoder_layers: int = 4
    decoder_layers: int = 4
    encoder_heads: int = 6
    decoder_heads: int = 6
    encoder_hidden: int = 1536
    decoder_hidden: int = 1536
    vocab: int = 51865
    bins: int = 80
    """The bands of frequency of its log-mel features."""
    positions: int = 1500
    """The positions of a sound: one for two frames, that is for 20 ms."""
    context: int = 448
    """The most tokens of a text."""
    activation: str = "gelu"
    start: int = 50257
    """The token that a text begins with."""
    end: int = 50256
    """The token that ends it."""


def whisper_config(given: Mapping[str, object]) -> WhisperConfig:
    """Return the sizes that a `config.json` tells, or raise for what is not here.

    >>> whisper_config({"model_type": "whisper", "d_model": 512, "encoder_layers": 6}).width
    512
    >>> whisper_config({"model_type": "whisper", "scale_embedding": True})
    Traceback (most recent call last):
      ...
    luminal_lab.errors.ModelError: config.json: the key scale_embedding is true, and only false is known here
    """  # noqa: E501  # as it is told
    keys, usual = Keys("config.json", given), WhisperConfig()
    keys.word("model_type", among=["whisper"], default="whisper")
    keys.all_only(ONLY)
    config = WhisperConfig(
        keys.whole("d_model", default=usual.width, least=1),
        keys.whole("encoder_layers", default=usual.encoder_layers, most=1024),
        keys.whole("decoder_layers", default=usual.decoder_layers, most=1024),
        keys.whole("encoder_attention_heads", default=usual.encoder_heads, least=1),
        keys.whole("decoder_attention_heads", default=usual.decoder_heads, least=1),
        keys.whole("encoder_ffn_dim", default=usual.encoder_hidden, least=1),
        keys.whole("decoder_ffn_dim", default=usual.decoder_hidden, least=1),
        keys.whole("vocab_size", default=usual.vocab, least=1),
        keys.whole("num_mel_bins", default=usual.bins, least=1),
        keys.whole("max_source_positions", default=usual.positions, least=1),
        keys.whole("max_target_positions", default=usual.context, least=1),
        keys.word("activation_function", among=ACTIVATIONS, default=usual.activation),
        keys.whole("decoder_start_token_id", default=usual.start),
        keys.whole("eos_token_id", default=usual.end),
    )
    keys.done(HARMLESS | UNUSED)
    return config


class Whisper(Module):
    """A Whisper: log-mel features [batch, bins, frames] and tokens become logits.

    For generation, `remember` is called once for a sound, and `decode` for each step:

    >>> config = WhisperConfig(8, 1, 1, 2, 2, 16, 16, vocab=20, bins=4, positions=10, context=6)
    >>> model = Whisper(config)
    >>> sound = cx.tensor((1, 4, 20))
    >>> model(sound, cx.tensor((1, "seq"), "int64")).shape
    (1, seq, 20)
    >>> [keys.shape for keys, values in model.remember(sound)]
    [(1, 10, 8)]
    """

    def __init__(self, config: WhisperConfig | None = None, dtype: DTypeLike = "float32") -> None:
        self.config = c = config or WhisperConfig()
        sizes("whisper", width=c.width, vocab=c.vocab, bins=c.bins, positions=c.positions)
        divides("whisper", "heads", c.encoder_heads, width=c.width)
        divides("whisper", "heads", c.decoder_heads, width=c.width)
        self.model = WhisperStacks(c, dtype)
        self.proj_out = Linear(c.width, c.vocab, bias=False, dtype=dtype)
        draw_as_published(self, c.encoder_layers + c.decoder_layers)
        waves = self.model.encoder.embed_positions
        waves.weight = Parameter(
            (c.positions, c.width), dtype, provider=lambda: sinusoids(c.positions, c.width)
        )
        self.proj_out.weight = self.model.decoder.embed_tokens.weight

    @override
    def forward(self, sound: Tensor, tokens: Tensor) -> Tensor:
        return self.decode(tokens, self.remember(sound))

    def remember(self, sound: Tensor) -> Memory:
        """Return what each layer of the decoder reads of a sound."""
        return self.model.remember(sound)

    def decode(self, tokens: Tensor, memory: Memory, cache: KVCache | None = None) -> Tensor:
        """Return the logits [batch, seq, vocab] of tokens, which with a cache follow earlier ones.

        >>> model = Whisper(WhisperConfig(8, 1, 1, 2, 2, 16, 16, vocab=20, positions=10, context=6))
        >>> memory = [(cx.tensor((1, 10, 8)), cx.tensor((1, 10, 8)))]
        >>> cache = ll.nn.KVCache(cx, capacity=6)
        >>> model.decode(cx.tensor((1, 1), "int64"), memory, cache).shape
        (1, 1, 20)
        """
        return self.proj_out(self.model.decoder(tokens, memory, cache))


class WhisperStacks(Module):
    """The encoder and the decoder."""

    def __init__(self, config: WhisperConfig, dtype: DTypeLike) -> None:
        self.encoder = WhisperEncoder(config, dtype)
        self.decoder = WhisperDecoder(config, dtype)

    def remember(self, sound: Tensor) -> Memory:
        """Return what each layer of the decoder reads of a sound."""
        return self.decoder.read(self.encoder(sound))


class WhisperEncoder(Module):
    """Two convolutions and layers of attention: a sound becomes [batch, frames / 2, width]."""

    def __init__(self, config: WhisperConfig, dtype: DTypeLike) -> None:
        self.config, width = config, config.width
        self.conv1 = Conv1d(config.bins, width, 3, padding=1, dtype=dtype)
        self.conv2 = Conv1d(width, width, 3, stride=2, padding=1, dtype=dtype)
        self.embed_positions = Embedding(config.positions, width, dtype=dtype)
        self.layers = [
            WhisperLayer(config, config.encoder_heads, config.encoder_hidden, dtype)
            for _ in range(config.encoder_layers)
        ]
        self.layer_norm = LayerNorm(width, dtype=dtype)

    @override
    def forward(self, sound: Tensor) -> Tensor:
        has_rank("whisper", sound, (3,))
        same_size("whisper", sound, 1, self.config.bins, "bins")
        act = ACTIVATIONS[self.config.activation]
        x = act(self.conv2(act(self.conv1(sound)))).transpose(1, 2)
        most = self.config.positions
        if known(x.shape[1] <= most) is False:
            raise at_user(
                ShapeError(
                    f"whisper: {sound.shape[2]} frames are given, and {2 * most} are the most",
                    hint="a frame is 10 ms; give a sound in parts",
                )
            )
        x = x + x.other("whisper", self.embed_positions.weight).slice_along(0, 0, x.shape[1])
        for layer in self.layers:
            x = layer(x)
        return self.layer_norm(x)


class WhisperDecoder(Module):
    """Layers of causal attention, each of which attends to what it remembers of a sound."""

    def __init__(self, config: WhisperConfig, dtype: DTypeLike) -> None:
        self.config = config
        self.embed_tokens = Embedding(config.vocab, config.width, dtype=dtype)
        self.embed_positions = Embedding(config.context, config.width, dtype=dtype)
        self.layers = [WhisperDecoderLayer(config, dtype) for _ in range(config.decoder_layers)]
        self.layer_norm = LayerNorm(config.width, dtype=dtype)

    def read(self, features: Tensor) -> Memory:
        """Return the keys and values that each layer makes of an encoder's features."""
        return [layer.encoder_attn.read(features) for layer in self.layers]

    @override
    def forward(self, tokens: Tensor, memory: Memory, cache: KVCache | None = None) -> Tensor:
        past: Dim = 0 if cache is None else cache.past
        end = past + tokens.shape[-1]
        most = end if cache is None else cache.capacity
        if known(most <= self.config.context) is False:
            what = "tokens are given" if cache is None else "positions are in the cache"
            raise at_user(
                ShapeError(
                    f"whisper: {most} {what}, and the context is {self.config.context}",
                    hint="a learned position is needed for each; give fewer tokens",
                )
            )
        table = tokens.other("whisper", self.embed_positions.weight)
        x = self.embed_tokens(tokens) + table.slice_along(0, past, end)
        for layer, pair in zip(self.layers, memory, strict=True):
            x = layer(x, pair, cache)
        return self.layer_norm(x)


class WhisperLayer(Module):
    """Attention and a feed-forward part, each after a norm and with a residual."""

    def __init__(self, config: WhisperConfig, heads: int, hidden: int, dtype: DTypeLike) -> None:
        self.activation = config.activation
        self.self_attn = WhisperAttention(config.width, heads, dtype)
        self.self_attn_layer_norm = LayerNorm(config.width, dtype=dtype)
        self.fc1 = Linear(config.width, hidden, dtype=dtype)
        self.fc2 = Linear(hidden, config.width, dtype=dtype)
        self.final_layer_norm = LayerNorm(config.width, dtype=dtype)

    @override
    def forward(self, x: Tensor) -> Tensor:
        return self.feed(x + self.self_attn(self.self_attn_layer_norm(x)))

    def feed(self, x: Tensor) -> Tensor:
        """Return x and what the feed-forward part makes of it."""
        return x + self.fc2(ACTIVATIONS[self.activation](self.fc1(self.final_layer_norm(x))))


class WhisperDecoderLayer(WhisperLayer):
    """Causal attention, attention to the memory of a sound, and a feed-forward part."""

    def __init__(self, config: WhisperConfig, dtype: DTypeLike) -> None:
        super().__init__(config, config.decoder_heads, config.decoder_hidden, dtype)
        self.encoder_attn = WhisperAttention(config.width, config.decoder_heads, dtype)
        self.encoder_attn_layer_norm = LayerNorm(config.width, dtype=dtype)

    @override
    def forward(
        self,
        x: Tensor,
        memory: tuple[Tensor, Tensor] | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        x = x + self.self_attn(self.self_attn_layer_norm(x), is_causal=True, cache=cache)
        x = x + self.encoder_attn(self.encoder_attn_layer_norm(x), memory)
        return self.feed(x)


class WhisperAttention(Attention):
    """Attention to x itself, or to keys and values that were read before; keys have no bias."""

    def __init__(self, width: int, heads: int, dtype: DTypeLike) -> None:
        super().__init__(width, heads, None, 0.0)
        self.k_proj = Linear(width, width, bias=False, dtype=dtype)
        self.v_proj, self.q_proj, self.out_proj = (
            Linear(width, width, dtype=dtype) for _ in range(3)
        )

    def read(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and values of x."""
        return self.k_proj(x), self.v_proj(x)

    @override
    def forward(
        self,
        x: Tensor,
        memory: tuple[Tensor, Tensor] | None = None,
        *,
        is_causal: bool = False,
        cache: KVCache | None = None,
    ) -> Tensor:
        keys, values = self.read(x) if memory is None else memory
        mixed = self.attend(self.q_proj(x), keys, values, is_causal=is_causal, cache=cache)
        return self.out_proj(mixed)

    @override
    def options(self) -> str:
        return f"{self.heads} heads"


def sinusoids(positions: int, width: int) -> Array:
    """Return the table of an encoder's positions: sines, and then cosines, of ever longer waves.

    >>> sinusoids(2, 4).round(3)
    array([[0.   , 0.   , 1.   , 1.   ],
           [0.841, 0.   , 0.54 , 1.   ]], dtype=float32)
    """
    rates = 10_000.0 ** -(np.arange(width // 2) / max(width // 2 - 1, 1))
    angles = np.arange(positions)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype("float32")
