"""Our own layout of a graph in layers, in time that grows little faster than the graph.

Where blocks stand in their layer is the mean of what pulls at them, as near as their order and
distances allow (pool adjacent violators): long edges pull most and come out straight, constants
hardly at all. Edges leave and end along the flat sides of blocks, where they need fewest bends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from luminal_lab.viz.courses import Step, merged, spread, turned
from luminal_lab.viz.layers import Block, Layers, Wire

GAP = 22.0
"""Between neighbours in a layer."""
LANE = 12.0
"""Between a long edge and what is beside it."""
RISE = 30.0
"""Between layers, at least."""
TALL = 13.0
"""What a layer rises more where the edges into it say something."""
LEAF = 0.05
"""How much pulls at a block that nothing but it reads, where all else pulls with 1."""
EDGE = 9.0
"""How near to its corner a node's edge may begin or end."""
Pull: TypeAlias = tuple[int, float, float]
"""Who pulls, how far from there the right place is, and how strongly."""


@dataclass(frozen=True)
class Placed:
    """Where everything is: the upper left corners of blocks, the course of each wire."""

    places: tuple[tuple[float, float], ...]
    courses: tuple[tuple[Step, ...], ...]
    width: float
    height: float
    crossings: int


def layered(
    blocks: Sequence[Block], wires: Sequence[Wire], hints: Sequence[float | None] = ()
) -> Placed:
    """Return a place for each block and a course for each wire.

    `hints` say where blocks were in a picture before; they stay in that order if nothing crosses.
    """
    layers = Layers(blocks, wires, hints)
    x = _across(layers)
    attached = _attached(layers, x)
    tops, bottoms = _down(layers, attached)
    places: list[tuple[float, float]] = []
    for one, block in enumerate(blocks):
        at = layers.layer[one]
        room = bottoms[at] - tops[at] - block.height
        # What nothing reads hangs from what it reads; what reads nothing stands on what reads it.
        share = 0.0 if not layers.down[one] else 1.0 if not layers.up[one] else 0.5
        places.append((x[one], round(tops[at] + room * share, 1)))
    rows = _Rows(layers, attached, places, tops, bottoms)
    found = [rows.course(path) for path in layers.paths]
    right = max([at + width for at, width in zip(x, layers.width, strict=True)], default=0.0)
    right = rows.beside(found, right)
    courses = tuple(
        turned(course) if is_up and course else course
        for course, is_up in zip(found, layers.is_up, strict=True)
    )
    height = bottoms[-1] if bottoms else 0.0
    return Placed(tuple(places), courses, round(right, 1), height, layers.crossings)


# -- across ----------------------------------------------------------------------------------------


def _across(layers: Layers) -> list[float]:
    """Return the left edges of all blocks and points."""
    count = len(layers.blocks)
    x = [0.0] * len(layers.layer)
    offsets: list[list[float]] = []
    for layer in layers.layers:
        at, offset = 0.0, list[float]()
        for place, one in enumerate(layer):
            if place:
                before = layer[place - 1]
                at += layers.width[before] + (GAP if before < count and one < count else LANE)
            offset.append(at)
        offsets.append(offset)
        shift = (at + layers.width[layer[-1]]) / 2 if layer else 0.0
        for one, start in zip(layer, offset, strict=True):
            x[one] = start - shift
    above, below = _pulls(layers)
    size = len(layers.layer)
    rounds = 8 if size <= 1500 else 4 if size <= 4000 else 3
    for turn in range(rounds):
        pulls = [above, below] if turn >= rounds - 2 else [below if turn % 2 else above]
        for at in range(len(offsets))[:: -1 if turn % 2 else 1]:
            _settle(layers.layers[at], offsets[at], x, pulls)
    _straighten(layers, x)
    least = min(x, default=0.0)
    return [round(one - least, 1) for one in x]


