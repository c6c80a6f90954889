"""Statements of C, CUDA, Metal and WGSL: the tree that renderers build, and what prints it.

    Declare("float", "t", "0.0f")                             float t = 0.0f;
    Repeat("int", "j", "4", [                                 #pragma unroll
        Assign("t", "x[j]", "+="),                       →    for (int j = 0; j < 4; j++) {
    ], ("unroll", "4"))                                           t += x[j];
                                                              }

The dialect's table (`kernels/dialect.py`) has its spelling of arrays, pragmas and barriers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, TypeAlias

from luminal_lab.core.dims import Dim, symbols
from luminal_lab.core.dtypes import DType
from luminal_lab.kernels.dialect import LIMIT, Dialect, Space
from luminal_lab.kernels.prelude.files import NAME
from luminal_lab.kernels.render.index import LEAST, condition_c, index_c
from luminal_lab.kernels.render.names import c_name

Ops: TypeAlias = tuple[str, ...]
"""The names of the ops that a statement computes."""


class Declare(NamedTuple):
    """A variable, or an array of `size` elements."""

    type: str
    name: str
    value: str = ""
    ops: Ops = ()
    is_const: bool = False
    size: int | str = ""
    space: Space = "own"


class Assign(NamedTuple):
    """A value assigned to a variable or an element."""

    target: str
    value: str
    how: str = "="
    ops: Ops = ()


class Repeat(NamedTuple):
    """A loop that counts up."""

    type: str
    name: str
    size: str
    body: CBlock
    pragma: tuple[str, str] | None = None
    """A word from the dialect's table, and its argument."""
    start: str = "0"


class Branch(NamedTuple):
    """Statements that run if a condition holds, and others that run if it does not."""

    condition: str
    body: CBlock
    otherwise: CBlock | None = None


class Group(NamedTuple):
    """Constants that are declared once it is known which of them are mentioned."""

    body: CBlock


class Barrier(NamedTuple):
    """The point at which the threads of a block wait for each other."""


class Invoke(NamedTuple):
    """A call whose result is not used."""

    call: str
    ops: Ops = ()


class Raw(NamedTuple):
    """A line as it is."""

    text: str


CStatement: TypeAlias = Declare | Assign | Repeat | Branch | Group | Barrier | Invoke | Raw
CBlock: TypeAlias = list[CStatement]


