"""The exercises of notebook 01: right answers pass, others are told what is not right yet."""

from pathlib import Path
from typing import Any

import pytest

from luminal_lab.course.chapters.ch01 import EXERCISES
from luminal_lab.course.chapters.lowered import TWELVE
from luminal_lab.course.desk import Desk
from tests.course.answering import ODD, answer_of, by_id, said, text_of

BY_ID = by_id(EXERCISES)
OTHERS = {
    "01.1": ("answer = lambda x: 1 / (1 + (x * -1.4426950408889634).exp2())",),
    "01.2": (
        "answer = lambda x, y: (x < y) * y + (1 - (x < y)) * x",
        "answer = lambda x, y: (x.unsqueeze(0).pad(((0, 1), (0, 0)) if x.ndim == 1 else "
        "((0, 1), (0, 0), (0, 0))) + y.unsqueeze(0).pad(((1, 0), (0, 0)) if x.ndim == 1 else "
        "((1, 0), (0, 0), (0, 0)))).max(0)",
    ),
    "01.3": ("answer = lambda x: x + (x % 1) * -1",),
    "01.4": (
        "def f(x):\n    s = 1 + x\n    for _ in range(3):\n        x = x * x\n"
        "        s = s * (1 + x)\n    return s\nanswer = f",
    ),
}
WRONG = {
    "01.1": (
        ("answer = lambda x: x.sigmoid()", "expected no other op, got where"),
        ("answer = lambda x: (1 + (x * 1.4426950408889634).exp2()).recip()", "expected "),
        (
            "answer = lambda x: (1 + (-x).exp()).recip()",
            "expected at most 8, got 18: 1 add, 5 constant, 4 exp2, 7 mul, 1 recip",
        ),
        ("answer = lambda x: (1 + (-x).exp2()).recip()", "is the sign of the exponent right?"),
    ),
    "01.2": (
        ("answer = lambda x, y: x.maximum(y)", "expected no other op, got where"),
        ("answer = lambda x, y: ll.stack([x, y]).max(0)", "expected no other op, got where"),
        (
            "answer = lambda x, y: (x < y) * y",
            "with arguments of (5,) and (5,), element [4] of what it returns: e",
        ),
        ("answer = max", "neither true nor false before it is computed"),
    ),
    "01.3": (
        ("answer = lambda x: x.floor()", "expected no other op, got where"),
        ("answer = lambda x: x.round()", "expected "),
        ("answer = lambda x: x % 1", "expected "),
        ("answer = np.floor", "is a tensor, and NumPy computes with arrays"),
    ),
    "01.4": (
        ("answer = lambda x: sum((x**k for k in range(1, 16)), 1 + x * 0)", "it writes"),
        ("answer = lambda x: sum((x**k for k in range(1, 15)), 1 + x * 0)", "expected "),
        (
            "answer = lambda x: (1 + x) * (1 + x * x) * (1 + x**4) * (1 + x**8)",
            "which values did you compute twice?",
        ),
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


def test_the_twelve_are_twelve() -> None:
    assert len(TWELVE) == 12


@pytest.mark.parametrize("answer", [..., None])
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.id)
def test_it_is_open_until_it_is_answered(exercise: Any, answer: Any, tmp_path: Path) -> None:
    shown = str(Desk(tmp_path).check(exercise.id, answer))
    assert f"{exercise.id} is still open: {exercise.task}" in shown
