"""The table of published decoders: what a `config.json` says of each.

A row is a function that reads an architecture's keys. A key that a row does not read, and that is
not known to be harmless, is an error: what it changes would be missing without a word.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar, cast

from luminal_lab.core.dtypes import DTypeLike
from luminal_lab.errors import ModelError
from luminal_lab.nn.models.decoder import (
    Decoder,
    DecoderConfig,
    FeedConfig,
    NormConfig,
    RopeConfig,
)
from luminal_lab.nn.models.decoder_parts import (
    LAYER_TYPES,
    Feeds,
    Fields,
    Ropes,
    Sizes,
    Windows,
    activation,
    alibi,
    biased,
    experts,
    gated,
    hidden,
    layer_norm,
    plain,
    rms,
    rope,
    sizes,
    stack,
    windows,
)
from luminal_lab.nn.models.keys import Keys

Read: TypeAlias = Callable[[Keys], DecoderConfig]
R = TypeVar("R", bound=Callable[..., DecoderConfig])

_HARMLESS = (
    "_attn_implementation _commit_hash _name_or_path activation_dropout architectures "
    "attention_dropout attention_softmax_in_fp32 attn_implementation attn_pdrop auto_map "
    "bos_token_id cache_implementation chunk_size_feed_forward classifier_dropout "
    "decoder_start_token_id dropout dtype emb_pdrop embd_pdrop embed_dropout "
    "embedding_dropout eod_token_id eos_token_id gradient_checkpointing hidden_dropout "
    "id2label init_device init_std initializer_range input_jitter_noise is_decoder "
    "is_encoder_decoder label2id layerdrop max_sequence_length model_max_length model_type "
    "n_ctx output_attentions output_hidden_states output_router_logits pad_token_id prefix "
    "pretraining_tp problem_type reorder_and_upcast_attn resid_dropout resid_pdrop "
    "residual_dropout return_dict return_dict_in_generate router_aux_loss_coef "
    "router_jitter_noise scale_attention_softmax_in_fp32 slow_but_exact summary_activation "
    "summary_first_dropout summary_proj_to_labels summary_type summary_use_proj "
    "task_specific_params tokenizer_class torch_dtype transformers.js_config "
    "transformers_version unk_token_id unsloth_fixed unsloth_version use_cache "
    "use_flash_attn"
)
HARMLESS: Final = frozenset(_HARMLESS.split())
"""Keys that change nothing of what is computed in use: dropout, first weights, tokens, outputs."""


SPELLINGS: Final = {"MPTForCausalLM": "MptForCausalLM"}
"""What authors called an architecture before Hugging Face did."""
ROWS: dict[str, Read] = {}
"""What reads the keys, by the names of architectures in Hugging Face's files."""
TYPES: dict[str, str] = {}
"""The architectures by their types, as in `"model_type": "llama"`."""


def row(**names: str) -> Callable[[R], R]:
    """Return a decorator that makes a reader the row of some architectures, by their types."""

    def add(read: R) -> R:
        ROWS.update(dict.fromkeys(names.values(), read))
        TYPES.update(names)
        return read

    return add


def from_config(given: Mapping[str, object]) -> DecoderConfig:
    """Return the decoder that a `config.json` describes.

    >>> from_config({"architectures": ["MambaForCausalLM"]})
    Traceback (most recent call last):
      ...
    luminal_lab.errors.ModelError: config.json: the architecture MambaForCausalLM is not known here
    hint: luminal_lab.nn.models.decoders.ROWS has those that are; ll.from_torch takes any model
    """
    keys = Keys("config.json", given)
    kind = keys.get("model_type", default="none")
    names = keys.list("architectures", kind=str) or [TYPES.get(str(kind), str(kind))]
    name = next((name for name in map(SPELLINGS.get, names, names) if name in ROWS), None)
    if name is None:
        raise ModelError(
            f"config.json: the architecture {names[0]} is not known here",
            hint=f"{__name__}.ROWS has those that are; ll.from_torch takes any model",
        )
    known = {**given, "architectures": [name]}
    return read(name, Keys(f"config.json of a {name}", known))


def read(architecture: str, keys: Keys) -> DecoderConfig:
    """Return the decoder that some keys of an architecture describe, all of which must be known."""
    keys.only("quantization_config")
    config = ROWS[architecture](keys)
    keys.done(HARMLESS)
    return config


def _name(k: Keys) -> str:
    """Return the architecture that a row of several reads."""
    return (k.list("architectures", kind=str) or [""])[0]


