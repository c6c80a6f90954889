"""How long a worker may take for a job, by a clock that is handed in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Final

from luminal_lab.search.driver import Outcome

SKIPPED: Final = Outcome("skipped", why="the budget was spent")


class OutOfTime(Exception):  # noqa: N818  # not an error: a budget ends as it should
    """The time for a job is over."""


@dataclass
class Deadline:
    """When the time for a job ends, if it is limited."""

    seconds: float | None = None
    clock: Callable[[], float] = monotonic

    def __post_init__(self) -> None:
        self.end = inf if self.seconds is None else self.clock() + self.seconds

    @property
    def left(self) -> float:
        """The seconds that are left; negative once it is over."""
        return self.end - self.clock()

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.left <= 0

    def check(self) -> None:
        """Raise `OutOfTime` if no time is left."""
        if self.is_over:
            raise OutOfTime
