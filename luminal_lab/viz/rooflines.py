"""Rooflines: the names of their points, and a still picture that needs no plotly.

    GFLOP/s │        ╭──────── the roof: bandwidth first, then the peak rate
            │     ╭──╯   ○ softmax
            │  ╭──╯  ● matmul
            └──────────────────── operations for each byte

Both axes are logarithmic. A name stands where it covers no point and no other name; one that fits
nowhere is left to the pointer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import unescape
from itertools import pairwise
from typing import NamedTuple

from luminal_lab.display import Theme
from luminal_lab.viz.figures import Payload
from luminal_lab.viz.markup import number, plain, rows, written
from luminal_lab.viz.metrics import text_width
from luminal_lab.viz.picture import Picture
from luminal_lab.viz.svg import framed

WIDE, DEEP, LEFT, TOP = 560.0, 280.0, 62.0, 56.0
SIZE = 10.5
"""The size of a name."""
LEADING = 14.0
"""From one line below the title to the next."""
DASHES = {"solid": "", "dot": "1.5 3", "dash": "6 4"}
PLACES = ("middle right", "middle left", "top center", "bottom center")
"""Where a name may stand beside its point, in the words of plotly, the best first."""
SIGNS = {
    "circle": '<circle cx="{x}" cy="{y}" r="4" fill="{colour}"/>',
    "diamond": '<path d="M{x} {y}m0-8l8 8l-8 8l-8-8z" fill="{colour}"/>',
    "circle-open": '<circle cx="{x}" cy="{y}" r="6" fill="none" stroke="{colour}" '
    'stroke-width="2"/>',
}
"""A point by the symbol that plotly has for it; each is seen around the one that lies on it."""
BORDERS = {
    "circle": '<circle class="g" cx="{x}" cy="{y}" r="5"/>',
    "diamond": '<path class="g" d="M{x} {y}m0-9.5l9.5 9.5l-9.5 9.5l-9.5-9.5z"/>',
    "circle-open": "",
}
"""What sets a point off from another one below it."""


class Box(NamedTuple):
    """A rectangle of the picture."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Return whether two rectangles overlap."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def contains(self, other: Box) -> bool:
        """Return whether another rectangle is within this one."""
        return (
            self.left <= other.left
            and other.right <= self.right
            and self.top <= other.top
            and other.bottom <= self.bottom
        )


PLOT = Box(LEFT, TOP, LEFT + WIDE, TOP + DEEP)


class Scale(NamedTuple):
    """Powers of ten at the ends of both axes."""

    left: int
    right: int
    bottom: int
    top: int

    def x(self, value: float) -> float:
        """Return where a number of operations for each byte is."""
        return LEFT + (math.log10(value) - self.left) / (self.right - self.left) * WIDE

    def y(self, value: float) -> float:
        """Return where a rate is."""
        return TOP + DEEP * (1 - (math.log10(value) - self.bottom) / (self.top - self.bottom))


def name_points(payload: Payload) -> Payload:
    """Let each point show its name, which its trace has as text, where there is room."""
    scale = _scale(payload)
    points = [trace for trace in payload["data"] if "text" in trace]
    spots = [
        (scale.x(x), scale.y(y), name)
        for trace in points
        for x, y, name in zip(trace["x"], trace["y"], trace["text"], strict=True)
    ]
    places = iter(_places(spots, list(_along(payload, scale))))
    for trace in points:
        own = [next(places) for _ in trace["x"]]
        names = zip(trace["text"], own, strict=True)
        trace["mode"] = "markers+text"
        trace["text"] = [name if place else "" for name, place in names]
        trace["textposition"] = [place or PLACES[0] for place in own]
        trace["textfont"] = {"size": SIZE}
        trace["cliponaxis"] = False
    return payload


