"""Indexing by data: gather, scatter, one-hot, sorting."""

from luminal_lab.core.tensor.reduction import Reduction


class Indexing(Reduction):
    """Indexing by data."""

    __slots__ = ()
