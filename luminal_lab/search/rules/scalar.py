"""Equations between numbers."""

from collections.abc import Iterator

from luminal_lab.search.egraph import EGraph
from luminal_lab.core.ops import Exp2
from luminal_lab.search.language import Applied, Node, Product, Sum
from luminal_lab.search.rules.rule import rule

MOST_TERMS = 8
"""The longest sum that is multiplied out."""


@rule("a * (b + c)", "a * b + a * c", Product)
def distribute(egraph: EGraph, node: Node) -> Iterator[int]:
    """Multiply a sum out."""
    assert isinstance(node.operator, Product)
    factor, dtype = node.operator.factor, node.operator.dtype
    for position, child in enumerate(node.children):
        rest = [*node.children[:position], *node.children[position + 1 :]]
        for inner in egraph.looks(child, Sum):
            if isinstance(inner.operator, Sum) and len(inner.children) <= MOST_TERMS:
                terms = [(egraph.product(1, [*rest, term], dtype), factor * weight)
                         for term, weight in zip(inner.children, inner.operator.weights, strict=True)]
                if rest:
                    terms.append((egraph.product(1, rest, dtype), factor * inner.operator.constant))
                    yield egraph.sum(0, terms, dtype)
                else:
                    yield egraph.sum(factor * inner.operator.constant, terms, dtype)


@rule("exp2(a) * exp2(b)", "exp2(a + b)", Product)
def join_exp2(egraph: EGraph, node: Node) -> Iterator[int]:
    """Make one power of two: what is finite apart is finite together, but not the other way."""
    assert isinstance(node.operator, Product)
    dtype = node.operator.dtype
    powers: list[tuple[int, float]] = []
    rest: list[int] = []
    for child in node.children:
        power = next(
            (one for one in egraph.looks(child, Applied) if one.operator == Applied(Exp2(), dtype)),
            None,
        )
        if power is None:
            rest.append(child)
        else:
            egraph.rely(child, egraph.number_of(power))
            powers.append((power.children[0], 1))
    if len(powers) > 1:
        joined = egraph.add(Applied(Exp2(), dtype), egraph.sum(0, powers, dtype))
        yield egraph.product(node.operator.factor, [*rest, joined], dtype)


SCALAR = (distribute, join_exp2)
