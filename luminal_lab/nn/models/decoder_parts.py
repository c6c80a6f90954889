"""What the rows of `decoders` share: sizes, norms, ropes and windows by their usual keys."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from luminal_lab.nn.models.decoder import (
    ACTIVATIONS,
    AttentionConfig,
    DecoderConfig,
    ExpertsConfig,
    FeedConfig,
    LayerConfig,
    NormConfig,
    RopeConfig,
)
from luminal_lab.nn.models.keys import Keys
from luminal_lab.nn.rope import (
    DynamicScaling,
    FactorScaling,
    LinearScaling,
    Llama3Scaling,
    Scaling,
    YarnScaling,
)

Feeds: TypeAlias = "FeedConfig | ExpertsConfig | Sequence[FeedConfig | ExpertsConfig]"
Ropes: TypeAlias = "RopeConfig | Sequence[RopeConfig | None] | None"
Windows: TypeAlias = "int | Sequence[int | None] | None"
Fields: TypeAlias = dict[str, Any]
"""Fields of an attention."""
MOST_LAYERS: Final = 1_000
MOST_EXPERTS: Final = 1_000
"""More than any model has; a file that says more is damaged or hostile."""


@dataclass(frozen=True)
class Sizes:
    """The sizes that all decoders have."""

    width: int
    layers: int
    heads: int
    kv_heads: int
    size: int
    vocab: int
    context: int | None


def sizes(k: Keys, head: int | None = None, kv_heads: int | None = None) -> Sizes:
    """Read the sizes; features of a head are those of the width by default."""
    width = k.whole("hidden_size", "n_embd", "n_embed", "d_model", least=1)
    heads = k.whole("num_attention_heads", "n_head", "n_heads", "num_heads", least=1, most=width)
    per_head = k.maybe("head_dim", default=head) or width // heads
    shared = k.maybe("num_key_value_heads") or kv_heads or heads
    if heads % shared:
        raise k.wrong("num_key_value_heads", f"must divide the heads, {heads}")
    names = "num_hidden_layers", "n_layer", "n_layers", "num_layers"
    layers = k.whole(*names, most=MOST_LAYERS)
    names = "max_position_embeddings", "n_positions", "max_seq_len"
    context = k.maybe(*names)
    if context == 0:
        raise k.wrong(next(name for name in names if name in k.given), "must be above 0")
    return Sizes(width, layers, heads, shared, per_head, k.whole("vocab_size", least=1), context)


def rms(k: Keys, eps: float = 1e-6, offset: float = 0.0) -> NormConfig:
    """Read a norm over the root mean square."""
    return NormConfig("rms", k.above("rms_norm_eps", default=eps), offset=offset)


def layer_norm(k: Keys, bias: bool = True, eps: float = 1e-5, offset: float = 0.0) -> NormConfig:
    """Read a norm to mean 0 and variance 1."""
    names = "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"
    return NormConfig("layer", k.above(*names, default=eps), bias=bias, offset=offset)


def activation(k: Keys, default: str) -> str:
    """Read the name of an activation."""
    names = "hidden_activation", "hidden_act", "activation_function", "activation"
    return k.word(*names, among=[*ACTIVATIONS, "xielu"], default=default)


def hidden(k: Keys, s: Sizes, *names: str) -> int:
    """Read the features within a feed-forward part; four times the width by default."""
    return k.maybe("intermediate_size", "n_inner", *names) or 4 * s.width


def plain(feed: FeedConfig) -> FeedConfig:
    """Return a feed-forward part without its gate."""
    return replace(feed, gated=False)


def biased(k: Keys, key: str = "attention_bias", default: bool = False) -> Fields:
    """Read whether an attention has biases everywhere."""
    bias = k.flag(key, default=default)
    return {"bias": bias, "out_bias": bias}


def gated(k: Keys, act: str = "silu", bias: bool = False, fused: bool = False) -> FeedConfig:
    """Read a gated feed-forward part."""
    return FeedConfig(k.whole("intermediate_size"), activation(k, act), True, bias, fused)


def experts(
    k: Keys,
    expert: FeedConfig,
    count: int,
    chosen: int,
    *,
    normalised: bool = True,
    shared: int = 0,
) -> ExpertsConfig:
    """Read experts, by default `count` of them of which each token takes `chosen` ones."""
    count = k.whole("num_experts", "num_local_experts", default=count, least=1, most=MOST_EXPERTS)
    chosen = k.whole("num_experts_per_tok", default=chosen, least=1, most=count)
    return ExpertsConfig(expert, count, chosen, normalised, shared)


def rope(
    k: Keys,
    s: Sizes,
    *,
    interleaved: bool = False,
    base: float = 10_000.0,
    share: float = 1.0,
    kind: str = "",
) -> RopeConfig:
    """Read rotary positions, in the keys of today (`rope_parameters`) or those of before.

    A `kind` of layers may have keys of its own.
    """
    told = k.inner("rope_parameters")
    if told is not None and kind and isinstance(told.given.get(kind), Mapping):
        told = told.inner(kind)
    older = k.inner("rope_scaling")
    if told is not None and older is not None:
        raise k.wrong("rope_scaling", "rope_parameters says the same, or something else")
    base = k.above("rope_theta", "rotary_emb_base", default=base)
    share = k.real("partial_rotary_factor", "rotary_pct", "rope_pct", default=share)
    scaling = None
    for inner in (older, told):
        if inner is not None:
            base = inner.above("rope_theta", default=base)
            share = inner.real("partial_rotary_factor", default=share)
            scaling = _scaling(inner, k, s)
            inner.done(())
    size = int(s.size * share)
    if not 0 < size <= s.size or size % 2:
        raise k.wrong("partial_rotary_factor", f"{size} of {s.size} features cannot be turned")
    return RopeConfig(size, base, interleaved, scaling)


KINDS: Final = ("default", "linear", "dynamic", "llama3", "yarn", "longrope", "su")


def _scaling(told: Keys, k: Keys, s: Sizes) -> Scaling | None:
    """Read how a context is exceeded."""
    kind = told.word("rope_type", "type", among=KINDS, default="default")
    told.get("type", "rope_type", default=None)
    if kind == "default":
        told.get("original_max_position_embeddings", "factor", default=None)
        return None
    if kind == "linear":
        return LinearScaling(told.above("factor"))
    most = s.context or 0
    context = told.maybe("original_max_position_embeddings") or most
    context = k.maybe("original_max_position_embeddings") or context
    if context < 1:
        raise told.wrong("original_max_position_embeddings", "must be 1 or more")
    if kind == "dynamic":
        return DynamicScaling(told.above("factor"), most or context)
    if kind == "llama3":
        low, high = told.above("low_freq_factor"), told.above("high_freq_factor")
        return Llama3Scaling(told.above("factor"), low, high, context)
    amplitude = told.maybe_above("attention_factor")
    factor = told.maybe_above("factor") or most / context
    if kind == "yarn":
        parts = told.maybe_above("mscale"), told.maybe_above("mscale_all_dim")
        if amplitude is None and parts[0] and parts[1] and factor > 1:
            one, other = (0.1 * part * math.log(factor) + 1 for part in parts if part)
            amplitude = one / other
        ends = told.maybe_above("beta_fast") or 32.0, told.maybe_above("beta_slow") or 1.0
        whole = told.flag("truncate", default=True)
        return YarnScaling(factor, context, *ends, amplitude, whole)
    if amplitude is None:
        amplitude = math.sqrt(1 + math.log(factor) / math.log(context)) if factor > 1 else 1.0
    short, long = (told.list(name, kind=float) or () for name in ("short_factor", "long_factor"))
    return FactorScaling(tuple(short), tuple(long), context, amplitude)


LAYER_TYPES: Final = ("full_attention", "sliding_attention")


def windows(k: Keys, s: Sizes, width: int | None) -> list[int | None] | None:
    """Read the window of each layer by its type; None if no types are told."""
    types = k.list("layer_types", kind=str, count=s.layers)
    if types is None:
        return None
    for kind in types:
        if kind not in LAYER_TYPES:
            raise k.wrong("layer_types", f"{kind} is not known here")
    if width is None and "sliding_attention" in types:
        raise k.wrong("sliding_window", "layer_types has layers with a window")
    return [width if kind == "sliding_attention" else None for kind in types]


def alibi(heads: int, most: float = 8.0, scale: float = 1.0) -> tuple[float, ...]:
    """Return ALiBi's slopes: powers of 2, from 2^-most / heads to 2^-most.

    >>> alibi(4)
    (0.25, 0.0625, 0.015625, 0.00390625)
    """
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-most * (i + 1) / power) for i in range(power)]
    slopes += [2 ** (-most * (i + 1) / (2 * power)) for i in range(0, 2 * power, 2)]
    return tuple(slope * scale for slope in slopes[:heads])


def stack(
    k: Keys,
    s: Sizes,
    norm: NormConfig,
    feed: Feeds,
    *,
    ropes: Ropes = None,
    window: Windows = None,
    before: str = "both",
    after: bool = False,
    parallel: bool = False,
    residual: float = 1.0,
    tied: bool = False,
    names: Mapping[str, str] | None = None,
    attention: Mapping[str, Any] | None = None,
    **more: Any,  # fields of the configuration
) -> DecoderConfig:
    """Return a decoder whose layers are the same but for ropes, windows and feeds.

    The norms are `before` "both" parts, "attention" alone, or none, and `after` both.
    """
    count = range(s.layers)
    ropes = ropes if isinstance(ropes, Sequence) else [ropes for _ in count]
    window = window if isinstance(window, Sequence) else [window for _ in count]
    feeds = feed if isinstance(feed, Sequence) else [feed for _ in count]
    layers = tuple(
        LayerConfig(
            AttentionConfig(
                s.heads,
                s.kv_heads,
                s.size,
                rope=ropes[number],
                window=window[number],
                **(attention or {}),
            ),
            feeds[number],
            norm if before else None,
            norm if after else None,
            norm if before == "both" else None,
            norm if after else None,
            parallel,
            residual,
        )
        for number in count
    )
    tied = k.flag("tie_word_embeddings", default=tied)
    spelled = tuple((names or {}).items())
    return DecoderConfig(s.vocab, s.width, layers, norm, s.context, tied, names=spelled, **more)
