"""Linear layers beside PyTorch's, in both layouts of the weight."""

from typing import Any

import numpy as np
import pytest

from luminal_lab import Graph, nn
from luminal_lab.errors import ArgumentError, ShapeError
from tests.expect import error_of
from tests.nn.layers import compare
from tests.tensor.against import draw

TYPO: Any = "out.in"
HALF: Any = 2.5


@pytest.mark.parametrize("shape", [(6,), (5, 6), (2, 3, 6), (0, 6)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(torch, shape, bias):
    compare(torch, nn.Linear(6, 3, bias), torch.nn.Linear(6, 3, bias), draw(shape))


def test_bilinear(torch):
    for bias in (True, False):
        pair = nn.Bilinear(6, 4, 3, bias), torch.nn.Bilinear(6, 4, 3, bias)
        compare(torch, *pair, draw((2, 5, 6)), draw((2, 5, 4), seed=1))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_other_layout_is_the_transposed_weight(dtype):
    one: Any = nn.Linear(6, 3, dtype=dtype)
    two: Any = nn.Linear(6, 3, dtype=dtype, layout="in,out")
    assert two.weight.shape == (6, 3)
    two.weight.set(one.weight.value.T)
    two.bias.set(one.bias.value)
    cx = Graph()
    x = cx.tensor((2, 6), dtype).set(draw((2, 6), dtype))
    y, z = one(x).retrieve(), two(x).retrieve()
    cx.execute()
    np.testing.assert_array_equal(y.numpy(), z.numpy())
    assert y.dtype == dtype


def test_errors():
    cx = Graph()
    x, one = cx.tensor((2, 3), name="x"), cx.tensor((), name="number")
    cases = [
        (lambda: nn.Linear(-1, 3), ShapeError, "linear: in_features is -1"),
        (lambda: nn.Linear(3, HALF), ShapeError, "linear: out_features is 2.5"),
        (lambda: nn.Bilinear(3, 4, 0), ShapeError, "bilinear: out_features is 0"),
        (
            lambda: nn.Linear(3, 4, layout=TYPO),
            ArgumentError,
            "linear: there is no layout 'out.in'",
        ),
        (
            lambda: nn.Linear(4, 2)(x),
            ShapeError,
            "linear: in_features is 4, but in %x (2, 3) axis -1 has 3",
        ),
        (
            lambda: nn.Linear(4, 2)(one),
            ShapeError,
            "linear: in_features is 4, but in %number () there is no axis -1",
        ),
        (
            lambda: nn.Bilinear(3, 4, 2)(x, x),
            ShapeError,
            "bilinear: in2_features is 4, but in %x (2, 3) axis -1 has 3",
        ),
    ]
    for call, kind, message in cases:
        error = error_of(call, kind)
        assert error.message == message
        assert "test_linear.py" in error.where
        assert error.hint
    error = error_of(lambda: nn.Linear(4, 2)(x), ShapeError)
    assert error.hint == "give it 4 values along axis -1, or make the layer with in_features=3"
