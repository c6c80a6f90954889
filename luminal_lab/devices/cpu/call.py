"""A CPU program called on memory of the caller's, for whoever has a runtime of their own.

A session remembers what it computed from which data. Here nothing is remembered: addresses go in,
the library is called, and the values are where the caller wanted them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment
from luminal_lab.core.ir import Node
from luminal_lab.core.ops import Input
from luminal_lab.devices.cpu.packs import Stage
from luminal_lab.devices.cpu.run import CPURun, launch
from luminal_lab.devices.runtime.plan import NumpyType
from luminal_lab.devices.runtime.run import RunData
from luminal_lab.errors import DeviceError
from luminal_lab.interrupts import held

if TYPE_CHECKING:
    from luminal_lab.devices.cpu.program import CPUProgram


class Place(NamedTuple):
    """What lies at an address that is passed to a call."""

    slot: int
    shape: tuple[int, ...]
    dtype: NumpyType

    def array(self, address: int) -> Array:
        """Return what lies there as an array."""
        size = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        memory = memoryview((ctypes.c_byte * size).from_address(address))
        return np.ndarray(self.shape, self.dtype, memory)


class CPUCall:
    """A program for sizes of its dims, called with the addresses of its inputs and results.

    Values lie there in row-major order, and no result overlaps with another or with an input.
    """

    def __init__(
        self,
        program: CPUProgram,
        results: Sequence[int],
        dims: Mapping[str, int] | None = None,
        known: Sequence[int] = (),
    ) -> None:
        self._program, self._plan = program, program.plan(results, known, dims=dims)
        self._bound = bound = self._plan.bound(dims or {})
        works = self._plan.works
        beside = [works[span.first].node for span in bound.spans if not span.is_launched]
        for node in (*beside, *[node for node, _ in self._plan.carried]):
            what = "carried" if isinstance(node.op, Input) else "computed by Python"
            raise DeviceError(
                f"call: {node} is {what}, which needs a session",
                where=str(node.meta.origin or "") or None,
                hint="cx.execute() runs it",
            )
        ir, slot_of = program.ir, program.list.slot_of
        read = {slot for _, slot in self._plan.inputs} | {value.slot for value in self._plan.passed}
        own = [node for node in ir.inputs if slot_of[node.id] in read]
        self.inputs: list[Node] = [*own, *(ir[id] for id in known)]
        """What it reads, in the order of the addresses: inputs, and then what is known already."""
        self.results = [Place(slot_of[id], *bound.shape_of(ir[id].type)) for id in results]
        """The results, in the order of theirs."""
        self._given = [Place(slot_of[node.id], *bound.shape_of(node.type)) for node in self.inputs]
        # Every slot that lives in the memory of a result has its address, and what is a result
        # twice, or an input under another name, is copied.
        places = {slot: slots for slots in self._plan.places for slot in slots}
        self._copies: list[tuple[int, int, int]] = []
        first_of = {place.slot: at for at, place in enumerate(self._given)}
        for at, place in enumerate(self.results, len(self.inputs)):
            if place.slot in first_of:
                size = int(np.prod(place.shape, dtype=np.int64)) * place.dtype.itemsize
                self._copies.append((at, first_of[place.slot], size))
                continue
            first_of |= dict.fromkeys(places[place.slot], at)
        self._weights: frozenset[int] = frozenset()
        """The slots of inputs of which copies may be kept."""
        self._addresses = [*first_of.items()]
        """Each slot, and whose address it has: that of an input or of a result."""
        self._values = self._plan.values.data
        self._has_memory = bool(bound.memory.arena_bytes or bound.scratch_bytes)

    def keep(self, weights: Iterable[Node]) -> None:
        """Name the inputs that stay what they are as long as calls are given an equal `state`."""
        self._weights = frozenset(self._program.list.slot_of[node.id] for node in weights)

    def __call__(
        self, inputs: Sequence[int], results: Sequence[int], step: int = 0, state: object = None
    ) -> None:
        """Run it; Ctrl-C is raised as for any run.

        `state` is equal for as long as the inputs named by `keep` stay what they are.
        """
        program, plan, bound, values = self._program, self._plan, self._bound, self._values
        given = [*inputs, *results]
        with held(), program.turn():
            packs: Stage = "passing"
            if plan.packs.found:
                known = self._weights.issuperset
                packs = plan.packs.stage(lambda slots: state if known(slots) else None)
            if self._has_memory:
                try:
                    bound.locate(*program.memory(bound), packs)
                except MemoryError as error:
                    raise self._looked_at(given, step).too_large() from error
            for slot, at in self._addresses:
                values[slot] = given[at]
            bound.run.step, bound.run.times = step & 0xFFFFFFFF, None
            for span in bound.spans:
                fault = launch(program.library, plan, bound, span)
                if fault is not None:
                    raise self._looked_at(given, step).out_of_range(fault.node, has_written=False)
            if packs == "kept now":
                plan.packs.filled()
        for to, of, size in self._copies:
            ctypes.memmove(given[to], given[of], size)

    def _looked_at(self, given: Sequence[int], step: int) -> CPURun:
        """Return the call as a run whose values Python can see, for an error."""
        arrays = {
            place.slot: place.array(address)
            for place, address in zip((*self._given, *self.results), given, strict=True)
        }
        slot_of = self._program.list.slot_of

        def data(node: Node) -> Array:
            return arrays[slot_of[node.id]]

        environment = Environment(data, self._bound.dims, step)
        run = CPURun(self._program, self._plan, RunData(environment, {}))
        run.arrays = arrays
        return run