def decoder_of(config: Mapping[str, object], dtype: DTypeLike = "float32") -> Decoder:
    """Return the decoder that a `config.json` describes, with weights that are drawn.

    >>> decoder_of({"architectures": ["GPT2LMHeadModel"], "n_layer": 1, "n_head": 2, "n_embd": 8,
    ...     "vocab_size": 10, "n_positions": 16})(cx.tensor((1, 5), "int64")).shape
    (1, 5, 10)
    """
    return Decoder(from_config(config), dtype)


# -- names that several share ----------------------------------------------------------------------

BEHIND: Final = {
    "attention_norm": "post_attention_layernorm",
    "mlp_norm": "post_feedforward_layernorm",
}
AROUND: Final = {**BEHIND, "post_attention_layernorm": "pre_feedforward_layernorm"}
GPT2_NAMES: Final = {
    "model.embed_tokens": "transformer.wte",
    "model.embed_positions": "transformer.wpe",
    "model.layers": "transformer.h",
    "model.norm": "transformer.ln_f",
    "input_layernorm": "ln_1",
    "post_attention_layernorm": "ln_2",
    "self_attn.qkv_proj": "attn.c_attn",
    "self_attn.o_proj": "attn.c_proj",
    "mlp.up_proj": "mlp.c_fc",
    "mlp.down_proj": "mlp.c_proj",
}
NEOX_NAMES: Final = {
    "self_attn.qkv_proj": "self_attention.query_key_value",
    "self_attn.o_proj": "self_attention.dense",
    "mlp.up_proj": "mlp.dense_h_to_4h",
    "mlp.down_proj": "mlp.dense_4h_to_h",
}


def _fused(chunks: int) -> Fields:
    return {"bias": True, "out_bias": True, "fused": "qkv", "chunks": chunks}


# -- rows like Llama's -----------------------------------------------------------------------------


@row(llama="LlamaForCausalLM")
def _llama(k: Keys) -> DecoderConfig:
    k.all_only({"rope_interleaved": False, "is_llama_config": True})  # of SmolLM 2
    s, bias = sizes(k), biased(k)
    feed = gated(k, bias=k.flag("mlp_bias", default=False))
    return stack(k, s, rms(k), feed, ropes=rope(k, s), attention=bias)


@row(mistral="MistralForCausalLM", ministral="MinistralForCausalLM")
def _mistral(k: Keys) -> DecoderConfig:
    s = sizes(k, kv_heads=8)
    window = k.maybe("sliding_window", default=4096)
    by_layer = windows(k, s, window)
    return stack(
        k, s, rms(k), gated(k), ropes=rope(k, s), window=window if by_layer is None else by_layer
    )


@row(mixtral="MixtralForCausalLM")
def _mixtral(k: Keys) -> DecoderConfig:
    s = sizes(k, kv_heads=8)
    feed = experts(k, gated(k), 8, 2)
    names = {
        "mlp.router": "block_sparse_moe.gate",
        "mlp.experts.gate_proj": "block_sparse_moe.experts.{}.w1.weight",
        "mlp.experts.down_proj": "block_sparse_moe.experts.{}.w2.weight",
        "mlp.experts.up_proj": "block_sparse_moe.experts.{}.w3.weight",
    }
    window = k.maybe("sliding_window")
    norm = rms(k, 1e-5)
    ropes = rope(k, s, base=1e6)
    return stack(k, s, norm, feed, ropes=ropes, window=window, names=names)


def _qwen_windows(k: Keys, s: Sizes, width: int | None, first: int = 28) -> Sequence[int | None]:
    """Read the windows of layers, which the `first` ones do not have."""
    k.only("use_mrope", False)
    uses = k.flag("use_sliding_window", default=False)
    width = k.maybe("sliding_window", default=width) if uses else None
    first = first and k.whole("max_window_layers", default=first)
    k.get("max_window_layers", default=None)
    k.get("sliding_window", default=None)
    by_layer = windows(k, s, width)
    if by_layer is not None:
        return by_layer
    return [width if number >= first else None for number in range(s.layers)]


@row(qwen2="Qwen2ForCausalLM")
def _qwen2(k: Keys) -> DecoderConfig:
    s = sizes(k)
    window = _qwen_windows(k, s, 4096)
    attention: Fields = {"bias": True}
    return stack(k, s, rms(k), gated(k), ropes=rope(k, s), window=window, attention=attention)


@row(qwen3="Qwen3ForCausalLM")
def _qwen3(
    k: Keys,
    feed: Feeds | None = None,
    names: Mapping[str, str] | None = None,
    head: int | None = 128,
) -> DecoderConfig:
    s, norm, bias = sizes(k, head), rms(k), biased(k)
    window = _qwen_windows(k, s, 4096, 28 if head else 0)
    attention: Fields = {**bias, "norm": norm}
    return stack(
        k,
        s,
        norm,
        feed or gated(k),
        ropes=rope(k, s),
        window=window,
        attention=attention,
        names=names,
    )


