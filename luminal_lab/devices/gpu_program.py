"""A graph of a GPU's kernels: its source, its plans, its memory, and what it runs on.

Everything but a run works on any machine: what runs it is looked for when it is first needed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, Step
from luminal_lab.core.ir import IR
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Pick
from luminal_lab.devices.cpu_blocks import Block, Blocks
from luminal_lab.devices.cpu_plan import Asked
from luminal_lab.devices.cpu_run import stop
from luminal_lab.devices.cpu_work import Maker, Work, Worklist
from luminal_lab.devices.gpu_engine import Engine, Memory, Place
from luminal_lab.devices.gpu_plan import GPUPlan
from luminal_lab.devices.gpu_run import GPURun
from luminal_lab.kernels.definition import Definition
from luminal_lab.kernels.dialect import Dialect
from luminal_lab.kernels.gpu_program import gpu_source
from luminal_lab.kernels.kernel import Kernel, Kernels
from luminal_lab.kernels.launch import Argument, Launch
from luminal_lab.kernels.memory_plan import MemoryPlan
from luminal_lab.kernels.schedule import Schedule

MOST_PLANS: Final = 32
"""For how many kinds of runs plans are remembered."""


@dataclass(frozen=True, repr=False)
class GPULaunch(Launch):
    """A launch of which it may be decided when it runs what computes it."""

    chosen: Callable[[], str] = field(default=lambda: "", compare=False)
    """What computes it in place of its kernel, and how that was found."""

    @override
    def __str__(self) -> str:
        chosen = self.chosen()
        return f"{super().__str__()}  # {chosen}" if chosen else super().__str__()


class _Given:
    """An input on the device, and which version of it that is."""

    __slots__ = ("memory", "version")

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.version: int | None = None


class GPUProgram:
    """A graph of kernels for a GPU."""

    threads = 1

    def __init__(
        self,
        ir: IR,
        maker: Maker,
        dialect: Dialect,
        find: Callable[[str, Kernels], Engine],
        *,
        reuse_outputs: bool = False,
        specialise: Mapping[str, int] | None = None,
        schedules: Mapping[str, Schedule] | None = None,
    ) -> None:
        self.ir = ir
        self.dialect = dialect
        self.find = find
        self.reuse_outputs = reuse_outputs
        self.sizes = dict(specialise or {})
        """The sizes of dims for which there are kernels beside the general ones."""
        self.list = Worklist(ir, maker, self.sizes, schedules)
        self.source = gpu_source(list(self.list.kernels.values()), dialect)
        """The source of the whole program."""
        self.ran_exact = False
        """Whether the last run took the kernels for the sizes that compile was given."""
        self.is_late = False
        """Whether Ctrl-C came when it was too late to stop."""
        self._launches: dict[bool, tuple[GPULaunch, ...]] = {}
        self._plans: dict[Asked, GPUPlan] = {}
        self._inputs: dict[int, _Given] = {}
        self._results: dict[tuple[int, ...], Memory] = {}
        self._open: dict[tuple[int, ...], Block] = {}
        self._arrays: dict[int, Array] = {}
        self._engine: Engine | None = None
        self._blocks: Blocks | None = None
        self._arena: Memory | None = None
        self._fault: Memory | None = None
        self._lock = threading.Lock()

    # -- what there is -----------------------------------------------------------------------------

    @property
    def kernels(self) -> Kernels:
        """The distinct kernels."""
        return Kernels(self.list.kernels.values())

    @property
    def definitions(self) -> Mapping[IR, Definition]:
        """What the bodies of calls compute."""
        return self.list.definitions

    @property
    def clock(self) -> str:
        """What measures the times of its launches."""
        return self.engine.clock

    @property
    def device(self) -> str:
        """What it runs on."""
        return self.engine.name

    @property
    def launches(self) -> tuple[GPULaunch, ...]:
        """The launches of a run that computes everything, by the kernels of the last run."""
        if self.ran_exact not in self._launches:
            found = [
                self._launch(work, number)
                for work in self.list.works
                if (number := self._number(work)) is not None
            ]
            self._launches[self.ran_exact] = tuple(found)
        return self._launches[self.ran_exact]

    def _number(self, work: Work) -> int | None:
        return work.exact if self.ran_exact and work.exact is not None else work.use

    def _launch(self, work: Work, number: int) -> GPULaunch:
        kernel, node = self.list.uses[number].kernel, work.node
        given = [(self.ir[id].name, self.ir[id].type, False) for id in node.sources]
        made: list[tuple[str, TensorType, bool]] = []
        picks = {one.op.index: one.name for one in self.ir.users(node) if isinstance(one.op, Pick)}
        for place, slot in enumerate(work.makes):
            name, type, _ = self.list.slots[slot]
            assert type is not None
            made.append((picks.get(place, name), type, True))
        buffers = tuple(Argument(*one) for one in (*given, *made))
        assert work.use is not None, "what has a kernel for sizes has a general one"

        def chosen() -> str:
            return self.engine.chosen(kernel.name) if self.is_running else ""

        return GPULaunch(work.use, kernel, buffers, node.id, node.meta.scope, chosen=chosen)

    @property
    def memory_plan(self) -> MemoryPlan:
        """Where the values of a run live that computes all outputs."""
        return self.plan(self.ir.output_ids).plan

    # -- running -----------------------------------------------------------------------------------

    @property
    def engine(self) -> Engine:
        """What runs it, looked for when it is first needed; an error says what there is not."""
        if self._engine is None:
            self._engine = self.find(self.source, self.kernels)
        return self._engine

    @property
    def is_running(self) -> bool:
        """Whether something has been found that runs it."""
        return self._engine is not None

    @property
    def blocks(self) -> Blocks:
        """The memory that host and device see."""
        if self._blocks is None:
            self._blocks = Blocks(self.engine.shared)
        return self._blocks

    def run(
        self,
        environment: Environment,
        wanted: Iterable[int],
        known: Mapping[int, Array],
        trace: list[Step] | None = None,
    ) -> dict[int, Array]:
        """Return the values of the wanted nodes, by their ids."""
        wanted = frozenset(wanted)
        plan = self.plan(wanted, known, environment.probes, environment.dims)
        with self._lock:
            self.ran_exact = plan.asked.is_exact
            values = GPURun(self, plan, environment, known).run(trace)
        if known:
            values |= {id: known[id] for id in wanted if id in known}
        return values

    def settle(self) -> None:
        """Do what had to wait until the values of a run were kept: Ctrl-C came too late for it."""
        if self.is_late:
            self.is_late = False
            stop()

    def plan(
        self,
        wanted: Iterable[int],
        known: Iterable[int] = (),
        probed: Iterable[int] = (),
        dims: Mapping[str, int] | None = None,
    ) -> GPUPlan:
        """Return the plan for what a run is asked for and knows."""
        exact = bool(self.sizes) and all(
            (dims or {}).get(name) == size for name, size in self.sizes.items()
        )
        asked = Asked(frozenset(wanted), frozenset(known), frozenset(probed), exact)
        found = self._plans.get(asked)
        if found is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.pop(next(iter(self._plans)))
            found = self._plans[asked] = GPUPlan(self.list, asked)
        return found

    def kernels_of(self, dims: Mapping[str, int]) -> Mapping[int, Kernel]:
        """Return the kernels that compute nodes of a whole run, by the nodes' ids."""
        plan = self.plan(self.ir.output_ids, dims=dims)
        pairs = [(work.node.id, plan.kernel_of(work)) for work in plan.works]
        return {id: kernel for id, kernel in pairs if kernel is not None}

    # -- memory ------------------------------------------------------------------------------------

    def arena(self, size: int) -> Memory:
        """Return the memory that temporaries share, a larger one if it must be."""
        if self._arena is None or self._arena.bytes < size:
            self._arena = None  # the old one goes first
            self._arena = self.engine.reserve(size)
        return self._arena

    def given(self, slot: int, size: int, array: Array, version: int | None) -> Place:
        """Return where an input is, copied if it is not the version that is there."""
        found = self._inputs.get(slot)
        if found is None or found.memory.bytes < size:
            self._inputs.pop(slot, None)
            found = self._inputs[slot] = _Given(self.engine.reserve(size))
        place = Place(found.memory, 0, size)
        if version is None or found.version != version:
            found.version = None
            self.engine.upload(place, np.require(array, requirements=("C", "A")))
            found.version = version
        return place

    def state(self, size: int) -> Block:
        """Return memory for what is carried from run to run."""
        return self.blocks.take(size)

    def lies_open(self, slots: Sequence[int]) -> bool:
        """Return whether an output lies where the host sees it: all do, or what is carried."""
        if self.engine.sees_all:
            return True
        return self.engine.can_share and not self._carried.isdisjoint(slots)

    @cached_property
    def _carried(self) -> frozenset[int]:
        """The slots of what is an input's value in the next run."""
        slot_of = self.list.slot_of
        return frozenset(slot_of[new] for new, _ in self.ir.carries if new in slot_of)

    def output(self, slots: tuple[int, ...], size: int, held: Sequence[Array]) -> Block:
        """Return the memory of an output that the host sees; what is held does not lie in it."""
        if not self.reuse_outputs:
            return self.blocks.take(size)
        block = self._open.get(slots)
        if block is None or block.bytes != size or any(array.base is block.raw for array in held):
            block = self._open[slots] = self.engine.shared(size)
        return block

    def result(self, slots: tuple[int, ...], size: int) -> Memory:
        """Return the memory of an output from which it is copied."""
        found = self._results.get(slots)
        if found is None or found.bytes < size:
            self._results.pop(slots, None)
            found = self._results[slots] = self.engine.reserve(size)
        return found

    def fresh(self, id: int, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
        """Return an array for an output that is copied; the last one's, if that may be."""
        if not self.reuse_outputs:
            return np.empty(shape, dtype)
        found = self._arrays.get(id)
        if found is None or found.shape != shape:
            found = self._arrays[id] = np.empty(shape, dtype)
        return found

    # -- indices out of range ----------------------------------------------------------------------

    def fault(self, works: int) -> Place:
        """Return where kernels say that an index is no position: a number for each work."""
        if self._fault is None or self._fault.bytes < 4 * works:
            self._fault = None
            self._fault = self.engine.reserve(4 * works)
            self.engine.upload(
                Place(self._fault, 0, self._fault.bytes), np.zeros(self._fault.bytes, np.uint8)
            )
        return Place(self._fault, 0, 4 * works)

    def faulty(self, first: int, last: int) -> int | None:
        """Return the first of some works that has met an index out of range."""
        assert self._fault is not None
        found = np.empty(last - first, np.int32)
        place = Place(self._fault, 4 * first, found.nbytes)
        self.engine.download(place, found)
        if not found.any():
            return None
        self.engine.upload(place, np.zeros_like(found))
        return first + int(np.argmax(found != 0))

    # -- times -------------------------------------------------------------------------------------

    def time_launches(
        self, environment: Environment, rounds: int = 10, *, warm_up: int = 2
    ) -> tuple[tuple[Launch, tuple[float, ...]], ...]:
        """Return for each launch its seconds, one for each round, by the device's own clock.

        Nothing is changed by it: values that are carried are copied first.
        """
        samples: dict[int, list[float]] = {}
        for turn in range(warm_up + rounds):
            steps: list[Step] = []
            self.run(environment, self.ir.output_ids, {}, steps)
            for step in steps if turn >= warm_up else ():
                samples.setdefault(step.node.id, []).append(step.seconds)
        return tuple(
            (launch, tuple(samples[launch.node]))
            for launch in self.launches
            if launch.node in samples
        )