def _pulls(layers: Layers) -> tuple[list[list[Pull]], list[list[Pull]]]:
    """Return, for each block and point, what pulls at it from above, and from below."""
    size, count = len(layers.layer), len(layers.blocks)
    above: list[list[Pull]] = [[] for _ in range(size)]
    below: list[list[Pull]] = [[] for _ in range(size)]
    for upper, lower, leaves, ends, _ in layers.segments:
        start = layers.width[upper] / 2 if leaves is None else leaves
        end = layers.width[lower] / 2 if ends is None else ends
        weight = (1.0, 2.0, 8.0)[(upper >= count) + (lower >= count)]
        if not layers.up[upper] and len(layers.down[upper]) == 1:
            weight = LEAF  # a constant stands beside the chain that it goes into
        above[lower].append((upper, start - end, weight))
        below[upper].append((lower, end - start, weight))
    return above, below


def _settle(
    layer: list[int], offset: list[float], x: list[float], pulls: list[list[list[Pull]]]
) -> None:
    """Move a layer as near as its order and distances let it to where it is pulled.

    Without its offsets the layer is a rising sequence, and the nearest one to what is wanted is
    that of pooled neighbours.
    """
    means: list[float] = []
    weights: list[float] = []
    sizes: list[int] = []
    for one, start in zip(layer, offset, strict=True):
        total = weight = 0.0
        for pull in pulls:
            for other, distance, force in pull[one]:
                total += (x[other] + distance) * force
                weight += force
        if weight:
            mean = total / weight - start
        else:
            mean, weight = x[one] - start, 0.01
        size = 1
        while means and means[-1] > mean:
            before, much = means.pop(), weights.pop()
            mean = (mean * weight + before * much) / (weight + much)
            weight += much
            size += sizes.pop()
        means.append(mean)
        weights.append(weight)
        sizes.append(size)
    at = 0
    for mean, size in zip(means, sizes, strict=True):
        for place in range(at, at + size):
            x[layer[place]] = mean + offset[place]
        at += size


