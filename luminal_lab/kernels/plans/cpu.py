"""How kernels run on a CPU unless somebody says otherwise: short heuristics that choose steps.

- Attention (cpu_attention.py), convolutions (cpu_convolution.py) and other contractions
  (cpu_contraction.py) have plans of their own.
- What sums over rows far apart (columns) keeps a block of sums side by side.
- Everything else shares outer loops as far as it may, and leaves inner ones to the compiler's
  vector code.
- Tasks are blocks of the outermost loop, each with enough to do.
"""

from __future__ import annotations

from luminal_lab.core.dims import Symbol
from luminal_lab.core.dims.expression import Quotient
from luminal_lab.core.op import TensorType, size_of
from luminal_lab.core.printer import unique
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.terms import Read
from luminal_lab.kernels.nest.nest import Local, Loop, Nest, Set, accesses, reads_of, walk
from luminal_lab.kernels.nest.sizes import (
    about,
    at_most,
    atoms,
    names_in,
    perfect,
    stride,
    work_of,
)
from luminal_lab.kernels.plans.cpu_attention import attention_plan
from luminal_lab.kernels.plans.cpu_contraction import contraction_plan, joined, summed
from luminal_lab.kernels.plans.cpu_convolution import convolution_plan
from luminal_lab.kernels.steps.arrays import Shrink
from luminal_lab.kernels.steps.fetching import FetchAhead
from luminal_lab.kernels.steps.kinds import Parallel, Simd
from luminal_lab.kernels.steps.loops import Cut, Fission, Fuse, Reorder, Split
from luminal_lab.kernels.steps.reuse import Reuse
from luminal_lab.kernels.steps.schedule import Scheduling
from luminal_lab.kernels.steps.step import Step
from luminal_lab.kernels.steps.sums import Lanes, Partial
from luminal_lab.machines.machine import Machine

WORK = 16384
"""How many elements a task should have to do at least."""
SUM = 65536
"""How many elements of a sum a task adds up by itself."""
FEW = 8
"""Fewer results than this are no tasks of their own, where each is a long sum."""
SIDE, LONG, CHEAP = 32, 256, 4
"""How many sums there are side by side, where a sum is at least so long and its terms so cheap."""
LANES = 64
"""How many sums may stand side by side for the sake of one."""
COLUMNS = 4096
"""How many sums stand side by side in a block."""
TWICE = 2
"""What is read more often has the time to fetch the next while it is read."""
ROWS = 16
"""How many rows follow each other in a task that fetches the next while it computes one."""
SHORT = 32
"""An inner loop with fewer iterations than this is made one with the loop around it."""


def cpu_schedule(nest: Nest, machine: Machine) -> Scheduling:
    """Return a nest that runs well on a machine, with the steps that lead there."""
    for plan in (attention_plan, convolution_plan, contraction_plan, _general):
        made = Scheduling(nest)
        try:
            if plan(made, machine):
                return made
        except ScheduleError:
            continue
    return Scheduling(nest)


# -- all else --------------------------------------------------------------------------------------


def _general(made: Scheduling, machine: Machine) -> bool:
    share(made)
    for local in list(made.nest.locals):
        _try(made, Shrink(local))
    for one in [one for one in made.nest.body if isinstance(one, Loop)]:
        _columns(made, one, machine)
    for loop in list(made.nest.loops.values()):
        _groups(made, loop)
    for one in [one for one in made.nest.body if isinstance(one, Loop)]:
        _tasks(made, one.name, machine)
    _share_rows(made)
    _reuse(made)
    for loop in list(made.nest.loops.values()):
        _lanes(made, loop)
    for one in [one for one in made.nest.body if isinstance(one, Loop)]:
        _fetch(made, one, machine)
    for loop in list(made.nest.loops.values()):
        if not any(isinstance(inner, Loop) for inner in walk(loop.body)) and loop.kind == "for":
            _try(made, Simd(loop.name))
    return True


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


def share(made: Scheduling) -> None:
    """Make one of outermost loops that follow each other, where that is allowed."""
    block = [one for one in made.nest.body if isinstance(one, Loop)]
    first = None
    for loop in block:
        if first is not None and _try(made, Fuse(loop.name, first)):
            _share_inside(made, first)
            continue
        first = loop.name


