"""Functions that kernels have beside the primitive ops: exp, tanh, gelu, floor and the like.

A graph as written has none of them: the pass `intrinsics` inserts them where it recognises their
formulas. Their names begin with `math.`, so that a notebook's own ops can be called exp.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.core.op import Binary, Elementwise, Slope, Unary
from luminal_lab.core.ops.primitive import Mul

PREFIX = "math."


class Intrinsic(Elementwise):
    """An elementwise op on floats with a C function, as lab_exp_f32 for `math.exp`."""

    __slots__ = ()
    cost: ClassVar[int] = 10


class Simple(Intrinsic):
    """A function that costs no more than an addition and rounds nothing."""

    __slots__ = ()
    cost: ClassVar[int] = 1
    ulps: ClassVar[int] = 0


class Whole(Simple):
    """A function whose results are whole numbers."""

    __slots__ = ()
    slope: ClassVar[Slope] = "jumps"


@dataclass(frozen=True, slots=True)
class FusedMul(Mul):
    """x · y as a term of a sum that may be rounded with it: a fused multiply-add."""

    name: ClassVar[str] = "fused_mul"


@dataclass(frozen=True, slots=True)
class FlushedMul(FusedMul):
    """A fused multiply-add in which subnormal factors and sums may count as 0."""

    name: ClassVar[str] = "flushed_mul"


Wide: TypeAlias = npt.NDArray[np.float64]


def _wide(function: Callable[[Wide], Wide], x: Array) -> Array:
    """Return a function computed in float64."""
    with np.errstate(all="ignore"):
        return function(x.astype(np.float64)).astype(x.dtype)


_erf: Callable[[Wide], Wide] = np.vectorize(math.erf, [np.float64])
_erfc: Callable[[Wide], Wide] = np.vectorize(math.erfc, [np.float64])


def _sigmoid(x: Wide) -> Wide:
    power = np.exp(-np.abs(x))
    return np.where(x < 0, power, 1) / (1 + power)


def _gelu(x: Wide) -> Wide:
    return x * (0.5 * _erfc(x * -math.sqrt(0.5)))


@dataclass(frozen=True, slots=True)
class Exp(Unary, Intrinsic):
    """E to the power of x."""

    name: ClassVar[str] = "math.exp"
    c_form: ClassVar[str] = "exp({0})"

    @override
    def eval(self, x: Array) -> Array:
        return _wide(np.exp, x)


@dataclass(frozen=True, slots=True)
class Expm1(Unary, Intrinsic):
    """E to the power of x, less 1, accurate for small x."""

    name: ClassVar[str] = "math.expm1"
    c_form: ClassVar[str] = "expm1({0})"

    @override
    def eval(self, x: Array) -> Array:
        return _wide(np.expm1, x)


@dataclass(frozen=True, slots=True)
class Tanh(Unary, Intrinsic):
    """The hyperbolic tangent."""

    name: ClassVar[str] = "math.tanh"
    c_form: ClassVar[str] = "tanh({0})"

    @override
    def eval(self, x: Array) -> Array:
        return _wide(np.tanh, x)


@dataclass(frozen=True, slots=True)
class Sigmoid(Unary, Intrinsic):
    """1 / (1 + exp(-x))."""

    name: ClassVar[str] = "math.sigmoid"
    c_form: ClassVar[str] = "sigmoid({0})"

    @override
    def eval(self, x: Array) -> Array:
        return _wide(_sigmoid, x)


@dataclass(frozen=True, slots=True)
class Silu(Unary, Intrinsic):
    """x · sigmoid(x)."""

    name: ClassVar[str] = "math.silu"
    c_form: ClassVar[str] = "silu({0})"

    @override
    def eval(self, x: Array) -> Array:
        return _wide(lambda x: x * _sigmoid(x), x)


@dataclass(frozen=True, slots=True)
class Gelu(Unary, Intrinsic):
    """x times the normal distribution's integral up to x."""

    name: ClassVar[str] = "math.gelu"
    c_form: ClassVar[str] = "gelu({0})"

    @override
    def eval(self, x: Array) -> Array:
        return _wide(_gelu, x)


