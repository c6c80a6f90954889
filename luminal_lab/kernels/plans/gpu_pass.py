"""How a pass with sums of products (attention, say) runs on a GPU: a block has some of its rows.

    for each block of keys:
      their scores, one tile in shared memory
      the largest of each row so far, and the earlier sums scaled down to it
      the weights, and the values that they mix

What has an element for each key or column is in shared memory. A row has 16 threads: each computes
the scores of some keys, and mixes some columns of the values, whose sums are in its registers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from luminal_lab.core.printer import unique
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.gpu import DECLARED, GPU
from luminal_lab.kernels.nest.contraction import array_of
from luminal_lab.kernels.nest.nest import Set
from luminal_lab.kernels.nest.sizes import about, bytes_in, many
from luminal_lab.kernels.plans.match import BlockProduct, PassNest, pass_of
from luminal_lab.kernels.plans.tiler import Tiler, cut, placed, rows_last, shared_out
from luminal_lab.kernels.steps.arrays import Pack, Stage
from luminal_lab.kernels.steps.choices import Choice
from luminal_lab.kernels.steps.kinds import Guard, Mask
from luminal_lab.kernels.steps.levels import Level
from luminal_lab.kernels.steps.loops import Fission, Reorder, Split
from luminal_lab.kernels.steps.schedule import Handle, Scheduling
from luminal_lab.kernels.steps.step import level, part
from luminal_lab.kernels.steps.stopping import shorten
from luminal_lab.kernels.steps.sums import total_of

ACROSS = Choice("across", 16, 8, 32)
"""The number of threads that share a row."""
GROUPS = Choice("groups", 16, 8)
"""The number of such groups of threads in a block."""
ROWS = Choice("rows", 4, 2, 1)
"""The number of rows for each group, if there is room for them."""
SCORES = (
    Level("group", "i", "thread"),
    Level("thread", "j", "thread"),
    Level("", "k"),
    Level("own", "i"),
    Level("turn", "j"),
)
"""A thread has the scores of some rows, and one key in each turn."""


@dataclass
class GPUPass:
    """A pass whose rows are divided among blocks, groups of threads, and their threads."""

    scheduling: Scheduling
    nest: PassNest
    across: int
    shared: list[str]
    """The arrays that the threads of a block share."""
    ends: list[Handle] = field(default_factory=list[Handle])
    """The loops in which the threads of a row add up their parts."""


def pass_plan(scheduling: Scheduling, gpu: GPU) -> bool:
    """Schedule a pass with sums of products; return whether the nest is one."""
    nest = pass_of(scheduling.nest)
    row = None if nest is None else rows_last(scheduling, nest)
    if nest is None or row is None:
        return scheduling.declined("the nest is not a pass with sums of products, as attention is")
    widths = [scheduling.loop(product.column).size for product in nest.products if product.grows]
    fitting = [count for count in ACROSS.values if all(width % count == 0 for width in widths)]
    if not fitting:
        return scheduling.declined(f"its columns cannot be cut by any of {ACROSS.values}")
    across = scheduling.choose(Choice(ACROSS.name, *fitting))
    groups = scheduling.choose(GROUPS.within(gpu.threads // across))
    wide = [name for name, local in scheduling.nest.locals.items() if local.type.shape]

    def share_out(rows: int) -> None:
        scheduling.choose(ROWS, rows)
        _share_out(GPUPass(scheduling, nest, across, [*wide]), row, (groups * rows, rows))
        if bytes_in(scheduling.nest.body, "shared") > min(DECLARED, gpu.shared):
            raise ScheduleError("a pass: more is shared than there is room for")

    options = [rows for rows in scheduling.options(ROWS) if about(row.size) >= groups * rows]
    if isinstance(row.size, int):  # fewer if most cores would otherwise have no block
        most = 4 * many(scheduling.loop(name) for name in nest.path) / groups / gpu.cores
        options.sort(key=lambda rows: max(0.0, rows - most))
    return scheduling.first(share_out, options)


def _share_out(rows: GPUPass, row: Handle, by: tuple[int, int]) -> None:
    """Give rows to blocks and groups of threads, and columns to the threads."""
    scheduling, block = rows.scheduling, rows.scheduling.loop(rows.nest.block)
    around = [loop for loop in row.parts if loop != block]
    cut(scheduling, row, by, ("block", "group", "own"), masked=True)
    parts = [part for loop in block.parts for part in _apart(rows, loop)]
    columns = *around, *parts
    sums = {loop: total_of(loop.loop) for loop in columns}
    scheduling.for_each(lambda *loops: Split(loops, (rows.across,), ("turn", "thread")), columns)
    for loop in columns:
        turn, thread = (scheduling.loop(level(loop, word)) for word in ("turn", "thread"))
        if thread.size != rows.across:
            scheduling.do(Guard(thread, thread))
        if (array := sums[loop]) is not None:
            rows.ends.append(scheduling.lanes(array, thread, turn, "parts")[2])
    # Each part of the work gets its own loop over rows, inside the loop over blocks.
    own = [level(row, word) for word in ("group", "own")]
    scheduling.do(Fission(tuple(own)))
    own = [part(loop, "block") for loop in own]
    scheduling.do(Reorder((block, *own)))
    shorten(scheduling, block)
    scheduling.do(Fission(tuple(own)))
    top = scheduling.loop(level(row, "block"))
    scheduling.run("block", [*(name for name in rows.nest.path if name != row), top])
    for loop in (*top.parts, *block.parts):
        if loop != block:
            _part(rows, loop)
    placed(scheduling, "shared", *rows.shared)


def _apart(rows: GPUPass, loop: Handle) -> list[Handle]:
    """Return the loops that threads share in a part of a block; sums get loops of their own."""
    scheduling = rows.scheduling
    if not loop.is_whole:
        scheduling.do(Mask((loop,)))
    for product in rows.nest.products:
        if product.fold == loop:
            return [scheduling.loop(product.column)]
    hows = [update.how for update in loop.loop.body if isinstance(update, Set)]
    if loop.is_innermost and len(hows) > 1 and {*hows} != {"="}:
        words = tuple("each" if how == "=" else "sum" for how in hows)
        return [*scheduling.do(Fission((loop,), words)).loops]
    return [loop]


def _part(rows: GPUPass, loop: Handle) -> None:
    """Give one part of the work to threads."""
    scheduling, (group, each, *inner) = rows.scheduling, loop.inner
    thread = next((loop for loop in inner[::-1] if loop.size == rows.across), None)
    products = {level(product.column, "thread"): product for product in rows.nest.products}
    product = products.get(thread or "")
    if thread is None:
        scheduling.run("thread", [group])
    elif thread in rows.ends:
        scheduling.reorder([each, group, thread])
        scheduling.run("thread", [group])
        scheduling.run("across", [thread])
        scheduling.run("unroll", [each])
    elif product is not None and not product.grows:
        rows.shared.append(_score(scheduling, product, group, thread))
    else:
        key = [loop for loop in inner if product is not None and loop == product.fold]
        rest = [loop for loop in inner if loop not in (thread, *key)]
        scheduling.reorder([group, thread, *key, each, *rest])
        if product is not None:
            into = unique("mixed", scheduling.nest.names)
            scheduling.do(Stage(product.array, product.fold, (each, rest[0]), into))
        scheduling.run("thread", [group, thread])
        scheduling.run("unroll", [each, *rest], where_allowed=True)


def _score(scheduling: Scheduling, product: BlockProduct, group: Handle, thread: Handle) -> str:
    """Compute scores from keys in shared memory, several at once; return the array of keys."""
    axes = {"i": group, "j": thread, "k": product.fold}
    tiler = Tiler(scheduling, axes, SCORES, {}, [product.fold], is_inner=True)
    tiler.apart()
    each, turn = tiler.name("i", "own", "sum"), tiler.name("j", "turn", "sum")
    keys, into = array_of(product.right), unique("keys", scheduling.nest.names)
    copies = scheduling.do(Pack(keys, group, (product.fold, turn, thread), into)).loops
    scheduling.run("unroll", [each, turn])
    shared_out(scheduling, copies[0], int(many([group, thread])))
    return into
