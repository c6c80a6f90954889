"""Arithmetic on shapes: what models calculate of their dims, before anything runs.

A vector of sizes is a small array of whole numbers, or of dims where some have no number yet. NumPy
does with dims what it does with numbers, because dims add, multiply and divide.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final, TypeAlias, cast

import numpy as np

from luminal_lab.core.dims import Dim, Expr, bounds, equal, known, maximum, minimum, negate
from luminal_lab.core.dtypes import Array
from luminal_lab.importing.onnx_ops.movement import dims_array
from luminal_lab.importing.onnx_ops.table import ELEMENTS, Share, Value, has_dims

Size: TypeAlias = Any
"""A whole number, a dim, or a share of one."""
Given: TypeAlias = "list[Array | None]"
Made: TypeAlias = "list[Array] | None"
Function: TypeAlias = "Callable[[Given, dict[str, Any], int], Made]"

INTEGER: Final[Any] = np.integer
BOOL: Final[Any] = np.bool_

MOST: Final = 4096
"""The most elements of an array that counts as sizes."""
PLAIN: Final = frozenset(["int64", "int32", "bool", "float32", "float64"])
FLOATS: Final[dict[str, np.ufunc]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Neg": np.negative,
    "Floor": np.floor, "Ceil": np.ceil,
}  # fmt: skip
"""What sizes go through as floats: such numbers are calculated as they are, in their dtype."""
MOVED: Final = frozenset(
    ["Cast", "Concat", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Unsqueeze", "Shape"]
)
"""What moves numbers, whatever they are."""
FINEST: Final = 1 << 16
"""The largest denominator of a factor that sizes are multiplied by."""


def are_sizes(values: Sequence[Value]) -> bool:
    """Return whether inputs are numbers or dims that are known, and not many."""
    arrays = [value for value in values if value is not None]
    return bool(arrays) and all(
        isinstance(value, np.ndarray) and value.dtype.kind in "iubOf" and value.size <= MOST
        for value in arrays
    )


def calculated(
    name: str, values: Sequence[Value], attributes: dict[str, Any], outputs: int
) -> Made:
    """Return an op's results for sizes, or None if it does not calculate with them."""
    function = FUNCTIONS.get(name)
    if function is None:
        return None
    given = [cast("Array | None", value) for value in values]
    floats = any(value is not None and value.dtype.kind == "f" for value in given)
    try:
        if not any(has_dims(value) for value in given):
            return _numbers(name, given, attributes, outputs, floats)
        if floats and name not in ("Mul", "Div"):
            return None
        result = function(given, attributes, outputs)
        return result and [_tidied(np.asarray(part)) for part in result]
    except (TypeError, ValueError, IndexError, KeyError, ArithmeticError, AttributeError):
        return None  # a graph says what is wrong


def _numbers(
    name: str, given: Given, attributes: dict[str, Any], outputs: int, floats: bool
) -> Made:
    """Return an op's results for arrays of numbers, in their dtype."""
    if attributes.get("fmod"):
        return None
    if name == "Cast":
        wanted = ELEMENTS.get(attributes.get("to", 0), "")
        return [_first(given).astype(wanted)] if wanted in PLAIN else None
    if floats and name in FLOATS:
        with np.errstate(all="ignore"):
            return [np.asarray(FLOATS[name](*[_first([value]) for value in given]))]
    if floats and name not in MOVED:
        return None
    result = FUNCTIONS[name](given, attributes, outputs)
    if result is None:
        return None
    arrays = [_tidied(np.asarray(part)) for part in result]
    if floats or name in ("Shape", "Size", "ConstantOfShape"):
        return arrays
    like = _first(given[name == "Where" :]).dtype
    return [array if array.dtype.kind == "b" else _as(array, like) for array in arrays]