EXPERTS: Final = {
    "mlp.router": "mlp.gate",
    "mlp.experts.gate_proj": "mlp.experts.{}.gate_proj.weight",
    "mlp.experts.up_proj": "mlp.experts.{}.up_proj.weight",
    "mlp.experts.down_proj": "mlp.experts.{}.down_proj.weight",
}


def _qwen_feeds(k: Keys, s: Sizes, count: int, chosen: int, small: int, shared: int = 0) -> Feeds:
    dense = gated(k)
    expert = FeedConfig(k.whole("moe_intermediate_size", default=small), dense.activation)
    shared = shared and k.whole("shared_expert_intermediate_size", default=shared)
    adds_up = k.flag("norm_topk_prob", default=False)
    mixed = experts(k, expert, count, chosen, normalised=adds_up, shared=shared)
    step = k.whole("decoder_sparse_step", default=1)
    others = k.list("mlp_only_layers", kind=int) or []
    return [
        mixed if step and number not in others and (number + 1) % step == 0 else dense
        for number in range(s.layers)
    ]


@row(qwen3_moe="Qwen3MoeForCausalLM")
def _qwen3_moe(k: Keys) -> DecoderConfig:
    return _qwen3(k, _qwen_feeds(k, sizes(k), 128, 8, 768), EXPERTS, None)


@row(qwen2_moe="Qwen2MoeForCausalLM")
def _qwen2_moe(k: Keys) -> DecoderConfig:
    s = sizes(k)
    feeds = _qwen_feeds(k, s, 60, 4, 1408, 5632)
    window = _qwen_windows(k, s, 4096)
    attention: Fields = {"bias": k.flag("qkv_bias", default=True)}
    return stack(
        k, s, rms(k), feeds, ropes=rope(k, s), window=window, attention=attention, names=EXPERTS
    )


@row(olmoe="OlmoeForCausalLM")
def _olmoe(k: Keys) -> DecoderConfig:
    s, norm, bias = sizes(k), rms(k, 1e-5), biased(k)
    adds_up = k.flag("norm_topk_prob", default=False)
    feed = experts(k, gated(k), 64, 8, normalised=adds_up)
    attention: Fields = {**bias, "norm": norm, "norm_over": "all"}
    attention["clip"] = k.maybe_above("clip_qkv")
    return stack(k, s, norm, feed, ropes=rope(k, s), attention=attention, names=EXPERTS)


@row(phi3="Phi3ForCausalLM")
def _phi3(k: Keys) -> DecoderConfig:
    s = sizes(k)
    feed = gated(k, fused=True)
    window = k.maybe("sliding_window")
    k.get("original_max_position_embeddings", default=None)
    k.all_only(dict.fromkeys(("attention_bias", "mlp_bias", "lm_head_bias"), False))
    k.all_only({"full_attn_mod": 1, "interpolate_factor": 1})  # of Phi 4
    return stack(
        k, s, rms(k, 1e-5), feed, ropes=rope(k, s), window=window, attention={"fused": "qkv"}
    )


@row(smollm3="SmolLM3ForCausalLM")
def _smollm3(k: Keys) -> DecoderConfig:
    s, bias = sizes(k, kv_heads=4), biased(k)
    feed = gated(k, bias=k.flag("mlp_bias", default=False))
    every = k.whole("no_rope_layer_interval", default=4)
    turned = k.list("no_rope_layers", kind=int, count=s.layers)
    if turned is None:
        turned = [int(not every or (number + 1) % every != 0) for number in range(s.layers)]
    turns = rope(k, s, base=2e6)
    width = k.maybe("sliding_window") if k.flag("use_sliding_window", default=False) else None
    for name in ("sliding_window", "max_window_layers"):
        k.get(name, default=None)
    window = windows(k, s, width) or [None if is_turned else width for is_turned in turned]
    return stack(
        k,
        s,
        rms(k),
        feed,
        ropes=[turns if is_turned else None for is_turned in turned],
        window=window,
        tied=True,
        attention=bias,
    )


@row(granite="GraniteForCausalLM")
def _granite(
    k: Keys, feed: Feeds | None = None, names: Mapping[str, str] | None = None
) -> DecoderConfig:
    s, bias = sizes(k), biased(k)
    feed = feed or gated(k, bias=k.flag("mlp_bias", default=False))
    scale = k.real("attention_multiplier", default=1.0)
    return stack(
        k,
        s,
        rms(k),
        feed,
        ropes=rope(k, s),
        residual=k.real("residual_multiplier", default=1.0),
        attention={**bias, "scale": scale},
        names=names,
        embedding_scale=k.real("embedding_multiplier", default=1.0),
        logit_scale=1 / k.above("logits_scaling", default=1.0),
    )


