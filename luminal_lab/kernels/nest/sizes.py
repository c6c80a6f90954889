"""What heuristics ask about nests before sizes are known: sizes, work, distances in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from math import inf, prod
from typing import Protocol

from luminal_lab.core.dims import Dim, Symbol, evaluate_float, substitute, symbols
from luminal_lab.core.dims.expression import Atom, Division, Negative, Quotient, products
from luminal_lab.core.op import size_of
from luminal_lab.core.ops.intrinsic import Intrinsic
from luminal_lab.kernels.definition.cost import COSTLY
from luminal_lab.kernels.definition.substitution import replaced
from luminal_lab.kernels.definition.terms import (
    Apply,
    Guarded,
    Read,
    Term,
    axis_of,
    walk as walk_terms,
)
from luminal_lab.kernels.nest.nest import (
    Block,
    Local,
    Loop,
    Nest,
    Set,
    accesses,
    alone,
    every,
    reads_of,
)

USUAL = 1024
"""The assumed value of a dim without a number."""
MANY = 1 << 20
"""The likely largest value of a dim without a bound."""


class SizedLoop(Protocol):
    """A loop, or a handle of a loop."""

    @property
    def size(self) -> Dim:
        """How many iterations it has."""
        ...


def about(dim: Dim) -> float:
    """Return roughly how large a dim will be."""
    return _size(dim, _usual)


def at_most(dim: Dim) -> float:
    """Return the likely largest value of a dim."""
    return _size(dim, _most)


def _size(dim: Dim, likely: Callable[[Symbol], int]) -> float:
    """Return a size in the first iteration of the loops around, with some value for each dim."""
    values = {s.name: float(likely(s)) for s in symbols(dim)}
    first = {s.name: 0.0 for s in symbols(dim) if s.low == 0 and s.high is not None}
    # A dim may have the bounds of an axis; its first iteration is then empty.
    size = evaluate_float(dim, values | first) or evaluate_float(dim, values)
    if size >= 0:
        return size
    # It shrinks as a dim grows, which is then smaller than is usual.
    return max(evaluate_float(dim, {s.name: float(s.low) for s in symbols(dim)}), 0.0)


def _most(symbol: Symbol) -> int:
    return symbol.high if isinstance(symbol.high, int) else MANY


def _usual(symbol: Symbol) -> int:
    return min(USUAL, symbol.high) if isinstance(symbol.high, int) else USUAL


def work_of(body: Block, size_of: Callable[[Dim], float] = about) -> float:
    """Return roughly how many elements a block handles; a costly element counts as several."""
    total = 0.0
    for statement in body:
        match statement:
            case Loop(start=start, size=size, body=inner):
                total += size_of(size - start) * work_of(inner, size_of)
            case Set(term=term):
                total += 1 + 4 * sum(map(_is_costly, walk_terms(term)))
            case _:
                pass
    return total


def _is_costly(term: Term) -> bool:
    """Return whether a term takes about as long as four others, as calls of C's maths may."""
    return isinstance(term, Apply) and (isinstance(term.op, Intrinsic) or term.op.cost >= COSTLY)


def perfect(loop: Loop) -> Iterator[Loop]:
    """Yield loops that are nested without statements between them."""
    inner: Loop | None = loop
    while inner is not None:
        yield inner
        inner = alone(inner.body, Loop)


@lru_cache(1 << 14)
def slope(dim: Dim, axis: Symbol) -> Dim:
    """Return how much a dim grows from one position along an axis to the next."""
    return substitute(dim, {axis.name: axis + 1}) - dim


def stride(nest: Nest, term: Term, axis: str) -> Dim | None:
    """Return the distance between neighbours along an axis in a term; None if it differs."""
    strides: set[Dim] = set()
    for name, index in reads_of(term):
        if index is None:
            return None
        flat = nest.flat(name, index)
        strides |= {slope(flat, symbol) for symbol in symbols(flat) if symbol.name == axis}
    strides.discard(0)
    if not strides:
        return 0
    return strides.pop() if len(strides) == 1 else None


def is_turned(nest: Nest, outer: Loop, inner: Loop, lines: int) -> bool:
    """Return whether an inner loop reads more than so many lines, and the outer one along them."""
    if len(inner.body) != 1 or not isinstance(inner.body[0], Set) or inner.body[0].how != "=":
        return False
    far, near = (stride(nest, inner.body[0].term, loop.name) for loop in (inner, outer))
    return far not in (0, 1, None) and near == 1 and about(inner.size) > lines


RUN = 16
"""So many neighbours are a row; smaller groups are taken only if there are no others."""


