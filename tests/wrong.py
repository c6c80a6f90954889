"""Arguments that are wrong somewhere, and the judge of what a call answers to them."""

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from luminal_lab.errors import LabError

INTERNAL = re.compile(
    r"(?<![\w'\"%=.])_[a-z]\w*|__\w+__|has no attribute|NoneType\b(?! is given)|positional argument"
    r"|<lambda>|<function|<class|\.py\b|Traceback|object at 0x|not supported between|not iterable"
    r"|not subscriptable|unhashable|not callable"
)
"""What Python says of a call, and what only a reader of the source knows."""


class Thing:
    def __repr__(self) -> str:
        return "a thing"


WRONG: list[Any] = [
    None, "a", b"x", "", -7, 0, 10**30, 1.5, float("nan"), float("inf"), 1j, True, [], (), {},
    [1, 2], (1, 2), Thing(), slice(1), np.ones(3), np.array("a"), len,
]  # fmt: skip


class TooLongError(Exception):
    """A call that does not come to an end."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Interrupt what takes longer; a call with wrong arguments must not."""

    def late(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def fault(call: Callable[[], Any]) -> str | None:
    """Return what is wrong with the answer of a call: None, of a result or an error of ours."""
    try:
        with limited(20):
            call()
    except LabError as error:
        text = f"{error.message} | {error.hint}"
        if INTERNAL.search(text):
            return f"it speaks of internals: {text}"
        if not error.hint:
            return f"it has no hint: {text}"
        return None if error.where else f"it has no line: {text}"
    except Exception as error:  # it is what the test looks for
        return f"{type(error).__name__}: {error}"
    return None
