"""Activations as modules, for `Sequential`; each is an operation of tensors of the same name."""

from __future__ import annotations

from functools import partial
from typing import Literal

from typing_extensions import override

from luminal_lab.core.dtypes import DTypeLike
from luminal_lab.errors import ArgumentError
from luminal_lab.nn.arguments import at_user, same_size, sizes
from luminal_lab.nn.init import constant
from luminal_lab.nn.module import Module, kind_of
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.parameter import Parameter


class ReLU(Module):
    """max(x, 0)."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.relu()


class ReLU6(Module):
    """x between 0 and 6."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.relu6()


class SiLU(Module):
    """x times its sigmoid."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.silu()


class Mish(Module):
    """x times tanh of its softplus."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.mish()


class SELU(Module):
    """`ELU` with the two constants that preserve mean and variance."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.selu()


class Tanh(Module):
    """The hyperbolic tangent."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.tanh()


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.sigmoid()


class LogSigmoid(Module):
    """The logarithm of the sigmoid."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.log_sigmoid()


class Hardsigmoid(Module):
    """A piecewise linear sigmoid."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.hardsigmoid()


class Hardswish(Module):
    """x times its hard sigmoid."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.hardswish()


class Softsign(Module):
    """x / (1 + |x|)."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.softsign()


class Tanhshrink(Module):
    """x minus its tanh."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.tanhshrink()


class LeakyReLU(Module):
    """x where it is positive, and elsewhere x times a slope."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.leaky_relu(self.negative_slope)

    @override
    def options(self) -> str:
        return f"{self.negative_slope}"


class ELU(Module):
    """x where it is positive, and elsewhere alpha · (exp(x) - 1)."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.elu(self.alpha)

    @override
    def options(self) -> str:
        return f"{self.alpha}"


class CELU(Module):
    """`ELU` with x / alpha in the exponent, so that its slope is continuous."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.celu(self.alpha)

    @override
    def options(self) -> str:
        return f"{self.alpha}"


class Softplus(Module):
    """log(1 + exp(beta · x)) / beta, and x itself beyond a threshold."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self.beta = beta
        self.threshold = threshold

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.softplus(self.beta, self.threshold)

    @override
    def options(self) -> str:
        return f"{self.beta}, {self.threshold}"


class Hardtanh(Module):
    """x between two bounds."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        self.min_val = min_val
        self.max_val = max_val

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.hardtanh(self.min_val, self.max_val)

    @override
    def options(self) -> str:
        return f"{self.min_val}, {self.max_val}"


class Hardshrink(Module):
    """x, and 0 where it is within ±lambd."""

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.hardshrink(self.lambd)

    @override
    def options(self) -> str:
        return f"{self.lambd}"


class Softshrink(Module):
    """x moved by lambd towards 0, and 0 where it is within ±lambd."""

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.softshrink(self.lambd)

    @override
    def options(self) -> str:
        return f"{self.lambd}"


class Threshold(Module):
    """x, and a value where it is not above a threshold."""

    def __init__(self, threshold: float, value: float) -> None:
        self.threshold = threshold
        self.value = value

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.threshold(self.threshold, self.value)

    @override
    def options(self) -> str:
        return f"{self.threshold}, {self.value}"


class GLU(Module):
    """One half of an axis times the sigmoid of the other."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.glu(self.dim)

    @override
    def options(self) -> str:
        return f"{self.dim}"


class Softmax(Module):
    """exp(x) over its sum along an axis."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.softmax(self.dim)

    @override
    def options(self) -> str:
        return f"{self.dim}"


class LogSoftmax(Module):
    """The logarithm of the softmax along an axis."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.log_softmax(self.dim)

    @override
    def options(self) -> str:
        return f"{self.dim}"


class Softmin(Module):
    """The softmax of -x along an axis."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.softmin(self.dim)

    @override
    def options(self) -> str:
        return f"{self.dim}"


class GELU(Module):
    """x times the normal distribution's share below it; approximately so with "tanh"."""

    def __init__(self, approximate: Literal["none", "tanh"] = "none") -> None:
        if approximate not in ("none", "tanh"):
            what = f"{kind_of(self)}: there is no approximation {approximate!r}"
            raise at_user(ArgumentError(what, hint="'none' or 'tanh'"))
        self.approximate = approximate

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.gelu(self.approximate)

    @override
    def options(self) -> str:
        return "" if self.approximate == "none" else repr(self.approximate)


class PReLU(Module):
    """`LeakyReLU` with learned slopes, one for all or one for each channel."""

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, *, dtype: DTypeLike = "float32"
    ) -> None:
        (self.num_parameters,) = sizes(kind_of(self), num_parameters=num_parameters)
        self.weight = Parameter((self.num_parameters,), dtype, init=partial(constant, value=init))

    @override
    def forward(self, x: Tensor) -> Tensor:
        if self.num_parameters > 1:
            same_size(kind_of(self), x, 1, self.num_parameters, "num_parameters")
        return x.prelu(self.weight)

    @override
    def options(self) -> str:
        return f"{self.num_parameters}"
