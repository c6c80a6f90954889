"""Activations, the functions between the layers of a network, and mixtures of values."""

from __future__ import annotations

import math
from typing import Self

from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import never
from luminal_lab.errors import LabError, RangeError, ShapeError, nearest
from luminal_lab.tensor import formulas
from luminal_lab.tensor.arithmetic import Operand
from luminal_lab.tensor.functions import Functions, beside, in_float, number, widened
from luminal_lab.tensor.lazy import Lazy
from luminal_lab.tensor.operation import operation


class Activations(Functions):
    """Functions that networks use, and mixtures of several values."""

    __slots__ = ()

    # -- activations that are linear in parts ------------------------------------------------------

    @operation
    def relu(self) -> Self:
        """Return x where it is above 0, else 0; NaN stays.

        `x < tiny` for the smallest number above 0 is `x <= 0`, so that the gradient at 0 is 0.

        >>> print(cx.tensor((2,), name="x").relu().lowering())
        %1 = constant{value = 1.401298464324817e-45} : f32[2]
        %2 = less_than %x, %1 : bool[2]
        %3 = constant{value = 0.0} : f32[2]
        %4 = where %2, %3, %x : f32[2]
        """
        if self.dtype is DType.bool_:
            return self
        return (self < beside(self.dtype, 0, 1)).where(0, self)

    @operation
    def hardtanh(self, min_val: float = -1.0, max_val: float = 1.0) -> Self:
        """Return x clamped to bounds, with the gradient 0 also at the bounds.

        >>> print(cx.tensor((2,), name="x").hardtanh().lowering())
        %1 = constant{value = -0.9999999403953552} : f32[2]
        %2 = less_than %x, %1 : bool[2]
        %3 = constant{value = -1.0} : f32[2]
        %4 = where %2, %3, %x : f32[2]
        %5 = constant{value = 0.9999999403953552} : f32[2]
        %6 = less_than %5, %4 : bool[2]
        %7 = constant{value = 1.0} : f32[2]
        %8 = where %6, %7, %4 : f32[2]
        """
        low, high = (number("hardtanh", "a bound", bound) for bound in (min_val, max_val))
        if math.isnan(low) or math.isnan(high):
            return self.clip(low, high)
        if not self.dtype.is_float and math.isfinite(low) and math.isfinite(high):
            return self.clip(int(low), int(high))
        x = (self < beside(self.dtype, low, math.inf)).where(min_val, self)
        return (x > beside(self.dtype, high, -math.inf)).where(max_val, x)

    @operation
    def relu6(self) -> Self:
        """Return x clamped to 0 and 6.

        >>> print(cx.tensor((2,), name="x").relu6().lowering())
        %1 = constant{value = 1.401298464324817e-45} : f32[2]
        %2 = less_than %x, %1 : bool[2]
        %3 = constant{value = 0.0} : f32[2]
        %4 = where %2, %3, %x : f32[2]
        %5 = constant{value = 5.999999523162842} : f32[2]
        %6 = less_than %5, %4 : bool[2]
        %7 = constant{value = 6.0} : f32[2]
        %8 = where %6, %7, %4 : f32[2]
        """
        return self.hardtanh(0, 6)

    @in_float
    def leaky_relu(self, negative_slope: float = 0.01) -> Self:
        """Return x where it is above 0, else x times a small slope.

        >>> print(cx.tensor((2,), name="x").leaky_relu().lowering())
        %1 = constant{value = 0.0} : f32[2]
        %2 = less_than %1, %x : bool[2]
        %3 = constant{value = 0.01} : f32[2]
        %4 = mul %x, %3 : f32[2]
        %5 = where %2, %x, %4 : f32[2]
        """
        return (self > 0).where(self, self * negative_slope)

    @operation
    def prelu(self, weight: Operand) -> Self:
        """Return `leaky_relu` with a tensor as the slope: one element, or one per channel.

        >>> print(cx.tensor((2,), name="x").prelu(0.1).lowering())
        %1 = constant{value = 0.1} : f32[2]
        %2 = constant{value = 0.0} : f32[2]
        %3 = less_than %2, %x : bool[2]
        %4 = mul %x, %1 : f32[2]
        %5 = where %3, %x, %4 : f32[2]
        """
        slope = self._operand(weight, "prelu")
        if isinstance(slope, Lazy) and slope.ndim == 1 and slope.shape != (1,):
            slope = self._aligned("prelu", "weight", slope, range(1, self.ndim)[:1])
        elif isinstance(slope, Lazy) and slope.shape == (1,):
            slope = slope._viewed(())
        dtype, (x, slope) = self._floats("prelu", slope)
        return (x > 0).where(x, x * slope).cast(dtype)

    @in_float
    def hardsigmoid(self) -> Self:
        """Return x/6 + 1/2 clamped to 0 and 1.

        >>> cx.tensor((2,)).hardsigmoid().op_counts()
        {'add': 1, 'constant': 6, 'less_than': 2, 'mul': 1, 'where': 2}
        """
        return ((self + 3.0).relu6() * (1 / 6))._spells("hardsigmoid", self)

    @in_float
    def hardswish(self) -> Self:
        """Return x times its hardsigmoid.

        >>> cx.tensor((2,)).hardswish().op_counts()
        {'add': 1, 'constant': 6, 'less_than': 2, 'mul': 2, 'where': 2}
        """
        return (self * self.hardsigmoid())._spells("hardswish", self)

    @operation
    def threshold(self, threshold: float, value: float) -> Self:
        """Return x where it is above the threshold, else the value.

        >>> print(cx.tensor((2,), name="x").threshold(1.0, 0.0).lowering())
        %1 = constant{value = 1.0000001192092896} : f32[2]
        %2 = less_than %x, %1 : bool[2]
        %3 = constant{value = 0.0} : f32[2]
        %4 = where %2, %3, %x : f32[2]
        """
        last = beside(self.dtype, number("threshold", "threshold", threshold), math.inf)
        return (self < last).where(value, self)

    @in_float
    def hardshrink(self, lambd: float = 0.5) -> Self:
        """Return x, but 0 where it is from -lambd to lambd.

        >>> cx.tensor((2,)).hardshrink().op_counts()
        {'constant': 4, 'less_than': 2, 'mul': 1, 'where': 2}
        """
        limit = beside(self.dtype, number("hardshrink", "lambd", lambd), math.inf)
        return (formulas.magnitude(self) < limit).where(0.0, self)

    @in_float
    def softshrink(self, lambd: float = 0.5) -> Self:
        """Return x moved towards 0 by lambd, and 0 from -lambd to lambd.

        >>> cx.tensor((2,)).softshrink().op_counts()
        {'add': 1, 'constant': 5, 'less_than': 2, 'mul': 1, 'where': 2}
        """
        limit = number("softshrink", "lambd", lambd)
        return self - self.clip(-limit, limit)

    # -- smooth activations ------------------------------------------------------------------------

    @in_float
    def silu(self) -> Self:
        """Return x · sigmoid(x).

        >>> cx.tensor((2,)).silu().op_counts()
        {'add': 1, 'constant': 6, 'exp2': 4, 'less_than': 1, 'mul': 10, 'recip': 1, 'where': 2}
        """
        _, power, product = formulas.falling_product(self)
        return product * (power + 1.0).recip()

    @in_float
    def mish(self) -> Self:
        """Return x · tanh(softplus(x)), as a fraction of powers of exp(-|x|).

        >>> cx.tensor((2,)).mish().op_counts()
        {'add': 4, 'constant': 11, 'exp2': 4, 'less_than': 1, 'mul': 15, 'recip': 1, 'where': 5}
        """
        negative, power, product = formulas.falling_product(self)
        square = power * power
        above = negative.where(power + 2.0, power * 2.0 + 1.0)
        below = negative.where(square + power * 2.0, above)
        ratio = product * above * (below + negative.where(2.0, square * 2.0)).recip()
        return ratio._spells("mish", self)

    @in_float
    def softplus(self, beta: float = 1.0, threshold: float = 20.0) -> Self:
        """Return log(1 + exp(beta · x)) / beta, and x where beta · x is above the threshold.

        >>> cx.tensor((2,)).softplus().op_counts()
        {'add': 5, 'constant': 11, 'exp2': 4, 'less_than': 2, 'log2': 1, 'mul': 9, 'where': 3}
        """
        x = self if beta == 1 else self * beta
        negative, power = formulas.falling(x)
        soft = negative.where(0.0, x) + formulas.log1p(power)
        return (x > threshold).where(self, soft if beta == 1 else soft / beta)

    @in_float
    def log_sigmoid(self) -> Self:
        """Return log(sigmoid(x)).

        >>> cx.tensor((2,)).log_sigmoid().op_counts()
        {'add': 5, 'constant': 11, 'exp2': 4, 'less_than': 1, 'log2': 1, 'mul': 10, 'where': 2}
        """
        negative, power = formulas.falling(self)
        return negative.where(self, 0.0) - formulas.log1p(power)

    @in_float
    def elu(self, alpha: float = 1.0) -> Self:
        """Return x where it is above 0, else alpha · (exp(x) - 1).

        >>> cx.tensor((2,)).elu().op_counts()
        {'add': 4, 'constant': 10, 'exp2': 1, 'less_than': 2, 'log2': 1, 'mul': 4, 'where': 3}
        """
        return formulas.bent(self, 1.0, alpha)

    @in_float
    def celu(self, alpha: float = 1.0) -> Self:
        """Return x where it is above 0, else alpha · (exp(x / alpha) - 1).

        >>> cx.tensor((2,)).celu().op_counts()
        {'add': 4, 'constant': 10, 'exp2': 1, 'less_than': 2, 'log2': 1, 'mul': 4, 'where': 3}
        """
        width = number("celu", "alpha", alpha)
        if width <= 0:
            raise RangeError(f"celu: alpha is {alpha}, and must be above 0", hint="try alpha=1.0")
        return formulas.bent(self, width, width)

    @in_float
    def selu(self) -> Self:
        """Return an elu whose constants preserve mean 0 and variance 1 from layer to layer.

        >>> cx.tensor((2,)).selu().op_counts()
        {'add': 4, 'constant': 11, 'exp2': 1, 'less_than': 2, 'log2': 1, 'mul': 5, 'where': 3}
        """
        return formulas.bent(self, 1.0, 1.6732632423543772) * 1.0507009873554805

    @in_float
    def erf(self) -> Self:
        """Return the error function, as 1 - 2**p(|x|) with a polynomial p.

        >>> cx.tensor((2,)).erf().op_counts()
        {'add': 11, 'constant': 21, 'exp2': 1, 'less_than': 4, 'log2': 1, 'mul': 13, 'where': 4}
        """
        # Beyond 6 the result is 1 in any dtype, and powers of |x| would overflow.
        size = formulas.magnitude(self)
        size = (size > 6).where(6.0, size)
        if self.dtype is DType.float64:
            square = size * size
            inner = size * formulas.polynomial(square, formulas.ERF)
            value = (square < 0.3).where(inner, -formulas.erfc(size) + 1.0)
        else:
            value = -formulas.exp2m1(size * formulas.polynomial(size, formulas.ERF))
        return (self < 0).where(-value, value)._spells("erf", self, settings=(1.0,))

    @in_float
    def erfc(self) -> Self:
        """Return 1 - erf(x), accurate for small results.

        >>> sum(cx.tensor((2,)).erfc().op_counts().values())
        83
        """
        size = formulas.magnitude(self)
        value = formulas.erfc((size > 28).where(28.0, size))
        return (self < 0).where(-value + 2.0, value)._spells("erf", self, settings=(-1.0,))

    @in_float
    def gelu(self, approximate: str = "none") -> Self:
        """Return x times the normal distribution function of x, or the approximation by tanh.

        >>> cx.tensor((2,)).gelu().op_counts()
        {'add': 9, 'constant': 16, 'exp2': 1, 'less_than': 2, 'mul': 15, 'recip': 1, 'where': 2}
        """
        forms = {"none": formulas.gelu, "tanh": formulas.gelu_tanh}
        if approximate not in forms:
            raise LabError(
                f"gelu: there is no approximation {approximate!r}",
                hint=nearest(str(approximate), forms) or 'it is "none" or "tanh"',
            )
        return forms[approximate](self)

    @in_float
    def softsign(self) -> Self:
        """Return x / (1 + |x|).

        >>> cx.tensor((2,)).softsign().op_counts()
        {'add': 1, 'constant': 3, 'less_than': 1, 'mul': 2, 'recip': 1, 'where': 1}
        """
        return self * (formulas.magnitude(self) + 1.0).recip()

    @in_float
    def tanhshrink(self) -> Self:
        """Return x - tanh(x).

        >>> sum(cx.tensor((2,)).tanhshrink().op_counts().values())
        33
        """
        return (self - self.tanh())._spells("tanhshrink", self)

    @operation
    def glu(self, axis: int = -1) -> Self:
        """Return the first half of an axis times the sigmoid of the second half.

        >>> sum(cx.tensor((2, 4)).glu().op_counts().values())
        27
        """
        k = self._axis_of("glu", axis)
        size = self.shape[k]
        if never(size % 2 < 1):
            raise ShapeError(
                f"glu: axis {axis} of {self.label} has size {size}, which has no half",
                hint="the axis must be of even size",
            )
        first, second = self._cut({k: (0, size // 2, 1)}), self._cut({k: (size // 2, size, 1)})
        return first * second.sigmoid()

    swish = silu
    logsigmoid = log_sigmoid

    # -- mixtures ----------------------------------------------------------------------------------

    @operation
    def lerp(self, end: Operand, weight: Operand) -> Self:
        """Return x + weight · (end - x), from whichever end is nearer.

        >>> cx.tensor((2,)).lerp(0.0, 0.5).op_counts()
        {'add': 4, 'constant': 9, 'less_than': 2, 'mul': 6, 'where': 2}
        """
        dtype, (x, y, part) = self._floats("lerp", end, weight)
        way = y - x
        near, far = x + part * way, y - way * (-part + 1.0)
        return (formulas.magnitude(part) < 0.5).where(near, far).cast(dtype)

    @operation
    def addcmul(self, tensor1: Operand, tensor2: Operand, value: float = 1) -> Self:
        """Return x + value · a · b.

        >>> print(cx.tensor((2,), name="x").addcmul(2.0, 3.0).lowering())
        %1 = constant{value = 2.0} : f32[2]
        %2 = constant{value = 3.0} : f32[2]
        %3 = mul %1, %2 : f32[2]
        %4 = add %x, %3 : f32[2]
        """
        x, a, b = self._together("addcmul", tensor1, tensor2)
        product = widened(a) * widened(b)
        return (widened(x) + (product if value == 1 else product * value)).cast(x.dtype)

    @operation
    def addcdiv(self, tensor1: Operand, tensor2: Operand, value: float = 1) -> Self:
        """Return x + value · a / b.

        >>> print(cx.tensor((2,), name="x").addcdiv(1.0, 2.0).lowering())
        %1 = constant{value = 1.0} : f32[2]
        %2 = constant{value = 2.0} : f32[2]
        %3 = recip %2 : f32[2]
        %4 = mul %1, %3 : f32[2]
        %5 = constant{value = 1.0} : f32[2]
        %6 = mul %4, %5 : f32[2]
        %7 = add %x, %6 : f32[2]
        """
        dtype, (x, a, b) = self._floats("addcdiv", tensor1, tensor2)
        return (x + a * b.recip() * value).cast(dtype)
