"""The memory plan of a program as facts: buffers, and the launches that need them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, cast

from luminal_lab.devices.runtime.worklist import Worklist
from luminal_lab.errors import LabError
from luminal_lab.io.facts import BufferFacts, MemoryFacts
from luminal_lab.io.launch_facts import LaunchedCompile
from luminal_lab.kernels.memory.plan import BoundPlan, MemoryPlan
from luminal_lab.kernels.memory.text import Row

Kind: TypeAlias = Literal["arena", "input", "output", "constant", "alias"]


def memory_facts(launched: LaunchedCompile) -> tuple[tuple[BufferFacts, ...], MemoryFacts | None]:
    """Return the buffers of a run that computes all outputs, and the memory of its temporaries."""
    program: object = launched.compilation.program
    plan, work = getattr(program, "memory_plan", None), getattr(program, "list", None)
    if not isinstance(plan, MemoryPlan) or not isinstance(work, Worklist):
        return (), None
    bound = _bound(plan, launched.dims)
    nodes: dict[int, list[int]] = {}
    for id, slot in work.slot_of.items():
        nodes.setdefault(slot, []).append(id)
    # A kernel with several results has a slot for each, but no node of its own for the first.
    for work_item in work.works:
        for slot in work_item.makes:
            nodes.setdefault(slot, []).append(work_item.node.id)
    launches = _launches_of_steps(launched, plan, work)
    facts: list[BufferFacts] = []
    for row in (plan if bound is None else bound).rows():
        first, last = row["first"], row["last"]
        if not isinstance(first, int) or not isinstance(last, int):
            continue
        begin, end = launches.get(first, (0, 0))[0], launches.get(last, (0, 0))[1]
        facts.append(
            BufferFacts(
                str(row["value"]),
                _kind(row),
                _number(row["offset"]),
                _number(row["bytes"]),
                begin,
                max(begin, end),
                tuple(dict.fromkeys(nodes.get(int(cast("int", row["id"])), ()))),
            )
        )
    memory = None if bound is None else MemoryFacts(bound.unshared_bytes, bound.arena_bytes)
    return tuple(facts), memory


def _bound(plan: MemoryPlan, dims: Mapping[str, int]) -> BoundPlan | None:
    if any(name not in dims for name in plan.program.symbols):
        return None
    try:
        return plan.bind(dims)
    except LabError:
        return None  # sizes out of bounds


def _launches_of_steps(
    launched: LaunchedCompile, plan: MemoryPlan, work: Worklist
) -> dict[int, tuple[int, int]]:
    """Return the launch of each step of a plan; for NumPy's steps, the next and the last one."""
    index = {launch.node: at for at, launch in enumerate(launched.launches)}
    made_by = {slot: work_item.node.id for work_item in work.works for slot in work_item.makes}
    last = max(len(launched.launches) - 1, 0)
    spans: dict[int, tuple[int, int]] = {}
    done = 0
    for at, step in enumerate(plan.program.steps):
        nodes = [made_by[slot] for slot in step.writes if slot in made_by]
        here = next((index[id] for id in nodes if id in index), None)
        if here is None:
            spans[at] = min(done, last), max(done - 1, 0)
        else:
            spans[at] = here, here
            done = here + 1
    return spans


def _kind(row: Row) -> Kind:
    if row["view_of"] is not None:
        return "alias"
    lives = row["lives_in"]
    return "arena" if lives is None else cast("Kind", lives)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None
