"""The distance of each value of a graph from its float64 result: the overlay "numeric error"."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from luminal_lab.core.binding import bound_shape
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.interpret import Environment, Probe, interpret
from luminal_lab.core.ir import IR, Node, Table
from luminal_lab.core.op import Op, TensorType, View, ints
from luminal_lab.core.ops import Bitcast, Cast
from luminal_lab.core.ops.structure import Region
from luminal_lab.errors import LabError
from luminal_lab.passes.compilation import Compilation

LARGEST = 1 << 22
"""The most numbers in a compared value: the interpreter computes larger ones in tiles."""
SAMPLE = 1 << 12
"""The numbers compared in each value, evenly spaced."""


class Errors(NamedTuple):
    """The relative errors of values, by the ids of their nodes, and a description."""

    values: Mapping[int, float]
    text: str


def errors_of(ir: IR, compilation: Compilation | None, environment: Environment) -> Errors:
    """Return the errors of a graph's values against float64, relative to each value's size.

    The size of a value is the root of its mean square, so that numbers near zero count little.
    With a compile, its device's values are compared; values that stay inside a kernel are
    computed by NumPy's interpreter.
    """
    live = ir.ancestors(ir.output_ids)
    floats = [node for node in ir if node.dtype.is_float and node.id in live]
    asked = [node for node in floats if _is_compared(node, environment.dims)]
    runs = compilation is not None and compilation.runner is not None
    errors: dict[int, float] = {}
    try:
        exact, against = _exact_samples(ir, asked, environment), "float64"
    except LabError:
        if not runs:
            raise
        # An op without float64, such as a user's kernel.
        exact, against = _samples(ir, asked, environment), "NumPy's interpreter"
    else:
        own = _samples(ir, asked, environment)
        errors = {id: distance(own[id], exact[id]) for id in own.keys() & exact.keys()}
    by = "NumPy's interpreter"
    if compilation is not None and runs:
        launched = {n.id for n in asked if n.op.body_of() is not None and not n.extra}
        wanted = (launched | set(ir.output_ids)) & exact.keys()
        values = compilation.values(environment, wanted, {}, None)
        errors |= {id: distance(_sample(values[id]), exact[id]) for id in values if id in exact}
        by = "the device"
    left = len(floats) - len(errors)
    said = f"what {by} computes against {against}; the largest error is "
    said += f"{max(errors.values(), default=0.0):.2g}"
    return Errors(errors, said + (f"; {left:,} values are views, or too large" if left else ""))


def _samples(ir: IR, asked: Iterable[Node], environment: Environment) -> dict[int, Array]:
    """Return samples of values computed by NumPy's interpreter."""
    samples: dict[int, Array] = {}
    probes = {node.id: [_keeping(samples, node.id)] for node in asked}
    interpret(ir, environment._replace(probes=probes))
    return samples


def _keeping(samples: dict[int, Array], id: int) -> Probe:
    def keep(value: Array) -> None:
        samples[id] = _sample(value).copy()

    return keep


def _is_compared(node: Node, dims: Mapping[str, int]) -> bool:
    if not node.dtype.is_float or isinstance(node.op, View) or node.extra:
        return False
    shape = ints(bound_shape(f"error: {node}", node.shape, dims))
    return math.prod(shape) <= LARGEST


def _sample(value: Array) -> Array:
    flat = value.reshape(-1)
    return flat[:: max(1, math.ceil(flat.size / SAMPLE))].astype(np.float64)


def distance(computed: Array, exact: Array) -> float:
    """Return the largest difference, relative to the size of the exact value.

    >>> distance(np.array([1.0, 2.02]), np.array([1.0, 2.0])) < 0.02
    True
    """
    same = (computed == exact) | (np.isnan(computed) & np.isnan(exact))
    if same.all():
        return 0.0
    if not (np.isfinite(computed[~same]).all() and np.isfinite(exact[~same]).all()):
        return math.inf
    finite = exact[np.isfinite(exact)]
    scale = np.abs(finite).max()
    if scale == 0:
        return math.inf
    size = scale * math.sqrt(float(np.mean((finite / scale) ** 2)))
    return float(np.abs(np.subtract(computed[~same], exact[~same])).max() / size)


# -- in float64 ------------------------------------------------------------------------------------


def _exact_samples(ir: IR, asked: Iterable[Node], environment: Environment) -> dict[int, Array]:
    """Return samples of the exact values of nodes."""
    wide, into = widened(ir)
    samples: dict[int, Array] = {}

    def data(node: Node) -> Array:
        value = environment.data(ir[node.id])
        return value.astype(np.float64) if node.dtype is DType.float64 else value

    probes: dict[int, list[Probe]] = {}
    for node in asked:
        probes.setdefault(into[node.id], []).append(_keeping(samples, node.id))
    interpret(wide, environment._replace(data=data, probes=probes))
    return samples


def widened(ir: IR) -> tuple[IR, dict[int, int]]:
    """Return a graph whose floats are all float64, and the new ids of the old nodes.

    >>> from luminal_lab.core.parse import parse
    >>> ir = parse("graph g(%x: f32[2]) -> (%y) { %y = cast{dtype = f16} %x : f16[2] }")
    >>> print(widened(ir)[0])
    graph g(%x: f64[2]) -> (%y) {
      %y = cast{dtype = f64} %x : f64[2]
    }
    """
    table, into, next_id = Table(), {}, ir.next_id
    order: list[int] = []
    for node in ir.nodes:
        sources = tuple(into[id] for id in node.sources)
        if isinstance(node.op, Bitcast) and ir[node.sources[0]].dtype.is_float:
            # The bits are those of the narrow float.
            type = ir[node.sources[0]].type
            table.set(next_id, Node(next_id, Cast(type.dtype), sources, type))
            order.append(next_id)
            sources, next_id = (next_id,), next_id + 1
        record = node._replace(op=_wide_op(node.op), sources=sources)
        types = record.op.types([_record(table, id) for id in sources])
        record = record._replace(type=types[0], extra=types[1:])
        table.set(node.id, record)
        order.append(node.id)
        into[node.id] = node.id
        if (
            record.type.dtype.is_float
            and record.type.dtype is not DType.float64
            and not record.extra
        ):
            # An op that fixes its dtype: random numbers, say.
            cast = Cast(DType.float64)
            type = TensorType(DType.float64, record.type.shape)
            table.set(next_id, Node(next_id, cast, (node.id,), type))
            order.append(next_id)
            into[node.id], next_id = next_id, next_id + 1
    outputs = [into[id] for id in ir.output_ids]
    return IR(table, ir.input_ids, outputs, name=ir.name, schedule=tuple(order)), into


def _record(table: Table, id: int) -> Node:
    node = table.get(id)
    assert node is not None
    return node


def _wide_op(op: Op) -> Op:
    if isinstance(op, Region):
        return replace(op, body=widened(op.body)[0])
    if isinstance(op, Bitcast):
        return op
    changed: dict[str, Any] = {
        field_.name: DType.float64
        for field_ in fields(op)  # pyright: ignore[reportArgumentType]  # ops are dataclasses
        if isinstance(value := getattr(op, field_.name), DType) and value.is_float
    }
    return replace(op, **changed) if changed else op  # pyright: ignore[reportArgumentType]  # likewise
