"""The C toolchain: a compiler is found, a library compiled once and loaded; or it is said why."""

import ctypes
import errno
import importlib.util
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import tracemalloc
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic
from types import SimpleNamespace

import pytest

import luminal_lab as ll
from luminal_lab.devices.build import cache, toolchain
from luminal_lab.devices.build.toolchain import (
    Compiler,
    build,
    compile_library,
    find_compiler,
    flags_for,
    load,
    machine,
    window,
)
from luminal_lab.errors import DeviceError, LabWarning
from tests.expect import error_of
from tests.kept import entries

TWICE = "float twice(float x) { return 2 * x; }\n"


@pytest.fixture(scope="module")
def compiler():
    return find_compiler()


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """A folder of temporary files for each test, with a space and an umlaut in its name."""
    place = tmp_path / "temporary für files"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "my cäche"


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Make a program of some lines of shell, and return a compiler that is called so."""

    def make(lines, name="fake cc"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{lines}\n", encoding="utf-8")
        path.chmod(0o755)
        return Compiler((str(path),), "fake cc 1.0", "x86_64-linux-gnu", ())

    return make


def twice(path):
    function = load(path, "twice").twice
    function.argtypes, function.restype = [ctypes.c_float], ctypes.c_float
    return function


def only_on_the_path(monkeypatch, programs):
    """Have nothing on the PATH but these, and no package ziglang."""
    monkeypatch.setattr(shutil, "which", lambda name: programs.get(name))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


# -- finding a compiler ----------------------------------------------------------------------------


def test_this_machine_has_a_compiler(compiler):
    assert Path(compiler.command[0]).is_absolute()
    assert str(compiler) == compiler.version
    assert any(character.isdigit() for character in compiler.version)
    assert compiler.flags == flags_for(compiler.target)
    assert "-O3" in compiler.flags
    assert find_compiler() == compiler


def test_a_compiler_is_asked_for_by_name_or_path(compiler, tmp_path, monkeypatch):
    real = compiler.command[0]
    assert find_compiler(Path(real).name).version == compiler.version
    assert find_compiler(real) == compiler
    (tmp_path / "my tools").mkdir()
    (tmp_path / "my tools" / "cc").write_text(f'#!/bin/sh\nexec "{real}" "$@"\n')
    (tmp_path / "my tools" / "cc").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for asked in ("my tools/cc", "./my tools/cc", "~/my tools/cc"):
        assert find_compiler(asked).command == (str(tmp_path / "my tools" / "cc"),)


def test_a_compiler_that_is_not_there(monkeypatch):
    only_on_the_path(monkeypatch, {"gcc": "/usr/bin/gcc", "clang": "/usr/bin/clang"})
    error = error_of(lambda: find_compiler("icc"), DeviceError)
    assert error.message == "compiler: there is no 'icc', neither on the PATH nor as a file"
    assert "find_compiler" in error.where
    assert error.hint == "this machine has gcc, clang"
    only_on_the_path(monkeypatch, {})
    error = error_of(lambda: find_compiler("./icc"), DeviceError)
    assert error.message == "compiler: there is no './icc', neither on the PATH nor as a file"
    assert error.hint == "pip install ziglang"


def test_a_program_that_is_no_compiler(fake):
    path = fake('echo "what is $1?"; exit 3').command[0]
    error = error_of(lambda: find_compiler(path), DeviceError)
    assert error.message == (
        f"compiler: {path!r} cannot be used: --version ends with status 3, "
        "and says: what is --version?"
    )
    assert error.hint == "name a compiler that is called like gcc and clang, or none"


def test_a_machine_without_a_compiler(fake, monkeypatch):
    broken = fake("exit 1", "gcc").command[0]
    (Path(broken).parent / "clang").write_bytes(b"\x7fELF for another machine")
    (Path(broken).parent / "clang").chmod(0o755)
    only_on_the_path(monkeypatch, {"gcc": broken, "clang": broken[:-3] + "clang"})
    error = error_of(find_compiler, DeviceError)
    assert error.message.splitlines() == [
        "compiler: no C compiler was found; looked for cc, gcc and clang on the PATH, and for the "
        "package ziglang",
        "  cc: it is not there",
        "  gcc: --version ends with status 1",
        "  clang: Exec format error",
        "  ziglang: it is not there",
    ]
    assert error.hint == (
        "pip install ziglang; without a compiler graphs run in NumPy's interpreter, slowly"
    )


def test_why_the_compilers_that_are_there_are_not_used_is_said(fake, monkeypatch):
    only_on_the_path(monkeypatch, {"gcc": fake("echo no licence; exit 1", "gcc").command[0]})
    cx = ll.Graph()
    (cx.tensor((2,)) * 2).retrieve()
    with pytest.warns(LabWarning) as warned:
        cx.compile(ll.CPUCompiler())
    assert [line for line in str(warned[0].message).splitlines() if line.startswith("  ")][:1] == [
        "  gcc: --version ends with status 1, and says: no licence"
    ]


def test_no_place_to_try_cpp_in(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    error = error_of(toolchain.find_cpp_compiler, DeviceError)
    assert "cc: No such file or directory" in error.message


def test_one_that_does_not_run_is_passed_over(compiler, fake, monkeypatch):
    broken = fake("echo no developer tools were found; exit 1", "cc").command[0]
    only_on_the_path(monkeypatch, {"cc": broken, "gcc": compiler.command[0]})
    assert find_compiler() == compiler


def test_a_compiler_is_asked_what_it_is_once_and_again_when_it_is_another(fake, tmp_path):
    asked = tmp_path / "asked"
    lines = f'echo "$1" >> {asked}; echo fake cc'
    path = fake(f"{lines} 1.0").command[0]
    assert find_compiler(path) is find_compiler(path)
    assert find_compiler(path).version == "fake cc 1.0"
    assert asked.read_text().split() == ["--version", "-dumpmachine"]
    fake(f"{lines} 1.0.1")
    assert find_compiler(path).version == "fake cc 1.0.1"
    Path(path).unlink()
    assert "there is no" in error_of(lambda: find_compiler(path), DeviceError).message


def zig_package(place, compiler):
    """Write a package that answers as ziglang does, and compiles with the compiler there is."""
    (place / "ziglang").mkdir(parents=True)
    (place / "ziglang" / "__init__.py").write_text("")
    (place / "ziglang" / "__main__.py").write_text(f"""if True:
        import os, sys
        if sys.argv[1] == "version":
            print("0.99.0")
        elif sys.argv[1:] == ["cc", "--version"]:
            print("clang version 33.0", "Target: x86_64-unknown-linux-gnu2.36.0", sep="\\n")
        else:
            assert sys.argv[1] == "cc"
            os.execv({compiler.command[0]!r}, ["cc", *sys.argv[2:]])
    """)


def test_zigs_package_is_taken_where_there_is_nothing_else(compiler, tmp_path, folder, monkeypatch):
    zig_package(tmp_path / "site", compiler)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "ziglang", raising=False)  # another test may have imported it
    zig = find_compiler()
    assert zig == find_compiler("ziglang")
    assert zig.command == (sys.executable, "-m", "ziglang", "cc")
    assert zig.version == "zig 0.99.0 (clang version 33.0)"
    assert zig.target == "x86_64-unknown-linux-gnu2.36.0"
    native = replace(zig, flags=compiler.flags)
    assert twice(compile_library(TWICE, native, folder=folder))(4) == 8


def test_zig_itself_may_be_asked_for(fake):
    path = fake('[ "$1" = cc ] && echo clang version 33.0 || echo 0.99.0', "zig").command[0]
    zig = find_compiler(path)
    assert (zig.command, zig.version) == ((path, "cc"), "zig 0.99.0 (clang version 33.0)")


FAST = "-fopenmp-simd -ffp-contract=off -fno-math-errno -fno-trapping-math -fwrapv -w -shared"
TARGETS = {
    "x86_64-linux-gnu": f"-march=native {FAST} -fPIC -Wl,--no-undefined -lm",
    "x86_64-unknown-linux6.1.0-gnu2.36.0": f"-march=native {FAST} -fPIC -Wl,--no-undefined -lm",
    "aarch64-alpine-linux-musl": f"-mcpu=native {FAST} -fPIC -Wl,--no-undefined -lm",
    "riscv64-linux-gnu": f"{FAST} -fPIC -Wl,--no-undefined -lm",
    "arm64-apple-darwin24.1.0": f"-mcpu=native {FAST} -fPIC -lm",
    "x86_64-apple-darwin22.6.0": f"-march=native {FAST} -fPIC -lm",
    "x86_64-w64-mingw32": f"-march=native {FAST} -static-libgcc -lm",
    "x86_64-unknown-windows-gnu": f"-march=native {FAST} -static-libgcc -lm",
    "x86_64-pc-windows-msvc": f"-march=native {FAST}",
}


@pytest.mark.parametrize(("target", "flags"), TARGETS.items())
def test_the_flags_of_each_target(target, flags):
    assert " ".join(flags_for(target)) == f"-std=gnu11 -O3 {flags}"


def test_what_the_code_depends_on_is_known():
    assert len(machine()) > 10
    assert machine() == machine.__wrapped__()
    assert "MHz" not in machine()  # which is another at every moment


# -- compiling -------------------------------------------------------------------------------------


def test_a_library_is_compiled_once(compiler, folder, temporary, monkeypatch):
    path = compile_library(TWICE, compiler, folder=folder)
    assert path.is_relative_to(folder)
    assert twice(path)(21) == 42
    assert list(temporary.iterdir()) == []
    monkeypatch.setattr(toolchain, "build", None)
    assert compile_library(TWICE, compiler, folder=folder) == path
    (entry,) = entries(folder)
    assert (entry.source, entry.made_by, entry.fault) == (TWICE, compiler.version, None)


def test_all_that_makes_a_difference_makes_another_library(fake, folder, monkeypatch):
    cc = fake("for last; do :; done; echo code > $last")
    made = [
        compile_library(TWICE, cc, folder=folder),
        compile_library(TWICE + "\n", cc, folder=folder),
        compile_library(TWICE, replace(cc, version="fake cc 1.1"), folder=folder),
        compile_library(TWICE, replace(cc, target="arm"), folder=folder),
        compile_library(TWICE, replace(cc, flags=("-O1", "-g")), folder=folder),
        compile_library(TWICE, replace(cc, flags=("-O1 -g",)), folder=folder),
    ]
    monkeypatch.setattr(toolchain, "machine", lambda: "another")
    made.append(compile_library(TWICE, cc, folder=folder))
    assert len(set(made)) == len(made)


def test_any_text_may_stand_in_comments(compiler, folder):
    for comment in ("× für ∑ 😀", "alone: \ud800", "a form\ffeed"):
        assert twice(compile_library(f"// {comment}\n{TWICE}", compiler, folder=folder))(3) == 6


def test_the_functions_of_the_c_library_are_there(compiler, folder):
    source = "#include <math.h>\nfloat twice(float x) { return fmaf(expf(x), 2, powf(x, 0.5f)); }"
    path = compile_library(source, compiler, folder=folder)
    assert twice(path)(1) == pytest.approx(2 * 2.7182818 + 1)


@pytest.mark.parametrize("size", [0, 10, -1], ids=["emptied", "truncated", "flipped"])
def test_a_damaged_library_is_not_loaded_but_made_again(compiler, folder, size):
    path = compile_library(TWICE, compiler, folder=folder)
    whole = path.read_bytes()
    path.write_bytes(whole[:size] if size >= 0 else whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.warns(LabWarning, match="was damaged and is made again"):
        assert compile_library(TWICE, compiler, folder=folder) == path
    assert twice(path)(5) == 10


def test_a_folder_that_cannot_be_used(compiler, folder):
    folder.write_text("")
    with pytest.warns(LabWarning, match="it cannot use .* it is not a folder"):
        path = compile_library(TWICE, compiler, folder=folder)
    assert path.is_relative_to(cache.spare_folder())
    assert compile_library(TWICE, compiler, folder=folder) == path  # without a word
    assert twice(path)(1) == 2


# -- what goes wrong -------------------------------------------------------------------------------

WRONG = """/* für */
float one(float x) {
  return x;
}
float two(float x) {
  return x + nowhere;
}
float three(float x) {
  return x;
}
"""


def test_the_line_that_a_compiler_refuses_is_shown(compiler, folder, temporary):
    error = error_of(lambda: compile_library(WRONG, compiler, folder=folder), DeviceError)
    assert error.message.startswith(f"compile: {compiler} made no library, and ended with status ")
    assert "program.c:6:" in error.message
    assert "nowhere" in error.message
    assert error.where.splitlines() == [
        "  3 |   return x;",
        "  4 | }",
        "  5 | float two(float x) {",
        "> 6 |   return x + nowhere;",
        "  7 | }",
        "  8 | float three(float x) {",
        "  9 |   return x;",
    ]
    assert error.hint == (
        "fix the marked line, if it is yours; "
        "without a compiler graphs run in NumPy's interpreter, slowly"
    )
    assert list(temporary.iterdir()) == []
    assert len(entries(folder)) == 0


def test_the_text_of_a_refusal(fake):
    cc = fake("""echo "program.c: In function 'two':"
    echo "program.c:2:3: error: no such thing"
    echo "    2 |   thing;"
    echo "      |   ^~~~~"
    for n in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "program.c:3:$n: error: more"; done
    exit 1""")
    error = error_of(lambda: build("a\n  thing;\n", cc), DeviceError)
    assert error.message.splitlines() == [
        "compile: fake cc 1.0 made no library, and ended with status 1",
        "  program.c: In function 'two':",
        "  program.c:2:3: error: no such thing",
        *[f"  program.c:3:{n}: error: more" for n in range(1, 11)],
        "  and 2 lines more",
    ]
    assert error.where == "  1 | a\n> 2 |   thing;"


def test_a_function_that_is_nowhere_is_found_in_the_source(compiler):
    source = "int nowhere(int);\n\nint f(void) { return 1; }\nint g(void) { return nowhere(3); }\n"
    error = error_of(lambda: build(source, compiler), DeviceError)
    assert "nowhere" in error.message
    assert error.where.splitlines()[0] == "> 1 | int nowhere(int);"


@pytest.mark.parametrize(
    "words",
    [
        "program.c:(.text+0x8): undefined reference to `nowhere'",
        "ld.lld: error: undefined symbol: nowhere",
        'Undefined symbols for architecture arm64:\n  "_nowhere", referenced from:',
    ],
)
def test_a_linkers_words(fake, words):
    cc = fake(f"cat <<'END'\n{words}\nEND\nexit 1")
    error = error_of(lambda: build("int f;\nint nowhere_else;\nint nowhere(int);\n", cc))
    assert "> 3 | int nowhere(int);" in error.where


def test_a_compiler_without_the_c_librarys_files(compiler, fake):
    error = error_of(lambda: build("#include <nowhere.h>\n", compiler), DeviceError)
    assert error.where.splitlines()[0] == "> 1 | #include <nowhere.h>"
    assert error.hint == (
        "the compiler lacks this file; pip install ziglang brings the C library's headers"
    )


def test_a_compiler_that_crashes(fake):
    error = error_of(lambda: build(TWICE, fake("kill -SEGV $$")), DeviceError)
    assert error.message == "compile: fake cc 1.0 made no library, and was ended by signal 11"
    assert "build(TWICE" in error.where
    assert error.hint == (
        'find_compiler("clang") would ask another compiler; '
        "without a compiler graphs run in NumPy's interpreter, slowly"
    )


def test_a_compiler_that_says_it_is_done_and_is_not(fake):
    error = error_of(lambda: build(TWICE, fake("exit 0")), DeviceError)
    assert error.message == "compile: fake cc 1.0 made no library, and ended with status 0"


def test_a_compiler_that_is_there_no_more(fake, temporary):
    cc = fake("")
    Path(cc.command[0]).unlink()
    error = error_of(lambda: build(TWICE, cc), DeviceError)
    assert error.message == (
        f"compile: fake cc 1.0 could not be run in {temporary}: "
        f"[Errno 2] No such file or directory: {cc.command[0]!r}"
    )
    assert error.hint.startswith("find_compiler() looks for a compiler again; ")


def test_a_full_disk(fake, temporary, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=0))
    error = error_of(lambda: build(TWICE, fake("echo no space; exit 1")), DeviceError)
    assert error.hint == f"the disk of {temporary} is full; make room there"


def test_a_disk_that_fills_up(fake, temporary, monkeypatch):
    def write(path, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write)
    error = error_of(lambda: build(TWICE, fake("")), DeviceError)
    assert error.message == (
        f"compile: fake cc 1.0 could not be run in {temporary}: [Errno 28] No space left on device"
    )
    assert error.hint == f"the disk of {temporary} is full; make room there"


def test_no_place_for_temporary_files(fake, monkeypatch):
    def nowhere():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    error = error_of(lambda: build(TWICE, fake("")), DeviceError)
    assert error.message.endswith("No usable temporary directory found")


@contextmanager
def child_that_lives(tmp_path):
    """Give lines of shell that start a child, and see afterwards that it has ended."""
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield f"sleep 60 >'{pipe}' & "
        ready, _, _ = select.select([end], [], [], 10)
        assert ready, "a child of the compiler is still alive"
        assert os.read(end, 1) == b""
    finally:
        os.close(end)


def test_a_compiler_that_hangs_is_ended_with_its_children(fake, folder, temporary, tmp_path):
    with child_that_lives(tmp_path) as start:
        cc = fake(f"{start} wait")
        error = error_of(lambda: compile_library(TWICE, cc, folder=folder, timeout=0.1))
    assert type(error) is DeviceError
    assert error.message == (
        "compile: fake cc 1.0 was ended after 0.1 s, with 2 lines of source, and had no answer for "
        "a single line either"
    )
    assert error.hint == (
        'find_compiler("clang") would ask another compiler; without a compiler graphs run in '
        "NumPy's interpreter, slowly"
    )
    assert list(temporary.iterdir()) == []


def test_a_compiler_that_hangs_is_noticed_long_before_its_time(fake, monkeypatch):
    monkeypatch.setattr(toolchain, "DOUBT", 0.2)
    monkeypatch.setattr(toolchain, "ANSWER", 0.3)
    cc = fake("sleep 60")
    begin = monotonic()
    error = error_of(lambda: build(TWICE, cc), DeviceError)
    assert monotonic() - begin < 30
    assert error.message.endswith("2 lines of source, and had no answer for a single line either")


def test_a_compiler_that_is_slow_gets_its_time(fake, monkeypatch):
    monkeypatch.setattr(toolchain, "DOUBT", 0.05)
    slow = fake("case $* in *try.s*) exit 0;; esac; sleep 0.5; echo slow; exit 1")
    assert "\n  slow" in error_of(lambda: build(TWICE, slow), DeviceError).message


@pytest.mark.parametrize("output", ["", ">/dev/null 2>&1", "| yes"])
def test_what_a_compiler_leaves_running_is_ended_and_not_waited_for(fake, tmp_path, output):
    with child_that_lives(tmp_path) as start:
        cc = fake(f"{start} sleep 60 {output} & sleep 0.5; exit 3")
        begin = monotonic()
        error = error_of(lambda: build(TWICE, cc), DeviceError)
    assert monotonic() - begin < 30
    assert "made no library, and ended with status 3" in error.message


def test_a_compiler_that_has_closed_its_output_is_waited_for(fake):
    cc = fake("exec >&- 2>&-; sleep 0.2; exit 3")
    assert "ended with status 3" in error_of(lambda: build(TWICE, cc), DeviceError).message


def test_of_a_compiler_that_never_stops_talking_the_beginning_is_kept(fake):
    cc = fake("head -c 8000000 /dev/zero | tr '\\0' e; exit 1")
    tracemalloc.start()
    error = error_of(lambda: build(TWICE, cc), DeviceError)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 << 20
    assert error.message.endswith("\n  " + "e" * toolchain.LONGEST)


def test_ctrl_c_ends_the_compiler_and_leaves_nothing_behind(fake, folder, temporary, tmp_path):
    with child_that_lives(tmp_path) as start:
        cc = fake(f"echo half > library.so; {start} sleep 0.05; kill -INT $PPID; wait")
        error_of(lambda: compile_library(TWICE, cc, folder=folder), KeyboardInterrupt)
    assert list(temporary.iterdir()) == []
    assert len(entries(folder)) == 0
    assert not folder.exists()


def test_a_window_of_source():
    lines = "\n".join(f"line {n}" for n in range(1, 13))
    assert window(lines, 9, 1) == "   8 | line 8\n>  9 | line 9\n  10 | line 10"
    assert window(lines, 1, 1) == "> 1 | line 1\n  2 | line 2"
    assert window(lines, 12, 1) == "  11 | line 11\n> 12 | line 12"
    assert window("{\n", 2) == "> 1 | {"  # where an end is missing
    assert window("a\fb\nc\r\nd", 2) == "  1 | a\fb\n> 2 | c\n  3 | d"
    assert window("x" * 500, 1) == "> 1 | " + "x" * 120


# -- loading ---------------------------------------------------------------------------------------


def test_a_library_must_have_its_functions(compiler, folder):
    path = compile_library("static int g;\nint f(void) { return g; }\n", compiler, folder=folder)
    assert load(path, "f").f() == 0
    error = error_of(lambda: load(path, "f", "g"), DeviceError)
    assert error.message == f"load: {path} has no function 'g'"
    assert error.hint == "the source must define g, and not as static"
    assert "load(path" in error.where


def test_a_file_that_is_no_library(tmp_path):
    path = tmp_path / "library.so"
    path.write_text("hello, this is no library at all, however long it may be")
    error = error_of(lambda: load(path), DeviceError)
    assert error.message.startswith(f"load: {path} cannot be loaded: ")
    assert error.hint == "luminal-lab cache clear --older 0 --yes has everything compiled again"


# -- several at once -------------------------------------------------------------------------------


def counting(fake, compiler, log):
    """Return a compiler that writes a line for each library that it makes."""
    cc = fake(f'echo made >> "{log}"; exec "{compiler.command[0]}" "$@"')
    return replace(compiler, command=cc.command)


SCRIPT = """if True:
    import sys
    from luminal_lab.devices.build.toolchain import Compiler, compile_library, load
    command, version, target, folder, *flags = sys.argv[1:]
    cc = Compiler((command,), version, target, tuple(flags))
    print("ready", flush=True)
    input()
    path = compile_library("int f(void) { return 7; }", cc, folder=folder)
    print(path, load(path, "f").f())
