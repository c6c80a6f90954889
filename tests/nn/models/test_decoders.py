"""Decoders beside transformers': every row of the table, its keys, and the names of its weights."""

from math import prod

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.op import ints
from luminal_lab.nn.models.decoder_weights import load_decoder
from luminal_lab.nn.models.decoders import ROWS, decoder_of, from_config
from luminal_lab.session import Graph
from tests.needs import need
from tests.nn.beside import close
from tests.nn.models.published import (
    CASES,
    decoded,
    keys_of,
    logits_of,
    ours,
    prefilled,
    steps_of,
    theirs,
    told,
    weights_of,
)

TOLERANCE = 1e-5
TOKENS = np.random.default_rng(0).integers(0, 29, (2, 10))


@pytest.fixture(scope="module")
def transformers():
    package = need("transformers")
    package.logging.set_verbosity_error()
    return package


def test_every_row_is_compared():
    assert {ROWS[name] for name in CASES} == set(ROWS.values())
    assert len(CASES) >= 24


@pytest.mark.share("name", list(CASES), 20)
def test_logits_are_those_of_transformers(torch, transformers, name):
    witness = theirs(torch, transformers, name, keys_of(name))
    wanted, model = logits_of(torch, witness, TOKENS), ours(witness)
    close(prefilled(model, TOKENS), wanted, TOLERANCE, "the prefill")
    close(decoded(model, TOKENS, 5), wanted, TOLERANCE, "the decoding")


@pytest.mark.needs("cc")
@pytest.mark.share("name", list(CASES), 2)
def test_logits_on_the_cpu(torch, transformers, name):
    witness = theirs(torch, transformers, name, keys_of(name))
    wanted, model = logits_of(torch, witness, TOKENS), ours(witness)
    passes = ll.GenericCompiler(), ll.CPUCompiler()
    close(decoded(model, TOKENS, 7, *passes), wanted, TOLERANCE, "the decoding")


@pytest.mark.share("name", list(CASES), 4)
def test_weights_of_16_bits_are_computed_with_in_float32(torch, transformers, name):
    witness = theirs(torch, transformers, name, keys_of(name))
    with torch.no_grad():
        for parameter in witness.parameters():
            parameter.copy_(parameter.bfloat16().float())
    halves = {
        path: value.astype(ll.DType.bfloat16.numpy) for path, value in weights_of(witness).items()
    }
    model = load_decoder(from_config(told(witness)), halves)
    wanted = logits_of(torch, witness, TOKENS)
    close(prefilled(model, TOKENS), wanted, TOLERANCE, "the logits")


@pytest.mark.parametrize("fused", [False, True])
def test_few_tokens_read_their_experts_alone(torch, transformers, fused):
    name = "GraniteMoeForCausalLM" if fused else "MixtralForCausalLM"
    witness = theirs(torch, transformers, name, keys_of(name))
    wanted, model, cx = logits_of(torch, witness, TOKENS), ours(witness), Graph()
    token = cx.tensor((1, 1), "int64").set(TOKENS[:1, :1])
    logits = model(token).retrieve()
    cx.execute()
    close(logits.numpy(), wanted[:1, :1], TOLERANCE, "the logits")
    shapes = {str(node.type.shape) for node in cx.ir}
    assert "(1, 1, 2, 24, 16)" in shapes or "(1, 1, 2, 48, 16)" in shapes


LONG = {"rope_type": "longrope", "short_factor": [1.0, 1.5], "long_factor": [2.0, 6.0]}
SCALINGS: dict[str, dict[str, object]] = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 3.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8},
    "yarn of DeepSeek": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 8,
        "mscale": 0.8,
        "mscale_all_dim": 0.5,
        "truncate": False,
    },
    "longrope": {**LONG, "original_max_position_embeddings": 6},
    "longrope, not yet long": {**LONG, "original_max_position_embeddings": 16, "factor": 3.0},
}


@pytest.mark.parametrize("scaling", list(SCALINGS))
def test_texts_longer_than_a_context(torch, transformers, scaling):
    name = "Phi3ForCausalLM" if "longrope" in scaling else "LlamaForCausalLM"
    keys = keys_of(name) | {"max_position_embeddings": 8 if scaling == "dynamic" else 32}
    if original := SCALINGS[scaling].get("original_max_position_embeddings"):
        keys |= {"original_max_position_embeddings": original} if "long" in scaling else {}
    keys["rope_parameters"] = {"rope_theta": 50.0, **SCALINGS[scaling]}
    if "long" in scaling:
        keys["rope_parameters"]["partial_rotary_factor"] = 1.0
    witness = theirs(torch, transformers, name, keys)
    model = ours(witness)
    wanted = logits_of(torch, witness, TOKENS)
    close(prefilled(model, TOKENS), wanted, TOLERANCE, "the prefill")
    wanted = steps_of(torch, witness, TOKENS, 5)
    close(decoded(model, TOKENS, 5), wanted, TOLERANCE, "the decoding")


@pytest.mark.needs("cc")
@pytest.mark.parametrize("form", ["", "q8_0", "q4_k"])
def test_a_step_reads_the_chosen_experts_where_they_lie(form):
    config = {
        "architectures": ["MixtralForCausalLM"], "num_hidden_layers": 1, "num_attention_heads": 4,
        "num_key_value_heads": 2, "hidden_size": 256, "intermediate_size": 512, "vocab_size": 64,
    }  # fmt: skip
    model = decoder_of(config).initialise(seed=0)
    if form:
        assert len([name for name in ll.quantise(model, form) if "experts" in name]) == 3
    cx = Graph()
    logits = model(cx.tensor((1, 1), "int64").set([[5]])).retrieve()
    cx.execute()
    wanted = logits.numpy().copy()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    cx.execute()
    close(logits.numpy(), wanted, TOLERANCE, "the step")
    definitions = [kernel.definition for kernel in cx.kernels if kernel.definition]
    # Nothing that is made is as large as one expert's matrix.
    outputs = [out.type.shape for each in definitions for out in each.outputs]
    made = {prod(ints(shape)) for shape in outputs}
    assert max(made) <= 2 * 512
    inputs = [type.shape for each in definitions for _, type in each.inputs]
    assert [shape[0] for shape in inputs if len(shape) == 3].count(8) == 3
