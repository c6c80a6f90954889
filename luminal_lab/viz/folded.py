"""Views that need no node of their own: what reads them reads what they are views of."""

from __future__ import annotations

from collections.abc import Mapping, Set as AbstractSet

from luminal_lab.core.op import View
from luminal_lab.core.ops import Pick
from luminal_lab.viz.entries import Entries, Entry, Status


def foldable(entries: Entries, known: Mapping[int, Entry], loud: AbstractSet[int]) -> set[int]:
    """Return the views that need no node: those that are nobody's result, nor changed, nor loud."""
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


def roots_of(entries: Entries, folded: AbstractSet[int]) -> dict[int, int]:
    """Return what each folded view is a view of, in the end."""
    roots: dict[int, int] = {}
    for entry in entries.all:
        if entry.key in folded:
            source = entry.sources[0]
            roots[entry.key] = roots.get(source, source)
    return roots


def views_between(known: Mapping[int, Entry], direct: int, root: int) -> tuple[str, ...]:
    """Return the names of the views on the way from a node to what somebody reads of it."""
    names: list[str] = []
    while direct != root:
        entry = known[direct]
        op = entry.node.op
        names.append(f"result {op.index}" if isinstance(op, Pick) else op.name)
        direct = entry.sources[0]
    return tuple(reversed(names))


def status_between(entry: Entry, direct: int) -> Status:
    """Return what became of the link from what an entry reads."""
    if direct in entry.passed:
        return "passing"
    if entry.status in ("added", "removed", "passing"):
        return entry.status
    return "added" if direct in entry.fresh else "removed" if direct in entry.gone else "kept"


def used_in(entries: Entries, known: Mapping[int, Entry]) -> AbstractSet[int]:
    """Return what the outputs are computed from; without outputs that is everything."""
    todo = list(entries.outputs) or list(known)
    found = set[int]()
    while todo:
        key = todo.pop()
        if key not in found and key in known:
            found.add(key)
            todo += known[key].sources
    return found
