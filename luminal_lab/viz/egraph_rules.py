"""Rules of search as facts: their text, their Python, and both sides as small graphs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from luminal_lab.algebra.rules.rule import Rule
from luminal_lab.algebra.rules.side import RuleSide
from luminal_lab.io.facts import RuleFacts, Sketch, SketchNode
from luminal_lab.io.rule_facts import source_of
from luminal_lab.passes.rule import FACTS
from luminal_lab.viz.egraph_elements import EQUAL_PARTS


def facts_of_rules(rules: Iterable[Rule]) -> dict[str, RuleFacts]:
    """Return the facts about rules, by their names."""
    facts = {rule.name: _facts(rule) for rule in rules}
    return {**facts, EQUAL_PARTS: RuleFacts("f(a) = f(b), where a = b")}


def _facts(rule: Rule) -> RuleFacts:
    written = source_of(rule.fire)
    left, right = map(sketch, rule.sides)
    return RuleFacts(
        str(rule).removeprefix(f"{rule.name}: "),
        written.text,
        PurePath(written.file).name,
        written.line,
        f"only with {rule.where}" if rule.where else "",
        tuple(fact for fact in FACTS if fact in rule.assumes),
        left,
        right,
    )


def sketch(side: RuleSide) -> Sketch:
    """Return a side of a rule as a small graph, in which equal terms are one node."""
    nodes: dict[RuleSide, SketchNode] = {}

    def visit(part: RuleSide) -> int:
        if part not in nodes:
            reads = tuple(visit(inner) for inner in part.parts)
            nodes[part] = SketchNode(_label(part), reads)
        return [*nodes].index(part)

    root = visit(side)
    return Sketch(tuple(nodes.values()), root)


def _label(side: RuleSide) -> str:
    match side.head:
        case "sum" | "max" | "online":
            return f"{side.head} {side.axis}"
        case "*":
            return "×"
        case head if side.axis:
            return f"{head}[{side.axis}]"
        case head:
            return head
