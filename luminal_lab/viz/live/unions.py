"""The union of a graph before a pass, the one after it, and all that lived in between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from luminal_lab.core.ir import Node
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.viz.entries import Entries, Entry, union_of


def entries_between(snapshot: Snapshot, born: Iterable[Node]) -> Entries:
    """Return the entries of a pass; `born` are all records that it made."""
    union = union_of(snapshot.diff())
    versions: dict[int, list[Node]] = {}
    for node in born:
        versions.setdefault(node.id, []).append(node)
    known = {entry.key for entry in union.all}
    found = [_with_passed(entry, versions.get(entry.key, ())) for entry in union.all]
    passing = {id: nodes for id, nodes in versions.items() if id not in known}
    if passing:
        found = _with_passing(found, passing)
    return union._replace(all=tuple(found))


def _with_passed(entry: Entry, versions: Sequence[Node]) -> Entry:
    """Return an entry that also has what its node read on the way."""
    read = {id for node in versions for id in node.sources}
    passed = read.difference(entry.sources)
    if not passed:
        return entry
    return entry._replace(sources=(*entry.sources, *sorted(passed)), passed=frozenset(passed))


def _with_passing(entries: Sequence[Entry], passing: Mapping[int, Sequence[Node]]) -> list[Entry]:
    """Return entries with nodes that came and went, each behind the last of what it read."""
    place = {entry.key: at for at, entry in enumerate(entries)}
    behind: dict[int, list[Entry]] = {}
    for id in sorted(passing):
        nodes = passing[id]
        sources = tuple(dict.fromkeys(source for node in nodes for source in node.sources))
        place[id] = max([place.get(source, -1) for source in sources], default=-1)
        behind.setdefault(place[id], []).append(Entry(id, nodes[-1], sources, "passing"))
    found = behind.get(-1, [])
    for at, entry in enumerate(entries):
        found.append(entry)
        found += behind.get(at, ())
    return found
