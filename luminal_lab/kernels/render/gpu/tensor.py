"""Products of small tiles that a warp computes together, on the tensor units of a GPU.

    tensor i < 16:
      tensor j < 8:
        tensor k < 16:
          acc[i, j] += f32(a[i, k]) * f32(b[k, j])

A tile of sums is in the registers of the 32 lanes, each of which has some of its elements. The
operands are in shared memory. Two tensor loops without a third are work on each element. A tile of
64 rows belongs to four warps, whose operands are in tiles (bulk.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from luminal_lab.core.dims import Dim, Shape, Symbol, known, substitute, symbols
from luminal_lab.core.dtypes import DType
from luminal_lab.core.ops import Cast, Mul
from luminal_lab.core.views import row_major
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.terms import Apply, Read, Term
from luminal_lab.kernels.dialect import Tiles
from luminal_lab.kernels.nest.nest import Block, Loop, Nest, Set, alone
from luminal_lab.kernels.nest.sizes import perfect, slope
from luminal_lab.kernels.render.gpu.bulk import tiled
from luminal_lab.kernels.tile_map import SWIZZLED

GROUPED = "f16", "bf16"
"""The dtypes that four warps multiply, in our kernels."""
WORDS = {DType.float16: "f16", DType.bfloat16: "bf16", DType.float32: "tf32"}
"""The names of dtypes in the functions for tiles."""


@dataclass(frozen=True)
class Elements:
    """Work on each element of a tile."""

    axes: tuple[Symbol, Symbol]
    body: Block
    sizes: tuple[int, int]


@dataclass(frozen=True)
class Operand:
    """A tile in shared memory: where it starts, and how far apart neighbours are."""

    name: str
    start: Dim
    strides: tuple[Dim, Dim]


@dataclass(frozen=True)
class TileProduct:
    """A tile to which the product of two others is added."""

    word: str
    into: str
    index: Shape
    left: Operand
    right: Operand


@dataclass(frozen=True)
class GroupProduct:
    """A tile of four warps, to which the product of two others in tiles is added."""

    word: str
    columns: int
    into: str
    index: Shape
    left: tuple[str, Dim]
    """The array with the rows, and the position at which they start."""
    right: tuple[str, Dim]
    leading: int
    """The bytes from one piece of contiguous columns to the next; 0 if k is contiguous."""


def product_of(nest: Nest, loop: Loop, tiles: Tiles) -> TileProduct | GroupProduct | Elements:
    """Return what tensor loops are: a product of tiles, or work on each element."""
    if not tiles.depth:
        why = "is for tensor units, and kernels for this GPU have none"
        hint = "leave that step out, or plan for this GPU: without schedules="
        raise _refused(nest, loop, why, hint)
    loops = [*takewhile(lambda inner: inner.kind == "tensor", perfect(loop))]
    sizes = tuple(loop.size for loop in loops)
    i, j = loops[0], loops[-1] if len(loops) < 3 else loops[1]
    is_group = tiles.is_group(i.size, j.size)
    if len(loops) == 2 and (sizes == tiles.sums or is_group):
        rows, columns = sizes
        assert isinstance(rows, int)
        assert isinstance(columns, int)
        return Elements((i.axis, j.axis), j.body, (rows, columns))
    added, factors = _summed(nest, loops, tiles)
    word = WORDS.get(factors[0].dtype)
    if is_group and word in GROUPED and loops[2].size == tiles.depth[word]:
        return _group_product(nest, (i, j, loops[2]), added, factors, word)
    return _warp_product(nest, loops, tiles, added, factors, word)


def _summed(nest: Nest, loops: list[Loop], tiles: Tiles) -> tuple[Set, list[Read]]:
    """Return the sum in three loops, and the two elements that are multiplied."""
    added = alone(loops[-1].body, Set)
    if len(loops) != 3 or added is None or added.how != "+=":
        raise _refused(nest, loops[0], f"is not two loops of {tiles.sums}, or three around a sum")
    factors = factors_of(added.term)
    if len(factors) != 2 or factors[0].dtype is not factors[1].dtype:
        raise _refused(nest, loops[0], "does not add up products of two elements")
    return added, factors


def _warp_product(
    nest: Nest, loops: list[Loop], tiles: Tiles, update: Set, factors: list[Read], word: str | None
) -> TileProduct:
    """Return the product of a warp."""
    i, j, sizes = *loops[:2], tuple(loop.size for loop in loops)
    if word is None or sizes != (*tiles.sums, tiles.depth[word]):
        wanted = ", ".join(map(str, (*tiles.sums, tiles.depth.get(word or "", 0))))
        raise _refused(nest, i, f"has sizes {sizes}, and the units' are {wanted}")
    steps = {
        read: [slope(nest.flat(read.buffer, read.index), x.axis) for x in loops] for read in factors
    }
    left, right = sorted(factors, key=lambda read: (steps[read][1] != 0, steps[read][0] == 0))
    (down, beside, along), (below, across, deep) = steps[left], steps[right]
    if beside != 0 or below != 0:
        raise _refused(nest, i, "does not multiply rows with columns")
    _check_sums(nest, i, j, update)
    rows, columns = (
        _tile(nest, left, loops, (down, along)),
        _tile(nest, right, loops, (deep, across)),
    )
    return TileProduct(word, update.name, update.index, rows, columns)


def _check_sums(nest: Nest, i: Loop, j: Loop, update: Set) -> None:
    """Refuse sums of a tile that do not lie by its rows and columns."""
    if update.index[-2:] != (i.axis, j.axis):
        raise _refused(nest, i, f"does not add to {update.name} at [.., {i.name}, {j.name}]")


def _group_product(
    nest: Nest, loops: tuple[Loop, Loop, Loop], update: Set, factors: list[Read], word: str
) -> GroupProduct:
    """Return the product of four warps; columns may be contiguous, rows may not."""
    i, j, k = loops
    _check_sums(nest, i, j, update)
    if i.axis not in symbols(nest.flat(factors[0].buffer, factors[0].index)):
        factors.reverse()
    left, right = factors
    for read in factors:
        if nest.space_of(read.buffer) != "tiles":
            raise _refused(nest, i, f"is of four warps, and {read.buffer} is not in tiles")
    starts = [_tile_start(nest, left, i, k), _tile_start(nest, right, j, k)]
    leading = 0
    if starts[1] is None:
        starts[1] = _tile_start(nest, right, k, j)
        leading = tiled(nest, right.buffer).rows * SWIZZLED
    if starts[0] is None or starts[1] is None:
        raise _refused(nest, i, "does not multiply rows with columns as they lie in tiles")
    assert isinstance(j.size, int)
    return GroupProduct(
        word,
        j.size,
        update.name,
        update.index,
        (left.buffer, starts[0]),
        (right.buffer, starts[1]),
        leading,
    )


def _tile_start(nest: Nest, read: Read, row: Loop, column: Loop) -> Dim | None:
    """Return where a tile starts whose rows and columns are those of two loops, if it is one."""
    shape, lies = nest.types[read.buffer].shape, tiled(nest, read.buffer)
    zero: dict[str, Dim] = {row.name: 0, column.name: 0}
    first = tuple(substitute(dim, zero) for dim in read.index)
    down = row_major(shape[1:-1], read.index[1:-1]) - row_major(shape[1:-1], first[1:-1])
    along = read.index[-1] - first[-1]
    if read.index[0] != first[0] or down != row.axis or along != column.axis:
        return None
    if lies.columns > lies.piece and known(first[-1] % lies.piece < 1) is not True:
        return None
    if known(row_major(shape[1:-1], first[1:-1]) % 8 < 1) is not True:
        return None  # where 8 rows begin, their pieces are permuted alike
    return lies.start(first, shape)


def factors_of(term: Term) -> list[Read]:
    """Return the two elements that are multiplied, in their form in memory."""
    if not (isinstance(term, Apply) and isinstance(term.op, Mul)):
        return []
    factors: list[Read] = []
    for arg in term.args:
        inner = arg.args[0] if isinstance(arg, Apply) and isinstance(arg.op, Cast) else arg
        if isinstance(inner, Read):
            factors.append(inner)
    return factors


def _tile(nest: Nest, read: Read, loops: list[Loop], strides: tuple[Dim, Dim]) -> Operand:
    flat = nest.flat(read.buffer, read.index)
    start = substitute(flat, {loop.name: 0 for loop in loops})
    names = {loop.name for loop in loops}
    if any(s.name in names for stride in strides for s in symbols(stride)):
        raise _refused(nest, loops[0], f"does not read {read.buffer} in equal steps")
    return Operand(read.buffer, start, strides)


def _refused(nest: Nest, loop: Loop, why: str, hint: str | None = None) -> ScheduleError:
    return nest.fault(f"tensor {loop.name} {why}", hint)
