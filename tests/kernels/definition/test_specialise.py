"""A definition for known sizes computes what the general one does."""

import numpy as np
import pytest

from luminal_lab.core.parse import parse
from luminal_lab.kernels.definition.define import define
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.specialise import specialised
from luminal_lab.kernels.definition.text import parse_definition


@pytest.mark.parametrize(
    "text",
    [
        "kernel k(x: f32[n, m]) -> (y: f32[n])\n  y[i < n] = sum j < m: x[i, j]",
        "kernel k(x: f32[n, m]) -> (y: f32[m + 1, n])\n"
        "  y[i < m + 1, j < n] = [i < m: x[j, i]] + f32[i*m]",
        "kernel k(x: f32[n, m]) -> (y: f32[n, m])\n  s[i < n] = max j < m: x[i, j]\n"
        "  y[i < n, j < m] = x[i, j] + s[i] * -1.0",
    ],
)
def test_values(text):
    general = parse_definition(text)
    exact = specialised(general, {"m": 3})
    assert set(exact.dims) <= {"n"}
    data = {"x": np.random.default_rng(0).standard_normal((4, 3)).astype("f")}
    (wanted,) = evaluate(general, data, {"n": 4, "m": 3})
    (found,) = evaluate(exact, data, {"n": 4})
    np.testing.assert_array_equal(found, wanted)


def test_the_text_of_one():
    body = parse("graph g(%x: f32[n, m]) -> (%y) { %y = add %x, %x : f32[n, m] }")
    assert str(specialised(define(body), {"m": 2, "n": 3})) == (
        "kernel g(x: f32[3, 2]) -> (y: f32[3, 2])\n  y[i < 3, j < 2] = x[i, j] + x[i, j]"
    )
