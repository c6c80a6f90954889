"""Gradients on their way, with the conditions under which they stay 0.

Where a `where` chose the other branch, the gradient is 0 and must stay 0, even if the branch
not taken has an infinite derivative there (0 · inf is NaN). So a gradient carries the
condition under which it counts. Once multiplied by a possible infinity, it is masked again
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
from luminal_lab.passes.gradients.rule import Forward, GradientRule, emit
from luminal_lab.tensor import Tensor

AND, OR, LESS, WHERE = Mul(), Add(), LessThan(), Where()
MOVING: tuple[type[Op], ...] = (Permute, Reshape, Flip, Pad)
"""Ops whose gradient only moves g; a condition on it can be moved along.

Sums are excluded: their gradient makes g larger, and masking before it leaves a plain
matrix product behind it.
"""
Condition = tuple[Tensor, bool]
"""A tensor of bools, and the bool that marks where a gradient counts."""


class GradientMask:
    """The condition under which a gradient counts; its nodes are written on demand."""

    __slots__ = ("_condition", "_make", "outer")

    def __init__(
        self, outer: GradientMask | None, make: Callable[[Condition | None], Condition]
    ) -> None:
        self.outer = outer
        self._make = make
        self._condition: Condition | None = None

    def condition(self) -> Condition:
        """Return the condition, writing its nodes if needed."""
        unmade: list[GradientMask] = []
        mask: GradientMask | None = self
        while mask is not None and mask._condition is None:
            unmade.append(mask)
            mask = mask.outer
        condition = None if mask is None else mask._condition
        for mask in reversed(unmade):
            condition = mask._condition = mask._make(condition)
        assert condition is not None
        return condition

    def and_outer(self) -> Iterator[GradientMask]:
        """Yield this mask and its outer masks."""
        mask: GradientMask | None = self
        while mask is not None:
            yield mask
            mask = mask.outer if isinstance(mask, Chosen) else None


class Chosen(GradientMask):
    """The mask of a branch of `where`, within an outer mask if there is one."""

    __slots__ = ()

    def __init__(self, outer: GradientMask | None, forward: Forward[Op], *, holds: bool) -> None:
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


class Moved(GradientMask):
    """A mask moved along with its gradient."""

    __slots__ = ()

    def __init__(self, outer: GradientMask, forward: Forward[Op], rule: GradientRule) -> None:
        def make(around: Condition | None) -> Condition:
            assert around is not None
            (moved,) = rule.parts(forward, around[0])
            assert isinstance(moved, Tensor)
            return moved, around[1]

        super().__init__(outer, make)


class Slope(NamedTuple):
    """A gradient on its way."""

    value: Tensor
    mask: GradientMask | None = None
    is_wild: bool = False
    """Whether it may be NaN where the mask makes it 0."""

    def tame(self) -> Tensor:
        """Return the value, with zeros where its mask says so."""
        if self.mask is None or not self.is_wild:
            return self.value
        condition, holds = self.mask.condition()
        branches = [self.value, self.value.full_like(0.0)]
        return emit(WHERE, condition, *(branches if holds else reversed(branches)))

    def onwards(
        self, value: Tensor, forward: Forward[Op], rule: GradientRule, source: int
    ) -> Slope:
        """Return the slope at a source, from the rule's result for this slope."""
        op, mask = forward.op, self.mask
        if isinstance(op, Where):
            mask = Chosen(mask, forward, holds=source == 1)
        elif mask is None or not isinstance(op, (Elementwise, *MOVING)):
            return Slope(value)
        elif isinstance(op, MOVING):
            mask = Moved(mask, forward, rule)
        return Slope(value, mask, self.is_wild or not keeps_zero(value, self.value))


def shared(slopes: list[Slope]) -> GradientMask | None:
    """Return the innermost common mask of all slopes."""
    first, *rest = [
        {} if slope.mask is None else dict.fromkeys(slope.mask.and_outer()) for slope in slopes
    ]
    return next((mask for mask in first if all(mask in masks for masks in rest)), None)


def keeps_zero(value: Tensor, of: Tensor) -> bool:
    """Return whether a value is 0 wherever its source gradient is 0."""
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