class Code:
    """Statements in the order in which they are written, and the functions that they call."""

    def __init__(self, dialect: Dialect, taken: Collection[str] = ()) -> None:
        self.dialect = dialect
        self.taken = taken
        """Names that a fresh one must avoid."""
        self.count = 0
        self.block: CBlock = []
        """The block that is being written."""
        self.uses: set[str] = set()
        """The names of what is used from the prelude."""
        self.mentioned: set[str] = set()
        """The dims and axes in index arithmetic."""
        self.is_apart = False
        """Whether what is added is in no loop that a compiler may make vectors of."""

    # -- statements --------------------------------------------------------------------------------

    def declare(self, type: str, name: str, value: str = "", ops: Iterable[str] = ()) -> None:
        """Add the declaration of a variable."""
        self.block.append(Declare(type, name, value, tuple(ops)))

    def constant(self, type: str, name: str, value: str, ops: Iterable[str] = ()) -> None:
        """Add the declaration of a variable that nothing sets again."""
        self.block.append(Declare(type, name, value, tuple(ops), is_const=True))

    def array(self, type: str, name: str, size: int | str, space: Space = "own") -> None:
        """Add the declaration of an array."""
        self.uses.update(NAME.findall(self.dialect.arrays[space]))
        self.block.append(Declare(type, name, size=size, space=space))

    def assign(self, target: str, value: str, how: str = "=", ops: Iterable[str] = ()) -> None:
        """Add an assignment."""
        self.block.append(Assign(target, value, how, tuple(ops)))

    def invoke(self, function: str, *args: object, ops: Iterable[str] = ()) -> None:
        """Add a call whose result is not used."""
        self.block.append(Invoke(self.call(function, *args), tuple(ops)))

    def wait(self) -> None:
        """Make the threads of a block wait for each other."""
        self.use(self.dialect.barrier)
        self.block.append(Barrier())

    def raw(self, text: str) -> None:
        """Add a line as it is."""
        self.block.append(Raw(text))

    @contextmanager
    def inside(self, block: CBlock) -> Generator[None]:
        """Put what is added meanwhile into a block."""
        outer, self.block = self.block, block
        yield
        self.block = outer

    @contextmanager
    def repeat(
        self,
        type: str,
        name: str,
        size: object,
        pragma: tuple[str, str] | None = None,
        start: str = "0",
    ) -> Generator[None]:
        """Add a loop, and put what is added meanwhile into it."""
        if pragma is not None:
            self.uses.update(NAME.findall(self.dialect.pragmas[pragma[0]]))
        loop = Repeat(type, name, str(size), [], pragma, start)
        self.block.append(loop)
        with self.inside(loop.body):
            yield

    @contextmanager
    def branch(self, condition: str) -> Generator[None]:
        """Add a condition around what is added meanwhile; without one, add that as it is."""
        if not condition:
            yield
            return
        branch = Branch(condition, [])
        self.block.append(branch)
        with self.inside(branch.body):
            yield

    @contextmanager
    def otherwise(self) -> Generator[None]:
        """Add what is added meanwhile to the branch written last, for where it is not taken."""
        branch = self.block[-1]
        assert isinstance(branch, Branch)
        other: CBlock = []
        self.block[-1] = branch._replace(otherwise=other)
        with self.inside(other):
            yield

    @contextmanager
    def constants(self, type: str, values: Mapping[str, Callable[[], str]]) -> Generator[None]:
        """Declare the dims and axes that are mentioned by what is added meanwhile."""
        group, mentioned = Group([]), self.mentioned
        self.block.append(group)
        self.mentioned = set()
        yield
        with self.inside(group.body):
            for name in values:
                if name in self.mentioned:
                    self.constant(type, c_name(name), values[name]())
        self.mentioned |= mentioned

    @contextmanager
    def aside(self) -> Generator[None]:
        """Discard what is added meanwhile."""
        count = self.count
        with self.inside([]):
            yield
        self.count = count

    def undeclared(self, name: str, since: int) -> str:
        """Take back a scalar's declaration, which its first value then is; return its type, or "".

        The value's own statements begin at `since`; only constants may have come before.
        """
        for at in reversed(range(since)):
            statement = self.block[at]
            if isinstance(statement, Group):
                continue
            if not isinstance(statement, Declare):
                break
            if not statement.is_const:
                if statement.name != name or statement.value or statement.size != "":
                    break
                del self.block[at]
                return statement.type
        return ""

    # -- expressions -------------------------------------------------------------------------------

    def fresh(self) -> str:
        """Return a name for a value."""
        while f"v{self.count}" in self.taken:
            self.count += 1
        self.count += 1
        return f"v{self.count - 1}"

    def use(self, name: str) -> str:
        """Note that a name of the prelude is mentioned, and return it."""
        self.uses.add(name)
        return name

    def call(self, function: str, *args: object) -> str:
        """Return a call of a function of the prelude."""
        return f"{self.use(function)}({', '.join(map(str, args))})"

    def index(self, dim: Dim, least: int = LEAST) -> str:
        """Return index arithmetic that binds at least this tightly."""
        self.mentioned.update(symbol.name for symbol in symbols(dim))
        return index_c(dim, least, self.uses)

    def condition(self, holds: Dim) -> str:
        """Return a condition on indices."""
        self.mentioned.update(symbol.name for symbol in symbols(holds))
        return condition_c(holds, self.uses)

    def cast(self, value: str, source: DType, target: DType) -> str:
        """Return a value in another dtype; a 16-bit float is held in a float."""
        if target.is_half:
            return self.widened(self.narrowed(value, source, target), target)
        near = DType.float32 if source.is_half else source
        return value if near is target else self.narrowed(value, source, target)

    def narrowed(self, value: str, source: DType, target: DType) -> str:
        """Return a value in another dtype in its form in memory."""
        near = DType.float32 if source.is_half else source
        return self.call(f"lab_cast_{near.short}_{target.short}", value)

    def widened(self, bits: str, dtype: DType) -> str:
        """Return a value in its form for computing, from its form in memory."""
        which = "one" if self.is_apart and dtype is DType.float16 else "cast"
        return self.call(f"lab_{which}_{dtype.short}_f32", bits) if dtype.is_half else bits

    def stored(self, value: str, dtype: DType) -> str:
        """Return a value in its form in memory."""
        return self.call(f"lab_cast_f32_{dtype.short}", value) if dtype.is_half else value


# -- as text ---------------------------------------------------------------------------------------


