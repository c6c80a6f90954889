"""What one thread of a GPU does, as source: loops, assignments, vectors of neighbours.

vector c < 4:                       const lab_f32x4 v0 = LAB_LOAD(lab_f32x4, x, 4*i);
  y[4*i + c] = x[4*i + c] * 2.0     lab_f32x4 v1;
                               →    for (int c = 0; c < 4; c++) {
                                        v1.at[c] = v0.at[c] * 2.0f;
                                    }
                                    LAB_STORE(lab_f32x4, y, 4*i, v1);
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set as AbstractSet
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape, Symbol, both, known, substitute, symbols
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import size_of
from luminal_lab.core.ops import Cast
from luminal_lab.core.views import row_major
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.terms import Apply, Guard, Lookup, Read, Term, free
from luminal_lab.kernels.dialect import Dialect
from luminal_lab.kernels.nest.nest import Block, Fetch, Local, Loop, Set, Statement, When, walk
from luminal_lab.kernels.render.c.nest import FOLDED, IN_PLACE
from luminal_lab.kernels.render.exact import exact_terms
from luminal_lab.kernels.render.gpu.levels import levelled
from luminal_lab.kernels.render.gpu.nest import Phase
from luminal_lab.kernels.render.gpu.tensor import Tile
from luminal_lab.kernels.render.index import condition_c, index_c
from luminal_lab.kernels.render.names import c_name
from luminal_lab.kernels.render.terms import Known, Terms, Text, Uses
from luminal_lab.kernels.render.values import c_type, stored

INT = (1 << 31) - 1
WIDTHS = 2, 4, 8, 16
"""The bytes that are loaded and stored as one."""
AHEAD = 16
"""The bytes that are copied as one while threads work."""


class Threads(Terms):
    """The source of one phase: what a thread does by itself."""

    def __init__(
        self, phase: Phase, dialect: Dialect, exact: AbstractSet[str] = frozenset()
    ) -> None:
        super().__init__(phase.nest)
        self.exact_names = exact
        self.phase, self.dialect = phase, dialect
        self.lanes: dict[tuple[str, Shape], str] = {}
        """Inside of a vector loop: what is loaded and stored as a whole, by its place."""
        self.zeroed: dict[tuple[str, Shape], Dim] = {}
        """On what condition that was loaded; else it is 0."""
        self.tile: Tile | None = None
        """Inside of tensor loops: the tile of a warp, of which each lane has some elements."""
        self.first = ""
        """What holds of the one thread among several alike that sets what others see."""
        self.ahead: AbstractSet[str] = frozenset()
        """The arrays into which what is copied arrives while threads go on."""
        self.begun = False
        """Whether such copies have begun since they were last made a group."""
        self.pending: dict[str, int] = {}
        """The lines that declare scalars which have no value yet."""
        sizes = [size_of(type.shape) for type in self.types.values()]
        self.whole = "int" if all(isinstance(s, int) and s <= INT for s in sizes) else "lab_i64"
        """The type of indices: the narrow one where every place is known to fit."""

    # -- statements --------------------------------------------------------------------------------

    def statement(self, one: Statement) -> None:
        """Write a statement that one thread runs by itself."""
        match one:
            case Loop(kind="vector"):
                self.vector(one)
            case Loop(body=body):
                with self.loop_head(one):
                    self.statements(body)
            case When(holds=holds, body=body):
                with self.code.block(f"if ({condition_c(holds)})"):
                    self.statements(body)
            case Local():
                self.local(one)
            case Set():
                self.set(one)
            case Fetch():
                pass  # other threads work while one waits

    def statements(self, block: Block) -> None:
        """Write statements in order."""
        for one in block:
            self.statement(one)

    def loop_head(self, one: Loop) -> AbstractContextManager[None]:
        """Write the head of a loop; what is added next stands in it."""
        name, size = c_name(one.name), index_c(one.size)
        if one.kind == "unroll":
            self.unrolled()
        kind = "int" if isinstance(one.size, int) else self.whole
        return self.code.block(f"for ({kind} {name} = 0; {name} < {size}; {name}++)")

    def unrolled(self) -> None:
        """Say that the loop which follows is written out."""
        self.code.lines.append("    " * self.code.depth + "#pragma unroll")
        self.code.ops.append(())

    def local(self, one: Local) -> None:
        """Write the declaration of an array or number in registers."""
        size = self.own_size(one)
        if self.is_scalar(one.name):
            self.pending[one.name] = len(self.code.lines)
            self.code.add(f"{c_type(one.type.dtype)} {c_name(one.name)};")
        else:
            self.code.add(f"{c_type(one.type.dtype)} {c_name(one.name)}[{size}];")

    def own_size(self, one: Local) -> int:
        """Return how many elements of an array each thread has."""
        size = size_of(self.own_shape(one.name))
        if not isinstance(size, int):
            raise ScheduleError(
                f"nest {self.nest.name}: {one.name} has {size} elements in registers, which is "
                "not known before it runs",
                hint=f"place {one.name} in memory",
            )
        return size

    def set(self, one: Set) -> None:
        """Write an assignment."""
        dtype, ops = self.types[one.name].dtype, FOLDED[one.how]
        in_registers = self.in_registers(one.name)
        with self.by_first(one):
            place, exact = self.place(one.name, one.index), exact_terms(one, self.exact_names)
            if (fused := self.added(one, place, exact)) is not None:
                self.code.add(f"{place} = {fused.text};", (*fused.ops, *ops))
                return
            value = self.text(one.term, exact)
            if one.how == "+=" and dtype in IN_PLACE:
                self.code.add(f"{place} += {value.text};", (*value.ops, *ops))
                return
            if one.how != "=":
                near = DType.float32 if dtype.is_half else dtype
                old = self.element(one.name, one.index)
                joined = f"lab_{'max' if one.how == 'max=' else 'add'}_{near.short}"
                text = f"{joined}({old}, {value.text})"
                if one.how == "+=" and near.is_float:
                    text = f"{old} + {value.at(3)}"
                value = Text(text, ops=value.ops)
            text = value.text if in_registers else self.in_memory(one, value.text, dtype)
            start = self.declared(one.name, dtype) if one.how == "=" else ""
            self.code.add(f"{start}{place} = {text};", (*value.ops, *ops))

    def by_first(self, one: Set) -> AbstractContextManager[None]:
        """Let one thread alone set what others see, where several do the same."""
        if not self.first or self.in_registers(one.name):
            return nullcontext()
        return self.code.block(f"if ({self.first})")

    def declared(self, name: str, dtype: DType) -> str:
        """Return the type to write before the first value of a scalar, whose line goes."""
        place = self.pending.pop(name, None)
        lines, indent = self.code.lines, "    " * self.code.depth
        if place is None or place >= len(lines):
            return ""
        kind = c_type(dtype)
        own = lines[place] == f"{indent}{kind} {c_name(name)};"
        if not own or any(not line.startswith(f"{indent}const ") for line in lines[place + 1 :]):
            return ""
        del lines[place], self.code.ops[place]
        for other, at in self.pending.items():
            if at > place:
                self.pending[other] = at - 1
        return f"{kind} "

    def in_memory(self, one: Set, text: str, dtype: DType) -> str:
        """Return a value as it is put into memory; what has been rounded is not rounded again."""
        inner, holds = (
            (one.term.term, one.term.holds) if isinstance(one.term, Guard) else (one.term, 1)
        )
        if not dtype.is_half or one.how != "=":
            return stored(text, dtype)
        if isinstance(inner, Read) and not self.in_registers(inner.buffer):
            place = self.place(inner.buffer, inner.index)
            known_zero = holds == 1 or self.zeroed.get((inner.buffer, inner.index)) == holds
            return place if known_zero else f"{condition_c(holds)} ? {place} : lab_{dtype.short}(0)"
        return _inside(text, dtype) if _is_cast(one.term, dtype) else stored(text, dtype)

    # -- places ------------------------------------------------------------------------------------

    def in_registers(self, name: str) -> bool:
        """Return whether an array is in the registers of each thread."""
        local = self.nest.locals.get(name)
        return local is not None and local.space == "registers"

    def own_shape(self, name: str) -> Shape:
        """Return the shape of what each thread has of an array in registers."""
        shape = self.phase.own(name, self.types[name].shape)
        if name in self.phase.tiles:
            rows, columns = self.types[name].shape[-2:]
            assert isinstance(rows, int)
            assert isinstance(columns, int)
            return (*shape[:-2], self.dialect.tile.own(rows, columns))
        return shape

    @override
    def is_scalar(self, name: str) -> bool:
        return self.in_registers(name) and not self.own_shape(name)

    def value_of(self, one: Set) -> Text:
        """Return what a statement assigns; what decides where something jumps is rounded."""
        return self.text(one.term, exact_terms(one, self.exact_names))

    @override
    def is_exact(self, term: Term) -> bool:
        if isinstance(term, Read):
            return not self.in_registers(term.buffer)
        return super().is_exact(term)

    @override
    def place(self, name: str, index: Iterable[Dim]) -> str:
        index = tuple(index)
        vector = self.lanes.get((name, index))
        if vector is not None:
            return vector
        self.check_place(name)
        if not self.in_registers(name):
            return f"{c_name(name)}[{index_c(row_major(self.types[name].shape, index))}]"
        if self.is_scalar(name):
            return c_name(name)
        own = self.phase.own(name, index)
        if name in self.phase.tiles:
            assert self.tile is not None
            own = (*own[:-2], self.tile.element)
        return f"{c_name(name)}[{index_c(row_major(self.own_shape(name), own))}]"

    def check_place(self, name: str) -> None:
        """Refuse what does not lie row by row."""
        local = self.nest.locals.get(name)
        if local is not None and local.space == "tiles":
            raise ScheduleError(
                f"nest {self.nest.name}: {name} is in tiles, which bulk copies write and four "
                "warps multiply, and here a thread uses it",
                hint=f"place {name} in shared",
            )

    @override
    def element(self, name: str, index: Iterable[Dim]) -> str:
        dtype, place = self.types[name].dtype, self.place(name, index)
        if dtype.is_half and not self.in_registers(name):
            return f"lab_cast_{dtype.short}_f32({place})"
        return place

    # -- vectors -----------------------------------------------------------------------------------

    def vector(self, loop: Loop) -> None:
        """Write a loop over neighbours: what lies side by side is loaded and stored as one."""
        width = loop.size
        assert isinstance(width, int)
        body = tuple(
            replace(one, term=levelled(one.term, loop.axis, width)) if isinstance(one, Set) else one
            for one in loop.body
        )
        loop = replace(loop, body=body)
        if self.copied_ahead(loop, width):
            return
        loads, stores = self.vectors(loop, width)
        kept, name = dict(self.lanes), c_name(loop.name)
        written: dict[tuple[str, Shape], str] = {}
        with self.code.block(f"if ({self.first})") if self.first and stores else nullcontext():
            first, self.first = self.first, ("" if stores else self.first)
            for (array, index), (start, holds) in loads.items():
                kind, vector = f"lab_{self.types[array].dtype.short}x{width}", self.fresh()
                load = f"LAB_LOAD{self.space(array)}({kind}, {c_name(array)}, {index_c(start)})"
                if holds != 1:
                    load = f"{condition_c(holds)} ? {load} : {kind}()"
                    self.zeroed[array, index] = holds
                self.code.add(f"const {kind} {vector} = {load};")
                self.lanes[array, index] = f"{vector}.at[{name}]"
            for array, index in stores:
                written[array, index] = vector = self.fresh()
                self.code.add(f"lab_{self.types[array].dtype.short}x{width} {vector};")
                self.lanes[array, index] = f"{vector}.at[{name}]"
            self.unrolled()
            with self.code.block(f"for (int {name} = 0; {name} < {width}; {name}++)"):
                self.statements(loop.body)
            for (array, index), start in stores.items():
                kind = f"lab_{self.types[array].dtype.short}x{width}"
                at = f"{c_name(array)}, {index_c(start)}, {written[array, index]}"
                self.code.add(f"LAB_STORE{self.space(array)}({kind}, {at});")
            self.first = first
        self.lanes = kept
        self.zeroed = {}

    def copied_ahead(self, loop: Loop, width: int) -> bool:
        """Write a loop as one copy that goes on beside the work, if it is one; return whether."""
        one = loop.body[0]
        if len(loop.body) != 1 or not isinstance(one, Set) or one.name not in self.ahead:
            return False
        holds, read = (
            (one.term.holds, one.term.term) if isinstance(one.term, Guard) else (1, one.term)
        )
        dtype = self.types[one.name].dtype
        if one.how != "=" or width * dtype.itemsize != AHEAD or not isinstance(read, Read):
            return False
        if read.dtype is not dtype or self.space(read.buffer) or loop.axis in symbols(holds):
            return False
        to = self.start(one.name, one.index, loop.axis, width)
        of = self.start(read.buffer, read.index, loop.axis, width)
        if to is None or of is None:
            return False
        count = "16" if holds == 1 else f"{condition_c(holds)} ? 16 : 0"
        places = f"&{c_name(one.name)}[{index_c(to)}], &{c_name(read.buffer)}[{index_c(of)}]"
        with self.code.block(f"if ({self.first})") if self.first else nullcontext():
            self.code.add(f"lab_copy_async_16({places}, {count});")
        self.begun = True
        return True

    @override
    def guarded(self, term: Guard, known: Known, uses: Uses) -> Text:
        inner = term.term
        if isinstance(inner, Read) and self.zeroed.get((inner.buffer, inner.index)) == term.holds:
            return Text(self.element(inner.buffer, inner.index))
        return super().guarded(term, known, uses)

    def vectors(
        self, loop: Loop, width: int
    ) -> tuple[dict[tuple[str, Shape], tuple[Dim, Dim]], dict[tuple[str, Shape], Dim]]:
        """Return what a vector loop loads, where and on what condition; and what it stores."""
        loads: dict[tuple[str, Shape], tuple[Dim, Dim]] = {}
        stores: dict[tuple[str, Shape], Dim] = {}
        several: set[tuple[str, Shape]] = set()
        sets = [one for one in loop.body if isinstance(one, Set)]
        places: dict[str, set[Shape | None]] = {}
        for one in sets:
            places.setdefault(one.name, set()).add(one.index)
            for part in _parts(one.term):
                if isinstance(part, (Read, Lookup)):
                    index = part.index if isinstance(part, Read) else None
                    places.setdefault(part.buffer, set()).add(index)
        written = {one.name for one in sets}
        for one in sets:
            for part, holds in _always(one.term, loop.axis):
                if isinstance(part, Read) and part.buffer not in written:
                    start = self.start(part.buffer, part.index, loop.axis, width)
                    known_as = loads.get((part.buffer, part.index))
                    if start is not None and known_as in (None, (start, holds)):
                        loads[part.buffer, part.index] = start, holds
                    elif start is not None:
                        several.add((part.buffer, part.index))
            # What is stored as a whole is set in each lane before anything else is done with it.
            start = self.start(one.name, one.index, loop.axis, width)
            hows = [other.how for other in sets if other.name == one.name]
            if start is not None and hows[0] == "=" and len(places[one.name]) == 1:
                stores[one.name, one.index] = start
        return {place: load for place, load in loads.items() if place not in several}, stores

    def space(self, array: str) -> str:
        """Return how the words for loads and stores end, by where an array is."""
        local = self.nest.locals.get(array)
        return "_SHARED" if local is not None and local.space == "shared" else ""

    def start(self, name: str, index: Shape, axis: Symbol, width: int) -> Dim | None:
        """Return where the neighbours along an axis begin in memory, if they are one vector."""
        if self.in_registers(name) or width * self.types[name].dtype.itemsize not in WIDTHS:
            return None
        flat = row_major(self.types[name].shape, index)
        start = substitute(flat, {axis.name: 0})
        if substitute(flat, {axis.name: axis + 1}) - flat != 1:
            return None
        return start if known((start % width) < 1) is True else None


def _is_cast(term: Term, dtype: DType) -> bool:
    return isinstance(term, Apply) and term.op == Cast(dtype)


def _inside(text: str, dtype: DType) -> str:
    """Return what is cast to a 16-bit float and back, without the way back."""
    back = f"lab_cast_{dtype.short}_f32("
    inside = text[len(back) : -1]
    is_whole = text.startswith(back) and text.endswith(")") and _is_balanced(inside)
    return inside if is_whole else stored(text, dtype)


def _is_balanced(text: str) -> bool:
    depth = 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            return False
    return True


def mentioned(block: Block, phase: Phase) -> set[str]:
    """Return the names of the dims and axes that are written for a block.

    Those of what is spread that are threads are not: each has its own.
    """
    found: set[str] = set()
    for one in walk(block):
        dims: list[Dim] = []
        match one:
            case Loop(size=size):
                dims.append(size)
            case When(holds=holds):
                dims.append(holds)
            case Set(name=name, index=index, term=term):
                dims += _own_places(name, index, phase)
                found |= _in_term(term, phase)
            case Local() | Fetch():
                pass
        found |= {s.name for dim in dims for s in symbols(dim)}
    return found


def _own_places(name: str, index: Shape, phase: Phase) -> Shape:
    own = phase.own(name, index)
    return own[:-2] if name in phase.tiles else own


def _in_term(term: Term, phase: Phase) -> set[str]:
    if isinstance(term, Read):
        own = _own_places(term.buffer, term.index, phase)
        return {s.name for dim in own for s in symbols(dim)}
    inside = {name for part in term.parts for name in _in_term(part, phase)}
    alone = set(free(term)) - {name for part in term.parts for name in free(part)}
    return inside | alone


def _parts(term: Term) -> Iterator[Term]:
    yield term
    for part in term.parts:
        yield from _parts(part)


def _always(term: Term, axis: Symbol, holds: Dim = 1) -> Iterator[tuple[Term, Dim]]:
    """Yield parts of a term that all positions of an axis look at, if a condition holds."""
    yield term, holds
    if isinstance(term, Guard):
        if axis in symbols(term.holds):
            return
        holds = both(holds, term.holds)
    if not isinstance(term, Lookup):
        for part in term.parts:
            yield from _always(part, axis, holds)
