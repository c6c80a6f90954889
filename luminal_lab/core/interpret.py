"""The interpreter: the meaning of a graph, in slow and obvious NumPy.

All other runs of a graph are checked against this one. Two measures keep real models within
memory: a value is freed at its last use, and a large elementwise result or reduction that only
one reduction or elementwise op reads (the product inside a matmul) is never stored whole: its
reader computes it tile by tile. Tiles never cut a reduced axis, so the result is the same to
the bit.
"""

import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise, product
from time import perf_counter
from typing import NamedTuple

import numpy as np

from luminal_lab.core.binding import bound_shape, fit
from luminal_lab.core.dtypes import Array
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Elementwise, Op, Reduce, TensorType, ints, tuple_text
from luminal_lab.core.ops import HostCall, Input, Pick, Random
from luminal_lab.core.ops.structure import Region
from luminal_lab.core.printer import print_node
from luminal_lab.errors import DeviceError, Explained, GraphError, Interrupted, VerifyError

LARGE = 64 << 20
"""The bytes above which a value with a single reader is computed in tiles."""
TILE = 2 << 20
"""The bytes of a tile's largest intermediate: about the size of a core's own cache."""
DEEPEST = 100
"""The most deferred values in a row: computing a tile recurses once for each."""
MOST, MOST_AXES = 1 << 60, 64
"""The most elements and axes of a NumPy array."""

Probe = Callable[[Array], None]
Altered = Callable[[Node, Array, Sequence[Array | None]], Array]
"""Takes a node, its value and those of its sources, and returns the value that users read."""


class NodeStep(NamedTuple):
    """The time and the bytes that one node took."""

    node: Node
    seconds: float
    bytes: int
    start: float | None = None
    """When it began, by `perf_counter`; None where nobody knows."""
    call: tuple[float, float] | None = None
    """From when to when Python waited for the device that did it, with others."""


class Environment(NamedTuple):
    """Everything but the graph itself that its values depend on."""

    data: Callable[[Node], Array]
    """The value of an input."""
    dims: Mapping[str, int] = {}
    step: int = 0
    """The count of runs; random numbers depend on it."""
    functions: Mapping[str, Callable[..., object]] = {}
    probes: Mapping[int, Sequence[Probe]] = {}
    versions: Mapping[int, int] = {}
    """How often each input has changed, where known."""
    altered: Altered | None = None


def interpret(
    ir: IR,
    environment: Environment,
    *,
    wanted: Iterable[int] | None = None,
    known: Mapping[int, Array] | None = None,
    trace: list[NodeStep] | None = None,
) -> dict[int, Array]:
    """Return the values of the wanted nodes (the outputs, if none are named) by their ids.

    `known` has values that need not be computed again. The results share no memory.
    """
    targets = ir.output_ids if wanted is None else wanted
    run = _Interpreter(ir, environment, set(targets), known or {}, trace)
    with stoppable(run.line), np.errstate(all="ignore"):
        return run.run()


@contextmanager
def stoppable(locate: Callable[[], str | None]) -> Generator[None, None, None]:
    """Turn Ctrl-C into an `Interrupted` error that names the node."""
    try:
        yield
    except Interrupted:
        raise
    except KeyboardInterrupt:
        raise Interrupted(
            "execute: stopped by Ctrl-C; no value was changed",
            where=locate(),
            hint="run it again, or drop() outputs that are not needed",
        ) from None


