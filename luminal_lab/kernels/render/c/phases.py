"""The phases of a nest: the outermost parallel loops, and what stands between them.

    u = 0.0                          t = a[0]
    t = a[0]                         ----------------
    parallel i < 4:             →    parallel i < 4:
      y[i] = b[i] * t                  y[i] = b[i] * t
    u += y[3]                        ----------------
                                     u = 0.0
                                     u += y[3]

What a parallel loop depends on comes before it, and the rest may wait: this gives few phases, and
most scalars belong to one. Scalars that several phases mention are passed on in memory, as arrays
are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from luminal_lab.core.dims import Dim
from luminal_lab.core.dtypes import DType
from luminal_lab.core.printer import unique
from luminal_lab.kernels.definition.terms import Read
from luminal_lab.kernels.nest.nest import Block, Local, Loop, Nest, Set, Statement, accesses


class Part(NamedTuple):
    """What one phase does, and in how many tasks."""

    block: Block
    tasks: Dim


def parts_of(nest: Nest) -> tuple[Nest, Sequence[Part]]:
    """Return the phases of a nest, and the nest with what they share in memory."""
    body, names = nest.body, set(nest.names)
    groups = [*_groups(body)]
    uses = [_Use.of(tuple(body[at] for at in group)) for group in groups]
    before: list[list[Statement]] = [[] for _ in groups]
    after: list[list[Statement]] = [[] for _ in groups]
    shared: list[Statement] = []
    for at, local in enumerate(body):
        if not isinstance(local, Local):
            continue
        users = [phase for phase, use in enumerate(uses) if local.name in use.names]
        if local.space == "memory" or (len(users) > 1 and local.type.shape):
            shared.append(replace(local, space="memory"))
        elif len(users) > 1:
            # 16-bit floats are floats in registers, and not rounded between phases either.
            near = DType.float32 if local.type.dtype.is_half else local.type.dtype
            kept = Local(unique(local.name, names), local.type.with_dtype(near), "memory")
            names.add(kept.name)
            shared.append(kept)
            for phase in users:
                start = Set(local.name, (), Read(kept.name, (), near))
                before[phase] += [local, start] if phase != users[0] else [local]
                if local.name in uses[phase].written:
                    after[phase].append(Set(kept.name, (), Read(local.name, (), local.type.dtype)))
        elif users:
            groups[users[0]].append(at)
    parts: list[Part] = []
    for group, first, last in zip(groups, before, after, strict=True):
        loop = body[group[0]]
        if isinstance(loop, Loop) and loop.kind == "parallel":
            assert not last, "a scalar that tasks write is each task's own"
            parts.append(Part((replace(loop, body=(*first, *loop.body)),), loop.size))
        else:
            inner = [body[at] for at in sorted(group)]
            parts.append(Part((*first, *inner, *last), 1))
    blocks = [statement for part in parts for statement in part.block]
    return replace(nest, body=(*shared, *blocks)), parts


def packed(nest: Nest, block: Block) -> tuple[str, ...]:
    """Return the array that a phase makes of inputs alone, and these; () if it does other things.

    What it makes is the same in each run with the same inputs.
    """
    use, inputs = _Use.of(block), {buffer.name for buffer in nest.inputs}
    outside = {local.name for local in nest.locals.values() if local.space == "memory"}
    made = [*(use.written & outside)]
    read = use.names - use.written
    if len(made) != 1 or not read <= inputs or use.written & {b.name for b in nest.outputs}:
        return ()
    again = [statement for statement in nest.body if made[0] in _Use.of((statement,)).written]
    return () if len(again) > 1 else (made[0], *sorted(read))


class _Use(NamedTuple):
    """The arrays that statements mention, and those of them that they write."""

    names: set[str]
    written: set[str]

    @classmethod
    def of(cls, block: Block) -> _Use:
        uses = [*accesses(block)]
        names = {access.name for access in uses}
        return cls(names, {access.name for access in uses if access.how != "read"})

    def clashes(self, other: _Use) -> bool:
        """Return whether the order of the two matters."""
        return bool(self.written & other.names or self.names & other.written)


def _groups(body: Block) -> Iterator[list[int]]:
    """Yield the positions of the statements of each phase, without declarations."""
    waiting: dict[int, _Use] = {}
    for at, statement in enumerate(body):
        if isinstance(statement, Local):
            continue
        use = _Use.of((statement,))
        if not (isinstance(statement, Loop) and statement.kind == "parallel"):
            waiting[at] = use
            continue
        needed: list[int] = []
        for number in reversed(waiting):
            if waiting[number].clashes(use):
                needed.append(number)
                use = _Use(use.names | waiting[number].names, use.written | waiting[number].written)
        if needed:
            yield needed[::-1]
            waiting = {number: use for number, use in waiting.items() if number not in needed}
        yield [at]
    if waiting:
        yield [*waiting]
