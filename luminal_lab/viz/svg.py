"""A payload and its layout as SVG: no script, light and dark, with a tooltip on everything.

Equal payloads in equal layouts make equal bytes.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from luminal_lab.display import Theme
from luminal_lab.viz.courses import Stroke
from luminal_lab.viz.layout import PictureLayout, Rectangle
from luminal_lab.viz.markup import course, number, plain, rows, written
from luminal_lab.viz.metrics import shortened, text_width
from luminal_lab.viz.payload import Box, Item, Payload
from luminal_lab.viz.shapes import WORDS, outline
from luminal_lab.viz.sizes import (
    LABEL_SIZE,
    NAME_SIZE,
    TITLE_SIZE,
    TYPE_SIZE,
    VIEW_SIZE,
    below_title,
    label_of,
    marks_of,
    name_of,
    title_of,
    together,
    type_of,
)
from luminal_lab.viz.theme import style_sheet

MARGIN = 14.0
LEAST = 300.0
"""The least width, so that the legend has room."""
LINE = 17.0
MARKS = {
    "retrieved": "double outline: retrieved",
    "kept": "◆ kept",
    "recomputed": "↻ computed again",
    "unused": "∅ used by no result",
}
CLASSES = re.compile(r' class="([^"]*)"')
STATUS = {"added": "+ added", "removed": "− removed", "rewired": "~ reads other nodes"}


class Drawing(NamedTuple):
    """An SVG, its description, and its size."""

    svg: str
    text: str
    width: float
    height: float


def drawing(
    payload: Payload, where: PictureLayout, *, theme: Theme = "auto", shapes: bool = True
) -> Drawing:
    """Return a picture of a graph."""
    parts = [*_open_boxes(payload, where), *_rings(payload, where), *_edges(payload, where)]
    parts += _titles(payload, where)
    parts += [_closed_box(box, where.places[box.id]) for box in payload.boxes if not box.is_open]
    parts += [_node(item, where.places[item.id], shapes) for item in payload.items]
    width = max(where.width, LEAST)
    below, height = _legend(payload, where.height + 12, width)
    shift = f"translate({number(MARGIN)} {number(MARGIN)})"
    inner = f'<g transform="{shift}">{"".join(parts)}{below}</g>'
    width, height, text = width + 2 * MARGIN, height + 2 * MARGIN, alt_of(payload)
    return Drawing(framed(inner, width, height, theme, text), text, width, height)


def framed(inner: str, width: float, height: float, theme: Theme, title: str) -> str:
    """Return a complete SVG around its contents, with a background."""
    used = {"g"}.union(*[names.split() for names in CLASSES.findall(inner)])
    size = f'width="{number(width)}" height="{number(height)}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
        f'viewBox="0 0 {number(width)} {number(height)}" role="img" class="ll-{theme}" '
        f'aria-label="{plain(title)}"><title>{plain(title)}</title>'
        f"<style>{style_sheet(theme, used)}</style>"
        f'<rect class="g" {size} rx="6"/>{inner}</svg>'
    )


def alt_of(payload: Payload) -> str:
    """Return a picture in words: how much of the graph, its inputs and its results."""
    inputs = [item.name for item in payload.items if item.kind == "input"]
    results = [f"%{item.name}" for item in payload.items if "retrieved" in item.marks]
    many = Counter(item.op.split("{")[0] for item in payload.items if item.kind != "outside")
    ops = [
        f"{count} {op}"
        for op, count in sorted(many.items(), key=lambda entry: (-entry[1], entry[0]))
    ]
    parts = [
        f"Graph {payload.title}: {payload.shown}.",
        f"Inputs: {_listed(inputs)}." if inputs else "",
        f"Results: {_listed(results)}." if results else "",
        f"Shown: {_listed(ops, 8)}." if ops else "",
    ]
    if payload.is_pair:
        parts.append(
            f"{payload.added} added, {payload.removed} removed, {payload.rewired} rewired."
        )
    return " ".join(filter(None, parts))


def _listed(words: list[str], most: int = 6) -> str:
    rest = len(words) - most
    return ", ".join(words[:most]) + (f" and {rest} more" if rest > 0 else "")


# -- nodes and boxes -------------------------------------------------------------------------------


def _node(item: Item, rectangle: Rectangle, shapes: bool) -> str:
    x, y, width, height = rectangle
    is_unused = "unused" in item.marks and item.status != "removed"
    classes = ["s", item.kind]
    classes += [item.status] if item.status not in ("", "kept") else []
    # A dotted outline is a view's, a broken one that of what is gone.
    if item.status == "removed":
        classes.append("d")
    elif item.kind in ("view", "outside"):
        classes.append("p")
    parts = [f"<title>{plain(tooltip(item))}</title>"]
    parts.append(f'<path class="{" ".join(classes)}" d="{outline(item.kind, *rectangle)}"/>')
    if "retrieved" in item.marks:
        double = outline(item.kind, x + 3, y + 3, width - 6, height - 6)
        parts.append(f'<path class="{" ".join(classes)}" d="{double}"/>')
    if item.heat is not None:
        share = max(0.0, min(1.0, item.heat)) * (width - 16)
        parts.append(
            f'<rect class="z" x="{number(x + 8)}" y="{number(y + height - 5)}" '
            f'width="{number(share)}" height="3"/>'
        )
    name, below, signs = name_of(item), type_of(item, shapes), marks_of(item)
    first = text_width(item.label, LABEL_SIZE) + 15 * len(signs)
    first += text_width(name, NAME_SIZE) + 6 if name else 0
    base = y + (16.5 if below else height / 2 + 4.5)
    at = x + (width - first) / 2
    gone = " removed x" if item.status == "removed" else ""
    if signs:
        kind = item.status if item.status not in ("", "kept") else ""
        parts.append(written(at, base, signs, LABEL_SIZE, f"b {kind}".strip()))
        at += 15 * len(signs)
    parts.append(written(at, base, item.label, LABEL_SIZE, f"b{gone}"))
    if name:
        at += text_width(item.label, LABEL_SIZE) + 6
        parts.append(written(at, base, name, NAME_SIZE, "i q"))
    if below:
        at = x + (width - text_width(below, TYPE_SIZE)) / 2
        parts.append(written(at, y + 31.5, below, TYPE_SIZE, "t q"))
    faint = ' class="f"' if is_unused and item.status == "" else ""
    return f"<g{faint}>{''.join(parts)}</g>"


def tooltip(item: Item) -> str:
    """Return a node's tooltip: all that is known of it, as lines."""
    lines = [f"%{item.name} = {item.op} : {item.type}"]
    lines += [f"{item.label}, a {WORDS[item.kind]}"] if item.kind in ("call", "launch") else []
    lines += [", ".join(item.marks)] if item.marks else []
    lines += [item.status] if item.status not in ("", "kept") else []
    lines += [f"scope {item.scope}"] if item.scope else []
    lines += [item.origin] if item.origin else []
    lines += [f"made by {item.rule}"] if item.rule else []
    return "\n".join([*lines, *([item.value] if item.value else [])])


