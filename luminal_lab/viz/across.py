"""Horizontal positions of everything in layers.

Each is the mean of what pulls at it, as near as its layer's order and distances allow (pool
adjacent violators): long edges pull most and come out straight, constants hardly at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from luminal_lab.viz.layers import Layers

GAP = 22.0
"""The distance between neighbours in a layer."""
LANE = 12.0
"""The distance between a long edge and its neighbours."""
LEAF = 0.05
"""The pull of a node that only one block reads; all else pulls with 1."""
FIXED = 1e6
"""The pull that keeps a block in its place."""
Pull: TypeAlias = tuple[int, float, float]
"""The id that pulls, the distance from it to the right position, and the strength."""


def across(layers: Layers) -> list[float]:
    """Return the left edges of all blocks and points."""
    count = len(layers.blocks)
    x = [0.0] * len(layers.layer)
    offsets: list[list[float]] = []
    for layer in layers.layers:
        at, offset = 0.0, list[float]()
        for position, id_ in enumerate(layer):
            if position:
                before = layer[position - 1]
                at += layers.width[before] + (GAP if before < count and id_ < count else LANE)
            offset.append(at)
        offsets.append(offset)
        shift = (at + layers.width[layer[-1]]) / 2 if layer else 0.0
        for id_, start in zip(layer, offset, strict=True):
            x[id_] = start - shift
    above, below = _pulls(layers)
    size = len(layers.layer)
    rounds = 8 if size <= 1500 else 4 if size <= 4000 else 3
    both = [[*id_, *other] for id_, other in zip(above, below, strict=True)]
    turns = [below if turn % 2 else above for turn in range(rounds - 2)]
    _settle_all(layers, offsets, x, [*turns, both, both])
    aligned = _align(layers, offsets, x) if any(block.opens for block in layers.blocks) else []
    for id_ in aligned:
        above[id_] = below[id_] = both[id_] = [(id_, 0.0, FIXED)]
    if aligned:
        _settle_all(layers, offsets, x, [above, below, both, below])
    _straighten(layers, x)
    least = min(x, default=0.0)
    return [round(id_ - least, 1) for id_ in x]


def _settle_all(
    layers: Layers,
    offsets: Sequence[Sequence[float]],
    x: list[float],
    turns: Sequence[Sequence[Sequence[Pull]]],
) -> None:
    """Move layer by layer, down and up in turn, by the current pulls."""
    for turn, pulls in enumerate(turns):
        for at in range(len(offsets))[:: -1 if turn % 2 else 1]:
            layer = layers.layers[at]
            if len(layer) == 1:
                _settle_alone(layer[0], x, pulls[layer[0]])
            else:
                _settle(layer, offsets[at], x, pulls)


def _pulls(layers: Layers) -> tuple[list[list[Pull]], list[list[Pull]]]:
    """Return the pulls at each block and point, from above and from below."""
    size, count = len(layers.layer), len(layers.blocks)
    above: list[list[Pull]] = [[] for _ in range(size)]
    below: list[list[Pull]] = [[] for _ in range(size)]
    segments = zip(layers.uppers, layers.lowers, layers.leaves, layers.stops, strict=True)
    for upper, lower, leaves, ends in segments:
        start = layers.width[upper] / 2 if leaves is None else leaves
        end = layers.width[lower] / 2 if ends is None else ends
        weight = (1.0, 2.0, 8.0)[(upper >= count) + (lower >= count)]
        if not layers.up[upper] and len(layers.down[upper]) == 1:
            weight = LEAF  # a constant stands beside the chain that reads it
        above[lower].append((upper, start - end, weight))
        below[upper].append((lower, end - start, weight))
    return above, below


def _settle(
    layer: Sequence[int], offset: Sequence[float], x: list[float], pulls: Sequence[Sequence[Pull]]
) -> None:
    """Move a layer towards its pulls, as far as its order and distances allow.

    Without its offsets the layer is a rising sequence; pooling neighbours gives the nearest one to
    the wanted positions.
    """
    means: list[float] = []
    weights: list[float] = []
    is_rising, last = True, float("-inf")
    for id_, start in zip(layer, offset, strict=True):
        own = pulls[id_]
        if len(own) == 1:  # the usual case
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
            mean, weight = x[id_] - start, 0.01
        if mean < last:
            is_rising = False
        last = mean
        means.append(mean)
        weights.append(weight)
    if not is_rising:
        means = _pooled(means, weights)
    for id_, start, mean in zip(layer, offset, means, strict=True):
        x[id_] = mean + start


def _pooled(wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the nearest rising numbers to the wanted ones."""
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


