"""The lazy tensor: a chain of classes, one family of operations each, on those before it."""

from typing import final

from luminal_lab.core.tensor.inspect import Inspect


@final
class Tensor(Inspect):
    """A lazy value: a handle to a node of a graph. Nothing is computed before the graph runs."""

    __slots__ = ()
