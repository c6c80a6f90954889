"""Drawn configurations of every row beside transformers'; keys that are not known, and old ones."""

import json
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from luminal_lab.errors import ModelError
from luminal_lab.nn.models.decoder_weights import load_decoder
from luminal_lab.nn.models.decoders import HARMLESS, from_config
from luminal_lab.nn.rope import FactorScaling, LinearScaling, Llama3Scaling, YarnScaling
from tests.expect import error_of
from tests.needs import need
from tests.nn.beside import close
from tests.nn.models.published import (
    CASES,
    decoded,
    keys_of,
    logits_of,
    prefilled,
    theirs,
    told,
    weights_of,
)

TOLERANCE = 1e-5
TOKENS = np.random.default_rng(1).integers(0, 29, (2, 9))
LAYERS = 2
KINDS = "full_attention", "sliding_attention"
flags = st.booleans()
windows = st.sampled_from([1, 3, 4, 8, 64])
maybe_windows = st.none() | windows
types = st.lists(st.sampled_from(KINDS), min_size=LAYERS, max_size=LAYERS)
caps = st.none() | st.floats(1.0, 4.0)
scales = st.floats(0.25, 4.0)
acts = st.sampled_from(["silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "quick_gelu"])
chosen = st.integers(1, 5)
biases = {"attention_bias": flags}
both = {**biases, "mlp_bias": flags}
sliding = {"sliding_window": windows, "layer_types": types}
qwen = {
    "use_sliding_window": flags,
    "sliding_window": windows,
    "max_window_layers": st.integers(0, 3),
}
experts = {"num_experts": st.just(5), "num_experts_per_tok": chosen, "norm_topk_prob": flags}
sparse = {
    **experts,
    "decoder_sparse_step": st.integers(1, 2),
    "mlp_only_layers": st.lists(st.integers(0, 1), max_size=1),
}
granite = {
    "embedding_multiplier": scales,
    "attention_multiplier": scales,
    "residual_multiplier": scales,
    "logits_scaling": scales,
}
OPTIONS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "LlamaForCausalLM": both,
    "MistralForCausalLM": {"sliding_window": maybe_windows},
    "MinistralForCausalLM": sliding,
    "MixtralForCausalLM": {"sliding_window": maybe_windows, "num_experts_per_tok": chosen},
    "Qwen2ForCausalLM": qwen,
    "Qwen3ForCausalLM": {**qwen, **biases},
    "Qwen3MoeForCausalLM": {
        **sparse,
        **biases,
        "use_sliding_window": flags,
        "sliding_window": windows,
    },
    "Qwen2MoeForCausalLM": {**sparse, "qkv_bias": flags},
    "OlmoeForCausalLM": {**experts, **biases, "clip_qkv": caps},
    "Phi3ForCausalLM": {"sliding_window": maybe_windows},
    "SmolLM3ForCausalLM": {
        **both,
        "no_rope_layers": st.lists(st.integers(0, 1), min_size=LAYERS, max_size=LAYERS),
    },
    "GraniteForCausalLM": {**both, **granite},
    "GraniteMoeForCausalLM": {**biases, **granite, "num_experts_per_tok": chosen},
    "ArceeForCausalLM": both,
    "HeliumForCausalLM": both,
    "Ernie4_5ForCausalLM": {"use_bias": flags},
    "SeedOssForCausalLM": {**both, "attention_out_bias": flags},
    "ApertusForCausalLM": biases,
    "GemmaForCausalLM": biases,
    "Gemma2ForCausalLM": {
        **biases,
        **sliding,
        "query_pre_attn_scalar": st.integers(4, 64),
        "attn_logit_softcapping": caps,
        "final_logit_softcapping": caps,
    },
    "Gemma3ForCausalLM": {
        **biases,
        **sliding,
        "query_pre_attn_scalar": st.integers(4, 64),
        "final_logit_softcapping": caps,
    },
    "OlmoForCausalLM": {**biases, "clip_qkv": caps},
    "Olmo2ForCausalLM": biases,
    "Olmo3ForCausalLM": {**biases, **sliding},
    "Exaone4ForCausalLM": sliding,
    "GlmForCausalLM": {**biases, "partial_rotary_factor": st.sampled_from([0.5, 1.0])},
    "Glm4ForCausalLM": {**biases, "partial_rotary_factor": st.sampled_from([0.5, 1.0])},
    "CohereForCausalLM": {**biases, "use_qk_norm": flags, "logit_scale": scales},
    "Cohere2ForCausalLM": {**biases, **sliding, "logit_scale": scales},
    "StableLmForCausalLM": {
        "use_qkv_bias": flags,
        "qk_layernorm": flags,
        "use_parallel_residual": flags,
        "partial_rotary_factor": st.sampled_from([0.5, 1.0]),
    },
    "NemotronForCausalLM": {**both, "partial_rotary_factor": st.sampled_from([0.5, 1.0])},
    "Starcoder2ForCausalLM": {"use_bias": flags, "sliding_window": maybe_windows},
    "PhiForCausalLM": {"qk_layernorm": flags},
    "PersimmonForCausalLM": {"qk_layernorm": flags},
    "GPT2LMHeadModel": {"scale_attn_weights": flags, "n_inner": st.sampled_from([None, 20])},
    "GPTBigCodeForCausalLM": {"scale_attn_weights": flags, "multi_query": flags},
    "GPTNeoForCausalLM": {
        "window_size": windows,
        "attention_types": st.sampled_from([[[["local"], 2]], [[["global", "local"], 1]]]),
    },
    "GPTJForCausalLM": {"rotary_dim": st.sampled_from([2, 4])},
    "CodeGenForCausalLM": {"rotary_dim": st.sampled_from([2, 4])},
    "GPTNeoXForCausalLM": {
        "rotary_pct": st.sampled_from([0.5, 1.0]),
        "use_parallel_residual": flags,
        "attention_bias": flags,
    },
    "OPTForCausalLM": {"enable_bias": flags},
    "BloomForCausalLM": {"n_head": st.sampled_from([1, 2, 4, 8, 16])},
    "FalconForCausalLM": {
        "new_decoder_architecture": flags,
        "multi_query": flags,
        "parallel_attn": flags,
        "alibi": flags,
        "bias": flags,
        "num_kv_heads": st.sampled_from([1, 2, 4]),
    },
    "MptForCausalLM": {
        "attn_config": st.fixed_dictionaries(
            {"clip_qkv": caps, "softmax_scale": caps}  # transformers ignores alibi_bias_max
        )
    },
}
"""The keys of each architecture that are drawn, beside sizes, norms, activations and ropes."""

ropes = st.one_of(
    st.just({"rope_type": "default"}),
    st.fixed_dictionaries({"rope_type": st.just("linear"), "factor": scales}),
    st.fixed_dictionaries(
        {
            "rope_type": st.just("yarn"),
            "factor": st.sampled_from([2.0, 8.0]),
            "original_max_position_embeddings": st.sampled_from([4, 16]),
        },
        optional={
            "beta_fast": st.sampled_from([4.0, 32.0]),
            "beta_slow": st.sampled_from([1.0, 2.0]),
            "attention_factor": st.floats(0.5, 2.0),
            "truncate": flags,
        },
    ),
    st.fixed_dictionaries(
        {
            "rope_type": st.just("llama3"),
            "factor": st.sampled_from([2.0, 8.0]),
            "low_freq_factor": st.just(1.0),
            "high_freq_factor": st.just(4.0),
            "original_max_position_embeddings": st.sampled_from([8, 16]),
        }
    ),
)
TURNED = {"LlamaForCausalLM", "Qwen2ForCausalLM", "MistralForCausalLM", "GraniteForCausalLM"}
TURNED |= {"SmolLM3ForCausalLM", "ApertusForCausalLM", "HeliumForCausalLM"}
TURNED |= {"GemmaForCausalLM", "Gemma2ForCausalLM", "Olmo2ForCausalLM", "Exaone4ForCausalLM"}
TURNED |= {"CohereForCausalLM", "NemotronForCausalLM", "PhiForCausalLM"}

ACTS: dict[str, str] = dict.fromkeys(
    ("LlamaForCausalLM", "PhiForCausalLM", "GlmForCausalLM"), "hidden_act"
)
ACTS |= dict.fromkeys(("GPT2LMHeadModel", "OPTForCausalLM"), "activation_function")
ACTS |= dict.fromkeys(("Gemma2ForCausalLM", "Gemma3ForCausalLM"), "hidden_activation")
ACTS |= {"FalconForCausalLM": "activation", "LlamaForCausalLM": "hidden_act"}


@pytest.fixture(scope="module")
def transformers():
    package = need("transformers")
    package.logging.set_verbosity_error()
    return package


def drawn(data: st.DataObject, name: str) -> dict[str, Any]:
    """Return the keys of a tiny configuration of an architecture."""
    keys = keys_of(name) | {k: data.draw(v, label=k) for k, v in OPTIONS[name].items()}
    if "num_key_value_heads" in keys and "head_dim" not in keys:
        keys["num_key_value_heads"] = data.draw(st.sampled_from([1, 2, 4]))
    if act := ACTS.get(name):
        keys[act] = data.draw(acts, label=act)
    keys["tie_word_embeddings"] = data.draw(flags, label="tied")
    eps = {"LlamaForCausalLM": "rms_norm_eps", "PhiForCausalLM": "layer_norm_eps"}
    eps |= {"GPT2LMHeadModel": "layer_norm_epsilon", "Starcoder2ForCausalLM": "norm_epsilon"}
    if name in eps:
        keys[eps[name]] = data.draw(st.sampled_from([1e-6, 1e-2]))
    if name == "FalconForCausalLM":  # transformers fails for other combinations
        is_new = keys["new_decoder_architecture"]
        keys |= {"parallel_attn": True} if is_new else {"num_kv_heads": 4}
    if name in TURNED:
        keys["rope_parameters"] = {
            "rope_theta": data.draw(st.sampled_from([100.0, 10_000.0])),
            **data.draw(ropes, label="rope"),
        }
        partial = CASES[name].get("partial_rotary_factor")
        if partial:
            keys["rope_parameters"]["partial_rotary_factor"] = partial
    return keys


def test_every_row_has_options():
    assert set(OPTIONS) == set(CASES)


DRAWN = 200 if settings.default and settings.default.max_examples > 1_000 else 20


@pytest.mark.sweep
@settings(
    max_examples=DRAWN, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(data=st.data())
def test_drawn_configurations(torch, transformers, data):
    name = data.draw(st.sampled_from(list(CASES)))
    witness = theirs(torch, transformers, name, drawn(data, name))
    config = from_config(told(witness))
    shorter = witness.config.to_diff_dict() | {"architectures": [name]}
    assert from_config(shorter) == config
    wanted = logits_of(torch, witness, TOKENS)
    model = load_decoder(config, weights_of(witness))
    if data.draw(flags, label="cached"):
        close(decoded(model, TOKENS, 6), wanted, TOLERANCE, f"{name} cached")
    else:
        close(prefilled(model, TOKENS), wanted, TOLERANCE, name)


# -- what files say, as they are published ---------------------------------------------------------

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 128000,
    "eos_token_id": [128001, 128008],
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "initializer_range": 0.02,
    "intermediate_size": 8192,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 16,
    "num_key_value_heads": 8,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "factor": 32.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.45.0.dev0",
    "use_cache": True,
    "vocab_size": 128256,
}
GEMMA: dict[str, Any] = {
    "architectures": ["Gemma3ForCausalLM"],
    "attn_logit_softcapping": None,
    "cache_implementation": "hybrid",
    "final_logit_softcapping": None,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 1152,
    "intermediate_size": 6912,
    "max_position_embeddings": 32768,
    "num_attention_heads": 4,
    "num_hidden_layers": 26,
    "num_key_value_heads": 1,
    "query_pre_attn_scalar": 256,
    "rms_norm_eps": 1e-06,
    "rope_local_base_freq": 10000,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
    "vocab_size": 262144,
}
FALCON: dict[str, Any] = {
    "alibi": False,
    "apply_residual_connection_post_layernorm": False,
    "architectures": ["FalconForCausalLM"],
    "auto_map": {"AutoConfig": "configuration_falcon.FalconConfig"},
    "bias": False,
    "hidden_dropout": 0.0,
    "hidden_size": 4544,
    "layer_norm_epsilon": 1e-05,
    "multi_query": True,
    "new_decoder_architecture": False,
    "num_attention_heads": 71,
    "num_hidden_layers": 32,
    "parallel_attn": True,
    "vocab_size": 65024,
}


PUBLISHED: dict[str, str] = {
    "SmolLM2-135M": """{"architectures": ["LlamaForCausalLM"], "attention_bias": false,
        "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 0, "hidden_act": "silu",
        "hidden_size": 576, "initializer_range": 0.041666666666666664, "intermediate_size": 1536,
        "is_llama_config": true, "max_position_embeddings": 8192, "model_type": "llama",
        "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3,
        "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_interleaved": false,
        "rope_scaling": null, "rope_theta": 100000, "tie_word_embeddings": true,
        "torch_dtype": "bfloat16", "transformers_version": "4.40.1", "use_cache": true,
        "vocab_size": 49152}""",
    "Qwen2.5-0.5B": """{"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0,
        "bos_token_id": 151643, "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 896,
        "initializer_range": 0.02, "intermediate_size": 4864, "max_position_embeddings": 32768,
        "max_window_layers": 24, "model_type": "qwen2", "num_attention_heads": 14,
        "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true,
        "torch_dtype": "bfloat16", "transformers_version": "4.40.1", "use_cache": true,
        "use_mrope": false, "use_sliding_window": false, "vocab_size": 151936}""",
    "Qwen3-30B-A3B": """{"architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false,
        "attention_dropout": 0.0, "decoder_sparse_step": 1, "head_dim": 128, "hidden_act": "silu",
        "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 6144,
        "max_position_embeddings": 40960, "max_window_layers": 48, "mlp_only_layers": [],
        "model_type": "qwen3_moe", "moe_intermediate_size": 768, "norm_topk_prob": true,
        "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8,
        "num_hidden_layers": 48, "num_key_value_heads": 4, "output_router_logits": false,
        "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000.0,
        "router_aux_loss_coef": 0.001, "sliding_window": null, "tie_word_embeddings": false,
        "use_cache": true, "use_sliding_window": false, "vocab_size": 151936}""",
    "Mistral-7B-v0.1": """{"architectures": ["MistralForCausalLM"], "bos_token_id": 1,
        "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
        "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral",
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
        "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096,
        "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true,
        "vocab_size": 32000}""",
    "gemma-2-2b": """{"architectures": ["Gemma2ForCausalLM"], "attention_bias": false,
        "attention_dropout": 0.0, "attn_logit_softcapping": 50.0, "bos_token_id": 2,
        "cache_implementation": "hybrid", "eos_token_id": 1, "final_logit_softcapping": 30.0,
        "head_dim": 256, "hidden_act": "gelu_pytorch_tanh",
        "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304, "initializer_range": 0.02,
        "intermediate_size": 9216, "max_position_embeddings": 8192, "model_type": "gemma2",
        "num_attention_heads": 8, "num_hidden_layers": 26, "num_key_value_heads": 4,
        "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
        "rope_theta": 10000.0, "sliding_window": 4096, "use_cache": true, "vocab_size": 256000}""",
    "gpt2": """{"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
        "attn_pdrop": 0.1, "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256,
        "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2",
        "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024,
        "resid_pdrop": 0.1, "summary_activation": null, "summary_first_dropout": 0.1,
        "summary_proj_to_labels": true, "summary_type": "cls_index", "summary_use_proj": true,
        "task_specific_params": {"text-generation": {"do_sample": true}}, "vocab_size": 50257}""",
    "pythia-70m": """{"architectures": ["GPTNeoXForCausalLM"], "bos_token_id": 0,
        "eos_token_id": 0, "hidden_act": "gelu", "hidden_size": 512, "initializer_range": 0.02,
        "intermediate_size": 2048, "layer_norm_eps": 1e-05, "max_position_embeddings": 2048,
        "model_type": "gpt_neox", "num_attention_heads": 8, "num_hidden_layers": 6,
        "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": false,
        "torch_dtype": "float16", "use_cache": true, "use_parallel_residual": true,
        "vocab_size": 50304}""",
    "opt-125m": """{"_remove_final_layer_norm": false, "activation_dropout": 0.0,
        "activation_function": "relu", "architectures": ["OPTForCausalLM"],
        "attention_dropout": 0.0, "bos_token_id": 2, "do_layer_norm_before": true, "dropout": 0.1,
        "eos_token_id": 2, "ffn_dim": 3072, "hidden_size": 768, "init_std": 0.02, "layerdrop": 0.0,
        "max_position_embeddings": 2048, "model_type": "opt", "num_attention_heads": 12,
        "num_hidden_layers": 12, "pad_token_id": 1, "prefix": "</s>", "torch_dtype": "float16",
        "use_cache": true, "vocab_size": 50272, "word_embed_proj_dim": 768}""",
    "bloom-560m": """{"apply_residual_connection_post_layernorm": false, "attention_dropout": 0.0,
        "attention_softmax_in_fp32": true, "architectures": ["BloomForCausalLM"],
        "bias_dropout_fusion": true, "bos_token_id": 1, "eos_token_id": 2, "hidden_dropout": 0.0,
        "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "masked_softmax_fusion": true,
        "model_type": "bloom", "n_embed": 1024, "n_inner": null, "n_layer": 24,
        "num_attention_heads": 16, "offset_alibi": 100, "pad_token_id": 3, "pretraining_tp": 1,
        "seq_length": 2048, "skip_bias_add": true, "skip_bias_add_qkv": false,
        "unk_token_id": 0, "use_cache": true, "vocab_size": 250880}""",
    "mpt-7b": """{"architectures": ["MPTForCausalLM"], "attn_config": {"alibi": true,
        "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0,
        "attn_type": "multihead_attention", "attn_uses_sequence_id": false, "clip_qkv": null,
        "prefix_lm": false, "qk_ln": false, "softmax_scale": null}, "auto_map": {}, "d_model": 4096,
        "emb_pdrop": 0, "embedding_fraction": 1.0, "expansion_ratio": 4,
        "init_config": {"fan_mode": "fan_in", "name": "kaiming_normal_"}, "init_device": "cpu",
        "learned_pos_emb": true, "logit_scale": null, "max_seq_len": 2048, "model_type": "mpt",
        "n_heads": 32, "n_layers": 32, "no_bias": true, "norm_type": "low_precision_layernorm",
        "resid_pdrop": 0, "tokenizer_name": "EleutherAI/gpt-neox-20b", "use_cache": false,
        "verbose": 0, "vocab_size": 50432}""",
    "c4ai-command-r7b": """{"architectures": ["Cohere2ForCausalLM"], "attention_bias": false,
        "attention_dropout": 0.0, "bos_token_id": 5, "cache_implementation": "hybrid",
        "eos_token_id": 255001, "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096,
        "initializer_range": 0.02, "intermediate_size": 14336, "layer_norm_eps": 1e-05,
        "layer_switch": 4, "logit_scale": 0.25, "max_position_embeddings": 8192,
        "model_type": "cohere2", "num_attention_heads": 32, "num_hidden_layers": 32,
        "num_key_value_heads": 8, "order_of_interleaved_layers": "local_attn_first",
        "pad_token_id": 0, "position_embedding_type": "rope_gptj", "rope_scaling": null,
        "rope_theta": 50000, "rotary_pct": 1.0, "sliding_window": 4096,
        "sliding_window_pattern": 4, "use_cache": true, "use_embedding_sharing": true,
        "use_gated_activation": true, "use_parallel_block": true, "use_parallel_embedding": true,
        "vocab_size": 256000}""",
}
"""Files as they were published, by the names of the models."""


@pytest.mark.parametrize("name", list(PUBLISHED))
def test_published_files_are_read(name):
    given = json.loads(PUBLISHED[name])
    config = from_config(given)
    count = given.get("num_hidden_layers", given.get("n_layer", given.get("n_layers")))
    assert len(config.layers) == count
    by_type = {key: value for key, value in given.items() if key != "architectures"}
    assert from_config(by_type) == config
    if "sliding_window_pattern" in given:
        assert [layer.attention.window for layer in config.layers[:4]] == [4096] * 3 + [None]
        assert [layer.attention.rope is None for layer in config.layers[2:4]] == [False, True]


def test_the_keys_of_older_versions():
    config = from_config(LLAMA)
    layer = config.layers[15].attention
    assert layer.rope is not None
    assert (layer.size, layer.kv_heads, layer.window, config.tied) == (64, 8, None, True)
    assert (layer.rope.base, layer.rope.scaling) == (5e5, Llama3Scaling(32.0, context=8192))

    config = from_config(GEMMA)
    ropes = [(layer.attention.window, layer.attention.rope) for layer in config.layers[4:6]]
    assert [(w, rope and rope.base) for w, rope in ropes] == [(512, 1e4), (None, 1e6)]
    assert (config.tied, config.embedding_scale, config.norm.offset) == (True, 1152**0.5, 1.0)

    layer = from_config(FALCON).layers[0]
    assert (layer.parallel, layer.before_feed, layer.attention.kv_heads) == (True, None, 1)


LONG = {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32, "type": "longrope"}


@pytest.mark.parametrize(
    ("told", "scaling"),
    [
        (None, None),
        ({"type": "linear", "factor": 2}, LinearScaling(2.0)),
        ({"rope_type": "yarn", "factor": 4.0}, YarnScaling(4.0, 131072)),
        (
            {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096},
            YarnScaling(4.0, 4096),
        ),
        (
            {**LONG, "original_max_position_embeddings": 4096},
            FactorScaling((1.0,) * 32, (2.0,) * 32, 4096, (1 + 5 / 12) ** 0.5),
        ),
    ],
)
def test_scalings_of_older_versions(told, scaling):
    rope = from_config({**LLAMA, "rope_scaling": told}).layers[0].attention.rope
    assert rope is not None
    assert rope.scaling == scaling


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"twist": 2}, "the key twist, 2, is not known here"),
        ({"sliding_window": 4096}, "the key sliding_window, 4096, is not known here"),
        ({"embedding_multiplier": 12.0}, "the key embedding_multiplier, 12.0, is not known here"),
        ({"no_rope_layers": [1, 0]}, "the key no_rope_layers, [1, 0], is not known here"),
        (
            {"quantization_config": {"bits": 4}},
            "the key quantization_config is {'bits': 4}, and only null is known here",
        ),
        (
            {"rope_scaling": {"type": "warped", "factor": 2.0}},
            "rope_scaling: the key type is 'warped', and must be one of default, linear, dynamic, "
            "llama3, yarn, longrope, su",
        ),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0, "twist": True}},
            "rope_scaling: the key twist, true, is not known here",
        ),
        (
            {"rope_scaling": {"type": "linear", "factor": 0}},
            "rope_scaling: the key factor is 0, and must be above 0",
        ),
        (
            {"hidden_act": "swoosh"},
            "the key hidden_act is 'swoosh', and must be one of gelu, gelu_fast, gelu_new, "
            "gelu_python, gelu_pytorch_tanh, linear, mish, quick_gelu, relu, relu2, relu6, "
            "sigmoid, silu, swish, tanh, xielu",
        ),
        ({"vocab_size": None}, "the key vocab_size is null, and a value is needed"),
        (
            {"num_hidden_layers": 10**18},
            "the key num_hidden_layers is 1000000000000000000, and must be a whole number from 0 "
            "to 1,000",
        ),
        (
            {"num_key_value_heads": 5},
            "the key num_key_value_heads is 5, and must divide the heads, 32",
        ),
        (
            {"rms_norm_eps": float("nan")},
            "the key rms_norm_eps is nan, and must be a number",
        ),
        ({"attention_bias": "yes"}, "the key attention_bias is 'yes', and must be true or false"),
        (
            {"n_embd": 1024},
            "the key n_embd, 1024, is not known here",
        ),
    ],
)
def test_keys_that_are_refused_by_name(changes, message):
    error = error_of(lambda: from_config({**LLAMA, **changes}), ModelError)
    assert error.message == f"config.json of a LlamaForCausalLM: {message}"


