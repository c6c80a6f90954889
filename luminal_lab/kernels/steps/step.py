"""The base of all steps, and their shared questions: loops by name, and which iterations meet.

A step is a frozen value with fields; its text is its word and its fields, and reads back.

A loop is called by its axis and its level: the levels of `i` are `i.block` and `i.own`. A step that
takes loops apart names a part before the dot (`i_sum.own`), and so does one that copies into an
array (`rows_i.own`). No step gives a loop a name that another loop has, and none renames a loop
that it only moves: so a name says which loop it is, whatever is done elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from math import gcd
from typing import Any, ClassVar, Self, cast

from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape, Symbol, both, bounds, known, substitute, symbols
from luminal_lab.core.dims.expression import NAME, RESERVED, Extremum, sum_of, terms_of
from luminal_lab.core.views import row_major
from luminal_lab.errors import ParseError, ScheduleError, nearest
from luminal_lab.kernels.definition.terms import axis_of
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
    axes_in,
    mapped,
    walk,
)

STEPS: dict[str, type[Step]] = {}
"""The steps by their first words."""


@dataclass(frozen=True)
class Step:
    """One change of a nest."""

    form: ClassVar[str]
    """The written form: a word, then others and {fields}; a tuple is a list with commas.

    What stands in brackets is left out where its field is empty.
    """

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "form" in cls.__dict__:
            text = (cls.__doc__ or "").rstrip()
            cls.__doc__ = f"{text}\n\n    Written `{cls.form}`."  # what help() shows
            STEPS[cls.form.split()[0]] = cls

    def __post_init__(self) -> None:
        """Take one name, or one number, for a list of it."""
        for name, kind in _kinds(type(self)).items():
            value: object = getattr(self, name)
            if kind.startswith("tuple") and not isinstance(value, tuple):
                object.__setattr__(self, name, (value,))

    def apply(self, nest: Nest) -> Nest:
        """Return the nest after the step, or raise a ScheduleError that says what forbids it."""
        raise NotImplementedError

    @override
    def __str__(self) -> str:
        values = {field.name: _text(getattr(self, field.name)) for field in fields(self)}
        form = OPTIONAL.sub(lambda match: match[1] if values[match[2]] else "", self.form)
        return form.format(**values)

    def refuse(self, why: str, hint: str | None = None) -> ScheduleError:
        """Return the error that says why the step is not done."""
        return ScheduleError(f"{self}: {why}", hint=hint)

    @property
    def names(self) -> Iterator[str]:
        """The existing loops and arrays that the step names, not the new ones."""
        for field in fields(self):
            value: object = getattr(self, field.name)
            if field.name in MAKES or "str" not in str(field.type):
                continue
            yield from cast("tuple[str, ...]", value if isinstance(value, tuple) else (value,))

    def by_names(self) -> Self:
        """Return the step with plain names, whatever stood for them."""
        given = [field.name for field in fields(self) if field.init]
        return replace(self, **{name: _plain(getattr(self, name)) for name in given})

    # -- what steps look for -----------------------------------------------------------------------

    def find(self, nest: Nest, name: str) -> Loop:
        """Return the loop of that name."""
        if name not in nest.loops:
            hint = nearest(name, nest.loops) or f"its loops are {', '.join(nest.loops)}"
            raise self.refuse(f"there is no loop {name}", hint)
        return nest.loops[name]

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
            raise self.refuse(f"there is a {name} already", "give other words behind as")
        return axis_of(name, most)

    def distinct(self, names: list[str]) -> list[str]:
        """Return the names of the step's new loops, or refuse two of the same name."""
        for position, name in enumerate(names):
            if name in names[:position]:
                raise self.refuse(
                    f"it would make two loops called {name}", "say each word and each axis once"
                )
        return names

    def chain(self, nest: Nest, names: Sequence[str], *, others: bool = False) -> list[Loop]:
        """Return loops that stand right inside each other, the outermost first, in any order.

        With `others` there may be others among them, which are returned as well.
        """
        loops = [self.find(nest, name) for name in names]
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
        """Return names of loops; an axis alone stands for its levels that are not named, in order.

        With `within` only a loop and those in it count.
        """
        inside = nest.loops if within is None else {within.name, *axes_in(within.body)}
        inner = [name for name in nest.loops if name in inside]
        expanded: list[str] = []
        for name in names:
            own = [loop for loop in inner if loop.partition(".")[0] == name and loop not in names]
            expanded += [name] if name in nest.names or not own else own
        return expanded

    def inside(self, loop: Loop) -> Loop:
        """Return the only loop that a loop's body is, or say that there is more."""
        if len(loop.body) != 1 or not isinstance(loop.body[0], Loop):
            statements = ", ".join(_kind(statement) for statement in loop.body)
            raise self.refuse(
                f"the body of {loop.name} is not one loop but {statements}",
                f"fission {loop.name} takes it apart",
            )
        return loop.body[0]


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


