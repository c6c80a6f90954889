"""LAMB, against its formula in NumPy: PyTorch has none."""

import numpy as np
import pytest

from luminal_lab import nn
from luminal_lab.session import Graph
from luminal_lab.tensor.parameter import Parameter
from tests.nn.optim.witness import SIZES, bowl, weights


@pytest.mark.parametrize(
    "options", [{}, {"weight_decay": 0.1}, {"betas": (0.5, 0.9), "eps": 1e-3}], ids=str
)
def test_steps(torch, options):
    w = weights()
    x = np.random.default_rng(1).normal(size=(3, 5)).astype("float32")
    cx = Graph()
    loss = bowl({name: cx.parameter(p) for name, p in w.items()}, cx.tensor((3, 5)).set(x))
    nn.LAMB(0.05, **options).minimise(loss, w)
    known = {name: torch.tensor(p.value.copy()).double() for name, p in w.items()}
    mean, square = (dict.fromkeys(w, 0.0) for _ in range(2))
    first, second = options.get("betas", (0.9, 0.999))
    for step in range(1, 31):
        cx.execute()
        t = {name: value.clone().requires_grad_() for name, value in known.items()}
        bowl(t, torch.tensor(x).double()).backward()
        for name, value in known.items():
            slope = t[name].grad
            mean[name] = first * mean[name] + (1 - first) * slope
            square[name] = second * square[name] + (1 - second) * slope**2
            way = mean[name] / (1 - first**step)
            way = way / ((square[name] / (1 - second**step)).sqrt() + options.get("eps", 1e-6))
            way = way + options.get("weight_decay", 0.0) * value
            share = value.norm() / way.norm()
            known[name] = value - 0.05 * share * way
            np.testing.assert_allclose(
                np.asarray(w[name].value, np.float64),
                known[name].numpy(),
                rtol=5e-5,
                atol=5e-5,
                err_msg=f"{name} {step}",
            )
    assert len(SIZES) == 3


def test_a_weight_of_zeros_moves_by_the_step_itself():
    w = Parameter((2,), value=[0.0, 0.0], name="w")
    cx = Graph()
    nn.LAMB(0.1).minimise((cx.parameter(w) * cx.constant(3.0)).sum())
    cx.execute()
    np.testing.assert_allclose(np.asarray(w.value, np.float64), [-0.1, -0.1], rtol=1e-4)


def test_without_a_gradient_nothing_moves():
    w = Parameter((2,), value=[1.0, 2.0], name="w")
    cx = Graph()
    nn.LAMB(0.1).minimise((cx.parameter(w) * 0.0).sum())
    cx.execute()
    assert w.value.tolist() == [1.0, 2.0]
