"""What files are, by their contents: true ones, cut ones, and those that are no model."""

import io
import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

import luminal_lab as ll
from luminal_lab.errors import InputError
from luminal_lab.importing.detect import FileKind, kind_of_file, supported
from tests.expect import error_of
from tests.needs import need


def message_of(call):
    return str(error_of(call, InputError))


def zipped(*names: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name), b"{}")  # without the time of day
    return data.getvalue()


def safetensors(header: bytes = b"{}", data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


# ir_version = 10, an empty graph, and the default operators in version 17
ONNX = b"\x08\x0a" + b"\x3a\x00" + b"\x42\x02\x10\x11"
CONTENTS = {
    FileKind.RECORDING: b"luminal_lab recording 1\nx",
    FileKind.SAFETENSORS: safetensors(),
    FileKind.INDEX: json.dumps({"weight_map": {}}).encode(),
    FileKind.ONNX: ONNX,
    FileKind.EXPORTED: zipped("m/archive_format", "m/models/model.json", "m/data.pkl"),
    FileKind.SCRIPT: zipped("m/data.pkl", "m/code/__torch__/net.py"),
    FileKind.PICKLE: zipped("m/data.pkl", "m/data/0"),
    FileKind.GGUF: b"GGUF\x03\x00\x00\x00",
    FileKind.KERAS: b"\x89HDF\r\n\x1a\n",
    FileKind.TFLITE: b"\x1c\x00\x00\x00TFL3",
    FileKind.NUMPY: zipped("a.npy", "b.npy"),
    FileKind.GRAPH: b"graph g(%x: f32[4]) -> (%x) {\n}\n",
}


def written(folder: Path, data: bytes) -> Path:
    path = folder / "file"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", CONTENTS, ids=lambda kind: kind.name)
def test_each_kind_is_known_by_its_contents(kind, tmp_path):
    assert kind_of_file(written(tmp_path, CONTENTS[kind])) is kind


def test_an_old_pickle_and_an_array_are_known(tmp_path):
    assert kind_of_file(written(tmp_path, b"\x80\x02}q\x00.")) is FileKind.PICKLE
    data = io.BytesIO()
    np.save(data, np.zeros(2))
    assert kind_of_file(written(tmp_path, data.getvalue())) is FileKind.NUMPY


@pytest.mark.parametrize(
    ("text", "is_graph"),
    [
        ("# run: dce\n# {} a note\r\n\n  graph g[n: 1..8](%x: f32[n]) -> (%x) {\n}\n", True),
        ("\ufeffgraph layer.norm (", True),
        ("#" * 10_000 + "\ngraph g(", True),
        ("graph theory is a part of mathematics", False),
        ("# graph g(", False),
        ("digraph g(", False),
        ("paragraph\ngraph g(", False),
    ],
)
def test_a_graph_as_text_is_known_behind_its_comments(text, is_graph, tmp_path):
    path = written(tmp_path, text.encode())
    if is_graph:
        assert kind_of_file(path) is FileKind.GRAPH
    else:
        assert "is nothing that is known here" in message_of(lambda: kind_of_file(path))


def test_a_folder_with_weights_is_a_model(tmp_path):
    assert "is nothing that is known here" in message_of(lambda: kind_of_file(tmp_path))
    need("safetensors")
    ll.nn.Linear(2, 3).save(tmp_path / "model.safetensors")
    assert kind_of_file(tmp_path) is FileKind.FOLDER


def test_a_file_near_the_one_that_was_meant_is_named(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x02}q\x00.")
    folder = error_of(lambda: kind_of_file(tmp_path), ll.InputError)
    assert folder.message == (
        f"open: {tmp_path} is nothing that is known here: a folder without safetensors"
    )
    assert folder.hint == f"name a file in it, as in {tmp_path / 'pytorch_model.bin'}"
    missing = error_of(lambda: kind_of_file(tmp_path / "pytorch_modle.bin"), ll.InputError)
    assert missing.hint == "did you mean 'pytorch_model.bin'?"
    gone = error_of(lambda: kind_of_file(tmp_path / "no" / "pytorch_modle.bin"), ll.InputError)
    assert gone.hint == f"the current folder is {Path.cwd()}"
    (tmp_path / "model.safetensors").write_bytes(b"")
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    config = error_of(lambda: kind_of_file(tmp_path / "config.json"), ll.InputError)
    assert config.hint == f"name the folder of the model, {tmp_path}"


@pytest.mark.parametrize(
    "kind",
    [FileKind.PICKLE, FileKind.SCRIPT, FileKind.KERAS, FileKind.NUMPY],
    ids=lambda kind: kind.name,
)
def test_what_is_not_opened_says_why_and_what_to_do(kind, tmp_path):
    message = message_of(lambda: supported(written(tmp_path, CONTENTS[kind])))
    assert f"file is {kind.value}: " in message
    assert "\nhint: " in message


def test_pickled_weights_point_to_safetensors(tmp_path):
    path = written(tmp_path, CONTENTS[FileKind.PICKLE])
    assert message_of(lambda: supported(path)) == (
        f"open: {path} is pickled weights of PyTorch: loading it could run whatever its author "
        "wrote\nhint: with torch, torch.load(path, weights_only=True) and "
        'safetensors.torch.save_file(state, "model.safetensors") make a file that holds values '
        "alone"
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK",
        b"# a script",
        b"{",
        b'{"a": 1}',
        zipped("notes.txt"),
        zipped("m/models/model.json")[:40],
        ONNX[:2],  # without a graph
        ONNX + b"\x78\x01",  # a field that no model has
        b"\xff" * 80,
    ],
    ids=lambda data: f"{len(data)} bytes",
)
def test_what_is_no_model_is_an_error_of_ours(data, tmp_path):
    path = written(tmp_path, data)
    assert str(path) in message_of(lambda: kind_of_file(path))


def test_a_file_that_is_not_there_and_a_device(tmp_path):
    message = message_of(lambda: kind_of_file(tmp_path / "none"))
    assert message.startswith(f"open: there is no {tmp_path / 'none'}")
    assert "not a plain file" in message_of(lambda: kind_of_file("/dev/null"))


@given(st.sampled_from(sorted(CONTENTS.values())), st.data())
def test_any_change_of_a_file_is_a_kind_or_an_error_of_ours(tmp_path_factory, contents, data):
    mutant = bytearray(contents)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(mutant) - 1))
        if data.draw(st.booleans()):
            mutant[at] = data.draw(st.integers(0, 255))
        else:
            del mutant[at + 1 :]
    path = written(tmp_path_factory.mktemp("mutants"), bytes(mutant))
    try:
        kind = kind_of_file(path)
    except InputError:
        return
    assert isinstance(kind, FileKind)
