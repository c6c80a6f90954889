"""A nest as C: a function for each phase, a `for` for each loop, an assignment for each statement.

    parallel i < 4:                               static void row_sums(LAB_GIVEN) {
      local t: f32[] in registers                     const float *restrict x = lab_buffers[0];
      t = 0.0                                         float *restrict y = lab_buffers[1];
      simd j < 6:                         →           const lab_i64 i = lab_task;
        t += x[i, j]                                  float t = 0.0f;
      y[i] = t                                        #pragma omp simd reduction(+:t)
                                                      for (lab_i64 j = 0; j < 6; j++) {
                                                          t += x[6*i + j];
                                                      }
                                                      y[i] = t;
                                                  }

Loops of one iteration are left out. An outermost parallel loop is a phase: its body is a task, and
tasks may run at the same time. What stands between such loops is a phase of one task. A vector loop
is written with the compiler's vector types; a simd loop is a plain loop that the compiler is told
it may vectorise. 16-bit floats are computed in float32, and rounded when they are stored or cast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import replace
from functools import cached_property, partial
from math import inf
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from luminal_lab.core.dims import (
    Dim,
    Symbol,
    bounds,
    evaluate_array,
    maximum,
    substitute,
    symbols,
)
from luminal_lab.core.dims.expression import products
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import ints, size_of
from luminal_lab.core.ops import Add, BitOr, Cast, Mul, ShiftLeft
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.terms import (
    Apply,
    Guarded,
    Lookup,
    Number,
    Read,
    Term,
    free,
    walk as walk_terms,
)
from luminal_lab.kernels.dialect import C
from luminal_lab.kernels.kernel import Phase
from luminal_lab.kernels.nest.nest import (
    Block,
    Fetch,
    Local,
    Loop,
    Nest,
    Set,
    arrays_in,
    every,
    looks_up,
    private,
    walk,
)
from luminal_lab.kernels.nest.pairs import Pairs, pairs_of
from luminal_lab.kernels.nest.sizes import about, slope, work_of
from luminal_lab.kernels.prelude.prelude import known_in
from luminal_lab.kernels.prelude.rows import C_TYPES, COMPUTED
from luminal_lab.kernels.render.arrays import Arrays
from luminal_lab.kernels.render.c.cases import Branched, Cases, InTurn, cases_of
from luminal_lab.kernels.render.c.dots import (
    dot_of,
    dot_text,
    dots_of,
    factor_of,
    greatest,
    place_of,
)
from luminal_lab.kernels.render.c.packed import BYTES, WORD, in_words
from luminal_lab.kernels.render.c.phases import packed, parts_of
from luminal_lab.kernels.render.code import Assign, Branch, CBlock, Code, Declare, Group, Repeat
from luminal_lab.kernels.render.exact import exact_names
from luminal_lab.kernels.render.index import PRODUCT, SUM
from luminal_lab.kernels.render.names import c_name
from luminal_lab.kernels.render.rendered import (
    Rendered,
    RenderedPhase,
    bytes_of,
    function_names,
    rendered,
    without_loops,
)
from luminal_lab.kernels.render.terms import Text, fused, number_c
from luminal_lab.kernels.render.values import c_type
from luminal_lab.kernels.render.writer import FOLDED, Writer

STACK = 16384
"""The most bytes of a scratch array that is put on the stack."""
MOST_WIDENED = 128
"""The most narrow values that are widened to floats ahead of a loop."""
MOST_ZEROS = 256
"""The most bytes of an array that is declared as zeros, rather than filled by a loop."""
JOINED = 16
"""Neighbours are added up together in multiples of this many, or half as many."""
WIDENED = {DType.float32: "lab_widen", DType.int32: "lab_words"}
"""The functions that widen neighbours."""
SHORT = BYTES
"""From this many values on, bytes are made as vectors of bytes; up to this many, as integers."""
SPREAD = 4
"""The neighbours that share a value where vectors are put together of two."""
MOST_ACROSS = 32
"""The most rows, and the most columns, that are copied into each other's places by a call."""
MOST_WRITTEN_OUT = 16
"""The most copies of a loop's body that a compiler may unroll."""
WIDEST, NARROWEST = 64, 16
"""The bytes of the widest vectors, and of the narrowest that are read under conditions."""


ONCE = "for", "unroll", "simd", "block", "thread", "across", "tensor", "bulk"
"""The kinds of loops that are left out if they have one iteration."""


