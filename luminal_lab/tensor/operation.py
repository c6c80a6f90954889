"""Operations: methods of tensors that undo themselves on errors and accept PyTorch's words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from luminal_lab.core.op import OPS
from luminal_lab.errors import AxisError, LabError
from luminal_lab.tensor.arguments import MARK, as_ours

if TYPE_CHECKING:
    from luminal_lab.tensor.lazy import Lazy

P = ParamSpec("P")
R = TypeVar("R")
LazyT = TypeVar("LazyT", bound="Lazy")


def operation(
    function: Callable[Concatenate[LazyT, P], R], name: str | None = None
) -> Callable[Concatenate[LazyT, P], R]:
    """Mark a method of tensors as an operation: all or nothing, with `dim` accepted for `axis`.

    Its errors name the operation that the user called, not its inner steps.
    """
    aliases, written = _aliases(function), name or function.__name__
    theirs = aliases.keys()

    @wraps(function)
    def call(self: LazyT, /, *args: P.args, **kwargs: P.kwargs) -> R:
        graph = self.graph
        if (begun := graph.begun) is not None and (begun[1] is None or graph.within()):
            if kwargs and not theirs.isdisjoint(kwargs):
                _rename(written, kwargs, aliases)
            return function(self, *args, **kwargs)
        try:
            try:
                graph.mark()
                if kwargs and not theirs.isdisjoint(kwargs):
                    _rename(written, kwargs, aliases)
                result = function(self, *args, **kwargs)
                graph.begun = None
                return result
            except Exception as error:
                wrong = as_ours(written, function, error, (self, *args), kwargs, on="x.")
                _say(written, function, type(self), wrong)
                graph.fail(wrong)
                raise wrong from error.__cause__ if wrong is error else None
        finally:
            if graph.begun is not None:  # Ctrl-C, also behind an error
                graph.fail(KeyboardInterrupt())

    call.__name__ = written
    setattr(call, MARK, True)
    return call


def on_axis(
    function: Callable[Concatenate[LazyT, P], R],
) -> Callable[Concatenate[LazyT, P], R]:
    """Mark an operation along an axis; as in PyTorch, it takes a number as a vector of one."""

    @wraps(function)
    def call(self: LazyT, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.ndim:
            return function(self, *args, **kwargs)
        number: Any = self
        result: Any = function(number._viewed((1,)), *args, **kwargs)
        if isinstance(result, tuple):
            return tuple(part._viewed(()) for part in cast("Sequence[Any]", result))  # pyright: ignore[reportReturnType]  # of the same kind
        return result._viewed(())

    return operation(call)


def name_aliases(cls: type) -> None:
    """Make each alias in a class (cat = concat) an operation under its own name.

    Public methods that only use operations, such as `double`, become operations, too.
    """
    for name, method in list(vars(cls).items()):
        if not isinstance(method, FunctionType):
            continue
        inner = getattr(method, "__wrapped__", None)
        # `2 * x` is too frequent to cost more than `x * 2`.
        if method.__name__ != name and (inner is not None or name[0] != "_"):
            setattr(cls, name, operation(inner or method, name))
        elif inner is None and name[0] != "_":
            setattr(cls, name, operation(method))


def _say(name: str, function: Callable[..., object], cls: type, error: Exception) -> None:
    """Replace an inner operation's name in an error by the name that the user called."""
    if not isinstance(error, LabError) or name[0] == "_" or name == "apply":
        return
    if _parameters(function)[1:2] == ("what",):  # its caller has put in the name
        return
    subject, colon, rest = error.message.partition(": ")
    if colon and (subject in OPS or callable(getattr(cls, subject, None))):
        error.message = f"{name}: {rest}"
        error.args = (error.message,)


def _parameters(function: Callable[..., object]) -> tuple[str, ...]:
    # For a method wrapped by another decorator, its own signature counts.
    code = getattr(function, "__wrapped__", function).__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _aliases(function: Callable[..., object]) -> dict[str, str]:
    """Return PyTorch's words for the parameters of an operation."""
    known = _parameters(function)
    # dim for axis, dim0 for axis0, start_dim for start_axis, …
    aliases = {name.replace("axis", "dim"): name for name in known if "axis" in name}
    aliases |= {"dims": "axis"} if "axis" in known else {}
    aliases |= {"keepdims": "keepdim"} if "keepdim" in known else {}
    return {theirs: ours for theirs, ours in aliases.items() if theirs not in known}


def _rename(name: str, kwargs: dict[str, object], aliases: Mapping[str, str]) -> None:
    for theirs in aliases.keys() & kwargs.keys():
        ours = aliases[theirs]
        if ours in kwargs:
            raise AxisError(
                f"{name}: both {ours} and {theirs} are given",
                hint=f"they are two words for one thing; use {ours}",
            )
        kwargs[ours] = kwargs.pop(theirs)
