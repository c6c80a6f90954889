"""What stand-ins for a binding share: a table of its calls, and objects that refuse all others."""

import ctypes
import re
from collections.abc import Callable
from typing import Any

import numpy as np

KINDS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "bool": (bool,),
    "str": (str,),
    "bytes": (bytes,),
    "tuple": (tuple,),
    "list": (list,),
    "float": (float,),
}


class Refused(AssertionError):  # noqa: N818  # a call is
    """A call that the binding does not have, or not so."""


class Taken:
    """One parameter of a call."""

    def __init__(self, text: str) -> None:
        text, equal, _ = text.partition("=")
        *kind, self.name = text.split()
        self.kind = kind[-1] if kind else ""
        self.is_optional = bool(equal)


class Table:
    """The calls of a binding, a line each: `name(kind parameter, kind parameter=default)`."""

    def __init__(self, text: str) -> None:
        self.calls: dict[str, list[Taken]] = {}
        self.given: list[str] = []
        """The calls that were made, in order."""
        self.fails: dict[str, list[Exception | None]] = {}
        """For calls the errors that they end in, one after another."""
        for line in text.strip().splitlines():
            match = re.fullmatch(r"\s*([\w.]+)\((.*)\)", line)
            assert match, line
            parts = [part.strip() for part in match[2].split(",") if part.strip()]
            self.calls[match[1]] = [Taken(part) for part in parts if part != "self"]

    def check(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Refuse what is not a call of the binding, and fail where that is asked."""
        if name not in self.calls:
            raise Refused(f"{name} is not in the table")
        takes = self.calls[name]
        if len(args) > len(takes):
            raise Refused(f"{name} takes {len(takes)} arguments, and is given {len(args)}")
        given = dict(zip([one.name for one in takes], args, strict=False))
        for word in named:
            if word in given or word not in [one.name for one in takes]:
                raise Refused(f"{name} takes no {word!r} here")
        given |= named
        for one in takes:
            if one.name not in given:
                if not one.is_optional:
                    raise Refused(f"{name} is not given its {one.name}")
                continue
            value = given[one.name]
            wanted = KINDS.get(one.kind)
            wrong = wanted is not None and not isinstance(value, wanted)
            if wrong or (one.kind == "int" and isinstance(value, (bool, np.generic))):
                raise Refused(f"{name}: {one.name} is {value!r}, and should be {one.kind}")
        self.given.append(name)
        waiting = self.fails.get(name)
        error = waiting.pop(0) if waiting else None
        if error is not None:
            raise error

    def count(self, name: str) -> int:
        """Return how often a call was made."""
        return self.given.count(name)


class Stand:
    """An object of a binding: it has the calls of its class in the table, and no others."""

    def __init__(self, table: Table, kind: str, **calls: Any) -> None:
        self.__dict__["_table"] = table
        self.__dict__["_kind"] = kind
        self.__dict__.update(calls)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        table, call = self.__dict__["_table"], f"{self.__dict__['_kind']}.{name}"
        raise Refused(f"{call} is not in the table" if call not in table.calls else f"{call}: none")

    def __setattr__(self, name: str, value: object) -> None:
        raise Refused(f"{self.__dict__['_kind']}.{name} cannot be set to {value!r}")


def checked(table: Table, name: str, does: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call that is refused unless it is as in the table."""
    takes = table.calls[name]

    def call(*args: Any, **named: Any) -> Any:
        table.check(name, args, named)
        given = dict(zip([one.name for one in takes], args, strict=False)) | named
        return does(**given)

    return call


def bytes_at(address: int, size: int) -> np.ndarray:
    """Return memory as an array."""
    raw: Any = (ctypes.c_ubyte * size).from_address(address)
    return np.frombuffer(raw, np.uint8, size)
