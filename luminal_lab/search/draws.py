"""Schedules to try: draws of the open numbers of plans, and edits of schedules that did well.

A plan leaves numbers open (`Choice`): a draw takes some value of each. An edit of a schedule takes
another value of one number; or it leaves out a step, changes a number in one, or takes a step from
another schedule, and replays what follows as far as it applies. A schedule that a step refuses is
no candidate: it is counted, by the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias, TypeVar

from luminal_lab.errors import LabError, ParseError, ScheduleError, is_circumstance
from luminal_lab.kernels.gpu import GPU
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.plans.cpu import cpu_schedule
from luminal_lab.kernels.steps.choices import NO_CHOICES, Taken
from luminal_lab.kernels.steps.schedule import Scheduling, parse_schedule
from luminal_lab.kernels.steps.step import Step, parse_step
from luminal_lab.machines.machine import Machine

T = TypeVar("T")
Plan: TypeAlias = Callable[[Nest, Any, Mapping[str, int]], Scheduling]
"""Schedules a nest for a machine or a GPU, with some open numbers given."""
NUMBER = re.compile(r"(?<= )[0-9]+(?= |$)")
"""A number in a step's text."""
TRIES = 12
"""How often another schedule is looked for before there seems to be none."""


@dataclass(frozen=True)
class Draft:
    """A schedule to try, and where it comes from."""

    schedule: str
    choices: tuple[tuple[str, int], ...] = ()
    """The open numbers that its plan took; nothing where steps were edited."""
    origin: str = "default"
    """The draw or the edit in words."""


@dataclass(frozen=True)
class Replay:
    """A schedule on another nest: the steps that apply there, and how many do not."""

    scheduling: Scheduling
    refused: int

    @property
    def schedule(self) -> str:
        """The steps that apply, as text."""
        return str(self.scheduling.schedule)


def replay(steps: Iterable[Step], nest: Nest | Scheduling) -> Replay:
    """Apply steps to a nest in order, and pass over those that are refused."""
    scheduling = Scheduling(nest) if isinstance(nest, Nest) else nest
    refused = [step for step in steps if not scheduling.attempted(step)]
    return Replay(scheduling, len(refused))


class Draws:
    """The schedules of one nest: its default, draws, and edits; none is given twice."""

    def __init__(self, nest: Nest, machine: Machine | GPU, plan: Plan = cpu_schedule) -> None:
        self.nest, self.machine, self.plan = nest, machine, plan
        self.refusals: dict[str, int] = {}
        """How often schedules were refused, by reason."""
        self._known: set[str] = set()
        scheduling = self._planned({})
        if scheduling is None:
            raise ScheduleError(
                f"search: the plan refuses {nest.name}: {', '.join(self.refusals)}",
                hint="a plan that takes no step leaves plain loops, which any kernel has",
            )
        self.open = tuple(scheduling.choices)
        """The open numbers of the default schedule."""
        self.default = _draft(scheduling, "default")
        self._known.add(self.default.schedule)

    def know(self, schedules: Iterable[str]) -> None:
        """Note schedules that have been tried."""
        self._known.update(schedules)

    def forget(self, schedules: Iterable[str]) -> None:
        """Let schedules that nobody tried be given again."""
        self._known.difference_update(schedules)

    def draw(self, random: Random) -> Draft | None:
        """Return a schedule by numbers drawn at random, or None if no new one turned up."""
        for _ in range(TRIES if self.open else 0):
            asked = {taken.choice.name: pick(random, values_of(taken)) for taken in self.open}
            scheduling = self._planned(asked)
            if scheduling is not None and (draft := self._new(_draft(scheduling, "draw"))):
                return draft
        return None

    def edit(self, random: Random, parent: Draft, mate: Draft) -> Draft | None:
        """Return a schedule that differs from one in a number or a step; None if none is new."""
        for _ in range(TRIES):
            is_number = parent.choices and random.random() < 0.5
            try:
                edited = (
                    self._number(random, parent) if is_number else self._step(random, parent, mate)
                )
            except Exception as error:  # a step that nobody has thought of
                if is_circumstance(error):
                    raise
                self._refuse(said(error))
                continue
            if edited is not None and (draft := self._new(edited)):
                return draft
        return None

    def _number(self, random: Random, parent: Draft) -> Draft | None:
        """Take another value of one open number."""
        numbers = dict(parent.choices)
        name = pick(random, tuple(numbers))
        known = self._planned(numbers)
        if known is None or name not in known.taken:
            return None
        others = [value for value in values_of(known.taken[name]) if value != numbers[name]]
        if not others:
            return None
        value = pick(random, others)
        scheduling = self._planned({**numbers, name: value})
        return None if scheduling is None else _draft(scheduling, f"{name} = {value}")

    def _step(self, random: Random, parent: Draft, mate: Draft) -> Draft | None:
        """Leave out a step, change a number in it, or take one from another schedule."""
        steps, others = ([*parse_schedule(draft.schedule)] for draft in (parent, mate))
        if not steps:
            return None
        at = int(random.random() * len(steps))
        old = steps[at]
        match int(random.random() * 3):
            case 0:
                new, origin = [], f"without `{old}`"
            case 1:
                changed = _changed(random, old)
                if changed is None:
                    return None
                new, origin = [changed], f"`{changed}` for `{old}`"
            case _:
                alike = [step for step in others if type(step) is type(old) and step not in steps]
                if not alike:
                    return None
                new = [pick(random, alike)]
                origin = f"`{new[0]}` for `{old}`"
        scheduling = Scheduling(self.nest)
        for step in (*steps[:at], *new):
            scheduling.do(step)
        return Draft(replay(steps[at + 1 :], scheduling).schedule, (), origin)

    def _planned(self, asked: Mapping[str, int]) -> Scheduling | None:
        """Return what a plan does with some numbers; None if it refuses them."""
        try:
            scheduling = self.plan(self.nest, self.machine, asked or NO_CHOICES)
        except ScheduleError as error:
            self._refuse(said(error))
            return None
        if not asked.items() <= scheduling.choices.values.items():
            self._refuse(scheduling.why.partition("\n")[0] or "the plan takes another way")
            return None
        return scheduling

    def _refuse(self, why: str) -> None:
        self.refusals[why] = self.refusals.get(why, 0) + 1

    def _new(self, draft: Draft) -> Draft | None:
        if draft.schedule in self._known:
            return None
        self._known.add(draft.schedule)
        return draft


def said(error: Exception) -> str:
    """Return the first line of an error, with its class if it is none of ours."""
    if isinstance(error, LabError):
        return error.message.partition("\n")[0]
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def values_of(taken: Taken) -> tuple[int, ...]:
    """Return the values that an open number may have, the usual one among them."""
    return tuple(sorted({*taken.choice.values, taken.default}))


def pick(random: Random, some: tuple[T, ...] | list[T]) -> T:
    """Return one of some things; the same one in every Python for the same seed."""
    return some[int(random.random() * len(some))]


def _draft(scheduling: Scheduling, origin: str) -> Draft:
    return Draft(str(scheduling.schedule), tuple(scheduling.choices.values.items()), origin)


def _changed(random: Random, step: Step) -> Step | None:
    """Return a step with one of its numbers doubled or halved; None if it has none."""
    text = str(step)
    numbers = [*NUMBER.finditer(text)]
    if not numbers:
        return None
    number = pick(random, numbers)
    old = int(number[0])
    value = max(1, old * 2 if random.random() < 0.5 else old // 2)
    try:
        changed = parse_step(f"{text[: number.start()]}{value}{text[number.end() :]}")
    except (ParseError, ScheduleError):
        return None
    return None if changed == step else changed
