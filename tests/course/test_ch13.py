"""The exercises of notebook 13: right answers pass, others are told what is not right yet."""

from typing import Any

import pytest

from luminal_lab.algebra.rules import RULES
from luminal_lab.course.chapters.ch13 import EXERCISES, attention, best_of, passes
from tests.course.answering import ODD, answer_of, by_id, said, text_of

BY_ID = by_id(EXERCISES)
ROWS = BY_ID["13.4"].solution
OTHERS = {
    "13.1": ("answer = (-150.0, 149)", "answer = [np.float64(1000), -1000]"),
    "13.3": ('answer = "sum-factor"', 'answer = "shift-max"'),
    "13.4": ("answer = lambda x: x.logsumexp(-1)",),
}
WRONG = {
    "13.1": (
        ("answer = (1, -1)", "not yet: exp2(a) * exp2(b), which is 1, is not"),
        ("answer = (130, 1)", "not yet: exp2(a + b), which is inf, is finite"),
        ("answer = (-200, 200)", "not yet: they are not the numbers of the notebook"),
        ("answer = 130", "expected a pair of two numbers"),
    ),
    "13.2": (
        ('answer = ll.search.RULES["join-exp2"]', "not yet: its equation is log2(exp2(x)) → x"),
        ("answer = ll.GenericCompiler()", "expected a rule of search"),
    ),
    "13.3": (
        ('answer = "cascade"', "not yet: it is not cascade"),
        ('answer = "softmax"', "not yet: it is the name of a rule"),
        ('answer = "max-mul"', "there still is a program of one pass"),
    ),
    "13.4": (
        (
            "answer = lambda x: x.exp().sum(-1).log()",
            "element [0] of for numbers around 1000, what it returns: expected",
        ),
        ("answer = lambda x: x.logsumexp(0)", "not yet: it is right for small numbers"),
        (
            ROWS.replace(
                "return ", "return (x - x.max(-1, keepdim=True)).sin().sum(-1) * 1e-20 + "
            ),
            "expected 1 pass, got 2",
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


def test_the_rules_that_one_pass_needs_are_those_that_the_notebook_lets_one_find() -> None:
    cx = attention()
    names = [rule.name for rule in RULES]
    needed = [name for name in names if passes(best_of(cx, RULES.without(name)), "t") > 1]
    assert passes(best_of(cx, RULES), "t") == 1
    assert {"cascade", "sum-factor", "ratio-exp2", "shift-max"} <= set(needed)
    assert len(needed) < len(names) / 2
