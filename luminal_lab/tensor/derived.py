"""What a transformation of a graph that is being written leaves to be looked at."""

from __future__ import annotations

from typing import NamedTuple

from luminal_lab.core.edit import Change
from luminal_lab.core.ir import IR


class Derived(NamedTuple):
    """What was written before and after, and each node that was added, with the rule behind it."""

    name: str
    before: IR
    after: IR
    log: tuple[Change, ...]

    @property
    def made(self) -> dict[int, tuple[int, ...]]:
        """The nodes that were added for each node that was there, by ids."""
        found: dict[int, tuple[int, ...]] = {}
        for change in self.log:
            made = change.after[0].meta.made
            if made is not None:
                found[made.parents[0]] = (*found.get(made.parents[0], ()), change.node)
        return found
