"""A file is written as a whole or not at all, and what prevents it is said."""

import ast
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, RecordingError
from luminal_lab.writing import read_bytes, write_bytes
from tests.sources import trees


def message(call) -> str:
    with pytest.raises(RecordingError) as caught:
        call()
    return str(caught.value)


def test_what_was_there_stays_until_all_is_written(tmp_path, monkeypatch):
    path = tmp_path / "run.lab"
    write_bytes("recording", path, b"old")

    def full(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        assert message(lambda: write_bytes("recording", path, b"new")) == (
            f"recording: {path} cannot be written: No space left on device\n"
            "hint: give a file in a folder that is there and may be written to"
        )
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["run.lab"]
    write_bytes("recording", path, b"new")
    assert path.read_bytes() == b"new"


def test_ctrl_c_leaves_nothing_behind(tmp_path, monkeypatch):
    def stopped(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_bytes("recording", tmp_path / "run.lab", b"new")
    assert list(tmp_path.iterdir()) == []


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real.lab").write_bytes(b"old")
    (tmp_path / "link.lab").symlink_to(tmp_path / "real.lab")
    write_bytes("recording", tmp_path / "link.lab", b"new")
    assert (tmp_path / "link.lab").is_symlink()
    assert (tmp_path / "real.lab").read_bytes() == b"new"


def test_places_where_no_file_can_be(tmp_path):
    assert message(lambda: write_bytes("recording", tmp_path, b"")) == (
        f"recording: {tmp_path} cannot be written: it is a folder\n"
        f'hint: name a file in it, as in "{tmp_path}/run.lab"'
    )
    there = tmp_path / "nowhere" / "run.lab"
    assert "cannot be written: there is no folder 'nowhere'" in message(
        lambda: write_bytes("recording", there, b"")
    )
    with pytest.raises(ArgumentError, match="recording: 3 is not the name of a file"):
        write_bytes("recording", 3, b"")  # pyright: ignore[reportArgumentType]  # a caller may err


def test_a_folder_that_may_only_be_read(tmp_path, monkeypatch):
    def refused(self: Path, mode: str) -> None:  # the superuser may write everywhere
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(Path, "open", refused)
    assert message(lambda: write_bytes("recording", tmp_path / "run.lab", b"")) == (
        f"recording: {tmp_path}/run.lab cannot be written: Permission denied\n"
        "hint: give a file in a folder that is there and may be written to"
    )


def test_what_is_not_there_cannot_be_read(tmp_path):
    (tmp_path / "runs.lab").write_bytes(b"")
    assert message(lambda: read_bytes("recording", tmp_path / "run.lab")) == (
        f"recording: {tmp_path}/run.lab cannot be read: there is no such file\n"
        "hint: did you mean 'runs.lab'?"
    )
    with pytest.raises(RecordingError) as caught:
        ll.open(tmp_path / "run.lab")
    assert caught.value._render_traceback_() == [f"RecordingError: {caught.value}"]
    assert "it is a folder" in message(lambda: ll.open(tmp_path))
    with pytest.raises(ArgumentError, match="open: None is not the name of a file"):
        ll.open(None)  # pyright: ignore[reportArgumentType]  # a caller may err
    with pytest.raises(ArgumentError, match="open: the limit is 'much'"):
        ll.open(tmp_path / "runs.lab", limit="much")  # pyright: ignore[reportArgumentType]  # likewise


def test_what_is_no_plain_file_is_neither_read_nor_put_aside(tmp_path):
    pipe = tmp_path / "pipe.lab"
    os.mkfifo(pipe)
    assert message(lambda: ll.open(pipe)) == (
        f"recording: {pipe} cannot be read: it is not a plain file\n"
        "hint: give a file that save(...) has written"
    )
    assert "it is not a plain file" in message(lambda: write_bytes("recording", pipe, b"new"))
    assert pipe.is_fifo()
    assert [one.name for one in tmp_path.iterdir()] == ["pipe.lab"]


def test_names_that_no_file_has(tmp_path):
    with pytest.raises(ArgumentError, match=r"open: 'a\\x00b' is not the name of a file"):
        ll.open("a\0b")
    assert "there is no folder '~nobody-here'" in message(
        lambda: write_bytes("recording", "~nobody-here/run.lab", b"")
    )
    long = tmp_path / f"{'a' * 300}.lab"
    assert "File name too long" in message(lambda: write_bytes("recording", long, b""))
    assert "there is no such file" in message(lambda: ll.open(long))
    (tmp_path / "loop.lab").symlink_to("loop.lab")
    assert "symbolic links" in message(lambda: ll.open(tmp_path / "loop.lab"))
    # As long as a name may be; what it is written to first has none longer.
    write_bytes("recording", tmp_path / f"{'a' * 251}.lab", b"new")


def test_the_present_folder_is_gone(tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert "run.lab cannot be written: " in message(
        lambda: write_bytes("recording", "run.lab", b"")
    )


# -- who else writes files -------------------------------------------------------------------------

OTHERS = {
    "artefact/weights_file.py write_weights": "a draft, which takes the name when it is whole",
    "bench/process.py Process.__init__": "what a process says, in a folder of the benchmark's own",
    "bench/process.py main": "standard output",
    "bench/stored.py opened": "an array in a file of the benchmark's own, mapped",
    "bench/stored.py store": "the same",
    "bench/studies/maths.py compiled": "the source of a study, in a temporary folder",
    "bench/studies/maths_speed.py measured": "the same",
    "bench/studies/memory.py measured": "a word to the system: count from here on",
    "bench/surroundings.py clang": "a compiler's stand-in, in a folder of the benchmark's own",
    "bench/studies/serving.py starts": "an application of two lines, in a temporary folder",
    "course/kept.py ProgressFile._write": "a draft, which takes the name when it is whole",
    "devices/build/cache.py _write": "a draft, as above",
    "devices/build/cache.py write_whole": "a draft, as above",
    "devices/build/toolchain.py _try": "a source, in a temporary folder",
    "devices/build/toolchain.py build_all": "the same",
    "devices/cpu/assembly.py _by_compiler": "the same",
    "devices/gpu/sass.py _disassembled": "machine code, in a temporary folder",
    "nn/gguf_writing.py write_gguf": "a draft, as above",
    "search/worker.py measuring": "a lock, which holds nothing",
    "trust.py _written": "a draft, as above, which no other user can read",
    "viz/live/dropped.py Dropped.add": "the pieces of a file, in a temporary folder",
    "viz/picture.py Picture.to_png": "what the browser draws, in a temporary folder",
    "serving/library.py _loaded": "a copy to load, in a folder of its own, which goes at once",
    "writing.py write_bytes": "the draft of a user's file",
}
"""The functions that write files in place, each with why nobody's file is lost half-way."""
MODE = re.compile(r"[rbt+]*[wax][rbt+wax]*|r[bt]*\+[bt]*")
OPENING = {"open", "fdopen", "NamedTemporaryFile"}
METHODS = {"write_text", "write_bytes", "to_csv", "to_excel", "savefig", "savez", "tofile"}


def calls_that_write(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.Call]]:
    """Yield each call that writes a file in place, with the function that it stands in."""
    for node in ast.iter_child_nodes(tree):
        where = inside
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            where = f"{inside}.{node.name}".lstrip(".")
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            is_ours = isinstance(node.func, ast.Name)  # write_bytes of this package
            modes = [
                word.value
                for word in [*node.args, *(k.value for k in node.keywords if k.arg == "mode")]
                if isinstance(word, ast.Constant) and isinstance(word.value, str)
            ]
            opens = name in OPENING
            name = "savez" if name == "save" and ast.unparse(node.func) == "np.save" else name
            if (name in METHODS and not is_ours) or (opens and any(map(MODE.fullmatch, modes))):
                yield where, node
        yield from calls_that_write(node, where)


def test_files_are_written_by_one_function():
    writers = {
        f"{place} {where}"
        for place, tree in trees({*METHODS, *OPENING, "save"})
        for where, _ in calls_that_write(tree)
    }
    assert sorted(writers) == sorted(OTHERS)


@pytest.mark.parametrize(
    "source",
    ["p.write_text('x')", "open(p, 'w')", "p.open('ab')", "open(p, mode='x')", "np.save(p, x)",
     "table.to_csv(p)", "os.fdopen(n, 'w')", "open(p, 'r+b')"],
)  # fmt: skip
def test_a_planted_write_is_seen(source: str):
    assert len([*calls_that_write(ast.parse(f"def f():\n    {source}"))]) == 1


@pytest.mark.parametrize("source", ["write_bytes('a', p, b'')", "open(p)", "p.open('rb')"])
def test_what_does_not_write_in_place_is_not(source: str):
    assert not [*calls_that_write(ast.parse(source))]
