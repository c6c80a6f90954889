"""A child process for kernels that nobody trusts yet: what it finds, and that nothing is left."""

import errno
import os
import platform
import signal
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.interpret import Environment
from luminal_lab.devices.build.toolchain import compile_library, find_compiler
from luminal_lab.devices.cpu import trial_build, trials, user_check
from luminal_lab.devices.cpu.trial import (
    FILLS,
    Area,
    Death,
    Died,
    TrialJob,
    TrialProcess,
    difference,
)
from luminal_lab.devices.cpu.trial_build import Builds, builds
from luminal_lab.devices.cpu.trial_report import ArrayName, words
from luminal_lab.devices.cpu.user_check import TRIED, check_kernel
from luminal_lab.errors import DefinitionError, DeviceError, PassError
from tests.expect import error_of
from tests.needs import need

F32 = np.dtype(np.float32)
COUNT = 10
NAMES = {0: ArrayName("x", 4, is_input=True), 1: ArrayName("y", 4, is_input=False)}
SOURCE = """#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void f(const float *x, float *y, long n) {
    BODY
}
void lab_alone(void *const *b, const long long *d, long long task) { f(b[0], b[1], d[0]); }
"""
LINE = 6
RIGHT = "for (long i = 0; i < n; i++) y[i] = 2 * x[i];"


pytestmark = pytest.mark.needs("cc")


def built(compiler: str | None = None) -> Builds:
    made = builds(find_compiler(compiler))
    assert made is not None
    return made


def trial_of(
    body: str, *, compiler: str | None = None, checked: bool = True, **limits: Any
) -> TrialProcess:
    """Return a trial of one line of C, with ten numbers in x and room for ten in y."""
    build, source = built(compiler), SOURCE.replace("BODY", body) + TRIED
    library = build.library(source) if checked else compile_library(source, find_compiler(compiler))
    areas = [Area(4 * COUNT, writable=False), Area(4 * COUNT)]
    job = TrialJob(library, areas, [(0, 0), (1, 0)], [0], [1], [COUNT], **limits)
    return TrialProcess(build, job, checked=checked)


def prepared(trial: TrialProcess) -> TrialProcess:
    trial.fill(FILLS[0])
    trial.array(0, (COUNT,), F32)[:] = np.arange(COUNT)
    return trial


def death_of(body: str, **options: Any) -> tuple[Death, str, int | None]:
    """Return how a child dies of one line of C, what is told of it, and its line."""
    with trial_of(body, **options) as trial:
        try:
            prepared(trial).run(0, 1)
        except Died as died:
            what, line, hint = words(trial, died.death, NAMES)
            assert hint
            return died.death, what, line
    raise AssertionError(f"{body} came to its end")


# -- what is right ---------------------------------------------------------------------------------


@pytest.mark.sweep
@pytest.mark.parametrize("checked", [True, False], ids=["checked", "as it is"])
@pytest.mark.parametrize("compiler", [None, "ziglang"])
def test_a_right_kernel_gives_its_values(compiler: str | None, checked: bool, long: bool):
    if compiler:
        need(compiler)
        if not long:  # elsewhere zig compiles nests, and all that is generated for other systems
            pytest.skip("zig compiles its sanitizers for 20 seconds: make test-long tries them")
    with trial_of(RIGHT, compiler=compiler, checked=checked) as trial:
        for _ in range(3):  # one child, several runs
            assert prepared(trial).run(0, 1) == 1
            assert trial.array(1, (COUNT,), F32).tolist() == [2.0 * k for k in range(COUNT)]
            assert trial.overwritten(FILLS[0]) is None


def test_this_machine_has_sanitizers():
    # So that what is below is no test of guard pages alone.
    assert built().sanitizers == ("address", "undefined")


# -- what is wrong ---------------------------------------------------------------------------------

