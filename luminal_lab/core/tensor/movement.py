"""Views and what is made of them: reshaping, slicing, padding, joining."""

from luminal_lab.core.tensor.arithmetic import Arithmetic


class Movement(Arithmetic):
    """Views and what is made of them."""

    __slots__ = ()
