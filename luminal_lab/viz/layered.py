"""Our own layout of a graph in layers, in time that grows little faster than the graph.

Edges leave and end along the flat sides of blocks, where they need fewest bends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from luminal_lab.viz.across import LANE, across
from luminal_lab.viz.courses import Stroke, spread, turned
from luminal_lab.viz.layers import Layers, PlacedBlock, Wire

RISE = 30.0
"""The least distance between layers."""
TALL = 13.0
"""The extra distance above a layer whose incoming edges have labels."""
EDGE = 9.0
"""The least distance of an edge's end from a node's corner."""


@dataclass(frozen=True)
class PlacedBlocks:
    """A finished layout: the upper left corners of blocks, the course of each wire."""

    places: tuple[tuple[float, float], ...]
    courses: tuple[tuple[Stroke, ...], ...]
    width: float
    height: float
    crossings: int


def layered(
    blocks: Sequence[PlacedBlock], wires: Sequence[Wire], hints: Sequence[float | None] = ()
) -> PlacedBlocks:
    """Return a position for each block and a course for each wire.

    `hints` are positions in an earlier picture; blocks keep that order if nothing crosses.
    """
    layers = Layers(blocks, wires, hints)
    x = across(layers)
    attached = _attached(layers, x)
    tops, bottoms = _down(layers, attached)
    places: list[tuple[float, float]] = []
    for id_, block in enumerate(blocks):
        at = layers.layer[id_]
        room = bottoms[at] - tops[at] - block.height
        # Results hang from their sources; constants and inputs stand on their readers.
        share = 0.0 if not layers.down[id_] else 1.0 if not layers.up[id_] else 0.5
        places.append((x[id_], round(tops[at] + room * share, 1)))
    rows = _CourseRows(layers, attached, places, tops, bottoms)
    courses = rows.courses()
    right = max([at + width for at, width in zip(x, layers.width, strict=True)], default=0.0)
    right = rows.beside(courses, right)
    courses = tuple(
        turned(course) if is_up and course else course
        for course, is_up in zip(courses, layers.is_up, strict=True)
    )
    height = bottoms[-1] if bottoms else 0.0
    return PlacedBlocks(tuple(places), courses, round(right, 1), height, layers.crossings)


# -- where edges touch -----------------------------------------------------------------------------


def _attached(layers: Layers, x: list[float]) -> list[tuple[float, float]]:
    """Return where each segment leaves its upper end and meets its lower one."""
    nearest = [min(EDGE, wide / 2) for wide in layers.width]
    lows = [at + edge for at, edge in zip(x, nearest, strict=True)]
    highs = [at + (wide - edge) for at, wide, edge in zip(x, layers.width, nearest, strict=True)]
    wanted = _wanted(layers, x, lows, highs)
    flat = _Flat(x, lows, highs, wanted)
    starts = flat.spots(
        layers.down, layers.leaves, layers.lowers, [0.0] * len(wanted), len(layers.blocks)
    )
    stops = flat.spots(layers.up, layers.stops, layers.uppers, layers.labels, len(layers.blocks))
    return list(zip(starts, stops, strict=True))


@dataclass(frozen=True)
class _Flat:
    """The flat sides of blocks, and where single segments would touch them."""

    x: Sequence[float]
    lows: Sequence[float]
    highs: Sequence[float]
    wanted: Sequence[float]

    def spots(
        self,
        touching: Sequence[Sequence[int]],
        fixed: Sequence[float | None],
        others: Sequence[int],
        rooms: Sequence[float],
        count: int,
    ) -> list[float]:
        """Return where each segment touches its block, side by side if there are several.

        Ids from `count` on are points.
        """
        x, wanted = self.x, self.wanted
        courses = list(wanted)
        for id_ in range(count, len(touching)):
            for number in touching[id_]:
                courses[number] = x[id_]
        for id_, numbers in enumerate(touching[:count]):
            low, high = self.lows[id_], self.highs[id_]
            loose: list[int] = []
            for number in numbers:
                position = fixed[number]
                if position is None:
                    loose.append(number)
                else:
                    courses[number] = round(x[id_] + position, 1)
            if len(loose) == 1:
                number = loose[0]
                if not low <= wanted[number] <= high - rooms[number]:
                    (courses[number],) = spread([wanted[number]], [rooms[number]], low, high)
            elif loose:
                loose.sort(key=lambda at: (wanted[at], x[others[at]]))
                given = [wanted[at] for at in loose], [rooms[at] for at in loose]
                for number, spot in zip(loose, spread(*given, low, high), strict=True):
                    courses[number] = spot
        return courses


def _wanted(
    layers: Layers, x: Sequence[float], lows: Sequence[float], highs: Sequence[float]
) -> list[float]:
    """Return the position of each segment that makes it straight, or the middle of its ends."""
    wanted: list[float] = []
    segments = zip(layers.uppers, layers.lowers, layers.leaves, layers.stops, strict=True)
    for upper, lower, leaves, ends in segments:
        a, b = lows[upper], highs[upper]
        if leaves is not None:
            a = b = x[upper] + leaves
        c, d = lows[lower], highs[lower]
        if ends is not None:
            c = d = x[lower] + ends
        low, high = max(a, c), min(b, d)
        middle = (a + b + c + d) / 4
        if low <= high and not low <= middle <= high:
            middle = low if middle < low else high
        wanted.append(round(middle, 1))
    return wanted


# -- down ------------------------------------------------------------------------------------------


def _down(
    layers: Layers, attached: Sequence[tuple[float, float]]
) -> tuple[list[float], list[float]]:
    """Return where each layer begins and ends; slanting edges get more room."""
    count = len(layers.blocks)
    tall = [0.0] * len(layers.layers)
    rise = [RISE] * len(layers.layers)
    for id_, block in enumerate(layers.blocks):
        tall[layers.layer[id_]] = max(tall[layers.layer[id_]], block.height)
    for lower, label, (start, end) in zip(layers.lowers, layers.labels, attached, strict=True):
        at = layers.layer[lower]
        slant = min(abs(end - start) * 0.07, 44.0)
        more = TALL if label and lower < count else 0.0
        rise[at] = max(rise[at], RISE + slant + more)
    tops: list[float] = []
    bottoms: list[float] = []
    y = 0.0
    for at, height in enumerate(tall):
        y += rise[at] if at else 0.0
        tops.append(round(y, 1))
        y += height
        bottoms.append(round(y, 1))
    return tops, bottoms


def _go_down(steps: list[Stroke], x: float, y: float) -> None:
    """Extend a course straight down, merging with a last step that already goes down."""
    if len(steps) > 1 and len(steps[-1]) == 2:
        steps[-1] = x, y
    elif steps[-1][-1] != y:
        steps.append((x, y))


@dataclass(frozen=True)
class _CourseRows:
    """The makings of courses, once everything has its place."""

    layers: Layers
    attached: Sequence[tuple[float, float]]
    places: Sequence[tuple[float, float]]
    tops: Sequence[float]
    bottoms: Sequence[float]

    def courses(self) -> list[tuple[Stroke, ...]]:
        """Return the course of each wire: straight down through layers, bent between them."""
        layers, attached, count = self.layers, self.attached, len(self.layers.blocks)
        blocks = zip(self.places, layers.blocks, strict=True)
        begins = [round(top + block.height, 1) for (_, top), block in blocks]
        below = [self.bottoms[layer] for layer in layers.layer]
        above = [self.tops[layer] for layer in layers.layer]
        uppers, lowers = layers.uppers, layers.lowers
        courses: list[tuple[Stroke, ...]] = []
        for path in layers.paths:
            if not path:
                courses.append(())
                continue
            steps: list[Stroke] = [(attached[path[0]][0], begins[uppers[path[0]]])]
            for number in path:
                start, end = attached[number]
                if start == end:
                    continue
                top, lower = below[uppers[number]], lowers[number]
                _go_down(steps, start, top)
                y = above[lower]
                if lower < count:
                    y = round(y - 3 - (TALL if layers.labels[number] else 0.0), 1)
                middle = round((top + y) / 2, 1)
                steps.append((start, middle, end, middle, end, y))
            last = lowers[path[-1]]
            _go_down(steps, steps[-1][-2], self.places[last][1])
            courses.append(tuple(steps))
        return courses

    def beside(self, courses: list[tuple[Stroke, ...]], right: float) -> float:
        """Lay the longest wires in lanes right of everything, and return the new right edge."""
        layers = self.layers
        free: list[int] = []  # the layer in which each lane ends
        order = sorted(layers.detours.items(), key=lambda detour: layers.layer[detour[0][0]])
        for (upper, leaves, _), wires in order:
            first = layers.layer[upper]
            last = max(layers.layer[layers.ends[at][1]] for at in wires)
            lane = next((k for k, end in enumerate(free) if end < first), len(free))
            free[lane : lane + 1] = [last]
            x, shift = right + LANE + lane * 6.0, lane % 4 * 2
            start = self._end(upper, leaves)
            bottom = self.places[upper][1] + layers.blocks[upper].height
            for at in wires:
                wire, lower = layers.wires[at], layers.ends[at][1]
                end = self._end(lower, wire.leaves if layers.is_up[at] else wire.ends)
                out = self.bottoms[first] + 4 + shift
                back = self.tops[layers.layer[lower]] - TALL - 3 - shift
                top = self.places[lower][1]
                steps = (start, bottom), (start, out), (x, out), (x, back), (end, back), (end, top)
                courses[at] = tuple((round(a, 1), round(b, 1)) for a, b in steps)
        return right + (LANE + len(free) * 6.0 if free else 0.0)

    def _end(self, block: int, fixed: float | None) -> float:
        """Return where a detour leaves or meets a block: near its right corner."""
        width = self.layers.blocks[block].width
        loose = max(width - EDGE, width / 2)
        return self.places[block][0] + (loose if fixed is None else fixed)
