"""Interrupt a session at each line that something reaches, and see whether it works afterwards.

    python -m tests.interrupting PHASE [SEED [COUNT]]

Which lines there are, a first run tells. For each of them a fork of this process does the same, is
sent a real SIGINT when it reaches the line for the first time, and then has to go on in the same
session. With a SEED it is sent at a later time, too, which is drawn; a COUNT of all these are
tried.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

import luminal_lab as ll
from luminal_lab.core.verify import verify
from luminal_lab.devices.build import cache, toolchain
from luminal_lab.emulator import Call, emulate
from luminal_lab.progress import _OUTERMOST, progress
from tests.kept import entries

OURS = str(Path(ll.__file__).parent) + os.sep
TRACED = contextlib.__file__, subprocess.__file__, threading.__file__
PATIENCE = 60.0
"""The seconds that a fork may take."""
KEPT: list[BaseException] = []
"""What was raised last, with all frames that it went through: notebooks keep it, too."""
DATA = np.arange(24, dtype=np.float32).reshape(4, 6) / 8


class Line(NamedTuple):
    """A line of some file, and the how-manieth time that it is reached."""

    file: str
    number: int
    time: int = 1

    def __str__(self) -> str:
        return f"{self.file.removeprefix(OURS)}:{self.number} #{self.time}"


class Phase(NamedTuple):
    """What is interrupted: how it is prepared, done, and looked at afterwards."""

    prepare: Callable[[Path], Any]
    act: Callable[[Any], object]
    check: Callable[[Any], object]
    beyond: str = ""
    """The phase whose lines are left out, and that is prepared in the same way."""


# -- tracing ---------------------------------------------------------------------------------------


def is_traced(frame: FrameType) -> bool:
    """Return whether lines of a frame count: ours, and those of what runs for ours."""
    file = frame.f_code.co_filename
    if file in TRACED:
        outer = frame.f_back
        while outer is not None and outer.f_code.co_filename in TRACED:
            outer = outer.f_back
        return outer is not None and outer.f_code.co_filename.startswith(OURS)
    # What is loaded when it is first needed was loaded by the run before.
    return file.startswith(OURS) and frame.f_code.co_name != "<module>"


def lines_of(act: Callable[[], object]) -> Counter[tuple[str, int]]:
    """Return the lines that are reached, in their order, and how often."""
    found: Counter[tuple[str, int]] = Counter()

    def local(frame: FrameType, event: str, arg: object) -> Any:
        if event == "line":
            found[frame.f_code.co_filename, frame.f_lineno] += 1
        return local

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        return local if is_traced(frame) else None

    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(None)
    return found


def interrupted_at(line: Line, act: Callable[[], object]) -> bool:
    """Do something, and have SIGINT come at a line; return whether that was reached."""
    left = line.time

    def local(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal left
        if event == "line" and frame.f_lineno == line.number and left:
            left -= 1
            if not left:
                signal.raise_signal(signal.SIGINT)
        return local

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        return local if frame.f_code.co_filename == line.file and is_traced(frame) else None

    sys.settrace(trace)
    try:
        act()
    except KeyboardInterrupt as error:
        KEPT.append(error)
    finally:
        sys.settrace(None)
    return not left


# -- a case ----------------------------------------------------------------------------------------


def sound() -> None:
    """Raise unless this process is as it was: handlers, the collector, threads, children."""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, "the handler is another"
    assert gc.isenabled(), "the collector is off"
    for _ in range(100):
        if threading.active_count() == 1:
            break
        time.sleep(0.01)
    assert threading.active_count() == 1, threading.enumerate()
    with contextlib.suppress(ChildProcessError):
        assert os.waitpid(-1, os.WNOHANG) != (0, 0), "a child is still running"
        raise AssertionError("a child was not waited for")
    with progress("another") as bar:  # what was broken off has no bar any more
        assert _OUTERMOST.get() in (None, bar)
    gc.collect()
    left = [path.name for path in Path(tempfile.gettempdir()).iterdir()]
    assert not left, f"temporary files are left: {left}"
    folder = cache.user_folder()
    assert folder is not None
    drafts = [path.name for path in folder.glob(f"{cache.DRAFT}*")]
    assert not drafts, f"drafts are left: {drafts}"
    damaged = [entry for entry in entries() if entry.fault]
    assert not damaged, f"entries are damaged: {damaged}"


def case(phase: Phase, line: Line, subject: object) -> str:
    """Return what becomes of a case: nothing, if all goes on, or what went wrong."""
    if not interrupted_at(line, lambda: phase.act(subject)):
        return "not reached"
    sound()
    phase.check(subject)
    sound()
    return ""


def forked(work: Callable[[], str]) -> str:
    """Return what some work says in a fork of this process."""
    reading, writing = os.pipe()
    with warnings.catch_warnings(action="ignore"):
        child = os.fork()
    if not child:
        os.close(reading)
        try:
            said = work()
        except BaseException:
            said = traceback.format_exc()
        os.write(writing, said.encode()[-60_000:])
        os._exit(0)
    os.close(writing)
    said, end = b"", time.monotonic() + PATIENCE
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, end - time.monotonic()))
        part = os.read(reading, 1 << 16) if ready else b"it hangs"
        said += part
        if not part or not ready:
            break
    os.close(reading)
    if not ready:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return said.decode() or (f"it ended with {status}" if status else "")


# -- the phases ------------------------------------------------------------------------------------


class Written(NamedTuple):
    """A session, what it is given, what it computes, and where files may lie."""

    cx: ll.Graph
    x: ll.Tensor
    y: ll.Tensor
    count: ll.Tensor
    folder: Path


def write(cx: ll.Graph, folder: Path) -> Written:
    """Write something of everything, all of which runs."""
    x = cx.tensor(("rows", 6), name="x").set(DATA)
    with cx.scope("part"):
        h = ((x * 3).sin().softmax(-1) + cx.rand(1, 6) * 0).named("h")
    y = ll.nn.ReLU()(h @ cx.ones((6, 2))) + cx.function(np.negative, x[:, :2], shape=("rows", 2))
    y.retrieve()
    h.keep()
    state = cx.tensor((4,), "int64", name="count").set(np.zeros(4, np.int64))
    count = cx.carry(state + 1, state)
    cx.retrieve([y, count])
    return Written(cx, x, y, count, folder)


def right(written: Written) -> np.ndarray:
    """Return what y is, for what x is now."""
    return np.ones((4, 2)) - written.x.numpy()[:, :2]


def runs(written: Written, data: np.ndarray = DATA + 1) -> None:
    """Raise unless a session that was written as a whole still runs and counts."""
    cx, x, y, count, _ = written
    assert not cx.running
    before = cx.step
    x.set(data)
    cx.execute()
    assert cx.step == before + 1
    np.testing.assert_allclose(y.numpy(), right(written), rtol=1e-5, atol=1e-5)
    assert count.tolist() == [cx.step] * 4, f"{count.tolist()} after {cx.step} runs"
    z = (y * 2).retrieve()
    assert "." not in z.node.meta.scope, "a scope goes on"
    assert z.node.meta.scope == "", f"the scope {z.node.meta.scope} goes on"
    cx.execute()
    np.testing.assert_allclose(z.numpy(), 2 * right(written), rtol=1e-5, atol=1e-5)
    assert len(set(cx.ir.names)) == len(cx.ir)
    verify(cx.ir)


def compiles(written: Written) -> None:
    """Raise unless a session runs as it is, and compiles and runs."""
    runs(written)
    written.cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=2))
    runs(written, DATA + 2)


def prepared(folder: Path) -> Written:
    return write(ll.Graph(), folder)


def compiled(folder: Path) -> Written:
    written = prepared(folder)
    written.cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=2))
    return written


def launching(_: Path) -> tuple[ll.Graph, ll.Tensor, ll.Tensor]:
    """Write something whose run only launches kernels."""
    cx = ll.Graph()
    x = cx.tensor((4, 6), name="x").set(DATA)
    y = (x * 2 - 1).softmax(-1).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=2))
    return cx, x, y


def launch_again(subject: tuple[ll.Graph, ll.Tensor, ll.Tensor]) -> None:
    cx, x, _ = subject
    x.set(DATA + 3)
    cx.execute()


def launches_right(subject: tuple[ll.Graph, ll.Tensor, ll.Tensor]) -> None:
    cx, x, y = subject
    for added in (1, 2):
        before = cx.step
        x.set(DATA + added)
        cx.execute()
        assert cx.step == before + 1
        exponents = np.exp(2 * (DATA + added) - 1)
        right = exponents / exponents.sum(-1, keepdims=True)
        np.testing.assert_allclose(y.numpy(), right, rtol=1e-4, atol=1e-5)


def emulated(folder: Path) -> Written:
    written = prepared(folder)
    written.cx.compile(ll.GenericCompiler(), ll.CUDACompiler(emulate=True))
    return written


def once(written: Written) -> Written:
    written.cx.execute()
    return written


def empty(folder: Path) -> tuple[ll.Graph, Path]:
    return ll.Graph(), folder


def write_more(subject: tuple[ll.Graph, Path]) -> None:
    write(*subject)


def written_again(subject: tuple[ll.Graph, Path]) -> None:
    runs(write(*subject))


def with_loss(folder: Path) -> tuple[Written, ll.Tensor, ll.Tensor]:
    written = prepared(folder)
    w = written.cx.tensor((6, 3), name="w").set(np.ones((6, 3)))
    return written, (written.x @ w).square().sum().named("loss").retrieve(), w


def derive(subject: tuple[Written, ll.Tensor, ll.Tensor]) -> None:
    _, loss, w = subject
    loss.backward()
    ll.nn.SGD(lr=0.125).minimise(loss, {"w": w})


def derived(subject: tuple[Written, ll.Tensor, ll.Tensor]) -> None:
    written, loss, w = subject
    for one in written.cx.gradients:
        assert str(one)
    slope = ll.grad(loss, w).retrieve()
    loss.backward()
    total = w.grad.retrieve()
    written.cx.execute()
    expected = 2 * DATA.T @ (DATA @ np.ones((6, 3)))
    np.testing.assert_allclose(slope.numpy(), expected, rtol=1e-5, atol=1e-5)
    assert np.allclose(total.numpy(), expected, rtol=1e-5, atol=1e-5)
    runs(written)


def timed(written: Written) -> None:
    step, values = written.cx.step, written.y.numpy().copy()
    np.testing.assert_array_equal(written.y.numpy(), values)
    assert written.cx.step == step
    runs(written)


def to_save(folder: Path) -> Written:
    written = compiled(folder)
    (folder / "saved").mkdir(exist_ok=True)
    written.cx.save(folder / "saved" / "run.lab")
    return written


def saved(written: Written) -> None:
    path = written.folder / "saved" / "run.lab"
    assert [one.name for one in path.parent.iterdir()] == ["run.lab"]
    assert len(ll.open(path)) == 1
    written.cx.save(path)
    assert len(ll.open(path)) == 1
    runs(written)


SOURCE = """
extern "C" __global__ void twice(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""


def to_emulate(_: Path) -> list[np.ndarray]:
    return [DATA.copy().ravel(), np.zeros(24, np.float32)]


def emulating(arrays: list[np.ndarray]) -> None:
    emulate(SOURCE, "cuda", [Call("twice", 4, 8, [*arrays, 24])], trace=True)


def has_emulated(arrays: list[np.ndarray]) -> None:
    x, y = arrays
    assert (y == 0).all() or (y == 2 * x).all(), "half of it is done"
    emulating(arrays)
    assert (y == 2 * x).all()


def build(_: object) -> Path:
    source = f"float twice(float x) {{ return 2 * x; }} // {os.getpid()}\n"
    return toolchain.compile_library(source, toolchain.find_compiler(), entries=["twice"])


APART = ll.kernel(
    """// kernel twice(x: f32[n]) -> (y: f32[n])
    void twice(const float *x, float *y, long n) {
        for (long i = 0; i < n; i++) y[i] = 2 * x[i];
    }""",
    meaning=lambda x: 2 * x,
)


def files() -> int:
    return len([*Path("/dev/fd").iterdir()])


def in_a_child(_: int) -> None:
    ll.devices.check_kernel(APART, DATA.ravel())


def has_no_child(before: int) -> None:
    KEPT.clear()  # what the child shared lives as long as an array of it
    assert files() <= before, "files are open"
    in_a_child(before)


PHASES = {
    "build": Phase(empty, write_more, written_again),
    "derive": Phase(with_loss, derive, derived),
    "compile": Phase(
        prepared,
        lambda w: w.cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=2)),
        compiles,
    ),
    "check": Phase(
        prepared,
        lambda w: w.cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=2), check="values"),
        compiles,
        "compile",
    ),
    "interpret": Phase(prepared, lambda w: w.cx.execute(), compiles),
    "execute": Phase(compiled, lambda w: w.cx.execute(), compiles),
    "again": Phase(
        lambda folder: once(compiled(folder)), lambda w: w.x.set(DATA + 3).graph.execute(), compiles
    ),
    "straight": Phase(launching, launch_again, launches_right),
    "gpu": Phase(emulated, lambda w: w.cx.execute(), runs),
    "time": Phase(lambda folder: once(compiled(folder)), lambda w: w.cx.time(rounds=2), timed),
    "save": Phase(to_save, lambda w: w.cx.save(w.folder / "saved" / "run.lab"), saved),
    "emulate": Phase(to_emulate, emulating, has_emulated),
    "toolchain": Phase(lambda _: None, build, build),
    "apart": Phase(lambda _: files() + 1, in_a_child, has_no_child),  # the sweep's pipe is one
}  # fmt: skip


