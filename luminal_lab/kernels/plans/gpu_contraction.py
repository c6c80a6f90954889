"""How sums of products (matmuls, convolutions) run on a GPU: in tiles of tiles.

    c[i, j] = sum k: a[i, k] * b[k, j]

A block computes a tile of the result. It copies some steps of the sum into shared memory, rows of
one operand and columns of the other; from there each thread multiplies a few rows with a few
columns, and keeps their sums in its registers. If tensor units support the dtype, warps have tiles
of sums instead of threads.

On sm_90a, four warps multiply 16-bit floats together, 64 rows at once, straight from shared memory.
Tiles are copied in bulk: sizes must be numbers that tiles divide, and operands must lie in memory
as rows of k, or b as rows of columns. Other products run on single warps, and their source says
why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.gpu import DECLARED, GPU
from luminal_lab.kernels.nest.contraction import array_of, contraction_of, loops_of, sum_in
from luminal_lab.kernels.nest.sizes import about, at_most, bytes_in, iterations, many, stride
from luminal_lab.kernels.plans.match import reads
from luminal_lab.kernels.plans.tiler import BYTES, Tiler, axes_of, placed, shared_out
from luminal_lab.kernels.render.gpu.ahead import bulk_loops
from luminal_lab.kernels.render.gpu.bulk import bulk_copy
from luminal_lab.kernels.render.gpu.nest import GROUP_ROWS
from luminal_lab.kernels.render.gpu.tensor import GROUPED, WORDS, factors_of
from luminal_lab.kernels.steps.ahead import Ahead
from luminal_lab.kernels.steps.arrays import Copy, Pack, Widen
from luminal_lab.kernels.steps.choices import Choice
from luminal_lab.kernels.steps.kinds import Vector
from luminal_lab.kernels.steps.levels import AXES, Level
from luminal_lab.kernels.steps.loops import Split
from luminal_lab.kernels.steps.schedule import Handle, Scheduling

LEAST = 16
"""From this many rows and columns on, a contraction is worth tiles."""
THREADS = (
    Level("block", "i j", "block"),
    Level("step", "k"),
    Level("thread", "i j", "thread"),
    Level("own", "k"),
    Level("own", "i"),
    Level("turn", "j"),
    Level("own", "j"),
)
"""A thread has some rows, and columns in fours; the next fours belong to its neighbours."""
TENSOR = (
    Level("block", "i j", "block"),
    Level("step", "k"),
    Level("warp", "i j", "thread"),
    Level("part", "k", "unroll"),
    Level("tile", "i j", "unroll"),
    Level("own", "i j k", "tensor"),
)
"""Each warp has tiles of the tensor units."""
GROUPS = (
    Level("block", "i j", "block"),
    Level("step", "k"),
    Level("group", "i", "thread"),
    Level("own", "i j", "tensor"),
    Level("own", "k"),
)
"""Each group of four warps has 64 rows of a block's tile."""


