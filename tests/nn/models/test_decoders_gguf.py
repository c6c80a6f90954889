"""Decoders from GGUF files, made of models of transformers' as llama.cpp's converter does it."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from luminal_lab.errors import LabError, ModelError
from luminal_lab.nn.models.decoder_weights import load_decoder
from luminal_lab.nn.models.decoders_gguf import FORMATS, from_gguf
from luminal_lab.nn.rope import FactorScaling, LinearScaling, YarnScaling
from tests.expect import error_of
from tests.needs import need
from tests.nn.beside import close
from tests.nn.models.published import (
    keys_of,
    logits_of,
    prefilled,
    theirs,
    weights_of,
)

TOLERANCE = 1e-5
TOKENS = np.random.default_rng(2).integers(0, 29, (2, 9))
KINDS = {form.name: kind for kind, form in FORMATS.items()}
KINDS |= dict.fromkeys(("MistralForCausalLM", "MixtralForCausalLM"), "llama")
KINDS |= {"Olmo3ForCausalLM": "olmo2"}
PERMUTED = {"llama", "granite", "granitemoe", "olmo", "smollm3", "arcee"}
LOCAL = ["sliding_attention"] * 3 + ["full_attention"]
CHANGES: dict[str, dict[str, Any]] = {
    "MistralForCausalLM": {"sliding_window": None},
    "MixtralForCausalLM": {"sliding_window": None, "rope_parameters": {"rope_theta": 100.0}},
    "Qwen2ForCausalLM": {"use_sliding_window": False},
    "Qwen3MoeForCausalLM": {"mlp_only_layers": []},
    "OlmoeForCausalLM": {"clip_qkv": None},
    "SmolLM3ForCausalLM": {"num_hidden_layers": 4, "no_rope_layers": None},
    "Gemma2ForCausalLM": {"query_pre_attn_scalar": 6},
    "Gemma3ForCausalLM": {
        "query_pre_attn_scalar": 6,
        "num_hidden_layers": 6,
        "layer_types": None,
    },
    "Olmo3ForCausalLM": {"num_hidden_layers": 4, "layer_types": LOCAL},
    "Exaone4ForCausalLM": {"num_hidden_layers": 4, "layer_types": LOCAL},
    "Cohere2ForCausalLM": {"num_hidden_layers": 4, "layer_types": LOCAL},
    "PhiForCausalLM": {"qk_layernorm": False},
}
"""What a file of GGUF cannot say, or says by itself."""


@pytest.fixture(scope="module")
def transformers():
    need("gguf")
    package = need("transformers")
    package.logging.set_verbosity_error()
    return package


def metadata_of(kind: str, config: Any) -> dict[str, Any]:
    """Return the keys that the converter writes."""

    def get(*names: str, default: Any = None) -> Any:
        there = [getattr(config, name, None) for name in names]
        return next((value for value in there if value is not None), default)

    width = get("hidden_size", "n_embd", "d_model")
    heads = get("num_attention_heads", "n_head", "n_heads")
    turns = get("rope_parameters", default={})
    turns = turns.get("full_attention", turns)
    size = get("head_dim", default=width // heads)
    told = {
        "context_length": get("max_position_embeddings", "n_positions", "max_seq_len", default=64),
        "embedding_length": width,
        "block_count": get("num_hidden_layers", "n_layer", "n_layers"),
        "feed_forward_length": get("intermediate_size", "ffn_hidden_size", "n_inner") or 4 * width,
        "attention.head_count": heads,
        "attention.layer_norm_rms_epsilon": get("rms_norm_eps"),
        "attention.layer_norm_epsilon": get(
            "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"
        ),
        "attention.head_count_kv": get("num_key_value_heads", "num_kv_heads"),
        "attention.key_length": size if hasattr(config, "head_dim") else None,
        "attention.value_length": size if hasattr(config, "head_dim") else None,
        "attention.sliding_window": get("sliding_window"),
        "attention.clamp_kqv": get("clip_qkv"),
        "rope.freq_base": turns.get("rope_theta"),
        "rope.dimension_count": int(size * turns.get("partial_rotary_factor", 1.0)),
        "vocab_size": config.vocab_size,
        "use_parallel_residual": get("use_parallel_residual"),
        "logit_scale": get("logit_scale", "logits_scaling"),
        "attention.scale": get("attention_multiplier"),
        "residual_scale": get("residual_multiplier"),
        "embedding_scale": get("embedding_multiplier"),
        "attn_logit_softcapping": get("attn_logit_softcapping"),
        "final_logit_softcapping": get("final_logit_softcapping"),
        "expert_count": get("num_experts", "num_local_experts"),
        "expert_used_count": get("num_experts_per_tok"),
        "expert_feed_forward_length": get("moe_intermediate_size"),
        "expert_shared_feed_forward_length": get("shared_expert_intermediate_size"),
        "attention.max_alibi_bias": 8.0 if kind == "mpt" else None,
    }
    if kind == "olmo":
        told["attention.layer_norm_epsilon"] = 1e-5
    if not FORMATS[kind].rope:
        told["rope.freq_base"] = told["rope.dimension_count"] = None
    given = {f"{kind}.{key}": value for key, value in told.items() if value is not None}
    return {"general.architecture": kind, "tokenizer.ggml.model": "gpt2", **given}


def permuted(value: np.ndarray, heads: int) -> np.ndarray:
    """Return rows in the order of neighbours."""
    apart = value.reshape(heads, 2, -1, *value.shape[1:])
    return apart.swapaxes(1, 2).reshape(value.shape)


def in_parts(value: np.ndarray, groups: int, queries: int) -> np.ndarray:
    """Return queries, keys and values one after the other, of groups with all three."""
    apart = value.reshape(groups, queries + 2, -1, *value.shape[1:])
    parts = apart[:, :-2], apart[:, -2:-1], apart[:, -1:]
    return np.concatenate([part.reshape(-1, *value.shape[1:]) for part in parts])


REARRANGED: list[tuple[Any, str, Any]] = [
    (PERMUTED, r".*q_proj.*", lambda v, h, kv: permuted(v, h)),
    (PERMUTED, r".*k_proj.*", lambda v, h, kv: permuted(v, kv)),
    ({"gpt2"}, r".*(c_attn|c_proj|c_fc)\.weight", lambda v, h, kv: v.T),
    ({"gptneox", "bloom"}, r".*query_key_value.*", lambda v, h, kv: in_parts(v, h, 1)),
    ({"falcon"}, r".*query_key_value.*", lambda v, h, kv: in_parts(v, kv, h // kv)),
    ({"gemma", "gemma2", "gemma3", "nemotron"}, r".*norm\.weight", lambda v, h, kv: v + 1),
    ({"qwen2moe"}, r".*shared_expert_gate.*", lambda v, h, kv: v.squeeze()),
]
"""What is done to weights of some architectures, by their heads."""
EXPERTS = {
    "block_sparse_moe.experts.w1": "mlp.experts.gate_proj",
    "block_sparse_moe.experts.w2": "mlp.experts.down_proj",
    "block_sparse_moe.experts.w3": "mlp.experts.up_proj",
    "block_sparse_moe.output_linear": "mlp.experts.down_proj",
    "_layernorm.norms": "_layernorm",
}


def changed(kind: str, config: Any, state: dict[str, np.ndarray]) -> Iterator[tuple[str, Any]]:
    """Return the weights as the converter leaves them, by the names that they had."""
    heads = [getattr(config, n, 0) for n in ("num_attention_heads", "n_head", "n_heads")]
    shared = [getattr(config, n, 0) for n in ("num_kv_heads", "num_key_value_heads")]
    counts = max(heads), max(map(int, filter(None, shared)), default=max(heads))
    stacks: dict[str, list[np.ndarray]] = {}
    for name, value in state.items():
        for kinds, pattern, change in REARRANGED:
            if kind in kinds and re.fullmatch(pattern, name):
                value = change(value, *counts)
        if "input_linear" in name:
            for part, half in zip(("gate", "up"), np.split(value, 2, 1), strict=True):
                new = f"mlp.experts.{part}_proj"
                yield name.replace("block_sparse_moe.input_linear", new), half
        else:
            stem = re.sub(r"(experts|norms)\.\d+\.", r"\1.", name)
            stacks.setdefault(stem, []).append(value)
    for name, values in stacks.items():
        for old, new in EXPERTS.items():
            name = name.replace(old, new)
        yield name, values[0] if len(values) == 1 else np.stack(values)


def tensors_of(kind: str, config: Any, state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the tensors of a GGUF file."""
    gguf = need("gguf")
    number = next(n for n, name in gguf.MODEL_ARCH_NAMES.items() if name == kind)
    names = gguf.get_tensor_name_map(number, 8)
    tensors: dict[str, np.ndarray] = {}
    for name, value in changed(kind, config, state):
        if getattr(config, "tie_word_embeddings", False) and name == "lm_head.weight":
            continue
        ends = (".weight", ".bias")
        new = names.get_name(name, ends) or names.get_name(name.removeprefix("transformer."), ends)
        assert new is not None, name
        tensors[new] = value
    return tensors


