"""How a value changes when its folds take one more step: like a derivative, part by part.

`ratio` and `shift` are questions about one value and one step; `rise` is an answer: how much a
running maximum has just grown.
"""

from collections.abc import Iterator

from luminal_lab.algebra.egraph import EGraph
from luminal_lab.algebra.language import (
    Applied,
    Finite,
    Folded,
    Product,
    Ratio,
    Rise,
    Shift,
    Sum,
)
from luminal_lab.algebra.rules.rule import FINITE, equation
from luminal_lab.core.ops import Exp2, Recip


@equation("ratio[j](x)", "1", where="x without a fold over j", assumes=FINITE)
def ratio_plain(egraph: EGraph, ratio: Ratio, value: int) -> Iterator[int]:
    """A value without folds does not change."""
    if ratio.axis.name not in egraph.facts(value).moving:
        yield egraph.constant(1, ratio.dtype)


@equation("ratio[j](x * y)", "ratio[j](x) * ratio[j](y)", assumes=FINITE)
def ratio_product(egraph: EGraph, ratio: Ratio, value: int) -> Iterator[int]:
    """A product changes by the product of the ratios."""
    for _, parts in egraph.looks(value, Product):
        yield egraph.product(1, [egraph.add(ratio, part) for part in parts], ratio.dtype)


@equation("ratio[j](exp2(x))", "exp2(shift[j](x))", assumes=FINITE)
def ratio_exp2(egraph: EGraph, ratio: Ratio, value: int) -> Iterator[int]:
    """A power changes by the power of its exponent's change."""
    exp2 = Applied(Exp2(), ratio.dtype)
    if (exponent := egraph.argument(value, exp2)) is not None:
        yield egraph.add(exp2, egraph.add(Shift(ratio.axis, ratio.dtype), exponent))


@equation("ratio[j](recip(x))", "recip(ratio[j](x))", assumes=FINITE)
def ratio_recip(egraph: EGraph, ratio: Ratio, value: int) -> Iterator[int]:
    """A reciprocal changes by the reciprocal of the ratio."""
    recip = Applied(Recip(), ratio.dtype)
    if (inner := egraph.argument(value, recip)) is not None:
        yield egraph.add(recip, egraph.add(ratio, inner))


@equation("ratio[j](sum k: x)", "ratio[j](x)", where="the ratio without k", assumes=FINITE)
def ratio_sum(egraph: EGraph, ratio: Ratio, value: int) -> Iterator[int]:
    """A sum over another axis changes as its terms do, if all of them change alike."""
    for fold, (body,) in egraph.looks(value, Folded):
        if fold.kind == "sum" and fold.axis != ratio.axis:
            same = egraph.add(ratio, body)
            if fold.axis.name not in egraph.facts(same).free:
                yield same


@equation("shift[j](x)", "0", where="x without a fold over j", assumes=FINITE)
def shift_plain(egraph: EGraph, shift: Shift, value: int) -> Iterator[int]:
    """A value without folds does not change."""
    if shift.axis.name not in egraph.facts(value).moving:
        yield egraph.constant(0, shift.dtype)


@equation(
    "shift[j](max j: x)",
    "rise[j](max j: x)",
    where="x without a fold over j",
    assumes=FINITE,
)
def shift_max(egraph: EGraph, shift: Shift, value: int) -> Iterator[int]:
    """A running maximum changes by the new one less the old one."""
    for fold, (body,) in egraph.looks(value, Folded):
        is_own = fold.kind == "max" and fold.axis == shift.axis
        if is_own and fold.axis.name not in egraph.facts(body).moving:
            yield egraph.add(Rise(fold.axis, fold.dtype), value)


@equation("shift[j](finite(max j: x))", "shift[j](max j: x)", assumes=FINITE)
def shift_finite(egraph: EGraph, shift: Shift, value: int) -> Iterator[int]:
    """A running maximum starts at a number, so it always is one."""
    top = egraph.argument(value, Applied(Finite(), shift.dtype))
    if top is not None:
        for fold, _ in egraph.looks(top, Folded):
            if fold.kind == "max" and fold.axis == shift.axis:
                yield egraph.add(shift, top)


@equation("shift[j](x + y)", "shift[j](x) + shift[j](y)", assumes=FINITE)
def shift_sum(egraph: EGraph, shift: Shift, value: int) -> Iterator[int]:
    """A sum changes by the sum of its terms' changes."""
    for total, parts in egraph.looks(value, Sum):
        shifts = [egraph.add(shift, part) for part in parts]
        yield egraph.sum(0, zip(shifts, total.weights, strict=True), shift.dtype)


@equation("shift[j](c * x)", "c * shift[j](x)", where="c without a fold over j", assumes=FINITE)
def shift_product(egraph: EGraph, shift: Shift, value: int) -> Iterator[int]:
    """A product with one changing factor changes by that change times the other factors."""
    for product, parts in egraph.looks(value, Product):
        moving = [part for part in parts if shift.axis.name in egraph.facts(part).moving]
        if len(moving) == 1:
            rest = [part for part in parts if part != moving[0]]
            step = egraph.add(shift, moving[0])
            yield egraph.product(product.factor, [*rest, step], shift.dtype)


CHANGE = (
    *(ratio_plain, ratio_product, ratio_exp2, ratio_recip, ratio_sum),
    *(shift_plain, shift_max, shift_finite, shift_sum, shift_product),
)
