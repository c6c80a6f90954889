"""Inputs to try a graph on: ordinary ones, and ones that reveal faults at the edges.

The kinds of draws, in the order in which they are tried:

    normal       what the session has set, else normally distributed floats, indices
    positive     floats for roots and logarithms
    edges        zeros of both signs, subnormal numbers, the smallest normal one
    large        the largest numbers, and those that overflow when they are doubled or squared
    small        ordinary numbers, a thousand times smaller, so that a wrong summand shows
    wide         ordinary numbers, a thousand times larger
    low          all far below zero, which reveals a maximum that starts from a number
    high         all far above zero, likewise
    not finite   infinities and NaN among ordinary numbers
    rare         likewise, but few, so that most rows and columns have one or none
    tiny         all near the smallest normal number, so that results are subnormal
    least        all negative infinity, integers the smallest of their dtype: nothing is larger
    most         all infinity, likewise
    long         many ordinary numbers: symbolic dims are as large as time allows
    size 1       all of these, where the bounds of symbolic dims allow the size 1
    size 0       likewise; each symbolic dim by itself
    below        ordinary numbers with an index of -1, which the graph may refuse
    beyond       likewise, with an index equal to the size of an axis

Integers are drawn from the whole range of their dtype, except for indices. Where inputs are small,
those of the edges, the large and the not finite ones are drawn in turns, each with others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from luminal_lab.core.binding import bound_shape
from luminal_lab.core.dims import Symbol
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import ints
from luminal_lab.core.ops import Gather, HostCall, Scatter
from luminal_lab.core.ops.structure import Region
from luminal_lab.errors import DimError
from luminal_lab.passes.judge import limits_of

KINDS = (
    *("positive", "edges", "large", "small", "wide", "low", "high", "not finite"),
    *("rare", "tiny", "least", "most"),
)
"""The kinds of numbers that are tried at one size, beside ordinary ones."""
ASTRAY = "below", "beyond"
"""The kinds with an index out of range."""
WIDE = 1000
"""The factor between ordinary numbers and wide ones, and between small and ordinary ones."""
FAR = 1024
"""The factor between numbers far from zero and the largest number."""
MOST_SIZES = 4
"""The number of indexed axes whose sizes are drawn as indices."""
LEAST_SIZES = 3, 5, 9, 17, 33
"""The sizes of symbolic dims that are tried for large inputs."""
MANY, LARGE = 24, 4096
"""The wanted count of numbers in an input, and the largest accepted."""
LONG = 20011, 5003, 1031, 257, 67, 19
"""The sizes tried for all symbolic dims at once, large enough for several blocks and tasks."""
RARE = 16
"""One in this many numbers is not finite, where few are."""
MOST = 1 << 20
"""The most elements that a graph's values may have at those sizes."""
TURNS, LITTLE = 5, 1 << 12
"""The most turns of a kind, and up to how many elements of all inputs there are any."""
MOST_SYMBOLS = 4
"""The number of symbolic dims that are drawn empty, one at a time."""


@dataclass(frozen=True)
class Given:
    """The session's data and sizes for the inputs of a check."""

    data: Mapping[int, Array] = field(default_factory=dict[int, Array])
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    functions: Mapping[str, Callable[..., object]] = field(
        default_factory=dict[str, Callable[..., object]]
    )
    weights: Mapping[int, str] = field(default_factory=dict[int, str])
    """The inputs that are parameters, each with its storage form."""


class Sample(NamedTuple):
    """Inputs for one run."""

    kind: str
    data: Mapping[int, Array]
    dims: Mapping[str, int]


def drawn(ir: IR, given: Given, needed: Container[int]) -> tuple[dict[int, Array], dict[str, int]]:
    """Return data for the needed inputs, random where none is given, and all sizes."""
    rng, dims = np.random.default_rng(0), _usual(ir, given.dims)
    data: dict[int, Array] = {}
    for node in ir.inputs:
        if node.id in needed:
            shape = bound_shape(f"check: {node}", node.shape, dims)
            array = given.data.get(node.id)
            if array is None or array.shape != shape:
                array = _array(node, shape, "normal", _smallest_indexed(ir, dims), rng)
            data[node.id] = array
    return data, dims


