"""One run of a CPU program: pointers in, the library called, values out."""

from __future__ import annotations

import signal
import threading
import weakref
from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, Step, interpret
from luminal_lab.core.ir import Node
from luminal_lab.core.ops import HostCall, Pick
from luminal_lab.devices.cpu_blocks import Block
from luminal_lab.devices.cpu_plan import Bound, Plan
from luminal_lab.devices.machine import available_memory
from luminal_lab.errors import DeviceError, RangeError

if TYPE_CHECKING:
    from luminal_lab.devices.cpu_program import CPUProgram

Times: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]
BYTE = np.dtype(np.uint8)
MAIN = threading.main_thread().ident


class Pointers:
    """Where arrays are, which NumPy takes a microsecond to say."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Array], int]] = {}

    def of(self, slot: int, array: Array) -> int:
        """Return where the data of a slot is."""
        base = array.base
        # What is frozen, or given out, is a new view of the same data each time.
        owner = base if isinstance(base, np.ndarray) and base.nbytes == array.nbytes else array
        known = self._known.get(slot)
        if known is not None and known[0]() is owner:
            return known[1]
        address: int = array.ctypes.data
        self._known[slot] = weakref.ref(owner), address
        return address


class CPURun:
    """The state of a run."""

    def __init__(
        self,
        program: CPUProgram,
        plan: Plan,
        environment: Environment,
        known: Mapping[int, Array],
    ) -> None:
        self.program = program
        self.plan = plan
        self.environment = environment
        self.known = known
        self.bound: Bound = plan.bound(environment.dims)
        self.arrays: dict[int, Array] = {}
        """What lies outside the arena, by slot: inputs, what was known, and what is returned."""
        self.blocks: dict[int, Block] = {}
        self.copies: list[Array] = []

    def run(self, trace: list[Step] | None) -> dict[int, Array]:
        """Do all work, and return the values that were asked for."""
        self._inputs(may_overwrite=trace is None)
        try:
            self._outputs()
        except MemoryError as error:
            raise self._too_large() from error
        passed = {one.id: self._passed(one.id, one.slot) for one in self.plan.passed}
        self.bound.run.step = self.environment.step & 0xFFFFFFFF
        times: Times | None = None
        if trace is not None:
            times = np.zeros(2 * len(self.plan.works) or 1, np.int64)
        self.bound.run.times = None if times is None else times.ctypes.data
        if self.environment.probes:
            for key, value in passed.items():
                self._probe(key, value)
        self.program.is_late = self._work(times)
        if trace is not None and times is not None:
            self._trace(trace, times)
        return passed | self._results()

    def _work(self, times: Times | None) -> bool:
        """Do all work in order; return whether Ctrl-C came when it was too late to stop."""
        late = False
        for first, last, in_c in self.bound.ranges:
            if not in_c:
                start = perf_counter()
                self._by_hand(first)
                if times is not None:
                    times[2 * first + 1] = int((perf_counter() - start) * 1e9)
                self._probes(first)
            elif self.environment.probes:
                for at in range(first, last):
                    late |= self._launch(at, at + 1)
                    self._probes(at)
            else:
                late |= self._launch(first, last)
        return late

    # -- before ------------------------------------------------------------------------------------

    def _inputs(self, *, may_overwrite: bool) -> None:
        plan, values, owned = self.plan, self.bound.values, self.bound.owned
        data, pointers = self.environment.data, self.program.pointers
        for node, slot in plan.inputs:
            array = data(node)
            if slot in owned:
                block = self.program.blocks.owner(array)
                # Who times a graph runs it without keeping what comes out.
                if block is None or not may_overwrite or not block.is_kept_alone(id(array)):
                    block = self._copied(slot, array)
                for other in plan.owned[slot]:
                    values[other] = block.address
                    self.blocks[other] = block
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

    def _copied(self, slot: int, array: Array) -> Block:
        """Return memory with a copy of a carried input, which may be written over."""
        try:
            block = self.program.blocks.take(self.bound.owned[slot])
        except MemoryError as error:
            raise self._too_large() from error
        copy = block.array(array.shape, array.dtype)
        copy[...] = array
        # So that no other copy takes its memory before an output lies in it.
        self.copies.append(copy)
        return block

    def _outputs(self) -> None:
        values, program, bound = self.bound.values, self.program, self.bound
        arena, scratch = program.memory(bound)
        bound.place(arena, scratch)
        for slots, size in bound.outputs:
            block = program.output(slots, size, self.arrays)
            for slot in slots:
                values[slot] = block.address
                self.blocks[slot] = block
            if len(bound.outputs) > 1:
                # So that no other output takes it before an array lies in it.
                held = block.array((0,), BYTE)
                self.arrays |= dict.fromkeys(slots, held)

    def _passed(self, id: int, slot: int) -> Array:
        """Return a copy of what is an input, or was known, under another name."""
        node = self.program.ir[id]
        array = self.arrays.get(slot)
        if array is None:
            found = next((n for n in self.plan.nodes if self._is_source(n, slot)), None)
            if found is not None:
                array = self.environment.data(found)
            else:
                slot_of = self.plan.list.slot_of
                array = next(v for i, v in self.known.items() if slot_of.get(i) == slot)
        shape, dtype = self.bound.shape_of(node.type)
        copy = np.empty(shape, dtype)
        copy.reshape(-1)[...] = np.ascontiguousarray(array).reshape(-1)
        return copy

    def _is_source(self, node: Node, slot: int) -> bool:
        return not node.sources and self.plan.list.slot_of.get(node.id) == slot

    # -- on the way --------------------------------------------------------------------------------

    def _launch(self, first: int, last: int) -> bool:
        """Run launches; return whether Ctrl-C came when it was too late to stop."""
        run = self.bound.run
        run.fault = 0
        run.watching = threading.get_ident() == MAIN
        done = self.program.library.execute(self.bound.address, first, last)
        if run.fault:
            raise self._out_of_range(first + done)
        if not run.interrupted:
            return False
        if done == last - first and self.plan.no_return < last:
            return True
        stop()
        return False

    def _out_of_range(self, at: int) -> RangeError:
        """Return what to tell of a launch that was given an index that is no position."""
        node = self.plan.works[at].node
        error = RangeError(f"{node}: an index is out of range")
        try:
            self._numpy(node)  # which says where, and what the index is
        except RangeError as found:
            error = found
        if at > self.plan.no_return:
            slots = self.plan.list.slots
            names = ", ".join(f"%{slots[slot].name}" for slot in self.plan.owned)
            error.add_note(f"before that the run had written to {names}: give data to it again")
        return error

    def _by_hand(self, at: int) -> None:
        """Have NumPy do some work, and put the results where they are looked for."""
        work = self.plan.works[at]
        for place, value in self._numpy(work.node):
            self._array(work.makes[place], value.shape, value.dtype)[...] = value

    def _numpy(self, node: Node) -> list[tuple[int, Array]]:
        """Compute one node as the interpreter does; of several results those that are picked."""
        ir = self.program.ir
        keeps = isinstance(node.op, HostCall)
        known = {id: self._value(id, keeps=keeps) for id in node.sources}
        environment = self.environment._replace(probes={})
        picks = {0: node.id}
        if node.extra:
            picks = {n.op.index: n.id for n in ir.users(node) if isinstance(n.op, Pick)}
        found = interpret(ir, environment, wanted=list(picks.values()), known=known)
        return [
            (place, np.ascontiguousarray(found[id]).reshape(self.bound.shape_of(ir[id].type)[0]))
            for place, id in picks.items()
        ]

    def _value(self, id: int, *, keeps: bool) -> Array:
        """Return what a node is now; a copy if whoever gets it may keep it."""
        node, slot = self.program.ir[id], self.plan.list.slot_of[id]
        shape, dtype = self.bound.shape_of(node.type)
        array = self._array(slot, shape, dtype)
        return array.copy() if keeps and slot not in self.blocks else array

    def _array(self, slot: int, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
        if slot in self.blocks:
            return self.blocks[slot].array(shape, dtype)
        offset = self.bound.memory.offsets.get(slot)
        if offset is None:
            return self.arrays[slot].reshape(shape)
        assert self.bound.arena is not None
        return self.bound.arena.array(shape, dtype, offset)

    def _probes(self, at: int) -> None:
        if not self.environment.probes:
            return
        makes = self.plan.works[at].makes
        for one in self.bound.results:
            if one[1] in makes:
                self._probe(one[0], self._array(*one[1:]))

    def _probe(self, id: int, value: Array) -> None:
        for call in self.environment.probes.get(id, ()):
            view = value.view()
            view.flags.writeable = False
            call(view)

    # -- after -------------------------------------------------------------------------------------

    def _results(self) -> dict[int, Array]:
        found: dict[int, Array] = {}
        taken: set[int] = set()
        wanted = self.plan.asked.wanted
        for id, slot, shape, dtype in self.bound.results:
            if id in wanted:
                block = self.blocks[slot]
                array = block.array(shape, dtype)
                if slot in taken:
                    array = array.copy()
                else:
                    block.given = weakref.ref(array)
                found[id] = array
                taken.add(slot)
        return found

    def _trace(self, trace: list[Step], times: Times) -> None:
        works = {work.node.id: at for at, work in enumerate(self.plan.works)}
        for node in self.plan.nodes:
            at = works.get(node.id)
            seconds = 0.0 if at is None else float(times[2 * at + 1] - times[2 * at]) * 1e-9
            size = 0
            for type in node.types:
                shape, dtype = self.bound.shape_of(type)
                size += int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            trace.append(Step(node, seconds, size))

    # -- errors ------------------------------------------------------------------------------------

    def _too_large(self) -> DeviceError:
        bound, sizes = self.bound, self.bound.memory.bytes
        outputs = sum(size for _, size in bound.outputs)
        there = available_memory()
        known = "more than there is" if there is None else f"and {there:,} are there"
        slots = self.plan.list.slots
        largest = sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0]))[:5]
        lines = [
            f"{size:>16,}  %{slots[slot].name}"
            + (f": {slots[slot].type}" if slots[slot].type else "")
            for slot, size in largest
            if size
        ]
        return DeviceError(
            f"execute: the program needs {bound.memory.arena_bytes:,} bytes for what is computed "
            f"on the way and {outputs:,} for what is retrieved, {known}",
            where="the largest values:\n" + "\n".join(lines),
            hint="use smaller sizes, or keep and retrieve fewer values",
        )


def stop() -> None:
    """Do what Ctrl-C does in Python."""
    signal.raise_signal(signal.SIGINT)
    raise KeyboardInterrupt
