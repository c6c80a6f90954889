"""One pass over an axis instead of several, as every compile uses it.

    m[i < n] = max j < t: s[i, j]
    l[i < n] = sum j < t: exp2((s[i, j] - m[i]) * 1.442695)
    O[i < n, d < 64] = sum j < t: exp2((s[i, j] - m[i]) * 1.442695) * recip(l[i]) * V[j, d]
    →
    O[i < n, d < 64] = recip(l) * acc
        where (m, l, acc) = fold j < t from (-3.4028235e+38, 0.0, 0.0):
        let a = math.maximum(m, s[i, j]); let b = exp2((a - m) * -1.442695);
        let c = exp2((s[i, j] - a) * 1.442695); (a, l * b + c, acc * b + c * V[j, d])

Its rules rescale sums by factors of at most 1, and take nothing out of them except a division by
such a sum: they cancel nothing, so no judge needs to check. NaNs stay NaNs: a row that sees nothing
is divided by 0, or guarded as it is written. A pass pays off if elements along a further axis, d
above, share weights that it does not store, and if it repeats no sum for each row, as it would if V
were a product, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

from luminal_lab.algebra.defining import defined
from luminal_lab.algebra.egraph import EGraph
from luminal_lab.algebra.extract import cheapest, improved, priced, solved
from luminal_lab.algebra.language import (
    Applied,
    ENode,
    Finite,
    Folded,
    Online,
    Product,
    Rise,
    Sum,
    is_real,
)
from luminal_lab.algebra.pick import Pick
from luminal_lab.algebra.reading import axes_of, read_definition
from luminal_lab.algebra.rules.cascade import CASCADE
from luminal_lab.algebra.rules.change import CHANGE
from luminal_lab.algebra.rules.rule import FINITE, equation
from luminal_lab.algebra.saturate import saturate
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Exp2, Recip
from luminal_lab.errors import DefinitionError
from luminal_lab.kernels.definition.canonical import canonical
from luminal_lab.kernels.definition.definition import Definition, Output
from luminal_lab.kernels.definition.running import running
from luminal_lab.kernels.definition.substitution import exchanged
from luminal_lab.kernels.definition.terms import Fold, Read, free, walk


@equation("sum j: x * recip(y)", "(sum j: x) * recip(y)", where="y a fold over j", assumes=FINITE)
def share(egraph: EGraph, fold: Folded, body: int) -> Iterator[int]:
    """Take out of a sum a division of its terms by a fold over the same axis."""
    recip = Applied(Recip(), fold.dtype)
    for product, parts in egraph.looks(body, Product):
        still = egraph.divided(parts, fold.axis)[1]
        shares = [
            part
            for part in still
            if fold.axis.name in egraph.facts(part).moving
            and egraph.argument(part, recip) is not None
        ]
        inside = [part for part in parts if part not in shares]
        if shares and inside:
            total = egraph.add(fold, egraph.product(product.factor, inside, fold.dtype))
            yield egraph.product(1, [*shares, total], fold.dtype)


GENTLE = (share, *CHANGE, *CASCADE)
"""Rules that round no worse than what is written."""
NOTHING = 1e-6
"""A weight that is 0 except for rounding."""
ONE = -1
"""The number 1 among the classes of a sum."""
Linear: TypeAlias = Mapping[int, float]
"""The classes of a sum with their weights."""


def one_pass(definition: Definition) -> Definition:
    """Return an equal definition in one pass, or the definition itself if there is none."""
    fused = _one_pass(replace(definition, name="kernel")) if _may_be(definition) else None
    return definition if fused is None else replace(fused, name=definition.name)


def _may_be(definition: Definition) -> bool:
    """Return whether a sum follows a maximum over an axis of the same length."""
    folds = [p for p in walk(*(line.term for line in definition.lines)) if isinstance(p, Fold)]
    largest = {fold.size for fold in folds if fold.kind == "max"}
    return (
        len(definition.outputs) == 1
        and any(fold.kind == "sum" and fold.size in largest for fold in folds)
        and all(is_real(fold.dtype) and not fold.states for fold in folds)
    )


@lru_cache(maxsize=256)
def _one_pass(definition: Definition) -> Definition | None:
    egraph = EGraph()
    try:
        outputs = read_definition(egraph, definition)
    except DefinitionError:
        return None
    saturate(egraph, GENTLE)
    ways = {number: _ready(egraph, nodes) for number, nodes in solved(egraph).items()}
    axes = axes_of(egraph, definition)
    picks = improved(egraph, outputs, axes, ways, [cheapest(priced(egraph, ways))])
    if not (picks and _pays(picks[0])):
        return None
    fused = defined(definition, picks[0])
    return _named(fused, definition) if _is_one_pass(fused) else None


def _named(fused: Definition, written: Definition) -> Definition:
    """Return a pass with its scores on a line of their own, if they were written that way."""
    (line,) = fused.outputs
    (fold,) = {part for part in walk(line.term) if isinstance(part, Fold) and part.states}
    scores = {value.term for value in running(fold) if not value.is_sum}
    names = {local.name for local in written.locals} & {
        part.body.buffer
        for source in written.lines
        for part in walk(source.term)
        if isinstance(part, Fold) and part.kind == "max" and isinstance(part.body, Read)
    }
    if len(scores) != 1 or len(names) != 1:
        return fused
    (score,), (name,) = scores, names
    sizes = {**dict(zip(line.axes, line.type.shape, strict=True)), fold.axis: fold.size}
    axes = tuple(axis for axis in sizes if axis.name in free(score))
    type = TensorType(score.dtype, tuple(sizes[axis] for axis in axes))
    read = Read(name, axes, score.dtype)
    term = exchanged(line.term, lambda part: read if part == score else None)
    local = Output(name, type, axes, score)
    return canonical(replace(fused, outputs=(replace(line, term=term),), locals=(local,)))


def _ready(egraph: EGraph, nodes: Iterable[ENode]) -> list[ENode]:
    """Return the nodes that need no finished fold over their own axis."""
    return [
        node
        for node in nodes
        if not isinstance(node.operator, Folded)
        or node.operator.axis.name not in egraph.facts(node.children[0]).moving
    ]


def _is_one_pass(program: Definition) -> bool:
    """Return whether a program has one pass, and stores nothing before it."""
    folds = [part for line in program.lines for part in walk(line.term) if isinstance(part, Fold)]
    return not program.locals and len({fold for fold in folds if fold.states}) == 1


def _pays(pick: Pick) -> bool:
    """Return whether elements along an axis that a maximum does not have share its pass."""
    tops = dict[int, Linear]()
    rescaled: list[int] = []
    for number in pick.order:
        match pick.node(number).operator:
            case Folded(kind="max"):
                tops[number] = _linear(pick, pick.parts(number))
            case Online(axis=axis):
                rescaled.append(number)
                if pick.passes(axis.name) > 1:
                    return False
            case _:
                pass
    shares = any(pick.axes[top] < pick.axes[number] for number in rescaled for top in tops)
    return (
        shares
        and _sums_once(pick, tops)
        and _is_told(pick, rescaled, tops)
        and all(_is_gentle(pick, number, tops) for number in rescaled)
    )


def _sums_once(pick: Pick, tops: Collection[int]) -> bool:
    """Return whether each sum in a pass belongs to its row and position, as a score's does."""
    return all(
        any(pick.axes[number] == pick.axes[top] | {axis.name} for top in tops)
        for number, axis in pick.within
        for operator in [pick.node(number).operator]
        if isinstance(operator, Folded) and operator.axis != axis
    )