@row(granitemoe="GraniteMoeForCausalLM")
def _granite_moe(k: Keys) -> DecoderConfig:
    names = {
        "mlp.router": "block_sparse_moe.router.layer",
        "mlp.experts.gate_up_proj": "block_sparse_moe.input_linear.weight",
        "mlp.experts.down_proj": "block_sparse_moe.output_linear.weight",
    }
    return _granite(k, experts(k, gated(k, fused=True), 8, 2), names)


@row(arcee="ArceeForCausalLM")
def _arcee(k: Keys) -> DecoderConfig:
    s, bias = sizes(k), biased(k)
    feed = plain(gated(k, "relu2", k.flag("mlp_bias", default=False)))
    return stack(k, s, rms(k, 1e-5), feed, ropes=rope(k, s), attention=bias)


@row(helium="HeliumForCausalLM")
def _helium(k: Keys) -> DecoderConfig:
    s, bias = sizes(k, 128), k.flag("attention_bias", default=False)
    feed = gated(k, bias=k.flag("mlp_bias", default=False))
    turns = rope(k, s, interleaved=True, base=1e5)
    return stack(k, s, rms(k, 1e-8), feed, ropes=turns, attention={"bias": bias})


@row(ernie4_5="Ernie4_5ForCausalLM")
def _ernie(k: Keys) -> DecoderConfig:
    s, bias = sizes(k, 128, kv_heads=2), biased(k, "use_bias")
    return stack(
        k,
        s,
        rms(k, 1e-5),
        gated(k, bias=bias["bias"]),
        ropes=rope(k, s, interleaved=True, base=5e5),
        tied=True,
        attention=bias,
    )


@row(seed_oss="SeedOssForCausalLM")
def _seed_oss(k: Keys) -> DecoderConfig:
    s = sizes(k, 128, kv_heads=8)
    attention: Fields = {
        "bias": k.flag("attention_bias", default=True),
        "out_bias": k.flag("attention_out_bias", default=False),
    }
    feed = gated(k, bias=k.flag("mlp_bias", default=False))
    return stack(k, s, rms(k), feed, ropes=rope(k, s), attention=attention)


@row(apertus="ApertusForCausalLM")
def _apertus(k: Keys) -> DecoderConfig:
    k.all_only({"post_norm": False, "qk_norm": True})
    s, norm, bias = sizes(k), rms(k, 1e-5), biased(k)
    names = {
        "input_layernorm": "attention_layernorm",
        "post_attention_layernorm": "feedforward_layernorm",
    }
    return stack(
        k,
        s,
        norm,
        plain(gated(k, "xielu", k.flag("mlp_bias", default=False))),
        ropes=rope(k, s, base=12e6),
        attention={**bias, "norm": norm},
        names=names,
    )


# -- rows with norms elsewhere, or of another kind -------------------------------------------------


@row(gemma="GemmaForCausalLM")
def _gemma(k: Keys) -> DecoderConfig:
    s, bias = sizes(k, 256), biased(k)
    k.only("use_bidirectional_attention", False)
    return stack(
        k,
        s,
        rms(k, offset=1.0),
        gated(k, "gelu_pytorch_tanh"),
        ropes=rope(k, s),
        tied=True,
        attention=bias,
        embedding_scale=math.sqrt(s.width),
    )


@row(gemma2="Gemma2ForCausalLM")
def _gemma2(k: Keys) -> DecoderConfig:
    return _gemmas(k, 1, k.maybe_above("attn_logit_softcapping"), None)


@row(gemma3_text="Gemma3ForCausalLM")
def _gemma3(k: Keys) -> DecoderConfig:
    every = k.whole("sliding_window_pattern", "_sliding_window_pattern", default=6)
    return _gemmas(k, every - 1, k.maybe_above("attn_logit_softcapping"), rms(k, offset=1.0))


def _gemmas(k: Keys, local: int, cap: float | None, head: NormConfig | None) -> DecoderConfig:
    """Return a Gemma 2 or 3; after `local` layers with a window comes one without."""
    s, bias = sizes(k, 256, kv_heads=4), biased(k)
    k.only("use_bidirectional_attention", False)
    width = k.maybe("sliding_window", "sliding_window_size", default=4096)
    window = windows(k, s, width) or [
        None if (number + 1) % (local + 1) == 0 else width for number in range(s.layers)
    ]
    turns = rope(k, s, base=1e4 if head is None else 1e6, kind="full_attention")
    near = turns
    if head is not None:
        near = replace(turns, base=k.above("rope_local_base_freq", default=1e4), scaling=None)
        told = k.inner("rope_parameters")
        if told is not None and "sliding_attention" in told.given:
            near = rope(k, s, kind="sliding_attention")
    attention: Fields = {
        **bias,
        "scale": k.above("query_pre_attn_scalar", default=256) ** -0.5,
        "soft_cap": cap,
        "norm": head,
    }
    return stack(
        k,
        s,
        rms(k, offset=1.0),
        gated(k, "gelu_pytorch_tanh"),
        ropes=[turns if w is None else near for w in window],
        window=window,
        after=True,
        tied=True,
        attention=attention,
        names=AROUND,
        embedding_scale=math.sqrt(s.width),
        logit_cap=k.maybe_above("final_logit_softcapping"),
    )


