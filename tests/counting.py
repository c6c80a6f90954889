"""Count what a call does, so that a test can say that it is linear without a clock."""

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(call: Callable[[], object]) -> int:
    """Return how many lines of Python a call runs."""
    count = 0

    def line(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def peak(call: Callable[[], object]) -> int:
    """Return how many bytes a call had taken at most."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


class Counted(int):
    """A number that counts how often one is compared: a search in a list is no line of Python."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return int(self) == other

    def __hash__(self) -> int:
        return int.__hash__(self)
