"""First values: their bounds, moments and shapes, and that PyTorch's are drawn the same way."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from luminal_lab import nn
from luminal_lab.errors import ShapeError
from luminal_lab.nn import init
from tests.expect import error_of


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (init.kaiming_uniform, "kaiming_uniform_"),
        (partial(init.kaiming_uniform, a=5**0.5), partial),
        (init.kaiming_normal, "kaiming_normal_"),
        (init.xavier_uniform, "xavier_uniform_"),
        (init.xavier_normal, "xavier_normal_"),
        (partial(init.uniform, low=-1, high=3), None),
        (partial(init.normal, mean=1, std=0.5), None),
        (init.trunc_normal, "trunc_normal_"),
        (init.orthogonal, "orthogonal_"),
    ],
)
@pytest.mark.parametrize("shape", [(300, 40), (40, 300), (32, 16, 5, 5)])
def test_values_are_spread_as_pytorch_spreads_them(torch, ours, theirs, shape):
    values: Any = ours(shape, rng())
    assert values.dtype == np.float32
    assert values.shape == shape
    witness = torch.empty(shape)
    if theirs is partial:
        torch.nn.init.kaiming_uniform_(witness, a=5**0.5)
    elif theirs is not None:
        getattr(torch.nn.init, theirs)(witness)
    elif ours.func is init.uniform:
        witness.uniform_(-1, 3)
    else:
        witness.normal_(1, 0.5)
    other = witness.numpy()
    assert abs(values.mean() - other.mean()) < 0.1 * other.std()
    assert values.std() == pytest.approx(other.std(), rel=0.05)
    assert np.abs(values).max() == pytest.approx(np.abs(other).max(), rel=0.4)


def test_orthogonal_rows_or_columns():
    tall = init.orthogonal((6, 2, 2), rng(), gain=2).reshape(6, 4)
    np.testing.assert_allclose(tall.T @ tall, 4 * np.eye(4), atol=1e-5)
    wide = init.orthogonal((3, 7), rng())
    np.testing.assert_allclose(wide @ wide.T, np.eye(3), atol=1e-5)


def test_simple_values():
    assert init.zeros((2,), rng()).tolist() == [0, 0]
    assert init.ones((2,), rng()).tolist() == [1, 1]
    assert init.constant((2,), rng(), 3).tolist() == [3, 3]
    assert np.abs(init.trunc_normal((1000,), rng(), std=3)).max() <= 2
    drawn: Any = init.within(16)((1000,), rng())
    bound = np.abs(drawn).max()
    assert 0.24 < bound <= 0.25


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda kind: kind.Linear(64, 300), "weight"),
        (lambda kind: kind.Linear(64, 3000), "bias"),
        (lambda kind: kind.Conv2d(8, 64, 3, groups=2), "weight"),
        (lambda kind: kind.ConvTranspose2d(32, 16, 3, groups=2), "weight"),
        (lambda kind: kind.ConvTranspose1d(2, 3000, 2), "bias"),
        (lambda kind: kind.LSTM(9, 50), "weight_ih_l0"),
        (lambda kind: kind.GRUCell(9, 400), "bias_hh"),
        (lambda kind: kind.Embedding(100, 60), "weight"),
        (lambda kind: kind.Bilinear(9, 20, 20), "weight"),
    ],
)
def test_layers_begin_as_pytorchs_do(torch, make, path):
    ours: Any = make(nn).state_dict()[path]
    theirs = make(torch.nn).state_dict()[path].numpy()
    assert ours.shape == theirs.shape
    assert ours.std() == pytest.approx(theirs.std(), rel=0.07)
    if path != "weight" or np.abs(theirs).max() < 1:
        assert np.abs(ours).max() == pytest.approx(np.abs(theirs).max(), rel=0.03)


def test_a_padding_row_begins_with_zeros():
    weight = nn.Embedding(4, 3, padding_idx=-1).weight.value
    assert not weight[3].any()
    assert weight[:3].all()


def test_errors():
    error = error_of(lambda: init.xavier_uniform((3,), rng()), ShapeError)
    assert error.message == "init: a weight of the shape (3,) has no inputs and outputs"
    error = error_of(lambda: init.trunc_normal((3,), rng(), low=100, high=101), ShapeError)
    assert error.message == (
        "trunc_normal: hardly a number with mean 0.0 and std 1.0 is between 100 and 101"
    )
