"""Draws of open numbers and edits of steps: legal, new each time, and the same for a seed."""

from collections.abc import Mapping
from random import Random

import pytest

from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.plans.cpu import cpu_schedule
from luminal_lab.kernels.steps.choices import Choice
from luminal_lab.kernels.steps.loops import Split
from luminal_lab.kernels.steps.schedule import Scheduling, parse_schedule
from luminal_lab.machines.machine import Machine
from luminal_lab.search.draws import Draws, ScheduleDraft, replay, values_of
from tests.search.planted import matmul

MACHINE = Machine(vector_bytes=32, cores=2)


def nest_of(n: int, k: int, m: int) -> Nest:
    return lower(parse_definition(matmul(n, k, m)))


def drafts(seed: int) -> list[ScheduleDraft | None]:
    """Return four draws and twelve edits."""
    draws, random = Draws.of(nest_of(70, 60, 50), MACHINE), Random(seed)
    drawn = [draws.draw(random) for _ in range(4)]
    known = [draft for draft in drawn if draft is not None]
    return [*drawn, *(draws.edit(random, known[0], known[n % 4]) for n in range(12))]


def test_the_default_is_todays():
    draws = Draws.of(nest_of(70, 60, 50), MACHINE)
    assert draws.default.schedule == str(cpu_schedule(draws.forms[0][0].nest, MACHINE).schedule)
    assert {"swapped", "tile_rows", "row_tasks"} <= {
        taken.choice.name for taken in draws.forms[0][0].open
    }
    assert all(taken.default in values_of(taken) for taken in draws.forms[0][0].open)


def test_drafts_are_legal_and_new_and_follow_the_seed():
    first, again, other = drafts(3), drafts(3), drafts(4)
    assert first == again
    assert first != other
    texts = [draft.schedule for draft in first if draft is not None]
    assert len({*texts}) == len(texts) > 8
    for text in texts:
        parse_schedule(text).apply(nest_of(70, 60, 50))


def test_another_number_is_one_number():
    draws, random = Draws.of(nest_of(70, 60, 50), MACHINE), Random(0)
    parent = draws.default
    for _ in range(20):
        draft = draws.edit(random, parent, parent)
        if draft is not None and draft.choices:
            changed = [name for name, n in draft.choices if dict(parent.choices)[name] != n]
            assert len(changed) == 1
            assert draft.origin == f"{changed[0]} = {dict(draft.choices)[changed[0]]}"
            break
    else:
        pytest.fail("no edit took another number")


def test_a_schedule_on_a_sister_applies_as_far_as_it_does():
    small, large = nest_of(7, 6, 5), nest_of(70, 60, 50)
    schedule = parse_schedule("split i by 32\nvector j.lane\nreorder j, i.own")
    again = replay(schedule, large)
    assert again.schedule == "split i by 32\nreorder j, i.own"
    assert again.refused == 1
    assert replay(schedule, small).refused >= 1


def refuses(nest: Nest, machine: Machine, asked: Mapping[str, int]) -> Scheduling:
    scheduling = Scheduling(nest, asked=asked)
    if scheduling.choose(Choice("rows", 8, 16, 32)) != 8:
        raise ScheduleError("rows: more of them do not fit")
    return scheduling


def test_a_plan_that_refuses_its_draws_is_counted():
    draws, random = Draws.of(nest_of(7, 6, 5), MACHINE, refuses), Random(0)
    assert draws.draw(random) is None
    assert draws.edit(random, draws.default, draws.default) is None
    assert set(draws.refusals) == {"rows: more of them do not fit"}
    assert draws.refusals["rows: more of them do not fit"] > 3


def test_an_edit_that_a_step_cannot_take_is_counted(monkeypatch: pytest.MonkeyPatch):
    def breaks(step: Split, nest: Nest) -> Nest:
        raise KeyError("i")

    draws, random = Draws.of(nest_of(7, 6, 5), MACHINE), Random(0)
    parent = ScheduleDraft("split i by 2\nsplit j by 2")
    monkeypatch.setattr(Split, "apply", breaks)
    assert draws.edit(random, parent, parent) is None
    assert draws.refusals == {"KeyError: 'i'": sum(draws.refusals.values())}


def test_a_plan_that_refuses_everything_says_so():
    def nothing(nest: Nest, machine: Machine, asked: Mapping[str, int]) -> Scheduling:
        raise ScheduleError("it is no fold")

    with pytest.raises(ScheduleError, match="search: the plan refuses mm: it is no fold"):
        Draws.of(nest_of(7, 6, 5), MACHINE, nothing)
