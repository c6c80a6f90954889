"""Steps that bring data early: ahead into shared memory, fetch into the cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape, Symbol, known, substitute, symbols
from luminal_lab.core.op import TensorType
from luminal_lab.kernels.nest.nest import (
    Access,
    Block,
    Fetch,
    Local,
    Loop,
    Nest,
    Statement,
    When,
    accesses,
    arrays_written,
    every,
    substituted,
    within_axis,
)
from luminal_lab.kernels.nest.sizes import slope
from luminal_lab.kernels.steps.step import Step, around, extent, part, replaced_loop

LINE = 64
"""How many bytes come from memory together."""
MANY_LINES = 16
"""An iteration that moves on by more is told apart: rows are fetched by the loops in them."""


@dataclass(frozen=True)
class Ahead(Step):
    """Copy the data of later iterations into shared memory while a loop computes.

    for k < n: local s: f32[8] in shared;  thread l < 8: s[l] = x[k, l];  …
    →   local s: f32[2, 8] in shared
        for k_first < 1: thread l_first < 8: s[k_first, l_first] = x[k_first, l_first]
        for k < n: if k + 1 < n: thread l < 8: s[(k + 1)%2, l] = x[k + 1, l];   … s[k%2, …] …

    The buffer has `count + 1` slots, so none is overwritten while in use. Where the GPU can, the
    copies run while its threads work.
    """

    form: ClassVar[str] = "ahead {loop} by {count}"
    loop: str
    count: int

    @override
    def apply(self, nest: Nest) -> Nest:
        loop = self.find(nest, self.loop)
        if loop.kind != "for":
            raise self.refuse(f"it is a {loop.kind} loop, whose iterations do not come in order")
        if self.count < 1:
            raise self.refuse("what is used now is not ahead", "by 1 is the next iteration")
        if isinstance(loop.size, int) and loop.size <= self.count:
            raise self.refuse(f"{loop.name} has {loop.size} iterations, and that is all of them")
        copies, rest = self.parts(nest, loop)
        arrays = arrays_written(copies)
        self.check(loop, copies, rest, arrays)
        slots = self.count + 1
        first = self.named(nest, part(loop.name, "first"), self.count)
        before = substituted(copies, {loop.name: first, **self.new_axes(copies, nest)})
        before = within_axis(before, arrays, first)
        if known(first < loop.size) is not True:
            before = (When(first < loop.size, before),)
        later = loop.axis + self.count
        ahead = within_axis(substituted(copies, {loop.name: later}), arrays, later % slots)
        body = (When(later < loop.size, ahead), *within_axis(rest, arrays, loop.axis % slots))
        moved = [
            replace(local, type=TensorType(local.type.dtype, (slots, *local.type.shape)))
            for local in loop.body
            if isinstance(local, Local) and local.name in arrays
        ]
        statements = (*moved, Loop(first, self.count, before), replace(loop, body=body))
        return replaced_loop(nest, loop.name, statements)

    def new_axes(self, block: Block, nest: Nest) -> dict[str, Dim]:
        """Return other axes for the loops of a block."""
        return {
            loop.name: self.named(nest, part(loop.name, "first"), extent(loop.axis))
            for loop in every(block, Loop)
        }

    def parts(self, nest: Nest, loop: Loop) -> tuple[Block, Block]:
        """Return the copies into shared arrays at the start of a loop, and the other statements."""
        shared = {
            local.name
            for local in loop.body
            if isinstance(local, Local) and local.space in ("shared", "tiles")
        }
        work = [statement for statement in loop.body if not isinstance(statement, Local)]
        copies = tuple(takewhile(lambda statement: is_copy(statement, shared), work))
        if not copies:
            raise self.refuse(
                f"{loop.name} begins with no copies into shared memory",
                "copy an array before a loop inside of it, and place it in shared",
            )
        moved = {*copies, *(nest.locals[name] for name in arrays_written(copies))}
        return copies, tuple(statement for statement in loop.body if statement not in moved)

    def check(self, loop: Loop, copies: Block, rest: Block, arrays: set[str]) -> None:
        """Refuse copies of data that does not exist some iterations earlier."""
        own = sorted(arrays & arrays_written(rest))
        if own:
            raise self.refuse(f"{loop.name} writes {own[0]} after it has copied into it, too")
        read = {use.name for use in accesses(copies) if use.how == "read"}
        changed = sorted(read & arrays_written(rest))
        if changed:
            raise self.refuse(f"{loop.name} copies of {changed[0]}, which it writes itself")
        if any(use.how != "=" for use in accesses(copies) if use.how != "read"):
            raise self.refuse(f"{loop.name} begins with sums, and not with copies")


def is_copy(statement: Statement, shared: set[str]) -> bool:
    """Return whether a statement writes only shared arrays and reads only others."""
    read = {use.name for use in accesses((statement,)) if use.how == "read"}
    return arrays_written((statement,)) <= shared and read.isdisjoint(shared)


@dataclass(frozen=True)
class Stream(Step):
    """Load into the cache what a loop will read of an array so many bytes later.

    for k.block: for k.own < 16: b[j, 16*k.block + k.own] …
    →   for k.block:
          fetch b[j, 16*k.block + 2048]
          for k.own < 16: …

    Behind the end of a row is the next one. There is one fetch for each 64 bytes by which an
    iteration moves on. No value depends on them.
    """

    form: ClassVar[str] = "stream {array} in {loop} by {ahead}"
    array: str
    loop: str
    ahead: int

    @override
    def apply(self, nest: Nest) -> Nest:
        loop = self.find(nest, self.loop)
        check_array(self, nest, self.array)
        check_loop(self, loop)
        if self.ahead < LINE:
            raise self.refuse("what is used now needs no fetch", "by 4096 is a page ahead")
        inner = {inner_loop.name: 0 for inner_loop in every(loop.body, Loop)}
        indices = [use.index for use in accesses(loop.body) if use.name == self.array]
        starts = [tuple(substitute(dim, inner) for dim in index) for index in indices if index]
        if not starts:
            raise self.refuse(f"{loop.name} does not use {self.array} at known places")
        first = starts[0]
        for start in starts:
            if known(nest.flat(self.array, start) < nest.flat(self.array, first)) is True:
                first = start
        item = nest.types[self.array].dtype.itemsize
        step, line = slope(nest.flat(self.array, first), loop.axis), max(1, LINE // item)
        if step == 1:
            raise self.refuse(
                f"{loop.name} goes on by one element, and would fetch for each",
                f"cut {loop.name} before, and fetch in the loop over its blocks",
            )
        if not isinstance(step, int) or not 0 < step <= MANY_LINES * line:
            raise self.refuse(
                f"{loop.name} does not go through {self.array} from neighbour to neighbour",
                "take a loop along the last axis, or cut it into blocks",
            )
        places = range(self.ahead // item, self.ahead // item + step, line)
        fetches = [Fetch(self.array, (*first[:-1], first[-1] + place)) for place in places]
        return replaced_loop(nest, loop.name, replace(loop, body=(*fetches, *loop.body)))


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
        check_array(self, nest, self.array)
        if outer not in around(nest, loop.name):
            raise self.refuse(f"{loop.name} is not within {outer.name}")
        check_loop(self, loop)
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
        inner = {inner_loop.name: inner_loop.axis for inner_loop in every(loop.body, Loop)}
        used = {s.name for dim in access.index for s in symbols(dim)} & inner.keys()
        if not used:
            return [access.index]
        type = nest.types[self.array]
        flat = nest.flat(self.array, access.index)
        steps = {name: slope(flat, inner[name]) for name in sorted(used)}
        near = [name for name, step in steps.items() if step == 1]
        extents = {name: extent(inner[name]) for name in sorted(steps, key=near.count)}
        counts = {name: size for name, size in extents.items() if isinstance(size, int)}
        if len(near) != 1 or counts.keys() != extents.keys():
            raise self.refuse(
                f"what {loop.name} uses of {self.array} is not so many neighbours",
                "cut the loop along the last axis, and fetch in the loop over the blocks",
            )
        indices = [access.index]
        for name, count in counts.items():  # rows that are written out have lines of their own
            by = LINE // type.dtype.itemsize if name in near else 1
            indices = [at(index, inner[name], k) for index in indices for k in range(0, count, by)]
        if len(counts) > 1 and len(indices) > MANY_LINES:
            raise self.refuse(f"{loop.name} uses {len(indices)} lines of {self.array} at a time")
        return indices


def check_array(step: Step, nest: Nest, array: str) -> None:
    """Refuse to fetch what is in the cache anyway."""
    if array not in {buffer.name for buffer in (*nest.inputs, *nest.outputs)}:
        kind = "a local" if array in nest.locals else "not there"
        raise step.refuse(f"{array} is {kind}, and only inputs and outputs are worth a fetch")


def check_loop(step: Step, loop: Loop) -> None:
    """Refuse to fetch within what is one instruction."""
    if loop.kind in ("simd", "vector"):
        raise step.refuse(
            f"{loop.name} is a {loop.kind} loop, all of whose iterations are one",
            f"cut {loop.name} before, and fetch in the loop over its blocks",
        )


def at(index: Shape, axis: Symbol, position: int) -> Shape:
    """Return an index at a position along an axis."""
    return tuple(substitute(dim, {axis.name: position}) for dim in index)
