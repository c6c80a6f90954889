"""The exercises of notebook 13: what is not safe, a rule, a rule less, and one pass over rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import cast

import numpy as np

from luminal_lab.algebra.rules import RULES
from luminal_lab.algebra.rules.rule import Rule, Rules
from luminal_lab.core.dtypes import Array
from luminal_lab.course.compiling import no_function
from luminal_lab.course.exercise import Exercise, Finding, Verdict
from luminal_lab.course.probing import agrees_lazily, equal, kind
from luminal_lab.search.program import Program, judged_programs
from luminal_lab.search.space import space_of
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor

SHOWN = (200, -200)
"""The numbers that the notebook gives away."""
ROWS = 37
"""The length of the rows that one pass goes over."""


def attention() -> Graph:
    """Return the attention of the notebook."""
    cx = Graph("attention")
    q, k, v = (cx.tensor((n, 64), name=name) for n, name in (("n", "q"), ("t", "k"), ("t", "v")))
    scores = (q @ k.T) * 0.125
    weights = (scores - scores.max(-1, keepdim=True)).exp()
    ((weights / weights.sum(-1, keepdim=True)) @ v).retrieve()
    return cx


def best_of(cx: Graph, rules: Rules) -> Program:
    """Return the cheapest right program of a graph."""
    *_, program = judged_programs(space_of(cx.ir, rules))
    return program


def passes(program: Program, size: object) -> int:
    """Return how often a program goes over the axes of a size."""
    axes = program.space.axes
    return sum(program.pick.passes(name) for name in axes if str(axes[name]) == str(size))


# -- 13.1 ------------------------------------------------------------------------------------------


def unsafe(answer: object) -> Verdict:
    """Is the left side finite for these numbers, and the right side not?"""
    pair = cast("Sequence[object]", answer) if isinstance(answer, tuple | list) else ()
    if len(pair) != 2 or not all(isinstance(n, int | float | np.number) for n in pair):
        said = kind(cast("object", answer))
        text = f"expected a pair of two numbers, got {said}"
        return Verdict.no(text, "answer = (1, -1)")
    a, b = (np.float32(cast("float", number)) for number in pair)
    with np.errstate(all="ignore"):
        left, right = np.exp2(a + b), np.exp2(a) * np.exp2(b)
    return Verdict.all(
        (f"exp2(a + b), which is {left:g}, is finite", isfinite(left), "a + b must be below 128"),
        (
            f"exp2(a) * exp2(b), which is {right:g}, is not",
            not isfinite(right),
            "one of the factors must be infinite: float32 ends at 2 ** 128",
        ),
        (
            "they are not the numbers of the notebook",
            sorted((float(a), float(b))) != sorted(map(float, SHOWN)),
            "any other two do, if they are far enough apart",
        ),
    )


# -- 13.2 ------------------------------------------------------------------------------------------


def cancels(answer: object) -> Verdict:
    """Is it a rule that takes log2 and exp2 away?"""
    if not isinstance(answer, Rule):
        return Verdict.no(
            f"expected a rule of search, got {kind(answer)}",
            '@ll.search.rule("log2(exp2(x))", "x") above the function makes one of it',
        )

    def fires() -> Finding:
        cx = Graph()
        cx.tensor((3, 4), name="x").exp2().log2().retrieve()
        space = space_of(cx.ir, [*RULES.without(*_own(answer)), answer])
        *_, program = judged_programs(space)
        body = str(program.definition)
        return "log2" not in body and "exp2" not in body

    return Verdict.all(
        (
            "its equation is log2(exp2(x)) → x",
            (answer.before, answer.after) == ("log2(exp2(x))", "x"),
            "the two texts of @ll.search.rule are the sides",
        ),
        ("it is proved", answer.is_proved, "make it with @ll.search.rule"),
        (
            "it takes both ops away",
            fires,
            "yield what exp2 is applied to: egraph.argument(part, Applied(Exp2(), log2.dtype))",
        ),
    )


def _own(rule: Rule) -> list[str]:
    """Return the name of a rule, if one of ours has it, too."""
    return [each.name for each in RULES if each.name == rule.name]


# -- 13.3 ------------------------------------------------------------------------------------------


def needed(answer: object) -> Verdict:
    """Is there no program of one pass without this rule?"""
    names = [rule.name for rule in RULES]
    if not isinstance(answer, str):
        return Verdict.no(f"expected the name of a rule, got {kind(answer)}", 'answer = "max-mul"')
    return Verdict.all(
        ("it is the name of a rule", answer in names, "print(RULES) lists them"),
        ("it is not cascade", answer != "cascade", "a rule on which cascade rests"),
        (
            "without it attention is not one pass",
            lambda: (
                passes(best_of(attention(), RULES.without(answer)), "t") > 1
                or "there still is a program of one pass"
            ),
            "the derivation has the rules that were used; some of them only make it cheaper",
        ),
    )


# -- 13.4 ------------------------------------------------------------------------------------------


def one_pass(answer: object) -> Verdict:
    """Is it the logarithm of the sum of exponentials, and one pass?"""

    def reference(x: Array) -> Array:
        top = x.max(-1, keepdims=True)
        return np.log(np.exp(x - top).sum(-1)) + top[:, 0]

    def large() -> str:
        x = (1000 + np.arange(12.0).reshape(3, 4)).astype("float32")
        cx = Graph()
        result = cast("Callable[..., Tensor]", answer)(cx.tensor(x.shape).set(x))
        return equal(result, reference(x), name="for numbers around 1000, what it returns")

    def found() -> str:
        cx = Graph()
        cast("Callable[..., Tensor]", answer)(cx.tensor((5, ROWS), name="x")).retrieve()
        count = passes(best_of(cx, RULES), ROWS)
        return "" if count == 1 else f"expected 1 pass, got {count}"

    return no_function(answer) or Verdict.all(
        (
            "it is right for small numbers",
            lambda: agrees_lazily(answer, reference, [[(3, 4)], [(1, 9)]]),
            "log(sum(exp(x))), along the last axis, which goes",
        ),
        (
            "it is right for numbers around 1000",
            large,
            "subtract the largest of the row first, and add it again at the end",
        ),
        ("the search makes one pass of it", found, "take the sum and the maximum over the rows"),
    )


EXERCISES = (
    Exercise(
        "13.1",
        "Give two numbers for which exp2(a + b) is finite in float32 and exp2(a) * exp2(b) is not.",
        (
            "Their sum must be small, and one of them large.",
            "exp2 of 128 and more is infinite in float32.",
            "answer = (130, -130)",
        ),
        "answer = (130, -130)\n",
        unsafe,
    ),
    Exercise(
        "13.2",
        "Write the rule log2(exp2(x)) → x.",
        (
            "The function gets the e-graph, the operator log2, and the number of its source.",
            "egraph.argument(part, Applied(Exp2(), log2.dtype)) is x, or None.",
            "exp2(x) may be infinite, and x not: assumes={'no_inf'} says that it is not.",
            "Yield x if it is not None: the class of log2(exp2(x)) and that of x become one.",
        ),
        """\
