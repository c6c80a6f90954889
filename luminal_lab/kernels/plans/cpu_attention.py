"""How attention runs on a CPU: rows of queries against blocks of keys, all of it in the caches.

A task has some rows. For each block of keys their scores are a small product, their weights a few
passes over the block, and the values that the weights mix another small product. Both products
hold a tile of sums in registers, as those of matmuls do.
"""

from __future__ import annotations

from luminal_lab.core.dims import substitute
from luminal_lab.core.views import row_major
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.terms import Guard, Term, free, read_by, walk as walk_terms
from luminal_lab.kernels.nest.nest import Local, Loop, Nest, Set, accesses, walk
from luminal_lab.kernels.nest.sizes import about, perfect
from luminal_lab.kernels.plans.cpu_contraction import in_registers
from luminal_lab.kernels.plans.match import attention_of, factors
from luminal_lab.kernels.plans.tiler import PARTS, attempted, merged, reordered, run
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


def attention_plan(made: Scheduling, machine: Machine) -> bool:
    """Schedule an attention; return whether the nest is one."""
    found = attention_of(made.nest)
    if found is None:
        return False
    block, path = made.loop(found.block), [*found.outer, found.row]
    j, fold = _product_of(block.loop)
    sums = next(one.name for one in accesses((made.nest.loops[fold],)) if one.how == "+=")
    lanes = machine.lanes(made.nest.types[sums].dtype.itemsize)
    keys = free(_operands(_sum_of(made.nest, fold), j)[1])
    shared = [name for name in path if name not in keys]
    if not shared:
        _alone(made, path, block)
    else:
        # Rows that have the same keys are together, whatever order the result has.
        row = made.loop(max(shared, key=lambda name: about(made.nest.loops[name].size)))
        path.remove(row)
        reordered(made, [*path, row])
        if path:
            run(made, "parallel", [_merged(made, path)])
        rows, size = made.choose(ROWS), row.size
        # A copy of all keys is only made where it is known that many rows read it.
        is_shared = isinstance(size, int) and size > rows
        _together(made, row, rows, block, lanes, is_shared=is_shared)
    plain = [loop for loop in made.loops if loop.loop.kind == "for"]
    inner = [loop for loop in plain if loop.is_innermost and loop != block]
    run(made, "simd", inner, where_allowed=True)
    run(made, "parallel", [top for top in made.tops if top.loop.kind == "for"])
    return True


def _merged(made: Scheduling, loops: list[str]) -> str:
    """Make one loop of the outermost ones, as long as its iterations can be tasks."""
    for count in range(len(loops), 1, -1):
        with made.attempt() as attempt:
            made.do(Parallel((merged(made, loops[:count]),)))
        if attempt.held:
            attempt.undo()
            return merged(made, loops[:count])
    return loops[0]


def _alone(made: Scheduling, rows: list[str], block: Handle) -> None:
    """Schedule rows that have keys of their own, or one row: what is read is read once."""
    run(made, "parallel", [_merged(made, rows)])
    path, sums = _mixed(block.loop)
    if len(path) == 2:
        attempted(made, Stage(sums.name, path[0].name, (path[1].name,), "mixed"))


def _together(
    made: Scheduling, row: Handle, many: int, block: Handle, lanes: int, *, is_shared: bool
) -> None:
    """Schedule rows that have the same keys, some at a time."""
    row = made.do(Split((row,), (many,), ("task", "own"))).loops[1]
    # for j.task: for j.own: (all of a row)   →   for j.task: … for block: for j_block.own: (a part)
    made.do(Fission((row,)))
    rows = made.loop(part(row, "block"))
    _, sums = _mixed(block.loop)
    for one in around(made.nest, rows)[-1].body:
        if isinstance(one, Loop) and one.name != rows and _writes(one, sums.name):
            made.do(Round((one.name,)))  # the last tile of rows is a whole one
    made.do(Reorder((block, rows)))
    j = _keys(made, rows, block, lanes, is_shared=is_shared)
    columns = _values(made, rows, block, lanes, is_shared=is_shared)
    scores = next(one.name for one in rows.loop.body if isinstance(one, Local))
    attempted(made, Stop(block, scores))
    made.do(Fission((rows,)))
    _held(made, block)
    _scores(made, block, lanes, j)
    if columns is not None:
        _mixing(made, block, lanes, columns)