def still_roofline(payload: Payload, theme: Theme = "auto") -> Picture:
    """Return a roofline with named points as SVG."""
    scale = _scale(payload)
    title, *below = payload["layout"]["title"]["text"].split("<br>")
    head = [written(0, 12, unescape(title), 12.5, "b")]
    for row, line in enumerate(below):
        text = line.removeprefix("<sub>").removesuffix("</sub>")
        head.append(written(0, 27 + LEADING * row, unescape(text), 10, "i q"))
    more = LEADING * max(0, len(below) - 1)
    parts = [*_axes(scale, payload["layout"])]
    lines = [trace for trace in payload["data"] if trace["mode"] == "lines"]
    points = [trace for trace in payload["data"] if trace["mode"] != "lines"]
    parts += [_line(trace, scale) for trace in lines]
    # The first device's points are uppermost.
    for trace in reversed(points):
        parts += _points(trace, scale)
    legend, bottom = _legend([*lines, *points], TOP + DEEP + 50)
    chart = f'<g transform="translate(0 {number(more)})">{"".join(parts)}{legend}</g>'
    inner = f'<g transform="translate(14 14)">{"".join(head)}{chart}</g>'
    names = [unescape(trace["name"]) for trace in points]
    text = f"Roofline of {unescape(title)}: {'; '.join(names)}."
    width, height = LEFT + WIDE + 40, bottom + more + 28
    return Picture(framed(inner, width, height, theme, text), text, width, height)


def _scale(payload: Payload) -> Scale:
    """Return the decades that hold all that is drawn."""

    def decades(of: str) -> tuple[int, int]:
        values = [value for trace in payload["data"] for value in trace[of] if value > 0] or [1.0]
        low = math.floor(math.log10(min(values)) - 0.1)
        return low, max(math.ceil(math.log10(max(values)) + 0.1), low + 1)

    return Scale(*decades("x"), *decades("y"))


def _along(payload: Payload, scale: Scale) -> Iterator[Box]:
    """Yield small rectangles along the roofs."""
    for trace in payload["data"]:
        if trace["mode"] == "lines":
            ends = [(scale.x(x), scale.y(y)) for x, y in zip(trace["x"], trace["y"], strict=True)]
            for (x, y), (to, down) in pairwise(ends):
                steps = max(1, round(math.hypot(to - x, down - y) / 4))
                for step in range(steps + 1):
                    at, high = x + (to - x) * step / steps, y + (down - y) * step / steps
                    yield Box(at - 1, high - 1, at + 1, high + 1)


def _places(spots: Sequence[tuple[float, float, str]], roofs: Sequence[Box]) -> Iterator[str]:
    """Yield where the name of each point stands; an empty text where it stands nowhere.

    A name is on a roof only where there is no room beside it.
    """
    taken = [Box(x - 7, y - 7, x + 7, y + 7) for x, y, _ in spots]
    done: list[tuple[float, float, str]] = []
    for x, y, name in spots:
        if any(name == known and math.hypot(x - at, y - high) < 10 for at, high, known in done):
            yield ""  # the name that is there is of both
            continue
        fitting = [
            (place, box)
            for place, box in zip(PLACES, _boxes(x, y, text_width(name, SIZE)), strict=True)
            if PLOT.contains(box) and not any(map(box.meets, taken))
        ]
        free = [(place, box) for place, box in fitting if not any(map(box.meets, roofs))]
        place, box = next(iter(free or fitting), ("", None))
        if box is not None:
            taken.append(box)
            done.append((x, y, name))
        yield place


def _boxes(x: float, y: float, wide: float) -> tuple[Box, ...]:
    """Return what a name would cover in each of its places."""
    return (
        Box(x + 9, y - 6, x + 9 + wide, y + 6),
        Box(x - 9 - wide, y - 6, x - 9, y + 6),
        Box(x - wide / 2, y - 21, x + wide / 2, y - 8),
        Box(x - wide / 2, y + 8, x + wide / 2, y + 21),
    )


