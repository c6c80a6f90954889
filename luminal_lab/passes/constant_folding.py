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
from luminal_lab.passes.asking import kind_of
from luminal_lab.passes.walking import Walk, Walking

DIGITS = {DType.float64: 53, DType.float32: 24, DType.float16: 11, DType.bfloat16: 8}
"""The binary digits of a float dtype; whole numbers with no more digits are exact in it."""
Values: TypeAlias = list[tuple[Scalar, TensorType]]


VIEWS = (Permute, Reshape, Expand, Slice, Pad, Flip, Window)


@dataclass(frozen=True)
class ConstantFolding(Walking):
    """Replace nodes that depend on constants alone by constants."""

    name: ClassVar[str] = "fold"

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        folding, records, returned = self.walk(edit), edit.table.flat, edit.returned
        with np.errstate(all="ignore"):
            for old in ir.nodes:
                node = records[old.id]
                if node is None or not _may_fold(node, records):
                    continue
                if edit.readers.get(old.id) or old.id in returned:
                    folding.at(node)
                    returned = edit.returned

    @override
    def walk(self, edit: Edit) -> Folding:
        return Folding(edit)


def _may_fold(node: Node, records: Sequence[Node | None]) -> bool:
    """Return whether a node reads a constant first, counts or is empty: few do."""
    if not node.sources:
        return isinstance(node.op, Iota) or 0 in node.shape
    first = records[node.sources[0]]
    return 0 in node.shape or (first is not None and isinstance(first.op, Constant))


