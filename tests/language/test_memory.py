"""What memory models of language take: by shape, by a file, and as docs/memory.md has it."""

import importlib.util
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError
from luminal_lab.language.memory import ModelMemory, by_shape, memory_plan, plan_of_file
from luminal_lab.nn.gguf_writing import write_gguf
from luminal_lab.nn.models.decoder import Decoder
from luminal_lab.nn.models.decoders import from_config
from luminal_lab.nn.packing import packed
from tests.expect import error_of
from tests.needs import need

DOCS = Path(__file__).resolve().parents[2] / "docs"
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 256,
    "intermediate_size": 512,
    "max_position_embeddings": 2048,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "num_key_value_heads": 2,
    "vocab_size": 300,
}
MATRICES = 300 * 256 * 2 + 3 * (256 * (256 + 128 + 128 + 256) + 3 * 256 * 512)
NORMS = 7 * 256 * 4


@cache
def planned(form: str = "float32") -> ModelMemory:
    """What the model of LLAMA takes, compiled once for each form."""
    return memory_plan(LLAMA, form)


@pytest.mark.parametrize(
    ("form", "size", "values"),
    [("float32", 4, 1), ("bf16", 2, 1), ("q8_0", 34, 32), ("q4_k", 144, 256)],
)
def test_weights_take_what_their_form_does(form, size, values):
    assert planned(form).weights == MATRICES * size // values + NORMS


def test_blocks_of_a_shape_have_no_memory_behind_them():
    model = by_shape(from_config({**LLAMA, "hidden_size": 8192, "head_dim": 64}), "q8_0")
    blocks = model.lm_head.weight.blocks
    assert blocks is not None
    assert blocks.raw.strides == (0, 0)
    assert not any(p.is_loaded and p.blocks is None for p in model.parameters().values())


def test_some_weights_of_q4_k_m_have_more_bits():
    model = by_shape(from_config({**LLAMA, "num_hidden_layers": 16}), "q4_k_m")
    assert model.lm_head.weight.form == "q6_k"
    assert model.model.embed_tokens.weight.form == "q4_k"
    values = [layer.self_attn.v_proj.weight.form for layer in model.model.layers]
    # llama.cpp's choice: the first eighth, the last eighth, and each third in between
    assert [at for at, form in enumerate(values) if form == "q6_k"] == [0, 1, 4, 7, 10, 13, 14, 15]
    assert {layer.self_attn.q_proj.weight.form for layer in model.model.layers} == {"q4_k"}
    tied = by_shape(from_config({**LLAMA, "tie_word_embeddings": True}), "q4_k_m")
    assert tied.lm_head.weight.form == "q6_k"


def test_the_plan_is_that_of_the_graph_that_runs():
    plan, model = planned(), Decoder(from_config(LLAMA))
    cx = ll.Graph()
    tokens, cache = cx.tensor((1, "seq"), "int64"), ll.nn.KVCache(cx, 2048)
    model.head(model.model(tokens, cache)[:, -1])[0].retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    whole = cx.memory_plan
    assert whole is not None
    assert plan.chunk(1280) == whole.bind({"seq": 256, "past": 1024}).arena_bytes
    assert [buffer.shape for pair in cache.buffers for buffer in pair] == [(1, 2, 2048, 64)] * 6
    assert plan.keys(2048) == 6 * 2 * 2048 * 64 * 4
    assert plan.step(2048) < plan.chunk(2048)


def test_a_context_fits_with_all_that_it_takes():
    plan = planned("q8_0")
    most = plan.fits(plan.total(1000))
    assert plan.total(most) <= plan.total(1000) < plan.total(most + 1)
    assert plan.fits(plan.total(2048)) == plan.fits(1 << 40) == 2048
    assert plan.fits(plan.weights) == 0


