"""A CPU program on trial: its runs in a child process, before its kernels are trusted.

Each run is done in two ways, each of them twice, on memory that held other bytes before:

- *apart*: every value has memory of its own between pages that nobody may touch, a launch may write
  its results and nothing else, and tasks run one after another, forwards and backwards; the library
  checks itself with all the sanitizers that the compiler has;
- *as it is*: by the very library that Python would call, with its threads and its arena.

What either finds is an error that names the kernel, and its line. The values of both are returned.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import NodeStep
from luminal_lab.core.ir import Node
from luminal_lab.core.ops import UserKernel
from luminal_lab.devices.build.toolchain import source_excerpt, window
from luminal_lab.devices.cpu.plan import CPUPlan
from luminal_lab.devices.cpu.run import CPURun
from luminal_lab.devices.cpu.trial import (
    FILLS,
    FLOPS,
    SECONDS,
    Area,
    Died,
    TrialJob,
    TrialProcess,
    difference,
)
from luminal_lab.devices.cpu.trial_build import Builds
from luminal_lab.devices.cpu.trial_report import INDEX, ArrayName, words
from luminal_lab.devices.runtime.plan import LaunchSpan, NumpyType
from luminal_lab.devices.runtime.run import RunData
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.user.kernel import as_written

if TYPE_CHECKING:
    from pathlib import Path

    from luminal_lab.devices.cpu.program import CPUProgram


class CPUTrial(CPURun):
    """One way to run a program in a child process."""

    def __init__(
        self,
        program: CPUProgram,
        plan: CPUPlan,
        given: RunData,
        builds: Builds,
        library: Path,
        source: str,
        *,
        apart: bool,
    ) -> None:
        super().__init__(program, plan, given)
        environment = given.environment
        self.builds, self.apart, self.source = builds, apart, source
        self.areas: list[Area] = []
        self.place_of: dict[int, tuple[int, int]] = {}
        """The area and the offset of each slot."""
        self.given: list[tuple[int, Array]] = []
        """The arrays given to a run, each with its area."""
        self.scratch = self._lay_out()
        works, slots = plan.works, plan.list.slots
        flops = sum(k.flops(environment.dims) for w in works if (k := plan.kernel_of(w)))
        self.job = TrialJob(
            library,
            self.areas,
            [self.place_of.get(slot) for slot in range(len(slots))],
            [plan.number_of(work) or 0 for work in works],
            self.bound.tasks.tolist(),
            [environment.dims.get(name, 0) for name in plan.list.dims],
            self._writes() if apart else None,
            self.scratch,
            self.bound.scratch_bytes,
            1 if apart else program.threads,
            environment.step & 0xFFFFFFFF,
            plan.no_return,
            SECONDS + flops / FLOPS,
        )

    # -- memory ------------------------------------------------------------------------------------

    def _area(self, size: int, *slots: int, writable: bool = True) -> int:
        self.areas.append(Area(size, writable))
        at = len(self.areas) - 1
        self.place_of.update((slot, (at, 0)) for slot in slots)
        return at

    def _lay_out(self) -> int | None:
        """Give each value an area; return that of the threads' own memory."""
        plan, bound = self.plan, self.bound
        sizes, data = bound.memory.bytes, self.environment.data
        givens = [(slot, data(node)) for node, slot in plan.inputs]
        givens += [(slot, self.known[id]) for id, slot in plan.known]
        for slot, array in givens:
            if slot in self.place_of:
                continue
            array = np.require(array, requirements=("C", "A"))
            over = () if self.apart else plan.owned.get(slot, ())
            area = self._area(array.nbytes, slot, *over, writable=bool(over))
            self.given.append((area, array))
        if self.apart:
            for work, own in zip(plan.works, plan.locals, strict=True):
                for slot in (*own, *work.makes):
                    if slot not in self.place_of:
                        self._area(sizes[slot], slot)
        else:
            for slots, size in bound.outputs:
                self._area(size, *slots)
            if bound.memory.offsets:
                arena = self._area(bound.memory.arena_bytes)
                offsets = bound.memory.offsets.items()
                self.place_of.update((slot, (arena, offset)) for slot, offset in offsets)
        if not bound.scratch_bytes:
            return None
        return self._area(bound.scratch_bytes * (1 if self.apart else self.program.threads))

    def _writes(self) -> list[list[int]]:
        """Return the areas that each launch may write."""
        own = [] if self.scratch is None else [self.scratch]
        return [
            [*dict.fromkeys(self.place_of[slot][0] for slot in (*locals_, *work.makes)), *own]
            for work, locals_ in zip(self.plan.works, self.plan.locals, strict=True)
        ]

    @override
    def array(self, slot: int, shape: tuple[int, ...], dtype: NumpyType) -> Array:
        area, offset = self.place_of[slot]
        return self.trial.array(area, shape, dtype, offset)

    @override
    def results(self) -> dict[int, Array]:
        return self.returned(self.bound.results)  # which lie in no block of the program's

    @override
    def fetched(self, id: int, slot: int, shape: tuple[int, ...], dtype: NumpyType) -> Array:
        return self.array(slot, shape, dtype).copy()

    # -- running -----------------------------------------------------------------------------------

    @override
    def run(self, trace: list[NodeStep] | None) -> dict[int, Array]:
        values: list[dict[int, Array]] = []
        written: list[list[Array]] = []
        with TrialProcess(self.builds, self.job, checked=self.apart) as self.trial:
            for self.fill in FILLS:
                self.trial.prepare(self.fill, self.given)
                self.work()
                values.append(self.passed() | self.results())
                written.append([array.copy() for _, _, array in self._made()] if self.apart else [])
            names = [(at, name) for at, name, _ in self._made()] if self.apart else []
        for (at, name), first, other in zip(names, *written, strict=True):
            self._check_same(at, name, first, other)
        for id in values[0]:
            self._check_same(None, str(self.ir[id]), values[0][id], values[1][id])
        return values[0]

    @contextmanager
    def _told(self) -> Generator[None]:
        """Report a death as an error of the kernel that was running."""
        try:
            yield
        except Died as died:
            at = died.death.launch
            raise self._error(at, *words(self.trial, died.death, self._names(at))) from None

    def _made(self) -> Iterator[tuple[int, str, Array]]:
        """Yield the number of each work, and its results, with their names and their bytes."""
        for at, work in enumerate(self.plan.works):
            names = self._names(at)
            for slot in work.makes:
                type = self.plan.list.slots[slot].type
                assert type is not None, "what is made has a type"
                name = names[self.place_of[slot][0]].name
                yield at, name, self.array(slot, *self.bound.shape_of(type))

    @override
    def launch(self, span: LaunchSpan) -> None:
        for at in range(span.first, span.last) if self.apart else (None,):
            begin, end = (span.first, span.last) if at is None else (at, at + 1)
            with self._told():
                done = self.trial.run(begin, end, backwards=self.fill == FILLS[1])
            if done < end - begin:
                raise self.out_of_range(self.plan.works[begin + done].node, has_written=False)
            area = self.trial.overwritten(self.fill)
            if area is not None:
                names = {} if at is None else self._names(at)
                name = names[area].name if area in names else "memory of another value"
                raise self._error(at, f"it writes before {name}", None, INDEX)

    def _check_same(self, at: int | None, name: str, first: Array, other: Array) -> None:
        """Raise unless two runs on memory that held different bytes have the same results."""
        told = difference(name, first, other, "each task")
        if told is not None:
            event, hint = told
            raise self._error(at, event, None, hint)

    # -- names -------------------------------------------------------------------------------------

    def _names(self, at: int) -> dict[int, ArrayName]:
        """Return the names that a launch uses for its areas."""
        work, kernel = self.plan.works[at], self.plan.kernel_of(self.plan.works[at])
        slots = self.plan.list.slots
        names = list(kernel.names if kernel is not None else ())
        buffers = (*work.reads, *work.makes)
        if len(names) != len(buffers):
            names = [f"%{slots[slot].name}" for slot in buffers]
        names_by_area: dict[int, ArrayName] = {}
        pairs = [*zip(buffers, names, strict=True)]
        pairs += [(slot, slots[slot].name) for slot in self.plan.locals[at]]
        for slot, name in pairs:
            type = slots[slot].type
            area, _ = self.place_of[slot]
            itemsize = 1 if type is None else type.dtype.itemsize
            names_by_area.setdefault(area, ArrayName(name, itemsize, slot in work.reads))
        if self.scratch is not None:
            names_by_area.setdefault(
                self.scratch, ArrayName("the memory of its thread", 1, is_input=False)
            )
        return names_by_area

    def _excerpt(self, node: Node | None, line: int) -> str:
        """Return a line among its neighbours: as the user wrote it, or in the program."""
        op = None if node is None else node.op
        own = as_written(op, self.source, line) if isinstance(op, UserKernel) else None
        return window(*own) if own else source_excerpt(self.source, line, self.program.behind)

    def _error(self, at: int | None, event: str, line: int | None, hint: str) -> DeviceError:
        kernel: Kernel | None = None if at is None else self.plan.kernel_of(self.plan.works[at])
        subject = "the program" if kernel is None else f"kernel {kernel.name}"
        node = None if at is None else self.plan.works[at].node
        where = [] if line is None else [self._excerpt(node, line)]
        origin = None if node is None else node.meta.origin
        if origin is not None and str(origin) not in "".join(where):
            where.append(f"from {origin}")
        return DeviceError(f"{subject}: {event}", where="\n".join(where) or None, hint=hint)
