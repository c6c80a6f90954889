"""The command: where it listens, whose code it runs, and how it ends."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab import trust
from luminal_lab.errors import ArgumentError, DeviceError, InputError, LabError, TrustError
from luminal_lab.serving.endpoint import FOLDERS, listening
from luminal_lab.serving.library import Exported, Size, library_in
from tests.cli.asking import ask
from tests.needs import need
from tests.serving.endpoints import array_of, exported_mlp, program, served

need("uvicorn", "cc")


def test_it_serves_until_ctrl_c_and_leaves_nothing(digits: Path) -> None:
    with program(digits) as (process, port):
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        client.request("GET", "/v2/models/digits/ready")
        assert client.getresponse().read() == b'{"name":"digits","ready":true}'
        idle = socket.create_connection(("127.0.0.1", port))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (130, "", "stopped\n")
        idle.close()
        client.close()
    with pytest.raises(OSError):  # noqa: PT011  # nothing listens
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_it_needs_neither_numpy_nor_the_package(digits: Path) -> None:
    script = (
        "import sys; from luminal_lab import cli; from luminal_lab.serving import endpoint;"
        "from luminal_lab.serving.metrics import Metrics; from pathlib import Path;"
        "import luminal_lab.cli.serve, luminal_lab.serving.connections;"
        "endpoint.opened(Path(sys.argv[1]), Metrics()); print(*sys.modules)"
    )
    command = [sys.executable, "-c", script, str(digits)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    heavy = {"numpy", "ml_dtypes", "luminal_lab.core.ir", "luminal_lab.session"}
    heavy |= {"click", "multiprocessing", "typing_extensions", "difflib"}
    assert not heavy & {*said}


def test_uvicorn_is_whole_for_others() -> None:
    script = (
        "import luminal_lab.serving.connections, sys; assert 'uvicorn.main' not in sys.modules;"
        "import uvicorn; print(uvicorn.run.__name__, uvicorn.Server is sys.modules["
        "'uvicorn.server'].Server, hasattr(uvicorn, 'nothing'))"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ["run", "True", "False"]


def test_a_port_that_is_in_use(capsys, digits: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert ask(capsys, "serve", digits, "--port", port) == (
            2,
            "",
            f"serve: port {port} is in use\nhint: --port 0 takes one that is free\n",
        )


@pytest.mark.parametrize(
    ("host", "port", "words"),
    [
        ("127.0.0.1", 70_000, "there is no port 70000"),
        ("no.such.host.invalid", 0, "'no.such.host.invalid' is no address of this machine"),
        ("0.0.0.0", 0, "others can reach 0.0.0.0, and there is no key"),
        ("::", 0, "others can reach ::, and there is no key"),
        ("192.0.2.1", 0, "others can reach 192.0.2.1, and there is no key"),
    ],
)
def test_where_it_does_not_listen(host: str, port: int, words: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        listening(host, port, None)
    assert caught.value.message == f"serve: {words}"


def test_with_a_key_others_may_reach_it() -> None:
    with listening("0.0.0.0", 0, "a-key-that-nobody-guesses") as sock:
        assert sock.getsockname()[0] == "0.0.0.0"
    with pytest.raises(ArgumentError, match=r"192\.0\.2\.1 is no address of this machine"):
        listening("192.0.2.1", 0, "a-key-that-nobody-guesses")


def test_keys(capsys, digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("short", "with a space in the middle", "ключ-ключ-ключ-ключ"):
        status, _, err = ask(capsys, "serve", digits, "--key", key)
        assert status == 2
        assert err.startswith(f"serve: the key has {len(key)} letters")
        assert key not in err
    monkeypatch.setenv("LUMINAL_LAB_KEY", "short")
    assert ask(capsys, "serve", digits)[0] == 2


def test_wrong_numbers(capsys, digits: Path) -> None:
    status, _, err = ask(capsys, "serve", digits, "--batch", 0)
    assert (status, err) == (2, "serve: --batch is 0\nhint: give 1 or more\n")


@pytest.mark.parametrize("name", ["", "a/b", "a\nb"])
def test_names_that_no_path_has(capsys, digits: Path, name: str) -> None:
    status, _, err = ask(capsys, "serve", digits, "--port", 0, "--name", name)
    assert (status, err.splitlines()[0]) == (
        2,
        f"serve: --name cannot be {name!r}: it is a part of paths, as in /v2/models/NAME",
    )


def test_what_is_no_model(capsys, tmp_path: Path) -> None:
    status, _, err = ask(capsys, "serve", tmp_path / "nowhere", "--port", 0)
    assert status == 2
    assert err.startswith("serve: ")
    status, _, err = ask(capsys, "serve", tmp_path, "--port", 0)
    assert (status, err) == (2, f"serve: there is no model in {tmp_path}\nhint: {FOLDERS}\n")


# -- whose code runs -------------------------------------------------------------------------------


@pytest.fixture
def strange(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of somebody else's: the user here has signed nothing."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    return Path(shutil.copytree(digits, tmp_path / "digits"))


def test_a_strangers_library_is_not_loaded(capsys, strange: Path) -> None:
    assert ask(capsys, "serve", strange, "--port", 0) == (
        2,
        "",
        "serve: machine code of an exported model: it comes from a folder, and no user here has "
        f"allowed it\n  {cut(strange)}\nhint: {trust.OF_LIBRARY}\n",
    )
    status, out, _ = ask(capsys, "trust", strange, "--show")
    assert (status, out.splitlines()[1:]) == (
        0,
        [
            "its C says what the machine code should do:",
            *(str(strange / name) for name in ("digits.c", "digits.h", "main.c")),
        ],
    )
    assert "not trusted" in out
    with pytest.raises(TrustError):
        Exported(strange)
    assert ask(capsys, "trust", strange)[0] == 0
    Exported(strange)
    library = strange / "digits.so"
    library.write_bytes(library.read_bytes() + b"\0")
    with pytest.raises(TrustError):
        Exported(strange)
    assert ask(capsys, "trust", strange, "--remove")[0] == 0


def cut(path: Path) -> str:
    text = str(path)
    return text if len(text) <= trust.LONGEST else f"{text[: trust.LONGEST - 1]}…"


def test_once_it_may_run(strange: Path) -> None:
    assert not trust.is_trusted(library_in(strange))
    try:
        Exported(strange, trust=True)
        assert not trust.signed()
    finally:
        trust.unsign([library_in(strange)])


def test_what_was_exported_here_is_signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    folder = exported_mlp(tmp_path / "own")
    told = f"machine code of an exported model in {ascii(str(folder))[1:-1]}"
    assert [line.what for line in trust.signed().values()] == [told]
    Exported(folder)


def test_a_library_that_was_compiled_again_is_told_from_a_strangers(
    capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    folder = exported_mlp(tmp_path / "own")
    library = folder / "digits.so"
    library.write_bytes(library.read_bytes() + b"\0")  # as make may: other bytes
    assert ask(capsys, "serve", folder, "--port", 0) == (
        2,
        "",
        "serve: the library in this folder has changed since it was exported or signed here, as it "
        "does when make compiles it again, and no user here has allowed the new one\n"
        f"  {cut(folder)}\nhint: {trust.OF_CHANGED}\n",
    )
    assert ask(capsys, "trust", folder)[0] == 0
    Exported(folder)


def test_a_signature_follows_a_folder_that_was_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    first = exported_mlp(tmp_path / "first")
    second = Path(shutil.copytree(first, tmp_path / "second"))
    trust.sign([library_in(second)])  # the first is still there
    assert [line.what[-5:] for line in trust.signed().values()] == ["first"]
    shutil.rmtree(first)
    trust.sign([library_in(second)])
    assert [line.what[-6:] for line in trust.signed().values()] == ["second"]


@pytest.mark.parametrize(
    ("size", "high", "multiple", "words"),
    [
        (0, 64, 1, "1 to 64"),
        (0, 1 << 40, 1, "at least 1"),
        (3, 1 << 40, 2, "at least 1, and a multiple of 2"),
        (1 << 41, 1 << 40, 1, "at most 1,099,511,627,776"),
    ],
)
def test_what_a_size_must_be(size: int, high: int, multiple: int, words: str) -> None:
    assert Size("batch", 1, high, multiple, None).limits(size) == words


# -- folders that are damaged ----------------------------------------------------------------------


def damage(folder: Path, change: dict[str, Any]) -> None:
    path = folder / "model.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps({**about, **change}))


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"format": 2}, InputError, "has the format 2, and 1 is known"),
        ({"name": "../x"}, InputError, "model.json is damaged"),
        ({"library": "../digits.so"}, InputError, "model.json is damaged"),
        ({"library": 3}, InputError, "model.json is damaged"),
        ({"library": "no.so"}, InputError, "no.so is not there"),
        ({"interface": []}, InputError, "model.json is damaged"),
        ({"interface": [[{}], [], []]}, InputError, "model.json is damaged"),
        ({"interface": [[], [], []]}, InputError, "is not the library that"),
        ({"weights": "x"}, InputError, "model.json is damaged"),
        ({"weights": 1 << 40}, InputError, "are its weights"),
        ({"weights": 8}, InputError, "these are not the weights"),
        ({"machine": "riscv64-linux"}, DeviceError, "is for riscv64-linux, and this is"),
    ],
)
def test_a_damaged_folder(
    digits: Path, tmp_path: Path, change: dict[str, Any], kind: type[LabError], words: str
) -> None:
    folder = Path(shutil.copytree(digits, tmp_path / "copy"))
    damage(folder, change)
    with pytest.raises(kind, match=words):
        Exported(folder)


def test_weights_that_are_short_or_gone(digits: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(digits, tmp_path / "copy"))
    os.truncate(folder / "weights.safetensors", 10)
    with pytest.raises(InputError, match="has 10 bytes, and"):
        Exported(folder)
    (folder / "weights.safetensors").unlink()
    with pytest.raises(InputError, match="cannot be read: No such file"):
        Exported(folder)
    (folder / "model.json").write_text("{")
    with pytest.raises(InputError, match=r"model\.json cannot be read"):
        Exported(folder)


@pytest.mark.needs("onnx")
def test_a_graph_is_exported_first(tmp_path: Path) -> None:
    onnx = need("onnx")
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    ports = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["rows", 2])
        for name in "xy"
    ]
    graph = onnx.helper.make_graph([node], "relu", ports[:1], ports[1:])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "relu.onnx")
    with served(tmp_path / "relu.onnx") as there:
        asked = {"inputs": [array_of("x", "FP32", [-1, 2], [1, 2])]}
        assert there.ask("/v2/models/relu/infer", asked)[1]["outputs"][0]["data"] == [0, 2]


def test_a_model_that_carries_and_counts(tmp_path: Path) -> None:
    cx = ll.Graph("sums")
    x = cx.tensor((3,), name="x")
    total = cx.tensor((3,), name="total")
    cx.carry((total + x).named("sum").retrieve(), total)
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1)).export(tmp_path / "sums")
    with served(tmp_path / "sums") as there:
        names = [one["name"] for one in there.ask("/v2/models/sums")[1]["inputs"]]
        assert names == ["x", "total"]
        given = [array_of("x", "FP32", [1, 2, 3], [3]), array_of("total", "FP32", [4, 4, 4], [3])]
        for _ in range(2):  # nothing of a run stays
            answer = there.ask("/v2/models/sums/infer", {"inputs": given})[1]
            assert answer["outputs"][0]["data"] == [5, 6, 7]
