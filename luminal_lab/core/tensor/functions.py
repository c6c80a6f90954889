"""Functions of one value: exponentials, trigonometry, rounding, activations."""

from luminal_lab.core.tensor.movement import Movement


class Functions(Movement):
    """Functions of one value."""

    __slots__ = ()
