"""The nests of updates and scatters: what they mean, element by element, and how they read."""

import numpy as np
import pytest

from luminal_lab.core.dims import Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Scatter, Update
from luminal_lab.errors import ParseError, RangeError
from luminal_lab.kernels import moving
from luminal_lab.kernels.dialect import CUDA, METAL, C
from luminal_lab.kernels.moving import moving_kernel
from luminal_lab.kernels.nest.evaluate import evaluate_nest
from luminal_lab.kernels.nest.text import parse_nest
from tests.expect import error_of

DIALECTS = pytest.mark.parametrize("dialect", [C, CUDA, METAL], ids=lambda one: one.name)
SHAPES = [(0, (3,), (2,)), (1, (5, 4, 3), (5, 2, 3)), (0, (6, 9), (5, 9)), (1, (7, 2), (7, 0))]


@pytest.fixture(autouse=True)
def _short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have several pieces, the last one short, in arrays that are small."""
    monkeypatch.setattr(moving, "PIECE", 24)
    monkeypatch.setattr(moving, "NUMBERS", {"columns": 2, "threads": 4, "elements": 2})


@pytest.mark.share(72)
@DIALECTS
@pytest.mark.parametrize("op", [Update, "set", "add"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize(("axis", "whole", "part"), SHAPES)
@pytest.mark.parametrize("symbolic", [False, True])
def test_nests_mean_what_the_ops_do(dialect, op, dtype, axis, whole, part, symbolic):
    rng, of = np.random.default_rng(0), DType(dtype).numpy
    arrays = [rng.integers(-9, 9, shape).astype(of) for shape in (whole, part)]
    made = Update(axis, 1) if op is Update else Scatter(axis, op)
    if op is not Update:
        arrays.insert(1, rng.integers(0, whole[axis], part))
    names = [Symbol(f"n{k}") if symbolic and size else size for k, size in enumerate(whole)]
    counts = [*names]
    counts[axis] = part[axis]
    shapes = [names, *[counts] * (len(arrays) - 1)]
    types = [
        TensorType(DType(array.dtype.name), tuple(shape))
        for array, shape in zip(arrays, shapes, strict=True)
    ]
    nest = moving_kernel(made, types, "move", dialect).nest
    assert nest is not None
    assert str(parse_nest(str(nest))) == str(nest)
    dims = {f"n{k}": size for k, size in enumerate(whole)}
    given = {name: a.ravel() for (name, _), a in zip(nest.inputs, arrays, strict=True)}
    result = evaluate_nest(nest, given, {name: dims[name] for name in nest.dims})["y"]
    np.testing.assert_array_equal(result.reshape(whole), made.eval(*arrays))


@pytest.mark.parametrize(("size", "kind"), [(2**31 - 1, "lab_i64"), (2**30, "int")])
def test_positions_fit_into_their_type_beyond_the_end_too(size, kind):
    # The last block has threads whose positions are beyond the array.
    types = [TensorType(DType.int8, (count,)) for count in (size, 5)]
    source = moving_kernel(Update(0, 1), types, "put", CUDA).source
    assert f"const {kind} b = blockIdx.x;" in source


def scatter() -> str:
    x, index = TensorType(DType.float32, (4,)), TensorType(DType.int64, (2,))
    return str(moving_kernel(Scatter(0, "set"), (x, index, x.with_shape((2,))), "put").nest)


@pytest.mark.parametrize("wrong", [4, -1])
def test_an_index_that_is_no_position_is_refused(wrong):
    given = {"x": np.zeros(4), "index": np.array([0, wrong]), "values": np.ones(2)}
    error = error_of(lambda: evaluate_nest(parse_nest(scatter()), given), RangeError)
    assert f"p is {wrong}, and not in range(0, 4)" in error.message


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("values over x", "the only output is over an input"),
        ("y over y", "the only output is over an input"),
        ("y over values", "values and y have different types"),
    ],
)
def test_what_may_be_over_what(line, said):
    error = error_of(lambda: parse_nest(scatter().replace("y over x", line)), ParseError)
    assert said in error.message
