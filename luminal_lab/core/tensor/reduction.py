"""Reductions, and scans along an axis."""

from luminal_lab.core.tensor.functions import Functions


class Reduction(Functions):
    """Reductions, and scans along an axis.."""

    __slots__ = ()
