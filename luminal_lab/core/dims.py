"""Symbolic integers: the dims of shapes and the index arithmetic of views.

A `Dim` is an int or an `Expr`. An expression is a polynomial with integer coefficients over atoms
(symbols, floor divisions, remainders, minima, maxima, comparisons) and is kept in one canonical
form, so that `==` decides whether two dims are the same. Comparisons are 0 or 1; "and" is their
product. Every rule used here holds for Python's floor division and modulo for all integers within
the symbols' bounds.

    >>> seq = Symbol("seq", 1, 4096, multiple_of=8)
    >>> (seq * 3 + 8) // 8 * 8, seq % 8, str(seq + 1 - seq), known(seq < 5000)
    (3*seq + 8, 0, '1', True)
"""

from __future__ import annotations

import ast
import keyword
import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache, reduce
from typing import Final, NamedTuple, TypeAlias, final

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from luminal_lab.errors import DimError, ParseError, ShapeError, nearest

Interval: TypeAlias = "tuple[int | None, int | None]"
Monomial: TypeAlias = "tuple[Atom, ...]"
Terms: TypeAlias = "tuple[tuple[Monomial, int], ...]"
Ints: TypeAlias = npt.NDArray[np.int64]

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
RESERVED = {"inf", "nan", "true", "false", "min", "max"}


class Expr:
    """An integer that is not known yet; made by arithmetic, never directly."""

    __slots__ = ("_bounds", "_hash", "_text", "terms")
    terms: Terms

    def __add__(self, other: Dim) -> Dim:
        return _sum(self.terms, _terms(other))

    __radd__ = __add__

    def __mul__(self, other: Dim) -> Dim:
        return _product(self.terms, _terms(other))

    __rmul__ = __mul__

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim) -> Dim:
        return self + other * -1

    def __rsub__(self, other: Dim) -> Dim:
        return self * -1 + other

    def __floordiv__(self, other: Dim) -> Dim:
        return _floordiv(self, other)

    def __rfloordiv__(self, other: int) -> Dim:
        return _floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return _mod(self, other)

    def __rmod__(self, other: int) -> Dim:
        return _mod(other, self)

    def __lt__(self, other: Dim) -> Dim:
        return _less(self - other)

    def __gt__(self, other: Dim) -> Dim:
        return _less(other - self)

    def __le__(self, other: Dim) -> Dim:
        return _less(self - other - 1)

    def __ge__(self, other: Dim) -> Dim:
        return _less(other - self - 1)

    def __bool__(self) -> bool:
        raise ShapeError(
            f"{self}: whether this holds is not known before the dims are bound",
            hint="declare bounds with dim(name, low, high), or compare in the graph",
        )

    @override
    def __repr__(self) -> str:
        return str(self)

    @override
    def __str__(self) -> str:
        text = getattr(self, "_text", None)
        if text is None:
            text = self._text = self.write()
        return text

    def write(self) -> str:
        """Return the text, which `parse_dim` reads back."""
        raise NotImplementedError


Dim: TypeAlias = int | Expr
Shape: TypeAlias = tuple[Dim, ...]


@final
class Sum(Expr):
    """Any polynomial that is not a number and not a single atom."""

    __slots__ = ()

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._hash = hash(terms)

    @override
    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Sum) and self._hash == other._hash and self.terms == other.terms
        )

    @override
    def __hash__(self) -> int:
        return self._hash

    @override
    def write(self) -> str:
        if len(self.terms) == 1 and self.terms[0][1] == 1 and _all_truths(self.terms[0][0]):
            return " and ".join(str(atom) for atom in self.terms[0][0])
        text = ""
        for monomial, factor in self.terms:
            size = abs(factor)
            parts = [str(size)] if size != 1 or not monomial else []
            parts += [_operand(atom) for atom in monomial]
            sign = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
            # A lone quotient or remainder binds as tightly as a product.
            alone = len(parts) == 1 and monomial and not _is_truth(monomial[0])
            text += sign + (str(monomial[0]) if alone and not sign.strip("+ ") else "*".join(parts))
        return text


