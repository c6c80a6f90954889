"""A compiled graph as a function of arrays, for programs that call it again and again.

A session knows which of its values are old, and keeps those that are not. A function keeps nothing:
arrays go in by name or in order, and new ones come out. Its weights are the session's parameters,
and inputs that are not its arguments have the data that the session has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from typing_extensions import override

from luminal_lab.core.binding import fit
from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment
from luminal_lab.core.ir import Node
from luminal_lab.devices.cpu.call import CPUCall
from luminal_lab.devices.cpu.program import CPUProgram
from luminal_lab.devices.runtime.blocks import address_of
from luminal_lab.errors import ArgumentError, DeviceError, InputError, nearest
from luminal_lab.tensor.arguments import told_methods
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.tensor.sizes import bind_dims

if TYPE_CHECKING:
    from luminal_lab.passes.compilation import Compilation
    from luminal_lab.session_compile import CompiledStore

ARRAYS = frozenset({np.ndarray})
MOST_SIZES = 64
"""For how many shapes of its arguments a function stays ready."""


@told_methods
class CompiledFunction:
    """The last compile of a session as a function of arrays.

    >>> import numpy as np
    >>> x = cx.tensor(("n",), name="x")
    >>> y = (x * 2).retrieve()
    >>> compilation = cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    >>> double = cx.as_function()
    >>> double(np.float32([1, 2]))
    array([2., 4.], dtype=float32)
    >>> double
    <CompiledFunction of main(x: f32[n]) -> f32[n]>
    """

    def __init__(self, session: CompiledStore, compilation: Compilation) -> None:
        program = compilation.program
        if not isinstance(program, CPUProgram):
            raise DeviceError(
                "as_function: the last compile has no program for the CPU",
                hint="cx.compile(ll.GenericCompiler(), ll.CPUCompiler()) makes one",
            )
        self._session, self._compilation = session, compilation
        written = compilation.written
        into = dict(zip(written.output_ids, compilation.ir.output_ids, strict=True))
        lent = {id for id in written.input_ids if session.is_lent(id)}
        self._arguments = {node.name: node for node in written.inputs if node.id not in lent}
        self._names = [*self._arguments]
        self._wanted = [into[id] for id in session.ir.output_ids]
        self._runs: dict[object, ReadyCall] = {}

    def __call__(self, *arrays: object, **named: object) -> Array | tuple[Array, ...]:
        """Return the results for some arrays: one array, or a tuple if several are retrieved.

        >>> import numpy as np
        >>> a, b = cx.tensor((2,), name="a"), cx.tensor((2,), name="b")
        >>> cx.retrieve([a + b, a - b])
        >>> compilation = cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
        >>> cx.as_function()(np.float32([3, 4]), b=np.float32([1, 1]))
        (array([4., 5.], dtype=float32), array([2., 3.], dtype=float32))
        """
        if not named:  # as most calls are; what is not an array has no dtype
            try:
                run = self._runs.get(tuple([(a.dtype, a.shape) for a in cast("Any", arrays)]))
            except (AttributeError, TypeError):
                run = None
            if run is not None and {*map(type, arrays)} <= ARRAYS:
                return run(cast("Sequence[Array]", arrays))
        given = self._fitted(self._arranged(arrays, named))
        values = [*given.values()]
        key: object = tuple([(value.dtype, value.shape) for value in values])
        if [*given] != self._names[: len(given)]:  # not as they come in order
            key = key, *given
        run = self._runs.get(key)
        if run is None:
            if len(self._runs) >= MOST_SIZES:
                self._runs.pop(next(iter(self._runs)))
            run = self._runs[key] = self._ready(given)
        return run(values)

    def _arranged(self, arrays: Sequence[object], named: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments by name, in the order of the inputs."""
        names = self._names
        if len(arrays) > len(names):
            raise ArgumentError(
                f"call: {len(arrays)} arrays are given, and there are {len(names)} inputs",
                hint=f"they are {', '.join(names)}" if names else "it takes none",
            )
        given = dict(zip(names, arrays, strict=False))
        for name, value in named.items():
            if name not in self._arguments:
                raise ArgumentError(
                    f"call: there is no input {name!r}",
                    hint=nearest(name, names) or f"they are {', '.join(names)}",
                )
            if name in given:
                raise ArgumentError(f"call: {name} is given twice", hint="name it or place it")
            given[name] = value
        return given

    def _fitted(self, given: Mapping[str, object]) -> dict[str, Array]:
        """Return arrays in the dtypes of their inputs, or raise."""
        symbols = self._compilation.written.symbols
        return {
            name: fit(f"call: %{name}", value, self._arguments[name].type, symbols, copy=False)
            for name, value in given.items()
        }

    def _ready(self, given: Mapping[str, Array]) -> ReadyCall:
        """Return what runs the program for arguments of these shapes."""
        session, written = self._session, self._compilation.written
        shapes = {self._arguments[name]: value.shape for name, value in given.items()}
        for name, node in self._arguments.items():
            if name not in given:
                value = session.value_of(node)
                if value is None:
                    raise InputError(
                        f"call: the input %{name} is not given, and the session has no data for it",
                        hint=f'call it with {name}=…, or cx["{name}"].set(…) before',
                    )
                shapes[node] = value.shape
        dims = bind_dims(written, {node.id for node in written}, shapes, session.set_sizes)
        return ReadyCall(session, self._compilation, self._wanted, dims, [*given])

    @override
    def __repr__(self) -> str:
        ir = self._session.ir
        given = ", ".join(f"{name}: {node.type}" for name, node in self._arguments.items())
        made = ", ".join(str(node.type) for node in ir.outputs)
        return f"<CompiledFunction of {ir.name}({given}) -> {made}>"


