"""`fold`: compute constants at compile time; a constant is one number, whatever its shape.

    graph g(%x: f32[4]) -> (%y) {                    graph g(%x: f32[4]) -> (%y) {
      %a = constant{value = 2.0} : f32[1]              %d = constant{value = 0.5} : f32[4]
      %b = recip %a : f32[1]                    →      %y = mul %x, %d : f32[4]
      %c = expand{shape = [4]} %b : f32[4]           }
      %y = mul %x, %c : f32[4]
    }

An elementwise op on constants runs its own `eval` on one element, which gives the
interpreter's bits, overflow and NaN included. A view of a constant is that constant in
another shape. A reduction is folded only where no addition rounds, since all orders then agree. A
symbolic constant stays symbolic where arithmetic on whole numbers matches the ops exactly.

A node that may fail once sizes are bound (a slice of a symbolic axis) stays, to keep its
error. A `graph_break` stays too, since the user wrote it on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from typing_extensions import override

from luminal_lab.core.dims import Dim, Expr, bounds, either, known
from luminal_lab.core.dtypes import DType
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Elementwise, Op, Reduce, Scalar, TensorType
from luminal_lab.core.ops import (
    Add,
    After,
    Cast,
    Constant,
    Contiguous,
    Expand,
    Flip,
    Gather,
    Iota,
    LessThan,
    MaxReduce,
    Mod,
    Mul,
    Pad,
    Permute,
    Random,
    Reshape,
    Slice,
    SumReduce,
    Where,
    Window,
)
from luminal_lab.passes.base import Pass

DIGITS = {DType.float64: 53, DType.float32: 24, DType.float16: 11, DType.bfloat16: 8}
"""The binary digits of a float dtype; whole numbers with no more digits are exact in it."""
Values: TypeAlias = list[tuple[Scalar, TensorType]]


@dataclass(frozen=True)
class ConstantFolding(Pass):
    """Replace nodes that depend on constants alone by constants."""

    name: ClassVar[str] = "fold"

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        with np.errstate(all="ignore"):
            for old in ir.nodes:
                if edit.readers.get(old.id) or edit.is_output(old):
                    _fold(edit[old], edit)


def _fold(node: Node, edit: Edit) -> None:
    sources = edit.sources(node)
    rule = f"{node.op.name.replace('_', '-')}-of-constants"
    if isinstance(node.op, Where) and isinstance(sources[0].op, Constant):
        condition = sources[0].op.value
        if not isinstance(condition, Expr):
            edit.replace(node, sources[1 if condition else 2], rule=rule)
            return
    if _is_empty(node, sources):
        rule, value = "no-elements", 0
    elif isinstance(node.op, Iota):
        rule, value = "iota-of-one", 0 if node.shape == (1,) else None
    else:
        value = _value(node, sources, "no_signed_zero" in edit.licence)
    if value is not None:
        constant = Constant(_scalar(value, node.dtype), node.dtype, node.shape)
        with edit.firing(rule):
            edit.replace(node, edit.insert(constant, like=[node, *sources]))


def _scalar(value: Scalar, dtype: DType) -> Scalar:
    """Return a number in the form that a dtype's text has."""
    if isinstance(value, Expr):
        return value
    if dtype.is_float:
        return float(value)
    return bool(value) if dtype is DType.bool_ else int(value)


def _is_empty(node: Node, sources: Sequence[Node]) -> bool:
    """Return whether a value has no elements and its computation cannot fail."""
    if 0 not in node.shape or node.extra:
        return False
    if isinstance(node.op, (Elementwise, Reduce, Contiguous, Gather, Iota, Random)):
        return True
    return isinstance(node.op, VIEWS) and _certain(node.op, sources[0].type)


def _value(node: Node, sources: Sequence[Node], any_zero: bool) -> Scalar | None:
    """Return the number that all elements of a node have, if known."""
    op = node.op
    known_values: Values = [(s.op.value, s.type) for s in sources if isinstance(s.op, Constant)]
    if not sources or len(known_values) < len(sources):
        return None
    (value, x), *others = known_values
    if isinstance(op, Elementwise):
        if any(isinstance(value, Expr) for value, _ in known_values):
            return _of_symbols(op, known_values, node.dtype, any_zero)
        return _of_numbers(op, known_values, node.dtype)
    if isinstance(op, (Contiguous, After)):
        return value
    if isinstance(op, VIEWS):
        return _viewed(op, value, x, any_zero) if _certain(op, x) else None
    if isinstance(op, SumReduce):
        return _sum(value, x, x.shape[op.axis], any_zero)
    if isinstance(op, MaxReduce):
        return _max(value, x.dtype, x.shape[op.axis])
    if isinstance(op, Gather):
        index = _whole(others[0][0])
        inside = index is not None and _sure(index >= 0, index < x.shape[op.axis])
        return value if inside else None
    return None


def _sure(*conditions: Dim) -> bool:
    return all(known(condition) is True for condition in conditions)


# -- elementwise -----------------------------------------------------------------------------------