def _share_inside(made: Scheduling, outer: str) -> None:
    """Fuse the loops within a loop as long as each body is loops alone."""
    while True:
        body = [one for one in made.nest.loops[outer].body if not isinstance(one, Local)]
        if len(body) != 2 or not all(isinstance(one, Loop) for one in body):
            return
        first, second = (one.name for one in body if isinstance(one, Loop))
        if not _try(made, Fuse(second, first)):
            return
        outer = first


def _columns(made: Scheduling, top: Loop, machine: Machine) -> None:
    """Sum side by side where neighbours lie together, and what is summed lies apart."""
    loops = [*perfect(top)]
    last = loops[-1]
    found = summed(last.body)
    if found is None:
        return
    folds, term = found
    nest = made.nest
    if not any(stride(nest, term, fold.name) not in (0, 1) for fold in folds):
        return
    if stride(nest, term, last.name) != 1:
        return
    name = last.name
    # A long row is cut where there are enough blocks for all cores; else tasks share the sums.
    if about(last.size) >= COLUMNS * machine.cores or about(last.size) > 2 * COLUMNS:
        made.do(Split(name, COLUMNS))
        name = f"{name}_i"
    steps = [Fission(name), *(Reorder(f"{name}_2", fold.name) for fold in folds)]
    _try(made, *steps)


def _groups(made: Scheduling, loop: Loop) -> None:
    """Sum group by group where each so many elements share another (a scale, say)."""
    if len(loop.body) != 1 or not isinstance(loop.body[0], Set) or loop.body[0].how != "+=":
        return
    one = loop.body[0]
    places = [place for _, index in reads_of(one.term) for place in index or ()]
    sizes = {
        atom.d
        for atom in atoms(places)
        if isinstance(atom, Quotient) and loop.name in names_in(atom) and isinstance(atom.d, int)
    }
    if len(sizes) != 1 or one.index:
        return
    (size,) = sizes
    if loop.size % size == 0 and size <= LANES:
        outer, inner = f"{loop.name}_o", f"{loop.name}_i"
        into = unique(f"{one.name}_lanes", made.nest.names)
        _try(made, Split(loop.name, size), Lanes(one.name, inner, outer, into))


def _share_rows(made: Scheduling) -> None:
    """Let what is read of a row be read where it is made, while it is at hand."""
    for first in [one for one in made.nest.loops.values() if isinstance(one.body[0], Set)]:
        if first.name not in made.nest.loops:
            continue  # it was made one with another
        written = {one.name for one in accesses(first.body) if one.how == "="}
        rows = {name for name in written if name in made.nest.locals}
        for second in list(made.nest.loops.values()):
            used = {one.name for one in accesses(second.body) if one.how == "read"}
            if second.name != first.name and rows & used:
                _try(made, Fuse(second.name, first.name))


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
                _try(made, Reuse(output, row))


def _lanes(made: Scheduling, loop: Loop) -> None:
    """Keep several sums side by side where one alone would wait for itself."""
    if loop.kind != "for" or len(loop.body) != 1 or not isinstance(loop.body[0], Set):
        return
    one = loop.body[0]
    if one.how == "=" or one.index or work_of(loop.body) > CHEAP or at_most(loop.size) < LONG:
        return
    into = unique(f"{one.name}_lanes", made.nest.names)
    outer, inner = f"{loop.name}_o", f"{loop.name}_i"
    _try(made, Cut(loop.name, SIDE), Lanes(one.name, inner, outer, into))


