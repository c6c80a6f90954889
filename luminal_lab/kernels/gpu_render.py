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
does is written in gpu_threads.py, what a warp does in gpu_warps.py, and which threads do it, after
what waiting, in gpu_regions.py. Functions whose names begin with lab_ are the prelude's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace

from luminal_lab.core.dims import Dim
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import size_of
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.c_exact import exact_names
from luminal_lab.kernels.c_index import condition_c, index_c
from luminal_lab.kernels.c_lines import Lines
from luminal_lab.kernels.c_maths import C_TYPES
from luminal_lab.kernels.c_names import c_name
from luminal_lab.kernels.dialect import Dialect
from luminal_lab.kernels.gpu_ahead import Arrivals, arrivals
from luminal_lab.kernels.gpu_nest import Phase, phases
from luminal_lab.kernels.gpu_regions import Regions
from luminal_lab.kernels.gpu_waiting import (
    meet,
    next_turn,
    no_turn,
    touches,
)
from luminal_lab.kernels.kernel import Local as KernelLocal, Phase as KernelPhase
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
    shared: int = 0
    """The bytes that the threads of a block share, in the phase that has most."""


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
    shared = 0
    for place, phase in enumerate(listed):
        function = name if len(listed) == 1 else f"{name}__{place}"
        writer = _Writer(phase, [one.name for one in kept], order, dialect, exact)
        head = writer.function(function)
        if lines:
            lines, ops = [*lines, ""], [*ops, ()]
        shared = max(shared, writer.bytes)
        lines += [*head, *writer.code.lines, "}"]
        ops += [*((),) * len(head), *writer.code.ops, ()]
        made.append(KernelPhase(function, phase.tasks, phase.threads))
    sizes = tuple(
        KernelLocal(one.name, size_of(one.type.shape) * one.type.dtype.itemsize) for one in kept
    )
    text = "\n".join(lines)
    uses = frozenset(PRELUDE.findall(text))
    return GPURendered(text, tuple(made), sizes, tuple(ops), uses, shared)


class _Writer(Regions):
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
        self.arrivals: Mapping[str, Arrivals] = {}
        """The loops whose copies go on while threads work."""
        if dialect.copies_ahead:
            self.arrivals = arrivals(phase.nest, phase.body)
            self.ahead = frozenset[str]().union(*(one.arrays for one in self.arrivals.values()))

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
        self.bytes += size * one.type.dtype.itemsize
        self.code.add(self.dialect.shared.format(type=kind, name=c_name(one.name), size=size))

    # -- what blocks do ----------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Write what all threads of a block go through."""
        for one in block:
            match one:
                case Loop() if id(one) in self.phase.regions:
                    self.region(self.phase.regions[id(one)])
                case Loop() if self.phase.has_regions(one.body):
                    self.loop(one)
                case When(holds=holds, body=body) if self.phase.has_regions(body):
                    self.group()
                    self.wait_for_first(body)
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

    def loop(self, one: Loop) -> None:
        """Write a loop that all threads go through."""
        self.group()
        before, arriving = self.open, self.arrivals.get(one.name)
        if arriving is None:
            self.again(one)
        with self.loop_head(one):
            body = one.body
            if arriving is not None:
                self.code.add(f"lab_copy_wait({arriving.left});")
                self.code.add("lab_sync();")
                self.open = arriving.open
                self.block(body[:1])
                self.begun, body = True, body[1:]  # a group each time, be it empty
                self.group()
            self.block(body)
            self.group()
        self.open = no_turn(self.open | before, one.name)

    def wait_for_first(self, block: Block) -> None:
        """Have threads wait before they ask whether they do something, and not within it."""
        first = next((one for one in block if not isinstance(one, Local)), None)
        if first is not None and id(first) in self.phase.regions:
            region = self.phase.regions[id(first)]
            found = touches(self.phase, region.body, region)
            if meet(self.open, found):
                before = self.open
                self.wait_for(found)
                self.open &= before

    def alike(self, one: Statement) -> None:
        """Write what needs no thread of its own: all do it, or the first if others see it."""
        found = touches(self.phase, (one,))
        self.wait_for(found)
        if self.phase.threads == 1 or not any(touch.is_write for touch in found):
            self.statement(one)
            return
        with self.code.block(f"if ({self.dialect.thread} == 0)"):
            self.statement(one)

    def again(self, loop: Loop) -> None:
        """Take what is open behind a loop's body as open before it: it is run some times."""
        code, count, pending = self.code, self.count, dict(self.pending)
        while True:
            before = self.open
            self.code, self.count = Lines(), count
            self.code.depth = code.depth
            self.block(loop.body)
            self.begun = False
            self.open = before | next_turn(self.open, loop.name)
            if self.open == before:
                break
        self.code, self.count, self.pending = code, count, pending


def _once(one: Statement) -> Statement | Block:
    """Return the body of a loop that runs once, unless it says which thread runs it."""
    if isinstance(one, Loop) and one.size == 1 and one.kind in ("for", "unroll", "vector"):
        return substituted(one.body, {one.name: 0})
    return one


def _terms(block: Block) -> Iterable[Term]:
    for one in walk(block):
        if isinstance(one, Set):
            yield from walk_terms(one.term)
