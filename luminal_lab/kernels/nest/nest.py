"""How a kernel computes: loops and statements, in the order in which they happen.

    nest dot(a: f32[64, 128], b: f32[128, 16]) -> (y: f32[64, 16])
      parallel i < 64:
        for j < 16:
          local t: f32[] in registers
          t = 0.0
          for k < 128:
            t += a[i, k] * b[k, j]
          y[i, j] = t

    text  = "nest" name [ "[" dims "]" ] "(" inputs ")" "->" "(" outputs ")" { line }
    line  = kind [ dim "<=" ] axis "<" dim [ "of" dim ] ":" { line }
                                                   a block is indented by two more
          | "if" dim ":" { line }
          | "at" term "as" axis "<" dim ":" { line }
          | name "over" name                       an output and an input; the first line alone
          | "local" name ":" type "in" space
          | place ("=" | "+=" | "max=") term            a place is name "[" dim , … "]", or name
          | "fetch" place                               of an input or output
    kind  = "for" | "unroll" | "vector"          anywhere
          | "parallel" | "simd"                  on a CPU
          | "block" | "thread" | "across" | "tensor" | "bulk"    on a GPU
    space = "memory" | "scratch" | "shared" | "tiles" | "registers"

Terms are those of definitions, without folds: a fold has become a loop that adds to a local. An
array without axes is read by its name alone. All tasks see an array in memory; one task sees an
array in scratch or registers; the threads of a block see an array in shared or tiles
(render/gpu/nest.py says how GPUs run a nest). A fetch loads an element into the cache and has no
other effect; if there is no such element, it does nothing.

A loop over a block that may be short names the full size: 2 - 4*j of 4 has at most four iterations,
and min(6, n - 6*i) has six. A loop that begins later than at 0 says where: in `for 2*i <= j < n`
the first j is 2*i, and there is none unless 2*i is below n. `at index[i] as p < 6` runs its block
once, for the p that the index gives; an index out of range is reported, and its block is left out.
An output `over` an input may be the same memory, and then nothing is copied from the input to the
output.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Literal, TypeAlias, TypeVar

from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape, Symbol, substitute, symbols
from luminal_lab.core.dims.expression import Extremum
from luminal_lab.core.op import TensorType, mentioned
from luminal_lab.core.printer import as_text
from luminal_lab.core.views import row_major
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.definition import Buffer, header_text
from luminal_lab.kernels.definition.substitution import exchanged, replaced
from luminal_lab.kernels.definition.terms import (
    Lookup,
    Read,
    Term,
    axis_of,
    free,
    read_by,
    walk as walk_terms,
    write,
)
from luminal_lab.tensor.arguments import told_object

Kind: TypeAlias = Literal[
    "for", "unroll", "vector", "parallel", "simd", "block", "thread", "across", "tensor", "bulk"
]
Space: TypeAlias = Literal["memory", "scratch", "shared", "tiles", "registers"]
How: TypeAlias = Literal["=", "+=", "max="]
FOLDS = "+=", "max="


@dataclass(frozen=True, slots=True)
class Loop:
    """A block that runs for each value of an axis, from its start up."""

    axis: Symbol
    size: Dim
    body: Block
    kind: Kind = "for"
    position: Term | None = None
    """The only value of the axis, if it is below the size; written `at`."""
    start: Dim = 0
    """The first value of the axis, never negative."""

    @property
    def name(self) -> str:
        """The name of the axis, which is unique in its nest."""
        return self.axis.name

    @property
    def ends(self) -> Shape:
        """The first value of the axis, and the limit below which all values are."""
        return self.start, self.size


@dataclass(frozen=True, slots=True)
class When:
    """A block that runs if a condition on indices holds."""

    holds: Dim
    body: Block


@dataclass(frozen=True, slots=True)
class Local:
    """An array that exists from here to the end of the block."""

    name: str
    type: TensorType
    space: Space = "registers"


@dataclass(frozen=True, slots=True)
class Set:
    """An element is set to a value, increased by it, or replaced by the larger of the two."""

    name: str
    index: Shape
    term: Term
    how: How = "="


@dataclass(frozen=True, slots=True)
class Fetch:
    """A hint that an element will be needed soon; without such an element it does nothing."""

    name: str
    index: Shape


Statement: TypeAlias = "Loop | When | Local | Set | Fetch"
Block: TypeAlias = "tuple[Statement, ...]"
S = TypeVar("S", bound="Loop | When | Local | Set | Fetch")


@dataclass(frozen=True, slots=True)
class Access:
    """One read or write of an array."""

    name: str
    index: Shape | None
    """None: anywhere, for a lookup."""
    how: How | Literal["read"]
    statement: Set


@told_object("nest")
@dataclass(frozen=True, repr=False)
class Nest:
    """How a kernel computes. Names of arrays, axes and dims all differ."""

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    body: Block
    over: str = ""
    """The input that may share its memory with the only output, which is then not copied."""

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """All statements, outer ones first."""
        return tuple(walk(self.body))

    @cached_property
    def locals(self) -> Mapping[str, Local]:
        """The nest's own arrays, by name."""
        return {local.name: local for local in self.statements if isinstance(local, Local)}

    @cached_property
    def loops(self) -> Mapping[str, Loop]:
        """All loops by name, outer ones first."""
        return {loop.name: loop for loop in self.statements if isinstance(loop, Loop)}

    @cached_property
    def types(self) -> Mapping[str, TensorType]:
        """The types of all arrays by name."""
        given = {buffer.name: buffer.type for buffer in (*self.inputs, *self.outputs)}
        return given | {local.name: local.type for local in self.locals.values()}

    @cached_property
    def dims(self) -> Mapping[str, Symbol]:
        """The dims of the graph that the nest mentions, by name."""
        dims = dict(mentioned(self.types.values(), ()))
        axes: set[str] = set()
        for statement in self.statements:
            match statement:
                case Loop(axis=axis, position=position):
                    axes.add(axis.name)
                    shape: Shape = statement.ends
                    dims.update(free(position) if position else {})
                case When(holds=holds):
                    shape = (holds,)
                case Set(index=shape, term=term):
                    dims.update(free(term))
                case Fetch(index=shape):
                    pass
                case Local():
                    continue
            for dim in shape:
                if not isinstance(dim, int):
                    dims.update((symbol.name, symbol) for symbol in symbols(dim))
        return {name: dims[name] for name in sorted(dims) if name not in axes}

    def flat(self, name: str, index: Iterable[Dim]) -> Dim:
        """Return the position of an element in an array, row by row."""
        return row_major(self.types[name].shape, tuple(index))

    def fault(self, what: str, hint: str | None = None) -> ScheduleError:
        """Return the error that says what is wrong with the nest."""
        return ScheduleError(f"nest {self.name}: {what}", hint=hint)

    def space_of(self, name: str) -> Space | None:
        """Return the space of an array that the nest makes itself; None for inputs and outputs."""
        return self.locals[name].space if name in self.locals else None

    @property
    def alike(self) -> tuple[str, ...]:
        """The input and the output that may be the same memory."""
        return (self.over, self.outputs[0].name) if self.over else ()

    @cached_property
    def overwritable(self) -> Mapping[tuple[str, str], bool]:
        """The results that may lie where an input does, each with that input.

        Every element of the input is read in the block that writes the result, at the same place
        and not after that; it maps to whether one statement does both. Otherwise the block must do
        so once for each element, and by one thread: each loop around it has a say in the place.
        """
        reads: dict[str, list[tuple[int, int, Shape | None]]] = {b.name: [] for b in self.inputs}
        writes: dict[str, dict[tuple[int, Shape | None], int]] = {b.name: {} for b in self.outputs}
        repeats: set[int] = set()
        for number, (block, around) in enumerate(blocks(self.body)):
            axes = {loop.name for loop in around if loop.size != 1}
            places = ((at, access) for at, s in enumerate(block) for access in accesses_of(s))
            for at, access in places:
                if access.name in reads:
                    reads[access.name].append((number, at, access.index))
                elif access.name in writes and access.how != "=":
                    del writes[access.name]
                elif access.name in writes:
                    writes[access.name].setdefault((number, access.index), at)
                    if not axes <= {s.name for dim in access.index or () for s in symbols(dim)}:
                        repeats.add(number)
        pairs: dict[tuple[str, str], bool] = {}
        for result, name in product(writes, reads):
            seen = reads[name]
            gaps = [writes[result].get((number, index), -1) - at for number, at, index in seen]
            is_own = not any(gaps)
            if gaps and min(gaps) >= 0 and (is_own or repeats.isdisjoint(n for n, *_ in seen)):
                pairs[result, name] = is_own
        return pairs

    @cached_property
    def shared(self) -> frozenset[str]:
        """Inputs and results of which one may be written before the other was used for the last."""
        pairs = [pair for pair, is_own in self.overwritable.items() if not is_own]
        return frozenset(name for pair in pairs for name in pair).union(self.alike)

    @cached_property
    def names(self) -> set[str]:
        """All names in use."""
        return {*self.types, *self.loops, *self.dims}

    def makes(self, name: str) -> bool:
        """Return whether a name is that of a loop or of a local array."""
        return name in self.loops or name in self.locals

    @cached_property
    def repeated(self) -> Loop | Local | None:
        """The first loop or local array whose name is already in use."""
        taken = {buffer.name for buffer in (*self.inputs, *self.outputs)}
        for statement in self.statements:
            if isinstance(statement, (Loop, Local)):
                if statement.name in taken:
                    return statement
                taken.add(statement.name)
        return None

    @override
    def __str__(self) -> str:
        header = header_text(f"nest {self.name}", self.dims, self.inputs, self.outputs)
        over = [f"  {self.outputs[0].name} over {self.over}"] if self.over else []
        return "\n".join([header, *over, *self._lines(self.body, "  ")])

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Nest {self.name}; print(…) shows it>"

    @cached_property
    def _scalars(self) -> Mapping[Term, str]:
        """The arrays that are read by name alone."""
        types = self.types.items()
        return {Read(name, (), type.dtype): name for name, type in types if not type.shape}

    def _lines(self, block: Block, indent: str) -> Iterator[str]:
        for statement in block:
            match statement:
                case Loop(axis=axis, size=size, body=body, kind=kind):
                    most = extent_of(size, self.loops)
                    known = most is not None and axis == axis_of(axis.name, most)
                    of = "" if known or axis.high is None else f" of {axis.high + 1}"
                    position = statement.position
                    word = f"at {self._written(position)} as" if position else kind
                    since = "" if statement.start == 0 else f"{statement.start} <= "
                    yield f"{indent}{word} {since}{statement.name} < {size}{of}:"
                    yield from self._lines(body, indent + "  ")
                case When(holds=holds, body=body):
                    yield f"{indent}if {holds}:"
                    yield from self._lines(body, indent + "  ")
                case Local(name=name, type=type, space=space):
                    yield f"{indent}local {name}: {type} in {space}"
                case Set(name=name, index=index, term=term, how=how):
                    target = f"{name}[{', '.join(map(str, index))}]" if index else name
                    yield f"{indent}{target} {how} {self._written(term)}"
                case Fetch(name=name, index=index):
                    yield f"{indent}fetch {name}[{', '.join(map(str, index))}]"

    def _written(self, term: Term) -> str:
        return write(term, self.names, names=self._scalars)


