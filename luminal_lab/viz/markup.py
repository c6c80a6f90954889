"""Building blocks of SVG: numbers, escaped text, texts of a known width."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from luminal_lab.viz.courses import Stroke
from luminal_lab.viz.metrics import text_width

# XML has no way to write these.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def number(value: float) -> str:
    """Return a number with at most one decimal.

    >>> number(3.0), number(2.25), number(-0.0)
    ('3', '2.2', '0')
    """
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def plain(text: str) -> str:
    """Return text escaped for XML and HTML."""
    return escape(_UNWRITABLE.sub("\ufffd", text))


def written(
    x: float, y: float, text: str, size: float, kind: str = "", *, end: bool = False
) -> str:
    """Return a text with the width from our table, whatever the font."""
    if not text:
        return ""
    width = number(text_width(text, size))
    anchor = ' text-anchor="end"' if end else ""
    of = f' class="{kind}"' if kind else ""
    return (
        f'<text x="{number(x)}" y="{number(y)}"{of}{anchor} textLength="{width}" '
        f'lengthAdjust="spacingAndGlyphs">{plain(text)}</text>'
    )


def course(steps: Sequence[Stroke]) -> str:
    """Return a path's data, with short forms for vertical and horizontal lines."""
    parts: list[str] = []
    at: Stroke = (0.0, 0.0)
    for step in steps:
        if not parts:
            parts.append(f"M{number(step[0])} {number(step[1])}")
        elif len(step) == 2:
            if step[0] == at[0]:
                parts.append(f"V{number(step[1])}")
            elif step[1] == at[1]:
                parts.append(f"H{number(step[0])}")
            else:
                parts.append(f"L{number(step[0])} {number(step[1])}")
        else:
            parts.append("C" + " ".join(map(number, step)))
        at = step[-2:]
    return "".join(parts)


def rows(texts: Sequence[tuple[float, str]], width: float) -> list[list[str]]:
    """Return texts of known widths in rows no wider than `width`."""
    lines: list[list[str]] = [[]]
    used = 0.0
    for room, text in texts:
        if lines[-1] and used + room > width:
            lines.append([])
            used = 0.0
        lines[-1].append(text)
        used += room
    return lines