class _Interpreter:
    def __init__(
        self,
        ir: IR,
        environment: Environment,
        wanted: set[int],
        known: Mapping[int, Array],
        trace: list[NodeStep] | None,
    ) -> None:
        self.ir = ir
        self.environment = environment
        self.wanted = wanted
        self.known = known
        self.values = dict(known)
        self.results: dict[int, Sequence[Array]] = {}  # of calls
        self.trace = trace
        behind = ir.ancestors(wanted, known)
        self.needed = {node.id: node for node in ir.nodes if node.id in behind}
        self.users: dict[int, list[Node]] = {}
        for node in self.needed.values():
            for id in node.sources:
                self.users.setdefault(id, []).append(node)
        self.uses = {id: len(users) for id, users in self.users.items()}
        self.ops: dict[int, Op] = {}
        self.shapes = {id: value.shape for id, value in known.items()}
        self.depths: dict[int, int] = {}  # of deferred values
        self.now: Node | None = None

    def run(self) -> dict[int, Array]:
        with self._blame():
            for node in self.needed.values():
                self.now = node
                self._bind(node)
                depth = 1 + max([0, *[self.depths.get(id, 0) for id in node.sources]])
                if depth < DEEPEST and self._deferred(node):
                    self.depths[node.id] = depth
                    continue
                start = perf_counter()
                value = self._value(node)
                if value is not None:
                    # NumPy returns scalars instead of arrays without axes.
                    value = np.asarray(value)
                    if self.environment.altered is not None:
                        given = [self.values.get(id) for id in node.sources]
                        value = self.environment.altered(node, value, given)
                    self.values[node.id] = value
                    self._check(node, value)
                if self.trace is not None:
                    size = 0 if value is None else value.nbytes
                    self.trace.append(NodeStep(node, perf_counter() - start, size, start))
                for probe in self.environment.probes.get(node.id, ()):
                    probe(_frozen(self.values[node.id]))
                for id in node.sources:
                    self._release(id)
            return self._results()

    def _results(self) -> dict[int, Array]:
        results: dict[int, Array] = {}
        taken: set[int] = set()
        for key in self.wanted & self.values.keys():
            value = self.values[key]
            if key not in self.known and (value.base is not None or id(value) in taken):
                self.now = self.ir[key]
                value = value.copy(order="K")  # later sums depend on its memory layout
            taken.add(id(value))
            results[key] = value
        return results

    def line(self) -> str:
        """Return the node under computation as text, with the user's line."""
        if self.now is None:
            return ""
        origin = self.now.meta.origin
        return print_node(self.ir, self.now) + (f"\n{origin}" if origin else "")

    @contextmanager
    def _blame(self) -> Generator[None, None, None]:
        """Add the current node to every error."""
        try:
            yield
        except Explained as error:
            error.where = error.where or self.line()
            raise
        except MemoryError as error:
            node = self.now
            assert node is not None
            shape = self.shapes.get(node.id, ())
            size = math.prod(shape) * node.dtype.itemsize
            raise DeviceError(
                f"execute: out of memory: %{node.name} needs {size:,} bytes: it is "
                f"{tuple_text(shape)} of {node.dtype}",
                where=self.line(),
                hint="use smaller sizes, or keep and retrieve fewer values",
            ) from error
        except Exception as error:
            error.add_note("while computing\n" + self.line().replace("\n", "\n  "))
            raise

    # -- one node ------------------------------------------------------------------------------

    def _bind(self, node: Node) -> None:
        dims = self.environment.dims
        op, shape = node.op, node.shape
        if dims:
            op = op.bind(dims)
            shape = bound_shape(f"execute: %{node.name}", shape, dims)
            given = [(self.ir[id], self.shapes[id]) for id in node.sources]
            was_open = op is not node.op or any(one.shape != known for one, known in given)
            if was_open and not isinstance(op, (Region, Pick)):
                # Checks that symbols left open are made now.
                op.infer(*[TensorType(one.dtype, known) for one, known in given])
        self.ops[node.id] = op
        self.shapes[node.id] = shape = ints(shape)
        if len(shape) > MOST_AXES:
            told = f"execute: %{node.name} has {len(shape)} axes, and NumPy allows {MOST_AXES}"
            raise DeviceError(told, hint="use smaller sizes, or reshape it to fewer axes")
        if math.prod(filter(None, shape)) > MOST:
            raise MemoryError

    def _value(self, node: Node) -> Array | None:
        op = self.ops[node.id]
        match op:
            case Input():
                return _frozen(self.environment.data(node))
            case Random():
                return op.eval(self.environment.step)
            case Region(body=body):
                results = self.results[node.id] = self._call(body, node)
                return None if node.extra else results[0]
            case Pick(index=index):
                return self.results[node.sources[0]][index]
            case HostCall(function=name):
                function = self.environment.functions.get(name)
                if function is None:
                    raise GraphError(
                        f"host_call: there is no function {name!r} here",
                        hint="run the graph in the session that wrote it with cx.function(...)",
                    )
                result = function(*[_frozen(self.values[id]) for id in node.sources])
                type = TensorType(node.dtype, self.shapes[node.id])
                return fit(f"function {name!r}: %{node.name}", result, type, {}, copy=True)
            case _:
                pass
        if all(id in self.values for id in node.sources):
            return op.eval(*[self.values[id] for id in node.sources])
        result = np.empty(self.shapes[node.id], node.dtype.numpy)
        for number, region in enumerate(self._regions(node)):
            part = self._tile(node, region)
            if number == 0:  # same layout as the whole value: later sums depend on it
                result = np.empty_like(part, shape=result.shape)
            result[region] = part
        return result

    def _call(self, body: IR, node: Node) -> Sequence[Array]:
        given = dict(zip(body.input_ids, (self.values[id] for id in node.sources), strict=True))

        def data(node: Node) -> Array:
            return given[node.id]

        inner = self.environment._replace(data=data, probes={})
        values = interpret(body, inner)
        return [values[id] for id in body.output_ids]

    def _check(self, node: Node, value: Array) -> None:
        shape = self.shapes[node.id]
        if value.shape != shape or value.dtype != node.dtype.numpy:
            raise VerifyError(
                f"{node.op.name}: its value is {value.dtype}{tuple_text(value.shape)}, but its "
                f"type says {node.dtype}{tuple_text(shape)}",
                hint="make eval and infer of the op agree",
            )

    def _release(self, id: int) -> None:
        self.uses[id] -= 1
        if self.uses[id] or id in self.wanted:
            return
        if id not in self.values and id in self.needed and id not in self.results:
            for source in self.needed[id].sources:  # it was deferred, and is no longer needed
                self._release(source)
        self.values.pop(id, None)
        self.results.pop(id, None)

    # -- tiles ---------------------------------------------------------------------------------

    def _deferred(self, node: Node) -> bool:
        """Return whether a value is computed tile by tile, on demand of its only reader."""
        users = self.users.get(node.id, ())
        return (
            len(users) == 1
            and isinstance(node.op, (Elementwise, Reduce))
            and isinstance(users[0].op, (Elementwise, Reduce))
            and math.prod(self.shapes[node.id]) * node.dtype.itemsize > LARGE
            and node.id not in self.wanted
            and node.id not in self.environment.probes
        )

    def _tile(self, node: Node, region: tuple[slice, ...]) -> Array:
        """Return a part of a deferred value."""
        op = self.ops[node.id]
        if isinstance(op, Reduce):
            region = (*region[: op.axis], slice(None), *region[op.axis + 1 :])
        sources = [
            self.values[id][region] if id in self.values else self._tile(self.needed[id], region)
            for id in node.sources
        ]
        return op.eval(*sources)

    def _regions(self, node: Node) -> Iterable[tuple[slice, ...]]:
        """Return the parts of a node's value whose intermediates fit into a tile."""
        shape = self.shapes[node.id]
        block = list(shape)
        for axis, size in enumerate(shape):
            parts = -(-self._bytes(node, tuple(block)) // TILE)
            if parts > 1:
                # NumPy sums a single row in another order than several.
                block[axis] = min(size, max(2, size // parts))
        cuts = [
            [size * k // (size // step) for k in range(size // step + 1)] if size else [0]
            for size, step in zip(shape, block, strict=True)
        ]
        return (tuple(slice(*pair) for pair in pairs) for pairs in product(*map(pairwise, cuts)))

    def _bytes(self, node: Node, block: tuple[int, ...]) -> int:
        """Return the bytes of the largest intermediate for a block of a node."""
        op = self.ops[node.id]
        size = math.prod(block) * node.dtype.itemsize
        if isinstance(op, Reduce):
            whole = self.shapes[node.sources[0]][op.axis]
            block = (*block[: op.axis], whole, *block[op.axis + 1 :])
        behind = [
            self._bytes(self.needed[id], block) for id in node.sources if id not in self.values
        ]
        return max([size, *behind])


def _frozen(value: Array) -> Array:
    """Return a read-only array for user code."""
    view = value.view()
    view.flags.writeable = False
    return view
