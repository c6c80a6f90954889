"""`reassociate`: sums and products in another order, so that constants meet and work is shared.

    %y = mul %x, %two   : f32[4]
    %z = mul %y, %three : f32[4]        →  %z = mul %x, %six

For integers this is exact. For floats it rounds in another order, which only a licence that grants
`reassociate` allows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from luminal_lab.core.op import Scalar, TensorType
from luminal_lab.passes.pattern import (
    Pattern,
    constants,
    exp2,
    fields,
    log2,
    recip,
    sqrt,
    sum_reduce,
    variables,
)
from luminal_lab.passes.rewrite import Rewriting
from luminal_lab.passes.rule import Rule, RuleSet, rule

x, y, z = variables("x y z")
c, d = constants("c d")
axis = fields("axis")

ROUNDED = {"reassociate", "no_inf", "no_nan"}
REAL = ROUNDED | {"no_signed_zero"}
"""The facts for factoring sums: -1 · 1 + -1 · -1 is 0, but -1 · (1 + -1) is -0."""


def is_computed(y: TensorType | Scalar) -> bool:
    """Return whether y is not a constant."""
    return isinstance(y, TensorType)


def is_finite(c: Scalar) -> bool:
    """Return whether c is a finite number: an empty sum is 0, but 0 times infinity is NaN."""
    return not isinstance(c, float) or math.isfinite(c)


@rule("add-constants", (x + c) + d, assumes=ROUNDED)
def add_constants(x: Pattern, c: float, d: float) -> Pattern:
    """Add two constants first."""
    return x + (c + d)


@rule("mul-constants", (x * c) * d, assumes=ROUNDED)
def mul_constants(x: Pattern, c: float, d: float) -> Pattern:
    """Multiply two constants first."""
    return x * (c * d)


@rule("factor-constants", x * c + x * d, assumes=REAL)
def factor_constants(x: Pattern, c: float, d: float) -> Pattern:
    """Add two factors of one value first."""
    return x * (c + d)


@rule("add-multiple", x + x * c, assumes=REAL)
def add_multiple(x: Pattern, c: float) -> Pattern:
    """Count a value once more."""
    return x * (c + 1)


REASSOCIATE = RuleSet(
    "reassociate",
    add_constants,
    mul_constants,
    factor_constants,
    add_multiple,
    Rule("add-self", x + x, x * 2, assumes=ROUNDED),
    Rule("add-constant-last", (x + c) + y, (x + y) + c, assumes=ROUNDED, condition=is_computed),
    Rule("mul-constant-last", (x * c) * y, (x * y) * c, assumes=ROUNDED, condition=is_computed),
    Rule("factor", x * y + x * z, x * (y + z), assumes=REAL),
    Rule("mul-exp2", exp2(x) * exp2(y), exp2(x + y), assumes=ROUNDED),
    Rule("mul-recip", recip(x) * recip(y), recip(x * y), assumes=ROUNDED | {"nonzero"}),
    Rule("mul-sqrt", sqrt(x) * sqrt(y), sqrt(x * y), assumes=ROUNDED | {"non_negative"}),
    Rule("add-log2", log2(x) + log2(y), log2(x * y), assumes=ROUNDED | {"non_negative"}),
    Rule(
        "sum-scaled",
        sum_reduce(x * c, axis=axis),
        sum_reduce(x, axis=axis) * c,
        assumes=REAL,
        condition=is_finite,
    ),
)


@dataclass(frozen=True)
class Reassociation(Rewriting):
    """Order sums and products so that constants meet and work is shared."""

    name: ClassVar[str] = "reassociate"
    rule_set: ClassVar[RuleSet] = REASSOCIATE
