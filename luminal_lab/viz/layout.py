"""Where everything in a picture is: one function, two engines, one kind of result.

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
from typing import Literal, NamedTuple, TypeAlias

from luminal_lab.core.display import Engine
from luminal_lab.errors import ArgumentError, DeviceError
from luminal_lab.viz.courses import Step, merged
from luminal_lab.viz.layered import Block, Placed, Wire, layered
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


def layout(payload: Payload, engine: Engine = "layered", *, shapes: bool = True) -> Layout:
    """Return where everything of a payload is."""
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
    places, courses = Nested(payload, sizes).placed()
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


Ref: TypeAlias = tuple[Literal["thing", "in", "out"], int, str]
"""A thing by its id, or a port by whose value it carries and what became of it."""


class Piece(NamedTuple):
    """A link within one box: from where to where, whose value it carries, what became of it."""

    source: Ref
    target: Ref
    carried: int
    status: str


class Nested:
    """Boxes within boxes, the inner ones placed first."""

    def __init__(self, payload: Payload, sizes: list[Size]) -> None:
        self.sizes = sizes.copy()
        self.homes = [thing.box for thing in (*payload.items, *payload.boxes)]
        self.inside: dict[int | None, list[int]] = {None: []}
        self.inside |= {box.id: [] for box in payload.boxes if box.is_open}
        for id, home in enumerate(self.homes):
            self.inside[home].append(id)
        self.above: dict[int | None, tuple[int, ...]] = {None: ()}
        self.wires: dict[int | None, dict[Piece, float]] = {box: {} for box in self.inside}
        self.pieces = [list(self._cut(link)) for link in payload.links]
        self.numbers = {
            box: {piece: at for at, piece in enumerate(wires)} for box, wires in self.wires.items()
        }
        self.ports: dict[int, dict[Ref, float]] = {}
        self.known: dict[tuple[tuple[Block, ...], tuple[Wire, ...]], Placed] = {}
        self.blocks: dict[int | None, dict[Ref, int]] = {}
        self.made: dict[int | None, Placed] = {}

    def _path(self, box: int | None) -> tuple[int, ...]:
        """Return the boxes that a place is in, outer ones first."""
        if box is not None and box not in self.above:
            self.above[box] = (*self._path(self.homes[box]), box)
        return self.above[box]

    def _cut(self, link: Link) -> Iterator[tuple[int | None, Piece]]:
        """Cut a link where it goes into a box or out of one."""
        start, end = self._path(self.homes[link.source]), self._path(self.homes[link.target])
        same = 0
        while same < min(len(start), len(end)) and start[same] == end[same]:
            same += 1
        carried = link.source, link.status
        at: Ref = ("thing", link.source, "")
        for box in reversed(start[same:]):
            yield self._wired(box, Piece(at, ("out", *carried), *carried), 0.0)
            at = ("thing", box, "")
        for depth in range(same, len(end) + 1):
            is_last = depth == len(end)
            to: Ref = ("thing", link.target if is_last else end[depth], "")
            label = label_width(link) if is_last else 0.0
            yield self._wired(end[depth - 1] if depth else None, Piece(at, to, *carried), label)
            at = ("in", *carried)

    def _wired(self, box: int | None, piece: Piece, label: float) -> tuple[int | None, Piece]:
        known = self.wires[box]
        known[piece] = max(known.get(piece, 0.0), label)
        return box, piece

    def _place(self, box: int | None) -> None:
        """Place what is in a box, whose own boxes are placed."""
        refs: dict[Ref, int] = {}
        blocks: list[Block] = []
        for id in self.inside[box]:
            refs["thing", id, ""] = len(blocks)
            blocks.append(Block(*self.sizes[id]))
        wires: list[Wire] = []
        for piece, label in self.wires[box].items():
            for ref, side in ((piece.source, "top"), (piece.target, "bottom")):
                if ref not in refs:
                    refs[ref] = len(blocks)
                    blocks.append(Block(0.0, 0.0, "top" if side == "top" else "bottom"))
            carried = piece.carried, piece.status
            leaves = self.ports.get(piece.source[1], {}).get(("out", *carried))
            ends = self.ports.get(piece.target[1], {}).get(("in", *carried))
            leaves = leaves if piece.source[0] == "thing" else None
            ends = ends if piece.target[0] == "thing" else None
            source, target = refs[piece.source], refs[piece.target]
            wires.append(Wire(source, target, leaves, ends, label, piece.status))
        contents = tuple(blocks), tuple(wires)
        placed = self.known.get(contents) or layered(blocks, wires)
        self.known[contents] = self.made[box] = placed
        self.blocks[box] = refs
        if box is not None:
            self.ports[box] = {
                ref: placed.places[at][0] + SIDE for ref, at in refs.items() if ref[0] != "thing"
            }
            width = max(placed.width + 2 * SIDE, self.sizes[box][0])
            self.sizes[box] = round(width, 1), round(placed.height + TOP + BOTTOM, 1)

    def placed(self) -> tuple[list[Rectangle], list[tuple[Step, ...]]]:
        """Return the places of all things and the courses of all links."""
        order = sorted(self.inside, key=lambda box: len(self._path(box)), reverse=True)
        for box in order:
            self._place(box)
        corners: dict[int | None, tuple[float, float]] = {None: (0.0, 0.0)}
        places: list[Rectangle] = [(0.0, 0.0, 0.0, 0.0)] * len(self.homes)
        for box in reversed(order):
            x, y = corners[box]
            made, refs = self.made[box], self.blocks[box]
            for id in self.inside[box]:
                left, top = made.places[refs["thing", id, ""]]
                places[id] = (x + left, y + top, *self.sizes[id])
                if id in self.inside:
                    corners[id] = x + left + SIDE, y + top + TOP
        return places, [self._course(pieces, corners) for pieces in self.pieces]

    def _course(
        self,
        pieces: list[tuple[int | None, Piece]],
        corners: Mapping[int | None, tuple[float, float]],
    ) -> tuple[Step, ...]:
        """Return the whole course of a link, which begins or ends at a port in each box."""
        steps: list[Step] = []
        for box, piece in pieces:
            x, y = corners[box]
            course = self.made[box].courses[self.numbers[box][piece]]
            steps += [
                tuple(round(v + (y if k % 2 else x), 1) for k, v in enumerate(step))
                for step in course
            ]
        return merged(steps)
