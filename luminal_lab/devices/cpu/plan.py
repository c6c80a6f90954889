"""A run of a CPU program for sizes of dims: the lists that are passed to the library."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from luminal_lab.core.dims import Dim
from luminal_lab.core.ir import Node
from luminal_lab.core.ops import Update, UserKernel
from luminal_lab.devices.cpu.inputs import InputPointers
from luminal_lab.devices.runtime.blocks import MemoryBlock
from luminal_lab.devices.runtime.plan import Bound, Remembered, RunPlan, RunRequest
from luminal_lab.devices.runtime.worklist import Worklist
from luminal_lab.errors import LabError
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.user.kernel import check_tasks

MOST_SHORT = 1_000
SHORT_BYTES, SHORT_FLOPS = 32 << 10, 64 << 10
"""Below both, one thread runs a launch, since waking another would take longer."""
SHORT_WORK = 16 << 10
"""One thread runs a phase that handles fewer elements than this, such as a copy of a border."""


class RunRecord(ctypes.Structure):
    """The argument of `lab_execute`; `lab_run` in the C source."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("values", "dims", "launches", "tasks")),
        *((name, ctypes.c_void_p) for name in ("times", "scratch")),
        *((name, ctypes.c_int64) for name in ("scratch_bytes", "no_return", "fault")),
        ("step", ctypes.c_uint32),
        *((name, ctypes.c_int32) for name in ("watching", "interrupted")),
    ]


class AlikeWorks(NamedTuple):
    """What works have in common that take the same number of tasks for any sizes of dims."""

    kernel: Kernel
    touched: tuple[Dim, ...]
    """The bytes of each array that it reads or writes."""


class CPUBound(Bound):
    """The lists that are passed to the library, for sizes of dims."""

    def __init__(self, plan: CPUPlan, dims: Mapping[str, int]) -> None:
        super().__init__(plan, dims)
        self.plan = plan
        self.spans = plan.at_one_go
        for node in plan.called:
            _check_called(node, dims)
        scratch = max((self.number(alike.kernel.scratch) for alike in plan.alike), default=0)
        self.scratch_bytes = -(-scratch // 64) * 64
        rows = [[0] * plan.list.most_phases, *map(self._tasks, plan.alike)]
        self.tasks = np.array(rows, np.int64)[plan.alike_of].reshape(-1)
        """How many tasks each phase of each launch has; negative where one thread does them."""
        self._dims = np.array([dims.get(name, 0) for name in plan.list.dims] or [0], np.int64)
        self.values = np.zeros(max(1, len(plan.list.slots)), np.uintp)
        """Where each slot is."""
        lists = (self.values, self._dims, plan.launches, self.tasks)
        given = [array.ctypes.data for array in lists]
        limits = {"scratch_bytes": self.scratch_bytes, "no_return": plan.no_return}
        self.run = RunRecord(*given, **limits)
        self.address = ctypes.addressof(self.run)
        self.arena: MemoryBlock | None = None
        """The arena for which the pointers are filled in."""

    def _tasks(self, alike: AlikeWorks) -> list[int]:
        phases = [(self.number(phase.tasks), phase.work) for phase in alike.kernel.phases]
        is_short = max(count for count, _ in phases) > 1 and self._is_short(alike)
        counts = [
            -count if is_short or (work is not None and count * work < SHORT_WORK) else count
            for count, work in phases
        ]
        return [*counts, *[0] * (self.plan.list.most_phases - len(counts))]

    @property
    def bytes_written(self) -> int:
        """The bytes that a run writes; for an update in place, only those of its rows."""
        sizes, over = self.memory.bytes, self.plan.plan.written_over
        total = 0
        for work, own in zip(self.plan.works, self.plan.locals, strict=True):
            for slot in (*own, *work.makes):
                is_rows = isinstance(work.node.op, Update) and slot in over
                total += sizes[work.reads[1] if is_rows else slot]
        return total

    def _is_short(self, alike: AlikeWorks) -> bool:
        if sum(map(self.number, alike.touched)) >= SHORT_BYTES:
            return False
        kernel = alike.kernel
        key = kernel.name, tuple([self.dims[name] for name in kernel.dims])
        short = self.plan.short
        if key not in short:
            short.keep(key, kernel.flops(self.dims) < SHORT_FLOPS)
        return short[key]

    def locate(self, arena: MemoryBlock, scratch: MemoryBlock | None) -> None:
        """Fill in the addresses of the values in the arena."""
        if self.arena is not arena:
            offsets = self.memory.offsets
            self.values[[*offsets]] = np.array([*offsets.values()], np.uintp) + arena.address
            self.arena = arena
        self.run.scratch = 0 if scratch is None else scratch.address


class CPUPlan(RunPlan[CPUBound]):
    """The steps of a kind of run on the CPU, and where their values live."""

    bound_type = CPUBound

    def __init__(self, work: Worklist, asked: RunRequest) -> None:
        super().__init__(work, asked)
        self.short = Remembered[tuple[str, tuple[int, ...]], bool](MOST_SHORT)
        """Which kernels, for sizes of their dims, take no longer than waking a thread does."""
        self.at_one_go = self.spans()
        self.launches = np.array([self.number_of(at) or 0 for at in self.works] or [0], np.int32)
        """For each work the number of its launch in the source."""
        self.called = [at.node for at in self.works if isinstance(at.node.op, UserKernel)]
        sizes = {value.id: value.bytes for value in self.plan.program.values}
        self.alike: list[AlikeWorks] = []
        self.alike_of = np.zeros(len(self.works), np.int64)
        """For each work its place in `alike`, from 1 on; 0 for what NumPy does."""
        places: dict[tuple[str, tuple[Dim, ...]], int] = {}
        for at, node_work in enumerate(self.works):
            kernel = self.kernel_of(node_work)
            if kernel is not None:
                touched = tuple([sizes[slot] for slot in (*node_work.reads, *node_work.makes)])
                number = places.setdefault((kernel.name, touched), len(places) + 1)
                if number > len(self.alike):
                    self.alike.append(AlikeWorks(kernel, touched))
                self.alike_of[at] = number
        self.input_of = {slot: node for node, slot in self.inputs}
        self.carried = [pair for pair in self.inputs if pair[1] in self.owned]
        """The inputs that a run writes over."""
        self.pointers = InputPointers([pair for pair in self.inputs if pair[1] not in self.owned])
        """Where the others are."""


def _check_called(node: Node, dims: Mapping[str, int]) -> None:
    """Raise if a user's kernel would never be called, and so would not write its outputs."""
    if isinstance(node.op, UserKernel):
        try:
            check_tasks(node.op, dims)
        except LabError as error:
            error.where = error.where or str(node.meta.origin or "") or None
            raise
