"""Where the threads of a block wait for each other: before one needs what another did.

    thread l < 64:                        tile[l] = …
      tile[l] = x[i, l]              →    lab_sync();
    thread l_2 < 64:                      y[64*i + l_2] = tile[63 - l_2];
      y[i, l_2] = tile[63 - l_2]

What a thread finds where it alone has written needs no waiting.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from luminal_lab.core.dims import Dim, Shape, Symbol, substitute, symbols
from luminal_lab.kernels.gpu_nest import Phase, Region
from luminal_lab.kernels.nest import Access, Statement, accesses, axes_in
from luminal_lab.kernels.steps.step import apart, private

Mine: TypeAlias = "Shape | None"
"""Where a thread has been, its axes by their places in its number; None: where others may be."""


@dataclass(frozen=True)
class Touch:
    """That threads read or write an array which others see."""

    array: str
    is_write: bool
    mine: Mine = None

    def meets(self, other: Touch) -> bool:
        """Return whether another thread may need that one of both waits."""
        return (
            self.array == other.array
            and (self.is_write or other.is_write)
            and (self.mine is None or self.mine != other.mine)
        )


Touches: TypeAlias = frozenset[Touch]
NONE: Touches = frozenset()


def meet(before: Touches, after: Touches) -> bool:
    """Return whether threads must wait between what was and what comes."""
    return any(one.meets(other) for one in before for other in after)


def touches(phase: Phase, block: Iterable[Statement], region: Region | None = None) -> Touches:
    """Return what a piece, or what each thread of a region, does to arrays that others see."""
    found: set[Touch] = set()
    block = tuple(block)
    inside, given = private(block), {buffer.name for buffer in phase.nest.inputs}
    for use in accesses(block):
        local = phase.nest.locals.get(use.name)
        kept = local is not None and local.space == "registers"
        if use.name in inside or use.name in given or kept:
            continue
        mine = None if region is None else _mine(phase, region, use)
        found.add(Touch(use.name, use.how != "read", mine))
        if use.how in ("+=", "max="):
            found.add(Touch(use.name, False, mine))
    return frozenset(found)


def _mine(phase: Phase, region: Region, use: Access) -> Mine:
    """Return the places of a use, if different threads have different ones."""
    if use.index is None or region.fold is not None or region.is_warps:
        return None
    fixed = {loop.name for loop in phase.blocks}
    own = axes_in(region.body)
    places = phase.places(region)
    names: dict[str, Dim] = {}
    for symbol in (symbol for place in use.index for symbol in symbols(place)):
        if symbol.name in places:
            along = places[symbol.name]
            names[symbol.name] = Symbol(f"thread{along.stride}", 0, max(0, along.size - 1))
        elif symbol.name in own:
            names.setdefault(symbol.name, Symbol(f"turn{len(names)}", symbol.low, symbol.high))
        elif symbol.name in phase.nest.loops and symbol.name not in fixed:
            return None  # another place in each turn of a loop around
    for loop in region.loops:
        if loop.size != 1 and not apart(phase.nest, use, use, loop.axis, fixed):
            return None
    return tuple(substitute(place, names) for place in use.index)
