"""A compile as a chart: how often each rule fired in each pass, and how long each pass took.

A plain function returns the plotly payload.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from luminal_lab.display import Theme
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.viz.figures import COLOURS, PATTERNS, Payload, axis, bar, layout, safe

MOST_RULES = 11
"""The most rules with a colour and a pattern of their own; the others share one bar."""
OTHERS = "#9a9a9a"


def pass_chart(compilation: Compilation, theme: Theme = "auto") -> Payload:
    """Return two stacked charts for each pass: firings by rule, and milliseconds."""
    shown, idle = _shown(compilation.snapshots[1:])
    names = [_name(shot) for shot in shown] + ([f"{len(idle):,} without a change"] if idle else [])
    total = Counter[str]()
    for shot in shown:
        total.update(shot.counts)
    rules = [rule for rule, _ in total.most_common(MOST_RULES)]
    data: list[Payload] = []
    for index, rule in enumerate(rules):
        counts = [shot.counts.get(rule, 0) for shot in shown]
        colour = COLOURS[index % (len(COLOURS) - 1)]
        pattern = PATTERNS[index // (len(COLOURS) - 1) % len(PATTERNS)]
        data.append(_firings(rule, names, counts, bar("measured", colour, pattern)))
    left = len(total) - len(rules)
    if left:
        own = set(rules)
        counts = [
            sum(count for rule, count in shot.counts.items() if rule not in own) for shot in shown
        ]
        data.append(_firings(f"{left} other rules", names, counts, bar("measured", OTHERS)))
    seconds = [shot.seconds for shot in shown]
    hover_texts = [_hover_text(shot) for shot in shown]
    if idle:
        seconds.append(sum(idle_shot.seconds for idle_shot in idle))
        hover_texts.append("<br>".join(dict.fromkeys(safe(idle_shot.title) for idle_shot in idle)))
    data.append(
        {
            "type": "bar",
            "name": "time",
            "x": names,
            "y": [1e3 * second for second in seconds],
            "xaxis": "x",
            "yaxis": "y2",
            "marker": bar("measured", COLOURS[0]),
            "hovertext": hover_texts,
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
        [shot for shot in snapshots if shot.firings],
        [shot for shot in snapshots if not shot.firings],
    )


def _name(shot: Snapshot) -> str:
    return f"{shot.index} {safe(shot.name)}"


def _firings(rule: str, names: list[str], counts: list[int], marker: Payload) -> Payload:
    return {
        "type": "bar",
        "name": safe(rule),
        "x": names[: len(counts)],
        "y": counts,
        "marker": marker,
        "hovertemplate": f"{safe(rule)} ×%{{y}}<extra></extra>",
    }


def _hover_text(shot: Snapshot) -> str:
    """Return a pass's text under the pointer."""
    turn = f", round {shot.round}" if shot.round > 1 else ""
    return (
        f"<b>{safe(shot.title)}</b>{turn}<br>{1e3 * shot.seconds:.2f} ms<br>"
        f"{len(shot.before):,} → {len(shot.ir):,} nodes, {len(shot.firings):,} firings"
    )
