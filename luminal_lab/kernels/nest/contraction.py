"""What a sum of products is made of: its loops, and the operand that each of them belongs to."""

from __future__ import annotations

from dataclasses import dataclass

from luminal_lab.kernels.definition.running import by_column
from luminal_lab.kernels.definition.terms import Read, Term, free
from luminal_lab.kernels.nest.nest import Block, Local, Loop, Nest, Set, reads_of, walk
from luminal_lab.kernels.nest.sizes import names_in, perfect


@dataclass
class Contraction:
    """A nest that sums products: its loops, and which operand each axis belongs to."""

    loops: list[Loop]
    """The loops of the result, the outermost first."""
    rows: list[Loop]
    """The perfectly nested loops along the rows; `columns` likewise."""
    columns: list[Loop]
    folds: list[Loop]
    left: Term
    """The operand with the rows."""
    right: Term
    """The operand with the columns."""

    @property
    def others(self) -> list[Loop]:
        """The loops of the result that are not over its rows."""
        return [loop for loop in self.loops if loop not in self.rows]

    @property
    def has_windows(self) -> bool:
        """Whether an index of an operand moves along the result and along the sum."""
        along = {loop.name for loop in self.columns}
        summed = {loop.name for loop in self.folds if loop.size != 1}
        indices = [index or () for _, index in reads_of(self.right)]
        names = [names_in(dim) for index in indices for dim in index]
        # Windows of several concatenated arrays need another plan.
        is_alone = isinstance(self.right, Read) or len(indices) == 1
        return is_alone and any(here & along and here & summed for here in names)


def contraction_of(nest: Nest, *, alone: bool = True) -> Contraction | None:
    """Return the parts of a nest that is a contraction or, unless `alone`, ends in one; or None."""
    loops = loops_of(nest, alone=alone)
    folds, term = (summed(loops[-1].body) if loops else None) or ([], None)
    pair = pair_of(term, loops[-1].name) if loops else None
    if pair is None:
        return None
    left_axes, right_axes = (set(free(factor)) for factor in pair)
    own = left_axes - right_axes
    rows = [_run(loops, position, own) for position, loop in enumerate(loops) if loop.name in own]
    if not rows or any(fold.name not in left_axes & right_axes for fold in folds):
        return None
    columns = _run(loops, len(loops) - 1, right_axes - left_axes)
    return Contraction(loops, rows[-1], columns, folds, *pair)


def summed(body: Block, hows: tuple[str, ...] = ("+=",)) -> tuple[list[Loop], Term] | None:
    """Return the loops and the term of the one sum in a body; or of another fold, if asked."""
    if len(body) != 4 or not isinstance(body[0], Local):
        return None
    _, start, loop, end = body
    if not (isinstance(start, Set) and isinstance(loop, Loop) and isinstance(end, Set)):
        return None
    folds = [*perfect(loop)]
    inner = folds[-1].body
    if len(inner) != 1 or not isinstance(inner[0], Set) or inner[0].how not in hows:
        return None
    return folds, inner[0].term


def operands(nest: Nest, k: str) -> tuple[Term, Term]:
    """Return the two factors in a loop's sum; the second has the last axis of the result."""
    column = loops_of(nest)[-1]
    while isinstance(last := column.body[-1], Loop):  # behind a copy for the loops in it
        column = last
    left, right = by_column(sum_in(nest, k).term, column.name)
    return left, right


def pair_of(term: Term | None, column: str) -> tuple[Term, Term] | None:
    """Return the operands of a product of two, the only one with a column last; or None."""
    pair = by_column(term, column) if term else []
    is_pair = len(pair) == 2 and column not in free(pair[0]) and column in free(pair[1])
    return (pair[0], pair[1]) if is_pair else None


def sum_in(nest: Nest, loop: str) -> Set:
    """Return the only assignment in a loop."""
    (only,) = [s for s in walk((nest.loops[loop],)) if isinstance(s, Set)]
    return only


def loops_of(nest: Nest, *, alone: bool = False) -> list[Loop]:
    """Return the perfectly nested loops at the end of a nest; with `alone`, they are all of it."""
    tops = [s for s in nest.body if not isinstance(s, Local)]
    last = tops[-1] if len(tops) == 1 or (tops and not alone) else None
    return [*perfect(last)] if isinstance(last, Loop) else []


def array_of(term: Term) -> str:
    """Return the first array that a term reads."""
    return next(iter(reads_of(term)))[0]


def _run(loops: list[Loop], end: int, axes: set[str]) -> list[Loop]:
    """Return the consecutive loops up to a position whose axes only one operand has."""
    first = end
    while first and loops[first - 1].name in axes:
        first -= 1
    return loops[first : end + 1]
