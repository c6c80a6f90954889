"""Ops about structure: a region as one node, one output of several, order, and calls to the host."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dims import Shape
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Op, TensorType
from luminal_lab.errors import ShapeError, VerifyError


@dataclass(frozen=True, slots=True)
class Call(Op):
    """A region as one node: its body is an IR whose inputs are this node's sources, in order."""

    name: ClassVar[str] = "call"
    body: IR

    @override
    def body_of(self) -> IR:
        return self.body

    @override
    def types(self, sources: Sequence[Node]) -> tuple[TensorType, ...]:
        inputs = self.body.inputs
        if len(inputs) != len(sources):
            raise ShapeError(
                f"call: {self.body.name} has {len(inputs)} inputs, but {len(sources)} sources "
                f"are given"
            )
        for wanted, given in zip(inputs, sources, strict=True):
            if wanted.type != given.type:
                raise ShapeError(
                    f"call: input {wanted} of {self.body.name} is {wanted.type}, but its source "
                    f"is {given.type}"
                )
        if not self.body.outputs:
            raise VerifyError(f"call: {self.body.name} has no outputs")
        return tuple(output.type for output in self.body.outputs)


@dataclass(frozen=True, slots=True)
class Pick(Op):
    """One output of a `Call` that has several."""

    name: ClassVar[str] = "pick"
    index: int

    @override
    def types(self, sources: Sequence[Node]) -> tuple[TensorType, ...]:
        (source,) = sources
        if not 0 <= self.index < len(source.types):
            raise ShapeError(
                f"pick: there is no output {self.index}: {source} has {len(source.types)}"
            )
        return (source.types[self.index],)


@dataclass(frozen=True, slots=True)
class GraphBreak(Op):
    """The same value; nothing is fused across it."""

    name: ClassVar[str] = "graph_break"

    @override
    def infer(self, x: TensorType) -> TensorType:
        return x

    @override
    def eval(self, x: Array) -> Array:
        return x


@dataclass(frozen=True, slots=True)
class After(Op):
    """The first source's value, but only after the others have been computed."""

    name: ClassVar[str] = "after"

    @override
    def infer(self, x: TensorType, *others: TensorType) -> TensorType:
        return x

    @override
    def eval(self, x: Array, *others: Array) -> Array:
        return x


@dataclass(frozen=True, slots=True)
class HostCall(Op):
    """A Python function of the session, by name; the text form holds the name alone."""

    name: ClassVar[str] = "host_call"
    in_type: ClassVar[tuple[str, ...]] = ("dtype", "shape")
    function: str
    dtype: DType
    shape: Shape

    @override
    def infer(self, *sources: TensorType) -> TensorType:
        return TensorType(self.dtype, self.shape)
