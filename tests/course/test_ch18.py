"""The exercises of notebook 18: right answers pass, others are told what is not right yet."""

from typing import Any

import pytest

from luminal_lab.course.chapters.ch18 import EXERCISES
from tests.course.answering import ODD, answer_of, by_id, said, text_of

BY_ID = by_id(EXERCISES)
SENT, CUT, PARTS, LEAST = (BY_ID[f"18.{k}"].solution for k in (1, 2, 3, 4))
WRONG = {
    "18.1": (
        ("answer = lambda size, workers: size", "for 1200, 4: expected 1800, got 1200"),
        (SENT.replace("2 * ", ""), "for 1000, 2: expected 1000, got 500"),
        ("answer = lambda size, workers: None", "expected a number, got a NoneType"),
    ),
    "18.2": (
        ('answer = {"w1": ("model", None), "w2": (None, "model")}', "sends 1024 bytes"),
        ('answer = {"w1": (None, "model")}', "w2 are not cut"),
        ("answer = 3", "expected a dict, got a number"),
        (CUT.replace('"w1": (None, "model")', '"w1": ("model", None)'), "not yet: "),
        (CUT.replace("None", '"data"'), "has no axis 'data'"),
    ),
    "18.3": (
        (PARTS.replace("np.sum(given, 0)", "given[0]"), "not yet: two workers have half"),
        ("answer = lambda given: [sum(given)] * len(given)", "part 0"),
        ("answer = lambda given: sum(given)", "expected a list, got an array of NumPy"),
        ("answer = lambda given: given[:1]", "expected 2 parts, got 1"),
    ),
    "18.4": (
        ("answer = lambda stages, most: 1 / most - 1", "not yet: "),
        (LEAST.replace("count = 1", "count = 0").replace(" > most", " >= most"), "not yet: "),
        ("answer = lambda stages, most: 'four'", "expected a number, got a text"),
    ),
}


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.id)
def test_a_solution_is_right(exercise: Any) -> None:
    verdict = exercise.check(answer_of(exercise.solution))
    assert verdict.right, verdict
    assert len(verdict.said) >= 2


@pytest.mark.parametrize(
    ("id", "code", "sentence"), [(id, *one) for id in WRONG for one in WRONG[id]]
)
def test_a_wrong_answer_is_told_what_is_wrong(id: str, code: str, sentence: str) -> None:
    told = said(BY_ID[id], code)
    assert sentence in told
    assert not told.endswith("\n"), "there is a hint"


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.id)
def test_odd_answers_get_a_sentence(exercise: Any, odd: str) -> None:
    verdict = exercise.check(ODD[odd])
    assert not verdict.right
    assert "not yet: " in text_of(verdict)


def test_an_input_may_be_cut_as_well() -> None:
    """Another right answer than the one that is shown."""
    other = 'answer = {"x": (None, None), "w1": (None, "model"), "w*2": ("model", None)}'
    told = said(BY_ID["18.2"], other)
    assert "w2 are not cut" in told
