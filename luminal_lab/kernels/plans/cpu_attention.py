"""How attention runs on a CPU: rows of queries against blocks of keys, all of it in the caches.

A task has some rows. For each block of keys their scores are a small product, their weights a few
passes over the block, and the values that the weights mix another small product. Both products
hold a tile of sums in registers, as those of matmuls do.
"""

from __future__ import annotations

from luminal_lab.kernels.definition.terms import Guarded, free, read_by, walk as walk_terms
from luminal_lab.kernels.nest.nest import Nest, Set, accesses, walk
from luminal_lab.kernels.nest.sizes import stride
from luminal_lab.kernels.plans.cpu_contraction import VECTORS
from luminal_lab.kernels.plans.match import AttentionNest, attention_of, by_column, reads, sum_in
from luminal_lab.kernels.plans.tiler import PARTS, Level, Tiler, in_registers, rows_last
from luminal_lab.kernels.steps.arrays import Copy, Pack
from luminal_lab.kernels.steps.choices import Choice
from luminal_lab.kernels.steps.kinds import Parallel, Round, Unroll
from luminal_lab.kernels.steps.loops import Fission, Reorder, Split
from luminal_lab.kernels.steps.schedule import Handle, Scheduling
from luminal_lab.kernels.steps.staging import Hold, Stage
from luminal_lab.kernels.steps.step import around, part, within
from luminal_lab.kernels.steps.stopping import Stop
from luminal_lab.machines.machine import Machine

ROWS = Choice("rows", 96, 24, 48, 192)
"""How many rows of queries a task has."""
HEIGHT = Choice("tile_rows", 6, 4, 8, 12)
"""How many rows a tile of sums in registers has."""
SCORES = Level("tile", "i j"), Level("", "k"), Level("row", "i"), Level("own", "j")
"""The tiles of scores, whose columns are cut where keys are copied."""


def attention_plan(made: Scheduling, machine: Machine) -> bool:
    """Schedule an attention; return whether the nest is one."""
    found = attention_of(made.nest)
    if found is None:
        return False
    row, lanes = rows_last(made, found), machine.lanes(made.nest.types[found.mean].dtype.itemsize)
    _share_out(made, [name for name in found.path if name != row])
    if row is None:  # rows that have keys of their own, or one row: what is read is read once
        made.attempted(Stage(found.mean, found.key, (found.feature,), "mixed"))
    else:
        _together(made, found, row, lanes)
    made.simd(found.block)
    made.run("parallel", [top for top in made.tops if top.loop.kind == "for"])
    return True


def _share_out(made: Scheduling, loops: list[str]) -> None:
    """Make one loop of the outermost ones, as long as its iterations can be tasks."""
    for count in range(len(loops), 0, -1):
        with made.attempt() as attempt:
            made.do(Parallel((made.merge(loops[:count]),)))
        if attempt.held:
            return


def _together(made: Scheduling, found: AttentionNest, row: Handle, lanes: int) -> None:
    """Schedule rows that have the same keys, some at a time."""
    block, rows, size = made.loop(found.block), made.choose(ROWS), row.size
    # A copy of all keys is only made where it is known that many rows read it.
    is_shared = isinstance(size, int) and size > rows
    row = made.do(Split((row,), (rows,), ("task", "own"))).loops[1]
    # for j.task: for j.own: (all of a row)   →   for j.task: … for block: for j_block.own: (a part)
    made.do(Fission((row,)))
    own = made.loop(part(row, "block"))
    for loop in made.loop(around(made.nest, own)[-1].name).parts:
        if loop != own and any(
            one.name == found.mean and one.how != "read" for one in accesses((loop.loop,))
        ):
            made.do(Round((loop,)))  # the last tile of rows is a whole one
    made.do(Reorder((block, own)))

    def packed(array: str, names: set[str], axes: tuple[str, ...], into: str) -> None:
        """Copy keys or values into panels of columns, once for all rows or for each block."""
        path = [one.name for one in around(made.nest, block)]
        outer = [name for name in path if name in names]
        shared = Pack(array, path[0], (*outer, block, *axes), into)
        made.do(shared if is_shared else Pack(array, own, axes, into))

    wide = made.choose(VECTORS, 2) * lanes
    tile, column = made.do(Split((found.column,), (wide,), ("tile", "own"))).loops
    _, keys = by_column(sum_in(made.nest, found.fold).term, column)
    packed(min(read_by(keys)), set(free(keys)), (tile, found.fold, column), "keys")
    width = made.loop(found.feature).size
    by = next((w for w in (wide, lanes) if isinstance(width, int) and width % w == 0), None)
    features: tuple[Handle, ...] = ()
    if by is not None:
        features = made.do(Split((found.feature,), (by,), ("tile", "own"))).loops
        term = sum_in(made.nest, found.key).term
        (array,) = read_by(term) - {found.scores}
        if not _is_plain(made.nest, array, found.key, features[1]):
            packed(array, set(free(term)), (features[0], found.key, features[1]), "values")
    made.attempted(Stop(block, found.scores))
    made.do(Fission((own,)))
    _hold(made, block)
    _score(made, found, lanes, column)
    if features:
        _mix(made, found, lanes, *features)


