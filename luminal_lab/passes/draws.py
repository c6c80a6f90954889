"""Inputs to try a graph on: ordinary ones, and those that break what is wrong at the edges.

The kinds of draws, in the order in which they are tried:

    normal       what the session has set, else normally distributed floats, indices
    positive     floats of which roots and logarithms are taken
    edges        zeros of both signs, subnormal numbers, the smallest normal one
    large        the largest numbers, and those that overflow when they are doubled or squared
    small        ordinary numbers, a thousand times smaller: what is added to them shows
    wide         ordinary numbers, a thousand times larger
    low          all far below zero, where a maximum shows that begins at some number
    high         all far above zero, likewise
    not finite   infinities and NaN among ordinary numbers
    rare         likewise, but few, so that most rows and columns have one of them or none
    tiny         all about the smallest normal number: where results are subnormal ones
    least        all infinite below zero, integers the least there are: where nothing is the largest
    most         all infinite above zero, likewise
    long         ordinary numbers, many of them: symbolic dims are as large as there is time for
    size 1       all of these, where the bounds of symbolic dims allow the size 1
    size 0       likewise; each symbolic dim by itself
    below        ordinary numbers, but that an index is -1, which the graph may refuse
    beyond       likewise, with an index that is the size of an axis

Integers are drawn from the whole range of their dtype, but for those that come to be indices.
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
"""The kinds in which an index is no position."""
WIDE = 1000
"""How many times wide numbers are larger than ordinary ones, and small ones smaller."""
FAR = 1024
"""How many times the largest number is larger than those that lie far from zero."""
MOST_SIZES = 4
"""How many sizes of axes that are indexed are drawn as indices."""
LEAST_SIZES = 3, 5, 9, 17, 33
"""The sizes of symbolic dims that are tried to have room for many numbers."""
MANY, LARGE = 24, 4096
"""How many numbers an input should hold, and how many are too many."""
LONG = 20011, 5003, 1031, 257, 67, 19
"""The sizes that all symbolic dims are tried to have: what is cut into tasks has several."""
RARE = 16
"""Of how many numbers one is not finite, where few are."""
MOST = 1 << 20
"""How many elements the values of a graph may have then."""
MOST_SYMBOLS = 4
"""How many symbolic dims are drawn empty, one at a time."""


@dataclass(frozen=True)
class Given:
    """What a session knows that the inputs of a check should be like."""

    data: Mapping[int, Array] = field(default_factory=dict[int, Array])
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    functions: Mapping[str, Callable[..., object]] = field(
        default_factory=dict[str, Callable[..., object]]
    )
    weights: Mapping[int, str] = field(default_factory=dict[int, str])
    """The inputs that are parameters, and the form that each is marked to be stored in."""


class Drawn(NamedTuple):
    """Inputs for one run."""

    kind: str
    data: Mapping[int, Array]
    dims: Mapping[str, int]


def drawn(ir: IR, given: Given, needed: Container[int]) -> tuple[dict[int, Array], dict[str, int]]:
    """Return data for the needed inputs, ordinary numbers where none is given, and all sizes."""
    rng, dims = np.random.default_rng(0), _usual(ir, given.dims)
    data: dict[int, Array] = {}
    for node in ir.inputs:
        if node.id in needed:
            shape = bound_shape(f"check: {node}", node.shape, dims)
            one = given.data.get(node.id)
            if one is None or one.shape != shape:
                one = _array(node, shape, "normal", _smallest_indexed(ir, dims), rng)
            data[node.id] = one
    return data, dims


def draws(ir: IR, given: Given, *, careful: bool = False) -> Iterator[Drawn]:
    """Yield inputs of each kind; when careful, all integers are small enough to be indices."""
    usual = _usual(ir, given.dims)
    wide = _wide(ir, given.dims)
    indices = {node.id for node in ir.inputs} if careful else _indices(ir)
    ways = [("normal", usual, None), *((kind, wide, None) for kind in KINDS)]
    ways += [("long", sizes, None) for sizes in _long(ir, given.dims)]
    for size in (1, 0):
        possible = (sizes for sizes in _all_at(ir, usual, size) if _are_possible(ir, sizes))
        ways += [(f"size {size}", sizes, None) for sizes in possible]
    beyond = sorted({*_indexed(ir, usual)})[:MOST_SIZES]
    if indices and not careful:
        ways += [("below" if place < 0 else "beyond", usual, place) for place in (-1, *beyond)]
    for number, (kind, dims, astray) in enumerate(ways):
        rng = np.random.default_rng(number + 1)
        smallest = _smallest_indexed(ir, dims)
        data: dict[int, Array] = {}
        for node in ir.inputs:
            shape = bound_shape(f"check: {node}", node.shape, dims)
            known = given.data.get(node.id) if kind == "normal" else None
            if known is None or known.shape != shape:
                is_index = node.id in indices
                is_ordinary = is_index or astray is not None
                known = _array(node, shape, "normal" if is_ordinary else kind, smallest, rng)
                if is_index and astray is not None and known.size:
                    known.flat[rng.integers(known.size)] = astray
            data[node.id] = known
        yield Drawn(kind, data, dims)


def within(ir: IR, one: Drawn) -> Iterator[Drawn]:
    """Yield the same inputs with one of the positions that there are for each that is none."""
    indices, smallest = _indices(ir), _smallest_indexed(ir, one.dims)
    for place in range(smallest):
        data = dict(one.data)
        for id in indices:
            array = data[id].copy()
            array[~np.isin(array, np.arange(smallest))] = place
            data[id] = array
        yield one._replace(data=data)


# -- sizes -----------------------------------------------------------------------------------------


def _sizes(ir: IR, given: Mapping[str, int], least: int) -> dict[str, int]:
    """Return small sizes within the bounds of the dims, different ones where that can be."""
    sizes = dict(given)
    for place, symbol in enumerate(ir.symbols.values()):
        if symbol.name not in sizes:
            sizes[symbol.name] = _size(symbol, least + place)
    return sizes


def _usual(ir: IR, given: Mapping[str, int]) -> dict[str, int]:
    """Return small sizes at which no axis is of less than no elements."""
    first = _sizes(ir, given, 2)
    others = (_sizes(ir, given, least) for least in LEAST_SIZES)
    return next((sizes for sizes in (first, *others) if _are_possible(ir, sizes)), first)


def _are_possible(ir: IR, sizes: Mapping[str, int]) -> bool:
    try:
        return all(count >= 0 for count in _elements(ir, sizes))
    except DimError:
        return False


def _wide(ir: IR, given: Mapping[str, int]) -> dict[str, int]:
    """Return sizes at which even the smallest input that has symbolic dims holds many numbers."""
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
    """Yield one size for all dims that may have it, if it is larger than what was tried."""
    for size in LONG:
        sizes = {symbol.name: _size(symbol, size) for symbol in ir.symbols.values()}
        if _are_possible(ir, sizes) and sum(_elements(ir, sizes)) <= MOST:
            if max(sizes.values(), default=0) > max(_wide(ir, given).values(), default=0):
                yield sizes
            return


def _elements(ir: IR, sizes: Mapping[str, int]) -> Iterator[int]:
    """Yield how many elements each value of a graph has."""
    for node in ir.nodes:
        body = node.op.body_of()
        yield from _elements(body, sizes) if body is not None else ()
        yield math.prod(bound_shape(str(node), node.shape, sizes))


def _size(symbol: Symbol, wanted: int) -> int:
    step, high = symbol.multiple_of, symbol.high
    size = -(-max(symbol.low, wanted) // step)
    return step * (min(size, high // step) if isinstance(high, int) else size)


def _all_at(ir: IR, usual: Mapping[str, int], size: int) -> Iterator[dict[str, int]]:
    """Yield sizes with all dims at one size, or with each of a few by itself, where that can be."""
    able = [symbol for symbol in ir.symbols.values() if _size(symbol, size) == size]
    if size and able:
        yield {**usual, **{symbol.name: size for symbol in able}}
    elif not size:
        for symbol in able[:MOST_SYMBOLS]:
            yield {**usual, symbol.name: size}


# -- values ----------------------------------------------------------------------------------------


def _array(
    node: Node, shape: tuple[int, ...], kind: str, smallest: int, rng: np.random.Generator
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
    return _floats(dtype, shape, kind, rng).astype(dtype.numpy)


def _floats(dtype: DType, shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> Array:
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
    return _among(chosen, plain, shape, rng)


def _among(chosen: Array, plain: Array, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Return two numbers of those chosen for each plain one, all of them before one comes again."""
    count = math.prod(shape)
    many = -(-2 * count // 3)
    turns = [rng.permutation(chosen) for _ in range(-(-many // len(chosen)))]
    first = np.concatenate(turns)[:many] if turns else chosen[:0]
    return rng.permutation(np.concatenate([first, rng.choice(plain, count - many)])).reshape(shape)


def _integers(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    low, high = dtype.limits
    whole = rng.integers(low, high, shape, np.int64, endpoint=True)
    edges = [low, low + 1, -1 if low else 128, 0, 1, 2, 3, 7, high - 1, high]
    drawn = np.where(rng.random(shape) < 0.5, whole, rng.choice(np.array(edges, np.int64), shape))
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
    """Return the inputs of integers that come to be indices, or that code of others' is given."""
    todo: list[int] = []
    for node in ir.nodes:
        if isinstance(node.op, (Gather, Scatter)):
            todo.append(node.sources[1])
        elif isinstance(node.op, HostCall):
            todo += node.sources
        elif isinstance(node.op, Region):
            todo += [node.sources[place] for place in _indexing(node.op.body)]
    return _behind(ir, todo)


def _indexing(body: IR) -> list[int]:
    """Return which inputs of a body come to be indices."""
    found = _indices(body)
    return [place for place, id in enumerate(body.input_ids) if id in found]


def _behind(ir: IR, todo: list[int]) -> set[int]:
    found: set[int] = set()
    while todo:
        id = todo.pop()
        if id not in found and ir[id].dtype.kind == "int":
            found.add(id)
            todo += ir[id].sources
    return {node.id for node in ir.inputs if node.id in found}


def _smallest_indexed(ir: IR, dims: Mapping[str, int]) -> int:
    """Return below which number an integer is an index wherever one is used as such."""
    return max(1, min([8, *_indexed(ir, dims)]))


def _indexed(ir: IR, dims: Mapping[str, int]) -> Iterator[int]:
    for node in ir.nodes:
        body = node.op.body_of()
        if isinstance(node.op, (Gather, Scatter)):
            shape = bound_shape(f"check: {node}", ir[node.sources[0]].shape, dims)
            yield ints(shape)[node.op.axis]
        elif body is not None:
            yield from _indexed(body, dims)
