"""How kernels run on a GPU by default: short heuristics that choose steps.

- Contractions (gpu_contraction.py) are tiles in shared memory and registers, by tensor units where
  these support the dtype, on Hopper four warps at a time.
- A pass with sums of products, such as attention, is one launch (gpu_pass.py), or two where few
  rows have their keys cut into pieces (definition/pieces.py).
Threads share rows, and exchange their partial sums; a block has several short rows, one for each
warp. If the terms of a sum are far apart and results are contiguous (columns), neighbouring threads
have neighbouring results. If there are few sums and they are long, they are cut into pieces, which
a second launch adds up.
Otherwise each thread computes a few neighbours, or one thread computes everything.

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
from functools import partial
from math import inf

from luminal_lab.algebra.one_pass import one_pass
from luminal_lab.core.printer import unique
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition import pieces
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.gpu import DECLARED, GPU
from luminal_lab.kernels.nest.contraction import summed
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.nest.nest import Local, Nest, accesses, arrays_in, every
from luminal_lab.kernels.nest.sizes import at_most, bytes_in, bytes_of, iterations, many, width_of
from luminal_lab.kernels.plans.gpu_contraction import contraction_plan, group_plan
from luminal_lab.kernels.plans.gpu_pass import pass_plan
from luminal_lab.kernels.plans.match import is_column
from luminal_lab.kernels.plans.tiler import run_levels
from luminal_lab.kernels.render.gpu.nest import phases
from luminal_lab.kernels.steps.arrays import Place, Shrink
from luminal_lab.kernels.steps.choices import NO_CHOICES, Choice
from luminal_lab.kernels.steps.kinds import Guard, Mask, Round
from luminal_lab.kernels.steps.levels import Level
from luminal_lab.kernels.steps.loops import Fission, Fuse, Split
from luminal_lab.kernels.steps.schedule import ELSE, Attempt, Handle, Scheduling
from luminal_lab.kernels.steps.step import around, extent
from luminal_lab.kernels.steps.sums import Partial, total_of

RESERVED = 1024
"""The bytes left beside tiles for barriers and for the values that threads exchange."""
LARGE = 1024
"""From this many elements on, a block has the usual number of threads."""
OWN, SHARED = 4 << 10, 16 << 10
"""The most bytes of an array that one thread keeps, and that the threads of a row keep."""
WARP = 32
THREADS = Choice("threads", 256, 64, 128, 512)
"""How many threads a block has, or share a row at most, unless another number is better."""
LONG = 16
"""From this many elements on, threads share a row."""
WIDE = 1024
"""From this many elements on, a row has its own block."""
FEW = 128
"""Rows with fewer elements than this share a block, even if there are few rows."""
ROWS = Choice("rows", 8, 4, 16)
"""The number of short rows in a block."""
COLUMNS, HEIGHT = Choice("columns", 32, 64), Choice("height", 8, 4, 16)
"""The number of columns in a block, and of threads that share a column."""
ACCESS = Choice("access_bytes", 16, 4, 8)
"""The most bytes that a thread loads or stores in one access."""
PIECE = Choice("piece", 8192, 4096, 16384)
"""The least number of elements in a piece of a sum."""
ROW = (
    Level("block", "i", "block"),
    Level("own", "i", "thread"),
    Level("start", "k", "thread"),
    Level("thread", "k", "thread"),
    Level("end", "k", "across"),
    Level("lane", "k", "vector"),
)
"""Threads take turns along a row, or a column: each begins a sum, and all join them at its end."""
ELEMENT = Level("turn", "i", "block"), Level("thread", "i", "thread"), Level("lane", "i", "vector")
"""A thread has the neighbours of one access; a block has one turn of all its threads."""


def gpu_schedule(nest: Nest, gpu: GPU, asked: Mapping[str, int] = NO_CHOICES) -> Scheduling:
    """Return a nest that runs well on a GPU, with the steps that lead there."""
    scheduling = Scheduling(nest)
    for plan in (pieces_plan, pass_plan, _general, _alone):
        scheduling = Scheduling(nest, scheduling.why, asked, refused=scheduling.refused)
        if fitted(scheduling, gpu, plan).held:
            break
    return scheduling


def gpu_definition(definition: Definition, gpu: GPU) -> Definition:
    """Return a definition as a GPU computes it: softmaxes in one pass, or keys in pieces."""
    whole = one_pass(definition)
    cut = pieces.in_pieces(whole, gpu.cores)
    is_cut = cut is not whole and fitted(Scheduling(lower(cut)), gpu, pieces_plan).held
    return cut if is_cut else whole


def fitted(scheduling: Scheduling, gpu: GPU, plan: Callable[..., bool], *top: Handle) -> Attempt:
    """Apply a plan to a nest, or to a loop, if it fits and there is enough memory."""
    with scheduling.by(plan), scheduling.attempt("plan") as attempt:
        if not plan(scheduling, *top, gpu):
            raise ScheduleError(ELSE)
        for phase in phases(scheduling.nest):
            if phase.blocks or not top:
                phase.check()
                if bytes_in(phase.body, "tiles") > gpu.shared - RESERVED:
                    raise ScheduleError("tiles are more than threads can share")
                if bytes_in(phase.body, "shared") > min(gpu.shared, DECLARED):
                    raise ScheduleError("arrays are more than threads can share")
    return attempt


def pieces_plan(scheduling: Scheduling, gpu: GPU) -> bool:
    """Give a piece, and then a row, to each block; return whether the nest is in pieces."""
    tops = scheduling.tops
    maxima = [top for top in tops if any(use.how == "max=" for use in accesses((top.loop,)))]
    if len(tops) != 9 or maxima != [tops[1], tops[5]]:
        return scheduling.declined("the nest is not a softmax whose keys are cut into pieces")
    for group in (tops[:5], tops[5:]):
        scheduling.share(group)
    _shrink(scheduling)
    _placed(scheduling, "memory")
    pieces = scheduling.tops
    return len(pieces) == 2 and all(row_plan(scheduling, top, gpu) for top in pieces)


def _general(scheduling: Scheduling, gpu: GPU) -> bool:
    """Give each outermost loop to blocks and threads, according to its work."""
    for plan in (group_plan, contraction_plan):  # lines of their own may stand before a product
        if (attempt := fitted(scheduling, gpu, plan)).held:
            break
        if plan is group_plan and attempt.why != ELSE:
            scheduling.why = f"not by four warps together: {attempt.why.partition(': ')[2]}"
    tops = [top for top in scheduling.tops if top.loop.kind == "for"]
    if not tops:
        return True
    scheduling.share(tops)
    _shrink(scheduling)
    tops = [top for top in scheduling.tops if top.loop.kind == "for"]
    for loop in [loop for top in tops for loop in in_pieces(scheduling, top, gpu)]:
        outside = {s.name for s in scheduling.nest.body if isinstance(s, Local)}
        kept = {name for name in outside if scheduling.nest.locals[name].space != "memory"}
        if kept & arrays_in((loop.loop,)):
            continue  # a launch cannot read the registers of an earlier launch
        for plan in (row_plan, column_plan, _elements):
            if fitted(scheduling, gpu, plan, loop).held:
                break
    left = [top for top in scheduling.tops if top.loop.kind == "for"]
    _placed(scheduling, "memory")
    with scheduling.attempt():
        threads = _threads(scheduling, _length(left), gpu) if left else 1
        run_levels(scheduling, _body(scheduling, left, threads), ROW)
    if any(top in scheduling.nest.loops for top in left):
        _placed(scheduling, "registers")
    return True


def _shrink(scheduling: Scheduling) -> None:
    """Shrink each array to the part that one row needs, if that fits near the threads."""
    for name in list(scheduling.nest.locals):
        with scheduling.attempt():
            scheduling.do(Shrink((name,)))
            local = scheduling.nest.locals[name]
            if local.space == "scratch" and bytes_of(local) > SHARED:
                raise ScheduleError(f"{name} is larger than what threads share")


def _placed(scheduling: Scheduling, space: str) -> None:
    """Place a thread's own arrays in registers, or the arrays that launches share in memory."""
    local = [array for array in scheduling.nest.locals.values() if array.space == "scratch"]
    own = [array for array in local if around(scheduling.nest, array.name)]
    small = [array.name for array in own if bytes_of(array) <= OWN]
    names = small if space == "registers" else [array.name for array in local if array not in own]
    if names:
        scheduling.do(Place(tuple(names), space))


