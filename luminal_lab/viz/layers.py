"""Blocks in layers, ordered so that few edges cross: the first half of our own layout.

Ranks come from the sinks, so that inputs stand near their readers. Long edges run through points in
every layer between, shared by all edges of one source; if there are many, the longest run beside
everything. The order in a layer follows the medians of its neighbours. Equal graphs get equal
orders: nothing is random.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

POINTS = 3_000
"""The points that long edges may have in any graph; a large one may have one per block and edge."""
STEPS = 4
"""The layers that all edges together may cross, per allowed point."""
Side: TypeAlias = Literal["", "top", "bottom"]


class PlacedBlock(NamedTuple):
    """A block to place: its size, and whether it is a port of the border."""

    width: float
    height: float
    side: Side = ""
    opens: bool = False
    """Whether it is a box that may become larger."""


class Wire(NamedTuple):
    """An edge between two blocks; where it leaves and ends, if fixed; the width of its label."""

    source: int
    target: int
    leaves: float | None = None
    ends: float | None = None
    label: float = 0.0
    kind: str = ""
    """Wires of one source run together if they are of one kind."""


Trunk: TypeAlias = tuple[int, float | None, str]
"""The key of wires that run together: their source, where they leave it, and their kind."""


def downward(
    sides: Sequence[Side], ends: Sequence[tuple[int, int]]
) -> tuple[list[int], list[bool]]:
    """Return an order of blocks, and which wires go up in it.

    These are wires to a port above or from a port below, and the back edge of each cycle in a
    depth-first walk.
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
    """Return blocks in an order where only back edges of cycles go up."""
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
    """Blocks, and the points of long edges numbered after them, in ordered layers."""

    def __init__(
        self,
        blocks: Sequence[PlacedBlock],
        wires: Sequence[Wire],
        hints: Sequence[float | None] = (),
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
        self.uppers: list[int] = []
        """The upper end of each segment, a piece of wires between two layers."""
        self.lowers: list[int] = []
        """The lower end of each segment."""
        self.leaves: list[float | None] = []
        """Where each segment leaves its upper end, if fixed."""
        self.stops: list[float | None] = []
        """Where each segment meets its lower end, if fixed."""
        self.labels: list[float] = []
        """The width of the label at the lower end of each segment."""
        self.up: list[list[int]] = [[] for _ in blocks]
        """The numbers of the segments above each block or point."""
        self.down: list[list[int]] = [[] for _ in blocks]
        self._numbers: dict[tuple[int, int, float | None, float | None, str], int] = {}
        self.detours: dict[Trunk, list[int]] = {}
        """The wires that run beside everything, by trunk."""
        self.paths = self._long_edges()
        """The segments of each wire, from top to bottom; none for those that run beside."""
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
        rank = [top - rank_above for rank_above in height]
        # Blocks with more sources than users move up to their sources.
        for block in self.order:
            above = sources[block]
            if above and len(above) > len(users[block]):
                rank[block] = 1 + max([rank[source] for source in above])
        return self._with_ports(rank) if any(block.side for block in self.blocks) else rank

    def _with_ports(self, rank: list[int]) -> list[int]:
        """Return the ranks with the upper border's ports first and the lower one's last."""
        sides = [block.side for block in self.blocks]
        inner = [rank_above for rank_above, side in zip(rank, sides, strict=True) if not side]
        low, high = min(inner, default=0), max(inner, default=0)
        first = int("top" in sides)
        last = {"top": 0, "bottom": high - low + first + 1}
        return [
            last.get(side, rank_above + first - low)
            for rank_above, side in zip(rank, sides, strict=True)
        ]

    # -- long edges --------------------------------------------------------------------------------

    def _longest(self) -> int:
        """Return how many layers a wire may span before it runs beside everything."""
        spans: dict[Trunk, int] = {}
        alone: list[int] = []
        for at, (upper, lower) in enumerate(self.ends):
            trunk = self._trunk(at)
            alone.append(self.layer[lower] - self.layer[upper])
            spans[trunk] = max(spans.get(trunk, 0), alone[-1])
        room = max(POINTS, len(self.blocks) + len(self.wires))
        # Wires that run together share points, but each has its own course.
        return min(self._within(spans.values(), room), self._within(alone, room * STEPS))

    def _within(self, spans: Iterable[int], room: int) -> int:
        """Return the longest span such that all spans up to it fit into the room."""
        for span in sorted(spans):
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
        paths: list[list[int]] = []
        longest = self._longest()
        layer = self.layer
        for at, ((upper, lower), wire) in enumerate(zip(self.ends, self.wires, strict=True)):
            leaves, ends = (wire.ends, wire.leaves) if self.is_up[at] else (wire.leaves, wire.ends)
            span = layer[lower] - layer[upper]
            if span == 1:
                paths.append([self._segment(upper, lower, leaves, ends, wire.kind, wire.label)])
                continue
            trunk = upper, leaves, wire.kind
            if upper == lower or span > longest:
                if upper != lower:
                    self.detours.setdefault(trunk, []).append(at)
                paths.append([])
                continue
            points, path = trunks.setdefault(trunk, ([upper], []))
            if len(points) < span:
                self._prolong(points, path, span, leaves)
            last = self._segment(points[span - 1], lower, None, ends, wire.kind, wire.label)
            paths.append([*path[: span - 1], last])
        return paths

    def _prolong(
        self, points: list[int], path: list[int], length: int, leaves: float | None
    ) -> None:
        """Extend a trunk by new points below its last one, with their segments."""
        count, above = length - len(points), points[-1]
        new = range(len(self.layer), len(self.layer) + count)
        numbers = range(len(self.uppers), len(self.uppers) + count)
        first = self.layer[above] + 1
        self.layer += range(first, first + count)
        self.width += [0.0] * count
        self.uppers += [above, *new[:-1]]
        self.lowers += new
        self.leaves += [None if path else leaves] + [None] * (count - 1)
        self.stops += [None] * count
        self.labels += [0.0] * count
        self.down[above].append(numbers[0])
        self.up += [[number] for number in numbers]
        self.down += [[number] for number in numbers[1:]]
        self.down.append([])
        points += new
        path += numbers

    def _segment(
        self,
        upper: int,
        lower: int,
        leaves: float | None,
        ends: float | None,
        kind: str,
        label: float,
    ) -> int:
        """Return the number of a segment to a block, which wires may share."""
        segment = upper, lower, leaves, ends, kind
        number = self._numbers.get(segment)
        if number is None:
            number = self._numbers[segment] = len(self.uppers)
            self.uppers.append(upper)
            self.lowers.append(lower)
            self.leaves.append(leaves)
            self.stops.append(ends)
            self.labels.append(label)
            self.down[upper].append(number)
            self.up[lower].append(number)
        elif label > self.labels[number]:
            self.labels[number] = label
        return number

    # -- order -------------------------------------------------------------------------------------

    def _first_order(self) -> list[list[int]]:
        """Return the layers in the order of a walk up from the sinks."""
        layers: list[list[int]] = [[] for _ in range(max(self.layer, default=-1) + 1)]
        seen, uppers = [False] * len(self.layer), self.uppers
        for first in range(len(self.layer)):
            stack = [] if self.down[first] else [first]
            while stack:
                id_ = stack.pop()
                if not seen[id_]:
                    seen[id_] = True
                    layers[self.layer[id_]].append(id_)
                    stack += [uppers[at] for at in reversed(self.up[id_])]
        return [self._hinted(layer) for layer in layers] if self.hints else layers

    def _hinted(self, layer: list[int]) -> list[int]:
        """Return a layer with its hinted blocks in the order of their hints."""
        hints = {id_: self.hints[id_] for id_ in layer if id_ < len(self.blocks)}
        known = [(hint, id_) for id_, hint in hints.items() if hint is not None]
        order = iter(sorted(known))
        moved = {id_ for _, id_ in known}
        return [next(order)[1] if id_ in moved else id_ for id_ in layer]

    def _uncross(self) -> int:
        """Sort the layers, keep the best order, and return how many pairs of segments cross."""
        size = len(self.layer)
        uppers, lowers = self.uppers, self.lowers
        above = [[uppers[at] for at in numbers] for numbers in self.up]
        below = [[lowers[at] for at in numbers] for numbers in self.down]
        sweeps = 12 if size <= 400 else 6 if size <= 1500 else 3
        position = [0] * size
        for layer in self.layers:
            for at, id_ in enumerate(layer):
                position[id_] = at
        counts = [self._crossings(layer, position, above) for layer in self.layers]
        best, least = self.layers.copy(), sum(counts)
        idle = 0  # sweeps in a row that changed nothing; after one each way, none will
        for sweep in range(sweeps):
            if not least or idle == 2:
                break
            is_down = sweep % 2 == 0
            changed = self._sweep(is_down, above if is_down else below, position)
            idle = 0 if changed else idle + 1
            for at in changed.union([at + 1 for at in changed if at + 1 < len(counts)]):
                counts[at] = self._crossings(self.layers[at], position, above)
            crossings = sum(counts)
            if crossings < least:
                best, least = self.layers.copy(), crossings
        self.layers = best
        return self._swap(least, above, below) if least and size <= 600 else least

    def _sweep(self, is_down: bool, near: Sequence[Sequence[int]], position: list[int]) -> set[int]:
        """Sort each layer by its predecessor, and return the layers that changed."""
        changed: set[int] = set()
        layers = self.layers
        for layer_number in range(1, len(layers)) if is_down else range(len(layers) - 2, -1, -1):
            layer = layers[layer_number]
            if len(layer) < 2:
                continue
            keys: list[float] = []
            is_sorted, last = True, -1.0
            for at, id_ in enumerate(layer):
                others = near[id_]
                if len(others) == 1:
                    key = position[others[0]]
                else:
                    key = _median([position[k] for k in others]) if others else at
                if key < last:
                    is_sorted = False
                last = key
                keys.append(key)
            if is_sorted:
                continue
            order = [layer[at] for at in sorted(range(len(layer)), key=keys.__getitem__)]
            layers[layer_number] = order
            changed.add(layer_number)
            for at, id_ in enumerate(order):
                position[id_] = at
        return changed

    def _crossings(
        self, layer: Sequence[int], position: Sequence[int], above: Sequence[Sequence[int]]
    ) -> int:
        """Return how many pairs of the segments above a layer cross."""
        if len(layer) < 2:
            return 0
        total, last, seen = 0, -1, list[int]()
        for id_ in layer:
            others = above[id_]
            # Segments to the same place do not cross.
            for at in others if len(others) < 2 else sorted(others, key=position.__getitem__):
                rank = position[at]
                if rank >= last:  # the usual case
                    seen.append(rank)
                    last = rank
                else:
                    total += len(seen) - bisect_right(seen, rank)
                    insort(seen, rank)
        return total

    def _swap(
        self, least: int, above: Sequence[Sequence[int]], below: Sequence[Sequence[int]]
    ) -> int:
        """Exchange neighbours where that removes crossings."""
        position = [0] * len(self.layer)
        for layer in self.layers:
            for at, id_ in enumerate(layer):
                position[id_] = at
        for _ in range(4):
            before = least
            for layer in self.layers:
                for at in range(len(layer) - 1):
                    id_, other = layer[at], layer[at + 1]
                    gain = sum(_gain(near[id_], near[other], position) for near in (above, below))
                    if gain > 0:
                        layer[at], layer[at + 1] = other, id_
                        position[id_], position[other] = at + 1, at
                        least -= gain
            if least == before:
                break
        return least


def _median(positions: list[int]) -> float:
    positions.sort()
    middle = len(positions) // 2
    if len(positions) % 2:
        return positions[middle]
    return (positions[middle - 1] + positions[middle]) / 2


def _gain(left: Sequence[int], right: Sequence[int], position: Sequence[int]) -> int:
    """Return how many crossings an exchange of two neighbours removes on one side."""
    gain = 0
    for id_ in left:
        for other in right:
            a, b = position[id_], position[other]
            gain += (a > b) - (a < b)
    return gain
