"""The step `fetch`: load the data of a later iteration into the cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dims import Shape, Symbol, substitute, symbols
from luminal_lab.kernels.nest.nest import Access, Fetch, Loop, Nest, accesses, every
from luminal_lab.kernels.nest.sizes import slope
from luminal_lab.kernels.steps.step import Step, around, extent, replaced_loop

LINE = 64
"""How many bytes come from memory together."""


@dataclass(frozen=True)
class FetchAhead(Step):
    """Load data into the cache ahead of a later iteration of an outer loop, while a loop computes.

    for i: for j.block:                            →   for i: for j.block:
      for j.own < 16: y[i, 16*j.block + j.own] …         fetch y[i + 1, 16*j.block]
                                                         for j.own < 16: …

    There is one fetch for each 64 bytes. No value depends on them.
    """

    form: ClassVar[str] = "fetch {array} in {loop} ahead {by} of {outer}"
    array: str
    loop: str
    by: int
    outer: str

    @override
    def apply(self, nest: Nest) -> Nest:
        loop, outer = self.find(nest, self.loop), self.find(nest, self.outer)
        if self.array not in {buffer.name for buffer in (*nest.inputs, *nest.outputs)}:
            kind = "a local" if self.array in nest.locals else "not there"
            raise self.refuse(
                f"{self.array} is {kind}, and only inputs and outputs are worth a fetch"
            )
        if outer not in around(nest, loop.name):
            raise self.refuse(f"{loop.name} is not within {outer.name}")
        if loop.kind in ("simd", "vector"):
            raise self.refuse(
                f"{loop.name} is a {loop.kind} loop, all of whose iterations are one",
                f"cut {loop.name} before, and fetch in the loop over its blocks",
            )
        if self.by < 1:
            raise self.refuse("what is used now needs no fetch", "ahead 1 is the next iteration")
        indices = [
            index
            for access in accesses(loop.body)
            if access.name == self.array
            for index in self.lines(nest, loop, access)
        ]
        if not indices:
            raise self.refuse(f"{loop.name} does not use {self.array}")
        later = {outer.name: outer.axis + self.by}
        moved = [tuple(substitute(dim, later) for dim in index) for index in indices]
        fetches = [Fetch(self.array, index) for index in dict.fromkeys(moved)]
        return replaced_loop(nest, loop.name, replace(loop, body=(*fetches, *loop.body)))

    def lines(self, nest: Nest, loop: Loop, access: Access) -> list[Shape]:
        """Return an index in each cache line that one iteration of a loop uses."""
        if access.index is None:
            raise self.refuse(f"{self.array} is looked up there, at places that are values")
        inner = {inner_loop.name: inner_loop for inner_loop in every(loop.body, Loop)}
        used = {s.name for dim in access.index for s in symbols(dim)} & inner.keys()
        if not used:
            return [access.index]
        type = nest.types[self.array]
        flat = nest.flat(self.array, access.index)
        (name, *others) = sorted(used)
        axis = inner[name].axis
        count, step = extent(axis), slope(flat, axis)
        if others or step != 1 or not isinstance(count, int):
            raise self.refuse(
                f"what {loop.name} uses of {self.array} is not so many neighbours",
                "cut the loop along the last axis, and fetch in the loop over the blocks",
            )
        return [at(access.index, axis, k) for k in range(0, count, LINE // type.dtype.itemsize)]


def at(index: Shape, axis: Symbol, position: int) -> Shape:
    """Return an index at a position along an axis."""
    return tuple(substitute(dim, {axis.name: position}) for dim in index)
