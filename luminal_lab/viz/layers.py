"""Blocks in layers, in an order in which few edges cross: the first half of our own layout.

Ranks come from the sinks, so that what is given stands where it is used; long edges run through
points of their own in every layer between, which all edges of one source share, and the longest, if
there are many, beside everything; the order in a layer follows the medians of its neighbours. Equal
graphs get equal orders: nothing is by chance.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

POINTS = 3_000
"""How many points long edges may have in any graph; in a large one, as many as it has edges."""
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


class Segment(NamedTuple):
    """A piece of wires from one layer to the next, from what is above to what is below."""

    upper: int
    lower: int
    leaves: float | None
    ends: float | None
    kind: str


Trunk: TypeAlias = tuple[int, float | None, str]
"""What wires have in common that run together: whence, where they leave, and their kind."""


def downward(
    sides: Sequence[Side], ends: Sequence[tuple[int, int]]
) -> tuple[list[int], list[bool]]:
    """Return an order of blocks, and which wires go up in it.

    Those are the ones to a port above or from a port below, and of each cycle the one that goes
    back to where a walk in the order given came from.
    """
    is_up = [sides[target] == "top" or sides[source] == "bottom" for source, target in ends]
    count = len(sides)
    users: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for (source, target), turned in zip(ends, is_up, strict=True):
        upper, lower = (target, source) if turned else (source, target)
        if upper != lower:
            users[upper].append(lower)
            missing[lower] += 1
    order = [block for block in range(count) if not missing[block]]
    for block in order:
        for user in users[block]:
            missing[user] -= 1
            if not missing[user]:
                order.append(user)
    if len(order) == count:
        return order, is_up
    order = _walked(users)
    number = {block: at for at, block in enumerate(order)}
    return order, [number[source] > number[target] for source, target in ends]


def _walked(users: Sequence[Sequence[int]]) -> list[int]:
    """Return blocks in an order in which only what closes a cycle comes after its user."""
    state = [0] * len(users)  # not met, open, done
    left: list[int] = []
    for first in range(len(users)):
        stack = [] if state[first] else [(first, 0)]
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
    return left[::-1]


class Layers:
    """Blocks, and the points of long edges numbered after them, by layers and in order."""

    def __init__(
        self, blocks: Sequence[Block], wires: Sequence[Wire], hints: Sequence[float | None] = ()
    ) -> None:
        self.blocks, self.wires, self.hints = blocks, wires, hints
        given = [(wire.source, wire.target) for wire in wires]
        self.order, self.is_up = downward([block.side for block in blocks], given)
        self.ends = [
            (target, source) if turned else (source, target)
            for (source, target), turned in zip(given, self.is_up, strict=True)
        ]
        self.layer = self._ranks()
        self.width = [block.width for block in blocks]
        self.segments: list[Segment] = []
        self.labels: list[float] = []
        """The room of what is said at the lower end of each segment."""
        self.up: list[list[int]] = [[] for _ in blocks]
        """The segments above each, by their numbers."""
        self.down: list[list[int]] = [[] for _ in blocks]
        self._numbers: dict[Segment, int] = {}
        self.detours: dict[Trunk, list[int]] = {}
        """The wires that go beside everything, by what they have in common."""
        self.paths = self._long_edges()
        """The segments of each wire, from above to below; of those that go beside, nothing."""
        self.layers = self._first_order()
        self.crossings = self._uncross()

    def _ranks(self) -> list[int]:
        count = len(self.blocks)
        users: list[list[int]] = [[] for _ in range(count)]
        sources: list[list[int]] = [[] for _ in range(count)]
        for upper, lower in self.ends:
            if upper != lower:
                users[upper].append(lower)
                sources[lower].append(upper)
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
        return self._with_ports(rank) if any(block.side for block in self.blocks) else rank

    def _with_ports(self, rank: list[int]) -> list[int]:
        """Return the ranks with the ports of the upper border first and those of the lower last."""
        sides = [block.side for block in self.blocks]
        inner = [one for one, side in zip(rank, sides, strict=True) if not side]
        low, high = min(inner, default=0), max(inner, default=0)
        first = int("top" in sides)
        last = {"top": 0, "bottom": high - low + first + 1}
        return [last.get(side, one + first - low) for one, side in zip(rank, sides, strict=True)]

    # -- long edges --------------------------------------------------------------------------------

    def _longest(self) -> int:
        """Return how many layers a wire may span without going beside everything."""
        spans: dict[Trunk, int] = {}
        for at, (upper, lower) in enumerate(self.ends):
            trunk = self._trunk(at)
            spans[trunk] = max(spans.get(trunk, 0), self.layer[lower] - self.layer[upper])
        room = max(POINTS, len(self.blocks) + len(self.wires))
        for span in sorted(spans.values()):
            room -= span
            if room < 0:
                return max(span, 4)
        return len(self.layer)

    def _trunk(self, at: int) -> Trunk:
        wire = self.wires[at]
        return self.ends[at][0], wire.ends if self.is_up[at] else wire.leaves, wire.kind

    def _long_edges(self) -> list[list[int]]:
        """Put points into the layers that wires cross."""
        trunks: dict[Trunk, tuple[list[int], list[int]]] = {}
        found: list[list[int]] = []
        longest = self._longest()
        for at, ((upper, lower), wire) in enumerate(zip(self.ends, self.wires, strict=True)):
            trunk = self._trunk(at)
            leaves, ends = trunk[1], wire.leaves if self.is_up[at] else wire.ends
            span = self.layer[lower] - self.layer[upper]
            if upper == lower or span > longest:
                if upper != lower:
                    self.detours.setdefault(trunk, []).append(at)
                found.append([])
                continue
            points, path = trunks.setdefault(trunk, ([upper], []))
            while len(points) < span:
                self.layer.append(self.layer[points[-1]] + 1)
                self.width.append(0.0)
                self.up.append([])
                self.down.append([])
                point = len(self.layer) - 1
                start = None if path else leaves
                path.append(self._segment(points[-1], point, start, None, wire.kind, 0.0))
                points.append(point)
            start = leaves if span == 1 else None
            last = self._segment(points[span - 1], lower, start, ends, wire.kind, wire.label)
            found.append([*path[: span - 1], last])
        return found

    def _segment(
        self,
        upper: int,
        lower: int,
        leaves: float | None,
        ends: float | None,
        kind: str,
        label: float,
    ) -> int:
        segment = Segment(upper, lower, leaves, ends, kind)
        number = self._numbers.setdefault(segment, len(self.segments))
        if number == len(self.segments):
            self.segments.append(segment)
            self.labels.append(label)
            self.down[upper].append(number)
            self.up[lower].append(number)
        self.labels[number] = max(self.labels[number], label)
        return number

    # -- order -------------------------------------------------------------------------------------

    def _first_order(self) -> list[list[int]]:
        """Return the layers as a walk up from the sinks meets them."""
        layers: list[list[int]] = [[] for _ in range(max(self.layer, default=-1) + 1)]
        seen = [False] * len(self.layer)
        for first in range(len(self.layer)):
            stack = [] if self.down[first] else [first]
            while stack:
                one = stack.pop()
                if not seen[one]:
                    seen[one] = True
                    layers[self.layer[one]].append(one)
                    stack += [self.segments[at].upper for at in reversed(self.up[one])]
        return [self._hinted(layer) for layer in layers] if self.hints else layers

    def _hinted(self, layer: list[int]) -> list[int]:
        """Return a layer in which those blocks that were somewhere before are in that order."""
        hints = {one: self.hints[one] for one in layer if one < len(self.blocks)}
        known = [(hint, one) for one, hint in hints.items() if hint is not None]
        order = iter(sorted(known))
        moved = {one for _, one in known}
        return [next(order)[1] if one in moved else one for one in layer]

    def _uncross(self) -> int:
        """Sort the layers, keep the best order, and return how many pairs of segments cross."""
        size = len(self.layer)
        segments = self.segments
        above = [[segments[at].upper for at in numbers] for numbers in self.up]
        below = [[segments[at].lower for at in numbers] for numbers in self.down]
        sweeps = 12 if size <= 400 else 6 if size <= 1500 else 3
        position = [0] * size
        for layer in self.layers:
            for at, one in enumerate(layer):
                position[one] = at
        best, least = [layer.copy() for layer in self.layers], self._count(position, above)
        for sweep in range(sweeps):
            if not least:
                break
            near = above if sweep % 2 == 0 else below
            for layer in self.layers[1:] if sweep % 2 == 0 else self.layers[-2::-1]:
                keys = {
                    one: _median([position[other] for other in near[one]]) if near[one] else at
                    for at, one in enumerate(layer)
                }
                layer.sort(key=keys.__getitem__)
                for at, one in enumerate(layer):
                    position[one] = at
            crossings = self._count(position, above)
            if crossings < least:
                best, least = [layer.copy() for layer in self.layers], crossings
        self.layers = best
        return self._swap(least, above, below) if least and size <= 600 else least

    def _count(self, position: Sequence[int], above: Sequence[Sequence[int]]) -> int:
        """Return how many pairs of segments cross."""
        total = 0
        for layer in self.layers[1:]:
            ends = [(position[other], position[one]) for one in layer for other in above[one]]
            ends.sort()
            seen: list[int] = []
            for _, at in ends:
                total += len(seen) - bisect_right(seen, at)
                insort(seen, at)
        return total

    def _swap(
        self, least: int, above: Sequence[Sequence[int]], below: Sequence[Sequence[int]]
    ) -> int:
        """Exchange neighbours where that takes crossings away."""
        position = [0] * len(self.layer)
        for layer in self.layers:
            for at, one in enumerate(layer):
                position[one] = at
        for _ in range(4):
            before = least
            for layer in self.layers:
                for at in range(len(layer) - 1):
                    one, other = layer[at], layer[at + 1]
                    gain = sum(_gain(near[one], near[other], position) for near in (above, below))
                    if gain > 0:
                        layer[at], layer[at + 1] = other, one
                        position[one], position[other] = at + 1, at
                        least -= gain
            if least == before:
                break
        return least


def _median(places: list[int]) -> float:
    places.sort()
    middle = len(places) // 2
    if len(places) % 2:
        return places[middle]
    return (places[middle - 1] + places[middle]) / 2


def _gain(left: Sequence[int], right: Sequence[int], position: Sequence[int]) -> int:
    """Return how many crossings exchanging two neighbours takes away on one side."""
    gain = 0
    for one in left:
        for other in right:
            a, b = position[one], position[other]
            gain += (a > b) - (a < b)
    return gain
