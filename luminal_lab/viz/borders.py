"""Links cut at the borders of boxes: what each box holds, and through which ports.

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
    """Where links go through a border: at which side, whose value they carry, what became of it."""

    side: Literal["top", "bottom"]
    carried: int
    status: str


Ref: TypeAlias = int | Port
"""A thing by its id, or a port."""


class Piece(NamedTuple):
    """A link within one box: from where to where, whose value it carries, what became of it."""

    source: Ref
    target: Ref
    carried: int
    status: str
    words: str = ""
    """What it says at its end, if that tells it from others."""


class Path(NamedTuple):
    """A link to be cut: from one thing to another, what it carries, and what it says."""

    source: int
    target: int
    carried: int
    status: str
    words: str = ""


Way: TypeAlias = list[tuple[int | None, Piece]]
"""The pieces of a link, each with the box that it is in."""


@dataclass
class Inside:
    """What is in a box, or in none."""

    things: list[int]
    pieces: dict[Piece, list[int]] = field(default_factory=dict[Piece, "list[int]"])
    """With the links that they are pieces of."""
    refs: dict[Ref, int] = field(default_factory=dict[Ref, int])
    """The place of each thing and port among what is placed."""
    upward: set[Piece] = field(default_factory=set[Piece])
    """The pieces that go up."""


class Borders:
    """Things in boxes in boxes, and the links between them, cut."""

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
        """Return the boxes that a place is in, outer ones first."""
        if box is not None and box not in self._above:
            self._above[box] = (*self._path(self.homes[box]), box)
        return self._above[box]

    def _way(self, link: Path) -> Way:
        """Cut a link where it goes out of a box, by its lower border, or in, by its upper one."""
        source, target, carried, status, words = link
        home = self.homes[source]
        if home == self.homes[target]:
            return [(home, Piece(source, target, carried, status, words))]
        start, end = self._path(home), self._path(self.homes[target])
        same = 0
        while same < min(len(start), len(end)) and start[same] == end[same]:
            same += 1
        found: Way = []
        at: Ref = source
        below, above = Port("bottom", carried, status), Port("top", carried, status)
        for box in reversed(start[same:]):
            found.append((box, Piece(at, below, carried, status)))
            at = box
        inner = end[same - 1] if same else None
        for box in end[same:]:
            found.append((inner, Piece(at, box, carried, status)))
            at, inner = above, box
        found.append((inner, Piece(at, target, carried, status, words)))
        return found

    def _cut(self) -> None:
        """Give each box its pieces, outer boxes first."""
        at_box: dict[int | None, list[tuple[int, int]]] = {box: [] for box in self.order}
        for link, way in enumerate(self.ways):
            for place, (box, _) in enumerate(way):
                at_box[box].append((link, place))
        for box in self.order:
            one = self.inside[box]
            pieces = one.pieces
            for link, place in at_box[box]:
                pieces.setdefault(self.ways[link][place][1], []).append(link)
            ports = [ref for piece in pieces for ref in piece[:2] if isinstance(ref, Port)]
            one.refs = {ref: at for at, ref in enumerate(dict.fromkeys([*one.things, *ports]))}
            sides: list[Side] = [ref.side if isinstance(ref, Port) else "" for ref in one.refs]
            ends = [(one.refs[piece.source], one.refs[piece.target]) for piece in pieces]
            _, is_up = downward(sides, ends)
            if not any(is_up):
                continue
            one.upward = {piece for piece, up in zip(pieces, is_up, strict=True) if up}
            for link, place in at_box[box]:
                if self.ways[link][place][1] in one.upward:
                    self._turn(self.ways[link], place)

    def _turn(self, way: Way, place: int) -> None:
        """Let a link leave the box before a piece above, and come into the one behind below."""
        piece = way[place][1]
        if place and not isinstance(piece.source, Port):
            inner, before = way[place - 1]
            way[place - 1] = inner, before._replace(target=Port("top", *piece[2:4]))
        if place + 1 < len(way) and not isinstance(piece.target, Port):
            inner, behind = way[place + 1]
            way[place + 1] = inner, behind._replace(source=Port("bottom", *piece[2:4]))
