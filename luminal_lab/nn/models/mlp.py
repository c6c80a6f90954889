"""A multi-layer perceptron."""

from __future__ import annotations

from itertools import pairwise

from typing_extensions import override

from luminal_lab.core.dtypes import DTypeLike
from luminal_lab.errors import ArgumentError
from luminal_lab.nn.arguments import at_user
from luminal_lab.nn.dropout import Dropout
from luminal_lab.nn.linear import Linear
from luminal_lab.nn.module import Module
from luminal_lab.nn.transformer import Activation, activation_of
from luminal_lab.tensor import Tensor


class MLP(Module):
    """Linear layers of the given sizes, with an activation between them.

    >>> from luminal_lab.session import Graph
    >>> MLP(64, 128, 10)(Graph().tensor(("batch", 64))).shape
    (batch, 10)
    """

    def __init__(
        self,
        *sizes: int,
        activation: Activation = "relu",
        dropout: float = 0.0,
        bias: bool = True,
        dtype: DTypeLike = "float32",
    ) -> None:
        if len(sizes) < 2:
            raise at_user(
                ArgumentError(
                    f"mlp: the number of sizes is {len(sizes)}, and two is the least",
                    hint="name those of input and output, as in MLP(64, 128, 10)",
                )
            )
        self.activation = activation_of(activation)
        self.dropout = Dropout(dropout)
        self.layers = [Linear(size, out, bias=bias, dtype=dtype) for size, out in pairwise(sizes)]

    @override
    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = self.dropout(self.activation(layer(x)))
        return self.layers[-1](x)
