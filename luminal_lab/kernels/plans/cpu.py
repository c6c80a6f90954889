"""How kernels run on a CPU unless somebody says otherwise: short heuristics that choose steps.

- Attention (cpu_attention.py), convolutions and other contractions (cpu_contraction.py) have plans
  of their own.
- What sums over rows far apart (columns) keeps a block of sums side by side.
- Everything else shares outer loops as far as it may, and leaves inner ones to the compiler's
  vector code.
- Tasks are blocks of the outermost loop, each with enough to do.
"""

from __future__ import annotations

from collections.abc import Mapping

from luminal_lab.core.dims import Symbol
from luminal_lab.core.dims.expression import Quotient
from luminal_lab.core.op import size_of
from luminal_lab.core.printer import unique
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.terms import Read
from luminal_lab.kernels.nest.nest import Loop, Nest, Set, accesses, reads_of
from luminal_lab.kernels.nest.sizes import about, at_most, atoms, names_in, stride, work_of
from luminal_lab.kernels.plans.cpu_attention import attention_plan
from luminal_lab.kernels.plans.cpu_contraction import contraction_plan, convolution_plan
from luminal_lab.kernels.plans.match import summed
from luminal_lab.kernels.plans.tiler import PARTS
from luminal_lab.kernels.steps.arrays import Shrink
from luminal_lab.kernels.steps.choices import NO_CHOICES, Choice
from luminal_lab.kernels.steps.fetching import FetchAhead
from luminal_lab.kernels.steps.kinds import Parallel
from luminal_lab.kernels.steps.loops import Cut, Fission, Fuse, Reorder, Split
from luminal_lab.kernels.steps.reuse import Reuse
from luminal_lab.kernels.steps.schedule import Handle, Scheduling
from luminal_lab.kernels.steps.step import level, part
from luminal_lab.kernels.steps.sums import Partial
from luminal_lab.machines.machine import Machine

WORK = Choice("task_work", 16384, 4096, 65536)
"""How many elements a task should have to do at least."""
SUM = Choice("task_sum", 65536, 16384, 262144)
"""How many elements of a sum a task adds up by itself."""
FEW = 8
"""Below this many results, split the sums instead of giving each its own task."""
SIDE, LONG, CHEAP = Choice("lanes", 32, 8, 16, 64), 256, 4
"""How many sums there are side by side, where a sum is at least so long and its terms so cheap."""
LANES = 64
"""How many sums may stand side by side for the sake of one."""
COLUMNS = Choice("columns", 4096, 1024, 2048, 8192)
"""How many sums stand side by side in a block."""
TWICE = 2
"""What is read more often has the time to fetch the next while it is read."""
ROWS = Choice("task_rows", 16, 4, 8, 32)
"""How many rows follow each other in a task that fetches the next while it computes one."""
SHORT = 32
"""An inner loop with fewer iterations than this is made one with the loop around it."""


def cpu_schedule(nest: Nest, machine: Machine, asked: Mapping[str, int] = NO_CHOICES) -> Scheduling:
    """Return a nest that runs well on a machine, with the steps that lead there."""
    why = ""
    for plan in (attention_plan, convolution_plan, contraction_plan, _general):
        made = Scheduling(nest, why, asked)
        try:
            if plan(made, machine):
                return made
        except ScheduleError as error:
            why = why or error.message
    return Scheduling(nest)


# -- all else --------------------------------------------------------------------------------------


def _general(made: Scheduling, machine: Machine) -> bool:
    made.share(made.tops)
    for local in list(made.nest.locals):
        made.attempted(Shrink((local,)))
    for top in made.tops:
        _columns(made, top, machine)
    for loop in made.loops:
        _groups(made, loop)
    for top in made.tops:
        _tasks(made, top, machine)
    _share_rows(made)
    _reuse(made)
    for loop in made.loops:
        _lanes(made, loop)
    for top in made.tops:
        _fetch(made, top, machine)
    made.simd()
    return True


# -- sums ------------------------------------------------------------------------------------------


