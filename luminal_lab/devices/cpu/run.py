"""One run of a CPU program: pointers in, the library called, values out."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from signal import SIGINT, raise_signal
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import NodeStep
from luminal_lab.core.ir import Node
from luminal_lab.devices.cpu.carried import CarriedArrays
from luminal_lab.devices.cpu.packs import Stage
from luminal_lab.devices.cpu.plan import CPUBound, CPUPlan
from luminal_lab.devices.runtime.blocks import MemoryBlock, address_of
from luminal_lab.devices.runtime.plan import LaunchSpan, NumpyType
from luminal_lab.devices.runtime.run import DeviceRun
from luminal_lab.errors import DeviceError
from luminal_lab.interrupts import look, write_over
from luminal_lab.machines.here import available_memory
from luminal_lab.tensor.versions import tell_of_change

if TYPE_CHECKING:
    from luminal_lab.devices.cpu.program import CPUProgram, ProgramLibrary

Times: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]
BYTE = np.dtype(np.uint8)
MAIN = threading.main_thread().ident


class Fault(NamedTuple):
    """A work that was given an index out of range."""

    node: Node
    has_written: bool
    """Whether inputs have been overwritten by then."""


def launch(
    library: ProgramLibrary, plan: CPUPlan, bound: CPUBound, span: LaunchSpan
) -> Fault | None:
    """Launch some works; return the first that was given an index out of range."""
    # C notices Ctrl-C meanwhile, and stops at a point where nothing has been overwritten.
    look()
    run, first, last = bound.run, span.first, span.last
    run.fault = 0
    run.watching = threading.get_ident() == MAIN
    at = first + library.execute(bound.address, first, last)
    if at > plan.no_return:
        write_over()
    if run.fault:
        return Fault(plan.works[at].node, at > plan.no_return)
    if run.interrupted:
        raise_signal(SIGINT)  # Python has not seen it
        look()
        if at < last:
            raise KeyboardInterrupt
    return None


class CPURun(DeviceRun[CPUBound]):
    """The state of a run."""

    program: CPUProgram
    plan: CPUPlan
    arrays: dict[int, Array]
    """What lies outside the arena, by slot: what was known, carried or returned, or looked at."""
    owners: Sequence[object]
    """What the other inputs lie in."""
    rewritten: Sequence[Array] = ()
    """The arrays that it writes over and returns again, if they are those of the last run."""
    keeps_packs = True
    """Whether the library does all work, so that copies of weights may be kept."""
    packs: Stage = "passing"
    """What happens to these copies."""
    nanoseconds: Times | None = None
    """When each launch began and ended."""

    @property
    def library(self) -> ProgramLibrary:
        """What it is launched by."""
        return self.program.library

    # -- before ------------------------------------------------------------------------------------

    @override
    def find_inputs(self, *, may_overwrite: bool) -> None:
        self.arrays = {}
        plan, values = self.plan, self.plan.values
        pointers = plan.pointers
        self.owners = pointers.find(self.environment)
        values[pointers.slots] = pointers.addresses
        if plan.carried:
            last = self._found_again() if may_overwrite else None
            rest = plan.carried if last is None else last.rest
            self._find_carried(rest, may_overwrite=may_overwrite)
        for node_id, slot in plan.known:
            array = np.require(self.known[node_id], requirements=("C", "A"))
            values[slot] = address_of(array)
            self.arrays[slot] = array

    def _found_again(self) -> CarriedArrays | None:
        """Return what the last run has returned in the places of inputs, if it lies there still."""
        last = self.plan.returned
        if last is None:
            return None
        arrays = [*map(self.environment.data, last.nodes)]
        if not last.are_alone(arrays):
            return None
        self.rewritten = arrays
        self.plan.values[last.slots] = last.addresses
        self.blocks.update(last.blocks)
        self.arrays.update(zip(last.inputs, arrays, strict=True))
        return last

    def _find_carried(self, carried: Sequence[tuple[Node, int]], *, may_overwrite: bool) -> None:
        plan, values = self.plan, self.plan.values
        if carried and may_overwrite:
            tell_of_change()  # so that no other program keeps what is to be written over
        for node, slot in carried:
            array = self.environment.data(node)
            block = self.program.blocks.owner(array) if may_overwrite else None
            if block is not None and not block.is_kept_alone(id(array)):
                block = None
            elif block is None and may_overwrite:
                block = self.program.blocks.adopt(array, self.bound.owned[slot])
            block = block or self._copied(slot, array)
            for other in plan.owned[slot]:
                values[other] = block.address
                self.blocks[other] = block
            self.arrays[slot] = array

    def _copied(self, slot: int, array: Array) -> MemoryBlock:
        """Return memory with a copy of a carried input, which may be overwritten."""
        block = self.program.blocks.take(self.bound.owned[slot])
        copy = block.array(array.shape, array.dtype)
        copy[...] = array
        # So that no other copy takes its memory before an output is in it.
        self.held.append(copy)
        return block

    @override
    def find_outputs(self) -> None:
        values, program, bound = self.plan.values, self.program, self.bound
        if self.keeps_packs and self.plan.packs.found:
            self.packs = self.plan.packs.stage(self.plan.pointers.key_of)
        bound.locate(*program.memory(bound), self.packs)
        read: set[int] = set()
        if program.reuse_outputs:
            read.update(id(array.base) for array in self.arrays.values())
            read.update(self.plan.pointers.bases)
        for slots, size in bound.outputs:
            block = program.output(slots, size, read)
            for slot in slots:
                values[slot] = block.address
                self.blocks[slot] = block
            if len(bound.outputs) > 1:
                # So that no other output takes it before an array is in it.
                held = block.array((0,), BYTE)
                self.arrays |= dict.fromkeys(slots, held)
        bound.run.step = self.environment.step & 0xFFFFFFFF
        bound.run.times = None

    # -- on the way --------------------------------------------------------------------------------

    @override
    def launch(self, span: LaunchSpan) -> None:
        if self.times is not None and self.nanoseconds is None:
            self.nanoseconds = np.zeros(2 * len(self.times), np.int64)
            self.bound.run.times = self.nanoseconds.ctypes.data
        fault = launch(self.library, self.plan, self.bound, span)
        if fault is not None:
            raise self.out_of_range(fault.node, has_written=fault.has_written)

    @override
    def traced(self) -> list[NodeStep]:
        if self.times is not None and self.nanoseconds is not None:
            for at, (begin, end) in enumerate(self.nanoseconds.reshape(-1, 2).tolist()):
                self.times[at] += (end - begin) * 1e-9
                if begin and at not in self.starts:  # C's clock is that of `perf_counter`
                    self.starts[at] = begin * 1e-9
        return super().traced()

    @override
    def results(self) -> dict[int, Array]:
        plan, results = self.plan, self.bound.results
        if self.packs == "kept now":
            plan.packs.filled()
        if not plan.carried:
            return self.returned(results)
        last = plan.returned
        if last is not None and self.rewritten and last.results is results:
            # Nobody but a session has these, so they may stay what they are.
            rewritten = dict(zip(last.ids, self.rewritten, strict=True))
            return rewritten | self.returned(last.others)
        returned = self.returned(results)
        ids = {at: id for id, at, *_ in results if id in returned}
        places = [
            (node, slots, self.blocks[slots[0]], next(ids[at] for at in slots if at in ids))
            for node, slot in plan.carried
            for slots in [plan.owned[slot]]
            if not ids.keys().isdisjoint(slots)
        ]
        plan.returned = CarriedArrays(places, plan.carried, results, returned) if places else None
        return returned

    @override
    def put(self, slot: int, value: Array) -> None:
        self.array(slot, value.shape, value.dtype)[...] = value

    @override
    def again(self, node: Node) -> None:
        self.by_numpy(node)

    @override
    def array(self, slot: int, shape: tuple[int, ...], dtype: NumpyType) -> Array:
        if slot in self.blocks:
            return self.blocks[slot].array(shape, dtype)
        offset = self.bound.memory.offsets.get(slot)
        if offset is None:
            if slot not in self.arrays:
                self.arrays[slot] = self.environment.data(self.plan.input_of[slot])
            return self.arrays[slot].reshape(shape)
        assert self.plan.located is not None
        return self.plan.located[0].array(shape, dtype, offset)

    # -- errors ------------------------------------------------------------------------------------

    @override
    def too_large(self) -> DeviceError:
        hint = "use smaller sizes, or keep and retrieve fewer values"
        return self.out_of_memory("the program", {}, available_memory(), "there", hint)
