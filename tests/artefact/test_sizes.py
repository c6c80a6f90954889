"""Sizes that are chosen at export: kernels for usual ones, and bounds."""

from __future__ import annotations

import json
from pathlib import Path
from time import sleep

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import cli, nn
from luminal_lab.artefact.runner import Model
from luminal_lab.cli import export_model
from luminal_lab.cli.export_model import told_if_slow
from luminal_lab.errors import LabError
from luminal_lab.passes.compilation import Compilation
from tests.needs import need

pytestmark = pytest.mark.needs("cc")


def linear() -> Compilation:
    cx = ll.Graph("digits")
    x = cx.tensor((cx.dim("rows", 1, 512), "seq", 64), name="x")
    nn.Linear(64, 32)(x).relu().named("y").retrieve()
    return cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))


@pytest.mark.parametrize("target", ["native", "x86_64-linux"])
def test_usual_sizes_have_kernels_and_bounds_hold(target: str, tmp_path: Path) -> None:
    if target != "native":
        need("ziglang")
    compiled = linear()
    chosen = {"rows": (1, 8), "seq": range(1, 129)}
    folder = compiled.export(tmp_path / "digits", target=target, sizes=chosen)
    source, header = ((folder / f"digits.{kind}").read_text() for kind in "ch")
    assert "int64_t rows;  // 1 to 512; with kernels of its own: 1, 8" in header
    assert "int64_t seq;  // 1 to 128\n" in header
    assert all(f"if (dims[0] == {size}) return &lab_plan_{at};" in source
               for at, size in enumerate((1, 8)))  # fmt: skip
    about = json.loads((folder / "model.json").read_text())["interface"][2]
    assert [(dim["low"], dim["high"]) for dim in about] == [(1, 512), (1, 128)]
    if target != "native":
        return
    model, usual = Model(folder), Model(compiled.export(tmp_path / "usual"))
    for rows in (1, 3, 8):
        x = np.random.default_rng(0).random((rows, 5, 64), dtype="float32")
        assert model(x=x)["y"] == pytest.approx(usual(x=x)["y"], abs=1e-5)
    with pytest.raises(ValueError, match=r"^seq is 129, and must be 1 to 128$"):
        model(x=np.zeros((1, 129, 64), "float32"))


def test_every_combination_of_sizes_has_a_plan(tmp_path: Path) -> None:
    folder = linear().export(tmp_path / "digits", sizes={"rows": (1, 2), "seq": [4, 6]})
    tests = [line for line in (folder / "digits.c").read_text().split("\n") if "&lab_plan_" in line]
    assert [line.strip().partition(")")[0] for line in tests] == [
        "if (dims[0] == 1 && dims[1] == 4",
        "if (dims[0] == 1 && dims[1] == 6",
        "if (dims[0] == 2 && dims[1] == 4",
        "if (dims[0] == 2 && dims[1] == 6",
        "return &lab_plan_4;",
    ]
    x = np.random.default_rng(0).random((2, 6, 64), dtype="float32")
    assert Model(folder)(x=x)["y"].shape == (2, 6, 32)


