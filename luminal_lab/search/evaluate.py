"""What a node computes, in NumPy: the judge of rules and of programs.

A value has a dimension for each axis, of size 1 where the value is the same all along it. Folds
over an axis may be over its first positions alone: as they stand in a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from luminal_lab.core.dims import Dim, Symbol, evaluate, evaluate_array, symbols
from luminal_lab.kernels.definition.terms import LOWEST, Count, Draw, Number, Read, Term
from luminal_lab.search.language import (
    Applied,
    Folded,
    Guarded,
    Leaf,
    Looked,
    Node,
    Online,
    Product,
    Ratio,
    Rise,
    Shift,
    Sum,
)

Array: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.generic]]"
Stand: TypeAlias = tuple[tuple[str, int], ...]
"""How far along which axes folds have come; those of other axes are finished."""
FINISHED: Stand = ()


@dataclass
class Evaluation:
    """Values of nodes, for given arrays and dims."""

    node: Callable[[int], Node]
    """What computes a number: as it was written, or as a program picks."""
    buffers: Mapping[str, Array]
    axes: Mapping[str, int]
    """All axes, in order, with their sizes."""
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    wide: bool = True
    """Whether floats are computed in float64."""
    _known: dict[tuple[int, Stand], Array] = field(default_factory=dict[tuple[int, Stand], Array])

    def value(self, number: int, stand: Stand = FINISHED) -> Array:
        """Return the values of a number."""
        key = number, stand
        if key not in self._known:
            self._known[key] = self._computed(self.node(number), stand)
        return self._known[key]

    def _computed(self, node: Node, stand: Stand) -> Array:
        operator, children = node.operator, node.children
        match operator:
            case Leaf(term=term):
                return self._leaf(term)
            case Folded(kind=kind, axis=axis):
                return self._folded(kind, axis, children[0], stand)
            case Online(axis=axis):
                return self._online(axis, children, stand)
            case Ratio(axis=axis) | Shift(axis=axis) | Rise(axis=axis):
                old, new = self._around(axis, children[0], stand)
                return new / old if isinstance(operator, Ratio) else new - old
            case _:
                pass
        parts = [self.value(child, stand) for child in children]
        match operator:
            case Sum(constant=constant, weights=weights):
                total = self._number(constant, parts[0].dtype)
                for part, weight in zip(parts, weights, strict=True):
                    total = total + (part if weight == 1 else part * np.asarray(weight, part.dtype))
                return total
            case Product(factor=factor):
                total = self._number(factor, parts[0].dtype)
                for part in parts:
                    total = total * part
                return total
            case Applied(op=op):
                return op.eval(*np.broadcast_arrays(*parts))
            case Guarded(holds=holds):
                return np.where(self._index(holds) != 0, parts[0], np.zeros_like(parts[0]))
            case Looked(buffer=buffer, index=index, axis=axis):
                places = [self._index(place) for place in index]
                places[axis] = parts[0]
                return self._wide(self.buffers[buffer][tuple(np.broadcast_arrays(*places))])
            case _:
                raise AssertionError(operator)

    # -- parts -------------------------------------------------------------------------------------

    def _leaf(self, term: Term) -> Array:
        rank = (1,) * len(self.axes)
        match term:
            case Number(value=value, dtype=dtype):
                return self._wide(np.full(rank, value, dtype.numpy))
            case Read(buffer=buffer, index=index):
                places = np.broadcast_arrays(*map(self._index, index)) if index else ()
                # Where a condition keeps it from being used, a position may be outside.
                shape = self.buffers[buffer].shape
                inside = tuple(
                    np.clip(place, 0, size - 1) for place, size in zip(places, shape, strict=True)
                )
                values = self.buffers[buffer][inside]
                return self._wide(values if index else values.reshape(rank))
            case Count(at=at, dtype=dtype):
                return self._wide(self._index(at).astype(dtype.numpy))
            case Draw():
                raise NotImplementedError
            case _:
                raise AssertionError(term)

    def _folded(self, kind: str, axis: Symbol, child: int, stand: Stand) -> Array:
        values = self.value(child, stand)
        along = [*self.axes].index(axis.name)
        count = dict(stand).get(axis.name, self.axes[axis.name])
        shape = [*values.shape]
        shape[along] = self.axes[axis.name]
        values = np.take(np.broadcast_to(values, shape), range(count), axis=along)
        if kind == "sum":
            return values.sum(along, keepdims=True, dtype=values.dtype)
        start = np.finfo(values.dtype).min if values.dtype.kind == "f" else None
        if start is None:
            return values.max(along, keepdims=True)
        return values.max(along, keepdims=True, initial=start)

    def _online(self, axis: Symbol, children: tuple[int, ...], stand: Stand) -> Array:
        ratio, body = children
        along = [*self.axes].index(axis.name)
        count = dict(stand).get(axis.name, self.axes[axis.name])
        total: Array = np.zeros((1,) * len(self.axes))
        for position in range(count):
            before = self.value(ratio, _at(stand, axis.name, position))
            terms = self.value(body, _at(stand, axis.name, position + 1))
            last = terms.shape[along] > 1
            term = np.take(terms, [position if last else 0], axis=along)
            scaled = np.take(before, [0], axis=along)
            total = (total * scaled if position else np.zeros_like(term)) + term
        return total

    def _around(self, axis: Symbol, child: int, stand: Stand) -> tuple[Array, Array]:
        """Return the values of a class before and after the step that comes next."""
        done = dict(stand).get(axis.name, self.axes[axis.name] - 1)
        first = self.value(child, _at(stand, axis.name, done))
        return first, self.value(child, _at(stand, axis.name, done + 1))

    def _index(self, dim: Dim) -> Array:
        """Return an index expression at all positions of the axes in it."""
        names = [*self.axes]
        values: dict[str, object] = {}
        for symbol in symbols(dim):
            if symbol.name in self.axes:
                shape = [1] * len(names)
                shape[names.index(symbol.name)] = self.axes[symbol.name]
                values[symbol.name] = np.arange(self.axes[symbol.name]).reshape(shape)
            else:
                values[symbol.name] = self.dims[symbol.name]
        result = np.asarray(evaluate_array(dim, values))  # pyright: ignore[reportArgumentType]
        return result if result.ndim else result.reshape((1,) * len(names))

    def _number(self, value: float, dtype: np.dtype[np.generic]) -> Array:
        return np.full((1,) * len(self.axes), value, dtype)

    def _wide(self, values: Array) -> Array:
        return values.astype(np.float64) if self.wide and values.dtype.kind == "f" else values


def _at(stand: Stand, axis: str, count: int) -> Stand:
    return tuple(sorted({**dict(stand), axis: count}.items()))
