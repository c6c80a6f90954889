"""Which boxes are open at first: so many that there is enough to see, and not too much.

Boxes open level by level, as long as all of a level fits, or one of each kind. If that leaves next
to nothing in sight, or closes what a pass has changed, some open that tell most.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from luminal_lab.viz.stretches import BUDGET, LEAST

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Contents(Generic[Key]):
    """What is right inside a box, or in the outermost frame."""

    boxes: Sequence[Key] = ()
    nodes: int = 0
    after: int = 0
    """How many of the nodes the later graph has; of one graph that is all of them."""
    changes: int = 0
    """How many nodes in it, at any depth, a pass has changed."""
    size: int = 0
    """How many nodes are in it, at any depth."""
    left: int = 0
    """How many of these the later graph has."""
    is_like: bool = False
    """Whether it is equal to a box before it."""


def first_open(frames: Mapping[Key | None, Contents[Key]]) -> list[Key]:
    """Return the boxes open at first, outer ones first, of the frames that boxes open."""
    return _Opening(frames).opened()


class _Opening(Generic[Key]):
    def __init__(self, frames: Mapping[Key | None, Contents[Key]]) -> None:
        self.frames = frames
        self.open: list[Key] = []
        self.closed: list[Key] = list(frames[None].boxes)
        """The boxes in sight that are closed."""
        self.shown = frames[None].nodes + len(frames[None].boxes)
        self.after = frames[None].after + self._left(frames[None].boxes)

    def _left(self, boxes: Sequence[Key]) -> int:
        """Return how many boxes have something of the later graph."""
        return sum(self.frames[box].left > 0 for box in boxes)

    def _cost(self, box: Key) -> int:
        inside = self.frames[box]
        return inside.nodes + len(inside.boxes) - 1

    def _do(self, box: Key) -> None:
        inside = self.frames[box]
        self.shown += self._cost(box)
        self.after += inside.after + self._left(inside.boxes) - (inside.left > 0)
        self.open.append(box)
        at = self.closed.index(box)
        self.closed[at : at + 1] = inside.boxes

    def opened(self) -> list[Key]:
        """Return what is open at first."""
        level = self._that_fit(self.closed)
        while level:
            for box in level:
                self._do(box)
            level = self._that_fit([inner for box in level for inner in self.frames[box].boxes])
        while self.after < LEAST and (box := self._best(self._gain)) is not None:
            self._do(box)
        while (box := self._best(self._changes)) is not None:
            self._do(box)
        return self.open

    def _that_fit(self, level: Sequence[Key]) -> list[Key]:
        """Return a level, or one box of each kind in it, if that fits."""
        for boxes in (list(level), [box for box in level if not self.frames[box].is_like]):
            if self.shown + sum(map(self._cost, boxes)) <= BUDGET:
                return boxes
        return []

    def _best(self, worth: Callable[[Key], float]) -> Key | None:
        """Return the closed box that fits and is worth most, the largest of several; else None."""
        fits = [
            box for box in self.closed if worth(box) > 0 and self.shown + self._cost(box) <= BUDGET
        ]
        return max(fits, key=lambda box: (worth(box), self.frames[box].size), default=None)

    def _gain(self, box: Key) -> float:
        """Return how much more of the later graph is in sight for each thing that a box adds."""
        inside = self.frames[box]
        return (inside.after + self._left(inside.boxes)) / (self._cost(box) + 2)

    def _changes(self, box: Key) -> float:
        """Return how many changes come into sight for each thing that a box adds."""
        return self.frames[box].changes / (self._cost(box) + 2)
