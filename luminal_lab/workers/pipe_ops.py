"""What pipelines add to graphs: a value in another stage, and what is sent for it.

`move` stands in the graph of everybody, where it is the identity. In the graphs of workers stand
`send` and `receive`, which ask for the post of the worker whose thread evaluates them.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import ClassVar, Protocol

from typing_extensions import override

from luminal_lab.core.dims import Shape
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.op import Op, TensorType
from luminal_lab.errors import DeviceError


class Post(Protocol):
    """What an engine must have for pipelines: values from one worker to another, in order.

    An array that is sent may be a device's own memory: it must have been read when `send` returns.
    """

    def send(self, x: Array, to: int, tag: int) -> None:
        """Send a value without waiting for the other worker."""
        ...

    def receive(self, source: int, tag: int) -> Array:
        """Wait for the next value that another worker sends under a tag."""
        ...


POST: ContextVar[Post | None] = ContextVar("post", default=None)
"""What the worker whose graph this thread runs sends by."""


def _post(op: Op) -> Post:
    post = POST.get()
    if post is None:
        raise DeviceError(
            f"{op.name}: no stage of a pipeline runs here",
            hint="ll.Pipelined(stages={…}) runs the graphs of its stages",
        )
    return post


@dataclass(frozen=True, slots=True)
class Move(Op):
    """The same value in another stage."""

    name: ClassVar[str] = "move"
    ulps: ClassVar[int] = 0
    old: int
    new: int

    @override
    def infer(self, x: TensorType) -> TensorType:
        return x

    @override
    def eval(self, x: Array) -> Array:
        return x


@dataclass(frozen=True, slots=True)
class Send(Op):
    """Send a value to another worker, without waiting for it."""

    name: ClassVar[str] = "send"
    ulps: ClassVar[int] = 0
    to: int
    tag: int

    @override
    def infer(self, x: TensorType) -> TensorType:
        return x

    @override
    def eval(self, x: Array) -> Array:
        _post(self).send(x, self.to, self.tag)
        return x


@dataclass(frozen=True, slots=True)
class Receive(Op):
    """Wait for a value that another worker sends."""

    name: ClassVar[str] = "receive"
    ulps: ClassVar[int] = 0
    in_type: ClassVar[tuple[str, ...]] = ("dtype", "shape")
    source: int
    tag: int
    dtype: DType
    shape: Shape

    @override
    def infer(self) -> TensorType:
        return TensorType(self.dtype, self.shape)

    @override
    def eval(self) -> Array:
        return _post(self).receive(self.source, self.tag)
