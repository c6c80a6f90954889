"""The exercises of notebook 05: what a rule assumes, rules that calculate or ask, a pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from luminal_lab.core.ir import IR
from luminal_lab.core.ops import Add, Flip, MaxReduce, Mul
from luminal_lab.course.exercise import Exercise, Verdict, error_text
from luminal_lab.course.probing import drawn, equal, kind
from luminal_lab.passes.base import Pass
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.passes.proof import examine
from luminal_lab.passes.rule import FACTS, Rule
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.running import run
from luminal_lab.viz.live.predict import predict

SUMS = (2, 3, 4, 5, 8, 13)
"""How many terms the sums have that are balanced."""


def no_rule(answer: object) -> Verdict | None:
    """Return what is said of an answer that is not a rule."""
    if isinstance(answer, Rule):
        return None
    text = f"expected a rule, got {kind(answer)}"
    return Verdict.no(text, 'answer = ll.Rule("a-name", pattern, what takes its place)')


def after(
    rule: Rule, write: Callable[[Tensor], Tensor], shape: tuple[int, ...] = (3, 4)
) -> tuple[IR, int, str]:
    """Return what a rule makes of a graph, how often it fired, and what is wrong with the values.

    All facts are granted, but the data keep them.
    """
    cx = Graph("asked")
    x = cx.tensor(shape, name="x")
    write(x).retrieve()
    compiled = cx.compile(rule, "dce", licence=set(FACTS))
    data = {"x": np.abs(drawn(shape)) + 1}
    want, got = (run(ir, data)[0] for ir in (compiled.written, compiled.ir))
    return compiled.ir, len(compiled.snapshots[1].firings), equal(got, want, name="the result")


def fires(rule: Rule, write: Callable[[Tensor], Tensor]) -> Callable[[], str]:
    """Return what says that a rule does not fire where it should, or changes what is computed."""

    def finding() -> str:
        _, count, fault = after(rule, write)
        return fault if count else "it does not fire there"

    return finding


def proved(rule: Rule) -> Callable[[], str]:
    """Return what says for which values a rule is wrong."""

    def finding() -> str:
        tried, wrong = examine(rule)
        if wrong is None:
            return "" if tried else "it matches nothing that is tried"
        given = ", ".join(f"{name} = {value}" for name, value in wrong.given.items())
        text = f"for {wrong.dtype} with {given} the left side is {wrong.left}"
        return " ".join(f"{text}, the right side {wrong.right}".split())[:240]

    return finding


# -- 05.1 ------------------------------------------------------------------------------------------


def spare(rule: Rule) -> str:
    """Return which fact a rule assumes without need."""
    for fact in sorted(rule.assumes):
        less = Rule(
            rule.name,
            rule.pattern,
            rule.replacement,
            assumes=rule.assumes - {fact},
            condition=rule.condition,
        )
        if examine(less).wrong is None:
            return f"{fact} can go, and there still is no counterexample"
    return ""


def rooted(answer: object) -> Verdict:
    """Is it the rule of the square of a root, with the facts it needs?"""
    wrong = no_rule(answer)
    if wrong is not None:
        return wrong
    rule = cast("Rule", answer)

    def once(x: Tensor) -> Tensor:
        root = x.sqrt()
        return root * root

    def vanishes() -> str:
        ir = after(rule, once)[0]
        return "" if len(ir) == 1 else f"expected x alone, got {len(ir)} nodes"

    return Verdict.all(
        (
            "it fires for sqrt(x) * sqrt(x)",
            fires(rule, once),
            "the pattern is sqrt(a) * sqrt(a), with sqrt from luminal_lab.passes.pattern",
        ),
        ("it leaves x alone", vanishes, "what takes the place of the pattern is a"),
        (
            "there is no counterexample",
            proved(rule),
            "which fact of the list would forbid these values, or allow this rounding?",
        ),
        ("it assumes no fact without need", lambda: spare(rule), "try it without that one"),
    )


# -- 05.2 ------------------------------------------------------------------------------------------


def flipped(answer: object) -> Verdict:
    """Is it the rule that makes one flip of two?"""
    wrong = no_rule(answer)
    if wrong is not None:
        return wrong
    rule = cast("Rule", answer)

    def single() -> str:
        ir, _, _ = after(rule, lambda x: x.flip(0).flip(1))
        count = sum(isinstance(node.op, Flip) for node in ir)
        return "" if count <= 1 else f"expected at most 1 flip, got {count}"

    def facts() -> str:
        facts = ", ".join(sorted(rule.assumes))
        return f"expected no assumption, got {facts}" if facts else ""

    return Verdict.all(
        (
            "it fires for a flip of one axis and one of another",
            fires(rule, lambda x: x.flip(0).flip(1)),
            "one op(Flip, …) stands in the other, with fields i and j for their axes",
        ),
        ("one flip of both is left", single, "return ll.op(Flip, a, axes=…) with all its axes"),
        (
            "it is right where an axis is turned twice",
            fires(rule, lambda x: x.flip(0, 1).flip(1)),
            "an axis that is in i and in j is as it was",
        ),
        (
            "there is no counterexample",
            proved(rule),
            "turn the axes that are in i or in j, but not in both; tuple(sorted(…)) orders them",
        ),
        ("it assumes nothing", facts, "a view changes no value: no fact is needed"),
    )


# -- 05.3 ------------------------------------------------------------------------------------------


def mended(answer: object) -> Verdict:
    """Is it the rule of the largest product, with a condition that makes it true?"""
    wrong = no_rule(answer)
    if wrong is not None:
        return wrong
    rule = cast("Rule", answer)

    def behind() -> str:
        ir = after(rule, lambda x: (x * 2.0).max(-1))[0]
        large = [n for n in ir if isinstance(n.op, Mul) and n.shape == (3, 4)]
        has = any(isinstance(n.op, MaxReduce) for n in ir)
        return "" if has and not large else "the products are still made before the maximum"

    def facts() -> str:
        more = ", ".join(sorted(rule.assumes - {"no_signed_zero"}))
        return f"it assumes {more} as well" if more else ""

    return Verdict.all(
        (
            "it fires for (x * 2.0).max(-1)",
            fires(rule, lambda x: (x * 2.0).max(-1)),
            "the condition must hold for 2.0: does it forbid too much?",
        ),
        ("the maximum comes first then", behind, "ll.op(MaxReduce, a, axis=i) * k, as above"),
        (
            "there is no counterexample",
            proved(rule),
            "forbid that constant, or that dtype: condition=lambda a, k: … sees a.dtype and k",
        ),
        ("it assumes no more than no_signed_zero", facts, "say it by the condition instead"),
    )


# -- 05.4 ------------------------------------------------------------------------------------------


def depth(ir: IR) -> int:
    """Return how many additions stand one after the other in a graph."""
    counts: dict[int, int] = {}
    for node in ir.nodes:
        below = max((counts[id] for id in node.sources), default=0)
        counts[node.id] = below + isinstance(node.op, Add)
    return max((counts[id] for id in ir.output_ids), default=0)


def chain(terms: int, *, turned: bool = False) -> Graph:
    """Return a graph that adds up inputs one after the other."""
    cx = Graph("sums")
    total, *others = [cx.tensor((3,), name=f"t{k}") for k in range(terms)]
    for other in others:
        total = other + total if turned else total + other
    total.named("y").retrieve()
    return cx


def shared() -> Graph:
    """Return a graph in which a part of a sum is a result as well, and read by a product."""
    cx = chain(4)
    y = cx["y"]
    total = y * 2.0
    for k in range(4):
        total = total + cx.tensor((3,), name=f"u{k}")
    (total + y.sin()).retrieve()
    return cx


def balances(passes: Sequence[object], cx: Graph, deepest: int) -> str:
    """Return what is wrong with what passes make of a graph."""
    compiled = cx.compile(*cast("Sequence[Pass]", passes), "dce")
    data = {n.name: drawn((3,), seed=n.id) for n in compiled.written.inputs}
    for got, want in zip(run(compiled.ir, data), run(compiled.written, data), strict=True):
        fault = equal(got, want, tolerance=1e-5, name="the sum")
        if fault:
            return fault
    got = depth(compiled.ir)
    return "" if got <= deepest else f"expected at most {deepest} one after another, got {got}"


def balanced(answer: object) -> Verdict:
    """Is it a pass that balances sums?"""
    if not isinstance(answer, (Pass, Pipeline)):
        named = isinstance(answer, type)
        hint = "answer = Name(), with brackets" if named else "write @ll.graph_pass above it"
        return Verdict.no(f"expected a pass, got {kind(answer)}", hint)

    def on(cx: Callable[[], Graph], deepest: int) -> str:
        try:
            return balances([answer], cx(), deepest)
        except Exception as error:  # the answer's, of whatever kind
            return f"it raises {error_text(error)}"

    def sums(*, turned: bool) -> str:
        for terms in SUMS:
            fault = on(lambda terms=terms: chain(terms, turned=turned), math.ceil(math.log2(terms)))
            if fault:
                return f"of {terms} terms: {fault}"
        return ""

    return Verdict.all(
        (
            "of four terms, two additions stand one after the other",
            lambda: on(lambda: chain(4), 2),
            "gather the terms of the last addition, add them in pairs, and the sums in pairs",
        ),
        (
            "it is right for any number of terms",
            lambda: sums(turned=False),
            "of an odd number of terms one is left over, and goes on to the next round",
        ),
        (
            "it is right where sums lean to the other side",
            lambda: sums(turned=True),
            "either source of an addition may be an addition",
        ),
        (
            "it is right where others read a part of a sum",
            lambda: on(shared, 2 + 3),
            "an addition with one user, which is not an output, belongs to its user; others do not",
        ),
    )


# -- 05.5 ------------------------------------------------------------------------------------------


def twice() -> Graph:
    """Return the graph of the exercise, compiled: two products that are one."""
    cx = Graph("twice")
    p, q = cx.tensor((4,), name="p"), cx.tensor((4,), name="q")
    first, second = (p * q).named("first"), (q * p).named("second")
    roots = first.sqrt().named("root"), second.sqrt().named("other_root")
    (roots[0] + roots[1]).named("both").retrieve()
    cx.compile("cse")
    return cx


def predicted(answer: object) -> Verdict:
    """Judge what somebody says that `cse` does."""
    given = cast("dict[object, object]", answer) if isinstance(answer, dict) else {}
    if given.keys() != {"nodes", "gone"}:
        text = f"expected a dict of nodes and gone, got {kind(cast('object', answer))}"
        return Verdict.no(text, 'answer = {"nodes": how many are left, "gone": ["%its_name", …]}')
    try:
        said = predict(twice(), "cse").answer(
            nodes=cast("int", given["nodes"]), gone=cast("list[str]", given["gone"])
        )
    except Exception as error:
        return Verdict.no(error_text(error), "names are those of print(twice)")
    (nodes, gone, _), (count, names, _) = said.right, said.predicted
    return Verdict.all(
        ("as many nodes are left", bool(nodes), f"{count} are not: what reads a node that goes?"),
        ("these are the nodes that go", bool(gone), f"{names}: one of two equal nodes stays"),
    )


EXERCISES = (
    Exercise(
        "05.1",
        "Write the rule that replaces sqrt(a) * sqrt(a) by a, with the facts that it needs and no "
        "other.",
        (
            "Begin without facts, print the counterexample, and ask which fact excuses it.",
            "A root that is squared is rounded twice: one of the facts is about roundings.",
            "What is the root of a negative number, and of -0.0? Two facts answer one each.",
        ),
        """\
