"""The exercises of notebook 14: right answers pass, others are told what is not right yet."""

from typing import Any

import pytest

from luminal_lab.course.chapters.ch14 import EXERCISES
from tests.course.answering import ODD, answer_of, by_id, said, text_of
from tests.needs import need

BY_ID = by_id(EXERCISES)
RUN, LACKS, MENDED = (BY_ID[f"14.{k}"].solution for k in (1, 2, 3))
WRONG = {
    "14.1": (
        ("answer = lambda path, x: x", "not yet: it is right for a product"),
        (RUN.replace("tensor(x.shape)", "tensor((4, 8))"), "not yet: it is right for another"),
        ('answer = "model.onnx"', "expected a function"),
    ),
    "14.2": (
        ("answer = lambda path: set()", "not yet: it names an op of somebody's own"),
        ('answer = lambda path: {"Swish"}', "not yet: of a model that is all here"),
        (LACKS.replace("set(", "len("), "expected a set of names, got"),
        (LACKS.replace("set(", "dict("), "expected a set of names, got a dict"),
    ),
    "14.3": (
        ('answer = "h = MatMul(x, a) y = MatMul(h, b)"', "not yet: it comes in"),
        (
            'answer = "h = MatMul(x, a) k = com.example.Swish(h) y = MatMul(k, b)"',
            "not yet: no op of another domain is left",
        ),
        (MENDED.replace("Sigmoid", "Sigmoyd"), "not yet: it comes in"),
        (
            MENDED.replace("(h, s)", "(h, s"),
            "ONNX cannot read it, at 'y = MatMul(k, b)': Expected character )",
        ),
        (
            'answer = "h = MatMul(x, a) k = Mul(h, Sigmoid(h)) y = MatMul(k, b)"',
            "a node is called with names, not with other nodes",
        ),
        ("answer = 3", "expected a text of ONNX nodes"),
    ),
}


@pytest.fixture(autouse=True, scope="module")
def _the_package_onnx() -> None:
    need("onnx")


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
