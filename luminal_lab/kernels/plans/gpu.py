"""How kernels run on a GPU unless somebody says otherwise: short heuristics that choose steps.

- Contractions (gpu_contraction.py) are tiles in shared memory and registers, by tensor units where
  these multiply what there is, on Hopper four warps at a time.
- Attention (gpu_attention.py) is one launch, or two where few rows have their keys cut into pieces
  (definition/pieces.py).
- Rows and columns (gpu_rows.py) are shared by threads, which exchange what they have summed.
- Everything else is threads that compute some neighbours each, with what is summed for them.
- What no rule fits, one thread does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition import pieces
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.online import online_softmax
from luminal_lab.kernels.gpu import DECLARED, GPU
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.nest.nest import Local, Nest, accesses, arrays_in
from luminal_lab.kernels.nest.sizes import at_most, bytes_in, bytes_of, width_of
from luminal_lab.kernels.plans.gpu_attention import attention_plan
from luminal_lab.kernels.plans.gpu_contraction import contraction_plan, group_plan
from luminal_lab.kernels.plans.gpu_rows import THREADS, column_plan, in_pieces, row_body, row_plan
from luminal_lab.kernels.plans.tiler import BYTES
from luminal_lab.kernels.render.gpu.nest import Phase, phases
from luminal_lab.kernels.steps.arrays import Place, Shrink, around_local
from luminal_lab.kernels.steps.choices import NO_CHOICES
from luminal_lab.kernels.steps.loops import Split
from luminal_lab.kernels.steps.schedule import Attempt, Handle, Scheduling

ELSE = "the plan is for others"
RESERVED = 1024
"""The bytes that are left beside tiles, for barriers and what threads exchange."""
LARGE = 1024
"""From this many elements on blocks have as many threads."""
OWN, SHARED = 4 << 10, 16 << 10
"""The most bytes of an array that one thread keeps for itself, and that the threads of a row do."""


def gpu_schedule(nest: Nest, gpu: GPU, asked: Mapping[str, int] = NO_CHOICES) -> Scheduling:
    """Return a nest that runs well on a GPU, with the steps that lead there."""
    made, why = Scheduling(nest), ""
    for plan in (pieces_plan, attention_plan, group_plan, contraction_plan, _general, _alone):
        made = Scheduling(nest, why, asked)
        attempt = fitted(made, gpu, plan)
        if attempt.held:
            break
        if plan is group_plan and attempt.why != ELSE:
            why = f"not by four warps together: {attempt.why.partition(': ')[2]}"
    return made


def gpu_definition(definition: Definition, gpu: GPU) -> Definition:
    """Return a definition as a GPU computes it: softmaxes in one pass, or keys in pieces."""
    whole = online_softmax(definition)
    cut = pieces.in_pieces(whole, gpu.cores)
    if cut is whole or not fitted(Scheduling(lower(cut)), gpu, pieces_plan).held:
        return whole
    return cut


def fitted(made: Scheduling, gpu: GPU, plan: Callable[..., bool], *top: Handle) -> Attempt:
    """Make the steps of a plan for a nest, or for a loop, if it is for that and there is room."""
    with made.attempt() as attempt:
        if not plan(made, *top, gpu):
            raise ScheduleError(ELSE)
        for phase in phases(made.nest):
            if phase.blocks or not top:
                _check(phase, gpu)
    return attempt


def _check(phase: Phase, gpu: GPU) -> None:
    """Refuse a phase that no GPU could run, or that has more to share than there is room for."""
    phase.check()
    if bytes_in(phase.body, "tiles") > gpu.shared - RESERVED:
        raise ScheduleError("tiles are more than threads can share")
    if bytes_in(phase.body, "shared") > min(gpu.shared, DECLARED):
        raise ScheduleError("arrays are more than threads can share")


def pieces_plan(made: Scheduling, gpu: GPU) -> bool:
    """Give a piece, and then a row, to each block; return whether the nest is one in pieces."""
    tops = made.tops
    if len(tops) != 9 or not all(_has_maximum(tops[n]) for n in (1, 5)):
        return False
    for group in (tops[:5], tops[5:]):
        made.share(group)
    _shrink(made)
    _in_memory(made)
    return len(made.tops) == 2 and all(row_plan(made, top, gpu) for top in made.tops)


def _has_maximum(loop: Handle) -> bool:
    return any(one.how == "max=" for one in accesses(loop.loop.body))


def _general(made: Scheduling, gpu: GPU) -> bool:
    """Give each outermost loop to blocks and threads, by what it does."""
    made.share(made.tops)
    _shrink(made)
    for top in made.tops:
        for loop in in_pieces(made, top, gpu):
            _by_plan(made, loop, gpu)
    left = [top for top in made.tops if top.loop.kind == "for"]
    _in_memory(made)
    with made.attempt():
        row_body(made, tuple(top.loop for top in left))
    for top in left:
        if top in made.nest.loops:
            near(made)
    return True


def _by_plan(made: Scheduling, loop: Handle, gpu: GPU) -> None:
    """Give one outermost loop to blocks and threads, if it can be."""
    outside = {one.name for one in made.nest.body if isinstance(one, Local)}
    kept = {name for name in outside if made.nest.locals[name].space != "memory"}
    if kept & arrays_in((loop.loop,)):
        return  # one launch does not find what another left in registers
    any(fitted(made, gpu, plan, loop).held for plan in (row_plan, column_plan, _elements))


def _shrink(made: Scheduling) -> None:
    """Keep of each array what one row needs, if that has a place near the threads."""
    for name in list(made.nest.locals):
        with made.attempt():
            made.do(Shrink((name,)))
            local = made.nest.locals[name]
            if local.space == "scratch" and bytes_of(local) > SHARED:
                raise ScheduleError(f"{name} is larger than what threads share")


def _in_memory(made: Scheduling) -> None:
    """Place what one launch leaves for another where both find it."""
    local = [one.name for one in made.nest.locals.values() if one.space == "scratch"]
    whole = [name for name in local if not around_local(made.nest, name)]
    if whole:
        made.do(Place(tuple(whole), "memory"))


# -- elements --------------------------------------------------------------------------------------


def _elements(made: Scheduling, top: Handle, gpu: GPU) -> bool:
    """Let each thread compute some neighbours."""
    loops = top.inner
    for count in range(len(loops), 0, -1):
        with made.attempt() as attempt:
            _element(made, loops[:count])
        if attempt.held:
            near(made)
            return True
    return False


def _element(made: Scheduling, loops: list[Handle]) -> None:
    """Make one loop of some, and give it to threads."""
    width = width_of(made.nest, loops[-1], BYTES)
    lane: list[Handle] = []
    if width > 1:
        last, *lane = made.do(Split((loops[-1],), (width,), ("vector", "lane"))).loops
        loops = [*loops[:-1], last]
    thread = made.merge(loops)
    size = thread.size
    threads = made.choose(THREADS, THREADS.values[0] if at_most(size) >= LARGE else 64)
    if not isinstance(size, int) or size > THREADS.values[0]:
        block, thread = made.turns(thread, threads)
        made.run("block", [block])
    made.run("thread", [thread])
    made.run("vector", lane)


def near(made: Scheduling) -> None:
    """Place what a thread keeps for itself in its registers."""
    local = [one for one in made.nest.locals.values() if one.space == "scratch"]
    own = [one.name for one in local if bytes_of(one) <= OWN and around_local(made.nest, one.name)]
    if own:
        made.do(Place(tuple(own), "registers"))


def _alone(made: Scheduling, gpu: GPU) -> bool:
    """Let one thread do all of it."""
    for local in [one for one in made.nest.locals.values() if one.space == "scratch"]:
        made.do(Place((local.name,), "registers" if bytes_of(local) < inf else "memory"))
    return True
