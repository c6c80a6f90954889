"""The raw material of a picture before anything is hidden: an entry per node, of one graph or two.

Two graphs give their union: a node in both is one entry, and a node that became another is two,
the old one under a key of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from luminal_lab.core.ir import IR, Node
from luminal_lab.passes.diff import Diff

Status: TypeAlias = Literal["", "kept", "added", "removed", "rewired", "passing"]
"""A node's fate between two graphs; empty for a single graph.

A passing node came and went between the two.
"""


class NodeEntry(NamedTuple):
    """A node, and the keys of the entries that it reads."""

    key: int
    node: Node
    sources: tuple[int, ...]
    status: Status = ""
    fresh: frozenset[int] = frozenset()
    """The sources that only the later graph has."""
    gone: frozenset[int] = frozenset()
    """The sources that only the earlier graph has."""
    passed: frozenset[int] = frozenset()
    """The sources that neither graph has: they were read in between."""


class GraphEntries(NamedTuple):
    """All entries, sources first where possible."""

    name: str
    all: tuple[NodeEntry, ...]
    outputs: frozenset[int]
    inputs: frozenset[int]


def entries_of(ir: IR) -> GraphEntries:
    """Return the entries of one graph."""
    return GraphEntries(
        ir.name,
        tuple([NodeEntry(node.id, node, node.sources) for node in ir.nodes]),
        frozenset(ir.output_ids),
        frozenset(ir.input_ids),
    )


def union_of(changes: Diff) -> GraphEntries:
    """Return the entries of two graphs as one.

    Shared nodes stand as in the later graph; a removed one stands after its predecessor.
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
    entries: list[NodeEntry] = []

    def gone(key: int | None) -> None:
        entries.extend(
            NodeEntry(old_key(node.id), node, tuple(map(old_key, node.sources)), "removed")
            for node in behind.get(key, ())
        )

    gone(None)
    for node in after.nodes:
        if node.id in rewired:
            old = dict.fromkeys(map(old_key, was[node.id].sources))
            entries.append(
                NodeEntry(
                    node.id,
                    node,
                    (*node.sources, *(key for key in old if key not in node.sources)),
                    "rewired",
                    frozenset(key for key in node.sources if key not in old),
                    frozenset(key for key in old if key not in node.sources),
                )
            )
        else:
            entries.append(
                NodeEntry(node.id, node, node.sources, "added" if node.id in added else "kept")
            )
        if node.id not in added:
            gone(node.id)
    outputs = {*after.output_ids, *map(old_key, before.output_ids)}
    inputs = {*after.input_ids, *map(old_key, before.input_ids)}
    return GraphEntries(after.name, tuple(entries), frozenset(outputs), frozenset(inputs))


def by_key(entries: Iterable[NodeEntry]) -> Mapping[int, NodeEntry]:
    """Return entries by their keys."""
    return {entry.key: entry for entry in entries}
