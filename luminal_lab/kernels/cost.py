"""What a definition costs at least: arithmetic, and bytes to and from memory."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from luminal_lab.core.dims import Dim, evaluate
from luminal_lab.core.op import size_of
from luminal_lab.core.ops import Cast, Mul, Where
from luminal_lab.kernels.definition import Apply, Definition, Fold, Lookup, Number, Read, Term

NO_DIMS: Mapping[str, int] = {}
Visited: TypeAlias = tuple[Term, Dim]


def flops(definition: Definition, dims: Mapping[str, int] = NO_DIMS) -> int:
    """Return how many operations on numbers the terms ask for.

    An elementwise op is one, but for casts, choices and the -1 of a - b; so is each step of a
    fold. What is written twice around the same axes counts once; guards count as if they held.

    >>> from luminal_lab.kernels.definition_text import parse_definition
    >>> text = '''kernel mm(a: f32[n, 8], b: f32[8, 4]) -> (c: f32[n, 4])
    ...   c[i < n, j < 4] = sum k < 8: a[i, k] * b[k, j]'''
    >>> flops(parse_definition(text), {"n": 10}), bytes_moved(parse_definition(text), {"n": 10})
    (640, 608)
    """
    total: Dim = 0
    for term, points in _visited(definition):
        match term:
            case Fold(size=size):
                total = total + points * size
            case Apply(op=Cast() | Where()) | Apply(op=Mul(), args=(_, Number(value=-1))):
                pass
            case Apply():
                total = total + points
            case _:
                pass
    return evaluate(total, dims)


def bytes_moved(definition: Definition, dims: Mapping[str, int] = NO_DIMS) -> int:
    """Return the bytes of all inputs that are read, each once, and of all outputs.

    Of an input that is only looked up no more elements count than there are lookups.
    """
    read: dict[str, int] = {}
    looked: dict[str, int] = {}
    for term, points in _visited(definition):
        match term:
            case Read(buffer=buffer):
                read[buffer] = evaluate(size_of(definition.types[buffer].shape), dims)
            case Lookup(buffer=buffer):
                looked[buffer] = looked.get(buffer, 0) + evaluate(points, dims)
            case _:
                pass
    total = 0
    for name, type in definition.inputs:
        whole = evaluate(size_of(type.shape), dims)
        total += read.get(name, min(whole, looked.get(name, 0))) * type.dtype.itemsize
    for output in definition.outputs:
        total += evaluate(size_of(output.type.shape), dims) * output.type.dtype.itemsize
    return total


def _visited(definition: Definition) -> Iterator[Visited]:
    """Yield each term with the number of points of the axes around it, once for the same axes."""
    for line in definition.lines:
        found: list[Visited] = []
        _visit(line.term, size_of(line.type.shape), set(), found.append)
        yield from found


def _visit(term: Term, points: Dim, seen: set[Term], found: Callable[[Visited], None]) -> None:
    if term not in seen:
        seen.add(term)
        found((term, points))
        inner, within = (
            (points * term.size, set[Term]()) if isinstance(term, Fold) else (points, seen)
        )
        for part in term.parts:
            _visit(part, inner, within, found)
