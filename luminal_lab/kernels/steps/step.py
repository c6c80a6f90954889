"""The base of all steps, and their shared questions: loops by name, and which iterations meet.

A step is a frozen value with fields; its text is its word and its fields, and can be read back.

A loop is named by its axis and its level: the levels of `i` are `i.block` and `i.own`. A step that
takes loops apart names a part before the dot (`i_sum.own`), and so does a step that copies into an
array (`rows_i.own`). No step gives a loop a name that another loop has, and none renames a loop
that it only moves: a name always means the same loop, whatever happens elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, lru_cache
from importlib import import_module
from math import gcd
from pkgutil import iter_modules
from typing import Any, ClassVar, Self, cast

from typing_extensions import override

import luminal_lab.kernels.steps
from luminal_lab.core.dims import Dim, Shape, Symbol, both, bounds, known, substitute, symbols
from luminal_lab.core.dims.expression import NAME, RESERVED, Extremum, sum_of, terms_of
from luminal_lab.core.op import size_of
from luminal_lab.core.views import row_major
from luminal_lab.errors import ScheduleError, nearest
from luminal_lab.kernels.definition.terms import Term, axis_of
from luminal_lab.kernels.nest.nest import (
    Access,
    Block,
    Fetch,
    Local,
    Loop,
    Nest,
    Statement,
    When,
    accesses,
    alone,
    axes_in,
    every,
    nested,
    paths,
    private,
    with_block,
    with_terms,
)
from luminal_lab.kernels.nest.sizes import slope
from luminal_lab.scanner import Scanner

STEPS: dict[str, type[Step]] = {}
"""The steps of the files that are loaded, by their first words; `steps` has those of all files."""


@dataclass(frozen=True)
class Step:
    """One change of a nest."""

    form: ClassVar[str]
    """The written form: a word, then other words and {fields}; a tuple is a list with commas.

    Parts in brackets are left out if their field is empty.
    """

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "form" in cls.__dict__:
            text = (cls.__doc__ or "").rstrip()
            cls.__doc__ = f"{text}\n\n    Written `{cls.form}`."  # shown by help()
            STEPS[cls.form.split()[0]] = cls

    def __post_init__(self) -> None:
        """Accept one name, or one number, as a list of it."""
        for name, kind in _kinds(type(self)).items():
            value: object = getattr(self, name)
            if kind.startswith("tuple") and not isinstance(value, tuple):
                value = (value,)
                object.__setattr__(self, name, value)
            for number in cast(
                "tuple[object, ...]", value if isinstance(value, tuple) else (value,)
            ):
                if isinstance(number, int) and number > MOST:
                    raise self.refuse(f"{number} is too large", TOO_LARGE)

    def apply(self, nest: Nest) -> Nest:
        """Return the nest after the step, or raise a ScheduleError that says what forbids it."""
        raise NotImplementedError

    @override
    def __str__(self) -> str:
        values = {field.name: _text(getattr(self, field.name)) for field in fields(self)}
        form = OPTIONAL.sub(lambda match: match[1] if getattr(self, match[2]) else "", self.form)
        return form.format(**values)

    def applied_to(self, nest: Nest) -> Nest:
        """Return the nest after the step, or refuse one in which a name occurs twice."""
        after = self.apply(nest)
        second = after.repeated
        if second is not None:
            raise self.refuse(
                f"it would make two {'loops' if isinstance(second, Loop) else 'arrays'} called "
                f"{second.name}",
                "say each word and each axis once",
            )
        return after

    def refuse(self, why: str, hint: str | None = None) -> ScheduleError:
        """Return the error that says why the step is refused."""
        return ScheduleError(f"{self}: {why}", hint=hint)

    @property
    def names(self) -> Iterator[str]:
        """The existing loops and arrays that the step names, not the new ones."""
        for name, kind in _kinds(type(self)).items():
            if name not in MAKES and "str" in kind:
                value: object = getattr(self, name)
                yield from cast("tuple[str, ...]", value if isinstance(value, tuple) else (value,))

    def by_names(self) -> Self:
        """Return the step with plain names in place of handles."""
        given = [field.name for field in fields(self) if field.init]
        return replace(self, **{name: _plain(getattr(self, name)) for name in given})

    # -- what steps look for -----------------------------------------------------------------------

    def find(self, nest: Nest, name: str, *, later: bool = False) -> Loop:
        """Return the loop of that name, which begins at 0 unless it may begin later."""
        if name not in nest.loops:
            hint = nearest(name, nest.loops) or f"its loops are {', '.join(nest.loops)}"
            raise self.refuse(f"there is no loop {name}", hint)
        loop = nest.loops[name]
        if loop.start != 0 and not later:
            raise self.refuse(
                f"{name} begins at {loop.start}, and the step is for loops that begin at 0",
                f"skip {name} after it",
            )
        return loop

    def find_local(self, nest: Nest, name: str) -> Local:
        """Return the local array of that name."""
        if name not in nest.locals:
            kind = "an input or output" if name in nest.types else "not there"
            hint = nearest(name, nest.locals) or f"its locals are {', '.join(nest.locals)}"
            raise self.refuse(f"{name} is {kind}, and the step is for locals", hint)
        return nest.locals[name]

    def named(self, nest: Nest, name: str, most: Dim) -> Symbol:
        """Return the axis of a new loop, whose name must be free."""
        word = name.rpartition(".")[2]
        if not NAME.fullmatch(name) or word in RESERVED or len(name) > MOST_IN_NAME:
            raise self.refuse(f"{word!r} cannot be a word for a loop", "take one such as tile, own")
        if name in nest.names:
            raise self.refuse(f"there is a {name} already", "give other words after as")
        return axis_of(name, most)

    def copied(
        self, nest: Nest, into: str, axes: Sequence[tuple[str, Dim]], word: str = ""
    ) -> list[Symbol]:
        """Return the axes of the loops that copy into an array; a word says which copy it is."""
        names = zip(copied([name for name, _ in axes], into), axes, strict=True)
        return [
            self.named(nest, part(name, word) if word else name, size) for name, (_, size) in names
        ]

    def check_free(self, nest: Nest, name: str) -> None:
        """Refuse a name for a new array if something else has it."""
        if name in nest.names:
            raise self.refuse(f"there is a {name} already", "give another name after as")

    def number(self, size: Dim, hint: str | None = None) -> int:
        """Return a size, which must be a number before the kernel runs."""
        if not isinstance(size, int):
            raise self.refuse(f"its size, {size}, is not known before it runs", hint)
        return size

    def check_inner(self, loop: Loop, how: str) -> None:
        """Refuse a loop if the sizes of loops inside depend on it."""
        for inner in every(loop.body, Loop):
            if any(loop.axis in symbols(end) for end in inner.ends):
                raise self.refuse(
                    f"the size of {inner.name}, {inner.size}, depends on it",
                    f"{how} {inner.name} first: then its size is a number",
                )

    def chain(self, nest: Nest, names: Sequence[str], *, others: bool = False) -> list[Loop]:
        """Return loops perfectly nested in each other, the outermost first, named in any order.

        With `others`, there may be other loops between them, which are returned as well.
        """
        loops = [self.find(nest, name, later=others) for name in names]
        left = set(names)
        if len(left) != len(names) or len(names) < 2:
            raise self.refuse("it takes two loops or more, each of them once")
        chain = [next(loop for loop in nest.loops.values() if loop.name in left)]
        left.remove(chain[0].name)
        while left:
            inner = self.inside(chain[-1])
            if inner.name not in left and not others:
                raise self.refuse(
                    f"in {chain[-1].name} there is {inner.name}",
                    f"it takes loops that stand right inside each other: name {inner.name}, too",
                )
            chain.append(inner)
            left.discard(inner.name)
        assert {*loops} <= {*chain}
        return chain

    def expanded(self, nest: Nest, names: Sequence[str], within: Loop | None = None) -> list[str]:
        """Return names of loops; an axis alone stands for its levels not named otherwise, in order.

        With `within`, only that loop and those inside it count.
        """
        inside = nest.loops if within is None else {within.name, *axes_in(within.body)}
        inner = [name for name in nest.loops if name in inside]
        expanded: list[str] = []
        for name in names:
            if nest.makes(name):
                expanded.append(name)
                continue
            own = [loop for loop in inner if loop.partition(".")[0] == name and loop not in names]
            expanded += [name] if not own or name in nest.names else own
        return expanded

    def inside(self, loop: Loop) -> Loop:
        """Return the only loop in a loop's body, or refuse a body with more."""
        inner = alone(loop.body, Loop)
        if inner is None:
            statements = ", ".join(_kind(statement) for statement in loop.body)
            raise self.refuse(
                f"the body of {loop.name} is not one loop but {statements}",
                f"fission {loop.name} takes it apart",
            )
        return inner


