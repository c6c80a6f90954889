"""Normalisation: softmax, norms and what is built on them."""

from luminal_lab.core.tensor.window import Windowed


class Normal(Windowed):
    """Normalisation."""

    __slots__ = ()
