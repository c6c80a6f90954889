"""Tiny models of transformers', one for each architecture, and their weights as in files."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from luminal_lab.nn.cache import KVCache
from luminal_lab.nn.models.decoder import Decoder
from luminal_lab.nn.models.decoder_weights import load_decoder
from luminal_lab.nn.models.decoders import from_config
from luminal_lab.session import Graph

COMMON: dict[str, Any] = {
    "vocab_size": 29,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
GPT: dict[str, Any] = {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": 29}
PLAIN: dict[str, Any] = {k: v for k, v in COMMON.items() if k != "num_key_value_heads"}
MOE: dict[str, Any] = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 12}
HEAD: dict[str, Any] = {"head_dim": 6}
MIXED = ["sliding_attention", "full_attention"]
CASES: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": {"attention_bias": True, "mlp_bias": True},
    "MistralForCausalLM": {**HEAD, "sliding_window": 4},
    "MinistralForCausalLM": {**HEAD, "sliding_window": 4, "layer_types": MIXED},
    "MixtralForCausalLM": {"num_local_experts": 5, "sliding_window": 4},
    "Qwen2ForCausalLM": {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    "Qwen3ForCausalLM": {**HEAD},
    "Qwen3MoeForCausalLM": {**HEAD, **MOE, "norm_topk_prob": True, "mlp_only_layers": [0]},
    "Qwen2MoeForCausalLM": {**MOE, "shared_expert_intermediate_size": 20},
    "OlmoeForCausalLM": {"num_experts": 5, "num_experts_per_tok": 2, "clip_qkv": 0.5},
    "Phi3ForCausalLM": {"sliding_window": 4},
    "SmolLM3ForCausalLM": {"no_rope_layers": [1, 0]},
    "GraniteForCausalLM": {
        "embedding_multiplier": 3.0,
        "attention_multiplier": 0.3,
        "residual_multiplier": 0.5,
        "logits_scaling": 4.0,
    },
    "GraniteMoeForCausalLM": {"num_local_experts": 5, "attention_multiplier": 0.3},
    "ArceeForCausalLM": {},
    "HeliumForCausalLM": {"head_dim": 4},
    "Ernie4_5ForCausalLM": {**HEAD, "use_bias": True},
    "SeedOssForCausalLM": {**HEAD},
    "ApertusForCausalLM": {},
    "GemmaForCausalLM": {**HEAD},
    "Gemma2ForCausalLM": {
        **HEAD,
        "sliding_window": 4,
        "query_pre_attn_scalar": 9,
        "attn_logit_softcapping": 0.5,
        "final_logit_softcapping": 1.0,
    },
    "Gemma3ForCausalLM": {**HEAD, "sliding_window": 4, "layer_types": MIXED},
    "OlmoForCausalLM": {"clip_qkv": 0.5},
    "Olmo2ForCausalLM": {},
    "Olmo3ForCausalLM": {"sliding_window": 4, "layer_types": MIXED},
    "Exaone4ForCausalLM": {"sliding_window": 4, "layer_types": MIXED},
    "GlmForCausalLM": {"head_dim": 8},
    "Glm4ForCausalLM": {"head_dim": 8},
    "CohereForCausalLM": {"use_qk_norm": True},
    "Cohere2ForCausalLM": {**HEAD, "sliding_window": 4, "layer_types": MIXED},
    "StableLmForCausalLM": {"qk_layernorm": True, "partial_rotary_factor": 0.5},
    "NemotronForCausalLM": {"head_dim": 8},
    "Starcoder2ForCausalLM": {"sliding_window": 4},
    "PhiForCausalLM": {"qk_layernorm": True},
    "PersimmonForCausalLM": {**PLAIN},
    "GPT2LMHeadModel": GPT,
    "GPTBigCodeForCausalLM": GPT,
    "GPTNeoForCausalLM": {
        **PLAIN,
        "num_layers": 2,
        "num_heads": 4,
        "attention_types": [[["global", "local"], 1]],
        "window_size": 4,
    },
    "GPTJForCausalLM": {**GPT, "rotary_dim": 2},
    "CodeGenForCausalLM": {**GPT, "rotary_dim": 2},
    "GPTNeoXForCausalLM": {**PLAIN, "rotary_pct": 0.5},
    "OPTForCausalLM": {**PLAIN, "ffn_dim": 24, "word_embed_proj_dim": 16},
    "BloomForCausalLM": {"vocab_size": 29, "hidden_size": 16, "n_layer": 2, "n_head": 4},
    "FalconForCausalLM": {
        "ffn_hidden_size": 24,
        "new_decoder_architecture": True,
        "num_kv_heads": 2,
    },
    "MptForCausalLM": {
        "d_model": 16,
        "n_heads": 4,
        "n_layers": 2,
        "vocab_size": 29,
        "max_seq_len": 32,
    },
}
UNREAD: dict[str, tuple[str, ...]] = {
    "FalconForCausalLM": ("intermediate_size", "num_key_value_heads"),
}
"""What differs from `COMMON` in the tiny model of each architecture; GPT-2's like have all."""


