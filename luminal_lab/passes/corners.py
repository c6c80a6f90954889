"""The values of each dtype at which arithmetic goes wrong, and the exact text of a value.

Corners round, overflow, underflow, wrap around or tie: they are the largest and smallest
values, subnormals, zeros, infinities, NaN, powers of two and whole numbers and a half, each with
its neighbours. A dtype of 8 or 16 bits has so few values that all of them can be tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from luminal_lab.bfloat import finfo
from luminal_lab.core.dtypes import BY_NUMPY, Array, DType
from luminal_lab.core.op import Scalar

SIMPLE = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 1e-40, 1e-30, -1e30, math.inf, -math.inf, math.nan)
"""Floats that are easy to read in a counterexample, and so are tried first."""
WHOLE = (0, 1, 2, 3, 5, -1, -2, -7, 100, 127, -128, 2**31 - 1, -(2**31))
POWERS = 300
"""About the number of powers of two among the corners of a float dtype."""
WIDTHS = (7, 8, 11, 15, 16, 23, 24, 31, 32, 52, 53, 62, 63)
"""The exponents of two at which some dtype ends, or no longer holds every whole number."""


class FloatLimits(NamedTuple):
    """The limits of a float dtype."""

    largest: float
    eps: float
    """The distance from 1 to the next value."""
    normal: float
    """The smallest normal number."""
    subnormal: float
    """The smallest number above 0."""
    lowest: int
    """The exponent of `subnormal`, to base 2."""
    beyond: int
    """The exponent at which the dtype overflows."""


@cache
def limits_of(dtype: DType) -> FloatLimits:
    """Return the limits of a float dtype."""
    info = finfo(dtype.numpy)
    ends = float(info.smallest_normal), float(info.smallest_subnormal)
    exponents = int(info.minexp) - int(info.nmant), int(info.maxexp)
    return FloatLimits(float(info.max), float(info.eps), *ends, *exponents)


def simple(dtype: DType) -> Array:
    """Return a few values of a dtype, the most readable first."""
    if dtype is DType.bool_:
        return np.asarray([False, True])
    return as_values(SIMPLE if dtype.is_float else WHOLE, dtype, distinct=False)


@cache
def corners(dtype: DType) -> Array:
    """Return all corners of a dtype, each once."""
    if dtype.kind == "bool":
        return np.asarray([False, True])
    if not dtype.is_float:
        return as_values(_whole_corners(dtype), dtype)
    top, eps, least, tiny, lowest, beyond = limits_of(dtype)
    step = max(1, (beyond - lowest) // POWERS)
    exponents = {*range(lowest, beyond, step), *range(-30, 30), *WIDTHS}
    exponents = sorted(k for k in exponents if lowest <= k < beyond)
    numbers = [math.ldexp(by, k) for k in exponents for by in (1.0, 1.5)]
    numbers += [0.0, top, least, tiny, math.sqrt(top), math.sqrt(least), top / 2, top / 3, 2 * tiny]
    numbers += [eps, 0.1, 1 / 3, 1e-30, 1e5, 1e10, 1e30, math.pi, math.e, math.log(2)]
    # Where the exponential overflows, becomes subnormal, and vanishes.
    numbers += [abs(k) + by for k in (lowest, lowest - 1, beyond, beyond - 1) for by in (0, 0.5)]
    numbers += [k + by for k in range(20) for by in (0, 0.5)]
    numbers += [2.0**k + by for k in WIDTHS for by in (-1, -0.5, 0.5, 1)]
    values = as_values(numbers, dtype)
    near = [values, *neighbours(values)]
    ends = as_values([math.inf, math.nan], dtype)
    return _distinct(np.concatenate([*near, *map(negatives, near), ends, negatives(ends)]))


def _whole_corners(dtype: DType) -> list[int]:
    low, high = dtype.limits
    root = math.isqrt(high)
    numbers = [*range(21), 100, high // 2, high // 3, *range(high - 2, high + 1), root, root + 1]
    numbers += [10**k for k in range(19)]
    numbers += [2**k + by for k in range(8 * dtype.itemsize) for by in (-1, 0, 1)]
    numbers += [low + 2, low + 3, low // 2, low // 3]
    signed = {sign * value for value in numbers for sign in (1, -1)}
    return sorted(value for value in {*signed, low, low + 1} if low <= value <= high)


@cache
def every(dtype: DType) -> Array | None:
    """Return all values of a small dtype, with every form of NaN."""
    if dtype.kind == "bool":
        return np.asarray([False, True])
    if dtype.itemsize > 2:
        return None
    bits = np.dtype(f"u{dtype.itemsize}")
    return np.arange(1 << 8 * dtype.itemsize).astype(bits).view(dtype.numpy)


def drawn(dtype: DType, count: int, rng: np.random.Generator) -> Array:
    """Return values drawn from all bit patterns, from corners, and from ordinary numbers."""
    if dtype is DType.bool_:
        return rng.random(count) < 0.5
    parts = np.array_split(np.arange(count), 4)
    bits = np.dtype(f"u{dtype.itemsize}")
    raw = rng.integers(0, np.iinfo(bits).max, len(parts[0]), dtype=bits, endpoint=True)
    pieces = [raw.view(dtype.numpy), rng.choice(corners(dtype), len(parts[1]))]
    with np.errstate(all="ignore"):
        if dtype.is_float:
            pieces += [
                rng.uniform(-16, 16, len(parts[2])).astype(dtype.numpy),
                rng.standard_normal(len(parts[3])).astype(dtype.numpy),
            ]
        else:  # of few bits and of many
            wide = rng.integers(0, np.iinfo(bits).max, len(parts[2]), dtype=bits, endpoint=True)
            shifts = rng.integers(0, 8 * dtype.itemsize, len(wide)).astype(bits)
            small = rng.integers(0 if dtype.is_unsigned else -9, 10, len(parts[3]))
            pieces += [(wide >> shifts).view(dtype.numpy), small.astype(dtype.numpy)]
    return rng.permutation(np.concatenate(pieces))


def near(dtype: DType, numbers: Iterable[Scalar]) -> Array:
    """Return the values that reach a corner in combination with given numbers, and neighbours."""
    given = [value for value in numbers if isinstance(value, (bool, int, float))]
    if dtype is DType.bool_ or not given:
        return np.asarray([], dtype.numpy)
    candidates: list[float | int] = []
    for value in given:
        candidates += [value, -value]
        if not math.isfinite(value):
            continue
        candidates += [value + 1, value - 1, value * 2]
        if not dtype.is_float:
            low, high = dtype.limits
            ends = [int(end / value) for end in (low, high) if value]
            candidates += [end + by for end in ends for by in (-1, 0, 1)]
            candidates += [low - value, high - value]
        elif value:
            largest, _, normal, subnormal, *_ = limits_of(dtype)
            with np.errstate(all="ignore"):
                ends = np.asarray([largest, normal, subnormal, 1]) / value
            candidates += ends.tolist()
    values = as_values(candidates, dtype)
    return _distinct(np.concatenate([values, *neighbours(values), *neighbours(negatives(values))]))


@cache
def constants(dtype: DType) -> tuple[Scalar, ...]:
    """Return the values to try for a rule's constants: simple ones, and corners."""
    if dtype.kind == "bool":
        return (False, True)
    first = simple(dtype)
    if not dtype.is_float:
        low, high = dtype.limits
        more = [4, 10, 16, 255, 256, 32767, 2**16, 2**24 + 1, 2**32, 2**53 + 1, high // 2 + 1]
        more += [high - 1, high, low, low + 1, -3, -100, *(2**k for k in (3, 5, 6, 15, 30, 62))]
        kept = as_values([value for value in more if low <= value <= high], dtype)
    else:
        largest, eps, *ends = limits_of(dtype)[:4]
        ends = [largest, *ends]
        more = [2, 4, 10, 0.1, 1 / 3, 1.5, -0.5, -3, 7, 1e4, 1e-4, math.pi, 1e10, 1e20, 255.5]
        more += [*ends, *(-end for end in ends), ends[0] / 2, ends[1] / 2, math.sqrt(ends[0])]
        more += [1 + eps, 1 - eps, 2.0**24 + 1, 2.0**31, 2.0**63]
        kept = as_values(more, dtype)
    values = np.concatenate([first, kept])
    once = {value.tobytes(): value for value in values}
    as_python = float if dtype.is_float else int
    # A graph keeps numbers as written and rounds them only when they are used.
    return (*map(as_python, once.values()), *((0.1, 1 / 3) if dtype.is_float else ()))


def as_values(numbers: Iterable[float], dtype: DType, *, distinct: bool = True) -> Array:
    """Return numbers as values of a dtype: floats are rounded, non-integers left out."""
    if dtype.is_float:
        with np.errstate(all="ignore"):
            values = np.asarray([_as_float(n) for n in numbers], np.float64).astype(dtype.numpy)
    else:
        low, high = dtype.limits
        whole = [int(n) for n in numbers if math.isfinite(n) and n == int(n)]
        values = np.asarray([n for n in whole if low <= n <= high], dtype.numpy)
    return _distinct(values) if distinct else values


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def neighbours(values: Array) -> tuple[Array, Array]:
    """Return the values one above and one below in the order of bits."""
    bits: npt.NDArray[np.unsignedinteger[Any]] = values.view(f"u{values.dtype.itemsize}")
    unit = bits.dtype.type(1)
    return (bits + unit).view(values.dtype), (bits - unit).view(values.dtype)


def negatives(values: Array) -> Array:
    """Return values with the other sign; the least integer is its own negative."""
    return np.negative(values)


def _distinct(values: Array) -> Array:
    bits = np.dtype(f"u{values.dtype.itemsize}")
    return np.unique(values.view(bits)).view(values.dtype)


# -- as text ---------------------------------------------------------------------------------------


def exactly(values: Array) -> object:
    """Return values as numbers or nested lists that restore exactly these when typed in again.

    >>> exactly(np.asarray([0.1, 1e-30], np.float32))
    [0.1, 1e-30]
    """
    dtype = BY_NUMPY[values.dtype]
    if not dtype.is_float:
        return values.tolist()
    if values.ndim:
        return [exactly(part) for part in values]
    wide = float(values)
    if math.isfinite(wide):
        for digits in range(1, 18):
            short = float(f"{wide:.{digits}g}")
            with np.errstate(all="ignore"):
                if np.asarray(short).astype(dtype.numpy) == values:
                    return short
    return wide