FAULTS = {
    "y[n] = 1;": "it writes y[10], and y has 10 elements",
    "y[n + 5000] = 1;": "it writes y[5010], and y has 10 elements",
    "y[-2000] = 1;": "it writes y[-2000], and y has 10 elements",
    "y[0] = x[n];": "it reads x[10], and x has 10 elements",
    "((float *)x)[3] = 1;": "it changes its input x",
    "float t[4]; for (long i = 0; i < n; i++) ((volatile float *)t)[i] = x[i]; y[0] = t[1];": (
        "it writes beside its local array t"
    ),
    "y[0] = 1 << (n + 30);": (
        "it does what C leaves undefined: shift exponent 40 is too large for 32-bit type 'int'"
    ),
    "y[0] = 1 / (n - 10);": "it does what C leaves undefined: division by zero",
    "y[0] = (int)(x[9] * 1e30f);": (
        "it does what C leaves undefined: 9e+30 is outside the range of representable values of "
        "type 'int'"
    ),
    "y[0] = *(const float *)((const char *)x + 1);": (
        "it does what C leaves undefined: load of misaligned address"
    ),
    "y[0] = *(volatile int *)(n - 10);": (
        "it does what C leaves undefined: load of null pointer of type 'volatile int'"
    ),
    "float *t = malloc(40); y[0] = t[n + (long)x[0]]; free(t);": (
        "it reads memory that belongs to no array (heap-buffer-overflow)"
    ),
    "y[n * 100000000000] = 1;": "it reaches memory that belongs to no array (SEGV)",
    "f(x, y, n);": "it needs more stack than there is",
    "abort();": "it aborts",
    "__builtin_trap();": "it reaches an instruction that ends the process",
    "free(y);": "it frees memory that is not its own",
}


@pytest.mark.parametrize("body", FAULTS)
def test_a_sanitizer_finds_a_fault_and_names_its_line(body: str):
    death, what, line = death_of(body)
    assert what.startswith(FAULTS[body])
    assert death.cause == "report"
    assert line == LINE


GUARDED = {
    "y[n] = 1;": "it writes y[10], and y has 10 elements",
    "y[-2000] = 1;": "it writes y[-2000], and y has 10 elements",
    "y[0] = x[n];": "it reads x[10], and x has 10 elements",
    "((float *)x)[3] = 1;": "it changes its input x",
    "y[0] = *(volatile int *)(n - 10);": "it reads memory by a null pointer",
    "abort();": "it was ended by SIGABRT",
    "kill(getpid(), 9);": "it was ended by SIGKILL",
    "exit(3);": "it ended its process with status 3",
    "exit(85);": "it ended its process with status 85",
    "if (!fork()) for (;;) pause();": "it starts another process",
    "if (!fork()) { setsid(); for (;;) pause(); }": "it starts another process",
    "if (!fork()) { if (!fork()) for (;;) pause(); _exit(0); }": "it starts another process",
    "fork();": "it starts another process",
    "for (int k = 3; k < 99; k++) close(k);": "it closes files that are not its own",
}


@pytest.mark.parametrize("compiler", [None, "ziglang"])
@pytest.mark.parametrize("body", GUARDED)
def test_pages_that_nobody_may_touch_find_faults_without_sanitizers(body: str, compiler: str):
    if compiler:
        need(compiler)
    _, what, line = death_of(body, compiler=compiler, checked=False)
    if os.uname().machine != "x86_64":  # where the processor does not say whether it was a store
        what = what.replace("reaches", GUARDED[body].split()[1])
    assert what == GUARDED[body]
    assert line is None


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the kernel is for one processor")
@pytest.mark.parametrize("checked", [True, False], ids=["checked", "as it is"])
def test_a_kernel_leaves_floats_as_they_were(checked: bool):
    # All that runs after it in the same process would have no subnormal numbers.
    flushing = "__builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);"
    death, what, _ = death_of(flushing + RIGHT, checked=checked)
    assert death.cause == "left"
    assert what == "it changes how floats are rounded"


@pytest.mark.parametrize("body", ["y[-1] = 1;" + RIGHT, "y[-700] = 1;" + RIGHT])
def test_a_store_before_an_array_is_seen_without_sanitizers(body: str):
    with trial_of(body, checked=False) as trial:
        prepared(trial).run(0, 1)
        assert trial.overwritten(FILLS[0]) == 1


def test_what_is_not_written_differs_between_two_runs():
    made: list[Any] = []
    with trial_of("for (long i = 1; i < n; i++) y[i] = i == 5 ? y[i] + 1 : x[i];") as trial:
        for fill in FILLS:
            trial.fill(fill)
            trial.array(0, (COUNT,), F32)[:] = 1
            trial.run(0, 1)
            made.append(trial.array(1, (COUNT,), F32).copy())
    unwritten = "each task writes its part of all outputs"
    assert difference("y", made[0], made[1], "each task") == ("y[0] is not written", unwritten)
    first, second = (one[1:] for one in made)
    event, _ = difference("y", first, second, "each task") or ("", "")
    assert event == "y[4] is different when it runs again"
    assert difference("y", first, first, "each task") is None


