"""How kernels run on a GPU unless somebody says otherwise: short heuristics that choose steps.

- Rows (softmax, norms, long sums) are blocks: the threads of a block share a row, and exchange what
  they have summed.
- Everything else is threads: each computes one element, with what is summed for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from luminal_lab.core.printer import unique
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.cpu_schedule import share
from luminal_lab.kernels.cpu_sizes import about, at_most, perfect
from luminal_lab.kernels.gpu import GPU
from luminal_lab.kernels.gpu_nest import phases
from luminal_lab.kernels.nest import Block, Local, Loop, Nest, Set, Statement, accesses, walk
from luminal_lab.kernels.schedule import Scheduling
from luminal_lab.kernels.steps.arrays import Place, Shrink
from luminal_lab.kernels.steps.binding import Bind, Guard
from luminal_lab.kernels.steps.loops import Merge, Reorder, Split
from luminal_lab.kernels.steps.step import Step, around
from luminal_lab.kernels.steps.sums import Lanes

THREADS = 256
"""How many threads a block has where nothing speaks for another number."""
LONG = 128
"""From this many elements on a row is worth a block."""
OWN = 1024
"""The most elements of an array that one thread keeps for itself."""


def gpu_schedule(nest: Nest, gpu: GPU) -> Scheduling:
    """Return a nest that runs well on a GPU, with the steps that lead there."""
    for plan in (_rows, _elements):
        made = Scheduling(nest)
        try:
            if plan(made, gpu):
                _check(made.nest)
                return made
        except ScheduleError:
            continue
    return Scheduling(nest)


def _check(nest: Nest) -> None:
    """Refuse a nest that no GPU could run: what goes wrong in it is said when it is written."""
    for phase in phases(nest):
        for region in phase.regions.values():
            phase.strides(region)
    for local in nest.locals.values():
        if local.space == "scratch":
            raise ScheduleError(f"{local.name} is in scratch, which GPUs lack")


# -- rows ------------------------------------------------------------------------------------------


def _rows(made: Scheduling, gpu: GPU) -> bool:
    """Let the threads of a block share what is done for one row."""
    share(made)
    for local in list(made.nest.locals):
        _try(made, Shrink(local))
    tops = [one for one in made.nest.body if not isinstance(one, Local)]
    long = False
    for top in tops:
        for loop in _sums(top):
            long = long or at_most(loop.size) >= LONG
    if not long:
        return False
    for top in tops:
        if isinstance(top, Loop):
            _row(made, top, gpu)
    _shared(made, gpu)
    return True


def _sums(top: Statement) -> Iterator[Loop]:
    """Yield the loops that are all of what is summed for a row."""
    if not isinstance(top, Loop):
        return
    for loop in perfect(top):
        if _is_sum(loop):
            yield loop
        if len(loop.body) > 1:
            for one in loop.body:
                if isinstance(one, Loop) and _is_sum(one):
                    yield one


def _is_sum(loop: Loop) -> bool:
    """Return whether a loop only adds to a number."""
    if len(loop.body) != 1:
        return False
    one = loop.body[0]
    return isinstance(one, Set) and one.how != "=" and not one.index


def _row(made: Scheduling, top: Loop, gpu: GPU) -> None:
    """Bind what is around rows to blocks, and what is along them to threads."""
    if _is_sum(top) or all(isinstance(one, (Set, Local)) for one in top.body):
        _along(made, top)
        return
    outer: list[str] = []
    for loop in perfect(top):
        if len(loop.body) > 1 or not isinstance(loop.body[0], Loop):
            if any(isinstance(one, Loop) for one in loop.body):
                outer.append(loop.name)
            break
        outer.append(loop.name)
    rows = made.nest.loops[outer[-1]]
    for name in outer:
        made.do(Bind(name, "block"))
    for one in rows.body:
        if isinstance(one, Loop):
            _along(made, one)


def _along(made: Scheduling, loop: Loop) -> None:
    """Give the iterations of a loop to threads."""
    if _is_sum(loop):
        _sum(made, loop)
        return
    loops = [*perfect(loop)]
    name = loop.name
    for inner in loops[1:]:
        if any(isinstance(one, (Loop, Local)) for one in loops[-1].body):
            break
        made.do(Merge(name, inner.name))
        name = f"{name}_{inner.name}"
    size = made.nest.loops[name].size
    if size == 1:
        return
    threads = _threads(made.nest.loops[name])
    if isinstance(size, int) and size <= threads:
        made.do(Bind(name, "thread"))
        return
    outer, inner = _cut(made, name, threads)
    made.do(Reorder(outer, inner))
    made.do(Bind(inner, "thread"))


def _sum(made: Scheduling, loop: Loop) -> None:
    """Let threads sum parts of a sum, and add them up together."""
    one = loop.body[0]
    assert isinstance(one, Set)
    outer, inner = _cut(made, loop.name, _threads(loop))
    into = unique(f"{one.name}_parts", made.nest.names)
    before = set(made.nest.loops)
    made.do(Lanes(one.name, inner, outer, into))
    made.do(Place(into, "registers"))
    first, last = [name for name in made.nest.loops if name not in before]
    made.do(Bind(first, "thread"))
    made.do(Reorder(outer, inner))
    made.do(Bind(inner, "thread"))
    made.do(Bind(last, "across"))


def _cut(made: Scheduling, name: str, threads: int) -> tuple[str, str]:
    """Cut a loop into turns of all threads; return both loops."""
    outer = unique(f"{name}_o", made.nest.names)
    inner = unique(f"{name}_i", made.nest.names)
    made.do(Split(name, threads))
    if made.nest.loops[inner].size != threads:
        made.do(Guard(inner))
    return outer, inner


def _threads(loop: Loop) -> int:
    """Return how many threads share a loop: whole warps, and each has something to do."""
    found = 32
    while found < 2 * THREADS and found < about(loop.size):
        found *= 2
    return min(found, THREADS)


def _shared(made: Scheduling, gpu: GPU) -> None:
    """Place what a block keeps where its threads see it."""
    room = gpu.shared if gpu.arch is None else min(gpu.shared, 48 << 10)
    for local in list(made.nest.locals.values()):
        if local.space == "scratch":
            made.do(Place(local.name, "shared"))
            sizes = [size for size in local.type.shape if isinstance(size, int)]
            if len(sizes) != len(local.type.shape):
                raise ScheduleError(f"{local.name} has a size that is not known")
            room -= _product(sizes) * local.type.dtype.itemsize
    if room < 0:
        raise ScheduleError("more is shared than there is room for")


# -- elements --------------------------------------------------------------------------------------


def _elements(made: Scheduling, gpu: GPU) -> bool:
    """Let each thread compute elements of its own."""
    for one in [one for one in made.nest.body if isinstance(one, Loop)]:
        _try_element(made, one)
    for local in list(made.nest.locals.values()):
        if local.space == "scratch":
            made.do(Place(local.name, "registers"))
    return True


def _try_element(made: Scheduling, top: Loop) -> None:
    nest, count = made.nest, len(made.steps)
    loops = [*perfect(top)]
    while loops:
        try:
            _element(made, loops)
            return
        except ScheduleError:
            made.nest = nest
            del made.steps[count:]
            loops.pop()


def _element(made: Scheduling, loops: list[Loop]) -> None:
    """Make one loop of some, and give it to threads."""
    name = loops[0].name
    for inner in loops[1:]:
        merged = unique(f"{name}_{inner.name}", made.nest.names)
        made.do(Merge(name, inner.name))
        name = merged
    size = made.nest.loops[name].size
    if isinstance(size, int) and size <= 64:
        made.do(Bind(name, "thread"))
        return
    threads = THREADS if at_most(size) >= 4 * THREADS else 64
    outer, inner = _cut(made, name, threads)
    made.do(Bind(outer, "block"))
    made.do(Bind(inner, "thread"))


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


def _product(sizes: list[int]) -> int:
    found = 1
    for size in sizes:
        found *= size
    return found
