"""Substitute indices, sizes and buffers in terms; build the terms that indices alone decide."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import is_

from luminal_lab.core.dims import Dim, Shape, Symbol, both, known, substitute, symbols
from luminal_lab.core.dtypes import DType
from luminal_lab.core.ops import Cast
from luminal_lab.core.printer import unique
from luminal_lab.kernels.definition.definition import Output
from luminal_lab.kernels.definition.terms import (
    Apply,
    Count,
    Draw,
    Fold,
    FoldState,
    Guarded,
    Lookup,
    Number,
    Read,
    States,
    Term,
    axis_of,
    free,
    read_by,
    walk,
)

NO_NAMES: Mapping[str, str] = {}


def counted(at: Dim, dtype: DType) -> Term:
    """Return an index as a value."""
    return Number(at, dtype) if isinstance(at, int) else Count(at, dtype)


def guarded(holds: Dim, term: Term) -> Term:
    """Return a term where a condition holds, else 0; nested conditions become one."""
    if isinstance(term, Guarded):
        holds, term = both(holds, term.holds), term.term
    if holds == 0:
        return Number(0, term.dtype)
    return term if known(holds) else Guarded(holds, term)


def rebuilt(
    term: Term,
    located: Callable[[Dim], Dim],
    part: Callable[[Term], Term],
    buffers: Mapping[str, str] = NO_NAMES,
) -> Term:
    """Return a term other than a fold with other indices, parts and names of buffers.

    What stays as it is remains the same object, whose hash and symbols are known.
    """
    match term:
        case Read(buffer=buffer, index=index, dtype=dtype):
            name, new_index = buffers.get(buffer, buffer), tuple(map(located, index))
            is_same = name == buffer and new_index == index
            return term if is_same else Read(name, new_index, dtype)
        case Lookup(buffer=buffer, index=index, axis=axis, size=size, dtype=dtype):
            name, new_index = buffers.get(buffer, buffer), tuple(map(located, index))
            return Lookup(name, new_index, axis, part(term.position), located(size), dtype)
        case Count(at=at, dtype=dtype):
            return counted(located(at), dtype)
        case Draw(seed=seed, stream=stream, at=at):
            return Draw(seed, stream, located(at))
        case Guarded(holds=holds, term=inner):
            return guarded(located(holds), part(inner))
        case Apply(op=op, args=args, dtype=dtype):
            new = tuple(map(part, args))
            return term if all(map(is_, new, args)) else Apply(op, new, dtype)
        case _:
            return term


def _same(dim: Dim) -> Dim:
    return dim


def exchanged(
    term: Term,
    change: Callable[[Term], Term | None],
    located: Callable[[Dim], Dim] = _same,
    buffers: Mapping[str, str] = NO_NAMES,
) -> Term:
    """Return a term with parts replaced wherever `change` has any; axes of folds keep their names.

    Elsewhere it gets other indices, and names of buffers.
    """
    return exchanging(change, located, buffers)(term)


def exchanging(
    change: Callable[[Term], Term | None],
    located: Callable[[Dim], Dim] = _same,
    buffers: Mapping[str, str] = NO_NAMES,
) -> Callable[[Term], Term]:
    """Return a function that exchanges parts of terms.

    Parts that terms share stay shared: written out, a term may be too long for any memory.
    """
    done: dict[int, tuple[Term, Term]] = {}

    def part(inner: Term) -> Term:
        if id(inner) not in done:
            new = change(inner)
            if new is None and isinstance(inner, Fold):
                new = inner.over(inner.axis, inner.size, part)
            # The old term is kept as well, so that no other term gets its id.
            done[id(inner)] = inner, new or rebuilt(inner, located, part, buffers)
        return done[id(inner)][1]

    return part


def replaced(term: Term, values: Mapping[str, Dim], buffers: Mapping[str, str] = NO_NAMES) -> Term:
    """Return a term with symbols, by name, replaced by dims, and buffers by others.

    A fold whose axis has the name of a symbol that comes in renames its axis.
    """
    return _replacing(values, buffers)(term)


def _replacing(values: Mapping[str, Dim], buffers: Mapping[str, str]) -> Callable[[Term], Term]:
    def located(dim: Dim) -> Dim:
        return substitute(dim, values)

    def fold(term: Term) -> Term | None:
        if not isinstance(term, Fold):
            return None
        name = term.axis.name
        inner = {key: value for key, value in values.items() if key != name}
        coming = {symbol.name for value in inner.values() for symbol in symbols(value)}
        if name in coming:
            within = {body.axis.name for body in walk(term) if isinstance(body, Fold)}
            name = unique(name, {*coming, *within, *values, *free(term)})
        size = located(term.size)
        axis = axis_of(name, size)
        if axis != term.axis:
            inner[term.axis.name] = axis
        if not inner and not buffers:
            return term
        return term.over(axis, size, _replacing(inner, buffers))

    return exchanging(fold, located, buffers)


def stated(term: Term, ends: Mapping[str, Term]) -> Term:
    """Return a term with the values of a pass, by name, replaced by their final values."""

    def part(inner: Term) -> Term | None:
        match inner:
            case FoldState(name=name):
                return ends.get(name)
            case Fold(states=States(names=own)):
                bound = {state.name for state in own}
                rest = {name: end for name, end in ends.items() if name not in bound}
                if len(rest) < len(ends):
                    return inner.over(inner.axis, inner.size, lambda of: stated(of, rest))
            case _:
                pass
        return None

    return exchanged(term, part)


def restated(fold: Fold, names: Sequence[str]) -> Fold:
    """Return a pass whose values have other names, which must be free."""
    assert fold.states is not None
    old, start, following = fold.states
    new = tuple([FoldState(name, state.dtype) for name, state in zip(names, old, strict=True)])
    ends: dict[str, Term] = {state.name: to for state, to in zip(old, new, strict=True)}
    states = States(new, start, tuple([stated(term, ends) for term in following]))
    return replace(fold, states=states, body=stated(fold.body, ends))


def element(output: Output, index: Shape) -> Term:
    """Return the term of one element of an array."""
    return replaced(
        output.term,
        {axis.name: position for axis, position in zip(output.axes, index, strict=True)},
    )


def used(outputs: Iterable[Output], locals_: Sequence[Output]) -> list[Output]:
    """Return the locals that are read, in order."""
    wanted = read_by(*(output.term for output in outputs))
    reached: list[Output] = []
    for local in reversed(locals_):
        if local.name in wanted:
            reached.append(local)
            wanted |= read_by(local.term)
    return reached[::-1]


def looked_up(term: Term, at: Symbol, size: Dim, position: Term) -> Term | None:
    """Return a term at a position that is a value; None if an index does arithmetic with it."""
    if isinstance(position, (Number, Count)):
        position_of = int(position.value) if isinstance(position, Number) else position.at
        if known(both(position_of >= 0, position_of < size)):
            return replaced(term, {at.name: position_of})
    mentions = [
        (part, [axis for axis, position_of in enumerate(part.places) if at in symbols(position_of)])
        for part in walk(term)
    ]
    # A value can replace an index only if the index is the position alone, once.
    plain = all(
        not axes
        or (isinstance(part, (Read, Count)) and len(axes) == 1 and part.places[axes[0]] == at)
        for part, axes in mentions
    )

    def change(part: Term) -> Term | None:
        match part:
            case Read(buffer=buffer, index=index, dtype=dtype) if at in index:
                axis = index.index(at)
                rest = (*index[:axis], 0, *index[axis + 1 :])
                return Lookup(buffer, rest, axis, position, size, dtype)
            case Count(at=dim, dtype=dtype) if dim == at:
                return Apply(Cast(dtype), (position,), dtype)
            case _:
                return None

    return exchanged(term, change) if plain else None
