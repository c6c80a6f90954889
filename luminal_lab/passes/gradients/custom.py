"""Stopped gradients, and gradients that a user defines."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, cast

from luminal_lab.core.ops import CustomGradient
from luminal_lab.core.origin import here
from luminal_lab.core.printer import unique
from luminal_lab.errors import DefinitionError, GraphError
from luminal_lab.passes.gradients.rule import emit, function_of, said
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import told
from luminal_lab.tensor.derived import as_whole
from luminal_lab.tensor.lazy import Workspace
from luminal_lab.tensor.parameter import Parameter

P = ParamSpec("P")
Backward = Callable[[Tensor], Any]


@told
def stop_gradient(x: Tensor) -> Tensor:
    """Return the same value, which passes no gradient on.

    >>> from luminal_lab.session import Graph
    >>> print(stop_gradient(Graph().tensor((2,), name="x")).lowering())
    %1 = stop_gradient %x : f32[2]
    """
    if not isinstance(x, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]  # notebooks run unchecked
        raise GraphError(
            f"stop_gradient: {said(x)} is not a tensor",
            where=str(here() or "") or None,
            hint="make one with cx.tensor(...)",
        )
    return x.detach()


@told
def custom_gradient(function: Callable[P, tuple[Tensor, Backward]]) -> Callable[P, Tensor]:
    """Mark a function that defines its own gradient: it returns its result and a backward function.

    The backward function takes the gradient of the result and returns one for each tensor or
    parameter among the arguments, or None. The steps behind the result play no part in it.

    >>> from luminal_lab.session import Graph
    >>> @custom_gradient
    ... def kept_in_bounds(x):
    ...     return x.clip(-1, 1), lambda g: g  # the gradient as if there were no bounds
    >>> x = Graph().tensor((2,), name="x")
    >>> kept_in_bounds(x).shape
    (2,)
    """

    function_of("custom_gradient", function)
    name = getattr(function, "__name__", type(function).__name__).strip("<>")

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        arguments: list[object] = [*args, *kwargs.values()]
        graph = next(
            (argument.graph for argument in arguments if isinstance(argument, Tensor)), None
        )
        if graph is None:
            raise GraphError(
                f"custom_gradient {name!r}: there is no tensor among its arguments",
                where=str(here() or "") or None,
                hint="what it is to be differentiated by must be an argument of its own",
            )

        def write() -> Tensor:
            borrowed = [borrow(graph, argument) for argument in arguments]
            tensors = [argument for argument in borrowed if isinstance(argument, Tensor)]
            if any(tensor.graph is not graph for tensor in tensors):
                raise apart(name)
            call_ = cast("Callable[..., object]", function)
            named = dict(zip(kwargs, borrowed[len(args) :], strict=True))
            result, backward = pair(name, call_(*borrowed[: len(args)], **named))
            if result.graph is not graph:
                raise apart(name)
            with graph.whole():
                key = unique(name, graph.backwards)
                gradient = emit(CustomGradient(key), result, *tensors)
            graph.backwards[key] = backward
            return gradient

        return as_whole(graph, write)

    return call


def borrow(graph: Workspace, argument: object) -> object:
    """Return an argument, or a parameter's tensor in a graph."""
    return graph.parameter(argument) if isinstance(argument, Parameter) else argument


def apart(name: str) -> GraphError:
    """Return the error for tensors of different graphs."""
    return GraphError(
        f"custom_gradient {name!r}: its tensors belong to different graphs",
        hint="give it tensors of one graph, and return one of that",
    )


def pair(name: str, given: object) -> tuple[Tensor, Backward]:
    """Return the result and the backward function from a user's function."""
    parts = cast("tuple[object, ...]", given) if isinstance(given, tuple) else ()
    if len(parts) == 2 and isinstance(parts[0], Tensor) and callable(parts[1]):
        return parts[0], parts[1]
    raise DefinitionError(
        f"custom_gradient {name!r}: it returned {said(cast('object', given))}",
        hint="return a pair: one tensor, and a function of its gradient",
    )