@row(olmo="OlmoForCausalLM")
def _olmo(k: Keys) -> DecoderConfig:
    s, bias = sizes(k), biased(k)
    norm = replace(layer_norm(k, bias=False), weight=False)
    attention: Fields = {**bias, "clip": k.maybe_above("clip_qkv")}
    return stack(k, s, norm, gated(k), ropes=rope(k, s), attention=attention)


@row(olmo2="Olmo2ForCausalLM", olmo3="Olmo3ForCausalLM")
def _olmo2(k: Keys) -> DecoderConfig:
    s, norm, bias = sizes(k), rms(k, 1e-5), biased(k)
    is_third = _name(k) == "Olmo3ForCausalLM"
    width = k.maybe("sliding_window", default=4096) if is_third else None
    window = windows(k, s, width) or [
        width if (number + 1) % 4 else None for number in range(s.layers)
    ]
    far, near = (rope(k, s, kind=kind) for kind in LAYER_TYPES)
    attention: Fields = {**bias, "norm": norm, "norm_over": "all"}
    return stack(
        k,
        s,
        norm,
        gated(k),
        ropes=[far if w is None else near for w in window],
        window=window,
        before="",
        after=True,
        attention=attention,
        names=BEHIND,
    )


@row(exaone4="Exaone4ForCausalLM")
def _exaone4(k: Keys) -> DecoderConfig:
    s, norm = sizes(k), rms(k, 1e-5)
    width = k.maybe("sliding_window", default=4096)
    k.get("sliding_window_pattern", default=None)
    window, turns = windows(k, s, width), rope(k, s)
    if window is None:
        every = k.whole("sliding_window_pattern", default=4) if width else 0
        window = [width if every and (number + 1) % every else None for number in range(s.layers)]
    return stack(
        k,
        s,
        norm,
        gated(k),
        ropes=[turns if width is None or w is not None else None for w in window],
        window=window,
        before="",
        after=True,
        attention={"norm": norm},
        names=BEHIND,
    )


@row(glm="GlmForCausalLM", glm4="Glm4ForCausalLM")
def _glm(k: Keys) -> DecoderConfig:
    s = sizes(k, 128, kv_heads=2)
    after = _name(k) == "Glm4ForCausalLM"
    norm, bias = rms(k, 0.00000015625), k.flag("attention_bias", default=True)
    turns = rope(k, s, interleaved=True, share=0.5)
    names = {"attention_norm": "post_self_attn_layernorm", "mlp_norm": "post_mlp_layernorm"}
    return stack(
        k,
        s,
        norm,
        gated(k, fused=True),
        ropes=turns,
        after=after,
        attention={"bias": bias},
        names=names,
    )


@row(cohere="CohereForCausalLM")
def _cohere(
    k: Keys, ropes: Ropes = None, window: Windows = None, head: int | None = None
) -> DecoderConfig:
    s, norm, bias = sizes(k, head), layer_norm(k, False), biased(k)
    attention: Fields = {**bias, "norm_over": "heads"}
    attention["norm"] = norm if k.flag("use_qk_norm", default=False) else None
    return stack(
        k,
        s,
        norm,
        gated(k),
        ropes=ropes or rope(k, s, interleaved=True, base=5e5),
        window=window,
        before="attention",
        parallel=True,
        tied=True,
        attention=attention,
        logit_scale=k.real("logit_scale", default=0.0625),
    )


COHERE2: Final[Mapping[str, object]] = {
    "layer_switch": 4,
    "order_of_interleaved_layers": "local_attn_first",
    "position_embedding_type": "rope_gptj",
    "use_embedding_sharing": True,
    "use_gated_activation": True,
    "use_parallel_block": True,
    "use_parallel_embedding": True,
}
"""What published files say of what is done anyway."""


@row(cohere2="Cohere2ForCausalLM")
def _cohere2(k: Keys) -> DecoderConfig:
    k.all_only(COHERE2)
    s = sizes(k, 128)
    width = k.maybe("sliding_window", default=4096)
    every = k.whole("sliding_window_pattern", "_sliding_window_pattern", default=4)
    window = windows(k, s, width) or [
        width if (number + 1) % every else None for number in range(s.layers)
    ]
    turns = rope(k, s, interleaved=True)
    return _cohere(k, [None if w is None else turns for w in window], window, 128)


