"""Two things timed in turns: what disturbs one disturbs the other, so that their ratio holds.

    first   ▌▌▌   second ▌▌   second ▌▌   first ▌▌▌   first …

The first turn alternates between the two. A turn is several runs, of which the best counts: other
programs can only slow one down, and most runs are shorter than the time for which a busy system
leaves a program alone. There is one ratio for each pair of turns, and their median counts; the true
one lies within the bounds 19 times out of 20.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter, sleep

from typing_extensions import override

from luminal_lab.core.printer import as_text
from luminal_lab.machines.load import Load, load_text
from luminal_lab.tensor.arguments import told_object
from luminal_lab.timing.timings import unit_of

TURN = 6e-3
"""The least seconds of a turn."""
LEAST, MOST = 3, 400
"""The least and the most runs of a turn."""
FEWEST, ENOUGH = 6, 11
"""How many pairs are needed for bounds, and how many to believe them."""
NARROW = 1.15
"""How far apart the bounds of a ratio may be once it counts as known."""
BUDGET = 2.5
"""The seconds after which a ratio will not become any better known."""
Runs = Callable[[], object]


@told_object("turns")
@dataclass(frozen=True, repr=False)
class Turns:
    """The seconds of one run in each turn of both, and the load meanwhile."""

    first: tuple[float, ...]
    second: tuple[float, ...]
    busy: float | None = None
    """How many cores other programs kept busy meanwhile; None if unknown."""

    @property
    def ratios(self) -> list[float]:
        """The first's time divided by the second's for each pair, sorted."""
        return sorted(a / b for a, b in zip(self.first, self.second, strict=True))

    @property
    def ratio(self) -> float:
        """How many times faster the second is: the median of the ratios."""
        return median(self.ratios)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The two ratios between which the true median lies, 19 times out of 20."""
        return bounds_of(self.ratios)

    @property
    def saved(self) -> float:
        """The seconds that the second saves in a run."""
        return median(self.first) - median(self.second)

    @property
    def is_sure(self) -> bool:
        """Whether the bounds leave no doubt which one is faster."""
        return self.bounds is not None and (self.bounds[0] > 1 or self.bounds[1] < 1)

    @override
    def __str__(self) -> str:
        first, second = median(self.first), median(self.second)
        factor, unit = unit_of(max(first, second))
        within = "" if self.bounds is None else " ({:.2f} to {:.2f})".format(*self.bounds)
        times = f"{factor * first:.3g} {unit} and {factor * second:.3g} {unit}"
        text = f"{times}: {self.ratio:.2f}×{within}"
        load = load_text(self.busy)
        doubt = "" if self.is_sure else "; too close, or too disturbed, to say which is faster"
        return text + doubt + (f"; {load}, in turns" if load else "")

    @override
    def __repr__(self) -> str:
        return f"<Turns: {self}>"

    _repr_mimebundle_ = as_text


def bounds_of(ordered: list[float]) -> tuple[float, float] | None:
    """Return the two of some sorted samples between which the true median lies.

    As many samples fall below the median as coins fall on one side, 19 times out of 20.

    >>> bounds_of([1.0, 2.0, 3.0]), bounds_of([float(k) for k in range(16)])
    (None, (4.0, 11.0))
    """
    count = len(ordered)
    if count < FEWEST:
        return None
    off = max(0, int(count / 2 - 0.98 * count**0.5))
    return ordered[off], ordered[count - 1 - off]


def in_turns(first: Runs, second: Runs, *, seconds: float = BUDGET) -> Turns:
    """Run both in turns, warmed up, until their ratio is known well, or for some seconds.

    >>> turns = in_turns(lambda: sum(range(3000)), lambda: sum(range(30)))
    >>> turns.ratio > 1
    True
    """
    sides = (first, second)
    for side in sides:  # warm up
        side()
        side()
    samples: tuple[list[float], list[float]] = ([], [])
    with Load() as load:
        begin, turn = perf_counter(), 0
        while turn < FEWEST or (perf_counter() - begin < seconds and not _is_known(samples)):
            # The second finds what the first has left in the caches, and its clock speed.
            for number in (0, 1) if turn % 2 else (1, 0):
                samples[number].append(_turn(sides[number]))
            turn += 1
    return Turns(tuple(samples[0]), tuple(samples[1]), load.others)


def _is_known(samples: tuple[list[float], list[float]]) -> bool:
    """Return whether the bounds of a ratio are close, after enough turns."""
    if len(samples[0]) < ENOUGH:
        return False
    low, high = Turns(tuple(samples[0]), tuple(samples[1])).bounds or (0.0, 1.0)
    return high <= NARROW * low


def _turn(side: Runs) -> float:
    """Return the seconds of the best run of a turn.

    It rests as long as it ran: systems are kind to processes that have just slept.
    """
    begin = now = perf_counter()
    best, runs = float("inf"), 0
    while runs < LEAST or (now - begin < TURN and runs < MOST):
        start = perf_counter()
        side()
        now = perf_counter()
        best, runs = min(best, now - start), runs + 1
    sleep(min(now - begin, 2 * TURN))
    return best
