"""Dropout in training and outside of it."""

from typing import Any

import numpy as np
import pytest

from luminal_lab import Graph, nn
from luminal_lab.errors import DTypeError, RangeError
from tests.expect import error_of

TEXT: Any = "half"


@pytest.mark.parametrize("kind", [nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d])
def test_it_drops_in_training_alone(kind):
    cx, model = Graph(), kind(0.25)
    x = cx.tensor((40, 50, 2)).set(np.ones((40, 50, 2)))
    y = model(x).retrieve()
    still = model.eval()(x)
    assert still is x
    cx.execute()
    first = y.numpy()
    assert {float(v) for v in np.unique(first)} == {0.0, float(np.float32(1 / 0.75))}
    assert abs((first == 0).mean() - 0.25) < 0.03
    whole = (first == 0).all(2) | (first != 0).all(2)
    assert whole.all() == (kind is not nn.Dropout)
    cx.execute()
    assert not np.array_equal(first, y.numpy())


def test_errors():
    error = error_of(lambda: nn.Dropout(1.5), RangeError)
    assert error.message == "dropout: p is 1.5, which is not a probability"
    assert "nn.Dropout(1.5)" in error.where
    error = error_of(lambda: nn.Dropout2d(TEXT), DTypeError)
    assert error.message == "dropout2d: p is 'half' and not a number"
    assert str(nn.Dropout(0.1)) == "Dropout(0.1)"
