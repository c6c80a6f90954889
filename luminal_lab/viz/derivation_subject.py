"""A derivation as one more pass: the program's elements as a graph, and a firing for each rule."""

from __future__ import annotations

from collections.abc import Iterator

from luminal_lab.algebra.language import Leaf
from luminal_lab.algebra.pick import Pick
from luminal_lab.core.edit import LogEntry
from luminal_lab.core.ir import Meta, Node
from luminal_lab.io.facts import Facts, Subject
from luminal_lab.kernels.definition.terms import FoldState, Term
from luminal_lab.passes.snapshot import Record, Snapshot
from luminal_lab.search.derivation import Derivation, Firing
from luminal_lab.search.named import node_text
from luminal_lab.viz.egraph_elements import (
    Drawn,
    Graphs,
    RuleUse,
    element,
    is_number,
    log_between,
    type_of,
)
from luminal_lab.viz.egraph_rules import facts_of_rules

SEARCH = "search"


def subject_of_derivation(derivation: Derivation) -> Subject:
    """Return the program as written and as found, with the firings in between."""
    name = derivation.space.definition.name
    drawn = [*_graphs(derivation)]
    log: list[LogEntry] = []
    for number, firing in enumerate(derivation):
        before, after = drawn[number : number + 2]
        log += _entries(firing, before, after, number)
    first, last = drawn[0].ir, drawn[-1].ir
    snapshots = [Snapshot(first, first, Record("written", ()))]
    snapshots += [Snapshot(first, last, Record(SEARCH, log), 1)] if log else []
    fired = {firing.rule for firing in derivation}
    rules = [rule for rule in derivation.space.rules if rule.name in fired]
    return Subject(name, tuple(snapshots), Facts(rules=facts_of_rules(rules)), SEARCH)


def _graphs(derivation: Derivation) -> Iterator[Drawn]:
    """Yield the graph of what was written, and of the program after each firing."""
    graphs = Graphs(derivation.space.definition.name)
    picks = [firing.picks[1] for firing in derivation]
    first = derivation[0].picks[0] if picks else derivation.pick
    for pick in (first, *picks):
        nodes = [_node(pick, number) for number in pick.order if not is_number(pick.node(number))]
        yield graphs.graph(nodes, map(pick.lead, pick.outputs.values()))


def _node(pick: Pick, number: int) -> Node:
    node, facts = pick.node(number), pick.egraph.facts(number)
    parts = [part for part in dict.fromkeys(pick.parts(number)) if not is_number(pick.node(part))]
    text = node_text(node, lambda child: _part(pick, child))
    name = text if isinstance(node.operator, Leaf) else f"n{number}"
    type_ = type_of(facts.dtype, facts.free)
    return Node(number, element(node, text), tuple(parts), type_, (), Meta(name))


def _part(pick: Pick, number: int) -> Term:
    """Return what stands for a part in a text."""
    operator = pick.node(number).operator
    if isinstance(operator, Leaf):
        return operator.term
    return FoldState(f"n{pick.lead(number)}", pick.egraph.facts(number).dtype)


def _entries(firing: Firing, before: Drawn, after: Drawn, number: int) -> list[LogEntry]:
    """Return what a firing did to the graph; one that later ones rest on did nothing."""
    told = f"{firing.left} → {firing.right}"
    drawn = [*dict.fromkeys([*after.ids, *before.ids])]
    entries = log_between(before, after, [RuleUse(firing.rule, told, drawn)])
    if not entries:
        signatures = before.ir.signature, after.ir.signature
        entries = [LogEntry("reorder", firing.rule, -1, None, (), (), signatures, 0, told)]
    return [entry._replace(firing=number) for entry in entries]
