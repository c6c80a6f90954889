"""How attention runs on a CPU: rows of queries against blocks of keys, all of it in the caches.

A task has some rows. For each block of keys their scores are a small product, their weights a few
passes over the block, and the values that the weights mix another small product. Both products
hold a tile of sums in registers, as those of matmuls do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from luminal_lab.core.dims import substitute
from luminal_lab.core.ops import Mul
from luminal_lab.core.views import row_major
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.terms import (
    Apply,
    Guard,
    Term,
    free,
    read_by,
    walk as walk_terms,
)
from luminal_lab.kernels.nest.nest import Local, Loop, Nest, Set, accesses, walk
from luminal_lab.kernels.nest.sizes import about, perfect
from luminal_lab.kernels.steps.arrays import Copy, Pack
from luminal_lab.kernels.steps.kinds import Parallel, Round, Simd, Unroll, Vector
from luminal_lab.kernels.steps.loops import Fission, Merge, Reorder, Split
from luminal_lab.kernels.steps.schedule import Scheduling
from luminal_lab.kernels.steps.staging import Hold, Stage
from luminal_lab.kernels.steps.step import Step, around, within
from luminal_lab.kernels.steps.stopping import Stop
from luminal_lab.machines.machine import Machine

ROWS = 96
"""How many rows of queries a task has."""
HEIGHT = 6
"""How many rows a tile of sums in registers has."""


@dataclass
class Attention:
    """A nest that is an attention: the loops around, and where its parts are."""

    outer: list[str]
    """The loops around that of the rows."""
    row: str
    block: str
    """The loop over blocks of keys."""


def attention_of(nest: Nest) -> Attention | None:
    """Return how a nest is an attention, if it is nothing else."""
    tops = [one for one in nest.body if not isinstance(one, Local)]
    if len(tops) != 1 or not isinstance(tops[0], Loop):
        return None
    loop, path = tops[0], list[str]()
    while len(loop.body) == 1 and isinstance(loop.body[0], Loop):
        path.append(loop.name)
        loop = loop.body[0]
    blocks = [one for one in loop.body if isinstance(one, Loop) and _is_block(one)]
    return Attention(path, loop.name, blocks[0].name) if len(blocks) == 1 else None


def _is_block(loop: Loop) -> bool:
    """Return whether a loop takes the maximum of scores that it works out itself."""
    own = {one.name for one in loop.body if isinstance(one, Local)}
    largest = [one.name for one in accesses(loop.body) if one.how == "max=" and one.name in own]
    return len(largest) == 1


def attention_plan(made: Scheduling, machine: Machine) -> bool:
    """Schedule an attention; return whether the nest is one."""
    found = attention_of(made.nest)
    if found is None:
        return False
    block, path = found.block, [*found.outer, found.row]
    j, fold = _product_of(made.nest.loops[block])
    sums = next(one.name for one in accesses((made.nest.loops[fold],)) if one.how == "+=")
    lanes = machine.lanes(made.nest.types[sums].dtype.itemsize)
    keys = free(_operands(_sum_of(made.nest, fold), j)[1])
    shared = [name for name in path if name not in keys]
    if not shared:
        _alone(made, path, block)
    else:
        # Rows that have the same keys are together, whatever order the result has.
        row = max(shared, key=lambda name: about(made.nest.loops[name].size))
        for inner in path[path.index(row) + 1 :]:
            made.do(Reorder(row, inner))
        path.remove(row)
        if path:
            made.do(Parallel(_merged(made, path)))
        size = made.nest.loops[row].size
        # A copy of all keys is only made where it is known that many rows read it.
        is_shared = isinstance(size, int) and size > ROWS
        _together(made, row, block, lanes, is_shared=is_shared)
    for loop in list(made.nest.loops.values()):
        inner = any(isinstance(one, Loop) for one in walk(loop.body))
        if loop.kind == "for" and not inner and loop.name != block:
            _try(made, Simd(loop.name))
    for loop in made.nest.body:
        if isinstance(loop, Loop) and loop.kind == "for":
            made.do(Parallel(loop.name))
    return True


def _merged(made: Scheduling, loops: list[str]) -> str:
    """Make one loop of the outermost ones, as long as its iterations can be tasks."""
    name = loops[0]
    for inner in loops[1:]:
        both = f"{name}_{inner}"
        kept, count = made.nest, len(made.steps)
        if not _try(made, Merge(name, inner), Parallel(both)):
            break
        made.nest = kept
        del made.steps[count:]
        made.do(Merge(name, inner))
        name = both
    return name


def _alone(made: Scheduling, rows: list[str], block: str) -> None:
    """Schedule rows that have keys of their own, or one row: what is read is read once."""
    made.do(Parallel(_merged(made, rows)))
    path, sums = _mixed(made.nest.loops[block])
    if len(path) == 2:
        _try(made, Stage(sums.name, path[0].name, (path[1].name,), "mixed"))


def _together(made: Scheduling, row: str, block: str, lanes: int, *, is_shared: bool) -> None:
    """Schedule rows that have the same keys, some at a time."""
    made.do(Split(row, ROWS))
    # for row_o: for row_i: (all of a row)   →   for row_o: … for block: for row_i: (a part)
    made.do(Fission(f"{row}_i"))
    rows = _around(made.nest, block)[-1]
    _, sums = _mixed(made.nest.loops[block])
    for one in around(made.nest, rows)[-1].body:
        if isinstance(one, Loop) and one.name != rows and _writes(one, sums.name):
            made.do(Round(one.name))  # the last tile of rows is a whole one
    made.do(Reorder(rows, block))
    columns = _keys(made, rows, block, lanes, is_shared=is_shared)
    along = _values(made, rows, block, lanes, is_shared=is_shared)
    _try(made, Stop(block, _scores_of(made.nest.loops[rows])))
    made.do(Fission(rows))
    _held(made, block)
    _scores(made, block, lanes, columns)
    _mixing(made, block, lanes, along)


def _keys(made: Scheduling, rows: str, block: str, lanes: int, *, is_shared: bool) -> str:
    """Copy the keys into panels of columns, once for all rows or for each block; return whose."""
    nest = made.nest
    j, fold = _product_of(nest.loops[rows])
    _, right = _operands(_sum_of(nest, fold), j)
    made.do(Split(j, 2 * lanes))
    j_o, j_i = f"{j}_o", f"{j}_i"
    array = min(read_by(right))
    if not is_shared:
        made.do(Pack(array, rows, (j_o, fold, j_i), "keys"))
        return j
    path = _around(made.nest, block)
    outer = [name for name in path if name in free(right)]
    made.do(Pack(array, path[0], (*outer, block, j_o, fold, j_i), "keys"))
    return j


def _held(made: Scheduling, block: str) -> None:
    """Let the largest score and the sum of weights of a row be scalars in the loops over keys."""
    for rows in made.nest.loops[block].body:
        match rows:
            case Loop(body=(Loop(name=keys, body=body),)):
                for one in body:
                    if isinstance(one, Set) and one.how != "=" and len(one.index) == 1:
                        made.do(Hold(one.name, keys, f"{one.name}_row"))
            case _:
                pass


def _scores(made: Scheduling, block: str, lanes: int, j: str) -> None:
    """Schedule the product of queries and keys of a block, whose columns are split."""
    nest = made.nest
    j_o, j_i = f"{j}_o", f"{j}_i"
    _, fold = _product_of(nest.loops[block])
    i = next(one for one in _around(nest, j_o)[::-1] if one != block)
    sums = next(one.name for one in accesses((nest.loops[fold],)) if one.how == "+=")
    left, _ = _operands(_sum_of(nest, fold), j_i)
    made.do(Split(i, HEIGHT))
    i_o, i_i = f"{i}_o", f"{i}_i"
    made.do(Reorder(i_i, j_o))
    made.do(Fission(j_i))
    made.do(Fission(i_i))
    i_k, j_k, i_e, j_e = f"{i_i}_2", f"{j_i}_2", f"{i_i}_3", f"{j_i}_3"
    made.do(Reorder(j_k, fold))
    made.do(Reorder(i_k, fold))
    made.do(Pack(min(read_by(left)), block, (i_o, fold, i_k), "rows"))
    for name in (i_i, i_k, j_i, j_k):
        made.do(Round(name))
    for r, c in ((i_i, j_i), (i_k, j_k)):
        _tile(made, r, c, lanes)
    others = _reads(made.nest.loops[j_e]) - {sums}
    for name in sorted(others):
        made.do(Copy(name, i_e, (i_e, j_e), f"{name}_tile"))
    for name in (i_e, j_e):
        made.do(Round(name))
    if not _try(made, Split(j_e, lanes), Unroll(i_e), Unroll(f"{j_e}_o"), Vector(f"{j_e}_i")):
        # What is not sums and products alone takes them from an array, and not from registers.
        made.do(Copy(sums, i_e, (i_e, j_e), "tile"))
        _tile(made, f"tile_{i_e}", f"tile_{j_e}", lanes)
        made.do(Unroll(i_e))


def _tile(made: Scheduling, row: str, column: str, lanes: int) -> None:
    """Write out the loops over a tile of sums in registers, whose columns are vectors."""
    made.do(Split(column, lanes))
    made.do(Unroll(row))
    made.do(Unroll(f"{column}_o"))
    made.do(Vector(f"{column}_i"))


def _values(made: Scheduling, rows: str, block: str, lanes: int, *, is_shared: bool) -> str:
    """Cut the values into panels of columns, copied as the keys are unless they lie well."""
    nest = made.nest
    path, sums = _mixed(nest.loops[rows])
    (j, k), size = (one.name for one in path[-2:]), path[-1].size
    own = {one.name for one in nest.loops[rows].body if isinstance(one, Local)}
    (array,) = read_by(sums.term) - own
    width = next((w for w in (2 * lanes, lanes) if isinstance(size, int) and size % w == 0), None)
    if width is None:
        return k
    made.do(Split(k, width))
    k_o, k_i = f"{k}_o", f"{k}_i"
    if _is_plain(made.nest, array, j, k_i):
        return k
    if is_shared:
        outside = _around(made.nest, block)
        outer = [name for name in outside if name in free(sums.term)]
        made.do(Pack(array, outside[0], (*outer, block, k_o, j, k_i), "values"))
    else:
        made.do(Pack(array, rows, (k_o, j, k_i), "values"))
    return k


def _mixing(made: Scheduling, block: str, lanes: int, k: str) -> None:
    """Schedule the product of weights and values of a block."""
    nest = made.nest
    if f"{k}_o" not in nest.loops:
        return
    k_o, k_i = f"{k}_o", f"{k}_i"
    path, sums = _mixed(nest.loops[block])
    i, j, acc = path[0].name, path[1].name, sums.name
    made.do(Split(i, HEIGHT))
    i_i = f"{i}_i"
    made.do(Reorder(j, k_o))
    made.do(Reorder(i_i, k_o))
    made.do(Reorder(i_i, j))
    made.do(Round(i_i))
    made.do(Stage(acc, j, (i_i, k_i), "mixed"))
    for end in ("", "_2"):
        _tile(made, f"mixed_{i_i}{end}", f"mixed_{k_i}{end}", lanes)
    _tile(made, i_i, k_i, lanes)


def _scores_of(rows: Loop) -> str:
    """Return the array of scores of a block: the first that is made in it."""
    return next(one.name for one in rows.body if isinstance(one, Local))


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


def _reads(loop: Loop) -> set[str]:
    return {one.name for one in accesses(loop.body) if one.how == "read"}


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
    factors = [one for one in _factors(term) if read_by(one)]
    right = [one for one in factors if column in free(one)]
    left = [one for one in factors if column not in free(one)]
    if len(right) != 1 or len(left) != 1:
        raise ScheduleError(f"attention: {term} is not a product of a query and a key")
    return left[0], right[0]


def _factors(term: Term) -> Iterator[Term]:
    if isinstance(term, Apply) and isinstance(term.op, Mul):
        for arg in term.args:
            yield from _factors(arg)
    else:
        yield term


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


def _try(made: Scheduling, *steps: Step) -> bool:
    """Make steps, all or none of them."""
    nest, count = made.nest, len(made.steps)
    try:
        for step in steps:
            made.do(step)
    except ScheduleError:
        made.nest = nest
        del made.steps[count:]
        return False
    return True
