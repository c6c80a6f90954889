"""Which cells of a notebook an exercise needs, and cells as Python without a notebook's signs."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

KEPT_MAGICS = ("lab", "time", "timeit", "capture", "prun")
"""Magics of whole cells whose cell is Python."""


@dataclass(frozen=True, slots=True)
class Names:
    """What a cell speaks of: the names that it imports, binds, and mentions at all."""

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


def names(text: str) -> Names:
    """Return what a cell speaks of; nothing for one that is not Python."""
    imported: set[str] = set()
    bound: set[str] = set()
    mentioned: set[str] = set()
    try:
        tree = ast.parse(plain(text))
    except (SyntaxError, ValueError, RecursionError):
        return Names(frozenset(), frozenset(), frozenset())
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=found) | ast.ImportFrom(names=found):
                imported |= {(one.asname or one.name).split(".")[0] for one in found}
            case ast.Name(id=name, ctx=ast.Store()):
                bound.add(name)
            case ast.Name(id=name):
                mentioned.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case _:
                pass
    return Names(frozenset(imported), frozenset(bound), frozenset(mentioned | bound))


def needed(cells: Sequence[str], place: int, exercises: frozenset[int]) -> list[int]:
    """Return the places of the cells that one needs, in their order, and its own at the end.

    A cell is needed if it imports a needed name, or speaks of one that was not imported: it may
    change what the name stands for. Of other exercises only those that bind such a name are.

    >>> needed(["import a", "b = a.c()", "d = 1", "b.e()", "answer = b"], 4, frozenset({4}))
    [0, 1, 3, 4]
    """
    known = [names(text) for text in cells[: place + 1]]
    imported = frozenset[str]().union(*(one.imported for one in known))
    wanted = set(known[place].mentioned) - {"answer"}
    chosen = {place}
    while True:
        own = wanted - imported
        more = {
            k
            for k, one in enumerate(known[:place])
            if k not in chosen
            and (one.imported & wanted or (one.bound if k in exercises else one.mentioned) & own)
        }
        if not more:
            return sorted(chosen)
        chosen |= more
        for k in more:
            wanted |= known[k].mentioned - {"answer"}
