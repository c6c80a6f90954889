"""What pipelines add to graphs: a value in another stage, and what is sent for it.

`move` stands in the graph of everybody, where it is the identity. In the graphs of workers stand
`send` and `receive`, which ask for the letters of the worker whose thread evaluates them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from typing_extensions import override

from luminal_lab.core.dims import Shape
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.op import Op, TensorType, ints
from luminal_lab.errors import DeviceError
from luminal_lab.workers.ops import WORKER, Letters, letters_of


def _letters(op: Op) -> Letters:
    worker = WORKER.get()
    if worker is None:
        raise DeviceError(
            f"{op.name}: no stage of a pipeline runs here",
            hint="ll.Pipelined(stages={…}) runs the graphs of its stages",
        )
    return letters_of(worker)


def as_bytes(x: Array) -> Array:
    """Return the bytes of an array that lies in one piece."""
    return x.reshape(-1).view(np.uint8)


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
        _letters(self).send(as_bytes(np.ascontiguousarray(x)), self.to, self.tag)
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
        value = np.empty(ints(self.shape), self.dtype.numpy)
        _letters(self).receive(as_bytes(value), self.source, self.tag)
        return value
