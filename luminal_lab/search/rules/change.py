"""How a value changes when the folds that it needs go one step on: as derivatives are, by parts."""

from collections.abc import Iterator

from luminal_lab.core.ops import Exp2, Recip
from luminal_lab.search.egraph import EGraph
from luminal_lab.search.language import (
    Applied,
    Folded,
    Node,
    Product,
    Ratio,
    Rise,
    Shift,
    Sum,
)
from luminal_lab.search.rules.rule import rule


def _asked(node: Node) -> tuple[int, Ratio | Shift, str]:
    """Return the class that a question is about, the question, and the axis."""
    question = node.operator
    assert isinstance(question, (Ratio, Shift))
    return node.children[0], question, question.axis.name


@rule("ratio[j](x), x without a fold over j", "1", Ratio)
def ratio_plain(egraph: EGraph, node: Node) -> Iterator[int]:
    """What needs no fold stays as it is."""
    child, question, axis = _asked(node)
    if axis not in egraph.facts(child).moving:
        yield egraph.constant(1, question.dtype)


@rule("ratio[j](x * y)", "ratio[j](x) * ratio[j](y)", Ratio)
def ratio_product(egraph: EGraph, node: Node) -> Iterator[int]:
    """A product changes by the product of the ratios."""
    child, question, _ = _asked(node)
    for inner in egraph.looks(child, Product):
        ratios = [egraph.add(question, part) for part in inner.children]
        yield egraph.product(1, ratios, question.dtype)


@rule("ratio[j](exp2(x))", "exp2(shift[j](x))", Ratio)
def ratio_exp2(egraph: EGraph, node: Node) -> Iterator[int]:
    """A power changes by the power of what its exponent changes by."""
    child, question, _ = _asked(node)
    for inner in egraph.looks(child, Applied):
        if inner.operator == Applied(Exp2(), question.dtype):
            shift = egraph.add(Shift(question.axis, question.dtype), *inner.children)
            yield egraph.add(inner.operator, shift)


@rule("ratio[j](recip(x))", "recip(ratio[j](x))", Ratio)
def ratio_recip(egraph: EGraph, node: Node) -> Iterator[int]:
    """A reciprocal changes by the reciprocal of the ratio."""
    child, question, _ = _asked(node)
    for inner in egraph.looks(child, Applied):
        if inner.operator == Applied(Recip(), question.dtype):
            yield egraph.add(inner.operator, egraph.add(question, *inner.children))


@rule("ratio[j](sum k: x), the ratio without k", "ratio[j](x)", Ratio)
def ratio_sum(egraph: EGraph, node: Node) -> Iterator[int]:
    """A sum over another axis changes as its terms do, if all change alike."""
    child, question, axis = _asked(node)
    for inner in egraph.looks(child, Folded):
        fold = inner.operator
        assert isinstance(fold, Folded)
        if fold.kind == "sum" and fold.axis.name != axis:
            ratio = egraph.add(question, *inner.children)
            if fold.axis.name not in egraph.facts(ratio).free:
                yield ratio


@rule("shift[j](x), x without a fold over j", "0", Shift)
def shift_plain(egraph: EGraph, node: Node) -> Iterator[int]:
    """What needs no fold stays as it is."""
    child, question, axis = _asked(node)
    if axis not in egraph.facts(child).moving:
        yield egraph.constant(0, question.dtype)


@rule("shift[j](max j: x), x without a fold over j", "rise[j](max j: x)", Shift)
def shift_max(egraph: EGraph, node: Node) -> Iterator[int]:
    """A running maximum changes by the new one less the old one."""
    child, question, axis = _asked(node)
    for inner in egraph.looks(child, Folded):
        fold = inner.operator
        assert isinstance(fold, Folded)
        is_own = fold.kind == "max" and fold.axis.name == axis
        if is_own and axis not in egraph.facts(inner.children[0]).moving:
            yield egraph.add(Rise(fold.axis, fold.dtype), egraph.number_of(inner))


@rule("shift[j](x + y)", "shift[j](x) + shift[j](y)", Shift)
def shift_sum(egraph: EGraph, node: Node) -> Iterator[int]:
    """A sum changes by the sum of what its terms change by."""
    child, question, _ = _asked(node)
    for inner in egraph.looks(child, Sum):
        assert isinstance(inner.operator, Sum)
        shifts = [egraph.add(question, part) for part in inner.children]
        yield egraph.sum(0, zip(shifts, inner.operator.weights, strict=True), question.dtype)


@rule("shift[j](c * x), c without a fold over j", "c * shift[j](x)", Shift)
def shift_product(egraph: EGraph, node: Node) -> Iterator[int]:
    """A product in which one factor changes does so by the rest times that one's change."""
    child, question, axis = _asked(node)
    for inner in egraph.looks(child, Product):
        assert isinstance(inner.operator, Product)
        moving = [part for part in inner.children if axis in egraph.facts(part).moving]
        if len(moving) == 1:
            rest = [part for part in inner.children if part != moving[0]]
            shift = egraph.add(question, moving[0])
            yield egraph.product(inner.operator.factor, [*rest, shift], question.dtype)


CHANGE = (
    *(ratio_plain, ratio_product, ratio_exp2, ratio_recip, ratio_sum),
    *(shift_plain, shift_max, shift_sum, shift_product),
)
