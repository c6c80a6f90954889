"""The functions behind `.plot()`, `.roofline()` and the `to_pandas()` of graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from luminal_lab.display import Theme
from luminal_lab.kernels.memory.plan import BoundPlan, MemoryPlan
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.rows import pass_table
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.tables import Table
from luminal_lab.timing.compare import SideBySide
from luminal_lab.timing.outlook import MeshPlan
from luminal_lab.timing.timings import Timings
from luminal_lab.viz import charts, timings_charts
from luminal_lab.viz.compared_table import html
from luminal_lab.viz.egraph_picture import space_table
from luminal_lab.viz.figures import figure
from luminal_lab.viz.memory_chart import memory_chart
from luminal_lab.viz.mesh_chart import mesh_chart
from luminal_lab.viz.node_tables import diff_table, node_table
from luminal_lab.viz.pass_charts import pass_chart
from luminal_lab.viz.picture import Picture
from luminal_lab.viz.rooflines import still_roofline

if TYPE_CHECKING:
    import plotly.graph_objects as go


def timings_plot(*several: Timings, theme: Theme = "auto") -> go.Figure:
    """Return a bar for each launch."""
    return figure(timings_charts.bars(several, theme))


def timings_roofline(
    timings: Timings, *, theme: Theme = "auto", still: bool = False
) -> go.Figure | Picture:
    """Return the machine's roof, and how close each launch came to it."""
    payload = timings_charts.roofs(timings, theme)
    return still_roofline(payload, theme) if still else figure(payload)


def compared_plot(compared: SideBySide, *, theme: Theme = "auto") -> go.Figure:
    """Return bars, a group for each segment; one look for each origin."""
    return figure(charts.bars(compared, theme))


def compared_roofline(
    compared: SideBySide, *, theme: Theme = "auto", still: bool = False
) -> go.Figure | Picture:
    """Return each device's roof, and how close each segment came to it."""
    payload = charts.roofs(compared, theme)
    return still_roofline(payload, theme) if still else figure(payload)


def memory_plot(
    plan: MemoryPlan | BoundPlan,
    before: MemoryPlan | BoundPlan | None = None,
    *,
    theme: Theme = "auto",
) -> go.Figure:
    """Return the bytes that temporaries need at each step."""
    return figure(memory_chart(plan, before, theme=theme))


def mesh_plot(plan: MeshPlan, *, theme: Theme = "auto") -> go.Figure:
    """Return the step of each mesh: what computes, and what is sent along each axis."""
    return figure(mesh_chart(plan, theme))


def compilation_plot(compilation: Compilation, *, theme: Theme = "auto") -> go.Figure:
    """Return the firings and the time of each pass."""
    return figure(pass_chart(compilation, theme))


def snapshot_table(snapshot: Snapshot) -> Table:
    """Return the firings of a pass as a pandas table."""
    return pass_table("snapshot", [snapshot], "firings")


FORMATTERS: dict[str, Callable[..., Any]] = {
    "BoundPlan.plot": memory_plot,
    "Compilation.plot": compilation_plot,
    "Diff.to_pandas": diff_table,
    "IR.to_pandas": node_table,
    "MemoryPlan.plot": memory_plot,
    "MeshPlan.plot": mesh_plot,
    "SideBySide.html": html,
    "SideBySide.plot": compared_plot,
    "SideBySide.roofline": compared_roofline,
    "Snapshot.to_pandas": snapshot_table,
    "Space.to_pandas": space_table,
    "Timings.plot": timings_plot,
    "Timings.roofline": timings_roofline,
}
"""The function for each chart or table, by the names of the class and of the method."""
