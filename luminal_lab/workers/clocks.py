"""By how much the clocks of workers differ, which are processes, perhaps on several machines.

No worker leaves an `all_gather` before all have come. So each one is an exchange that tells, for
two workers, between which bounds the difference of their clocks is:

    worker 0   came ──────── left        clock 1 - clock 0 ≤ left of 1 - came of 0
    worker 1       came ──── left        clock 1 - clock 0 ≥ came of 1 - left of 0

The middle between the tightest bounds of some exchanges is taken. The truth is at most half of
what lies between them away from it: half a round trip.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np

from luminal_lab.workers.mesh import Mesh
from luminal_lab.workers.ops import Communicator, Reading

ROUNDS = 4
"""The exchanges along each axis of a mesh; in the first one, workers wait for the last to come."""


def readings(talk: Communicator, mesh: Mesh) -> tuple[Reading, ...]:
    """Return what this worker reads off its clock when it comes to each exchange and leaves."""
    found, nothing = list[Reading](), np.zeros(1, np.uint8)
    for axis in [name for name, size in mesh.axes if size > 1 for _ in range(ROUNDS)]:
        came = perf_counter()
        talk.all_gather(nothing, axis)
        found.append(Reading(axis, came, perf_counter()))
    return tuple(found)


class Clocks(NamedTuple):
    """The clocks of all workers, beside that of worker 0."""

    ahead: tuple[float, ...]
    """By how many seconds each is ahead of it."""
    within: float | None
    """By how many seconds this may be wrong; None if there is one clock."""


def clocks_of(mesh: Mesh, seen: Sequence[Sequence[Reading]]) -> Clocks:
    """Return how the clocks of workers differ, by what each of them has read.

    >>> one, other = Reading("data", 0.0, 2.0), Reading("data", 101.0, 102.0)
    >>> clocks_of(Mesh(data=2), [[one], [other]])
    Clocks(ahead=(0.0, 100.5), within=1.5)
    """
    ahead, within = list[float](), 0.0
    for rank in range(mesh.workers):
        at, difference, half = rank, 0.0, 0.0
        for axis in mesh.sizes:
            first = mesh.group(at, axis)[0]
            pairs = [
                (mine, other)
                for mine, other in zip(seen[at], seen[first], strict=True)
                if mine.axis == axis and first != at
            ]
            if pairs:
                most = min(mine.left - other.came for mine, other in pairs)
                least = max(mine.came - other.left for mine, other in pairs)
                difference, half = difference + (most + least) / 2, half + (most - least) / 2
            at = first
        ahead.append(difference)
        within = max(within, half)
    return Clocks(tuple(ahead), within if any(seen) else None)


__all__ = ["Clocks", "Reading", "clocks_of", "readings"]
