"""The interpreter: what a graph means, in NumPy, slowly and obviously.

Every other way to run a graph is held to this one. Two things keep models of real size within
memory. A value is freed at its last use. And a large elementwise result or reduction that only
one reduction or elementwise op reads (the product inside a matmul) is never made as a whole: its
reader asks for it tile by tile.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from time import perf_counter
from typing import NamedTuple

import numpy as np

from luminal_lab.core.dims import evaluate
from luminal_lab.core.dtypes import Array
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Elementwise, Op, Reduce, TensorType, ints, tuple_text
from luminal_lab.core.ops import Call, HostCall, Input, Pick, Random
from luminal_lab.core.printer import print_node
from luminal_lab.errors import DeviceError, Interrupted, LabError, VerifyError

LARGE = 64 << 20
"""Bytes from which on a value is made in tiles, if only one op reads it."""
TILE = 2 << 20
"""Bytes of the largest intermediate of one tile: about what a core's own cache holds."""


class Step(NamedTuple):
    """What computing one node took."""

    node: Node
    seconds: float
    bytes: int


class Environment(NamedTuple):
    """All that a graph's values depend on beside the graph."""

    data: Callable[[Node], Array]
    """The value of an input."""
    dims: Mapping[str, int] = {}
    step: int = 0
    """The count of runs, which random numbers depend on."""
    functions: Mapping[str, Callable[..., Array]] = {}
    probes: Mapping[int, Sequence[Callable[[Array], None]]] = {}


def interpret(
    ir: IR,
    environment: Environment,
    *,
    wanted: Iterable[int] | None = None,
    known: Mapping[int, Array] | None = None,
    trace: list[Step] | None = None,
) -> dict[int, Array]:
    """Return the values of the wanted nodes (the outputs, if none are named) by their ids.

    `known` are values that need not be computed again.
    """
    targets = list(ir.output_ids if wanted is None else wanted)
    run = _Run(ir, environment, targets, dict(known or {}), trace)
    try:
        with np.errstate(all="ignore"):
            return run.run()
    except KeyboardInterrupt as error:
        if isinstance(error, Interrupted):
            raise
        raise Interrupted(
            "execute: stopped by Ctrl-C; no value was changed",
            where=run.place(),
            hint="run it again, or drop() outputs that are not needed",
        ) from None


