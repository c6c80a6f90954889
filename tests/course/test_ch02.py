"""The exercises of notebook 02: right answers pass, others are told what is not right yet."""

from pathlib import Path
from typing import Any

import pytest

from luminal_lab.course.chapters.ch02 import EXERCISES
from luminal_lab.course.desk import Desk
from tests.course.answering import ODD, answer_of, by_id, said, text_of

BY_ID = by_id(EXERCISES)
OTHERS = {
    "02.1": (
        "answer = lambda i, j: int(np.arange(24).reshape(4, 6).T.reshape(3, 8)[i, j])",
        "answer = lambda i, j: 2 * i + 6 * (j % 4) + j // 4",
    ),
    "02.2": (
        "answer = lambda x, n: x.unfold(x.ndim - 1, n).sum(x.ndim)",
        "answer = lambda x, n: x.pool_last_dim(n).sum(-1)",
    ),
    "02.3": (
        "answer = lambda x: x.flip(1).diagonal()",
        "answer = lambda x: x.fliplr().diagonal()",
    ),
    "02.4": (
        "answer = lambda x: x.repeat_interleave(2, 0).repeat_interleave(2, 1)",
        "answer = lambda x: x.expand_dim(1, 2).expand_dim(3, 2).reshape(\n"
        "    2 * x.shape[0], 2 * x.shape[1])",
    ),
}
WRONG = {
    "02.1": (
        ("answer = lambda i, j: 8 * i + j", "offset(0, 1): expected 6, got 1"),
        ("answer = lambda i, j: j + 6 * i", "offset(0, 1): expected 6, got 1"),
        (
            "answer = lambda i, j: 6 * (j % 4) + j // 4",
            "offset(1, 0): expected 2, got 0",
        ),
        ("answer = lambda i: i", "TypeError"),
        ("answer = lambda i, j: 10**400", "expected numbers"),
    ),
    "02.2": (
        ("answer = lambda x, n: x.unfold(-1, 3).sum(-1)", "is n used, and not a number"),
        ("answer = lambda x, n: x.unfold(-1, n).mean(-1)", "expected "),
        ("answer = lambda x, n: x.unfold(-1, n).sum(0)", "expected the shape (6,)"),
        (
            "answer = lambda x, n: sum(x.slice_along(-1, k, x.shape[-1] - n + 1 + k)"
            " for k in range(n))",
            "expected no other op, got add and constant",
        ),
    ),
    "02.3": (
        ("answer = lambda x: x.diagonal()", "element [0] of what it returns"),
        ("answer = lambda x: x.flip(0).diagonal()", "its first element is x[0, n - 1]"),
        (
            "answer = lambda x: x.flip(1).reshape(16).pad(((0, 4),)).reshape(4, 5)"
            ".slice([(0, 4), (0, 1)]).reshape(4)",
            "take the sizes from x.shape",
        ),
        (
            "answer = lambda x: (x.flip(1) * x.graph.eye(x.shape[0])).sum(-1)",
            "it is made of views alone\n  expected no other op, got",
        ),
    ),
    "02.4": (
        ("answer = lambda x: x.repeat(2, 2)", "expected "),
        ("answer = lambda x: x.repeat_interleave(2, 0)", "expected the shape (4, 6), got (4, 3)"),
        (
            "answer = lambda x: x.reshape(2, 1, 3, 1).expand(2, 2, 3, 2).reshape(4, 6)",
            "take the sizes from x.shape",
        ),
        ("answer = lambda x: x.interpolate(scale_factor=2)", "interpolate"),
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


@pytest.mark.parametrize("answer", [..., None])
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.id)
def test_it_is_open_until_it_is_answered(exercise: Any, answer: Any, tmp_path: Path) -> None:
    shown = str(Desk(tmp_path).check(exercise.id, answer))
    assert f"{exercise.id} is still open: {exercise.task}" in shown
