"""Sums of products of two values, with each operand's axes as axes of the product.

An axis of the product is a batch if both operands have it and it is not summed; it is one of rows
or columns, if only the first or only the second has it; or it is summed, and then both have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeAlias

from luminal_lab.core.dims import Shape
from luminal_lab.core.ir import Node
from luminal_lab.core.ops import Constant, Expand, Mul, Permute, Reshape, SumReduce
from luminal_lab.passes.asking import kind_of
from luminal_lab.passes.recognition.reading import Reading, RecognisedRegion, same_but_ones

Labels: TypeAlias = tuple[int | None, ...]
"""The axis of the product for each axis of a value; None where its size is 1."""


@dataclass(frozen=True)
class SumOfProducts(RecognisedRegion):
    """A sum of products, with the axes of its operands and of its result."""

    labels: dict[str, Labels] = field(default_factory=dict[str, Labels])
    """The axes of the operands, by the names of the sources."""
    result: Labels = ()
    summed: frozenset[int] = frozenset()


def contraction(reading: Reading, node: Node) -> Iterator[SumOfProducts]:
    """Yield the contraction of a node, if it sums products of two values with different axes."""
    total = node
    if isinstance(node.op, Reshape):
        (total,) = reading.sources(node)
        why = "{} is a reshape that moves elements to other axes"
        if not reading.holds(same_but_ones(total.shape, node.shape), node, why, node):
            return
    product, axes = total, tuple[int, ...]()
    for product, axes in reading.reduced(total, SumReduce):  # noqa: B007  # the last one counts
        pass
    if not reading.holds(bool(axes), total, "{} is summed over axes of size 1 alone", product):
        return
    reading.reached("{} sums {}", total, product)
    if not isinstance(product.op, Mul):
        reading.missed(
            product, "{} is {}, and a sum of products is wanted", product, kind_of(product)
        )
        return
    reading.reached("{} is mul", product)
    summed = frozenset(axes)
    operands = [list(_below(reading, factor)) for factor in reading.sources(product)]
    a, b = (_named(steps[-1][1]) for steps in operands)
    every = _named(_positions(product.shape))
    factors = operands[0][0][0], operands[1][0][0]
    if not reading.holds(a != b, product, "{} and {} have the same axes", *factors):
        return
    why = "{} and {} do not both have all axes that are summed, {}"
    if not reading.holds(summed <= a & b, product, why, *factors, sorted(summed)):
        return
    why = "{} has axes that neither {} nor {} has"
    if not reading.holds(every <= a | b, product, why, product, *factors):
        return
    batch = (a & b) - summed
    left, right = (_operand(steps, batch, summed) for steps in operands)
    rest = iter(sorted(every - summed))
    result = tuple(None if dim == 1 else next(rest) for dim in node.shape)
    sizes = {"batch": batch, "rows": a - b, "columns": b - a, "summed": summed}
    told = ", ".join(f"{what} {_product(product.shape, of)}" for what, of in sizes.items() if of)
    yield SumOfProducts(
        "matmul",
        node,
        {"a": left[0], "b": right[0]},
        because=f"a sum of products of {left[0]} and {right[0]}: {told}",
        labels={"a": left[1], "b": right[1]},
        result=result,
        summed=summed,
    )


def _positions(shape: Shape) -> Labels:
    return tuple(None if dim == 1 else axis for axis, dim in enumerate(shape))


def _named(labels: Labels) -> set[int]:
    return {label for label in labels if label is not None}


def _product(shape: Shape, axes: AbstractSet[int]) -> str:
    return "·".join(str(shape[axis]) for axis in sorted(axes))


def _below(reading: Reading, node: Node) -> Iterator[tuple[Node, Labels]]:
    """Yield a factor and the values below its views, with labels, while views keep axes whole."""
    labels = _positions(node.shape)
    yield node, labels
    while True:
        match node.op:
            case Expand():
                (node,) = reading.sources(node)
                pairs = zip(labels, node.shape, strict=True)
                labels = tuple(None if dim == 1 else label for label, dim in pairs)
            case Permute(axes=axes):
                (node,) = reading.sources(node)
                moved = dict(zip(axes, labels, strict=True))
                labels = tuple(moved[axis] for axis in range(len(axes)))
            case Reshape(shape=shape):
                (source,) = reading.sources(node)
                if not same_but_ones(source.shape, shape):
                    return
                pairs = zip(labels, shape, strict=True)
                rest = iter([label for label, dim in pairs if dim != 1])
                labels = tuple(None if dim == 1 else next(rest) for dim in source.shape)
                node = source
            case Constant():  # it may be any shape, and no axis is its own
                yield node, (None,) * len(labels)
                return
            case _:
                return
        yield node, labels


def _operand(
    steps: list[tuple[Node, Labels]], batch: AbstractSet[int], summed: AbstractSet[int]
) -> tuple[Node, Labels]:
    """Return the view to use as the operand.

    That is the lowest one that is a matrix: its axes are in order except for the summed ones,
    which are adjacent and follow all batches. Repetition always belongs to the product.
    """
    own = _named(steps[-1][1])
    steps = [step for step in steps if _named(step[1]) == own]
    matrices = [step for step in steps if _is_matrix(step[1], batch, summed)]
    return matrices[-1] if matrices else steps[0]


def _is_matrix(labels: Labels, batch: AbstractSet[int], summed: AbstractSet[int]) -> bool:
    named = [label for label in labels if label is not None]
    inner = [label for label in named if label in summed]
    outer = [label for label in named if label not in summed]
    first = next(position for position, label in enumerate(named) if label in summed)
    together = named[first : first + len(inner)] == sorted(inner)
    return together and outer == sorted(outer) and batch.isdisjoint(named[first:])
