"""Charts of timings: a bar for each launch, and the machine's roofline.

Plain functions return plotly payloads.
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
from luminal_lab.timing.compare import count_text
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
    with_doubts,
)
from luminal_lab.viz.rooflines import name_points

MOST = 40
"""The most launches with a bar each; faster ones share a bar."""
POINTS = 40
"""The number of points in a drawn roof."""
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


class MachineRoof(NamedTuple):
    """A machine's limits."""

    name: str
    flops: float
    """Operations per second."""
    bytes: float
    """Bytes per second."""
    is_main: bool = True
    """Whether it is memory's, not a cache's."""


def bars(several: Sequence[Timings], theme: Theme = "auto") -> Payload:
    """Return a chart with a bar for each launch; several timings stand side by side."""
    for timings in several:
        if not isinstance(timings, Timings):
            raise ArgumentError(
                f"plot: {timings!r} has no times",
                hint="give other timings, as in before.plot(cx.time())",
            )
    keyed = _keyed(several)
    labels, rest = _labels(several, keyed)
    longest = max((row.seconds for timings in several for row in timings), default=0.0)
    scale, unit = next((u for u in UNITS if longest >= u[0]), UNITS[-1])
    names = [safe(name) for _, name in labels] + ([f"{rest:,} faster ones"] if rest else [])
    data: list[Payload] = []
    for index, timings in enumerate(several):
        colour = COLOURS[index % len(COLOURS)]
        rows = dict(keyed[index])
        shown = [rows.pop(key, None) for key, _ in labels]
        values = [None if row is None else rounded(row.seconds / scale) for row in shown]
        hover_texts = ["" if row is None else _hover_text(row, timings) for row in shown]
        low, high = zip(*(_quartiles(row, scale) for row in shown), strict=True) or ((), ())
        if rest:
            values.append(rounded(sum(row.seconds for row in rows.values()) / scale))
            hover_texts.append(f"{len(rows):,} launches together")
            low, high = (*low, 0.0), (*high, 0.0)
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": _name(timings),
                "y": names,
                "x": values,
                "marker": bar(timings.how, colour),
                "hovertext": hover_texts,
                "hoverinfo": "text",
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "array": list(high),
                    "arrayminus": list(low),
                    "visible": timings.how != "modelled",
                    "thickness": 1,
                    "width": 3,
                },
            }
        )
        limits = [_limit(row, scale) for row in shown] + ([None] if rest else [])
        if (
            len(several) == 1
            and timings.how != "modelled"
            and any(limit is not None for limit in limits)
        ):
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
    below = with_doubts(below, [doubt for timings in several for doubt in timings.doubts])
    height = 130 + max(len(names), 3) * (14 + 12 * len(several))
    around = layout(f"{first.graph}: time of each launch", below=below, height=height, theme=theme)
    around["xaxis"] = axis(unit, rangemode="tozero")
    around["yaxis"] = axis(type="category", autorange="reversed", showgrid=False)
    around |= {"barmode": "group", "bargap": 0.3}
    around["legend"] |= {"y": -50 / height}
    around["showlegend"] = True
    return {"data": data, "layout": around}


def roofs(timings: Timings, theme: Theme = "auto") -> Payload:
    """Return a roofline plot: the machine's limits and each launch's rate."""
    rows = [row for row in timings if row.flops and row.bytes and row.seconds]
    spots = [(row, row.flops / row.bytes) for row in rows if row.flops and row.bytes]
    low = min((x for _, x in spots), default=0.1) / 4
    high = max((x for _, x in spots), default=100.0) * 4
    machine_roofs = list(_roofs(timings))
    main = next((roof for roof in machine_roofs if roof.is_main), None)
    if main is not None:
        low, high = min(low, main.flops / main.bytes / 4), max(high, main.flops / main.bytes * 4)
    data: list[Payload] = []
    for roof in machine_roofs:
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
            "name": _name(timings),
            "x": [x for _, x in spots],
            "y": [row.gflops for row, _ in spots],
            "text": [safe(row.name) for row, _ in spots],
            "marker": point(timings.how, COLOURS[1]),
            "hovertext": [_hover_text(row, timings) for row, _ in spots],
            "hoverinfo": "text",
        }
    )
    left_out = len(timings) - len(spots)
    below = (
        "roofs are of float32"
        if machine_roofs
        else "the rates of this device are not known: no roof"
    )
    if left_out:
        many = "1 launch" if left_out == 1 else f"{left_out:,} launches"
        below += f"; {many} without operations or bytes not shown"
    below = with_doubts(below, timings.doubts)
    title = f"{timings.graph}: what is reached, and the roof"
    around = layout(title, below=below, height=440 + 14 * len(machine_roofs), theme=theme)
    around["xaxis"] = logarithmic("operations for each byte")
    around["yaxis"] = logarithmic("GFLOP/s")
    return name_points({"data": data, "layout": around})


