"""`merge-reductions`: merge neighbouring maxima, and drop those of repeated values.

    %a = max_reduce{axis = 2} %x : f32[2, 3, 1]        %b = reshape{shape = [2, 12, 1]} %x
    %y = max_reduce{axis = 1} %a : f32[2, 1, 1]   →    %y = max_reduce{axis = 1} %b

    %a = expand{shape = [2, 4]} %x : f32[2, 4]
    %y = max_reduce{axis = 1} %a   : f32[2, 1]    →    users of %y read %x

Two axes are one axis of another shape if only axes of size 1 lie between them. The largest value
is the same in any order except for the sign of zeros. Sums are not, and stay as they are written:
their kernels go through both axes anyway, and a search regroups them by rules. A reduction with
other readers stays, since it would be computed twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from luminal_lab.core.dims import Shape, known
from luminal_lab.core.ops import Expand, MaxReduce, Reshape
from luminal_lab.passes.pattern import Match, Pattern, fields, op, variables
from luminal_lab.passes.rewrite import Rewriting
from luminal_lab.passes.rule import Rule, RuleSet

x = variables("x")
a, b = fields("a b")
shape = fields("shape")


def _merged(x: Pattern, a: int, b: int, match: Match) -> Pattern | None:
    """Reduce both axes at once, as one axis of another shape."""
    given = match.type("x").shape
    return _at_once(x, given, a, b) if a != b and _is_read_once(match, 1) else None


def _merged_through(x: Pattern, a: int, b: int, match: Match) -> Pattern | None:
    """Reduce both axes at once, where a reshape in between drops or adds axes of size 1."""
    given = match.type("x").shape
    left = (*given[:b], 1, *given[b + 1 :])
    (between,) = match.graph.sources(match.root)
    olds, news = ([k for k, dim in enumerate(s) if dim != 1] for s in (left, between.shape))
    same = [left[k] for k in olds] == [between.shape[k] for k in news]
    if not same or a not in news or not _is_read_once(match, 2):
        return None
    reduced = _at_once(x, given, olds[news.index(a)], b)
    return None if reduced is None else op(Reshape, reduced, shape=match.root.shape)


def _at_once(x: Pattern, shape: Shape, a: int, b: int) -> Pattern | None:
    low, high = sorted((a, b))
    between = shape[low + 1 : high]
    if 1 in (shape[low], shape[high]) or any(dim != 1 for dim in between):
        return None
    size = shape[low] * shape[high]
    flat = (*shape[:low], size, *between, 1, *shape[high + 1 :])
    return op(MaxReduce, op(Reshape, x, shape=flat), axis=low)


def _is_read_once(match: Match, below: int) -> bool:
    """Return whether the nodes down to a depth below the root serve only the root."""
    node = match.root
    for _ in range(below):
        (node,) = match.graph.sources(node)
        if len(match.graph.users(node)) > 1 or match.graph.is_output(node):
            return False
    return True


def _once(x: Pattern, a: int, shape: Shape, match: Match) -> Pattern | None:
    """Take one of the equal values that an expand makes along an axis."""
    given, wanted = match.type("x").shape, match.root.shape
    if given[a] != 1 or shape[a] == 1 or known(shape[a] >= 1) is not True:
        return None
    return x if given == wanted else op(Expand, x, shape=wanted)


MERGE_REDUCTIONS = RuleSet(
    "merge-reductions",
    Rule(
        "max-of-max",
        op(MaxReduce, op(MaxReduce, x, axis=b), axis=a),
        _merged,
        assumes={"no_signed_zero"},
    ),
    Rule(
        "max-of-reshaped-max",
        op(MaxReduce, op(Reshape, op(MaxReduce, x, axis=b)), axis=a),
        _merged_through,
        assumes={"no_signed_zero"},
    ),
    Rule("max-of-expand", op(MaxReduce, op(Expand, x, shape=shape), axis=a), _once),
)


@dataclass(frozen=True)
class MergeReductions(Rewriting):
    """Merge neighbouring maxima, and drop those of repeated values."""

    name: ClassVar[str] = "merge-reductions"
    rule_set: ClassVar[RuleSet] = MERGE_REDUCTIONS
