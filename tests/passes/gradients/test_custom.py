"""Functions that say their gradient themselves: what they are given, return and do wrong."""

from functools import partial
from typing import Any

import pytest

import luminal_lab as ll
from tests.expect import error_of, state


def square() -> tuple[Any, Any, Any]:
    cx = ll.Graph()
    x = cx.tensor((3,), name="x").set([1.0, 2.0, 3.0])
    return cx, x, (x * x).sum()


def run(cx: Any, *tensors: Any) -> list[list[float]]:
    cx.retrieve(list(tensors))
    cx.execute()
    return [tensor.tolist() for tensor in tensors]


OTHER = ll.Graph("other").tensor((3,), name="theirs")
"""Of the right type, and of the wrong graph."""


@pytest.mark.parametrize(
    ("returned", "what"),
    [
        (lambda g: 3.0, "is 3.0"),
        (lambda g: [[g]], "is [%"),
        (lambda g: g.sum(), "is f32[], and that is f32[3]"),
        (lambda g: g.double(), "is f64[3], and that is f32[3]"),
        (lambda g: OTHER, "is %theirs (3,) of the graph 'other', and the source is in 'main'"),
    ],
)
def test_what_a_gradient_of_ones_own_returns_is_checked(returned, what):
    cx, x, _ = square()

    @ll.custom_gradient
    def own(a: ll.Tensor) -> Any:
        return a * 2, returned

    loss = own(x).sum()
    before = state(cx)
    error = error_of(lambda: ll.grad(loss, x))
    assert error.message.startswith(f"custom_gradient 'own': the gradient for its tensor 0 {what}")
    assert error.hint
    assert "test_custom.py" in error.where
    assert state(cx) == before


def test_what_goes_wrong_in_a_gradient_of_ones_own_says_where():
    cx, x, _ = square()
    before = state(cx)

    def wrong(a: ll.Tensor) -> Any:
        _ = a * 2
        raise KeyError("mine")

    error_of(lambda: ll.custom_gradient(wrong)(x), KeyError)
    error_of(lambda: ll.custom_gradient(lambda a: a * 2)(x), ll.DefinitionError)
    assert state(cx) == before
    assert not cx.backwards
    loss = ll.custom_gradient(lambda a: (a * 2, lambda g: {}["mine"]))(x).sum()
    before = state(cx)
    error = error_of(lambda: ll.grad(loss, x), KeyError)
    assert error.__notes__ == ["in the gradient of custom_gradient 'lambda'"]
    assert state(cx) == before


def test_parameters_and_named_arguments_have_gradients_of_their_own():
    cx, x, _ = square()
    w = ll.Parameter((3,), value=[4, 5, 6])

    @ll.custom_gradient
    def product(a: ll.Tensor, power: int, *, by: Any) -> Any:
        return a * by * power, lambda g: (g * 7, g * 8)

    by_x, by_w = run(cx, *ll.grad(product(x, 1, by=w).sum(), [x, w]))
    assert by_x == [7, 7, 7]
    assert by_w == [8, 8, 8]


def test_functions_without_a_name():
    cx, x, _ = square()
    twice = ll.custom_gradient(partial(lambda factor, a: (a * factor, lambda g: g * 9), 2.0))
    assert run(cx, ll.grad(twice(x).sum(), x)) == [[9, 9, 9]]
    error = error_of(lambda: ll.custom_gradient(3), ll.DefinitionError)  # pyright: ignore
    assert error.message == "custom_gradient: 3 is not a function"
