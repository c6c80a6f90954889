"""The session, `cx = ll.Graph()`: the graph, the data of its inputs, and its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from typing_extensions import override

from luminal_lab.core.builder import Mark, ShapeLike
from luminal_lab.core.dtypes import DTypeLike
from luminal_lab.core.ir import IR
from luminal_lab.core.ops import HostCall, Input
from luminal_lab.core.origin import Origin, here, running_shell
from luminal_lab.core.printer import unique
from luminal_lab.errors import (
    DeviceError,
    GraphError,
    LabError,
    NotComputedError,
    UnknownNameError,
    flag,
    nearest,
)
from luminal_lab.interrupts import OpenBlocks, held
from luminal_lab.listeners import LISTENERS
from luminal_lab.session_compile import CompiledStore
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import is_function, told_methods
from luminal_lab.tensor.lazy import Lazy
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.tensor.sizes import named_sizes

if TYPE_CHECKING:
    from pathlib import Path

    from luminal_lab.advice.finding import Advice
    from luminal_lab.calling import CompiledFunction
    from luminal_lab.core.dtypes import Array
    from luminal_lab.display import Engine, Theme
    from luminal_lab.io.facts import Subject
    from luminal_lab.kernels.launch import Launch
    from luminal_lab.passes.snapshot import Derivations
    from luminal_lab.tables import Table
    from luminal_lab.timing.compare import SideBySide
    from luminal_lab.timing.timings import Timings
    from luminal_lab.viz.exports import Digraph
    from luminal_lab.viz.graphs import GraphPicture
    from luminal_lab.viz.live.backed import Backed
    from luminal_lab.viz.live.explorer import Explorer
    from luminal_lab.viz.live.workbench import Workbench
    from luminal_lab.viz.overlays import Overlaid
    from luminal_lab.viz.selection import Selection


PUBLIC = tuple(
    """
    advise arange as_function board carry compilation compile constant delete_inputs derivation
    dim display downstream drop execute explore eye full function gradients ir keep kernels
    launches linspace memory_plan name ones parameter parameters rand randint randn reset retrieve
    save scope search seed set_dim snapshots step swap tensor time to_dot to_pandas trace transfer
    workbench zeros
    """.split()  # noqa: SIM905  # a list of names reads better so
)
"""A graph's names for users; the rest is for its tensors."""
OF_ONE_GRAPH = "_compilation", "_request", "_prepared", "_blocks", "_searched", "begun"
"""What a copy of a graph does not take over."""


