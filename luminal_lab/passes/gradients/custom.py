"""Where gradients end, and where a user says what they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, cast

from luminal_lab.core.ops import CustomGradient
from luminal_lab.core.printer import unique
from luminal_lab.errors import DefinitionError, GraphError
from luminal_lab.passes.gradients.rule import emit
from luminal_lab.tensor import Tensor

P = ParamSpec("P")
Backward = Callable[[Tensor], Any]


def stop_gradient(x: Tensor) -> Tensor:
    """Return the same value, through which no gradient goes.

    >>> from luminal_lab.session import Graph
    >>> print(stop_gradient(Graph().tensor((2,), name="x")).lowering())
    %1 = stop_gradient %x : f32[2]
    """
    if not isinstance(x, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]  # nobody checks notebooks
        raise GraphError(
            f"stop_gradient: {x!r} is not a tensor", hint="make one with cx.tensor(...)"
        )
    return x.detach()


def custom_gradient(function: Callable[P, tuple[Tensor, Backward]]) -> Callable[P, Tensor]:
    """Have a function say its gradient itself: it returns its result, and a function for it.

    That function is given the gradient of the result, and returns one for each tensor among the
    positional arguments (None for none). What the result was computed by has no part in it.

    >>> from luminal_lab.session import Graph
    >>> @custom_gradient
    ... def kept_in_bounds(x):
    ...     return x.clip(-1, 1), lambda g: g  # the gradient as if there were no bounds
    >>> x = Graph().tensor((2,), name="x")
    >>> kept_in_bounds(x).shape
    (2,)
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        tensors = [argument for argument in args if isinstance(argument, Tensor)]
        name = function.__name__
        if not tensors:
            raise GraphError(
                f"custom_gradient {name!r}: there is no tensor among its arguments",
                hint="give tensors as positional arguments",
            )
        given: object = function(*args, **kwargs)
        graph = tensors[0].graph
        with graph.whole():
            result, backward = pair(name, given)
            if any(tensor.graph is not graph for tensor in (*tensors, result)):
                raise GraphError(
                    f"custom_gradient {name!r}: its tensors belong to different graphs",
                    hint="give it tensors of one graph, and return one of that",
                )
            key = unique(name.strip("<>"), graph.backwards)
            graph.backwards[key] = backward
            return emit(CustomGradient(key), result, *tensors)

    return call


def pair(name: str, given: object) -> tuple[Tensor, Backward]:
    """Return the result and the function of its gradient that a user's function returned."""
    parts = cast("tuple[object, ...]", given) if isinstance(given, tuple) else ()
    if len(parts) == 2 and isinstance(parts[0], Tensor) and callable(parts[1]):
        return parts[0], parts[1]
    raise DefinitionError(
        f"custom_gradient {name!r}: it returned {given!r}",
        hint="return a pair: one tensor, and a function of its gradient",
    )