def is_along(nest: Nest, term: Term, axis: str) -> bool:
    """Return whether neighbours along an axis lie side by side in memory, in long groups if any."""
    size = group_of(axis, term)
    if 0 < size < RUN:
        return False
    if size:
        own = axis_of(f"{axis}.each", size)
        term = replaced(term, {axis: size * Symbol(f"{axis}.group", 0) + own})
        axis = own.name
    reads = [Read(name, at, nest.types[name].dtype) for name, at in reads_of(term) if at]
    strides = [stride(nest, read, axis) for read in reads]
    return 1 in strides and all(step in (0, 1) for step in strides)


def groups_of(loop: str, *terms: Term, least: int = RUN) -> list[int]:
    """Return how many neighbours along a loop share values (scales, say): groups within groups.

    Those of fewer than `least` count only if there are no others.
    """
    dims = [dim for part in walk_terms(*terms) for dim in part.places]
    found = [atom for atom in atoms(dims) if isinstance(atom, Quotient)]
    sizes = {a.d for a in found if isinstance(a.x, Symbol) and a.x.name == loop}
    known = sorted(size for size in sizes if isinstance(size, int))
    first = next((size for size in known if size >= least), min(known, default=0))
    groups = [size for size in known if size >= first]
    return [] if any(size % first for size in groups) else groups


def group_of(loop: str, term: Term) -> int:
    """Return how many neighbours along a loop share a value at least; 0 if none do."""
    return next(iter(groups_of(loop, term)), 0)


def atoms(dims: Iterable[Dim]) -> Iterator[Atom]:
    """Yield the atoms of dims, those within others too."""
    for dim in dims:
        for _, parts in products(dim):
            for atom in parts:
                yield atom
                inner = (atom.x,) if isinstance(atom, Negative) else atom.arguments
                yield from atoms(inner)


def divisors_of(dims: Iterable[Dim], axis: str) -> Iterator[int]:
    """Yield by what an axis is divided wherever dims have it: 1 where it is not.

    >>> i = Symbol("i", 0, 24)
    >>> [*divisors_of([i // 5 + 1, i % 5, i + 2], "i")]
    [5, 5, 1]
    """
    for dim in dims:
        for _, parts in products(dim):
            for atom in parts:
                match atom:
                    case Symbol(name=name):
                        yield from [1] * (name == axis)
                    case Division(x=Symbol(name=name), d=int(by)) if name == axis:
                        yield by
                    case Negative(x=x):
                        yield from divisors_of((x,), axis)
                    case _:
                        yield from divisors_of(atom.arguments, axis)


def names_in(dim: Dim) -> set[str]:
    """Return the names of the symbols of a dim."""
    return {s.name for s in symbols(dim)}


def divides(nest: Nest, axis: str) -> bool:
    """Return whether an axis is divided where arrays are read or written, or in a condition."""
    for access in accesses((nest.loops[axis],)):
        dims = [
            part.holds for part in walk_terms(access.statement.term) if isinstance(part, Guarded)
        ]
        if access.index is None:
            return True
        dims.append(nest.flat(access.name, access.index))
        if any(isinstance(atom, Division) and axis in names_in(atom) for atom in atoms(dims)):
            return True
    return False


# -- loops and arrays ------------------------------------------------------------------------------


def is_plain(loop: Loop) -> bool:
    """Return whether a loop contains only assignments."""
    return all(isinstance(statement, Set) for statement in loop.body)


def innermost(loop: Loop) -> Loop:
    """Return the innermost of perfectly nested loops."""
    return [*perfect(loop)][-1]


def iterations(loops: Iterable[SizedLoop]) -> Dim:
    """Return the product of the loops' sizes."""
    count: Dim = 1
    for loop in loops:
        count = count * loop.size
    return count


def width_of(nest: Nest, name: str, most: int) -> int:
    """Return how many neighbours along a loop one access of `most` bytes covers."""
    loop = nest.loops[name]
    if not is_plain(innermost(loop)):
        return 1
    sizes: list[int] = []
    for access in accesses(loop.body):
        if access.index:
            dtype = nest.types[access.name].dtype
            if stride(nest, Read(access.name, access.index, dtype), name) == 1:
                sizes.append(dtype.itemsize)
    width = min(8, most // max(sizes, default=most))
    while width > 1 and loop.size % width != 0:
        width //= 2
    return width


def bytes_of(local: Local) -> float:
    """Return how many bytes an array has; infinitely many if that is unknown before it runs."""
    size = size_of(local.type.shape)
    return size * local.type.dtype.itemsize if isinstance(size, int) else inf


def bytes_in(body: Block, space: str) -> float:
    """Return the total bytes of the arrays in one memory space."""
    arrays = [statement for statement in every(body, Local) if statement.space == space]
    return sum(map(bytes_of, arrays))


def many(loops: Iterable[SizedLoop]) -> float:
    """Return roughly the product of the loops' sizes."""
    return prod(about(loop.size) for loop in loops)
