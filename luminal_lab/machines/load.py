"""How many cores other programs keep busy while something is measured here."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from time import perf_counter, sleep
from typing import Self

from luminal_lab.machines.here import usable_cores

LOADED = 0.25
"""From this many busy cores on, a measurement counts as made under load."""
CROWDED = 0.9
"""From this share of busy cores on, times from different moments cannot be compared."""
SHORTEST = 0.1
"""The seconds below which the system's clock, of 10 ms a tick, is too coarse."""
BUSY = (
    "too busy to say: other programs kept every core busy, and what ran at different moments met "
    "different load"
)


class Load:
    """Counts, within `with`, how many cores other programs keep busy.

    The work of this process is not counted, nor that of the processes with the ids in `own`.
    `others` is None if the system does not say. A block that ends sooner than the system's clock
    can tell is prolonged: whoever was busy for a few milliseconds is busy for the next hundred.
    """

    def __init__(self, own: Iterable[int] = ()) -> None:
        self.own = {os.getpid(), *own}
        self.others: float | None = None

    def __enter__(self) -> Self:
        self._start = perf_counter(), self._busy()
        return self

    def __exit__(self, *error: object) -> None:
        start, before = self._start
        if before is None or any(error):
            return
        sleep(max(0.0, start + SHORTEST - perf_counter()))
        after = self._busy()
        if after is not None:
            self.others = max(0.0, (after - before) / (perf_counter() - start))

    def _busy(self) -> float | None:
        """Return the seconds for which others have used the cores that this process may use."""
        if sys.platform != "linux":
            return None
        with suppress(OSError, ValueError):
            ticks = os.sysconf("SC_CLK_TCK")
            text = Path("/proc/stat").read_text("utf-8")
            total = busy_ticks(text, os.sched_getaffinity(0))
            return (total - sum(map(_ticks_of, self.own))) / ticks
        return None


def busy_ticks(stat: str, cores: Iterable[int]) -> int:
    """Return the ticks for which some cores were not idle, from the text of /proc/stat.

    >>> busy_ticks("cpu0 5 0 2 90 1 0 1 1 0 0\\ncpu1 9 9 9 9 9 9 9 9 9 9", {0})
    9
    """
    ticks = 0
    for core in cores:
        line = re.search(rf"^cpu{core} (.+)", stat, re.MULTILINE)
        if line is not None:
            user, nice, system, _idle, _waiting, *interrupts = map(int, line[1].split()[:8])
            ticks += user + nice + system + sum(interrupts)
    return ticks


def _ticks_of(process: int) -> int:
    """Return the ticks that a process has used, with those of children that have ended."""
    with suppress(OSError):
        text = Path(f"/proc/{process}/stat").read_text("utf-8")
        # Its name, in parentheses, may contain anything.
        return sum(map(int, text.rpartition(")")[2].split()[11:15]))
    return 0


def load_text(others: float | None) -> str:
    """Say that something was measured under load; empty if it was not.

    >>> load_text(1.25), load_text(0.1), load_text(None)
    ('measured while other programs kept 1.2 cores busy', '', '')
    """
    if others is None or others < LOADED:
        return ""
    return f"measured while other programs kept {others:.1f} cores busy"


def is_crowded(others: float | None) -> bool:
    """Return whether others kept nearly every core busy that this process may use.

    >>> is_crowded(0.1), is_crowded(1e6), is_crowded(None)
    (False, True, False)
    """
    return others is not None and others >= max(LOADED, CROWDED * usable_cores())
