"""What kind of work a kernel or a node does: a product, a reduction, a copy."""

from __future__ import annotations

from collections.abc import Iterator

from luminal_lab.core import ops
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Elementwise, Reduce, View
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.running import factors
from luminal_lab.kernels.definition.terms import Apply, Fold, Lookup, Read, Term, walk
from luminal_lab.kernels.kernel import Kernel

RECAST = (ops.Cast, ops.Bitcast)
MOVES = (ops.Contiguous, *RECAST, View)
"""Ops that only move elements, or change how they are stored."""


def family_of(node: Node, kernel: Kernel | None) -> str:
    """Return the kind of work that a node does, by its kernel if it has one."""
    if isinstance(node.op, ops.HostCall):
        return "Python"
    if isinstance(node.op, ops.UserKernel):
        return "your kernel"
    if kernel is not None and kernel.definition is not None:
        return family_of_definition(kernel.definition)
    body = node.op.body_of()
    return _of_nodes(node if body is None else body)


def family_of_definition(definition: Definition) -> str:
    """Return the kind of work of a kernel.

    >>> from luminal_lab.kernels.definition.text import parse_definition
    >>> text = '''kernel mm(a: f32[n, 8], b: f32[8, 4]) -> (c: f32[n, 4])
    ...   c[i < n, j < 4] = sum k < 8: a[i, k] * b[k, j]'''
    >>> family_of_definition(parse_definition(text))
    'product'
    """
    lines = [line.term for line in (*definition.locals, *definition.outputs)]
    terms = [*walk(*lines)]
    folds = [term for term in terms if isinstance(term, Fold)]
    if any(_is_product(fold) for fold in folds):
        return "product"
    if folds:
        return "reduction"
    if any(isinstance(term, Lookup) for term in terms):
        return "gather"
    applied = [term for term in terms if isinstance(term, Apply)]
    return "elementwise" if any(not isinstance(term.op, RECAST) for term in applied) else "copy"


def _is_product(fold: Fold) -> bool:
    """Return whether a fold sums products of two arrays."""
    reads = [_arrays(factor) for term in _summed(fold) for factor in factors(term)]
    known = [read for read in reads if read]
    return any(first != second for first in known for second in known)


def _summed(fold: Fold) -> Iterator[Term]:
    """Yield what a fold adds up; for a pass, what each of its states becomes."""
    if fold.states is None:
        yield fold.body
        return
    for term in fold.states.next:
        yield from (part for part in walk(term) if isinstance(part, Apply))


def _arrays(term: Term) -> frozenset[tuple[object, ...]]:
    return frozenset((t.buffer, t.index) for t in walk(term) if isinstance(t, Read))


def _of_nodes(what: Node | IR) -> str:
    nodes = [what] if isinstance(what, Node) else what.nodes
    kinds = [node.op for node in nodes]
    if any(isinstance(op, (ops.Scatter, ops.Update)) for op in kinds):
        return "scatter"
    if any(isinstance(op, Reduce) for op in kinds):
        return "reduction"
    if any(isinstance(op, ops.Gather) for op in kinds):
        return "gather"
    if all(isinstance(op, MOVES) for op in kinds):
        return "copy"
    return "elementwise" if any(isinstance(op, Elementwise) for op in kinds) else "other"
