"""The lazy tensor: a chain of classes, one family of operations each, on those before it."""

from __future__ import annotations

from typing import NoReturn, final

from luminal_lab.core.origin import here
from luminal_lab.errors import UnknownNameError, nearest
from luminal_lab.tensor.inspect import Inspect

INSTEAD = {
    "backward": "gradients are a transformation of the graph and not a method of a value",
    "cpu": "a lazy tensor is on no device; numpy() gives the value after a run",
    "cuda": "a lazy tensor is on no device",
    "device": "a lazy tensor is on no device",
    "dim": "use ndim",
    "execute": "the graph is executed: cx.execute()",
    "numel": "use shape",
    "size": "use shape",
    "to": "use cast(dtype); a lazy tensor is on no device",
}
"""What to write for what PyTorch's tensors have and ours do not."""


@final
class Tensor(Inspect):
    """A lazy value: a handle to a node of a graph. Nothing is computed before the graph runs."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        if name[:2] == "__":  # what NumPy and others ask for, and can do without
            raise AttributeError(name)
        in_place = name.endswith("_") and hasattr(type(self), name[:-1])
        hint = f"nothing changes in place; use x = x.{name[:-1]}(...)" if in_place else None
        raise UnknownNameError(
            f"a tensor has no {name!r}",
            where=str(here() or "") or None,
            hint=hint or INSTEAD.get(name) or nearest(name, dir(type(self))),
        )

    # PyTorch's short names of casts stand last, as they hide Python's own from what follows.

    def double(self) -> Tensor:
        """Return the values in float64."""
        return self.cast("float64")

    def half(self) -> Tensor:
        """Return the values in float16."""
        return self.cast("float16")

    def bfloat16(self) -> Tensor:
        """Return the values in bfloat16."""
        return self.cast("bfloat16")

    def long(self) -> Tensor:
        """Return the values in int64."""
        return self.cast("int64")

    def float(self) -> Tensor:
        """Return the values in float32."""
        return self.cast("float32")

    def int(self) -> Tensor:
        """Return the values in int32."""
        return self.cast("int32")

    def bool(self) -> Tensor:
        """Return whether the values are not 0."""
        return self.cast("bool")
