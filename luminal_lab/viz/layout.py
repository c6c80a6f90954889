"""Positions of everything in a picture: one function, two engines, one kind of result.

`layered` is our own, and the one that is used unless the other is asked for: it needs nothing, so
that a graph has the same picture on every machine. `dot` is Graphviz's, run inside this process
from pygraphviz's wheel.

In our own each open box is placed alone, and then stands among its neighbours as a block with ports
at its upper and lower border; boxes with equal contents share one layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Literal, TypeAlias

from luminal_lab.display import Engine
from luminal_lab.errors import ArgumentError, DeviceError
from luminal_lab.viz.borders import Borders, LinkPiece, Path, Port, Ref
from luminal_lab.viz.courses import Stroke, merged, shifted
from luminal_lab.viz.layered import PlacedBlocks, layered
from luminal_lab.viz.layers import PlacedBlock, Wire
from luminal_lab.viz.layout_dot import by_dot
from luminal_lab.viz.metrics import text_width
from luminal_lab.viz.payload import Payload
from luminal_lab.viz.sizes import (
    BOTTOM,
    SIDE,
    TITLE_SIZE,
    TOP,
    label_of,
    label_width,
    room_at,
    size_of_box,
    size_of_item,
    title_of,
    together,
    words_width,
)

Size: TypeAlias = tuple[float, float]
Rectangle: TypeAlias = tuple[float, float, float, float]
"""Left, top, width, height."""


@dataclass(frozen=True)
class PictureLayout:
    """The rectangle of each thing in a payload, by id, and the course of each link, by index."""

    engine: str
    width: float
    height: float
    places: tuple[Rectangle, ...]
    courses: tuple[tuple[Stroke, ...], ...]
    labels: tuple[tuple[float, float] | None, ...]
    """Where each link's label begins; None without one."""


Name: TypeAlias = tuple[str, int | str]
"""The identity of a thing across pictures: a node's key, a scope's path."""


def centres(payload: Payload, where: PictureLayout) -> dict[Name, float]:
    """Return the horizontal centre of everything, as hints for a similar layout."""
    centres_of: dict[Name, float] = {}
    for name, id in _names(payload):
        left, _, width, _ = where.places[id]
        centres_of[name] = round(left + width / 2, 1)
    return centres_of


def _names(payload: Payload) -> Iterator[tuple[Name, int]]:
    yield from ((("node", item.key), item.id) for item in payload.items)
    yield from ((("scope", box.path), box.id) for box in payload.boxes)


def layout(
    payload: Payload,
    engine: Engine = "layered",
    *,
    shapes: bool = True,
    hints: Mapping[Name, float] | None = None,
) -> PictureLayout:
    """Return the layout of a payload, as similar to the hinted one as possible."""
    if engine not in ("dot", "layered"):
        raise ArgumentError(f"display: the layout is {engine!r}", hint='give "layered" or "dot"')
    if engine == "dot" and not has_dot():
        raise DeviceError(
            "display: the layout is 'dot', and pygraphviz is not installed",
            hint='pip install pygraphviz, or layout="layered", which needs nothing',
        )
    sizes = sizes_of(payload, shapes)
    if engine == "dot":
        return _fitted("dot", *by_dot(payload, sizes))
    nested = Nested(payload, sizes, hints or {})
    places, courses = nested.placed()
    labels = [
        (round(course[-1][-2] + 5, 1), round(course[-1][-1] - 5, 1))
        if link.views and course
        else None
        for link, course in zip(payload.links, courses, strict=True)
    ]
    whole = nested.done[None]  # it begins at 0, 0
    rounded = [(round(x, 1), round(y, 1), w, h) for x, y, w, h in places]
    return PictureLayout(
        "layered", whole.width, whole.height, tuple(rounded), tuple(courses), tuple(labels)
    )


@cache
def has_dot() -> bool:
    """Return whether Graphviz is installed."""
    return find_spec("pygraphviz") is not None


def sizes_of(payload: Payload, shapes: bool) -> list[Size]:
    """Return the width and height of each thing; those of an open box are its minimum."""
    labels: dict[int, float] = {}
    for link in payload.links:
        labels[link.target] = labels.get(link.target, 0.0) + room_at(label_width(link))
    sizes = [size_of_item(item, shapes, labels.get(item.id, 0.0)) for item in payload.items]
    for box in payload.boxes:
        if box.is_open:
            sizes.append((round(text_width(title_of(box), TITLE_SIZE) + 30), TOP + BOTTOM))
        else:
            sizes.append(size_of_box(box))
    return sizes


