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

Loops of one iteration are left out. A parallel loop that stands outermost is a phase: its body is a
task, and tasks may run at once. What stands between such loops is a phase of one task. A vector
loop is written with the compiler's vector types; a simd loop is a plain one that the compiler is
told it may turn into vector code. 16-bit floats are computed in float32, and rounded where they are
stored or cast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from math import inf
from typing import TypeGuard

from typing_extensions import override

from luminal_lab.core.dims import Dim, Symbol, maximum, substitute, symbols
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType, size_of
from luminal_lab.core.ops import Cast
from luminal_lab.core.views import row_major
from luminal_lab.kernels.definition.terms import (
    Apply,
    Guard,
    Lookup,
    Read,
    Term,
    walk as walk_terms,
)
from luminal_lab.kernels.kernel import Local as KernelLocal, Phase
from luminal_lab.kernels.nest.nest import (
    Block,
    Fetch,
    Local,
    Loop,
    Nest,
    Set,
    Statement,
    When,
    accesses,
    arrays_in,
    mapped,
    substituted,
    walk,
)
from luminal_lab.kernels.prelude.prelude import known_in
from luminal_lab.kernels.prelude.rows import C_TYPES
from luminal_lab.kernels.render.c.lanes import Lanes
from luminal_lab.kernels.render.c.phases import parts_of
from luminal_lab.kernels.render.exact import exact_names, exact_terms
from luminal_lab.kernels.render.index import PRODUCT, condition_c, index_c
from luminal_lab.kernels.render.names import c_name
from luminal_lab.kernels.render.terms import Known, Text, Uses
from luminal_lab.kernels.render.values import c_type, stored

STACK = 16384
"""The most bytes of an array in scratch that is put on the stack."""
MOST_WIDENED = 128
"""The most narrow values that are made floats ahead of a loop."""
MOST_WRITTEN_OUT = 16
"""The copies of a loop's body that a compiler may write out one behind the other."""
WIDEST = 64
"""The bytes of the widest vectors."""
FOLDED = {"=": (), "+=": ("sum_reduce",), "max=": ("max_reduce",)}
"""The ops behind the ways to assign."""


@dataclass(frozen=True)
class Rendered:
    """A kernel as C."""

    text: str
    phases: tuple[Phase, ...]
    locals: tuple[KernelLocal, ...]
    """The arrays between inputs and outputs that it is given, with their bytes."""
    scratch: Dim
    """The bytes that each thread lends to a task."""
    ops_of_line: tuple[tuple[str, ...], ...]
    """For each line of the text the names of the ops that it computes."""


def render_nest(
    nest: Nest,
    name: str,
    dims: Sequence[str] | None = None,
    compared: AbstractSet[str] = frozenset(),
) -> Rendered:
    """Return a nest as C functions whose names start with `name`, given dims in that order.

    Where other kernels compare its results, 16-bit floats are rounded after each op.
    """
    nest = replace(nest, body=mapped(nest.body, _without_loop))
    order = tuple(nest.dims) if dims is None else tuple(dims)
    nest, parts = parts_of(nest)
    kept = [one for one in nest.locals.values() if one.space == "memory"]
    exact = exact_names(nest, compared)
    lines: list[str] = []
    ops: list[tuple[str, ...]] = []
    phases: list[Phase] = []
    scratch: Dim = 0
    for place, (block, tasks) in enumerate(parts):
        function = name if len(parts) == 1 else f"{name}__{place}"
        writer = _Writer(nest, [one.name for one in kept], order, exact)
        writer.function(block)
        if lines:
            lines, ops = [*lines, ""], [*ops, ()]
        lines += [f"static void {function}(LAB_GIVEN) {{", *writer.code.lines, "}"]
        ops += [(), *writer.code.ops, ()]
        phases.append(Phase(function, tasks))
        scratch = maximum(scratch, writer.scratch)
    sizes = tuple(KernelLocal(one.name, _bytes(one.type)) for one in kept)
    return Rendered("\n".join(lines), tuple(phases), sizes, scratch, tuple(ops))


def _without_loop(one: Statement) -> Statement | Block:
    """Return what is in a loop of one iteration, instead of the loop."""
    if isinstance(one, Loop) and one.size == 1 and one.kind not in ("parallel", "vector"):
        return substituted(one.body, {one.name: 0})
    return one


