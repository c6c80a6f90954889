"""Equations between folds: what can leave one, and in which order two are."""

from collections.abc import Iterator

from luminal_lab.search.egraph import EGraph
from luminal_lab.search.language import Folded, Node, Product, Sum
from luminal_lab.search.rules.rule import rule


@rule("sum j: c * x, c without j", "c * (sum j: x)", Folded)
def sum_factor(egraph: EGraph, node: Node) -> Iterator[int]:
    """Take out of a sum what each of its terms is multiplied by."""
    fold = node.operator
    assert isinstance(fold, Folded)
    if fold.kind != "sum":
        return
    for body in egraph.looks(node.children[0], Product):
        assert isinstance(body.operator, Product)
        factor, dtype = body.operator.factor, body.operator.dtype
        inside = [c for c in body.children if fold.axis.name in egraph.facts(c).free]
        outside = [c for c in body.children if fold.axis.name not in egraph.facts(c).free]
        if inside and (outside or factor != 1):
            total = egraph.add(fold, egraph.product(1, inside, dtype))
            yield egraph.product(factor, [*outside, total], dtype)


@rule("max j: c * x, 0 < c", "c * (max j: x)", Folded)
def max_mul(egraph: EGraph, node: Node) -> Iterator[int]:
    """Take a positive factor out of a maximum."""
    fold = node.operator
    assert isinstance(fold, Folded)
    if fold.kind != "max":
        return
    for body in egraph.looks(node.children[0], Product):
        assert isinstance(body.operator, Product)
        factor, dtype = body.operator.factor, body.operator.dtype
        if 0 < factor != 1:
            top = egraph.add(fold, egraph.product(1, body.children, dtype))
            yield egraph.product(factor, [top], dtype)


@rule("max j: x + c, c without j", "(max j: x) + c", Folded)
def max_add(egraph: EGraph, node: Node) -> Iterator[int]:
    """Take out of a maximum what is added to each of its terms."""
    fold = node.operator
    assert isinstance(fold, Folded)
    if fold.kind != "max":
        return
    for body in egraph.looks(node.children[0], Sum):
        assert isinstance(body.operator, Sum)
        constant, weights, dtype = (
            body.operator.constant,
            body.operator.weights,
            body.operator.dtype,
        )
        terms = [*zip(body.children, weights, strict=True)]
        inside = [term for term in terms if fold.axis.name in egraph.facts(term[0]).free]
        outside = [term for term in terms if fold.axis.name not in egraph.facts(term[0]).free]
        if inside and (outside or constant):
            top = egraph.add(fold, egraph.sum(0, inside, dtype))
            yield egraph.sum(constant, [*outside, (top, 1)], dtype)


@rule("(sum j: x) * c, c without j", "sum j: x * c", Product, grows=True)
def sum_in(egraph: EGraph, node: Node) -> Iterator[int]:
    """Multiply each term of a sum instead of the sum."""
    assert isinstance(node.operator, Product)
    factor, dtype = node.operator.factor, node.operator.dtype
    for position, child in enumerate(node.children):
        rest = [*node.children[:position], *node.children[position + 1 :]]
        for inner in egraph.looks(child, Folded):
            fold = inner.operator
            assert isinstance(fold, Folded)
            if fold.kind == "sum" and not any(
                fold.axis.name in egraph.facts(each).free for each in rest
            ):
                body = egraph.product(1, [*rest, inner.children[0]], dtype)
                yield egraph.product(factor, [egraph.add(fold, body)], dtype)


@rule("sum j: sum k: x", "sum k: sum j: x", Folded, grows=True)
def sum_swap(egraph: EGraph, node: Node) -> Iterator[int]:
    """Exchange two sums."""
    outer = node.operator
    assert isinstance(outer, Folded)
    for inner in egraph.looks(node.children[0], Folded):
        assert isinstance(inner.operator, Folded)
        if outer.kind == inner.operator.kind and outer.axis != inner.operator.axis:
            yield egraph.add(inner.operator, egraph.add(outer, inner.children[0]))


@rule("sum j: x + y", "(sum j: x) + (sum j: y)", Folded, grows=True)
def sum_push(egraph: EGraph, node: Node) -> Iterator[int]:
    """Make sums of the terms of a sum, where each of them has the axis."""
    fold = node.operator
    assert isinstance(fold, Folded)
    if fold.kind != "sum":
        return
    for body in egraph.looks(node.children[0], Sum):
        assert isinstance(body.operator, Sum)
        constant, weights, dtype = (
            body.operator.constant,
            body.operator.weights,
            body.operator.dtype,
        )
        if not constant and all(
            fold.axis.name in egraph.facts(child).free for child in body.children
        ):
            sums = [egraph.add(fold, child) for child in body.children]
            yield egraph.sum(0, zip(sums, weights, strict=True), dtype)


FOLDS = (sum_factor, max_mul, max_add)
REGROUPING = (sum_in, sum_swap, sum_push)
