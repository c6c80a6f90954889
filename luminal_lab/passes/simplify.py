"""`simplify`: replace arithmetic by known results or cheaper forms.

    %one = constant{value = 1.0} : f32[4]
    %y   = mul %x, %one          : f32[4]        →  users of %y read %x
    %z   = recip %r              : f32[4]        →  where %r = recip %x, users of %z read %x

Each rule states its assumptions about floats. A rule without a licence does not fire, and shows
as refused. Rules that reorder roundings are in a separate pass, `reassociate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from luminal_lab.core.dtypes import DType
from luminal_lab.core.ops import Bitcast, Cast, CustomGradient, StopGradient
from luminal_lab.passes.pattern import (
    Match,
    Pattern,
    as_pattern,
    cast,
    exp2,
    fields,
    log2,
    op,
    recip,
    sqrt,
    variables,
    where,
)
from luminal_lab.passes.rewrite import Rewriting
from luminal_lab.passes.rule import Rule, RuleSet, rule

x, y, z = variables("x y z")
b = variables("b")
to, via = fields("to via")

ROUNDED = {"reassociate"}
REAL = {*ROUNDED, "no_signed_zero"}
FINITE = {"no_nan", "no_inf"}


def is_bool(match: Match) -> bool:
    """Return whether the result holds bools."""
    return match.dtype is DType.bool_


def is_int(match: Match) -> bool:
    """Return whether the result holds integers."""
    return match.dtype.kind == "int"


def _is_cast_to_itself(match: Match) -> bool:
    return match.type("x") == match.root.type


def _holds(narrow: DType, wide: DType) -> bool:
    """Return whether a dtype has every value of another."""
    if narrow is DType.bool_ or narrow is wide:
        return True
    if wide.is_float:
        digits = {DType.float64: 53, DType.float32: 24, DType.float16: 11, DType.bfloat16: 8}
        if narrow.is_float:
            exponents = {DType.float64: 11, DType.float32: 8, DType.float16: 5, DType.bfloat16: 8}
            return digits[narrow] <= digits[wide] and exponents[narrow] <= exponents[wide]
        low, high = narrow.limits
        return max(-low, high + 1).bit_length() - 1 <= digits[wide]
    if wide is DType.bool_ or narrow.is_float:
        return False
    (a, b), (low, high) = narrow.limits, wide.limits
    return low <= a and b <= high


@rule("cast-there-and-back", cast(cast(x, dtype=via), dtype=to))
def cast_there_and_back(x: Pattern, via: DType, to: DType, match: Match) -> Pattern | None:
    """Cast once, where the dtype in between holds all values."""
    source = match.type("x").dtype
    # Integers that are cast down wrap around; floats stop at the limit.
    wraps = source.kind == to.kind == "int" and via.is_float and not _holds(source, to)
    return cast(x, dtype=to) if _holds(source, via) and not wraps else None


SIMPLIFY = RuleSet(
    "simplify",
    # sums
    Rule("add-zero", x + 0, x, assumes={"no_signed_zero"}),
    Rule("add-negative-zero", x + -0.0, x),
    Rule("sub-self", x - x, 0, assumes=FINITE),
    Rule("add-bool-self", x + x, x, condition=is_bool),
    # products
    Rule("mul-one", x * 1, x),
    Rule("mul-zero", x * 0, 0, assumes={*FINITE, "no_signed_zero"}),
    Rule("mul-bool-self", x * x, x, condition=is_bool),
    Rule("neg-neg", (x * -1) * -1, x),
    Rule("mul-negs", (x * -1) * (y * -1), x * y),
    # quotients
    Rule("recip-recip", recip(recip(x)), x, assumes={*ROUNDED, *FINITE}),
    Rule("div-self", x * recip(x), 1, assumes={*FINITE, "nonzero", *ROUNDED}),
    # remainders
    Rule("mod-one", x % 1, 0, condition=is_int),
    Rule("mod-self", x % x, 0, assumes={*FINITE, "no_signed_zero"}),
    Rule("zero-mod", as_pattern(0) % y, 0, condition=is_int),
    Rule("mod-mod", (x % y) % y, x % y, condition=is_int),
    # powers and roots
    Rule("exp2-log2", exp2(log2(x)), x, assumes={*REAL, "non_negative"}),
    Rule("log2-exp2", log2(exp2(x)), x, assumes={*REAL, *FINITE}),
    Rule("sqrt-squared", sqrt(x) * sqrt(x), x, assumes={*REAL, "non_negative"}),
    # bits
    Rule("and-self", x & x, x),
    Rule("and-zero", x & 0, 0),
    Rule("and-ones", x & -1, x),
    Rule("and-and", (x & y) & y, x & y),
    Rule("and-or", x & (x | y), x),
    Rule("or-self", x | x, x),
    Rule("or-zero", x | 0, x),
    Rule("or-ones", x | -1, -1),
    Rule("or-or", (x | y) | y, x | y),
    Rule("or-and", x | (x & y), x),
    Rule("xor-self", x ^ x, 0),
    Rule("xor-zero", x ^ 0, x),
    Rule("xor-xor", (x ^ y) ^ y, x),
    Rule("shift-left-by-zero", x << 0, x),
    Rule("shift-right-by-zero", x >> 0, x),
    Rule("zero-shifted-left", as_pattern(0) << y, 0),
    Rule("zero-shifted-right", as_pattern(0) >> y, 0),
    Rule("bitcast-same", op(Bitcast, x), x, condition=_is_cast_to_itself),
    Rule("bitcast-bitcast", op(Bitcast, op(Bitcast, x), dtype=to), op(Bitcast, x, dtype=to)),
    # comparisons and choices
    Rule("less-self", x < x, False),
    Rule("where-same", where(b, x, x), x),
    Rule("where-true", where(True, x, y), x),
    Rule("where-false", where(False, x, y), y),
    Rule("where-where-then", where(b, where(b, x, y), z), where(b, x, z)),
    Rule("where-where-else", where(b, x, where(b, y, z)), where(b, x, z)),
    Rule("where-itself", where(b, True, False), b),
    Rule("cast-same", op(Cast, x), x, condition=_is_cast_to_itself),
    cast_there_and_back,
    # markers that later steps do not need
    Rule("stop-gradient", op(StopGradient, x), x),
    Rule("custom-gradient", op(CustomGradient, x, more=True), x),
)


@dataclass(frozen=True)
class Simplify(Rewriting):
    """Replace arithmetic by known results or cheaper forms."""

    name: ClassVar[str] = "simplify"
    rule_set: ClassVar[RuleSet] = SIMPLIFY
