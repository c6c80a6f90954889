"""Arithmetic and comparisons of expressions: the rules that keep results canonical."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, reduce
from math import gcd, inf
from operator import attrgetter
from typing import TypeAlias

from luminal_lab.core.dims.expression import (
    SMALLER,
    Dim,
    Division,
    Expr,
    Extremum,
    Monomial,
    Negative,
    Quotient,
    Remainder,
    Symbol,
    products,
    sum_in_order,
    sum_of,
    symbol_of,
    terms_of,
    without,
)
from luminal_lab.core.dims.limits import interval
from luminal_lab.errors import ShapeError

Table: TypeAlias = dict[Monomial, int]
MOST_PARTS = 256
"""The most products and factors, counted together, in one expression."""
MOST_ARGUMENTS = 16
"""The most arguments of a min or max."""

# -- + and * ---------------------------------------------------------------------------------------


@lru_cache(1 << 15)
def plus(a: Dim, b: Dim) -> Dim:
    """Return a + b."""
    if isinstance(b, int):
        terms, number = terms_of(a), int(b)
        if terms and not terms[-1][0]:
            terms, number = terms[:-1], number + terms[-1][1]
        return sum_in_order((*terms, ((), number)) if number else terms)
    table = dict(terms_of(a))
    _add(table, b)
    return _canonical(table)


@lru_cache(1 << 15)
def times(a: Dim, b: Dim) -> Dim:
    """Return a * b."""
    table: Table = {}
    _add(table, a, b)
    return _canonical(table)


def _add(table: Table, a: Dim, b: Dim = 1, sign: int = 1) -> None:
    """Add a*b."""
    for left, f in terms_of(a):
        for right, g in terms_of(b):
            monomial = _times(left, right)
            table[monomial] = table.get(monomial, 0) + f * g * sign


def _times(left: Monomial, right: Monomial) -> Monomial:
    if not left or not right:
        return left or right
    # A comparison times itself is itself.
    extra = [atom for atom in right if not (isinstance(atom, Negative) and atom in left)]
    return tuple(sorted((*left, *extra), key=attrgetter("order")))


def _canonical(table: Table) -> Dim:
    dim = sum_of(table.items())
    if sum(len(m) + 1 if f >> 63 in (0, -1) else inf for m, f in terms_of(dim)) > MOST_PARTS:
        raise ShapeError(f"a dim has more than {MOST_PARTS} parts, or huge ones", hint=SMALLER)
    remainders = [a for m, _ in terms_of(dim) for a in m if isinstance(a, Remainder)]
    joined = next(_joined(dim, remainders), None) if remainders else None
    return dim if joined is None else _canonical(joined)


def _joined(dim: Dim, remainders: list[Remainder]) -> Iterator[Table]:
    """Yield a sum with x//d*d + x%d as x, or with x//d%e*d + x%d as x%(d*e)."""
    for low in remainders:
        above = low.x // low.d
        wholes = [(above, low.x)]
        wholes += [
            (high, low.x % (low.d * high.d))
            for high in remainders
            if high.x == above and interval(high.d)[0] >= 1
        ]
        for monomial, factor in terms_of(dim):
            if low in monomial:
                rest = sum_of([(without(monomial, low), factor)])
                for high, whole in wholes:
                    wanted, left = Table(), dict(terms_of(dim))
                    del left[monomial]
                    _add(wanted, high * low.d, rest)
                    if all(left.pop(m, 0) == f for m, f in wanted.items()):
                        _add(left, whole, rest)
                        yield left


# -- // and % --------------------------------------------------------------------------------------


def floordiv(x: Dim, d: Dim) -> Dim:
    """Return x // d."""
    return x // d if isinstance(x, int) and isinstance(d, int) and d else _divided(x, d)[0]


def mod(x: Dim, d: Dim) -> Dim:
    """Return x % d."""
    return x % d if isinstance(x, int) and isinstance(d, int) and d else _divided(x, d)[1]


@lru_cache(1 << 15)
def _divided(x: Dim, d: Dim) -> tuple[Dim, Dim]:
    """Return x // d and x % d."""
    if d == 0:
        raise ShapeError(
            "a dim is divided by 0", hint="where a size may be 0, divide by max(size, 1)"
        )
    if isinstance(d, int) and d < 0:
        q, r = _divided(-x, -d)
        return q, -r
    if x == 0 or interval(d)[0] < 1:
        return (0, 0) if x == 0 else (Quotient(x, d), Remainder(x, d))
    for q, r in _divisions(x, d):
        more = _only_quotient(r, d)
        if more is not None:
            return q + more, r - more * d
        if len(terms_of(d)) == 1:
            more, rest = _divided_rest(r, d)
            return q + more, rest
    return Quotient(x, d), Remainder(x, d)


