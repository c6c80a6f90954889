"""One decoder for all language models of a kind: what makes them differ is data.

    tokens ─ embedding ─ layer … layer ─ norm ─ head ─ logits

    a layer:  x + attention(norm(x)), then x + feed(norm(x))       most of them
              x + attention(norm(x)) + feed(norm(x))               `parallel`
              x + norm(attention(x)), then x + norm(feed(x))       norms behind, as in OLMo 2

`decoders` has the table of the published ones. Weights are called as in Llama's files, whatever the
file: `decoder_weights` finds each by the names of its configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, TypeAlias

from typing_extensions import override

from luminal_lab.core.dims import Dim, known
from luminal_lab.core.dtypes import DTypeLike
from luminal_lab.core.op import size_of
from luminal_lab.errors import ShapeError
from luminal_lab.nn.arguments import at_user
from luminal_lab.nn.attention import Attention
from luminal_lab.nn.cache import KVCache
from luminal_lab.nn.embedding import Embedding
from luminal_lab.nn.init import constant, normal, ones, zeros
from luminal_lab.nn.linear import Layout, Linear
from luminal_lab.nn.models.language import draw_as_published
from luminal_lab.nn.module import Module
from luminal_lab.nn.norm import LayerNorm, RMSNorm
from luminal_lab.nn.rope import RotaryEmbedding, Rotation, Scaling
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.functions import widened
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.tensor.sources import Sources

# -- what differs ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class NormConfig:
    """A norm: over the root mean square (`rms`) or to mean 0 and variance 1 (`layer`)."""

    kind: Literal["rms", "layer"] = "rms"
    eps: float = 1e-5
    weight: bool = True
    bias: bool = False
    offset: float = 0.0
    """What is added to the weight: 1 in Gemma."""


@dataclass(frozen=True)
class RopeConfig:
    """Rotary positions: how many features of a head are turned, and how fast."""

    size: int
    base: float = 10_000.0
    interleaved: bool = False
    scaling: Scaling | None = None


@dataclass(frozen=True)
class AttentionConfig:
    """The attention of a layer."""

    heads: int
    kv_heads: int
    size: int
    """The features of a head."""
    bias: bool = False
    """Whether queries, keys and values have biases."""
    out_bias: bool = False
    fused: str = ""
    """The order of the parts, as in "qkv", if a single matrix holds all three."""
    chunks: int = 1
    """How often that order is repeated along its rows."""
    rope: RopeConfig | None = None
    slopes: tuple[float, ...] = ()
    """ALiBi: what a head's scores lose by the distance of a key."""
    window: int | None = None
    """The last positions that are seen."""
    scale: float | None = None
    """What scores are multiplied by; by default 1 / √size."""
    soft_cap: float | None = None
    clip: float | None = None
    """The largest query, key and value."""
    norm: NormConfig | None = None
    """The norm of queries and keys."""
    norm_over: Literal["head", "heads", "all"] = "head"
    """One for all heads, one for each head, or one over the features of all heads."""


@dataclass(frozen=True)
class FeedConfig:
    """A feed-forward part: down(act(gate(x)) · up(x)), or down(act(up(x))) if it is not gated."""

    hidden: int
    activation: str = "silu"
    gated: bool = True
    bias: bool = False
    fused: bool = False
    """Whether a single matrix holds gate and up."""


@dataclass(frozen=True)
class ExpertsConfig:
    """Feed-forward parts of which each token takes the `chosen` ones with the best scores."""

    expert: FeedConfig
    count: int
    chosen: int
    normalised: bool = True
    """Whether the shares of the chosen ones are made to add up to 1."""
    shared: int = 0
    """The hidden features of an expert that all tokens take."""


@dataclass(frozen=True)
class LayerConfig:
    """A layer: its two parts, and the norms before and after each."""

    attention: AttentionConfig
    feed: FeedConfig | ExpertsConfig
    before_attention: NormConfig | None = None
    after_attention: NormConfig | None = None
    before_feed: NormConfig | None = None
    """Without one, a parallel layer's two parts share a norm."""
    after_feed: NormConfig | None = None
    parallel: bool = False
    residual: float = 1.0
    """What both parts' results are multiplied by."""


