"""The state of a session: the data of its inputs, its runs, and their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import ClassVar, cast

from typing_extensions import TypeIs, override

from luminal_lab.core.binding import fit, solve_shape
from luminal_lab.core.dims import Symbol, check_bounds
from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, NodeStep, Probe, interpret, stoppable
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.ops import Input
from luminal_lab.core.origin import here
from luminal_lab.errors import (
    DeviceError,
    DimError,
    GraphError,
    InputError,
    Interrupted,
    LabError,
    NotComputedError,
    flag,
    nearest,
    whole_number,
)
from luminal_lab.interrupts import held, opened, this_process
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import is_function, told_methods
from luminal_lab.tensor.lazy import Lazy
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.tensor.reach import MOST, Reach
from luminal_lab.tensor.running import Prepared, Program, Request, Run, Turn
from luminal_lab.tensor.sizes import bind_dims
from luminal_lab.tensor.sources import Sources
from luminal_lab.tensor.trees import Tree, leaves
from luminal_lab.tensor.versions import Later, Versions, there


@partial(told_methods, on="cx.", of_arguments=False)
class Store(Sources):
    """A graph with the data of its inputs and the results of its runs."""

    underived: ClassVar[str] = "this graph keeps no gradients; ll.grad(loss, wrt) returns them"
    """Why `backward` and `grad` are refused, unless a session derives."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(name, seed)
        self.backwards = {}
        self.derived = []
        self.step = 0
        """The count of runs; random numbers depend on it."""
        self._data: dict[int, Array] = {}
        self._providers: dict[int, Callable[[], object]] = {}
        self._versions: dict[int, int] = {}  # of parameters, by the inputs that they are
        self._known_at: tuple[int, int] | None = None  # the count of changes when they were noted
        self._given = Versions()  # how often each input got data, and those versions
        self._given.providers = self._providers
        self._values: dict[int, Array | Later] = {}
        # Requests, each with the notebook cells that made it.
        self._outputs: dict[int, set[str | None]] = {}
        self._probes: dict[int, list[tuple[str | None, Probe]]] = {}
        self._cell: str | None = None
        self._kept: set[int] = set()
        self._unseen: set[int] = set()  # values that a probe or a new compile has not seen yet
        self._carries: dict[int, int] = {}
        self._functions: dict[str, Callable[..., object]] = {}
        self._set_dims: dict[str, int] = {}
        self._bound: dict[str, int] = {}
        self._changed: set[int] = set()  # inputs newer than the values
        self._carried: set[int] = set()  # the same, but from the next run on
        self._reach: Reach | None = None
        self._request: Request | None = None
        self._prepared: Prepared | None = None
        self._turns: dict[int, object] = {}  # the process whose run is under way

    @property
    @override
    def ir(self) -> IR:
        """The graph as written, as a value.

        >>> y = cx.tensor((2,), name="x").exp2().retrieve()
        >>> print(cx.ir)
        graph main(%x: f32[2]) -> (%1) {
          %1 = exp2 %x : f32[2]
        }
        """
        self.within()  # without the call that was broken off
        return self.snapshot(tuple(self._outputs), tuple(self._carries.items()))

    def program(self) -> Program | None:
        """Return the compiled graph to run instead of the graph as written, if any."""
        return None

    @override
    def backward(self, loss: Lazy, checkpoint: Sequence[str]) -> None:
        raise GraphError(f"backward: {self.underived}")

    @override
    def slope(self, tensor: Lazy) -> Lazy:
        raise GraphError(f"grad: {self.underived}")

    @override
    def page(self, name: str) -> Store:
        return Store(name, 0)

    # -- data --------------------------------------------------------------------------------------

    @override
    def feed(self, tensor: Lazy, data: object, *, copy: bool) -> None:
        if self._fits_again(data, tensor.id):
            try:
                array = data.copy() if copy else data
            except MemoryError:
                pass  # of which the other way says more
            else:
                # However far Ctrl-C lets this come, the next run sees all that was given.
                self._changed.add(tensor.id)
                self._given[tensor.id] = self._given.get(tensor.id, 0) + 1
                self._data[tensor.id] = array
                return
        what = "set" if copy else "borrow"
        if is_function(data) and not hasattr(data, "__array__"):
            self.give(self._input(what, tensor), data)
        else:
            self.give(*self.fitted(what, tensor, data, copy=copy))

    def _fits_again(self, data: object, id: int) -> TypeIs[Array]:
        """Return whether data is an array like the one that an input has."""
        old = self._data.get(id)
        if old is None or data.__class__ is not old.__class__:
            return False
        array = cast("Array", data)
        is_alike = array.shape == old.shape and array.dtype == old.dtype
        return is_alike and id not in self._gone and id not in self._providers

    def fitted(
        self, what: str, tensor: Lazy, data: object, *, copy: bool = False
    ) -> tuple[Node, Array]:
        """Return the record of an input, and data as an array that fits it."""
        node = self._input(what, tensor)
        type, old = node.type, self._data.get(node.id)
        if old is not None and getattr(data, "shape", None) == old.shape:
            type = type.with_shape(old.shape)  # whose sizes have fitted before
        return node, fit(f"{what}: %{node.name}", data, type, self._dims, copy=copy)

    def give(self, node: Node, data: Array | Callable[[], object]) -> None:
        """Set the data of an input to an array, or to a function's later result."""
        with held():
            self._give(node, data)

    def _give(self, node: Node, data: Array | Callable[[], object]) -> None:
        """Set the data of an input, where Ctrl-C is held off already."""
        id, parameter = node.id, self._lent.get(node.id)
        self._changed.add(id)
        if parameter is not None:
            parameter.set(data, copy=False)
            return
        self._given[id] = self._given.get(id, 0) + 1
        old = self._data.pop(id, None)
        self._providers.pop(id, None)
        if is_function(data):
            self._providers[id] = data
            return
        self._data[id] = data
        is_other = node.type.is_symbolic and (old is None or old.shape != data.shape)
        if is_other and self._is_new(solve_shape(node.shape, data.shape, {})):
            self._values = {}

    def _parameter(self, id: int) -> Parameter | None:
        return self._lent.get(id)

    def set_dim(self, name: str | Symbol, size: int | None) -> None:
        """Set the size of a symbolic dim that no input's data determines; None unsets it.

        >>> y = cx.arange("n").sum().retrieve()
        >>> cx.set_dim("n", 101)
        >>> cx.execute()
        >>> y.item()
        5050
        """
        with self.whole():
            name = str(name)
            if name not in self._dims:
                raise DimError(
                    f"set_dim: this graph has no dim {name!r}",
                    hint=nearest(name, self._dims) or "dims come with tensors, or dim(...)",
                )
            if size is None:
                self._set_dims.pop(name, None)
                return
            number = whole_number(size)
            if number is None:
                raise DimError(
                    f"set_dim: {name!r} cannot be {size!r}",
                    hint="give a whole number, or None to take back what was given",
                )
            check_bounds(self._dims[name], number)
            self._set_dims[name] = number

    def carry(self, new: Tensor, old: Tensor) -> Tensor:
        """Carry an output to an input for the next run, without a copy.

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
                    hint="both must have the same type; what grows is an input of its full size, "
                    "whose rows are set with update(rows, at)",
                )
            for source, target in self._carries.items():
                if (source == new.id) != (target == old.id):
                    raise GraphError(
                        f"carry: %{self.node(source).name} goes to the input "
                        f"%{self.node(target).name} already",
                        hint=f"an output goes to one input; drop() %{self.node(source).name} first",
                    )
            with held():
                self._carries[new.id] = old.id
                self.hold(new, output=True)
            return new

    def transfer(self, source: Tree, target: Tree) -> None:
        """Move values to inputs, of this graph or another, without copying them.

        >>> a, b = cx.tensor((2,), name="a").set([1, 2]), cx.tensor((2,))
        >>> cx.transfer(a, b)
        >>> b.tolist()
        [1.0, 2.0]
        >>> a
        %a: f32[2], an input without data; give it data with set(...)
        """
        with self.whole():
            moves = [
                (leaf, twin, *_moved("transfer", leaf, twin))
                for leaf, twin in leaves("transfer", source, target)
            ]
            for k, (_, taking, *_) in enumerate(moves):
                if any(taking.node is other.node for _, other, *_ in moves[:k]):
                    raise GraphError(
                        f"transfer: {taking.label} would take two values", hint="name it once"
                    )
            with held():
                for given, *_ in moves:
                    _session(given).forget(given.id)
                for _, taking, node, value in moves:
                    _session(taking).give(node, value)

    def swap(self, a: Tree, b: Tree) -> None:
        """Exchange the data of inputs.

        >>> a, b = cx.tensor((2,)).set([1, 2]), cx.tensor((2,)).set([3, 4])
        >>> cx.swap(a, b)
        >>> a.tolist(), b.tolist()
        ([3.0, 4.0], [1.0, 2.0])
        """
        with self.whole():
            moves = [
                (to, *_moved("swap", of, to))
                for x, y in leaves("swap", a, b)
                for of, to in ((x, y), (y, x))
            ]
            with held():
                for taking, node, value in moves:
                    _session(taking).give(node, value)

    @override
    def owned(self, tensor: Lazy) -> Array:
        missing, id = self.missing(tensor), tensor.id
        if id in self._values:
            value = self._values[id] = there(self._values[id])
            return value
        if missing is None or id in self._providers or self._parameter(id) is not None:
            return self._input_value(self.node(id))
        raise NotComputedError(f"read: {tensor.label} is {missing[0]}", hint=missing[1])

    @override
    def missing(self, tensor: Lazy) -> tuple[str, str] | None:
        known = self._known(self._reached(self.ir), self._changed, self._set_dims)
        with held():
            self._values, self._changed = known, set()
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
        with held():
            self._values.pop(id, None)
            if id in self._data or id in self._providers:
                self._changed.add(id)
            self._data.pop(id, None)
            self._providers.pop(id, None)

    def delete_inputs(self, *tensors: Tensor) -> None:
        """Turn computed values into inputs, so that their ancestors can be dropped.

        >>> y = (cx.arange(3) * 2).named("y").retrieve()
        >>> cx.execute()
        >>> cx.delete_inputs(y)
        >>> print(cx.ir)
        graph main(%y: i64[3]) -> (%y) {
        }
        """
        with self.whole():
            values = {self._own("delete_inputs", t).id: self.owned(t) for t in tensors}
            behind = self.ir.ancestors(values) - values.keys()
            with held():
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
        with held():
            self.unask(tensor.id)
            self.forget(tensor.id)

    def retrieve(self, tree: Tree) -> None:
        """Call `retrieve` on every tensor in nested lists, tuples and dicts.

        >>> x = cx.arange(3)
        >>> cx.retrieve({"sum": x.sum(), "parts": [x.max(), x.min()]})
        >>> len(cx.ir.outputs)
        3
        """
        self._each("retrieve", Tensor.retrieve, tree)

    def keep(self, tree: Tree) -> None:
        """Call `keep` on every tensor in nested lists, tuples and dicts.

        >>> parts = cx.arange(4).split(2)
        >>> cx.keep(parts)
        >>> y = (parts[0] * parts[1]).retrieve()
        >>> cx.execute()
        >>> [part.tolist() for part in parts]
        [[0, 1], [2, 3]]
        """
        self._each("keep", Tensor.keep, tree)

    def drop(self, tree: Tree) -> None:
        """Call `drop` on every tensor in nested lists, tuples and dicts.

        >>> x = cx.arange(3)
        >>> sums = [x.sum().retrieve(), x.max().retrieve()]
        >>> cx.drop(sums)
        >>> cx.ir.outputs
        ()
        """
        self._each("drop", Tensor.drop, tree)

    def _each(self, what: str, call: Callable[[Tensor], object], tree: Tree) -> None:
        with self.whole():
            tensors = [tensor for (tensor,) in leaves(what, tree)]
            for tensor in tensors:
                self._own(what, tensor)
            with held():
                for tensor in tensors:
                    call(tensor)

    def reset(self) -> None:
        """Forget all data and all values; the graph stays.

        >>> x = cx.tensor((2,), name="x").set([1, 2])
        >>> cx.reset()
        >>> x
        %x: f32[2], an input without data; give it data with set(...)
        """
        with held():
            for table in (self._data, self._providers, self._values, self._set_dims, self._bound):
                table.clear()

    @override
    def probe(self, tensor: Lazy, call: Probe) -> None:
        id = self._own("probe", tensor).id
        with held():
            self._probes.setdefault(id, []).append((self._cell, call))
            self._unseen.add(id)

    @override
    def unask(self, id: int) -> None:
        with held():
            self._kept.discard(id)
            for table in (self._outputs, self._carries, self._probes, self._values):
                table.pop(id, None)

    # -- running -----------------------------------------------------------------------------------

    def execute(self, *, keep_all: bool = False, trace: bool = False) -> Run | None:
        """Compute all retrieved values that are missing or outdated.

        With `keep_all` every intermediate value is kept and can be read; with `trace` the time and
        the bytes of each node are returned.

        >>> inner = cx.arange(4) * 2
        >>> y = inner.sum().retrieve()
        >>> cx.execute(keep_all=True)
        >>> inner.tolist(), y.item()
        ([0, 2, 4, 6], 12)
        """
        if keep_all is not False or trace is not False:
            flag("execute: keep_all", keep_all)
            flag("execute: trace", trace)
        prepared, step = self._prepared, self.step
        if prepared is None or keep_all or not self._is_still(prepared):
            if self.running:
                raise self.busy("execute")
            prepared = self._prepared = None
        program = self.program() if prepared is None else prepared.program
        turns, process, mine = self._turns, this_process(), object()
        # Nothing is written meanwhile, so there is nothing to take back.
        try:
            with held():
                # One atomic step, so that only one of two threads succeeds.
                if turns.setdefault(process, mine) is not mine:
                    raise self.busy("execute")
                try:
                    return self._execute(prepared or self._prepare(program, keep_all), trace)
                finally:
                    del turns[process]
        except KeyboardInterrupt:
            if self.step == step:
                with self.whole(), stoppable(lambda: None):
                    raise
            raise Interrupted(
                "execute: Ctrl-C came too late: the run is over, and its values are kept",
                where=str(here() or "") or None,
                hint="a run is not left half-done once it writes over what is carried",
            ) from None
        except LabError:
            with self.whole():
                raise
        except MemoryError as error:  # for caches about values
            raise DeviceError(
                f"execute: out of memory: {str(error) or 'Python had none left'}",
                where=str(here() or "") or None,
                hint="use smaller sizes, or keep and retrieve fewer values",
            ) from error

    @property
    @override
    def running(self) -> bool:
        # A forked process does not continue its parent's run.
        return this_process() in self._turns

    def turn(self, what: str) -> Turn:
        """Return a context that locks the graph for a run, or raises if a run is under way."""
        return Turn(self._turns, self.busy, what)

    def busy(self, what: str) -> GraphError:
        """Return the error for a run under way."""
        return GraphError(
            f"{what}: the graph {self.name!r} is running already",
            where=str(here() or "") or None,
            hint="functions that a run calls, and other threads, must use graphs of their own",
        )

    def _is_still(self, prepared: Prepared) -> bool:
        """Return whether the graph and the requests are what they were."""
        return (
            self._table.state == prepared.table
            and self.begun is None
            and not self._probes
            and self._outputs.keys() == prepared.outputs
            and self._kept == prepared.kept
            and self._carries == prepared.carries
            and self.is_current(prepared.program)
        )

    def is_current(self, program: Program | None) -> bool:
        """Return whether a program would be run again, if the graph has stayed what it was."""
        return program is None

    def _prepare(self, program: Program | None, keep_all: bool) -> Prepared:
        """Find what all runs have in common until something changes."""
        ir = self.ir
        reach = self._reached(ir)
        request = self._requested(ir, reach, program, keep_all)
        prepared = Prepared(
            program,
            ir,
            reach,
            request,
            frozenset(reach.own_inputs(self._lent).keys() & request.needed),
            self._table.state,
            self._outputs.keys() | (),
            self._kept.copy(),
            self._carries.copy(),
        )
        if prepared.table is not None and not keep_all and not self._probes:
            self._prepared = prepared
        return prepared

    def _execute(self, prepared: Prepared, trace: bool) -> Run | None:
        """Run the graph; Ctrl-C waits, except while values are computed, which changes no state."""
        program, ir, reach, request, own, *_ = prepared
        if not self._data.keys() >= own:
            self._provide(reach.own_inputs(self._lent).values(), request.needed)
        dims = self._bind(ir, request.needed) if ir.symbols else {}
        versions, known_at = self._versions, (Parameter.changes, len(self._lent))
        changed = self._changed | self._carried | reach.random
        if known_at != self._known_at:
            versions = {id: parameter.version for id, parameter in self._lent.items()}
            changed.update(id for id, _ in versions.items() - self._versions.items())
            self._given |= versions
        if self._lent:
            self._given.lent, self._given.steady = self._lent, known_at
        known = self._known(reach, changed, dims)
        steps: list[NodeStep] | None = [] if trace else None
        self._given.takes_later = not self._probes
        try:
            values: dict[int, Array | Later] = _interpret(
                ir if program is None else program,
                Environment(
                    self._input_value,
                    dims,
                    self.step,
                    self._functions,
                    self._calls() if self._probes else {},
                    self._given,
                ),
                request,
                {id: there(v) for id, v in known.items() if id not in self._unseen},
                steps,
            )
        finally:
            self._given.takes_later = False
        # From here on nothing can fail or be broken off.
        if known:
            values = {id: known[id] for id in known if id in request.held} | values
        self._values = values
        if dims:
            self._bound |= dims
        self._versions, self._known_at = versions, known_at
        self._changed.clear()
        self._unseen.clear()
        self.step += 1
        if self._carries:
            self._carry(ir, values)
        else:
            self._carried.clear()
        return None if steps is None else Run(tuple(steps))

    def _carry(self, ir: IR, values: Mapping[int, Array | Later]) -> None:
        """Give the carried values of a run to the inputs that they become."""
        lent, given, data = self._lent, self._given, self._data
        for new, old in self._carries.items():
            if old in lent:
                self._give(ir[old], values[new])
                continue
            # What is carried has the type of the input, and the sizes of this run.
            given[old] = given.get(old, 0) + 1
            value = values[new]
            if isinstance(value, Later):
                self._providers[old] = value
                data.pop(old, None)
            else:
                data[old] = value
                self._providers.pop(old, None)
        self._changed.clear()
        self._carried = {*self._carries.values()}

    def _requested(self, ir: IR, reach: Reach, program: Program | None, keep_all: bool) -> Request:
        """Return the current requests, cached until they change."""
        compiled, last = None if program is None else program.ir, self._request
        if (
            last is not None
            and last.ir is ir
            and last.compiled is compiled
            and last.keeps_all == keep_all
            and last.probed == self._probes.keys()
            and last.kept == frozenset(self._kept)
        ):
            return last
        asked = self._outputs.keys() | self._probes.keys()
        if not asked:
            raise GraphError(
                "execute: nothing is retrieved, so there is nothing to compute",
                hint="call retrieve() on the tensors whose values you want",
            )
        needed = reach.needed(asked)
        wanted = asked | (needed & self._kept)
        if keep_all:
            wanted = {id for id in needed if not ir[id].extra}
        into: dict[int, int] | None = None
        if program is not None:
            # Nodes that passes have kept keep their meaning.
            into = {id: id for id in wanted if program.written[id] in program.ir}
            into |= zip(program.written.output_ids, program.ir.output_ids, strict=True)
        targets = {id: into[id] for id in wanted if id in into} if into else None
        self._request = Request(
            ir,
            compiled,
            keep_all,
            frozenset(self._probes),
            frozenset(self._kept),
            needed,
            frozenset(wanted),
            self._outputs.keys() | self._kept,
            into,
            tuple(targets.items()) if targets else (),
            frozenset(wanted if targets is None else targets.values()),
        )
        return self._request

    def _calls(self) -> dict[int, list[Probe]]:
        return {id: [call for _, call in probes] for id, probes in self._probes.items()}

    def _known(
        self, reach: Reach, changed: set[int], dims: Mapping[str, int]
    ) -> dict[int, Array | Later]:
        """Return the values that are valid for the present inputs."""
        if (dims and self._is_new(dims)) or not self._values:
            return {}
        if not changed:
            return self._values
        stale = reach.stale(changed)
        if stale >= self._values.keys():
            return {}
        return {id: value for id, value in self._values.items() if id not in stale}

    def _reached(self, ir: IR) -> Reach:
        """Return the cached dependencies of the graph."""
        if self._reach is None or not self._reach.is_of(ir):
            self._reach = Reach(ir)
        return self._reach

    def _is_new(self, dims: Mapping[str, int]) -> bool:
        return any(self._bound.get(name, size) != size for name, size in dims.items())

    def _bind(self, ir: IR, needed: frozenset[int]) -> dict[str, int]:
        """Return the sizes of dims; what they follow from is there."""
        reach = self._reached(ir)
        there = [(node, self._data.get(node.id)) for node in reach.open_inputs(self._lent)]
        shapes = {node: array.shape for node, array in there if array is not None}
        given = tuple([(node.id, shape) for node, shape in shapes.items()])
        key = needed, given, tuple(self._set_dims.items())
        if key not in reach.sizes:
            if len(reach.sizes) >= MOST:
                reach.sizes.clear()
            mine = {node: shape for node, shape in shapes.items() if node.id in needed}
            others = {node: shape for node, shape in shapes.items() if node.id not in needed}
            mentioned = reach.mentions(needed)
            reach.sizes[key] = bind_dims(ir, needed, mine, self._set_dims, others, mentioned)
        return reach.sizes[key]

    def _provide(self, own: Iterable[Node], needed: frozenset[int]) -> None:
        """Have the data of inputs that sizes may depend on, or raise for one that has none."""
        for node in own:
            if node.id not in needed or node.id in self._data:
                continue
            if node.id not in self._providers:
                raise InputError(
                    f"execute: the input %{node.name} was never set; it is {node.type}",
                    where=str(node.meta.origin or ""),
                    hint="give it data with set(...), or drop() the outputs that need it",
                )
            if node.type.is_symbolic:
                self._input_value(node)

    def is_lent(self, id: int) -> bool:
        """Return whether an input is a parameter."""
        return id in self._lent

    def value_of(self, node: Node) -> Array | None:
        """Return the data of an input, from its provider if need be; None if there is none."""
        id = node.id
        is_there = id in self._lent or id in self._data or id in self._providers
        return self._input_value(node) if is_there else None

    @property
    def set_sizes(self) -> Mapping[str, int]:
        """The sizes of dims that were set by hand."""
        return self._set_dims

    @property
    def run_sizes(self) -> Mapping[str, int]:
        """The sizes of dims in the last run."""
        return self._bound

    def _input_value(self, node: Node) -> Array:
        value = self._data.get(node.id)  # which parameters do not have
        if value is not None:
            return value
        parameter = self._lent.get(node.id)
        if parameter is not None:
            return parameter.read_as(node.type)
        value = fit(
            f"set: %{node.name}",
            opened(self._providers[node.id]),
            node.type,
            self._dims,
            copy=False,
        )
        self._data[node.id] = value
        return value

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

    def _unused(self, ids: Iterable[int]) -> set[int]:
        """Return those of some nodes that are not read, retrieved or carried elsewhere."""
        ir = self.ir
        gone: set[int] = set()
        for id in sorted((id for id in ids if id in ir), reverse=True):
            users = {user.id for user in ir.users(id)}
            users |= {new for new, old in self._carries.items() if old == id}
            if users <= gone and id not in self._outputs:
                gone.add(id)
        return gone


def _interpret(
    what: IR | Program,
    environment: Environment,
    request: Request,
    known: Mapping[int, Array],
    trace: list[NodeStep] | None,
) -> dict[int, Array | Later]:
    """Return the values of nodes as written, through the compiled graph if there is one."""
    into = request.into
    if isinstance(what, IR) or into is None:
        assert isinstance(what, IR)
        wanted = request.wanted
        run = partial(interpret, what, environment, wanted=wanted, known=known, trace=trace)
        return {**opened(run)}
    if environment.probes:
        probes: dict[int, list[Probe]] = {}
        for id, calls in environment.probes.items():
            probes.setdefault(into[id], []).extend(calls)
        environment = environment._replace(probes=probes)
    if known:
        known = {into[id]: value for id, value in known.items() if id in into}
    values = what.values(environment, request.targets, known, trace)
    return {id: values[target] for id, target in request.pairs}


def _moved(what: str, source: Lazy, target: Lazy) -> tuple[Node, Array]:
    """Return the input that a value moves to, and the value in the input's type."""
    return _session(target).fitted(what, target, _session(source).owned(source))


def _session(tensor: Lazy) -> Store:
    assert isinstance(tensor.graph, Store)
    return tensor.graph
