"""The language of the e-graph: what one element of an array is, as operators over classes.

An operator is what a term does, without its parts; the parts are classes. Sums and products have a
normal form: a sum is a constant and weighted classes, a product is a factor and classes in order.
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
    """A term without parts: an element that is read, a number, an index, or a draw."""

    term: Term


@dataclass(frozen=True, slots=True)
class Sum:
    """A constant, and the weight of each class."""

    constant: float
    weights: tuple[float, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Product:
    """A factor and the product of the classes; a class that occurs twice is squared."""

    factor: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class Applied:
    """An elementwise op that is neither a sum nor a product."""

    op: Elementwise
    dtype: DType


@dataclass(frozen=True, slots=True)
class Finite(Unary):
    """A number, or 0 if it is infinite or NaN: `where(x * 0.0 < 1.0, x, 0.0)`."""

    name: ClassVar[str] = "finite"
    cost: ClassVar[int] = 3

    def eval(self, x: Array) -> Array:
        """Return the finite numbers, and 0 for the others."""
        return np.where(np.isfinite(x), x, np.zeros_like(x))


@dataclass(frozen=True, slots=True)
class Folded:
    """All values along an axis combined into one."""

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
    """The element of a buffer at a position given by a class."""

    buffer: str
    index: Shape
    axis: int
    size: Dim
    dtype: DType


@dataclass(frozen=True, slots=True)
class Ratio:
    """The factor by which a class changes when a fold along the axis takes one more step."""

    axis: Symbol
    dtype: DType


@dataclass(frozen=True, slots=True)
class Shift:
    """The amount by which a class changes when a fold along the axis takes one more step."""

    axis: Symbol
    dtype: DType


@dataclass(frozen=True, slots=True)
class Rise:
    """The amount by which a running fold, which is the class, has just changed."""

    axis: Symbol
    dtype: DType


@dataclass(frozen=True, slots=True)
class First:
    """A class at the first position along an axis."""

    axis: Symbol
    dtype: DType


@dataclass(frozen=True, slots=True)
class Online:
    """A sum along an axis, in one pass with the folds that its terms use.

    The classes are the ratio and the term: at each step the sum so far is multiplied by the ratio,
    and the term is added with the folds as they stand there.
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
    """One way to compute the value of a class: an operator over classes."""

    operator: Operator
    children: tuple[int, ...]


def is_known(dtype: DType) -> bool:
    """Return whether classes of a dtype record which number they are."""
    return dtype.kind == "bool" or is_real(dtype)


def is_real(dtype: DType) -> bool:
    """Return whether sums and products of a dtype are regrouped, at the cost of some rounding."""
    return dtype.is_float and not dtype.is_half
