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

Who runs what is worked out in nest.py, where threads wait in waiting.py; what one thread
does is written in threads.py, what a warp does in warps.py, and which threads do it, after
what waiting, in regions.py. Functions whose names begin with lab_ are the prelude's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace

from luminal_lab.core.dims import Dim
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import size_of
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.terms import Draw, Lookup, Term, read_by, walk as walk_terms
from luminal_lab.kernels.dialect import Dialect
from luminal_lab.kernels.kernel import Local as KernelLocal, Phase as KernelPhase
from luminal_lab.kernels.nest.nest import (
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
from luminal_lab.kernels.prelude.rows import C_TYPES
from luminal_lab.kernels.render.exact import exact_names
from luminal_lab.kernels.render.gpu.ahead import Arrivals, arrivals, bulk_loops
from luminal_lab.kernels.render.gpu.bulk import ARRIVED, TILES
from luminal_lab.kernels.render.gpu.nest import Phase, phases
from luminal_lab.kernels.render.gpu.regions import Regions
from luminal_lab.kernels.render.gpu.waiting import (
    meet,
    next_turn,
    no_turn,
    touches,
)
from luminal_lab.kernels.render.index import condition_c, index_c
from luminal_lab.kernels.render.lines import Lines
from luminal_lab.kernels.render.names import c_name

APART = "bulk", "tensor"
"""The kinds of loops that are one operation of many elements."""


@dataclass(frozen=True)
class GPURendered:
    """A kernel as the source of a GPU."""

    text: str
    phases: tuple[KernelPhase, ...]
    locals: tuple[KernelLocal, ...]
    """The arrays between inputs and outputs that it is given, with their bytes."""
    ops_of_line: tuple[tuple[str, ...], ...]
    """For each line of the text the names of the ops that it computes."""
    shared: int = 0
    """The bytes that the threads of a block declare that they share, in the phase that has most."""


def render_gpu(
    nest: Nest,
    name: str,
    dims: Sequence[str] | None,
    dialect: Dialect,
    compared: AbstractSet[str] = frozenset(),
) -> GPURendered:
    """Return a nest as functions of a GPU whose names start with `name`.

    Where other kernels compare its results, 16-bit floats are rounded after each op.
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
        maps = tuple(writer.maps)
        made.append(KernelPhase(function, phase.tasks, phase.threads, writer.tiles_bytes, maps))
    sizes = tuple(
        KernelLocal(one.name, size_of(one.type.shape) * one.type.dtype.itemsize) for one in kept
    )
    text = "\n".join(lines)
    return GPURendered(text, tuple(made), sizes, tuple(ops), shared)


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
        self.dims = dims
        self.buffers = [
            *(buffer.name for buffer in self.nest.inputs),
            *kept,
            *(buffer.name for buffer in self.nest.outputs),
        ]
        self.tiles_bytes = 0
        """The bytes of shared memory that a launch is asked for."""
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
        self.tiles([one for one in walk(phase.body) if isinstance(one, Local)])
        declared = len(code.lines)
        if wrong:
            code.add("int lab_wrong = 0;")
        self.blocks(phase.blocks)
        self.barriers()
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
        for buffer in self.buffers:
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
        given += [f"const __grid_constant__ lab_tensor_map {name}" for name in self.maps.values()]
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

    def tiles(self, found: Sequence[Local]) -> None:
        """Write where arrays in tiles are, and the barriers at which their copies arrive."""
        kept = [one for one in found if one.space == "tiles"]
        bulk = bulk_loops(self.phase.body)
        copied = {one.name for one in walk(tuple(bulk)) if isinstance(one, Set)}
        lost = [one.name for one in kept if one.name not in self.ahead | copied]
        alone = [name for name in sorted(copied) if name not in self.ahead]
        if lost or alone:
            raise ScheduleError(
                f"nest {self.nest.name}: {(lost or alone)[0]} is in tiles, and no loop copies "
                "into it ahead by bulk copies",
                hint="bind the loops that copy it to bulk, and take the loop around them ahead",
            )
        for name in _by_threads(self.phase.body):
            self.check_place(name)
        if not kept:
            return
        self.code.add(f"extern __shared__ __align__(1024) lab_u8 {TILES}[];")
        for one in kept:
            kind, size = C_TYPES[one.type.dtype], size_of(one.type.shape)
            assert isinstance(size, int)
            at = f"({TILES} + {self.tiles_bytes})" if self.tiles_bytes else TILES
            self.code.add(f"{kind} *const {c_name(one.name)} = ({kind} *){at};")
            self.tiles_bytes += -(-size * one.type.dtype.itemsize // 1024) * 1024
        places = sum(one.count + 1 for one in self.arrivals.values() if one.bulk)
        self.code.add(f"lab_u64 *const {ARRIVED} = (lab_u64 *)({TILES} + {self.tiles_bytes});")
        self.tiles_bytes += 8 * places

    def barriers(self) -> None:
        """Have a thread make the barriers at which bulk copies arrive."""
        bulk = [one for one in self.arrivals.values() if one.bulk]
        if not bulk:
            return
        inside = {loop.name for loop in _again(self.phase.body)}
        if len(bulk) > 1 or bulk[0].loop in inside:
            raise ScheduleError(
                f"nest {self.nest.name}: {bulk[0].loop} is not the one loop of a block that bulk "
                "copies are ahead of, or is run again",
                hint="a nest like this has its copies in shared, by threads",
            )
        (one,) = bulk
        with self.code.block(f"if ({self.dialect.thread} == 0)"):
            with self.code.block(f"for (int lab_i = 0; lab_i < {one.count + 1}; lab_i++)"):
                self.code.add(f"lab_barrier_init(&{ARRIVED}[lab_i], {one.bulk});")
            self.code.add("lab_barrier_seen();")

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
                case Local(space="shared" | "tiles"):
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
            if arriving is not None and arriving.bulk:
                self.code.add("lab_sync();")
                self.open = arriving.open
                self.block(body[:1])
                turn, phase = one.axis % (arriving.count + 1), one.axis // (arriving.count + 1) % 2
                self.code.add(f"lab_barrier_wait(&{ARRIVED}[{index_c(turn)}], {index_c(phase)});")
                body = body[1:]
            elif arriving is not None:
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


def _by_threads(block: Block) -> Iterable[str]:
    """Yield the arrays that are used one element at a time: not by bulk copies or products."""
    for one in block:
        if isinstance(one, Set):
            yield from (one.name, *read_by(one.term))
        elif isinstance(one, When) or (isinstance(one, Loop) and one.kind not in APART):
            yield from _by_threads(one.body)


def _again(block: Block, *, inside: bool = False) -> Iterable[Loop]:
    """Yield the loops that stand in others, and so are run some times."""
    for one in block:
        if isinstance(one, (Loop, When)):
            if inside and isinstance(one, Loop):
                yield one
            yield from _again(one.body, inside=inside or isinstance(one, Loop))


def _once(one: Statement) -> Statement | Block:
    """Return the body of a loop that runs once, unless it says which thread runs it."""
    if isinstance(one, Loop) and one.size == 1 and one.kind in ("for", "unroll", "vector"):
        return substituted(one.body, {one.name: 0})
    return one


def _terms(block: Block) -> Iterable[Term]:
    for one in walk(block):
        if isinstance(one, Set):
            yield from walk_terms(one.term)
