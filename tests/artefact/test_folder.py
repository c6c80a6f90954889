"""The folder of a model: that it stands alone, and what is said where something does not fit."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import cli, nn
from luminal_lab.artefact import targets
from luminal_lab.artefact.runner import Model
from luminal_lab.artefact.targets import EVERYWHERE, TARGETS
from luminal_lab.errors import ArgumentError, DeviceError, InputError, RecordingError
from luminal_lab.passes.compilation import Compilation
from tests.expect import error_of
from tests.needs import need

pytestmark = pytest.mark.needs("cc")
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", *EVERYWHERE[1:]]
X = np.arange(12, dtype="float32").reshape(3, 4) / 7


def linear() -> tuple[Compilation, nn.Linear]:
    cx, layer = ll.Graph("digits"), nn.Linear(4, 5)
    x = cx.tensor((cx.dim("rows", 1, 50), 4), name="x")
    layer(x).sin().named("y").retrieve()
    return cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1)), layer


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return linear()[0].export(tmp_path_factory.mktemp("out") / "digits")


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))


def test_it_runs_where_luminal_lab_is_not(made: Path, tmp_path: Path) -> None:
    lines = (
        "import sys; sys.modules['luminal_lab'] = None; sys.path.insert(0, sys.argv[1])\n"
        "import numpy as np; from run import Model\n"
        "x = np.arange(12, dtype='float32').reshape(3, 4) / 7\n"
        "print(Model(sys.argv[1])(x=x)['y'].tobytes().hex())\n"
        "print([name for name in sys.modules if name[:5] in ('lumin', 'ml_dt')])\n"
    )
    command = [sys.executable, "-I", "-c", lines, str(made)]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[1] == "['luminal_lab']"
    assert said.splitlines()[0] == Model(made)(x=X)["y"].tobytes().hex()
    assert len((made / "run.py").read_text().splitlines()) <= 100


def test_everything_is_there_and_the_same_each_time(made: Path, tmp_path: Path) -> None:
    names = "Makefile digits.c digits.h digits.so main.c model.json run.py weights.safetensors"
    files = sorted(file.name for file in made.iterdir() if file.is_file())
    assert files == sorted(names.split())
    again = linear()[0].export(tmp_path / "digits")
    for file in ("digits.c", "digits.h", "model.json", "main.c", "Makefile"):
        assert (again / file).read_text() == (made / file).read_text()


@pytest.mark.needs("safetensors")
def test_the_weights_are_a_file_of_safetensors(tmp_path: Path) -> None:
    compiled, layer = linear()
    state = need("safetensors.numpy").load_file(compiled.export(tmp_path) / "weights.safetensors")
    assert {name: value.tolist() for name, value in state.items()} == {
        name: parameter.value.tolist() for name, parameter in layer.parameters().items()
    }


@pytest.mark.parametrize("flags", [["-O2"], ["-O1", "-g", "-fsanitize=address,undefined"]])
def test_the_c_has_no_warnings_and_no_undefined_behaviour(flags: list[str], copied: Path) -> None:
    command = ["cc", *FLAGS, *flags, "main.c", "digits.c", "-o", "program"]
    done = subprocess.run(command, cwd=copied, capture_output=True, text=True, check=False)
    assert (done.returncode, "warning" in done.stderr) == (0, False), done.stderr
    ran = subprocess.run(["./program"], cwd=copied, capture_output=True, text=True, check=True)
    want = Model(copied)(x=np.zeros((1, 4), "float32"))["y"][0]
    assert ran.stderr == ""
    assert [float(word) for word in ran.stdout.split()[1:]] == pytest.approx(want, abs=1e-5)


@pytest.mark.needs("make")
def test_make_makes_the_library_and_the_program(copied: Path) -> None:
    (copied / "digits.so").unlink()
    subprocess.run(["make", "-s"], cwd=copied, check=True)
    assert Model(copied)(x=X)["y"].shape == (3, 5)
    assert subprocess.run(["./digits"], cwd=copied, capture_output=True, check=True).stdout


def said_by(call: Callable[[], object]) -> str:
    with pytest.raises((OSError, ValueError, TypeError, IndexError)) as told:
        call()
    return str(told.value)


def test_weights_that_are_too_short_or_others(copied: Path) -> None:
    file, not_its = copied / "weights.safetensors", "these are not the weights that it was exported"
    whole = file.read_bytes()
    for other in (whole[:-1], whole[:40], b"", whole.replace(b"bias", b"bios")):
        file.write_bytes(other)
        assert not_its in said_by(lambda: Model(copied))
    file.unlink()
    assert "weights.safetensors" in said_by(lambda: Model(copied))
    file.write_bytes(whole + b"more")
    assert Model(copied)(x=X)["y"].shape == (3, 5)


def test_a_model_json_of_another_version_or_model(copied: Path) -> None:
    file = copied / "model.json"
    about = json.loads(file.read_text())
    others: list[Any] = [{**about, "format": 2}, {}, [], None]
    for other in others:
        file.write_text(json.dumps(other))
        assert "model.json is damaged, or not of format 1" in said_by(lambda: Model(copied))
    about["interface"][0][0]["rank"] = 7
    file.write_text(json.dumps(about))
    assert "is not what model.json is about: export it again" in said_by(lambda: Model(copied))


def test_a_model_json_that_is_cut_off_or_damaged(copied: Path) -> None:
    file = copied / "model.json"
    whole = file.read_bytes().rstrip()
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        assert "model.json is damaged" in said_by(lambda: Model(copied))
    deep = b"[" * 100_000, b'{"format": 1e999}', b"\xff\xfe", b"1", b'{"format": 1}'
    for text in deep:
        file.write_bytes(text)
        assert "model.json is damaged" in said_by(lambda: Model(copied))
    file.write_text(json.dumps({**json.loads(whole), "format": 2}))
    assert said_by(lambda: Model(copied)).endswith("not of format 1: its format is 2")
    rng, clear = random.Random(5), ("model.json is", "is not there", "is for ", "these are not")
    for _ in range(400):
        text = bytearray(whole)
        for _ in range(rng.choice((1, 1, 3))):
            text[rng.randrange(len(text))] = rng.randrange(256)
        file.write_bytes(text)
        said = ""
        try:
            model = Model(copied)
        except (OSError, ValueError) as error:
            said = str(error)
        else:  # what was hit is of no account to a run
            assert model(x=X)["y"].shape == (3, 5)
        assert not said or any(words in said for words in clear), (bytes(text), said)


def test_another_machine_and_no_library(copied: Path) -> None:
    file = copied / "model.json"
    about = json.loads(file.read_text())
    file.write_text(json.dumps({**about, "machine": "mips-plan9"}))
    said = said_by(lambda: Model(copied))
    assert "digits.so is for mips-plan9, and this is" in said
    assert ": export it for " in said  # make compiles the same C, for the machine that it was for
    file.write_text(json.dumps(about))
    (copied / "digits.so").unlink()
    assert "is not there; make compiles it" in said_by(lambda: Model(copied))


def test_a_processor_that_lacks_instructions_is_refused_at_opening(copied: Path) -> None:
    hidden = ["-fvisibility=hidden", "-march=native", "-DLAB_HAS(feature)=0"]
    command = ["cc", *FLAGS, *hidden, "-shared", "-fPIC", "digits.c", "-o", "digits.so"]
    subprocess.run(command, cwd=copied, check=True)
    if (
        "__x86_64__"
        in subprocess.run(
            ["cc", "-dM", "-E", "-x", "c", "/dev/null"], capture_output=True, text=True, check=True
        ).stdout
    ):
        assert "this processor lacks instructions" in said_by(lambda: Model(copied))


@pytest.mark.needs("ziglang")
@pytest.mark.parametrize(
    ("triple", "cpu", "is_asked"),
    [
        ("aarch64-linux-musl", "neoverse_v1", True),
        ("aarch64-linux-musl", "baseline", False),
        ("riscv64-linux-musl", "baseline_rv64+v", True),
        ("riscv64-linux-musl", "baseline_rv64", False),
    ],
)
def test_arm_and_risc_v_are_asked_for_what_a_library_has(
    triple: str, cpu: str, is_asked: bool, copied: Path
) -> None:
    command = [sys.executable, "-m", "ziglang", "cc", "-target", triple, f"-mcpu={cpu}"]
    command += [*FLAGS, "-c", "digits.c", "-o", "digits.o"]
    made = subprocess.run(command, cwd=copied, check=False, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert (b"getauxval" in (copied / "digits.o").read_bytes()) == is_asked


def test_arrays_and_sizes_that_do_not_fit(made: Path) -> None:
    model = Model(made)
    assert said_by(model) == "x is missing: f32[rows, 4]"
    assert said_by(lambda: model(z=X)) == "there is no input z: there are x, rows"
    assert said_by(lambda: model(x=X, rows="2")) == "rows is 2, and must be 1 to 50"
    assert said_by(lambda: model(x=X[0])) == "x is float32 (4,), not f32[rows, 4]"
    assert said_by(lambda: model(x=X + 1j)) == "x is complex64 (3, 4), not f32[rows, 4]"
    wanted = "x has the shape (3, 3), and must be (3, 4)"
    assert said_by(lambda: model(x=X[:, :3])) == wanted
    assert said_by(lambda: model(x=X, rows=2)) == "x has the shape (3, 4), and must be (2, 4)"
    too_many = np.zeros((51, 4), "float32")
    assert said_by(lambda: model(x=too_many)) == "rows is 51, and must be 1 to 50"
    assert said_by(lambda: model(x=X[:0])) == "rows is 0, and must be 1 to 50"
    assert model(x=X[::-1].T.copy().T.astype("float64")[::-1].astype("float32"))["y"].shape


def test_an_index_out_of_range(tmp_path: Path) -> None:
    cx = ll.Graph()
    table = nn.Embedding(6, 4)
    table(cx.tensor((3,), "int64", name="at")).named("y").retrieve()
    compiled = cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    model = Model(compiled.export(tmp_path / "table"))
    with pytest.raises(IndexError, match=r"^table: an index in the data is out of range$"):
        model(at=np.array([1, 6, 2]))
    assert model(at=np.array([1, 5, 2]))["y"].shape == (3, 4)


def test_two_threads_have_an_arena_each_and_not_one(made: Path) -> None:
    model = Model(made)
    dims, sizes = np.array([3], "int64"), np.zeros(5, "int64")
    assert not model._sizes(dims.ctypes.data, sizes.ctypes.data)
    arena, y = np.zeros(sizes[0], "uint8"), np.zeros((3, 5), "float32")
    ins, outs = np.array([X.ctypes.data], "uintp"), np.array([y.ctypes.data], "uintp")
    given = [dims.ctypes.data, model._weights.ctypes.data, ins.ctypes.data, outs.ctypes.data]
    assert model._run(*given, arena.ctypes.data, 0) == 0
    start = -arena.ctypes.data % 64
    arena[start : start + 8] = np.frombuffer((0x9E3779B97F4A7C15).to_bytes(8, "little"), "uint8")
    assert model._says(model._run(*given, arena.ctypes.data, 0)).startswith(b"another run is under")
    arena[start : start + 8] = 0
    assert model._run(0, *given[1:], arena.ctypes.data, 0) == 6
    assert model._run(*given[:2], 0, *given[3:], arena.ctypes.data, 0) == 6
    assert model._sizes(0, sizes.ctypes.data) == model._open(0, 0) == 6
    assert model._run(*given, 0, 0) == model._run(*given[:3], outs.ctypes.data, 0, 0) == 6
    want, results = model(x=X)["y"].tobytes(), list[bytes]()

    def work() -> None:
        results.extend(model(x=X)["y"].tobytes() for _ in range(200))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [want] * 800


def test_what_cannot_leave_is_refused_by_node_and_line(tmp_path: Path) -> None:
    cx = ll.Graph()
    x = cx.tensor((3,), name="x")
    cx.function(np.sort, x, shape=(3,)).named("sorted").retrieve()
    compiled = cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    error = error_of(lambda: compiled.export(tmp_path / "host"), DeviceError)
    assert error.message == (
        "export: %sorted calls a function of Python's, so the model cannot run without Python"
    )
    assert "test_folder.py" in str(error.where)
    assert not (tmp_path / "host").exists()


def test_compiles_that_have_nothing_to_export(tmp_path: Path) -> None:
    cx = ll.Graph()
    (cx.tensor((3,), name="x") * 2).retrieve()
    error = error_of(lambda: cx.compile().export(tmp_path), DeviceError)
    assert error.message == "export: the compile has no program for a CPU"
    alone = ll.compile_ir(cx.ir, ll.GenericCompiler(), ll.CPUCompiler())
    error = error_of(lambda: alone.export(tmp_path), DeviceError)
    assert error.message.endswith("has no session with data")
    weight = ll.Parameter((3,), name="w")
    (cx["x"] + cx.parameter(weight)).retrieve()
    compiled = cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    error = error_of(lambda: compiled.export(tmp_path), InputError)
    assert "has no value" in error.message


def test_wrong_names_targets_and_folders(made: Path, tmp_path: Path) -> None:
    compiled, _ = linear()
    error = error_of(lambda: compiled.export(tmp_path, target="amiga"), ArgumentError)
    assert error.message == "export: there is no target 'amiga'"
    error = error_of(lambda: compiled.export(tmp_path, name="two words"), ArgumentError)
    assert error.message == "export: 'two words' cannot be the name of functions in C"
    error = error_of(lambda: compiled.export(tmp_path, name="int"), ArgumentError)
    assert error.hint == "C, or what comes with it, has this name: add a word, as in int_model"
    error = error_of(lambda: compiled.export(tmp_path / "big.html"), ArgumentError)
    assert error.message.endswith("big.html' is the name of a page, and a compile becomes a folder")
    assert "cx.workbench().export(" in str(error.hint)
    assert "test_folder.py" in str(error.where)
    assert not (tmp_path / "big.html").exists()
    file = tmp_path / "file"
    file.write_text("mine")
    error = error_of(lambda: compiled.export(file), ArgumentError)
    assert error.message.startswith(f"export: {file} cannot be a folder: ")
    assert file.read_text() == "mine"


def test_files_of_others_are_never_written_over(tmp_path: Path) -> None:
    compiled, _ = linear()
    (tmp_path / "Makefile").write_text("mine")
    (tmp_path / "notes").write_text("mine, too")
    error = error_of(lambda: compiled.export(tmp_path), ArgumentError)
    assert error.message == f"export: {tmp_path} has files that no export wrote: Makefile"
    assert (tmp_path / "Makefile").read_text() == "mine"
    (tmp_path / "model.json").write_text("[]")
    error = error_of(lambda: compiled.export(tmp_path), ArgumentError)
    assert error.message.endswith("no export wrote: model.json, Makefile")
    for file in ("Makefile", "model.json"):
        (tmp_path / file).unlink()
    assert compiled.export(tmp_path) == compiled.export(tmp_path)  # its own it may
    assert (tmp_path / "notes").read_text() == "mine, too"
    error = error_of(lambda: compiled.export(tmp_path, name="other"), ArgumentError)
    assert error.message == f"export: {tmp_path} has the model digits, and this is other"
    (tmp_path / "digits.c").unlink()
    (tmp_path / "digits.c").mkdir()
    error_of(lambda: compiled.export(tmp_path), RecordingError)


def test_without_zig_other_machines_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(asked: str) -> None:
        raise DeviceError(f"compiler: there is no {asked!r}")

    monkeypatch.setattr(targets, "find_compiler", none)
    error = error_of(lambda: linear()[0].export(tmp_path / "x", target="wasm32"), DeviceError)
    assert error.message == "export: wasm32 is compiled by zig, and this machine has none"
    assert not (tmp_path / "x").exists()


@pytest.mark.needs("ziglang")
@pytest.mark.share("target", [name for name in TARGETS if "windows" not in name], 1)
def test_it_compiles_for_other_machines(target: str, tmp_path: Path) -> None:
    check_library(tmp_path / "digits", target)


@pytest.mark.sweep
@pytest.mark.needs("ziglang")
def test_it_compiles_for_windows(long: bool, tmp_path: Path) -> None:
    if not long:  # at first, zig needs minutes for the C library of Windows
        pytest.skip("run with --long")
    check_library(tmp_path / "digits", "x86_64-windows")


def check_library(place: Path, target: str) -> None:
    folder = linear()[0].export(place, target=target)
    library = json.loads((folder / "model.json").read_text())["library"]
    starts = {".so": b"\x7fELF", ".dll": b"MZ", ".wasm": b"\0asm", ".dylib": b"\xcf\xfa\xed\xfe"}
    assert (folder / library).read_bytes()[:4].startswith(starts[Path(library).suffix])


@pytest.mark.needs("onnx")
def test_the_command_line_exports_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx = need("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    info = helper.make_tensor_value_info
    node = helper.make_node("Relu", ["x"], ["y"])
    graph = helper.make_graph([node], "g", [info("x", kind, [3])], [info("y", kind, [3])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    (tmp_path / "relu.onnx").write_bytes(model.SerializeToString())
    words = ["export-model", str(tmp_path / "relu.onnx"), str(tmp_path / "relu")]
    assert cli.main(words) == 0
    names = "Makefile, main.c, model.json, relu.c, relu.h, relu.so, run.py"
    assert capsys.readouterr().out == f"written to {tmp_path / 'relu'}: {names}\n"
    (tmp_path / "relu" / "mine").write_text("")
    assert cli.main(words) == 0
    assert capsys.readouterr().out == f"written to {tmp_path / 'relu'}: {names}\n"
    given = Model(tmp_path / "relu")(x=np.array([-1, 0, 2], "float32"))
    assert {name: value.tolist() for name, value in given.items()} == {"y": [0, 0, 2]}
    assert cli.main(["export-model", str(tmp_path / "relu"), str(tmp_path / "again")]) == 2
    assert capsys.readouterr().err.startswith(
        f"export-model: {tmp_path / 'relu'} is a model that was exported already\nhint: "
    )
    nn.Linear(2, 3).save(tmp_path / "w.safetensors")
    assert cli.main(["export-model", str(tmp_path / "w.safetensors"), str(tmp_path / "w")]) == 2
    assert capsys.readouterr().err.startswith(
        f"export-model: {tmp_path / 'w.safetensors'} is weights without a graph\n"
    )
