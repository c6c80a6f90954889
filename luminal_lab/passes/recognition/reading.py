"""The recognisers' view of a graph: past repetition, constants as numbers, calls by bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from luminal_lab.core.dims import Dim, Expr, Shape
from luminal_lab.core.dtypes import DType
from luminal_lab.core.ir import Node, NodeLookup
from luminal_lab.core.op import Elementwise, Op, Reduce, Scalar, View
from luminal_lab.core.ops import Add, Call, Constant, Expand, Iota, Mul, Recip, Reshape
from luminal_lab.core.views import ComposedView
from luminal_lab.passes.asking import Asking
from luminal_lab.passes.pattern import OpPattern, find


@dataclass(frozen=True)
class RecognisedRegion:
    """A named region of a graph."""

    kind: str
    root: Node
    sources: dict[str, Node]
    """The sources of the region, by the names of its inputs."""
    axes: tuple[int, ...] = ()
    """The axes of the first source along which it works, except those of size 1."""
    because: str = ""

    @property
    def x(self) -> Node:
        """The first source."""
        return next(iter(self.sources.values()))

    @property
    def keeps_axes(self) -> bool:
        """Whether a reduction leaves its axes, with size 1."""
        kept = [1 if k in self.axes else dim for k, dim in enumerate(self.x.shape)]
        return self.root.shape == tuple(kept)


F = TypeVar("F", bound=RecognisedRegion)
F_co = TypeVar("F_co", bound=RecognisedRegion, covariant=True)
COUNTED = (Constant, Iota)
"""Ops that produce values without sources and at no cost."""


@dataclass(frozen=True)
class Recogniser(Generic[F_co]):
    """A search for regions of one kind at their roots, the largest first."""

    name: str
    roots: tuple[type[Op], ...]
    find: Callable[[Reading, Node], Iterator[F_co]]
    near: Mapping[type[Op], int] = field(default_factory=dict[type[Op], int])
    """Ops of which each region has one, with the most ops from there to the root, which counts.

    Views do not count: they go anywhere. Without any, all roots are looked at.
    """


Known: TypeAlias = dict[tuple[str, int], RecognisedRegion | None]
"""The regions of bodies, by the name of the recogniser and the identity of the body."""


class Reading(Asking):
    """A graph in the recognisers' view."""

    def __init__(self, graph: NodeLookup, known: Known | None = None) -> None:
        self.graph = graph
        self._known: Known = {} if known is None else known
        self._is_known: dict[int, bool] = {}

    def sources(self, node: Node) -> tuple[Node, ...]:
        """Return the sources of a node."""
        flat = self.graph.table.flat
        return tuple([source for id in node.sources if (source := flat[id]) is not None])

    def source(self, node: Node, op: type[Op]) -> Node | None:
        """Return the sources of a node with this op, past repetition on both sides."""
        if isinstance(node.op, (Expand, Reshape)):
            node = self.base(node)
        return self.base(self.sources(node)[0]) if isinstance(node.op, op) else None

    def pairs(self, node: Node, op: type[Op]) -> Iterator[tuple[Node, Node]]:
        """Yield the sources of a commutative op in both orders, if a node has that op."""
        if isinstance(node.op, op):
            first, second = self.sources(node)
            yield first, second
            if first is not second:
                yield second, first

    def at(self, recogniser: Recogniser[F], node: Node) -> F | None:
        """Return the region at a node; a call counts by its body, whatever its name."""
        if not isinstance(node.op, Call):
            return next(recogniser.find(self, node), None)
        body = node.op.body
        key = recogniser.name, id(body)
        if key not in self._known:
            self._known[key] = (
                None if node.extra else _inside(recogniser, Reading(body, self._known))
            )
        region = self._known[key]
        if region is None:
            return None
        outer = dict(zip(body.input_ids, self.sources(node), strict=True))
        sources = {name: outer[source.id] for name, source in region.sources.items()}
        return replace(region, root=node, sources=sources)  # pyright: ignore[reportReturnType]  # of this recogniser

    def found(self, pattern: OpPattern, node: Node) -> Iterator[dict[str, Any]]:
        """Yield what the variables of a pattern stand for at a node."""
        return find(pattern, node, self.graph)

    def same(self, node: Node, other: Node, what: str) -> bool:
        """Return whether a node is the wanted one, named `what` in a reason."""
        return self.holds(node is other, node, "{} is not {}, {}", node, other, what)

    # -- repetition --------------------------------------------------------------------------------

    def base(self, node: Node) -> Node:
        """Return the node below views that only repeat it along axes."""
        if not isinstance(node.op, (Expand, Reshape)):
            return node
        base, at, ops = node, node, list[View]()
        while isinstance(at.op, (Expand, Reshape)):
            ops.append(at.op)
            (at,) = self.sources(at)
            if only_repeats(at.shape, tuple(reversed(ops)), node.shape):
                base = at
        return base

    def squeezed(self, node: Node) -> Node:
        """Return the node below reshapes that only add or drop axes of size 1."""
        while isinstance(node.op, Reshape):
            (source,) = self.sources(node)
            if not same_but_ones(source.shape, node.shape):
                break
            node = source
        return node

    # -- numbers -----------------------------------------------------------------------------------

    def number(self, node: Node) -> Scalar | None:
        """Return the number of a constant, past repetition."""
        end = node
        while isinstance(end.op, (Expand, Reshape)):
            (end,) = self.sources(end)
        if not isinstance(end.op, Constant):
            return None
        op = self.base(node).op
        return op.value if isinstance(op, Constant) else None

    def is_number(self, node: Node, value: float) -> bool:
        """Return whether all elements of a value are this number, rounded to its dtype."""
        number = self.number(node)
        return (
            number is not None and not isinstance(number, Expr) and _same(number, value, node.dtype)
        )

    def is_reciprocal(self, node: Node, count: Dim) -> bool:
        """Return whether a value is 1 over a count, which may be symbolic."""
        if isinstance(count, int) and count > 0 and self.is_number(node, 1 / count):
            return True
        below = self.source(node, Recip)
        value = None if below is None else self.number(below)
        return value is not None and (value == count) is True

    def multiple(self, node: Node, factor: float) -> Node | None:
        """Return the other factor of a product with a number, past repetition."""
        for value, number in self.pairs(self.base(node), Mul):
            if self.is_number(number, factor):
                return self.base(value)
        return None

    def difference(self, node: Node) -> Iterator[tuple[Node, Node]]:
        """Yield x and y of a node x + y · -1; y without repetition."""
        for x, less in self.pairs(node, Add):
            y = self.multiple(less, -1)
            if y is not None:
                yield x, y

    # -- reductions --------------------------------------------------------------------------------

    def reduced(self, node: Node, op: type[Reduce]) -> Iterator[tuple[Node, tuple[int, ...]]]:
        """Yield the source of a chain of reductions, and the reduced axes of other sizes than 1."""
        axes: set[int] = set()
        while isinstance(node.op, op):
            axis = node.op.axis
            (node,) = self.sources(node)
            axes |= {axis} - {axis for axis, dim in enumerate(node.shape) if dim == 1}
            yield node, tuple(sorted(axes))
            if isinstance(node.op, Reshape):
                (source,) = self.sources(node)
                merged = merged_axes(source.shape, node.shape)
                if merged and merged[0] == axis:
                    node = source
                    axes |= {axis for axis in merged if node.shape[axis] != 1}
                    yield node, tuple(sorted(axes))

    # -- what needs no data ------------------------------------------------------------------------

    def is_known(self, node: Node) -> bool:
        """Return whether a value is an elementwise function of constants and counting alone."""
        if node.id not in self._is_known:
            self._is_known[node.id] = self._needs_no_data(node)
        return self._is_known[node.id]

    def _needs_no_data(self, node: Node) -> bool:
        sources = self.sources(node)
        if sources:
            plain = isinstance(node.op, (Elementwise, View))
            return plain and all(self.is_known(source) for source in sources)
        body = node.op.body_of()
        if body is not None:
            return all(isinstance(inner.op, (*COUNTED, Elementwise, View)) for inner in body)
        return isinstance(node.op, COUNTED)


