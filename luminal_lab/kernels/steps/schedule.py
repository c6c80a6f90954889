"""A schedule: the steps from a definition's plain loops to the nest that runs, as data.

    split i by 6
    split j by 16
    reorder i_i, j_o
    …

It is written one step a line, can be edited, and applied again; every step is checked, and leaves
the nest as it was before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from typing_extensions import override

from luminal_lab.display import Displayed
from luminal_lab.errors import ParseError
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.steps import (
    ahead,
    arrays,
    binding,
    fetching,
    kinds,
    loops,
    padding,
    reuse,
    staging,
    stopping,
    sums,
    widening,
)
from luminal_lab.kernels.steps.step import Step, parse_step, without_comment

MOST_LETTERS = 1 << 20
"""Of a schedule as text: a million."""


@dataclass(frozen=True, repr=False)
class Schedule(Displayed):
    """Steps in order."""

    steps: tuple[Step, ...] = ()

    @override
    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))

    @override
    def __repr__(self) -> str:
        return f"<Schedule: {len(self)} step{'s' * (len(self) != 1)}; print(…) shows it>"

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def apply(self, nest: Nest) -> Nest:
        """Return the nest after all steps."""
        for step in self.steps:
            nest = step.apply(nest)
        return nest

    def nests(self, nest: Nest) -> list[Nest]:
        """Return the nest before the first step, and after each."""
        found = [nest]
        for step in self.steps:
            found.append(step.apply(found[-1]))
        return found


def parse_schedule(text: str) -> Schedule:
    """Return the schedule that a text says, one step a line.

    >>> print(parse_schedule("split i by 6\\nparallel i_o"))
    split i by 6
    parallel i_o
    """
    if len(text) > MOST_LETTERS:
        raise ParseError(f"schedule: it has {len(text):,} letters, and may have {MOST_LETTERS:,}")
    lines = text.splitlines()
    return Schedule(tuple(parse_step(line) for line in lines if without_comment(line)))


@dataclass
class Scheduling:
    """A nest that is being changed, and the steps so far."""

    nest: Nest
    steps: list[Step] = field(default_factory=list[Step])
    why: str = ""
    """Why it is not made in the way that comes first, for whoever reads the source."""

    def do(self, step: Step | str) -> Nest:
        """Make a step, and return the nest after it."""
        one = parse_step(step) if isinstance(step, str) else step
        self.nest = one.apply(self.nest)
        self.steps.append(one)
        return self.nest

    @property
    def schedule(self) -> Schedule:
        """What was done."""
        return Schedule(tuple(self.steps))


MODULES = (
    *(ahead, arrays, binding, fetching, kinds, loops, padding, reuse, staging, stopping, sums),
    widening,
)
"""Where the steps are: importing them makes their words known."""
