"""Replacing a value for some of its readers, as passes that change storage forms do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import Node
from luminal_lab.core.op import View

Takes: TypeAlias = Callable[[Node, Node], bool]
"""A predicate of a reader, and of the source through which it reads the value."""


def readers(edit: Edit, node: Node) -> Iterator[tuple[Node, Node]]:
    """Yield the nodes that compute with a node, past views of it, each with the source it reads.

    Unneeded nodes are left out.
    """
    for user in edit.users(node):
        if not edit.users(user) and not edit.is_output(user):
            continue
        if isinstance(user.op, View):
            yield from readers(edit, user)
        else:
            yield user, node


def reread(edit: Edit, old: Node, new: Node, takes: Takes) -> dict[int, Node]:
    """Make the wanted readers of `old`, also those through views, read `new` instead.

    The views in between may have other readers, so they are copied, and so are the readers; the
    result has the copies of the readers, by the ids of the originals.
    """
    copies: dict[int, Node] = {}
    while True:
        # A reader of both the value and a view of it recurs as another node.
        user = next((user for user in edit.users(old) if _is_wanted(edit, user, old, takes)), None)
        if user is None:
            return copies
        if isinstance(user.op, View):
            copies |= reread(edit, user, edit.insert(user.op, new, like=user), takes)
        else:
            sources = [new.id if id == old.id else id for id in user.sources]
            copies[user.id] = edit.insert(user.op, *sources, like=user)
            edit.replace(user, copies[user.id], renames=True)
            edit.erase(user)


def _is_wanted(edit: Edit, user: Node, old: Node, takes: Takes) -> bool:
    if isinstance(user.op, View):
        return any(takes(reader, source) for reader, source in readers(edit, user))
    return takes(user, old)


def sweep(edit: Edit, node: Node) -> None:
    """Erase the unread views of a node."""
    for user in edit.users(node):
        if isinstance(user.op, View):
            sweep(edit, user)
            if not edit.users(user) and not edit.is_output(user):
                edit.erase(user)
