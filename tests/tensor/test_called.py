"""Methods that are functions too."""

import inspect

import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, GraphError
from luminal_lab.tensor import called
from tests.expect import error_of

NAMES = [name for name in vars(called) if name in ll.__all__ and name.islower()]


@pytest.mark.parametrize("name", NAMES)
def test_a_function_is_the_method(name: str):
    cx = ll.Graph()
    x, y = cx.tensor((2, 2), name="x"), cx.tensor((2, 2), name="y")
    given = {"full_like": (2.0,), **dict.fromkeys(("cdist", "isin", "maximum", "minimum"), (y,))}
    more = given.get(name, ())
    assert getattr(ll, name)(x, *more).type == getattr(x, name)(*more).type
    assert inspect.signature(getattr(ll, name)) == inspect.signature(getattr(ll.Tensor, name))


def test_arguments_have_pytorchs_names():
    cx = ll.Graph()
    x = cx.tensor((3, 3)).set([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    y = ll.triu(x, diagonal=1).retrieve()
    cx.execute()
    assert y.tolist() == [[0, 2, 3], [0, 0, 6], [0, 0, 0]]


def test_errors():
    error = error_of(lambda: ll.triu([[1.0]]), GraphError)  # pyright: ignore[reportArgumentType]
    assert error.message == "triu: [[1.0]] is not a tensor"
    cx = ll.Graph()
    error = error_of(lambda: ll.triu(cx.tensor((2, 2)), out=3), ArgumentError)  # pyright: ignore[reportCallIssue]
    assert error.message == "triu: there is no argument 'out', which only PyTorch has"
