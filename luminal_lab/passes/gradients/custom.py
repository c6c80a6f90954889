"""Where gradients end, and where a user says what they are."""

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
from luminal_lab.tensor.derived import as_one
from luminal_lab.tensor.lazy import Workspace
from luminal_lab.tensor.parameter import Parameter

P = ParamSpec("P")
Backward = Callable[[Tensor], Any]


@told
def stop_gradient(x: Tensor) -> Tensor:
    """Return the same value, through which no gradient goes.

    >>> from luminal_lab.session import Graph
    >>> print(stop_gradient(Graph().tensor((2,), name="x")).lowering())
    %1 = stop_gradient %x : f32[2]
    """
    if not isinstance(x, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]  # nobody checks notebooks
        raise GraphError(
            f"stop_gradient: {said(x)} is not a tensor",
            where=str(here() or "") or None,
            hint="make one with cx.tensor(...)",
        )
    return x.detach()


@told
def custom_gradient(function: Callable[P, tuple[Tensor, Backward]]) -> Callable[P, Tensor]:
    """Have a function say its gradient itself: it returns its result, and a function for it.

    That function is given the gradient of the result, and returns one for each tensor or parameter
    among the arguments (None for none). What the result was computed by has no part in it.

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
        graph = next((one.graph for one in arguments if isinstance(one, Tensor)), None)
        if graph is None:
            raise GraphError(
                f"custom_gradient {name!r}: there is no tensor among its arguments",
                where=str(here() or "") or None,
                hint="what it is to be derived by is an argument of its own",
            )

        def write() -> Tensor:
            borrowed = [borrow(graph, one) for one in arguments]
            tensors = [one for one in borrowed if isinstance(one, Tensor)]
            if any(tensor.graph is not graph for tensor in tensors):
                raise apart(name)
            call_ = cast("Callable[..., object]", function)
            named = dict(zip(kwargs, borrowed[len(args) :], strict=True))
            result, backward = pair(name, call_(*borrowed[: len(args)], **named))
            if result.graph is not graph:
                raise apart(name)
            with graph.whole():
                key = unique(name, graph.backwards)
                made = emit(CustomGradient(key), result, *tensors)
            graph.backwards[key] = backward
            return made

        return as_one(graph, write)

    return call


def borrow(graph: Workspace, argument: object) -> object:
    """Return an argument, and for a parameter the tensor that stands for it in a graph."""
    return graph.parameter(argument) if isinstance(argument, Parameter) else argument


def apart(name: str) -> GraphError:
    """Return the error for tensors that are not all of one graph."""
    return GraphError(
        f"custom_gradient {name!r}: its tensors belong to different graphs",
        hint="give it tensors of one graph, and return one of that",
    )


def pair(name: str, given: object) -> tuple[Tensor, Backward]:
    """Return the result and the function of its gradient that a user's function returned."""
    parts = cast("tuple[object, ...]", given) if isinstance(given, tuple) else ()
    if len(parts) == 2 and isinstance(parts[0], Tensor) and callable(parts[1]):
        return parts[0], parts[1]
    raise DefinitionError(
        f"custom_gradient {name!r}: it returned {said(cast('object', given))}",
        hint="return a pair: one tensor, and a function of its gradient",
    )
