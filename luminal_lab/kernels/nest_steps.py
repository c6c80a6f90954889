"""The nest before and after each step of a schedule, and what a refused step says of its schedule.

print(kernel.steps[2])      the step, and a diff of the nest's text
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from typing_extensions import override

from luminal_lab.errors import ParseError, ScheduleError
from luminal_lab.kernels.nest import Nest
from luminal_lab.kernels.schedule import Schedule
from luminal_lab.kernels.steps.step import Step, parse_step


@dataclass(frozen=True, repr=False)
class Change:
    """One step of a schedule, and what it made of a nest; `str` shows the difference."""

    step: Step
    before: Nest
    after: Nest

    @override
    def __str__(self) -> str:
        old, new = str(self.before).splitlines(), str(self.after).splitlines()
        lines = [*difflib.unified_diff(old, new, "before", "after", lineterm="")][2:]
        return "\n".join([f"# {self.step}", *lines])

    @override
    def __repr__(self) -> str:
        return f"<Change {self.step}; print(…) shows what it made of the nest>"


@dataclass(frozen=True, repr=False)
class Changes(Sequence[Change]):
    """All steps of a schedule, in order, from the plain nest to the one that runs."""

    start: Nest
    steps: tuple[Change, ...]

    @property
    def end(self) -> Nest:
        """The nest after the last step."""
        return self.steps[-1].after if self.steps else self.start

    @override
    def __len__(self) -> int:
        return len(self.steps)

    @override
    def __iter__(self) -> Iterator[Change]:
        return iter(self.steps)

    @overload
    def __getitem__(self, place: int) -> Change: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Change]: ...
    @override
    def __getitem__(self, place: int | slice) -> Change | Sequence[Change]:
        return self.steps[place]

    @override
    def __str__(self) -> str:
        return "\n\n".join([str(self.start), *map(str, self.steps)])

    @override
    def __repr__(self) -> str:
        return f"<Changes: {len(self)} steps; print(…) shows them, [n] is one>"


def read_schedule(text: str | Schedule, kernel: str) -> Schedule:
    """Return the schedule that a text says; a line that is no step is shown among the others."""
    if isinstance(text, Schedule):
        return text
    lines = text.splitlines()
    steps: list[Step] = []
    for place, line in enumerate(lines):
        try:
            if line.strip():
                steps.append(parse_step(line))
        except ParseError as error:
            message = error.message.removeprefix("schedule: ")
            raise ParseError(
                f"kernel {kernel}: {message}", where=marked(lines, place), hint=error.hint
            ) from None
    return Schedule(tuple(steps))


def applied(schedule: Schedule, nest: Nest, kernel: str) -> Changes:
    """Return what each step makes of a nest, or raise an error that marks the step in question."""
    found: list[Change] = []
    start = nest
    for place, step in enumerate(schedule):
        try:
            after = step.apply(nest)
        except ScheduleError as error:
            lines = [str(one) for one in schedule]
            raise ScheduleError(
                f"kernel {kernel}: {error.message}", where=marked(lines, place), hint=error.hint
            ) from None
        found.append(Change(step, nest, after))
        nest = after
    return Changes(start, tuple(found))


def marked(lines: Sequence[str], place: int) -> str:
    """Return a line among its neighbours, with a mark."""
    first = max(0, place - 2)
    shown = enumerate(lines[first : place + 3], first)
    return "\n".join(f"{'>' if at == place else ' '} {line.strip()}" for at, line in shown)