def keys_of(name: str, **changes: Any) -> dict[str, Any]:
    """Return the keys from which transformers makes the configuration of a tiny model."""
    own = {**CASES[name], **changes}
    whole = any(key in own for key in ("n_embd", "n_head", "d_model", "num_heads"))
    dense = own.get("vocab_size") is not None
    own = own if whole or dense else {**COMMON, **own}
    unread = UNREAD.get(name, ())
    return {key: value for key, value in own.items() if key not in unread}


def theirs(torch: Any, transformers: Any, name: str, keys: Mapping[str, Any], seed: int = 0) -> Any:
    """Return a model of transformers' with random weights everywhere."""
    cls = getattr(transformers, name)
    with warnings.catch_warnings(action="ignore"):
        config = cls.config_class(**keys)
        # The eager attention of Falcon adds ALiBi's slopes twice.
        config._attn_implementation = "sdpa" if "Falcon" in name else "eager"
        torch.manual_seed(seed)
        model = cls(config).eval()
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            is_scale = parameter.ndim < 2 and "norm" in path and path.endswith("weight")
            deep = parameter.shape[-1] if parameter.ndim > 1 else 16
            torch.nn.init.normal_(parameter, float(is_scale), deep**-0.5)
    return model


def weights_of(model: Any) -> dict[str, np.ndarray]:
    """Return the weights of a model by the names that its files have."""
    loading = importlib.import_module("transformers.core_model_loading")
    state = loading.revert_weight_conversion(model, model.state_dict())
    return {name: value.float().numpy() for name, value in state.items()}


def told(model: Any) -> dict[str, Any]:
    """Return what a `config.json` says of a model of transformers'."""
    return {**model.config.to_dict(), "architectures": [type(model).__name__]}


def ours(model: Any) -> Decoder:
    """Return our decoder with the configuration and the weights of a model of transformers'."""
    return load_decoder(from_config(told(model)), weights_of(model))


def logits_of(torch: Any, model: Any, tokens: np.ndarray) -> np.ndarray:
    """Return what a model of transformers' makes of tokens, in one forward."""
    with torch.no_grad():
        return model(torch.tensor(tokens)).logits.numpy()


def prefilled(model: Decoder, tokens: np.ndarray, *passes: Any) -> np.ndarray:
    """Return our logits of all positions at once, for free dims; perhaps compiled."""
    cx = Graph()
    given = cx.tensor(("batch", "seq"), "int64")
    logits = model(given).retrieve()
    given.set(tokens)
    if passes:
        cx.compile(*passes)
    cx.execute()
    return logits.numpy()


def decoded(model: Decoder, tokens: np.ndarray, first: int, *passes: Any) -> np.ndarray:
    """Return our logits, of `first` tokens and then of one at a time, through a cache."""
    cx, (batch, length) = Graph(), tokens.shape
    given = cx.tensor((batch, "seq"), "int64")
    cache = KVCache(cx, length)
    logits = model(given, cache=cache).retrieve()
    if passes:
        cx.compile(*passes)
    cache.begin()
    parts: list[np.ndarray] = []
    for part in np.split(tokens, range(first, length), 1):
        cache.advance()
        given.set(part)
        cx.execute()
        parts.append(logits.numpy().copy())
    return np.concatenate(parts, 1)


def steps_of(torch: Any, model: Any, tokens: np.ndarray, first: int) -> np.ndarray:
    """Return the logits of transformers', of `first` tokens and then of one at a time."""
    parts, cache = list[np.ndarray](), None
    with torch.no_grad():
        for part in np.split(tokens, range(first, tokens.shape[1]), 1):
            result = model(torch.tensor(part), cache=cache, use_cache=True)
            cache = result.cache
            parts.append(result.logits.numpy())
    return np.concatenate(parts, 1)
