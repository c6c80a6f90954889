"""What files of models hold: read without running them, with what is not here and why."""

import importlib
import io
import json
import struct
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import InputError, ModelError
from luminal_lab.importing.contents import contents
from luminal_lab.nn.gguf_writing import write_gguf
from tests.expect import error_of
from tests.needs import need

TINY = """<ir_version: 8, opset_import: ["": 18, "com.example": 1]>
tiny (float[batch, 4] x) => (float[batch, 2] y)
<float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}>
{ a = MatMul(x, w)  b = Relu(a)  c = com.example.Swish(b)  y = Relu(c) }"""


def onnx_file(folder: Path, text: str = TINY) -> Path:
    need("onnx")
    parser = importlib.import_module("onnx.parser")
    path = folder / "tiny.onnx"
    path.write_bytes(parser.parse_model(text).SerializeToString())
    return path


def test_an_onnx_model_and_what_of_it_is_not_here(tmp_path):
    assert str(contents(onnx_file(tmp_path))) == (
        "tiny.onnx: an ONNX model, opset 18 of ai.onnx, opset 1 of com.example\n"
        "inputs    x  f32[batch, 4]\n"
        "outputs   y  f32[batch, 2]\n"
        "holds     8 values in 1 tensor, 32 bytes: float32\n"
        "ops       MatMul, Relu × 2, Swish\n"
        "not here  com.example.Swish: only ONNX's own ops are known"
    )


def test_a_gguf_file_with_its_forms(tmp_path):
    path = tmp_path / "model.gguf"
    raw = np.zeros((4, 34), np.uint8)
    values = {"a.weight": ll.Blocks("q8_0", raw, (4, 32)), "a.bias": np.zeros(4, "float32")}
    write_gguf(path, values, {"general.architecture": "llama"})
    held = contents(path)
    assert str(held) == (
        "model.gguf: a GGUF model, version 3, llama, 2 keys\n"
        "holds  128 values in 1 tensor, 136 bytes: q8_0\n"
        "       4 values in 1 tensor, 16 bytes: float32\n"
        "Weights(llama)  132 parameters\n"
        "  a: 132 parameters\n"
        "    bias (4,) float32\n"
        "    weight (4, 32) q8_0"
    )
    data = path.read_bytes()
    at = data.index(b"a.weight") + len("a.weight") + 4 + 2 * 8
    number = struct.pack("<I", 39)  # mxfp4, whose blocks have 17 bytes
    path.write_bytes(data[:at] + number + data[at + 4 :])
    assert contents(path).missing == {"mxfp4": "a form of blocks that is not read here"}


def test_an_op_that_the_standard_spells_is_here(tmp_path):
    text = TINY.replace("com.example.Swish", "Mish").replace(', "com.example": 1', "")
    assert contents(onnx_file(tmp_path, text)).missing == {}


def test_a_program_of_torch_is_read_and_not_unpickled(tmp_path):
    torch = need("torch")
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2)).eval()
    rows = torch.export.Dim("rows")
    program = torch.export.export(net, (torch.zeros(2, 1, 4, 4),), dynamic_shapes=({0: rows},))
    torch.export.save(program, tmp_path / "net.pt2")
    held = contents(tmp_path / "net.pt2")
    assert [value.name for value in held.values][:2] == ["0.weight", "0.bias"]
    assert (len(held.dims), held.missing) == (1, {})
    assert held.ops["aten.conv2d.default"] == 1
    assert [*held.inputs.values()] == [f"f32[{held.dims[0]}, 1, 4, 4]"]


def program(folder: Path, *nodes: str, **more: object) -> Path:
    graph = {"nodes": [{"target": t} for t in nodes], "tensor_values": {}, "outputs": []}
    module = {"graph": graph, "signature": {"input_specs": []}}
    given = {"graph_module": module, **more}
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("m/archive_format", "pt2")
        archive.writestr("m/models/model.json", json.dumps(given))
    path = folder / "m.pt2"
    path.write_bytes(data.getvalue())
    return path


def test_ops_that_nothing_can_write_say_why(tmp_path):
    held = contents(program(tmp_path, "torch.ops.aten.nonzero.default", "torch.ops.own.op.default"))
    assert held.missing["aten.nonzero.default"] == "the shape of its result depends on values"
    assert held.missing["own.op.default"].startswith("there is no such op here")


EMPTY = {"graph": {"tensor_values": {}}, "signature": {"input_specs": [{}]}}


@pytest.mark.parametrize(
    "given",
    [{}, {"graph_module": 3}, {"graph_module": {"graph": {}}}, {"graph_module": EMPTY}, []],
)
def test_a_program_that_is_none_is_an_error_of_ours(given, tmp_path):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("m/models/model.json", json.dumps(given))
    path = tmp_path / "m.pt2"
    path.write_bytes(data.getvalue())
    message = str(error_of(lambda: contents(path), InputError))
    assert message.startswith(f"inspect: {path} is no program of torch.export that is known here")


def test_letters_that_a_terminal_obeys_are_shown(tmp_path):
    name, size = {"as_tensor": {"name": "x"}}, {"as_int": "\x1b[1J"}
    module = {
        "graph": {
            "nodes": [],
            "tensor_values": {"x": {"dtype": "\x1b[2J", "sizes": [size]}},
            "outputs": [name],
        },
        "signature": {"input_specs": [{"user_input": {"arg": name}}]},
    }
    held = contents(program(tmp_path, graph_module=module))
    assert held.inputs == held.outputs == {"x": "dtype \\u001b[2J[\\u001b[1J]"}


def test_weights_a_recording_and_a_damaged_model(tmp_path):
    need("safetensors")
    ll.nn.Linear(2, 3, dtype="float16").save(tmp_path / "w")
    held = contents(tmp_path / "w")
    assert (held.bytes, held.as_json()["kind"]) == (18, "safetensors")
    (tmp_path / "run").write_bytes(b"luminal_lab recording 1\n")
    assert "is a recording, and no model" in str(
        error_of(lambda: contents(tmp_path / "run"), InputError)
    )
    path = onnx_file(tmp_path)
    path.write_bytes(path.read_bytes()[:-9])
    assert "tiny.onnx is no ONNX model" in str(error_of(lambda: contents(path), ModelError))


def test_any_change_of_a_program_is_told_or_an_error_of_ours(tmp_path):
    whole = program(tmp_path, "torch.ops.aten.relu.default", torch_version="2.13").read_bytes()
    draws = np.random.default_rng(5)
    for _ in range(60):
        mutant = bytearray(whole)
        for at in draws.integers(0, len(whole), 3):
            mutant[at] = draws.integers(0, 256)
        (tmp_path / "x.pt2").write_bytes(bytes(mutant[: draws.integers(8, len(whole))]))
        with suppress(InputError, ModelError):
            assert str(contents(tmp_path / "x.pt2"))
