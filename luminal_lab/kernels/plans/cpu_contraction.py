"""How sums of products (matmuls, convolutions) run on a CPU: in tiles that fit the registers.

    c[i, j] = sum k: a[i, k] * b[k, j]

A tile is a few rows by two vectors of columns; along the sum, each step multiplies a number of each
row with a vector of the columns. Columns are copied first into the order in which tiles read them.
Rows are read where they are if the sum goes along their memory, and else copied, too. What is
summed along memory in both operands would rather be a row: so the shorter operand is the columns.

Tasks are blocks of columns, each of which copies its own; where there are too few of them, they are
blocks of rows, and the columns are copied by a phase before.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.terms import Read, Term, free
from luminal_lab.kernels.nest.nest import Set, accesses, walk
from luminal_lab.kernels.nest.sizes import about, stride
from luminal_lab.kernels.plans.match import array_of, contraction_of, operands, sum_in
from luminal_lab.kernels.plans.tiler import (
    PARTS,
    Level,
    Tiler,
    for_each,
    joined,
    merged,
    reordered,
    run,
)
from luminal_lab.kernels.steps.arrays import Copy, Pack
from luminal_lab.kernels.steps.choices import Choice
from luminal_lab.kernels.steps.kinds import Clamp, Round
from luminal_lab.kernels.steps.loops import Split
from luminal_lab.kernels.steps.schedule import Handle, Scheduling
from luminal_lab.kernels.steps.step import copied, level
from luminal_lab.machines.machine import Machine

WIDEST = 4
"""How many tiles wide a block of columns is at most."""
HEIGHT = 96
"""How many rows a block of them has."""
BY_COLUMNS = (
    Level("block", "j"),
    Level("tile", "i j"),
    Level("", "k"),
    Level("own", "i j"),
)
"""A task has some columns."""
BY_ROWS = (
    Level("block", "i"),
    Level("tile", "i j"),
    Level("", "k"),
    Level("own", "i j"),
)
"""A task has some rows."""


def contraction_plan(made: Scheduling, machine: Machine) -> bool:
    """Cut a contraction into tiles; return whether the nest is one."""
    found = contraction_of(made.nest)
    if found is None or not found.right.dtype.is_float:
        return False
    tile = tile_of(machine, found.right)
    # Loops that belong together are one: the sum's loops, and neighbours in memory.
    k = merged(made, [loop.name for loop in found.folds])
    short = about(found.columns[-1].size) < 2 * tile.width
    names = [loop.name for loop in found.columns]
    j = merged(made, names) if short else joined(made, found.columns)
    i = joined(made, found.rows)
    left, right = operands(made.nest, k)
    is_along = stride(made.nest, right, k) == 1 and stride(made.nest, left, k) == 1
    if is_along and about(i.size) < about(j.size):
        # The longer operand stays as it is.
        left, right, i, j = right, left, j, i
    is_along = isinstance(left, Read) and stride(made.nest, left, k) == 1
    Tiles(made, machine, tile, (i, j), [k], left, right, in_place=is_along).plan(HEIGHT)
    return True


class Tile(NamedTuple):
    """The sums that are in registers at once."""

    height: int
    width: int
    lanes: int


def tile_of(machine: Machine, term: Term) -> Tile:
    """Return what the registers of a machine hold."""
    lanes = machine.lanes(8 if term.dtype.itemsize == 8 else 4)
    return Tile(12 if machine.vector_bytes == 64 else 6, 2 * lanes, lanes)


class Tiles:
    """Cuts the loops of a contraction into tiles, the rows and columns of which are `axes`."""

    def __init__(
        self,
        made: Scheduling,
        machine: Machine,
        tile: Tile,
        axes: tuple[Handle, Handle],
        folds: list[Handle],
        left: Term,
        right: Term,
        *,
        in_place: bool,
    ) -> None:
        self.made, self.machine, self.folds = made, machine, folds
        self.i, self.j = axes
        height = made.choose(Choice("tile_rows", 4, 6, 8, 12, 24), tile.height)
        vectors = made.choose(Choice("tile_vectors", 1, 2, 4), tile.width // tile.lanes)
        self.tile = Tile(height, vectors * tile.lanes, tile.lanes)
        self.left, self.right = left, right
        self.in_place = in_place
        """Whether rows are read where they are."""

    def plan(self, block: int) -> None:
        """Make the steps, for blocks of so many rows."""
        made, tile = self.made, self.tile
        columns, rows = about(self.j.size) / tile.width, about(self.i.size)
        depth = prod(about(k.size) for k in self.folds) * tile.width * self.right.dtype.itemsize
        blocks = 4 * self.machine.cores
        by_rows = (columns < blocks or not isinstance(self.j.size, int)) and (
            rows > 2 * blocks * tile.height
        )
        axes, folds = {"i": self.i, "j": self.j, "k": self.folds[0]}, self.folds
        cuts = {"i": {"tile": tile.height}, "j": {"tile": tile.width}}
        if by_rows:
            many = made.choose(Choice("block_tiles", 1, 2, 4, 8, 16), block // tile.height)
            cuts["i"] = {"block": many * tile.height, "tile": tile.height}
            tiler = Tiler(made, axes, BY_ROWS, cuts, folds, masked=False)
            order = tiler.blocks
        else:
            # As many tiles side by side as half of the cache holds, if that leaves enough tasks.
            usual = int(min(WIDEST, columns // blocks, self.machine.l2 / 2 // max(1, depth)))
            wide = made.choose(Choice("block_tiles", 1, 2, 3, 4, 8), max(1, usual))
            cuts["j"] = {"block": wide * tile.width, "tile": tile.width}
            tiler = Tiler(made, axes, BY_COLUMNS, cuts, folds, masked=False)
            task, *inner = tiler.blocks[len(tiler.outer) :]
            batches = prod(about(made.loop(name).size) for name in tiler.outer)
            first = bool(tiler.outer) and batches < min(blocks, columns / max(1, usual))
            order = [task, *tiler.outer, *inner] if first else tiler.blocks
        tiler.apart(order)
        self.staged(tiler, order)

    def staged(self, tiler: Tiler, order: list[str]) -> None:
        """Copy operands, hold sums in registers, and let tasks and vectors run."""
        made, tile, folds = self.made, self.tile, self.folds
        (i_start, i, i_end), (j_start, j, j_end) = (
            [tiler.name(axis, "own", of) for of in PARTS] for axis in "ij"
        )
        (sums,) = {a.name for a in accesses((made.nest.loops[folds[0]],)) if a.how == "+="}
        phases, path = [order[0]], order[:-1]
        whole(made, Round, i_start, j_start)
        if self.in_place:
            whole(made, Clamp, i)
        else:
            phases += self.copied(self.left, (order[-2], *folds, i), path, "rows")
            whole(made, Round, i)
        phases += self.copied(self.right, (order[-1], *folds, j), path, "columns")
        whole(made, Round, j)
        tile_i, tile_j = made.do(Copy(sums, i_end, (i_end, j_end), "tile")).loops
        in_registers(made, (i_start, i, tile_i), (j_start, j, tile_j), tile.lanes)
        last = j_end
        if self.is_along_rows(i_end):
            reordered(made, [j_end, i_end])
            last = i_end
        run(made, "simd", [last, *copied([order[-1], *folds, j], "columns")[-1:]])
        run(made, "parallel", phases)

    def is_along_rows(self, i_end: str) -> bool:
        """Return whether the result's neighbours in memory are along the rows."""
        nest = self.made.nest
        ends = [one for one in walk((nest.loops[i_end],)) if isinstance(one, Set)]
        places = [Read(one.name, one.index, one.term.dtype) for one in ends]
        return all(stride(nest, place, i_end) == 1 for place in places)

    def copied(self, term: Term, axes: tuple[str, ...], path: list[str], into: str) -> list[str]:
        """Copy an operand as far out as its axes allow; return the loop of the phase that does."""
        nest, array = self.made.nest, array_of(term)
        known = {*axes, *path, *nest.dims}
        pack = Pack(array, path[-1], axes, into)
        terms = list(pack.read(sum_in(nest, self.folds[0]).term, known, set()))
        if len(terms) != 1:
            raise ScheduleError(f"{array} is read in several ways")
        needed = set(free(terms[0])) - set(axes)
        last = max([place for place, name in enumerate(path) if name in needed], default=-1)
        loops = self.made.do(Pack(array, path[last + 1], axes, into)).loops
        return [loops[0]] if last < 0 else []


def whole(made: Scheduling, step: type[Round | Clamp], *loops: str) -> None:
    """Run loops to the end of their blocks, if they are not known to end there."""
    short = tuple(name for name in loops if not made.loop(name).is_whole)
    if short:
        made.do(step(short))


def in_registers(
    made: Scheduling, rows: tuple[str, ...], columns: tuple[str, ...], lanes: int
) -> None:
    """Write out the loops over tiles of sums in registers, whose columns are vectors."""
    for_each(made, lambda *loops: Split(loops, (lanes,), ("vector", "lane")), columns)
    run(made, "unroll", [*rows, *(level(name, "vector") for name in columns)])
    run(made, "vector", [level(name, "lane") for name in columns])
