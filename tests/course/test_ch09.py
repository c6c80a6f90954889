"""The exercises of notebook 09: right answers pass, others are told what is not right yet."""

from typing import Any

import pytest

from luminal_lab.course.chapters.ch09 import EXERCISES
from tests.course.answering import ODD, answer_of, by_id, said, text_of

BY_ID = by_id(EXERCISES)
RIGHT = BY_ID["09.4"].solution


def without(*steps: str) -> str:
    """Return the solution of the last exercise without some of its steps."""
    return "\n".join(line for line in RIGHT.splitlines() if line not in steps)


OTHERS = {
    "09.1": (
        "answer = lambda rows, vectors: 1 / (1 / rows + 1 / vectors)",
        "answer = lambda r, v: np.float32(r * v) / (r + v)",
    ),
    "09.2": ("answer = 5, 5", "answer = [np.int64(5), 5]"),
    "09.3": (
        "answer = lambda gflops, gbytes: -(-6 * gflops // gbytes)",
        "answer = lambda f, b: next(n for n in range(1, 1000) if 2 * n * b >= 12 * f)",
    ),
    "09.4": (
        RIGHT.replace("reorder i.block, j.block", "reorder j.block, i.block").replace(
            "parallel i.block", "parallel j.block"
        ),
        RIGHT.replace(
            "clamp i_sum.own", "pack a before j.block over k, i_sum.own as rows\nround i_sum.own"
        ),
    ),
}
WRONG = {
    "09.1": (
        ("answer = lambda rows, vectors: rows * vectors", "for rows = 1 and vectors = 1 it is 1"),
        (
            "answer = lambda rows, vectors: rows / (1 + rows)",
            "rows = 6 and vectors = 2 it is 0.857",
        ),
        ("answer = lambda rows, vectors: (rows, vectors)", "it returns a tuple"),
        ("answer = 12 / 8", "the answer is a number, and a function is wanted"),
    ),
    "09.2": (
        ("answer = 6, 2", "it is 1.5, and another tile has more"),
        ("answer = 6, 5", "it needs 36, and 32 are there"),
        ("answer = 30", "the answer is a number, and a pair of numbers is wanted"),
        ("answer = 2.5, 5", "not both whole numbers"),
    ),
    "09.3": (
        ("answer = lambda f, b: f / b", "it is 10, and 60 is wanted"),
        ("answer = lambda f, b: 6 * f / b", "for gflops = 100 and gbytes = 7 it is 85.7143"),
        ("answer = lambda f, b: 6 * f // b", "for gflops = 100 and gbytes = 7 it is 85, and 86"),
        ("answer = lambda f, b: print(f)", "it returns a NoneType"),
    ),
    "09.4": (
        (
            without("round i_start.own", "clamp i_sum.own"),
            "unroll i_start.own: its size, min(101 - 6*i.block, 6), is not",
        ),
        (without("parallel i.block"), "not yet: blocks are tasks"),
        (
            RIGHT.replace("split i by 6", "split i by 4"),
            "64 sums stand together, and 96 are wanted",
        ),
        (RIGHT.replace("by 8", "by 4"), "not yet: it is in vectors of 8"),
        ('answer = "parallel i"', "1 sums stand together, and 96 are wanted"),
        ('answer = "tile i by 6"', "the schedule is refused"),
    ),
}


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.id)
def test_a_solution_is_right(exercise: Any) -> None:
    verdict = exercise.check(answer_of(exercise.solution))
    assert verdict.right, verdict
    assert len(verdict.said) >= 2


@pytest.mark.parametrize(("id", "code"), [(id, code) for id in OTHERS for code in OTHERS[id]])
def test_other_spellings_are_right(id: str, code: str) -> None:
    verdict = BY_ID[id].check(answer_of(code))
    assert verdict.right, verdict


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