class Atom(Expr):
    """What a polynomial is over: a symbol or a function of expressions."""

    __slots__ = ("key",)
    key: tuple[object, ...]

    def __init__(self, key: tuple[object, ...]) -> None:
        self.key = key
        self.terms = (((self,), 1),)
        self._hash = hash((type(self), key))

    @override
    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Atom)
            and self._hash == other._hash
            and type(self) is type(other)
            and self.key == other.key
        )

    @override
    def __hash__(self) -> int:
        return self._hash

    def limits(self) -> "tuple[Dim | None, Dim | None]":
        """Return bounds, which may themselves be symbolic."""
        raise NotImplementedError


@final
class Symbol(Atom):
    """A named integer: a dim, or the index along an axis (whose bound may be symbolic)."""

    __slots__ = ("high", "low", "multiple_of", "name")

    def __init__(
        self, name: str, low: int = 1, high: Dim | None = None, multiple_of: int = 1
    ) -> None:
        words = name.split(".")
        if not NAME.fullmatch(name) or any(keyword.iskeyword(w) or w in RESERVED for w in words):
            raise ShapeError(
                f"{name!r} cannot be the name of a dim",
                hint="a name is letters, digits and '_', is not a word of Python, "
                "and starts with a letter or '_'",
            )
        if multiple_of < 1:
            raise DimError(f"dim {name!r}: multiple_of is {multiple_of}, and must be at least 1")
        if isinstance(high, int) and high < low:
            raise DimError(
                f"dim {name!r}: the bounds are {low} and {high}, so that no value is left",
                hint="the lower bound comes first",
            )
        self.name: Final = name
        self.low: Final = low
        self.high: Final = high
        self.multiple_of: Final = multiple_of
        super().__init__((name, low, high, multiple_of))

    @override
    def limits(self) -> tuple[Dim | None, Dim | None]:
        return self.low, self.high

    @override
    def write(self) -> str:
        return self.name


@final
class Quotient(Atom):
    """x // d."""

    __slots__ = ("d", "x")

    def __init__(self, x: Dim, d: Dim) -> None:
        self.x, self.d = x, d
        super().__init__((x, d))

    @override
    def limits(self) -> tuple[Dim | None, Dim | None]:
        low, high = bounds(self.d)
        if low is None or low < 1:
            return None, None
        (x_low, _), top = bounds(self.x), _extreme(self.x, +1)
        if isinstance(self.d, int):
            least = None if x_low is None else x_low // self.d
        elif x_low is not None and x_low >= 0:
            least = 0 if high is None else x_low // high
        else:
            least = x_low
        greatest = None if top is None else _floordiv(top, self.d)
        return least, None if greatest == self else greatest

    @override
    def write(self) -> str:
        return f"{_operand(self.x)}//{_operand(self.d)}"


@final
class Remainder(Atom):
    """x % d."""

    __slots__ = ("d", "x")

    def __init__(self, x: Dim, d: Dim) -> None:
        self.x, self.d = x, d
        super().__init__((x, d))

    @override
    def limits(self) -> tuple[Dim | None, Dim | None]:
        low, _ = bounds(self.d)
        if low is None or low < 1:
            return None, None
        x_low, x_high = bounds(self.x)
        top = self.d - 1
        if x_low is not None and x_low >= 0 and x_high is not None:
            top = min(top, x_high) if isinstance(top, int) else top
        return 0, top

    @override
    def write(self) -> str:
        return f"{_operand(self.x)}%{_operand(self.d)}"


@final
class Extremum(Atom):
    """min(…) or max(…) of two or more expressions."""

    __slots__ = ("args", "which")

    def __init__(self, which: str, args: tuple[Dim, ...]) -> None:
        self.which, self.args = which, args
        super().__init__((which, args))

    @override
    def limits(self) -> tuple[Dim | None, Dim | None]:
        lows, highs = zip(*map(bounds, self.args), strict=True)
        some = (
            [low for low in lows if low is not None],
            [high for high in highs if high is not None],
        )
        if self.which == "min":
            least = min(some[0]) if len(some[0]) == len(lows) else None
            return least, min(some[1], default=None)
        greatest = max(some[1]) if len(some[1]) == len(highs) else None
        return max(some[0], default=None), greatest

    @override
    def write(self) -> str:
        return f"{self.which}({', '.join(map(str, self.args))})"


@final
class Negative(Atom):
    """1 where x < 0, else 0: what every comparison becomes."""

    __slots__ = ("x",)

    def __init__(self, x: Dim) -> None:
        self.x = x
        super().__init__((x,))

    @override
    def limits(self) -> tuple[Dim | None, Dim | None]:
        return 0, 1

    @override
    def write(self) -> str:
        terms = _terms(self.x)
        left = _make([(m, f) for m, f in terms if f > 0 and m])
        right = _make([(m, -f) for m, f in terms if f < 0 or not m])
        return f"{_side(left)} < {_side(right)}"


