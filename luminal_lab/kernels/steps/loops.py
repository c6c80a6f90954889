"""Steps that change the order of iterations: split, cut, merge, reorder, fission, fuse."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

from typing_extensions import override

from luminal_lab.core.dims import Dim, minimum, substitute, symbols
from luminal_lab.core.op import TensorType
from luminal_lab.core.printer import unique
from luminal_lab.kernels.definition.terms import axis_of
from luminal_lab.kernels.nest.nest import (
    Access,
    Block,
    Fetch,
    Local,
    Loop,
    Nest,
    Set,
    Space,
    Statement,
    When,
    accesses,
    every,
    mapped,
    nested,
    substituted,
    walk,
    within_axis,
)
from luminal_lab.kernels.steps.step import (
    ForEachLoop,
    Step,
    apart,
    axes_around,
    extent,
    is_small,
    level,
    meetings,
    part,
    replaced_loop,
    with_body,
)

Pairs: TypeAlias = "list[tuple[Access, Access]]"
BLOCKS = "block", "own"
"""The default names of the levels of a loop that is cut once."""


@dataclass(frozen=True)
class Split(ForEachLoop):
    """Cut a loop into blocks, and those into smaller blocks; the last block may be shorter.

    for i < n: …   →   for i.block < (n + 5)//6: for i.own < min(6, n - 6*i.block): …

    Each number adds a level: split i by 128, 8 as block, warp, own.
    """

    form: ClassVar[str] = "split {loops} by {by}[ as {words}]"
    by: tuple[int, ...]
    words: tuple[str, ...] = ()
    """The levels, from the outermost in; block and own by default."""

    @override
    def changed(self, nest: Nest, loop: Loop) -> Loop:
        names = levels(self, loop, BLOCKS, len(self.by) + 1)
        if min(self.by) < 1:
            raise self.refuse("a block has at least one iteration")
        for block, inner in itertools.pairwise(self.by):
            if block % inner:
                raise self.refuse(f"blocks of {block} do not have whole parts of {inner}")
        counts = [block // inner for block, inner in itertools.pairwise((*self.by, 1))]
        size, most, position, body = loop.size, extent(loop.axis), loop.axis, loop.body
        for depth in reversed(range(len(counts))):
            count, is_last = counts[depth], depth == 0
            blocks, most = (size + count - 1) // count, (most + count - 1) // count
            # Its bound does not mention outer axes, so that arrays over it have a known size.
            outer = self.named(nest, names[0], most) if is_last else axis_of(f"__{depth}", most)
            inner = self.named(nest, names[depth + 1], count)
            length: Dim = count if size % count == 0 else minimum(count, size - count * outer)
            body = substituted(body, {position.name: count * outer + inner})
            body = (Loop(inner, length, body),)
            size, position = blocks, outer
        return Loop(position, size, body)


@dataclass(frozen=True)
class Cut(Step):
    """Cut a loop into whole blocks, and a second loop for the remaining iterations.

    for i < n: …   →   for i.block < n//32: for i.own < 32: …;   for i.rest < n%32: …

    Loops inside are there twice: for i: for j: … has a j_rest in i.rest.
    """

    form: ClassVar[str] = "cut {loop} by {by}[ as {words}]"
    loop: str
    by: int
    words: tuple[str, ...] = ()

    @override
    def apply(self, nest: Nest) -> Nest:
        loop = self.find(nest, self.loop)
        if self.by < 1:
            raise self.refuse("a block has at least one iteration")
        for local in every(loop.body, Local):
            raise self.refuse(f"it would have to make {local.name} twice")
        size, by = loop.size, self.by
        names = levels(self, loop, (*BLOCKS, "rest"), 3)
        outer = self.named(nest, names[0], size // by)
        each = self.named(nest, names[1], by)
        body = substituted(loop.body, {loop.name: by * outer + each})
        loops: Block = (Loop(outer, size // by, (Loop(each, by, body),)),)
        if size % by != 0:
            rest = self.named(nest, names[2], by - 1)
            inner = {each.name: each.axis for each in every(loop.body, Loop)}
            new = {n: self.named(nest, part(n, "rest"), extent(a)) for n, a in inner.items()}
            last = substituted(loop.body, {loop.name: by * (size // by) + rest, **new})
            loops = (*loops, Loop(rest, size % by, last))
        return replaced_loop(nest, loop.name, loops)


@dataclass(frozen=True)
class Merge(Step):
    """Merge perfectly nested loops into one.

    for i < n: for j < 4: …   →   for ij < 4*n: …, with ij//4 for i and ij%4 for j
    """

    form: ClassVar[str] = "merge {loops}[ as {into}]"
    loops: tuple[str, ...]
    into: str = ""
    """The name of the new loop; by default, the letters of the merged loops."""

    @override
    def apply(self, nest: Nest) -> Nest:
        first, *others = self.chain(nest, self.loops)
        names = [first.name, *(loop.name for loop in others)]
        if names != [*self.loops]:
            raise self.refuse(f"their order is {', '.join(names)}", "name the outermost first")
        size, values, name = first.size, dict[str, Dim](), first.axis
        into = self.into or together(names)
        for depth, inner in enumerate(others):
            if any(loop.axis in symbols(inner.size) for loop in (first, *others[:depth])):
                raise self.refuse(
                    f"the size of {inner.name}, {inner.size}, differs for each {names[depth]}",
                    f"round or clamp {inner.name} first: then its size is a number",
                )
            size = size * inner.size
            is_last = depth == len(others) - 1
            axis = self.named(nest, into, size) if is_last else axis_of(f"__{depth}", size)
            count = (
                1 if inner.size == 0 else inner.size
            )  # a loop that never runs must not divide by zero
            both = {name.name: axis // count, inner.name: axis % count}
            values = {old: substitute(new, both) for old, new in values.items()} | both
            name = axis
        body = (first, *others)[-1].body
        joined = Loop(name, size, substituted(body, values))
        return replaced_loop(nest, first.name, joined)


@dataclass(frozen=True)
class Reorder(Step):
    """Bring some of several perfectly nested loops to the front, in the given order.

    for i: for j: for k: …   →   for k: for i: for j: …          reorder k, i

    Loops between them that are not named follow in their old order.
    """

    form: ClassVar[str] = "reorder {loops}"
    loops: tuple[str, ...]

    @override
    def apply(self, nest: Nest) -> Nest:
        chain = self.chain(nest, self.loops, others=True)
        if [loop.name for loop in chain[: len(self.loops)]] == [*self.loops]:
            raise self.refuse("they are in this order", "name first what should be outermost")
        top, body = chain[0].name, chain[-1].body
        fixed = axes_around(nest, top)
        pairs = [*meetings(body, body)]
        for depth, name in enumerate(self.loops):
            at = next(at for at, loop in enumerate(chain) if loop.name == name)
            for outer in reversed(range(depth, at)):
                known = fixed | {loop.name for loop in chain[:outer]}
                self.check(nest, chain[outer], chain[outer + 1], pairs, known)
                chain[outer : outer + 2] = chain[outer + 1], chain[outer]
        return replaced_loop(nest, top, nested(chain, *body))

    def check(self, nest: Nest, outer: Loop, inner: Loop, pairs: Pairs, fixed: set[str]) -> None:
        """Refuse two loops that cannot be exchanged."""
        if any(outer.axis in symbols(end) for end in inner.ends):
            raise self.refuse(
                f"the size of {inner.name}, {inner.size}, depends on {outer.name}",
                f"round or clamp {inner.name} first: then its size is a number",
            )
        for use, other in pairs:
            if any(apart(nest, use, other, axis, fixed) for axis in (outer.axis, inner.axis)):
                continue
            if use.how == other.how and _in_any_order(nest, use.name, use.how):
                continue
            if use.how == other.how == "+=":
                raise self.refuse(
                    f"{use.name} would be summed in another order",
                    f"partial {use.name} over a loop as sums is the step that may do so",
                )
            raise self.refuse(
                f"{use.name} is written in one iteration of both loops and {_verb(other.how)} in "
                "another"
            )


@dataclass(frozen=True)
class Fission(Step):
    """Make a loop for each statement of a loop's body; its locals become arrays over the loop.

    for j: t = 0; for k: t += …; y[j] = t                        fission j as start, sum, end
    →   for j_start: t[j_start] = 0;   for j_sum: for k: t[j_sum] += …;   for j_end: y[j_end] = …

    Outer loops that contain nothing else come apart, too: fission i, j as start, sum, end.
    """

    form: ClassVar[str] = "fission {loops}[ as {words}]"
    loops: tuple[str, ...]
    words: tuple[str, ...] = ()
    """The names of the parts; by default, after the array they set, or after their role."""

    @override
    def apply(self, nest: Nest) -> Nest:
        chain = [self.find(nest, name, later=True) for name in self.loops]
        for outer, inner in itertools.pairwise(chain):
            if self.only_loop(outer).name != inner.name:
                raise self.refuse(
                    f"in {outer.name} there is {self.only_loop(outer).name}",
                    "name loops that stand right inside each other, the outermost first",
                )
        words = self.words
        for loop in reversed(chain):
            parts = [
                statement
                for statement in nest.loops[loop.name].body
                if not isinstance(statement, Local)
            ]
            words = words or roles(parts)
            nest = self.taken_apart(nest, nest.loops[loop.name], parts, words)
        return nest

    def only_loop(self, loop: Loop) -> Loop:
        """Return the only statement of a loop's body besides locals, which must be a loop."""
        parts = tuple(statement for statement in loop.body if not isinstance(statement, Local))
        return self.inside(replace(loop, body=parts))

    def taken_apart(
        self, nest: Nest, loop: Loop, parts: Sequence[Statement], words: tuple[str, ...]
    ) -> Nest:
        """Return a nest with one loop for each part of its body."""
        if len(parts) < 2:
            raise self.refuse(
                f"the body of {loop.name} is one statement", "so there is nothing to take apart"
            )
        if len(words) != len(parts):
            raise self.refuse(
                f"the body of {loop.name} has {len(parts)} statements, and there are "
                f"{len(words)} words for them",
                f"name {len(parts)} parts after as",
            )
        locals_inside = [statement for statement in loop.body if isinstance(statement, Local)]
        fixed = axes_around(nest, loop.name)
        own = {local.name for local in locals_inside}
        for at, second in enumerate(parts):
            for first in parts[:at]:
                for use, other in meetings((first,), (second,)):
                    if use.name not in own and not apart(nest, use, other, loop.axis, fixed):
                        raise self.refuse(
                            f"a later iteration {_verb(use.how)} {use.name} where an earlier one "
                            f"{_verb(other.how)} it"
                        )
        names = [part(loop.name, word) for word in words]
        body: list[Statement] = [
            Local(local.name, _wider(local, loop), _space(local, loop, top=not fixed))
            for local in locals_inside
        ]
        for statement, called in zip(parts, names, strict=True):
            axis = self.named(nest, called, extent(loop.axis))
            block = substituted((statement,), {loop.name: axis})
            body.append(replace(loop, axis=axis, body=within_axis(block, own, axis)))
        return replaced_loop(nest, loop.name, tuple(body))


