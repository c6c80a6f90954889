"""The memory plan of a program as facts: buffers, from which launch to which they are needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, cast

from luminal_lab.devices.runtime.worklist import Worklist
from luminal_lab.errors import LabError
from luminal_lab.io.facts import BufferFacts, MemoryFacts
from luminal_lab.io.launch_facts import Launched
from luminal_lab.kernels.memory.plan import BoundPlan, MemoryPlan
from luminal_lab.kernels.memory.text import Row

Kind: TypeAlias = Literal["arena", "input", "output", "constant", "alias"]


def memory_facts(launched: Launched) -> tuple[tuple[BufferFacts, ...], MemoryFacts | None]:
    """Return the buffers of a run that computes all outputs, and what its temporaries take."""
    program: object = launched.compilation.program
    plan, work = getattr(program, "memory_plan", None), getattr(program, "list", None)
    if not isinstance(plan, MemoryPlan) or not isinstance(work, Worklist):
        return (), None
    bound = _bound(plan, launched.dims)
    nodes: dict[int, list[int]] = {}
    for id, slot in work.slot_of.items():
        nodes.setdefault(slot, []).append(id)
    # A kernel of several results has a slot for each, and no node for the first alone.
    for one in work.works:
        for slot in one.makes:
            nodes.setdefault(slot, []).append(one.node.id)
    places = _launches_of_steps(launched, plan, work)
    found: list[BufferFacts] = []
    for row in (plan if bound is None else bound).rows():
        first, last = row["first"], row["last"]
        if not isinstance(first, int) or not isinstance(last, int):
            continue
        begin, end = places.get(first, (0, 0))[0], places.get(last, (0, 0))[1]
        found.append(
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
    return tuple(found), memory


def _bound(plan: MemoryPlan, dims: Mapping[str, int]) -> BoundPlan | None:
    if any(name not in dims for name in plan.program.symbols):
        return None
    try:
        return plan.bind(dims)
    except LabError:
        return None  # sizes out of bounds


def _launches_of_steps(
    launched: Launched, plan: MemoryPlan, work: Worklist
) -> dict[int, tuple[int, int]]:
    """Return for each step of a plan its launch; of NumPy's, those after and before it."""
    place = {launch.node: at for at, launch in enumerate(launched.launches)}
    made_by = {slot: one.node.id for one in work.works for slot in one.makes}
    last = max(len(launched.launches) - 1, 0)
    found: dict[int, tuple[int, int]] = {}
    done = 0
    for at, step in enumerate(plan.program.steps):
        nodes = [made_by[slot] for slot in step.writes if slot in made_by]
        here = next((place[id] for id in nodes if id in place), None)
        if here is None:
            found[at] = min(done, last), max(done - 1, 0)
        else:
            found[at] = here, here
            done = here + 1
    return found


def _kind(row: Row) -> Kind:
    if row["view_of"] is not None:
        return "alias"
    lives = row["lives_in"]
    return "arena" if lives is None else cast("Kind", lives)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None
