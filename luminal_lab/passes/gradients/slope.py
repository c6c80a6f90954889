"""What arrives at a node, and where it is 0 whatever it is multiplied by.

Where a `where` chose the other branch, the gradient is 0, and must stay 0 though the branch that
was not taken has an infinite derivative there (0 · inf is NaN). So a gradient knows under which
condition it counts. When it has been multiplied by what may be infinite, it is chosen once more
before it leaves the elementwise chain: `where(x > 0, log(x), 0)` has a finite gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from luminal_lab.core.op import Elementwise, Op
from luminal_lab.core.ops import (
    Add,
    Cast,
    Constant,
    Flip,
    LessThan,
    Mul,
    Pad,
    Permute,
    Reshape,
    Where,
)
from luminal_lab.passes.gradients.rule import Forward, Rule, emit
from luminal_lab.tensor import Tensor

AND, OR, LESS, WHERE = Mul(), Add(), LessThan(), Where()
MOVING: tuple[type[Op], ...] = (Permute, Reshape, Flip, Pad)
"""Ops whose gradient only moves g; a condition on it can be moved along.

Not a sum, whose gradient makes g larger: choosing before that keeps the product behind it a plain
matrix product.
"""
Condition = tuple[Tensor, bool]
"""A tensor of bools, and which of both they are where a gradient counts."""


class Mask:
    """The condition under which a gradient counts; its nodes are written when it is asked for."""

    __slots__ = ("_made", "_make", "outer")

    def __init__(self, outer: Mask | None, make: Callable[[Condition | None], Condition]) -> None:
        self.outer = outer
        self._make = make
        self._made: Condition | None = None

    def condition(self) -> Condition:
        """Return the condition, with all that it is made of."""
        unmade: list[Mask] = []
        mask: Mask | None = self
        while mask is not None and mask._made is None:
            unmade.append(mask)
            mask = mask.outer
        made = None if mask is None else mask._made
        for mask in reversed(unmade):
            made = mask._made = mask._make(made)
        assert made is not None
        return made

    def and_outer(self) -> Iterator[Mask]:
        """Yield this mask and those that it is a part of."""
        mask: Mask | None = self
        while mask is not None:
            yield mask
            mask = mask.outer if isinstance(mask, Chosen) else None


class Chosen(Mask):
    """Where a `where` took a branch, within another mask if there is one."""

    __slots__ = ()

    def __init__(self, outer: Mask | None, forward: Forward[Op], *, holds: bool) -> None:
        def make(around: Condition | None) -> Condition:
            inner = forward[0]
            if around is None:
                return inner, holds
            other, other_holds = around
            if holds and other_holds:
                return emit(AND, inner, other), True
            if holds or other_holds:
                no, yes = (other, inner) if holds else (inner, other)
                return emit(LESS, no, yes), True
            return emit(OR, inner, other), False

        super().__init__(outer, make)


class Moved(Mask):
    """A mask moved as a gradient was."""

    __slots__ = ()

    def __init__(self, outer: Mask, forward: Forward[Op], rule: Rule) -> None:
        def make(around: Condition | None) -> Condition:
            assert around is not None
            (moved,) = rule.parts(forward, around[0])
            assert isinstance(moved, Tensor)
            return moved, around[1]

        super().__init__(outer, make)


class Slope(NamedTuple):
    """A gradient on its way."""

    value: Tensor
    mask: Mask | None = None
    is_wild: bool = False
    """Whether it may be NaN where the mask says that it is 0."""

    def tame(self) -> Tensor:
        """Return the value, made 0 where it is."""
        if self.mask is None or not self.is_wild:
            return self.value
        condition, holds = self.mask.condition()
        branches = [self.value, self.value.full_like(0.0)]
        return emit(WHERE, condition, *(branches if holds else reversed(branches)))

    def onwards(self, value: Tensor, forward: Forward[Op], rule: Rule, source: int) -> Slope:
        """Return what arrives at a source, for what the rule has made of this."""
        op, mask = forward.op, self.mask
        if isinstance(op, Where):
            mask = Chosen(mask, forward, holds=source == 1)
        elif mask is None or not isinstance(op, (Elementwise, *MOVING)):
            return Slope(value)
        elif isinstance(op, MOVING):
            mask = Moved(mask, forward, rule)
        return Slope(value, mask, self.is_wild or not keeps_zero(value, self.value))


def shared(slopes: list[Slope]) -> Mask | None:
    """Return the innermost mask that all slopes are under."""
    first, *rest = [
        {} if slope.mask is None else dict.fromkeys(slope.mask.and_outer()) for slope in slopes
    ]
    return next((mask for mask in first if all(mask in masks for masks in rest)), None)


def keeps_zero(value: Tensor, of: Tensor) -> bool:
    """Return whether a value is 0 wherever the gradient is that it was made of."""
    if value.id == of.id:
        return True
    node = value.node
    if not isinstance(node.op, Mul):
        return isinstance(node.op, (*MOVING, Where, Cast))
    others = [value.graph.node(id).op for id in node.sources if id != of.id]
    return len(others) == 1 and all(
        isinstance(op, Constant) and (not isinstance(op.value, float) or math.isfinite(op.value))
        for op in others
    )