@partial(told_methods, on="cx.", of_arguments=False)
class Graph(CompiledStore):
    """A graph that is being written, with the data and the results of its runs.

    >>> cx = Graph()
    >>> x = cx.tensor((2,), name="x").set([1, 2])
    >>> y = (x * 10).retrieve()
    >>> cx.execute()
    >>> y.numpy()
    array([10., 20.], dtype=float32)
    """

    def __init__(self, name: str = "main", *, seed: int = 0) -> None:
        try:
            super().__init__(name, seed)
        except LabError as error:
            error.where = str(here() or "") or None
            raise
        # The gradients that `backward` made, by input and loss.
        self._slopes: dict[int, dict[int, int]] = {}
        self.remarks: Callable[[], Iterable[tuple[str, Origin | None]]] = tuple
        """What there is to say of it as a whole, each with the user's line that it is about."""
        # Notebook cells: which one runs, and the nodes that each made, now and in its last run.
        self._first = 0
        self._made: dict[str | None, set[int]] = {}
        self._past: dict[str, set[int]] = {}
        self._listen()
        for listener in LISTENERS.get():
            listener.wrote(self)

    def _listen(self) -> None:
        """Ask IPython, if it is there, to announce each cell."""
        shell = running_shell()
        if shell is not None:
            shell.before_each_cell(self._begin)

    # -- the graph ---------------------------------------------------------------------------------

    def __dir__(self) -> Iterable[str]:
        """Return the public names for completion."""
        return sorted([*PUBLIC, *(name for name in object.__dir__(self) if name[:2] == "__")])

    def __getattr__(self, name: str) -> NoReturn:
        if name[:2] == "__":
            raise AttributeError(name)
        from luminal_lab.passes.compilation import Compilation  # noqa: PLC0415  # loaded late

        hint = nearest(name, PUBLIC)
        if hasattr(Compilation, name):
            hint = f"its last compile has it: cx.compilation.{name}"
        raise UnknownNameError(
            f"a graph has no {name!r}", where=str(here() or "") or None, hint=hint
        )

    @override
    def __str__(self) -> str:
        return str(self.ir)

    @override
    def __repr__(self) -> str:
        ir = self.ir
        return (
            f"<Graph {self.name}: {_counted(len(ir), 'node')}, "
            f"{_counted(len(ir.inputs), 'input')}, {_counted(len(ir.outputs), 'output')}; "
            "print(cx) shows it>"
        )

    def __getitem__(self, name: str) -> Tensor:
        """Return the tensor with a name, as the graph's text shows it."""
        with self.whole():
            ir, wanted = self.ir, str(name)
            if wanted not in ir:
                raise GraphError(
                    f"{self.name}: there is no node %{wanted.removeprefix('%')}",
                    hint=nearest(wanted.removeprefix("%"), ir.names) or "print(cx) shows all nodes",
                )
            node = ir[wanted]
            return Tensor(self, node.id, node.type)

    def __contains__(self, tensor: object) -> bool:
        if isinstance(tensor, Lazy):
            return tensor.graph is self and tensor.id in self.ir
        return isinstance(tensor, str) and tensor in self.ir

    def __iter__(self) -> Iterator[Tensor]:
        """Yield all tensors, in the order of the graph's text."""
        return iter([Tensor(self, node.id, node.type) for node in self.ir])

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters that the graph borrows, by the names of their inputs.

        >>> y = ll.nn.Linear(3, 2)(cx.tensor((1, 3)))
        >>> cx.parameters
        {'weight': parameter weight, 'bias': parameter bias}
        """
        return {self.node(id).name: parameter for parameter, id in self._parameters.items()}

    def downstream(self, *tensors: Tensor) -> list[Tensor]:
        """Return all tensors computed from the given ones, without these.

        >>> x = cx.tensor((2,), name="x")
        >>> y = (x.exp2() + cx.arange(2)).named("y")
        >>> cx.downstream(x)[-1].name
        'y'
        """
        with self.whole():
            ir = self.ir
            given = {self._own("downstream", tensor).id for tensor in tensors}
            users = ir.descendants(given) - given
            return [Tensor(self, node.id, node.type) for node in ir if node.id in users]

    def function(
        self,
        call: Callable[..., object],
        *tensors: Tensor,
        shape: ShapeLike,
        dtype: DTypeLike = "float32",
        name: str | None = None,
    ) -> Tensor:
        """Return the result of a Python function on arrays, called when the graph runs.

        >>> import numpy as np
        >>> x = cx.tensor((3,)).set([3, 1, 2])
        >>> y = cx.function(np.sort, x, shape=(3,)).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [1.0, 2.0, 3.0]
        """
        with self.whole():
            if not is_function(call):
                raise GraphError(
                    f"function: {call!r} cannot be called",
                    hint="give a Python function first, and then the tensors that it takes",
                )
            wanted = str(name or getattr(call, "__name__", "function").strip("<>"))
            key = unique(wanted, {n for n, f in self._functions.items() if f is not call})
            type = self.type_of(shape, dtype)
            sources = tuple(self._own("function", tensor).id for tensor in tensors)
            id = self.append(HostCall(key, type.dtype, type.shape), sources, type)
            self._functions[key] = call
            return Tensor(self, id, type)

    def as_function(self) -> CompiledFunction:
        """Return the last compile as a function of arrays, for calls that should cost little.

        Its arguments are the inputs that are no parameters; those that are not given have the data
        of the session. A call keeps no values, and the session does not change.

        >>> import numpy as np
        >>> x = cx.tensor((1, 4), name="x")
        >>> y = ll.nn.Linear(4, 2)(x).retrieve()
        >>> compilation = cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
        >>> cx.as_function()(np.ones((1, 4), np.float32)).shape
        (1, 2)
        """
        from luminal_lab.calling import CompiledFunction  # noqa: PLC0415  # loaded when used

        if self._compiling is None:
            raise DeviceError(
                "as_function: nothing was compiled yet",
                where=str(here() or "") or None,
                hint="cx.compile(ll.GenericCompiler(), ll.CPUCompiler())",
            )
        self._asked("as_function")
        compilation = self.program()
        assert compilation is not None
        return CompiledFunction(self, compilation)

    # -- gradients ---------------------------------------------------------------------------------

    @override
    def backward(self, loss: Lazy, checkpoint: Sequence[str]) -> None:
        from luminal_lab.passes.gradients.derive import by_inputs  # noqa: PLC0415  # loaded late

        for id, slope in by_inputs(loss, checkpoint).items():
            self._slopes.setdefault(id, {})[loss.id] = slope.id

    @override
    def take_back(self, mark: Mark, error: BaseException) -> None:
        super().take_back(mark, error)
        next_id = self.next_id
        self.derived = [
            derivation
            for derivation in self.derived
            if all(c.node < next_id for c in derivation.log)
        ]
        for slopes in self._slopes.values():
            for loss in [loss for loss, id in slopes.items() if id >= next_id]:
                del slopes[loss]

    @property
    def gradients(self) -> Derivations:
        """The graph before and after each call of `grad` or `backward`, with the nodes added.

        >>> x = cx.tensor((3,), name="x")
        >>> (x * x).sum().backward()
        >>> print(cx.gradients[0].firings[0])
        grad-loss: made %4
        """
        from luminal_lab.passes.snapshot import (  # noqa: PLC0415  # loaded when used
            Derivations,
            Record,
            Snapshot,
        )

        return Derivations(
            Snapshot(
                derivation.before, derivation.after, Record(derivation.name, derivation.log), number
            )
            for number, derivation in enumerate(self.derived, 1)
        )

    @override
    def slope(self, tensor: Lazy) -> Tensor:
        with self.whole():
            old = self.stale | self._gone.keys()
            ids = [id for id in self._slopes.get(tensor.id, {}).values() if id not in old]
            if not ids:
                is_input = isinstance(tensor.node.op, Input)
                raise GraphError(
                    f"grad: {tensor.label} has no gradient",
                    hint="call backward() on a loss that it is computed from"
                    if is_input
                    else f"backward() is for inputs; for {tensor.label} use ll.grad(loss, it)",
                )
            first, *rest = [Tensor(self, id, tensor.type) for id in ids]
            return sum(rest, first)

    # -- copies ------------------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, object]) -> Graph:
        """Return an independent copy with its own data, which compiles again when it runs."""
        copy = Graph.__new__(type(self))
        memo[id(self)] = copy
        for name, value in vars(self).items():
            if name not in OF_ONE_GRAPH:
                vars(copy)[name] = deepcopy(value, memo)
        copy._compilation, copy._request, copy._prepared = None, None, None
        copy._searched, copy._turns = None, {}
        copy._blocks, copy._scope, copy.begun = OpenBlocks(), "", None
        copy._listen()
        return copy

    @override
    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise GraphError(
            f"the graph {self.name!r} cannot be pickled, or copied without its data: it holds "
            "functions, and memory that kernels use",
            hint="copy.deepcopy(cx) copies it; str(cx.ir) is its text, which ll.parse reads",
        )

    # -- pictures ----------------------------------------------------------------------------------

    def display(
        self,
        *,
        show_shapes: bool = True,
        show_views: bool = False,
        depth: int | None = None,
        select: Selection | None = None,
        highlight: Selection = (),
        overlay: Overlaid | None = None,
        theme: Theme = "auto",
        layout: Engine = "layered",
    ) -> GraphPicture:
        """Return a picture of the newest snapshot, which the last line of a cell shows.

        Before a compile, or after later changes, that is the graph as written. Scopes are open
        down to a depth, or as far as it stays readable. `select` shows only some nodes and
        `highlight` rings some: by name, scope, tensor, or a function of a node. `overlay`
        puts numbers on nodes: a dict by name, timings, or a file of Model Explorer's node data.

        >>> x = cx.tensor((2,), name="x")
        >>> y = (x * 10).retrieve()
        >>> cx.display()
        <GraphPicture: Graph main as written: 2 of 3 nodes (1 scalar in the ops). Inputs: x. \
