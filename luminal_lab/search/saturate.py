"""Fire rules until nothing is new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from luminal_lab.search.egraph import EGraph
from luminal_lab.search.rules import STRATA
from luminal_lab.search.rules.rule import Rule

MOST_NODES = 2_000
"""From so many nodes on, rules that may go on for ever are not tried any more."""


@dataclass
class Saturated:
    """What came of it."""

    firings: dict[str, int] = field(default_factory=dict[str, int])
    stopped: set[str] = field(default_factory=set[str])
    """The rules that would have gone on."""


def saturate(egraph: EGraph, strata: Sequence[Sequence[Rule]] = STRATA) -> Saturated:
    """Fire rules, group by group and then all again, until nothing is new."""
    report = Saturated()
    rules: list[Rule] = []
    for stratum in strata:
        rules += stratum
        while _round(egraph, rules, report):
            pass
    return report


def _round(egraph: EGraph, rules: Sequence[Rule], report: Saturated) -> bool:
    """Fire each rule on each node once; return whether anything is new."""
    before = len(egraph.entered), len(egraph.reasons)
    by_operator: dict[type, list[Rule]] = {}
    for each in rules:
        by_operator.setdefault(each.on, []).append(each)
    for _, node in [*egraph.each()]:
        for each in by_operator.get(type(node.operator), ()):
            if each.grows and len(egraph) > MOST_NODES:
                report.stopped.add(each.name)
                continue
            egraph.premises = {}
            for result in each.fire(egraph, node):
                if egraph.union(egraph.number_of(node), result, each.name):
                    report.firings[each.name] = report.firings.get(each.name, 0) + 1
    egraph.rebuild()
    return before != (len(egraph.entered), len(egraph.reasons))
