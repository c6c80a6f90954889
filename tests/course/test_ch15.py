"""The exercises of notebook 15: right answers pass, others are told what is not right yet."""

from typing import Any

import pytest

from luminal_lab.course.chapters.ch15 import EXERCISES
from tests.course.answering import ODD, answer_of, by_id, said, text_of

BY_ID = by_id(EXERCISES)
CEILING, KEPT, PACK = (BY_ID[f"15.{k}"].solution for k in (1, 2, 3))
WRONG = {
    "15.1": (
        ("answer = lambda w, t, past, b: b / w", "not yet: it is right for a long text"),
        ("answer = lambda w, t, past, b: w / b", "not yet: it is right for an empty cache"),
        ("answer = 20.0", "expected a function"),
    ),
    "15.2": (
        (KEPT.replace(" + 1", ""), "not yet: it keeps the fewest that reach p"),
        (KEPT.replace("-chances", "chances"), "expected {1, 3}, got"),
        (
            KEPT.replace("    chances = chances / chances.sum()\n", "").replace(
                "np.exp(logits - logits.max())", "np.exp(logits)"
            ),
            "not yet: it takes logits, which may be any numbers",
        ),
        ("answer = lambda logits, p: 3", "expected a set of tokens"),
        ('answer = lambda logits, p: ["a"]', "expected the numbers of tokens"),
    ),
    "15.3": (
        (PACK.replace("np.round(block / scale)", "block / scale"), "expected an error of at most"),
        (PACK.replace("np.int8", "np.float32"), "expected numbers of int8, got float32"),
        (PACK.replace("scale, numbers", "numbers, scale"), "got the shape ()"),
        (PACK.replace("/ 127", "/ 100"), "not yet: no value is further off than half a step"),
        ("answer = lambda block: block", "expected a scale and whole numbers"),
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