def level(loop: str, word: str) -> str:
    """Return the name of a level of a loop's axis.

    >>> level("i", "block"), level("i_sum.own", "lane")
    ('i.block', 'i_sum.lane')
    """
    return f"{loop.partition('.')[0]}.{word}"


def part(loop: str, word: str) -> str:
    """Return what a loop is called in a part of what was taken apart.

    >>> part("i", "sum"), part("i.own", "sum")
    ('i_sum', 'i_sum.own')
    """
    axis, dot, word_of = loop.partition(".")
    return f"{axis}_{word}{dot}{word_of}"


def copied(loops: Sequence[str], into: str) -> list[str]:
    """Return what loops are called where they copy into an array: by their letters, if those do.

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


def _kinds(cls: type[Step]) -> dict[str, str]:
    # A cell's annotations are classes, and those of a file with postponed ones are text.
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


def without_comment(line: str) -> str:
    """Return a line of a schedule without its comment and without space around it."""
    return line.split("#", 1)[0].strip()


LONGEST = 500
"""Letters of a step as text."""
OPTIONAL = re.compile(r"\[([^{]*\{(\w+)\}[^]]*)\]")
MAKES = "into", "words", "where", "space"
"""Fields that do not name existing loops or arrays."""
MOST_IN_NAME = 60
"""Letters of a loop's name."""


def parse_step(text: str) -> Step:
    """Return the step that a line says; a # begins a comment."""
    text = without_comment(text)
    if len(text) > LONGEST:
        raise ParseError(f"schedule: a step of {len(text):,} letters, and {LONGEST} are its most")
    words = text.split()
    cls = STEPS.get(words[0]) if words else None
    if cls is None:
        word = words[0] if words else ""
        raise ParseError(
            f"schedule: there is no step {word!r}",
            where=text,
            hint=nearest(word, STEPS) or f"steps are {', '.join(STEPS)}",
        )
    pattern = re.escape(cls.form).replace(r"\[", "(?:").replace(r"\]", ")?")
    pattern = re.sub(r"\\\{(\w+)\\\}", _group, pattern).replace(r"\ ", r"\s+")
    match = re.fullmatch(pattern, text.strip())
    if not match:
        raise ParseError(
            "schedule: a step that cannot be read", where=text, hint=f"its form is {cls.form}"
        )
    kinds = _kinds(cls)
    return cls(
        **{
            name: _value(cls, name, kinds[name], value, text)
            for name, value in match.groupdict().items()
            if value is not None
        }
    )


def _group(match: re.Match[str]) -> str:
    return f"(?P<{match[1]}>[A-Za-z0-9_., ]+?)"


