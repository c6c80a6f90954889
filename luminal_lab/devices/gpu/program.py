"""A graph of a GPU's kernels: its source, its plans, its memory, and what it runs on.

Everything but a run works on any machine: what runs it is looked for when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, NodeStep
from luminal_lab.core.ir import IR
from luminal_lab.devices.gpu.engine import Engine, Location, Memory
from luminal_lab.devices.gpu.plan import GPUPlan
from luminal_lab.devices.gpu.run import GPURun
from luminal_lab.devices.runtime.blocks import BlockPool, MemoryBlock
from luminal_lab.devices.runtime.plan import RunRequest
from luminal_lab.devices.runtime.program import DeviceProgram
from luminal_lab.devices.runtime.worklist import Maker, NodeWork, Worklist
from luminal_lab.kernels.dialect import Dialect
from luminal_lab.kernels.kernel import Kernel, Kernels
from luminal_lab.kernels.launch import Launch
from luminal_lab.kernels.render.gpu.program import gpu_source
from luminal_lab.kernels.steps.schedule import Schedule


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


class GPUProgram(DeviceProgram[GPUPlan]):
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
        sizes = dict(specialise or {})
        worklist = Worklist(ir, maker, sizes, schedules)
        super().__init__(ir, worklist, sizes=sizes, reuse_outputs=reuse_outputs)
        self.dialect = dialect
        self.find = find
        self.source = gpu_source(list(worklist.kernels.values()), dialect)
        """The source of the whole program."""
        self._inputs: dict[int, _Given] = {}
        self._results: dict[tuple[int, ...], Memory] = {}
        self._open: dict[tuple[int, ...], MemoryBlock] = {}
        self._arrays: dict[int, Array] = {}
        self._engine: Engine | None = None
        self._blocks: BlockPool | None = None
        self._arena: Memory | None = None
        self._fault: Memory | None = None

    # -- what there is -----------------------------------------------------------------------------

    @property
    def clock(self) -> str:
        """What measures the times of its launches."""
        return self.engine.clock

    @property
    def device(self) -> str:
        """What it runs on."""
        return self.engine.name

    @override
    def launch_of(self, work: NodeWork, number: int) -> GPULaunch:
        launch = super().launch_of(work, number)

        def chosen() -> str:
            return self.engine.chosen(launch.kernel.name) if self.is_running else ""

        return GPULaunch(
            launch.number, launch.kernel, launch.buffers, launch.node, launch.scope, chosen=chosen
        )

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
    def blocks(self) -> BlockPool:
        """The memory that host and device see."""
        if self._blocks is None:
            self._blocks = BlockPool(self.engine.shared)
        return self._blocks

    @override
    def planned(self, asked: RunRequest) -> GPUPlan:
        return GPUPlan(self.list, asked)

    @override
    def ran(
        self,
        plan: GPUPlan,
        environment: Environment,
        known: Mapping[int, Array],
        trace: list[NodeStep] | None,
    ) -> dict[int, Array]:
        return GPURun(self, plan, environment, known).run(trace)

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

    def given(self, slot: int, size: int, array: Array, version: int | None) -> Location:
        """Return where an input is, copied if it is not the version that is there."""
        known = self._inputs.get(slot)
        if known is None or known.memory.bytes < size:
            self._inputs.pop(slot, None)
            known = self._inputs[slot] = _Given(self.engine.reserve(size))
        location = Location(known.memory, 0, size)
        if version is None or known.version != version:
            known.version = None
            self.engine.upload(location, np.require(array, requirements=("C", "A")))
            known.version = version
        return location

    def state(self, size: int) -> MemoryBlock:
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

    def output(self, slots: tuple[int, ...], size: int, held: Sequence[Array]) -> MemoryBlock:
        """Return the memory of an output that the host sees; what is held does not lie in it."""
        if not self.reuse_outputs:
            return self.blocks.take(size)
        block = self._open.get(slots)
        if block is None or block.bytes != size or any(array.base is block.raw for array in held):
            block = self._open[slots] = self.engine.shared(size)
        return block

    def result(self, slots: tuple[int, ...], size: int) -> Memory:
        """Return the memory of an output from which it is copied."""
        memory = self._results.get(slots)
        if memory is None or memory.bytes < size:
            self._results.pop(slots, None)
            memory = self._results[slots] = self.engine.reserve(size)
        return memory

    def fresh(self, id: int, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
        """Return an array for an output that is copied; the last one's, if that may be."""
        if not self.reuse_outputs:
            return np.empty(shape, dtype)
        array = self._arrays.get(id)
        if array is None or array.shape != shape:
            array = self._arrays[id] = np.empty(shape, dtype)
        return array

    # -- indices out of range ----------------------------------------------------------------------

    def fault(self, works: int) -> Location:
        """Return where kernels say that an index is no position: a number for each work."""
        if self._fault is None or self._fault.bytes < 4 * works:
            self._fault = None
            self._fault = self.engine.reserve(4 * works)
            self.engine.upload(
                Location(self._fault, 0, self._fault.bytes), np.zeros(self._fault.bytes, np.uint8)
            )
        return Location(self._fault, 0, 4 * works)

    def faulty(self, first: int, last: int) -> int | None:
        """Return the first of some works that has met an index out of range."""
        assert self._fault is not None
        faults = np.empty(last - first, np.int32)
        location = Location(self._fault, 4 * first, faults.nbytes)
        self.engine.download(location, faults)
        if not faults.any():
            return None
        self.engine.upload(location, np.zeros_like(faults))
        return first + int(np.argmax(faults != 0))
