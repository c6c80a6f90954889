"""Structural ops: a region as a node, one of several outputs, order, calls to the host."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from typing_extensions import override

from luminal_lab.core.dims import Shape, Symbol
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Elementwise, Op, TensorType, made_type, one_result_each
from luminal_lab.errors import GraphError, ShapeError


@dataclass(frozen=True, slots=True)
class Region(Op):
    """An op whose meaning is a graph: the inputs of its body are its sources, in order."""

    body: IR

    @override
    def body_of(self) -> IR:
        return self.body

    @override
    def symbols(self) -> tuple[Symbol, ...]:
        return tuple(self.body.symbols.values())

    @override
    def types(self, sources: Sequence[Node]) -> tuple[TensorType, ...]:
        name, inputs = self.body.name, self.body.inputs
        if len(inputs) != len(sources):
            wanted = ", ".join(map(str, inputs)) or "none"
            raise GraphError(
                f"{self.name}: the inputs of {name} are {wanted}, but the number of sources is "
                f"{len(sources)}"
            )
        for wanted, given in zip(inputs, one_result_each(sources), strict=True):
            if wanted.type != given:
                raise ShapeError(
                    f"{self.name}: input {wanted} of {name} is {wanted.type}, but its source is "
                    f"{given}"
                )
        if not self.body.outputs:
            raise GraphError(f"{self.name}: {name} has no outputs")
        return tuple(output.type for output in self.body.outputs)


@dataclass(frozen=True, slots=True)
class Call(Region):
    """A region as one node: its body is an IR whose inputs are this node's sources, in order."""

    name: ClassVar[str] = "call"


@dataclass(frozen=True, slots=True)
class Stored(Region):
    """The value of its body, computed when its inputs change and kept for later runs.

    Programs read it like an input.
    """

    name: ClassVar[str] = "stored"

    @override
    def types(self, sources: Sequence[Node]) -> tuple[TensorType, ...]:
        types = Region.types(self, sources)
        if len(types) != 1:
            raise GraphError(f"stored: {self.body.name} has {len(types)} outputs, and not one")
        return types


@dataclass(frozen=True, slots=True)
class UserKernel(Region):
    """A user's kernel: its body is its meaning, and its source runs on devices.

    The header names buffers and dims; the types of the body are the header's in this use.
    """

    name: ClassVar[str] = "user_kernel"
    header: str
    source: str
    dialect: Literal["c", "cuda", "metal"]
    tasks: str
    """The number of tasks, in dims of the header; they run in any order and concurrently.

    On a GPU they are blocks, with the threads of each, as in `(n + 255) // 256 of 256`.
    """
    dims: Shape
    """The values of the header's dims, in the order of their mention."""


def user_kernels(*graphs: IR) -> Iterator[UserKernel]:
    """Yield the user's kernels of graphs and of the bodies they call, equal ones once."""
    todo, known = list(graphs), set[int]()
    kernels = dict[UserKernel, None]()
    for ir in todo:
        for node in ir.table:
            body = node.op.body_of()
            if isinstance(node.op, UserKernel):
                kernels.setdefault(node.op)
            if body is not None and id(body) not in known:
                known.add(id(body))
                todo.append(body)
    yield from kernels


@dataclass(frozen=True, slots=True)
class Pick(Op):
    """One output of a region that has several."""

    name: ClassVar[str] = "pick"
    index: int

    @override
    def types(self, sources: Sequence[Node]) -> tuple[TensorType, ...]:
        if len(sources) != 1 or not sources[0].extra:
            given = (
                f"{sources[0]}, which has one" if len(sources) == 1 else f"{len(sources)} sources"
            )
            raise GraphError(f"pick: it takes a node with several results, not {given}")
        types = sources[0].types
        if not 0 <= self.index < len(types):
            raise GraphError(
                f"pick: there is no result {self.index}: {sources[0]} has {len(types)}"
            )
        return (types[self.index],)


@dataclass(frozen=True, slots=True)
class GraphBreak(Op):
    """The same value; no kernel is fused across it."""

    name: ClassVar[str] = "graph_break"
    ulps: ClassVar[int] = 0

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
    ulps: ClassVar[int] = 0

    @override
    def infer(self, x: TensorType, *others: TensorType) -> TensorType:
        return x

    @override
    def eval(self, x: Array, *others: Array) -> Array:
        return x


@dataclass(frozen=True, slots=True)
class StopGradient(Elementwise):
    """The same value, which stops gradients."""

    name: ClassVar[str] = "stop_gradient"
    cost: ClassVar[int] = 0
    ulps: ClassVar[int] = 0
    c_form: ClassVar[str] = "{0}"

    @override
    def infer(self, x: TensorType) -> TensorType:
        return x

    @override
    def eval(self, x: Array) -> Array:
        return x


@dataclass(frozen=True, slots=True)
class CustomGradient(Op):
    """The first source's value; a function of the session gives the gradients of the others."""

    name: ClassVar[str] = "custom_gradient"
    function: str

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
        return made_type(self.name, self.dtype, self.shape)
