"""The visible part of a graph: views go into the links, scopes close, equal ones are shown once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set as AbstractSet
from functools import cached_property

from luminal_lab.core.ops import (
    Input,
)
from luminal_lab.core.printer import op_text
from luminal_lab.io.cells import short_files
from luminal_lab.viz.entries import GraphEntries, NodeEntry, Status, by_key
from luminal_lab.viz.folded import foldable, roots_of, status_between, used_in, views_between
from luminal_lab.viz.labels import LABEL, kind_of, node_label
from luminal_lab.viz.metrics import shortened
from luminal_lab.viz.opening import Contents, first_open
from luminal_lab.viz.payload import Box, Item, Link, Mark, Payload, PictureRequest
from luminal_lab.viz.scalars import operands_of, scalars_of
from luminal_lab.viz.scopes import (
    Scope,
    all_below,
    counterparts,
    dissolve,
    group_equal,
    name_of_group,
    scope_tree,
)
from luminal_lab.viz.stretches import BUDGET, LEAST, Stretching


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
        self.roots = roots_of(entries, self.folded)
        self.scalars = {} if asked.views else scalars_of(entries, self.roots, self._loud())
        get = self.roots.get
        self.reads = {
            e.key: [get(source, source) for source in e.sources]
            for e in entries.all
            if e.key not in self.folded and e.key not in self.scalars
        }
        hidden = self.folded | self.scalars.keys()
        self.root, self.homes = scope_tree(entries.all, hidden)
        group_equal(self.root, self.known, self.reads, self.homes, self.scalars)
        if self.asked.select is not None:
            self._ungroup(self.asked.select)
        dissolve(self.root)
        self.chosen = self._changed()
        if asked.depth is None and asked.select is None:
            self._stretch()
        self.scopes = all_below(self.root)
        self.likes = counterparts(self.scopes)
        if asked.select is not None:
            self.chosen = {self._like(key) for key in asked.select if key not in hidden}

    def _loud(self) -> AbstractSet[int]:
        """Return the nodes that are shown as nodes whatever they are."""
        return self.asked.named | self.asked.kept

    def _stretch(self) -> None:
        """Cut what is too much for a frame; of equal scopes show some apart if there is room."""
        how = self.known, self.reads, self.homes, self.scalars, self.is_pair, self._is_chosen
        Stretching(*how).cut(self.root)
        while (group := self._lone_group()) is not None:
            (alone, *others) = group
            alone.group = ()
            for index, member in enumerate(others):
                member.group, member.index = tuple(others) if len(others) > 1 else (), index

    def _lone_group(self) -> tuple[Scope, ...] | None:
        """Return the outermost equal scopes, if so little is in sight that one may stand apart."""
        todo, total = [self.root], 0
        groups: list[tuple[Scope, ...]] = []
        for scope in todo:
            total += sum(map(self._is_chosen, scope.own))
            todo += scope.shown
            groups += [child.group for child in scope.shown if child.group]
        return groups[0] if total < LEAST and groups else None

    def _ungroup(self, selected: AbstractSet[int]) -> None:
        """Split groups of equal scopes, unless the whole group is selected."""
        for scope in all_below(self.root):
            if scope.group and not all(selected >= set(member.inside) for member in scope.group):
                for member in scope.group:
                    member.group, member.index = (), 0

    def _changed(self) -> AbstractSet[int] | None:
        """Return what changed in a large pair, with its neighbours; None for all."""
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

        depth, is_free = self.asked.depth, self.asked.select is not None
        if depth is None and not is_free:
            return {self.root, *first_open(self._frames(counts))}, counts
        opened = {self.root}
        level, at = [self.root], 0
        while level and (depth is None or at < depth):
            level = [child for scope in level for child in scope.shown if counts[child]]
            opened.update(level)
            at += 1
        return opened, counts

    def _frames(self, counts: Mapping[Scope, int]) -> dict[Scope | None, Contents[Scope]]:
        """Return what is right inside each scope."""
        frames: dict[Scope | None, Contents[Scope]] = {}
        for scope in self.scopes:
            own = sum(map(self._is_chosen, scope.own))
            boxes = [child for child in scope.shown if counts[child]]
            changes = sum(
                self.known[key].status in ("added", "removed", "rewired") for key in scope.inside
            ) if self.is_pair else 0  # fmt: skip
            count = counts[scope]
            frames[None if scope is self.root else scope] = Contents(
                boxes, own, own, changes, count, count
            )
        return frames

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
        scalars = self._scalars_shown()
        statuses = Counter(entry.status for entry in self.entries.all)
        known = len(self.entries.all) - len(self.folded) - scalars
        return Payload(
            self.entries.name,
            tuple(items),
            tuple(shown),
            tuple(self._links(visible, first)),
            total=len(self.entries.all),
            folded=len(self.folded),
            scalars=scalars,
            closed=in_boxes,
            repeated=repeated,
            left_out=known - len(keys) - in_boxes - repeated,
            is_pair=self.is_pair,
            added=statuses["added"],
            removed=statuses["removed"],
            rewired=statuses["rewired"],
        )

    def _like(self, key: int) -> int:
        return self.likes.get(key, key)

    def _is_chosen(self, key: int) -> bool:
        return self.chosen is None or key in self.chosen

    def _scalars_shown(self) -> int:
        """Return how many scalars stand in ops that may be shown."""
        if self.chosen is None:
            return len(self.scalars)
        read = (source for key in self.chosen for source in self.reads.get(key, ()))
        return len(self.scalars.keys() & set(read))

    def _outside(self, visible: AbstractSet[int]) -> list[int]:
        """Return the unselected sources of selected nodes."""
        if self.asked.select is None or not self.asked.context:
            return []
        links: dict[int, None] = {}
        for key, sources in self.reads.items():
            if key in visible:
                links.update(dict.fromkeys(s for s in map(self._like, sources) if s not in visible))
        return [key for key in links if key in self.known and key not in self.scalars]

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
            node_label(node, kind, kernel or "", operands_of(entry, self.roots, self.scalars)),
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
        name = name_of_group(scope.group) if members else scope.name
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