@pytest.mark.parametrize("name", sorted(KINDS))
def test_logits_are_those_of_transformers(torch, transformers, name):
    keys = keys_of(name, **CHANGES.get(name, {}))
    witness = theirs(torch, transformers, name, keys)
    kind = KINDS[name]
    metadata = metadata_of(kind, witness.config)
    tensors = tensors_of(kind, witness.config, weights_of(witness))
    model = load_decoder(from_gguf(metadata, tensors), tensors)
    close(prefilled(model, TOKENS), logits_of(torch, witness, TOKENS), TOLERANCE, "the logits")


# -- keys ------------------------------------------------------------------------------------------

LLAMA: dict[str, Any] = {
    "general.architecture": "llama",
    "general.name": "Tiny",
    "general.file_type": 1,
    "llama.vocab_size": 29,
    "llama.context_length": 2048,
    "llama.embedding_length": 32,
    "llama.block_count": 2,
    "llama.feed_forward_length": 64,
    "llama.rope.dimension_count": 8,
    "llama.rope.freq_base": 500000.0,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.attention.layer_norm_rms_epsilon": 9.999999747378752e-06,
    "tokenizer.ggml.tokens": ["a"],
}


def test_keys_of_a_llama():
    config = from_gguf(LLAMA, {"output.weight": np.zeros((29, 32))})
    layer = config.layers[1].attention
    assert layer.rope is not None
    assert (layer.size, layer.kv_heads, layer.rope.base, layer.rope.interleaved) == (
        8,
        2,
        500000.0,
        True,
    )
    assert (config.vocab, config.tied, config.context) == (29, False, 2048)
    assert from_gguf(LLAMA, {}).tied


