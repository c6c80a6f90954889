"""Terms: one element of an array, as an expression over axes; and how they are written.

Term
├── Read, Lookup        an element of a buffer; where, along one axis, a value says
├── Number, Count       a number; an index as a value
├── Draw                a random number
├── Apply               an elementwise op on terms
├── Fold                all values along an axis of its own, as one
└── Guard               a term where a condition on indices holds, else 0
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import count
from math import inf, isnan
from typing import Literal, TypeAlias

import numpy as np
from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape, Symbol, symbols
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Elementwise
from luminal_lab.core.ops import Add, Cast, LessThan, Mod, Mul
from luminal_lab.core.printer import op_text

FoldKind: TypeAlias = Literal["sum", "max"]


def axis_of(name: str, size: Dim) -> Symbol:
    """Return the index along an axis of a size, as a symbol with its bounds."""
    return Symbol(name, 0, 0 if size == 0 else size - 1)


class Term:
    """One element of an array, as an expression over axes: an immutable tree.

    Terms may share parts, so that what walks over them should remember where it has been.
    """

    __slots__ = ("_hash",)
    dtype: DType

    @property
    def parts(self) -> tuple[Term, ...]:
        """The terms that this one is made of."""
        return ()

    @property
    def places(self) -> Shape:
        """The index expressions that stand in this term itself."""
        return ()

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls.__hash__ = Term.__hash__  # a dataclass would work it out anew each time

    @override
    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            values = [getattr(self, field.name) for field in fields(self)]  # pyright: ignore[reportArgumentType]  # subclasses are dataclasses
            found = hash((type(self).__name__, *values))
            object.__setattr__(self, "_hash", found)
            return found

    @override
    def __str__(self) -> str:
        return write(self)


@dataclass(frozen=True, slots=True)
class Read(Term):
    """The element of a buffer at an index."""

    buffer: str
    index: Shape
    dtype: DType

    @property
    @override
    def places(self) -> Shape:
        return self.index


@dataclass(frozen=True, slots=True)
class Lookup(Term):
    """The element of a buffer whose index along one axis is a value; there `index` holds 0.

    The axis has `size` positions; a value that is none of them is an error.
    """

    buffer: str
    index: Shape
    axis: int
    position: Term
    size: Dim
    dtype: DType

    @property
    @override
    def parts(self) -> tuple[Term, ...]:
        return (self.position,)

    @property
    @override
    def places(self) -> Shape:
        return self.index


@dataclass(frozen=True, slots=True, eq=False)
class Number(Term):
    """A number, as its dtype holds it; compared as text is, so that -0.0 is not 0.0."""

    value: bool | int | float
    dtype: DType

    def __post_init__(self) -> None:
        with np.errstate(all="ignore"):
            held: bool | int | float = np.asarray(self.value).astype(self.dtype.numpy).item()
        object.__setattr__(self, "value", held)

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Number):
            return False
        mine, theirs = (repr(one.value) for one in (self, other))
        return self.dtype is other.dtype and mine == theirs

    @override
    def __hash__(self) -> int:
        return hash((self.dtype, repr(self.value)))


@dataclass(frozen=True, slots=True)
class Count(Term):
    """An index expression as a value."""

    at: Dim
    dtype: DType

    @property
    @override
    def places(self) -> Shape:
        return (self.at,)


@dataclass(frozen=True, slots=True)
class Draw(Term):
    """The random number at a position of a stream: float32 in [0, 1), another in each step."""

    seed: int
    stream: int
    at: Dim

    @property
    def dtype(self) -> DType:  # pyright: ignore[reportIncompatibleVariableOverride]  # follows
        """The dtype of all that is drawn."""
        return DType.float32

    @property
    @override
    def places(self) -> Shape:
        return (self.at,)


@dataclass(frozen=True, slots=True)
class Apply(Term):
    """An elementwise op on terms."""

    op: Elementwise
    args: tuple[Term, ...]
    dtype: DType

    @property
    @override
    def parts(self) -> tuple[Term, ...]:
        return self.args


@dataclass(frozen=True, slots=True)
class Fold(Term):
    """All values of the body along an axis of its own, as one: their sum or the largest.

    16-bit floats are summed in float32. Of nothing the sum is 0, the maximum the dtype's least.
    """

    kind: FoldKind
    axis: Symbol
    size: Dim
    body: Term
    dtype: DType

    @property
    @override
    def parts(self) -> tuple[Term, ...]:
        return (self.body,)

    @property
    @override
    def places(self) -> Shape:
        return (self.size,)


@dataclass(frozen=True, slots=True)
class Guard(Term):
    """The term where a condition on indices holds, else 0; there the term is not looked at."""

    holds: Dim
    term: Term

    @property
    def dtype(self) -> DType:  # pyright: ignore[reportIncompatibleVariableOverride]  # follows
        """The dtype of the term."""
        return self.term.dtype

    @property
    @override
    def parts(self) -> tuple[Term, ...]:
        return (self.term,)

    @property
    @override
    def places(self) -> Shape:
        return (self.holds,)


def walk(*terms: Term) -> Iterator[Term]:
    """Yield terms and all their parts, each that is the same object once, the outer first."""
    seen: set[int] = set()
    todo = list(reversed(terms))
    while todo:
        term = todo.pop()
        if id(term) not in seen:
            seen.add(id(term))
            yield term
            todo += reversed(term.parts)


def read_by(*terms: Term) -> set[str]:
    """Return the names of the buffers that terms read."""
    return {part.buffer for part in walk(*terms) if isinstance(part, (Read, Lookup))}


def free(term: Term, bound: Iterable[str] = ()) -> dict[str, Symbol]:
    """Return the symbols, by name, that a term mentions and that no fold in it binds."""
    found: dict[str, Symbol] = {}
    inner = set(bound)
    for part in walk(term):
        places = [*part.places]
        if isinstance(part, Fold):
            inner.add(part.axis.name)
        elif isinstance(part, Lookup):
            places.append(part.size)
        elif isinstance(part, Apply):
            found |= {symbol.name: symbol for symbol in part.op.symbols()}
        found |= {symbol.name: symbol for place in places for symbol in symbols(place)}
    return {name: symbol for name, symbol in found.items() if name not in inner}


# -- text ------------------------------------------------------------------------------------------

LESS, SUM, PRODUCT, ATOM = 1, 2, 3, 4
"""How tightly a term binds; 0 is a fold, or what has names for its parts: they go on to the end."""
INFIX: Mapping[Elementwise, tuple[str, int]] = {
    LessThan(): ("<", LESS),
    Add(): ("+", SUM),
    Mul(): ("*", PRODUCT),
    Mod(): ("%", PRODUCT),
}
SHORT_TERM = 3
"""The most terms in one that is written out wherever it stands."""


def write(term: Term, taken: Collection[str] = (), *, between: str = " ") -> str:
    """Return the text of a term; what comes twice in it gets a name, which is none of `taken`."""
    used = {*taken, *free(term), *read_by(term)}
    used |= {part.axis.name for part in walk(term) if isinstance(part, Fold)}
    return _Writer(used, between).scope(term)[0]


class _Writer:
    def __init__(self, taken: Collection[str], between: str) -> None:
        letters = "abcdefghpqrstuvwxyz"
        names = (f"{letter}{number or ''}" for number in count() for letter in letters)
        self.free_names = (name for name in names if name not in taken)
        self.names: dict[Term, str] = {}
        self.between = between
        """What stands behind a named part of the whole term."""

    def scope(self, term: Term, between: str = "") -> tuple[str, int]:
        """Return the text of a whole term or of a fold's body, its repeated parts first."""
        between = between or self.between
        lets: list[str] = []
        for part in repeated(term):
            if part not in self.names:
                text, _ = self.write(part)
                self.names[part] = next(self.free_names)
                lets.append(f"let {self.names[part]} = {text};{between}")
        text, level = self.write(term)
        return ("".join([*lets, text]), 0) if lets else (text, level)

    def write(self, term: Term) -> tuple[str, int]:
        """Return the text of a term, and how tightly it binds."""
        if term in self.names:
            return self.names[term], ATOM
        match term:
            case Read(buffer=buffer, index=index):
                return f"{buffer}[{', '.join(map(str, index))}]", ATOM
            case Lookup(buffer=buffer, index=index, axis=axis, position=position):
                places = [*map(str, index)]
                text, _ = self.write(position)
                places[axis] = text if "[" in text else f"at {text}"
                return f"{buffer}[{', '.join(places)}]", ATOM
            case Number(value=value, dtype=dtype):
                return number_text(value, dtype), ATOM
            case Count(at=at, dtype=dtype):
                return f"{dtype.short}[{at}]", ATOM
            case Draw(seed=seed, stream=stream, at=at):
                return f"random{{{seed}, {stream}}}[{at}]", ATOM
            case Guard(holds=holds, term=inner):
                return f"[{holds}: {self.write(inner)[0]}]", ATOM
            case Fold(kind=kind, axis=axis, size=size, body=body):
                return f"{kind} {axis.name} < {size}: {self.scope(body, ' ')[0]}", 0
            case Apply(op=op, args=args):
                return self.applied(op, args)
            case _:
                raise AssertionError(term)

    def applied(self, op: Elementwise, args: tuple[Term, ...]) -> tuple[str, int]:
        if op in INFIX:
            sign, level = INFIX[op]
            left, right = args
            taken = subtracted(right) if sign == "+" and right not in self.names else None
            if taken is not None:
                sign, right = "-", taken
            # The left operand may bind as tightly as the whole, but a < b < c says nothing.
            left_text = self.operand(left, level + (level == LESS))
            return f"{left_text} {sign} {self.operand(right, level + 1)}", level
        inside = ", ".join(self.write(arg)[0] for arg in args)
        return f"{op.dtype.short if isinstance(op, Cast) else op_text(op)}({inside})", ATOM

    def operand(self, term: Term, least: int) -> str:
        text, level = self.write(term)
        return text if level >= least else f"({text})"


