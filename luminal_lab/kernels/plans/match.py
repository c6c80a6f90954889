"""What plans ask of a nest: its independent axes, its sums, the distance between neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from luminal_lab.kernels.definition.running import by_column
from luminal_lab.kernels.definition.terms import Read, Term, free
from luminal_lab.kernels.nest.nest import Block, Local, Loop, Nest, Set, accesses, reads_of, walk
from luminal_lab.kernels.nest.sizes import innermost, perfect, stride
from luminal_lab.kernels.steps.sums import total_of


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


def contraction_of(nest: Nest, *, alone: bool = True) -> Contraction | None:
    """Return the parts of a nest that is a contraction or, unless `alone`, ends in one; or None."""
    loops = loops_of(nest, alone=alone)
    folds, term = (summed(loops[-1].body) if loops else None) or ([], None)
    pair = _pair(term, loops[-1].name) if loops else None
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
    left, right = by_column(sum_in(nest, k).term, loops_of(nest)[-1].name)
    return left, right


def _pair(term: Term | None, column: str) -> tuple[Term, Term] | None:
    """Return the operands of a product of two, the only one with a column last; or None."""
    pair = by_column(term, column) if term else []
    is_pair = len(pair) == 2 and column not in free(pair[0]) and column in free(pair[1])
    return (pair[0], pair[1]) if is_pair else None


def sum_in(nest: Nest, loop: str) -> Set:
    """Return the only assignment in a loop."""
    (only,) = [s for s in walk((nest.loops[loop],)) if isinstance(s, Set)]
    return only


def reads(nest: Nest, loop: str, array: str) -> list[Read]:
    """Return the reads of an array in a loop."""
    uses = [use for use in accesses((nest.loops[loop],)) if (use.name, use.how) == (array, "read")]
    return [Read(array, use.index, nest.types[array].dtype) for use in uses if use.index]


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


def is_column(nest: Nest, name: str) -> bool:
    """Return whether neighbouring results read neighbours, while the terms of one sum are apart."""
    for loop in walk(nest.loops[name].body):
        if isinstance(loop, Loop) and total_of(loop) is not None:
            last = innermost(loop)
            terms = [s.term for s in last.body if isinstance(s, Set)]
            near = [term for term in terms if stride(nest, term, name) == 1]
            if any(stride(nest, term, last.name) not in (0, 1) for term in near):
                return True
    return False


class BlockProduct(NamedTuple):
    """A sum of products within a block of a pass."""

    array: str
    grows: bool
    """Whether the product is added to the array from block to block."""
    fold: str
    column: str
    left: Term
    right: Term
    """The operand with the columns."""


@dataclass(frozen=True)
class PassNest:
    """A nest of rows that run along an axis in blocks, with several sums and maxima."""

    path: list[str]
    block: str
    """The loop over blocks, inside the loops of the path."""
    products: list[BlockProduct]
    keys: set[str]
    """The loops that say which columns a row meets."""


def pass_of(nest: Nest) -> PassNest | None:
    """Return the parts of a nest that is a pass with sums of products and nothing else, or None."""
    path = loops_of(nest, alone=True)
    passes: list[PassNest] = []
    for block in path[-1].body if path else ():
        parts = [s for s in block.body if isinstance(s, Loop)] if isinstance(block, Loop) else []
        products = [product for part in parts if (product := _product(part)) is not None]
        if isinstance(block, Loop) and products:
            keys = {name for product in products for name in free(product.right)}
            passes.append(PassNest([loop.name for loop in path], block.name, products, keys))
    return passes[0] if len(passes) == 1 else None


def _product(part: Loop) -> BlockProduct | None:
    """Return the product that a part of a block is, or None."""
    *_, column = loops = [*perfect(part)]
    *_, end = column.body
    folds, term = summed(column.body) or ([part], None)
    if not isinstance(end, Set) or not end.index or len(folds) != 1:
        return None
    grows = term is None and len(loops) == 2 and len(column.body) == 1 and end.how == "+="
    pair = _pair(end.term if grows else term, column.name)
    return pair and BlockProduct(end.name, grows, folds[0].name, column.name, *pair)
