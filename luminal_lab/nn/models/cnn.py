"""A small convolutional network for small square images, such as digits of 8x8."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from luminal_lab.core.dtypes import DTypeLike
from luminal_lab.core.op import size_of
from luminal_lab.errors import ShapeError
from luminal_lab.nn.arguments import at_user
from luminal_lab.nn.conv import Conv2d
from luminal_lab.nn.linear import Linear
from luminal_lab.nn.module import Module
from luminal_lab.nn.transformer import Activation, activation_of
from luminal_lab.tensor import Tensor


class CNN(Module):
    """Convolutions that each halve the image, and a linear layer: logits [batch, classes].

    Images are [batch, inputs, size, size], or the same elements in another shape, such as
    [batch, 64]; there is a convolution for each of `channels`.

    >>> from luminal_lab.session import Graph
    >>> CNN()(Graph().tensor(("batch", 8, 8))).shape
    (batch, 10)
    """

    def __init__(
        self,
        classes: int = 10,
        channels: Sequence[int] = (16, 32),
        *,
        inputs: int = 1,
        size: int = 8,
        kernel: int = 3,
        activation: Activation = "relu",
        dtype: DTypeLike = "float32",
    ) -> None:
        left, count = size >> len(channels), len(channels)
        if left < 1 or kernel % 2 != 1:
            raise at_user(
                ShapeError(
                    f"cnn: {count} convolutions of kernel {kernel} on images of {size}x{size}",
                    hint="each halves the image, of which a pixel must be left; the kernel is odd",
                )
            )
        self.image = inputs, size, size
        self.activation = activation_of(activation)
        self.convolutions = [
            Conv2d(a, b, kernel, padding=kernel // 2, dtype=dtype)
            for a, b in zip((inputs, *channels), channels, strict=False)
        ]
        self.head = Linear((inputs, *channels)[-1] * left * left, classes, dtype=dtype)

    @override
    def forward(self, x: Tensor) -> Tensor:
        if not x.ndim or size_of(x.shape[1:]) != size_of(self.image):
            raise at_user(
                ShapeError(
                    f"cnn: images are {self.image}, and {x.label} does not hold as many elements a "
                    "sample",
                    hint="make the network for its images, as in CNN(size=28)",
                )
            )
        x = x.reshape(x.shape[0], *self.image)
        for convolution in self.convolutions:
            x = self.activation(convolution(x)).max_pool2d(2)
        return self.head(x.flatten(1))
