"""Sums of two products of neighbouring bfloat16 numbers, each lane its own.

    vector j < 16:
      for k < 2:
        t[j] += flushed(f32(x[k]) * f32(y[j, k]))

Processors have instructions for them, which take subnormal numbers as 0.
"""

from typing import NamedTuple

from luminal_lab.core.dims import Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.ops import Cast
from luminal_lab.core.ops.intrinsic import FlushedMul
from luminal_lab.kernels.definition.terms import Apply, Read, Term
from luminal_lab.kernels.nest.nest import Loop, Nest, Set, Statement
from luminal_lab.kernels.nest.sizes import slope

WIDEN = Cast(DType.float32)


class Pairs(NamedTuple):
    """What each lane adds up: a pair that all lanes share, times one of its own."""

    update: Set
    shared: Read
    own: Read


def halves_in(left: Term, right: Term, product: Term) -> list[Term]:
    """Return the bfloat16 factors of a product that takes subnormal numbers as 0, or nothing."""
    if not (isinstance(product, Apply) and isinstance(product.op, FlushedMul)):
        return []
    casts = [each for each in (left, right) if isinstance(each, Apply) and each.op == WIDEN]
    halves = [cast.args[0] for cast in casts if cast.args[0].dtype is DType.bfloat16]
    return halves if len(halves) == 2 else []


def pairs_of(nest: Nest, lanes: Symbol, statement: Statement) -> Pairs | None:
    """Return what a statement in a vector loop is, if there may be an instruction for it."""
    match statement:
        case Loop(size=2, start=0, body=(Set(how="+=", term=term) as update,)):
            factors = {}
            for read in halves_in(*term.parts, term) if len(term.parts) == 2 else ():
                if isinstance(read, Read) and nest.space_of(read.buffer) != "registers":
                    flat = nest.flat(read.buffer, read.index)
                    factors[slope(flat, lanes), slope(flat, statement.axis)] = read
            if factors.keys() == {(0, 1), (2, 1)}:
                return Pairs(update, factors[0, 1], factors[2, 1])
        case _:
            pass
    return None
