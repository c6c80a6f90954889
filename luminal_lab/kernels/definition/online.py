"""`online-softmax`: a softmax and the mean that it weighs, in one pass that keeps no weight.

    m[i < n] = max j < t: s[i, j]
    l[i < n] = sum j < t: exp2((s[i, j] - m[i]) * 1.442695)
    O[i < n, d < 64] = sum j < t: exp2((s[i, j] - m[i]) * 1.442695) * recip(l[i]) * V[j, d]
    →
    O[i < n, d < 64] = acc * recip(l)
        where (m, l, acc) = fold j < t from (-3.4028235e+38, 0.0, 0.0):
        let a = math.maximum(m, s[i, j]); let b = exp2((m - a) * 1.442695);
        let c = exp2((s[i, j] - a) * 1.442695); (a, l * b + c, acc * b + c * V[j, d])

Sums are regrouped. Where nothing has any weight, the result is NaN as before; with

    exp2((s[i, j] - where(m[i] * 0.0 < 1.0, m[i], 0.0)) * …) * recip(where(0.0 < l[i], l[i], 1.0))

it is 0, as before. A fold that may be over nothing is left as it is: its sum is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import e, log2

import numpy as np

from luminal_lab.core.dims import Dim, Symbol, bounds
from luminal_lab.core.ops import Add, Exp2, Mul, Recip, Where
from luminal_lab.core.ops.intrinsic import Exp, FusedMul, Maximum
from luminal_lab.kernels.definition.canonical import canonical
from luminal_lab.kernels.definition.definition import Definition, Output
from luminal_lab.kernels.definition.substitution import element, exchanged, rebuilt, replaced, used
from luminal_lab.kernels.definition.terms import (
    Apply,
    Fold,
    FoldState,
    Lookup,
    Number,
    Read,
    States,
    Term,
    choice,
    free,
    positive,
    read_by,
    softmaxes,
    walk,
)


def online_softmax(definition: Definition) -> Definition:
    """Return a definition whose softmaxes that weigh a mean are folds with several values."""
    known = {line.name: line for line in definition.locals}
    rewritten = {line.name: replace(line, term=_line(line, known)) for line in definition.lines}
    if all(rewritten[line.name].term == line.term for line in definition.lines):
        return definition
    outputs = tuple(rewritten[line.name] for line in definition.outputs)
    inner = used(outputs, [rewritten[line.name] for line in definition.locals])
    return canonical(replace(definition, outputs=outputs, locals=tuple(inner)))


def softmax_of(axis: Symbol, size: Dim, states: States) -> Fold | None:
    """Return the fold that has these states, or None if no softmax has.

    The inverse of `Fold.states`.
    """
    match states.next:
        case (
            Apply(op=Maximum(), args=(FoldState(), score)),
            _,
            Apply(args=(_, Apply(args=(_, body)))),
        ):
            pass
        case _:
            return None
    if not body.dtype.is_float or body.dtype.is_half:
        return None
    factors = [
        arg.value
        for term in walk(states.next[1])
        if isinstance(term, Apply) and isinstance(term.op, Exp2)
        for power in term.args
        if isinstance(power, Apply)
        for arg in power.args
        if isinstance(arg, Number)
    ]
    for empty, fused in product((False, True), (False, True)):
        for factor in factors[:1]:
            fold = Fold("softmax", axis, size, body, body.dtype, score, float(factor), empty, fused)
            if fold.states == states:
                return fold
    return None


def scores_inlined(definition: Definition) -> Definition:
    """Return a definition with the locals that only one softmax's scores read put into them."""
    lines = {line.name: line for line in definition.lines}
    local_names = {line.name for line in definition.locals}
    for line in definition.lines:
        for fold in softmaxes(line.term):
            assert fold.score is not None
            for name in read_by(fold.score):
                if name in local_names and _alone(lines, line.name, fold, name):
                    term = _with_local(lines[line.name].term, lines[name])
                    lines[line.name] = replace(lines[line.name], term=term)
    outputs = tuple(lines[line.name] for line in definition.outputs)
    inner = used(outputs, [lines[line.name] for line in definition.locals])
    return replace(definition, outputs=outputs, locals=tuple(inner))


def _alone(lines: Mapping[str, Output], own: str, fold: Fold, name: str) -> bool:
    """Return whether nothing but the score of a fold reads an array."""
    others = (line.term for line in lines.values() if line.name not in (own, name))
    if name in read_by(*others) or name in read_by(fold.body):
        return False
    reads = [
        part
        for part in walk(lines[own].term)
        if isinstance(part, (Read, Lookup)) and part.buffer == name
    ]
    scores = {id(part) for part in walk(*([fold.score] if fold.score else []))}
    return (
        all(isinstance(read, Read) and id(read) in scores for read in reads)
        and len({read.index for read in reads}) == 1
    )


def _with_local(term: Term, local: Output) -> Term:
    def part(term_part: Term) -> Term | None:
        if isinstance(term_part, Read) and term_part.buffer == local.name:
            return element(local, term_part.index)
        return None

    return exchanged(term, part)


