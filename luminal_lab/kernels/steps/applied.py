"""The nest before and after each step of a schedule, and the error that shows a refused step.

print(kernel.steps[2])      the step, and a diff of the nest's text
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias, cast, overload

from typing_extensions import override

from luminal_lab.core.printer import as_text
from luminal_lab.errors import ParseError, ScheduleError, expect, position as place_of
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.steps.schedule import Schedule, Scheduling, parse_schedule
from luminal_lab.kernels.steps.step import Step
from luminal_lab.tensor.arguments import told_object


@told_object("step")
@dataclass(frozen=True, repr=False)
class Change:
    """One step of a schedule, with the nest before and after it; `str` shows the difference."""

    step: Step
    before: Nest
    after: Nest

    @override
    def __str__(self) -> str:
        old, new = str(self.before).splitlines(), str(self.after).splitlines()
        lines = [*difflib.unified_diff(old, new, "before", "after", lineterm="")][2:]
        return "\n".join([f"# {self.step}", *lines])

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Change {self.step}; print(…) shows what it made of the nest>"


@told_object("steps")
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
    def __getitem__(self, position: int) -> Change: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[Change]: ...
    @override
    def __getitem__(self, position: int | slice) -> Change | Sequence[Change]:
        if isinstance(position, slice):
            return self.steps[position]
        hint = "steps count from 0; steps.start and steps.end are the first and last nest"
        return self.steps[place_of(position, len(self), "steps: there is no step", hint)]

    @override
    def __str__(self) -> str:
        return "\n\n".join([str(self.start), *map(str, self.steps)])

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        many = f"{len(self)} step{'s' * (len(self) != 1)}"
        return f"<Changes: {many}; print(…) shows them, [n] is one>"


ScheduleLike: TypeAlias = str | Schedule | Step | Iterable[Step | str]
"""A schedule, its text, or its steps in order, each as a step or as text."""


def read_schedule(like: ScheduleLike | None, kernel: str) -> Schedule:
    """Return the schedule; an error names the kernel and shows where."""
    if isinstance(like, Schedule):
        return like
    try:
        return parse_schedule("\n".join(_lines(like, kernel)))
    except ParseError as error:
        message = f"kernel {kernel}: {error.message}"
        raise ParseError(message, where=error.where, hint=error.hint) from None


def _lines(like: object, kernel: str) -> list[str]:
    """Return the lines of a schedule."""
    if isinstance(like, str):
        return like.splitlines()
    parts = cast("Iterable[object]", like) if isinstance(like, Iterable) else (like,)
    lines: list[str] = []
    for step in parts:
        said = f"kernel {kernel}: its schedule has {{}}, which is not a step"
        hint = 'give text, one step a line, or a list as in ["split i by 8", "parallel i.block"]'
        expect(step, str | Step, said, hint)
        lines += str(step).splitlines()
    return lines


def applied(schedule: Schedule, nest: Nest, kernel: str) -> Changes:
    """Apply each step to a nest and return the changes; an error marks the refused step."""
    try:
        return _named(_applied(schedule, replace(nest, name="kernel")), nest)
    except ScheduleError as error:
        message = f"kernel {kernel}: {error.message}"
        raise ScheduleError(message, where=error.where, hint=error.hint) from None


def _named(changes: Changes, nest: Nest) -> Changes:
    """Return the changes of an equal nest with another name as changes of this one."""
    nests = [nest, *(replace(change.after, name=nest.name) for change in changes.steps)]
    pairs = zip(changes.steps, itertools.pairwise(nests), strict=True)
    steps = (Change(change.step, *pair) for change, pair in pairs)
    return Changes(nest, tuple(steps))


@lru_cache(maxsize=64)
def _applied(schedule: Schedule, nest: Nest) -> Changes:
    # A cached result is checked by the same steps that then make its kernel.
    scheduling = Scheduling(nest)
    for position, step in enumerate(schedule):
        try:
            scheduling.do(step)
        except ScheduleError as error:
            where = marked([str(step) for step in schedule], position)
            raise ScheduleError(error.message, where=where, hint=error.hint) from None
    pairs = itertools.pairwise(scheduling.nests)
    return Changes(
        nest, tuple(Change(step, *pair) for step, pair in zip(schedule, pairs, strict=True))
    )


def marked(lines: Sequence[str], position: int) -> str:
    """Return a line among its neighbours, with a mark."""
    first = max(0, position - 2)
    shown = enumerate(lines[first : position + 3], first)
    return "\n".join(f"{'>' if at == position else ' '} {line.strip()}" for at, line in shown)
