"""What a session would run, and on which data, so that several devices get the same.

The session does not change: neither its values nor its compile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.ops import HostCall
from luminal_lab.errors import (
    ArgumentError,
    DeviceError,
    DimError,
    GraphError,
    InputError,
    NotComputedError,
)
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.draws import Given
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.passes.pipeline import PassLike
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.tensor.sizes import bind_dims, named_sizes


class TimedSession(Protocol):
    """What the user's graph has: `ll.Graph`."""

    step: int

    @property
    def ir(self) -> IR:
        """The graph as written."""
        ...

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters that it borrows, by the names of their inputs."""
        ...

    def __getitem__(self, name: str) -> Tensor:
        """Return the tensor with a name."""
        ...


@dataclass(frozen=True)
class ComparedGraph:
    """A graph as written, with its data if there is any."""

    ir: IR
    given: Given
    environment: Environment | None
    """None if inputs lack data or dims lack sizes: nothing can be measured then."""
    missing: str
    """Why nothing can be measured, in words."""
    dims: Mapping[str, int]
    passes: tuple[PassLike, ...] = (GenericCompiler(),)
    """What runs before a device's own passes."""

    def compiled(self, *device: PassLike) -> Compilation:
        """Compile the graph as written for a device."""
        return compile_ir(self.ir, *self.passes, *device, given=self.given)

    def measurable(self, device: str) -> Environment:
        """Return the data, or raise an error that says why there is none."""
        if self.environment is None:
            raise InputError(
                f"compare: {device} cannot be measured: {self.missing}",
                hint="give the inputs data with set(...), or compare specifications alone, which "
                "need sizes only",
            )
        calls = [node for node in self.ir if isinstance(node.op, HostCall)]
        if calls:
            raise DeviceError(
                f"compare: {device} cannot be measured: {calls[0]} calls a Python function",
                where=str(calls[0].meta.origin or "") or None,
                hint="cx.time() measures such a graph; compare one without it",
            )
        return self.environment


def subject_of(
    cx: TimedSession,
    dims: Mapping[str, int] | None = None,
    passes: Iterable[PassLike] | None = None,
    *,
    caller: str = "compare",
) -> ComparedGraph:
    """Return what a session would run; `dims` are the sizes that no data gives."""
    if not isinstance(getattr(cx, "ir", None), IR) or not hasattr(cx, "parameters"):
        raise ArgumentError(
            f"{caller}: {cx!r} is not a graph", hint=f"give the session: ll.{caller}(cx, …)"
        )
    ir = cx.ir
    if not ir.output_ids:
        fault = f"{caller}: nothing is retrieved, so there is nothing to compute"
        raise GraphError(fault, hint="call retrieve() on the tensors whose values you want")
    sizes = _sizes(ir, dims)
    lent = {ir[name].id: parameter for name, parameter in cx.parameters.items() if name in ir}
    forms = {id: parameter.form for id, parameter in lent.items()}
    taken = (GenericCompiler(),) if passes is None else tuple(passes)
    needed = ir.ancestors(ir.output_ids)
    data: dict[int, Array] = {}
    missing = ""
    for node in ir.inputs:
        if node.id in needed:
            try:
                parameter = lent.get(node.id)
                data[node.id] = (
                    cx[node.name].numpy() if parameter is None else parameter.read_as(node.type)
                )
            except NotComputedError:
                missing = missing or f"the input {node} was never set; it is {node.type}"
    shapes = {node: data[node.id].shape for node in ir.inputs if node.id in data}
    try:
        sizes = bind_dims(ir, () if missing else needed, shapes, sizes)
    except DimError as error:
        if "but it should be" in error.message:
            error.message = error.message.replace("execute: ", "compare: ", 1)
            error.hint = "leave dims out where data has the sizes"
            raise
        missing = error.message.removeprefix("execute: ")
    given = Given(dims=sizes, weights=forms)
    if missing:
        return ComparedGraph(ir, given, None, missing, sizes, taken)

    def data_of(node: Node) -> Array:
        return data[node.id]

    return ComparedGraph(ir, given, Environment(data_of, sizes, cx.step), "", sizes, taken)


def _sizes(ir: IR, dims: Mapping[str, int] | None) -> dict[str, int]:
    sizes = named_sizes("compare", dims)
    for name in sizes:
        fault = f"compare: dims names {name!r}, and this graph has no such dim"
        DimError.unless_known(name, ir.symbols, fault, "dims come with tensors, or dim(...)")
    return sizes