@row(stablelm="StableLmForCausalLM")
def _stablelm(k: Keys) -> DecoderConfig:
    s, norm = sizes(k), layer_norm(k)
    is_parallel = k.flag("use_parallel_residual", default=False)
    has_norm = k.flag("qk_layernorm", default=False)
    attention: Fields = {"bias": k.flag("use_qkv_bias", default=False)}
    attention["norm"] = replace(norm, bias=False) if has_norm else None
    attention["norm_over"] = "heads"
    names = {
        f"self_attn.{part}_norm.weight": f"self_attn.{part}_layernorm.norms.{{}}.weight"
        for part in "qk"
    }
    return stack(
        k,
        s,
        norm,
        gated(k),
        ropes=rope(k, s, share=0.25),
        before="attention" if is_parallel else "both",
        parallel=is_parallel,
        attention=attention,
        names=names,
    )


@row(nemotron="NemotronForCausalLM")
def _nemotron(k: Keys) -> DecoderConfig:
    s, bias = sizes(k), biased(k)
    feed = plain(gated(k, "relu2", k.flag("mlp_bias", default=False)))
    return stack(k, s, layer_norm(k, offset=1.0), feed, ropes=rope(k, s, share=0.5), attention=bias)


@row(starcoder2="Starcoder2ForCausalLM")
def _starcoder2(k: Keys) -> DecoderConfig:
    k.all_only({"mlp_type": "default", "norm_type": "layer_norm"})
    s, bias = sizes(k, kv_heads=2), biased(k, "use_bias", True)
    feed = plain(gated(k, "gelu_pytorch_tanh", bias["bias"]))
    window = k.maybe("sliding_window")
    return stack(
        k,
        s,
        layer_norm(k),
        feed,
        ropes=rope(k, s),
        window=window,
        tied=True,
        attention=bias,
        names={"mlp.up_proj": "mlp.c_fc", "mlp.down_proj": "mlp.c_proj"},
    )


@row(phi="PhiForCausalLM")
def _phi(k: Keys) -> DecoderConfig:
    s, norm = sizes(k), layer_norm(k)
    has_norm = k.flag("qk_layernorm", default=False)
    names = {
        "model.norm": "model.final_layernorm",
        "self_attn.o_proj": "self_attn.dense",
        "self_attn.q_norm": "self_attn.q_layernorm",
        "self_attn.k_norm": "self_attn.k_layernorm",
        "mlp.up_proj": "mlp.fc1",
        "mlp.down_proj": "mlp.fc2",
    }
    return stack(
        k,
        s,
        norm,
        plain(gated(k, "gelu_new", True)),
        ropes=rope(k, s, share=0.5),
        before="attention",
        parallel=True,
        attention={"bias": True, "out_bias": True, "norm": norm if has_norm else None},
        names=names,
        head_bias=True,
    )


@row(persimmon="PersimmonForCausalLM")
def _persimmon(k: Keys) -> DecoderConfig:
    s, norm = sizes(k), layer_norm(k)
    has_norm = k.flag("qk_layernorm", default=True)
    names = {
        **NEOX_NAMES,
        "model.norm": "model.final_layernorm",
        "self_attn.qkv_proj": "self_attn.query_key_value",
        "self_attn.o_proj": "self_attn.dense",
        "self_attn.q_norm": "self_attn.q_layernorm",
        "self_attn.k_norm": "self_attn.k_layernorm",
    }
    attention = _fused(s.heads) | {"norm": norm if has_norm else None}
    return stack(
        k,
        s,
        norm,
        plain(gated(k, "relu2", True)),
        ropes=rope(k, s, share=0.5),
        attention=attention,
        names=names,
    )


# -- rows like GPT-2's -----------------------------------------------------------------------------


def _gpt(
    k: Keys,
    s: Sizes,
    act: str,
    attention: Fields,
    bias: bool = True,
    tied: bool = True,
    **more: Any,
) -> DecoderConfig:
    """Return a decoder whose parts have biases, and layer norms before them."""
    feed = FeedConfig(hidden(k, s, "ffn_dim"), activation(k, act), False, bias)
    more = {"tied": True, **more}
    return stack(k, s, layer_norm(k), feed, attention=attention, **more)


def _scaled(k: Keys) -> Fields:
    return {"scale": None if k.flag("scale_attn_weights", default=True) else 1.0}


