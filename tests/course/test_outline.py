"""Hold the chapters' form: what a notebook and a table of results rely on."""

import re

import pytest

from luminal_lab.course import outline
from luminal_lab.course.exercise import Exercise

ALL = [one for number in outline.numbers() for one in outline.exercises(number)]


@pytest.mark.parametrize("exercise", ALL, ids=lambda one: one.id)
def test_an_exercise_is_whole(exercise: Exercise):
    assert outline.exercise(exercise.id) is exercise
    assert exercise.task.strip() == exercise.task
    assert "\n" not in exercise.task
    assert exercise.hints
    assert all(hint.strip() for hint in exercise.hints)
    assert re.search(r"^answer = ", exercise.solution, re.MULTILINE)
    compile(exercise.solution, exercise.id, "exec")


def test_a_chapter_counts_its_exercises_from_one():
    for number in outline.numbers():
        ids = [one.id for one in outline.exercises(number)]
        assert ids == [f"{number}.{k}" for k in range(1, len(ids) + 1)]
        assert 3 <= len(ids) <= 5
        assert number in outline.TITLES
