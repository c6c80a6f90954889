"""How sums of products (matmuls, convolutions) run on a GPU: in tiles of tiles.

    c[i, j] = sum k: a[i, k] * b[k, j]

A block computes a tile of the result. It copies some steps of the sum into shared memory, rows of
the one operand and columns of the other, and from there each thread multiplies a few rows with a
few columns, whose sums are in its registers. Where tensor units multiply what there is, warps have
tiles of sums in place of threads; where four warps do together, see gpu_groups.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from luminal_lab.core.op import size_of
from luminal_lab.kernels.definition.terms import Read, walk as walk_terms
from luminal_lab.kernels.gpu import DECLARED, GPU
from luminal_lab.kernels.nest.nest import Loop, Nest, Set, walk
from luminal_lab.kernels.nest.sizes import about, at_most, perfect, stride
from luminal_lab.kernels.plans.match import (
    array_of,
    contraction_of,
    iterations,
    many,
    operands,
    sum_in,
    top_of,
)
from luminal_lab.kernels.plans.tiler import (
    BYTES,
    Level,
    Tiler,
    attempted,
    joined,
    merged,
    run,
    shared_out,
)
from luminal_lab.kernels.render.gpu.tensor import WORDS, factors_of
from luminal_lab.kernels.steps.ahead import Ahead
from luminal_lab.kernels.steps.arrays import Copy, Pack, Place
from luminal_lab.kernels.steps.choices import Choice
from luminal_lab.kernels.steps.kinds import Vector
from luminal_lab.kernels.steps.schedule import Handle, Scheduling
from luminal_lab.kernels.steps.widening import Widen

LEAST = 16
"""From this many rows and columns on a contraction is worth tiles."""
THREADS = (
    Level("block", "i j", "block"),
    Level("step", "k"),
    Level("thread", "i j", "thread"),
    Level("own", "k"),
    Level("own", "i"),
    Level("turn", "j"),
    Level("own", "j"),
)
"""A thread has some rows, and columns in fours; the next fours are those of its neighbours."""
TENSOR = (
    Level("block", "i j", "block"),
    Level("step", "k"),
    Level("warp", "i j", "thread"),
    Level("part", "k", "unroll"),
    Level("tile", "i j", "unroll"),
    Level("own", "i j k", "tensor"),
)
"""Each warp has tiles of the tensor units."""


class Shape(NamedTuple):
    """How large the tiles are."""

    rows: int
    """Rows of a block's tile, and of a thread's or a warp's."""
    own_rows: int
    columns: int
    own_columns: int
    depth: int
    """How many steps of the sum are in shared memory at once."""

    @property
    def parts(self) -> int:
        """How many threads, or warps, a block has."""
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
"""The tiles of blocks and warps, where tensor units multiply."""
OLD = "sm_70", "sm_72", "sm_75"
"""Architectures that have tensor units for f16 alone, and no copies that go on beside the work."""
EIGHT = 8
"""How many elements are left free between rows of which each lane reads an element of its own."""
AHEAD = Choice("ahead", 2, 1)
"""How many steps ahead operands are copied, the most that there is room for."""


@dataclass
class Product:
    """A contraction worth tiles: one loop each of its rows, its columns and its sum."""

    made: Scheduling
    gpu: GPU
    batches: float
    """How many products of the same loops there are."""
    axes: Mapping[str, str]
    left: str
    """The operand that has the rows."""
    right: str

    @property
    def word(self) -> str | None:
        """How the tensor units call what is multiplied, if they do it."""
        factors = factors_of(sum_in(self.made.nest, self.axes["k"]).term)
        if len(factors) != 2 or len({factor.dtype for factor in factors}) != 1:
            return None
        word, gpu = WORDS.get(factors[0].dtype), self.gpu
        if word not in gpu.dialect.tile.depth or (word == "tf32" and not gpu.tf32):
            return None
        return word if gpu.arch not in OLD or word == "f16" else None


def contraction_plan(made: Scheduling, gpu: GPU) -> bool:
    """Cut a contraction into tiles; return whether the nest is one that they are good for."""
    product = product_of(made, gpu)
    if product is None:
        return False
    if product.word is None:
        _by_threads(product)
    else:
        _by_tensor(product, product.word)
    return True


def product_of(made: Scheduling, gpu: GPU) -> Product | None:
    """Make one loop each of the rows, the columns and the sum of a contraction worth tiles."""
    found = contraction_of(made.nest)
    if found is None or not found.right.dtype.is_float:
        return None
    if any(at_most(iterations(one)) < LEAST for one in (found.rows, found.columns, found.folds)):
        return None
    k = merged(made, [loop.name for loop in found.folds])
    j = _together(made, found.columns)
    i = _together(made, found.rows)
    left, right = map(array_of, operands(made.nest, k))
    outer = [loop for loop in perfect(top_of(made.nest)) if loop.name not in (i, j)]
    return Product(made, gpu, many(outer), {"i": i, "j": j, "k": k}, left, right)


def _together(made: Scheduling, loops: list[Loop]) -> str:
    """Make one loop of loops: those that are one in memory, or all where that is too short."""
    if about(loops[-1].size) >= 2 * LEAST:
        return joined(made, loops)
    return merged(made, [loop.name for loop in loops])