def extent_of(size: Dim, axes: Collection[str]) -> Dim | None:
    """Return the most iterations of a loop with a size, if the size alone determines it."""
    parts = size.args if isinstance(size, Extremum) and size.which == "min" else (size,)
    fixed = [part for part in parts if not any(s.name in axes for s in symbols(part))]
    return fixed[0] if len(fixed) == 1 else size if len(fixed) == len(parts) else None


# -- walking and rebuilding ------------------------------------------------------------------------


def walk(block: Block) -> Iterator[Statement]:
    """Yield all statements, outer ones first."""
    todo = [*reversed(block)]
    while todo:
        statement = todo.pop()
        yield statement
        if isinstance(statement, (Loop, When)):
            todo += reversed(statement.body)


def every(block: Block, kind: type[S]) -> list[S]:
    """Return all statements of a kind, outer ones first."""
    return [statement for statement in walk(block) if isinstance(statement, kind)]


def alone(block: Block, kind: type[S]) -> S | None:
    """Return the only statement of a block, if it is of a kind."""
    return block[0] if len(block) == 1 and isinstance(block[0], kind) else None


def paths(
    block: Block, around: tuple[Loop, ...] = ()
) -> Iterator[tuple[tuple[Loop, ...], Statement]]:
    """Yield all statements, outer ones first, each with the loops around it."""
    for statement in block:
        yield around, statement
        if isinstance(statement, Loop):
            yield from paths(statement.body, (*around, statement))
        elif isinstance(statement, When):
            yield from paths(statement.body, around)


