"""What lies between two workers of this machine, as a link for `ll.plan`: measured, not stated."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

import numpy as np

from luminal_lab.machines.figures import Figure
from luminal_lab.machines.links import Link
from luminal_lab.workers.mesh import Mesh
from luminal_lab.workers.ops import WORKER, Communicator
from luminal_lab.workers.threads import Threads

SMALL, LARGE = 256, 1 << 20
"""Numbers that are summed to measure a link: for its latency, for its bandwidth."""


def threads_link() -> Link:
    """Return what lies between two workers that are threads, measured here."""
    mesh = Mesh(pair=2)

    def work(rank: int) -> tuple[float, ...]:
        worker = WORKER.get()
        assert worker is not None, "the engine has set it"
        return pair_seconds(worker.communicator)

    return shared_link("threads", map(max, *Threads().run(mesh, work)))


def pair_seconds(talk: Communicator) -> tuple[float, ...]:
    """Return how long it takes a pair, the axis `pair`, to sum up little and much."""
    taken = list[float]()
    for count in (SMALL, LARGE):
        x, best = np.zeros(count, np.float32), 1.0
        for _ in range(20):
            start = perf_counter()
            talk.all_reduce(x, "pair", "sum")
            best = min(best, perf_counter() - start)
        taken.append(best)
    return (*taken,)


def shared_link(name: str, taken: Iterable[float]) -> Link:
    """Return what lies between workers of this machine, of which a pair was measured."""
    small, large = taken
    source = f"all_reduces of two {name}, measured here"
    rate = Figure(4 * LARGE / max(large - small, 1e-9), source, "measured")
    return Link(name, rate, Figure(small / 2, source, "measured"), is_shared=True)
