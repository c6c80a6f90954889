"""Whose turn it is: what takes the most time and gained the most with its last turn.

    claim = weight × (FLOOR + gain) / (turns + 1)

Regions of a program claim batches so, and forms of a region draws. The division by turns is how
seats are given to parties: in the long run each has turns in proportion to the rest of its claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FLOOR = 0.02
"""What is hoped for of a turn, beside what the last one gained: nobody waits for ever."""


@dataclass(frozen=True)
class Claim:
    """What a region or a form has to say for itself."""

    weight: float
    """A region's share of the program's time; of a form how fast it is."""
    gain: float
    """The share of its time that its last turn saved."""
    turns: int
    """How many it has had."""

    @property
    def size(self) -> float:
        """How much it claims."""
        return self.weight * (FLOOR + self.gain) / (self.turns + 1)


def next_turn(claims: Mapping[int, Claim]) -> int:
    """Return whose turn it is: of those that had none the heaviest, else the largest claim.

    >>> next_turn({0: Claim(1.0, 0.0, 4), 1: Claim(1.0, 0.3, 4)})
    1
    >>> next_turn({0: Claim(1.0, 0.0, 4), 1: Claim(1.0, 0.3, 100)})
    0
    >>> next_turn({0: Claim(9.0, 0.9, 1), 1: Claim(1.0, 1.0, 0), 2: Claim(2.0, 1.0, 0)})
    2
    """
    return max(claims, key=lambda key: (not claims[key].turns, claims[key].size))
