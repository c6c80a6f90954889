"""Ctrl-C: what holds it off, and that a session goes on wherever it comes."""

import contextlib
import gc
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from signal import SIGINT, default_int_handler, getsignal, raise_signal
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.interrupts import (
    OpenBlocks,
    held,
    is_on_stack,
    look,
    opened,
    terminable,
    write_over,
)
from tests.interrupting import PHASES

ROOT = Path(__file__).parents[1]
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send")
SHARE = 4
"""How many of a phase's lines are tried where not all are."""


# -- held ------------------------------------------------------------------------------------------


def test_what_is_held_off_comes_at_the_end():
    done: list[int] = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012  # what is inside goes on
        with held():
            raise_signal(SIGINT)
            with held():
                raise_signal(SIGINT)
            done.append(1)
        done.append(2)
    assert done == [1]
    assert getsignal(SIGINT) is default_int_handler


def test_it_comes_where_one_looks_and_what_is_unwound_is_held():
    done: list[int] = []

    def work() -> None:
        try:
            look()
            raise_signal(SIGINT)
            done.append(1)
            look()
            done.append(2)
        finally:
            raise_signal(SIGINT)
            done.append(3)

    with pytest.raises(KeyboardInterrupt), held():
        work()
    assert done == [1, 3]


def test_it_breaks_off_what_is_opened_once():
    done: list[int] = []

    def call() -> None:
        try:
            raise_signal(SIGINT)
        finally:
            raise_signal(SIGINT)  # the second only is noted
            done.append(1)

    with pytest.raises(KeyboardInterrupt), held():  # noqa: PT012  # what is inside goes on
        try:
            opened(call)
        finally:
            raise_signal(SIGINT)
            done.append(2)
    assert done == [1, 2]
    opened(lambda: done.append(3))
    assert done == [1, 2, 3]


def test_where_something_is_written_over_the_second_one_counts():
    done: list[int] = []

    def call() -> None:
        raise_signal(SIGINT)
        done.append(2)
        raise_signal(SIGINT)
        done.append(3)

    with pytest.raises(KeyboardInterrupt), held():  # noqa: PT012  # what is inside goes on
        write_over()
        look()
        done.append(1)
        opened(call)
    assert done == [1, 2]


def test_what_runs_within_what_is_opened_holds_it_off_for_itself():
    done: list[int] = []

    def call() -> None:
        with held():
            raise_signal(SIGINT)
            done.append(1)
        done.append(2)

    with pytest.raises(KeyboardInterrupt), held():
        opened(call)
    assert done == [1]


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None], ids=["ignored", "another"])
def test_handlers_that_do_not_raise_stay_as_they_are(handler):
    before = signal.signal(SIGINT, handler)
    try:
        with held():
            raise_signal(SIGINT)
            look()
        assert getsignal(SIGINT) is handler
    finally:
        signal.signal(SIGINT, before)


SLOW = """\
import os, sys
from pathlib import Path
from luminal_lab.devices.build.toolchain import run_program
from luminal_lab.interrupts import terminable
with terminable():
    script = "import os, time; print(os.getpid(), file=open('pid', 'w'), flush=True)"
    script += "; time.sleep(99)"
    try:
        run_program([sys.executable, "-c", script], Path.cwd(), 99)
    except KeyboardInterrupt:
        print("cleaned up", flush=True)
print("goes on", flush=True)
"""


