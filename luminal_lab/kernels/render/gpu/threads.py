"""What one thread of a GPU does, as source: loops, assignments, vectors of neighbours.

vector c < 4:                       const lab_f32x4 v0 = LAB_LOAD(lab_f32x4, x, 4*i);
  y[4*i + c] = x[4*i + c] * 2.0     lab_f32x4 v1;
                               →    for (int c = 0; c < 4; c++) {
                                        v1.at[c] = v0.at[c] * 2.0f;
                                    }
                                    LAB_STORE(lab_f32x4, y, 4*i, v1);
"""

from __future__ import annotations

from collections.abc import Iterator, Set as AbstractSet
from dataclasses import replace

from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape, Symbol, both, known, substitute, symbols
from luminal_lab.core.dims.expression import Negative, terms_of
from luminal_lab.core.op import size_of
from luminal_lab.kernels.definition.substitution import exchanged
from luminal_lab.kernels.definition.terms import Guarded, Lookup, Read, Term
from luminal_lab.kernels.nest.nest import Local, Loop, Set, alone, reads_of
from luminal_lab.kernels.render.gpu.arrays import ThreadArrays
from luminal_lab.kernels.render.gpu.waiting import Waits
from luminal_lab.kernels.render.gpu.warps import Warps
from luminal_lab.kernels.render.names import c_name
from luminal_lab.kernels.render.values import c_type
from luminal_lab.kernels.render.writer import Writer

INT = (1 << 31) - (1 << 20)
"""The size up to which positions are an int: threads of the last block go beyond it."""
AHEAD = 16
"""The bytes of one asynchronous copy."""


class Threads(Writer):
    """Writes what one thread does by itself, and its part in what its warp does."""

    def __init__(self, arrays: ThreadArrays, exact: AbstractSet[str], waits: Waits) -> None:
        super().__init__(arrays, exact)
        self.own_size = arrays.own_size
        self.vectors = Vectors(self, arrays, waits)
        self.warps = Warps(self, arrays)
        sizes = [size_of(type.shape) for type in self.types.values()]
        is_near = all(isinstance(s, int) and s <= INT for s in sizes)
        self.whole = "int" if is_near or not self.dialect.has_int64 else "lab_i64"
        """The type of indices: the narrow one if every position is known to fit."""

    @override
    def counter(self, loop: Loop) -> str:
        return "int" if isinstance(loop.size, int) else self.whole

    @override
    def loop(self, loop: Loop) -> None:
        match loop.kind:
            case "vector":
                self.vectors.loop(loop)
            case "tensor":
                self.warps.tensor(loop)
            case "bulk":
                self.warps.bulk(loop)
            case _:
                if not self.warps.grid(loop):
                    super().loop(loop)

    @override
    def local(self, local: Local) -> None:
        kind, name, size = c_type(local.type.dtype), c_name(local.name), self.own_size(local)
        if self.arrays.is_scalar(local.name):
            self.code.declare(kind, name)
        else:
            self.code.array(kind, name, size)


