"""The session, `cx = ll.Graph()`: what was written, the data of its inputs, and its results."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
from typing_extensions import override

from luminal_lab.core.binding import bind_data, bind_dims
from luminal_lab.core.builder import ShapeLike
from luminal_lab.core.dims import check_bounds
from luminal_lab.core.dtypes import Array, DTypeLike, as_dtype
from luminal_lab.core.interpret import Environment, Step, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.ops import HostCall, Input, Random
from luminal_lab.core.origin import running_shell
from luminal_lab.core.parameter import Parameter
from luminal_lab.core.printer import unique
from luminal_lab.core.sources import Sources
from luminal_lab.core.tensor import Tensor
from luminal_lab.core.tensor.base import Lazy
from luminal_lab.errors import DimError, GraphError, InputError, NotComputedError, nearest

Tree: TypeAlias = "Tensor | Iterable[Tree] | Mapping[str, Tree]"


class Run(NamedTuple):
    """What a traced run took, node by node."""

    steps: tuple[Step, ...]

    @property
    def seconds(self) -> float:
        """The time of all steps together."""
        return sum(step.seconds for step in self.steps)

    @override
    def __str__(self) -> str:
        rows = [f"{'ms':>9}  {'bytes':>12}  node"]
        rows += [
            f"{step.seconds * 1e3:9.3f}  {step.bytes:12,}  {step.node} = {step.node.op.name} : "
            f"{step.node.type}"
            for step in self.steps
        ]
        return "\n".join(rows)


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
        super().__init__(name, seed)
        self.step = 0
        """The count of runs, which random numbers depend on."""
        self._data: dict[int, Array] = {}
        self._providers: dict[int, Callable[[], object]] = {}
        self._versions: dict[Parameter, int] = {}
        self._values: dict[int, Array] = {}
        self._outputs: dict[int, str | None] = {}  # with the cell that asked for each
        self._kept: set[int] = set()
        self._carries: dict[int, int] = {}
        self._functions: dict[str, Callable[..., object]] = {}
        self._probes: dict[int, list[Callable[[Array], None]]] = {}
        self._set_dims: dict[str, int] = {}
        self._bound: dict[str, int] = {}
        self._changed: set[int] = set()  # inputs that are newer than the values
        self._carried: set[int] = set()  # the same, but from the next run on
        self._cells = _Cells(self)

    # -- the graph ---------------------------------------------------------------------------------

    @property
    def ir(self) -> IR:
        """What was written, as a value."""
        carries = tuple((new, old) for new, old in self._carries.items())
        return self.snapshot(tuple(self._outputs), carries)

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
            node = self.ir[name]
            return Tensor(self, node.id, node.type)

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters that the graph borrows, by the names of their inputs."""
        return {self.node(id).name: parameter for parameter, id in self._parameters.items()}

    def downstream(self, *tensors: Tensor) -> list[Tensor]:
        """Return all tensors that are computed from the given ones, without them."""
        with self.whole():
            ir = self.ir
            given = {self._own(tensor).id for tensor in tensors}
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
            wanted = name or getattr(call, "__name__", "function").strip("<>")
            key = unique(wanted, {n for n, f in self._functions.items() if f is not call})
            type = self.type_of(shape, dtype)
            sources = tuple(self._own(tensor).id for tensor in tensors)
            id = self.append(HostCall(key, type.dtype, type.shape), sources, type)
            self._functions[key] = call
            return Tensor(self, id, type)

    # -- data --------------------------------------------------------------------------------------

    @override
    def feed(self, tensor: Lazy, data: object, *, copy: bool) -> None:
        node = self._input(tensor, "set" if copy else "borrow")
        parameter = next((p for p, id in self._parameters.items() if id == node.id), None)
        if callable(data) and not hasattr(data, "__array__"):
            self._data.pop(node.id, None)
            self._providers[node.id] = data
        else:
            array = bind_data(node, data, self._dims)
            if copy or array.dtype != node.dtype.numpy:
                array = np.array(array, dtype=node.dtype.numpy)
            if parameter is not None:
                parameter.set(array)
            self._data[node.id] = array
            self._providers.pop(node.id, None)
        self._changed.add(node.id)

    def set_dim(self, name: str, size: int) -> None:
        """Give a symbolic dim its size, where no input's data does."""
        with self.whole():
            if name not in self._dims:
                raise DimError(
                    f"set_dim: this graph has no dim {name!r}",
                    hint=nearest(name, self._dims) or "dims come with tensors, or with dim(...)",
                )
            check_bounds(self._dims[name], size)
            self._set_dims[name] = size

    def carry(self, new: Tensor, old: Tensor) -> Tensor:
        """Make an output the value of an input in the next run, without a copy."""
        with self.whole():
            node = self._input(old, "carry")
            if self._own(new).type != node.type:
                raise GraphError(
                    f"carry: {new.label} is {new.type}, but the input {old.label} is {node.type}",
                    hint="both must have one shape and dtype; cast or reshape the new value",
                )
            taken = [k for k, into in self._carries.items() if into == old.id and k != new.id]
            if taken:
                raise GraphError(
                    f"carry: the input {old.label} takes %{self.node(taken[0]).name} already",
                    hint="an input can take one value",
                )
            self._carries[new.id] = old.id
            self.hold(new, output=True)
            return new

    def transfer(self, source: Tree, target: Tree) -> None:
        """Move values to inputs, of this graph or another, without copying them."""
        with self.whole():
            for given, taking in pairs(source, target):
                graph = _session(given)
                value = graph.owned(given)
                _session(taking).feed(taking, value, copy=False)
                graph.forget(given)

    def swap(self, a: Tree, b: Tree) -> None:
        """Exchange the data of inputs."""
        with self.whole():
            for one, two in pairs(a, b):
                values = _session(one).owned(one), _session(two).owned(two)
                _session(one).feed(one, values[1], copy=False)
                _session(two).feed(two, values[0], copy=False)

    def owned(self, tensor: Lazy) -> Array:
        """Return the array that the session holds for a tensor, itself and not a copy."""
        self._drop_stale()
        for place in (self._values, self._data):
            if tensor.id in place:
                return place[tensor.id]
        raise self._not_computed(tensor)

    def forget(self, tensor: Lazy) -> None:
        """Forget the value or the data of a tensor."""
        self._values.pop(tensor.id, None)
        self._providers.pop(tensor.id, None)
        if self._data.pop(tensor.id, None) is not None:
            self._changed.add(tensor.id)

    def delete_inputs(self, *tensors: Tensor) -> None:
        """Turn computed values into inputs, so that what they were computed from can go."""
        with self.whole():
            values = [self.owned(self._own(tensor)) for tensor in tensors]
            for tensor, value in zip(tensors, values, strict=True):
                node = self.node(tensor.id)
                if isinstance(node.op, Input):
                    continue
                op = Input(node.dtype, node.shape)
                self.put(node._replace(op=op, sources=()))
                self._data[node.id] = value
            ir = self.ir
            needed = ir.ancestors(self._outputs)
            for id in set(self._data) - needed - {tensor.id for tensor in tensors}:
                if not ir.users(id):
                    self._data.pop(id)

    # -- what is wanted ----------------------------------------------------------------------------

    @override
    def hold(self, tensor: Lazy, *, output: bool) -> None:
        self._own(tensor)
        if output:
            self._outputs.setdefault(tensor.id, self._cells.now)
        else:
            self._kept.add(tensor.id)

    @override
    def release(self, tensor: Lazy) -> None:
        self._own(tensor)
        self._outputs.pop(tensor.id, None)
        self._carries.pop(tensor.id, None)
        self._kept.discard(tensor.id)
        self.forget(tensor)

    def retrieve(self, tree: Tree) -> None:
        """Call `retrieve` on every tensor in nested lists, tuples and dicts."""
        for tensor in leaves(tree):
            tensor.retrieve()

    def keep(self, tree: Tree) -> None:
        """Call `keep` on every tensor in nested lists, tuples and dicts."""
        for tensor in leaves(tree):
            tensor.keep()

    def drop(self, tree: Tree) -> None:
        """Call `drop` on every tensor in nested lists, tuples and dicts."""
        for tensor in leaves(tree):
            tensor.drop()

    def reset(self) -> None:
        """Forget all data and all values; what was written stays."""
        for place in (self._data, self._providers, self._values, self._set_dims, self._bound):
            place.clear()
        self._changed.clear()
        self._carried.clear()

    @override
    def probe(self, tensor: Lazy, call: Callable[[Array], None]) -> None:
        self._own(tensor)
        self._probes.setdefault(tensor.id, []).append(call)

    # -- running -----------------------------------------------------------------------------------

    def execute(self, *, keep_all: bool = False, trace: bool = False) -> Run | None:
        """Compute what is retrieved and not computed yet.

        With `keep_all` every value on the way is kept and can be read; with `trace` the time and
        the bytes of each node are returned.
        """
        with self.whole():
            ir = self.ir
            if not self._outputs and not self._probes:
                raise GraphError(
                    "execute: nothing is retrieved, so that there is nothing to compute",
                    hint="call retrieve() on the tensors whose values you want",
                )
            self._note_changes()
            wanted = [*self._outputs, *self._probes]
            needed = ir.ancestors(wanted)
            wanted += needed if keep_all else needed & self._kept
            self._drop_stale(ir)
            dims = self._bind(ir, needed)
            if dims != self._bound:
                self._values.clear()
            steps: list[Step] | None = [] if trace else None
            functions: dict[str, Callable[..., Array]] = dict(self._functions)  # pyright: ignore[reportAssignmentType]  # their results are checked when they are made
            environment = Environment(self._input_value, dims, self.step, functions, self._probes)
            values = interpret(ir, environment, wanted=wanted, known=self._values, trace=steps)
            self._values = {id: self._separate(id, value) for id, value in values.items()}
            self._bound = dims
            self.step += 1
            self._hand_over()
            return None if steps is None else Run(tuple(steps))

    def _note_changes(self) -> None:
        """Find which inputs are new in this run: set ones, carried ones, parameters, random."""
        for parameter, id in self._parameters.items():
            if self._versions.get(parameter) != parameter.version:
                self._versions[parameter] = parameter.version
                self._changed.add(id)
        self._changed |= self._carried
        self._carried = set()
        self._changed |= {id for id in self.randoms if isinstance(self.node(id).op, Random)}

    def _drop_stale(self, ir: IR | None = None) -> None:
        if self._changed and self._values:
            stale = (ir or self.ir).descendants(self._changed)
            self._values = {id: v for id, v in self._values.items() if id not in stale}
        self._changed = set()

    def _bind(self, ir: IR, needed: set[int]) -> dict[str, int]:
        shapes: dict[Node, tuple[int, ...]] = {}
        borrowed = set(self._parameters.values())
        for node in ir.inputs:
            if node.id not in needed:
                continue
            if node.id in self._providers and node.type.is_symbolic:
                self._load(node)
            if node.id in self._data:
                shapes[node] = self._data[node.id].shape
            elif node.id not in self._providers and node.id not in borrowed:
                raise InputError(
                    f"execute: the input %{node.name} {_shape(node)} was never set",
                    where=str(node.meta.origin or ""),
                    hint=f"give it data with set(...) before execute(); its dtype is {node.dtype}",
                )
        return bind_dims(ir, needed, shapes, self._set_dims)

    def _input_value(self, node: Node) -> Array:
        for parameter, id in self._parameters.items():
            if id == node.id:
                return parameter.value
        if node.id not in self._data:
            self._load(node)
        return self._data[node.id]

    def _load(self, node: Node) -> None:
        array = bind_data(node, self._providers[node.id](), self._dims)
        self._data[node.id] = np.asarray(array, dtype=node.dtype.numpy)

    def _separate(self, id: int, value: Array) -> Array:
        """Return a value that shares no memory with inputs or other values."""
        known = self._values.get(id)
        if known is value:
            return value
        mine = value.base is None and value.flags.writeable
        return value if mine and not isinstance(self.node(id).op, Input) else value.copy()

    def _hand_over(self) -> None:
        by_id = {id: parameter for parameter, id in self._parameters.items()}
        for new, old in self._carries.items():
            value = self._values[new]
            if old in by_id:
                by_id[old].set(value)
            else:
                self._data[old] = value
                self._providers.pop(old, None)
            self._carried.add(old)

    # -- reading -----------------------------------------------------------------------------------

    @override
    def read(self, tensor: Lazy) -> Array:
        return self.owned(tensor).copy()

    @override
    def is_output(self, tensor: Lazy) -> bool:
        return tensor.id in self._outputs

    @override
    def is_computed(self, tensor: Lazy) -> bool:
        self._drop_stale()
        return tensor.id in self._values or tensor.id in self._data

    def _not_computed(self, tensor: Lazy) -> NotComputedError:
        what, hint = "was not retrieved", "call retrieve() on it, and then run cx.execute()"
        if isinstance(self.node(tensor.id).op, Input):
            what, hint = "is an input without data", "give it data with set(...)"
        elif tensor.id in self._outputs:
            what, hint = "is not computed yet", "run cx.execute()"
            if self.step:
                what = "is not computed for the present inputs"
        return NotComputedError(f"read: {tensor.label} {what}, so that it has no value", hint=hint)

    # -- checks ------------------------------------------------------------------------------------

    def _own(self, tensor: Lazy) -> Lazy:
        if tensor.graph is not self:
            raise GraphError(
                f"{tensor.label} belongs to the graph {tensor.graph.name!r}, and not to this one, "
                f"{self.name!r}",
                hint="use the graph that made it, or move its value with transfer",
            )
        return tensor

    def _input(self, tensor: Lazy, what: str) -> Node:
        node = self.node(self._own(tensor).id)
        if not isinstance(node.op, Input):
            raise GraphError(
                f"{what}: {tensor.label} is the result of {node.op.name}, and not an input",
                hint="only what cx.tensor(...) made takes data",
            )
        return node

    @override
    def superseded(self, id: int) -> None:
        self._outputs.pop(id, None)
        self._kept.discard(id)
        self._values.pop(id, None)
        self._carries.pop(id, None)
        self._probes.pop(id, None)

    def is_used(self, id: int, cell: str) -> bool:
        """Return whether another cell than this one asked for a node's value."""
        return id in self._outputs and self._outputs[id] != cell


