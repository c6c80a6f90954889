"""`torch.compile(module, backend="luminal_lab")`: PyTorch finds this by its entry point.

    module → dynamo → graphs of ATen ops → our steps → a session for each set of sizes

Dynamo cuts what it cannot trace out of a model, so one module may be several graphs; `captured()`
lists those of this process, each with its sessions. For a training step PyTorch's own autograd
writes the graph of the gradients, which is compiled like the others.

Tensors of PyTorch and of ours share their memory: nothing is copied that lies in row-major order.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, TypeAlias, cast

import numpy as np
from typing_extensions import override

from luminal_lab.core.builder import Transaction
from luminal_lab.core.dtypes import Array
from luminal_lab.core.ir import Meta
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.errors import ArgumentError, DeviceError, LabError
from luminal_lab.importing.aten import OPS
from luminal_lab.importing.imported import Ref, Step, resolved, scope_name
from luminal_lab.importing.torch_program import decompositions
from luminal_lab.importing.torch_sizes import array_of, dtype_of
from luminal_lab.importing.torch_steps import Reading, needed, refuse
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor

Torch: TypeAlias = Any
"""Something of PyTorch's, which is never a dependency."""
FALLBACKS: Final = ("error", "eager")
MOST_KEPT: Final = 100
"""How many graphs are kept to be looked at."""
_CAPTURED: list[CapturedGraph] = []


def luminal_lab(
    module: Torch, inputs: Sequence[object], *, fallback: str = "error", threads: int | None = None
) -> Callable[..., Any]:
    """Compile a graph of dynamo's; PyTorch calls this.

    `options={"fallback": "eager"}` leaves graphs to PyTorch that have an op which is not here;
    otherwise such an op is an error. `threads` is that of `ll.CPUCompiler`.
    """
    if fallback not in FALLBACKS:
        raise ArgumentError(
            f"torch.compile: the fallback is {fallback!r}", hint="it is 'error' or 'eager'"
        )
    torch = import_module("torch")
    common = import_module("torch._dynamo.backends.common")

    def compiled(graph: Torch, _: Sequence[object]) -> Callable[..., Any]:
        try:
            return boxed(CapturedGraph(torch, graph, threads))
        except LabError:
            if fallback == "error":
                raise
            return boxed(graph.forward)

    boxed: Callable[..., Any] = import_module("functorch.compile").make_boxed_func
    inner = common.aot_autograd(fw_compiler=compiled, decompositions=decompositions(torch, OPS))
    return inner(module, inputs)


def captured() -> tuple[CapturedGraph, ...]:
    """Return the graphs that torch.compile has given us in this process, the newest last.

    >>> from luminal_lab.dynamo import captured
    >>> len(captured()) >= 0
    True
    """
    return tuple(_CAPTURED)


class CapturedGraph:
    """A graph that dynamo has captured, and a session for each set of sizes that it was called for.

    `graph.sessions[0].workbench()` shows what became of one.
    """

    def __init__(self, torch: Torch, graph: Torch, threads: int | None = None) -> None:
        self._torch, self._threads = torch, threads
        nodes = [*graph.graph.nodes]
        self.inputs = [node.name for node in nodes if node.op == "placeholder"]
        """The names of its arguments."""
        (output,) = [node for node in nodes if node.op == "output"]
        reading = Reading(torch, {}, {}, True)
        steps, missing = reading.steps(graph.graph, OPS)
        self.outputs = [
            Ref(out.name) if isinstance(out, torch.fx.Node) else out
            for out in cast("Sequence[Any]", output.args[0])
        ]
        """What it returns: references, and None for a gradient that nobody asked for."""
        refuse(missing)
        self.steps: list[Step] = needed(steps, self.outputs)
        """Its ops in order."""
        self.sessions: list[Graph] = []
        """The session of each set of sizes, which can be displayed, timed and looked at."""
        self._runs: dict[tuple[object, ...], SizedRun] = {}
        _CAPTURED.append(self)
        del _CAPTURED[:-MOST_KEPT]

    def __call__(self, *given: Any) -> list[Any]:
        """Run it; sizes that are new are compiled first."""
        key = tuple([_kind(argument) for argument in given])
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = SizedRun(self, self._torch, given, self._threads)
            self.sessions.append(run.session)
        return run(given)

    @override
    def __repr__(self) -> str:
        return (
            f"<CapturedGraph: {len(self.steps)} ops of ATen, {len(self.inputs)} inputs; "
            f"compiled for {len(self.sessions)} sets of sizes>"
        )


