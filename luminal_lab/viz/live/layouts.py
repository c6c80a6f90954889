"""Layouts of frames, each once, and as the numbers that columns hold."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from luminal_lab.viz.layered import Placed, layered
from luminal_lab.viz.layers import Block, Wire

Contents: TypeAlias = tuple[tuple[Block, ...], tuple[Wire, ...]]
"""What a layout is made from: things and ports, and the wires between them."""
Hints: TypeAlias = tuple[float | None, ...]
"""How far to the right things and ports were before, if they were anywhere."""


class Flat(NamedTuple):
    """A layout as numbers: rectangles of things, places of ports, courses of wires."""

    size: tuple[float, float]
    things: list[float]
    ports: list[float]
    courses: list[float]
    lengths: list[int]
    """How many numbers the course of each wire takes."""


def flat(blocks: tuple[Block, ...], placed: Placed) -> Flat:
    """Return a layout as the columns hold it; a step of a course follows its length, 2 or 6."""
    things: list[float] = []
    ports: list[float] = []
    for block, (x, y) in zip(blocks, placed.places, strict=True):
        if block.side:
            ports.append(x)
        else:
            things += (x, y, block.width, block.height)
    courses: list[float] = []
    lengths: list[int] = []
    for course in placed.courses:
        begin = len(courses)
        for step in course:
            courses.append(len(step))
            courses += step
        lengths.append(len(courses) - begin)
    return Flat((placed.width, placed.height), things, ports, courses, lengths)


class Layouts:
    """All layouts of a run, each once."""

    def __init__(self) -> None:
        self.all: list[Placed] = []
        self.flat: list[Flat] = []
        self._known: dict[tuple[Contents, Hints], int] = {}

    def find(self, contents: Contents, hints: Hints) -> int:
        """Return the number of the layout of such contents, which is made when first asked for."""
        known = self._known.get((contents, hints))
        if known is None:
            known = self._known[contents, hints] = len(self.all)
            self.all.append(_placed(contents, hints))
            self.flat.append(flat(contents[0], self.all[known]))
        return known


def _placed(contents: Contents, hints: Hints) -> Placed:
    """Lay out a frame: of a box to another there is one course, whatever it carries."""
    blocks, wires = contents
    places: dict[Wire, int] = {}
    for wire in wires:
        places.setdefault(wire, len(places))
    placed = layered(blocks, tuple(places), hints)
    courses = tuple([placed.courses[places[wire]] for wire in wires])
    return Placed(placed.places, courses, placed.width, placed.height, placed.crossings)
