"""Special functions, against PyTorch in float64 and float32, at their edges too."""

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import LabError, RangeError, ShapeError
from tests.expect import error_of
from tests.tensor.against import interpret, same

EDGES = [0.0, -0.0, 1.0, 2.0, -1.0, -2.0, 0.5, -0.5, 1e-30, 1e30, np.inf, -np.inf, np.nan]
WIDE = np.concatenate([np.linspace(-9.97, 40, 1501), np.logspace(-20, 20, 100), EDGES])
SHARES = np.concatenate(
    [np.linspace(0, 1, 301), np.logspace(-30, -1, 30), 1 - np.logspace(-7, -1, 9)]
)
NAMES = {
    "lgamma": WIDE,
    "digamma": WIDE,
    "erfinv": np.concatenate([SHARES, -SHARES, [2.0, -2.0, np.nan]]),
    "ndtri": np.concatenate([SHARES, [2.0, -1.0, np.nan]]),
    "ndtr": np.concatenate([np.linspace(-8, 9, 301), [np.inf, -np.inf, np.nan]]),
    "log_ndtr": np.concatenate([np.linspace(-30, 9, 301), [np.inf, np.nan]]),
    "erfcx": np.concatenate([np.linspace(-8.5, 90, 901), [np.inf, np.nan]]),
    "entr": np.concatenate([np.linspace(-2, 20, 301), EDGES]),
    "i0": np.concatenate([np.linspace(-80, 80, 801), [np.nan]]),
    "i0e": np.concatenate([np.linspace(-80, 80, 801), [1e6, -1e6, np.inf, np.nan]]),
    "i1": np.concatenate([np.linspace(-80, 80, 801), [np.nan]]),
    "i1e": np.concatenate([np.linspace(-80, 80, 801), [1e6, -1e6, np.inf, np.nan]]),
}


def near(found, wanted, rtol: float) -> None:
    """Fail unless values are near: where a function crosses 0, within the same of 1."""
    same(found, wanted, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_values(torch, name: str, dtype: str):
    x = NAMES[name].astype(dtype)
    wanted = getattr(torch.special, name.replace("lgamma", "gammaln"))(torch.tensor(x).double())
    with np.errstate(over="ignore"):
        wanted = wanted.numpy().astype(dtype).astype(np.float64)
    near(interpret(lambda t: getattr(t, name)(), x), wanted, 2e-12 if dtype == "float64" else 1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_gradients(torch, name: str):
    inside = {"erfinv": 0.999, "ndtri": 0.999, "erfcx": 8.0, "log_ndtr": 8.0}.get(name, 9.5)
    low = 0.001 if name in ("ndtri", "entr") else -inside
    x = np.linspace(low, inside, 97).astype(np.float32)
    x = x[np.abs(x - np.rint(x)) > 0.02] if name in ("lgamma", "digamma") else x
    cx = ll.Graph()
    t = cx.tensor(x.shape).set(x)
    slope = ll.grad(getattr(t, name)().sum(), t).retrieve()
    cx.execute()
    wanted = torch.tensor(x).double().requires_grad_()
    getattr(torch.special, name.replace("lgamma", "gammaln"))(wanted).sum().backward()
    scale = np.abs(wanted.grad.numpy())
    assert (np.abs(slope.numpy() - wanted.grad.numpy()) <= 3e-5 * np.maximum(scale, 1)).all()


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_polygamma(torch, n: int):
    x = np.concatenate([np.linspace(0.05, 30, 200), [1e5, np.nan]])
    wanted = torch.polygamma(n, torch.tensor(x)).numpy()
    same(interpret(lambda t: t.polygamma(n), x), wanted, rtol=1e-9, atol=1e-12)


def test_polygamma_of_negative_values_by_differences():
    x = np.array([-0.3, -1.7, -4.25])
    step = 1e-5
    slope = [interpret(lambda t: t.polygamma(1), x + d) for d in (-step, step)]
    found = interpret(lambda t: t.polygamma(2), x)
    np.testing.assert_allclose(found, (slope[1] - slope[0]) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize("p", [1, 2, 4])
def test_mvlgamma(torch, p: int):
    x = np.linspace(2, 30, 40).astype(np.float32)
    near(interpret(lambda t: t.mvlgamma(p), x), torch.mvlgamma(torch.tensor(x), p).numpy(), 1e-5)


def test_integers_and_halves():
    assert str(interpret(lambda t: t.lgamma(), np.arange(1, 4)).dtype) == "float32"
    assert str(interpret(lambda t: t.i0(), np.ones(3, np.float16)).dtype) == "float16"
    assert interpret(lambda t: t.erfinv(), np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_errors():
    x = ll.Graph().tensor((2,))
    assert error_of(lambda: x.polygamma(-1), ShapeError).message == "polygamma: n is -1"
    assert error_of(lambda: x.polygamma(21), RangeError).message == "polygamma: n is 21"
    assert error_of(lambda: x.mvlgamma(0), ShapeError).message == "mvlgamma: p is 0"
    assert error_of(lambda: x.mvlgamma(1001), RangeError).message == "mvlgamma: p is 1001"
    error_of(lambda: x.mvlgamma(1.5), LabError)  # pyright: ignore[reportArgumentType]
