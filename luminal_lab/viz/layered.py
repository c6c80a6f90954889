"""Our own layout of a graph in layers, in time that grows little faster than the graph.

Ranks come from the sinks, so that what is given stands where it is used; long edges run through
points of their own in every layer between, which all edges of one source share; the order in a
layer follows the medians of its neighbours; places are means of neighbours that keep order and
distance (pool adjacent violators). Equal graphs get equal places: nothing is drawn by chance.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from luminal_lab.viz.courses import Step, merged, spread, turned

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
Side: TypeAlias = Literal["", "top", "bottom"]


class Block(NamedTuple):
    """What is placed: its size, and whether it is a port of the border."""

    width: float
    height: float
    side: Side = ""


class Wire(NamedTuple):
    """An edge between two blocks; where it leaves and ends, if that is fixed; its words' width."""

    source: int
    target: int
    leaves: float | None = None
    ends: float | None = None
    label: float = 0.0
    kind: str = ""
    """Wires of one source run together if they are of one kind."""


@dataclass(frozen=True)
class Placed:
    """Where everything is: the upper left corners of blocks, the course of each wire."""

    places: tuple[tuple[float, float], ...]
    courses: tuple[tuple[Step, ...], ...]
    width: float
    height: float
    crossings: int


def layered(blocks: Sequence[Block], wires: Sequence[Wire]) -> Placed:
    """Return a place for each block and a course for each wire."""
    return _Layers(blocks, wires).placed()


