"""Charts of a comparison: plain functions that make plotly's payload."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from luminal_lab.display import Theme
from luminal_lab.machines.rates import size_text
from luminal_lab.timing.column import Column
from luminal_lab.timing.compare import SideBySide
from luminal_lab.timing.segments import Segment, count_text, ms
from luminal_lab.timing.timings import MARK
from luminal_lab.viz.figures import COLOURS, DASHES, axis, bar, layout, logarithmic, point, safe

ROOF = "roofs are of float32 and of memory: what lies in a cache may be above its own"
POINTS = 60
"""Of how many points a roof is drawn."""


def bars(found: SideBySide, theme: Theme = "auto") -> dict[str, Any]:
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
                "marker": bar(column.how, COLOURS[place % len(COLOURS)]),
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
    around = layout(
        f"{found.graph}: time of each segment", height=420 + 12 * len(found.columns), theme=theme
    )
    # Labels may be long: the legend stands above.
    around["legend"] |= {"y": 1.01, "yanchor": "bottom"}
    around["margin"] |= {"t": 70 + 10 * len(found.columns)}
    around["xaxis"] = axis(type="category", showgrid=False, tickangle=-45)
    around["yaxis"] = logarithmic("ms (logarithmic)") if is_wide else axis("ms", type="linear")
    return {"data": data, "layout": {**around, "barmode": "group", "bargap": 0.25}}


def roofs(found: SideBySide, theme: Theme = "auto") -> dict[str, Any]:
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
                "marker": point(column.how, colour),
                "hovertext": [_told(one, place, column) for one, _, _ in placed],
                "hoverinfo": "text",
            }
        )
    around = layout(
        f"{found.graph}: what is reached, and the roof",
        below=ROOF,
        height=420 + 24 * len(found.columns),
        theme=theme,
    )
    around["xaxis"] = logarithmic("operations for each byte")
    around["yaxis"] = logarithmic("GFLOP/s")
    return {"data": [*lines, *points], "layout": around}


def _label(column: Column) -> str:
    return f"{safe(column.label)} ({MARK[column.how]}{column.how})"


def _names(segments: Sequence[Segment]) -> list[str]:
    """Return a label for each segment; those that are equal get numbers, so that bars part."""
    seen: dict[str, int] = {}
    found: list[str] = []
    for one in segments:
        kernels = [part.kernel for parts in one.parts[:1] for part in parts]
        more = f" +{len(kernels) - 1}" if len(kernels) > 1 else ""
        own = safe(one.name)
        name = f"{own}<br><sub>{safe(kernels[0])}{more}</sub>" if kernels else own
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return found


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
    lines = [f"<b>{safe(one.name)}</b> {safe(one.origin)}", _label(column)]
    if seconds is None:
        return "<br>".join([*lines, *map(safe, one.missing(place))])
    spread = "" if column.how == "modelled" else f" ± {ms(one.spread(place), mark)}"
    lines.append(f"{ms(seconds, mark)}{spread} ms, {one.bound(place)}")
    size, flops, share = one.bytes(place), one.flops(place), one.share(place)
    lines += [size_text(size)] if size is not None else []
    lines += [f"{count_text(flops)} operations"] if flops is not None else []
    if share is not None and column.how != "modelled":
        lines.append(f"{share:.0%} of the limit")
    return "<br>".join([*lines, *(safe(part.kernel) for part in one.parts[place])])