# -- building ------------------------------------------------------------------------------------


def _terms(dim: Dim) -> Terms:
    if isinstance(dim, Expr):
        return dim.terms
    return (((), int(dim)),) if dim else ()


def _order(term: tuple[Monomial, int]) -> tuple[bool, tuple[tuple[str, str], ...]]:
    # The number comes last; the bounds tell symbols of one name apart.
    return not term[0], tuple((str(atom), _bounds_text(atom)) for atom in term[0])


def _bounds_text(atom: Atom) -> str:
    return str(atom.key) if isinstance(atom, Symbol) else ""


def _make(terms: Iterable[tuple[Monomial, int]]) -> Dim:
    """Return the canonical form of a sum whose monomials are distinct."""
    kept = sorted((term for term in terms if term[1]), key=_order)
    if not kept:
        return 0
    if len(kept) == 1:
        monomial, factor = kept[0]
        if not monomial:
            return factor
        if factor == 1 and len(monomial) == 1:
            return monomial[0]
    return Sum(tuple(kept))


def _sum(a: Terms, b: Terms) -> Dim:
    table = dict(a)
    for monomial, factor in b:
        table[monomial] = table.get(monomial, 0) + factor
    return _make(_recombine(table))


def _product(a: Terms, b: Terms) -> Dim:
    table: dict[Monomial, int] = {}
    for one, f in a:
        for two, g in b:
            monomial = _times(one, two)
            table[monomial] = table.get(monomial, 0) + f * g
    return _make(_recombine(table))


def _times(one: Monomial, two: Monomial) -> Monomial:
    if not one or not two:
        return one or two
    # A comparison times itself is itself.
    extra = [atom for atom in two if not (isinstance(atom, Negative) and atom in one)]
    return tuple(sorted((*one, *extra), key=lambda atom: (str(atom), _bounds_text(atom))))


def _without(monomial: Monomial, atom: Atom) -> Monomial:
    place = monomial.index(atom)
    return monomial[:place] + monomial[place + 1 :]


