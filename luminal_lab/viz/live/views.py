"""A view as columns: the position of each thing in its frame, and the course of each wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Protocol

from luminal_lab.viz.borders import LinkPiece, Port
from luminal_lab.viz.live.columns import Columns
from luminal_lab.viz.live.frames import GraphView, ScopeFrame, ends_of
from luminal_lab.viz.live.layouts import Flat, Layouts
from luminal_lab.viz.live.sides import ABSENT, PassSide, side_layouts
from luminal_lab.viz.payload import Box, Mark

STATUSES: Mapping[str, int] = {
    "": 0, "kept": 0, "added": 1, "removed": 2, "rewired": 3, "passing": 4
}  # fmt: skip
MARKS: Mapping[Mark, int] = {"retrieved": 1, "kept": 2, "recomputed": 4, "unused": 8, "left": 16}


class RowsOfEntries(Protocol):
    """A lookup from entries to rows."""

    def now(self, key: int) -> int:
        """Return the visible row."""
        ...

    def old(self, key: int) -> int:
        """Return the previous row if it differs, else -1."""
        ...


def put_view(
    columns: Columns, prefix: str, view: GraphView, layouts: Layouts, rows: RowsOfEntries
) -> dict[str, Any]:
    """Write a view, and return its entry for the header."""
    frames = list(view.frames.values())
    own = [frame.layout for frame in frames]
    sides = _sides(view, layouts)
    used = list(dict.fromkeys([*own, *(layout for side in sides.values() for layout in side)]))
    place = {layout: at for at, layout in enumerate(used)}
    _put_frames(columns, prefix, view, place)
    for side, chosen in sides.items():
        columns.put(f"{prefix}frame.{side}", "u32", [place[layout] for layout in chosen])
    _put_things(columns, prefix, view, rows)
    _put_wires(columns, prefix, frames, rows)
    _put_layouts(columns, prefix, [layouts.flat[layout] for layout in used])
    folded = [(rows.now(key), rows.now(into)) for key, into in view.folded]
    folded += [(old, rows.now(into)) for key, into in view.folded if (old := rows.old(key)) >= 0]
    columns.put(f"{prefix}folded.row", "u32", [row for row, _ in folded])
    columns.put(f"{prefix}folded.into", "u32", [into for _, into in folded])
    boxes = [thing.box for thing in view.things if thing.box is not None]
    return {
        "frames": len(frames),
        "things": len(view.things),
        "layouts": len(used),
        "boxes": [_box(box) for box in boxes],
        "shown": view.shown,
        "open": [box.path for id in view.open if (box := view.things[id].box) is not None],
    }


def _sides(view: GraphView, layouts: Layouts) -> Mapping[PassSide, list[int]]:
    """Return the layouts of the graphs before and after a pass, if the view is of both."""
    if not any(thing.entry is not None and thing.entry.status for thing in view.things):
        return {}
    return {side: side_layouts(view, layouts, side) for side in ABSENT}


def _box(box: Box) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": box.name,
        "path": box.path,
        "nodes": box.nodes,
        "times": box.times,
        "members": box.members,
    }
    changes = {"added": box.added, "removed": box.removed, "rewired": box.rewired}
    return entry | {name: count for name, count in changes.items() if count}


def _put_frames(columns: Columns, prefix: str, view: GraphView, layouts: Mapping[int, int]) -> None:
    frames = view.frames.values()
    order = [id for frame in frames for id in frame.inside.things]
    position = {id: at for at, id in enumerate(order)}
    number = {box: at for at, box in enumerate(view.frames)}
    insides = [frame.inside for frame in frames]
    put = columns.put
    put(f"{prefix}frame.layout", "u32", [layouts[frame.layout] for frame in frames])
    put(f"{prefix}frame.box", "i32", [-1 if box is None else position[box] for box in view.frames])
    put(f"{prefix}frame.thing_at", "u32", offsets(len(inside.things) for inside in insides))
    put(f"{prefix}frame.wire_at", "u32", offsets(len(inside.pieces) for inside in insides))
    put(
        f"{prefix}frame.port_at",
        "u32",
        offsets(len(inside.refs) - len(inside.things) for inside in insides),
    )
    put(f"{prefix}thing.opens", "i32", [number.get(id, -1) for id in order])
    home = [at for at, inside in enumerate(insides) for _ in inside.things]
    put(f"{prefix}thing.frame", "u32", home)


def _put_things(columns: Columns, prefix: str, view: GraphView, rows: RowsOfEntries) -> None:
    things = [view.things[id] for frame in view.frames.values() for id in frame.inside.things]
    boxes = [thing.box.id for thing in view.things if thing.box is not None]
    number = {id: at for at, id in enumerate(boxes)}
    entries = [thing.entry for thing in things]
    put = columns.put
    now = [-1 if entry is None else rows.now(entry.key) for entry in entries]
    put(f"{prefix}thing.row", "i32", now)
    put(
        f"{prefix}thing.old",
        "i32",
        [-1 if entry is None else rows.old(entry.key) for entry in entries],
    )
    own = [-1 if thing.box is None else number[thing.box.id] for thing in things]
    put(f"{prefix}thing.box", "i32", own)
    marks = [sum(MARKS[mark] for mark in thing.marks) if thing.marks else 0 for thing in things]
    put(f"{prefix}thing.marks", "u8", marks)
    statuses = [0 if entry is None else STATUSES[entry.status] for entry in entries]
    put(f"{prefix}thing.status", "u8", statuses)


def _put_wires(
    columns: Columns, prefix: str, frames: Iterable[ScopeFrame], rows: RowsOfEntries
) -> None:
    sources: list[int] = []
    targets: list[int] = []
    pieces: list[LinkPiece] = []
    counts: list[int] = []
    ports: list[Port] = []
    for frame in frames:
        inside = frame.inside
        count = len(inside.things)  # ports come behind them
        for piece, links in inside.pieces.items():
            source, target = ends_of(inside, piece)
            sources.append(source if source < count else count - 1 - source)
            targets.append(target if target < count else count - 1 - target)
            pieces.append(piece)
            counts.append(len(links))
        ports += [ref for ref in inside.refs if isinstance(ref, Port)]
    sides = [int(port.side == "bottom") for port in ports]
    put = columns.put
    put(f"{prefix}wire.source", "i32", sources)
    put(f"{prefix}wire.target", "i32", targets)
    put(f"{prefix}wire.carried", "u32", [rows.now(piece.carried) for piece in pieces])
    put(f"{prefix}wire.status", "u8", [STATUSES[piece.status] for piece in pieces])
    put(f"{prefix}wire.label", "u32", columns.texts(piece.words for piece in pieces))
    put(f"{prefix}wire.count", "u32", counts)
    put(f"{prefix}port.side", "u8", sides)
    put(f"{prefix}port.row", "u32", [rows.now(port.carried) for port in ports])
    put(f"{prefix}port.status", "u8", [STATUSES[port.status] for port in ports])


def _put_layouts(columns: Columns, prefix: str, layouts: Sequence[Flat]) -> None:
    put = columns.put
    put(f"{prefix}layout.size", "f32", [number for layout in layouts for number in layout.size])
    put(f"{prefix}layout.thing_at", "u32", offsets(len(layout.things) // 4 for layout in layouts))
    put(f"{prefix}layout.wire_at", "u32", offsets(len(layout.lengths) for layout in layouts))
    put(f"{prefix}layout.port_at", "u32", offsets(len(layout.ports) for layout in layouts))
    put(f"{prefix}layout.rect", "f32", [number for layout in layouts for number in layout.things])
    put(f"{prefix}layout.port", "f32", [number for layout in layouts for number in layout.ports])
    lengths = [length for layout in layouts for length in layout.lengths]
    put(f"{prefix}layout.course_at", "u32", offsets(lengths))
    put(
        f"{prefix}layout.course", "f32", [number for layout in layouts for number in layout.courses]
    )


def offsets(counts: Iterable[int]) -> list[int]:
    """Return where parts of these sizes begin, and where the last one ends.

    >>> offsets([2, 0, 3])
    [0, 2, 2, 5]
    """
    return [0, *accumulate(counts)]
