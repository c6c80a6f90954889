"""Weights by name from files, indices and folders: mapped, with what the files say besides."""

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import InputError
from luminal_lab.importing.detect import FileKind
from luminal_lab.importing.model_file import model_file
from luminal_lab.nn.gguf_writing import write_gguf
from luminal_lab.nn.weights import is_mapped
from luminal_lab.tensor.blocks import FORMS, Blocks
from tests.expect import error_of
from tests.needs import need

ARRAY = np.arange(64, dtype=np.float32).reshape(2, 32)
RAW = np.random.default_rng(0).integers(0, 256, (2, 34), dtype=np.uint8)


def safetensors(path, arrays: dict[str, Any]):
    need("safetensors.numpy").save_file(arrays, path)


def test_gguf_gives_arrays_blocks_and_keys(tmp_path):
    path = tmp_path / "model.gguf"
    values = {"a": ARRAY, "q": Blocks("q8_0", RAW, (2, 32)), "h": ARRAY.astype(np.float16)}
    write_gguf(path, values, {"general.architecture": "llama", "llama.block_count": 3})
    file: Any = model_file(path)
    assert file.kind is FileKind.GGUF
    assert file.entries["llama.block_count"] == 3
    assert {name: (t.form, t.shape) for name, t in file.types.items()} == {
        "a": ("float32", (2, 32)),
        "q": ("q8_0", (2, 32)),
        "h": ("f16", (2, 32)),
    }
    np.testing.assert_array_equal(file["a"], ARRAY)
    assert file["q"].raw.base is not None
    np.testing.assert_array_equal(file["q"].raw, RAW)
    np.testing.assert_array_equal(file["h"].value, ARRAY)


def test_safetensors_are_mapped_and_halves_are_blocks(tmp_path):
    path = tmp_path / "model.safetensors"
    halves = ARRAY.astype(ml_dtypes.bfloat16)
    safetensors(path, {"a": ARRAY, "b": halves.view(np.uint16), "n": np.array([3], "int64")})
    file: Any = model_file(path)
    np.testing.assert_array_equal(file["a"], ARRAY)
    assert not file["a"].flags.writeable
    assert file["n"].tolist() == [3]
    safetensors(path, {"a": ARRAY.astype(np.float16)})
    value = model_file(path)["a"]
    assert isinstance(value, Blocks)
    assert value.form is FORMS["f16"]
    np.testing.assert_array_equal(value.value, ARRAY)


def test_a_folder_has_its_configuration(tmp_path):
    safetensors(tmp_path / "one.safetensors", {"a": ARRAY})
    safetensors(tmp_path / "two.safetensors", {"b": ARRAY, "c": ARRAY})
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    file: Any = model_file(tmp_path)
    assert sorted(file) == ["a", "b", "c"]
    assert file.entries == {"model_type": "llama"}
    index = {"weight_map": {"a": "one.safetensors", "c": "two.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert sorted(model_file(tmp_path)) == ["a", "c"]
    file = model_file(tmp_path / "model.safetensors.index.json")
    assert file.entries == {"model_type": "llama"}


def test_a_parameter_takes_what_is_there(tmp_path):
    path = tmp_path / "model.gguf"
    write_gguf(path, {"weight": Blocks("q8_0", RAW, (2, 32))}, {})
    layer = ll.nn.Linear(32, 2, bias=False)
    layer.weight.set(model_file(path)["weight"])
    np.testing.assert_array_equal(layer.weight.value, Blocks("q8_0", RAW, (2, 32)).value)


def test_a_module_takes_all_of_a_file_without_a_copy(tmp_path):
    path = tmp_path / "model.gguf"
    values = {"weight": Blocks("q8_0", RAW, (2, 32)), "bias": np.ones(2, "float32")}
    write_gguf(path, {**values, "more": ARRAY}, {})
    layer = ll.nn.Linear(32, 2)
    left = layer.load_state_dict(model_file(path), strict=False)
    assert left.extra == ("more",)
    weight, bias = layer.parameters().values()
    assert weight.blocks is not None
    assert is_mapped(weight.blocks.raw)
    assert is_mapped(bias.value)
    halves = {"weight": Blocks("f16", ARRAY[:, :32].astype(np.float16), (2, 32))}
    half = ll.nn.Linear(32, 2, bias=False).to("float16")
    half.load_state_dict(halves)
    np.testing.assert_array_equal(half.weight.value, ARRAY[:, :32])


def test_what_is_not_there_is_named(tmp_path):
    path = tmp_path / "model.gguf"
    write_gguf(path, {"weight": ARRAY}, {})
    error = error_of(lambda: model_file(path)["wight"], InputError)
    assert error.message == f"open: {path} has no 'wight'"
    assert error.hint == "did you mean 'weight'?"
    safetensors(tmp_path / "one.safetensors", {"a": ARRAY})
    (tmp_path / "config.json").write_text("[]")
    error = error_of(lambda: model_file(tmp_path), InputError)
    assert error.message == f"open: {tmp_path / 'config.json'} is no object of JSON"


def test_a_file_that_was_written_into_is_refused(tmp_path):
    path = tmp_path / "model.gguf"
    write_gguf(path, {"weight": ARRAY}, {})
    file: Any = model_file(path)
    with path.open("r+b") as opened:
        opened.truncate(100)
    with pytest.raises(InputError, match="was changed after it was loaded"):
        file["weight"]
