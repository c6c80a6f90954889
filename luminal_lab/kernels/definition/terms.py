"""Terms: one element of an array, as an expression over axes; and how they are written.

Term
├── Read, Lookup        an element of a buffer; where, along one axis, a value says
├── Number, Count       a number; an index as a value
├── Draw                a random number
├── Apply               an elementwise op on terms
├── Fold                all values along an axis of its own, as one
├── FoldState           a value that a pass along an axis has so far
└── Guard               a term where a condition on indices holds, else 0
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import count
from math import isnan
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape, Symbol, symbols
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Elementwise
from luminal_lab.core.ops import Add, Cast, LessThan, Mod, Mul, Where
from luminal_lab.core.ops.intrinsic import FusedMul
from luminal_lab.core.printer import op_text, unique

FoldKind: TypeAlias = Literal["sum", "max", "pass"]


def axis_of(name: str, size: Dim) -> Symbol:
    """Return the index along an axis of a size, as a symbol with its bounds."""
    return Symbol(name, 0, 0 if size == 0 else size - 1)


class Term:
    """One element of an array, as an expression over axes: an immutable tree.

    Terms may share parts, so code that walks over them should remember where it has been.
    """

    __slots__ = ("_free", "_hash", "_reads")
    dtype: DType

    @property
    def parts(self) -> tuple[Term, ...]:
        """The terms that this term consists of."""
        return ()

    @property
    def places(self) -> Shape:
        """The index expressions in this term itself."""
        return ()

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls.__hash__ = Term.__hash__  # a dataclass would compute it each time
        if "__eq__" not in vars(cls):
            cls.__eq__ = Term.__eq__

    @override
    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Term) and _same(self, other))

    @override
    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            values = [getattr(self, field.name) for field in fields(self)]  # pyright: ignore[reportArgumentType]  # subclasses are dataclasses
            value = hash((type(self).__name__, *values))
            object.__setattr__(self, "_hash", value)
            return value

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

    The axis has `size` positions; a value outside them is an error.
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
    """A number, as its dtype holds it; compared by its text, so that -0.0 is not 0.0."""

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
        mine, theirs = (repr(number.value) for number in (self, other))
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
        """The dtype of all draws."""
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
class FoldState(Term):
    """The value of a pass so far, by its name."""

    name: str
    dtype: DType


class States(NamedTuple):
    """The values of a pass: their names, their start, and what each is after a position."""

    names: tuple[FoldState, ...]
    start: tuple[Term, ...]
    next: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Fold(Term):
    """The body's values along the fold's own axis combined: their sum or maximum, or a pass.

    16-bit floats are summed in float32. Without elements, a sum is 0 and a maximum the dtype's
    least value. A pass goes along its axis in order, with several values; the body is made of them
    at the end.
    """

    kind: FoldKind
    axis: Symbol
    size: Dim
    body: Term
    dtype: DType
    states: States | None = None

    @property
    @override
    def parts(self) -> tuple[Term, ...]:
        return (*self.inside, self.body)

    @property
    def inside(self) -> tuple[Term, ...]:
        """The terms of a pass that decide where it is computed: all but its result."""
        return (*self.states.start, *self.states.next) if self.states else ()

    def over(self, axis: Symbol, size: Dim, part: Callable[[Term], Term]) -> Fold:
        """Return the fold over another axis and with other parts."""
        states = self.states and States(
            self.states.names,
            tuple(map(part, self.states.start)),
            tuple(map(part, self.states.next)),
        )
        return replace(self, axis=axis, size=size, body=part(self.body), states=states)

    @property
    @override
    def places(self) -> Shape:
        return (self.size,)


@dataclass(frozen=True, slots=True)
class Guarded(Term):
    """The term where a condition on indices holds, else 0 without evaluating the term."""

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


def product(a: Term, b: Term, *, fused: bool = False) -> Term:
    """Return a * b; if `fused`, it is rounded only together with the sum to which it is added."""
    return Apply(FusedMul() if fused else Mul(), (a, b), a.dtype)


def choice(a: Term, b: Term, yes: Term, no: Term) -> Term:
    """Return one term where a < b, and another elsewhere."""
    return Apply(Where(), (Apply(LessThan(), (a, b), DType.bool_), yes, no), yes.dtype)


def finite(term: Term) -> Term:
    """Return a number, or 0 if it is infinite or NaN."""
    nought = Apply(Mul(), (term, Number(0, term.dtype)), term.dtype)
    return choice(nought, Number(1, term.dtype), term, Number(0, term.dtype))


def walk(*terms: Term) -> Iterator[Term]:
    """Yield terms and all their parts, each object once, outer ones first."""
    seen: set[int] = set()
    todo = list(reversed(terms))
    while todo:
        term = todo.pop()
        if id(term) not in seen:
            seen.add(id(term))
            yield term
            todo += reversed(term.parts)


def _same(first: Term, other: Term) -> bool:
    """Return whether terms are equal; parts that occur often in both are compared once."""
    todo: list[tuple[object, object]] = [(first, other)]
    seen: set[tuple[int, int]] = set()
    while todo:
        a, b = todo.pop()
        if a is b or (id(a), id(b)) in seen:
            continue
        if not isinstance(a, Term) or isinstance(a, Number):
            if a != b:
                return False
            continue
        if type(a) is not type(b) or hash(a) != hash(b):
            return False
        seen.add((id(a), id(b)))
        for field in fields(a):  # pyright: ignore[reportArgumentType]  # subclasses are dataclasses
            mine, its = getattr(a, field.name), getattr(b, field.name)
            if field.name == "args":
                if len(mine) != len(its):
                    return False
                todo += zip(mine, its, strict=True)
            else:
                todo.append((mine, its))
    return True


def passes(term: Term) -> list[Fold]:
    """Return the passes in a term that are inside no other fold or condition."""
    folds: dict[Fold, None] = {}
    seen: set[int] = set()
    todo = [term]
    while todo:
        part = todo.pop()
        if isinstance(part, Fold):
            if part.states:
                folds[part] = None
        elif not isinstance(part, Guarded) and id(part) not in seen:
            seen.add(id(part))
            todo += part.parts
    return list(folds)


def read_by(*terms: Term) -> set[str]:
    """Return the names of the buffers that terms read."""
    return {part.buffer for part in walk(*terms) if isinstance(part, (Read, Lookup))}


def free(term: Term, bound: Iterable[str] = ()) -> Mapping[str, Symbol]:
    """Return the symbols, by name, that a term mentions and that no fold in it binds."""
    try:
        known: dict[str, Symbol] = getattr(term, "_free")  # noqa: B009  # it is set when first asked
    except AttributeError:
        known = _free(term)
        object.__setattr__(term, "_free", known)  # steps of a schedule share terms, and ask again
    outer = set(bound)
    return {name: symbol for name, symbol in known.items() if name not in outer} if outer else known


def _free(term: Term) -> dict[str, Symbol]:
    symbols_by_name: dict[str, Symbol] = {}
    inner: set[str] = set()
    for part in walk(term):
        dims = [*part.places]
        if isinstance(part, Fold):
            inner.add(part.axis.name)
        elif isinstance(part, Lookup):
            dims.append(part.size)
        elif isinstance(part, Apply):
            symbols_by_name |= {symbol.name: symbol for symbol in part.op.symbols()}
        symbols_by_name |= {symbol.name: symbol for dim in dims for symbol in symbols(dim)}
    return {name: symbol for name, symbol in symbols_by_name.items() if name not in inner}


# -- text ------------------------------------------------------------------------------------------

LESS, SUM, PRODUCT, ATOM = 1, 2, 3, 4
"""How tightly a term binds; 0 is a fold or a term with `let`, which extend to the end."""
INFIX: Mapping[Elementwise, tuple[str, int]] = {
    LessThan(): ("<", LESS),
    Add(): ("+", SUM),
    Mul(): ("*", PRODUCT),
    Mod(): ("%", PRODUCT),
}
SHORT_TERM = 3
"""Terms of at most this many parts are written out, never named."""


def write(
    term: Term,
    taken: Collection[str] = (),
    *,
    between: str = " ",
    names: Mapping[Term, str] | None = None,
) -> str:
    """Return the text of a term; a part that occurs twice gets a name, which avoids `taken`.

    What is in `names` is written that way wherever it occurs.
    """
    used = {*taken, *free(term), *read_by(term)}
    used |= {part.axis.name for part in walk(term) if isinstance(part, Fold)}
    writer = _TermWriter(used, between)
    writer.names.update(names or {})
    return writer.scope(term)[0]


class _TermWriter:
    def __init__(self, taken: set[str], between: str) -> None:
        self.taken = taken
        letters = "abcdefghpqrstuvwxyz"
        names = (f"{letter}{number or ''}" for number in count() for letter in letters)
        self.letters = names
        self.names: dict[Term, str] = {}
        self.between = between
        """The separator after a named part of the whole term."""

    def free_name(self) -> str:
        """Return a name that stands for nothing yet, and reserve it."""
        name = next(name for name in self.letters if name not in self.taken)
        self.taken.add(name)
        return name

    def scope(self, term: Term, between: str = "") -> tuple[str, int]:
        """Return the text of a whole term or of a fold's body, its repeated parts first."""
        lets = self.lets(between or self.between, term)
        text, level = self.write(term)
        return (f"{lets}{text}", 0) if lets else (text, level)

    def lets(self, between: str, *terms: Term) -> str:
        """Return the text that names the repeated parts of terms."""
        lets: list[str] = []
        for part in repeated(*terms, known=self.names):
            text, _ = self.write(part)
            self.names[part] = self.free_name()
            lets.append(f"let {self.names[part]} = {text};{between}")
        return "".join(lets)

    def folded(self, fold: Fold) -> str:
        """Return the text of a fold with one value or several."""
        if fold.states is None:
            body = self.scope(fold.body, " ")[0]
            return f"{fold.kind} {fold.axis.name} < {fold.size}: {body}"
        states, start, following = fold.states
        first = ", ".join(self.write(state)[0] for state in start)
        outer = dict(self.names)
        for state in states:
            self.names[state] = unique(state.name, self.taken)
            self.taken.add(self.names[state])
        names = ", ".join(self.names[state] for state in states)
        shown, level = self.scope(fold.body, " ")
        # A new value that others are built on has a name, however short it is.
        lets = ""
        for number, state in enumerate(following):
            if any(state in walk(*later.parts) for later in following[number + 1 :]):
                name, text = self.free_name(), self.write(state)[0]
                self.names[state] = name
                lets += f"let {name} = {text}; "
        lets += self.lets(" ", *following)
        steps = ", ".join(self.write(state)[0] for state in following)
        self.names = outer
        loop = f"fold {fold.axis.name} < {fold.size} from ({first})"
        result = shown if level else f"({shown})"
        return f"{result} where ({names}) = {loop}: {lets}({steps})"

    def write(self, term: Term) -> tuple[str, int]:
        """Return the text of a term, and how tightly it binds."""
        if term in self.names:
            return self.names[term], ATOM
        match term:
            case Read(buffer=buffer, index=index):
                return f"{buffer}[{', '.join(map(str, index))}]", ATOM
            case Lookup(buffer=buffer, index=index, axis=axis, position=position):
                texts = [*map(str, index)]
                text, _ = self.write(position)
                texts[axis] = text if _is_seen_as_term(text) else f"at {text}"
                return f"{buffer}[{', '.join(texts)}]", ATOM
            case Number(value=value, dtype=dtype):
                return number_text(value, dtype), ATOM
            case Count(at=at, dtype=dtype):
                return f"{dtype.short}[{at}]", ATOM
            case Draw(seed=seed, stream=stream, at=at):
                return f"random{{{seed}, {stream}}}[{at}]", ATOM
            case Guarded(holds=holds, term=inner):
                return f"[{holds}: {self.write(inner)[0]}]", ATOM
            case Fold():
                return self.folded(term), 0
            case Apply(op=op, args=args):
                return self.applied(op, args)
            case _:
                raise AssertionError(term)

    def applied(self, op: Elementwise, args: tuple[Term, ...]) -> tuple[str, int]:
        if isinstance(op, FusedMul):
            return f"{op.name.removesuffix('_mul')}({self.applied(Mul(), args)[0]})", ATOM
        if op in INFIX:
            sign, level = INFIX[op]
            left, right = args
            taken = subtracted(right) if sign == "+" and right not in self.names else None
            if taken is not None:
                sign, right = "-", taken
            # The left operand may bind as tightly as the whole, but a < b < c is not allowed.
            left_text = self.operand(left, level + (level == LESS))
            return f"{left_text} {sign} {self.operand(right, level + 1)}", level
        inside = ", ".join(self.write(arg)[0] for arg in args)
        return f"{op.dtype.short if isinstance(op, Cast) else op_text(op)}({inside})", ATOM

    def operand(self, term: Term, least: int) -> str:
        text, level = self.write(term)
        return text if level >= least else f"({text})"


