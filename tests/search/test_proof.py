"""Every rule is proved; each of the wrong ones below is caught, by name."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from luminal_lab.algebra.egraph import EGraph
from luminal_lab.algebra.language import Applied, Folded, Online, Product, Ratio, Shift, Sum
from luminal_lab.algebra.one_pass import GENTLE
from luminal_lab.algebra.rules.rule import FINITE, Rule, equation
from luminal_lab.core.ops import Exp2, Recip
from luminal_lab.errors import DefinitionError, PassError
from luminal_lab.search import RULES
from luminal_lab.search.proof import proved, refutation, rule

LAYERS = ("softmax", "attention", "norm", "entropy", "flash")


EVERY = [*RULES, *(one for one in GENTLE if one not in [*RULES])]
"""The rules of searches, and those that only a compile without a search takes."""


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
def test_no_small_case_refutes_a_rule(one: Rule) -> None:
    assert refutation(one) is None


def test_there_are_few_rules_and_none_knows_a_layer() -> None:
    cases = 0
    for one in EVERY:
        (function,) = ast.parse(textwrap.dedent(inspect.getsource(one.fire))).body
        assert isinstance(function, ast.FunctionDef)
        assert function.end_lineno is not None
        assert function.end_lineno - function.body[0].lineno <= 20, one.name
        assert not any(word in f"{one}{one.fire.__doc__}".lower() for word in LAYERS)
        assert not any(isinstance(part, ast.YieldFrom) for part in ast.walk(function))
        cases += sum(isinstance(part, ast.Yield) for part in ast.walk(function))
    assert len(EVERY) <= cases <= 40  # each result that a function yields is an equation


# -- wrong ones ------------------------------------------------------------------------------------


@equation("exp2(a + b)", "exp2(a) * exp2(b)", assumes=FINITE)
def split_exp2(egraph: EGraph, applied: Applied, exponent: int) -> Iterator[int]:
    for _, parts in egraph.looks(exponent, Sum):
        powers = [egraph.add(applied, part) for part in parts]
        yield egraph.product(1, powers, applied.dtype)


@equation("ratio[j](sum k: x)", "ratio[j](x)", assumes=FINITE)
def ratio_sum_over_any_axis(egraph: EGraph, ratio: Ratio, value: int) -> Iterator[int]:
    for _, (body,) in egraph.looks(value, Folded):
        yield egraph.add(ratio, body)


@equation("ratio[j](x + y)", "ratio[j](x) + ratio[j](y)", assumes=FINITE)
def ratio_of_a_sum(egraph: EGraph, ratio: Ratio, value: int) -> Iterator[int]:
    for total, parts in egraph.looks(value, Sum):
        ratios = [egraph.add(ratio, part) for part in parts]
        yield egraph.sum(0, zip(ratios, total.weights, strict=True), ratio.dtype)


@equation("ratio[j](recip(x))", "ratio[j](x)", assumes=FINITE)
def ratio_recip_upside_down(egraph: EGraph, ratio: Ratio, value: int) -> Iterator[int]:
    inner = egraph.argument(value, Applied(Recip(), ratio.dtype))
    if inner is not None:
        yield egraph.add(ratio, inner)


@equation("shift[j](x * y)", "shift[j](x) * shift[j](y)", assumes=FINITE)
def shift_of_a_product(egraph: EGraph, shift: Shift, value: int) -> Iterator[int]:
    for product, parts in egraph.looks(value, Product):
        shifts = [egraph.add(shift, part) for part in parts]
        yield egraph.product(product.factor, shifts, shift.dtype)


@equation("sum j: 1", "size[j]")
def count_of_what_has_been_summed(egraph: EGraph, fold: Folded, body: int) -> Iterator[int]:
    yield from RULES["sum-one"].fire(egraph, fold, body)


@equation("sum j: c * x", "c * (sum j: x)", assumes=FINITE)
def sum_factor_with_its_axis(egraph: EGraph, fold: Folded, body: int) -> Iterator[int]:
    for product, (first, *rest) in egraph.looks(body, Product):
        total = egraph.add(fold, egraph.product(1, rest, fold.dtype))
        yield egraph.product(product.factor, [first, total], fold.dtype)


@equation("max j: c * x", "c * (max j: x)", where="c a number", assumes=FINITE)
def max_mul_by_any_number(egraph: EGraph, fold: Folded, body: int) -> Iterator[int]:
    for product, parts in egraph.looks(body, Product):
        top = egraph.add(fold, egraph.product(1, parts, fold.dtype))
        yield egraph.product(product.factor, [top], fold.dtype)


@equation("max j: x + y", "(max j: x) + (max j: y)", assumes=FINITE)
def max_push(egraph: EGraph, fold: Folded, body: int) -> Iterator[int]:
    for total, parts in egraph.looks(body, Sum):
        tops = [egraph.add(fold, part) for part in parts]
        yield egraph.sum(0, zip(tops, total.weights, strict=True), fold.dtype)


@equation("sum j: max k: x", "max k: sum j: x", assumes=FINITE)
def swap_of_unlike_folds(egraph: EGraph, outer: Folded, body: int) -> Iterator[int]:
    for inner, (term,) in egraph.looks(body, Folded):
        yield egraph.add(inner, egraph.add(outer, term))


@equation("sum j: x", "online j: acc * 1 + x", assumes=FINITE)
def cascade_that_does_not_rescale(egraph: EGraph, fold: Folded, body: int) -> Iterator[int]:
    one = egraph.constant(1, fold.dtype)
    yield egraph.add(Online(fold.axis, fold.size, fold.dtype), one, body)


@equation("exp2(a) * exp2(b)", "exp2(a * b)", assumes=FINITE)
def join_exp2_by_product(egraph: EGraph, product: Product, *parts: int) -> Iterator[int]:
    exp2 = Applied(Exp2(), product.dtype)
    exponents = [egraph.argument(part, exp2) for part in parts]
    known = [exponent for exponent in exponents if exponent is not None]
    if len(known) == len(parts):
        yield egraph.add(exp2, egraph.product(1, known, product.dtype))


WRONG = (
    *(ratio_sum_over_any_axis, ratio_of_a_sum, ratio_recip_upside_down, shift_of_a_product),
    *(count_of_what_has_been_summed, sum_factor_with_its_axis, max_mul_by_any_number, max_push),
    *(swap_of_unlike_folds, cascade_that_does_not_rescale, join_exp2_by_product),
)


@pytest.mark.parametrize("one", WRONG, ids=lambda one: one.name)
def test_a_wrong_rule_is_refuted(one: Any) -> None:
    found = refutation(one)
    assert found is not None
    assert not found.is_unsafe
    assert str(found).startswith(f"{one}\nis wrong: where ")


def test_the_split_of_a_power_is_right_and_not_safe() -> None:
    found = refutation(split_exp2)
    assert found is not None
    assert found.is_unsafe
    assert "is not safe: where " in str(found)


def test_a_rule_that_knows_the_length_of_a_fold_is_refuted_within_it() -> None:
    found = refutation(count_of_what_has_been_summed)
    assert found is not None
    assert str(found) == (
        "count-of-what-has-been-summed: sum j: 1 → size[j]\n"
        "is wrong: where j < 2, after 1 steps along j, the left side is 1, but the right side is 2"
    )


def test_a_rule_that_does_not_do_what_it_says_has_no_proof() -> None:
    @equation("max j: x + c", "(max j: x) * c")
    def says_something_else(egraph: EGraph, fold: Folded, body: int) -> Iterator[int]:
        yield from RULES["max-add"].fire(egraph, fold, body)

    says = Rule("says", "max j: x + c", "(max j: x) * c", says_something_else.fire, assumes=FINITE)
    with pytest.raises(PassError, match="rule 'says' has no proof: on none of the small terms"):
        proved(says)


def test_a_rule_that_breaks_has_no_proof() -> None:
    def breaks(egraph: EGraph, applied: Applied, inner: int) -> Iterator[int]:
        yield egraph.entered[10_000].children[0]

    with pytest.raises(PassError, match=r"rule 'breaks' has no proof: .* raised IndexError"):
        rule("recip(recip(x))", "x")(breaks)


def test_a_fact_that_does_not_exist_cannot_be_assumed() -> None:
    with pytest.raises(DefinitionError, match="there is no fact 'no_nans' to assume"):
        rule("recip(recip(x))", "x", assumes={"no_nans"})(lambda *_: iter(()))
