"""Equations between numbers."""

from collections.abc import Iterator, Sequence

from luminal_lab.algebra.egraph import EGraph
from luminal_lab.algebra.language import Applied, Product, Sum
from luminal_lab.algebra.rules.rule import FINITE, equation
from luminal_lab.core.ops import Exp2

MOST_TERMS = 8
"""The longest sum that is multiplied out."""


def each_and_rest(parts: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Yield each of some classes together with all the others."""
    for position, part in enumerate(parts):
        yield part, [*parts[:position], *parts[position + 1 :]]


@equation("a * (b + c)", "a * b + a * c", assumes=FINITE)
def distribute(egraph: EGraph, product: Product, *parts: int) -> Iterator[int]:
    """Multiply a sum out."""
    factor, dtype = product.factor, product.dtype
    for part, rest in each_and_rest(parts):
        for total, terms in egraph.looks(part, Sum):
            if len(terms) <= MOST_TERMS:
                weighted = [
                    (egraph.product(1, [*rest, term], dtype), factor * weight)
                    for term, weight in zip(terms, total.weights, strict=True)
                ]
                last = egraph.product(1, rest, dtype), factor * total.constant
                yield egraph.sum(0, [*weighted, last], dtype)


@equation("c * a + c * b", "c * (a + b)", where="c a number", assumes=FINITE)
def factor(egraph: EGraph, total: Sum, *terms: int) -> Iterator[int]:
    """Multiply a sum once instead of each of its terms."""
    common = abs(total.weights[0])
    if common != 1 and all(abs(weight) == common for weight in total.weights):
        signs = [weight / common for weight in total.weights]
        inner = egraph.sum(total.constant / common, zip(terms, signs, strict=True), total.dtype)
        yield egraph.product(common, [inner], total.dtype)


@equation("exp2(a) * exp2(b)", "exp2(a + b)", assumes=FINITE)
def join_exp2(egraph: EGraph, product: Product, *parts: int) -> Iterator[int]:
    """Join powers of two: if they are finite apart, so is the joined one, but not conversely."""
    exp2 = Applied(Exp2(), product.dtype)
    exponents: list[tuple[int, float]] = []
    others: list[int] = []
    for part in parts:
        exponent = egraph.argument(part, exp2)
        if exponent is None:
            others.append(part)
        else:
            exponents.append((exponent, 1))
    if len(exponents) > 1:
        power = egraph.add(exp2, egraph.sum(0, exponents, product.dtype))
        yield egraph.product(product.factor, [*others, power], product.dtype)


@equation("where(true, x, y)", "x")
def where_true(egraph: EGraph, applied: Applied, holds: int, yes: int, no: int) -> Iterator[int]:
    """Take the value chosen by a condition that always holds."""
    del applied, no
    if egraph.known(holds) == 1:
        yield yes


SCALAR = (distribute, factor, join_exp2, where_true)