def test_a_local_that_is_read_before_it_is_set_holds_a_pattern():
    with trial_of("float s; for (long i = 0; i < n; i++) s += x[i]; y[0] = s;") as trial:
        prepared(trial).run(0, 1)
        assert abs(trial.array(1, (COUNT,), F32)[0]) > 1e30


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("checked", [True, False], ids=["checked", "as it is"])
def test_a_kernel_without_an_end_is_ended(checked: bool):
    body = "for (volatile int i = 0;; i++) {}"
    death, what, _ = death_of(body, checked=checked, seconds=0.3)
    assert (death.cause, what) == ("seconds", "it was ended after 0.3 s")


@pytest.mark.parametrize("checked", [True, False], ids=["checked", "as it is"])
def test_a_kernel_that_takes_all_memory_is_ended(checked: bool):
    body = "for (;;) { char *p = malloc(1 << 24); memset(p, 1, 1 << 24); y[0] = p[5]; }"
    death, what, _ = death_of(body, checked=checked, bytes=1 << 28)
    assert (death.cause, what) == ("bytes", "it was ended when it took more than 268,435,456 bytes")


def test_a_request_for_too_much_memory_is_told_as_such():
    _, what, line = death_of("char *p = malloc((size_t)1 << 62); p[n] = 1; y[0] = p[n];")
    assert (what, line) == ("it asks for more memory than it may have", LINE)


# -- nothing is left -------------------------------------------------------------------------------


def children() -> set[int]:
    """Return the processes that this one has started and not seen the end of, and theirs."""
    found: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    ours = {os.getpid()}
    while True:
        more = {process for process, parent in found.items() if parent in ours} - ours
        if not more:
            return ours - {os.getpid()}
        ours |= more


def alive_in_group(group: int) -> set[str]:
    """Return the processes of a group that run still; who has ended is init's to bury."""
    found: set[str] = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of, *_ = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(of) == group and state != "Z":
            found.add(path.parent.name)
    return found


def opened() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def running(library: Path) -> list[str]:
    """Return the processes that were begun with a library, whoever is their parent now."""
    named: list[str] = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(library) in process.read_text("utf-8", "replace").split("\0"):
                named.append(process.parent.name)
    return named


LEFT = {
    "an end": RIGHT,
    "a fault": "y[n] = 1;",
    "no end": "for (volatile int i = 0;; i++) {}",
    "another process": "if (fork()) abort(); for (volatile int i = 0;; i++) {}",
    "a process of its own": "if (!fork()) { setsid(); for (;;) pause(); }",
    "no end of two": "if (!fork()) setsid(); for (;;) pause();",
}


