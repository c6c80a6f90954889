"""A call in a process of its own, with limits on time and memory, which returns a verdict.

On Linux and macOS the process is forked, so that it has all that the caller has, even a notebook's
functions, and its changes stay its own. It may start no processes but the compilers of devices, and
may not use the network, read input, or change files that are not temporary. That holds for Python:
it stops accidents and the curious, not machine code.

Elsewhere the call runs in a thread, which is told to stop when its time is over: memory is not
limited, and changes stay. A browser has neither threads nor limits.
"""

from __future__ import annotations

import builtins
import ctypes
import io
import json
import os
import secrets
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

from luminal_lab.course.exercise import Verdict, error_text
from luminal_lab.course.refusals import Refused, refuse
from luminal_lab.reading import read_json

MEGABYTE = 1 << 20
CAN_FORK = hasattr(os, "fork") and sys.platform not in ("emscripten", "wasi")


@dataclass(frozen=True, slots=True)
class CallLimits:
    """The most time and additional memory that a call may take."""

    seconds: float = 20.0
    memory: int = 2048 * MEGABYTE

    def __str__(self) -> str:
        return f"{self.seconds:g} s and {self.memory // MEGABYTE:,} MB"


class _State:
    """Whether an isolated call runs in this process or thread."""

    inside = False


def is_inside() -> bool:
    """Return whether an isolated call is running here."""
    return _State.inside


def isolated(
    call: Callable[[], Verdict],
    limits: CallLimits | None = None,
    kept: Path | None = None,
    *,
    forks: bool = True,
) -> Verdict:
    """Return the verdict of an isolated call; there is one whatever it does.

    `kept` is the folder that it may not write to. Without `forks` it runs in a thread, as it does
    where no process can be forked.
    """
    limits = limits or CallLimits()
    if CAN_FORK and forks:
        return _forked(call, limits, kept)
    return _threaded(call, limits)


def judged(call: Callable[[], Verdict], limits: CallLimits) -> Verdict:
    """Return the verdict of a call, or one about the error that ended it."""
    try:
        verdict = cast("object", call())
    except MemoryError:
        return Verdict.no(
            f"the answer needs more than {limits.memory // MEGABYTE:,} MB of memory",
            "try it on something smaller: is a shape larger than you meant?",
        )
    except RecursionError:
        return Verdict.no("the answer calls itself without an end", "which call is the last one?")
    except SystemExit:
        return Verdict.no("the answer ended Python, by sys.exit() or exit()", "return instead")
    except KeyboardInterrupt:
        return Verdict.no("the answer was interrupted")
    except Refused as error:
        return Verdict.no(f"the answer {error}", "an answer computes, and leaves the rest alone")
    except BaseException as error:  # of whatever a student's code makes
        return Verdict.no(f"the answer could not be checked, for {error_text(error)}")
    if not isinstance(verdict, Verdict):
        return Verdict.no(f"the check returned {type(verdict).__name__}, and no verdict")
    return verdict


def encoded(verdict: Verdict, token: str) -> bytes:
    """Return a verdict as bytes, to be sent from another process."""
    said = [text.encode("utf-8", "replace").decode() for text in verdict.said]
    return json.dumps({**asdict(verdict), "said": said, "token": token}).encode()


def decoded(data: bytes, token: str) -> Verdict | None:
    """Return the verdict received; None if there is none or the token is wrong."""
    try:
        document = cast("dict[str, object]", read_json(data))
        if document["token"] != token:
            return None
        said = tuple(map(str, cast("list[object]", document["said"])))
        return Verdict(document["right"] is True, said, str(document["hint"]))
    except (ValueError, KeyError, TypeError):
        return None


def too_long(limits: CallLimits) -> Verdict:
    """Return the verdict on an answer that took too long."""
    return Verdict.no(
        f"the answer was stopped after {limits.seconds:g} s",
        "is there a loop that does not end, or a size larger than you meant?",
    )


# -- a process of its own ------------------------------------------------------------------------


def _forked(call: Callable[[], Verdict], limits: CallLimits, kept: Path | None) -> Verdict:
    token = secrets.token_hex(16)
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Threads are not forked: the child starts those that it needs. An answer that waits for
        # JAX's there is ended by its limit.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        child = os.fork()
    if not child:
        _in_child(call, limits, kept, writing, token)
    os.close(writing)
    try:
        data, in_time = _read(reading, time.monotonic() + limits.seconds)
    finally:
        os.close(reading)
        _end(child)
        _, status = os.waitpid(child, 0)
    if not in_time:
        return too_long(limits)
    return decoded(data, token) or ended(os.waitstatus_to_exitcode(status))


