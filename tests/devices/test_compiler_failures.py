"""Compiles that fail, as a user meets them in `cx.compile`: what is said, and that cx goes on."""

import errno
import gc
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.devices.build import cache, toolchain
from luminal_lab.devices.build.toolchain import find_compiler, kernel_at
from luminal_lab.errors import DeviceError, LabError, LabWarning
from tests.expect import error_of
from tests.kept import entries
from tests.processes import children, descendants


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """A cache and a folder of temporary files of each test's own."""
    monkeypatch.setattr(cache, "user_folder", lambda: tmp_path / "cache")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "cache"


@pytest.fixture
def wrapped(tmp_path):
    """Return a compiler that is the real one, but runs some lines of shell before."""

    def make(lines: str) -> str:
        path = tmp_path / "wrapped-cc"
        real = find_compiler("cc").command[0]
        asked = 'case "$1" in --version|-dumpmachine) ;; *) ' + lines + " ;; esac"
        path.write_text(f'#!/bin/sh\n{asked}\nexec "{real}" "$@"\n')
        path.chmod(0o755)
        return str(path)

    return make


def written() -> tuple[ll.Graph, ll.Tensor]:
    cx = ll.Graph()
    x = cx.tensor((4, 6), name="x").set(np.ones((4, 6)))
    y = ((x * 3).sin().sum(-1) + 0.5).retrieve()
    return cx, y


def right(cx: ll.Graph, y: ll.Tensor) -> bool:
    """Return whether the graph runs, and gives what it should."""
    cx.execute()
    return np.allclose(y.numpy(), np.full(4, 6 * np.sin(3) + 0.5), rtol=1e-5)


def still_right(cx: ll.Graph, y: ll.Tensor) -> bool:
    """Return whether it does so after a compile that failed, and says what runs."""
    with pytest.warns(LabWarning, match="the last compile of the graph 'main' failed, and NumPy's"):
        return right(cx, y)


def failing(cx: ll.Graph, compiler: str, kind: Any = LabError) -> Any:
    return error_of(lambda: cx.compile(ll.CPUCompiler(compiler=compiler)), kind)


# -- no compiler -----------------------------------------------------------------------------------


