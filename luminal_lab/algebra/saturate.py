"""Fire rules until nothing is new."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from luminal_lab.algebra.egraph import MOST_NODES, EGraph
from luminal_lab.algebra.language import Folded, Operator
from luminal_lab.algebra.rules import RULES
from luminal_lab.algebra.rules.rule import Rule


@dataclass
class Saturation:
    """How often each rule fired, and which rules were stopped."""

    firings: dict[str, int] = field(default_factory=dict[str, int])
    stopped: set[str] = field(default_factory=set[str])


def saturate(egraph: EGraph, rules: Iterable[Rule] = RULES) -> Saturation:
    """Fire rules until nothing is new: first those that come to an end, then all of them."""
    report = Saturation()
    rules = [*rules]
    for stratum in ([rule for rule in rules if not rule.grows], rules):
        while _round(egraph, stratum, report):
            pass
    return report


def _round(egraph: EGraph, rules: Sequence[Rule], report: Saturation) -> bool:
    """Fire each rule on each node once; return whether anything is new."""
    before = len(egraph.entered), len(egraph.reasons)
    by_kind: dict[type[Operator], list[Rule]] = {}
    for rule in rules:
        by_kind.setdefault(rule.kind, []).append(rule)
    for _, node in [*egraph.each()]:
        for rule in by_kind.get(type(node.operator), ()):
            if not rule.matches(node):
                continue
            if len(egraph.entered) > MOST_NODES * (1 if rule.grows else 2):
                report.stopped.add(rule.name)
                continue
            for result in egraph.fired(rule.fire, node):
                fold = node.operator if rule.whole else None
                whole = fold.axis.name if isinstance(fold, Folded) else ""
                if egraph.union(egraph.number_of(node), result, rule.name, whole):
                    report.firings[rule.name] = report.firings.get(rule.name, 0) + 1
    egraph.rebuild()
    return before != (len(egraph.entered), len(egraph.reasons))
