"""A space of programs as graphs, one for each round of its rules: classes are boxes.

A class of several nodes has a node of its own, which they all lead to; whoever uses the class reads
that one. A class of one node is that node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from luminal_lab.algebra.language import Leaf
from luminal_lab.algebra.pick import Pick, effort
from luminal_lab.core.ir import Derivation, Meta, Node
from luminal_lab.io.facts import Facts, Subject
from luminal_lab.kernels.definition.terms import FoldState, Term
from luminal_lab.passes.collector import uncollected
from luminal_lab.passes.snapshot import Record, Snapshot
from luminal_lab.search.named import class_name, node_text
from luminal_lab.search.program import judged_programs
from luminal_lab.search.space import Space
from luminal_lab.viz.egraph_elements import (
    Drawn,
    Element,
    Graphs,
    RuleUse,
    element,
    is_number,
    log_between,
    type_of,
)
from luminal_lab.viz.egraph_rules import facts_of_rules


def node_id(number: int) -> int:
    """Return the id of a node of an e-graph."""
    return 2 * number


def class_id(number: int) -> int:
    """Return the id of the node that stands for a class of several."""
    return 2 * number + 1


@uncollected
def subject_of_space(space: Space) -> Subject:
    """Return a space as graphs: as written, and after each round of its rules."""
    graphs = Graphs(space.definition.name)
    rounds = [_Classes(space, number) for number in range(len(space.growth.rounds))]
    drawn = [each.graph(graphs) for each in rounds]
    first = drawn[0].ir
    snapshots = [Snapshot(first, first, Record("written", ()))]
    for number, (before, after) in enumerate(pairwise(drawn), 1):
        uses = rounds[number].uses(rounds[number - 1])
        record = Record(f"round-{number}", log_between(before, after, uses))
        snapshots.append(Snapshot(before.ir, after.ir, record, number))
    facts = Facts(rules=facts_of_rules(space.rules))
    return Subject(f"programs of {space.definition.name}", tuple(snapshots), facts)


def winning_pick(space: Space) -> Pick | None:
    """Return the cheapest program of a space that is right, if there is one."""
    programs = [*judged_programs(space)]
    return None if not programs or programs[-1].is_refused else programs[-1].pick


def winning_costs(space: Space) -> dict[str, float]:
    """Return the nodes that the cheapest right program has, by name, and what each costs."""
    pick = winning_pick(space)
    if pick is None:
        return {}
    last = _Classes(space, len(space.growth.rounds) - 1)
    shown = [number for number in pick.order if not is_number(pick.node(number))]
    nodes = [(number, pick.node(number)) for number in shown]
    return {last.name(number, space.egraph.number_of(node)): effort(node) for number, node in nodes}


class _Classes:
    """The classes after a round as nodes of a graph; numbers are in texts alone."""

    def __init__(self, space: Space, number: int) -> None:
        rounds = space.growth.rounds
        self.space, self.number = space, number
        self.classes = rounds[number].classes
        self.into = {u.gone: u.kept for each in rounds[: number + 1] for u in each.unions}

    def lead(self, number: int) -> int:
        """Return the class that a number belonged to."""
        while number in self.into:
            number = self.into[number]
        return number

    def name(self, lead: int, number: int) -> str:
        """Return the name of a node: what it reads, or its class, if that has no other node."""
        nodes = dict(self.classes[lead].nodes)
        if isinstance(nodes[number].operator, Leaf):
            return node_text(nodes[number], self.part)
        return class_name(lead) if len(nodes) == 1 else f"n{number}"

    def head(self, lead: int) -> int:
        """Return the id of the node that whoever uses a class reads."""
        nodes = self.classes[lead].nodes
        return node_id(nodes[0][0]) if len(nodes) == 1 else class_id(lead)

    def part(self, number: int) -> Term:
        """Return what stands for a class in a text."""
        held = self.classes[self.lead(number)]
        leaf = next((n for _, n in held.nodes if isinstance(n.operator, Leaf)), None)
        if leaf is not None and isinstance(leaf.operator, Leaf):
            return leaf.operator.term
        return FoldState(class_name(self.lead(number)), held.dtype)

    def graph(self, graphs: Graphs) -> Drawn:
        """Return the graph."""
        outputs = [self.lead(number) for number in self.space.outputs.values()]
        order = self._order(outputs)
        nodes = [node for lead in order for node in self._nodes(lead, order)]
        return graphs.graph(nodes, [self.head(lead) for lead in outputs])

    def _order(self, outputs: Iterable[int]) -> dict[int, int]:
        """Return the places of classes in an order in which parts mostly come first."""
        order: dict[int, int] = {}
        begun: set[int] = set()
        todo = [(lead, False) for lead in reversed([*outputs, *self.classes])]
        while todo:
            lead, is_done = todo.pop()
            if is_done:
                order[lead] = len(order)
            elif lead not in begun and not self._is_number(lead):
                begun.add(lead)
                todo.append((lead, True))
                nodes = (node for _, node in self.classes[lead].nodes)
                parts = [self.lead(part) for node in nodes for part in node.children]
                todo += [(part, False) for part in reversed(parts)]
        return order

    def _is_number(self, lead: int) -> bool:
        return is_number(self.classes[lead].nodes[0][1])

    def _nodes(self, lead: int, order: Mapping[int, int]) -> Iterator[Node]:
        """Yield the nodes of a class; an edge that would close a circle is in the text alone."""
        dtype, free, nodes = self.classes[lead]
        type_, scope = type_of(dtype, free), class_name(lead) if len(nodes) > 1 else ""
        for number, node in nodes:
            leads = dict.fromkeys(self.lead(part) for part in node.children)
            parts = [part for part in leads if part in order and order[part] < order[lead]]
            op = element(node, node_text(node, self.part))
            maker = self.space.growth.makers.get(number)
            derivation = maker and Derivation(maker.rule, (node_id(maker.number),))
            meta = Meta(self.name(lead, number), None, scope, derivation)
            yield Node(node_id(number), op, tuple(map(self.head, parts)), type_, (), meta)
        if len(nodes) > 1:
            own = tuple(node_id(number) for number, _ in nodes)
            meta = Meta(class_name(lead), None, scope)
            yield Node(class_id(lead), Element(f"any of {len(own)}", "class"), own, type_, (), meta)

    def uses(self, before: _Classes) -> Iterator[RuleUse]:
        """Yield the rules that fired in this round, with the ids of what they touched."""
        for union in self.space.growth.rounds[self.number].unions:
            if union.reason.rule:
                entered = self.space.egraph.entered
                told = " → ".join(node_text(entered[n], self.part) for n in union.reason[1:3])
                ids = [node_id(number) for number in union.entered]
                for lead in (union.kept, union.gone):
                    held = before.classes.get(lead)
                    ids += [] if held is None else [node_id(n) for n, _ in held.nodes]
                    ids.append(class_id(lead))
                yield RuleUse(union.reason.rule, told, ids)