def blocks(block: Block, around: tuple[Loop, ...] = ()) -> Iterator[tuple[Block, tuple[Loop, ...]]]:
    """Yield a block and all blocks in it, each with the loops around it."""
    yield block, around
    for statement in block:
        if isinstance(statement, Loop):
            yield from blocks(statement.body, (*around, statement))
        elif isinstance(statement, When):
            yield from blocks(statement.body, around)


def assignments(block: Block) -> Iterator[Set]:
    """Yield what is set in a block, in order; a loop `at` a value reads it, and sets no array."""
    for statement in walk(block):
        match statement:
            case Set():
                yield statement
            case Loop(position=position) if position:
                yield Set("", (), position)
            case _:
                pass


def accesses(block: Block) -> Iterator[Access]:
    """Yield the reads and writes of arrays, in order."""
    for statement in assignments(block):
        yield from accesses_of(statement)


def accesses_of(statement: Statement) -> Iterator[Access]:
    """Yield the reads and writes of one statement, without those of a block in it."""
    if isinstance(statement, Loop) and statement.position:
        statement = Set("", (), statement.position)
    if isinstance(statement, Set):
        for name, index in reads_of(statement.term):
            yield Access(name, index, "read", statement)
        if statement.name:
            yield Access(statement.name, statement.index, statement.how, statement)


