"""Bounds of expressions: sound, not always tight."""

from functools import lru_cache
from math import inf
from typing import TypeAlias

from luminal_lab.core.dims.expression import (
    Atom,
    Dim,
    Division,
    Expr,
    Extremum,
    Monomial,
    Quotient,
    Remainder,
    Symbol,
    sum_of,
    terms_of,
    without,
)

Interval: TypeAlias = tuple[float, float]
"""The least and the greatest value: ints, or infinite."""


def bounds(dim: Dim) -> tuple[int | None, int | None]:
    """Return the least and the greatest value (None: unbounded); sound, not always tight.

    >>> bounds(2 * Symbol("n", 1, 5) + 1)
    (3, 11)
    """
    low, high = interval(dim)
    return None if low == -inf else int(low), None if high == inf else int(high)


def known(condition: Dim) -> bool | None:
    """Return whether a comparison always holds (True), never does (False), or it depends (None).

    >>> known(Symbol("n", 1, 5) < 6), known(Symbol("n", 1, 5) < 3)
    (True, None)
    """
    low, high = interval(condition)
    return True if low >= 1 else False if high <= 0 else None


def interval(dim: Dim) -> Interval:
    """Return the least and the greatest value."""
    return _interval(dim) if isinstance(dim, Expr) else (dim, dim)


@lru_cache(1 << 15)
def _interval(dim: Expr) -> Interval:
    return -_greatest(-dim), _greatest(dim)


def _greatest(dim: Dim) -> float:
    total: float = 0
    for monomial, factor in terms_of(_raised(dim)):
        low, high = _product(monomial)
        total += (high if factor > 0 else low) * factor
    return total


def _raised(dim: Dim, steps: int = 16) -> Dim:
    """Return an upper bound of a dim, with atoms replaced by their symbolic limits.

    Equal terms then cancel: i*n + j < m*n for an index i below m and j below n.
    """
    for monomial, factor in terms_of(dim):
        for atom in monomial:
            rest = without(monomial, atom)
            low, high = _product(rest)
            if steps and (low >= 0 or high <= 0):
                limit = _limits(atom)[(low >= 0) == (factor > 0)]
                if isinstance(limit, Expr):
                    others = dim - sum_of([(monomial, factor)])
                    return _raised(others + sum_of([(rest, factor)]) * limit, steps - 1)
    return dim


def _product(monomial: Monomial) -> Interval:
    low: float = 1
    high: float = 1
    for atom in monomial:
        least, most = _limits(atom)
        ends = (
            interval(least)[0] if isinstance(least, Expr) else least,
            interval(most)[1] if isinstance(most, Expr) else most,
        )
        corners = [x * y if x and y else 0 for x in (low, high) for y in ends]
        low, high = min(corners), max(corners)
    return low, high


@lru_cache(1 << 15)
def _limits(atom: Atom) -> tuple[Dim | float, Dim | float]:
    """Return the limits of an atom, which may be symbolic."""
    match atom:
        case Symbol(low=least, high=most):
            return least, inf if most is None else most
        case Quotient(x=Symbol(low=least, high=most, multiple_of=multiple), d=d) if d == multiple:
            return -(-least // multiple), inf if most is None else most // multiple
        case Extremum(which=which, args=args):
            lows, highs = zip(*map(interval, args), strict=True)
            return (min(lows), min(highs)) if which == "min" else (max(lows), max(highs))
        case Division(x=x, d=d):
            (low, high), (smallest, largest) = interval(x), interval(d)
            if smallest < 1:
                return -inf, inf
            if isinstance(atom, Remainder):
                top = d - 1
                return 0, min(top, high) if low >= 0 and isinstance(top, int) else top
            top = _raised(x) // d
            if top == atom:
                top = _floor(high, smallest if high >= 0 else largest)
            return _floor(low, largest if low >= 0 else smallest), top
        case _:
            return 0, 1


def _floor(x: float, d: float) -> float:
    if abs(x) == inf:
        return x
    return x // d if d < inf else -(x < 0)