@dataclass(frozen=True)
class ForEach(Step):
    """A step that applies to each name in its first field; a refusal names just one of them."""

    @override
    def apply(self, nest: Nest) -> Nest:
        for step in self.single(nest):
            nest = step.change(nest)
        return nest

    def change(self, nest: Nest) -> Nest:
        """Return the nest after the step for a single name."""
        raise NotImplementedError

    def single(self, nest: Nest) -> Iterator[Self]:
        """Yield the step for each of its names alone."""
        first = fields(self)[0].name
        names = self.expanded(nest, cast("tuple[str, ...]", getattr(self, first)))
        for name in names:
            yield self if len(names) == 1 else replace(self, **{first: (name,)})


@dataclass(frozen=True)
class ForEachLoop(ForEach):
    """A step that changes each loop that it names."""

    loops: tuple[str, ...]
    later: ClassVar[bool] = False
    """Whether the loops may begin later than at 0."""

    @override
    def change(self, nest: Nest) -> Nest:
        loop = self.find(nest, *self.loops, later=self.later)
        return replaced_loop(nest, loop.name, self.changed(nest, loop))

    def changed(self, nest: Nest, loop: Loop) -> Loop:
        """Return a loop after the step."""
        raise NotImplementedError


def level(loop: str, word: str) -> str:
    """Return the name of a level of a loop's axis.

    >>> level("i", "block"), level("i_sum.own", "lane")
    ('i.block', 'i_sum.lane')
    """
    return f"{loop.partition('.')[0]}.{word}"


