"""How products of 16-bit floats run where four warps multiply together: sm_90a's.

    c[i, j] = sum k: a[i, k] * b[k, j]

A block computes a tile of the result, each four warps 64 rows of it. Tiles of both operands are
copied into shared memory at one go, some steps of the sum ahead; four warps read them from there by
themselves. Sizes are numbers that tiles divide, and operands lie in memory as rows of k, or b as
rows of columns. What is otherwise is multiplied by single warps (gpu_contraction.py), and its
source says why.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from luminal_lab.core.op import size_of
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.gpu import GPU
from luminal_lab.kernels.nest.nest import Loop, reads_of
from luminal_lab.kernels.nest.sizes import about, perfect
from luminal_lab.kernels.plans.gpu_contraction import Tiling, tensor_word, tiling_of
from luminal_lab.kernels.plans.gpu_turns import attempt, reordered
from luminal_lab.kernels.render.gpu.ahead import bulk_loops
from luminal_lab.kernels.render.gpu.bulk import bulk_copy
from luminal_lab.kernels.render.gpu.nest import GROUP_ROWS
from luminal_lab.kernels.render.gpu.tensor import GROUPED
from luminal_lab.kernels.steps.ahead import Ahead
from luminal_lab.kernels.steps.arrays import Copy, Place
from luminal_lab.kernels.steps.binding import Bind
from luminal_lab.kernels.steps.kinds import Unroll
from luminal_lab.kernels.steps.loops import Fission
from luminal_lab.kernels.steps.schedule import Scheduling

DEPTH = 64
"""The steps of the sum in a tile: of 16-bit floats 128 bytes."""
AHEAD = 2, 1
"""How many steps ahead tiles are copied, the most that there is room for."""


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
    tiling = tiling_of(made, gpu)
    word = None if tiling is None else tensor_word(made.nest, tiling.k, gpu)
    if tiling is None or word not in GROUPED:
        return False
    deep = gpu.dialect.tile.depth[word]
    for tile in _tiles(tiling, gpu):
        if attempt(made, lambda tile=tile: _by_groups(tiling, tile, deep)):
            return True
    raise ScheduleError(f"nest {made.nest.name}: its operands do not lie as tiles are copied")


def _tiles(tiling: Tiling, gpu: GPU) -> list[Tile]:
    """Return the tiles of which there are enough for the cores, or for some of them."""
    nest = tiling.made.nest
    rows, columns, depth = (nest.loops[name].size for name in (tiling.i, tiling.j, tiling.k))
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
    batches = prod(about(nest.loops[name].size) for name in tiling.outer)
    counts = {
        one: rows // one.rows * (columns // one.columns) * int(batches)
        for one in TILES
        if rows % one.rows == 0 and columns % one.columns == 0
    }
    if counts[least] < gpu.cores // 4:
        raise ScheduleError(
            f"nest {nest.name}: it has {counts[least]} tiles of {least.rows} by {least.columns}, "
            f"which {gpu.cores} cores would wait for"
        )
    enough = [one for one, count in counts.items() if count >= gpu.cores]
    fewer = [one for one, count in counts.items() if gpu.cores > count >= gpu.cores // 4]
    return enough + fewer


def _by_groups(tiling: Tiling, tile: Tile, deep: int) -> None:
    """Make the steps."""
    made = tiling.made
    left, right = (next(iter(reads_of(one)))[0] for one in (tiling.left, tiling.right))
    k_o, k_b = tiling.cut(tiling.k, DEPTH)
    i_o, i_b = tiling.cut(tiling.i, tile.rows)
    j_o, j_b = tiling.cut(tiling.j, tile.columns)
    i_w, i_i = tiling.cut(i_b, GROUP_ROWS)
    reordered(
        made, [*tiling.outer, i_o, j_o, i_w, i_i, j_b], [loop.name for loop in tiling.loops()]
    )
    for name in (j_b, i_i, i_w):
        made.do(Fission(name))
    for name in [*tiling.outer, i_o, j_o]:
        made.do(Bind(name, "block"))
    _, sums, ends = [one for one in made.nest.loops[j_o].body if isinstance(one, Loop)]
    w, i, j = f"{i_w}_2", f"{i_i}_2", f"{j_b}_2"
    reordered(made, [k_o, w, i, j, k_b], [loop.name for loop in perfect(sums)])
    is_down = tiling.neighbours(sums.name, right, j)
    copies = [
        tiling.copied(left, w, (w, i, k_b), "rows", Copy),
        tiling.copied(right, w, (k_b, j) if is_down else (j, k_b), "columns", Copy),
    ]
    k_s, k_i = tiling.cut(k_b, deep)
    reordered(made, [w, k_s, i, j, k_i], [w, i, j, k_s, k_i])
    made.do(Unroll(k_s))
    for path, count in (([i_w, i_i, j_b], 2), ([w, k_s, i, j, k_i], 3), (_names(ends), 2)):
        _bound(made, path, count)
    _copied(tiling, copies, k_o)


def _bound(made: Scheduling, path: list[str], count: int) -> None:
    """Have each four warps run an outermost loop's iteration, and together the innermost ones."""
    made.do(Bind(path[0], "thread"))
    for name in path[-count:]:
        made.do(Bind(name, "tensor"))


def _copied(tiling: Tiling, copies: list[str], k: str) -> None:
    """Copy tiles by bulk copies, as far ahead as there is room."""
    made = tiling.made
    for local in list(made.nest.locals.values()):
        if local.space in ("scratch", "memory"):
            space = "tiles" if local.name in ("rows", "columns") else "registers"
            made.do(Place(local.name, space))
    for top in copies:
        for loop in [*perfect(made.nest.loops[top])]:
            made.do(Bind(loop.name, "bulk"))
    for count in AHEAD:
        if attempt(made, lambda count=count: _copied_ahead(tiling, k, count)):
            return
    raise ScheduleError(f"{k} has too few steps, or there is no room to copy them ahead")


def _copied_ahead(tiling: Tiling, k: str, count: int) -> bool:
    """Copy tiles ahead; return whether each is one copy, and there is room for two blocks."""
    made = tiling.made
    made.do(Ahead(k, count))
    tiles = [one for one in made.nest.locals.values() if one.space == "tiles"]
    sizes = [(size_of(one.type.shape), one.type.dtype.itemsize) for one in tiles]
    for loop in bulk_loops(made.nest.body):
        bulk_copy(made.nest, loop)
    return (
        2 * sum(size * item for size, item in sizes if isinstance(size, int)) <= tiling.gpu.shared
    )


def _names(top: Loop) -> list[str]:
    return [loop.name for loop in perfect(top)]
