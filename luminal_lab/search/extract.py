"""The best programs of an e-graph, by the model of what they cost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import product
from math import inf
from typing import NamedTuple, TypeAlias

from luminal_lab.core.dims import Dim
from luminal_lab.search.egraph import EGraph
from luminal_lab.search.language import Node, Online, Ratio, Shift
from luminal_lab.search.pick import CircleError, Pick, effort

MOST_CASCADES = 4
"""Up to so many choices between one pass and more, all combinations are tried."""
BEST_STARTS = 2
"""So many of them, the cheapest first, are then improved."""
MOST_TRIES = 300
"""So many programs are looked at, at most, to improve them."""
Ways: TypeAlias = Mapping[int, list[Node]]
"""For each class the nodes that a program may have of it."""
Tried: TypeAlias = Callable[[Mapping[int, Node]], "Pick | None"]


def programs(
    egraph: EGraph,
    outputs: Mapping[str, int],
    axes: Mapping[str, Dim],
    count: int = 8,
    without: Collection[tuple[int, Node]] = (),
) -> list[Pick]:
    """Return up to so many programs for outputs, the cheapest first, without some nodes."""
    ways = {
        number: [node for node in nodes if (number, node) not in without]
        for number, nodes in solved(egraph).items()
    }
    found: dict[frozenset[tuple[int, Node]], Pick] = {}

    def tried(choice: Mapping[int, Node]) -> Pick | None:
        pick = Pick(egraph, outputs, axes, choice)
        try:
            key = frozenset((number, pick.node(number)) for number in pick.order)
            if not pick.is_in_passes:
                return None
        except (CircleError, KeyError):
            return None
        return found.setdefault(key, pick)

    starts = [(start, tried(start)) for start in _starts(egraph, ways)]
    begun = [(pick.cost, start) for start, pick in starts if pick is not None]
    left = MOST_TRIES
    for _, start in sorted(begun, key=lambda entry: entry[0])[:BEST_STARTS]:
        left = _improve(start, ways, tried, left)
    return sorted(found.values(), key=lambda pick: pick.cost)[:count]


def _improve(choice: dict[int, Node], ways: Ways, tried: Tried, left: int) -> int:
    """Exchange one class's node after another for a better one; return how many may be tried."""
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


def solved(egraph: EGraph) -> dict[int, list[Node]]:
    """Return for each class the nodes that ask for no ratio and no shift."""
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


def _looks_too_early(egraph: EGraph, node: Node) -> bool:
    """Return whether a pass needs what is known only of finished folds over its axis."""
    return isinstance(node.operator, Online) and any(
        node.operator.axis.name in egraph.facts(child).whole for child in node.children
    )


def _starts(egraph: EGraph, ways: Ways) -> Iterable[dict[int, Node]]:
    """Yield cheapest trees, with each choice of the sums that go along in another one's pass."""
    cascades = [
        number
        for number, nodes in ways.items()
        if any(isinstance(node.operator, Online) for node in nodes)
    ]
    entries = priced(egraph, ways)
    combinations = product((False, True), repeat=min(len(cascades), MOST_CASCADES))
    for chosen in combinations:
        last = len(chosen) - 1  # decides for all others
        together = {number for k, number in enumerate(cascades) if chosen[min(k, last)]}
        apart = {*cascades} - together
        yield cheapest(
            entry
            for entry in entries
            if entry.number not in (apart if isinstance(entry.node.operator, Online) else together)
        )


class Entry(NamedTuple):
    """A node of a class, what it costs for each value, and the classes that it needs."""

    number: int
    node: Node
    cost: float
    parts: tuple[int, ...]


def priced(egraph: EGraph, ways: Ways) -> list[Entry]:
    """Return the nodes that a program may have, with what they cost."""
    return [
        Entry(number, node, effort(node) + 1e-3, tuple(map(egraph.find, node.children)))
        for number, nodes in ways.items()
        for node in nodes
    ]


def cheapest(entries: Iterable[Entry]) -> dict[int, Node]:
    """Return for each class the node whose tree costs least."""
    entries, costs, choice = [*entries], dict[int, float](), dict[int, Node]()
    is_new = True
    while is_new:
        is_new = False
        for number, node, cost, parts in entries:
            for part in parts:
                cost += costs.get(part, inf)
            if cost < costs.get(number, inf):
                costs[number], choice[number] = cost, node
                is_new = True
    return choice
