"""A step on several meshes as bars: what computes, then what is sent along each axis of the mesh.

A plain function returns the plotly payload. What is on paper is an outline, as in all charts.
"""

from __future__ import annotations

from collections.abc import Sequence

from luminal_lab.display import Theme
from luminal_lab.machines.rates import size_text
from luminal_lab.timing.outlook import MeshPlan
from luminal_lab.viz.figures import COLOURS, Payload, axis, bar, layout, rounded, safe

STRIPES = ("/", "x", "-", "\\")
"""What tells apart what is sent along one axis from what is sent along another."""


def mesh_chart(plan: MeshPlan, theme: Theme = "auto") -> Payload:
    """Return a bar for each mesh, the fastest above."""
    rows = [*reversed(plan.estimates)]
    names = [safe(f"{_places(row.mesh.axes)}{'' if plan.fits(row) else ' ⚠'}") for row in rows]

    def trace(name: str, style: Payload, seconds: Sequence[float], said: Sequence[str]) -> Payload:
        xs = [rounded(1e3 * value) for value in seconds]
        look = {"type": "bar", "orientation": "h", "marker": style, "hoverinfo": "text"}
        return {**look, "name": name, "y": names, "x": xs, "hovertext": [safe(s) for s in said]}

    how = rows[0].how
    times = [row.computing for row in rows]
    said = [
        f"{1e3 * row.computing:.3f} ms {row.how}; {size_text(row.memory)} a worker" for row in rows
    ]
    data = [trace(f"computing, {how}", bar(how, COLOURS[0]), times, said)]
    for number, (name, link) in enumerate(plan.links.items()):
        sent = [row.sent.get(name) for row in rows]
        style = bar("modelled", COLOURS[1 + number % 5])
        stripes = {"shape": STRIPES[number % 4], "fgcolor": COLOURS[1 + number % 5], "size": 6}
        times = [0.0 if one is None else one.seconds for one in sent]
        said = [
            f"~{1e3 * one.seconds:.3f} ms modelled: {size_text(one.bytes)} in {one.messages} "
            f"messages over {link.name}"
            if one is not None
            else ""
            for one in sent
        ]
        style["pattern"] = {**stripes, "bgcolor": "rgba(0,0,0,0)"}
        data.append(trace(f"sent along {name}, on paper", style, times, said))
    title = f"{plan.graph} on {plan.asked.workers} workers, on paper"
    below = "; ".join([plan.device, *map(str, plan.links.values())])
    around = layout(title, below=below, height=170 + 34 * len(rows), theme=theme)
    around["barmode"] = "stack"
    around["xaxis"] = axis("ms a step", rangemode="tozero")
    around["yaxis"] = axis(type="category")
    around["legend"]["y"] = -60 / (60 + 34 * len(rows))
    return {"data": data, "layout": around}


def _places(axes: Sequence[tuple[str, int]]) -> str:
    return " × ".join(f"{name} {size}" for name, size in axes)
