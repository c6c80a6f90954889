"""How attention runs on a GPU: a block has some rows of queries, and goes along the keys.

    for each block of keys:
      their scores, one tile in shared memory
      the largest of each row so far, and what was summed scaled down to it
      the weights, and the values that they mix

Scores are in shared memory alone. A row has 16 threads: each works out the scores of some keys, and
mixes some columns of the values, whose sums are in its registers meanwhile.
"""

from __future__ import annotations

from luminal_lab.core.printer import unique
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.terms import Read, free, walk as walk_terms
from luminal_lab.kernels.gpu import DECLARED, GPU
from luminal_lab.kernels.nest.nest import Local, Loop, Nest, Set, accesses, walk
from luminal_lab.kernels.nest.sizes import about
from luminal_lab.kernels.plans.match import attention_of, sum_in
from luminal_lab.kernels.plans.tiler import (
    PARTS,
    attempted,
    cut,
    for_each,
    reordered,
    run,
    shared_out,
)
from luminal_lab.kernels.steps.arrays import Pack, Place
from luminal_lab.kernels.steps.binding import Mask
from luminal_lab.kernels.steps.choices import Choice
from luminal_lab.kernels.steps.loops import Fission, Reorder, Split
from luminal_lab.kernels.steps.schedule import Handle, Scheduling
from luminal_lab.kernels.steps.staging import Stage
from luminal_lab.kernels.steps.step import level, part
from luminal_lab.kernels.steps.stopping import Stop
from luminal_lab.kernels.steps.sums import Lanes

ACROSS = 16
"""How many threads a row has."""
GROUPS = 16
"""How many such rows of threads a block has."""
ROWS = Choice("rows", 4, 2, 1)
"""How many rows of queries each has, the most that there is room for."""


def attention_plan(made: Scheduling, gpu: GPU) -> bool:
    """Schedule an attention; return whether the nest is one."""
    found = attention_of(made.nest)
    if found is None:
        return False
    room = min(DECLARED, gpu.shared)
    path = [*found.outer, found.row]
    keys = _keys(made.nest, found.block)
    shared = [name for name in path if name not in keys]
    if not shared or about(made.nest.loops[shared[-1]].size) < GROUPS:
        return False
    row = made.loop(max(shared, key=lambda name: about(made.nest.loops[name].size)))
    path.remove(row)
    reordered(made, [*path, row])
    for rows in made.options(ROWS):
        if about(row.size) >= GROUPS * rows:
            with made.attempt() as attempt:
                made.choose(ROWS, rows)
                _Plan(made, made.loop(found.block), path, row, rows, room).make()
            if attempt.held:
                return True
    return False


def _keys(nest: Nest, block: str) -> set[str]:
    """Return the names that say which keys a row has."""
    fold = next(one for one in nest.loops[block].body if isinstance(one, Loop))
    found: set[str] = set()
    for one in walk(fold.body):
        if isinstance(one, Set) and one.how == "+=":
            for part in walk_terms(one.term):
                if isinstance(part, Read) and fold.name in free(part):
                    found |= free(part).keys()
    return found


