"""A nest as a GPU's kernel: what each thread does, in CUDA C++ or Metal's language.

    block i < m:                        extern "C" __global__ void … row_sums(
      thread l < 64:                        const float *__restrict__ x, …) {
        part[l] = x[i, l]                   const int i = blockIdx.x;
      t = 0.0                          →    float part;
      across l_2 < 64:                      { const int l = threadIdx.x;  part = x[64*i + l]; }
        t += part[l_2]                      float t = 0.0f;
      thread l_3 < 1:                       t += lab_block_sum_f32(part, …);
        y[i] = t                            if (threadIdx.x < 1) y[i] = t;

Who runs what, and where threads wait for each other, is worked out in gpu_nest.py; terms are written
as in C. Functions whose names begin with lab_ are the prelude's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape, Symbol, known, substitute, symbols
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType, size_of
from luminal_lab.core.ops import Cast
from luminal_lab.core.views import row_major
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.c_index import condition_c, index_c
from luminal_lab.kernels.c_maths import C_TYPES
from luminal_lab.kernels.c_names import c_name
from luminal_lab.kernels.c_nest import FOLDED, IN_PLACE
from luminal_lab.kernels.c_terms import Terms, Text, number_c
from luminal_lab.kernels.c_values import c_type, stored
from luminal_lab.kernels.dialect import Dialect
from luminal_lab.kernels.gpu_nest import WARP, Along, Open, Phase, Region, phases, seen
from luminal_lab.kernels.kernel import Local as KernelLocal, Phase as KernelPhase
from luminal_lab.kernels.lowering import least
from luminal_lab.kernels.nest import Block, Local, Loop, Nest, Set, Statement, When, arrays_in, walk
from luminal_lab.kernels.terms import (
    Apply,
    Draw,
    Guard,
    Lookup,
    Read,
    Term,
    free,
    walk as walk_terms,
)

INT = (1 << 31) - 1
PRELUDE = re.compile(r"\b(?:lab|LAB)_\w+")


@dataclass(frozen=True)
class GPURendered:
    """A kernel as the source of a GPU."""

    text: str
    phases: tuple[KernelPhase, ...]
    locals: tuple[KernelLocal, ...]
    """The arrays between inputs and outputs that it is given, with their bytes."""
    ops_of_line: tuple[tuple[str, ...], ...]
    """For each line of the text the names of the ops that it computes."""
    uses: frozenset[str]
    """What it takes of the prelude, by name."""


def render_gpu(nest: Nest, name: str, dims: Sequence[str] | None, dialect: Dialect) -> GPURendered:
    """Return a nest as functions of a GPU whose names start with `name`."""
    order = tuple(nest.dims) if dims is None else tuple(dims)
    kept = [one for one in nest.locals.values() if one.space == "memory"]
    listed = phases(nest)
    lines: list[str] = []
    ops: list[tuple[str, ...]] = []
    made: list[KernelPhase] = []
    for place, phase in enumerate(listed):
        function = name if len(listed) == 1 else f"{name}_{place}"
        writer = _Writer(phase, [one.name for one in kept], order, dialect)
        head = writer.function(function)
        if lines:
            lines, ops = [*lines, ""], [*ops, ()]
        lines += [*head, *writer.code.lines, "}"]
        ops += [*((),) * len(head), *writer.code.ops, ()]
        made.append(KernelPhase(function, phase.tasks, phase.threads))
    sizes = tuple(
        KernelLocal(one.name, size_of(one.type.shape) * one.type.dtype.itemsize) for one in kept
    )
    text = "\n".join(lines)
    return GPURendered(text, tuple(made), sizes, tuple(ops), frozenset(PRELUDE.findall(text)))


class _Writer(Terms):
    """The source of one phase."""

    def __init__(
        self, phase: Phase, kept: list[str], dims: Sequence[str], dialect: Dialect
    ) -> None:
        super().__init__(phase.nest)
        self.phase, self.kept, self.dims, self.dialect = phase, kept, dims, dialect
        self.open = Open()
        """What threads have read and written since they last waited for each other."""
        self.exchanges: dict[str, str] = {}
        """Declarations of the shared memory through which warps exchange what they have."""
        self.lanes: dict[tuple[str, Shape], str] = {}
        """Inside of a vector loop: what is loaded and stored as a whole, by its place."""
        self.vector_axis: Symbol | None = None
        sizes = [size_of(type.shape) for type in self.types.values()]
        self.whole = "int" if all(isinstance(s, int) and s <= INT for s in sizes) else "lab_i64"
        """The type of indices: the narrow one where every place is known to fit."""

    # -- the function ------------------------------------------------------------------------------

    def function(self, name: str) -> list[str]:
        """Write what stands between the braces; return the lines before."""
        phase, code, dialect = self.phase, self.code, self.dialect
        body = phase.body
        for array in arrays_in(body):
            if self.types[array].dtype is DType.float64 and not dialect.has_float64:
                raise ScheduleError(
                    f"kernel {name}: {array} is float64, which {dialect.name} lacks"
                )
        wrong = any(isinstance(part, Lookup) for part in _terms(body))
        if wrong:
            code.add("int lab_wrong = 0;")
        self.blocks(phase.blocks)
        for one in walk(body):
            if isinstance(one, Local) and one.space == "shared":
                self.shared(one)
        declared = len(code.lines)
        self.block(body)
        for line in self.exchanges.values():
            code.lines.insert(declared, f"    {line}")
            code.ops.insert(declared, ())
        if wrong:
            code.add("if (lab_wrong) *lab_fault = 1;")
        return self.head(name, wrong=wrong)

    def head(self, name: str, *, wrong: bool) -> list[str]:
        """Return the lines that say what a function is called and given."""
        dialect, body = self.dialect, self.phase.body
        written = {one.name for one in walk(body) if isinstance(one, Set)}
        given: list[str] = []
        buffers = [
            *(b.name for b in self.nest.inputs),
            *self.kept,
            *(b.name for b in self.nest.outputs),
        ]
        for buffer in buffers:
            const = "" if buffer in written else "const "
            kind = C_TYPES[self.types[buffer].dtype]
            given.append(
                dialect.pointer.format(
                    const=const, type=kind, name=c_name(buffer), place=len(given)
                )
            )
        for dim in self.dims:
            given.append(dialect.dim.format(type="lab_i64", name=c_name(dim), place=len(given)))
        if any(isinstance(part, Draw) for part in _terms(body)):
            given.append(dialect.dim.format(type="lab_u32", name="lab_step", place=len(given)))
        if wrong:
            given.append(
                dialect.pointer.format(const="", type="int", name="lab_fault", place=len(given))
            )
        given += dialect.positions
        start = dialect.head.format(name=name, threads=self.phase.threads)
        whole = f"{start}({', '.join(given)}) {{"
        if len(whole) <= 100:
            return [whole]
        return [f"{start}(", *(f"    {one}," for one in given[:-1]), f"    {given[-1]}", ") {"]

    def blocks(self, loops: Sequence[Loop]) -> None:
        """Say which positions the block has."""
        number = self.dialect.block
        below: Dim = 1
        for place, loop in reversed([*enumerate(loops)]):
            text = number if below == 1 else f"{number} / {index_c(below, 5)}"
            if place:
                text = f"{text} % {index_c(loop.size, 5)}"
            self.code.add(f"const {self.whole} {c_name(loop.name)} = {text};")
            below = below * loop.size

    # -- what blocks do ----------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Write what all threads of a block go through."""
        for one in block:
            match one:
                case Loop() if id(one) in self.phase.regions:
                    self.region(self.phase.regions[id(one)])
                case Loop(body=body) if self.has_regions(body):
                    before = self.open
                    self.open = self.after(body, before).joined(before)
                    with self.loop_head(one):
                        self.block(body)
                    self.open = self.open.joined(before)
                case When(holds=holds, body=body) if self.has_regions(body):
                    before = self.open
                    with self.code.block(f"if ({condition_c(holds)})"):
                        self.block(body)
                    self.open = self.open.joined(before)
                case Local(space="shared"):
                    pass
                case Local():
                    self.local(one)
                case _:
                    self.alike(one)

    def has_regions(self, block: Block) -> bool:
        """Return whether threads do something of their own in a block."""
        return any(id(one) in self.phase.regions for one in walk(block))

    def alike(self, one: Statement) -> None:
        """Write what needs no thread of its own: all do it, or the first if others see it."""
        found = seen(self.nest, (one,))
        self.wait_for(found)
        if not found.written:
            self.statement(one)
            return
        if any(isinstance(part, Set) and part.name not in found.written for part in walk((one,))):
            raise ScheduleError(
                f"nest {self.nest.name}: what is outside of threads sets registers and memory in "
                "one loop",
                hint="fission takes it apart",
            )
        with self.code.block(f"if ({self.dialect.thread} == 0)"):
            self.statement(one)

    def wait_for(self, comes: Open) -> None:
        """Have threads wait for each other if what comes needs what others did."""
        if self.open.meets(comes):
            if self.phase.threads > 1:
                self.code.add("lab_sync();")
            self.open = Open()
        self.open = self.open.joined(comes)

    def after(self, block: Block, before: Open) -> Open:
        """Return what is open behind a block, without writing it."""
        kept, lines, ops = self.open, self.code.lines, self.code.ops
        count = self.count
        self.code.lines, self.code.ops, self.open = [], [], before
        self.block(block)
        found = self.open
        self.code.lines, self.code.ops, self.open, self.count = lines, ops, kept, count
        return found

    # -- what threads do ---------------------------------------------------------------------------

    def region(self, region: Region) -> None:
        """Write what each thread does."""
        self.wait_for(seen(self.nest, region.body))
        if region.fold is not None:
            self.exchange(region, region.fold)
            return
        guards = self.guards(region)
        with self.code.block(f"if ({' && '.join(guards)})" if guards else ""):
            self.positions(region, region.body)
            for one in region.body:
                self.statement(one)

    def guards(self, region: Region) -> list[str]:
        """Return what holds of the threads that have work in a region."""
        found: list[str] = []
        for above, stride, size in self.phase.guard(region):
            text = self.dialect.thread
            text = text if above == self.phase.threads else f"{text} % {above}"
            found.append(f"{text} / {stride} < {size}" if stride > 1 else f"{text} < {size}")
        return found

    def scratch(self, dtype: DType) -> str:
        """Return the shared memory through which warps exchange what they have."""
        name = f"lab_shared_{dtype.short}"
        self.exchanges[name] = self.dialect.shared.format(
            type=c_type(dtype), name=name, size=max(1, self.phase.threads // WARP)
        )
        return name

    def positions(self, region: Region, body: Block) -> None:
        """Say which positions a thread has, as far as it matters."""
        strides = self.phase.strides(region)
        mentioned = _mentioned(body, self.phase.spread)
        for place, loop in enumerate(region.loops):
            if loop.name not in mentioned:
                continue
            stride, text = strides[loop.name], self.dialect.thread
            text = text if stride == 1 else f"{text} / {stride}"
            text = text if place == 0 else f"{text} % {loop.size}"
            self.code.add(f"const int {c_name(loop.name)} = {text};")

    def exchange(self, region: Region, fold: Loop) -> None:
        """Have threads add up what they have, so that each has the sum."""
        one = region.body[0]
        assert isinstance(one, Set)
        assert isinstance(fold.size, int)
        dtype = self.types[one.name].dtype
        near = DType.float32 if dtype.is_half else dtype
        which = "sum" if one.how == "+=" else "max"
        stride = self.phase.strides(region)[fold.name]
        size, part = fold.size, self.fresh()
        guards = self.guards(region)
        neutral = number_c(0 if which == "sum" else least(near), near).text
        with self.code.block(""):
            self.positions(region, (one,))
            value = self.text(one.term)
            text = f"{' && '.join(guards)} ? {value.at(1)} : {neutral}" if guards else value.text
            self.code.add(f"{c_type(near)} {part} = {text};", value.ops)
            if stride == 1 and size <= WARP and size & (size - 1) == 0:
                call = f"lab_warp_{which}_{near.short}({part}, {size})"
            elif not region.axes:
                threads = self.phase.threads
                call = f"lab_block_{which}_{near.short}({part}, {self.scratch(near)}, {threads})"
            else:
                raise ScheduleError(
                    f"nest {self.nest.name}: {fold.name} goes over {size} threads {stride} apart, "
                    "and only neighbours within a warp, or all threads, exchange what they have",
                    hint="split it by 32, or place the parts in shared",
                )
            place, old = self.place(one.name, one.index), self.element(one.name, one.index)
            if which == "max":
                text = f"lab_max_{near.short}({old}, {call})"
            elif near.is_float:
                text = f"{old} + {call}"
            else:
                text = f"lab_add_{near.short}({old}, {call})"
            self.code.add(f"{place} = {text};", FOLDED[one.how])

    # -- statements --------------------------------------------------------------------------------

    def statement(self, one: Statement) -> None:
        """Write a statement that one thread runs by itself."""
        match one:
            case Loop(kind="vector"):
                self.vector(one)
            case Loop(body=body):
                with self.loop_head(one):
                    for inner in body:
                        self.statement(inner)
            case When(holds=holds, body=body):
                with self.code.block(f"if ({condition_c(holds)})"):
                    for inner in body:
                        self.statement(inner)
            case Local():
                self.local(one)
            case Set():
                self.set(one)

    def loop_head(self, one: Loop) -> AbstractContextManager[None]:
        """Write the head of a loop; what is added next stands in it."""
        name, size = c_name(one.name), index_c(one.size)
        if one.kind == "unroll":
            self.code.add(f"LAB_UNROLL({size})")
        kind = "int" if isinstance(one.size, int) else self.whole
        return self.code.block(f"for ({kind} {name} = 0; {name} < {size}; {name}++)")

    def local(self, one: Local) -> None:
        """Write the declaration of an array or number in registers."""
        if one.space != "registers":
            raise ScheduleError(
                f"nest {self.nest.name}: {one.name} is in {one.space}, which GPUs lack",
                hint=f"place {one.name} in shared",
            )
        size = self.own_size(one)
        brackets = "" if self.is_scalar(one.name) else f"[{size}]"
        self.code.add(f"{self.kept_type(one.type)} {c_name(one.name)}{brackets};")

    def kept_type(self, type: TensorType) -> str:
        """Return the type of what is in registers: 16-bit floats are kept as float32."""
        return c_type(type.dtype)

    def own_size(self, one: Local) -> int:
        """Return how many elements of an array each thread has."""
        axes = len(self.phase.spread.get(one.name, ()))
        size = size_of(one.type.shape[axes:])
        if not isinstance(size, int):
            raise ScheduleError(
                f"nest {self.nest.name}: {one.name} has {size} elements in registers, which is "
                "not known before it runs",
                hint=f"place {one.name} in shared",
            )
        return size

    def shared(self, one: Local) -> None:
        """Write the declaration of an array that the threads of a block share."""
        size = size_of(one.type.shape)
        if not isinstance(size, int):
            raise ScheduleError(
                f"nest {self.nest.name}: {one.name} has {size} elements in shared memory, which "
                "is not known before it runs"
            )
        kind = C_TYPES[one.type.dtype]
        self.code.add(self.dialect.shared.format(type=kind, name=c_name(one.name), size=size))

    def set(self, one: Set) -> None:
        """Write an assignment."""
        dtype, ops = self.types[one.name].dtype, FOLDED[one.how]
        in_registers = self.in_registers(one.name)
        place, value = self.place(one.name, one.index), self.text(one.term)
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
        text = value.text if in_registers else self.rounded(one.term, value.text, dtype)
        self.code.add(f"{place} = {text};", (*value.ops, *ops))

    def rounded(self, term: Term, text: str, dtype: DType) -> str:
        """Return a value as it is put into memory; what has been rounded is not rounded again."""
        back = f"lab_cast_{dtype.short}_f32("
        whole = isinstance(term, Read) or (isinstance(term, Apply) and term.op == Cast(dtype))
        if whole and text.startswith(back) and text.endswith(")"):
            return text[len(back) : -1]
        return stored(text, dtype)

    # -- places ------------------------------------------------------------------------------------

    def in_registers(self, name: str) -> bool:
        """Return whether an array is in the registers of each thread."""
        local = self.nest.locals.get(name)
        return local is not None and local.space == "registers"

    @override
    def is_scalar(self, name: str) -> bool:
        local = self.nest.locals.get(name)
        if local is None or local.space != "registers":
            return False
        return not local.type.shape[len(self.phase.spread.get(name, ())) :]

    @override
    def place(self, name: str, index: Iterable[Dim]) -> str:
        index = tuple(index)
        vector = self.lanes.get((name, index))
        if vector is not None:
            return vector
        if self.is_scalar(name):
            return c_name(name)
        axes = len(self.phase.spread.get(name, ()))
        flat = row_major(self.types[name].shape[axes:], index[axes:])
        return f"{c_name(name)}[{index_c(flat)}]"

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
        loads: dict[tuple[str, Shape], Dim] = {}
        stores: dict[tuple[str, Shape], Dim] = {}
        written = {one.name for one in loop.body if isinstance(one, Set)}
        for one in loop.body:
            assert isinstance(one, Set)
            for part in _unguarded(one.term):
                if isinstance(part, Read) and part.buffer not in written:
                    start = self.start(part.buffer, part.index, loop.axis, width)
                    if start is not None:
                        loads[part.buffer, part.index] = start
            start = self.start(one.name, one.index, loop.axis, width)
            if start is not None and one.how == "=":
                stores[one.name, one.index] = start
        name = c_name(loop.name)
        with self.code.block(""):
            kept = dict(self.lanes)
            for place, ((array, index), start) in enumerate([*loads.items(), *stores.items()]):
                kind = f"lab_{self.types[array].dtype.short}x{width}"
                vector = self.fresh()
                if place < len(loads):
                    at = f"{c_name(array)}, {index_c(start)}"
                    self.code.add(f"const {kind} {vector} = LAB_LOAD({kind}, {at});")
                else:
                    self.code.add(f"{kind} {vector};")
                self.lanes[array, index] = f"{vector}.at[{name}]"
            self.code.add(f"LAB_UNROLL({width})")
            with self.code.block(f"for (int {name} = 0; {name} < {width}; {name}++)"):
                for one in loop.body:
                    self.statement(one)
            for (array, index), start in stores.items():
                kind = f"lab_{self.types[array].dtype.short}x{width}"
                vector = self.lanes[array, index].partition(".")[0]
                self.code.add(f"LAB_STORE({kind}, {c_name(array)}, {index_c(start)}, {vector});")
            self.lanes = kept

    def start(self, name: str, index: Shape, axis: Symbol, width: int) -> Dim | None:
        """Return where the neighbours along an axis begin in memory, if they are one vector."""
        if self.in_registers(name):
            return None
        if width * self.types[name].dtype.itemsize not in (2, 4, 8, 16):
            return None
        flat = row_major(self.types[name].shape, index)
        start = substitute(flat, {axis.name: 0})
        if substitute(flat, {axis.name: axis + 1}) - flat != 1:
            return None
        return start if known((start % width) < 1) is True else None


def _terms(block: Block) -> Iterable[Term]:
    for one in walk(block):
        if isinstance(one, Set):
            yield from walk_terms(one.term)


def _unguarded(term: Term) -> Iterable[Term]:
    """Yield the parts of a term that are always looked at."""
    yield term
    if not isinstance(term, (Guard, Lookup)):
        for part in term.parts:
            yield from _unguarded(part)


def _mentioned(block: Block, spread: Mapping[str, tuple[Along, ...]]) -> set[str]:
    """Return the names of the dims and axes that are written for a block.

    The first places of what is spread are not: each thread has its own.
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
                dims += index[len(spread.get(name, ())) :]
                found |= _in_term(term, spread)
            case Local():
                pass
        found |= {s.name for dim in dims for s in symbols(dim)}
    return found


def _in_term(term: Term, spread: Mapping[str, tuple[Along, ...]]) -> set[str]:
    if isinstance(term, Read):
        dims = term.index[len(spread.get(term.buffer, ())) :]
        return {s.name for dim in dims for s in symbols(dim)}
    inside = {name for part in term.parts for name in _in_term(part, spread)}
    alone = set(free(term)) - {name for part in term.parts for name in free(part)}
    return inside | alone
