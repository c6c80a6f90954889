"""The steps `stop` and `skip`: a loop leaves out iterations at one end that change nothing.

Both look for comparisons of indices that hold in all iterations from a certain one on, or up to a
certain one; `unchanged` says whether such an iteration changes anything. `shorten` tries both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape, bounds, known, maximum, minimum, substitute, symbols
from luminal_lab.kernels.nest.nest import Loop, Nest, axes_in
from luminal_lab.kernels.nest.sizes import about, slope
from luminal_lab.kernels.steps.schedule import Handle, Scheduling
from luminal_lab.kernels.steps.step import Step, axes_around, least_of, replaced_loop
from luminal_lab.kernels.steps.unchanged import Copies, Iteration

LONG = {"for": 8, "simd": 64}
"""Loops of at most this many iterations are left as they are: a changing size costs more."""
FACTS = 8
"""The most comparisons that are tried, first each alone and then in pairs."""


def shorten(scheduling: Scheduling, *loops: Handle) -> Scheduling:
    """Leave out iterations at the ends of loops that change nothing; by default of long loops."""
    within = set[str]()
    for loop in loops or scheduling.loops:
        is_long = loop.loop.kind in LONG and about(loop.size) > LONG[loop.loop.kind]
        if loops or (is_long and loop not in within):
            shorter = [scheduling.attempted(step) for step in (Stop(loop), Skip(loop))]
            within |= axes_in(loop.loop.body) if any(shorter) else set()
    return scheduling


@dataclass(frozen=True)
class _Shorten(Step):
    """Leave out iterations at one end of a loop that change nothing."""

    loop: str
    side: ClassVar[str]
    grows: ClassVar[int]
    """1 if what holds in an iteration holds in all later ones, -1 if in all earlier ones."""

    @override
    def apply(self, nest: Nest) -> Nest:
        loop = self.find(nest, self.loop, later=True)
        if loop.kind not in LONG:
            raise self.refuse(f"it is a {loop.kind} loop, all of whose iterations run")
        copies = Copies(nest, loop)
        facts = [*self.facts(Iteration(nest, loop, copies))][:FACTS]
        if not facts:
            raise self.refuse(f"no comparison of indices holds in all {self.side} iterations")
        # One comparison may be enough; if none is, try two that hold together.
        changed = ""
        for count in (1, 2):
            idle: list[Shape] = []
            for above in combinations(facts, count):
                array = Iteration(nest, loop, copies, above).changed
                if array is None:
                    idle.append(above)
                changed = changed or f"{array} changes even where {above[0] > 0}"
            if idle:
                return replaced_loop(nest, loop.name, self.shorter(loop, idle))
        raise self.refuse(changed)

    def facts(self, iteration: Iteration) -> Iterator[Dim]:
        """Yield what stays above 0 in all further iterations once it is."""
        nest, loop, facts = iteration.nest, iteration.loop, dict[Dim, None]()
        outside = {*axes_around(nest, loop.name), *nest.dims}
        for dim in iteration.compared:
            for fact in map(iteration.everywhere, (dim, 1 - dim)):
                step = 0 if fact is None else slope(fact, loop.axis)
                if fact is not None and isinstance(step, int) and step * self.grows > 0:
                    rest = substitute(fact, {loop.name: 0})
                    if {symbol.name for symbol in symbols(rest)} <= outside:
                        facts[fact] = None
        yield from facts

    def shorter(self, loop: Loop, idle: list[Shape]) -> Loop:
        """Return a loop without the iterations in which all of some dims are above 0."""
        raise NotImplementedError


@dataclass(frozen=True)
class Stop(_Shorten):
    """End a loop where no later iteration changes anything.

    for j < n: y += where(i < j, 0.0, x[j])   →   for j < min(n, i + 1): …

    Comparisons of indices show it: if they hold throughout an iteration, only 0 is added to sums,
    maxima meet -inf, and everything else is set to its old value. This assumes finite values: what
    is hidden is not read at all, even if it is NaN.
    """

    form: ClassVar[str] = "stop {loop}"
    side: ClassVar[str] = "later"
    grows: ClassVar[int] = 1

    @override
    def shorter(self, loop: Loop, idle: list[Shape]) -> Loop:
        ends = [maximum(*(self.end(fact, loop) for fact in facts)) for facts in idle]
        sizes = least_of(loop.size)
        earlier = [end for end in ends if not any(known(end >= size) for size in sizes)]
        if not earlier:
            raise self.refuse("it ends there already")
        return replace(loop, size=minimum(loop.size, *map(_from_zero, earlier)))

    def end(self, fact: Dim, loop: Loop) -> Dim:
        """Return the first iteration in which something is above 0."""
        step, rest = slope(fact, loop.axis), substitute(fact, {loop.name: 0})
        return (step - rest) // step


@dataclass(frozen=True)
class Skip(_Shorten):
    """Begin a loop where an earlier iteration would not change anything.

    for j < n: y += where(j + 9 < i, 0.0, x[j])   →   for max(0, i - 9) <= j < n: …

    The step `stop` says what counts as a change.
    """

    form: ClassVar[str] = "skip {loop}"
    side: ClassVar[str] = "earlier"
    grows: ClassVar[int] = -1

    @override
    def shorter(self, loop: Loop, idle: list[Shape]) -> Loop:
        starts = [minimum(*(self.start(fact, loop) for fact in facts)) for facts in idle]
        start = maximum(loop.start, *starts)
        if known(start <= loop.start):
            raise self.refuse("it begins there already")
        return replace(loop, start=_from_zero(start))

    def start(self, fact: Dim, loop: Loop) -> Dim:
        """Return the first iteration in which something is no longer above 0."""
        step, rest = -slope(fact, loop.axis), substitute(fact, {loop.name: 0})
        return (rest + step - 1) // step


def _from_zero(dim: Dim) -> Dim:
    """Return a dim, or 0 if it is negative."""
    low, _ = bounds(dim)
    return dim if low is not None and low >= 0 else maximum(0, dim)
