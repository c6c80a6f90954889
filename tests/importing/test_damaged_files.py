"""Files of strangers that are cut off, changed or made to harm: read, or refused in our words.

Weights in safetensors, one file, an index or a folder, and programs of torch.export. Whatever can
be done with such a file without trusting it is done: nothing of it runs, each answer comes soon and
takes little memory. `test_onnx_hostile.py` does the same to ONNX.
"""

import io
import json
import os
import pickle
import random
import struct
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import cli
from luminal_lab.errors import UNSEEN, InputError, LabError, TrustError
from luminal_lab.importing.contents import contents
from luminal_lab.importing.detect import FileKind, kind_of_file
from luminal_lab.importing.weights import read_weights
from luminal_lab.opening import look_at, session_of
from luminal_lab.viz.live.dropped import Dropped
from tests.damage import bytes_damaged, check_error, parts_damaged, places, words_damaged
from tests.io.test_damaged import in_time
from tests.needs import need

need("safetensors")
MOST_MB = 256
SHARE, WHOLE = 150, 10_000
"""How many files of each kind are tried: of each run, and by `make test-long`."""
Files = Mapping[str, bytes]
"""What lies in a folder."""


class Runs:
    """An object that runs something when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return open, (str(self.mark), "w")


# -- whole files -----------------------------------------------------------------------------------


def safetensors_of(**values: Any) -> bytes:
    made: bytes = need("safetensors.numpy").save(values)
    return made


WEIGHTS = safetensors_of(
    **{f"h.{k}.weight": np.full((2, 3), k, np.float32) for k in range(3)},
    norm=np.arange(4, dtype=np.int64),
    half=np.ones((3,), np.float16),
    none=np.zeros((0, 2), bool),
)
INDEX = {"metadata": {"total_size": 8}, "weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}
FOLDER = {
    "a.safetensors": safetensors_of(x=np.ones((2,), np.float32)),
    "b.safetensors": safetensors_of(y=np.ones((3,), np.float32)),
    "model.safetensors.index.json": json.dumps(INDEX).encode(),
    "config.json": b'{"architectures": ["TinyForCausalLM"], "hidden_size": 2}',
}


@pytest.fixture(scope="module")
def program(torch: Any) -> bytes:
    """A `.pt2` as PyTorch writes it."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(3, 2)
            self.register_buffer("scale", torch.ones(2), persistent=False)

        def forward(self, x: Any) -> Any:
            return {"y": self.fc(x).relu() * self.scale, "k": x.shape[0]}

    rows = torch.export.Dim("rows", max=99)
    made = torch.export.export(Net(), (torch.ones(4, 3),), dynamic_shapes=({0: rows},))
    data = io.BytesIO()
    torch.export.save(made, data)
    return data.getvalue()


# -- damage ----------------------------------------------------------------------------------------


def header_damaged(drawn: random.Random, data: bytes) -> bytes:
    """Change what a safetensors file says it holds; its length is true, or not."""
    (length,) = struct.unpack("<Q", data[:8])
    header, values = json.loads(data[8 : 8 + length]), data[8 + length :]
    if drawn.random() < 0.7:
        parts_damaged(drawn, header, [*places(header)][1:])
        text = json.dumps(header).encode()
    else:
        text = words_damaged(drawn, json.dumps(header)).encode("utf-8", "replace")
    size = len(text) if drawn.random() < 0.9 else drawn.choice((0, 1, 1 << 40, (1 << 64) - 1))
    return struct.pack("<Q", size) + text + values


def cut(drawn: random.Random, data: bytes) -> bytes:
    return data[: drawn.randrange(len(data) + 1)]


def of_weights(drawn: random.Random, _: bytes, __: Path) -> Files:
    how = drawn.choice((cut, bytes_damaged, header_damaged, header_damaged))
    return {"model.safetensors": how(drawn, WEIGHTS)}


def of_folder(drawn: random.Random, _: bytes, __: Path) -> Files:
    files = dict(FOLDER)
    name = drawn.choice([*files])
    match drawn.randrange(6):
        case 0:
            del files[name]
        case 1 if name.endswith(".safetensors"):
            files[name] = header_damaged(drawn, files[name])
        case 2 | 3 if name.endswith(".json"):
            document = json.loads(files[name])
            parts_damaged(drawn, document, [*places(document)][1:])
            files[name] = json.dumps(document).encode()
        case 4:
            index = json.loads(files["model.safetensors.index.json"])
            elsewhere = ("../a.safetensors", "/etc/passwd", "a.safetensors/", "", "\0", "..", ".")
            index["weight_map"]["x"] = drawn.choice(elsewhere)
            files["model.safetensors.index.json"] = json.dumps(index).encode()
        case _:
            files[name] = drawn.choice((cut, bytes_damaged))(drawn, files[name])
    return files


