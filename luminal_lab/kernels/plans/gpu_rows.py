"""How rows and columns run on a GPU: threads share a sum, and exchange what they have.

    for i < m:                            block i < m:
      t = 0.0                               t = 0.0
      for j < n:                            thread l < 256: part[l] = 0.0
        t += x[i, j]                 →      thread l_2: for c: part[l_2] += x[i, 256*c + l_2]
      for j_2 < n:                          across l_3 < 256: t += part[l_3]
        y[i, j_2] = x[i, j_2] * t           thread l_4: for c_2: y[i, 256*c_2 + l_4] = …

Short rows are several to a block, a warp each. Where what is summed lies apart and results lie side
by side (columns), neighbouring threads have neighbouring results. Sums that are long and few are
cut into pieces, which are added up by a second launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

from luminal_lab.core.dims import Dim
from luminal_lab.core.printer import unique
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.gpu import GPU
from luminal_lab.kernels.nest.nest import Block, Local, Loop, Nest, Set, Statement, accesses, walk
from luminal_lab.kernels.nest.sizes import about, at_most, perfect, stride
from luminal_lab.kernels.plans.cpu_contraction import summed
from luminal_lab.kernels.plans.gpu_turns import attempt, is_plain, merged, turns, width_of
from luminal_lab.kernels.steps.arrays import Place
from luminal_lab.kernels.steps.binding import Bind, Guard, Mask
from luminal_lab.kernels.steps.kinds import Round, Vector
from luminal_lab.kernels.steps.loops import Fission, Fuse, Reorder, Split
from luminal_lab.kernels.steps.schedule import Scheduling
from luminal_lab.kernels.steps.step import extent, private
from luminal_lab.kernels.steps.sums import Lanes, Partial

WARP, THREADS = 32, 256
LONG = 16
"""From this many elements on a row is shared by threads."""
WIDE = 1024
"""From this many elements on a row has a block of its own."""
FEW = 128
"""Rows with fewer elements than this are several to a block, even if there are not many."""
ROWS = 8
"""How many short rows a block has."""
COLUMNS, HEIGHT = 32, 8
"""How many columns a block has, and how many threads share one."""
PIECE = 8192
"""How many elements of a sum a piece of it has at least, where it is cut into pieces."""


def row_plan(made: Scheduling, top: str, gpu: GPU) -> bool:
    """Let the threads of a block, or of a warp, share what is done for one row."""
    path = [loop.name for loop in perfect(made.nest.loops[top])]
    rows = made.nest.loops[path[-1]]
    length = _length(rows.body)
    if length < LONG or _is_column(made.nest, path[-1]):
        return False
    many = prod(about(made.nest.loops[name].size) for name in path)
    several = _is_flat(rows.body) and at_most(rows.size) > 1
    several = several and (length < FEW or (length < WIDE and many >= 2 * ROWS * gpu.cores))
    block, each = path[-1], ""
    if several:
        block, each = unique(f"{block}_o", made.nest.names), unique(f"{block}_i", made.nest.names)
        made.do(Split(path[-1], ROWS))
    threads = WARP if several else _threads(length)
    binds = _body(made, made.nest.loops[each or block].body, threads)
    if several:
        made.do(Fission(each))
    for name in [*path[:-1], block]:
        made.do(Bind(name, "block"))
    if several:
        threads_of = {name for name, where in binds if where != "vector"}
        for one in made.nest.loops[block].body:
            if isinstance(one, Loop):
                _whole(made, one, threads_of)
                made.do(Bind(one.name, "thread"))
    _bound(made, binds)
    shared(made, block)
    return True


def _whole(made: Scheduling, loop: Loop, threads: set[str]) -> None:
    """Run a loop over rows to the end of the block's, though there may be fewer.

    It is guarded where it would read, for nothing, what its rows have not put into shared memory.
    """
    if loop.size == ROWS:
        return
    kept = {name for name, one in made.nest.locals.items() if one.space == "scratch"}
    reads_kept = any(one.how == "read" and one.name in kept for one in accesses(loop.body))
    if not reads_kept and attempt(made, lambda: made.do(Round(loop.name))):
        return
    inner = loop.name
    for one in perfect(loop):
        if one.name in threads:
            inner = one.name
    made.do(Guard(loop.name, inner))


def row_body(made: Scheduling, body: Block) -> None:
    """Let the threads of one block do what stands outside of all others."""
    _bound(made, _body(made, body, _threads(_length(body))))


def shared(made: Scheduling, block: str) -> None:
    """Place what a block keeps where its threads see it."""
    for one in walk(made.nest.loops[block].body):
        if isinstance(one, Local) and one.space == "scratch":
            made.do(Place(one.name, "shared"))


def _threads(length: float) -> int:
    """Return how many threads share something: whole warps, each with something to do."""
    found = WARP
    while found < THREADS and 2 * found <= length:
        found *= 2
    return found


def _length(body: Block) -> float:
    """Return how long the longest loop is that can be shared."""
    found = 0.0
    for one in body:
        if isinstance(one, Loop):
            inner = [*perfect(one)]
            size = prod(about(loop.size) for loop in inner)
            found = max(found, size if is_plain(inner[-1]) else about(one.size))
    return found


def _is_flat(body: Block) -> bool:
    """Return whether a row is loops that do one thing each."""
    loops = [one for one in body if isinstance(one, Loop)]
    return all(is_plain([*perfect(one)][-1]) for one in loops)


def _is_column(nest: Nest, name: str) -> bool:
    """Return whether neighbouring results are made of neighbours, and what is summed lies apart."""
    for one in walk(nest.loops[name].body):
        if isinstance(one, Loop) and _sum_of(one) is not None:
            last = [*perfect(one)][-1]
            terms = [s.term for s in last.body if isinstance(s, Set)]
            if any(
                stride(nest, term, last.name) not in (0, 1) and stride(nest, term, name) == 1
                for term in terms
            ):
                return True
    return False


# -- along a row -----------------------------------------------------------------------------------

Binds = list[tuple[str, str]]
"""Loops, and what they are to be: thread, across or vector."""


def _bound(made: Scheduling, binds: Binds) -> None:
    for name, where in binds:
        made.do(Vector(name) if where == "vector" else Bind(name, where))


def _body(made: Scheduling, body: Block, threads: int) -> Binds:
    """Cut the loops of a body into turns of threads; return what is to be bound, in order."""
    found: Binds = []
    for one in body:
        if isinstance(one, Loop):
            found += _along(made, one.name, threads)
    return found


def _along(made: Scheduling, name: str, threads: int) -> Binds:
    """Give the iterations of a loop to threads, or else those of the loops inside."""
    binds: Binds = []

    def tried(way: Callable[[Scheduling, str, int], Binds]) -> bool:
        def steps() -> None:
            found = way(made, name, threads)
            nest, count = made.nest, len(made.steps)
            _bound(made, found)  # to see whether it may be
            made.nest = nest
            del made.steps[count:]
            binds.extend(found)

        return attempt(made, steps)

    loop = made.nest.loops[name]
    if _sum_of(loop) is not None:
        if at_most(prod_of(loop)) < LONG or not tried(_sum):
            return []
        return binds
    if tried(_each) or tried(_turned):
        return binds
    before = set(made.nest.loops)
    if is_plain(loop) and attempt(made, lambda: made.do(Fission(name))):
        parts = [name, *(one for one in made.nest.loops if one not in before)]
        return [bind for part in parts for bind in _along(made, part, threads)]
    return _body(made, loop.body, threads)


def prod_of(loop: Loop) -> Dim:
    """Return how many iterations loops have that are one right in the other."""
    found: Dim = 1
    for one in perfect(loop):
        found = found * one.size
    return found


def _sum_of(loop: Loop) -> str | None:
    """Return the number that is all that a loop adds to."""
    inside = private(loop.body)
    used = [one for one in accesses(loop.body) if one.name not in inside]
    written = {one.name for one in used if one.how != "read"}
    if len(written) != 1:
        return None
    (name,) = written
    hows = {one.how for one in used if one.name == name}
    places = {one.index for one in used if one.name == name}
    return name if hows in ({"+="}, {"max="}) and places == {()} else None


def _sum(made: Scheduling, name: str, threads: int) -> Binds:
    """Let threads sum parts of a sum, and add them up together."""
    array = _sum_of(made.nest.loops[name])
    assert array is not None
    name, lane = _joined(made, name, threads)
    outer, inner = turns(made, name, threads)
    into = unique(f"{array}_parts", made.nest.names)
    before = set(made.nest.loops)
    made.do(Lanes(array, inner, outer, into))
    made.do(Place(into, "registers"))
    first, last = [one for one in made.nest.loops if one not in before]
    made.do(Reorder(outer, inner))
    binds = [(first, "thread"), (inner, "thread"), (last, "across")]
    return [*binds, (lane, "vector")] if lane else binds


def _each(made: Scheduling, name: str, threads: int) -> Binds:
    """Let threads do the iterations of a loop, each by itself."""
    name, lane = _joined(made, name, threads)
    loop, inner = made.nest.loops[name], name
    most = extent(loop.axis)
    if not isinstance(most, int) or most > threads:
        outer, inner = turns(made, name, threads)
        made.do(Reorder(outer, inner))
    elif loop.size != most:
        made.do(Guard(name, name))
    return [(inner, "thread"), (lane, "vector")] if lane else [(inner, "thread")]


def _turned(made: Scheduling, name: str, threads: int) -> Binds:
    """Let threads do the iterations of a loop inside, around those that add to one result."""
    loops = [loop.name for loop in perfect(made.nest.loops[name])]
    for place in range(1, len(loops)):
        for at in range(place, 0, -1):
            made.do(Reorder(loops[at - 1], loops[place]))
        return _each_of(made, loops[place], threads)
    raise ScheduleError(f"{name} is one loop")


def _each_of(made: Scheduling, name: str, threads: int) -> Binds:
    """Let threads do the iterations of one loop."""
    size = made.nest.loops[name].size
    if isinstance(size, int) and size <= threads:
        return [(name, "thread")]
    outer, inner = turns(made, name, threads)
    made.do(Reorder(outer, inner))
    return [(inner, "thread")]


def _joined(made: Scheduling, name: str, threads: int) -> tuple[str, str]:
    """Make one loop of those right in each other, and one of neighbours that are one access."""
    loops = [*perfect(made.nest.loops[name])]
    if not is_plain(loops[-1]):
        return name, ""
    width = width_of(made.nest, loops[-1].name)
    while width > 1 and at_most(prod_of(loops[0])) < width * threads:
        width //= 2
    names = [loop.name for loop in loops]
    lane = ""
    if width > 1 and loops[-1].size == width and len(loops) > 1:
        lane = names.pop()  # they have been cut before
    elif width > 1:
        outer = unique(f"{names[-1]}_o", made.nest.names)
        lane = unique(f"{names[-1]}_i", made.nest.names)
        made.do(Split(names[-1], width))
        names[-1] = outer
    return merged(made, names), lane


# -- columns ---------------------------------------------------------------------------------------


def column_plan(made: Scheduling, top: str, gpu: GPU) -> bool:
    """Let some threads share each of neighbouring columns."""
    path = [loop.name for loop in perfect(made.nest.loops[top])]
    columns = made.nest.loops[path[-1]]
    loops = [one for one in columns.body if isinstance(one, Loop)]
    if len(loops) != 1 or _sum_of(loops[0]) is None or not _is_column(made.nest, path[-1]):
        return False
    fold, many = loops[0], prod(about(made.nest.loops[name].size) for name in path)
    if at_most(prod_of(fold)) < 4 * HEIGHT or many > 4 * THREADS * gpu.cores:
        return False
    array = _sum_of(fold)
    assert array is not None
    names = made.nest.names
    block, column = unique(f"{path[-1]}_o", names), unique(f"{path[-1]}_i", names)
    made.do(Split(path[-1], COLUMNS))
    if made.nest.loops[column].size != COLUMNS:
        made.do(Mask(column))
    outer, inner = turns(made, _joined_sum(made, fold.name), HEIGHT)
    into = unique(f"{array}_parts", made.nest.names)
    before = set(made.nest.loops)
    made.do(Lanes(array, inner, outer, into))
    first, last = [one for one in made.nest.loops if one not in before]
    made.do(Reorder(outer, inner))
    made.do(Fission(column))
    for name in [*path[:-1], block]:
        made.do(Bind(name, "block"))
    for one in made.nest.loops[block].body:
        if isinstance(one, Loop):
            within = [loop.name for loop in perfect(one)]
            if first in within or inner in within:
                made.do(Reorder(one.name, within[1]))
                made.do(Bind(within[1], "thread"))
            made.do(Bind(one.name, "thread"))
    made.do(Bind(last, "across"))
    made.do(Place(into, "registers"))
    shared(made, block)
    return True


def _joined_sum(made: Scheduling, name: str) -> str:
    loops = [*perfect(made.nest.loops[name])]
    return merged(made, [loop.name for loop in loops]) if is_plain(loops[-1]) else name


# -- in two launches -------------------------------------------------------------------------------


def few_rows(made: Scheduling, top: str, gpu: GPU) -> list[str]:
    """Cut sums that are long and few into pieces; return the loops that there are then."""
    path = [loop.name for loop in perfect(made.nest.loops[top])]
    loop = made.nest.loops[path[-1]]
    count = prod(about(made.nest.loops[name].size) for name in path)
    found = summed(loop.body)
    if found is None:
        return [top]
    length = prod(about(fold.size) for fold in found[0])
    is_column = _is_column(made.nest, path[-1])
    blocks = count / COLUMNS if is_column else count
    if length < 2 * PIECE or blocks > gpu.cores // 2 or at_most(count_of(made, path)) > 1 << 16:
        return [top]
    result: list[str] = []

    def steps() -> None:
        piece = _piece(length, blocks, gpu)
        _pieces(made, found[0][0].name, piece)
        made.do(Fission(path[-1]))
        for name in reversed(path[:-1]):
            made.do(Fission(name))
        tops = [one.name for one in made.nest.body if isinstance(one, Loop)]
        place = tops.index(top)
        tops = tops[place : place + 4]
        for later in tops[2:]:
            made.do(Fuse(later, top))
        result.extend([tops[1], top])

    return result if attempt(made, steps) else [top]


def count_of(made: Scheduling, path: list[str]) -> Dim:
    """Return how many results loops have."""
    found: Dim = 1
    for name in path:
        found = found * made.nest.loops[name].size
    return found


def _piece(length: float, blocks: float, gpu: GPU) -> int:
    """Return how many elements a piece of a sum has: enough pieces for all cores, if they are."""
    wanted = length * max(1.0, blocks) / (2 * gpu.cores)
    piece = PIECE
    while piece < wanted:
        piece *= 2
    return piece


def _pieces(made: Scheduling, name: str, piece: int) -> str:
    """Cut a sum into pieces of so many elements; return the loop over pieces."""
    array = _sum_of(made.nest.loops[name])
    assert array is not None
    name, lane = _joined(made, name, THREADS)
    if lane:
        piece //= size_of_lane(made, lane)
    outer = unique(f"{name}_o", made.nest.names)
    into = unique(f"{array}_pieces", made.nest.names)
    made.do(Split(name, piece))
    made.do(Partial(array, outer, into))
    return outer


def size_of_lane(made: Scheduling, name: str) -> int:
    """Return how many neighbours a loop has that are one access."""
    size = made.nest.loops[name].size
    assert isinstance(size, int)
    return size


def long_sums(made: Scheduling, gpu: GPU) -> Iterator[str]:
    """Cut long sums that stand outside of all loops into pieces; yield the loops over them."""
    for one in [one for one in made.nest.body if isinstance(one, Loop)]:
        if _sum_of(one) is None or about(prod_of(one)) < 2 * PIECE:
            continue
        name, found = one.name, list[str]()
        size = _piece(about(prod_of(one)), 1, gpu)

        def steps(name: str = name, size: int = size, found: list[str] = found) -> None:
            found.append(_pieces(made, name, size))

        if attempt(made, steps):
            yield found[0]


def is_sum(one: Statement) -> bool:
    """Return whether a statement only adds to a number."""
    return isinstance(one, Loop) and _sum_of(one) is not None
