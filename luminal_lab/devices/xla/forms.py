"""What graphs are in JAX: the interpreter's own table of ops, which NumPy hands over to JAX.

    %a = sin %x         Sin.eval says np.sin(x)         which is jax.numpy.sin(x) for a `Traced` x
    %b = add %a, %x     Add.eval says np.add(x, y)      which is jax.numpy.add(x, y)

NumPy lets an array of another class answer for its functions (NEP 13 and 18), and `Traced` answers
with JAX's function of the same name. So most ops need nothing here. `FORMS` has those whose `eval`
writes into an array, widens to float64 or counts in NumPy, and those that XLA computes otherwise
than NumPy. Sums of products become products of matrices:

    %y = sum_reduce{axis = 1} (mul %a, %b)        jax.numpy.einsum(a, [0, 1], b, [2, 1], [0, 2])
"""

from __future__ import annotations

# Values are JAX's, of any type, and so are those of lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from math import pi, prod
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from luminal_lab.core.dtypes import BY_NUMPY, DType
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Op
from luminal_lab.core.ops import Add, Expand, Input, Mul, Pick, Region, SumReduce
from luminal_lab.core.ops.select import check_range
from luminal_lab.core.random import uniform

Form: TypeAlias = Callable[..., Any]
"""Takes a lowering, an op whose sizes are numbers, and JAX's values of its sources."""
SCALE = 2 * (2 / pi) ** 0.5


class Traced(NDArrayOperatorsMixin):
    """A value of JAX's for which NumPy calls JAX's functions."""

    def __init__(self, lowering: Lowering, value: Any) -> None:
        self.lowering, self.value = lowering, value

    def by_jax(self, function: Any, *args: Any, **options: Any) -> Any:
        """Call a function of JAX's."""
        return Traced(self.lowering, function(*map(_bare, args), **options))

    def __array_function__(self, function: Any, _: Any, args: Any, options: Any) -> Any:
        """Answer for a function of NumPy's."""
        return self.by_jax(getattr(self.lowering.j, function.__name__), *args, **options)

    def __array_ufunc__(self, function: Any, _: str, *args: Any, **options: Any) -> Any:
        """Answer for one of single elements."""
        return self.__array_function__(function, (), args, options)

    def __getattr__(self, name: str) -> Any:
        """Return what a value has, or a method that returns such a value."""
        of_value = getattr(self.value, name)
        return partial(self.by_jax, of_value) if callable(of_value) else of_value

    def __getitem__(self, key: Any) -> Any:
        """Return a part."""
        return self.by_jax(self.value.__getitem__, key)

    def __bool__(self) -> bool:
        """Note a condition for an error, and go on without one: there are no values yet."""
        self.lowering.wrong.append(self.value)
        return False


def _bare(value: Any) -> Any:
    return value.value if isinstance(value, Traced) else value


def _meant(to: Lowering, op: Any, *sources: Any) -> Any:
    """Return what the interpreter would, by JAX."""
    return _bare(op.eval(*(Traced(to, source) for source in sources)))


def _mod(to: Lowering, op: Any, x: Any, y: Any) -> Any:
    if BY_NUMPY[x.dtype].is_float:
        return to.j.mod(x, y)
    return to.j.where(y == 0, 0, to.j.mod(x, to.j.where(y == 0, 1, y))).astype(x.dtype)


def _cast(to: Lowering, op: Any, x: Any) -> Any:
    if op.dtype is DType.float16 and x.dtype == np.float64:
        # XLA goes by way of float32; what is rounded to odd there can be rounded again.
        near = x.astype(np.float32)
        bits = near.view(np.uint32) - (abs(near.astype(x.dtype)) > abs(x)).astype(np.uint32)
        odd = (bits | 1).view(np.float32)
        x = to.j.where((near == x) | ~to.j.isfinite(near), near, odd)
    return _meant(to, op, x)


def _window(to: Lowering, op: Any, x: Any) -> Any:
    count = (x.shape[op.axis] - op.dilation * (op.size - 1) - 1) // op.stride + 1
    at = np.arange(count)[:, None] * op.stride + np.arange(op.size) * op.dilation
    return to.j.moveaxis(to.j.take(x, at, op.axis), op.axis + 1, -1)


def _scatter(to: Lowering, op: Any, x: Any, index: Any, values: Any) -> Any:
    traced: Any = Traced(to, index)
    check_range(op.name, traced, x.shape[op.axis], op.axis)
    where: list[Any] = list(np.indices(index.shape, sparse=True))
    order, where[op.axis] = where[op.axis].astype(np.int32), index
    if op.mode == "add":
        wide = x.astype(np.float32) if BY_NUMPY[x.dtype].is_half else x
        return wide.at[tuple(where)].add(values.astype(wide.dtype)).astype(x.dtype)
    # On GPUs equal indices are written in any order: the largest position is the last.
    last = to.j.full(x.shape, -1, np.int32).at[tuple(where)].max(order)
    return to.j.where(last < 0, x, to.j.take_along_axis(values, to.j.maximum(last, 0), op.axis))