def subtracted(term: Term) -> Term | None:
    """Return b for b * -1, and 2 for -2: what added to a is written as a - b."""
    match term:
        case Number(value=value, dtype=dtype) if repr(value).startswith("-"):
            return Number(-value, dtype) if -value <= _most(dtype) else None
        case Apply(op=Mul(), args=(one, Number(value=-1))) if not isinstance(one, Number):
            return one
        case _:
            return None


def repeated(scope: Term) -> list[Term]:
    """Return the longer parts that come more than once in a term, the inner first.

    What comes more than once in the body of one fold alone belongs there.
    """
    bound = {part.axis.name for part in walk(scope) if isinstance(part, Fold)}
    times: Counter[Term] = Counter()
    order: dict[Term, None] = {}

    def visit(term: Term) -> None:
        if term not in order:
            for part in _written(term, bound):
                visit(part)
                times[part] += 1
            order[term] = None

    visit(scope)
    return [part for part in order if times[part] > 1 and _is_long(part)]


def _written(term: Term, bound: Collection[str]) -> tuple[Term, ...]:
    """Return the parts that stand in a term's text; of a fold what could stand outside of it."""
    match term:
        case Apply(op=Add(), args=(left, right)) if (taken := subtracted(right)) is not None:
            return left, taken
        case Fold(body=body):
            found: dict[Term, None] = {}
            todo = [body]
            while todo:
                part = todo.pop()
                if free(part).keys().isdisjoint(bound):
                    found[part] = None
                else:
                    todo += part.parts
            return tuple(found)
        case _:
            return term.parts


def _is_long(term: Term) -> bool:
    if not isinstance(term, (Apply, Fold, Guard)):
        return False
    length = 0
    todo: list[Term] = [term]
    while todo and length <= SHORT_TERM:
        length += 1
        todo += todo.pop().parts
    return length > SHORT_TERM


def _most(dtype: DType) -> float:
    return inf if dtype.is_float else dtype.limits[1]


def number_text(value: bool | int | float, dtype: DType) -> str:
    """Return the shortest text of a number from which its dtype makes the same again."""
    if dtype is DType.bool_:
        return str(value).lower()
    if not dtype.is_float:
        return f"{value}" if dtype is DType.int64 else f"{value}_{dtype.short}"
    if dtype is DType.float64 or isnan(value):
        text = repr(float(value))
    else:
        text = str((np.float16 if dtype is DType.float16 else np.float32)(value))
    return text if dtype is DType.float32 else f"{text}_{dtype.short}"