def _kind(argument: Any) -> object:  # noqa: ANN401  # a tensor, or a size
    return (argument.shape, argument.dtype) if hasattr(argument, "shape") else argument


class SizedRun:
    """A captured graph in a session, for one set of sizes."""

    def __init__(
        self, captured: CapturedGraph, torch: Torch, given: Sequence[Any], threads: int | None
    ) -> None:
        self._torch = torch
        self.session = cx = Graph("captured")
        values: dict[str, Any] = {}
        self._inputs: list[Tensor | None] = []
        for name, argument in zip(captured.inputs, given, strict=True):
            tensor = None
            if isinstance(argument, torch.Tensor):
                if argument.device.type != "cpu":
                    raise DeviceError(
                        f"torch.compile: an input is on {argument.device}, and ours runs on the "
                        "CPU",
                        hint='module.to("cpu"), or another backend',
                    )
                shape = tuple(map(int, argument.shape))
                tensor = cx.tensor(shape, dtype_of(argument.dtype, name), name)
            self._inputs.append(tensor)
            values[name] = argument if tensor is None else tensor
        for step in captured.steps:
            scope = scope_name(step.scope) if step.scope else ""
            with Transaction(cx, Meta(None, step.origin, scope)):
                args, kwargs = resolved((step.args, dict(step.kwargs)), values)
                result = step.write(cx, *args, **kwargs)
            if len(step.results) == 1:
                values[step.results[0]] = result
            else:
                values.update(zip(step.results, result, strict=False))
        self._outputs = [*resolved(captured.outputs, values)]
        cx.retrieve([out for out in self._outputs if isinstance(out, Tensor)])
        self._seen: list[tuple[Callable[[], Any], int] | None] = [None] * len(given)
        """For each input the tensor that was last borrowed, and how often that was written to."""
        if any(isinstance(out, Tensor) for out in self._outputs):
            cx.compile(GenericCompiler(), CPUCompiler(threads=threads))

    def __call__(self, given: Sequence[Any]) -> list[Any]:
        """Run it on the memory of these tensors."""
        for at, (tensor, argument) in enumerate(zip(self._inputs, given, strict=True)):
            if tensor is None:
                continue
            seen = self._seen[at]
            # PyTorch counts what is written into a tensor's memory.
            if seen is None or seen[0]() is not argument or seen[1] != argument._version:
                tensor.borrow(array_of(self._torch, argument))
                is_shared = argument.is_contiguous()
                self._seen[at] = (weakref.ref(argument), argument._version) if is_shared else None
        if any(isinstance(out, Tensor) for out in self._outputs):
            self.session.execute()
        outputs = [self._given_out(out) for out in self._outputs]
        for out in self._outputs:
            # Whoever has the result may write into it, so the next run makes another.
            if isinstance(out, Tensor):
                self.session.forget(out.id)
        return outputs

    def _given_out(self, out: Any) -> Any:  # noqa: ANN401  # a tensor of ours, or what is no tensor
        if not isinstance(out, Tensor):
            return out
        return tensor_of(self._torch, self.session.owned(out))


def tensor_of(torch: Torch, array: Array) -> Torch:
    """Return an array as a tensor of PyTorch's that shares its memory.

    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> from luminal_lab.dynamo import tensor_of
    >>> tensor_of(torch, np.float32([1, 2]))
    tensor([1., 2.])
    """
    own = array if array.flags.writeable else array.copy()
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(own.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(own)
