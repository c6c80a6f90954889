"""How kernels run on a GPU unless somebody says otherwise: short heuristics that choose steps.

- Contractions (gpu_contraction.py) are tiles in shared memory and registers, by tensor units where
  these multiply what there is, on Hopper four warps at a time.
- Attention (gpu_attention.py) is one launch, or two where few rows have their keys cut into pieces
  (definition/pieces.py).
- Threads share rows, and exchange what they have summed; short rows are several to a block, a warp
  each. Where what is summed lies apart and results lie side by side (columns), neighbouring threads
  have neighbouring results. Sums that are long and few are cut into pieces, which a second launch
  adds up.
- Everything else is threads that compute some neighbours each, with what is summed for them.
- What no rule fits, one thread does.

A row becomes:

    for i < m:                        block i < m:
      t = 0.0                           t = 0.0
      for j < n:                        thread p.start < 256: p[p.start] = 0.0
        t += x[i, j]             →      thread j.thread: for j.turn: p[j.thread] += x[…]
      for j_2 < n:                      across p.end < 256: t += p[p.end]
        y[i, j_2] = x[i, j_2] * t       thread j_2.thread: for j_2.turn: y[…] = …
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

from luminal_lab.core.printer import unique
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition import pieces
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.online import online_softmax
from luminal_lab.kernels.gpu import DECLARED, GPU
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.nest.nest import Local, Nest, accesses, arrays_in, walk
from luminal_lab.kernels.nest.sizes import at_most, bytes_in, bytes_of, iterations, many, width_of
from luminal_lab.kernels.plans.gpu_attention import attention_plan
from luminal_lab.kernels.plans.gpu_contraction import contraction_plan, group_plan
from luminal_lab.kernels.plans.match import is_column, summed, total_of
from luminal_lab.kernels.render.gpu.nest import phases
from luminal_lab.kernels.steps.arrays import Place, Shrink, around_local
from luminal_lab.kernels.steps.binding import Guard, Mask
from luminal_lab.kernels.steps.choices import NO_CHOICES, Choice
from luminal_lab.kernels.steps.kinds import Round
from luminal_lab.kernels.steps.loops import Fission, Fuse, Split
from luminal_lab.kernels.steps.schedule import Attempt, Handle, Scheduling
from luminal_lab.kernels.steps.step import extent
from luminal_lab.kernels.steps.sums import Partial

ELSE = "the plan is for others"
RESERVED = 1024
"""The bytes that are left beside tiles, for barriers and what threads exchange."""
LARGE = 1024
"""From this many elements on blocks have as many threads."""
OWN, SHARED = 4 << 10, 16 << 10
"""The most bytes of an array that one thread keeps for itself, and that the threads of a row do."""
WARP = 32
THREADS = Choice("threads", 256, 64, 128, 512)
"""How many threads a block has, or at most share a row, where nothing speaks for another number."""
LONG = 16
"""From this many elements on a row is shared by threads."""
WIDE = 1024
"""From this many elements on a row has a block of its own."""
FEW = 128
"""Rows with fewer elements than this are several to a block, even if there are not many."""
ROWS = Choice("rows", 8, 4, 16)
"""How many short rows a block has."""
COLUMNS, HEIGHT = Choice("columns", 32, 64), Choice("height", 8, 4, 16)
"""How many columns a block has, and how many threads share one."""
ACCESS = Choice("access_bytes", 16, 4, 8)
"""What a thread loads and stores as one at most."""
PIECE = Choice("piece", 8192, 4096, 16384)
"""How many elements of a sum a piece of it has at least, where it is cut into pieces."""
Binds = list[tuple[str, str]]
"""Loops, and what they are to be: thread, across or vector."""


def gpu_schedule(nest: Nest, gpu: GPU, asked: Mapping[str, int] = NO_CHOICES) -> Scheduling:
    """Return a nest that runs well on a GPU, with the steps that lead there."""
    made, why = Scheduling(nest), ""
    for plan in (pieces_plan, attention_plan, group_plan, contraction_plan, _general, _alone):
        made = Scheduling(nest, why, asked)
        attempt = fitted(made, gpu, plan)
        if attempt.held:
            break
        if plan is group_plan and attempt.why != ELSE:
            why = f"not by four warps together: {attempt.why.partition(': ')[2]}"
    return made


def gpu_definition(definition: Definition, gpu: GPU) -> Definition:
    """Return a definition as a GPU computes it: softmaxes in one pass, or keys in pieces."""
    whole = online_softmax(definition)
    cut = pieces.in_pieces(whole, gpu.cores)
    if cut is whole or not fitted(Scheduling(lower(cut)), gpu, pieces_plan).held:
        return whole
    return cut


def fitted(made: Scheduling, gpu: GPU, plan: Callable[..., bool], *top: Handle) -> Attempt:
    """Make the steps of a plan for a nest, or for a loop, if it is for that and there is room."""
    with made.attempt() as attempt:
        if not plan(made, *top, gpu):
            raise ScheduleError(ELSE)
        for phase in phases(made.nest):
            if phase.blocks or not top:
                phase.check()
                if bytes_in(phase.body, "tiles") > gpu.shared - RESERVED:
                    raise ScheduleError("tiles are more than threads can share")
                if bytes_in(phase.body, "shared") > min(gpu.shared, DECLARED):
                    raise ScheduleError("arrays are more than threads can share")
    return attempt


def pieces_plan(made: Scheduling, gpu: GPU) -> bool:
    """Give a piece, and then a row, to each block; return whether the nest is one in pieces."""
    tops = made.tops
    maxima = [top for top in tops if any(one.how == "max=" for one in accesses((top.loop,)))]
    if len(tops) != 9 or maxima != [tops[1], tops[5]]:
        return False
    for group in (tops[:5], tops[5:]):
        made.share(group)
    _shrink(made)
    _placed(made, "memory")
    return len(made.tops) == 2 and all(row_plan(made, top, gpu) for top in made.tops)


def _general(made: Scheduling, gpu: GPU) -> bool:
    """Give each outermost loop to blocks and threads, by what it does."""
    made.share(made.tops)
    _shrink(made)
    for loop in [loop for top in made.tops for loop in in_pieces(made, top, gpu)]:
        outside = {one.name for one in made.nest.body if isinstance(one, Local)}
        kept = {name for name in outside if made.nest.locals[name].space != "memory"}
        if kept & arrays_in((loop.loop,)):
            continue  # one launch does not find what another left in registers
        for plan in (row_plan, column_plan, _elements):
            if fitted(made, gpu, plan, loop).held:
                break
    left = [top for top in made.tops if top.loop.kind == "for"]
    _placed(made, "memory")
    with made.attempt():
        _bound(made, _body(made, left, _threads(made, _length(left)) if left else 1))
    if any(top in made.nest.loops for top in left):
        _placed(made, "registers")
    return True


def _shrink(made: Scheduling) -> None:
    """Keep of each array what one row needs, if that has a place near the threads."""
    for name in list(made.nest.locals):
        with made.attempt():
            made.do(Shrink((name,)))
            local = made.nest.locals[name]
            if local.space == "scratch" and bytes_of(local) > SHARED:
                raise ScheduleError(f"{name} is larger than what threads share")


def _placed(made: Scheduling, space: str) -> None:
    """Place in registers what a thread keeps, or in memory what one launch leaves for another."""
    local = [one for one in made.nest.locals.values() if one.space == "scratch"]
    most, is_own = (OWN, True) if space == "registers" else (inf, False)
    small = [one.name for one in local if bytes_of(one) <= most]
    names = [name for name in small if bool(around_local(made.nest, name)) == is_own]
    if names:
        made.do(Place(tuple(names), space))


# -- rows -----------------------------------------------------------------------------------------


def row_plan(made: Scheduling, top: Handle, gpu: GPU) -> bool:
    """Let the threads of a block, or of a warp, share what is done for one row."""
    *outer, row = top.inner
    length = _length(row.parts)
    if length < LONG or is_column(made.nest, row):
        return False
    count = many(top.inner)
    is_flat = all(one.inner[-1].is_plain for one in row.parts)
    is_short = length < FEW or (length < WIDE and count >= 2 * ROWS.values[0] * gpu.cores)
    several = is_flat and is_short and at_most(row.size) > 1
    rows = made.choose(ROWS) if several else 1
    block, each = made.do(Split((row,), (rows,), ("block", "own"))).loops if several else (row, row)
    binds = _body(made, each.parts, WARP if several else _threads(made, length))
    if several:
        made.do(Fission((each,)))
    made.run("block", [*outer, block])
    if several:
        names = {name for name, where in binds if where != "vector"}
        for one in block.parts:
            _whole(made, one, names, rows)
        made.run("thread", block.parts)
    _bound(made, binds)
    shared(made, block)
    return True


def _whole(made: Scheduling, loop: Handle, threads: set[str], rows: int) -> None:
    """Run a loop over rows to the block's end, or guard it where it would read what is not set."""
    if loop.size == rows:
        return
    kept = {name for name, one in made.nest.locals.items() if one.space == "scratch"}
    reads_kept = any(one.how == "read" and one.name in kept for one in accesses(loop.loop.body))
    if reads_kept or not made.attempted(Round((loop,))):
        inner = [loop, *(one for one in loop.inner if one in threads)][-1]
        made.do(Guard(loop, inner))