def part(loop: str, word: str) -> str:
    """Return the name of a loop in one part of a loop that was taken apart.

    >>> part("i", "sum"), part("i.own", "sum")
    ('i_sum', 'i_sum.own')
    """
    axis, dot, word_of = loop.partition(".")
    return f"{axis}_{word}{dot}{word_of}"


def copied(loops: Sequence[str], into: str) -> list[str]:
    """Return the names of loops that copy into an array: with their letters, if those differ.

    >>> copied(["i_sum.own", "k"], "rows"), copied(["i_a", "i_b"], "rows")
    (['rows_i.own', 'rows_k'], ['rows_i_a', 'rows_i_b'])
    """
    axes = [loop.partition(".") for loop in loops]
    short = [f"{into}_{LETTER.sub('', axis)}{dot}{word}" for axis, dot, word in axes]
    return short if len(set(short)) == len(short) else [f"{into}_{loop}" for loop in loops]


LETTER = re.compile(r"_[A-Za-z]\w*$")
"""The part that an axis belongs to, behind its letter and its number."""


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(_plain, cast("tuple[object, ...]", value)))
    return str(value) if isinstance(value, str) else value


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, cast("tuple[object, ...]", value)))
    return str(value)


@cache
def _kinds(cls: type[Step]) -> Mapping[str, str]:
    # A cell's annotations are classes; in a file that postpones them, they are text.
    return {
        field.name: field.type.__name__ if isinstance(field.type, type) else str(field.type)
        for field in fields(cls)
    }


