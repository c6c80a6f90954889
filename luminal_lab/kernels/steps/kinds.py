"""Steps that say how a loop runs: round, clamp, parallel, unroll, vector, simd, bind, mask."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar, Literal, cast, get_args

from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape, Symbol, both, minimum, symbols
from luminal_lab.core.ops import Add, Cast, Mul
from luminal_lab.kernels.definition.substitution import guarded, rebuilt, replaced
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
    Block,
    Kind,
    Loop,
    Nest,
    Set,
    Statement,
    When,
    accesses,
    alone,
    mapped,
    private,
    walk,
    with_terms,
)
from luminal_lab.kernels.nest.pairs import pairs_of
from luminal_lab.kernels.nest.sizes import perfect, slope
from luminal_lab.kernels.steps.step import (
    ForEachLoop,
    Step,
    apart,
    around,
    axes_around,
    extent,
    least_of,
    meetings,
    replaced_loop,
    within,
)

Where = Literal["block", "thread", "across", "tensor", "bulk"]
MOST_UNROLLED = 64
MOST_THREADS = 1024
"""A block has no more threads than this on any GPU."""
WHOLE = "cut instead of split makes whole blocks, and a separate loop for the rest"
APART = "only a loop each of whose iterations writes elements of its own can run this way"
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

    A sum of two products of bfloat16 numbers may be in it, if subnormal ones may count as 0.
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
            pairs = pairs_of(nest, loop.axis, statement)
            statement = statement if pairs is None else pairs.update
            if not isinstance(statement, Set):
                raise self.refuse("lanes can only be assigned and added to", TO_SIMD)
            if _lanes(nest, statement.name, statement.index, loop.axis) != 1:
                raise self.refuse(
                    f"neighbours along it are not neighbours in {statement.name}", TO_SIMD
                )
            for part in walk_terms(statement.term) if pairs is None else ():
                self.check(nest, part, loop)
        return _innermost(self, nest, loop, "vector")

    def in_thread(self, loop: Loop) -> Loop:
        """Let a thread of a GPU load and store neighbours together, and compute them one by one."""
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

    A scalar that the loop adds to is summed in lanes, which are joined at the end. Loops that are
    unrolled may be in it.
    """

    form: ClassVar[str] = "simd {loops}"
    later: ClassVar[bool] = True

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
    """Return what would make the iterations of a loop independent, if anything would."""
    if name not in nest.locals:
        return APART
    return f"partial {name} over {loop.name} as sums gives each iteration a sum of its own"


def is_scalar(nest: Nest, access: Access) -> bool:
    """Return whether an access is to a C variable, which each lane can have a copy of."""
    return access.index == () and nest.space_of(access.name) not in (None, "memory")


def _innermost(step: Step, nest: Nest, loop: Loop, kind: Kind) -> Loop:
    inner = next(
        (
            each
            for each in walk(loop.body)
            if isinstance(each, Loop)
            and not (kind == "simd" and each.kind == "unroll")
            and pairs_of(nest, loop.axis, each) is None
        ),
        None,
    )
    if inner is not None:
        raise step.refuse(
            f"it is not innermost: {inner.name} is in it",
            f"take {inner.name}, unroll it first, or reorder them",
        )
    independent(step, nest, loop, in_lanes=kind == "simd")
    return replace(loop, kind=kind)


@dataclass(frozen=True)
class Bind(ForEachLoop):
    """Let blocks or threads run the iterations of a loop, or threads add up their values.

    for i: y[i] = …             →   bind i to block       →   block i: y[i] = …
    for l < 32: t += part[l]    →   bind l to across      →   across l < 32: t += part[l]

    Tensor loops are a product of tiles, or work on each element of a tile, done by one warp or, for
    64 rows, by four. Bulk loops are one copy of a tile, which runs alongside other work.
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
        """Refuse a loop that cannot be run by a whole number of threads."""
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
        """Refuse a loop that is not run by a warp."""
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
        if any(axis in symbols(end) for end in inner.ends):
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
    """Return the condition that an iteration is within a loop's size; the size may end a block."""
    full = extent(loop.axis)
    if loop.size == full:
        raise step.refuse(f"its size is always {full}")
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