def _is_seen_as_term(text: str) -> bool:
    """Return whether an index is recognisable as a term, by a bracket outside parentheses."""
    depth = 0
    for letter in text:
        if letter == "[" and not depth:
            return True
        depth += (letter in "([") - (letter in ")]")
    return False


def subtracted(term: Term) -> Term | None:
    """Return b for b * -1, and 2 for -2: added to a, these are written as a - b."""
    match term:
        case Number(value=value, dtype=dtype) if repr(value).startswith("-"):
            is_there = dtype.is_float or -value <= dtype.limits[1]
            return Number(-value, dtype) if is_there else None
        case Apply(op=op, args=(negated, Number(value=-1))) if op == Mul() and not isinstance(
            negated, Number
        ):
            return negated
        case _:
            return None


def repeated(*scope: Term, known: Collection[Term] = ()) -> list[Term]:
    """Return the longer parts that occur more than once in terms, inner ones first.

    A part that occurs more than once only in the body of one fold belongs there.
    """
    bound = {part.axis.name for part in walk(*scope) if isinstance(part, Fold)}
    times: Counter[Term] = Counter()
    order: dict[Term, None] = {}

    def visit(term: Term) -> None:
        if term not in order and term not in known:
            for part in _written(term, bound):
                visit(part)
                times[part] += 1
            order[term] = None

    for term in scope:
        visit(term)
    return [part for part in order if times[part] > 1 and _is_long(part)]


