"""Whether values are as they must be: the one judge of devices, passes, kernels and recordings.

`differences` compares arrays. What is infinite or NaN must be so in the other one too, in sign and
kind; finite values may be apart by a share of their size.

Where the graph is known, `unexplained` asks it before it accuses: the same graph is read in other
ways, each with other choices wherever a licence, or an op, leaves one. Differences between these
readings are nobody's fault, element by element. All others are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt

from luminal_lab.core.dtypes import BY_NUMPY, Array, DType
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Domain, Elementwise, View
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
"""How far two values may be apart, of the larger one, where the order of roundings is open."""
TYPICAL = 8.0
"""How many times the median an array's typical value may be, however large a few others are."""
READINGS = 24
"""In how many other ways a graph is read, at most."""
WIDTH = 4.0
"""How far values may be apart, in distances between the readings of a graph."""
MIX = 0x9E3779B97F4A7C15
"""An odd number that spreads bits."""
SMALLER = 2.0**-64
"""By what terms are multiplied so that no sum of them overflows."""
LANES = {2: 1, 6: 4, 10: 8, 14: 16}
"""The readings that add up terms one after another, and in how many partial sums."""
MIXED = 8
"""From this reading on sums that may overflow do so each in a way of its own."""
PARTS = 8.0
"""How many units in the last place of all its terms a short sum may be off."""


class Limits(NamedTuple):
    """Where the arithmetic of a dtype of floats ends."""

    most: float
    """The largest number."""
    normal: float
    """The smallest that has all digits."""
    least: float
    """The smallest at all, which has one."""
    step: float
    """The distance from 1 to the next number."""


def limits_of(dtype: DType) -> Limits:
    """Return where the arithmetic of a dtype of floats ends."""
    about = cast("Any", ml_dtypes.finfo(dtype.numpy))
    given = about.max, about.smallest_normal, about.smallest_subnormal, about.eps
    return Limits(*map(float, given))


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

    With `scaled`, what is small among larger values may be off by a share of a typical one, as
    sums are whose terms cancel. With `least`, a share, what was rounded to a coarser dtype on the
    way explains that much; with `exact` only equal values are equal, with `signs` zeros only if
    their signs are.
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
    """Return the root of the mean square, unless it is that of a few values among smaller ones."""
    size = abs(values[np.isfinite(values)])
    largest = float(np.max(size, initial=0.0))
    if not largest:
        return 0.0
    root = largest * float(np.sqrt(np.mean((size / largest) ** 2)))
    return min(root, TYPICAL * float(np.median(size[size > 0])))


# -- what a graph leaves open ----------------------------------------------------------------------


class Freedom(NamedTuple):
    """What is left open about the values of a graph, beside the order in which sums are added."""

    signs: bool = False
    """The signs of zeros: the licence grants `no_signed_zero`."""
    order: bool = False
    """In which order ops round: the licence grants `reassociate`."""
    functions: bool = False
    """The last places of functions, and of what is added up unrounded: a device computes it."""
    contract: bool = False
    """Whether products are added up unrounded: the licence grants `contract`."""


class Readings:
    """The values of nodes in other readings of a graph, all of them as good as the first.

    Each is made when somebody asks for it. Values that are known are read as they are.
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
        self._made: list[dict[int, Array]] = []

    def of(self, id: int) -> Iterator[Array]:
        """Yield a node's values, one of each reading."""
        for number in range(self.most):
            if number == len(self._made):
                way = _Reading(self._freedom, number, self._summed, self._environment.dims)
                environment = self._environment._replace(altered=way)
                self._made.append(
                    interpret(self._ir, environment, wanted=self._wanted, known=self._known)
                )
            yield self._made[number][id]


def _summed(ir: IR, freedom: Freedom) -> Iterator[Node]:
    """Yield what a device need not round.

    Products and sums that sums read, also past views, it adds as it goes; what is on the way to
    a 16-bit float is computed in float32.
    """
    for node in ir.nodes:
        body = node.op.body_of()
        if body is not None:
            yield from _summed(body, freedom)
        if node.dtype.is_half and isinstance(node.op, Elementwise) and not ir.is_output(node):
            yield node
        if not isinstance(node.op, SumReduce):
            continue
        todo = list(ir.sources(node))
        while todo:
            source = todo.pop()
            if isinstance(source.op, SumReduce) or (
                freedom.contract and isinstance(source.op, Mul)
            ):
                yield source
            elif isinstance(source.op, (View, Cast)):
                todo += ir.sources(source)


