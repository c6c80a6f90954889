"""A memory plan as a picture: steps from left to right, bytes of the arena from the top down.

A value in the arena is a rectangle, as wide as its lifetime and as high as its size. Other values
are thin bars below.
"""

from __future__ import annotations

from typing import NamedTuple

from luminal_lab.display import Theme
from luminal_lab.kernels.memory.plan import BoundPlan, MemoryPlan
from luminal_lab.kernels.memory.text import Row
from luminal_lab.viz.markup import number, plain, written
from luminal_lab.viz.metrics import shortened, text_width
from luminal_lab.viz.picture import Picture
from luminal_lab.viz.svg import framed

WIDE = 700.0
DEEP = 340.0
LEFT = 92.0
ROW = 13.0
MOST = 40
"""The most bars of values outside the arena; a note counts the rest."""
WORDS = (
    "in the arena as high as a value is large; + written over what it reads; "
    "below: what has a place of its own"
)
FEW = 6
"""The most values needed at every step that get a bar each."""
KIND = {"temporary": "op", "input": "input", "constant": "constant", "output": "launch"}


class Lane(NamedTuple):
    """A value as drawn: its lifetime, its position, its size."""

    name: str
    kind: str
    first: int
    last: int
    offset: int | None
    bytes: int
    note: str


def lifetimes(plan: MemoryPlan | BoundPlan, *, theme: Theme = "auto") -> Picture:
    """Return a plan as a picture, without bytes if its sizes are symbolic."""
    owner = plan.plan if isinstance(plan, BoundPlan) else plan
    bound = plan if isinstance(plan, BoundPlan) else _bound(plan)
    rows = (plan if bound is None else bound).rows()
    lanes = [lane for row in rows if (lane := _lane(row)) is not None]
    steps = max(len(owner.program.steps), 1)
    arena = [lane for lane in lanes if lane.offset is not None]
    others = [lane for lane in lanes if lane.offset is None]
    always = [lane for lane in others if lane.last - lane.first + 1 == steps and steps > 1]
    if len(always) > FEW:
        others = [lane for lane in others if lane not in always]
    else:
        always = []
    parts: list[str] = []
    total = 0 if bound is None else bound.arena_bytes
    y = 30.0
    across = WIDE / steps
    if total:
        parts += _axis(steps, across, y, DEEP)
        parts.append(written(0, y + 11, size_text(0), 10, "i q"))
        parts.append(written(0, y + DEEP, size_text(total), 10, "i q"))
        parts += [_block(lane, across, y, DEEP / total) for lane in arena]
        parts += [_name(lane, across, y, DEEP / total) for lane in arena]
        y += DEEP + 18
    shown, hidden = others[:MOST], len(others) - MOST
    if shown:
        parts += _axis(steps, across, y, len(shown) * ROW)
        for at, lane in enumerate(shown):
            parts.append(_bar(lane, across, y + at * ROW))
        y += len(shown) * ROW + 6
    if always:
        size = size_text(sum(lane.bytes for lane in always))
        rest = f"and {len(always):,} that are needed throughout, {size} in all"
        parts.append(written(LEFT, y + 10, rest, 10, "i q"))
        y += ROW
    if hidden > 0:
        rest = f"and {hidden:,} more with places of their own"
        parts.append(written(LEFT, y + 10, rest, 10, "i q"))
        y += ROW
    size = "sizes are known when dims are bound"
    if bound is not None:
        size = f"arena {size_text(total)}, {size_text(bound.unshared_bytes)} if none were reused"
    text = f"Memory plan: {steps:,} step{'s' * (steps != 1)}, {len(rows):,} values; {size}."
    parts.append(written(0, 10, text, 10.5, "t"))
    parts.append(written(0, y + 12, WORDS, 10, "i q"))
    inner = f'<g transform="translate(14 14)">{"".join(parts)}</g>'
    width, height = LEFT + WIDE + 28, y + 20 + 28
    return Picture(framed(inner, width, height, theme, text), text, width, height)


def _bound(plan: MemoryPlan) -> BoundPlan | None:
    return None if plan.program.symbols else plan.bind()


def size_text(size: int) -> str:
    """Return a number of bytes in a readable unit.

    >>> size_text(512), size_text(3 << 20)
    ('512 B', '3 MiB')
    """
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} B"


def _lane(row: Row) -> Lane | None:
    """Return a value's lane; views and values that no step needs have none."""
    first, last, offset, size = row["first"], row["last"], row["offset"], row["bytes"]
    if row["view_of"] is not None or not isinstance(first, int) or not isinstance(last, int):
        return None
    note = "" if row["written_over"] is None else "+"
    return Lane(
        str(row["value"]),
        str(row["kind"]),
        first,
        last,
        offset if isinstance(offset, int) else None,
        size if isinstance(size, int) else 0,
        note,
    )


def _axis(steps: int, across: float, y: float, height: float) -> list[str]:
    """Return a line for each step, or for some, with the numbers of a few."""
    every = max(1, -(-steps // 12))
    parts: list[str] = []
    for step in range(0, steps + 1, every):
        x = LEFT + step * across
        parts.append(f'<path class="l" d="M{number(x)} {number(y)}v{number(height)}"/>')
        if step < steps:
            parts.append(written(x + 2, y - 3, str(step), 9.5, "v q"))
    return parts


def _title(lane: Lane) -> str:
    where = "" if lane.offset is None else f", from byte {lane.offset:,} of the arena"
    over = "\nwritten over what it reads" if lane.note else ""
    return (
        f"{lane.name}: {lane.kind}, {lane.bytes:,} bytes{where}\n"
        f"needed from step {lane.first} to step {lane.last}{over}"
    )


def _block(lane: Lane, across: float, y: float, down: float) -> str:
    x, width = LEFT + lane.first * across, (lane.last - lane.first + 1) * across
    top, height = y + (lane.offset or 0) * down, max(lane.bytes * down, 1.0)
    return (
        f"<g><title>{plain(_title(lane))}</title>"
        f'<rect class="s {KIND[lane.kind]}" x="{number(x + 0.5)}" y="{number(top)}" '
        f'width="{number(max(width - 1, 1))}" height="{number(height)}"/></g>'
    )


def _name(lane: Lane, across: float, y: float, down: float) -> str:
    """Return a value's name if it fits, left of the value that overwrites it at its end."""
    top, height = y + (lane.offset or 0) * down, lane.bytes * down
    name = f"{lane.note}{shortened(lane.name, 24)}"
    if height < 11 or (lane.last - lane.first) * across < text_width(name, 9.5) + 6:
        return ""
    return written(LEFT + lane.first * across + 4, top + min(height / 2 + 3.5, 14), name, 9.5, "v")


def _bar(lane: Lane, across: float, y: float) -> str:
    x, width = LEFT + lane.first * across, (lane.last - lane.first + 1) * across
    name = shortened(lane.name, 16)
    return (
        f"<g><title>{plain(_title(lane))}</title>"
        f"{written(LEFT - 6, y + 9.5, name, 9.5, 'v q', end=True)}"
        f'<rect class="s {KIND[lane.kind]}" x="{number(x + 0.5)}" y="{number(y + 2)}" '
        f'width="{number(max(width - 1, 1))}" height="{number(ROW - 4)}"/></g>'
    )
