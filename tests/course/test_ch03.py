"""The exercises of notebook 03: right answers pass, others are told what is not right yet."""

from pathlib import Path
from typing import Any

import pytest

from luminal_lab.course.chapters.ch03 import EXERCISES
from luminal_lab.course.desk import Desk
from tests.course.answering import ODD, answer_of, by_id, said, text_of

BY_ID = by_id(EXERCISES)
CAUSAL = """\
def causal(q, k, v):
    n, d = q.shape
    at = q.graph.arange(n)
    mask = at.reshape(n, 1) < at.reshape(1, n)
    return (q @ k.T * {scale} + mask * {low}).softmax(-1) @ v
answer = causal
"""
OTHERS = {
    "03.1": (
        "answer = lambda x: x.log_softmax(-1)",
        "answer = lambda x: x - (m := x.max(-1, keepdim=True)) - "
        "(x - m).exp().sum(-1, keepdim=True).log()",
    ),
    "03.2": (
        "answer = lambda x: x.max_pool(2)",
        "answer = lambda x: x.unfold(2, 2, 2).unfold(3, 2, 2).max((4, 5))",
    ),
    "03.3": (CAUSAL.format(scale="d**-0.5", low="-1e30"),),
    "03.4": (
        "def f(t, i):\n    c = t.graph.arange(t.shape[0])\n"
        "    return (i.unsqueeze(1) == c).cast('float32') @ t\nanswer = f",
    ),
}
WRONG = {
    "03.1": (
        (
            "answer = lambda x: x.softmax(-1)",
            "with an argument of (3, 8), element [0, 0] of what it returns: exp",
        ),
        (
            "answer = lambda x: x - x.exp().sum(-1, keepdim=True).log()",
            "first subtract the largest number",
        ),
        ("answer = lambda x: x.softmax(-1).log()", "numbers in the hundreds"),
        ("answer = lambda x: x.log_softmax(0)", "expected "),
    ),
    "03.2": (
        ("answer = lambda x: x.avg_pool(2)", "it is right for an image of (4, 6)"),
        (
            "answer = lambda x: x.unfold(2, 2).unfold(3, 2).max((4, 5))",
            "expected the shape (1, 1, 2, 3)",
        ),
        (
            "answer = lambda x: x.reshape(1, 1, 2, 2, 3, 2).max((3, 5))",
            "take n, c, h and w from x.shape",
        ),
        (
            "def f(x):\n    a = x[:, :, ::2].maximum(x[:, :, 1::2])\n"
            "    return a[..., ::2].maximum(a[..., 1::2])\nanswer = f",
            "expected no other op, got constant and less_than and mul and where",
        ),
    ),
    "03.3": (
        (
            "answer = lambda q, k, v: (q @ k.T * q.shape[1]**-0.5).softmax(-1) @ v",
            "the first row sees itself alone",
        ),
        (CAUSAL.format(scale="1", low="-1e9"), "are the scores scaled"),
        (CAUSAL.format(scale="d**-0.5", low="-1"), "has to be very small"),
        (
            "def f(q, k, v):\n    n, d = q.shape\n"
            "    s = (q @ k.T * d**-0.5).masked_fill(q.graph.ones((n, n)).triu(1) > 0, -1e9)\n"
            "    return s.softmax(-1) @ v\nanswer = f",
            "expected no other op, got where",
        ),
    ),
    "03.4": (
        ("answer = lambda t, i: t.embedding(i)", "expected no other op, got gather"),
        ("answer = lambda t, i: t", "expected the shape (3, 3), got (4, 3)"),
        (
            "def f(t, i):\n    c = t.graph.arange(t.shape[0])\n"
            "    return (i.unsqueeze(1) < c).cast('float32') @ t\nanswer = f",
            "make a table of ones and zeros",
        ),
        (
            "def f(t, i):\n    c = t.graph.arange(4)\n"
            "    return (i.unsqueeze(1) == c).cast('float32') @ t\nanswer = f",
            "other tables and indices",
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


@pytest.mark.parametrize("answer", [..., None])
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.id)
def test_it_is_open_until_it_is_answered(exercise: Any, answer: Any, tmp_path: Path) -> None:
    shown = str(Desk(tmp_path).check(exercise.id, answer))
    assert f"{exercise.id} is still open: {exercise.task}" in shown
