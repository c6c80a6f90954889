"""A nest as a GPU's kernel: what each thread does, in CUDA C++, Metal's language or WGSL.

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

nest.py works out who runs what, and waiting.py where threads wait; threads.py writes what one
thread does, warps.py what a warp does, and regions.py which threads do it, after which waiting.
Functions whose names begin with lab_ are the prelude's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import replace

from luminal_lab.core.dims import Dim
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import size_of
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.terms import Draw, read_by
from luminal_lab.kernels.dialect import Dialect
from luminal_lab.kernels.kernel import Phase
from luminal_lab.kernels.nest.nest import (
    Block,
    Local,
    Loop,
    Nest,
    Set,
    Statement,
    When,
    arrays_in,
    arrays_written,
    every,
    looks_up,
    paths,
    terms_in,
)
from luminal_lab.kernels.prelude.rows import C_TYPES
from luminal_lab.kernels.render.code import CBlock, Code
from luminal_lab.kernels.render.exact import exact_names
from luminal_lab.kernels.render.gpu.ahead import Arrivals, arrivals, bulk_loops
from luminal_lab.kernels.render.gpu.arrays import ThreadArrays
from luminal_lab.kernels.render.gpu.bulk import ARRIVED, TILES
from luminal_lab.kernels.render.gpu.nest import NestLaunch, misplaced, phases
from luminal_lab.kernels.render.gpu.regions import Regions
from luminal_lab.kernels.render.gpu.threads import Threads
from luminal_lab.kernels.render.gpu.waiting import Waits, meet, touches, turned
from luminal_lab.kernels.render.gpu.webgpu import wgsl
from luminal_lab.kernels.render.index import ATOM
from luminal_lab.kernels.render.names import c_name
from luminal_lab.kernels.render.rendered import (
    Rendered,
    RenderedPhase,
    function_names,
    rendered,
    without_loops,
)
from luminal_lab.kernels.steps.step import around

APART = "bulk", "tensor"
"""The kinds of loops that are one operation on many elements."""


ONCE = "for", "unroll", "vector"
"""The kinds of loops that are left out if they have one iteration; others say who runs it."""


def render_gpu(
    nest: Nest,
    name: str,
    dims: Sequence[str] | None,
    dialect: Dialect,
    compared: AbstractSet[str] = frozenset(),
) -> Rendered:
    """Return a nest as functions of a GPU whose names start with `name`.

    If other kernels compare its results, 16-bit floats are rounded after each op.
    """
    order = tuple(nest.dims) if dims is None else tuple(dims)
    nest = without_loops(nest, ONCE)
    listed, exact = phases(nest), exact_names(nest, compared)
    functions: list[RenderedPhase] = []
    shared = 0
    for function, phase in zip(function_names(name, listed), listed, strict=True):
        blocks = Blocks(phase, order, dialect, exact)
        functions.append(blocks.function(function))
        shared = max(shared, blocks.bytes + blocks.regions.bytes)
    written = wgsl if dialect.name == "webgpu" else RenderedPhase.lines
    return replace(rendered(nest, functions, written), shared=shared)


class Blocks:
    """Writes one phase: the head of its function, and what blocks do."""

    def __init__(
        self, phase: NestLaunch, dims: Sequence[str], dialect: Dialect, exact: AbstractSet[str]
    ) -> None:
        phase.check()
        self.phase, self.nest, self.types = phase, phase.nest, phase.nest.types
        self.dialect, self.dims = dialect, dims
        self.code = Code(dialect, self.nest.names)
        self.arrays, self.waits = ThreadArrays(phase, self.code), Waits(phase, self.code)
        self.threads = Threads(self.arrays, exact, self.waits)
        self.regions = Regions(self.threads, self.arrays, self.waits)
        self.bytes = 0
        """The bytes that the threads of a block share by declaration."""
        self.tiles_bytes = 0
        """The bytes of shared memory that a launch requests."""
        self.draws = any(isinstance(part, Draw) for part in terms_in(phase.body))
        self.faults = looks_up(phase.body)
        self.arrivals: Mapping[str, Arrivals] = {}
        """The loops whose copies go on while threads work."""
        if dialect.copies_ahead:
            self.arrivals = arrivals(phase.nest, phase.body)
            self.waits.ahead = frozenset[str]().union(
                *(arrival.arrays for arrival in self.arrivals.values())
            )

    # -- the function ------------------------------------------------------------------------------

    def function(self, name: str) -> RenderedPhase:
        """Return the function."""
        code, body = self.code, self.phase.body
        self.check(name)
        declared = every(body, Local)
        for local in declared:
            if local.space == "shared":
                self.shared(local)
        self.tiles(declared)
        inner: CBlock = []
        with code.inside(inner):
            self.threads.in_place(body)
            if self.faults:
                code.declare("int", "lab_wrong", "0")
            self.positions(self.phase.blocks)
            self.barriers()
            self.block(body)
            if self.faults:
                code.raw("if (lab_wrong) *lab_fault = 1;")
        code.block += [*self.regions.exchanges.values(), *inner]
        launch = Phase(
            name,
            self.phase.tasks,
            self.phase.threads,
            self.tiles_bytes,
            tuple(self.threads.warps.maps),
            self.draws,
            self.faults,
        )
        return RenderedPhase(launch, self.head(name), code)

    def check(self, name: str) -> None:
        """Refuse what the dialect has no word for."""
        used = arrays_in(self.phase.body)
        wide = [n for n, type in self.types.items() if type.dtype is DType.float64 and n in used]
        if wide and not self.dialect.has_float64:
            raise ScheduleError(
                f"kernel {name}: {wide[0]} is float64, which {self.dialect.name} lacks",
                hint="cast it to float32, as in x.cast('float32')",
            )

    def head(self, name: str) -> list[str]:
        """Return the lines with a function's name and parameters."""
        dialect, given = self.dialect, [*self.threads.buffers(self.phase.body).values()]
        numbers = [("lab_i64", c_name(dim)) for dim in self.dims]
        given += dialect.numbers(len(given), numbers + [("lab_u32", "lab_step")] * self.draws)
        if self.faults:
            given.append(dialect.buffer("lab_fault", "int", len(given)))
        maps = self.threads.warps.maps.values()
        given += [f"const __grid_constant__ lab_tensor_map {name}" for name in maps]
        return dialect.function(name, self.phase.threads, given)

    def positions(self, loops: Sequence[Loop]) -> None:
        """Declare the positions of the block."""
        below: Dim = 1
        texts: dict[str, str] = {}
        for depth, loop in reversed([*enumerate(loops)]):
            text = self.dialect.block
            text = text if below == 1 else f"{text} / {self.code.index(below, ATOM)}"
            if depth:
                text = "0" if loop.size == 1 else f"{text} % {self.code.index(loop.size, ATOM)}"
            texts[c_name(loop.name)] = text
            below = below * loop.size
        for name, text in reversed(texts.items()):
            self.code.constant(self.threads.whole, name, text)

    def shared(self, local: Local) -> None:
        """Write the declaration of an array that the threads of a block share."""
        size = size_of(local.type.shape)
        if not isinstance(size, int):
            why = f"has {size} elements in shared memory, which is not known before it runs"
            raise misplaced(self.nest, local.name, why, "memory")
        self.bytes += size * max(local.type.dtype.itemsize, self.dialect.least)
        self.code.array(C_TYPES[local.type.dtype], c_name(local.name), size, "shared")

    def tiles(self, declared: Sequence[Local]) -> None:
        """Write the addresses of arrays in tiles, and the barriers at which their copies arrive."""
        tiles = [local for local in declared if local.space == "tiles"]
        bulk = bulk_loops(self.phase.body)
        copied = arrays_written(tuple(bulk))
        lost = [local.name for local in tiles if local.name not in self.waits.ahead | copied]
        alone = [name for name in sorted(copied) if name not in self.waits.ahead]
        if lost or alone:
            raise self.nest.fault(
                f"{(lost or alone)[0]} is in tiles, and no loop copies "
                "into it ahead by bulk copies",
                "bind the loops that copy it to bulk, and take the loop around them ahead",
            )
        for outer, update in paths(self.phase.body):
            if isinstance(update, Set) and all(loop.kind not in APART for loop in outer):
                for name in (update.name, *read_by(update.term)):
                    self.arrays.check_place(name)
        if not tiles:
            return
        self.code.raw(f"extern __shared__ __align__(1024) lab_u8 {TILES}[];")
        for local in tiles:
            kind, size = C_TYPES[local.type.dtype], size_of(local.type.shape)
            assert isinstance(size, int)
            at = f"({TILES} + {self.tiles_bytes})" if self.tiles_bytes else TILES
            self.code.declare(f"{kind} *const", c_name(local.name), f"({kind} *){at}")
            self.tiles_bytes += -(-size * local.type.dtype.itemsize // 1024) * 1024
        slots = sum(arrival.count + 1 for arrival in self.arrivals.values() if arrival.bulk)
        at = f"(lab_u64 *)({TILES} + {self.tiles_bytes})"
        self.code.declare("lab_u64 *const", ARRIVED, at)
        self.tiles_bytes += 8 * slots

    def barriers(self) -> None:
        """Make one thread initialise the barriers at which bulk copies arrive."""
        bulk = [arrival for arrival in self.arrivals.values() if arrival.bulk]
        if not bulk:
            return
        if len(bulk) > 1 or len(around(self.nest, bulk[0].loop)) > len(self.phase.blocks):
            raise self.nest.fault(
                f"{bulk[0].loop} is not the one loop of a block that bulk "
                "copies are ahead of, or is run again",
                "a nest like this has its copies in shared, by threads",
            )
        (arrival,) = bulk
        with self.code.branch(f"{self.dialect.thread} == 0"):
            with self.code.repeat("int", "lab_i", arrival.count + 1):
                self.code.invoke("lab_barrier_init", f"&{ARRIVED}[lab_i]", arrival.bulk)
            self.code.invoke("lab_barrier_seen")

    # -- what blocks do ----------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Write what all threads of a block do."""
        for statement in block:
            match statement:
                case Loop() if id(statement) in self.phase.regions:
                    self.regions.region(self.phase.regions[id(statement)])
                case Loop() if self.phase.has_regions(statement.body):
                    self.loop(statement)
                case When(holds=holds, body=body) if self.phase.has_regions(body):
                    self.waits.group()
                    self.wait_for_first(body)
                    before = self.waits.open
                    with self.code.branch(self.code.condition(holds)):
                        self.block(body)
                    self.waits.open |= before
                case Local(space="shared" | "tiles"):
                    pass
                case Local():
                    self.threads.local(statement)
                case _:
                    self.alike(statement)

    def loop(self, loop: Loop) -> None:
        """Write a loop that all threads run."""
        code, waits, body = self.code, self.waits, loop.body
        waits.group()
        before, arriving = waits.open, self.arrivals.get(loop.name)
        if arriving is None:
            self.again(loop)
        with self.threads.head(loop):
            if arriving is not None:
                if not arriving.bulk:
                    code.invoke("lab_copy_wait", arriving.left)
                code.wait()
                waits.open = arriving.open
                self.block(body[:1])
                body = body[1:]
                if arriving.bulk:
                    slots = arriving.count + 1
                    at = f"&{ARRIVED}[{code.index(loop.axis % slots)}]"
                    code.invoke("lab_barrier_wait", at, code.index(loop.axis // slots % 2))
                else:
                    waits.begun = True  # one group each time, even if empty
                    waits.group()
            self.block(body)
            waits.group()
        waits.open = turned(waits.open | before, loop.name, is_last=True)

    def wait_for_first(self, block: Block) -> None:
        """Make threads wait before a condition, if they would otherwise wait inside it."""
        first = next((s for s in block if not isinstance(s, Local)), None)
        if first is not None and id(first) in self.phase.regions:
            region = self.phase.regions[id(first)]
            touched = touches(self.phase, region.body, region)
            if meet(self.waits.open, touched):
                before = self.waits.open
                self.waits.wait_for(touched)
                self.waits.open &= before

    def alike(self, statement: Statement) -> None:
        """Write what needs no thread of its own: all do it, or the first if others see it."""
        touched = touches(self.phase, (statement,))
        self.waits.wait_for(touched)
        is_seen = self.phase.threads > 1 and any(touch.is_write for touch in touched)
        with self.code.branch(f"{self.dialect.thread} == 0" if is_seen else ""):
            self.threads.statement(statement)

    def again(self, loop: Loop) -> None:
        """Treat what is open after a loop's body as open before it, since it runs several times."""
        waits = self.waits
        while True:
            before = waits.open
            with self.code.aside():
                self.block(loop.body)
            waits.begun = False
            waits.open = before | turned(waits.open, loop.name)
            if waits.open == before:
                break
