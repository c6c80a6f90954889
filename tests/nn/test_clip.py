"""Clipping of gradients, against PyTorch."""

import math

import numpy as np
import pytest

from luminal_lab import nn
from luminal_lab.errors import GraphError, RangeError
from luminal_lab.session import Graph
from tests.expect import error_of
from tests.nn.optim.witness import compare
from tests.tensor.against import draw, same

ARRAYS = {"a": draw((3, 4)), "b": draw((5,), seed=1), "c": draw((), seed=2)}


def theirs(torch, clip, *args, arrays=ARRAYS):
    """Return the gradients that one of PyTorch's functions leaves behind, and what it returns."""
    tensors = [torch.nn.Parameter(torch.zeros(array.shape)) for array in arrays.values()]
    for tensor, array in zip(tensors, arrays.values(), strict=True):
        tensor.grad = torch.tensor(array)
    norm = clip(tensors, *args)
    return [tensor.grad.numpy() for tensor in tensors], norm


@pytest.mark.parametrize("power", [2.0, 1.0, 3.0, math.inf])
@pytest.mark.parametrize("limit", [1.0, 100.0])
def test_by_norm(torch, limit, power):
    cx = Graph()
    gradients = {name: cx.tensor(a.shape, name=name).set(a) for name, a in ARRAYS.items()}
    clipped, norm = nn.clip_grad_norm(gradients, limit, power)
    alone = nn.grad_norm(gradients, power)
    cx.retrieve([clipped, norm, alone])
    cx.execute()
    wanted, total = theirs(torch, torch.nn.utils.clip_grad_norm_, limit, power)
    for found, array in zip(clipped.values(), wanted, strict=True):
        same(found.numpy(), array, rtol=2e-6)
    same(norm.numpy(), total.numpy(), rtol=2e-6)
    assert alone.item() == norm.item()


def test_by_value(torch):
    cx = Graph()
    gradients = {name: cx.tensor(a.shape, name=name).set(a) for name, a in ARRAYS.items()}
    clipped = nn.clip_grad_value(gradients, 0.5)
    cx.retrieve(clipped)
    cx.execute()
    wanted, _ = theirs(torch, torch.nn.utils.clip_grad_value_, 0.5)
    for found, array in zip(clipped.values(), wanted, strict=True):
        np.testing.assert_array_equal(found.numpy(), array)


def test_halves_are_measured_in_float32():
    cx = Graph()
    g = cx.tensor((2,), "float16", name="g").set([300.0, 400.0])
    clipped, norm = nn.clip_grad_norm({"g": g}, 5.0)
    cx.retrieve([clipped, norm])
    cx.execute()
    assert norm.item() == 500
    assert clipped["g"].tolist() == [3, 4]


@pytest.mark.parametrize("options", [{"clip_norm": 0.5}, {"clip_value": 0.1}], ids=str)
def test_in_training(torch, options):
    compare(torch, lambda: nn.SGD(0.05), lambda w: torch.optim.SGD(w, 0.05), **options)


def test_errors():
    cx = Graph()
    g = cx.tensor((2,), name="g")
    for call, kind, message in (
        (
            lambda: nn.clip_grad_norm({"g": g}, 0),
            RangeError,
            "clip_grad_norm: max_norm is 0, and must be a number above 0\nhint: try max_norm=1.0",
        ),
        (
            lambda: nn.clip_grad_value({"g": g}, -1),
            RangeError,
            "clip_grad_value: clip_value is -1, and must be a number above 0\n"
            "hint: try clip_value=1.0",
        ),
        (
            lambda: nn.grad_norm({}),
            GraphError,
            "grad_norm: the gradients are {}, and must be a dict of tensors\n"
            "hint: write ll.grad(loss, model.parameters()), which is one by names",
        ),
    ):
        error = error_of(call, kind)
        assert f"{error.message}\nhint: {error.hint}" == message
        assert "test_clip.py" in str(error.where)
