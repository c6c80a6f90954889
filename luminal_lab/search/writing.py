"""Programs out of the e-graph: a pick as a definition, whose folds over one axis share passes.

Sums that rescale and the folds that they follow are one pass, and so are folds over one axis that
are ready at the same time. What several passes need is kept where that is cheaper than again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from luminal_lab.core.dims import Dim, Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Add, Mul
from luminal_lab.core.ops.intrinsic import FusedMul, Maximum
from luminal_lab.kernels.definition.canonical import LOCALS, canonical, fresh
from luminal_lab.kernels.definition.definition import Definition, Output
from luminal_lab.kernels.definition.online import LOWEST
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
    product,
    walk,
)
from luminal_lab.search.language import (
    Applied,
    First,
    Folded,
    Guarded,
    Leaf,
    Looked,
    Online,
    Product,
    Rise,
    Sum,
    is_real,
)
from luminal_lab.search.pick import Pick


def definition_of(definition: Definition, pick: Pick) -> Definition:
    """Return what a definition says as a program computes it."""
    return canonical(_Writer(definition, pick).definition_written())


@dataclass(eq=False)
class _Pass:
    """Folds along an axis that one loop computes, parts first."""

    axis: Symbol
    size: Dim
    folds: list[int]
    rescales: bool


class _Writer:
    def __init__(self, definition: Definition, pick: Pick) -> None:
        self.definition, self.pick = definition, pick
        terms = [line.term for line in definition.lines]
        self.fuses = any(isinstance(t, Apply) and t.op == FusedMul() for t in walk(*terms))
        """Whether products are rounded together with the sums that they are added to."""
        self.passes = {fold: each for each in self.grouped() for fold in each.folds}
        self.position = {number: at for at, number in enumerate(pick.order)}
        self.letters = fresh(LOCALS, {*definition.types, *definition.dims})
        self.locals: dict[int, Output] = {}
        self.terms: dict[tuple[int, _Pass | None], Term] = {}

    def definition_written(self) -> Definition:
        """Return the definition."""
        outputs = [
            Output(line.name, line.type, line.axes, self.whole(self.pick.outputs[line.name]))
            for line in self.definition.outputs
        ]
        old = self.definition
        return Definition(old.name, old.inputs, tuple(outputs), tuple(self.locals.values()))

    # -- passes ------------------------------------------------------------------------------------

    def grouped(self) -> Iterable[_Pass]:
        """Return the passes of more than one fold, or of one that rescales."""
        pick = self.pick
        group = {number: number for number in pick.order}

        def led(number: int) -> int:
            while group[number] != number:
                number = group[number]
            return number

        ready: dict[tuple[Symbol, int, frozenset[str]], int] = {}
        for number in pick.order:
            match pick.node(number).operator:
                case Online(axis=axis):
                    for fold in self.followed(number, axis):
                        group[led(fold)] = led(number)
                case Folded(axis=axis, dtype=dtype) if is_real(dtype):
                    key = axis, pick.level(number, axis.name), pick.axes[number]
                    group[led(number)] = led(ready.setdefault(key, number))
                case _:
                    pass
        passes: dict[int, _Pass] = {}
        for number in pick.order:
            match pick.node(number).operator:
                case Online(axis=axis, size=size) | Folded(axis=axis, size=size):
                    each = passes.setdefault(led(number), _Pass(axis, size, [], rescales=False))
                    each.folds.append(number)
                    each.rescales |= isinstance(pick.node(number).operator, Online)
                case _:
                    pass
        return [each for each in passes.values() if each.rescales or len(each.folds) > 1]

    def followed(self, online: int, axis: Symbol) -> Iterable[int]:
        """Return the folds that a sum needs as they stand in its pass."""
        seen, todo = set[int](), [*self.pick.parts(online)]
        while todo:
            number = todo.pop()
            if number in seen:
                continue
            seen.add(number)
            match self.pick.node(number).operator:
                case Folded(axis=own) | Online(axis=own) if own == axis:
                    yield number
                case _:
                    pass
            todo += self.pick.parts(number)

    # -- terms -------------------------------------------------------------------------------------

    def whole(self, number: int) -> Term:
        """Return the term of a class that no fold is around."""
        own = self.pick.axes[self.pick.egraph.find(number)]
        inside = [each for each in self.needed(number) if self.axes(each) <= own]
        return self.within(inside, self.term(number, None))

    def body(self, number: int, axis: Symbol, around: _Pass | None) -> Term:
        """Return what is folded along an axis, with the passes that each position has."""
        own = self.pick.axes[self.pick.egraph.find(number)]
        inside = [each for each in self.needed(number) if axis.name in self.axes(each) <= own]
        return self.within(inside, self.term(number, around))

    def needed(self, number: int) -> list[_Pass]:
        """Return the passes that a class needs, those that others need first."""
        needed: dict[_Pass, int] = {}
        todo, seen = [self.pick.egraph.find(number)], set[int]()
        while todo:
            part = todo.pop()
            if part not in seen:
                seen.add(part)
                if part in self.passes:
                    needed[self.passes[part]] = self.position[self.passes[part].folds[-1]]
                todo += [p for p in self.pick.parts(part) if p not in self.pick.kept]
        return sorted(needed, key=lambda each: needed[each])

    def axes(self, each: _Pass) -> frozenset[str]:
        """Return the axes along which a pass has values of its own."""
        return frozenset[str]().union(*(self.pick.axes[fold] for fold in each.folds))

    def within(self, passes: list[_Pass], term: Term) -> Term:
        """Return a term inside the passes whose values it needs."""
        for each in reversed(passes):
            term = self.passed(each, term)
        return term

    def passed(self, each: _Pass, result: Term) -> Term:
        """Return a term that needs the values of a pass within that pass."""
        states = tuple(self.state(number) for number in each.folds)
        start = tuple(self.start(number, each) for number in each.folds)
        following = tuple(self.next(number, each) for number in each.folds)
        values = States(states, start, following)
        return Fold("pass", each.axis, each.size, result, result.dtype, values)

    def state(self, number: int) -> FoldState:
        """Return what stands for a fold in its pass."""
        operator = self.pick.node(number).operator
        assert isinstance(operator, (Folded, Online))
        return FoldState(f"_{number}", operator.dtype)

    def start(self, number: int, each: _Pass) -> Term:
        """Return what a fold is at first: a maximum that sums follow is finite."""
        operator, dtype = self.pick.node(number).operator, self.state(number).dtype
        if isinstance(operator, Folded) and operator.kind == "max":
            return Number(LOWEST[dtype] if each.rescales else -inf, dtype)
        return Number(0, dtype)

    def next(self, number: int, each: _Pass) -> Term:
        """Return what a fold is after a position."""
        if (number, each) not in self.terms:
            node, state = self.pick.node(number), self.state(number)
            body = self.body(node.children[-1], each.axis, each)
            match node.operator:
                case Online():
                    scaled = product(state, self.term(node.children[0], each))
                    term = _added(scaled, self.summed(body))
                case Folded(kind="sum"):
                    term = _added(state, self.summed(body))
                case _:
                    term = Apply(Maximum(), (state, body), state.dtype)
            self.terms[number, each] = term
        return self.terms[number, each]

    def summed(self, term: Term) -> Term:
        """Return what is added to a sum: a product may be rounded together with it."""
        if self.fuses and isinstance(term, Apply) and term.op == Mul():
            return Apply(FusedMul(), term.args, term.dtype)
        return term

    def term(self, number: int, within: _Pass | None) -> Term:
        """Return the term of a class: finished, or as it stands in a pass."""
        number = self.pick.egraph.find(number)
        own = self.passes.get(number)
        if own is not None:
            return self.next(number, own) if own is within else self.state(number)
        if number in self.pick.kept:
            return self.read(number)
        if (number, within) not in self.terms:
            self.terms[number, within] = self.computed(number, within)
        return self.terms[number, within]

    def computed(self, number: int, within: _Pass | None) -> Term:
        """Return what a node computes."""
        node = self.pick.node(number)
        match node.operator:
            case Rise():
                fold = self.pick.egraph.find(node.children[0])
                return _added(self.next(fold, self.passes[fold]), _times(self.state(fold), -1))
            case Folded(kind=kind, axis=axis, size=size, dtype=dtype):
                body = self.body(node.children[0], axis, within)
                return Fold(kind, axis, size, self.summed(body) if kind == "sum" else body, dtype)
            case First(axis=axis):
                return replaced(self.term(node.children[0], within), {axis.name: 0})
            case _:
                parts = [self.term(child, within) for child in node.children]
        match node.operator:
            case Leaf(term=term):
                return term
            case Sum(constant=constant, weights=weights, dtype=dtype):
                return _sum(constant, [*zip(parts, weights, strict=True)], dtype)
            case Product(factor=factor, dtype=dtype):
                return _product(factor, parts, dtype)
            case Applied(op=op, dtype=dtype):
                return Apply(op, tuple(parts), dtype)
            case Guarded(holds=holds):
                return guarded(holds, parts[0])
            case Looked(buffer=buffer, index=index, axis=axis, size=size, dtype=dtype):
                return Lookup(buffer, index, axis, parts[0], size, dtype)
            case operator:
                raise AssertionError(operator)

    def read(self, number: int) -> Term:
        """Return an element of an array of its own that a class has."""
        if number not in self.locals:
            term = self.written_apart(number)
            names = sorted(self.pick.axes[number])
            shape = tuple(self.pick.sizes[name] for name in names)
            axes = [axis_of(name, size) for name, size in zip(names, shape, strict=True)]
            type = TensorType(term.dtype, shape)
            self.locals[number] = Output(next(self.letters), type, tuple(axes), term)
        local = self.locals[number]
        return Read(local.name, local.axes, local.type.dtype)

    def written_apart(self, number: int) -> Term:
        """Return the term of a class that has an array."""
        self.terms[number, None] = self.computed(number, None)
        return self.whole(number)


def _added(a: Term, b: Term) -> Term:
    return Apply(Add(), (a, b), a.dtype)


def _times(term: Term, factor: float) -> Term:
    return term if factor == 1 else product(term, Number(factor, term.dtype))


def _sum(constant: float, weighted: list[tuple[Term, float]], dtype: DType) -> Term:
    terms = [
        _times(part, weight) for part, weight in sorted(weighted, key=lambda pair: pair[1] < 0)
    ]
    if constant or not terms:
        terms.append(Number(constant, dtype))
    total, *rest = terms
    for term in rest:
        total = _added(total, term)
    return total


def _product(factor: float, parts: list[Term], dtype: DType) -> Term:
    if not parts:
        return Number(factor, dtype)
    total, *rest = parts
    for part in rest:
        total = product(total, part)
    return _times(total, factor)
