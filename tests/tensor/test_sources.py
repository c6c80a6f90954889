"""What a graph begins with: inputs, numbers, ranges, random numbers, and their errors."""

import math
from typing import Any

import numpy as np
import pytest

from luminal_lab.core.dtypes import DType
from luminal_lab.errors import DTypeError, GraphError, LabError, ParseError, ShapeError
from luminal_lab.session import Graph
from tests.expect import error_of

TEXT: Any = "x"


def value(cx, tensor) -> Any:
    tensor.retrieve()
    cx.execute()
    return tensor.numpy()


def test_inputs():
    cx = Graph()
    x = cx.tensor((2, "n"), "int8", name="x")
    assert (x.shape, x.dtype, x.name) == ((2, cx.dim("n")), "int8", "x")
    assert cx.tensor(3).dtype == "float32"


@pytest.mark.parametrize(
    ("dtype", "hint"),
    [
        ("float23", "did you mean 'float32'?"),
        ("floot16", "did you mean 'float16'?"),
        ("f33", "did you mean 'f32'?"),
        ("complex64", None),
        (complex, None),
        (object(), None),
        ([1], None),
        ("", None),
    ],
)
def test_dtypes_that_there_are_not(dtype, hint):
    cx = Graph()
    for call in (
        lambda: cx.tensor(2, dtype),
        lambda: cx.zeros(2, dtype),
        lambda: cx.eye(2, dtype=dtype),
        lambda: cx.arange(3, dtype=dtype),
        lambda: cx.ones(2).cast(dtype),
    ):
        error = error_of(call, DTypeError)
        assert error.message.endswith(" is not a dtype that luminal_lab has")
        assert error.hint is not None
        assert hint is None or error.hint == hint
        assert error.where is not None


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (2.5, "float32"),
        (2, "int64"),
        (True, "bool"),
        (np.float32(2.5), "float32"),
        (np.int8(2), "int64"),
        (np.bool_(True), "bool"),
        (-0.0, "float32"),
        (math.nan, "float32"),
        (math.inf, "float32"),
    ],
)
def test_numbers(given, dtype):
    cx = Graph()
    tensor = cx.full((2, 2), given)
    assert tensor.dtype == dtype
    np.testing.assert_array_equal(value(cx, tensor), np.full((2, 2), given, dtype))
    assert math.copysign(1, value(cx, cx.constant(-0.0))) == -1


def test_numbers_from_dims():
    cx: Any = Graph()
    n = cx.dim("n")
    cx.set_dim("n", 5)
    assert value(cx, cx.constant(n * 2 + 1)) == 11
    assert value(cx, cx.full(("n",), n, "float32")).tolist() == [5] * 5
    assert cx.full((), "n + 2").dtype == "int64"
    assert value(cx, cx.full((), "n + 2")) == 7


@pytest.mark.parametrize("dtype", DType)
def test_zeros_and_ones(dtype):
    cx = Graph()
    for tensor, number in ((cx.zeros((2, 0, 3), dtype), 0), (cx.ones((2, 3), dtype), 1)):
        array = value(cx, tensor)
        assert array.dtype == dtype.numpy
        assert (array == dtype.numpy.type(number)).all()


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda cx: cx.full(2, None), DTypeError, "full: None is not a number"),
        (lambda cx: cx.full(2, [1]), DTypeError, "full: [1] is not a number"),
        (lambda cx: cx.full(2, 1j), DTypeError, "full: 1j is not a number"),
        (lambda cx: cx.full(2, "a b"), ParseError, "'a b' is not a dim"),
        (
            lambda cx: cx.full(2, 300, "uint8"),
            DTypeError,
            "constant: 300 is not a value of uint8, which holds 0 to 255",
        ),
        (lambda cx: cx.full(2, 1.5, "int8"), DTypeError, "constant: 1.5 is not a value of int8"),
        (
            lambda cx: cx.full(2, math.nan, "int64"),
            DTypeError,
            "constant: nan is not a value of int64",
        ),
        (lambda cx: cx.arange(0, 5, 0), ShapeError, "arange: the step is 0"),
        (lambda cx: cx.arange(0, 5, "n"), ShapeError, "arange: the step is n"),
        (
            lambda cx: cx.arange(0, math.inf),
            ShapeError,
            "arange: 0 to inf by 1 has no number of elements",
        ),
        (
            lambda cx: cx.arange(math.nan, 3),
            ShapeError,
            "arange: nan to 3 by 1 has no number of elements",
        ),
        (
            lambda cx: cx.arange(0, "n", 0.5),
            DTypeError,
            "arange: 0 to n by 0.5 mixes a symbolic dim and fractions",
        ),
        (lambda cx: cx.arange([1]), DTypeError, "arange: [1] is not a number"),
        (
            lambda cx: cx.linspace(0, 1, "n"),
            ShapeError,
            "linspace: n steps from 0 to 1 are not all known",
        ),
        (
            lambda cx: cx.linspace(0, 1, -1),
            ShapeError,
            "shape: a dim cannot be negative, but one is -1",
        ),
        (lambda cx: cx.linspace(0, 1, 2.5), ShapeError, "shape: 2.5 is not a dim"),
        (lambda cx: cx.eye(-2), ShapeError, "shape: a dim cannot be negative, but one is -2"),
        (lambda cx: cx.eye((2, 3)), ShapeError, "shape: (2, 3) is not a dim"),
        (lambda cx: cx.rand(2, 3.5), ShapeError, "shape: 3.5 is not a dim"),
        (lambda cx: cx.rand(2, seed=1.5), DTypeError, "seed: 1.5 is not a whole number"),
        (lambda cx: Graph(seed=TEXT), DTypeError, "seed: 'x' is not a number"),
        (
            lambda cx: cx.randint(5, 5, 2),
            DTypeError,
            "randint: 5 to 5 is not a range of 1 to 16777216 numbers",
        ),
        (lambda cx: cx.randint(0, 2.5, 2), DTypeError, "randint: 2.5 is not a whole number"),
        (lambda cx: cx.parameter(3), GraphError, "parameter: 3 is not a Parameter"),
    ],
)  # fmt: skip
def test_what_cannot_be_made(call, kind, message):
    cx = Graph()
    error = error_of(lambda: call(cx), LabError)
    assert type(error) is kind
    assert error.message == message
    assert error.hint
    assert len(cx.ir) == 0


