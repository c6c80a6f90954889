"""What optimisers refuse, and that a refused step leaves everything as it was."""

from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.errors import (
    ArgumentError,
    DefinitionError,
    DTypeError,
    GraphError,
    RangeError,
    ShapeError,
)
from tests.expect import error_of, state
from tests.nn.optim.line import task

ONCE = (
    "a run makes one step of a weight: drop() what an earlier minimise or step returned, or write "
    "this one into another graph"
)

wrong: Any = 0.5
wrongs: Any = ["a"]


class Nothing(nn.Optimiser):
    pass


class Own(nn.Optimiser):
    """An optimiser that returns, or remembers, what it should not."""

    def __init__(self, returned: Any = None, kept: Any = None) -> None:
        super().__init__(0.5)
        self.returned, self.kept = returned, kept

    def update(self, weight, gradient, state):
        if self.kept:
            state["kept"] = self.kept(gradient)
        return self.returned(gradient) if self.returned else weight


@pytest.mark.parametrize(
    ("call", "kind", "message", "hint"),
    [
        (
            lambda cx, loss, line: nn.SGD().minimise(loss, nn.Dropout()),
            GraphError,
            "SGD: there are no weights to train",
            "give a module with parameters that are trained",
        ),
        (
            lambda cx, loss, line: nn.SGD().minimise(cx["total"]),
            GraphError,
            "SGD: the loss %total () is computed from no trained parameter",
            "make the loss of what the model returns in this graph",
        ),
        (
            lambda cx, loss, line: nn.SGD().minimise(loss, {"u": line.unused}),
            GraphError,
            "SGD: the loss %loss () is computed from none of u",
            "make the loss of what the model returns in this graph",
        ),
        (
            lambda cx, loss, line: nn.SGD().minimise(wrong),
            GraphError,
            "SGD: the loss is 0.5 and not a tensor",
            "give what a loss returned",
        ),
        (
            lambda cx, loss, line: nn.SGD().minimise(
                loss, {"n": nn.Parameter((), "int64", value=0)}
            ),
            DTypeError,
            "SGD: n is int64, and only floats can be trained",
            'make it with dtype="float32", or with trainable=False',
        ),
        (
            lambda cx, loss, line: nn.SGD().minimise(loss, [loss]),
            GraphError,
            "SGD: %loss () is the result of mul, and not an input",
            "train the parameters, or the inputs, that it is computed from",
        ),
        (
            lambda cx, loss, line: nn.SGD().minimise(loss, [cx["w"]]),
            ShapeError,
            "SGD: w is (n,), whose size is not known",
            "the dims of a weight are numbers",
        ),
        (
            lambda cx, loss, line: nn.SGD().minimise(loss, wrongs),
            GraphError,
            "SGD: 'a' is not a weight",
            "give a module, or its parameters()",
        ),
        (
            lambda cx, loss, line: nn.SGD().step({"a": line.a}, {"b": cx["x"]}),
            GraphError,
            "SGD: the weights are a, but the gradients b",
            "both are dicts with the same names: ll.grad(loss, model.parameters())",
        ),
        (
            lambda cx, loss, line: nn.SGD().step({"a": line.a}, {"a": cx["x"]}),
            ShapeError,
            "SGD: a is (), but its gradient is %x (3,)",
            "a gradient has the shape of its weight",
        ),
        (
            lambda cx, loss, line: nn.SGD().step(
                {"a": line.a, "b": line.b}, {"a": loss, "b": ll.Graph().tensor(())}
            ),
            GraphError,
            "SGD: b and the other weights and gradients are in several graphs",
            "make inputs for the gradients in one graph, and move them with transfer",
        ),
        (
            lambda cx, loss, line: nn.SGD().step(
                {"a": line.a, "b": line.a}, {"a": loss, "b": loss}
            ),
            GraphError,
            "SGD: b is updated in the graph 'main' already, under two names",
            ONCE,
        ),
        (
            lambda cx, loss, line: Nothing().minimise(loss),
            DefinitionError,
            "Nothing: the class has no update",
            "define update(self, weight, gradient, state), which returns the next weight",
        ),
        (
            lambda cx, loss, line: Own(lambda g: None if g.ndim else 3.0).minimise(loss),
            DefinitionError,
            "Own: update returned 3.0 for a, which is ()",
            "return the next weight, a tensor of its shape",
        ),
        (
            lambda cx, loss, line: Own(kept=lambda g: 3.0).minimise(loss),
            DefinitionError,
            "a.kept is set to 3.0, and must be a tensor of f32[]",
            "what is remembered of a weight has its shape, and what is shared is one number",
        ),
        (
            lambda cx, loss, line: Own(kept=lambda g: g.named("g").double()).minimise(loss),
            DefinitionError,
            None,
            "what is remembered of a weight has its shape, and what is shared is one number",
        ),
        (
            lambda cx, loss, line: nn.SGD(lr=lambda step: wrongs).minimise(loss),
            ArgumentError,
            "SGD: what lr returned is ['a'] and not a number",
            "give one, such as 0.1",
        ),
        (
            lambda cx, loss, line: nn.SGD(lr=cx["x"]).minimise(loss),
            ShapeError,
            "SGD: lr is %x (3,) of float32, and must be one float",
            "make it a tensor of the shape ()",
        ),
        (
            lambda cx, loss, line: nn.SGD(lr=lambda step: cx["x"]).minimise(loss),
            ShapeError,
            "SGD: lr is %x (3,) of float32, and must be one float",
            "make it a tensor of the shape ()",
        ),
        (
            lambda cx, loss, line: nn.SGD().step({"a": line.a}, {"a": wrong}),
            GraphError,
            "SGD: the gradient of a is 0.5 and not a tensor",
            "ll.grad(loss, model.parameters()) makes them",
        ),
        (
            lambda cx, loss, line: nn.SGD().minimise(loss, wrong),
            GraphError,
            "SGD: 0.5 is not a weight",
            "give a module, or its parameters()",
        ),
        (
            lambda cx, loss, line: nn.SGD().minimise(loss, [line]),
            GraphError,
            "SGD: line is not a weight",
            "give one module, or a dict of the parameters of several",
        ),
        (
            lambda cx, loss, line: nn.SGD(dampening=float("nan")),
            RangeError,
            "SGD: dampening is nan, and must be 0 or more",
            "try 0.1",
        ),
        (
            lambda cx, loss, line: nn.SGD(weight_decay=lambda w: -1.0).minimise(loss),
            RangeError,
            "SGD: weight_decay is -1.0, and must be 0 or more",
            "try 1.0",
        ),
    ],
)
def test_errors(call, kind, message, hint):
    cx, loss, line = task()
    cx["x"].sum().named("total")
    cx.tensor(("n",), name="w")
    before = state(cx)
    error = error_of(lambda: call(cx, loss, line))
    assert type(error) is kind
    assert (error.message if message else None, error.hint) == (message, hint)
    assert "test_mistakes.py" in str(error.where)
    assert state(cx) == before
    assert cx.gradients == ()


def test_a_second_step_in_one_graph_is_refused_and_changes_nothing():
    cx, loss, line = task()
    optimiser = nn.Adam(0.1)
    updates = optimiser.minimise(loss, [line.a])
    before = state(cx)
    error = error_of(lambda: nn.SGD(0.1).step([line.a], {"a": loss}), GraphError)
    assert error.message == (
        f"SGD: a is updated in the graph 'main' already, by %{updates['a'].name}"
    )
    assert error.hint == ONCE
    assert state(cx) == before
    error = error_of(lambda: optimiser.step([line.b], {"b": loss}), GraphError)
    assert error.message == "Adam: it makes a step in the graph 'main' already"
    assert error.hint == "make another optimiser for the other weights, or one step of them all"
    assert state(cx) == before


def test_an_update_that_fails_is_taken_back_with_its_gradients():
    class Failing(nn.Optimiser):
        def update(self, weight, gradient, state):
            state["seen"] = weight + gradient
            return weight.matmul(gradient)

    cx, loss, _ = task()
    before = state(cx)
    error_of(lambda: Failing().minimise(loss, clip_norm=1.0))
    assert state(cx) == before
    assert cx.gradients == ()
    nn.SGD().minimise(loss)
    cx.execute()
