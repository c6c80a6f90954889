"""One run of a CPU program: pointers in, the library called, values out."""

from __future__ import annotations

import threading
import weakref
from signal import SIGINT, raise_signal
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import NodeStep
from luminal_lab.core.ir import Node
from luminal_lab.devices.cpu.plan import CPUBound
from luminal_lab.devices.runtime.blocks import MemoryBlock
from luminal_lab.devices.runtime.plan import LaunchSpan, NumpyType
from luminal_lab.devices.runtime.run import DeviceRun
from luminal_lab.errors import DeviceError
from luminal_lab.interrupts import look, write_over
from luminal_lab.machines.here import available_memory

if TYPE_CHECKING:
    from luminal_lab.devices.cpu.program import CPUProgram

Times: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]
BYTE = np.dtype(np.uint8)
MAIN = threading.main_thread().ident


class Pointers:
    """The addresses of arrays, for which NumPy takes a microsecond each."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Array], int]] = {}

    def of(self, slot: int, array: Array) -> int:
        """Return the address of a slot's data."""
        base = array.base
        # Frozen data, and data given out, is a new view of the same memory each time.
        owner = base if isinstance(base, np.ndarray) and base.nbytes == array.nbytes else array
        known = self._known.get(slot)
        if known is not None and known[0]() is owner:
            return known[1]
        address: int = array.ctypes.data
        self._known[slot] = weakref.ref(owner), address
        return address


class CPURun(DeviceRun[CPUBound]):
    """The state of a run."""

    program: CPUProgram
    arrays: dict[int, Array]
    """Arrays outside the arena, by slot: inputs, known values, and what is returned."""
    nanoseconds: Times | None = None
    """When each launch began and ended."""

    # -- before ------------------------------------------------------------------------------------

    @override
    def find_inputs(self, *, may_overwrite: bool) -> None:
        self.arrays = {}
        plan, values, owned = self.plan, self.bound.values, self.bound.owned
        data, pointers = self.environment.data, self.program.pointers
        for node, slot in plan.inputs:
            array = data(node)
            if slot in owned:
                block = self.program.blocks.owner(array)
                if block is None or not may_overwrite or not block.is_kept_alone(id(array)):
                    block = self._copied(slot, array)
                for alias in plan.owned[slot]:
                    values[alias] = block.address
                    self.blocks[alias] = block
            else:
                flags = array.flags
                if not (flags.c_contiguous and flags.aligned):
                    array = np.require(array, requirements=("C", "A"))
                values[slot] = pointers.of(slot, array)
            self.arrays[slot] = array
        for node_id, slot in plan.known:
            array = np.require(self.known[node_id], requirements=("C", "A"))
            values[slot] = pointers.of(slot, array)
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
        values, program, bound = self.bound.values, self.program, self.bound
        arena, scratch = program.memory(bound)
        bound.locate(arena, scratch)
        read = {id(array.base) for array in self.arrays.values()}
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
        # C notices Ctrl-C meanwhile, and stops at a point where nothing has been overwritten.
        look()
        run, first, last = self.bound.run, span.first, span.last
        if self.times is not None and self.nanoseconds is None:
            self.nanoseconds = np.zeros(2 * len(self.times), np.int64)
            run.times = self.nanoseconds.ctypes.data
        run.fault = 0
        run.watching = threading.get_ident() == MAIN
        done = self.program.library.execute(self.bound.address, first, last)
        if first + done > self.plan.no_return:
            write_over()
        if run.fault:
            at = first + done
            has_written = at > self.plan.no_return
            raise self.out_of_range(self.plan.works[at].node, has_written=has_written)
        if run.interrupted:
            raise_signal(SIGINT)  # Python has not seen it
            look()
            if done < last - first:
                raise KeyboardInterrupt

    @override
    def traced(self) -> list[NodeStep]:
        if self.times is not None and self.nanoseconds is not None:
            for at, (begin, end) in enumerate(self.nanoseconds.reshape(-1, 2).tolist()):
                self.times[at] += (end - begin) * 1e-9
                if begin and at not in self.starts:  # C's clock is that of `perf_counter`
                    self.starts[at] = begin * 1e-9
        return super().traced()

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
            return self.arrays[slot].reshape(shape)
        assert self.bound.arena is not None
        return self.bound.arena.array(shape, dtype, offset)

    # -- errors ------------------------------------------------------------------------------------

    @override
    def too_large(self) -> DeviceError:
        hint = "use smaller sizes, or keep and retrieve fewer values"
        return self.out_of_memory("the program", {}, available_memory(), "there", hint)
