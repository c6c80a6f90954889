"""Gradients of the twelve primitive ops, as in PyTorch where it has them."""

from __future__ import annotations

import math

from luminal_lab.core.ops import (
    Add,
    Contiguous,
    Exp2,
    Expand,
    LessThan,
    Log2,
    MaxReduce,
    Mod,
    Mul,
    Recip,
    Sin,
    Sqrt,
    SumReduce,
    Where,
)
from luminal_lab.passes.gradients.rule import Forward, Given, emit, gradient, scaled
from luminal_lab.tensor import Tensor

LN2 = math.log(2)
SIN, LESS, RECIP, WHERE = Sin(), LessThan(), Recip(), Where()


@gradient(Log2, wide=True)
def log2(node: Forward[Log2], g: Tensor) -> Given:
    """Return g / (x · ln 2)."""
    return g * scaled(emit(RECIP, node[0]), 1 / LN2)


@gradient(Exp2, wide=True)
def exp2(node: Forward[Exp2], g: Tensor) -> Given:
    """Return g · 2**x · ln 2."""
    return g * scaled(node.result, LN2)


@gradient(Sin, wide=True)
def sin(node: Forward[Sin], g: Tensor) -> Given:
    """Return g · cos(x), as 1 - 2 sin²(x/2), which is exact to a rounding of 1."""
    half = emit(SIN, scaled(node[0], 0.5))
    return g * (scaled(half * half, -2.0) + half.full_like(1.0))


@gradient(Sqrt, wide=True)
def sqrt(node: Forward[Sqrt], g: Tensor) -> Given:
    """Return g / (2 √x)."""
    return g * scaled(emit(RECIP, node.result), 0.5)


@gradient(Recip, wide=True)
def recip(node: Forward[Recip], g: Tensor) -> Given:
    """Return -g / x², in an order in which the square cannot overflow by itself."""
    inverse = node.result
    return scaled(g * inverse * inverse, -1.0)


@gradient(Add)
def add(_: Forward[Add], g: Tensor) -> Given:
    """Return g for both."""
    return g, g


@gradient(Mul)
def mul(node: Forward[Mul], g: Tensor) -> Given:
    """Return g times the other factor."""
    left, right = node.sources
    if left == right:  # a square: once, and twice that
        half = g * node[0]
        return half + half, None
    return lambda: g * node[1], lambda: g * node[0]


@gradient(Mod, wide=True)
def mod(node: Forward[Mod], g: Tensor) -> Given:
    """Return g, and for the divisor -g · ⌊x / y⌋."""
    return g, lambda: g * scaled(node[0].floor_divide(node[1]), -1.0)


@gradient(SumReduce)
def sum_reduce(node: Forward[SumReduce], g: Tensor) -> Given:
    """Return g for every element."""
    return spread(g, node, node.op.axis)


@gradient(MaxReduce, wide=True)
def max_reduce(node: Forward[MaxReduce], g: Tensor) -> Given:
    """Return g at the largest value, in equal parts if it occurs several times."""
    axis, x = node.op.axis, node[0]
    if node.types[0].shape[axis] == 1:
        return g
    less = emit(LESS, x, spread(node.result, node, axis))
    zeros = x.full_like(0.0)
    ties = emit(WHERE, less, zeros, x.full_like(1.0))
    share = g * emit(RECIP, emit(SumReduce(axis), ties))
    share = node.result.isnan().where(math.nan, share)
    return emit(WHERE, less, zeros, spread(share, node, axis))


@gradient(Contiguous)
def contiguous(_: Forward[Contiguous], g: Tensor) -> Given:
    """Return g."""
    return g


def spread(g: Tensor, node: Forward[SumReduce | MaxReduce], axis: int) -> Tensor:
    """Return a reduced value, expanded along the reduced axis."""
    shape = node.types[0].shape
    return g if shape[axis] == 1 else emit(Expand(shape), g)
