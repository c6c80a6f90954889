"""Enclosures: for each value of a graph, the bounds within which rounding leaves it.

Each op is computed for both bounds of its sources, in float64, and each rounding moves the bounds
apart. They contain the results of all orders of a sum or product, and little else: if the bounds of
two values are disjoint, no order of rounding makes the values equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.ir import Node
from luminal_lab.core.op import Op, Source
from luminal_lab.core.ops import (
    Add,
    Bitcast,
    Cast,
    Constant,
    LessThan,
    Log2,
    Mod,
    Mul,
    Recip,
    Sin,
    Sqrt,
    SumReduce,
    Where,
)
from luminal_lab.core.ops.bits import Bitwise
from luminal_lab.errors import Interrupted
from luminal_lab.passes.corners import limits_of

Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
LARGEST = float(np.finfo(np.float64).max)


class Bounds(NamedTuple):
    """The least and the greatest value: floats in float64, others in their dtype."""

    low: Any
    high: Any

    def meets(self, other: Bounds) -> Bools:
        """Return where two values may be equal."""
        below = np.less_equal(self.low, other.high)
        return np.asarray(below & np.less_equal(other.low, self.high), bool)


def enclosures(
    nodes: Iterable[Node], values: Mapping[int, Array], *, given: Container[int], overflows: bool
) -> dict[int, Bounds]:
    """Return the bounds of all values of a graph.

    Constants that are not given were calculated, and so rounded. Overflow gives an infinity, or,
    where overflow is excluded, a value beyond all finite ones.
    """
    bounds_of: dict[int, Bounds] = {}
    with np.errstate(all="ignore"):
        for node in nodes:
            sources = [bounds_of[id] for id in node.sources]
            bounds = _bounds(node, sources, values[node.id])
            if node.dtype.is_float:
                calculated = isinstance(node.op, Constant) and node.id not in given
                exact = node.op.ulps == 0 and not calculated
                if calculated and not overflows:
                    bounds = _finite(bounds, limits_of(node.dtype).largest)
                bounds = _rounded(bounds, node, sources, exact=exact, overflows=overflows)
            bounds_of[node.id] = bounds
    return bounds_of


def _bounds(node: Node, sources: list[Bounds], value: Array) -> Bounds:
    """Return the bounds before the result is rounded."""
    op, floats = node.op, node.dtype.is_float
    is_same = all((low == high).all() for low, high in sources)
    if is_same and (not floats or isinstance(op, Bitcast)):
        return Bounds(value, value)
    if isinstance(op, (Bitwise, Bitcast)):  # of other values the bits may be any
        ends = (-math.inf, math.inf) if floats else node.dtype.limits
        return Bounds(*(np.full_like(value, end) for end in ends))
    how = SPECIAL.get(type(op)) if floats or not isinstance(op, (Mul, Mod)) else None
    if how is not None:
        return how(*sources)
    if isinstance(op, Cast) and (floats or node.dtype is DType.bool_):
        return _converted(*sources) if floats else _is_something(*sources)
    if not isinstance(op, Source):
        try:
            return _hull(*[op.eval(*ends) for ends in zip(*sources, strict=True)])
        except Interrupted:
            raise
        except Exception:  # a user's op, which takes its own dtype alone
            pass
    value = value.astype(np.float64) if floats else value
    return Bounds(value, value)


def _hull(*ends: Any) -> Bounds:
    return Bounds(np.minimum.reduce(ends), np.maximum.reduce(ends))


def _product(x: Bounds, y: Bounds) -> Bounds:
    products = [np.multiply(a, b) for a in x for b in y]
    # 0 times an infinite bound is 0, since the value itself is finite.
    return _hull(*[np.where(np.isnan(product), 0, product) for product in products])


def _root(x: Bounds) -> Bounds:
    low, high = (np.sqrt(np.maximum(end, 0)) for end in x)
    return Bounds(low, np.where(x.high < 0, np.nan, high))


def _logarithm(x: Bounds) -> Bounds:
    low, high = (np.log2(np.maximum(end, 0)) for end in x)
    return Bounds(low, np.where(x.high < 0, np.nan, high))


def _is_less(x: Bounds, y: Bounds) -> Bounds:
    return Bounds(np.less(x.high, y.low), np.less(x.low, y.high))


def _is_something(x: Bounds) -> Bounds:
    sure = np.greater(x.low, 0) | np.less(x.high, 0)
    return Bounds(sure, np.not_equal(x.low, 0) | np.not_equal(x.high, 0))


def _converted(x: Bounds) -> Bounds:
    return Bounds(x.low.astype(np.float64), x.high.astype(np.float64))


def _chosen(condition: Bounds, x: Bounds, y: Bounds) -> Bounds:
    pairs = [(x.low, y.low), (x.high, y.high)]
    return _hull(*[np.where(end, *pair) for end in condition for pair in pairs])


def _quotient(x: Bounds) -> Bounds:
    low, high = (np.reciprocal(end.astype(np.float64)) for end in x)
    sure = np.equal(x.low, x.high)
    negative, positive = np.less(x.low, 0), np.greater(x.high, 0)
    least = np.select([sure, negative & np.greater_equal(x.high, 0)], [low, -np.inf], high)
    most = np.select([sure, positive & np.less_equal(x.low, 0)], [low, np.inf], low)
    return Bounds(least, most)


def _sine(x: Bounds) -> Bounds:
    width = np.subtract(x.high, x.low) / 2
    middle = np.sin(np.add(x.low, width))
    wide = ~(width < 2)
    low = np.where(wide, -1, np.maximum(-1, middle - width))
    return Bounds(low, np.where(wide, 1, np.minimum(1, middle + width)))


def _remainder(x: Bounds, y: Bounds) -> Bounds:
    whole = [np.floor_divide(end, y.low) for end in x]
    sure = np.equal(y.low, y.high) & np.equal(*whole)
    ends = np.mod(x.low, y.low), np.mod(x.high, y.low)
    around = np.minimum(0, y.low), np.maximum(0, y.high)
    return Bounds(*[np.where(sure, *pair) for pair in zip(ends, around, strict=True)])


SPECIAL: Mapping[type[Op], Callable[..., Bounds]] = {
    Mul: _product,
    Recip: _quotient,
    Sqrt: _root,
    Log2: _logarithm,
    Sin: _sine,
    Mod: _remainder,
    LessThan: _is_less,
    Where: _chosen,
}
"""Ops that are not monotonic, or whose sources may lie outside their domain."""


# -- rounding --------------------------------------------------------------------------------------


def _rounded(
    bounds: Bounds, node: Node, sources: list[Bounds], *, exact: bool, overflows: bool
) -> Bounds:
    """Return bounds that hold for every rounding of the value."""
    top, eps, _, least, *_ = limits_of(node.dtype)
    room = 0.0
    if isinstance(node.op, SumReduce):
        room = _room(node.op.axis, *sources) * eps
    low, high = bounds
    if not exact:
        eps *= max(1, node.op.ulps)
        low, high = low - _step(low, node, eps, least), high + _step(high, node, eps, least)
    low, high = low - room, high + room
    if not overflows:
        # A sum that overflows both ways in between can be any number.
        low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
        return _finite(Bounds(low, high), LARGEST)
    return Bounds(_within(low, top), _within(high, top))


def _finite(bounds: Bounds, largest: float) -> Bounds:
    """Return the bounds of overflown values: from the largest number on."""
    return Bounds(np.minimum(bounds.low, largest), np.maximum(bounds.high, -largest))


def _within(end: Floats, top: float) -> Floats:
    return np.where(abs(end) > top, np.copysign(math.inf, end), end)


def _room(axis: int, x: Bounds) -> Floats | float:
    """Return the number of roundings that may accumulate in a sum, in any order."""
    count = x.low.shape[axis]
    sizes = np.maximum(abs(x.low), abs(x.high))
    total = np.sum(np.where(np.isfinite(sizes), sizes, 0), axis=axis, keepdims=True)
    return count * total if count > 1 else 0.0


def _step(end: Floats, node: Node, eps: float, least: float) -> Floats:
    """Return how far rounding may move a bound."""
    step = np.where(np.isfinite(end), eps * abs(end) + least, 0)
    if isinstance(node.op, Cast):  # values of the dtype round to themselves
        return np.where(end.astype(node.dtype.numpy).astype(np.float64) == end, 0, step)
    # Only a sum of opposites is 0; in float64 a product may vanish.
    zero = isinstance(node.op, Add if node.dtype is DType.float64 else (Add, Mul))
    return np.where(end == 0, 0, step) if zero else step
