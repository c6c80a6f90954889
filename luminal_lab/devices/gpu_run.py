"""One run of a GPU program: what is new goes in, kernels are launched, results come out."""

from __future__ import annotations

import signal
import threading
import weakref
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Final

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, Step, interpret
from luminal_lab.core.ir import Node
from luminal_lab.core.ops import HostCall, Pick
from luminal_lab.devices.cpu_blocks import Block
from luminal_lab.devices.gpu_engine import Launched, Place
from luminal_lab.devices.gpu_plan import GPUPlan, Sized, Span
from luminal_lab.errors import DeviceError, RangeError

if TYPE_CHECKING:
    from luminal_lab.devices.gpu_program import GPUProgram

NO_BYTES: Final = np.dtype(np.uint8)


class GPURun:
    """The state of a run."""

    def __init__(
        self,
        program: GPUProgram,
        plan: GPUPlan,
        environment: Environment,
        known: Mapping[int, Array],
    ) -> None:
        self.program = program
        self.engine = program.engine
        self.plan = plan
        self.environment = environment
        self.known = known
        self.sized: Sized = plan.sized_launches(environment.dims)
        self.places: dict[int, Place] = {}
        self.blocks: dict[int, Block] = {}
        """The memory that the host sees, by slot."""
        self.held: list[Array] = []

    def run(self, trace: list[Step] | None) -> dict[int, Array]:
        """Do all work, and return the values that were asked for."""
        try:
            self._inputs(may_overwrite=trace is None)
            self._outputs()
            fault = self.program.fault(len(self.plan.works)) if self.sized.faults else None
        except MemoryError as error:
            raise self._too_large() from error
        passed = {one.id: self._passed(one.id, one.slot) for one in self.plan.passed}
        for key, value in passed.items():
            self._probe(key, value)
        launched = self.sized.launched(self.places, fault, self.environment.step)
        times = [0.0] * len(self.plan.works)
        with ExitStack() as stack:
            for span in self.sized.spans:
                if span.last > self.plan.no_return:
                    # Half of it done, nobody could go on: Ctrl-C waits for the rest.
                    stack.enter_context(self._to_the_end())
                self._span(span, launched, times, trace is not None)
                if span.checks:
                    self._check(span)
            self.engine.wait()
            self.sized.is_tried = True
            if trace is not None:
                self._trace(trace, times)
            return passed | self._results()

    @contextmanager
    def _to_the_end(self) -> Generator[None]:
        """Have Ctrl-C wait."""
        if threading.get_ident() != threading.main_thread().ident:
            yield
            return

        def late(*_: object) -> None:
            if self.program.is_late:  # the second time: what runs may never end
                raise KeyboardInterrupt
            self.program.is_late = True

        before = signal.signal(signal.SIGINT, late)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    # -- before ------------------------------------------------------------------------------------

    def _inputs(self, *, may_overwrite: bool) -> None:
        plan, program = self.plan, self.program
        for node, slot in plan.inputs:
            array = self.environment.data(node)
            block = program.blocks.owner(array) if self.engine.can_share else None
            if block is not None and not (array.flags.c_contiguous and _begins(array, block)):
                block = None
            if slot in self.sized.owned and not self.engine.can_share:
                place = program.given(slot, self._bytes(slot), array, None)
                self.places |= dict.fromkeys(plan.owned[slot], place)
            elif slot in self.sized.owned:
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
        return self.sized.memory.bytes[slot]

    def _lies(self, slot: int, block: Block) -> None:
        self.blocks[slot] = block
        self.places[slot] = Place(block, 0, self._bytes(slot))

    def _copied(self, slot: int, array: Array) -> Block:
        """Return memory with a copy of a carried input, which may be written over."""
        block = self.program.state(self.sized.owned[slot])
        self.held.append(block.array((0,), NO_BYTES))
        place = Place(block, 0, self.sized.owned[slot])
        self.engine.upload(place, np.require(array, requirements=("C", "A")))
        return block

    def _outputs(self) -> None:
        program, sized = self.program, self.sized
        arena = program.arena(sized.memory.arena_bytes)
        for slot, offset in sized.memory.offsets.items():
            self.places[slot] = Place(arena, offset, self._bytes(slot))
        for slots, size in sized.outputs:
            if program.lies_open(slots):
                block = program.output(slots, size, self.held)
                self.held.append(block.array((0,), NO_BYTES))
                for slot in slots:
                    self._lies(slot, block)
            else:
                memory = program.result(slots, size)
                for slot in slots:
                    self.places[slot] = Place(memory, 0, size)

    def _passed(self, id: int, slot: int) -> Array:
        """Return a copy of what is an input, or was known, under another name."""
        shape, dtype = self.sized.shape_of(self.program.ir[id].type)
        slot_of = self.plan.list.slot_of
        array = next((v for i, v in self.known.items() if slot_of.get(i) == slot), None)
        if array is None:
            source = next(n for n in self.plan.nodes if not n.sources and slot_of.get(n.id) == slot)
            array = self.environment.data(source)
        copy = np.empty(shape, dtype)
        copy.reshape(-1)[...] = np.ascontiguousarray(array).reshape(-1)
        return copy

    # -- on the way --------------------------------------------------------------------------------

    def _span(
        self, span: Span, launched: Sequence[list[Launched]], times: list[float], traced: bool
    ) -> None:
        first, last = span.first, span.last
        if not span.is_launched:
            start = perf_counter()
            self._by_hand(first)
            times[first] = perf_counter() - start
            self._probes(first)
        elif self.environment.probes:
            for at in range(first, last):
                self.engine.launch(launched[at], None, careful=True)
                self._probes(at)
        elif traced:
            times[first:last] = self.engine.seconds(launched[first:last])
        else:
            ready = [one for group in launched[first:last] for one in group]
            key = id(self.sized), first
            self.engine.launch(ready, key, careful=not self.sized.is_tried)

    def _check(self, span: Span) -> None:
        """Raise if a kernel was given an index that is no position."""
        at = self.program.faulty(span.first, span.last)
        if at is None:
            return
        node = self.plan.works[at].node
        error = RangeError(f"{node}: an index is out of range")
        try:
            self._again(node)
        except RangeError as found:
            error = found
        if span.last > self.plan.no_return:
            slots = self.plan.list.slots
            names = ", ".join(f"%{slots[slot].name}" for slot in self.plan.owned)
            error.add_note(f"before that the run had written to {names}: give data to it again")
        raise error

    def _again(self, node: Node) -> None:
        """Have NumPy compute a node from the inputs on, which says where it is wrong."""
        reads = self.program.ir.ancestors([node.id])
        known = {id: value for id, value in self.known.items() if id in reads}
        environment = self.environment._replace(probes={})
        interpret(self.program.ir, environment, wanted=[node.id], known=known)

    def _by_hand(self, at: int) -> None:
        """Have NumPy do some work, and put the results where they are looked for."""
        work = self.plan.works[at]
        for place, value in self._numpy(work.node):
            self.engine.upload(self.places[work.makes[place]], value)

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
            (place, np.ascontiguousarray(found[id]).reshape(self.sized.shape_of(ir[id].type)[0]))
            for place, id in picks.items()
        ]

    def _value(self, id: int, *, keeps: bool) -> Array:
        """Return what a node is now; a copy if whoever gets it may keep it."""
        node, slot = self.program.ir[id], self.plan.list.slot_of[id]
        array = self._array(slot, *self.sized.shape_of(node.type))
        return array.copy() if keeps and slot not in self.blocks else array

    def _array(self, slot: int, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
        """Return a value as an array: where it lies, if the host sees it, or a copy."""
        place = self.places[slot]
        if isinstance(place.memory, Block):
            self.engine.wait()
            return place.memory.array(shape, dtype, place.offset)
        array = np.empty(shape, dtype)
        self.engine.download(place, array)
        return array

    def _probes(self, at: int) -> None:
        if self.environment.probes:
            makes = self.plan.works[at].makes
            for id, slot, shape, dtype in self.sized.results:
                if slot in makes:
                    self._probe(id, self._array(slot, shape, dtype))

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
        for id, slot, shape, dtype in self.sized.results:
            if id not in wanted:
                continue
            if slot in self.blocks:
                block = self.blocks[slot]
                array = block.array(shape, dtype)
                if slot in taken:
                    array = array.copy()
                else:
                    block.given = weakref.ref(array)
            else:
                array = self.program.fresh(id, shape, dtype)
                self.engine.download(self.places[slot], array)
            found[id] = array
            taken.add(slot)
        return found

    def _trace(self, trace: list[Step], times: Sequence[float]) -> None:
        works = {work.node.id: at for at, work in enumerate(self.plan.works)}
        for node in self.plan.nodes:
            at = works.get(node.id)
            size = 0
            for type in node.types:
                shape, dtype = self.sized.shape_of(type)
                size += int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            trace.append(Step(node, 0.0 if at is None else times[at], size))

    # -- errors ------------------------------------------------------------------------------------

    def _too_large(self) -> DeviceError:
        sizes, slots = self.sized.memory.bytes, self.plan.list.slots
        outputs = sum(size for _, size in self.sized.outputs)
        there = self.engine.free_bytes()
        left = "more than there is" if there is None else f"and {there:,} are left"
        largest = sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0]))[:5]
        lines = [
            f"{size:>16,}  %{slots[slot].name}"
            + (f": {slots[slot].type}" if slots[slot].type else "")
            for slot, size in largest
            if size
        ]
        given = sum(sizes[slot] for _, slot in self.plan.inputs)
        return DeviceError(
            f"execute: on {self.engine.name} the program needs {given:,} bytes for inputs, "
            f"{self.sized.memory.arena_bytes:,} for what is computed on the way and {outputs:,} "
            f"for what is retrieved, {left}",
            where="the largest values:\n" + "\n".join(lines),
            hint="use smaller sizes, keep and retrieve fewer values, or ll.HalfPrecision",
        )


def _begins(array: Array, block: Block) -> bool:
    """Return whether an array begins where a block does."""
    begin: int = array.ctypes.data
    seen: int = block.array((0,), NO_BYTES).ctypes.data
    return begin == seen
