"""A pick: one node for each class that the outputs need; this is a program, in passes along axes.

A fold moves along its axis once, in a pass; what needs its finished value comes in a later pass. A
rescaling fold (Online) uses folds over its axis as they stand, in the same pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from math import inf

from luminal_lab.algebra.egraph import EGraph
from luminal_lab.algebra.language import (
    Applied,
    ENode,
    First,
    Folded,
    GuardedValue,
    Leaf,
    Looked,
    Online,
    Operator,
    Product,
    Ratio,
    Rise,
    Shift,
    Sum,
)
from luminal_lab.core.dims import Dim, Symbol, symbols
from luminal_lab.core.ops import Add
from luminal_lab.kernels.definition.cost import typical
from luminal_lab.kernels.definition.terms import Number, free

KEPT = 6.0
"""The cost of storing a number and loading it again, in additions."""


class CircleError(Exception):
    """Nodes of a pick depend on each other in a circle."""


class Pick:
    """A choice of one node for each class, with what follows from it."""

    def __init__(
        self,
        egraph: EGraph,
        outputs: Mapping[str, int],
        axes: Mapping[str, Dim],
        choice: Mapping[int, ENode],
    ) -> None:
        self.egraph = egraph
        self.outputs = {name: self.lead(number) for name, number in outputs.items()}
        self.sizes = axes
        """The axes of the outputs, with their sizes."""
        self.choice = choice

        self._parts: dict[int, tuple[int, ...]] = {}

    def lead(self, number: int) -> int:
        """Return the number that stands for all equal numbers: their class."""
        return self.egraph.find(number)

    def node(self, number: int) -> ENode:
        """Return the node that computes a class."""
        return self.choice[number if number in self.choice else self.lead(number)]

    def parts(self, number: int) -> tuple[int, ...]:
        """Return the classes that a class is computed from."""
        if number not in self._parts:
            self._parts[number] = tuple(map(self.lead, self.node(number).children))
        return self._parts[number]

    @cached_property
    def order(self) -> list[int]:
        """The classes that the outputs need, parts first."""
        visited: dict[int, bool] = {}

        def visit(number: int) -> None:
            if number in visited:
                if not visited[number]:
                    raise CircleError
                return
            visited[number] = False
            for part in self.parts(number):
                visit(part)
            del visited[number]
            visited[number] = True

        for number in self.outputs.values():
            visit(number)
        return [*visited]

    @cached_property
    def is_in_passes(self) -> bool:
        """Whether everything computed inside a pass needs no fold with a pass of its own."""
        return all(
            not (isinstance(node.operator, Folded) and node.operator.axis == axis)
            or axis.name not in self.moving[self.parts(number)[0]]
            for number, axis in self.within
            for node in [self.node(number)]
        )

    @cached_property
    def within(self) -> set[tuple[int, Symbol]]:
        """The classes that a pass along an axis needs as they stand."""
        within: set[tuple[int, Symbol]] = set()
        for number in self.order:
            operator = self.node(number).operator
            if isinstance(operator, Online):
                todo = [*self.parts(number)]
                while todo:
                    part = todo.pop()
                    if (part, operator.axis) not in within:
                        within.add((part, operator.axis))
                        todo += self.parts(part)
        return within

    @cached_property
    def moving(self) -> dict[int, frozenset[str]]:
        """For each class, the axes along which it needs folds, as computed here."""
        moving: dict[int, frozenset[str]] = {}
        for number in self.order:
            moving[number] = frozenset[str]().union(*[moving[part] for part in self.parts(number)])
            operator = self.node(number).operator
            if isinstance(operator, (Folded, Online, Rise)):
                moving[number] |= {operator.axis.name}
        return moving

    @cached_property
    def axes(self) -> dict[int, frozenset[str]]:
        """The axes along which each class has values of its own, as computed here."""
        axes_of: dict[int, frozenset[str]] = {}
        known = {*self.sizes, *self.lengths}  # indices may mention dims, too
        for number in self.order:
            operator = self.node(number).operator
            axes = (mentioned(operator) & known).union(
                *[axes_of[part] for part in self.parts(number)]
            )
            match operator:
                case Folded(axis=axis) | Online(axis=axis) | First(axis=axis):
                    axes -= {axis.name}
                case _:
                    pass
            axes_of[number] = axes
        return axes_of

    @cached_property
    def extents(self) -> dict[str, int]:
        """The size of each axis, as a number."""
        return {name: typical(size) for name, size in {**self.sizes, **self.lengths}.items()}

    @cached_property
    def lengths(self) -> dict[str, Dim]:
        """The axes of the folds, with their sizes."""
        lengths: dict[str, Dim] = {}
        for number in self.order:
            match self.node(number).operator:
                case Folded(axis=axis, size=size) | Online(axis=axis, size=size):
                    lengths[axis.name] = size
                case _:
                    pass
        return lengths

    def points(self, number: int) -> int:
        """Return how many values a class has."""
        total = 1
        for name in self.axes[number]:
            total *= self.extents.get(name, 1)
        return total

    # -- passes ------------------------------------------------------------------------------------

    def level(self, number: int, axis: str) -> int:
        """Return how many passes along an axis come before a class is finished."""
        return self._levels[axis, False, self.lead(number)]

    def passes(self, axis: str) -> int:
        """Return how many passes along an axis there are."""
        along = [
            self.level(number, axis) + (axis in self.axes[number])
            for number in self.outputs.values()
        ]
        return max(along, default=0)

    @cached_property
    def _levels(self) -> dict[tuple[str, bool, int], int]:
        """For each axis and class, the passes before it, finished and as it stands in a pass."""
        levels: dict[tuple[str, bool, int], int] = defaultdict(int)
        for number in self.order:
            operator, parts = self.node(number).operator, self.parts(number)
            for axis in self.moving[number]:
                finished = running = 0
                for part in parts:
                    finished = max(finished, levels[axis, False, part])
                    running = max(running, levels[axis, True, part])
                match operator:
                    case Folded(axis=own) if own.name == axis:
                        finished, running = finished + 1, finished
                    case Online(axis=own) if own.name == axis:
                        finished = running + 1
                    case Rise(axis=own) if own.name == axis:
                        finished = running
                    case _:
                        pass
                levels[axis, False, number], levels[axis, True, number] = finished, running
        return levels

    # -- cost --------------------------------------------------------------------------------------

    @cached_property
    def cost(self) -> float:
        """The program's cost in additions: a model, which orders what is measured."""
        return sum(self.points(number) * min(self._costs(number)) for number in self.order)

    def is_kept(self, number: int) -> bool:
        """Return whether storing the values of a class costs less than recomputing them."""
        again, kept = self._costs(number)
        return kept < again

    def _costs(self, number: int) -> tuple[float, float]:
        """Return the cost of a class's value if each pass computes it, and if one stores it."""
        each, times = effort(self.node(number)), self._times(number)
        match self.node(number).operator:
            case Folded(axis=axis) | Online(axis=axis):
                each *= self.extents[axis.name]
            case _:
                pass
        is_known = times > 1 and number not in self._kept_by_nobody
        return each * times, each + KEPT * times if is_known else inf

    def _times(self, number: int) -> int:
        """Return in how many passes a class is needed."""
        return max([len(self._needed.get((name, number), ())) for name in self.axes[number]] or [1])

    @cached_property
    def _needed(self) -> dict[tuple[str, int], set[tuple[int, bool]]]:
        """For each axis and class, the passes that need it, and whether with running folds."""
        todo = [
            (axis, number, self.level(number, axis), False)
            for number in self.outputs.values()
            for axis in self.axes[number]
        ]
        for number in self.order:
            match self.node(number).operator:
                case Folded(axis=axis):
                    body, at = self.parts(number)[0], self.level(number, axis.name) - 1
                    todo.append((axis.name, body, at, False))
                case Online(axis=axis):
                    body, at = self.parts(number)[1], self.level(number, axis.name) - 1
                    todo.append((axis.name, body, at, True))
                case _:
                    pass
        needed: dict[tuple[str, int], set[tuple[int, bool]]] = defaultdict(set)
        axes = self.axes
        while todo:
            axis, number, at, running = todo.pop()
            held = needed[axis, number]
            where = at, running and axis in self.egraph.facts(number).moving
            if axis in axes[number] and where not in held:
                held.add(where)
                todo += [
                    (axis, part, at, running) for part in self.parts(number) if axis in axes[part]
                ]
        return needed

    @cached_property
    def _kept_by_nobody(self) -> set[int]:
        """The classes that are needed as they stand in a pass: these are never stored."""
        return {
            number
            for (_, number), places in self._needed.items()
            if any(running for _, running in places)
        }


