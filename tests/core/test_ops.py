"""Each op of the core: its shape rule, and its meaning in every dtype that it takes."""

import itertools
import math
import re
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from luminal_lab.core import ops
from luminal_lab.core.dims import Dim, Symbol
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.ir import IR, Node, Table
from luminal_lab.core.op import OPS, Binary, Elementwise, Op, TensorType, Unary, result_types
from luminal_lab.core.ops import (
    After,
    Call,
    Cast,
    Constant,
    Contiguous,
    Expand,
    Flip,
    Gather,
    GraphBreak,
    HostCall,
    Input,
    Iota,
    LessThan,
    MaxReduce,
    Mod,
    Pad,
    Permute,
    Pick,
    Random,
    Reshape,
    Scatter,
    Slice,
    SumReduce,
    Update,
    Where,
    Window,
)
from luminal_lab.core.parse import parse
from luminal_lab.errors import DTypeError, LabError, RangeError, ShapeError

FLOATS = [dtype for dtype in DType if dtype.is_float]
INTS = [dtype for dtype in DType if dtype.kind == "int"]
N, M = Symbol("n", 1, 64), Symbol("m")
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-7, 700.0, math.inf, -math.inf, math.nan]
MANTISSA = {DType.float64: 52, DType.float32: 23, DType.float16: 10, DType.bfloat16: 7}


@pytest.fixture(autouse=True)
def as_the_interpreter_does():
    """NumPy warns of what is meant here: infinities, NaN, integers that wrap around."""
    with np.errstate(all="ignore"):
        yield


def array(values: object, dtype: DType = DType.float32) -> Array:
    whole = dtype.numpy if dtype.kind == "int" else None  # of 2^64 - 1 and 0 NumPy makes floats
    return np.asarray(values, whole).astype(dtype.numpy)


def type_of(value: Array) -> TensorType:
    return TensorType(DType(str(value.dtype)), value.shape)


def run(op: Op, *sources: Array) -> Array:
    """Return what an op makes, once its type is what its shape rule says."""
    result = np.asarray(op.eval(*sources))  # of values without axes NumPy makes scalars
    assert type_of(result) == op.infer(*map(type_of, sources))
    return result


def wrapped(value: int, dtype: DType) -> int:
    """Return a whole number as an integer dtype holds it."""
    low, high = dtype.limits
    return (value - low) % (high - low + 1) + low


def same(found: float, wanted: float) -> bool:
    """Return whether two numbers are the same, signs of zero and NaN included."""
    if math.isnan(wanted):
        return math.isnan(found)
    return found == wanted and math.copysign(1, found) == math.copysign(1, wanted)