@pytest.mark.parametrize(
    "args",
    [(5,), (0,), (-3,), (2, 7), (7, 2), (7, 2, -2), (2, 11, 3), (0.0, 1.0, 0.25), (1, 2.5), (3.0,)],
)
def test_ranges(args):
    cx = Graph()
    array = value(cx, cx.arange(*args))
    wanted = np.arange(*args)
    assert array.dtype == ("float32" if wanted.dtype.kind == "f" else "int64")
    np.testing.assert_allclose(array, wanted)
    np.testing.assert_allclose(value(cx, cx.arange(*args, dtype="float16")), wanted)
    np.testing.assert_array_equal(value(cx, cx.arange(*args, dtype="int8")), wanted.astype("int8"))


def test_long_ranges_of_halves():
    cx = Graph()
    np.testing.assert_array_equal(
        value(cx, cx.arange(5000, dtype="float16")), np.arange(5000).astype(np.float16)
    )


def test_symbolic_ranges():
    cx = Graph()
    for n in (1, 6, 7):
        cx.set_dim(cx.dim("n").name, n)
        for tensor, wanted in (
            (cx.arange("n"), np.arange(n)),
            (cx.arange("n", 0, -2), np.arange(n, 0, -2)),
            (cx.arange(1, "n + 3", 3), np.arange(1, n + 3, 3)),
            (cx.eye("n", "n + 1"), np.eye(n, n + 1)),
        ):
            np.testing.assert_array_equal(value(cx, tensor), wanted)


@pytest.mark.parametrize("args", [(0, 1, 5), (3, -2, 7), (1, 1, 3), (2, 9, 1), (2, 9, 0)])
def test_linspace(args):
    cx = Graph()
    array = value(cx, cx.linspace(*args))
    np.testing.assert_allclose(array, np.linspace(*args), rtol=1e-6, atol=1e-6)
    if args[2] > 1:
        assert (array[0], array[-1]) == args[:2]
    np.testing.assert_allclose(value(cx, cx.linspace(*args, dtype="float64")), np.linspace(*args))


@pytest.mark.parametrize("args", [(3,), (2, 4), (4, 2), (0,), (1, 1), (3, 0)])
def test_eye(args):
    cx = Graph()
    np.testing.assert_array_equal(value(cx, cx.eye(*args, dtype="int8")), np.eye(*args))


# -- random numbers --------------------------------------------------------------------------------


def test_random_numbers_are_spread_as_they_should_be():
    cx = Graph()
    uniform, normal = cx.rand(100, 200), cx.randn((100, 200))
    whole = cx.randint(-2, 3, 100, 200)
    u, z, i = (value(cx, tensor).astype(float) for tensor in (uniform, normal, whole))
    assert u.min() >= 0
    assert u.max() < 1
    assert abs(u.mean() - 0.5) < 0.01
    assert abs(z.mean()) < 0.03
    assert abs(z.std() - 1) < 0.03
    assert set(np.unique(i)) == {-2, -1, 0, 1, 2}
    assert whole.dtype == "int64"


def test_each_call_has_its_own_stream_and_a_seed_gives_it_again():
    cx = Graph(seed=7)
    a, b = cx.rand(8), cx.rand(8)
    assert (value(cx, a) != value(cx, b)).any()
    one, two = Graph(seed=7), Graph()
    first, second = one.rand(8), two.rand(8, seed=7)
    np.testing.assert_array_equal(value(one, first), value(two, second))
    other = Graph(seed=8)
    assert (value(other, other.rand(8)) != first.numpy()).any()


def test_shapes_of_random_numbers():
    cx = Graph()
    shapes = [cx.rand().shape, cx.rand(3).shape, cx.rand(3, 4).shape, cx.rand((3, 4)).shape]
    assert shapes == [(), (3,), (3, 4), (3, 4)]
    n = cx.rand("n", 2)
    cx.set_dim("n", 3)
    assert value(cx, n).shape == (3, 2)
    assert value(cx, cx.randn(0, 3)).shape == (0, 3)


def test_a_shape_that_is_no_tuple():
    error = error_of(lambda: Graph().tensor(2, 3))  # pyright: ignore[reportArgumentType]
    assert error.message == "tensor: the shape is 2 and the dtype 3"
    assert error.hint == "a shape is one tuple: cx.tensor((2, 3))"