def test_bounds_that_are_declared_at_export_let_a_model_leave(tmp_path: Path) -> None:
    cx = ll.Graph("parts")
    n = cx.dim("n", 1, 100)
    y = cx.tensor((cx.dim("m", 1, 64) // (5 - n),), name="x") * 2
    y.named("y").retrieve()
    compiled = cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    with pytest.raises(LabError, match=r"divides by .*, which may be 0"):
        compiled.export(tmp_path / "parts")
    model = Model(compiled.export(tmp_path / "parts", sizes={"n": range(1, 5)}))
    assert model(x=np.ones(3, "float32"), m=6, n=3)["y"].tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ([1], "export: sizes is [1], which names no dim"),
        ({"row": 1}, "export: sizes names 'row', and this graph has no such dim"),
        ({"rows": "a"}, "export: sizes gives the dim 'rows' the size 'a'"),
        ({"rows": True}, "export: sizes gives the dim 'rows' the size True"),
        ({"rows": ()}, "export: sizes gives the dim 'rows' the size ()"),
        ({"rows": 0}, "export: sizes: dim 'rows': 0 is out of its bounds, which are 1 to 512"),
        (
            {"rows": range(1, 600)},
            "export: sizes: dim 'rows': 599 is out of its bounds, which are 1 to 512",
        ),
        (
            {"rows": range(3, 3)},
            "export: sizes gives the dim 'rows' the bounds range(3, 3), and no size is within them",
        ),
        (
            {"rows": range(1, 65, 8)},
            "export: sizes gives the dim 'rows' the bounds range(1, 65, 8), and multiples begin at "
            "one",
        ),
        (
            {"rows": range(1, 6), "seq": (*range(1, 18),)},
            "export: sizes asks for 17 combinations of sizes, each with its kernels",
        ),
    ],
)
def test_sizes_that_cannot_be(sizes: object, words: str, tmp_path: Path) -> None:
    with pytest.raises(LabError) as caught:
        linear().export(tmp_path / "digits", sizes=sizes)  # pyright: ignore[reportArgumentType]  # on purpose
    assert caught.value.message == words
    assert not (tmp_path / "digits").exists()


def test_a_slow_export_says_what_zig_may_be_at(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with told_if_slow("x86_64-windows"):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(export_model, "SILENT", 0)
    said = ""
    with told_if_slow("native"), told_if_slow("x86_64-windows"):
        for _ in range(500):
            said += capsys.readouterr().err
            if said.endswith("\n"):
                break
            sleep(0.01)
    assert said == (
        "zig is compiling for x86_64-windows; the first time, it also builds the C library of that "
        "system, which may take minutes\n"
    )


@pytest.mark.needs("onnx")
def test_the_command_line_takes_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx = need("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    info = helper.make_tensor_value_info
    node = helper.make_node("Relu", ["x"], ["y"])
    ports = [info("x", kind, ["batch", 3])], [info("y", kind, ["batch", 3])]
    graph = helper.make_graph([node], "g", *ports)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    (tmp_path / "relu.onnx").write_bytes(model.SerializeToString())
    words = ["export-model", str(tmp_path / "relu.onnx"), str(tmp_path / "relu"), "--sizes"]
    assert cli.main([*words, "batch=1..8"]) == 0
    with pytest.raises(ValueError, match=r"^batch is 9, and must be 1 to 8$"):
        Model(tmp_path / "relu")(x=np.zeros((9, 3), "float32"))
    assert cli.main([*words, "batch=1,8"]) == 0
    assert "kernels of its own: 1, 8" in (tmp_path / "relu" / "relu.h").read_text()
    capsys.readouterr()
    for wrong in ("batch", "batch=", "batch=1.5", "batch=--1", "1=batch", "batch=1..", "batch=1;2"):
        assert cli.main([*words, wrong]) == 2
        assert capsys.readouterr().err == (
            f"export-model: --sizes cannot be {wrong!r}\n"
            "hint: as in batch=1,8,32 for usual sizes, or seq=1..128 for bounds\n"
        )
    for size in ("0", "-1", "-1..4"):  # all with one explanation
        assert cli.main([*words, f"batch={size}"]) == 2
        told = f"dim 'batch': {size[:2].rstrip('.')} is out of its bounds, which are at least 1"
        assert told in capsys.readouterr().err
    assert cli.main([*words, "batch=8..1"]) == 2
    assert capsys.readouterr().err == (
        "export-model: --sizes batch=8..1: the bounds are the wrong way round\n"
        "hint: the smaller one comes first, as in batch=1..8\n"
    )
    assert cli.main([*words, "batch=1", "batch=2"]) == 2
    assert capsys.readouterr().err.startswith("export-model: --sizes names batch twice\n")
    assert cli.main([*words, "batches=1"]) == 2
    assert "did you mean 'batch'?" in capsys.readouterr().err