def draws(ir: IR, given: Given, *, careful: bool = False) -> Iterator[Sample]:
    """Yield inputs of each kind; with `careful`, all integers are valid indices."""
    usual = _usual(ir, given.dims)
    wide = _wide(ir, given.dims)
    indices = {node.id for node in ir.inputs} if careful else _indices(ir)
    ways: list[tuple[str, dict[str, int], int | None, int]] = [("normal", usual, None, 0)]
    for kind in KINDS:
        ways += [(kind, wide, None, turn) for turn in range(_turns(ir, wide, kind))]
    ways += [("long", sizes, None, 0) for sizes in _long(ir, given.dims)]
    for size in (1, 0):
        possible = (sizes for sizes in _all_at(ir, usual, size) if _are_possible(ir, sizes))
        ways += [(f"size {size}", sizes, None, 0) for sizes in possible]
    beyond = sorted({*_indexed(ir, usual)})[:MOST_SIZES]
    if indices and not careful:
        ways += [("below" if index < 0 else "beyond", usual, index, 0) for index in (-1, *beyond)]
    for number, (kind, dims, astray, turn) in enumerate(ways):
        rng = np.random.default_rng(number + 1)
        smallest = _smallest_indexed(ir, dims)
        data: dict[int, Array] = {}
        for position, node in enumerate(ir.inputs):
            shape = bound_shape(f"check: {node}", node.shape, dims)
            known = given.data.get(node.id) if kind == "normal" else None
            if known is None or known.shape != shape:
                is_index = node.id in indices
                is_ordinary = is_index or astray is not None
                own = "normal" if is_ordinary else kind
                known = _array(node, shape, own, smallest, rng, (position, turn))
                if is_index and astray is not None and known.size:
                    known.flat[rng.integers(known.size)] = astray
            data[node.id] = known
        yield Sample(kind, data, dims)


def within(ir: IR, sample: Sample) -> Iterator[Sample]:
    """Yield the same inputs with each valid index in place of the invalid ones."""
    indices, smallest = _indices(ir), _smallest_indexed(ir, sample.dims)
    for index in range(smallest):
        data = dict(sample.data)
        for id in indices:
            array = data[id].copy()
            array[~np.isin(array, np.arange(smallest))] = index
            data[id] = array
        yield sample._replace(data=data)


# -- sizes -----------------------------------------------------------------------------------------


def _sizes(ir: IR, given: Mapping[str, int], least: int) -> dict[str, int]:
    """Return small sizes within the bounds of the dims, distinct where possible."""
    sizes = dict(given)
    for position, symbol in enumerate(ir.symbols.values()):
        if symbol.name not in sizes:
            sizes[symbol.name] = _size(symbol, least + position)
    return sizes


def _usual(ir: IR, given: Mapping[str, int]) -> dict[str, int]:
    """Return small sizes at which no axis has a negative size."""
    first = _sizes(ir, given, 2)
    others = (_sizes(ir, given, least) for least in LEAST_SIZES)
    return next((sizes for sizes in (first, *others) if _are_possible(ir, sizes)), first)


def _are_possible(ir: IR, sizes: Mapping[str, int]) -> bool:
    try:
        return all(count >= 0 for count in _elements(ir, sizes))
    except DimError:
        return False


def _wide(ir: IR, given: Mapping[str, int]) -> dict[str, int]:
    """Return sizes at which even the smallest input with symbolic dims holds many numbers."""
    sizes = _usual(ir, given)
    for least in LEAST_SIZES:
        larger = _sizes(ir, given, least)
        if not _are_possible(ir, larger):
            continue
        shapes = [(node.shape, bound_shape(str(node), node.shape, larger)) for node in ir.inputs]
        if any(math.prod(shape) > LARGE for _, shape in shapes):
            break
        sizes = larger
        if all(math.prod(shape) >= MANY or known == shape for known, shape in shapes):
            break
    return sizes


