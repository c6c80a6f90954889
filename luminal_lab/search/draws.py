"""Schedules to try: draws of the open numbers of plans, and edits of schedules that did well.

A plan leaves numbers open (`Choice`): a draw takes some value for each. An edit takes another value
for one number of a schedule; or it leaves out a step, changes a number in one, or takes a step from
another schedule, and replays what follows as far as it applies. A schedule with a refused step is
not a candidate; it is counted under the reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias, TypeVar, cast

from luminal_lab.errors import (
    ArgumentError,
    LabError,
    ParseError,
    ScheduleError,
    is_circumstance,
)
from luminal_lab.kernels.gpu import GPU
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.plans.cpu import cpu_schedule
from luminal_lab.kernels.steps.choices import NO_CHOICES, Taken
from luminal_lab.kernels.steps.schedule import Scheduling, parse_schedule
from luminal_lab.kernels.steps.step import Step, parse_step
from luminal_lab.machines.machine import Machine
from luminal_lab.search.forms import BETWEEN
from luminal_lab.tensor.arguments import is_function

T = TypeVar("T")
Plan: TypeAlias = Callable[[Nest, Any, Mapping[str, int]], Scheduling]
"""Schedules a nest for a machine or a GPU, with some open numbers given."""
NUMBER = re.compile(r"(?<= )[0-9]+(?= |$)")
"""A number in a step's text."""
PLANS = "give a function of a nest, a machine and open numbers, which returns a Scheduling"


def check_plan(plan: object) -> None:
    """Raise unless a plan of the user's, if there is one, is a function."""
    if plan is not None and not is_function(plan):
        raise ArgumentError(f"search: the plan is {plan!r}", hint=PLANS)


TRIES = 12
"""How often to try for a new schedule before concluding that there is none."""


@dataclass(frozen=True)
class ScheduleDraft:
    """A schedule to try, and where it comes from."""

    schedule: str
    """Its steps, one a line; those of several kernels are separated by an empty line."""
    choices: tuple[tuple[str, int], ...] = ()
    """The open numbers that its plan chose; empty if steps were edited."""
    origin: str = "default"
    """The draw or the edit in words."""
    form: int = 0
    """The number of its form."""


@dataclass(frozen=True)
class Replay:
    """A schedule replayed on another nest: the steps that apply there, and how many do not."""

    scheduling: Scheduling
    refused: int

    @property
    def schedule(self) -> str:
        """The steps that apply, as text."""
        return str(self.scheduling.schedule)


def replay(steps: Iterable[Step], nest: Nest | Scheduling) -> Replay:
    """Apply steps to a nest in order, and skip those that are refused."""
    scheduling = Scheduling(nest) if isinstance(nest, Nest) else nest
    refused = [step for step in steps if not scheduling.attempted(step)]
    return Replay(scheduling, len(refused))


class Loops:
    """The schedules of one kernel: its default, draws of its plan's numbers, and edits."""

    def __init__(self, nest: Nest, machine: Machine | GPU, plan: Plan = cpu_schedule) -> None:
        self.nest, self.machine, self.plan = nest, machine, plan
        self.refusals: dict[str, int] = {}
        """How often schedules were refused, by reason."""
        scheduling = self._planned({})
        if scheduling is None:
            raise ScheduleError(
                f"search: the plan refuses {nest.name}: {', '.join(self.refusals)}",
                hint="a plan that takes no step leaves plain loops, which any kernel has",
            )
        self.open = tuple(scheduling.choices)
        """The open numbers of the default schedule."""
        self.default = _draft(scheduling, "default")

    def drawn(self, random: Random) -> ScheduleDraft | None:
        """Return a schedule by numbers drawn at random; None if the plan refuses them."""
        asked = {taken.choice.name: pick(random, values_of(taken)) for taken in self.open}
        scheduling = self._planned(asked)
        return None if scheduling is None else _draft(scheduling, "draw")

    def edited(
        self, random: Random, parent: ScheduleDraft, mate: ScheduleDraft
    ) -> ScheduleDraft | None:
        """Return a schedule with one number or step changed; None if it is refused."""
        is_number = parent.choices and random.random() < 0.5
        try:
            if is_number:
                return self._number(random, parent)
            return self._step(random, parent, mate)
        except Exception as error:  # a step that nobody has foreseen
            if is_circumstance(error):
                raise
            self._refuse(said(error))
            return None

    def _number(self, random: Random, parent: ScheduleDraft) -> ScheduleDraft | None:
        """Choose another value for one open number."""
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

    def _step(
        self, random: Random, parent: ScheduleDraft, mate: ScheduleDraft
    ) -> ScheduleDraft | None:
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
        return ScheduleDraft(replay(steps[at + 1 :], scheduling).schedule, (), origin)

    def _planned(self, asked: Mapping[str, int]) -> Scheduling | None:
        """Return what a plan does with some numbers; None if it refuses them."""
        try:
            scheduling = cast("object", self.plan(self.nest, self.machine, asked or NO_CHOICES))
        except Exception as error:
            if is_circumstance(error):
                raise
            if not (asked or isinstance(error, ScheduleError)):
                why = f"search: the plan for {self.nest.name} raised {said(error)}"
                raise ArgumentError(why, hint=PLANS) from error
            self._refuse(said(error))
            return None
        if not isinstance(scheduling, Scheduling):
            why = f"search: the plan for {self.nest.name} returned {scheduling!r}"
            raise ArgumentError(why, hint=PLANS)
        if not asked.items() <= scheduling.choices.values.items():
            self._refuse(scheduling.why.partition("\n")[0] or "the plan takes another way")
            return None
        return scheduling

    def _refuse(self, why: str) -> None:
        self.refusals[why] = self.refusals.get(why, 0) + 1