def _kind(statement: Statement) -> str:
    match statement:
        case Loop(axis=axis):
            return f"loop {axis}"
        case When():
            return "a condition"
        case Local(name=name):
            return f"local {name}"
        case Fetch(name=name):
            return f"a fetch of {name}"
        case _:
            return f"an assignment to {statement.name}"


FORM = re.compile(r"[\[\]]|\{\w+\}|-?\w+|[^\s\w]")
"""What a form consists of: words, marks, fields, and brackets around what may be left out."""
LOOP, NUMBER = r"[A-Za-z_]\w*+(?:\.\w++)*+", r"\d++"
MOST_NAMED = 1000
"""The most names or numbers in a list of a step."""
OPTIONAL = re.compile(r"\[([^{]*\{(\w+)\}[^]]*)\]")
MAKES = "into", "words", "where", "space", "dtype"
"""Fields that do not name existing loops or arrays."""
MOST = 1_000_000_000_000
"""The largest number in a step; a loop with more iterations never ends."""
TOO_LARGE = f"the numbers of a step are at most {MOST:,}"
FEW = 256
"""The most elements of an array that may be in registers."""
MOST_IN_NAME = 60
"""The most letters in a loop's name."""


def steps() -> dict[str, type[Step]]:
    """Return all steps by their first words; a new file among these needs no entry anywhere."""
    _load()
    return STEPS


@cache
def _load() -> None:
    for module in iter_modules(luminal_lab.kernels.steps.__path__):
        import_module(f"luminal_lab.kernels.steps.{module.name}")


def parse_step(text: str) -> Step:
    """Return the step that a text says; a # begins a comment."""
    scanner = Scanner(text)
    step = read_step(scanner)
    if scanner.pos < len(text):
        scanner.fail(scanner.here, "one step should be here, and this is another")
    return step


def read_step(scanner: Scanner) -> Step:
    """Return the step that a text says next, which ends with its line."""
    word = scanner.take(r"[^\s,#]++", "a step")
    cls = steps().get(word.text)
    if cls is None:
        hint = nearest(word.text, steps()) or f"steps are {', '.join(steps())}"
        scanner.fail(word, f"there is no step {word.text!r}", hint)
    hint, kinds, values = f"its form is {cls.form}", _kinds(cls), dict[str, Any]()
    _, *form = FORM.findall(cls.form)
    for position, token in enumerate(form):
        if token == "[" and not scanner.match(_whole(form[position + 1])):
            break
        if token.startswith("{"):
            values[token[1:-1]] = _read_field(scanner, kinds[token[1:-1]], hint)
        elif token not in "[]" and not scanner.take_if(_whole(token)):
            scanner.fail(scanner.here, f"{token!r} should be here", hint)
    if scanner.pos < len(scanner.text) and "\n" not in scanner.text[word.at : scanner.pos]:
        scanner.fail(scanner.here, "a step ends with its line", hint)
    return cls(**values)


def _whole(token: str) -> str:
    """Return the pattern of a word that no letter follows, or of a mark."""
    return re.escape(token) + (r"\b" if token[-1].isalnum() else "")