def _value(cls: type[Step], name: str, kind: str, value: str, text: str) -> Any:  # noqa: ANN401  # what the field's annotation says
    """Return the value of a field's text."""
    is_list = kind.startswith("tuple")
    parts = [part.strip() for part in value.split(",") if part.strip()] if is_list else [value]
    if "int" in kind and not all(part.isdecimal() and len(part) < 19 for part in parts):
        many = "has numbers" if is_list else "is a number"
        raise ParseError(
            f"schedule: {name} {many}, and not {value!r}",
            where=text,
            hint=f"its form is {cls.form}",
        )
    if is_list:
        return tuple(map(int, parts)) if "int" in kind else tuple(parts)
    return int(value) if kind == "int" else value


# -- changing one loop -----------------------------------------------------------------------------


def replaced_loop(nest: Nest, name: str, replacement: Statement | Block) -> Nest:
    """Return a nest with a loop replaced by other statements."""

    def change(statement: Statement) -> Statement | Block:
        return replacement if isinstance(statement, Loop) and statement.name == name else statement

    return with_body(nest, mapped(nest.body, change))


def with_body(nest: Nest, body: Block) -> Nest:
    """Return a nest with another body."""
    return replace(nest, body=body)


def around(nest: Nest, name: str) -> list[Loop]:
    """Return the loops around a loop, the outermost first."""

    def search(block: Block, path: list[Loop]) -> list[Loop] | None:
        for statement in block:
            if isinstance(statement, Loop) and statement.name == name:
                return path
            if isinstance(statement, (Loop, When)):
                outer = search(
                    statement.body, [*path, statement] if isinstance(statement, Loop) else path
                )
                if outer is not None:
                    return outer
        return None

    return search(nest.body, []) or []


# -- which iterations meet -------------------------------------------------------------------------


def private(block: Block) -> set[str]:
    """Return the arrays declared in a block, which are new in each iteration."""
    return {statement.name for statement in walk(block) if isinstance(statement, Local)}


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

    Axes in `fixed` are around both and have one value in both; all others may differ.
    """
    if access.index is None or other.index is None:
        return False
    shape = nest.types[access.name].shape
    # A position along one axis, or along neighbouring axes as if they were one.
    return any(
        _apart(
            row_major(shape[first:end], access.index[first:end]),
            row_major(shape[first:end], other.index[first:end]),
            axis,
            fixed,
        )
        for end in range(1, len(shape) + 1)
        for first in range(end - 1, -1, -1)
    )


def _apart(a: Dim, b: Dim, axis: Symbol, fixed: set[str]) -> bool:
    """Return whether a(x) = b(y) leaves only x = y."""
    step = _step(a, axis)
    if not isinstance(step, int) or step == 0 or _step(b, axis) != step:
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
    """Yield numbers, each with the rest of a dim without its multiples.

    If step * (x - y) - left is a multiple of a number, and nearer to 0 than it, then it is 0:
    t[i + 256*j] of different i are never the same element while i < 256, whatever j is.
    """
    parts = [(abs(factor), monomial, factor) for monomial, factor in terms_of(dim) if monomial]
    for least in sorted({size for size, _, _ in parts}):
        large = [(monomial, factor) for size, monomial, factor in parts if size >= least]
        yield gcd(*(factor for _, factor in large)), dim - sum_of(large)


def _is_within(dim: Dim, limit: int) -> bool:
    """Return whether a dim is known to be nearer to 0 than a number."""
    low, high = bounds(dim)
    return low is not None and high is not None and -limit < low and high < limit


def _step(dim: Dim, axis: Symbol) -> Dim:
    return substitute(dim, {axis.name: axis + 1}) - dim


def within(index: Dim, size: Dim) -> bool:
    """Return whether an index is known to be a position."""
    if isinstance(index, int) and isinstance(size, int):
        return 0 <= index < size
    return known(both(index >= 0, index < size)) is True


def extent(axis: Symbol) -> Dim:
    """Return the most positions that an axis can have."""
    assert axis.high is not None
    return axis.high + 1


def least_of(dim: Dim) -> Shape:
    """Return the dims of which a dim is the least."""
    return dim.args if isinstance(dim, Extremum) and dim.which == "min" else (dim,)
