"""Errors for calls with wrong arguments, in our words and at the user's line.

For a call that Python refuses because an argument is unknown, missing or surplus, the error lists
the known arguments, and a replacement for one that only PyTorch has.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from functools import cache, wraps
from inspect import Parameter, Signature
from numbers import Integral, Real
from pathlib import Path
from types import FrameType, FunctionType, NoneType, UnionType
from typing import (
    Any,
    Literal,
    NoReturn,
    ParamSpec,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from typing_extensions import TypeIs

from luminal_lab.core.op import Op
from luminal_lab.core.origin import Origin, here, is_ours, line_at
from luminal_lab.errors import ArgumentError, DeviceError, LabError, UnknownNameError, nearest

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)
MARK = "of_arguments"
"""What functions that answer so have: whether all their errors count as wrong arguments."""
VALUE = "of_values"
"""What the `__call__` of values has, which answers that they are no functions."""
NUMBERS: Mapping[type, type] = {int: Integral, float: Real}

STANDARD, PACKAGES = Path(inspect.__file__).parent, Path(np.__file__).parents[1]
LIBRARIES = (str(STANDARD), str(PACKAGES), "<frozen", "<__")
RECEIVERS = ("self", "cls", "_cls")
"""What Python itself passes to a method."""
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
    "device": "a graph runs on what it is compiled for: "
    "cx.compile(ll.GenericCompiler(), ll.CPUCompiler())",
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
    if isinstance(error, MemoryError) and not of_arguments:  # what users call, no part of it
        return DeviceError(
            f"{name}: out of memory: {str(error) or 'Python had none left'}",
            hint="try it on something smaller, or end other programs that hold memory",
        )
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
        if key not in RECEIVERS
    ]
    if not said and whole:  # there is nothing that the caller could give otherwise
        return error
    wrong = ArgumentError(
        f"{name}: cannot be called with {', '.join(said) or 'what it is called on'}",
        hint=f"call it as {_usage(on + name, signature)}",
    )
    wrong.add_note(_within(error))
    return wrong


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
    known = {key: p for key, p in signature.parameters.items() if key not in RECEIVERS}
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
                f"{name}: the argument {key!r} is given twice, by position and by name",
                hint=called,
            )
    if count > len(positional) and not any(p.kind is p.VAR_POSITIONAL for p in known.values()):
        most = (
            f"{len(positional)} argument{'s' * (len(positional) != 1)}"
            if positional
            else "no arguments"
        )
        return ArgumentError(
            f"{name}: takes {most} by position, but {count} are given", hint=called
        )
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
            raise wrong from error if isinstance(error, MemoryError) else None

    setattr(call, MARK, of_arguments)
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


def told_object(word: str, instead: str = "") -> Callable[[C], C]:
    """Have the public methods of a class, inherited ones too, and its constructor answer so.

    `word` is what a hint calls an object of it, and `instead` what to write instead of calling it,
    with {} for the arguments.
    """

    def decorated(cls: C) -> C:
        inherited = [base for base in cls.__mro__ if is_ours(_file_of(base))]
        for name in {name for base in inherited for name in vars(base) if name[0] != "_"}:
            value: object = inspect.getattr_static(cls, name)
            if (method := _told_method(value, cls, f"{word}.")) is not None:
                setattr(cls, name, method)
        _tell_constructor(cls)
        _tell_attributes(cls, word)
        if not any("__call__" in vars(base) for base in cls.__mro__):
            setattr(cls, "__call__", _is_no_function(word, instead))  # noqa: B010  # no method of the class
        return cls

    return decorated


def told_class(cls: C) -> C:
    """Have the public methods of a class and of its bases answer so, each where it is defined.

    Of ops, which are for subclasses and for the interpreter, only the constructor does; what
    `told_methods` has seen to stays as it is.
    """
    is_seen_to = not getattr(cls.__init__, MARK, True)
    bases: tuple[type, ...] = cls.__mro__
    for base in () if is_seen_to or issubclass(cls, Op) else bases:
        for name, value in [*vars(base).items()] if is_ours(_file_of(base)) else ():
            if name[0] != "_" and not _is_told(inspect.getattr_static(cls, name)):
                method = _told_method(value, base, "")
                if method is not None:
                    setattr(base, name, method)
    _tell_constructor(cls)
    _tell_attributes(cls)
    return cls


def _told_method(value: object, cls: type, on: str) -> object:
    """Return a method that answers so, or None for what is no method, or answers so already."""
    if isinstance(value, FunctionType) and not _is_told(value):
        return told(value, on=on, whole=True)
    if isinstance(value, classmethod):
        function: Callable[..., object] = cast("Any", value).__func__
        if not _is_told(function):
            return classmethod(told(function, on=f"{cls.__name__}.", whole=True))
    return None


def _tell_constructor(cls: type) -> None:
    """Have a constructor answer so, and check the types of a record that a user constructs."""
    is_tuple = cls.__new__ is not object.__new__ and hasattr(cls, "_fields")
    method = "__new__" if is_tuple else "__init__"
    function: object = getattr(cls, method)
    if cls.__init__ is object.__init__ and cls.__new__ is object.__new__:
        function = _without_arguments
    if not isinstance(function, FunctionType) or _is_told(function):
        return
    is_record = is_tuple or hasattr(cls, "__dataclass_fields__")
    checked = _checked(cls, function, is_tuple=is_tuple) if is_record else function
    made = told(checked, str(cls.__name__), whole=True)
    setattr(cls, method, staticmethod(made) if is_tuple else made)


def _without_arguments(self: object) -> None: ...


def _tell_attributes(cls: type, word: str = "") -> None:
    """Have an unknown attribute that a user asks for answered with the nearest known one."""

    def missing(self: object, name: str) -> object:
        if hasattr(type(self), name):  # it is there, and getting it raised an AttributeError
            return object.__getattribute__(self, name)
        # Optional protocols that NumPy, IPython and others look up, and our own questions.
        if name[:1] == "_" or is_ours(sys._getframe(1).f_code.co_filename):  # pyright: ignore[reportPrivateUsage]  # inspect's is slow
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        public = [known for known in dir(self) if known[0] != "_"]
        raise UnknownNameError(
            f"{word or type(self).__name__}: there is no {name!r}",
            where=str(here() or "") or None,
            hint=nearest(name, public) or "dir(…) lists what there is",
        )

    if not hasattr(cls, "__getattr__"):
        setattr(cls, "__getattr__", missing)  # noqa: B010  # no method of the class


def _is_no_function(word: str, instead: str) -> Callable[..., NoReturn]:
    """Return what answers a call of a value that users write as a method: `times.timeline()`."""

    def call(self: object, *args: object, **named: object) -> NoReturn:
        given = [_shown(value) for value in args]
        given += [f"{name}={_shown(value)}" for name, value in named.items()]
        raise ArgumentError(
            f"{word}: it is no function",
            where=str(here() or "") or None,
            hint=instead.format(", ".join(given) or "…")
            or "it is a value: leave out the () behind it",
        )

    setattr(call, VALUE, True)
    return call


def is_function(value: object) -> TypeIs[Callable[..., Any]]:
    """Return whether something can be called; what only answers that it cannot does not count.

    >>> is_function(len), is_function(ll.parse_pipeline("dce")), is_function(3)
    (True, False, False)
    """
    return callable(value) and not hasattr(type(value).__call__, VALUE)


def _checked(cls: type, function: Callable[P, R], *, is_tuple: bool) -> Callable[P, R]:
    """Return the constructor of a record that looks at the fields where a user has called it."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        result = function(*args, **kwargs)
        # The frames between are that of `told`, and none of C.
        caller: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]  # inspect's is slow
        if caller.f_code.co_filename == dataclasses.__file__:  # that of `replace`
            caller = caller.f_back
        if caller is not None and not is_ours(caller.f_code.co_filename):
            _check_fields(cls, result if is_tuple else args[0])
        return result

    return call