@dataclass(frozen=True)
class Fuse(Step):
    """Fuse two consecutive loops of the same size into one.

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
                "only loops of the same size can become one; cut or split can make such loops",
            )
        # Statements between them that are independent of the first loop can come before it.
        between = self.between(nest.body)
        if any(True for _ in meetings((first,), between)):
            raise self.refuse(f"what stands between {first.name} and {second.name} needs the first")
        fixed = axes_around(nest, first.name)
        body = substituted(second.body, {second.name: first.axis})
        for use, later in meetings(first.body, body):
            if not apart(nest, use, later, first.axis, fixed):
                raise self.refuse(
                    f"an iteration of {second.name} {_verb(later.how)} {use.name} where a later "
                    f"one of {first.name} {_verb(use.how)} it"
                )
        fused = replace(first, body=(*first.body, *body))

        def change(statement: Statement) -> Statement | Block:
            if statement is first:
                return (*between, fused)
            return () if any(statement is moved for moved in (second, *between)) else statement

        return with_body(nest, mapped(nest.body, change))

    def between(self, block: Block) -> Block:
        """Return what stands between the two loops, which are in one block."""
        for inner_block in blocks(block):
            names = [s.name if isinstance(s, Loop) else None for s in inner_block]
            if self.first in names and self.second in names[names.index(self.first) :]:
                return inner_block[names.index(self.first) + 1 : names.index(self.second)]
        raise self.refuse(
            f"{self.second} does not follow {self.first} in one block",
            "the loop that comes first keeps its name: fuse the later one into the earlier one",
        )


# -- pieces ----------------------------------------------------------------------------------------


def levels(step: Split | Cut, loop: Loop, usual: tuple[str, ...], count: int) -> list[str]:
    """Return the names of the loops that a loop is cut into."""
    words = step.words or usual
    if len(words) != count:
        raise step.refuse(
            f"it makes {count} loops, and there are {len(words)} words for them",
            f"name {count} levels after as, from the outermost in",
        )
    return [level(loop.name, word) for word in words]


def roles(parts: Sequence[Statement]) -> tuple[str, ...]:
    """Return words for the parts of a loop's body: the array each sets, or its loop's role."""
    words: list[str] = []
    for statement in parts:
        inner = (
            statement
            if isinstance(statement, (Set, Loop))
            else next(s for s in walk((statement,)) if s != statement)
        )
        word = inner.name if isinstance(inner, (Set, Fetch)) else _role(inner)
        words.append(unique(word, {*words}))
    return tuple(words)


def _role(statement: Statement) -> str:
    if not isinstance(statement, Loop):
        return "end"
    axis, _, level = statement.name.partition(".")
    if level in ("start", "end", "block"):
        return level
    part = re.search(r"_([a-z]+)$", axis)
    hows = {access.how for access in accesses(statement.body)}
    return part[1] if part else "sum" if "+=" in hows else "max" if "max=" in hows else "end"


AXIS = re.compile(r"(.+?)(_\d+)?(_[A-Za-z]\w*)?(\.\w+)?")
"""A loop's name: letter, number, part and level."""


