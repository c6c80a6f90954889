"""Steps about sums: partial, lanes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dims import Shape
from luminal_lab.core.op import TensorType, size_of
from luminal_lab.kernels.definition.terms import Number, Read, Term
from luminal_lab.kernels.nest.lowering import least
from luminal_lab.kernels.nest.nest import (
    How,
    Local,
    Loop,
    Nest,
    Set,
    Space,
    Statement,
    accesses,
    mapped,
)
from luminal_lab.kernels.steps.loops import FEW
from luminal_lab.kernels.steps.step import Step, around, extent, replaced_loop


@dataclass(frozen=True)
class Partial(Step):
    """Give each iteration of a loop its own partial sum, and join the sums afterwards.

    for k: t += …   →   for k: p_own = 0; p_own += …; p[k] = p_own            … as p
                        for p.end: t += p[p.end]

    Rounding differs, but always in the same way: it depends on the loop, not on the tasks.
    """

    form: ClassVar[str] = "partial {array} over {loop} as {into}"
    array: str
    loop: str
    into: str

    @override
    def apply(self, nest: Nest) -> Nest:
        loop = self.find(nest, self.loop)
        local = self.find_local(nest, self.array)
        if self.into in nest.names:
            raise self.refuse(f"there is a {self.into} already", "give another name behind as")
        uses = [access for access in accesses(loop.body) if access.name == self.array]
        hows = {use.how for use in uses}
        if len(hows) != 1 or not hows <= {"+=", "max="}:
            raise self.refuse(
                f"{loop.name} does more with {self.array} than adding to it",
                "take the loop of the sum alone; fission can make one",
            )
        how: How = "+=" if "+=" in hows else "max="
        dtype, shape = local.type.dtype, (extent(loop.axis), *local.type.shape)
        start = Number(0 if how == "+=" else least(dtype), dtype)
        last = self.named(nest, f"{self.into}.end", extent(loop.axis))
        own = f"{self.into}_own"

        def change(statement: Statement) -> Statement:
            if isinstance(statement, Set) and statement.name == self.array:
                return replace(statement, name=own)
            return statement

        def each(
            name: str, word: str, index: Shape, how: How, term: Callable[[Shape], Term]
        ) -> Statement:
            """Return an assignment for each element of the array."""
            sizes = enumerate(local.type.shape)
            axes = [
                self.named(nest, f"{self.into}_{word}.axis{axis}", size) for axis, size in sizes
            ]
            statement: Statement = Set(name, (*index, *axes), term(tuple(axes)), how)
            for axis in reversed(axes):
                statement = Loop(axis, extent(axis), (statement,))
            return statement

        size = size_of(shape)
        space: Space = "scratch" if around(nest, loop.name) else "memory"
        if isinstance(size, int) and size <= FEW and space == "scratch":
            space = "registers" if not local.type.shape else "scratch"
        room = size_of(local.type.shape)
        is_small = isinstance(room, int) and room <= FEW
        body = (
            Local(own, local.type, "registers" if is_small else "scratch"),
            each(own, "start", (), "=", lambda _: start),
            *mapped(loop.body, change),
            each(self.into, "kept", (loop.axis,), "=", lambda at: Read(own, at, dtype)),
        )
        statements = (
            Local(self.into, TensorType(dtype, shape), space),
            replace(loop, body=body),
            Loop(
                last,
                loop.size,
                (each(self.array, "end", (), how, lambda at: Read(self.into, (last, *at), dtype)),),
            ),
        )
        return replaced_loop(nest, loop.name, statements)


@dataclass(frozen=True)
class Lanes(Step):
    """Give each iteration of a short inner loop its own sum, and join them after an outer loop.

    for k.block: for k.own: t += …   →   for p.start: p[p.start] = 0
                                          for k.block: for k.own: p[k.own] += …
                                          for p.end: t += p[p.end]

    Rounding differs, but always in the same way.
    """

    form: ClassVar[str] = "lanes {array} over {loop} within {outer} as {into}"
    array: str
    loop: str
    outer: str
    into: str

    @override
    def apply(self, nest: Nest) -> Nest:
        loop, outer = self.find(nest, self.loop), self.find(nest, self.outer)
        local = self.find_local(nest, self.array)
        if self.into in nest.names:
            raise self.refuse(f"there is a {self.into} already", "give another name behind as")
        if outer not in around(nest, loop.name):
            raise self.refuse(f"{loop.name} is not within {outer.name}")
        if local.type.shape:
            raise self.refuse(f"{self.array} is an array, and lanes are of one sum")
        count = extent(loop.axis)
        if not isinstance(count, int):
            raise self.refuse(f"the size of {loop.name}, {count}, is not known before it runs")
        inside = [access for access in accesses(loop.body) if access.name == self.array]
        uses = [access for access in accesses(outer.body) if access.name == self.array]
        hows = {use.how for use in uses}
        if len(inside) != len(uses) or len(hows) != 1 or not hows <= {"+=", "max="}:
            raise self.refuse(f"{outer.name} does more with {self.array} than adding to it there")
        how: How = "+=" if "+=" in hows else "max="
        dtype = local.type.dtype
        start = Number(0 if how == "+=" else least(dtype), dtype)
        first, last = (self.named(nest, f"{self.into}.{word}", count) for word in ("start", "end"))

        def change(statement: Statement) -> Statement:
            if isinstance(statement, Set) and statement.name == self.array:
                return replace(statement, name=self.into, index=(loop.axis,))
            return statement

        statements = (
            Local(self.into, TensorType(dtype, (count,)), "scratch"),
            Loop(first, count, (Set(self.into, (first,), start),)),
            *mapped((outer,), change),
            Loop(last, count, (Set(self.array, (), Read(self.into, (last,), dtype), how),)),
        )
        return replaced_loop(nest, outer.name, statements)