def row_plan(scheduling: Scheduling, top: Handle, gpu: GPU) -> bool:
    """Let the threads of a block, or of a warp, share the work on one row."""
    *outer, row = top.inner
    length = _length(row.parts)
    if length < LONG:
        return scheduling.declined(f"{row} has {length:,.0f} terms; threads share {LONG} or more")
    if is_column(scheduling.nest, row):
        return scheduling.declined(f"results of {row} lie side by side, the terms of one apart")
    count = many(top.inner)
    is_flat = all(loop.inner[-1].is_plain for loop in row.parts)
    is_short = length < FEW or (length < WIDE and count >= 2 * ROWS.values[0] * gpu.cores)
    several = is_flat and is_short and at_most(row.size) > 1
    rows = scheduling.choose(ROWS.within(gpu.threads // WARP)) if several else 1
    block, each = (
        scheduling.do(Split((row,), (rows,), ("block", "own"))).loops if several else (row, row)
    )
    threads = WARP if several else _threads(scheduling, length, gpu)
    along = _body(scheduling, each.parts, threads)
    outside = dict.fromkeys([*outer, block], "block")
    if several:
        scheduling.do(Fission((each,)))
        shared_out = {name for name, word in along.items() if word != "lane"}
        for loop in block.parts:
            _whole(scheduling, loop, shared_out, rows)
            outside[loop] = "own"
    run_levels(scheduling, outside | along, ROW)
    shared(scheduling, block)
    return True


def _whole(scheduling: Scheduling, loop: Handle, threads: set[str], rows: int) -> None:
    """Run a loop over rows to the block's end, or guard it if it would read unset elements."""
    if loop.size == rows:
        return
    kept = {name for name, local in scheduling.nest.locals.items() if local.space == "scratch"}
    reads_kept = any(use.how == "read" and use.name in kept for use in accesses(loop.loop.body))
    if reads_kept or not scheduling.attempted(Round((loop,))):
        inner = [loop, *(inner_loop for inner_loop in loop.inner if inner_loop in threads)][-1]
        scheduling.do(Guard(loop, inner))


def shared(scheduling: Scheduling, block: Handle) -> None:
    """Place the arrays of a block in shared memory."""
    inside = every(block.loop.body, Local)
    names = tuple(local.name for local in inside if local.space == "scratch")
    if names:
        scheduling.do(Place(names, "shared"))


def _threads(scheduling: Scheduling, length: float, gpu: GPU) -> int:
    """Return how many threads share some work: whole warps, none of them idle."""
    most = scheduling.choose(THREADS.within(gpu.threads))
    return max(WARP, min(most, 1 << max(1, int(length)).bit_length() - 1))


def _length(loops: list[Handle]) -> float:
    """Return the length of the longest loop that threads can share."""
    paths = [loop.inner for loop in loops]
    lengths = (many(inner if inner[-1].is_plain else inner[:1]) for inner in paths)
    return max(lengths, default=0.0)


def _body(scheduling: Scheduling, loops: Sequence[Handle], threads: int) -> dict[str, str]:
    """Cut loops into turns of threads; return the loops to bind, with the words of their levels."""
    levels = dict[str, str]()
    for loop in loops:
        levels |= _along(scheduling, loop, threads)
    return levels


def _along(scheduling: Scheduling, loop: Handle, threads: int) -> dict[str, str]:
    """Give the iterations of a loop, or else of the loops inside it, to threads."""
    is_sum = total_of(loop.loop) is not None
    if is_sum and at_most(iterations(loop.inner)) < LONG:
        return {}
    for way in (_sum,) if is_sum else (_each, _turned):
        binds = dict[str, str]()
        with scheduling.attempt() as attempt:
            binds = way(scheduling, loop, threads)
            with scheduling.attempt() as trial:
                run_levels(scheduling, binds, ROW)
            if not trial.held:
                raise ScheduleError(trial.why)
            trial.undo()
        if attempt.held:
            return binds
    if is_sum:
        return {}
    if loop.is_plain and scheduling.allows(Fission((loop,))):
        return _body(scheduling, scheduling.do(Fission((loop,))).loops, threads)
    return _body(scheduling, loop.parts, threads)


def _sum(scheduling: Scheduling, loop: Handle, threads: int) -> dict[str, str]:
    """Let threads compute parts of a sum, and add these up together."""
    array = total_of(loop.loop) or ""
    loop, lane = _joined(scheduling, loop, threads)
    turn, thread = scheduling.turns(loop, threads)
    into, first, last = scheduling.lanes(array, thread, turn, "parts")
    scheduling.do(Place((into,), "registers"))
    scheduling.reorder([thread, turn])
    return {first: "start", thread: "thread", last: "end", **lane}


def _each(scheduling: Scheduling, loop: Handle, threads: int) -> dict[str, str]:
    """Let threads do the iterations of a loop, each by itself."""
    thread, lane = _joined(scheduling, loop, threads)
    most = extent(thread.loop.axis)
    if not isinstance(most, int) or most > threads:
        turn, thread = scheduling.turns(thread, threads)
        scheduling.reorder([thread, turn])
    elif thread.size != most:
        scheduling.do(Guard(thread, thread))
    return {thread: "thread", **lane}


def _turned(scheduling: Scheduling, loop: Handle, threads: int) -> dict[str, str]:
    """Let threads run an inner loop's iterations outside the loop that adds to one result."""
    outer, *inside = loop.inner
    if not inside:
        raise ScheduleError(f"{loop} is one loop")
    thread, *rest = inside
    scheduling.reorder([thread, outer, *rest])
    if not isinstance(thread.size, int) or thread.size > threads:
        turn, thread = scheduling.turns(thread, threads)
        scheduling.reorder([thread, turn])
    return {thread: "thread"}


def _joined(scheduling: Scheduling, loop: Handle, threads: int) -> tuple[Handle, dict[str, str]]:
    """Merge perfectly nested loops, and split off a loop over the neighbours of one access."""
    loops = loop.inner
    if not loops[-1].is_plain:
        return loop, {}
    width = width_of(scheduling.nest, loops[-1], scheduling.choose(ACCESS))
    while width > 1 and at_most(iterations(loops)) < width * threads:
        width //= 2
    lane: list[Handle] = []
    if width > 1 and loops[-1].size == width and len(loops) > 1:
        lane = [loops.pop()]  # an earlier step has split them off
    elif width > 1:
        loops[-1], *lane = scheduling.do(Split((loops[-1],), (width,), ("vector", "lane"))).loops
    return scheduling.merge(loops), dict.fromkeys(lane, "lane")


def column_plan(scheduling: Scheduling, top: Handle, gpu: GPU) -> bool:
    """Let several threads share each of some neighbouring columns."""
    *outer, column = top.inner
    array = total_of(column.parts[0].loop) if len(column.parts) == 1 else None
    if array is None or not is_column(scheduling.nest, column):
        return scheduling.declined(f"{column} has no sums that lie side by side")
    (fold,), most = column.parts, gpu.threads // COLUMNS.values[0]
    height = scheduling.choose(HEIGHT.within(most))
    if at_most(iterations(fold.inner)) < 4 * height:
        return scheduling.declined(f"the sums of {column} are too short for {height} threads")
    if many(top.inner) > 4 * THREADS.values[0] * gpu.cores:
        return scheduling.declined(f"{top} has sums enough for each thread to have its own")
    columns = scheduling.choose(COLUMNS)
    block, column = scheduling.do(Split((column,), (columns,), ("block", "own"))).loops
    if not column.is_whole:
        scheduling.do(Mask((column,)))
    if fold.inner[-1].is_plain:
        fold = scheduling.merge(fold.inner)
    turn, thread = scheduling.turns(fold, height)
    into, first, last = scheduling.lanes(array, thread, turn, "parts")
    scheduling.reorder([thread, turn])
    scheduling.do(Fission((column,)))
    binds: dict[str, str] = {**dict.fromkeys([*outer, block], "block"), last: "end"}
    for loop in block.parts:
        inner = loop.inner
        if first in inner or thread in inner:
            scheduling.reorder([inner[1], loop, *inner[2:]])
            binds[inner[1]] = "thread"
        binds[loop] = "own"
    run_levels(scheduling, binds, ROW)
    scheduling.do(Place((into,), "registers"))
    shared(scheduling, block)
    return True


def in_pieces(scheduling: Scheduling, top: Handle, gpu: GPU) -> list[Handle]:
    """Cut a few long sums into pieces; return the resulting loops."""
    path = top.inner if total_of(top.loop) is None else []
    total = summed(path[-1].loop.body) if path else None
    if path and total is None:
        return [top]
    folds = top.inner if total is None else [scheduling.loop(fold.name) for fold in total[0]]
    length, blocks = many(folds), many(path)
    if path and is_column(scheduling.nest, path[-1]):
        blocks /= COLUMNS.values[0]
    is_short = length < 2 * PIECE.values[0] or blocks > gpu.cores // 2
    if is_short or at_most(iterations(path)) > 1 << 16:
        return [top] if path else []
    piece = scheduling.choose(PIECE)
    while piece < length * max(1.0, blocks) / (2 * gpu.cores):  # enough for all cores
        piece *= 2
    with scheduling.attempt():
        position = scheduling.tops.index(top)
        fold, lanes = _joined(scheduling, folds[0], THREADS.values[0])
        for lane in lanes:
            piece //= int(many([scheduling.loop(lane)]))
        array = total_of(fold.loop) or ""
        outer, _ = scheduling.do(Split((fold,), (piece,), ("piece", "own"))).loops
        scheduling.do(Partial(array, outer, unique(f"{array}_pieces", scheduling.nest.names)))
        if not path:
            return [outer]
        scheduling.do(Fission(tuple(path)))
        first, outer, *later = scheduling.tops[position : position + 4]
        for loop in later:
            scheduling.do(Fuse(loop, first))
        return [outer, first]
    return path[:1]


def _elements(scheduling: Scheduling, top: Handle, gpu: GPU) -> bool:
    """Let each thread compute some neighbours, along as many loops as possible."""
    is_cut = scheduling.first(partial(_element, scheduling, top, gpu), range(len(top.inner), 0, -1))
    if is_cut:
        _placed(scheduling, "registers")
    return is_cut


def _element(scheduling: Scheduling, top: Handle, gpu: GPU, count: int) -> None:
    """Merge loops, and give the merged loop to threads."""
    loops = top.inner[:count]
    width, lane = width_of(scheduling.nest, loops[-1], scheduling.choose(ACCESS)), list[Handle]()
    if width > 1:
        loops[-1], *lane = scheduling.do(Split((loops[-1],), (width,), ("vector", "lane"))).loops
    thread = scheduling.merge(loops)
    size, most = thread.size, THREADS.values[0]
    usual = most if at_most(size) >= LARGE else 64
    threads = scheduling.choose(THREADS.within(gpu.threads), usual)
    is_cut = not isinstance(size, int) or size > most
    levels: dict[str, str] = {thread: "thread"}
    if is_cut:
        turn, thread = scheduling.turns(thread, threads)
        levels = {turn: "turn", thread: "thread"}
    run_levels(scheduling, levels | dict.fromkeys(lane, "lane"), ELEMENT)


def _alone(scheduling: Scheduling, gpu: GPU) -> bool:
    """Let one thread run the whole nest."""
    for local in [array for array in scheduling.nest.locals.values() if array.space == "scratch"]:
        scheduling.do(Place((local.name,), "registers" if bytes_of(local) < inf else "memory"))
    return True
