"""How attention runs on a GPU: a block has some rows of queries, and goes along the keys.

    for each block of keys:
      their scores, one tile in shared memory
      the largest of each row so far, and what was summed scaled down to it
      the weights, and the values that they mix

Scores are in shared memory alone. A row has 16 threads: each works out the scores of some keys, and
mixes some columns of the values, whose sums are in its registers meanwhile.
"""

from __future__ import annotations

from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.gpu import DECLARED, GPU
from luminal_lab.kernels.nest.nest import Set, accesses, walk
from luminal_lab.kernels.nest.sizes import about, many
from luminal_lab.kernels.plans.match import AttentionNest, array_of, attention_of, by_column, sum_in
from luminal_lab.kernels.plans.tiler import Level, Tiler, cut, placed, rows_last, shared_out
from luminal_lab.kernels.steps.arrays import Pack
from luminal_lab.kernels.steps.binding import Mask
from luminal_lab.kernels.steps.choices import Choice
from luminal_lab.kernels.steps.loops import Fission, Reorder, Split
from luminal_lab.kernels.steps.schedule import Handle, Scheduling
from luminal_lab.kernels.steps.staging import Stage
from luminal_lab.kernels.steps.step import level, part
from luminal_lab.kernels.steps.stopping import Stop

ACROSS = Choice("across", 16, 8, 32)
"""How many threads a row has."""
GROUPS = Choice("groups", 16, 8)
"""How many such rows of threads a block has."""
ROWS = Choice("rows", 4, 2, 1)
"""How many rows of queries each has, the most that there is room for."""
SCORES = (
    Level("group", "i", "thread"),
    Level("lane", "j", "thread"),
    Level("", "k"),
    Level("own", "i"),
    Level("turn", "j"),
)
"""A thread has the scores of some rows, and of every so many keys one."""


def attention_plan(made: Scheduling, gpu: GPU) -> bool:
    """Schedule an attention; return whether the nest is one."""
    found = attention_of(made.nest)
    row = None if found is None else rows_last(made, found)
    if found is None or row is None:
        return False
    across, groups = made.choose(ACROSS), made.choose(GROUPS)
    for rows in [rows for rows in made.options(ROWS) if about(row.size) >= groups * rows]:
        with made.attempt() as attempt:
            made.choose(ROWS, rows)
            _check(made, found, groups * rows, across, min(DECLARED, gpu.shared))
            _share_out(made, found, row, (groups * rows, rows, across))
        if attempt.held:
            return True
    return False


def _check(made: Scheduling, found: AttentionNest, rows: int, across: int, room: int) -> None:
    """Refuse what threads have no room to share, or cannot share evenly."""
    scores, mean = (made.nest.types[array] for array in (found.scores, found.mean))
    (block,), (width,) = scores.shape, mean.shape
    if not isinstance(block, int) or not isinstance(width, int):
        raise ScheduleError("attention: how wide it is is not known before it runs")
    if block % across or width % across:
        raise ScheduleError(f"attention: {width} columns are not shared by {across} threads")
    each = rows * (block + width) + block * width
    if each * mean.dtype.itemsize > room:
        raise ScheduleError("attention: more is shared than there is room for")


def _share_out(
    made: Scheduling, found: AttentionNest, row: Handle, by: tuple[int, int, int]
) -> None:
    """Give rows to blocks and groups of threads, so many to each, and columns to the threads."""
    *rows, across = by
    block = made.loop(found.block)
    starts, _, ends = row.parts
    scores, largest, weights, scaled, mixing = block.parts
    cut(made, row, tuple(rows), ("block", "group", "own"), masked=True)
    short = [one for one in (scores, largest, weights, mixing) if not one.is_whole]
    if short:
        made.do(Mask(tuple(short)))
    weights, total = made.do(Fission((weights,), ("each", "sum"))).loops
    columns = starts, scaled, ends, found.feature, scores, weights, largest, total
    made.for_each(lambda *loops: Split(loops, (across,), ("turn", "lane")), columns)
    for loop in (largest, total):
        turn, lane = (made.loop(level(loop, word)) for word in ("turn", "lane"))
        array = next(one.name for one in accesses((turn.loop,)) if one.how != "read")
        made.lanes(array, lane, turn, "parts")
    # Each part of the work gets a loop over rows of its own, inside of that over keys.
    own = [level(row, word) for word in ("group", "own")]
    made.do(Fission(tuple(own)))
    own = [part(loop, "block") for loop in own]
    made.do(Reorder((block, *own)))
    made.attempted(Stop(block, found.scores))
    made.do(Fission(tuple(own)))
    top = made.loop(level(row, "block"))
    made.run("block", [*(name for name in found.path if name != row), top])
    for one in (*top.parts, *block.parts):
        if one != block:
            _part(made, found, one, level(scores, "lane"))
    placed(made, "shared", found.scores, found.mean, "keys")


def _part(made: Scheduling, found: AttentionNest, one: Handle, scores: str) -> None:
    """Give one part of the work to threads."""
    group, each, *inner = one.inner
    lane = next((one for one in inner[::-1] if one.size == made.loop(scores).size), None)
    added = [two for two in walk(one.loop.body) if isinstance(two, Set) and two.how != "="]
    if lane is None:
        made.run("thread", [group])
    elif lane == scores:
        _score(made, found, group, lane)
    elif added and inner == [lane] and len(added[0].index) == 2:
        made.reorder([each, group, lane])
        made.run("thread", [group])
        made.run("across", [lane])
        made.run("unroll", [each])
    else:
        key = [loop for loop in inner if loop == found.key]
        rest = [loop for loop in inner if loop not in (lane, *key)]
        made.reorder([group, lane, *key, each, *rest])
        if key:
            made.do(Stage(found.mean, key[0], (each, rest[0]), "mixed"))
        made.run("thread", [group, lane])
        made.run("unroll", [each, *rest], where_allowed=True)


def _score(made: Scheduling, found: AttentionNest, group: Handle, lane: Handle) -> None:
    """Work out scores from keys in shared memory, several at once."""
    axes = {"i": group, "j": lane, "k": found.fold}
    tiler = Tiler(made, axes, SCORES, {}, [found.fold], is_inner=True)
    tiler.apart()
    each, turn = tiler.name("i", "own", "sum"), tiler.name("j", "turn", "sum")
    _, keys = by_column(sum_in(made.nest, found.fold).term, lane)
    copies = made.do(Pack(array_of(keys), group, (found.fold, turn, lane), "keys")).loops
    made.run("unroll", [each, turn])
    shared_out(made, copies[0], int(many([group, lane])))
