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
from luminal_lab.kernels.nest.sizes import about, perfect
from luminal_lab.kernels.plans.cpu_attention import attention_of
from luminal_lab.kernels.plans.gpu_turns import attempt, reordered, shared_out
from luminal_lab.kernels.steps.arrays import Pack, Place
from luminal_lab.kernels.steps.binding import Bind, Mask
from luminal_lab.kernels.steps.kinds import Unroll
from luminal_lab.kernels.steps.loops import Fission, Reorder, Split
from luminal_lab.kernels.steps.schedule import Scheduling
from luminal_lab.kernels.steps.staging import Stage
from luminal_lab.kernels.steps.step import around, extent
from luminal_lab.kernels.steps.stopping import Stop
from luminal_lab.kernels.steps.sums import Lanes

ACROSS = 16
"""How many threads a row has."""
GROUPS = 16
"""How many such rows of threads a block has."""
ROWS = 4, 2, 1
"""How many rows of queries each has, the most that there is room for."""


def attention_plan(made: Scheduling, gpu: GPU) -> bool:
    """Schedule an attention; return whether the nest is one of many rows."""
    found = attention_of(made.nest)
    if found is None:
        return False
    room = min(DECLARED, gpu.shared)
    path = [*found.outer, found.row]
    keys = _keys(made.nest, found.block)
    shared = [name for name in path if name not in keys]
    if not shared or about(made.nest.loops[shared[-1]].size) < GROUPS:
        return False
    row = max(shared, key=lambda name: about(made.nest.loops[name].size))
    for inner in path[path.index(row) + 1 :]:
        made.do(Reorder(row, inner))
        path.remove(inner)
        path.insert(path.index(row), inner)
    for rows in ROWS:
        if about(made.nest.loops[row].size) >= GROUPS * rows and attempt(
            made, lambda rows=rows: _Plan(made, found.block, [*path], rows, room).make()
        ):
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

    def __init__(self, made: Scheduling, block: str, path: list[str], rows: int, room: int) -> None:
        self.made, self.block, self.path = made, block, path
        self.rows, self.room = rows, room

    def make(self) -> None:
        """Make the steps, or refuse what has another form or too large a shape."""
        made, row = self.made, self.path[-1]
        body = made.nest.loops[row].body
        starts, _, ends = [one.name for one in body if isinstance(one, Loop)]
        loops = [one.name for one in made.nest.loops[self.block].body if isinstance(one, Loop)]
        scores, largest, weights, scaled, mixing = loops
        s = next(one.name for one in made.nest.loops[self.block].body if isinstance(one, Local))
        acc = min(a.name for a in accesses(made.nest.loops[starts].body) if a.how == "=")
        columns = made.nest.loops[mixing].body
        if len(columns) != 1 or not isinstance(columns[0], Loop):
            raise ScheduleError(f"attention: {mixing} does not mix values")
        column = columns[0].name

        group = self.rows_of(row)
        self.check(group, s, acc)
        for name in (scores, largest, weights, mixing):
            if made.nest.loops[name].size != extent(made.nest.loops[name].axis):
                made.do(Mask(name))
        made.do(Fission(weights))
        for name in (starts, scaled, ends, column, scores, weights):
            self.across(name)
        for array, name in (
            (self.top(largest), largest),
            (self.top(f"{weights}_2"), f"{weights}_2"),
        ):
            outer, lane = self.across(name)
            made.do(Lanes(array, lane, outer, unique(f"{array}_parts", made.nest.names)))
        self.apart(group, s)
        self.lay_out(scores, acc)
        for local in list(made.nest.locals.values()):
            if local.space in ("scratch", "memory"):
                is_seen = local.name in (s, acc, "keys")
                made.do(Place(local.name, "shared" if is_seen else "registers"))

    def rows_of(self, row: str) -> str:
        """Cut the rows into blocks, groups and those of one group; return the loop over groups."""
        made = self.made
        made.do(Split(row, GROUPS * self.rows))
        inner = f"{row}_i"
        if made.nest.loops[inner].size != GROUPS * self.rows:
            made.do(Mask(inner))
        made.do(Split(inner, self.rows))
        self.path[-1:] = [f"{row}_o"]
        return f"{inner}_o"

    def check(self, group: str, s: str, acc: str) -> None:
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

    def top(self, name: str) -> str:
        """Return the number that a loop adds to."""
        return next(
            one.name for one in accesses(self.made.nest.loops[name].body) if one.how != "read"
        )

    def across(self, name: str) -> tuple[str, str]:
        """Cut a loop into turns of the threads of a row."""
        self.made.do(Split(name, ACROSS))
        return f"{name}_o", f"{name}_i"

    def apart(self, group: str, s: str) -> None:
        """Give each part of the work a loop over rows of its own, inside of that over keys."""
        made, one = self.made, f"{group[:-2]}_i"
        made.do(Fission(one))
        made.do(Fission(group))
        inside = [loop.name for loop in around(made.nest, self.block)]
        rows, each = inside[-2:]
        made.do(Reorder(each, self.block))
        made.do(Reorder(rows, self.block))
        attempt(made, lambda: made.do(Stop(self.block, s)))
        made.do(Fission(each))
        made.do(Fission(rows))

    def lay_out(self, scores: str, acc: str) -> None:
        """Give loops over groups and lanes to threads, and what is around to blocks."""
        made = self.made
        for name in self.path:
            made.do(Bind(name, "block"))
        top = made.nest.loops[self.path[-1]]
        for part in (*top.body, *made.nest.loops[self.block].body):
            if isinstance(part, Loop) and part.name != self.block:
                self.part(part, scores, acc)

    def part(self, part: Loop, scores: str, acc: str) -> None:
        """Give one part of the work to threads."""
        made = self.made
        path = [loop.name for loop in perfect(part)]
        group, each = path[:2]
        lane = next((n for n in path[2:] if made.nest.loops[n].size == ACROSS), None)
        sums = [one for one in walk(part.body) if isinstance(one, Set) and one.how != "="]
        if lane is None:
            made.do(Bind(group, "thread"))
        elif lane == f"{scores}_i":
            self.scores(path, lane)
        elif sums and lane == path[-1] and len(path) == 3 and len(sums[0].index) == 2:
            reordered(made, [each, group, lane], path)
            made.do(Bind(group, "thread"))
            made.do(Bind(lane, "across"))
            made.do(Unroll(each))
        else:
            is_mixing = bool(sums) and sums[0].name == acc and sums[0].how == "+="
            key = path[2] if is_mixing else None
            rest = [n for n in path[2:] if n not in (lane, key)]
            wanted = [group, lane, *([key] if key else []), each, *rest]
            reordered(made, wanted, path)
            if key:
                made.do(Stage(acc, key, (each, rest[0]), "mixed"))
            made.do(Bind(group, "thread"))
            made.do(Bind(lane, "thread"))
            for name in (each, *rest):
                attempt(made, lambda name=name: made.do(Unroll(name)))

    def scores(self, path: list[str], lane: str) -> None:
        """Work out scores from keys in shared memory, several at once."""
        made = self.made
        group, each, turn, _ = path
        reordered(made, [group, lane, each, turn], path)
        made.do(Fission(turn))
        made.do(Fission(each))
        _, sums, _ = [one for one in made.nest.loops[lane].body if isinstance(one, Loop)]
        rows, turns, fold = [loop.name for loop in perfect(sums)]
        (one,) = [one for one in walk(sums.body) if isinstance(one, Set)]
        reordered(made, [fold, rows, turns], [rows, turns, fold])
        keys = [
            part.buffer
            for part in walk_terms(one.term)
            if isinstance(part, Read) and lane in free(part)
        ]
        made.do(Pack(keys[0], group, (fold, turns, lane), "keys"))
        made.do(Bind(group, "thread"))
        made.do(Bind(lane, "thread"))
        for name in (rows, turns):
            made.do(Unroll(name))
        shared_out(made, f"keys_{fold}", GROUPS * ACROSS)
