"""One run of a GPU program: new data goes in, kernels are launched, results come out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import interpret
from luminal_lab.core.ir import Node
from luminal_lab.devices.gpu.engine import Engine, Location, PlacedLaunch
from luminal_lab.devices.gpu.plan import GPUBound, GPUPlan
from luminal_lab.devices.runtime.blocks import MemoryBlock
from luminal_lab.devices.runtime.plan import LaunchSpan, NumpyType
from luminal_lab.devices.runtime.run import DeviceRun
from luminal_lab.errors import DeviceError
from luminal_lab.interrupts import look, opened, write_over

if TYPE_CHECKING:
    from luminal_lab.devices.gpu.program import GPUProgram

NO_BYTES: Final = np.dtype(np.uint8)


class GPURun(DeviceRun[GPUBound]):
    """The state of a run."""

    program: GPUProgram
    plan: GPUPlan
    engine: Engine
    locations: dict[int, Location]
    """The locations of values, by slot."""
    launched: Sequence[list[PlacedLaunch]]

    # -- before ------------------------------------------------------------------------------------

    @override
    def find_inputs(self, *, may_overwrite: bool) -> None:
        plan, program = self.plan, self.program
        self.engine, self.locations = program.engine, {}
        for node, slot in plan.inputs:
            array = self.environment.data(node)
            block = program.blocks.owner(array) if self.engine.can_share else None
            if block is not None and not (array.flags.c_contiguous and _begins(array, block)):
                block = None
            if slot in self.bound.owned and not self.engine.can_share:
                location = program.given(slot, self._bytes(slot), array, None)
                self.locations |= dict.fromkeys(plan.owned[slot], location)
            elif slot in self.bound.owned:
                if block is None or not may_overwrite or not block.is_kept_alone(id(array)):
                    block = self._copied(slot, array)
                for alias in plan.owned[slot]:
                    self._lies(alias, block)
            elif block is not None:
                # An earlier run has left it there.
                self._lies(slot, block)
                self.held.append(array)
            else:
                version = self.environment.versions.get(node.id)
                self.locations[slot] = program.given(slot, self._bytes(slot), array, version)
        for node_id, slot in plan.known:
            self.locations[slot] = program.given(slot, self._bytes(slot), self.known[node_id], None)

    def _bytes(self, slot: int) -> int:
        return self.bound.memory.bytes[slot]

    def _lies(self, slot: int, block: MemoryBlock) -> None:
        self.blocks[slot] = block
        self.locations[slot] = Location(block, 0, self._bytes(slot))

    def _copied(self, slot: int, array: Array) -> MemoryBlock:
        """Return memory with a copy of a carried input, which may be overwritten."""
        block = self.program.blocks.take(self.bound.owned[slot])
        self.held.append(block.array((0,), NO_BYTES))
        location = Location(block, 0, self.bound.owned[slot])
        self.engine.upload(location, np.require(array, requirements=("C", "A")))
        return block

    @override
    def find_outputs(self) -> None:
        program, sized = self.program, self.bound
        arena = program.kept("arena", sized.memory.arena_bytes)
        for slot, offset in sized.memory.offsets.items():
            self.locations[slot] = Location(arena, offset, self._bytes(slot))
        read = {id(array.base) for array in self.held}
        for slots, size in sized.outputs:
            if program.lies_open(slots):
                block = program.output(slots, size, read)
                self.held.append(block.array((0,), NO_BYTES))
                for slot in slots:
                    self._lies(slot, block)
            else:
                memory = program.kept(slots, size)
                self.locations |= dict.fromkeys(slots, Location(memory, 0, size))
        fault = program.fault(len(self.plan.works)) if sized.faults else None
        self.launched = sized.launched(self.locations, fault, self.environment.step)

    # -- on the way --------------------------------------------------------------------------------

    @override
    def launch(self, span: LaunchSpan) -> None:
        look()
        first, last = span.first, span.last
        if last > self.plan.no_return:
            write_over()
        groups = self.launched[first:last]
        if self.times is not None:
            self.times[first:last] = self.engine.seconds(groups)
        else:
            careful = bool(self.environment.probes) or not self.plan.is_tried
            key = None if self.environment.probes else (id(self.plan), first)
            launches = [launch for group in groups for launch in group]
            self.engine.launch(launches, key, careful=careful)
        at = self.program.faulty(first, last) if span.checks else None
        if at is not None:  # a kernel was given an index out of range
            has_written = last > self.plan.no_return
            raise self.out_of_range(self.plan.works[at].node, has_written=has_written)

    @override
    def work(self) -> None:
        super().work()
        self.engine.wait()
        self.plan.is_tried = True

    @override
    def again(self, node: Node) -> None:
        # From the inputs on: intermediate values may have been overwritten.
        reads = self.ir.ancestors([node.id])
        known = {id: value for id, value in self.known.items() if id in reads}
        environment = self.environment._replace(probes={})
        opened(lambda: interpret(self.ir, environment, wanted=[node.id], known=known))

    @override
    def put(self, slot: int, value: Array) -> None:
        self.engine.upload(self.locations[slot], value)

    @override
    def array(self, slot: int, shape: tuple[int, ...], dtype: NumpyType) -> Array:
        location = self.locations[slot]
        if isinstance(location.memory, MemoryBlock):
            self.engine.wait()
            return location.memory.array(shape, dtype, location.offset)
        array = np.empty(shape, dtype)
        self.engine.download(location, array)
        return array

    @override
    def fetched(self, id: int, slot: int, shape: tuple[int, ...], dtype: NumpyType) -> Array:
        array = self.program.fresh(id, shape, dtype)
        self.engine.download(self.locations[slot], array)
        return array

    # -- errors ------------------------------------------------------------------------------------

    @override
    def too_large(self) -> DeviceError:
        engine, sizes = self.program.engine, self.bound.memory.bytes
        given = {"inputs": sum(sizes[slot] for _, slot in self.plan.inputs)}
        hint = "use smaller sizes, keep and retrieve fewer values, or ll.HalfPrecision"
        subject = f"on {engine.name} the program"
        return self.out_of_memory(subject, given, engine.free_bytes(), "left", hint)


def _begins(array: Array, block: MemoryBlock) -> bool:
    """Return whether an array begins where a block does."""
    begin: int = array.ctypes.data
    seen: int = block.array((0,), NO_BYTES).ctypes.data
    return begin == seen