def _open_boxes(payload: Payload, where: PictureLayout) -> Iterator[str]:
    for box in payload.boxes:
        if box.is_open:
            x, y, width, height = where.places[box.id]
            yield _stack(box, x, y, width, height, "o s")
            yield f"<g><title>{plain(_box_told(box))}</title>"
            yield f'<path class="o s" d="{outline("op", x, y, width, height)}"/></g>'


def _rings(payload: Payload, where: PictureLayout) -> Iterator[str]:
    """Yield the rings around highlighted things, under the edges into them."""
    for thing in (*payload.items, *payload.boxes):
        if thing.highlighted:
            x, y, width, height = where.places[thing.id]
            yield f'<path class="r" d="{outline("op", x - 4, y - 4, width + 8, height + 8)}"/>'


def _titles(payload: Payload, where: PictureLayout) -> Iterator[str]:
    """Yield the titles of open boxes, drawn over incoming edges."""
    for box in payload.boxes:
        if box.is_open:
            x, y, *_ = where.places[box.id]
            yield written(x + 10, y + 17, title_of(box), TITLE_SIZE, "b q h")


def _closed_box(box: Box, rectangle: Rectangle) -> str:
    x, y, width, height = rectangle
    changed = [name for name in STATUS if getattr(box, name)]
    title, below = title_of(box), below_title(box)
    parts = [
        f"<title>{plain(_box_told(box))}</title>",
        _stack(box, x, y, width, height, "s box"),
        f'<path class="s w box" d="{outline("op", *rectangle)}"/>',
        written(x + (width - text_width(title, LABEL_SIZE)) / 2, y + 18.5, title, LABEL_SIZE, "b"),
        written(
            x + (width - text_width(below, TYPE_SIZE)) / 2,
            y + 34.5,
            below,
            TYPE_SIZE,
            f"t {changed[0]}" if len(changed) == 1 else "t q",
        ),
    ]
    return f"<g>{''.join(parts)}</g>"


