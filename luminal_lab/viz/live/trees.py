"""The tree of scopes and stretches behind a live picture, and the nodes of one box of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set as AbstractSet
from typing import NamedTuple

from luminal_lab.viz.entries import GraphEntries, NodeEntry, by_key
from luminal_lab.viz.folded import foldable, roots_of
from luminal_lab.viz.scalars import scalars_of
from luminal_lab.viz.scopes import Scope, all_below, dissolve, group_equal, scope_tree
from luminal_lab.viz.stretches import Stretching

TO = "…"
"""Between the paths of the first and the last of equal scopes."""


class Tree(NamedTuple):
    """All that stands in boxes, and what has no thing of its own."""

    known: Mapping[int, NodeEntry]
    roots: Mapping[int, int]
    """The node that each folded view is a view of."""
    scalars: Mapping[int, str]
    """The constants that stand in their readers, as text."""
    reads: Mapping[int, Sequence[int]]
    """What each node reads, without the views between."""
    root: Scope


def tree_of(entries: GraphEntries, kept: AbstractSet[int]) -> Tree:
    """Return the tree of a graph, or of the union of two; what is kept has a thing of its own."""
    known = by_key(entries.all)
    folded = foldable(entries, known, frozenset())
    roots = roots_of(entries, folded)
    scalars = scalars_of(entries, roots, kept)
    get = roots.get
    reads = {
        entry.key: [get(source, source) for source in entry.sources]
        for entry in entries.all
        if entry.key not in folded and entry.key not in scalars
    }
    root, homes = scope_tree(entries.all, folded | scalars.keys())
    group_equal(root, known, reads, homes, scalars)
    dissolve(root)
    is_pair = any(entry.status for entry in entries.all)
    Stretching(known, reads, homes, scalars, is_pair).cut(root)
    return Tree(known, roots, scalars, reads, root)


def path_of_group(group: Sequence[Scope]) -> str:
    """Return the path of the box of equal scopes."""
    return f"{group[0].path}{TO}{group[-1].path}"


def keys_in(entries: GraphEntries, kept: AbstractSet[int], path: str) -> AbstractSet[int]:
    """Return the nodes in the box with a path: of a scope, a stretch, or equal ones."""
    keys = set[int]()
    for scope in all_below(tree_of(entries, kept).root):
        if scope.path == path:
            keys.update(scope.inside)
        elif scope.group and path_of_group(scope.group) == path:
            keys.update(key for member in scope.group for key in member.inside)
    return keys
