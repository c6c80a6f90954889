"""Modules made of others, and those that change a shape."""

from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab import Graph, nn
from luminal_lab.errors import ArgumentError
from tests.expect import error_of
from tests.nn.layers import compare
from tests.tensor.against import draw

NUMBER: Any = 3


def layers(place):
    inner = place.Sequential(place.Linear(8, 8), place.Tanh())
    return place.Linear(6, 8), place.ReLU(), inner, place.Linear(8, 2)


def test_layers_run_one_after_the_other(torch):
    compare(torch, nn.Sequential(*layers(nn)), torch.nn.Sequential(*layers(torch.nn)), draw((5, 6)))


def test_layers_have_names_and_scopes():
    model = nn.Sequential({"up": nn.Linear(3, 8), "act": nn.GELU(), "down": nn.Linear(8, 3)})
    assert list(model.parameters()) == ["up.weight", "up.bias", "down.weight", "down.bias"]
    assert [len(model), model["down"] is model[-1] is list(model)[2]] == [3, True]
    cx = Graph()
    y = model(cx.tensor((2, 3)))
    assert y.node.meta.scope == "sequential.down"
    y = nn.Sequential(nn.Linear(3, 3))(y)
    assert y.node.meta.scope == "sequential.0"
    assert list(cx.parameters)[-2:] == ["sequential.0.weight", "sequential.0.bias"]
    assert ll.parse(cx.ir.text(origins=True)) == cx.ir


def test_functions_are_layers():
    cx = Graph()
    model = nn.Sequential(ll.Tensor.relu, lambda x: (x, x * 2))
    one, two = model(cx.tensor((2,)).set([-1, 3]))
    cx.retrieve([one, two])
    cx.execute()
    assert (one.tolist(), two.tolist()) == ([0, 3], [0, 6])


def test_shapes(torch):
    compare(torch, nn.Identity(), torch.nn.Identity(), draw((2, 3)))
    compare(torch, nn.Flatten(), torch.nn.Flatten(), draw((2, 3, 4)))
    compare(torch, nn.Flatten(0, 1), torch.nn.Flatten(0, 1), draw((2, 3, 4)))
    compare(torch, nn.Unflatten(1, (2, 3)), torch.nn.Unflatten(1, (2, 3)), draw((4, 6)))


def test_errors():
    error = error_of(lambda: nn.Sequential(nn.ReLU(), NUMBER), ArgumentError)
    assert error.message == "sequential: 3 is not a module or a function"
    model = nn.Sequential({"a": nn.ReLU()})
    for key in (1, "b"):
        with pytest.raises(IndexError, match="there is no layer"):
            model[key]


def test_layers_that_are_none():
    wrong: Any = nn.ReLU
    error = error_of(lambda: nn.Sequential(wrong), ArgumentError)
    assert error.message == f"sequential: {nn.ReLU!r} is not a module or a function"
    assert error.hint == "make one of the class: ReLU(...)"
    x = Graph().tensor((2,))
    error = error_of(lambda: nn.Sequential(nn.ReLU(), lambda x: None, nn.ReLU())(x))
    assert error.message == "sequential: the layer '1' returned None"
    assert error.hint == "its forward must end with return"
