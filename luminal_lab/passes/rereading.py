"""Passes about the form of values share this: some readers of a value read another in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import Node
from luminal_lab.core.op import View

Takes: TypeAlias = Callable[[Node, Node], bool]
"""Whether a reader is wanted, given it and which of its sources it reads the value through."""


def readers(edit: Edit, node: Node) -> Iterator[tuple[Node, Node]]:
    """Yield what computes with a node, past views of it, each with the source that it reads.

    What nothing needs is left out.
    """
    for user in edit.users(node):
        if not edit.users(user) and not edit.is_output(user):
            continue
        if isinstance(user.op, View):
            yield from readers(edit, user)
        else:
            yield user, node


def reread(edit: Edit, old: Node, new: Node, takes: Takes) -> dict[int, Node]:
    """Have those readers of `old` that are wanted, through views too, read `new` instead.

    The views on the way are made again, for others may read them as well, and so are the readers:
    what is returned are the new ones, by the ids of the old.
    """
    made: dict[int, Node] = {}
    while True:
        # One that reads both the value and a view of it comes again, as another node.
        user = next((user for user in edit.users(old) if _is_wanted(edit, user, old, takes)), None)
        if user is None:
            return made
        if isinstance(user.op, View):
            made |= reread(edit, user, edit.insert(user.op, new, like=user), takes)
        else:
            sources = [new.id if id == old.id else id for id in user.sources]
            made[user.id] = edit.insert(user.op, *sources, like=user)
            edit.replace(user, made[user.id], renames=True)
            edit.erase(user)


def _is_wanted(edit: Edit, user: Node, old: Node, takes: Takes) -> bool:
    if isinstance(user.op, View):
        return any(takes(reader, source) for reader, source in readers(edit, user))
    return takes(user, old)


def sweep(edit: Edit, node: Node) -> None:
    """Erase the views of a node that nothing reads any more."""
    for user in edit.users(node):
        if isinstance(user.op, View):
            sweep(edit, user)
            if not edit.users(user) and not edit.is_output(user):
                edit.erase(user)
