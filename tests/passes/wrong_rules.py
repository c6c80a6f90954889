"""Rules that are wrong in one corner only, each with that corner; and some that only look wrong."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from luminal_lab.core.dtypes import DType
from luminal_lab.core.ops import Cast, Expand, Flip, MaxReduce, Pad, Permute, Reshape, Slice, Update
from luminal_lab.passes.pattern import (
    cast,
    constants,
    exp2,
    fields,
    log2,
    max_reduce,
    op,
    recip,
    sqrt,
    sum_reduce,
    variables,
    where,
)
from luminal_lab.passes.proof import Counterexample
from luminal_lab.passes.rule import Rule

x, y, z, b = variables("x y z b")
c, d = constants("c d")
i, j, s, axis, at = fields("i j s axis at")
REAL = {"reassociate", "no_nan", "no_inf"}
F16, F32, F64, BF16 = DType.float16, DType.float32, DType.float64, DType.bfloat16
I8, I16, I32, I64, U8 = DType.int8, DType.int16, DType.int32, DType.int64, DType.uint8


@dataclass(frozen=True)
class Wrong:
    """A rule that is wrong in one corner, and what says whether values lie in it."""

    rule: Rule
    corner: Callable[[Counterexample], object]


def of(*dtypes: DType) -> Callable[..., bool]:
    """Return the condition that the result is of one of some dtypes."""
    return lambda match: match.dtype in dtypes


def from_(*dtypes: DType) -> Callable[..., bool]:
    """Return the condition that x is of one of some dtypes."""
    return lambda x: x.dtype in dtypes


def is_float(x: Any) -> bool:
    """Return whether x is a float."""
    return x.dtype.is_float


def is_int(x: Any) -> bool:
    """Return whether x is an integer, of whatever width."""
    return x.dtype.kind == "int"


def value(found: Counterexample, name: str = "x") -> Any:
    """Return the value of a variable or constant, typed in again."""
    return np.asarray(found.given[name], found.dtype.numpy)


def field(found: Counterexample, name: str) -> Any:
    """Return the value of a field."""
    return found.given[name]


def right(found: Counterexample) -> Any:
    """Return the value of the right side."""
    return found.right


def size(found: Counterexample, name: str = "x") -> float:
    """Return the size of a value as a float."""
    return abs(float(value(found, name)))


def largest(dtype: DType) -> float:
    """Return the largest finite value of a float dtype."""
    return float(ml_dtypes.finfo(dtype.numpy).max)


def least(dtype: DType) -> float:
    """Return the smallest normal value of a float dtype."""
    return float(ml_dtypes.finfo(dtype.numpy).smallest_normal)


def is_minus_zero(found: Counterexample, name: str = "x") -> bool:
    """Return whether a value is -0.0."""
    return str(found.given[name]) == "-0.0"


def is_empty(found: Counterexample) -> bool:
    """Return whether some array has no elements: it is shown as its type, with a size of 0."""
    texts = [str(found.left), *map(str, found.given.values())]
    return any("[" in text and "0" in text for text in texts)


# -- right sides that are calculated ---------------------------------------------------------------


def both_flips(x: Any, i: Any, j: Any) -> Any:
    """Flip what either flips, even what both do."""
    return op(Flip, x, axes=tuple(sorted({*i, *j})))


def other_order(x: Any, i: Any, j: Any) -> Any:
    """Compose two permutations in the wrong order."""
    return op(Permute, x, axes=tuple(j[k] for k in i))


def without_steps(x: Any, inner: Any, outer: Any) -> Any:
    """Compose two slices as if the inner one took every position."""
    pairs = list(zip(inner.start, outer.start, outer.stop, strict=True))
    starts, stops = ([a + k for a, *ends in pairs for k in ends[n : n + 1]] for n in (0, 1))
    return op(Slice(tuple(starts), tuple(stops), outer.step), x)


def mirrored(x: Any, inner: Any, outer: Any, match: Any) -> Any:
    """Slice before a flip, as if no position were skipped."""
    shape = match.type("x").shape
    if match.dtype.is_float or any(k not in inner.axes for k in range(len(shape))):
        return None
    ends = list(zip(shape, outer.start, outer.stop, strict=True))
    starts, stops = tuple(n - b for n, _, b in ends), tuple(n - a for n, a, _ in ends)
    return op(Flip, op(Slice(starts, stops, outer.step), x), axes=inner.axes)


def added_pads(x: Any, inner: Any, outer: Any) -> Any:
    """Pad once, and forget what the outer pad puts behind where the inner one puts nothing."""
    before = tuple(a + b for a, b in zip(inner.before, outer.before, strict=True))
    after = tuple(a + b if a else 0 for a, b in zip(inner.after, outer.after, strict=True))
    return op(Pad, x, before=before, after=after)


def reshaped(x: Any, i: Any, match: Any) -> Any:
    """Take a permutation for a reshape where at most two axes are not of size 1."""
    few = sum(size != 1 for size in match.type("x").shape) <= 2
    return op(Reshape, x, shape=match.root.shape) if few and len(i) == 3 else None


def flat(x: Any, i: Any, match: Any) -> Any:
    """Drop a flip of axes of at most two positions."""
    shape = match.type("x").shape
    return x if all(shape[k] <= 2 for k in i) else None


def one_of(x: Any, s: Any, axis: Any, match: Any) -> Any:
    """Take one of equal values, though there may be none."""
    fits = match.type("x").shape == match.root.shape and match.type("x").shape[axis] == 1
    return x if fits else None


def the_one(x: Any, axis: Any) -> Any:
    """Drop a sum along an axis of at most one position."""
    return x


def times(x: Any, c: Any, d: Any) -> Any:
    """Multiply the constants first."""
    return x * (c * d)


def has_step(found: Counterexample) -> bool:
    """Return whether some slice skips positions."""
    return any(
        any(step > 1 for step in steps)
        for name, steps in found.given.items()
        if name.endswith("step") and isinstance(steps, tuple)
    )


def rounds_half(x: Any) -> Any:
    """Return x rounded to a whole number, half to even, between 0 and 2^22, and else 0."""
    return where(x < 0, 0, where(x < 2.0**22, (x + 2.0**23) + -(2.0**23), 0))


def rounds_up(x: Any) -> Any:
    """Return x rounded to a whole number, half up, between 0 and 2^22, and else 0."""
    whole = cast(cast(x + 0.5, dtype=I32), dtype=F32)
    return where(x < 0, 0, where(x < 2.0**22, whole, 0))


def magnitude(x: Any) -> Any:
    """Return -x where x is negative, else x."""
    return where(x < 0, x * -1, x)


def product_overflows(found: Counterexample) -> bool:
    """Return whether an integer product is out of range."""
    low, high = found.dtype.limits
    return not low <= int(value(found)) * int(value(found, "y")) <= high


def constants_overflow(found: Counterexample) -> bool:
    """Return whether one side overflows on its way, and the other does not."""
    parts = [float(value(found, name)) for name in "xcd"]
    top = largest(found.dtype)
    pairs = [abs(parts[0] * parts[1]), abs(parts[1] * parts[2]), abs(np.prod(parts))]
    return any(pair >= top / 2 or np.isnan(pair) for pair in pairs)


def rows_of(found: Counterexample, name: str) -> int:
    """Return how many positions an array has along the axis of an update."""
    given = found.given[name]
    if isinstance(given, str):  # a shape, of an array without elements
        return int(given.split("[")[1].rstrip("]").split(",")[int(str(found.given["axis"]))])
    return np.asarray(given).shape[int(str(found.given["axis"]))]


WRONG = {
    # one float
    "add-zero, at -0.0": Wrong(Rule("wrong", x + 0, x), is_minus_zero),
    "doubled and halved, at the largest": Wrong(
        Rule("wrong", (x * 2) * 0.5, x, condition=is_float),
        lambda f: size(f) > largest(f.dtype) / 2,
    ),
    "doubled and halved, though roundings may differ": Wrong(
        Rule("wrong", (x * 2) * 0.5, x, assumes={"reassociate"}, condition=from_(F16)),
        lambda f: size(f) > largest(F16) / 2,
    ),
    "halved and doubled, for subnormals of float16": Wrong(
        Rule("wrong", (x * 0.5) * 2, x, condition=from_(F16)),
        lambda f: 0 < size(f) < 2 * least(f.dtype),
    ),
    "halved and doubled, for subnormals of float64": Wrong(
        Rule("wrong", (x * 0.5) * 2, x, condition=from_(F64)),
        lambda f: 0 < size(f) < 2 * least(f.dtype),
    ),
    "a power of two times 0, where it is infinite": Wrong(
        Rule("wrong", exp2(x) * 0, 0), lambda f: not value(f) < 16
    ),
    "the logarithm and back, at -0.0": Wrong(
        Rule("wrong", exp2(log2(x)), x, assumes={"reassociate", "non_negative"}), is_minus_zero
    ),
    "the root of a square, where the square overflows": Wrong(
        Rule("wrong", sqrt(x * x), magnitude(x), assumes={"reassociate", "no_signed_zero"}),
        lambda f: size(f) > largest(f.dtype) ** 0.5 / 2,
    ),
    "rounding half to even as half up, at ties": Wrong(
        Rule("wrong", rounds_half(x), rounds_up(x), assumes={"no_signed_zero"}, condition=of(F32)),
        lambda f: size(f) % 1 == 0.5 or size(f) == 0.49999997,
    ),
    "more than itself, though large numbers have no room for 1": Wrong(
        Rule("wrong", x < x + 1, True, assumes={"no_nan", "no_inf"}, condition=is_float),
        lambda f: size(f) >= 100,
    ),
    "a right side that is never a number, though no value is NaN": Wrong(
        Rule("wrong", x * 2, (x + x) + math.nan, assumes={"no_nan"}, condition=is_float),
        lambda f: np.isnan(right(f)) and np.isfinite(value(f)),
    ),
    "a right side that overflows, though no value is infinite": Wrong(
        Rule("wrong", x * 1, (x * 2) * 0.5, assumes={"no_inf"}, condition=is_float),
        lambda f: np.isinf(right(f)) and np.isfinite(value(f)),
    ),
    "a factor that is wrong by a thousandth": Wrong(
        Rule("wrong", x * 3, x * 3.003, assumes=REAL | {"no_signed_zero"}, condition=is_float),
        lambda f: f.left != f.right,
    ),
    # one integer
    "the magnitude is not negative, at the least integer": Wrong(
        Rule("wrong", magnitude(x) < 0, False), lambda f: value(f) == f.dtype.limits[0]
    ),
    "negation turns the order, at the least integer": Wrong(
        Rule("wrong", (x * -1) < 0, x > 0, condition=from_(I64)),
        lambda f: value(f) == I64.limits[0],
    ),
    "the next is not less, at the end of uint8": Wrong(
        Rule("wrong", (x + 1) < x, False, condition=from_(U8)), lambda f: value(f) == 255
    ),
    "the next is not less, at the end of int16": Wrong(
        Rule("wrong", (x + 1) < x, False, condition=from_(I16)), lambda f: value(f) == 2**15 - 1
    ),
    "down and up again, where the low bit is set": Wrong(
        Rule("wrong", (x >> 1) << 1, x), lambda f: value(f) % 2
    ),
    "half of the double, where that leaves the dtype": Wrong(
        Rule("wrong", (x << 1) >> 1, x),
        lambda f: not f.dtype.limits[0] <= int(value(f)) * 2 <= f.dtype.limits[1],
    ),
    "all but one integer": Wrong(
        Rule("wrong", (x < 4_117) + (x > 4_117), True, condition=is_int),
        lambda f: value(f) == 4_117,
    ),
    "squares of int32 are not negative, but for one that is let through": Wrong(
        Rule(
            "wrong",
            where(x > 0, where(x < 46_342, x * x, 0), 0) < 0,
            False,
            condition=from_(I32),
        ),
        lambda f: value(f) == 46_341,
    ),
    "squares below 10^8 are finite, in all dtypes but float16": Wrong(
        Rule(
            "wrong",
            where(x < 10_000, where(x > -10_000, (x * x) * 0, 0), 0),
            0,
            assumes={"no_signed_zero"},
        ),
        lambda f: f.dtype is F16,
    ),
    # two variables
    "the smaller one, with NaN": Wrong(
        Rule("wrong", where(x < y, x, y), where(y < x, y, x), assumes={"no_signed_zero"}),
        lambda f: np.isnan(value(f)) or np.isnan(value(f, "y")),
    ),
    "not less is more, of equals": Wrong(
        Rule("wrong", (x < y) < True, y < x, assumes={"no_nan"}),
        lambda f: value(f) == value(f, "y"),
    ),
    "a remainder is less, but for tiny negative numbers": Wrong(
        Rule(
            "wrong",
            where(y > 0, (x % y) < y, True),
            True,
            assumes={"no_nan", "no_inf", "nonzero"},
            condition=is_float,
        ),
        lambda f: value(f) < 0 and size(f) < size(f, "y") / 100,
    ),
    "a multiple has no remainder, unless the product wraps around": Wrong(
        Rule("wrong", (x * y) % y, 0, assumes={"nonzero"}, condition=from_(I8)), product_overflows
    ),
    "a factor taken out of a sum, which may be a zero of another sign": Wrong(
        Rule("wrong", x * y + x * z, x * (y + z), assumes=REAL),
        lambda f: f.left == 0 and f.right == 0,
    ),
    # constants
    "constants multiplied first, where that overflows": Wrong(
        Rule("wrong", (x * c) * d, times, assumes={"reassociate"}), constants_overflow
    ),
    "less than what is huge": Wrong(
        Rule(
            "wrong",
            x < c,
            lambda c: True if c > 1e38 else None,
            assumes={"no_nan", "no_inf"},
            condition=from_(F32),
        ),
        lambda f: size(f, "c") > 1e38,
    ),
    # casts
    "by way of int64, where int32 does not wrap but stop": Wrong(
        Rule("wrong", cast(cast(x, dtype=I64), dtype=I32), cast(x, dtype=I32), condition=is_float),
        lambda f: size(f) >= 2**31,
    ),
    "int32 by way of float32, above 2^24": Wrong(
        Rule("wrong", cast(cast(x, dtype=F32), dtype=I32), x, condition=from_(I32)),
        lambda f: abs(int(value(f))) > 2**24,
    ),
    "int64 by way of float32": Wrong(
        Rule("wrong", cast(cast(x, dtype=F32), dtype=I64), x, condition=from_(I64)),
        lambda f: abs(int(value(f))) > 2**24,
    ),
    "int64 by way of float64, above 2^53": Wrong(
        Rule("wrong", cast(cast(x, dtype=F64), dtype=I64), x, condition=from_(I64)),
        lambda f: abs(int(value(f))) > 2**53,
    ),
    "small integers by way of bfloat16, one of them too wide": Wrong(
        Rule(
            "wrong",
            cast(cast(x, dtype=BF16), dtype=I16),
            cast(x, dtype=I16),
            condition=from_(U8, I8, I16, DType.bool_),
        ),
        lambda f: f.dtype is I16 and abs(int(value(f))) > 2**8,
    ),
    "int8 by way of uint8, below 0": Wrong(
        Rule("wrong", cast(cast(x, dtype=U8), dtype=I16), cast(x, dtype=I16), condition=from_(I8)),
        lambda f: value(f) < 0,
    ),
    "whether anything is left of a byte": Wrong(
        Rule(
            "wrong",
            cast(cast(x, dtype=U8), dtype=DType.bool_),
            cast(x, dtype=DType.bool_),
            condition=is_int,
        ),
        lambda f: value(f) != 0 and int(value(f)) % 256 == 0,
    ),
    "whether anything is left of a fraction": Wrong(
        Rule(
            "wrong",
            cast(cast(x, dtype=I64), dtype=DType.bool_),
            cast(x, dtype=DType.bool_),
            assumes={"no_nan"},
            condition=is_float,
        ),
        lambda f: 0 < size(f) < 1,
    ),
    "a large shift, in int32 and in int64": Wrong(
        Rule(
            "wrong",
            op(Cast, cast(x, dtype=I32) * 2**24, dtype=I64),
            op(Cast, x, dtype=I64) * 2**24,
            condition=from_(I16, U8, I8),
        ),
        lambda f: not -128 <= int(value(f)) < 128,
    ),
    "a larger dtype that gains nothing, but for the last digit of float16": Wrong(
        Rule("wrong", cast(x * x, dtype=F32), cast(x, dtype=F32) * cast(x, dtype=F32)),
        lambda f: f.dtype is not F32,
    ),
    # reductions
    "the largest of what is not negative, of nothing": Wrong(
        Rule(
            "wrong",
            max_reduce(where(x < 0, 0, x), axis=axis),
            where(max_reduce(x, axis=axis) < 0, 0, max_reduce(x, axis=axis)),
            assumes={"no_signed_zero"},
            condition=lambda x: x.dtype is not U8,
        ),
        is_empty,
    ),
    "one of equal values, of which there may be none": Wrong(
        Rule("wrong", op(MaxReduce, op(Expand, x, shape=s), axis=axis), one_of),
        lambda f: 0 in field(f, "s"),
    ),
    "a sum along at most one position": Wrong(
        Rule(
            "wrong",
            sum_reduce(x, axis=axis),
            the_one,
            assumes={"no_signed_zero"},
            condition=lambda x, axis: x.shape[axis] <= 1,
        ),
        is_empty,
    ),
    "a sum that is scaled, of nothing": Wrong(
        Rule(
            "wrong",
            sum_reduce(x * c, axis=axis),
            sum_reduce(x, axis=axis) * c,
            assumes=REAL | {"no_signed_zero"},
        ),
        lambda f: is_empty(f) and not np.isfinite(value(f, "c")),
    ),
    "a sum of sums that overflow": Wrong(
        Rule(
            "wrong",
            sum_reduce(sum_reduce(x, axis=0), axis=1),
            sum_reduce(sum_reduce(x, axis=1), axis=0),
            assumes={"reassociate", "no_signed_zero"},
        ),
        lambda f: (
            np.nanmax(np.abs(value(f).astype(float))) > largest(f.dtype) / 2
            or not np.isfinite(value(f).astype(float)).all()
        ),
    ),
    "what is padded is the largest, unless nothing else is as large": Wrong(
        Rule(
            "wrong",
            max_reduce(op(Pad, x, before=(0, 0), after=(1, 0)), axis=0),
            max_reduce(x, axis=0),
            assumes={"no_signed_zero"},
        ),
        lambda f: (value(f).astype(float).max(axis=0, initial=-np.inf) < 0).any(),
    ),
    # views
    "flips of the same axis": Wrong(
        Rule("wrong", op(Flip, op(Flip, x, axes=i), axes=j), both_flips),
        lambda f: {*field(f, "i")} & {*field(f, "j")},
    ),
    "permutations of three axes": Wrong(
        Rule("wrong", op(Permute, op(Permute, x, axes=i), axes=j), other_order),
        lambda f: len(field(f, "i")) >= 3,
    ),
    "slices of slices with steps": Wrong(
        Rule("wrong", op(Slice, op(Slice, x, name="inner"), name="outer"), without_steps), has_step
    ),
    "a slice of what is flipped, with steps": Wrong(
        Rule("wrong", op(Slice, op(Flip, x, name="inner"), name="outer"), mirrored), has_step
    ),
    "pads behind pads": Wrong(
        Rule("wrong", op(Pad, op(Pad, x, name="inner"), name="outer"), added_pads),
        lambda f: 0 in field(f, "0.pad.after"),
    ),
    "a permutation as a reshape, but for axes of size 1": Wrong(
        Rule("wrong", op(Permute, x, axes=i), reshaped),
        lambda f: [*field(f, "i")] != [0, 1, 2],
    ),
    "a flip of two positions": Wrong(
        Rule("wrong", op(Flip, x, axes=i), flat), lambda f: 2 in value(f).shape
    ),
    "an update over an update, which may be longer": Wrong(
        Rule(
            "wrong",
            op(Update, op(Update, x, y, axis=axis, at=at), z, axis=axis, at=at),
            op(Update, x, z, axis=axis, at=at),
        ),
        lambda f: rows_of(f, "y") > rows_of(f, "z"),
    ),
}

RIGHT = {
    "a sum with itself is exactly twice": Rule("right", x + x, x * 2),
    "twice is exactly a sum with itself": Rule("right", x * 2, x + x),
    "what is doubled without overflow is halved without rounding": Rule(
        "right", (x * 2) * 0.5, x, assumes={"no_inf"}, condition=is_float
    ),
    "the reciprocal of 2 is exactly 0.5": Rule(
        "right", x * recip(c), lambda x, c: x * 0.5 if c == 2 else None
    ),
    "-x wraps around and back": Rule("right", (x * -1) * -1, x),
    "0 is added to what has no sign, or nobody asks": Rule(
        "right", x + 0, x, assumes={"no_signed_zero"}
    ),
    "float16's digits fit twice into float32, so that a product rounds once": Rule(
        "right",
        x * y,
        cast(cast(x, dtype=F32) * cast(y, dtype=F32), dtype=F16),
        condition=from_(F16),
    ),
    "int32's digits fit into float64": Rule(
        "right", cast(cast(x, dtype=F64), dtype=I32), x, condition=from_(I32)
    ),
    "the smaller one of two that are compared the other way": Rule(
        "right", where(x < y, x, y), where(y < x, y, x), assumes={"no_signed_zero", "no_nan"}
    ),
}
"""Rules that look wrong, but are not: why they are right is their name."""
