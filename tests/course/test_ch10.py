"""The exercises of notebook 10: right answers pass, others are told what is not right yet."""

from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.course.chapters import ch10
from luminal_lab.course.chapters.ch10 import EXERCISES
from luminal_lab.course.compiling import compiled
from tests.course.answering import ODD, answer_of, by_id, said, text_of

BY_ID = by_id(EXERCISES)
STEP, MERGE, WINDOW = (BY_ID[f"10.{number}"].solution for number in (1, 2, 4))
OTHERS = {
    "10.1": (
        """\
def step(state, score, value):
    m, l, acc = state
    if score <= m:
        weight = np.exp(score - m)
        return [m, l + weight, acc + weight * value]
    return [score, l * np.exp(m - score) + 1, acc * np.exp(m - score) + value]
answer = step""",
    ),
    "10.2": (
        """\
def merge(first, second):
    if first[0] > second[0]:
        first, second = second, first
    less = np.exp(first[0] - second[0])
    return second[0], second[1] + first[1] * less, second[2] + first[2] * less
answer = merge""",
    ),
    "10.3": (
        "answer = lambda n, t, d: 16 * n * t",
        "answer = lambda n, t, d: np.int64(n) * t * 16.0",
    ),
    "10.4": (
        """\
def window(q, k, v):
    at = q.graph.arange(q.shape[0])
    i, j = at.unsqueeze(1), at.unsqueeze(0)
    seen = (j <= i) & (j > i - 8)
    return seen.where(q @ k.T * q.shape[1] ** -0.5, -np.inf).softmax(-1) @ v
answer = window""",
    ),
}
WRONG = {
    "10.1": (
        (
            STEP.replace("acc * correction", "acc"),
            "after 2 of the scores 0, 1, 0.5, 4: element [0] of acc, the weight",
        ),
        (STEP.replace("top = max(m, score)", "top = m"), "for the first score"),
        (
            STEP.replace("weight * value", "value"),
            "after 2 of the scores 2, 1, -3: element [0] of acc, the weighted s",
        ),
        ("answer = lambda state, score, value: score", "expected a state of three parts"),
        (
            "answer = lambda s, x, v: (max(s[0], x), "
            "(s[1] * np.exp(s[0]) + np.exp(x)) / np.exp(max(s[0], x)), "
            "(s[2] * np.exp(s[0]) + np.exp(x) * v) / np.exp(max(s[0], x)))",
            "after 1 of the scores -1000, 1000, 999, 5000, -5000: l, the sum of",
        ),
    ),
    "10.2": (
        (
            "answer = lambda a, b: (max(a[0], b[0]), a[1] + b[1], a[2] + b[2])",
            "not yet: it is right where the second has a larger one",
        ),
        (
            MERGE.replace("first[0] - top", "top - first[0]"),
            "for scores 1, 2 and 4, 0: l, the sum of the weights: expected 1.2",
        ),
        (
            MERGE.replace("first[2] * a", "first[2]"),
            "for scores 1, 2 and 4, 0: element [0] of acc, the weighted sum: e",
        ),
        (
            MERGE.replace("max(", "min("),
            "for scores 1, 2 and 4, 0: m, the largest score: expected 4, got 2",
        ),
    ),
    "10.3": (
        ("answer = lambda n, t, d: 4 * n * t", "expected 96, got 24"),
        ("answer = lambda n, t, d: 8 * n * t", "expected 96, got 48"),
        (
            "answer = lambda n, t, d: 4 * n * t * d",
            "for n = 4, t = 8 and d = 16: expected 512, got 2048",
        ),
        ("answer = lambda n, t, d: (n, t)", "what it returns: expected a number, got a tuple"),
    ),
    "10.4": (
        (
            "answer = lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True)",
            "not yet: it is right where some are too far back",
        ),
        (
            "answer = lambda q, k, v: q.scaled_dot_product_attention(k, v)",
            "not yet: it is right where all earlier positions are in the window",
        ),
        (WINDOW.replace("apart > 7", "apart > 8"), "some are too far back"),
        (WINDOW.replace("softmax(-1)", "softmax(-1).retrieve()"), "not yet: it becomes one kernel"),
        (WINDOW.replace("k.T", "k"), "the inner dims differ"),
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


@pytest.mark.parametrize(("n", "t", "d"), ch10.SIZES)
def test_the_saved_bytes_are_the_kernels(n: int, t: int, d: int) -> None:
    def carried(keep: bool) -> int:
        cx = ll.Graph()
        q, k, v = (cx.tensor((size, d), name=name) for size, name in ((n, "q"), (t, "k"), (t, "v")))
        weights = ((q @ k.T) * d**-0.5).softmax(-1)
        if keep:
            weights.retrieve()
        (weights @ v).retrieve()
        return sum(launch.bytes() for launch in compiled(cx).launches)

    assert carried(keep=True) - carried(keep=False) == ch10.bytes_saved(n, t)
