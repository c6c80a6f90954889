"""Whose turn it is: the part that takes the most time and gained the most with its last turn.

    claim = weight × (FLOOR + gain) / (turns + 1)

Regions of a program claim batches this way, and forms of a region claim draws. Turns are divided as
seats are given to parties: in the long run they are in proportion to weight × (FLOOR + gain).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FLOOR = 0.02
"""A gain that every claim has in addition to its last one, so that nobody waits for ever."""


@dataclass(frozen=True)
class Claim:
    """What a region or a form brings to the division of turns."""

    weight: float
    """A region's share of the program's time; for a form, how fast it is."""
    gain: float
    """The share of its time that its last turn saved."""
    turns: int
    """How many turns it has had."""

    @property
    def size(self) -> float:
        """How much it claims."""
        return self.weight * (FLOOR + self.gain) / (self.turns + 1)


def next_turn(claims: Mapping[int, Claim]) -> int:
    """Return whose turn it is: the heaviest claim without a turn yet, else the largest claim.

    >>> next_turn({0: Claim(1.0, 0.0, 4), 1: Claim(1.0, 0.3, 4)})
    1
    >>> next_turn({0: Claim(1.0, 0.0, 4), 1: Claim(1.0, 0.3, 100)})
    0
    >>> next_turn({0: Claim(9.0, 0.9, 1), 1: Claim(1.0, 1.0, 0), 2: Claim(2.0, 1.0, 0)})
    2
    """
    return max(claims, key=lambda key: (not claims[key].turns, claims[key].size))
