"""The names of classes, and texts: of nodes, whose parts are classes, and of terms as entered.

A class is called by the least of its numbers, as in `sum l < 17: c5`. Reads stand for themselves.
"""

from __future__ import annotations

from collections.abc import Callable

from typing_extensions import override

from luminal_lab.algebra.defining import Around, TermsOfPick
from luminal_lab.algebra.egraph import EGraph
from luminal_lab.algebra.language import ENode, First, Leaf, Online, Ratio, Rise, Shift
from luminal_lab.algebra.pick import Pick
from luminal_lab.kernels.definition.terms import FoldState, Term, walk, write


def class_name(number: int) -> str:
    """Return the name of a class."""
    return f"c{number}"


def node_text(node: ENode, part: Callable[[int], Term]) -> str:
    """Return the text of a node whose parts are given as terms."""
    return _text(_NodeTerms(part).made(-1, node, ()))


def parts_of(egraph: EGraph) -> Callable[[int], Term]:
    """Return how texts of nodes write a class: as the read that it is, or by its name."""

    def part(number: int) -> Term:
        for node in egraph.nodes(number):
            if isinstance(node.operator, Leaf):
                return node.operator.term
        return named(egraph.find(number), egraph)

    return part


def named(number: int, egraph: EGraph) -> Term:
    """Return the name of a class as a term."""
    return FoldState(class_name(number), egraph.facts(number).dtype)


def entered_text(egraph: EGraph, number: int) -> str:
    """Return the text of a whole term as it was entered."""
    return _text(_EnteredTerms(egraph).term(number))


class _Written(Pick):
    """All nodes as they were entered."""

    @override
    def lead(self, number: int) -> int:
        return number

    @override
    def node(self, number: int) -> ENode:
        return self.egraph.entered[number]


class _RuleTerms(TermsOfPick):
    """Terms as rules write them: with questions about a step, which definitions do not have."""

    def __init__(self, pick: Pick) -> None:
        super().__init__(pick)
        self.passes = {}

    @override
    def made(self, number: int, node: ENode, around: Around) -> Term:
        operator = node.operator
        if not isinstance(operator, (Ratio, Shift, Rise, First, Online)):
            return super().made(number, node, ())
        parts = [_text(self.term(child)) for child in node.children]
        name = type(operator).__name__.lower()
        text = f"{name}[{operator.axis.name}]({parts[0]})"
        if isinstance(operator, Online):
            text = f"(online {operator.axis.name}: acc * [{parts[0]}] + {parts[1]})"
        return FoldState(text, operator.dtype)


class _EnteredTerms(_RuleTerms):
    def __init__(self, egraph: EGraph) -> None:
        super().__init__(_Written(egraph, {}, {}, {}))
        self.written: dict[int, Term] = {}

    @override
    def term(self, number: int, around: Around = ()) -> Term:
        if number not in self.written:
            node = self.pick.node(number)
            self.written[number] = self.made(number, node, ())
        return self.written[number]


class _NodeTerms(_RuleTerms):
    def __init__(self, part: Callable[[int], Term]) -> None:
        super().__init__(_Written(EGraph(), {}, {}, {}))
        self.part = part

    @override
    def term(self, number: int, around: Around = ()) -> Term:
        return self.part(number)


def _text(term: Term) -> str:
    states = [part for part in walk(term) if isinstance(part, FoldState)]
    return write(term, names={state: state.name for state in states})
