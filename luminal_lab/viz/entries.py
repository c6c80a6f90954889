"""What a picture is made of before anything is hidden: one entry a node, of one graph or of two.

Of two graphs it is their union: a node that both have is one entry, and a node that became another
is two, the old one under a key of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from luminal_lab.core.ir import IR, Node
from luminal_lab.passes.diff import Diff

Status: TypeAlias = Literal["", "kept", "added", "removed", "rewired", "passing"]
"""What became of a node between two graphs; nothing where there is one graph alone.

What is passing came and went between the two.
"""


class Entry(NamedTuple):
    """A node, and the keys of the entries that it reads."""

    key: int
    node: Node
    sources: tuple[int, ...]
    status: Status = ""
    fresh: frozenset[int] = frozenset()
    """Of the sources, those that only the later graph has."""
    gone: frozenset[int] = frozenset()
    """Of the sources, those that only the earlier graph has."""
    passed: frozenset[int] = frozenset()
    """Of the sources, those that neither has: it read them on the way."""


class Entries(NamedTuple):
    """All entries in an order in which sources come first, as far as there is one."""

    name: str
    all: tuple[Entry, ...]
    outputs: frozenset[int]
    inputs: frozenset[int]


def entries_of(ir: IR) -> Entries:
    """Return the entries of one graph."""
    return Entries(
        ir.name,
        tuple([Entry(node.id, node, node.sources) for node in ir.nodes]),
        frozenset(ir.output_ids),
        frozenset(ir.input_ids),
    )


def union_of(changes: Diff) -> Entries:
    """Return the entries of two graphs as one.

    What both have stands as in the later graph; what went stands behind the node before it.
    """
    before, after = changes.before, changes.after
    removed = {node.id for node in changes.removed}
    added = {node.id for node in changes.added}
    rewired = {new.id for _, new in changes.rewired}
    was = {new.id: old for old, new in changes.rewired}

    def old_key(id: int) -> int:
        return ~id if id in removed and id in added else id

    behind: dict[int | None, list[Node]] = {}
    last: int | None = None
    for node in before.nodes:
        if node.id in removed:
            behind.setdefault(last, []).append(node)
        else:
            last = node.id
    found: list[Entry] = []

    def gone(place: int | None) -> None:
        found.extend(
            Entry(old_key(node.id), node, tuple(map(old_key, node.sources)), "removed")
            for node in behind.get(place, ())
        )

    gone(None)
    for node in after.nodes:
        if node.id in rewired:
            old = dict.fromkeys(map(old_key, was[node.id].sources))
            found.append(
                Entry(
                    node.id,
                    node,
                    (*node.sources, *(key for key in old if key not in node.sources)),
                    "rewired",
                    frozenset(key for key in node.sources if key not in old),
                    frozenset(key for key in old if key not in node.sources),
                )
            )
        else:
            found.append(
                Entry(node.id, node, node.sources, "added" if node.id in added else "kept")
            )
        if node.id not in added:
            gone(node.id)
    outputs = {*after.output_ids, *map(old_key, before.output_ids)}
    inputs = {*after.input_ids, *map(old_key, before.input_ids)}
    return Entries(after.name, tuple(found), frozenset(outputs), frozenset(inputs))


def by_key(entries: Iterable[Entry]) -> Mapping[int, Entry]:
    """Return entries by their keys."""
    return {entry.key: entry for entry in entries}
