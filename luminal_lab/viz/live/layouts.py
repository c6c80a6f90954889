"""Layouts of frames, each once, and as the numbers that columns hold."""

from __future__ import annotations

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


def flat(blocks: tuple[PlacedBlock, ...], placed: PlacedBlocks) -> Flat:
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
        self.all: list[PlacedBlocks] = []
        self.flat: list[Flat] = []
        self._known: dict[tuple[Contents, Hints], int] = {}

    def find(self, contents: Contents, hints: Hints) -> int:
        """Return the number of the layout of such contents, made on first use."""
        known = self._known.get((contents, hints))
        if known is None:
            known = self._known[contents, hints] = len(self.all)
            self.all.append(_placed(contents, hints))
            self.flat.append(flat(contents[0], self.all[known]))
        return known


def _placed(contents: Contents, hints: Hints) -> PlacedBlocks:
    """Lay out a frame: one course between two boxes, whatever it carries."""
    blocks, wires = contents
    order: dict[Wire, int] = {}
    for wire in wires:
        order.setdefault(wire, len(order))
    placed = layered(blocks, tuple(order), hints)
    courses = tuple([placed.courses[order[wire]] for wire in wires])
    return PlacedBlocks(placed.places, courses, placed.width, placed.height, placed.crossings)
