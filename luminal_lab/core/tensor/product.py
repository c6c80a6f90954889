"""Products: matmul, einsum and their relatives."""

from luminal_lab.core.tensor.indexing import Indexing


class Product(Indexing):
    """Products."""

    __slots__ = ()