def _read_field(scanner: Scanner, kind: str, hint: str) -> object:
    """Return the value of a field in a text: a name, a number, or a list of them."""
    pattern, what = (NUMBER, "a number") if "int" in kind else (LOOP, "a name")
    values = list[int | str]()
    while not values or (kind.startswith("tuple") and scanner.accept(",")):
        piece = scanner.maybe(pattern)
        if piece is None:
            scanner.fail(scanner.here, f"{what} should be here", hint)
        if what == "a number" and (len(piece.text) > len(str(MOST)) or int(piece.text) > MOST):
            scanner.fail(piece, f"{piece.text[:40]} is too large", TOO_LARGE)
        if len(values) == MOST_NAMED:
            scanner.fail(piece, f"a list has at most {MOST_NAMED:,} items")
        values.append(int(piece.text) if what == "a number" else piece.text)
    return tuple(values) if kind.startswith("tuple") else values[0]


# -- changing one loop -----------------------------------------------------------------------------


def replaced_loop(nest: Nest, name: str, replacement: Statement | Block) -> Nest:
    """Return a nest with a loop replaced by other statements."""

    body = replacement if isinstance(replacement, tuple) else (replacement,)
    return with_body(nest, _spliced(nest.body, name, body) or nest.body)


def _spliced(block: Block, name: str, replacement: Block) -> Block | None:
    """Return a block with a loop in it replaced; None if it is not there. All else stays."""
    for at, statement in enumerate(block):
        if not isinstance(statement, (Loop, When)):
            continue
        if isinstance(statement, Loop) and statement.name == name:
            return (*block[:at], *replacement, *block[at + 1 :])
        inner = _spliced(statement.body, name, replacement)
        if inner is not None:
            return (*block[:at], with_block(statement, inner), *block[at + 1 :])
    return None


def with_copy(loop: Loop, term: Term, copy: Term) -> Block:
    """Return a loop with a copy read in place of a term."""
    return with_terms((loop,), lambda part: copy if part == term else None)


def with_body(nest: Nest, body: Block) -> Nest:
    """Return a nest with another body."""
    after = replace(nest, body=body)
    if vars(nest).get("dims") == {}:  # no step adds a dim
        vars(after)["dims"] = {}
    return after


def around(nest: Nest, name: str) -> list[Loop]:
    """Return the loops around a loop or a local array, the outermost first."""
    named = (
        path
        for path, statement in paths(nest.body)
        if isinstance(statement, (Loop, Local)) and statement.name == name
    )
    return [*next(named, ())]


def axes_around(nest: Nest, name: str) -> set[str]:
    """Return the axes of the loops around a loop or a local array."""
    return {outer.name for outer in around(nest, name)}


# -- which iterations meet -------------------------------------------------------------------------


def meetings(first: Block, second: Block) -> Iterator[tuple[Access, Access]]:
    """Yield the accesses of two blocks that may meet in one element, one of them a write."""
    own = private(first) | private(second)
    theirs = [access for access in accesses(second) if access.name not in own]
    for access in accesses(first):
        if access.name in own:
            continue
        for other in theirs:
            if access.name == other.name and (access.how != "read" or other.how != "read"):
                yield access, other


def apart(nest: Nest, access: Access, other: Access, axis: Symbol, fixed: set[str]) -> bool:
    """Return whether two accesses of an array meet only in one iteration of an axis.

    Axes in `fixed` are around both and have the same value in both; all others may differ.
    """
    same = frozenset(fixed)
    if access.index is None or other.index is None:
        return False
    shape, pairs = nest.types[access.name].shape, list[tuple[Dim, Dim]]()
    # A position along one axis, or along neighbouring axes as if they were one.
    for end in range(1, len(shape) + 1):
        for first in range(end - 1, -1, -1):
            mine, its = access.index[first:end], other.index[first:end]
            pairs.append((row_major(shape[first:end], mine), row_major(shape[first:end], its)))
            if _apart(*pairs[-1], axis, same):
                return True
    return any(
        _apart(*ended, axis, same)
        for pair in pairs
        if (ended := (_ended(nest, pair[0], axis), _ended(nest, pair[1], axis))) != pair
    )


