"""Which copies into shared memory go on while threads work, and when they have arrived.

    local s: f32[3, 8] in shared              for (int k_a = 0; k_a < 2; k_a++) {
    for k_a < 2:                                  lab_copy_async_16(&s[8*k_a + …], …);
      thread l < 2: s[k_a, …] = x[k_a, …]         lab_copy_commit();
    for k < n:                                }
      if k + 2 < n:                      →    for (lab_i64 k = 0; k < n; k++) {
        thread l < 2: s[(k + 2)%3, …] = …         lab_copy_wait(1);
      … s[k%3, …] …                               lab_sync();
                                                  if (k + 2 < n) {
                                                      lab_copy_async_16(…);
                                                  }
                                                  lab_copy_commit();
                                                  …
                                              }

Copies of whole tiles (bulk.py) arrive at one barrier for each slot, which is waited for when its
turn has come.

Each iteration makes one group of copies, even if it is empty, so that all groups but the last
`count - 1` are those that this iteration and earlier ones need. A single barrier covers both what
has arrived, and what the iteration before has read, whose slot the next copies take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from luminal_lab.core.dims import Dim, Symbol
from luminal_lab.core.dims.expression import Remainder
from luminal_lab.kernels.nest.nest import (
    Block,
    Local,
    Loop,
    Nest,
    Set,
    When,
    accesses,
    arrays_written,
    every,
    paths,
    walk,
)
from luminal_lab.kernels.render.gpu.waiting import Touch, Touches, Turn


@dataclass(frozen=True)
class Arrivals:
    """A loop whose copies for later iterations go on while it works."""

    loop: str
    count: int
    """How many iterations ahead they are."""
    arrays: frozenset[str]
    bulk: int
    """How many bulk copies arrive for an iteration, if they are bulk copies."""
    in_groups: bool = False
    """Whether code before the loop makes a group for each of the first iterations."""

    @property
    def left(self) -> int:
        """How many groups need not have arrived when an iteration begins."""
        return self.count - 1 if self.in_groups else 0

    @property
    def open(self) -> Touches:
        """What is still arriving when an iteration has waited."""
        return frozenset(
            Touch(array, True, None, Turn(self.loop, ahead, self.count + 1), arrives=True)
            for array in self.arrays
            for ahead in range(1, self.left + 1)
        )


def arrivals(nest: Nest, body: Block) -> Mapping[str, Arrivals]:
    """Return the loops that copy ahead, by name: those without other uses of the arrays before."""
    return {arrival.loop: arrival for arrival in _arrivals(nest, body, body)}


def _arrivals(nest: Nest, whole: Block, block: Block) -> Iterator[Arrivals]:
    for at, loop in enumerate(block):
        if not isinstance(loop, (Loop, When)):
            continue
        ahead = _ahead(nest, loop) if isinstance(loop, Loop) and loop.kind == "for" else None
        if ahead is not None and _uses(ahead, whole) == _uses(ahead, block[: at + 1]):
            before = [x for x in block[:at] if not isinstance(x, Local)]
            yield replace(ahead, in_groups=bool(before) and _is_first(ahead, before[-1]))
        else:
            yield from _arrivals(nest, whole, loop.body)


def _ahead(nest: Nest, loop: Loop) -> Arrivals | None:
    """Return the arrivals of a loop that begins with copies into slots that it uses later."""
    first = loop.body[0] if loop.body else None
    if not isinstance(first, When):
        return None
    sets = every(first.body, Set)
    arrays = {update.name for update in sets}
    counts = {_behind(update.index[0], loop.axis) for update in sets if update.index}
    sizes = {nest.types[name].shape[0] for name in arrays if nest.types[name].shape}
    if len(counts) != 1 or {*map(nest.space_of, arrays)} not in ({"shared"}, {"tiles"}):
        return None
    (count,) = counts
    if count is None or sizes != {count + 1}:
        return None
    if arrays_written(loop.body[1:]) & {use.name for use in accesses(first.body)}:
        return None
    return Arrivals(loop.name, count, frozenset(arrays), len(bulk_loops((first,))))


def bulk_loops(block: Block) -> list[Loop]:
    """Return the outermost loops of bulk copies in a block."""
    loops = [(around, s) for around, s in paths(block) if isinstance(s, Loop) and s.kind == "bulk"]
    return [loop for around, loop in loops if all(outer.kind != "bulk" for outer in around)]


def _behind(slot: Dim, axis: Symbol) -> int | None:
    """Return how many iterations ahead a slot is, among `count + 1` slots."""
    if not isinstance(slot, Remainder):
        return None
    at, slots = slot.arguments
    count = at - axis
    return count if isinstance(count, int) and slots == count + 1 and count > 0 else None


def _uses(ahead: Arrivals, block: Block) -> int:
    """Return how often a block uses the arrays."""
    return sum(use.name in ahead.arrays for use in accesses(block))


def _is_first(ahead: Arrivals, before: object) -> bool:
    """Return whether a loop copies for the first iterations, for one in each of its own."""
    if not isinstance(before, Loop) or before.size != ahead.count:
        return False
    slots = {update.index[0] for update in walk((before,)) if isinstance(update, Set)}
    return before.kind == "for" and slots == {before.axis}
