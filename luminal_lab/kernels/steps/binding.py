"""Steps that give loops to the parts of a GPU: bind, guard, mask."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar, Literal, cast, get_args

from typing_extensions import override

from luminal_lab.core.dims import Dim, Symbol, both, symbols
from luminal_lab.core.ops import Cast, Mul
from luminal_lab.kernels.definition.substitution import guarded, rebuilt
from luminal_lab.kernels.definition.terms import Apply, Guarded, Lookup, Number, Read, Term
from luminal_lab.kernels.nest.nest import (
    Access,
    Block,
    Loop,
    Nest,
    Set,
    Statement,
    When,
    alone,
    mapped,
    private,
)
from luminal_lab.kernels.nest.sizes import perfect
from luminal_lab.kernels.steps.kinds import independent
from luminal_lab.kernels.steps.step import (
    ForEachLoop,
    Step,
    apart,
    around,
    axes_around,
    extent,
    least_of,
    replaced_loop,
    within,
)

Where = Literal["block", "thread", "across", "tensor", "bulk"]
MOST_THREADS = 1024
"""A block has no more threads than this on any GPU."""


@dataclass(frozen=True)
class Bind(ForEachLoop):
    """Let blocks or threads run the iterations of a loop, or threads add up their values.

    for i: y[i] = …             →   bind i to block       →   block i: y[i] = …
    for l < 32: t += part[l]    →   bind l to across      →   across l < 32: t += part[l]

    Tensor loops are a product of tiles, or work on each element of a tile, done by one warp or, for
    64 rows, by four. Bulk loops are one copy of a tile, which runs beside other work.
    """

    form: ClassVar[str] = "bind {loops} to {where}"
    where: str

    @override
    def changed(self, nest: Nest, loop: Loop) -> Loop:
        if self.where not in get_args(Where):
            raise self.refuse(f"a loop is bound to one of {', '.join(get_args(Where))}")
        where = cast(Where, self.where)
        outer = around(nest, loop.name)
        if where == "block":
            self.check_block(loop, outer)
        elif where == "tensor":
            self.check_tensor(loop, outer)
        elif where == "bulk":
            self.check_bulk(nest, loop, outer)
        else:
            self.check_threads(loop, outer)
        if where == "across":
            self.check_fold(loop)
        elif where != "tensor" or not self.is_sum(loop):
            independent(self, nest, loop)
        return replace(loop, kind=where)

    def check_block(self, loop: Loop, outer: list[Loop]) -> None:
        """Refuse a loop that is not among the outermost loops."""
        for outer_loop in outer:
            if outer_loop.kind != "block":
                raise self.refuse(f"it is inside {outer_loop.name}, and blocks are outermost")
            if len(outer_loop.body) != 1:
                raise self.refuse(
                    f"{outer_loop.name} does more than {loop.name}",
                    f"fission {outer_loop.name} takes it apart",
                )

    def check_threads(self, loop: Loop, outer: list[Loop]) -> None:
        """Refuse a loop that no whole number of threads can run."""
        hint = f"split {loop.name} by a number of threads, and guard what is inside"
        if self.number(loop.size, hint) > MOST_THREADS:
            raise self.refuse(
                f"its size is {loop.size}, and a block has at most {MOST_THREADS} threads",
                f"split {loop.name} by fewer",
            )
        threads = [outer_loop for outer_loop in outer if outer_loop.kind == "thread"]
        for outer_loop, inner in itertools.pairwise(outer):
            if outer_loop.kind == "thread" and inner.kind != "thread":
                raise self.refuse(f"it is inside {inner.name}, which each thread runs by itself")
        if threads and self.where == "thread" and len(threads[-1].body) != 1:
            raise self.refuse(
                f"{threads[-1].name} does more than {loop.name}",
                f"fission {threads[-1].name} takes it apart",
            )

    def check_tensor(self, loop: Loop, outer: list[Loop]) -> None:
        """Refuse a loop that no warp runs."""
        self.number(loop.size)
        if not any(outer_loop.kind == "thread" for outer_loop in outer):
            raise self.refuse(
                "it is inside no loop over threads, which would say how many warps there are",
                f"bind a loop around {loop.name} to thread",
            )

    def check_bulk(self, nest: Nest, loop: Loop, outer: list[Loop]) -> None:
        """Refuse loops that are not the copy of a tile."""
        self.number(loop.size)
        inner = [*perfect(loop)]
        statement = alone(inner[-1].body, Set)
        if statement is None or statement.how != "=" or not isinstance(statement.term, Read):
            raise self.refuse("it does more than copying elements of one array, as they are")
        if nest.space_of(statement.name) != "tiles":
            raise self.refuse(
                f"it copies into {statement.name}, which is not in tiles",
                "only locals that are placed in tiles are copied at one go",
            )
        for other in outer:
            if other.kind not in ("block", "for", "bulk"):
                raise self.refuse(
                    f"it is inside {other.name}, a {other.kind} loop, and one thread begins a copy"
                )

    def is_sum(self, loop: Loop) -> bool:
        """Return whether a loop adds up products of one tile."""
        statement = alone(loop.body, Set)
        if statement is None or statement.how != "+=":
            return False
        return all(loop.axis not in symbols(dim) for dim in statement.index)

    def check_fold(self, loop: Loop) -> None:
        """Refuse a loop that does not add up one value of each thread."""
        statement = alone(loop.body, Set)
        if statement is None or statement.how == "=":
            raise self.refuse(
                f"{loop.name} does more than adding up what each thread has",
                "partial makes a loop that does only that",
            )


@dataclass(frozen=True)
class Guard(Step):
    """Run a loop to the end of its block, with a condition that skips the iterations beyond.

    for i.own < min(256, n - 256*i.block): for j: y[…] = …                  guard i.own in j
    →   for i.own < 256: for j: if i.own < n - 256*i.block: y[…] = …
    """

    form: ClassVar[str] = "guard {loop} in {inner}"
    loop: str
    inner: str
    """The loop whose body gets the condition: the loop itself, or one nested right inside it."""

    @override
    def apply(self, nest: Nest) -> Nest:
        loop = self.find(nest, self.loop)
        body = self.within(loop, bound_of(self, loop), loop.axis)
        return replaced_loop(nest, loop.name, replace(loop, size=extent(loop.axis), body=body))

    def within(self, loop: Loop, holds: Dim, axis: Symbol) -> Block:
        """Return a loop's body with a condition around that of the inner one."""
        if loop.name == self.inner:
            return (When(holds, loop.body),)
        inner = self.inside(loop)
        if axis in symbols(inner.size):
            raise self.refuse(f"the size of {inner.name}, {inner.size}, depends on it")
        return (replace(inner, body=self.within(inner, holds, axis)),)


