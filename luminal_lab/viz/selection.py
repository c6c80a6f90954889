"""Which nodes are meant: by name, id, scope or function, as a tensor, a node or a launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

from luminal_lab.core.ir import Node
from luminal_lab.errors import ArgumentError, GraphError, nearest
from luminal_lab.viz.entries import Entries


@runtime_checkable
class HasId(Protocol):
    """A tensor, or a node."""

    @property
    def id(self) -> int:
        """The id of its node."""
        ...


Which: TypeAlias = "str | int | HasId | Callable[[Node], object]"
Selection: TypeAlias = "Which | Iterable[Which]"
"""Names of nodes or scopes, ids, tensors, nodes, or functions that say whether a node is meant."""


class Chosen(NamedTuple):
    """The keys of the nodes that are meant, and of those among them that were named one by one."""

    keys: frozenset[int]
    named: frozenset[int]


def chosen(asking: str, entries: Entries, wanted: Selection) -> Chosen:
    """Return the nodes that are meant."""
    given = cast("object", wanted)
    if isinstance(given, (str, int, HasId)) or callable(given) or not isinstance(given, Iterable):
        given = (given,)
    keys: set[int] = set()
    named: set[int] = set()
    for one in cast("Iterable[object]", given):
        if isinstance(one, str):
            found = _called(entries, one)
            keys |= found or _in_scope(asking, entries, one)
        elif callable(one) and not isinstance(one, HasId):
            found = set[int]()
            keys |= {entry.key for entry in entries.all if one(entry.node)}
        else:
            found = _keys_of(asking, entries, one)
        keys |= found
        named |= found
    return Chosen(frozenset(keys), frozenset(named))


def _keys_of(asking: str, entries: Entries, one: object) -> set[int]:
    if isinstance(one, HasId) or (isinstance(one, int) and not isinstance(one, bool)):
        id = one if isinstance(one, int) else one.id
        found = {entry.key for entry in entries.all if entry.node.id == id}
        if not found:
            raise GraphError(
                f"{asking}: {entries.name} has no node with the id {id}",
                hint="a pass may have replaced it: cx.trace(...) says what it became",
            )
        return found
    number = getattr(one, "node", None)
    if isinstance(number, int):
        return _keys_of(asking, entries, number)
    raise ArgumentError(
        f"{asking}: {one!r} names no node",
        hint="give names of nodes or scopes, tensors, or a function of a node",
    )


def _called(entries: Entries, text: str) -> set[int]:
    name = text.removeprefix("%")
    return {entry.key for entry in entries.all if entry.node.name == name}


def _in_scope(asking: str, entries: Entries, text: str) -> set[int]:
    scopes = {entry.node.meta.scope for entry in entries.all}
    below = {scope for scope in scopes if scope == text or scope.startswith(f"{text}.")}
    if not below:
        names = {entry.node.name for entry in entries.all}
        raise GraphError(
            f"{asking}: {entries.name} has no node and no scope {text!r}",
            hint=nearest(text.removeprefix("%"), names | scopes) or "print(cx) shows all nodes",
        )
    return {entry.key for entry in entries.all if entry.node.meta.scope in below}
