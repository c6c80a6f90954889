"""Frames: the inside of each scope, with all its boxes closed, laid out alone.

Each scope is a box in the frame of the scope around it, and opens a frame of its own; equal
neighbours are one box, whose frame has them as boxes. Frames with equal contents share a layout,
and a frame that did not change since the previous view keeps its layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from luminal_lab.errors import counted
from luminal_lab.viz.borders import Borders, Inside, LinkPiece, Path, Port
from luminal_lab.viz.entries import GraphEntries, NodeEntry, Status
from luminal_lab.viz.folded import status_between, used_in, views_between
from luminal_lab.viz.layers import PlacedBlock, Wire
from luminal_lab.viz.live.layouts import Contents, Hints, Layouts
from luminal_lab.viz.live.rows import Rows
from luminal_lab.viz.live.trees import path_of_group, tree_of
from luminal_lab.viz.opening import Contents as BoxContents, first_open
from luminal_lab.viz.payload import Box, Item, Kind, Mark
from luminal_lab.viz.scopes import Scope, name_of_group
from luminal_lab.viz.sizes import room_at, size_of_box, size_of_item, words_of, words_width

Name: TypeAlias = tuple[str, int | str]
"""The identity of a thing across views: a node's key, a scope's path."""


class Thing(NamedTuple):
    """A node, or a closed box, in a frame."""

    entry: NodeEntry | None = None
    kind: Kind = "op"
    marks: tuple[Mark, ...] = ()
    box: Box | None = None

    @property
    def name(self) -> Name:
        """Its identity in other views."""
        if self.box is not None:
            return "scope", self.box.path
        assert self.entry is not None
        return "node", self.entry.key


class ScopeFrame(NamedTuple):
    """The inside of a box, or the outermost frame: its things, wires and layout."""

    box: int | None
    inside: Inside
    contents: Contents
    layout: int


@dataclass(frozen=True)
class GraphView:
    """All frames of a graph, or of the union of two."""

    things: Sequence[Thing]
    """All things by id; those of a frame are `frame.inside.things`."""
    frames: Mapping[int | None, ScopeFrame]
    """The frames by the box that opens each, outer ones first."""
    folded: Sequence[tuple[int, int]]
    """What has no thing of its own, each with what stands for it: views with the nodes that they
    view, scalars with all that read them."""
    shown: str
    open: Sequence[int]
    """The boxes open at first."""


def view_of(
    entries: GraphEntries, rows: Rows, layouts: Layouts, before: GraphView | None = None
) -> GraphView:
    """Return the view of a graph, or of a union, as similar to the previous one as possible."""
    return _ViewBuilder(entries, rows, layouts, before).view()


class _ViewBuilder:
    def __init__(
        self, entries: GraphEntries, rows: Rows, layouts: Layouts, before: GraphView | None
    ) -> None:
        self.entries = entries
        self.rows = rows
        self.layouts = layouts
        self.before = _Before(before, layouts)
        self.is_pair = any(entry.status for entry in entries.all)
        self.known, self.roots, self.scalars, self.reads, root = tree_of(entries, rows.subject.kept)
        self.used = used_in(entries, self.known)
        self.used_later = used_in(entries, self.known, later=True) if self.is_pair else self.used
        self.things: list[Thing] = []
        self.homes: list[int | None] = []
        self.boxes: list[int] = []
        self.ids: dict[int, int] = {}
        """The ids of nodes' things, by key."""
        self.scopes: dict[int, Scope] = {}
        """The scopes of boxes, by id."""
        self.members: set[int] = set()
        """The boxes of equal scopes behind the first."""
        self._walk(root)

    # -- things ------------------------------------------------------------------------------------

    def _walk(self, root: Scope) -> None:
        """Number all things, outer ones first and in a frame in the order of the graph."""
        order = {entry.key: number for number, entry in enumerate(self.entries.all)}
        todo: list[tuple[Sequence[int], Sequence[Scope], int | None]] = [
            (root.own, list(root.children.values()), None)
        ]
        for own, children, home in todo:
            children_found: list[tuple[int, int | Scope]] = [(order[key], key) for key in own]
            around = None if home is None else self.things[home].box
            is_group = around is not None and around.times > 1
            children_found += [
                (child.first, child) for child in children if is_group or not child.index
            ]
            children_found.sort(key=lambda entry: entry[0])
            for _, child in children_found:
                id = len(self.things)
                self.homes.append(home)
                if isinstance(child, int):
                    self.ids[child] = id
                    self.things.append(self._node(self.known[child]))
                    continue
                self.boxes.append(id)
                self.scopes[id] = child
                if is_group and child.index:
                    self.members.add(id)
                self.things.append(self._box(id, child, is_group))
                if child.group and not is_group:
                    todo.append(((), child.group, id))
                else:
                    todo.append((child.own, list(child.children.values()), id))

    def _node(self, entry: NodeEntry) -> Thing:
        node = entry.node
        kind = self.rows.kind_of(node)
        return Thing(entry, kind, tuple(self._marks(entry)))

    def _marks(self, entry: NodeEntry) -> list[Mark]:
        derivation, marks = entry.node.meta.derivation, list[Mark]()
        if entry.key in self.rows.subject.kept:
            marks.append("kept")
        elif entry.key in self.entries.outputs:
            marks.append("retrieved")
        elif entry.key in self.entries.inputs:
            pass
        elif entry.key not in self.used:
            marks.append("unused")
        elif entry.key not in self.used_later and entry.status != "removed":
            marks.append("left")
        if derivation is not None and derivation.rule == "recompute":
            marks.append("recomputed")
        return marks

    def _box(self, id: int, scope: Scope, is_member: bool) -> Thing:
        statuses = [self.known[key].status for key in scope.inside] if self.is_pair else []
        group = () if is_member else scope.group
        ends = name_of_group(group) if group else scope.name
        box = Box(
            id,
            ends,
            path_of_group(group) if group else scope.path,
            None,
            False,
            len(scope.inside),
            max(1, len(group)),
            tuple([member.path for member in group]),
            added=statuses.count("added"),
            removed=statuses.count("removed"),
            rewired=statuses.count("rewired"),
        )
        return Thing(box=box)

    # -- frames ------------------------------------------------------------------------------------

    def view(self) -> GraphView:
        """Return all frames, laid out."""
        borders = Borders(self.homes, self.boxes, self._paths())
        rooms = self._rooms(borders)
        frames: dict[int | None, ScopeFrame] = {}
        local: dict[Contents, int] = {}
        changed: list[tuple[int | None, Inside, Contents]] = []
        for box in borders.order:
            inside = borders.inside[box]
            contents = self._contents(inside, rooms)
            layout = self.before.layout(self._path(box), contents)
            if layout is not None:
                local[contents] = layout
            changed.append((box, inside, contents))
        for box, inside, contents in changed:
            if contents not in local:
                hints = self.before.hints(self._path(box), self._names(inside))
                local[contents] = self.layouts.find(contents, hints)
            frames[box] = ScopeFrame(box, inside, contents, local[contents])
        known = len(self.entries.all)
        shown = f"{counted(len(self.reads), 'node')}"
        hidden = [
            f"{counted(len(self.roots), 'view')} in the edges" if self.roots else "",
            f"{counted(len(self.scalars), 'scalar')} in the ops" if self.scalars else "",
        ]
        if any(hidden):
            shown += f" of {known:,} ({', '.join(filter(None, hidden))})"
        return GraphView(self.things, frames, self._folded(), shown, self._open(frames))

    def _folded(self) -> Sequence[tuple[int, int]]:
        """Return what stands for all that has no thing of its own."""
        readers: dict[int, list[int]] = {}
        for key, sources in self.reads.items() if self.scalars else ():
            for source in dict.fromkeys(sources):
                if source in self.scalars:
                    readers.setdefault(source, []).append(key)
        pairs: list[tuple[int, int]] = []
        for key, root in [*self.roots.items(), *zip(self.scalars, self.scalars, strict=True)]:
            standing = readers.get(root, []) if root in self.scalars else [root]
            pairs += [(key, into) for into in standing]
        return pairs

    def _open(self, frames: Mapping[int | None, ScopeFrame]) -> Sequence[int]:
        """Return the boxes open at first; what came and went within a pass is not seen at once."""
        contents: dict[int | None, BoxContents[int]] = {}
        changed = {e.key for e in self.entries.all if e.status in ("added", "removed", "rewired")}
        gone = {e.key for e in self.entries.all if e.status in ("removed", "passing")}
        passing = {e.key for e in self.entries.all if e.status == "passing"}
        for box, frame in frames.items():
            things = frame.inside.things
            own = [entry.key for id in things if (entry := self.things[id].entry) is not None]
            inside = self.scopes[box].inside if box is not None else ()
            contents[box] = BoxContents(
                [id for id in things if id in frames],
                len(own) - len(passing.intersection(own)),
                len(own) - len(gone.intersection(own)),
                len(changed.intersection(inside)),
                len(inside),
                len(inside) - len(gone.intersection(inside)),
                box in self.members,
            )
        return first_open(contents)

    def _path(self, box: int | None) -> str:
        opened_box = None if box is None else self.things[box].box
        return "" if opened_box is None else opened_box.path

    def _names(self, inside: Inside) -> list[Name | None]:
        return [None if isinstance(ref, Port) else self.things[ref].name for ref in inside.refs]

    def _paths(self) -> Iterator[Path]:
        words: dict[tuple[str, ...], str] = {(): ""}
        ids, known, is_pair = self.ids, self.known, self.is_pair
        for key, roots in self.reads.items():
            entry = known[key]
            for direct, root in zip(entry.sources, roots, strict=True):
                if root not in ids:
                    continue  # a scalar; broken graphs are shown too
                views = () if direct == root else views_between(known, direct, root)
                if views not in words:
                    words[views] = words_of(views)
                status = status_between(entry, direct) if is_pair else ""
                status = "" if status == "kept" else status
                yield Path(ids[root], ids[key], root, status, words[views])

    def _rooms(self, borders: Borders) -> Mapping[int, float]:
        """Return the room that labels of incoming wires need at each thing."""
        rooms: dict[int, float] = {}
        for inside in borders.inside.values():
            for piece in inside.pieces:
                id = piece.target
                if not isinstance(id, Port):
                    rooms[id] = rooms.get(id, 0.0) + room_at(words_width(piece.words))
        return rooms

    def _contents(self, inside: Inside, rooms: Mapping[int, float]) -> Contents:
        blocks = [
            PlacedBlock(0.0, 0.0, ref.side)
            if isinstance(ref, Port)
            else self._block(self.things[ref], rooms.get(ref, 0.0))
            for ref in inside.refs
        ]
        wires: list[Wire] = []
        said: dict[tuple[int, int, str], str] = {}
        for piece in inside.pieces:
            source, target, status = *ends_of(inside, piece), piece.status
            # Wires with different labels stay apart; others run together.
            if said.setdefault((source, target, status), piece.words) != piece.words:
                status += piece.words
            wires.append(Wire(source, target, None, None, words_width(piece.words), status))
        return tuple(blocks), tuple(wires)

    def _block(self, thing: Thing, room: float) -> PlacedBlock:
        if thing.box is not None:
            return PlacedBlock(*size_of_box(thing.box), opens=True)
        assert thing.entry is not None
        node = thing.entry.node
        name, type = node.meta.name or self.rows.number, self.rows.type_text(node)
        label, status = self.rows.longest[node.id], thing.entry.status
        return _node_block(label, name, type, thing.kind, thing.marks, status, room)


