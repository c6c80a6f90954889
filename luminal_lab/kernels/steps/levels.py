"""Tables of levels: the loops into which the axes of a sum of products are cut, and how they run.

    c[i, j] = sum k: a[i, k] * b[k, j]

A table lists the loops from the outermost in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, get_args

from luminal_lab.errors import DefinitionError
from luminal_lab.kernels.nest.nest import Kind

AXES: Final = "ijk"
ROW = "each cut makes the level of its name"
REST = "one level of an axis is what its cuts leave, and needs none"


class Level(NamedTuple):
    """Perfectly nested loops of one kind, a line of a table."""

    word: str
    axes: str
    """The axes that have this level: i along the rows, j along the columns, k along the sum."""
    kind: str = "for"
    """How its loops run: as block, thread, unroll, vector or tensor; "for" leaves them as loops."""


Levels = tuple[Level, ...]
Cuts = Mapping[str, Mapping[str, int]]
"""For each axis the levels from the outermost in, each with the iterations of its block."""


def faults(levels: Levels, cuts: Cuts, axes: Iterable[str] = AXES) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a table of levels of some axes and their cuts, each with a hint."""
    rows: dict[tuple[str, str], str] = {}
    for number, line in enumerate(levels):
        row = f"row {number}, {line}"
        if not line.axes or not {*line.axes.split()} <= {*AXES}:
            yield f"{row}, has the axes {line.axes!r}", "write i, j and k with spaces between them"
        if line.kind not in get_args(Kind):
            yield f"{row}, runs as {line.kind!r}", f"kinds are {', '.join(get_args(Kind))}"
        for axis in line.axes.split():
            if (axis, line.word) in rows:
                yield f"{row}, repeats {rows[axis, line.word]}", f"{axis} has each level once"
            rows[axis, line.word] = row
    for axis in dict.fromkeys([*axes, *cuts]):
        yield from _faults_of(axis, [word for of, word in rows if of == axis], cuts.get(axis))


def check_levels(levels: Levels, cuts: Cuts, axes: Iterable[str] = ()) -> None:
    """Raise an error for what is wrong with a table; without axes, for its rows alone."""
    for problem, hint in faults(levels, cuts, axes):
        raise DefinitionError(f"levels: {problem}", hint=hint)


def _faults_of(
    axis: str, words: list[str], cut: Mapping[str, int] | None
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the levels of one axis, and with how it is cut."""
    shown = ", ".join(map(repr, words))
    if not words:
        yield f"no row has the axis {axis!r}", "axes are i, j and k, and each has a level"
    for word in cut or ():
        if word not in words:
            yield f"{axis} is cut into {word!r}, and no row has it: its levels are {shown}", ROW
    if cut is not None and len(words) != len(cut) + 1:
        yield f"{axis} has the levels {shown}, and its cuts are {[*cut]}", REST


def kind_of(levels: Levels, word: str) -> str:
    """Return how the loops of a level run."""
    for line in levels:
        if line.word == word:
            return line.kind
    raise unknown(word, [line.word for line in levels])


def unknown(word: str, words: Sequence[str], of: str = "") -> DefinitionError:
    """Return the error for a plan that asks for a level missing from its table."""
    return DefinitionError(
        f"levels: a plan asks for {word!r}{of}, and no row has it",
        hint=f"its levels are {', '.join(map(repr, words))}",
    )
