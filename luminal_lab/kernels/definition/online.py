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

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from math import e, log2

import numpy as np

from luminal_lab.core.dims import Dim, Symbol, bounds
from luminal_lab.core.dtypes import DType
from luminal_lab.core.ops import Add, Exp2, Mul, Recip, Where
from luminal_lab.core.ops.intrinsic import Exp, FusedMul, Maximum
from luminal_lab.kernels.definition.canonical import LARGEST, SUMS, canonical
from luminal_lab.kernels.definition.definition import Definition, Output
from luminal_lab.kernels.definition.running import factors, running
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
    passes,
    product,
    read_by,
    walk,
)

LOWEST = {DType.float32: float(np.finfo(np.float32).min), DType.float64: float(np.finfo(float).min)}
"""The lowest finite number: the largest score at first."""


def online_softmax(definition: Definition) -> Definition:
    """Return a definition whose softmaxes that weigh a mean are folds with several values."""
    known = {line.name: line for line in definition.locals}
    rewritten = {line.name: replace(line, term=_line(line, known)) for line in definition.lines}
    if all(rewritten[line.name].term == line.term for line in definition.lines):
        return definition
    outputs = tuple(rewritten[line.name] for line in definition.outputs)
    inner = used(outputs, [rewritten[line.name] for line in definition.locals])
    return canonical(replace(definition, outputs=outputs, locals=tuple(inner)))


def mean(
    axis: Symbol,
    size: Dim,
    score: Term,
    value: Term,
    factor: float,
    *,
    empty: bool = False,
    fused: bool = False,
) -> Fold:
    """Return the mean of values by weights 2 ** (factor * score), the largest score so far as 1.

    What was summed is scaled down whenever a larger score comes. The first is larger than none,
    but no -inf is: they weigh 0, and not NaN.
    """
    dtype = value.dtype
    top, total, acc = (FoldState(name, dtype) for name in (LARGEST, *SUMS))
    zero, lowest = Number(0, dtype), Number(LOWEST[dtype], dtype)
    largest = Apply(Maximum(), (top, score), dtype)
    scale, weight = _power(top, largest, factor), _power(score, largest, factor)
    weights = Apply(Add(), (product(total, scale), weight), dtype)
    mixed = product(weight, value, fused=fused)
    values = Apply(Add(), (product(acc, scale), mixed), dtype)
    result = product(acc, Apply(Recip(), (_positive(total) if empty else total,), dtype))
    states = States((top, total, acc), (lowest, zero, zero), (largest, weights, values))
    return Fold("pass", axis, size, result, dtype, states)


def _positive(total: Term) -> Term:
    """Return a sum, or 1 where it is 0."""
    return choice(Number(0, total.dtype), total, total, Number(1, total.dtype))


def _power(of: Term, above: Term, factor: float) -> Term:
    """Return exp2((of - above) * factor)."""
    dtype = of.dtype
    below = Apply(Add(), (of, product(above, Number(-1, dtype))), dtype)
    return Apply(Exp2(), (product(below, Number(factor, dtype)),), dtype)


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
    """Return whether nothing but scores reads an array, at one position."""
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


# -- the rule --------------------------------------------------------------------------------------


def _line(line: Output, locals_: Mapping[str, Output]) -> Term:
    def changed(term: Term) -> Term | None:
        return _mean(term, locals_) if isinstance(term, Fold) else None

    return exchanged(line.term, changed)


def _mean(fold: Fold, locals_: Mapping[str, Output]) -> Fold | None:
    """Return a sum of products as the mean that it is, or None."""
    low, _ = bounds(fold.size)
    if fold.kind != "sum" or fold.dtype.is_half or not fold.dtype.is_float or not low:
        return None
    axis = fold.axis.name
    parts = [*factors(fold.body)]
    for weight in parts:
        weighed = _weight(weight, axis)
        if weighed is None:
            continue
        score, base, factor = weighed
        within = read_by(score)
        base = _expanded(base, locals_, within)
        top, empty = _guarded(base, _finite)
        if not _is_fold(top, "max", fold, score):
            continue
        for share in parts:
            if not (isinstance(share, Apply) and isinstance(share.op, Recip)):
                continue
            total = _expanded(share.args[0], locals_, within)
            total, seen = _guarded(total, _positive)
            same = _expanded(weight, locals_, within)
            if seen is empty and _is_fold(total, "sum", fold, same):
                rest = [
                    factor_term
                    for factor_term in parts
                    if factor_term is not weight and factor_term is not share
                ]
                fused = isinstance(fold.body, Apply) and isinstance(fold.body.op, FusedMul)
                value = _product(rest, fold)
                return mean(fold.axis, fold.size, score, value, factor, empty=empty, fused=fused)
    return None


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