def refused(call: Callable[[], object], error: type[LabError], message: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert caught.value.message == message


# -- the twelve ------------------------------------------------------------------------------------


def log2(x: float) -> float:
    return -math.inf if x == 0 else math.nan if x < 0 or math.isnan(x) else math.log2(x)


UNARY: dict[type[Unary], Callable[[float], float]] = {
    ops.Log2: log2,
    ops.Exp2: lambda x: math.inf if x >= 1024 else 2.0**x,
    ops.Sin: lambda x: math.nan if math.isinf(x) else math.sin(x),
    ops.Sqrt: lambda x: math.sqrt(x) if x >= 0 or x == 0 else math.nan,
    ops.Recip: lambda x: math.copysign(math.inf, x) if x == 0 else 1 / x,
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", UNARY)
def test_unary_ops(op: type[Unary], dtype: DType):
    values = [*SPECIAL, 100.25, 1e4, 3e4, -1e-3]
    x = array(values, dtype)
    found = run(op(), x)
    for value, argument in zip(found.tolist(), x.astype(np.float64).tolist(), strict=True):
        wanted = UNARY[op](argument)
        rounded = float(np.asarray(wanted).astype(dtype.numpy))
        near = math.isclose(value, wanted, rel_tol=2.0 ** (1 - MANTISSA[dtype]), abs_tol=1e-30)
        assert same(value, rounded) or near, (argument, value, wanted)


@pytest.mark.parametrize("dtype", [DType.float32, DType.float64])
def test_sine_is_right_for_large_arguments(dtype: DType):
    x = array([1e5, 1e10, 3e22, 1e30, -1e38], dtype)
    wanted = [math.sin(value) for value in x.tolist()]
    assert np.allclose(run(ops.Sin(), x), wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("op", UNARY)
@pytest.mark.parametrize("dtype", [*INTS, DType.bool_])
def test_unary_ops_need_floats(op: type[Unary], dtype: DType):
    x = TensorType(dtype, (2,))
    refused(
        lambda: op().infer(x), DTypeError, f"{op.name}: needs a float, but the source is {dtype}"
    )


def python_mod(a: int, b: int) -> int:
    return a % b if b else 0


BINARY: list[tuple[Binary, Callable[[int, int], int]]] = [
    (ops.Add(), lambda a, b: a + b),
    (ops.Mul(), lambda a, b: a * b),
    (Mod(), python_mod),
    (LessThan(), lambda a, b: a < b),
]


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize(("op", "meaning"), BINARY)
def test_binary_ops_on_integers_wrap_around(
    op: Binary, meaning: Callable[[int, int], int], dtype: DType
):
    low, high = dtype.limits
    values = sorted({low, low + 1, wrapped(-7, dtype), wrapped(-1, dtype), 0, 1, 3, 7, high})
    pairs = list(itertools.product(values, values))
    found = run(op, *(array(side, dtype) for side in zip(*pairs, strict=True)))
    wanted = [meaning(a, b) for a, b in pairs]
    if not isinstance(op, LessThan):
        wanted = [wrapped(value, dtype) for value in wanted]
    assert found.tolist() == wanted


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("op", "meaning"), BINARY)
def test_binary_ops_on_floats(op: Binary, meaning: Callable[[int, int], int], dtype: DType):
    pairs = list(itertools.product(SPECIAL, SPECIAL))
    a, b = (array(side, dtype) for side in zip(*pairs, strict=True))
    found = run(op, a, b)
    # float64 of the same numbers, rounded: NumPy's own 64-bit operations are the reference.
    reference = {"add": np.add, "mul": np.multiply, "mod": np.mod, "less_than": np.less}[op.name]
    wanted = reference(a.astype(np.float64), b.astype(np.float64)).astype(found.dtype)
    exact = [same(f, w) for f, w in zip(found.tolist(), wanted.tolist(), strict=True)]
    near = np.isclose(found.astype(np.float64), wanted.astype(np.float64), rtol=1e-2)
    close = near.tolist() if op.name == "mod" else exact
    assert all(e or n for e, n in zip(exact, close, strict=True))


def test_remainders_have_the_sign_of_the_divisor():
    pairs = [(7, 3), (-7, 3), (7, -3), (-7, -3), (0, 3), (5, 0)]
    a, b = (list(side) for side in zip(*pairs, strict=True))
    assert run(Mod(), array(a, DType.int32), array(b, DType.int32)).tolist() == [1, 2, -2, -1, 0, 0]
    found = run(Mod(), array(a), array(b)).tolist()
    assert found[:5] == [1, 2, -2, -1, 0]
    assert math.isnan(found[5])


def test_binary_ops_on_bools():
    a, b = array([0, 0, 1, 1], DType.bool_), array([0, 1, 0, 1], DType.bool_)
    assert run(ops.Add(), a, b).tolist() == [False, True, True, True]
    assert run(ops.Mul(), a, b).tolist() == [False, False, False, True]
    assert run(LessThan(), a, b).tolist() == [False, True, False, False]
    x = type_of(a)
    refused(lambda: Mod().infer(x, x), DTypeError, "mod: needs numbers, but the sources are bool")


@pytest.mark.parametrize("op", [op for op, _ in BINARY])
def test_binary_ops_need_one_type(op: Binary):
    x, y = TensorType(DType.float32, (2, N)), TensorType(DType.int8, (2, N))
    refused(lambda: op.infer(x, y), DTypeError, f"{op.name}: the dtypes differ: float32 and int8")
    y = x.with_shape((2, N + 1))
    refused(
        lambda: op.infer(x, y), ShapeError, f"{op.name}: the shapes differ: (2, n) and (2, n + 1)"
    )
    bools = op.infer(x, TensorType(DType.float32, (2, N)))
    assert bools == (x.with_dtype(DType.bool_) if isinstance(op, LessThan) else x)


def moved(a: int, b: int, dtype: DType) -> int:
    """Return a · 2^b rounded down, as if there were room for all its bits."""
    return (a << b if b >= 0 else a >> -b) if abs(b) < 8 * dtype.itemsize else -(a < 0 > b)


BITS: dict[Op, Callable[[int, int, DType], int]] = {
    ops.BitAnd(): lambda a, b, _: a & b,
    ops.BitOr(): lambda a, b, _: a | b,
    ops.BitXor(): lambda a, b, _: a ^ b,
    ops.ShiftLeft(): lambda a, b, dtype: moved(a, b, dtype) if b >= 0 else 0,
    ops.ShiftRight(): lambda a, b, dtype: moved(a, -b, dtype) if b >= 0 else -(a < 0),
}


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", BITS, ids=str)
def test_bits(op: Op, dtype: DType):
    low, high = dtype.limits
    width = 8 * dtype.itemsize
    if width == 8:
        values = [*range(low, high + 1)]
    else:
        near = [k + by for k in (0, width, low, high) for by in (-9, -2, -1, 0, 1, 2, 9)]
        values = sorted({value for value in [*near, *range(width)] if low <= value <= high})
    pairs = list(itertools.product(values, values))
    found = run(op, *(array(side, dtype) for side in zip(*pairs, strict=True)))
    assert found.tolist() == [wrapped(BITS[op](a, b, dtype), dtype) for a, b in pairs]


@pytest.mark.parametrize("op", BITS, ids=str)
def test_bits_are_those_of_integers_of_one_type(op: Op):
    for dtype in (DType.float32, DType.bool_):
        x = TensorType(dtype, (2,))
        message = f"{op.name}: needs integers, but the source is {dtype}"
        refused(lambda x=x: op.infer(x, x), DTypeError, message)
    x = TensorType(DType.int32, (2,))
    refused(
        lambda: op.infer(x, x.with_dtype(DType.uint32)),
        DTypeError,
        f"{op.name}: the dtypes differ: int32 and uint32",
    )


@pytest.mark.parametrize(("source", "target"), [*itertools.product(DType, DType)])
def test_bits_read_as_another_dtype(source: DType, target: DType):
    op, x = ops.Bitcast(target), TensorType(source, (256,))
    if source.itemsize != target.itemsize:
        message = (
            f"bitcast: {source} has {8 * source.itemsize} bits, and {target} has "
            f"{8 * target.itemsize}"
        )
        refused(lambda: op.infer(x), DTypeError, message)
        return
    if target is DType.bool_ is not source:
        message = f"bitcast: not every {source} has the bits of a bool"
        refused(lambda: op.infer(x), DTypeError, message)
        return
    raw = np.arange(256, dtype=np.uint8).repeat(source.itemsize).view(source.numpy)
    values = raw if source is not DType.bool_ else array([0, 1] * 128, source)
    assert run(op, values).tobytes() == values.tobytes()
    assert run(op, values[::3]).tobytes() == values[::3].tobytes()


def test_elementwise_ops_say_their_c_form_and_which_commute():
    elementwise = [
        op
        for op in OPS.values()
        if issubclass(op, Elementwise) and "core.ops" in op.__module__ and "." not in op.name
    ]
    assert all("{0}" in op.c_form for op in elementwise)
    assert {op.name for op in elementwise if op.commutative} == {
        *("add", "bit_and", "bit_or", "bit_xor", "flushed_mul", "fused_mul", "mul"),
    }


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
def test_sums(dtype: DType):
    x = array([[100, 27], [3, 100]], dtype)
    if dtype.kind == "int":
        wanted = [[wrapped(127, dtype)], [wrapped(103, dtype)]]
    else:
        wanted = [[127.0], [103.0]]
    assert run(SumReduce(1), x).tolist() == wanted
    assert run(SumReduce(0), array(np.zeros((0, 2)), dtype)).tolist() == [[0, 0]]
    assert run(SumReduce(0), array(np.zeros((2, 0)), dtype)).shape == (1, 0)


def test_integer_sums_wrap_and_those_of_16_bit_floats_are_made_in_float32():
    assert run(SumReduce(0), array([100, 100, 100], DType.int8)).tolist() == [44]
    assert run(SumReduce(0), array([200, 100], DType.uint8)).tolist() == [44]
    assert run(SumReduce(0), array([2**62, 2**62], DType.int64)).tolist() == [-(2**63)]
    for dtype in (DType.float16, DType.bfloat16):
        ones = np.ones(4096, dtype.numpy)
        assert run(SumReduce(0), ones).tolist() == [4096.0]
    found = run(SumReduce(0), array([6e4, 6e4, -6e4, -6e4], DType.float16))
    assert found.tolist() == [0.0]


@pytest.mark.parametrize("dtype", list(DType))
def test_maxima(dtype: DType):
    x = array([[0, 1, 1], [0, 0, 0]], dtype)
    assert run(MaxReduce(1), x).tolist() == [[1], [0]]
    assert run(MaxReduce(0), x).tolist() == [[0, 1, 1]]
    if dtype.is_float:
        x = array([[-math.inf, -3, -math.inf], [1, math.nan, math.inf]], dtype)
        found = run(MaxReduce(1), x).tolist()
        assert found[0] == [-3]
        assert math.isnan(found[1][0])
    elif dtype.kind == "int":
        assert run(MaxReduce(0), array(list(dtype.limits), dtype)).tolist() == [dtype.limits[1]]
    least = -math.inf if dtype.is_float else dtype.limits[0]
    assert run(MaxReduce(0), array(np.zeros((0, 2)), dtype)).tolist() == [[least, least]]
    assert run(MaxReduce(0), array(np.zeros((2, 0)), dtype)).shape == (1, 0)


def test_what_reductions_refuse():
    x = TensorType(DType.float32, (2, 0, N))
    assert SumReduce(2).infer(x) == MaxReduce(2).infer(x) == x.with_shape((2, 0, 1))
    for op in (SumReduce(3), MaxReduce(3), SumReduce(-1), MaxReduce(-1)):
        refused(
            lambda op=op: op.infer(x),
            ShapeError,
            f"{op.name}: there is no axis {op.axis} in the shape (2, 0, n)",
        )
    bools = TensorType(DType.bool_, (2,))
    message = "sum_reduce: needs numbers, but the source is bool"
    refused(lambda: SumReduce(0).infer(bools), DTypeError, message)


@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize("op", [Contiguous(), GraphBreak()])
def test_what_changes_nothing(op: Op, dtype: DType):
    x = array([[0, 1], [1, 1], [0, 0]], dtype).T
    assert run(op, x).tolist() == x.tolist()
    assert run(op, array(1, dtype)).shape == ()
    if isinstance(op, Contiguous):
        assert run(op, x).flags.c_contiguous
    assert run(After(), x, array([1.0])).tolist() == x.tolist()


# -- casts, choice, indexing -----------------------------------------------------------------------


def cast(value: float, to: DType) -> float:
    """Return a number of Python's as a dtype holds it, by the rules that `Cast` states."""
    if to is DType.bool_:
        return value != 0
    if to.is_float:
        return float(np.asarray(float(value)).astype(to.numpy))
    if isinstance(value, float):
        low, high = to.limits
        return (
            0
            if math.isnan(value)
            else low
            if value <= low
            else high
            if value >= high
            else int(value)
        )
    return wrapped(int(value), to)


@pytest.mark.parametrize("to", list(DType))
@pytest.mark.parametrize("source", list(DType))
def test_casts(source: DType, to: DType):
    numbers: list[float] = [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 127.5, 200, -200, 3e4, -3e4]
    if source.is_float:
        numbers += [1e10, -1e10, 3e38, math.inf, -math.inf, math.nan]
    else:
        low, high = source.limits
        numbers = [low, high, 0, 1, 100]
    x = array(numbers, source)
    found = run(Cast(to), x).tolist()
    wanted = [cast(value, to) for value in x.tolist()]
    assert all(map(same, found, wanted)), list(zip(x.tolist(), found, wanted, strict=True))


@pytest.mark.parametrize("dtype", list(DType))
def test_where(dtype: DType):
    c = array([1, 0, 1], DType.bool_)
    x, y = array([1, 1, 0], dtype), array([0, 1, 1], dtype)
    assert run(Where(), c, x, y).tolist() == [1, 1, 0]


def test_what_where_refuses():
    c, x = TensorType(DType.bool_, (2,)), TensorType(DType.float32, (2,))
    message = "where: the condition must be bool, but it is float32"
    refused(lambda: Where().infer(x, x, x), DTypeError, message)
    message = "where: the dtypes differ: float32 and float16"
    refused(lambda: Where().infer(c, x, x.with_dtype(DType.float16)), DTypeError, message)
    message = "where: the shapes differ: (2,) and (3,)"
    refused(lambda: Where().infer(c.with_shape((3,)), x, x), ShapeError, message)


@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize("index_dtype", INTS)
def test_gather(dtype: DType, index_dtype: DType):
    x = array(np.arange(6).reshape(2, 3) % 2, dtype)
    index = array([[1, 0, 1], [0, 0, 1], [1, 1, 0]], index_dtype)
    found = run(Gather(0), x, index)
    assert found.tolist() == [[x[index[i, j], j].item() for j in range(3)] for i in range(3)]
    index = array([[2], [0]], index_dtype)
    assert run(Gather(1), x, index).tolist() == [[x[0, 2].item()], [x[1, 0].item()]]
    assert run(Gather(1), x, array(np.zeros((2, 0)), index_dtype)).shape == (2, 0)


@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize("mode", ["set", "add"])
def test_scatter(dtype: DType, mode: str):
    x = array([[1, 0, 1], [0, 1, 1]], dtype)
    index = array([[0, 1, 1], [1, 1, 1], [1, 0, 1]], DType.int32)
    values = array([[1, 1, 0], [0, 1, 1], [1, 1, 1]], dtype)
    wanted = x.copy()
    for i, j in np.ndindex(3, 3):
        k = int(index[i, j])
        wanted[k, j] = values[i, j] if mode == "set" else np.add(wanted[k, j], values[i, j])
    found = run(Scatter(0, "set" if mode == "set" else "add"), x, index, values)
    assert found.tolist() == wanted.tolist()
    assert x.tolist() == array([[1, 0, 1], [0, 1, 1]], dtype).tolist()


def test_scatter_adds_16_bit_floats_in_float32():
    index = np.zeros(4096, np.int64)
    ones = np.ones(4096, ml_dtypes.bfloat16)
    found = run(Scatter(0, "add"), np.zeros(2, ml_dtypes.bfloat16), index, ones)
    assert found.tolist() == [4096.0, 0.0]


@pytest.mark.parametrize("bad", [-1, 3])
def test_an_index_out_of_range_is_named(bad: int):
    x, index = array(np.zeros((2, 3))), array([[0, 0], [1, bad]], DType.int64)
    message = f"the index at (1, 1) is {bad}, but axis 1 has size 3"
    refused(lambda: Gather(1).eval(x, index), RangeError, f"gather: {message}")
    values = array(np.zeros((2, 2)))
    refused(lambda: Scatter(1, "set").eval(x, index, values), RangeError, f"scatter: {message}")


def test_what_gather_and_scatter_refuse():
    x, index = TensorType(DType.float32, (2, N)), TensorType(DType.int64, (5, N))
    assert Gather(0).infer(x, index) == x.with_shape((5, N))
    assert Scatter(0, "set").infer(x, index, x.with_shape((5, N))) == x
    message = "gather: the index must be of an integer dtype, but it is float32"
    refused(lambda: Gather(0).infer(x, x), DTypeError, message)
    shapes = "the index (5, n) must have the shape of the values (2, n)"
    message = f"gather: apart from axis 1 {shapes}"
    refused(lambda: Gather(1).infer(x, index), ShapeError, message)
    message = "gather: there is no axis 2 in the shape (2, n)"
    refused(lambda: Gather(2).infer(x, index), ShapeError, message)
    message = "scatter: the shapes differ: (2, n) and (5, n)"
    refused(lambda: Scatter(0, "add").infer(x, index, x), ShapeError, message)


@pytest.mark.parametrize("dtype", list(DType))
def test_update(dtype: DType):
    buffer = array(np.zeros((3, 2)), dtype)
    rows = array([[1, 1]], dtype)
    assert run(Update(0, 1), buffer, rows).tolist() == [[0, 0], [1, 1], [0, 0]]
    assert run(Update(1, 1), buffer, array([[1], [0], [1]], dtype)).tolist() == [
        [0, 1],
        [0, 0],
        [0, 1],
    ]
    assert run(Update(0, 3), buffer, array(np.zeros((0, 2)), dtype)).tolist() == buffer.tolist()
    assert not buffer.any()


def test_what_update_refuses():
    buffer, rows = TensorType(DType.float32, (4, 2)), TensorType(DType.float32, (N, 2))
    assert Update(0, M).infer(buffer, rows) == buffer
    message = "update: 3 rows at 2 do not fit into axis 0 of the buffer (4, 2)"
    refused(lambda: Update(0, 2).infer(buffer, rows.with_shape((3, 2))), ShapeError, message)
    message = "update: n rows at 4 do not fit into axis 0 of the buffer (4, 2)"
    refused(lambda: Update(0, 4).infer(buffer, rows), ShapeError, message)
    message = "update: 1 rows at -1 do not fit into axis 0 of the buffer (4, 2)"
    refused(lambda: Update(0, -1).infer(buffer, rows.with_shape((1, 2))), ShapeError, message)
    message = "update: the buffer is (4, 2) and the rows are (2,): they differ in rank"
    refused(lambda: Update(0, 0).infer(buffer, rows.with_shape((2,))), ShapeError, message)
    message = "update: the shapes differ: (1, 3) and (1, 2)"
    refused(lambda: Update(0, 0).infer(buffer, rows.with_shape((1, 3))), ShapeError, message)


# -- views -----------------------------------------------------------------------------------------


def small_shapes() -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(0, 4), max_size=3).map(tuple)


def check_view(op: Op, x: Array, source: Callable[..., tuple[int, ...] | None]) -> None:
    """Check each position of a view's result: from where in x it is read, or None for a zero."""
    found = run(op, x)
    for place in np.ndindex(*found.shape):
        origin = source(*place)
        assert found[place] == (0 if origin is None else x[origin]), (op, place)


def counted(shape: tuple[int, ...]) -> Array:
    return np.arange(1, math.prod(shape) + 1, dtype=np.int32).reshape(shape)


@given(small_shapes(), st.data())
def test_views_read_where_they_say(shape: tuple[int, ...], data: st.DataObject):
    x, rank = counted(shape), len(shape)

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(data.draw(st.integers(low, high)) for _ in shape)

    axes = tuple(data.draw(st.permutations(range(rank))))
    check_view(Permute(axes), x, lambda *k: tuple(k[axes.index(axis)] for axis in range(rank)))

    flat = run(Reshape((math.prod(shape),)), x)
    assert flat.tolist() == list(range(1, math.prod(shape) + 1))
    assert run(Reshape((*shape[::-1], 1)), x).ravel().tolist() == flat.tolist()

    wide = tuple(data.draw(st.integers(0, 3)) if size == 1 else size for size in shape)
    old = [size == 1 for size in shape]
    check_view(
        Expand(wide), x, lambda *k: tuple(0 if one else i for one, i in zip(old, k, strict=True))
    )

    start = tuple(data.draw(st.integers(0, size)) for size in shape)
    stop = tuple(data.draw(st.integers(a, size)) for a, size in zip(start, shape, strict=True))
    step = each(1, 3)
    check_view(
        Slice(start, stop, step),
        x,
        lambda *k: tuple(a + i * s for a, i, s in zip(start, k, step, strict=True)),
    )

    before, after = each(0, 2), each(0, 2)

    def within(*place: int) -> tuple[int, ...] | None:
        origin = tuple(i - b for i, b in zip(place, before, strict=True))
        inside = all(0 <= i < size for i, size in zip(origin, shape, strict=True))
        return origin if inside else None

    check_view(Pad(before, after), x, within)

    turned = tuple(axis for axis in range(rank) if data.draw(st.booleans()))
    check_view(
        Flip(turned),
        x,
        lambda *k: tuple(shape[a] - 1 - i if a in turned else i for a, i in enumerate(k)),
    )


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_windows_read_where_they_say(size: int, stride: int, dilation: int):
    x = counted((2, 5, 3))
    check_view(
        Window(1, size, stride, dilation), x, lambda i, w, j, k: (i, w * stride + k * dilation, j)
    )
    view = x[:, ::-1].transpose(1, 0, 2)
    check_view(Window(0, size, stride, 1), view, lambda w, i, j, k: (w * stride + k, i, j))
    count = len(range(0, 5 - dilation * (size - 1), stride))
    assert run(Window(1, size, stride, dilation), counted((0, 5))).shape == (0, count, size)


@pytest.mark.parametrize("dtype", list(DType))
def test_views_keep_the_dtype_and_pad_with_zero(dtype: DType):
    x = array([[1, 0], [1, 1]], dtype)
    views = [
        Permute((1, 0)),
        Reshape((4,)),
        Expand((2, 2)),
        Slice((0, 0), (2, 2), (1, 1)),
        Flip((0,)),
    ]
    for op in (*views, Window(0, 2, 1, 1)):
        assert run(op, x).dtype == dtype.numpy
    assert run(Pad((0, 1), (0, 0)), x).tolist() == [[0, 1, 0], [0, 1, 1]]
    scalar = array(1, dtype)
    for op in (Permute(()), Reshape(()), Expand(()), Slice((), (), ()), Pad((), ()), Flip(())):
        assert run(op, scalar).tolist() == 1


X = TensorType(DType.float32, (2, N, 1))


@pytest.mark.parametrize(
    ("op", "shape"),
    [
        (Permute((2, 0, 1)), (1, 2, N)),
        (Reshape((N * 2,)), (N * 2,)),
        (Reshape((1, N, 2, 1)), (1, N, 2, 1)),
        (Expand((2, N, M)), (2, N, M)),
        (Slice((0, 0, 0), (1, N, 1), (1, 2, 1)), (1, (N + 1) // 2, 1)),
        (Slice((0, N // 2, 0), (2, N, 1), (1, 1, 1)), (2, N - N // 2, 1)),
        (Pad((0, 1, M), (0, N, 0)), (2, N * 2 + 1, M + 1)),
        (Flip((1,)), (2, N, 1)),
        (Window(1, N, 1, 1), (2, 1, 1, N)),
        (Window(0, 2, 1, 1), (1, N, 1, 2)),
        (SumReduce(1), (2, 1, 1)),
        (MaxReduce(1), (2, 1, 1)),
        (Cast(DType.int8), (2, N, 1)),
        (Contiguous(), (2, N, 1)),
    ],
)
def test_symbolic_shapes_and_the_same_bound(op: Op, shape: tuple[Dim, ...]):
    assert op.infer(X).shape == shape
    for n in (1, 2, 5):
        dims = {"n": n, "m": 3}
        bound = op.bind(dims)
        assert not bound.symbols()
        x = counted((2, n, 1)).astype(np.float32)
        result = run(bound, x)
        at_run_time = [dim if isinstance(dim, int) else eval(str(dim), {}, dims) for dim in shape]
        assert list(result.shape) == at_run_time


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (Permute((0, 1)), "permute: (0, 1) does not name each axis of (2, n, 1) once"),
        (Permute((0, 1, 1)), "permute: (0, 1, 1) does not name each axis of (2, n, 1) once"),
        (Reshape((3, N)), "reshape: (2, n, 1) has 2*n elements and (3, n) has 3*n"),
        (Expand((2, N)), "expand: shape has 2 entries, but the shape (2, n, 1) has 3 axes"),
        (Expand((2, 5, 1)), "expand: axis 1 of (2, n, 1) has size n and cannot become 5"),
        (
            Slice((0, 0), (1, 1), (1, 1)),
            "slice: start has 2 entries, but the shape (2, n, 1) has 3 axes",
        ),
        (
            Slice((0, 0, 0), (3, 1, 1), (1, 1, 1)),
            "slice: 0:3:1 is not within axis 0 of (2, n, 1)",
        ),
        (
            Slice((0, 0, 0), (2, 65, 1), (1, 1, 1)),
            "slice: 0:65:1 is not within axis 1 of (2, n, 1)",
        ),
        (
            Slice((1, 0, 0), (0, N, 1), (1, 1, 1)),
            "slice: 1:0:1 is not within axis 0 of (2, n, 1)",
        ),
        (
            Slice((0, 0, 0), (2, N, 1), (1, 0, 1)),
            "slice: 0:n:0 is not within axis 1 of (2, n, 1)",
        ),
        (Pad((0, -1, 0), (0, 0, 0)), "pad: (-1, 0) on axis 1 of (2, n, 1) is negative"),
        (Pad((0, 0, 0), (0, 0)), "pad: after has 2 entries, but the shape (2, n, 1) has 3 axes"),
        (Flip((3,)), "flip: there is no axis 3 in the shape (2, n, 1)"),
        (Flip((0, 0)), "flip: (0, 0) names an axis twice"),
        (Window(5, 1, 1, 1), "window: there is no axis 5 in the shape (2, n, 1)"),
        (
            Window(0, 3, 1, 1),
            "window: size 3, stride 1, dilation 1 spans 3, and axis 0 of (2, n, 1) has 2",
        ),
        (
            Window(0, 1, 0, 1),
            "window: size 1, stride 0, dilation 1 spans 1, and axis 0 of (2, n, 1) has 2",
        ),
    ],
)
def test_what_views_refuse(op: Op, message: str):
    refused(lambda: op.infer(X), ShapeError, message)


# -- sources ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", list(DType))
def test_constants(dtype: DType):
    values: list[float] = [0, 1]
    if dtype.is_float:
        values = [*SPECIAL, 1e-45, 3e38]
    elif dtype.kind == "int":
        values = [*dtype.limits, 0, 7]
    for value in values:
        op = Constant(value, dtype, (2, 0, 1))
        assert run(op).shape == (2, 0, 1)
        assert same(run(Constant(value, dtype, ())).item(), cast(value, dtype))
    symbolic = Constant(N * 2, dtype, (N,)).bind({"n": 3 if dtype is not DType.bool_ else 1})
    if dtype is not DType.bool_:
        assert run(symbolic).tolist() == [6, 6, 6]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1.5, DType.int32),
        (2.0, DType.bool_),
        (256, DType.uint8),
        (-1, DType.uint8),
        (2, DType.bool_),
        (128, DType.int8),
        (2**63, DType.int64),
        (2**2000, DType.float64),
    ],
)
def test_what_is_not_a_value_of_a_dtype(value: float, dtype: DType):
    message = f"constant: {value!r} is not a value of {dtype}"
    refused(lambda: Constant(value, dtype, ()).infer(), DTypeError, message)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
def test_iota(dtype: DType):
    assert run(Iota(dtype, (5,))).tolist() == [0, 1, 2, 3, 4]
    assert run(Iota(dtype, (0,))).tolist() == []
    assert Iota(dtype, (N * 2,)).bind({"n": 2}) == Iota(dtype, (4,))


def test_random_numbers_depend_on_seed_stream_step_and_place():
    op = Random(7, 0, (1000,))
    x = run(op)
    assert x.tolist() == run(op).tolist()
    assert 0 <= x.min() < 0.01
    assert 0.99 < x.max() < 1
    others = [Random(8, 0, (1000,)).eval(), Random(7, 1, (1000,)).eval(), op.eval(1)]
    assert all(np.mean(x == other) < 0.01 for other in others)
    assert run(Random(7, 0, (10, 100))).ravel().tolist() == x.tolist()
    assert run(Random(2**64 - 1, 3, (0, 2))).shape == (0, 2)


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (Input(DType.int8, (2, -1)), "input: a dim cannot be negative, but the shape is (2, -1)"),
        (
            Constant(1, DType.int8, (N - 65,)),
            "constant: a dim cannot be negative, but the shape is (n - 65,)",
        ),
        (Random(0, 0, (-1,)), "random: a dim cannot be negative, but the shape is (-1,)"),
        (Iota(DType.int8, (-1,)), "iota: a dim cannot be negative, but the shape is (-1,)"),
        (
            HostCall("f", DType.int8, (-2,)),
            "host_call: a dim cannot be negative, but the shape is (-2,)",
        ),
        (Iota(DType.int8, (1, 2)), "iota: has one axis, but the shape is (1, 2)"),
    ],
)
def test_what_sources_refuse(op: Op, message: str):
    refused(lambda: op.infer(), ShapeError, message)