def _bytes(type: TensorType) -> Dim:
    return size_of(type.shape) * type.dtype.itemsize


def _read_always(term: Term) -> Iterator[Read]:
    """Yield what a term reads whatever holds."""
    if isinstance(term, Read):
        yield term
    elif not isinstance(term, (Guard, Lookup)):
        for part in term.parts:
            yield from _read_always(part)


def _reads_where_it_holds(loop: Loop, loops: Mapping[str, Loop]) -> bool:
    """Return whether a short loop reads only where a condition on its place holds.

    GCC 12 makes such a read, once it has worked the condition out, one of a whole vector, which may
    end on a page that is not there. It works out what it can write out: few iterations, of loops
    that are not shared by threads. There a number that is 0, which it does not know, is added.
    """
    if not isinstance(loop.size, int) or loop.kind == "unroll":
        return False
    for one in loop.body:
        for part in walk_terms(one.term) if isinstance(one, Set) else ():
            if not isinstance(part, Guard) or loop.axis not in (known := symbols(part.holds)):
                continue
            if any(isinstance(inner, Read) for inner in walk_terms(part.term)):
                others = [loops.get(symbol.name) for symbol in known if symbol != loop.axis]
                vectors = -(-loop.size * part.dtype.itemsize // WIDEST)
                if vectors * _written_out(others) <= MOST_WRITTEN_OUT:
                    return True
    return False


def _written_out(loops: Iterable[Loop | None]) -> float:
    """Return how often a compiler has to write out what is in some loops; inf if it cannot."""
    count = 1.0
    for loop in loops:
        if loop is None or loop.kind == "parallel" or not isinstance(loop.size, int):
            return inf
        count *= loop.size
    return count


def _widened_always(term: Term) -> Iterator[Read]:
    """Yield what a term reads, whatever holds, of dtypes that are widened to float32."""
    casts = [part.args[0] for part in walk_terms(term) if _is_widening(part)]
    reads = [part for part in walk_terms(term) if isinstance(part, Read)]
    for place in _read_always(term):
        if f"lab_widen_{place.dtype.short}" in known_in("c") and (
            place.dtype.is_half or reads.count(place) == casts.count(place)
        ):
            yield place


def _is_widening(term: Term) -> TypeGuard[Apply]:
    return isinstance(term, Apply) and term.op == Cast(DType.float32)


def _looks_up(block: Block) -> bool:
    """Return whether a place in an array is a value, which may be no position."""
    return any(
        isinstance(part, Lookup)
        for one in walk(block)
        if isinstance(one, Set)
        for part in walk_terms(one.term)
    )


def _adds_vectors(loop: Loop) -> bool:
    """Return whether each iteration adds to the same vectors."""
    inner = [*walk(loop.body)]
    return any(isinstance(one, Loop) and one.kind == "vector" for one in inner) and all(
        one.how == "+=" and all(loop.axis not in symbols(place) for place in one.index)
        for one in inner
        if isinstance(one, Set)
    )


class _Writer(Lanes):
    """The C of one phase."""

    def __init__(
        self, nest: Nest, kept: list[str], dims: Sequence[str], exact: AbstractSet[str]
    ) -> None:
        super().__init__(nest, exact)
        self.kept, self.dims = kept, dims
        self.hidden: dict[str, Dim] = {}
        """For axes of loops around: the same place, as the compiler does not know it."""
        self.widened: dict[Read, str] = {}
        """The reads that have been made floats, and where these are."""
        self.scratch: Dim = 0

    def function(self, block: Block) -> None:
        """Write what stands between the braces of a phase's function."""
        code, used = self.code, arrays_in(block)
        used |= {one.name for one in walk(block) if isinstance(one, Fetch)}
        given = [buffer.name for buffer in self.nest.inputs]
        made = [buffer.name for buffer in self.nest.outputs]
        written = {access.name for access in accesses(block) if access.how != "read"}
        for place, buffer in enumerate([*given, *self.kept, *made]):
            if buffer in used:
                const = "" if buffer in written else "const "
                type = C_TYPES[self.types[buffer].dtype]
                code.add(f"{const}{type} *restrict {c_name(buffer)} = lab_buffers[{place}];")
        mentioned = self.mentioned(block)
        for place, dim in enumerate(self.dims):
            if dim in mentioned:
                code.add(f"const lab_i64 {c_name(dim)} = lab_dims[{place}];")
        wrong = _looks_up(block)
        if wrong:
            code.add("int lab_wrong = 0;")
        match block:
            case (Loop(axis=axis, kind="parallel", body=body),):
                code.add(f"const lab_i64 {c_name(axis.name)} = lab_task;")
                self.block(body)
            case _:
                self.block(block)
        if wrong:
            code.add("if (lab_wrong) *lab_fault = 1;")

    def mentioned(self, block: Block) -> set[str]:
        """Return the dims that a phase mentions."""
        inner = Nest("", (), (), block)
        found = set(inner.dims)
        fetched = {one.name for one in walk(block) if isinstance(one, Fetch)}
        for name in arrays_in(block) | fetched:
            found |= {s.name for d in self.types[name].shape for s in symbols(d)}
        return found

    # -- statements --------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Write statements; a scalar is declared where it gets its first value."""
        declared: Local | None = None
        for one, after in zip(block, (*block[1:], None), strict=True):
            if isinstance(one, Local) and self._starts(one, after):
                declared = one
                continue
            if declared is not None:
                assert isinstance(one, Set)
                value = self.text(one.term, exact_terms(one, self.exact_names))
                start = f"{c_type(declared.type.dtype)} {c_name(declared.name)}"
                self.code.add(f"{start} = {value.text};", value.ops)
                declared = None
                continue
            self.statement(one)

    def _starts(self, local: Local, after: Statement | None) -> bool:
        """Return whether a scalar gets a value right behind its declaration."""
        return (
            self.is_scalar(local.name)
            and isinstance(after, Set)
            and (after.name, after.how) == (local.name, "=")
        )

    def statement(self, one: Statement) -> None:
        """Write a statement."""
        match one:
            case Loop():
                self.loop(one)
            case When(holds=holds, body=inner):
                with self.code.block(f"if ({condition_c(holds)})"):
                    self.block(inner)
            case Local():
                self.local(one)
            case Set():
                self.set(one)
            case Fetch():
                self.fetch(one)

    def loop(self, one: Loop) -> None:
        """Write a loop."""
        name, size = c_name(one.name), index_c(one.size)
        if one.kind == "vector":
            width = one.size
            assert isinstance(width, int)
            self.axis, self.width = one.axis, width
            self.block(one.body)
            self.axis, self.width = None, 0
            return
        hidden = dict(self.hidden)
        if _reads_where_it_holds(one, self.nest.loops):
            unknown = self.fresh()
            self.code.add(f"lab_i64 {unknown} = 0;")
            self.code.add(f"LAB_HIDE({unknown});")
            self.hidden[one.name] = one.axis + Symbol(unknown, 0, 1)
        if one.kind == "unroll":
            self.code.add(f"LAB_UNROLL({size})")
        elif one.kind == "simd":
            self.widen(one)
            self.code.directive(f"#pragma omp simd{self.reductions(one)}")
        kind = "int" if isinstance(one.size, int) and one.kind == "unroll" else "lab_i64"
        with self.code.block(f"for ({kind} {name} = 0; {name} < {size}; {name}++)"):
            if one.kind == "unroll" and _adds_vectors(one):
                self.code.add("LAB_STEP;")
            self.block(one.body)
        self.widened, self.hidden = {}, hidden

    def widen(self, loop: Loop) -> None:
        """Write what makes floats of the narrow neighbours that a loop adds up, ahead of it.

        There are instructions for it that no compiler finds in a loop. They make NaNs quiet, as
        sums do.
        """
        if not (isinstance(loop.size, int) and loop.size % 8 == 0 and loop.size <= MOST_WIDENED):
            return
        added = [one for one in loop.body if isinstance(one, Set) and one.how == "+="]
        if len(added) < len(loop.body):
            return
        written = {one.name for one in added}
        for one in added:
            for place in _widened_always(one.term):
                flat = row_major(self.types[place.buffer].shape, place.index)
                stride = substitute(flat, {loop.name: loop.axis + 1}) - flat
                known = place in self.widened or place.buffer in written
                if stride == 1 and not known and not self.is_scalar(place.buffer):
                    name, start = self.fresh(), index_c(substitute(flat, {loop.name: 0}), PRODUCT)
                    given = f"{name}, {c_name(place.buffer)} + {start}, {loop.size}"
                    self.code.add(f"float {name}[{loop.size}] LAB_ALIGNED;")
                    self.code.add(f"lab_widen_{place.dtype.short}({given});")
                    self.widened[place] = f"{name}[{c_name(loop.name)}]"

    @override
    def element(self, name: str, index: Iterable[Dim]) -> str:
        place = tuple(index)
        if self.widened:
            found = self.widened.get(Read(name, place, self.types[name].dtype))
            if found is not None:
                return found
        return super().element(name, place)

    @override
    def applied(self, term: Apply, known: Known, uses: Uses, *, onto: str = "") -> Text:
        if self.widened and isinstance(term.op, Cast) and isinstance(term.args[0], Read):
            found = self.widened.get(term.args[0])
            if found is not None and term.dtype is DType.float32:
                return Text(found, ops=(term.op.name,))
        return super().applied(term, known, uses, onto=onto)

    @override
    def guarded(self, term: Guard, known: Known, uses: Uses) -> Text:
        return super().guarded(
            replace(term, holds=substitute(term.holds, self.hidden)), known, uses
        )

    def reductions(self, loop: Loop) -> str:
        """Return what a simd loop says of the scalars that it adds to."""
        clauses: dict[str, None] = {}
        inner = {one.name for one in walk(loop.body) if isinstance(one, Local)}
        for one in walk(loop.body):
            if isinstance(one, Set) and one.how != "=" and not one.index and one.name not in inner:
                dtype = self.types[one.name].dtype
                which = "+" if one.how == "+=" else f"lab_max_{dtype.short}"
                clauses.setdefault(f"reduction({which}:{c_name(one.name)})")
        if _looks_up(loop.body):
            clauses.setdefault("reduction(|:lab_wrong)")
        return "".join(f" {clause}" for clause in clauses)

    def local(self, one: Local) -> None:
        """Write the declaration of a local array."""
        size, type, name = size_of(one.type.shape), C_TYPES[one.type.dtype], c_name(one.name)
        if one.space == "registers" and one.name in self.as_vectors:
            width = self.as_vectors[one.name]
            assert isinstance(size, int)
            self.code.add(f"{self.vector(one.type.dtype, width)} {name}[{size // width}];")
        elif not one.type.shape:
            self.code.add(f"{c_type(one.type.dtype)} {name};")
        elif isinstance(size, int) and size * one.type.dtype.itemsize <= STACK:
            self.code.add(f"{type} {name}[{size}] LAB_ALIGNED;")
        else:
            offset = "" if self.scratch == 0 else f" + {index_c(self.scratch)}"
            start = f"(void *)(lab_scratch{offset})" if offset else "(void *)lab_scratch"
            self.code.add(f"{type} *restrict {name} = {start};")
            self.scratch = self.scratch + (_bytes(one.type) + 63) // 64 * 64

    def fetch(self, one: Fetch) -> None:
        """Write what brings an element near."""
        index = [
            substitute(place, {self.axis.name: 0}) if self.axis else place for place in one.index
        ]
        at = index_c(row_major(self.types[one.name].shape, index))
        writes = int(any(output.name == one.name for output in self.nest.outputs))
        self.code.add(f"LAB_FETCH({c_name(one.name)}, {at}, {writes});")

    def set(self, one: Set) -> None:
        """Write an assignment."""
        dtype, ops = self.types[one.name].dtype, FOLDED[one.how]
        if self.axis is not None:
            self.set_vector(one, ops)
            return
        scalar = self.is_scalar(one.name)
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
                text = f"{old} + {value.at(PRODUCT)}"
            value = Text(text, ops=value.ops)
        text = value.text if scalar else self.stored(one.term, value.text, dtype)
        self.code.add(f"{place} = {text};", (*value.ops, *ops))

    def stored(self, term: Term, text: str, dtype: DType) -> str:
        """Return a value as it is put into memory; what has been rounded is not rounded again."""
        back = f"lab_cast_{dtype.short}_f32("
        whole = isinstance(term, Read) or (isinstance(term, Apply) and term.op == Cast(dtype))
        if whole and text.startswith(back):
            return text[len(back) : -1]
        return stored(text, dtype)


IN_PLACE = DType.float32, DType.float64, DType.int32, DType.int64
"""The dtypes whose sums C's own += makes."""