def _as(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return whole numbers in a dtype, or raise if it does not hold them."""
    made = array.astype(dtype)
    if made.dtype.kind in "iu" and np.any(made != array):
        raise OverflowError
    return made


def _tidied(array: Array) -> Array:
    """Return dims as int64 if all of them have numbers."""
    if array.dtype != object:
        return array
    parts: list[object] = []
    for dim in array.flat:
        if isinstance(dim, (bool, BOOL)):
            parts.append(bool(dim))
        elif isinstance(dim, (int, INTEGER)):
            parts.append(int(dim))
        else:
            parts.append(dim)
    if parts and all(isinstance(part, bool) for part in parts):
        return np.array(parts, bool).reshape(array.shape)
    return dims_array([int(p) if isinstance(p, bool) else p for p in parts]).reshape(array.shape)


def _each(function: Callable[..., object]) -> Function:
    """Return a function of arrays that calls another for each element."""

    def call(values: Given, _: dict[str, Any], __: int) -> Made:
        given = [value for value in values if value is not None]
        if math.prod(np.broadcast_shapes(*[value.shape for value in given])) > MOST:
            return None
        arrays = np.broadcast_arrays(*given)
        shape = arrays[0].shape
        result = np.empty(arrays[0].size, object)
        for at, parts in enumerate(zip(*[array.flat for array in arrays], strict=True)):
            numbers = [int(p) if isinstance(p, INTEGER) else p for p in parts]
            numbers = [bool(p) if isinstance(p, BOOL) else p for p in numbers]
            made = function(*numbers)
            if made is None:
                return None
            result[at] = made
        return [result.reshape(shape)]

    return call


def _times(a: Size, b: Size) -> object:
    if isinstance(a, Share) or isinstance(b, Share):
        share, other = (a, b) if isinstance(a, Share) else (b, a)
        if isinstance(other, Share):
            return None
        factor = Fraction(float(other)).limit_denominator(FINEST)
        if abs(float(factor) - float(other)) > 1e-6 * abs(float(other)):
            return None
        return _share(share.dim * factor.numerator, share.over * factor.denominator)
    if isinstance(a, (float, np.floating)) or isinstance(b, (float, np.floating)):
        return _times(
            Share(a, 1) if isinstance(a, Expr) else a, Share(b, 1) if isinstance(b, Expr) else b
        )
    return a * b


def _share(dim: Dim, over: int) -> object:
    whole, rest = dim // over, dim % over
    return Share(whole, 1) if isinstance(rest, int) and rest == 0 else Share(dim, over)


def _over(a: Size, b: Size) -> object:
    if isinstance(a, Share) and isinstance(b, Share):
        if a.dim == b.dim:
            factor = Fraction(b.over, a.over)
            return Share(factor.numerator, factor.denominator)
        return None
    if isinstance(a, Share):
        return _times(a, 1 / float(b)) if float(b) else None
    if isinstance(b, (Share, float, np.floating)) or isinstance(a, (float, np.floating)):
        return None
    if isinstance(a, int) and isinstance(b, int):
        return (1 if (a < 0) == (b < 0) else -1) * (abs(a) // abs(b))
    low, _ = bounds(a)
    if isinstance(b, int) and b > 0 and low is not None and low >= 0:
        return a // b
    least, _ = bounds(b)
    if low is None or low < 0 or least is None or least < 1:
        return None
    return a // b


def _compared(test: Callable[[Any, Any], Dim]) -> Callable[..., object]:
    def decide(a: Size, b: Size) -> object:
        holds = test(a, b)
        decided = known(holds)
        return holds if decided is None else decided

    return decide


def _chosen(condition: Size, a: Size, b: Size) -> object:
    decided = known(condition) if isinstance(condition, Expr) else bool(condition)
    if decided is None:
        return condition * a + negate(condition) * b
    return a if decided else b


def _cast(values: Given, attributes: dict[str, Any], _: int) -> Made:
    array, name = values[0], ELEMENTS.get(attributes.get("to", 0), "")
    if array is None:
        return None
    if name in PLAIN and "int" in name:
        parts = [_floor(dim) for dim in array.flat]
    elif name == "bool":
        decided = [known(dim) if isinstance(dim, Expr) else bool(dim) for dim in array.flat]
        return None if None in decided else [np.array(decided, bool).reshape(array.shape)]
    elif name == "float32":
        sizes: list[Size] = list(array.flat)
        parts = [dim if isinstance(dim, Share) else Share(dim, 1) for dim in sizes]
    else:
        return None
    result = np.empty(array.size, object)
    result[:] = parts
    return [result.reshape(array.shape)]


def _floor(dim: Size) -> object:
    if isinstance(dim, Share):
        return dim.dim // dim.over
    return int(dim) if isinstance(dim, (bool, INTEGER)) else dim


def _down(dim: Size) -> object:
    return Share(dim.dim // dim.over, 1) if isinstance(dim, Share) else dim


def _up(dim: Size) -> object:
    return Share(-(-dim.dim // dim.over), 1) if isinstance(dim, Share) else dim


def _first(values: Given) -> Array:
    """Return the first input, or raise if it is left out."""
    if values[0] is None:
        raise TypeError
    return values[0]


def _axes(values: Given, attributes: dict[str, Any], at: int = 1) -> tuple[int, ...]:
    given = values[at] if len(values) > at else None
    axes = attributes.get("axes") if given is None else given.reshape(-1).tolist()
    return tuple(int(axis) for axis in axes) if axes is not None else ()


def _slice(values: Given, attributes: dict[str, Any], _: int) -> Made:
    array = values[0]
    if array is None:
        return None
    if len(values) > 1:
        starts, ends = values[1], values[2]
    else:
        starts, ends = np.array(attributes["starts"]), np.array(attributes["ends"])
    if starts is None or ends is None or has_dims(starts) or has_dims(ends):
        return None
    axes = _axes(values, attributes, 3) or tuple(range(starts.size))
    steps = values[4] if len(values) > 4 and values[4] is not None else np.ones(len(axes), int)
    key: list[slice] = [slice(None)] * array.ndim
    for axis, start, end, step in zip(axes, starts.flat, ends.flat, steps.flat, strict=True):
        begin, until, stride = int(start), int(end), int(step)
        below = stride < 0 and until < -array.shape[axis]
        key[axis] = slice(begin, None if below else until, stride)
    return [array[tuple(key)]]


def _reduce(function: Callable[..., object]) -> Function:
    def call(values: Given, attributes: dict[str, Any], _: int) -> Made:
        array = values[0]
        if array is None or array.ndim > 1 or attributes.get("noop_with_empty_axes"):
            return None
        total: Any = function([int(p) if isinstance(p, INTEGER) else p for p in array.flat])
        result = np.empty(1, object)
        result[0] = total
        return [result if attributes.get("keepdims", 1) and array.ndim else result.reshape(())]

    return call


def _product(dims: Sequence[Dim]) -> Dim:
    total: Dim = 1
    for dim in dims:
        total = total * dim
    return total


def _sum(dims: Sequence[Dim]) -> Dim:
    total: Dim = 0
    for dim in dims:
        total = total + dim
    return total


def _most(dims: Sequence[Dim]) -> Dim:
    return maximum(*dims)


def _least(dims: Sequence[Dim]) -> Dim:
    return minimum(*dims)


def _range(values: Given, _: dict[str, Any], __: int) -> Made:
    start, limit, delta = (cast("Any", v).reshape(-1)[0] for v in values)
    count = -((start - limit) // delta) if not isinstance(delta, Expr) else None
    if count is None or not isinstance(count, (int, INTEGER)) or count > MOST:
        return None
    result = np.empty(max(int(count), 0), object)
    result[:] = [start + k * delta for k in range(int(count))]
    return [result]


def _scatter_nd(values: Given, attributes: dict[str, Any], _: int) -> Made:
    array, places, updates = values
    if array is None or places is None or updates is None or has_dims(places):
        return None
    if attributes.get("reduction", "none") not in ("none", b"none"):
        return None
    result = array.astype(object)
    for at in np.ndindex(places.shape[:-1]):
        result[tuple(places[at])] = updates[at]
    return [result]


def _shape(values: Given, attributes: dict[str, Any], _: int) -> Made:
    array = values[0]
    assert array is not None
    start, end = attributes.get("start", 0), attributes.get("end")
    return [np.array(array.shape[start:end], np.int64)]


def _reshape(values: Given, attributes: dict[str, Any], _: int) -> Made:
    array, shape = values[0], values[1] if len(values) > 1 else np.array(attributes["shape"])
    if array is None or shape is None or has_dims(shape):
        return None
    sizes = [int(size) for size in shape.flat]
    if not attributes.get("allowzero"):
        sizes = [array.shape[k] if size == 0 else size for k, size in enumerate(sizes)]
    return [array.reshape(sizes)]


def _squeeze(values: Given, attributes: dict[str, Any], _: int) -> Made:
    array = values[0]
    return None if array is None else [np.squeeze(array, _axes(values, attributes) or None)]


def _unsqueeze(values: Given, attributes: dict[str, Any], _: int) -> Made:
    array = values[0]
    return None if array is None else [np.expand_dims(array, _axes(values, attributes))]


def _split(values: Given, attributes: dict[str, Any], outputs: int) -> Made:
    array, sizes = values[0], attributes.get("split")
    if len(values) > 1 and values[1] is not None:
        sizes = values[1].tolist()
    if array is None:
        return None
    if sizes is None:
        each = -(-array.shape[0] // outputs)
        sizes = [each] * outputs
    ends = np.cumsum(np.array(sizes, int))[:-1]
    return np.split(array, ends, attributes.get("axis", 0))


def _take(values: Given, attributes: dict[str, Any], _: int) -> Made:
    array, index = values
    if array is None or index is None or has_dims(index):
        return None
    return [np.asarray(np.take(array, index.astype(np.int64), attributes.get("axis", 0)))]


def _expand(values: Given, _: dict[str, Any], __: int) -> Made:
    array, shape = values
    if array is None or shape is None or has_dims(shape) or np.prod(shape.astype(float)) > MOST:
        return None
    return [np.broadcast_to(array, np.broadcast_shapes(array.shape, tuple(shape.tolist()))).copy()]


def _tile(values: Given, _: dict[str, Any], __: int) -> Made:
    array, counts = values[:2]
    if array is None or counts is None or has_dims(counts) or len(values) > 2:
        return None
    if array.size * np.prod(counts.astype(float)) > MOST:
        return None
    return [np.tile(array, counts.tolist())]


def _concat(values: Given, attributes: dict[str, Any], _: int) -> Made:
    return [np.concatenate([v for v in values if v is not None], attributes.get("axis", 1))]


def _abs(a: Size) -> Size:
    return maximum(a, -a)


def _not(a: Size) -> Size:
    return negate(a) if isinstance(a, Expr) else not a


def _and(a: Size, b: Size) -> Size:
    return a * b if isinstance(a * b, Expr) else bool(a and b)


def _or(a: Size, b: Size) -> Size:
    return None if isinstance(a + b, Expr) else bool(a or b)


def _at_most(a: Size, b: Size) -> Dim:
    return negate(b < a)


def _at_least(a: Size, b: Size) -> Dim:
    return negate(a < b)


def _identity(values: Given, _: dict[str, Any], __: int) -> Made:
    return [_first(values)]


def _count(values: Given, _: dict[str, Any], __: int) -> Made:
    return [np.array(_first(values).size, np.int64)]


def _transpose(values: Given, attributes: dict[str, Any], _: int) -> Made:
    return [np.transpose(_first(values), attributes.get("perm"))]


def _filled(values: Given, attributes: dict[str, Any], _: int) -> Made:
    shape, value = _first(values), attributes.get("value")
    if value is None or value.dtype.kind not in "iub" or has_dims(shape):
        return None
    sizes = [int(size) for size in shape.flat]
    return [np.full(sizes, value.reshape(-1)[0])] if math.prod(sizes) <= MOST else None


FUNCTIONS: Final[dict[str, Function]] = {
    "ConstantOfShape": _filled,
    "Add": _each(operator.add),
    "Sub": _each(operator.sub),
    "Mul": _each(_times),
    "Div": _each(_over),
    "Mod": _each(operator.mod),
    "Neg": _each(operator.neg),
    "Abs": _each(_abs),
    "Max": _each(maximum),
    "Min": _each(minimum),
    "Equal": _each(_compared(equal)),
    "Less": _each(_compared(operator.lt)),
    "Greater": _each(_compared(operator.gt)),
    "LessOrEqual": _each(_compared(_at_most)),
    "GreaterOrEqual": _each(_compared(_at_least)),
    "Not": _each(_not),
    "And": _each(_and),
    "Or": _each(_or),
    "Where": _each(_chosen),
    "Identity": _identity,
    "Floor": _each(_down),
    "Ceil": _each(_up),
    "Cast": _cast,
    "Concat": _concat,
    "Gather": _take,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "Split": _split,
    "Expand": _expand,
    "Tile": _tile,
    "Range": _range,
    "ReduceProd": _reduce(_product),
    "ReduceSum": _reduce(_sum),
    "ReduceMax": _reduce(_most),
    "ReduceMin": _reduce(_least),
    "ScatterND": _scatter_nd,
    "Shape": _shape,
    "Size": _count,
    "Transpose": _transpose,
}