def _settle_alone(id_: int, x: list[float], pulls: Sequence[Pull]) -> None:
    """Move the only id of a layer to where it is pulled."""
    total = weight = 0.0
    for other, distance, force in pulls:
        total += (x[other] + distance) * force
        weight += force
    if weight:
        x[id_] = total / weight


def _straighten(layers: Layers, x: list[float]) -> None:
    """Put the points of each long edge below each other, where there is room."""
    count = len(layers.blocks)
    position = {id_: at for layer in layers.layers for at, id_ in enumerate(layer)}
    done: set[int] = set()
    for point in range(count, len(layers.layer)):
        if point in done:
            continue
        chain = [point]
        while True:
            below = [layers.lowers[at] for at in layers.down[chain[-1]]]
            points = [id_ for id_ in below if id_ >= count]
            if len(points) != 1:
                break
            chain += points
        done.update(chain)
        low, high = float("-inf"), float("inf")
        for id_ in chain:
            layer, at = layers.layers[layers.layer[id_]], position[id_]
            if at:
                low = max(low, x[layer[at - 1]] + layers.width[layer[at - 1]] + LANE)
            if at + 1 < len(layer):
                high = min(high, x[layer[at + 1]] - LANE)
        if low <= high:
            middle = sorted([x[id_] for id_ in chain])[len(chain) // 2]
            for id_ in chain:
                x[id_] = min(max(middle, low), high)


def _align(layers: Layers, offsets: Sequence[Sequence[float]], x: list[float]) -> list[int]:
    """Put the links of each chain of boxes below each other, and return them.

    Neighbours make room. Opening a box moves everything beside it, so a chain that leans would lean
    far more.
    """
    aligned: list[int] = []
    position = {id_: at for layer in layers.layers for at, id_ in enumerate(layer)}
    fixed: list[list[int]] = [[] for _ in layers.layers]
    for chain in _chains(layers):
        low, high = float("-inf"), float("inf")
        for id_ in chain:
            at, offset = position[id_], offsets[layers.layer[id_]]
            half = layers.width[id_] / 2
            for other in fixed[layers.layer[id_]]:
                beside = x[other] + offset[at] - offset[position[other]] + half
                if position[other] < at:
                    low = max(low, beside)
                else:
                    high = min(high, beside)
        if low > high:
            continue
        middles = sorted([x[id_] + layers.width[id_] / 2 for id_ in chain])
        middle = min(max(middles[len(middles) // 2], low), high)
        aligned += chain
        for id_ in chain:
            rank = layers.layer[id_]
            x[id_] = middle - layers.width[id_] / 2
            fixed[rank].append(id_)
            layer, offset, at = layers.layers[rank], offsets[rank], position[id_]
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
        id_: lowers[0]
        for id_, lowers in enumerate(below)
        if len(set(lowers)) == 1 and len(set(above[lowers[0]])) == 1
    }
    begun = set(after.values())
    chains: list[list[int]] = []
    for first in range(count):
        if first in begun:
            continue
        chain = [first]
        while chain[-1] in after:
            chain.append(after[chain[-1]])
        boxes = [at for at, id_ in enumerate(chain) if layers.blocks[id_].opens]
        if len(boxes) > 1:
            chains.append(chain[boxes[0] : boxes[-1] + 1])
    yield from sorted(chains, key=len, reverse=True)