def _only_quotient(x: Dim, d: Dim) -> int | None:
    """Return x // d if its bounds leave one value."""
    low, high = interval(x)
    if isinstance(d, int):
        return int(low // d) if low // d == high // d else None
    return 0 if low >= 0 and interval(x - d)[1] < 0 else None


def _divided_rest(x: Dim, d: Dim) -> tuple[Dim, Dim]:
    """Return x // d and x % d for a product d that divides no term of x."""
    for step in () if isinstance(x, Symbol) else _steps(x, d):
        # (4*i + j)//12 is i//3 where j < 4
        for y, rest in _divisions(x, step):
            if _only_quotient(rest, step) == 0:
                q, r = _divided(y, next(_divisions(d, step))[0])
                return q, r * step + rest
    match [term for term in terms_of(x) if any(isinstance(a, Division) for a in term[0])]:
        case [((Remainder(x=y, d=e) as inner,), 1)] if x == inner:
            times = _exactly(e, d)
            if times is not None and interval(times)[0] >= 1:
                # x%12//4 is x//4%3
                return y // d % times, y % d
        case [((Quotient(x=y, d=e) as inner,), 1)] if interval(e)[0] >= 1:
            # (x//4 + y)//3 is (x + 4*y)//12
            divided = floordiv if symbol_of(inner) is None else Quotient
            q = divided(y + (x - inner) * e, e * d)
            return q, x - q * d if isinstance(q, int) else Remainder(x, d)
        case _:
            pass
    return Quotient(x, d), Remainder(x, d)


def _divisions(x: Dim, d: Dim) -> Iterator[tuple[Dim, Dim]]:
    """Yield q and r with x = q*d + r: once if d is a product, else after each division step."""
    (first, k), *more = terms_of(d)
    q, r = Table(), dict(terms_of(x))
    for _ in range(4 if more else 1):
        if more:
            yield sum_of(q.items()), sum_of(r.items())
        for monomial, factor in [term for term in r.items() if term[1]]:
            rest = _over(monomial, first)
            if rest is not None and (not factor % k or not monomial):
                part = sum_of([(rest, factor // k)])
                _add(q, part)
                _add(r, part, d, -1)
                if more:
                    break
    yield sum_of(q.items()), sum_of(r.items())


def _over(monomial: Monomial, by: Monomial) -> Monomial | None:
    for atom in by:
        if atom not in monomial:
            return None
        monomial = without(monomial, atom)
    return monomial


def _exactly(x: Dim, d: Dim) -> Dim | None:
    """Return x / d if x is a multiple of d by its form."""
    return next((q for q, r in _divisions(x, d) if r == 0), None)


def _steps(x: Dim, d: Dim) -> Iterator[Dim]:
    """Yield the common divisors of the product d and each term of x, the largest first."""
    ((monomial, number),) = terms_of(d)
    steps: set[tuple[Monomial, int]] = set()
    for term, factor in terms_of(x):
        common: Monomial = ()
        for atom in monomial:
            if term.count(atom) > common.count(atom):
                common += (atom,)
        steps.add((common, gcd(factor, number)))
    steps.discard(((), 1))
    yield from (sum_of([step]) for step in sorted(steps, key=_width, reverse=True))


def _width(step: tuple[Monomial, int]) -> tuple[object, ...]:
    return len(step[0]), step[1], [atom.order for atom in step[0]]


# -- comparisons, min and max ----------------------------------------------------------------------


@lru_cache(1 << 15)
def less(x: Dim) -> Dim:
    """Return x < 0 as 0 or 1."""
    low, high = interval(x)
    if high < 0 or low >= 0:
        return int(high < 0)
    divisor = reduce(gcd, (factor for monomial, factor in terms_of(x) if monomial), 0)
    # g*y + n < 0 where y + n//g < 0; but seq < 24 reads better than seq//8 < 3.
    scale = divisor // reduce(gcd, (factor for factor, parts in products(x) if parts), 0)
    return Negative(sum_of((m, factor // divisor * scale) for m, factor in terms_of(x)))


def minimum(*dims: Dim) -> Dim:
    """Return the least of the dims."""
    return extremum("min", dims)


def maximum(*dims: Dim) -> Dim:
    """Return the greatest of the dims."""
    return extremum("max", dims)


def extremum(which: str, dims: Iterable[Dim]) -> Dim:
    """Return the least ("min") or the greatest ("max") of the dims."""
    kept: list[Dim] = []
    for dim in dims:
        args = dim.args if isinstance(dim, Extremum) and dim.which == which else (dim,)
        kept += [arg for arg in args if arg not in kept]
        if len(kept) > MOST_ARGUMENTS:
            raise ShapeError(f"a {which} of more than {MOST_ARGUMENTS} dims", hint=SMALLER)
    for dim in kept.copy():
        for other in kept:
            smaller, larger = (other, dim) if which == "min" else (dim, other)
            if other is not dim and interval(smaller - larger)[1] <= 0:
                kept.remove(dim)
                break
    return kept[0] if len(kept) == 1 else Extremum(which, tuple(sorted(kept, key=str)))


def both(a: Dim, b: Dim) -> Dim:
    """Return 1 where both comparisons hold."""
    return a * b


def either(a: Dim, b: Dim) -> Dim:
    """Return 1 where at least one comparison holds."""
    return a + b - a * b


def negate(a: Dim) -> Dim:
    """Return 1 where the comparison does not hold."""
    return less(-a.x - 1) if isinstance(a, Negative) else 1 - a


def equal(a: Dim, b: Dim) -> Dim:
    """Return 1 where both dims have the same value."""
    return both(less(a - b - 1), less(b - a - 1))


# -- the operators of Expr -------------------------------------------------------------------------


def _operator(meaning: Callable[[Expr, Dim], Dim]) -> Callable[[Expr, object], Dim]:
    def method(self: Expr, other: object) -> Dim:
        return meaning(self, other) if isinstance(other, (int, Expr)) else NotImplemented

    return method


OPERATORS: dict[str, Callable[[Expr, Dim], Dim]] = {
    "add": plus,
    "radd": plus,
    "sub": lambda a, b: plus(a, -b),
    "rsub": lambda a, b: plus(-a, b),
    "mul": times,
    "rmul": times,
    "floordiv": floordiv,
    "rfloordiv": lambda a, b: floordiv(b, a),
    "mod": mod,
    "rmod": lambda a, b: mod(b, a),
    "lt": lambda a, b: less(a - b),
    "gt": lambda a, b: less(b - a),
    "le": lambda a, b: less(a - b - 1),
    "ge": lambda a, b: less(b - a - 1),
}
for _name, _meaning in OPERATORS.items():
    setattr(Expr, f"__{_name}__", _operator(_meaning))
Expr.__neg__ = lambda self: times(self, -1)