@pytest.mark.skipif(not Path("/proc").exists(), reason="the system does not list its processes")
@pytest.mark.parametrize("case", LEFT)
def test_nothing_is_left_of_a_trial(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    trial = trial_of(LEFT[case], seconds=0.3)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    processes, files = children(), opened()
    try:
        with trial:
            process = trial.process
            prepared(trial).run(0, 1)
    except Died:
        assert case != "an end"
    assert children() == processes
    assert len(opened()) == len(files)
    assert list(tmp_path.iterdir()) == []
    # What is killed has to be given a core once more before it is gone.
    ends = time.monotonic() + 10
    while alive_in_group(process) and time.monotonic() < ends:
        time.sleep(0.01)
    assert alive_in_group(process) == set()
    assert not running(trial.job.library)


@pytest.mark.skipif(not Path("/proc").exists(), reason="the system does not list its processes")
def test_ctrl_c_ends_the_child():
    trial = trial_of("for (volatile int i = 0;; i++) {}")
    processes = children()
    with trial:
        prepared(trial)
        busy = threading.Thread(target=_interrupt_when_busy, args=(trial.process,))
        busy.start()
        with pytest.raises(KeyboardInterrupt):
            trial.run(0, 1)
    busy.join()
    assert children() == processes


@pytest.mark.skipif(not Path("/proc").exists(), reason="the system does not list its processes")
def test_ctrl_c_ends_a_child_that_shows_what_it_finds(tmp_path: Path, monkeypatch):
    child = tmp_path / "child"
    child.write_text("#!/bin/sh\nsleep 60 & sleep 60\n")
    child.chmod(0o700)
    monkeypatch.setattr(trial_build, "_child", lambda *_: child)
    processes = children()
    timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        trial_build._starts(replace(find_compiler(), version="one that hangs"), ())
    timer.join()
    assert children() == processes


def _interrupt_when_busy(process: int) -> None:
    """Do what Ctrl-C does as soon as a child computes, for longer than to begin."""
    taken = 0
    while taken < 20:  # hundredths of a second
        stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        taken = int(stat[11])
        time.sleep(0.01)
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


def test_a_trial_for_which_there_is_no_descriptor_says_so(monkeypatch: pytest.MonkeyPatch):
    trial = trial_of("y[0] = x[0];")
    before = sorted(os.listdir("/dev/fd"))  # noqa: PTH208  # names are what is compared

    def none_left() -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(tempfile, "TemporaryFile", none_left)
    error = error_of(trial.__enter__, DeviceError)
    assert error.message == "trial: the child process could not begin: Too many open files"
    assert sorted(os.listdir("/dev/fd")) == before  # noqa: PTH208
    cx = ll.Graph()
    (cx.tensor((2,), name="x") * 2).retrieve()
    again = error_of(lambda: cx.compile(ll.CPUCompiler(), check="values"), DeviceError)
    assert again.message == error.message


def test_a_full_disk_is_no_reason_to_try_kernels_in_this_process(monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any, **__: Any) -> Any:
        raise DeviceError("compile: full") from OSError(errno.ENOSPC, "No space left on device")

    trial_build._starts.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(trial_build, "compile_library", full)
        error = error_of(lambda: builds(find_compiler()), DeviceError)
    assert error.message == "trial: the child process could not be built: No space left on device"
    assert builds(find_compiler()) is not None


def test_a_child_that_cannot_begin_says_why(tmp_path: Path):
    trial = trial_of(RIGHT)
    trial.job = replace(trial.job, library=tmp_path / "none.so")
    with trial:
        error = error_of(lambda: prepared(trial).run(0, 1), DeviceError)
    assert error.message.startswith(
        "trial: the child process could not begin: trial: the library cannot be loaded: "
    )


# -- a program's kernels ---------------------------------------------------------------------------

TWICE = """
// kernel twice(x: f32[n]) -> (y: f32[n])
void twice(const float *x, float *y, long n) {
    for (long i = 0; i < n; i++) y[i] = 2 * x[i];
    MORE
}
"""
STRAY = {
    "for (long i = 0; i < 100000; i++) y[n + i] = 1;": "writes y[8], and y has 8 elements",
    "for (long i = 0; i < 100000; i++) y[-1 - i] = 1;": "writes before y",
    "*(int *)0 = 1;": "does what C leaves undefined: store to null pointer of type 'int'",
    "((float *)x)[0] = 1;": "changes its input x",
}


@pytest.mark.parametrize("more", STRAY)
def test_the_check_of_values_survives_a_kernel_that_strays(more: str):
    twice = ll.kernel(TWICE.replace("MORE", more), meaning=lambda x: 2 * x)
    cx = ll.Graph()
    x = cx.tensor((8,), name="x").set(np.arange(8.0))
    (twice(x.exp().graph_break()) + 1).retrieve()
    error: Any = error_of(
        lambda: cx.compile(ll.GenericCompiler(), ll.CPUCompiler(), check="values"), PassError
    )
    head = "pass cpu: what it compiled fails on drawn inputs: kernel twice: it "
    assert error.message in (head + STRAY[more], head + "writes y[-1], and y has 8 elements")
    assert "test_trial.py" in error.where
    assert f"\n> 4 |     {more}\n" in error.where  # as the user has written it
    assert error.hint.endswith(
        "; NumPy's interpreter computes the same graph on them; error.inputs has them"
    )
    assert list(error.inputs) == ["x"]


@pytest.mark.parametrize("threads", [1, 3])
def test_both_ways_give_what_a_run_gives(threads: int):
    cx = ll.Graph()
    x, w = cx.tensor(("n", 40), name="x"), cx.tensor((40, 33), name="w")
    i = cx.tensor(("n", 40), "int64", name="i")
    old = cx.tensor((6, 40), name="old")
    y = (x.softmax(-1) @ w).relu()
    new = cx.carry(old.update(x[:2].contiguous(), 3), old)
    cx.retrieve([y, y.sum(), x.scatter_add(0, i, x), y.layer_norm(-1), new])
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=threads), check="values")
    program: Any = cx.compilation.runner
    rng = np.random.default_rng(0)
    sizes = {"n": 5}
    drawn = {
        "x": rng.standard_normal((5, 40)).astype("f"),
        "w": rng.standard_normal((40, 33)).astype("f"),
        "i": rng.integers(0, 5, (5, 40)),
        "old": rng.standard_normal((6, 40)).astype("f"),
    }
    environment = Environment(lambda node: drawn[node.name].copy(), sizes, 0, {})
    wanted = program.ir.output_ids
    before = {name: array.copy() for name, array in drawn.items()}
    apart, as_is = program.tried(environment, wanted, {})
    mine = program.run(environment, wanted, {})
    for name, array in drawn.items():
        np.testing.assert_array_equal(array, before[name])
    for id in wanted:
        np.testing.assert_array_equal(as_is[id], mine[id])
        np.testing.assert_allclose(apart[id], mine[id], rtol=1e-5, atol=1e-6)


