"""The session, `cx = ll.Graph()`: what was written, the data of its inputs, and its results."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NoReturn

from typing_extensions import override

from luminal_lab.core.binding import fit, solve_shape
from luminal_lab.core.builder import ShapeLike
from luminal_lab.core.dims import Symbol, check_bounds
from luminal_lab.core.dtypes import Array, DTypeLike
from luminal_lab.core.interpret import Environment, Probe, Step, interpret, stoppable
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Op
from luminal_lab.core.ops import HostCall, Input, Random
from luminal_lab.core.origin import here, running_shell
from luminal_lab.core.printer import unique
from luminal_lab.errors import (
    DimError,
    GraphError,
    InputError,
    LabError,
    LabWarning,
    NotComputedError,
    UnknownNameError,
    nearest,
)
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.lazy import Lazy
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.tensor.running import Run
from luminal_lab.tensor.sizes import bind_dims
from luminal_lab.tensor.sources import Sources
from luminal_lab.tensor.trees import Tree, leaves

if TYPE_CHECKING:
    from luminal_lab.core.ir import NodeLike
    from luminal_lab.passes.compilation import Compilation, Trace
    from luminal_lab.passes.pipeline import PassLike
    from luminal_lab.passes.snapshot import Snapshot


PUBLIC = tuple(
    """
    arange carry compilation compile constant delete_inputs dim downstream drop execute eye
    full function gradients ir keep
    linspace name ones parameter parameters rand randint randn reset retrieve scope seed set_dim
    snapshots step swap tensor trace transfer zeros
    """.split()  # noqa: SIM905  # a list of names reads better so
)
"""What a graph has for its users; the rest is for its tensors."""


class Graph(Sources):
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
        self.step = 0
        """The count of runs, which random numbers depend on."""
        self._data: dict[int, Array] = {}
        self._providers: dict[int, Callable[[], object]] = {}
        self._versions: dict[Parameter, int] = {}
        self._values: dict[int, Array] = {}
        # What is asked for, each with the notebook cells that did.
        self._outputs: dict[int, set[str | None]] = {}
        self._probes: dict[int, list[tuple[str | None, Probe]]] = {}
        self._kept: set[int] = set()
        self._unseen: set[int] = set()  # values that a probe is yet to see
        self._carries: dict[int, int] = {}
        self._functions: dict[str, Callable[..., object]] = {}
        self.backwards = {}
        self.derived = []
        # What `backward` made: for each input and each loss the gradient.
        self._slopes: dict[int, dict[int, int]] = {}
        self._compilation: Compilation | None = None
        self._compiling: Callable[[], Compilation] | None = None
        self._set_dims: dict[str, int] = {}
        self._bound: dict[str, int] = {}
        self._changed: set[int] = set()  # inputs that are newer than the values
        self._carried: set[int] = set()  # the same, but from the next run on
        # Notebook cells: the one that runs, and what each made, now and when it ran before.
        self._cell: str | None = None
        self._first = 0
        self._made: dict[str | None, set[int]] = {}
        self._past: dict[str, set[int]] = {}
        shell = running_shell()
        if shell is not None:
            shell.before_each_cell(self._begin)

    # -- the graph ---------------------------------------------------------------------------------

    def __dir__(self) -> Iterable[str]:
        """Return the names that completion shows: what is for users."""
        return sorted([*PUBLIC, *(name for name in object.__dir__(self) if name[:2] == "__")])

    def __getattr__(self, name: str) -> NoReturn:
        if name[:2] == "__":
            raise AttributeError(name)
        raise UnknownNameError(
            f"a graph has no {name!r}", where=str(here() or "") or None, hint=nearest(name, PUBLIC)
        )

    @property
    @override
    def ir(self) -> IR:
        """What was written, as a value."""
        return self.snapshot(tuple(self._outputs), tuple(self._carries.items()))

    @override
    def __str__(self) -> str:
        return str(self.ir)

    @override
    def __repr__(self) -> str:
        ir = self.ir
        return (
            f"<Graph {self.name}: {len(ir)} nodes, {len(ir.inputs)} inputs, "
            f"{len(ir.outputs)} outputs; print(cx) shows it>"
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
        """The parameters that the graph borrows, by the names of their inputs."""
        return {self.node(id).name: parameter for parameter, id in self._parameters.items()}

    def downstream(self, *tensors: Tensor) -> list[Tensor]:
        """Return all tensors that are computed from the given ones, without them."""
        with self.whole():
            ir = self.ir
            given = {self._own("downstream", tensor).id for tensor in tensors}
            found = ir.descendants(given) - given
            return [Tensor(self, node.id, node.type) for node in ir if node.id in found]

    def function(
        self,
        call: Callable[..., object],
        *tensors: Tensor,
        shape: ShapeLike,
        dtype: DTypeLike = "float32",
        name: str | None = None,
    ) -> Tensor:
        """Return what a Python function makes of arrays; it is called when the graph runs."""
        with self.whole():
            if not callable(call):
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

    # -- gradients ---------------------------------------------------------------------------------

    @override
    def backward(self, loss: Lazy, checkpoint: Sequence[str]) -> None:
        from luminal_lab.passes.gradients.derive import by_inputs  # noqa: PLC0415  # loaded late

        for id, slope in by_inputs(loss, checkpoint).items():
            self._slopes.setdefault(id, {})[loss.id] = slope.id

    @property
    def gradients(self) -> tuple[Snapshot, ...]:
        """The graph before and after each call of `grad` or `backward`, with all that it added.

        >>> cx = Graph()
        >>> x = cx.tensor((3,), name="x")
        >>> (x * x).sum().backward()
        >>> print(cx.gradients[0].firings[0])
        grad-loss: made %4
        """
        from luminal_lab.passes.snapshot import Record, Snapshot  # noqa: PLC0415  # loaded when used

        return tuple(
            Snapshot(one.before, one.after, Record(one.name, one.log), number)
            for number, one in enumerate(self.derived, 1)
        )

    @override
    def slope(self, tensor: Lazy) -> Tensor:
        with self.whole():
            old = self.stale | self._gone.keys()
            found = [id for id in self._slopes.get(tensor.id, {}).values() if id not in old]
            if not found:
                is_input = isinstance(tensor.node.op, Input)
                raise GraphError(
                    f"grad: {tensor.label} has no gradient",
                    hint="call backward() on a loss that it is computed from"
                    if is_input
                    else f"backward() derives by inputs; by {tensor.label}, ll.grad(loss, it) does",
                )
            first, *rest = [Tensor(self, id, tensor.type) for id in found]
            return sum(rest, first)

    # -- data --------------------------------------------------------------------------------------

    @override
    def feed(self, tensor: Lazy, data: object, *, copy: bool) -> None:
        what = "set" if copy else "borrow"
        if callable(data) and not hasattr(data, "__array__"):
            self.give(self._input(what, tensor), data)
        else:
            self.give(*self.fitted(what, tensor, data, copy=copy))

    def fitted(
        self, what: str, tensor: Lazy, data: object, *, copy: bool = False
    ) -> tuple[Node, Array]:
        """Return the record of an input, and data as an array that fits it."""
        node = self._input(what, tensor)
        array = fit(f"{what}: %{node.name}", data, node.type, self._dims, copy=copy)
        return node, array

    def give(self, node: Node, data: Array | Callable[[], object]) -> None:
        """Make an array, or what a function will return, the data of an input."""
        parameter = self._parameter(node.id)
        self._changed.add(node.id)
        if parameter is not None:
            parameter.set(data, copy=False)
            return
        self._data.pop(node.id, None)
        self._providers.pop(node.id, None)
        if callable(data):
            self._providers[node.id] = data
            return
        self._data[node.id] = data
        if self._is_new(solve_shape(node.shape, data.shape, {})):
            self._values = {}

    def _parameter(self, id: int) -> Parameter | None:
        return self._lent.get(id)

    def set_dim(self, name: str | Symbol, size: int) -> None:
        """Give a symbolic dim its size, where no input's data does."""
        with self.whole():
            name = str(name)
            if name not in self._dims:
                raise DimError(
                    f"set_dim: this graph has no dim {name!r}",
                    hint=nearest(name, self._dims) or "dims come with tensors, or dim(...)",
                )
            number = self.as_integer(size)
            if not isinstance(number, int):
                raise DimError(f"set_dim: {name!r} cannot be {number}", hint="give a whole number")
            check_bounds(self._dims[name], number)
            self._set_dims[name] = number

    def carry(self, new: Tensor, old: Tensor) -> Tensor:
        """Make an output the value of an input in the next run, without a copy.

        >>> cx = Graph()
        >>> count = cx.tensor((), name="count").set(0)
        >>> total = cx.carry(count + 1, count)
        >>> for _ in range(3):
        ...     cx.execute()
        >>> total.item()
        3.0
        """
        with self.whole():
            node = self._input("carry", old)
            if self._own("carry", new).type != node.type:
                raise GraphError(
                    f"carry: {new.label} is {new.type}, but the input {old.label} is {node.type}",
                    hint="both must have one type; what grows is an input of its full size, "
                    "whose rows are set with update(rows, at)",
                )
            for one, other in self._carries.items():
                if (one == new.id) != (other == old.id):
                    raise GraphError(
                        f"carry: %{self.node(one).name} goes to the input "
                        f"%{self.node(other).name} already",
                        hint=f"an output goes to one input; drop() %{self.node(one).name} first",
                    )
            self._carries[new.id] = old.id
            self.hold(new, output=True)
            return new

    def transfer(self, source: Tree, target: Tree) -> None:
        """Move values to inputs, of this graph or another, without copying them."""
        with self.whole():
            moves = [
                (one, other, *_moved("transfer", one, other))
                for one, other in leaves("transfer", source, target)
            ]
            for k, (_, taking, *_) in enumerate(moves):
                if any(taking.node is other.node for _, other, *_ in moves[:k]):
                    raise GraphError(
                        f"transfer: {taking.label} is to take two values", hint="name it once"
                    )
            for given, *_ in moves:
                _session(given).forget(given.id)
            for _, taking, node, value in moves:
                _session(taking).give(node, value)

    def swap(self, a: Tree, b: Tree) -> None:
        """Exchange the data of inputs."""
        with self.whole():
            moves = [
                (to, *_moved("swap", of, to))
                for x, y in leaves("swap", a, b)
                for of, to in ((x, y), (y, x))
            ]
            for taking, node, value in moves:
                _session(taking).give(node, value)

    @override
    def owned(self, tensor: Lazy) -> Array:
        missing, id = self.missing(tensor), tensor.id
        if id in self._values:
            return self._values[id]
        if missing is None or id in self._providers or self._parameter(id) is not None:
            return self._input_value(self.node(id))
        raise NotComputedError(f"read: {tensor.label} is {missing[0]}", hint=missing[1])

    @override
    def missing(self, tensor: Lazy) -> tuple[str, str] | None:
        self._values = self._known(self._changed, self._set_dims)
        self._changed = set()
        id = tensor.id
        parameter = self._parameter(id)
        if id in self._values or id in self._data or (parameter and parameter.is_loaded):
            return None
        if id in self._providers or parameter:
            return "an input whose value comes when it is first needed", "numpy() needs it"
        if isinstance(self.node(id).op, Input):
            return "an input without data", "give it data with set(...)"
        if id not in self._outputs:
            hint = "call retrieve() on it, and then run cx.execute()"
            return "not computed yet: it was not retrieved", hint
        return "not computed yet" + " for the present inputs" * (self.step > 0), "run cx.execute()"

    @override
    def forget(self, id: int) -> None:
        self._values.pop(id, None)
        if id in self._data or id in self._providers:
            self._changed.add(id)
        self._data.pop(id, None)
        self._providers.pop(id, None)

    def delete_inputs(self, *tensors: Tensor) -> None:
        """Turn computed values into inputs, so that what they were computed from can go."""
        with self.whole():
            values = {self._own("delete_inputs", t).id: self.owned(t) for t in tensors}
            behind = self.ir.ancestors(values) - values.keys()
            for id, value in values.items():
                node = self.node(id)
                if not isinstance(node.op, Input):
                    self.put(node._replace(op=Input(node.dtype, node.shape), sources=()))
                    self._data[id] = value
            gone = self._unused(behind)
            self.supersede(gone)
            for id in gone:
                self.forget(id)
            self._changed -= gone

    # -- what is wanted ----------------------------------------------------------------------------

    @override
    def hold(self, tensor: Lazy, *, output: bool) -> None:
        id = self._own("retrieve" if output else "keep", tensor).id
        if output:
            self._outputs.setdefault(id, set()).add(self._cell)
        else:
            self._kept.add(id)

    @override
    def release(self, tensor: Lazy) -> None:
        self.unask(tensor.id)
        self.forget(tensor.id)

    def retrieve(self, tree: Tree) -> None:
        """Call `retrieve` on every tensor in nested lists, tuples and dicts."""
        self._each("retrieve", Tensor.retrieve, tree)

    def keep(self, tree: Tree) -> None:
        """Call `keep` on every tensor in nested lists, tuples and dicts."""
        self._each("keep", Tensor.keep, tree)

    def drop(self, tree: Tree) -> None:
        """Call `drop` on every tensor in nested lists, tuples and dicts."""
        self._each("drop", Tensor.drop, tree)

    def _each(self, what: str, call: Callable[[Tensor], object], tree: Tree) -> None:
        with self.whole():
            tensors = [tensor for (tensor,) in leaves(what, tree)]
            for tensor in tensors:
                self._own(what, tensor)
            for tensor in tensors:
                call(tensor)

    def reset(self) -> None:
        """Forget all data and all values; what was written stays."""
        for place in (self._data, self._providers, self._values, self._set_dims, self._bound):
            place.clear()

    @override
    def probe(self, tensor: Lazy, call: Probe) -> None:
        id = self._own("probe", tensor).id
        self._probes.setdefault(id, []).append((self._cell, call))
        self._unseen.add(id)

    # -- compiling ---------------------------------------------------------------------------------

    def compile(
        self,
        *passes: PassLike,
        check: Literal["values"] | None = None,
        licence: Iterable[str] | None = None,
    ) -> Compilation:
        """Run passes on what was written; later runs take the graph that comes out.

        Without passes it is the generic compiler. `check="values"` compares values before and
        after each pass; `licence` names the facts that rules may assume. No data is needed.

        >>> cx = Graph()
        >>> x = cx.tensor((2,), name="x")
        >>> y = (x * 1 + 0).retrieve()
        >>> print(cx.compile("simplify, dce").ir)
        graph main(%x: f32[2]) -> (%x) {
        }
        """
        from luminal_lab.passes import compile as manager  # noqa: PLC0415  # loaded when used

        with self.whole():
            if self.running:
                raise GraphError(
                    f"compile: the graph {self.name!r} is running", hint="compile it before"
                )
            written = self._asked("compile")
            compilation = manager.compile_ir(
                written,
                *(passes or (manager.GenericCompiler(),)),
                check=check,
                licence=manager.LICENCE if licence is None else licence,
                given=manager.Given(self._data, self._set_dims | self._bound, self._functions),
            )
        self._compilation = compilation
        self._compiling = lambda: self.compile(*passes, check=check, licence=licence)
        return compilation

    def _asked(self, what: str) -> IR:
        """Return what was written, with all that a run may be asked for as an output."""
        asked = dict.fromkeys([*self._outputs, *self._probes, *self._kept])
        if not asked:
            raise GraphError(
                f"{what}: nothing is retrieved, so that there is nothing to compute",
                hint="call retrieve() on the tensors whose values you want",
            )
        return self.snapshot(tuple(asked), tuple(self._carries.items()))

    def _newest(self) -> Compilation | None:
        """Return the compilation of what is written now; what is old is compiled again."""
        if self._compilation is None or self._compiling is None:
            return None
        if not self._outputs and not self._probes:
            return None  # running it says what is missing
        then, now = self._compilation.written, self._asked("execute")
        if then.signature != now.signature or not then.table.shares_all(now.table):
            warnings.warn(
                f"execute: the graph {self.name!r} has changed since it was compiled, and is "
                "compiled again",
                LabWarning,
                stacklevel=3,
            )
            return self._compiling()
        return self._compilation

    @property
    def compilation(self) -> Compilation:
        """The result of the last compile; before the first, that of no passes."""
        from luminal_lab.passes import compile as manager  # noqa: PLC0415  # loaded when used

        return self._compilation or manager.compile_ir(self.ir)

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """The graph as written, and as each pass of the last compile left it."""
        return self.compilation.snapshots

    def trace(self, what: Tensor | NodeLike) -> Trace:
        """Follow a tensor, a node, or a line such as "cell 3, line 7" through all snapshots."""
        with self.whole():
            if isinstance(what, Lazy):
                what = self._own("trace", what).id
            return self.compilation.trace(what)

    # -- running -----------------------------------------------------------------------------------

    def execute(self, *, keep_all: bool = False, trace: bool = False) -> Run | None:
        """Compute what is retrieved and not computed yet.

        With `keep_all` every value on the way is kept and can be read; with `trace` the time and
        the bytes of each node are returned.
        """
        if self.running:
            raise GraphError(
                f"execute: the graph {self.name!r} is running already",
                where=str(here() or "") or None,
                hint="what a run calls, and other threads, use graphs of their own",
            )
        compilation = self._newest()
        self.running = True
        try:
            with self.whole(), stoppable(lambda: None):
                return self._execute(compilation, keep_all, trace)
        finally:
            self.running = False

    def _execute(self, compilation: Compilation | None, keep_all: bool, trace: bool) -> Run | None:
        ir = self.ir
        asked = self._outputs.keys() | self._probes.keys()
        if not asked:
            raise GraphError(
                "execute: nothing is retrieved, so that there is nothing to compute",
                hint="call retrieve() on the tensors whose values you want",
            )
        needed = ir.ancestors(asked)
        dims = self._bind(ir, needed)
        versions = {parameter: parameter.version for parameter in self._parameters}
        changed = {p for p, version in versions.items() if self._versions.get(p) != version}
        news = {self._parameters[parameter] for parameter in changed}
        news |= {node.id for node in ir if _is_random(node.op)}
        known = self._known(self._changed | self._carried | news, dims)
        steps: list[Step] | None = [] if trace else None
        values = _interpret(
            ir if compilation is None else compilation,
            Environment(self._input_value, dims, self.step, self._functions, self._calls()),
            wanted={id for id in needed if not ir[id].extra}
            if keep_all
            else asked | (needed & self._kept),
            known={id: value for id, value in known.items() if id not in self._unseen},
            trace=steps,
        )
        # Nothing fails from here on.
        kept = self._outputs.keys() | self._kept
        self._values = {id: v for id, v in known.items() if id in kept} | values
        self._bound |= dims
        self._versions = versions
        self._changed, self._carried, self._unseen = set(), set(), set()
        self.step += 1
        for new, old in self._carries.items():
            self.give(self.node(old), self._values[new])
        self._changed, self._carried = set(), self._changed
        return None if steps is None else Run(tuple(steps))

    def _calls(self) -> dict[int, list[Probe]]:
        return {id: [call for _, call in probes] for id, probes in self._probes.items()}

    def _known(self, changed: set[int], dims: Mapping[str, int]) -> dict[int, Array]:
        """Return the values that are those of the present inputs."""
        if self._is_new(dims):
            return {}
        if not changed or not self._values:
            return self._values
        ir = self.ir
        stale = ir.descendants(id for id in changed if id in ir)
        return {id: value for id, value in self._values.items() if id not in stale}

    def _is_new(self, dims: Mapping[str, int]) -> bool:
        return any(self._bound.get(name, size) != size for name, size in dims.items())

    def _bind(self, ir: IR, needed: set[int]) -> dict[str, int]:
        shapes: dict[Node, tuple[int, ...]] = {}
        others: dict[Node, tuple[int, ...]] = {}
        for node in ir.inputs:
            if self._parameter(node.id) is not None:
                continue
            if node.id not in needed:
                if node.id in self._data:
                    others[node] = self._data[node.id].shape
                continue
            if node.id in self._providers and node.type.is_symbolic:
                self._input_value(node)
            if node.id in self._data:
                shapes[node] = self._data[node.id].shape
            elif node.id not in self._providers:
                raise InputError(
                    f"execute: the input %{node.name} was never set; it is {node.type}",
                    where=str(node.meta.origin or ""),
                    hint="give it data with set(...), or drop() the outputs that need it",
                )
        return bind_dims(ir, needed, shapes, self._set_dims, others)

    def _input_value(self, node: Node) -> Array:
        parameter = self._parameter(node.id)
        if parameter is not None:
            return parameter.value
        if node.id not in self._data:
            made = self._providers[node.id]()
            self._data[node.id] = fit(f"set: %{node.name}", made, node.type, self._dims, copy=False)
        return self._data[node.id]

    # -- checks ------------------------------------------------------------------------------------

    def _own(self, what: str, tensor: Lazy) -> Lazy:
        if getattr(tensor, "graph", None) is not self:
            if not isinstance(tensor, Lazy):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
                raise GraphError(
                    f"{what}: {tensor!r} is not a tensor", hint="make one with tensor(...)"
                )
            raise GraphError(
                f"{what}: {tensor.label} belongs to the graph {tensor.graph.name!r}, and not to "
                f"this one, {self.name!r}",
                hint="use the graph that made it, or move its value with transfer",
            )
        self.revive([tensor.id])
        return tensor

    def _input(self, what: str, tensor: Lazy) -> Node:
        node = self.node(self._own(what, tensor).id)
        if not isinstance(node.op, Input):
            raise GraphError(
                f"{what}: {tensor.label} is the result of {node.op.name}, and not an input",
                hint="only what cx.tensor(...) made takes data",
            )
        return node

    # -- cells that run again ----------------------------------------------------------------------

    @override
    def unask(self, id: int) -> None:
        self._kept.discard(id)
        for place in (self._outputs, self._carries, self._probes, self._values):
            place.pop(id, None)

    def _begin(self, cell: str) -> None:
        """Close the cell that ran before, and supersede what this one made when it ran before."""
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
            one for one in self.derived if any(c.node not in self._gone for c in one.log)
        ]
        for id in self._past.pop(cell, set()) & self._gone.keys():
            self._data.pop(id, None)
            self._providers.pop(id, None)
        self._past[cell] = gone

    def _unused(self, ids: Iterable[int]) -> set[int]:
        """Return those of some nodes that nothing else reads, retrieves or is carried to."""
        ir = self.ir
        gone: set[int] = set()
        for id in sorted((id for id in ids if id in ir), reverse=True):
            users = {user.id for user in ir.users(id)}
            users |= {new for new, old in self._carries.items() if old == id}
            if users <= gone and id not in self._outputs:
                gone.add(id)
        return gone


