"""What the plans of GPUs share: loops cut into turns of threads, and copies by all of them."""

from __future__ import annotations

from collections.abc import Callable

from luminal_lab.core.printer import unique
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.terms import Read
from luminal_lab.kernels.nest.nest import Loop, Nest, Set, accesses, walk
from luminal_lab.kernels.nest.sizes import perfect, stride
from luminal_lab.kernels.steps.binding import Bind, Guard
from luminal_lab.kernels.steps.kinds import Unroll, Vector
from luminal_lab.kernels.steps.loops import Merge, Reorder, Split
from luminal_lab.kernels.steps.schedule import Scheduling

BYTES = 16
"""What a thread loads and stores as one at most."""


def attempt(made: Scheduling, steps: Callable[[], object]) -> bool:
    """Make steps, all or none of them; return whether they were made and said no False."""
    nest, count = made.nest, len(made.steps)
    try:
        if steps() is not False:
            return True
    except ScheduleError:
        pass
    made.nest = nest
    del made.steps[count:]
    return False


def turns(made: Scheduling, name: str, threads: int) -> tuple[str, str]:
    """Cut a loop into turns of all threads; return the loops over turns and over threads."""
    outer = unique(f"{name}_o", made.nest.names)
    inner = unique(f"{name}_i", made.nest.names)
    made.do(Split(name, threads))
    if made.nest.loops[inner].size != threads:
        made.do(Guard(inner, inner))
    return outer, inner


def merged(made: Scheduling, loops: list[str]) -> str:
    """Make one loop of loops that are one in the other, and return its name."""
    name = loops[0]
    for inner in loops[1:]:
        both = unique(f"{name}_{inner}", made.nest.names)
        made.do(Merge(name, inner))
        name = both
    return name


def reordered(made: Scheduling, wanted: list[str], now: list[str]) -> None:
    """Bring loops that are right around each other, in an order, into another."""
    now = [*now]
    for place, name in enumerate(wanted):
        for at in range(now.index(name), place, -1):
            made.do(Reorder(now[at - 1], name))
            now[at - 1], now[at] = now[at], now[at - 1]


def is_plain(loop: Loop) -> bool:
    """Return whether a loop has nothing but assignments in it."""
    return all(isinstance(one, Set) for one in loop.body)


def width_of(nest: Nest, name: str) -> int:
    """Return how many neighbours along a loop are one access."""
    loop = nest.loops[name]
    if not is_plain(loop):
        return 1
    sizes: list[int] = []
    for one in accesses(loop.body):
        if one.index:
            dtype = nest.types[one.name].dtype
            if stride(nest, Read(one.name, one.index, dtype), name) == 1:
                sizes.append(dtype.itemsize)
    width = min(8, BYTES // max(sizes, default=BYTES))
    while width > 1 and loop.size % width != 0:
        width //= 2
    return width


def shared_out(made: Scheduling, top: str, threads: int) -> None:
    """Let all threads copy, neighbours what lies side by side."""
    loops = [loop.name for loop in perfect(made.nest.loops[top])]
    (one,) = [one for one in walk((made.nest.loops[top],)) if isinstance(one, Set)]
    near = [name for name in loops if stride(made.nest, one.term, name) == 1]
    lanes: list[str] = []
    if near:
        there = [*loops]
        loops.append(loops.pop(loops.index(near[-1])))
        reordered(made, loops, there)
        width = width_of(made.nest, loops[-1])
        if width > 1:
            made.do(Split(loops[-1], width))
            lanes = [f"{loops[-1]}_i"]
            loops[-1] += "_o"
    shared: list[str] = []
    for place, name in reversed([*enumerate(loops)]):
        size = made.nest.loops[name].size
        assert isinstance(size, int)
        if size == 1:
            continue
        if size > threads:
            made.do(Split(name, threads))
            loops[place : place + 1] = [f"{name}_o", f"{name}_i"]
            name, size = f"{name}_i", threads
        shared.insert(0, name)
        threads //= size
        if threads == 1:
            break
    rest = [name for name in loops if name not in shared]
    reordered(made, [*shared, *rest, *lanes], [*loops, *lanes])
    for name in shared:
        made.do(Bind(name, "thread"))
    for name in lanes:
        made.do(Vector(name))
    for name in rest:
        attempt(made, lambda name=name: made.do(Unroll(name)))
