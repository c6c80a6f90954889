"""A compile as a chart: how often each rule fired in each pass, and how long each pass took.

A plain function that makes plotly's payload.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from luminal_lab.display import Theme
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.viz.figures import COLOURS, PATTERNS, Payload, axis, bar, layout, safe

MOST_RULES = 11
"""Rules that have a colour and a pattern of their own; the others are one bar together."""
OTHERS = "#9a9a9a"


def pass_chart(compilation: Compilation, theme: Theme = "auto") -> Payload:
    """Return two charts above each other: firings by rule, and milliseconds, for each pass."""
    shown, idle = _shown(compilation.snapshots[1:])
    names = [_name(one) for one in shown] + ([f"{len(idle):,} without a change"] if idle else [])
    total = Counter[str]()
    for one in shown:
        total.update(one.counts)
    rules = [rule for rule, _ in total.most_common(MOST_RULES)]
    data: list[Payload] = []
    for place, rule in enumerate(rules):
        counts = [one.counts.get(rule, 0) for one in shown]
        colour = COLOURS[place % (len(COLOURS) - 1)]
        pattern = PATTERNS[place // (len(COLOURS) - 1) % len(PATTERNS)]
        data.append(_firings(rule, names, counts, bar("measured", colour, pattern)))
    left = len(total) - len(rules)
    if left:
        own = set(rules)
        counts = [
            sum(count for rule, count in one.counts.items() if rule not in own) for one in shown
        ]
        data.append(_firings(f"{left} other rules", names, counts, bar("measured", OTHERS)))
    seconds = [one.seconds for one in shown]
    told = [_told(one) for one in shown]
    if idle:
        seconds.append(sum(one.seconds for one in idle))
        told.append("<br>".join(dict.fromkeys(safe(one.title) for one in idle)))
    data.append(
        {
            "type": "bar",
            "name": "time",
            "x": names,
            "y": [1e3 * one for one in seconds],
            "xaxis": "x",
            "yaxis": "y2",
            "marker": bar("measured", COLOURS[0]),
            "hovertext": told,
            "hoverinfo": "text",
            "showlegend": False,
        }
    )
    graph = compilation.written
    below = (
        f"{len(graph):,} → {len(compilation.ir):,} nodes, {sum(total.values()):,} firings, "
        f"{1e3 * compilation.seconds:.1f} ms in {len(compilation.snapshots) - 1} passes"
    )
    rows = -(-len(data) // 4)
    height = 480 + 20 * rows
    around = layout(f"{graph.name}: what each pass did", below=below, height=height, theme=theme)
    around["xaxis"] = axis(type="category", anchor="y2", showgrid=False, tickangle=-40)
    around["yaxis"] = axis("firings", domain=[0.42, 1.0], rangemode="tozero")
    around["yaxis2"] = axis("ms", domain=[0.0, 0.32], rangemode="tozero")
    around |= {"barmode": "stack", "bargap": 0.25}
    around["legend"] |= {"y": -0.34, "font": {"size": 11}}
    around["margin"] |= {"b": 110 + 20 * rows}
    around["height"] += 90
    return {"data": data, "layout": around}


def _shown(snapshots: Sequence[Snapshot]) -> tuple[list[Snapshot], list[Snapshot]]:
    """Return the passes that changed something, and those that did not."""
    return (
        [one for one in snapshots if one.firings],
        [one for one in snapshots if not one.firings],
    )


def _name(one: Snapshot) -> str:
    return f"{one.index} {safe(one.name)}"


def _firings(rule: str, names: list[str], counts: list[int], marker: Payload) -> Payload:
    return {
        "type": "bar",
        "name": safe(rule),
        "x": names[: len(counts)],
        "y": counts,
        "marker": marker,
        "hovertemplate": f"{safe(rule)} ×%{{y}}<extra></extra>",
    }


def _told(one: Snapshot) -> str:
    """Return what is shown of a pass under the pointer."""
    turn = f", round {one.round}" if one.round > 1 else ""
    return (
        f"<b>{safe(one.title)}</b>{turn}<br>{1e3 * one.seconds:.2f} ms<br>"
        f"{len(one.before):,} → {len(one.ir):,} nodes, {len(one.firings):,} firings"
    )