@pytest.fixture
def no_compiler(monkeypatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


NOT_FOUND = """\
compile: no C compiler was found; looked for cc, gcc and clang on the PATH, and for the package \
ziglang; NumPy's interpreter runs the graph, slowly
hint: pip install ziglang"""


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_graphs_run_in_the_interpreter():
    cx, y = written()
    with pytest.warns(LabWarning) as caught:
        compiled = cx.compile(ll.CPUCompiler())
    assert [str(one.message) for one in caught] == [NOT_FOUND]
    assert compiled.runner is None
    assert right(cx, y)


@pytest.mark.usefixtures("no_compiler")
def test_a_compiler_that_was_asked_for_and_is_missing_is_an_error():
    cx, y = written()
    error = failing(cx, "xyz")
    assert error.message == ("compiler: there is no 'xyz', neither on the PATH nor as a file")
    assert still_right(cx, y)


# -- a compiler that fails -------------------------------------------------------------------------


def test_a_refused_line_is_shown_with_its_kernel_and_the_ops(wrapped):
    mark = """[ -f program.c ] && line=$(grep -n 'static void kernel_' program.c | head -1)
        line=${line%%:*}
        echo "program.c:$((line + 1)):5: error: we do not like this"; exit 1"""
    cx, y = written()
    error = failing(cx, wrapped(mark))
    first, second = error.message.splitlines()
    assert first.startswith("compile: ")
    assert first.endswith(" made no library, and ended with status 1")
    assert second.endswith("5: error: we do not like this")
    shown = error.where.splitlines()
    assert "static void kernel_" in shown[2]
    assert shown[3][0] == ">"
    assert any(
        line.startswith("in kernel_") and line.endswith(", which computes") for line in shown
    )
    assert "sin(" in error.where
    assert shown[-1].startswith("from ")
    assert shown[-1].endswith("y = ((x * 3).sin().sum(-1) + 0.5).retrieve()")
    assert still_right(cx, y)


FAILURES = {
    "crashes": ("kill -SEGV $$", "was ended by signal 11"),
    "writes-nothing": ("exit 0", "ended with status 0"),
}


@pytest.mark.parametrize(("lines", "told"), FAILURES.values(), ids=FAILURES)
def test_a_compiler_that_makes_no_library(wrapped, folder, lines, told):
    cx, y = written()
    error = failing(cx, wrapped(lines))
    assert error.message.startswith("compile: ")
    assert error.message.endswith(f" made no library, and {told}")
    assert "written" not in str(error)
    assert len(entries(folder)) == 0
    assert still_right(cx, y)


def test_a_compiler_that_hangs_is_ended(wrapped, folder, monkeypatch):
    monkeypatch.setattr(toolchain, "PATIENCE", 0.2)
    cx, y = written()
    error = failing(cx, wrapped("sleep 10"))
    assert " was ended after 0.2 s, with " in error.message
    assert len(entries(folder)) == 0
    assert still_right(cx, y)


NO_MEMORY = {
    "killed": ("kill -KILL $$", "was ended by signal 9"),
    "child-killed": (
        "echo 'gcc: fatal error: Killed signal terminated program cc1'; exit 1",
        "ended with status 1\n  gcc: fatal error: Killed signal terminated program cc1",
    ),
    "cc1": (
        "echo 'cc1: out of memory allocating 65536 bytes after a total of 9 bytes'; exit 1",
        "ended with status 1\n  cc1: out of memory allocating 65536 bytes after a total of 9 bytes",
    ),
    "virtual": (
        "echo 'virtual memory exhausted: Cannot allocate memory'; exit 1",
        "ended with status 1\n  virtual memory exhausted: Cannot allocate memory",
    ),
}


@pytest.mark.parametrize(("lines", "told"), NO_MEMORY.values(), ids=NO_MEMORY)
def test_a_compiler_that_has_no_more_memory_says_so(wrapped, folder, lines, told):
    cx, y = written()
    error = failing(cx, wrapped(lines))
    assert error.message.startswith("compile: out of memory: ")
    assert error.message.endswith(f" made no library, and {told}")
    assert error.hint == (
        "end other programs that take memory, or compile a smaller graph; without a compiler "
        "graphs run in NumPy's interpreter, slowly"
    )
    assert len(entries(folder)) == 0
    assert still_right(cx, y)


def test_a_compiler_that_cannot_be_started_for_want_of_memory(monkeypatch):
    def start(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    compiler = find_compiler()
    monkeypatch.setattr(subprocess, "Popen", start)
    error = error_of(lambda: toolchain.build(SOURCE, compiler), DeviceError)
    assert error.message.startswith("compile: out of memory: ")
    assert str(error.hint).startswith("end other programs that take memory, ")


def test_a_full_disk_says_so(folder, wrapped, monkeypatch):
    def write(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write)
    cx, y = written()
    error = error_of(lambda: cx.compile(ll.CPUCompiler()), DeviceError)
    assert error.hint == f"the disk of {tempfile.gettempdir()} is full; make room there"
    monkeypatch.undo()
    assert still_right(cx, y)


# -- a compiler that hangs -------------------------------------------------------------------------


@pytest.fixture
def hanging(tmp_path, monkeypatch):
    """A machine whose compilers all hang: one program by three names, which notes each call."""
    path = tmp_path / "cc"
    path.write_text(f'#!/bin/sh\necho "$1" >> "{tmp_path}/asked"\nsleep 60\n')
    path.chmod(0o755)
    for name in ("gcc", "clang"):
        (tmp_path / name).symlink_to(path)
    monkeypatch.setattr(shutil, "which", lambda name: str(tmp_path / Path(name).name))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(toolchain, "_HANGING", {})
    monkeypatch.setattr(toolchain, "ANSWER", 0.1)
    return tmp_path


def test_a_compiler_that_hangs_is_waited_for_once(hanging):
    for _ in range(3):
        error = error_of(find_compiler, DeviceError)
    assert (hanging / "asked").read_text() == "--version\n"
    assert error.message.splitlines()[1:] == [
        *[
            f"  {n}: it gave no answer within 0.1 s, and is not asked again"
            for n in toolchain.USUAL
        ],
        "  ziglang: it is not there",
    ]
    assert error.hint == (
        "find_compiler(patience=0.4) waits longer, and may find that it works; without a compiler "
        "graphs run in NumPy's interpreter, slowly"
    )
    error = error_of(toolchain.find_cpp_compiler, DeviceError)
    assert "cc: it gave no answer within 0.1 s, and is not asked again" in error.message
    cx, y = written()
    with pytest.warns(LabWarning, match="no C compiler was found") as caught:
        cx.compile(ll.CPUCompiler())
    assert "cc: it gave no answer within 0.1 s" in str(caught[0].message)
    assert right(cx, y)
    assert (hanging / "asked").read_text() == "--version\n"


def test_a_compiler_that_hung_is_asked_again_with_more_patience(hanging):
    first = error_of(lambda: find_compiler("gcc"), DeviceError)
    assert first.message == "compiler: 'gcc' cannot be used: --version had no answer within 0.1 s"
    assert first.hint == (
        "find_compiler('gcc', patience=0.4) waits longer, and may find that it works"
    )
    error_of(lambda: find_compiler("gcc", patience=0.2), DeviceError)
    assert (hanging / "asked").read_text() == "--version\n" * 2
    error_of(lambda: find_compiler("gcc"), DeviceError)
    assert (hanging / "asked").read_text() == "--version\n" * 2


def test_a_compiler_that_was_mended_is_asked_again(hanging):
    error_of(lambda: find_compiler("cc"), DeviceError)
    (hanging / "cc").write_text("#!/bin/sh\necho cc 2.0\n")
    assert find_compiler("cc").version == "cc 2.0"


def test_one_that_compiles_nothing_is_known_to_hang(hanging):
    compiler = toolchain.Compiler((str(hanging / "cc"),), "cc 1", "x86_64-linux-gnu", ())
    error = error_of(lambda: toolchain.build(SOURCE, compiler, timeout=0.1), DeviceError)
    assert error.message.endswith(", and had no answer for a single line either")
    asked = (hanging / "asked").read_text()
    error_of(lambda: find_compiler("cc"), DeviceError)
    assert (hanging / "asked").read_text() == asked


MAKES = 'for last; do case "$last" in *.so) {} > "$last"; exit ;; esac; done'
UNUSABLE = {
    "garbage": ("head -c 5000 /dev/urandom", "cannot be loaded: invalid ELF header"),
    "nothing": (":", "cannot be loaded: file too short"),
    "another": (
        """echo 'int a;' | cc -shared -fPIC -x c - -o a.so; cat a.so""",
        "has no function 'lab_",
    ),
}


@pytest.mark.skipif(sys.platform != "linux", reason="the linker's words are Linux's")
@pytest.mark.parametrize(("makes", "told"), UNUSABLE.values(), ids=UNUSABLE)
def test_nothing_is_kept_of_a_library_that_is_of_no_use(wrapped, folder, makes, told):
    cx, y = written()
    error = failing(cx, wrapped(MAKES.format(makes)))
    assert error.message.startswith("compile: ")
    assert f" ended with status 0, and what it made {told}" in error.message
    assert error.hint.startswith('find_compiler("clang") would ask another compiler; ')
    assert len(entries(folder)) == 0
    cx.compile(ll.CPUCompiler(compiler=wrapped("")))  # a compiler of the same name and version
    assert right(cx, y)


def test_a_library_of_no_use_that_was_kept_is_made_again(folder, monkeypatch):
    monkeypatch.setattr(cache.Cache, "find", planted := Planted(folder))
    cx, y = written()
    cx.compile(ll.CPUCompiler())
    assert not planted.path.exists()
    assert right(cx, y)
    assert len(entries(folder)) == 2  # the program, and the threads that run any


class Planted:
    """A cache that finds a library without any of our functions."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "lib-planted"

    def __call__(self, key: str, source: bytes) -> Path:
        self.path.mkdir(parents=True)
        self.path.parent.chmod(0o700)
        (self.path / cache.LIBRARY).write_bytes(b"")
        return self.path / cache.LIBRARY


def test_a_warning_about_the_cache_names_the_users_line(folder):
    folder.write_text("")
    cx, _ = written()
    with pytest.warns(LabWarning, match="it cannot use") as caught:
        cx.compile(ll.CPUCompiler())
    assert {warning.filename for warning in caught} == {__file__}


def test_ctrl_c_during_a_compile_leaves_all_as_it_was(wrapped, folder):
    cx, y = written()
    before = str(cx)
    failing(cx, wrapped("echo half > library.so; kill -INT $PPID; sleep 10"), KeyboardInterrupt)
    assert str(cx) == before
    assert len(entries(folder)) == 0
    assert not folder.exists()
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
    assert still_right(cx, y)
    cx.compile(ll.CPUCompiler())
    assert right(cx, y)


LONG = "static volatile int value;\nint long_one(void) {\n" + "value += 1;\n" * 100_000 + "}\n"


@pytest.mark.skipif(sys.platform != "linux", reason="it looks for processes in /proc")
def test_ctrl_c_ends_a_real_compiler_with_all_that_it_runs(tmp_path):
    process = os.getpid()
    compiler = find_compiler("gcc")
    others = children()
    seen: list[list[str]] = []

    def compiling() -> list[str]:
        return [words for words in descendants() if "cc1" in words]

    def interrupt() -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end and not compiling():
            time.sleep(0.001)
        seen.append(compiling())
        os.kill(process, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    gc.collect()
    gc.disable()  # Python loses an interrupt that comes while what is dead is put away
    try:
        with pytest.raises(KeyboardInterrupt):
            toolchain.build(LONG, compiler)
    finally:
        gc.enable()
    thread.join()
    assert seen[0], "nothing was being compiled"
    end = time.monotonic() + 10
    while compiling() and time.monotonic() < end:
        time.sleep(0.01)  # what others have started is put away by the system
    assert children() <= others  # and none of ours is waited for
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
    assert not list(tmp_path.glob("**/cc*.s"))


def test_what_compilers_write_besides_goes_where_it_is_removed(fake_temporary):
    name = fake_temporary("echo 1 > $TMPDIR/ccX.s; echo $TMPDIR > {}; exit 1")
    assert not Path(name).exists()


@pytest.fixture
def fake_temporary(tmp_path):
    """Have a stand-in write where temporary files go, and return where that was."""

    def run(lines: str) -> str:
        path, told = tmp_path / "cc", tmp_path / "told"
        path.write_text(f"#!/bin/sh\n{lines.format(told)}\n")
        path.chmod(0o755)
        compiler = toolchain.Compiler((str(path),), "cc 1", "x86_64-linux-gnu", ())
        error_of(lambda: toolchain.build(SOURCE, compiler), DeviceError)
        return told.read_text().strip()

    return run


# -- a cache that fails ----------------------------------------------------------------------------


def test_a_cache_that_is_a_file(folder):
    folder.write_text("")
    cx, y = written()
    with pytest.warns(LabWarning, match="it cannot use .* it is not a folder"):
        cx.compile(ll.CPUCompiler())
    assert right(cx, y)


@pytest.mark.parametrize("number", [0, 1])
def test_a_damaged_entry_is_made_again(folder, number):
    cx, y = written()
    cx.compile(ll.CPUCompiler())
    assert right(cx, y)
    entry = entries(folder)[number]
    library = entry.path / cache.LIBRARY
    whole = library.read_bytes()
    library.unlink()  # what is loaded stays as it is
    library.write_bytes(whole[: len(whole) // 2])
    library.chmod(0o600)
    other, z = written()
    with pytest.warns(LabWarning, match="was damaged and is made again"):
        other.compile(ll.CPUCompiler())
    assert right(other, z)
    assert right(cx, y)


def test_a_library_is_compiled_once_for_equal_graphs(folder, wrapped, tmp_path):
    compiler = wrapped(f'echo >> "{tmp_path}/log"')
    for _ in range(3):
        cx, y = written()
        cx.compile(ll.CPUCompiler(compiler=compiler))
        assert right(cx, y)
    assert (tmp_path / "log").read_text() == "\n\n"
    assert len(entries(folder)) == 2


def test_threads_are_compiled_once_for_all_programs(folder, wrapped, tmp_path):
    compiler = wrapped(f'echo >> "{tmp_path}/log"')
    for size in (3, 4, 5):
        cx = ll.Graph()
        y = (cx.tensor((size,), name="x").set([1.0] * size) + 1).retrieve()
        cx.compile(ll.CPUCompiler(compiler=compiler))
        cx.execute()
        assert y.numpy().tolist() == [2.0] * size
    assert (tmp_path / "log").read_text() == "\n" * 4


# -- which kernel a line is of ---------------------------------------------------------------------

SOURCE = """static inline int lab_one(int x) {
    return x;
}

// kernel first(x: f32[4]) -> (y: f32[4])
//   y[i < 4] = sin(x[i])
static void kernel_first_0(LAB_GIVEN) {
    one;
}

static void kernel_first_1(LAB_GIVEN) {
    two;
}

void lab_execute(int kernel) {
    three;
}
"""
COMMENT = ["kernel first(x: f32[4]) -> (y: f32[4])", "  y[i < 4] = sin(x[i])"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("one;", ("kernel_first_0", COMMENT)),
        ("two", ("kernel_first_1", COMMENT)),
        ("static void kernel_first_0(", ("kernel_first_0", COMMENT)),
        ("three", ("", [])),
        ("return x", ("", [])),
    ],
)
def test_the_kernel_of_a_line(text, found):
    number = next(
        n for n, line in enumerate(SOURCE.split("\n"), 1) if line.strip().startswith(text)
    )
    assert kernel_at(SOURCE, number) == found


def test_what_is_behind_a_kernel_is_said(tmp_path):
    path = tmp_path / "cc"
    path.write_text('#!/bin/sh\necho "program.c:8:5: error: no"\nexit 1\n')
    path.chmod(0o755)
    compiler = toolchain.Compiler((str(path),), "cc 1", "x86_64-linux-gnu", ())
    lines = {"kernel_first_0": "sin, %y\n  cell 3, line 7:  y = x.sin()"}
    error = error_of(
        lambda: toolchain.build(SOURCE, compiler, behind=lambda name: lines[name]), DeviceError
    )
    assert error.where.splitlines()[-5:] == [
        "in kernel_first_0, which computes",
        *(f"  {line}" for line in COMMENT),
        "from sin, %y",
        "  cell 3, line 7:  y = x.sin()",
    ]
