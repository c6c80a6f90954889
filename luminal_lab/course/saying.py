"""The course's output in a notebook: lines that are right or not yet, as text and as HTML.

The HTML has no script and takes its colours from its surroundings; words repeat the meaning of
colours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from typing_extensions import override

from luminal_lab.course.exercise import FAULT, OPEN, RIGHT

COLOURS = {"right": "#238a43", "not yet": "#c9571f", "open": "#8c959f"}
BOX = "padding:2px 0 2px 12px;margin:4px 0;line-height:1.5;max-width:880px;overflow-wrap:anywhere"
CODE = "margin:6px 0;padding:6px 10px;border:1px solid rgba(128,128,128,.35);white-space:pre-wrap"
CELL = "padding:2px 14px 2px 0;text-align:left;border:0;white-space:nowrap"
TABLE = (
    "border-collapse:collapse;border:0;margin:4px 0;color:inherit;background:none;font-size:inherit"
)


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence and lines below it; the last line of a cell shows it."""

    head: str
    kind: str = "open"
    lines: tuple[str, ...] = ()
    hint: str = ""
    code: str = ""
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text alone."""
        rows = [self.head, *(f"  {line}" for line in self.lines)]
        rows += [f"hint: {self.hint}"] if self.hint else []
        rows += ["", self.code.rstrip(), ""] if self.code else []
        rows += [f"note: {note}" for note in self.notes]
        return "\n".join(rows).rstrip()

    @property
    def html(self) -> str:
        """The same as HTML without a script."""
        parts = [f"<b>{_words(self.head)}</b>", *map(_line, self.lines)]
        if self.hint:
            parts.append(f"<div><i>hint:</i> {_words(self.hint)}</div>")
        if self.code:
            parts.append(f'<pre style="{CODE}">{escape(self.code.rstrip())}</pre>')
        parts += [f'<div style="opacity:.75">note: {escape(note)}</div>' for note in self.notes]
        side = f"border-left:4px solid {COLOURS[self.kind]}"
        return f'<div style="{side};{BOX}">{"".join(parts)}</div>'

    @override
    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}


@dataclass(frozen=True, slots=True)
class ChapterRow:
    """The progress of a chapter."""

    number: str
    title: str
    right: int
    total: int
    looked: int = 0
    """The number of right ones whose solution was looked up first."""
    tried: int = 0
    """The number tried and not right yet."""

    @property
    def bar(self) -> str:
        """The right ones as a row of squares."""
        return "■" * self.right + "□" * (self.total - self.right)

    @property
    def remark(self) -> str:
        """Remarks about tries and solutions."""
        looked = f"{self.looked} after its solution" if self.looked else ""
        tried = f"{self.tried} tried" if self.tried else ""
        return ", ".join(filter(None, (tried, looked)))


@dataclass(frozen=True, slots=True)
class CourseProgress:
    """The progress of each chapter; the last line of a cell shows it."""

    rows: tuple[ChapterRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def right(self) -> int:
        """The number of right exercises."""
        return sum(row.right for row in self.rows)

    @property
    def total(self) -> int:
        """The number of all exercises."""
        return sum(row.total for row in self.rows)

    @property
    def text(self) -> str:
        """The table as text."""
        wide = max([len(row.title) for row in self.rows], default=0)
        most = max([row.total for row in self.rows], default=0)
        rows = [f"{self.right} of {self.total} exercises are right"]
        rows += [
            f"  {row.number}  {row.title:{wide}}  {row.bar:{most}}  {row.right} of {row.total}"
            f"  {row.remark}".rstrip()
            for row in self.rows
        ]
        return "\n".join([*rows, *(f"note: {note}" for note in self.notes)])

    @property
    def html(self) -> str:
        """The table, as HTML without a script."""
        rows = "".join(_row(row) for row in self.rows)
        notes = "".join(f'<div style="opacity:.75">note: {escape(n)}</div>' for n in self.notes)
        head = f"<b>{self.right} of {self.total} exercises are right</b>"
        return f'<div style="{BOX}">{head}<table style="{TABLE}">{rows}</table>{notes}</div>'

    @override
    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}


def _words(text: str) -> str:
    """Return a sentence as HTML, with code between backticks."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _line(text: str) -> str:
    for kind, start in (("right", RIGHT), ("not yet", OPEN)):
        if text.startswith(start):
            word = f'<b style="color:{COLOURS[kind]}">{kind}</b>'
            return f"<div>{word}: {_words(text[len(start) :])}</div>"
    inset = ' style="padding-left:2em"' if text.startswith(FAULT) else ""
    return f"<div{inset}>{_words(text.strip())}</div>"


def _row(row: ChapterRow) -> str:
    full = f'<span style="color:{COLOURS["right"]}">{"■" * row.right}</span>'
    bar = f'{full}<span style="opacity:.5">{"□" * (row.total - row.right)}</span>'
    cells: Sequence[str] = (
        row.number,
        escape(row.title),
        bar,
        f"{row.right} of {row.total}",
        escape(row.remark),
    )
    inner = "".join(f'<td style="{CELL}">{text}</td>' for text in cells)
    return f'<tr style="background:none">{inner}</tr>'