def _columns(made: Scheduling, top: Handle, machine: Machine) -> None:
    """Sum side by side where neighbours lie together, and what is summed lies apart."""
    nest, last = made.nest, top.inner[-1]
    folds, term = summed(last.loop.body) or ([], None)
    is_apart = any(stride(nest, term, fold.name) not in (0, 1) for fold in folds if term)
    if term is None or not is_apart or stride(nest, term, last) != 1:
        return
    columns = made.choose(COLUMNS)
    # A long row is cut where there are enough blocks for all cores; else tasks share the sums.
    if about(last.size) >= columns * machine.cores or about(last.size) > 2 * columns:
        _, last = made.do(Split((last,), (columns,))).loops
    names = tuple(fold.name for fold in folds)
    made.attempted(Fission((last,), PARTS), Reorder((*names, part(last, "sum"))))


def _sums(loop: Loop) -> list[Set]:
    """Return what a loop adds to numbers."""
    sets = [one for one in loop.body if isinstance(one, Set)]
    return [one for one in sets if one.how != "=" and not one.index]


def _groups(made: Scheduling, summing: Handle) -> None:
    """Sum group by group where each so many elements share another (a scale, say)."""
    loop = summing.loop
    one = next(iter(_sums(loop)), None)
    if len(loop.body) != 1 or one is None or one.how != "+=":
        return
    places = [place for _, index in reads_of(one.term) for place in index or ()]
    quotients = [atom for atom in atoms(places) if isinstance(atom, Quotient)]
    sizes = {atom.d for atom in quotients if loop.name in names_in(atom)}
    size = min((size for size in sizes if isinstance(size, int)), default=0)
    if len(sizes) == 1 and 0 < size <= LANES and loop.size % size == 0:
        with made.attempt():
            group, own = made.do(Split((summing,), (size,), ("group", "each"))).loops
            made.lanes(one.name, own, group, "lanes")


def _lanes(made: Scheduling, loop: Handle) -> None:
    """Keep several sums side by side where one alone would wait for itself."""
    body, sums = loop.loop.body, _sums(loop.loop)
    is_alone = loop.loop.kind == "for" and len(body) == len(sums) == 1
    if is_alone and work_of(body) <= CHEAP and at_most(loop.size) >= LONG:
        with made.attempt():
            _side_by_side(made, loop, sums)


def _side_by_side(made: Scheduling, loop: str, sums: list[Set]) -> Handle:
    """Cut a loop so that its sums are some side by side; return the loop over blocks."""
    block, own, *_ = made.do(Cut(loop, made.choose(SIDE))).loops
    for one in sums:
        made.lanes(one.name, own, block, "lanes")
    return block


# -- rows ------------------------------------------------------------------------------------------


def _share_rows(made: Scheduling) -> None:
    """Let what is read of a row be read where it is made, while it is at hand."""
    for first in [one for one in made.nest.loops.values() if isinstance(one.body[0], Set)]:
        if first.name not in made.nest.loops:
            continue  # it was made one with another
        written = {one.name for one in accesses(first.body) if one.how == "="}
        rows = written & made.nest.locals.keys()
        for second in list(made.nest.loops.values()):
            used = {one.name for one in accesses(second.body) if one.how == "read"}
            if second.name != first.name and rows & used:
                made.attempted(Fuse(second.name, first.name))


def _reuse(made: Scheduling) -> None:
    """Make rows of what is written right where it will be, if they lie together there."""
    for output, _ in made.nest.outputs:
        end = [one.statement for one in accesses(made.nest.body) if one.name == output][-1]
        rows: list[str] = []
        for name, index in reads_of(end.term):
            if index == end.index and name not in made.nest.locals:
                return  # what is read there may have its memory, which saves more
            last = index[-1] if index else 0
            place = Read(output, end.index, end.term.dtype)
            if isinstance(last, Symbol) and stride(made.nest, place, last.name) == 1:
                rows.append(name)
        for row in rows:
            hows = {one.how for one in accesses(made.nest.body) if one.name == row}
            # Sums of columns are better off in an array of their own, which is small.
            if row in made.nest.locals and hows == {"=", "read"}:
                made.attempted(Reuse(output, row))


