"""Ctrl-C held off, so that work that must be done as a whole is not interrupted half-way.

    with held():
        one.step()       # nothing in here is interrupted
        look()           # except here, if Ctrl-C has come by now
        opened(call)     # and anywhere in here: a user's function, say
        another.step()   # undisturbed again

Python raises KeyboardInterrupt between any two lines of the main thread: after a lock is taken and
before the `try` that releases it, in `finally`, in `__exit__`. No clean-up is safe from that by
itself. Inside `held()` the signal's handler only notes that Ctrl-C came, and the interrupt happens
at the end. Other threads are never interrupted, so nothing is held off there.

Such a block is short, or calls `look` often. State that lasts longer is tied to the frame that owns
it: however that frame ended, the state ends once the frame has left the stack.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from signal import SIGINT, SIGTERM
from types import FrameType
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
SUSPENDED: Final = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
ENTERS: Final = ExitStack.enter_context.__code__
# Python's `signal` module calls these; its enums cost ten times as much.
_signal: Any = import_module("_signal")
_get: Final[Callable[[int], Any]] = _signal.getsignal
_set: Final[Callable[[int, Any], Any]] = _signal.signal

_process = os.getpid()


def this_process() -> int:
    """Return the number of this process, which the system is asked for once."""
    return _process


def _forked() -> None:
    global _process
    _process = os.getpid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class InterruptHold:
    """Holds Ctrl-C off: one of its methods is the signal's handler."""

    __slots__ = ("_before", "_came", "_depth", "_is_open", "_thread", "_times", "_written")

    def __init__(self) -> None:
        self._before: Callable[[int, FrameType | None], object] | None = None
        self._came: tuple[int, FrameType | None] | None = None
        self._times = 0
        self._depth = 0
        self._is_open = False
        self._thread = threading.get_ident()
        self._written = False

    def __enter__(self) -> InterruptHold:
        if not self._depth and self._thread == threading.main_thread().ident:
            before = _get(SIGINT)
            if callable(before):  # otherwise Python calls nothing when Ctrl-C comes
                self._before = before
                _set(SIGINT, self.note)
        self._depth += 1
        return self

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if self._depth or self._before is None:
            return
        if _get(SIGINT) == self.note:  # unless other code has replaced it
            _set(SIGINT, self._before)
        if self._came is not None:
            self._interrupt()

    def note(self, number: int, frame: FrameType | None) -> None:
        """Note that Ctrl-C came, and interrupt if that is allowed now."""
        self._came = number, frame
        self._times += 1
        if self._is_open:
            self.look()

    def _interrupt(self) -> None:
        if self._came is not None and self._before is not None:
            came, self._came, self._times, self._is_open = self._came, None, 0, False
            self._before(*came)

    @property
    def is_closed(self) -> bool:
        """Whether Ctrl-C is held off in this thread right now."""
        return not self._is_open and self._thread == threading.get_ident()

    def look(self) -> None:
        """Interrupt if Ctrl-C came; after `write_over`, only if it came twice."""
        if self._times > self._written:
            self._interrupt()

    def opened(self, call: Callable[[], T]) -> T:
        """Return the result of a call; Ctrl-C may interrupt it, as in `look`."""
        self.look()
        self._is_open = True
        try:
            return call()
        finally:
            self._is_open = False

    def write_over(self) -> None:
        """Note that from here on something is overwritten: half of it is worse than all of it."""
        self._written = True

    def settle(self) -> None:
        """Note that all values have been written."""
        self._written = False
        self.look()


def held() -> InterruptHold:
    """Return a context that holds Ctrl-C off: the one already open here, or a new one.

    >>> from signal import raise_signal
    >>> try:
    ...     with held():
    ...         raise_signal(SIGINT)
    ...         print("goes on,")
    ... except KeyboardInterrupt:
    ...     print("and is interrupted then")
    goes on,
    and is interrupted then
    """
    return _here() or InterruptHold()


@contextmanager
def terminable() -> Generator[None, None, None]:
    """Have SIGTERM unwind a program as Ctrl-C does, and end it only then.

    By itself SIGTERM ends Python at once, and leaves compilers at work and temporary folders.
    """
    process, came = os.getpid(), list[int]()

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if os.getpid() != process:  # a fork, which has nothing to clean up
            end()
        hold = getattr(_get(SIGINT), "__self__", None)
        if not isinstance(hold, InterruptHold):
            raise KeyboardInterrupt
        hold.note(number, frame)

    def end() -> None:
        _set(SIGTERM, _signal.SIG_DFL)
        os.kill(os.getpid(), SIGTERM)

    before = _get(SIGTERM)
    if before != _signal.SIG_DFL or os.name == "nt":  # ignored, or somebody else's; or never sent
        yield
        return
    _set(SIGTERM, note)
    try:
        yield
    finally:
        _set(SIGTERM, before)
        if came:
            end()


def _here() -> InterruptHold | None:
    """Return the object that holds Ctrl-C off in this thread right now."""
    hold = getattr(_get(SIGINT), "__self__", None)
    return hold if isinstance(hold, InterruptHold) and hold.is_closed else None


def look() -> None:
    """Interrupt if Ctrl-C came while it was held off here."""
    hold = _here()
    if hold is not None:
        hold.look()


def opened(call: Callable[[], T]) -> T:
    """Return the result of a call; Ctrl-C may interrupt it."""
    hold = _here()
    return call() if hold is None else hold.opened(call)


def write_over() -> None:
    """Note that from here on something is overwritten: half of it is worse than all of it."""
    hold = _here()
    if hold is not None:
        hold.write_over()


class OpenBlocks(Generic[T]):
    """The state that each open block found, to be restored at its end.

    A block that Ctrl-C interrupted ends at the next look: its frame has left the stack. The frame
    of a generator may leave it earlier, and so may an `__enter__` that enters for its caller.
    """

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: list[tuple[object, FrameType | None, T]] = []

    def __bool__(self) -> bool:
        return bool(self._open)

    def begin(self, block: object, frame: FrameType, state: T) -> None:
        """Begin a block inside those that are open."""
        code = frame.f_code
        lasts = code.co_flags & SUSPENDED or code.co_name == "__enter__" or code is ENTERS
        self._open.append((block, None if lasts else frame, state))

    def end(self, block: object) -> T | None:
        """End a block and all inside it; return the state that it found."""
        positions = [
            position for position, (open_block, *_) in enumerate(self._open) if open_block is block
        ]
        return self._cut(positions[-1]) if positions else None

    def end_dead(self) -> T | None:
        """End the blocks that were interrupted; return the state that the first one found."""
        position = len(self._open)
        while position and (frame := self._open[position - 1][1]) and not is_on_stack(frame):
            position -= 1
        return self._cut(position) if position < len(self._open) else None

    def _cut(self, position: int) -> T:
        state = self._open[position][2]
        del self._open[position:]
        return state


def is_on_stack(frame: FrameType) -> bool:
    """Return whether a frame is running in any thread; one that is not is cleared.

    >>> import sys
    >>> frames = []
    >>> def call():
    ...     frames.append(sys._getframe())
    ...     return is_on_stack(frames[0])
    >>> call(), is_on_stack(frames[0])
    (True, False)
    """
    try:
        frame.clear()
    except RuntimeError:  # "cannot clear an executing frame"
        return True
    return False
