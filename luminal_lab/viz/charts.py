"""Charts of a comparison: plain functions that make plotly's payload, and one that makes a figure.

Measured, recorded and modelled are told apart in every chart: a measured bar is full and a measured
point a disc; a recorded bar is hatched and its point a diamond; a modelled bar is an outline, and
its point a ring.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from luminal_lab.devices.column import Column
from luminal_lab.devices.compare import SideBySide
from luminal_lab.devices.rates import size_text
from luminal_lab.devices.segments import Segment, count_text, ms
from luminal_lab.devices.timings import MARK
from luminal_lab.errors import DeviceError

if TYPE_CHECKING:
    import plotly.graph_objects as go

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
"""Colours that people with any kind of sight can tell apart (Okabe and Ito)."""
SYMBOLS = {"measured": "circle", "recorded": "diamond", "modelled": "circle-open"}
DASHES = {"measured": "solid", "recorded": "dot", "modelled": "dash"}
GRID = "rgba(128,128,128,0.25)"
ROOF = "roofs are of float32 and of memory: what lies in a cache may be above its own"
POINTS = 60
"""Of how many points a roof is drawn."""


def bars(found: SideBySide) -> dict[str, Any]:
    """Return a chart of bars: a group for each segment, a bar for each device."""
    names = _names(found.segments)
    data: list[dict[str, Any]] = []
    for place, column in enumerate(found.columns):
        seconds = [one.seconds(place) for one in found.segments]
        data.append(
            {
                "type": "bar",
                "name": _label(column),
                "x": names,
                "y": [None if one is None else 1e3 * one for one in seconds],
                "marker": _bar(column, COLOURS[place % len(COLOURS)]),
                "hovertext": [_told(one, place, column) for one in found.segments],
                "hoverinfo": "text",
                "error_y": {
                    "type": "data",
                    "array": [1e3 * one.spread(place) / 2 for one in found.segments],
                    "visible": column.how != "modelled",
                    "thickness": 1,
                    "width": 3,
                },
            }
        )
    times = [one.seconds(k) for one in found.segments for k in range(len(found.columns))]
    known = [one for one in times if one]
    is_wide = bool(known) and max(known) > 50 * min(known)
    layout = _layout(f"{found.graph}: time of each segment", len(found.columns))
    layout["xaxis"] = {"type": "category", "automargin": True, "showgrid": False}
    layout["yaxis"] = {
        "title": {"text": "ms" + (" (logarithmic)" if is_wide else "")},
        "type": "log" if is_wide else "linear",
        "gridcolor": GRID,
        "zeroline": False,
        "automargin": True,
    }
    if is_wide:
        layout["yaxis"] |= {"dtick": 1, "exponentformat": "power"}
    return {"data": data, "layout": {**layout, "barmode": "group", "bargap": 0.25}}


def roofs(found: SideBySide) -> dict[str, Any]:
    """Return a roofline plot: what each device could do, and what each segment reached."""
    names = _names(found.segments)
    lines: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    sizes = [(one.flops(k), one.bytes(k)) for one in found for k in range(len(found.columns))]
    intensities = [flops / size for flops, size in sizes if flops and size]
    low = min(intensities, default=0.1) / 4
    high = max(intensities, default=100.0) * 4
    for place, column in enumerate(found.columns):
        colour, group = COLOURS[place % len(COLOURS)], f"device {place}"
        roof = _roof(column, low, high)
        if roof is not None:
            lines.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": f"{column.label}: the roof",
                    "legendgroup": group,
                    "x": roof[0],
                    "y": roof[1],
                    "line": {"color": colour, "width": 2, "dash": DASHES[column.how]},
                    "hoverinfo": "name",
                }
            )
        shown = [
            (one, name, one.flops(place), one.bytes(place), one.seconds(place))
            for one, name in zip(found.segments, names, strict=True)
        ]
        placed = [
            (one, flops / size, flops / seconds / 1e9)
            for one, _, flops, size, seconds in shown
            if flops and size and seconds
        ]
        points.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": _label(column),
                "legendgroup": group,
                "x": [x for _, x, _ in placed],
                "y": [y for _, _, y in placed],
                "marker": {
                    "color": colour,
                    "symbol": SYMBOLS[column.how],
                    "size": 10,
                    "line": {"color": colour, "width": 2},
                },
                "hovertext": [_told(one, place, column) for one, _, _ in placed],
                "hoverinfo": "text",
            }
        )
    title = f"{found.graph}: what is reached, and the roof<br><sub>{ROOF}</sub>"
    layout = _layout(title, 2 * len(found.columns))
    for axis, text in (("xaxis", "operations for each byte"), ("yaxis", "GFLOP/s")):
        layout[axis] = {
            "type": "log",
            "title": {"text": text},
            "gridcolor": GRID,
            "dtick": 1,
            "exponentformat": "power",
            "automargin": True,
        }
    return {"data": [*lines, *points], "layout": layout}


def figure(payload: dict[str, Any]) -> go.Figure:
    """Return a figure of plotly's, which a notebook shows."""
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise DeviceError(
            "plot: a chart needs plotly, which is not installed",
            hint="pip install plotly; print(…) and the table show the numbers without it",
        ) from error
    return go.Figure(payload)


