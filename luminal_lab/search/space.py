"""What a search chooses from: the e-graph of a definition, and its programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from luminal_lab.core.dims import Dim, evaluate
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.search.egraph import EGraph
from luminal_lab.search.evaluate import Array, Evaluation, Positions
from luminal_lab.search.extract import programs
from luminal_lab.search.language import Folded, Online
from luminal_lab.search.pick import Pick
from luminal_lab.search.reading import read_definition
from luminal_lab.search.rules import RULES
from luminal_lab.search.rules.rule import Rule
from luminal_lab.search.saturate import Saturation, saturate

NO_DIMS: Mapping[str, int] = {}


@dataclass(frozen=True)
class Space:
    """All programs that rules make of a definition."""

    definition: Definition
    egraph: EGraph
    outputs: Mapping[str, int]
    """The number of what was written for each output."""
    report: Saturation

    @cached_property
    def axes(self) -> dict[str, Dim]:
        """All axes with their sizes: those of outputs, then those of folds."""
        axes: dict[str, Dim] = {}
        for line in self.definition.outputs:
            names = (axis.name for axis in line.axes)
            axes |= zip(names, line.type.shape, strict=True)
        for _, node in self.egraph.each():
            if isinstance(node.operator, (Folded, Online)):
                axes.setdefault(node.operator.axis.name, node.operator.size)
        return axes

    def values(
        self,
        pick: Pick | None,
        buffers: Mapping[str, npt.NDArray[Any]],
        dims: Mapping[str, int] = NO_DIMS,
        *,
        wide: bool = True,
        most: int | None = None,
    ) -> dict[str, Array]:
        """Return the outputs as a program computes them, or, without one, as they were written.

        Of the outputs' axes, `most` positions are looked at, if that is given.
        """
        folded = set[str]().union(*(held.facts.moving for held in self.egraph.classes.values()))
        sizes: dict[str, Positions] = {}
        for name, dim in self.axes.items():
            size = evaluate(dim, dims)
            count = size if most is None or name in folded else min(size, most)
            sizes[name] = np.linspace(0, size - 1, count).astype(np.int64)
        node = self.egraph.entered.__getitem__ if pick is None else pick.node
        numbers = self.outputs if pick is None else pick.outputs
        evaluation = Evaluation(node, buffers, sizes, dims, wide)
        results: dict[str, Array] = {}
        for line in self.definition.outputs:
            own = [[*sizes].index(axis.name) for axis in line.axes]
            others = tuple(k for k in range(len(sizes)) if k not in own)
            value = evaluation.value(numbers[line.name]).squeeze(others)
            shape = [len(sizes[axis.name]) for axis in line.axes]
            results[line.name] = np.broadcast_to(value, shape)
        return results

    def programs(self, count: int = 8) -> list[Pick]:
        """Return up to so many programs, the cheapest first."""
        return programs(self.egraph, self.outputs, self.axes, count)


def space_of(definition: Definition, rules: Iterable[Rule] = RULES) -> Space:
    """Return what rules make of a definition."""
    egraph = EGraph()
    outputs = read_definition(egraph, definition)
    return Space(definition, egraph, outputs, saturate(egraph, rules))