@pytest.mark.parametrize(
    ("scaling", "wanted"),
    [
        ({"rope.scaling.type": "none"}, None),
        ({"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}, LinearScaling(4.0)),
        ({"rope.scale_linear": 4.0}, LinearScaling(4.0)),
        (
            {
                "rope.scaling.type": "yarn",
                "rope.scaling.factor": 4.0,
                "rope.scaling.original_context_length": 512,
                "rope.scaling.finetuned": True,
            },
            YarnScaling(4.0, 512, amplitude=YarnScaling(4.0, 512).waves()),
        ),
        ({}, FactorScaling((1.0, 2.0, 4.0, 8.0))),
        (
            {
                "rope.scaling.type": "longrope",
                "rope.scaling.attn_factor": 1.25,
                "rope.scaling.original_context_length": 512,
            },
            FactorScaling((1.0,) * 4, (3.0,) * 4, 512, 1.25),
        ),
    ],
)
def test_scalings(scaling, wanted):
    tensors = {
        "rope_factors_short.weight": np.ones(4, "float32"),
        "rope_factors_long.weight": np.full(4, 3, "float32"),
    }
    if not scaling:  # as in files of Llama 3.1
        tensors["rope_freqs.weight"] = np.array([1, 2, 4, 8], "float32")
    config = from_gguf({**LLAMA, **{f"llama.{k}": v for k, v in scaling.items()}}, tensors)
    rope = config.layers[0].attention.rope
    assert rope is not None
    assert rope.scaling == wanted


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"twist": 3}, "GGUF of a llama: the key twist, 3, is not known here"),
        (
            {"attention.sliding_window": 8},
            "GGUF of a llama: the key attention.sliding_window, 8, is not known here",
        ),
        (
            {"rope.scaling.twist": 8},
            "GGUF of a llama: the key rope.scaling.twist, 8, is not known here",
        ),
        (
            {"attention.value_length": 16},
            "GGUF of a llama: the key attention.value_length is 16, and only 8 is known here",
        ),
        (
            {"expert_gating_func": 2},
            "GGUF of a llama: the key expert_gating_func is 2, and only 0 or 1 is known here",
        ),
        (
            {"block_count": 10**18},
            "GGUF of a llama: the key block_count is 1000000000000000000, and must be a whole "
            "number from 0 to 1,000",
        ),
        (
            {"rope.dimension_count": 9},
            "GGUF of a llama: the key rope.dimension_count is 9, and a head has 8",
        ),
        (
            {"rope.scaling.type": "longrope"},
            "GGUF of a llama: the tensor rope_factors_short.weight is missing",
        ),
    ],
)
def test_keys_that_are_refused_by_name(changes, message):
    keys = {**LLAMA, **{f"llama.{key}": value for key, value in changes.items()}}
    assert error_of(lambda: from_gguf(keys, {}), ModelError).message == message