from luminal_lab.core.ops import Exp2
from luminal_lab.algebra.language import Applied

@ll.search.rule("log2(exp2(x))", "x", assumes={"no_inf"})
def log2_exp2(egraph, log2, part):
    x = egraph.argument(part, Applied(Exp2(), log2.dtype))
    if x is not None:
        yield x

answer = log2_exp2
""",
        cancels,
    ),
    Exercise(
        "13.3",
        "Name a rule other than cascade without which attention is not one pass over the keys.",
        (
            "best.derivation has the rules that were used.",
            "Some of them only make the program cheaper; passes(best_without(name)) tells.",
            "A ratio without an answer keeps cascade from firing: try ratio-exp2.",
        ),
        'answer = "ratio-exp2"\n',
        needed,
    ),
    Exercise(
        "13.4",
        "Write the log of the sum of exponentials of rows so that it is safe, and one pass.",
        (
            "log(sum(exp(x - m))) + m, where m is the largest number of the row.",
            "m = x.max(-1, keepdim=True), so that x - m has the shape of x.",
            "Add x.max(-1), which has no second axis, at the end.",
        ),
        """\
def log_sum_exp(x):
    total = (x - x.max(-1, keepdim=True)).exp().sum(-1)
    return total.log() + x.max(-1)

answer = log_sum_exp
""",
        one_pass,
    ),
)
