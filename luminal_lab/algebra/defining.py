"""Programs as definitions: classes become terms, and folds that move together become a pass.

A rescaled sum carries the folds that its terms use as further values of its pass; what is made of
them at the end is the result of the pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import reduce
from math import inf
from typing import NamedTuple, TypeAlias

from luminal_lab.algebra.language import (
    Applied,
    ENode,
    Finite,
    First,
    Folded,
    GuardedValue,
    Leaf,
    Looked,
    Online,
    Product,
    Rise,
    Sum,
    is_real,
)
from luminal_lab.algebra.pick import Pick
from luminal_lab.core.dims import Dim, Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Add, Mul
from luminal_lab.core.ops.intrinsic import Maximum
from luminal_lab.core.printer import unique
from luminal_lab.kernels.definition.canonical import LOCALS, canonical, fresh
from luminal_lab.kernels.definition.definition import Definition, Output
from luminal_lab.kernels.definition.running import LOWEST
from luminal_lab.kernels.definition.substitution import guarded, replaced
from luminal_lab.kernels.definition.terms import (
    Apply,
    Fold,
    FoldState,
    Lookup,
    Number,
    Read,
    States,
    Term,
    axis_of,
    finite,
    product,
    walk,
)


class _Pass(NamedTuple):
    """Classes whose folds move along an axis together, parts first."""

    axis: Symbol
    size: Dim
    numbers: tuple[int, ...]


FUNCTION = 5
"""A function that costs this much, in additions, is computed once for all elements that need it."""
Around: TypeAlias = tuple[_Pass, ...]
"""The passes around a term: their folds are read as they stand there."""


def defined(definition: Definition, pick: Pick) -> Definition:
    """Return what a program computes, as a definition with the original names."""
    terms = TermsOfPick(pick, {*definition.types, *definition.dims})
    lines = [replace(line, term=terms.term(pick.outputs[line.name])) for line in definition.outputs]
    return canonical(replace(definition, outputs=tuple(lines), locals=tuple(terms.locals)))


class TermsOfPick:
    """The terms of a program's classes."""

    def __init__(self, pick: Pick, taken: Collection[str] = ()) -> None:
        self.pick = pick
        self.passes = {number: group for group in _passes(pick) for number in group.numbers}
        self.known: dict[tuple[int, Around], Term] = {}
        self.names = fresh(LOCALS, {*taken})
        self.kept = _kept(pick, self.passes)
        self.locals: list[Output] = []

    def term(self, number: int, around: Around = ()) -> Term:
        """Return the term of a class."""
        number = self.pick.lead(number)
        moving = self.pick.moving[number]
        around = tuple(group for group in around if group.axis.name in moving)
        key = number, around
        if key not in self.known:
            term = self.made(number, self.pick.node(number), around)
            self.known[key] = self.local(number, term) if number in self.kept else term
        return self.known[key]

    def local(self, number: int, term: Term) -> Read:
        """Return an element of a new line, which computes a term once."""
        sizes = {**self.pick.sizes, **self.pick.lengths}
        axes = [axis_of(name, sizes[name]) for name in sizes if name in self.pick.axes[number]]
        type = TensorType(term.dtype, tuple(sizes[axis.name] for axis in axes))
        self.locals.append(Output(next(self.names), type, tuple(axes), term))
        return Read(self.locals[-1].name, tuple(axes), term.dtype)

    def made(self, number: int, node: ENode, around: Around) -> Term:
        """Return the term of a node."""
        operator = node.operator
        match operator:
            case Leaf(term=term):
                return term
            case Folded() | Online() if any(number in group.numbers for group in around):
                return self.next(number, around)
            case Folded() | Online() if number in self.passes:
                return self.passed(number, self.passes[number], around)
            case Folded(kind=kind, axis=axis, size=size, dtype=dtype):
                body = self.term(node.children[0], around)
                own = _free(axis, size, body)
                body = replaced(body, {axis.name: own})
                return Fold(kind, own, size, _summed(body) if kind == "sum" else body, dtype)
            case First(axis=axis):
                return replaced(self.term(node.children[0], around), {axis.name: 0})
            case Rise(dtype=dtype):
                new = self.term(node.children[0], around)
                return _sum([new, product(self.state(node.children[0]), Number(-1, dtype))], dtype)
            case Applied(op=Finite()) if self.is_started(node.children[0], around):
                return self.term(node.children[0], around)
            case _:
                return _applied(node, [self.term(child, around) for child in node.children])

    def state(self, number: int) -> FoldState:
        """Return the value so far of a fold in a pass."""
        number = self.pick.lead(number)
        return FoldState(f"state_{number}", self.pick.egraph.facts(number).dtype)

    def next(self, number: int, around: Around) -> Term:
        """Return the value of a fold in a pass after one more position."""
        node, state = self.pick.node(number), self.state(number)
        *ratio, body = [self.term(child, around) for child in node.children]
        if isinstance(node.operator, Folded) and node.operator.kind == "max":
            return Apply(Maximum(), (state, body), state.dtype)
        before = product(state, *ratio) if ratio else state
        return Apply(Add(), (before, _summed(body)), state.dtype)

    def passed(self, number: int, group: _Pass, around: Around) -> Term:
        """Return the value of a fold in a pass at its end."""
        names = tuple(map(self.state, group.numbers))
        rescales = any(isinstance(self.pick.node(n).operator, Online) for n in group.numbers)
        start = tuple(
            Number(_least(name.dtype, rescales) if self.is_largest(each) else 0, name.dtype)
            for each, name in zip(group.numbers, names, strict=True)
        )
        following = tuple(self.next(each, (*around, group)) for each in group.numbers)
        # Its result may mention the axis it moves along, at another position.
        own = axis_of(f"{group.axis.name}_{group.numbers[0]}", group.size)
        following = tuple(replaced(term, {group.axis.name: own}) for term in following)
        states, state = States(names, start, following), self.state(number)
        return Fold("pass", own, group.size, state, state.dtype, states)

    def is_started(self, number: int, around: Around) -> bool:
        """Return whether a class is a maximum that starts a pass at a number."""
        number = self.pick.lead(number)
        return self.is_largest(number) and any(number in group.numbers for group in around)

    def is_largest(self, number: int) -> bool:
        """Return whether a class is a maximum."""
        operator = self.pick.node(number).operator
        return isinstance(operator, Folded) and operator.kind == "max"


