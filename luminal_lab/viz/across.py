"""How far to the right everything in layers stands.

It is the mean of what pulls at it, as near as its order and the distances in its layer allow (pool
adjacent violators): long edges pull most and come out straight, constants hardly at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from luminal_lab.viz.layers import Layers

GAP = 22.0
"""Between neighbours in a layer."""
LANE = 12.0
"""Between a long edge and what is beside it."""
LEAF = 0.05
"""How much pulls at a block that nothing but it reads, where all else pulls with 1."""
FIXED = 1e6
"""How strongly what is not to move is pulled to where it is."""
Pull: TypeAlias = tuple[int, float, float]
"""Who pulls, how far from there the right place is, and how strongly."""


def across(layers: Layers) -> list[float]:
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
    both = [[*one, *other] for one, other in zip(above, below, strict=True)]
    turns = [below if turn % 2 else above for turn in range(rounds - 2)]
    _settle_all(layers, offsets, x, [*turns, both, both])
    aligned = _align(layers, offsets, x) if any(block.opens for block in layers.blocks) else []
    for one in aligned:
        above[one] = below[one] = both[one] = [(one, 0.0, FIXED)]
    if aligned:
        _settle_all(layers, offsets, x, [above, below, both, below])
    _straighten(layers, x)
    least = min(x, default=0.0)
    return [round(one - least, 1) for one in x]


def _settle_all(
    layers: Layers,
    offsets: Sequence[Sequence[float]],
    x: list[float],
    turns: Sequence[Sequence[Sequence[Pull]]],
) -> None:
    """Move layer by layer, down and up in turn, each time by what pulls then."""
    for turn, pulls in enumerate(turns):
        for at in range(len(offsets))[:: -1 if turn % 2 else 1]:
            layer = layers.layers[at]
            if len(layer) == 1:
                _settle_alone(layer[0], x, pulls[layer[0]])
            else:
                _settle(layer, offsets[at], x, pulls)


def _pulls(layers: Layers) -> tuple[list[list[Pull]], list[list[Pull]]]:
    """Return, for each block and point, what pulls at it from above, and from below."""
    size, count = len(layers.layer), len(layers.blocks)
    above: list[list[Pull]] = [[] for _ in range(size)]
    below: list[list[Pull]] = [[] for _ in range(size)]
    segments = zip(layers.uppers, layers.lowers, layers.leaves, layers.stops, strict=True)
    for upper, lower, leaves, ends in segments:
        start = layers.width[upper] / 2 if leaves is None else leaves
        end = layers.width[lower] / 2 if ends is None else ends
        weight = (1.0, 2.0, 8.0)[(upper >= count) + (lower >= count)]
        if not layers.up[upper] and len(layers.down[upper]) == 1:
            weight = LEAF  # a constant stands beside the chain that it goes into
        above[lower].append((upper, start - end, weight))
        below[upper].append((lower, end - start, weight))
    return above, below


def _settle(
    layer: Sequence[int], offset: Sequence[float], x: list[float], pulls: Sequence[Sequence[Pull]]
) -> None:
    """Move a layer as near as its order and distances let it to where it is pulled.

    Without its offsets the layer is a rising sequence, and the nearest one to what is wanted is
    that of pooled neighbours.
    """
    means: list[float] = []
    weights: list[float] = []
    is_rising, last = True, float("-inf")
    for one, start in zip(layer, offset, strict=True):
        own = pulls[one]
        if len(own) == 1:  # as most have
            other, distance, weight = own[0]
            total = (x[other] + distance) * weight
        else:
            total = weight = 0.0
            for other, distance, force in own:
                total += (x[other] + distance) * force
                weight += force
        if weight:
            mean = total / weight - start
        else:
            mean, weight = x[one] - start, 0.01
        if mean < last:
            is_rising = False
        last = mean
        means.append(mean)
        weights.append(weight)
    if not is_rising:
        means = _pooled(means, weights)
    for one, start, mean in zip(layer, offset, means, strict=True):
        x[one] = mean + start


def _pooled(wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the rising numbers that are nearest to the wanted ones."""
    pools: list[tuple[float, float, int]] = []  # mean, weight, size
    for mean, weight in zip(wanted, weights, strict=True):
        size = 1
        while pools and pools[-1][0] > mean:
            before, much, many = pools.pop()
            mean = (mean * weight + before * much) / (weight + much)
            weight += much
            size += many
        pools.append((mean, weight, size))
    return [mean for mean, _, size in pools for _ in range(size)]


def _settle_alone(one: int, x: list[float], pulls: Sequence[Pull]) -> None:
    """Move what is alone in its layer to where it is pulled."""
    total = weight = 0.0
    for other, distance, force in pulls:
        total += (x[other] + distance) * force
        weight += force
    if weight:
        x[one] = total / weight


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
            below = [layers.lowers[at] for at in layers.down[chain[-1]]]
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


def _align(layers: Layers, offsets: Sequence[Sequence[float]], x: list[float]) -> list[int]:
    """Put the links of each chain of boxes below each other, and return them.

    What is in their way makes room. Where a box is opened, all that stands beside it moves; a chain
    that leans would lean far more.
    """
    aligned: list[int] = []
    place = {one: at for layer in layers.layers for at, one in enumerate(layer)}
    fixed: list[list[int]] = [[] for _ in layers.layers]
    for chain in _chains(layers):
        low, high = float("-inf"), float("inf")
        for one in chain:
            at, offset = place[one], offsets[layers.layer[one]]
            half = layers.width[one] / 2
            for other in fixed[layers.layer[one]]:
                beside = x[other] + offset[at] - offset[place[other]] + half
                if place[other] < at:
                    low = max(low, beside)
                else:
                    high = min(high, beside)
        if low > high:
            continue
        middles = sorted([x[one] + layers.width[one] / 2 for one in chain])
        middle = min(max(middles[len(middles) // 2], low), high)
        aligned += chain
        for one in chain:
            rank = layers.layer[one]
            x[one] = middle - layers.width[one] / 2
            fixed[rank].append(one)
            layer, offset, at = layers.layers[rank], offsets[rank], place[one]
            for k in range(at + 1, len(layer)):
                x[layer[k]] = max(x[layer[k]], x[layer[k - 1]] + offset[k] - offset[k - 1])
            for k in range(at - 1, -1, -1):
                x[layer[k]] = min(x[layer[k]], x[layer[k + 1]] + offset[k] - offset[k + 1])
    return aligned


def _chains(layers: Layers) -> Iterator[list[int]]:
    """Yield the chains of blocks that begin and end with a box, the longest first."""
    count = len(layers.blocks)
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for upper, lower in zip(layers.uppers, layers.lowers, strict=True):
        is_leaf = not layers.up[upper] and len(layers.down[upper]) == 1
        if upper < count and lower < count and not is_leaf:
            above[lower].append(upper)
            below[upper].append(lower)
    after = {
        one: lowers[0]
        for one, lowers in enumerate(below)
        if len(set(lowers)) == 1 and len(set(above[lowers[0]])) == 1
    }
    begun = set(after.values())
    found: list[list[int]] = []
    for first in range(count):
        if first in begun:
            continue
        chain = [first]
        while chain[-1] in after:
            chain.append(after[chain[-1]])
        boxes = [at for at, one in enumerate(chain) if layers.blocks[one].opens]
        if len(boxes) > 1:
            found.append(chain[boxes[0] : boxes[-1] + 1])
    yield from sorted(found, key=len, reverse=True)
