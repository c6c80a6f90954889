"""Convolutions and their transposes over one, two or three spatial axes."""

from __future__ import annotations

import math
from typing import ClassVar, Literal, TypeAlias

from typing_extensions import override

from luminal_lab.core.dtypes import DTypeLike
from luminal_lab.errors import ArgumentError, ShapeError, nearest
from luminal_lab.nn.arguments import at_user, divides, has_rank, per_axis, same_size, sizes
from luminal_lab.nn.init import within
from luminal_lab.nn.module import Module, kind_of
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.tensor.window import Sizes

PaddingMode: TypeAlias = Literal["zeros", "reflect", "replicate", "circular"]
MODES = {
    "zeros": "constant",
    "reflect": "reflect",
    "replicate": "replicate",
    "circular": "circular",
}
"""The names of the padding modes in `pad`."""


class Conv(Module):
    """A convolution with learned kernels: the base of `Conv1d`, `Conv2d` and `Conv3d`.

    The weight is [out, in / groups, *kernel]. The padding is a number, one for each spatial axis,
    "valid" (none) or "same"; the batch axis of an input may be left out.
    """

    count: ClassVar[int]
    """The number of spatial axes."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | Literal["same", "valid"] = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: PaddingMode = "zeros",
        *,
        dtype: DTypeLike = "float32",
    ) -> None:
        layer = kind_of(self)
        channels = sizes(layer, in_channels=in_channels, out_channels=out_channels, groups=groups)
        self.in_channels, self.out_channels, self.groups = channels
        self.kernel_size, self.stride, self.dilation = per_axis(
            layer, self.count, kernel_size=kernel_size, stride=stride, dilation=dilation
        )
        divides(
            layer,
            "groups",
            self.groups,
            in_channels=self.in_channels,
            out_channels=self.out_channels,
        )
        if padding_mode not in MODES:
            hint = nearest(str(padding_mode), MODES) or f"one of {', '.join(MODES)}"
            what = f"{layer}: there is no padding_mode {padding_mode!r}"
            raise at_user(ArgumentError(what, hint=hint))
        self.padding_mode: PaddingMode = padding_mode
        self.padding = self._margins(padding)
        inner = self.in_channels // self.groups
        draw = within(inner * math.prod(self.kernel_size))
        self.weight = Parameter((self.out_channels, inner, *self.kernel_size), dtype, init=draw)
        self.bias = Parameter((self.out_channels,), dtype, init=draw) if bias else None

    def _margins(self, padding: Sizes | Literal["same", "valid"]) -> tuple[tuple[int, int], ...]:
        """Return the padding before and after each spatial axis."""
        if padding == "valid":
            return ((0, 0),) * self.count
        if padding == "same":
            if max(self.stride) > 1:
                raise at_user(
                    ShapeError(
                        f"{kind_of(self)}: the padding is 'same' and the stride {self.stride}",
                        hint="'same' needs a stride of 1; give the padding in numbers",
                    )
                )
            pairs = zip(self.kernel_size, self.dilation, strict=True)
            spans = [(size - 1) * gap for size, gap in pairs]
            return tuple((span // 2, span - span // 2) for span in spans)
        if isinstance(padding, str):
            what = f"{kind_of(self)}: there is no padding {padding!r}"
            hint = nearest(padding, ("same", "valid")) or "'same', 'valid', or numbers"
            raise at_user(ShapeError(what, hint=hint))
        return tuple((n, n) for n in per_axis(kind_of(self), self.count, padding=padding)[0])

    @override
    def forward(self, x: Tensor) -> Tensor:
        has_rank(kind_of(self), x, (self.count + 1, self.count + 2))
        same_size(kind_of(self), x, -self.count - 1, self.in_channels, "in_channels")
        batch = x if x.ndim == self.count + 2 else x.unsqueeze(0)
        if any(pair != (0, 0) for pair in self.padding):
            batch = batch.pad(((0, 0), (0, 0), *self.padding), mode=MODES[self.padding_mode])
        y = batch.conv(self.weight, self.bias, self.stride, 0, self.dilation, self.groups)
        return y if x.ndim == self.count + 2 else y.squeeze(0)

    @override
    def options(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        plain = (1,) * self.count
        text += f", stride={self.stride}" if self.stride != plain else ""
        text += f", dilation={self.dilation}" if self.dilation != plain else ""
        return text + (f", groups={self.groups}" if self.groups > 1 else "")


class Conv1d(Conv):
    """A convolution of [batch, channels, length].

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.Conv1d(3, 5, 3, padding=1)(ll.Graph().tensor((1, 3, 8))).shape
    (1, 5, 8)
    """

    count = 1


class Conv2d(Conv):
    """A convolution of [batch, channels, height, width].

    >>> from luminal_lab.session import Graph
    >>> layer = Conv2d(3, 16, 3, padding=1)
    >>> layer(Graph().tensor(("batch", 3, 28, 28))).shape
    (batch, 16, 28, 28)
    """

    count = 2


class Conv3d(Conv):
    """A convolution of [batch, channels, depth, height, width].

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.Conv3d(3, 5, 3, padding=1)(ll.Graph().tensor((1, 3, 8, 8, 8))).shape
    (1, 5, 8, 8, 8)
    """

    count = 3


class ConvTranspose(Module):
    """The transpose of a convolution: the base of `ConvTranspose1d`, `2d` and `3d`.

    The weight is [in, out / groups, *kernel].
    """

    count: ClassVar[int]
    """The number of spatial axes."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        *,
        dtype: DTypeLike = "float32",
    ) -> None:
        layer = kind_of(self)
        channels = sizes(layer, in_channels=in_channels, out_channels=out_channels, groups=groups)
        self.in_channels, self.out_channels, self.groups = channels
        self.kernel_size, self.stride, self.dilation = per_axis(
            layer, self.count, kernel_size=kernel_size, stride=stride, dilation=dilation
        )
        self.padding, self.output_padding = per_axis(
            layer, self.count, padding=padding, output_padding=output_padding
        )
        divides(
            layer,
            "groups",
            self.groups,
            in_channels=self.in_channels,
            out_channels=self.out_channels,
        )
        outer = self.out_channels // self.groups
        draw = within(outer * math.prod(self.kernel_size))
        self.weight = Parameter((self.in_channels, outer, *self.kernel_size), dtype, init=draw)
        self.bias = Parameter((self.out_channels,), dtype, init=draw) if bias else None

    @override
    def forward(self, x: Tensor) -> Tensor:
        has_rank(kind_of(self), x, (self.count + 1, self.count + 2))
        same_size(kind_of(self), x, -self.count - 1, self.in_channels, "in_channels")
        batch = x if x.ndim == self.count + 2 else x.unsqueeze(0)
        y = batch.conv_transpose(
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.output_padding,
            self.groups,
            self.dilation,
        )
        return y if x.ndim == self.count + 2 else y.squeeze(0)

    @override
    def options(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}" if max(self.stride) > 1 else ""
        return text + (f", groups={self.groups}" if self.groups > 1 else "")


class ConvTranspose1d(ConvTranspose):
    """The transpose of `Conv1d`.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.ConvTranspose1d(3, 5, 2, stride=2)(ll.Graph().tensor((1, 3, 8))).shape
    (1, 5, 16)
    """

    count = 1


class ConvTranspose2d(ConvTranspose):
    """The transpose of `Conv2d`.

    >>> from luminal_lab.session import Graph
    >>> layer = ConvTranspose2d(16, 3, 2, stride=2)
    >>> layer(Graph().tensor((1, 16, 14, 14))).shape
    (1, 3, 28, 28)
    """

    count = 2


class ConvTranspose3d(ConvTranspose):
    """The transpose of `Conv3d`.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.ConvTranspose3d(3, 5, 2, stride=2)(ll.Graph().tensor((1, 3, 8, 8, 8))).shape
    (1, 5, 16, 16, 16)
    """

    count = 3
