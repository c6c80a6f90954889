"""How kernels run on a GPU unless somebody says otherwise: short heuristics that choose steps.

- Contractions (gpu_contraction.py) are tiles in shared memory and registers, by tensor units where
  these multiply what there is, on Hopper four warps at a time (gpu_groups.py).
- Attention (gpu_attention.py) is one launch, or two where few rows have their keys cut into pieces
  (gpu_pieces.py).
- Rows and columns (gpu_rows.py) are shared by threads, which exchange what they have summed.
- Everything else is threads that compute some neighbours each, with what is summed for them.
- What no rule fits, one thread does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from luminal_lab.core.op import size_of
from luminal_lab.core.printer import unique
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.online import online_softmax
from luminal_lab.kernels.gpu import DECLARED, GPU
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.nest.nest import Local, Loop, Nest, arrays_in, walk
from luminal_lab.kernels.nest.sizes import at_most, perfect
from luminal_lab.kernels.plans.cpu import share
from luminal_lab.kernels.plans.gpu_attention import attention_plan
from luminal_lab.kernels.plans.gpu_contraction import contraction_plan
from luminal_lab.kernels.plans.gpu_groups import group_plan
from luminal_lab.kernels.plans.gpu_pieces import in_pieces, pieces_plan
from luminal_lab.kernels.plans.gpu_rows import (
    column_plan,
    few_rows,
    is_sum,
    long_sums,
    row_body,
    row_plan,
)
from luminal_lab.kernels.plans.gpu_turns import attempt, turns, width_of
from luminal_lab.kernels.render.gpu.nest import Phase, phases
from luminal_lab.kernels.steps.arrays import Place, Shrink, around_local
from luminal_lab.kernels.steps.binding import Bind
from luminal_lab.kernels.steps.kinds import Vector
from luminal_lab.kernels.steps.loops import Merge, Split
from luminal_lab.kernels.steps.schedule import Scheduling

RESERVED = 1024
"""The bytes that are left beside tiles, for barriers and what threads exchange."""
THREADS = 256
"""How many threads a block has where nothing speaks for another number."""
OWN = 4096
"""The most bytes of an array that one thread keeps for itself."""


def gpu_schedule(nest: Nest, gpu: GPU) -> Scheduling:
    """Return a nest that runs well on a GPU, with the steps that lead there."""
    made = in_pieces_schedule(nest, gpu)
    if made is not None:
        return made
    why = ""
    for plan in (attention_plan, group_plan, contraction_plan, _general, _alone):
        made = Scheduling(nest, why=why)
        try:
            if plan(made, gpu):
                _check(made.nest, gpu, phases(made.nest))
                return made
        except ScheduleError as error:
            if plan is group_plan:
                why = f"not by four warps together: {error.message.partition(': ')[2]}"
    return made


def gpu_definition(definition: Definition, gpu: GPU) -> Definition:
    """Return a definition as a GPU computes it: softmaxes in one pass, or keys in pieces."""
    whole = online_softmax(definition)
    cut = in_pieces(whole, gpu)
    return whole if cut is whole or in_pieces_schedule(lower(cut), gpu) is None else cut


def in_pieces_schedule(nest: Nest, gpu: GPU) -> Scheduling | None:
    """Return the nest of an attention in pieces that runs well, or None where there is none."""
    made = Scheduling(nest)
    try:
        if pieces_plan(made, gpu):
            _check(made.nest, gpu, phases(made.nest))
            return made
    except ScheduleError:
        pass
    return None


def _check(nest: Nest, gpu: GPU, listed: Iterable[Phase]) -> None:
    """Refuse a nest that no GPU could run, or that has more to share than there is room for."""
    for phase in listed:
        phase.check()
        room = min(gpu.shared, DECLARED)
        tiles = sum(
            size * one.type.dtype.itemsize
            for one in walk(phase.body)
            if isinstance(one, Local)
            and one.space == "tiles"
            and isinstance(size := size_of(one.type.shape), int)
        )
        if tiles > gpu.shared - RESERVED:
            raise ScheduleError("tiles are more than threads can share")
        for one in walk(phase.body):
            if isinstance(one, Local) and one.space == "shared":
                size = size_of(one.type.shape)
                if not isinstance(size, int) or size * one.type.dtype.itemsize > room:
                    raise ScheduleError(f"{one.name} is more than threads can share")
                room -= size * one.type.dtype.itemsize


def _general(made: Scheduling, gpu: GPU) -> bool:
    """Give each outermost loop to blocks and threads, by what it does."""
    share(made)
    for local in list(made.nest.locals):
        attempt(made, lambda local=local: _shrunk(made, local))
    pieces = [*long_sums(made, gpu)]
    for top in pieces:
        attempt(made, lambda top=top: _planned(made, top, gpu, row_plan))
    for top in [one.name for one in made.nest.body if isinstance(one, Loop)]:
        if top not in pieces and not is_sum(made.nest.loops[top]):
            for loop in few_rows(made, top, gpu):
                _by_plan(made, loop, gpu)
    left = tuple(one for one in made.nest.body if isinstance(one, Loop) and one.kind == "for")
    for local in list(made.nest.locals.values()):
        if local.space == "scratch" and not around_local(made.nest, local.name):
            made.do(Place(local.name, "memory"))
    attempt(made, lambda: row_body(made, left))
    for top in left:
        if top.name in made.nest.loops:
            _near(made, top.name)
    return True


def _by_plan(made: Scheduling, loop: str, gpu: GPU) -> None:
    """Give one outermost loop to blocks and threads, if it can be."""
    outside = {one.name for one in made.nest.body if isinstance(one, Local)}
    kept = {name for name in outside if made.nest.locals[name].space != "memory"}
    if kept & arrays_in((made.nest.loops[loop],)):
        return  # one launch does not find what another left in registers
    for plan in (row_plan, column_plan, _elements):
        if attempt(made, lambda plan=plan: _planned(made, loop, gpu, plan)):
            return


def _planned(
    made: Scheduling, loop: str, gpu: GPU, plan: Callable[[Scheduling, str, GPU], bool]
) -> bool:
    """Schedule a loop by a plan, if that fits it and the GPU."""
    if not plan(made, loop, gpu):
        return False
    _check(made.nest, gpu, [phase for phase in phases(made.nest) if phase.blocks])
    return True


def _shrunk(made: Scheduling, name: str) -> None:
    """Keep of an array what one row needs, if that has a place near the threads."""
    made.do(Shrink(name))
    local = made.nest.locals[name]
    size = size_of(local.type.shape)
    if local.space == "scratch" and (
        not isinstance(size, int) or size * local.type.dtype.itemsize > 16 << 10
    ):
        raise ScheduleError(f"{name} is larger than what threads share")


# -- elements --------------------------------------------------------------------------------------


def _elements(made: Scheduling, top: str, gpu: GPU) -> bool:
    """Let each thread compute some neighbours."""
    names = [loop.name for loop in perfect(made.nest.loops[top])]
    for count in range(len(names), 0, -1):
        if attempt(made, lambda count=count: _element(made, names[:count])):
            _near(made, top)
            return True
    return False


def _element(made: Scheduling, loops: list[str]) -> None:
    """Make one loop of some, and give it to threads."""
    width = width_of(made.nest, loops[-1])
    *outer, last = loops
    lane = None
    if width > 1:
        made.do(Split(last, width))
        last, lane = f"{last}_o", f"{last}_i"
    names = [*outer, last]
    name = names[0]
    for inner in names[1:]:
        merged = unique(f"{name}_{inner}", made.nest.names)
        made.do(Merge(name, inner))
        name = merged
    size = made.nest.loops[name].size
    if isinstance(size, int) and size <= THREADS:
        thread = name
    else:
        threads = THREADS if at_most(size) >= 4 * THREADS else 64
        outer_name, thread = turns(made, name, threads)
        made.do(Bind(outer_name, "block"))
    made.do(Bind(thread, "thread"))
    if lane is not None:
        made.do(Vector(lane))


def _near(made: Scheduling, top: str) -> None:
    """Place what a thread keeps for itself in its registers."""
    for local in list(made.nest.locals.values()):
        path = around_local(made.nest, local.name)
        if local.space != "scratch" or not path:
            continue
        size = size_of(local.type.shape)
        if isinstance(size, int) and size * local.type.dtype.itemsize <= OWN:
            made.do(Place(local.name, "registers"))


def _alone(made: Scheduling, gpu: GPU) -> bool:
    """Let one thread do all of it."""
    for local in list(made.nest.locals.values()):
        if local.space == "scratch":
            is_known = isinstance(size_of(local.type.shape), int)
            made.do(Place(local.name, "registers" if is_known else "memory"))
    return True
