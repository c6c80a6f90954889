"""Errors for calls with wrong arguments, in our words and at the user's line.

For a call that Python refuses because an argument is unknown, missing or surplus, the error lists
the known arguments, and a replacement for one that only PyTorch has.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature
from pathlib import Path
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from luminal_lab.core.origin import here, is_ours
from luminal_lab.errors import ArgumentError, LabError, nearest

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

STANDARD, PACKAGES = Path(inspect.__file__).parent, Path(np.__file__).parents[1]
LIBRARIES = (str(STANDARD), str(PACKAGES), "<frozen", "<__")
OTHERS = (AssertionError, ImportError, MemoryError, OSError, RecursionError)
"""Errors that are not about arguments."""
SEEN = 60
"""The most characters of an argument that an error shows."""
THEIRS: Mapping[str, str] = {
    "out": "results are new tensors: y = {call}",
    "inplace": "nothing changes in place: y = {call}",
    "alpha": "multiply first, as in x + 2 * y",
    "rounding_mode": "x // y rounds down, and x.div(y).trunc() towards 0",
    "dtype": 'convert with cast, as in x.cast("float32"), before or afterwards',
    "input": "the tensor is what the method is called on: {call}",
    "generator": "what is drawn depends on the seed of the graph: ll.Graph(seed=1)",
    "device": "a graph runs on what it is compiled for",
    "size_average": 'say reduction="mean", "sum" or "none"',
    "reduce": 'say reduction="mean", "sum" or "none"',
    "sparse": "gradients are dense here: leave it out",
    "sparse_grad": "gradients are dense here: leave it out",
    "memory_format": "there is one layout, in row-major order: leave it out",
}
"""Arguments that only PyTorch has, each with a replacement."""


def as_ours(
    name: str,
    function: Callable[..., object],
    error: Exception,
    given: Sequence[object],
    named: Mapping[str, object],
    *,
    on: str = "",
    of_arguments: bool = True,
    whole: bool = False,
) -> Exception:
    """Return the error of a call in our words; an error of the user's own code stays unchanged.

    Without `of_arguments`, only refusals by Python itself count as wrong arguments.
    """
    kept = isinstance(error, (LabError, Warning, *OTHERS))
    if kept or _is_of_the_user(error):
        return error
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*given, **named)
    except TypeError:
        return unfit(name, signature, given, named, on=on)
    if not of_arguments:
        return error
    said = [
        f"{key}={_shown(value)}"
        for key, value in _each(signature, bound.arguments)
        if key not in ("self", "cls")
    ]
    if not said and whole:  # there is nothing that the caller could give otherwise
        return error
    return ArgumentError(
        f"{name}: cannot be called with {', '.join(said) or 'what it is called on'}",
        hint=f"call it as {_usage(on + name, signature)}",
    )


def unfit(
    name: str,
    signature: Signature,
    given: Sequence[object],
    named: Mapping[str, object],
    *,
    on: str = "",
) -> ArgumentError:
    """Return the error for a call with an unknown, missing or surplus argument."""
    usage = _usage(on + name, signature)
    called = f"call it as {usage}"
    known = {key: p for key, p in signature.parameters.items() if key not in ("self", "cls")}
    skipped = len(signature.parameters) - len(known)
    words = [key for key, p in known.items() if p.kind not in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)]
    positional = [
        key for key, p in known.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    count = len(given) - skipped
    for key in named:
        if key not in words:
            elsewhere = THEIRS.get(key, "").format(call=usage)
            theirs = ", which only PyTorch has" if elsewhere else ""
            near = nearest(key, words) if len(words) > 0 else None
            return ArgumentError(
                f"{name}: there is no argument {key!r}{theirs}", hint=elsewhere or near or called
            )
        if key in positional[:count]:
            return ArgumentError(
                f"{name}: the argument {key!r} is given twice, by its place and by its name",
                hint=called,
            )
    if count > len(positional) and not any(p.kind is p.VAR_POSITIONAL for p in known.values()):
        most = (
            f"{len(positional)} argument{'s' * (len(positional) != 1)}"
            if positional
            else "no arguments"
        )
        return ArgumentError(f"{name}: takes {most} by place, and {count} are given", hint=called)
    missing = [
        key
        for key, p in known.items()
        if p.default is Parameter.empty
        and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        and key not in named
        and key not in positional[:count]
    ]
    return ArgumentError(f"{name}: the argument {missing[0]!r} is missing", hint=called)


def told(
    function: Callable[P, R],
    name: str | None = None,
    *,
    on: str = "",
    of_arguments: bool = True,
    whole: bool = False,
) -> Callable[P, R]:
    """Make a public function raise errors in our words for wrong arguments.

    `on` is the prefix of its name in hints, such as "cx.". The errors of a function that is
    `whole` pass unchanged: they need no user's line.
    """
    written = name or function.__name__

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except LabError as error:
            error.where = error.where or (None if whole else str(here() or "")) or None
            raise
        except Exception as error:
            wrong = as_ours(
                written,
                function,
                error,
                args,
                kwargs,
                on=on,
                of_arguments=of_arguments,
                whole=whole,
            )
            if wrong is error:
                raise
            if isinstance(wrong, LabError):
                wrong.where = wrong.where or str(here() or "") or None
            raise wrong from None

    return call


def told_methods(cls: C, *, on: str = "", of_arguments: bool = True, also: Sequence[str] = ()) -> C:
    """Apply `told` to a class's public methods, its constructor, and some inherited methods."""
    inherited = [(name, getattr(cls, name)) for name in also]
    for name, method in [*vars(cls).items(), *inherited]:
        if isinstance(method, FunctionType) and (name[0] != "_" or name == "__init__"):
            if name in ("__init__", "forward"):  # users write a call of the class, or of a module
                wrapped = told(method, cls.__name__, of_arguments=of_arguments)
            else:
                wrapped = told(method, on=on, of_arguments=of_arguments)
            setattr(cls, name, wrapped)
    return cls