class SourceLine(NamedTuple):
    """A line of source, and the names of the ops that it computes."""

    text: str
    ops: Ops = ()


Spell: TypeAlias = Callable[[str], list[str]]
"""Returns a line of C in a language's own words."""


def printed(
    block: Iterable[CStatement],
    dialect: Dialect,
    depth: int = 1,
    spell: Spell = lambda line: [line],
) -> Iterator[SourceLine]:
    """Yield the lines of statements, none too long."""
    indent = "    " * depth

    def lines(text: str, ops: Ops = ()) -> Iterator[SourceLine]:
        for line in spell(text):
            for part in broken(indent + line):
                yield SourceLine(part, ops)

    for statement in block:
        match statement:
            case Repeat() | Branch():
                pragma = statement.pragma if isinstance(statement, Repeat) else None
                if pragma is not None and dialect.pragmas[pragma[0]]:
                    yield SourceLine(dialect.pragmas[pragma[0]].format(pragma[1], indent=indent))
                yield from lines(_head(statement))
                yield from _inside(statement, partial(printed, dialect=dialect, spell=spell), depth)
            case Group(body=body):
                yield from printed(body, dialect, depth, spell)
            case Barrier():
                yield from lines(f"{dialect.barrier}();")
            case Raw(text=text):
                yield from lines(text)
            case _:
                yield from lines(_simple(statement, dialect), statement.ops)


def _inside(
    statement: Repeat | Branch, printed: Callable[..., Iterator[SourceLine]], depth: int
) -> Iterator[SourceLine]:
    """Yield the lines behind the head of a loop or a branch."""
    indent = "    " * depth
    yield from printed(statement.body, depth=depth + 1)
    if isinstance(statement, Branch) and statement.otherwise is not None:
        yield SourceLine(f"{indent}}} else {{")
        yield from printed(statement.otherwise, depth=depth + 1)
    yield SourceLine(f"{indent}}}")


def _head(statement: Repeat | Branch) -> str:
    if isinstance(statement, Branch):
        return f"if ({statement.condition}) {{"
    name = statement.name
    start = f"{statement.type} {name} = {statement.start}"
    return f"for ({start}; {name} < {statement.size}; {name}++) {{"


def _simple(statement: Declare | Assign | Invoke, dialect: Dialect) -> str:
    match statement:
        case Declare(type=type, name=name, value=value, is_const=is_const, size=size):
            start = f" = {value}" if value else ""
            if size != "":
                array = dialect.arrays[statement.space].format(type=type, name=name, size=size)
                return f"{array.removesuffix(';')}{start};"
            return f"{'const ' * is_const}{type} {name}{start};"
        case Assign(target=target, value=value, how=how):
            return f"{target} {how} {value};"
        case Invoke(call=call):
            return f"{call};"


RANKS = {"?": 1, ":": 1, "||": 2, "&&": 3, "<": 4, ">=": 4, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6}
"""A line is cut before these, rather than before operators that bind more tightly."""


def broken(line: str) -> list[str]:
    """Return a line in parts that are not too long, cut outside brackets if that is enough.

    >>> print("\\n".join(broken("y[i] = " + "lab_exp2_f32(first_value[i]) + " * 4 + "1.0f;")))
    y[i] =
        lab_exp2_f32(first_value[i]) + lab_exp2_f32(first_value[i]) + lab_exp2_f32(first_value[i])
        + lab_exp2_f32(first_value[i]) + 1.0f;
    """
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    parts: list[str] = []
    while len(line) > LIMIT:
        cuts = list(_cuts(line, len(indent)))
        if not cuts:
            break
        cut = min(cuts)[-1]
        parts.append(line[:-cut].rstrip())
        line = indent + line[-cut:].lstrip()
    return [*parts, line]


def _cuts(line: str, start: int) -> Iterator[tuple[int, int, int]]:
    """Yield the spaces where a line may be cut: enclosing brackets, rank, distance from the end.

    An assignment, a comma and a semicolon end a line; other operators begin one.
    """
    depth = 0
    for at, letter in enumerate(line[:LIMIT]):
        depth += (letter in "([{") - (letter in ")]}")
        if letter != " " or at <= start:
            continue
        if line[at - 1] in "=,;" and line[at - 2] not in "<>=!":
            yield depth, int(line[at - 1] == ","), len(line) - at
        else:
            word = line[at + 1 :].partition(" ")[0]
            if word in RANKS:
                yield depth, RANKS[word], len(line) - at