def _check_fields(cls: type, record: object) -> None:
    """Raise if the value of a field is not of the type that the class states."""
    for name, hint in _hints(cls).items():
        value = getattr(record, name, None)
        if not fits(hint, value):
            raise ArgumentError(
                f"{cls.__name__}: {name} cannot be {_shown(value)}",
                hint=f"call it as {_usage(cls.__name__, inspect.signature(cls))}",
            )


@cache
def _hints(cls: type) -> Mapping[str, Any]:
    """Return the types of a record's fields, without those of names that only checkers import."""
    try:
        hints = get_type_hints(cls)
    except NameError:
        return {}
    names = getattr(cls, "_fields", None) or [item.name for item in fields(cls)]
    return {name: hints[name] for name in names}


def fits(hint: Any, value: object) -> bool:  # noqa: ANN401  # a type as it is written
    """Return whether a value is of a type; what a type does not say plainly fits everything.

    >>> fits(tuple[int, ...], (1, 2)), fits(str | None, 3), fits(float, 2)
    (True, False, True)
    """
    origin, parts = get_origin(hint), get_args(hint)
    if hint is None or hint is NoneType:
        return value is None
    if origin in (Union, UnionType):
        return any(fits(part, value) for part in parts)
    if origin is Literal:
        return isinstance(value, str | int) and value in parts
    if origin is tuple and isinstance(value, tuple):
        items = cast("tuple[object, ...]", value)
        if parts[1:] == (Ellipsis,):
            return all(fits(parts[0], item) for item in items)
        return len(parts) == len(items) and all(map(fits, parts, items))
    kind: Any = origin or hint
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return True
    if kind in (int, float) and isinstance(value, (bool, np.bool_)):
        return False
    return isinstance(value, NUMBERS.get(kind, kind))


