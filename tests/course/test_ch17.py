"""The exercises of notebook 17: right answers pass, others are told what is not right yet."""

from typing import Any

import pytest

from luminal_lab.course.chapters.ch17 import EXERCISES
from tests.course.answering import ODD, answer_of, by_id, said, text_of

BY_ID = by_id(EXERCISES)
WEIGHT, BODY, TOGETHER, TWO = (BY_ID[f"17.{k}"].solution for k in (1, 2, 3, 4))
WRONG = {
    "17.1": (
        (WEIGHT.replace("end + first : end + last", "first:last"), "not yet: it finds the first"),
        (WEIGHT.replace('"little"', '"big"'), "not yet: it finds the first"),
        (WEIGHT.replace(".reshape(entry", ".reshape(-1) if entry else (entry"), "got (12,)"),
        ("answer = lambda data, name: name", "expected numbers, got a text"),
    ),
    "17.2": (
        (BODY.replace("FP32", "float32"), "datatype: expected 'FP32', got 'float32'"),
        (BODY.replace("array.shape", "array.size"), "shape: expected [2, 3], got 6"),
        (BODY.replace("array.ravel()", "array.T.ravel()"), "element [1] of data"),
        (BODY.replace('{"inputs": [', '{"input": ['), 'expected {"inputs": [one input]}'),
        (BODY.replace("return json.dumps", "return str"), "this is no JSON"),
        ("answer = lambda name, array: array", "expected a text, got an array of NumPy"),
    ),
    "17.3": (
        ("answer = lambda call, requests: [call(r) for r in requests]", "one call, got 4"),
        (TOGETHER.replace("ends[:-1]", "ends"), "expected 4 answers, got 5"),
        (TOGETHER.replace("ends[:-1]", "len(requests)"), "not yet: requests may have several"),
        ("answer = lambda call, requests: 1", "expected a list of answers, got a number"),
    ),
    "17.4": (
        ("answer = lambda a: a.max(-1) * 2", "not yet: it is the sum of the two largest"),
        (
            "answer = lambda a: a.graph.function(\n"
            "    lambda b: np.sort(b, -1)[..., -2:].sum(-1), a, shape=a.shape[:-1])",
            "host_call cannot leave",
        ),
        ("answer = lambda a: 3", "expected a tensor, got a number"),
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


def test_tensor_s_own_operations_leave() -> None:
    """Another right answer than the one that is shown."""
    other = "answer = lambda a: a.topk(2)[0].sum(-1)"
    assert BY_ID["17.4"].check(answer_of(other)).right
