"""The exercises of notebook 04: right answers pass, others are told what is not right yet."""

from typing import Any

import pytest

from luminal_lab.course.chapters.ch04 import EXERCISES
from tests.course.answering import ODD, answer_of, by_id, said, text_of
from tests.needs import need, needed

BY_ID = by_id(EXERCISES)
OTHERS = {
    "04.1": (
        "answer = lambda c: max(c.snapshots[1:], key=lambda s: len(s.diff().removed)).name",
        "def most(c):\n"
        "    sizes = [len(s.ir) for s in c.snapshots]\n"
        "    drops = [a - b for a, b in zip(sizes, sizes[1:])]\n"
        "    return c.snapshots[1 + drops.index(max(drops))].title\n"
        "answer = most",
    ),
    "04.2": (
        "def counts(c):\n"
        "    found = {}\n"
        "    for s in c.snapshots:\n"
        "        for rule, n in s.counts.items():\n"
        "            found[rule] = found.get(rule, 0) + n\n"
        "    return found\n"
        "answer = counts",
        "answer = lambda c: dict(c.to_pandas('firings').rule.value_counts())",
    ),
    "04.3": (
        "def lines(c, node):\n"
        "    if node.id in c.snapshots[0].ir and len(c.snapshots) == 1:\n"
        "        return [node.meta.origin.line]\n"
        "    return [w.meta.origin for w in c.written if node in c.trace(w).last]\n"
        "answer = lines",
        "def walk(c, node, k=-1):\n"
        "    if k < -len(c.snapshots) + 1:\n"
        "        return {node.meta.origin.line}\n"
        "    return {n for old in c.snapshots[k].back(node) for n in walk(c, old, k - 1)}\n"
        "answer = walk",
    ),
    "04.4": (
        "answer = lambda x: (x * 1).softmax(-1) + x.softmax(-1)",
        "answer = lambda x: ((x + 0) * 2) * (x * 2)",
    ),
}  # fmt: skip
WRONG = {
    "04.1": (
        (
            "answer = lambda c: max(c.snapshots, key=lambda s: len(s.firings))",
            "expected recognise, which removed 11, got dce, which removed 10",
        ),
        ("answer = lambda c: 'dce'", "expected recognise"),
        ("answer = lambda c: len(c.written) - len(c.ir)", "a snapshot or the name of a pass, got"),
        ("answer = lambda c: max(len(s.before) - len(s.ir) for s in c.snapshots)", "a number"),
        ("answer = lambda c: 'dead code'", "expected the name of a pass that ran, got another te"),
        ("answer = lambda c: c", "a snapshot or the name of a pass, got a Compilation"),
    ),
    "04.2": (
        (
            "def counts(c):\n    found = {}\n    for s in c.snapshots:\n"
            "        found.update(s.counts)\n    return found\nanswer = counts",
            "it is right where a pass runs more than once",
        ),
        ("answer = lambda c: c.snapshots[-1].counts", "go through all of"),
        (
            "answer = lambda c: {s.name: len(s.firings) for s in c.snapshots}",
            "the rule 'add-zero': expected 1 time",
        ),
        ("answer = lambda c: sum(len(s.firings) for s in c.snapshots)", "expected a dict"),
    ),
    "04.3": (
        ("answer = lambda c, node: {node.meta.origin.line}", "ask snapshot.back(node)"),
        (
            "answer = lambda c, node: {o.meta.origin.line for o in c.snapshots[-1].back(node)}",
            "a node that two lines share",
        ),
        ("answer = lambda c, node: c.trace(node).lines[0].line", "expected a set of numbers"),
        ("answer = lambda c, node: {o.line for o in c.trace(node).lines}", "expected line 2 and"),
        ("answer = lambda c: {2}", "TypeError"),
    ),
    "04.4": (
        ("answer = lambda x: (x + 0) * 1", "the one leaves"),
        ("answer = lambda x: x.sin() + x.sin()", "look equal only once simplify has been there"),
        ("answer = lambda x: 3", "what it returns: expected a tensor, got a number"),
        ("answer = lambda x: ll.Graph().tensor((4, 8)) * 2", "expected a tensor of the given gra"),
        ("answer = lambda x: x.matmul(x)", "the inner dims differ"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.id)
def test_a_solution_is_right(exercise: Any) -> None:
    verdict = exercise.check(answer_of(exercise.solution))
    assert verdict.right, verdict
    assert len(verdict.said) >= 2


@pytest.mark.parametrize(("id", "code"), [(id, code) for id in OTHERS for code in OTHERS[id]])
def test_other_spellings_are_right(id: str, code: str) -> None:
    need(*needed(code))
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
