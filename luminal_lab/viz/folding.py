"""The visible part of a graph: views go into the links, scopes close, equal ones are shown once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set as AbstractSet
from functools import cached_property

from luminal_lab.core.ir import Node
from luminal_lab.core.op import Op, Reduce, Source, View
from luminal_lab.core.ops import (
    Constant,
    Expand,
    HostCall,
    Input,
    Pick,
    Region,
    Reshape,
    UserKernel,
)
from luminal_lab.core.printer import op_text
from luminal_lab.io.cells import short_files
from luminal_lab.viz.egraph_elements import Element
from luminal_lab.viz.entries import GraphEntries, NodeEntry, Status, by_key
from luminal_lab.viz.folded import foldable, roots_of, status_between, used_in, views_between
from luminal_lab.viz.metrics import shortened
from luminal_lab.viz.payload import Box, Item, Kind, Link, Mark, Payload, PictureRequest
from luminal_lab.viz.scopes import (
    Scope,
    all_below,
    counterparts,
    dissolve,
    group_equal,
    scope_tree,
)

BUDGET = 60
"""The most things shown by opening scopes, if no depth is given."""
MOST = 400
"""The most things shown of a graph without scopes."""
LONG = re.compile(r"\b\d+\.\d{4,}\b")
"""A number with more digits than a label has."""
LABEL = 44
"""The longest label, in characters; a node's title has the full text."""


def payload_of(entries: GraphEntries, asked: PictureRequest | None = None) -> Payload:
    """Return the payload of a graph, or of the union of two."""
    return _PayloadBuilder(entries, asked or PictureRequest()).payload()


