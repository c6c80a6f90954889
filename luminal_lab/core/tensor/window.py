"""Sliding windows: convolution and pooling."""

from luminal_lab.core.tensor.product import Product


class Windowed(Product):
    """Sliding windows."""

    __slots__ = ()