@dataclass(frozen=True)
class Mask(ForEachLoop):
    """Run a loop to the end of its block; beyond it, reads give 0 and nothing is written.

    for i.own < min(128, n - 128*i.block): t[i.own] += x[128*i.block + i.own];   y[…] = …
    →   for i.own < 128: t[i.own] += [i.own < n - 128*i.block: x[…]];   if i.own < …: y[…] = …

    The terms of a sum are 0 there, so each part of the loop can run by itself.
    """

    form: ClassVar[str] = "mask {loops}"

    @override
    def changed(self, nest: Nest, loop: Loop) -> Loop:
        holds = bound_of(self, loop)
        self.check_inner(loop, "mask")
        fixed = axes_around(nest, loop.name)
        inside = private(loop.body)

        def change(statement: Statement) -> Statement | Block:
            if not isinstance(statement, Set):
                return statement
            if statement.name in inside:
                return replace(statement, term=self.masked(nest, statement.term, loop.axis, holds))
            if statement.how == "+=" and statement.name in nest.locals:
                return replace(statement, term=_product(statement.term, holds))
            is_near = nest.space_of(statement.name) not in (None, "memory")
            access = Access(statement.name, statement.index, statement.how, statement)
            if (
                is_near
                and statement.how == "="
                and apart(nest, access, access, loop.axis, fixed)
                and all(map(within, statement.index, nest.types[statement.name].shape))
            ):
                return replace(statement, term=self.masked(nest, statement.term, loop.axis, holds))
            return When(holds, (statement,))

        body = mapped(loop.body, change)
        return replace(loop, size=extent(loop.axis), body=body)

    def masked(self, nest: Nest, term: Term, axis: Symbol, holds: Dim) -> Term:
        """Return a term that reads nothing beyond the end."""

        def part(term_part: Term) -> Term:
            if isinstance(term_part, Read):
                shape = nest.types[term_part.buffer].shape
                is_there = all(map(within, term_part.index, shape))
                is_moved = any(axis in symbols(dim) for dim in term_part.index)
                return term_part if is_there or not is_moved else guarded(holds, term_part)
            if isinstance(term_part, Guarded):
                return guarded(term_part.holds, part(term_part.term))
            if isinstance(term_part, Lookup):
                return guarded(holds, term_part)
            return rebuilt(term_part, lambda dim: dim, part)

        return part(term)


def bound_of(step: Step, loop: Loop) -> Dim:
    """Return the condition that an iteration is within a loop's size, which may end a block."""
    full = extent(loop.axis)
    if loop.size == full:
        raise step.refuse(f"its size is {full} always")
    return reduce(both, [loop.axis < size for size in least_of(loop.size) if size != full])


def _product(term: Term, holds: Dim) -> Term:
    """Return a term that is 0 unless a condition holds, with the condition on each factor."""
    match term:
        case Apply(op=Mul(), args=(a, b), dtype=dtype) if dtype.is_float:
            return Apply(term.op, (_product(a, holds), _product(b, holds)), dtype)
        case Apply(op=Cast(), args=(inner,), dtype=dtype):
            return Apply(term.op, (_product(inner, holds),), dtype)
        case Number():
            return term
        case _:
            return guarded(holds, term)
