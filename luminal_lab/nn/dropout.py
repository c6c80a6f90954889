"""Dropout: values zeroed at random while a module is being trained."""

from __future__ import annotations

from typing_extensions import override

from luminal_lab.nn.arguments import probability
from luminal_lab.nn.module import Module, kind_of
from luminal_lab.tensor import Tensor


class Dropout(Module):
    """Zero each element with probability p in training, the others over 1 - p.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> layer = nn.Dropout(0.5)
    >>> x = ll.Graph().tensor((2, 3))
    >>> layer(x).op_counts()["random"] > 0, layer.eval()(x).op_counts()
    (True, {})
    """

    def __init__(self, p: float = 0.5) -> None:
        self.p = probability(kind_of(self), p)

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.dropout(self.p, self.training)

    @override
    def options(self) -> str:
        return f"{self.p}"


class Dropout1d(Dropout):
    """Zero each sample's channels with probability p in training, the others over 1 - p.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.Dropout1d(0.5)(ll.Graph().tensor((1, 3, 8))).shape
    (1, 3, 8)
    """

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.feature_dropout(self.p, self.training)


class Dropout2d(Dropout1d):
    """`Dropout1d` for images.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.Dropout2d(0.5)(ll.Graph().tensor((1, 3, 8, 8))).shape
    (1, 3, 8, 8)
    """


class Dropout3d(Dropout1d):
    """`Dropout1d` for volumes.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.Dropout3d(0.5)(ll.Graph().tensor((1, 3, 8, 8, 8))).shape
    (1, 3, 8, 8, 8)
    """
