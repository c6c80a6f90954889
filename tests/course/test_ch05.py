"""The exercises of notebook 05: right answers pass, others are told what is not right yet."""

from typing import Any

import pytest

from luminal_lab.course.chapters.ch05 import EXERCISES
from tests.course.answering import ODD, answer_of, by_id, said, text_of

BY_ID = by_id(EXERCISES)
ROOT = "from luminal_lab.passes.pattern import sqrt\na, b = ll.variables('a b')\n"
FLIP = (
    "from luminal_lab.core.ops import Flip\na = ll.variables('a')\ni, j = ll.fields('i j')\n"
    "two = ll.op(Flip, ll.op(Flip, a, axes=i), axes=j)\n"
)
LARGEST = (
    "from luminal_lab.core.ops import MaxReduce\n"
    "a, k, i = ll.variables('a'), ll.constants('k'), ll.fields('i')\n"
    "def out(condition, right=lambda a, k, i: ll.op(MaxReduce, a, axis=i) * k, facts=()):\n"
    "    return ll.Rule('max-out', ll.op(MaxReduce, a * k, axis=i), right, condition=condition,\n"
    "                   assumes={'no_signed_zero', *facts})\n"
)
SUMS = "from luminal_lab.core.ops import Add\n"
LAST_FOUR = SUMS + (
    "@ll.graph_pass\n"
    "def last_four(ir, edit):\n"
    "    '''Balance the last of a sum.'''\n"
    "    for node in ir:\n"
    "        if isinstance(node.op, Add) and ir.is_output(node):\n"
    "            abc, d = ir.sources(node)\n"
    "            if isinstance(abc.op, Add):\n"
    "                ab, c = ir.sources(abc)\n"
    "                new = edit.insert(Add(), ab, edit.insert(Add(), c, d, like=node), like=node)\n"
    "                edit.replace(node, new)\n"
    "answer = last_four"
)
OTHERS = {
    "05.1": (
        ROOT + "answer = ll.Rule('r', sqrt(a) * sqrt(a), a,\n"
        "    assumes=['no_nan', 'no_signed_zero', 'reassociate'])",
        ROOT + "@ll.rule('r', sqrt(a) * sqrt(a),\n"
        "    assumes={'non_negative', 'no_signed_zero', 'reassociate'})\n"
        "def answer(a):\n    return a",
    ),
    "05.2": (
        FLIP + "answer = ll.Rule('flips', two, lambda a, i, j: ll.op(Flip, a, axes=tuple(\n"
        "    n for n in range(max([*i, *j], default=-1) + 1) if (n in i) != (n in j))))",
        FLIP + "@ll.rule('f', two)\n"
        "def answer(a, i, j):\n"
        "    axes = tuple(sorted(set(i).symmetric_difference(j)))\n"
        "    return ll.op(Flip, a, axes=axes) if axes else a",
    ),
    "05.3": (
        LARGEST + "answer = out(lambda a, k: str(a.dtype).startswith('float') and 0 < k < 1e30)",
        LARGEST + "answer = out(lambda a, k: a.dtype.is_float and k in (0.5, 1.0, 2.0))",
    ),
    "05.4": (
        SUMS + "from luminal_lab.core.edit import Edit\n"
        "from dataclasses import dataclass\n"
        "@dataclass(frozen=True)\n"
        "class Halves(ll.Pass):\n"
        "    '''Cut sums into halves.'''\n"
        "    name = 'halves-of-sums'\n"
        "    def run(self, ir, edit):\n"
        "        inner = lambda n: isinstance(n.op, Add) and not edit.is_output(n) and [\n"
        "            type(u.op) for u in edit.users(n)] == [Add]\n"
        "        def parts(n):\n"
        "            return [p for s in edit.sources(n) for p in (parts(s) if inner(s) else [s])]\n"
        "        def tree(row, n):\n"
        "            if len(row) == 1:\n"
        "                return row[0]\n"
        "            m = len(row) // 2\n"
        "            return edit.insert(Add(), tree(row[:m], n), tree(row[m:], n), like=n)\n"
        "        for node in ir:\n"
        "            if isinstance(node.op, Add) and not inner(edit[node.id]):\n"
        "                edit.replace(node, tree(parts(edit[node.id]), node), rule='halve')\n"
        "answer = Halves()",
    ),
}  # fmt: skip
WRONG = {
    "05.1": (
        (ROOT + "answer = ll.Rule('r', sqrt(a) * sqrt(a), a)", "which fact of the list"),
        (
            ROOT + "answer = ll.Rule('r', sqrt(a) * sqrt(a), a, "
            "assumes={'non_negative', 'no_signed_zero', 'reassociate', 'no_inf'})",
            "no_inf can go, and there still is no counterexample",
        ),
        (ROOT + "answer = ll.Rule('r', sqrt(a * a), a)", "it does not fire there"),
        (
            ROOT + "answer = ll.Rule('r', sqrt(a) * sqrt(a), sqrt(a * a), "
            "assumes={'non_negative', 'reassociate'})",
            "expected x alone",
        ),
        (ROOT + "answer = lambda a: a", "expected a rule, got a function"),
    ),
    "05.2": (
        (
            FLIP + "answer = ll.Rule('f', two, lambda a, i, j: ll.op(Flip, a, "
            "axes=tuple(sorted(set(i) | set(j)))))",
            "an axis that is in i and in j is as it was",
        ),
        (FLIP + "answer = ll.Rule('f', two, a)", "element [0, 0] of the result"),
        (
            FLIP + "answer = ll.Rule('f', two, lambda a, i, j: ll.op(Flip, a, axes=i + j))",
            "not yet: it is right where an axis is turned twice",
        ),
        (
            FLIP + "answer = ll.Rule('f', ll.op(Flip, ll.op(Flip, a, axes=i), axes=i), a)",
            "it does not fire there",
        ),
    ),
    "05.3": (
        (LARGEST + "answer = out(None)", "the left side is"),
        (LARGEST + "answer = out(lambda a, k: k > 0)", "for float32 with a"),
        (LARGEST + "answer = out(lambda a, k: 0 < k < float('inf'))", "for int32 with a"),
        (LARGEST + "answer = out(lambda a, k: False)", "does it forbid too much?"),
        (
            LARGEST + "answer = out(lambda a, k: a.dtype.is_float and k > 0, "
            "facts=['no_nan', 'no_inf'])",
            "it assumes no_inf, no_nan as well",
        ),
    ),
    "05.4": (
        (
            "@ll.graph_pass\ndef idle(ir, edit):\n    '''Do nothing.'''\nanswer = idle",
            "expected at most 2 one after another, got 3",
        ),
        (LAST_FOUR, "of 8 terms: expected at most 3 one after another, got 6"),
        (
            SUMS + "@ll.graph_pass\ndef drop(ir, edit):\n    '''Drop sums.'''\n"
            "    for node in ir:\n        if isinstance(node.op, Add):\n"
            "            edit.replace(node, node.sources[0], rule='drop')\nanswer = drop",
            "element [0] of the sum: expected -0.871453, got 0.960294",
        ),
        ("answer = lambda ir, edit: None", "write @ll.graph_pass above it"),
        ("answer = ll.Pass", "expected a pass, got the class Pass itself"),
        (
            "@ll.graph_pass\ndef fails(ir, edit):\n    '''Fail.'''\n    edit.erase('y')\n"
            "answer = fails",
            "it raises PassError: pass fails: erase: %y is still needed: it is an output",
        ),
    ),
    "05.5": (
        ('answer = {"nodes": 6, "gone": ["%second", "%other_root"]}', "as many nodes are left"),
        ('answer = {"nodes": 5, "gone": ["%first", "%root"]}', "these are the nodes that go"),
        ('answer = {"nodes": 5, "gone": ["%third"]}', "has no node '%third'"),
        ('answer = {"nodes": "5", "gone": []}', "the number of nodes is"),
        ("answer = 5", "expected a dict of nodes and gone, got"),
    ),
}  # fmt: skip


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
