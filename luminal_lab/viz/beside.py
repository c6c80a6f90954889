"""Two kernels' sources side by side, with what only one of them has marked."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

from luminal_lab.display import Theme
from luminal_lab.kernels.kernel import LANGUAGES, Kernel
from luminal_lab.viz.markup import plain
from luminal_lab.viz.pages import LINE, framed, head
from luminal_lab.viz.picture import Page

MARK = "background:rgba(230,159,0,.28)"
FRAME = (
    "display:grid;grid-template-columns:repeat(2,minmax(20em,1fr));gap:0 14px;"
    "max-width:1100px;overflow:auto;"
    f"font:12px/1.45 monospace;border:{LINE};border-radius:4px;padding:8px 10px"
)
# A notebook that nobody trusts keeps no length in `ch`.
CHARACTER = 0.6
"""The width of a letter in its own size, which is about the same in all such fonts."""
TEXT = "white-space:pre-wrap;overflow-wrap:anywhere;padding-left:1.2em;text-indent:-1.2em"
WIDTH = 60
"""The columns of a source, where both are plain text."""


class Row(NamedTuple):
    """A line of each source; None where there is no counterpart."""

    left: str | None
    right: str | None
    is_same: bool


def beside_page(kernel: Kernel, other: Kernel, *, theme: Theme = "auto") -> Page:
    """Return two sources side by side, without the comments that repeat their definitions."""
    rows = list(_rows(kernel.source, other.source))
    same = sum(row.is_same for row in rows)
    left, right = (sum(row[side] is not None for row in rows) for side in (0, 1))
    count = f"{same} of {left} and {right} lines are the same"
    title = f"kernel {kernel.name}" + (f" and {other.name}" if other.name != kernel.name else "")
    names = [LANGUAGES[kernel.dialect], LANGUAGES[other.dialect]]
    cells = [f"<b>{name}</b>" for name in names]
    cells += [_cell(text, is_same=row.is_same) for row in rows for text in row[:2]]
    parts = [head(title, count), f'<div style="{FRAME}">{"".join(cells)}</div>']
    lines = [f"{title}: {count}", f"  {names[0]:{WIDTH}} | {names[1]}"]
    lines += [_line(row) for row in rows]
    return Page(framed(parts, theme), "\n".join(lines))


def _rows(left: str, right: str) -> Iterator[Row]:
    a, b = (
        [line for line in source.splitlines() if not line.startswith("//")]
        for source in (left, right)
    )
    for tag, i, j, k, m in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        for at in range(max(j - i, m - k)):
            x, y = (lines[at] if at < len(lines) else None for lines in (a[i:j], b[k:m]))
            yield Row(x, y, tag == "equal")


def _cell(text: str | None, *, is_same: bool) -> str:
    mark = "" if is_same or text is None else f";{MARK}"
    words = text or ""
    indent = len(words) - len(words.lstrip())
    style = f"{TEXT};margin-left:{indent * CHARACTER:.1f}em{mark}" if indent else TEXT + mark
    return f'<span style="{style}">{plain(words.lstrip())}</span>'


def _line(row: Row) -> str:
    mark = " " if row.is_same else "!"
    return f"{mark} {(row.left or '')[:WIDTH]:{WIDTH}} | {row.right or ''}".rstrip()