def unexplained(wrong: Bools, right: Array, found: Array, others: Iterable[Array]) -> Bools:
    """Return which differences are left that other readings of the graph do not show as well."""
    if not wrong.any():
        return wrong
    if right.shape != found.shape or right.dtype != found.dtype:
        return wrong
    if not BY_NUMPY[right.dtype].is_float:
        for other in others:
            wrong = wrong & np.asarray(other == right)
            if not wrong.any():
                break
        return wrong
    x, y = right.astype(np.float64), found.astype(np.float64)
    is_open: Bools = np.zeros(x.shape, bool)  # what kind of number it is
    apart: Floats = np.zeros(x.shape)
    left = wrong
    for other in others:
        z = other.astype(np.float64)
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
    """A sum, or a view of one, and what its positive and negative terms come to, made smaller."""

    value: Array
    up: Floats
    down: Floats


class _Reading:
    """Takes each value of a graph as the interpreter computes it, and returns one as good."""

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

    def __call__(self, node: Node, value: Array, sources: Sequence[Array | None]) -> Array:
        dtype = BY_NUMPY[value.dtype]
        given = [one for one in sources if one is not None]
        if not dtype.is_float or not value.size or len(given) < len(sources):
            return value
        op, made = node.op, value.astype(np.float64)
        inner = self.terms.get(id(given[0])) if given else None
        terms: tuple[Floats, Floats] | None = None
        if isinstance(op, SumReduce):
            terms = self._terms(given[0], inner, op.axis)
            made = self._summed(made, given[0], op.axis, dtype, terms, is_inner=inner is None)
        elif isinstance(op, View) and inner is not None:
            view = op.bind(self.dims)
            up, down = (np.asarray(view.eval(one), np.float64) for one in (inner.up, inner.down))
            terms = up, down
        elif self._is_rounded_otherwise(node, given):
            # Below the smallest normal number roundings are of one size.
            size = np.maximum(abs(made), limits_of(dtype).normal)
            is_rounded = np.isfinite(made) & ((made != 0) | _underflows(node, given))
            size = np.where(is_rounded, size, 0.0)
            made = made + size * self._same_noise(made) * op.ulps * limits_of(dtype).step
        is_stored_sum = isinstance(op, SumReduce) and node not in self.summed
        if self._is_free and self.number % 8 >= 4 and not is_stored_sum:
            # What is never rounded is not infinite because it is large.
            is_kept = (
                _all_finite(node, given)
                if node in self.summed
                else np.isfinite(value.astype(np.float64))
            )
            most = limits_of(dtype).most
            made = np.where(is_kept, np.clip(made, -most, most), made)
        if self.freedom.signs or isinstance(op, (SumReduce, MaxReduce)):
            # Which zero a sum begins with, and which of two is the largest, no op says.
            made = np.where(made == 0, np.copysign(made, self._signs(made)), made)
        made = np.asarray(made).astype(value.dtype, copy=False).reshape(value.shape)
        if terms is not None:
            self.terms[id(made)] = _Terms(made, *terms)
        return made

    def _terms(self, x: Array, inner: _Terms | None, axis: int) -> tuple[Floats, Floats]:
        """Return what the positive terms of a sum come to, and the negative ones.

        A device adds the terms of sums of sums in any order, too.
        """
        if inner is None:
            wide = x.astype(np.float64)
            wide = np.where(np.isfinite(wide), wide, 0.0) * SMALLER  # sums of these are finite
            inner = _Terms(x, np.maximum(wide, 0), np.maximum(-wide, 0))
        return np.sum(inner.up, axis, keepdims=True), np.sum(inner.down, axis, keepdims=True)

    @property
    def _is_plain(self) -> bool:
        """Whether nothing is other than the signs of zeros: all are positive, or negative."""
        return self.freedom.signs and self.number < 2

    @property
    def _is_free(self) -> bool:
        return self.freedom.order or self.freedom.functions

    def _is_rounded_otherwise(self, node: Node, sources: Sequence[Array]) -> bool:
        """Return whether another evaluation of an op may come to another last place."""
        op = node.op
        if not self._is_free or self._is_plain or not isinstance(op, Elementwise):
            return False
        if isinstance(op, Cast):
            return BY_NUMPY[sources[0].dtype].is_float and sources[0].dtype != node.dtype.numpy
        if isinstance(op, (Add, Mul)):
            exact = 0 if isinstance(op, Add) else 1
            if any((abs(one.astype(np.float64)) == exact).all() for one in sources):
                return False
        if op.ulps == 1:
            return self.freedom.order or node in self.summed
        return op.ulps > 0

    def _same_noise(self, made: Floats) -> Floats:
        """Return numbers from -1 to 1, the same for the same value: what is equal stays equal."""
        bits = np.asarray(made, order="C").view(np.uint64)
        # Zero is spread like all others: something is added to it first.
        mixed = (bits ^ (bits >> np.uint64(29))) + np.uint64(MIX * (self.number + 1) % 2**64)
        mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(MIX * (2 * self.number + 1) % 2**64)
        return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0

    def _noise(self, shape: tuple[int, ...], size: float) -> Floats:
        return self.rng.uniform(-size, size, shape)

    def _signs(self, made: Floats) -> Floats:
        if self._is_plain:
            return np.full(made.shape, 1.0 - 2.0 * self.number)
        return self.rng.choice([1.0, -1.0], made.shape)

    def _summed(
        self,
        made: Floats,
        x: Array,
        axis: int,
        dtype: DType,
        terms: tuple[Floats, Floats],
        *,
        is_inner: bool,
    ) -> Floats:
        """Return a sum whose terms were added in another order, which may overflow on the way."""
        count = x.shape[axis]
        if (count <= 2 and is_inner) or self._is_plain:  # there is one order, and one rounding
            return made
        wide = DType.float32 if dtype.is_half else dtype
        up, down = terms
        size = up + down
        noise = self._noise(size.shape, max(PARTS, count**0.5) * limits_of(wide).step)
        if dtype.is_half and self._is_free:
            made = made + made * self._same_noise(made) * limits_of(dtype).step
        limit = limits_of(wide).most * SMALLER
        over, under = up >= limit, down >= limit
        near = np.where(np.isfinite(made), made * SMALLER, up - down) + noise * size
        lanes = LANES.get(self.number)
        if lanes is not None:
            ordered = _added(x.astype(wide.numpy), axis, lanes).astype(np.float64)
            near = np.where(np.isfinite(ordered), ordered * SMALLER, near)
        inner = np.where(np.isfinite(made), near * 2.0**64, made)
        # In the first readings all sums end alike, in later ones each in a way of its own.
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
        # An infinity that is a term itself comes first, or meets the one that others come to.
        with np.errstate(invalid="ignore"):
            met = np.where(is_up, np.inf, 0.0) - np.where(is_down, np.inf, 0.0)
            ends = met + np.where((met != 0) & (ways == 0), 0.0, ends)
        return np.where((over | under) & ~is_nan, ends, inner)


