"""`single-reductions`: a reduction over one element is that element.

    graph g(%x: f32[4, 1]) -> (%z) {
      %y = sum_reduce{axis = 1} %x : f32[4, 1]         →  users of %y read %x
      %z = sqrt %y : f32[4, 1]
    }

The bounds of a symbol may show that an axis has size 1; then a slice states it in the type. A
sum begins at 0, and 0 + -0.0 is 0.0, which is why sums assume `no_signed_zero`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from luminal_lab.core.dims import bounds
from luminal_lab.core.op import Reduce
from luminal_lab.core.ops import MaxReduce, Slice, SumReduce
from luminal_lab.passes.pattern import Match, Pattern, fields, op, variables
from luminal_lab.passes.rewrite import Rewriting
from luminal_lab.passes.rule import Rule, RuleSet

x = variables("x")
axis = fields("axis")


def _only_element(x: Pattern, axis: int, match: Match) -> Pattern | None:
    """Return the source if the axis has one position; sliced, where only bounds show it."""
    shape = match.type("x").shape
    if shape[axis] == 1:
        return x
    if bounds(shape[axis]) != (1, 1):
        return None
    ones = tuple(1 for _ in shape)
    return op(Slice((0,) * len(shape), match.root.shape, ones), x)


def _single(name: str, cls: type[Reduce], *assumes: str) -> Rule:
    return Rule(name, op(cls, x, axis=axis), _only_element, assumes=assumes)


SINGLE_REDUCTIONS = RuleSet(
    "single-reductions",
    _single("sum-of-one", SumReduce, "no_signed_zero"),
    _single("max-of-one", MaxReduce),
)


@dataclass(frozen=True)
class SingleReductions(Rewriting):
    """Drop reductions over axes of size 1."""

    name: ClassVar[str] = "single-reductions"
    rule_set: ClassVar[RuleSet] = SINGLE_REDUCTIONS