def _shape(product: Product, shapes: Sequence[Shape], own: str) -> Shape:
    """Choose tiles: the largest of which there are enough for all cores."""
    loops = product.made.nest.loops
    rows, columns = (about(loops[product.axes[axis]].size) for axis in "ij")
    usual = shapes[-1]
    for shape in shapes:
        down, across = -(-rows // shape.rows), -(-columns // shape.columns)
        waste = (down * shape.rows / rows) * (across * shape.columns / columns)
        if down * across * product.batches >= product.gpu.cores and waste <= 1.5:
            usual = shape
            break
    names = "rows", f"{own}_rows", "columns", f"{own}_columns", "depth"
    return Shape(
        *(
            product.made.choose(Choice(name, *sorted({shape[n] for shape in shapes})), usual[n])
            for n, name in enumerate(names)
        )
    )


def _by_threads(product: Product) -> None:
    """Give each thread a tile of sums in registers."""
    made, shape = product.made, _shape(product, BY_THREADS, "thread")
    four = min(4, shape.own_columns)
    cuts = {
        "k": {"step": shape.depth},
        "i": {"block": shape.rows, "thread": shape.own_rows},
        "j": {
            "block": shape.columns,
            "turn": shape.columns // (shape.own_columns // four),
            "thread": four,
        },
    }
    tiler = Tiler(made, product.axes, THREADS, cuts)
    tiler.apart()
    copies = copied(tiler, product, Pack, (tiler.name("j", "turn", "sum"),))
    k = tiler.name("k", "own")
    run(made, "unroll", [*tiler.part("sum").inner[3:], k])
    for copy in copies:
        shared_out(made, copy, shape.parts)
    placed(made, "shared")
    _stored(made, tiler.part("end").inner[2:])


def _by_tensor(product: Product, word: str) -> None:
    """Give each warp tiles of the tensor units."""
    made, tile, shape = product.made, product.gpu.dialect.tile, _shape(product, BY_TENSOR, "warp")
    depth, (rows, columns) = 16 if word == "tf32" else shape.depth, tile.sums
    cuts = {
        "k": {"step": depth, "part": tile.depth[word]},
        "i": {"block": shape.rows, "warp": shape.own_rows, "tile": rows},
        "j": {"block": shape.columns, "warp": shape.own_columns, "tile": columns},
    }
    tiler = Tiler(made, product.axes, TENSOR, cuts)
    tiler.apart()
    is_down = neighbours(made.nest, tiler.part("sum"), product.right, tiler.name("j", "own", "sum"))
    for copy in copied(tiler, product, Copy, is_down=is_down):
        shared_out(made, copy, 32 * shape.parts)
    placed(made, "shared")
    free = {array: BYTES // made.nest.types[array].dtype.itemsize for array in ("rows", "columns")}
    made.do(Widen("rows", 3, free["rows"]))
    made.do(Widen("columns", 2, EIGHT) if is_down else Widen("columns", 3, free["columns"]))
    if product.gpu.dialect.copies_ahead and product.gpu.arch not in OLD:
        _ahead(made, tiler.name("k", "step"), product.gpu)


def copied(
    tiler: Tiler,
    product: Product,
    step: type[Pack],
    first: tuple[str, ...] = (),
    *,
    is_down: bool | None = None,
) -> list[Handle]:
    """Copy the steps of both operands that the tiles of a block need; return the loops that do."""
    made, into, (i, j, k) = tiler.made, tiler.part("sum"), map(tiler.axis, "ijk")
    rows = (k, i) if is_down is None else (i, k)
    columns = (j, k) if is_down is False else (k, *first, j)
    return [
        made.do(step(array, into, axes, name)).loops[0]
        for array, axes, name in (
            (product.left, rows, "rows"),
            (product.right, columns, "columns"),
        )
    ]


def placed(made: Scheduling, space: str) -> None:
    """Place what all threads of a block read in their memory, and what each has in registers."""
    own = [one.name for one in made.nest.locals.values() if one.space in ("scratch", "memory")]
    both = [name for name in own if name in ("rows", "columns")]
    made.do(Place(tuple(name for name in own if name not in both), "registers"))
    made.do(Place(tuple(both), space))


def neighbours(nest: Nest, sums: str, array: str, loop: str) -> bool:
    """Return whether neighbours along a loop are neighbours in an array."""
    reads = [
        part
        for one in walk((nest.loops[sums],))
        if isinstance(one, Set)
        for part in walk_terms(one.term)
        if isinstance(part, Read) and part.buffer == array
    ]
    return all(stride(nest, read, loop) == 1 for read in reads)


def _ahead(made: Scheduling, k: str, gpu: GPU) -> None:
    """Copy the next steps of the sum, while these are multiplied, as far as there is room."""
    needs = sum(
        size * one.type.dtype.itemsize
        for one in made.nest.locals.values()
        if one.space == "shared" and isinstance(size := size_of(one.type.shape), int)
    )
    for count in made.options(AHEAD):
        if (count + 1) * needs <= min(DECLARED, gpu.shared) and attempted(made, Ahead(k, count)):
            made.choose(AHEAD, count)
            return


def _stored(made: Scheduling, loops: Sequence[str]) -> None:
    """Store neighbours as one, and write the loops over a thread's own results out."""
    is_vector = len(loops) == 3 and attempted(made, Vector((loops[-1],)))
    run(made, "unroll", loops[:-1] if is_vector else loops)
