"""Records of transformations of a growing graph, which leave nothing if they fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from luminal_lab.core.edit import LogEntry
from luminal_lab.core.ir import IR
from luminal_lab.interrupts import held

if TYPE_CHECKING:
    from luminal_lab.tensor.lazy import Workspace

T = TypeVar("T")


class Derived(NamedTuple):
    """The graph before and after a transformation, and each added node with its rule."""

    name: str
    before: IR
    after: IR
    log: tuple[LogEntry, ...]

    @property
    def added(self) -> dict[int, tuple[int, ...]]:
        """The ids of the nodes added for each earlier node, by its id."""
        added: dict[int, tuple[int, ...]] = {}
        for change in self.log:
            derivation = change.after[0].meta.derivation
            if derivation is not None:
                added[derivation.parents[0]] = (*added.get(derivation.parents[0], ()), change.node)
        return added


def as_whole(graph: Workspace, write: Callable[[], T]) -> T:
    """Return a function's result, or undo all it wrote; scopes may change within."""
    if graph.within():
        return write()
    with held() as hold:
        size = graph.size
        try:
            return hold.opened(write)
        except BaseException as error:
            graph.fail(error)  # Ctrl-C broke it off
            graph.take_back(size, error)
            raise
