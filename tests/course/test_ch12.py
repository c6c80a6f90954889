"""The exercises of notebook 12: right answers pass, others are told what is not right yet."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.course.chapters.ch12 import EXERCISES
from luminal_lab.course.desk import Desk
from luminal_lab.course.isolated import CallLimits
from tests.course.answering import ODD, by_id, text_of
from tests.needs import need

pytestmark = pytest.mark.filterwarnings("ignore:op '.*' was defined again")
NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "12_new_backend.ipynb"
BY_ID = by_id(EXERCISES)
MOD = "answer = StackMachine(CAREFUL | {'mod': MOD}, WRITERS | {'mod': elementwise})"
FLIP = (
    "flip = moved(lambda op, old, new, at: tuple(\n"
    "    n - 1 - k if axis in op.axes else k for axis, (n, k) in enumerate(zip(old, at))))\n"
)
PAD = """
def padded(node, shapes, place):
    (source,) = node.sources
    at = tuple(k - before for k, before in zip(place, node.op.before))
    if all(TEST for k, n in zip(at, shapes[source])):
        yield "load", (source, at)
    else:
        yield "push", 0.0

answer = StackMachine(CAREFUL, WRITERS | {"flip": flip, "pad": padded})
"""
ADD = BY_ID["12.4"].solution
WINDOW = BY_ID["12.5"].solution
WRONG = {
    "12.1": (
        (MOD.replace("MOD", "lambda a, b: a % b", 1), "cases are wrong"),
        (MOD.replace("MOD", "math.fmod", 1), "not yet: it computes mod"),
        ("answer = StackMachine(CAREFUL)", "mod is not there yet"),
        ("answer = StackMachine", "the class StackMachine itself"),
    ),
    "12.2": (
        (FLIP + PAD.replace("TEST", "0 <= k"), "not yet: it computes pad"),
        (FLIP + PAD.replace("TEST", "0 <= k <= n"), "not yet: it computes pad"),
        (FLIP.replace("n - 1 - k", "n - k") + PAD.replace("TEST", "0 <= k < n"), "computes flip"),
        ("answer = StackMachine(CAREFUL, WRITERS)", "flip is not there yet"),
    ),
    "12.3": (
        ('answer = ("max_reduce", 8)', "the maximum of 8 numbers is right"),
        ('answer = ("sum_reduce", 9)', "an op that the kit blames"),
        ('answer = ("max_reduce", "nine")', "a number from 1 to 1,000"),
        ('answer = "max_reduce"', "expected a pair, got a text"),
    ),
    "12.4": (
        ("answer = StackCompiler(StackMachine(CAREFUL))", "expected at most 4 for each, got 6"),
        (
            ADD.replace("z: x * y + z", "z: x * y - z"),
            "element [0, 0] of the answer: expected -1.55537, got 1.93238",
        ),
        ("answer = StackMachine(CAREFUL)", "expected a device's pipeline"),
        ("answer = 'dce'", "expected a device's pipeline"),
        ("answer = ll.CPUCompiler()", "its machine counts what it executes"),
    ),
    "12.5": (
        ("answer = SmallXLA()", "window is not there yet"),
        (WINDOW.replace("op.dilation * jnp", "jnp"), "not yet: it computes window"),
        (WINDOW.replace(", op.stride)", ")"), "not yet: it computes window"),
        (WINDOW.replace("op.axis + 1, -1", "-1, -1"), "not yet: it computes window"),
        (WINDOW.replace("IN_JAX | ", ""), "reshape is not there yet"),
        ("answer = SmallXLA", "the class SmallXLA itself"),
    ),
}


@cache
def built() -> dict[str, Any]:
    """Return the names that the notebook has made when its exercises begin."""
    need("IPython")
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {"ll": ll, "__name__": "chapter"}
    for cell in cells:
        if "machine" in cell["metadata"].get("tags", ()):
            exec("".join(cell["source"]), names)
    return names


def answer_of(code: str) -> Any:
    names = dict(built())
    exec(code, names)
    return names["answer"]


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.id)
def test_its_solution_is_right(exercise):
    if exercise.id == "12.5":
        need("jax")
    verdict = exercise.check(answer_of(exercise.solution))
    assert verdict.right, text_of(verdict)


@pytest.mark.parametrize(
    ("id", "code", "words"),
    [(id, code, words) for id, wrong in WRONG.items() for code, words in wrong],
)
def test_wrong_answers_are_told_why(id, code, words):
    if id == "12.5":
        need("jax")
    verdict = BY_ID[id].check(answer_of(code))
    assert not verdict.right
    assert words in text_of(verdict)


def test_images_are_checked_where_jax_has_its_threads(tmp_path):
    need("jax")
    answer = answer_of(WINDOW)
    cx = ll.Graph()
    (cx.tensor((2,), name="x") * 2).retrieve()
    answer.run(cx.ir, {"x": np.ones(2, np.float32)})  # JAX begins its threads here
    assert Desk(tmp_path, CallLimits(120)).check("12.5", answer).head == "12.5 is right"


def test_images_need_jax(monkeypatch):
    monkeypatch.setattr("luminal_lab.course.chapters.ch12.find_spec", lambda name: None)
    verdict = BY_ID["12.5"].check(answer_of("answer = SmallXLA()"))
    assert verdict.said[0] == "not yet: JAX is installed"
    assert "luminal-lab[xla]" in verdict.hint


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.id)
def test_odd_answers_get_a_sentence(exercise, odd):
    verdict = exercise.check(ODD[odd])
    assert not verdict.right
    assert any(line.startswith("not yet: ") for line in verdict.said)
