"""What each op is in JAX: a table, and the products that XLA multiplies as matrices.

    %y = add %a, %b                                    a + b
    %y = sum_reduce{axis = 1} (mul %a, %b)             jax.numpy.einsum("ab,cb->ac", a, b)

The sizes are numbers here. An op without a form, such as a call to the host, is left to NumPy.
"""

from __future__ import annotations

# Values are JAX's, of any type, and so are those of lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from math import inf, pi, prod
from string import ascii_letters
from typing import Any, TypeAlias

import numpy as np

from luminal_lab.core.dtypes import BY_NUMPY, DType
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Op
from luminal_lab.core.ops import Expand, Gather, Mul, Pick, Random, Region, Scatter, SumReduce
from luminal_lab.core.random import threefry

Form: TypeAlias = Callable[..., Any]
"""Takes JAX's numpy and lax, an op whose sizes are numbers, and the values of its sources."""


def _exp2(j: Any, lax: Any, op: Any, x: Any) -> Any:
    return lax.pow(j.full_like(x, 2), x)  # jax.numpy.exp2 loses ten times as much


def _mod(j: Any, lax: Any, op: Any, x: Any, y: Any) -> Any:
    if BY_NUMPY[x.dtype].is_float:
        return j.mod(x, y)
    return j.where(y == 0, j.zeros_like(x), j.mod(x, j.where(y == 0, j.ones_like(y), y)))


def _sum(j: Any, lax: Any, op: Any, x: Any) -> Any:
    wide = np.float32 if BY_NUMPY[x.dtype].is_half else x.dtype
    return j.sum(x, op.axis, keepdims=True, dtype=wide).astype(x.dtype)


def _max(j: Any, lax: Any, op: Any, x: Any) -> Any:
    dtype = BY_NUMPY[x.dtype]
    least = np.asarray(-inf if dtype.is_float else dtype.limits[0]).astype(x.dtype)
    return j.max(x, op.axis, keepdims=True, initial=least)


def _cast(j: Any, lax: Any, op: Any, x: Any) -> Any:
    if op.dtype is DType.bool_:
        return x != 0
    if op.dtype.kind == "int" and BY_NUMPY[x.dtype].is_float:
        x = x if x.dtype.itemsize > 2 else x.astype(np.float32)
        least, most = np.asarray(op.dtype.limits, op.dtype.numpy)
        low, high = least.astype(x.dtype), most.astype(x.dtype)
        kept = j.where((x > low) & (x < high), x, j.zeros_like(x)).astype(op.dtype.numpy)
        return j.where(x >= high, most, j.where(x <= low, least, kept))
    if op.dtype is DType.float16 and x.dtype == np.float64:
        # XLA goes by way of float32; what is rounded to odd there can be rounded again.
        near = x.astype(np.float32)
        bits = lax.bitcast_convert_type(near, np.uint32)
        bits -= (abs(near.astype(x.dtype)) > abs(x)).astype(np.uint32)
        odd = lax.bitcast_convert_type(bits | 1, np.float32)
        x = j.where((near == x) | ~j.isfinite(near), near, odd)
    return x.astype(op.dtype.numpy)


def _window(j: Any, lax: Any, op: Any, x: Any) -> Any:
    count = (x.shape[op.axis] - op.dilation * (op.size - 1) - 1) // op.stride + 1
    at = np.arange(count)[:, None] * op.stride + np.arange(op.size) * op.dilation
    return j.moveaxis(j.take(x, at, op.axis), op.axis + 1, -1)


def _gather(j: Any, lax: Any, op: Any, x: Any, index: Any) -> Any:
    if not x.shape[op.axis]:
        return j.zeros(index.shape, x.dtype)
    return j.take_along_axis(x, index, op.axis, mode="clip")


def _scatter(j: Any, lax: Any, op: Any, x: Any, index: Any, values: Any) -> Any:
    where: list[Any] = list(np.indices(index.shape, sparse=True))
    where[op.axis] = index
    if op.mode == "add":
        wide = x.astype(np.float32) if BY_NUMPY[x.dtype].is_half else x
        return wide.at[tuple(where)].add(values.astype(wide.dtype)).astype(x.dtype)
    # On GPUs equal indices are written in any order: the largest position is the last.
    order = j.broadcast_to(where_of(j, index, op.axis), index.shape)
    last = j.full(x.shape, -1, np.int32).at[tuple(where)].max(order)
    if not index.size:
        return x
    return j.where(last < 0, x, j.take_along_axis(values, j.maximum(last, 0), op.axis))


