"""A memory plan as a chart: bytes over the steps, with the peak, the arena, and no reuse at all.

A plain function returns the plotly payload.
"""

from __future__ import annotations

from luminal_lab.display import Theme
from luminal_lab.errors import ArgumentError, DimError
from luminal_lab.kernels.memory.plan import BoundPlan, MemoryPlan
from luminal_lab.machines.rates import size_text
from luminal_lab.viz.figures import COLOURS, Payload, axis, layout, safe

MOST_TOLD = 6
"""The most values named under the pointer."""
UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))


def memory_chart(
    plan: MemoryPlan | BoundPlan,
    before: MemoryPlan | BoundPlan | None = None,
    *,
    theme: Theme = "auto",
) -> Payload:
    """Return the bytes that temporaries need at each step, beside those of another plan."""
    now, then = _bound(plan), None if before is None else _bound(before)
    steps = len(now.plan.program.steps)
    live, names = _live(now)
    grown = _unshared(now)
    top = max([now.arena_bytes, *live, *grown, *(_live(then)[0] if then else ())], default=0)
    scale, unit = next((u for u in UNITS if top >= u[0]), UNITS[-1])
    edges = [step - 0.5 for step in range(steps + 1)]
    data = [
        {
            **_line("if no bytes were used again", COLOURS[1], "dot", edges, grown, scale),
            "hoverinfo": "name+y",
        },
        {
            **_line("needed", COLOURS[0], "solid", edges, live, scale),
            "fill": "tozeroy",
            "fillcolor": "rgba(0,114,178,0.25)",
            "text": [_hover_text(step, live[step], names[step]) for step in range(steps)]
            + [""] * (steps > 0),
            "hoverinfo": "text",
        },
        {
            **_line("the arena", COLOURS[2], "dash", edges, [now.arena_bytes] * steps, scale),
            "hoverinfo": "name+y",
        },
    ]
    if then is not None:
        count = len(then.plan.program.steps)
        at = [step - 0.5 for step in range(count + 1)]
        data.append(_line("needed before", COLOURS[3], "dashdot", at, _live(then)[0], scale))
    peak = max(range(steps), key=lambda step: live[step], default=None)
    title = "Memory plan: bytes that temporaries need at each step"
    below = (
        f"arena {size_text(now.arena_bytes)}, {size_text(now.unshared_bytes)} if none were reused"
    )
    if then is not None:
        below += f"; before: arena {size_text(then.arena_bytes)}"
    around = layout(title, below=below, theme=theme)
    around["xaxis"] = axis("step", range=[-0.5, max(steps, 1) - 0.5])
    around["yaxis"] = axis(unit, rangemode="tozero")
    around["hovermode"] = "closest"
    if peak is not None and live[peak]:
        around["annotations"] = [
            {
                "x": peak,
                "y": live[peak] / scale,
                "text": f"peak: {size_text(live[peak])} at step {peak}",
                "showarrow": True,
                "arrowhead": 2,
                "ax": 0,
                "ay": -30,
                "font": {"size": 12, "color": around["hoverlabel"]["font"]["color"]},
                "bgcolor": around["hoverlabel"]["bgcolor"],
                "opacity": 0.9,
                "arrowcolor": COLOURS[0],
            }
        ]
    return {"data": data, "layout": around}


def _bound(plan: MemoryPlan | BoundPlan) -> BoundPlan:
    if isinstance(plan, BoundPlan):
        return plan
    if not isinstance(plan, MemoryPlan):
        raise ArgumentError(
            f"plot: {plan!r} is not a memory plan", hint="give that of another compile"
        )
    if plan.program.symbols:
        dims = ", ".join(f'"{name}": …' for name in plan.program.symbols)
        raise DimError(
            "plot: the sizes of this memory plan are not known",
            hint=f"give its dims sizes, as in plan.bind({{{dims}}}).plot()",
        )
    return plan.bind()


def _live(bound: BoundPlan) -> tuple[list[int], list[list[tuple[int, str]]]]:
    """Return the live bytes of the arena at each step, and the values they belong to."""
    steps = len(bound.plan.program.steps)
    sums = [0] * steps
    names: list[list[tuple[int, str]]] = [[] for _ in range(steps)]
    by_id = bound.plan.program.by_id
    for arena_place, span, size in zip(
        bound.plan.arena, bound.plan.spans, bound.sizes, strict=True
    ):
        label = " then ".join(str(by_id[id]) for id in arena_place.values[:3])
        for step in range(max(span.first, 0), min(span.last, steps - 1) + 1):
            sums[step] += size
            names[step].append((size, label))
    return sums, names


def _unshared(bound: BoundPlan) -> list[int]:
    """Return the bytes of all temporaries made by each step."""
    program = bound.plan.program
    born = [0] * len(program.steps)
    whole = bound.plan.alignment
    for id, step in program.born.items():
        if program.by_id[id].kind == "temporary":
            born[step] += -(-bound.bytes[id] // whole) * whole
    sums: list[int] = []
    for size in born:
        sums.append(size + (sums[-1] if sums else 0))
    return sums


def _line(
    name: str, colour: str, dash: str, edges: list[float], values: list[int], scale: int
) -> Payload:
    """Return a stepped line."""
    ys = [value / scale for value in values]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": edges,
        "y": [*ys, *ys[-1:]],
        "line": {"color": colour, "width": 2, "dash": dash, "shape": "hv"},
    }


def _hover_text(step: int, size: int, names: list[tuple[int, str]]) -> str:
    """Return the values needed at a step, the largest first."""
    largest = sorted(names, reverse=True)
    lines = [f"<b>step {step}</b>: {size_text(size)}"]
    lines += [f"{size_text(bytes_)}  {safe(name)}" for bytes_, name in largest[:MOST_TOLD]]
    more = len(largest) - MOST_TOLD
    return "<br>".join([*lines, *([f"and {more} more"] if more > 0 else [])])
