"""What a pass did in rows: what each firing takes out and puts in, and what became of what."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from luminal_lab.core.edit import Change
from luminal_lab.core.ir import Node
from luminal_lab.passes.snapshot import Snapshot


class Step(NamedTuple):
    """A firing as records: what is no longer there, and what is there instead."""

    gone: tuple[Node, ...]
    new: tuple[Node, ...]


def step_of(changes: Iterable[Change]) -> Step:
    """Return what some changes take out and put in, together."""
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
    return Step(tuple(gone), tuple(new))


class Splice(NamedTuple):
    """A place in a list, how many are taken out there, and what is put in."""

    place: int
    out: int
    new: list[int]


def splices(old: Sequence[int], new: Sequence[int]) -> list[Splice]:
    """Return what makes one list of another, in which each number stands once.

    >>> splices([1, 2, 3, 4], [1, 3, 5, 4])
    [Splice(place=1, out=1, new=[]), Splice(place=3, out=0, new=[5])]
    """
    found: list[Splice] = []
    if old == new:
        return found
    kept = _kept(old, new)
    a = b = 0
    while a < len(old) or b < len(new):
        if a < len(old) and b < len(new) and old[a] == new[b] and old[a] in kept:
            a, b = a + 1, b + 1
            continue
        place, begin = a, b
        while a < len(old) and old[a] not in kept:
            a += 1
        while b < len(new) and new[b] not in kept:
            b += 1
        found.append(Splice(place, a - place, list(new[begin:b])))
    return found


def _kept(old: Sequence[int], new: Sequence[int]) -> set[int]:
    """Return as many as can stay that stand in one order in both: a longest rising sequence."""
    place = {one: at for at, one in enumerate(old)}
    both = [place[one] for one in new if one in place]
    if all(one < other for one, other in pairwise(both)):
        return {old[at] for at in both}
    ends: list[int] = []  # the least last number of rising sequences, by their length
    which: list[int] = []
    before: list[int] = []
    for at, one in enumerate(both):
        length = bisect_left(ends, one)
        before.append(which[length - 1] if length else -1)
        ends[length : length + 1] = [one]
        which[length : length + 1] = [at]
    kept: set[int] = set()
    at = which[-1]
    while at >= 0:
        kept.add(old[both[at]])
        at = before[at]
    return kept


def links(snapshot: Snapshot) -> list[tuple[int, int]]:
    """Return what of the graph before became what of the graph after, where the ids differ."""
    before, after = snapshot.before.table, snapshot.ir.table
    old: dict[int, None] = {}
    for change in snapshot.log:
        old[change.node] = None
        for node in change.after if change.kind == "insert" else ():
            old.update(dict.fromkeys(node.meta.made.parents if node.meta.made is not None else ()))
    found: dict[tuple[int, int], None] = {}
    for id in old:
        node = before.get(id)
        if node is not None:
            found.update(((id, new.id), None) for new in snapshot.forward(node) if new.id != id)
    for id, node in after.differing(before):
        if node is not None and before.get(id) is None:
            found.update(((one.id, id), None) for one in snapshot.back(node) if one.id != id)
    return sorted(found)
