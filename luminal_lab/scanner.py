r"""One scanner for all texts: tokens, lists, and errors that show their place.

    scanner = Scanner("(%x, %y)  # two inputs")
    scanner.take(r"\(", "'(' and the inputs")
    names = [scanner.take("%[a-z]+", "an input").text for _ in scanner.until(")")]

Spaces and comments after a token are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple, NoReturn

from luminal_lab.errors import LabError, ParseError

# No pattern backtracks into a token, so that wrong text costs no more than right text.
GAP = r"(?:\s|#[^\n]*+)*+"
STRING = r'"(?:[^"\\\n]|\\.)*+"'
MARK = re.compile(rf"{STRING}|[()\[\],]")


class Piece(NamedTuple):
    """A part of a text, and its position."""

    at: int
    text: str

    def part(self, start: int, end: int | None = None) -> Piece:
        """Return a part of this one, without the spaces around it."""
        text = self.text[start:end]
        return Piece(self.at + start + len(text) - len(text.lstrip()), text.strip())

    def split(self) -> list[Piece]:
        """Return the parts between commas outside brackets and quotes."""
        depth, cuts = 0, [-1]
        for mark in MARK.finditer(self.text):
            depth += (mark[0] in "([") - (mark[0] in ")]")
            if mark[0] == "," and depth == 0:
                cuts.append(mark.start())
        pieces = [self.part(a + 1, b) for a, b in pairwise([*cuts, len(self.text)])]
        return pieces if pieces[-1].text else pieces[:-1]


class Scanner:
    """A text, and the position up to which it has been read."""

    def __init__(self, text: str, pos: int = 0) -> None:
        self.text, self.pos = text, pos
        self.skip(0)

    @property
    def here(self) -> Piece:
        """The position of the next token."""
        return Piece(self.pos, "")

    def skip(self, count: int) -> None:
        """Skip some letters, and the spaces and comments after them."""
        match = re.compile(GAP).match(self.text, self.pos + count)
        assert match is not None
        self.pos = match.end()

    def is_at(self, marks: str | tuple[str, ...]) -> bool:
        """Return whether the next token begins with one of some marks."""
        return self.text.startswith(marks, self.pos)

    def match(self, pattern: str | re.Pattern[str]) -> re.Match[str] | None:
        """Return the next token if it has some form, without taking it."""
        return re.compile(pattern).match(self.text, self.pos)

    def take_if(self, pattern: str | re.Pattern[str]) -> re.Match[str] | None:
        """Take the next token if it has some form."""
        match = self.match(pattern)
        if match is not None:
            self.skip(match.end() - self.pos)
        return match

    def take(self, pattern: str, what: str) -> Piece:
        """Take the next token, which must have some form."""
        return self.maybe(pattern) or self.expect(what, pattern)

    def maybe(self, pattern: str) -> Piece | None:
        """Take the next token if it has some form, and return it as a piece."""
        match = self.take_if(pattern)
        return None if match is None else Piece(match.start(), match[0])

    def accept(self, mark: str) -> bool:
        """Take a mark if it comes next, and return whether it did."""
        is_here = self.is_at(mark)
        if is_here:
            self.skip(len(mark))
        return is_here

    def until(self, end: str) -> Iterator[None]:
        """Yield before each item of a list, and read the commas and the end."""
        while not self.accept(end):
            yield
            if not self.accept(",") and not self.is_at(end):
                self.expect(f"',' or '{end}'", end)

    def expect(self, what: str, pattern: str) -> NoReturn:
        """Raise the error that says what should come next."""
        del pattern
        self.fail(self.here, f"{what} should be here")

    def fail(self, piece: Piece, message: str, hint: str | None = None) -> NoReturn:
        """Raise a ParseError that shows the place in its line, with carets below it."""
        text, at = self.text, piece.at
        start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
        line = text[start : end if end >= 0 else len(text)]
        number, column = text.count("\n", 0, at) + 1, at - start
        if not text[at:].strip():
            message += ", but the text ends"
        left, right = max(0, column - 80), column + 60  # the visible part of a very long line
        before = re.sub(r"[^\t]", " ", line[left:column])
        carets = "^" * max(1, min(len(piece.text), len(line[column:right])))
        where = f"{line[left:right]}\n{before}{carets}"
        raise ParseError(f"line {number}, column {column + 1}: {message}", where=where, hint=hint)

    @contextmanager
    def blaming(self, piece: Piece) -> Generator[None]:
        """Turn errors of inner code, including users' classes, into an error at this position."""
        try:
            yield
        except LabError as error:
            self.fail(piece, error.message.removeprefix("verify: "), error.hint)
        except Exception as error:
            reason = getattr(error, "msg", error)  # JSON's message without its own position
            self.fail(piece, f"this cannot be read: {reason}")
