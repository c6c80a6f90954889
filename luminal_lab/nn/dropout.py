"""Dropout: values zeroed at random while a module is being trained."""

from __future__ import annotations

from typing_extensions import override

from luminal_lab.nn.arguments import probability
from luminal_lab.nn.module import Module, kind_of
from luminal_lab.tensor import Tensor


class Dropout(Module):
    """Zero each element with probability p in training, the others over 1 - p."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = probability(kind_of(self), p)

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.dropout(self.p, self.training)

    @override
    def options(self) -> str:
        return f"{self.p}"


class Dropout1d(Dropout):
    """Zero each sample's channels with probability p in training, the others over 1 - p."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.feature_dropout(self.p, self.training)


class Dropout2d(Dropout1d):
    """`Dropout1d` for images."""


class Dropout3d(Dropout1d):
    """`Dropout1d` for volumes."""