def _recombine(table: dict[Monomial, int]) -> Iterable[tuple[Monomial, int]]:
    """Use x%d + d*(x//d) = x, and d*(x//d) = x where d divides x."""
    changed = True
    while changed:
        changed = False
        for monomial, factor in list(table.items()):
            if not factor:
                continue
            for atom in monomial:
                if isinstance(atom, Remainder):
                    rest = _make([(_without(monomial, atom), factor)])
                    part = _floordiv(atom.x, atom.d) * atom.d * rest
                elif isinstance(atom, Quotient) and isinstance(atom.d, int):
                    if factor % atom.d or _divisor(atom.x) % atom.d:
                        continue
                    rest = _make([(_without(monomial, atom), factor // atom.d)])
                    part = 0
                else:
                    continue
                wanted = _terms(part)
                if part != 0 and (len(wanted) != 1 or table.get(wanted[0][0]) != wanted[0][1]):
                    continue
                if part == 0 and isinstance(atom, Remainder):
                    continue
                del table[monomial]
                for gone, _ in wanted:
                    table.pop(gone, None)
                for more, f in _terms(atom.x * rest):
                    table[more] = table.get(more, 0) + f
                changed = True
                break
            if changed:
                break
    return table.items()


def _divisor(dim: Dim) -> int:
    """Return a number that divides every value of the expression (0 for the number 0)."""
    result = 0
    for monomial, factor in _terms(dim):
        result = math.gcd(result, factor * math.prod(map(_atom_divisor, monomial)))
    return result


def _atom_divisor(atom: Atom) -> int:
    match atom:
        case Symbol(multiple_of=multiple):
            return multiple
        case Remainder(x=x, d=int(d)):
            return math.gcd(_divisor(x), d)
        case Extremum(args=args):
            return reduce(math.gcd, map(_divisor, args))
        case _:
            return 1


def _split(x: Dim, d: Dim) -> tuple[Dim, Dim]:
    """Return (q, r) with x = q*d + r, taking out what is a multiple of d by its form."""
    ((m, k),) = _terms(d)
    q: list[tuple[Monomial, int]] = []
    r: list[tuple[Monomial, int]] = []
    for monomial, factor in _terms(x):
        rest: Monomial | None = monomial
        for atom in m:
            rest = _without(rest, atom) if rest is not None and atom in rest else None
        if rest is not None and not factor % k:
            q.append((rest, factor // k))
        elif rest is not None and not monomial:
            q.append((rest, factor // k))
            r.append((monomial, factor % k))
        else:
            r.append((monomial, factor))
    return _make(q), _make(r)


def _scaled(x: Dim, d: int) -> Dim:
    return _make([(monomial, factor // d) for monomial, factor in _terms(x)])


def _levels(x: Dim, d: int) -> Iterable[tuple[int, Dim, Dim]]:
    """Yield (g, y, r) with x = g*y + r, g a divisor of d, and r within 0..g-1."""
    terms = _terms(x)
    steps = {math.gcd(factor, d) for monomial, factor in terms if monomial} - {1}
    for g in sorted(steps, reverse=True):
        coarse = [(m, f // g) for m, f in terms if m and not f % g]
        fine = [(m, f) for m, f in terms if m and f % g]
        number = dict(terms).get((), 0)
        rest = _make([*fine, ((), number % g)])
        low, high = bounds(rest)
        if low is not None and high is not None and low >= 0 and high < g:
            yield g, _make([*coarse, ((), number // g)]), rest


def _is_within(x: Dim, d: Dim) -> bool:
    """Return whether 0 <= x < d is known."""
    low, high = bounds(x)
    if low is None or low < 0:
        return False
    if isinstance(d, int):
        return high is not None and high < d
    return known(x < d) is True


def _check_divisor(d: Dim) -> None:
    if isinstance(d, int) and d == 0:
        raise ShapeError("a dim is divided by 0")


@lru_cache(maxsize=1 << 16)
def _floordiv(x: Dim, d: Dim) -> Dim:
    _check_divisor(d)
    if isinstance(x, int) and isinstance(d, int):
        return x // d
    if isinstance(d, int) and d < 0:
        return _floordiv(-x, -d)
    if isinstance(x, int) and x == 0 and _is_positive(d):
        return 0
    if d == 1:
        return x
    if not _is_positive(d):
        return Quotient(x, d)
    if isinstance(d, int):
        q, r = _split(x, d)
        low, high = bounds(r)
        if low is not None and high is not None and low // d == high // d:
            return q + low // d
        for g, y, _ in _levels(r, d):
            return q + _floordiv(y, d // g)
        inner = _nested(r)
        if inner is not None:
            (atom, number), e = inner, inner[0].d
            return q + _floordiv(atom.x + number * e, e * d)
        return q + Quotient(r, d)
    if len(d.terms) == 1:
        q, r = _split(x, d)
        if _is_within(r, d):
            return q
        top, bottom, _ = _cancel(r, d)
        if bottom != d:
            return q + _floordiv(top, bottom)
        return q + Quotient(r, d)
    q = _whole_quotient(x, d)
    return Quotient(x, d) if q is None else q


@lru_cache(maxsize=1 << 16)
def _mod(x: Dim, d: Dim) -> Dim:
    _check_divisor(d)
    if isinstance(x, int) and isinstance(d, int):
        return x % d
    if isinstance(d, int) and d < 0:
        return -_mod(-x, -d)
    if d == 1 or (isinstance(x, int) and x == 0 and _is_positive(d)):
        return 0
    if not _is_positive(d):
        return Remainder(x, d)
    if isinstance(d, int):
        _, r = _split(x, d)
        r = _make(
            (m, f) for m, f in _terms(r) if not m or (f * math.prod(map(_atom_divisor, m))) % d
        )
        low, high = bounds(r)
        if low is not None and high is not None and low // d == high // d:
            return r - low // d * d
        for g, y, rest in _levels(r, d):
            return _mod(y, d // g) * g + rest
        for monomial, factor in _terms(r):
            if len(monomial) == 1 and isinstance(atom := monomial[0], Remainder):
                if isinstance(atom.d, int) and not atom.d % d:
                    return _mod(r - atom * factor + atom.x * factor, d)
        return Remainder(r, d)
    if len(d.terms) == 1:
        _, r = _split(x, d)
        if _is_within(r, d):
            return r
        top, bottom, common = _cancel(r, d)
        if bottom != d:
            return _mod(top, bottom) * common
        return Remainder(r, d)
    q = _whole_quotient(x, d)
    return Remainder(x, d) if q is None else x - q * d


def _is_positive(d: Dim) -> bool:
    low, _ = bounds(d)
    return low is not None and low >= 1


def _nested(x: Dim) -> "tuple[Quotient, int] | None":
    """Return (y//e, n) if x is y//e + n for a number e > 0."""
    terms = dict(_terms(x))
    number = terms.pop((), 0)
    if len(terms) == 1:
        ((monomial, factor),) = terms.items()
        if factor == 1 and len(monomial) == 1 and isinstance(atom := monomial[0], Quotient):
            if isinstance(atom.d, int) and atom.d > 0:
                return atom, number
    return None


def _cancel(x: Dim, d: Expr) -> tuple[Dim, Dim, Dim]:
    """Return x and d without their common factor, which is positive, and that factor."""
    ((monomial, number),) = d.terms
    number = reduce(math.gcd, [factor for _, factor in _terms(x)], number)
    shared: Monomial = ()
    for atom in monomial:
        again = shared + (atom,)
        if _is_positive(atom) and all(
            m.count(atom) >= again.count(atom) for m, _ in _terms(x)
        ):
            shared = again
    common = _make([(shared, number)])
    return _divided(x, shared, number), _divided(d, shared, number), common


def _divided(x: Dim, shared: Monomial, number: int) -> Dim:
    terms: list[tuple[Monomial, int]] = []
    for monomial, factor in _terms(x):
        for atom in shared:
            monomial = _without(monomial, atom)
        terms.append((monomial, factor // number))
    return _make(terms)


def _whole_quotient(x: Dim, d: Expr) -> Dim | None:
    """Return q with x = q*d + r and 0 <= r < d, if matching the first terms finds it."""
    first, k = d.terms[0]
    q: Dim = 0
    r = x
    for _ in range(4):
        if _is_within(r, d):
            return q
        for monomial, factor in _terms(r):
            rest: Monomial | None = monomial
            for atom in first:
                rest = _without(rest, atom) if rest is not None and atom in rest else None
            if rest is not None and not factor % k:
                part = _make([(rest, factor // k)])
                q, r = q + part, r - part * d
                break
        else:
            return None
    return None


def _less(x: Dim) -> Dim:
    """Return x < 0 as 0 or 1."""
    low, high = bounds(x)
    if high is not None and high < 0:
        return 1
    if low is not None and low >= 0:
        return 0
    terms = _terms(x)
    g = reduce(math.gcd, [factor for monomial, factor in terms if monomial], 0)
    if g > 1:
        # g*y + n < 0 where y + floor(n/g) < 0
        x = _make([(m, f // g) for m, f in terms])
    return Negative(x)


def minimum(*dims: Dim) -> Dim:
    """Return the least of the dims."""
    return _extremum("min", dims)


def maximum(*dims: Dim) -> Dim:
    """Return the greatest of the dims."""
    return _extremum("max", dims)


def _extremum(which: str, dims: Iterable[Dim]) -> Dim:
    flat: dict[Dim, None] = {}
    for dim in dims:
        same = isinstance(dim, Extremum) and dim.which == which
        flat.update(dict.fromkeys(dim.args if isinstance(dim, Extremum) and same else (dim,)))
    kept = list(flat)
    for dim in list(kept):
        for other in kept:
            smaller, larger = (other, dim) if which == "min" else (dim, other)
            if other is not dim and known(smaller <= larger):
                kept.remove(dim)
                break
    if len(kept) == 1:
        return kept[0]
    return Extremum(which, tuple(sorted(kept, key=str)))


def both(a: Dim, b: Dim) -> Dim:
    """Return 1 where both comparisons hold."""
    return a * b


def either(a: Dim, b: Dim) -> Dim:
    """Return 1 where at least one comparison holds."""
    return a + b - a * b


def negate(a: Dim) -> Dim:
    """Return 1 where the comparison does not hold."""
    if isinstance(a, Negative):
        return _less(-a.x - 1)
    return 1 - a


def equal(a: Dim, b: Dim) -> Dim:
    """Return 1 where both dims have the same value."""
    return both(a <= b, b <= a)


# -- what is known ---------------------------------------------------------------------------------


def bounds(dim: Dim) -> Interval:
    """Return the least and the greatest value (None: unbounded); sound, not always tight.

    >>> bounds(2 * Symbol("n", 1, 5) + 1)
    (3, 11)
    """
    if not isinstance(dim, Expr):
        return int(dim), int(dim)
    found: Interval | None = getattr(dim, "_bounds", None)
    if found is None:
        dim._bounds = (None, None)  # where finding them comes back here
        low, high = _extreme(dim, -1, numbers=True), _extreme(dim, +1, numbers=True)
        assert not isinstance(low, Expr)
        assert not isinstance(high, Expr)
        found = dim._bounds = (low, high)
    return found


def known(condition: Dim) -> bool | None:
    """Return whether a comparison always holds (True), never does (False), or it depends (None).

    >>> known(Symbol("n", 1, 5) < 6), known(Symbol("n", 1, 5) < 3)
    (True, None)
    """
    if isinstance(condition, Expr):
        low, high = bounds(condition)
        return True if low is not None and low >= 1 else False if high == 0 else None
    return bool(condition)


def _extreme(dim: Dim, sign: int, *, numbers: bool = False) -> Dim | None:
    """Return a bound from above (+1) or below (-1).

    Atoms with symbolic limits are replaced by them first, so that what is equal cancels: that
    proves `i*n + j < m*n` for an index i below m and j below n. With `numbers` the bound is one.
    """
    seen = 0
    while isinstance(dim, Expr) and seen < 16:
        seen += 1
        replaced = _replace_limits(dim, sign)
        if replaced is None:
            break
        dim = replaced
    if not numbers or not isinstance(dim, Expr):
        return dim
    total = 0
    for monomial, factor in dim.terms:
        low, high = _interval(monomial)
        value = high if (factor > 0) == (sign > 0) else low
        if value is None:
            return None
        total += value * factor
    return total


def _replace_limits(dim: Expr, sign: int) -> Dim | None:
    for monomial, factor in dim.terms:
        for atom in monomial:
            if isinstance(atom, (Negative, Extremum)):
                continue
            low, high = atom.limits()
            rest = _without(monomial, atom)
            rest_low, rest_high = _interval(rest)
            if rest_low is not None and rest_low >= 0:
                upward = (factor > 0) == (sign > 0)
            elif rest_high is not None and rest_high <= 0:
                upward = (factor > 0) != (sign > 0)
            else:
                continue
            limit = high if upward else low
            if isinstance(limit, Expr) and atom not in _atoms(limit):
                return dim - _make([(monomial, factor)]) + _make([(rest, factor)]) * limit
    return None


def _interval(monomial: Monomial) -> Interval:
    low: int | None = 1
    high: int | None = 1
    for atom in monomial:
        a, b = _atom_interval(atom)
        if monomial.count(atom) > 1 and low is not None and a is not None and a >= 0:
            pass
        corners = _corners((low, high), (a, b))
        low, high = corners
    return low, high


def _atom_interval(atom: Atom) -> Interval:
    if isinstance(atom, Symbol) and not isinstance(atom.high, Expr):
        low, high, step = atom.low, atom.high, atom.multiple_of
        return -(-low // step) * step, None if high is None else high // step * step
    low, high = atom.limits()
    least = None if low is None else bounds(low)[0]
    return least, None if high is None else bounds(high)[1]


def _corners(x: Interval, y: Interval) -> Interval:
    """Return the interval of products."""
    infinite = math.inf
    a = -infinite if x[0] is None else x[0]
    b = infinite if x[1] is None else x[1]
    c = -infinite if y[0] is None else y[0]
    d = infinite if y[1] is None else y[1]
    products = [0 if not p or not q else p * q for p in (a, b) for q in (c, d)]
    low, high = min(products), max(products)
    return (
        None if low == -infinite else int(low),
        None if high == infinite else int(high),
    )


def _atoms(dim: Dim) -> set[Atom]:
    """Return all atoms of an expression, those inside of others too."""
    found: set[Atom] = set()
    todo: list[Dim] = [dim]
    while todo:
        for monomial, _ in _terms(todo.pop()):
            for atom in monomial:
                if atom not in found:
                    found.add(atom)
                    todo.extend(_arguments(atom))
    return found


def _arguments(atom: Atom) -> tuple[Dim, ...]:
    match atom:
        case Quotient(x=x, d=d) | Remainder(x=x, d=d):
            return x, d
        case Extremum(args=args):
            return args
        case Negative(x=x):
            return (x,)
        case _:
            return ()


def symbols(dim: Dim) -> tuple[Symbol, ...]:
    """Return the symbols that an expression mentions, by name."""
    if not isinstance(dim, Expr):
        return ()
    found = [atom for atom in _atoms(dim) if isinstance(atom, Symbol)]
    return tuple(sorted(found, key=lambda symbol: symbol.name))


# -- values ------------------------------------------------------------------------------------------


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """Return the expression with symbols, by name, replaced by other dims."""
    if not isinstance(dim, Expr):
        return dim
    result: Dim = 0
    for monomial, factor in dim.terms:
        term: Dim = factor
        for atom in monomial:
            term = term * _substitute(atom, values)
        result = result + term
    return result


def _substitute(atom: Atom, values: Mapping[str, Dim]) -> Dim:
    match atom:
        case Symbol(name=name):
            return values.get(name, atom)
        case Quotient(x=x, d=d):
            return substitute(x, values) // substitute(d, values)
        case Remainder(x=x, d=d):
            return substitute(x, values) % substitute(d, values)
        case Extremum(which=which, args=args):
            return _extremum(which, [substitute(arg, values) for arg in args])
        case Negative(x=x):
            return substitute(x, values) < 0
        case _:
            raise AssertionError(atom)


def evaluate(dim: Dim, env: Mapping[str, int]) -> int:
    """Return the value of an expression for values of its symbols."""
    if not isinstance(dim, Expr):
        return int(dim)
    value = substitute(dim, env)
    if isinstance(value, Expr):
        missing = symbols(value)[0].name
        raise DimError(
            f"dim {missing!r} is not bound, and {dim} needs it",
            hint=f'set_dim("{missing}", …) binds it, and so does data of an input that has it',
        )
    return value


def evaluate_array(dim: Dim, env: Mapping[str, Ints | int]) -> Ints:
    """Return the values of an expression for arrays of values of its symbols."""
    total = np.asarray(0, np.int64)
    for monomial, factor in _terms(dim):
        term = np.asarray(factor, np.int64)
        for atom in monomial:
            term = term * _atom_array(atom, env)
        total = total + term
    return total


def _atom_array(atom: Atom, env: Mapping[str, Ints | int]) -> Ints:
    match atom:
        case Symbol(name=name):
            return np.asarray(env[name], np.int64)
        case Quotient(x=x, d=d):
            return np.floor_divide(evaluate_array(x, env), evaluate_array(d, env))
        case Remainder(x=x, d=d):
            return np.mod(evaluate_array(x, env), evaluate_array(d, env))
        case Extremum(which=which, args=args):
            of = np.minimum if which == "min" else np.maximum
            return reduce(of, [evaluate_array(arg, env) for arg in args])
        case Negative(x=x):
            return (evaluate_array(x, env) < 0).astype(np.int64)
        case _:
            raise AssertionError(atom)


def evaluate_float(dim: Dim, env: Mapping[str, float]) -> float:
    """Return the value of a polynomial for fractional values of its symbols."""
    total = 0.0
    for monomial, factor in _terms(dim):
        term = float(factor)
        for atom in monomial:
            if not isinstance(atom, Symbol):
                return float(evaluate(dim, {name: int(value) for name, value in env.items()}))
            term *= env[atom.name]
        total += term
    return total


def solve(dim: Dim, value: int, env: Mapping[str, int]) -> dict[str, int] | None:
    """Return the one value of the one unknown symbol that makes the expression equal `value`.

    >>> solve(2 * Symbol("p") + 1, 7, {})
    {'p': 3}
    """
    left = substitute(dim, env)
    unknown = symbols(left)
    if len(unknown) != 1:
        return None
    (symbol,) = unknown
    table = dict(_terms(left))
    number, factor = table.pop((), 0), table.pop((symbol,), 0)
    if table or not factor or (value - number) % factor:
        return None
    return {symbol.name: (value - number) // factor}


def check_bounds(symbol: Symbol, value: int) -> None:
    """Raise unless a symbol may have this value."""
    name, low, high = symbol.name, symbol.low, symbol.high
    if value < low or (isinstance(high, int) and value > high):
        limits = f"at least {low}" if high is None else f"{low} to {high}"
        raise DimError(
            f"dim {name!r}: {value} is out of its bounds, which are {limits}",
            hint="declare wider bounds with dim(name, low, high), or use other data",
        )
    if value % symbol.multiple_of:
        raise DimError(
            f"dim {name!r}: {value} is not a multiple of {symbol.multiple_of}, as it is declared "
            "to be",
            hint=f"pad the data to {-(-value // symbol.multiple_of) * symbol.multiple_of}",
        )


# -- text --------------------------------------------------------------------------------------------


def _is_truth(atom: Atom) -> bool:
    return isinstance(atom, Negative)


def _all_truths(monomial: Monomial) -> bool:
    return all(map(_is_truth, monomial))


def _operand(dim: Dim) -> str:
    """Write an expression so that it can stand beside any operator."""
    simple = not isinstance(dim, Expr) or isinstance(dim, (Symbol, Extremum))
    if simple and not (isinstance(dim, int) and dim < 0):
        return str(dim)
    return f"({dim})"


def _side(dim: Dim) -> str:
    """Write an expression so that it can stand beside a comparison."""
    text = str(dim)
    truth = isinstance(dim, Negative) or (isinstance(dim, Sum) and " and " in text)
    return f"({text})" if truth else text


class _Names(NamedTuple):
    table: Mapping[str, Symbol]
    declare: bool


def parse_dim(text: str, table: Mapping[str, Symbol], *, declare: bool = False) -> Dim:
    """Read an expression; unknown names are an error, or become plain symbols with `declare`.

    >>> parse_dim("2*p + min(q, 4)", {}, declare=True)
    min(4, q) + 2*p
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    if tree is None or len(text) > 10_000:
        raise ParseError(
            f"{text!r} is not a dim", hint='a dim is a number, a name, or arithmetic as in "p + 1"'
        )
    return _read(tree, _Names(table, declare), text)


def _read(tree: ast.expr, names: _Names, text: str) -> Dim:
    match tree:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.Name() | ast.Attribute():
            name = ast.unparse(tree)
            if name in names.table:
                return names.table[name]
            if names.declare:
                return Symbol(name)
            raise ParseError(
                f"there is no dim {name!r}", hint=nearest(name, names.table) or "declare it first"
            )
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_read(operand, names, text)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return negate(_read(operand, names, text))
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _read(left, names, text), _read(right, names, text)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.FloorDiv():
                    return _floordiv(a, b)
                case ast.Mod():
                    return _mod(a, b)
                case _:
                    pass
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            a, b = _read(left, names, text), _read(right, names, text)
            match op:
                case ast.Lt():
                    return _less(a - b)
                case ast.Gt():
                    return _less(b - a)
                case ast.LtE():
                    return _less(a - b - 1)
                case ast.GtE():
                    return _less(b - a - 1)
                case _:
                    pass
        case ast.BoolOp(op=op, values=values):
            join = both if isinstance(op, ast.And) else either
            return reduce(join, [_read(value, names, text) for value in values])
        case ast.Call(func=ast.Name(id="min" | "max" as which), args=args) if args:
            return _extremum(which, [_read(arg, names, text) for arg in args])
        case _:
            pass
    raise ParseError(
        f"{ast.unparse(tree)!r} cannot stand in a dim",
        hint="a dim may use + - * // % min max < <= > >= and or not",
    )


def render_c(dim: Dim) -> str:
    """Return a C expression in 64-bit integers.

    Where the signs are not known, it calls `floordiv(a, b)` and `floormod(a, b)`.
    """
    parts: list[str] = []
    for monomial, factor in _terms(dim):
        factors = [str(factor)] if factor != 1 or not monomial else []
        parts.append("*".join([*factors, *map(_atom_c, monomial)]))
    text = " + ".join(parts) or "0"
    return f"({text})" if len(parts) > 1 else text


def _atom_c(atom: Atom) -> str:
    match atom:
        case Symbol(name=name):
            return name.replace(".", "_")
        case Quotient(x=x, d=d) | Remainder(x=x, d=d):
            division = isinstance(atom, Quotient)
            if known(x >= 0) and known(d >= 1):
                return f"({render_c(x)} {'/' if division else '%'} {render_c(d)})"
            return f"{'floordiv' if division else 'floormod'}({render_c(x)}, {render_c(d)})"
        case Extremum(which=which, args=args):
            sign = "<" if which == "min" else ">"
            return reduce(lambda a, b: f"({a} {sign} {b} ? {a} : {b})", map(render_c, args))
        case Negative(x=x):
            return f"({render_c(x)} < 0)"
        case _:
            raise AssertionError(atom)
