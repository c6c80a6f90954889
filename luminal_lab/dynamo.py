"""`torch.compile(module, backend="luminal_lab")`: PyTorch finds this by its entry point.

    module → dynamo → graphs of ATen ops → our steps → a session for each set of sizes

Dynamo cuts what it cannot trace out of a model, so one module may be several graphs; `captured()`
lists those in use, each with its sessions and with what dynamo broke off at. For a training step
PyTorch's own autograd writes the graph of the gradients, which is compiled like the others.

Tensors of PyTorch and of ours share their memory: nothing is copied that lies in row-major order.
A result that is a view of an input or of another result is that view, as without a compiler.
"""

from __future__ import annotations

import itertools
import re
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeAlias, cast

from typing_extensions import override

from luminal_lab.core.builder import Transaction
from luminal_lab.core.dtypes import Array
from luminal_lab.core.ir import NO_META, Meta
from luminal_lab.core.ops import Random
from luminal_lab.devices.cpu.call import CPUCall
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.devices.cpu.program import CPUProgram
from luminal_lab.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    InputError,
    LabError,
    ModelError,
    nearest,
)
from luminal_lab.importing.aten import OPS
from luminal_lab.importing.dynamo_parts import GraphBreak, Part, part_of
from luminal_lab.importing.imported import Ref, Step, graph_name, scope_name, write_step
from luminal_lab.importing.torch_program import decompositions
from luminal_lab.importing.torch_sizes import array_of, dtype_of
from luminal_lab.importing.torch_steps import Reading, needed, refuse
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor

Torch: TypeAlias = Any
"""Something of PyTorch's, which is never a dependency."""
OPTIONS: Final = {"fallback": "error", "threads": None}
FALLBACKS: Final = ("error", "eager")
MOST_SIZES: Final = 64
"""How many sets of sizes a graph keeps compiled, the last ones used."""
_NUMBERS = itertools.count(1)
_CAPTURED: dict[int, weakref.ref[CapturedGraph]] = {}


