"""A graph of a GPU's kernels: its source, its plans, its memory, and its engine.

Everything except a run works on any machine: the engine is only looked up when it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Unpack

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment
from luminal_lab.core.ir import IR
from luminal_lab.devices.gpu.engine import Caches, Engine, FindEngine, Location, Memory
from luminal_lab.devices.gpu.plan import GPUPlan
from luminal_lab.devices.gpu.run import GPURun
from luminal_lab.devices.runtime.blocks import BlockPool
from luminal_lab.devices.runtime.plan import NumpyType, RunRequest
from luminal_lab.devices.runtime.program import DeviceProgram, ProgramOptions
from luminal_lab.devices.runtime.run import RunData
from luminal_lab.devices.runtime.worklist import KernelMaker, NodeWork
from luminal_lab.kernels.dialect import Dialect
from luminal_lab.kernels.launch import Launch
from luminal_lab.kernels.render.gpu.program import gpu_source


class GPUProgram(DeviceProgram[GPUPlan]):
    """A graph of kernels for a GPU."""

    threads = 1

    def __init__(
        self,
        ir: IR,
        maker: KernelMaker,
        dialect: Dialect,
        find: FindEngine,
        **options: Unpack[ProgramOptions],
    ) -> None:
        super().__init__(ir, maker, **options)
        self.dialect = dialect
        self.find = find
        self.source = gpu_source(list(self.list.kernels.values()), dialect)
        """The source of the whole program."""
        self._memory: dict[object, Memory] = {}
        """What is kept from run to run: for temporaries, inputs, outputs and faults."""
        self._versions: dict[int, int | None] = {}
        """Which version of each input is on the device."""
        self._arrays: dict[int, Array] = {}
        self._engine: Engine | None = None

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
    def launch_of(self, work: NodeWork, number: int) -> Launch:
        launch = super().launch_of(work, number)

        def chosen() -> str:
            return self.engine.chosen(launch.kernel.name) if self.is_running else ""

        return replace(launch, chosen=chosen)

    # -- running -----------------------------------------------------------------------------------

    @property
    def engine(self) -> Engine:
        """The engine, looked up when it is first needed; an error says what is missing."""
        if self._engine is None:
            self._engine = self.find(self.source, self.kernels)
        return self._engine

    @property
    def is_running(self) -> bool:
        """Whether an engine has been found."""
        return self._engine is not None

    @cached_property
    @override
    def blocks(self) -> BlockPool:
        return BlockPool(self.engine.shared)

    @override
    def planned(self, asked: RunRequest) -> GPUPlan:
        return GPUPlan(self.list, asked)

    @override
    def started(self, plan: GPUPlan, given: RunData) -> GPURun:
        return GPURun(self, plan, given)

    # -- memory ------------------------------------------------------------------------------------

    def kept(self, key: object, size: int) -> Memory:
        """Return the memory kept under a key, enlarged if necessary."""
        memory = self._memory.pop(key, None)
        if memory is None or memory.bytes < size:
            memory = None  # the old one is released first
            memory = self.engine.reserve(size)
        self._memory[key] = memory
        return memory

    def given(self, slot: int, size: int, array: Array, version: int | None) -> Location:
        """Return the location of an input, copied unless this version is already there."""
        before = self._memory.get(slot)
        location = Location(self.kept(slot, size), 0, size)
        if version is None or location.memory is not before or self._versions[slot] != version:
            self._versions[slot] = None
            self.engine.upload(location, np.require(array, requirements=("C", "A")))
            self._versions[slot] = version
        return location

    def lies_open(self, slots: Sequence[int]) -> bool:
        """Return whether the host sees an output: it sees all, or those that are carried."""
        if self.engine.sees_all:
            return True
        return self.engine.can_share and not self._carried.isdisjoint(slots)

    @cached_property
    def _carried(self) -> frozenset[int]:
        """The slots of values that are inputs in the next run."""
        slot_of = self.list.slot_of
        return frozenset(slot_of[new] for new, _ in self.ir.carries if new in slot_of)

    def fresh(self, id: int, shape: tuple[int, ...], dtype: NumpyType) -> Array:
        """Return an array for an output that is copied; the previous one, if that is allowed."""
        if not self.reuse_outputs:
            return np.empty(shape, dtype)
        array = self._arrays.get(id)
        if array is None or array.shape != shape:
            array = self._arrays[id] = np.empty(shape, dtype)
        return array

    # -- times -------------------------------------------------------------------------------------

    @override
    def time_launches(
        self,
        environment: Environment,
        rounds: int = 10,
        *,
        warm_up: int = 2,
        caches: Caches = "run",
    ) -> tuple[tuple[Launch, tuple[float, ...]], ...]:
        self.engine.caches = caches
        try:
            return super().time_launches(environment, rounds, warm_up=warm_up)
        finally:
            self.engine.caches = "run"

    # -- indices out of range ----------------------------------------------------------------------

    def fault(self, works: int) -> Location:
        """Return where kernels report an index out of range: one number for each work."""
        before = self._memory.get("fault")
        location = Location(self.kept("fault", 4 * works), 0, 4 * works)
        if location.memory is not before:
            self.engine.upload(location, np.zeros(works, np.int32))
        return location

    def faulty(self, first: int, last: int) -> int | None:
        """Return the first of some works that met an index out of range."""
        faults = np.empty(last - first, np.int32)
        location = Location(self._memory["fault"], 4 * first, faults.nbytes)
        self.engine.download(location, faults)
        if not faults.any():
            return None
        self.engine.upload(location, np.zeros_like(faults))
        return first + int(np.argmax(faults != 0))