from luminal_lab.passes.pattern import sqrt

a = ll.variables("a")
answer = ll.Rule(
    "root-squared",
    sqrt(a) * sqrt(a),
    a,
    assumes={"non_negative", "no_signed_zero", "reassociate"},
)
""",
        rooted,
    ),
    Exercise(
        "05.2",
        "Write the rule that makes one flip of two in a row, for any axes.",
        (
            "The rule for two permutations is nearly it.",
            "A flip's field is axes, a tuple of numbers, smallest first.",
            "set(i) ^ set(j) are the axes that are in one of both, but not in both.",
        ),
        """\
from luminal_lab.core.ops import Flip

a = ll.variables("a")
i, j = ll.fields("i j")

@ll.rule("flip-flip", ll.op(Flip, ll.op(Flip, a, axes=i), axes=j))
def flip_flip(a, i, j):
    return ll.op(Flip, a, axes=tuple(sorted(set(i) ^ set(j))))

answer = flip_flip
""",
        flipped,
    ),
    Exercise(
        "05.3",
        "Mend the rule max-out by a condition, so that it has no counterexample and still fires "
        "for (x * 2.0).max(-1).",
        (
            "With a negative constant the largest product is that of the smallest number.",
            "Forbid one thing, print the next counterexample, and go on until there is none.",
            "Integers overflow, 0 times infinity is NaN, and the constant may be infinite itself.",
        ),
        """\
