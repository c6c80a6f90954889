"""One run of a GPU program: what is new goes in, kernels are launched, results come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Final

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, NodeStep, interpret
from luminal_lab.core.ir import Node
from luminal_lab.devices.gpu.engine import Location, PlacedLaunch
from luminal_lab.devices.gpu.plan import GPUBound, GPUPlan, LaunchSpan
from luminal_lab.devices.runtime.blocks import MemoryBlock
from luminal_lab.devices.runtime.run import DeviceRun
from luminal_lab.errors import DeviceError
from luminal_lab.interrupts import look, opened, write_over

if TYPE_CHECKING:
    from luminal_lab.devices.gpu.program import GPUProgram

NO_BYTES: Final = np.dtype(np.uint8)


class GPURun(DeviceRun[GPUBound]):
    """The state of a run."""

    def __init__(
        self,
        program: GPUProgram,
        plan: GPUPlan,
        environment: Environment,
        known: Mapping[int, Array],
    ) -> None:
        super().__init__(program.ir, plan, plan.bound(environment.dims), environment, known)
        self.program = program
        self.engine = program.engine
        self.places: dict[int, Location] = {}
        self.held: list[Array] = []

    @override
    def computed(self, trace: list[NodeStep] | None) -> dict[int, Array]:
        self._inputs(may_overwrite=trace is None)
        self._outputs()
        fault = self.program.fault(len(self.plan.works)) if self.bound.faults else None
        passed = self.passed()
        for key, value in passed.items():
            self.probe(key, value)
        launched = self.bound.launched(self.places, fault, self.environment.step)
        times = [0.0] * len(self.plan.works)
        for span in self.bound.spans:
            look()
            if span.last > self.plan.no_return:
                write_over()
            self._span(span, launched, times, trace is not None)
            if span.checks:
                self._check(span)
        self.engine.wait()
        self.bound.is_tried = True
        if trace is not None:
            trace += self.traced(times)
        return passed | self.results()

    # -- before ------------------------------------------------------------------------------------

    def _inputs(self, *, may_overwrite: bool) -> None:
        plan, program = self.plan, self.program
        for node, slot in plan.inputs:
            array = self.environment.data(node)
            block = program.blocks.owner(array) if self.engine.can_share else None
            if block is not None and not (array.flags.c_contiguous and _begins(array, block)):
                block = None
            if slot in self.bound.owned and not self.engine.can_share:
                location = program.given(slot, self._bytes(slot), array, None)
                self.places |= dict.fromkeys(plan.owned[slot], location)
            elif slot in self.bound.owned:
                if block is None or not may_overwrite or not block.is_kept_alone(id(array)):
                    block = self._copied(slot, array)
                for other in plan.owned[slot]:
                    self._lies(other, block)
            elif block is not None:
                # It is what an earlier run has left there.
                self._lies(slot, block)
                self.held.append(array)
            else:
                version = self.environment.versions.get(node.id)
                self.places[slot] = program.given(slot, self._bytes(slot), array, version)
        for node_id, slot in plan.known:
            self.places[slot] = program.given(slot, self._bytes(slot), self.known[node_id], None)

    def _bytes(self, slot: int) -> int:
        return self.bound.memory.bytes[slot]

    def _lies(self, slot: int, block: MemoryBlock) -> None:
        self.blocks[slot] = block
        self.places[slot] = Location(block, 0, self._bytes(slot))

    def _copied(self, slot: int, array: Array) -> MemoryBlock:
        """Return memory with a copy of a carried input, which may be written over."""
        block = self.program.state(self.bound.owned[slot])
        self.held.append(block.array((0,), NO_BYTES))
        location = Location(block, 0, self.bound.owned[slot])
        self.engine.upload(location, np.require(array, requirements=("C", "A")))
        return block

    def _outputs(self) -> None:
        program, sized = self.program, self.bound
        arena = program.arena(sized.memory.arena_bytes)
        for slot, offset in sized.memory.offsets.items():
            self.places[slot] = Location(arena, offset, self._bytes(slot))
        for slots, size in sized.outputs:
            if program.lies_open(slots):
                block = program.output(slots, size, self.held)
                self.held.append(block.array((0,), NO_BYTES))
                for slot in slots:
                    self._lies(slot, block)
            else:
                memory = program.result(slots, size)
                for slot in slots:
                    self.places[slot] = Location(memory, 0, size)

    # -- on the way --------------------------------------------------------------------------------

    def _span(
        self,
        span: LaunchSpan,
        launched: Sequence[list[PlacedLaunch]],
        times: list[float],
        traced: bool,
    ) -> None:
        first, last = span.first, span.last
        if not span.is_launched:
            start = perf_counter()
            self._by_hand(first)
            times[first] = perf_counter() - start
            self.probe_work(first)
        elif self.environment.probes:
            for at in range(first, last):
                self.engine.launch(launched[at], None, careful=True)
                self.probe_work(at)
        elif traced:
            times[first:last] = self.engine.seconds(launched[first:last])
        else:
            ready = [launch for group in launched[first:last] for launch in group]
            key = id(self.bound), first
            self.engine.launch(ready, key, careful=not self.bound.is_tried)

    def _check(self, span: LaunchSpan) -> None:
        """Raise if a kernel was given an index that is no position."""
        at = self.program.faulty(span.first, span.last)
        if at is None:
            return
        has_written = span.last > self.plan.no_return
        raise self.out_of_range(self.plan.works[at].node, has_written=has_written)

    @override
    def again(self, node: Node) -> None:
        # From the inputs on: what was computed on the way may be written over.
        reads = self.ir.ancestors([node.id])
        known = {id: value for id, value in self.known.items() if id in reads}
        environment = self.environment._replace(probes={})
        opened(lambda: interpret(self.ir, environment, wanted=[node.id], known=known))

    def _by_hand(self, at: int) -> None:
        """Have NumPy do some work, and put the results where they are looked for."""
        work = self.plan.works[at]
        for result, value in self.by_numpy(work.node):
            self.engine.upload(self.places[work.makes[result]], value)

    @override
    def array(self, slot: int, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
        location = self.places[slot]
        if isinstance(location.memory, MemoryBlock):
            self.engine.wait()
            return location.memory.array(shape, dtype, location.offset)
        array = np.empty(shape, dtype)
        self.engine.download(location, array)
        return array

    @override
    def fetched(
        self, id: int, slot: int, shape: tuple[int, ...], dtype: np.dtype[np.generic]
    ) -> Array:
        array = self.program.fresh(id, shape, dtype)
        self.engine.download(self.places[slot], array)
        return array

    # -- errors ------------------------------------------------------------------------------------

    @override
    def too_large(self) -> DeviceError:
        sizes = self.bound.memory.bytes
        outputs = sum(size for _, size in self.bound.outputs)
        available = self.engine.free_bytes()
        left = "more than there is" if available is None else f"and {available:,} are left"
        given = sum(sizes[slot] for _, slot in self.plan.inputs)
        return DeviceError(
            f"execute: out of memory: on {self.engine.name} the program needs {given:,} bytes for "
            f"inputs, {self.bound.memory.arena_bytes:,} for what is computed on the way and "
            f"{outputs:,} for what is retrieved, {left}",
            where=self.largest(),
            hint="use smaller sizes, keep and retrieve fewer values, or ll.HalfPrecision",
        )


def _begins(array: Array, block: MemoryBlock) -> bool:
    """Return whether an array begins where a block does."""
    begin: int = array.ctypes.data
    seen: int = block.array((0,), NO_BYTES).ctypes.data
    return begin == seen