def shared(made: Scheduling, block: Handle) -> None:
    """Place what a block keeps where its threads see it."""
    inside = [one for one in walk(block.loop.body) if isinstance(one, Local)]
    names = tuple(one.name for one in inside if one.space == "scratch")
    if names:
        made.do(Place(names, "shared"))


def _threads(made: Scheduling, length: float) -> int:
    """Return how many threads share something: whole warps, each with something to do."""
    return max(WARP, min(made.choose(THREADS), 1 << max(1, int(length)).bit_length() - 1))


def _length(loops: list[Handle]) -> float:
    """Return how long the longest loop is that can be shared."""
    paths = [loop.inner for loop in loops]
    lengths = (many(inner if inner[-1].is_plain else inner[:1]) for inner in paths)
    return max(lengths, default=0.0)


# -- along a row -----------------------------------------------------------------------------------


def _bound(made: Scheduling, binds: Binds) -> None:
    for kind in ("thread", "across", "vector"):
        made.run(kind, [name for name, where in binds if where == kind])


def _body(made: Scheduling, loops: Sequence[Handle], threads: int) -> Binds:
    """Cut loops into turns of threads; return what is to be bound, in order."""
    return [bind for loop in loops for bind in _along(made, loop, threads)]


def _along(made: Scheduling, loop: Handle, threads: int) -> Binds:
    """Give the iterations of a loop to threads, or else those of the loops inside."""
    is_sum = total_of(loop.loop) is not None
    if is_sum and at_most(iterations(loop.inner)) < LONG:
        return []
    for way in (_sum,) if is_sum else (_each, _turned):
        binds: Binds = []
        with made.attempt() as attempt:
            binds = way(made, loop, threads)
            with made.attempt() as trial:
                _bound(made, binds)
            if not trial.held:
                raise ScheduleError(trial.why)
            trial.undo()
        if attempt.held:
            return binds
    if is_sum:
        return []
    if loop.is_plain and made.allows(Fission((loop,))):
        return _body(made, made.do(Fission((loop,))).loops, threads)
    return _body(made, loop.parts, threads)