def _is_told(function: object) -> bool:
    return hasattr(function, MARK)


def _file_of(cls: type) -> str:
    return getattr(sys.modules.get(cls.__module__), "__file__", None) or ""


def told_public(value: object, on: str) -> object:
    """Return a public name as users get it: functions and classes answer so.

    Functions are called by us untold.
    """
    if isinstance(value, FunctionType):
        return value if _is_told(value) else told(value, on=on, of_arguments=False, whole=True)
    # Python itself answers for errors and enums, and lets nobody call a protocol.
    if (
        inspect.isclass(value)
        and not issubclass(value, BaseException | Enum)
        and not getattr(value, "_is_protocol", False)
    ):
        told_class(value)
    return value


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
        if key in RECEIVERS:
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


def _within(error: BaseException) -> str:
    """Say what Python or a library raised, and where: it may be a fault of ours."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    said = " ".join(str(error).split())
    what = f"within it, {type(error).__name__}: {said[: 2 * SEEN]}"
    if trace is None:
        return what
    return f"{what} ({trace.tb_frame.f_globals.get('__name__')}, line {trace.tb_lineno})"


def _is_of_the_user(error: BaseException) -> bool:
    """Return whether an error comes from the user's code, called by ours."""
    trace = error.__traceback__
    if trace is not None and not is_ours(trace.tb_frame.f_code.co_filename):
        return True  # none of our frames is in its traceback
    return raised_at(error) is not None


def raised_at(error: BaseException) -> Origin | None:
    """Return the innermost line of the user's that an error came through on its way here."""
    trace, found = error.__traceback__, None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not is_ours(file) and not file.startswith(LIBRARIES):
            found = trace
        trace = trace.tb_next
    if found is None:
        return None
    frame = found.tb_frame
    return line_at(frame.f_code.co_filename, found.tb_lineno, frame.f_globals)