def reads_of(term: Term) -> tuple[tuple[str, Shape | None], ...]:
    """Return the arrays that a term reads, each with its index."""
    try:
        known: tuple[tuple[str, Shape | None], ...] = getattr(term, "_reads")  # noqa: B009  # it is set when first asked
    except AttributeError:
        known = tuple(_reads_of(term))
        object.__setattr__(term, "_reads", known)  # steps of a schedule share terms, and ask again
    return known


def _reads_of(term: Term) -> Iterator[tuple[str, Shape | None]]:
    for part in walk_terms(term):
        if isinstance(part, Read):
            yield part.buffer, part.index
        elif isinstance(part, Lookup):
            yield part.buffer, None


def terms_in(block: Block) -> Iterator[Term]:
    """Yield all terms that a block computes, and their parts."""
    for statement in assignments(block):
        yield from walk_terms(statement.term)


def looks_up(block: Block) -> bool:
    """Return whether an index into an array is a value, which may be out of range."""
    positions = (isinstance(part, Lookup) for part in terms_in(block))
    return any(positions) or any(not update.name for update in assignments(block))


def arrays_in(block: Block) -> set[str]:
    """Return the names of all arrays that a block reads or writes."""
    arrays: set[str] = set()
    for statement in assignments(block):
        arrays |= {statement.name, *read_by(statement.term)}
    return arrays - {""}


