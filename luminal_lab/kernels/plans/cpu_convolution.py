"""How sums over windows (convolutions) run on a CPU: as contractions whose rows are windows.

    y[o, i, j] = sum c, p, q: w[o, c, p, q] * x[c, i + p, j + q]

A tile is a few windows by two vectors of the axis that only the other operand has (the output
channels). Windows overlap: so they are not copied, but read where they are. What they see beyond
the ends of the array is put around a copy of it first.
"""

from __future__ import annotations

from math import ceil, prod

from luminal_lab.core.dims import Symbol, symbols
from luminal_lab.core.dims.expression import Quotient
from luminal_lab.kernels.definition.terms import Read
from luminal_lab.kernels.nest.nest import Loop, accesses, reads_of
from luminal_lab.kernels.nest.sizes import about, atoms, perfect
from luminal_lab.kernels.plans.cpu_contraction import (
    Contraction,
    Tiles,
    contraction_of,
    joined,
    merged,
    operands,
)
from luminal_lab.kernels.steps.kinds import MOST_UNROLLED, Parallel, Simd, Unroll
from luminal_lab.kernels.steps.loops import Merge, Split
from luminal_lab.kernels.steps.padding import Pad
from luminal_lab.kernels.steps.schedule import Scheduling
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
    lanes = machine.lanes(8 if found.right.dtype.itemsize == 8 else 4)
    height, width = (12 if machine.vector_bytes == 64 else 6), 2 * lanes
    channels, places = (_size(loops) for loops in (found.rows, found.columns))
    as_rows = _whole(channels, height) * _whole(_size(found.columns[-1:]), width)
    as_rows *= _size(found.columns[:-1])
    # A group ends where a tile does: else nothing says that no tile writes into the next group.
    if channels <= lanes or (is_grouped and channels % width):
        lanes = max(LEAST, lanes // 2) if channels <= lanes // 2 else lanes
        height, width = 2 * height, lanes
    if not is_grouped and _whole(places, height) * _whole(channels, width) > COPYING * as_rows:
        return False
    if not isinstance(found.right, Read):
        _pad(made, machine, found)
    last = joined(made, found.folds)
    folds = [loop.name for loop in found.folds if loop.name in made.nest.loops]
    folds = [*(name for name in folds if name != last), last]
    j, i = joined(made, found.rows), merged(made, found.columns)
    right, left = operands(made.nest, last)
    tiles = Tiles(made, machine, left, right, i, j, folds, in_place=True)
    tiles.plan(height, width, lanes, HEIGHT)
    # One loop remains of the sum, whose body is nothing but products.
    for name in _short(made, folds[1:]):
        made.do(Unroll(name))
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
                    made.do(Split(name, size))
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


def _short(made: Scheduling, folds: list[str]) -> list[str]:
    """Return the innermost loops of a sum that are short together."""
    short: list[str] = []
    count = 1
    for name in reversed(folds):
        size = made.nest.loops[name].size
        if not isinstance(size, int) or count * size > MOST_UNROLLED:
            break
        count *= size
        short.append(name)
    return short


def _pad(made: Scheduling, machine: Machine, found: Contraction) -> None:
    """Put what windows see beyond the ends of their operand around a copy of it."""
    ((array, _),) = reads_of(found.right)
    made.do(Pad(array, found.loops[0].name, "padded"))
    top = next(one for one in made.nest.body if isinstance(one, Loop))
    loops = [*perfect(top)]
    task = top.name
    for loop in loops[1:-1]:
        if about(made.nest.loops[task].size) >= 4 * machine.cores:
            break
        made.do(Merge(task, loop.name))
        task = f"{task}_{loop.name}"
    made.do(Parallel(task))
    made.do(Simd(loops[-1].name))


def _size(loops: list[Loop]) -> float:
    return prod(about(loop.size) for loop in loops)


def _whole(size: float, block: int) -> float:
    """Return how many iterations whole blocks have."""
    return ceil(size / block) * block
