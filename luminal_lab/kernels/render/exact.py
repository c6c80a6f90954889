"""Which 16-bit floats of a nest are rounded op by op: whatever decides where a value jumps.

    m max= x[i] * b[i] + c[i] * d              m is the largest of these sums,
    k = where(x[i] * b[i] + c[i] * d < m, …)   and one of them is not less than m

Kernels compute in float32, and round to 16 bits when a value is stored. Of two values that should
be equal, one is less if it was stored on the way and the other was not: the maximum then equals
none of the values. So the arguments of ops that jump, and those of maxima, are rounded after each
op, here and in all other kernels. Sums over axes stay as they are: a kernel that compares them does
not recompute them.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TypeAlias

from luminal_lab.core.ops import Cast
from luminal_lab.kernels.definition.terms import Apply, Lookup, Read, Term, walk
from luminal_lab.kernels.nest.nest import Nest, Set

Terms: TypeAlias = AbstractSet[Term]


def jumps(term: Term) -> bool:
    """Return whether a term may change a lot when its arguments change a little."""
    if not isinstance(term, Apply) or not term.args[0].dtype.is_float:
        return False
    is_whole = isinstance(term.op, Cast) and not term.dtype.is_float
    return is_whole or term.op.slope == "jumps"


def exact_names(nest: Nest, compared: AbstractSet[str] = frozenset()) -> AbstractSet[str]:
    """Return the arrays whose elements decide where something jumps.

    Among the results these are the ones that other kernels compare.
    """
    sets = [update for update in nest.statements if isinstance(update, Set)]
    names = set(compared)
    todo = sets
    while todo:
        known = len(names)
        for update in todo:
            terms = exact_terms(update, names)
            names |= {part.buffer for part in terms if isinstance(part, (Read, Lookup))}
        todo = sets if len(names) > known else []
    return names


def exact_terms(update: Set, names: AbstractSet[str]) -> Terms:
    """Return which terms of a statement must be exact if these arrays must be."""
    exact: set[Term] = set()
    for part in walk(update.term):
        if jumps(part):
            exact.update(walk(*part.parts))
    if update.how == "max=" or (update.how == "=" and update.name in names):
        exact.update(walk(update.term))
    return exact