@dataclass(frozen=True, slots=True)
class GeluTanh(Unary, Intrinsic):
    """x · sigmoid(2 √(2/π) (x + 0.044715 x³)), close to gelu."""

    name: ClassVar[str] = "math.gelu_tanh"
    c_form: ClassVar[str] = "gelu_tanh({0})"

    @override
    def eval(self, x: Array) -> Array:
        scale = 2 * math.sqrt(2 / math.pi)
        return _wide(lambda x: x * _sigmoid(scale * x * (1 + 0.044715 * x * x)), x)


@dataclass(frozen=True, slots=True)
class Erf(Unary, Intrinsic):
    """The error function."""

    name: ClassVar[str] = "math.erf"
    c_form: ClassVar[str] = "erf({0})"

    @override
    def eval(self, x: Array) -> Array:
        return _wide(_erf, x)


@dataclass(frozen=True, slots=True)
class Cos(Unary, Intrinsic):
    """Cosine of x in radians, for every finite x however large."""

    name: ClassVar[str] = "math.cos"
    c_form: ClassVar[str] = "cos({0})"

    @override
    def eval(self, x: Array) -> Array:
        return _wide(np.cos, x)


@dataclass(frozen=True, slots=True)
class Floor(Unary, Whole):
    """The next whole number at or below x."""

    name: ClassVar[str] = "math.floor"
    c_form: ClassVar[str] = "floor({0})"

    @override
    def eval(self, x: Array) -> Array:
        return np.floor(x)


@dataclass(frozen=True, slots=True)
class Ceil(Unary, Whole):
    """The next whole number at or above x."""

    name: ClassVar[str] = "math.ceil"
    c_form: ClassVar[str] = "ceil({0})"

    @override
    def eval(self, x: Array) -> Array:
        return np.ceil(x)


@dataclass(frozen=True, slots=True)
class Trunc(Unary, Whole):
    """The next whole number at or towards 0."""

    name: ClassVar[str] = "math.trunc"
    c_form: ClassVar[str] = "trunc({0})"

    @override
    def eval(self, x: Array) -> Array:
        return np.trunc(x)


@dataclass(frozen=True, slots=True)
class Round(Unary, Whole):
    """The nearest whole number; ties go to the even one."""

    name: ClassVar[str] = "math.round"
    c_form: ClassVar[str] = "rint({0})"

    @override
    def eval(self, x: Array) -> Array:
        return np.rint(x)


@dataclass(frozen=True, slots=True)
class Abs(Unary, Simple):
    """x without its sign."""

    name: ClassVar[str] = "math.abs"
    c_form: ClassVar[str] = "fabs({0})"

    @override
    def eval(self, x: Array) -> Array:
        return np.abs(x)


@dataclass(frozen=True, slots=True)
class Relu(Unary, Simple):
    """x where it is above 0, else 0; NaN stays, and -0.0 becomes 0.0."""

    name: ClassVar[str] = "math.relu"
    c_form: ClassVar[str] = "({0} <= 0 ? 0 : {0})"

    @override
    def eval(self, x: Array) -> Array:
        nought = np.zeros((), x.dtype)
        return np.where(np.less_equal(x, nought), nought, x)


@dataclass(frozen=True, slots=True)
class Maximum(Binary, Simple):
    """The larger of x and y; NaN where either is."""

    name: ClassVar[str] = "math.maximum"
    c_form: ClassVar[str] = "maximum({0}, {1})"
    commutative: ClassVar[bool] = True

    @override
    def eval(self, x: Array, y: Array) -> Array:
        return np.maximum(x, y)


@dataclass(frozen=True, slots=True)
class Minimum(Binary, Simple):
    """The smaller of x and y; NaN where either is."""

    name: ClassVar[str] = "math.minimum"
    c_form: ClassVar[str] = "minimum({0}, {1})"
    commutative: ClassVar[bool] = True

    @override
    def eval(self, x: Array, y: Array) -> Array:
        return np.minimum(x, y)