def axes_in(block: Block) -> set[str]:
    """Return the names of all loops in a block."""
    return {loop.name for loop in every(block, Loop)}


def private(block: Block) -> set[str]:
    """Return the arrays declared in a block, which are new in each iteration."""
    return {statement.name for statement in every(block, Local)}


def arrays_written(block: Block) -> set[str]:
    """Return the arrays that a block writes."""
    return {statement.name for statement in every(block, Set)}


def mapped(block: Block, change: Callable[[Statement], Statement | Block]) -> Block:
    """Return a block with each statement changed, inner ones first; if none is, the same block."""
    statements: list[Statement] = []
    is_same = True
    for statement in block:
        changed = change(_with_body(statement, change))
        is_same &= changed is statement
        statements += changed if isinstance(changed, tuple) else (changed,)
    return block if is_same else tuple(statements)


def _with_body(statement: Statement, change: Callable[[Statement], Statement | Block]) -> Statement:
    if not isinstance(statement, (Loop, When)):
        return statement
    body = mapped(statement.body, change)
    return statement if body is statement.body else with_block(statement, body)


def with_block(statement: Loop | When, body: Block) -> Loop | When:
    """Return a loop or a condition with another body: in a third of the time of `replace`."""
    if isinstance(statement, When):
        return When(statement.holds, body)
    loop = statement
    return Loop(loop.axis, loop.size, body, loop.kind, loop.position, loop.start)


def with_terms(block: Block, change: Callable[[Term], Term | None]) -> Block:
    """Return a block with parts of its terms replaced where `change` returns something."""
    return mapped(
        block,
        lambda statement: (
            replace(statement, term=exchanged(statement.term, change))
            if isinstance(statement, Set)
            else statement
        ),
    )


def moved(
    block: Block, arrays: Collection[str], index: Callable[[Shape], Shape], into: str = ""
) -> Block:
    """Return a block that uses arrays at other indices, or another array in their place."""

    def read(term: Term) -> Term | None:
        if isinstance(term, Read) and term.buffer in arrays:
            return Read(into or term.buffer, index(term.index), term.dtype)
        return None

    def write(statement: Statement) -> Statement:
        if isinstance(statement, Set) and statement.name in arrays:
            name = into or statement.name
            return replace(statement, name=name, index=index(statement.index))
        return statement

    return mapped(with_terms(block, read), write)


def within_axis(block: Block, arrays: Collection[str], at: Dim) -> Block:
    """Return a block that uses arrays at a position along a new first axis."""
    return moved(block, arrays, lambda index: (at, *index))


def declared(block: Block, name: str, declaration: Block) -> Block:
    """Return a block with another declaration of a local array, or without one."""
    return mapped(block, lambda s: declaration if isinstance(s, Local) and s.name == name else s)


def nested(loops: Iterable[Loop], *body: Statement) -> Statement:
    """Return statements inside loops, the outermost first, which lose their own bodies."""
    for loop in reversed([*loops]):
        body = (with_block(loop, body),)
    (statement,) = body
    return statement


def substituted(block: Block, values: Mapping[str, Dim]) -> Block:
    """Return a block with axes or dims replaced by others."""

    def change(statement: Statement) -> Statement:
        match statement:
            case Loop(axis=axis, position=position):
                if axis.name in values:
                    new = values[axis.name]
                    assert isinstance(new, Symbol), new
                    axis = new
                position = position and replaced(position, values)
                start, size = (substitute(end, values) for end in statement.ends)
                return replace(statement, axis=axis, size=size, position=position, start=start)
            case When(holds=holds):
                return replace(statement, holds=substitute(holds, values))
            case Set(index=index, term=term):
                new = tuple(substitute(dim, values) for dim in index), replaced(term, values)
                is_same = new[0] == index and new[1] is term
                return statement if is_same else replace(statement, index=new[0], term=new[1])
            case Fetch(index=index):
                return replace(statement, index=tuple(substitute(dim, values) for dim in index))
            case Local():
                return statement

    return mapped(block, change)