def test_iota_is_no_bool():
    message = "iota: needs a number dtype, but got bool"
    refused(lambda: Iota(DType.bool_, (2,)).infer(), DTypeError, message)


# -- structure -------------------------------------------------------------------------------------


def test_the_types_of_structural_ops():
    body = parse("graph b(%x: f32[2, n]) -> (%y, %x) { %y = cast{dtype = i8} %x : i8[2, n] }")
    x = TensorType(DType.float32, (2, Symbol("n")))
    source = Node(0, Input(x.dtype, x.shape), (), x)
    types = result_types(Call(body), [source])
    assert types == (x.with_dtype(DType.int8), x)
    call = Node(1, Call(body), (0,), types[0], types[1:])
    assert [result_types(Pick(k), [call]) for k in (0, 1)] == [(types[0],), (types[1],)]
    assert result_types(After(), [source, source]) == (x,)
    made = TensorType(DType.bool_, (3,))
    assert result_types(HostCall("f", made.dtype, made.shape), [source]) == (made,)
    assert Call(body).symbols() == (Symbol("n"),)
    assert Call(body).bind({"n": 2}) == Call(body)
    assert Call(body).body_of() is body
    empty = IR(Table(), [], [])
    with pytest.raises(LabError, match=re.escape("call: main has no outputs")):
        result_types(Call(empty), [])