# -- all of it -------------------------------------------------------------------------------------


def sweep(name: str, seed: int | None, count: int | None, root: Path) -> dict[str, Any]:
    """Return how many lines there are and were tried, and what went wrong at which."""
    phase = PHASES[name]
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    cache.user_folder = lambda: root / "libraries"
    (root / "temporary").mkdir()
    tempfile.tempdir = str(root / "temporary")
    sys.unraisablehook = lambda _: None  # what comes while what is dead goes is lost

    subject = phase.prepare(root)
    phase.act(subject)  # so that all is loaded and known
    phase.check(subject)
    subject = phase.prepare(root)
    gc.collect()
    gc.freeze()
    path = root / "lines"

    def look(phase: Phase) -> str:
        found = lines_of(lambda: phase.act(subject))
        path.write_text(json.dumps([[*key, times] for key, times in found.items()]))
        return ""

    fault = forked(lambda: look(phase))
    assert not fault, fault
    rng = random.Random(f"{seed} {name}")
    cases: list[Line] = []
    lines = json.loads(path.read_text())
    if phase.beyond:  # what another phase reaches is tried there
        again = PHASES[phase.beyond]
        assert not forked(lambda: look(again))
        known = {(file, number) for file, number, _ in json.loads(path.read_text())}
        lines = [one for one in lines if tuple(one[:2]) not in known]
    for file, number, times in lines:
        cases.append(Line(file, number))
        if times > 1 and seed is not None:
            cases.append(Line(file, number, rng.randint(2, times)))
    if count is not None and count < len(cases):
        cases = [cases[place] for place in sorted(rng.sample(range(len(cases)), count))]
    failures: dict[str, str] = {}
    missed: list[str] = []
    for line in cases:
        said = forked(partial(case, phase, line, subject))
        if said == "not reached":
            missed.append(str(line))
        elif said:
            failures[str(line)] = said
    return {
        "lines": len(lines),
        "tried": len(cases),
        "missed": missed,
        "failures": failures,
    }


def main() -> None:
    name, *rest = sys.argv[1:]
    seed, count, *_ = (*map(int, rest), None, None)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        print(json.dumps(sweep(name, seed, count, Path(root)), indent=1))


if __name__ == "__main__":
    main()
