"""How a pass with sums of products runs on a CPU: rows against blocks, all within the caches.

A task has some rows. In each block, sums of products hold tiles of sums in registers, as those of
matmuls do, and everything else runs along the block row by row. Columns that many rows meet are
copied once for all of them, into the order in which tiles read them.

    for i: for j.block: s = q · k; top, weights; acc += s · v
    →  for i.task: for j.block: for i.own: s = …;  for i.own: top;  …  for i.own: acc += …
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from luminal_lab.core.printer import unique
from luminal_lab.kernels.definition.running import by_column
from luminal_lab.kernels.definition.terms import Read, free, read_by
from luminal_lab.kernels.nest.contraction import sum_in
from luminal_lab.kernels.nest.nest import Nest, Set, accesses
from luminal_lab.kernels.nest.sizes import stride
from luminal_lab.kernels.plans.cpu_contraction import VECTORS
from luminal_lab.kernels.plans.match import BlockProduct, PassNest, pass_of
from luminal_lab.kernels.plans.tiler import PARTS, Tiler, in_registers, rows_last
from luminal_lab.kernels.steps.arrays import Copy, Hold, Pack, Stage
from luminal_lab.kernels.steps.choices import Choice
from luminal_lab.kernels.steps.kinds import Round, Unroll
from luminal_lab.kernels.steps.levels import Level
from luminal_lab.kernels.steps.loops import Fission, Reorder, Split
from luminal_lab.kernels.steps.schedule import Handle, Scheduling
from luminal_lab.kernels.steps.step import around, part, within
from luminal_lab.kernels.steps.stopping import shorten
from luminal_lab.machines.machine import Machine

ROWS = Choice("rows", 96, 24, 48, 192)
"""The number of rows in a task."""
HEIGHT = Choice("tile_rows", 6, 4, 8, 12)
"""The number of rows in a tile of sums in registers."""
TILES = Level("tile", "i j"), Level("", "k"), Level("row", "i"), Level("own", "j")
"""The tiles of sums that start anew in each block; their columns are cut when they are copied."""

_Tiles: TypeAlias = tuple[BlockProduct, int, Handle, Handle]
"""A product, the size of a vector, the loop over tiles of its columns, and the one in a tile."""


def pass_plan(scheduling: Scheduling, machine: Machine) -> bool:
    """Schedule a pass with sums of products; return whether the nest is one."""
    nest = pass_of(scheduling.nest)
    if nest is None:
        return scheduling.declined("the nest is not a pass with sums of products, as attention is")
    row = rows_last(scheduling, nest)
    with scheduling.attempt():
        outer = [name for name in nest.path if name != row]
        scheduling.run("parallel", [scheduling.merge(outer)] if outer else [])
    if row is not None:
        _together(scheduling, nest, row, machine)
    else:  # each row has its own columns, or there is only one row
        shorten(scheduling, scheduling.loop(nest.block))
    scheduling.simd(nest.block)
    scheduling.run("parallel", [top for top in scheduling.tops if top.loop.kind == "for"])
    return True


def _together(scheduling: Scheduling, nest: PassNest, row: Handle, machine: Machine) -> None:
    """Schedule rows that meet the same columns together, some at a time."""
    block, rows, size = scheduling.loop(nest.block), scheduling.choose(ROWS), row.size
    # All columns are copied only if many rows are known to meet them.
    is_shared = isinstance(size, int) and size > rows
    row = scheduling.do(Split((row,), (rows,), ("task", "own"))).loops[1]
    # for j.task: for j.own: (all of a row)   →   for j.task: … for block: for j_block.own: (a part)
    scheduling.do(Fission((row,)))
    own = scheduling.loop(part(row, "block"))
    for loop in scheduling.loop(around(scheduling.nest, own)[-1].name).parts:
        if loop != own:
            scheduling.attempted(Round((loop,)))  # the last tile of rows is a whole one
    scheduling.do(Reorder((block, own)))
    all_tiles = [tiles for product in nest.products for tiles in _cut(scheduling, product, machine)]
    path = [loop.name for loop in around(scheduling.nest, block)]
    for product, _, tile, column in all_tiles:
        if not product.grows or not _is_plain(scheduling.nest, product, column):
            outer = (*(name for name in path if name in free(product.right)), block)
            before, axes = (path[0], outer) if is_shared else (own, ())
            read, axes = min(read_by(product.right)), (*axes, tile, product.fold, column)
            scheduling.do(Pack(read, before, axes, unique(f"{read}_tiles", scheduling.nest.names)))
    shorten(scheduling, block)
    scheduling.do(Fission((own,)))
    _hold(scheduling, block)
    for tiles in all_tiles:
        schedule = _grow if tiles[0].grows else _start
        schedule(scheduling, tiles)


def _cut(scheduling: Scheduling, product: BlockProduct, machine: Machine) -> Iterator[_Tiles]:
    """Cut the columns of a product into tiles; those of growing sums must all be whole."""
    lanes, width = machine.lanes(product.right.dtype.itemsize), scheduling.loop(product.column).size
    wide = scheduling.choose(VECTORS, 2) * lanes
    widths = [by for by in (wide, lanes) if isinstance(width, int) and width % by == 0]
    for by in widths[:1] if product.grows else (wide,):
        tile, column = scheduling.do(Split((product.column,), (by,), ("tile", "own"))).loops
        yield product, lanes, tile, column


def _hold(scheduling: Scheduling, block: Handle) -> None:
    """Let sums and maxima of a row be scalars in the loops along a block."""
    for rows in block.parts:
        for keys in rows.parts if len(rows.loop.body) == 1 else ():
            for s in keys.loop.body:
                if isinstance(s, Set) and s.how != "=" and len(s.index) == 1:
                    scheduling.do(Hold(s.name, keys, f"{s.name}_row"))


def _start(scheduling: Scheduling, tiles: _Tiles) -> None:
    """Schedule sums of products that start anew in each block."""
    (_, _, fold, _, left, _), lanes, tile, column = tiles
    block, rows = (loop.name for loop in around(scheduling.nest, tile)[-2:])
    (sums,) = {a.name for a in accesses((scheduling.nest.loops[fold],)) if a.how == "+="}
    axes = {"i": rows, "j": column, "k": fold}
    cuts = {"i": {"tile": scheduling.choose(HEIGHT)}}
    tiler = Tiler(scheduling, axes, TILES, cuts, [fold], masked=False, is_inner=True)
    tiler.apart()
    (i_start, i, i_end), (j_start, j, j_end) = (
        [tiler.name(axis, word, of) for of in PARTS] for axis, word in (("i", "row"), ("j", "own"))
    )
    panels, into = (tiler.name("i", "tile"), fold, i), unique("rows", scheduling.nest.names)
    scheduling.do(Pack(min(read_by(left)), block, panels, into))
    scheduling.do(Round((i_start, i, j_start, j)))
    in_registers(scheduling, (i_start, i), (j_start, j), lanes)
    used = {use.name for use in accesses(scheduling.nest.loops[j_end].body) if use.how == "read"}
    for name in sorted(used - {sums}):
        scheduling.do(Copy(name, i_end, (i_end, j_end), f"{name}_tile"))
    scheduling.do(Round((i_end, j_end)))
    with scheduling.attempt() as attempt:
        in_registers(scheduling, (i_end,), (j_end,), lanes)
    if not attempt.held:
        # Other work than sums and products reads them from an array, not from registers.
        tile_i, tile_j = scheduling.do(Copy(sums, i_end, (i_end, j_end), "tile")).loops
        in_registers(scheduling, (tile_i,), (tile_j,), lanes)
        scheduling.do(Unroll((i_end,)))


def _grow(scheduling: Scheduling, tiles: _Tiles) -> None:
    """Schedule sums of products that continue from block to block."""
    (array, _, fold, *_), lanes, tile, column = tiles
    rows = around(scheduling.nest, fold)[-1].name
    i_tile, i = scheduling.do(Split((rows,), (scheduling.choose(HEIGHT),), ("tile", "row"))).loops
    scheduling.reorder([i_tile, tile, fold, i, column])
    scheduling.do(Round((i,)))
    into = unique("mixed", scheduling.nest.names)
    loops = scheduling.do(Stage(array, fold, (i, column), into)).loops
    in_registers(scheduling, (*loops[::2], i), (*loops[1::2], column), lanes)


def _is_plain(nest: Nest, product: BlockProduct, column: str) -> bool:
    """Return whether columns are contiguous floats, so that reading them beats a copy."""
    _, right = by_column(sum_in(nest, product.fold).term, column)
    if not isinstance(right, Read) or right.dtype.is_half:
        return False
    shape = nest.types[right.buffer].shape
    is_within = all(within(dim, size) for dim, size in zip(right.index, shape, strict=True))
    strides = stride(nest, right, product.fold), stride(nest, right, column)
    return is_within and strides == (shape[-1], 1)
