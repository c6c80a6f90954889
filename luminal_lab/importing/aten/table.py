"""The table of ATen ops, which the files here fill, and the ops that nothing can write."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar, cast

from luminal_lab.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

OPS: Final[dict[str, Callable[..., Any]]] = {}
"""What writes an op: called with the graph and the op's arguments, in the order of its schema."""

BY_VALUES = "the shape of its result depends on values"
REFUSED: Final[dict[str, str]] = {
    "aten.nonzero.default": BY_VALUES,
    "aten.masked_select.default": BY_VALUES,
    "aten.unique_consecutive.default": BY_VALUES,
    "aten._unique2.default": BY_VALUES,
    "aten.unique_dim.default": BY_VALUES,
    "aten.masked_scatter.default": "it takes as many values as a mask happens to have",
    "aten._local_scalar_dense.default": "it makes a number of a tensor, which only a run knows",
    "aten._fft_c2r.default": "there are no complex numbers",
    "aten._fft_r2c.default": "there are no complex numbers",
    "aten._fft_c2c.default": "there are no complex numbers",
    "aten.complex.default": "there are no complex numbers",
    "aten.view_as_complex.default": "there are no complex numbers",
}
"""Ops that cannot be written, each with the reason."""


def aten(*names: str) -> Callable[[F], F]:
    """Enter a function that is called with an op's arguments.

    >>> @aten("times_two")
    ... def times_two(x):
    ...     return x * 2
    >>> OPS.pop("aten.times_two.default")(cx, cx.tensor((3,))).shape
    (3,)
    """

    def entered(function: F) -> F:
        @wraps(function)
        def write(_: object, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # the op's result
            return function(*args, **kwargs)

        OPS.update(dict.fromkeys(map(full_name, names), write))
        return function

    return entered


def source(*names: str) -> Callable[[F], F]:
    """Enter a function that is called with the graph, too: one that makes something of nothing.

    >>> @source("three")
    ... def three(graph):
    ...     return graph.full((), 3)
    >>> OPS.pop("aten.three.default")(cx).shape
    ()
    """

    def entered(function: F) -> F:
        OPS.update(dict.fromkeys(map(full_name, names), function))
        return function

    return entered


def along(*names: str) -> Callable[[F], F]:
    """Enter a function of axes; as in PyTorch, a number passes for a vector of one.

    >>> @along("top")
    ... def top(x, dim):
    ...     return x.amax(dim)
    >>> OPS.pop("aten.top.default")(cx, cx.tensor(()), 0).shape
    ()
    """

    def entered(function: F) -> F:
        @wraps(function)
        def on_axes(x: Tensor, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # the op's result
            if x.ndim:
                return function(x, *args, **kwargs)
            result: Any = function(x.reshape(1), *args, **kwargs)
            if isinstance(result, tuple):
                return tuple([part.reshape(()) for part in cast("tuple[Tensor, ...]", result)])
            return result.reshape(())

        aten(*names)(on_axes)
        return function

    return entered


def methods(names: str, enter: Callable[..., Callable[[Any], Any]] = aten) -> None:
    """Enter ops that are a tensor's method of the same name, or of the one behind a `=`.

    >>> methods("own_relu=relu")
    >>> OPS.pop("aten.own_relu.default")(cx, cx.tensor((3,))).shape
    (3,)
    """
    for word in names.split():
        name, _, ours = word.partition("=")
        enter(name)(getattr(Tensor, ours or name.partition(".")[0]))


def full_name(name: str) -> str:
    """Return an op's name with its overload.

    >>> full_name("relu"), full_name("add.Tensor"), full_name("_operator.add:")
    ('aten.relu.default', 'aten.add.Tensor', '_operator.add')
    """
    if name.endswith(":"):  # not ATen's
        return name[:-1]
    return f"aten.{name}" if "." in name else f"aten.{name}.default"