def _hold(made: Scheduling, block: Handle) -> None:
    """Let the largest score and the sum of weights of a row be scalars in the loops over keys."""
    for rows in block.parts:
        for keys in rows.parts if len(rows.loop.body) == 1 else ():
            for one in keys.loop.body:
                if isinstance(one, Set) and one.how != "=" and len(one.index) == 1:
                    made.do(Hold(one.name, keys, f"{one.name}_row"))


def _score(made: Scheduling, found: AttentionNest, lanes: int, column: Handle) -> None:
    """Schedule the product of queries and keys of a block, whose columns are split."""
    rows = around(made.nest, column)[-2].name
    (sums,) = {a.name for a in accesses((made.nest.loops[found.fold],)) if a.how == "+="}
    query, _ = by_column(sum_in(made.nest, found.fold).term, column)
    axes = {"i": rows, "j": column, "k": found.fold}
    cuts = {"i": {"tile": made.choose(HEIGHT)}}
    tiler = Tiler(made, axes, SCORES, cuts, [found.fold], masked=False, is_inner=True)
    tiler.apart()
    (i_start, i, i_end), (j_start, j, j_end) = (
        [tiler.name(axis, word, of) for of in PARTS] for axis, word in (("i", "row"), ("j", "own"))
    )
    panels = tiler.name("i", "tile"), found.fold, i
    made.do(Pack(min(read_by(query)), found.block, panels, "rows"))
    made.do(Round((i_start, i, j_start, j)))
    in_registers(made, (i_start, i), (j_start, j), lanes)
    used = {one.name for one in accesses(made.nest.loops[j_end].body) if one.how == "read"}
    for name in sorted(used - {sums}):
        made.do(Copy(name, i_end, (i_end, j_end), f"{name}_tile"))
    made.do(Round((i_end, j_end)))
    with made.attempt() as attempt:
        in_registers(made, (i_end,), (j_end,), lanes)
    if not attempt.held:
        # What is not sums and products alone takes them from an array, and not from registers.
        tile_i, tile_j = made.do(Copy(sums, i_end, (i_end, j_end), "tile")).loops
        in_registers(made, (tile_i,), (tile_j,), lanes)
        made.do(Unroll((i_end,)))


def _mix(made: Scheduling, found: AttentionNest, lanes: int, tile: Handle, feature: Handle) -> None:
    """Schedule the product of weights and values of a block."""
    rows = around(made.nest, found.key)[-1].name
    i_tile, i = made.do(Split((rows,), (made.choose(HEIGHT),), ("tile", "row"))).loops
    made.reorder([i_tile, tile, found.key, i, feature])
    made.do(Round((i,)))
    loops = made.do(Stage(found.mean, found.key, (i, feature), "mixed")).loops
    in_registers(made, (*loops[::2], i), (*loops[1::2], feature), lanes)


def _is_plain(nest: Nest, array: str, row: str, column: str) -> bool:
    """Return whether rows of floats lie right behind each other, so that no copy is better."""
    found, type = {*reads(nest, row, array)}, nest.types[array]
    terms = [one.term for one in walk(nest.loops[row].body) if isinstance(one, Set)]
    if type.dtype.is_half or len(found) != 1:
        return False
    if any(isinstance(one, Guarded) for term in terms for one in walk_terms(term)):
        return False
    (read,) = found
    return (
        all(within(place, size) for place, size in zip(read.index, type.shape, strict=True))
        and stride(nest, read, row) == type.shape[-1]
        and stride(nest, read, column) == 1
    )
