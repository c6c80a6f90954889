"""Dataclasses as plain JSON and back, where each field's type says what may stand in it.

A field is a str, int, float, bool, Literal, dataclass, a tuple or list of one of these, a fixed or
a named tuple, a mapping from text, or a union of some of them, with None too. What is read from a
file is checked on the way: whatever is not of its type is refused with the place where it stands.
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
    """Return a dataclass as what JSON holds; numbers that JSON has no word for become null.

    >>> plain((1, float("nan"), {"a": None}))
    [1, None, {'a': None}]
    """
    if isinstance(value, float):
        return value if isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (tuple, list)):
        return [plain(one) for one in cast("tuple[object, ...]", value)]
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in cast("Mapping[str, object]", value).items()}
    if is_dataclass(value):
        return {name: plain(getattr(value, name)) for name in hints_of(type(value))}
    raise TypeError(f"{value!r} is nothing that JSON holds")


def read(cls: type[T], given: object, place: str = "") -> T:
    """Return what `plain` has made of a value of a class, or raise a ValueError that says where.

    What a newer version has written beside is left out; what an older one lacks has its default.
    """
    return cast("T", _read(cls, given, place or cls.__name__))


@cache
def hints_of(cls: type) -> dict[str, Any]:
    """Return the fields of a dataclass with their types."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


def _read(hint: Any, given: object, place: str) -> object:  # noqa: ANN401  # what a type is written as
    if hint in WORDS:
        return _one(hint, given, place)
    if isinstance(hint, type) and is_dataclass(hint):
        return _dataclass(hint, given, place)
    if getattr(hint, "_fields", None) is not None:  # pyright: ignore[reportUnknownArgumentType]  # a type of any kind
        return _named(hint, given, place)
    return _composed(get_origin(hint), get_args(hint), given, place)


def _composed(origin: Any, parts: tuple[Any, ...], given: object, place: str) -> object:  # noqa: ANN401  # likewise
    if origin in (Union, types.UnionType):
        if given is None and type(None) in parts:
            return None
        kinds = [part for part in parts if part is not type(None)]
        return _read(next((one for one in kinds if type(given) is one), kinds[0]), given, place)
    if origin is Literal:
        if isinstance(given, str) and given in parts:
            return given
        raise _not(place, given, f"one of {', '.join(map(str, parts))}")
    if origin is tuple:
        return _tuple(parts, given, place)
    if origin is list:
        return [*_tuple((parts[0], ...), given, place)]
    if origin is not None and issubclass(origin, Mapping):
        return {key: _read(parts[1], one, f"{place}.{key}") for key, one in entries(given, place)}
    raise TypeError(f"{place}: {origin} is no type that a file holds")


def _named(hint: Any, given: object, place: str) -> object:  # noqa: ANN401  # likewise
    return hint(*_tuple(tuple(get_type_hints(hint).values()), given, place))


def _one(hint: type, given: object, place: str) -> object:
    if hint is float and isinstance(given, int) and not isinstance(given, bool):
        if given >> 1000 not in (0, -1):
            raise _not(place, given, "a number that a float holds")
        return float(given)
    # To Python, true is a whole number; in a file it is not.
    if type(given) is not hint:
        raise _not(place, given, WORDS[hint])
    return given


def _tuple(parts: tuple[Any, ...], given: object, place: str) -> tuple[object, ...]:
    rows = listed(given, place)
    if len(parts) == 2 and parts[1] is Ellipsis:
        parts = (parts[0],) * len(rows)
    if len(parts) != len(rows):
        raise _not(place, given, f"a list of {len(parts)}")
    pairs = enumerate(zip(parts, rows, strict=True))
    return tuple([_read(part, one, f"{place}[{at}]") for at, (part, one) in pairs])


def _dataclass(cls: type, given: object, place: str) -> object:
    known = dict(entries(given, place))
    values = {
        name: _read(hint, known[name], f"{place}.{name}")
        for name, hint in hints_of(cls).items()
        if name in known
    }
    try:
        return cls(**values)
    except TypeError as error:
        needed = [one.name for one in fields(cls) if one.default is one.default_factory]
        missing = [name for name in needed if name not in known]
        raise ValueError(f"{place} lacks {', '.join(missing)}") from error


def entries(given: object, place: str) -> list[tuple[str, object]]:
    """Return the entries of what should be an object of JSON."""
    if not isinstance(given, dict):
        raise _not(place, given, "an object")
    return list(cast("dict[str, object]", given).items())


def listed(given: object, place: str) -> list[object]:
    """Return what should be a list of JSON."""
    if not isinstance(given, list):
        raise _not(place, given, "a list")
    return cast("list[object]", given)


def _not(place: str, given: object, wanted: str) -> ValueError:
    return ValueError(f"{place} is {shown(given)}, not {wanted}")