@lru_cache(maxsize=4096)
def _node_block(
    label: str,
    name: str,
    type: str,
    kind: Kind,
    marks: tuple[Mark, ...],
    status: Status,
    room: float,
) -> PlacedBlock:
    """Return the block of a node, cached because equal layers have equal blocks."""
    item = Item(0, 0, name, "", label, type, kind, marks, status=status)
    return PlacedBlock(*size_of_item(item, shapes=True, labels=room))


def ends_of(inside: Inside, piece: LinkPiece) -> tuple[int, int]:
    """Return the indices of a piece's two ends among its frame's things and ports."""
    return inside.refs[piece.source], inside.refs[piece.target]


class _Before:
    """The frames of the previous view, by the paths of their boxes."""

    def __init__(self, view: GraphView | None, layouts: Layouts) -> None:
        self.view = view
        self.layouts = layouts
        self.frames: dict[str, ScopeFrame] = {}
        for box, frame in view.frames.items() if view is not None else ():
            path = None if box is None or view is None else view.things[box].box
            self.frames["" if path is None else path.path] = frame

    def layout(self, path: str, contents: Contents) -> int | None:
        """Return the layout that a frame with these contents had."""
        frame = self.frames.get(path)
        return frame.layout if frame is not None and frame.contents == contents else None

    def hints(self, path: str, names: Sequence[Name | None]) -> Hints:
        """Return the previous horizontal centres of a frame's things."""
        frame = self.frames.get(path)
        if frame is None or self.view is None:
            return ()
        positions = self.layouts.all[frame.layout].places
        centres: dict[Name | None, float] = {}
        for ref, index in frame.inside.refs.items():
            if not isinstance(ref, Port):
                width = frame.contents[0][index].width
                centres[self.view.things[ref].name] = round(positions[index][0] + width / 2, 1)
        return tuple([None if name is None else centres.get(name) for name in names])
