"""Decoders from GGUF files, made of models of transformers' as llama.cpp's converter does it."""

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
from tests.nn.models.converted import KINDS, WRITTEN, metadata_of, model_of, tensors_of
from tests.nn.models.published import decoded, logits_of, prefilled, weights_of

TOLERANCE = 1e-5
TOKENS = np.random.default_rng(2).integers(0, 259, (2, 9))


@pytest.fixture(scope="module")
def transformers():
    need("gguf")
    package = need("transformers")
    package.logging.set_verbosity_error()
    return package


@pytest.mark.share("name", sorted(KINDS), 16)
def test_logits_are_those_of_transformers(torch, transformers, name):
    witness = model_of(torch, transformers, name)
    tensors = tensors_of(KINDS[name], witness.config, weights_of(witness))
    model = load_decoder(from_gguf(metadata_of(name), tensors), tensors)
    wanted = logits_of(torch, witness, TOKENS)
    close(prefilled(model, TOKENS), wanted, TOLERANCE, "the prefill")
    close(decoded(model, TOKENS, 5), wanted, TOLERANCE, "the decoding")


def test_factors_of_a_phi_need_no_type(torch, transformers):
    """As the converter writes them: their tensors alone say that there are some."""
    long = {"rope_type": "longrope", "short_factor": [1.0, 1.5], "long_factor": [2.0, 6.0]}
    long |= {"rope_theta": 1e4, "original_max_position_embeddings": 6, "partial_rotary_factor": 1.0}
    name, room = "Phi3ForCausalLM", {"original_max_position_embeddings": 6}
    witness = model_of(torch, transformers, name, rope_parameters=long, **room)
    tensors = tensors_of("phi3", witness.config, weights_of(witness))
    tensors |= {
        f"rope_factors_{part}.weight": np.array(long[f"{part}_factor"], "float32")
        for part in ("short", "long")
    }
    amplitude = float(np.sqrt(1 + np.log(32 / 6) / np.log(6)))
    keys = {"phi3.rope.scaling.attn_factor": amplitude}
    keys["phi3.rope.scaling.original_context_length"] = 6
    model = load_decoder(from_gguf(metadata_of(name) | keys, tensors), tensors)
    close(prefilled(model, TOKENS), logits_of(torch, witness, TOKENS), TOLERANCE, "the logits")


def test_the_gate_of_shared_experts_was_a_vector_once(torch, transformers):
    name = "Qwen2MoeForCausalLM"
    witness = model_of(torch, transformers, name)
    tensors = tensors_of("qwen2moe", witness.config, weights_of(witness))
    for layer in range(2):
        gate = f"blk.{layer}.ffn_gate_inp_shexp.weight"
        tensors[gate] = tensors[gate].squeeze()
    model = load_decoder(from_gguf(metadata_of(name), tensors), tensors)
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
                "rope.scaling.type": "yarn",
                "rope.scaling.factor": 4.0,
                "rope.scaling.original_context_length": 512,
                "rope.scaling.yarn_attn_factor": 1.5,
            },
            YarnScaling(4.0, 512, amplitude=1.5),
        ),
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
    tensors: dict[str, np.ndarray] = {}
    if scaling.get("rope.scaling.type") == "longrope":
        tensors["rope_factors_short.weight"] = np.ones(4, "float32")
        tensors["rope_factors_long.weight"] = np.full(4, 3, "float32")
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
        (
            {"rope.scale_linear": 4.0, "rope.scaling.attn_factor": 1.25},
            "GGUF of a llama: the key rope.scaling.attn_factor is 1.25, and only 1.0 is known here",
        ),
        (
            {"rope.scaling.attn_factor": 1.25},
            "GGUF of a llama: the key rope.scaling.attn_factor is 1.25, and only 1.0 is known here",
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
    witness = model_of(torch, transformers, name)
    tensors = tensors_of("llama", witness.config, weights_of(witness))
    for part in ("gate", "up", "down"):
        for layer in range(2):
            rows = tensors.pop(f"blk.{layer}.ffn_{part}_exps.weight")
            tensors |= {f"blk.{layer}.ffn_{part}.{n}.weight": row for n, row in enumerate(rows)}
    model = load_decoder(from_gguf(metadata_of(name), tensors), tensors)
    close(prefilled(model, TOKENS), logits_of(torch, witness, TOKENS), TOLERANCE, "the logits")


def test_windows_by_layer_come_as_an_array():
    keys = {"general.architecture": "olmo2", **WRITTEN["Olmo3ForCausalLM"]}
    pattern = np.array(keys["olmo2.attention.sliding_window_pattern"])  # as files are read
    keys["olmo2.attention.sliding_window_pattern"] = pattern
    keys["olmo2.rope.freq_base_swa"] = 100.0
    config = from_gguf(keys, {"token_embd.weight": np.zeros((259, 16))})
    attention = [layer.attention for layer in config.layers]
    assert [part.window for part in attention] == [4, 4, 4, None]
    assert [part.rope and part.rope.base for part in attention] == [100.0] * 3 + [500000.0]


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