Results: %2. Shown: 1 input, 1 mul.>
        """
        from luminal_lab.viz.graphs import PictureRequest, graph_picture  # noqa: PLC0415  # loaded when used

        with self.whole():
            newest = self._newest()
            ir = self.ir if newest is None else newest.snapshots[-1].ir
            launches: Iterable[Launch] = getattr(newest and newest.program, "launches", ())
            known = PictureRequest(
                parameters=frozenset(self._parameters.values()),
                kept=frozenset(self._kept),
                kernels={launch.node: launch.kernel.name for launch in launches},
            )
            return graph_picture(
                ir,
                show_shapes=show_shapes,
                show_views=show_views,
                depth=depth,
                select=select,
                highlight=highlight,
                overlay=overlay,
                theme=theme,
                layout=layout,
                note="as written" if newest is None else f"after {newest.snapshots[-1].title}",
                known=known,
            )

    def explore(self) -> Explorer:
        """Return the newest snapshot as a live picture, for the last line of a cell.

        Scopes open and close in place, nodes can be searched for, and the selection can be read and
        set from Python. Outside a notebook, `cx.explore().export("page.html")` writes it as a page.

        >>> cx = Graph("twice")
        >>> y = (cx.tensor((2,), name="x") * 2).retrieve()
        >>> cx.explore()
        <Explorer of twice: 3 nodes; a notebook shows it, .export("page.html") writes it as a page>
        """
        from luminal_lab.viz.live.explorer import explorer  # noqa: PLC0415  # loaded when used

        with self.whole():
            return explorer([self._backed("explore")])

    def workbench(
        self,
        *times: Timings | SideBySide | Advice,
        dialects: Iterable[str] = (),
        at: str = "",
    ) -> Workbench:
        """Return all of the last compile: passes, firings, rules, kernels, sources, memory, times.

        The selection is highlighted everywhere. `times` are results of `cx.time()`, `ll.compare` or
        `cx.advise()`; `dialects`, as in ["cuda", "assembly"], adds the kernels' sources in those
        languages. `at` says where it begins, as in "recognise/3/%softmax": a pass, firings, what is
        selected.

        >>> cx = Graph("once")
        >>> y = (cx.tensor((2,), name="x") * 1).retrieve()
        >>> compilation = cx.compile()
        >>> cx.workbench().subjects[0].snapshots == compilation.snapshots
        True
        """
        from luminal_lab.viz.live.backed import with_workers  # noqa: PLC0415  # loaded when used
        from luminal_lab.viz.live.workbench import workbench  # noqa: PLC0415  # loaded when used

        with self.whole():
            shown = workbench(with_workers(self._backed("workbench", times, dialects)))
            if not isinstance(at, str) or at:  # pyright: ignore[reportUnnecessaryIsInstance]  # nobody checks notebooks
                shown.at = at
            return shown

    def _backed(
        self,
        caller: str,
        times: Sequence[Timings | SideBySide | Advice] = (),
        dialects: Iterable[str] = (),
    ) -> Backed:
        """Return the newest compile, or the graph as written, with this session behind it."""
        from luminal_lab.viz.live.backed import backed_compile, backed_graph, dialects_of  # noqa: PLC0415  # loaded when used

        newest = self._newest()
        if newest is None:
            dialects_of(dialects)  # which only a compile has
            return backed_graph(caller, self.ir, self)
        return backed_compile(newest, self, times=times, dialects=dialects)

    def save(
        self,
        path: str | Path,
        *times: Timings | SideBySide | Advice,
        dialects: Iterable[str] = (),
        values: bool = False,
        cells: bool = True,
    ) -> None:
        """Write the last compile to a file, which `ll.open` reads on any machine.

        It holds graphs, passes and firings, rules, kernels and their sources, memory, the cells
        that wrote the graph, and the last search; `times` are results of `cx.time()`, `ll.compare`
        or `cx.advise()`. Values of inputs, weights and results are left out unless `values` is
        true; without `cells`, only the lines that made nodes are kept.

        >>> y = (cx.tensor((2,), name="x") * 1).retrieve()
        >>> cx.save(folder / "run.lab")
        >>> ll.open(folder / "run.lab").title
        'main'
        """
        from luminal_lab.io.recording import save_recording  # noqa: PLC0415  # loaded when used

        flag("save: values", values)
        flag("save: cells", cells)
        with self.whole():
            subject = self._backed("save", times, dialects).subject
            if not cells:
                subject = replace(subject, facts=replace(subject.facts, cells=()))
            values_kept = [self._values_to_keep(subject.snapshots[0].ir)] if values else []
            searches = [*self._searches()]
        save_recording(path, [subject, *searches], values_kept)

    def _searches(self) -> Iterator[Subject]:
        """Yield the last search, if there was one and its results are still there."""
        if self._searched is not None:
            from luminal_lab.io.recorded_search import subject_of_search  # noqa: PLC0415  # loaded when used

            with suppress(DeviceError):
                search = self._searched.searched
                if search is not None:
                    yield subject_of_search(search)

    def _values_to_keep(self, ir: IR) -> dict[str, Array]:
        """Return the values of inputs and of computed outputs, by the names of their nodes."""
        values: dict[str, Array] = {}
        for node in (*ir.inputs, *ir.outputs):
            with suppress(NotComputedError):
                values[node.name] = Tensor(self, node.id, node.type).numpy()
        return values

    def to_pandas(self, dims: Mapping[str, int] | None = None) -> Table:
        """Return the newest snapshot as a pandas table, a row for each node.

        Operations and bytes are filled in where sizes are known, from data or `dims`.

        >>> y = cx.tensor(("n", 4), name="x").exp2().retrieve()
        >>> cx.to_pandas(dims={"n": 2})[["name", "flops", "bytes"]].values.tolist()
        [['x', 0, 0], ['1', 8, 64]]
        """
        from luminal_lab.viz.node_tables import node_table  # noqa: PLC0415  # loaded when used

        with self.whole():
            newest = self._newest()
            ir = self.ir if newest is None else newest.ir
            return node_table(
                ir, {**self._set_dims, **self._bound, **named_sizes("to_pandas", dims)}
            )

    def to_dot(self) -> Digraph:
        """Return the newest snapshot, as `display` shows it, for the graphviz package.

        >>> y = cx.tensor((2,), name="x").exp2().retrieve()
        >>> cx.to_dot().source.count("->")
        1
        """
        return self.display().to_dot()

    # -- cells that run again ----------------------------------------------------------------------

    def _begin(self, cell: str) -> None:
        """Close the previous cell, and supersede what this one made in its last run."""
        self.within()  # first drop what was interrupted
        with held():
            self._supersede_cell(cell)

    def _supersede_cell(self, cell: str) -> None:
        self._made.setdefault(self._cell, set()).update(range(self._first, self.next_id))
        self._cell, self._first = cell, self.next_id
        for id, cells in list(self._outputs.items()):
            cells.discard(cell)
            if not cells:
                del self._outputs[id]
                self._carries.pop(id, None)
        for id, probes in list(self._probes.items()):
            probes[:] = [(asking, call) for asking, call in probes if asking != cell]
            if not probes:
                del self._probes[id]
        self.stale |= self._made.pop(cell, set())
        gone = self._unused(self.stale)
        self.supersede(gone)
        self.stale -= gone
        self.derived = [
            derivation
            for derivation in self.derived
            if any(c.node not in self._gone for c in derivation.log)
        ]
        for id in self._past.pop(cell, set()) & self._gone.keys():
            self._data.pop(id, None)
            self._providers.pop(id, None)
        self._past[cell] = gone


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
