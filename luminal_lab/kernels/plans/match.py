"""What plans ask of a nest: its independent axes, its sums, the distance of neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from luminal_lab.core.ops import Mul
from luminal_lab.kernels.definition.terms import Apply, Read, Term, free, read_by
from luminal_lab.kernels.nest.nest import Block, Local, Loop, Nest, Set, accesses, reads_of, walk
from luminal_lab.kernels.nest.sizes import innermost, perfect, stride
from luminal_lab.kernels.steps.step import private


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


def contraction_of(nest: Nest) -> Contraction | None:
    """Return the parts of a nest that is a contraction and nothing else, or None."""
    loops = loops_of(nest, alone=True)
    total = summed(loops[-1].body) if loops else None
    if total is None:
        return None
    folds, term = total
    last = loops[-1].name
    pair = by_column(term, last)
    if len(pair) != 2 or last in free(pair[0]) or last not in free(pair[1]):
        return None
    left_axes, right_axes = (set(free(factor)) for factor in pair)
    if any(fold.name not in left_axes & right_axes for fold in folds):
        return None
    own = left_axes - right_axes
    positions = [position for position, loop in enumerate(loops) if loop.name in own]
    if not positions:
        return None
    rows = _run(loops, positions[-1], own)
    columns = _run(loops, len(loops) - 1, right_axes - left_axes)
    return Contraction(loops, rows, columns, folds, *pair)


def summed(body: Block) -> tuple[list[Loop], Term] | None:
    """Return the loops and the term of the one sum in a body, which starts at 0."""
    if len(body) != 4 or not isinstance(body[0], Local):
        return None
    _, start, loop, end = body
    if not (isinstance(start, Set) and isinstance(loop, Loop) and isinstance(end, Set)):
        return None
    folds = [*perfect(loop)]
    inner = folds[-1].body
    if len(inner) != 1 or not isinstance(inner[0], Set) or inner[0].how != "+=":
        return None
    return folds, inner[0].term


def operands(nest: Nest, k: str) -> tuple[Term, Term]:
    """Return the two factors in a loop's sum; the second has the last axis of the result."""
    left, right = by_column(sum_in(nest, k).term, loops_of(nest)[-1].name)
    return left, right


def by_column(term: Term, column: str) -> list[Term]:
    """Return the factors of a product that read arrays, those with a column last."""
    operands = [factor for factor in factors(term) if read_by(factor)]
    return sorted(operands, key=lambda factor: column in free(factor))


def sum_in(nest: Nest, loop: str) -> Set:
    """Return the only assignment in a loop."""
    (only,) = [s for s in walk((nest.loops[loop],)) if isinstance(s, Set)]
    return only


def reads(nest: Nest, loop: str, array: str) -> list[Read]:
    """Return the reads of an array in a loop."""
    uses = [use for use in accesses((nest.loops[loop],)) if (use.name, use.how) == (array, "read")]
    return [Read(array, use.index, nest.types[array].dtype) for use in uses if use.index]


def loops_of(nest: Nest, *, alone: bool = False) -> list[Loop]:
    """Return the perfectly nested loops that a nest ends in, or that are all of it."""
    tops = [s for s in nest.body if not isinstance(s, Local)]
    last = tops[-1] if len(tops) == 1 or (tops and not alone) else None
    return [*perfect(last)] if isinstance(last, Loop) else []


def factors(term: Term) -> Iterator[Term]:
    """Yield the factors of a product."""
    if isinstance(term, Apply) and isinstance(term.op, Mul):
        for arg in term.args:
            yield from factors(arg)
    else:
        yield term


def array_of(term: Term) -> str:
    """Return the first array that a term reads."""
    return next(iter(reads_of(term)))[0]


def _run(loops: list[Loop], end: int, axes: set[str]) -> list[Loop]:
    """Return the consecutive loops up to a position whose axes one operand alone has."""
    first = end
    while first and loops[first - 1].name in axes:
        first -= 1
    return loops[first : end + 1]


def total_of(loop: Loop) -> str | None:
    """Return the scalar that a loop adds to, if it writes nothing else."""
    inside = private(loop.body)
    used = [use for use in accesses(loop.body) if use.name not in inside]
    written = {use.name for use in used if use.how != "read"}
    if len(written) != 1:
        return None
    (name,) = written
    hows = {use.how for use in used if use.name == name}
    indices = {use.index for use in used if use.name == name}
    return name if hows in ({"+="}, {"max="}) and indices == {()} else None


def is_column(nest: Nest, name: str) -> bool:
    """Return whether neighbouring results read neighbours, and the terms of one sum lie apart."""
    for loop in walk(nest.loops[name].body):
        if isinstance(loop, Loop) and total_of(loop) is not None:
            last = innermost(loop)
            terms = [s.term for s in last.body if isinstance(s, Set)]
            near = [term for term in terms if stride(nest, term, name) == 1]
            if any(stride(nest, term, last.name) not in (0, 1) for term in near):
                return True
    return False


class AttentionNest(NamedTuple):
    """A nest of rows that are means weighted by scores: products, one block at a time."""

    path: list[str]
    """The loops around blocks of keys; the last runs over the rows."""
    block: str
    keys: frozenset[str]
    """The loops that say which keys a row has."""
    scores: str
    """The array of scores of a block; then the loops of the product that computes them."""
    column: str
    fold: str
    mean: str
    """The array of the mean so far; then the loops over keys and columns that add to it."""
    key: str
    feature: str


def attention_of(nest: Nest) -> AttentionNest | None:
    """Return the parts of a nest that is an attention and nothing else, or None."""
    around = loops_of(nest, alone=True)
    inside = around[-1].body if around else ()
    blocks = [s for s in inside if isinstance(s, Loop) and _is_block(s)]
    parts = [[*perfect(s)] for block in blocks for s in block.body if isinstance(s, Loop)]
    if len(blocks) != 1 or len(parts) < 2 or len(parts[-1]) != 2:
        return None
    column, (key, feature) = parts[0][-1], parts[-1]
    total, end, mixed = summed(column.body), column.body[-1], feature.body[-1]
    if total is None or not isinstance(end, Set) or not isinstance(mixed, Set):
        return None
    (fold, *others), pair = total[0], by_column(total[1], column.name)
    if others or len(pair) != 2 or mixed.how != "+=":
        return None
    if column.name in free(pair[0]) or column.name not in free(pair[1]):
        return None
    names = column.name, fold.name, mixed.name, key.name, feature.name
    path, keys = [loop.name for loop in around], frozenset(free(pair[1]))
    return AttentionNest(path, blocks[0].name, keys, end.name, *names)


def _is_block(loop: Loop) -> bool:
    """Return whether a loop takes the maximum of scores that it computes itself."""
    own = {s.name for s in loop.body if isinstance(s, Local)}
    return [use.name in own for use in accesses(loop.body) if use.how == "max="].count(True) == 1
