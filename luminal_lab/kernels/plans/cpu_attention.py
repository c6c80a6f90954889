"""How attention runs on a CPU: rows of queries against blocks of keys, all within the caches.

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
from luminal_lab.kernels.plans.tiler import PARTS, Tiler, in_registers, rows_last
from luminal_lab.kernels.steps.arrays import Copy, Hold, Pack, Stage
from luminal_lab.kernels.steps.choices import Choice
from luminal_lab.kernels.steps.kinds import Parallel, Round, Unroll
from luminal_lab.kernels.steps.levels import Level
from luminal_lab.kernels.steps.loops import Fission, Reorder, Split
from luminal_lab.kernels.steps.schedule import Handle, Scheduling
from luminal_lab.kernels.steps.step import around, part, within
from luminal_lab.kernels.steps.stopping import Stop
from luminal_lab.machines.machine import Machine

ROWS = Choice("rows", 96, 24, 48, 192)
"""The number of rows of queries in a task."""
HEIGHT = Choice("tile_rows", 6, 4, 8, 12)
"""The number of rows in a tile of sums in registers."""
SCORES = Level("tile", "i j"), Level("", "k"), Level("row", "i"), Level("own", "j")
"""The tiles of scores; the copying of keys cuts their columns."""


def attention_plan(scheduling: Scheduling, machine: Machine) -> bool:
    """Schedule an attention; return whether the nest is one."""
    attention = attention_of(scheduling.nest)
    if attention is None:
        return False
    row = rows_last(scheduling, attention)
    lanes = machine.lanes(scheduling.nest.types[attention.mean].dtype.itemsize)
    _share_out(scheduling, [name for name in attention.path if name != row])
    if row is None:  # each row has its own keys, or there is one row: each key is read once
        scheduling.attempted(Stage(attention.mean, attention.key, (attention.feature,), "mixed"))
    else:
        _together(scheduling, attention, row, lanes)
    scheduling.simd(attention.block)
    scheduling.run("parallel", [top for top in scheduling.tops if top.loop.kind == "for"])
    return True


def _share_out(scheduling: Scheduling, loops: list[str]) -> None:
    """Merge the outermost loops, as many as can run as tasks."""
    for count in range(len(loops), 0, -1):
        with scheduling.attempt() as attempt:
            scheduling.do(Parallel((scheduling.merge(loops[:count]),)))
        if attempt.held:
            return


def _together(scheduling: Scheduling, attention: AttentionNest, row: Handle, lanes: int) -> None:
    """Schedule rows that have the same keys, some at a time."""
    block, rows, size = scheduling.loop(attention.block), scheduling.choose(ROWS), row.size
    # All keys are copied only if many rows are known to read them.
    is_shared = isinstance(size, int) and size > rows
    row = scheduling.do(Split((row,), (rows,), ("task", "own"))).loops[1]
    # for j.task: for j.own: (all of a row)   →   for j.task: … for block: for j_block.own: (a part)
    scheduling.do(Fission((row,)))
    own = scheduling.loop(part(row, "block"))
    for loop in scheduling.loop(around(scheduling.nest, own)[-1].name).parts:
        if loop != own and any(
            use.name == attention.mean and use.how != "read" for use in accesses((loop.loop,))
        ):
            scheduling.do(Round((loop,)))  # the last tile of rows is a whole one
    scheduling.do(Reorder((block, own)))

    def packed(array: str, names: set[str], axes: tuple[str, ...], into: str) -> None:
        """Copy keys or values into panels of columns, once for all rows or for each block."""
        path = [loop.name for loop in around(scheduling.nest, block)]
        outer = [name for name in path if name in names]
        shared = Pack(array, path[0], (*outer, block, *axes), into)
        scheduling.do(shared if is_shared else Pack(array, own, axes, into))

    wide = scheduling.choose(VECTORS, 2) * lanes
    tile, column = scheduling.do(Split((attention.column,), (wide,), ("tile", "own"))).loops
    _, keys = by_column(sum_in(scheduling.nest, attention.fold).term, column)
    packed(min(read_by(keys)), set(free(keys)), (tile, attention.fold, column), "keys")
    width = scheduling.loop(attention.feature).size
    by = next((w for w in (wide, lanes) if isinstance(width, int) and width % w == 0), None)
    features: tuple[Handle, ...] = ()
    if by is not None:
        features = scheduling.do(Split((attention.feature,), (by,), ("tile", "own"))).loops
        term = sum_in(scheduling.nest, attention.key).term
        (array,) = read_by(term) - {attention.scores}
        if not _is_plain(scheduling.nest, array, attention.key, features[1]):
            packed(array, set(free(term)), (features[0], attention.key, features[1]), "values")
    scheduling.attempted(Stop(block, attention.scores))
    scheduling.do(Fission((own,)))
    _hold(scheduling, block)
    _score(scheduling, attention, lanes, column)
    if features:
        _mix(scheduling, attention, lanes, *features)


def _hold(scheduling: Scheduling, block: Handle) -> None:
    """Let the largest score and the sum of weights of a row be scalars in the loops over keys."""
    for rows in block.parts:
        for keys in rows.parts if len(rows.loop.body) == 1 else ():
            for s in keys.loop.body:
                if isinstance(s, Set) and s.how != "=" and len(s.index) == 1:
                    scheduling.do(Hold(s.name, keys, f"{s.name}_row"))


def _score(scheduling: Scheduling, attention: AttentionNest, lanes: int, column: Handle) -> None:
    """Schedule the product of queries and keys of a block, whose columns are split."""
    rows = around(scheduling.nest, column)[-2].name
    (sums,) = {a.name for a in accesses((scheduling.nest.loops[attention.fold],)) if a.how == "+="}
    query, _ = by_column(sum_in(scheduling.nest, attention.fold).term, column)
    axes = {"i": rows, "j": column, "k": attention.fold}
    cuts = {"i": {"tile": scheduling.choose(HEIGHT)}}
    tiler = Tiler(scheduling, axes, SCORES, cuts, [attention.fold], masked=False, is_inner=True)
    tiler.apart()
    (i_start, i, i_end), (j_start, j, j_end) = (
        [tiler.name(axis, word, of) for of in PARTS] for axis, word in (("i", "row"), ("j", "own"))
    )
    panels = tiler.name("i", "tile"), attention.fold, i
    scheduling.do(Pack(min(read_by(query)), attention.block, panels, "rows"))
    scheduling.do(Round((i_start, i, j_start, j)))
    in_registers(scheduling, (i_start, i), (j_start, j), lanes)
    used = {use.name for use in accesses(scheduling.nest.loops[j_end].body) if use.how == "read"}
    for name in sorted(used - {sums}):
        scheduling.do(Copy(name, i_end, (i_end, j_end), f"{name}_tile"))
    scheduling.do(Round((i_end, j_end)))
    with scheduling.attempt() as attempt:
        in_registers(scheduling, (i_end,), (j_end,), lanes)
    if not attempt.held:
        # Work other than sums and products reads them from an array, not from registers.
        tile_i, tile_j = scheduling.do(Copy(sums, i_end, (i_end, j_end), "tile")).loops
        in_registers(scheduling, (tile_i,), (tile_j,), lanes)
        scheduling.do(Unroll((i_end,)))


def _mix(
    scheduling: Scheduling, attention: AttentionNest, lanes: int, tile: Handle, feature: Handle
) -> None:
    """Schedule the product of weights and values of a block."""
    rows = around(scheduling.nest, attention.key)[-1].name
    i_tile, i = scheduling.do(Split((rows,), (scheduling.choose(HEIGHT),), ("tile", "row"))).loops
    scheduling.reorder([i_tile, tile, attention.key, i, feature])
    scheduling.do(Round((i,)))
    loops = scheduling.do(Stage(attention.mean, attention.key, (i, feature), "mixed")).loops
    in_registers(scheduling, (*loops[::2], i), (*loops[1::2], feature), lanes)


def _is_plain(nest: Nest, array: str, row: str, column: str) -> bool:
    """Return whether rows of floats are contiguous, so that reading them beats a copy."""
    row_reads, type = {*reads(nest, row, array)}, nest.types[array]
    terms = [s.term for s in walk(nest.loops[row].body) if isinstance(s, Set)]
    if type.dtype.is_half or len(row_reads) != 1:
        return False
    if any(isinstance(part, Guarded) for term in terms for part in walk_terms(term)):
        return False
    (read,) = row_reads
    return (
        all(within(dim, size) for dim, size in zip(read.index, type.shape, strict=True))
        and stride(nest, read, row) == type.shape[-1]
        and stride(nest, read, column) == 1
    )
