"""How products of 16-bit floats run where four warps multiply together: sm_90a's.

    c[i, j] = sum k: a[i, k] * b[k, j]

A block computes a tile of the result, each four warps 64 rows of it. Tiles of both operands are
copied into shared memory at one go, some steps of the sum ahead; four warps read them from there by
themselves. Sizes are numbers that tiles divide, and operands lie in memory as rows of k, or b as
rows of columns. What is otherwise is multiplied by single warps (gpu_contraction.py), and its
source says why.
"""

from __future__ import annotations

from typing import NamedTuple

from luminal_lab.core.op import size_of
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.gpu import GPU
from luminal_lab.kernels.plans.gpu_contraction import (
    AHEAD,
    Product,
    copied,
    neighbours,
    placed,
    product_of,
)
from luminal_lab.kernels.plans.tiler import Level, Tiler, reordered, run
from luminal_lab.kernels.render.gpu.ahead import bulk_loops
from luminal_lab.kernels.render.gpu.bulk import bulk_copy
from luminal_lab.kernels.render.gpu.nest import GROUP_ROWS
from luminal_lab.kernels.render.gpu.tensor import GROUPED
from luminal_lab.kernels.steps.ahead import Ahead
from luminal_lab.kernels.steps.arrays import Copy
from luminal_lab.kernels.steps.choices import Choice
from luminal_lab.kernels.steps.loops import Split
from luminal_lab.kernels.steps.schedule import Scheduling
from luminal_lab.kernels.steps.step import level

DEPTH = 64
"""The steps of the sum in a tile: of 16-bit floats 128 bytes."""
GROUPS = (
    Level("block", "i j", "block"),
    Level("step", "k"),
    Level("group", "i", "thread"),
    Level("own", "i j", "tensor"),
    Level("own", "k"),
)
"""Each four warps have 64 rows of a block's tile."""


class Tile(NamedTuple):
    """What a block computes."""

    rows: int
    columns: int


TILES = Tile(128, 128), Tile(128, 64), Tile(64, 128), Tile(64, 64)
"""The tiles to choose from, the largest first."""


def group_plan(made: Scheduling, gpu: GPU) -> bool:
    """Cut a product into tiles of four warps; return whether the nest and the GPU are for that."""
    if not gpu.dialect.tile.group:
        return False
    product = product_of(made, gpu)
    word = None if product is None else product.word
    if product is None or word not in GROUPED:
        return False
    for tile in _tiles(product):
        with made.attempt() as attempt:
            rows = made.choose(Choice("rows", 64, 128), tile.rows)
            columns = made.choose(Choice("columns", 64, 128), tile.columns)
            _by_groups(product, Tile(rows, columns), gpu.dialect.tile.depth[word])
        if attempt.held:
            return True
    raise ScheduleError(f"nest {made.nest.name}: its operands do not lie as tiles are copied")


def _tiles(product: Product) -> list[Tile]:
    """Return the tiles of which there are enough for the cores, or for some of them."""
    nest, cores = product.made.nest, product.gpu.cores
    rows, columns, depth = (nest.loops[product.axes[axis]].size for axis in "ijk")
    if not isinstance(rows, int) or not isinstance(columns, int) or not isinstance(depth, int):
        why = f"its sizes, {rows}, {columns} and {depth}, are not all known"
        raise ScheduleError(f"nest {nest.name}: {why}")
    least = TILES[-1]
    for size, what, by in ((rows, "rows", least.rows), (columns, "columns", least.columns)):
        if size % by:
            raise ScheduleError(f"nest {nest.name}: {size} {what} are not whole tiles of {by}")
    if depth % DEPTH or depth < 2 * DEPTH:
        raise ScheduleError(
            f"nest {nest.name}: {depth} steps of the sum are not two or more times {DEPTH}"
        )
    counts = {
        one: rows // one.rows * (columns // one.columns) * int(product.batches)
        for one in TILES
        if rows % one.rows == 0 and columns % one.columns == 0
    }
    if counts[least] < cores // 4:
        raise ScheduleError(
            f"nest {nest.name}: it has {counts[least]} tiles of {least.rows} by {least.columns}, "
            f"which {cores} cores would wait for"
        )
    enough = [one for one, count in counts.items() if count >= cores]
    fewer = [one for one, count in counts.items() if cores > count >= cores // 4]
    return enough + fewer


def _by_groups(product: Product, tile: Tile, deep: int) -> None:
    """Give each four warps tiles of the tensor units."""
    made = product.made
    cuts = {
        "k": {"step": DEPTH},
        "i": {"block": tile.rows, "group": GROUP_ROWS},
        "j": {"block": tile.columns},
    }
    tiler = Tiler(made, product.axes, GROUPS, cuts)
    tiler.apart()
    group, k = tiler.part("sum"), tiler.name("k", "own")
    is_down = neighbours(made.nest, group, product.right, tiler.name("j", "own", "sum"))
    copies = copied(tiler, product, Copy, is_down=is_down)
    words = "part", "lane"
    made.do(Split((k,), (deep,), words))
    part, lane = (level(k, word) for word in words)
    reordered(made, [group, part, *(name for name in group.inner[1:] if name != part)])
    run(made, "unroll", [part])
    run(made, "tensor", [lane])
    placed(made, "tiles")
    run(made, "bulk", [loop for copy in copies for loop in copy.inner])
    for count in made.options(AHEAD):
        with made.attempt() as attempt:
            _copied_ahead(product, tiler.name("k", "step"), count)
            made.choose(AHEAD, count)
        if attempt.held:
            return
    raise ScheduleError("the sum has too few steps, or there is no room to copy them ahead")


def _copied_ahead(product: Product, k: str, count: int) -> None:
    """Copy tiles ahead, if each is one copy, and there is room for two blocks."""
    made = product.made
    made.do(Ahead(k, count))
    for loop in bulk_loops(made.nest.body):
        bulk_copy(made.nest, loop)
    tiles = [one.type for one in made.nest.locals.values() if one.space == "tiles"]
    sizes = [(size_of(type.shape), type.dtype.itemsize) for type in tiles]
    if 2 * sum(size * item for size, item in sizes if isinstance(size, int)) > product.gpu.shared:
        raise ScheduleError("two blocks have no room for their tiles")