def told_object(word: str) -> Callable[[C], C]:
    """Have the public methods of a class, inherited ones too, and its constructor answer so.

    `word` is what a hint calls an object of it.
    """

    def decorated(cls: C) -> C:
        inherited = [base for base in cls.__mro__ if is_ours(_file_of(base))]
        for name in {name for base in inherited for name in vars(base)}:
            value: object = inspect.getattr_static(cls, name)
            if name[0] == "_" and name != "__init__":
                continue
            if isinstance(value, FunctionType):
                on, called = ("", cls.__name__) if name == "__init__" else (f"{word}.", name)
                setattr(cls, name, told(value, called, on=on, whole=True))
            elif isinstance(value, classmethod):
                function: Callable[..., object] = cast("Any", value).__func__
                made = told(function, on=f"{cls.__name__}.", whole=True)
                setattr(cls, name, classmethod(made))
        return cls

    return decorated


def _file_of(cls: type) -> str:
    return getattr(sys.modules.get(cls.__module__), "__file__", None) or ""


def told_public(value: object, on: str) -> object:
    """Return a public name as users get it: functions answer so, and are called by us untold."""
    if not isinstance(value, FunctionType):
        return value
    return told(value, on=on, of_arguments=False, whole=True)


def _each(signature: Signature, arguments: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for key, value in arguments.items():
        kind = signature.parameters[key].kind
        if kind is Parameter.VAR_KEYWORD:
            yield from cast("Mapping[str, object]", value).items()
        else:
            yield key, value


def _usage(name: str, signature: Signature) -> str:
    """Return a call of a function as text, with the names of its arguments."""
    parts: list[str] = []
    star = False
    for key, p in signature.parameters.items():
        if key in ("self", "cls"):
            continue
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        default = "" if p.default is Parameter.empty else f"={p.default!r}"
        stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        parts.append(f"{stars}{key}{default}")
    return f"{name}({', '.join(parts)})"


def _shown(value: object) -> str:
    """Return a value as one short line for an error."""
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return f"an array {array.shape} of {array.dtype}"
    label = getattr(value, "label", None)
    if isinstance(label, str):
        return label
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a user's repr may raise anything
        text = f"a {type(value).__name__}"
    return text if len(text) <= SEEN else f"{text[: SEEN - 2]} …"


def _is_of_the_user(error: BaseException) -> bool:
    """Return whether an error comes from the user's code, called by ours."""
    trace = error.__traceback__
    if trace is not None and not is_ours(trace.tb_frame.f_code.co_filename):
        return True  # none of our frames is in its traceback
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not is_ours(file) and not file.startswith(LIBRARIES):
            return True
        trace = trace.tb_next
    return False