# -- the rule --------------------------------------------------------------------------------------


def _line(line: Output, locals_: Mapping[str, Output]) -> Term:
    def mean(term: Term) -> Term | None:
        return _mean(term, locals_) if isinstance(term, Fold) else None

    return exchanged(line.term, mean)


def _mean(fold: Fold, locals_: Mapping[str, Output]) -> Fold | None:
    """Return a sum of products as the mean that it is, or None."""
    low, _ = bounds(fold.size)
    if fold.kind != "sum" or fold.dtype.is_half or not fold.dtype.is_float or not low:
        return None
    axis = fold.axis.name
    factors = [*_factors(fold.body)]
    for weight in factors:
        parts = _weight(weight, axis)
        if parts is None:
            continue
        score, base, factor = parts
        within = read_by(score)
        base = _expanded(base, locals_, within)
        top, empty = _guarded(base, _finite)
        if not _is_fold(top, "max", fold, score):
            continue
        for share in factors:
            if not (isinstance(share, Apply) and isinstance(share.op, Recip)):
                continue
            total = _expanded(share.args[0], locals_, within)
            total, seen = _guarded(total, positive)
            same = _expanded(weight, locals_, within)
            if seen is empty and _is_fold(total, "sum", fold, same):
                rest = [
                    factor_term
                    for factor_term in factors
                    if factor_term is not weight and factor_term is not share
                ]
                return Fold(
                    "softmax",
                    fold.axis,
                    fold.size,
                    _product(rest, fold),
                    fold.dtype,
                    score,
                    factor,
                    empty,
                    isinstance(fold.body, Apply) and isinstance(fold.body.op, FusedMul),
                )
    return None


def _factors(term: Term) -> Iterator[Term]:
    if isinstance(term, Apply) and isinstance(term.op, Mul):
        for arg in term.args:
            yield from _factors(arg)
    else:
        yield term


def _product(terms: list[Term], fold: Fold) -> Term:
    if not terms:
        return Number(1, fold.dtype)
    first, *rest = terms
    for factor in rest:
        first = Apply(Mul(), (first, factor), fold.dtype)
    return first


def _weight(term: Term, axis: str) -> tuple[Term, Term, float] | None:
    """Return score, base and factor of a weight exp2((score - base) * factor), or None."""
    match term:
        case Apply(op=Exp2(), args=(Apply(op=Mul(), args=(below, Number(value=value))),)):
            factor = float(value)
        case Apply(op=Exp2(), args=(Apply(op=Mul(), args=(Number(value=value), below)),)):
            factor = float(value)
        case Apply(op=Exp(), args=(below,)):
            factor = float(Number(log2(e), term.dtype).value)
        case Apply(op=Exp2(), args=(below,)):
            factor = 1.0
        case _:
            return None
    match below:
        case Apply(op=Add(), args=(score, Apply(op=Mul(), args=(base, Number(value=-1))))):
            pass
        case _:
            return None
    fits = axis in free(score) and axis not in free(base) and 0 < factor < np.inf
    return (score, base, factor) if fits else None


def _expanded(term: Term, locals_: Mapping[str, Output], keep: set[str]) -> Term:
    """Return a term with the definitions of its locals put in, except for some."""

    def part(term_part: Term) -> Term | None:
        if (
            isinstance(term_part, Read)
            and term_part.buffer in locals_
            and term_part.buffer not in keep
        ):
            return _expanded(element(locals_[term_part.buffer], term_part.index), locals_, keep)
        return None

    return exchanged(term, part)


def _guarded(term: Term, base: Callable[[Term], Term]) -> tuple[Term, bool]:
    """Return the value guarded by a choice as written for empty softmaxes, or None."""
    match term:
        case Apply(op=Where(), args=(_, guarded, _)) if base(guarded) == term:
            return guarded, True
        case _:
            return term, False


def _finite(top: Term) -> Term:
    """Return a maximum, or 0 where it is not finite."""
    nought = Apply(Mul(), (top, Number(0, top.dtype)), top.dtype)
    return choice(nought, Number(1, top.dtype), top, Number(0, top.dtype))


def _is_fold(term: Term, kind: str, fold: Fold, body: Term) -> bool:
    """Return whether a term folds another over the same positions."""
    if not isinstance(term, Fold) or term.kind != kind or term.size != fold.size:
        return False
    return _plain(replaced(term.body, {term.axis.name: fold.axis})) == _plain(body)


def _plain(term: Term) -> Term:
    """Return a term with the axes of its folds named in the order in which they come."""
    count = iter(range(1 << 30))

    def part(term_part: Term) -> Term:
        if isinstance(term_part, Fold):
            axis = Symbol(f"_{next(count)}", term_part.axis.low, term_part.axis.high)
            return term_part.over(
                axis, term_part.size, lambda x: part(replaced(x, {term_part.axis.name: axis}))
            )
        return rebuilt(term_part, lambda dim: dim, part)

    return part(term)
