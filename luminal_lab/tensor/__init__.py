"""The lazy tensor: a chain of classes, one family of operations each, on those before it."""

from typing import final

from luminal_lab.tensor.inspect import Inspect


@final
class Tensor(Inspect):
    """A lazy value: a handle to a node of a graph. Nothing is computed before the graph runs."""

    __slots__ = ()

    # PyTorch's short names of casts stand last, as they hide Python's own from what follows.

    def double(self) -> "Tensor":
        """Return the values in float64."""
        return self.cast("float64")

    def half(self) -> "Tensor":
        """Return the values in float16."""
        return self.cast("float16")

    def bfloat16(self) -> "Tensor":
        """Return the values in bfloat16."""
        return self.cast("bfloat16")

    def long(self) -> "Tensor":
        """Return the values in int64."""
        return self.cast("int64")

    def float(self) -> "Tensor":
        """Return the values in float32."""
        return self.cast("float32")

    def int(self) -> "Tensor":
        """Return the values in int32."""
        return self.cast("int32")

    def bool(self) -> "Tensor":
        """Return whether the values are not 0."""
        return self.cast("bool")