@dataclass(frozen=True)
class DecoderConfig:
    """All that is to be known of a decoder, except its weights.

    >>> from luminal_lab.nn.models.decoders import from_config
    >>> config = from_config({
    ...     "architectures": ["Qwen3ForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2,
    ...     "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
    ...     "intermediate_size": 96, "vocab_size": 100,
    ... })
    >>> config.layers[1].attention.size, config.layers[1].attention.norm
    (32, NormConfig(kind='rms', eps=1e-06, weight=True, bias=False, offset=0.0))
    """

    vocab: int
    width: int
    layers: tuple[LayerConfig, ...]
    norm: NormConfig
    context: int | None
    """The positions that it was made for, if told; learned ones are no more."""
    tied: bool = False
    """Whether the head is the embedding."""
    head_bias: bool = False
    positions: int | None = None
    """The number of the first learned position, if they are learned."""
    embedding_scale: float = 1.0
    embedding_norm: NormConfig | None = None
    logit_scale: float = 1.0
    logit_cap: float | None = None
    layout: Layout = "out,in"
    """The axes of the layers' matrices."""
    names: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Our names of parts, and what files call them, where the two differ."""


# -- the modules -----------------------------------------------------------------------------------

Function: TypeAlias = Callable[[Tensor], Tensor]


def _tanh_gelu(x: Tensor) -> Tensor:
    return x.gelu("tanh")


ACTIVATIONS: Final[Mapping[str, Function]] = {
    "gelu": Tensor.gelu,
    "gelu_fast": _tanh_gelu,
    "gelu_new": _tanh_gelu,
    "gelu_python": Tensor.gelu,
    "gelu_pytorch_tanh": _tanh_gelu,
    "linear": lambda x: x,
    "mish": Tensor.mish,
    "quick_gelu": lambda x: x * (x * 1.702).sigmoid(),
    "relu": Tensor.relu,
    "relu2": lambda x: x.relu() * x.relu(),
    "relu6": Tensor.relu6,
    "sigmoid": Tensor.sigmoid,
    "silu": Tensor.silu,
    "swish": Tensor.silu,
    "tanh": Tensor.tanh,
}
"""The activations by the names that configurations have for them; `xielu` is a module."""


class Decoder(Module):
    """A decoder: int64 tokens [batch, seq] become logits [batch, seq, vocab].

    >>> from luminal_lab.nn.models.decoders import from_config
    >>> config = from_config({
    ...     "architectures": ["GPT2LMHeadModel"], "n_layer": 1, "n_head": 2, "n_embd": 8,
    ...     "vocab_size": 10, "n_positions": 16,
    ... })
    >>> Decoder(config)(cx.tensor(("batch", "seq"), "int64")).shape
    (batch, seq, 10)
    """

    def __init__(self, config: DecoderConfig, dtype: DTypeLike = "float32") -> None:
        self.config = config
        self.model = DecoderStack(config, dtype)
        self.lm_head = Linear(config.width, config.vocab, bias=config.head_bias, dtype=dtype)
        draw_as_published(self, len(config.layers))
        if config.tied:
            self.lm_head.weight = self.model.embed_tokens.weight

    @override
    def forward(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        return self.head(self.model(tokens, cache))

    def head(self, x: Tensor) -> Tensor:
        """Return the logits of what the stack of layers makes of some positions.

        Of a prompt the last position's are enough:

        >>> from luminal_lab.nn.models.decoders import decoder_of
        >>> model = decoder_of({"architectures": ["GPT2LMHeadModel"], "n_layer": 1, "n_head": 2,
        ...     "n_embd": 8, "vocab_size": 10, "n_positions": 16})
        >>> model.head(model.model(cx.tensor((1, 12), "int64"))[:, -1]).shape
        (1, 10)
        """
        config, logits = self.config, self.lm_head(x)
        if config.logit_scale != 1:
            logits = logits * config.logit_scale
        if config.logit_cap is not None:
            logits = (logits * (1 / config.logit_cap)).tanh() * config.logit_cap
        return logits


class DecoderStack(Module):
    """A decoder without its head."""

    def __init__(self, config: DecoderConfig, dtype: DTypeLike) -> None:
        self.config, self.dtype = config, dtype
        self.embed_tokens = Embedding(config.vocab, config.width, dtype=dtype)
        self.embed_positions: Embedding | None = None
        if config.positions is not None:
            rows = (config.context or 0) + config.positions
            self.embed_positions = Embedding(rows, config.width, dtype=dtype)
        self.embed_norm = norm_of(config.embedding_norm, config.width, dtype)
        ropes = dict.fromkeys(layer.attention.rope for layer in config.layers)
        self.rotary = {
            str(number): RotaryEmbedding(
                rope.size, rope.base, interleaved=rope.interleaved, scaling=rope.scaling
            )
            for number, rope in enumerate(rope for rope in ropes if rope is not None)
        }
        self.layers = [DecoderLayer(config, layer, dtype) for layer in config.layers]
        self.norm = norm_of(config.norm, config.width, dtype)

    @override
    def forward(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        past: Dim = 0 if cache is None else cache.past
        x = self.embed_tokens(tokens).cast(self.dtype)
        if self.config.embedding_scale != 1:
            x = x * self.config.embedding_scale
        if self.embed_positions is not None:
            x = x + self._positions(tokens, past, cache).cast(self.dtype)
        if self.embed_norm is not None:
            x = self.embed_norm(x)
        turns: dict[object, Rotation] = {}
        ropes = dict.fromkeys(layer.attention.rope for layer in self.config.layers)
        ropes.pop(None, None)
        for rope, rotary in zip(ropes, self.rotary.values(), strict=True):
            turns[rope] = rotary.rotation(x.graph, tokens.shape[-1], past)
        for layer in self.layers:
            x = layer(x, turns.get(layer.config.attention.rope), cache)
        return x if self.norm is None else self.norm(x)

    def _positions(self, tokens: Tensor, past: Dim, cache: KVCache | None) -> Tensor:
        assert self.embed_positions is not None
        assert self.config.positions is not None
        end, first = past + tokens.shape[-1], self.config.positions
        most = end if cache is None else cache.capacity
        if known(most <= (self.config.context or 0)) is False:
            what = "tokens are given" if cache is None else "positions are in the cache"
            raise at_user(
                ShapeError(
                    f"decoder: {most} {what}, and the context is {self.config.context}",
                    hint="a learned position is needed for each; give fewer tokens",
                )
            )
        table = tokens.other("decoder", self.embed_positions.weight)
        return table.slice_along(0, past + first, end + first)


class DecoderLayer(Module):
    """Attention and a feed-forward part, each with its norms and a residual."""

    def __init__(self, decoder: DecoderConfig, config: LayerConfig, dtype: DTypeLike) -> None:
        self.config, width = config, decoder.width
        self.input_layernorm = norm_of(config.before_attention, width, dtype)
        self.self_attn = DecoderAttention(decoder, config.attention, dtype)
        self.attention_norm = norm_of(config.after_attention, width, dtype)
        self.post_attention_layernorm = norm_of(config.before_feed, width, dtype)
        self.mlp = (
            FeedForward(width, config.feed, decoder.layout, dtype)
            if isinstance(config.feed, FeedConfig)
            else Mixture(width, config.feed, dtype)
        )
        self.mlp_norm = norm_of(config.after_feed, width, dtype)

    @override
    def forward(self, x: Tensor, rotation: Rotation | None, cache: KVCache | None) -> Tensor:
        config = self.config
        given = x if self.input_layernorm is None else self.input_layernorm(x)
        mixed = self.self_attn(given, rotation, cache)
        if self.attention_norm is not None:
            mixed = self.attention_norm(mixed)
        total = x + (mixed if config.residual == 1 else mixed * config.residual)
        if self.post_attention_layernorm is not None:
            given = self.post_attention_layernorm(x if config.parallel else total)
        elif not config.parallel:
            given = total
        fed = self.mlp(given)
        if self.mlp_norm is not None:
            fed = self.mlp_norm(fed)
        return total + (fed if config.residual == 1 else fed * config.residual)


class DecoderAttention(Attention):
    """Causal attention of a decoder."""

    def __init__(self, decoder: DecoderConfig, config: AttentionConfig, dtype: DTypeLike) -> None:
        super().__init__(decoder.width, config.heads, config.kv_heads, 0.0, config.size)
        self.config = config
        own, shared = config.heads * config.size, config.kv_heads * config.size
        linear = partial(Linear, decoder.width, layout=decoder.layout, dtype=dtype)
        if config.fused:
            self.qkv_proj = linear(own + 2 * shared, config.bias)
        else:
            self.q_proj = linear(own, config.bias)
            self.k_proj = linear(shared, config.bias)
            self.v_proj = linear(shared, config.bias)
        self.o_proj = Linear(
            own, decoder.width, config.out_bias, layout=decoder.layout, dtype=dtype
        )
        self.q_norm, self.k_norm = (
            norm_of(
                config.norm,
                {
                    "head": (config.size,),
                    "heads": (heads, config.size),
                    "all": (heads * config.size,),
                }[config.norm_over],
                dtype,
            )
            for heads in (config.heads, config.kv_heads)
        )

    @override
    def forward(self, x: Tensor, rotation: Rotation | None, cache: KVCache | None) -> Tensor:
        config = self.config
        q, k, v = self._projected(x)
        q, k = self._normed(q, self.q_norm), self._normed(k, self.k_norm)
        if config.clip is not None:
            q, k, v = (y.clip(-config.clip, config.clip) for y in (q, k, v))
        mixed = self.attend(
            q,
            k,
            v,
            is_causal=True,
            rotation=rotation,
            cache=cache,
            window=config.window,
            slopes=config.slopes,
            scale=config.scale,
            soft_cap=config.soft_cap,
        )
        return self.o_proj(mixed)

    def _projected(self, x: Tensor) -> Sequence[Tensor]:
        """Return queries, keys and values [..., seq, heads · size]."""
        if not self.config.fused:
            return self.q_proj(x), self.k_proj(x), self.v_proj(x)
        chunks, order = self.config.chunks, self.config.fused
        sizes = dict(zip("qkv", (self.heads, self.kv_heads, self.kv_heads), strict=True))
        parts = self.qkv_proj(x).unflatten(-1, (chunks, -1))
        parts = parts.split([sizes[part] * self.size // chunks for part in order], -1)
        by_name = dict(zip(order, parts, strict=True))
        return [by_name[part].flatten(-2) for part in "qkv"]

    def _normed(self, x: Tensor, norm: Module | None) -> Tensor:
        if norm is None or self.config.norm_over == "all":
            return x if norm is None else norm(x)
        return norm(x.unflatten(-1, (-1, self.size))).flatten(-2)

    @override
    def options(self) -> str:
        config = self.config
        parts = [f"{self.heads} heads" + f" over {self.kv_heads}" * (self.kv_heads != self.heads)]
        parts += [f"window={config.window}"] * (config.window is not None)
        parts += [f"soft_cap={config.soft_cap:g}"] if config.soft_cap is not None else []
        parts += ["no rope"] * (config.rope is None)
        return ", ".join(parts)


class FeedForward(Module):
    """A feed-forward part of a decoder."""

    def __init__(self, width: int, config: FeedConfig, layout: Layout, dtype: DTypeLike) -> None:
        self.config = config
        linear = partial(Linear, bias=config.bias, layout=layout, dtype=dtype)
        if config.fused:
            self.gate_up_proj = linear(width, 2 * config.hidden)
        else:
            if config.gated:
                self.gate_proj = linear(width, config.hidden)
            self.up_proj = linear(width, config.hidden)
        self.down_proj = linear(config.hidden, width)
        self.act_fn = XIELU(dtype) if config.activation == "xielu" else None

    @override
    def forward(self, x: Tensor) -> Tensor:
        act = self.act_fn or ACTIVATIONS[self.config.activation]
        if self.config.fused:
            gate, up = self.gate_up_proj(x).chunk(2, -1)
            return self.down_proj(act(gate) * up)
        if self.config.gated:
            return self.down_proj(act(self.gate_proj(x)) * self.up_proj(x))
        return self.down_proj(act(self.up_proj(x)))

    @override
    def options(self) -> str:
        return self.config.activation


class Mixture(Module):
    """A router, experts, and perhaps one that all tokens share."""

    def __init__(self, width: int, config: ExpertsConfig, dtype: DTypeLike) -> None:
        self.config = config
        self.router = Linear(width, config.count, bias=False, dtype=dtype)
        self.experts = Experts(width, config, dtype)
        self.shared_expert: FeedForward | None = None
        if config.shared:
            expert = FeedConfig(config.shared, config.expert.activation)
            self.shared_expert = FeedForward(width, expert, "out,in", dtype)
            self.shared_expert_gate = Linear(width, 1, bias=False, dtype=dtype)

    @override
    def forward(self, x: Tensor) -> Tensor:
        shares, chosen = self.router(x).softmax(-1).topk(self.config.chosen)
        if self.config.normalised:
            shares = shares / shares.sum(-1, keepdim=True)
        mixed = self.experts(x, shares, chosen)
        if self.shared_expert is None:
            return mixed
        return mixed + self.shared_expert_gate(x).sigmoid() * self.shared_expert(x)

    @override
    def options(self) -> str:
        return f"{self.config.chosen} of {self.config.count} experts"


class Experts(Module):
    """The weights of all experts, [experts, out, in]."""

    def __init__(self, width: int, config: ExpertsConfig, dtype: DTypeLike) -> None:
        self.config = config
        count, hidden = config.count, config.expert.hidden
        draw = partial(normal, std=0.02)
        if config.expert.fused:
            self.gate_up_proj = Parameter((count, 2 * hidden, width), dtype, init=draw)
        else:
            self.gate_proj = Parameter((count, hidden, width), dtype, init=draw)
            self.up_proj = Parameter((count, hidden, width), dtype, init=draw)
        self.down_proj = Parameter((count, width, hidden), dtype, init=draw)

    @override
    def matrices(self) -> tuple[Parameter, ...]:
        return tuple(self.parameters().values())

    @override
    def forward(self, x: Tensor, shares: Tensor, chosen: Tensor) -> Tensor:
        """Return the mix of some experts' results for x [..., seq, width].

        Of few tokens, only the chosen experts' weights are read: [..., seq, chosen, out, in].
        Otherwise all experts are given all tokens, [..., experts, seq, width], and a token's share
        of most is 0.
        """
        config, act = self.config, ACTIVATIONS[self.config.expert.activation]
        few = known(size_of(chosen.shape) <= config.count) is True

        def times(x: Tensor, weight: Parameter) -> Tensor:
            table = x.other("experts", weight)
            if not few:
                return x.matmul(table.transpose(-2, -1))
            rows = table._take(0, chosen)  # pyright: ignore[reportPrivateUsage]
            return rows.matmul(x.unsqueeze(-1)).squeeze(-1)

        x = x.unsqueeze(-2 if few else -3)
        if config.expert.fused:
            gate, up = times(x, self.gate_up_proj).chunk(2, -1)
        else:
            gate, up = times(x, self.gate_proj), times(x, self.up_proj)
        results = times(act(gate) * up, self.down_proj)
        if few:
            return (results * shares.unsqueeze(-1)).sum(-2)
        assert isinstance(x.graph, Sources)
        number = x.graph.arange(config.count)
        spread = (chosen.unsqueeze(-1) == number).where(shares.unsqueeze(-1), 0.0).sum(-2)
        return (results * spread.transpose(-2, -1).unsqueeze(-1)).sum(-3)


class XIELU(Module):
    """Apertus's activation: a learned parabola above 0, and a learned exponential below."""

    def __init__(self, dtype: DTypeLike) -> None:
        self.alpha_p, self.alpha_n = (Parameter((1,), dtype, init=zeros) for _ in range(2))
        self.beta, self.eps = (
            Parameter((), dtype, init=partial(constant, value=value), trainable=False)
            for value in (0.5, -1e-6)
        )

    @override
    def forward(self, x: Tensor) -> Tensor:
        up, down, beta, eps = (
            widened(x.other("xielu", p)) for p in (self.alpha_p, self.alpha_n, self.beta, self.eps)
        )
        wide = widened(x)
        below = (wide.minimum(eps).expm1() - wide) * (beta + down.softplus())
        above = up.softplus() * wide * wide
        return ((wide > 0).where(above, below) + beta * wide).cast(x.dtype)