@POSIX
def test_sigterm_ends_what_runs_and_then_the_program(tmp_path: Path):
    command = [sys.executable, "-c", SLOW]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        pid = tmp_path / "pid"
        for _ in range(3000):
            if pid.exists() and pid.read_text().endswith("\n"):
                break
            time.sleep(0.01)
        process.terminate()
        said, _ = process.communicate(timeout=30)
    assert (process.returncode, said) == (-signal.SIGTERM, "cleaned up\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@POSIX
def test_a_sigterm_that_is_ignored_stays_so():
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with terminable():
            raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_hold_nothing_off():
    found: list[object] = []

    def run() -> None:
        with held():
            found.append(opened(lambda: getsignal(SIGINT)))
            look()

    with held():
        handler = getsignal(SIGINT)
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert found == [handler]


def test_a_frame_is_on_the_stack_of_any_thread():
    go, gone, frames = threading.Event(), threading.Event(), []

    def run() -> None:
        frames.append(sys._getframe())
        go.set()
        gone.wait(10)

    thread = threading.Thread(target=run)
    thread.start()
    go.wait(10)
    assert is_on_stack(frames[0])
    gone.set()
    thread.join()
    assert not is_on_stack(frames[0])


def test_blocks_end_with_their_frames_unless_these_only_wait():
    blocks: OpenBlocks[str] = OpenBlocks()

    def begin() -> None:
        blocks.begin(1, sys._getframe(), "before one")
        blocks.begin(2, sys._getframe(), "before two")

    def wait() -> Iterator[None]:
        blocks.begin(3, sys._getframe(), "before three")
        yield

    begin()
    assert blocks.end_dead() == "before one"
    assert not blocks
    waiting = wait()
    next(waiting)
    assert blocks.end_dead() is None
    assert blocks.end(3) == "before three"


# -- scopes ----------------------------------------------------------------------------------------


def test_scopes_are_entered_in_every_way_that_contexts_are():
    cx = ll.Graph()
    x = cx.tensor((2,), name="x")

    @contextlib.contextmanager
    def within() -> Iterator[None]:
        with cx.scope("generated"):
            yield

    class Within:
        def __enter__(self) -> None:
            self.scope = cx.scope("by_class")
            self.scope.__enter__()

        def __exit__(self, *error: object) -> None:
            self.scope.__exit__(*error)

    with within():
        assert (x * 2).node.meta.scope == "generated"
    with Within(), contextlib.ExitStack() as stack:
        assert (x * 2).node.meta.scope == "by_class"
        stack.enter_context(cx.scope("stacked"))
        assert (x * 2).node.meta.scope == "by_class.stacked"
    assert (x * 2).node.meta.scope == ""


# -- each line -------------------------------------------------------------------------------------


@POSIX
@pytest.mark.share("phase", PHASES, 5)
def test_a_session_goes_on_at_whichever_line_it_is_interrupted(phase: str, long: bool, seed: int):
    command = [sys.executable, "-m", "tests.interrupting", phase, str(seed)]
    command += [] if long else [str(SHARE)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    found = json.loads(done.stdout)
    assert found["failures"] == {}
    assert found["tried"] >= (found["lines"] if long else SHARE)
    assert len(found["missed"]) <= max(2, found["tried"] // 50), found["missed"]


PLANTED = """if True:
    import inspect, sys, tempfile
    from pathlib import Path
    from luminal_lab.tensor.store import Store
    from tests import interrupting

    class Careless:  # holds nothing off
        def __enter__(self): return self
        def __exit__(self, *error): pass

    sys.modules["luminal_lab.tensor.store"].held = Careless
    lines, first = inspect.getsourcelines(Store._execute)
    file = inspect.getsourcefile(Store._execute)
    own = {(file, first + place) for place in range(len(lines))}
    lines_of = interrupting.lines_of
    interrupting.lines_of = lambda act: {
        key: times for key, times in lines_of(act).items() if key in own
    }
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        found = interrupting.sweep("interpret", None, None, Path(root))
    print(*found["failures"].values(), sep="\\n")
"""


@POSIX
def test_a_run_that_holds_nothing_off_is_caught():
    done = subprocess.run(
        [sys.executable, "-c", PLANTED], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "[1, 1, 1, 1] after 2 runs" in done.stdout, done.stderr


# -- at any moment ---------------------------------------------------------------------------------

CHILD = """
import json, signal, sys, tempfile, warnings
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)
warnings.simplefilter("ignore")
from luminal_lab.devices.build import cache
from tests.interrupting import *
with tempfile.TemporaryDirectory() as root:
    (Path(root) / "temporary").mkdir()
    tempfile.tempdir = str(Path(root) / "temporary")
    cache.user_folder = lambda: Path(root) / "libraries"
    sys.unraisablehook = lambda _: None
    written, rounds, interrupts = compiled(Path(root)), 0, 0
    print("ready", flush=True)
    while True:
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            while True:
                written.x.set(DATA + rounds % 7)
                written.cx.execute()
                if rounds % 16 == 0:
                    written.cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=2))
                rounds += 1
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        interrupts += 1
        sound()
        compiles(written)
        print(interrupts, flush=True)
        if interrupts == INTERRUPTS:
            break
"""


@POSIX
def test_a_session_goes_on_at_whatever_moment_it_is_interrupted(long: bool, seed: int):
    interrupts = 200 if long else 5
    rng = random.Random(seed)
    script = CHILD.replace("INTERRUPTS", str(interrupts))
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for place in range(interrupts):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(rng.uniform(0, 0.2))
            process.send_signal(SIGINT)
            assert process.stdout.readline() == f"{place + 1}\n"
        assert process.wait(60) == 0


def test_a_run_that_was_over_says_so():
    cx = ll.Graph()
    state = cx.tensor((4,), name="state").set([0] * 4)
    new = cx.carry(state + 1, state)
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())

    class Late(dict[int, int]):
        def values(self) -> Any:  # they are asked for where values are kept
            raise_signal(SIGINT)
            return super().values()

    cx._carries = Late(cx._carries)
    gc.collect()
    with pytest.raises(ll.Interrupted) as caught:
        cx.execute()
    cx._carries = dict(cx._carries)
    assert str(caught.value).startswith(
        "execute: Ctrl-C came too late: the run is over, and its values are kept\n"
    )
    assert new.tolist() == [1] * 4
    cx.execute()
    assert (new.tolist(), cx.step) == ([2] * 4, 2)
    assert os.getpid() not in cx._turns
