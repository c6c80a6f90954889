"""Dataclasses as plain JSON and back, where each field's type says which values it may hold.

A field is a str, int, float, bool, Literal, dataclass, a tuple or list of one of these, a fixed or
a named tuple, a mapping from text, or a union of some of them, with None too. What is read from a
file is checked on the way: a value of another type is refused, with the path to it.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from math import isfinite
from typing import (
    Any,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from luminal_lab.reading import shown

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
T = TypeVar("T")
WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def plain(value: object) -> Json:
    """Return a dataclass as JSON values; numbers that JSON cannot spell become null.

    >>> plain((1, float("nan"), {"a": None}))
    [1, None, {'a': None}]
    """
    if isinstance(value, float):
        return value if isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in cast("tuple[object, ...]", value)]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in cast("Mapping[str, object]", value).items()}
    if is_dataclass(value):
        return {name: plain(getattr(value, name)) for name in hints_of(type(value))}
    raise TypeError(f"{value!r} is nothing that JSON can hold")


def read(cls: type[T], given: object, path: str = "") -> T:
    """Return a class's value read from what `plain` wrote, or raise a ValueError that says where.

    Fields unknown here, from a newer version, are ignored; missing ones get their defaults.
    """
    return cast("T", _read(cls, given, path or cls.__name__))


@cache
def hints_of(cls: type) -> dict[str, Any]:
    """Return the fields of a dataclass with their types."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


def _read(hint: Any, given: object, path: str) -> object:  # noqa: ANN401  # a type as it is written
    if hint in WORDS:
        return _scalar(hint, given, path)
    if isinstance(hint, type) and is_dataclass(hint):
        return _dataclass(hint, given, path)
    if getattr(hint, "_fields", None) is not None:  # pyright: ignore[reportUnknownArgumentType]  # a type of any kind
        return _named(hint, given, path)
    return _composed(get_origin(hint), get_args(hint), given, path)


def _composed(origin: Any, parts: tuple[Any, ...], given: object, path: str) -> object:  # noqa: ANN401  # likewise
    if origin in (Union, types.UnionType):
        if given is None and type(None) in parts:
            return None
        kinds = [part for part in parts if part is not type(None)]
        return _read(next((kind for kind in kinds if type(given) is kind), kinds[0]), given, path)
    if origin is Literal:
        if isinstance(given, str) and given in parts:
            return given
        raise _not(path, given, f"one of {', '.join(map(str, parts))}")
    if origin is tuple:
        return _tuple(parts, given, path)
    if origin is list:
        return [*_tuple((parts[0], ...), given, path)]
    if origin is not None and issubclass(origin, Mapping):
        return {key: _read(parts[1], item, f"{path}.{key}") for key, item in entries(given, path)}
    raise TypeError(f"{path}: {origin} is not a type that a file can hold")


def _named(hint: Any, given: object, path: str) -> object:  # noqa: ANN401  # likewise
    parts = tuple(get_type_hints(hint).values())
    # What an older version wrote may lack the last fields, which have defaults.
    known = max(len(listed(given, path)), len(parts) - len(hint._field_defaults))
    return hint(*_tuple(parts[:known], given, path))


def _scalar(hint: type, given: object, path: str) -> object:
    if hint is float and isinstance(given, int) and not isinstance(given, bool):
        if given >> 1000 not in (0, -1):
            raise _not(path, given, "a number that a float holds")
        return float(given)
    # To Python, true is a whole number; in a file it is not.
    if type(given) is not hint:
        raise _not(path, given, WORDS[hint])
    return given


def _tuple(parts: tuple[Any, ...], given: object, path: str) -> tuple[object, ...]:
    rows = listed(given, path)
    if len(parts) == 2 and parts[1] is Ellipsis:
        parts = (parts[0],) * len(rows)
    if len(parts) != len(rows):
        raise _not(path, given, f"a list of {len(parts)}")
    pairs = enumerate(zip(parts, rows, strict=True))
    return tuple([_read(part, row, f"{path}[{at}]") for at, (part, row) in pairs])


def _dataclass(cls: type, given: object, path: str) -> object:
    known = dict(entries(given, path))
    values = {
        name: _read(hint, known[name], f"{path}.{name}")
        for name, hint in hints_of(cls).items()
        if name in known
    }
    try:
        return cls(**values)
    except TypeError as error:
        needed = [field.name for field in fields(cls) if field.default is field.default_factory]
        missing = [name for name in needed if name not in known]
        raise ValueError(f"{path} lacks {', '.join(missing)}") from error


def entries(given: object, path: str) -> list[tuple[str, object]]:
    """Return the entries of a value that should be a JSON object."""
    if not isinstance(given, dict):
        raise _not(path, given, "an object")
    return list(cast("dict[str, object]", given).items())


def listed(given: object, path: str) -> list[object]:
    """Return a value that should be a JSON list."""
    if not isinstance(given, list):
        raise _not(path, given, "a list")
    return cast("list[object]", given)


def _not(path: str, given: object, wanted: str) -> ValueError:
    return ValueError(f"{path} is {shown(given)}, not {wanted}")
