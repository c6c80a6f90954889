"""Weights without a model: files, indices and folders, and what is wrong with some."""

import json
from pathlib import Path

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import InputError
from luminal_lab.importing.detect import FileKind
from luminal_lab.importing.weights import read_weights
from luminal_lab.nn.gguf_writing import write_gguf
from luminal_lab.opening import session_of
from tests.expect import error_of
from tests.needs import need

need("safetensors")


def message_of(call):
    return str(error_of(call, InputError))


def saved(path: Path, **shapes: tuple[int, ...]) -> None:
    values = {name: np.full(shape, 2, np.float32) for name, shape in shapes.items()}
    need("safetensors.numpy").save_file(values, path)


def index(folder: Path, **files: object) -> Path:
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": files}))
    return path


def test_a_file_is_a_tree_of_parts_in_the_order_of_their_numbers(tmp_path):
    names = [f"h.{number}.weight" for number in (0, 2, 10)]
    saved(tmp_path / "w", **dict.fromkeys([*names, "norm"], (2, 3)))
    assert str(read_weights(tmp_path / "w")) == (
        "Weights()  24 parameters\n"
        "  norm (2, 3) float32\n"
        "  h: 18 parameters\n"
        "    0 … 10: 3 × 6 parameters\n"
        "      weight (2, 3) float32"
    )


def test_a_folder_is_the_files_of_its_index_and_has_the_name_of_its_architecture(tmp_path):
    saved(tmp_path / "a.safetensors", x=(2,), spare=(5,))
    saved(tmp_path / "b.safetensors", y=(3,))
    index(tmp_path, x="a.safetensors", y="b.safetensors")
    (tmp_path / "config.json").write_text('{"architectures": ["TinyForCausalLM"]}')
    weights = read_weights(tmp_path)
    assert str(weights).splitlines()[0] == "Weights(TinyForCausalLM)  5 parameters"
    assert weights.parameters()["y"].value.tolist() == [2, 2, 2]


def test_values_become_inputs_in_the_scopes_of_their_names(tmp_path):
    saved(tmp_path / "w", **{"h.0.weight": (2,), "norm": (2,)})
    cx = ll.Graph()
    for tensor in read_weights(tmp_path / "w").write(cx):
        tensor.retrieve()
    assert [(node.name, node.meta.scope) for node in cx.ir] == [
        ("norm", ""),
        ("h.0.weight", "h.0"),
    ]


@pytest.mark.parametrize("file", ["../a.safetensors", "/etc/passwd", "b\\a.safetensors", "", 3])
def test_an_index_names_no_file_outside_its_folder(file, tmp_path):
    message = message_of(lambda: read_weights(index(tmp_path, x=file)))
    assert "which is no file beside it" in message


def test_an_index_whose_file_is_not_there_or_lacks_a_value(tmp_path):
    path = index(tmp_path, x="a.safetensors")
    assert f"there is no {tmp_path / 'a.safetensors'}" in message_of(lambda: read_weights(path))
    saved(tmp_path / "a.safetensors", y=(2,))
    assert "a.safetensors has no x" in message_of(lambda: read_weights(path))


@pytest.mark.parametrize("kind", [FileKind.INDEX, FileKind.FOLDER])
def test_an_index_without_values_is_named_by_its_file(kind, tmp_path):
    file = index(tmp_path)
    path = file if kind is FileKind.INDEX else file.parent
    error = error_of(lambda: session_of(path, kind), InputError)
    assert error.message == f"open: {file} names no values"
    assert error.hint == "fetch it again"


def test_weights_without_values_are_named_where_they_are_to_be_seen(tmp_path):
    path = tmp_path / "a.safetensors"
    saved(path)
    error = error_of(lambda: session_of(path, FileKind.SAFETENSORS), InputError)
    assert error.message == f"open: {path} has no values, so that there is nothing to see"
    assert error.hint == "fetch it again, as it was published"


def test_a_program_is_more_than_weights(tmp_path):
    (tmp_path / "m").write_bytes(b"\x08\x0a\x3a\x00\x42\x02\x10\x11")
    assert "is an ONNX model, which is more than weights" in message_of(
        lambda: read_weights(tmp_path / "m")
    )


def test_a_gguf_file_is_shown_with_what_its_bytes_mean(tmp_path):
    raw = np.random.default_rng(0).integers(0, 60, (2, 144), np.uint8)
    blocks = ll.Blocks("q4_k", raw, (2, 256))
    path = tmp_path / "model.gguf"
    values = {"blk.10.w": np.ones(3, "float32"), "blk.9.w": blocks}
    write_gguf(path, values, {"general.architecture": "llama"})
    assert str(read_weights(path)) == (
        "Weights(llama)  515 parameters\n"
        "  blk: 515 parameters\n"
        "    9: 512 parameters\n"
        "      w (2, 256) q4_k\n"
        "    10: 3 parameters\n"
        "      w (3,) float32"
    )
    cx = session_of(path, FileKind.GGUF)
    cx.execute()
    values = [cx[node.name].numpy() for node in cx.ir.outputs]
    np.testing.assert_array_equal(values[0], blocks.value)
    np.testing.assert_array_equal(values[1], np.ones(3))
