"""Gradients of gradients: second derivatives, Hessians times vectors, thirds."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from tests.passes.gradients.against import weights
from tests.tensor.against import draw, same, to_torch

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cube": lambda t, x: x * x * x,
    "quotient": lambda t, x: 1 / (x * x + 1),
    "tanh": lambda t, x: x.tanh(),
    "sigmoid": lambda t, x: x.sigmoid(),
    "exp": lambda t, x: x.exp() * x,
    "sin": lambda t, x: x.sin() * x.cos(),
    "softmax": lambda t, x: x.softmax(-1) * x,
    "logsumexp": lambda t, x: x.logsumexp(-1),
    "matmul": lambda t, x: x @ (x.T @ x),
    "norm": lambda t, x: x.norm() * x.sum(),
    "max": lambda t, x: x.amax(1) * x.sum(1),
    "where": lambda t, x: t.where(x > 0, x * x * x, x * x),
    "cumsum": lambda t, x: x.cumsum(1) * x,
    "sqrt": lambda t, x: (x * x + 1).sqrt().log(),
    "views": lambda t, x: x.T[::2].flip(0) * x.sum(),
    "index": lambda t, x: x[1:, :2] * x[:-1, 1:3],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hessians_times_vectors(torch, name):
    data, vector = draw((3, 4), "float64"), draw((3, 4), "float64", seed=1)
    cx = ll.Graph()
    x = cx.tensor((3, 4), "float64").set(data)
    made = FUNCTIONS[name](ll, x)
    slope = ll.grad((made * weights(made.shape)).sum(), x)
    product = ll.grad((slope * vector).sum(), x).retrieve()
    ll.verify(cx.ir)
    cx.execute()
    t = to_torch(torch, data).requires_grad_()
    made = FUNCTIONS[name](torch, t)
    total = (made * torch.tensor(weights(tuple(made.shape)))).sum()
    (first,) = torch.autograd.grad(total, t, create_graph=True)
    (wanted,) = torch.autograd.grad((first * torch.tensor(vector)).sum(), t)
    same(product.numpy(), wanted.numpy(), rtol=1e-8, atol=1e-8)


def test_derivatives_one_after_another():
    cx = ll.Graph()
    x = cx.tensor((), "float64").set(0.7)
    value, found = x.sin(), []
    for _ in range(4):
        value = ll.grad(value, x).retrieve()
        found.append(value)
    cx.execute()
    wanted = [np.cos(0.7), -np.sin(0.7), -np.cos(0.7), np.sin(0.7)]
    same(np.array([v.item() for v in found]), np.array(wanted), rtol=1e-12)


def test_a_gradient_is_part_of_another_loss(torch):
    data = draw((5,), "float64")
    cx = ll.Graph()
    x = cx.tensor((5,), "float64").set(data)
    penalty = ll.grad((x.tanh() * x).sum(), x).square().sum()
    slope = ll.grad(penalty, x).retrieve()
    cx.execute()
    t = to_torch(torch, data).requires_grad_()
    (first,) = torch.autograd.grad((t.tanh() * t).sum(), t, create_graph=True)
    (wanted,) = torch.autograd.grad((first**2).sum(), t)
    same(slope.numpy(), wanted.numpy(), rtol=1e-9)
