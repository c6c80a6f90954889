"""Random graphs for Hypothesis, with data for them: all ops of the core, bodies, symbols.

Strategies that are always the same are made once: to make and check one takes longer than to draw.
"""

import math
from collections.abc import Iterable
from functools import cache
from typing import TypeVar

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from luminal_lab.core import ops
from luminal_lab.core.dims import Dim, Expr, Symbol, evaluate
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import IR, NO_META, Derivation, Meta, Node, Table
from luminal_lab.core.op import Op, Scalar, TensorType, result_types, size_of
from luminal_lab.core.origin import Origin
from luminal_lab.errors import LabError

T = TypeVar("T")

NAMES = ["x", "h.attn.scores", "via", "graph", "inf", "n", "min", "_", "f32", "a.b.c1", "true"]
TEXTS = st.sampled_from(
    ["", "y = x @ w", 'print("%1 = sin %x # no")', "a\\b\n\t{é}\u2028", "}) @ 7"]
)
FEW = st.integers(0, 2)
META = st.builds(
    Meta,
    st.none() | st.sampled_from(NAMES),
    st.none() | st.builds(Origin, TEXTS, st.integers(1, 99), TEXTS),
    st.sampled_from(["", "block0.attn", "via", "graph"]),
    st.none() | st.builds(Derivation, TEXTS, st.lists(st.integers(0, 99), max_size=2).map(tuple)),
)
FLOATS = [0.0, -0.0, 1.5, -3.25, 1e-45, 3e38, float("inf"), float("-inf"), float("nan")]
DIMS = {"n": 3, "m": 2}
"""What the symbols that random graphs mention are bound to."""
N = Symbol("n", 1, 4)
M = Symbol("m")
STEPS, PADS = st.integers(1, 3), st.sampled_from([0, 1, N])


class Growing:
    """A graph that grows by ops; what an op refuses is not added."""

    def __init__(self) -> None:
        self.table = Table()
        self.names: set[str] = set()

    def add(self, op: Op, *sources: Node, meta: Meta = NO_META) -> Node | None:
        """Add a node, and return it unless its op refuses the sources."""
        try:
            types = result_types(op, sources)
            bound = [TensorType(t.dtype, sizes(t)) for t in types]
            if any(math.prod(sizes(type)) > 200 for type in bound):
                return None
            if not isinstance(op, (ops.Call, ops.Pick)):  # with numbers it may not fit
                at_run_time = [TensorType(s.dtype, sizes(s.type)) for s in sources]
                op.bind(DIMS).infer(*at_run_time)
        except LabError:
            return None
        if meta.name in self.names:
            meta = meta._replace(name=None)
        elif meta.name is not None:
            self.names.add(meta.name)
        ids = tuple(source.id for source in sources)
        node = Node(self.table.size, op, ids, types[0], types[1:], meta)
        self.table.set(node.id, node)
        return node

    @property
    def readable(self) -> list[Node]:
        """All nodes with one result."""
        return [node for node in self.table if not node.extra]


def sizes(type: TensorType) -> tuple[int, ...]:
    """Return a shape with its symbols bound."""
    return tuple(evaluate(dim, DIMS) for dim in type.shape)


