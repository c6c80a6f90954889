"""How long workers wait for each other, and which of them has hung.

A worker that computes for an hour is slow; one that has stood still for seconds, while others wait
for it, has hung. What tells them apart is the processor's time that it has taken.
"""

from __future__ import annotations

from time import monotonic
from typing import Literal, NamedTuple, TypeAlias

PATIENCE = 6.0
"""The seconds that a worker may stand still while others wait for it."""
STILL = 0.1
"""The seconds of the processor's time that are no progress."""
LONGEST = 0.5
"""The longest time between two looks that counts: this process may have been stopped as well."""
Doing: TypeAlias = Literal["idle", "computes", "waits"]


class Seen(NamedTuple):
    """What is known of a worker at some moment."""

    doing: Doing
    seconds: float
    """The processor's time that it has taken so far."""
    met: int
    """The number of collectives that it has come to."""


class Patience:
    """What one who waits has seen of the workers that it waits for."""

    def __init__(self, limit: float | None = None) -> None:
        self.limit = PATIENCE if limit is None else limit
        self.now = 0.0
        """The seconds of waiting, as far as this process ran."""
        self._last = monotonic()
        self._seen: dict[int, Seen] = {}
        self._since: dict[int, float] = {}
        self._heard: dict[int, float] = {}

    def tick(self) -> float:
        """Return how long the wait is by now."""
        last, self._last = self._last, monotonic()
        self.now += min(self._last - last, LONGEST)
        return self.now

    def saw(self, rank: int, seen: Seen) -> None:
        """Note what a worker does."""
        before = self._seen.get(rank)
        self._heard[rank] = self.now
        if (
            before is None
            or (seen.doing, seen.met) != (before.doing, before.met)
            or seen.seconds - before.seconds > STILL
        ):
            self._seen[rank], self._since[rank] = seen, self.now

    def silent(self, rank: int) -> bool:
        """Return whether a worker has not been heard of for too long."""
        return self.now - self._heard.get(rank, 0.0) > self.limit

    def met(self, rank: int) -> int:
        """Return how many collectives a worker had come to when it was last heard of."""
        return self._seen[rank].met if rank in self._seen else -1

    def still(self, rank: int, doing: Doing) -> bool:
        """Return whether a worker has done nothing but this, without progress, for too long."""
        seen = self._seen.get(rank)
        return seen is not None and seen.doing == doing and self._is_old(rank)

    def _is_old(self, rank: int) -> bool:
        return self.now - self._since[rank] > self.limit


__all__ = ["PATIENCE", "Patience", "Seen"]
