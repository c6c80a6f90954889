"""A run of a CPU program for sizes of dims: the lists that are passed to the library."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np

from luminal_lab.core.ir import Node
from luminal_lab.core.ops import Update, UserKernel
from luminal_lab.devices.runtime.blocks import MemoryBlock
from luminal_lab.devices.runtime.plan import Bound, Remembered, RunPlan, RunRequest
from luminal_lab.devices.runtime.worklist import Worklist
from luminal_lab.errors import LabError
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.user.kernel import check_tasks

MOST_SHORT = 1_000
SHORT_BYTES, SHORT_FLOPS = 32 << 10, 64 << 10
"""Below both, one thread runs a launch, since waking another would take longer."""


class RunRecord(ctypes.Structure):
    """The argument of `lab_execute`; `lab_run` in the C source."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("values", "dims", "launches", "tasks")),
        *((name, ctypes.c_void_p) for name in ("times", "scratch")),
        *((name, ctypes.c_int64) for name in ("scratch_bytes", "no_return", "fault")),
        ("step", ctypes.c_uint32),
        *((name, ctypes.c_int32) for name in ("watching", "interrupted")),
    ]


class CPUBound(Bound):
    """The lists that are passed to the library, for sizes of dims."""

    def __init__(self, plan: CPUPlan, dims: Mapping[str, int]) -> None:
        super().__init__(plan, dims)
        self.plan = plan
        worklist = plan.list
        launches: list[int] = []
        tasks: list[int] = []
        stride = worklist.most_phases
        scratch = 0
        self.spans = plan.spans()
        for work in plan.works:
            launches.append(plan.number_of(work) or 0)
            kernel = plan.kernel_of(work)
            counts = [0] * stride
            if kernel is not None:
                _check_called(work.node, dims)
                scratch = max(scratch, self.number(kernel.scratch))
                for number, phase in enumerate(kernel.phases):
                    counts[number] = self.number(phase.tasks)
                if max(counts) > 1 and self._is_short(kernel, (*work.reads, *work.makes)):
                    counts = [-count for count in counts]
            tasks += counts
        self.scratch_bytes = -(-scratch // 64) * 64
        self._launches = np.array(launches or [0], np.int32)
        self.tasks = np.array(tasks or [0], np.int64)
        """How many tasks each phase of each launch has; negative if one thread does them."""
        self._dims = np.array([dims.get(name, 0) for name in worklist.dims] or [0], np.int64)
        self.values = (ctypes.c_void_p * max(1, len(worklist.slots)))()
        lists = (self._dims, self._launches, self.tasks)
        given = ctypes.addressof(self.values), *(array.ctypes.data for array in lists)
        limits = {"scratch_bytes": self.scratch_bytes, "no_return": plan.no_return}
        self.run = RunRecord(*given, **limits)
        self.address = ctypes.addressof(self.run)
        self.arena: MemoryBlock | None = None
        """The arena for which the pointers are filled in."""

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

    def _is_short(self, kernel: Kernel, slots: tuple[int, ...]) -> bool:
        if sum(self.memory.bytes[slot] for slot in slots) >= SHORT_BYTES:
            return False
        key = kernel.name, tuple([self.dims[name] for name in kernel.dims])
        short = self.plan.short
        if key not in short:
            short.keep(key, kernel.flops(self.dims) < SHORT_FLOPS)
        return short[key]

    def locate(self, arena: MemoryBlock, scratch: MemoryBlock | None) -> None:
        """Fill in the addresses of the values in the arena."""
        if self.arena is not arena:
            for slot, offset in self.memory.offsets.items():
                self.values[slot] = arena.address + offset
            self.arena = arena
        self.run.scratch = 0 if scratch is None else scratch.address


class CPUPlan(RunPlan[CPUBound]):
    """The steps of a kind of run on the CPU, and where their values live."""

    bound_type = CPUBound

    def __init__(self, work: Worklist, asked: RunRequest) -> None:
        super().__init__(work, asked)
        self.short = Remembered[tuple[str, tuple[int, ...]], bool](MOST_SHORT)
        """The kernels, for sizes of their dims, that take no longer than waking a thread."""


def _check_called(node: Node, dims: Mapping[str, int]) -> None:
    """Raise if a user's kernel would never be called, and so would not write its outputs."""
    if isinstance(node.op, UserKernel):
        try:
            check_tasks(node.op, dims)
        except LabError as error:
            error.where = error.where or str(node.meta.origin or "") or None
            raise
