"""The union of a graph before a pass, the one after it, and all that lived in between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from luminal_lab.core.ir import Node
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.viz.entries import GraphEntries, NodeEntry, union_of


def entries_between(snapshot: Snapshot, born: Iterable[Node]) -> GraphEntries:
    """Return the entries of a pass; `born` are all records that it made."""
    union = union_of(snapshot.diff())
    versions: dict[int, list[Node]] = {}
    for node in born:
        versions.setdefault(node.id, []).append(node)
    known = {entry.key for entry in union.all}
    entries = [_with_passed(entry, versions.get(entry.key, ())) for entry in union.all]
    passing = {id: nodes for id, nodes in versions.items() if id not in known}
    if passing:
        entries = _with_passing(entries, passing)
    return union._replace(all=tuple(entries))


def _with_passed(entry: NodeEntry, versions: Sequence[Node]) -> NodeEntry:
    """Return an entry with the sources that its node had in between."""
    read = {id for node in versions for id in node.sources}
    passed = read.difference(entry.sources)
    if not passed:
        return entry
    return entry._replace(sources=(*entry.sources, *sorted(passed)), passed=frozenset(passed))


def _with_passing(
    entries: Sequence[NodeEntry], passing: Mapping[int, Sequence[Node]]
) -> list[NodeEntry]:
    """Return entries with the nodes that came and went, each after its last source."""
    position = {entry.key: at for at, entry in enumerate(entries)}
    behind: dict[int, list[NodeEntry]] = {}
    for id in sorted(passing):
        nodes = passing[id]
        sources = tuple(dict.fromkeys(source for node in nodes for source in node.sources))
        position[id] = max([position.get(source, -1) for source in sources], default=-1)
        behind.setdefault(position[id], []).append(NodeEntry(id, nodes[-1], sources, "passing"))
    entries_found = behind.get(-1, [])
    for at, entry in enumerate(entries):
        entries_found.append(entry)
        entries_found += behind.get(at, ())
    return entries_found