def _kept(pick: Pick, passes: Collection[int]) -> set[int]:
    """Return the classes that become lines of their own, being cheaper to store than to recompute.

    These are values that several passes need, and functions of folds that elements along further
    axes share. The result of a pass with several folds stays with it.
    """
    kept, folds, functions, mixed = set[int](), set[int](), set[int](), {*passes}
    for number in pick.order:
        parts, operator = {*pick.parts(number)}, pick.node(number).operator
        if mixed & parts:
            mixed.add(number)
        if isinstance(operator, Folded) or folds & parts:
            folds.add(number)
        is_costly = isinstance(operator, Applied) and operator.op.cost >= FUNCTION
        if is_costly or (functions & parts and not isinstance(operator, Folded)):
            functions.add(number)
        kept |= {part for part in parts & folds & functions if pick.axes[part] < pick.axes[number]}
        if isinstance(operator, Folded):
            kept |= {*_again(pick, number, operator.axis)}
        if pick.is_kept(number) and not isinstance(operator, Leaf):
            kept.add(number)
    return kept - mixed


def _again(pick: Pick, fold: int, axis: Symbol) -> Iterable[int]:
    """Yield the folds that a fold needs at each position, the same for several of its results."""
    for part in _within(pick, fold):
        is_fold = isinstance(pick.node(part).operator, Folded)
        if is_fold and axis.name in pick.axes[part] and pick.axes[fold] - pick.axes[part]:
            yield part


def _within(pick: Pick, fold: int) -> Iterable[int]:
    """Yield what a fold needs at each position, stopping at other folds."""
    todo, seen = [*pick.parts(fold)], set[int]()
    while todo:
        part = todo.pop()
        if part not in seen:
            seen.add(part)
            yield part
            if not isinstance(pick.node(part).operator, (Folded, Online)):
                todo += pick.parts(part)


def _passes(pick: Pick) -> list[_Pass]:
    """Return which folds move together and read an array once.

    These are a rescaled sum and the folds that its terms use, and folds that are ready at the same
    time if they read the same element at each position.
    """
    leads = {number: number for number in pick.order}

    def lead(number: int) -> int:
        while leads[number] != number:
            number = leads[number]
        return number

    groups: dict[int, list[int]] = {}
    first: dict[tuple[int, Symbol, int], int] = {}
    folds = [n for n in pick.order if isinstance(pick.node(n).operator, (Folded, Online))]
    for number in folds:
        operator = pick.node(number).operator
        assert isinstance(operator, (Folded, Online))
        if isinstance(operator, Online):
            for running in _running(pick, number, operator.axis):
                leads[lead(running)] = lead(number)
        if is_real(operator.dtype):
            level = pick.level(number, operator.axis.name)
            for leaf in _read_by(pick, number, operator.axis):
                neighbour = first.setdefault((leaf, operator.axis, level), number)
                leads[lead(number)] = lead(neighbour)
    for number in folds:
        groups.setdefault(lead(number), []).append(number)
    return [
        _Pass(axis, size, tuple(numbers))
        for numbers in groups.values()
        for axis, size in [_along(pick, numbers[0])]
        if len(numbers) > 1 or isinstance(pick.node(numbers[0]).operator, Online)
    ]


