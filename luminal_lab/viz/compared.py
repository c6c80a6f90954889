"""`ll.compare`: devices side by side, with charts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from luminal_lab.display import Theme
from luminal_lab.machines.figures import Specification
from luminal_lab.passes.pipeline import PassLike
from luminal_lab.tensor.arguments import told_object
from luminal_lab.timing import compare as side_by_side
from luminal_lab.timing.column import Comparable
from luminal_lab.timing.compare import SideBySide
from luminal_lab.timing.subject import TimedSession
from luminal_lab.viz.charts import bars, roofs
from luminal_lab.viz.figures import figure

if TYPE_CHECKING:
    import plotly.graph_objects as go


@told_object("compared")
@dataclass(frozen=True, repr=False)
class Compared(SideBySide):
    """A graph on several devices, as a table and as charts."""

    def plot(self, *, theme: Theme = "auto") -> go.Figure:
        """Return bars, a group for each segment; one look for each origin."""
        return figure(bars(self, theme))

    def roofline(self, *, theme: Theme = "auto") -> go.Figure:
        """Return each device's roof, and how close each segment came to it."""
        return figure(roofs(self, theme))


def compare(
    cx: TimedSession,
    devices: Sequence[Comparable | Specification],
    *,
    dims: Mapping[str, int] | None = None,
    passes: Iterable[PassLike] | None = None,
    rounds: int = 10,
    warm_up: int = 2,
) -> Compared:
    """Compile a session's graph for several devices, and return their times side by side.

    A specification stands for the times that its figures allow. `dims` are sizes that no data
    gives, `passes` run before a device's own (default: the generic compiler). The session does not
    change.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> y = (cx.tensor((1000, 1000), name="x") * 2).retrieve()
    >>> found = ll.compare(cx, [ll.devices.specification("t4"), ll.devices.specification("h200")])
    >>> [f"{1e6 * found[0].seconds(k):.1f} µs" for k in range(2)]
    ['25.0 µs', '2.0 µs']
    """
    compared = side_by_side.compare(
        cx, devices, dims=dims, passes=passes, rounds=rounds, warm_up=warm_up
    )
    return Compared(compared.graph, compared.columns, compared.segments)