class Shape(NamedTuple):
    """The sizes of tiles."""

    rows: int
    """The rows of a block's tile, and of a thread's or a warp's."""
    own_rows: int
    columns: int
    own_columns: int
    depth: int
    """The number of steps of the sum in shared memory at once."""

    @property
    def parts(self) -> int:
        """The number of threads, or warps, in a block."""
        return (self.rows // self.own_rows) * (self.columns // self.own_columns)


BY_THREADS = (
    Shape(128, 8, 128, 8, 16),
    Shape(64, 4, 128, 8, 16),
    Shape(64, 4, 64, 4, 16),
    Shape(32, 2, 64, 4, 16),
    Shape(32, 2, 32, 2, 32),
)
"""The tiles to choose from, the largest first."""
BY_TENSOR = (
    Shape(128, 64, 128, 32, 32),
    Shape(64, 32, 128, 32, 32),
    Shape(64, 32, 64, 32, 32),
    Shape(32, 16, 64, 16, 32),
    Shape(16, 16, 32, 8, 32),
)
"""The tiles of blocks and warps for tensor units."""
DEPTH = 64
"""The steps of the sum in a tile of four warps: 128 bytes of 16-bit floats."""
BY_GROUPS = (128, 128), (128, 64), (64, 128), (64, 64)
"""The rows and columns of their tiles, the largest first."""
OLD = "sm_70", "sm_72", "sm_75"
"""Architectures with tensor units for f16 alone, and without copies that overlap other work."""
EIGHT = 8
"""How many elements stay free between rows if each lane reads from a different row."""
AHEAD = Choice("ahead", 2, 1)
"""How many steps ahead operands are copied, if there is room for them."""


@dataclass
class GPUProduct:
    """A contraction worth tiles: one loop each over its rows, its columns and its sum."""

    scheduling: Scheduling
    gpu: GPU
    batches: float
    """The number of products in the batch."""
    axes: Mapping[str, str]
    left: str
    """The operand with the rows."""
    right: str

    @property
    def word(self) -> str | None:
        """The tensor units' word for the dtype, if they support it."""
        factors = factors_of(sum_in(self.scheduling.nest, self.axes["k"]).term)
        if len(factors) != 2 or len({factor.dtype for factor in factors}) != 1:
            return None
        word, gpu = WORDS.get(factors[0].dtype), self.gpu
        if word not in gpu.dialect.tile.depth or (word == "tf32" and not gpu.tf32):
            return None
        return word if gpu.arch not in OLD or word == "f16" else None


def contraction_plan(scheduling: Scheduling, gpu: GPU) -> bool:
    """Cut a contraction into tiles; return whether the nest is one worth them, or ends in one."""
    product = product_of(scheduling, gpu)
    if product is None:
        return scheduling.declined(f"the nest is not a product of floats, {LEAST} or more each way")
    (_by_threads if product.word is None else _by_tensor)(product)
    return True


def product_of(scheduling: Scheduling, gpu: GPU) -> GPUProduct | None:
    """Merge the loops of the rows, the columns and the sum of a contraction worth tiles."""
    contraction = contraction_of(scheduling.nest, alone=False)
    if contraction is None and scheduling.repeats():
        contraction = contraction_of(scheduling.nest, alone=False)
    if contraction is None or not contraction.right.dtype.is_float:
        return None
    parts = contraction.rows, contraction.columns, contraction.folds
    if any(at_most(iterations(loops)) < LEAST for loops in parts):
        return None
    axes, left, right = axes_of(scheduling, contraction, 2 * LEAST, 2 * LEAST)
    batches = many(loop for loop in loops_of(scheduling.nest) if loop.name not in axes.values())
    return GPUProduct(scheduling, gpu, batches, axes, array_of(left), array_of(right))


def _shape(product: GPUProduct, shapes: Sequence[Shape], own: str) -> Shape:
    """Choose the largest tiles that are numerous enough for all cores."""
    loops = product.scheduling.nest.loops
    rows, columns = (about(loops[product.axes[axis]].size) for axis in "ij")
    usual = shapes[-1]
    for shape in shapes:
        down, across = -(-rows // shape.rows), -(-columns // shape.columns)
        waste = (down * shape.rows / rows) * (across * shape.columns / columns)
        if down * across * product.batches >= product.gpu.cores and waste <= 1.5:
            usual = shape
            break
    fields = zip(Shape._fields, usual, zip(*shapes, strict=True), strict=True)
    choices = ((Choice(n.replace("own", own), *sorted({*of})), size) for n, size, of in fields)
    return Shape(*(product.scheduling.choose(*choice) for choice in choices))


def _by_threads(product: GPUProduct) -> None:
    """Give each thread a tile of sums in registers."""
    scheduling, shape = product.scheduling, _shape(product, BY_THREADS, "thread")
    four = min(4, shape.own_columns)
    turn = shape.columns // (shape.own_columns // four)
    cuts = {
        "k": {"step": shape.depth},
        "i": {"block": shape.rows, "thread": shape.own_rows},
        "j": {"block": shape.columns, "turn": turn, "thread": four},
    }
    tiler = Tiler(scheduling, product.axes, THREADS, cuts)
    tiler.apart()
    copies = copied(tiler, product, Pack, "ki", ("k", tiler.name("j", "turn", "sum"), "j"))
    scheduling.run("unroll", [*tiler.part("sum").inner[3:], tiler.name("k", "own")])
    for copy in copies:
        shared_out(scheduling, copy, shape.parts)
    placed(scheduling, "shared", "rows", "columns")
    # A thread stores neighbours in one access, and unrolls the loops over its results.
    *loops, last = tiler.part("end").inner[2:]
    is_vector = len(loops) == 2 and scheduling.attempted(Vector((last,)))
    scheduling.run("unroll", loops if is_vector else [*loops, last])


def _by_tensor(product: GPUProduct) -> None:
    """Give each warp tiles of the tensor units."""
    scheduling, gpu, shape = product.scheduling, product.gpu, _shape(product, BY_TENSOR, "warp")
    depth, (rows, columns) = gpu.dialect.tile.depth[product.word or ""], gpu.dialect.tile.sums
    cuts = {
        "k": {"step": 16 if product.word == "tf32" else shape.depth, "part": depth},
        "i": {"block": shape.rows, "warp": shape.own_rows, "tile": rows},
        "j": {"block": shape.columns, "warp": shape.own_columns, "tile": columns},
    }
    tiler = Tiler(scheduling, product.axes, TENSOR, cuts)
    tiler.apart()
    is_down = _is_down(tiler, product)
    for copy in copied(tiler, product, Copy, "ik", "kj" if is_down else "jk"):
        shared_out(scheduling, copy, 32 * shape.parts)
    placed(scheduling, "shared", "rows", "columns")
    types = scheduling.nest.types
    free = {array: BYTES // types[array].dtype.itemsize for array in ("rows", "columns")}
    scheduling.do(Widen("rows", 3, free["rows"]))
    scheduling.do(Widen("columns", 2, EIGHT) if is_down else Widen("columns", 3, free["columns"]))
    if gpu.dialect.copies_ahead and gpu.arch not in OLD:
        _ahead(tiler, "shared", min(DECLARED, gpu.shared))


def copied(
    tiler: Tiler, product: GPUProduct, step: type[Pack], rows: Sequence[str], columns: Sequence[str]
) -> list[Handle]:
    """Copy the steps of both operands that a block's tiles need; return the copying loops."""
    into = tiler.part("sum")
    left, right = (tuple(tiler.axis(n) if n in AXES else n for n in of) for of in (rows, columns))
    steps = step(product.left, into, left, "rows"), step(product.right, into, right, "columns")
    return [tiler.scheduling.do(pack).loops[0] for pack in steps]


def _is_down(tiler: Tiler, product: GPUProduct) -> bool:
    """Return whether neighbouring columns are neighbours in their operand."""
    nest, loop = tiler.scheduling.nest, tiler.name("j", "own", "sum")
    column_reads = reads(nest, tiler.part("sum"), product.right)
    return all(stride(nest, read, loop) == 1 for read in column_reads)


def _ahead(tiler: Tiler, space: str, most: int) -> bool:
    """Copy the next steps of the sum during the current ones, as many as there is room for."""
    scheduling = tiler.scheduling

    def ahead(count: int) -> None:
        scheduling.do(Ahead(tiler.name("k", "step"), scheduling.choose(AHEAD, count)))
        for loop in bulk_loops(scheduling.nest.body):
            bulk_copy(scheduling.nest, loop)
        if bytes_in(scheduling.nest.body, space) > most:
            raise ScheduleError("there is no room for the next steps")

    return scheduling.first(ahead, scheduling.options(AHEAD))


def group_plan(scheduling: Scheduling, gpu: GPU) -> bool:
    """Cut a product into tiles of four warps; return whether the nest and the GPU allow it."""
    product = product_of(scheduling, gpu) if gpu.dialect.tile.group else None
    if product is None or product.word not in GROUPED:
        return scheduling.declined("four warps together take no such product on this GPU")
    if scheduling.first(partial(_by_groups, product), _group_tiles(product)):
        return True
    raise ScheduleError(f"nest {scheduling.nest.name}: its operands do not lie as tiles are copied")


def _group_tiles(product: GPUProduct) -> list[tuple[int, int]]:
    """Return the tiles that are numerous enough for all cores, or else for some."""
    nest, cores = product.scheduling.nest, product.gpu.cores
    sizes = [nest.loops[product.axes[axis]].size for axis in "ijk"]
    rows, columns, depth = (size if isinstance(size, int) else 0 for size in sizes)
    down, across = BY_GROUPS[-1]
    counts = {
        (tall, wide): rows // tall * (columns // wide) * int(product.batches)
        for tall, wide in BY_GROUPS
        if rows % tall == 0 and columns % wide == 0
    }
    least = counts.get(BY_GROUPS[-1], 0)
    is_shallow, is_few = depth % DEPTH or depth < 2 * DEPTH, least < cores // 4
    refusals = {
        "its sizes, {}, {} and {}, are not all known".format(*sizes): not rows * columns * depth,
        f"{rows} rows are not whole tiles of {down}": rows % down,
        f"{columns} columns are not whole tiles of {across}": columns % across,
        f"{depth} steps of the sum are not two or more times {DEPTH}": is_shallow,
        f"it has {least} tiles of {down} by {across}, which {cores} cores would wait for": is_few,
    }
    for why in [why for why, is_refused in refusals.items() if is_refused]:
        raise ScheduleError(f"nest {nest.name}: {why}")
    fitting = [tile for tile, count in counts.items() if count >= cores // 4]
    return sorted(fitting, key=lambda tile: counts[tile] < cores)


def _by_groups(product: GPUProduct, tile: tuple[int, int]) -> None:
    """Give each group of four warps tiles of the tensor units."""
    scheduling, gpu = product.scheduling, product.gpu
    choices = Choice("rows", 64, 128), Choice("columns", 64, 128)
    rows, columns = map(scheduling.choose, choices, tile)
    deep = gpu.dialect.tile.depth[product.word or ""]
    of_rows = {"block": rows, "group": GROUP_ROWS}
    cuts = {"k": {"step": DEPTH}, "i": of_rows, "j": {"block": columns}}
    tiler = Tiler(scheduling, product.axes, GROUPS, cuts)
    tiler.apart()
    group, k = tiler.part("sum"), tiler.name("k", "own")
    copies = copied(tiler, product, Copy, "ik", "kj" if _is_down(tiler, product) else "jk")
    part, lane = scheduling.do(Split((k,), (deep,), ("part", "lane"))).loops
    scheduling.reorder([group, part, *(name for name in group.inner[1:] if name != part)])
    scheduling.run("unroll", [part])
    scheduling.run("tensor", [lane])
    placed(scheduling, "tiles", "rows", "columns")
    scheduling.run("bulk", [loop for copy in copies for loop in copy.inner])
    if not _ahead(tiler, "tiles", gpu.shared // 2):  # so that two blocks fit
        raise ScheduleError("the sum has too few steps, or there is no room to copy them ahead")