def _keys(
    made: Scheduling, rows: Handle, block: Handle, lanes: int, *, is_shared: bool
) -> tuple[Handle, Handle]:
    """Copy the keys into panels of columns, once for all rows or for each block; return whose."""
    j, fold = _product_of(rows.loop)
    _, right = _operands(_sum_of(made.nest, fold), j)
    tile, own = made.do(Split((j,), (2 * lanes,), ("tile", "own"))).loops
    array, axes = min(read_by(right)), (tile, fold, own)
    if is_shared:
        path = _around(made.nest, block)
        outer = [name for name in path if name in free(right)]
        made.do(Pack(array, path[0], (*outer, block, *axes), "keys"))
    else:
        made.do(Pack(array, rows, axes, "keys"))
    return tile, own


def _held(made: Scheduling, block: Handle) -> None:
    """Let the largest score and the sum of weights of a row be scalars in the loops over keys."""
    for rows in block.parts:
        match rows.loop.body:
            case (Loop(name=keys, body=body),):
                for one in body:
                    if isinstance(one, Set) and one.how != "=" and len(one.index) == 1:
                        made.do(Hold(one.name, keys, f"{one.name}_row"))
            case _:
                pass


def _scores(made: Scheduling, block: Handle, lanes: int, columns: tuple[Handle, Handle]) -> None:
    """Schedule the product of queries and keys of a block, whose columns are split."""
    tile, j = columns
    _, fold = _product_of(block.loop)
    row = next(one for one in _around(made.nest, tile)[::-1] if one != block)
    sums = next(one.name for one in accesses((made.nest.loops[fold],)) if one.how == "+=")
    left, _ = _operands(_sum_of(made.nest, fold), j)
    i_tile, i = made.do(Split((row,), (made.choose(HEIGHT),), ("tile", "row"))).loops
    made.do(Reorder((tile, i)))
    made.do(Fission((i, j), PARTS))
    (i_start, i_sum, i_end), (j_start, j_sum, j_end) = (
        [part(loop, word) for word in PARTS] for loop in (i, j)
    )
    made.do(Reorder((fold, i_sum)))
    made.do(Pack(min(read_by(left)), block, (i_tile, fold, i_sum), "rows"))
    made.do(Round((i_start, i_sum, j_start, j_sum)))
    in_registers(made, (i_start, i_sum), (j_start, j_sum), lanes)
    others = {one.name for one in accesses(made.nest.loops[j_end].body) if one.how == "read"}
    for name in sorted(others - {sums}):
        made.do(Copy(name, i_end, (i_end, j_end), f"{name}_tile"))
    made.do(Round((i_end, j_end)))
    with made.attempt() as attempt:
        in_registers(made, (i_end,), (j_end,), lanes)
    if not attempt.held:
        # What is not sums and products alone takes them from an array, and not from registers.
        tile_i, tile_j = made.do(Copy(sums, i_end, (i_end, j_end), "tile")).loops
        in_registers(made, (tile_i,), (tile_j,), lanes)
        made.do(Unroll((i_end,)))


def _values(
    made: Scheduling, rows: Handle, block: Handle, lanes: int, *, is_shared: bool
) -> tuple[Handle, Handle] | None:
    """Cut the values into panels of columns, copied as the keys are unless they lie well."""
    path, sums = _mixed(rows.loop)
    (j, k), size = (one.name for one in path[-2:]), path[-1].size
    own = {one.name for one in rows.loop.body if isinstance(one, Local)}
    (array,) = read_by(sums.term) - own
    width = next((w for w in (2 * lanes, lanes) if isinstance(size, int) and size % w == 0), None)
    if width is None:
        return None
    tile, k = made.do(Split((k,), (width,), ("tile", "own"))).loops
    if not _is_plain(made.nest, array, j, k):
        if is_shared:
            outside = _around(made.nest, block)
            outer = [name for name in outside if name in free(sums.term)]
            made.do(Pack(array, outside[0], (*outer, block, tile, j, k), "values"))
        else:
            made.do(Pack(array, rows, (tile, j, k), "values"))
    return tile, k


