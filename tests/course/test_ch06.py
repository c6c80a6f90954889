"""The exercises of notebook 06: right answers pass, others are told what is not right yet."""

from typing import Any

import pytest

from luminal_lab.course.chapters.ch06 import EXERCISES
from tests.course.answering import ODD, answer_of, by_id, said, text_of
from tests.needs import need

BY_ID = by_id(EXERCISES)
NN = "from luminal_lab import nn\n"
SMALL = NN + "small = nn.Sequential(nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))\n"
MOMENTUM = NN + (
    "class Momentum(nn.Optimiser):\n"
    "    def update(self, weight, gradient, state):\n"
    "        new = {new}\n"
    "        {keep}\n"
    "        return weight - new * state.numbers['lr']\n"
    "answer = Momentum(lr={lr})"
)
OTHERS = {
    "06.1": (
        "def slope(x):\n    s = 1 / (1 + (-x).exp())\n    return s * (1 + x * (1 - s))\n"
        "answer = slope",
    ),
    "06.2": (
        "answer = ll.custom_gradient(lambda x: (x * 1, lambda g: -g / 2))",
        "answer = lambda x: x.detach() * 1.5 - x * 0.5",
    ),
    "06.3": (NN + "answer = nn.SGD(lr=0.1, momentum=0.9)",),
    "06.4": (NN + "answer = [nn.Sequential(nn.Linear(64, 10)), nn.AdamW(lr=0.03)]",),
}  # fmt: skip
DATA = {"06.4": ("sklearn",)}
"""What an exercise reads."""
WRONG = {
    "06.1": (
        ("answer = lambda x: x.sigmoid() * (1 - x.sigmoid())", "a product u * v has the gradient"),
        ("answer = lambda x: x * x.sigmoid()", "element [0] of what it returns: expected"),
        (
            "answer = lambda x: (x.sigmoid() + x * x.sigmoid() * (1 - x.sigmoid())).sum()",
            "expected the shape (5,), got ()",
        ),
        (
            "answer = lambda x: ll.grad((x * x.sigmoid()).sum(), x)",
            "it calls ll.grad or backward",
        ),
    ),
    "06.2": (
        ("answer = lambda x: x", "expected 0.299322, got -0.598644"),
        ("answer = lambda x: x * -0.5", "the value on the way forward is x"),
        (
            "answer = ll.custom_gradient(lambda x: (x, lambda g: -g))",
            "element [0, 0] of the gradient: expected 0.299322, got 0.598644",
        ),
        ("answer = lambda x: x.detach()", "expected 0.299322, got 0"),
        ("answer = ll.custom_gradient(lambda x: x)", "Error"),
    ),
    "06.3": (
        (
            MOMENTUM.format(new="state['v'] * 0.9 + gradient", keep="pass", lr=0.1),
            "the new velocity has to be remembered, too",
        ),
        (
            MOMENTUM.format(new="state['v'] * 0.9 + gradient", keep="state['v'] = new", lr=0.01),
            "after step 1",
        ),
        (
            MOMENTUM.format(
                new="state['v'] * 0.9 + gradient * 0.1", keep="state['v'] = new", lr=0.1
            ),
            "the first velocity is the gradient",
        ),
        (NN + "answer = nn.SGD(lr=0.1)", "after step 2"),
        (NN + "answer = nn.SGD", "with brackets"),
    ),
    "06.4": (
        (
            NN + "answer = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)), "
            "nn.AdamW(lr=0.01)",
            "it has 2,410",
        ),
        (SMALL + "answer = small, nn.AdamW(lr=0.0001)", "try another rate"),
        (SMALL + "answer = small", "expected a pair of a model and an optimiser"),
        (NN + "answer = nn.Linear(64, 9), nn.AdamW(lr=0.02)", "expected the shape (64, 10), got"),
        (NN + "answer = nn.Linear(32, 10), nn.AdamW(lr=0.02)", "the first layer takes the 64"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.id)
def test_a_solution_is_right(exercise: Any) -> None:
    need(*DATA.get(exercise.id, ()))
    verdict = exercise.check(answer_of(exercise.solution))
    assert verdict.right, verdict
    assert len(verdict.said) >= 2


@pytest.mark.parametrize(("id", "code"), [(id, code) for id in OTHERS for code in OTHERS[id]])
def test_other_spellings_are_right(id: str, code: str) -> None:
    need(*DATA.get(id, ()))
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