class _PayloadBuilder:
    def __init__(self, entries: GraphEntries, asked: PictureRequest) -> None:
        self.entries = entries
        self.asked = asked
        self.known = by_key(entries.all)
        self.is_pair = any(entry.status for entry in entries.all)
        self.folded = set() if asked.views else foldable(entries, self.known, asked.named)
        get = roots_of(entries, self.folded).get
        self.reads = {
            e.key: [get(source, source) for source in e.sources]
            for e in entries.all
            if e.key not in self.folded
        }
        self.root, self.homes = scope_tree(entries.all, self.folded)
        group_equal(self.root, self.known, self.reads, self.homes)
        if self.asked.select is not None:
            self._ungroup(self.asked.select)
        dissolve(self.root)
        self.scopes = all_below(self.root)
        self.likes = counterparts(self.scopes)
        self.chosen = self._chosen()

    def _ungroup(self, selected: AbstractSet[int]) -> None:
        """Split groups of equal scopes, unless the whole group is selected."""
        for scope in all_below(self.root):
            if scope.group and not all(selected >= set(member.inside) for member in scope.group):
                for member in scope.group:
                    member.group, member.index = (), 0

    def _chosen(self) -> AbstractSet[int] | None:
        """Return the nodes that may be shown, or None for all."""
        asked = self.asked.select
        if asked is not None:
            return {self._like(key) for key in asked if key not in self.folded}
        changed = {e.key for e in self.entries.all if e.status in ("added", "removed", "rewired")}
        if not self.is_pair or len(self.homes) <= BUDGET or not changed:
            return None
        near = set(changed)
        for key, sources in self.reads.items():
            if key in changed:
                near.update(sources)
            elif not changed.isdisjoint(sources):
                near.add(key)
        return near

    # -- what is open ------------------------------------------------------------------------------

    def _opened(self) -> tuple[set[Scope], dict[Scope, int]]:
        """Return the open scopes, and the number of chosen nodes in each scope."""
        chosen = self.chosen
        counts = {
            scope: len(scope.inside)
            if chosen is None
            else sum(key in chosen for key in scope.inside)
            for scope in self.scopes
        }

        def size(scope: Scope) -> int:
            own = scope.own if chosen is None else [key for key in scope.own if key in chosen]
            return len(own) + sum(counts[child] > 0 for child in scope.shown)

        depth, is_free = self.asked.depth, self.asked.select is not None
        opened = {self.root}
        total = size(self.root)
        level, at = [self.root], 0
        while level:
            below: list[Scope] = []
            for scope in level:
                children = [child for child in scope.shown if counts[child]]
                cost = sum(size(child) - 1 for child in children)
                if at < depth if depth is not None else is_free or total + cost <= BUDGET:
                    total += cost
                    opened.update(children)
                    below += children
            level, at = below, at + 1
        return opened, counts

    def payload(self) -> Payload:
        """Return the payload."""
        opened, counts = self._opened()
        boxes: list[tuple[Scope, Scope | None]] = []
        keys: list[tuple[int, Scope | None]] = []

        def walk(scope: Scope, box: Scope | None) -> None:
            keys.extend((key, box) for key in scope.own if self._is_chosen(key))
            for child in scope.shown:
                if counts[child]:
                    boxes.append((child, box))
                    if child in opened:
                        walk(child, child)

        walk(self.root, None)
        keys = self._cut(keys)
        order = {entry.key: number for number, entry in enumerate(self.entries.all)}
        keys.sort(key=lambda keyed: order[keyed[0]])
        visible: dict[int, int] = {key: number for number, (key, _) in enumerate(keys)}
        closed = {key for scope, _ in boxes if scope not in opened for key in scope.inside}
        outside = self._outside(visible.keys() | closed)
        visible |= {key: number for number, key in enumerate(outside, len(keys))}
        box_id: dict[Scope | None, int | None] = {None: None}
        for number, (scope, _) in enumerate(boxes, len(visible)):
            box_id[scope] = number
            if scope not in opened:
                visible.update(dict.fromkeys(scope.inside, number))
        items = [self._item(visible[key], self.known[key], box_id[box]) for key, box in keys]
        items += [self._ghost(visible[key], self.known[key]) for key in outside]
        first = len(items)
        shown = [
            self._box(number, scope, box_id[box], scope in opened)
            for number, (scope, box) in enumerate(boxes, first)
        ]
        repeated = sum(key in self.likes for key in self.homes if self._is_chosen(self._like(key)))
        in_boxes = len(closed) - sum(key in self.likes for key in closed)
        known = len(self.entries.all) - len(self.folded)
        return Payload(
            self.entries.name,
            tuple(items),
            tuple(shown),
            tuple(self._links(visible, first)),
            total=len(self.entries.all),
            folded=len(self.folded),
            closed=in_boxes,
            repeated=repeated,
            left_out=known - len(keys) - in_boxes - repeated,
            is_pair=self.is_pair,
        )

    def _like(self, key: int) -> int:
        return self.likes.get(key, key)

    def _is_chosen(self, key: int) -> bool:
        return self.chosen is None or key in self.chosen

    def _cut(self, keys: list[tuple[int, Scope | None]]) -> list[tuple[int, Scope | None]]:
        """Leave out the nodes farthest from the results, if there is no other limit."""
        if len(keys) <= MOST or self.asked.depth is not None or self.asked.select is not None:
            return keys
        far = len(keys)
        distance = dict.fromkeys(self.entries.outputs, 0)
        for entry in reversed(self.entries.all):
            if entry.key in self.reads:
                at = distance.setdefault(entry.key, far) + 1
                for source in self.reads[entry.key]:
                    distance[source] = min(distance.get(source, at), at)
        return sorted(keys, key=lambda keyed: distance.get(keyed[0], far))[:MOST]

    def _outside(self, visible: AbstractSet[int]) -> list[int]:
        """Return the unselected sources of selected nodes."""
        if self.asked.select is None or not self.asked.context:
            return []
        links: dict[int, None] = {}
        for key, sources in self.reads.items():
            if key in visible:
                links.update(dict.fromkeys(s for s in map(self._like, sources) if s not in visible))
        return [key for key in links if key in self.known]

    # -- the parts ---------------------------------------------------------------------------------

    def _links(self, visible: Mapping[int, int], boxes: int) -> Iterable[Link]:
        links: dict[tuple[int, int, tuple[str, ...], Status], int] = {}
        lineages: dict[Scope, dict[int, int]] = {}
        loops: dict[tuple[Scope, Scope], bool] = {}
        has_groups = bool(self.likes)
        for key, sources in self.reads.items():
            target = visible.get(self._like(key))
            if target is None:
                continue
            entry = self.known[key]
            for direct, root in zip(entry.sources, sources, strict=True):
                source = visible.get(self._like(root))
                if source is None or source == target:
                    continue
                if has_groups and root in self.homes:
                    pair = self.homes[root], self.homes[key]
                    if pair not in loops:
                        loops[pair] = _are_siblings(*pair, lineages)
                    if loops[pair]:
                        continue
                status: Status = ""
                if self.is_pair:
                    status = status_between(entry, direct)
                is_boxed = source >= boxes or target >= boxes
                views = () if is_boxed else views_between(self.known, direct, root)
                link = source, target, views, status
                links[link] = links.get(link, 0) + 1
        for (source, target, views, status), count in links.items():
            yield Link(source, target, views, count, status)

    def _item(self, id: int, entry: NodeEntry, box: int | None) -> Item:
        node, asked = entry.node, self.asked
        kind = kind_of(node.op)
        if kind == "input" and entry.key in asked.parameters:
            kind = "parameter"
        kernel = asked.kernels.get(entry.key)
        body = node.op.body_of()
        if kernel is not None and kind == "call":
            kind = "launch"
        meta = node.meta
        origin = meta.origin
        return Item(
            id,
            entry.key,
            node.name,
            node.op.name if body is not None else op_text(node.op),
            node_label(node, kind, kernel or ""),
            ", ".join(map(str, node.types)),
            kind,
            tuple(self._marks(entry)),
            box,
            meta.scope,
            "" if origin is None else str(origin._replace(file=self._files[origin.file])),
            "" if meta.derivation is None else meta.derivation.rule,
            entry.status,
            entry.key in asked.highlight,
        )

    def _marks(self, entry: NodeEntry) -> Iterable[Mark]:
        derivation = entry.node.meta.derivation
        if entry.key in self.asked.kept:
            yield "kept"
        elif entry.key in self.entries.outputs:
            yield "retrieved"
        elif entry.key not in self._used and entry.key not in self.entries.inputs:
            yield "unused"
        if derivation is not None and derivation.rule == "recompute":
            yield "recomputed"

    @cached_property
    def _files(self) -> Mapping[str, str]:
        """Short names of files: a picture may travel, and this machine's folders should not."""
        origins = [entry.node.meta.origin for entry in self.entries.all]
        return short_files(origin.file for origin in origins if origin is not None)

    @cached_property
    def _used(self) -> AbstractSet[int]:
        return used_in(self.entries, self.known)

    def _ghost(self, id: int, entry: NodeEntry) -> Item:
        node = entry.node
        label = node.name if isinstance(node.op, Input) else f"{node.op.name} %{node.name}"
        return Item(
            id,
            entry.key,
            node.name,
            op_text(node.op) if node.op.body_of() is None else node.op.name,
            shortened(label, LABEL),
            str(node.type),
            "outside",
            scope=node.meta.scope,
            status=entry.status,
        )

    def _box(self, id: int, scope: Scope, box: int | None, is_open: bool) -> Box:
        statuses = [self.known[key].status for key in scope.inside] if self.is_pair else []
        members = tuple(member.path for member in scope.group)
        name = f"{scope.name} … {scope.group[-1].name}" if members else scope.name
        return Box(
            id,
            name,
            scope.path,
            box,
            is_open,
            len(scope.inside),
            max(1, len(members)),
            members,
            *(statuses.count(status) for status in ("added", "removed", "rewired")),
            highlighted=not is_open and not self.asked.highlight.isdisjoint(scope.inside),
        )


