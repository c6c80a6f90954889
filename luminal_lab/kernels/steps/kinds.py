"""Steps that say how a loop runs: round, parallel, unroll, vector, simd."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape, Symbol, minimum, symbols
from luminal_lab.core.ops import Add, Mul
from luminal_lab.kernels.definition.substitution import replaced
from luminal_lab.kernels.definition.terms import (
    Apply,
    Count,
    Draw,
    Guarded,
    Lookup,
    Number,
    Read,
    Term,
    walk as walk_terms,
)
from luminal_lab.kernels.nest.nest import (
    Access,
    Kind,
    Loop,
    Nest,
    Set,
    accesses,
    private,
    walk,
    with_terms,
)
from luminal_lab.kernels.nest.sizes import slope
from luminal_lab.kernels.steps.step import (
    ForEachLoop,
    Step,
    apart,
    around,
    axes_around,
    extent,
    least_of,
    meetings,
    within,
)

MOST_UNROLLED = 64
WHOLE = "cut in place of split makes whole blocks, and a loop of its own for what is left"
APART = "only a loop each of whose iterations writes elements of its own can run so"
TO_SIMD = "simd leaves it to the compiler"


@dataclass(frozen=True)
class Round(ForEachLoop):
    """Run a loop to the end of its block; the values computed beyond it are never used.

    for i.own < min(6, n - 6*i.block): t[i.own] = …   →   for i.own < 6: t[i.own] = …
    """

    form: ClassVar[str] = "round {loops}"

    @override
    def changed(self, nest: Nest, loop: Loop) -> Loop:
        full = extent(loop.axis)
        fixed = axes_around(nest, loop.name)
        own = private(loop.body)
        for access in accesses(loop.body):
            if access.index is None:
                raise self.refuse(f"{access.name} is looked up there", WHOLE)
            if access.name in own:
                continue
            if access.how != "read" and access.name not in nest.locals:
                raise self.refuse(f"it would write beyond the end of {access.name}", WHOLE)
            for dim, size in zip(access.index, nest.types[access.name].shape, strict=True):
                if loop.axis in symbols(dim) and not within(dim, size):
                    raise self.refuse(
                        f"{access.name}[{dim}] may be beyond its end, {size}",
                        f"clamp {loop.name} has it read the last place again",
                    )
            if access.how != "read" and not apart(nest, access, access, loop.axis, fixed):
                raise self.refuse(f"{access.name} would get more than {loop.size} values", WHOLE)
        return replace(loop, size=full)


@dataclass(frozen=True)
class Clamp(ForEachLoop):
    """Run a loop to the end of its block; iterations beyond it read the last element again.

    for i.own < min(6, n - 6*i.block): t[i.own] = x[6*i.block + i.own]
    →   for i.own < 6: t[i.own] = x[6*i.block + min(i.own, n - 6*i.block - 1)]
    """

    form: ClassVar[str] = "clamp {loops}"

    @override
    def changed(self, nest: Nest, loop: Loop) -> Loop:
        fixed = axes_around(nest, loop.name)
        self.check_inner(loop, "round or clamp")
        for access in accesses(loop.body):
            if access.how == "read":
                continue
            assert access.index is not None
            shape = nest.types[access.name].shape
            inside = all(within(at, size) for at, size in zip(access.index, shape, strict=True))
            if access.name not in nest.locals or not inside:
                raise self.refuse(f"it would write beyond the end of {access.name}", WHOLE)
            if not apart(nest, access, access, loop.axis, fixed):
                raise self.refuse(f"{access.name} would get more than {loop.size} values", WHOLE)
        return self.clamped(loop)

    def clamped(self, loop: Loop) -> Loop:
        """Return the loop run to the end of its block."""
        last = minimum(loop.axis, *(size - 1 for size in least_of(loop.size)))
        written = {access.name for access in accesses(loop.body) if access.how != "read"}
        kept = private(loop.body) | written

        def term(read: Term) -> Term | None:
            if isinstance(read, Read) and read.buffer in kept:
                return read
            if isinstance(read, (Read, Count, Draw, Guarded, Lookup)):
                return replaced(read, {loop.name: last})
            return None

        return replace(loop, size=extent(loop.axis), body=with_terms(loop.body, term))


@dataclass(frozen=True)
class Parallel(ForEachLoop):
    """Let the iterations of an outermost loop run at once, as tasks.

    for i < n: …   →   parallel i < n: …
    """

    form: ClassVar[str] = "parallel {loops}"

    @override
    def changed(self, nest: Nest, loop: Loop) -> Loop:
        outer = around(nest, loop.name)
        if outer:
            raise self.refuse(
                f"it is inside {outer[-1].name}, and tasks are outermost",
                f"parallel {outer[0].name}, or reorder them first",
            )
        independent(self, nest, loop)
        return replace(loop, kind="parallel")


@dataclass(frozen=True)
class Unroll(ForEachLoop):
    """Write out the iterations of a short loop one after the other.

    for i < 4: …   →   unroll i < 4: …
    """

    form: ClassVar[str] = "unroll {loops}"

    @override
    def changed(self, nest: Nest, loop: Loop) -> Loop:
        size = self.number(
            loop.size,
            f"split {loop.name} by a number and unroll the inner loop; round or clamp that "
            "first where the last block may be shorter",
        )
        if size > MOST_UNROLLED:
            raise self.refuse(
                f"its size, {loop.size}, is more than {MOST_UNROLLED}",
                f"split {loop.name} by 8 and unroll the inner loop",
            )
        return replace(loop, kind="unroll")


@dataclass(frozen=True)
class Vector(ForEachLoop):
    """Run an innermost loop as one instruction, its iterations as lanes.

    for j < 8: …   →   vector j < 8: …
    """

    form: ClassVar[str] = "vector {loops}"

    @override
    def changed(self, nest: Nest, loop: Loop) -> Loop:
        if not isinstance(loop.size, int) or loop.size & (loop.size - 1):
            raise self.refuse(
                f"its size is {loop.size}, and lanes are a power of two",
                f"split {loop.name} by 8 and make the inner loop one"
                if isinstance(loop.size, int) or not isinstance(extent(loop.axis), int)
                else f"round {loop.name} or clamp {loop.name} first: then its size is "
                f"{extent(loop.axis)}",
            )
        if any(outer.kind == "thread" for outer in around(nest, loop.name)):
            return self.in_thread(loop)
        for statement in loop.body:
            if not isinstance(statement, Set):
                raise self.refuse("lanes can only be assigned and added to", TO_SIMD)
            if _lanes(nest, statement.name, statement.index, loop.axis) != 1:
                raise self.refuse(
                    f"neighbours along it are not neighbours in {statement.name}", TO_SIMD
                )
            for part in walk_terms(statement.term):
                self.check(nest, part, loop)
        return _innermost(self, nest, loop, "vector")

    def in_thread(self, loop: Loop) -> Loop:
        """Let a thread of a GPU load and store neighbours as one, and compute them one by one."""
        for statement in loop.body:
            if not isinstance(statement, Set):
                raise self.refuse("what is loaded as one can only be assigned and added to")
        return replace(loop, kind="vector")

    def check(self, nest: Nest, term: Term, loop: Loop) -> None:
        """Refuse a term that has no form for lanes."""
        match term:
            case Number():
                return
            case Read(buffer=buffer, index=index):
                if _lanes(nest, buffer, index, loop.axis) in (0, 1):
                    return
                raise self.refuse(
                    f"neighbours along it are not neighbours in {buffer}",
                    f"pack {buffer} copies it so that they are; or {TO_SIMD}",
                )
            case Apply(op=Add() | Mul(), dtype=dtype) if dtype.is_float and not dtype.is_half:
                return
            case _:
                raise self.refuse(f"{term} has no form for lanes", TO_SIMD)


@dataclass(frozen=True)
class Simd(ForEachLoop):
    """Allow the compiler to run several iterations of an innermost loop at a time.

    for j < n: …   →   simd j < n: …

    A scalar that the loop adds to is summed in lanes, which are joined at the end.
    """

    form: ClassVar[str] = "simd {loops}"

    @override
    def changed(self, nest: Nest, loop: Loop) -> Loop:
        return _innermost(self, nest, loop, "simd")


def _lanes(nest: Nest, name: str, index: Shape, axis: Symbol) -> Dim:
    """Return how far apart neighbours along an axis are in an array."""
    return slope(nest.flat(name, index), axis)


def independent(step: Step, nest: Nest, loop: Loop, *, in_lanes: bool = False) -> None:
    """Refuse a step if an iteration of a loop reads or writes an element that another writes.

    With `in_lanes` they may add to a scalar, of which each lane has a copy.
    """
    fixed = axes_around(nest, loop.name)
    for access, other in meetings(loop.body, loop.body):
        is_sum = access.how == other.how and access.how in ("+=", "max=")
        is_in_lanes = in_lanes and is_sum and access.statement is other.statement
        if is_in_lanes and is_scalar(nest, access):
            continue
        if not apart(nest, access, other, loop.axis, fixed):
            verb = "reads" if "read" in (access.how, other.how) else "writes"
            raise step.refuse(
                f"one iteration writes {access.name} where another {verb} it",
                _own_sums(nest, access.name, loop),
            )


def _own_sums(nest: Nest, name: str, loop: Loop) -> str:
    """Return what would make the iterations of a loop independent, if anything does."""
    if name not in nest.locals:
        return APART
    return f"partial {name} over {loop.name} as sums gives each iteration a sum of its own"


def is_scalar(nest: Nest, access: Access) -> bool:
    """Return whether an access is of a C variable, which each lane can have a copy of."""
    return access.index == () and nest.space_of(access.name) not in (None, "memory")


def _innermost(step: Step, nest: Nest, loop: Loop, kind: Kind) -> Loop:
    inner = next((statement for statement in walk(loop.body) if isinstance(statement, Loop)), None)
    if inner is not None:
        raise step.refuse(
            f"it is not innermost: {inner.name} is in it",
            f"take {inner.name}, unroll it first, or reorder them",
        )
    independent(step, nest, loop, in_lanes=kind == "simd")
    return replace(loop, kind=kind)
