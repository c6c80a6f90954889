"""The tree of scopes behind a picture, and groups of equal ones.

A scope is a part of a model, named by the dotted path of its nodes. Gradient nodes have the scope
of the nodes that they derive, and would lie before and behind everything else, so they get a tree
of their own under "gradients". Neighbours whose nodes have the same ops, types and wiring form a
group, and the first stands for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from luminal_lab.viz.entries import NodeEntry

GRADIENTS = "gradients"
"""The scope of all gradient nodes."""


@dataclass(eq=False)
class Scope:
    """A part of a model: its own nodes, and the scopes in it."""

    name: str
    parent: Scope | None
    path: str = ""
    """The dotted path from the root."""
    children: dict[str, Scope] = field(default_factory=dict[str, "Scope"])
    own: list[int] = field(default_factory=list[int])
    """The keys of the nodes in no deeper scope, in order."""
    inside: list[int] = field(default_factory=list[int])
    """The keys of all nodes in it, in order."""
    group: tuple[Scope, ...] = ()
    """The equal scopes, including this one, if there are several."""
    index: int = 0
    """Its index in the group."""
    first: int = 0
    """The position of its first node among all."""

    @property
    def shown(self) -> list[Scope]:
        """The visible scopes in it: the first of each group."""
        return [child for child in self.children.values() if not child.index]


Homes: TypeAlias = Mapping[int, Scope]
"""The scope of each node, by its key."""


def scope_tree(entries: Sequence[NodeEntry], hidden: set[int]) -> tuple[Scope, dict[int, Scope]]:
    """Return the root of all scopes, and the scope of each node that is not hidden."""
    root = Scope("", None)
    known: dict[tuple[str, bool], list[Scope]] = {}
    homes: dict[int, Scope] = {}
    for position, entry in enumerate(entries):
        if entry.key in hidden:
            continue
        meta = entry.node.meta
        backward = meta.derivation is not None and meta.derivation.rule.startswith("grad-")
        chain = known.get((meta.scope, backward))
        if chain is None:
            names = [GRADIENTS] if backward else []
            names += meta.scope.split(".") if meta.scope else []
            chain = [root]
            for name in names:
                above = chain[-1]
                if name not in above.children:
                    path = f"{above.path}.{name}" if above.path else name
                    above.children[name] = Scope(name, above, path, first=position)
                chain.append(above.children[name])
            known[meta.scope, backward] = chain
        chain[-1].own.append(entry.key)
        homes[entry.key] = chain[-1]
        for scope in chain:
            scope.inside.append(entry.key)
    return root, homes


def group_equal(
    root: Scope,
    entries: Mapping[int, NodeEntry],
    reads: Mapping[int, Sequence[int]],
    homes: Homes,
    scalars: Mapping[int, str],
) -> None:
    """Group equal neighbours everywhere below a scope."""
    for scope in all_below(root):
        group_neighbours(scope, entries, reads, homes, scalars)


def group_neighbours(
    scope: Scope,
    entries: Mapping[int, NodeEntry],
    reads: Mapping[int, Sequence[int]],
    homes: Homes,
    scalars: Mapping[int, str],
) -> None:
    """Group equal neighbours among the scopes in one; scalars are what stands in its readers."""
    children = sorted(scope.children.items(), key=lambda child: child[1].first)
    scope.children = dict(children)
    for child in scope.children.values():
        # A scope that has been cut may have other neighbours, and be told apart by their places.
        child.group, child.index = (), 0
    run: list[Scope] = []
    signature: object = None
    for child in [*scope.children.values(), None]:
        if child is not None and run and len(child.inside) == len(run[0].inside) > 1:
            signature = signature or signature_of(run[0], entries, reads, homes, scalars)
            if signature_of(child, entries, reads, homes, scalars) == signature:
                run.append(child)
                continue
        if len(run) > 1:
            group = tuple(run)
            for index, member in enumerate(run):
                member.group, member.index = group, index
        run, signature = [child] if child is not None else [], None


def signature_of(
    scope: Scope,
    entries: Mapping[int, NodeEntry],
    reads: Mapping[int, Sequence[int]],
    homes: Homes,
    scalars: Mapping[int, str],
) -> tuple[object, ...]:
    """Return what equal scopes have in common: ops, types, inner scopes and wiring.

    Sources from outside are numbered in reading order; scalars are their values.
    """
    position = {key: number for number, key in enumerate(scope.inside)}
    outside: dict[int, int] = {}
    depth = len(scope.path)
    parts: list[object] = []
    for key in scope.inside:
        entry = entries[key]
        node = entry.node
        sources = tuple(
            position[source]
            if source in position
            else scalars[source]
            if source in scalars
            else ~outside.setdefault(source, len(outside))
            for source in reads[key]
        )
        parts.append((node.op, node.types, sources, entry.status, homes[key].path[depth:]))
    return tuple(parts)


def name_of_group(group: Sequence[Scope]) -> str:
    """Return the name of equal scopes: that of the first, and what tells the last from it."""
    first, last = group[0].name, group[-1].name
    title, _, number = last.rpartition(" ")
    if title and first.startswith(f"{title} #"):  # rounds of a loop
        return f"{first} … {number}"
    return f"{first.partition(' … ')[0]} … {last.rpartition(' … ')[2]}"


def counterparts(scopes: Iterable[Scope]) -> dict[int, int]:
    """Return the visible counterpart of each node in a hidden repeated scope."""
    counterpart_of: dict[int, int] = {}
    for scope in scopes:
        if scope.index:
            counterpart_of.update(zip(scope.inside, scope.group[0].inside, strict=True))
    for key, like in counterpart_of.items():
        while like in counterpart_of:  # in nested groups
            like = counterpart_of[like]
        counterpart_of[key] = like
    return counterpart_of


def dissolve(scope: Scope) -> None:
    """Remove scopes without nodes of their own: lists of parts, such as `h` of `h.0`."""
    children: dict[str, Scope] = {}
    for child in scope.children.values():
        dissolve(child)
        if child.own or child.group:
            children[child.name] = child
            continue
        for inner in child.children.values():
            inner.parent, inner.name = scope, f"{child.name}.{inner.name}"
            children[inner.name] = inner
    scope.children = children


def all_below(scope: Scope) -> list[Scope]:
    """Return a scope and all scopes in it, outer ones first."""
    scopes = [scope]
    for inner in scopes:
        scopes += inner.children.values()
    return scopes
