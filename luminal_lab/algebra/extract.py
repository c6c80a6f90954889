"""The best programs of an e-graph, by the model of their cost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import product
from math import inf
from typing import NamedTuple, TypeAlias

from luminal_lab.algebra.egraph import EGraph
from luminal_lab.algebra.language import ENode, Online, Ratio, Shift
from luminal_lab.algebra.pick import CircleError, Pick, effort, times
from luminal_lab.core.dims import Dim

MOST_CASCADES = 4
"""Up to this many choices between one pass and several, all combinations are tried."""
BEST_STARTS = 2
"""How many of them, the cheapest first, are then improved."""
MOST_TRIES = 300
"""How many programs are looked at, at most, to improve them."""
FAR = 0.5
"""A tree that is cheaper by its axes' lengths counts only if its program costs this much less."""
Ways: TypeAlias = Mapping[int, list[ENode]]
"""For each class, the nodes that a program may take from it."""
Tried: TypeAlias = Callable[[Mapping[int, ENode]], "Pick | None"]


def programs(
    egraph: EGraph,
    outputs: Mapping[str, int],
    axes: Mapping[str, Dim],
    count: int = 8,
    without: Collection[tuple[int, ENode]] = (),
) -> list[Pick]:
    """Return up to `count` programs for outputs, the cheapest first, that avoid some nodes."""
    ways = {
        number: [node for node in nodes if (number, node) not in without]
        for number, nodes in solved(egraph).items()
    }
    starts = [*_starts(egraph, ways, once=True)], [*_starts(egraph, ways, once=False)]
    return improved(egraph, outputs, axes, ways, *starts)[:count]


def improved(
    egraph: EGraph,
    outputs: Mapping[str, int],
    axes: Mapping[str, Dim],
    ways: Ways,
    choices: Iterable[dict[int, ENode]],
    others: Iterable[dict[int, ENode]] = (),
) -> list[Pick]:
    """Return programs that start from some choices, and improved ones, the cheapest first.

    Other choices count only if they are far cheaper.
    """
    picks: dict[frozenset[tuple[int, ENode]], Pick] = {}

    def tried(choice: Mapping[int, ENode]) -> Pick | None:
        pick = Pick(egraph, outputs, axes, choice)
        try:
            key = frozenset((number, pick.node(number)) for number in pick.order)
            if not pick.is_in_passes:
                return None
        except (CircleError, KeyError):
            return None
        return picks.setdefault(key, pick)

    def begun(starts: Iterable[dict[int, ENode]]) -> list[tuple[float, dict[int, ENode]]]:
        trials = [(start, tried(start)) for start in starts]
        return [(pick.cost, start) for start, pick in trials if pick is not None]

    priced_starts = begun(choices)
    least = min((cost for cost, _ in priced_starts), default=inf)
    priced_starts += [(cost, start) for cost, start in begun(others) if cost < FAR * least]
    left = MOST_TRIES
    for _, start in sorted(priced_starts, key=lambda entry: entry[0])[:BEST_STARTS]:
        left = _improve(start, ways, tried, left)
    return sorted(picks.values(), key=lambda pick: pick.cost)


def _improve(choice: dict[int, ENode], ways: Ways, tried: Tried, left: int) -> int:
    """Exchange the nodes of classes for better ones, one by one; return how many tries are left."""
    best = tried(choice)
    while best is not None and left > 0:
        before = best
        largest = sorted(before.order, key=lambda number: -before.points(number))
        others = [(n, node) for n in largest for node in ways[n] if node != choice[n]]
        for number, node in others[:left]:
            other = {**choice, number: node}
            pick = tried(other)
            if pick is not None and pick.cost < best.cost:
                best, choice = pick, other
        left -= len(others)
        if best is before:
            break
    return left


def solved(egraph: EGraph) -> dict[int, list[ENode]]:
    """Return for each class the nodes that need no ratio and no shift."""
    return {
        number: [
            node
            for node in egraph.nodes(number)
            if not isinstance(node.operator, (Ratio, Shift))
            and all(egraph.facts(child).is_solved for child in node.children)
            and not _looks_too_early(egraph, node)
        ]
        for number in egraph.classes
    }


def _looks_too_early(egraph: EGraph, node: ENode) -> bool:
    """Return whether a pass needs what is known only about finished folds over its axis."""
    return isinstance(node.operator, Online) and any(
        node.operator.axis.name in egraph.facts(child).whole for child in node.children
    )


def _starts(egraph: EGraph, ways: Ways, *, once: bool) -> Iterable[dict[int, ENode]]:
    """Yield the cheapest trees, for each choice of the sums computed in another sum's pass."""
    cascades = [
        number
        for number, nodes in ways.items()
        if any(isinstance(node.operator, Online) for node in nodes)
    ]
    entries = priced(egraph, ways)
    combinations = product((False, True), repeat=min(len(cascades), MOST_CASCADES))
    for chosen in combinations:
        last = len(chosen) - 1  # decides for all the others
        together = {number for k, number in enumerate(cascades) if chosen[min(k, last)]}
        apart = {*cascades} - together
        left = [
            entry
            for entry in entries
            if entry.number not in (apart if isinstance(entry.node.operator, Online) else together)
        ]
        yield cheapest(left, once=once)


class Entry(NamedTuple):
    """A node of a class, its cost, the classes that it needs, and how often."""

    number: int
    node: ENode
    cost: float
    parts: tuple[int, ...]
    positions: int


def priced(egraph: EGraph, ways: Ways) -> list[Entry]:
    """Return the nodes that a program may have, with their costs."""
    return [
        Entry(
            number, node, effort(node) + 1e-3, tuple(map(egraph.find, node.children)), times(node)
        )
        for number, nodes in ways.items()
        for node in nodes
    ]


def cheapest(entries: Iterable[Entry], *, once: bool = False) -> dict[int, ENode]:
    """Return for each class the node whose tree costs least, or would if axes had length 1."""
    entries, costs, choice = [*entries], dict[int, float](), dict[int, ENode]()
    is_new = True
    while is_new:
        is_new = False
        for number, node, cost, parts, count in entries:
            for part in parts:
                cost += costs.get(part, inf)
            cost *= 1 if once else count
            if cost < costs.get(number, inf):
                costs[number], choice[number] = cost, node
                is_new = True
    return choice