def _axes(scale: Scale, layout: Payload) -> Iterator[str]:
    every = 1 + (scale.top - scale.bottom) // 9
    for power in range(scale.bottom, scale.top + 1, every):
        y = scale.y(10.0**power)
        yield f'<path class="l" d="M{number(LEFT)} {number(y)}h{number(WIDE)}"/>'
        yield written(LEFT - 6, y + 3.5, _power(power), 10, "i q", end=True)
    for power in range(scale.left, scale.right + 1):
        x = scale.x(10.0**power)
        yield f'<path class="l" d="M{number(x)} {number(TOP)}v{number(DEEP)}"/>'
        text = _power(power)
        yield written(x - text_width(text, 10) / 2, TOP + DEEP + 15, text, 10, "i q")
    across = layout["xaxis"]["title"]["text"]
    middle = LEFT + WIDE / 2 - text_width(across, 10) / 2
    yield written(middle, TOP + DEEP + 30, across, 10, "i q")
    yield written(0, TOP - 7, layout["yaxis"]["title"]["text"], 10, "i q")


def _power(power: int) -> str:
    """Return a power of ten as an axis has it.

    >>> _power(-1), _power(3), _power(5)
    ('0.1', '1,000', '10⁵')
    """
    if -3 <= power <= 4:
        return f"{10**power:,}" if power >= 0 else f"{10.0**power:.{-power}f}"
    return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _line(trace: Payload, scale: Scale) -> str:
    steps = zip(trace["x"], trace["y"], strict=True)
    path = "L".join(f"{number(scale.x(x))} {number(scale.y(y))}" for x, y in steps)
    return f'<g><title>{_title(trace["name"])}</title><path {_stroke(trace)} d="M{path}"/></g>'


def _stroke(trace: Payload) -> str:
    line = trace["line"]
    dash = DASHES[line["dash"]]
    broken = f' stroke-dasharray="{dash}"' if dash else ""
    return f'fill="none" stroke="{line["color"]}" stroke-width="{line["width"]}"{broken}'


def _points(trace: Payload, scale: Scale) -> Iterator[str]:
    symbol = trace["marker"]["symbol"]
    sign = BORDERS[symbol] + SIGNS[symbol]
    columns = (trace[key] for key in ("x", "y", "text", "textposition", "hovertext"))
    for x, y, name, place, hover in zip(*columns, strict=True):
        at, high = scale.x(x), scale.y(y)
        drawn = sign.format(x=number(at), y=number(high), colour=trace["marker"]["color"])
        yield f"<g><title>{_title(hover)}</title>{drawn}</g>"
        wide = text_width(unescape(name), SIZE)
        left = {"middle right": at + 9, "middle left": at - 9 - wide}.get(place, at - wide / 2)
        base = {"top center": high - 11, "bottom center": high + 18}.get(place, high + 3.5)
        yield written(left, base, unescape(name), SIZE, "t")


def _legend(traces: Sequence[Payload], top: float) -> tuple[str, float]:
    """Return a sign and a name for each trace, and where they end."""
    items: list[tuple[float, str]] = []
    for trace in traces:
        name = unescape(trace["name"])
        sign = (
            f'<path {_stroke(trace)} d="M0-3.5h22"/>'
            if trace["mode"] == "lines"
            else SIGNS[trace["marker"]["symbol"]].format(
                x=11, y="-3.5", colour=trace["marker"]["color"]
            )
        )
        items.append((text_width(name, SIZE) + 46, sign + written(28, 0, name, SIZE, "t")))
    widths = dict(zip((text for _, text in items), (room for room, _ in items), strict=False))
    parts: list[str] = []
    y = top
    for line in rows(items, LEFT + WIDE):
        x = 0.0
        for text in line:
            parts.append(f'<g transform="translate({number(x)} {number(y)})">{text}</g>')
            x += widths[text]
        y += 18
    return "".join(parts), y - 18


def _title(text: str) -> str:
    """Return what plotly shows under the pointer as words for a picture's title."""
    for tag in ("<b>", "</b>", "<i>", "</i>"):
        text = text.replace(tag, "")
    return plain(unescape(text.replace("<br>", ", ")))
