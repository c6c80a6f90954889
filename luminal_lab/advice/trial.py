"""A change is tried: compiled beside the current graph, compared in values, and timed in turns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from luminal_lab.advice.suspect import Case, Recipe, Variant
from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment
from luminal_lab.core.ir import Node
from luminal_lab.errors import LabError
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.pipeline import LICENCE
from luminal_lab.timing.measure import as_views
from luminal_lab.timing.turns import Turns, in_turns

CLOSE = 2e-3
"""How far the values after a change may be off, relative to the largest: sums are reordered."""


def tried(case: Case, variant: Variant) -> Turns | None:
    """Return the times before and after a change, in turns; None if the values differ."""
    try:
        other = _compiled(case, variant)
        first = Running(case.compilation, case.environment)
        second = Running(other, _environment(case, variant))
        if not _agree(first.values(), second.values()):
            return None
    except LabError:
        return None  # what cannot be compiled or run is no advice
    return in_turns(first.run, second.run)


def _compiled(case: Case, variant: Variant) -> Compilation:
    recipe: Recipe = case.recipe
    ir = case.written if variant.ir is None else variant.ir
    sizes = recipe.specialise if variant.specialise is None else variant.specialise
    licence = LICENCE if recipe.licence is None else recipe.licence
    passes = recipe.passes if variant.passes is None else variant.passes
    given, specialise = case.given, sizes or None
    return compile_ir(ir, *passes, licence=licence, given=given, specialise=specialise)


def _environment(case: Case, variant: Variant) -> Environment:
    environment = case.environment
    known: dict[int, Array] = {}

    def data(node: Node) -> Array:
        if node.id not in known:
            known[node.id] = variant.data(node, environment.data(node))
        return known[node.id]

    if not variant.keeps_probes:
        environment = environment._replace(probes={})
    return environment._replace(data=data)


class Running:
    """A compiled graph with its data, run again and again; the session does not change."""

    def __init__(self, compilation: Compilation, environment: Environment) -> None:
        self.compilation = compilation
        self.asked = set(compilation.ir.output_ids)
        self.names: Mapping[int, int] = dict(
            zip(compilation.written.output_ids, compilation.ir.output_ids, strict=True)
        )
        probes = {self.names[id]: calls for id, calls in environment.probes.items()}
        data = as_views(environment.data)
        self.environment = environment._replace(data=data, probes=probes)

    def run(self) -> object:
        """Run once."""
        return self.compilation.values(self.environment, self.asked, {}, None)

    def values(self) -> dict[int, Array]:
        """Return the values of one run, by the nodes as written."""
        values = self.compilation.values(self.environment, self.asked, {}, None)
        return {written: np.array(values[id]) for written, id in self.names.items()}


def _agree(before: Mapping[int, Array], after: Mapping[int, Array]) -> bool:
    """Return whether values agree with those before, in the order in which they are returned."""
    if len(before) == len(after):
        pairs = list(zip(before.values(), after.values(), strict=True))
    else:
        pairs = [(value, after[id]) for id, value in before.items() if id in after]
    return all(map(partial(_close), *zip(*pairs, strict=True))) if pairs else True


def _close(one: Array, other: Array) -> bool:
    if one.shape != other.shape:
        return False
    one, other = (value.astype(np.float64, copy=False) for value in (one, other))
    known = np.isfinite(one)
    if not np.array_equal(known, np.isfinite(other)):
        return False
    most = np.abs(one[known]).max(initial=0.0)
    return bool(np.all(np.abs(one[known] - other[known]) <= CLOSE * most))
