"""How attention runs on a GPU: a block has some rows of queries, and goes along the keys.

    for each block of keys:
      their scores, one tile in shared memory
      the largest of each row so far, and the earlier sums scaled down to it
      the weights, and the values that they mix

Scores are in shared memory alone. A row has 16 threads: each computes the scores of some keys, and
mixes some columns of the values, whose sums are in its registers meanwhile.
"""

from __future__ import annotations

from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.gpu import DECLARED, GPU
from luminal_lab.kernels.nest.nest import Set, accesses, walk
from luminal_lab.kernels.nest.sizes import about, many
from luminal_lab.kernels.plans.match import AttentionNest, array_of, attention_of, by_column, sum_in
from luminal_lab.kernels.plans.tiler import Tiler, cut, placed, rows_last, shared_out
from luminal_lab.kernels.steps.arrays import Pack, Stage
from luminal_lab.kernels.steps.choices import Choice
from luminal_lab.kernels.steps.kinds import Mask
from luminal_lab.kernels.steps.levels import Level
from luminal_lab.kernels.steps.loops import Fission, Reorder, Split
from luminal_lab.kernels.steps.schedule import Handle, Scheduling
from luminal_lab.kernels.steps.step import level, part
from luminal_lab.kernels.steps.stopping import Stop

ACROSS = Choice("across", 16, 8, 32)
"""The number of threads that share a row."""
GROUPS = Choice("groups", 16, 8)
"""The number of such groups of threads in a block."""
ROWS = Choice("rows", 4, 2, 1)
"""The number of rows of queries for each group, as many as there is room for."""
SCORES = (
    Level("group", "i", "thread"),
    Level("lane", "j", "thread"),
    Level("", "k"),
    Level("own", "i"),
    Level("turn", "j"),
)
"""A thread has the scores of some rows, and one key of each turn."""


def attention_plan(scheduling: Scheduling, gpu: GPU) -> bool:
    """Schedule an attention; return whether the nest is one."""
    attention = attention_of(scheduling.nest)
    row = None if attention is None else rows_last(scheduling, attention)
    if attention is None or row is None:
        return False
    across, groups = scheduling.choose(ACROSS), scheduling.choose(GROUPS)
    for rows in [rows for rows in scheduling.options(ROWS) if about(row.size) >= groups * rows]:
        with scheduling.attempt() as attempt:
            scheduling.choose(ROWS, rows)
            _check(scheduling, attention, groups * rows, across, min(DECLARED, gpu.shared))
            _share_out(scheduling, attention, row, (groups * rows, rows, across))
        if attempt.held:
            return True
    return False


def _check(
    scheduling: Scheduling, attention: AttentionNest, rows: int, across: int, room: int
) -> None:
    """Refuse arrays too large for shared memory, and widths that threads cannot share evenly."""
    scores, mean = (scheduling.nest.types[array] for array in (attention.scores, attention.mean))
    (block,), (width,) = scores.shape, mean.shape
    if not isinstance(block, int) or not isinstance(width, int):
        raise ScheduleError("attention: how wide it is is not known before it runs")
    if block % across or width % across:
        raise ScheduleError(f"attention: {width} columns are not shared by {across} threads")
    each = rows * (block + width) + block * width
    if each * mean.dtype.itemsize > room:
        raise ScheduleError("attention: more is shared than there is room for")


def _share_out(
    scheduling: Scheduling, attention: AttentionNest, row: Handle, by: tuple[int, int, int]
) -> None:
    """Give rows to blocks and groups of threads, and columns to the threads."""
    *rows, across = by
    block = scheduling.loop(attention.block)
    starts, _, ends = row.parts
    scores, largest, weights, scaled, mixing = block.parts
    cut(scheduling, row, tuple(rows), ("block", "group", "own"), masked=True)
    short = [loop for loop in (scores, largest, weights, mixing) if not loop.is_whole]
    if short:
        scheduling.do(Mask(tuple(short)))
    weights, total = scheduling.do(Fission((weights,), ("each", "sum"))).loops
    columns = starts, scaled, ends, attention.feature, scores, weights, largest, total
    scheduling.for_each(lambda *loops: Split(loops, (across,), ("turn", "lane")), columns)
    for loop in (largest, total):
        turn, lane = (scheduling.loop(level(loop, word)) for word in ("turn", "lane"))
        array = next(use.name for use in accesses((turn.loop,)) if use.how != "read")
        scheduling.lanes(array, lane, turn, "parts")
    # Each part of the work gets its own loop over rows, inside the loop over keys.
    own = [level(row, word) for word in ("group", "own")]
    scheduling.do(Fission(tuple(own)))
    own = [part(loop, "block") for loop in own]
    scheduling.do(Reorder((block, *own)))
    scheduling.attempted(Stop(block, attention.scores))
    scheduling.do(Fission(tuple(own)))
    top = scheduling.loop(level(row, "block"))
    scheduling.run("block", [*(name for name in attention.path if name != row), top])
    for loop in (*top.parts, *block.parts):
        if loop != block:
            _part(scheduling, attention, loop, level(scores, "lane"))
    placed(scheduling, "shared", attention.scores, attention.mean, "keys")


def _part(scheduling: Scheduling, attention: AttentionNest, loop: Handle, scores: str) -> None:
    """Give one part of the work to threads."""
    group, each, *inner = loop.inner
    lane = next((loop for loop in inner[::-1] if loop.size == scheduling.loop(scores).size), None)
    added = [s for s in walk(loop.loop.body) if isinstance(s, Set) and s.how != "="]
    if lane is None:
        scheduling.run("thread", [group])
    elif lane == scores:
        _score(scheduling, attention, group, lane)
    elif added and inner == [lane] and len(added[0].index) == 2:
        scheduling.reorder([each, group, lane])
        scheduling.run("thread", [group])
        scheduling.run("across", [lane])
        scheduling.run("unroll", [each])
    else:
        key = [loop for loop in inner if loop == attention.key]
        rest = [loop for loop in inner if loop not in (lane, *key)]
        scheduling.reorder([group, lane, *key, each, *rest])
        if key:
            scheduling.do(Stage(attention.mean, key[0], (each, rest[0]), "mixed"))
        scheduling.run("thread", [group, lane])
        scheduling.run("unroll", [each, *rest], where_allowed=True)


def _score(scheduling: Scheduling, attention: AttentionNest, group: Handle, lane: Handle) -> None:
    """Compute scores from keys in shared memory, several at once."""
    axes = {"i": group, "j": lane, "k": attention.fold}
    tiler = Tiler(scheduling, axes, SCORES, {}, [attention.fold], is_inner=True)
    tiler.apart()
    each, turn = tiler.name("i", "own", "sum"), tiler.name("j", "turn", "sum")
    _, keys = by_column(sum_in(scheduling.nest, attention.fold).term, lane)
    copies = scheduling.do(Pack(array_of(keys), group, (attention.fold, turn, lane), "keys")).loops
    scheduling.run("unroll", [each, turn])
    shared_out(scheduling, copies[0], int(many([group, lane])))
