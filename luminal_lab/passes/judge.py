"""The judge of values, for devices, passes, kernels and recordings.

`differences` compares arrays. Infinities and NaN must match in sign and kind; finite values may
differ by a share of their size.

Where the graph is known, `unexplained` also reads the same graph in other
ways, each with other choices wherever a licence, or an op, leaves one. Differences within the
spread of these readings, element by element, are no fault. All others are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from luminal_lab.bfloat import finfo
from luminal_lab.core.dtypes import BY_NUMPY, Array, DType
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Domain, Elementwise, Op, View
from luminal_lab.core.ops import (
    Add,
    Cast,
    MaxReduce,
    Mul,
    SumReduce,
)

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

TOLERANCE = {
    DType.float64: 1e-9,
    DType.float32: 1e-4,
    DType.float16: 2e-2,
    DType.bfloat16: 1e-1,
}
"""The relative tolerance where the order of roundings is open."""
TYPICAL = 8.0
"""The largest ratio of an array's typical value to its median."""
READINGS = 24
"""The most readings of a graph."""
WIDTH = 4.0
"""The tolerance as a multiple of the spread of a graph's readings."""
MIX = 0x9E3779B97F4A7C15
"""An odd number that spreads bits."""
SMALLER = 2.0**-64
"""The factor for terms that keeps their sums from overflowing."""
LANES = {2: 1, 6: 4, 10: 8, 14: 16}
"""The readings that add terms in sequence, each with its number of partial sums."""
MIXED = 8
"""From this reading on, each sum that may overflow does so independently."""
PARTS = 8.0
"""The most units in the last place, of all its terms, that a short sum may be off."""


class ArithmeticLimits(NamedTuple):
    """The limits of arithmetic in a float dtype."""

    most: float
    """The largest number."""
    normal: float
    """The smallest normal number."""
    least: float
    """The smallest positive number, with a single digit."""
    step: float
    """The distance from 1 to the next number."""


@cache
def limits_of(dtype: DType) -> ArithmeticLimits:
    """Return the limits of arithmetic in a float dtype."""
    about = finfo(dtype.numpy)
    given = about.max, about.smallest_normal, about.smallest_subnormal, about.eps
    return ArithmeticLimits(*map(float, given))


