"""A run of a CPU program for sizes of dims: the lists that are passed to the library."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from luminal_lab.core.dims import Dim, symbols
from luminal_lab.core.dtypes import Array
from luminal_lab.core.ir import Node
from luminal_lab.core.ops import Update, UserKernel
from luminal_lab.devices.cpu.carried import CarriedArrays
from luminal_lab.devices.cpu.inputs import InputPointers
from luminal_lab.devices.cpu.packs import KeptPacks, Stage
from luminal_lab.devices.runtime.blocks import MemoryBlock, address_of
from luminal_lab.devices.runtime.plan import Bound, PlacedMemory, Remembered, RunPlan, RunRequest
from luminal_lab.devices.runtime.worklist import Worklist
from luminal_lab.errors import LabError
from luminal_lab.kernels.definition.numbers import Numbers
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.user.kernel import check_tasks

if TYPE_CHECKING:
    from luminal_lab.devices.cpu.straight import StraightRun

SHORT_BYTES, SHORT_FLOPS = 32 << 10, 64 << 10
"""Below both, one thread runs a launch, since waking another would take longer."""
SHORT_WORK = 16 << 10
"""One thread runs a phase that handles fewer elements than this, such as a copy of a border."""

MOST_COUNTS = 1 << 12
"""The most counts of tasks that a plan remembers."""


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
    tasks: tuple[int, ...]
    """The tasks of each phase, by their places among the plan's numbers."""
    touched: tuple[int, ...]
    """The bytes of each array that it reads or writes, likewise."""
    names: tuple[str, ...]
    """The dims that these depend on."""