class Draws:
    """The schedules of all forms of a region; none is given out twice."""

    def __init__(self, forms: Sequence[Sequence[Loops]]) -> None:
        self.forms = forms
        """The kernels of each form."""
        starts = [[loops.default for loops in form] for form in forms]
        self.defaults = tuple(
            self._joined(number, parts, "default") for number, parts in enumerate(starts)
        )
        """The default schedule of each form."""
        self._known: set[tuple[int, str]] = set()
        self.know([self.default])

    @classmethod
    def of(cls, nest: Nest, machine: Machine, plan: Plan = cpu_schedule) -> Draws:
        """Return the schedules of one kernel."""
        return cls([[Loops(nest, machine, plan)]])

    @property
    def default(self) -> ScheduleDraft:
        """The default schedule of the first form."""
        return self.defaults[0]

    @property
    def refusals(self) -> Mapping[str, int]:
        """How often schedules were refused, by reason."""
        each = dict.fromkeys(loops for form in self.forms for loops in form)
        return sum((Counter(loops.refusals) for loops in each), Counter[str]())

    def know(self, drafts: Iterable[ScheduleDraft]) -> None:
        """Note schedules that have been tried."""
        self._known.update((draft.form, draft.schedule) for draft in drafts)

    def forget(self, drafts: Iterable[ScheduleDraft]) -> None:
        """Allow schedules that nobody has tried to be given out again."""
        self._known.difference_update((draft.form, draft.schedule) for draft in drafts)

    def first(self, count: int, forms: Iterable[int]) -> list[ScheduleDraft]:
        """Return at most `count` defaults of some forms that have not been tried."""
        wanted = [self.defaults[form] for form in forms]
        new = [draft for draft in wanted if (draft.form, draft.schedule) not in self._known]
        self.know(new[:count])
        return new[:count]

    def draw(self, random: Random, form: int = 0) -> ScheduleDraft | None:
        """Return a schedule of a form by numbers drawn at random; None if there is no new one."""
        kernels = self.forms[form]
        if not any(loops.open for loops in kernels):
            return None
        for _ in range(TRIES):
            parts = [self._drawn(random, loops, alone=len(kernels) == 1) for loops in kernels]
            known = [part for part in parts if part is not None]
            if len(known) == len(parts) and (draft := self._new(self._joined(form, known, "draw"))):
                return draft
        return None

    def edit(
        self, random: Random, parent: ScheduleDraft, mate: ScheduleDraft
    ) -> ScheduleDraft | None:
        """Return a schedule that differs in one kernel from a given one; None if none is new."""
        kernels, others = self.forms[parent.form], self.forms[mate.form]
        for _ in range(TRIES):
            parts, mates = self._parts(parent), self._parts(mate)
            at = int(random.random() * len(parts)) if len(parts) > 1 else 0
            loops = kernels[at]
            # The other's schedule of the same kernel, or of any kernel if it has none.
            same = [n for n, other in enumerate(others) if other is loops]
            mate_part = mates[same[0]] if same else mates[min(at, len(mates) - 1)]
            edited = loops.edited(random, parts[at], mate_part)
            if edited is None:
                continue
            parts[at] = edited
            origin = edited.origin
            if len(parts) > 1:
                origin = f"{loops.nest.name}: {origin}"
            if draft := self._new(self._joined(parent.form, parts, origin)):
                return draft
        return None

    @staticmethod
    def _drawn(random: Random, loops: Loops, *, alone: bool) -> ScheduleDraft | None:
        """Return a draw for one kernel; with several kernels, some keep their default."""
        if not loops.open or (not alone and random.random() < 0.5):
            return loops.default
        return loops.drawn(random)

    def _joined(self, form: int, parts: Sequence[ScheduleDraft], origin: str) -> ScheduleDraft:
        is_one = len(parts) == 1
        choices = tuple(
            (name if is_one else f"{at}.{name}", value)
            for at, part in enumerate(parts)
            for name, value in part.choices
        )
        return ScheduleDraft(BETWEEN.join(part.schedule for part in parts), choices, origin, form)

    def _parts(self, draft: ScheduleDraft) -> list[ScheduleDraft]:
        """Return the schedules of a form's kernels."""
        schedules = draft.schedule.split(BETWEEN)
        if len(schedules) == 1:
            return [draft]
        numbers = [(*name.split(".", 1), value) for name, value in draft.choices]
        return [
            ScheduleDraft(
                text, tuple((name, value) for part, name, value in numbers if part == str(at))
            )
            for at, text in enumerate(schedules)
        ]

    def _new(self, draft: ScheduleDraft) -> ScheduleDraft | None:
        if (draft.form, draft.schedule) in self._known:
            return None
        self.know([draft])
        return draft


def said(error: Exception) -> str:
    """Return the first line of an error, with its class if the class is not ours."""
    if isinstance(error, LabError):
        return error.message.partition("\n")[0]
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def values_of(taken: Taken) -> tuple[int, ...]:
    """Return the values that an open number may have, including the usual one."""
    return tuple(sorted({*taken.choice.values, taken.default}))


def pick(random: Random, some: tuple[T, ...] | list[T]) -> T:
    """Return one of several items; the same one in every Python for the same seed."""
    return some[int(random.random() * len(some))]


def _draft(scheduling: Scheduling, origin: str) -> ScheduleDraft:
    return ScheduleDraft(str(scheduling.schedule), tuple(scheduling.choices.values.items()), origin)


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
