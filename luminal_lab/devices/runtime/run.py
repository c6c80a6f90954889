"""A run on any device: what NumPy computes, who looks at values, what comes out."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, NodeStep, interpret
from luminal_lab.core.ir import Node
from luminal_lab.core.ops import HostCall
from luminal_lab.devices.runtime.blocks import MemoryBlock
from luminal_lab.devices.runtime.plan import BoundT, LaunchSpan, NumpyType, Result, RunPlan
from luminal_lab.devices.runtime.worklist import picks_of
from luminal_lab.errors import DeviceError, RangeError
from luminal_lab.interrupts import opened

if TYPE_CHECKING:
    from luminal_lab.devices.runtime.program import DeviceProgram

LARGEST = 5
"""How many values an error about memory names."""


class RunData(NamedTuple):
    """The data of a run."""

    environment: Environment
    known: Mapping[int, Array]


class DeviceRun(ABC, Generic[BoundT]):
    """The state of a run."""

    times: MutableSequence[float] | None = None
    """The seconds that each work took, if requested."""
    starts: MutableMapping[int, float]
    """When works began, by `perf_counter`, if requested and known."""
    calls: MutableMapping[int, tuple[float, float]]
    """When each work's span was launched, and when it had been waited for, if requested."""

    def __init__(self, program: DeviceProgram[Any], plan: RunPlan[BoundT], given: RunData) -> None:
        self.program, self.ir, self.plan = program, program.ir, plan
        self.environment, self.known = given
        self.bound = plan.bound(given.environment.dims)
        self.held: list[Array] = []
        """Keeps memory from being reused before a value is in it."""
        self.blocks: dict[int, MemoryBlock] = {}
        """The program's own memory that the host sees, by slot."""

    def run(self, trace: list[NodeStep] | None) -> dict[int, Array]:
        """Do all work, and return the requested values."""
        try:
            return self.computed(trace)
        except MemoryError as error:
            raise self.too_large() from error

    def computed(self, trace: list[NodeStep] | None) -> dict[int, Array]:
        """Do all work, and return the requested values."""
        # A timed graph runs without keeping its results.
        self.find_inputs(may_overwrite=trace is None)
        self.find_outputs()
        passed = self.passed() if self.plan.passed else {}
        for id, value in passed.items():
            self.probe(id, value)
        if trace is not None:
            self.times, self.starts, self.calls = [0.0] * len(self.plan.works), {}, {}
        self.work()
        if trace is not None:
            trace += self.traced()
        results = self.results()
        return passed | results if passed else results

    def work(self) -> None:
        """Do all work in order."""
        if self.times is None and not self.plan.probed:
            for span in self.bound.spans:
                if span.is_launched:
                    self.launch(span)
                else:
                    self.by_hand(span.first)
            return
        for span in self.bound.spans:
            start = perf_counter()
            if span.is_launched:
                self.launch(span)
            else:
                self.by_hand(span.first)
            if self.times is not None:
                call = start, perf_counter()
                self.calls.update((at, call) for at in range(span.first, span.last))
                if not span.is_launched:
                    self.times[span.first], self.starts[span.first] = call[1] - start, start
            if span.last - 1 in self.plan.probed:
                self.probe_work(span.last - 1)

    @abstractmethod
    def find_inputs(self, *, may_overwrite: bool) -> None:
        """Note where inputs and known values are."""

    @abstractmethod
    def find_outputs(self) -> None:
        """Note where all computed values go."""

    @abstractmethod
    def launch(self, span: LaunchSpan) -> None:
        """Launch some works, and raise an error if something went wrong."""

    @abstractmethod
    def put(self, slot: int, value: Array) -> None:
        """Put a value computed by NumPy where it is expected."""

    def by_hand(self, at: int) -> None:
        """Let NumPy do some work, and put the results where they are expected."""
        work = self.plan.works[at]
        for result, value in self.by_numpy(work.node):
            self.put(work.makes[result], value)

    @abstractmethod
    def too_large(self) -> DeviceError:
        """Return the error that says how much memory the run needs."""

    @abstractmethod
    def array(self, slot: int, shape: tuple[int, ...], dtype: NumpyType) -> Array:
        """Return a value as an array: the memory itself if the host sees it, or a copy."""

    # -- what NumPy does ---------------------------------------------------------------------------

    def by_numpy(self, node: Node) -> list[tuple[int, Array]]:
        """Compute one node as the interpreter does; of several results, those that are picked."""
        keeps = isinstance(node.op, HostCall)
        known = {id: self._value(id, keeps=keeps) for id in node.sources}
        environment = self.environment._replace(probes={})
        picks = {0: node.id}
        if node.extra:
            picks = {index: pick.id for index, pick in picks_of(self.ir, node).items()}
        wanted = list(picks.values())
        values = opened(lambda: interpret(self.ir, environment, wanted=wanted, known=known))
        shapes = {id: self.bound.shape_of(self.ir[id].type)[0] for id in picks.values()}
        return [
            (index, np.ascontiguousarray(values[id]).reshape(shapes[id]))
            for index, id in picks.items()
        ]

    def _value(self, id: int, *, keeps: bool) -> Array:
        """Return a node's value; a copy if whoever gets it may keep it."""
        slot = self.plan.list.slot_of[id]
        array = self.array(slot, *self.bound.shape_of(self.ir[id].type))
        return array.copy() if keeps and slot not in self.blocks else array

    # -- who looks at values -----------------------------------------------------------------------

    def probe_work(self, at: int) -> None:
        """Show the results of some work to those who asked for them."""
        makes, probes = self.plan.works[at].makes, self.environment.probes
        for id, slot, shape, dtype in self.bound.results:
            if id in probes and slot in makes:
                self.probe(id, self.array(slot, shape, dtype))

    def probe(self, id: int, value: Array) -> None:
        """Show a value to those who asked for it."""
        for call in self.environment.probes.get(id, ()):
            view = value.view()
            view.flags.writeable = False
            opened(partial(call, view))

    # -- what comes out ----------------------------------------------------------------------------

    def passed(self) -> dict[int, Array]:
        """Return copies of inputs and known values that are results under another name."""
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
        """Return the requested values that were computed."""
        return self.returned(self.bound.results)

    def returned(self, computed: Iterable[Result]) -> dict[int, Array]:
        """Return those of some computed values that were requested."""
        results: dict[int, Array] = {}
        taken: set[int] = set()
        wanted, blocks = self.plan.asked.wanted, self.blocks
        for id, slot, shape, dtype in computed:
            if id not in wanted:
                continue
            block = blocks.get(slot)
            if block is None:
                array = self.fetched(id, slot, shape, dtype)
            elif slot in taken:
                array = block.array(shape, dtype).copy()
            else:
                array = block.array(shape, dtype)
                block.given = weakref.ref(array)
            results[id] = array
            taken.add(slot)
        return results

    def fetched(self, id: int, slot: int, shape: tuple[int, ...], dtype: NumpyType) -> Array:
        """Return a result without a block of its own."""
        return self.array(slot, shape, dtype)

    def traced(self) -> list[NodeStep]:
        """Return the time of each node, from the times of works."""
        times = self.times or ()
        works = {work.node.id: at for at, work in enumerate(self.plan.works)}
        steps: list[NodeStep] = []
        for node in self.plan.nodes:
            at = works.get(node.id)
            size = 0
            for type in node.types:
                shape, dtype = self.bound.shape_of(type)
                size += int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            when = (None, None) if at is None else (self.starts.get(at), self.calls.get(at))
            steps.append(NodeStep(node, 0.0 if at is None else times[at], size, *when))
        return steps

    # -- errors ------------------------------------------------------------------------------------

    def out_of_memory(
        self, subject: str, given: Mapping[str, int], available: int | None, word: str, hint: str
    ) -> DeviceError:
        """Return the error that says how much memory the run needs, and how much there is."""
        needs = {
            **given,
            "what is computed on the way": self.bound.memory.arena_bytes,
            "what is retrieved": sum(size for _, size in self.bound.outputs),
        }
        first, *middle, last = (f"{size:,} for {what}" for what, size in needs.items())
        listed = ", ".join([first.replace(" for", " bytes for", 1), *middle])
        left = "more than there is" if available is None else f"and {available:,} are {word}"
        return DeviceError(
            f"execute: out of memory: {subject} needs {listed} and {last}, {left}",
            where=self.largest(),
            hint=hint,
        )

    def out_of_range(self, node: Node, *, has_written: bool) -> RangeError:
        """Return the error for work that was given an index out of range."""
        error = out_of_range(node, lambda: self.again(node))
        if has_written:
            slots = self.plan.list.slots
            names = ", ".join(f"%{slots[slot].name}" for slot in self.plan.owned)
            error.add_note(f"before that the run had written to {names}: give data to it again")
        return error

    @abstractmethod
    def again(self, node: Node) -> None:
        """Let NumPy compute a node that a kernel could not."""

    def largest(self) -> str:
        """Return the largest values, for an error about too little memory."""
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


def out_of_range(node: Node, again: Callable[[], object]) -> RangeError:
    """Return the error for an index out of range; NumPy, by `again`, says where and what it is."""
    error = RangeError(f"{node}: an index is out of range")
    try:
        again()
    except RangeError as told:
        error = told
    error.node = node.id
    return error
