"""The tree of scopes below a picture, and which of them repeat.

A scope is a part of a model, as the dotted path of its nodes says. What derives gradients has the
scope of what it derives, and would lie before and behind everything else; it gets a tree of its own
under "gradients". Neighbours whose nodes have the same ops, types and wiring are one group, of
which the first stands for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from luminal_lab.viz.entries import Entry

GRADIENTS = "gradients"
"""The scope under which everything backward lies."""


@dataclass(eq=False)
class Scope:
    """A part of a model: its own nodes, and the scopes in it."""

    name: str
    parent: Scope | None
    path: str = ""
    """The dotted path from the root."""
    children: dict[str, Scope] = field(default_factory=dict[str, "Scope"])
    own: list[int] = field(default_factory=list[int])
    """The keys of the nodes that are in no deeper scope, in order."""
    inside: list[int] = field(default_factory=list[int])
    """The keys of all nodes in it, in order."""
    group: tuple[Scope, ...] = ()
    """The equal scopes, this one among them, where there is more than one."""
    place: int = 0
    """Which of its group it is."""
    first: int = 0
    """The place of its first node among all."""

    @property
    def shown(self) -> list[Scope]:
        """The scopes in it that are shown: of equal ones the first."""
        return [child for child in self.children.values() if not child.place]


Homes: TypeAlias = Mapping[int, Scope]
"""The scope of each node, by its key."""


def scope_tree(entries: Sequence[Entry], hidden: set[int]) -> tuple[Scope, dict[int, Scope]]:
    """Return the root of all scopes, and the scope of each node that is not hidden."""
    root = Scope("", None)
    known: dict[tuple[str, bool], list[Scope]] = {}
    homes: dict[int, Scope] = {}
    for place, entry in enumerate(entries):
        if entry.key in hidden:
            continue
        meta = entry.node.meta
        backward = meta.made is not None and meta.made.rule.startswith("grad-")
        chain = known.get((meta.scope, backward))
        if chain is None:
            names = [GRADIENTS] if backward else []
            names += meta.scope.split(".") if meta.scope else []
            chain = [root]
            for name in names:
                above = chain[-1]
                if name not in above.children:
                    path = f"{above.path}.{name}" if above.path else name
                    above.children[name] = Scope(name, above, path, first=place)
                chain.append(above.children[name])
            known[meta.scope, backward] = chain
        chain[-1].own.append(entry.key)
        homes[entry.key] = chain[-1]
        for scope in chain:
            scope.inside.append(entry.key)
    return root, homes


def group_equal(
    root: Scope, entries: Mapping[int, Entry], reads: Mapping[int, Sequence[int]], homes: Homes
) -> None:
    """Find the neighbours that are equal, everywhere below a scope."""
    todo = [root]
    while todo:
        scope = todo.pop()
        children = sorted(scope.children.values(), key=lambda child: child.first)
        scope.children = {child.name: child for child in children}
        todo += children
        run: list[Scope] = []
        signature: object = None
        for child in [*children, None]:
            if child is not None and run and len(child.inside) == len(run[0].inside) > 1:
                signature = signature or signature_of(run[0], entries, reads, homes)
                if signature_of(child, entries, reads, homes) == signature:
                    run.append(child)
                    continue
            if len(run) > 1:
                group = tuple(run)
                for place, one in enumerate(run):
                    one.group, one.place = group, place
            run, signature = [child] if child is not None else [], None


def signature_of(
    scope: Scope, entries: Mapping[int, Entry], reads: Mapping[int, Sequence[int]], homes: Homes
) -> tuple[object, ...]:
    """Return what equal scopes have in common: ops, types, inner scopes, and who reads what.

    What is read from outside is numbered in the order in which it is read.
    """
    place = {key: number for number, key in enumerate(scope.inside)}
    outside: dict[int, int] = {}
    depth = len(scope.path)
    found: list[object] = []
    for key in scope.inside:
        entry = entries[key]
        node = entry.node
        sources = tuple(
            place[source] if source in place else ~outside.setdefault(source, len(outside))
            for source in reads[key]
        )
        found.append((node.op, node.types, sources, entry.status, homes[key].path[depth:]))
    return tuple(found)


def counterparts(scopes: Iterable[Scope]) -> dict[int, int]:
    """Return, for each node of a repeated scope that is not shown, the node that stands for it."""
    found: dict[int, int] = {}
    for scope in scopes:
        if scope.place:
            found.update(zip(scope.inside, scope.group[0].inside, strict=True))
    for key, like in found.items():
        while like in found:  # of a group within a group
            like = found[like]
        found[key] = like
    return found


def dissolve(scope: Scope) -> None:
    """Take away the scopes that have no nodes of their own: lists of parts, as `h` of `h.0`."""
    found: dict[str, Scope] = {}
    for child in scope.children.values():
        dissolve(child)
        if child.own or child.group:
            found[child.name] = child
            continue
        for inner in child.children.values():
            inner.parent, inner.name = scope, f"{child.name}.{inner.name}"
            found[inner.name] = inner
    scope.children = found


def all_below(scope: Scope) -> list[Scope]:
    """Return a scope and all scopes in it, outer ones first."""
    found = [scope]
    for one in found:
        found += one.children.values()
    return found