def _of_numbers(op: Elementwise, values: Values, dtype: DType) -> Scalar | None:
    """Return the op's result for one element."""
    if type(op).eval is Op.eval:  # devices decide its value
        return None
    given = [Constant(value, x.dtype, (1,) * len(x.shape)).eval() for value, x in values]
    result = np.asarray(op.eval(*given))
    if result.size != 1 or result.dtype != dtype.numpy:
        return None
    return float(result.flat[0]) if dtype.is_float else result.flat[0].item()


def _of_symbols(op: Elementwise, values: Values, dtype: DType, any_zero: bool) -> Scalar | None:
    """Return the op's result for whole numbers, some symbolic, if it is exact."""
    numbers = [_whole(value) for value, _ in values]
    wholes = [number for number in numbers if number is not None]
    if len(wholes) < len(numbers) or (
        dtype is DType.bool_ and not isinstance(op, (LessThan, Cast))
    ):
        return None
    # Sums and products of integers wrap around, however large they are.
    wraps = dtype.kind == "int" and isinstance(op, (Add, Mul))
    if not wraps and not all(_holds(x.dtype, n) for n, (_, x) in zip(wholes, values, strict=True)):
        return None
    dim: Dim
    match op, wholes:
        case Add(), [a, b]:
            dim = a + b
        case Mul(), [a, b]:
            # 0 · -1 is -0.0, which no whole number can represent.
            if dtype.is_float and not any_zero and not _sure(a >= 0, b >= 0):
                return None
            dim = a * b
        case Mod(), [a, b]:
            if not _sure(b >= 1):
                return None
            dim = a % b
        case LessThan(), [a, b]:
            dim = a < b
        case Cast(), [a]:
            dim = either(a < 0, a > 0) if dtype is DType.bool_ else a
        case _:
            return None
    return dim if wraps or _holds(dtype, dim) else None


def _whole(value: Scalar) -> Dim | None:
    """Return a value as a whole number, if it is one."""
    if not isinstance(value, float):
        return value
    negative_zero = not value and math.copysign(1, value) < 0
    return int(value) if value.is_integer() and not negative_zero else None


def _holds(dtype: DType, number: Dim) -> bool:
    """Return whether a dtype holds a whole number exactly for all values of its symbols."""
    least, most = bounds(number)
    low, high = dtype.limits if not dtype.is_float else (-(1 << DIGITS[dtype]), 1 << DIGITS[dtype])
    return least is not None and most is not None and low <= least and most <= high


# -- views and reductions --------------------------------------------------------------------------

VIEWS = (Permute, Reshape, Expand, Slice, Pad, Flip, Window)


def _certain(op: Op, x: TensorType) -> bool:
    """Return whether a view is valid for all sizes."""
    match op:
        case Slice():
            parts = zip(op.start, op.stop, x.shape, strict=True)
            return all(_sure(a >= 0, a <= b, b <= size) for a, b, size in parts)
        case Pad():
            return _sure(*[width >= 0 for width in (*op.before, *op.after)])
        case Window():
            span = op.dilation * (op.size - 1) + 1
            return _sure(op.size >= 1, span <= x.shape[op.axis])
        case _:
            return True


def _viewed(op: Op, value: Scalar, x: TensorType, any_zero: bool) -> Scalar | None:
    if not isinstance(op, Pad) or all(width == 0 for width in (*op.before, *op.after)):
        return value
    if isinstance(value, Expr):
        return None
    if 0 in x.shape:
        return 0
    zero = value == 0 and (any_zero or math.copysign(1, value) > 0)
    return 0 if zero else None


def _max(value: Scalar, dtype: DType, size: Dim) -> Scalar | None:
    if size == 0:
        return -math.inf if dtype.is_float else dtype.limits[0]
    return value if _sure(size >= 1) else None


def _sum(value: Scalar, x: TensorType, size: Dim, any_zero: bool) -> Scalar | None:
    """Return the sum of `size` equal values, if no addition rounds."""
    dtype = x.dtype
    if size == 0:
        return 0
    if not dtype.is_float:
        whole = _whole(value)
        assert whole is not None, "a constant has a value of its dtype"
        total = whole * size
        low, high = dtype.limits
        return total if isinstance(total, Expr) else (total - low) % (high - low + 1) + low
    if isinstance(value, float):
        value = float(Constant(value, dtype, ()).eval())  # as many digits as the dtype has
        if not math.isfinite(value):
            return value if _sure(size >= 1) else None
    if not isinstance(size, int) or isinstance(value, Expr):
        whole = _whole(value)
        if whole is None or not _holds(dtype, whole):
            return None
        return whole * size if _holds(dtype, whole * size) else None
    if value == 0:
        return 0 if any_zero or math.copysign(1, value) > 0 else None
    # All partial sums are multiples of the last digit of the value.
    wide = DType.float32 if dtype.is_half else dtype
    digits = abs(float(value).as_integer_ratio()[0])
    if digits // (digits & -digits) * size > 1 << DIGITS[wide]:
        return None
    return float(np.asarray(value * size, wide.numpy).astype(dtype.numpy))