class _Plan:
    """The steps for so many rows of each group of threads."""

    def __init__(
        self,
        made: Scheduling,
        block: Handle,
        outer: list[str],
        row: Handle,
        rows: int,
        room: int,
    ) -> None:
        self.made, self.block, self.outer, self.row = made, block, outer, row
        self.rows, self.room = rows, room

    def make(self) -> None:
        """Make the steps, or refuse what has another form or too large a shape."""
        made, block = self.made, self.block
        starts, _, ends = self.row.parts
        scores, largest, weights, scaled, mixing = block.parts
        s = next(one.name for one in block.loop.body if isinstance(one, Local))
        acc = min(a.name for a in accesses(starts.loop.body) if a.how == "=")
        if len(mixing.inner) != 2:
            raise ScheduleError(f"attention: {mixing} does not mix values")
        column = mixing.inner[1]

        by = GROUPS * self.rows, self.rows
        cut(made, self.row, by, ("block", "group", "own"), masked=True)
        self.check(s, acc)
        short = [one for one in (scores, largest, weights, mixing) if not one.is_whole]
        if short:
            made.do(Mask(tuple(short)))
        weights, total = made.do(Fission((weights,), ("each", "sum"))).loops
        even = starts, scaled, ends, column, scores, weights
        sums = [(self.added(one), one) for one in (largest, total)]
        shared = [*even, *(loop for _, loop in sums)]
        for_each(made, lambda *loops: Split(loops, (ACROSS,), ("turn", "lane")), shared)
        for array, loop in sums:
            turn, lane = level(loop, "turn"), level(loop, "lane")
            made.do(Lanes(array, lane, turn, unique(f"{array}_parts", made.nest.names)))
        self.apart(s)
        self.lay_out(level(scores, "lane"), acc)
        own = [one for one in made.nest.locals.values() if one.space in ("scratch", "memory")]
        seen = tuple(one.name for one in own if one.name in (s, acc, "keys"))
        made.do(Place(seen, "shared"))
        made.do(Place(tuple(one.name for one in own if one.name not in seen), "registers"))

    def check(self, s: str, acc: str) -> None:
        """Refuse what threads have no room to share, or cannot share evenly."""
        types = self.made.nest.types
        (block,), (width,) = types[s].shape, types[acc].shape
        if not isinstance(block, int) or not isinstance(width, int):
            raise ScheduleError("attention: how wide it is is not known before it runs")
        if block % ACROSS or width % ACROSS:
            raise ScheduleError(f"attention: {width} columns are not shared by {ACROSS} threads")
        item = types[acc].dtype.itemsize
        each = GROUPS * self.rows * (block + width) + block * width
        if each * item > self.room:
            raise ScheduleError("attention: more is shared than there is room for")

    def added(self, loop: Handle) -> str:
        """Return the number that a loop adds to."""
        return next(one.name for one in accesses(loop.loop.body) if one.how != "read")

    def apart(self, s: str) -> None:
        """Give each part of the work a loop over rows of its own, inside of that over keys."""
        made, block = self.made, self.block
        group, own = (made.loop(level(self.row, word)) for word in ("group", "own"))
        made.do(Fission((group, own)))
        group, own = (made.loop(part(loop, "block")) for loop in (group, own))
        made.do(Reorder((block, group, own)))
        attempted(made, Stop(block, s))
        made.do(Fission((group, own)))

    def lay_out(self, scores: str, acc: str) -> None:
        """Give loops over groups and lanes to threads, and what is around to blocks."""
        made, top = self.made, self.made.loop(level(self.row, "block"))
        run(made, "block", [*self.outer, top])
        for one in (*top.parts, *self.block.parts):
            if one != self.block:
                self.part(one, scores, acc)

    def part(self, one: Handle, scores: str, acc: str) -> None:
        """Give one part of the work to threads."""
        made = self.made
        group, each, *inner = one.inner
        lane = next((loop for loop in inner if loop.size == ACROSS), None)
        sums = [two for two in walk(one.loop.body) if isinstance(two, Set) and two.how != "="]
        if lane is None:
            run(made, "thread", [group])
        elif lane == scores:
            self.scores(group, each, inner[0], lane)
        elif sums and inner == [lane] and len(sums[0].index) == 2:
            reordered(made, [each, group, lane])
            run(made, "thread", [group])
            run(made, "across", [lane])
            run(made, "unroll", [each])
        else:
            is_mixing = bool(sums) and sums[0].name == acc and sums[0].how == "+="
            key = inner[:1] if is_mixing else []
            rest = [loop for loop in inner if loop not in (lane, *key)]
            reordered(made, [group, lane, *key, each, *rest])
            if key:
                made.do(Stage(acc, key[0], (each, rest[0]), "mixed"))
            run(made, "thread", [group, lane])
            run(made, "unroll", [each, *rest], where_allowed=True)

    def scores(self, group: Handle, each: Handle, turn: Handle, lane: Handle) -> None:
        """Work out scores from keys in shared memory, several at once."""
        made = self.made
        reordered(made, [group, lane, each, turn])
        made.do(Fission((each, turn), PARTS))
        each, turn = (made.loop(part(loop, "sum")) for loop in (each, turn))
        fold = turn.inner[1]
        reordered(made, [fold, each, turn])
        keys = [
            one.buffer
            for one in walk_terms(sum_in(made.nest, fold).term)
            if isinstance(one, Read) and lane in free(one)
        ]
        copies = made.do(Pack(keys[0], group, (fold, turn, lane), "keys")).loops
        run(made, "thread", [group, lane])
        run(made, "unroll", [each, turn])
        shared_out(made, copies[0], GROUPS * ACROSS)
