"""The common parts of losses: operands of one shape and dtype, and the three reductions."""

from __future__ import annotations

# Losses use the private building blocks of tensors.
# pyright: reportPrivateUsage=false
import inspect
from collections.abc import Callable
from functools import wraps
from typing import Literal, ParamSpec, TypeAlias

from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import tuple_text
from luminal_lab.core.origin import here
from luminal_lab.errors import ArgumentError, GraphError, LabError, ShapeError, nearest
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import told
from luminal_lab.tensor.arithmetic import Operand
from luminal_lab.tensor.formulas import is_zero
from luminal_lab.tensor.functions import widened

P = ParamSpec("P")
MISSING = object()
Reduction: TypeAlias = Literal["mean", "sum", "none"]


def loss(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Mark a function of a prediction as a loss: all or nothing, in a scope with its name."""
    name = function.__name__
    first = next(iter(inspect.signature(function).parameters))

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        given = args[0] if args else kwargs.get(first, MISSING)
        if given is MISSING:
            return function(*args, **kwargs)  # the arguments do not fit
        if not isinstance(given, Tensor):
            raise GraphError(
                f"{name}: {first} is {given!r} and not a tensor",
                where=str(here() or "") or None,
                hint="a loss takes first what the model made, a tensor of a graph",
            )
        try:
            with given.graph.scope(name), given.graph.whole():
                return function(*args, **kwargs)
        except LabError as error:  # an argument that is not an operand is the loss's own
            error.message = error.message.replace("operand: ", f"{name}: ", 1)
            error.args = (error.message,)
            raise

    return told(call)


def paired(what: str, first: Tensor, *others: Operand) -> tuple[DType, list[Tensor]]:
    """Return the dtype of the loss, and operands of one shape in the dtype for computation."""
    tensors = [first, *[first._tensor_of(other) for other in others]]
    for tensor in tensors[1:]:
        if tensor.shape != first.shape:
            raise ShapeError(
                f"{what}: the prediction {first.label} and the target {tensor.label} differ in "
                "shape",
                hint=_reshaping(first, tensor),
            )
    return first._floats(what, *tensors[1:])


def _reshaping(first: Tensor, other: Tensor) -> str:
    if first.shape == (*other.shape, 1):
        return f"%{first.name}.squeeze(-1) has the shape of the target"
    if other.shape == (*first.shape, 1):
        return f"%{other.name}.squeeze(-1) has the shape of the prediction"
    return "to repeat one of them on purpose, write expand_as(...)"


def reduced(what: str, values: Tensor, reduction: str, dtype: DType, *more: str) -> Tensor:
    """Return the mean or the sum of the losses of all elements, or all losses."""
    check_reduction(what, reduction, *more)
    result = values
    if reduction == "mean":
        result = values.mean()
    elif reduction == "sum":
        result = values.sum()
    return result.cast(dtype)


def check_reduction(what: str, reduction: str, *more: str) -> None:
    """Raise unless the word is one of the reductions."""
    known = ("mean", "sum", "none", *more)
    if reduction not in known:
        listed = ", ".join(map(repr, known[:-1]))
        raise ArgumentError(
            f"{what}: there is no reduction {reduction!r}",
            hint=nearest(str(reduction), known) or f"one of {listed} and {known[-1]!r}",
        )


def weighed(share: Tensor, values: Tensor) -> Tensor:
    """Return share · value, with 0 where the share is 0, even for an infinite value."""
    return (is_zero(share) & values.isinf()).where(0.0, values) * share


def weights_for(what: str, values: Tensor, weight: Operand) -> Tensor:
    """Return factors for the losses of elements, broadcast to their shape."""
    given = widened(values._tensor_of(weight)._as_float()).cast(values.dtype)
    fits = len(given.shape) <= len(values.shape) and all(
        a in (1, b) for a, b in zip(given.shape[::-1], values.shape[::-1], strict=False)
    )
    if not fits:
        raise ShapeError(
            f"{what}: the weight {given.label} cannot be broadcast to {tuple_text(values.shape)}",
            hint="give one weight for each element, or axes of size 1 where it repeats",
        )
    return given