def ended(code: int) -> Verdict:
    """Return the verdict on an answer that ended its process."""
    if code in (-signal.SIGKILL, -signal.SIGXCPU):
        return Verdict.no("the answer was ended by the system, for it took too much memory or time")
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return Verdict.no(f"the answer crashed Python ({name})", "a kernel that writes elsewhere?")
    return Verdict.no("the answer ended its process, as os._exit() does", "return instead")


def _end(child: int) -> None:
    """End a process and those of its group."""
    for end in (os.killpg, os.kill):
        with suppress(OSError):
            end(child, signal.SIGKILL)


def _read(stream: int, until: float) -> tuple[bytes, bool]:
    """Return all data until the other end closes, and whether that was in time."""
    data = b""
    while (left := until - time.monotonic()) > 0:
        if not select.select([stream], [], [], left)[0]:
            break
        part = os.read(stream, 1 << 16)
        if not part or len(data) > MEGABYTE:
            return data, True
        data += part
    return data, False


def _in_child(
    call: Callable[[], Verdict], limits: CallLimits, kept: Path | None, writing: int, token: str
) -> NoReturn:
    leave = os._exit  # a student's code may rebind it
    code = 70
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this
        _leave_kernel()
        _close_others(writing)
        verdict = bounded(call, limits, kept)
        data = encoded(verdict, token)
        while data:
            data = data[os.write(writing, data) :]
        code = 0
    finally:
        leave(code)


def bounded(call: Callable[[], Verdict], limits: CallLimits, kept: Path | None) -> Verdict:
    """Return the verdict of a call in this process, which the limits bind from now on."""
    _State.inside = True
    _limit(limits)
    refuse(kept)
    with _quiet():
        return judged(call, limits)


def _leave_kernel() -> None:
    """Detach from the notebook's kernel, whose sockets would show output."""
    ipython = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    if shell is not None:
        shell.clear_instance()


def _close_others(writing: int) -> None:
    """Close all but the answer's pipe: a kernel's sockets, the caller's files."""
    empty = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(empty, stream)
    os.closerange(3, writing)
    os.closerange(writing + 1, 1 << 16)


def _limit(limits: CallLimits) -> None:
    try:
        import resource  # noqa: PLC0415  # Windows has none
    except ImportError:
        return

    def bound(kind: int, value: int) -> None:
        _, hard = resource.getrlimit(kind)
        # Systems differ in the limits they enforce; time is also limited from outside.
        with suppress(ValueError, OSError):
            most = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (most, hard))

    bound(resource.RLIMIT_AS, _addresses() + limits.memory)
    used = resource.getrusage(resource.RUSAGE_SELF)
    # Two cores are enough for any answer; more are stopped from outside.
    bound(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + 16 * limits.seconds) + 1)
    bound(resource.RLIMIT_CORE, 0)
    bound(resource.RLIMIT_FSIZE, 256 * MEGABYTE)


def _addresses() -> int:
    """Return the size of this process's address space, or a guess where it is unknown."""
    try:
        pages = int(Path("/proc/self/statm").read_text("utf-8").split()[0])
    except (OSError, ValueError, IndexError):
        return 1 << 40
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def _quiet() -> Generator[None]:
    """Suppress output and input during a check."""

    def nobody(*_: object) -> NoReturn:
        raise Refused("asked for something to be typed, by input(), which nobody can do here")

    before = builtins.input
    builtins.input = nobody
    try:
        with redirect_stdout(_Nowhere()), redirect_stderr(_Nowhere()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        builtins.input = before


class _Nowhere(io.TextIOBase):
    """A stream that discards everything."""

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        return len(text)


# -- a thread ------------------------------------------------------------------------------------


class _Stopped(BaseException):
    """Raised in a thread when its time is over."""


def _threaded(call: Callable[[], Verdict], limits: CallLimits) -> Verdict:
    """Return the verdict of a call in a thread with a time limit, or called directly."""
    verdicts: list[Verdict] = []

    def leave(_: int) -> NoReturn:
        raise SystemExit

    def run() -> None:
        verdicts.append(judged(call, limits))

    before = os._exit
    _State.inside, os._exit = True, leave
    try:
        with _quiet():
            thread = threading.Thread(target=run, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # a browser has no threads
                run()
            else:
                thread.join(limits.seconds)
                if thread.is_alive():
                    number = ctypes.c_ulong(thread.ident or 0)
                    stop = ctypes.py_object(_Stopped)
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(number, stop)
                    thread.join(1.0)
                    return too_long(limits)
    finally:
        _State.inside, os._exit = False, before
    return verdicts[0]
