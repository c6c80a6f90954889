"""Ctrl-C that waits, so that what has to be done as a whole is not broken off half-way.

    with held():
        one.step()       # nothing in here is interrupted,
        look()           # but for here, if Ctrl-C has come by now,
        opened(call)     # and anywhere in here: a user's function, or NumPy's interpreter
        another.step()   # what an interrupt unwinds runs undisturbed again

Python raises KeyboardInterrupt between any two lines of the main thread: behind what takes a lock
and before the `try` that gives it back, in `finally`, in `__exit__`. No clean-up is safe from that
by itself. While something is held, the handler of the signal only notes that it came, and what it
would have done is done at the end. Other threads are never interrupted, and nothing is held there.

What is held lasts for a moment, or looks often. State that is held for longer is known by the frame
that it belongs to: whatever broke that off, it holds nothing once the frame is not on the stack.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from signal import SIGINT
from types import FrameType
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
SUSPENDED: Final = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
ENTERS: Final = ExitStack.enter_context.__code__
# What Python's module calls, without its enums, which cost ten times as much.
_signal: Any = import_module("_signal")
_get: Final[Callable[[int], Any]] = _signal.getsignal
_set: Final[Callable[[int, Any], Any]] = _signal.signal


class Hold:
    """What holds Ctrl-C off: the handler of the signal is a method of the one that does."""

    __slots__ = ("_before", "_came", "_depth", "_is_open", "_thread", "_times", "_written")

    def __init__(self) -> None:
        self._before: Callable[[int, FrameType | None], object] | None = None
        self._came: tuple[int, FrameType | None] | None = None
        self._times = 0
        self._depth = 0
        self._is_open = False
        self._thread = threading.get_ident()
        self._written = False

    def __enter__(self) -> Hold:
        if not self._depth and self._thread == threading.main_thread().ident:
            before = _get(SIGINT)
            if callable(before):  # else nothing of Python's is called when it comes
                self._before = before
                _set(SIGINT, self._note)
        self._depth += 1
        return self

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if self._depth or self._before is None:
            return
        if _get(SIGINT) == self._note:  # and nobody has put another there
            _set(SIGINT, self._before)
        self._interrupt()

    def _note(self, number: int, frame: FrameType | None) -> None:
        """Keep in mind that Ctrl-C came; where that is open, do what it does."""
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
        """Whether Ctrl-C waits just now, for whoever runs in this thread."""
        return not self._is_open and self._thread == threading.get_ident()

    def look(self) -> None:
        """Do what Ctrl-C does, if it came; once something is written over, if it came again."""
        if self._times > self._written:
            self._interrupt()

    def opened(self, call: Callable[[], T]) -> T:
        """Return what a call returns; Ctrl-C may break it off, as it could where one looks."""
        self.look()
        self._is_open = True
        try:
            return call()
        finally:
            self._is_open = False

    def write_over(self) -> None:
        """Say that from here on something is written over: half of it is worse than all of it."""
        self._written = True

    def settle(self) -> None:
        """Say that what was written is kept."""
        self._written = False
        self.look()


def held() -> Hold:
    """Return a context in which Ctrl-C waits: the one that is open here already, or a new one.

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
    return _here() or Hold()


def _here() -> Hold | None:
    """Return what holds Ctrl-C off just now, in this thread."""
    hold = getattr(_get(SIGINT), "__self__", None)
    return hold if isinstance(hold, Hold) and hold.is_closed else None


def look() -> None:
    """Do what Ctrl-C does, if it came while it is held off here."""
    hold = _here()
    if hold is not None:
        hold.look()


def opened(call: Callable[[], T]) -> T:
    """Return what a call returns; Ctrl-C may break it off."""
    hold = _here()
    return call() if hold is None else hold.opened(call)


def write_over() -> None:
    """Say that from here on something is written over: half of it is worse than all of it."""
    hold = _here()
    if hold is not None:
        hold.write_over()


class Blocks(Generic[T]):
    """What blocks that go on have found, each to be had again at its end.

    One that Ctrl-C has broken off ends when somebody looks: its frame is not on the stack. That of
    a generator need not be there, nor that of an `__enter__` which enters for somebody else.
    """

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: list[tuple[object, FrameType | None, T]] = []

    def __bool__(self) -> bool:
        return bool(self._open)

    def begin(self, block: object, frame: FrameType, found: T) -> None:
        """Begin a block, within those that go on."""
        code = frame.f_code
        lasts = code.co_flags & SUSPENDED or code.co_name == "__enter__" or code is ENTERS
        self._open.append((block, None if lasts else frame, found))

    def end(self, block: object) -> T | None:
        """End a block, with all that is within it; return what it had found."""
        places = [place for place, (one, *_) in enumerate(self._open) if one is block]
        return self._cut(places[-1]) if places else None

    def end_dead(self) -> T | None:
        """End the blocks that were broken off; return what the first of them had found."""
        place = len(self._open)
        while place and (frame := self._open[place - 1][1]) and not is_on_stack(frame):
            place -= 1
        return self._cut(place) if place < len(self._open) else None

    def _cut(self, place: int) -> T:
        found = self._open[place][2]
        del self._open[place:]
        return found


def is_on_stack(frame: FrameType) -> bool:
    """Return whether a frame is being run, in whatever thread; of one that is not, nothing stays.

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
