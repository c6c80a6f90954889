"""`ll.kernel`: the user's own kernel, called like a function of tensors.

    scale = ll.kernel('''
    // kernel scale(x: f32[n]) -> (y: f32[n])
    void scale(const float *x, float *y, long n) {
        for (long i = 0; i < n; i++) y[i] = 2 * x[i];
    }
    ''', meaning=lambda x: 2 * x)

The call is a node, `user_kernel`, whose body is the kernel's meaning: the interpreter computes it,
gradients go through it, and a device without this dialect uses it instead of the source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, NoReturn, cast, get_args

from typing_extensions import override

from luminal_lab.core.builder import DimLike
from luminal_lab.core.dims import Dim, bounds
from luminal_lab.core.dtypes import Array
from luminal_lab.core.ir import IR, Meta, Node, Table
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import HostCall, Input, Pick, UserKernel
from luminal_lab.core.origin import here
from luminal_lab.core.printer import as_text, unique
from luminal_lab.errors import (
    ArgumentError,
    DefinitionError,
    DeviceError,
    DTypeError,
    GraphError,
    expect,
)
from luminal_lab.kernels.definition.definition import Buffer, header_text
from luminal_lab.kernels.definition.text import Header
from luminal_lab.kernels.user.gpu import check_gpu_function, launch_text
from luminal_lab.kernels.user.kernel import (
    check_function,
    check_tasks,
    count_of,
    header_dims,
    header_in,
    header_of,
    instantiated,
    never_called,
    solved,
)
from luminal_lab.passes.gradients.custom import custom_gradient
from luminal_lab.passes.gradients.rule import said
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import is_function, told, told_object
from luminal_lab.tensor.store import Store
from luminal_lab.trust import write

Dialect = Literal["c", "cuda", "metal"]
RESULTS = "what a kernel means has a result for each output"


@partial(told, on="ll.", of_arguments=False)
def kernel(
    source: str,
    header: str | None = None,
    *,
    meaning: Callable[..., object] | None = None,
    numpy: Callable[..., object] | None = None,
    gradient: Callable[..., object] | None = None,
    tasks: str | int = 1,
    dialect: Dialect = "c",
    blocks: str | int | None = None,
    threads: str | int | None = None,
) -> KernelCall:
    """Return the user's own kernel, to be called with tensors.

    The header says what it takes and returns, as `kernel name(x: f32[n]) -> (y: f32[n])`; it may be
    in a comment in the source. Its meaning is a function of tensors (`meaning`) or of arrays
    (`numpy`); without either, only a device that has the dialect can run it. `gradient` is given
    the gradient of the result and the inputs; without it the meaning's gradient is used. With
    `tasks` the function is called that often, in parallel, and its last argument says which call it
    is.

    With dialect="cuda" or "metal" the source is for a GPU, and `blocks` and `threads` (of each
    block) say how it is launched: numbers, or expressions in the dims of its header.

    >>> scale = kernel('''
    ... // kernel scale(x: f32[n]) -> (y: f32[n])
    ... void scale(const float *x, float *y, long n) {
    ...     for (long i = 0; i < n; i++) y[i] = 2 * x[i];
    ... }''', meaning=lambda x: 2 * x)
    >>> from luminal_lab.session import Graph
    >>> scale(Graph().tensor((4,), name="x")).shape
    (4,)
    """
    expect(source, str, f"kernel: the source is a {type(source).__name__}", "give its text")
    hint = "it is 'c', 'cuda' or 'metal'"
    fault = f"kernel: there is no dialect {dialect!r}"
    ArgumentError.unless_known(dialect, get_args(Dialect), fault, hint)
    stated = header_in(source) if header is None else header.strip()
    if stated is None:
        raise DefinitionError(
            "kernel: nothing says what it takes and returns",
            hint="begin the source with // kernel name(x: f32[n]) -> (y: f32[n])",
        )
    read = header_of(stated if stated.startswith("kernel") else f"kernel {stated}")
    for option, call in (("meaning", meaning), ("numpy", numpy), ("gradient", gradient)):
        if call is not None and not is_function(call):
            raise DefinitionError(
                f"kernel {read.name}: its {option} is {said(call)}", hint="give a function"
            )
    if meaning is not None and numpy is not None:
        raise ArgumentError(
            f"kernel {read.name}: both meaning and numpy say what it computes",
            hint="leave numpy out: meaning has gradients, too",
        )
    if gradient is not None and len(read.outputs) != 1:
        raise ArgumentError(
            f"kernel {read.name}: it has {len(read.outputs)} outputs, and a gradient= is of one",
            hint="give a meaning=, whose gradient is taken",
        )
    if not read.outputs:
        raise DefinitionError(
            f"kernel {read.name}: it has no outputs, so it returns no tensor",
            hint="what it computes goes into its outputs, as in -> (y: f32[n])",
        )
    launch = _checked_launch(read, source, dialect, str(tasks), (blocks, threads))
    text = header_text(f"kernel {read.name}", read.dims, read.inputs, read.outputs)
    return KernelCall(text, source.strip("\n"), dialect, launch, meaning, numpy, gradient)


def _checked_launch(
    read: Header,
    source: str,
    dialect: Dialect,
    tasks: str,
    launch: tuple[str | int | None, str | int | None],
) -> str:
    """Return how often the function is called, or raise if that or the function is wrong."""
    if dialect != "c":
        if tasks != "1":
            raise ArgumentError(
                f"kernel {read.name}: tasks= is for C, and it is in {dialect}",
                hint='blocks= and threads= say how it is launched, as in blocks="n", threads=256',
            )
        text = launch_text(read, *launch)
        _check_tasks(read, text.partition(" of ")[0], "blocks")
        check_gpu_function(read, source, dialect)
        return text
    if launch != (None, None):
        raise ArgumentError(
            f"kernel {read.name}: blocks= and threads= are for GPUs, and it is in C",
            hint='give dialect="cuda" or "metal"; in C, tasks= says how often it is called',
        )
    _check_tasks(read, tasks)
    check_function(read, source, with_tasks=tasks != "1")
    return tasks


def _check_tasks(read: Header, tasks: str, unit: str = "tasks") -> None:
    """Raise if nothing says how often the function is called, or if it never is."""
    high = bounds(count_of(read, unit, tasks, 'tasks="n"'))[1]
    if high is not None and high < 1:
        raise never_called(read, unit, tasks)


@told_object("kernel")
@dataclass(frozen=True, repr=False)
class KernelCall:
    """The user's own kernel: its header, its source, and its meaning."""

    header: str
    source: str
    dialect: Dialect = "c"
    tasks: str = "1"
    meaning: Callable[..., object] | None = None
    numpy: Callable[..., object] | None = None
    gradient: Callable[..., object] | None = None

    @property
    def name(self) -> str:
        """The name of the kernel, which is also that of its function."""
        return self._header.name

    @cached_property
    def _header(self) -> Header:
        return header_of(self.header)

    @override
    def __str__(self) -> str:
        stated = [] if header_in(self.source) else [f"// {self.header}"]
        return "\n".join([*stated, self.source])

    @override
    def __repr__(self) -> str:
        return f"<{self.header} in {self.dialect}; print(…) shows its source>"

    _repr_mimebundle_ = as_text

    def __call__(self, *tensors: Tensor, **dims: DimLike) -> Any:  # noqa: ANN401  # one, or several
        """Return the result for tensors, or all results if there are several.

        Dims that no input determines are given by name.
        """
        given = tuple(tensors)
        graph = self._graph(given)
        if self.gradient is None:
            return self._called(graph, given, dims)
        backward = self.gradient

        def with_gradient(*sources: Tensor) -> tuple[Tensor, Callable[[Tensor], object]]:
            return self._called(graph, sources, dims), lambda g: backward(g, *sources)

        with_gradient.__name__ = self.name
        return custom_gradient(with_gradient)(*given)

    def _graph(self, tensors: Sequence[object]) -> Store:
        names = [name for name, _ in self._header.inputs]
        if len(tensors) != len(names):
            self._refuse(
                f"it takes {', '.join(names) or 'nothing'}, and is called with "
                f"{len(tensors)} tensor{'s' * (len(tensors) != 1)}"
            )
        for name, tensor in zip(names, tensors, strict=True):
            if not isinstance(tensor, Tensor):
                self._refuse(
                    f"its input {name} is {said(tensor)}, and no tensor",
                    "make one with cx.tensor(shape).set(data) or cx.constant(data); "
                    "ll.devices.check_kernel(kernel, data) tries it on arrays",
                )
        graph = tensors[0].graph if tensors and isinstance(tensors[0], Tensor) else None
        if not isinstance(graph, Store):
            self._refuse("it has no inputs, so that it belongs to no graph")
        return graph

    def _refuse(self, problem: str, hint: str | None = None) -> NoReturn:
        raise GraphError(
            f"kernel {self.name}: {problem}",
            where=str(here() or "") or None,
            hint=hint or f"it is {self.header}",
        )

    def _called(self, graph: Store, tensors: Sequence[Tensor], named: dict[str, DimLike]) -> Any:  # noqa: ANN401
        header = self._header
        with graph.whole():
            for (name, type), tensor in zip(header.inputs, tensors, strict=True):
                if tensor.graph is not graph:
                    raise GraphError(
                        f"kernel {self.name}: its inputs belong to different graphs",
                        hint="give it tensors of one graph",
                    )
                if tensor.dtype is not type.dtype:
                    raise DTypeError(
                        f"kernel {self.name}: {name} is {type}, but {tensor.label} is "
                        f"{tensor.dtype}",
                        hint=f'convert it first, as in x.cast("{type.dtype}")',
                    )
            labels = [tensor.label for tensor in tensors]
            op = self.use(graph, [tensor.type for tensor in tensors], labels, named)
            types = tuple(output.type for output in op.body.outputs)
            id = graph.append(op, tuple([tensor.id for tensor in tensors]), types[0])
            if len(types) == 1:
                return Tensor(graph, id, types[0])
            graph.put(graph.node(id)._replace(extra=types[1:]))
            return tuple(
                Tensor(graph, graph.append(Pick(k), (id,), type), type)
                for k, type in enumerate(types)
            )

    def use(
        self,
        graph: Store,
        types: Sequence[TensorType],
        labels: Sequence[str],
        named: Mapping[str, DimLike],
    ) -> UserKernel:
        """Return the op that computes the kernel for inputs of some types, in a graph."""
        header = self._header
        known = header_dims(header)
        for name in named:
            hint = f"its dims: {', '.join(known) or 'none'}"
            fault = f"kernel {self.name}: it has no dim {name!r}"
            ArgumentError.unless_known(name, known, fault, hint)
        given = {name: graph.as_dim(size) for name, size in named.items()}
        dims = solved(header, types, given, labels)
        body, sizes = self._body(graph, dims), tuple(dims.values())
        op = UserKernel(body, self.header, self.source, self.dialect, self.tasks, sizes)
        write(op)
        if all(isinstance(size, int) for size in sizes):
            check_tasks(op, {})
        return op

    # -- what it means -----------------------------------------------------------------------------

    def _body(self, graph: Store, dims: dict[str, Dim]) -> IR:
        """Return the graph of the kernel's meaning for some sizes."""
        inputs, outputs = instantiated(self._header, dims)
        if self.meaning is not None:
            return self._written(self.meaning, inputs, outputs)
        table = Table()
        for index, (name, type) in enumerate(inputs):
            op = Input(type.dtype, type.shape)
            table.set(index, Node(index, op, (), type, (), Meta(name)))
        sources = tuple(range(len(inputs)))
        output_ids: list[int] = []
        for k, (name, type) in enumerate(outputs):
            key = self._function(graph, k, len(outputs))
            output_ids.append(len(inputs) + k)
            call = HostCall(key, type.dtype, type.shape)
            table.set(output_ids[-1], Node(output_ids[-1], call, sources, type, (), Meta(name)))
        return IR(table, sources, tuple(output_ids), name=self.name)

    def _written(
        self, meaning: Callable[..., object], inputs: list[Buffer], outputs: list[Buffer]
    ) -> IR:
        inner = Draft(self.name, 0)
        given = [inner.tensor(type.shape, type.dtype, name=name) for name, type in inputs]
        result = meaning(*given)
        results = (
            list(cast("Sequence[object]", result))
            if isinstance(result, (tuple, list))
            else [result]
        )
        if len(results) != len(outputs):
            raise DefinitionError(
                f"kernel {self.name}: its meaning returns {len(results)} "
                f"result{'s' * (len(results) != 1)}, and the header has {len(outputs)} "
                f"output{'s' * (len(outputs) != 1)}",
                hint=RESULTS,
            )
        ids: list[int] = []
        for (name, type), tensor in zip(outputs, results, strict=True):
            if not isinstance(tensor, Tensor) or tensor.graph is not inner:
                raise DefinitionError(
                    f"kernel {self.name}: its meaning returns {said(tensor)} for {name}, not a "
                    "tensor made from those it is given",
                    hint="meaning= works on tensors; numpy= takes a function of arrays",
                )
            if tensor.type != type:
                raise DefinitionError(
                    f"kernel {self.name}: its meaning makes {tensor.type} for {name}, which is "
                    f"{type}",
                    hint="the meaning's shapes and dtypes are those of the header",
                )
            ids.append(tensor.id)
        return inner.snapshot(tuple(ids), ())

    def _function(self, graph: Store, output: int, count: int) -> str:
        """Return the name under which a session knows the function of arrays for an output."""
        if self.numpy is None:
            call = _Missing(self.name, self.dialect)
        else:
            call = _Part(self.numpy, output if count > 1 else None)
        known = graph._functions  # pyright: ignore[reportPrivateUsage]  # the session keeps them
        wanted = self.name if count == 1 else f"{self.name}_{output}"
        key = unique(wanted, {name for name, other in known.items() if other != call})
        known[key] = call
        return key


class Draft(Store):
    """A graph that is only written, and never runs as a session."""

    underived = "what a kernel means is derived where the kernel is called"


@dataclass(frozen=True)
class _Part:
    """One result of a function of arrays."""

    call: Callable[..., object]
    index: int | None

    def __call__(self, *arrays: Array) -> object:
        results = self.call(*arrays)
        return results if self.index is None else cast("Sequence[object]", results)[self.index]


@dataclass(frozen=True)
class _Missing:
    """Stands in for a meaning that nobody gave."""

    name: str
    dialect: str

    def __call__(self, *arrays: Array) -> NoReturn:
        device = {
            "c": "ll.CPUCompiler()",
            "cuda": "ll.CUDACompiler() on an NVIDIA GPU, or with emulate=True anywhere,",
            "metal": "ll.MetalCompiler() on a Mac, or with emulate=True anywhere,",
        }[self.dialect]
        raise DeviceError(
            f"kernel {self.name}: NumPy cannot run it: it is in {self.dialect}, and nothing says "
            "what it means",
            hint=f"{device} runs it; or give meaning= or numpy=, a function that computes the same",
        )