def luminal_lab(
    module: Torch,
    inputs: Sequence[object],
    *,
    options: Mapping[str, object] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compile a graph of dynamo's; PyTorch calls this.

    `options={"fallback": "eager"}` leaves graphs to PyTorch that cannot be written here, which is
    otherwise an error. `options={"threads": 2}` is that of `ll.CPUCompiler`.
    """
    given = {**OPTIONS, **(options or {})}
    for name in given:
        ArgumentError.unless_known(
            name,
            OPTIONS,
            f"torch.compile: there is no option {name!r}",
            nearest(name, OPTIONS) or "there are 'fallback' and 'threads'",
        )
    fallback, threads = given["fallback"], cast("int | None", given["threads"])
    if fallback not in FALLBACKS:
        raise ArgumentError(
            f"torch.compile: the fallback is {fallback!r}", hint="it is 'error' or 'eager'"
        )
    if mode not in (None, "default"):
        raise ArgumentError(
            f"torch.compile: the mode is {mode!r}, which is one of Inductor's", hint="leave it out"
        )
    torch = import_module("torch")
    common = import_module("torch._dynamo.backends.common")
    part, names = part_of(module), names_of(module)

    def compiled(kind: str, graph: Torch, _: Sequence[object]) -> Callable[..., Any]:
        eager = graph.forward if fallback == "eager" else None
        try:
            return boxed(CapturedGraph(torch, graph, kind, part, names, threads, eager))
        except LabError:
            if eager is None:
                raise
            return boxed(eager)

    boxed: Callable[..., Any] = import_module("functorch.compile").make_boxed_func
    inner = common.aot_autograd(
        fw_compiler=partial(compiled, "forward"),
        bw_compiler=partial(compiled, "backward"),
        inference_compiler=partial(compiled, "inference"),
        decompositions=decompositions(torch, OPS),
    )
    return inner(module, inputs)


def captured() -> tuple[CapturedGraph, ...]:
    """Return the graphs of torch.compile that are in use, the newest last.

    >>> from luminal_lab.dynamo import captured
    >>> len(captured()) >= 0
    True
    """
    graphs = [graph() for graph in list(_CAPTURED.values())]
    return tuple([graph for graph in graphs if graph is not None])


def _scope(path: str) -> str:
    """Return the path of a module below the one that is compiled.

    >>> _scope("L['self'].layers.0"), _scope("G['model'].head"), _scope("L['fn']")
    ('layers.0', 'model.head', '')
    """
    path = re.sub(r"^[LG]\['(\w+)'\]", r"\1", path)
    return scope_name(re.sub(r"^(self|fn)(\.|$)", "", path))


def names_of(module: Torch) -> dict[str, str]:
    """Return what the names of arguments stand for in the graphs that autograd makes of one."""
    names: dict[str, str] = {}
    given = [node for node in module.graph.nodes if node.op == "placeholder"]
    for at, node in enumerate(given):
        source = getattr(node.meta.get("grapharg"), "source", None)
        if source is None:
            continue
        word = source.name if isinstance(source.name, str) else source.name()
        name = _scope(re.sub(r"\.?_(?:modules|parameters|buffers)\['([^']+)'\]", r".\1", word))
        if re.fullmatch(r"[\w.]+", name):
            # Counted from 1 where there are gradients, and from 0 where there are none.
            names[f"primals_{at + 1}"] = names[f"arg{at}_1"] = name
    return names


class Given(NamedTuple):
    """What a graph returns at one place: a value of its steps, and the views to take of it."""

    base: str
    views: tuple[Torch, ...]
    """The nodes of the views, the outermost last."""
    order: tuple[int, ...] | None
    """The axes of the value in the order in which they lie in memory; None if in their own."""


class CapturedGraph:
    """A graph that dynamo has captured, and a session for each set of sizes that it was called for.

    `graph.sessions[0].workbench()` shows what became of one.
    """

    def __init__(
        self,
        torch: Torch,
        graph: Torch,
        kind: str = "inference",
        part: Part | None = None,
        names: Mapping[str, str] | None = None,
        threads: int | None = None,
        eager: Callable[..., Any] | None = None,
    ) -> None:
        self.kind = kind
        """What it computes: inference, or a forward or backward pass of training."""
        self.part = part or Part(None, 0, None)
        """Which part of the author's function it computes."""
        self.names = names or {}
        """What PyTorch's own names of arguments stand for, as in "head.weight"."""
        self._torch, self._threads, self._eager = torch, threads, eager
        self._lock = threading.RLock()
        nodes = [*graph.graph.nodes]
        for node in nodes:
            # A node of the gradients belongs to the module of what it is the gradient of.
            if "fwd_nn_module_stack" in node.meta:
                node.meta.setdefault("nn_module_stack", node.meta["fwd_nn_module_stack"])
        _check_types(torch, nodes)
        self.inputs = [node.name for node in nodes if node.op == "placeholder"]
        """The names of its arguments."""
        self.constants: dict[str, Torch] = {
            node.name: value
            for node in nodes
            if node.op == "get_attr"
            and isinstance(value := getattr(graph, node.target, None), torch.Tensor)
        }
        """The tensors that are part of it."""
        reading = Reading(torch, {}, {}, True, self.constants)
        steps, missing = reading.steps(graph.graph, OPS)
        refuse(missing, "torch.compile")
        (output,) = [node for node in nodes if node.op == "output"]
        self.outputs: list[Given | Any] = [
            _given(out) if isinstance(out, torch.fx.Node) else out
            for out in cast("Sequence[Any]", output.args[0])
        ]
        """What it returns; None is a gradient that nobody asked for."""
        self.types = {node.name: node.meta.get("val") for node in nodes}
        """PyTorch's own idea of each value."""
        wanted = {out.base for out in self.outputs if isinstance(out, Given)}
        for out in self.outputs:
            if isinstance(out, Given):
                wanted |= {node.name for view in out.views for node in view.all_input_nodes[1:]}
        self.steps: list[Step] = needed(steps, [Ref(name) for name in sorted(wanted)])
        """Its ops in order."""
        self._runs: OrderedDict[tuple[object, ...], SizedRun | Callable[..., Any]] = OrderedDict()
        self.number = next(_NUMBERS)
        _CAPTURED[self.number] = weakref.ref(
            self, lambda _, number=self.number: _CAPTURED.pop(number, None)
        )

    @property
    def sessions(self) -> list[Graph]:
        """The session of each set of sizes, which can be displayed, timed and looked at."""
        return [run.session for run in self._runs.values() if isinstance(run, SizedRun)]

    def __call__(self, *given: Any) -> Sequence[Any]:
        """Run it; sizes that are new are compiled first."""
        key = tuple([_kind(argument) for argument in given])
        # A session runs once at a time.
        with self._lock:
            run = self._runs.get(key)
            if run is None:
                run = self._runs[key] = self._compiled(given)
                if len(self._runs) > MOST_SIZES:
                    self._runs.popitem(last=False)
            else:
                self._runs.move_to_end(key)
            return run(*given)

    def _compiled(self, given: Sequence[Any]) -> SizedRun | Callable[..., Any]:
        try:
            return SizedRun(self, self._torch, given, self._threads)
        except LabError:
            if self._eager is None:
                raise
            return self._eager

    @property
    def ended(self) -> GraphBreak | None:
        """Why dynamo ended it before the author's function did; None if it did not."""
        return self.part.ended

    @override
    def __repr__(self) -> str:
        broken = f"; dynamo broke off, since {self.ended.reason}" if self.ended else ""
        return (
            f"<CapturedGraph {self.number}, {self.kind}, {self.part}: "
            f"{_counted(len(self.steps), 'op')} of ATen, {_counted(len(self.inputs), 'input')}; "
            f"compiled for {_counted(len(self.sessions), 'set')} of sizes{broken}>"
        )

    @override
    def __str__(self) -> str:
        where = self.ended.origin if self.ended else None
        return f"{self!r}" if where is None else f"{self!r}\n  {where}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _kind(argument: Any) -> object:  # noqa: ANN401  # a tensor, or a size
    return (argument.shape, argument.dtype) if hasattr(argument, "shape") else argument


def _check_types(torch: Torch, nodes: Sequence[Torch]) -> None:
    """Raise if a value is on another device, or an input of a dtype that there is not here."""
    for node in nodes:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            continue
        if value.device.type != "cpu":
            raise DeviceError(
                f"torch.compile: {node.name} is on {value.device}, and ours runs on the CPU",
                hint='module.to("cpu"), or another backend',
            )
        if node.op == "placeholder":
            try:
                dtype_of(value.dtype, node.name)
            except DTypeError as error:
                about = error.message.partition(": ")[2]
                raise DTypeError(f"torch.compile: {about}", hint=error.hint) from None


def _given(node: Torch) -> Given:
    """Return what to compute for a result, and which views to take of it."""
    views: list[Any] = []
    while _is_view(node):
        views.append(node)
        node = node.args[0]
    return Given(node.name, tuple(views[::-1]), _order(node.meta.get("val")))


def _is_view(node: Torch) -> bool:
    """Return whether a node is a view of its first argument."""
    if node.op != "call_function" or not node.args:
        return False
    if getattr(node.target, "__name__", "") == "getitem":
        return bool(node.args[0].op == "call_function") and _is_view(node.args[0])
    return bool(getattr(node.target, "is_view", False))


def _order(value: Torch) -> tuple[int, ...] | None:
    """Return the axes of a tensor in the order in which they lie in memory, if not in theirs."""
    if not hasattr(value, "stride"):
        return None
    sizes, strides = [*map(_hint, value.shape)], [*map(_hint, value.stride())]
    if None in sizes or None in strides:
        return None
    long = [axis for axis, size in enumerate(sizes) if size != 1]
    inner = sorted(long, key=lambda axis: -cast("int", strides[axis]))
    step = 1
    for axis in reversed(inner):
        if strides[axis] != step:
            return None  # with gaps, or an axis that is repeated
        step *= cast("int", sizes[axis])
    return None if inner == long else (*inner, *(a for a in range(len(sizes)) if a not in inner))


def _hint(size: Torch) -> int | None:
    """Return a size in the example, without a guard."""
    if isinstance(size, int):
        return size
    hint = getattr(size.node, "hint", None)
    return None if hint is None else int(hint)


ResultKey: TypeAlias = tuple[str, tuple[int, ...] | None]
"""A computed value by its name, and the order of its axes in memory."""


class SizedRun:
    """A captured graph in a session, for one set of sizes."""

    def __init__(
        self, captured: CapturedGraph, torch: Torch, given: Sequence[Any], threads: int | None
    ) -> None:
        self._torch = torch
        self.session = cx = Graph(f"{captured.kind}_{captured.number}")
        # Not a method of the graph, which would live as long as its sessions.
        cx.remarks = partial(captured.part.remarks, captured.kind)
        self._names = captured.names
        self._values: dict[str, Any] = {}
        self._inputs: list[tuple[int, Tensor]] = []
        for at, (name, argument) in enumerate(zip(captured.inputs, given, strict=True)):
            self._values[name] = argument
            if isinstance(argument, torch.Tensor):
                tensor = self._values[name] = self._input(name, argument)
                # For whoever looks at the session: weights are there for as long as their module.
                there = weakref.ref(argument)
                cx.give(tensor.node, partial(_array_of_argument, torch, there, tensor.node.name))
                self._inputs.append((at, tensor))
        for name, value in captured.constants.items():
            self._values[name] = self._input(name, value).borrow(array_of(torch, value))
        for step in captured.steps:
            with Transaction(cx, Meta(None, step.origin, _scope(step.scope))):
                write_step(cx, step, self._values, "graph of dynamo's")
        self._places = {name: at for at, name in enumerate(captured.inputs)}
        self._outputs = captured.outputs
        self._computed: dict[ResultKey, Tensor] = {}
        for out in captured.outputs:
            if isinstance(out, Given) and not self._is_given(out):
                value: Any = self._values[out.base]
                if not isinstance(value, Tensor):
                    continue
                _check_result(torch, out.base, value, captured.types.get(out.base))
                value = value if out.order is None else value.permute(*out.order)
                self._computed[out.base, out.order] = value.retrieve()
        self._is_random = any(isinstance(node.op, Random) for node in cx.ir)
        self._call: CPUCall | None = None
        if self._computed:
            device = CPUCompiler(threads=threads)
            compilation = cx.compile(GenericCompiler(), device, keep=True)
            if not isinstance(compilation.program, CPUProgram):
                raise DeviceError(
                    "torch.compile: there is no C compiler", hint="pip install ziglang"
                )
            into = dict(zip(compilation.written.output_ids, compilation.ir.output_ids, strict=True))
            results = [into[value.id] for value in self._computed.values()]
            self._call = CPUCall(compilation.program, results)
            self._take(torch, captured.constants)

    def _take(self, torch: Torch, constants: Mapping[str, Torch]) -> None:
        """Note which argument each input of the program is, and what its results are like."""
        assert self._call is not None
        at = {tensor.id: place for place, tensor in self._inputs}
        self._constants = {name: value.detach().contiguous() for name, value in constants.items()}
        fixed = {self._values[name].id: v.data_ptr() for name, v in self._constants.items()}
        # An argument's place, or the address of what is part of the graph.
        self._given = [(at.get(node.id), fixed.get(node.id, 0)) for node in self._call.inputs]
        self._like = [
            (key, value.shape, getattr(torch, str(value.dtype)))
            for key, value in self._computed.items()
        ]

    def _input(self, name: str, value: Torch) -> Tensor:
        shape = tuple(map(int, value.shape))
        shown = graph_name(self._names.get(name, name))
        with Transaction(self.session, NO_META):  # the caller is PyTorch
            return self.session.tensor(shape, dtype_of(value.dtype, name), shown)

    def _is_given(self, out: Given) -> bool:
        """Return whether a result is an argument, or a view of one."""
        return out.base in self._places

    def __call__(self, *given: Any) -> list[Any]:
        """Run it on the memory of these tensors."""
        results: dict[ResultKey, Torch] = {}
        if self._call is not None:
            empty, kept, addresses = self._torch.empty, list[Any](), list[int]()
            for place, address in self._given:
                if place is not None:
                    value = given[place]
                    if not value.is_contiguous() or value.is_neg():
                        value = value.detach().resolve_neg().contiguous()
                        kept.append(value)
                    address = value.data_ptr()
                addresses.append(address)
            made = [empty(shape, dtype=dtype) for _, shape, dtype in self._like]
            # PyTorch's seed decides, and no two runs or graphs draw the same.
            step = int(self._torch.randint(1 << 31, ()).item()) if self._is_random else 0
            self._call(addresses, [value.data_ptr() for value in made], step)
            for (key, *_), value in zip(self._like, made, strict=True):
                results[key] = value if key[1] is None else value.permute(_inverse(key[1]))
        return [self._given_out(out, given, results) for out in self._outputs]

    def _given_out(
        self,
        out: Any,  # noqa: ANN401  # a result, or None
        given: Sequence[Any],
        results: Mapping[ResultKey, Torch],
    ) -> Any:  # noqa: ANN401  # a tensor, or a size
        if not isinstance(out, Given):
            return out
        if self._is_given(out):
            value = given[self._places[out.base]]
        else:
            value = results.get((out.base, out.order), self._values[out.base])
        for view in out.views:
            value = self._viewed(view, value)
        return value

    def _viewed(self, view: Torch, value: Torch) -> Torch:
        """Take a view as PyTorch does; the other nodes that it is made with are sizes."""
        known = {**self._values, view.args[0].name: value}

        def meant(node: Torch) -> object:
            return known[node.name]

        args, kwargs = self._torch.fx.node.map_arg((view.args, view.kwargs), meant)
        return view.target(*args, **kwargs)


def _array_of_argument(torch: Torch, argument: weakref.ref[Torch], name: str) -> Array:
    """Return an argument of the first call as an array, if it still exists."""
    value = argument()
    if value is None:
        raise InputError(
            f"execute: the argument {name} is gone since the call that the session was made for",
            hint=f'give it data: session["{name}"].set(...)',
        )
    return array_of(torch, value)


def _inverse(order: Sequence[int]) -> list[int]:
    return [order.index(axis) for axis in range(len(order))]


def _check_result(torch: Torch, name: str, value: Tensor, wanted: Torch) -> None:
    """Raise if a result is not of the type that PyTorch has told the author's program."""
    if not isinstance(wanted, torch.Tensor):
        return
    dtype = dtype_of(wanted.dtype, name)
    if value.dtype is not dtype or value.ndim != wanted.dim():
        raise ModelError(
            f"torch.compile: {name} is written as {value.type}, and PyTorch has {dtype} with "
            f"{wanted.dim()} axes",
            hint='options={"fallback": "eager"} leaves this graph to PyTorch',
        )