class _Cells:
    """Which notebook cell made which nodes, so that running one again supersedes its nodes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.now: str | None = None
        self.start = 0
        self.made: dict[str, list[range]] = {}
        shell = running_shell()
        if shell is not None:
            self.shell = shell
            self.now = shell.cell_key()
            shell.before_each_cell(self.begin)

    def begin(self) -> None:
        """Close the cell that ran before, and supersede what this one made when it ran before."""
        graph = self.graph
        if self.now is not None and graph.next_id > self.start:
            self.made.setdefault(self.now, []).append(range(self.start, graph.next_id))
        self.now, self.start = self.shell.cell_key(), graph.next_id
        ids = [id for ids in self.made.pop(self.now, []) for id in ids]
        ir = graph.ir
        gone: set[int] = set()
        for id in reversed([id for id in ids if id in ir]):
            users = {user.id for user in ir.users(id)}
            if users <= gone and not graph.is_used(id, self.now):
                gone.add(id)
        graph.supersede(gone)


def leaves(tree: Tree) -> Iterator[Tensor]:
    """Yield the tensors in nested lists, tuples and dicts, in order."""
    if isinstance(tree, Tensor):
        yield tree
    else:
        for branch in tree.values() if isinstance(tree, Mapping) else tree:
            yield from leaves(branch)


def pairs(a: Tree, b: Tree) -> list[tuple[Tensor, Tensor]]:
    """Return the tensors of two trees in pairs."""
    ones, others = list(leaves(a)), list(leaves(b))
    if len(ones) != len(others):
        raise GraphError(
            f"transfer: there are {len(ones)} tensors on one side and {len(others)} on the other",
            hint="give both sides the same structure",
        )
    return list(zip(ones, others, strict=True))


def _session(tensor: Lazy) -> Graph:
    assert isinstance(tensor.graph, Graph)
    return tensor.graph


def _shape(node: Node) -> str:
    return str(node.type)
