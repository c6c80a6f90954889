"""Gradients of functions of one value and of pairs, against PyTorch's."""

import numpy as np
import pytest

from tests.passes.gradients.against import LOOSE, against, ours_by, theirs_by
from tests.tensor.against import draw, dtype_of
from tests.tensor.test_functions import ACTIVATIONS, NAMES, PLACES, SETTINGS, call, theirs

CASES = [(name, {}) for name in [*NAMES, *ACTIVATIONS] if name != "signbit"] + SETTINGS
# Where PyTorch's derivative at a kink, or its form at large arguments, is another.
INSIDE = {"logit": (0, 1), "acosh": (1, 1e9), "atanh": (-1, 1), "asin": (-1, 1), "acos": (-1, 1)}
BEYOND = {"sinc": 1e3, "exp": 80, "sinh": 80, "cosh": 80, "expm1": 80, "tan": 1e5}
ABOVE_ZERO = ("log", "log2", "log10", "log1p", "sqrt", "rsqrt")


def places(name: str) -> np.ndarray:
    """Return numbers at which a function has a finite derivative."""
    x = np.array([*PLACES, 0.25, 0.75, 1.25], "f8")
    low, high = INSIDE.get(name, (1e-3 if name in ABOVE_ZERO else -1e9, 1e9))
    x = x[(low < x) & (x < high)] if name in INSIDE or name in ABOVE_ZERO else x
    return x[np.abs(x) < BEYOND.get(name, 1e9)]


@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
def test_one_value(torch, name, settings):
    function = theirs(torch, name)
    x = places(name)
    against(torch, call(name, **settings), lambda t: function(t, **settings), x, rtol=1e-7)


@pytest.mark.share(50)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", [name for name, settings in CASES if not settings])
def test_every_dtype_is_kept(torch, name, dtype):
    x = draw((20,), "float64", low=0.3, high=0.9) + (name == "acosh")
    x = np.where(x % 0.25 < 0.02, x + 0.05, x).astype(dtype_of(dtype))  # no kinks
    (given,) = theirs_by(torch, theirs(torch, name), x.astype(np.float64))
    (found,) = ours_by(call(name), x)
    assert found.dtype == x.dtype
    np.testing.assert_allclose(
        found.astype(np.float64), given, rtol=LOOSE[dtype] * 2, atol=LOOSE[dtype]
    )


PAIRS = {
    "add": (lambda x, y: x + y, None),
    "sub": (lambda x, y: x - y, None),
    "mul": (lambda x, y: x * y, None),
    "div": (lambda x, y: x / y, None),
    "pow": (lambda x, y: x.abs() ** y, None),
    "remainder": (lambda x, y: x % y, None),
    "fmod": (lambda x, y: x.fmod(y), None),
    "atan2": (lambda x, y: x.atan2(y), None),
    "logaddexp": (lambda x, y: x.logaddexp(y), None),
    "xlogy": (lambda x, y: x.xlogy(y.abs()), None),
    "copysign": (lambda x, y: x.copysign(y), None),
    "maximum": (lambda x, y: x.maximum(y), None),
    "minimum": (lambda x, y: x.minimum(y), None),
}


@pytest.mark.parametrize("shapes", [((3, 4), (3, 4)), ((4,), (3, 1)), ((), (2, 3)), ((0, 3), (3,))])
@pytest.mark.parametrize("name", PAIRS)
def test_pairs(torch, name, shapes):
    ours, other = PAIRS[name]
    a, b = draw(shapes[0], "float64"), draw(shapes[1], "float64", seed=1)
    against(torch, ours, other, a, b, rtol=1e-7)