class Folding(Walk):
    """Folding at work: it looks at one node after another."""

    node: Node
    """The current node."""

    @override
    def search(self, name: str, node: Node) -> None:
        with np.errstate(all="ignore"):
            self.at(node)

    def at(self, node: Node) -> None:
        """Replace a node by a constant, if that is what it is."""
        self.node, edit = node, self.edit
        sources = edit.sources(node)
        rule = f"{node.op.name.replace('_', '-')}-of-constants"
        if isinstance(node.op, Where) and isinstance(sources[0].op, Constant):
            condition = sources[0].op.value
            if not isinstance(condition, Expr):
                edit.replace(node, sources[1 if condition else 2], rule=rule)
                return
        if self.is_empty(node, sources):
            rule, value = "no-elements", 0
        elif isinstance(node.op, Iota):
            rule, value = "iota-of-one", 0 if node.shape == (1,) else None
            if value is None:
                self.no("{} counts to {}, and only a count to 1 is a constant", node, node.shape[0])
        else:
            value = self.value(node, sources)
        if value is not None:
            constant = Constant(_scalar(value, node.dtype), node.dtype, node.shape)
            with edit.firing(rule):
                edit.replace(node, edit.insert(constant, like=[node, *sources]))

    def no(self, why: str, *of: object) -> None:
        """Say why the node is not folded."""
        self.missed(self.node, why, *of)

    def is_empty(self, node: Node, sources: Sequence[Node]) -> bool:
        """Return whether a value has no elements and its computation cannot fail."""
        if 0 not in node.shape or node.extra:
            return False
        if isinstance(node.op, (Elementwise, Reduce, Contiguous, Gather, Iota, Random)):
            return True
        return isinstance(node.op, VIEWS) and self.is_certain(node.op, sources[0].type)

    def value(self, node: Node, sources: Sequence[Node]) -> Scalar | None:
        """Return the number that all elements of a node have, if known."""
        op = node.op
        values: Values = [(s.op.value, s.type) for s in sources if isinstance(s.op, Constant)]
        if not sources or len(values) < len(sources):
            return self.inquiry and self.unknown(sources)
        (value, x), *others = values
        if isinstance(op, Elementwise):
            if any(isinstance(value, Expr) for value, _ in values):
                return self.of_symbols(op, values, node.dtype)
            return self.of_numbers(op, values, node.dtype)
        if isinstance(op, (Contiguous, After)):
            return value
        if isinstance(op, VIEWS):
            return self.viewed(op, value, x) if self.is_certain(op, x) else None
        if isinstance(op, SumReduce):
            return self.sum(value, x, x.shape[op.axis])
        if isinstance(op, MaxReduce):
            return self.max(value, x.dtype, x.shape[op.axis])
        if isinstance(op, Gather):
            index = _whole(others[0][0])
            if index is not None and _sure(index >= 0, index < x.shape[op.axis]):
                return value
            return self.no("{} may look beyond {} elements, at {}", node, x.shape[op.axis], index)
        return self.no("{} is {}, which is not folded", node, op.name)

    def unknown(self, sources: Sequence[Node]) -> None:
        """Say which source is not a constant."""
        node = self.node
        if isinstance(node.op, Constant):
            self.no("{} is a constant already", node)
        elif not sources:
            self.no("{} is {}, and reads no constant", node, kind_of(node))
        for source in sources:
            if not isinstance(source.op, Constant):
                return self.missed(source, "{} is {}, not a constant", source, kind_of(source))
            self.reached("{} is {}", source, kind_of(source))
        return None

    # -- elementwise -------------------------------------------------------------------------------

    def of_numbers(self, op: Elementwise, values: Values, dtype: DType) -> Scalar | None:
        """Return the op's result for one element."""
        if type(op).eval is Op.eval:
            return self.no("each device decides what {} is", op.name)
        given = [Constant(value, x.dtype, (1,) * len(x.shape)).eval() for value, x in values]
        result = np.asarray(op.eval(*given))
        if result.size != 1 or result.dtype != dtype.numpy:
            return self.no("{} gives {} for one element, not {}", op.name, result.dtype, dtype)
        return float(result.flat[0]) if dtype.is_float else result.flat[0].item()

    def of_symbols(self, op: Elementwise, values: Values, dtype: DType) -> Scalar | None:
        """Return the op's result for whole numbers, some symbolic, if it is exact."""
        numbers = [_whole(value) for value, _ in values]
        wholes = [number for number in numbers if number is not None]
        if len(wholes) < len(numbers) or (
            dtype is DType.bool_ and not isinstance(op, (LessThan, Cast))
        ):
            return self.no("{} with symbols is known for whole numbers alone", op.name)
        # Sums and products of integers wrap around, however large they are.
        wraps = dtype.kind == "int" and isinstance(op, (Add, Mul))
        pairs = zip(wholes, values, strict=True)
        if not wraps and not all(_holds(x.dtype, number) for number, (_, x) in pairs):
            return self.no("not every size of its dims is exact in {}", values[0][1].dtype)
        dim = self.of_wholes(op, wholes, dtype)
        if dim is None or wraps or _holds(dtype, dim):
            return dim
        return self.no("not every value of {} is exact in {}", dim, dtype)

    def of_wholes(self, op: Elementwise, wholes: list[Dim], dtype: DType) -> Dim | None:
        """Return the op's result for whole numbers as a dim."""
        match op, wholes:
            case Add(), [a, b]:
                return a + b
            case Mul(), [a, b]:
                # 0 · -1 is -0.0, which no whole number can represent.
                is_whole = not dtype.is_float or _sure(a >= 0, b >= 0)
                if is_whole or self.grants("no_signed_zero"):
                    return a * b
                return self.no("{} · {} may be -0.0", a, b)
            case Mod(), [a, b]:
                return a % b if _sure(b >= 1) else self.no("{} may be below 1", b)
            case LessThan(), [a, b]:
                return a < b
            case Cast(), [a]:
                return either(a < 0, a > 0) if dtype is DType.bool_ else a
            case _:
                return self.no("{} with symbols stays", op.name)

    # -- views and reductions ----------------------------------------------------------------------

    def is_certain(self, op: Op, x: TensorType) -> bool:
        """Return whether a view is valid for all sizes."""
        match op:
            case Slice():
                parts = zip(op.start, op.stop, x.shape, strict=True)
                fact = all(_sure(a >= 0, a <= b, b <= size) for a, b, size in parts)
            case Pad():
                fact = _sure(*[width >= 0 for width in (*op.before, *op.after)])
            case Window():
                span = op.dilation * (op.size - 1) + 1
                fact = _sure(op.size >= 1, span <= x.shape[op.axis])
            case _:
                return True
        return self.holds(fact, self.node, "{} of {} fails for some sizes", op.name, x)

    def viewed(self, op: Op, value: Scalar, x: TensorType) -> Scalar | None:
        """Return the number that a view of equal numbers is made of."""
        if not isinstance(op, Pad) or all(width == 0 for width in (*op.before, *op.after)):
            return value
        if isinstance(value, Expr):
            return self.no("zeros stand around {}", value)
        if 0 in x.shape:
            return 0
        if value == 0 and (math.copysign(1, value) > 0 or self.grants("no_signed_zero")):
            return 0
        return self.no("zeros stand around {}", value)

    def max(self, value: Scalar, dtype: DType, size: Dim) -> Scalar | None:
        """Return the largest of `size` equal values."""
        if size == 0:
            return -math.inf if dtype.is_float else dtype.limits[0]
        return value if _sure(size >= 1) else self.no("its axis of {} may be empty", size)

    def sum(self, value: Scalar, x: TensorType, size: Dim) -> Scalar | None:
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
                return value if _sure(size >= 1) else self.no("its axis of {} may be empty", size)
        if not isinstance(size, int) or isinstance(value, Expr):
            whole = _whole(value)
            if whole is None or not _holds(dtype, whole) or not _holds(dtype, whole * size):
                return self.no("not every sum of {} times {} is exact in {}", size, value, dtype)
            return whole * size
        if value == 0:
            if math.copysign(1, value) > 0 or self.grants("no_signed_zero"):
                return 0
            return self.no("a sum of -0.0 is 0.0")
        # All partial sums are multiples of the last digit of the value.
        wide = DType.float32 if dtype.is_half else dtype
        digits = abs(float(value).as_integer_ratio()[0])
        if digits // (digits & -digits) * size > 1 << DIGITS[wide]:
            return self.no(
                "the sum of {} times {:.8g} depends on the order of its roundings", size, value
            )
        return float(np.asarray(value * size, wide.numpy).astype(dtype.numpy))


def _scalar(value: Scalar, dtype: DType) -> Scalar:
    """Return a number in the form that a dtype's text has."""
    if isinstance(value, Expr):
        return value
    if dtype.is_float:
        return float(value)
    return bool(value) if dtype is DType.bool_ else int(value)


def _sure(*conditions: Dim) -> bool:
    return all(known(condition) is True for condition in conditions)


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
