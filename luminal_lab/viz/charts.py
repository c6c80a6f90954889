"""Charts of a comparison: plain functions that return plotly payloads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from luminal_lab.display import Theme
from luminal_lab.machines.rates import size_text
from luminal_lab.timing.column import Column
from luminal_lab.timing.compare import Segment, SideBySide, count_text, ms, together
from luminal_lab.timing.timings import MARK
from luminal_lab.viz.figures import (
    COLOURS,
    DASHES,
    axis,
    bar,
    layout,
    logarithmic,
    point,
    safe,
    with_doubts,
)
from luminal_lab.viz.rooflines import name_points

ROOF = "roofs are of float32 and of memory: what lies in a cache may be above its own"
POINTS = 60
"""The number of points in a drawn roof."""
SEEN = 0.03
"""How far apart two roofs must be to be seen apart, as a share of the higher one."""


def bars(compared: SideBySide, theme: Theme = "auto") -> dict[str, Any]:
    """Return a chart of bars: a group for each segment, a bar for each device."""
    names = _names(compared.segments)
    data: list[dict[str, Any]] = []
    for index, column in enumerate(compared.columns):
        seconds = [segment.seconds(index) for segment in compared.segments]
        data.append(
            {
                "type": "bar",
                "name": _label(column),
                "x": names,
                "y": [None if value is None else 1e3 * value for value in seconds],
                "marker": bar(column.how, COLOURS[index % len(COLOURS)]),
                "hovertext": [_hover_text(segment, index, column) for segment in compared.segments],
                "hoverinfo": "text",
                "error_y": {
                    "type": "data",
                    "array": [1e3 * segment.spread(index) / 2 for segment in compared.segments],
                    "visible": column.how != "modelled",
                    "thickness": 1,
                    "width": 3,
                },
            }
        )
    times = [
        segment.seconds(k) for segment in compared.segments for k in range(len(compared.columns))
    ]
    known = [time for time in times if time]
    is_wide = bool(known) and max(known) > 50 * min(known)
    around = layout(
        f"{compared.graph}: time of each segment",
        below=with_doubts("", _doubts(compared)),
        height=420 + 12 * len(compared.columns),
        theme=theme,
    )
    # Labels may be long, so the legend stands above.
    around["legend"] |= {"y": 1.01, "yanchor": "bottom"}
    around["margin"] |= {"t": 70 + 10 * len(compared.columns)}
    around["xaxis"] = axis(type="category", showgrid=False, tickangle=-45)
    around["yaxis"] = logarithmic("ms (logarithmic)") if is_wide else axis("ms", type="linear")
    return {"data": data, "layout": {**around, "barmode": "group", "bargap": 0.25}}


def roofs(compared: SideBySide, theme: Theme = "auto") -> dict[str, Any]:
    """Return a roofline plot: each device's limit and each segment's rate."""
    lines: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    sizes = [
        (segment.flops(k), segment.bytes(k))
        for segment in compared
        for k in range(len(compared.columns))
    ]
    intensities = [flops / size for flops, size in sizes if flops and size]
    low = min(intensities, default=0.1) / 4
    high = max(intensities, default=100.0) * 4
    for index, column in enumerate(compared.columns):
        colour, group = COLOURS[index % len(COLOURS)], f"device {index}"
        roof = _roof(column, low, high)
        same = [other.label for other in compared.columns if _is_one(column, other)]
        # Roofs that lie over each other are one line, which the first of them draws.
        if roof is not None and not any(_is_one(column, one) for one in compared.columns[:index]):
            lines.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": f"{', '.join(same)}: the roof",
                    "legendgroup": group,
                    "x": roof[0],
                    "y": roof[1],
                    "line": {"color": colour, "width": 2, "dash": DASHES[column.how]},
                    "hoverinfo": "name",
                }
            )
        shown = [
            (segment, segment.flops(index), segment.bytes(index), segment.seconds(index))
            for segment in compared
        ]
        placed = [
            (segment, flops / size, flops / seconds / 1e9)
            for segment, flops, size, seconds in shown
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
                "text": [safe(segment.name) for segment, _, _ in placed],
                "marker": point(column.how, colour),
                "hovertext": [_hover_text(segment, index, column) for segment, _, _ in placed],
                "hoverinfo": "text",
            }
        )
    around = layout(
        f"{compared.graph}: what is reached, and the roof",
        below=with_doubts(ROOF, _doubts(compared)),
        height=420 + 24 * len(compared.columns),
        theme=theme,
    )
    around["xaxis"] = logarithmic("operations for each byte")
    around["yaxis"] = logarithmic("GFLOP/s")
    return name_points({"data": [*lines, *points], "layout": around})


def _doubts(compared: SideBySide) -> list[str]:
    told = ((column.label, compared.doubts(column)) for column in compared.columns)
    return together(told)


def _label(column: Column) -> str:
    return f"{safe(column.label)} ({MARK[column.how]}{column.how})"


def _names(segments: Sequence[Segment]) -> list[str]:
    """Return a label for each segment; equal ones get numbers, so that their bars stay apart."""
    seen: dict[str, int] = {}
    names: list[str] = []
    for segment in segments:
        kernels = [part.kernel for parts in segment.parts[:1] for part in parts]
        more = f" +{len(kernels) - 1}" if len(kernels) > 1 else ""
        own = safe(segment.label)
        name = f"{own}<br><sub>{safe(kernels[0])}{more}</sub>" if kernels else own
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return names


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


def _is_one(column: Column, other: Column) -> bool:
    """Return whether one cannot see the roofs of two columns apart."""
    own, its = column.specification, other.specification
    if own is None or its is None:
        return False
    peak, other_peak = own.peak("float32"), its.peak("float32")
    return (
        peak is not None
        and other_peak is not None
        and math.isclose(peak.flops.value, other_peak.flops.value, rel_tol=SEEN)
        and math.isclose(own.bandwidth.value, its.bandwidth.value, rel_tol=SEEN)
    )


def _hover_text(segment: Segment, index: int, column: Column) -> str:
    """Return a segment's text under the pointer."""
    seconds, mark = segment.seconds(index), MARK[column.how]
    lines = [f"<b>{safe(segment.label)}</b> {safe(segment.origin)}", _label(column)]
    if seconds is None:
        return "<br>".join([*lines, *map(safe, segment.missing(index))])
    spread = "" if column.how == "modelled" else f" ± {ms(segment.spread(index), mark)}"
    lines.append(f"{ms(seconds, mark)}{spread} ms, {segment.bound(index)}")
    size, flops, share = segment.bytes(index), segment.flops(index), segment.share(index)
    lines += [size_text(size)] if size is not None else []
    lines += [f"{count_text(flops)} operations"] if flops is not None else []
    if share is not None and column.how != "modelled":
        lines.append(f"{share:.0%} of the limit")
    return "<br>".join([*lines, *(safe(part.kernel) for part in segment.parts[index])])