def test_what_cannot_be_is_refused():
    plan = planned()
    wrong: list[Any] = [0, 2049, 1.5]
    for context in wrong:
        error = error_of(lambda context=context: plan.total(context), ArgumentError)
        assert error.hint == "give a number from 1 to 2048"
    error = error_of(lambda: plan.total(2049), ArgumentError)
    assert error.message == "memory: context is 2,049, and the model was made for 2,048"
    error = error_of(lambda: memory_plan(LLAMA, "q8"), ArgumentError)
    assert str(error).startswith("memory: there is no form 'q8'\nhint: did you mean 'q8_0'?")
    mixture = {**LLAMA, "architectures": ["MixtralForCausalLM"], "num_local_experts": 4}
    error = error_of(lambda: memory_plan(mixture, "q4_k_m"), ArgumentError)
    assert str(error).startswith("memory: q4_k_m of a model with experts is not known here")


def gguf(folder: Path, **keys: object) -> Path:
    """Write the model of LLAMA with blocks in every matrix, and return its path."""
    kind = {"general.architecture": "llama"}
    own = {
        "block_count": 3,
        "context_length": 2048,
        "embedding_length": 256,
        "feed_forward_length": 512,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "attention.layer_norm_rms_epsilon": 1e-5,
    }
    shapes = {"token_embd": (300, 256), "output": (300, 256)}
    for layer in range(3):
        parts = {"attn_q": (256, 256), "attn_k": (128, 256), "attn_v": (128, 256)}
        parts |= {"attn_output": (256, 256), "ffn_gate": (512, 256), "ffn_up": (512, 256)}
        parts |= {"ffn_down": (256, 512)}
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in parts.items()}
    values: dict[str, Any] = {
        f"{name}.weight": packed("q8_0", np.zeros(shape, "float32"))
        for name, shape in shapes.items()
    }
    norms = [f"blk.{layer}.{name}_norm" for layer in range(3) for name in ("attn", "ffn")]
    for name in (*norms, "output_norm"):
        values[f"{name}.weight"] = np.ones(256, "float32")
    path = folder / "model.gguf"
    write_gguf(path, values, {**kind, **{f"llama.{k}": v for k, v in own.items()}, **keys})
    return path


def test_a_file_takes_what_its_shape_does(tmp_path):
    plan, wanted = plan_of_file(gguf(tmp_path)), planned("q8_0")
    assert plan is not None
    assert plan.weights == wanted.weights
    assert plan.needs(1024) == wanted.needs(1024)


def test_a_folder_with_a_configuration(tmp_path):
    need("safetensors")
    Decoder(from_config(LLAMA)).initialise(seed=0).save(tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    plan = plan_of_file(tmp_path)
    assert plan is not None
    assert plan.weights == planned().weights


def test_files_of_something_else_have_no_plan(tmp_path):
    assert plan_of_file(gguf(tmp_path, **{"general.architecture": "clip"})) is None


# -- docs/memory.md --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page() -> Any:
    """The script that makes the tables of docs/memory.md."""
    spec = importlib.util.spec_from_file_location("memory_page", DOCS / "memory.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    paths = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = paths
    return module


TEXT = (DOCS / "memory.md").read_text(encoding="utf-8")
MODELS, FORMS = ("Llama 3 8B", "Mistral 7B"), ("Q8_0", "Q4_K_M")


@pytest.mark.share(1)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("form", FORMS)
def test_the_tables_are_those_of_the_plans(page, model, form):
    assert [(model, form) for model in MODELS for form in FORMS] == page.ROWS
    again = "run python docs/memory.py"
    assert page.row(model, form) in TEXT.splitlines(), again
    assert page.cache(model, page.plan(model, form)) in TEXT.splitlines(), again


def test_the_weights_are_those_of_published_files(page):
    # What llama.cpp says when it loads them: 8137.64 MiB and 4685.30 MiB
    sizes = {"q8_0": 8_532_934_656, "q4_k_m": 4_912_898_048}
    for form, size in sizes.items():
        model = by_shape(from_config(page.LLAMA), form)
        held = sum(
            p.blocks.raw.nbytes if p.blocks else p.shape[0] * 4 for p in model.parameters().values()
        )
        assert held == size, form


def test_steps_that_round_have_a_plan_of_their_own(tmp_path):
    path = gguf(tmp_path)
    with pytest.warns(ll.LabWarning, match="^activations in bfloat16 change nothing"):
        plan = plan_of_file(path, "bfloat16")
    plain = plan_of_file(path)
    assert plan is not None
    assert plain is not None
    assert plan.steps is not None
    assert plan.chunk(64) == plain.chunk(64)