def _is_told(pick: Pick, rescaled: Collection[int], tops: Collection[int]) -> bool:
    """Return whether rows that see nothing are divided by 0, or guarded as they are written."""
    return any(
        (op == Recip() and pick.parts(number)[0] in rescaled)
        or (op == Finite() and pick.parts(number)[0] in tops)
        for number in pick.order
        for op in [getattr(pick.node(number).operator, "op", None)]
    )


def _is_gentle(pick: Pick, number: int, tops: Mapping[int, Linear]) -> bool:
    """Return whether the ratio and the weights of a rescaled sum never exceed 1.

    They are powers of 2, with exponents that are rises times negative numbers, or values less their
    own maximum.
    """
    rises, weights = (_linear(pick, _exponents(pick, part)) for part in pick.parts(number))
    for top, value in tops.items():
        by = weights.pop(top, 0.0)
        if by > 0:
            return False
        for part, weight in value.items():
            weights[part] = weights.get(part, 0.0) + by * weight
    is_known = all(n != ONE and isinstance(pick.node(n).operator, Rise) for n in rises)
    are_below = all(abs(by) < NOTHING for by in weights.values())
    return is_known and are_below and all(by < 0 for by in rises.values())


def _exponents(pick: Pick, product: int) -> list[int]:
    """Return the exponents of the powers of 2 in a product."""
    exponents: list[int] = []
    todo = [product]
    while todo:
        number = todo.pop()
        match pick.node(number).operator:
            case Product():
                todo += pick.parts(number)
            case Applied(op=Exp2()):
                exponents += pick.parts(number)
            case _:
                pass
    return exponents


def _linear(pick: Pick, numbers: Iterable[int]) -> dict[int, float]:
    """Return the sum of some classes as a weighted sum of the classes that they consist of."""
    total: dict[int, float] = defaultdict(float)
    todo = [(number, 1.0) for number in numbers]
    while todo:
        number, by = todo.pop()
        parts = pick.parts(number)
        match pick.node(number).operator:
            case Sum(constant=constant, weights=weights):
                todo += [(part, by * w) for part, w in zip(parts, weights, strict=True)]
                if constant:
                    total[ONE] += by * constant
            case Product(factor=factor) if len(parts) == 1:
                todo.append((parts[0], by * factor))
            case Applied(op=Finite()):
                todo.append((parts[0], by))
            case _:
                total[number] += by
    return total
