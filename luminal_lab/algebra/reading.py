"""Definitions into the e-graph: each output becomes a class, and everything else is part of one."""

from __future__ import annotations

from math import e, log2

from luminal_lab.algebra.egraph import EGraph
from luminal_lab.algebra.language import (
    Applied,
    Finite,
    Folded,
    GuardedValue,
    Leaf,
    Looked,
    Online,
    is_real,
)
from luminal_lab.core.dims import Dim, Symbol
from luminal_lab.core.ops import Add, Exp2, Mul, Where
from luminal_lab.core.ops.intrinsic import Exp, FusedMul
from luminal_lab.core.printer import unique
from luminal_lab.errors import DefinitionError
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.substitution import element, exchanged, replaced
from luminal_lab.kernels.definition.terms import (
    Apply,
    Fold,
    Guarded as GuardedTerm,
    Lookup,
    Number,
    Read,
    Term,
    axis_of,
    finite,
    free,
)


def read_definition(egraph: EGraph, definition: Definition) -> dict[str, int]:
    """Enter the outputs of a definition; return their classes by name."""
    reader = _Reader(egraph, definition)
    return {line.name: reader.term(reader.whole(line.term)) for line in definition.outputs}


def axes_of(egraph: EGraph, definition: Definition) -> dict[str, Dim]:
    """Return all axes with their sizes: those of outputs, then those of folds."""
    axes: dict[str, Dim] = {}
    for line in definition.outputs:
        names = (axis.name for axis in line.axes)
        axes |= zip(names, line.type.shape, strict=True)
    for _, node in egraph.each():
        if isinstance(node.operator, (Folded, Online)):
            axes.setdefault(node.operator.axis.name, node.operator.size)
    return axes


class _Reader:
    def __init__(self, egraph: EGraph, definition: Definition) -> None:
        self.egraph = egraph
        self.locals = {line.name: line for line in definition.locals}
        self.axes: dict[Dim, list[Symbol]] = {}
        """For each size, the axes of folds over it, in the order of their use."""
        own = {axis.name for line in definition.lines for axis in line.axes}
        self.names = {*definition.types, *definition.dims, *own}
        self.inlined: dict[Term, Term] = {}
        self.classes: dict[Term, int] = {}

    def whole(self, term: Term) -> Term:
        """Return a term with the lines that it reads written out in place."""

        def part(one: Term) -> Term | None:
            if isinstance(one, Read) and one.buffer in self.locals:
                if one not in self.inlined:
                    self.inlined[one] = self.whole(element(self.locals[one.buffer], one.index))
                return self.inlined[one]
            if isinstance(one, Lookup) and one.buffer in self.locals:
                raise DefinitionError(
                    f"search: {one.buffer} is read at positions that are values",
                    hint="such a gather is a border: search what comes before it and after it",
                )
            return None

        return exchanged(term, part)

    def axis(self, fold: Fold) -> Symbol:
        """Return the axis used here for a fold: the first of its size that is not free in it.

        This way folds over the same size share their parts wherever they can.
        """
        taken = free(fold)
        known = self.axes.setdefault(fold.size, [])
        for axis in known:
            if axis.name not in taken:
                return axis
        name = unique(fold.axis.name, self.names)
        self.names.add(name)
        known.append(axis_of(name, fold.size))
        return known[-1]

    def term(self, term: Term) -> int:
        """Return the class of a term."""
        if term not in self.classes:
            self.classes[term] = self.entered(term)
        return self.classes[term]

    def entered(self, term: Term) -> int:
        egraph = self.egraph
        match term:
            case Fold(kind="sum" | "max" as kind, dtype=dtype):
                axis = self.axis(term)
                body = replaced(term.body, {term.axis.name: axis})
                return egraph.add(Folded(kind, axis, term.size, dtype), self.term(body))
            case Apply(op=Where(), args=(_, number, _)) if finite(number) == term:
                return egraph.add(Applied(Finite(), term.dtype), self.term(number))
            case Apply():
                return self.applied(term)
            case GuardedTerm(holds=holds, term=inner):
                return egraph.add(GuardedValue(holds, term.dtype), self.term(inner))
            case Lookup(buffer, index, axis, position, size, dtype):
                return egraph.add(Looked(buffer, index, axis, size, dtype), self.term(position))
            case _ if not term.parts:
                return egraph.add(Leaf(term))
            case _:
                raise DefinitionError(
                    f"search: {term} is a fold of several values",
                    hint="search starts from what was written, before softmaxes are recognised",
                )

    def applied(self, term: Apply) -> int:
        """Return the class of an op on terms; sums and products have a normal form."""
        egraph, dtype = self.egraph, term.dtype
        parts = [self.term(arg) for arg in term.args]
        match term:
            case Apply(op=Add()) if is_real(dtype):
                return egraph.sum(0, [(part, 1) for part in parts], dtype)
            case Apply(op=Mul() | FusedMul(), args=(_, second)) if is_real(dtype):
                asks = isinstance(second, Number) and second.value == 0  # whether it is a number
                if not asks:
                    return egraph.product(1, parts, dtype)
            case Apply(op=Exp()) if is_real(dtype):
                return egraph.add(Applied(Exp2(), dtype), egraph.product(log2(e), parts, dtype))
            case _:
                pass
        return egraph.add(Applied(term.op, dtype), *parts)