@cache
def dims() -> st.SearchStrategy[Dim]:
    """Draw a size: mostly small numbers, 0 and 1 among them, sometimes symbolic."""
    return st.sampled_from([2, 3, 1, 0, N, M, N * 2, N + M, N // 2 + 1])


@cache
def shapes(max_rank: int = 3) -> st.SearchStrategy[tuple[Dim, ...]]:
    """Draw a shape."""
    return st.lists(dims(), max_size=max_rank).map(tuple)


@cache
def dtypes() -> st.SearchStrategy[DType]:
    """Draw a dtype, float32 most often."""
    return st.one_of(st.just(DType.float32), st.sampled_from(list(DType)))


@cache
@st.composite
def metas(draw: DrawFn) -> Meta:
    """Draw a name, an origin, a scope and a derivation, each absent most often."""
    return Meta() if draw(FEW) else draw(META)


Choice = tuple[Op, list[Node]]


def elementwise(draw: DrawFn, graph: Growing, x: Node) -> Choice:
    """Draw an elementwise op, or one that changes nothing."""
    y = draw(st.sampled_from([node for node in graph.readable if node.type == x.type]))
    unary = [ops.Log2, ops.Exp2, ops.Sin, ops.Sqrt, ops.Recip, ops.Contiguous, ops.GraphBreak]
    binary = [ops.Add, ops.Mul, ops.Mod, ops.LessThan, ops.After]
    binary += [ops.BitAnd, ops.BitOr, ops.BitXor, ops.ShiftLeft, ops.ShiftRight]
    count = draw(st.integers(0, 3))
    if count == 0:
        return draw(st.sampled_from([ops.Cast, ops.Bitcast]))(draw(dtypes())), [x]
    if count == 1:
        return draw(st.sampled_from(unary))(), [x]
    if count == 2:
        return draw(st.sampled_from(binary))(), [x, y]
    made = keep(graph.add(ops.Constant(draw(st.booleans()), DType.bool_, x.shape)))
    bools = [node for node in graph.readable if node.type == x.type.with_dtype(DType.bool_)]
    return ops.Where(), [draw(st.sampled_from(bools + made)), x, y]


def along_an_axis(draw: DrawFn, graph: Growing, x: Node) -> Choice:
    """Draw a reduction, a gather, a scatter, an update or a window."""
    axis = draw(st.integers(0, max(len(x.shape) - 1, 0)))
    few = st.integers(1, 2)
    plain = ops.SumReduce(axis), ops.MaxReduce(axis)
    window = ops.Window(axis, draw(st.sampled_from([1, 2, N])), draw(few), draw(few))
    if not x.shape or draw(st.booleans()):
        return draw(st.sampled_from([*plain, window])), [x]
    size = sizes(x.type)[axis]
    shape = x.type.with_axis(axis, draw(dims()) if size else 0).shape
    place = ops.Constant(draw(st.integers(0, max(size - 1, 0))), draw(st.sampled_from(INTS)), shape)
    index = keep(graph.add(place))
    value = True if x.dtype is DType.bool_ else draw(st.integers(0, 1))
    rows = keep(graph.add(ops.Constant(value, x.dtype, shape)))
    scatter = ops.Scatter(axis, "set"), ops.Scatter(axis, "add")
    choices: list[Choice] = [
        (ops.Gather(axis), [x, *index]),
        (draw(st.sampled_from(scatter)), [x, *index, *rows]),
        (ops.Update(axis, draw(st.sampled_from([0, 1, N - 1]))), [x, *rows]),
    ]
    return draw(st.sampled_from(choices))


@cache
def lists_of(values: st.SearchStrategy[T], count: int) -> st.SearchStrategy[list[T]]:
    """Draw so many values."""
    return st.lists(values, min_size=count, max_size=count)


def views(draw: DrawFn, graph: Growing, x: Node) -> Choice:
    """Draw a view."""
    shape, rank = x.shape, len(x.shape)
    flat = size_of(shape)

    def each(values: st.SearchStrategy[T]) -> tuple[T, ...]:
        return tuple(draw(lists_of(values, rank)))

    stop = [draw(st.sampled_from([dim, dim - 1])) for dim in shape]
    choices: list[Op] = [
        ops.Permute(tuple(draw(st.permutations(range(rank))))),
        ops.Reshape(draw(st.sampled_from([(flat,), (1, flat), (*shape, 1), (1, *shape)]))),
        ops.Expand(tuple(draw(dims()) if dim == 1 else dim for dim in shape)),
        ops.Slice(each(FEW), tuple(stop), each(STEPS)),
        ops.Pad(each(FEW), each(PADS)),
        ops.Flip(tuple(draw(st.sets(st.integers(0, rank - 1))) if rank else ())),
    ]
    return draw(st.sampled_from(choices)), [x]


def sources(draw: DrawFn, graph: Growing, x: Node) -> Choice:
    """Draw a constant, a range or random numbers."""
    dtype, shape = draw(dtypes()), draw(shapes())
    value: Scalar = draw(st.sampled_from(FLOATS))
    if dtype.kind == "int":
        value = draw(st.sampled_from([0, 1, 99, N * 2 + M]))
    elif dtype.kind == "bool":
        value = draw(st.booleans())
    seed, stream = draw(st.integers(0, 2**64 - 1)), draw(st.integers(0, 3))
    choices = [
        ops.Constant(value, dtype, shape),
        ops.Iota(dtype, (draw(dims()),)),
        ops.Random(seed, stream, shape),
    ]
    return draw(st.sampled_from(choices)), []


def calls(draw: DrawFn, graph: Growing, x: Node) -> Choice:
    """Draw a call of a random body, or of one that the graph calls already."""
    given = draw(st.lists(st.sampled_from(graph.readable), max_size=3))
    old = [node for node in graph.table if isinstance(node.op, ops.Call)]
    if old and draw(st.booleans()):
        node = draw(st.sampled_from(old))
        return node.op, [n for id in node.sources for n in keep(graph.table.get(id))]
    return ops.Call(draw(graphs(inputs=[source.type for source in given], depth=0))), given


@cache
def given_types() -> st.SearchStrategy[list[TensorType]]:
    """Draw the types of some inputs."""
    return st.lists(st.builds(TensorType, dtypes(), shapes()), max_size=3)


FAMILIES = [elementwise, elementwise, elementwise, along_an_axis, views, views, sources, calls]
INTS = [DType.int64, DType.int32, DType.int16, DType.int8, DType.uint8]


def keep(node: Node | None) -> list[Node]:
    """Return a list of the node, if there is one."""
    return [] if node is None else [node]


@st.composite
def graphs(
    draw: DrawFn,
    *,
    inputs: Iterable[TensorType] | None = None,
    max_nodes: int = 12,
    depth: int = 1,
) -> IR:
    """Draw a graph: dead nodes, duplicates, calls, carries, names and schedules among it."""
    graph = Growing()
    types = draw(given_types())
    given: list[int] = []
    for type in types if inputs is None else inputs:
        node = graph.add(ops.Input(type.dtype, type.shape), meta=draw(metas()))
        given += [n.id for n in keep(node)]
    graph.add(ops.Constant(1.0, DType.float32, ()))
    for _ in range(draw(st.integers(1, max_nodes))):
        family = draw(st.sampled_from(FAMILIES if depth else FAMILIES[:-1]))
        op, read = family(draw, graph, draw(st.sampled_from(graph.readable)))
        node = graph.add(op, *read, meta=draw(metas()))
        if node is not None and node.extra:
            graph.add(ops.Pick(1), node, meta=draw(metas()))
        if inputs is None and not draw(st.integers(0, 9)):
            type = draw(st.sampled_from(graph.readable)).type
            late = graph.add(ops.Input(type.dtype, type.shape), meta=draw(metas()))
            given += [n.id for n in keep(late)]
    outputs = draw(
        st.lists(st.sampled_from([n.id for n in graph.readable]), min_size=1, max_size=4)
    )
    carries: list[tuple[int, int]] = []
    for id in given if inputs is None else ():
        wanted = graph.table.get(id)
        left = [o for o in outputs if [new for new, _ in carries].count(o) < outputs.count(o)]
        fitting = [
            o for o in left if (n := graph.table.get(o)) and wanted and n.type == wanted.type
        ]
        if fitting and draw(st.booleans()):
            carries.append((draw(st.sampled_from(fitting)), id))
    schedule = draw(st.just([]) | st.permutations([node.id for node in graph.table]))
    return IR(
        graph.table,
        draw(st.permutations(given)) if inputs is None else given,
        outputs,
        name=draw(st.sampled_from(["main", "body", "f_2", "f"])),
        carries=draw(st.permutations(carries)),
        schedule=tuple(schedule),
    )


def data_for(ir: IR, seed: int = 0) -> dict[str, Array]:
    """Return values for the inputs of a graph by their names, special ones among them."""
    rng = np.random.default_rng(seed)
    data: dict[str, Array] = {}
    for node in sorted(ir.inputs, key=str):
        numbers = rng.choice(
            [0.0, 1, -1, 2, -0.0, 3, 100, 0.5, 1e-38, np.inf, np.nan], sizes(node.type)
        )
        if not node.dtype.is_float:
            numbers = np.nan_to_num(numbers, posinf=7)
        data[node.name] = np.asarray(numbers).astype(node.dtype.numpy)
    return data


def values_of(ir: IR, data: dict[str, Array]) -> list[tuple[str, tuple[int, ...], bytes]]:
    """Return what a graph's outputs are, to the bit."""
    with np.errstate(all="ignore"):
        found = interpret(ir, Environment(lambda node: data[node.name], DIMS))
    arrays = [found[id] for id in ir.output_ids]
    return [(str(a.dtype), a.shape, np.ascontiguousarray(a).tobytes()) for a in arrays]


def symbolic(ir: IR) -> bool:
    """Return whether a graph mentions symbolic dims."""
    return any(isinstance(dim, Expr) for node in ir for dim in node.shape)