def _sum(made: Scheduling, loop: Handle, threads: int) -> Binds:
    """Let threads sum parts of a sum, and add them up together."""
    array = total_of(loop.loop) or ""
    loop, lane = _joined(made, loop, threads)
    turn, thread = made.turns(loop, threads)
    into, first, last = made.lanes(array, thread, turn, "parts")
    made.do(Place((into,), "registers"))
    made.reorder([thread, turn])
    return [(first, "thread"), (thread, "thread"), (last, "across"), *lane]


def _each(made: Scheduling, loop: Handle, threads: int) -> Binds:
    """Let threads do the iterations of a loop, each by itself."""
    thread, lane = _joined(made, loop, threads)
    most = extent(thread.loop.axis)
    if not isinstance(most, int) or most > threads:
        turn, thread = made.turns(thread, threads)
        made.reorder([thread, turn])
    elif thread.size != most:
        made.do(Guard(thread, thread))
    return [(thread, "thread"), *lane]


def _turned(made: Scheduling, loop: Handle, threads: int) -> Binds:
    """Let threads do the iterations of a loop inside, around those that add to one result."""
    around, *inside = loop.inner
    if not inside:
        raise ScheduleError(f"{loop} is one loop")
    thread, *rest = inside
    made.reorder([thread, around, *rest])
    if not isinstance(thread.size, int) or thread.size > threads:
        turn, thread = made.turns(thread, threads)
        made.reorder([thread, turn])
    return [(thread, "thread")]


def _joined(made: Scheduling, loop: Handle, threads: int) -> tuple[Handle, Binds]:
    """Make one loop of those right in each other, and one of neighbours that are one access."""
    loops = loop.inner
    if not loops[-1].is_plain:
        return loop, []
    width = width_of(made.nest, loops[-1], made.choose(ACCESS))
    while width > 1 and at_most(iterations(loops)) < width * threads:
        width //= 2
    lane: list[Handle] = []
    if width > 1 and loops[-1].size == width and len(loops) > 1:
        lane = [loops.pop()]  # they have been cut before
    elif width > 1:
        loops[-1], *lane = made.do(Split((loops[-1],), (width,), ("vector", "lane"))).loops
    return made.merge(loops), [(one, "vector") for one in lane]