def kind_of(op: Op) -> Kind:
    """Return the kind of an op."""
    match op:
        case Element(kind=kind):
            return kind
        case Input():
            return "input"
        case Constant():
            return "constant"
        case View() | Pick():
            return "view"
        case Reduce():
            return "reduce"
        case UserKernel():
            return "kernel"
        case Region():
            return "call"
        case HostCall():
            return "host"
        case Source():
            return "source"
        case _:
            return "op"


def node_label(node: Node, kind: Kind, kernel: str = "") -> str:
    """Return a node's label: its op, the kernel that computes it, or its name."""
    body = node.op.body_of()
    label = kernel or (body.name if body is not None else op_label(node.op))
    return shortened(node.name if kind in ("input", "parameter") else label, LABEL)


def op_label(op: Op) -> str:
    """Return an op in few words: its value, or its name and its fields.

    >>> from luminal_lab.core.ops import Flip, SumReduce
    >>> op_label(SumReduce(1)), op_label(Flip((0,)))
    ('sum_reduce axis 1', 'flip axes [0]')
    """
    if isinstance(op, Constant):
        return _number(op.value)
    if isinstance(op, Element):
        return LONG.sub(lambda number: f"{float(number[0]):.4g}", op.text)
    text = op_text(op)
    name, brace, rest = text.partition("{")
    if not brace or isinstance(op, (Reshape, Expand)):  # the type has the shape
        return name
    return f"{name} {rest.removesuffix('}').replace(' = ', ' ')}"


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _are_siblings(first: Scope, other: Scope, lineages: dict[Scope, dict[int, int]]) -> bool:
    """Return whether two scopes lie in different members of a group of equal scopes."""
    for scope in (first, other):
        if scope not in lineages:
            lineage: dict[int, int] = {}
            at: Scope | None = scope
            while at is not None:
                if at.group:
                    lineage[id(at.group)] = at.index
                at = at.parent
            lineages[scope] = lineage
    mine, theirs = lineages[first], lineages[other]
    return any(theirs.get(group, position) != position for group, position in mine.items())
