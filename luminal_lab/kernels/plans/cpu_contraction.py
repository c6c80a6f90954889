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

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from luminal_lab.core.dims.expression import Division
from luminal_lab.core.ops import Mul
from luminal_lab.core.views import row_major
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.terms import (
    Apply,
    Guard,
    Read,
    Term,
    free,
    read_by,
    walk as walk_terms,
)
from luminal_lab.kernels.nest.nest import Block, Local, Loop, Nest, Set, accesses, reads_of, walk
from luminal_lab.kernels.nest.sizes import about, atoms, names_in, perfect, stride
from luminal_lab.kernels.steps.arrays import Copy, Pack
from luminal_lab.kernels.steps.kinds import Clamp, Parallel, Round, Simd, Unroll, Vector
from luminal_lab.kernels.steps.loops import Fission, Merge, Reorder, Split
from luminal_lab.kernels.steps.schedule import Scheduling
from luminal_lab.kernels.steps.step import extent
from luminal_lab.machines.machine import Machine

WIDEST = 4
"""How many tiles wide a block of columns is at most."""
HEIGHT = 96
"""How many rows a block of them has."""


@dataclass
class Contraction:
    """A nest that sums products: its loops, and which operand each axis belongs to."""

    loops: list[Loop]
    """Those of the result, the outermost first."""
    rows: list[Loop]
    """The loops along the rows that are right around each other; so with columns."""
    columns: list[Loop]
    folds: list[Loop]
    left: Term
    """The operand with the rows."""
    right: Term
    """The operand with the columns."""


def contraction_of(nest: Nest) -> Contraction | None:
    """Return how a nest is a contraction, if it is nothing else."""
    tops = [one for one in nest.body if not isinstance(one, Local)]
    if len(tops) != 1 or not isinstance(tops[0], Loop):
        return None
    loops = [*perfect(tops[0])]
    found = summed(loops[-1].body)
    if found is None:
        return None
    folds, term = found
    factors = [one for one in _factors(term) if read_by(one)]
    if len(factors) != 2:
        return None
    last = loops[-1].name
    right, left = sorted(factors, key=lambda one: last not in free(one))
    if last not in free(right) or last in free(left):
        return None
    left_axes, right_axes = set(free(left)), set(free(right))
    if any(fold.name not in left_axes & right_axes for fold in folds):
        return None
    places = [place for place, one in enumerate(loops) if one.name in left_axes - right_axes]
    if not places:
        return None
    rows = _run(loops, places[-1], left_axes - right_axes)
    columns = _run(loops, len(loops) - 1, right_axes - left_axes)
    return Contraction(loops, rows, columns, folds, left, right)


def summed(body: Block) -> tuple[list[Loop], Term] | None:
    """Return the loops and the term of the one sum in a body, which starts at 0."""
    if len(body) != 4 or not isinstance(body[0], Local):
        return None
    _, start, loop, end = body
    if not (isinstance(start, Set) and isinstance(loop, Loop) and isinstance(end, Set)):
        return None
    folds = [*perfect(loop)]
    inner = folds[-1].body
    if len(inner) != 1 or not isinstance(inner[0], Set) or inner[0].how != "+=":
        return None
    return folds, inner[0].term


def contraction_plan(made: Scheduling, machine: Machine) -> bool:
    """Cut a contraction into tiles; return whether the nest is one."""
    found = contraction_of(made.nest)
    if found is None or not found.right.dtype.is_float:
        return False
    lanes = machine.lanes(8 if found.right.dtype.itemsize == 8 else 4)
    height, width = (12 if machine.vector_bytes == 64 else 6), 2 * lanes
    # Loops that belong together are one: the sum's loops, and neighbours in memory.
    k = merged(made, found.folds)
    short = about(found.columns[-1].size) < 2 * width
    j = merged(made, found.columns) if short else joined(made, found.columns)
    i = joined(made, found.rows)
    left, right = operands(made.nest, k)
    if stride(made.nest, right, k) == 1 and stride(made.nest, left, k) == 1:
        loops = made.nest.loops
        if about(loops[i].size) < about(loops[j].size):
            # The longer operand stays as it is.
            left, right, i, j = right, left, j, i
    is_along = isinstance(left, Read) and stride(made.nest, left, k) == 1
    tiles = Tiles(made, machine, left, right, i, j, [k], in_place=is_along)
    tiles.plan(height, width, lanes)
    return True