def effort(node: ENode) -> float:
    """Return the cost of a node for each value, in additions."""
    match node.operator:
        case Sum(constant=constant, weights=weights):
            return len(weights) - 1 + (constant != 0) + sum(abs(each) != 1 for each in weights)
        case Product(factor=factor):
            return len(node.children) - 1 + (factor != 1)
        case Applied(op=op):
            return op.cost
        case Leaf(term=Number()):
            return 0
        case Leaf() | Looked():
            return 1
        case Folded():
            return Add().cost
        case Online():
            return 1
        case Ratio() | Shift():
            return float("inf")
        case Rise() | GuardedValue() | First():
            return 1


def times(node: ENode) -> int:
    """Return at how many positions a node needs its parts for each value."""
    match node.operator:
        case Folded(size=size) | Online(size=size):
            return typical(size)
        case _:
            return 1


def mentioned(operator: Operator) -> frozenset[str]:
    """Return the names of the indices in an operator."""
    match operator:
        case Leaf(term=term):
            return frozenset(free(term))
        case GuardedValue(holds=holds):
            return frozenset(symbol.name for symbol in symbols(holds))
        case Looked(index=index):
            return frozenset(symbol.name for dim in index for symbol in symbols(dim))
        case Applied(op=op):
            return frozenset(symbol.name for symbol in op.symbols())
        case _:
            return frozenset()