class CPUBound(Bound):
    """The lists that are passed to the library, for sizes of dims."""

    plan: CPUPlan
    straight: StraightRun | Literal[False] | None = None
    """What runs it if it does nothing but launch; None until somebody has looked."""

    def __init__(self, plan: CPUPlan, dims: Mapping[str, int]) -> None:
        super().__init__(plan, dims)
        numbers = self.numbers
        self.spans = plan.at_one_go
        for node in plan.called:
            _check_called(node, dims)
        scratch = max([numbers[place] for place in plan.scratch], default=0)
        self.scratch_bytes = -(-scratch // 64) * 64
        counted, keep = plan.tasks.get, plan.tasks.keep
        counts = [
            counted(key := (at, *[dims.get(name, 0) for name in alike.names]))
            or keep(key, self._tasks(alike))
            for at, alike in enumerate(plan.alike)
        ]
        rows = np.array([plan.no_tasks, *counts], np.int64)
        self.tasks = rows.take(plan.alike_of, 0).reshape(-1)
        """How many tasks each phase of each launch has; negative where one thread does them."""
        self._dims = np.array([dims.get(name, 0) for name in plan.list.dims] or [0], np.int64)
        limits = {"scratch_bytes": self.scratch_bytes, "no_return": plan.no_return}
        lists = plan.values_at, address_of(self._dims), plan.launches_at, address_of(self.tasks)
        self.run = RunRecord(*lists, **limits)
        self.address = ctypes.addressof(self.run)
        self._packs: Stage = "passing"
        """What the last run did about copies of weights."""

    def _tasks(self, alike: AlikeWorks) -> list[int]:
        numbers = self.numbers
        counts = [numbers[place] for place in alike.tasks]
        if max(counts) > 1 and self._is_short(alike):
            counts = [-count for count in counts]
        else:
            for at, phase in enumerate(alike.kernel.phases):
                if phase.work is not None and counts[at] * phase.work < SHORT_WORK:
                    counts[at] = -counts[at]
        return [*counts, *self.plan.no_tasks[len(counts) :]]

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
        numbers = self.numbers
        if sum([numbers[place] for place in alike.touched]) >= SHORT_BYTES:
            return False
        return self.plan.flops(alike.kernel, self.dims) < SHORT_FLOPS

    @cached_property
    def _other_tasks(self) -> Array:
        """How many tasks each phase has where copies of weights are there already."""
        tasks = self.tasks.copy()
        for at, number in [pack.phase for pack in self.plan.packs.packs]:
            tasks[at * self.plan.list.most_phases + number] = 0
        return tasks

    def locate(
        self, arena: MemoryBlock, scratch: MemoryBlock | None, packs: Stage = "passing"
    ) -> None:
        """Fill in the addresses of the values in the arena, and of copies that are kept."""
        plan, placed = self.plan, self.placed
        if plan.located != (arena, placed) or packs != self._packs:
            plan.values[placed.slots] = placed.offsets + arena.address
            if packs != "passing":
                plan.values[plan.packs.slots] = plan.packs.addresses
            self.run.tasks = address_of(self._other_tasks if packs == "kept" else self.tasks)
            plan.located, self._packs = (arena, placed), packs
        self.run.scratch = 0 if scratch is None else scratch.address


class CPUPlan(RunPlan[CPUBound]):
    """The steps of a kind of run on the CPU, and where their values live."""

    bound_type = CPUBound

    def __init__(self, work: Worklist, asked: RunRequest) -> None:
        super().__init__(work, asked)
        self.at_one_go = self.spans()
        self.values = np.zeros(max(1, len(work.slots)), np.uintp)
        """Where each slot is in the run under way: a program has one at a time."""
        self.located: tuple[MemoryBlock, PlacedMemory] | None = None
        """The arena, and the places in it, for which they are filled in."""
        self.launches = np.array([self.number_of(at) or 0 for at in self.works] or [0], np.int32)
        """For each work the number of its launch in the source."""
        self.values_at, self.launches_at = address_of(self.values), address_of(self.launches)
        self.called = [at.node for at in self.works if isinstance(at.node.op, UserKernel)]
        self.no_tasks = [0] * work.most_phases
        self._flops: dict[str, Numbers] = {}
        sizes = {value.id: value.bytes for value in self.plan.program.values}
        self.alike: list[AlikeWorks] = []
        self.tasks = Remembered[tuple[int, ...], list[int]](MOST_COUNTS)
        """The tasks of alike works, by the sizes that they depend on."""
        self.alike_of = np.zeros(len(self.works), np.intp)
        """For each work its place in `alike`, from 1 on; 0 for what NumPy does."""
        places: dict[tuple[str, tuple[Dim, ...]], int] = {}
        place = self.numbers.place
        for at, node_work in enumerate(self.works):
            kernel = self.kernel_of(node_work)
            if kernel is not None:
                touched = tuple([sizes[slot] for slot in (*node_work.reads, *node_work.makes)])
                number = places.setdefault((kernel.name, touched), len(places) + 1)
                if number > len(self.alike):
                    tasks = tuple([place(phase.tasks) for phase in kernel.phases])
                    names = _depends_on(kernel, touched)
                    self.alike.append(AlikeWorks(kernel, tasks, tuple(map(place, touched)), names))
                self.alike_of[at] = number
        self.scratch = sorted({place(alike.kernel.scratch) for alike in self.alike})
        """The bytes that each thread needs, by their places among the numbers."""
        self.input_of = {slot: node for node, slot in self.inputs}
        self.carried = [pair for pair in self.inputs if pair[1] in self.owned]
        """The inputs that a run writes over."""
        self.returned: CarriedArrays | None = None
        """What the last run has written over them."""
        self.pointers = InputPointers([pair for pair in self.inputs if pair[1] not in self.owned])
        """Where the others are."""
        self.packs = KeptPacks(self)
        """The copies of weights that are kept."""

    def flops(self, kernel: Kernel, dims: Mapping[str, int]) -> int:
        """Return how many operations on numbers a kernel takes."""
        numbers = self._flops.get(kernel.name)
        if numbers is None:
            numbers = self._flops[kernel.name] = Numbers()
            numbers.place(kernel.open_flops)
        return numbers.of(dims)[0]


def _depends_on(kernel: Kernel, touched: Iterable[Dim]) -> tuple[str, ...]:
    """Return the dims that the tasks, the operations and the bytes of a kernel depend on."""
    own = kernel.cost[:1] if kernel.definition is None else (*kernel.definition.dims.values(),)
    dims = *touched, *own, *[phase.tasks for phase in kernel.phases]
    return tuple(dict.fromkeys([symbol.name for dim in dims for symbol in symbols(dim)]))


def _check_called(node: Node, dims: Mapping[str, int]) -> None:
    """Raise if a user's kernel would never be called, and so would not write its outputs."""
    if isinstance(node.op, UserKernel):
        try:
            check_tasks(node.op, dims)
        except LabError as error:
            error.where = error.where or str(node.meta.origin or "") or None
            raise
