"""The least cost of a definition: arithmetic, and bytes to and from memory."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from luminal_lab.core.dims import Dim, Symbol, bounds, evaluate, symbols
from luminal_lab.core.op import size_of
from luminal_lab.core.ops import Bitcast, Cast, Mul, Where
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.running import running
from luminal_lab.kernels.definition.terms import (
    Apply,
    Fold,
    Lookup,
    Number,
    Read,
    Term,
    free,
)

NO_DIMS: Mapping[str, int] = {}
COSTLY = 5
"""From this cost on, computing an op twice is a waste."""
TYPICAL = 512
"""The size assumed for a dim before it is known."""
Visited: TypeAlias = tuple[Term, Dim]


def flops(
    definition: Definition, dims: Mapping[str, int] = NO_DIMS, *, floats: bool = False
) -> int:
    """Return how many operations on numbers the terms ask for, or how many make floats.

    An elementwise op counts as one, except casts, choices and the -1 of a - b; so does each step of
    a fold, and sums of sums are one. What is written twice around the same axes counts once; guards
    count as if they held.

    >>> from luminal_lab.kernels.definition.text import parse_definition
    >>> text = '''kernel mm(a: f32[n, 8], b: f32[8, 4]) -> (c: f32[n, 4])
    ...   c[i < n, j < 4] = sum k < 8: a[i, k] * b[k, j]'''
    >>> flops(parse_definition(text), {"n": 10}), bytes_moved(parse_definition(text), {"n": 10})
    (640, 608)
    """
    return evaluate(open_flops(definition, floats=floats), dims)


def open_flops(definition: Definition, *, floats: bool = False) -> Dim:
    """Return how many operations on numbers the terms ask for, or make floats, for any sizes.

    >>> from luminal_lab.kernels.definition.text import parse_definition
    >>> text = '''kernel sums(a: f32[n, 8]) -> (b: f32[n])
    ...   b[i < n] = sum k < 8: a[i, k]'''
    >>> open_flops(parse_definition(text))
    8*n
    """
    total: Dim = 0
    for term, points in _visited(definition):
        if floats and not term.dtype.is_float:
            continue
        match term:
            case Fold(states=None, kind=kind, body=Fold(states=None, kind=inner)) if kind == inner:
                pass  # a sum of sums is one sum
            case Fold(states=None, size=size):
                total = total + points * size
            case (
                Apply(op=Cast() | Bitcast() | Where()) | Apply(op=Mul(), args=(_, Number(value=-1)))
            ):
                pass
            case Apply():
                total = total + points
            case _:
                pass
    return total


def bytes_moved(definition: Definition, dims: Mapping[str, int] = NO_DIMS) -> int:
    """Return the bytes of what is read of all inputs, each once, and of all outputs.

    Of an input, at most as many elements count as there are places along the axes of its indices:
    of a cache, the rows that are filled, and of a table, those that are looked up.
    """
    read: dict[str, int] = {}
    for term, points in _visited(definition):
        if isinstance(term, (Read, Lookup)):
            read[term.buffer] = read.get(term.buffer, 0) + evaluate(points, dims)
    total = 0
    for name, type in definition.inputs:
        whole = evaluate(size_of(type.shape), dims)
        total += min(whole, read.get(name, 0)) * type.dtype.itemsize
    for output in definition.outputs:
        total += evaluate(size_of(output.type.shape), dims) * output.type.dtype.itemsize
    return total


def typical(dim: Dim) -> int:
    """Return a size as a number: for a symbol 512, or the nearest value that its bounds allow."""
    return dim if isinstance(dim, int) else evaluate(dim, {s.name: _near(s) for s in symbols(dim)})


def _near(symbol: Symbol) -> int:
    low, high = bounds(symbol)
    value = max(TYPICAL, low or 0) if high is None else min(max(TYPICAL, low or 0), high)
    return value // symbol.multiple_of * symbol.multiple_of or symbol.multiple_of


def amount(size: Dim) -> str:
    """Write a number of bytes as people do; an unknown one as it is.

    >>> amount(12), amount(3 * 2**20), amount(8 * Symbol("n"))
    ('12 bytes', '3.15 MB', '8*n bytes')
    """
    if not isinstance(size, int):
        return f"{size} bytes"
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} bytes"


def _visited(definition: Definition) -> Iterator[Visited]:
    """Yield each term with the number of points of the axes around it, once for the same axes.

    Those of what is read are the axes of its index.
    """
    for line in definition.lines:
        visited: list[Visited] = []
        sizes = dict(zip((axis.name for axis in line.axes), line.type.shape, strict=True))
        _visit(line.term, sizes, set(), visited.append)
        yield from visited


def _visit(
    term: Term, sizes: Mapping[str, Dim], seen: set[Term], visit: Callable[[Visited], None]
) -> None:
    if term in seen:
        return
    seen.add(term)
    around = free(term) if isinstance(term, (Read, Lookup)) else sizes
    visit((term, size_of([size for name, size in sizes.items() if name in around])))
    if not isinstance(term, Fold):
        for part in term.parts:
            _visit(part, sizes, seen, visit)
    elif term.states is None:
        _visit(term.body, {**sizes, term.axis.name: term.size}, set(), visit)
    else:
        _visit(term.body, sizes, seen, visit)
        _visit_pass(term, sizes, visit)


def _visit_pass(fold: Fold, sizes: Mapping[str, Dim], visit: Callable[[Visited], None]) -> None:
    """Visit the values of a pass, each around the axes that it mentions; scaling them is free."""
    assert fold.states is not None
    values = running(fold)
    terms = [value.term for value in values] or fold.states.next
    seen: set[Term] = set()
    for term in terms:
        own = {name: sizes[name] for name in free(term) if name in sizes}
        if values:
            visit((Fold("sum", fold.axis, fold.size, term, term.dtype), size_of([*own.values()])))
        _visit(term, {**own, fold.axis.name: fold.size}, seen, visit)