def _random(to: Lowering, op: Any) -> Any:
    positions: Any = Traced(to, to.j.arange(prod(op.shape), dtype=np.uint32))
    return _bare(uniform(op.seed, op.stream, to.step, positions).reshape(op.shape))


def _unary(name: str) -> Form:
    return lambda to, op, x: getattr(to.lax, name)(x)


FORMS: Mapping[str, Form] = {
    "exp2": lambda to, op, x: to.lax.pow(to.j.full_like(x, 2), x),  # j.exp2 loses ten times as much
    "mod": _mod,
    "cast": _cast,
    "window": _window,
    "scatter": _scatter,
    "update": lambda to, op, x, rows: to.lax.dynamic_update_slice_in_dim(x, rows, op.at, op.axis),
    "contiguous": lambda to, op, x: x,
    "graph_break": _unary("optimization_barrier"),
    "constant": lambda to, op: to.j.full(op.shape, np.asarray(op.value).astype(op.dtype.numpy)),
    "iota": lambda to, op: to.j.arange(*op.shape).astype(op.dtype.numpy),
    "random": _random,
    **{f"math.{name}": _unary(name) for name in ("exp", "expm1", "tanh", "erf", "cos")},
    "math.sigmoid": _unary("logistic"),
    "math.silu": lambda to, op, x: x * to.lax.logistic(x),
    "math.gelu": lambda to, op, x: x * (0.5 * to.lax.erfc(x * -(0.5**0.5))),
    "math.gelu_tanh": lambda to, op, x: x * to.lax.logistic(SCALE * x * (1 + 0.044715 * x * x)),
}


def has_form(op: Op) -> bool:
    """Return whether XLA computes an op; the others are NumPy's."""
    is_ours = type(op).__module__.startswith(Add.__module__.rpartition(".")[0])
    return is_ours and (type(op).eval is not Op.eval or isinstance(op, Input | Pick))


class Lowering:
    """Traces graphs as JAX computes them, for sizes of dims and the number of a run."""

    def __init__(self, sizes: Mapping[str, int], step: Any) -> None:
        self.sizes, self.step = sizes, step
        self.j, self.lax = import_module("jax.numpy"), import_module("jax.lax")
        self.wrong: list[Any] = []
        """For each check of an index, whether it fails."""

    def values(self, ir: IR, given: Mapping[int, Any], wanted: Sequence[int]) -> list[Any]:
        """Return the values of the wanted nodes, for those of the inputs."""
        values, needed = dict(given), ir.ancestors(wanted, given)
        for node in ir.nodes:
            if node.id in needed:
                values[node.id] = self.value(ir, node, values)
        return [values[id] for id in wanted]

    def value(self, ir: IR, node: Node, values: Mapping[int, Any]) -> Any:
        """Return the value of a node; of a region with several results, all of them."""
        op, before = node.op.bind(self.sizes), ir.sources(node)
        sources = [values[source.id] for source in before]
        match op:
            case Region(body=body):
                given = dict(zip(body.input_ids, sources, strict=True))
                results = self.values(body, given, body.output_ids)
                return results if node.extra else results[0]
            case Pick(index=index):
                return sources[0][index]
            case SumReduce(axis=axis) if node.dtype.is_float and isinstance(before[0].op, Mul):
                total = self.multiplied(ir, before[0], axis, values)
                return _meant(self, op, *sources) if total is None else total
            case _:
                return FORMS.get(op.name, _meant)(self, op, *sources)

    def multiplied(self, ir: IR, mul: Node, axis: int, values: Mapping[int, Any]) -> Any:
        """Return the sum of products as a product of matrices; None if it is none.

        Each factor counts as it was before it was expanded, without its axes of size 1.
        """
        behind = [ir[id].sources[0] if isinstance(ir[id].op, Expand) else id for id in mul.sources]
        a, b = (values[id] for id in behind)
        of_a, of_b = ([k for k, size in enumerate(x.shape) if size != 1] for x in (a, b))
        if of_a == of_b or axis not in of_a or axis not in of_b:
            return None
        shape = [1 if k == axis else size for k, size in enumerate(values[mul.id].shape)]
        left = sorted({*of_a, *of_b} - {axis})
        wide = np.dtype(np.float32) if BY_NUMPY[a.dtype].is_half else a.dtype
        factors = a.squeeze(), of_a, b.squeeze(), of_b
        total = self.j.einsum(*factors, left, precision="highest", preferred_element_type=wide)
        kept = [shape[k] if k in left else 1 for k in range(len(shape))]
        return self.j.broadcast_to(total.astype(a.dtype).reshape(kept), shape)