def _written(term: Term, bound: Collection[str]) -> tuple[Term, ...]:
    """Return the parts that appear in a term's text; for a fold, those that could be outside it."""
    match term:
        case Apply(op=Add(), args=(left, right)) if (taken := subtracted(right)) is not None:
            return left, taken
        case Fold(states=states):
            own = {*states.names} if states else set[Term]()
            outer: dict[Term, None] = {}
            todo = [*term.parts]
            while todo:
                part = todo.pop()
                if free(part).keys().isdisjoint(bound) and own.isdisjoint(walk(part)):
                    outer[part] = None
                else:
                    todo += part.parts
            return tuple(outer)
        case _:
            return term.parts


def _is_long(term: Term) -> bool:
    if not isinstance(term, (Apply, Fold, Guarded)):
        return False
    length = 0
    todo: list[Term] = [term]
    while todo and length <= SHORT_TERM:
        length += 1
        todo += todo.pop().parts
    return length > SHORT_TERM


def number_text(value: bool | int | float, dtype: DType) -> str:
    """Return the shortest text of a number from which its dtype gives the same number."""
    if dtype is DType.bool_:
        return str(value).lower()
    if not dtype.is_float:
        return f"{value}" if dtype is DType.int64 else f"{value}_{dtype.short}"
    if dtype is DType.float64 or isnan(value):
        text = repr(float(value))
    else:
        text = str((np.float16 if dtype is DType.float16 else np.float32)(value))
    return text if dtype is DType.float32 else f"{text}_{dtype.short}"
