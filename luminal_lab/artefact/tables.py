"""The plan of a run as tables of C: launches, numbers of tasks, and where each value lies.

A value lies in the arena (its place there, from 0 up), at a pointer that the caller gives (-1 - k),
or among the weights (the numbers below those).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from luminal_lab.artefact.contents import Contents, Given
from luminal_lab.core.op import size_of
from luminal_lab.core.ops import UserKernel
from luminal_lab.devices.cpu.plan import CPUPlan
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.definition.numbers import Numbers


class Pointers:
    """Where inputs, outputs and weights lie, by the codes above."""

    def __init__(self, contents: Contents) -> None:
        returned = [output for output in contents.outputs if not output.carried]
        self.given: list[Given] = [*contents.inputs, *returned]
        """What the caller gives, in order; a carried output lies where its input was."""
        codes = {one.id: -1 - at for at, one in enumerate(contents.inputs)}
        first = -1 - len(self.given)
        self.read = codes | {weight.id: first - at for at, weight in enumerate(contents.weights)}
        """The codes of inputs and weights, by their nodes."""
        self.carried = {one.name: codes[one.id] for one in contents.inputs if one.carried}
        self.written = {
            one.name: -1 - at for at, one in enumerate(returned, len(contents.inputs))
        } | {one.name: self.carried[one.carried] for one in contents.outputs if one.carried}
        """The codes of outputs, by their names."""


@dataclass
class PlanTables:
    """The tables of one plan; `lab_plan` in artefact.c."""

    contents: Contents
    pointers: Pointers
    plan: CPUPlan
    numbers: Numbers
    launches: list[int] = field(default_factory=list[int])
    tasks: list[int] = field(default_factory=list[int])
    places: list[int] = field(default_factory=list[int])
    below: list[int] = field(default_factory=list[int])
    values: dict[int, int] = field(default_factory=dict[int, int])
    """Where each slot lies."""
    limits: list[tuple[int, int, float]] = field(default_factory=list[tuple[int, int, float]])
    before: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    after: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    scratch: set[int] = field(default_factory=set[int])

    def __post_init__(self) -> None:
        self._check()
        self._find_values()
        for output in self.contents.outputs:
            self._find_output(output)
        # What is returned is copied before what is carried takes its place.
        homes = self.pointers.carried.values()
        self.after.sort(key=lambda copy: copy[0] in homes)
        self._find_works()

    def _check(self) -> None:
        """Raise where only Python can say whether an op fits some sizes."""
        checks = [*self.plan.checks.items()]
        for number in self.plan.unlimited:
            check, node = checks[number]
            raise DeviceError(
                f"export: whether {check.op.name} fits depends on {', '.join(check.dims)} in a "
                "way that the C does not check",
                where=str(node.meta.origin or "") or None,
                hint="give these dims numbers, or bounds with dim(name, low, high)",
            )
        for number, low, high in self.plan.limits:
            self.limits.append((self.numbers.place(self.plan.numbers.dims[number]), low, high))

    def _find_values(self) -> None:
        """Place what is in the arena, and what is read."""
        plan = self.plan
        for at, place in enumerate(plan.plan.arena):
            self.places.append(self.numbers.place(place.bytes))
            self.below += [len(place.below), *place.below]
            self.values |= dict.fromkeys(place.values, at)
        for node, slot in plan.inputs:
            slots = plan.owned.get(slot, (slot,))
            self.values |= dict.fromkeys(slots, self.pointers.read[node.id])
        for id, slot in plan.known:
            self.values[slot] = self.pointers.read[id]

    def _find_output(self, output: Given) -> None:
        """Place an output where the caller wants it, or copy it there."""
        plan, slot_of, values = self.plan, self.contents.work.slot_of, self.values
        slot, code = slot_of[output.id], self.pointers.written[output.name]
        number = self.numbers.place(size_of(output.type.shape) * output.type.dtype.itemsize)
        if output.id in {value.id for value in plan.passed}:
            read = self.pointers.read.items()
            origin = next(where for id, where in read if slot_of.get(id) == slot)
            to = self._room(number) if output.carried else code
            self.before.append((to, origin, number))
            if output.carried:  # another input's place, which is read until the end
                self.after.append((code, to, number))
            return
        if slot not in values:
            place = self._room(number) if output.carried else code
            slots = next(slots for slots in plan.places if slot in slots)
            values |= dict.fromkeys(slots, place)
        if values[slot] != code:
            self.after.append((code, values[slot], number))

    def _room(self, number: int) -> int:
        """Return a new place in the arena, above all others."""
        self.places.append(number)
        self.below.append(-1)
        return len(self.places) - 1

    def _find_works(self) -> None:
        plan, place, count = self.plan, self.numbers.place, self.contents.work.most_phases
        for work in plan.works:
            number, kernel = plan.number_of(work), plan.kernel_of(work)
            assert number is not None
            assert kernel is not None
            self.launches.append(number)
            tasks = [place(phase.tasks) for phase in kernel.phases]
            self.tasks += [*tasks, *[0] * (count - len(tasks))]
            self.scratch.add(place(kernel.scratch))
            if isinstance(work.node.op, UserKernel):  # which would write nothing
                self.limits.append((tasks[0], 1, inf))

    def text(self, at: int) -> str:
        """Return the tables in C, the numbers of which end in the number of the plan."""
        slots = range(len(self.contents.work.slots))
        values = [self.values.get(slot, "LAB_NOWHERE") for slot in slots]
        limits = [
            (n, low, "INT64_MAX" if high == inf else int(high)) for n, low, high in self.limits
        ]
        tables: dict[str, tuple[str, Sequence[object]]] = {
            "launches": ("lab_i32", self.launches),
            "tasks": ("lab_i32", self.tasks),
            "places": ("lab_i32", self.places),
            "below": ("lab_i32", self.below),
            "values": ("lab_i32", values),
            "limits": ("lab_limit", [*map(_braces, limits)]),
            "before": ("lab_copy", [*map(_braces, self.before)]),
            "after": ("lab_copy", [*map(_braces, self.after)]),
            "scratch": ("lab_i32", sorted(self.scratch)),
        }
        texts = [table(kind, f"lab_{name}_{at}", rows) for name, (kind, rows) in tables.items()]
        counts = [len(tables[name][1]) for name in ("launches", "places", "limits")]
        counts += [len(tables[name][1]) for name in ("before", "after", "scratch")]
        fields = [*map(str, counts), *(f"lab_{name}_{at}" for name in tables)]
        return "\n".join([*texts, f"static const lab_plan lab_plan_{at} = {_braces(fields)};"])


def _braces(row: Iterable[object]) -> str:
    return f"{{{', '.join(map(str, row))}}}"


def table(kind: str, name: str, rows: Sequence[object]) -> str:
    """Return a table in C, in lines that can be read; an empty one has a row that nobody reads.

    >>> print(table("lab_i32", "lab_places_0", [4, 1]))
    static const lab_i32 lab_places_0[] = {
        4, 1,
    };
    """
    lines = [""]
    for row in rows or ["0" if kind in ("lab_i32", "lab_i64") else "{0, 0, 0}"]:
        if len(lines[-1]) + len(str(row)) > 92:
            lines.append("")
        lines[-1] += f"{' ' * bool(lines[-1])}{row},"
    body = "\n".join(f"    {line}" for line in lines)
    return f"static const {kind} {name}[] = {{\n{body}\n}};"
