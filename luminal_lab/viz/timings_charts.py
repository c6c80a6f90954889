"""Charts of timings: a bar for each launch, and the roof of the machine with what came near it.

Plain functions that make plotly's payload.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median, quantiles
from typing import NamedTuple

from luminal_lab.devices.facts.specifications import specification
from luminal_lab.display import Theme
from luminal_lab.errors import ArgumentError, UnknownNameError
from luminal_lab.machines.figures import Specification
from luminal_lab.machines.rates import PeakRates, size_text
from luminal_lab.timing.segments import count_text
from luminal_lab.timing.timings import MARK, Timing, Timings
from luminal_lab.viz.figures import (
    COLOURS,
    DASHES,
    Payload,
    axis,
    bar,
    layout,
    logarithmic,
    point,
    rounded,
    safe,
)

MOST = 40
"""Launches that have a bar each; the faster ones are one bar together."""
POINTS = 40
"""Of how many points a roof is drawn."""
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


class Roof(NamedTuple):
    """What a machine could do at most."""

    name: str
    flops: float
    """Operations in a second."""
    bytes: float
    """Bytes in a second."""
    is_main: bool = True
    """Whether it is that of memory, and not of a cache."""


def bars(several: Sequence[Timings], theme: Theme = "auto") -> Payload:
    """Return a chart of bars: one for each launch, and for several timings one beside the other."""
    for one in several:
        if not isinstance(one, Timings):
            raise ArgumentError(
                f"plot: {one!r} has no times",
                hint="give other timings, as in before.plot(cx.time())",
            )
    keyed = _keyed(several)
    labels, rest = _labels(keyed)
    longest = max((row.seconds for one in several for row in one), default=0.0)
    scale, unit = next((u for u in UNITS if longest >= u[0]), UNITS[-1])
    names = [safe(name) for _, name in labels] + ([f"{rest:,} faster ones"] if rest else [])
    data: list[Payload] = []
    for place, one in enumerate(several):
        colour = COLOURS[place % len(COLOURS)]
        rows = dict(keyed[place])
        shown = [rows.pop(key, None) for key, _ in labels]
        values = [None if row is None else rounded(row.seconds / scale) for row in shown]
        told = ["" if row is None else _told(row, one) for row in shown]
        low, high = zip(*(_quartiles(row, scale) for row in shown), strict=True) or ((), ())
        if rest:
            values.append(rounded(sum(row.seconds for row in rows.values()) / scale))
            told.append(f"{len(rows):,} launches together")
            low, high = (*low, 0.0), (*high, 0.0)
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": _name(one),
                "y": names,
                "x": values,
                "marker": bar(one.how, colour),
                "hovertext": told,
                "hoverinfo": "text",
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "array": list(high),
                    "arrayminus": list(low),
                    "visible": one.how != "modelled",
                    "thickness": 1,
                    "width": 3,
                },
            }
        )
        limits = [_limit(row, scale) for row in shown] + ([None] if rest else [])
        if len(several) == 1 and one.how != "modelled" and any(one is not None for one in limits):
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": "the least that the rates allow",
                    "y": names,
                    "x": limits,
                    "marker": {
                        "symbol": "line-ns-open",
                        "size": 11,
                        "color": COLOURS[1],
                        "line": {"width": 2},
                    },
                    "hoverinfo": "skip",
                }
            )
    first = several[0]
    below = _below(first) if len(several) == 1 else "whiskers end at the quartiles of the samples"
    height = 130 + max(len(names), 3) * (14 + 12 * len(several))
    around = layout(f"{first.graph}: time of each launch", below=below, height=height, theme=theme)
    around["xaxis"] = axis(unit, rangemode="tozero")
    around["yaxis"] = axis(type="category", autorange="reversed", showgrid=False)
    around |= {"barmode": "group", "bargap": 0.3}
    around["legend"] |= {"y": -50 / height}
    around["showlegend"] = True
    return {"data": data, "layout": around}


def roofs(one: Timings, theme: Theme = "auto") -> Payload:
    """Return a roofline plot: what the machine could do, and what each launch reached."""
    rows = [row for row in one if row.flops and row.bytes and row.seconds]
    spots = [(row, row.flops / row.bytes) for row in rows if row.flops and row.bytes]
    low = min((x for _, x in spots), default=0.1) / 4
    high = max((x for _, x in spots), default=100.0) * 4
    found = list(_roofs(one))
    main = next((roof for roof in found if roof.is_main), None)
    if main is not None:
        low, high = min(low, main.flops / main.bytes / 4), max(high, main.flops / main.bytes * 4)
    data: list[Payload] = []
    for roof in found:
        ridge = roof.flops / roof.bytes
        step = math.log(high / low) / (POINTS - 1)
        xs = sorted({rounded(ridge), *(rounded(low * math.exp(k * step)) for k in range(POINTS))})
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": roof.name,
                "x": xs,
                "y": [rounded(min(roof.flops, x * roof.bytes) / 1e9) for x in xs],
                "line": {
                    "color": COLOURS[0] if roof.is_main else COLOURS[-1],
                    "width": 2 if roof.is_main else 1,
                    "dash": DASHES["measured" if roof.is_main else "recorded"],
                },
                "hoverinfo": "name",
            }
        )
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": _name(one),
            "x": [x for _, x in spots],
            "y": [row.gflops for row, _ in spots],
            "marker": point(one.how, COLOURS[1]),
            "hovertext": [_told(row, one) for row, _ in spots],
            "hoverinfo": "text",
        }
    )
    left_out = len(one) - len(spots)
    below = "roofs are of float32" if found else "the rates of this device are not known: no roof"
    if left_out:
        many = "1 launch" if left_out == 1 else f"{left_out:,} launches"
        below += f"; {many} without operations or bytes not shown"
    title = f"{one.graph}: what is reached, and the roof"
    around = layout(title, below=below, height=440 + 14 * len(found), theme=theme)
    around["xaxis"] = logarithmic("operations for each byte")
    around["yaxis"] = logarithmic("GFLOP/s")
    return {"data": data, "layout": around}


def _roofs(one: Timings) -> Iterator[Roof]:
    """Yield the roofs of the machine that was timed: of memory, and of caches where measured."""
    if isinstance(one.rates, PeakRates):
        rates, threads = one.rates, one.threads
        flops = 1e9 * rates.gflops(threads=threads)
        yield Roof(f"{safe(one.device)}: from memory", flops, 1e9 * rates.gbytes(threads=threads))
        sizes = sorted({rate.size for rate in rates.rates if rate.what == "read" and rate.size})
        if len(sizes) > 1:  # the last of them is memory's
            cached = 1e9 * rates.gbytes("read", sizes[0], threads)
            yield Roof(f"from a cache, within {size_text(sizes[0])}", flops, cached, False)
        return
    limits = _specified(one.device)
    peak = None if limits is None else limits.peak("float32")
    if limits is not None and peak is not None:
        yield Roof(f"{limits.name}: the roof", peak.flops.value, limits.bandwidth.value)


def _specified(device: str) -> Specification | None:
    try:
        return specification(device)
    except UnknownNameError:
        return None


def _keyed(several: Sequence[Timings]) -> list[dict[str, Timing]]:
    """Return the rows of each by what stands side by side: the node, or of other graphs the label.

    Two compiles of a graph may call one kernel by two names.
    """
    is_one_graph = len({one.graph for one in several}) == 1
    found: list[dict[str, Timing]] = []
    for one in several:
        rows: dict[str, Timing] = {}
        for row in one:
            key = name = row.node if is_one_graph and row.node else row.label
            number = 2
            while key in rows:
                key, number = f"{name} #{number}", number + 1
            rows[key] = row
        found.append(rows)
    return found


def _labels(keyed: Sequence[dict[str, Timing]]) -> tuple[list[tuple[str, str]], int]:
    """Return keys and names of the launches that have a bar, and how many share one."""
    longest: dict[str, float] = {}
    names: dict[str, str] = {}
    for rows in keyed:
        for key, row in rows.items():
            longest[key] = max(longest.get(key, 0.0), row.seconds)
            names.setdefault(
                key, row.label if key in (row.node, row.label) else f"{row.name} {key}"
            )
    keys = list(longest)
    if len(keys) > MOST:
        least = sorted(longest.values(), reverse=True)[MOST - 1]
        keys = [key for key in keys if longest[key] >= least][:MOST]
    return [(key, names[key]) for key in keys], len(longest) - len(keys)


def _quartiles(row: Timing | None, scale: float) -> tuple[float, float]:
    """Return how far below and above its median the quartiles of a row lie."""
    if row is None or len(row.samples) < 2:
        return 0.0, 0.0
    low, _, high = quantiles(row.samples, n=4, method="inclusive")
    middle = median(row.samples)
    return rounded((middle - low) / scale), rounded((high - middle) / scale)


def _limit(row: Timing | None, scale: float) -> float | None:
    return (
        None if row is None or row.limit is None or not row.seconds else row.limit.seconds / scale
    )


def _name(one: Timings) -> str:
    many = f", {one.threads} threads" if one.threads > 1 else ""
    return f"{safe(one.device) or 'unknown'}{many} ({MARK[one.how]}{one.how})"


def _below(one: Timings) -> str:
    if one.how == "modelled":
        return "modelled: the least time that the rates allow, and no run"
    return f"medians of {one.rounds} samples, {one.how}; whiskers end at the quartiles"


def _told(row: Timing, one: Timings) -> str:
    """Return what is shown of a launch under the pointer."""
    lines = [f"<b>{safe(row.label)}</b>", *map(safe, row.origins[:2]), _name(one)]
    spread = "" if one.how == "modelled" else f" ± {one.shown(row.spread)}"
    lines.append(f"{one.shown(row.seconds)}{spread} {one.unit}")
    if row.bytes is not None:
        lines.append(size_text(row.bytes) + (f", {row.gbytes:.1f} GB/s" if row.gbytes else ""))
    if row.flops:
        rate = f", {row.gflops:.1f} GFLOP/s" if row.gflops else ""
        lines.append(f"{count_text(row.flops)} operations{rate}")
    if row.share is not None and row.limit is not None and one.how != "modelled":
        lines.append(f"{row.share:.0%} of the limit ({row.limit.bound})")
    return "<br>".join(lines)