class _Layers:
    def __init__(self, blocks: Sequence[Block], wires: Sequence[Wire]) -> None:
        self.blocks, self.wires = blocks, wires
        self.ends = self._acyclic()
        self.rank = self._ranks()
        # Points of long edges are numbered after the blocks.
        self.width = [block.width for block in blocks]
        self.layer = list(self.rank)
        self.up: list[list[int]] = [[] for _ in blocks]
        self.down: list[list[int]] = [[] for _ in blocks]
        self.port: dict[tuple[int, int], tuple[float | None, float | None, float]] = {}
        self.paths = self._long_edges()
        self.layers = self._first_order()
        self.crossings = self._uncross()
        self.x = self._across()
        self.attached = self._attach()

    # -- ranks -------------------------------------------------------------------------------------

    def _acyclic(self) -> list[tuple[int, int]]:
        """Return the ends of all wires, those turned round that would close a cycle."""
        ends = [(wire.source, wire.target) for wire in self.wires]
        count = len(self.blocks)
        users: list[list[int]] = [[] for _ in range(count)]
        missing = [0] * count
        for source, target in ends:
            users[source].append(target)
            missing[target] += 1
        self.order = [block for block in range(count) if not missing[block]]
        for block in self.order:
            for user in users[block]:
                missing[user] -= 1
                if not missing[user]:
                    self.order.append(user)
        if len(self.order) == count:
            return ends
        # Depth first, in the order given: a wire to what is still open goes back.
        state = [0] * count
        left: list[int] = []
        for first in range(count):
            stack = [(first, 0)] if not state[first] else []
            while stack:
                block, at = stack.pop()
                state[block] = 1
                if at < len(users[block]):
                    stack.append((block, at + 1))
                    if not state[users[block][at]]:
                        stack.append((users[block][at], 0))
                else:
                    state[block] = 2
                    left.append(block)
        self.order = left[::-1]
        number = {block: at for at, block in enumerate(self.order)}
        return [(s, t) if number[s] <= number[t] else (t, s) for s, t in ends]

    def _ranks(self) -> list[int]:
        blocks = self.blocks
        count = len(blocks)
        users: list[list[int]] = [[] for _ in range(count)]
        sources: list[list[int]] = [[] for _ in range(count)]
        for source, target in self.ends:
            if source != target:
                users[source].append(target)
                sources[target].append(source)
        height = [0] * count
        for block in reversed(self.order):
            if users[block]:
                height[block] = 1 + max([height[user] for user in users[block]])
        top = max(height, default=0)
        rank = [top - one for one in height]
        # What has more above it than below it goes up to it.
        for block in self.order:
            above = sources[block]
            if above and len(above) > len(users[block]):
                rank[block] = 1 + max([rank[source] for source in above])
        return self._with_ports(rank) if any(block.side for block in blocks) else rank

    def _with_ports(self, rank: list[int]) -> list[int]:
        """Return the ranks with the ports of the upper border first and those of the lower last."""
        sides = [block.side for block in self.blocks]
        inner = [one for one, side in zip(rank, sides, strict=True) if not side]
        low, high = min(inner, default=0), max(inner, default=0)
        first = int("top" in sides)
        last = {"top": 0, "bottom": high - low + first + 1}
        return [last.get(side, one + first - low) for one, side in zip(rank, sides, strict=True)]

    # -- long edges --------------------------------------------------------------------------------

    def _long_edges(self) -> list[list[int]]:
        """Put points into the layers that wires cross; return what each wire goes through."""
        trunks: dict[tuple[int, float | None, str], list[int]] = {}
        found: list[list[int]] = []
        for (source, target), wire in zip(self.ends, self.wires, strict=True):
            is_turned = source != wire.source
            leaves, ends = (wire.ends, wire.leaves) if is_turned else (wire.leaves, wire.ends)
            path = [source]
            span = self.rank[target] - self.rank[source]
            if source == target or span < 1:
                found.append([source, target])
                continue
            trunk = trunks.setdefault((source, leaves, wire.kind), [source])
            while len(trunk) < span:
                self._point(trunk, leaves)
            path = [*trunk[:span], target]
            leaves = leaves if span == 1 else None
            self._segment(path[-2], target, leaves, ends, wire.label)
            found.append(path)
        return found

    def _point(self, trunk: list[int], leaves: float | None) -> None:
        point, before = len(self.layer), trunk[-1]
        self.layer.append(self.layer[before] + 1)
        self.width.append(0.0)
        self.up.append([])
        self.down.append([])
        self._segment(before, point, leaves if len(trunk) == 1 else None, None, 0.0)
        trunk.append(point)

    def _segment(
        self, upper: int, lower: int, leaves: float | None, ends: float | None, label: float
    ) -> None:
        known = self.port.get((upper, lower))
        if known is None:
            self.down[upper].append(lower)
            self.up[lower].append(upper)
            self.port[upper, lower] = leaves, ends, label
        elif label > known[2]:
            self.port[upper, lower] = known[0], known[1], label

    # -- order -------------------------------------------------------------------------------------

    def _first_order(self) -> list[list[int]]:
        """Return the layers as a walk up from the sinks meets them."""
        layers: list[list[int]] = [[] for _ in range(max(self.layer, default=-1) + 1)]
        seen = [False] * len(self.layer)
        sinks = [one for one in range(len(self.layer)) if not self.down[one]]
        for first in sinks:
            stack = [first]
            while stack:
                one = stack.pop()
                if not seen[one]:
                    seen[one] = True
                    layers[self.layer[one]].append(one)
                    stack += reversed(self.up[one])
        return layers

    def _uncross(self) -> int:
        size = len(self.layer)
        sweeps = 12 if size <= 400 else 6 if size <= 1500 else 3
        position = [0] * size
        for layer in self.layers:
            for at, one in enumerate(layer):
                position[one] = at
        best, least = [layer.copy() for layer in self.layers], self._count(position)
        for sweep in range(sweeps):
            if not least:
                break
            down = sweep % 2 == 0
            near = self.up if down else self.down
            for layer in self.layers[1:] if down else self.layers[-2::-1]:
                keys: dict[int, float] = {}
                for at, one in enumerate(layer):
                    places = [position[other] for other in near[one]]
                    keys[one] = _median(places) if places else at
                layer.sort(key=keys.__getitem__)
                for at, one in enumerate(layer):
                    position[one] = at
            crossings = self._count(position)
            if crossings < least:
                best, least = [layer.copy() for layer in self.layers], crossings
        self.layers = best
        if least > 0 and size <= 600:
            least = self._swap(least)
        return least

    def _count(self, position: Sequence[int]) -> int:
        """Return how many pairs of segments cross."""
        total = 0
        for layer in self.layers[1:]:
            ends: list[tuple[int, int]] = []
            for one in layer:
                at = position[one]
                ends += [(position[other], at) for other in self.up[one]]
            ends.sort()
            seen: list[int] = []
            for _, at in ends:
                total += len(seen) - _behind(seen, at)
                insort(seen, at)
        return total

    def _swap(self, least: int) -> int:
        """Exchange neighbours where that takes crossings away."""
        position = [0] * len(self.layer)
        for layer in self.layers:
            for at, one in enumerate(layer):
                position[one] = at
        for _ in range(4):
            better = False
            for layer in self.layers:
                for at in range(len(layer) - 1):
                    one, other = layer[at], layer[at + 1]
                    gain = sum(
                        _pairs(near[one], near[other], position) for near in (self.up, self.down)
                    )
                    if gain > 0:
                        layer[at], layer[at + 1] = other, one
                        position[one], position[other] = at + 1, at
                        least -= gain
                        better = True
            if not better:
                break
        return least

    # -- across ------------------------------------------------------------------------------------

    def _across(self) -> list[float]:
        """Return the left edges of all, in the order of the layers."""
        x = [0.0] * len(self.layer)
        count = len(self.blocks)
        offsets: list[list[float]] = []
        for layer in self.layers:
            at, offset = 0.0, list[float]()
            for place, one in enumerate(layer):
                if place:
                    before = layer[place - 1]
                    gap = GAP if before < count and one < count else LANE
                    at += self.width[before] + gap
                offset.append(at)
            offsets.append(offset)
            shift = (at + self.width[layer[-1]]) / 2 if layer else 0.0
            for one, start in zip(layer, offset, strict=True):
                x[one] = start - shift
        pulls_up, pulls_down = self._pulls()
        size = len(self.layer)
        rounds = 8 if size <= 1500 else 4 if size <= 4000 else 3
        levels = range(len(self.layers))
        for turn in range(rounds):
            last = turn >= rounds - 2
            for at in levels if turn % 2 == 0 else reversed(levels):
                pulls = [pulls_up] if turn % 2 == 0 else [pulls_down]
                if last:
                    pulls = [pulls_up, pulls_down]
                _settle(self.layers[at], offsets[at], x, pulls)
        self._straighten(x)
        least = min([x[one] for one in range(size)], default=0.0)
        return [round(one - least, 1) for one in x]

    def _pulls(self) -> tuple[list[list[tuple[int, float, float]]], ...]:
        """Return, for each, what pulls at it from above and from below: who, how far, how much."""
        size, count = len(self.layer), len(self.blocks)
        above: list[list[tuple[int, float, float]]] = [[] for _ in range(size)]
        below: list[list[tuple[int, float, float]]] = [[] for _ in range(size)]
        for (upper, lower), (leaves, ends, _) in self.port.items():
            start = self.width[upper] / 2 if leaves is None else leaves
            end = self.width[lower] / 2 if ends is None else ends
            points = (upper >= count) + (lower >= count)
            weight = (1.0, 2.0, 8.0)[points]
            if not self.up[upper] and len(self.down[upper]) == 1:
                weight = LEAF  # a constant stands beside the chain that it goes into
            above[lower].append((upper, start - end, weight))
            below[upper].append((lower, end - start, weight))
        return above, below

    def _straighten(self, x: list[float]) -> None:
        """Put the points of each long edge below each other, where there is room."""
        count = len(self.blocks)
        place = {one: at for layer in self.layers for at, one in enumerate(layer)}
        done: set[int] = set()
        for point in range(count, len(self.layer)):
            if point in done:
                continue
            chain = [point]
            while True:
                below = [one for one in self.down[chain[-1]] if one >= count]
                if len(below) != 1:
                    break
                chain.append(below[0])
            done.update(chain)
            low, high = float("-inf"), float("inf")
            for one in chain:
                layer, at = self.layers[self.layer[one]], place[one]
                if at:
                    low = max(low, x[layer[at - 1]] + self.width[layer[at - 1]] + LANE)
                if at + 1 < len(layer):
                    high = min(high, x[layer[at + 1]] - LANE)
            if low <= high:
                middle = sorted(x[one] for one in chain)[len(chain) // 2]
                for one in chain:
                    x[one] = min(max(middle, low), high)

    # -- where edges touch -------------------------------------------------------------------------

    def _attach(self) -> dict[tuple[int, int], tuple[float, float]]:
        """Return where each segment leaves the upper and meets the lower of its two ends."""
        x, width, count = self.x, self.width, len(self.blocks)
        starts: dict[tuple[int, int], float] = {}
        ends: dict[tuple[int, int], float] = {}

        def reach(one: int) -> tuple[float, float]:
            if width[one] <= 2 * EDGE:
                return x[one] + width[one] / 2, x[one] + width[one] / 2
            return x[one] + EDGE, x[one] + width[one] - EDGE

        wanted: dict[tuple[int, int], float] = {}
        for (upper, lower), (leaves, arrives, _) in self.port.items():
            (a, b), (c, d) = reach(upper), reach(lower)
            if leaves is not None:
                a = b = x[upper] + leaves
            if arrives is not None:
                c = d = x[lower] + arrives
            low, high = max(a, c), min(b, d)
            middle = (a + b + c + d) / 4
            wanted[upper, lower] = min(max(middle, low), high) if low <= high else middle
        for one in range(len(self.layer)):
            for is_down, near in ((True, self.down[one]), (False, self.up[one])):
                pairs = [(one, other) if is_down else (other, one) for other in near]
                into = starts if is_down else ends
                fixed = [self.port[pair][not is_down] for pair in pairs]
                if one >= count:
                    into.update(dict.fromkeys(pairs, x[one]))
                    continue
                loose = [pair for pair, at in zip(pairs, fixed, strict=True) if at is None]
                into.update(
                    (p, x[one] + at) for p, at in zip(pairs, fixed, strict=True) if at is not None
                )
                loose.sort(key=lambda pair: (wanted[pair], x[pair[is_down]]))
                rooms = [0.0 if is_down else self.port[pair][2] for pair in loose]
                low, high = reach(one)
                spots = spread([wanted[pair] for pair in loose], rooms, low, high)
                into.update(zip(loose, spots, strict=True))
        return {pair: (starts[pair], ends[pair]) for pair in self.port}

    # -- the result --------------------------------------------------------------------------------

    def placed(self) -> Placed:
        """Return the places and courses."""
        tops, bottoms = self._down()
        heights = [block.height for block in self.blocks]
        places: list[tuple[float, float]] = []
        for one, block in enumerate(self.blocks):
            layer = self.layer[one]
            room = bottoms[layer] - tops[layer] - block.height
            places.append((self.x[one], round(tops[layer] + room / 2, 1)))
        courses: list[tuple[Step, ...]] = []
        for path, (source, _), wire in zip(self.paths, self.ends, self.wires, strict=True):
            courses.append(
                self._course(path, places, heights, tops, bottoms, source != wire.source)
            )
        width = max([x + b.width for (x, _), b in zip(places, self.blocks, strict=True)], default=0)
        width = max([width, *(self.x[one] for one in range(len(self.blocks), len(self.layer)))])
        height = bottoms[-1] if bottoms else 0.0
        return Placed(tuple(places), tuple(courses), round(width, 1), height, self.crossings)

    def _down(self) -> tuple[list[float], list[float]]:
        count = len(self.blocks)
        tall = [0.0] * len(self.layers)
        rise = [0.0] * len(self.layers)
        for one, block in enumerate(self.blocks):
            tall[self.layer[one]] = max(tall[self.layer[one]], block.height)
        for (upper, lower), (start, end) in self.attached.items():
            at = self.layer[lower]
            slant = min(abs(end - start) * 0.07, 44.0)
            if self.port[upper, lower][2] and lower < count:
                slant += TALL
            rise[at] = max(rise[at], RISE + slant)
        tops: list[float] = []
        bottoms: list[float] = []
        y = 0.0
        for at, height in enumerate(tall):
            y += rise[at] or RISE if at else 0.0
            tops.append(round(y, 1))
            y += height
            bottoms.append(round(y, 1))
        return tops, bottoms

    def _course(
        self,
        path: list[int],
        places: list[tuple[float, float]],
        heights: list[float],
        tops: list[float],
        bottoms: list[float],
        is_turned: bool,
    ) -> tuple[Step, ...]:
        count = len(self.blocks)
        first, last = path[0], path[-1]
        if first == last or (first, path[1]) not in self.attached:
            return ()
        x, _ = self.attached[first, path[1]]
        steps: list[Step] = [(x, round(places[first][1] + heights[first], 1))]
        y = bottoms[self.layer[first]]
        for upper, lower in pairwise(path):
            start, end = self.attached[upper, lower]
            if steps[-1][-1] != y:
                steps.append((start, y))
            top = tops[self.layer[lower]]
            label = TALL if self.port[upper, lower][2] and lower < count else 0.0
            if start == end:
                steps.append((end, top))
            else:
                aim = round(top - label - 3, 1) if lower < count else top
                middle = round((y + aim) / 2, 1)
                steps.append((start, middle, end, middle, end, aim))
                if aim != top:
                    steps.append((end, top))
            y = bottoms[self.layer[lower]]
        if steps[-1][-1] != places[last][1]:
            steps.append((steps[-1][-2], places[last][1]))
        found = merged(steps)
        return turned(found) if is_turned else found


def _median(places: list[int]) -> float:
    places.sort()
    middle = len(places) // 2
    if len(places) % 2:
        return places[middle]
    return (places[middle - 1] + places[middle]) / 2


def _behind(seen: list[int], at: int) -> int:
    """Return how many of the ends seen so far are at this place or before it."""
    return bisect_left(seen, at + 1)


def _pairs(left: list[int], right: list[int], position: list[int]) -> int:
    """Return how many crossings exchanging two neighbours takes away on one side."""
    gain = 0
    for one in left:
        for other in right:
            a, b = position[one], position[other]
            gain += (a > b) - (a < b)
    return gain


def _settle(
    layer: list[int],
    offset: list[float],
    x: list[float],
    pulls: list[list[list[tuple[int, float, float]]]],
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
