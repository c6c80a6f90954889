"""Equations between folds: what can be taken out of one, and the order of two."""

from collections.abc import Iterator

from luminal_lab.algebra.egraph import EGraph
from luminal_lab.algebra.language import First, Folded, Leaf, Product, Sum
from luminal_lab.algebra.rules.rule import FINITE, equation
from luminal_lab.algebra.rules.scalar import each_and_rest
from luminal_lab.kernels.definition.substitution import counted


@equation("sum j: c * x", "c * (sum j: x)", where="c without j", assumes=FINITE)
def sum_factor(egraph: EGraph, fold: Folded, body: int) -> Iterator[int]:
    """Take a common factor out of a sum."""
    if fold.axis.name not in egraph.facts(body).free and egraph.known(body) != 1:
        count = egraph.add(fold, egraph.constant(1, fold.dtype))
        yield egraph.product(1, [body, count], fold.dtype)
    for product, parts in egraph.looks(body, Product):
        inside, outside = egraph.divided(parts, fold.axis)
        if inside and outside:
            total = egraph.add(fold, egraph.product(product.factor, inside, fold.dtype))
            yield egraph.product(1, [*outside, total], fold.dtype)


@equation("sum j: c * x", "c * (sum j: x)", where="c a number", assumes=FINITE)
def sum_mul(egraph: EGraph, fold: Folded, body: int) -> Iterator[int]:
    """Take a common constant factor out of a sum."""
    for product, parts in egraph.looks(body, Product):
        if product.factor != 1:
            total = egraph.add(fold, egraph.product(1, parts, fold.dtype))
            yield egraph.product(product.factor, [total], fold.dtype)


@equation("max j: c * x", "c * (max j: x)", where="c a number above 0", assumes=FINITE)
def max_mul(egraph: EGraph, fold: Folded, body: int) -> Iterator[int]:
    """Take a positive factor out of a maximum."""
    for product, parts in egraph.looks(body, Product):
        if 0 < product.factor != 1:
            top = egraph.add(fold, egraph.product(1, parts, fold.dtype))
            yield egraph.product(product.factor, [top], fold.dtype)


@equation("max j: x + c", "(max j: x) + c", where="c without j", assumes=FINITE)
def max_add(egraph: EGraph, fold: Folded, body: int) -> Iterator[int]:
    """Take a common summand out of a maximum."""
    for total, parts in egraph.looks(body, Sum):
        weights = dict(zip(parts, total.weights, strict=True))
        inside, outside = egraph.divided(parts, fold.axis)
        if inside and (outside or total.constant):
            moving = egraph.sum(0, [(part, weights[part]) for part in inside], fold.dtype)
            still = [(part, weights[part]) for part in outside]
            top = egraph.add(fold, moving)
            yield egraph.sum(total.constant, [*still, (top, 1)], fold.dtype)


@equation("(sum j: x) * c", "sum j: x * c", where="c without j", assumes=FINITE, grows=True)
def sum_in(egraph: EGraph, product: Product, *parts: int) -> Iterator[int]:
    """Multiply each term of a sum instead of the sum itself."""
    for part, rest in each_and_rest(parts):
        for fold, (body,) in egraph.looks(part, Folded):
            if fold.kind == "sum" and not egraph.divided(rest, fold.axis)[0]:
                inner = egraph.product(1, [*rest, body], product.dtype)
                yield egraph.product(product.factor, [egraph.add(fold, inner)], product.dtype)


@equation("sum j: sum k: x", "sum k: sum j: x", assumes=FINITE, grows=True)
def sum_swap(egraph: EGraph, outer: Folded, body: int) -> Iterator[int]:
    """Exchange two sums."""
    for inner, (term,) in egraph.looks(body, Folded):
        if inner.kind == "sum" and outer.axis != inner.axis:
            yield egraph.add(inner, egraph.add(outer, term))


@equation("sum j: x + y", "(sum j: x) + (sum j: y)", assumes=FINITE, grows=True)
def sum_push(egraph: EGraph, fold: Folded, body: int) -> Iterator[int]:
    """Split a sum of sums into separate sums."""
    for total, parts in egraph.looks(body, Sum):
        sums = [(egraph.add(fold, part), w) for part, w in zip(parts, total.weights, strict=True)]
        count = egraph.add(fold, egraph.constant(1, fold.dtype))
        yield egraph.sum(0, [*sums, (count, total.constant)], fold.dtype)


@equation("sum j: 1", "size[j]", whole=True)
def sum_one(egraph: EGraph, fold: Folded, body: int) -> Iterator[int]:
    """Count the positions of an axis."""
    if egraph.known(body) == 1:
        yield egraph.add(Leaf(counted(fold.size, fold.dtype)))


@equation(
    "sum j: (x - m) * (x - m)",
    "let d = x - first[j](x); let e = first[j](x) - m; "
    "(sum j: d * d) + 2 * e * (sum j: d) + e * e * (sum j: 1)",
    where="m without j, x without a fold over j",
    assumes=FINITE,
)
def centre(egraph: EGraph, fold: Folded, body: int) -> Iterator[int]:
    """Sum squared distances from the first element, which are small and known before the mean."""
    one, axis, dtype = egraph.constant(1, fold.dtype), fold.axis, fold.dtype
    for square, parts in egraph.looks(body, Product):
        for total, terms in egraph.looks(parts[0], Sum) if parts == (parts[0],) * 2 else ():
            weights = dict(zip(terms, total.weights, strict=True))
            inside, outside = egraph.divided(terms, axis)
            x = egraph.sum(0, [(term, weights[term]) for term in inside], dtype)
            if outside and axis.name not in egraph.facts(x).moving:
                first = egraph.add(First(axis, dtype), x)
                d = egraph.sum(0, [(x, 1), (first, -1)], dtype)
                rest = [(term, weights[term]) for term in outside]
                e = egraph.sum(total.constant, [(first, 1), *rest], dtype)
                squares = egraph.add(fold, egraph.product(1, [d, d], dtype))
                once = egraph.product(1, [e, egraph.add(fold, d)], dtype)
                twice = egraph.product(1, [e, e, egraph.add(fold, one)], dtype)
                total = egraph.sum(0, [(squares, 1), (once, 2), (twice, 1)], dtype)
                yield egraph.product(square.factor, [total], dtype)


FOLDS = (sum_factor, sum_mul, sum_one, max_mul, max_add, centre)
REGROUPING = (sum_in, sum_swap, sum_push)
