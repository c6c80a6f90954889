"""Which nodes are meant: by name, id, scope or function, as a tensor, a node or a launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias, cast, runtime_checkable

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


def keys_of(asking: str, entries: Entries, wanted: Selection) -> frozenset[int]:
    """Return the keys of the nodes that are meant."""
    given = cast("object", wanted)
    if isinstance(given, (str, int, HasId)) or callable(given) or not isinstance(given, Iterable):
        given = (given,)
    found: set[int] = set()
    for one in cast("Iterable[object]", given):
        found |= _keys_of(asking, entries, one)
    return frozenset(found)


def _keys_of(asking: str, entries: Entries, one: object) -> set[int]:
    if isinstance(one, str):
        return _named(asking, entries, one)
    if isinstance(one, HasId) or (isinstance(one, int) and not isinstance(one, bool)):
        id = one if isinstance(one, int) else one.id
        found = {entry.key for entry in entries.all if entry.node.id == id}
        if not found:
            raise GraphError(
                f"{asking}: {entries.name} has no node with the id {id}",
                hint="a pass may have replaced it: cx.trace(...) says what it became",
            )
        return found
    if callable(one):
        return {entry.key for entry in entries.all if one(entry.node)}
    number = getattr(one, "node", None)
    if isinstance(number, int):
        return _keys_of(asking, entries, number)
    raise ArgumentError(
        f"{asking}: {one!r} names no node",
        hint="give names of nodes or scopes, tensors, or a function of a node",
    )


def _named(asking: str, entries: Entries, text: str) -> set[int]:
    name = text.removeprefix("%")
    found = {entry.key for entry in entries.all if entry.node.name == name}
    if not found:
        below = f"{name}."
        found = {
            entry.key
            for entry in entries.all
            if entry.node.meta.scope == name or entry.node.meta.scope.startswith(below)
        }
    if found:
        return found
    names = {entry.node.name for entry in entries.all}
    scopes = {entry.node.meta.scope for entry in entries.all}
    raise GraphError(
        f"{asking}: {entries.name} has no node and no scope {text!r}",
        hint=nearest(name, names | scopes) or "print(cx) shows all nodes",
    )