def _mixing(made: Scheduling, block: Handle, lanes: int, columns: tuple[Handle, Handle]) -> None:
    """Schedule the product of weights and values of a block."""
    tile, k = columns
    path, sums = _mixed(block.loop)
    row, j, acc = path[0].name, path[1].name, sums.name
    i_tile, i = made.do(Split((row,), (made.choose(HEIGHT),), ("tile", "row"))).loops
    reordered(made, [i_tile, tile, j, i, k])
    made.do(Round((i,)))
    loops = made.do(Stage(acc, j, (i, k), "mixed")).loops
    in_registers(made, (*loops[::2], i), (*loops[1::2], k), lanes)


def _is_plain(nest: Nest, array: str, row: str, column: str) -> bool:
    """Return whether rows of floats lie right behind each other, so that no copy is better."""
    loop = nest.loops[row]
    reads = {one.index for one in accesses(loop.body) if one.name == array}
    lane = nest.loops[column].axis
    if nest.types[array].dtype.is_half or len(reads) != 1 or None in reads:
        return False
    if any(
        isinstance(one, Guard)
        for s in walk(loop.body)
        if isinstance(s, Set)
        for one in walk_terms(s.term)
    ):
        return False
    (index,) = reads
    assert index is not None
    shape = nest.types[array].shape
    if not all(within(place, size) for place, size in zip(index, shape, strict=True)):
        return False
    flat = row_major(shape, index)
    across = substitute(flat, {row: loop.axis + 1}) - flat
    along = substitute(flat, {column: lane + 1}) - flat
    return across == shape[-1] and along == 1


def _writes(loop: Loop, array: str) -> bool:
    return any(one.name == array and one.how != "read" for one in accesses(loop.body))


# -- finding ---------------------------------------------------------------------------------------


def _product_of(block: Loop) -> tuple[str, str]:
    """Return the loops of columns and features of the first product in a block."""
    for one in block.body:
        inner = one
        while isinstance(inner, Loop) and len(inner.body) == 1:
            inner = inner.body[0]
        if isinstance(inner, Loop):
            for fold in inner.body:
                if isinstance(fold, Loop):
                    return inner.name, fold.name
    raise ScheduleError(f"attention: {block.name} has no product of queries and keys")


def _sum_of(nest: Nest, fold: str) -> Term:
    """Return what a loop adds up."""
    return next(one.statement.term for one in accesses((nest.loops[fold],)) if one.how == "+=")


def _operands(term: Term, column: str) -> tuple[Term, Term]:
    """Return the factors of a product that the rows and the columns are."""
    parts = [one for one in factors(term) if read_by(one)]
    right = [one for one in parts if column in free(one)]
    left = [one for one in parts if column not in free(one)]
    if len(right) != 1 or len(left) != 1:
        raise ScheduleError(f"attention: {term} is not a product of a query and a key")
    return left[0], right[0]


def _mixed(block: Loop) -> tuple[list[Loop], Set]:
    """Return the loops around the sums of weighted values, which come last, and what they do."""
    last = block.body[-1]
    if isinstance(last, Loop):
        path = [*perfect(last)]
        body = path[-1].body
        if len(path) > 1 and len(body) == 1 and isinstance(body[0], Set) and body[0].how == "+=":
            return path, body[0]
    raise ScheduleError(f"attention: {block.name} has no product of weights and values")


def _around(nest: Nest, name: str) -> list[str]:
    return [one.name for one in around(nest, name)]
