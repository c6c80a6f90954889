"""The layout of Graphviz's `dot`, run inside this process; it gets sizes but no texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from luminal_lab.viz.courses import Stroke
from luminal_lab.viz.payload import Payload
from luminal_lab.viz.sizes import TOP, VIEW_SIZE, label_width

INCH = 72.0
LEANING = {"input", "parameter", "source", "reduce"}
"""Kinds with slanted sides, whose edges end at the middle of a flat side."""


class DotLayout(NamedTuple):
    """Rectangles by id, courses by link, and the positions of the links' labels."""

    places: list[tuple[float, float, float, float]]
    courses: list[tuple[Stroke, ...]]
    labels: list[tuple[float, float] | None]


def by_dot(payload: Payload, sizes: Sequence[tuple[float, float]]) -> DotLayout:
    """Return dot's layout of a payload."""
    import pygraphviz

    graph: Any = pygraphviz.AGraph(string=_text(payload, sizes))
    result: Any = json.loads(graph.draw(format="json0", prog="dot"))
    places: list[tuple[float, float, float, float]] = [(0.0, 0.0, 0.0, 0.0)] * len(sizes)
    for thing in result.get("objects", ()):
        name = str(thing["name"])
        id = int(name.removeprefix("cluster_"))
        if "bb" in thing:
            left, low, right, high = map(float, thing["bb"].split(","))
            places[id] = left, -high, right - left, high - low
        else:
            x, y = map(float, thing["pos"].split(","))
            width, height = sizes[id]
            places[id] = x - width / 2, -y - height / 2, width, height
    courses: list[tuple[Stroke, ...]] = [()] * len(payload.links)
    labels: list[tuple[float, float] | None] = [None] * len(payload.links)
    for edge in result.get("edges", ()):
        at = int(edge["n"])
        courses[at] = _course(edge["pos"])
        if "lp" in edge:
            x, y = map(float, edge["lp"].split(","))
            room = label_width(payload.links[at])
            labels[at] = x - room / 2 + 2, -y + VIEW_SIZE / 3
    return DotLayout(places, courses, labels)


def _text(payload: Payload, sizes: Sequence[tuple[float, float]]) -> str:
    """Return the graph for dot: only numbers, no text of the user's."""
    inside: dict[int | None, list[str]] = {None: []}
    for box in payload.boxes:
        if box.is_open:
            inside[box.id] = []
    for thing in (*payload.items, *payload.boxes):
        if thing.id in inside:
            continue
        width, height = sizes[thing.id]
        inside[thing.box].append(
            f"{thing.id} [width={width / INCH:.4f} height={height / INCH:.4f}]"
        )
    for box in reversed(payload.boxes):  # inner boxes come after outer ones
        if box.is_open:
            body = ";".join(inside[box.id])
            title = _room(sizes[box.id][0], TOP - 12)
            inside[box.box].append(
                f"subgraph cluster_{box.id} {{labeljust=l;margin=14;label={title};{body}}}"
            )
    kinds = {item.id: item.kind for item in payload.items}
    edges: list[str] = []
    for at, link in enumerate(payload.links):
        more = ""
        if kinds.get(link.source) in LEANING:
            more += " tailport=s"
        if kinds.get(link.target) in LEANING:
            more += " headport=n"
        room = label_width(link)
        more += f" label={_room(room, 11)}" if room else ""
        edges.append(f"{link.source}->{link.target} [n={at}{more}]")
    return (
        'digraph {nodesep=0.28;ranksep=0.38;node [shape=box fixedsize=true label=""];'
        f"edge [arrowhead=none];{';'.join([*inside[None], *edges])}}}"
    )


def _room(width: float, height: float) -> str:
    """Return a label of a fixed size with nothing in it, so that no font is asked for."""
    size = f'WIDTH="{width:.0f}" HEIGHT="{height:.0f}"'
    return f'<<TABLE FIXEDSIZE="TRUE" BORDER="0" {size}><TR><TD></TD></TR></TABLE>>'


def _course(pos: str) -> tuple[Stroke, ...]:
    numbers = [tuple(map(float, point.split(","))) for point in pos.split() if point[0] not in "es"]
    points = [(x, -y) for x, y in numbers]
    steps: list[Stroke] = [points[0]]
    for at in range(1, len(points) - 2, 3):
        (a, b), (c, d), (e, f) = points[at : at + 3]
        steps.append((a, b, c, d, e, f))
    return tuple(steps)