def where_of(j: Any, x: Any, axis: int) -> Any:
    """Return the positions along an axis, for broadcasting."""
    return j.arange(x.shape[axis], dtype=np.int32).reshape(
        [-1 if k == axis else 1 for k in range(x.ndim)]
    )


def _constant(j: Any, lax: Any, op: Any) -> Any:
    return j.full(op.shape, np.asarray(op.value).astype(op.dtype.numpy))


def _random(j: Any, lax: Any, op: Any, step: Any) -> Any:
    """Return the numbers of `core/random.py`, whose words JAX's arrays are here."""
    count, high, mask = prod(op.shape), op.seed >> 32, 0xFFFFFFFF
    key = op.seed & mask, (op.stream & mask) ^ ((high & mask) * 0x9E3779B9 & mask)
    bits, _ = threefry(key, j.arange(count, dtype=np.uint32), j.full(count, step, np.uint32))
    numbers = (bits >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    return numbers.reshape(op.shape)


def _unary(name: str) -> Form:
    return lambda j, lax, op, x: getattr(lax, name)(x)


def _binary(name: str) -> Form:
    return lambda j, lax, op, x, y: getattr(lax, name)(x, y)


def _first(j: Any, lax: Any, op: Any, x: Any, *others: Any) -> Any:
    return x


FORMS: Mapping[str, Form] = {
    "log2": lambda j, lax, op, x: j.log2(x),
    "exp2": _exp2,
    "sin": _unary("sin"),
    "sqrt": _unary("sqrt"),
    "recip": lambda j, lax, op, x: 1 / x,
    "add": lambda j, lax, op, x, y: x + y,
    "mul": lambda j, lax, op, x, y: x * y,
    "math.fused_mul": lambda j, lax, op, x, y: x * y,
    "mod": _mod,
    "less_than": lambda j, lax, op, x, y: x < y,
    "sum_reduce": _sum,
    "max_reduce": _max,
    "contiguous": _first,
    "stop_gradient": _first,
    "custom_gradient": _first,
    "after": _first,
    "graph_break": lambda j, lax, op, x: lax.optimization_barrier(x),
    "cast": _cast,
    "where": lambda j, lax, op, c, x, y: lax.select(c, x, y),
    "gather": _gather,
    "scatter": _scatter,
    "update": lambda j, lax, op, x, rows: lax.dynamic_update_slice_in_dim(x, rows, op.at, op.axis),
    "bit_and": _binary("bitwise_and"),
    "bit_or": _binary("bitwise_or"),
    "bit_xor": _binary("bitwise_xor"),
    "shift_left": _binary("shift_left"),
    "shift_right": lambda j, lax, op, x, y: (
        lax.shift_right_logical if BY_NUMPY[x.dtype].is_unsigned else lax.shift_right_arithmetic
    )(x, y),
    "bitcast": lambda j, lax, op, x: (
        lax.bitcast_convert_type(x, op.dtype.numpy) if x.dtype != bool else x.astype(op.dtype.numpy)
    ),
    "constant": _constant,
    "iota": lambda j, lax, op: j.arange(*op.shape).astype(op.dtype.numpy),
    "random": _random,
    "permute": lambda j, lax, op, x: j.transpose(x, op.axes),
    "reshape": lambda j, lax, op, x: x.reshape(op.shape),
    "expand": lambda j, lax, op, x: j.broadcast_to(x, op.shape),
    "slice": lambda j, lax, op, x: lax.slice(x, op.start, op.stop, op.step),
    "pad": lambda j, lax, op, x: j.pad(x, tuple(zip(op.before, op.after, strict=True))),
    "flip": lambda j, lax, op, x: lax.rev(x, op.axes),
    "window": _window,
    "math.exp": _unary("exp"),
    "math.expm1": _unary("expm1"),
    "math.tanh": _unary("tanh"),
    "math.sigmoid": _unary("logistic"),
    "math.silu": lambda j, lax, op, x: x * lax.logistic(x),
    "math.gelu": lambda j, lax, op, x: x * (0.5 * lax.erfc(x * -(0.5**0.5))),
    "math.gelu_tanh": lambda j, lax, op, x: (
        x * lax.logistic(2 * (2 / pi) ** 0.5 * x * (1 + 0.044715 * x * x))
    ),
    "math.erf": _unary("erf"),
    "math.cos": _unary("cos"),
    "math.floor": _unary("floor"),
    "math.ceil": _unary("ceil"),
    "math.trunc": lambda j, lax, op, x: j.trunc(x),
    "math.round": lambda j, lax, op, x: j.rint(x),
    "math.abs": _unary("abs"),
    "math.relu": lambda j, lax, op, x: j.where(x <= 0, j.zeros_like(x), x),
    "math.maximum": _binary("max"),
    "math.minimum": _binary("min"),
}
"""What each op is in JAX."""


def has_form(op: Op) -> bool:
    """Return whether XLA computes an op; the others are NumPy's."""
    body = op.body_of()
    if body is not None:
        return all(has_form(node.op) for node in body)
    return op.name in FORMS or op.name in ("input", "pick")


class Lowering:
    """Traces graphs as JAX computes them, for sizes of dims and the number of a run."""

    def __init__(self, sizes: Mapping[str, int], step: Any) -> None:
        self.sizes, self.step = sizes, step
        self.j, self.lax = import_module("jax.numpy"), import_module("jax.lax")
        self.wrong: list[tuple[str, Any]] = []
        """Ops that take an index, and whether one is out of range."""

    def values(self, ir: IR, given: Mapping[int, Any], wanted: Sequence[int]) -> list[Any]:
        """Return the values of the wanted nodes, for those of the inputs."""
        values, needed = dict(given), ir.ancestors(wanted, given)
        for node in ir.nodes:
            if node.id in needed:
                values[node.id] = self.value(ir, node, values)
        return [values[id] for id in wanted]

    def value(self, ir: IR, node: Node, values: Mapping[int, Any]) -> Any:
        """Return the value of a node; of a region with several results, all of them."""
        op, sources = node.op.bind(self.sizes), [values[id] for id in node.sources]
        match op:
            case Region(body=body):
                given = dict(zip(body.input_ids, sources, strict=True))
                results = self.values(body, given, body.output_ids)
                return results if node.extra else results[0]
            case Pick(index=index):
                return sources[0][index]
            case Random():
                return FORMS[op.name](self.j, self.lax, op, self.step)
            case SumReduce(axis=axis) if node.dtype.is_float:
                multiplied = self.multiplied(ir, ir[node.sources[0]], axis, values)
                if multiplied is not None:
                    return multiplied
            case Gather(axis=axis) | Scatter(axis=axis):
                size, index = sources[0].shape[axis], sources[1]
                self.wrong.append((op.name, self.j.any((index < 0) | (index >= size))))
            case _:
                pass
        return FORMS[op.name](self.j, self.lax, op, *sources)

    def multiplied(self, ir: IR, mul: Node, axis: int, values: Mapping[int, Any]) -> Any:
        """Return the sum of products as a product of matrices; None if it is none.

        Each factor counts as it was before it was expanded, without its axes of size 1.
        """
        if not isinstance(mul.op, Mul) or len(mul.shape) > len(ascii_letters):
            return None
        behind = [ir[id].sources[0] if isinstance(ir[id].op, Expand) else id for id in mul.sources]
        factors = [values[id] for id in behind]
        axes = [[k for k, size in enumerate(factor.shape) if size != 1] for factor in factors]
        if axes[0] == axes[1] or any(axis not in own for own in axes):
            return None
        shape = list(values[mul.id].shape)
        shape[axis] = 1
        left = [k for k in range(len(shape)) if k != axis and (k in axes[0] or k in axes[1])]
        spelled = ["".join(ascii_letters[k] for k in own) for own in (*axes, left)]
        squeezed = [
            factor.reshape([factor.shape[k] for k in own])
            for factor, own in zip(factors, axes, strict=True)
        ]
        dtype = factors[0].dtype
        total = self.j.einsum(
            f"{spelled[0]},{spelled[1]}->{spelled[2]}",
            *squeezed,
            precision="highest",
            preferred_element_type=np.float32 if BY_NUMPY[dtype].is_half else dtype,
        ).astype(dtype)
        kept = [shape[k] if k in left else 1 for k in range(len(shape))]
        return self.j.broadcast_to(total.reshape(kept), shape)