def _long(ir: IR, given: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield a common size for all dims, if it is larger than those already tried."""
    for size in LONG:
        sizes = {symbol.name: _size(symbol, size) for symbol in ir.symbols.values()}
        if _are_possible(ir, sizes) and sum(_elements(ir, sizes)) <= MOST:
            if max(sizes.values(), default=0) > max(_wide(ir, given).values(), default=0):
                yield sizes
            return


def _elements(ir: IR, sizes: Mapping[str, int]) -> Iterator[int]:
    """Yield the number of elements of each value of a graph."""
    for node in ir.nodes:
        body = node.op.body_of()
        yield from _elements(body, sizes) if body is not None else ()
        yield math.prod(bound_shape(str(node), node.shape, sizes))


def _size(symbol: Symbol, wanted: int) -> int:
    step, high = symbol.multiple_of, symbol.high
    size = -(-max(symbol.low, wanted) // step)
    return step * (min(size, high // step) if isinstance(high, int) else size)


def _all_at(ir: IR, usual: Mapping[str, int], size: int) -> Iterator[dict[str, int]]:
    """Yield sizes with all dims at one size, then with a few dims at it one at a time."""
    able = [symbol for symbol in ir.symbols.values() if _size(symbol, size) == size]
    if size and able:
        yield {**usual, **{symbol.name: size for symbol in able}}
    elif not size:
        for symbol in able[:MOST_SYMBOLS]:
            yield {**usual, symbol.name: size}


# -- values ----------------------------------------------------------------------------------------


def _turns(ir: IR, dims: Mapping[str, int], kind: str) -> int:
    """Return after how many turns each small float input has had all corners of a kind."""
    shapes = [(node, bound_shape(f"check: {node}", node.shape, dims)) for node in ir.inputs]
    counts = [math.prod(shape) for node, shape in shapes if node.dtype.is_float]
    if sum(counts) > LITTLE:
        return 1
    corners = [_numbers(node.dtype).get(kind, ()) for node, _ in shapes if node.dtype.is_float]
    needed = (-(-len(all_) // _chosen(count)) for all_, count in zip(corners, counts, strict=True))
    return max(1, min(TURNS, max(needed, default=1)))


def _chosen(count: int) -> int:
    """Return how many of some numbers are chosen ones: two for each plain one."""
    return max(1, -(-2 * count // 3))


def _array(
    node: Node,
    shape: tuple[int, ...],
    kind: str,
    smallest: int,
    rng: np.random.Generator,
    turn: tuple[int, int] = (0, 0),
) -> Array:
    dtype = node.dtype
    if kind in ("least", "most"):
        low, high = (-np.inf, np.inf) if dtype.is_float else dtype.limits
        return np.full(shape, low if kind == "least" else high, dtype.numpy)
    if dtype is DType.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if not dtype.is_float:
        if kind == "normal":
            return rng.integers(0, smallest, shape).astype(dtype.numpy)
        return _integers(dtype, shape, rng)
    return np.asarray(_floats(dtype, shape, kind, rng, turn)).astype(dtype.numpy)


def _floats(
    dtype: DType,
    shape: tuple[int, ...],
    kind: str,
    rng: np.random.Generator,
    turn: tuple[int, int],
) -> Array:
    """Return numbers of a kind as float64."""
    sizes = {"small": 1 / WIDE, "wide": WIDE, "tiny": limits_of(dtype).normal}
    if kind in ("normal", "long", *sizes):
        return rng.standard_normal(shape) * sizes.get(kind, 1)
    if kind == "rare":
        ordinary = rng.standard_normal(shape)
        strange = rng.choice([np.nan, np.inf, -np.inf], shape)
        return np.where(rng.random(shape) < 1 / RARE, strange, ordinary)
    if kind == "positive":
        return np.exp2(rng.uniform(-2, 2, shape))
    if kind in ("low", "high"):
        far = rng.uniform(0.5, 1, shape) * (limits_of(dtype)[0] / FAR)
        return -far if kind == "low" else far
    numbers = _numbers(dtype)
    plain = numbers.pop("plain")
    chosen = numbers[kind] if kind in numbers else np.concatenate(list(numbers.values()))
    return _among(chosen, plain, shape, rng, turn)


def _among(
    chosen: Array,
    plain: Array,
    shape: tuple[int, ...],
    rng: np.random.Generator,
    turn: tuple[int, int],
) -> Array:
    """Return two chosen numbers for each plain one, using all before repeating any.

    The next turn of an input continues where the one before ended.
    """
    count, (position, number) = math.prod(shape), turn
    many = min(count, _chosen(count))
    order = np.random.default_rng(position).permutation(chosen)
    first = np.resize(np.roll(order, -number * many), many)
    return rng.permutation(np.concatenate([first, rng.choice(plain, count - many)])).reshape(shape)


def _integers(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    low, high = dtype.limits
    edges = [low, low + 1, -1 if low else 128, 0, 1, 2, 3, 7, high - 1, high]
    wide = np.int64 if low else np.uint64
    whole = rng.integers(low, high, shape, wide, endpoint=True)
    drawn = np.where(rng.random(shape) < 0.5, whole, rng.choice(np.array(edges, wide), shape))
    return np.asarray(drawn).astype(dtype.numpy)


def _numbers(dtype: DType) -> dict[str, Array]:
    """Return, as float64, numbers at which the arithmetic of a dtype changes."""
    most, normal, least, step = limits_of(dtype)
    root = most**0.5
    edges = [0.0, -0.0, normal, -normal, normal - least, least, -least, normal**0.5, 1 + step]
    large = [most, -most, most / 2, -most * 0.51, root * 1.01, -root * 1.01, root, 0.0]
    return {
        "plain": np.array([1.0, -1.0, 0.5, -2.0, 3.0, -0.75]),
        "edges": np.array(edges),
        "large": np.array(large),
        "not finite": np.array([np.inf, -np.inf, np.nan, 0.0]),
    }


# -- indices ---------------------------------------------------------------------------------------


def _indices(ir: IR) -> set[int]:
    """Return the integer inputs that become indices, or that user code reads."""
    todo: list[int] = []
    for node in ir.nodes:
        if isinstance(node.op, (Gather, Scatter)):
            todo.append(node.sources[1])
        elif isinstance(node.op, HostCall):
            todo += node.sources
        elif isinstance(node.op, Region):
            todo += [node.sources[position] for position in _indexing(node.op.body)]
    return _behind(ir, todo)


def _indexing(body: IR) -> list[int]:
    """Return which inputs of a body become indices."""
    indices = _indices(body)
    return [position for position, id in enumerate(body.input_ids) if id in indices]


def _behind(ir: IR, todo: list[int]) -> set[int]:
    behind: set[int] = set()
    while todo:
        id = todo.pop()
        if id not in behind and ir[id].dtype.kind == "int":
            behind.add(id)
            todo += ir[id].sources
    return {node.id for node in ir.inputs if node.id in behind}


def _smallest_indexed(ir: IR, dims: Mapping[str, int]) -> int:
    """Return the smallest size of an indexed axis: integers below it are valid indices."""
    return max(1, min([8, *_indexed(ir, dims)]))


def _indexed(ir: IR, dims: Mapping[str, int]) -> Iterator[int]:
    for node in ir.nodes:
        body = node.op.body_of()
        if isinstance(node.op, (Gather, Scatter)):
            shape = bound_shape(f"check: {node}", ir[node.sources[0]].shape, dims)
            yield ints(shape)[node.op.axis]
        elif body is not None:
            yield from _indexed(body, dims)
