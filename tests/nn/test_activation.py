"""Activations as modules beside PyTorch's."""

from typing import Any

import pytest

from luminal_lab import Graph, nn
from luminal_lab.errors import ArgumentError, ShapeError
from tests.expect import error_of
from tests.nn.layers import compare
from tests.tensor.against import draw

TYPO: Any = "tan"
PLAIN = (
    "ReLU ReLU6 SiLU Mish SELU Tanh Sigmoid LogSigmoid Hardsigmoid Hardswish Softsign Tanhshrink "
    "LeakyReLU ELU CELU Softplus Hardtanh Hardshrink Softshrink GLU GELU PReLU"
)
WITH: list[tuple[str, dict[str, Any]]] = [
    ("LeakyReLU", {"negative_slope": 0.2}),
    ("ELU", {"alpha": 2.0}),
    ("CELU", {"alpha": 0.5}),
    ("Softplus", {"beta": 2.0, "threshold": 1.0}),
    ("Hardtanh", {"min_val": -0.5, "max_val": 2.0}),
    ("Hardshrink", {"lambd": 1.0}),
    ("Softshrink", {"lambd": 1.0}),
    ("Threshold", {"threshold": 0.5, "value": 2.0}),
    ("GLU", {"dim": 1}),
    ("GELU", {"approximate": "tanh"}),
    ("PReLU", {"num_parameters": 6, "init": 0.1}),
    ("Softmax", {"dim": 1}),
    ("LogSoftmax", {"dim": 0}),
    ("Softmin", {"dim": -1}),
]


@pytest.mark.parametrize(
    ("kind", "options"), [*((name, {}) for name in PLAIN.split()), *WITH], ids=str
)
def test_activations(torch, kind, options):
    ours, theirs = (getattr(place, kind)(**options) for place in (nn, torch.nn))
    compare(torch, ours, theirs, draw((4, 6, 2)))


def test_text():
    assert str(nn.Softplus()) == "Softplus(1.0, 20.0)"
    assert str(nn.GELU("tanh")) == "GELU('tanh')"
    assert str(nn.ReLU()) == "ReLU()"


def test_errors():
    error = error_of(lambda: nn.GELU(TYPO), ArgumentError)
    assert error.message == "gelu: there is no approximation 'tan'"
    error = error_of(lambda: nn.PReLU(2)(Graph().tensor((2, 3), name="x")), ShapeError)
    assert error.message == "p_relu: num_parameters is 2, but in %x (2, 3) axis 1 has 3"