def _straighten(layers: Layers, x: list[float]) -> None:
    """Put the points of each long edge below each other, where there is room."""
    count = len(layers.blocks)
    place = {one: at for layer in layers.layers for at, one in enumerate(layer)}
    done: set[int] = set()
    for point in range(count, len(layers.layer)):
        if point in done:
            continue
        chain = [point]
        while True:
            below = [layers.segments[at].lower for at in layers.down[chain[-1]]]
            points = [one for one in below if one >= count]
            if len(points) != 1:
                break
            chain += points
        done.update(chain)
        low, high = float("-inf"), float("inf")
        for one in chain:
            layer, at = layers.layers[layers.layer[one]], place[one]
            if at:
                low = max(low, x[layer[at - 1]] + layers.width[layer[at - 1]] + LANE)
            if at + 1 < len(layer):
                high = min(high, x[layer[at + 1]] - LANE)
        if low <= high:
            middle = sorted([x[one] for one in chain])[len(chain) // 2]
            for one in chain:
                x[one] = min(max(middle, low), high)


# -- where edges touch -----------------------------------------------------------------------------


def _attached(layers: Layers, x: list[float]) -> list[tuple[float, float]]:
    """Return where each segment leaves the upper and meets the lower of its two ends."""
    width, segments = layers.width, layers.segments
    lows = [at + min(EDGE, wide / 2) for at, wide in zip(x, width, strict=True)]
    highs = [at + max(wide - EDGE, wide / 2) for at, wide in zip(x, width, strict=True)]
    wanted = _wanted(layers, x, lows, highs)
    starts, stops = wanted.copy(), wanted.copy()
    for one in range(len(layers.blocks)):
        for number in layers.down[one]:
            leaves = segments[number].leaves
            starts[number] = wanted[number] if leaves is None else round(x[one] + leaves, 1)
        for number in layers.up[one]:
            ends = segments[number].ends
            stops[number] = wanted[number] if ends is None else round(x[one] + ends, 1)
        loose = [at for at in layers.down[one] if segments[at].leaves is None]
        loose.sort(key=lambda at: (wanted[at], x[segments[at].lower]))
        spots = spread([wanted[at] for at in loose], [0.0] * len(loose), lows[one], highs[one])
        for number, spot in zip(loose, spots, strict=True):
            starts[number] = spot
        loose = [at for at in layers.up[one] if segments[at].ends is None]
        loose.sort(key=lambda at: (wanted[at], x[segments[at].upper]))
        rooms = [layers.labels[at] for at in loose]
        spots = spread([wanted[at] for at in loose], rooms, lows[one], highs[one])
        for number, spot in zip(loose, spots, strict=True):
            stops[number] = spot
    for point in range(len(layers.blocks), len(x)):
        for number in layers.down[point]:
            starts[number] = x[point]
        for number in layers.up[point]:
            stops[number] = x[point]
    return list(zip(starts, stops, strict=True))


def _wanted(
    layers: Layers, x: Sequence[float], lows: Sequence[float], highs: Sequence[float]
) -> list[float]:
    """Return where each segment would stand straight, or in the middle between its ends."""
    wanted: list[float] = []
    for upper, lower, leaves, ends, _ in layers.segments:
        a, b = lows[upper], highs[upper]
        if leaves is not None:
            a = b = x[upper] + leaves
        c, d = lows[lower], highs[lower]
        if ends is not None:
            c = d = x[lower] + ends
        low, high = max(a, c), min(b, d)
        middle = (a + b + c + d) / 4
        wanted.append(round(min(max(middle, low), high) if low <= high else middle, 1))
    return wanted


# -- down ------------------------------------------------------------------------------------------


def _down(
    layers: Layers, attached: Sequence[tuple[float, float]]
) -> tuple[list[float], list[float]]:
    """Return where each layer begins and ends; slanting edges get more room."""
    count = len(layers.blocks)
    tall = [0.0] * len(layers.layers)
    rise = [RISE] * len(layers.layers)
    for one, block in enumerate(layers.blocks):
        tall[layers.layer[one]] = max(tall[layers.layer[one]], block.height)
    for segment, label, (start, end) in zip(layers.segments, layers.labels, attached, strict=True):
        at = layers.layer[segment.lower]
        slant = min(abs(end - start) * 0.07, 44.0)
        more = TALL if label and segment.lower < count else 0.0
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


@dataclass(frozen=True)
class _Rows:
    """What courses are made from, once everything has its place."""

    layers: Layers
    attached: Sequence[tuple[float, float]]
    places: Sequence[tuple[float, float]]
    tops: Sequence[float]
    bottoms: Sequence[float]

    def course(self, path: Sequence[int]) -> tuple[Step, ...]:
        """Return the course through segments: down through layers, bent between them."""
        if not path:
            return ()
        layers, count = self.layers, len(self.layers.blocks)
        first, last = layers.segments[path[0]].upper, layers.segments[path[-1]].lower
        begin = round(self.places[first][1] + layers.blocks[first].height, 1)
        steps: list[Step] = [(self.attached[path[0]][0], begin)]
        for number in path:
            upper, lower, *_ = layers.segments[number]
            start, end = self.attached[number]
            y, top = self.bottoms[layers.layer[upper]], self.tops[layers.layer[lower]]
            if steps[-1][-1] != y:
                steps.append((start, y))
            label = layers.labels[number] if lower < count else 0.0
            aim = round(top - 3 - (TALL if label else 0.0), 1) if lower < count else top
            if start != end:
                middle = round((y + aim) / 2, 1)
                steps.append((start, middle, end, middle, end, aim))
            if aim != top or start == end:
                steps.append((end, top))
        stop = self.places[last][1]
        if steps[-1][-1] != stop:
            steps.append((steps[-1][-2], stop))
        return merged(steps)

    def beside(self, courses: list[tuple[Step, ...]], right: float) -> float:
        """Lay the longest wires in lanes right of everything, and return where the last lane is."""
        layers = self.layers
        free: list[int] = []  # the layer in which each lane ends
        order = sorted(layers.detours.items(), key=lambda one: layers.layer[one[0][0]])
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
        """Return where a wire that goes beside leaves or meets a block: near its right corner."""
        width = self.layers.blocks[block].width
        loose = max(width - EDGE, width / 2)
        return self.places[block][0] + (loose if fixed is None else fixed)
