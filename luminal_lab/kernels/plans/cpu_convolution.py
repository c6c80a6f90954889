"""How sums over windows (convolutions) run on a CPU: as contractions whose rows are windows.

    y[o, i, j] = sum c, p, q: w[o, c, p, q] * x[c, i + p, j + q]

A tile is a few windows by two vectors of the axis that only the other operand has (the output
channels). Windows overlap: so they are not copied, but read where they are. What they see beyond
the ends of the array is put around a copy of it first.
"""

from __future__ import annotations

from math import ceil

from luminal_lab.core.dims import Symbol, symbols
from luminal_lab.core.dims.expression import Quotient
from luminal_lab.kernels.definition.terms import Read
from luminal_lab.kernels.nest.nest import accesses, reads_of
from luminal_lab.kernels.nest.sizes import atoms
from luminal_lab.kernels.plans.cpu_contraction import Tile, Tiles, tile_of
from luminal_lab.kernels.plans.match import (
    Contraction,
    array_of,
    contraction_of,
    many,
    operands,
)
from luminal_lab.kernels.plans.tiler import joined, merged, run
from luminal_lab.kernels.steps.kinds import MOST_UNROLLED
from luminal_lab.kernels.steps.loops import Split
from luminal_lab.kernels.steps.padding import Pad
from luminal_lab.kernels.steps.schedule import Handle, Scheduling
from luminal_lab.machines.machine import Machine

COPYING = 1.25
"""How much more work a plan without copies of windows may have."""

LEAST = 4
"""How many channels a vector has at least."""
HEIGHT = 24
"""How many windows a task has, where they are shared out."""


def convolution_plan(made: Scheduling, machine: Machine) -> bool:
    """Cut a sum over windows into tiles; return whether the nest is one."""
    is_grouped = _split_groups(made)
    found = contraction_of(made.nest)
    if found is None or not found.right.dtype.is_float or not _has_windows(found):
        return False
    if not isinstance(found.right, Read) and len(list(reads_of(found.right))) != 1:
        return False  # windows of several arrays, one behind another
    tile = tile_of(machine, found.right)
    channels, places = many(found.rows), many(found.columns)
    as_rows = _whole(channels, tile.height) * _whole(many(found.columns[-1:]), tile.width)
    as_rows *= many(found.columns[:-1])
    # A group ends where a tile does: else nothing says that no tile writes into the next group.
    if channels <= tile.lanes or (is_grouped and channels % tile.width):
        lanes = max(LEAST, tile.lanes // 2) if channels <= tile.lanes // 2 else tile.lanes
        tile = Tile(2 * tile.height, lanes, lanes)
    as_windows = _whole(places, tile.height) * _whole(channels, tile.width)
    if not is_grouped and as_windows > COPYING * as_rows:
        return False
    if not isinstance(found.right, Read):
        _pad(made, machine, found)
    last = joined(made, found.folds)
    folds = [made.loop(loop.name) for loop in found.folds if loop.name in made.nest.loops]
    folds = [*(fold for fold in folds if fold != last), last]
    j, i = joined(made, found.rows), merged(made, [loop.name for loop in found.columns])
    right, left = operands(made.nest, last)
    Tiles(made, machine, tile, (i, j), folds, left, right, in_place=True).plan(HEIGHT)
    # One loop remains of the sum, whose body is nothing but products.
    run(made, "unroll", _short(folds[1:]))
    return True


def _split_groups(made: Scheduling) -> bool:
    """Make a loop over groups of a loop of which an operand sees only the group."""
    loops = made.nest.loops
    for access in accesses(made.nest.body):
        for atom in atoms(access.index or ()):
            match atom:
                case Quotient(x=Symbol(name=name), d=int(size)) if (
                    name in loops and loops[name].size % size == 0
                ):
                    made.do(Split((name,), (size,), ("group", "each")))
                    return True
                case _:
                    pass
    return False


def _has_windows(found: Contraction) -> bool:
    """Return whether places in an operand move along the result and along the sum."""
    along = {loop.name for loop in found.columns}
    summed = {loop.name for loop in found.folds if loop.size != 1}
    return any(
        names & along and names & summed
        for _, index in reads_of(found.right)
        for names in ({s.name for s in symbols(place)} for place in index or ())
    )


def _short(folds: list[Handle]) -> list[str]:
    """Return the innermost loops of a sum that are short together."""
    short: list[str] = []
    count = 1
    for fold in reversed(folds):
        size = fold.size
        if not isinstance(size, int) or count * size > MOST_UNROLLED:
            break
        count *= size
        short.append(fold)
    return short


def _pad(made: Scheduling, machine: Machine, found: Contraction) -> None:
    """Put what windows see beyond the ends of their operand around a copy of it."""
    loops = made.do(Pad(array_of(found.right), found.loops[0].name, "padded")).loops
    tasks = 1
    while (
        tasks < len(loops) - 1 and many([loop.loop for loop in loops[:tasks]]) < 4 * machine.cores
    ):
        tasks += 1
    run(made, "parallel", [merged(made, loops[:tasks])])
    run(made, "simd", loops[-1:])


def _whole(size: float, block: int) -> float:
    """Return how many iterations whole blocks have."""
    return ceil(size / block) * block
