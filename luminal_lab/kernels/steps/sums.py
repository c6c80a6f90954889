"""Steps about sums: partial, lanes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dims import Shape
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType
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
    moved,
)
from luminal_lab.kernels.steps.step import (
    Step,
    around,
    extent,
    is_small,
    over,
    private,
    replaced_loop,
)


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
        self.check_free(nest, self.into)
        how = _how(loop, self.array)
        if how is None:
            raise self.refuse(
                f"{loop.name} does more with {self.array} than adding to it",
                "take the loop of the sum alone; fission can make one",
            )
        dtype, shape = local.type.dtype, (extent(loop.axis), *local.type.shape)
        last = self.named(nest, f"{self.into}.end", extent(loop.axis))
        own = f"{self.into}_own"

        def each(
            name: str, word: str, index: Shape, how: How, term: Callable[[Shape], Term]
        ) -> Statement:
            """Return an assignment for each element of the array."""
            sizes = enumerate(local.type.shape)
            axes = [
                self.named(nest, f"{self.into}_{word}.axis{axis}", size) for axis, size in sizes
            ]
            return over(axes, Set(name, (*index, *axes), term(tuple(axes)), how))

        space: Space = "scratch" if around(nest, loop.name) else "memory"
        if space == "scratch" and not local.type.shape and is_small(shape):
            space = "registers"
        body = (
            Local(own, local.type, "registers" if is_small(local.type.shape) else "scratch"),
            each(own, "start", (), "=", lambda _: _start(how, dtype)),
            *moved(loop.body, {self.array}, lambda index: index, own),
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

    Lanes of lanes are a table of sums. Rounding differs, but always in the same way.
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
        self.check_free(nest, self.into)
        if outer not in around(nest, loop.name):
            raise self.refuse(f"{loop.name} is not within {outer.name}")
        count = extent(loop.axis)
        if not isinstance(count, int):
            raise self.refuse(f"the size of {loop.name}, {count}, is not known before it runs")
        inside = [access for access in accesses(loop.body) if access.name == self.array]
        uses = [access for access in accesses(outer.body) if access.name == self.array]
        how = _how(outer, self.array)
        if len(inside) != len(uses) or how is None:
            raise self.refuse(f"{outer.name} does more with {self.array} than adding to it there")
        dtype, shape = local.type.dtype, local.type.shape

        def each(word: str, name: str, how: How, term: Callable[[Shape], Term]) -> Statement:
            """Return an assignment for each lane."""
            lane = self.named(nest, f"{self.into}.{word}", count)
            axes = [
                self.named(nest, f"{self.into}_{word}.axis{axis}", size)
                for axis, size in enumerate(shape)
            ]
            index = (lane, *axes) if name == self.into else tuple(axes)
            return over([lane, *axes], Set(name, index, term((lane, *axes)), how))

        statements = (
            Local(self.into, TensorType(dtype, (count, *shape)), "scratch"),
            each("start", self.into, "=", lambda _: _start(how, dtype)),
            *moved((outer,), {self.array}, lambda index: (loop.axis, *index), self.into),
            each("end", self.array, how, lambda at: Read(self.into, at, dtype)),
        )
        return replaced_loop(nest, outer.name, statements)


def total_of(loop: Loop) -> str | None:
    """Return the scalar that a loop adds to, if it writes nothing else."""
    inside = private(loop.body)
    used = [use for use in accesses(loop.body) if use.name not in inside]
    written = {use.name for use in used if use.how != "read"}
    if len(written) != 1:
        return None
    (name,) = written
    uses = {(use.how, use.index) for use in used if use.name == name}
    return name if uses in ({("+=", ())}, {("max=", ())}) else None


def _how(loop: Loop, array: str) -> How | None:
    """Return how a loop adds to an array, or None if it does anything else with it."""
    hows = {use.how for use in accesses(loop.body) if use.name == array}
    return next((how for how in ("+=", "max=") if hows == {how}), None)


def _start(how: How, dtype: DType) -> Number:
    """Return the value from which adding starts, which changes nothing."""
    return Number(0 if how == "+=" else least(dtype), dtype)
