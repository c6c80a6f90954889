"""Weights of decoders by the names of files: what is missing or left over, and what is kept."""

import importlib
from typing import Any

import numpy as np
import pytest

from luminal_lab.errors import InputError
from luminal_lab.nn.models.decoder import Decoder, DecoderConfig
from luminal_lab.nn.models.decoder_weights import load_decoder
from luminal_lab.nn.models.decoders import decoder_of, from_config
from luminal_lab.nn.weights import stored_values
from luminal_lab.session import Graph
from luminal_lab.tensor.parameter import Parameter
from tests.expect import error_of

SIZES: dict[str, Any] = {
    "vocab_size": 10,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 12,
}
LLAMA = {**SIZES, "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": True}
MIXTRAL = {
    **SIZES,
    "architectures": ["MixtralForCausalLM"],
    "num_local_experts": 3,
    "num_key_value_heads": 2,
}
GPT2 = {
    "architectures": ["GPT2LMHeadModel"],
    "n_layer": 1,
    "n_head": 2,
    "n_embd": 8,
    "vocab_size": 10,
    "n_positions": 16,
}


def drawn(config: DecoderConfig) -> Decoder:
    return Decoder(config).initialise(0)


def values_of(config: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return weights of a Llama, whose names are ours."""
    return drawn(from_config(config)).state_dict()


def logits_of(model: Decoder) -> np.ndarray:
    cx = Graph()
    logits = model(cx.tensor((1, 3), "int64").set([[1, 2, 3]])).retrieve()
    cx.execute()
    return logits.numpy()


def test_a_decoder_takes_its_weights_and_keeps_their_memory():
    config, values = from_config(LLAMA), values_of(LLAMA)
    model = load_decoder(config, values)
    assert not any(p.is_loaded for p in model.parameters().values())
    np.testing.assert_array_equal(logits_of(model), logits_of(drawn(config)))
    for name, parameter in model.parameters().items():
        assert np.shares_memory(parameter.value, values[name]), name
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_a_tied_head_may_be_in_the_file():
    values = values_of(LLAMA)
    values["lm_head.weight"] = values["model.embed_tokens.weight"]
    assert logits_of(load_decoder(from_config(LLAMA), values)).shape == (1, 3, 10)


def test_what_does_not_fit_is_named():
    values = values_of(LLAMA)
    del values["model.norm.weight"]
    values["model.layers.0.self_attn.q_proj.weight"] = np.zeros((8, 7), "float32")
    values["model.layers.0.self_attn.q_proj.bias"] = np.zeros(8, "float32")
    values["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.zeros(2, "float32")
    values["model.layers.0.mlp.up_proj.weight"] = np.zeros((12, 8), "int8")
    error = error_of(lambda: load_decoder(from_config(LLAMA), values), InputError)
    assert error.message.splitlines() == [
        "load_decoder: 4 entries do not fit, and nothing was loaded",
        "  missing: model.norm.weight (8,) float32",
        "  extra: model.layers.0.self_attn.q_proj.bias (8,) float32",
        "  model.layers.0.self_attn.q_proj.weight: is (8, 7) float32, and must be (8, 8) float32",
        "  model.layers.0.mlp.up_proj.weight: is (12, 8) int8, and must be (12, 8) float32",
    ]


def test_weights_of_a_variant_are_not_taken_for_a_llama():
    qwen = {**LLAMA, "architectures": ["Qwen2ForCausalLM"]}
    values = values_of(qwen)
    error = error_of(lambda: load_decoder(from_config(LLAMA), values), InputError)
    assert "extra: model.layers.0.self_attn.k_proj.bias (8,) float32" in error.message


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "GemmaForCausalLM"])
def test_other_dtypes_stay_and_are_computed_with_in_float32(name):
    told = {**LLAMA, "architectures": [name], "head_dim": 4}
    config, values = from_config(told), values_of(told)
    values["model.norm.weight"] = values["model.norm.weight"] + np.linspace(0, 0.01, 8, dtype="f4")
    halves = {name: value.astype("float16") for name, value in values.items()}
    model = load_decoder(config, halves)
    assert {str(p.dtype) for p in model.parameters().values()} == {"float16"}
    found = logits_of(model)
    assert found.dtype == np.float32
    wide = {name: value.astype("float32") for name, value in halves.items()}
    np.testing.assert_allclose(found, logits_of(load_decoder(config, wide)), atol=1e-6)


def test_files_without_a_prefix_or_with_masks_are_taken():
    config = from_config(GPT2)
    names = dict(config.names)
    values: dict[str, np.ndarray] = {}
    for path, value in drawn(config).state_dict().items():
        stem, _, leaf = path.removeprefix("model.layers.0.").rpartition(".")
        layer = "h.0." if path.startswith("model.layers.") else ""
        values[f"{layer}{names[stem].removeprefix('transformer.')}.{leaf}"] = value
    assert "h.0.attn.c_attn.weight" in values
    values["h.0.attn.bias"] = np.zeros((1, 1, 16, 16), "float32")
    np.testing.assert_array_equal(logits_of(load_decoder(config, values)), logits_of(drawn(config)))


def test_experts_are_stacked_when_they_are_needed():
    config = from_config(MIXTRAL)
    whole = drawn(config)
    values: dict[str, object] = {}
    asked: list[str] = []
    for path, value in whole.state_dict().items():
        if "experts" not in path:
            values[path.replace("mlp.router", "block_sparse_moe.gate")] = value
            continue
        part = {"gate": "w1", "up": "w3", "down": "w2"}[path.split(".")[-1].split("_")[0]]
        for number, row in enumerate(value):
            name = f"model.layers.0.block_sparse_moe.experts.{number}.{part}.weight"

            def read(name: str = name, row: np.ndarray = row) -> np.ndarray:
                asked.append(name)
                return row

            values[name] = Parameter(row.shape, provider=read)
    model = load_decoder(config, values)
    assert not asked
    np.testing.assert_array_equal(logits_of(model), logits_of(whole))
    assert len(asked) == 9


@pytest.mark.needs("safetensors")
def test_values_of_a_file_are_read_when_they_are_needed(tmp_path):
    model = decoder_of(LLAMA).initialise(1)
    model.save(tmp_path / "model.safetensors")
    again = load_decoder(from_config(LLAMA), stored_values(tmp_path / "model.safetensors"))
    assert not again.lm_head.weight.is_loaded
    np.testing.assert_array_equal(logits_of(again), logits_of(model))


def test_learned_positions_have_an_end():
    cx = Graph()
    tokens = cx.tensor((1, 17), "int64")
    error = error_of(lambda: decoder_of(GPT2)(tokens))
    assert error.message == "decoder: 17 tokens are given, and the context is 16"


def test_blocks_of_few_bits_stay_as_they_are():
    blocks = importlib.import_module("luminal_lab.tensor.blocks").Blocks
    sizes = {"hidden_size": 32, "intermediate_size": 64}
    config = from_config({**MIXTRAL, **sizes})
    values: dict[str, Any] = {}
    for path, value in drawn(config).state_dict().items():
        if value.ndim < 2 or "router" in path:
            values[path.replace("mlp.router", "block_sparse_moe.gate")] = value
        elif "experts" in path:
            part = {"gate": "w1", "up": "w3", "down": "w2"}[path.split(".")[-1].split("_")[0]]
            for number, row in enumerate(value.astype("float16")):
                name = f"model.layers.0.block_sparse_moe.experts.{number}.{part}.weight"
                values[name] = blocks("f16", row, row.shape)
        else:
            values[path] = blocks("f16", value.astype("float16"), value.shape)
    model = load_decoder(config, values)
    forms = {path: p.form for path, p in model.parameters().items() if p.form}
    assert set(forms.values()) == {"f16"}
    assert len(forms) == 4 + 3 + 2
    wide = {name: getattr(value, "value", value) for name, value in values.items()}
    np.testing.assert_array_equal(logits_of(model), logits_of(load_decoder(config, wide)))