def of_program(drawn: random.Random, whole: bytes, mark: Path) -> Files:
    match drawn.randrange(6):
        case 0:
            return {"net.pt2": cut(drawn, whole)}
        case 1:
            return {"net.pt2": bytes_damaged(drawn, whole)}
        case 2:  # in the directory, which is at the end
            at = whole.rindex(b"PK\x01\x02") - 400
            return {"net.pt2": whole[:at] + bytes_damaged(drawn, whole[at:])}
        case _:
            pass
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        entries = [(name, archive.read(name)) for name in archive.namelist()]
    at = drawn.randrange(len(entries))
    name, data = entries[at]
    match drawn.randrange(7):
        case 0:
            entries[at] = name, pickle.dumps(Runs(mark))
        case 1:
            strange = ("../" * 9 + "x", "/etc/passwd", "a\\b", "x/models/model.json", "", "\x1b[2J")
            entries[at] = drawn.choice(strange), data
        case 2:
            entries.append((name, bytes_damaged(drawn, data)))
        case 3:
            del entries[at]
        case _:
            at, (name, data) = next(
                (k, entry) for k, entry in enumerate(entries) if entry[0].endswith("model.json")
            )
            if drawn.random() < 0.2:
                entries[at] = name, words_damaged(drawn, data.decode()).encode("utf-8", "replace")
            else:
                document = json.loads(data)
                parts_damaged(drawn, document, [*places(document)][1:])
                entries[at] = name, json.dumps(document).encode()
    packing = drawn.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    made = zipped(entries, packing)
    return {"net.pt2": bytes_damaged(drawn, made) if drawn.random() < 0.3 else made}


def zipped(entries: list[tuple[str, bytes]], packing: int = zipfile.ZIP_STORED) -> bytes:
    data = io.BytesIO()
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(data, "w", packing) as archive:
        for name, held in entries:
            archive.writestr(zipfile.ZipInfo(name), held, packing)
    return data.getvalue()


# -- what is done with them ------------------------------------------------------------------------


def looked(path: Path) -> None:
    """Do what `luminal-lab open`, `models inspect` and a page do, without trust."""
    held = contents(path)
    assert not UNSEEN.search(str(held).replace("\n", ""))
    json.dumps(held.as_json())
    if held.kind in (FileKind.SAFETENSORS, FileKind.INDEX, FileKind.FOLDER):
        live = look_at(path)
        assert live.title
        for parameter in read_weights(path).parameters().values():
            assert parameter.value.shape == parameter.shape


def refused(path: Path) -> None:
    """Open a program that nobody trusts."""
    with pytest.raises((TrustError, InputError)) as caught:
        ll.from_torch(path)
    check_error(caught.value, path.name)


@contextmanager
def in_memory() -> Iterator[None]:
    """Fail where much memory is taken."""
    tracemalloc.reset_peak()
    yield
    assert tracemalloc.get_traced_memory()[1] < MOST_MB << 20


KINDS: Mapping[str, Callable[[random.Random, bytes, Path], Files]] = {
    "weights": of_weights,
    "folder": of_folder,
    "program": of_program,
}