class ReadyCall:
    """A function for arguments of known shapes: where its weights are, and what comes out."""

    def __init__(
        self,
        session: CompiledStore,
        compilation: Compilation,
        wanted: Sequence[int],
        dims: Mapping[str, int],
        names: Sequence[str],
    ) -> None:
        self._session, self._storage = session, compilation.storage
        self._wanted, self._dims = wanted, dims
        self._stored = sorted(self._storage.needed(wanted))
        program = compilation.program
        assert isinstance(program, CPUProgram)
        for id in self._stored:
            for source in [compilation.ir[at].name for at in compilation.ir[id].sources]:
                if source in names:
                    raise DeviceError(
                        f"call: %{source} is stored in another form, and so no argument",
                        hint=f'cx["{source}"].set(…) gives it, before the call',
                    )
        self._call = CPUCall(program, wanted, dims, self._stored)
        own = self._call.inputs[: len(self._call.inputs) - len(self._stored)]
        place_of = {node.name: at for at, node in enumerate(own)}
        self._places = [(k, place_of[name]) for k, name in enumerate(names) if name in place_of]
        others = [(node, at) for at, node in enumerate(own) if node.name not in names]
        self._lent = [(node, at) for node, at in others if session.is_lent(node.id)]
        self._kept = [(node, at) for node, at in others if not session.is_lent(node.id)]
        self._call.keep(node for node, _ in self._lent)
        self._addresses = [0] * len(self._call.inputs)
        self._results = [(place.shape, place.dtype) for place in self._call.results]
        self._changes, self._state = -1, object()
        self._weights: list[Array] = []
        self._step = 0

    def __call__(self, given: Sequence[Array]) -> Array | tuple[Array, ...]:
        """Return the results for some arguments: one array, or a tuple if several are wanted."""
        if self._changes != Parameter.changes:
            self._find_weights()
        addresses, held = self._addresses.copy(), list[Array]()
        for k, at in self._places:
            value = given[k]
            if not value.flags.carray:
                value = np.require(value, None, ("C", "A"))
                held.append(value)
            addresses[at] = address_of(value)
        for node, at in self._kept:
            held.append(np.require(self._value_of(node), None, ("C", "A")))
            addresses[at] = address_of(held[-1])
        results = [np.empty(shape, dtype) for shape, dtype in self._results]
        self._call(addresses, [*map(address_of, results)], self._step, self._state)
        self._step += 1
        return results[0] if len(results) == 1 else tuple(results)

    def _value_of(self, node: Node) -> Array:
        value = self._session.value_of(node)
        if value is None:
            raise InputError(f"call: the input %{node.name} has no data any more")
        return value

    def _find_weights(self) -> None:
        """Note where parameters are, and what is stored in another form than its own."""
        changes = Parameter.changes
        stored = self._storage.values(Environment(self._value_of, self._dims), self._wanted)
        values = [self._value_of(node) for node, _ in self._lent]
        places = [at for _, at in self._lent]
        values += [stored[id] for id in self._stored]
        places += range(len(self._addresses) - len(self._stored), len(self._addresses))
        self._weights = [np.require(value, None, ("C", "A")) for value in values]
        for value, at in zip(self._weights, places, strict=True):
            self._addresses[at] = address_of(value)
        self._changes, self._state = changes, object()