class _Run:
    def __init__(
        self,
        ir: IR,
        environment: Environment,
        wanted: list[int],
        known: dict[int, Array],
        trace: list[Step] | None,
    ) -> None:
        self.ir = ir
        self.environment = environment
        self.wanted = set(wanted)
        self.values = known
        self.results: dict[int, Sequence[Array]] = {}  # of calls
        self.trace = trace
        self.needed = self._needed(wanted)
        self.users: dict[int, list[Node]] = {}
        for node in self.needed.values():
            for id in node.sources:
                self.users.setdefault(id, []).append(node)
        self.uses = {id: len(users) for id, users in self.users.items()}
        self.ops: dict[int, Op] = {}
        self.shapes: dict[int, tuple[int, ...]] = {}
        self.now: Node | None = None

    def _needed(self, wanted: list[int]) -> dict[int, Node]:
        found: set[int] = set()
        todo = [id for id in wanted if id not in self.values]
        while todo:
            id = todo.pop()
            if id not in found and id not in self.values:
                found.add(id)
                todo.extend(self.ir[id].sources)
        return {node.id: node for node in self.ir.nodes if node.id in found}

    def run(self) -> dict[int, Array]:
        for node in self.needed.values():
            self.now = node
            try:
                self.ops[node.id] = node.op.bind(self.environment.dims)
                self.shapes[node.id] = self._shape(node.type)
                if self._deferred(node):
                    continue
                start = perf_counter()
                value = self._value(node)
                if self.trace is not None:
                    size = 0 if value is None else value.nbytes
                    self.trace.append(Step(node, perf_counter() - start, size))
            except LabError as error:
                error.where = error.where or self.place()
                raise
            except MemoryError as error:
                raise DeviceError(
                    f"execute: {node} needs more memory than there is: "
                    f"{tuple_text(self.shapes[node.id])} of {node.dtype}",
                    where=self.place(),
                    hint="use smaller sizes, or keep fewer values",
                ) from error
            except Exception as error:
                error.add_note(f"while computing\n  {self.place()}")
                raise
            if value is not None:
                self._check(node, value)
                self.values[node.id] = value
                for probe in self.environment.probes.get(node.id, ()):
                    probe(value)
            for id in node.sources:
                self._release(id)
            if not self.uses.get(node.id) and node.id not in self.wanted:
                self.values.pop(node.id, None)
        return {id: self.values[id] for id in self.wanted}

    def place(self) -> str:
        """Return the line of the graph and of the user's that is being computed."""
        if self.now is None:
            return ""
        origin = self.now.meta.origin
        return print_node(self.ir, self.now) + (f"\n{origin}" if origin else "")

    # -- one node ------------------------------------------------------------------------------

    def _value(self, node: Node) -> Array | None:
        op = self.ops[node.id]
        match op:
            case Input():
                return self.environment.data(node)
            case Random():
                return op.eval(self.environment.step)
            case Call(body=body):
                self.results[node.id] = self._call(body, node)
                return self.results[node.id][0] if len(self.results[node.id]) == 1 else None
            case Pick(index=index):
                return self.results[node.sources[0]][index]
            case HostCall(function=name):
                arguments = [self.values[id] for id in node.sources]
                return np.asarray(self.environment.functions[name](*arguments))
            case _:
                pass
        if all(id in self.values for id in node.sources):
            if self.environment.dims:
                # What could not be decided with symbols is decided now.
                op.infer(*[TensorType(self.ir[id].dtype, self._known_shape(id)) for id in node.sources])
            return op.eval(*[self.values[id] for id in node.sources])
        result = np.empty(self.shapes[node.id], node.dtype.numpy)
        for region in self._regions(node):
            result[region] = self._tile(node, region)
        return result

    def _call(self, body: IR, node: Node) -> Sequence[Array]:
        given = dict(zip(body.input_ids, (self.values[id] for id in node.sources), strict=True))
        inner = self.environment._replace(data=lambda input: given[input.id], probes={})
        values = interpret(body, inner)
        return [values[id] for id in body.output_ids]

    def _check(self, node: Node, value: Array) -> None:
        shape = self.shapes[node.id]
        if value.shape != shape or value.dtype != node.dtype.numpy:
            raise VerifyError(
                f"{node.op.name}: its value is {value.dtype}{tuple_text(value.shape)}, but its type "
                f"says {node.dtype}{tuple_text(shape)}",
                where=self.place(),
                hint="make eval and infer of the op agree, or the function return what was said",
            )

    def _release(self, id: int) -> None:
        self.uses[id] -= 1
        if self.uses[id] or id in self.wanted:
            return
        if id not in self.values and id in self.needed and id not in self.results:
            for source in self.needed[id].sources:  # it was deferred, and is done with now
                self._release(source)
        self.values.pop(id, None)
        self.results.pop(id, None)

    def _shape(self, type: TensorType) -> tuple[int, ...]:
        if not type.is_symbolic:
            return ints(type.shape)
        return tuple(evaluate(dim, self.environment.dims) for dim in type.shape)

    def _known_shape(self, id: int) -> tuple[int, ...]:
        return self.values[id].shape

    # -- tiles ---------------------------------------------------------------------------------

    def _deferred(self, node: Node) -> bool:
        """Return whether a value is made tile by tile, when its only reader asks for it."""
        users = self.users.get(node.id, ())
        return (
            isinstance(node.op, (Elementwise, Reduce))
            and math.prod(self.shapes[node.id]) * node.dtype.itemsize > LARGE
            and node.id not in self.wanted
            and node.id not in self.environment.probes
            and len(users) == 1
            and isinstance(users[0].op, (Elementwise, Reduce))
        )

    def _tile(self, node: Node, region: tuple[slice, ...]) -> Array:
        """Return a part of a value that is not there as a whole."""
        op = self.ops[node.id]
        if isinstance(op, Reduce):
            region = (*region[: op.axis], slice(None), *region[op.axis + 1 :])
        sources = [
            self.values[id][region] if id in self.values else self._tile(self.needed[id], region)
            for id in node.sources
        ]
        return op.eval(*sources)

    def _regions(self, node: Node) -> Iterable[tuple[slice, ...]]:
        """Return parts of a node's value for each of which all intermediates fit into a tile."""
        shape = self.shapes[node.id]
        block = list(shape)
        for axis, size in enumerate(shape):
            parts = -(-self._bytes(node, tuple(block)) // TILE)
            if parts > 1:
                block[axis] = max(1, -(-size // parts))
        ranges = [range(0, size, step or 1) for size, step in zip(shape, block, strict=True)]
        for starts in product(*ranges):
            yield tuple(slice(a, a + b) for a, b in zip(starts, block, strict=True))

    def _bytes(self, node: Node, block: tuple[int, ...]) -> int:
        """Return the bytes of the largest intermediate behind a block of a node."""
        op = self.ops[node.id]
        size = math.prod(block) * node.dtype.itemsize
        if isinstance(op, Reduce):
            axis = op.axis
            full = self.shapes[node.sources[0]][axis] if node.sources[0] in self.shapes else 1
            block = (*block[:axis], full, *block[axis + 1 :])
        behind = [self._bytes(self.needed[id], block) for id in node.sources if id not in self.values]
        return max([size, *behind])