def _interpret(
    what: IR | Compilation,
    environment: Environment,
    *,
    wanted: set[int],
    known: Mapping[int, Array],
    trace: list[Step] | None,
) -> dict[int, Array]:
    """Return the values of nodes as written, by what a compile made of them if there was one."""
    if isinstance(what, IR):
        return interpret(what, environment, wanted=wanted, known=known, trace=trace)
    ir = what.ir
    # What a pass has kept means what it meant.
    into = {id: id for id in wanted if what.written[id] in ir}
    into |= zip(what.written.output_ids, ir.output_ids, strict=True)
    probes: dict[int, list[Probe]] = {}
    for id, calls in environment.probes.items():
        probes.setdefault(into[id], []).extend(calls)
    values = interpret(
        ir,
        environment._replace(probes=probes),
        wanted={into[id] for id in wanted if id in into},
        known={into[id]: value for id, value in known.items() if id in into},
        trace=trace,
    )
    return {id: values[into[id]] for id in wanted if id in into}


def _moved(what: str, source: Lazy, target: Lazy) -> tuple[Node, Array]:
    """Return the input that a value moves to, and the value as it fits there."""
    return _session(target).fitted(what, target, _session(source).owned(source))


def _session(tensor: Lazy) -> Graph:
    assert isinstance(tensor.graph, Graph)
    return tensor.graph


def _is_random(op: Op) -> bool:
    body = op.body_of()
    return isinstance(op, Random) or (body is not None and any(_is_random(n.op) for n in body))
