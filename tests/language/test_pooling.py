"""Vectors of tokens become one: each way as sentence-transformers has it, and what is not here."""

import json

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import InputError, ModelError
from luminal_lab.language.pooling import WAYS, Pooling, stack_of
from tests.expect import error_of
from tests.language.folders import stacked, write
from tests.needs import need

X = np.random.default_rng(0).standard_normal((3, 5, 4)).astype("float32")
COUNTED = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 1, 1, 0]], bool)
"""The last text has a prompt that does not count."""


def run(module, x, *more) -> np.ndarray:
    cx = ll.Graph()
    tensors = [cx.tensor(np.shape(value), str(value.dtype)).set(value) for value in (x, *more)]
    result = module(*tensors).retrieve()
    cx.execute()
    return result.numpy()


@pytest.mark.parametrize("way", WAYS)
def test_each_way_is_as_it_is_defined(way):
    rows = []
    for x, counted in zip(X, COUNTED, strict=True):
        own, places = x[counted], np.flatnonzero(counted) + 1.0
        rows.append(
            {
                "cls": own[0],
                "max": own.max(0),
                "mean": own.mean(0),
                "mean_sqrt_len_tokens": own.sum(0) / np.sqrt(len(own)),
                "weightedmean": (own * places[:, None]).sum(0) / places.sum(),
                "lasttoken": own[-1],
            }[way]
        )
    assert np.abs(run(Pooling([way]), X, COUNTED) - np.array(rows)).max() <= 1e-6


@pytest.mark.needs("torch", "sentence_transformers")
def test_all_ways_joined_are_those_of_sentence_transformers():
    torch, theirs = need("torch"), need("sentence_transformers.sentence_transformer.modules")
    counted = COUNTED[:2]
    features = {
        "token_embeddings": torch.tensor(X[:2]),
        "attention_mask": torch.tensor(counted).long(),
    }
    wanted = theirs.Pooling(4, pooling_mode=tuple(WAYS))(features)["sentence_embedding"].numpy()
    assert np.abs(run(Pooling([*WAYS]), X[:2], counted) - wanted).max() <= 1e-6


def test_without_a_word_about_it_it_is_the_mean(tmp_path):
    assert stack_of(tmp_path).pooling.ways == ["mean"]


@pytest.mark.parametrize(
    ("config", "ways"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, ["cls"]),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, ["max", "mean"]),
        ({"pooling_mode": "lasttoken"}, ["lasttoken"]),
        ({"pooling_mode": ["cls", "mean"]}, ["cls", "mean"]),
        ({}, ["mean"]),
    ],
)
def test_the_pooling_of_old_and_new_files_is_read(tmp_path, config, ways):
    stacked(tmp_path, "Pooling")
    write(tmp_path / "1_Pooling" / "config.json", config)
    assert stack_of(tmp_path).pooling.ways == ways


def test_what_is_behind_the_pooling_runs_in_its_order(tmp_path):
    files = need("safetensors.numpy")
    stacked(tmp_path, "Pooling", "Dense", "LayerNorm", "Normalize", "Dropout")
    write(tmp_path / "1_Pooling" / "config.json", {"pooling_mode": "mean"})
    dense = {"in_features": 4, "out_features": 3, "use_residual": True}
    dense |= {"activation_function": "torch.nn.modules.activation.Tanh"}
    write(tmp_path / "2_Dense" / "config.json", dense)
    write(tmp_path / "3_LayerNorm" / "config.json", {"dimension": 3})
    rng = np.random.default_rng(1)
    shapes = {"linear.weight": (3, 4), "linear.bias": (3,), "residual.weight": (3, 4)}
    values = {name: rng.standard_normal(shape, "float32") for name, shape in shapes.items()}
    files.save_file(values, tmp_path / "2_Dense" / "model.safetensors")
    norm = {"norm.weight": np.full(3, 2, "float32"), "norm.bias": np.ones(3, "float32")}
    files.save_file(norm, tmp_path / "3_LayerNorm" / "model.safetensors")
    x = X[:, 0]
    y = np.tanh(x @ values["linear.weight"].T + values["linear.bias"])
    y += x @ values["residual.weight"].T
    y = (y - y.mean(1, keepdims=True)) / np.sqrt(y.var(1, keepdims=True) + 1e-5) * 2 + 1
    y /= np.linalg.norm(y, axis=1, keepdims=True)

    def heads(vectors):
        for head in stack_of(tmp_path).heads:
            vectors = head(vectors)
        return vectors

    assert np.abs(run(heads, x) - y).max() <= 2e-6


