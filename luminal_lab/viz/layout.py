"""Where everything in a picture is: one function, two engines, one kind of result.

`layered` is our own, and the one that is used unless the other is asked for: it needs nothing, so
that a graph has the same picture on every machine. `dot` is Graphviz's, run inside this process
from pygraphviz's wheel.

In our own each open box is placed alone, and then stands among its neighbours as a block with ports
at its upper and lower border; boxes with equal contents share one layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import Literal, NamedTuple, TypeAlias

from luminal_lab.display import Engine
from luminal_lab.errors import ArgumentError, DeviceError
from luminal_lab.viz.courses import Step, merged
from luminal_lab.viz.layered import Placed, layered
from luminal_lab.viz.layers import Block, Side, Wire, downward
from luminal_lab.viz.layout_dot import by_dot
from luminal_lab.viz.metrics import text_width
from luminal_lab.viz.payload import Link, Payload
from luminal_lab.viz.sizes import (
    BOTTOM,
    SIDE,
    TITLE_SIZE,
    TOP,
    label_width,
    size_of_box,
    size_of_item,
    title_of,
)

Size: TypeAlias = tuple[float, float]
Rectangle: TypeAlias = tuple[float, float, float, float]
"""Left, top, width, height."""


@dataclass(frozen=True)
class Layout:
    """Where each thing of a payload is, by its id, and the course of each link, by its place."""

    engine: str
    width: float
    height: float
    places: tuple[Rectangle, ...]
    courses: tuple[tuple[Step, ...], ...]
    labels: tuple[tuple[float, float] | None, ...]
    """Where the words of each link begin; None where it has none."""


Name: TypeAlias = tuple[str, int | str]
"""What knows a thing from one picture to the next: a node's key, a scope's path."""


def centres(payload: Payload, where: Layout) -> dict[Name, float]:
    """Return how far to the right everything is, for a layout that is to look like this one."""
    found: dict[Name, float] = {}
    for name, id in _names(payload):
        left, _, width, _ = where.places[id]
        found[name] = round(left + width / 2, 1)
    return found


def _names(payload: Payload) -> Iterator[tuple[Name, int]]:
    yield from ((("node", item.key), item.id) for item in payload.items)
    yield from ((("scope", box.path), box.id) for box in payload.boxes)


def layout(
    payload: Payload,
    engine: Engine = "layered",
    *,
    shapes: bool = True,
    hints: Mapping[Name, float] | None = None,
) -> Layout:
    """Return where everything of a payload is, as like to where it was before as may be."""
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
    places, courses = Nested(payload, sizes, hints or {}).placed()
    labels = [
        (course[-1][-2] + 5, course[-1][-1] - 5) if link.views and course else None
        for link, course in zip(payload.links, courses, strict=True)
    ]
    return _fitted("layered", places, courses, labels)


@cache
def has_dot() -> bool:
    """Return whether Graphviz is there."""
    return find_spec("pygraphviz") is not None


def sizes_of(payload: Payload, shapes: bool) -> list[Size]:
    """Return the width and height of each thing; those of an open box are the least it needs."""
    labels: dict[int, float] = {}
    for link in payload.links:
        width = label_width(link)
        if width:
            labels[link.target] = labels.get(link.target, 0.0) + width + 10
        else:
            labels[link.target] = labels.get(link.target, 0.0) + 8
    found = [size_of_item(item, shapes, labels.get(item.id, 0.0)) for item in payload.items]
    for box in payload.boxes:
        if box.is_open:
            found.append((round(text_width(title_of(box), TITLE_SIZE) + 30), TOP + BOTTOM))
        else:
            found.append(size_of_box(box))
    return found


def _fitted(
    engine: str,
    places: Sequence[Rectangle],
    courses: Sequence[tuple[Step, ...]],
    labels: Sequence[tuple[float, float] | None],
) -> Layout:
    """Return a layout whose upper left corner is at 0, 0, in tenths of a pixel."""
    points = [point for course in courses for step in course for point in _points(step)]
    left = min([x for x, *_ in places] + [x for x, _ in points], default=0.0)
    top = min([y for _, y, *_ in places] + [y for _, y in points], default=0.0)
    right = max([x + w for x, _, w, _ in places] + [x for x, _ in points], default=0.0)
    bottom = max([y + h for _, y, _, h in places] + [y for _, y in points], default=0.0)

    def moved(step: Step) -> Step:
        return tuple(
            round(value - (top if at % 2 else left), 1) + 0.0 for at, value in enumerate(step)
        )

    return Layout(
        engine,
        round(right - left, 1),
        round(bottom - top, 1),
        tuple((*moved((x, y)), w, h) for x, y, w, h in places),  # pyright: ignore[reportArgumentType]  # two and two are four
        tuple(tuple(map(moved, course)) for course in courses),
        tuple(None if label is None else moved(label) for label in labels),  # pyright: ignore[reportArgumentType]  # it keeps its length
    )


def _points(step: Step) -> Iterator[tuple[float, float]]:
    return zip(step[::2], step[1::2], strict=True)


Ref: TypeAlias = tuple[Literal["thing", "top", "bottom"], int, str]
"""A thing by its id; or a port at a border, by whose value it carries and what became of it."""


class Piece(NamedTuple):
    """A link within one box: from where to where, whose value it carries, what became of it."""

    source: Ref
    target: Ref
    carried: int
    status: str


_Contents: TypeAlias = tuple[tuple[Block, ...], tuple[Wire, ...], tuple[float | None, ...]]


@dataclass
class _Inside:
    """A box, or all: what is in it, and what that becomes."""

    things: list[int]
    pieces: dict[Piece, float]
    """With the room of what they say."""
    refs: dict[Ref, int]
    """The place of each thing and port among what is placed."""
    upward: set[Piece] = field(default_factory=set[Piece])
    """The pieces that go up."""
    placed: Placed | None = None


class Nested:
    """Boxes within boxes: outer ones say where links go in and out, inner ones are placed first."""

    def __init__(self, payload: Payload, sizes: list[Size], hints: Mapping[Name, float]) -> None:
        self.hints = {id: hints[name] for name, id in _names(payload) if name in hints}
        self.links = payload.links
        self.sizes = sizes.copy()
        self.homes = [thing.box for thing in (*payload.items, *payload.boxes)]
        self.inside: dict[int | None, _Inside] = {None: _Inside([], {}, {})}
        self.inside |= {box.id: _Inside([], {}, {}) for box in payload.boxes if box.is_open}
        for id, home in enumerate(self.homes):
            self.inside[home].things.append(id)
        self.above: dict[int | None, tuple[int, ...]] = {None: ()}
        self.order = sorted(self.inside, key=lambda box: len(self._path(box)))
        self.ways = [self._way(link) for link in payload.links]
        self._cut()
        self.known: dict[_Contents, Placed] = {}

    def _path(self, box: int | None) -> tuple[int, ...]:
        """Return the boxes that a place is in, outer ones first."""
        if box is not None and box not in self.above:
            self.above[box] = (*self._path(self.homes[box]), box)
        return self.above[box]

    def _way(self, link: Link) -> list[tuple[int | None, Piece]]:
        """Cut a link where it goes out of a box, by its lower border, or in, by its upper one."""
        start, end = self._path(self.homes[link.source]), self._path(self.homes[link.target])
        same = 0
        while same < min(len(start), len(end)) and start[same] == end[same]:
            same += 1
        carried = link.source, link.status
        found: list[tuple[int | None, Piece]] = []
        at: Ref = ("thing", link.source, "")
        for box in reversed(start[same:]):
            found.append((box, Piece(at, ("bottom", *carried), *carried)))
            at = ("thing", box, "")
        for depth in range(same, len(end) + 1):
            to: Ref = ("thing", end[depth] if depth < len(end) else link.target, "")
            found.append((end[depth - 1] if depth else None, Piece(at, to, *carried)))
            at = ("top", *carried)
        return found

    def _cut(self) -> None:
        """Give each box its pieces, outer boxes first.

        What has to go up in a box leaves the boxes in it above, and comes in from below.
        """
        at_box: dict[int | None, list[tuple[int, int]]] = {box: [] for box in self.order}
        for link, way in enumerate(self.ways):
            for place, (box, _) in enumerate(way):
                at_box[box].append((link, place))
        for box in self.order:
            one = self.inside[box]
            for link, place in at_box[box]:
                piece = self.ways[link][place][1]
                is_last = place + 1 == len(self.ways[link])
                label = label_width(self.links[link]) if is_last else 0.0
                one.pieces[piece] = max(one.pieces.get(piece, 0.0), label)
            refs: list[Ref] = [("thing", id, "") for id in one.things]
            refs += [ref for piece in one.pieces for ref in piece[:2] if ref[0] != "thing"]
            one.refs = {ref: at for at, ref in enumerate(dict.fromkeys(refs))}
            sides: list[Side] = ["" if ref[0] == "thing" else ref[0] for ref in one.refs]
            ends = [(one.refs[piece.source], one.refs[piece.target]) for piece in one.pieces]
            _, is_up = downward(sides, ends)
            one.upward = {piece for piece, up in zip(one.pieces, is_up, strict=True) if up}
            for link, place in at_box[box]:
                way = self.ways[link]
                if way[place][1] not in one.upward:
                    continue
                carried = way[place][1][2:]
                if place and way[place][1].source[0] == "thing":
                    inner, piece = way[place - 1]
                    way[place - 1] = inner, piece._replace(target=("top", *carried))
                if place + 1 < len(way) and way[place][1].target[0] == "thing":
                    inner, piece = way[place + 1]
                    way[place + 1] = inner, piece._replace(source=("bottom", *carried))

    def _place(self, box: int | None) -> None:
        """Place what is in a box, whose own boxes are placed."""
        one = self.inside[box]
        blocks = tuple(
            Block(*self.sizes[ref[1]]) if ref[0] == "thing" else Block(0.0, 0.0, ref[0])
            for ref in one.refs
        )
        wires: list[Wire] = []
        for piece, label in one.pieces.items():
            ends = one.refs[piece.source], one.refs[piece.target]
            is_up = piece in one.upward
            leaves = self._port(piece, piece.source, "top" if is_up else "bottom")
            stops = self._port(piece, piece.target, "bottom" if is_up else "top")
            wires.append(Wire(*ends, leaves, stops, label, piece.status))
        hints = [self.hints.get(ref[1]) if ref[0] == "thing" else None for ref in one.refs]
        contents = blocks, tuple(wires), tuple(hints) if self.hints else ()
        if contents not in self.known:
            self.known[contents] = layered(*contents)
        one.placed = placed = self.known[contents]
        if box is not None:
            width = max(placed.width + 2 * SIDE, self.sizes[box][0])
            self.sizes[box] = round(width, 1), round(placed.height + TOP + BOTTOM, 1)

    def _port(self, piece: Piece, ref: Ref, side: Literal["top", "bottom"]) -> float | None:
        """Return where on an open box a piece begins or ends, or None if that is free."""
        box = self.inside.get(ref[1]) if ref[0] == "thing" else None
        if box is None or box.placed is None:
            return None
        at = box.refs[side, piece.carried, piece.status]
        return round(box.placed.places[at][0] + SIDE, 1)

    def placed(self) -> tuple[list[Rectangle], list[tuple[Step, ...]]]:
        """Return the places of all things and the courses of all links."""
        for box in reversed(self.order):
            self._place(box)
        corners: dict[int | None, tuple[float, float]] = {None: (0.0, 0.0)}
        places: list[Rectangle] = [(0.0, 0.0, 0.0, 0.0)] * len(self.homes)
        courses: dict[tuple[int | None, Piece], tuple[Step, ...]] = {}
        for box in self.order:
            one = self.inside[box]
            assert one.placed is not None
            x, y = corners[box]
            for id in one.things:
                left, top = one.placed.places[one.refs["thing", id, ""]]
                places[id] = (x + left, y + top, *self.sizes[id])
                if id in self.inside:
                    corners[id] = x + left + SIDE, y + top + TOP
            for piece, course in zip(one.pieces, one.placed.courses, strict=True):
                courses[box, piece] = tuple(
                    tuple(round(v + (y if k % 2 else x), 1) for k, v in enumerate(step))
                    for step in course
                )
        return places, [
            merged([step for piece in way for step in courses[piece]]) for way in self.ways
        ]
