"""Where time spans of some size go in one block of memory.

The decision is not a number but an order: of any two spans that overlap in time, which lies below
the other. Offsets follow from it: each begins where the highest of those below it ends. So an order
found for a few sets of sizes holds for all sizes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from math import inf
from typing import NamedTuple, final

import numpy as np

BLOCK, FEW = 64, 1024
"""How many steps are searched together for neighbours; up to how many values all are compared."""
GOOD = 1.01
"""The search ends once the height is within this factor of the lowest possible."""


class LifeSpan(NamedTuple):
    """The first and the last step at which something exists."""

    first: int
    last: int


@final
class ArenaLayout(NamedTuple):
    """An order from bottom to top, and for each item what lies right below it at some time."""

    order: tuple[int, ...]
    below: tuple[tuple[int, ...], ...]
    """For each index, what ends before it begins; all of it comes earlier in the order."""

    def offsets(self, sizes: Sequence[int]) -> list[int]:
        """Return where each item begins, for any sizes that are not negative.

        >>> ArenaLayout((1, 0), ((1,), ())).offsets([64, 128])
        [128, 0]
        """
        offsets = [0] * len(sizes)
        for index in self.order:
            ends = [offsets[other] + sizes[other] for other in self.below[index]]
            offsets[index] = max(ends, default=0)
        return offsets

    def height(self, sizes: Sequence[int]) -> int:
        """Return where the highest item ends."""
        return max(map(sum, zip(self.offsets(sizes), sizes, strict=True)), default=0)


def most_live(spans: Sequence[LifeSpan], sizes: Sequence[int]) -> int:
    """Return the largest sum of sizes at one step: no layout can be lower.

    >>> most_live([LifeSpan(0, 1), LifeSpan(1, 2), LifeSpan(2, 3)], [10, 20, 5])
    30
    """
    change = [0] * (max((span.last for span in spans), default=0) + 2)
    for (first, last), size in zip(spans, sizes, strict=True):
        change[first] += size
        change[last + 1] -= size
    return max(accumulate(change))


def arrange(spans: Sequence[LifeSpan], samples: Sequence[Sequence[int]]) -> ArenaLayout:
    """Return the lowest of a few layouts, judged by the worst of some samples of sizes.

    The first sample counts most: more attempts are made for it.
    """
    least = [most_live(spans, sizes) for sizes in samples]
    best, score = ArenaLayout((), ()), inf
    for sizes, order, ceiling in _attempts(spans, samples, least[0]):
        layout = stacked(spans, sizes, best_fit(spans, sizes, order, ceiling))
        over = (layout.height(s) / (low or 1) for s, low in zip(samples, least, strict=True))
        worst = max(over)
        if worst < score:
            best, score = layout, worst
        if score <= GOOD:
            break
    return best


def _attempts(
    spans: Sequence[LifeSpan], samples: Sequence[Sequence[int]], least: int
) -> Iterator[tuple[Sequence[int], list[int], int]]:
    """Yield sizes to lay out for, the order in which to place items, and a ceiling."""
    indices = range(len(spans))
    steps = [last - first + 1 for first, last in spans]
    for sizes in samples:
        yield sizes, sorted(indices, key=lambda i: (-sizes[i], -steps[i])), 0
    sizes = samples[0]
    by_birth = sorted(indices, key=lambda i: (spans[i].first, -steps[i]))
    yield sizes, by_birth, least
    yield sizes, sorted(indices, key=lambda i: (-steps[i], -sizes[i])), 0
    yield sizes, sorted(indices, key=lambda i: -steps[i] * sizes[i]), 0
    yield sizes, by_birth, 0


def best_fit(
    spans: Sequence[LifeSpan], sizes: Sequence[int], order: Sequence[int], ceiling: int = 0
) -> list[float]:
    """Return offsets: each item, in order, goes into the smallest gap that is free all its life.

    An item next to the ceiling hangs from it: in a chain, in which each meets only the next, one
    stands and the next hangs. Offsets are floats, exact up to 2**53: only their order is used.
    """
    count = len(spans)
    first, last = np.array(spans, np.int64).reshape(count, 2).T
    low, high = np.empty(count), np.empty(count)
    placed = np.array(order, np.int64)
    blocks: list[list[int]] = [[] for _ in range(int(last.max(initial=0)) // BLOCK + 1)]
    offsets = [0.0] * len(spans)
    for turn, index in enumerate(order):
        span, size = spans[index], float(sizes[index])
        row = blocks[span.first // BLOCK : span.last // BLOCK + 1]
        see_all = turn < FEW or len(row) > FEW // BLOCK
        near = placed[:turn] if see_all else np.array([*chain.from_iterable(row)], np.int64)
        neighbours = near[(first[near] <= span.last) & (last[near] >= span.first)]
        at = 0.0
        if neighbours.size:
            neighbours = neighbours[low[neighbours].argsort()]
            bottoms = np.concatenate(([0.0], np.maximum.accumulate(high[neighbours])))
            tops = np.concatenate((low[neighbours], [max(ceiling, bottoms[-1])]))
            gaps = tops - bottoms
            fits = np.flatnonzero(gaps >= size)
            gap = fits[gaps[fits].argmin()] if fits.size else -1
            hangs = bottoms[gap] > 0 and tops[gap] == ceiling and fits.size
            at = float(tops[gap] - size if hangs else bottoms[gap])
        offsets[index] = low[index] = at
        high[index] = at + size
        for block in row:
            block.append(index)
    return offsets


def stacked(
    spans: Sequence[LifeSpan], sizes: Sequence[int], offsets: Sequence[float]
) -> ArenaLayout:
    """Return the order given by offsets.

    Neighbours among those that exist at the same time are enough: the rest follows from them.
    """
    order = sorted(range(len(spans)), key=lambda i: (offsets[i], sizes[i] > 0, i))
    rank = {index: height_rank for height_rank, index in enumerate(order)}
    begin: dict[int, list[int]] = {}
    end: dict[int, list[int]] = {}
    for index, span in enumerate(spans):
        begin.setdefault(span.first, []).append(rank[index])
        end.setdefault(span.last, []).append(rank[index])
    below: list[dict[int, None]] = [{} for _ in spans]
    live: list[int] = []
    for step in sorted({*begin, *end}):
        for height_rank in begin.get(step, ()):
            live.insert(bisect_left(live, height_rank), height_rank)
        for height_rank in begin.get(step, ()):
            at = bisect_left(live, height_rank)
            for low, high in ((at - 1, at), (at, at + 1)):
                if low >= 0 and high < len(live):
                    below[order[live[high]]][order[live[low]]] = None
        for height_rank in end.get(step, ()):
            at = bisect_left(live, height_rank)
            del live[at]
            if 0 < at < len(live):
                below[order[live[at]]][order[live[at - 1]]] = None
    return ArenaLayout(tuple(order), tuple(map(tuple, below)))