def _ended(nest: Nest, index: Dim, but: Symbol) -> Dim:
    """Return an index in which any axis but one that was cut into blocks is one axis again.

    The last block may be short: 6*t + o stays below 20 if o < min(6, 20 - 6*t).
    """
    inside = {symbol.name for symbol in symbols(index)}
    for loop in reversed([*nest.loops.values()]):  # inner blocks end where outer ones do
        axis = loop.axis
        for least in least_of(loop.size) if axis.name in inside else ():
            parts = terms_of(least)
            blocks = sum_of(part for part in parts if {*map(type, part[0])} == {Symbol})
            end, place, step = bounds(least - blocks)[1], axis - blocks, slope(index, axis)
            rest = index - step * place if isinstance(step, int) else index
            is_one = blocks != 0 and not {*symbols(place)} & {but, *symbols(rest)}
            if is_one and end is not None and end > 0:
                index = rest + step * Symbol(f"{axis.name}__ended", 0, end - 1)
                break
    return index


@lru_cache(1 << 14)  # steps are tried, and then applied
def _apart(a: Dim, b: Dim, axis: Symbol, fixed: frozenset[str]) -> bool:
    """Return whether a(x) = b(y) leaves only x = y."""
    step = slope(a, axis)
    if not isinstance(step, int) or step == 0 or slope(b, axis) != step:
        return False
    rest_a = substitute(a, {axis.name: 0})
    rest_b = substitute(b, {axis.name: 0})
    others = {s.name: s for s in (*symbols(rest_b), *symbols(rest_a)) if s.name not in fixed}
    # Axes count from 0 to a last position; any other symbol is a dim, the same on both sides.
    rest_b = substitute(
        rest_b,
        {
            name: Symbol(f"{name}__", s.low, s.high, s.multiple_of)
            for name, s in others.items()
            if s.low == 0 and s.high is not None
        },
    )
    # This leaves step * (x - y) = difference.
    difference, size = rest_b - rest_a, abs(step)
    y = Symbol(f"{axis.name}__", axis.low, axis.high, axis.multiple_of)
    return _is_within(difference, size) or any(
        _is_within(left, size) and _is_within(step * (axis - y) - left, whole)
        for whole, left in _remainders(difference)
    )


def _remainders(dim: Dim) -> Iterator[tuple[int, Dim]]:
    """Yield numbers, each with the rest of a dim after its multiples are dropped.

    If step * (x - y) - left is a multiple of a number, and closer to 0 than that number, then it is
    0: t[i + 256*j] is never the same element for different i while i < 256, whatever j is.
    """
    parts = [(abs(factor), monomial, factor) for monomial, factor in terms_of(dim) if monomial]
    for least in sorted({size for size, _, _ in parts}):
        large = [(monomial, factor) for size, monomial, factor in parts if size >= least]
        yield gcd(*(factor for _, factor in large)), dim - sum_of(large)


def _is_within(dim: Dim, limit: int) -> bool:
    """Return whether a dim is known to be closer to 0 than a number."""
    low, high = bounds(dim)
    return low is not None and high is not None and -limit < low and high < limit


def within(index: Dim, size: Dim) -> bool:
    """Return whether an index is known to be within an array."""
    if isinstance(index, int) and isinstance(size, int):
        return 0 <= index < size
    return known(both(index >= 0, index < size)) is True


def over(axes: Iterable[Symbol], statement: Statement) -> Statement:
    """Return loops that run a statement at each position along axes."""
    return nested([Loop(axis, extent(axis), ()) for axis in axes], statement)


def extent(axis: Symbol) -> Dim:
    """Return the most positions that an axis can have."""
    assert axis.high is not None
    return axis.high + 1


def is_small(shape: Shape) -> bool:
    """Return whether an array of a shape may be in registers."""
    size = size_of(shape)
    return isinstance(size, int) and size <= FEW


def least_of(dim: Dim) -> Shape:
    """Return the dims whose minimum a dim is."""
    return dim.args if isinstance(dim, Extremum) and dim.which == "min" else (dim,)
