"""Runs of graphs without a session, and the times of traced runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set as AbstractSet
from functools import partial
from typing import NamedTuple, Protocol

from typing_extensions import override

from luminal_lab.core.binding import fit
from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, NodeStep, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.printer import as_text
from luminal_lab.errors import GraphError, InputError, nearest
from luminal_lab.interrupts import this_process
from luminal_lab.tensor.arguments import told
from luminal_lab.tensor.reach import Reach
from luminal_lab.tensor.sizes import bind_dims, named_sizes


class Program(Protocol):
    """A compiled graph, with the same outputs in the same order."""

    @property
    def written(self) -> IR:
        """The graph as written."""
        ...

    @property
    def ir(self) -> IR:
        """The graph to run."""
        ...

    def values(
        self,
        environment: Environment,
        wanted: AbstractSet[int],
        known: Mapping[int, Array],
        trace: list[NodeStep] | None,
    ) -> dict[int, Array]:
        """Return the values of nodes of that graph, by their ids."""
        ...


class Request(NamedTuple):
    """A session's requests to a run, by ids; runs with equal requests share it."""

    ir: IR
    """The graph as written."""
    compiled: IR | None
    """The compiled form of the graph."""
    keeps_all: bool
    probed: frozenset[int]
    kept: frozenset[int]
    needed: frozenset[int]
    """The requested nodes, and all their ancestors."""
    wanted: frozenset[int]
    """The nodes that a run returns."""
    held: AbstractSet[int]
    """The nodes whose values stay after the run."""
    into: Mapping[int, int] | None
    """The node of the compiled graph for each node as written."""
    pairs: tuple[tuple[int, int], ...]
    """The same, of what a run returns."""
    targets: frozenset[int]
    """The nodes requested from the compiled graph."""


class Prepared(NamedTuple):
    """What a session's runs have in common for as long as its graph and its requests stay."""

    program: Program | None
    ir: IR
    """The graph as written."""
    reach: Reach
    request: Request
    own: frozenset[int]
    """The inputs that need data of the session's."""
    table: tuple[int, int] | None
    """The state of the session's table."""
    outputs: AbstractSet[int]
    kept: AbstractSet[int]
    carries: Mapping[int, int]


class Turn:
    """A block in which this process runs a graph, unless it runs already."""

    __slots__ = ("_busy", "_process", "_turns", "_what")

    def __init__(
        self, turns: dict[int, object], busy: Callable[[str], GraphError], what: str
    ) -> None:
        self._turns, self._busy, self._what, self._process = turns, busy, what, this_process()

    def __enter__(self) -> None:
        # One atomic step, so that only one of two threads succeeds.
        if self._turns.setdefault(self._process, self) is not self:
            raise self._busy(self._what)

    def __exit__(self, *error: object) -> None:
        self._turns.pop(self._process, None)


class Run(NamedTuple):
    """The times and bytes of a traced run, node by node.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> y = (cx.tensor((2,), name="x").set([1.0, 2.0]) * 2).retrieve()
    >>> len(cx.execute(trace=True).steps)
    3
    """

    steps: tuple[NodeStep, ...]

    @property
    def seconds(self) -> float:
        """The time of all steps together."""
        return sum(step.seconds for step in self.steps)

    @override
    def __str__(self) -> str:
        if not self.steps:
            return "nothing was computed: all values are up to date"
        rows = [f"{'ms':>9}  {'bytes':>12}  node"]
        rows += [
            f"{step.seconds * 1e3:9.3f}  {step.bytes:12,}  {step.node} = {step.node.op.name} : "
            f"{step.node.type}"
            for step in self.steps
        ]
        return "\n".join(rows)

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Run: {len(self.steps)} steps, {self.seconds * 1e3:.3f} ms; print(…) shows them>"


@partial(told, whole=True)
def run(
    ir: IR,
    data: Mapping[str, object] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    step: int = 0,
) -> tuple[Array, ...]:
    """Return the outputs of a graph, for data by the names of its inputs.

    >>> from luminal_lab.core.parse import parse
    >>> ir = parse("graph g(%x: f32[n]) -> (%y) { %y = add %x, %x : f32[n] }")
    >>> run(ir, {"x": [1, 2]})
    (array([2., 4.], dtype=float32),)
    """
    given = dict(data or {})
    arrays: dict[int, Array] = {}
    for node in ir.inputs:
        if node.name not in given:
            raise InputError(
                f"run: there is no data for the input %{node.name}, which is {node.type}",
                hint=nearest(node.name, given) or f'give it as in run(ir, {{"{node.name}": …}})',
            )
        what = f"run: %{node.name}"
        arrays[node.id] = fit(what, given.pop(node.name), node.type, ir.symbols, copy=True)
    if given:
        name = next(iter(given))
        known = [node.name for node in ir.inputs]
        raise InputError(f"run: the graph has no input {name!r}", hint=nearest(name, known))
    shapes = {node: arrays[node.id].shape for node in ir.inputs}
    sizes = bind_dims(ir, {node.id for node in ir}, shapes, named_sizes("run", dims))

    def data_of(node: Node) -> Array:
        return arrays[node.id]

    values = interpret(ir, Environment(data_of, sizes, step))
    return tuple(values[id] for id in ir.output_ids)