def test_a_missing_key_is_named():
    keys = {key: value for key, value in LLAMA.items() if key != "llama.feed_forward_length"}
    error = error_of(lambda: from_gguf(keys, {}), ModelError)
    assert error.message == "GGUF of a llama: the key feed_forward_length is missing"


def test_experts_of_older_files_have_tensors_of_their_own(torch, transformers):
    name = "MixtralForCausalLM"
    witness = theirs(torch, transformers, name, keys_of(name, **CHANGES[name]))
    tensors = tensors_of("llama", witness.config, weights_of(witness))
    for part in ("gate", "up", "down"):
        for layer in range(2):
            rows = tensors.pop(f"blk.{layer}.ffn_{part}_exps.weight")
            tensors |= {f"blk.{layer}.ffn_{part}.{n}.weight": row for n, row in enumerate(rows)}
    model = load_decoder(from_gguf(metadata_of("llama", witness.config), tensors), tensors)
    close(prefilled(model, TOKENS), logits_of(torch, witness, TOKENS), TOLERANCE, "the logits")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(data=st.data())
def test_wrong_values_are_errors_of_ours(data):
    kind = data.draw(st.sampled_from(sorted(FORMATS)))
    told = {**LLAMA, "llama.expert_count": 4, "llama.expert_used_count": 2}
    told |= {"llama.attention.sliding_window": 8, "llama.rope.scaling.type": "linear"}
    given = {k.replace("llama.", f"{kind}."): v for k, v in told.items()}
    given["general.architecture"] = kind
    for _ in range(data.draw(st.integers(0, 3))):
        given[data.draw(st.sampled_from(sorted(given)))] = data.draw(values)
    for _ in range(data.draw(st.integers(0, 8))):
        del given[data.draw(st.sampled_from(sorted(given)))]
    tensors = {"rope_freqs.weight": np.ones(4), "token_embd.weight": np.ones((29, 32))}
    with suppress(LabError):
        from_gguf(given, tensors)