def test_a_missing_key_is_named():
    given = {key: value for key, value in LLAMA.items() if key != "hidden_size"}
    error = error_of(lambda: from_config(given), ModelError)
    assert error.message == "config.json of a LlamaForCausalLM: the key hidden_size is missing"


@pytest.mark.parametrize("name", list(CASES))
def test_no_row_ignores_a_key_that_it_does_not_know(transformers, name):
    config = getattr(transformers, name).config_class(**keys_of(name))
    given = {**config.to_dict(), "architectures": [name], "twist": None}
    error = error_of(lambda: from_config(given), ModelError)
    assert error.message == f"config.json of a {name}: the key twist, null, is not known here"


DEPENDS = {
    "attention_types",  # attention_layers says it
    "decoder_sparse_step",
    "intermediate_size",  # no layer is dense
    "learned_pos_emb",  # alibi says it
    "max_window_layers",  # layer_types says it
    "mlp_only_layers",
    "multi_query",
    "no_rope_layer_interval",  # no_rope_layers says it
    "num_key_value_heads",  # multi_query says it
    "original_max_position_embeddings",  # of the scaling
    "parallel_attn",
    "sliding_window",  # if it is used
    "_sliding_window_pattern",
    "sliding_window_pattern",
    "use_sliding_window",  # layer_types says it
}
"""Keys that change nothing in a tiny model of some row, since another key says so."""


def other(value: Any) -> Any:
    """Return another value of the same kind."""
    match value:
        case bool():
            return not value
        case int():
            return value + 4 if value > 2 else value + 1
        case float():
            return value / 2 + 0.125
        case str():
            return "silu" if value == "relu" else "relu"
        case list():
            return value[::-1] if value[::-1] != value else [other(part) for part in value]
        case _:
            return 3


@pytest.mark.parametrize("name", list(CASES))
def test_what_a_key_says_counts(transformers, name):
    config = getattr(transformers, name).config_class(**keys_of(name))
    given = {**config.to_dict(), "architectures": [name]}
    base = from_config(given)
    for key, value in given.items():
        if key in HARMLESS | DEPENDS or isinstance(value, dict):
            continue
        with suppress(ModelError):
            assert from_config({**given, key: other(value)}) != base, key


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(data=st.data())
def test_wrong_values_are_errors_of_ours(data):
    given = dict(data.draw(st.sampled_from([LLAMA, GEMMA, FALCON])))
    for _ in range(data.draw(st.integers(1, 3))):
        given[data.draw(st.sampled_from(list(given)))] = data.draw(values)
    with suppress(ModelError):
        from_config(given)