def _roofs(timings: Timings) -> Iterator[MachineRoof]:
    """Yield the roofs of the machine that was timed: for memory, and for caches if measured."""
    if isinstance(timings.rates, PeakRates):
        rates, threads = timings.rates, timings.threads
        flops = 1e9 * rates.gflops(threads=threads)
        yield MachineRoof(
            f"{safe(timings.device)}: from memory", flops, 1e9 * rates.gbytes(threads=threads)
        )
        sizes = sorted({rate.size for rate in rates.rates if rate.what == "read" and rate.size})
        if len(sizes) > 1:  # the last of them is memory's
            cached = 1e9 * rates.gbytes("read", sizes[0], threads)
            yield MachineRoof(f"from a cache, within {size_text(sizes[0])}", flops, cached, False)
        return
    limits = _specified(timings.device)
    peak = None if limits is None else limits.peak("float32")
    if limits is not None and peak is not None:
        yield MachineRoof(f"{limits.name}: the roof", peak.flops.value, limits.bandwidth.value)


def _specified(device: str) -> Specification | None:
    try:
        return specification(device)
    except UnknownNameError:
        return None


def _keyed(several: Sequence[Timings]) -> list[dict[str, Timing]]:
    """Return the rows of each timings by a common key: the node, or across graphs the label.

    Two compiles of a graph may name the same kernel differently.
    """
    is_one_graph = len({timings.graph for timings in several}) == 1
    keyed: list[dict[str, Timing]] = []
    for timings in several:
        rows: dict[str, Timing] = {}
        for row in timings:
            key = name = row.node if is_one_graph and row.node else row.label
            number = 2
            while key in rows:
                key, number = f"{name} #{number}", number + 1
            rows[key] = row
        keyed.append(rows)
    return keyed


def _labels(
    several: Sequence[Timings], keyed: Sequence[dict[str, Timing]]
) -> tuple[list[tuple[str, str]], int]:
    """Return keys and names of the launches that have a bar, and the number that share one."""
    longest: dict[str, float] = {}
    names: dict[str, str] = {}
    for timings, rows in zip(several, keyed, strict=True):
        for (key, row), label in zip(rows.items(), timings.labels, strict=True):
            longest[key] = max(longest.get(key, 0.0), row.seconds)
            taken = label in names.values() and key not in names
            names.setdefault(key, f"{label} {key}" if taken else label)
    keys = list(longest)
    if len(keys) > MOST:
        least = sorted(longest.values(), reverse=True)[MOST - 1]
        keys = [key for key in keys if longest[key] >= least][:MOST]
    return [(key, names[key]) for key in keys], len(longest) - len(keys)


def _quartiles(row: Timing | None, scale: float) -> tuple[float, float]:
    """Return the distances of a row's quartiles from its median."""
    if row is None or len(row.samples) < 2:
        return 0.0, 0.0
    low, _, high = quantiles(row.samples, n=4, method="inclusive")
    middle = median(row.samples)
    return rounded((middle - low) / scale), rounded((high - middle) / scale)


def _limit(row: Timing | None, scale: float) -> float | None:
    return (
        None if row is None or row.limit is None or not row.seconds else row.limit.seconds / scale
    )


def _name(timings: Timings) -> str:
    many = f", {timings.threads} threads" if timings.threads > 1 else ""
    return f"{safe(timings.device) or 'unknown'}{many} ({MARK[timings.how]}{timings.how})"


def _below(timings: Timings) -> str:
    if timings.how == "modelled":
        return "modelled: the least time that the rates allow; nothing was run"
    return f"medians of {timings.rounds} samples, {timings.how}; whiskers end at the quartiles"


def _hover_text(row: Timing, timings: Timings) -> str:
    """Return a launch's text under the pointer."""
    lines = [f"<b>{safe(row.label)}</b>", *map(safe, row.origins[:2]), _name(timings)]
    spread = "" if timings.how == "modelled" else f" ± {timings.shown(row.spread)}"
    lines.append(f"{timings.shown(row.seconds)}{spread} {timings.unit}")
    if row.bytes is not None:
        lines.append(size_text(row.bytes) + (f", {row.gbytes:.1f} GB/s" if row.gbytes else ""))
    if row.flops:
        rate = f", {row.gflops:.1f} GFLOP/s" if row.gflops else ""
        lines.append(f"{count_text(row.flops)} operations{rate}")
    if row.share is not None and row.limit is not None and timings.how != "modelled":
        lines.append(f"{row.share:.0%} of the limit ({row.limit.bound})")
    return "<br>".join(lines)