"""


def test_two_processes_may_compile_the_same_source(compiler, fake, folder, tmp_path):
    cc = counting(fake, compiler, tmp_path / "log")
    given = [cc.command[0], cc.version, cc.target, str(folder), *cc.flags]
    command = [sys.executable, "-c", SCRIPT, *given]
    pipe = subprocess.PIPE
    two = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(2)]
    for process in two:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in two:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate(timeout=60)[0] for process in two]
    assert [process.returncode for process in two] == [0, 0]
    assert said[0] == said[1]
    assert said[0].endswith(" 7\n")
    assert (tmp_path / "log").read_text().startswith("made\n")
    assert len(entries(folder)) == 1


def test_several_that_compile_at_once_are_all_right(compiler, fake, folder, tmp_path, monkeypatch):
    both = threading.Barrier(2)
    real = build
    cc = counting(fake, compiler, tmp_path / "log")

    def build_together(*args, **kwargs):
        made = real(*args, **kwargs)
        both.wait()
        return made

    monkeypatch.setattr(toolchain, "build", build_together)
    found = []
    work = lambda: found.append(compile_library(TWICE, cc, folder=folder))  # noqa: E731
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    assert found[0] == found[1]
    assert (tmp_path / "log").read_text() == "made\nmade\n"
    assert twice(found[0])(1) == 2


def test_a_forked_child_calls_and_compiles(compiler, folder):
    script = """if True:
        import os, sys
        from luminal_lab.devices.build.toolchain import compile_library, find_compiler, load
        cc, folder = find_compiler(sys.argv[1]), sys.argv[2]
        first = load(compile_library("int f(void) { return 1; }", cc, folder=folder), "f")
        child = os.fork()
        source = "int f(void) { return 2; }"
        second = load(compile_library(source, cc, folder=folder), "f")
        right = (first.f(), second.f()) == (1, 2)
        if not child:
            os._exit(not right)
        print(right, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    command = [sys.executable, "-c", script, compiler.command[0], str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "True 0\n", done.stderr
    assert len(entries(folder)) == 2


def test_who_finds_modules_may_refuse(monkeypatch):
    def refuses(name, path=None, target=None):
        if name == "ziglang":
            raise ImportError(name)

    monkeypatch.setattr(sys, "meta_path", [SimpleNamespace(find_spec=refuses), *sys.meta_path])
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delitem(sys.modules, "ziglang", raising=False)
    error = error_of(find_compiler, DeviceError)
    assert error.message.endswith("\n  ziglang: it is not there")
