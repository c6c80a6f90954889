"""The exercises of notebook 00: right answers pass, others are told what is not right yet."""

from pathlib import Path
from typing import Any

import pytest

from luminal_lab.course.chapters.ch00 import EXERCISES
from luminal_lab.course.desk import Desk
from tests.course.answering import ODD, answer_of, by_id, said, text_of

BY_ID = by_id(EXERCISES)
COLUMN = "cx = ll.Graph()\nc = cx.tensor((9, 1)).set([[n] for n in range(1, 10)])\n"
ROW = "r = cx.tensor((1, 9)).set([list(range(1, 10))])\n"
SCALED = "cx = ll.Graph()\nx = cx.tensor((4, 8), name='x')\n"
OTHERS = {
    "00.1": (
        COLUMN + ROW + "answer = c * r",
        "cx = ll.Graph()\nn = cx.arange(1, 10)\nanswer = n.outer(n)",
        COLUMN + "answer = (c @ c.T).reshape(9, 9)",
    ),
    "00.2": (
        "answer = lambda x, w, b: (x.matmul(w) + b).maximum(0)",
        "answer = lambda x, w, b: x.linear(w.T, b).relu()",
    ),
    "00.3": (
        SCALED + "y = x.layer_norm(-1).retrieve()\ncx.compile()\nanswer = cx",
        SCALED + "e = (x - x.max(-1, keepdim=True)).exp()\n"
        "y = (e / e.sum(-1, keepdim=True)).retrieve()\ncx.compile()\nanswer = cx",
    ),
}  # fmt: skip
WRONG = {
    "00.1": (
        ("answer = np.outer(np.arange(1, 10), np.arange(1, 10))", "expected a tensor of a graph"),
        (COLUMN + ROW + "answer = c + r", "element [0, 0] of the answer: expected 1, got 2"),
        (COLUMN + ROW + "answer = r.matmul(c)", "expected the shape (9, 9), got (1, 1)"),
        (
            "a = np.arange(1, 10)\nanswer = ll.Graph().tensor((9, 9)).set(np.outer(a, a))",
            "whose table was made elsewhere",
        ),
    ),
    "00.2": (
        ("answer = lambda x, w, b: x @ w + b", "with arguments of (3, 4) and (4, 5) and (5,)"),
        ("answer = lambda x, w, b: (x @ w + b).reshape(3, 5).relu()", "other sizes too"),
        ("answer = lambda x, w, b: (w @ x + b).relu()", "the inner dims differ"),
        (
            "cx = ll.Graph()\nanswer = cx.tensor((3, 5)).relu()",
            "expected a function, got a tensor",
        ),
    ),
    "00.3": (
        (SCALED + "y = x.softmax(-1).retrieve()\nanswer = cx", "the graph is not compiled"),
        (
            "cx = ll.Graph()\ny = (cx.arange(8) * 2.0).softmax(0).retrieve()\n"
            "cx.compile()\nanswer = cx",
            "not yet: it has a result that depends on an input",
        ),
        (SCALED + "y = (x * 2).retrieve()\ncx.compile()\nanswer = cx", "expected 8 or more, got 2"),
        (
            SCALED + "y = (x.sin() * x.sqrt() + 2 * x).sin().sqrt().retrieve()\n"
            "cx.compile()\nanswer = cx",
            "expected at most 2, got 8",
        ),
    ),
}  # fmt: skip


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
