"""What a transformation of a graph that is being written leaves: a record, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from luminal_lab.core.edit import Change
from luminal_lab.core.ir import IR
from luminal_lab.interrupts import held

if TYPE_CHECKING:
    from luminal_lab.tensor.lazy import Workspace

T = TypeVar("T")


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


def as_one(graph: Workspace, write: Callable[[], T]) -> T:
    """Return what a function writes, or take all of it back; scopes can change within."""
    if graph.within():
        return write()
    with held() as hold:
        size = graph.size
        try:
            return hold.opened(write)
        except BaseException as error:
            graph.fail(error)  # what in it was broken off
            graph.take_back(size, error)
            raise
