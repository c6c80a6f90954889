"""`cx.explore()`: a graph as a live picture."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from luminal_lab.tensor.arguments import told_object
from luminal_lab.viz.live.alive import Live
from luminal_lab.viz.live.backed import Backed


@told_object("explorer")
class Explorer(Live):
    """Graphs to explore: scopes open in place, all nodes can be found and inspected."""

    what = "explorer"

    @override
    def __repr__(self) -> str:
        return f"<Explorer of {self.title}: {len(self.stage.ir):,} nodes; {SEEN}>"


SEEN = 'a notebook shows it, .export("page.html") writes it as a page'


def explorer(backed: Sequence[Backed]) -> Explorer:
    """Return an explorer of some graphs, showing the first."""
    return Explorer(backed)