def differences(
    a: Array,
    b: Array,
    *,
    scaled: bool = False,
    least: float = 0.0,
    signs: bool = False,
    exact: bool = False,
) -> Bools:
    """Return where two arrays differ by more than another order of rounding explains.

    With `scaled`, small values among larger ones may be off by a share of a typical one, as in
    sums whose terms cancel. `least` is the tolerated share for rounding to a coarser dtype on
    the way; with `exact` only equal values match, with `signs` zeros match only if their
    signs do.
    """
    if a.shape != b.shape or a.dtype != b.dtype:
        return np.ones(a.shape if a.size else b.shape if b.size else (1,), bool)
    dtype = DType(a.dtype.name)
    if not dtype.is_float:
        return np.asarray(a != b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    same: Bools = np.asarray((x == y) | (np.isnan(x) & np.isnan(y)))
    if signs:
        same &= (np.signbit(x) == np.signbit(y)) | (x != 0)
    if not exact:
        finite = np.isfinite(x) & np.isfinite(y)
        size = np.where(finite, np.maximum(abs(x), abs(y)), 0.0)
        if scaled:
            size = np.maximum(size, typical(size))
        with np.errstate(over="ignore", invalid="ignore"):
            near = abs(x - y) <= max(TOLERANCE[dtype], least) * size
        same |= finite & near & ((x != y) | np.logical_not(signs))
    return np.logical_not(same)


def typical(values: Floats) -> float:
    """Return the root mean square, limited where a few values dominate it."""
    size = abs(values[np.isfinite(values)])
    largest = float(np.max(size, initial=0.0))
    if not largest:
        return 0.0
    root = largest * float(np.sqrt(np.mean((size / largest) ** 2)))
    return min(root, TYPICAL * float(np.median(size[size > 0])))


# -- what a graph leaves open ----------------------------------------------------------------------


class Freedom(NamedTuple):
    """The freedoms in a graph's values, besides the order of additions in sums."""

    signs: bool = False
    """The signs of zeros: the licence grants `no_signed_zero`."""
    order: bool = False
    """The order of roundings: the licence grants `reassociate`."""
    functions: bool = False
    """The last places of functions, and of unrounded terms of sums: a device computes them."""
    contract: bool = False
    """Whether products are added up unrounded: the licence grants `contract`."""
    factors: bool = False
    """Whether terms are multiplied before they are added up, as workers do: no sum is too large."""


class Readings:
    """The values of nodes in other readings of a graph, all as valid as the first.

    Readings are computed on demand. Known values are read as they are.
    """

    def __init__(
        self,
        ir: IR,
        environment: Environment,
        wanted: Iterable[int],
        freedom: Freedom,
        known: Mapping[int, Array] | None = None,
        most: int = READINGS,
    ) -> None:
        self.most = most
        self._ir, self._environment = ir, environment
        self._wanted, self._known = tuple(wanted), known
        self._freedom = freedom
        self._summed = frozenset(_summed(ir, freedom))
        self._values: list[dict[int, Array]] = []

    def of(self, id: int) -> Iterator[Array]:
        """Yield a node's values, one of each reading."""
        for number in range(self.most):
            if number == len(self._values):
                way = _Reading(self._freedom, number, self._summed, self._environment.dims)
                environment = self._environment._replace(altered=way)
                self._values.append(
                    interpret(self._ir, environment, wanted=self._wanted, known=self._known)
                )
            yield self._values[number][id]


def _summed(ir: IR, freedom: Freedom) -> Iterator[Node]:
    """Yield the nodes that a device need not round.

    It adds products and sums to outer sums directly, also past views; values on the way to a 16-bit
    float are computed in float32.
    """
    for node in ir.nodes:
        body = node.op.body_of()
        if body is not None:
            yield from _summed(body, freedom)
        if node.dtype.is_half and isinstance(node.op, Elementwise) and not ir.is_output(node):
            yield node
        if not isinstance(node.op, SumReduce):
            continue
        if freedom.factors:
            yield node
        todo = list(ir.sources(node))
        while todo:
            source = todo.pop()
            if isinstance(source.op, SumReduce) or (
                freedom.contract and isinstance(source.op, Mul)
            ):
                yield source
            elif isinstance(source.op, (View, Cast)):
                todo += ir.sources(source)


def unexplained(wrong: Bools, right: Array, value: Array, others: Iterable[Array]) -> Bools:
    """Return the differences that other readings of the graph do not explain."""
    if not wrong.any():
        return wrong
    if right.shape != value.shape or right.dtype != value.dtype:
        return wrong
    if not BY_NUMPY[right.dtype].is_float:
        for reading in others:
            wrong = wrong & np.asarray(reading == right)
            if not wrong.any():
                break
        return wrong
    x, y = right.astype(np.float64), value.astype(np.float64)
    is_open: Bools = np.zeros(x.shape, bool)  # whether readings differ in kind of number
    apart: Floats = np.zeros(x.shape)
    left = wrong
    for reading in others:
        z = reading.astype(np.float64)
        finite = np.isfinite(x) & np.isfinite(z)
        equal = (x == z) | (np.isnan(x) & np.isnan(z))
        is_open |= ~(finite | equal)
        is_open |= (x == 0) & (y == 0) & (np.signbit(x) != np.signbit(z))
        with np.errstate(all="ignore"):
            apart = np.maximum(apart, np.where(finite, abs(x - z), 0.0))
            near = np.isfinite(x) & np.isfinite(y) & (x != y) & (abs(x - y) <= WIDTH * apart)
        left = wrong & ~is_open & ~near
        if not left.any():
            break
    return left


class _Terms(NamedTuple):
    """A sum, or a view of one, with the scaled sums of its positive and negative terms."""

    value: Array
    up: Floats
    down: Floats


class _Reading:
    """A reading: takes each value that the interpreter computes, and returns one equally valid."""

    def __init__(
        self,
        freedom: Freedom,
        number: int,
        summed: frozenset[Node],
        dims: Mapping[str, int],
    ) -> None:
        self.dims = dims
        self.freedom = freedom
        self.summed = summed
        self.number = number
        self.rng = np.random.default_rng(number)
        self.terms: dict[int, _Terms] = {}
        self.unrounded: dict[int, Array] = {}
        """Products that are infinite only once they are rounded, by the ids of their arrays."""

    def __call__(self, node: Node, value: Array, sources: Sequence[Array | None]) -> Array:
        dtype = BY_NUMPY[value.dtype]
        given = [source for source in sources if source is not None]
        if not dtype.is_float or not value.size or len(given) < len(sources):
            return value
        op, result = node.op, value.astype(np.float64)
        inner = self.terms.get(id(given[0])) if given else None
        terms: tuple[Floats, Floats] | None = None
        if isinstance(op, SumReduce):
            terms = self._terms(given[0], inner, op.axis)
            result = self._summed(result, given[0], op.axis, dtype, terms, is_inner=inner is None)
        elif isinstance(op, View) and inner is not None:
            view = op.bind(self.dims)
            up, down = (
                np.asarray(view.eval(source), np.float64) for source in (inner.up, inner.down)
            )
            terms = up, down
        elif self._is_rounded_otherwise(node, given):
            # Below the smallest normal number all roundings have the same size.
            size = np.maximum(abs(result), limits_of(dtype).normal)
            is_rounded = np.isfinite(result) & ((result != 0) | _underflows(node, given))
            error = size * self._same_noise(result) * op.ulps * limits_of(dtype).step
            # What is not rounded stays as it is: -0.0 + 0.0 would be 0.0.
            result = np.where(is_rounded, result + error, result)
        is_stored_sum = isinstance(op, SumReduce) and node not in self.summed
        is_unrounded = False
        if self._is_free and self.number % 8 >= 4 and not is_stored_sum:
            # An unrounded value is not infinite just because it is large.
            is_kept = (
                _all_finite(node, given)
                if node in self.summed
                else np.isfinite(value.astype(np.float64))
            )
            most = limits_of(dtype).most
            is_unrounded = node in self.summed and bool((is_kept & np.isinf(result)).any())
            result = np.where(is_kept, np.clip(result, -most, most), result)
        if self.freedom.signs or isinstance(op, (SumReduce, MaxReduce)):
            # No op fixes which zero a sum begins with, or which of two zeros is the largest.
            result = np.where(
                result == 0, np.copysign(result, self._signs(op, result, given)), result
            )
        result = np.asarray(result).astype(value.dtype, copy=False).reshape(value.shape)
        if terms is not None:
            self.terms[id(result)] = _Terms(result, *terms)
        if is_unrounded:
            self.unrounded[id(result)] = result
        return result

    def _terms(self, x: Array, inner: _Terms | None, axis: int) -> tuple[Floats, Floats]:
        """Return the sums of the positive and of the negative terms of a sum.

        A device adds the terms of sums of sums in any order, too.
        """
        if inner is None:
            wide = x.astype(np.float64)
            wide = np.where(np.isfinite(wide), wide, 0.0) * SMALLER  # their sums are finite
            inner = _Terms(x, np.maximum(wide, 0), np.maximum(-wide, 0))
        return np.sum(inner.up, axis, keepdims=True), np.sum(inner.down, axis, keepdims=True)

    @property
    def _is_plain(self) -> bool:
        """Whether this reading changes only the signs of zeros, all to plus or all to minus."""
        return self.freedom.signs and self.number < 2

    @property
    def _is_free(self) -> bool:
        return self.freedom.order or self.freedom.functions

    def _is_rounded_otherwise(self, node: Node, sources: Sequence[Array]) -> bool:
        """Return whether another evaluation of an op may differ in the last place."""
        op = node.op
        if not self._is_free or self._is_plain or not isinstance(op, Elementwise):
            return False
        if isinstance(op, Cast):
            return BY_NUMPY[sources[0].dtype].is_float and sources[0].dtype != node.dtype.numpy
        if isinstance(op, (Add, Mul)):
            exact = 0 if isinstance(op, Add) else 1
            if any((abs(source.astype(np.float64)) == exact).all() for source in sources):
                return False
        if op.ulps == 1:
            return self.freedom.order or node in self.summed
        return op.ulps > 0

    def _same_noise(self, values: Floats) -> Floats:
        """Return numbers from -1 to 1, the same for equal values, so that these stay equal."""
        bits = np.asarray(values, order="C").view(np.uint64)
        # A number is added first, so that zero is spread like all others.
        mixed = (bits ^ (bits >> np.uint64(29))) + np.uint64(MIX * (self.number + 1) % 2**64)
        mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(MIX * (2 * self.number + 1) % 2**64)
        return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0

    def _noise(self, shape: tuple[int, ...], size: float) -> Floats:
        return self.rng.uniform(-size, size, shape)

    def _signs(self, op: Op, values: Floats, sources: Sequence[Array]) -> Floats:
        """Return the signs of zeros: all the same, or drawn, or those of sums that begin with -0.

        Draws alone would hardly ever find the last way where it takes many zeros at once.
        """
        if self._is_plain:
            return np.full(values.shape, 1.0 - 2.0 * self.number)
        if self.number % 4 < 3:
            return self.rng.choice([1.0, -1.0], values.shape)
        if isinstance(op, SumReduce):
            is_down = (np.signbit(sources[0]) & (sources[0] == 0)).all(op.axis, keepdims=True)
            return np.where(is_down, -1.0, 1.0)
        return np.copysign(1.0, values)

    def _summed(
        self,
        values: Floats,
        x: Array,
        axis: int,
        dtype: DType,
        terms: tuple[Floats, Floats],
        *,
        is_inner: bool,
    ) -> Floats:
        """Return a sum with its terms added in another order, which may overflow on the way."""
        count = x.shape[axis]
        is_short = count <= 2 and is_inner  # a single order, and a single rounding
        if self._is_plain or (is_short and id(x) not in self.unrounded):
            return values
        wide = DType.float32 if dtype.is_half else dtype
        up, down = terms
        size = up + down
        noise = self._noise(size.shape, max(PARTS, count**0.5) * limits_of(wide).step)
        if dtype.is_half and self._is_free and not is_short:
            values = values + values * self._same_noise(values) * limits_of(dtype).step
        limit = limits_of(wide).most * SMALLER
        over, under = up >= limit, down >= limit
        near = np.where(np.isfinite(values), values * SMALLER, up - down) + noise * size
        lanes = LANES.get(self.number)
        if lanes is not None:
            ordered = _added(x.astype(wide.numpy), axis, lanes).astype(np.float64)
            near = np.where(np.isfinite(ordered), ordered * SMALLER, near)
        inner = values if is_short else np.where(np.isfinite(values), near * 2.0**64, values)
        # In the first readings all sums overflow alike, in later ones each independently.
        ways = np.full(near.shape, self.number % 4.0)
        if self.number >= MIXED:
            kinds = 4 if self.number % 8 < 4 else 3
            ways = np.floor(kinds / 2 * (self._same_noise(near) + 1.0))
        ends = near * 2.0**64
        ends = np.where((ways == 1) & over, np.inf, ends)
        ends = np.where((ways == 2) & under, -np.inf, ends)
        ends = np.where((ways == 3) & over & under, np.nan, ends)
        is_up, is_down = ((x == end).any(axis, keepdims=True) for end in (np.inf, -np.inf))
        is_nan = np.isnan(x).any(axis, keepdims=True)
        # An infinite term comes first, or meets the infinity that the others add up to.
        with np.errstate(invalid="ignore"):
            met = np.where(is_up, np.inf, 0.0) - np.where(is_down, np.inf, 0.0)
            ends = met + np.where((met != 0) & (ways == 0), 0.0, ends)
        return np.where((over | under) & ~is_nan, ends, inner)


def _added(x: Array, axis: int, lanes: int) -> Array:
    """Return a sum of `lanes` partial sums, each added from its first term to its last.

    Only real roundings show whether a sum equals another number exactly.
    """
    terms = np.moveaxis(x, axis, 0)
    missing = -len(terms) % lanes
    terms = np.concatenate([terms, np.zeros((missing, *terms.shape[1:]), x.dtype)])
    terms = terms.reshape(-1, lanes, *terms.shape[1:])
    for _ in range(2):
        terms = np.add.accumulate(terms, 0)[-1]
    return np.expand_dims(terms, axis)


def _underflows(node: Node, sources: Sequence[Array]) -> Bools:
    """Return where a zero may be the result of underflow."""
    if isinstance(node.op, (Add, Cast)):
        return np.asarray(False)
    wide = [source.astype(np.float64) for source in sources]
    return np.logical_and.reduce([np.isfinite(array) & (array != 0) for array in wide])


def _all_finite(node: Node, sources: Sequence[Array]) -> Bools:
    """Return where all operands of a product or a sum are finite."""
    axis = node.op.axis if isinstance(node.op, SumReduce) else None
    finite = [np.isfinite(source.astype(np.float64)) for source in sources]
    if axis is not None:
        finite = [mask.all(axis, keepdims=True) for mask in finite]
    return np.logical_and.reduce(finite)


def is_outside(domain: Domain, value: Array) -> Bools:
    """Return which elements are not in the domain of an op."""
    outside = {"nonzero": np.equal, "non_negative": np.less}[domain]
    return np.asarray(outside(value, 0), bool)


def is_subnormal(value: Array) -> Bools:
    """Return which floats are smaller than the smallest normal number, and not 0."""
    return _is_below_normal(_magnitude(value), DType(value.dtype.name))


def _magnitude(value: Array) -> npt.NDArray[np.floating]:
    """Return the sizes of numbers, in a dtype that NumPy compares fast."""
    is_fast = value.dtype.name in ("float32", "float64")
    size: npt.NDArray[np.floating] = np.abs(value if is_fast else value.astype(np.float64))
    return size


def _is_below_normal(size: npt.NDArray[np.floating], dtype: DType) -> Bools:
    return np.asarray((size > 0) & (size < limits_of(dtype).normal))


def broken_facts(node: Node, value: Array, sources: Sequence[Array | None]) -> Iterator[str]:
    """Yield the grantable facts that a value violates."""
    if not node.dtype.is_float:
        return
    size = _magnitude(value)
    largest = size.max(initial=0)  # NaN, if there is one
    if np.isnan(largest):
        yield "no_nan"
    if np.isinf(largest) or (np.isnan(largest) and np.isinf(size).any()):
        yield "no_inf"
    if _is_below_normal(size, node.dtype).any():
        yield "no_subnormal"
    domain = node.op.domain
    source = None if domain == "anywhere" else sources[-1]
    if source is not None and is_outside(domain, source).any():
        yield domain