def _stack(box: Box, x: float, y: float, width: float, height: float, kind: str) -> str:
    """Return the sheets behind a box that stands for several scopes."""
    if box.times == 1:
        return ""
    return "".join(
        f'<path class="{kind}" d="{outline("op", x + at, y - at, width, height)}"/>'
        for at in (6, 3)
    )


def _box_told(box: Box) -> str:
    many = f"{box.nodes:,} nodes" + (" each" if box.times > 1 else "")
    lines = [f"scope {box.path}: {many}"]
    if box.times > 1:
        lines.append(f"{box.times} equal ones: {', '.join(box.members)}")
    return "\n".join(lines)


# -- edges -----------------------------------------------------------------------------------------


def _edges(payload: Payload, where: PictureLayout) -> Iterator[str]:
    tips: dict[str, dict[str, None]] = {}
    labels: dict[tuple[float, float], list[str]] = {}
    lines: dict[tuple[str, str], None] = {}
    for link, steps, at in zip(payload.links, where.courses, where.labels, strict=True):
        if not steps:
            continue
        status = link.status if link.status not in ("", "kept") else ""
        kind = f"e {status}".strip() + (" d" if status == "removed" else "")
        lines[kind, course(steps)] = None
        tips.setdefault(status, {})[_tip(steps)] = None
        if at is not None:
            labels.setdefault(at, []).append(label_of(link))
    for kind, data in lines:
        yield f'<path class="{kind}" d="{data}"/>'
    for status, arrows in tips.items():
        yield f'<path class="{f"a {status}".strip()}" d="{"".join(arrows)}"/>'
    for at, words in labels.items():
        yield written(*at, together(words), VIEW_SIZE, "v q h")


def _tip(steps: tuple[Stroke, ...]) -> str:
    """Return the arrow at the end of a course."""
    x, y = steps[-1][-2:]
    back = steps[-1][-4:-2] if len(steps[-1]) > 2 else steps[-2][-2:]
    away = math.hypot(x - back[0], y - back[1]) or 1.0
    across, down = (x - back[0]) / away, (y - back[1]) / away
    left = x - 7 * across + 3.5 * down, y - 7 * down - 3.5 * across
    right = -7 * down, 7 * across
    return f"M{number(x)} {number(y)}L{' '.join(map(number, left))}l{' '.join(map(number, right))}z"


# -- the legend ------------------------------------------------------------------------------------


def _legend(payload: Payload, y: float, width: float) -> tuple[str, float]:
    """Return the caption and legend below the picture, and where they end."""
    parts: list[str] = []
    caption = f"{shortened(payload.title, 60)}: {payload.shown}"
    for line in _wrapped(caption.split(" "), width):
        parts.append(written(0, y + 12, line, TYPE_SIZE, "t"))
        y += 15
    y += 4
    kinds = [kind for kind in WORDS if any(item.kind == kind for item in payload.items)]
    entries = [(26 + text_width(WORDS[kind], NAME_SIZE) + 14, kind) for kind in kinds]
    for row in rows(entries, width) if entries else []:
        x = 0.0
        for kind in row:
            dotted = " p" if kind in ("view", "outside") else ""
            parts.append(f'<path class="s {kind}{dotted}" d="{outline(kind, x, y + 2, 22, 11)}"/>')
            parts.append(written(x + 27, y + 11.5, WORDS[kind], NAME_SIZE, "i q"))
            x += 26 + text_width(WORDS[kind], NAME_SIZE) + 14
        y += LINE
    marks = {mark for item in payload.items for mark in item.marks}
    statuses = {thing.status for thing in (*payload.items, *payload.links)}
    words = [text for name, text in MARKS.items() if name in marks]
    words += [text for name, text in STATUS.items() if name in statuses]
    if any(link.views for link in payload.links):
        words.append("words at an arrow: views on the way")
    if any(box.times > 1 for box in payload.boxes):
        words.append("×: equal neighbours, shown once")
    if payload.overlay:
        words.append(f"bar: {payload.overlay}")
    for line in rows([(text_width(word, NAME_SIZE) + 16, word) for word in words], width):
        x = 0.0
        for word in line:
            status = next((name for name, text in STATUS.items() if text == word), "")
            parts.append(written(x, y + 11, word, NAME_SIZE, f"i {status or 'q'}"))
            x += text_width(word, NAME_SIZE) + 16
        y += LINE if line else 0
    return "".join(parts), y


def _wrapped(words: Iterable[str], width: float) -> list[str]:
    lines: list[str] = []
    for word in words:
        if lines and text_width(f"{lines[-1]} {word}", TYPE_SIZE) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
