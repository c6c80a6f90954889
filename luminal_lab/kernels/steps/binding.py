"""Steps that give loops to the parts of a GPU: bind, guard."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar, Literal, cast, get_args

from typing_extensions import override

from luminal_lab.core.dims import Dim, Symbol, both, symbols
from luminal_lab.kernels.nest import Block, Loop, Nest, Set, When
from luminal_lab.kernels.steps.kinds import independent
from luminal_lab.kernels.steps.step import Step, around, extent, least_of, replaced_loop

Where = Literal["block", "thread", "across"]
MOST_THREADS = 1024
"""A block has no more threads than this on any GPU."""


@dataclass(frozen=True)
class Bind(Step):
    """Let blocks or threads run the iterations of a loop, or threads add up what each has.

    for i: y[i] = …             →   bind i to block       →   block i: y[i] = …
    for l < 32: t += part[l]    →   bind l to across      →   across l < 32: t += part[l]
    """

    form: ClassVar[str] = "bind {loop} to {where}"
    loop: str
    where: str

    @override
    def apply(self, nest: Nest) -> Nest:
        loop = self.find(nest, self.loop)
        if self.where not in get_args(Where):
            raise self.refuse(f"a loop is bound to one of {', '.join(get_args(Where))}")
        where = cast(Where, self.where)
        outer = around(nest, loop.name)
        if where == "block":
            self.check_block(loop, outer)
        else:
            self.check_threads(loop, outer)
        if where == "across":
            self.check_fold(loop)
        else:
            independent(self, nest, loop)
        return replaced_loop(nest, loop.name, replace(loop, kind=where))

    def check_block(self, loop: Loop, outer: list[Loop]) -> None:
        """Refuse a loop that is not among the outermost ones."""
        for one in outer:
            if one.kind != "block":
                raise self.refuse(f"it is inside {one.name}, and blocks are outermost")
            if len(one.body) != 1:
                raise self.refuse(
                    f"{one.name} does more than {loop.name}", f"fission {one.name} takes it apart"
                )

    def check_threads(self, loop: Loop, outer: list[Loop]) -> None:
        """Refuse a loop that no whole number of threads can run."""
        if not isinstance(loop.size, int):
            raise self.refuse(
                f"its size, {loop.size}, is not known before it runs",
                f"split {loop.name} by a number of threads, and guard what is inside",
            )
        if loop.size > MOST_THREADS:
            raise self.refuse(
                f"its size is {loop.size}, and a block has at most {MOST_THREADS} threads",
                f"split {loop.name} by fewer",
            )
        threads = [one for one in outer if one.kind == "thread"]
        for one, inner in itertools.pairwise(outer):
            if one.kind == "thread" and inner.kind != "thread":
                raise self.refuse(f"it is inside {inner.name}, which each thread runs by itself")
        if threads and self.where == "thread" and len(threads[-1].body) != 1:
            raise self.refuse(
                f"{threads[-1].name} does more than {loop.name}",
                f"fission {threads[-1].name} takes it apart",
            )

    def check_fold(self, loop: Loop) -> None:
        """Refuse a loop that does not add up one value of each thread."""
        one = loop.body[0] if len(loop.body) == 1 else None
        if not isinstance(one, Set) or one.how == "=":
            raise self.refuse(
                f"{loop.name} does more than adding up what each thread has",
                "partial makes a loop that does only that",
            )


@dataclass(frozen=True)
class Guard(Step):
    """Run a loop to the end of its block, where each iteration asks whether it is one.

    for i_i < min(256, n - 256*i_o): y[…] = …
    →   for i_i < 256: if i_i < n - 256*i_o: y[…] = …
    """

    form: ClassVar[str] = "guard {loop}"
    loop: str

    @override
    def apply(self, nest: Nest) -> Nest:
        loop = self.find(nest, self.loop)
        full = extent(loop.axis)
        if loop.size == full:
            raise self.refuse(f"its size is {full} always")
        sizes = [size for size in least_of(loop.size) if size != full]
        holds = reduce(both, [loop.axis < size for size in sizes])
        body = self.within(loop.body, holds, loop.axis)
        return replaced_loop(nest, loop.name, replace(loop, size=full, body=body))

    def within(self, body: Block, holds: Dim, axis: Symbol) -> Block:
        """Put a condition as far in as loops are right around each other."""
        only = body[0] if len(body) == 1 else None
        if isinstance(only, Loop) and axis not in symbols(only.size):
            return (replace(only, body=self.within(only.body, holds, axis)),)
        return (When(holds, body),)
