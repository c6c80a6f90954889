"""How kernels run on a CPU by default: short heuristics that choose steps.

- Passes with sums of products (cpu_pass.py) and contractions (cpu_contraction.py) have plans.
- Sums over rows far apart (columns) keep a block of sums side by side.
- Everything else shares outer loops if it can, and leaves inner loops to the compiler's vectors.
- Tasks are blocks of the outermost loop, each with enough to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import ceil

from luminal_lab.core.op import size_of
from luminal_lab.core.printer import unique
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.terms import Read
from luminal_lab.kernels.nest.contraction import summed
from luminal_lab.kernels.nest.nest import FOLDS, Loop, Nest, Set, accesses
from luminal_lab.kernels.nest.shape import shape_of
from luminal_lab.kernels.nest.sizes import about, at_most, groups_of, many, stride, work_of
from luminal_lab.kernels.plans.cpu_contraction import contraction_plan, convolution_plan, few_rows
from luminal_lab.kernels.plans.cpu_pass import pass_plan
from luminal_lab.kernels.plans.tiler import Tiler
from luminal_lab.kernels.steps.ahead import FetchAhead
from luminal_lab.kernels.steps.arrays import Shrink
from luminal_lab.kernels.steps.choices import NO_CHOICES, Choice
from luminal_lab.kernels.steps.kinds import Parallel
from luminal_lab.kernels.steps.levels import Level
from luminal_lab.kernels.steps.loops import Split
from luminal_lab.kernels.steps.reuse import reuse_outputs
from luminal_lab.kernels.steps.schedule import BYTES, Handle, PlanRefusal, Scheduling, word_of
from luminal_lab.kernels.steps.step import level
from luminal_lab.kernels.steps.stopping import shorten
from luminal_lab.kernels.steps.sums import Partial, total_of
from luminal_lab.machines.defaults import Defaults, shipped
from luminal_lab.machines.machine import Machine

WORK = Choice("task_work", 16384, 4096, 65536)
"""The least number of elements that a task should handle."""
SUM = Choice("task_sum", 65536, 16384, 262144)
"""How many elements of a sum one task adds up."""
FEW, NARROW = 8, 4
"""Below this many results, split the sums into tasks; so few rows leave time to fetch the next."""
SIDE, LONG, CHEAP = Choice("lanes", 32, 8, 16, 64), 256, 4
"""How many sums run side by side if a sum is at least this long and its terms this cheap."""
COLUMNS = Choice("columns", 4096, 1024, 2048, 8192)
"""How many sums a block has side by side."""
AT_ONCE = Choice("at_once", 4, 1, 2, 8)
"""How many rows are added to them at once."""
FETCHED = Choice("rows_fetched", 1, 0)
"""Whether the next ones are fetched meanwhile."""
BLOCKS = Level("block", "j"), Level("", "k"), Level("own", "j")
WHOLE = Level("", "k"), Level("", "j")
"""The levels of sums side by side, in blocks or all of them."""
TWICE = 2
"""A row read more often than this leaves time to fetch the next one meanwhile."""
ROWS = Choice("task_rows", 16, 4, 8, 32)
"""How many consecutive rows a task has that fetches the next row while it computes one."""
STREAM = Choice("stream_bytes", 8192, 0, 4096, 16384)
"""How far ahead of a fold it fetches what it reads."""
TURNED = Choice("turned", 16, 8, 32, 64)
"""The length of the blocks in which transposed arrays are copied."""
SHORT = 32
"""An inner loop with fewer iterations than this is merged with the loop around it."""


def cpu_schedule(
    nest: Nest,
    machine: Machine,
    asked: Mapping[str, int] = NO_CHOICES,
    defaults: Defaults | None = None,
) -> Scheduling:
    """Return a nest that runs well, with the numbers asked for or those of the shipped table."""
    table, why, refused = defaults or shipped(), "", list[PlanRefusal]()
    plans = pass_plan, convolution_plan, contraction_plan, _general
    for plan, usual in product(plans, table.usual(machine, lambda: shape_of(nest))):
        scheduling = Scheduling(nest, why, asked, usual, refused, word_of(plan))
        try:
            if plan(scheduling, machine):
                return shorten(scheduling)
        except ScheduleError as error:
            scheduling.declined(error.message)
            why = why or error.message
    return Scheduling(nest, refused=refused)


def _general(scheduling: Scheduling, machine: Machine) -> bool:
    with scheduling.by(contraction_plan), scheduling.attempt("plan"):  # lines may precede a product
        contraction_plan(scheduling, machine, alone=False)
    with scheduling.attempt():
        scheduling.repeats()
        scheduling.digits()
    for loop in scheduling.loops:
        scheduling.written_out(loop, SHORT)
    scheduling.share([top for top in scheduling.tops if top.loop.kind == "for"])
    for local in list(scheduling.nest.locals):
        scheduling.attempted(Shrink((local,)))
    for top in scheduling.tops:
        _columns(scheduling, top, machine)
    for loop in scheduling.loops:
        _groups(scheduling, loop)
    scheduling.unpacked()
    for top in [top for top in scheduling.tops if top.loop.kind == "for"]:
        _tasks(scheduling, top, machine)
    scheduling.share_rows()
    reuse_outputs(scheduling)
    for loop in scheduling.loops:
        scheduling.at_once(loop, AT_ONCE, CHEAP, FETCHED, machine.l2 // 4, machine.l1)
    for loop in scheduling.loops:
        _lanes(scheduling, loop)
    for top in scheduling.tops:
        scheduling.turned(top, TURNED)
        _fetch(scheduling, top, machine)
    scheduling.streamed(STREAM, machine)
    scheduling.simd()
    return True


def _columns(scheduling: Scheduling, top: Handle, machine: Machine) -> None:
    """Fold side by side if neighbours read neighbours or every second element; terms do not."""
    nest, last = scheduling.nest, top.inner[-1]
    folds, term = summed(last.loop.body, FOLDS) or ([], None)
    is_apart = any(stride(nest, term, fold.name) not in (0, 1) for fold in folds if term)
    if term is None or not is_apart or stride(nest, term, last) not in (1, 2):
        return
    path, names = top.inner[:-1], [fold.name for fold in folds]
    rows = few_rows(scheduling)
    usual = _block_of(scheduling, rows, last, machine) if rows else None
    columns = scheduling.choose(COLUMNS, usual)
    # A long row is cut if there are enough blocks for all cores; otherwise tasks share the sums.
    is_cut = about(last.size) >= columns * machine.cores or about(last.size) > 2 * columns
    with scheduling.attempt() as attempt:
        _beside(scheduling, last, names, columns if rows or is_cut else 0, rows)
    if attempt.held and not is_cut:
        scheduling.bordered(path, {*names}, term)


def _block_of(scheduling: Scheduling, rows: list[str], column: Handle, machine: Machine) -> int:
    """Return how many sums of each row a block has, which stay in the first cache."""
    lanes, count, size = machine.lanes(4), many(map(scheduling.loop, rows)), about(column.size)
    room = machine.l1 // 4 // (count + AT_ONCE.values[0] if count <= NARROW else 3 * count)
    least = max(1 + (count > NARROW), ceil(size / room / machine.cores)) * machine.cores
    some = range(least, 2 * least if count <= NARROW else least, machine.cores)
    blocks = next((n for n in some if size % (n * lanes) == 0), least)  # whole ones, if narrow
    return max(4 * lanes, ceil(size / blocks / lanes) * lanes)


def _beside(
    scheduling: Scheduling, column: str, folds: list[str], columns: int, rows: Sequence[str] = ()
) -> None:
    """Run all terms of a sum around the sums of a block of columns, or of all columns."""
    levels, cuts = (BLOCKS, {"j": {"block": columns}}) if columns else (WHOLE, {})
    axes = {"j": column, "k": folds[0]}
    if rows:  # in each block
        levels, axes["i"] = (*levels[:-1], Level("", "i"), levels[-1]), scheduling.merge(rows)
    Tiler(scheduling, axes, levels, cuts, folds, masked=False, is_inner=True).apart()


def _sums(loop: Loop) -> list[Set]:
    """Return the statements by which a loop adds to scalars."""
    return [s for s in loop.body if isinstance(s, Set) and s.how in FOLDS and not s.index]


def _groups(scheduling: Scheduling, summing: Handle) -> None:
    """Sum group by group if groups of elements share a value (a scale, say)."""
    loop, are_bytes = summing.loop, all(inner.size == BYTES for inner in summing.parts)
    for addition in _sums(loop)[:1] if are_bytes and total_of(loop) is not None else ():
        shared = min(groups_of(loop.name, addition.term), default=0)
        is_apart = stride(scheduling.nest, addition.term, loop.name) != 1
        with scheduling.attempt():
            if is_apart and addition.how == "+=" and 0 < shared <= max(SIDE.values):
                scheduling.grouped(summing, addition.name, scheduling.choose(SIDE))


def _lanes(scheduling: Scheduling, loop: Handle) -> None:
    """Keep several sums side by side if a single sum would wait for its last addition of floats."""
    body, sums = loop.loop.body, _sums(loop.loop)
    is_alone = loop.loop.kind == "for" and len(body) == len(sums) == 1
    is_alone = is_alone and scheduling.nest.types[sums[0].name].dtype.is_float
    with scheduling.attempt():
        if is_alone and work_of(body) <= CHEAP and at_most(loop.size) >= LONG:
            scheduling.side_by_side(loop, sums, SIDE)


def _fetch(scheduling: Scheduling, rows: Handle, machine: Machine) -> None:
    """Fetch the next row while one is computed, if rows come from memory.

    The processor prefetches by itself what is read in order, but not while a row is read again and
    again, nor if the computation takes long enough to overlap with the loads.
    """
    rows = rows.parts[0] if len(rows.parts) == 1 else rows
    passes = rows.parts
    uses = [{use.name for use in accesses((each.loop,))} for each in passes]
    times = {name: sum(name in use for use in uses) for name, _ in scheduling.nest.inputs}
    again = [name for name, count in times.items() if count > 1]
    large = [name for name in again if _is_far(scheduling, name, rows.loop, machine)]
    if not large:
        return
    costs = [work_of(each.inner[-1].loop.body) for each in passes]
    cost, at = max((cost, at) for at, cost in enumerate(costs))
    names = [name for name in large if name in uses[at]]
    if not names or (cost <= CHEAP and all(times[name] <= TWICE for name in names)):
        return
    if cost > CHEAP:
        names += [name for name, _ in scheduling.nest.outputs if name in uses[at]]
    loop, row = passes[at], str(rows)
    block = min(scheduling.choose(ROWS), int(about(rows.size)) // (8 * machine.cores))
    with scheduling.attempt():
        if rows.loop.kind == "parallel" and block > 1:  # otherwise another thread has the next row
            for step in _task(row, block):
                scheduling.do(step)
            row = level(row, "own")
        if len(loop.inner) == 1:
            loop = scheduling.side_by_side(loop, _sums(loop.loop), SIDE)
        for name in names:
            scheduling.do(FetchAhead(name, loop, 1, row))


def _is_far(scheduling: Scheduling, name: str, rows: Loop, machine: Machine) -> bool:
    """Return whether an array is known to exceed the cache, with rows much smaller than one."""
    type = scheduling.nest.types[name]
    size, item = size_of(type.shape), type.dtype.itemsize
    if not isinstance(size, int) or 4 * size * item < machine.l3:
        return False
    indices = [use.index for use in accesses(rows.body) if use.name == name]
    reads = [stride(scheduling.nest, Read(name, at, type.dtype), rows.name) for at in indices if at]
    most = machine.l2 // 4 // item
    return all(indices) and all(isinstance(row, int) and 0 < row <= most for row in reads)


def _task(loop: str, size: int) -> tuple[Split, Parallel]:
    """Return the steps that make tasks of `block` iterations."""
    return Split((loop,), (size,), ("task", "own")), Parallel((level(loop, "task"),))


def _tasks(scheduling: Scheduling, loop: Handle, machine: Machine) -> None:
    """Cut an outermost loop into tasks, each with enough work."""
    while loop.inner[1:] and about(loop.inner[1].size) < SHORT:
        _, inner = loop.inner[:2]
        both = scheduling.join([loop, inner])
        if both == inner:
            break
        loop = both
    work, size, enough = work_of(loop.loop.body), loop.size, WORK.values[0]
    if at_most(size) * work < 2 * enough:
        return
    enough = scheduling.choose(WORK) if 2 * work <= max(WORK.values) else enough
    is_few = isinstance(size, int) and size < FEW
    is_few = is_few and work_of(loop.loop.body, at_most) > SUM.values[0]
    if is_few and _few(scheduling, loop, machine):
        return
    is_cut = 2 * work <= enough and scheduling.attempted(*_task(loop, int(enough // work)))
    if not is_cut and not scheduling.attempted(Parallel((loop,))):
        _blocks(scheduling, loop, machine)


def _few(scheduling: Scheduling, loop: Handle, machine: Machine) -> bool:
    """Cut the long sums of a loop with few iterations into blocks, which are the tasks."""
    if len(loop.parts) != 1 or summed(loop.loop.body, FOLDS) is None:
        return False
    (fold,) = loop.parts
    with scheduling.attempt() as attempt:
        _beside(scheduling, loop, [fold], 0)
        if not _blocks(scheduling, fold, machine):
            raise ScheduleError(f"{fold} is too short for blocks")
    return attempt.held


def _blocks(scheduling: Scheduling, loop: Handle, machine: Machine) -> bool:
    """Let each task add up its own block of a sum."""
    sums = {use.name for use in accesses(loop.loop.body) if use.how in FOLDS}
    work = work_of(loop.loop.body)
    if len(sums) != 1 or at_most(loop.size) * work < 2 * SUM.values[0]:
        return False
    (name,) = sums
    block = int(max(1, scheduling.choose(SUM) // work, about(loop.size) // (8 * machine.cores)))
    split, parallel = _task(loop, block)
    into = unique(f"{name}_parts", scheduling.nest.names)
    return scheduling.attempted(split, Partial(name, level(loop, "task"), into), parallel)
