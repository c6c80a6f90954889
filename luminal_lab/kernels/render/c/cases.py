"""A loop apart by the conditions in it, so that no iteration asks for any.

    for j < n: y[j] = [i < m and 0 < j: x[j - 1]]
    →   if i < m: for j < 1: y[j] = 0;   for 1 ≤ j < n: y[j] = x[j - 1]
        else:     for j < n: y[j] = 0

What does not depend on the axis becomes a branch, and what does cuts the loop in two. A compiler
makes vectors of loops without conditions; with them it asks once for each element.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from luminal_lab.core.dims import Dim, both, bounds, maximum, minimum, symbols
from luminal_lab.core.dims.expression import Negative, Quotient, products
from luminal_lab.core.ops import Where
from luminal_lab.kernels.definition.substitution import rebuilt
from luminal_lab.kernels.definition.terms import Apply, Guarded, Number, Term
from luminal_lab.kernels.nest.nest import Loop, Set, Statement, axes_in, mapped, terms_in, walk
from luminal_lab.kernels.nest.sizes import about, atoms, names_in, slope

MOST = 6
"""How many loops may become of one."""
LONG = 20
"""Loops shorter than this are not cut, only branched around."""


@dataclass(frozen=True)
class Branched:
    """What runs if a condition holds, and what runs otherwise."""

    holds: Dim
    then: Cases
    otherwise: Cases


@dataclass(frozen=True)
class InTurn:
    """What runs one after the other: the two parts of a loop."""

    parts: tuple[Cases, Cases]


Cases: TypeAlias = Loop | Branched | InTurn


def cases_of(loop: Loop) -> Cases | None:
    """Return what becomes of a loop of assignments; None if nothing does, or too much."""
    inside = [each for each in walk(loop.body) if not isinstance(each, Loop)]
    if not all(isinstance(each, Set) and each.how == "=" for each in inside):
        return None
    if not 0 < len({*_conditions(loop)}) <= 2 * MOST:
        return None
    cases = _apart(loop)
    return None if cases == loop or len([*_loops(cases)]) > MOST else cases


def _apart(loop: Loop) -> Cases:
    inner, fixed, moving = axes_in(loop.body), list[Negative](), list[Negative]()
    for condition in _conditions(loop):
        if inner.isdisjoint(names_in(condition)):
            (moving if loop.axis in symbols(condition) else fixed).append(condition)
    for condition in dict.fromkeys(fixed):
        then = _apart(_decided(loop, condition, holds=True))
        otherwise = _apart(_decided(loop, condition, holds=False))
        if then == otherwise:
            return then
        if isinstance(then, Branched) and then.otherwise == otherwise:
            return Branched(both(condition, then.holds), then.then, otherwise)
        return Branched(condition, then, otherwise)
    for condition in dict.fromkeys(moving):
        step = slope(condition.x, loop.axis)
        if isinstance(step, int) and step and about(loop.size) - about(loop.start) >= LONG:
            return _cut(loop, condition, step)
    return loop


def _cut(loop: Loop, condition: Negative, step: int) -> Cases:
    """Cut a loop where a condition ceases to hold, or begins to."""
    rest = condition.x - step * loop.axis
    # step*j + rest < 0 for all j below (-rest)/step, rounded up; or above rest/-step, rounded down.
    end = _divided(step - 1 - rest, step) if step > 0 else _divided(rest, -step) + 1
    cut = minimum(loop.size, maximum(loop.start, end))
    first = _decided(replace(loop, size=cut), condition, holds=step > 0)
    second = _decided(replace(loop, start=cut), condition, holds=step < 0)
    if first.body == second.body:
        return _apart(replace(first, size=loop.size))
    return InTurn((_apart(first), _apart(second)))


def _divided(dim: Dim, by: int) -> Dim:
    """Return a quotient rounded down, without quotients of negative numbers if that is possible."""
    other = -((by - 1 - dim) // by)
    return min(dim // by, other, key=lambda each: _is_negative(each))


def _is_negative(dim: Dim) -> bool:
    """Return whether a quotient in a dim may be of a negative number."""
    lows = (bounds(atom.x)[0] for atom in atoms((dim,)) if isinstance(atom, Quotient))
    return any(low is None or low < 0 for low in lows)


def _conditions(loop: Loop) -> Iterator[Negative]:
    for part in terms_in(loop.body):
        if isinstance(part, Guarded):
            for _, factors in products(part.holds):
                yield from (each for each in factors if isinstance(each, Negative))


def _truth(other: Negative, condition: Negative, *, holds: bool) -> bool | None:
    """Return what follows for another condition where one holds, or does not."""
    difference, total = bounds(other.x - condition.x), bounds(other.x + condition.x)
    if holds:
        return True if _below(difference[1], 0) else False if _below(-1, total[0]) else None
    return False if _below(0, difference[0]) else True if _below(total[1], -1) else None


def _known(dim: Dim, condition: Negative, *, holds: bool) -> Dim:
    """Return a dim with the conditions in it decided for which something follows."""
    whole: Dim = 0
    for factor, factors in products(dim):
        value: Dim = factor
        for each in factors:
            is_condition = isinstance(each, Negative)
            known = _truth(each, condition, holds=holds) if is_condition else None
            value = value * (each if known is None else int(known))
        whole = whole + value
    return whole


def _decided(loop: Loop, condition: Negative, *, holds: bool) -> Loop:
    """Return a loop in all of whose iterations a condition holds, or in none."""
    located = partial(_known, condition=condition, holds=holds)
    done: dict[int, tuple[Term, Term]] = {}

    def part(term: Term) -> Term:
        if id(term) not in done:
            done[id(term)] = term, made(term)
        return done[id(term)][1]

    def made(term: Term) -> Term:
        match term:
            case Apply(op=Where(), args=(choice, *values)):
                choice = part(choice)
                if isinstance(choice, Number):
                    return part(values[0 if choice.value else 1])
            case Guarded(holds=asked, term=inner) if located(asked) == 0:
                return Number(0, inner.dtype)
            case _:
                pass
        return rebuilt(term, located, part)

    def decided(statement: Statement) -> Statement:
        is_set = isinstance(statement, Set)
        return replace(statement, term=part(statement.term)) if is_set else statement

    return replace(loop, body=mapped(loop.body, decided))


def _below(a: int | None, b: int | None) -> bool:
    """Return whether a bound is known, and at most another."""
    return a is not None and b is not None and a <= b


def _loops(cases: Cases) -> Iterator[Loop]:
    match cases:
        case Branched(then=then, otherwise=otherwise):
            yield from _loops(then)
            yield from _loops(otherwise)
        case InTurn(parts=parts):
            for each in parts:
                yield from _loops(each)
        case _:
            yield cases
