"""The proof of a memory plan: no value is overwritten while a step still needs it.

It replays the steps one by one and derives by itself what is needed when. From the plan it takes
only the locations of values, and it shares no code with the planner.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from luminal_lab.errors import VerifyError

if TYPE_CHECKING:
    from luminal_lab.kernels.memory.plan import BoundPlan, MemoryPlan

Ints: TypeAlias = npt.NDArray[np.int64]


def check(plan: MemoryPlan) -> None:
    """Raise unless all values are intact when they are read, whatever the sizes of the dims.

    First, each place must hold what is read from it. Second, of any two places of the arena that
    are needed at the same step, one must be declared to lie above the other, perhaps with others
    between.
    """
    run = _Replay(plan)
    count = len(plan.arena)
    if any(place.kind == "arena" for place in plan.places[count:]):
        raise _fault("the places of the arena do not come first")
    under = {(low, high) for high, place in enumerate(plan.arena) for low in place.below}
    for low, high in under:
        if not 0 <= low < high:
            raise _fault(f"place {high} has place {low} below it, which does not come before it")
    codes = np.array([*sorted(low * count + high for low, high in under), count**2], np.int64)
    for step, live in run.live:
        pairs = live[:-1] * count + live[1:]
        wrong = np.flatnonzero(codes[codes.searchsorted(pairs)] != pairs)
        if wrong.size:
            low, high = (run.holders(int(live[wrong[0] + k]), step) for k in (0, 1))
            raise _fault(f"step {step} needs {low} and {high}, and neither lies above the other")
    if not plan.program.symbols:
        check_bound(plan.bind(), run)


def check_bound(bound: BoundPlan, replay: _Replay | None = None) -> None:
    """Raise unless everything needed at each step has bytes of the arena to itself."""
    run = replay or _Replay(bound.plan)
    alignment = bound.plan.alignment
    ends: list[int] = []
    for index, place in enumerate(bound.plan.arena):
        size = max(bound.bytes[id] for id in place.values)
        ends.append(bound.starts[index] + size)
        if bound.starts[index] < 0 or bound.starts[index] % alignment:
            name = run.name(place.values[0])
            raise _fault(f"{name} begins at {bound.starts[index]}, no multiple of {alignment}")
        if ends[-1] > bound.arena_bytes:
            name = run.name(place.values[0])
            raise _fault(f"{name} ends at {ends[-1]}, and the arena at {bound.arena_bytes}")
    starts, stops = np.array(bound.starts, np.int64), np.array(ends, np.int64)
    for step, live in run.live:
        taken = live[stops[live] > starts[live]]
        taken = taken[starts[taken].argsort()]
        wrong = np.flatnonzero(stops[taken[:-1]] > starts[taken[1:]])
        if wrong.size:
            low, high = (int(taken[wrong[0] + k]) for k in (0, 1))
            raise _fault(
                f"step {step} needs {run.holders(low, step)} at {starts[low]} to {stops[low]} and "
                f"{run.holders(high, step)} at {starts[high]} to {stops[high]}"
            )


class _Replay:
    """A run of the steps in which each place holds the name of the value written there last."""

    def __init__(self, plan: MemoryPlan) -> None:
        self.plan = plan
        self.values = {value.id: value for value in plan.program.values}
        self.root = {id: self._root(id) for id in self.values}
        self.where: dict[int, int] = {}
        self.holder: dict[int, int] = {}
        self.needed: dict[int, tuple[int, int]] = {}  # places, from step to step
        self.history: dict[int, list[tuple[int, int]]] = {}  # places, who was there and since when
        self._begin()
        for step in range(len(plan.program.steps)):
            self._step(step)
        self._end()

    def _root(self, id: int) -> int:
        while (source := self.values[id].alias_of) is not None:
            id = source
        return id

    def name(self, id: int) -> str:
        """Return the name of a value."""
        return str(self.values[id])

    def holders(self, index: int, step: int) -> str:
        """Return what a place holds at a step."""
        return self.name([id for since, id in self.history[index] if since <= step][-1])

    def content(self, index: int | None) -> str:
        """Return what a place holds now."""
        holder = None if index is None else self.holder.get(index)
        return "nothing" if holder is None else self.name(holder)

    def _begin(self) -> None:
        for index, place in enumerate(self.plan.places):
            for id in place.values:
                value = self.values[id]
                if id in self.where:
                    raise _fault(f"{value} has two places")
                self.where[id] = index
                if value.bytes != place.bytes:
                    raise _fault(f"{value} has {value.bytes} bytes, and its place {place.bytes}")
                if value.kind in ("input", "constant"):
                    if index in self.holder:
                        raise _fault(f"{self.name(self.holder[index])} and {value} have one place")
                    if place.kind != value.kind:
                        raise _fault(f"{value} is in a place of the kind {place.kind!r}")
                    self.holder[index] = id
        for id, value in self.values.items():
            if value.kind in ("input", "constant") and id not in self.where:
                raise _fault(f"{value} has no place")

    def _step(self, step: int) -> None:
        reads, writes = self.plan.program.steps[step]
        for id in reads:
            index = self.where.get(self.root[id])
            if index is None or self.holder.get(index) != self.root[id]:
                content = self.content(index)
                raise _fault(f"step {step} reads {self.name(id)}, and its place holds {content}")
            self.needed[index] = (self.needed.get(index, (step, step))[0], step)
        filled: dict[int, int] = {}
        for id in writes:
            if id not in self.where:
                raise _fault(f"step {step} writes {self.name(id)}, which has no place")
            index = self.where[id]
            if index in filled:
                both = f"{self.name(filled[index])} and {self.name(id)}"
                raise _fault(f"step {step} writes {both} to one place")
            over = [read for read in reads if self.root[read] == self.holder.get(index)]
            if over and over != [self.plan.written_over.get(id)]:
                names = " and ".join(sorted(map(self.name, over)))
                raise _fault(f"step {step} writes {self.name(id)} over {names}, which it reads")
            filled[index] = self.holder[index] = id
            self.needed[index] = (self.needed.get(index, (step, step))[0], step)
            self.history.setdefault(index, []).append((step, id))

    def _end(self) -> None:
        program, places = self.plan.program, self.plan.places
        for id, value in self.values.items():
            root = self.root[id]
            index = self.where.get(root)
            if value.kind == "output":
                kind = "none" if index is None else places[index].kind
                free = value.id in program.donated and self.where[program.donated[id]] == index
                if kind == "arena" or (kind == "input" and not free):
                    raise _fault(f"the output {value} is in a place of the kind {kind!r}")
            kept = value.kind in ("output", "constant")
            kept |= value.kind == "input" and id not in program.donated.values()
            if kept and (index is None or self.holder.get(index) != root):
                content = self.content(index)
                raise _fault(f"{value} is needed after the run, and its place holds {content}")
        for carry in self.plan.carries:
            same = self.where[self.root[carry.output]] == self.where[carry.input]
            if same == bool(carry.why_not):
                names = f"{self.name(carry.output)} and {self.name(carry.input)}"
                raise _fault(f"the places of {names} are {'one' if same else 'two'}")

    @cached_property
    def live(self) -> Sequence[tuple[int, Ints]]:
        """For each step, the places of the arena that are needed, in their order."""
        count = len(self.plan.arena)
        last = np.full(count, -1, np.int64)
        begin: dict[int, list[int]] = {}
        for index, (first, end) in self.needed.items():
            if index < count:
                last[index] = end
                begin.setdefault(first, []).append(index)
        live_by_step: list[tuple[int, Ints]] = []
        live = np.empty(0, np.int64)
        for step in range(len(self.plan.program.steps)):
            live = np.concatenate((live[last[live] >= step], begin.get(step, ()))).astype(np.int64)
            live.sort()
            live_by_step.append((step, live))
        return live_by_step


def _fault(event: str) -> VerifyError:
    return VerifyError(f"memory plan: {event}")
