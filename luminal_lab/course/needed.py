"""The cells that an exercise needs, and cells as Python without a notebook's magics."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

KEPT_MAGICS = ("lab", "time", "timeit", "capture", "prun")
"""Cell magics whose cell is Python."""


@dataclass(frozen=True, slots=True)
class CellNames:
    """The names that a cell imports, binds, and mentions at all."""

    imported: frozenset[str]
    bound: frozenset[str]
    mentioned: frozenset[str]


def plain(text: str) -> str:
    """Return the Python of a cell: magics and shell lines do nothing.

    >>> print(plain("%pip install x\\nfor i in range(2):\\n    !ls"))
    pass
    for i in range(2):
        pass
    """
    first, _, rest = text.lstrip("\n").partition("\n")
    if first.startswith("%%"):
        return plain(rest) if first[2:].split(" ")[0].strip() in KEPT_MAGICS else ""
    return re.sub(r"^([ \t]*)(?:%|!|\?)[^\n]*$", r"\1pass", text, flags=re.MULTILINE)


def names(text: str) -> CellNames:
    """Return the names in a cell; none if it is not Python."""
    imported: set[str] = set()
    bound: set[str] = set()
    mentioned: set[str] = set()
    try:
        tree = ast.parse(plain(text))
    except (SyntaxError, ValueError, RecursionError):
        return CellNames(frozenset(), frozenset(), frozenset())
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                imported |= {(alias.asname or alias.name).split(".")[0] for alias in aliases}
            case ast.Name(id=name, ctx=ast.Store()):
                bound.add(name)
            case ast.Name(id=name):
                mentioned.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case _:
                pass
    return CellNames(frozenset(imported), frozenset(bound), frozenset(mentioned | bound))


def needed(cells: Sequence[str], index: int, exercises: frozenset[int]) -> list[int]:
    """Return the indices of the cells that a cell needs, in order, with its own at the end.

    A cell is needed if it imports a needed name, or mentions one that was not imported: it may
    change the name's value. Other exercises are needed only if they bind such a name.

    >>> needed(["import a", "b = a.c()", "d = 1", "b.e()", "answer = b"], 4, frozenset({4}))
    [0, 1, 3, 4]
    """
    known = [names(text) for text in cells[: index + 1]]
    imported = frozenset[str]().union(*(cell.imported for cell in known))
    wanted = set(known[index].mentioned) - {"answer"}
    chosen = {index}
    while True:
        own = wanted - imported
        more = {
            k
            for k, cell in enumerate(known[:index])
            if k not in chosen
            and (cell.imported & wanted or (cell.bound if k in exercises else cell.mentioned) & own)
        }
        if not more:
            return sorted(chosen)
        chosen |= more
        for k in more:
            wanted |= known[k].mentioned - {"answer"}