class ScaledNorm(Module):
    """A norm over the last axis, whose weight gets an offset or has a row for each head."""

    def __init__(self, config: NormConfig, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self.config = config
        init = zeros if config.offset == 1 else ones
        self.weight = Parameter(shape, dtype, init=init) if config.weight else None
        self.bias = Parameter(shape, dtype, init=zeros) if config.bias else None

    @override
    def forward(self, x: Tensor) -> Tensor:
        eps, wide = self.config.eps, widened(x)
        is_rms = self.config.kind == "rms"
        wide = wide.rms_norm((-1,), eps) if is_rms else wide.layer_norm((-1,), eps)
        if self.weight is not None:  # 1 + w is no number of 16 bits, if w is small
            wide = wide * (widened(x.other("norm", self.weight)) + self.config.offset)
        return (wide if self.bias is None else wide + self.bias).cast(x.dtype)

    @override
    def options(self) -> str:
        return f"{self.config.kind}, offset={self.config.offset:g}"


def norm_of(
    config: NormConfig | None, shape: int | tuple[int, ...], dtype: DTypeLike
) -> RMSNorm | LayerNorm | ScaledNorm | None:
    """Return the norm of a configuration, over the last axis, or None without one.

    >>> norm_of(NormConfig(eps=1e-6), 64, "float32")
    RMSNorm(64)  64 parameters
      weight (64,) float32
    """
    shape = (shape,) if isinstance(shape, int) else shape
    if config is None:
        return None
    if len(shape) > 1 or config.offset:
        return ScaledNorm(config, shape, dtype)
    if config.kind == "rms":
        return RMSNorm(shape, config.eps, config.weight, dtype=dtype)
    return LayerNorm(shape, config.eps, config.weight, config.bias, dtype=dtype)
