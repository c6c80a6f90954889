"""Modules that are called or made in ways that cannot be, and what they say."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import Graph, nn
from luminal_lab.errors import (
    ArgumentError,
    DefinitionError,
    DTypeError,
    GraphError,
    ShapeError,
    UnknownNameError,
)
from tests.expect import error_of
from tests.nn.tiny import TinyGPT

ANY: Any = "not a number"


def test_errors_of_calls():
    cx = Graph()
    x = cx.tensor((2, 4), name="x")
    error = error_of(lambda: nn.Linear(4, 4)(np.ones((2, 4))), GraphError)
    assert error.message == "linear: needs a tensor of a graph, and is given an array (2, 4)"
    assert error.hint == "give cx.tensor((2, 4)).set(values), with cx = ll.Graph()"
    assert "nn.Linear(4, 4)(np.ones((2, 4)))" in error.where

    class Empty(nn.Module):
        """A module without forward."""

    error = error_of(lambda: Empty()(x), DefinitionError)
    assert error.message == "Empty: the class has no forward"
    assert error.hint == "define forward(self, x), which returns what the module makes of x"

    error = error_of(lambda: nn.Linear(2, 2).initialise(ANY), ArgumentError)
    assert error.message == "initialise: the seed is 'not a number'"
    error = error_of(lambda: nn.Linear(2, 2).to("int8"), DTypeError)
    assert error.message == (
        "to: int8 is not a float dtype, so it cannot replace that of float parameters"
    )
    model = nn.Sequential({"a b": nn.Linear(4, 4)})
    error = error_of(lambda: model(x), GraphError)
    assert error.message == "'sequential.a b' cannot be the name of a scope"


@pytest.mark.parametrize("value", [3, np.ones((2, 2)), [1.0], Graph().tensor((2, 2))])
def test_a_parameter_is_not_lost_to_a_value(value):
    model: Any = nn.Linear(2, 2)
    weight = model.weight
    error = error_of(lambda: setattr(model, "weight", value), ArgumentError)
    kind = type(value).__name__
    assert error.message == f"linear: weight is a parameter, and cannot become a {kind}"
    assert error.hint == "weight.set(array) changes its value; nn.Parameter(…) takes its place"
    assert "test_module_errors.py" in error.where
    assert model.weight is weight
    model.bias = None
    model.weight = nn.Parameter((2, 2))
    assert list(model.parameters()) == ["weight"]


def test_an_error_deep_in_a_model_names_the_module_once():
    cx, model = Graph(), TinyGPT()
    model.blocks[1].k = nn.Linear(5, 4)
    error = error_of(lambda: model(cx.tensor((2, 3), "int64")), ShapeError)
    assert error.message.startswith("linear: in_features is 5, but in ")
    assert error.__notes__ == ["in the module tiny_gpt.blocks.1.k"]
    assert "return self.q(x) * self.k(x)" in error.where
    cx.tensor((2,))
    assert cx.ir.nodes[-1].meta.scope == ""


def test_operations_of_parameters_alone_are_refused():
    w = nn.Parameter((2, 2), name="w")
    for call in (lambda: w + w, lambda: w @ 3, lambda: 2 * w, lambda: -w, lambda: w[0]):
        error = error_of(call, GraphError)
        assert error.message == (
            "parameter w belongs to no graph, so an operation on it has no graph to go into"
        )
        assert error.hint.startswith("use it with a tensor, as in x @ weight")
    error = error_of(lambda: np.ones(2) @ w, GraphError)
    assert error.where
    error = error_of(lambda: w.T, ll.UnknownNameError)
    assert error.message == "parameter w has no 'T'"
    assert not hasattr(w, "__array__")


class Given(nn.Module):
    """A module with the attributes that it is given."""

    inner: Any
    parts: Any

    def __init__(self, **attributes):
        vars(self).update(attributes)

    def forward(self, x):
        return self.inner(x) if "inner" in vars(self) else x


def test_lists_that_hold_themselves_and_modules_that_do():
    model = Given(inner=nn.Linear(3, 3))
    model.parts = [model.inner, {"model": model}]
    model.parts.append(model.parts)
    assert list(model.parameters()) == ["inner.weight", "inner.bias"]
    assert "parts.1.model: Given, which this is a part of" in repr(model)
    assert model.to("float64")(Graph().tensor((2, 3), "float64")).dtype == "float64"


def test_parts_that_could_not_be_told_apart_are_refused():
    p, q = nn.Parameter((2,)), nn.Parameter((2,))
    x = Graph().tensor((2,))
    for model in (
        Given(**{"a": {"b": p}, "a.b": q}),
        Given(**{"a": Given(b=p), "a.b": q}),
        Given(**{"a": {"b": nn.ReLU()}, "a.b": nn.ReLU()}),
    ):
        for call in (lambda m=model: m.state_dict(), lambda m=model: m(x)):
            error = error_of(call, DefinitionError)
            assert error.message == "a.b: two parts of a module have this path"
            assert error.hint == "rename the attribute, or the key of the dict, that has a dot"
            assert "test_module_errors.py" in error.where
    assert list(Given(**{"a": {"b": p}, "a.b": p}).parameters()) == ["a.b"]
    for parts in ({nn.ReLU()}, frozenset([p])):
        error = error_of(lambda parts=parts: Given(parts=parts).parameters(), DefinitionError)
        assert error.message == (
            "parts: a set holds modules or parameters, which have no order there"
        )
    assert Given(words={"a", "b"}).parameters() == {}


def test_a_name_may_be_empty():
    model = Given(**{"": nn.Parameter((2,), value=[1, 2])})
    assert model(Graph().tensor((2,))).shape == (2,)
    assert list(model.state_dict()) == [""]


def test_modules_deeper_than_python_goes():
    model = Given()
    for _ in range(1_000):
        model = Given(inner=model)
    assert len(model.named_modules()) == 1_001
    cx = Graph()
    x = cx.tensor((2,))
    error = error_of(lambda: model(x), GraphError)
    assert error.message.startswith("given: modules in it call modules deeper than Python goes, ")
    assert "test_module_errors.py" in error.where
    model.inner = model
    error_of(lambda: model(x), GraphError)
    model.inner = nn.ReLU()
    model(x)
    assert [node.meta.scope for node in cx.ir if node.op.name == "where"] == ["given.inner"]


def test_errors_within_name_the_users_line():
    one, two = Graph().tensor((2, 3)), Graph().tensor((2, 3))
    layer = nn.Bilinear(3, 3, 2)
    error = error_of(lambda: layer(one, two), GraphError)
    assert "error_of(lambda: layer(one, two), GraphError)" in error.where
    for call in (
        lambda: layer.to("floaty"),
        lambda: nn.Linear(3, 2, dtype="floaty"),
        lambda: nn.Parameter((3,), "floaty"),
    ):
        error = error_of(call, DTypeError)
        assert error.hint == "did you mean 'float64'?"
        assert "test_module_errors.py" in error.where


def test_an_unknown_name_in_forward_is_reported_at_its_own_line():
    lab: Any = ll

    class Masked(nn.Module):
        def forward(self, x: ll.Tensor) -> ll.Tensor:
            y = x + 1
            return lab.softmax(y)

    x = ll.Graph().tensor((4, 4), name="x")
    error = error_of(lambda: Masked()(x), UnknownNameError)
    assert error.where.endswith("return lab.softmax(y)")
    assert error.hint == "tensors have it as a method: x.softmax(...)"
