"""The language of the e-graph: what one element of an array is, as operators over classes.

An operator is what a term does, without its parts; the parts are classes. Sums and products are
in normal form: a sum is a constant and weighted classes, a product a factor and classes in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np

from luminal_lab.core.dims import Dim, Shape, Symbol
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.op import Elementwise, Unary
from luminal_lab.kernels.definition.terms import Term


@dataclass(frozen=True, slots=True)
class Leaf:
    """A term without parts: an element that is read, a number, an index, a draw."""

    term: Term


@dataclass(frozen=True, slots=True)
class Sum:
    """A constant, and each class by its weight."""

    constant: float
    weights: tuple[float, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Product:
    """A factor, and the product of the classes; a class that comes twice is squared."""

    factor: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class Applied:
    """An elementwise op that is neither a sum nor a product."""

    op: Elementwise
    dtype: DType


@dataclass(frozen=True, slots=True)
class Finite(Unary):
    """A number, or 0 where it is infinite or none: `where(x * 0.0 < 1.0, x, 0.0)`."""

    name: ClassVar[str] = "finite"
    cost: ClassVar[int] = 3

    def eval(self, x: Array) -> Array:
        """Return the numbers, and 0 for what is none."""
        return np.where(np.isfinite(x), x, np.zeros_like(x))


@dataclass(frozen=True, slots=True)
class Folded:
    """All values along an axis as one."""

    kind: Literal["sum", "max"]
    axis: Symbol
    size: Dim
    dtype: DType


@dataclass(frozen=True, slots=True)
class GuardedValue:
    """A class where a condition on indices holds, else 0."""

    holds: Dim
    dtype: DType


@dataclass(frozen=True, slots=True)
class Looked:
    """The element of a buffer at a position that is a class."""

    buffer: str
    index: Shape
    axis: int
    size: Dim
    dtype: DType


@dataclass(frozen=True, slots=True)
class Ratio:
    """By which factor a class changes when a fold along the axis goes one step on."""

    axis: Symbol
    dtype: DType


@dataclass(frozen=True, slots=True)
class Shift:
    """By how much a class changes when a fold along the axis goes one step on."""

    axis: Symbol
    dtype: DType


@dataclass(frozen=True, slots=True)
class Rise:
    """By how much a running fold, which is the class, has just changed."""

    axis: Symbol
    dtype: DType


@dataclass(frozen=True, slots=True)
class First:
    """A class at the first position along an axis."""

    axis: Symbol
    dtype: DType


@dataclass(frozen=True, slots=True)
class Online:
    """A sum along an axis in the pass of the folds that its terms use.

    The classes are the ratio and the term: what was summed is multiplied by the ratio at each
    step, and the term is added as the folds stand there.
    """

    axis: Symbol
    size: Dim
    dtype: DType


Operator: TypeAlias = (
    Leaf
    | Sum
    | Product
    | Applied
    | Folded
    | GuardedValue
    | Looked
    | Ratio
    | Shift
    | Rise
    | First
    | Online
)


class ENode(NamedTuple):
    """One way to have the value of a class: an operator over classes."""

    operator: Operator
    children: tuple[int, ...]


def is_known(dtype: DType) -> bool:
    """Return whether it is noted which number a class of a dtype is."""
    return dtype.kind == "bool" or is_real(dtype)


def is_real(dtype: DType) -> bool:
    """Return whether sums and products of a dtype are regrouped: they round, but not much."""
    return dtype.is_float and not dtype.is_half
