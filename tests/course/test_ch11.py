"""The exercises of notebook 11: right answers pass, others are told what is not right yet."""

from typing import Any

import pytest

from luminal_lab.course.chapters.ch11 import EXERCISES
from tests.course.answering import ODD, answer_of, by_id, said, text_of

BY_ID = by_id(EXERCISES)
GATED, SIZE, LOOP, TEMPERED = (one.solution for one in EXERCISES)
OTHERS = {
    "11.2": ("answer = lambda layers, heads, head, n: sum([8 * heads * head * n] * layers)",),
    "11.4": (
        "def answer(logits, temperature):\n"
        "    e = ((logits - logits.max(-1, keepdim=True)) / temperature).exp()\n"
        "    return e / e.sum(-1, keepdim=True)",
    ),
}
WRONG = {
    "11.1": (
        (GATED.replace(", bias=False", ""), "expected no other parameter, got gate.bias as well"),
        (GATED.replace("Gated(8, 12)", "Gated(12, 8)"), "expected the shape (12, 8), got (8, 12)"),
        (GATED.replace("gate(x).silu() * self.up(x)", "gate(x) * self.up(x).silu()"), "expected "),
        (GATED.replace("Gated(8, 12)", "Gated"), "the class Gated itself"),
    ),
    "11.2": (
        (SIZE.replace("2 * layers", "layers"), "for 1 layers, 1 heads of 4 and 8 positions"),
        (SIZE.replace("2 * layers", "2"), "not yet: it is right for several layers and heads"),
        (SIZE.replace(" * 4\n", "\n"), "expected 256, got 64"),
        ("answer = 256", "expected a function, got a number"),
    ),
    "11.3": (
        (LOOP.replace("        cache.advance()\n", ""), "not yet: it goes on with a prompt"),
        (LOOP.replace("return text + rows", "return text"), "expected the shape (9,), got (8,)"),
        (LOOP.replace("len(prompt) + count", "6"), "not yet: it goes on with a prompt"),
        (
            LOOP.replace("cache=cache", "cache=None")
            .replace("        cache.advance()\n", "")
            .replace("[best.item()]", "rows + [best.item()]")
            .replace("text, rows = text + rows", "text, rows = []"),
            "not yet: the model is given a cache",
        ),
        (LOOP.replace("return text + rows", "return len(text)"), "expected a list of tokens, got"),
    ),
    "11.4": (
        ("answer = lambda logits, t: logits.softmax(-1)", "not yet: a low temperature sharpens"),
        (TEMPERED.replace("/", "*"), "at a temperature of 0.5"),
        (TEMPERED.replace("(-1)", "(0)"), "not yet: at a temperature of 1 it is the softmax"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.id)
def test_its_solution_is_right(exercise):
    verdict = exercise.check(answer_of(exercise.solution))
    assert verdict.right, text_of(verdict)


@pytest.mark.parametrize(("id", "code"), [(id, one) for id, all_ in OTHERS.items() for one in all_])
def test_other_right_answers_are_right(id, code):
    verdict = BY_ID[id].check(answer_of(code))
    assert verdict.right, text_of(verdict)


@pytest.mark.parametrize(
    ("id", "code", "words"),
    [(id, code, words) for id, all_ in WRONG.items() for code, words in all_],
)
def test_wrong_answers_are_told_why(id, code, words):
    assert words in said(BY_ID[id], code)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.id)
def test_odd_answers_get_a_sentence(exercise, odd):
    answer: Any = ODD[odd]
    verdict = exercise.check(answer)
    assert not verdict.right
    assert any(line.startswith("not yet: ") for line in verdict.said)
