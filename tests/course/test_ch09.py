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
        (
            "answer = lambda rows, vectors: rows * vectors",
            "for rows = 1 and vectors = 1: expected 0.5, got 1",
        ),
        (
            "answer = lambda rows, vectors: rows / (1 + rows)",
            "for rows = 6 and vectors = 2: expected 1.5, got 0.857143",
        ),
        (
            "answer = lambda rows, vectors: (rows, vectors)",
            "for rows = 1 and vectors = 1: expected a number, got a tuple",
        ),
        ("answer = 12 / 8", "expected a function, got a number"),
    ),
    "09.2": (
        ("answer = 6, 2", "expected 2.5, which another tile reaches, got 1.5"),
        ("answer = 6, 5", "expected at most 32, got 36"),
        ("answer = 30", "expected a pair of numbers, got a number"),
        ("answer = 2.5, 5", "not both whole numbers"),
    ),
    "09.3": (
        ("answer = lambda f, b: f / b", "expected 60, got 10"),
        (
            "answer = lambda f, b: 6 * f / b",
            "for gflops = 100 and gbytes = 7: expected 86, got 85.7143",
        ),
        (
            "answer = lambda f, b: 6 * f // b",
            "for gflops = 100 and gbytes = 7: expected 86, got 85",
        ),
        (
            "answer = lambda f, b: print(f)",
            "for gflops = 200 and gbytes = 20: expected a number, got a NoneType",
        ),
    ),
    "09.4": (
        (
            without("round i_start.own", "clamp i_sum.own"),
            "unroll i_start.own: its size, min(101 - 6*i.block, 6), is not",
        ),
        (without("parallel i.block"), "not yet: blocks are tasks"),
        (
            RIGHT.replace("split i by 6", "split i by 4"),
            "expected 96 sums together, got 64",
        ),
        (RIGHT.replace("by 8", "by 4"), "not yet: it is in vectors of 8"),
        ('answer = "parallel i"', "expected 96 sums together, got 1"),
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
