"""Selections of nodes: by name, id, scope or function, as a tensor, a node or a launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

from luminal_lab.core.ir import Node
from luminal_lab.errors import ArgumentError, GraphError, nearest
from luminal_lab.tensor.arguments import is_function
from luminal_lab.viz.entries import GraphEntries


@runtime_checkable
class HasId(Protocol):
    """A tensor, or a node."""

    @property
    def id(self) -> int:
        """The id of its node."""
        ...


Which: TypeAlias = "str | int | HasId | Callable[[Node], object]"
Selection: TypeAlias = "Which | Iterable[Which]"
"""Names of nodes or scopes, ids, tensors, nodes, or predicates of nodes."""


class SelectedKeys(NamedTuple):
    """The keys of the selected nodes, and of those among them that were named one by one."""

    keys: frozenset[int]
    named: frozenset[int]


def chosen(asking: str, entries: GraphEntries, wanted: Selection) -> SelectedKeys:
    """Return the selected nodes."""
    given = cast("object", wanted)
    if (
        isinstance(given, (str, int, HasId))
        or is_function(given)
        or not isinstance(given, Iterable)
    ):
        given = (given,)
    keys: set[int] = set()
    named: set[int] = set()
    for choice in cast("Iterable[object]", given):
        if isinstance(choice, str):
            found_keys = _called(entries, choice)
            keys |= found_keys or _in_scope(asking, entries, choice)
        elif is_function(choice) and not isinstance(choice, HasId):
            found_keys = set[int]()
            keys |= {entry.key for entry in entries.all if choice(entry.node)}
        else:
            found_keys = _keys_of(asking, entries, choice)
        keys |= found_keys
        named |= found_keys
    return SelectedKeys(frozenset(keys), frozenset(named))


def _keys_of(asking: str, entries: GraphEntries, choice: object) -> set[int]:
    if isinstance(choice, HasId) or (isinstance(choice, int) and not isinstance(choice, bool)):
        id = choice if isinstance(choice, int) else choice.id
        keys = {entry.key for entry in entries.all if entry.node.id == id}
        if not keys:
            raise GraphError(
                f"{asking}: {entries.name} has no node with the id {id}",
                hint="a pass may have replaced it: cx.trace(...) says what it became",
            )
        return keys
    number = getattr(choice, "node", None)
    if isinstance(number, int):
        return _keys_of(asking, entries, number)
    raise ArgumentError(
        f"{asking}: {choice!r} names no node",
        hint="give names of nodes or scopes, tensors, or a function of a node",
    )


def _called(entries: GraphEntries, text: str) -> set[int]:
    name = text.removeprefix("%")
    return {entry.key for entry in entries.all if entry.node.name == name}


def _in_scope(asking: str, entries: GraphEntries, text: str) -> set[int]:
    scopes = {entry.node.meta.scope for entry in entries.all}
    below = {scope for scope in scopes if scope == text or scope.startswith(f"{text}.")}
    if not below:
        names = {entry.node.name for entry in entries.all}
        raise GraphError(
            f"{asking}: {entries.name} has no node and no scope {text!r}",
            hint=nearest(text.removeprefix("%"), names | scopes) or "print(cx) shows all nodes",
        )
    return {entry.key for entry in entries.all if entry.node.meta.scope in below}
