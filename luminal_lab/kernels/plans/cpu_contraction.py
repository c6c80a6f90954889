"""How sums of products (matmuls, convolutions) run on a CPU: in tiles that fit the registers.

    c[i, j] = sum k: a[i, k] * b[k, j]
    y[o, i, j] = sum c, p, q: w[o, c, p, q] * x[c, i + p, j + q]

A tile is a few rows by two vectors of columns; along the sum, each step multiplies a number from
each row with a vector of the columns. Columns are copied first into the order in which tiles read
them. Rows are read in place if the sum runs along their memory, and are otherwise copied as well.
If both operands run along the sum, the shorter one gives the columns.

Tasks are blocks of columns, each of which copies its own; if they are too few for equal shares, or
too few and the rows too many for the cache, tasks are blocks of rows, and an earlier phase copies
the columns. What has few bits is widened as it is copied: once for all tiles, in memory's order.

The rows of a convolution are windows, and its columns the axis that only the other operand has (the
output channels). Windows overlap, so they are read in place. If they reach beyond the array, it is
first copied with a border; if the cache does not hold the image, each task copies the lines of its
own windows. Where a sum is brief or windows lie apart, neighbouring windows are the columns, and in
place, too: results lie in registers as they do in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import NamedTuple

from luminal_lab.kernels.definition.terms import Read, Term
from luminal_lab.kernels.nest.contraction import (
    Contraction,
    array_of,
    contraction_of,
    operands,
    sum_in,
)
from luminal_lab.kernels.nest.nest import Set, accesses, walk
from luminal_lab.kernels.nest.pairs import halves_in
from luminal_lab.kernels.nest.sizes import about, is_along, iterations, many, stride
from luminal_lab.kernels.plans.tiler import PARTS, Tiler, axes_of, in_registers
from luminal_lab.kernels.steps.arrays import Copy, Pad
from luminal_lab.kernels.steps.choices import Choice
from luminal_lab.kernels.steps.kinds import MOST_UNROLLED, Clamp, Round
from luminal_lab.kernels.steps.levels import Level
from luminal_lab.kernels.steps.loops import Split
from luminal_lab.kernels.steps.schedule import Scheduling
from luminal_lab.kernels.steps.step import copied
from luminal_lab.machines.machine import Machine

ROWS, WINDOWS, WIDEST, EVEN = 96, 24, 4, 1.25
"""The rows, or windows, of a task; its most tiles side by side, twice as many if the nearest cache
holds them; how uneven shares may be."""
HEIGHT, VECTORS = Choice("tile_rows", 4, 5, 6, 8, 10, 12, 24), Choice("tile_vectors", 1, 2, 4)
"""The rows of a tile, and its vectors of columns."""
BLOCK = Choice("block_tiles", 1, 2, 3, 4, 8, 16)
"""The number of tiles side by side in a task."""
DOT = Choice("dot", 1, 2)
"""How many products a lane adds up in one instruction."""
BY_ROWS, IN_PLACE, SWAPPED = (Choice(n, 0, 1) for n in ("row_tasks", "rows_in_place", "swapped"))
"""Whether tasks are blocks of rows; rows stay in place; the first operand gives the columns."""
FEW = Choice("few_rows", 16, 0)
"""No more rows than this read columns where they lie, all of them at once."""
TILES = Level("tile", "i j"), Level("", "k"), Level("own", "i j")
"""The levels below the blocks, which are blocks of rows or of columns."""
LINES, BORDER, COPIED = Choice("lines", 0, 2, 3, 4, 6, 12), 2, 0.05
"""How many lines of windows a task has, which copies them; about how many are around them; what the
copy of a line costs beside the work on it."""
BESIDE, BRIEF, SUMS = Choice("windows_beside", 0, 1), 256, 12
"""Whether windows are columns: in sums of fewer terms than this. A tile has as many sums in it."""
COPYING = 1.25
"""How many times the work of other plans a plan that does not copy windows may do."""
SHORT = 16
"""How many neighbours of a row are copied at once into columns."""
LEAST = 4
"""The least number of channels in a vector."""


class Tile(NamedTuple):
    """The tile of sums that registers hold at once."""

    height: int
    width: int
    lanes: int

    def covering(self, rows: float, columns: float) -> float:
        """Return how many sums are in the tiles that cover a result."""
        return ceil(rows / self.height) * self.height * ceil(columns / self.width) * self.width


class CPUProduct(NamedTuple):
    """A contraction to be cut into tiles, one loop each of its rows and columns."""

    scheduling: Scheduling
    machine: Machine
    tile: Tile
    rows: str
    columns: str
    folds: list[str]
    left: Term
    right: Term
    in_place: bool
    """Whether rows are read in place."""
    dot: int = 1
    """How many products a lane adds up in one instruction."""
    beside: bool = False
    """Whether columns are read in place, too."""
    outside: Sequence[str] = ()
    """The loops outside a copy that a task makes, and so outside all tiles."""


def contraction_plan(scheduling: Scheduling, machine: Machine, *, alone: bool = True) -> bool:
    """Cut a contraction into tiles; return whether the nest is one, or ends in one."""
    contraction = contraction_of(scheduling.nest, alone=alone)
    if contraction is None and scheduling.repeats():
        contraction = contraction_of(scheduling.nest, alone=alone)
    if contraction is None or not contraction.right.dtype.is_float:
        return scheduling.declined("the nest is not a product of matrices of floats")
    if few_rows(scheduling):
        return scheduling.declined("few rows meet columns that are side by side")
    tile = tile_of(machine, contraction.right)
    axes, left, right = axes_of(scheduling, contraction, 0, 2 * tile.width)
    k, j, i = axes.values()
    # The longer operand stays in place.
    are_along = is_along(scheduling.nest, left, k) and is_along(scheduling.nest, right, k)
    if scheduling.choose(SWAPPED, int(are_along and about(i.size) < about(j.size))):
        left, right, i, j = right, left, j, i
    halves, dot = halves_in(left, right, sum_in(scheduling.nest, k).term), 1
    if halves and is_along(scheduling.nest, left, k) and k.size % max(DOT.values) == 0:
        dot = scheduling.choose(DOT, machine.dot)
    if dot > 1:
        left, right = halves
    is_read = isinstance(left, Read) and stride(scheduling.nest, left, k) == 1
    in_place = bool(scheduling.choose(IN_PLACE, int(is_read)))
    rows = max(about(i.size), 1)
    block = ceil(rows / (ceil(rows / ROWS / machine.cores) * machine.cores))
    _cut(CPUProduct(scheduling, machine, tile, i, j, [k], left, right, in_place, dot), block)
    return True


def few_rows(scheduling: Scheduling) -> list[str]:
    """Return the loops over rows so few that it is best to read columns where they lie."""
    nest, contraction = scheduling.nest, contraction_of(scheduling.nest, alone=False)
    if contraction is None or not isinstance(right := contraction.right, Read):
        return []
    count, (*loops, column) = iterations(contraction.rows), contraction.loops
    is_beside = loops[-len(contraction.rows) :] == contraction.rows
    is_beside = is_beside and stride(nest, right, column.name) == 1
    is_apart = all(stride(nest, right, loop.name) not in (0, 1) for loop in contraction.folds)
    is_few = is_beside and is_apart and isinstance(count, int) and count <= FEW.values[0]
    return [loop.name for loop in contraction.rows if is_few and count <= scheduling.choose(FEW)]


def tile_of(machine: Machine, term: Term) -> Tile:
    """Return the tile that the registers of a machine hold."""
    lanes = machine.lanes(8 if term.dtype.itemsize == 8 else 4)
    return Tile(12 if machine.vector_bytes == 64 else 6, 2 * lanes, lanes)


def _cut(product: CPUProduct, block: int) -> None:
    """Cut a product into tiles, and group them into tasks of rows or of columns."""
    scheduling, machine, (height, width, lanes) = product.scheduling, product.machine, product.tile
    i, j, folds = scheduling.loop(product.rows), scheduling.loop(product.columns), product.folds
    usual = 1 if about(j.size) <= lanes else width // lanes
    height, vectors = scheduling.choose(HEIGHT, height), scheduling.choose(VECTORS, usual)
    width = vectors * lanes
    columns, rows, blocks = about(j.size) / width, about(i.size), 4 * machine.cores
    is_few = columns < blocks or not isinstance(j.size, int)
    depth = prod(about(scheduling.loop(k).size) for k in folds) * product.right.dtype.itemsize
    if isinstance(j.size, int) and block > WINDOWS and rows * depth <= machine.l2:
        is_few = ceil(ceil(columns) / machine.cores) * machine.cores > EVEN * ceil(columns)
    by_rows = not product.beside if product.outside else is_few and rows > 2 * blocks * height
    axis = "ji"[scheduling.choose(BY_ROWS, int(by_rows))]
    usual = ceil(block / height)
    if axis == "j":
        # As many tiles side by side as half of the cache holds, if that leaves enough tasks.
        room, least = machine.l2 / 2 // max(1, depth * width), machine.l1 // max(1, depth * width)
        widest = max(WIDEST, min(2 * WIDEST, least))
        usual = max(1, int(min(widest, columns // blocks, room)))
    cuts = {"i": {"tile": height}, "j": {"tile": width}}
    cuts[axis] = {"block": scheduling.choose(BLOCK, usual) * cuts[axis]["tile"], **cuts[axis]}
    axes = {"i": i, "j": j, "k": folds[0]}
    tiler = Tiler(scheduling, axes, (Level("block", axis), *TILES), cuts, folds, masked=False)
    order = tiler.blocks
    if product.beside:
        order.sort(key=lambda name: -about(scheduling.loop(name).size) * (name in tiler.outer))
    batches = prod(about(scheduling.loop(name).size) for name in tiler.outer)
    if axis == "j" and tiler.outer and batches < min(blocks, columns / usual):
        order.insert(0, order.pop(len(tiler.outer)))
    tiler.apart(order)
    _stage(product, tiler, [*product.outside, *order], lanes)


def _stage(product: CPUProduct, tiler: Tiler, order: list[str], lanes: int) -> None:
    """Copy operands, hold sums in registers, and let tasks and vectors run."""
    scheduling, folds = product.scheduling, product.folds
    (i_start, i, i_end), (j_start, j, j_end) = (
        [tiler.name(axis, "own", of) for of in PARTS] for axis in "ij"
    )
    (sums,) = {a.name for a in accesses((scheduling.nest.loops[folds[0]],)) if a.how == "+="}
    phases, path, dtype = [order[0]], order[:-1], "bf16" if product.dot > 1 else ""
    scheduling.whole(Round, i_start, j_start)
    if product.in_place:
        scheduling.whole(Clamp, i)
    elif len(folds) == 1 and is_along(scheduling.nest, product.left, folds[0]):
        axes = order[-2], i, *folds
        phases += scheduling.packed(product.left, axes, path, "rows", dtype)
        scheduling.whole(Round, i)
        last = copied(axes, "rows")[-1]
        scheduling.run("simd", scheduling.grouped(last) or [last])
    else:
        phases += scheduling.packed(product.left, (order[-2], *folds, i), path, "rows")
        scheduling.whole(Round, i)
    are_rows = len(folds) == 1 and is_along(scheduling.nest, product.right, folds[0])
    copies, pair = list[str](), list[str]()
    if product.dot > 1:  # what a lane multiplies lies side by side
        fold, *pair = scheduling.do(Split((folds[0],), (product.dot,), ("step", "pair"))).loops
        scheduling.reorder([*(folds := [fold]), i, j, *pair])
    if not product.beside:
        axes = order[-1], *folds, j, *pair
        phases += scheduling.packed(product.right, axes, path, "columns", dtype)
        fold, column, *pair = copied(axes, "columns")[len(folds) :]
        if are_rows:
            # What lies in rows is read in short rows: columns of it are far apart.
            by = (SHORT // product.dot,)
            _, short = scheduling.do(Split((fold,), by, ("block", "each"))).loops
            scheduling.reorder([column, column := short])
        column, *repeated = scheduling.groups([column]) or [column]
        copies, pair = [column], [*pair, *repeated]
    scheduling.run("unroll", pair)
    scheduling.whole(Round, j)
    tile_i, tile_j = scheduling.do(Copy(sums, i_end, (i_end, j_end), "tile")).loops
    in_registers(scheduling, (i_start, i, tile_i), (j_start, j, tile_j), lanes)
    ends = [s for s in walk((scheduling.nest.loops[i_end],)) if isinstance(s, Set)]
    vectors = [j_end]
    if all(stride(scheduling.nest, Read(s.name, s.index, s.term.dtype), i_end) == 1 for s in ends):
        vectors = [i_end, *scheduling.computed("tile", (i_end, j_end), "done")]
        scheduling.reorder([j_end, i_end])  # neighbours in the result's memory lie along the rows
    scheduling.run("simd", [*vectors, *copies])
    scheduling.run("parallel", phases)


def convolution_plan(scheduling: Scheduling, machine: Machine) -> bool:
    """Cut a sum over windows into tiles; return whether the nest is one."""
    is_grouped = bool(scheduling.groups(scheduling.nest.loops))
    contraction = contraction_of(scheduling.nest)
    if contraction is None or not contraction.right.dtype.is_float or not contraction.has_windows:
        return scheduling.declined("the nest is not a sum over windows")
    tile, step = tile_of(machine, contraction.right), _step(scheduling, contraction)
    channels, positions = many(contraction.rows), many(contraction.columns)
    last, others = many(contraction.columns[-1:]), many(contraction.columns[:-1])
    as_rows = tile.covering(channels, last) * others
    beside = bool(step) and not is_grouped and last % tile.lanes == 0
    beside = beside and scheduling.choose(BESIDE, int(many(contraction.folds) < BRIEF)) == 1
    if beside:
        tile = _tile_beside(tile, channels, last)
    # A group must end where a tile does: otherwise a tile could write into the next group.
    elif channels <= tile.lanes or (is_grouped and channels % tile.width):
        lanes = max(LEAST, tile.lanes // 2) if channels <= tile.lanes // 2 else tile.lanes
        tile = Tile(2 * tile.height, lanes, lanes)
    if not beside:
        # The windows of a tile within one line have one address, the others one each.
        held = (n for n in HEIGHT.values if 0.8 * tile.height <= n <= tile.height and last % n == 0)
        tile = tile._replace(height=max(held, default=tile.height))
    if not (beside or is_grouped) and tile.covering(positions, channels) > COPYING * as_rows:
        return scheduling.declined("tiles of windows copied into rows cover it with less waste")
    outside, parts = list[str](), (contraction.rows, contraction.columns, contraction.folds)
    rows, columns, folds = ([loop.name for loop in loops] for loops in parts)
    apart = step if beside and step > 1 else 0
    if apart or not isinstance(contraction.right, Read):
        is_image = len(columns) > 1 and not is_grouped
        lines = _lines(scheduling, machine, contraction) if is_image else 0
        outside, columns = _pad(scheduling, machine, contraction, apart, lines)
    last = scheduling.join(folds)
    folds = [*(fold for fold in folds if fold in scheduling.nest.loops and fold != last), last]
    axes = scheduling.join(rows), columns[-1] if beside else scheduling.merge(columns)
    (i, left), (j, right) = [*zip(axes, operands(scheduling.nest, last), strict=True)][
        :: 1 if beside else -1
    ]
    of = scheduling, machine, tile, i, j, folds, left, right, not beside
    _cut(CPUProduct(*of, beside=beside, outside=outside), WINDOWS)
    # The sum keeps one loop, whose body has only products.
    scheduling.run("unroll", _short(scheduling, folds[1:]))
    return True


def _step(scheduling: Scheduling, contraction: Contraction) -> int:
    """Return how far apart neighbouring windows are; 0 if lanes cannot read them so."""
    step = stride(scheduling.nest, contraction.right, contraction.columns[-1].name)
    return step if isinstance(step, int) and not contraction.right.dtype.is_half else 0


def _tile_beside(tile: Tile, channels: float, windows: float) -> Tile:
    """Return the tile that covers channels best if neighbouring windows are its columns."""
    vectors = 2 if windows % tile.width == 0 else 1
    most = tile.height * tile.width // tile.lanes
    heights = [height for height in HEIGHT.values if SUMS <= height * vectors <= most]
    height = min(heights, key=lambda height: (ceil(channels / height) * height, -height))
    return Tile(height, vectors * tile.lanes, tile.lanes)


def _lines(scheduling: Scheduling, machine: Machine, contraction: Contraction) -> int:
    """Return how many lines of windows a task has; 0 if a phase before copies the image."""
    *images, height, _ = [about(loop.size) for loop in contraction.others]
    array = scheduling.nest.types[array_of(contraction.right)]
    image = prod(map(about, array.shape)) * array.dtype.itemsize / prod(images)
    is_known = all(isinstance(loop.size, int) for loop in contraction.others[-2:])

    def cost(lines: int) -> float:
        return ceil(ceil(height / lines) / machine.cores) * (lines + COPIED * BORDER)

    all_lines = LINES.values[1:] if is_known and image > machine.l2 else ()
    held = (n for n in all_lines if image / height * (n + BORDER) <= machine.l2 / 2)
    usual = min(held, key=cost, default=0)
    return scheduling.choose(LINES, usual)


def _short(scheduling: Scheduling, folds: list[str]) -> list[str]:
    """Return the innermost loops of a sum that are short together."""
    for inner in (folds[first:] for first in range(len(folds))):
        count = iterations(map(scheduling.loop, inner))
        if isinstance(count, int) and count <= MOST_UNROLLED:
            return inner[::-1]
    return []


def _pad(
    scheduling: Scheduling, machine: Machine, contraction: Contraction, parts: int, lines: int
) -> tuple[list[str], list[str]]:
    """Copy the operand with a border of the values that windows see outside it.

    Return the loops over tasks, if each copies some lines for itself, and those over its windows.
    """
    first, outside = contraction.loops[0].name, list[str]()
    columns = [loop.name for loop in contraction.columns]
    if lines:
        *images, line, column = [loop.name for loop in contraction.others]
        rows = [loop.name for loop in contraction.rows]
        block, line = scheduling.do(Split((line,), (lines,), ("block", "line"))).loops
        outside, columns, first = [block, *images], [line, column], rows[0]
        scheduling.reorder([*outside, *rows, *columns])
    pad = Pad(array_of(contraction.right), first, "padded", parts)
    loops = scheduling.do(pad).loops
    if not lines:
        sizes, least = [about(loop.size) for loop in loops], 4 * machine.cores
        enough = (n for n in range(1, len(loops) - 1) if prod(sizes[:n]) >= least)
        by = scheduling.merge(loops[: next(enough, max(1, len(loops) - 1))])
        scheduling.run("parallel", [by])
    scheduling.run("simd", loops[-1:])
    return outside, columns
