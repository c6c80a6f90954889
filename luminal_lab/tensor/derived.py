"""What a transformation of a graph that is being written leaves: a record, or nothing."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from luminal_lab.core.edit import Change
from luminal_lab.core.ir import IR

if TYPE_CHECKING:
    from luminal_lab.tensor.lazy import Workspace


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


@contextmanager
def as_one(graph: Workspace) -> Generator[None, None, None]:
    """Take back all that was written if it fails, as `whole` does; scopes can change within."""
    if graph.inside:
        yield
        return
    mark, derived = graph.mark(), len(graph.derived)
    graph.inside = False
    try:
        yield
    except BaseException as error:
        graph.take_back(mark, error)
        del graph.derived[derived:]
        raise