from luminal_lab.core.ops import MaxReduce

a, k, i = ll.variables("a"), ll.constants("k"), ll.fields("i")
answer = ll.Rule(
    "max-out",
    ll.op(MaxReduce, a * k, axis=i),
    lambda a, k, i: ll.op(MaxReduce, a, axis=i) * k,
    assumes={"no_signed_zero"},
    condition=lambda a, k: a.dtype.is_float and 0 < k < float("inf"),
)
""",
        mended,
    ),
    Exercise(
        "05.4",
        "Write a pass that makes balanced trees of long sums: of n terms at most log2(n), rounded "
        "up, additions one after the other.",
        (
            "An addition is part of a longer sum if an addition, and nothing else, reads it.",
            "Write a function that returns all terms of a sum; it calls itself for parts.",
            "Add the terms in pairs until one is left; ask edit, which has the graph as it is now.",
        ),
        """\
from luminal_lab.core.ops import Add

@ll.graph_pass
def balance(ir, edit):
    \"\"\"Make balanced trees of long sums.\"\"\"

    def is_part(node):
        users = edit.users(node)
        read_once = len(users) == 1 and not edit.is_output(node)
        return isinstance(node.op, Add) and read_once and isinstance(users[0].op, Add)

    def terms(node):
        if not is_part(node):
            return [node]
        return [term for id in node.sources for term in terms(edit[id])]

    for node in ir:
        node = edit[node.id]
        if isinstance(node.op, Add) and not is_part(node):
            row = [term for id in node.sources for term in terms(edit[id])]
            if len(row) > 2:
                with edit.firing("balance"):
                    while len(row) > 1:
                        pairs = [row[k : k + 2] for k in range(0, len(row), 2)]
                        row = [
                            edit.insert(Add(), *pair, like=node) if len(pair) == 2 else pair[0]
                            for pair in pairs
                        ]
                    edit.replace(node, row[0])

answer = balance
""",
        balanced,
    ),
    Exercise(
        "05.5",
        "Predict what cse does to twice before you see it: how many nodes are left, and which go.",
        (
            "Multiplication commutes: which two products are one?",
            "Once two products are one, look at what reads them: are those equal now, too?",
            "Of two equal nodes the one that was written first stays.",
        ),
        """\
answer = {"nodes": 5, "gone": ["%second", "%other_root"]}
""",
        predicted,
    ),
)
