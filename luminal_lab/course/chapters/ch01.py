"""The exercises of notebook 01: what is not among the twelve is spelled in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.course.chapters.lowered import (
    FREE,
    MOVING,
    TWELVE,
    beyond,
    more_than,
    no_function,
)
from luminal_lab.course.exercise import Exercise, Verdict
from luminal_lab.course.probing import agrees_lazily

SIGMOID, FLOOR, POWERS = 8, 6, 15
"""The most nodes of each answer; views are not counted."""
ONE, TWO = [(5,)], [(5,), (5,)]


def spelled(
    called: str,
    reference: Callable[..., Array],
    shapes: list[list[tuple[int, ...]]],
    *,
    most: int | None = None,
    hint: str,
) -> Callable[[object], Verdict]:
    """Return the check of a function that is made of the twelve, with at most so many nodes."""

    def check(answer: object) -> Verdict:
        if (none := no_function(answer, called)) is not None:
            return none
        function = cast("Callable[..., object]", answer)
        allowed = TWELVE | FREE | MOVING
        fits = "every node is one of the twelve, a constant, a cast or a view"
        few = f"it writes {most} nodes or fewer, views not counted"
        counted = lambda: more_than(most or 0, function, shapes[0], MOVING)  # noqa: E731
        return Verdict.all(
            ("its values are right", lambda: agrees_lazily(function, reference, shapes), hint),
            (
                fits,
                lambda: beyond(function, shapes[0], allowed),
                "print(….lowering()) shows what a method writes; use operators instead",
            ),
            *([(few, counted, "which values did you compute twice?")] if most else []),
        )

    return check


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def _floor(x: Array) -> Array:
    return np.floor(x)


def _powers(x: Array) -> Array:
    return sum((x.astype(np.float64) ** k for k in range(1, 16)), np.ones(x.shape))


EXERCISES = (
    Exercise(
        "01.1",
        f"Write sigmoid(x) = 1 / (1 + e^-x) in the twelve, with at most {SIGMOID} nodes.",
        (
            "e to the z is 2 to the z · log2(e), and log2(e) is 1.4426950408889634.",
            "The twelve have exp2 and recip; recip is 1 / something.",
            "return (1 + (x * -1.4426950408889634).exp2()).recip()",
        ),
        """\
def sigmoid(x):
    return (1 + (x * -1.4426950408889634).exp2()).recip()

answer = sigmoid
""",
        spelled(
            "sigmoid",
            _sigmoid,
            [ONE, [(3, 4)]],
            most=SIGMOID,
            hint="at x = 0 it is 0.5; is the sign of the exponent right?",
        ),
    ),
    Exercise(
        "01.2",
        "Write maximum(x, y), the larger of two numbers, in the twelve: without a where.",
        (
            "x < y is a table of True and False; times a number, it counts as 1 and 0.",
            "The larger one is x, plus something where y is larger. What is that something?",
            "return x + (x < y) * (y - x)",
        ),
        """\
def maximum(x, y):
    return x + (x < y) * (y - x)

answer = maximum
""",
        spelled(
            "maximum",
            np.maximum,
            [TWO, [(3, 4), (3, 4)]],
            hint="try x = 1, y = 2 and the other way round on paper",
        ),
    ),
    Exercise(
        "01.3",
        f"Write floor(x), the next whole number below, in the twelve, with at most {FLOOR} nodes.",
        (
            "Which of the twelve knows about whole numbers?",
            "x % 1 is what lies above the whole number, also for negative x.",
            "return x - x % 1",
        ),
        """\
def floor(x):
    return x - x % 1

answer = floor
""",
        spelled(
            "floor",
            _floor,
            [ONE, [(3, 4)]],
            most=FLOOR,
            hint="floor(-0.5) is -1, and floor(2.7) is 2",
        ),
    ),
    Exercise(
        "01.4",
        f"Write 1 + x + x² + … + x¹⁵ with at most {POWERS} nodes.",
        (
            "A value that was computed can be read by many nodes: it has one name.",
            "(1 + x)(1 + x²) is 1 + x + x² + x³. Which factor comes next?",
            "With a = x · x, b = a · a, c = b · b: (1 + x)(1 + a)(1 + b)(1 + c)",
        ),
        """\
def powers(x):
    a = x * x
    b = a * a
    c = b * b
    return (1 + x) * (1 + a) * (1 + b) * (1 + c)

answer = powers
""",
        spelled(
            "powers",
            _powers,
            [ONE, [(3, 4)]],
            most=POWERS,
            hint="at x = 1 it is 16; does the last power end at 15?",
        ),
    ),
)
