"""Expressions: sums of products of atoms, the kinds of atoms, and their text.

Expr
├── Sum                 3*b*s + 1: neither a number nor a single atom
└── Atom
    ├── Symbol          seq
    ├── Quotient        x//d
    ├── Remainder       x%d
    ├── Extremum        min(…), max(…)
    └── Negative        1 where x < 0, else 0: the form of every comparison
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias, final

from typing_extensions import override

from luminal_lab.errors import DimError, ShapeError, whole_number

Monomial: TypeAlias = "tuple[Atom, ...]"
Terms: TypeAlias = "tuple[tuple[Monomial, int], ...]"

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
DEEPEST = 32
"""The deepest nesting of quotients, remainders, minima and comparisons."""
SMALLER = "give a part of it a name of its own, or a number"
RESERVED = {*keyword.kwlist, "inf", "nan", "true", "false", "min", "max"}


class Expr:
    """An integer that is not known yet; arithmetic alone creates it.

    >>> import luminal_lab as ll
    >>> batch = ll.Symbol("batch")
    >>> 2 * batch + 1
    2*batch + 1
    >>> (2 * batch + 1) - batch
    batch + 1
    """

    __slots__ = ("_hash", "_key", "_text", "terms")
    terms: Terms
    """The products and their factors, in order, the number last."""

    def __init__(self, *key: object) -> None:
        self._key = key
        self._hash = hash((type(self).__name__, key))

    @override
    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Expr)
            and self._hash == other._hash
            and type(self) is type(other)
            and self._key == other._key
        )

    @override
    def __hash__(self) -> int:
        return self._hash

    @override
    def __reduce__(self) -> tuple[type[Expr], tuple[object, ...]]:
        return type(self), self._key

    if TYPE_CHECKING:  # arithmetic.py adds these: they need the classes below, and bounds

        def __add__(self, other: Dim) -> Dim: ...
        def __radd__(self, other: int) -> Dim: ...
        def __sub__(self, other: Dim) -> Dim: ...
        def __rsub__(self, other: int) -> Dim: ...
        def __mul__(self, other: Dim) -> Dim: ...
        def __rmul__(self, other: int) -> Dim: ...
        def __floordiv__(self, other: Dim) -> Dim: ...
        def __rfloordiv__(self, other: int) -> Dim: ...
        def __mod__(self, other: Dim) -> Dim: ...
        def __rmod__(self, other: int) -> Dim: ...
        def __neg__(self) -> Dim: ...
        def __lt__(self, other: Dim) -> Dim: ...
        def __gt__(self, other: Dim) -> Dim: ...
        def __le__(self, other: Dim) -> Dim: ...
        def __ge__(self, other: Dim) -> Dim: ...

    def __bool__(self) -> bool:
        raise ShapeError(
            f"{self}: whether this holds is not known before the dims are bound",
            hint="declare bounds with dim(name, low, high), or compare in the graph",
        )

    @override
    def __str__(self) -> str:
        try:
            return self._text
        except AttributeError:
            self._text = self._write()
            return self._text

    @override
    def __repr__(self) -> str:
        return str(self)

    def _write(self) -> str:
        """Return the text, which `parse_dim` reads back."""
        raise NotImplementedError


Dim: TypeAlias = int | Expr
Shape: TypeAlias = tuple[Dim, ...]


@final
class Sum(Expr):
    """Any polynomial that is neither a number nor a single atom."""

    __slots__ = ()

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        super().__init__(terms)

    @override
    def _write(self) -> str:
        (monomial, factor), *more = self.terms
        if not more and factor == 1 and all(isinstance(atom, Negative) for atom in monomial):
            return " and ".join(map(str, monomial))
        terms = [*products(self)]
        first = next((position for position, (factor, _) in enumerate(terms) if factor > 0), 0)
        terms.insert(0, terms.pop(first))
        text = ""
        for factor, parts in terms:
            if len(parts) == 1 and (factor == 1 or (factor == -1 and text)):
                # A lone quotient or remainder binds as tightly as a product.
                words = _operand(parts[0]) if isinstance(parts[0], Negative) else str(parts[0])
            else:
                size = [str(abs(factor))] if abs(factor) != 1 or not parts else []
                words = "*".join([*size, *map(_operand, parts)])
            text += (" - " if factor < 0 else " + ") if text else "-" * (factor < 0)
            text += words
        return text


class Atom(Expr):
    """A variable of polynomials: a symbol or a function of expressions."""

    __slots__ = ("arguments", "depth", "order")
    sign: str
    """The operator of an atom that is not a symbol, as text."""

    def __init__(self, *key: object, arguments: Shape = ()) -> None:
        super().__init__(*key)
        self.arguments = arguments
        self.terms = (((self,), 1),)
        inner = [atom.depth for x in arguments for monomial, _ in terms_of(x) for atom in monomial]
        self.depth: int = 1 + max(inner, default=0)
        if self.depth > DEEPEST:
            raise ShapeError(f"a dim has more than {DEEPEST} nested divisions", hint=SMALLER)
        self.order = str(self)
        """The sort key among the atoms of a product, and among the products of a sum."""


@final
class Symbol(Atom):
    """A named integer: a dim, or the index along an axis (whose bound may be symbolic).

    >>> import luminal_lab as ll
    >>> batch = ll.Symbol("batch", low=1, high=64)
    >>> ll.Graph().tensor((batch, 4)).shape
    (batch, 4)
    """

    __slots__ = ("high", "low", "multiple_of", "name")

    def __init__(
        self, name: str, low: int = 1, high: Dim | None = None, multiple_of: int = 1
    ) -> None:
        is_text = isinstance(name, str)  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
        if not is_text or not NAME.fullmatch(name) or not RESERVED.isdisjoint(name.split(".")):
            raise ShapeError(
                f"{name!r} cannot be the name of a dim",
                hint="a name is letters, digits and '_', is not a word of Python, "
                "and starts with a letter or '_'",
            )
        for what, number in (("low", low), ("multiple_of", multiple_of)):
            if whole_number(number) is None:
                raise DimError(f"dim {name!r}: {what} is {number!r}, which is not a whole number")
        if high is not None and not isinstance(high, Expr) and whole_number(high) is None:
            raise DimError(f"dim {name!r}: high is {high!r}, which is neither a number nor a dim")
        if multiple_of < 1:
            raise DimError(f"dim {name!r}: multiple_of is {multiple_of}, and must be at least 1")
        if isinstance(high, int) and high < low:
            raise DimError(
                f"dim {name!r}: the bounds are {low} and {high}, which leaves no value",
                hint="the lower bound comes first",
            )
        self.name: Final = name
        self.low: Final = low
        self.high: Final = high
        self.multiple_of: Final = multiple_of
        super().__init__(name, low, high, multiple_of)
        # The bounds tell symbols of one name apart.
        self.order = f"{name} {low} {high} {multiple_of}"
        if multiple_of > 1:
            # As a polynomial, seq is 8*(seq//8), which shows its divisors.
            self.terms = (((Quotient(self, multiple_of),), multiple_of),)

    @override
    def _write(self) -> str:
        return self.name


class Division(Atom):
    """A quotient or a remainder of Python's floor division."""

    __slots__ = ("d", "x")

    def __init__(self, x: Dim, d: Dim) -> None:
        self.x, self.d = x, d
        super().__init__(x, d, arguments=(x, d))

    @override
    def _write(self) -> str:
        return f"{_operand(self.x)}{self.sign}{_operand(self.d)}"


