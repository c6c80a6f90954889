"""Gradients of structural ops; sweep.py derives calls through their bodies."""

from __future__ import annotations

from typing import Any

from luminal_lab.core.ops import After, CustomGradient, GraphBreak
from luminal_lab.errors import DefinitionError, GraphError
from luminal_lab.passes.gradients.rule import Forward, Given, emit, gradient
from luminal_lab.tensor import Tensor


@gradient(GraphBreak)
def graph_break(node: Forward[GraphBreak], g: Tensor) -> Given:
    """Return g after a break of its own."""
    return emit(node.op, g)


@gradient(After)
def after(node: Forward[After], g: Tensor) -> Given:
    """Return g for the value, and None for the sources it only waits for."""
    return (g, *[None] * (len(node.types) - 1))


@gradient(CustomGradient)
def custom_gradient(node: Forward[CustomGradient], g: Tensor) -> Given:
    """Return the results of the user's backward function."""
    name = node.op.function
    backward = g.graph.backwards.get(name)
    if backward is None:
        raise GraphError(
            f"grad: the graph {g.graph.name!r} does not know the custom gradient {name!r}",
            hint="only the graph in which the function was called knows what it returned",
        )
    given: Any = backward(g)
    parts: list[Any] = [*given] if isinstance(given, (tuple, list)) else [given]
    count = len(node.types) - 1
    if len(parts) != count:
        raise DefinitionError(
            f"custom_gradient {name!r}: it takes {count} tensors, and its backward returned "
            f"{len(parts)} gradients",
            hint="return one for each tensor, or None for one that has none",
        )
    return (None, *parts)
