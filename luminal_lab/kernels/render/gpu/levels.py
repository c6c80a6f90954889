"""Conditions that hold for all of some neighbours or for none: asked once, they are one access.

vector c < 8: t[c] = [8*i + c < 40: x[8*i + c]]   →   vector c < 8: t[c] = [i < 5: x[8*i + c]]
"""

from __future__ import annotations

from dataclasses import replace

from luminal_lab.core.dims import Dim, Symbol, both, known, substitute, symbols
from luminal_lab.core.dims.expression import Negative, terms_of
from luminal_lab.kernels.definition.substitution import exchanged
from luminal_lab.kernels.definition.terms import Guarded, Term


def levelled(term: Term, axis: Symbol, width: int) -> Term:
    """Return a term whose guards ask once for neighbours along an axis, where they can."""

    def change(guard: Term) -> Term | None:
        if not isinstance(guard, Guarded) or axis not in symbols(guard.holds):
            return None
        return replace(guard, holds=level(guard.holds, axis, width))

    return exchanged(term, change)


def level(holds: Dim, axis: Symbol, width: int) -> Dim:
    """Return a condition with 0 for an axis of so many, as far as that makes no difference."""
    terms = terms_of(holds)
    if len(terms) != 1 or terms[0][1] != 1:
        return holds
    asked: Dim = 1
    for atom in terms[0][0]:
        part: Dim = atom
        if isinstance(atom, Negative) and axis in symbols(atom):
            first = substitute(atom.x, {axis.name: 0})
            if atom.x - first == axis and known((first % width) < 1) is True:
                part = first < 0
        asked = both(asked, part)
    return asked
