"""Pooling: the largest value or the mean of each window. Nothing is learned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from typing_extensions import override

from luminal_lab.nn.arguments import has_rank, per_axis
from luminal_lab.nn.module import Module, kind_of
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.window import Resized, Sizes


class Pool(Module, ABC):
    """The base of pools: a number of spatial axes, and inputs with or without a batch axis."""

    count: ClassVar[int]
    """The number of spatial axes."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        has_rank(kind_of(self), x, (self.count + 1, self.count + 2))
        return self.pooled(x) if x.ndim > self.count + 1 else self.pooled(x.unsqueeze(0)).squeeze(0)

    @abstractmethod
    def pooled(self, x: Tensor) -> Tensor:
        """Return the pooled [batch, channels, *spatial].

        >>> ll.nn.MaxPool2d(2).pooled(cx.tensor((1, 3, 8, 8))).shape
        (1, 3, 4, 4)
        """


class MaxPool(Pool):
    """The largest value of each window; padding never wins."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        *,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size, self.stride, self.padding, self.dilation = per_axis(
            kind_of(self),
            self.count,
            kernel_size=kernel_size,
            stride=kernel_size if stride is None else stride,
            padding=padding,
            dilation=dilation,
        )
        self.ceil_mode = ceil_mode

    @override
    def pooled(self, x: Tensor) -> Tensor:
        return x.max_pool(
            self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode
        )

    @override
    def options(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}"


class MaxPool1d(MaxPool):
    """`MaxPool` over one spatial axis.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.MaxPool1d(2)(ll.Graph().tensor((1, 3, 8))).shape
    (1, 3, 4)
    """

    count = 1


class MaxPool2d(MaxPool):
    """`MaxPool` over two spatial axes.

    >>> from luminal_lab.session import Graph
    >>> MaxPool2d(2)(Graph().tensor((1, 3, 8, 8))).shape
    (1, 3, 4, 4)
    """

    count = 2


class MaxPool3d(MaxPool):
    """`MaxPool` over three spatial axes.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.MaxPool3d(2)(ll.Graph().tensor((1, 3, 8, 8, 8))).shape
    (1, 3, 4, 4, 4)
    """

    count = 3


class AvgPool(Pool):
    """The mean of each window."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size, self.stride, self.padding = per_axis(
            kind_of(self),
            self.count,
            kernel_size=kernel_size,
            stride=kernel_size if stride is None else stride,
            padding=padding,
        )
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    @override
    def pooled(self, x: Tensor) -> Tensor:
        return x.avg_pool(
            self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )

    @override
    def options(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}"


class AvgPool1d(AvgPool):
    """`AvgPool` over one spatial axis.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.AvgPool1d(2)(ll.Graph().tensor((1, 3, 8))).shape
    (1, 3, 4)
    """

    count = 1


class AvgPool2d(AvgPool):
    """`AvgPool` over two spatial axes.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.AvgPool2d(2)(ll.Graph().tensor((1, 3, 8, 8))).shape
    (1, 3, 4, 4)
    """

    count = 2


class AvgPool3d(AvgPool):
    """`AvgPool` over three spatial axes.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.AvgPool3d(2)(ll.Graph().tensor((1, 3, 8, 8, 8))).shape
    (1, 3, 4, 4, 4)
    """

    count = 3


class AdaptivePool(Pool):
    """The base of pools with a given number of windows; None for one per value."""

    def __init__(self, output_size: Resized) -> None:
        given = output_size if isinstance(output_size, Sequence) else [output_size] * self.count
        known = [1 if size is None else size for size in given]
        (wanted,) = per_axis(kind_of(self), self.count, output_size=known)
        self.output_size = tuple(
            None if size is None else n for size, n in zip(given, wanted, strict=True)
        )

    @override
    def options(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool(AdaptivePool):
    """The means of a given number of windows."""

    @override
    def pooled(self, x: Tensor) -> Tensor:
        return x.adaptive_avg_pool(self.output_size)


class AdaptiveAvgPool1d(AdaptiveAvgPool):
    """`AdaptiveAvgPool` over one spatial axis.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.AdaptiveAvgPool1d(2)(ll.Graph().tensor((1, 3, 8))).shape
    (1, 3, 2)
    """

    count = 1


class AdaptiveAvgPool2d(AdaptiveAvgPool):
    """`AdaptiveAvgPool` over two spatial axes.

    >>> from luminal_lab.session import Graph
    >>> AdaptiveAvgPool2d(1)(Graph().tensor((1, 3, 8, 8))).shape
    (1, 3, 1, 1)
    """

    count = 2


class AdaptiveAvgPool3d(AdaptiveAvgPool):
    """`AdaptiveAvgPool` over three spatial axes.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.AdaptiveAvgPool3d(2)(ll.Graph().tensor((1, 3, 8, 8, 8))).shape
    (1, 3, 2, 2, 2)
    """

    count = 3


class AdaptiveMaxPool(AdaptivePool):
    """The largest values of a given number of windows."""

    @override
    def pooled(self, x: Tensor) -> Tensor:
        return x.adaptive_max_pool(self.output_size)


class AdaptiveMaxPool1d(AdaptiveMaxPool):
    """`AdaptiveMaxPool` over one spatial axis.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.AdaptiveMaxPool1d(2)(ll.Graph().tensor((1, 3, 8))).shape
    (1, 3, 2)
    """

    count = 1


class AdaptiveMaxPool2d(AdaptiveMaxPool):
    """`AdaptiveMaxPool` over two spatial axes.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.AdaptiveMaxPool2d(2)(ll.Graph().tensor((1, 3, 8, 8))).shape
    (1, 3, 2, 2)
    """

    count = 2


class AdaptiveMaxPool3d(AdaptiveMaxPool):
    """`AdaptiveMaxPool` over three spatial axes.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.AdaptiveMaxPool3d(2)(ll.Graph().tensor((1, 3, 8, 8, 8))).shape
    (1, 3, 2, 2, 2)
    """

    count = 3
