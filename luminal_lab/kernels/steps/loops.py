"""Steps that change the order of iterations: split, merge, reorder, fission, fuse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape, Symbol, minimum, symbols
from luminal_lab.core.op import TensorType, size_of
from luminal_lab.core.printer import unique
from luminal_lab.kernels.definition.substitution import exchanged
from luminal_lab.kernels.definition.terms import Read, Term, axis_of
from luminal_lab.kernels.nest.nest import (
    Block,
    Local,
    Loop,
    Nest,
    Set,
    Space,
    Statement,
    When,
    mapped,
    substituted,
    walk,
)
from luminal_lab.kernels.steps.step import (
    Step,
    apart,
    around,
    extent,
    meetings,
    replaced_loop,
    with_body,
)

FEW = 256
"""The most elements of an array that may be in registers."""


@dataclass(frozen=True)
class Split(Step):
    """Cut a loop into blocks of some iterations; the last block may be shorter.

    for i < n: …   →   for i_o < (n + 5)//6: for i_i < min(6, n - 6*i_o): …
    """

    form: ClassVar[str] = "split {loop} by {by}"
    loop: str
    by: int

    @override
    def apply(self, nest: Nest) -> Nest:
        loop = self.find(nest, self.loop)
        if self.by < 1:
            raise self.refuse("a block has at least one iteration")
        size, by = loop.size, self.by
        blocks = (size + by - 1) // by
        # Its bound does not mention axes around, so that arrays over it have a size of their own.
        most = (extent(loop.axis) + by - 1) // by
        outer = axis_of(unique(f"{loop.name}_o", nest.names), most)
        inner = axis_of(unique(f"{loop.name}_i", nest.names), by)
        length: Dim = by if size % by == 0 else minimum(by, size - by * outer)
        body = substituted(loop.body, {loop.name: by * outer + inner})
        return replaced_loop(nest, loop.name, Loop(outer, blocks, (Loop(inner, length, body),)))


@dataclass(frozen=True)
class Cut(Step):
    """Cut a loop into whole blocks, and a loop of its own for what is left behind them.

    for i < n: …   →   for i_o < n//32: for i_i < 32: …;   for i_2 < n%32: …
    """

    form: ClassVar[str] = "cut {loop} by {by}"
    loop: str
    by: int

    @override
    def apply(self, nest: Nest) -> Nest:
        loop = self.find(nest, self.loop)
        if self.by < 1:
            raise self.refuse("a block has at least one iteration")
        inner = [one for one in walk(loop.body) if isinstance(one, (Loop, Local))]
        if inner:
            raise self.refuse(f"it would have to make {inner[0].name} twice")
        size, by = loop.size, self.by
        outer = axis_of(unique(f"{loop.name}_o", nest.names), size // by)
        each = axis_of(unique(f"{loop.name}_i", nest.names), by)
        body = substituted(loop.body, {loop.name: by * outer + each})
        made: Block = (Loop(outer, size // by, (Loop(each, by, body),)),)
        if size % by != 0:
            rest = axis_of(unique(loop.name, nest.names), by - 1)
            last = substituted(loop.body, {loop.name: by * (size // by) + rest})
            made = (*made, Loop(rest, size % by, last))
        return replaced_loop(nest, loop.name, made)


@dataclass(frozen=True)
class Merge(Step):
    """Make one loop of two that are one in the other.

    for i < n: for j < 4: …   →   for i_j < 4*n: …, with i_j//4 for i and i_j%4 for j
    """

    form: ClassVar[str] = "merge {outer}, {inner}"
    outer: str
    inner: str

    @override
    def apply(self, nest: Nest) -> Nest:
        outer = self.find(nest, self.outer)
        inner = self.inside(outer)
        if inner.name != self.inner:
            raise self.refuse(
                f"in {outer.name} there is {inner.name}",
                f"it takes a loop and the one right inside it, as in {outer.name}, {inner.name}",
            )
        if outer.axis in symbols(inner.size):
            raise self.refuse(
                f"the size of {inner.name}, {inner.size}, is another for each {outer.name}",
                f"round or clamp {inner.name} first: then its size is a number",
            )
        size = outer.size * inner.size
        axis = axis_of(unique(f"{outer.name}_{inner.name}", nest.names), size)
        count = 1 if inner.size == 0 else inner.size  # a loop that never runs divides by nothing
        values = {outer.name: axis // count, inner.name: axis % count}
        return replaced_loop(nest, outer.name, Loop(axis, size, substituted(inner.body, values)))


@dataclass(frozen=True)
class Reorder(Step):
    """Exchange two loops that are one right in the other.

    for i: for j: …   →   for j: for i: …
    """

    form: ClassVar[str] = "reorder {outer}, {inner}"
    outer: str
    inner: str

    @override
    def apply(self, nest: Nest) -> Nest:
        outer = self.find(nest, self.outer)
        inner = self.inside(outer)
        if inner.name != self.inner:
            raise self.refuse(
                f"in {outer.name} there is {inner.name}",
                f"it takes a loop and the one right inside it, as in {outer.name}, {inner.name}",
            )
        if outer.axis in symbols(inner.size):
            raise self.refuse(
                f"the size of {inner.name}, {inner.size}, depends on {outer.name}",
                f"round or clamp {inner.name} first: then its size is a number",
            )
        fixed = {loop.name for loop in around(nest, outer.name)}
        for one, other in meetings(inner.body, inner.body):
            if any(apart(nest, one, other, axis, fixed) for axis in (outer.axis, inner.axis)):
                continue
            if one.how == other.how and _in_any_order(nest, one.name, one.how):
                continue
            if one.how == other.how == "+=":
                raise self.refuse(
                    f"{one.name} would be summed in another order",
                    f"partial {one.name} over a loop as sums is the step that may do so",
                )
            raise self.refuse(
                f"{one.name} is written in one iteration of both loops and {_verb(other.how)} in "
                "another"
            )
        changed = replace(inner, body=(replace(outer, body=inner.body),))
        return replaced_loop(nest, outer.name, changed)


@dataclass(frozen=True)
class Fission(Step):
    """Make a loop for each statement of a loop's body; its locals become arrays over the loop.

    for j: t = 0; for k: t += …; y[j] = t
    →   for j: t[j] = 0;   for j_2: for k: t[j_2] += …;   for j_3: y[j_3] = t[j_3]
    """

    form: ClassVar[str] = "fission {loop}"
    loop: str

    @override
    def apply(self, nest: Nest) -> Nest:
        loop = self.find(nest, self.loop)
        parts = [one for one in loop.body if not isinstance(one, Local)]
        if len(parts) < 2:
            raise self.refuse(
                f"the body of {loop.name} is one statement", "so there is nothing to take apart"
            )
        made = [one for one in loop.body if isinstance(one, Local)]
        fixed = {one.name for one in around(nest, loop.name)}
        own = {one.name for one in made}
        for place, second in enumerate(parts):
            for first in parts[:place]:
                for one, other in meetings((first,), (second,)):
                    if one.name not in own and not apart(nest, one, other, loop.axis, fixed):
                        raise self.refuse(
                            f"a later iteration {_verb(one.how)} {one.name} where an earlier one "
                            f"{_verb(other.how)} it"
                        )
        body: list[Statement] = [
            Local(one.name, _wider(one, loop), _space(one, loop, top=not fixed)) for one in made
        ]
        taken = set(nest.names)
        for place, part in enumerate(parts):
            axis = loop.axis
            if place:
                axis = axis_of(unique(loop.name, taken), extent(axis))
                taken.add(axis.name)
            one = substituted((part,), {loop.name: axis}) if place else (part,)
            for name in own:
                one = _over(one, name, axis)
            body.append(Loop(axis, loop.size, one, loop.kind))
        return replaced_loop(nest, loop.name, tuple(body))


@dataclass(frozen=True)
class Fuse(Step):
    """Make one loop of two that follow each other and have one size.

    for i: a[i] = …;   for j: b[j] = … a[j] …   →   for i: a[i] = …; b[i] = … a[i] …
    """

    form: ClassVar[str] = "fuse {second} into {first}"
    second: str
    first: str

    @override
    def apply(self, nest: Nest) -> Nest:
        first, second = self.find(nest, self.first), self.find(nest, self.second)
        if first is second:
            raise self.refuse(f"{first.name} is one loop", "fuse makes one of two")
        if first.size != second.size:
            raise self.refuse(
                f"the size of {first.name} is {first.size}, and that of {second.name} is "
                f"{second.size}",
                "only loops of one size become one loop; cut or split can make two such",
            )
        block, place, other = self.siblings(nest.body)
        # What stands between them and has nothing to do with the first can come before it.
        between = block[place + 1 : other]
        if any(True for _ in meetings((first,), between)):
            raise self.refuse(f"what stands between {first.name} and {second.name} needs the first")
        fixed = {loop.name for loop in around(nest, first.name)} | {first.name}
        body = substituted(second.body, {second.name: first.axis})
        for one, two in meetings(first.body, body):
            if not apart(nest, one, two, first.axis, fixed - {first.name}):
                raise self.refuse(
                    f"an iteration of {second.name} {_verb(two.how)} {one.name} where a later one "
                    f"of {first.name} {_verb(one.how)} it"
                )
        fused = replace(first, body=(*first.body, *body))
        made = (*block[:place], *between, fused, *block[other + 1 :])
        return with_body(nest, _exchanged(nest.body, block, made))

    def siblings(self, block: Block) -> tuple[Block, int, int]:
        """Return the block in which both loops stand, and their places."""
        for one in _blocks(block):
            names = [s.name if isinstance(s, Loop) else None for s in one]
            if self.first in names and self.second in names[names.index(self.first) :]:
                return one, names.index(self.first), names.index(self.second)
        raise self.refuse(
            f"{self.second} does not follow {self.first} in one block",
            "the loop that comes first keeps its name: fuse the later one into the earlier one",
        )


# -- pieces ----------------------------------------------------------------------------------------


def _verb(how: str) -> str:
    return "reads" if how == "read" else "writes"


def _in_any_order(nest: Nest, name: str, how: str) -> bool:
    """Return whether an array comes out the same in whatever order it is added to."""
    return how == "max=" or (how == "+=" and not nest.types[name].dtype.is_float)


def _wider(local: Local, loop: Loop) -> TensorType:
    return TensorType(local.type.dtype, (extent(loop.axis), *local.type.shape))


def _space(local: Local, loop: Loop, *, top: bool) -> Space:
    """Return where a local goes that gets an axis more."""
    size = size_of(_wider(local, loop).shape)
    if isinstance(size, int) and size <= FEW:
        return local.space
    return "memory" if top else "scratch"


def _over(block: Block, name: str, axis: Symbol) -> Block:
    """Return a block in which a local has an axis more, in front."""
    place: Shape = (axis,)

    def term(one: Term) -> Term | None:
        if isinstance(one, Read) and one.buffer == name:
            return Read(name, (*place, *one.index), one.dtype)
        return None

    def change(one: Statement) -> Statement:
        if isinstance(one, Set):
            index = (*place, *one.index) if one.name == name else one.index
            return replace(one, index=index, term=exchanged(one.term, term))
        return one

    return mapped(block, change)


def _blocks(block: Block) -> Iterator[Block]:
    """Yield a block and all within it."""
    yield block
    for one in block:
        if isinstance(one, (Loop, When)):
            yield from _blocks(one.body)


def _exchanged(block: Block, old: Block, new: Block) -> Block:
    """Return a block with one of its blocks, known as an object, exchanged."""
    if block is old:
        return new
    return tuple(
        replace(one, body=_exchanged(one.body, old, new)) if isinstance(one, (Loop, When)) else one
        for one in block
    )
