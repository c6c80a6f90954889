"""Passes whose values a block of positions can share: running maxima, and sums that follow them.

    m ← maximum(m, s[j])
    l ← l * exp2((m - m') * 1.44) + exp2((s[j] - m') * 1.44)        m' is the new m

When a maximum grows, a sum is scaled by the power of 2 by which the later terms are smaller. So a
block needs only one scaling, by the growth of the maximum over all of it, and so do two parts of an
axis that are joined. The exponents, which are sums of maxima and other terms, show that this holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Elementwise
from luminal_lab.core.ops import Add, Exp2, Mul
from luminal_lab.core.ops.intrinsic import Exp, FusedMul, Maximum
from luminal_lab.kernels.definition.definition import Definition, Output
from luminal_lab.kernels.definition.substitution import element, exchanged, used
from luminal_lab.kernels.definition.terms import (
    Apply,
    Fold,
    FoldState,
    Lookup,
    Number,
    Read,
    Term,
    free,
    passes,
    read_by,
    walk,
)

LOWEST = {DType.float32: float(np.finfo(np.float32).min), DType.float64: float(np.finfo(float).min)}
"""The lowest finite number: the start of a maximum that sums follow."""

Linear: TypeAlias = Mapping[Term, float]
"""The terms of a sum, each with its factor."""


class Running(NamedTuple):
    """A value of a pass: a maximum or a sum."""

    state: FoldState
    start: Term
    term: Term
    """What a position adds, by the new maxima (`after`)."""
    is_sum: bool = True
    ratio: Term | None = None
    """What scales the earlier sum, by the old maxima and the new ones."""
    weights: tuple[Term, ...] = ()
    """The factors of the term that mention maxima."""

    @property
    def others(self) -> tuple[Term, ...]:
        """The factors of the term that mention no maximum."""
        return tuple(factor for factor in factors(self.term) if factor not in self.weights)


def after(state: FoldState) -> FoldState:
    """Return what stands for a new value in the terms of other values."""
    return FoldState(f"{state.name}'", state.dtype)


def running(fold: Fold) -> tuple[Running, ...]:
    """Return the values of a pass if blocks of positions can share them; otherwise nothing."""
    assert fold.states is not None
    known: dict[Term, FoldState] = {}
    old: dict[Term, FoldState] = {}
    values: list[Running] = []
    for state, start, term in zip(*fold.states, strict=True):
        value = _value(state, start, exchanged(term, known.get), old)
        if value is None:
            return ()
        if not value.is_sum:
            known[term] = after(state)
            old[after(state)] = state
        values.append(value)
    return tuple(values)


def factors(term: Term) -> Iterator[Term]:
    """Yield the factors of a product."""
    if isinstance(term, Apply) and isinstance(term.op, (Mul, FusedMul)):
        for arg in term.args:
            yield from factors(arg)
    else:
        yield term


def by_column(term: Term, column: str) -> list[Term]:
    """Return the factors of a product that read arrays, those with a column last."""
    operands = [part for part in _factors_by(term, column) if read_by(part)]
    return sorted(operands, key=lambda factor: column in free(factor))


def _factors_by(term: Term, column: str) -> Iterator[Term]:
    """Yield the factors of a product; one whose factors all have a column is one of them."""
    each = [*factors(term)]
    if len(each) == 1 or all(column in free(factor) for factor in each):
        yield term
        return
    for half in term.parts:
        yield from _factors_by(half, column)


def _value(
    state: FoldState, start: Term, term: Term, old: Mapping[Term, FoldState]
) -> Running | None:
    match term:
        case Apply(op=Maximum(), args=(before, new)) if before == state and not _states(new):
            return Running(state, start, new, is_sum=False)
        case Apply(op=Add(), args=(before, new)) if before == state and not _states(new):
            return Running(state, start, new)
        case Apply(op=Add(), args=(Apply(op=Mul(), args=(before, ratio)), new)):
            weights = tuple(factor for factor in factors(new) if _states(factor))
            if before == state and _follows(ratio, weights, old):
                return Running(state, start, new, ratio=ratio, weights=weights)
        case _:
            pass
    return None


def _follows(ratio: Term, weights: tuple[Term, ...], old: Mapping[Term, FoldState]) -> bool:
    """Return whether a ratio is the factor of the weights when maxima change."""
    for op in Exp2, Exp:
        scale, weight = _exponent(op, factors(ratio)), _exponent(op, weights)
        if scale is not None and weight is not None:
            new = {part: by for part, by in weight.items() if _states(part)}
            if not new.keys() <= old.keys():
                return False
            return scale == {**new, **{old[part]: -by for part, by in new.items()}}
    return False


def _exponent(op: type[Elementwise], powers: Iterable[Term]) -> Linear | None:
    """Return the exponent of a product of powers, or None if a factor is not such a power."""
    total: dict[Term, float] = defaultdict(float)
    for power in powers:
        if not isinstance(power, Apply) or not isinstance(power.op, op):
            return None
        _add(power.args[0], 1.0, total)
    return {part: by for part, by in total.items() if by}


def _add(term: Term, by: float, total: dict[Term, float]) -> None:
    """Add a term, times a number, to a sum."""
    match term:
        case Apply(op=Add(), args=args):
            for arg in args:
                _add(arg, by, total)
        case Apply(op=Mul(), args=(part, Number(value=value)) | (Number(value=value), part)):
            _add(part, by * value, total)
        case _:
            total[term] += by


def _states(term: Term) -> set[FoldState]:
    """Return the values of a pass that a term mentions."""
    inner = {
        state
        for part in walk(term)
        if isinstance(part, Fold) and part.states
        for state in part.states.names
    }
    return {part for part in walk(term) if isinstance(part, FoldState)} - inner


# -- scores ----------------------------------------------------------------------------------------


def scores_inlined(definition: Definition) -> Definition:
    """Return a definition with the locals that only one pass's scores read put into them."""
    lines = {line.name: line for line in definition.lines}
    local_names = {line.name for line in definition.locals}
    for line in definition.lines:
        for fold in passes(line.term):
            scores = {value.term for value in running(fold) if not value.is_sum}
            for name in read_by(*scores):
                if name in local_names and _alone(lines, line.name, scores, name):
                    term = _with_local(lines[line.name].term, lines[name])
                    lines[line.name] = replace(lines[line.name], term=term)
    outputs = tuple(lines[line.name] for line in definition.outputs)
    inner = used(outputs, [lines[line.name] for line in definition.locals])
    return replace(definition, outputs=outputs, locals=tuple(inner))


def _alone(lines: Mapping[str, Output], own: str, scores: Collection[Term], name: str) -> bool:
    """Return whether only scores read an array, at one position."""
    others = [line.term for line in lines.values() if line.name not in (own, name)]
    none = Number(0, DType.bool_)
    rest = exchanged(lines[own].term, lambda term: none if term in scores else None)
    uses = {part for part in walk(*scores) if isinstance(part, (Read, Lookup))}
    reads = [use for use in uses if use.buffer == name]
    return name not in read_by(*others, rest) and len(reads) == 1 and isinstance(reads[0], Read)


def _with_local(term: Term, local: Output) -> Term:
    def part(term_part: Term) -> Term | None:
        if isinstance(term_part, Read) and term_part.buffer == local.name:
            return element(local, term_part.index)
        return None

    return exchanged(term, part)
