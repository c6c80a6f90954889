"""The table of what a device must get right: each op alone, on all its dtypes and special values.

A case is a graph, data for its inputs, and how close to the interpreter's the results must be.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product
from typing import TypeAlias

import numpy as np
from typing_extensions import override

from luminal_lab.core import ops
from luminal_lab.core.dims import Dim
from luminal_lab.core.dtypes import INTEGERS, Array, DType
from luminal_lab.core.ir import IR, Node, Table
from luminal_lab.core.op import OPS, Binary, Op, Scalar, TensorType, Unary, result_types
from luminal_lab.core.ops import Expand, Flip, Pad, Permute, Reshape, Slice, Window
from luminal_lab.core.ops.intrinsic import FusedMul, Intrinsic
from luminal_lab.errors import LabError
from luminal_lab.passes.corners import corners, every, limits_of, neighbours

Nearness: TypeAlias = int | None
"""How many units in the last place a result may be off.

None means the dtype's tolerance for values of typical size, as sums may be in any order.
"""
F32 = DType.float32
TAILS = (1, 7, 8, 9, 15, 16, 17, 33, 130)
"""Lengths close to those of vectors, and of the blocks into which sums are cut."""


@dataclass(frozen=True, eq=False)
class CaseRun:
    """The data for a run of a case: arrays by the names of its inputs, and sizes of its dims."""

    data: Mapping[str, Array]
    dims: Mapping[str, int]
    step: int = 0


@dataclass(frozen=True, eq=False)
class Case:
    """A graph for a device to run, and its data."""

    name: str
    family: str
    ir: IR
    runs: tuple[CaseRun, ...]
    near: Nearness = 0
    op: str | None = None
    """The op on trial, if there is a single one."""

    @cached_property
    def ops(self) -> tuple[str, ...]:
        """The names of all ops in the graph, except inputs."""
        return tuple(dict.fromkeys(n.op.name for n in all_nodes(self.ir) if n.op.name != "input"))

    @cached_property
    def dtypes(self) -> tuple[DType, ...]:
        """All dtypes that occur."""
        types = (type for node in all_nodes(self.ir) for type in node.types)
        return tuple(dict.fromkeys(type.dtype for type in types))

    @cached_property
    def traits(self) -> frozenset[str]:
        """The words with which a device may say that it does not support this."""
        words = {self.family, self.name, *self.ops, *map(str, self.dtypes)}
        words |= {"symbolic"} if self.ir.symbols else set()
        words |= {"several outputs"} if len(self.ir.output_ids) > 1 else set()
        return frozenset(words)

    @override
    def __str__(self) -> str:
        return self.name


def all_nodes(ir: IR) -> Iterator[Node]:
    """Yield the nodes of a graph and of the bodies that it calls."""
    for node in ir:
        yield node
        body = node.op.body_of()
        if body is not None:
            yield from all_nodes(body)


def named(data: Mapping[str, Array]) -> Callable[[Node], Array]:
    """Return a function that finds the data of an input by its name."""
    return lambda node: data[node.name]


class CaseWriter:
    """A graph that is written node by node."""

    def __init__(self) -> None:
        self.table = Table()

    def add(self, op: Op, *sources: Node) -> Node:
        """Append a node and return it."""
        types = result_types(op, sources)
        ids = tuple(source.id for source in sources)
        node = Node(self.table.size, op, ids, types[0], types[1:])
        self.table.set(node.id, node)
        return node

    def input(self, dtype: DType, shape: Iterable[Dim]) -> Node:
        """Append an input."""
        return self.add(ops.Input(dtype, tuple(shape)))

    def graph(self, *outputs: Node, name: str = "case") -> IR:
        """Return what was written."""
        inputs = [node.id for node in self.table if isinstance(node.op, ops.Input)]
        return IR(self.table.copy(), inputs, [node.id for node in outputs], name=name)


# -- values ----------------------------------------------------------------------------------------


def special(dtype: DType) -> Array:
    """Return the values of a dtype on which implementations go wrong."""
    if dtype is DType.bool_:
        return np.array([False, True])
    if not dtype.is_float:
        low, high = dtype.limits
        few = [0, 1, 2, 3, 7, 100, high, high - 1, low, *([-1, -2, -7] if low else [])]
        return np.array(few, dtype=dtype.numpy)
    tiny = {DType.float64: 5e-324, DType.float32: 1e-45, DType.float16: 6e-8, DType.bfloat16: 1e-40}
    large = {DType.float64: 1e308, DType.float16: 6e4}.get(dtype, 3e38)
    few = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 7.25, -0.1, 100.0, -1000.0, tiny[dtype], large]
    with np.errstate(all="ignore"):
        return np.array([*few, np.inf, -np.inf, np.nan]).astype(dtype.numpy)


def pairs(dtype: DType) -> tuple[Array, Array]:
    """Return all pairs of special values, and for integers some of all sizes."""
    values = special(dtype)
    x, y = np.repeat(values, len(values)), np.tile(values, len(values))
    if dtype.kind != "int":
        return x, y
    return np.concatenate([x, several(dtype, 0)]), np.concatenate([y, several(dtype, 1)])


def tame(dtype: DType, shape: Sequence[int], seed: int = 0) -> Array:
    """Return drawn values of ordinary size."""
    rng = np.random.default_rng((seed, *shape))
    if dtype is DType.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if not dtype.is_float:
        low, high = dtype.limits
        return rng.integers(max(low, -50), min(high, 50), shape).astype(dtype.numpy)
    return rng.standard_normal(shape).astype(dtype.numpy)


def several(dtype: DType, seed: int) -> Array:
    """Return drawn integers of few and of many bits."""
    rng = np.random.default_rng(seed)
    bits = np.dtype(f"u{dtype.itemsize}")
    whole = rng.integers(0, np.iinfo(bits).max, 300, dtype=bits, endpoint=True)
    return (whole >> rng.integers(0, 8 * dtype.itemsize, 300).astype(bits)).view(dtype.numpy)


def between(dtype: DType, target: DType) -> Array:
    """Return values of a dtype half-way between two of another, and those next to them.

    Rounding twice, first to a dtype between the two, gives a wrong result there.
    """
    halves = np.linspace(1, 2, 9)[:-1] * (1 + limits_of(target).eps / 2)
    if dtype.is_float:
        ties = np.concatenate([halves, -halves * 8, halves * limits_of(target).normal])
        values = ties.astype(dtype.numpy)
        return np.concatenate([values, *neighbours(values)])
    _, high = dtype.limits
    powers = 2.0 ** np.arange(8 * dtype.itemsize - 1)
    ties = [int(power) * int(half * 2**60) >> 60 for power in powers for half in halves]
    few = {by + value for value in ties for by in (-1, 0, 1) if by + value <= high}
    return np.array(sorted(few), dtype.numpy)


# -- cases of one op -------------------------------------------------------------------------------


def op_case(op: Op, *data: Array, family: str, note: str = "") -> Case:
    """Return a case in which one op reads inputs that hold these values."""
    writer = CaseWriter()
    sources = [writer.input(DType(array.dtype.name), array.shape) for array in data]
    result = writer.add(op, *sources)
    given = {node.name: array for node, array in zip(sources, data, strict=True)}
    steps = (0, 3) if isinstance(op, ops.Random) else (0,)
    runs = tuple(CaseRun(given, {}, step) for step in steps)
    read = ", ".join(f"{node.type}" for node in sources) or f"→ {result.type}"
    name = f"{op.name} {read}" + (f" {note}" if note else "")
    return Case(name, family, writer.graph(result), runs, nearness(op, *data), op.name)


def nearness(op: Op, *data: Array) -> Nearness:
    """Return how close a device must come to the result of an op for this data."""
    match op:
        case ops.SumReduce(axis=axis):
            terms = data[0].shape[axis]
        case ops.Scatter(mode="add"):
            terms = data[1].size
        case _:
            terms = 0
    if terms > 2 and DType(data[0].dtype.name).is_float:  # two terms have only one order
        return None
    return op.ulps if op.ulps > 1 else 0  # a single rounding has only one result


def alone(op: Op) -> Iterator[Case]:
    """Yield an elementwise op on each dtype that it takes: on special values, and on drawn ones."""
    count = len(inspect.signature(op.infer).parameters)
    for dtype in DType:
        try:
            op.infer(*[TensorType(dtype, (1,))] * count)
        except LabError:
            continue
        if count == 1:
            few = [special(dtype), *([corners(dtype)] if dtype.is_float else [])]
            yield op_case(op, np.concatenate(few), family="elementwise", note="special")
        if count == 2:
            yield op_case(op, *pairs(dtype), family="elementwise", note="special")
        if count != 2:
            drawn = [tame(dtype, (100,), seed) for seed in range(count)]
            yield op_case(op, *drawn, family="elementwise")


def is_primitive(op: type[Op]) -> bool:
    """Return whether one of our ops is elementwise and written in graphs."""
    is_ours = op.__module__.startswith(f"{ops.__name__}.") and issubclass(op, (Unary, Binary))
    return is_ours and not issubclass(op, (Intrinsic, FusedMul))


def elementwise() -> Iterator[Case]:
    """Yield unary and binary ops and choice, on special values and on odd lengths."""
    for op in OPS.values():
        if is_primitive(op):
            yield from alone(op())
    for dtype in DType:
        yield op_case(ops.Contiguous(), special(dtype), family="elementwise")
        x, y = pairs(dtype)
        chosen = np.arange(len(x)) % 3 == 1
        yield op_case(ops.Where(), chosen, x, y, family="elementwise")
    for size in TAILS:
        yield op_case(ops.Add(), tame(F32, (size,)), tame(F32, (size,), 1), family="elementwise")
    for shape in ((), (0,), (2, 0, 3), (1, 1), (2, 3, 4, 2, 3)):
        yield op_case(ops.Mul(), tame(F32, shape), tame(F32, shape, 1), family="elementwise")
    for chosen in (True, False):
        x, y = tame(F32, (1,)), tame(F32, (1,), 1)
        yield op_case(ops.Where(), np.array([chosen]), x, y, family="elementwise", note=f"{chosen}")


def casts() -> Iterator[Case]:
    """Yield casts of special values, of ties between what the target holds, and of fractions."""
    for dtype in DType:
        for target in DType:
            values = special(dtype)
            if target.is_float and dtype is not DType.bool_:
                values = np.concatenate([values, between(dtype, target)])
            elif dtype.is_float:
                fractions = [0.4, 0.7, 1.5, 2.5, 2.7, 7.9]
                values = np.concatenate([values, np.array(fractions).astype(dtype.numpy)])
            yield op_case(ops.Cast(target), values, family="cast", note=f"→ {target.short}")


def bitcasts() -> Iterator[Case]:
    """Yield bits read as another dtype: all of small dtypes, and those of special values."""
    for dtype, target in product(DType, DType):
        if dtype.itemsize == target.itemsize and target is not DType.bool_:
            values = every(dtype)
            if values is None:
                values = np.concatenate([special(dtype), corners(dtype)])
            note = f"→ {target.short}"
            yield op_case(ops.Bitcast(target), values, family="bits", note=note)


def sources() -> Iterator[Case]:
    """Yield constants, counts and random numbers."""
    for dtype in DType:
        writer = CaseWriter()
        chosen = {"float": [0, 7, 8, 11, 12, 13, 14, 15], "int": [1, 6, 8], "bool": [0, 1]}
        few = special(dtype)[chosen[dtype.kind]]
        values: list[Scalar] = [v.item() if not dtype.is_float else float(v) for v in few]
        constants = [writer.add(ops.Constant(value, dtype, (2,))) for value in values]
        name = f"constant {dtype.short}[2] special"
        yield Case(name, "source", writer.graph(*constants), (CaseRun({}, {}),), op="constant")
        if dtype is not DType.bool_:
            for size in (0, 1, 300) if dtype is F32 else (300,):
                yield op_case(ops.Iota(dtype, (size,)), family="source")
    for shape in ((), (0, 3), (1, 2, 2)):
        yield op_case(ops.Constant(1.5, F32, shape), family="source")
    for seed, stream in ((0, 0), (1, 2), (2**63 + 5, 1)):
        yield op_case(ops.Random(seed, stream, (3, 5)), family="source", note=f"seed {seed}")
    for dtype in DType:
        writer = CaseWriter()
        given = writer.input(dtype, (3,))
        run = CaseRun({given.name: tame(dtype, (3,))}, {})
        yield Case(f"input {given.type}", "source", writer.graph(given), (run,), op="input")


def reductions() -> Iterator[Case]:
    """Yield sums and maxima: every dtype, axis and length that is cut in a different way."""
    for dtype in DType:
        for op in (ops.MaxReduce,) if dtype is DType.bool_ else (ops.MaxReduce, ops.SumReduce):
            for axis in (0, 1):
                drawn = tame(dtype, (5, 6))
                yield op_case(op(axis), drawn, family="reduction", note=f"axis {axis}")
            both = np.stack(pairs(dtype), axis=1)
            yield op_case(op(1), both, family="reduction", note="axis 1, special")
    sizes = (1, 8, 15, 17, 33, 130)
    shapes: list[tuple[int, tuple[int, ...]]] = [(0, (size, 3)) for size in sizes]
    shapes += [(1, (3, size)) for size in sizes]
    shapes += [(0, (0, 3)), (1, (0, 3)), (0, (1,)), (0, (0,))]
    shapes += [(axis, (2, 3, 2, 5)) for axis in range(4)]
    for op in (ops.SumReduce, ops.MaxReduce):
        for axis, shape in shapes:
            yield op_case(op(axis), tame(F32, shape), family="reduction", note=f"axis {axis}")


def indexing() -> Iterator[Case]:
    """Yield gather, scatter and update: dtypes of values and of indices, axes, equal indices."""
    x = tame(F32, (4, 3))
    for dtype in INTEGERS:
        where = np.array([[0, 3, 1], [3, 2, 0]]).astype(dtype.numpy)
        yield op_case(ops.Gather(0), x, where, family="indexing")
    where = np.array([[2, 0, 2, 1], [0, 0, 1, 2]])
    for dtype in DType:
        values, rows = tame(dtype, (2, 3)), tame(dtype, (2, 4), 1)
        yield op_case(ops.Gather(1), values, where, family="indexing")
        yield op_case(ops.Scatter(1, "set"), values, where, rows, family="indexing", note="set")
        if dtype is not DType.bool_:
            op = ops.Scatter(1, "add")
            yield op_case(op, values, where, rows, family="indexing", note="add")
        yield op_case(ops.Update(1, 1), values, values[:, :2][:, ::-1].copy(), family="indexing")
    none = np.zeros((0, 3), np.int64)
    yield op_case(ops.Gather(0), x, none, family="indexing")
    yield op_case(ops.Scatter(0, "set"), x, none, tame(F32, (0, 3)), family="indexing", note="set")
    yield op_case(ops.Scatter(0, "add"), x, none, tame(F32, (0, 3)), family="indexing", note="add")
    for axis, at, shape in ((0, 3, (1, 3)), (0, 0, (4, 3)), (0, 2, (0, 3)), (1, 2, (4, 1))):
        note = f"at {at} of axis {axis}"
        yield op_case(ops.Update(axis, at), x, tame(F32, shape, 1), family="indexing", note=note)


def views() -> Iterator[Case]:
    """Yield each view alone, on shapes that include empty and single axes."""
    table: list[tuple[Sequence[int], Sequence[Op]]] = [
        ((), [Reshape((1, 1)), Reshape(()), Permute(()), Expand(()), Flip(())]),
        ((6,), [Reshape((2, 3)), Reshape((3, 1, 2)), Flip((0,)), Pad((2,), (1,))]),
        ((6,), [Slice((1,), (6,), (2,)), Slice((2,), (2,), (1,)), Slice((5,), (6,), (9,))]),
        ((6,), [Window(0, 3, 1, 1), Window(0, 2, 2, 3), Window(0, 6, 1, 1)]),
        ((2, 3), [Reshape((6,)), Reshape((3, 2)), Flip((0, 1)), Flip((1,)), Permute((1, 0))]),
        ((2, 3), [Pad((1, 0), (0, 2)), Pad((0, 0), (0, 0)), Slice((0, 1), (2, 3), (1, 1))]),
        ((5, 3), [Window(0, 2, 2, 1), Window(1, 2, 1, 1)]),
        ((1, 3), [Expand((4, 3)), Expand((0, 3)), Expand((1, 3)), Reshape((3,))]),
        ((2, 1, 2), [Expand((2, 5, 2)), Permute((2, 0, 1)), Reshape((4,))]),
        ((0, 3), [Reshape((3, 0)), Permute((1, 0)), Flip((1,)), Pad((1, 0), (1, 0))]),
    ]
    table += [((2, 3, 4), [Permute(axes) for axes in permutations(range(3))])]
    for shape, listed in table:
        for op in listed:
            yield op_case(op, tame(F32, shape), family="view", note=fields_text(op))
    for dtype in DType:
        if dtype is not F32:
            for op in (Permute((1, 0)), Pad((0, 1), (1, 0)), Slice((0, 0), (2, 3), (1, 2))):
                yield op_case(op, tame(dtype, (2, 3)), family="view", note=fields_text(op))


def fields_text(op: Op) -> str:
    """Return an op's fields as Python writes them."""
    return repr(op).partition("(")[2].removesuffix(")")


def wrong_indices() -> Iterator[Case]:
    """Yield cases that must end in an error: an index out of range."""
    x = tame(F32, (4, 3))
    rows = tame(F32, (1, 3))
    for index in (4, -1):
        where = np.full((1, 3), index)
        yield op_case(ops.Gather(0), x, where, family="error", note=f"at {index}")
    yield op_case(ops.Scatter(0, "set"), x, np.full((1, 3), 4), rows, family="error", note="at 4")