def _fetch(made: Scheduling, rows: Handle, machine: Machine) -> None:
    """Bring the next row near while one is computed, where rows come from memory.

    The processor follows what is read in order by itself, but not while a row is read again and
    again, nor when what is computed takes long enough to do both at once.
    """
    if len(rows.parts) == 1:
        (rows,) = rows.parts
    passes = rows.parts
    uses = [{one.name for one in accesses((each.loop,))} for each in passes]
    times = {name: sum(name in use for use in uses) for name, _ in made.nest.inputs}
    large = [name for name in times if times[name] > 1 and _is_far(made, name, rows.loop, machine)]
    if not large:
        return
    costs = [work_of(each.inner[-1].loop.body) for each in passes]
    cost, at = max((cost, at) for at, cost in enumerate(costs))
    names = [name for name in large if name in uses[at]]
    if not names or (cost <= CHEAP and all(times[name] <= TWICE for name in names)):
        return
    if cost > CHEAP:
        names += [name for name, _ in made.nest.outputs if name in uses[at]]
    loop, row = passes[at], str(rows)
    block = min(made.choose(ROWS), int(about(rows.size)) // (8 * machine.cores))
    with made.attempt():
        if rows.loop.kind == "parallel" and block > 1:  # else the next row is another thread's
            for step in _task(row, block):
                made.do(step)
            row = level(row, "own")
        if len(loop.inner) == 1:
            loop = _side_by_side(made, loop, _sums(loop.loop))
        for name in names:
            made.do(FetchAhead(name, loop, 1, row))


def _is_far(made: Scheduling, name: str, rows: Loop, machine: Machine) -> bool:
    """Return whether an array is known to be no cache's, with a row that is small beside one."""
    type = made.nest.types[name]
    size, item = size_of(type.shape), type.dtype.itemsize
    if not isinstance(size, int) or 4 * size * item < machine.l3:
        return False
    places = [one.index for one in accesses(rows.body) if one.name == name]
    reads = [stride(made.nest, Read(name, at, type.dtype), rows.name) for at in places if at]
    most = machine.l2 // 8 // item
    return all(places) and all(isinstance(row, int) and 0 < row <= most for row in reads)


# -- tasks -----------------------------------------------------------------------------------------


def _task(loop: str, size: int) -> tuple[Split, Parallel]:
    """Return the steps that make tasks of so many iterations."""
    return Split((loop,), (size,), ("task", "own")), Parallel((level(loop, "task"),))


def _tasks(made: Scheduling, loop: Handle, machine: Machine) -> None:
    """Cut an outermost loop into tasks, each with enough to do."""
    while loop.inner[1:] and about(loop.inner[1].size) < SHORT:
        _, inner = loop.inner[:2]
        both = made.join([loop, inner])
        if both == inner:
            break
        loop = both
    work, size, enough = work_of(loop.loop.body), loop.size, WORK.values[0]
    if at_most(size) * work < 2 * enough:
        return
    enough = made.choose(WORK) if 2 * work <= max(WORK.values) else enough
    is_few = isinstance(size, int) and size < FEW
    if is_few and work_of(loop.loop.body, at_most) > SUM.values[0] and _few(made, loop, machine):
        return
    if 2 * work <= enough and made.attempted(*_task(loop, int(enough // work))):
        return
    if not made.attempted(Parallel((loop,))):
        _blocks(made, loop, machine)


def _few(made: Scheduling, loop: Handle, machine: Machine) -> bool:
    """Cut the long sums of a loop with few iterations into blocks, which are the tasks."""
    if len(loop.parts) != 1 or summed(loop.loop.body) is None:
        return False
    (fold,) = loop.parts
    with made.attempt() as attempt:
        made.do(Fission((loop,), PARTS))
        made.do(Reorder((fold, part(loop, "sum"))))
        if not _blocks(made, fold, machine):
            raise ScheduleError(f"{fold} is too short for blocks")
    return attempt.held


def _blocks(made: Scheduling, loop: Handle, machine: Machine) -> bool:
    """Let tasks add up blocks of a sum of their own."""
    sums = {one.name for one in accesses(loop.loop.body) if one.how in ("+=", "max=")}
    work = work_of(loop.loop.body)
    if len(sums) != 1 or at_most(loop.size) * work < 2 * SUM.values[0]:
        return False
    (name,) = sums
    block = int(max(1, made.choose(SUM) // work, about(loop.size) // (8 * machine.cores)))
    split, parallel = _task(loop, block)
    into = unique(f"{name}_parts", made.nest.names)
    return made.attempted(split, Partial(name, level(loop, "task"), into), parallel)