def _inside(recogniser: Recogniser[F], body: Reading) -> F | None:
    """Return the region that a whole body forms."""
    ir = body.graph
    root = ir[ir.signature.outputs[0]]
    region = body.at(recogniser, root)
    inputs = set(ir.signature.inputs)
    if region is None or any(source.id not in inputs for source in region.sources.values()):
        return None
    return region


def _same(a: Scalar, b: float, dtype: DType) -> bool:
    """Return whether two numbers are the same value in a dtype."""
    with np.errstate(over="ignore"):
        left, right = (np.asarray(number).astype(dtype.numpy) for number in (a, b))
    return bool(left == right)


@lru_cache(1 << 12)
def only_repeats(shape: Shape, ops: tuple[View, ...], wide: Shape) -> bool:
    """Return whether views from a shape to a wider one act as an expand."""
    if len(shape) != len(wide) or any(a not in (1, b) for a, b in zip(shape, wide, strict=True)):
        return False
    start = ComposedView.identity(shape)
    return len(ops) == 1 or start.then(*ops).index == start.then(Expand(wide)).index


def same_but_ones(left: Shape, right: Shape) -> bool:
    """Return whether two shapes are equal but for axes of size 1."""
    a, b = ([dim for dim in shape if dim != 1] for shape in (left, right))
    return a == b


def merged_axes(old: Shape, new: Shape) -> tuple[int, ...]:
    """Return the neighbouring axes that a reshape merged into the first of them, or none."""
    if len(old) != len(new):
        return ()
    differing = [axis for axis, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    if not differing:
        return ()
    axes = tuple(range(differing[0], differing[-1] + 1))
    return axes if all(new[axis] == 1 for axis in axes[1:]) else ()
