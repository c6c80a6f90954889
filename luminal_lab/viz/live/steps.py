"""A pass as rows: what each firing takes out and puts in, and links from old to new nodes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from luminal_lab.core.edit import LogEntry
from luminal_lab.core.ir import Node
from luminal_lab.passes.snapshot import Snapshot


class RecordChange(NamedTuple):
    """A firing as records: those taken out and those put in."""

    gone: tuple[Node, ...]
    new: tuple[Node, ...]


def step_of(changes: Iterable[LogEntry]) -> RecordChange:
    """Return the combined effect of some changes."""
    gone: dict[Node, None] = {}
    new: dict[Node, None] = {}
    for change in changes:
        for node in change.before:
            if node in new:
                del new[node]
            else:
                gone[node] = None
        for node in change.after:
            if node in gone:
                del gone[node]
            else:
                new[node] = None
    return RecordChange(tuple(gone), tuple(new))


class Splice(NamedTuple):
    """A position in a list, the number of items taken out there, and the items put in."""

    position: int
    out: int
    new: list[int]


def splices(old: Sequence[int], new: Sequence[int]) -> list[Splice]:
    """Return the splices that turn one list of distinct numbers into another.

    >>> splices([1, 2, 3, 4], [1, 3, 5, 4])
    [Splice(position=1, out=1, new=[]), Splice(position=3, out=0, new=[5])]
    """
    splices_found: list[Splice] = []
    if old == new:
        return splices_found
    kept = _kept(old, new)
    a = b = 0
    while a < len(old) or b < len(new):
        if a < len(old) and b < len(new) and old[a] == new[b] and old[a] in kept:
            a, b = a + 1, b + 1
            continue
        position, begin = a, b
        while a < len(old) and old[a] not in kept:
            a += 1
        while b < len(new) and new[b] not in kept:
            b += 1
        splices_found.append(Splice(position, a - position, list(new[begin:b])))
    return splices_found


def _kept(old: Sequence[int], new: Sequence[int]) -> set[int]:
    """Return a longest common subsequence of two lists of distinct numbers."""
    position = {item: at for at, item in enumerate(old)}
    both = [position[item] for item in new if item in position]
    if all(earlier < other for earlier, other in pairwise(both)):
        return {old[at] for at in both}
    ends: list[int] = []  # the least last number of rising sequences, by their length
    which: list[int] = []
    before: list[int] = []
    for at, item in enumerate(both):
        length = bisect_left(ends, item)
        before.append(which[length - 1] if length else -1)
        ends[length : length + 1] = [item]
        which[length : length + 1] = [at]
    kept: set[int] = set()
    at = which[-1]
    while at >= 0:
        kept.add(old[both[at]])
        at = before[at]
    return kept


def links(snapshot: Snapshot) -> list[tuple[int, int]]:
    """Return pairs of old and new nodes, where the ids differ."""
    before, after = snapshot.before.table, snapshot.ir.table
    old: dict[int, None] = {}
    for change in snapshot.log:
        old[change.node] = None
        for node in change.after if change.kind == "insert" else ():
            old.update(
                dict.fromkeys(
                    node.meta.derivation.parents if node.meta.derivation is not None else ()
                )
            )
    pairs: dict[tuple[int, int], None] = {}
    for id in old:
        node = before.get(id)
        if node is not None:
            pairs.update(((id, new.id), None) for new in snapshot.forward(node) if new.id != id)
    for id, node in after.differing(before):
        if node is not None and before.get(id) is None:
            pairs.update(
                ((source.id, id), None) for source in snapshot.back(node) if source.id != id
            )
    return sorted(pairs)