def _added(x: Array, axis: int, lanes: int) -> Array:
    """Return a sum by so many partial ones, each added up from its first term to its last.

    Whether a sum equals another number exactly, only real roundings show.
    """
    terms = np.moveaxis(x, axis, 0)
    missing = -len(terms) % lanes
    terms = np.concatenate([terms, np.zeros((missing, *terms.shape[1:]), x.dtype)])
    terms = terms.reshape(-1, lanes, *terms.shape[1:])
    for _ in range(2):
        terms = np.add.accumulate(terms, 0)[-1]
    return np.expand_dims(terms, axis)


def _underflows(node: Node, sources: Sequence[Array]) -> Bools:
    """Return where a zero may be what is left of a number too small to be one."""
    if isinstance(node.op, (Add, Cast)):
        return np.asarray(False)
    wide = [one.astype(np.float64) for one in sources]
    return np.logical_and.reduce([np.isfinite(one) & (one != 0) for one in wide])


def _all_finite(node: Node, sources: Sequence[Array]) -> Bools:
    """Return where a product or a sum is one of finite numbers."""
    axis = node.op.axis if isinstance(node.op, SumReduce) else None
    finite = [np.isfinite(one.astype(np.float64)) for one in sources]
    if axis is not None:
        finite = [one.all(axis, keepdims=True) for one in finite]
    return np.logical_and.reduce(finite)


def is_outside(domain: Domain, value: Array) -> Bools:
    """Return which elements are not in the domain of an op."""
    outside = {"nonzero": np.equal, "non_negative": np.less}[domain]
    return np.asarray(outside(value, 0), bool)


def broken_facts(node: Node, value: Array, sources: Sequence[Array | None]) -> Iterator[str]:
    """Yield the facts that licences may grant, and that do not hold of a value."""
    if not node.dtype.is_float:
        return
    if np.isnan(value.astype(np.float64)).any():
        yield "no_nan"
    if np.isinf(value.astype(np.float64)).any():
        yield "no_inf"
    domain = node.op.domain
    source = None if domain == "anywhere" else sources[-1]
    if source is not None and is_outside(domain, source).any():
        yield domain
