"""What a run does on any device: what NumPy computes, who looks at values, what comes out."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Generic

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, NodeStep, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.ops import HostCall, Pick
from luminal_lab.devices.runtime.blocks import MemoryBlock
from luminal_lab.devices.runtime.plan import BoundT, RunPlan
from luminal_lab.errors import DeviceError, RangeError
from luminal_lab.interrupts import opened

LARGEST = 5
"""How many values an error about memory names."""


class DeviceRun(ABC, Generic[BoundT]):
    """The state of a run."""

    def __init__(
        self,
        ir: IR,
        plan: RunPlan[Any],
        bound: BoundT,
        environment: Environment,
        known: Mapping[int, Array],
    ) -> None:
        self.ir = ir
        self.plan = plan
        self.bound = bound
        self.environment = environment
        self.known = known
        self.blocks: dict[int, MemoryBlock] = {}
        """The memory of the program's own that the host sees, by slot."""

    def run(self, trace: list[NodeStep] | None) -> dict[int, Array]:
        """Do all work, and return the values that were asked for."""
        try:
            return self.computed(trace)
        except MemoryError as error:
            raise self.too_large() from error

    @abstractmethod
    def computed(self, trace: list[NodeStep] | None) -> dict[int, Array]:
        """Do all work, and return the values that were asked for."""

    @abstractmethod
    def too_large(self) -> DeviceError:
        """Return the error that says how much memory the run needs."""

    @abstractmethod
    def array(self, slot: int, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
        """Return a value as an array: where it lies, if the host sees it, or a copy."""

    # -- what NumPy does ---------------------------------------------------------------------------

    def by_numpy(self, node: Node) -> list[tuple[int, Array]]:
        """Compute one node as the interpreter does; of several results those that are picked."""
        keeps = isinstance(node.op, HostCall)
        known = {id: self._value(id, keeps=keeps) for id in node.sources}
        environment = self.environment._replace(probes={})
        picks = {0: node.id}
        if node.extra:
            picks = {n.op.index: n.id for n in self.ir.users(node) if isinstance(n.op, Pick)}
        values = opened(
            lambda: interpret(self.ir, environment, wanted=list(picks.values()), known=known)
        )
        shapes = {id: self.bound.shape_of(self.ir[id].type)[0] for id in picks.values()}
        return [
            (index, np.ascontiguousarray(values[id]).reshape(shapes[id]))
            for index, id in picks.items()
        ]

    def _value(self, id: int, *, keeps: bool) -> Array:
        """Return what a node is now; a copy if whoever gets it may keep it."""
        slot = self.plan.list.slot_of[id]
        array = self.array(slot, *self.bound.shape_of(self.ir[id].type))
        return array.copy() if keeps and slot not in self.blocks else array

    # -- who looks at values -----------------------------------------------------------------------

    def probe_work(self, at: int) -> None:
        """Show what some work has made to those who asked."""
        if self.environment.probes:
            makes = self.plan.works[at].makes
            for id, slot, shape, dtype in self.bound.results:
                if slot in makes:
                    self.probe(id, self.array(slot, shape, dtype))

    def probe(self, id: int, value: Array) -> None:
        """Show a value to those who asked for it."""
        for call in self.environment.probes.get(id, ()):
            view = value.view()
            view.flags.writeable = False
            opened(partial(call, view))

    # -- what comes out ----------------------------------------------------------------------------

    def passed(self) -> dict[int, Array]:
        """Return copies of what is an input, or was known, under another name."""
        return {value.id: self._passed(value.id, value.slot) for value in self.plan.passed}

    def _passed(self, id: int, slot: int) -> Array:
        shape, dtype = self.bound.shape_of(self.ir[id].type)
        slot_of = self.plan.list.slot_of
        array = next((v for i, v in self.known.items() if slot_of.get(i) == slot), None)
        if array is None:
            source = next(n for n in self.plan.nodes if not n.sources and slot_of.get(n.id) == slot)
            array = self.environment.data(source)
        copy = np.empty(shape, dtype)
        copy.reshape(-1)[...] = np.ascontiguousarray(array).reshape(-1)
        return copy

    def results(self) -> dict[int, Array]:
        """Return what was computed and asked for."""
        results: dict[int, Array] = {}
        taken: set[int] = set()
        wanted = self.plan.asked.wanted
        for id, slot, shape, dtype in self.bound.results:
            if id not in wanted:
                continue
            if slot not in self.blocks:
                array = self.fetched(id, slot, shape, dtype)
            elif slot in taken:
                array = self.blocks[slot].array(shape, dtype).copy()
            else:
                array = self.blocks[slot].array(shape, dtype)
                self.blocks[slot].given = weakref.ref(array)
            results[id] = array
            taken.add(slot)
        return results

    def fetched(
        self, id: int, slot: int, shape: tuple[int, ...], dtype: np.dtype[np.generic]
    ) -> Array:
        """Return a result that lies in no block of its own."""
        return self.array(slot, shape, dtype)

    def traced(self, seconds: Sequence[float]) -> list[NodeStep]:
        """Return what each node took, by what each work took."""
        works = {work.node.id: at for at, work in enumerate(self.plan.works)}
        steps: list[NodeStep] = []
        for node in self.plan.nodes:
            at = works.get(node.id)
            size = 0
            for type in node.types:
                shape, dtype = self.bound.shape_of(type)
                size += int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            steps.append(NodeStep(node, 0.0 if at is None else seconds[at], size))
        return steps

    # -- errors ------------------------------------------------------------------------------------

    def out_of_range(self, node: Node, *, has_written: bool) -> RangeError:
        """Return what to tell of work that was given an index that is no position."""
        error = RangeError(f"{node}: an index is out of range")
        try:
            self.again(node)  # which says where, and what the index is
        except RangeError as found:
            error = found
        if has_written:
            slots = self.plan.list.slots
            names = ", ".join(f"%{slots[slot].name}" for slot in self.plan.owned)
            error.add_note(f"before that the run had written to {names}: give data to it again")
        return error

    @abstractmethod
    def again(self, node: Node) -> None:
        """Have NumPy compute a node that a kernel could not."""

    def largest(self) -> str:
        """Return the largest values, for an error that says that there is not enough memory."""
        slots = self.plan.list.slots
        sizes = self.bound.memory.bytes.items()
        largest = sorted(sizes, key=lambda pair: (-pair[1], pair[0]))[:LARGEST]
        lines = [
            f"{size:>16,}  %{slots[slot].name}"
            + (f": {slots[slot].type}" if slots[slot].type else "")
            for slot, size in largest
            if size
        ]
        return "the largest values:\n" + "\n".join(lines)
