"""The sizes of nodes and boxes, from their texts and our own table of widths."""

from __future__ import annotations

from collections.abc import Iterable

from luminal_lab.viz.metrics import shortened, text_width
from luminal_lab.viz.payload import Box, Item, Link

LABEL_SIZE, NAME_SIZE, TYPE_SIZE, VIEW_SIZE, TITLE_SIZE = 12.5, 10.0, 10.5, 9.5, 12.0
WORD_SIZE = 16.0
"""The size of a label in a zoomed-out live picture, where it stands alone."""
PAD = 12.0
MARK = 15.0
"""The width of a mark after the label."""
TOP, SIDE, BOTTOM = 30.0, 14.0, 14.0
"""The margins inside an open box; its title is in the upper one."""
LONGEST_TYPE = 44
MARKS = {"retrieved": "", "kept": "◆", "recomputed": "↻", "unused": "∅", "left": "∅"}
CHANGES = {"added": "+", "removed": "−", "rewired": "~"}


def name_of(item: Item) -> str:
    """Return the name shown after a node's label, or nothing if it is the label."""
    if item.kind in ("input", "parameter", "constant", "outside"):
        return ""
    return f"%{shortened(item.name, 28)}"


def type_of(item: Item, shapes: bool) -> str:
    """Return the line below the label: the type, the overlay's text, or nothing."""
    if item.value:
        return item.value
    if not shapes or item.kind in ("constant", "outside"):
        return ""
    return shortened(item.type, LONGEST_TYPE)


def marks_of(item: Item) -> str:
    """Return the signs of a node's marks and status."""
    status = CHANGES.get(item.status, "")
    if not item.marks:
        return status
    marks = [m for m in item.marks if m not in ("unused", "left") or item.status != "removed"]
    return status + "".join([MARKS[mark] for mark in marks])


def size_of_item(item: Item, shapes: bool, labels: float) -> tuple[float, float]:
    """Return a node's width and height; incoming edges need room for their labels."""
    name = name_of(item)
    first = text_width(item.label, LABEL_SIZE)
    first += text_width(name, NAME_SIZE) + 6 if name else 0.0
    first += MARK * len(marks_of(item))
    below = type_of(item, shapes)
    second = text_width(below, TYPE_SIZE)
    width = max(first, second, labels - 2 * PAD + 20, 14.0) + 2 * PAD
    width = max(width, alone(item.label, len(marks_of(item))))
    width += 12 if item.kind in ("parameter", "reduce", "input") else 0
    height = 40.0 if below else 24.0
    return float(round(width)), height


def alone(label: str, marks: int = 0) -> float:
    """Return the room of a label that stands alone in larger letters, with its marks."""
    return text_width(label, WORD_SIZE) + marks * MARK * WORD_SIZE / LABEL_SIZE + PAD


def title_of(box: Box) -> str:
    """Return the title of a box."""
    times = f"  ×{box.times}" if box.times > 1 else ""
    return f"{shortened(box.name, 60)}{times}"


def below_title(box: Box) -> str:
    """Return the second line of a closed box: its number of nodes, and changes."""
    many = f"{box.nodes:,} node{'s' * (box.nodes != 1)}" + (" each" if box.times > 1 else "")
    signs = (("+", box.added), ("−", box.removed), ("~", box.rewired))
    changes = " ".join(f"{sign}{count}" for sign, count in signs if count)
    return f"{many}  {changes}" if changes else many


def size_of_box(box: Box) -> tuple[float, float]:
    """Return the width and height of a closed box."""
    title = text_width(title_of(box), LABEL_SIZE)
    width = max(title, text_width(below_title(box), TYPE_SIZE)) + 2 * PAD + 12
    return float(round(max(width, alone(title_of(box))))), 44.0


def label_of(link: Link) -> str:
    """Return an edge's label: the views folded into it."""
    return words_of(link.views)


def words_of(views: Iterable[str]) -> str:
    """Return the label of some folded views."""
    return shortened(" ".join(dict.fromkeys(views)), 44)


def together(labels: Iterable[str]) -> str:
    """Return the label of links that run in one line, each of which has its own."""
    return ", ".join(dict.fromkeys(filter(None, labels)))


def label_width(link: Link) -> float:
    """Return the width of an edge's label."""
    return words_width(label_of(link))


def words_width(words: str) -> float:
    """Return the width of a label, given in words."""
    return round(text_width(words, VIEW_SIZE) + 5, 1) if words else 0.0


def room_at(width: float) -> float:
    """Return the room that an edge with a label of this width takes at its target."""
    return width + 10 if width else 8.0
