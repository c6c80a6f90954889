"""Layers that multiply by a matrix."""

from __future__ import annotations

from typing import Literal, TypeAlias

from typing_extensions import override

from luminal_lab.core.dtypes import DTypeLike
from luminal_lab.errors import ArgumentError, nearest
from luminal_lab.nn.arguments import at_user, same_size, sizes
from luminal_lab.nn.init import within
from luminal_lab.nn.module import Module, kind_of
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arithmetic import Operand
from luminal_lab.tensor.parameter import Parameter

Layout: TypeAlias = Literal["out,in", "in,out"]


class Linear(Module):
    """x times a matrix, plus a bias; the weight is [out, in], or [in, out] by its layout.

    >>> from luminal_lab.session import Graph
    >>> layer = Linear(3, 4)
    >>> layer(Graph().tensor((2, 3))).shape
    (2, 4)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        dtype: DTypeLike = "float32",
        layout: Layout = "out,in",
    ) -> None:
        self.in_features, self.out_features = sizes(
            kind_of(self), in_features=in_features, out_features=out_features
        )
        known = ("out,in", "in,out")
        if layout not in known:
            hint = nearest(str(layout), known) or "'out,in' is PyTorch's, and 'in,out' GPT-2's"
            raise at_user(
                ArgumentError(f"{kind_of(self)}: there is no layout {layout!r}", hint=hint)
            )
        self.layout: Layout = layout
        shape = self.out_features, self.in_features
        draw = within(self.in_features)
        self.weight = Parameter(shape if layout == "out,in" else shape[::-1], dtype, init=draw)
        self.bias = Parameter((self.out_features,), dtype, init=draw) if bias else None

    @override
    def forward(self, x: Tensor) -> Tensor:
        same_size(kind_of(self), x, -1, self.in_features, "in_features")
        weight = x.other("linear", self.weight)
        return x.linear(weight if self.layout == "out,in" else weight.T, self.bias)

    @override
    def matrices(self) -> tuple[Parameter]:
        return (self.weight,)

    @override
    def options(self) -> str:
        layout = f", layout={self.layout!r}" if self.layout != "out,in" else ""
        return f"{self.in_features}, {self.out_features}{layout}"


class Bilinear(Module):
    """x · weight[k] · y for every k, plus a bias.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> nn.Bilinear(3, 4, 5)(cx.tensor((2, 3)), cx.tensor((2, 4))).shape
    (2, 5)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        *,
        dtype: DTypeLike = "float32",
    ) -> None:
        first, second, out = sizes(
            kind_of(self),
            in1_features=in1_features,
            in2_features=in2_features,
            out_features=out_features,
        )
        self.in1_features, self.in2_features, self.out_features = first, second, out
        self.weight = Parameter((out, first, second), dtype, init=within(first))
        self.bias = Parameter((out,), dtype, init=within(first)) if bias else None

    @override
    def forward(self, x: Tensor, y: Operand) -> Tensor:
        same_size(kind_of(self), x, -1, self.in1_features, "in1_features")
        same_size(kind_of(self), x.other("bilinear", y), -1, self.in2_features, "in2_features")
        return x.bilinear(y, self.weight, self.bias)

    @override
    def options(self) -> str:
        return f"{self.in1_features}, {self.in2_features}, {self.out_features}"