def render_nest(
    nest: Nest,
    name: str,
    dims: Sequence[str] | None = None,
    compared: AbstractSet[str] = frozenset(),
) -> Rendered:
    """Return a nest as C functions whose names start with `name`, given dims in that order.

    If other kernels compare its results, 16-bit floats are rounded after each op.
    """
    order = tuple(nest.dims) if dims is None else tuple(dims)
    nest, parts = parts_of(without_loops(nest, ONCE))
    exact = exact_names(nest, compared)
    functions: list[RenderedPhase] = []
    scratch: Dim = 0
    for function, (block, tasks) in zip(function_names(name, parts), parts, strict=True):
        writer = _Writer(nest, order, exact)
        writer.function(block)
        head = [f"{C.head.format(name=function)} {{"]
        work = work_of(block) / max(1.0, about(tasks))
        phase = Phase(function, tasks, work=work, packs=packed(nest, block))
        functions.append(RenderedPhase(phase, head, writer.code))
        scratch = maximum(scratch, writer.scratch)
    return replace(rendered(nest, functions), scratch=scratch)


def _read_always(term: Term) -> Iterator[Read]:
    """Yield what a term reads under any condition."""
    if isinstance(term, Read):
        yield term
    elif not isinstance(term, (Guarded, Lookup)):
        for part in term.parts:
            yield from _read_always(part)


