"""The multi-layer perceptron beside PyTorch's Sequential; values and gradients."""

from itertools import pairwise

import numpy as np
import pytest

from luminal_lab.errors import ArgumentError
from luminal_lab.nn.models.mlp import MLP
from tests.expect import error_of
from tests.nn.beside import beside, value_of
from tests.tensor.against import draw


@pytest.mark.parametrize(
    ("sizes", "activation", "bias"),
    [((8, 10), "relu", True), ((8, 16, 10), "relu", True), ((8, 6, 5, 4), "tanh", False)],
)
def test_values_and_gradients(torch, sizes, activation, bias):
    class Witness(torch.nn.Module):
        def __init__(self):
            super().__init__()
            layers = [torch.nn.Linear(*pair, bias=bias) for pair in pairwise(sizes)]
            self.layers = torch.nn.ModuleList(layers)

        def forward(self, x):
            for layer in self.layers[:-1]:
                x = getattr(torch, activation)(layer(x))
            return self.layers[-1](x)

    torch.manual_seed(0)
    beside(torch, MLP(*sizes, activation=activation, bias=bias), Witness(), draw((7, 8)))


def test_dropout_is_for_training():
    model, x = MLP(8, 32, 4, dropout=0.5).initialise(0), draw((3, 8))
    plain = MLP(8, 32, 4)
    plain.load_state_dict(model.state_dict())
    assert np.abs(value_of(model, x) - value_of(plain, x)).max() > 1e-2
    np.testing.assert_array_equal(value_of(model.eval(), x), value_of(plain, x))


def test_errors():
    error = error_of(lambda: MLP(64), ArgumentError)
    assert error.message == "mlp: the number of sizes is 1, and two is the least"
    assert error.hint == "name those of input and output, as in MLP(64, 128, 10)"
    assert "MLP(64)" in str(error.where)
