"""Views that need no node of their own: their readers are drawn as reading the viewed node."""

from __future__ import annotations

from collections.abc import Mapping, Set as AbstractSet

from luminal_lab.core.op import View
from luminal_lab.core.ops import Pick
from luminal_lab.viz.entries import GraphEntries, NodeEntry, Status


def foldable(
    entries: GraphEntries, known: Mapping[int, NodeEntry], loud: AbstractSet[int]
) -> set[int]:
    """Return the views that need no node: neither results, nor changed, nor loud."""
    return {
        entry.key
        for entry in entries.all
        if isinstance(entry.node.op, (View, Pick))
        and entry.status in ("", "kept")
        and entry.key not in entries.outputs
        and entry.key not in loud
        and len(entry.sources) == 1
        and entry.sources[0] in known
    }


def roots_of(entries: GraphEntries, folded: AbstractSet[int]) -> dict[int, int]:
    """Return the node that each folded view is finally a view of."""
    roots: dict[int, int] = {}
    for entry in entries.all:
        if entry.key in folded:
            source = entry.sources[0]
            roots[entry.key] = roots.get(source, source)
    return roots


def rooted_in(key: int, roots: Mapping[int, int]) -> int:
    """Return the node that a folded view is a view of; any other node is itself."""
    return roots.get(key, key)


def views_between(known: Mapping[int, NodeEntry], direct: int, root: int) -> tuple[str, ...]:
    """Return the names of the views between a node and what is read of it."""
    names: list[str] = []
    while direct != root:
        entry = known[direct]
        op = entry.node.op
        names.append(f"result {op.index}" if isinstance(op, Pick) else op.name)
        direct = entry.sources[0]
    return tuple(reversed(names))


def status_between(entry: NodeEntry, direct: int) -> Status:
    """Return the status of the link from an entry's source."""
    if direct in entry.passed:
        return "passing"
    if entry.status in ("added", "removed", "passing"):
        return entry.status
    return "added" if direct in entry.fresh else "removed" if direct in entry.gone else "kept"


def used_in(
    entries: GraphEntries, known: Mapping[int, NodeEntry], *, later: bool = False
) -> AbstractSet[int]:
    """Return the ancestors of the outputs, with them; without outputs, everything.

    With `later`, those of the later graph alone.
    """
    todo = list(entries.outputs) or list(known)
    used = set[int]()
    while todo:
        entry = known.get(todo.pop())
        if entry is None or entry.key in used or (later and entry.status == "removed"):
            continue
        used.add(entry.key)
        gone = entry.gone | entry.passed if later else frozenset[int]()
        todo += [source for source in entry.sources if source not in gone]
    return used