def together(loops: Sequence[str]) -> str:
    """Return the name of a loop that several become: their letters, and what all of them share.

    >>> together(["i", "j_2"]), together(["i_end.own", "j_end.own"]), together(["p_i", "p_j"])
    ('ij_2', 'ij_end.own', 'p_ij')
    """
    split = [match.groups("") for loop in loops if (match := AXIS.fullmatch(loop))]
    letters, numbers, parts, words = zip(*split, strict=True)
    if len({*letters}) == 1 and all(parts):  # loops that copy into an array
        return f"{letters[0]}_{''.join(part[1:] for part in parts)}"
    part, word = (same[0] if len({*same}) == 1 else "" for same in (parts, words))
    return f"{''.join(letters)}{numbers[-1]}{part}{word}"


def _verb(how: str) -> str:
    return "reads" if how == "read" else "writes"


def _in_any_order(nest: Nest, name: str, how: str) -> bool:
    """Return whether an array comes out the same whatever the order of its updates."""
    return how == "max=" or (how == "+=" and not nest.types[name].dtype.is_float)


def _wider(local: Local, loop: Loop) -> TensorType:
    return TensorType(local.type.dtype, (extent(loop.axis), *local.type.shape))


def _space(local: Local, loop: Loop, *, top: bool) -> Space:
    """Return where a local with one more axis goes."""
    if is_small(_wider(local, loop).shape):
        return local.space
    return "memory" if top else "scratch"


def blocks(block: Block) -> Iterator[Block]:
    """Yield a block and all blocks within it."""
    yield block
    yield from (statement.body for statement in walk(block) if isinstance(statement, (Loop, When)))