@row(gpt2="GPT2LMHeadModel")
def _gpt2(k: Keys) -> DecoderConfig:
    s = sizes(k)
    k.all_only({"scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False})
    attention = _fused(1) | _scaled(k)
    return _gpt(k, s, "gelu_new", attention, names=GPT2_NAMES, positions=0, layout="in,out")


@row(gpt_bigcode="GPTBigCodeForCausalLM")
def _bigcode(k: Keys) -> DecoderConfig:
    is_shared = k.flag("multi_query", default=True)
    s = replace(sizes(k), kv_heads=1) if is_shared else sizes(k)
    runner = "inference_runner", "max_batch_size", "max_sequence_length", "pad_key_length"
    for name in (*runner, "pre_allocate_kv_cache", "validate_runner_input"):
        k.get(name, default=None)
    k.only("add_cross_attention", False)
    attention = _fused(1 if is_shared else s.heads) | _scaled(k)
    return _gpt(k, s, "gelu_pytorch_tanh", attention, names=GPT2_NAMES, positions=0)


def _unrolled(groups: object, most: int) -> list[str]:
    """Return the names of [[["global", "local"], 12]] in a row, each group as often as it says."""
    names: list[str] = []
    for group in cast("list[object]", groups) if isinstance(groups, (list, tuple)) else []:
        pair = cast("list[object]", group) if isinstance(group, (list, tuple)) else []
        match pair:
            case [part, int() as times] if isinstance(part, list):
                names += list(map(str, cast("list[object]", part))) * min(times, most)
            case _:
                pass
    return names


@row(gpt_neo="GPTNeoForCausalLM")
def _gpt_neo(k: Keys) -> DecoderConfig:
    s, width = sizes(k), k.whole("window_size", default=256)
    groups = _unrolled(k.get("attention_types", default=[]), s.layers)
    kinds = k.list("attention_layers", kind=str, count=s.layers) or groups
    if len(kinds) != s.layers or any(kind not in ("global", "local") for kind in kinds):
        raise k.wrong("attention_types", f"must say global or local for {s.layers} layers")
    names = {
        **GPT2_NAMES,
        "self_attn.o_proj": "attn.attention.out_proj",
        **{f"self_attn.{part}_proj": f"attn.attention.{part}_proj" for part in "qkv"},
    }
    window = [width if kind == "local" else None for kind in kinds]
    attention: Fields = {"out_bias": True, "scale": 1.0}
    return _gpt(k, s, "gelu_new", attention, names=names, window=window, positions=0)


@row(gptj="GPTJForCausalLM", codegen="CodeGenForCausalLM")
def _gptj(k: Keys) -> DecoderConfig:
    s = sizes(k)
    size = k.maybe("rotary_dim", default=64) or s.size
    is_codegen = _name(k) == "CodeGenForCausalLM"
    names = {
        **GPT2_NAMES,
        "self_attn.o_proj": "attn.out_proj",
        "self_attn.qkv_proj": "attn.qkv_proj",
        **{f"self_attn.{part}_proj": f"attn.{part}_proj" for part in "qkv"},
        "mlp.up_proj": "mlp.fc_in",
        "mlp.down_proj": "mlp.fc_out",
    }
    return _gpt(
        k,
        s,
        "gelu_new",
        {"fused": "qvk", "chunks": 4} if is_codegen else {},
        names=names,
        ropes=RopeConfig(size, interleaved=True),
        before="attention",
        parallel=True,
        tied=False,
        head_bias=True,
    )


@row(gpt_neox="GPTNeoXForCausalLM")
def _neox(k: Keys) -> DecoderConfig:
    s, bias = sizes(k), biased(k, default=True)
    names = {
        **NEOX_NAMES,
        "model.embed_tokens": "gpt_neox.embed_in",
        "model.layers": "gpt_neox.layers",
        "model.norm": "gpt_neox.final_layer_norm",
        "lm_head": "embed_out",
        "self_attn.qkv_proj": "attention.query_key_value",
        "self_attn.o_proj": "attention.dense",
    }
    return _gpt(
        k,
        s,
        "gelu",
        _fused(s.heads) | bias,
        names=names,
        ropes=rope(k, s, share=0.25),
        parallel=k.flag("use_parallel_residual", default=True),
        tied=False,
    )


@row(opt="OPTForCausalLM")
def _opt(k: Keys) -> DecoderConfig:
    s, bias = sizes(k), biased(k, "enable_bias", True)
    k.all_only({"do_layer_norm_before": True, "_remove_final_layer_norm": False})
    k.all_only({"layer_norm_elementwise_affine": True, "word_embed_proj_dim": s.width})
    names = {
        "model.embed_tokens": "model.decoder.embed_tokens",
        "model.embed_positions": "model.decoder.embed_positions",
        "model.layers": "model.decoder.layers",
        "model.norm": "model.decoder.final_layer_norm",
        "input_layernorm": "self_attn_layer_norm",
        "post_attention_layernorm": "final_layer_norm",
        "self_attn.o_proj": "self_attn.out_proj",
        "mlp.up_proj": "fc1",
        "mlp.down_proj": "fc2",
    }
    return _gpt(k, s, "relu", bias, bias=bias["bias"], names=names, positions=2)


@row(bloom="BloomForCausalLM")
def _bloom(k: Keys) -> DecoderConfig:
    s = sizes(k)
    s = replace(s, context=k.maybe("seq_length") or s.context)
    k.only("apply_residual_connection_post_layernorm", False)
    fast = "bias_dropout_fusion", "masked_softmax_fusion", "offset_alibi"
    for name in (*fast, "skip_bias_add", "skip_bias_add_qkv"):  # of the training
        k.get(name, default=None)
    names = {
        **NEOX_NAMES,
        "model.embed_tokens": "transformer.word_embeddings",
        "model.embed_norm": "transformer.word_embeddings_layernorm",
        "model.layers": "transformer.h",
        "model.norm": "transformer.ln_f",
    }
    return _gpt(
        k,
        s,
        "gelu_new",
        _fused(s.heads) | {"slopes": alibi(s.heads)},
        names=names,
        embedding_norm=layer_norm(k),
    )


@row(falcon="FalconForCausalLM")
def _falcon(k: Keys) -> DecoderConfig:
    s, bias = sizes(k), biased(k, "bias")
    k.only("apply_residual_connection_post_layernorm", False)
    is_new = k.flag("new_decoder_architecture", default=False)
    is_shared = k.flag("multi_query", default=True)
    kv_heads = k.maybe("num_kv_heads", "n_head_kv") or s.heads
    s = replace(s, kv_heads=kv_heads if is_new else 1 if is_shared else s.heads)
    norms = k.maybe("num_ln_in_parallel_attn") or (2 if is_new else 1)
    is_parallel = k.flag("parallel_attn", default=True) or (is_new and norms == 2)
    has_two = not is_parallel or (is_new and norms == 2)
    names = {
        **NEOX_NAMES,
        "model.embed_tokens": "transformer.word_embeddings",
        "model.layers": "transformer.h",
        "model.norm": "transformer.ln_f",
    }
    if is_new and norms == 2:
        names |= {"input_layernorm": "ln_attn", "post_attention_layernorm": "ln_mlp"}
    attention = _fused(s.kv_heads) | bias
    ropes: Ropes = rope(k, s)
    if k.flag("alibi", default=False):
        ropes, attention["slopes"] = None, alibi(s.heads, scale=s.size**-0.5)
    size = k.maybe("ffn_hidden_size") or 4 * s.width
    feed = FeedConfig(size, activation(k, "gelu"), gated=False, bias=bias["bias"])
    return stack(
        k,
        s,
        layer_norm(k),
        feed,
        ropes=ropes,
        before="both" if has_two else "attention",
        parallel=is_parallel,
        tied=True,
        attention=attention,
        names=names,
    )


@row(mpt="MptForCausalLM")
def _mpt(k: Keys) -> DecoderConfig:
    s, told = sizes(k), k.inner("attn_config") or Keys("attn_config", {})
    k.only("logit_scale")
    k.all_only({"expansion_ratio": 4, "no_bias": True, "norm_type": "low_precision_layernorm"})
    for name in ("learned_pos_emb", "init_config", "tokenizer_name", "verbose"):
        k.get(name, default=None)
    k.only("embedding_fraction", 1.0)
    told.all_only({"attn_type": "multihead_attention", "alibi": True})
    told.all_only(dict.fromkeys(("prefix_lm", "qk_ln", "attn_uses_sequence_id"), False))
    attention: Fields = {
        "fused": "qkv",
        "slopes": alibi(s.heads, told.above("alibi_bias_max", default=8)),
        "clip": told.maybe_above("clip_qkv"),
        "scale": told.maybe_above("softmax_scale"),
    }
    told.done({*HARMLESS, "attn_impl"})
    names = {
        "model.embed_tokens": "transformer.wte",
        "model.layers": "transformer.blocks",
        "model.norm": "transformer.norm_f",
        "input_layernorm": "norm_1",
        "post_attention_layernorm": "norm_2",
        "self_attn.qkv_proj": "attn.Wqkv",
        "self_attn.o_proj": "attn.out_proj",
        "mlp.up_proj": "ffn.up_proj",
        "mlp.down_proj": "ffn.down_proj",
    }
    feed = FeedConfig(4 * s.width, "gelu", gated=False)
    norm = layer_norm(k, bias=False)
    return stack(k, s, norm, feed, tied=True, attention=attention, names=names)