def _reads_where_it_holds(loop: Loop, nest: Nest) -> bool:
    """Return whether a short loop reads a vector only where a condition on its position holds.

    Once GCC 12 has evaluated the condition, it reads a whole vector there, which may end on a
    missing page. It can evaluate what it can unroll: few iterations, of loops that threads do not
    share. A number that is 0, which the compiler does not know, is therefore added.
    """
    if not isinstance(loop.size, int) or loop.kind == "unroll":
        return False
    terms = [statement.term for statement in loop.body if isinstance(statement, Set)]
    for guard in (part for term in terms for part in walk_terms(term) if isinstance(part, Guarded)):
        vectors = -(-loop.size * guard.dtype.itemsize // WIDEST)
        reads = [part for part in walk_terms(guard.term) if isinstance(part, Read)]
        # A condition on one axis can be evaluated even if the loop over another is too long for
        # that.
        for condition in (atom for _, atoms in products(guard.holds) for atom in atoms):
            axes = symbols(condition)
            others = [nest.loops.get(axis.name) for axis in axes if axis != loop.axis]
            is_few = vectors * _written_out(others) <= MOST_WRITTEN_OUT
            if loop.axis in axes and is_few and any(_fills(read, axes, nest) for read in reads):
                return True
    return False


def _fills(read: Read, axes: Sequence[Symbol], nest: Nest) -> bool:
    """Return whether loops over some axes may read enough neighbours to fill a vector."""
    flat = nest.flat(read.buffer, read.index)
    along = flat - substitute(flat, {axis.name: 0 for axis in axes})
    if not set(axes).issuperset(symbols(along)):
        return True
    names = [axis.name for axis in axes]
    grid = np.indices(ints(tuple(nest.loops[name].size for name in names)))
    places = np.unique(evaluate_array(along, dict(zip(names, grid, strict=True))))
    ends = np.flatnonzero(np.diff(places, append=places[-1] + 2) != 1)
    return int(np.diff(ends, prepend=-1).max()) * read.dtype.itemsize >= NARROWEST


def _written_out(loops: Iterable[Loop | None]) -> float:
    """Return how many copies a compiler must write to unroll some loops; inf if it cannot."""
    count = 1.0
    for loop in loops:
        if loop is None or loop.kind == "parallel" or not isinstance(loop.size, int):
            return inf
        count *= loop.size
    return count


class Narrow(NamedTuple):
    """What a loop makes wide numbers of."""

    term: Term
    read: Read | None
    """What it is in memory; None if it is made of bytes there."""
    dtype: DType
    """What is made of it."""


def _narrow(term: Term, size: int) -> Iterator[Narrow]:
    """Yield what a term makes wide numbers of, under any condition.

    Bytes that stand for numbers with a sign come as what is made of them, and are read as such.
    """
    parts = [*walk_terms(term)]
    applied = [part for part in parts if isinstance(part, Apply)]
    always = {*_read_always(term)}
    for dtype, function in WIDENED.items():
        casts = [part.args[0] for part in applied if part.op == Cast(dtype)]
        for part in dict.fromkeys(casts):
            if f"{function}_{part.dtype.short}" not in known_in("c"):
                continue
            signed = isinstance(part, Apply) and part.op == Cast(DType.int8)
            read = part.args[0] if isinstance(part, Apply) and signed else part
            if isinstance(read, Read) and (read is part or read.dtype is DType.uint8):
                is_cast_alone = part.dtype.is_half or parts.count(part) == casts.count(part)
                if read in always and is_cast_alone and (size <= SHORT or dtype.is_float):
                    yield Narrow(part, read, dtype)
            elif part.dtype.itemsize == 1 and isinstance(part, Apply) and size >= SHORT:
                inner = [*walk_terms(part)]
                reads = {part for part in inner if isinstance(part, Read)}
                if reads <= always and not any(isinstance(p, (Guarded, Lookup)) for p in inner):
                    yield Narrow(part, None, dtype)


def _adds_vectors(loop: Loop) -> bool:
    """Return whether each iteration adds to the same vectors."""
    inner = [*walk(loop.body)]
    return any(isinstance(update, Loop) and update.kind == "vector" for update in inner) and all(
        update.how == "+=" and all(loop.axis not in symbols(dim) for dim in update.index)
        for update in inner
        if isinstance(update, Set)
    )


class _Writer(Writer):
    """The C of one phase."""

    def __init__(self, nest: Nest, dims: Sequence[str], exact: AbstractSet[str]) -> None:
        self.arrays: CArrays = CArrays(nest, Code(C, nest.names))
        super().__init__(self.arrays, exact)
        self.dims = dims
        self.scratch: Dim = 0

    def function(self, block: Block) -> None:
        """Write the contents of a phase's function."""
        code, used = self.code, arrays_in(block)
        used |= {fetch.name for fetch in walk(block) if isinstance(fetch, Fetch)}
        for buffer, text in self.buffers(block).items():
            if buffer in used:
                code.raw(text)
        dims = {dim: partial("lab_dims[{}]".format, number) for number, dim in enumerate(self.dims)}
        self.in_place(block)
        with code.constants("lab_i64", dims):
            self.body(block)

    def body(self, block: Block) -> None:
        """Write what a task does."""
        wrong = looks_up(block)
        if wrong:
            self.code.declare("int", "lab_wrong", "0")
        match block:
            case (Loop(axis=axis, kind="parallel", body=body),):
                self.code.constant("lab_i64", c_name(axis.name), C.block)
                self.statements(body)
            case _:
                self.statements(block)
        if wrong:
            self.code.raw("if (lab_wrong) *lab_fault = 1;")

    # -- statements --------------------------------------------------------------------------------

    @override
    def counter(self, loop: Loop) -> str:
        return "int" if isinstance(loop.size, int) and loop.kind == "unroll" else "lab_i64"

    @override
    def pragma(self, loop: Loop) -> tuple[str, str] | None:
        return ("simd", self.reductions(loop)) if loop.kind == "simd" else super().pragma(loop)

    @override
    def loop(self, loop: Loop) -> None:
        if loop.kind == "vector":
            VectorWriter(self.arrays, loop).statements(loop.body, self.fetch)
            return
        if loop.kind == "simd" and (dot := dot_of(loop, self.arrays)) is not None:
            name, text = c_name(dot.update.name), dot_text(dot, loop, self.arrays)
            self.code.assign(name, text, "+=", (Cast.name, Mul.name, *FOLDED["+="]))
            return
        if self.are_dots(loop) or self.begins_with_zeros(loop):
            return
        if (across := self.across(loop)) is not None:
            rows, most, given = across
            is_whole = (
                "" if rows == most else self.code.condition(self.arrays.asked(most - 1 < rows))
            )
            with self.code.branch(is_whole):
                self.code.invoke("lab_across_f32", *given)
            if is_whole:
                with self.code.otherwise():
                    self.plain(loop)
            return
        if loop.kind == "simd" and self.is_added_up(loop):
            return
        if loop.kind == "simd" and (cases := cases_of(loop)) is not None:
            self.cases(cases)
            return
        self.plain(loop)

    def plain(self, loop: Loop) -> None:
        """Write a loop as a loop."""
        hidden, is_apart = dict(self.arrays.hidden), self.code.is_apart
        if _reads_where_it_holds(loop, self.nest):
            unknown = self.code.fresh()
            self.code.declare("lab_i64", unknown, "0")
            self.code.invoke("LAB_HIDE", unknown)
            self.arrays.hidden[loop.name] = loop.axis + Symbol(unknown, 0, 1)
        if loop.kind == "simd":
            self.widen(loop)
        self.code.is_apart = any(isinstance(each, Loop) for each in loop.body)
        with self.head(loop):
            if loop.kind == "unroll" and _adds_vectors(loop):
                self.code.raw(f"{self.code.use('LAB_STEP')};")
            self.statements(loop.body)
            if loop.kind == "simd":
                _note_once(self.code.block)
        self.arrays.wide, self.arrays.hidden, self.code.is_apart = {}, hidden, is_apart

    def begins_with_zeros(self, loop: Loop) -> bool:
        """Declare an array as zeros, if a loop does nothing else to what was just declared.

        Compilers make a call of such a loop, and then keep no array of the loop around it in
        registers.
        """
        loops, count = [loop], loop.size
        while len(loops[-1].body) == 1 and isinstance(inner := loops[-1].body[0], Loop):
            loops.append(inner)
            count = count * inner.size
        match loops[-1].body, self.code.block:
            case (Set(how="=", term=Number(value=value), name=name, index=index),), [
                *_,
                Declare(name=declared, size=int(size), value="") as before,
            ] if loops[-1].kind == "simd" and declared == c_name(name) and size == count:
                pass
            case _:
                return False
        flat = self.nest.flat(name, index)
        step: Dim = 1
        for each in reversed(loops):
            if each.start != 0 or slope(flat, each.axis) != step:
                return False
            step = step * each.size
        if size * self.types[name].dtype.itemsize > MOST_ZEROS or str(value) not in ("0", "0.0"):
            return False
        self.code.block[-1] = before._replace(value="{0}")
        return True

    def are_dots(self, loop: Loop) -> bool:
        """Write sums of four products of bytes side by side as a call, if a loop is just that."""
        dots = dots_of(loop, self.arrays)
        if dots is None:
            return False
        (update, firsts, second, row, products), code = dots, self.code
        start = substitute(self.nest.flat(update.name, update.index), {loop.name: 0})
        into = f"{c_name(update.name)} + {code.index(start, PRODUCT)}"
        first = firsts[0]
        factor = factor_of(first, row, self.arrays) if len(firsts) == 1 else None
        left = (
            self.made(firsts, row, products, code.fresh())
            if factor is None
            else place_of(factor, row, self.arrays)
        )
        right = place_of(second, row, self.arrays)
        most = max(map(greatest, firsts))
        code.invoke(f"lab_dots_{first.dtype.short}", into, left, right, loop.size, most)
        self.arrays.wide = {}
        return True

    def is_added_up(self, loop: Loop) -> bool:
        """Write the sum of a few neighbours as a call, if that is all that a loop does."""
        match loop.body:
            case (Set(how="+=", term=Read(dtype=DType.float32) as read) as update,) if (
                loop.start == 0
                and isinstance(loop.size, int)
                and (
                    loop.size == JOINED // 2 or loop.size % JOINED == 0 < loop.size <= MOST_WIDENED
                )
                and read.buffer not in {*self.arrays.as_vectors, update.name}
                and self.types[update.name].dtype is DType.float32
                and all(loop.axis not in symbols(dim) for dim in update.index)
                and slope(flat := self.nest.flat(read.buffer, read.index), loop.axis) == 1
            ):
                target = self.arrays.place(update.name, update.index)
                start = self.code.index(substitute(flat, {loop.name: 0}), PRODUCT)
                given = f"{c_name(read.buffer)}{'' if start == '0' else f' + {start}'}"
                value = self.code.call("lab_joined_f32", given, loop.size)
                self.code.assign(target, value, "+=", (Add.name,))
                return True
            case _:
                return False

    def across(self, loop: Loop) -> tuple[Dim, int, tuple[object, ...]] | None:
        """Return how many rows become columns, and at most, and the arguments of a call that does.

        None if a loop does anything else.
        """
        match loop.body:
            case (Loop(kind="simd", start=0, size=rows, body=(Set(how="=") as update,)) as inner,):
                read, most, columns = update.term, bounds(rows)[1], loop.size
            case _:
                return None
        types, vectors = self.types, self.arrays.as_vectors
        if not (
            isinstance(read, Read)
            and read.dtype is types[update.name].dtype is DType.float32
            and not {read.buffer, update.name} & {*vectors}
            and read.buffer != update.name
            and loop.start == 0
            and isinstance(columns, int)
            and columns % 4 == 0 < columns <= MOST_ACROSS
            and most is not None
            and 1 < most <= MOST_ACROSS
        ):
            return None
        source = self.nest.flat(read.buffer, read.index)
        target = self.nest.flat(update.name, update.index)
        row, far = slope(source, inner.axis), slope(target, loop.axis)
        axes = {loop.axis, inner.axis}
        along = [axes & {*symbols(dim)} for dim in update.index]
        if (
            axes in along  # rows of the result may overlap
            or {loop.axis} not in along
            or slope(source, loop.axis) != 1
            or slope(target, inner.axis) != 1
            or not isinstance(row, int)
            or axes & {*symbols(far)}
        ):
            return None
        first = {loop.name: 0, inner.name: 0}
        to, of = (
            c_name(name)
            + (
                ""
                if (start := substitute(flat, first)) == 0
                else f" + {self.code.index(start, PRODUCT)}"
            )
            for name, flat in ((update.name, target), (read.buffer, source))
        )
        return rows, most, (to, self.code.index(far), of, row, most, columns)

    def cases(self, cases: Cases) -> None:
        """Write what has become of a loop: branches, and loops in turn."""
        match cases:
            case Branched(holds=holds, then=then, otherwise=otherwise):
                with self.code.branch(self.code.condition(self.arrays.asked(holds))):
                    self.cases(then)
                with self.code.otherwise():
                    self.cases(otherwise)
            case InTurn(parts=parts):
                for part in parts:
                    self.cases(part)
            case _:
                self.loop(cases)

    def widen(self, loop: Loop) -> None:
        """Write the widening of the narrow neighbours that a loop computes with, ahead of it.

        There are instructions for this that no compiler finds in a loop. They make NaNs quiet, as
        sums do.
        """
        size = loop.size if loop.start == 0 else None
        if not (isinstance(size, int) and size % 4 == 0 and size <= MOST_WIDENED):
            return
        sets = [update for update in loop.body if isinstance(update, Set)]
        if len(sets) < len(loop.body) or any(update.how == "max=" for update in sets):
            return
        code, arrays = self.code, self.arrays
        written = {update.name for update in sets}
        if size == 2 * SPREAD:
            for update in sets:
                self.spread(update, loop)
        for narrow in [each for update in sets for each in _narrow(update.term, size)]:
            part, read, dtype = narrow
            reads = {each for each in walk_terms(part) if isinstance(each, Read)}
            flats = [self.nest.flat(each.buffer, each.index) for each in reads]
            strides = {slope(flat, loop.axis) for flat in flats}
            is_along = strides == {1} if read else {1} <= strides <= {0, 1}
            names = {each.buffer for each in reads}
            is_known = (part, dtype) in arrays.wide or names & written
            if not is_along or is_known or any(map(arrays.is_scalar, names)):
                continue
            name = code.fresh()
            if read:
                start = substitute(flats[0], {loop.name: 0})
                given = f"{c_name(read.buffer)} + {code.index(start, PRODUCT)}"
                if part is not read:
                    given = f"(const {code.use(f'lab_{part.dtype.short}')} *)({given})"
            else:
                given = self.made((part,), loop, size, code.fresh())
            code.array(C_TYPES[dtype], name, size, "aligned")
            code.invoke(f"{WIDENED[dtype]}_{part.dtype.short}", name, given, size)
            arrays.wide[part, dtype] = f"{name}[{c_name(loop.name)}]"

    def spread(self, update: Set, loop: Loop) -> None:
        """Write two vectors' halves of one value each, ahead of a loop that reads both so."""
        quarter = loop.axis // SPREAD
        for read in {*_read_always(update.term)}:
            flat = self.nest.flat(read.buffer, read.index)
            start = substitute(flat, {loop.name: 0})
            is_near = read.dtype is DType.float32 and flat - start == quarter
            if (
                is_near
                and read.buffer != update.name
                and (read, read.dtype) not in self.arrays.wide
            ):
                name, at = self.code.fresh(), self.code.index(start, PRODUCT)
                self.code.array(C_TYPES[read.dtype], name, 2 * SPREAD, "aligned")
                self.code.invoke("lab_fours_f32", name, f"{c_name(read.buffer)} + {at}")
                self.arrays.wide[read, read.dtype] = f"{name}[{c_name(loop.name)}]"

    def made(self, parts: Sequence[Term], loop: Loop, size: int, name: str) -> str:
        """Write loops that make bytes of bytes, in words or as bytes; return where they are.

        What the parts make lies one after the other, and has the size together.
        """
        code, near, dtype = self.code, self.arrays.wide, parts[0].dtype
        words = [word for part in parts if (word := in_words(part, loop.name)) is not None]
        is_words = len(words) == len(parts)
        whole, type = (size // BYTES, C_TYPES[WORD]) if is_words else (size, C_TYPES[dtype])
        code.array(type, name, whole, "aligned")
        count = whole // len(parts)
        for number, part in enumerate(words if is_words else parts):
            with code.repeat("lab_i64", c_name(loop.name), count, ("simd", "")):
                for read in walk_terms(parts[number]) if is_words else ():
                    if isinstance(read, Read) and loop.name in free(read):
                        flat = self.nest.flat(read.buffer, read.index)
                        start = code.index(substitute(flat, {loop.name: 0}), PRODUCT)
                        given = f"{c_name(read.buffer)} + {start}"
                        near[read, WORD] = (
                            f"((const {code.use('lab_word')} *)({given}))[{c_name(loop.name)}]"
                        )
                value, before = self.terms.text(part), f"{number * count} + " if number else ""
                code.assign(f"{name}[{before}{c_name(loop.name)}]", value.text, ops=value.ops)
        return f"(const {code.use(f'lab_{dtype.short}')} *){name}" if is_words else name

    def reductions(self, loop: Loop) -> str:
        """Return a simd loop's clause about the scalars that it adds to."""
        clauses: dict[str, None] = {}
        inner = private(loop.body)
        for update in every(loop.body, Set):
            if update.how != "=" and not update.index and update.name not in inner:
                dtype = self.types[update.name].dtype
                which = "+" if update.how == "+=" else f"lab_max_{dtype.short}"
                self.code.use(f"reduction({which})")
                clauses.setdefault(f"reduction({which}:{c_name(update.name)})")
        if looks_up(loop.body):
            clauses.setdefault("reduction(|:lab_wrong)")
        return "".join(f" {clause}" for clause in clauses)

    @override
    def joined(self, update: Set, dtype: DType, value: Text) -> str:
        """Ask the new value whether it is NaN, which does not wait for the maximum so far."""
        if update.how != "max=" or not dtype.is_float:
            return super().joined(update, dtype, value)
        near = DType.float32 if dtype.is_half else dtype
        old = self.arrays.element(update.name, update.index)
        return self.code.call(f"lab_max_{near.short}", value.text, old)

    @override
    def local(self, local: Local) -> None:
        code, dtype, name = self.code, local.type.dtype, c_name(local.name)
        size = size_of(local.type.shape)
        if local.space == "registers" and local.name in self.arrays.as_vectors:
            width = self.arrays.as_vectors[local.name]
            assert isinstance(size, int)
            code.array(self.arrays.vector(dtype, width), name, size // width)
        elif not local.type.shape:
            code.declare(c_type(dtype), name)
        elif isinstance(size, int) and size * dtype.itemsize <= STACK:
            code.array(C_TYPES[dtype], name, size, "aligned")
        else:
            offset = "" if self.scratch == 0 else f" + {code.index(self.scratch)}"
            start = f"(lab_scratch{offset})" if offset else "lab_scratch"
            code.declare(f"{C_TYPES[dtype]} *restrict", name, f"(void *){start}")
            self.scratch = self.scratch + (bytes_of(local.type) + 63) // 64 * 64

    @override
    def fetch(self, fetch: Fetch) -> None:
        at = self.code.index(self.nest.flat(fetch.name, fetch.index))
        writes = int(any(output.name == fetch.name for output in self.nest.outputs))
        self.code.invoke("LAB_FETCH", c_name(fetch.name), at, writes)


def _note_once(body: CBlock) -> None:
    """Make each iteration of a simd loop note wrong positions once, outside any condition.

    GCC 12 miscompiles a reduction with several conditional terms.
    """
    notes = [*_notes(body)]
    if all(block is body for block, _, _ in notes):
        return
    for block, at, note in notes:
        block[at] = note._replace(target="lab_astray")
    body.insert(0, Declare("int", "lab_astray", "0"))
    body.append(Assign("lab_wrong", "lab_astray", "|="))


def _notes(block: CBlock) -> Iterator[tuple[CBlock, int, Assign]]:
    """Yield the statements that note a wrong position."""
    for at, statement in enumerate(block):
        match statement:
            case Assign(target="lab_wrong"):
                yield block, at, statement
            case Branch(body=inner, otherwise=other):
                yield from _notes(inner)
                yield from _notes(other or [])
            case Repeat(body=inner) | Group(body=inner):
                yield from _notes(inner)
            case _:
                pass


class CArrays(Arrays):
    """The arrays of a nest on a CPU: some in registers are vectors."""

    def __init__(self, nest: Nest, code: Code) -> None:
        super().__init__(nest, code)
        self.hidden: dict[str, Dim] = {}
        """For axes of outer loops: the same position, hidden from the compiler."""
        self.wide: dict[tuple[Term, DType], str] = {}
        """What was widened ahead of a loop, to which dtype, and where it is."""

    @cached_property
    def as_vectors(self) -> Mapping[str, int]:
        """The arrays in registers that vector loops use, with the width."""
        widths: dict[str, int] = {}
        for loop in self.nest.loops.values():
            if loop.kind == "vector" and isinstance(loop.size, int):
                for name in arrays_in(loop.body):
                    local = self.nest.locals.get(name)
                    if local is None or local.space != "registers" or not local.type.shape:
                        continue
                    if widths.setdefault(name, loop.size) != loop.size:
                        raise ScheduleError(
                            f"vector {loop.name}: it has {loop.size} lanes, and {name} is in "
                            f"vectors of {widths[name]}"
                        )
        return widths

    def vector(self, dtype: DType, width: int) -> str:
        """Return the name of a vector type."""
        return self.code.use(f"lab_{dtype.short}x{width}")

    @override
    def place(self, name: str, index: Iterable[Dim]) -> str:
        width = self.as_vectors.get(name)
        if width is None:
            return super().place(name, index)
        # One lane of an array of vectors.
        flat = self.nest.flat(name, index)
        return f"{c_name(name)}[{self.code.index(flat // width)}][{self.code.index(flat % width)}]"

    @override
    def element(self, name: str, index: Iterable[Dim]) -> str:
        index = tuple(index)
        read = Read(name, index, self.types[name].dtype) if self.wide else None
        near = self.wide.get((read, DType.float32)) if read else None
        return super().element(name, index) if near is None else near

    @override
    def converted(self, term: Apply) -> str | None:
        if isinstance(term.op, BitOr) and term.dtype is DType.uint16:
            return self.pair(*term.args)
        is_cast = self.wide and isinstance(term.op, Cast)
        return self.wide.get((term.args[0], term.dtype)) if is_cast else None

    def pair(self, low: Term, high: Term) -> str | None:
        """Return two neighbouring bytes as a word, which gcc 12 would read one by one."""
        match low, high:
            case (
                Apply(op=Cast(), args=(Read(name, dtype=DType.uint8) as first,)),
                Apply(op=ShiftLeft(), args=(Apply(op=Cast(), args=(Read() as second,)), by)),
            ) if by == Number(8, DType.uint16) and name == second.buffer:
                start, end = (self.nest.flat(name, read.index) for read in (first, second))
                if end - start != 1 or self.is_scalar(name) or name in self.as_vectors:
                    return None
                at = self.code.index(start, PRODUCT)
                return self.code.call("lab_pair", f"{c_name(name)} + {at}")
            case _:
                return None

    @override
    def asked(self, holds: Dim) -> Dim:
        return substitute(holds, self.hidden)


class VectorWriter:
    """Writes a vector loop: its statements for all lanes."""

    def __init__(self, arrays: CArrays, loop: Loop) -> None:
        assert isinstance(loop.size, int)
        self.arrays, self.code = arrays, arrays.code
        self.types = arrays.types
        self.axis, self.width = loop.axis, loop.size

    def statements(self, block: Block, fetch: Callable[[Fetch], None]) -> None:
        """Write statements; a fetch takes the element of the first lane."""
        for statement in block:
            match statement:
                case Set():
                    self.set(statement)
                case Loop() if pairs := pairs_of(self.arrays.nest, self.axis, statement):
                    self.pairs(pairs, statement)
                case Fetch(index=index):
                    first = tuple(substitute(dim, {self.axis.name: 0}) for dim in index)
                    fetch(replace(statement, index=first))
                case _:
                    raise self.refuse("lanes can only be assigned and added to")

    def refuse(self, why: str) -> ScheduleError:
        """Return the error that says why a loop cannot be a vector loop."""
        return ScheduleError(
            f"vector {self.axis}: {why}", hint="a simd loop leaves it to the compiler"
        )

    def set(self, update: Set) -> None:
        """Write an assignment to all lanes."""
        dtype, ops = self.types[update.name].dtype, FOLDED[update.how]
        target = self.lanes_at(update.name, update.index, write=True)
        if target is None:
            raise self.refuse(f"neighbours along it do not lie side by side in {update.name}")
        if update.how == "max=":
            raise self.refuse(f"the maximum in {update.name} has no form for vectors")
        if dtype.is_half and not (update.how == "=" and isinstance(update.term, Read)):
            raise self.refuse(f"{update.name} is {dtype.short}, and is computed in f32")
        product = fused(update, dtype)
        if product is not None:
            left, right = (self.lanes(arg) for arg in product.args)
            kind = self.arrays.vector(dtype, self.width)
            text = self.code.call("LAB_FMA", kind, left.text, right.text, target)
            self.code.assign(target, text, ops=(*left.ops, *right.ops, Mul.name, *ops))
            return
        value = self.lanes(update.term)
        text = value.text
        if update.how == "=" and not self.varies(update.term):
            zeros = f"({self.arrays.vector(dtype, self.width)}){{0}}"
            # Subtract zeros, as -0.0 plus zero would lose its sign.
            text = zeros if update.term == Number(0, dtype) else f"{value.at(SUM)} - {zeros}"
        self.code.assign(target, text, update.how, (*value.ops, *ops))

    def pairs(self, pairs: Pairs, loop: Loop) -> None:
        """Write a sum of two products in each lane, of neighbouring bfloat16 numbers."""
        target = self.lanes_at(pairs.update.name, pairs.update.index, write=True)
        if target is None:
            raise self.refuse(f"neighbours do not lie side by side in {pairs.update.name}")
        first = {loop.name: 0, self.axis.name: 0}
        starts = [substitute(self.arrays.nest.flat(r.buffer, r.index), first) for r in pairs[1:]]
        given = [
            f"{c_name(read.buffer)} + {self.code.index(start, PRODUCT)}"
            for read, start in zip(pairs[1:], starts, strict=True)
        ]
        kind = self.arrays.vector(self.types[pairs.update.name].dtype, self.width)
        text = self.code.call(f"{kind}_pairs", *given, target)
        self.code.assign(target, text, ops=(Cast.name, Mul.name, *FOLDED["+="]))

    def varies(self, term: Term) -> bool:
        """Return whether a term is a vector, and not one value for all lanes."""
        return any(
            isinstance(part, Read)
            and (part.buffer in self.arrays.as_vectors or self.stride(part.buffer, part.index) != 0)
            for part in walk_terms(term)
        )

    def lanes(self, term: Term) -> Text:
        """Return a term for all lanes at once: a vector, or one value for all."""
        match term:
            case Number(value=value, dtype=dtype):
                return number_c(value, dtype, self.code.uses)
            case Read(buffer=buffer, index=index):
                elements = self.lanes_at(buffer, index)
                if elements is not None:
                    return Text(elements)
            case Apply(op=Add() | Mul() as op, args=(a, b), dtype=dtype) if dtype in COMPUTED:
                sign, level = ("+", SUM) if isinstance(op, Add) else ("*", PRODUCT)
                left, right = self.lanes(a), self.lanes(b)
                text = f"{left.at(level)} {sign} {right.at(level + 1)}"
                return Text(text, level, (*left.ops, *right.ops, op.name))
            case _:
                pass
        raise self.refuse(f"{term} has no form for vectors")

    def stride(self, name: str, index: Iterable[Dim]) -> Dim:
        """Return how far apart in an array neighbours along the lanes are."""
        return slope(self.arrays.nest.flat(name, index), self.axis)

    def lanes_at(self, name: str, index: Iterable[Dim], *, write: bool = False) -> str | None:
        """Return the elements of an array along the axis of lanes, or one that all lanes read."""
        if self.arrays.is_scalar(name):
            return None if write else c_name(name)
        type, dims = self.types[name], tuple(index)
        stride = self.stride(name, dims)
        start = substitute(self.arrays.nest.flat(name, dims), {self.axis.name: 0})
        if stride == 0 and not write:
            same = f"{c_name(name)}[{self.code.index(start)}]"
            return same if name not in self.arrays.as_vectors and not type.dtype.is_half else None
        if stride != 1:
            return None
        if name in self.arrays.as_vectors:
            return f"{c_name(name)}[{self.code.index(start // self.width)}]"
        kind = self.arrays.vector(type.dtype, self.width)
        at = f"{c_name(name)} + {self.code.index(start, PRODUCT)}"
        return self.code.call("LAB_LANES", kind, at)
