"""Methods that PyTorch's users call as functions: `ll.triu(x)` is `x.triu()`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from luminal_lab.errors import GraphError
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import told

P = ParamSpec("P")
R = TypeVar("R")


def function(method: Callable[Concatenate[Tensor, P], R]) -> Callable[Concatenate[Tensor, P], R]:
    """Return a method of tensors as a function of one.

    >>> function(Tensor.triu)(cx.ones((2, 2))).shape
    (2, 2)
    """

    @wraps(method)
    def call(x: Tensor, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if not isinstance(x, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
            raise GraphError(
                f"{method.__name__}: {x!r} is not a tensor",
                hint="the first argument is a tensor of a graph",
            )
        return method(x, *args, **kwargs)

    call.__qualname__, call.__module__ = method.__name__, __name__
    return told(call)


cdist = function(Tensor.cdist)
full_like = function(Tensor.full_like)
isin = function(Tensor.isin)
maximum = function(Tensor.maximum)
minimum = function(Tensor.minimum)
ones_like = function(Tensor.ones_like)
rand_like = function(Tensor.rand_like)
randn_like = function(Tensor.randn_like)
tril = function(Tensor.tril)
triu = function(Tensor.triu)
zeros_like = function(Tensor.zeros_like)
