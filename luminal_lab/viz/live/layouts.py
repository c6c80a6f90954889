"""Layouts of frames, each once, and as the numbers that columns hold."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from luminal_lab.viz.layered import PlacedBlocks, layered
from luminal_lab.viz.layers import PlacedBlock, Wire

Contents: TypeAlias = tuple[tuple[PlacedBlock, ...], tuple[Wire, ...]]
"""What a layout is made from: things and ports, and the wires between them."""
Hints: TypeAlias = tuple[float | None, ...]
"""The previous horizontal centres of things and ports, if any."""


class Flat(NamedTuple):
    """A layout as numbers: rectangles of things, places of ports, courses of wires."""

    size: tuple[float, float]
    things: list[float]
    ports: list[float]
    courses: list[float]
    lengths: list[int]
    """The number of numbers in each wire's course."""


def flat(
    blocks: tuple[PlacedBlock, ...], placed: PlacedBlocks, there: Container[int] | None = None
) -> Flat:
    """Return a layout as the columns hold it; a step of a course follows its length, 2 or 6.

    Blocks that are not `there` have no size.
    """
    things: list[float] = []
    ports: list[float] = []
    for index, (block, (x, y)) in enumerate(zip(blocks, placed.places, strict=True)):
        if block.side:
            ports.append(x)
        elif there is None or index in there:
            things += (x, y, block.width, block.height)
        else:
            things += (0.0, 0.0, 0.0, 0.0)
    courses: list[float] = []
    lengths: list[int] = []
    for course in placed.courses:
        begin = len(courses)
        for step in course:
            courses.append(len(step))
            courses += step
        lengths.append(len(courses) - begin)
    return Flat((placed.width, placed.height), things, ports, courses, lengths)


class Part(NamedTuple):
    """What of some contents stands in a layout of its own, by their indices in rising order."""

    blocks: tuple[int, ...]
    wires: tuple[int, ...]


class Layouts:
    """All layouts of a run, each once."""

    def __init__(self) -> None:
        self.all: list[PlacedBlocks] = []
        self.flat: list[Flat] = []
        self._known: dict[tuple[Contents, Hints], int] = {}
        self._parts: dict[tuple[int, Part], int] = {}

    def find(self, contents: Contents, hints: Hints) -> int:
        """Return the number of the layout of such contents, made on first use."""
        known = self._known.get((contents, hints))
        if known is None:
            known = self._known[contents, hints] = len(self.all)
            self.all.append(_placed(contents, hints))
            self.flat.append(flat(contents[0], self.all[known]))
        return known

    def part(self, whole: int, contents: Contents, part: Part) -> int:
        """Return the number of the layout of a part of what another layout has.

        It has the same things, ports and wires; the others have no size and no course.
        """
        known = self._parts.get((whole, part))
        if known is None:
            blocks, wires = contents
            place = {index: at for at, index in enumerate(part.blocks)}
            own = (
                tuple([blocks[index] for index in part.blocks]),
                tuple(
                    [
                        wire._replace(source=place[wire.source], target=place[wire.target])
                        for wire in (wires[index] for index in part.wires)
                    ]
                ),
            )
            before = self.all[whole].places
            hints = tuple([round(before[i][0] + blocks[i].width / 2, 1) for i in part.blocks])
            placed = _placed(own, hints) if own[0] else NOTHING
            known = self._parts[whole, part] = len(self.all)
            self.all.append(placed)
            self.flat.append(flat(blocks, _spread(placed, contents, part), frozenset(place)))
        return known


NOTHING = PlacedBlocks((), (), 0.0, 0.0, 0)


def _spread(placed: PlacedBlocks, contents: Contents, part: Part) -> PlacedBlocks:
    """Return the layout of a part with a place for all that the whole has."""
    blocks, wires = contents
    places = dict(zip(part.blocks, placed.places, strict=True))
    courses = dict(zip(part.wires, placed.courses, strict=True))
    return replace(
        placed,
        places=tuple([places.get(index, (0.0, 0.0)) for index in range(len(blocks))]),
        courses=tuple([courses.get(index, ()) for index in range(len(wires))]),
    )


def _placed(contents: Contents, hints: Hints) -> PlacedBlocks:
    """Lay out a frame: one course between two boxes, whatever it carries."""
    blocks, wires = contents
    order: dict[Wire, int] = {}
    for wire in wires:
        order.setdefault(wire, len(order))
    placed = layered(blocks, tuple(order), hints)
    courses = tuple([placed.courses[order[wire]] for wire in wires])
    return PlacedBlocks(placed.places, courses, placed.width, placed.height, placed.crossings)
