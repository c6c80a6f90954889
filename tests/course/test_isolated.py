"""Hold the limits: whatever an answer does, a sentence comes back and nothing else."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.course import isolated as module, refusals
from luminal_lab.course.exercise import Verdict
from luminal_lab.course.isolated import CallLimits, decoded, encoded, ended, is_inside, isolated
from tests.processes import children

QUICK, LONG = CallLimits(0.5), CallLimits(30)
FORKS = pytest.mark.skipif(not module.CAN_FORK, reason="this platform has no fork")


def said(call: Callable[[], object], limits: CallLimits = LONG, kept: Path | None = None) -> str:
    """What is said of an answer that does something before it is right."""

    def run() -> Verdict:
        call()
        return Verdict(True, ("right: it came to its end",))

    verdict = isolated(run, limits, kept)
    assert len(verdict.said) == 1
    assert verdict.right == verdict.said[0].startswith("right: ")
    return verdict.said[0]


def forever() -> None:
    while True:
        pass


def forking() -> None:
    while True:
        os.fork()


def endless() -> None:
    endless()


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


@FORKS
@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: None, "right: it came to its end"),
        (forever, "not yet: the answer was stopped after 0.5 s"),
        (forking, "not yet: the answer started a process, which it may not"),
        (
            lambda: subprocess.run([sys.executable, "-c", ""], check=True),
            "not yet: the answer started a program, which it may not",
        ),
        (
            lambda: os.kill(os.getppid(), signal.SIGTERM),
            "not yet: the answer sent a signal to another process, which it may not",
        ),
        (
            lambda: socket.create_connection(("127.0.0.1", 9)),
            "not yet: the answer asked for the network, which it may not",
        ),
        (lambda: os.system("true"), "not yet: the answer started a process, which it may not"),
        (
            lambda: np.ones(100 << 30, np.uint8),
            "not yet: the answer needs more than 2,048 MB of memory",
        ),
        (sys.exit, "not yet: the answer ended Python, by sys.exit() or exit()"),
        (lambda: os._exit(0), "not yet: the answer ended its process, as os._exit() does"),
        (
            lambda: input(),  # the one that is there by then
            "not yet: the answer asked for something to be typed, by input(), which nobody can do "
            "here",
        ),
        (crash, "not yet: the answer crashed Python (SIGSEGV)"),
        (endless, "not yet: the answer calls itself without an end"),
        (lambda: {}["a"], "not yet: the answer could not be checked, for KeyError: 'a'"),
    ],
)
def test_whatever_an_answer_does_there_is_a_sentence(call: Callable[[], object], sentence: str):
    assert said(call, QUICK if call is forever else LONG) == sentence


@FORKS
def test_the_file_of_progress_cannot_be_written_or_removed(tmp_path: Path):
    path = tmp_path / "progress.json"
    path.write_text("mine")
    assert said(lambda: path.write_text("x"), kept=tmp_path) == (
        "not yet: the answer changed the file of your progress, which it may not"
    )
    assert said(lambda: path.rename(tmp_path.parent / "away"), kept=tmp_path) == (
        "not yet: the answer changed the file of your progress, which it may not"
    )
    assert said(path.unlink, kept=tmp_path).startswith("not yet: ")
    assert said(path.read_text, kept=tmp_path).startswith("right: ")
    assert path.read_text() == "mine"


@FORKS
def test_files_that_are_not_temporary_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    mine = tmp_path / "mine"
    (mine / "folder").mkdir(parents=True)
    (mine / "a").write_text("mine")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(refusals, "temporary_folder", lambda: tmp_path / "temporary")

    def of_its_own() -> None:
        (tmp_path / "temporary" / "a").write_text("x")
        with TemporaryDirectory(dir=tmp_path / "temporary") as folder:
            (Path(folder) / "b").write_text("x")

    assert said(of_its_own).startswith("right: ")
    for call in (
        lambda: (mine / "a").write_text("x"),
        lambda: (mine / "a").unlink(),
        lambda: (mine / "a").rename(tmp_path / "temporary" / "c"),
        lambda: (mine / "new").mkdir(),
        lambda: os.truncate(mine / "a", 0),
        lambda: os.remove("a", dir_fd=os.open(mine, os.O_RDONLY)),
        lambda: shutil.rmtree(mine),
    ):
        assert "PermissionError: [Errno 13] an answer may change temporary files" in said(call)
    assert (mine / "a").read_text() == "mine"
    assert (mine / "folder").is_dir()


@FORKS
def test_nothing_that_is_changed_comes_back(capfd: pytest.CaptureFixture[str]):
    cx = ll.Graph()
    x = cx.tensor((3,), name="x").set([1.0, 2.0, 3.0])
    before = str(cx)

    def change() -> None:
        (x * 2).retrieve()
        print("printed")
        os.write(1, b"written")

    assert said(change).startswith("right: ")
    assert str(cx) == before
    assert capfd.readouterr() == ("", "")


@FORKS
def test_a_device_may_start_its_compiler():
    def compile_and_run() -> None:
        cx = ll.Graph()
        x = cx.tensor((5,), name="x").set(range(5))
        y = (x * 3.25 + 1.5).sin().retrieve()
        cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
        cx.execute()
        assert y.shape == (5,)

    assert said(compile_and_run, CallLimits(30)).startswith("right: ")


@FORKS
def test_a_pool_of_threads_of_the_kernel_does_not_hold_a_check_up():
    cx = ll.Graph()
    x = cx.tensor((1 << 16,), name="x").set(np.ones(1 << 16))
    y = (x * 2).exp2().retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    cx.execute()

    def again() -> None:
        x.set(np.zeros(1 << 16))
        cx.execute()
        assert y.numpy()[0] == 1.0

    assert said(again, CallLimits(20)).startswith("right: ")


@FORKS
def test_ctrl_c_ends_the_answer_and_reaches_the_one_who_pressed_it():
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        isolated(lambda: forever() or Verdict(True), CallLimits(30))
    assert time.monotonic() - begun < 10


@FORKS
def test_no_process_and_no_stream_is_left():
    others = children()
    before = len(list(Path("/proc/self/fd").iterdir())) if sys.platform == "linux" else 0
    for _ in range(3):
        said(lambda: None)
    after = len(list(Path("/proc/self/fd").iterdir())) if sys.platform == "linux" else 0
    assert after == before
    assert children() <= others


def test_only_what_carries_the_token_is_a_verdict():
    verdict = Verdict(True, ("right: \udc80 ✓",), "a")
    assert decoded(encoded(verdict, "t"), "t") == Verdict(True, ("right: ? ✓",), "a")
    assert decoded(encoded(verdict, "t"), "u") is None
    assert decoded(b'{"right": true, "said": [], "hint": ""}', "t") is None
    assert decoded(b"[]", "t") is None
    assert decoded(b"", "t") is None


def test_how_a_process_ended_is_told():
    killed = "not yet: the answer was ended by the system, for it took too much memory or time"
    assert ended(-9).said == (killed,)
    assert ended(3).said == ("not yet: the answer ended its process, as os._exit() does",)


@pytest.fixture
def threaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A platform that has no fork."""
    monkeypatch.setattr(module, "CAN_FORK", False)


@pytest.mark.usefixtures("threaded")
def test_without_fork_a_thread_has_a_time_limit():
    assert said(lambda: None) == "right: it came to its end"
    assert said(sys.exit) == "not yet: the answer ended Python, by sys.exit() or exit()"
    assert said(lambda: os._exit(0)).startswith("not yet: the answer ended Python")
    assert said(lambda: input()).startswith("not yet: the answer asked for something to be typed")
    assert said(forever, QUICK) == "not yet: the answer was stopped after 0.5 s"
    assert not is_inside()


@pytest.mark.usefixtures("threaded")
def test_without_threads_a_check_is_a_call(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(module.threading.Thread, "start", refuse)
    assert said(lambda: None) == "right: it came to its end"
