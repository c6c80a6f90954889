"""What a node computes, in NumPy: the judge of rules and of programs.

A value has a dimension for each axis, of size 1 if the value does not change along it. Folds over
an axis may stop after its first positions, as they stand in the middle of a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

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
from luminal_lab.core.dims import Dim, Symbol, evaluate_array, symbols
from luminal_lab.core.random import uniform
from luminal_lab.kernels.definition.running import LOWEST
from luminal_lab.kernels.definition.terms import Count, Draw, Number, Read, Term

Array: TypeAlias = npt.NDArray[Any]
Positions: TypeAlias = npt.NDArray[np.int64]
Stand: TypeAlias = tuple[tuple[str, int], ...]
"""How far folds have come along some axes; along other axes they are finished."""
FINISHED: Stand = ()


@dataclass
class Evaluation:
    """Values of nodes, for given arrays and dims."""

    node: Callable[[int], ENode]
    """The node for a number: as it was written, or as a program picks it."""
    buffers: Mapping[str, npt.NDArray[Any]]
    axes: Mapping[str, Positions]
    """All axes, in order, with the positions that are evaluated; for folds, all of them."""
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    wide: bool = True
    """Whether floats are computed in float64."""
    _moving: dict[int, frozenset[str]] = field(
        default_factory=dict[int, "frozenset[str]"], init=False
    )
    _values: dict[tuple[int, Stand], Array] = field(
        default_factory=dict[tuple[int, Stand], Array], init=False
    )

    def value(self, number: int, stand: Stand = FINISHED) -> Array:
        """Return the values of a number."""
        stand = tuple(along for along in stand if along[0] in self.moving(number))
        key = number, stand
        if key not in self._values:
            with np.errstate(all="ignore"):
                self._values[key] = self._computed(self.node(number), stand)
        return self._values[key]

    def values(self, number: int, stand: Stand = FINISHED) -> list[Array]:
        """Return the values of a number and of everything that it is computed from."""
        numbers, todo = dict[int, None](), [number]
        while todo:
            part = todo.pop()
            if part not in numbers:
                numbers[part] = None
                todo += self.node(part).children
        return [self.value(part, stand) for part in numbers]

    def moving(self, number: int) -> frozenset[str]:
        """Return the axes along which a number needs folds."""
        if number not in self._moving:
            node = self.node(number)
            moving = frozenset[str]().union(*map(self.moving, node.children))
            if isinstance(node.operator, (Folded, Online, Ratio, Shift, Rise)):
                moving |= {node.operator.axis.name}
            self._moving[number] = moving
        return self._moving[number]

    def _computed(self, node: ENode, stand: Stand) -> Array:
        match node.operator:
            case Leaf(term=term):
                return self._leaf(term)
            case Folded(kind=kind, axis=axis):
                lowest = LOWEST.get(node.operator.dtype) if axis.name in dict(stand) else None
                return self._folded(kind, axis, node.children[0], stand, lowest)
            case Online(axis=axis):
                return self._online(axis, node.children, stand)
            case Ratio(axis=axis):
                old, new = self._around(axis, node.children[0], stand)
                return new / old
            case First(axis=axis):
                return np.take(self.value(node.children[0], stand), [0], self._along(axis))
            case Shift(axis=axis) | Rise(axis=axis):
                old, new = self._around(axis, node.children[0], stand)
                return new - old
            case operator:
                return self._applied(operator, [self.value(part, stand) for part in node.children])

    def _applied(self, operator: Operator, parts: list[Array]) -> Array:
        match operator:
            case Sum(constant=constant, weights=weights):
                weighted = (
                    part if weight == 1 else part * part.dtype.type(weight)
                    for part, weight in zip(parts, weights, strict=True)
                )
                return sum(weighted, start=self._number(constant, parts[0].dtype))
            case Product(factor=factor):
                return np.prod(
                    np.broadcast_arrays(self._number(factor, parts[0].dtype), *parts), axis=0
                )
            case Applied(op=op):
                return np.asarray(op.bind(self.dims).eval(*np.broadcast_arrays(*parts)))
            case GuardedValue(holds=holds):
                return np.where(self._index(holds) != 0, parts[0], np.zeros_like(parts[0]))
            case Looked(buffer=buffer, index=index, axis=axis):
                return self._read(buffer, index, {axis: parts[0]})
            case _:
                raise AssertionError(operator)

    def _leaf(self, term: Term) -> Array:
        match term:
            case Number(value=value, dtype=dtype):
                return self._wide(np.full((1,) * len(self.axes), value, dtype.numpy))
            case Read(buffer=buffer, index=index):
                return self._read(buffer, index, {})
            case Count(at=at, dtype=dtype):
                return self._wide(self._index(at).astype(dtype.numpy))
            case Draw(seed=seed, stream=stream, at=at):
                counters = np.clip(self._index(at), 0, None)
                return self._wide(uniform(seed, stream, 0, counters))
            case _:
                raise AssertionError(term)

    def _read(self, buffer: str, index: Iterable[Dim], positions: Mapping[int, Array]) -> Array:
        array = self.buffers[buffer]
        indices = [positions.get(axis, self._index(dim)) for axis, dim in enumerate(index)]
        if not indices:
            return self._wide(array.reshape((1,) * len(self.axes)))
        # A position may be outside if a condition keeps it from being used.
        inside = [
            np.clip(index, 0, size - 1) for index, size in zip(indices, array.shape, strict=True)
        ]
        return self._wide(array[tuple(np.broadcast_arrays(*inside))])

    def _folded(
        self, kind: str, axis: Symbol, child: int, stand: Stand, lowest: float | None
    ) -> Array:
        """Return a fold; `lowest` is the start of a maximum that stands in the middle of a pass."""
        values, along = self.value(child, stand), self._along(axis)
        shape = [*values.shape]
        shape[along] = len(self.axes[axis.name])
        values = np.take(np.broadcast_to(values, shape), range(self._count(axis, stand)), along)
        if kind == "sum":
            return np.sum(values, along, keepdims=True, dtype=values.dtype)
        if lowest is None:
            return np.max(values, along, keepdims=True)
        return np.max(values, along, keepdims=True, initial=lowest)

    def _online(self, axis: Symbol, children: tuple[int, ...], stand: Stand) -> Array:
        ratio, body = children
        along = self._along(axis)
        total: Array = np.zeros((1,) * len(self.axes))
        for position in range(self._count(axis, stand)):
            factor = self.value(ratio, _stood(stand, axis.name, position))
            terms = self.value(body, _stood(stand, axis.name, position + 1))
            term = np.take(terms, [position if terms.shape[along] > 1 else 0], axis=along)
            total = total * np.take(factor, [0], axis=along) + term if position else term
        return total

    def _around(self, axis: Symbol, child: int, stand: Stand) -> tuple[Array, Array]:
        """Return the values of a class before and after the step that comes next."""
        done = dict(stand).get(axis.name, len(self.axes[axis.name]) - 1)
        before = self.value(child, _stood(stand, axis.name, done))
        return before, self.value(child, _stood(stand, axis.name, done + 1))

    def _along(self, axis: Symbol) -> int:
        return [*self.axes].index(axis.name)

    def _count(self, axis: Symbol, stand: Stand) -> int:
        return dict(stand).get(axis.name, len(self.axes[axis.name]))

    def _index(self, dim: Dim) -> Array:
        """Return an index expression at all positions of the axes in it."""
        values: dict[str, npt.NDArray[np.int64] | int] = dict(self.dims)
        for symbol in symbols(dim):
            if symbol.name in self.axes:
                shape = [1] * len(self.axes)
                shape[self._along(symbol)] = -1
                values[symbol.name] = self.axes[symbol.name].reshape(shape)
        result = np.asarray(evaluate_array(dim, values))
        return result if result.ndim else result.reshape((1,) * len(self.axes))

    def _number(self, value: float, dtype: np.dtype[Any]) -> Array:
        return np.full((1,) * len(self.axes), value, dtype)

    def _wide(self, values: Array) -> Array:
        return values.astype(np.float64) if self.wide and values.dtype.kind == "f" else values


def _stood(stand: Stand, axis: str, count: int) -> Stand:
    return tuple(sorted({**dict(stand), axis: count}.items()))