def _fitted(
    engine: str,
    places: Sequence[Rectangle],
    courses: Sequence[tuple[Stroke, ...]],
    labels: Sequence[tuple[float, float] | None],
) -> PictureLayout:
    """Return a layout whose upper left corner is at 0, 0, in tenths of a pixel."""
    points = [point for course in courses for step in course for point in _points(step)]
    left = min([x for x, *_ in places] + [x for x, _ in points], default=0.0)
    top = min([y for _, y, *_ in places] + [y for _, y in points], default=0.0)
    right = max([x + w for x, _, w, _ in places] + [x for x, _ in points], default=0.0)
    bottom = max([y + h for _, y, _, h in places] + [y for _, y in points], default=0.0)

    def moved(step: Stroke) -> Stroke:
        return tuple(
            round(value - (top if at % 2 else left), 1) + 0.0 for at, value in enumerate(step)
        )

    return PictureLayout(
        engine,
        round(right - left, 1),
        round(bottom - top, 1),
        tuple((*moved((x, y)), w, h) for x, y, w, h in places),  # pyright: ignore[reportArgumentType]  # two and two are four
        tuple(tuple(map(moved, course)) for course in courses),
        tuple(None if label is None else moved(label) for label in labels),  # pyright: ignore[reportArgumentType]  # it keeps its length
    )


def _points(step: Stroke) -> Iterator[tuple[float, float]]:
    return zip(step[::2], step[1::2], strict=True)


_Contents: TypeAlias = tuple[tuple[PlacedBlock, ...], tuple[Wire, ...], tuple[float | None, ...]]


class Nested:
    """Nested boxes: outer ones fix where links cross borders, inner ones are placed first."""

    def __init__(self, payload: Payload, sizes: list[Size], hints: Mapping[Name, float]) -> None:
        self.hints = {id: hints[name] for name, id in _names(payload) if name in hints}
        self.labels = [label_of(link) for link in payload.links]
        self.sizes = sizes.copy()
        self.borders = Borders(
            [thing.box for thing in (*payload.items, *payload.boxes)],
            [box.id for box in payload.boxes if box.is_open],
            [Path(link.source, link.target, link.source, link.status) for link in payload.links],
        )
        self.inside = self.borders.inside
        self.done: dict[int | None, PlacedBlocks] = {}
        self.known: dict[_Contents, PlacedBlocks] = {}

    def _place(self, box: int | None) -> None:
        """Place the contents of a box, whose inner boxes are already placed."""
        contents = self.inside[box]
        blocks = tuple(
            PlacedBlock(0.0, 0.0, ref.side)
            if isinstance(ref, Port)
            else PlacedBlock(*self.sizes[ref])
            for ref in contents.refs
        )
        ways, wires = self.borders.ways, list[Wire]()
        for piece, links in contents.pieces.items():
            # A link's label stands in the box of its target.
            ends = [link for link in links if ways[link][-1] == (box, piece)]
            label = words_width(together(self.labels[link] for link in ends))
            is_up = piece in contents.upward
            leaves = self._port(piece, piece.source, "top" if is_up else "bottom")
            stops = self._port(piece, piece.target, "bottom" if is_up else "top")
            source, target = contents.refs[piece.source], contents.refs[piece.target]
            wires.append(Wire(source, target, leaves, stops, label, piece.status))
        hints = [None if isinstance(ref, Port) else self.hints.get(ref) for ref in contents.refs]
        contents = blocks, tuple(wires), tuple(hints) if self.hints else ()
        if contents not in self.known:
            self.known[contents] = layered(*contents)
        self.done[box] = placed = self.known[contents]
        if box is not None:
            width = max(placed.width + 2 * SIDE, self.sizes[box][0])
            self.sizes[box] = round(width, 1), round(placed.height + TOP + BOTTOM, 1)

    def _port(self, piece: LinkPiece, ref: Ref, side: Literal["top", "bottom"]) -> float | None:
        """Return where on an open box a piece begins or ends, or None if free."""
        if isinstance(ref, Port) or ref not in self.inside:
            return None
        at = self.inside[ref].refs[Port(side, piece.carried, piece.status)]
        return round(self.done[ref].places[at][0] + SIDE, 1)

    def placed(self) -> tuple[list[Rectangle], list[tuple[Stroke, ...]]]:
        """Return the rectangles of all things and the courses of all links."""
        homes, order = self.borders.homes, self.borders.order
        for box in reversed(order):
            self._place(box)
        corners: dict[int | None, tuple[float, float]] = {None: (0.0, 0.0)}
        places: list[Rectangle] = [(0.0, 0.0, 0.0, 0.0)] * len(homes)
        ways = self.borders.ways
        courses: list[tuple[Stroke, ...]] = [()] * len(ways)
        parts: dict[tuple[int | None, LinkPiece], tuple[Stroke, ...]] = {}
        for box in order:
            contents, placed = self.inside[box], self.done[box]
            x, y = corners[box]
            for id in contents.things:
                left, top = placed.places[contents.refs[id]]
                places[id] = (x + left, y + top, *self.sizes[id])
                if id in self.inside:
                    corners[id] = x + left + SIDE, y + top + TOP
            for (piece, links), course in zip(contents.pieces.items(), placed.courses, strict=True):
                part = course if box is None else shifted(course, x, y)
                for link in links:
                    if len(ways[link]) == 1:
                        courses[link] = part
                    else:
                        parts[box, piece] = part
        for link, way in enumerate(ways):
            if len(way) > 1:
                courses[link] = merged([step for piece in way for step in parts[piece]])
        return places, courses