# -- columns ---------------------------------------------------------------------------------------


def column_plan(made: Scheduling, top: Handle, gpu: GPU) -> bool:
    """Let some threads share each of neighbouring columns."""
    *outer, column = top.inner
    array = total_of(column.parts[0].loop) if len(column.parts) == 1 else None
    if array is None or not is_column(made.nest, column):
        return False
    (fold,), height = column.parts, made.choose(HEIGHT)
    is_short = at_most(iterations(fold.inner)) < 4 * height
    if is_short or many(top.inner) > 4 * THREADS.values[0] * gpu.cores:
        return False
    block, column = made.do(Split((column,), (made.choose(COLUMNS),), ("block", "own"))).loops
    if not column.is_whole:
        made.do(Mask((column,)))
    if fold.inner[-1].is_plain:
        fold = made.merge(fold.inner)
    turn, thread = made.turns(fold, height)
    into, first, last = made.lanes(array, thread, turn, "parts")
    made.reorder([thread, turn])
    made.do(Fission((column,)))
    made.run("block", [*outer, block])
    for one in block.parts:
        inner = one.inner
        if first in inner or thread in inner:
            made.reorder([inner[1], one, *inner[2:]])
            made.run("thread", [inner[1]])
        made.run("thread", [one])
    made.run("across", [last])
    made.do(Place((into,), "registers"))
    shared(made, block)
    return True


# -- in two launches -------------------------------------------------------------------------------


def in_pieces(made: Scheduling, top: Handle, gpu: GPU) -> list[Handle]:
    """Cut sums that are long and few into pieces; return the loops that there are then."""
    path = top.inner if total_of(top.loop) is None else []
    found = summed(path[-1].loop.body) if path else None
    if path and found is None:
        return [top]
    folds = top.inner if found is None else [made.loop(fold.name) for fold in found[0]]
    length, blocks = many(folds), many(path)
    if path and is_column(made.nest, path[-1]):
        blocks /= COLUMNS.values[0]
    is_short = length < 2 * PIECE.values[0] or blocks > gpu.cores // 2
    if is_short or at_most(iterations(path)) > 1 << 16:
        return [top] if path else []
    piece = made.choose(PIECE)
    while piece < length * max(1.0, blocks) / (2 * gpu.cores):  # enough for all cores
        piece *= 2
    with made.attempt():
        place = made.tops.index(top)
        fold, lanes = _joined(made, folds[0], THREADS.values[0])
        for lane, _ in lanes:
            piece //= int(many([made.loop(lane)]))
        array = total_of(fold.loop) or ""
        outer, _ = made.do(Split((fold,), (piece,), ("piece", "own"))).loops
        made.do(Partial(array, outer, unique(f"{array}_pieces", made.nest.names)))
        ends: list[Handle] = []
        if path:
            made.do(Fission(tuple(path)))
            first, outer, *later = made.tops[place : place + 4]
            ends.append(first)
            for one in later:
                made.do(Fuse(one, first))
        return [outer, *ends]
    return path[:1]


# -- elements --------------------------------------------------------------------------------------


def _elements(made: Scheduling, top: Handle, gpu: GPU) -> bool:
    """Let each thread compute some neighbours, along as many loops as it can be."""
    for count in range(len(top.inner), 0, -1):
        with made.attempt() as attempt:
            _element(made, top.inner[:count])
        if attempt.held:
            _placed(made, "registers")
            return True
    return False


def _element(made: Scheduling, loops: list[Handle]) -> None:
    """Make one loop of some, and give it to threads."""
    width, lane = width_of(made.nest, loops[-1], made.choose(ACCESS)), list[Handle]()
    if width > 1:
        loops[-1], *lane = made.do(Split((loops[-1],), (width,), ("vector", "lane"))).loops
    thread = made.merge(loops)
    size = thread.size
    threads = made.choose(THREADS, THREADS.values[0] if at_most(size) >= LARGE else 64)
    if not isinstance(size, int) or size > THREADS.values[0]:
        block, thread = made.turns(thread, threads)
        made.run("block", [block])
    made.run("thread", [thread])
    made.run("vector", lane)


def _alone(made: Scheduling, gpu: GPU) -> bool:
    """Let one thread do all of it."""
    for local in [one for one in made.nest.locals.values() if one.space == "scratch"]:
        made.do(Place((local.name,), "registers" if bytes_of(local) < inf else "memory"))
    return True