class Vectors:
    """Writes loops over neighbours: contiguous elements are loaded and stored in one access."""

    def __init__(self, writer: Writer, arrays: ThreadArrays, waits: Waits) -> None:
        self.writer, self.arrays, self.waits = writer, arrays, waits
        self.code, self.types = arrays.code, arrays.types

    def loop(self, loop: Loop) -> None:
        """Write a loop."""
        width, code, arrays = loop.size, self.code, self.arrays
        assert isinstance(width, int)
        body = tuple(
            replace(part, term=levelled(part.term, loop.axis, width))
            if isinstance(part, Set)
            else part
            for part in loop.body
        )
        loop = replace(loop, body=body)
        if self.copied_ahead(loop, width):
            return
        loads, stores = self.vectors(loop, width)
        lanes, name = dict(arrays.lanes), c_name(loop.name)
        first = self.writer.first
        written: dict[tuple[str, Shape], str] = {}
        with code.branch(first if stores else ""):
            self.writer.first = "" if stores else first
            for (array, index), (start, holds) in loads.items():
                kind, vector = self.kind(array, width), code.fresh()
                where = c_name(array), code.index(start)
                load = code.call(f"LAB_LOAD{arrays.space(array)}", kind, *where)
                if holds != 1:
                    load = f"{code.condition(holds)} ? {load} : {kind}()"
                    arrays.zeroed[array, index] = holds
                code.constant(kind, vector, load)
                arrays.lanes[array, index] = f"{vector}.at[{name}]"
            for array, index in stores:
                written[array, index] = vector = code.fresh()
                code.declare(self.kind(array, width), vector)
                arrays.lanes[array, index] = f"{vector}.at[{name}]"
            with code.repeat("int", name, width, ("unroll", str(width))):
                self.writer.statements(loop.body)
            for (array, index), start in stores.items():
                given = c_name(array), code.index(start), written[array, index]
                code.invoke(f"LAB_STORE{arrays.space(array)}", self.kind(array, width), *given)
            self.writer.first = first
        arrays.lanes, arrays.zeroed = lanes, {}

    def kind(self, array: str, width: int) -> str:
        """Return the type of neighbours in an array."""
        return self.code.use(f"lab_{self.types[array].dtype.short}x{width}")

    def copied_ahead(self, loop: Loop, width: int) -> bool:
        """Write a loop as one asynchronous copy, if it is one; return whether it is."""
        copy = alone(loop.body, Set)
        if copy is None or copy.name not in self.waits.ahead:
            return False
        holds, read = (
            (copy.term.holds, copy.term.term) if isinstance(copy.term, Guarded) else (1, copy.term)
        )
        dtype = self.types[copy.name].dtype
        if copy.how != "=" or width * dtype.itemsize != AHEAD or not isinstance(read, Read):
            return False
        if read.dtype is not dtype or self.arrays.space(read.buffer) or loop.axis in symbols(holds):
            return False
        to = self.arrays.start(copy.name, copy.index, loop.axis, width)
        of = self.arrays.start(read.buffer, read.index, loop.axis, width)
        if to is None or of is None:
            return False
        count = "16" if holds == 1 else f"{self.code.condition(holds)} ? 16 : 0"
        starts = ((copy.name, to), (read.buffer, of))
        given = [f"&{c_name(name)}[{self.code.index(start)}]" for name, start in starts]
        with self.code.branch(self.writer.first):
            self.code.invoke("lab_copy_async_16", *given, count)
        self.waits.begun = True
        return True

    def vectors(
        self, loop: Loop, width: int
    ) -> tuple[dict[tuple[str, Shape], tuple[Dim, Dim]], dict[tuple[str, Shape], Dim]]:
        """Return what a vector loop loads, from where and on what condition; and what it stores."""
        loads: dict[tuple[str, Shape], tuple[Dim, Dim]] = {}
        stores: dict[tuple[str, Shape], Dim] = {}
        several: set[tuple[str, Shape]] = set()
        sets = [update for update in loop.body if isinstance(update, Set)]
        indices: dict[str, set[Shape | None]] = {}
        for update in sets:
            indices.setdefault(update.name, set()).add(update.index)
            for buffer, index in reads_of(update.term):
                indices.setdefault(buffer, set()).add(index)
        written = {update.name for update in sets}
        for update in sets:
            for part, holds in _always(update.term, loop.axis):
                if isinstance(part, Read) and part.buffer not in written:
                    start = self.arrays.start(part.buffer, part.index, loop.axis, width)
                    known_as = loads.get((part.buffer, part.index))
                    if start is not None and known_as in (None, (start, holds)):
                        loads[part.buffer, part.index] = start, holds
                    elif start is not None:
                        several.add((part.buffer, part.index))
            # What is stored as a whole is set in each lane before anything else uses it.
            start = self.arrays.start(update.name, update.index, loop.axis, width)
            hows = [other.how for other in sets if other.name == update.name]
            if start is not None and hows[0] == "=" and len(indices[update.name]) == 1:
                stores[update.name, update.index] = start
        return {key: load for key, load in loads.items() if key not in several}, stores


def _always(term: Term, axis: Symbol, holds: Dim = 1) -> Iterator[tuple[Term, Dim]]:
    """Yield parts of a term that all positions of an axis use, if a condition holds."""
    yield term, holds
    if isinstance(term, Guarded):
        if axis in symbols(term.holds):
            return
        holds = both(holds, term.holds)
    if not isinstance(term, Lookup):
        for part in term.parts:
            yield from _always(part, axis, holds)


def levelled(term: Term, axis: Symbol, width: int) -> Term:
    """Return a term whose guards test once for neighbours along an axis, where they can.

    vector c < 8: t[c] = [8*i + c < 40: x[8*i + c]]   →   vector c < 8: t[c] = [i < 5: x[8*i + c]]
    """

    def change(guard: Term) -> Term | None:
        if not isinstance(guard, Guarded) or axis not in symbols(guard.holds):
            return None
        return replace(guard, holds=level(guard.holds, axis, width))

    return exchanged(term, change)


def level(holds: Dim, axis: Symbol, width: int) -> Dim:
    """Return a condition with 0 for an axis of this width, as far as that makes no difference."""
    terms = terms_of(holds)
    if len(terms) != 1 or terms[0][1] != 1:
        return holds
    asked: Dim = 1
    for atom in terms[0][0]:
        part: Dim = atom
        if isinstance(atom, Negative) and axis in symbols(atom):
            first = substitute(atom.x, {axis.name: 0})
            if atom.x - first == axis and known((first % width) < 1) is True:
                part = first < 0
        asked = both(asked, part)
    return asked
