"""Functions that are spelled by a formula, and derived as what they are.

exp(x) is a product of four powers of 2, for accuracy; its gradient is g · exp(x) all the same, and
not what the product rule makes of the four.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from luminal_lab.core.ir import Lookup, Node
from luminal_lab.core.ops import Add, Mul, Sin
from luminal_lab.passes.gradients.rule import emit, scaled
from luminal_lab.passes.recognition.elementary import ELEMENTARY
from luminal_lab.passes.recognition.reading import Reading
from luminal_lab.tensor import Tensor

ADD, MUL, SIN = Add(), Mul(), Sin()


class Whole(NamedTuple):
    """A node that is a function of another, by a formula."""

    name: str
    source: int


def _exp(x: Callable[[], Tensor], y: Tensor, g: Tensor) -> Tensor:
    return emit(MUL, g, y)


def _sigmoid(x: Callable[[], Tensor], y: Tensor, g: Tensor) -> Tensor:
    rest = emit(ADD, scaled(y, -1.0), y.full_like(1.0))
    return emit(MUL, g, emit(MUL, y, rest))


def _cos(x: Callable[[], Tensor], y: Tensor, g: Tensor) -> Tensor:
    return emit(MUL, g, scaled(emit(SIN, x()), -1.0))


DERIVATIVES: Mapping[str, Callable[[Callable[[], Tensor], Tensor, Tensor], Tensor]] = {
    "exp": _exp,
    "sigmoid": _sigmoid,
    "cos": _cos,
}
"""What arrives at x, for the functions of it whose formulas are longer than their derivatives."""
RECOGNISERS = [one for one in ELEMENTARY if one.name in DERIVATIVES]
ROOTS = {op for one in RECOGNISERS for op in one.roots}


class Formulas:
    """The functions that a graph spells."""

    def __init__(self, graph: Lookup) -> None:
        self._reading = Reading(graph)

    def at(self, node: Node) -> Whole | None:
        """Return the function that ends at a node, if one does."""
        op = type(node.op)
        if op not in ROOTS:
            return None
        for one in RECOGNISERS:
            if op in one.roots:
                found = next(one.find(self._reading, node), None)
                if found is not None:
                    return Whole(one.name, found.x.id)
        return None