@pytest.mark.sweep
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_read_or_refused(
    kind: str, seed: int, long: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    whole = request.getfixturevalue("program") if kind == "program" else b""
    mark, found = tmp_path / "mark", {"read": 0, "refused": 0}
    tracemalloc.start()
    try:
        for case in range(WHOLE if long else SHARE):
            drawn = random.Random(f"{seed} {kind} {case}")
            folder = tmp_path / f"{case}"
            folder.mkdir()
            for name, data in KINDS[kind](drawn, whole, mark).items():
                (folder / name).write_bytes(data)
            names = {"weights": "model.safetensors", "program": "net.pt2"}
            paths = [folder / names[kind]] if kind in names else [folder, *folder.glob("*index*")]
            for path in paths:
                try:
                    with in_time(), in_memory():
                        try:
                            looked(path)
                            found["read"] += 1
                        except LabError as error:
                            check_error(error, f"{folder}{os.sep}")  # a file of it
                            found["refused"] += 1
                        if kind == "program":
                            refused(path)
                except Exception as error:
                    error.add_note(f"--seed {seed}, {kind}, case {case}")
                    raise
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
    finally:
        tracemalloc.stop()
    assert not mark.exists()
    assert min(found.values()) > 2


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_program_that_would_fill_memory_does_not(packing: int, tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr("net/archive_format", "pt2")
        with archive.open("net/models/model.json", "w") as entry:
            for _ in range(25):
                entry.write(b" " * (10 << 20))
    assert path.stat().st_size < 1 << 20
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"no program of torch\.export") as caught, in_memory():
            contents(path)
    finally:
        tracemalloc.stop()
    said = "would have 250 MB" if packing == zipfile.ZIP_DEFLATED else "packed as PyTorch packs"
    assert said in str(caught.value)


def test_a_program_without_an_end_is_not_read_whole(torch: Any, tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    path.write_bytes(zipped([("net/models/model.json", b"{}")]))
    with path.open("r+b") as file:  # a zip may have anything before it
        tail = file.read()
        file.truncate(1 << 29)
        file.seek(0, 2)
        file.write(tail)
    tracemalloc.start()
    try:
        with in_memory():
            refused(path)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("data", [pickle.dumps([1]), zipped([("m/data.pkl", b"x")])])
def test_pickled_weights_are_refused_with_the_way_to_safetensors(
    data: bytes, torch: Any, tmp_path: Path
) -> None:
    path = tmp_path / "net.pt"
    path.write_bytes(data)
    assert kind_of_file(path) is FileKind.PICKLE
    for call in (contents, look_at, ll.from_torch, lambda p: ll.from_torch(p, trust=True)):
        with pytest.raises(InputError, match="run whatever its author wrote") as caught:
            call(path)
        assert "safetensors" in (caught.value.hint or "")


def dropped(path: Path) -> object:
    """Drop a file onto a page."""
    data = path.read_bytes()
    file = Dropped(path.name, len(data))
    assert file.add(0, data)
    return file.opened()


def by_command(*words: str) -> Callable[[Path], None]:
    """Return what the command line does with a file, which is to be refused."""

    def go(path: Path) -> None:
        assert cli.main([*words, str(path)]) == 2
        raise TrustError("it says so on standard error")

    return go


WAYS: Mapping[str, Callable[[Path], object]] = {
    "from_torch": ll.from_torch,
    "from_torch of a text": lambda path: ll.from_torch(str(path)),
    "look_at": look_at,
    "session_of": lambda path: session_of(path, FileKind.EXPORTED),
    "a page": dropped,
    "luminal-lab open": by_command("open"),
}


@pytest.mark.parametrize("way", [*WAYS, "inspect", "luminal-lab models inspect"])
def test_no_way_in_unpickles_a_program_that_nobody_trusts(
    way: str, program: bytes, torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.pt2"
    with zipfile.ZipFile(io.BytesIO(program)) as archive:
        entries = [(name, archive.read(name)) for name in archive.namelist()]
    evil = pickle.dumps(Runs(tmp_path / "mark"))
    path.write_bytes(zipped([(n, d if "/models/" in n else evil) for n, d in entries]))
    loaded: list[object] = []
    monkeypatch.setattr(torch.export, "load", loaded.append)
    if way in WAYS:
        # On a page it is an error of what was dropped, with the way to --trust.
        with pytest.raises(InputError if way == "a page" else TrustError):
            WAYS[way](path)
    elif way == "inspect":
        assert contents(path).ops
    else:
        assert cli.main(["models", "inspect", str(path)]) == 0
    assert not loaded
    assert not (tmp_path / "mark").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no such files")
def test_a_pipe_among_the_files_of_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    for call in (contents, look_at):
        with in_time(), pytest.raises(InputError, match="it is not a plain file"):
            call(tmp_path)
    index.write_text(json.dumps({"weight_map": {"x": "model.safetensors"}}))
    with in_time(), pytest.raises(InputError, match="it is not a plain file"):
        contents(index)
    with in_time(), pytest.raises(InputError, match="it is not a plain file"):
        ll.nn.Linear(2, 3).load(tmp_path / "model.safetensors")