def _along(pick: Pick, number: int) -> tuple[Symbol, Dim]:
    operator = pick.node(number).operator
    assert isinstance(operator, (Folded, Online))
    return operator.axis, operator.size


def _read_by(pick: Pick, fold: int, axis: Symbol) -> Iterable[int]:
    """Yield what a fold reads that differs at each of its positions and results."""
    wanted = pick.axes[fold] | {axis.name}
    for part in _within(pick, fold):
        operator = pick.node(part).operator
        is_read = isinstance(operator, Leaf) and isinstance(operator.term, Read)
        if is_read and pick.axes[part] == wanted:
            yield part


def _running(pick: Pick, number: int, axis: Symbol) -> Iterable[int]:
    """Yield the folds over an axis whose running values a pass along it needs."""
    for part in pick.parts(number):
        if axis.name in pick.moving[part]:
            operator = pick.node(part).operator
            if isinstance(operator, (Folded, Online)) and operator.axis == axis:
                yield part
            yield from _running(pick, part, axis)


def _least(dtype: DType, rescales: bool) -> float:
    """Return the start of a maximum: a number if sums follow it."""
    return LOWEST[dtype] if rescales else -inf


# -- what is made of terms -------------------------------------------------------------------------


def _applied(node: ENode, parts: list[Term]) -> Term:
    """Return an operator on terms; passes along the same axis are merged into one."""
    passes = [part for part in parts if isinstance(part, Fold) and part.states]
    alike = {(part.axis, part.states) for part in passes}
    if len(alike) != 1 or isinstance(node.operator, (GuardedValue, Looked)):
        return _elementwise(node, parts)
    body = _elementwise(
        node, [part.body if isinstance(part, Fold) and part.states else part for part in parts]
    )
    return replace(passes[0], body=body, dtype=body.dtype)


def _elementwise(node: ENode, parts: list[Term]) -> Term:
    match node.operator:
        case Sum(constant=constant, weights=weights, dtype=dtype):
            terms = [_times(part, by) for part, by in zip(parts, weights, strict=True)]
            terms = [terms[k] for k in sorted(range(len(terms)), key=lambda k: weights[k] < 0)]
            return _sum([*terms, *([Number(constant, dtype)] if constant else [])], dtype)
        case Product(factor=factor):
            return reduce(product, [_times(parts[0], factor), *parts[1:]])
        case Applied(op=Finite()):
            return finite(parts[0])
        case Applied(op=op, dtype=dtype):
            return Apply(op, tuple(parts), dtype)
        case GuardedValue(holds=holds):
            return guarded(holds, parts[0])
        case Looked(buffer=buffer, index=index, axis=axis, size=size, dtype=dtype):
            return Lookup(buffer, index, axis, parts[0], size, dtype)
        case operator:
            raise AssertionError(operator)


def _free(axis: Symbol, size: Dim, *terms: Term) -> Symbol:
    """Return an axis whose name is not used by any fold in some terms."""
    taken = {part.axis.name for part in walk(*terms) if isinstance(part, Fold)}
    return axis_of(unique(axis.name, taken), size)


def _summed(term: Term) -> Term:
    """Return a term of a fold, rounded only together with its sum if it is a product."""
    match term:
        case Apply(op=Mul(), args=(a, b), dtype=dtype) if dtype.is_float:
            return product(a, b, fused=True)
        case _:
            return term


def _sum(terms: list[Term], dtype: DType) -> Term:
    return reduce(lambda total, term: Apply(Add(), (total, term), dtype), terms)


def _times(term: Term, factor: float) -> Term:
    match term:
        case Apply(op=Add(), args=(a, Apply(op=Mul(), args=(b, Number(value=-1))))) if factor < 0:
            opposite = Apply(Add(), (b, product(a, Number(-1, a.dtype))), term.dtype)
            return _times(opposite, -factor)
        case _ if factor == 1:
            return term
        case _:
            return Apply(Mul(), (term, Number(factor, term.dtype)), term.dtype)