def test_what_numpy_does_lies_between_two_launches():
    cx = ll.Graph()
    x = cx.tensor((8,), name="x")
    y = cx.function(lambda a: a[::-1].copy(), x.exp(), shape=(8,))
    z = (y * 2 + x).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(), check="values")
    data = np.arange(8.0)
    x.set(data)
    cx.execute()
    np.testing.assert_allclose(z.numpy(), np.exp(data)[::-1] * 2 + data, rtol=1e-6)


# -- one kernel ------------------------------------------------------------------------------------


def test_check_kernel_shows_the_line():
    wrong = ll.kernel(TWICE.replace("MORE", "y[n] = 0;"))
    error = error_of(lambda: check_kernel(wrong, np.ones(3)), DefinitionError)
    assert str(error) == (
        "kernel twice: it writes y[3], and y has 3 elements\n"
        "    1 | // kernel twice(x: f32[n]) -> (y: f32[n])\n"
        "    2 | void twice(const float *x, float *y, long n) {\n"
        "    3 |     for (long i = 0; i < n; i++) y[i] = 2 * x[i];\n"
        "  > 4 |     y[n] = 0;\n"
        "    5 | }\n"
        "hint: an index is out of the array; loops end at the dims"
    )


def test_a_kernel_without_an_end_costs_its_limit_alone():
    endless = ll.kernel(TWICE.replace("MORE", "for (volatile int i = 0;; i++) {}"))
    error = error_of(lambda: check_kernel(endless, np.ones(3), seconds=0.3), DefinitionError)
    assert error.message == "kernel twice: it was ended after 0.3 s"
    assert "\n> 4 |     for (volatile int i = 0;; i++) {}\n" in error.where


@pytest.mark.parametrize("when", ["compiling", "running"])
def test_ctrl_c_ends_the_check_of_a_kernel_and_all_that_it_began(when: str, monkeypatch):
    endless = ll.kernel(TWICE.replace("MORE", "for (volatile int i = 0;; i++) {}"))
    processes, compiles = children(), user_check.check_source

    def interrupted(*given: Any) -> None:
        if when == "compiling":
            signal.raise_signal(signal.SIGINT)
        main = threading.main_thread().ident
        threading.Timer(1.0, signal.pthread_kill, [main, signal.SIGINT]).start()
        compiles(*given)

    monkeypatch.setattr(user_check, "check_source", interrupted)
    with pytest.raises(ll.Interrupted) as caught:
        check_kernel(endless, np.ones(3))
    assert str(caught.value).startswith(
        "check_kernel: stopped by Ctrl-C; nothing of kernel twice goes on\n"
    )
    assert "test_trial.py" in str(caught.value.where)
    assert children() == processes


def test_the_check_of_values_waits_a_little_for_a_kernel_without_an_end(monkeypatch):
    assert trials.SECONDS <= 15
    monkeypatch.setattr(trials, "SECONDS", 0.3)
    more = "while (y[0] < 3) { volatile int k = 0; k++; }"
    endless = ll.kernel(
        f"#include <math.h>\n{TWICE}".replace("MORE", more), meaning=lambda x: 2 * x
    )
    cx = ll.Graph()
    endless(cx.tensor((8,), name="x").set(np.zeros(8))).retrieve()
    error: Any = error_of(lambda: cx.compile("cpu", check="values"), PassError)
    assert error.message.endswith("inputs: kernel twice: it was ended after 0.3 s")
    assert f"\n> 6 |     {more}\n" in error.where
    assert error.hint.startswith("a loop may never end; ")
