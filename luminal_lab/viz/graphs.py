"""Pictures of graphs: of one, and of two as their union, where shared nodes keep their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from luminal_lab.core.ir import IR
from luminal_lab.core.ops import Constant
from luminal_lab.display import Engine, Theme
from luminal_lab.errors import ArgumentError, flag, whole_number
from luminal_lab.passes.collector import uncollected
from luminal_lab.passes.diff import Diff
from luminal_lab.tensor.arguments import told_object
from luminal_lab.viz import exports, overlays
from luminal_lab.viz.entries import GraphEntries, entries_of, union_of
from luminal_lab.viz.folding import payload_of
from luminal_lab.viz.layout import Name, PictureLayout, centres, layout as find_places
from luminal_lab.viz.payload import Box, Payload, PictureRequest
from luminal_lab.viz.picture import Picture
from luminal_lab.viz.selection import Selection, chosen
from luminal_lab.viz.svg import Drawing, drawing

if TYPE_CHECKING:
    from luminal_lab.viz.exports import Digraph


@told_object("picture")
@dataclass(frozen=True, repr=False)
class GraphPicture(Picture):
    """A picture of a graph, with its payload and exports for other tools."""

    payload: Payload
    where: PictureLayout

    def to_dot(self) -> Digraph:
        """Return the graph as shown, for the `graphviz` package."""
        return exports.to_dot(self.payload)

    def to_mermaid(self) -> str:
        """Return the graph as shown, as Mermaid text, which GitHub draws."""
        return exports.to_mermaid(self.payload)

    def to_model_explorer(self) -> dict[str, Any]:
        """Return the graph as shown, as Model Explorer's graph JSON."""
        return exports.to_model_explorer(self.payload)

    def to_node_data(self) -> dict[str, Any]:
        """Return the overlay as Model Explorer's node data JSON."""
        return overlays.to_node_data(self.payload)


@uncollected
def graph_picture(
    graph: IR | Diff,
    *,
    show_shapes: bool = True,
    show_views: bool = False,
    depth: int | None = None,
    select: Selection | None = None,
    highlight: Selection = (),
    overlay: overlays.Overlaid | None = None,
    theme: Theme = "auto",
    layout: Engine = "layered",
    note: str = "",
    known: PictureRequest | None = None,
) -> GraphPicture:
    """Return a picture of a graph, or of the difference of two."""
    entries = entries_of(graph) if isinstance(graph, IR) else union_of(graph)
    asked = wanted(entries, known or PictureRequest(), show_views, depth, select, highlight)
    payload = replace(payload_of(entries, asked), note=note)
    if overlay is not None:
        payload = overlays.with_overlay(payload, overlays.read(overlay))
    return drawn(payload, show_shapes=show_shapes, theme=theme, engine=layout)


def before_and_after(
    changes: Diff,
    *,
    show_shapes: bool = True,
    show_views: bool = False,
    depth: int | None = None,
    theme: Theme = "auto",
    layout: Engine = "layered",
) -> tuple[GraphPicture, GraphPicture]:
    """Return two pictures of equal size, with shared nodes in the same place."""
    entries = union_of(changes)
    whole = payload_of(entries, wanted(entries, PictureRequest(), show_views, depth, None, ()))
    flag("display: show_shapes", show_shapes)
    where = find_places(whole, layout, shapes=show_shapes)

    def side_picture(note: str, hidden: str) -> GraphPicture:
        payload, places = without(replace(whole, note=note), where, hidden)
        side = changes.before if hidden == "added" else changes.after
        payload = _counted(payload, entries, hidden, len(side))
        image = drawing(payload, places, theme=theme, shapes=show_shapes)
        return GraphPicture(
            image.svg,
            image.text,
            image.width,
            image.height,
            payload,
            places,
        )

    return side_picture("before", "added"), side_picture("after", "removed")


def series(
    changes: Iterable[Diff],
    *,
    show_shapes: bool = True,
    show_views: bool = False,
    depth: int | None = None,
    theme: Theme = "auto",
) -> Iterator[GraphPicture]:
    """Yield a picture of each diff in a row, each as similar to the previous one as possible."""
    hints: dict[Name, float] = {}
    for change in changes:
        entries = union_of(change)
        payload = payload_of(
            entries, wanted(entries, PictureRequest(), show_views, depth, None, ())
        )
        where = find_places(payload, shapes=show_shapes, hints=hints)
        hints = centres(payload, where)
        image = drawing(payload, where, theme=theme, shapes=show_shapes)
        yield GraphPicture(
            image.svg,
            image.text,
            image.width,
            image.height,
            payload,
            where,
        )


def without(payload: Payload, where: PictureLayout, hidden: str) -> tuple[Payload, PictureLayout]:
    """Return a payload without added, or removed, nodes; the rest keeps its place."""
    gone = {item.id for item in payload.items if item.status == hidden}
    links = [
        at
        for at, link in enumerate(payload.links)
        if link.status != hidden and link.source not in gone and link.target not in gone
    ]
    left = replace(
        payload,
        items=tuple(item for item in payload.items if item.id not in gone),
        boxes=tuple(_box_without(box, hidden) for box in payload.boxes),
        links=tuple(payload.links[at] for at in links),
        total=payload.total - len(gone),
    )
    return left, replace(
        where,
        courses=tuple(where.courses[at] for at in links),
        labels=tuple(where.labels[at] for at in links),
    )


def _box_without(box: Box, hidden: str) -> Box:
    """Return a box that counts only what is in one graph."""
    nodes = box.nodes - (box.added if hidden == "added" else box.removed)
    return (
        replace(box, nodes=nodes, added=0)
        if hidden == "added"
        else replace(box, nodes=nodes, removed=0)
    )


def _counted(payload: Payload, entries: GraphEntries, hidden: str, total: int) -> Payload:
    """Return a side of a pair with counts of what it hides, which is its own alone."""
    scalars = payload.scalars - sum(
        entry.status == hidden and isinstance(entry.node.op, Constant) for entry in entries.all
    )
    closed = sum(box.nodes for box in payload.boxes if not box.is_open)
    repeated = sum((box.times - 1) * box.nodes for box in payload.boxes)
    rest = total - len(payload.items) - payload.folded - scalars - closed - repeated
    counts = {"total": total, "scalars": scalars, "closed": closed, "repeated": repeated}
    return replace(payload, **counts, left_out=max(0, rest))


def wanted(
    entries: GraphEntries,
    known: PictureRequest,
    views: bool,
    depth: int | None,
    select: Selection | None,
    highlight: Selection,
) -> PictureRequest:
    """Return the request for a picture, with the keys of selected and highlighted nodes."""
    if depth is not None and (whole_number(depth) is None or depth < 0):
        raise ArgumentError(
            f"display: the depth is {depth!r}", hint="give a whole number, 0 closes all scopes"
        )
    lit = chosen("display", entries, highlight)
    asked = replace(known, views=views, depth=depth, highlight=lit.keys, named=lit.named)
    if select is None:
        return asked
    selection = chosen("display", entries, select)
    return replace(asked, select=selection.keys, named=lit.named | selection.named)


def drawn(
    payload: Payload, *, show_shapes: bool = True, theme: Theme = "auto", engine: Engine = "layered"
) -> GraphPicture:
    """Return the picture of a payload."""
    flag("display: show_shapes", show_shapes)
    where = find_places(payload, engine, shapes=show_shapes)
    image: Drawing = drawing(payload, where, theme=theme, shapes=show_shapes)
    return GraphPicture(image.svg, image.text, image.width, image.height, payload, where)
