"""What heuristics ask of nests before sizes are known: how large, how much work, how far apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from luminal_lab.core.dims import Dim, Symbol, evaluate_float, substitute, symbols
from luminal_lab.core.dims.expression import Atom, Negative, terms_of
from luminal_lab.core.ops.intrinsic import Intrinsic
from luminal_lab.core.views import row_major
from luminal_lab.kernels.definition.cost import COSTLY
from luminal_lab.kernels.definition.terms import Apply, Term, walk as walk_terms
from luminal_lab.kernels.nest.nest import Block, Loop, Nest, Set, reads_of

USUAL = 1024
"""What a dim without a number is taken to be."""
MANY = 1 << 20
"""What a dim without a bound may well become."""


def about(dim: Dim) -> float:
    """Return roughly how large a dim will be."""
    return _size(dim, _usual)


def at_most(dim: Dim) -> float:
    """Return how large a dim may well become."""
    return _size(dim, _most)


def _size(dim: Dim, likely: Callable[[Symbol], int]) -> float:
    """Return a size in the first iteration of loops around, with some value for each dim."""
    values = {s.name: float(likely(s)) for s in symbols(dim)}
    first = {s.name: 0.0 for s in symbols(dim) if s.low == 0 and s.high is not None}
    # A dim may have the bounds of an axis; then there is nothing in the first of its iterations.
    return evaluate_float(dim, values | first) or evaluate_float(dim, values)


def _most(symbol: Symbol) -> int:
    return symbol.high if isinstance(symbol.high, int) else MANY


def _usual(symbol: Symbol) -> int:
    return min(USUAL, symbol.high) if isinstance(symbol.high, int) else USUAL


def work_of(body: Block, size_of: Callable[[Dim], float] = about) -> float:
    """Return roughly how many elements a block handles, a costly one counted as several."""
    total = 0.0
    for one in body:
        match one:
            case Loop(size=size, body=inner):
                total += size_of(size) * work_of(inner, size_of)
            case Set(term=term):
                total += 1 + 4 * sum(map(_is_costly, walk_terms(term)))
            case _:
                pass
    return total


def _is_costly(term: Term) -> bool:
    """Return whether a term takes about as long as four others, as every call of C's maths may."""
    return isinstance(term, Apply) and (isinstance(term.op, Intrinsic) or term.op.cost >= COSTLY)


def perfect(loop: Loop) -> Iterator[Loop]:
    """Yield loops that are one right in the other."""
    yield loop
    while len(loop.body) == 1 and isinstance(loop.body[0], Loop):
        loop = loop.body[0]
        yield loop


def stride(nest: Nest, term: Term, axis: str) -> Dim | None:
    """Return how far apart the neighbours along an axis are that a term reads; None: it differs."""
    found: set[Dim] = set()
    for name, index in reads_of(term):
        if index is None:
            return None
        flat = row_major(nest.types[name].shape, index)
        known = {s.name: s for s in symbols(flat)}
        step = substitute(flat, {axis: known[axis] + 1}) - flat if axis in known else 0
        found.add(step)
    found.discard(0)
    if not found:
        return 0
    return found.pop() if len(found) == 1 else None


def atoms(dims: Iterable[Dim]) -> Iterator[Atom]:
    """Yield all that dims are made of."""
    for dim in dims:
        for monomial, _ in terms_of(dim):
            for atom in monomial:
                yield atom
                inner = (atom.x,) if isinstance(atom, Negative) else atom.arguments
                yield from atoms(inner)


def names_in(dim: Dim) -> set[str]:
    """Return the names of the symbols of a dim."""
    return {s.name for s in symbols(dim)}
