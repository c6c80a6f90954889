"""The lazy tensor: a chain of classes, each with a family of operations built on the last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, final

from luminal_lab.core.ops import StopGradient
from luminal_lab.core.origin import here
from luminal_lab.errors import UnknownNameError, nearest
from luminal_lab.tensor.inspect import Inspect
from luminal_lab.tensor.operation import operation

INSTEAD = {
    "compile": "the graph is compiled: cx.compile()",
    "cpu": "a lazy tensor is on no device; numpy() gives the value after a run",
    "cuda": "a lazy tensor is on no device; a graph is compiled for one: "
    "cx.compile(ll.GenericCompiler(), ll.CUDACompiler())",
    "device": "a lazy tensor is on no device",
    "dim": "use ndim",
    "execute": "the graph is executed: cx.execute()",
    "numel": "use shape",
    "requires_grad": "every float input has a gradient; x.detach() is left out",
    "size": "use shape",
    "to": "use cast(dtype); a lazy tensor is on no device",
}
"""Replacements for methods that only PyTorch's tensors have."""


@final
class Tensor(Inspect):
    """A lazy value: a handle to a node of a graph. Nothing is computed before the graph runs.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> x = cx.tensor((2, 3), name="x")
    >>> (x * 2).sum(-1).shape
    (2,)
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        if name[:2] == "__":  # optional protocols that NumPy and others look up
            raise AttributeError(name)
        in_place = name.endswith("_") and hasattr(type(self), name[:-1])
        hint = f"nothing changes in place; use x = x.{name[:-1]}(...)" if in_place else None
        public = [known for known in dir(type(self)) if known[0] != "_"]
        raise UnknownNameError(
            f"a tensor has no {name!r}",
            where=str(here() or "") or None,
            hint=hint or INSTEAD.get(name) or nearest(name, public),
        )

    # -- gradients ---------------------------------------------------------------------------------

    @operation
    def backward(self, *, checkpoint: Sequence[str] = ()) -> None:
        """Derive this loss by all float inputs that it is computed from: each one's `grad`.

        >>> x = cx.tensor((3,), name="x")
        >>> (x * x).sum().backward()
        >>> x.grad.shape
        (3,)
        """
        self.graph.backward(self, checkpoint)

    @property
    def grad(self) -> Tensor:
        """The sum of this input's gradients from all calls of `backward`.

        >>> x = cx.tensor((2,)).set([3, 4])
        >>> (x * x).sum().backward()
        >>> slope = x.grad.retrieve()
        >>> cx.execute()
        >>> slope.tolist()
        [6.0, 8.0]
        """
        return self.graph.slope(self)  # pyright: ignore[reportReturnType]  # all handles of a graph are of one class

    @operation
    def detach(self) -> Tensor:
        """Return the same value, which stops gradients.

        >>> x = cx.tensor((2,)).set([3, 4])
        >>> slope = ll.grad((x * x.detach()).sum(), x).retrieve()
        >>> cx.execute()
        >>> slope.tolist()
        [3.0, 4.0]
        """
        return self._apply(StopGradient()) if self.dtype.is_float else self

    # PyTorch's short names of casts stand last, as they hide Python's builtins.

    def double(self) -> Tensor:
        """Return the values in float64.

        >>> cx.arange(3).double().dtype
        <DType.float64: 'float64'>
        """
        return self.cast("float64")

    def half(self) -> Tensor:
        """Return the values in float16.

        >>> x = cx.tensor((2,)).set([0.1, 70000])
        >>> y = x.half().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0.0999755859375, inf]
        """
        return self.cast("float16")

    def bfloat16(self) -> Tensor:
        """Return the values in bfloat16.

        >>> x = cx.tensor((2,)).set([0.1, 70000])
        >>> y = x.bfloat16().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0.10009765625, 70144.0]
        """
        return self.cast("bfloat16")

    def long(self) -> Tensor:
        """Return the values in int64.

        >>> x = cx.tensor((2,)).set([2.9, -2.9])
        >>> y = x.long().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [2, -2]
        """
        return self.cast("int64")

    def float(self) -> Tensor:
        """Return the values in float32.

        >>> (cx.arange(3) > 1).float().dtype
        <DType.float32: 'float32'>
        """
        return self.cast("float32")

    def int(self) -> Tensor:
        """Return the values in int32.

        >>> x = cx.tensor((2,)).set([1.5, 3e9])
        >>> y = x.int().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [1, 2147483647]
        """
        return self.cast("int32")

    def bool(self) -> Tensor:
        """Return whether the values are not 0.

        >>> x = cx.tensor((3,)).set([0, -2, 0.5])
        >>> y = x.bool().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [False, True, True]
        """
        return self.cast("bool")
