"""How sums of products (matmuls, convolutions) run on a GPU: in tiles of tiles.

    c[i, j] = sum k: a[i, k] * b[k, j]

A block computes a tile of the result. It copies some steps of the sum into shared memory, rows of
the one operand and columns of the other, and from there each thread multiplies a few rows with a
few columns, whose sums are in its registers. Where tensor units multiply what there is, warps have
tiles of sums in place of threads; where four warps do together, see gpu_groups.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from luminal_lab.core.op import size_of
from luminal_lab.core.printer import unique
from luminal_lab.kernels.definition.terms import Read, Term, walk as walk_terms
from luminal_lab.kernels.gpu import DECLARED, GPU
from luminal_lab.kernels.nest.nest import Loop, Nest, Set, reads_of, walk
from luminal_lab.kernels.nest.sizes import about, at_most, perfect, stride
from luminal_lab.kernels.plans.cpu_contraction import Contraction, contraction_of, joined, operands
from luminal_lab.kernels.plans.gpu_turns import BYTES, attempt, merged, reordered, shared_out
from luminal_lab.kernels.render.gpu.tensor import WORDS, factors_of
from luminal_lab.kernels.steps.ahead import Ahead
from luminal_lab.kernels.steps.arrays import Copy, Pack, Place
from luminal_lab.kernels.steps.binding import Bind, Mask
from luminal_lab.kernels.steps.kinds import Unroll, Vector
from luminal_lab.kernels.steps.loops import Fission, Split
from luminal_lab.kernels.steps.schedule import Scheduling
from luminal_lab.kernels.steps.widening import Widen

LEAST = 16
"""From this many rows and columns on a contraction is worth tiles."""


@dataclass(frozen=True)
class Shape:
    """How large the tiles are."""

    rows: int
    """Rows of a block's tile, and of a thread's."""
    own_rows: int
    columns: int
    own_columns: int
    depth: int
    """How many steps of the sum are in shared memory at once."""


SHAPES = (
    Shape(128, 8, 128, 8, 16),
    Shape(64, 4, 128, 8, 16),
    Shape(64, 4, 64, 4, 16),
    Shape(32, 2, 64, 4, 16),
    Shape(32, 2, 32, 2, 32),
)
"""The tiles to choose from, the largest first."""
TENSORS = (
    Shape(128, 64, 128, 32, 32),
    Shape(64, 32, 128, 32, 32),
    Shape(64, 32, 64, 32, 32),
    Shape(32, 16, 64, 16, 32),
    Shape(16, 16, 32, 8, 32),
)
"""The tiles of blocks and warps, where tensor units multiply."""
OLD = "sm_70", "sm_72", "sm_75"
"""Architectures that have tensor units for f16 alone, and no copies that go on beside the work."""
EIGHT = 8
"""How many elements are left free between rows of which each lane reads an element of its own."""
AHEAD = 2, 1
"""How many steps ahead operands are copied, the most that there is room for."""


def contraction_plan(made: Scheduling, gpu: GPU) -> bool:
    """Cut a contraction into tiles; return whether the nest is one that they are good for."""
    tiling = tiling_of(made, gpu)
    if tiling is None:
        return False
    found, k = tiling.found, tiling.k
    word = tensor_word(made.nest, k, gpu)
    if word is not None:
        size = _shape(made.nest, found, tiling.i, tiling.j, gpu, TENSORS)
        tiling.by_tensor(replace(size, depth=16) if word == "tf32" else size, word)
    else:
        tiling.plan(_shape(made.nest, found, tiling.i, tiling.j, gpu, SHAPES))
    return True


def tiling_of(made: Scheduling, gpu: GPU) -> Tiling | None:
    """Make one loop each of the rows, the columns and the sum of a contraction worth tiles."""
    found = contraction_of(made.nest)
    if found is None or not found.right.dtype.is_float:
        return None
    rows, columns, depth = (
        prod(at_most(loop.size) for loop in loops)
        for loops in (found.rows, found.columns, found.folds)
    )
    if min(rows, columns) < LEAST or depth < LEAST:
        return None
    k = merged(made, [loop.name for loop in found.folds])
    j = _together(made, found.columns)
    i = _together(made, found.rows)
    left, right = operands(made.nest, k)
    return Tiling(made, gpu, found, (i, j, k), left, right)


def tensor_word(nest: Nest, k: str, gpu: GPU) -> str | None:
    """Return how the tensor units call what a sum multiplies, if they do it."""
    (one,) = [one for one in walk((nest.loops[k],)) if isinstance(one, Set)]
    factors = factors_of(one.term)
    if len(factors) != 2 or len({factor.dtype for factor in factors}) != 1:
        return None
    word = WORDS.get(factors[0].dtype)
    if word not in gpu.dialect.tile.depth or (word == "tf32" and not gpu.tf32):
        return None
    return word if gpu.arch not in OLD or word == "f16" else None


def _together(made: Scheduling, loops: list[Loop]) -> str:
    """Make one loop of loops: those that are one in memory, or all where that is too short."""
    sizes = [about(loop.size) for loop in loops]
    if sizes[-1] >= 2 * LEAST:
        return joined(made, loops)
    return merged(made, [loop.name for loop in loops])


def _shape(
    nest: Nest, found: Contraction, i: str, j: str, gpu: GPU, shapes: Sequence[Shape]
) -> Shape:
    """Return the largest tiles of which there are enough for all cores."""
    rows, columns = about(nest.loops[i].size), about(nest.loops[j].size)
    inside = {i, j}
    batches = prod(about(loop.size) for loop in found.loops if loop.name in nest.loops) / max(
        1.0, prod(about(nest.loops[name].size) for name in inside)
    )
    for shape in shapes:
        tiles = -(-rows // shape.rows) * -(-columns // shape.columns) * max(1.0, batches)
        waste = (-(-rows // shape.rows) * shape.rows / rows) * (
            -(-columns // shape.columns) * shape.columns / columns
        )
        if tiles >= gpu.cores and waste <= 1.5:
            return shape
    return shapes[-1]


class Tiling:
    """Cuts the loops of a contraction into tiles: `i` of its rows, `j` of its columns."""

    def __init__(
        self,
        made: Scheduling,
        gpu: GPU,
        found: Contraction,
        loops: tuple[str, str, str],
        left: Term,
        right: Term,
    ) -> None:
        self.made, self.gpu, self.found = made, gpu, found
        self.i, self.j, self.k = loops
        self.left, self.right = left, right
        self.outer = [loop.name for loop in self.loops() if loop.name not in loops[:2]]

    def loops(self) -> list[Loop]:
        """Return the loops from the outermost in that are right around each other."""
        *_, top = [one for one in self.made.nest.body if isinstance(one, Loop)]
        return [*perfect(top)]

    def cut(self, name: str, by: int) -> tuple[str, str]:
        """Cut a loop into whole blocks, beyond whose end there is nothing but 0."""
        names = self.made.nest.names
        outer, inner = unique(f"{name}_o", names), unique(f"{name}_i", names)
        self.made.do(Split(name, by))
        if self.made.nest.loops[inner].size != by:
            self.made.do(Mask(inner))
        return outer, inner

    def plan(self, shape: Shape) -> None:
        """Make the steps."""
        made = self.made
        left, right = (next(iter(reads_of(one)))[0] for one in (self.left, self.right))
        k_o, k_i = self.cut(self.k, shape.depth)
        i_o, i_i = self.cut(self.i, shape.rows)
        j_o, j_i = self.cut(self.j, shape.columns)
        i_t, i_r = self.cut(i_i, shape.own_rows)
        # A thread has columns in groups of four, so that neighbours read neighbouring groups.
        four = min(4, shape.own_columns)
        j_r, j_g = self.cut(j_i, shape.columns // (shape.own_columns // four))
        j_t, j_v = self.cut(j_g, four)
        reordered(
            made,
            [*self.outer, i_o, j_o, i_t, j_t, i_r, j_r, j_v],
            [loop.name for loop in self.loops()],
        )
        for name in (j_v, j_r, i_r, j_t, i_t):
            made.do(Fission(name))
        for name in [*self.outer, i_o, j_o]:
            made.do(Bind(name, "block"))
        starts, sums, ends = [one for one in made.nest.loops[j_o].body if isinstance(one, Loop)]
        threads, own = (f"{i_t}_2", f"{j_t}_2"), (f"{i_r}_2", f"{j_r}_2", f"{j_v}_2")
        reordered(made, [k_o, *threads, k_i, *own], [loop.name for loop in perfect(sums)])
        copies = [
            self.copied(left, threads[0], (k_i, threads[0], own[0]), "rows"),
            self.copied(right, threads[0], (k_i, own[1], threads[1], own[2]), "columns"),
        ]
        for loop in (starts.name, ends.name):
            path = [one.name for one in perfect(made.nest.loops[loop])]
            for name in path[:2]:
                made.do(Bind(name, "thread"))
        for name in threads:
            made.do(Bind(name, "thread"))
        for name in (*own, k_i):
            attempt(made, lambda name=name: made.do(Unroll(name)))
        count = (shape.rows // shape.own_rows) * (shape.columns // shape.own_columns)
        for name in copies:
            shared_out(made, name, count)
        for local in list(made.nest.locals.values()):
            if local.space == "scratch":
                space = "shared" if local.name in ("rows", "columns") else "registers"
                made.do(Place(local.name, space))
        self.stored(ends.name, i_r, j_v)

    def by_tensor(self, shape: Shape, word: str) -> None:
        """Make the steps by which warps have tiles of the tensor units."""
        made, tile = self.made, self.gpu.dialect.tile
        left, right = (next(iter(reads_of(one)))[0] for one in (self.left, self.right))
        k_o, k_b = self.cut(self.k, shape.depth)
        i_o, i_b = self.cut(self.i, shape.rows)
        j_o, j_b = self.cut(self.j, shape.columns)
        k_s, k_i = self.cut(k_b, tile.depth[word])
        i_w, i_own = self.cut(i_b, shape.own_rows)
        j_w, j_own = self.cut(j_b, shape.own_columns)
        (i_r, i_i), (j_r, j_i) = self.cut(i_own, tile.sums[0]), self.cut(j_own, tile.sums[1])
        reordered(
            made,
            [*self.outer, i_o, j_o, i_w, j_w, i_r, j_r, i_i, j_i],
            [loop.name for loop in self.loops()],
        )
        for name in (j_i, i_i, j_r, i_r, j_w, i_w):
            made.do(Fission(name))
        for name in [*self.outer, i_o, j_o]:
            made.do(Bind(name, "block"))
        starts, sums, ends = [one for one in made.nest.loops[j_o].body if isinstance(one, Loop)]
        warps, own, inner = ((f"{i}_2", f"{j}_2") for i, j in ((i_w, j_w), (i_r, j_r), (i_i, j_i)))
        now = [loop.name for loop in perfect(sums)]
        reordered(made, [k_o, *warps, k_s, *own, *inner, k_i], now)
        is_down = self.neighbours(sums.name, right, inner[1])
        along, down = (warps[1], own[1], inner[1]), (k_s, k_i)
        copies = [
            self.copied(left, warps[0], (warps[0], own[0], inner[0], *down), "rows", Copy),
            self.copied(
                right, warps[0], (*down, *along) if is_down else (*along, *down), "columns", Copy
            ),
        ]
        bound = [
            [loop.name for loop in perfect(made.nest.loops[one.name])] for one in (starts, ends)
        ]
        for path in [*bound, [*warps, k_s, *own, *inner, k_i]]:
            for name in path[:2]:
                made.do(Bind(name, "thread"))
            count = 2 if len(path) == 6 else 3
            for name in path[2:-count]:
                attempt(made, lambda name=name: made.do(Unroll(name)))
            for name in path[-count:]:
                made.do(Bind(name, "tensor"))
        threads = 32 * (shape.rows // shape.own_rows) * (shape.columns // shape.own_columns)
        for name in copies:
            shared_out(made, name, threads)
        self.placed(left, right, is_down=is_down)
        if self.gpu.dialect.copies_ahead and self.gpu.arch not in OLD:
            self.copied_ahead(k_o)

    def placed(self, left: str, right: str, *, is_down: bool) -> None:
        """Place what warps share, its rows in different banks, and what each has for itself."""
        made = self.made
        for local in list(made.nest.locals.values()):
            if local.space in ("scratch", "memory"):
                space = "shared" if local.name in ("rows", "columns") else "registers"
                made.do(Place(local.name, space))
        made.do(Widen("rows", 3, self.apart(left)))
        made.do(Widen("columns", 2, EIGHT) if is_down else Widen("columns", 3, self.apart(right)))

    def neighbours(self, sums: str, array: str, loop: str) -> bool:
        """Return whether neighbours along a loop are neighbours in an array."""
        nest = self.made.nest
        reads = [
            part
            for one in walk((nest.loops[sums],))
            if isinstance(one, Set)
            for part in walk_terms(one.term)
            if isinstance(part, Read) and part.buffer == array
        ]
        return all(stride(nest, read, loop) == 1 for read in reads)

    def apart(self, array: str) -> int:
        """Return how many elements are left free between rows that are read 16 bytes at once."""
        return BYTES // self.made.nest.types[array].dtype.itemsize

    def copied_ahead(self, k: str) -> None:
        """Copy the next steps of the sum, while these are multiplied, as far as there is room."""
        made = self.made
        needs = sum(
            size * one.type.dtype.itemsize
            for one in made.nest.locals.values()
            if one.space == "shared" and isinstance(size := size_of(one.type.shape), int)
        )
        for count in AHEAD:
            if (count + 1) * needs <= min(DECLARED, self.gpu.shared) and attempt(
                made, lambda count=count: made.do(Ahead(k, count))
            ):
                return

    def copied(
        self, array: str, before: str, axes: tuple[str, ...], into: str, step: type[Pack] = Pack
    ) -> str:
        """Copy what a block needs of an operand; return the loops that do."""
        self.made.do(step(array, before, axes, into))
        return f"{into}_{axes[0]}"

    def stored(self, ends: str, row: str, lane: str) -> None:
        """Store neighbours as one, and write the loops over a thread's own results out."""
        made = self.made
        inner = [one.name for one in perfect(made.nest.loops[ends])][2:]
        last = made.nest.loops[inner[-1]]
        if len(inner) == 3:
            attempt(made, lambda: made.do(Vector(last.name)))
        for name in inner:
            if made.nest.loops[name].kind == "for":
                attempt(made, lambda name=name: made.do(Unroll(name)))