class Tiles:
    """Cuts the loops of a contraction into tiles: `i` of its rows, `j` of its columns."""

    def __init__(
        self,
        made: Scheduling,
        machine: Machine,
        left: Term,
        right: Term,
        i: str,
        j: str,
        folds: list[str],
        *,
        in_place: bool,
    ) -> None:
        self.made = made
        self.machine = machine
        self.left, self.right = left, right
        self.i, self.j, self.folds = i, j, folds
        self.in_place = in_place
        """Whether rows are read where they are."""
        self.outer = [one.name for one in self.loops() if one.name not in (i, j)]

    def loops(self) -> list[Loop]:
        """Return the loops from the outermost in that are right around each other."""
        *_, top = [one for one in self.made.nest.body if isinstance(one, Loop)]
        return [*perfect(top)]

    def plan(self, height: int, width: int, lanes: int, block: int = HEIGHT) -> None:
        """Make the steps, for tiles of that height and width, and blocks of so many rows."""
        made, i, j, folds = self.made, self.i, self.j, self.folds
        left, right = (next(iter(reads_of(one)))[0] for one in (self.left, self.right))
        sizes = made.nest.loops
        columns = about(sizes[j].size) / width
        depth = prod(about(sizes[k].size) for k in folds) * width * self.right.dtype.itemsize
        blocks = 4 * self.machine.cores
        is_open = not isinstance(sizes[j].size, int)
        by_rows = (columns < blocks or is_open) and about(sizes[i].size) > 2 * blocks * height
        # As many tiles side by side as half of the cache holds, if that leaves enough tasks.
        wide = int(min(WIDEST, columns // blocks, self.machine.l2 / 2 // max(1, depth)))
        i_o, i_i, j_o, j_i = f"{i}_o", f"{i}_i", f"{j}_o", f"{j}_i"
        made.do(Split(i, height))
        made.do(Split(j, width))
        if by_rows:
            made.do(Split(i_o, block // height))
            task, inner, tiles = f"{i_o}_o", f"{i_o}_i", j_o
            order = [*self.outer, task, inner, tiles, i_i, j_i]
        else:
            made.do(Split(j_o, max(1, wide)))
            task, inner, tiles = f"{j_o}_o", i_o, f"{j_o}_i"
            order = [*self.outer, task, inner, tiles, i_i, j_i]
            batches = 1.0
            for name in self.outer:
                batches *= about(sizes[name].size)
            if self.outer and batches < min(blocks, columns / max(1, wide)):
                order = [task, *self.outer, inner, tiles, i_i, j_i]
        self.reorder(order)
        made.do(Fission(j_i))
        made.do(Fission(i_i))
        i_k, j_k, i_e, j_e = f"{i_i}_2", f"{j_i}_2", f"{i_i}_3", f"{j_i}_3"
        for name in (j_k, i_k):
            for k in folds:
                made.do(Reorder(name, k))
        (sums,) = {a.name for a in accesses((made.nest.loops[folds[0]],)) if a.how == "+="}

        self.whole(i_i, Round)
        self.whole(j_i, Round)
        phases = [order[0]]
        path = order[: order.index(inner) + 1]
        if self.in_place:
            self.whole(i_k, Clamp)
        else:
            phases += self.copied(left, (inner, *folds, i_k), path, "rows")
            self.whole(i_k, Round)
        phases += self.copied(right, (tiles, *folds, j_k), path, "columns")
        self.whole(j_k, Round)
        made.do(Copy(sums, i_e, (i_e, j_e), "tile"))
        for row, column in ((i_i, j_i), (i_k, j_k), (f"tile_{i_e}", f"tile_{j_e}")):
            made.do(Split(column, lanes))
            made.do(Unroll(row))
            made.do(Unroll(f"{column}_o"))
            made.do(Vector(f"{column}_i"))
        last = j_e
        if self.is_along_rows(i_e):
            made.do(Reorder(i_e, j_e))
            last = i_e
        made.do(Simd(last))
        made.do(Simd(f"columns_{j_k}"))
        for name in phases:
            made.do(Parallel(name))

    def is_along_rows(self, i_e: str) -> bool:
        """Return whether the result's neighbours in memory are along the rows."""
        nest = self.made.nest
        ends = [one for one in walk((nest.loops[i_e],)) if isinstance(one, Set)]
        places = [Read(one.name, one.index, one.term.dtype) for one in ends]
        return all(stride(nest, place, i_e) == 1 for place in places)

    def whole(self, name: str, step: type[Round | Clamp]) -> None:
        """Run a loop to the end of its block, if it is not known to end there."""
        loop = self.made.nest.loops[name]
        if loop.size != extent(loop.axis):
            self.made.do(step(name))

    def copied(self, array: str, axes: tuple[str, ...], path: list[str], into: str) -> list[str]:
        """Copy an operand as far out as its axes allow; return the loop of the phase that does."""
        nest = self.made.nest
        (one,) = [s for s in walk((nest.loops[self.folds[0]],)) if isinstance(s, Set)]
        known = {*axes, *path, *nest.dims}
        terms = list(Pack(array, path[-1], axes, into).read(one.term, known, set()))
        if len(terms) != 1:
            raise ScheduleError(f"{array} is read in several ways")
        needed = set(free(terms[0])) - set(axes)
        last = max([place for place, name in enumerate(path) if name in needed], default=-1)
        self.made.do(Pack(array, path[last + 1], axes, into))
        return [f"{into}_{axes[0]}"] if last < 0 else []

    def reorder(self, wanted: list[str]) -> None:
        """Bring loops that are right around each other into an order."""
        for place, name in enumerate(wanted):
            now = [one.name for one in self.loops()]
            for at in range(now.index(name), place, -1):
                self.made.do(Reorder(now[at - 1], name))
                now[at - 1], now[at] = now[at], now[at - 1]


def operands(nest: Nest, k: str) -> tuple[Term, Term]:
    """Return the two factors of what a loop sums, those with the last axis of the result second."""
    (one,) = [s for s in walk((nest.loops[k],)) if isinstance(s, Set)]
    first, second = [factor for factor in _factors(one.term) if read_by(factor)]
    *_, top = [one for one in nest.body if isinstance(one, Loop)]
    last = [*perfect(top)][-1].name
    return (second, first) if last in free(first) else (first, second)


def _factors(term: Term) -> Iterator[Term]:
    if isinstance(term, Apply) and isinstance(term.op, Mul):
        for arg in term.args:
            yield from _factors(arg)
    else:
        yield term


def _run(loops: list[Loop], end: int, axes: set[str]) -> list[Loop]:
    """Return the loops up to one that are right around each other and of one operand alone."""
    first = end
    while first and loops[first - 1].name in axes:
        first -= 1
    return loops[first : end + 1]


def merged(made: Scheduling, loops: list[Loop]) -> str:
    """Make one loop of loops that are one in the other, and return its name."""
    name = loops[0].name
    for loop in loops[1:]:
        made.do(Merge(name, loop.name))
        name = f"{name}_{loop.name}"
    return name


def joined(made: Scheduling, loops: list[Loop]) -> str:
    """Make one of as many loops, from the innermost, as are one in memory; return its name."""
    name = loops[-1].name
    for loop in reversed(loops[:-1]):
        both = f"{loop.name}_{name}"
        kept, count = made.nest, len(made.steps)
        made.do(Merge(loop.name, name))
        if _divides(made.nest, both):
            made.nest = kept
            del made.steps[count:]
            break
        name = both
    return name


def _divides(nest: Nest, axis: str) -> bool:
    """Return whether an axis is divided where arrays are read or written, or in a condition."""
    for access in accesses((nest.loops[axis],)):
        places = [one.holds for one in walk_terms(access.statement.term) if isinstance(one, Guard)]
        if access.index is None:
            return True
        places.append(row_major(nest.types[access.name].shape, access.index))
        if any(isinstance(atom, Division) and axis in names_in(atom) for atom in atoms(places)):
            return True
    return False
