"""Files of C, CUDA and Metal as paragraphs, and the paragraphs that a program calls.

    // Sums of lanes.

    /* Wraps around. */
    static inline lab_$INT lab_add_$INT(lab_$INT x, lab_$INT y) { … }

The first paragraph says what the file is for. Each other one defines functions, types or macros; a
paragraph that defines nothing belongs to the next. `$INT` is a placeholder: its paragraph is
written once for each row of `rows.py` that has all of its words. Compilers accept `$` in names.
`float p = $POLYNOMIAL(x, 3.0f, 2.0f, 1.0f);` is 3 x^2 + 2 x + 1, one step a line, by Horner's
scheme; `$EACH(4) if (n == $N) …` is that line four times, with 0 to 3 for $N.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
NAME: Final = re.compile(r"\b(?:lab|LAB)_\w+|\bfloor(?:div|mod)\b")
"""The names of the prelude that a text may mention."""
DEFINED: Final = re.compile(
    r"^static .*?\b((?:lab_|floor)[\w$]+)\("
    r"|^#define ([\w$]+)"
    r"|^(?:fn|var<private>) (lab_\w+)"
    r"|^struct .*?\b(lab_[\w$]+) \{"
    r"|^typedef .*?\b(lab_[\w$]+)(?: __attribute__.*)?;"
    r"|^#pragma omp declare (reduction\([\w$]+)",
    re.MULTILINE,
)
WORD: Final = re.compile(r"\$([A-Z]+)")
POLYNOMIAL: Final = re.compile(
    r"^( +)(float|double) (\w+) = \$POLYNOMIAL\((\w+), ([^()]+)\);", re.MULTILINE
)

EACH: Final = re.compile(r"^( *)\$EACH\((\d+)\) (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of a file, with the names that it defines."""

    text: str
    names: tuple[str, ...]
    words: frozenset[str]
    """Its placeholders."""

    def filled(self, row: Mapping[str, str]) -> Paragraph:
        """Return it with all placeholders replaced."""
        text, *names = (
            WORD.sub(lambda match: row[match[1]], text) for text in (self.text, *self.names)
        )
        return Paragraph(text, tuple(names), frozenset())


@cache
def whole(file: str) -> str:
    """Return a file without the paragraph that says what it is for."""
    return (HERE / file).read_text("utf-8").partition("\n\n")[2].rstrip()


@cache
def paragraphs(file: str) -> tuple[Paragraph, ...]:
    """Return the paragraphs of a file as written."""
    listed: list[Paragraph] = []
    text = ""
    for part in EACH.sub(_counted, POLYNOMIAL.sub(_by_steps, whole(file))).split("\n\n"):
        text += part
        defined = (name for match in DEFINED.findall(text) for name in match if name)
        names = tuple(f"{name})" if "(" in name else name for name in defined)
        if names:
            listed.append(Paragraph(text, names, frozenset(WORD.findall(text))))
        text = "" if names else f"{text}\n\n"
    return tuple(listed)


def _by_steps(match: re.Match[str]) -> str:
    """Return a polynomial as statements: each multiplies by the variable, and adds a number."""
    indent, type, name, variable, listed = match.groups()
    first, *numbers = (number.strip() for number in listed.split(","))
    fma = f"lab_fma_f{32 if type == 'float' else 64}"
    steps = (f"{name} = {fma}({name}, {variable}, {number});" for number in numbers)
    return f"\n{indent}".join([f"{indent}{type} {name} = {first};", *steps])


def _counted(match: re.Match[str]) -> str:
    """Return a line for each number, in place of $N."""
    indent, count, line = match.groups()
    return "\n".join(indent + line.replace("$N", str(number)) for number in range(int(count)))


def definitions(files: Iterable[str], rows: Iterable[Mapping[str, str]]) -> dict[str, Paragraph]:
    """Return paragraphs by the names that they define; of two with one name, the first is kept."""
    rows = [*rows]
    known: dict[str, Paragraph] = {}
    for file in files:
        for paragraph in paragraphs(file):
            for filled in _written(paragraph, rows):
                for name in filled.names:
                    known.setdefault(name, filled)
    return known


def _written(paragraph: Paragraph, rows: list[Mapping[str, str]]) -> Iterator[Paragraph]:
    """Yield a paragraph for each row that has all of its placeholders."""
    if not paragraph.words:
        yield paragraph
        return
    for row in rows:
        if paragraph.words <= row.keys():
            yield paragraph.filled(row)


def taken(
    names: Iterable[str], known: Mapping[str, Paragraph], spelled: Callable[[str], str]
) -> dict[str, None]:
    """Return the texts of what is named, in a language's spelling, each after what it needs."""
    texts: dict[str, None] = {}
    begun: set[str] = set()

    def take(name: str) -> None:
        if name not in known or known[name].text in begun:
            return
        begun.add(known[name].text)
        text = spelled(known[name].text)
        for named in NAME.findall(text):
            take(named)
        texts[text] = None

    for name in names:
        take(name)
    return texts