def test_a_pooling_that_is_not_here_is_named(tmp_path):
    stacked(tmp_path, "Pooling")
    write(tmp_path / "1_Pooling" / "config.json", {"pooling_mode": "meen"})
    error = error_of(lambda: stack_of(tmp_path), ModelError)
    assert (error.message, error.hint) == (
        "load: there is no pooling 'meen'",
        "did you mean 'mean'?",
    )


def test_a_module_that_is_not_here_is_named(tmp_path):
    stacked(tmp_path, "Pooling", "Spell")
    write(tmp_path / "1_Pooling" / "config.json", {})
    assert error_of(lambda: stack_of(tmp_path), ModelError).message == (
        f"load: {tmp_path / 'modules.json'} has the module 'Spell', which is not here"
    )


def test_a_stack_of_something_else_is_not_taken_for_one(tmp_path):
    stacked(tmp_path, "Dense")
    assert error_of(lambda: stack_of(tmp_path), ModelError).message == (
        f"load: {tmp_path / 'modules.json'} begins with Transformer, Dense"
    )


def test_a_module_of_another_package_is_not_taken_for_ours(tmp_path):
    entries = [
        {"type": f"sentence_transformers.models.{k}", "path": ""}
        for k in ("Transformer", "Pooling")
    ]
    write(tmp_path / "modules.json", [*entries, {"type": "custom_code.Normalize", "path": ""}])
    write(tmp_path / "config.json", {})
    assert (
        "has the module 'custom_code.Normalize'"
        in error_of(lambda: stack_of(tmp_path), ModelError).message
    )


@pytest.mark.parametrize("path", ["../elsewhere", "/etc", 3])
def test_a_module_lies_in_the_folder(tmp_path, path):
    write(tmp_path / "modules.json", [{"type": "sentence_transformers.models.X", "path": path}])
    assert "has a module" in error_of(lambda: stack_of(tmp_path), ModelError).message


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"activation_function": "my.Own", "in_features": 4, "out_features": 3}, "my.Own"),
        ({"in_features": "4", "out_features": 3}, "'4' features"),
        ({"module_input_name": "tokens", "in_features": 4, "out_features": 3}, "'tokens'"),
    ],
)
def test_what_a_dense_layer_has_that_is_not_here_is_named(tmp_path, config, words):
    stacked(tmp_path, "Pooling", "Dense")
    write(tmp_path / "1_Pooling" / "config.json", {})
    write(tmp_path / "2_Dense" / "config.json", config)
    assert words in error_of(lambda: stack_of(tmp_path), ModelError).message


def test_pickled_weights_of_a_module_are_not_read(tmp_path):
    stacked(tmp_path, "Pooling", "Dense")
    write(tmp_path / "1_Pooling" / "config.json", {})
    write(tmp_path / "2_Dense" / "config.json", {"in_features": 4, "out_features": 3})
    (tmp_path / "2_Dense" / "pytorch_model.bin").write_bytes(b"\x80\x02.")
    assert "is pickled weights" in error_of(lambda: stack_of(tmp_path), InputError).message


@pytest.mark.parametrize("text", ["{", "3", json.dumps([3]), "[" * 10_000])
def test_a_damaged_list_of_modules_is_told(tmp_path, text):
    (tmp_path / "modules.json").write_text(text)
    assert "modules.json" in error_of(lambda: stack_of(tmp_path), (InputError, ModelError)).message