@final
class Quotient(Division):
    """x//d."""

    __slots__ = ()
    sign = "//"


@final
class Remainder(Division):
    """x%d."""

    __slots__ = ()
    sign = "%"


@final
class Extremum(Atom):
    """min(…) or max(…) of two or more expressions."""

    __slots__ = ("args", "sign", "which")

    def __init__(self, which: str, args: tuple[Dim, ...]) -> None:
        self.which = self.sign = which
        self.args = args
        super().__init__(which, args, arguments=args)

    @override
    def _write(self) -> str:
        return f"{self.which}({', '.join(map(str, self.args))})"


@final
class Negative(Atom):
    """1 where x < 0, else 0: the form of every comparison."""

    __slots__ = ("x",)
    sign = "<"

    def __init__(self, x: Dim) -> None:
        self.x = x
        super().__init__(x, arguments=(x,))

    @override
    def _write(self) -> str:
        terms = terms_of(self.x)
        sides = [sum_of((m, sign * f) for m, f in terms if m and f * sign > 0) for sign in (1, -1)]
        number = sum(f for m, f in terms if not m)
        if sides[0] == 0:
            sides[0] = number
        elif number:
            sides[1] = sum_of([*terms_of(sides[1]), ((), -number)])
        return " < ".join(f"({side})" if " < " in str(side) else str(side) for side in sides)


def terms_of(dim: Dim) -> Terms:
    """Return the products whose sum is a dim, each with its factor."""
    return dim.terms if isinstance(dim, Expr) else (((), int(dim)),) if dim else ()


def sum_of(terms: Iterable[tuple[Monomial, int]]) -> Dim:
    """Return the sum of distinct products."""
    return sum_in_order(tuple(sorted((term for term in terms if term[1]), key=_order)))


def sum_in_order(terms: Terms) -> Dim:
    """Return the sum of terms that are already in order."""
    if len(terms) > 1:
        return Sum(terms)
    if not terms:
        return 0
    ((monomial, factor),) = terms
    if not monomial:
        return factor
    if len(monomial) == 1:
        symbol = symbol_of(monomial[0])
        if symbol is not None and factor == symbol.multiple_of:
            return symbol
        if factor == 1:
            return monomial[0]
    return Sum(terms)


def _order(term: tuple[Monomial, int]) -> tuple[bool, list[str]]:
    monomial = term[0]
    return not monomial, [atom.order for atom in monomial]


def products(dim: Dim) -> Iterator[tuple[int, list[Atom]]]:
    """Yield each term as a number and its atoms, with 8*(seq//8) as seq."""
    for monomial, factor in terms_of(dim):
        parts: list[Atom] = []
        for atom in monomial:
            symbol = symbol_of(atom)
            if symbol is not None and factor % symbol.multiple_of == 0:
                factor //= symbol.multiple_of
                parts.append(symbol)
            else:
                parts.append(atom)
        yield factor, parts


def symbol_of(atom: Atom) -> Symbol | None:
    """Return seq for seq//8 if 8 divides seq by declaration."""
    match atom:
        case Quotient(x=Symbol() as symbol, d=d) if d == symbol.multiple_of:
            return symbol
        case _:
            return None


def without(monomial: Monomial, atom: Atom) -> Monomial:
    """Return a product without one of its atoms."""
    index = monomial.index(atom)
    return monomial[:index] + monomial[index + 1 :]


def _operand(dim: Dim) -> str:
    """Return the text of an expression as an operand, in brackets where needed."""
    alone = dim >= 0 if isinstance(dim, int) else isinstance(dim, (Symbol, Extremum))
    return str(dim) if alone else f"({dim})"
