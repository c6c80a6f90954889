"""The exercises of notebook 16: right answers pass, others are told what is not right yet."""

from typing import Any

import pytest

from luminal_lab.course.chapters.ch16 import EXERCISES
from tests.course.answering import ODD, answer_of, by_id, said, text_of

BY_ID = by_id(EXERCISES)
NEEDED, LETTERS, POLICY = (BY_ID[f"16.{k}"].solution for k in (1, 2, 3))
WRONG = {
    "16.1": (
        (NEEDED.replace("wanted |= set(reads)", "pass"), "expected [0, 2], got [2]"),
        (NEEDED.replace("found[::-1]", "found"), "expected [0, 2], got [2, 0]"),
        (NEEDED.replace("if wanted & set(makes)", "if True"), "expected [0, 2], got [0, 1, 2, 3]"),
        ("answer = lambda launches, wanted: 3", "expected a list of launches, got a number"),
    ),
    "16.2": (
        ("answer = lambda size: size * 4 // 3", "1 bytes: expected 4, got 1"),
        ("answer = lambda size: size * 4 / 3", "expected a whole number"),
        ("answer = lambda size: size // 3 * 4 + 4", "3000 bytes: expected 4000, got 4004"),
    ),
    "16.3": (
        (POLICY.replace("default-src 'none'; ", ""), "expected default-src 'none'"),
        (POLICY.replace(" 'wasm-unsafe-eval'", ""), "WebAssembly does not start"),
        (POLICY.replace("'wasm", "'unsafe-inline' 'wasm"), "'unsafe-inline' lets others run, too"),
        (POLICY.replace(".digest()", ".hexdigest().encode()"), "does not run: 'sha256-"),
        (POLICY.replace("script.encode()", "b'run()'"), 'the script say("é") does not run'),
        (POLICY.replace("'none';", "'none'; img-src *;"), "img-src is a rule too many"),
        ("answer = lambda script: b''", "expected a text, got some bytes"),
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
