"""Ops in a form that does too much: products with one-hot rows, gathers of neighbours, orders.

i.one_hot(1000) @ table     1000 products for each element that is wanted    table[i]
x[[4, 5, 6, 7]]             positions are read from an array                 x[4:8]
(a @ b) @ v                 a product of matrices, and then one with v       a @ (b @ v)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from luminal_lab.advice.suspect import Case, Suspect, Variant, by_line, edited
from luminal_lab.core.dims import evaluate
from luminal_lab.core.edit import Edit
from luminal_lab.core.interpret import interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.ops import (
    Cast,
    Constant,
    Expand,
    Gather,
    Mul,
    Permute,
    Reshape,
    Scatter,
    Slice,
    SumReduce,
)
from luminal_lab.errors import LabError


@dataclass(frozen=True)
class Product:
    """A matrix product as tensors write it: (m, k) by (k, n)."""

    node: Node
    left: Node
    right: Node
    summed: Node
    """The sum within it, of shape (m, n, 1)."""


def product_of(ir: IR, node: Node) -> Product | None:
    """Return the parts of a product of two matrices, or None."""
    if not isinstance(node.op, Reshape) or len(node.shape) != 2:
        return None
    summed = ir[node.sources[0]]
    if not isinstance(summed.op, SumReduce) or summed.op.axis != 2 or len(summed.shape) != 3:
        return None
    times = ir[summed.sources[0]]
    if not isinstance(times.op, Mul):
        return None
    (left, right) = (_bare(ir, ir[id]) for id in times.sources)
    if not isinstance(right.op, Permute) or right.op.axes != (1, 0):
        return None
    right = ir[right.sources[0]]
    fits = len(left.shape) == len(right.shape) == 2 and left.shape[1] == right.shape[0]
    return Product(node, left, right, summed) if fits else None


def _bare(ir: IR, node: Node) -> Node:
    """Return what lies behind an expand and a reshape that adds an axis of size 1."""
    if isinstance(node.op, Expand):
        node = ir[node.sources[0]]
    if isinstance(node.op, Reshape) and len(node.shape) == 3:
        node = ir[node.sources[0]]
    return node


# -- one-hot ---------------------------------------------------------------------------------------


def one_hots(case: Case) -> Iterator[Suspect]:
    """Yield products of one-hot rows with a table."""
    ir = case.written
    lookups: dict[int, tuple[Product, Node]] = {}
    for node in ir.nodes:
        product = product_of(ir, node)
        index = None if product is None else _one_hot_of(ir, product.left)
        if product is not None and index is not None:
            lookups[node.id] = product, index
    for nodes in by_line(ir, [ir[id] for id in lookups]):
        pairs = [lookups[node.id] for node in nodes]
        table = pairs[0][0].right
        yield Suspect(
            "one-hot",
            "a product with one-hot rows looks up rows of a table",
            f"each element is a sum of {table.shape[0]} products, of which all but one are 0",
            f"index instead: {str(table).removeprefix('%') or 'table'}[i]",
            tuple(node.id for node in nodes),
            partial(_looked_up, ir, pairs),
        )


def _one_hot_of(ir: IR, node: Node) -> Node | None:
    """Return the positions of a one-hot tensor, of shape (m, 1); None for any other."""
    if isinstance(node.op, Cast):
        node = ir[node.sources[0]]
    if not isinstance(node.op, Scatter) or node.op.mode != "set" or node.op.axis != 1:
        return None
    base, index, ones = (ir[id] for id in node.sources)
    is_hot = all(isinstance(part.op, Constant) for part in (base, ones))
    values = [part.op.value for part in (base, ones) if isinstance(part.op, Constant)]
    return index if is_hot and values == [0, 1] and index.shape[1] == 1 else None


def _looked_up(ir: IR, pairs: list[tuple[Product, Node]]) -> Variant:
    def change(edit: Edit) -> None:
        for product, index in pairs:
            rows, columns = product.node.shape
            wide = edit.insert(Expand((rows, columns)), index, like=product.node)
            looked = edit.insert(Gather(0), product.right, wide, like=product.node)
            edit.replace(product.node.id, looked)

    return Variant(edited(ir, change))


# -- a gather of neighbours ------------------------------------------------------------------------


def gathers(case: Case) -> Iterator[Suspect]:
    """Yield gathers from consecutive positions."""
    ir = case.written
    spans: dict[int, tuple[int, int]] = {}
    for node in ir.nodes:
        if isinstance(node.op, Gather):
            start = _start_of(case, node)
            if start is not None:
                spans[node.id] = start
    for nodes in by_line(ir, [ir[id] for id in spans]):
        start, count = spans[nodes[0].id]
        yield Suspect(
            "gather",
            "a gather whose positions are consecutive",
            "the positions are read from an array and each is checked; a slice is a view, and its "
            "neighbours are read together",
            f"slice instead, as in x[{start}:{start + count}]",
            tuple(node.id for node in nodes),
            partial(_sliced, ir, {node.id: spans[node.id] for node in nodes}),
        )


def _start_of(case: Case, node: Node) -> tuple[int, int] | None:
    """Return the first position and the count, if positions are consecutive."""
    ir, dims = case.written, case.environment.dims
    assert isinstance(node.op, Gather)
    axis, index = node.op.axis, ir[node.sources[1]]
    whole, part = (
        [evaluate(dim, dims) for dim in ir[id].shape] for id in (node.sources[0], index.id)
    )
    if part[:axis] + part[axis + 1 :] != whole[:axis] + whole[axis + 1 :] or part[axis] < 2:
        return None
    try:
        positions = interpret(ir, case.environment._replace(probes={}), wanted=[index.id])[index.id]
    except LabError:
        return None
    line = np.moveaxis(positions, axis, 0).reshape(part[axis], -1)
    start = int(line[0, 0])
    follows = (line == start + np.arange(part[axis])[:, None]).all()
    return (start, part[axis]) if follows and start >= 0 else None


def _sliced(ir: IR, found: dict[int, tuple[int, int]]) -> Variant:
    def change(edit: Edit) -> None:
        for id, (start, count) in found.items():
            node = ir[id]
            assert isinstance(node.op, Gather)
            axis, source = node.op.axis, ir[node.sources[0]]
            begin, end = [0] * len(source.shape), [*source.shape]
            begin[axis], end[axis] = start, start + count
            op = Slice(tuple(begin), tuple(end), (1,) * len(begin))
            edit.replace(id, edit.insert(op, source, like=id))

    return Variant(edited(ir, change))


# -- the order of products -------------------------------------------------------------------------


def orders(case: Case) -> Iterator[Suspect]:
    """Yield products of products that cost less in another order."""
    ir, dims = case.written, case.environment.dims
    better: dict[int, tuple[Product, Product, float, bool]] = {}
    for node in ir.nodes:
        outer = product_of(ir, node)
        if outer is None:
            continue
        for inner_node, is_left in ((outer.left, True), (outer.right, False)):
            inner = product_of(ir, inner_node)
            is_shared = len(ir.users(inner_node)) > 1 or inner_node.id in ir.output_ids
            if inner is None or is_shared:
                continue
            m, n = (evaluate(dim, dims) for dim in node.shape)
            a, k = (evaluate(dim, dims) for dim in inner.left.shape)
            b = evaluate(inner.right.shape[1], dims)
            # (a k)(k b)(b n) from the left, or (m a)(a k)(k b) from the right
            now, then = (
                (a * k * b + m * b * n, k * b * n + m * k * n)
                if is_left
                else (a * k * b + m * a * n, m * a * k + m * k * n)
            )
            if then * 1.2 < now:
                better[node.id] = outer, inner, now / then, is_left
    for nodes in by_line(ir, [ir[id] for id in better]):
        outer, inner, ratio, is_left = better[nodes[0].id]
        shapes = [
            " × ".join(map(str, part.shape))
            for part in (
                (inner.left, inner.right, outer.right)
                if is_left
                else (outer.left, inner.left, inner.right)
            )
        ]
        order = "a @ (b @ c)" if is_left else "(a @ b) @ c"
        yield Suspect(
            "order",
            "a product of products in the more expensive order",
            f"{ratio:.3g} times as many operations as {order}, for {', '.join(shapes)}",
            f"write {order}; or cx.search(), which finds it",
            tuple(node.id for node in nodes),
            partial(_reordered, ir, [better[node.id] for node in nodes]),
        )


def _reordered(ir: IR, better: list[tuple[Product, Product, float, bool]]) -> Variant:
    def change(edit: Edit) -> None:
        for outer, inner, _, is_left in better:
            if is_left:
                later = _times(edit, inner.right, outer.right, outer.node)
                new = _times(edit, inner.left, later, outer.node)
            else:
                first = _times(edit, outer.left, inner.left, outer.node)
                new = _times(edit, first, inner.right, outer.node)
            edit.replace(outer.node.id, new)

    return Variant(edited(ir, change))


def _times(edit: Edit, left: Node, right: Node, like: Node) -> Node:
    """Insert a matrix product as tensors write it."""
    (m, k), n = left.shape, right.shape[1]
    a = edit.insert(Reshape((m, 1, k)), left, like=like)
    turned = edit.insert(Permute((1, 0)), right, like=like)
    b = edit.insert(Reshape((1, n, k)), turned, like=like)
    wide = [edit.insert(Expand((m, n, k)), side, like=like) for side in (a, b)]
    summed = edit.insert(SumReduce(2), edit.insert(Mul(), *wide, like=like), like=like)
    return edit.insert(Reshape((m, n)), summed, like=like)