def _fetch(made: Scheduling, rows: Loop, machine: Machine) -> None:
    """Bring the next row near while one is computed, where rows come from memory.

    The processor follows what is read in order by itself, but not while a row is read again and
    again, nor when what is computed takes long enough to do both at once.
    """
    passes = [one for one in rows.body if isinstance(one, Loop)]
    if len(passes) == 1:
        (rows,) = passes
        passes = [one for one in rows.body if isinstance(one, Loop)]
    uses = [{one.name for one in accesses((each,))} for each in passes]
    large = [
        name
        for name, type in made.nest.inputs
        if sum(name in use for use in uses) > 1 and _is_far(made, name, type, rows, machine)
    ]
    if not large:
        return
    costs = [work_of(list(perfect(each))[-1].body) for each in passes]
    at = len(costs) - 1 - costs[::-1].index(max(costs))
    names = [name for name in large if name in uses[at]]
    if not names:
        return
    if costs[at] > CHEAP:
        names += [name for name, _ in made.nest.outputs if name in uses[at]]
    elif not any(sum(name in use for use in uses) > TWICE for name in names):
        return
    loop, steps, row = passes[at], list[Step](), rows.name
    block = min(ROWS, int(about(rows.size)) // (8 * machine.cores))
    if rows.kind == "parallel" and block > 1:  # else the next row is another thread's
        steps += [Split(row, block), Parallel(f"{row}_o")]
        row = f"{row}_i"
    if len(loop.body) != 1 or not isinstance(loop.body[0], Loop):
        steps.append(Cut(loop.name, SIDE))
        inner, outer = f"{loop.name}_i", f"{loop.name}_o"
        for one in loop.body:
            if isinstance(one, Set) and one.how != "=" and not one.index:
                into = unique(f"{one.name}_lanes", made.nest.names)
                steps.append(Lanes(one.name, inner, outer, into))
    else:
        outer = loop.name
    _try(made, *steps, *(FetchAhead(name, outer, 1, row) for name in names))


def _is_far(made: Scheduling, name: str, type: TensorType, rows: Loop, machine: Machine) -> bool:
    """Return whether an array is known to be no cache's, with a row that is small beside one."""
    size, most = size_of(type.shape), machine.l2 // 8 // type.dtype.itemsize
    if not isinstance(size, int) or 4 * size * type.dtype.itemsize < machine.l3:
        return False
    for one in accesses(rows.body):
        if one.name == name:
            row = one.index and stride(made.nest, Read(name, one.index, type.dtype), rows.name)
            if not isinstance(row, int) or not 0 < row <= most:
                return False
    return True


def _tasks(made: Scheduling, name: str, machine: Machine) -> None:
    """Cut an outermost loop into tasks, each with enough to do."""
    loop = made.nest.loops[name]
    work = work_of(loop.body)
    inner = _only(loop)
    while inner is not None and about(inner.size) < SHORT:
        both = joined(made, [loop, inner])
        if both == inner.name:
            break
        loop = made.nest.loops[both]
        work = work_of(loop.body)
        inner = _only(loop)
    if at_most(loop.size) * work < 2 * WORK:
        return
    if (
        isinstance(loop.size, int)
        and loop.size < FEW
        and work_of(loop.body, at_most) > SUM
        and _few(made, loop, machine)
    ):
        return
    if 2 * work <= WORK:
        outer = f"{loop.name}_o"
        if _try(made, Split(loop.name, int(WORK // work)), Parallel(outer)):
            return
    if not _try(made, Parallel(loop.name)):
        _blocks(made, loop, machine)


def _few(made: Scheduling, loop: Loop, machine: Machine) -> bool:
    """Cut the long sums of a loop with few iterations into blocks, which are the tasks."""
    parts = [one for one in loop.body if not isinstance(one, Local)]
    sums = [place for place, one in enumerate(parts) if isinstance(one, Loop)]
    if len(sums) != 1 or summed(loop.body) is None:
        return False
    fold = parts[sums[0]]
    assert isinstance(fold, Loop)
    kept, count = made.nest, len(made.steps)
    apart = _try(made, Fission(loop.name), Reorder(f"{loop.name}_2", fold.name))
    if apart and _blocks(made, made.nest.loops[fold.name], machine):
        return True
    made.nest = kept
    del made.steps[count:]
    return False


def _blocks(made: Scheduling, loop: Loop, machine: Machine) -> bool:
    """Let tasks add up blocks of a sum of their own."""
    sums = {one.name for one in accesses(loop.body) if one.how in ("+=", "max=")}
    if len(sums) != 1:
        return False
    work = work_of(loop.body)
    if at_most(loop.size) * work < 2 * SUM:
        return False
    (name,) = sums
    block = int(max(1, SUM // work, about(loop.size) // (8 * machine.cores)))
    into = unique(f"{name}_parts", made.nest.names)
    outer = f"{loop.name}_o"
    return _try(made, Split(loop.name, block), Partial(name, outer, into), Parallel(outer))


def _only(loop: Loop) -> Loop | None:
    """Return the loop that is all of a loop's body."""
    only = loop.body[0] if len(loop.body) == 1 else None
    return only if isinstance(only, Loop) else None
