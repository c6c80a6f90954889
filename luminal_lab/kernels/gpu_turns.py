"""What the plans of GPUs share: steps that are made all or not at all, and loops cut into turns."""

from __future__ import annotations

from collections.abc import Callable

from luminal_lab.core.printer import unique
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.schedule import Scheduling
from luminal_lab.kernels.steps.binding import Guard
from luminal_lab.kernels.steps.loops import Merge, Reorder, Split


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