def _label(column: Column) -> str:
    return f"{column.label} ({MARK[column.how]}{column.how})"


def _names(segments: Sequence[Segment]) -> list[str]:
    """Return a label for each segment; those that are equal get numbers, so that bars part."""
    seen: dict[str, int] = {}
    found: list[str] = []
    for one in segments:
        kernels = [part.kernel for parts in one.parts[:1] for part in parts]
        more = f" +{len(kernels) - 1}" if len(kernels) > 1 else ""
        name = f"{one.name}<br><sub>{kernels[0]}{more}</sub>" if kernels else one.name
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return found


def _bar(column: Column, colour: str) -> dict[str, Any]:
    line = {"color": colour, "width": 1.5}
    if column.how == "modelled":
        return {"color": "rgba(0,0,0,0)", "line": line}
    if column.how == "recorded":
        hatched = {"shape": "/", "fgcolor": colour, "bgcolor": "rgba(0,0,0,0)", "size": 6}
        return {"color": colour, "line": line, "pattern": hatched}
    return {"color": colour, "line": line}


def _roof(column: Column, low: float, high: float) -> tuple[list[float], list[float]] | None:
    """Return points of the roof: bandwidth first, then the rate of float32."""
    limits = column.specification
    peak = None if limits is None else limits.peak("float32")
    if limits is None or peak is None:
        return None
    ridge = peak.flops.value / limits.bandwidth.value
    low, high = min(low, ridge / 4), max(high, ridge * 4)
    step = math.log(high / low) / (POINTS - 1)
    xs = sorted({ridge, *(low * math.exp(k * step) for k in range(POINTS))})
    ys = [min(peak.flops.value, x * limits.bandwidth.value) / 1e9 for x in xs]
    return xs, ys


def _told(one: Segment, place: int, column: Column) -> str:
    """Return what is shown of a segment under the pointer."""
    seconds, mark = one.seconds(place), MARK[column.how]
    lines = [f"<b>{one.name}</b> {one.origin}", _label(column)]
    if seconds is None:
        return "<br>".join([*lines, *one.missing(place)])
    spread = "" if column.how == "modelled" else f" ± {ms(one.spread(place), mark)}"
    lines.append(f"{ms(seconds, mark)}{spread} ms, {one.bound(place)}")
    size, flops, share = one.bytes(place), one.flops(place), one.share(place)
    lines += [size_text(size)] if size is not None else []
    lines += [f"{count_text(flops)} operations"] if flops is not None else []
    if share is not None and column.how != "modelled":
        lines.append(f"{share:.0%} of the limit")
    return "<br>".join([*lines, *(part.kernel for part in one.parts[place])])


def _layout(title: str, entries: int) -> dict[str, Any]:
    return {
        "title": {"text": title, "x": 0, "xref": "paper"},
        "template": "plotly_white",
        "legend": {"orientation": "h", "y": -0.22, "yanchor": "top", "x": 0},
        "margin": {"l": 60, "r": 20, "t": 50, "b": 40},
        "height": 420 + 12 * entries,
    }
