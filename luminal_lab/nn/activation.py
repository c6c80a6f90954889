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
    """max(x, 0).

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.ReLU()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [0.0, 0.0, 2.0]
    """

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.relu()


class ReLU6(Module):
    """x between 0 and 6.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 3.0, 8.0])
    >>> y = nn.ReLU6()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [0.0, 3.0, 6.0]
    """

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.relu6()


class SiLU(Module):
    """x times its sigmoid.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.SiLU()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [-0.23800000548362732, 0.0, 1.7619999647140503]
    """

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.silu()


class Mish(Module):
    """x times tanh of its softplus.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.Mish()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [-0.2529999911785126, 0.0, 1.944000005722046]
    """

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.mish()


class SELU(Module):
    """`ELU` with the two constants that preserve mean and variance.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.SELU()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [-1.5199999809265137, 0.0, 2.1010000705718994]
    """

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.selu()


class Tanh(Module):
    """The hyperbolic tangent.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.Tanh()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [-0.9639999866485596, -0.0, 0.9639999866485596]
    """

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.tanh()


class Sigmoid(Module):
    """1 / (1 + exp(-x)).

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.Sigmoid()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [0.11900000274181366, 0.5, 0.8809999823570251]
    """

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.sigmoid()


class LogSigmoid(Module):
    """The logarithm of the sigmoid.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.LogSigmoid()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [-2.127000093460083, -0.6930000185966492, -0.12700000405311584]
    """

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.log_sigmoid()


class Hardsigmoid(Module):
    """A piecewise linear sigmoid.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.Hardsigmoid()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [0.16699999570846558, 0.5, 0.8330000042915344]
    """

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.hardsigmoid()


class Hardswish(Module):
    """x times its hard sigmoid.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.Hardswish()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [-0.3330000042915344, 0.0, 1.6670000553131104]
    """

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.hardswish()


class Softsign(Module):
    """x / (1 + |x|).

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.Softsign()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [-0.6669999957084656, 0.0, 0.6669999957084656]
    """

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.softsign()


class Tanhshrink(Module):
    """x minus its tanh.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.Tanhshrink()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [-1.0360000133514404, 0.0, 1.0360000133514404]
    """

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.tanhshrink()


class LeakyReLU(Module):
    """x where it is positive, and elsewhere x times a slope.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.LeakyReLU()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [-0.019999999552965164, 0.0, 2.0]
    """

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.leaky_relu(self.negative_slope)

    @override
    def options(self) -> str:
        return f"{self.negative_slope}"


class ELU(Module):
    """x where it is positive, and elsewhere alpha · (exp(x) - 1).

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.ELU()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [-0.8650000095367432, 0.0, 2.0]
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.elu(self.alpha)

    @override
    def options(self) -> str:
        return f"{self.alpha}"


class CELU(Module):
    """`ELU` with x / alpha in the exponent, so that its slope is continuous.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.CELU()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [-0.8650000095367432, 0.0, 2.0]
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.celu(self.alpha)

    @override
    def options(self) -> str:
        return f"{self.alpha}"


class Softplus(Module):
    """log(1 + exp(beta · x)) / beta, and x itself beyond a threshold.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.Softplus()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [0.12700000405311584, 0.6930000185966492, 2.127000093460083]
    """

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
    """x between two bounds.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.Hardtanh()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [-1.0, 0.0, 1.0]
    """

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
    """x, and 0 where it is within ±lambd.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.Hardshrink()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [-2.0, 0.0, 2.0]
    """

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.hardshrink(self.lambd)

    @override
    def options(self) -> str:
        return f"{self.lambd}"


class Softshrink(Module):
    """x moved by lambd towards 0, and 0 where it is within ±lambd.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.Softshrink()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [-1.5, 0.0, 1.5]
    """

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.softshrink(self.lambd)

    @override
    def options(self) -> str:
        return f"{self.lambd}"


class Threshold(Module):
    """x, and a value where it is not above a threshold.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.5, 2.0])
    >>> y = nn.Threshold(1.0, 0.0)(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [0.0, 0.0, 2.0]
    """

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
    """One half of an axis times the sigmoid of the other.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.GLU()(ll.Graph().tensor((2, 6))).shape
    (2, 3)
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.glu(self.dim)

    @override
    def options(self) -> str:
        return f"{self.dim}"


class Softmax(Module):
    """exp(x) over its sum along an axis.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.Softmax()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [0.01600000075995922, 0.11699999868869781, 0.8669999837875366]
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.softmax(self.dim)

    @override
    def options(self) -> str:
        return f"{self.dim}"


class LogSoftmax(Module):
    """The logarithm of the softmax along an axis.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.LogSoftmax()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [-4.14300012588501, -2.1429998874664307, -0.14300000667572021]
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.log_softmax(self.dim)

    @override
    def options(self) -> str:
        return f"{self.dim}"


class Softmin(Module):
    """The softmax of -x along an axis.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.Softmin()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [0.8669999837875366, 0.11699999868869781, 0.01600000075995922]
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.softmin(self.dim)

    @override
    def options(self) -> str:
        return f"{self.dim}"


class GELU(Module):
    """x times the normal distribution's share below it; approximately so with "tanh".

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.GELU()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [-0.04600000008940697, 0.0, 1.9539999961853027]
    """

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
    """`LeakyReLU` with learned slopes, one for all or one for each channel.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([-2.0, 0.0, 2.0])
    >>> y = nn.PReLU()(x).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(3).tolist()
    [-0.5, 0.0, 2.0]
    """

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
