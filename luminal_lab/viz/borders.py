"""Links cut at the borders of boxes: what each box holds, and its ports.

A link goes out of the boxes around its source by their lower borders and into those around its
target by their upper ones. What has to go up in a box leaves the boxes in it above, and comes in
from below.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from luminal_lab.viz.layers import Side, downward


class Port(NamedTuple):
    """Where links cross a border: the side, the id of the value they carry, and their status."""

    side: Literal["top", "bottom"]
    carried: int
    status: str


Ref: TypeAlias = int | Port
"""A thing by its id, or a port."""


class LinkPiece(NamedTuple):
    """A link within one box: its ends, the id of the value it carries, and its status."""

    source: Ref
    target: Ref
    carried: int
    status: str
    words: str = ""
    """The label at its end, if that tells it from others."""


class Path(NamedTuple):
    """A link to be cut: its ends, the value it carries, its status and its label."""

    source: int
    target: int
    carried: int
    status: str
    words: str = ""


Way: TypeAlias = list[tuple[int | None, LinkPiece]]
"""The pieces of a link, each with its box."""


@dataclass
class Inside:
    """The contents of a box, or of the outermost level."""

    things: list[int]
    pieces: dict[LinkPiece, list[int]] = field(default_factory=dict[LinkPiece, "list[int]"])
    """By piece, the links that it belongs to."""
    refs: dict[Ref, int] = field(default_factory=dict[Ref, int])
    """The index of each thing and port in the layout."""
    upward: set[LinkPiece] = field(default_factory=set[LinkPiece])
    """The pieces that go up."""


class Borders:
    """Things in nested boxes, and the cut links between them."""

    def __init__(
        self, homes: Sequence[int | None], boxes: Iterable[int], links: Iterable[Path]
    ) -> None:
        self.homes = homes
        self.inside: dict[int | None, Inside] = {None: Inside([])}
        self.inside.update((box, Inside([])) for box in boxes)
        for id, home in enumerate(homes):
            self.inside[home].things.append(id)
        self._above: dict[int | None, tuple[int, ...]] = {None: ()}
        self.order = sorted(self.inside, key=lambda box: len(self._path(box)))
        """All boxes, outer ones first."""
        self.ways = [self._way(link) for link in links]
        """The pieces of each link."""
        self._cut()

    def _path(self, box: int | None) -> tuple[int, ...]:
        """Return the boxes around a thing, outer ones first."""
        if box is not None and box not in self._above:
            self._above[box] = (*self._path(self.homes[box]), box)
        return self._above[box]

    def _way(self, link: Path) -> Way:
        """Cut a link at borders: it leaves a box by the lower one and enters by the upper one."""
        source, target, carried, status, words = link
        home = self.homes[source]
        if home == self.homes[target]:
            return [(home, LinkPiece(source, target, carried, status, words))]
        start, end = self._path(home), self._path(self.homes[target])
        same = 0
        while same < min(len(start), len(end)) and start[same] == end[same]:
            same += 1
        pieces: Way = []
        at: Ref = source
        below, above = Port("bottom", carried, status), Port("top", carried, status)
        for box in reversed(start[same:]):
            pieces.append((box, LinkPiece(at, below, carried, status)))
            at = box
        inner = end[same - 1] if same else None
        for box in end[same:]:
            pieces.append((inner, LinkPiece(at, box, carried, status)))
            at, inner = above, box
        pieces.append((inner, LinkPiece(at, target, carried, status, words)))
        return pieces

    def _cut(self) -> None:
        """Give each box its pieces, outer boxes first."""
        at_box: dict[int | None, list[tuple[int, int]]] = {box: [] for box in self.order}
        for link, way in enumerate(self.ways):
            for position, (box, _) in enumerate(way):
                at_box[box].append((link, position))
        for box in self.order:
            box_contents = self.inside[box]
            pieces = box_contents.pieces
            for link, position in at_box[box]:
                pieces.setdefault(self.ways[link][position][1], []).append(link)
            ports = [ref for piece in pieces for ref in piece[:2] if isinstance(ref, Port)]
            box_contents.refs = {
                ref: at for at, ref in enumerate(dict.fromkeys([*box_contents.things, *ports]))
            }
            sides: list[Side] = [
                ref.side if isinstance(ref, Port) else "" for ref in box_contents.refs
            ]
            ends = [
                (box_contents.refs[piece.source], box_contents.refs[piece.target])
                for piece in pieces
            ]
            _, is_up = downward(sides, ends)
            if not any(is_up):
                continue
            box_contents.upward = {piece for piece, up in zip(pieces, is_up, strict=True) if up}
            for link, position in at_box[box]:
                if self.ways[link][position][1] in box_contents.upward:
                    self._turn(self.ways[link], position)

    def _turn(self, way: Way, position: int) -> None:
        """Let a link leave the previous box at the top and enter the next one at the bottom."""
        piece = way[position][1]
        if position and not isinstance(piece.source, Port):
            inner, before = way[position - 1]
            way[position - 1] = inner, before._replace(target=Port("top", *piece[2:4]))
        if position + 1 < len(way) and not isinstance(piece.target, Port):
            inner, behind = way[position + 1]
            way[position + 1] = inner, behind._replace(source=Port("bottom", *piece[2:4]))
