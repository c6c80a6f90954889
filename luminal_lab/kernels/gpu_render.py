"""A nest as a GPU's kernel: what each thread does, in CUDA C++ or Metal's language.

    block i < m:                        extern "C" __global__ void … row_sums(
      thread l < 64:                        const float *__restrict__ x, …) {
        part[l] = x[i, l]                   const int i = blockIdx.x;
      t = 0.0                          →    const int l = threadIdx.x;
      across l_2 < 64:                      float part = x[64*i + l];
        t += part[l_2]                      float t = 0.0f;
      thread l_3 < 1:                       t = t + lab_block_sum_f32(part, …);
        y[i] = t                            if (threadIdx.x < 1) {
                                                y[i] = t;
                                            }

Who runs what is worked out in gpu_nest.py, where threads wait in gpu_waiting.py; what one thread
does is written in gpu_threads.py. Functions whose names begin with lab_ are the prelude's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace

from luminal_lab.core.dims import Dim, Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import size_of
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.c_exact import exact_names
from luminal_lab.kernels.c_index import condition_c, index_c
from luminal_lab.kernels.c_lines import Lines
from luminal_lab.kernels.c_maths import C_TYPES
from luminal_lab.kernels.c_names import c_name
from luminal_lab.kernels.c_nest import FOLDED
from luminal_lab.kernels.c_terms import number_c
from luminal_lab.kernels.c_values import c_type
from luminal_lab.kernels.dialect import Dialect
from luminal_lab.kernels.gpu_nest import WARP, Along, Phase, Region, phases
from luminal_lab.kernels.gpu_threads import Threads, mentioned
from luminal_lab.kernels.gpu_waiting import NONE, Touch, Touches, meet, touches
from luminal_lab.kernels.kernel import Local as KernelLocal, Phase as KernelPhase
from luminal_lab.kernels.lowering import least
from luminal_lab.kernels.nest import (
    Block,
    Local,
    Loop,
    Nest,
    Set,
    Statement,
    When,
    arrays_in,
    mapped,
    substituted,
    walk,
)
from luminal_lab.kernels.terms import Draw, Lookup, Term, walk as walk_terms

PRELUDE = re.compile(r"\b(?:(?:lab|LAB)_\w+|floordiv|floormod)\b")


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


def render_gpu(
    nest: Nest,
    name: str,
    dims: Sequence[str] | None,
    dialect: Dialect,
    compared: AbstractSet[str] = frozenset(),
) -> GPURendered:
    """Return a nest as functions of a GPU whose names start with `name`.

    Of the results that are `compared` by other kernels each op rounds.
    """
    order = tuple(nest.dims) if dims is None else tuple(dims)
    kept = [one for one in nest.locals.values() if one.space == "memory"]
    nest = replace(nest, body=mapped(nest.body, _once))
    listed = phases(nest)
    exact = exact_names(nest, compared)
    lines: list[str] = []
    ops: list[tuple[str, ...]] = []
    made: list[KernelPhase] = []
    for place, phase in enumerate(listed):
        function = name if len(listed) == 1 else f"{name}__{place}"
        writer = _Writer(phase, [one.name for one in kept], order, dialect, exact)
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


class _Writer(Threads):
    """The source of one phase: its head, and what blocks go through."""

    def __init__(
        self,
        phase: Phase,
        kept: list[str],
        dims: Sequence[str],
        dialect: Dialect,
        exact: AbstractSet[str],
    ) -> None:
        super().__init__(phase, dialect, exact)
        phase.check()
        self.kept, self.dims = kept, dims
        self.count: int = 0
        self.open: Touches = NONE
        """What threads have read and written since they last waited for each other."""
        self.exchanges: dict[str, str] = {}
        """Declarations of the shared memory through which threads exchange what they have."""

    # -- the function ------------------------------------------------------------------------------

    def function(self, name: str) -> list[str]:
        """Write what stands between the braces; return the lines before."""
        phase, code = self.phase, self.code
        self.check(name)
        wrong = any(isinstance(part, Lookup) for part in _terms(phase.body))
        for one in walk(phase.body):
            if isinstance(one, Local) and one.space == "shared":
                self.shared(one)
        declared = len(code.lines)
        if wrong:
            code.add("int lab_wrong = 0;")
        self.blocks(phase.blocks)
        self.block(phase.body)
        for line in self.exchanges.values():
            code.lines.insert(declared, f"    {line}")
            code.ops.insert(declared, ())
        if wrong:
            code.add("if (lab_wrong) *lab_fault = 1;")
        return self.head(name, wrong=wrong)

    def check(self, name: str) -> None:
        """Refuse what the dialect has no word for."""
        used = arrays_in(self.phase.body)
        wide = [one for one in self.types if self.types[one].dtype is DType.float64 and one in used]
        if wide and not self.dialect.has_float64:
            raise ScheduleError(
                f"kernel {name}: {wide[0]} is float64, which {self.dialect.name} lacks",
                hint="cast it to float32, as in x.cast('float32')",
            )

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
            kind, name_c = C_TYPES[self.types[buffer].dtype], c_name(buffer)
            given.append(
                dialect.pointer.format(const=const, type=kind, name=name_c, place=len(given))
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
        below: Dim = 1
        lines: list[str] = []
        for place, loop in reversed([*enumerate(loops)]):
            text = (
                self.dialect.block if below == 1 else f"{self.dialect.block} / {index_c(below, 5)}"
            )
            if place:
                text = "0" if loop.size == 1 else f"{text} % {index_c(loop.size, 5)}"
            lines.append(f"const {self.whole} {c_name(loop.name)} = {text};")
            below = below * loop.size
        for line in reversed(lines):
            self.code.add(line)

    def shared(self, one: Local) -> None:
        """Write the declaration of an array that the threads of a block share."""
        size = size_of(one.type.shape)
        if not isinstance(size, int):
            raise ScheduleError(
                f"nest {self.nest.name}: {one.name} has {size} elements in shared memory, which "
                "is not known before it runs",
                hint=f"place {one.name} in memory",
            )
        kind = C_TYPES[one.type.dtype]
        self.code.add(self.dialect.shared.format(type=kind, name=c_name(one.name), size=size))

    # -- what blocks do ----------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Write what all threads of a block go through."""
        for one in block:
            match one:
                case Loop() if id(one) in self.phase.regions:
                    self.region(self.phase.regions[id(one)])
                case Loop(body=body) if self.phase.has_regions(body):
                    before = self.open
                    self.again(body)
                    with self.loop_head(one):
                        self.block(body)
                    self.open |= before
                case When(holds=holds, body=body) if self.phase.has_regions(body):
                    before = self.open
                    with self.code.block(f"if ({condition_c(holds)})"):
                        self.block(body)
                    self.open |= before
                case Local(space="shared"):
                    pass
                case Local():
                    self.local(one)
                case _:
                    self.alike(one)

    def alike(self, one: Statement) -> None:
        """Write what needs no thread of its own: all do it, or the first if others see it."""
        found = touches(self.phase, (one,))
        self.wait_for(found)
        if self.phase.threads == 1 or not any(touch.is_write for touch in found):
            self.statement(one)
            return
        with self.code.block(f"if ({self.dialect.thread} == 0)"):
            self.statement(one)

    def wait_for(self, comes: Touches) -> None:
        """Have threads wait for each other if what comes needs what others did."""
        if self.phase.threads > 1 and meet(self.open, comes):
            self.code.add("lab_sync();")
            self.open = NONE
        self.open |= comes

    def again(self, block: Block) -> None:
        """Take what is open behind a block as open before it: it is run some times."""
        code, count, pending = self.code, self.count, dict(self.pending)
        while True:
            before = self.open
            self.code, self.count = Lines(), count
            self.code.depth = code.depth
            self.block(block)
            self.open |= before
            if self.open == before:
                break
        self.code, self.count, self.pending = code, count, pending

    # -- what threads do ---------------------------------------------------------------------------

    def region(self, region: Region) -> None:
        """Write what each thread does."""
        if region.size == 0:
            return
        self.wait_for(touches(self.phase, region.body, region))
        if region.fold is not None:
            self.exchange(region, region.fold)
            return
        inside = {one.name for one in walk(region.body) if isinstance(one, Local)}
        sets = {one.name for one in walk(region.body) if isinstance(one, Set)} - inside
        kept = {name for name in sets if self.phase.is_kept(name)}
        guards = self.guards(region)
        if guards and not kept:
            with self.code.block(f"if ({' && '.join(guards)})"):
                self.positions(region, region.body, is_guarded=True)
                self.statements(region.body)
            return
        self.positions(region, region.body)
        self.first = " && ".join(guards) if sets - kept else ""
        self.statements(region.body)
        self.first = ""

    def guards(self, region: Region) -> list[str]:
        """Return what holds of the first threads that do the work of a region."""
        found: list[str] = []
        above = self.phase.threads
        for one in self.digits(region):
            text = self.thread(above)
            if one.end != above:
                text = text if one.stride == 1 else f"{text} / {one.stride}"
                found.append(f"{text} < {one.size}")
            above = one.stride
        if above > (WARP if region.is_warps else 1):
            found.append(f"{self.thread(above)} == 0")
        return found

    def digits(self, region: Region) -> list[Along]:
        """Return where the axes of a region are, the slowest first."""
        found = [one for one in self.phase.places(region).values() if one.size > 1]
        return sorted(found, key=lambda one: -one.stride)

    def thread(self, below: int) -> str:
        """Return the number of the thread among so many."""
        text = self.dialect.thread
        return text if below == self.phase.threads else f"{text} % {below}"

    def positions(
        self, region: Region, body: Block, also: Iterable[str] = (), *, is_guarded: bool = False
    ) -> None:
        """Say which positions a thread has, as far as it matters."""
        used = mentioned(body, self.phase) | {*also}
        places = self.phase.places(region)
        digits = self.digits(region)
        for loop in region.loops:
            if loop.name not in used:
                continue
            one = places[loop.name]
            if one.size == 1:
                text = "0"
            else:
                text = self.dialect.thread
                text = text if one.stride == 1 else f"{text} / {one.stride}"
                is_last = one == digits[0] and (is_guarded or one.end == self.phase.threads)
                text = text if is_last else f"{text} % {one.size}"
            self.code.add(f"const int {c_name(loop.name)} = {text};")

    # -- exchanges ---------------------------------------------------------------------------------

    def exchange(self, region: Region, fold: Loop) -> None:
        """Have threads add up what they have, so that each has the sum."""
        one = region.body[0]
        if len(region.body) != 1 or not isinstance(one, Set) or one.how == "=":
            raise ScheduleError(
                f"nest {self.nest.name}: across {fold.name} does more than adding up",
                hint="fission takes it apart",
            )
        if not self.phase.is_kept(one.name):
            raise ScheduleError(
                f"nest {self.nest.name}: across {fold.name} adds to {one.name}, which is not in "
                "registers",
                hint=f"stage {one.name} in a loop around it",
            )
        dtype = self.types[one.name].dtype
        near = DType.float32 if dtype.is_half else dtype
        along = self.phase.places(region)[fold.name]
        if along.size == 1:
            self.positions(region, (one,), (fold.name,))
            self.set(one)
            return
        which = "sum" if one.how == "+=" else "max"
        is_wide = along.stride > 1 or WARP % along.size != 0
        is_alone = along.stride == 1 and all(loop.size == 1 for loop in region.axes)
        by_slots = is_wide and not is_alone
        self.positions(region, (one,), [loop.name for loop in region.axes] if by_slots else ())
        if by_slots:
            self.by_slots(region, one, along, near)
            return
        value = self.value_of(one)
        threads, dialect = self.phase.threads, self.dialect
        if not is_wide:
            found = f"lab_warp_{which}_{near.short}({value.text}, {along.size})"
        else:
            text = value.text
            if along.size < threads:
                none = number_c(0 if which == "sum" else least(near), near).text
                text = f"{dialect.thread} < {along.size} ? {value.at(1)} : {none}"
            slots = self.slots("shared", near, max(1, threads // WARP))
            found = f"lab_block_{which}_{near.short}({text}, {slots}, {threads})"
        self.joined(one, near, found, value.ops)
        if is_wide and threads > WARP:
            self.open = NONE  # all have waited in it

    def by_slots(self, region: Region, one: Set, along: Along, near: DType) -> None:
        """Let each thread of a group read what the others have left in shared memory."""
        value = self.value_of(one)
        slots = self.slots("slots", near, self.phase.threads)
        self.wait_for(frozenset([Touch(slots, is_write=True)]))
        self.code.add(f"{slots}[{self.dialect.thread}] = {value.text};", value.ops)
        self.wait_for(frozenset([Touch(slots, is_write=False)]))
        places, name = self.phase.places(region), self.fresh()
        axes = {loop.name: places[loop.name].stride for loop in region.axes}
        at = index_c(_sum_of({**axes, name: along.stride}))
        with self.code.block(f"for (int {name} = 0; {name} < {along.size}; {name}++)"):
            self.joined(one, near, f"{slots}[{at}]", ())

    def joined(self, one: Set, near: DType, found: str, ops: tuple[str, ...]) -> None:
        """Write how a sum or maximum gets what the threads have."""
        place, old = self.place(one.name, one.index), self.element(one.name, one.index)
        if one.how == "max=":
            text = f"{place} = lab_max_{near.short}({old}, {found});"
        elif near.is_float:
            text = f"{place} += {found};"
        else:
            text = f"{place} = lab_add_{near.short}({old}, {found});"
        self.code.add(text, (*ops, *FOLDED[one.how]))

    def slots(self, word: str, dtype: DType, count: int) -> str:
        """Return the shared memory through which threads exchange what they have."""
        name = f"lab_{word}_{dtype.short}"
        self.exchanges[name] = self.dialect.shared.format(type=c_type(dtype), name=name, size=count)
        return name


def _once(one: Statement) -> Statement | Block:
    """Return the body of a loop that runs once, unless it says which thread runs it."""
    if isinstance(one, Loop) and one.size == 1 and one.kind in ("for", "unroll", "vector"):
        return substituted(one.body, {one.name: 0})
    return one


def _sum_of(strides: Mapping[str, int]) -> Dim:
    found: Dim = 0
    for name, stride in strides.items():
        found = found + Symbol(name, 0) * stride
    return found


def _terms(block: Block) -> Iterable[Term]:
    for one in walk(block):
        if isinstance(one, Set):
            yield from walk_terms(one.term)
