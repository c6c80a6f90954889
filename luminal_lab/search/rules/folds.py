"""Equations between folds: what can leave one, and in which order two are."""

from collections.abc import Iterator

from luminal_lab.search.egraph import EGraph
from luminal_lab.search.language import Folded, Product, Sum
from luminal_lab.search.rules.rule import rule
from luminal_lab.search.rules.scalar import each_and_rest

FINITE = {"no_nan", "no_inf"}


@rule("sum j: c * x", "c * (sum j: x)", where="c without j", assumes=FINITE)
def sum_factor(egraph: EGraph, fold: Folded, body: int) -> Iterator[int]:
    """Take out of a sum what each of its terms is multiplied by."""
    for product, parts in egraph.looks(body, Product):
        inside, outside = egraph.divided(parts, fold.axis)
        if inside and (outside or product.factor != 1):
            total = egraph.add(fold, egraph.product(1, inside, fold.dtype))
            yield egraph.product(product.factor, [*outside, total], fold.dtype)


@rule("max j: c * x", "c * (max j: x)", where="c a number above 0", assumes=FINITE)
def max_mul(egraph: EGraph, fold: Folded, body: int) -> Iterator[int]:
    """Take a positive factor out of a maximum."""
    for product, parts in egraph.looks(body, Product):
        if 0 < product.factor != 1:
            top = egraph.add(fold, egraph.product(1, parts, fold.dtype))
            yield egraph.product(product.factor, [top], fold.dtype)


@rule("max j: x + c", "(max j: x) + c", where="c without j", assumes=FINITE)
def max_add(egraph: EGraph, fold: Folded, body: int) -> Iterator[int]:
    """Take out of a maximum what is added to each of its terms."""
    for total, parts in egraph.looks(body, Sum):
        weights = dict(zip(parts, total.weights, strict=True))
        inside, outside = egraph.divided(parts, fold.axis)
        if inside and (outside or total.constant):
            moving = egraph.sum(0, [(part, weights[part]) for part in inside], fold.dtype)
            still = [(part, weights[part]) for part in outside]
            top = egraph.add(fold, moving)
            yield egraph.sum(total.constant, [*still, (top, 1)], fold.dtype)


@rule("(sum j: x) * c", "sum j: x * c", where="c without j", assumes=FINITE, grows=True)
def sum_in(egraph: EGraph, product: Product, *parts: int) -> Iterator[int]:
    """Multiply each term of a sum instead of the sum."""
    for part, rest in each_and_rest(parts):
        for fold, (body,) in egraph.looks(part, Folded):
            if fold.kind == "sum" and not egraph.divided(rest, fold.axis)[0]:
                inner = egraph.product(1, [*rest, body], product.dtype)
                yield egraph.product(product.factor, [egraph.add(fold, inner)], product.dtype)


@rule("sum j: sum k: x", "sum k: sum j: x", assumes=FINITE, grows=True)
def sum_swap(egraph: EGraph, outer: Folded, body: int) -> Iterator[int]:
    """Exchange two sums."""
    for inner, (term,) in egraph.looks(body, Folded):
        if inner.kind == "sum" and outer.axis != inner.axis:
            yield egraph.add(inner, egraph.add(outer, term))


@rule("sum j: x + y", "(sum j: x) + (sum j: y)", assumes=FINITE, grows=True)
def sum_push(egraph: EGraph, fold: Folded, body: int) -> Iterator[int]:
    """Make sums of the terms of a sum, where each of them has the axis."""
    for total, parts in egraph.looks(body, Sum):
        if not total.constant and not egraph.divided(parts, fold.axis)[1]:
            sums = [egraph.add(fold, part) for part in parts]
            yield egraph.sum(0, zip(sums, total.weights, strict=True), fold.dtype)


FOLDS = (sum_factor, max_mul, max_add)
REGROUPING = (sum_in, sum_swap, sum_push)
