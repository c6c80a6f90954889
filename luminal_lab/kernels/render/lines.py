"""Lines of C as deep as their blocks are, none too long, each with the ops that it computes."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager

LIMIT = 100
"""How long a line may be."""


class Lines:
    """The lines of a function, and for each the names of the ops behind it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.ops: list[tuple[str, ...]] = []
        self.depth = 1

    def add(self, line: str, ops: Iterable[str] = ()) -> None:
        """Add a line, or several where it is too long for one."""
        for part in broken("    " * self.depth + line):
            self.lines.append(part)
            self.ops.append(tuple(ops))

    def directive(self, text: str) -> None:
        """Add what the preprocessor reads, which is one line however long."""
        self.lines.append(text)
        self.ops.append(())

    @contextmanager
    def block(self, head: str) -> Generator[None, None, None]:
        """Put what is added inside into braces."""
        self.add(f"{head} {{".lstrip())
        self.depth += 1
        yield
        self.depth -= 1
        self.add("}")


RANKS = {"?": 1, ":": 1, "||": 2, "&&": 3, "<": 4, ">=": 4, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6}
"""Before what a line is cut, rather than before what binds more tightly."""


def broken(line: str) -> list[str]:
    """Return a line in parts that are not too long, cut outside of brackets if that is enough.

    >>> print("\\n".join(broken("y[i] = " + "lab_exp2_f32(first_value[i]) + " * 4 + "1.0f;")))
    y[i] =
        lab_exp2_f32(first_value[i]) + lab_exp2_f32(first_value[i]) + lab_exp2_f32(first_value[i])
        + lab_exp2_f32(first_value[i]) + 1.0f;
    """
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    found: list[str] = []
    while len(line) > LIMIT:
        cuts = list(_cuts(line, len(indent)))
        if not cuts:
            break
        place = min(cuts)[-1]
        found.append(line[:-place].rstrip())
        line = indent + line[-place:].lstrip()
    return [*found, line]


def _cuts(line: str, start: int) -> Iterator[tuple[int, int, int]]:
    """Yield the spaces where a line may be cut: brackets around, rank, and how far from the end.

    An assignment, a comma and a semicolon end a line; other operators begin one.
    """
    depth = 0
    for place, letter in enumerate(line[:LIMIT]):
        depth += (letter in "([{") - (letter in ")]}")
        if letter != " " or place <= start:
            continue
        if line[place - 1] in "=,;" and line[place - 2] not in "<>=!":
            yield depth, int(line[place - 1] == ","), len(line) - place
        else:
            word = line[place + 1 :].partition(" ")[0]
            if word in RANKS:
                yield depth, RANKS[word], len(line) - place
