"""The graph before a pass and the one after it, each laid out for itself in the frames of both.

A union of two graphs has a place for all that either has. Each graph alone has layouts of its own
for the frames that changed, over the same things, ports and wires, so that whatever both have
moves from one to the other; what a graph lacks has no size there, and no course.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from luminal_lab.viz.borders import Port
from luminal_lab.viz.live.frames import GraphView, ScopeFrame, ends_of
from luminal_lab.viz.live.layouts import Layouts, Part

PassSide: TypeAlias = Literal["before", "after"]
ABSENT: Mapping[PassSide, frozenset[str]] = {
    "before": frozenset({"added", "passing"}),
    "after": frozenset({"removed", "passing"}),
}


def side_layouts(view: GraphView, layouts: Layouts, side: PassSide) -> list[int]:
    """Return the layout of each frame with only what one side of a pass has."""
    there = _present(view, ABSENT[side])
    return [_layout(frame, there, layouts, ABSENT[side]) for frame in view.frames.values()]


def _present(view: GraphView, absent: frozenset[str]) -> set[int]:
    """Return the things that a side has: its nodes, and boxes with any in them."""
    there = {
        id
        for id, thing in enumerate(view.things)
        if thing.entry is not None and thing.entry.status not in absent
    }
    # Outer frames come first.
    for box, frame in reversed(list(view.frames.items())):
        if box is not None and not there.isdisjoint(frame.inside.things):
            there.add(box)
    return there


def _layout(frame: ScopeFrame, there: set[int], layouts: Layouts, absent: frozenset[str]) -> int:
    inside, (blocks, wires) = frame.inside, frame.contents
    kept: list[int] = []
    used: set[int] = set()
    for number, piece in enumerate(inside.pieces):
        ends = piece.source, piece.target
        if piece.status not in absent and all(isinstance(e, Port) or e in there for e in ends):
            kept.append(number)
            used.update(ends_of(inside, piece))
    standing = [
        index
        for ref, index in inside.refs.items()
        if (index in used if isinstance(ref, Port) else ref in there)
    ]
    if len(standing) == len(blocks) and len(kept) == len(wires):
        return frame.layout
    return layouts.part(frame.layout, frame.contents, Part(tuple(standing), tuple(kept)))
