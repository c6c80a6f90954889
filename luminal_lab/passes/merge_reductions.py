"""`merge-reductions`: merge neighbouring reductions, and drop those of repeated values.

    %a = max_reduce{axis = 2} %x : f32[2, 3, 1]        %b = reshape{shape = [2, 12, 1]} %x
    %y = max_reduce{axis = 1} %a : f32[2, 1, 1]   →    %y = max_reduce{axis = 1} %b

    %a = expand{shape = [2, 4]} %x : f32[2, 4]
    %y = max_reduce{axis = 1} %a   : f32[2, 1]    →    users of %y read %x

Two axes are one axis of another shape if only axes of size 1 lie between them. The largest
value is the same in any order except for the sign of zeros; a sum of floats is not. Merging sums
(or multiplying instead of adding equal values) needs a licence that grants `reassociate`,
`no_inf` and `no_nan`, since a sum may overflow in only one order. A reduction with other readers
stays, since it would be computed twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from luminal_lab.core.dims import Dim, Shape, known
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Reduce
from luminal_lab.core.ops import Expand, MaxReduce, Reshape, SumReduce
from luminal_lab.passes.pattern import Match, Pattern, fields, op, variables
from luminal_lab.passes.rewrite import Rewriting
from luminal_lab.passes.rule import Rule, RuleSet

x = variables("x")
a, b = fields("a b")
shape = fields("shape")
ANY_ORDER = {"reassociate", "no_inf", "no_nan"}
"""The facts for another order of additions, in which a sum may overflow."""


def _merged(cls: type[Reduce]) -> Callable[[Pattern, int, int, Match], Pattern | None]:
    def merged(x: Pattern, a: int, b: int, match: Match) -> Pattern | None:
        """Reduce both axes at once, as one axis of another shape."""
        given = match.type("x").shape
        return _at_once(cls, x, given, a, b) if a != b and _is_read_once(match, 1) else None

    return merged


def _merged_through(cls: type[Reduce]) -> Callable[[Pattern, int, int, Match], Pattern | None]:
    def merged(x: Pattern, a: int, b: int, match: Match) -> Pattern | None:
        """Reduce both axes at once, where a reshape in between drops or adds axes of size 1."""
        given = match.type("x").shape
        left = (*given[:b], 1, *given[b + 1 :])
        (between,) = match.graph.sources(match.root)
        olds, news = ([k for k, dim in enumerate(s) if dim != 1] for s in (left, between.shape))
        same = [left[k] for k in olds] == [between.shape[k] for k in news]
        if not same or a not in news or not _is_read_once(match, 2):
            return None
        reduced = _at_once(cls, x, given, olds[news.index(a)], b)
        return None if reduced is None else op(Reshape, reduced, shape=match.root.shape)

    return merged


def _at_once(cls: type[Reduce], x: Pattern, shape: Shape, a: int, b: int) -> Pattern | None:
    low, high = sorted((a, b))
    between = shape[low + 1 : high]
    if 1 in (shape[low], shape[high]) or any(dim != 1 for dim in between):
        return None
    size = shape[low] * shape[high]
    flat = (*shape[:low], size, *between, 1, *shape[high + 1 :])
    return op(cls, op(Reshape, x, shape=flat), axis=low)


def _is_read_once(match: Match, below: int) -> bool:
    """Return whether the nodes down to a depth below the root serve only the root."""
    node = match.root
    for _ in range(below):
        (node,) = match.graph.sources(node)
        if len(match.graph.users(node)) > 1 or match.graph.is_output(node):
            return False
    return True


# -- equal values ----------------------------------------------------------------------------------


def _times(x: Pattern, a: int, shape: Shape, match: Match) -> Pattern | None:
    """Multiply by the number of equal values."""
    count = _repeats(a, shape, match)
    if count is None or not _is_number_of(match.dtype, count):
        return None
    if match.dtype.is_float and known(count >= 1) is not True:
        return None  # 0 · inf is NaN, but an empty sum is 0
    value = _single_element(x, match)
    return value * count


def _once(x: Pattern, a: int, shape: Shape, match: Match) -> Pattern | None:
    """Take one of equal values."""
    count = _repeats(a, shape, match)
    return _single_element(x, match) if count is not None and known(count >= 1) is True else None


def _repeats(axis: int, shape: Shape, match: Match) -> Dim | None:
    """Return the number of copies that an expand makes along an axis, if any."""
    return shape[axis] if match.type("x").shape[axis] == 1 and shape[axis] != 1 else None


def _single_element(x: Pattern, match: Match) -> Pattern:
    wanted = match.root.shape
    return x if match.type("x").shape == wanted else op(Expand, x, shape=wanted)


def _is_number_of(dtype: DType, count: Dim) -> bool:
    """Return whether a dtype holds a number; integers wrap around, like their sums."""
    if not dtype.is_half:
        return True
    with np.errstate(over="ignore"):
        return isinstance(count, int) and float(np.asarray(count).astype(dtype.numpy)) == count


MERGE_REDUCTIONS = RuleSet(
    "merge-reductions",
    Rule(
        "max-of-max",
        op(MaxReduce, op(MaxReduce, x, axis=b), axis=a),
        _merged(MaxReduce),
        assumes={"no_signed_zero"},
    ),
    Rule(
        "max-of-reshaped-max",
        op(MaxReduce, op(Reshape, op(MaxReduce, x, axis=b)), axis=a),
        _merged_through(MaxReduce),
        assumes={"no_signed_zero"},
    ),
    Rule("max-of-expand", op(MaxReduce, op(Expand, x, shape=shape), axis=a), _once),
    Rule(
        "sum-of-sum",
        op(SumReduce, op(SumReduce, x, axis=b), axis=a),
        _merged(SumReduce),
        assumes=ANY_ORDER,
    ),
    Rule(
        "sum-of-reshaped-sum",
        op(SumReduce, op(Reshape, op(SumReduce, x, axis=b)), axis=a),
        _merged_through(SumReduce),
        assumes=ANY_ORDER,
    ),
    Rule(
        "sum-of-expand",
        op(SumReduce, op(Expand, x, shape=shape), axis=a),
        _times,
        assumes={"reassociate", "no_signed_zero"},
    ),
)


@dataclass(frozen=True)
class MergeReductions(Rewriting):
    """Merge neighbouring reductions, and drop those of repeated values."""

    name: ClassVar[str] = "merge-reductions"
    rule_set: ClassVar[RuleSet] = MERGE_REDUCTIONS
